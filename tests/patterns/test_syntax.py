"""Texts become steps and conditions, or an error that names the place."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.errors import UsageError
from callgrove.patterns.syntax import (
    ColumnValue,
    Comparison,
    Joined,
    Mark,
    NameTest,
    NumberValue,
    PatternError,
    Step,
    TextValue,
    parse_condition,
    parse_pattern,
)


def test_steps() -> None:
    steps = parse_pattern('main->  ** ->MPI_*[?leaf]-> "a -> b" -> /x+/i -> operator[] -> f[abi:cxx11]').steps
    assert [step.many for step in steps] == [False, True, False, False, False, False, False]
    assert steps[0] == Step(NameTest("glob", "main", 0))
    assert steps[1] == Step(None, many=True, position=8)
    assert steps[2] == Step(NameTest("glob", "MPI_*", 13), Mark(20, "leaf"), position=13)
    assert steps[3].name == NameTest("exact", "a -> b", 28)
    assert steps[4].name == NameTest("regex", "x+", 40, ignores_case=True)
    assert [step.name.text for step in steps[5:] if step.name] == ["operator[]", "f[abi:cxx11]"]


def test_conditions() -> None:
    test = parse_condition("a > 5% and (name = 'it''s' or not excl(`my metric`) >= -2ms)")
    assert isinstance(test, Joined)
    assert test.word == "and"
    assert test.parts[0] == Comparison(0, ">", ColumnValue(0, "a"), NumberValue(4, 5, "%"))
    either = test.parts[1]
    assert isinstance(either, Joined)
    assert either.word == "or"
    assert either.parts[0] == Comparison(12, "=", ColumnValue(12, "name"), TextValue(19, "it's"))
    assert either.parts[1].part.left == ColumnValue(39, "my metric", "excl")  # type: ignore[union-attr]
    assert either.parts[1].part.right == NumberValue(55, -2, "ms")  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("solve -> -> kernel", "expected a name at character 10 of 'solve -> -> kernel'"),
        ("solve[?time > ]", "expected a value at character 15 of 'solve[?time > ]'"),
        (
            '*[?name = "main"]',
            "expected a value at character 11 of '*[?name = \"main\"]'; a text stands in single quotes, like 'main'",
        ),
        ("", "expected a name at character 1 of ''"),
        ("a ->", "expected a name at character 5 of 'a ->'"),
        ("a[?leaf]b", "expected '->' or the end at character 9"),
        ("a[?leaf", "expected 'and', 'or' or ']' at character 8"),
        ("a[?time]", "expected =, !=, <, <=, >, >=, ~, !~ or 'is' at character 8"),
        ("a[?name ~ x]", "expected a /regular expression/ at character 11"),
        ("a[?name is gone]", "expected 'missing' or 'not missing' at character 12"),
        ("a[?excl(5) > 3]", "expected a metric at character 9"),
        ("a[?excl(x > 3]", "expected ')' at character 11"),
        ("a[?- > 3]", "expected a number at character 6"),
        ("/a", "expected the '/' that ends a regular expression at character 3"),
        ("/a/b", "expected '->', '[?' or the end at character 4"),
        ('"a', "expected a name that ends with '\"' at character 1"),
        ("*[?" + "(" * 60, "nested more than 50 deep at character 54"),
        ("a -> " * 64 + "a", "more than 64 steps at character 318"),
        ("a" * 5000, "has 5,000 characters; 4,096 are the most"),
    ],
)
def test_errors_name_the_place(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=re.escape(words)):
        parse_pattern(text)


def test_errors_can_be_sent_to_another_process() -> None:
    error = PatternError("expected a name", "a ->", 4)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def place_of_error(parse: Callable[[str], object], text: str) -> int:
    try:
        parse(text)
    except PatternError as error:
        return error.position
    return 0


@given(st.text(alphabet="ab*?/\"'`[]()<>=!~%-> ,5.andornotisleafroot", max_size=40))
def test_any_text_is_a_pattern_or_refused(text: str) -> None:
    assert 0 <= place_of_error(parse_pattern, text) <= len(text)
    assert 0 <= place_of_error(parse_condition, text) <= len(text)
