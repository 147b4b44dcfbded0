"""What differs between experiments: one metric, call path by call path.

Call paths are the same where all names on them are, so that runs of different builds and files of different formats
can be compared; equal siblings add up. Source lines, call sites and instructions are part of what they are nested in,
unless `source` keeps them. `flat` compares functions whoever called them: profilers differ in what lies above `main`.

Formulas over sums are computed of what each side has at a call path: neither they nor their differences add up, and
where one side has no value there is no difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from callgrove.analysis.costs import Costs, Rows, costs, group, nearest
from callgrove.analysis.views import fold_lines
from callgrove.arrays import ABSENT, Array, Bools, Floats, Ints
from callgrove.errors import Parameter, UsageError
from callgrove.model.contexts import LONGEST_PATH, ContextTree
from callgrove.model.definitions import defined_name
from callgrove.model.derived import require_scope
from callgrove.model.experiment import Experiment
from callgrove.model.joining import ROOT, names
from callgrove.model.metrics import Aggregation, Metric, Scope, time_unit
from callgrove.model.profiles import choose_profiles
from callgrove.model.runs import Numbers
from callgrove.model.table import Column, Table

__all__ = ["Comparison", "Question", "compare"]

BOTH = (Scope.EXCLUSIVE, Scope.INCLUSIVE)
OWN = (Scope.EXCLUSIVE, Scope.POINT)  # what a line costs is no part of what its function has in these scopes
OF_EACH = Parameter("metric", "LEFT=RIGHT")
NEAR = 1e-12  # relative; less is rounding
_RULES = {
    Aggregation.SUM: "a sum",
    Aggregation.MINIMUM: "a minimum",
    Aggregation.MAXIMUM: "a maximum",
    Aggregation.COMPOSITE: "composite values",
    Aggregation.NONE: "a formula over sums",
}


@dataclass(frozen=True)
class Question:
    """What is compared, and of which profiles. `metric` may name one of each side: `time=CPUTIME (sec)`."""

    metric: str | None = None
    scope: Scope = Scope.EXCLUSIVE
    ranks: Numbers | None = None
    threads: Numbers | None = None
    source: bool = False
    flat: bool = False


@dataclass(frozen=True)
class Comparison:
    """One metric of several experiments. `values` and `present` are (call paths x experiments); `totals` are the
    inclusive costs of the roots, and `metrics` what the metric is called in each. NaN is no value, and no total."""

    metric: Metric
    values: Array
    present: Bools
    totals: tuple[float, ...]
    names: tuple[str, ...]
    metrics: tuple[str, ...]
    _steps: tuple[tuple[int, str], ...]

    def table(self, limit: int | None = None) -> Table:
        """Return where the first experiment and another one differ, the largest difference first. With more than two
        there is a row for each of the others, and a column that names it."""
        n_others = self.values.shape[1] - 1
        path, other = np.divmod(np.arange(len(self.values) * n_others), max(1, n_others))
        left, right = self.values[path, 0], self.values[path, other + 1]
        has = self.present[path, 0], self.present[path, other + 1]
        difference, ratio = self._difference(left, right)
        rows = np.flatnonzero(has[0] | has[1])
        weight = np.where(np.isnan(difference), 0, np.abs(difference.astype(np.float64)))
        sizes = (np.where(h, np.abs(v.astype(np.float64)), 0) for h, v in zip(has, (left, right), strict=True))
        largest = np.fmax(*sizes)
        rows = rows[np.lexsort((rows, -largest[rows], -weight[rows]))]
        shown = rows if limit is None else rows[:limit]
        words = np.array(["", "left", "right", "both"])[has[0] + 2 * has[1].astype(int)]
        absent = np.nan if self.metric.derivation is not None else self.metric.aggregation.neutral or None
        columns = [
            Column("path", [self.path(k) for k in path[shown].tolist()]),
            Column("left", left[shown], absent),
            Column("right", right[shown], absent),
            Column("difference", difference[shown], np.nan),
            Column("ratio", ratio[shown], np.nan),
            Column("present", words[shown].tolist()),
        ]
        if n_others > 1:
            columns.append(Column("input", [self.names[k + 1] for k in other[shown].tolist()]))
        return Table(tuple(columns), left=len(rows) - len(shown))

    def _difference(self, left: Array, right: Array) -> tuple[Array, Floats]:
        """Return left less right, and left divided by right; NaN where there is none."""
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            difference = left - right
            if difference.dtype.kind == "f":
                near = np.abs(difference) <= NEAR * np.maximum(np.abs(left), np.abs(right))
                difference = np.where(near & np.isfinite(difference), 0.0, difference)
                difference = np.where(np.isinf(left) | np.isinf(right), np.nan, difference)
            ratio = left.astype(np.float64) / right.astype(np.float64)
        return difference, np.where(np.isfinite(ratio), ratio, np.nan)

    def path(self, number: int) -> str:
        """Return the names from the root, joined by `->`; the middle of very long paths is cut."""
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
    """Compare the first experiment against each of the others."""
    asked = question or Question()
    if len(experiments) < 2:
        raise UsageError("comparing needs two experiments")
    metrics = _metrics(experiments, asked)
    sides = [costs(e, name, asked.ranks, asked.threads) for e, name in zip(experiments, metrics, strict=True)]
    for cost in sides:
        require_scope(cost.metric, asked.scope)
    metric, factors = sides[0].metric, _factors(sides)
    paths = _Paths(overloads=_overloads(sides))
    read = _flat_values if asked.flat else _values
    parts = [read(paths, cost, asked) for cost in sides]
    parts = [
        (places, values if factor == 1 else values * factor, reached)
        for (places, values, reached), factor in zip(parts, factors, strict=True)
    ]
    neutral = sides[0].neutral
    kind = np.result_type(*(values for _, values, _ in parts)) if not neutral else np.dtype(np.float64)
    if kind.kind == "u":
        kind = np.dtype(np.int64 if all(int(v.max(initial=0)) < 2**63 for _, v, _ in parts) else np.float64)
    table = np.full((len(paths.steps), len(parts)), neutral, kind)
    present = np.zeros(table.shape, np.bool_)
    for number, (places, values, reached) in enumerate(parts):
        if sides[number].is_ratio:  # which is that of the whole place already
            table[places, number] = values
        else:
            metric.aggregation.combine_at(table, (places, np.full(len(places), number)), values.astype(kind))  # type: ignore[arg-type]
        present[places[reached], number] = True
    present &= np.any(sides[0].has(table), axis=1, keepdims=True)
    names = tuple(e.path or e.title for e in experiments)
    totals = tuple(c.total * factor for c, factor in zip(sides, factors, strict=True))
    return Comparison(metric, table, present, totals, names, tuple(metrics), tuple(paths.steps))


def _metrics(experiments: Sequence[Experiment], asked: Question) -> list[str]:
    """Return what the metric is called in each experiment: as asked for, or the first default one that all have, or the
    time that each shows first."""
    if asked.metric:
        return _metrics_named(experiments, asked.metric)
    known = [set(e.metrics.quantities) - set(e.metrics.derived) for e in experiments]
    shared = [name for name in experiments[0].metrics.shown if all(name in names for names in known)]
    if shared:
        default = experiments[0].default_metric
        return [default if default in shared else shared[0]] * len(experiments)
    if all(e.metrics.shown and e.metrics.first(e.default_metric).is_time for e in experiments):
        return [e.default_metric for e in experiments]
    first, *rest = (", ".join(e.metrics.quantities[:6]) or "none" for e in experiments)
    raise UsageError(
        f"the experiments share no metric: {experiments[0].path} has {first}, others have {rest[0]}; ",
        OF_EACH,
        " names one of each",
    )


def _metrics_named(experiments: Sequence[Experiment], text: str) -> list[str]:
    """Return the metrics that a text names: one for all, or LEFT=RIGHT."""
    left, equals, right = text.partition("=")
    first = experiments[0].metrics
    names_two = any(right.strip() in other.metrics.quantities for other in experiments[1:])
    defines = defined_name(text) in first.derived and not names_two
    if not equals or any(text in name for name in first.quantities) or defines:
        left = right = text
    names = [experiments[0].metrics.resolve(left.strip())]
    for other in experiments[1:]:
        try:
            names.append(other.metrics.resolve(right.strip() if equals else names[0]))
        except UsageError as error:
            hint = () if equals else ("; ", OF_EACH, " names one metric of each")
            raise UsageError(f"{other.path}: ", error, *hint) from None
    return names


def _factors(sides: Sequence[Costs]) -> list[float]:
    """Return what the values of each are multiplied with, so that times in different units compare; other units must be
    the same."""
    first, factors = sides[0].metric, []
    for cost in sides:
        metric = cost.metric
        times = time_unit(metric.unit), time_unit(first.unit)
        same = not (first.unit and metric.unit) or first.unit == metric.unit or all(times)
        if first.aggregation != metric.aggregation:
            what = " and ".join(f"{one.name} ({_RULES[one.aggregation]})" for one in (first, metric))
            raise UsageError(f"{what} cannot be compared")
        if not same:
            what = f"{first.unit} and {metric.unit}"
            raise UsageError(f"metric {first.name}: is measured in {what}: these cannot be compared")
        factors.append(times[0] / times[1] if times[0] and times[1] else 1.0)
    return factors


def _overloads(sides: Sequence[Costs]) -> frozenset[str]:
    regions = [cost.tree.regions for cost in sides]
    return frozenset(one.label(region) for one in regions for region in one.overloads)


@dataclass
class _Paths:
    """Call paths by parent and name."""

    overloads: frozenset[str] = frozenset()  # names that several functions of one input have
    steps: list[tuple[int, str]] = field(default_factory=list)
    known: dict[tuple[int, str], int] = field(default_factory=dict)

    def names(self, tree: ContextTree) -> list[str]:
        """Return what the listed contexts are called; of overloads the mangled name is said as well."""
        texts = names(tree)
        if not self.overloads:
            return texts
        said = ((name, tree.mangled_name(context)) for context, name in enumerate(texts))
        return [f"{name} [{mangled}]" if name in self.overloads and mangled else name for name, mangled in said]

    def add(self, above: int, name: str) -> int:
        number = self.known.setdefault((above, name), len(self.steps))
        if number == len(self.steps):
            self.steps.append((above, name))
        return number


def _values(paths: _Paths, cost: Costs, asked: Question) -> tuple[Ints, Array, Bools]:
    """Return path, value and whether it was reached, of every context that is shown."""
    tree, n = cost.tree, cost.tree.n_listed
    folded = fold_lines(cost, asked.source)
    called = paths.names(tree)
    numbers = np.full(n + 1, ABSENT, np.int64)  # -1 picks the last entry, which is absent
    shown = [c for c in np.flatnonzero(folded.shown).tolist() if not _is_frame(c, cost, called)]
    for context, above in zip(shown, folded.parent[shown].tolist(), strict=True):
        numbers[context] = paths.add(int(numbers[above]), called[context])
    if cost.is_ratio:
        return _ratios(cost, numbers[shown], numbers[folded.owner], np.array(shown, np.int64), asked)
    values = _in_scope(cost, asked, folded.shown)
    reached = cost.has(folded.inclusive[shown]) | cost.has(values[shown])
    return numbers[shown], values[shown], reached


def _ratios(
    cost: Costs, places: Ints, place_of_context: Ints, shown: Ints, asked: Question
) -> tuple[Ints, Array, Bools]:
    """Return each place once, with a formula over all that lies there."""
    here, row = np.unique(places, return_inverse=True)
    part = np.flatnonzero(place_of_context >= 0)
    row_of_context = np.searchsorted(here, place_of_context[part])
    each = (shown[np.argsort(row.reshape(-1))], np.arange(len(here))) if len(here) == len(shown) else None
    exclusive, inclusive = cost.over(Rows(len(here), (shown, row.reshape(-1)), (part, row_of_context), each))
    values = inclusive if asked.scope == Scope.INCLUSIVE else exclusive
    return here, values, cost.has(exclusive) | cost.has(inclusive)


def _is_frame(context: int, cost: Costs, called: Sequence[str]) -> bool:
    """Tell whether a root only holds the others together, which measurements have and databases do not."""
    if called[context] != ROOT or cost.tree.parent[context] >= 0:
        return False
    value = cost.exclusive[context]
    return bool(np.isnan(value) or not value) if cost.is_ratio else not cost.has(value)


def _flat_values(paths: _Paths, cost: Costs, asked: Question) -> tuple[Ints, Array, Bools]:
    """Return rows, costs and presence by function, whoever called it."""
    if asked.scope not in BOTH or asked.source:
        raise UsageError("functions are compared flat by their exclusive or inclusive cost, without source lines")
    groups, called = group(cost.tree, "function"), paths.names(cost.tree)
    places = np.array([paths.add(ABSENT, called[context]) for context in groups.first.tolist()], np.int64)
    rows = groups.rows(np.arange(len(groups)), cost.tree)
    if cost.is_ratio:  # functions of one name are one
        places, row = np.unique(places, return_inverse=True)
        (outer, of_outer), (inner, of_inner) = rows.inclusive, rows.exclusive
        rows = Rows(len(places), (outer, row.reshape(-1)[of_outer]), (inner, row.reshape(-1)[of_inner]))
    exclusive, inclusive = cost.over(rows)
    values = inclusive if asked.scope == Scope.INCLUSIVE else exclusive
    return places, values, cost.has(exclusive) | cost.has(inclusive)


def _in_scope(cost: Costs, asked: Question, shown: Bools) -> Array:
    """Return the values of the tree in the scope asked for; what lines have of their own is added to what shows
    them."""
    if asked.scope == Scope.INCLUSIVE:
        return cost.inclusive
    if asked.scope == Scope.EXCLUSIVE:
        values = cost.exclusive
    else:
        experiment, n = cost.experiment, cost.tree.n_listed
        profiles = choose_profiles(experiment, asked.ranks, asked.threads)
        values = experiment.totals(cost.metric.name, asked.scope, profiles)[:n]
    if asked.scope not in OWN:
        return values
    aggregation: Aggregation = cost.metric.aggregation
    out = np.full(len(values), aggregation.neutral, values.dtype if not aggregation.neutral else np.float64)
    aggregation.combine_at(out, nearest(cost.tree, shown), values)
    return out
