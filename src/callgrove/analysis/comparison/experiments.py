"""One metric of several experiments, call path by call path.

Call paths are the same where all names on them are, so that runs of different builds and files of different formats
can be compared; equal siblings add up. `flat` compares functions whoever called them: profilers differ in what lies
above `main`.

Formulas over sums are computed of what each side has at a call path: neither they nor their differences add up, and
where one side has no value there is no difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from callgrove.analysis.comparison.call_paths import CallPaths, match_paths
from callgrove.analysis.comparison.scaling import Processes, scaling_figures
from callgrove.analysis.comparison.sentences import Change, Side, say_change, short_names
from callgrove.analysis.comparison.sides import Question, find_factors, join_values, read_costs, read_parts, say_units
from callgrove.arrays import Array, Bools, Floats, Ints
from callgrove.errors import Parameter, UsageError
from callgrove.model.experiment import Experiment
from callgrove.model.methods.shared import ComparisonMethods
from callgrove.model.metrics import Aggregation, Metric, Scope
from callgrove.model.table import Column, Table

__all__ = ["NEAR", "Comparison", "compare", "left_less_right", "order_rows"]

NEAR = 1e-12  # relative; less is rounding
SHOWN = 20  # rows, in a notebook
PRESENT = np.array(["", "left", "right", "both"])


# -- what differs ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Comparison(ComparisonMethods):
    """One metric of several experiments, of which the first is compared with each of the others.

    values, present    (call paths x experiments), in the scope asked for; NaN is not a value
    reached            who has a cost there or below
    exclusive          exclusive costs
    totals             inclusive costs of the roots; NaN is not a total
    metrics            what the metric is called in each
    notes              which units were converted, and which names were taken as the same
    experiments        what was compared

        comparison = before.compare(after)
        print(comparison.sentence)
        print(comparison.table(limit=10))
    """

    metric: Metric
    values: Array
    present: Bools
    reached: Bools
    exclusive: Array
    totals: tuple[float, ...]
    names: tuple[str, ...]
    metrics: tuple[str, ...]
    paths: CallPaths
    asked: Question
    processes: Processes
    notes: tuple[str, ...] = ()
    experiments: tuple[Experiment, ...] = ()

    @property
    def is_additive(self) -> bool:
        """Whether costs add up to the totals."""
        return self.metric.aggregation == Aggregation.SUM

    @cached_property
    def short_names(self) -> tuple[str, ...]:
        """What the experiments are called in sentences."""
        return short_names(self.names)

    def table(self, limit: int | None = None) -> Table:
        """Return where the first experiment and another one differ, sorted as asked. With more than two there is a row
        for each of the others, and a column that names it."""
        path, other, left, right, has = self._pairs
        difference, ratio = self._differences
        figures = self._scaling
        rows = self._order()
        shown = rows if limit is None else rows[:limit]
        absent = np.nan if self.metric.derivation is not None else self.metric.aggregation.neutral or None
        columns = [
            Column("path", [self.paths.text(k) for k in path[shown].tolist()]),
            Column("left", left[shown], absent),
            Column("right", right[shown], absent),
            Column("difference", difference[shown], np.nan),
            Column("ratio", ratio[shown], np.nan),
            *(Column(name, values[shown], np.nan) for name, values in figures.items()),
            Column("present", PRESENT[has[0] + 2 * has[1].astype(int)][shown].tolist()),
        ]
        if len(self.names) > 2:
            columns.append(Column("input", [self.names[k + 1] for k in other[shown].tolist()]))
        told = (*self.sentences, *self.notes)
        return Table(tuple(columns), left=len(rows) - len(shown), title=self._title(), notes=told)

    def _title(self) -> str:
        """Return the metric with the totals of all sides, where there are any."""
        sides = zip(self.names, self.totals, strict=True)
        unit = self.metric.unit
        totals = [f"{total:,.6g} {unit}".rstrip() + f" in {name}" for name, total in sides if not np.isnan(total)]
        return f"{self.metric.name}: {', '.join(totals)}" if totals else f"{self.metric.name} {unit}".rstrip()

    def __repr__(self) -> str:
        """Return one line, whatever was compared."""
        return f"<Comparison of {len(self.names)} experiments, {len(self.paths)} call paths: {self.sentence}>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the first rows."""
        return self.table(SHOWN)._repr_html_()

    def path(self, number: int) -> str:
        """Return the names from the root, joined by `->`; the middle of very long paths is cut."""
        return self.paths.text(number)

    @property
    def sentence(self) -> str:
        """What the comparison comes to, in words."""
        return "; ".join(self.sentences)

    @cached_property
    def sentences(self) -> tuple[str, ...]:
        """What each of the other experiments has, compared with the first, in words."""
        return tuple(self.say())

    def say(self, amount: Callable[[float], str] | None = None) -> Iterator[str]:
        """Yield what each of the other experiments has, compared with the first; `amount` is how costs are written."""
        return (say_change(self.change(number), amount) for number in range(1, len(self.names)))

    def change(self, other: int) -> Change:
        """Return what the experiment with that number has more or less than the first."""
        paths, place = self.paths.of_functions
        sides = [self._side(k, len(paths), place) for k in (0, other)]
        change = None
        if self.is_additive:
            change = np.zeros(len(paths))
            with np.errstate(invalid="ignore", over="ignore"):  # values need not be finite
                np.add.at(change, place, self.exclusive[:, other].astype(np.float64) - self.exclusive[:, 0])
        return Change(self.metric, paths, sides[0], sides[1], change, self.metrics[0] == self.metrics[other])

    def _side(self, number: int, n_paths: int, place: Ints) -> Side:
        """Return one experiment as a side of a change; `place` is the call path of the function of each path."""
        reached = np.zeros(n_paths, np.bool_)
        reached[place[self.reached[:, number]]] = True
        counts = self.processes.of(number), self.processes.profiles[number]
        return Side(self.short_names[number], self.totals[number], reached, *counts)

    def count_only(self, other: int) -> dict[str, tuple[int, float]]:
        """Return how many call paths `left` and `right` have alone, and what these cost, exclusively."""
        has, exclusive = self.present[:, [0, other]], self.exclusive[:, [0, other]]
        masks = {"left": has[:, 0] & ~has[:, 1], "right": has[:, 1] & ~has[:, 0]}
        return {
            word: (int(mask.sum()), float(exclusive[mask, k].sum()) if self.is_additive else np.nan)
            for k, (word, mask) in enumerate(masks.items())
        }

    def require_common(self) -> None:
        """Refuse experiments that have costs, but no call path in common with the first."""
        alone = [k for k in range(1, len(self.names)) if self.is_apart(k)]
        if len(alone) < len(self.names) - 1 or not alone:
            return
        first = [self.paths.text(int(np.flatnonzero(self.reached[:, k])[0])) for k in (0, alone[0])]
        what = "functions" if self.asked.flat else "call paths"
        says_names = Parameter("match"), " says which names mean the same"
        flat = Parameter("flat", True), " compares functions, whoever called them"
        raise UsageError(
            f"{self.names[0]} and {self.names[alone[0]]} have no {what} in common: the first one of the left is "
            f"{first[0]}, of the right {first[1]}; ",
            *(says_names if self.asked.flat else flat),
        )

    def is_apart(self, other: int) -> bool:
        """Return whether both have costs, and no call path in common."""
        has = self.reached[:, 0], self.reached[:, other]
        return bool(has[0].any() and has[1].any() and not (has[0] & has[1]).any())

    @cached_property
    def _pairs(self) -> tuple[Ints, Ints, Array, Array, tuple[Bools, Bools]]:
        """Path and other experiment of every possible row, its left and right value, and which of them there is."""
        n_others = self.values.shape[1] - 1
        path, other = np.divmod(np.arange(len(self.values) * n_others), max(1, n_others))
        has = self.present[path, 0], self.present[path, other + 1]
        return path, other, self.values[path, 0], self.values[path, other + 1], has

    @cached_property
    def _differences(self) -> tuple[Array, Floats]:
        _, _, left, right, _ = self._pairs
        return left_less_right(left, right)

    @cached_property
    def _scaling(self) -> dict[str, Floats]:
        """Loss, speed-up and efficiency of every row, where they were asked for."""
        if not self.asked.scaling:
            return {}
        _, other, left, right, has = self._pairs
        counts = np.array([self.processes.require(k) for k in range(len(self.names))], np.float64)
        totals = np.array(self.totals)
        pair = np.full(len(left), counts[0]), counts[other + 1]
        return scaling_figures(left, right, has[0] & has[1], totals[other + 1], *pair, self.asked.scaling)

    def _order(self) -> Ints:
        """Return the rows to show, in the order asked for."""
        path, _, left, right, has = self._pairs
        only = {"both": has[0] & has[1], "left": has[0] & ~has[1], "right": has[1] & ~has[0]}
        rows = np.flatnonzero(only.get(self.asked.only, has[0] | has[1]))
        difference, ratio = self._differences
        sizes = [np.where(h, np.abs(v.astype(np.float64)), 0) for h, v in zip(has, (left, right), strict=True)]
        if self.asked.sort == "path":
            return rows[np.lexsort((rows, self.paths.alphabetical[path[rows]]))]
        if self.asked.sort == "loss":
            return rows[np.lexsort((rows, -np.nan_to_num(self._scaling["loss"][rows], nan=-np.inf)))]
        return order_rows(rows, self.asked.sort, difference, ratio, sizes, has[0] & has[1])


