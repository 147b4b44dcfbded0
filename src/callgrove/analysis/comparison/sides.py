"""What is asked of several experiments, and what each of them has to compare: call paths and values.

Metrics are the same by name, or as the question says; times in different units are converted. Source lines, call sites
and instructions are part of what they are nested in, unless `source` keeps them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypedDict

import numpy as np

from callgrove.analysis.comparison.call_paths import NameMatching, Nodes, find_names, match_plain_names
from callgrove.analysis.comparison.scaling import SCALINGS
from callgrove.analysis.costs import Costs, Rows, costs, group, nearest
from callgrove.analysis.views import fold_lines
from callgrove.arrays import ABSENT, Array, Bools, Ids, Ints, Names
from callgrove.errors import Parameter, UsageError, compose_text
from callgrove.model.contexts import ContextKind, ContextTree, Relation
from callgrove.model.definitions import find_defined_name
from callgrove.model.derived import require_scope
from callgrove.model.experiment import Experiment
from callgrove.model.joining import ROOT
from callgrove.model.metrics import Aggregation, Scope, time_unit
from callgrove.model.profiles import choose_profiles
from callgrove.model.runs import Numbers

__all__ = [
    "ONLY",
    "SORTS",
    "CompareKeywords",
    "Match",
    "Part",
    "Question",
    "find_factors",
    "join_values",
    "name_metrics",
    "read_costs",
    "read_parts",
    "say_units",
]

BOTH = (Scope.EXCLUSIVE, Scope.INCLUSIVE)
PLACES = (ContextKind.LOOP, ContextKind.LINE, ContextKind.CALL, ContextKind.INSTRUCTION)
OF_EACH = Parameter("metric", "LEFT=RIGHT")
SORTS = ("difference", "ratio", "left", "right", "loss", "path")
ONLY = ("both", "left", "right")
SOME = 3  # names in a note
_RULES = {
    Aggregation.SUM: "a sum",
    Aggregation.MINIMUM: "a minimum",
    Aggregation.MAXIMUM: "a maximum",
    Aggregation.COMPOSITE: "composite values",
    Aggregation.NONE: "a formula over sums",
}

Match = str | Path | Mapping[str, str] | Iterable[tuple[str, str]]


# -- what is asked -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Question:
    """What is compared, of which profiles, and how it is shown.

    metric       may name one of each side: `time=CPUTIME (sec)`
    sort         what comes first: the largest difference, the ratio farthest from 1, the largest left or right, the
                 largest loss; or paths by name
    only         call paths that `both` sides have, or the `left` or `right` one alone; all, if empty
    scaling      `weak` or `strong`: show losses, speed-up and efficiency as well
    processes    how many each input ran on, where that is not to be read off it
    match        names of the first and of the others that mean the same: a file, a mapping or pairs
    """

    metric: str | None = None
    scope: Scope = Scope.EXCLUSIVE
    ranks: Numbers | None = None
    threads: Numbers | None = None
    source: bool = False
    flat: bool = False
    sort: str = "difference"
    only: str = ""
    scaling: str = ""
    processes: Sequence[int] | None = None
    match: Match | None = None

    def check(self, n_inputs: int) -> None:
        """Refuse words that mean nothing, alone or with each other."""
        for word, given, known in (
            ("sort", self.sort, SORTS),
            ("only", self.only, ("", *ONLY)),
            ("scaling", self.scaling, ("", *SCALINGS)),
        ):
            if given not in known:
                raise UsageError(f"there is no {word} {given!r}; there are {', '.join(filter(None, known))}")
        if self.sort == "loss" and not self.scaling:
            raise UsageError("losses are those of scaling, so sorting by them needs ", Parameter("scaling", "strong"))
        if self.processes is not None and not self.scaling:
            raise UsageError("numbers of processes are used by scaling alone; say which: ", Parameter("scaling"))
        if self.processes is not None and len(self.processes) != n_inputs:
            said = f"{len(self.processes)} numbers of processes were given for {n_inputs} inputs"
            raise UsageError(said, "; give one for each")
        if any(number < 1 for number in self.processes or ()):
            raise UsageError(f"an input ran on one process at least, not on {min(self.processes or ())}")


class CompareKeywords(TypedDict, total=False):
    """The parameters of `Experiment.compare`, as `Experiment.diff` passes them on."""

    metric: str | None
    scope: str
    source: bool
    flat: bool
    sort: str
    only: str
    scaling: str
    processes: Sequence[int] | None
    match: str | Path | Mapping[str, str] | None
    ranks: Numbers | None
    threads: Numbers | None


# -- metrics -----------------------------------------------------------------------------------------------------------


def read_costs(experiments: Sequence[Experiment], asked: Question) -> list[Costs]:
    """Return the costs of the metric that was asked for, in each experiment."""
    metrics = name_metrics(experiments, asked)
    sides = [costs(e, name, asked.ranks, asked.threads) for e, name in zip(experiments, metrics, strict=True)]
    for cost in sides:
        require_scope(cost.metric, asked.scope)
    return sides


def name_metrics(experiments: Sequence[Experiment], asked: Question) -> list[str]:
    """Return what the metric is called in each experiment: as asked for, else the default one of the first where all
    have it, else a time that all have, or the time that each shows first; else what all have."""
    if asked.metric:
        return _metrics_named(experiments, asked.metric)
    known = [set(e.metrics.quantities) - set(e.metrics.derived) for e in experiments]
    shared = [name for name in experiments[0].metrics.shown if all(name in names for names in known)]
    times = [name for name in shared if experiments[0].metrics.first(name).is_time]
    default = experiments[0].default_metric
    if default in shared or times:
        return [default if default in shared else times[0]] * len(experiments)
    if all(e.metrics.shown and e.metrics.first(e.default_metric).is_time for e in experiments):
        return [e.default_metric for e in experiments]
    if shared:
        return [shared[0]] * len(experiments)
    first, *rest = (", ".join(e.metrics.quantities[:6]) or "none" for e in experiments)
    raise UsageError(
        f"the experiments share no metric: {experiments[0].path} has {first}, others have {rest[0]}; ",
        OF_EACH,
        " names one of each",
    )


def _metrics_named(experiments: Sequence[Experiment], text: str) -> list[str]:
    """Return the metrics that a text names: one for all, or LEFT=RIGHT. A text that stands for metrics of different
    names, as `time` for CPUTIME and time, stands for its own in each."""
    left, equals, right = text.partition("=")
    first = experiments[0].metrics
    names_two = any(right.strip() in other.metrics.quantities for other in experiments[1:])
    defines = find_defined_name(text) in first.derived and not names_two
    if not equals or any(text in name for name in first.quantities) or defines:
        left = right = text
    names = [experiments[0].metrics.resolve(left.strip())]
    for other in experiments[1:]:
        try:
            same = not equals and names[0] in other.metrics.quantities
            names.append(names[0] if same else other.metrics.resolve(right.strip()))
        except UsageError as error:
            hint = () if equals else ("; ", OF_EACH, " names one metric of each")
            raise UsageError(f"{other.path}: ", error, *hint) from None
    return names


def find_factors(sides: Sequence[Costs]) -> list[float]:
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


def say_units(sides: Sequence[Costs], factors: Sequence[float]) -> Iterator[str]:
    """Say which values are shown in another unit than they are stored in."""
    unit = sides[0].metric.unit
    for cost, factor in zip(sides, factors, strict=True):
        if factor != 1:
            where = cost.experiment.path or cost.experiment.title
            yield f"{cost.metric.name} of {where} is converted from {cost.metric.unit} to {unit}"


# -- the values of one side --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """What one input has to compare: its nodes, the contexts that they are, their values, and which were reached. A
    formula over sums has no values yet: it is computed of all that has one call path."""

    cost: Costs
    asked: Question
    nodes: Nodes
    contexts: Ints
    values: Array
    exclusive: Array
    reached: Bools
    owner: Ids | Ints  # the node that each context of the tree became part of, -1 for none

    def as_exclusive(self) -> Part:
        """Return the part with its exclusive values."""
        return replace(self, values=self.exclusive)

    def ratios(self, places: Ints) -> tuple[Ints, Array, Bools]:
        """Return each call path once, with a formula over all that lies there, and whether it has a value."""
        if self.asked.flat:
            return _flat_ratios(self.cost, self.asked, places)
        of_context = np.append(places, ABSENT)[self.owner]
        return _ratios(self.cost, places, of_context, self.contexts, self.asked)


def read_parts(sides: Sequence[Costs], asked: Question) -> tuple[list[Part], Sequence[str], list[str]]:
    """Return what every side has to compare, all names, and what is to be said of names."""
    overloads = frozenset(t.regions.label(r) for t in (c.tree for c in sides) for r in t.regions.overloads)
    matching, notes = NameMatching.read(asked.match), list[str]()
    used = [_find_used_names(cost.tree, overloads) for cost in sides]
    if unknown := matching.find_unknown(used):
        notes.append(compose_text(Parameter("match"), f": {_some(unknown)} is in no input that it is given for"))
    names, parts = Names(), []
    for number, cost in enumerate(sides):
        renamed = dict(matching.of_side(number))
        if number and cost.experiment.format != sides[0].experiment.format:
            theirs = frozenset(renamed.get(name, name) for name in used[number])
            ours = frozenset(matching.left.get(name, name) for name in used[0])
            plain = match_plain_names(ours, theirs)
            renamed |= plain
            notes += _say_plain_names(plain, cost.experiment)
        called = find_names(cost.tree, overloads, renamed, names)
        parts.append((_flat_part if asked.flat else _part)(cost, asked, called, names))
    return parts, names.all, notes


def _find_used_names(tree: ContextTree, overloads: frozenset[str]) -> frozenset[str]:
    names = Names()
    find_names(tree, overloads, {}, names)
    return frozenset(names.all)


def _say_plain_names(plain: Mapping[str, str], experiment: Experiment) -> Iterator[str]:
    if plain:
        pairs = [f"{left} and {right}" for right, left in plain.items()]
        what = "names that differ in parameters or decoration are" if len(pairs) > 1 else "name is"
        yield f"{experiment.path}: {len(pairs)} {what} taken as the same: {_some(pairs)}"


def _some(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - SOME} more" if len(texts) > SOME else ""
    return ", ".join(texts[:SOME]) + more


def _part(cost: Costs, asked: Question, called: Ids, names: Names) -> Part:
    """Return the contexts that are shown; source lines are part of what they are nested in."""
    folded = fold_lines(cost, asked.source)
    shown = np.flatnonzero(folded.shown & ~_find_frames(cost, called, names))
    node = np.full(len(called) + 1, ABSENT, np.int64)  # -1 picks the last entry, which is none
    node[shown] = np.arange(len(shown))
    is_place = np.isin(cost.tree.kind[shown], PLACES) & (cost.tree.relation[shown] == Relation.LEXICAL)
    nodes = Nodes(node[folded.parent[shown]], called[shown].astype(np.int64), is_place)
    owner = node[folded.owner]
    if cost.is_ratio:
        empty = np.full(len(shown), np.nan)
        return Part(cost, asked, nodes, shown, empty, empty, np.zeros(len(shown), np.bool_), owner)
    exclusive = folded.exclusive[shown]
    values = exclusive if asked.scope == Scope.EXCLUSIVE else _in_scope(cost, asked, folded.shown)[shown]
    reached = cost.has(folded.inclusive[shown]) | cost.has(values)
    return Part(cost, asked, nodes, shown, values, exclusive, reached, owner)


def _find_frames(cost: Costs, called: Ids, names: Names) -> Bools:
    """Return which roots only hold the others together; measurements have such, and databases do not."""
    n = cost.tree.n_listed
    exclusive = cost.exclusive[:n]
    idle = (np.isnan(exclusive) | (exclusive == 0)) if cost.is_ratio else ~cost.has(exclusive)
    frames: Bools = (called == names(ROOT)) & (cost.tree.parent[:n] < 0) & idle
    return frames


def _flat_part(cost: Costs, asked: Question, called: Ids, names: Names) -> Part:
    """Return functions, whoever called them."""
    if asked.scope not in BOTH or asked.source:
        raise UsageError("functions are compared flat by their exclusive or inclusive cost, without source lines")
    groups = group(cost.tree, "function")
    every = np.full(len(groups), ABSENT, np.int64), called[groups.first].astype(np.int64)
    nodes = Nodes(*every, np.zeros(len(groups), np.bool_))
    if cost.is_ratio:
        empty = np.full(len(groups), np.nan)
        return Part(cost, asked, nodes, groups.first, empty, empty, np.zeros(len(groups), np.bool_), groups.of)
    exclusive, inclusive = cost.over(groups.rows(np.arange(len(groups)), cost.tree))
    values = inclusive if asked.scope == Scope.INCLUSIVE else exclusive
    reached = cost.has(exclusive) | cost.has(inclusive)
    return Part(cost, asked, nodes, groups.first, values, exclusive, reached, groups.of)


def _flat_ratios(cost: Costs, asked: Question, places: Ints) -> tuple[Ints, Array, Bools]:
    """Return each name once, with a formula over all functions of that name."""
    groups = group(cost.tree, "function")
    rows = groups.rows(np.arange(len(groups)), cost.tree)
    here, row = np.unique(places, return_inverse=True)
    row = row.reshape(-1)
    (outer, of_outer), (inner, of_inner) = rows.inclusive, rows.exclusive
    exclusive, inclusive = cost.over(Rows(len(here), (outer, row[of_outer]), (inner, row[of_inner])))
    values = inclusive if asked.scope == Scope.INCLUSIVE else exclusive
    return here, values, cost.has(exclusive) | cost.has(inclusive)


def join_values(
    sides: Sequence[Costs], parts: Sequence[Part], places: Sequence[Ints], factors: Sequence[float], n_paths: int
) -> tuple[Array, Bools]:
    """Return values, and who has any cost there or below, as (call paths x experiments)."""
    aggregation, neutral = sides[0].metric.aggregation, sides[0].neutral
    if sides[0].is_ratio:
        found = [part.ratios(place) for part, place in zip(parts, places, strict=True)]
    else:
        found = [(place, part.values, part.reached) for part, place in zip(parts, places, strict=True)]
    scaled = [values if factor == 1 else values * factor for (_, values, _), factor in zip(found, factors, strict=True)]
    kind = np.result_type(*scaled) if not neutral else np.dtype(np.float64)
    if kind.kind == "u":
        kind = np.dtype(np.int64 if all(int(v.max(initial=0)) < 2**63 for v in scaled) else np.float64)
    table = np.full((n_paths, len(parts)), neutral, kind)
    has_cost = np.zeros(table.shape, np.bool_)
    for number, ((place, _, reached), values) in enumerate(zip(found, scaled, strict=True)):
        if sides[number].is_ratio:  # which is that of the whole place already
            table[place, number] = values
        else:
            aggregation.combine_at(table, (place, np.full(len(place), number)), values.astype(kind))  # type: ignore[arg-type]
        has_cost[place[reached], number] = True
    return table, has_cost


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


def _in_scope(cost: Costs, asked: Question, shown: Bools) -> Array:
    """Return the values of the tree in another scope than exclusive; what lines have of their own is added to what
    shows them."""
    if asked.scope == Scope.INCLUSIVE:
        return cost.inclusive
    experiment, n = cost.experiment, cost.tree.n_listed
    profiles = choose_profiles(experiment, asked.ranks, asked.threads)
    values = experiment.totals(cost.metric.name, asked.scope, profiles)[:n]
    if asked.scope != Scope.POINT:  # what a line has there is no part of what its function has
        return values
    aggregation: Aggregation = cost.metric.aggregation
    out = np.full(len(values), aggregation.neutral, values.dtype if not aggregation.neutral else np.float64)
    aggregation.combine_at(out, nearest(cost.tree, shown), values)
    return out
