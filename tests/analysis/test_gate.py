"""The gate decides as its specification says: against plain Python, by properties, and on noise without a change."""

from __future__ import annotations

from math import exp, log, sqrt
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import callgrove
from bench.cases.gate import NOISES, Program, count_alarms, count_detected, count_seen
from callgrove.analysis.gate import Gate, GateRow
from callgrove.analysis.gate.decision import WHOLE, Limits, decide, gate
from callgrove.analysis.gate.orders import (
    Sides,
    compare_orders,
    count_orders,
    pool_deviations,
    trim_means,
)
from callgrove.analysis.gate.wording import least_repetitions
from callgrove.cli.messages import with_flags
from callgrove.errors import UsageError
from callgrove.model.metrics import Aggregation, Metric, Scope
from callgrove.model.runs import Run
from callgrove.model.traces.events import Traces
from tests.analysis.gates import critical_t, make_run, make_runs, make_sums, p_of, t_of

TIME = Metric("time", Scope.EXCLUSIVE, "sec")
MIRRORED = {"slower": "faster", "faster": "slower", "new": "gone", "gone": "new"}


def noisy(seed: int, n_functions: int, n_runs: int, s: float = 0.01) -> np.ndarray:
    """Logarithms of costs."""
    random = np.random.default_rng(seed)
    return np.log(random.uniform(1, 9, (n_functions, 1))) + s * random.standard_normal((n_functions, n_runs))


def decided(y: np.ndarray, n_left: int, limits: Limits | None = None) -> Gate:
    costs = np.exp(y)
    names = [f"f{k}" for k in range(len(y))]
    sides = Sides(n_left, y.shape[1] - n_left)
    return decide(names, costs, costs.sum(axis=0), sides, TIME, limits or Limits(), 199)


def row_of(report: Gate, path: str) -> GateRow:
    return next(row for row in report.rows if row.path == path)


# -- by hand -----------------------------------------------------------------------------------------------------------


def test_trimming_and_the_standard_error_by_hand() -> None:
    """Left 0 1 2 3 9: without the 9 the mean is 1.5; winsorised 0 1 2 3 3 has squares of 6.8, over 4 x 3. Right is left
    plus 4. The pooled deviation is that of 0 1 2 3 9: squares of 50, twice, over 8."""
    left = np.array([0.0, 1, 2, 3, 9])
    y = np.concatenate([left, left + 4])[None]
    extremes = compare_orders(y, y[0], 5)
    s0 = 0.25 * sqrt(100 / 8) * sqrt(2 / 5)
    error = sqrt(2 * 6.8 / 12) + s0
    assert trim_means(left[None]).tolist() == [1.5]
    assert pool_deviations(y, 5) == pytest.approx(sqrt(100 / 8))
    assert extremes.error == pytest.approx([error, error])
    assert extremes.t == pytest.approx([4 / error, 4 / error])
    assert extremes.n_orders == 252


@pytest.mark.parametrize(("n_left", "n_right"), [(5, 5), (4, 6), (6, 5), (3, 3), (2, 7)])
@pytest.mark.parametrize("change", [0.0, 0.05, -0.05])
def test_the_same_as_one_order_at_a_time(n_left: int, n_right: int, change: float) -> None:
    y = noisy(n_left, 4, n_left + n_right)
    y[1, n_left:] += change
    extremes = compare_orders(y, y.sum(axis=0), n_left)
    plain = y.tolist()
    assert extremes.n_orders == count_orders(n_left, n_right)
    assert extremes.t[:-1] == pytest.approx(t_of(plain, range(n_left, n_left + n_right)), abs=1e-6)
    assert extremes.p_values() == pytest.approx(p_of(plain, n_left))
    n_rarer = max(1, int(0.05 * extremes.n_orders))
    assert extremes.critical_t(0.05) == pytest.approx(critical_t(plain, n_left, n_rarer), rel=1e-6)


def test_p_of_the_whole_counts_orders_where_any_function_reaches_it() -> None:
    y = noisy(3, 4, 10)
    whole = noisy(4, 1, 10)[0]
    extremes = compare_orders(y, whole, 5)
    t = extremes.t[-1]
    above, below = np.maximum(extremes.highest, extremes.whole_t), -np.minimum(extremes.lowest, extremes.whole_t)
    reaching = above if t >= 0 else below
    assert extremes.p_of_whole() == pytest.approx(np.mean(reaching >= abs(t) - 1e-9))


