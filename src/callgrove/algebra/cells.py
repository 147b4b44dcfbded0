"""Values of several inputs sorted by cell (profile, context, metric), and the rules that make one value of each.

    owner   0     1     | 0     | 0     1     |
    value   3.0   4.0   | 1.0   | 2.0   2.0   |     three cells, the second is in one input only
    starts  ^             ^       ^

A rule gets all cells of metrics that are combined in one way (added up, or as a minimum or maximum) and gives a value
for each cell, and which cells it leaves out. Numbers of small integer types are widened first; counters that are
subtracted become signed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from callgrove.arrays import Array, Bools, Ids, Ints
from callgrove.errors import UsageError
from callgrove.model.metrics import Aggregation, Composite, Metric
from callgrove.model.values import SparseBlock

__all__ = [
    "Cells",
    "Differs",
    "Rule",
    "combine_cells",
    "difference",
    "equal",
    "first",
    "lanes",
    "last",
    "made_one",
    "mean_of_cells",
    "mean_of_present",
]

SPARSEST = 64  # places per value: beyond, sorting is faster than a place for each
NEAR = 1e-12  # relative; what remains of a difference of equal sums is rounding


@dataclass(frozen=True)
class Cells:
    """Values by cell; inside a cell in the order of their inputs. `profile`, `context` and `metric` say where each cell
    is, `starts` where its values begin; `owner` is the input of each value."""

    profile: Ids
    context: Ids
    metric: Ids
    starts: Ints
    value: Array
    owner: Ids
    n_inputs: int
    once: bool = False  # known: no input has a cell twice

    @cached_property
    def counts(self) -> Ints:
        """How many inputs have a value in each cell."""
        return np.diff(np.append(self.starts, len(self.owner)))

    @classmethod
    def of(cls, blocks: Sequence[tuple[int, SparseBlock]], n_inputs: int) -> Cells:
        """Return cells made from blocks of one value type, each with the number of its input, in ascending order."""
        rows = SparseBlock.concatenate([block for _, block in blocks])
        owner = np.repeat(np.array([number for number, _ in blocks], np.int32), [len(block) for _, block in blocks])
        keys, space = _keys(rows)
        groups = _sort_by_counting(keys, owner, space, n_inputs) if space <= SPARSEST * len(keys) else None
        once = groups is not None
        if groups is None:
            order = np.argsort(keys, kind="stable")
            ordered = keys[order]
            groups = np.flatnonzero(np.append(True, np.diff(ordered) != 0)[: len(keys)]), order
        starts, order = groups
        first = order[starts]
        places = rows.profile[first], rows.context[first], rows.metric[first]
        return cls(*places, starts, rows.value[order], owner[order], n_inputs, once)

    def take(self, kept: Bools) -> Cells:
        """Return some of the cells."""
        rows = np.repeat(kept, self.counts)
        starts = np.cumsum(self.counts[kept]) - self.counts[kept]
        places = self.profile[kept], self.context[kept], self.metric[kept]
        return Cells(*places, starts, self.value[rows], self.owner[rows], self.n_inputs, self.once)


def _keys(rows: SparseBlock) -> tuple[Ints, int]:
    """Return a number for each cell, ascending by profile, context, metric, and one that all are below."""
    least = [int(column.min()) if len(column) else 0 for column in (rows.profile, rows.context, rows.metric)]
    columns = [
        c.astype(np.int64) - low for c, low in zip((rows.profile, rows.context, rows.metric), least, strict=True)
    ]
    sizes = [int(column.max(initial=0)) + 1 for column in columns]
    if sizes[0] * sizes[1] * sizes[2] >= 2**62:
        columns = [np.unique(column, return_inverse=True)[1] for column in columns]
        sizes = [int(column.max(initial=0)) + 1 for column in columns]
    return (columns[0] * sizes[1] + columns[1]) * sizes[2] + columns[2], sizes[0] * sizes[1] * sizes[2]


def _sort_by_counting(keys: Ints, owner: Ids, space: int, n_inputs: int) -> tuple[Ints, Ints] | None:
    """Return where each cell starts, and the order that sorts values by cell and input, without comparing keys: every
    key has a place of its own. None where an input has a cell twice."""
    present: Ids = np.zeros(space, np.uint8 if n_inputs < 256 else np.int32)
    bounds = np.searchsorted(owner, np.arange(n_inputs + 1))
    earlier = np.empty(len(keys), present.dtype)  # how many inputs before have the cell
    for number in range(n_inputs):
        rows = slice(bounds[number], bounds[number + 1])
        earlier[rows] = present[keys[rows]]
        present[keys[rows]] += 1
    cells = np.flatnonzero(present > 0)
    counts = present[cells].astype(np.int64)
    if int(counts.sum()) != len(keys):
        return None
    starts = np.cumsum(counts) - counts
    place = np.empty(space, np.int64)
    place[cells] = starts
    order = np.empty(len(keys), np.int64)
    order[place[keys] + earlier] = np.arange(len(keys))
    return starts, order


Rule = Callable[[Cells, Aggregation], tuple[Array, Bools | None]]


def combine_cells(cells: Cells, aggregation: Aggregation) -> tuple[Array, None]:
    """Return the values of each cell added up, or the least or greatest of them."""
    if aggregation == Aggregation.NONE and (cells.counts == 1).all():
        return cells.value, None
    with np.errstate(invalid="ignore", over="ignore"):
        return aggregation.ufunc.reduceat(_wide(cells.value), cells.starts), None


def mean_of_cells(cells: Cells, aggregation: Aggregation) -> tuple[Array, None]:
    """Return the sum of each cell divided by the number of inputs: what is absent counts as 0. Minima and maxima are
    divided by the number of inputs that have the cell."""
    with np.errstate(invalid="ignore", over="ignore"):
        total = np.add.reduceat(cells.value.astype(np.float64), cells.starts)
    return total / (cells.n_inputs if aggregation == Aggregation.SUM else cells.counts), None


def mean_of_present(cells: Cells, aggregation: Aggregation) -> tuple[Array, None]:
    """Return the sum of each cell divided by the number of inputs that have the cell."""
    with np.errstate(invalid="ignore", over="ignore"):
        return np.add.reduceat(cells.value.astype(np.float64), cells.starts) / cells.counts, None


def difference(cells: Cells, aggregation: Aggregation) -> tuple[Array, Bools]:
    """Return the first input less the second. What is absent counts as 0; of minima and maxima both must be there."""
    values = _as_signed(cells.value)
    with np.errstate(invalid="ignore", over="ignore"):
        out = np.add.reduceat(np.where(cells.owner == 0, values, -values), cells.starts)
        if out.dtype.kind == "f":
            largest = np.maximum.reduceat(np.abs(values), cells.starts)
            out[np.isfinite(out) & (np.abs(out) <= NEAR * largest)] = 0
    return out, (out != 0 if aggregation == Aggregation.SUM else cells.counts == 2)


def first(cells: Cells, aggregation: Aggregation) -> tuple[Array, None]:
    """Return the value of the first input which has the cell."""
    return cells.value[cells.starts], None


def last(cells: Cells, aggregation: Aggregation) -> tuple[Array, None]:
    """Return the value of the last input which has the cell."""
    return cells.value[cells.starts + cells.counts - 1], None


class Differs(Exception):
    """Two inputs differ in a cell: row `one` of the values, and row `other`, of input `owner`, which is None where that
    has no value there."""

    def __init__(self, cells: Cells, one: int, owner: int, other: int | None) -> None:
        self.cells, self.one, self.owner, self.other = cells, one, owner, other
        super().__init__()

    @property
    def cell(self) -> int:
        return int(np.searchsorted(self.cells.starts, self.one, side="right")) - 1


def equal(cells: Cells, aggregation: Aggregation) -> tuple[Array, None]:
    """Return the value that all inputs have which measured the metric in that profile; raises `Differs` where they
    differ."""
    value = cells.value
    wanted = np.repeat(cells.starts, cells.counts)
    differs = value != value[wanted]
    if value.dtype.kind == "f":
        differs &= ~(np.isnan(value) & np.isnan(value[wanted]))
    if differs.any():
        other = int(np.flatnonzero(differs)[0])
        raise Differs(cells, int(wanted[other]), int(cells.owner[other]), other)
    _demand_everywhere(cells)
    return value[cells.starts], None


def _demand_everywhere(cells: Cells) -> None:
    """Raise where an input that has any value of a metric in a profile lacks one in some of these cells."""
    n_metrics = int(cells.metric.max(initial=0)) + 1
    _, profile = np.unique(cells.profile, return_inverse=True)
    column = profile * n_metrics + cells.metric
    measured = np.zeros((int(column.max(initial=0)) + 1, cells.n_inputs), np.bool_)
    measured[np.repeat(column, cells.counts), cells.owner] = True
    short = np.flatnonzero(measured.sum(axis=1)[column] != cells.counts)
    if len(short):
        cell = int(short[0])
        start, n = int(cells.starts[cell]), int(cells.counts[cell])
        missing = np.flatnonzero(
            measured[column[cell]] & ~np.isin(np.arange(cells.n_inputs), cells.owner[start : start + n])
        )
        raise Differs(cells, start, int(missing[0]), None)


def _wide(values: Array) -> Array:
    """Return numbers in a type where sums of them fit."""
    kind = {"b": np.int64, "i": np.int64, "u": np.uint64, "f": np.float64}.get(values.dtype.kind)
    return values if kind is None else values.astype(kind, copy=False)


def _as_signed(values: Array) -> Array:
    if values.dtype.kind == "u" and len(values) and int(values.max()) >= 2**63:
        return values.astype(np.float64)
    return values.astype(np.float64 if values.dtype.kind == "f" else np.int64, copy=False)


def made_one(cells: Cells, rule: Rule, metrics: Sequence[Metric]) -> list[SparseBlock]:
    """Return every cell as one value, by a rule."""
    out = []
    for some, metric in _by_kind(cells, metrics):
        part = _once_per_input(some, metric)
        value, kept = (
            (_combine_numbers(part, metric), None) if rule is combine_cells else rule(part, metric.aggregation)
        )
        block = SparseBlock(part.profile, part.context, part.metric, value)
        out.append(block if kept is None or kept.all() else block.take(kept))
    return [block for block in out if len(block)]


def _by_kind(cells: Cells, metrics: Sequence[Metric]) -> Iterator[tuple[Cells, Metric]]:
    """Yield the cells by how their values are combined, each with a metric that says so."""
    kinds: dict[tuple[Aggregation, int], list[int]] = {}
    for row in np.unique(cells.metric).tolist():
        kinds.setdefault((metrics[row].aggregation, id(metrics[row].composite)), []).append(row)
    if len(kinds) == 1:
        yield cells, metrics[next(iter(kinds.values()))[0]]
        return
    for rows in kinds.values():
        yield cells.take(np.isin(cells.metric, rows)), metrics[rows[0]]


def _once_per_input(cells: Cells, metric: Metric) -> Cells:
    """Return cells with at most one value of each input: a chain may have made one context of several."""
    if cells.once:
        return cells
    fresh = np.append(True, np.diff(cells.owner) != 0)[: len(cells.owner)]
    fresh[cells.starts] = True
    if fresh.all():
        return cells
    inner = np.flatnonzero(fresh)
    value = _combine_numbers(replace(cells, starts=inner), metric)
    return replace(cells, starts=np.searchsorted(inner, cells.starts), value=value, owner=cells.owner[inner])


def _combine_numbers(cells: Cells, metric: Metric) -> Array:
    if metric.composite is None:
        if metric.aggregation == Aggregation.NONE and (cells.counts > 1).any():
            raise UsageError(f"metric {metric.name}: several values would become one, and they cannot be combined")
        return combine_cells(cells, metric.aggregation)[0]
    return _combine_composites(cells, metric.composite)


def _combine_composites(cells: Cells, composite: Composite) -> Array:
    """Return the composite values of each cell, combined one input after the other."""
    out = cells.value[cells.starts].copy()
    for turn in range(1, int(cells.counts.max(initial=1))):
        more = np.flatnonzero(cells.counts > turn)
        if composite.combine is None:
            raise UsageError("composite values of this type cannot be combined; choose those of one input")
        out[more] = composite.combine(out[more], cells.value[cells.starts[more] + turn])
    return out


def lanes(blocks: list[tuple[int, SparseBlock]]) -> list[list[tuple[int, SparseBlock]]]:
    """Return blocks by value type; every metric has one type, which holds what all inputs have of it."""
    if len({block.value.dtype for _, block in blocks}) <= 1:
        return [blocks] if blocks else []
    lanes: dict[str, list[tuple[int, SparseBlock]]] = {}
    types = _types(blocks)
    for number, block in blocks:
        for metric in np.unique(block.metric).tolist():
            part, kind = block.take(block.metric == metric), types[metric]
            typed = SparseBlock(part.profile, part.context, part.metric, part.value.astype(kind))
            lanes.setdefault(str(kind), []).append((number, typed))
    return list(lanes.values())


def _types(blocks: list[tuple[int, SparseBlock]]) -> dict[int, np.dtype[Any]]:
    """Return the smallest type for each metric that holds all of its values."""
    types: dict[int, np.dtype[Any]] = {}
    for _, block in blocks:
        for metric in np.unique(block.metric).tolist():
            types[metric] = np.promote_types(types.get(metric, block.value.dtype), block.value.dtype)
    return types
