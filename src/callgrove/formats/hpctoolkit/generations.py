"""What the generations of databases name or number differently, and what none of them can hold."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from callgrove.arrays import Bools, Ids, Ints, distinct
from callgrove.formats.hpctoolkit.database import GPU_KINDS, unit_of
from callgrove.formats.hpctoolkit.metric_plan import MetricPlan
from callgrove.formats.hpctoolkit.release.vocabulary import UNKNOWN_ENTRY, UNKNOWN_FUNCTION, storable
from callgrove.formats.writing.losses import losses_of_events, losses_of_formulas, losses_of_runs, some
from callgrove.model.contexts import NO_ACTIVITY, ContextKind, ContextTree, Regions
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Metric, Metrics
from callgrove.model.profiles import ProfileKind, Profiles, system_of

__all__ = [
    "DESCRIPTION",
    "ENTRY_OF_PLACEHOLDER",
    "NO_ACTIVITY",
    "PARTIAL_PATHS",
    "PLACEHOLDER_OF_ENTRY",
    "UNKNOWN",
    "UNKNOWN_NAMES",
    "find_unused_ids",
    "have_known_names",
    "is_no_activity",
    "kept_ids",
    "losses_of_both",
    "name_unknown_procedure",
]


UNKNOWN, PARTIAL_PATHS = "<unknown>", "<partial call paths>"
UNKNOWN_NAMES = (UNKNOWN, UNKNOWN_FUNCTION)  # functions without a name, as either generation calls them
LARGEST_ID = (1 << 31) - 1

# Entry points of released databases, and what pre-release ones have at the same place.
PLACEHOLDER_OF_ENTRY = {
    "main thread": "<program root>",
    "application thread": "<thread root>",
    UNKNOWN_ENTRY: PARTIAL_PATHS,
}
ENTRY_OF_PLACEHOLDER = {placeholder: entry for entry, placeholder in PLACEHOLDER_OF_ENTRY.items()}


def name_unknown_procedure(module: str, offset: int) -> str:
    """Return what pre-release databases call an instruction that no function encloses."""
    return f"<unknown procedure> {offset:#x} [{module.rpartition('/')[2]}]"


def have_known_names(regions: Regions, *names: str) -> Bools:
    """Return which regions have one of these names."""
    wanted = [number for number, text in enumerate(regions.strings) if text in names]
    out: Bools = np.isin(regions.name, wanted)
    return out


def is_no_activity(contexts: ContextTree) -> Bools:
    """Return the root that idle samples of pre-release databases are on."""
    is_leaf = contexts.subtree_end == np.arange(1, len(contexts) + 1)
    out: Bools = contexts.idle & (contexts.parent < 0) & is_leaf
    return out


def kept_ids(source_ids: Ints, per_context: int, spare: int) -> tuple[Ints, bool]:
    """Return the ids of contexts in the file, and whether they are the source's own: not where these have wide gaps."""
    n = len(source_ids)
    if not n:
        return np.zeros(0, np.int64), True
    usable = int(source_ids.min()) > 0 and int(source_ids.max()) < min(per_context * n + spare, LARGEST_ID)
    if usable and len(distinct(source_ids)) == n:
        return source_ids.astype(np.int64), True
    return np.arange(1, n + 1, dtype=np.int64), False


def find_unused_ids(ids: Ints, n: int) -> Ints:
    """Return the lowest ids from 1 on that are not used."""
    free = np.ones(int(ids.max(initial=0)) + n + 1, np.bool_)
    free[ids] = free[0] = False
    return np.flatnonzero(free)[:n]


# -- what no generation can hold ---------------------------------------------------------------------------------------


DESCRIPTION = "description"  # the attribute that meta.db has a place for


def losses_of_both(
    experiment: Experiment, kind_as_read: Ids, around: Ids, keeps_ids: bool, plan: MetricPlan
) -> Iterator[str]:
    """Yield everything that neither generation holds, or that is changed alike, one sentence each."""
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
    if labels := [label for metric, label in left_out if metric.aggregation in extremes]:
        yield f"metrics {some(labels)}: left out, minima and maxima cannot be added up over threads"
    if labels := [label for metric, label in left_out if metric.aggregation not in extremes]:
        yield f"metrics {some(labels)}: left out"
    if computed := [m.name for m, written, stored in measured if written and stored < 0]:
        yield f"exclusive values of {some(computed)}: stored as function and execution, their sums"
    yield from _of_metrics([metric for metric, written, _ in measured if written])
    if not plan.keeps_ids and any(metric.source_id is not None for metric, _, _ in rows):
        yield "ids of metrics: they are numbered anew"


def _of_metrics(metrics: list[Metric]) -> Iterator[str]:
    if labels := [m.name for m in metrics if m.composite is not None]:
        yield f"composite values of {some(labels)}: their scalar reading is stored"
    if labels := [f"{m.name} ({m.unit})" for m in metrics if m.unit != unit_of(storable(m.name))]:
        yield f"units of {some(labels)}"
    if labels := [m.name for m in metrics if m.parent >= 0]:
        yield f"nesting of metrics: {some(labels)}"
    if labels := [m.name for m in metrics if m.formula or m.url or m.attributes]:
        yield f"formulas, addresses and attributes of {some(labels)}"


def _profiles(profiles: Profiles) -> Iterator[str]:
    identifiers, measured = profiles.identifiers, profiles.measured
    named = [p for p in measured.tolist() if profiles.name[p] not in ("", profiles.describe(p))]
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