def test_detectable_and_what_is_needed_follow_from_the_error() -> None:
    y = noisy(7, 5, 12)
    report, extremes = decided(y, 6), compare_orders(y, np.log(np.exp(y).sum(axis=0)), 6)
    reach = (extremes.critical_t(0.005) + NormalDist().inv_cdf(0.95)) * extremes.error[0]
    row = row_of(report, "f0")
    assert row.detectable == pytest.approx(exp(reach) - 1)
    assert row.needs == int(np.ceil(6 * (reach / log(1.03)) ** 2))
    assert row.verdict == "unclear"
    assert row.noise == pytest.approx(pool_deviations(y, 6)[0])
    assert row.left == pytest.approx(exp(np.sort(y[0, :6])[:5].mean()))


def test_a_third_of_the_limit_is_where_slower_begins() -> None:
    y = noisy(8, 5, 20, s=0.0005)
    y[0, 10:] += 0.0115
    y[1, 10:] += 0.0085
    report = decided(y, 10)
    assert (row_of(report, "f0").verdict, row_of(report, "f1").verdict) == ("slower", "same")
    assert row_of(report, "f1").p == 0.005
    assert decided(y, 10, Limits(fail_above=0.02)).verdict == "slower"
    assert row_of(decided(y, 10, Limits(fail_above=0.02)), "f1").verdict == "slower"


def test_constant_costs_are_compared_exactly() -> None:
    """Counts of instructions or calls may be the same in every run."""
    costs = {"a": [3.0] * 5, "b": [7.0] * 5, "c": [1.1] * 5}
    report = gate(make_runs(costs), make_runs({**costs, "b": [7.7] * 5}))
    assert {row.path: row.verdict for row in report.rows} == {"b": "slower", "a": "same", "c": "same"}
    assert row_of(report, "b").p == pytest.approx(1 / 252)
    assert gate(make_runs(costs), make_runs(costs)).verdict == "same"


# -- properties --------------------------------------------------------------------------------------------------------


@st.composite
def measured(draw: st.DrawFn) -> tuple[np.ndarray, int]:
    """Costs of functions in runs of two sides; one function may have changed, one may be missing in places."""
    n_left, n_right = draw(st.tuples(st.integers(1, 11), st.integers(1, 11)))
    y = noisy(
        draw(st.integers(0, 999)), draw(st.integers(2, 5)), n_left + n_right, draw(st.sampled_from([0.001, 0.03]))
    )
    y[0, n_left:] += draw(st.sampled_from([0.0, 0.1, -0.2]))
    costs = np.exp(y)
    costs[1, draw(st.sampled_from([slice(0), slice(n_left), slice(n_left, None), slice(0, 1)]))] = 0
    return costs, n_left


def report_of(costs: np.ndarray, n_left: int) -> Gate:
    names = [f"f{k}" for k in range(len(costs))]
    sides = Sides(n_left, costs.shape[1] - n_left)
    return decide(names, costs, costs.sum(axis=0), sides, TIME, Limits(), 99)


@settings(max_examples=60, deadline=None)
@given(measured())
def test_swapping_the_sides_mirrors_what_was_found(measurement: tuple[np.ndarray, int]) -> None:
    costs, n_left = measurement
    there, back = report_of(costs, n_left), report_of(np.roll(costs, -n_left, axis=1), costs.shape[1] - n_left)
    for row in there.rows:
        other = row_of(back, row.path)
        assert other.verdict == MIRRORED.get(row.verdict, other.verdict)
        assert (other.verdict in MIRRORED) == (row.verdict in MIRRORED)
        assert (row.left, row.right, row.noise, row.p) == pytest.approx((other.right, other.left, other.noise, other.p))


@settings(max_examples=60, deadline=None)
@given(measured(), st.sampled_from([1e-9, 0.5, 2.0, 1e6]))
def test_scaling_all_runs_changes_no_verdict(measurement: tuple[np.ndarray, int], factor: float) -> None:
    costs, n_left = measurement
    one, other = report_of(costs, n_left), report_of(factor * costs, n_left)
    assert {row.path: row.verdict for row in one.rows} == {row.path: row.verdict for row in other.rows}
    for row in one.rows:
        assert row_of(other, row.path).p == (None if row.p is None else pytest.approx(row.p))


