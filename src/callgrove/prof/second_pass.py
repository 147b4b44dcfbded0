"""The second pass: the plan that workers get, and the values of a batch of files in every scope.

A value is what is stored times the period of that file's metric; it lands on the last context of its node, or on the
function where the metric asks for that. Then, children first,

    function    = point + function of the children that are nested lexically
    inclusive   = point + inclusive of all children
    lexical     = function: only a loop with values of its own would differ, and none can have any here

All files of a batch go up the tree together, level by level: rows are (file, context), columns are quantities. Children
of one parent are neighbours, so a level is added up without sorting.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from callgrove.arrays import ABSENT, Array, Bools, Floats, Ids, Ints, Offsets, distinct
from callgrove.binary.files import FileBytes
from callgrove.errors import InputError
from callgrove.formats.hpcrun.files import read_tables
from callgrove.formats.hpcrun.measurement import Measurement
from callgrove.formats.hpcrun.primitives import MetricDescription, SectionCache
from callgrove.formats.interface import SampleLayout
from callgrove.model.metrics import Scope
from callgrove.model.traces.events import Samples
from callgrove.model.values import SparseBlock
from callgrove.prof.gpu_samples import Templates, shares
from callgrove.prof.metrics import SCOPES
from callgrove.prof.nodes import Flavour, Forest, RawTree, place_table, translate
from callgrove.prof.survey import FileTables, file_tables

__all__ = [
    "LEFT_OUT",
    "PLAIN",
    "Cells",
    "FileNodes",
    "MetricPlan",
    "Plan",
    "block_of",
    "load",
    "nodes_of_files",
    "plain_layout",
    "plain_samples",
    "points_of",
    "propagate",
]


# -- plan of the second pass -------------------------------------------------------------------------------------------
# Workers get it once, as arrays in a folder that they map into memory.
#
# Contexts here are those of `contexts`: level by level, with elided instructions where they belong. `final` gives the
# ids of the experiment, `layout` says how samples are to be packed: as the target stores them, or in these ids.


TABLES = "tables.pickle"
CHANGED = "was changed while it was read; run again when nothing writes to it any more"
LEFT_OUT = ABSENT - 1  # of samples; -1 is idle
PLAIN = np.dtype([("time", np.int64), ("ctx", np.int32)])


def plain_layout(n_contexts: int) -> SampleLayout:
    """Return the layout of samples in the ids of the experiment."""
    return SampleLayout(PLAIN, np.append(np.arange(n_contexts, dtype=np.int32), np.int32(ABSENT)))


def plain_samples(records: Array) -> Samples:
    """Return samples that were packed in the plain layout."""
    return Samples(records["time"].copy(), records["ctx"].copy())


@dataclass(frozen=True)
class MetricPlan:
    """`of_table`: the quantity of each metric of a table. `rows[scope]`: the metric row of each quantity."""

    of_table: dict[tuple[MetricDescription, ...], Ids]
    rows: dict[Scope, Ids]
    is_derived: Bools
    instructions: int  # quantities that GPU samples are shared by: GINS, GKER:COUNT and GKER:SAMPLED_COUNT, or -1
    runs: int
    sampled_runs: int


@dataclass(frozen=True)
class SampledNodes:
    """What samples at each node of the merged tree are of: the context, LEFT_OUT where there is none, and its number in
    the target. Nodes without a context, and idle ones, have the number `unplaced`, as large as any can be."""

    context: Ids
    number: Array
    unplaced: int

    @classmethod
    def of(cls, context: Array, layout: SampleLayout) -> SampledNodes:
        """Return the numbers that a layout has for contexts."""
        kind = np.dtype(f"u{layout.record['ctx'].itemsize}")
        unplaced = int(np.iinfo(kind).max)
        number = layout.ids[np.maximum(context, ABSENT)].astype(kind)
        return cls(context.astype(np.int32), np.where(context < 0, kind.type(unplaced), number), unplaced)


@dataclass(frozen=True)
class Plan:
    """The merged tree, its contexts and the metrics. `sampled` is the context of samples at each context: the one
    around an elided instruction; -1 is idle."""

    flavour: Flavour
    modules: tuple[str, ...]
    metrics: MetricPlan
    templates: Templates
    place: Ints
    offset: Offsets
    parent: Ids
    region: Ids
    first: Ids
    full: Ids
    above: Ids
    depth: Ids
    lexical: Bools
    final: Ids
    sampled: Ids
    layout: SampleLayout

    @cached_property
    def samples_at(self) -> dict[bool, SampledNodes]:
        """What samples at the nodes of the merged tree are of: in traces of calls (True) the context of the function,
        in others (False) that of the address."""
        return {
            is_call_trace: SampledNodes.of(np.where(last >= 0, self.sampled[last], LEFT_OUT), self.layout)
            for is_call_trace, last in ((True, self.first), (False, self.full))
        }

    @cached_property
    def sections(self) -> SectionCache:
        """Sections that files have in common."""
        return SectionCache()

    @cached_property
    def tree(self) -> RawTree:
        return RawTree(self.modules, self.place, self.offset, self.parent, self.region)

    def save(self, folder: Path) -> None:
        """Write it for workers, into a folder that is made for it."""
        folder.mkdir()
        rest = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                np.save(folder / f"{field.name}.npy", value)
            else:
                rest[field.name] = value
        (folder / TABLES).write_bytes(pickle.dumps(rest))


@lru_cache(maxsize=1)
def load(folder: str) -> Plan:
    """Return the plan that lies in a folder of ours; arrays are mapped, so that the workers of a node share them."""
    place = Path(folder)
    rest = pickle.loads((place / TABLES).read_bytes())
    # plain arrays: views of a memmap are memmaps again, and all that small ones take is the time to make them
    arrays: dict[str, Any] = {path.stem: np.asarray(np.load(path, mmap_mode="r")) for path in place.glob("*.npy")}
    return Plan(**rest, **arrays)


# -- values of a batch of files ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FileNodes:
    """A file that was read again, and the node of the merged tree that each of its nodes is, for every epoch."""

    file: FileBytes
    measurement: Measurement
    nodes: tuple[Ids, ...]


def nodes_of_files(plan: Plan, files: Sequence[FileTables | str]) -> list[FileNodes]:
    """Return files, by their tables or where they lie, with their nodes; all of them are looked up together."""
    read = iter(_read([Path(file) for file in files if isinstance(file, str)], plan))
    all_tables = [file if isinstance(file, FileTables) else next(read) for file in files]
    places = _Places(plan.modules)
    forest = Forest.of(
        [(above, places(place, one.modules), offset) for one in all_tables for above, place, offset in one.trees]
    )
    nodes = iter(np.split(plan.tree.find(forest.above, forest.place, forest.offset), forest.starts[1:-1]))
    return [
        FileNodes(one.file, m, tuple(next(nodes)[: len(epoch.nodes)] for epoch in m.epochs))
        for one in all_tables
        for m in (one.measurement,)
    ]


def _read(paths: Sequence[Path], plan: Plan) -> list[FileTables]:
    files = [FileBytes(path) for path in paths]
    numbers = {path: number for number, path in enumerate(plan.modules)}
    return file_tables([(file, read_tables(file, cache=plan.sections)) for file in files], numbers, plan.flavour)


class _Places:
    """Places in the numbers of the plan; the files of a batch share their numbers of modules."""

    def __init__(self, modules: Sequence[str]) -> None:
        self._modules = modules
        self._tables: dict[int, tuple[Mapping[str, int], Ints]] = {}

    def __call__(self, place: Ints, modules: Mapping[str, int]) -> Ints:
        key = id(modules)  # they stay alive here
        if key not in self._tables:
            self._tables[key] = modules, place_table(modules, self._modules)
        return translate(place, self._tables[key][1])


@dataclass(frozen=True)
class Cells:
    """Values by file, context and quantity. No order is promised; equal cells are to be added."""

    file: Ints
    context: Ints
    quantity: Ints
    value: Floats

    @classmethod
    def concatenate(cls, parts: Sequence[Cells]) -> Cells:
        columns = zip(*((p.file, p.context, p.quantity, p.value) for p in parts), strict=True)
        return cls(*(np.concatenate(column) for column in columns))


def points_of(plan: Plan, files: Sequence[FileNodes]) -> tuple[Cells, Floats]:
    """Return what was measured at each context itself, and what the files hold of each quantity; context 0 is the root,
    which no scope has values of."""
    measured = _measure(plan, files)
    totals = measured.totals(len(plan.metrics.is_derived))
    has_context = plan.full[measured.node] >= 0
    if has_context.all():
        return measured.at_contexts(plan), totals
    parts = [cells for part in measured.split() for cells in _with_shares(plan, part)]
    return Cells.concatenate(parts), totals


@dataclass(frozen=True)
class Measured:
    """Values of several files but zeros: the epoch that they are of, counted over all files, and its file; node of the
    merged tree, quantity, value, and whether it belongs to the function."""

    part: Ints
    file: Ints
    node: Ids
    quantity: Ints
    value: Floats
    moves: Bools

    def take(self, rows: Array | slice) -> Measured:
        """Return some of the values."""
        return Measured(*(getattr(self, field.name)[rows] for field in fields(self)))

    def totals(self, n_quantities: int) -> Floats:
        """Return the sum of each quantity: of one epoch after the other, however they are put together."""
        n_parts = int(self.part[-1]) + 1 if len(self.part) else 0
        cell = self.part * n_quantities + self.quantity
        totals = np.zeros(n_quantities)
        for of_part in np.bincount(cell, self.value, n_parts * n_quantities).reshape(n_parts, n_quantities):
            totals += of_part
        return totals

    def split(self) -> Iterator[Measured]:
        """Yield the values of each epoch."""
        for bounds in pairwise([0, *(np.flatnonzero(np.diff(self.part)) + 1).tolist(), len(self.part)]):
            yield self.take(slice(*bounds))

    def at_contexts(self, plan: Plan) -> Cells:
        """Return the values at the contexts of their nodes, which all have one."""
        context = np.where(self.moves, plan.first[self.node], plan.full[self.node])
        return Cells(self.file, context.astype(np.int64), self.quantity, self.value)


def _with_shares(plan: Plan, part: Measured) -> Iterator[Cells]:
    """Yield the values of an epoch at contexts, those of GPU samples by their shares."""
    has_context = plan.full[part.node] >= 0
    measured = part.take(has_context).at_contexts(plan)
    yield measured
    if not has_context.all():
        bare = part.take(~has_context)
        yield from _share(plan, int(part.file[0]), measured, bare.node, bare.quantity, bare.value)


def _measure(plan: Plan, files: Sequence[FileNodes]) -> Measured:
    """Return the values of all files."""
    parts = [
        (number, epoch, epoch.place.read(file.file).list_stored(epoch.nodes.positions, nodes))
        for number, file in enumerate(files)
        for epoch, nodes in zip(file.measurement.epochs, file.nodes, strict=True)
        if epoch.metrics
    ]
    if not parts:
        none = np.empty(0, np.int64)
        return Measured(none, none, none.astype(np.int32), none, np.empty(0), np.empty(0, np.bool_))
    sizes = [len(stored.raw) for _, _, stored in parts]
    tables = _MetricTables(plan, [epoch.metrics for _, epoch, _ in parts])
    part = np.repeat(np.arange(len(parts)), sizes)
    node, metric, raw = (np.concatenate(column) for column in zip(*(stored for _, _, stored in parts), strict=True))
    file = np.array([number for number, _, _ in parts])[part]
    unknown = np.flatnonzero(metric >= tables.size[part])
    if len(unknown):  # which the first pass would have refused
        raise InputError(f"{files[file[unknown[0]]].file.path}: {CHANGED}")
    metric = metric + tables.start[part]
    measured = Measured(
        part,
        file,
        node,
        tables.quantity[metric],
        tables.scale(metric, raw),
        tables.moves[metric],
    )
    kept = (measured.value != 0) & ~plan.metrics.is_derived[measured.quantity]
    return measured if kept.all() else measured.take(kept)


class _MetricTables:
    """The metric tables of some epochs, one after the other; equal ones are there once. `start` and `size` are those of
    each epoch's."""

    def __init__(self, plan: Plan, tables: Sequence[tuple[MetricDescription, ...]]) -> None:
        different = list({id(table): table for table in tables}.values())  # files share them
        starts = np.cumsum([0, *map(len, different)]).tolist()
        start_of = {id(table): start for table, start in zip(different, starts, strict=False)}
        metrics = [metric for table in different for metric in table]
        self.start = np.array([start_of[id(table)] for table in tables])
        self.size = np.array([len(table) for table in tables])
        self._is_real = np.array([metric.is_real for metric in metrics], np.bool_)
        self._period = np.array([metric.period or 1 for metric in metrics], np.float64)
        self.moves = np.array([bool(metric.move2proc) for metric in metrics], np.bool_)
        self.quantity = np.concatenate([plan.metrics.of_table[table] for table in different]).astype(np.int64)

    def scale(self, metric: Ints, raw: Offsets) -> Floats:
        """Return stored numbers times the period of their metric."""
        if self._is_real.all():
            value = raw.view(np.float64)
        else:
            value = np.where(self._is_real[metric], raw.view(np.float64), raw.astype(np.float64))
        if (self._period != 1).any():
            with np.errstate(over="ignore", invalid="ignore"):  # values need not be finite
                value = value * self._period[metric]
        return value


