"""Value blocks of profile.db and cct.db and trace lines of trace.db, of both generations.

    block of profile k    (metric, value) * nValues      (context, start) * nContexts   [end pair]
    block of context k    (profile, value) * nValues     (metric, start) * nMetrics     [end pair]

The values of the i-th index entry are [start_i, start_(i+1)); the last range ends at nValues. The pre-release
generation stores that end as a last pair behind a marker and the index right behind the values; the released one
points to both. Which of it is where is decided once, as arrays over all blocks; blocks are read when asked for.
"""

from __future__ import annotations

import mmap
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from callgrove.arrays import Array, Bools, Ids, Ints, Offsets
from callgrove.binary.files import FileBytes, IdMap
from callgrove.errors import CallgroveError, CorruptFile
from callgrove.model.traces.events import Samples, Window

__all__ = ["BlockLayout", "DatabaseSamples", "RawBlock", "SparseBlocks", "TraceLines"]


MOST_MAPPED = 32 << 20  # bytes of blocks that stay mapped behind a pass over the file


@dataclass(frozen=True)
class BlockLayout:
    """The records of a block. `end_marker` stands in an extra index pair after the last one. Values and indices begin
    at multiples of `alignment`; `ends_when_empty` says whether a block without values still has its end pair."""

    value: np.dtype[Any]
    index: np.dtype[Any]
    end_marker: int | None = None
    alignment: int = 2
    ends_when_empty: bool = False


@dataclass(frozen=True)
class RawBlock:
    """One block in the file's ids. `ids` are the index entries, `bounds` their ranges of `minor` and `value`."""

    ids: Ints
    bounds: Ints
    minor: Array
    value: Array

    def major(self, ids: Array | None = None) -> Array:
        """Return the index id of each value; with `ids`, each entry's replacement."""
        return np.repeat(self.ids if ids is None else ids, np.diff(self.bounds))

    def without_first(self) -> RawBlock:
        """Return the block without its first entry and the values of it."""
        first = int(self.bounds[1])
        return RawBlock(self.ids[1:], self.bounds[1:] - first, self.minor[first:], self.value[first:])


