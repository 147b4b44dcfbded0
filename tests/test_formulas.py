"""Formulas: grammar, evaluation against Python's own arithmetic, and hostile texts."""

from __future__ import annotations

import copy
import math
import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.model.formulas import (
    MAX_NESTING,
    MAX_TEXT,
    THREAD_VALUE,
    Call,
    Expression,
    FormulaError,
    Number,
    Variable,
    evaluate,
    parse,
    render,
    renumber,
)

ONE_ARGUMENT = ("neg", "sqrt", "ln", "floor", "ceil", "log", "min", "max", "sum")
TWO_ARGUMENTS = ("+", "-", "*", "/", "^", "log", "min", "max", "sum")
THREE_ARGUMENTS = ("min", "max", "sum")

finite = st.floats(allow_nan=False, allow_infinity=False)
leaves = (
    st.builds(Number, finite)
    | st.builds(Variable, st.integers(-(10**17), 10**17))
    | st.builds(Variable, st.integers(0, 2))
    | st.just(THREAD_VALUE)
)


def calls_over(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    def calls(names: tuple[str, ...], count: int) -> st.SearchStrategy[Expression]:
        return st.builds(Call, st.sampled_from(names), st.tuples(*[inner] * count))

    return calls(ONE_ARGUMENT, 1) | calls(TWO_ARGUMENTS, 2) | calls(THREE_ARGUMENTS, 3)


expressions = st.recursive(leaves, calls_over, max_leaves=25)


@given(expressions)
def test_rendered_text_parses_back_to_an_equal_tree(expression: Expression) -> None:
    again = parse(render(expression))
    assert again == expression
    assert hash(again) == hash(expression)
    assert render(again) == render(expression)


@given(expressions)
def test_pickling_and_copying_keep_the_tree(expression: Expression) -> None:
    assert pickle.loads(pickle.dumps(expression)) == expression
    assert copy.deepcopy(expression) == expression


@given(expressions, expressions)
def test_equal_means_same_text(left: Expression, right: Expression) -> None:
    # Both zeros are equal numbers, but different texts.
    if "-0" not in render(left) + render(right):
        assert (left == right) == (render(left) == render(right))


def reference(expression: Expression, columns: dict[int, float], thread: float) -> float:
    """One value in Python floats; NaN is "no value"."""
    if isinstance(expression, Number):
        return float(expression.value)
    if isinstance(expression, Variable):
        return thread if expression.id is None else columns[expression.id]
    assert isinstance(expression, Call)
    values = [reference(arg, columns, thread) for arg in expression.args]
    if any(math.isnan(v) for v in values):
        return math.nan
    try:
        return reference_call(expression.name, values)
    except (ZeroDivisionError, ValueError):
        return math.nan


def reference_call(name: str, v: list[float]) -> float:
    if name in ("floor", "ceil") and math.isinf(v[0]):
        return v[0]
    if name == "log" and len(v) == 2:
        return math.log(v[0]) / math.log(v[1])
    if name == "sum":
        return sum(v[1:], v[0])
    functions = {"+": lambda: v[0] + v[1], "-": lambda: v[0] - v[1], "*": lambda: v[0] * v[1], "/": lambda: v[0] / v[1]}
    functions |= {"^": lambda: math.pow(v[0], v[1]), "neg": lambda: -v[0], "sqrt": lambda: math.sqrt(v[0])}
    functions |= {"ln": lambda: math.log(v[0]), "log": lambda: math.log(v[0]), "min": lambda: min(v)}
    functions |= {
        "max": lambda: max(v),
        "floor": lambda: float(math.floor(v[0])),
        "ceil": lambda: float(math.ceil(v[0])),
    }
    return functions[name]()


small = st.sampled_from([0.0, 1.0, -1.0, 2.0, 0.5, 3.0, -2.5, 10.0])
small_leaves = st.builds(Number, small) | st.builds(Variable, st.integers(0, 2)) | st.just(THREAD_VALUE)


@given(
    st.recursive(small_leaves, calls_over, max_leaves=8),
    st.lists(st.tuples(small, small, small, small), min_size=1, max_size=5),
)
def test_evaluation_agrees_with_python(expression: Expression, rows: list[tuple[float, float, float, float]]) -> None:
    table = np.array(rows)
    columns = {0: table[:, 0], 1: table[:, 1], 2: table[:, 2]}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = evaluate(expression, columns, table[:, 3])
    assert result.shape == (len(rows),)
    for value, row in zip(result, rows, strict=True):
        try:
            expected = reference(expression, dict(enumerate(row[:3])), row[3])
        except OverflowError:
            continue  # Python refuses what doubles call infinite
        assert value == pytest.approx(expected, rel=1e-9, abs=1e-300, nan_ok=True)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1+2*3", 7),
        ("(1+2)*3", 9),
        ("2^3^2", 512),
        ("(2^3)^2", 64),
        ("-2^2", -4),
        ("(-2)^2", 4),
        ("2^-1", 0.5),
        ("2^-1*4", 2),
        ("8/4/2", 1),
        ("8-4-2", 2),
        ("8-(4-2)", 6),
        ("--3", 3),
        ("2*-3", -6),
        ("-2*3", -6),
        ("1 - -1", 2),
        ("log(8, 2)", 3),
        ("log(1)", 0),
        ("ln(1)", 0),
        ("min(3, 1, 2) + max(3, 1, 2)", 4),
        ("sum(1,2,3)", 6),
        ("floor(-1.5) + ceil(1.2)", 0),
        ("sqrt( 16 )", 4),
        (" .5 + 5. + 1e+01\t-\n1E-01 ", 15.4),
    ],
)
def test_grammar(text: str, value: float) -> None:
    assert evaluate(parse(text), {}) == pytest.approx(value)