def left_less_right(left: Array, right: Array) -> tuple[Array, Floats]:
    """Return left less right, and left divided by right; NaN where there is none."""
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        difference = left - right
        if difference.dtype.kind == "f":
            near = np.abs(difference) <= NEAR * np.maximum(np.abs(left), np.abs(right))
            difference = np.where(near & np.isfinite(difference), 0.0, difference)
            difference = np.where(np.isinf(left) | np.isinf(right), np.nan, difference)
        ratio = left.astype(np.float64) / right.astype(np.float64)
    return difference, np.where(np.isfinite(ratio), ratio, np.nan)


def order_rows(
    rows: Ints, sort: str, difference: Array, ratio: Floats, sizes: Sequence[Floats], in_both: Bools
) -> Ints:
    """Return rows by the size of their difference, of their ratio, or of one side; equal ones by size, then as they
    are. A ratio is as far from 1 as its logarithm is from 0; rows without one come after, those of one side last."""
    weight = np.where(np.isnan(difference), 0, np.abs(difference.astype(np.float64)))[rows]
    largest = np.fmax(*sizes)[rows]
    if sort in ("left", "right"):
        return rows[np.lexsort((rows, -weight, -sizes[("left", "right").index(sort)][rows]))]
    if sort == "ratio":
        has_ratio = in_both & (ratio > 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            far = np.where(has_ratio, np.abs(np.log(ratio)), 0)[rows]
        return rows[np.lexsort((rows, -largest, -weight, -far, ~has_ratio[rows], ~in_both[rows]))]
    return rows[np.lexsort((rows, -largest, -weight))]


# -- comparing ---------------------------------------------------------------------------------------------------------


def compare(experiments: Sequence[Experiment], question: Question | None = None) -> Comparison:
    """Compare the first experiment against each of the others."""
    asked = question or Question()
    if len(experiments) < 2:
        raise UsageError("comparing needs two experiments")
    asked.check(len(experiments))
    sides = read_costs(experiments, asked)
    metrics = [cost.metric.name for cost in sides]
    if asked.scaling and not sides[0].is_additive:
        raise UsageError(f"{metrics[0]} is not a sum over processes, so there is no loss, speed-up or efficiency of it")
    factors = find_factors(sides)
    parts, names, notes = read_parts(sides, asked)
    paths, places = match_paths([part.nodes for part in parts], names)
    values, reached = join_values(sides, parts, places, factors, len(paths))
    present = reached & np.any(sides[0].has(values), axis=1, keepdims=True)
    exclusive = values
    if asked.scope != Scope.EXCLUSIVE and sides[0].is_additive:
        exclusive, _ = join_values(sides, [part.as_exclusive() for part in parts], places, factors, len(paths))
    titles = tuple(e.path or e.title for e in experiments)
    totals = tuple(c.total * factor for c, factor in zip(sides, factors, strict=True))
    processes = Processes.read(experiments, [c.profiles for c in sides], asked.processes)
    notes = [*say_units(sides, factors), *notes]
    return Comparison(
        *(sides[0].metric, values, present, reached, exclusive, totals, titles, tuple(metrics)),
        *(paths, asked, processes, tuple(notes), tuple(experiments)),
    )