@settings(max_examples=60, deadline=None)
@given(measured(), st.randoms())
def test_the_order_of_inputs_does_not_matter(measurement: tuple[np.ndarray, int], random: object) -> None:
    costs, n_left = measurement
    order = [*range(n_left)], [*range(n_left, costs.shape[1])]
    for side in order:
        random.shuffle(side)  # type: ignore[attr-defined]
    one, other = report_of(costs, n_left), report_of(costs[:, [*order[0], *order[1]]], n_left)
    for row in one.rows:
        same = row_of(other, row.path)
        assert (same.verdict, same.p) == (row.verdict, None if row.p is None else pytest.approx(row.p))


# -- what is not tested ------------------------------------------------------------------------------------------------


def test_functions_that_some_runs_do_not_reach_are_named() -> None:
    steady = [1.0, 1.01, 0.99, 1.02, 1.0]
    left = {"a": steady, "new": [0.0] * 5, "gone": steady, "partly": [1.0, 1, 0, 1, 1]}
    right = {"a": steady, "new": steady, "gone": [0.0] * 5, "partly": [1.0] * 5}
    report = gate(make_runs(left), make_runs(right))
    rows = {row.path: row for row in report.rows}
    assert {path: row.verdict for path, row in rows.items() if path != "a"} == {
        "new": "new",
        "gone": "gone",
        "partly": "unclear",
    }
    assert (rows["new"].left, rows["new"].change, rows["gone"].change) == (0, None, -1)
    assert rows["partly"].left == pytest.approx(0.75), "the arithmetic mean without the largest"
    assert all(rows[path].p is None for path in ("new", "gone", "partly"))
    assert report.notes[1:] == (
        "not tested, as no run on the left has a cost of it: new (new)",
        "not tested, as no run on the right has a cost of it: gone (gone)",
        "not tested, as some runs have no cost of it: partly (1 of 10)",
    )


def test_nothing_is_promised_of_rows_that_were_not_tested() -> None:
    steady = [1.0, 1.001, 0.999, 1.002, 1.0]
    report = gate(make_runs({"a": steady, "gone": steady}), make_runs({"a": steady, "gone": [0.0] * 5}))
    assert report.sentence.startswith("not slower: a change of 3% would have been seen in the 1 of 2 rows that could")
    report = gate(make_runs({"a": steady}), make_runs({"b": steady}))
    assert report.verdict == "unclear"
    assert report.sentence.startswith("undecided: none of 2 rows can be told to 3%")


def test_rows_below_the_least_share_are_left_out() -> None:
    costs = {"large": [100.0] * 5, "small": [0.4] * 5}
    assert [row.path for row in gate(make_runs(costs), make_runs(costs)).rows] == ["large"]
    report = gate(make_runs(costs), make_runs(costs), min_share=0)
    assert {row.path for row in report.rows} == {"large", "small"}, "main has no cost of its own"


def test_costs_are_those_of_a_rank() -> None:
    left, right = {"a": [2.0, 2.02, 1.98, 2.01, 2.0], "b": [1.0] * 5}, {"a": [2.0] * 5, "b": [1.0] * 5}
    report = gate(make_runs(left, n_ranks=2), make_runs(right, n_ranks=4))
    assert row_of(report, "b").left == pytest.approx(1)
    assert report.verdict == "same"
    assert "from 2 to 4 ranks" in report.notes[-1]
    assert row_of(gate(make_runs(left, 2), make_runs(right, 4), ranks=0), "b").right == pytest.approx(1)


def test_sums_over_processes_are_divided_by_their_number() -> None:
    """5 repetitions of 2 processes with 3 s each, and of 8 with 3 s each."""
    few, many = [make_sums({"a": 6}, 2) for _ in range(5)], [make_sums({"a": 24}, 8) for _ in range(5)]
    report = gate(few, many)
    assert row_of(report, "a").left == pytest.approx(3)
    assert row_of(report, "a").right == pytest.approx(3)
    assert report.verdict == "same"
    assert "from 2 to 8 ranks" in report.notes[-1]


def test_one_input_may_hold_the_runs() -> None:
    costs = {"a": 2.0, "b": 1.0}
    many = make_run(costs, runs=[Run(name=f"r{k}", repetition=k) for k in range(5)])
    report = gate(many, [make_run(costs) for _ in range(6)])
    assert (report.sides.n_left, report.sides.n_right, report.verdict) == (5, 6, "same")
    assert row_of(report, "a").left == pytest.approx(2)


