"""From runs to costs, tests and verdicts: `gate`.

    slower, faster    p is at most alpha, and the change is more than a third of what must not be exceeded: a true
                      change of that size is not missed because its estimate reads a little less
    unclear           p is larger, and a change of that size would be missed more often than once in twenty reports
    same              neither: such a change would have been seen, or what was seen is too small to matter
    new, gone         no run of the left, of the right side has a cost

Costs are compared by their logarithms, so a row is tested only where every run of both sides has a cost above 0; a
function that some runs of a side reach and others do not is `unclear`, and is named.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, exp, log, log1p
from statistics import NormalDist

import numpy as np

from callgrove.analysis.comparison import Comparison, Question, compare
from callgrove.analysis.comparison.scaling import count_processes
from callgrove.analysis.gate.orders import (
    N_DRAWN,
    Sides,
    compare_orders,
    count_orders,
    pool_deviations,
    trim_means,
)
from callgrove.analysis.gate.wording import say_power, say_untested, say_verdict
from callgrove.arrays import Floats, Ints
from callgrove.errors import Parameter, UsageError
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Metric
from callgrove.model.profiles import choose_profiles
from callgrove.model.runs import Numbers, Run
from callgrove.model.table import Column, Table

__all__ = ["WHOLE", "Gate", "GateRow", "Limits", "decide", "gate"]

WHOLE = "(whole program)"
GROUPINGS = ("function", "path")
VERDICTS = ("slower", "new", "unclear", "faster", "gone", "same")  # in the order of the table
LEAST_ALPHA = 1e-4  # rarer than one of the drawn orders is nothing
POWER = NormalDist().inv_cdf(0.95)
IN_THE_EPOCH = 10**18  # ns: a clock that counts since 1970 is beyond it, one that began with the machine is not
Inputs = Experiment | Sequence[Experiment]


@dataclass(frozen=True)
class GateRow:
    """One function or call path. `left` and `right` are geometric means without the largest fifth of the runs; None is
    what was not computed. `needs` is the number of repetitions of each side that would see a change of the size in
    question, `not_reached` the number of runs without a cost."""

    path: str
    left: float
    right: float
    n_left: int
    n_right: int
    verdict: str = "unclear"
    p: float | None = None
    noise: float | None = None
    detectable: float | None = None
    needs: int | None = None
    not_reached: int = 0

    @property
    def change(self) -> float | None:
        """The change in parts of the left cost, if that has one."""
        return self.right / self.left - 1 if self.left else None


@dataclass(frozen=True)
class Limits:
    """What is decided: changes above `fail_above`, where at most `alpha` of the reports without any change may alarm;
    of rows with at least `min_share` of the cost. `assume_noise` is used where there are too few repetitions."""

    fail_above: float = 0.03
    alpha: float = 0.005
    min_share: float = 0.005
    assume_noise: float | None = None

    def __post_init__(self) -> None:
        _require("fail_above", self.fail_above, 0 < self.fail_above < float("inf"), "a change above 0, like 0.03")
        _require("alpha", self.alpha, LEAST_ALPHA <= self.alpha < 0.5, "a share from 0.0001 to 0.5")
        _require("min_share", self.min_share, 0 <= self.min_share < 1, "a share from 0 to 1")
        if self.assume_noise is not None:
            _require("assume_noise", self.assume_noise, 0 < self.assume_noise < 1, "a share above 0, like 0.01")

    def is_rare(self, p: float) -> bool:
        """Return whether p is at most alpha; shares of orders are not exact."""
        return p <= self.alpha * (1 + 1e-9)


def _require(name: str, value: float, is_good: bool, what: str) -> None:
    if not is_good:
        raise UsageError(Parameter(name, value), f": is not {what}")


@dataclass(frozen=True)
class Gate:
    """Two sides of repetitions compared: rows, the whole program, and what can be said of them.

    verdict     of all rows: slower, unclear, faster or same
    sentence    what was seen
    notes       what the repetitions can tell, which rows were not tested, what a reader should know
    whole       the whole program, tested like a row
    """

    rows: tuple[GateRow, ...]
    whole: GateRow
    metric: Metric
    limits: Limits
    sides: Sides
    is_tested: bool = False
    warnings: tuple[str, ...] = field(default=(), repr=False)

    @property
    def is_assumed(self) -> bool:
        """Whether the verdicts rest on a noise that was not measured."""
        return not self.is_tested and self.limits.assume_noise is not None

    @property
    def verdict(self) -> str:
        there = {row.verdict for row in self.rows}
        if "slower" in (*there, self.whole.verdict):
            return "slower"
        if "unclear" in there or all(row.p is None for row in self.rows):
            return "unclear"
        return "faster" if "faster" in there else "same"

    @property
    def sentence(self) -> str:
        return say_verdict(self)

    @property
    def notes(self) -> tuple[str, ...]:
        return (*say_power(self), *say_untested(self), *self.warnings)

    @property
    def shown(self) -> tuple[GateRow, ...]:
        """The rows, the most urgent first. The whole program is one of them where it is slower, and no row is."""
        alone = self.whole.verdict == "slower" and all(row.verdict != "slower" for row in self.rows)
        return (self.whole, *self.rows) if alone else self.rows

    def table(self) -> Table:
        """Return a row for each function or call path: path, left, right, change, p, noise, detectable, verdict, n_left
        and n_right. Numbers are not rounded; what was not computed is absent."""
        rows = self.shown
        columns = (
            Column("path", [row.path for row in rows]),
            Column("left", [row.left for row in rows]),
            Column("right", [row.right for row in rows]),
            Column("change", [row.change for row in rows]),
            Column("p", [row.p for row in rows]),
            Column("noise", [row.noise for row in rows]),
            Column("detectable", [row.detectable for row in rows]),
            Column("verdict", [row.verdict for row in rows]),
            Column("n_left", [row.n_left for row in rows]),
            Column("n_right", [row.n_right for row in rows]),
        )
        return Table(columns, notes=(self.sentence, *self.notes))


def gate(
    left: Inputs,
    right: Inputs,
    metric: str | None = None,
    *,
    fail_above: float = 0.03,
    alpha: float = 0.005,
    min_share: float = 0.005,
    by: str = "function",
    assume_noise: float | None = None,
    ranks: Numbers | None = None,
    threads: Numbers | None = None,
) -> Gate:
    """Return which functions became slower: repetitions of a program against repetitions of another version of it.

    left, right    experiments, each of one run or more; every run is a repetition
    metric         what is compared; it must add up (default: the first one that is a time)
    fail_above     the change that matters: 0.03 is 3%
    alpha          how many reports without any change may be wrong, of slower and of faster functions each
    min_share      leave out what has less of the cost of all runs
    by             "function", or "path" for call paths
    assume_noise   the standard deviation of a run, in parts of its cost, for fewer repetitions than can tell

    Runs are compared by their exclusive cost per rank. The verdict of a row that cannot be decided is `unclear`, and
    `notes` say which change would have been seen, and how many repetitions it takes.

        cg.gate([cg.open(path) for path in before], [cg.open(path) for path in after]).verdict
    """
    if by not in GROUPINGS:
        raise UsageError(f"rows are functions or call paths: {by!r} is none of ", ", ".join(GROUPINGS))
    limits = Limits(fail_above, alpha, min_share, assume_noise)
    runs = [list(_split_runs(inputs)) for inputs in (left, right)]
    if not all(runs):
        raise UsageError("a side without an experiment cannot be compared")
    both, sides = [*runs[0], *runs[1]], Sides(len(runs[0]), len(runs[1]))
    comparison = compare(both, Question(metric, ranks=ranks, threads=threads, flat=by == "function"))
    if comparison.metric.aggregation != Aggregation.SUM or any(np.isnan(comparison.totals)):
        raise UsageError(f"{comparison.metric.name} does not add up, and shares of a whole are compared")
    n_ranks = np.array([_count_ranks(run, ranks, threads) for run in both])
    whole = np.array(comparison.totals) / n_ranks
    if not np.isfinite(whole).all():
        raise UsageError(f"{comparison.metric.name}: a run has a cost of it that is not finite, and cannot be compared")
    if not whole.sum() > 0:
        raise UsageError(f"{comparison.metric.name}: the runs have no cost of it that could be compared")
    names, costs = _choose_rows(comparison, whole, n_ranks, min_share)
    made = decide(names, costs, whole, sides, comparison.metric, limits)
    return replace(made, warnings=(*_warn_of_ranks(n_ranks), *_warn_of_times(both, sides)))


# -- runs --------------------------------------------------------------------------------------------------------------


def _split_runs(inputs: Inputs) -> Iterator[Experiment]:
    """Yield every run of a side by itself. Runs with other parameters are not repetitions."""
    experiments = [inputs] if isinstance(inputs, Experiment) else list(inputs)
    points = {tuple(sorted(run.parameters.items())): run for e in experiments for run in e.runs}
    if len(points) > 1:
        some = " and ".join(_describe_point(run) for run in list(points.values())[:2])
        raise UsageError(f"runs with {some} are not repetitions of each other; choose some with ", Parameter("runs"))
    for experiment in experiments:
        if len(experiment.runs) < 2:
            yield experiment
            continue
        for number, run in enumerate(experiment.runs):
            yield replace(experiment.select(runs=[number]), path=run.name or f"{experiment.path} run {number}")


def _describe_point(run: Run) -> str:
    return ", ".join(f"{name}={value:g}" for name, value in run.parameters.items()) or "no parameters"


def _count_ranks(experiment: Experiment, ranks: Numbers | None, threads: Numbers | None) -> int:
    chosen = choose_profiles(experiment, ranks, threads)
    values, present = experiment.profiles.identity("rank")
    if chosen is not None:
        values, present = values[chosen], present[chosen]
    if not present.any():
        return count_processes(experiment, experiment.profiles.measured if chosen is None else chosen) or 1
    return max(1, len(np.unique(values[present])))


def _warn_of_ranks(n_ranks: Ints) -> Iterator[str]:
    if len(there := np.unique(n_ranks)) > 1:
        yield f"warning: runs have from {there[0]} to {there[-1]} ranks; costs per rank are compared"


def _warn_of_times(runs: Sequence[Experiment], sides: Sides) -> Iterator[str]:
    """Warn where start times are known, and one side was measured after the other."""
    starts = [run.traces.time_range[0] if run.traces.time_range else 0 for run in runs]
    if min(starts) < IN_THE_EPOCH or len(set(starts)) < len(starts):
        return
    is_right = np.argsort(starts) >= sides.n_left
    if np.count_nonzero(np.diff(is_right)) == 1 and len(runs) > 2:
        yield (
            "warning: the sides were measured one after the other: a drift of the machine looks like a change; "
            "measure them in turn"
        )


# -- rows --------------------------------------------------------------------------------------------------------------


def _choose_rows(comparison: Comparison, whole: Floats, n_ranks: Ints, min_share: float) -> tuple[list[str], Floats]:
    """Return the rows that have their share of the cost of all runs, in the order of their names: what is drawn must
    not depend on which run was opened first."""
    costs = np.nan_to_num(comparison.values / n_ranks, nan=0.0)
    kept = np.flatnonzero((costs.sum(axis=1) >= min_share * whole.sum()) & costs.any(axis=1))
    by_name = sorted(kept.tolist(), key=lambda k: (comparison.path(k), k))
    return [comparison.path(k) for k in by_name], costs[by_name]


def decide(
    names: Sequence[str],
    costs: Floats,
    whole: Floats,
    sides: Sides,
    metric: Metric,
    limits: Limits,
    n_drawn: int = N_DRAWN,
) -> Gate:
    """Return the gate of costs, (rows x runs) with the left runs first, and of the cost of the whole program in each
    run: with tests where there are enough repetitions, else with the noise that is assumed, else without a p."""
    rows = [_compare_sides(name, values, sides) for name, values in zip(names, costs, strict=True)]
    total = _compare_sides(WHOLE, whole, sides)
    tested = np.flatnonzero(np.all(np.isfinite(costs) & (costs > 0), axis=1)).tolist()
    rarest = 1 / count_orders(sides.n_left, sides.n_right)
    is_tested = min(sides.n_left, sides.n_right) > 1 and limits.is_rare(rarest)
    if np.all(whole > 0):
        chosen = [*([rows[k] for k in tested] or [total]), total]  # the whole alone, where no row can be tested
        y = np.log(np.vstack([costs[tested] if tested else whole[None], whole]))
        if sides.n_left + sides.n_right > 2:
            noises = pool_deviations(y, sides.n_left).tolist()
            chosen = [replace(row, noise=noise) for row, noise in zip(chosen, noises, strict=True)]
        if is_tested:
            chosen = _test(chosen, y, sides, limits, n_drawn)
        elif limits.assume_noise is not None:
            chosen = _assume(chosen, limits.assume_noise, sides, limits)
        *judged, total = chosen
        for place, row in zip(tested, judged[: len(tested)], strict=True):
            rows[place] = row
    rows.sort(key=lambda row: (VERDICTS.index(row.verdict), -abs(row.right - row.left), row.path))
    return Gate(tuple(rows), total, metric, limits, sides, is_tested)


def _compare_sides(name: str, values: Floats, sides: Sides) -> GateRow:
    """Return a row without a test: means, and whether it is new or gone."""
    left, right = values[: sides.n_left], values[sides.n_left :]
    verdict = "new" if not left.any() else "gone" if not right.any() else "unclear"
    n_missing = int(np.count_nonzero(~(values > 0))) if verdict == "unclear" else 0
    return GateRow(name, _mean(left), _mean(right), sides.n_left, sides.n_right, verdict, not_reached=n_missing)


def _mean(costs: Floats) -> float:
    """Return the geometric mean without the largest fifth; the arithmetic one where a cost is not above 0."""
    if np.all(costs > 0):
        return exp(float(trim_means(np.log(costs)[None])[0]))
    return float(trim_means(costs[None])[0])


# -- tests -------------------------------------------------------------------------------------------------------------


def _test(rows: Sequence[GateRow], y: Floats, sides: Sides, limits: Limits, n_drawn: int) -> list[GateRow]:
    """Return rows with p, what is detectable and the verdict, of permuted runs; the last is the whole program."""
    extremes = compare_orders(y[:-1], y[-1], sides.n_left, n_drawn)
    p_values = [*extremes.p_values().tolist(), extremes.p_of_whole()]
    reach = (extremes.critical_t(limits.alpha) + POWER) * extremes.error
    judged = zip(rows, p_values, reach.tolist(), extremes.error.tolist(), strict=True)
    return [_judge(replace(row, p=p), reached, error, sides, limits) for row, p, reached, error in judged]


def _assume(rows: Sequence[GateRow], noise: float, sides: Sides, limits: Limits) -> list[GateRow]:
    """Return rows with p and verdict as if the logarithm of every cost had this deviation: one-sided, after Holm; the
    last is the whole program, whose p is multiplied by the number of all."""
    normal, error = NormalDist(), noise * sides.root
    z = np.array([log(row.right / row.left) / error for row in rows])
    above, below = ([normal.cdf(-one) for one in side.tolist()] for side in (z, -z))
    corrected = np.where(z[:-1] >= 0, _correct(np.array(above[:-1])), _correct(np.array(below[:-1]))).tolist()
    p_values = [*corrected, min(1.0, len(rows) * min(above[-1], below[-1]))]
    reach = (POWER - normal.inv_cdf(limits.alpha / (len(rows) - 1))) * error
    judged = zip(rows, p_values, strict=True)
    return [_judge(replace(row, p=p, noise=noise), reach, error, sides, limits) for row, p in judged]


def _correct(p_values: Floats) -> Floats:
    """Return p after Holm: the smallest times the number of rows, the next times one less, and so on."""
    order = np.argsort(p_values, kind="stable")
    raised = np.maximum.accumulate(p_values[order] * np.arange(len(p_values), 0, -1))
    out = np.empty(len(p_values))
    out[order] = np.minimum(raised, 1)
    return out


def _judge(row: GateRow, reach: float, error: float, sides: Sides, limits: Limits) -> GateRow:
    """Return a row with its verdict; `reach` is the logarithm of the change that would be seen. The whole program
    scatters so little that its change is known well: it must be as large as what matters, but for its error."""
    assert row.p is not None
    change, matters = log(row.right / row.left), log1p(limits.fail_above)
    detectable = exp(min(reach, 700)) - 1
    n = 2 / sides.root**2  # of each side, if both had as many
    needs = ceil(n * (reach / matters) ** 2) if reach > matters else None
    verdict = "unclear" if reach > matters else "same"
    if limits.is_rare(row.p):
        least = log1p(limits.fail_above / 3)
        is_large = abs(change) > (max(least, matters - POWER * error) if row.path == WHOLE else least)
        verdict = ("slower" if change > 0 else "faster") if is_large else "same"
    return replace(row, verdict=verdict, detectable=detectable, needs=needs)
