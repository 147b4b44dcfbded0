"""Metrics that a user defines: names, units, errors, and what is computed of R1."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.errors import NotEvaluated, UsageError
from callgrove.model.definitions import (
    MOST_LEVELS,
    DefinitionError,
    Names,
    UserFormula,
    define,
    find_defined_name,
    read_formula,
    with_metric,
)
from callgrove.model.derived import STATISTICS, Unavailable, When, derive_metric
from callgrove.model.formulas import (
    MAX_NESTING,
    MAX_TEXT,
    Call,
    Expression,
    Number,
    Operand,
    OverProfiles,
    Total,
    _power,
    render,
)
from callgrove.model.metrics import TAU_ATOMIC, Aggregation, Metric, Metrics, Scope
from tests.model.references import r1

METRICS = Metrics(
    (
        Metric("time", Scope.INCLUSIVE, "sec", source_id=1, id_of_quantity=True),
        Metric("visits", Scope.EXCLUSIVE, "occ", source_id=7, id_of_quantity=True),
        Metric("CPUTIME (sec)", Scope.EXCLUSIVE, "ms"),
        Metric("bytes", Scope.EXCLUSIVE, "Bytes"),
        Metric("perf::cycles", Scope.EXCLUSIVE),
        Metric("Time", Scope.EXCLUSIVE, "sec"),
        Metric("low", Scope.EXCLUSIVE, "sec", aggregation=Aggregation.MINIMUM),
        Metric("many", Scope.EXCLUSIVE, aggregation=Aggregation.COMPOSITE, composite=TAU_ATOMIC, dtype="TAU_ATOMIC"),
        Metric("odd ` name", Scope.EXCLUSIVE),
        Metric("x", Scope.FUNCTION, source_id=30),
        Metric("x", Scope.INCLUSIVE, source_id=31),
        Metric("x", Scope.INCLUSIVE, source_id=32, statistic="count"),
    )
)


def formula_of(text: str) -> UserFormula:
    return read_formula(METRICS, text).derivation


# -- what formulas say -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("time", Operand("time")),
        ("TIME", None),  # two that differ in case
        ("VISITS", Operand("visits")),
        ("cputime", Operand("CPUTIME (sec)")),
        ("`CPUTIME (sec)`", Operand("CPUTIME (sec)")),
        ("`odd `` name`", Operand("odd ` name")),
        ("perf::cycles", Operand("perf::cycles")),
        ("$1", Operand("time")),
        ("@1", Total("time")),
        ("$31", Operand("x", Scope.INCLUSIVE)),
        ("excl(time)", Operand("time", Scope.EXCLUSIVE)),
        ("incl(excl(time))", Operand("time", Scope.EXCLUSIVE)),
        ("total(time)", Total("time")),
        ("total(time / visits)", Call("/", (Total("time"), Total("visits")))),
        ("profiles.max(time)", OverProfiles("max", "time")),
        ("incl(profiles.max(time))", OverProfiles("max", "time", Scope.INCLUSIVE)),
        ("-2^2", Call("neg", (Call("^", (Number(2), Number(2))),))),
        ("-2", Number(-2)),
        ("time + CPUTIME", Call("+", (Operand("time"), Call("*", (Number(0.001), Operand("CPUTIME (sec)")))))),
    ],
)
def test_texts_are_trees(text: str, tree: Expression | None) -> None:
    if tree is None:
        with pytest.raises(DefinitionError, match="'TIME' fits 'time' and 'Time' at character 1"):
            formula_of(text)
    else:
        assert formula_of(text).tree == tree


@pytest.mark.parametrize(
    ("text", "when"),
    [
        ("time / visits", When.AFTER),
        ("each(time / visits)", When.EACH),
        ("(each_incl(time))", When.EACH_INCLUSIVE),
    ],
)
def test_when_a_formula_is_computed(text: str, when: When) -> None:
    assert formula_of(text).when == when
    assert formula_of(text).text == text


@pytest.mark.parametrize(
    ("text", "again"),
    [
        ("100 * $1 / @1", "100 * time / total(time)"),
        ("cputime+ VISITS*0", None),
        ("  Cputime  - time ", "`CPUTIME (sec)`  - time"),
        ("$31 + perf::cycles", "incl(x) + perf::cycles"),
    ],
)
def test_the_text_names_metrics_exactly_and_can_be_read_again(text: str, again: str | None) -> None:
    if again is None:
        with pytest.raises(DefinitionError, match="cannot add ms and occ at character 8"):
            formula_of(text)
        return
    made = formula_of(text)
    assert made.text == again
    assert formula_of(again) == made


def test_operands_are_named_once() -> None:
    assert formula_of("total(time) + profiles.max(time) + 2 * low").operands == ("time", "low")


@pytest.mark.parametrize(
    ("text", "linear"),
    [
        ("time", True),
        ("2 * time - CPUTIME / 4", True),
        ("-(time + sum(time, time)) * 2 / 3", True),
        ("0 * time", True),
        ("time / 0", False),
        ("time + 1", False),
        ("time * time", False),
        ("1 / time", False),
        ("excl(time)", False),
        ("total(time)", False),
        ("profiles.mean(time)", False),
        ("max(time, 0)", False),
        ("each(2 * time)", False),
        ("5", False),
    ],
)
def test_what_is_linear(text: str, linear: bool) -> None:
    assert formula_of(text).is_linear == linear


@pytest.mark.parametrize(
    ("text", "scope", "rule", "shares"),
    [
        ("a = 2 * time", Scope.EXCLUSIVE, Aggregation.SUM, True),
        ("a = 2 * low", Scope.NONE, Aggregation.NONE, False),
        ("a = time / visits", Scope.NONE, Aggregation.NONE, False),
        ("a = each(time / visits)", Scope.EXCLUSIVE, Aggregation.SUM, True),
        ("a = each_incl(time / visits)", Scope.INCLUSIVE, Aggregation.SUM, True),
    ],
)
def test_what_adds_up(text: str, scope: Scope, rule: Aggregation, shares: bool) -> None:
    made = define(METRICS, text)
    assert (made.name, made.scope, made.aggregation, made.show_percent) == ("a", scope, rule, shares)
    assert made.is_derived
    assert made.formula == text.partition(" = ")[2]


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("time / visits", "sec/occ"),
        ("visits / time", "occ/sec"),
        ("1 / time", "1/sec"),
        ("time * visits / time", "occ"),
        ("time / Time", ""),
        ("100 * time / total(time)", ""),
        ("CPUTIME - time", "ms"),
        ("max(6, time)", "sec"),
        ("time ^ 2 / bytes ^ 2", "sec^2/Bytes^2"),
        ("sqrt(time * time)", "sec"),
        ("sqrt(time)", "sec^0.5"),
        ("ln(time) + exp(time / Time) + log(bytes, 2)", ""),
        ("profiles.count(time)", ""),
        ("profiles.std(time)", "sec"),
        ("abs(-time)", "sec"),
        ("3", ""),
    ],
)
def test_units(text: str, unit: str) -> None:
    assert define(METRICS, f"a = {text}").unit == unit


def test_a_label_is_the_unit() -> None:
    assert define(METRICS, "`my ipc` [ins/cycle] = visits / time").unit == "ins/cycle"
    assert define(METRICS, "a[] = time").unit == ""


# -- errors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "a = time / vists",
            "there is no metric 'vists' at character 12 of 'a = time / vists'; did you mean 'visits'?",
        ),
        ("a = (time", "expected ')' at character 10 of"),
        ("a = time +* visits", "expected a number, a metric, a function or '(' at character 11 of"),
        (
            "a = sqroot(time)",
            "there is no function 'sqroot' at character 5 of 'a = sqroot(time)'; did you mean 'sqrt'?",
        ),
        ("a = time + visits", "cannot add sec and occ at character 10 of"),
        ("a = time - visits", "cannot subtract sec and occ at character 10 of"),
        ("a = 1 + min(time, 1, visits)", "cannot compare sec and occ at character 9 of"),
        ("a = time + time / time", "cannot add sec and a number without unit at character 10 of"),
        ("a = time ^ visits", "cannot raise to a power in occ at character 10 of"),
        ("a = time ^ (x / x)", "a power of sec needs a number on its right at character 10 of"),
        ("time = 2 * time", "'time' at character 1 of 'time = 2 * time' is measured already"),
        (
            "CPUTIME = 2",
            "'CPUTIME' at character 1 of 'CPUTIME = 2' already names the measured metric 'CPUTIME (sec)'",
        ),
        ("VISITS = 2", "'VISITS' at character 1 of 'VISITS = 2' already names the measured metric 'visits'"),
        ("a = a + 1", "'a' at character 5 of 'a = a + 1' is defined only later"),
        ("a = CPUTIME (sec)", "there is no function 'CPUTIME' at character 5"),
        ("a = `vists`", "there is no metric 'vists' at character 5"),
        ("a = `time", "expected a number, a metric, a function or '(' at character 5"),
        ("a = ``", "expected a number, a metric, a function or '(' at character 5"),
        ("a", "expected '=' at character 2 of 'a'"),
        ("a b = 3", "expected '=' at character 3 of 'a b = 3'"),
        ("", "expected the name of a metric at character 1 of ''"),
        ("  = 3", "expected the name of a metric at character 3"),
        ("` ` = 3", "expected the name of a metric at character 1"),
        ("a\n = 1 +", "expected a number, a metric, a function or '(' at character 9"),
        ("`a\nb` = 1", "expected a name of printable characters, not too many, at character 1"),
        ("a = 1 + each(time)", "each(...) must be a whole formula at character 9"),
        ("a = each(each(time))", "each(...) must be a whole formula at character 10"),
        ("a = excl(time, time)", "expected excl with 1 argument, not 2, at character 20"),
        ("a = sqrt(1, 2)", "expected sqrt with 1 argument, not 2, at character 14"),
        ("a = many", "'many' has composite values (TAU_ATOMIC), which formulas cannot use, at character 5"),
        ("a = $99", "there is no metric with id 99 at character 5 of 'a = $99'; ids are 1 to 32"),
        ("a = $30", "id 30 is x (function), a scope that formulas do not have, at character 5"),
        ("a = $32", "id 32 is count of x over threads, no metric, at character 5"),
        ("a = $99999999999999999999", "expected a number, a metric, a function or '(' at character 5"),
        ("a = 1e999", "expected a number in the range of a double at character 5"),
        ("a = profiles.max(time + time)", "profiles.max takes a metric at character 5"),
        ("a = total(profiles.max(time))", "a statistic over profiles has no total at character 11"),
        ("a = profiles.sum(time)", "there is no function 'profiles.sum' at character 5"),
    ],
)
def test_errors_point_at_the_character(text: str, message: str) -> None:
    with pytest.raises(DefinitionError) as error:
        define(METRICS, text, [find_defined_name(text)])
    assert str(error.value).startswith(message)
    assert str(pickle.loads(pickle.dumps(error.value))) == str(error.value)
    assert error.value.exit_code == 2


def test_names_that_capture_no_measured_metric_are_free() -> None:
    """`time` is one of two that TIME could be, and CPUTIME in another unit is never meant by the shorter name."""
    assert define(METRICS, "TIME = 2").name == "TIME"
    assert define(METRICS, "`CPUTIME (ms)` = 2").name == "CPUTIME (ms)"
    derived = Metrics((*METRICS, define(METRICS, "half = time / 2")))
    assert define(derived, "Half = 2").name == "Half"


def test_what_is_no_text_defines_nothing() -> None:
    with pytest.raises(UsageError, match="a metric is defined by a text like 'ipc = instructions / cycles', not by 3"):
        r1().with_metric(3)  # type: ignore[arg-type]


def test_metrics_may_use_earlier_ones_only() -> None:
    made = with_metric(r1(), "tpv = time / visits", "twice = 2 * tpv * visits")
    assert made.metrics.first("twice").unit == "sec"
    assert "twice" not in r1().metrics.quantities
    with pytest.raises(UsageError, match="'y' at character 5 of 'x = y' is defined only later"):
        with_metric(r1(), "x = y", "y = x")
    with pytest.raises(UsageError, match="'x' at character 1 of 'x = 2' is defined already"):
        with_metric(r1(), "x = 1", "x = 2")
    with pytest.raises(UsageError, match=r"'tpv' at character 11 of .* does not add up: it has no total"):
        with_metric(r1(), "tpv = time / visits", "x = total(tpv)")


def test_formulas_that_nothing_evaluates_are_no_operands() -> None:
    broken = derive_metric("bad", Unavailable("?", When.AFTER, "line 1: no such thing"), METRICS[0], adds_up=False)
    metrics = replace(METRICS, rows=(*METRICS.rows, broken))
    with pytest.raises(NotEvaluated, match=r"bad is a derived metric \(postderived\): line 1: no such thing: \?"):
        define(metrics, "a = bad + 1")
    assert metrics.unavailable == ("bad",)
    assert "bad" not in metrics.shown


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "(" * (MAX_NESTING + 1),
        "a = " + "excl(" * (MAX_NESTING + 1),
        "a = " + "-" * (MAX_NESTING + 1) + "time",
        "a = " + "2^" * (MAX_NESTING + 1) + "2",
        "a = " + "1+" * MAX_TEXT,
        "`" * 5000,
        "a" * 5000 + " = 1",
        "a = " + "b" * 60_000,
        "a = `" + "b" * 60_000 + "`",
        "a = \0",
        "a = 1\0",
    ],
)
def test_hostile_texts_are_refused(text: str) -> None:
    with pytest.raises(DefinitionError) as error:
        define(METRICS, text)
    assert len(str(error.value)) < 200_000


def test_long_formulas_are_no_deep_ones() -> None:
    deep = "a = " + "excl(time + " * (MAX_NESTING // 2) + "time" + ")" * (MAX_NESTING // 2)
    assert define(METRICS, deep).derivation is not None
    long = define(METRICS, "a = " + "+".join(["time"] * 10_000))
    assert long.aggregation == Aggregation.SUM
    experiment = with_metric(r1(), "a = " + "+".join(["time"] * 10_000))
    assert experiment.totals("a", Scope.INCLUSIVE)[0] == 1_280_000


def test_formulas_over_formulas_are_bounded() -> None:
    """Each level doubles the work, and recursion, where nobody minds."""
    texts = ["x0 = time"] + [
        f"x{k + 1} = x{k} + x{k} + profiles.max(x{k}) - profiles.max(x{k})" for k in range(MOST_LEVELS - 1)
    ]
    made = with_metric(r1(), *texts)
    assert made.totals(f"x{MOST_LEVELS - 1}", Scope.INCLUSIVE)[0] == 128 * 2.0 ** (MOST_LEVELS - 1)
    assert made.top(f"x{MOST_LEVELS - 1}", limit=1)["inclusive"] == [78 * 2.0 ** (MOST_LEVELS - 1)]  # foo
    with pytest.raises(DefinitionError, match=f"more than {MOST_LEVELS} levels deep at character 1"):
        with_metric(made, f"y = x{MOST_LEVELS - 1}", "z = y + 1")


NAMES = ("time", "Time", "x", "odd ` name", "perf::cycles")
leaves = (
    st.builds(Number, st.floats(allow_nan=False, allow_infinity=False))
    | st.builds(Operand, st.sampled_from(NAMES), st.sampled_from([None, Scope.EXCLUSIVE, Scope.INCLUSIVE]))
    | st.builds(Total, st.sampled_from(NAMES))
    | st.builds(
        OverProfiles, st.sampled_from(STATISTICS), st.sampled_from(NAMES), st.sampled_from([None, Scope.INCLUSIVE])
    )
)
WITHOUT_UNITS = Metrics(tuple(Metric(name, Scope.EXCLUSIVE) for name in NAMES))


def calls_over(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    one, two = ("neg", "sqrt", "ln", "exp", "abs", "floor"), ("+", "-", "*", "/", "^", "log", "min", "max", "sum")
    return st.builds(Call, st.sampled_from(one), st.tuples(inner)) | st.builds(
        Call, st.sampled_from(two), st.tuples(inner, inner)
    )


@given(st.recursive(leaves, calls_over, max_leaves=20))
def test_rendered_trees_are_read_again(tree: Expression) -> None:
    assert read_formula(WITHOUT_UNITS, render(tree)).derivation.tree == tree


@given(st.text(alphabet="abtime x0123456789.+-*/^()[]=`$@,\n é", max_size=40))
def test_any_text_is_a_metric_or_an_error(text: str) -> None:
    try:
        made = define(METRICS, text)
    except DefinitionError:
        return
    assert made.derivation is not None
    assert read_formula(METRICS, made.derivation.text).derivation == made.derivation


# -- what R1 says ------------------------------------------------------------------------------------------------------


OF_FOO = 14 / 17 + 15 / 28 + 16 / 39 + 17 / 50  # time per visit of `main -> foo` and all below it, on each location


@pytest.mark.parametrize(
    ("formula", "exclusive", "inclusive"),
    [
        ("time / visits", 0.26, 62 / 134),
        ("each(time / visits)", 0.5 + 0.3 + 7 / 30 + 0.2, 10.482142857142858),
        ("each_incl(time / visits)", OF_FOO - 5 - (8 / 5 + 7 / 6 + 6 / 7 + 5 / 8), OF_FOO),
        ("max(time, 6)", 26.0, 62.0),
        ("each(max(time, 6))", 27.0, 78.0),
        ("max(excl(time), 6)", 26.0, 26.0),
        ("100 * $1 / @1", 20.3125, 48.4375),
        ("time - 2 * time", -26.0, -62.0),
        ("lo", 2.5, 0.5),
        ("hi - lo", 16 - 2.5, 16 - 0.5),
        ("profiles.max(time)", 8.0, 17.0),
        ("profiles.mean(time)", 6.5, 15.5),
        ("profiles.min(incl(time))", 14.0, 14.0),
        ("profiles.std(time)", math.sqrt(1.25), math.sqrt(1.25)),
        ("profiles.count(visits)", 4.0, 4.0),
        ("total(visits)", 160.0, 160.0),
        ("sqrt(-time)", math.nan, math.nan),
        ("ln(time - time)", math.nan, math.nan),
        ("time / (visits - visits)", math.nan, math.nan),
    ],
)
def test_foo_of_r1(formula: str, exclusive: float, inclusive: float) -> None:
    """`main -> foo`, over all locations, as cube_dump shows it."""
    made = with_metric(r1(), f"x = {formula}")
    for scope, value in ((Scope.EXCLUSIVE, exclusive), (Scope.INCLUSIVE, inclusive)):
        assert made.totals("x", scope)[1] == pytest.approx(value, rel=1e-12, nan_ok=True)


def test_where_nothing_happened_counts_nothing_and_where_nothing_was_visited_all_is_missing() -> None:
    made = with_metric(r1(), "x = each(time / visits)", "nothing = each((time - time) / (visits - visits))")
    exclusive, inclusive = (made.totals("x", scope) for scope in (Scope.EXCLUSIVE, Scope.INCLUSIVE))
    assert np.isnan(exclusive).tolist() == [True, False, False, False, False, False, True]
    assert np.isnan(inclusive).tolist() == [True, False, False, False, False, False, True]
    assert math.isnan(made.root_total("x"))
    assert made.totals("nothing", Scope.INCLUSIVE).tolist() == [0.0] * 7
    # Of rank 0 thread 0 alone, each function was visited: 10/1 + 5/10 + 1/2 + 8/5 + 2/1 + 1/3 + 4/4.
    assert made.root_total("x", np.array([0])) == pytest.approx(10 + 0.5 + 0.5 + 1.6 + 2 + 1 / 3 + 1)


@pytest.mark.parametrize("each", ["each", "each_incl"])
@pytest.mark.parametrize(
    ("definitions", "flat"),
    [
        (("x = time / visits",), "time / visits"),
        (("x = incl(time) / visits",), "incl(time) / visits"),
        (("w = time / visits", "x = w + 2 * excl(w)"), "time / visits + 2 * excl(time / visits)"),
    ],
)
def test_each_of_a_formula_is_each_of_its_text(definitions: tuple[str, ...], flat: str, each: str) -> None:
    """Nothing was visited in some cells of R1, where 0/0 is 0 in both."""
    opened = r1().with_metric(*definitions, f"y = {each}(x)", f"z = {each}({flat})")
    for scope in (Scope.EXCLUSIVE, Scope.INCLUSIVE):
        np.testing.assert_allclose(opened.totals("y", scope), opened.totals("z", scope), rtol=1e-14)
        np.testing.assert_allclose(opened.matrix("y", scope), opened.matrix("z", scope), rtol=1e-14)
        assert not np.isnan(opened.totals("y", scope)).all()


def test_values_of_single_profiles() -> None:
    made = with_metric(r1(), "x = time / visits", "y = each(time / visits)", "z = 100 * time / profiles.max(time)")
    assert made.matrix("x", Scope.EXCLUSIVE)[1].tolist() == [0.5, 0.3, 7 / 30, 0.2]
    assert made.matrix("y", Scope.EXCLUSIVE)[1].tolist() == [0.5, 0.3, 7 / 30, 0.2]
    assert made.matrix("z", Scope.INCLUSIVE)[0].tolist() == [100 * t / 39 for t in (31, 25, 39, 33)]
    assert np.isnan(made.matrix("x", Scope.EXCLUSIVE)[0]).tolist() == [False, True, False, True]


def test_names_that_are_near_are_asked_for_once() -> None:
    """Those that begin with the word as well, however long they are."""
    known = ("time (sec)", "t of a very long description", "visits")
    names = Names(Metrics(tuple(Metric(name, Scope.EXCLUSIVE) for name in known)))
    assert names.find_near("time") == "; did you mean '`time (sec)`'?"
    assert names.find_near("t") == "; did you mean '`t of a very long description`'?"
    assert names.find_near("x") == ""


def test_powers_have_no_value_where_they_divide_by_nothing() -> None:
    base, exponent = np.array([0.0, 2.0, 0.0, -2.0, np.nan, 1.0]), np.array([-1.0, -1.0, 2.0, 2.0, 0.0, np.nan])
    with np.errstate(all="ignore"):
        found = _power(base, exponent)
    np.testing.assert_array_equal(found, [np.nan, 0.5, 0.0, 4.0, np.nan, np.nan])