@dataclass
class SparseBlocks:
    """All blocks of one file. `what` names one of them in errors: `profile` or `context`."""

    file: FileBytes
    layout: BlockLayout
    what: str
    n_values: Offsets
    values_at: Offsets
    n_index: Offsets
    index_at: Offsets
    broken: Bools = field(init=False)  # outside of the file, or shared
    shared: Bools = field(init=False)  # inside of another block
    _mapped: int = field(default=0, init=False)  # bytes, since pages were given back

    def __post_init__(self) -> None:
        self.broken = self._outside(self.n_values, self.values_at, self.layout.value.itemsize)
        self.broken |= self._outside(self._entries(), self.index_at, self.layout.index.itemsize)
        self.broken |= (self.n_index == 0) & (self.n_values > 0)
        self.shared = self._overlapping(self.n_values, self.values_at, self.layout.value.itemsize)
        self.shared |= self._overlapping(self._entries(), self.index_at, self.layout.index.itemsize)
        self.broken |= self.shared

    def __len__(self) -> int:
        return len(self.n_values)

    def _entries(self) -> Offsets:
        """Return the number of index entries with the end pair, which an empty context does not have."""
        if self.layout.end_marker is None:
            return self.n_index
        return self.n_index + (self.n_index > 0).astype(np.uint64)

    def _outside(self, count: Offsets, at: Offsets, size: int) -> Bools:
        """Return which blocks do not lie inside the file; compared without overflow."""
        end = np.uint64(self.file.size)
        most = np.uint64(self.file.size // size)
        room = np.where(at <= end, end - np.minimum(at, end), np.uint64(0)) // np.uint64(size)
        out: Bools = (count > most) | ((count > 0) & (room < count))
        return out

    def _overlapping(self, count: Offsets, at: Offsets, size: int) -> Bools:
        return self.file.find_overlaps(np.where(self.broken, 0, at), np.where(self.broken, 0, count * np.uint64(size)))

    def section(self, number: int) -> str:
        return f"{self.what} {number}"

    def index(self, number: int) -> tuple[Ints, Ints]:
        """Return the ids and bounds of one block: checked, ascending, covering all values."""
        n, n_values = int(self.n_index[number]), int(self.n_values[number])
        if n == 0:
            self._demand(n_values == 0, number, "an index for its values", f"none for {n_values} values")
            return np.empty(0, np.int64), np.zeros(1, np.int64)
        extra = self.layout.end_marker is not None
        at = int(self.index_at[number])
        pairs = self.file.array(self.layout.index, n + extra, at, self.section(number))
        ids = pairs["id"][:n].astype(np.int64)
        bounds = np.empty(n + 1, np.int64)
        bounds[:n] = pairs["start"][:n]  # beyond 2**63 it becomes negative, which is out of order
        bounds[n] = min(n_values, self.file.size)  # an absurd count fails where the values are read
        if extra:
            end = (int(pairs["id"][n]), int(pairs["start"][n]))
            want = (self.layout.end_marker, n_values)
            self._demand(end == want, number, f"the end pair {want}", f"{end}", at + n * self.layout.index.itemsize)
        self._demand(bool((ids[1:] > ids[:-1]).all()), number, "ascending ids", "ids out of order", at)
        in_order = int(bounds[0]) == 0 and bool((bounds[1:] >= bounds[:-1]).all())
        self._demand(in_order, number, "ranges that cover its values in order", "ranges that do not", at)
        return ids, bounds

    def block(self, number: int) -> RawBlock:
        """Return one whole block."""
        n_values, n_index = int(self.n_values[number]), int(self.n_index[number])
        self._mapped += n_values * self.layout.value.itemsize + n_index * self.layout.index.itemsize
        if self._mapped > MOST_MAPPED:
            self.forget()
        ids, bounds = self.index(number)
        values = self._values(number, 0, n_values)
        return RawBlock(ids, bounds, values["id"], values["value"])

    def forget(self) -> None:
        """Give back the pages that reading has mapped, so that a pass over a large file does not fill memory.

        They stay in the system's cache; views of them stay valid.
        """
        self._mapped = 0
        if isinstance(self.file.buffer, mmap.mmap):
            self.file.buffer.madvise(mmap.MADV_DONTNEED)

    def lookup(self, number: int, id_: int) -> RawBlock:
        """Return one entry of a block, found by binary search; nothing else of its values is read."""
        ids, bounds = self.index(number)
        k = int(np.searchsorted(ids, id_))
        if k == len(ids) or ids[k] != id_:
            none = self._values(number, 0, 0)
            return RawBlock(ids[:0], np.zeros(1, np.int64), none["id"], none["value"])
        first, last = int(bounds[k]), int(bounds[k + 1])
        values = self._values(number, first, last)
        return RawBlock(ids[k : k + 1], np.array([0, last - first]), values["id"], values["value"])

    def _values(self, number: int, first: int, last: int) -> Array:
        at = int(self.values_at[number]) + first * self.layout.value.itemsize
        return self.file.array(self.layout.value, last - first, at if last > first else 0, self.section(number))

    def _demand(self, sound: bool, number: int, expected: str, found: str, offset: int | None = None) -> None:
        if not sound:
            raise CorruptFile(self.file.path, self.section(number), offset=offset, expected=expected, found=found)

    def damage(self) -> list[CorruptFile]:
        """Return the errors of blocks that lie outside of the file or in one another, known without reading any."""
        return [self.describe_broken(number) for number in np.flatnonzero(self.broken).tolist()]

    def describe_broken(self, number: int) -> CorruptFile:
        """Return what is wrong with a broken block."""
        elsewhere = f"those of another {self.what}" if self.shared[number] else ""
        return CorruptFile(
            self.file.path,
            self.section(number),
            offset=int(self.values_at[number]),
            expected=f"{int(self.n_values[number])} values and {int(self.n_index[number])} index entries",
            found=elsewhere or f"a file that ends at byte {self.file.size}",
        )


# -- trace lines: (time in ns, context id) records ---------------------------------------------------------------------


@dataclass(frozen=True)
class TraceLines:
    """Where the samples of each line lie; `type` 0 is contexts, others follow the metric of that id."""

    profile: Ints
    type: Ints
    start: Offsets
    end: Offsets


class DatabaseSamples:
    """Sample lines in the model's ids. Context 0 is idle (-1), and so is an id that nothing in the database names;
    `unknown` counts the samples of such ids.

    Lines that lie outside of the file, or that break off inside a record, end with the last whole record in the file;
    lines that lie in one another are empty. `problems` says so.
    """

    def __init__(
        self,
        file: FileBytes,
        record: np.dtype[Any],
        profile: Ids,
        metric: Ids,
        start: Offsets,
        end: Offsets,
        contexts: IdMap,
    ) -> None:
        self._file, self._record, self._contexts = file, record, contexts
        self.profile, self.metric = profile, metric
        self.problems: list[CallgroveError] = []
        self.unknown = 0
        self._start, self.count = self._inside(start, end)

    def _inside(self, start: Offsets, end: Offsets) -> tuple[Ints, Ints]:
        size = np.uint64(self._file.size)
        first, last = np.minimum(start, size), np.minimum(end, size)
        empty = start == end  # a line without samples may point anywhere
        length = np.where(empty | (last < first), np.uint64(0), last - np.minimum(first, last)).astype(np.int64)
        whole = length // self._record.itemsize
        broken: Bools = ~empty & ((start > end) | (end > size) | (length % self._record.itemsize != 0))
        shared = self._file.find_overlaps(first, length)
        whole[shared] = 0
        for line in np.flatnonzero(broken | shared).tolist():
            expected = f"samples from byte {int(start[line])} to byte {int(end[line])}"
            found = f"{int(whole[line])} whole samples in a file of {self._file.size} bytes"
            found = "samples of another line" if shared[line] else found
            self.problems.append(CorruptFile(self._file.path, f"trace line {line}", expected=expected, found=found))
        return first.astype(np.int64), whole

    def line(self, line: int, window: Window | None = None) -> Samples:
        records = self._records(line)
        if window is not None:  # a search looks at a few records; the rest is not even read
            first, last = (bisect_left(range(len(records)), at, key=lambda k: int(records["time"][k])) for at in window)
            records = records[max(0, first - 1) : last + 1]
        ids = records["ctx"].astype(np.int64)
        context = self._contexts[ids]
        self.unknown += int(((context < 0) & (ids != 0)).sum())
        return Samples(records["time"].astype(np.int64), context).within(window)

    def ids(self, line: int) -> Ints:
        """Return the context ids of one line, each once."""
        return np.unique(self._records(line)["ctx"].astype(np.int64))

    def _records(self, line: int) -> Array:
        n, at = int(self.count[line]), int(self._start[line])
        return self._file.array(self._record, n, at if n else 0, f"trace line {line}")
