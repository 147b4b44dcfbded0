"""What differs between experiments: one metric, call path by call path.

Call paths are the same where all names on them are, so that runs of different builds and files of different formats
can be compared; equal siblings add up. Source lines, call sites and instructions are part of what they are nested in,
unless `source` keeps them.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field

import numpy as np

from callgrove.analysis.costs import Costs, costs, select
from callgrove.analysis.groups import nearest
from callgrove.analysis.trees import fold_lines
from callgrove.errors import UsageError
from callgrove.model.arrays import ABSENT, Array, Bools, Floats, Ints
from callgrove.model.contexts import LONGEST_PATH
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Metric, Scope, time_unit
from callgrove.model.table import Column, Table
from callgrove.model.unify import names

__all__ = ["Comparison", "Question", "compare"]

OWN = (Scope.EXCLUSIVE, Scope.POINT)  # what a line costs is no part of what its function has in these scopes
NEAR = 1e-12  # relative; less is rounding


@dataclass(frozen=True)
class Question:
    """What is compared, and of which profiles."""

    metric: str | None = None
    scope: Scope = Scope.EXCLUSIVE
    ranks: Container[int] | None = None
    threads: Container[int] | None = None
    source: bool = False


@dataclass(frozen=True)
class Comparison:
    """One metric of several experiments. `values` and `present` are (call paths x experiments); `totals` are the
    inclusive costs of the roots."""

    metric: Metric
    values: Array
    present: Bools
    totals: tuple[float, ...]
    names: tuple[str, ...]
    _steps: tuple[tuple[int, str], ...]

    def table(self, limit: int | None = None) -> Table:
        """Where the first experiment and another one differ, the largest difference first. With more than two there
        is a row for each of the others, and a column that names it."""
        n_others = self.values.shape[1] - 1
        path, other = np.divmod(np.arange(len(self.values) * n_others), max(1, n_others))
        left, right = self.values[path, 0], self.values[path, other + 1]
        has = self.present[path, 0], self.present[path, other + 1]
        difference, ratio = self._difference(left, right)
        rows = np.flatnonzero(has[0] | has[1])
        weight = np.where(np.isnan(difference), 0, np.abs(difference.astype(np.float64)))
        largest = np.maximum(
            *(np.where(h, np.abs(v.astype(np.float64)), 0) for h, v in zip(has, (left, right), strict=True))
        )
        rows = rows[np.lexsort((rows, -largest[rows], -weight[rows]))]
        shown = rows if limit is None else rows[:limit]
        words = np.array(["", "left", "right", "both"])[has[0] + 2 * has[1].astype(int)]
        neutral = self.metric.aggregation.neutral or None
        columns = [
            Column("path", [self.path(k) for k in path[shown].tolist()]),
            Column("left", left[shown], neutral),
            Column("right", right[shown], neutral),
            Column("difference", difference[shown], np.nan),
            Column("ratio", ratio[shown], np.nan),
            Column("present", words[shown].tolist()),
        ]
        if n_others > 1:
            columns.append(Column("input", [self.names[k + 1] for k in other[shown].tolist()]))
        return Table(tuple(columns), left=len(rows) - len(shown))

    def _difference(self, left: Array, right: Array) -> tuple[Array, Floats]:
        """Left less right, and left divided by right; NaN where there is none."""
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            difference = left - right
            if difference.dtype.kind == "f":
                near = np.abs(difference) <= NEAR * np.maximum(np.abs(left), np.abs(right))
                difference = np.where(near & np.isfinite(difference), 0.0, difference)
                difference = np.where(np.isinf(left) | np.isinf(right), np.nan, difference)
            ratio = left.astype(np.float64) / right.astype(np.float64)
        return difference, np.where(np.isfinite(ratio), ratio, np.nan)

    def path(self, number: int) -> str:
        """Names from the root, joined by `->`; the middle of very long paths is cut."""
        chain: list[str] = []
        while number >= 0:
            number, name = self._steps[number]
            chain.append(name)
        chain.reverse()
        if len(chain) > LONGEST_PATH:
            half = LONGEST_PATH // 2
            chain[half:-half] = ["..."]
        return "->".join(chain)


def compare(experiments: Sequence[Experiment], question: Question | None = None) -> Comparison:
    """The first experiment against each of the others."""
    asked = question or Question()
    if len(experiments) < 2:
        raise UsageError("to compare needs two experiments")
    name = _metric(experiments, asked)
    found = [costs(e, name, asked.ranks, asked.threads) for e in experiments]
    metric = _demand_one_kind(found)
    paths = _Paths()
    parts = [_values(paths, cost, asked) for cost in found]
    neutral = metric.aggregation.neutral
    kind = np.result_type(*(values for _, values, _ in parts)) if not neutral else np.dtype(np.float64)
    if kind.kind == "u":
        kind = np.dtype(np.int64 if all(int(v.max(initial=0)) < 2**63 for _, v, _ in parts) else np.float64)
    table = np.full((len(paths.steps), len(parts)), neutral, kind)
    present = np.zeros(table.shape, np.bool_)
    for number, (places, values, reached) in enumerate(parts):
        metric.aggregation.combine_at(table, (places, np.full(len(places), number)), values.astype(kind))  # type: ignore[arg-type]
        present[places[reached], number] = True
    present &= (table != neutral).any(axis=1)[:, None]
    names = tuple(e.path or e.title for e in experiments)
    return Comparison(metric, table, present, tuple(c.total for c in found), names, tuple(paths.steps))


def _metric(experiments: Sequence[Experiment], asked: Question) -> str:
    """The metric asked for, or the first default one that all experiments have."""
    if asked.metric:
        return experiments[0].metrics.resolve(asked.metric)
    shared = [name for name in experiments[0].metrics.shown if all(name in e.metrics.quantities for e in experiments)]
    if not shared:
        first, *rest = (", ".join(e.metrics.quantities[:6]) or "none" for e in experiments)
        raise UsageError(f"the experiments share no metric: {experiments[0].path} has {first}, others have {rest[0]}")
    default = experiments[0].default_metric
    return default if default in shared else shared[0]


def _demand_one_kind(found: Sequence[Costs]) -> Metric:
    first = found[0].metric
    for other in found[1:]:
        units = first.unit, other.metric.unit
        same = not all(units) or units[0] == units[1] or (time_unit(units[0]) or -1) == time_unit(units[1])
        if not same or first.aggregation != other.metric.aggregation:
            what = (
                f"{first.unit or first.aggregation.value!r} and {other.metric.unit or other.metric.aggregation.value!r}"
            )
            raise UsageError(f"metric {first.name}: is measured in {what}: these cannot be compared")
    return first


@dataclass
class _Paths:
    """Call paths by parent and name."""

    steps: list[tuple[int, str]] = field(default_factory=list)
    known: dict[tuple[int, str], int] = field(default_factory=dict)

    def add(self, above: int, name: str) -> int:
        number = self.known.setdefault((above, name), len(self.steps))
        if number == len(self.steps):
            self.steps.append((above, name))
        return number


def _values(paths: _Paths, cost: Costs, asked: Question) -> tuple[Ints, Array, Bools]:
    """Path, value and whether it was reached, of every context that is shown."""
    tree, n = cost.tree, cost.tree.n_listed
    folded = fold_lines(cost, asked.source)
    shown = np.flatnonzero(folded.shown)
    numbers = np.full(n + 1, ABSENT, np.int64)  # -1 picks the last entry, which is absent
    called = names(tree)
    for context, above in zip(shown.tolist(), folded.parent[shown].tolist(), strict=True):
        numbers[context] = paths.add(int(numbers[above]), called[context])
    values = _in_scope(cost, asked, folded.shown)
    reached = cost.has(folded.inclusive[shown]) | cost.has(values[shown])
    return numbers[shown], values[shown], reached


def _in_scope(cost: Costs, asked: Question, shown: Bools) -> Array:
    """The values of the tree in the scope asked for; what lines have of their own is added to what shows them."""
    if asked.scope == Scope.INCLUSIVE:
        return cost.inclusive
    if asked.scope == Scope.EXCLUSIVE:
        values = cost.exclusive
    else:
        experiment, n = cost.experiment, cost.tree.n_listed
        profiles = select(experiment, asked.ranks, asked.threads)
        values = experiment.totals(cost.metric.name, asked.scope, profiles)[:n]
    if asked.scope not in OWN:
        return values
    aggregation: Aggregation = cost.metric.aggregation
    out = np.full(len(values), aggregation.neutral, values.dtype if not aggregation.neutral else np.float64)
    aggregation.combine_at(out, nearest(cost.tree, shown), values)
    return out
