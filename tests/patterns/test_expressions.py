"""Globs and regular expressions find what Python's do, and never take for ever."""

from __future__ import annotations

import re
import warnings
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.patterns.expressions import compile_name, match_texts
from callgrove.patterns.syntax import NameTest, PatternError


@given(st.text("ab*?", max_size=8), st.text("ab\n", max_size=12))
def test_globs(glob: str, name: str) -> None:
    assert compile_name(NameTest("glob", glob), glob)(name) == fnmatchcase(name, glob)


def test_brackets_are_no_classes() -> None:
    holds = compile_name(NameTest("glob", "f[abi:*]"), "")
    assert holds("f[abi:cxx11]")
    assert not holds("fa")


@given(st.text("ab(|)*+?.^$[]-", max_size=8), st.text("abAB", max_size=10), st.booleans())
def test_regular_expressions(regex: str, name: str, ignores_case: bool) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of sets that may one day be nested
            expected = re.compile(regex, re.IGNORECASE if ignores_case else 0).search(name) is not None
        found = compile_name(NameTest("regex", regex, 0, ignores_case), regex)(name)
    except (re.error, PatternError):
        return
    assert found == expected


@pytest.mark.parametrize(
    ("regex", "words"),
    [
        ("MPI_(", r"'/MPI_\(/' at character 1 is not a regular expression: missing \)"),
        (r"(a)\1", "is not supported"),
        ("(?=a)", "is not supported"),
        ("(?i)a", "is not supported"),
        ("a++", "is not supported"),
        (r"\Aa", r"is not supported: it has \\A"),
        ("[]a]", r"is not supported: it has \[\]"),
        ("a{9999}{9999}", "is no|is not supported"),
    ],
)
def test_what_is_refused(regex: str, words: str) -> None:
    with pytest.raises(PatternError, match=words):
        compile_name(NameTest("regex", regex), f"/{regex}/")


@pytest.mark.parametrize("regex", ["(a+)+$", "^(a|a)*$", ".*.*.*.*.*x", "(a*)*b"])
def test_hostile_expressions_end(regex: str) -> None:
    """Python's would take longer than anybody waits."""
    names = ["a" * 3000 + "!"]
    assert match_texts(NameTest("regex", regex), regex, names).tolist() == [False]
