"""An experiment: one or more runs and everything measured in them; and what every experiment must satisfy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from callgrove.arrays import ABSENT, Array, Ids, Ints, cycles, distinct, have_equal_rows
from callgrove.errors import CallgroveError, InputError, RefusedInput, UsageError
from callgrove.model.computed_values import matrices, recipe
from callgrove.model.contexts import ContextKind, ContextTree, Regions, Relation
from callgrove.model.derived import ProfileCells, TotalCells
from callgrove.model.methods.exports import ExportMethods
from callgrove.model.methods.parts import PartMethods
from callgrove.model.methods.shared import SharedMethods
from callgrove.model.methods.traces import TraceMethods
from callgrove.model.methods.views import ViewMethods
from callgrove.model.metrics import Aggregation, Metrics, Scope
from callgrove.model.profiles import ProfileKind, Profiles
from callgrove.model.runs import Run
from callgrove.model.system import System
from callgrove.model.traces.events import ArraySamples, ArraySpans, Counters, SpanKind, Traces
from callgrove.model.values import SparseBlock, Values

if TYPE_CHECKING:
    from callgrove.model.study.run_values import Combination
    from callgrove.model.study.series import Study

__all__ = [
    "Attachment",
    "Experiment",
    "InputWarning",
    "Severity",
    "Sources",
    "problems_of_contexts",
    "problems_of_experiment",
]


class Severity(StrEnum):
    """How much a warning matters."""

    NOTE = "note"  # worth knowing; nothing is lost
    MISSING = "missing"  # a part that such an input may have is not there
    DAMAGE = "damage"  # something in the input is broken; what is intact was read


@dataclass(frozen=True)
class InputWarning:
    """Something about the input that a user should know."""

    severity: Severity
    text: str


class Attachment(Protocol):
    """A named blob that travels with an experiment."""

    def read(self) -> bytes:
        """Return its bytes."""


@dataclass(frozen=True)
class Sources:
    """Source files that were copied into the input. Nothing outside `folder` is ever read."""

    folder: Path | None = None
    copies: Mapping[int, str] = field(default_factory=dict)  # file id -> path relative to the folder

    def __len__(self) -> int:
        return len(self.copies)

    def path(self, file: int) -> Path | None:
        """Return where the copy of a file lies, if it is there. A copy that points outside the folder is refused."""
        if self.folder is None or file not in self.copies:
            return None
        try:
            root = self.folder.resolve()
            where = (root / self.copies[file]).resolve()
            if not where.is_relative_to(root):
                raise RefusedInput(f"{self.folder}: the source {self.copies[file]!r} lies outside of the folder")
            return where if where.is_file() else None
        except (OSError, RuntimeError, ValueError):  # a name that no file can have, links that run in a circle
            return None

    @cached_property
    def n_present(self) -> int:
        """How many copies are there. Inputs name copies that were left behind when they were moved."""
        return sum(self._is_present(file) for file in self.copies)

    def _is_present(self, file: int) -> bool:
        try:
            return self.path(file) is not None
        except RefusedInput:
            return False

    def lines(self, file: int) -> list[str]:
        """Return the text of a copied file, line by line; empty where there is no copy."""
        where = self.path(file)
        try:
            return where.read_text("utf-8", "replace").splitlines() if where else []
        except OSError as error:
            raise InputError(f"{where}: {error.strerror or error}") from error


@dataclass(frozen=True)
class Experiment(ViewMethods, TraceMethods, PartMethods, ExportMethods, SharedMethods):
    """One or more runs, and everything measured in them: what `callgrove.open` returns.

    title, format, version, path    what it is, and where it was read from
    runs          executions, with their parameters
    profiles      threads, GPU streams, ...: `profiles.where(ranks=...)` gives their ids
    system        where profiles live: machine, node, process, thread
    contexts      the calling context tree, in preorder
    metrics       what was measured, with units and scopes; `default_metric` is what views show
    values        (profile, context, metric) -> number
    traces        samples and spans over time
    sources       source files that were copied into the input
    warnings      what a user should know; `damage` is what is broken in the input
    whole         where contexts were selected, the experiment before that: percentages are of its cost
    is_measurement    whether the input holds raw measurements with addresses; `prof` makes databases with names of them

    Everything is immutable; values and traces are read when they are asked for. Methods mirror the verbs of the command
    line and return tables, which `print` and notebooks show, or experiments again.

        e = callgrove.open("lulesh.d")
        e.top(limit=10)
        e.select(ranks="0-3").tree("time")
    """

    title: str
    format: str
    version: str
    runs: tuple[Run, ...]
    profiles: Profiles
    system: System
    contexts: ContextTree
    metrics: Metrics
    values: Values
    traces: Traces
    sources: Sources = field(default_factory=Sources)
    attributes: Mapping[str, str] = field(default_factory=dict)
    attachments: Mapping[str, Attachment] = field(default_factory=dict)
    warnings: tuple[InputWarning, ...] = ()
    path: str = ""
    is_measurement: bool = False
    whole: Experiment | None = field(default=None, repr=False, compare=False)

    @property
    def damage(self) -> tuple[InputWarning, ...]:
        """What is broken in the input."""
        return tuple(w for w in self.warnings if w.severity == Severity.DAMAGE)

    @property
    def damage_met(self) -> list[CallgroveError]:
        """Return the damage that reading values and samples has met so far, but for what is in `damage` already."""
        known = {warning.text for warning in self.damage}
        samples = self.traces.samples
        traced = [] if samples is None else [problem for problem in samples.problems if str(problem) not in known]
        return [*self.values.problems, *traced]

    def totals(self, quantity: str, scope: Scope, profiles: Ints | None = None) -> Array:
        """Return a quantity in a scope over all contexts, combined over the measured profiles or those given.

        Exclusive and inclusive are computed where they are not stored.
        """
        return self.totals_in((scope,), quantity, profiles)[0]

    def totals_in(self, scopes: Sequence[Scope], quantity: str, profiles: Ints | None = None) -> list[Array]:
        """Return what `totals` does in several scopes; values that more than one of them is made of are read once."""
        if self.is_computed(quantity):
            return [TotalCells(self.values, scope, profiles).of(quantity) for scope in scopes]
        ways = [recipe(self.metrics, quantity, scope) for scope in scopes]
        stored = {row: self._read_totals(row, profiles) for row in dict.fromkeys(way.stored for way in ways)}
        return [way.apply(stored[way.stored], self.contexts) for way in ways]

    def _read_totals(self, row: int, profiles: Ints | None) -> Array:
        """Return stored values over all contexts: once those that the choice of the default metric has read."""
        known = self._totals_of_default.pop(row, None) if profiles is None else None
        return self.values.totals(row, profiles) if known is None else known

    @cached_property
    def _totals_of_default(self) -> dict[int, Array]:
        """Stored totals of the default metric over all measured profiles, until somebody asks for them: views do so
        next, and to read the values of thousands of files again takes as long as the first time."""
        return {}

    def matrix(self, quantity: str, scope: Scope, profiles: Ints | None = None) -> Array:
        """Return a quantity in a scope as a matrix, contexts x profiles, of the measured profiles or those given."""
        chosen = self.profiles.measured if profiles is None else profiles
        self.values.demand_known(chosen)
        if self.is_computed(quantity):
            return ProfileCells(self.values, scope, chosen, chosen).of(quantity)
        way = recipe(self.metrics, quantity, scope)
        values = matrices(self.values, self.contexts, [way], chosen).get(way.stored)
        if values is not None:
            return values
        shape = len(self.contexts), len(chosen)
        if way.metric.composite is not None:
            return np.zeros(shape, way.metric.composite.dtype)
        return np.full(shape, way.metric.aggregation.neutral)

    def is_computed(self, quantity: str) -> bool:
        """Return whether a quantity is a formula over others that is evaluated."""
        return quantity in self.metrics.derived and self.metrics.first(quantity).derivation is not None

    def root_total(self, quantity: str, profiles: Ints | None = None) -> float:
        """Return the inclusive cost of all roots of the tree: what percentages are of. NaN where nothing adds up."""
        self.metrics.require_values(quantity)
        if self.is_computed(quantity) and self.metrics.first(quantity).aggregation == Aggregation.NONE:
            return np.nan
        inclusive = self.totals(quantity, Scope.INCLUSIVE, profiles)[self.contexts.roots]
        total = self.metrics.first(quantity).aggregation.combine_all(inclusive)
        return np.nan if self.is_computed(quantity) and np.isinf(total) else total

    def whole_total(self, quantity: str, profiles: Ints | None = None) -> float:
        """Return what percentages are of: the cost of all roots before contexts were selected, in the same profiles."""
        return (self.whole or self).root_total(quantity, profiles)

    @cached_property
    def default_metric(self) -> str:
        """The metric that views show unless told otherwise: the first time with any cost, else the first with any.
        Where contexts were selected, it stays that of all contexts."""
        if self.whole is not None:
            return self.whole.default_metric
        if not self.metrics.quantities:
            raise UsageError(f"{self.path or self.title}: there is no metric, so there is no cost to show")
        return self.metrics.default(self._has_cost)

    def _has_cost(self, quantity: str) -> bool:
        """Return whether a metric has any cost that a view could show; composite values have none."""
        try:
            metric = self.metrics.first(quantity)
            if metric.composite is not None:
                return False
            neutral = metric.aggregation.neutral
            if self.is_computed(quantity):
                return bool(np.any(self.totals(quantity, Scope.INCLUSIVE) != neutral))
            way = recipe(self.metrics, quantity, Scope.INCLUSIVE)
            stored = self.values.totals(way.stored)
            has_cost = bool(np.any(way.apply(stored, self.contexts) != neutral))
            if has_cost:
                self._totals_of_default[way.stored] = stored
            return has_cost
        except UsageError:
            return False

    def study(
        self,
        metrics: Sequence[str] | None = None,
        scope: Scope = Scope.EXCLUSIVE,
        combination: Combination | None = None,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> Study:
        """Return the runs over their parameters, as they were measured: see `callgrove.model.study.from_runs.fold`.

        `series` makes of it what `callgrove model` fits.
        """
        from callgrove.model.study.from_runs import fold
        from callgrove.model.study.run_values import Combination

        return fold(self, metrics, scope, combination or Combination.SUM, progress)

    def __repr__(self) -> str:
        """Return one line, whatever the size of the experiment."""
        sizes = f"{len(self.profiles)} profiles, {len(self.contexts)} contexts, {len(self.metrics.quantities)} metrics"
        return f"<Experiment {self.title!r}, {f'{self.format} {self.version}'.rstrip()}: {sizes}>"


def replace_metrics(experiment: Experiment, metrics: Metrics) -> Experiment:
    """Return the experiment with other words for the same metric rows."""
    whole = None if experiment.whole is None else replace_metrics(experiment.whole, metrics)
    return replace(experiment, metrics=metrics, values=replace(experiment.values, metrics=metrics), whole=whole)


# -- what every experiment must satisfy --------------------------------------------------------------------------------
# Each function lists all that is broken, in words.


def problems_of_contexts(columns: Mapping[str, Sequence[int]], n_regions: int, n_files: int) -> list[str]:
    """Return what is broken in contexts that are not ordered yet."""
    table = {name: np.asarray(values, np.int64) for name, values in columns.items()}
    n = len(table["parent"])
    problems = [
        *(text for name in table if name != "source_id" for text in _too_wide(name, table[name])),
        *_outside("contexts", "parent", table["parent"], n),
        *_outside("contexts", "region", table["region"], n_regions),
        *_outside("contexts", "kind", table["kind"], len(ContextKind), lowest=0),
        *_outside("contexts", "relation", table["relation"], len(Relation), lowest=0),
        *_outside("contexts", "within", table["within"], n, lowest=-2),
        *_outside("contexts", "call_file", table["call_file"], n_files),
    ]
    parent, elided = table["parent"], table["kind"] == ContextKind.ELIDED
    parent = np.where((parent >= ABSENT) & (parent < n), parent, ABSENT)  # wrong ones are named above
    if len(wrong := cycles(parent.astype(np.int32))):
        problems.append(f"contexts: {len(wrong)} lie on or below a cycle, the first is {wrong[0]}")
    if len(wrong := np.flatnonzero(elided & (parent >= 0))):
        problems.append(f"contexts: elided context {wrong[0]} has a parent")
    if len(wrong := np.flatnonzero((parent >= 0) & elided[np.maximum(parent, 0)])):
        problems.append(f"contexts: context {wrong[0]} lies below an elided one")
    return problems


def _too_wide(column: str, values: Array) -> Iterator[str]:
    wrong = np.flatnonzero((values < -(2**31)) | (values >= 2**31))
    if len(wrong):
        yield f"contexts: a number does not fit its column: {column} {int(values[wrong[0]])} of row {int(wrong[0])}"


def problems_of_experiment(experiment: Experiment, blocks: Sequence[SparseBlock]) -> list[str]:
    """Return what is broken in an assembled experiment and in the values that are held in memory for it."""
    e = experiment
    return [
        *_regions(e.contexts.regions),
        *_tree(e),
        *_profiles(e.profiles, len(e.runs), len(e.system)),
        *_system(e.system),
        *_metrics(e.metrics),
        *_values(blocks, e),
        *_traces(e.traces, e),
    ]


def _outside(table: str, column: str, ids: Array, n: int, lowest: int = ABSENT) -> Iterator[str]:
    wrong = np.flatnonzero((ids < lowest) | (ids >= n))
    if len(wrong):
        yield f"{table}: {column} {int(ids[wrong[0]])} of row {int(wrong[0])} is not one of {n}"


def _find_uneven(table: str, **lengths: int) -> Iterator[str]:
    if len(set(lengths.values())) > 1:
        yield f"{table}: columns differ in length: {lengths}"


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
    if len(profiles.system) != len(profiles):
        yield f"profiles: {len(profiles)} profiles, but {len(profiles.system)} leaves of the system tree"
    yield from _outside("profiles", "run", profiles.run, n_runs, lowest=0)
    yield from _outside("profiles", "kind", profiles.kind, len(ProfileKind), lowest=0)
    yield from _outside("profiles", "system", profiles.system, n_system)


def _system(system: System) -> Iterator[str]:
    n = len(system)
    yield from _find_uneven("system", parent=n, kind=len(system.kind), name=len(system.name), rank=len(system.rank))
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


def _values(blocks: Sequence[SparseBlock], experiment: Experiment) -> Iterator[str]:
    if not blocks:
        return
    keys = [np.concatenate([getattr(b, name) for b in blocks]) for name in ("profile", "context", "metric")]
    yield from _outside("values", "profile", keys[0], len(experiment.profiles), lowest=0)
    yield from _outside("values", "context", keys[1], len(experiment.contexts), lowest=0)
    yield from _outside("values", "metric", keys[2], len(experiment.metrics), lowest=0)
    if have_equal_rows(*keys):
        yield "values: a (profile, context, metric) has more than one value"
    types: dict[int, set[np.dtype[Any]]] = {}
    for block in blocks:
        for metric in distinct(block.metric).tolist():
            types.setdefault(metric, set()).add(block.value.dtype)
    for metric, dtypes in types.items():
        if len(dtypes) > 1 and any(t.names is not None for t in dtypes):
            yield f"values: metric {metric} has numbers and composite values, or composite values of several types"


def _traces(traces: Traces, experiment: Experiment) -> Iterator[str]:
    n_profiles, n_contexts = len(experiment.profiles), len(experiment.contexts)
    if isinstance(traces.samples, ArraySamples):
        yield from _outside("samples", "profile", traces.samples.profile, n_profiles, lowest=0)
        yield from _outside("samples", "metric", traces.samples.metric, len(experiment.metrics))
        s = traces.samples
        yield from _find_uneven("samples", profile=len(s.profile), metric=len(s.metric), lines=len(s.lines))
        for number, line in enumerate(traces.samples.lines):
            yield from _find_uneven(f"sample line {number}", time_ns=len(line.time_ns), context=len(line.context))
            yield from _outside(f"sample line {number}", "context", line.context, n_contexts)
            if (np.diff(line.time_ns) < 0).any():
                yield f"sample line {number}: time runs backwards"
    if isinstance(traces.spans_backend, ArraySpans):
        yield from _spans(traces.spans_backend, n_profiles, n_contexts)
    if isinstance(traces.counters_source, Counters):
        c = traces.counters_source
        lengths = {"profile": len(c.profile), "name": len(c.name), "time_ns": len(c.time_ns), "value": len(c.value)}
        yield from _find_uneven("counters", **lengths)
        yield from _outside("counters", "profile", c.profile, n_profiles, lowest=0)
        yield from _outside("counters", "name", c.name, len(c.names), lowest=0)


def _spans(spans: ArraySpans, n_profiles: int, n_contexts: int) -> Iterator[str]:
    columns: Mapping[str, Array] = spans.columns
    if missing := [name for name in ("start_ns", "end_ns") if name not in columns]:
        yield f"spans: there is no column {missing[0]}"
        return
    yield from _find_uneven("spans", **{name: len(column) for name, column in columns.items()})
    if "kind" in columns:
        yield from _outside("spans", "kind", columns["kind"], len(SpanKind), lowest=0)
    if "profile" in columns:
        yield from _outside("spans", "profile", columns["profile"], n_profiles, lowest=0)
    bounds: tuple[tuple[str, int], ...] = (
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
        yield from _find_uneven(
            f"side table {name}", span=len(side.span), **{k: len(v) for k, v in side.columns.items()}
        )
