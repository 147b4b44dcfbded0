"""Regular expressions of CubePL: the same answers as backtracking gives, in linear time."""

from __future__ import annotations

import pickle
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.model.cubepl.patterns import LONGEST_PATTERN, Pattern, PatternError


def occurs(pattern: str, text: str) -> bool:
    return Pattern(pattern).occurs_in(text)


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("^MPI_(S|R)e(nd|cv)$", "MPI_Send", "MPI_Sendrecv"),
        ("send", "MPI_Isend_x", "MPI_Send"),  # anywhere, and case matters
        ("^a{0,1}b$", "ab", "aab"),
        ("^a{2}$", "aa", "aaa"),
        ("^a{2,}$", "aaaa", "a"),
        ("^a{1,3}$", "aaa", "aaaa"),
        ("^(@.*)?$", "@x y", "x"),
        ("a.c", "abc", "a\nc"),
        ("^[0-9]+$", "123", "12a"),
        ("^[^0-9]$", "x", "7"),
        ("^[a-c-]+$", "a-c", "d"),
        ("^[[:alpha:]_]+$", "a_B", "a1"),
        (r"^[\d\-x]+$", "1-x", "y"),
        (r"^[\D]$", "x", "1"),
        (r"\bmpi\b", "x mpi y", "xmpi"),
        (r"a\Bb", "ab", "a b"),
        (r"^\w+\s\S\W$", "ab x-", "ab xy"),
        (r"^\x41\u0042\t$", "AB\t", "ABt"),
        (r"^\$\.\*$", "$.*", "$x*"),
        ("^(?:ab)+?$", "abab", "aba"),
        ("x|^$", "", "y"),
        ("$", "anything", None),
        ("", "", None),
        ("^((a*)*|b)*$", "aaab", "c"),
        ("a$", "ba", "ab\na\n"),
    ],
)
def test_constructs(pattern: str, yes: str, no: str | None) -> None:
    assert occurs(pattern, yes)
    assert no is None or not occurs(pattern, no)


@pytest.mark.parametrize(
    "pattern", ["(", ")", "a)", "[a", "*", "a**", "+", "a{2,1}", "[z-a]", "\\", "[[:what:]]", "(?x)"]
)
def test_broken_ones(pattern: str) -> None:
    with pytest.raises(PatternError) as error:
        Pattern(pattern)
    assert error.value.is_broken


@pytest.mark.parametrize(
    "pattern",
    [r"(a)\1", "(?=a)", "(?!a)", "(" * 101 + ")" * 101, "((a{1000}){1000}){1000}", "a" * (LONGEST_PATTERN + 1)],
)
def test_unsupported_ones(pattern: str) -> None:
    with pytest.raises(PatternError) as error:
        Pattern(pattern)
    assert not error.value.is_broken


def test_no_pattern_backtracks() -> None:
    """Each would take Python's own `re` longer than the universe has existed."""
    for pattern, text in (
        ("(a+)+$", "a" * 5000 + "b"),
        ("^(a|a)*$", "a" * 5000 + "b"),
        ("(a?){200}a{200}$", "a" * 199 + "b"),
        ("(.*)*x(.*)*y", "z" * 5000),
    ):
        assert not occurs(pattern, text)


def test_work_is_bounded() -> None:
    """States times characters: a pattern of many states over a long text gives up."""
    with pytest.raises(PatternError, match="too long"):
        Pattern("a[ab]{5000}$").occurs_in("".join(random.Random(1).choices("ab", k=8000)))


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callgrove.model.cubepl.patterns.MAX_KNOWN", 3)
    pattern = Pattern("^(ab|cd|ef)+$")
    for text in ("abcdef" * 5, "abab", "abc", "efcdab"):
        assert pattern.occurs_in(text) == bool(re.search(pattern.source, text))
        assert len(pattern._known) <= 3


def test_they_travel() -> None:
    pattern = pickle.loads(pickle.dumps(Pattern("^a+$")))
    assert pattern == Pattern("^a+$")
    assert hash(pattern) == hash(Pattern("^a+$"))
    assert pattern.occurs_in("aa")


ATOMS = st.sampled_from(["a", "b", "_", ".", "[ab]", "[^a]", r"\w", r"\W", "^", "$", r"\b", r"\B"])
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"(?:{pair[0]}|{pair[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{0,1}", "{2}", "{1,2}"])).map(lambda p: f"(?:{p[0]}){p[1]}"),
    ),
    max_leaves=8,
)


@given(PATTERNS, st.text("ab_ ", min_size=1, max_size=8))
def test_the_same_as_backtracking(pattern: str, text: str) -> None:
    assert occurs(pattern, text) == bool(re.search(pattern, text))