def test_trees_of_the_formulas_that_files_hold() -> None:
    assert parse("$$") == THREAD_VALUE
    assert parse("($$^2)") == Call("^", (THREAD_VALUE, Number(2)))
    assert parse("$11-$-8") == Call("-", (Variable(11), Variable(-8)))
    assert parse("sum($1, $1)") == Call("sum", (Variable(1), Variable(1)))
    assert parse("-1") == Number(-1)
    assert parse("-(1)") == Call("neg", (Number(1),))
    assert parse("sqrt($7/$4-($1/$4)^2)").variables() == {1, 4, 7}
    assert parse("$$ + 1").variables() == frozenset()


def test_negation_of_a_number_is_not_the_negative_number() -> None:
    assert render(Call("neg", (Number(2),))) == "-(2)"
    assert render(Number(-2)) == "-2"
    assert render(parse("1-(2-3)")) == "1-(2-3)"
    assert render(parse("((1-2)-3)")) == "1-2-3"


def test_no_value_where_mathematics_has_none() -> None:
    columns = {1: np.array([1.0, 0.0, 4.0, -4.0]), 2: np.array([0.0, 0.0, 2.0, 2.0])}
    nan = np.nan
    np.testing.assert_array_equal(evaluate(parse("$1/$2"), columns), [nan, nan, 2, -2])
    np.testing.assert_array_equal(evaluate(parse("$2^-1"), columns), [nan, nan, 0.5, 0.5])
    np.testing.assert_array_equal(evaluate(parse("sqrt($1)"), columns), [1, 0, 2, nan])
    np.testing.assert_array_equal(evaluate(parse("1^sqrt($1) + sqrt($1)^0"), columns), [2, 2, 2, nan])
    np.testing.assert_array_equal(evaluate(parse("ln($2) * 0"), columns), [nan, nan, 0, 0])
    np.testing.assert_array_equal(evaluate(parse("log($1, 1)"), columns), [nan] * 4)
    np.testing.assert_array_equal(evaluate(parse("min(100, max(0, $1/$2))"), columns), [nan, nan, 2, 0])


def test_result_is_a_new_array_of_doubles() -> None:
    column = np.array([1, 2, 3])
    result = evaluate(parse("$1"), {1: column})
    assert result.dtype == np.float64
    result[0] = 99
    doubles = column.astype(np.float64)
    evaluate(parse("$1"), {1: doubles})[0] = 99
    assert column[0] == 1
    assert doubles[0] == 1


def test_shapes() -> None:
    matrix = np.ones((2, 3))
    assert evaluate(parse("$1 + $2"), {1: matrix, 2: np.arange(3.0)}).shape == (2, 3)
    assert evaluate(parse("1"), {1: matrix}).shape == ()
    assert evaluate(parse("1"), {}, matrix).shape == (2, 3)


