"""What an experiment has that a released database cannot hold, in words; only what is really there is named."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from callgrove.formats.hpctoolkit.database import GPU_KINDS, unit_of
from callgrove.formats.hpctoolkit.profile_writer import LARGEST_KIND, LARGEST_LOGICAL
from callgrove.formats.hpctoolkit.release_plan import FileTree, MetricPlan
from callgrove.formats.hpctoolkit.release_words import storable
from callgrove.model.contexts import ContextKind, ContextTree
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Metric, Metrics
from callgrove.model.profiles import Interpretation, ProfileKind, Profiles
from callgrove.model.system import system_of

__all__ = ["DESCRIPTION", "losses_of"]

SHOWN = 5  # names in one sentence
DESCRIPTION = "description"  # the attribute that meta.db has a place for


def losses_of(experiment: Experiment, tree: FileTree, metrics: MetricPlan) -> Iterator[str]:
    """Everything that is left out or changed, one sentence each."""
    yield from _contexts(experiment.contexts, tree)
    yield from _regions(experiment.contexts, tree)
    yield from _metrics(experiment.metrics, metrics)
    yield from _profiles(experiment.profiles)
    yield from _rest(experiment)
    yield from _traces(experiment)


def _some(names: Iterable[str]) -> str:
    """The first few of some names."""
    found = list(dict.fromkeys(names))
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return ", ".join(found[:SHOWN]) + more


def _contexts(contexts: ContextTree, tree: FileTree) -> Iterator[str]:
    n = len(contexts)
    changed = np.flatnonzero(contexts.kind != tree.kind_as_read[:n])
    pairs = np.unique(np.stack([contexts.kind[changed], tree.kind_as_read[changed]], axis=1), axis=0)
    words = [f"{ContextKind(a).word} is stored as {ContextKind(b).word}" for a, b in pairs.tolist()]
    if words:
        yield f"kinds of {len(changed)} contexts: {_some(sorted(words))}"
    if not tree.keeps_ids and (contexts.source_id >= 0).any():
        yield "ids of contexts: they are numbered anew"
    if contexts.parameters:
        yield f"parameters of {len(contexts.parameters)} contexts"
    if contexts.attributes:
        yield f"attributes of {len(contexts.attributes)} contexts"
    if called := int((contexts.call_line >= 0).sum()):
        yield f"call sites: where {called} contexts were called from"
    elsewhere = (contexts.within != np.where(tree.around[:n] >= 0, tree.around[:n], -1)) & contexts.listed
    if elsewhere.any():
        yield f"nesting: {int(elsewhere.sum())} contexts belong to another one than their parent"


def _regions(contexts: ContextTree, tree: FileTree) -> Iterator[str]:
    regions = contexts.regions
    used = np.unique(contexts.region[contexts.region >= 0])
    for column in ("role", "paradigm", "end_line"):
        if (getattr(regions, column)[used] >= 0).any():
            yield f"{column.replace('_', ' ')}s of regions"
    if regions.details:
        yield f"details of {len(regions.details)} regions: {_some(key for d in regions.details.values() for key in d)}"
    entries = tree.region[tree.entries]
    entries = entries[entries >= 0]
    if ((regions.file[entries] >= 0) | (regions.module[entries] >= 0)).any():
        yield "places of entry points: file, line, module and offset"
    inner = contexts.region[(tree.lexical_type[: len(contexts)] > 0) & (contexts.region >= 0)]
    if (regions.name[inner] >= 0).any():
        yield "names of loops, lines and instructions: they are known by their place"


def _metrics(metrics: Metrics, plan: MetricPlan) -> Iterator[str]:
    rows = list(zip(metrics, plan.written.tolist(), plan.stored.tolist(), strict=True))
    if statistics := {metric.statistic for metric, _, _ in rows if metric.statistic}:
        yield f"statistics of the stored summary: {_some(sorted(statistics))}; sums are computed anew"
    measured = [(metric, written, stored) for metric, written, stored in rows if not metric.statistic]
    extremes = (Aggregation.MINIMUM, Aggregation.MAXIMUM)
    left_out = [(m, f"{m.name} ({m.scope.word or 'no scope'})") for m, written, _ in measured if not written]
    if found := [label for metric, label in left_out if metric.aggregation in extremes]:
        yield f"metrics {_some(found)}: left out, minima and maxima cannot be added up over threads"
    if found := [label for metric, label in left_out if metric.aggregation not in extremes]:
        yield f"metrics {_some(found)}: left out"
    computed = [m.name for m, written, stored in measured if written and stored < 0]
    if computed:
        yield f"exclusive values of {_some(computed)}: stored as function and execution, their sums"
    yield from _of_metrics([metric for metric, written, _ in measured if written])
    if not plan.keeps_ids and any(metric.source_id is not None for metric, _, _ in rows):
        yield "ids of metrics: they are numbered anew"


def _of_metrics(metrics: list[Metric]) -> Iterator[str]:
    if found := [m.name for m in metrics if m.composite is not None]:
        yield f"composite values of {_some(found)}: their scalar reading is stored"
    if found := [f"{m.name} ({m.unit})" for m in metrics if m.unit != unit_of(storable(m.name))]:
        yield f"units of {_some(found)}"
    if found := [m.name for m in metrics if m.parent >= 0]:
        yield f"nesting of metrics: {_some(found)}"
    if found := [m.name for m in metrics if m.formula or m.url or m.attributes]:
        yield f"formulas, addresses and attributes of {_some(found)}"


def _profiles(profiles: Profiles) -> Iterator[str]:
    identifiers, measured = profiles.identifiers, profiles.measured
    named = [p for p in measured.tolist() if profiles.name[p] not in ("", profiles.described(p))]
    if named:
        yield f"names of {len(named)} profiles"
    streams = np.zeros(len(profiles), np.bool_)
    for name in GPU_KINDS:
        streams |= identifiers.pick(name, "logical")[1]
    kind = profiles.kind[measured]
    changed = kind != np.where(streams, ProfileKind.GPU_STREAM, ProfileKind.THREAD)[measured]
    if changed.any():
        yield f"kinds of profiles: {_some(ProfileKind(k).word for k in kind[changed].tolist())}"
    if any(profiles.attributes):
        yield "attributes of profiles"
    if (identifiers.logical > LARGEST_LOGICAL).any() or (identifiers.kind > LARGEST_KIND).any():
        yield f"identifiers: logical numbers above {LARGEST_LOGICAL} and kinds above {LARGEST_KIND} do not fit"
    made = (Interpretation.LOGICAL_LOCAL, Interpretation.LOGICAL_GLOBAL)
    if np.isin(identifiers.interpretation, made).any():
        yield "identifiers: that logical numbers were generated"


def _rest(experiment: Experiment) -> Iterator[str]:
    if len(experiment.runs) > 1:
        yield f"runs: {len(experiment.runs)} become one"
    if any(run.parameters for run in experiment.runs):
        yield "parameters of runs"
    made, _ = system_of(experiment.profiles)
    system = experiment.system
    same = np.array_equal(system.parent, made.parent) and (system.kind, system.name) == (made.kind, made.name)
    if not same or system.attributes:
        yield "the system tree: only identifiers of profiles are stored"
    if system.topologies:
        yield f"topologies: {_some(t.name or 'without a name' for t in system.topologies)}"
    if others := [name for name in experiment.attributes if name != DESCRIPTION]:
        yield f"attributes: {_some(others)}"
    if experiment.attachments:
        yield f"attachments: {_some(experiment.attachments)}"


def _traces(experiment: Experiment) -> Iterator[str]:
    traces = experiment.traces
    if traces.n_spans:
        yield f"spans: {traces.n_spans} are left out"
    if traces.counters is not None and len(traces.counters):
        yield f"counters over time: {len(traces.counters)} values are left out"
    if traces.samples is not None and (traces.samples.metric >= 0).any():
        yield "samples of metrics: only samples of contexts are stored"
