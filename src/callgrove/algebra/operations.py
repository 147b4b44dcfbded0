"""merge, mean, diff: several experiments become one.

    merge   everything that the inputs have, in one experiment; where two have a value in the same place, `conflict`
            decides: `error` (they must be equal), `first`, `last`, `sum`
    mean    the sum divided by the number of inputs (`missing="zero"`), or by the number of those which have a value
            in that place (`missing="skip"`)
    diff    the first less the second

Contexts are matched by call path (`model.unify`), profiles by rank and thread (`profiles.py`), metrics by name.
Values are computed when they are asked for; see the package.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from callgrove.algebra import cells
from callgrove.algebra.combining import CombinedValues
from callgrove.algebra.operands import Operand
from callgrove.algebra.profiles import MatchedProfiles, Systems, described, gathered, match_profiles
from callgrove.algebra.quantities import Demands, Plan, plan_metrics, some
from callgrove.algebra.systems import united_system
from callgrove.algebra.tracing import Renumbered, chained, has_traces, losses_of_traces, set_traces
from callgrove.errors import UsageError
from callgrove.model.arrays import ABSENT, Bools, Ids
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.experiment import Experiment, Severity, Sources
from callgrove.model.renumbering import absent_stays
from callgrove.model.unify import PLACES, Unifier

__all__ = ["CONFLICTS", "IGNORABLE", "MISSING", "Matching", "diff", "mean", "merge"]

NOT_SEEN = -2
IGNORABLE = (*PLACES, "unit")
CONFLICTS = {"error": cells.equal, "first": cells.first, "last": cells.last, "sum": cells.combined}
MISSING = {"zero": cells.mean, "skip": cells.mean_of_present}


@dataclass(frozen=True)
class Matching:
    """When things of two inputs are the same. `ignore` names what may differ, `by_name` compares names of call paths
    only, `systems` says what becomes of the profiles."""

    ignore: tuple[str, ...] = ()
    by_name: bool = False
    systems: Systems = Systems.UNION

    @classmethod
    def of(cls, ignore: Collection[str], by: str, system: str) -> Matching:
        """From the words of a call."""
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
    rule = cells.combined if matching.systems == Systems.COLLAPSE else CONFLICTS[conflict]
    return joined(experiments, matching, rule, "merge")


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
    title = f"mean of {len(experiments)}: {_joined_titles(experiments)}"
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


def joined(experiments: Sequence[Experiment], matching: Matching, rule: cells.Rule, word: str) -> Experiment:
    """All that the inputs have; the rule decides where two have a value in one place."""
    demands = Demands(word, rule in (cells.first, cells.last), any_unit="unit" in matching.ignore)
    operation = Operation(rule, demands, everywhere=False, keeps_traces=True, keeps_elided=True)
    return combine(experiments, matching, operation, _joined_titles(experiments))


def combine(experiments: Sequence[Experiment], matching: Matching, operation: Operation, title: str) -> Experiment:
    """The experiment that an operation makes of its inputs."""
    if not experiments:
        raise UsageError(f"{operation.demands.word} needs at least one experiment")
    profiles = match_profiles(experiments, matching.systems)
    path = f"{operation.demands.word} of {', '.join(e.path or e.title for e in experiments)}"
    builder = ExperimentBuilder(experiments[0].format, experiments[0].version, title, path)
    numbers = _contexts(builder, experiments, matching, operation, profiles)
    demands = replace(operation.demands, same_nesting=_nests_the_same(experiments, numbers, builder.n_contexts))
    plan = plan_metrics(experiments, profiles, demands)
    keeps_traces = operation.keeps_traces and not profiles.collapsed
    _tell(builder, experiments, operation.demands.word, plan, keeps_traces)
    _profiles(builder, experiments, profiles, matching.systems != Systems.SIDE_BY_SIDE)
    for metric in plan.metrics:
        builder.add_metric(metric)
    order = absent_stays(builder.order())
    contexts = [order[own] for own in numbers]
    if keeps_traces:
        _traces(builder, experiments, profiles, contexts, plan)
    operands = [
        Operand(e, own, places, ways, profiles.collapsed, operation.demands.reads_scalars)
        for e, own, places, ways in zip(experiments, profiles.maps, contexts, plan.ways, strict=True)
    ]
    made = builder.build()
    backend = CombinedValues(operands, plan, made.contexts, len(profiles), operation.rule, operation.everywhere)
    return replace(made, values=replace(made.values, backend=backend))


def _joined_titles(experiments: Sequence[Experiment]) -> str:
    return " + ".join(dict.fromkeys(e.title for e in experiments if e.title))


def _tell(
    builder: ExperimentBuilder, experiments: Sequence[Experiment], word: str, plan: Plan, keeps_traces: bool
) -> None:
    """Attributes, attachments and copied sources of the inputs, and what of them is lost."""
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
    """The unified tree; gives the number in the builder for every context of each input."""
    places = tuple(place for place in matching.ignore if place in PLACES)
    unifier = Unifier(builder, ignore=places, by_name=matching.by_name)
    seen = np.zeros(len(profiles), np.bool_)
    numbers, left_out = [], 0
    for number, experiment in enumerate(experiments):
        kept = operation.keeps_elided and not _seen(profiles, number, seen)
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
    for experiment, own in zip(experiments, numbers, strict=True):
        tree, n = experiment.contexts, experiment.contexts.n_listed
        here = absent_stays(own)[tree.within[:n]]
        known = within[own[:n]]
        if ((known != NOT_SEEN) & (known != here)).any():
            return False
        within[own[:n]] = here
    return True


def _seen(profiles: MatchedProfiles, number: int, seen: Bools) -> bool:
    """Does an earlier input have one of this one's profiles? Then which of their elided contexts are the same is not
    known."""
    own = profiles.of_input(number)
    already = bool(seen[own].any())
    seen[own] = True
    return already


def _profiles(
    builder: ExperimentBuilder, experiments: Sequence[Experiment], matched: MatchedProfiles, shared: bool
) -> None:
    for run in matched.runs:
        builder.add_run(run)
    for (kind, name), run in zip(described(experiments, matched), matched.run.tolist(), strict=True):
        builder.add_profile(kind, run=run, name=name)
    builder.set_identifiers(gathered(experiments, matched))
    if (system := united_system(experiments, matched, shared)) is not None:
        builder.set_system(*system)


def _traces(
    builder: ExperimentBuilder,
    experiments: Sequence[Experiment],
    profiles: MatchedProfiles,
    contexts: Sequence[Ids],
    plan: Plan,
) -> None:
    parts = []
    for experiment, own, places, ways in zip(experiments, profiles.maps, contexts, plan.ways, strict=True):
        metrics = np.full(len(experiment.metrics), ABSENT, np.int32)
        for row, way in ways.items():
            if way.is_stored:
                metrics[way.stored] = row
        parts.append(Renumbered(experiment.traces, own, places, metrics))
    set_traces(builder, chained(parts, len(profiles)))
    for loss in losses_of_traces(parts):
        builder.warn(Severity.NOTE, f"lost: {loss}")
