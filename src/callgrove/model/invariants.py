"""What every experiment must satisfy. Each function lists all that is broken, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from callgrove.model.arrays import ABSENT, Array, Ids
from callgrove.model.contexts import ContextKind, Regions, Relation
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Metrics
from callgrove.model.orders import cycles
from callgrove.model.profiles import ProfileKind, Profiles
from callgrove.model.system import System
from callgrove.model.traces import ArraySamples, ArraySpans, Traces
from callgrove.model.values import SparseBlock

__all__ = ["problems_of_contexts", "problems_of_experiment"]


def problems_of_contexts(columns: Mapping[str, Sequence[int]], n_regions: int) -> list[str]:
    """What is broken in contexts that are not ordered yet."""
    table = {name: np.array(values, np.int64) for name, values in columns.items()}
    n = len(table["parent"])
    found = [
        *_outside("contexts", "parent", table["parent"], n),
        *_outside("contexts", "region", table["region"], n_regions),
        *_outside("contexts", "kind", table["kind"], len(ContextKind), lowest=0),
        *_outside("contexts", "relation", table["relation"], len(Relation), lowest=0),
        *_outside("contexts", "within", table["within"], n, lowest=-2),
    ]
    if found:
        return found
    parent, elided = table["parent"], table["kind"] == ContextKind.ELIDED
    if len(wrong := cycles(parent.astype(np.int32))):
        found.append(f"contexts: {len(wrong)} lie on or below a cycle, the first is {wrong[0]}")
    if len(wrong := np.flatnonzero(elided & (parent >= 0))):
        found.append(f"contexts: elided context {wrong[0]} has a parent")
    if len(wrong := np.flatnonzero((parent >= 0) & elided[np.maximum(parent, 0)])):
        found.append(f"contexts: context {wrong[0]} lies below an elided one")
    return found


def problems_of_experiment(experiment: Experiment, block: SparseBlock) -> list[str]:
    """What is broken in an assembled experiment and in the values that are held in memory for it."""
    e = experiment
    return [
        *_regions(e.contexts.regions),
        *_tree(e),
        *_profiles(e.profiles, len(e.runs), len(e.system)),
        *_system(e.system),
        *_metrics(e.metrics),
        *_values(block, e),
        *_traces(e.traces, e),
    ]


def _outside(table: str, column: str, ids: Array, n: int, lowest: int = ABSENT) -> Iterator[str]:
    wrong = np.flatnonzero((ids < lowest) | (ids >= n))
    if len(wrong):
        yield f"{table}: {column} {int(ids[wrong[0]])} of row {int(wrong[0])} is not one of {n}"


def _regions(regions: Regions) -> Iterator[str]:
    for column, n in (
        ("name", len(regions.strings)),
        ("role", len(regions.strings)),
        ("paradigm", len(regions.strings)),
        ("file", len(regions.files)),
        ("module", len(regions.modules)),
    ):
        yield from _outside("regions", column, getattr(regions, column), n)
    yield from _outside("regions", "kind", regions.kind, len(ContextKind), lowest=0)


def _tree(experiment: Experiment) -> Iterator[str]:
    tree = experiment.contexts
    n = tree.n_listed
    yield from _outside("contexts", "call_file", tree.call_file, len(tree.regions.files))
    if (tree.kind[n:] != ContextKind.ELIDED).any():
        yield "contexts: an elided context stands inside the tree"
    if (tree.parent >= np.arange(len(tree))).any():
        yield "contexts: a parent comes after its child"
    inner = np.flatnonzero(tree.parent >= 0)
    if (tree.subtree_end[tree.parent[inner]] < tree.subtree_end[inner]).any():
        yield "contexts: a subtree reaches beyond its parent's"


def _profiles(profiles: Profiles, n_runs: int, n_system: int) -> Iterator[str]:
    if len(profiles.identifiers) != len(profiles):
        yield f"profiles: {len(profiles)} profiles, but {len(profiles.identifiers)} identifier tuples"
    yield from _outside("profiles", "run", profiles.run, n_runs, lowest=0)
    yield from _outside("profiles", "kind", profiles.kind, len(ProfileKind), lowest=0)
    yield from _outside("profiles", "system", profiles.system, n_system)


def _system(system: System) -> Iterator[str]:
    n = len(system)
    yield from _outside("system", "parent", system.parent, n)
    if (system.parent >= np.arange(n)).any():
        yield "system: a parent comes after its child"
    for topology in system.topologies:
        yield from _outside(f"topology {topology.name}", "system", topology.system, n, lowest=0)
        shape = (len(topology.system), len(topology.sizes))
        if topology.coordinates.shape != shape:
            yield f"topology {topology.name}: coordinates are {topology.coordinates.shape}, expected {shape}"
        elif ((topology.coordinates < 0) | (topology.coordinates >= np.array(topology.sizes))).any():
            yield f"topology {topology.name}: a coordinate lies outside of {topology.sizes}"


def _metrics(metrics: Metrics) -> Iterator[str]:
    parent = np.array([m.parent for m in metrics], np.int32)
    yield from _outside("metrics", "parent", parent, len(metrics))
    if not ((parent < ABSENT) | (parent >= len(metrics))).any() and len(cycles(parent)):
        yield "metrics: a metric lies above itself"
    seen: set[tuple[str, str, str]] = set()
    for index, metric in enumerate(metrics):
        key = (metric.name, metric.scope.word, metric.statistic)
        if key in seen:
            yield f"metrics: row {index} repeats {metric.name!r} in scope {metric.scope.word!r}"
        seen.add(key)


def _values(block: SparseBlock, experiment: Experiment) -> Iterator[str]:
    found = [
        *_outside("values", "profile", block.profile, len(experiment.profiles), lowest=0),
        *_outside("values", "context", block.context, len(experiment.contexts), lowest=0),
        *_outside("values", "metric", block.metric, len(experiment.metrics), lowest=0),
    ]
    yield from found
    if not found and len(block):
        keys = np.stack([block.profile, block.context, block.metric])
        if np.unique(keys, axis=1).shape[1] < len(block):
            yield "values: a (profile, context, metric) has more than one value"


def _traces(traces: Traces, experiment: Experiment) -> Iterator[str]:
    n_profiles, n_contexts = len(experiment.profiles), len(experiment.contexts)
    if isinstance(traces.samples, ArraySamples):
        yield from _outside("samples", "profile", traces.samples.profile, n_profiles, lowest=0)
        yield from _outside("samples", "metric", traces.samples.metric, len(experiment.metrics))
        for number, line in enumerate(traces.samples.lines):
            yield from _outside(f"sample line {number}", "context", line.context, n_contexts)
            if (np.diff(line.time_ns) < 0).any():
                yield f"sample line {number}: time runs backwards"
    if isinstance(traces.spans_backend, ArraySpans):
        yield from _spans(traces.spans_backend, n_profiles, n_contexts)
    if traces.counters is not None:
        yield from _outside("counters", "profile", traces.counters.profile, n_profiles, lowest=0)
        yield from _outside("counters", "name", traces.counters.name, len(traces.counters.names), lowest=0)


def _spans(spans: ArraySpans, n_profiles: int, n_contexts: int) -> Iterator[str]:
    columns: Mapping[str, Array] = spans.columns
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        yield f"spans: columns differ in length: {lengths}"
        return
    bounds: tuple[tuple[str, int], ...] = (
        ("profile", n_profiles),
        ("context", n_contexts),
        ("name", len(spans.strings)),
        ("category", len(spans.strings)),
    )
    for name, n in bounds:
        if name in columns:
            ids: Ids = columns[name]
            yield from _outside("spans", name, ids, n)
    for name, side in spans.sides.items():
        yield from _outside(f"side table {name}", "span", side.span, spans.count(), lowest=0)
