"""Values of measurement files in the model's ids, read from their file when asked for; no file stays open.

A stored number times the metric's period is the value. Nodes that became one context add up. Integers and reals of one
file come as two blocks, so that counters stay exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from callgrove.binary.filebytes import FileBytes
from callgrove.errors import CallgroveError, CorruptFile
from callgrove.formats.hpcrun.measurement import DensePlace, SparsePlace, SparseValues, Stored
from callgrove.formats.hpcrun.nodes import Positions
from callgrove.model.arrays import Array, Bools, Ids, Ints, Offsets, distinct
from callgrove.model.values import Block, SparseBlock

__all__ = ["MeasurementValues", "MetricRows", "ValuePart"]

LARGE = 1 << 18  # values that are given at once


@dataclass(frozen=True)
class MetricRows:
    """What the metrics of one table are in the experiment."""

    row: Ids
    period: Offsets
    is_real: Bools


@dataclass(frozen=True)
class ValuePart:
    """The values of one epoch: where they lie, and the final context of every node."""

    place: SparsePlace | DensePlace
    metrics: MetricRows
    node_id: npt.NDArray[np.uint32]
    context: Ids
    n_stored: int
    is_merged: bool  # several nodes may have become one context


class MeasurementValues:
    """The values of all profiles; profile k is the file `paths[k]`, of one part per epoch."""

    def __init__(self, paths: Sequence[Path], parts: Sequence[Sequence[ValuePart]]) -> None:
        self._paths, self._parts = paths, parts
        self.problems: list[CallgroveError] = []

    def n_stored(self) -> int | None:
        return sum(part.n_stored for parts in self._parts for part in parts)

    def summarises(self, metric: int) -> bool:
        return False

    def profile(self, profile: int, metrics: Ints | None = None) -> SparseBlock:
        return SparseBlock.joined(self._of_profile(profile, metrics))

    def context(self, context: int) -> SparseBlock:
        """Looked up in every file whose tree has the context."""
        found: list[SparseBlock] = []
        for profile, parts in enumerate(self._parts):
            if any((part.context == context).any() for part in parts):
                found += [b.take(b.context == context) for b in self._whole(profile, None)]
        return SparseBlock.joined([block for block in found if len(block)])

    def blocks(self, profiles: Ints | None = None, metrics: Ints | None = None) -> Iterator[Block]:
        for profile in range(len(self._paths)) if profiles is None else profiles.tolist():
            large = self._large(profile)
            found = self._whole(profile, metrics) if large is None else self._in_parts(profile, *large, metrics)
            yield from (block for block in found if len(block))

    def _large(self, profile: int) -> tuple[SparseValues, Positions] | None:
        """The values of a profile that is to be given in parts: a large one whose values need no adding up."""
        parts = self._parts[profile]
        if len(parts) != 1 or parts[0].is_merged or parts[0].n_stored <= LARGE:
            return None
        [part] = parts
        if not isinstance(part.place, SparsePlace):
            return None
        try:
            values, positions = part.place.view(FileBytes(self._paths[profile])), Positions(part.node_id)
        except CallgroveError:
            return None  # the whole says what is wrong
        known = int(values.metric.max()) < len(part.metrics.row)
        return (values, positions) if known and not values.repeats(positions) else None

    def _in_parts(
        self, profile: int, values: SparseValues, positions: Positions, metrics: Ints | None
    ) -> Iterator[SparseBlock]:
        [part] = self._parts[profile]
        for start in range(0, part.n_stored, LARGE):
            stored = values.part(start, start + LARGE).stored(positions, part.context)
            yield from (block for _, block in _by_type(stored, part, profile, metrics))

    def _whole(self, profile: int, metrics: Ints | None) -> list[SparseBlock]:
        """All blocks of a profile; none of a damaged one, which is a problem."""
        try:
            return self._of_profile(profile, metrics)
        except CallgroveError as error:  # damaged, or gone since it was opened
            self._met(error)
            return []

    def _met(self, error: CallgroveError) -> None:
        if str(error) not in map(str, self.problems):
            self.problems.append(error)

    def _of_profile(self, profile: int, metrics: Ints | None) -> list[SparseBlock]:
        """The blocks of a profile: integers, reals, or both."""
        file, parts = FileBytes(self._paths[profile]), self._parts[profile]
        found: dict[bool, list[SparseBlock]] = {}
        add_up = len(parts) > 1
        for part in parts:
            values = part.place.read(file)
            positions = Positions(part.node_id)
            stored = values.stored(positions, part.context)
            _refuse_unknown(stored.metric, part, file.path)
            add_up |= part.is_merged
            if values.repeats(positions):
                add_up |= self._has_repetition(values.stored(positions), part, file.path)
            for is_real, block in _by_type(stored, part, profile, metrics):
                found.setdefault(is_real, []).append(block)
        blocks = [SparseBlock.joined(same) if len(same) > 1 else same[0] for same in found.values()]
        return [_added_up(block) for block in blocks] if add_up else blocks

    def _has_repetition(self, stored: Stored, part: ValuePart, path: Path) -> bool:
        """Does a node have two values of one metric? They are added, and said."""
        keys = stored.node.astype(np.int64) * len(part.metrics.row) + stored.metric
        again = len(keys) - len(distinct(keys))
        if again:
            found = f"{again} more, which are added"
            self._met(CorruptFile(path, "values", expected="one value for each node and metric", found=found))
        return again > 0


def _refuse_unknown(metric: Array, part: ValuePart, path: Path) -> None:
    n = len(part.metrics.row)
    if len(metric) and int(metric.max()) >= n:
        row = int(np.flatnonzero(metric >= n)[0])
        expected, found = f"values of the {n} metrics of the table", f"value {row} of metric {metric[row]}"
        raise CorruptFile(path, "sparse metrics", offset=part.place.at, expected=expected, found=found)


def _by_type(stored: Stored, part: ValuePart, profile: int, metrics: Ints | None) -> Iterator[tuple[bool, SparseBlock]]:
    """Blocks of integers and of reals, in that order. Nodes are contexts already."""
    table = part.metrics
    if metrics is not None:
        wanted = np.isin(table.row, metrics)
        if not wanted.all():
            kept = wanted[stored.metric]
            stored = Stored(stored.node[kept], stored.metric[kept], stored.raw[kept])
    if not len(stored.raw):
        return
    kinds = np.unique(table.is_real).tolist()
    for is_real in kinds:
        if len(kinds) == 1:
            node, metric, raw = stored
        else:
            of_kind = table.is_real[stored.metric] == is_real
            node, metric, raw = stored.node[of_kind], stored.metric[of_kind], stored.raw[of_kind]
        if len(raw):
            value = _values(raw, metric, table.period, is_real)
            owner = np.full(len(raw), profile, np.int32)
            yield is_real, SparseBlock(owner, node, _rows(metric, table.row), value)


def _rows(metric: Array, row: Ids) -> Ids:
    """The rows of metrics. In most files metric k is row k, and a conversion is faster than a table."""
    same = np.array_equal(row, np.arange(len(row)))
    return metric.astype(np.int32) if same else row[metric]


def _values(raw: Offsets, metric: Array, periods: Offsets, is_real: bool) -> Array:
    """Stored numbers times the period of their metric. Products beyond 64 bits become doubles."""
    stored = raw.view(np.float64) if is_real else raw
    if (periods == 1).all():
        return stored
    period = periods[metric]
    if not is_real and not (stored > np.uint64(2**64 - 1) // period).any():
        return stored * period
    with np.errstate(over="ignore", invalid="ignore"):  # values need not be finite
        product: Array = stored.astype(np.float64) * period.astype(np.float64)
    return product


def _added_up(block: SparseBlock) -> SparseBlock:
    """One row per context and metric, in the order of contexts."""
    order = np.lexsort((block.metric, block.context))
    block = block.take(order)
    fresh = np.ones(len(block), np.bool_)
    fresh[1:] = (block.context[1:] != block.context[:-1]) | (block.metric[1:] != block.metric[:-1])
    if fresh.all():
        return block
    first = np.flatnonzero(fresh)
    with np.errstate(over="ignore", invalid="ignore"):
        value = np.add.reduceat(block.value, first)
    return SparseBlock(block.profile[first], block.context[first], block.metric[first], value)
