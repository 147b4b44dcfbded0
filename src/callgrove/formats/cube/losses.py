"""What an experiment has that a Cube file cannot hold, in words; only what is really there is named."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from callgrove.formats.cube.anchor import Level
from callgrove.formats.cube.anchor_writer import NOT_XML
from callgrove.formats.cube.places import Places
from callgrove.formats.cube.plan import CnodePlan, MetricPlan
from callgrove.formats.losses import losses_of_events, losses_of_formulas, losses_of_runs, some
from callgrove.model.arrays import NO_OFFSET
from callgrove.model.contexts import ContextKind, ContextTree, Regions
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Metrics, Scope

__all__ = ["losses_of"]

KEPT_KINDS = (ContextKind.FUNCTION, ContextKind.LOOP, ContextKind.ELIDED)
OWN_IDENTIFIERS = ("NODE", "RANK", "THREAD", "GPUDEVICE", "GPUSTREAM")


def losses_of(experiment: Experiment, metrics: MetricPlan, cnodes: CnodePlan, places: Places) -> Iterator[str]:
    """Everything that is left out or changed, one sentence each."""
    yield from _metrics(experiment.metrics, metrics)
    yield from _contexts(experiment.contexts)
    yield from _regions(experiment.contexts.regions)
    yield from _system(experiment, places)
    yield from _rest(experiment)


def _metrics(metrics: Metrics, plan: MetricPlan) -> Iterator[str]:
    yield from losses_of_formulas(metrics[row] for row in plan.left_out)
    if rows := [row for row in plan.left_out if not metrics[row].is_derived]:
        yield f"scopes that can be computed, or not be stored: {some(_label(metrics, row) for row in rows)}"
    written = [(metrics[p.row], p) for p in plan.metrics]
    if found := [m.name for m, _ in written if m.scope == Scope.POINT]:
        yield f"costs of instructions of {some(found)}: stored as exclusive costs of their contexts"
    if found := [f"{m.name} as {p.name}" for m, p in written if m.name != p.name]:
        yield f"names of metrics: {some(found)}"
    if found := [m.name for m, p in written if p.scalar]:
        yield f"composite values of {some(found)}: their scalar reading is stored"
    if found := [m.name for m, _ in written if m.number_format]:
        yield f"number formats of {some(found)}"
    if any(m.statistic for m in metrics):
        yield "stored summaries: they are left out, as readers compute them"
    if metrics.columns:
        yield f"columns that the input wants shown: {len(metrics.columns)}"


def _label(metrics: Metrics, row: int) -> str:
    return f"{metrics[row].name} ({metrics[row].scope.word or 'no scope'})"


def _contexts(tree: ContextTree) -> Iterator[str]:
    if elided := len(tree) - tree.n_listed:
        yield f"elided contexts: {elided}, whose cost is contained in others"
    kinds = [ContextKind(k) for k in np.unique(tree.kind).tolist()]
    if found := [kind.word for kind in kinds if kind not in KEPT_KINDS]:
        yield f"kinds of contexts: {some(found)} are stored as functions"
    if (tree.region[: tree.n_listed] < 0).any():
        yield "contexts without a region: they get one without a name"
    if (tree.within[: tree.n_listed] >= 0).any():
        yield "lexical nesting: every context is stored as called"


def _regions(regions: Regions) -> Iterator[str]:
    if ((regions.file >= 0) & (regions.module >= 0)).any():
        yield "load modules of regions that have a source file"
    if (regions.offset != NO_OFFSET).any():
        yield "offsets of instructions, but for names that contain them"


def _system(experiment: Experiment, places: Places) -> Iterator[str]:
    profiles = experiment.profiles
    if len(profiles.aggregates):
        label = profiles.label(int(profiles.aggregates[0]))
        yield f"that values of single profiles are not known: those of all are in the location {label!r}"
    if len(profiles.summaries):
        yield "stored summaries: they are left out, as readers compute them"
    if places.n_added:
        yield f"{places.n_added} places of the system are added, as profiles need a machine, a node and a process"
    odd = {
        profiles.identifiers.name(kind)
        for kind in np.unique(profiles.identifiers.kind).tolist()
        if profiles.identifiers.name(kind) not in OWN_IDENTIFIERS
    }
    if odd - {"SUMMARY"}:
        yield f"identifiers of profiles: {some(sorted(odd - {'SUMMARY'}))}"
    numbers = profiles.identifiers
    if (numbers.physical != numbers.logical).any():
        yield "identifiers of profiles: physical numbers that differ from the logical ones"
    dropped = sum(
        int(sum(places.of_source[s].level == Level.NODE for s in t.system.tolist() if s in places.of_source))
        for t in experiment.system.topologies
    )
    if dropped:
        yield f"{dropped} coordinates of nodes in topologies: CubeLib has none but of processes and threads"


def _rest(experiment: Experiment) -> Iterator[str]:
    yield from losses_of_runs(experiment.runs)
    if experiment.damage:
        yield f"damaged parts of the input: {len(experiment.damage)}, the first is {experiment.damage[0].text}"
    traces = experiment.traces
    if traces.n_samples:
        yield f"samples: {traces.n_samples} are left out"
    yield from losses_of_events(traces)
    if experiment.sources.n_present:
        yield f"copies of {experiment.sources.n_present} source files"
    texts = [*experiment.contexts.regions.strings, *experiment.attributes.values()]
    if any(NOT_XML.search(text) for text in texts):
        yield "characters that XML has no place for: they become U+FFFD"
