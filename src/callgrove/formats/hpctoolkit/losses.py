"""What an experiment has that a database of either generation cannot hold, in words; only what is there is named."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from callgrove.formats.hpctoolkit.database import GPU_KINDS, unit_of
from callgrove.formats.hpctoolkit.metric_plan import MetricPlan
from callgrove.formats.hpctoolkit.release_words import storable
from callgrove.formats.losses import losses_of_events, losses_of_formulas, losses_of_runs, some
from callgrove.model.arrays import Bools, Ids, distinct
from callgrove.model.contexts import ContextKind, ContextTree
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Metric, Metrics
from callgrove.model.profiles import ProfileKind, Profiles
from callgrove.model.system import system_of

__all__ = ["DESCRIPTION", "losses_of_both"]

DESCRIPTION = "description"  # the attribute that meta.db has a place for


def losses_of_both(
    experiment: Experiment, kind_as_read: Ids, around: Ids, keeps_ids: bool, plan: MetricPlan
) -> Iterator[str]:
    """Everything that neither generation holds, or that is changed alike, one sentence each."""
    yield from _contexts(experiment.contexts, kind_as_read, around, keeps_ids)
    yield from _regions(experiment.contexts)
    yield from _metrics(experiment.metrics, plan)
    yield from _profiles(experiment.profiles)
    yield from _rest(experiment)
    yield from _traces(experiment)


def _contexts(contexts: ContextTree, kind_as_read: Ids, around: Ids, keeps_ids: bool) -> Iterator[str]:
    changed = np.flatnonzero(contexts.kind != kind_as_read)
    pairs = np.unique(np.stack([contexts.kind[changed], kind_as_read[changed]], axis=1), axis=0)
    words = [f"{ContextKind(a).word} is stored as {ContextKind(b).word}" for a, b in pairs.tolist()]
    if words:
        yield f"kinds of {len(changed)} contexts: {some(sorted(words))}"
    if not keeps_ids and (contexts.source_id >= 0).any():
        yield "ids of contexts: they are numbered anew"
    if contexts.parameters:
        yield f"parameters of {len(contexts.parameters)} contexts"
    if contexts.attributes:
        yield f"attributes of {len(contexts.attributes)} contexts"
    stays: Bools = contexts.listed & (kind_as_read != ContextKind.ELIDED)
    elsewhere = (contexts.within != np.where(around >= 0, around, -1)) & stays
    if elsewhere.any():
        yield f"nesting: {int(elsewhere.sum())} contexts belong to another one than their parent"


def _regions(contexts: ContextTree) -> Iterator[str]:
    regions = contexts.regions
    used = distinct(contexts.region[contexts.region >= 0])
    for column in ("role", "paradigm", "end_line"):
        if (getattr(regions, column)[used] >= 0).any():
            yield f"{column.replace('_', ' ')}s of regions"
    if regions.details:
        yield f"details of {len(regions.details)} regions: {some(key for d in regions.details.values() for key in d)}"


def _metrics(metrics: Metrics, plan: MetricPlan) -> Iterator[str]:
    rows = list(zip(metrics, plan.written.tolist(), plan.stored.tolist(), strict=True))
    kept = {
        metric.first.name: {name for scope in metric.scopes for name, _ in scope.statistics} for metric in plan.metrics
    }
    if lost := {m.statistic for m in metrics if m.statistic and m.statistic not in kept.get(m.name, ())}:
        yield f"statistics of the stored summary: {some(sorted(lost))}"
    measured = [(metric, written, stored) for metric, written, stored in rows if not metric.statistic]
    yield from losses_of_formulas(metrics)
    measured = [row for row in measured if not row[0].is_derived]
    extremes = (Aggregation.MINIMUM, Aggregation.MAXIMUM)
    left_out = [(m, f"{m.name} ({m.scope.word or 'no scope'})") for m, written, _ in measured if not written]
    if found := [label for metric, label in left_out if metric.aggregation in extremes]:
        yield f"metrics {some(found)}: left out, minima and maxima cannot be added up over threads"
    if found := [label for metric, label in left_out if metric.aggregation not in extremes]:
        yield f"metrics {some(found)}: left out"
    if computed := [m.name for m, written, stored in measured if written and stored < 0]:
        yield f"exclusive values of {some(computed)}: stored as function and execution, their sums"
    yield from _of_metrics([metric for metric, written, _ in measured if written])
    if not plan.keeps_ids and any(metric.source_id is not None for metric, _, _ in rows):
        yield "ids of metrics: they are numbered anew"


def _of_metrics(metrics: list[Metric]) -> Iterator[str]:
    if found := [m.name for m in metrics if m.composite is not None]:
        yield f"composite values of {some(found)}: their scalar reading is stored"
    if found := [f"{m.name} ({m.unit})" for m in metrics if m.unit != unit_of(storable(m.name))]:
        yield f"units of {some(found)}"
    if found := [m.name for m in metrics if m.parent >= 0]:
        yield f"nesting of metrics: {some(found)}"
    if found := [m.name for m in metrics if m.formula or m.url or m.attributes]:
        yield f"formulas, addresses and attributes of {some(found)}"


def _profiles(profiles: Profiles) -> Iterator[str]:
    identifiers, measured = profiles.identifiers, profiles.measured
    named = [p for p in measured.tolist() if profiles.name[p] not in ("", profiles.described(p))]
    if named:
        yield f"names of {len(named)} profiles"
    streams = np.zeros(len(profiles), np.bool_)
    for name in GPU_KINDS:
        streams |= identifiers.pick(name, "logical")[1]
    read = np.where(streams, ProfileKind.GPU_STREAM, ProfileKind.THREAD)
    read[identifiers.pick("SUMMARY", "logical")[1]] = ProfileKind.AGGREGATE
    kind = profiles.kind[measured]
    changed = kind != read[measured]
    if changed.any():
        yield f"kinds of profiles: {some(ProfileKind(k).word for k in kind[changed].tolist())}"
    if any(profiles.attributes):
        yield "attributes of profiles"


def _rest(experiment: Experiment) -> Iterator[str]:
    yield from losses_of_runs(experiment.runs)
    made, _ = system_of(experiment.profiles)
    system = experiment.system
    same = np.array_equal(system.parent, made.parent) and (system.kind, system.name) == (made.kind, made.name)
    if not same or system.attributes:
        yield "the system tree: only identifiers of profiles are stored"
    if system.topologies:
        yield f"topologies: {some(t.name or 'without a name' for t in system.topologies)}"
    if others := [name for name in experiment.attributes if name != DESCRIPTION]:
        yield f"attributes: {some(others)}"
    if experiment.attachments:
        yield f"attachments: {some(experiment.attachments)}"


def _traces(experiment: Experiment) -> Iterator[str]:
    traces = experiment.traces
    yield from losses_of_events(traces)
    if traces.samples is not None and (traces.samples.metric >= 0).any():
        yield "samples of metrics: only samples of contexts are stored"