def test_runs_of_other_parameters_are_no_repetitions() -> None:
    points = make_run({"a": 1.0}, runs=[Run(parameters={"p": 4}), Run(parameters={"p": 8})])
    with pytest.raises(UsageError, match=r"runs with p=4 and p=8 are not repetitions.*runs=\.\.\."):
        gate(points, points)


# -- too few, and assumptions ------------------------------------------------------------------------------------------


def test_too_few_repetitions_are_unclear_and_say_so() -> None:
    left, right = (
        make_runs({"a": [1.0, 1.01, 0.99], "b": [2.0, 2, 2]}),
        make_runs({"a": [2.0, 2.01, 2.02], "b": [2, 2, 2]}),
    )
    report = gate(left, right)
    assert {row.verdict for row in report.rows} == {"unclear"}
    assert row_of(report, "a").change == pytest.approx(1.01, abs=0.02)
    assert row_of(report, "a").p is None
    assert report.verdict == "unclear"
    assert with_flags(report.notes[0]) == (
        "3 and 3 repetitions cannot tell: 20 orders, none rarer than 5%; "
        "at least 5 repetitions of each side are needed (or --assume-noise 1%)"
    )
    assert gate(left, right, alpha=0.05).verdict == "slower", "one in 20 is enough"


@pytest.mark.parametrize(("alpha", "n"), [(0.05, 3), (0.01, 5), (0.005, 5), (0.001, 7), (0.0001, 8)])
def test_the_least_number_of_repetitions(alpha: float, n: int) -> None:
    assert least_repetitions(alpha) == n
    assert 1 / count_orders(n, n) <= alpha < 1 / count_orders(n - 1, n - 1)


def test_an_assumed_noise_by_hand() -> None:
    """ln 1.1 / (0.01 sqrt 2) is 6.7; of three functions the smallest p counts three times, the next twice."""
    report = gate(make_run({"a": 10, "b": 10, "c": 10}), make_run({"a": 11, "b": 10.3, "c": 10}), assume_noise=0.01)
    z = log(1.03) / (0.01 * sqrt(2))
    assert row_of(report, "a").p == pytest.approx(3 * NormalDist().cdf(-log(1.1) / (0.01 * sqrt(2))))
    assert row_of(report, "b").p == pytest.approx(2 * NormalDist().cdf(-z))
    assert {row.path: row.verdict for row in report.rows} == {"a": "slower", "b": "unclear", "c": "unclear"}
    reach = (-NormalDist().inv_cdf(0.005 / 3) + NormalDist().inv_cdf(0.95)) * 0.01 * sqrt(2)
    assert row_of(report, "c").detectable == pytest.approx(exp(reach) - 1)
    assert "1% was assumed and not measured" in report.notes[0]


def test_an_assumed_noise_is_not_used_where_it_can_be_measured() -> None:
    runs = make_runs({"a": [1.0, 1.2, 0.8, 1.1, 0.9], "b": [1.0] * 5})
    one, other = gate(runs, runs), gate(runs, runs, assume_noise=0.0001)
    assert [row.p for row in one.rows] == [row.p for row in other.rows]
    assert "so none is assumed" in other.notes[1]


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"fail_above": 0.0}, "fail_above=0.0: is not a change above 0"),
        ({"alpha": 1e-5}, "alpha=1e-05: is not a share"),
        ({"min_share": 1.0}, "min_share=1.0: is not a share"),
        ({"assume_noise": 0.0}, "assume_noise=0.0: is not a share"),
        ({"by": "file"}, "'file' is none of function, path"),
        ({"metric": "tme"}, "tme"),
    ],
)
def test_wrong_questions(wrong: dict[str, object], text: str) -> None:
    run = make_run({"a": 1.0})
    with pytest.raises(UsageError, match=text):
        gate(run, run, **wrong)  # type: ignore[arg-type]


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(UsageError, match="a side without an experiment"):
        gate([], [make_run({"a": 1.0})])
    with pytest.raises(UsageError, match="no cost of it that could be compared"):
        gate(make_run({"a": 0.0}), make_run({"a": 0.0}))
    for cost in (float("inf"), 1e308):
        run = make_run({"a": cost, "b": cost})
        with pytest.raises(UsageError, match="a cost of it that is not finite"):
            gate([run] * 5, [run] * 5)
    ratio = make_run({"a": 1.0}).with_metric("r = time / time")
    with pytest.raises(UsageError, match="r does not add up"):
        gate(ratio, ratio, "r")


