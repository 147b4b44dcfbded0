"""profile.db of a released database, written as values come.

    header, ProfileInfos, IdTuples     their size is known from the start: room is left for them
    blocks of the measured profiles    appended by `store`
    block of the summary               appended by `add_totals`, while cct.db is made
    footer

A profile may come in several parts. Each part becomes a block; `seal` then makes one block of them, in a second file,
and throws the first one away. Whoever gives whole profiles saves that pass.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from callgrove.binary.filebytes import FileBytes
from callgrove.formats.hpctoolkit import release_records as rec
from callgrove.formats.hpctoolkit.block_writer import aligned, pack
from callgrove.formats.hpctoolkit.release_files import PROFILE_LAYOUT, header_bytes
from callgrove.formats.hpctoolkit.release_rows import combined
from callgrove.formats.hpctoolkit.release_words import PHYSICAL_FLAG, SUMMARY_FLAG
from callgrove.formats.hpctoolkit.sparse import RawBlock, SparseBlocks
from callgrove.model.arrays import Array, Floats, Ids, Ints
from callgrove.model.profiles import IdentifierTuples, Interpretation
from callgrove.model.values import SparseBlock

__all__ = ["LARGEST_KIND", "LARGEST_LOGICAL", "ProfileWriter"]

MERGED_ROWS = 1 << 18  # rows that are put together at a time, unless one profile has more
SECTION_AT = 0x30
INFOS_AT = SECTION_AT + 16
LARGEST_KIND, LARGEST_LOGICAL = 0xFF, 0xFFFFFFFF


class ProfileWriter:
    """profile.db in the making. Profile 0 is the summary; `n_per_context` counts the values of each context id."""

    def __init__(self, path: Path, identifiers: IdentifierTuples, measured: Ints, n_ids: int) -> None:
        self._path = path
        self._n_profiles = len(measured) + 1
        self._tuples_at = aligned(INFOS_AT + rec.PROFILE_INFO.itemsize * self._n_profiles, 8)
        self._tuples, self._tuple_at = _tuples(identifiers, measured, self._tuples_at)
        self._blocks_at = self._tuples_at + len(self._tuples)
        self._n_ids = n_ids
        self._summary_index: list[tuple[Ids, Ints]] = []
        self._n_totals = 0
        self._begin()

    def _begin(self) -> None:
        self._file = self._path.open("wb")
        self._file.seek(self._blocks_at)
        self._at = self._blocks_at
        self._parts: list[Ints] = [np.empty((5, 0), np.int64)]  # profile, n_values, values_at, n_index, index_at
        self.n_per_context = np.zeros(self._n_ids, np.int64)

    def store(self, rows: SparseBlock) -> None:
        """Append rows in the file's ids, sorted by profile, context and metric."""
        if not len(rows):
            return
        packed = pack(PROFILE_LAYOUT, rows.profile, rows.context, rows.metric, rows.value, self._at)
        self._file.write(packed.words.data)
        self._at += packed.words.nbytes
        columns = (packed.block, packed.n_values, packed.values_at, packed.n_index, packed.index_at)
        self._parts.append(np.stack(columns))
        np.add.at(self.n_per_context, packed.entry_id, packed.entry_count)

    def flush(self) -> None:
        self._file.flush()

    def seal(self) -> SparseBlocks:
        """All measured values are there: one block per profile, ready to be read back."""
        if len(np.unique(self._table[0])) < len(self._table[0]):
            self._merge()
        self._file.flush()
        return self._readable(FileBytes(self._path))

    @property
    def _table(self) -> Ints:
        self._parts = [np.concatenate(self._parts, axis=1)]
        return self._parts[0]

    def _readable(self, file: FileBytes) -> SparseBlocks:
        """One block per profile, the summary's empty."""
        columns = np.zeros((4, self._n_profiles), np.uint64)
        columns[:, self._table[0]] = self._table[1:]
        return SparseBlocks(file, PROFILE_LAYOUT, "profile", *columns)

    def _merge(self) -> None:
        """Write the file again with the parts of each profile together."""
        self._file.close()
        table, parts_path = self._table, self._path.with_suffix(".parts")
        self._path.rename(parts_path)
        parts = SparseBlocks(FileBytes(parts_path), PROFILE_LAYOUT, "part", *table[1:].astype(np.uint64))
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
                self.store(merged.take(merged.value != 0))
                waiting, n_waiting = [], 0
        parts_path.unlink()

    def add_totals(self, context: Ids, metric: Ids, total: Floats) -> None:
        """Append to the summary; contexts, and the metrics of each, come in ascending order."""
        kept = total != 0
        values = np.empty(int(kept.sum()), rec.PROFILE_VALUE)
        values["id"], values["value"] = metric[kept], total[kept]
        self._file.write(values.data)
        ids, first = np.unique(context[kept], return_index=True)
        self._summary_index.append((ids, first + self._n_totals))
        self._n_totals += len(values)

    def finish(self) -> None:
        """Complete the summary, fill in the tables and close the file."""
        index = np.empty(sum(len(ids) for ids, _ in self._summary_index), rec.CONTEXT_INDEX)
        for name, column in (("id", 0), ("start", 1)):
            index[name] = np.concatenate([np.empty(0, np.int64), *(part[column] for part in self._summary_index)])
        index_at = aligned(self._at + self._n_totals * rec.PROFILE_VALUE.itemsize)
        self._file.seek(index_at)
        self._file.write(index.data)
        self._file.write(rec.FOOTERS["prof"])
        infos = np.zeros(self._n_profiles, rec.PROFILE_INFO)
        infos["pValues"] = infos["pCtxIndices"] = self._blocks_at  # where a profile without values points
        profiles = self._table[0]
        for field, column in zip(("nValues", "pValues", "nCtxs", "pCtxIndices"), self._table[1:], strict=True):
            infos[field][profiles] = column
        infos["pIdTuple"][1:] = self._tuple_at
        infos[0] = (self._n_totals, self._at, len(index), index_at, 0, SUMMARY_FLAG)
        self._write_tables(infos)
        self._file.close()

    def _write_tables(self, infos: Array) -> None:
        section = np.zeros(1, rec.PROFILE_INFOS)
        section[0] = (INFOS_AT, len(infos), rec.PROFILE_INFO.itemsize)
        sections = {"ProfileInfos": (SECTION_AT, 16 + infos.nbytes), "IdTuples": (self._tuples_at, len(self._tuples))}
        for at, content in (
            (0, header_bytes("prof", sections)),
            (SECTION_AT, section.tobytes()),
            (INFOS_AT, infos.tobytes()),
            (self._tuples_at, self._tuples),
        ):
            self._file.seek(at)
            self._file.write(content)

    def close(self) -> None:
        """Give the file up, whatever is in it."""
        self._file.close()


def _rows(profile: int, block: RawBlock) -> SparseBlock:
    return SparseBlock(
        np.full(len(block.value), profile, np.int32),
        block.major(),
        block.minor.astype(np.int32),
        block.value.astype(np.float64),
    )


def _tuples(identifiers: IdentifierTuples, measured: Ints, at: int) -> tuple[bytes, Ints]:
    """The tuples of the measured profiles, and where each begins. Kinds beyond 255 have no place."""
    out = bytearray()
    pointers = []
    for profile in measured.tolist():
        pointers.append(at + len(out))
        rows = [row for row in identifiers.rows(profile) if row[0] <= LARGEST_KIND]
        elements = np.zeros(len(rows), rec.ID_ELEMENT)
        for element, (kind, physical, logical, interpretation) in zip(elements, rows, strict=True):
            flags = 0 if interpretation == Interpretation.SINGLE else PHYSICAL_FLAG
            element["kind"], element["flags"] = kind, flags
            element["logicalId"], element["physicalId"] = min(logical, LARGEST_LOGICAL), physical
        out += len(rows).to_bytes(2, "little") + bytes(6) + elements.tobytes()
    return bytes(out), np.array(pointers, np.int64)
