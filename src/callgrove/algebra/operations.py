"""Several experiments become one, cell by cell: merge, mean, diff.

    merge   everything that the inputs have, in one experiment; where two have a value in the same place, `conflict`
            decides: `error` (they must be equal), `first`, `last`, `sum`
    mean    the sum divided by the number of inputs (`missing="zero"`), or by the number of those which have a value
            in that place (`missing="skip"`)
    diff    the first less the second

Contexts are matched by call path (`model.unify`), profiles by rank and thread (`profiles.py`), metrics by name.
Values are computed when they are asked for; see the package.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from callgrove.algebra import cells
from callgrove.algebra.cells import Cells, Differs, Rule, combine_cells, difference, lanes, made_one, mean_of_cells
from callgrove.algebra.formulas import Meaning, settle_formulas
from callgrove.algebra.operands import Demands, Operand, Plan, TiledValues, plan_metrics, some, sparse
from callgrove.algebra.profiles import (
    MatchedProfiles,
    Systems,
    describe_profiles,
    gather_tuples,
    match_profiles,
    unite_systems,
)
from callgrove.algebra.traces import Renumbered, chain_traces, has_traces, losses_of_traces, set_traces
from callgrove.arrays import ABSENT, Array, Bools, Ids, Ints, absent_stays, combine_upwards, depths, levels
from callgrove.errors import Parameter, UsageError, compose_text
from callgrove.model.books import Totals, select_counted_contexts
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextTree
from callgrove.model.experiment import Experiment, Severity, Sources
from callgrove.model.joining import PLACES, Unifier
from callgrove.model.metrics import Scope
from callgrove.model.values import SparseBlock

__all__ = ["CONFLICTS", "IGNORABLE", "MISSING", "CombinedValues", "Matching", "diff", "mean", "merge"]


# -- values of a combination -------------------------------------------------------------------------------------------


LINEAR = (combine_cells, mean_of_cells, difference)


def _weights(rule: Rule, n_inputs: int) -> list[float]:
    """Return how often each input counts in a sum, a mean or a difference."""
    if rule is difference:
        return [1.0, *([-1.0] * (n_inputs - 1))]
    return [1 / n_inputs if rule is mean_of_cells else 1.0] * n_inputs


class CombinedValues(TiledValues):
    """The values of several operands. Rows that only one of them has in a profile pass as they are, unless the rule
    is one for all of them (`everywhere`: a mean is divided by the number of inputs)."""

    def __init__(
        self, operands: Sequence[Operand], plan: Plan, tree: ContextTree, n_profiles: int, rule: Rule, everywhere: bool
    ) -> None:
        backends = [operand.experiment.values.backend for operand in operands]
        super().__init__(backends, plan.metrics, n_profiles, len(tree) * len(plan.metrics))
        self._operands, self._tree, self._rule = tuple(operands), tree, rule
        self._combined = plan.is_contested | everywhere
        self._given: list[Totals | None] = [None] * len(operands)
        self._derived = plan.derived
        self._base = {row: base for base, rows in plan.derived.items() for row in rows}

    def n_stored(self) -> int | None:
        """Return at most how many values the inputs hold; None where some are converted, or where that is not known."""
        whole = not self._derived and all(
            way.is_stored and not operand.collapsed for operand in self._operands for way in operand.ways.values()
        )
        counts = [source.n_stored() for source in self._sources] if whole else [None]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    def start_books(self) -> None:
        super().start_books()
        self._made = Totals(self._metrics, None, select_counted_contexts(self._tree))
        self._given = [operand.empty_totals(len(self._metrics)) for operand in self._operands]

    def differences(self) -> Iterator[str]:
        """Yield rows whose cost is not what the rule makes of the costs of the inputs, where it follows from these."""
        yield from super().differences()
        given = [totals for totals in self._given if totals is not None]
        if self._made is None or not given:
            return
        expected = self._made.like()
        for row in self._rows_that_add_up():
            signs = _weights(self._rule, len(given)) if self._combined[row] else [1.0] * len(given)
            expected.total[row] = sum(sign * float(one.total[row]) for sign, one in zip(signs, given, strict=True))
            expected.magnitude[row] = sum(float(one.magnitude[row]) for one in given)
            if not self._made.agrees(row, expected):
                before, after = expected.total[row], self._made.total[row]
                yield f"{self._metrics[row].label}: the inputs make {before:g}, the result has {after:g}"

    def _rows_that_add_up(self) -> list[int]:
        """Return the rows whose total follows from the totals of the inputs: not where values are chosen cell by
        cell."""
        assert self._made is not None
        chosen = self._combined if self._rule not in LINEAR else np.zeros_like(self._combined)
        derived = {row for rows in self._derived.values() for row in rows}
        return [row for row in np.flatnonzero(self._made.adds_up & ~chosen).tolist() if row not in derived]

    def tile(self, profiles: Ints, rows: Ints) -> Iterator[SparseBlock]:
        wanted = np.unique([self._base.get(row, row) for row in rows.tolist()])
        contested: list[tuple[int, SparseBlock]] = []
        for number, (operand, given) in enumerate(zip(self._operands, self._given, strict=True)):
            for block in operand.blocks(profiles, wanted, given):
                mask = self._combined[block.metric]
                if mask.all() and len(self._tree) == self._tree.n_listed:
                    contested.append((number, block))
                    continue
                listed = block.context < self._tree.n_listed  # elided contexts are of one input each
                yield block.take(~mask | ~(listed | np.isin(block.metric, list(self._derived))))
                contested.append((number, block.take(mask & listed)))
        for lane in lanes(contested):
            for block in self._made_one(lane):
                yield from self._scopes(block, set(rows.tolist()), profiles)

    @cached_property
    def _nesting(self) -> list[Ints]:
        """Contexts of the tree by how deep they are nested in the source text."""
        return levels(depths(self._tree.within[: self._tree.n_listed]))

    def _made_one(self, lane: list[tuple[int, SparseBlock]]) -> list[SparseBlock]:
        cells = Cells.of(lane, len(self._operands))
        try:
            return made_one(cells, self._rule, self._metrics)
        except Differs as found:
            raise UsageError(self._conflict(found)) from None

    def _conflict(self, conflict: Differs) -> str:
        cells, cell = conflict.cells, conflict.cell
        metric = self._metrics[int(cells.metric[cell])]
        first = self._operands[int(cells.owner[conflict.one])]
        left, right = first.experiment, self._operands[conflict.owner].experiment
        other = "none" if conflict.other is None else cells.value[conflict.other]
        profiles = np.flatnonzero(first.profiles == cells.profile[cell])
        profile = left.profiles.label(int(profiles[0])) if len(profiles) else "all profiles"
        return compose_text(
            f"{metric.name} ({metric.scope.word}) of {profile} at {self._tree.path(int(cells.context[cell]))}: "
            f"{left.path} has {cells.value[conflict.one]}, {right.path} has {other}; ",
            Parameter("conflict", "first"),
            ", last or sum decides, ",
            Parameter("system", "side-by-side"),
            " keeps both runs",
        )

    def _scopes(self, block: SparseBlock, rows: set[int], profiles: Ints) -> Iterator[SparseBlock]:
        """Yield what was combined, in the scopes of the result: exclusive values of a base become those of its rows."""
        bases = np.isin(block.metric, list(self._derived))
        if not bases.all():
            yield block.take(~bases)
        for base in np.unique(block.metric[bases]).tolist():
            part = block.take(block.metric == base)
            for row, scope in self._derived[base].items():
                if row in rows:
                    yield from self._derive(part, row, scope, profiles)

    def _derive(self, exclusive: SparseBlock, row: int, scope: Scope, profiles: Ints) -> Iterator[SparseBlock]:
        if scope == Scope.EXCLUSIVE:
            yield SparseBlock(
                exclusive.profile, exclusive.context, np.full(len(exclusive), row, np.int32), exclusive.value
            )
            return
        tree, n = self._tree, self._tree.n_listed
        owner = tree.parent[:n] if scope == Scope.INCLUSIVE else tree.within[:n]
        by_level = tree.levels if scope == Scope.INCLUSIVE else self._nesting
        used = np.unique(exclusive.profile)
        dense: Array = np.zeros((len(tree), len(used)), exclusive.value.dtype)
        dense[exclusive.context, np.searchsorted(used, exclusive.profile)] = exclusive.value
        dense[:n] = combine_upwards(dense[:n], owner, by_level)
        yield sparse(dense, used, row)


# -- merge, mean and diff ----------------------------------------------------------------------------------------------


NOT_SEEN = -2
IGNORABLE = (*PLACES, "unit")
CONFLICTS = {"error": cells.equal, "first": cells.first, "last": cells.last, "sum": cells.combine_cells}
MISSING = {"zero": cells.mean_of_cells, "skip": cells.mean_of_present}
MEANT = {
    cells.combine_cells: Meaning.SUMS,
    cells.mean_of_cells: Meaning.MEANS,
    cells.mean_of_present: Meaning.MEANS,
    cells.difference: Meaning.DIFFERENCES,
}


@dataclass(frozen=True)
class Matching:
    """When things of two inputs are the same. `ignore` names what may differ, `by_name` compares names of call paths
    only, `systems` says what becomes of the profiles."""

    ignore: tuple[str, ...] = ()
    by_name: bool = False
    systems: Systems = Systems.UNION

    @classmethod
    def of(cls, ignore: Collection[str], by: str, system: str) -> Matching:
        """Return the matching that the words of a call ask for."""
        if unknown := sorted(set(ignore) - set(IGNORABLE)):
            raise UsageError(f"matching cannot ignore {unknown[0]!r}; it can ignore {', '.join(IGNORABLE)}")
        if by not in ("place", "name"):
            raise UsageError(f"contexts are matched by 'place' or by 'name', not by {by!r}")
        if system not in tuple(Systems):
            raise UsageError(f"there is no way {system!r} to match systems; there are {', '.join(Systems)}")
        return cls(tuple(ignore), by == "name", Systems(system))


@dataclass(frozen=True)
class Operation:
    """What to do with the values of all inputs, and what that asks of their metrics."""

    rule: cells.Rule
    demands: Demands
    everywhere: bool = True
    keeps_traces: bool = False
    keeps_elided: bool = False

    def meaning(self, collapsed: bool) -> Meaning:
        """Return what cells of the result are; `collapsed`: all profiles of an input become one."""
        if self.rule in MEANT:
            return MEANT[self.rule]
        return Meaning.SUMS if collapsed else Meaning.CELLS


def merge(
    *experiments: Experiment,
    conflict: str = "error",
    ignore: Collection[str] = (),
    by: str = "place",
    system: str = "union",
) -> Experiment:
    """Return all inputs as one experiment, made when values are asked for.

    conflict    whose value counts where several inputs have one in the same place: "first", "last" or "sum"; "error"
                raises a UsageError when values that differ are read
    ignore      what may differ: file, line, module, offset, unit
    by          what makes two contexts the same: "place" or "name"
    system      what becomes of the profiles: "union", "strict", "side-by-side" or "collapse"

        callgrove.merge(first_half, second_half)
    """
    if conflict not in CONFLICTS:
        raise UsageError(f"there is no way {conflict!r} to settle conflicts; there are {', '.join(CONFLICTS)}")
    matching = Matching.of(ignore, by, system)
    rule = cells.combine_cells if matching.systems == Systems.COLLAPSE else CONFLICTS[conflict]
    return join_experiments(experiments, matching, rule, "merge")


def mean(
    *experiments: Experiment,
    missing: str = "zero",
    ignore: Collection[str] = (),
    by: str = "place",
    system: str = "union",
) -> Experiment:
    """Return the mean of all inputs as an experiment, in doubles.

    missing     what is missing counts as "zero", or "skip": divide by the number of those that have a value
    ignore      what may differ: file, line, module, offset, unit
    by          what makes two contexts the same: "place" or "name"
    system      what becomes of the profiles: "union", "strict", "side-by-side" or "collapse"

        callgrove.mean(run1, run2, run3)
    """
    if missing not in MISSING:
        raise UsageError(f"what is missing counts as {' or '.join(map(repr, MISSING))}, not {missing!r}")
    rule = MISSING[missing]
    demands = Demands("mean", rule is cells.mean_of_present, True, "double", "unit" in ignore)
    title = f"mean of {len(experiments)}: {_join_titles(experiments)}"
    return combine(experiments, Matching.of(ignore, by, system), Operation(rule, demands), title)


def diff(
    left: Experiment,
    right: Experiment,
    *,
    ignore: Collection[str] = (),
    by: str = "place",
    system: str = "union",
) -> Experiment:
    """Return the differences, left less right, as an experiment; counters become signed. `Experiment.diff` is a table.

    ignore      what may differ: file, line, module, offset, unit
    by          what makes two contexts the same: "place" or "name"
    system      what becomes of the profiles: "union", "strict", "side-by-side" or "collapse"

        callgrove.diff(before, after).top()
    """
    demands = Demands("diff", False, True, "signed", "unit" in ignore)
    operation = Operation(cells.difference, demands)
    return combine((left, right), Matching.of(ignore, by, system), operation, f"{left.title} - {right.title}")


def join_experiments(experiments: Sequence[Experiment], matching: Matching, rule: cells.Rule, word: str) -> Experiment:
    """Return all that the inputs have; the rule decides where two have a value in one place."""
    chooses = rule in (cells.first, cells.last)
    demands = Demands(word, chooses, any_unit="unit" in matching.ignore, adds_up=rule is cells.combine_cells)
    operation = Operation(rule, demands, everywhere=False, keeps_traces=True, keeps_elided=True)
    return combine(experiments, matching, operation, _join_titles(experiments))


def combine(experiments: Sequence[Experiment], matching: Matching, operation: Operation, title: str) -> Experiment:
    """Return the experiment that an operation makes of its inputs."""
    if not experiments:
        raise UsageError(f"{operation.demands.word} needs at least one experiment")
    profiles = match_profiles(experiments, matching.systems)
    settled = settle_formulas(experiments, operation.meaning(profiles.collapsed))
    experiments = settled.experiments
    path = f"{operation.demands.word} of {', '.join(e.path or e.title for e in experiments)}"
    builder = ExperimentBuilder(experiments[0].format, experiments[0].version, title, path)
    numbers = _contexts(builder, experiments, matching, operation, profiles)
    demands = replace(operation.demands, same_nesting=_nests_the_same(experiments, numbers, builder.n_contexts))
    plan = plan_metrics(settled, profiles, demands)
    keeps_traces = operation.keeps_traces and not profiles.collapsed
    _tell(builder, experiments, operation.demands.word, plan, keeps_traces)
    _profiles(builder, experiments, profiles, matching.systems != Systems.SIDE_BY_SIDE)
    for metric in plan.metrics:
        builder.add_metric(metric)
    order = absent_stays(builder.order())
    contexts = [order[ids] for ids in numbers]
    if keeps_traces:
        _traces(builder, experiments, profiles, contexts, plan)
    operands = [
        Operand(e, profile_map, places, ways, profiles.collapsed, operation.demands.reads_scalars)
        for e, profile_map, places, ways in zip(experiments, profiles.maps, contexts, plan.ways, strict=True)
    ]
    made = builder.build()
    backend = CombinedValues(operands, plan, made.contexts, len(profiles), operation.rule, operation.everywhere)
    return replace(made, values=replace(made.values, backend=backend))


def _join_titles(experiments: Sequence[Experiment]) -> str:
    return " + ".join(dict.fromkeys(e.title for e in experiments if e.title))


def _tell(
    builder: ExperimentBuilder, experiments: Sequence[Experiment], word: str, plan: Plan, keeps_traces: bool
) -> None:
    """Give attributes, attachments and copied sources of the inputs to the builder, and say what of them is lost."""
    for experiment in reversed(experiments):
        builder.attributes.update(experiment.attributes)
        builder.attachments.update(experiment.attachments)
    builder.attributes["operation"] = word
    builder.attributes["inputs"] = ", ".join(e.path or e.title for e in experiments)
    builder.warnings += dict.fromkeys(w for e in experiments for w in e.warnings)
    first = experiments[0]
    builder.sources = Sources(first.sources.folder)
    for file, copied in first.sources.copies.items():
        builder.file(first.contexts.regions.files.paths[file], copied)
    for note in plan.notes:
        builder.warn(Severity.NOTE, note)
    if not keeps_traces and (traced := [e.path for e in experiments if has_traces(e)]):
        builder.warn(Severity.NOTE, f"lost: traces of {some(traced)}: what is combined has no course of time")
    if any(metric.statistic for e in experiments for metric in e.metrics):
        builder.warn(Severity.NOTE, "lost: statistics of stored summaries")


def _contexts(
    builder: ExperimentBuilder,
    experiments: Sequence[Experiment],
    matching: Matching,
    operation: Operation,
    profiles: MatchedProfiles,
) -> list[Ids]:
    """Add the unified tree, and return the number in the builder for every context of each input."""
    places = tuple(place for place in matching.ignore if place in PLACES)
    unifier = Unifier(builder, ignore=places, by_name=matching.by_name)
    seen = np.zeros(len(profiles), np.bool_)
    numbers, left_out = [], 0
    for number, experiment in enumerate(experiments):
        kept = operation.keeps_elided and not _shares_a_profile(profiles, number, seen)
        left_out += 0 if kept else len(experiment.contexts) - experiment.contexts.n_listed
        numbers.append(unifier.add(experiment.contexts, keep_elided=kept))
    if left_out:
        builder.warn(
            Severity.NOTE,
            f"lost: {left_out} elided contexts: nothing tells which are the same; the tree has their cost",
        )
    return numbers


def _nests_the_same(experiments: Sequence[Experiment], numbers: Sequence[Ids], n_contexts: int) -> bool:
    """Do all trees agree in which context each one is nested? Those of two formats may not."""
    within = np.full(n_contexts, NOT_SEEN, np.int32)
    for experiment, ids in zip(experiments, numbers, strict=True):
        tree, n = experiment.contexts, experiment.contexts.n_listed
        here = absent_stays(ids)[tree.within[:n]]
        known = within[ids[:n]]
        if ((known != NOT_SEEN) & (known != here)).any():
            return False
        within[ids[:n]] = here
    return True


def _shares_a_profile(profiles: MatchedProfiles, number: int, seen: Bools) -> bool:
    """Return whether an earlier input has one of this one's profiles. Then which of their elided contexts are the same
    is not known."""
    taken = profiles.of_input(number)
    already = bool(seen[taken].any())
    seen[taken] = True
    return already


def _profiles(
    builder: ExperimentBuilder, experiments: Sequence[Experiment], matched: MatchedProfiles, shared: bool
) -> None:
    for run in matched.runs:
        builder.add_run(run)
    kinds, names = describe_profiles(experiments, matched)
    builder.add_profiles(kinds, gather_tuples(experiments, matched), run=matched.run, names=names)
    if (system := unite_systems(experiments, matched, shared)) is not None:
        builder.set_system(*system)


def _traces(
    builder: ExperimentBuilder,
    experiments: Sequence[Experiment],
    profiles: MatchedProfiles,
    contexts: Sequence[Ids],
    plan: Plan,
) -> None:
    parts = []
    for experiment, profile_map, places, ways in zip(experiments, profiles.maps, contexts, plan.ways, strict=True):
        metrics = np.full(len(experiment.metrics), ABSENT, np.int32)
        for row, way in ways.items():
            if way.is_stored:
                metrics[way.stored] = row
        parts.append(Renumbered(experiment.traces, profile_map, places, metrics))
    set_traces(builder, chain_traces(parts, len(profiles)))
    for loss in losses_of_traces(parts):
        builder.warn(Severity.NOTE, f"lost: {loss}")