def test_sides_measured_one_after_the_other_are_warned_about() -> None:
    from dataclasses import replace

    def at(hours: float) -> callgrove.Experiment:
        start = 1_700_000_000_000_000_000 + int(hours * 3600e9)
        return replace(make_run({"a": 1.0}), traces=Traces(time_range=(start, start + 1)))

    block, turns = gate([at(1), at(2)], [at(3), at(4)]), gate([at(1), at(3)], [at(2), at(4)])
    assert "one after the other" in block.notes[-1]
    assert not any("one after the other" in note for note in turns.notes)
    assert not any("one after the other" in note for note in gate(make_run({"a": 1}), make_run({"a": 1})).notes)


# -- the whole program -------------------------------------------------------------------------------------------------


def test_the_whole_program_is_tested_where_every_function_has_another_name() -> None:
    """Symbols that were renamed must not hide that the program takes half as long again."""
    steady = [1.0, 1.001, 0.999, 1.002, 1.0]
    report = gate(make_runs({"old": steady}), make_runs({"new": [1.5 * cost for cost in steady]}))
    assert {row.verdict for row in report.rows} == {"new", "gone"}
    assert (report.verdict, report.shown[0].path) == ("slower", WHOLE)
    assert report.whole.p == pytest.approx(1 / 252)
    same = gate(make_runs({"old": steady}), make_runs({"new": steady}))
    assert (same.verdict, same.whole.verdict) == ("unclear", "same")


def test_the_whole_program_is_a_row_where_no_function_alone_is_slower() -> None:
    """Thirty functions that scatter by 3% grow by 2% each: none of them can be told. Their sum, which reads 2.3%,
    can: that is 3% but for its error."""
    y = noisy(1, 30, 20, s=0.03)
    y[:, 10:] += 0.015
    small = decided(y, 10).whole
    assert (small.verdict, small.p) == ("same", 0.005), "known well, and half of what matters"
    y[:, 10:] += 0.005
    report = decided(y, 10)
    assert {row.verdict for row in report.rows} == {"unclear"}
    assert (report.verdict, report.whole.verdict, report.shown[0].path) == ("slower", "slower", WHOLE)
    assert report.sentence.startswith("slower: the whole program")
    assert len(report.table()) == 31
    y[3, 10:] += 1
    assert WHOLE not in decided(y, 10).table()["path"]


# -- noise -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("n", [5, 10])
def test_noise_rarely_alarms(noise: str, n: int) -> None:
    """The full simulation is `python -m bench gate`."""
    assert count_alarms(Program(n, 0.01, noise), 100) <= 3


def test_changes_are_seen_as_often_as_promised() -> None:
    assert count_seen(Program(7, 0.005, "log-normal", 0.03), 40) >= 36
    assert count_seen(Program(12, 0.01, "log-normal", 0.03), 40) >= 36
    assert count_seen(Program(20, 0.03, "log-normal", 0.03), 40) <= 12, "that cannot be done"


def test_what_is_called_detectable_is_mostly_seen() -> None:
    assert count_detected(Program(7, 0.01), 40) >= 34


def test_no_part_of_the_table_is_rounded() -> None:
    left, right = (
        make_runs({"a": costs, "b": [1.0] * 5}) for costs in ([1, 1.1, 1.2, 1.3, 1.4], [2, 2.2, 2.1, 2.3, 2.4])
    )
    table = gate(left, right, "time").table()
    names = ["path", "left", "right", "change", "p", "noise", "detectable", "verdict", "n_left", "n_right"]
    assert list(table.names) == names
    row = next(row for row in table if row["path"] == "a")
    assert row["change"] == row["right"] / row["left"] - 1
    assert row["left"] == pytest.approx((1 * 1.1 * 1.2 * 1.3) ** 0.25, rel=1e-14)
    assert table.notes[0].startswith("slower: a +")
    assert Aggregation.SUM == TIME.aggregation
    assert callgrove.gate(left, right).verdict == "slower"