def _share(plan: Plan, number: int, measured: Cells, node: Ids, quantity: Ints, value: Floats) -> Iterator[Cells]:
    """Yield the values of GPU samples on the call paths that they may have had."""
    metrics = plan.metrics
    runs, sampled_runs = (_by_key(measured, which) for which in (metrics.runs, metrics.sampled_runs))
    ratio = {
        c: runs.get(c, 1.0) / sampled_runs[c] if c in runs and c in sampled_runs else 1.0
        for c in {*runs, *sampled_runs}
    }
    is_count = quantity == metrics.instructions
    samples: dict[int, float] = {}
    for one, amount in zip(node[is_count].tolist(), value[is_count].tolist(), strict=True):
        samples[one] = samples.get(one, 0.0) + amount
    for one in np.unique(node).tolist():
        templates = plan.templates.of_node[one]
        rows = np.flatnonzero(node == one)
        for template, share in zip(templates, shares(templates, ratio, samples), strict=True):
            if share:
                n = len(rows)
                yield Cells(np.full(n, number), np.full(n, template.full), quantity[rows], value[rows] * share)


def _by_key(cells: Cells, quantity: int) -> dict[int, float]:
    """Return the values of a quantity by context."""
    rows = cells.quantity == quantity
    out: dict[int, float] = {}
    for context, value in zip(cells.context[rows].tolist(), cells.value[rows].tolist(), strict=True):
        out[context] = out.get(context, 0.0) + value
    return out


