"""profile.db, of both generations, written as values come.

    header, infos, id tuples           their size is known from the start: room is left for them
    blocks of the measured profiles    appended by `store`
    block of the summary               appended by `summarise`, while cct.db is made
    footer

A profile may come in several parts. Each part becomes a block; `seal` then makes one block of them, in a second file,
and throws the first one away. Whoever gives whole profiles saves that pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from callgrove.binary.filebytes import FileBytes
from callgrove.formats.hpctoolkit.block_writer import BlockPlaces, ValuesFile, aligned, pack
from callgrove.formats.hpctoolkit.rows import combined
from callgrove.formats.hpctoolkit.sparse import RawBlock, SparseBlocks
from callgrove.formats.hpctoolkit.statistics import LexicalLoops, Summarised, summarised
from callgrove.model.arrays import Ids, Ints
from callgrove.model.values import SparseBlock

__all__ = ["ProfileWriter"]

MERGED_ROWS = 1 << 17  # rows that are put together at a time, unless one profile has more


class ProfileWriter:
    """profile.db in the making. Profile 0 is the summary; `n_per_context` counts the values of each context id. `loops`
    says what the summary holds in lexical scope at loops, None where there is no such scope."""

    def __init__(
        self, path: Path, written: ValuesFile, n_profiles: int, n_ids: int, loops: LexicalLoops | None = None
    ) -> None:
        self._path, self._written, self._loops = path, written, loops
        self._n_profiles, self._n_ids = n_profiles, n_ids
        self._summary_index: list[tuple[Ids, Ints]] = []
        self._n_totals = 0
        self._begin()

    def _begin(self) -> None:
        self._file = self._path.open("wb")
        self._at = self._written.blocks_at
        self._file.seek(self._at)
        self._parts: list[Ints] = [np.empty((5, 0), np.int64)]  # profile, n_values, values_at, n_index, index_at
        self.n_per_context = np.zeros(self._n_ids, np.int64)
        if self._loops is not None:
            self._loops.forget()

    def store(self, rows: SparseBlock, last: bool = False) -> None:
        """Append rows in the file's ids, sorted by profile, context and metric. What comes last also brings the
        blocks of profiles that have no values."""
        numbers = rows.profile[np.flatnonzero(np.diff(rows.profile, prepend=-1))].astype(np.int64)
        if last:
            empty = np.ones(self._n_profiles, np.bool_)
            empty[self._table[0]] = empty[0] = False
            empty[numbers] = True
            numbers = np.union1d(np.flatnonzero(empty), numbers)
        packed = pack(self._written.layout, numbers, rows.profile, rows.context, rows.metric, rows.value, self._at)
        self._file.write(packed.words.data)
        self._at += packed.words.nbytes
        self._parts.append(np.stack(packed.places))
        self.n_per_context += np.bincount(packed.entry_id, packed.entry_count, self._n_ids).astype(np.int64)
        if self._loops is not None:
            self._loops.add(rows)

    def flush(self) -> None:
        self._file.flush()

    def seal(self) -> SparseBlocks:
        """All measured values are there: one block per profile, ready to be read back."""
        if len(np.unique(self._table[0])) < len(self._table[0]):
            self._merge()
        self._file.flush()
        columns = np.zeros((4, self._n_profiles), np.uint64)
        columns[:, self._table[0]] = self._table[1:]
        return SparseBlocks(FileBytes(self._path), self._written.layout, "profile", *columns)

    @property
    def _table(self) -> Ints:
        self._parts = [np.concatenate(self._parts, axis=1)]
        return self._parts[0]

    def _merge(self) -> None:
        """Write the file again with the parts of each profile together."""
        self._file.close()
        table, parts_path = self._table, self._path.with_suffix(".parts")
        self._path.rename(parts_path)
        parts = SparseBlocks(FileBytes(parts_path), self._written.layout, "part", *table[1:].astype(np.uint64))
        self._begin()
        waiting: list[SparseBlock] = []
        n_waiting = 0
        order = np.argsort(table[0], kind="stable").tolist()
        for part, following in zip(order, [*order[1:], -1], strict=True):
            profile = int(table[0][part])
            waiting.append(_rows(profile, parts.block(part)))
            n_waiting += len(waiting[-1])
            last_of_profile = following < 0 or table[0][following] != profile
            if last_of_profile and (n_waiting >= MERGED_ROWS or following < 0):
                merged = combined(SparseBlock.joined(waiting))
                self.store(merged.take(merged.value != 0), last=following < 0)
                waiting, n_waiting = [], 0
        parts_path.unlink()

    def summarise(self, rows: SparseBlock, statistics: Mapping[str, Mapping[int, int]]) -> Summarised:
        """Append to the summary, and return what was; contexts come in ascending order."""
        context, metric, value = summarised(rows, statistics, self._loops)
        values = np.empty(len(value), self._written.layout.value)
        values["id"], values["value"] = metric, value
        self._file.write(values.data)
        ids, first = np.unique(context, return_index=True)
        self._summary_index.append((ids, first + self._n_totals))
        self._n_totals += len(values)
        return context, metric, value

    def finish(self) -> None:
        """Complete the summary, fill in the tables and close the file."""
        layout, at = self._written.layout, self._at
        n_index = sum(len(ids) for ids, _ in self._summary_index)
        index = np.empty(n_index + (layout.end_marker is not None), layout.index)
        for name, column in (("id", 0), ("start", 1)):
            found = [np.empty(0, np.int64), *(part[column] for part in self._summary_index)]
            index[name][:n_index] = np.concatenate(found)
        index[n_index:] = (layout.end_marker or 0, self._n_totals)
        index_at = aligned(at + self._n_totals * layout.value.itemsize, layout.alignment)
        self._file.seek(index_at)
        self._file.write(index.data)
        self._file.write(self._written.footer)
        places = BlockPlaces(self._n_profiles, self._written.blocks_at)
        places.put(*np.append(self._table, [[0], [self._n_totals], [at], [n_index], [index_at]], axis=1))
        self._file.seek(0)
        self._file.write(self._written.tables(places))
        self._file.close()

    def close(self) -> None:
        """Give the file up, whatever is in it."""
        self._file.close()


def _rows(profile: int, block: RawBlock) -> SparseBlock:
    return SparseBlock(
        np.full(len(block.value), profile, np.int32),
        block.major().astype(np.int32),
        block.minor.astype(np.int32),
        block.value.astype(np.float64),
    )
