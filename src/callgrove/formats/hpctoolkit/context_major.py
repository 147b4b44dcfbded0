"""cct.db of a released database, made from profile.db by an external counting sort.

    pass 1    while profile blocks are written, the values of each context are counted
    pass 2    contexts are taken in batches of at most `BATCH_VALUES` values, in the order of their ids; each profile's
              index is ascending too, so a cursor per profile finds the batch's values: one slice per profile and batch

A batch is all that memory holds of the values. Every value is read once and written once, and the sums over all
profiles, which make up the summary profile, fall out of the same pass. One context with more values than that is a
batch by itself.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from callgrove.formats.hpctoolkit import release_records as rec
from callgrove.formats.hpctoolkit.block_writer import pack
from callgrove.formats.hpctoolkit.release_files import CONTEXT_LAYOUT, header_bytes
from callgrove.formats.hpctoolkit.sparse import SparseBlocks
from callgrove.formats.interface import Progress
from callgrove.model.arrays import Array, Floats, Ids, Ints
from callgrove.model.values import SparseBlock

__all__ = ["write_context_major"]

BATCH_VALUES = 1 << 19
SECTION_AT = 0x30  # as genuine files have it; the 16 bytes before are zero here
INFOS_AT = SECTION_AT + 16

Totals = Callable[[Ids, Ids, Floats], None]  # context ids, metric ids, sums over all profiles


def write_context_major(
    path: Path, profiles: SparseBlocks, n_per_context: Ints, add_totals: Totals, progress: Progress
) -> None:
    """Write cct.db and hand on the totals, context by context."""
    infos = np.zeros(len(n_per_context), rec.CTX_INFO)
    at = INFOS_AT + infos.nbytes
    reader, done, total = _ProfileCursors(profiles), 0, int(n_per_context.sum())
    with path.open("wb") as file:
        file.seek(at)
        for first, last in _batches(n_per_context):
            infos["pValues"][first:last] = infos["pMetricIndices"][first:last] = at  # contexts without values
            rows = reader.up_to(last)
            if not len(rows):
                continue
            packed = pack(CONTEXT_LAYOUT, rows.context, rows.metric, rows.profile, rows.value, at)
            for field in ("nValues", "pValues", "nMetrics", "pMetricIndices"):
                infos[field][packed.block] = getattr(packed, FIELDS[field])
            file.write(packed.words.data)
            at += packed.words.nbytes
            add_totals(*_totals(rows))
            done += len(rows)
            progress("writing cct.db", done, total)
        file.write(rec.FOOTERS["ctxt"])
        section = np.zeros(1, rec.CTX_INFOS)
        section[0] = (INFOS_AT, len(infos), rec.CTX_INFO.itemsize)
        file.seek(0)
        file.write(header_bytes("ctxt", {"CtxInfos": (SECTION_AT, 16 + infos.nbytes)}).ljust(SECTION_AT, b"\0"))
        file.write(section.tobytes().ljust(16, b"\0") + infos.tobytes())


FIELDS = {"nValues": "n_values", "pValues": "values_at", "nMetrics": "n_index", "pMetricIndices": "index_at"}


def _batches(n_per_context: Ints) -> Iterator[tuple[int, int]]:
    """Ranges of context ids that together cover all of them."""
    before = np.append(0, np.cumsum(n_per_context))
    first = 0
    while first < len(n_per_context):
        last = int(np.searchsorted(before, before[first] + BATCH_VALUES, side="right")) - 1
        last = max(last, first + 1)
        yield first, last
        first = last


class _ProfileCursors:
    """How far each profile has been read. Contexts are asked for in ascending order."""

    def __init__(self, blocks: SparseBlocks) -> None:
        self._blocks = blocks
        self._index = [self._index_of(number) for number in range(len(blocks))]
        self._entry = np.zeros(len(blocks), np.int64)
        self._next_id = np.array([ids["id"][0] if len(ids) else _NEVER for ids in self._index], np.int64)

    def _index_of(self, number: int) -> Array:
        blocks = self._blocks
        at, n = int(blocks.index_at[number]), int(blocks.n_index[number])
        return blocks.file.array(blocks.layout.index, n, at, blocks.section(number))

    def up_to(self, last: int) -> SparseBlock:
        """All values of contexts below `last` that were not given yet, sorted by context, metric and profile."""
        parts = [self._advance(number, last) for number in np.flatnonzero(self._next_id < last).tolist()]
        rows = SparseBlock.joined(parts)
        key = (rows.context.astype(np.uint64) << np.uint64(16)) | rows.metric.astype(np.uint64)
        return rows.take(np.argsort(key, kind="stable"))  # profiles were ascending and stay so

    def _advance(self, number: int, last: int) -> SparseBlock:
        blocks, index, entry = self._blocks, self._index[number], int(self._entry[number])
        end = bisect_left(index["id"], last, lo=entry)
        self._entry[number] = end
        self._next_id[number] = index["id"][end] if end < len(index) else _NEVER
        starts = index["start"][entry : end + 1].astype(np.int64)
        if end == len(index):
            starts = np.append(starts, int(blocks.n_values[number]))
        n, at = int(starts[-1] - starts[0]), int(blocks.values_at[number])
        at += int(starts[0]) * blocks.layout.value.itemsize
        values = blocks.file.array(blocks.layout.value, n, at, blocks.section(number))
        context = np.repeat(index["id"][entry:end], np.diff(starts))
        return SparseBlock(np.full(n, number, np.uint32), context, values["id"], values["value"])


_NEVER = np.iinfo(np.int64).max


def _totals(rows: SparseBlock) -> tuple[Ids, Ids, Floats]:
    """Sums over profiles, in the order of profiles."""
    changes = np.ones(len(rows), np.bool_)
    changes[1:] = (rows.context[1:] != rows.context[:-1]) | (rows.metric[1:] != rows.metric[:-1])
    first = np.flatnonzero(changes)
    with np.errstate(invalid="ignore", over="ignore"):  # values need not be finite
        return rows.context[first], rows.metric[first], np.add.reduceat(rows.value, first)