def test_missing_columns() -> None:
    with pytest.raises(KeyError, match="7"):
        evaluate(parse("$7"), {1: np.ones(1)})
    with pytest.raises(ValueError, match="needs the values of a thread"):
        evaluate(parse("$$^2"), {})


def test_renumbering() -> None:
    assert renumber(parse("$0/$1+$$"), {0: 12, 1: -3}) == parse("$12/$-3+$$")
    with pytest.raises(KeyError):
        renumber(parse("$0/$1"), {0: 12})


@pytest.mark.parametrize(
    ("text", "position", "expected"),
    [
        ("", 0, "a number"),
        ("  ", 2, "a number"),
        ("1 +", 3, "a number"),
        ("1 2", 2, "an operator"),
        ("$1 $2", 4, "an operator"),
        ("(1", 2, r"'\)'"),
        ("1)", 1, "an operator or the end"),
        ("1,2", 1, "an operator or the end"),
        ("(1,2)", 2, r"'\)'"),
        ("sum()", 4, "a number"),
        ("sum(1,)", 6, "a number"),
        ("sqrt(1,2)", 8, "sqrt with 1 argument, not 2"),
        ("log(1,2,3)", 9, "log with 1 or 2 arguments, not 3"),
        ("sin(1)", 0, "a known function"),
        ("neg(1)", 0, "a known function"),
        ("sum", 0, "a number"),
        ("+1", 0, "a number"),
        ("$x", 0, "a number"),
        ("$", 0, "a number"),
        ("$$$$", 2, "an operator"),
        ("1e999", 0, "the range of a double"),
        ("$" + "9" * 5000, 0, "a number"),
        ("2e", 1, "an operator"),
        ("1;2", 1, "an operator"),
        ("__import__('os')", 0, "a number"),
        ("\u0663", 0, "a number"),  # an Arabic digit
        ("1+\x00", 2, "a number"),
    ],
)
def test_refused_texts_name_the_place(text: str, position: int, expected: str) -> None:
    with pytest.raises(FormulaError, match=expected) as caught:
        parse(text)
    assert caught.value.position == position
    assert f"character {position + 1}" in str(caught.value)
    assert len(str(caught.value)) < 300
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize("opening", ["(", "-", "sqrt(", "2^", "1-(", "max(1,"])
def test_nesting_is_limited(opening: str) -> None:
    closing = ")" if "(" in opening else ""
    depth = MAX_NESTING if opening != "1-(" else MAX_NESTING // 2
    fits = opening * (depth - 1) + "$1" + closing * (depth - 1)
    assert parse(render(parse(fits))) == parse(fits)
    with pytest.raises(FormulaError, match=f"at most {MAX_NESTING} levels"):
        parse(opening * (depth + 1) + "$1" + closing * (depth + 1))
    with pytest.raises(FormulaError):
        parse(opening * (MAX_TEXT // len(opening)))


def test_length_is_limited_but_long_sums_are_not_nested() -> None:
    text = "+".join(["$1"] * 20_000)
    expression = parse(text)
    assert evaluate(expression, {1: np.array([1.0, 2.0])}).tolist() == [20_000, 40_000]
    assert render(expression) == text
    assert expression == pickle.loads(pickle.dumps(expression))
    assert repr(expression).startswith("parse('$1+$1")
    assert parse("1" * 300 + " " * (MAX_TEXT - 300)) == Number(float("1" * 300))
    with pytest.raises(FormulaError, match="at most 65536 characters"):
        parse(" " * MAX_TEXT + "1")


@given(st.text(alphabet="0123456789.eE$-+*/^(), sqrtlogminaxufcx\n\u00b2", max_size=60))
def test_any_text_parses_or_is_refused(text: str) -> None:
    try:
        expression = parse(text)
    except FormulaError:
        return
    assert parse(render(expression)) == expression


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_are_finite(value: float) -> None:
    with pytest.raises(ValueError, match="cannot hold"):
        Number(value)


def test_calls_are_checked_when_made() -> None:
    with pytest.raises(ValueError, match="no function 'eval'"):
        Call("eval", (Number(1),))
    with pytest.raises(ValueError, match="takes 2 arguments, not 3"):
        Call("+", (Number(1), Number(2), Number(3)))
    with pytest.raises(ValueError, match="at least 1 argument"):
        Call("sum", ())