# -- going up ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Level:
    """Rows of one depth, by file and context; columns are quantities."""

    file: Ints
    context: Ints
    point: Floats
    function: Floats
    inclusive: Floats


def propagate(plan: Plan, points: Cells) -> tuple[Ints, list[Level]]:
    """Return the quantities that occur, and all rows with their values, the deepest level first."""
    quantities = np.unique(points.quantity)
    n_contexts = len(plan.above)
    key = points.file * n_contexts + points.context
    rows, inverse = np.unique(key, return_inverse=True)
    column = np.searchsorted(quantities, points.quantity)
    width = len(quantities)
    sums = np.bincount(inverse * width + column, points.value, len(rows) * width).reshape(len(rows), width)
    depth = plan.depth[rows % n_contexts]
    out: list[Level] = []
    rising = np.empty(0, np.int64), np.empty((0, width)), np.empty((0, width))
    for here in range(int(depth.max(initial=0)), 0, -1):
        at = np.flatnonzero(depth == here) if len(out) == 0 or (depth == here).any() else np.empty(0, np.int64)
        keys = distinct(rows[at], rising[0])
        point, inclusive, function = (np.zeros((len(keys), width)) for _ in range(3))
        point[np.searchsorted(keys, rows[at])] = sums[at]
        inclusive[:] = function[:] = point
        up = np.searchsorted(keys, rising[0])
        with np.errstate(invalid="ignore", over="ignore"):
            inclusive[up] += rising[1]
            function[up] += rising[2]
        level = Level(keys // n_contexts, keys % n_contexts, point, function, inclusive)
        out.append(level)
        rising = _raise_level(plan, level, n_contexts)
    return quantities, out


def _raise_level(plan: Plan, level: Level, n_contexts: int) -> tuple[Ints, Floats, Floats]:
    """Return sums over the children of each parent: keys, inclusive, function."""
    key = level.file * n_contexts + plan.above[level.context]
    starts = np.flatnonzero(np.append(True, key[1:] != key[:-1])) if len(key) else np.empty(0, np.int64)
    if not len(starts):
        return key, level.inclusive, level.function
    lexical = np.where(plan.lexical[level.context][:, None], level.function, 0.0)
    with np.errstate(invalid="ignore", over="ignore"):
        return key[starts], np.add.reduceat(level.inclusive, starts), np.add.reduceat(lexical, starts)


def block_of(plan: Plan, points: Cells, profiles: Ints) -> SparseBlock:
    """Return all values, in the ids of the experiment; `profiles` are those of the files."""
    quantities, levels = propagate(plan, points)
    parts: list[SparseBlock] = []
    for level in levels:
        by_scope = {
            Scope.POINT: level.point,
            Scope.FUNCTION: level.function,
            Scope.LEXICAL: level.function,
            Scope.INCLUSIVE: level.inclusive,
        }
        for scope in SCOPES:
            metric = plan.metrics.rows[scope][quantities]
            row, column = np.nonzero((by_scope[scope] != 0) & (metric >= 0))
            parts.append(
                SparseBlock(
                    profiles[level.file[row]].astype(np.int32),
                    plan.final[level.context[row]],
                    metric[column],
                    by_scope[scope][row, column],
                )
            )
    return SparseBlock.concatenate(parts)
