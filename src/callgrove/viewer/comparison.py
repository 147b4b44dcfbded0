"""Two experiments compared, as panels: what the change comes to, a flame graph in two colours, call paths and functions
with what both sides have, and the timelines of both.

Numbers are those of `diff`: `analysis.comparison` matches call paths, once for every metric that both sides have.

    rows    |-- kept call paths --|-- folded rows --|        both sides of a folded row are sums over what it stands for
    values  exclusive: [left, right], and inclusive where it is not the sum over the subtree

Differences, ratios, losses and efficiencies are computed by the page from both sides, as `diff` computes them.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from callgrove.analysis.comparison import Comparison, compare
from callgrove.analysis.comparison.call_paths import CallPaths, Nodes, match_paths
from callgrove.analysis.comparison.sides import Question
from callgrove.arrays import Array, Floats, Ids, Ints, Names, combine_upwards, depths, levels
from callgrove.errors import UsageError
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Scope
from callgrove.render.units import amount
from callgrove.viewer.page import Choice, Detail, Limits, Panel, Texts, Unavailable
from callgrove.viewer.profile_tree import Cut, adds_up, cut_rows
from callgrove.viewer.timeline.maker import TimelineMaker, timeline_maker

__all__ = ["ComparedTree", "ComparisonMaker", "Pair", "TimelinesMaker", "comparing_commands", "pairs_of"]

CLOSE = 1e-9  # of the total: sums in another order differ in the last digits
TINY = 1e-12  # the share of what has a cost that is not part of a total
OF_INCLUSIVE = 1e-3  # what inclusive cost counts beside exclusive, where a function has little of its own
SIDES = ("left", "right")
ALIGNED = (
    "Both begin at 0, with the first event of each: clocks of different runs have nothing in common. One scale holds "
    "for both, so that what is as wide took as long."
)


# -- what is compared --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pair:
    """The first of several experiments and another one, and what is asked of them."""

    sides: tuple[Experiment, Experiment]
    asked: Question

    def compare(self, metric: str, flat: bool) -> Compared:
        """Compare one metric, in both scopes."""
        asked = replace(self.asked, metric=metric, flat=flat, source=self.asked.source and not flat)
        inclusive = compare(self.sides, replace(asked, scope=Scope.INCLUSIVE))
        if inclusive.is_additive:
            return Compared(inclusive, inclusive.exclusive)
        return Compared(inclusive, compare(self.sides, replace(asked, scope=Scope.EXCLUSIVE)).values)

    def other_metrics(self, known: Comparison) -> Iterator[str]:
        """Yield the further metrics that both sides show, measured ones first."""
        left, right = (side.metrics for side in self.sides)
        names = [name for name in left.shown if name in right.quantities and name != known.metrics[0]]
        yield from sorted(names, key=lambda name: name in left.derived)


@dataclass(frozen=True)
class Compared:
    """One metric of two experiments, with its inclusive values; `exclusive` are its exclusive ones."""

    inclusive: Comparison
    exclusive: Array

    @property
    def name(self) -> str:
        """What the first side calls the metric."""
        return self.inclusive.metric.name

    @property
    def in_diff(self) -> Comparison:
        """What `diff` shows unless it is asked for another scope: call paths with an exclusive cost."""
        whole, there = self.inclusive, ~np.isnan(self.exclusive.astype(np.float64))
        if whole.metric.aggregation != Aggregation.NONE:
            there &= self.exclusive != whole.metric.aggregation.neutral
        present = whole.reached & there.any(axis=1, keepdims=True)
        return replace(whole, values=self.exclusive, present=present)

    def describe(self) -> dict[str, Any]:
        """Return what a page needs to know of the metric, and what its change comes to."""
        whole, metric = self.inclusive, self.inclusive.metric
        write = None if metric.is_derived else amount(metric.unit)
        has_sentence = metric.aggregation != Aggregation.NONE
        return {
            "name": metric.name,
            "names": whole.metrics,
            "unit": metric.unit,
            "description": metric.description,
            "derived": metric.formula if metric.is_derived else "",
            "additive": whole.is_additive,
            "missing": whole.is_additive and bool(np.isnan(self.exclusive.astype(np.float64)).any()),
            "totals": whole.totals,
            "sentence": " ".join(whole.say(write)) if has_sentence else "",
            "only": [self.in_diff.count_only(1)[side] for side in SIDES],
        }


def pairs_of(comparison: Comparison) -> Iterator[tuple[Pair, str]]:
    """Yield the first experiment with each of the others, and what the metric is called for both."""
    asked, names = comparison.asked, comparison.metrics
    for number, other in enumerate(comparison.experiments[1:], 1):
        said = [asked.processes[0], asked.processes[number]] if asked.processes is not None else None
        both = names[0] if names[0] == names[number] else f"{names[0]}={names[number]}"
        question = replace(asked, processes=said, sort="difference", only="")
        yield Pair((comparison.experiments[0], other), question), asked.metric or both


def compare_metrics(pair: Pair, metric: str, flat: bool, limits: Limits) -> tuple[list[Compared], int]:
    """Return the metric that was asked for and the others that both sides have, and how many there is no room for."""
    shown, left_out = [pair.compare(metric, flat)], 0
    if limits.metrics == 0:  # nobody looks at others
        return shown, 0
    derived = pair.sides[0].metrics.derived
    room = {False: limits.metrics, True: limits.derived}
    for name in pair.other_metrics(shown[0].inclusive):
        if sum((one.name in derived) == (name in derived) for one in shown) >= room[name in derived]:
            left_out += 1
            continue
        try:
            shown.append(pair.compare(name, flat))
        except UsageError:  # other units, or no values that numbers can say
            left_out += 1
    return [shown[0], *(one for one in shown[1:] if one.inclusive.reached.any())], left_out


def comparing_commands(comparison: Comparison) -> tuple[str, ...]:
    """Return commands to go on with; none where sides are not files, but runs of one."""
    if not all(side.path and Path(side.path).exists() for side in comparison.experiments):
        return ()
    both = " ".join(shlex.quote(side.path) for side in comparison.experiments)
    return (
        f"callgrove diff {both} --sort ratio --only both",
        f"callgrove diff {both} --flat --scope inclusive",
        f"callgrove diff {both} --format csv",
    )


# -- call paths, or functions, the smallest of them folded -------------------------------------------------------------


class PathLabels:
    """Names of call paths by number, each once. Places inside functions have a kind, by which pages shorten them."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str], int] = {}

    def of(self, paths: CallPaths, rows: Ints) -> Ints:
        """Return the number of each path's name."""
        different, of = np.unique(paths.name[rows] * 2 + paths.is_place[rows], return_inverse=True)
        numbers = [self._number(paths.names[code // 2], bool(code % 2)) for code in different.tolist()]
        return np.array(numbers, np.int64)[of.reshape(-1)] if len(numbers) else np.empty(0, np.int64)

    def _number(self, name: str, is_place: bool) -> int:
        kind = ("loop" if name.startswith("loop at ") else "line") if is_place else "function"
        return self._numbers.setdefault((name, kind), len(self._numbers))

    @property
    def data(self) -> dict[str, Any]:
        """All names as columns."""
        names, kinds = zip(*self._numbers, strict=True) if self._numbers else ((), ())
        empty = Texts([""] * len(names))
        line = np.full(len(names), -1)
        return {"name": Texts(names), "kind": Texts(kinds), "file": empty, "line": line, "module": empty}


class ComparedTree:
    """The call paths of some metrics, or functions, which are a tree without any levels."""

    def __init__(self, metrics: Sequence[Compared]) -> None:
        self._metrics = metrics
        names = Names()
        nodes = [
            Nodes(one.parent.astype(np.int64), names.numbers(one.names).astype(np.int64)[one.name], one.is_place)
            for one in (metric.inclusive.paths for metric in metrics)
        ]
        self._paths, self._places = match_paths(nodes, names.all)

    @cached_property
    def _rows(self) -> Ints:
        """Call paths at or below which any side has a cost in any metric."""
        there = np.zeros(len(self._paths), np.int8)
        for metric, place in zip(self._metrics, self._places, strict=True):
            there[place] |= metric.inclusive.reached.any(axis=1)
        above = combine_upwards(there, self._paths.parent, levels(depths(self._paths.parent)), np.maximum)
        return np.flatnonzero(above)

    @cached_property
    def _parent(self) -> Ids:
        """By position among `_rows`."""
        position = np.full(len(self._paths) + 1, -1, np.int32)
        position[self._rows] = np.arange(len(self._rows))
        out: Ids = position[self._paths.parent[self._rows]]
        return out

    def __len__(self) -> int:
        return len(self._rows)

    def _spread_out(self, number: int, values: Array, absent: float) -> Array:
        """Return the values of a metric by row and side."""
        kind = values.dtype if absent == 0 else np.result_type(values.dtype, np.float64)
        out = np.full((len(self._paths), values.shape[1]), absent, kind)
        out[self._places[number]] = values
        return out[self._rows]

    @cached_property
    def _values(self) -> list[tuple[Array, Array, Array]]:
        """Exclusive and inclusive values of every metric, and who has a cost at or below a row: 1 the left side, 2 the
        right one, 3 both."""
        out = []
        for number, one in enumerate(self._metrics):
            absent = _absent(one.inclusive)
            exclusive = self._spread_out(number, one.exclusive, absent)
            inclusive = self._spread_out(number, one.inclusive.values, absent)
            reached = self._spread_out(number, one.inclusive.reached, 0)
            out.append((exclusive, inclusive, reached[:, 0] + 2 * reached[:, 1].astype(np.uint8)))
        return out

    @cached_property
    def _size(self) -> Floats:
        """The largest share of a row or of what is below it: in any metric, on either side."""
        size, by_level = np.full(len(self), TINY), levels(depths(self._parent))
        for metric, (exclusive, inclusive, _) in zip(self._metrics, self._values, strict=True):
            if not metric.inclusive.is_additive:
                continue
            for side in range(2):
                sizes = np.nan_to_num(np.abs(exclusive[:, side].astype(np.float64)))
                whole = sizes.sum() or 1.0
                all_below = combine_upwards(sizes, self._parent, by_level, np.add)
                np.fmax(size, all_below / whole, out=size)
                np.fmax(size, OF_INCLUSIVE * np.abs(inclusive[:, side]) / whole, out=size)
        return combine_upwards(size, self._parent, by_level, np.maximum)

    def cut(self, n_rows: int, labels: PathLabels) -> tuple[dict[str, Any], Cut]:
        """Return the largest rows, and rows for what lies below them."""
        cut = cut_rows(self._parent, self._size, n_rows)
        data = {
            "parent": cut.parent,
            "label": labels.of(self._paths, self._rows[cut.kept]),
            "more": cut.more,
            "metrics": [self._metric(number, cut) for number in range(len(self._metrics))],
        }
        return data, cut

    def _metric(self, number: int, cut: Cut) -> dict[str, Any]:
        """Return one metric over kept and folded rows. Functions call each other, so that what several of them have
        inclusively is not a sum: a folded row of functions has none."""
        exclusive, inclusive, present = self._values[number]
        comparison = self._metrics[number].inclusive
        is_flat = comparison.asked.flat
        both = np.zeros(len(cut.more), np.uint8)
        np.bitwise_or.at(both, cut.row, present[cut.dropped])
        folded = _combine(comparison, exclusive, cut.dropped, cut.row, len(cut.more))
        below = _combine(comparison, inclusive, cut.tops, cut.row_of_top, len(cut.more))
        if is_flat:
            below = np.full(below.shape, np.nan)
        shown = np.concatenate([exclusive[cut.kept], folded]), np.concatenate([inclusive[cut.kept], below])
        sides = [[np.ascontiguousarray(values[:, side]) for side in range(2)] for values in shown]
        data = {"exclusive": sides[0], "present": np.concatenate([present[cut.kept], both])}
        is_sum = comparison.is_additive and all(adds_up(cut.parent, sides[0][k], sides[1][k]) for k in range(2))
        return data if is_sum else {**data, "inclusive": sides[1]}


def _absent(comparison: Comparison) -> float:
    """Return what stands for a cost that is not there."""
    aggregation = comparison.metric.aggregation
    return np.nan if aggregation == Aggregation.NONE else aggregation.neutral


def _combine(comparison: Comparison, values: Array, rows: Ints, targets: Ints, n: int) -> Array:
    """Return what some rows come to in the folded rows that stand for them. Formulas over sums cannot be combined."""
    out = np.full((n, values.shape[1]), _absent(comparison), values.dtype)
    if comparison.metric.aggregation != Aggregation.NONE:
        comparison.metric.aggregation.combine_at(out, targets, values[rows])
    return out


# -- the panels --------------------------------------------------------------------------------------------------------


class ComparisonMaker:
    """What the change comes to, the flame graph, and the tables of call paths and of functions."""

    def __init__(self, pair: Pair, metric: str, limits: Limits) -> None:
        self._pair, self._limits = pair, limits
        functions, self._left_out = compare_metrics(pair, metric, True, limits)
        paths, left_out = (functions, 0) if pair.asked.flat else compare_metrics(pair, metric, False, limits)
        shared = {one.name for one in functions} & {one.name for one in paths}
        self._metrics = [one for one in paths if one.name in shared]
        self._left_out = max(self._left_out, left_out, len(paths) - len(shared))
        self._flat = ComparedTree([one for one in functions if one.name in shared])
        self._tree = None if pair.asked.flat else ComparedTree(self._metrics)
        self.differences: tuple[str, ...] = ()

    @property
    def first(self) -> Comparison:
        """The comparison of the metric that is shown first."""
        return self._metrics[0].inclusive

    @property
    def _scaling(self) -> dict[str, Any] | None:
        """How losses and efficiencies are computed, where they were asked for."""
        processes, kind = self.first.processes, self._pair.asked.scaling
        return {"kind": kind, "processes": [processes.require(0), processes.require(1)]} if kind else None

    @cached_property
    def _described(self) -> list[dict[str, Any]]:
        return [one.describe() for one in self._metrics]

    def panels(self, detail: Detail) -> Iterator[Panel]:
        labels = PathLabels()
        functions, cut = self._flat.cut(detail.of(len(self._flat), self._limits.rows, 10), labels)
        cuts = {"functions": cut}
        tree = None
        if self._tree is not None:
            tree, cuts["call paths"] = self._tree.cut(detail.of(len(self._tree), self._limits.contexts), labels)
        shared = {
            "labels": labels.data,
            "metrics": self._described,
            "sides": self.first.short_names,
            "scaling": self._scaling,
        }
        self.differences = tuple(self._check(functions, tree))
        notes = tuple(self._notes(cuts))
        yield Panel("comparison", "Overview", {**shared, "functions": functions, "has_tree": tree is not None}, notes)
        if tree is not None and any(one["additive"] and not one["missing"] for one in self._described):
            yield Panel("compareflame", "Flame graph", {**shared, "tree": tree}, notes)
        elif tree is None:
            reason = "functions are compared, whoever called them; without --flat, call paths are compared"
            yield from Unavailable("Flame graph", reason).panels(detail)
        yield Panel("comparetree", "Call tree", {**shared, "tree": tree, "functions": functions}, notes)

    def _check(self, *trees: dict[str, Any] | None) -> Iterator[str]:
        """Yield what does not add up to the total of a side."""
        for tree, what in zip(trees, ("table of functions", "call tree"), strict=True):
            for one, values in zip(self._metrics, tree["metrics"] if tree else (), strict=False):
                whole = one.inclusive
                for side, total in enumerate(whole.totals if whole.is_additive else ()):
                    exclusive = values["exclusive"][side].astype(np.float64)
                    room = CLOSE * max(float(np.nansum(np.abs(exclusive))), abs(total))
                    if abs(float(exclusive.sum()) - total) > room:
                        name = f"{whole.metric.name} of {whole.short_names[side]}"
                        yield f"{name}: the {what} adds up to {exclusive.sum():g}, the total is {total:g}"

    def _notes(self, cuts: dict[str, Cut]) -> Iterator[str]:
        yield from self.first.notes
        for side, name in zip(self._pair.sides, self.first.short_names, strict=True):
            if len(side.runs) > 1:
                yield f"{name}: {len(side.runs):,} runs are added up here; --run chooses one of them."
        for what, cut in cuts.items():
            if n := len(cut.dropped):
                yield (
                    f"To keep this page small, {n:,} of {len(cut.kept):,} {what} are folded into rows that say how "
                    f"many they stand for: each has at most {100 * cut.share:.3g}% of the cost of either side, in "
                    "every metric. Both sides of such a row are sums over all that it stands for."
                )
        if self._left_out:
            yield f"{len(self._metrics)} metrics are shown, {self._left_out} more are not; -m chooses the first one."


class TimelinesMaker:
    """The timelines of both sides, one above the other."""

    def __init__(self, pair: Pair, names: Sequence[str], limits: Limits) -> None:
        choice = Choice(ranks=pair.asked.ranks, threads=pair.asked.threads)
        self._names = names
        self._makers: list[TimelineMaker | None] = [timeline_maker(side, choice, limits) for side in pair.sides]

    def panels(self, detail: Detail) -> Iterable[Panel]:
        if not any(self._makers):
            return
        sides, notes = list[dict[str, Any]](), [ALIGNED]
        for maker, name in zip(self._makers, self._names, strict=True):
            (panel,) = maker.panels(detail) if maker is not None else (None,)
            sides.append({"name": name, "timeline": panel.data if panel else None})
            notes += [f"{name}: {text}" for text in panel.notes] if panel else [f"{name} has no traces."]
        yield Panel("comparetime", "Timelines", {"pair": sides}, tuple(notes))
