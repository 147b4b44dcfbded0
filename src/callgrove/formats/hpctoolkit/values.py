"""Values of a database by profile or by context, and trace lines, read from their own blocks when asked for.

profile.db answers for profiles, cct.db for contexts; where one of them is missing or broken the other answers for
both, more slowly. Context 0, the file's root above all entry points, is not a context: its values are left out here and
given by `root` for checks and for rewriting.
"""

from __future__ import annotations

import mmap
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from callgrove.arrays import Array, Bools, Ids, Ints, Offsets, fill_runs
from callgrove.binary.files import FileBytes, IdMap
from callgrove.errors import CallgroveError, CorruptFile, count_of
from callgrove.model.traces.events import Samples, Window
from callgrove.model.values import Block, SparseBlock

__all__ = [
    "BlockLayout",
    "DatabaseSamples",
    "DatabaseValues",
    "MetricTable",
    "RawBlock",
    "SparseBlocks",
    "TraceLines",
    "summary_is_alone",
]


# -- blocks of profile.db, cct.db and trace.db -------------------------------------------------------------------------
#     block of profile k    (metric, value) * nValues      (context, start) * nContexts   [end pair]
#     block of context k    (profile, value) * nValues     (metric, start) * nMetrics     [end pair]
#
# The values of the i-th index entry are [start_i, start_(i+1)); the last range ends at nValues. The pre-release
# generation stores that end as a last pair behind a marker and the index right behind the values; the released one
# points to both. Which of it is where is decided once, as arrays over all blocks; blocks are read when asked for.


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


@dataclass(frozen=True)
class GatheredBlocks:
    """Several blocks in the file's ids, without its root: how many values each has; index entries, and where the values
    of each begin; values."""

    n_values: Ints
    ids: Array
    first: Ints
    values: Array


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

    def gather(self, numbers: Ints) -> GatheredBlocks | None:
        """Return several blocks, none of them broken, as one copy without the file's root; None where the index of any
        is not sound: `block` says what is wrong with it."""
        layout, n_index, n_values = self.layout, *(n[numbers].astype(np.int64) for n in (self.n_index, self.n_values))
        index_at, has_index = self.index_at[numbers].astype(np.int64), n_index > 0
        heads = self.file.gather(layout.index, index_at[has_index], self.what)
        if heads["start"].any() or n_values[~has_index].any() or not self._has_end_pairs(numbers[has_index]):
            return None
        has_root = np.zeros(len(numbers), np.bool_)
        has_root[has_index] = heads["id"] == 0  # it comes first, as ids ascend
        count = n_index - has_root
        pairs = self.file.gather_ranges(layout.index, index_at + has_root * layout.index.itemsize, count, self.what)
        ids, starts = pairs["id"].astype(np.uint32), pairs["start"].astype(np.int64)
        some = count > 0
        last = np.cumsum(count)[some] - 1
        first = last - count[some] + 1
        if not _are_sound(ids, starts, first, last) or (starts[last] > n_values[some]).any():
            return None
        of_root = np.where(has_root, n_values, 0)
        of_root[some] = starts[first]
        n_kept = n_values - of_root
        starts += np.repeat(np.cumsum(n_kept) - n_kept - of_root, count)
        at = self.values_at[numbers].astype(np.int64) + of_root * layout.value.itemsize
        return GatheredBlocks(n_kept, ids, starts, self.file.gather_ranges(layout.value, at, n_kept, self.what))

    def _has_end_pairs(self, numbers: Ints) -> bool:
        """Return whether blocks that have an index end with the pair that they should have, if any."""
        if self.layout.end_marker is None:
            return True
        after = self.n_index[numbers] * np.uint64(self.layout.index.itemsize)
        pairs = self.file.gather(self.layout.index, (self.index_at[numbers] + after).astype(np.int64), self.what)
        return bool(((pairs["id"] == self.layout.end_marker) & (pairs["start"] == self.n_values[numbers])).all())

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


def _are_sound(ids: Array, starts: Ints, first: Ints, last: Ints) -> bool:
    """Return whether ids ascend and starts do not fall, from the first to the last entry of each of some blocks; a
    start beyond 2**63 has become negative."""
    falls = (ids[1:] <= ids[:-1]) | (starts[1:] < starts[:-1])
    falls[last[:-1]] = False
    return not falls.any() and not (starts[first] < 0).any()


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
        return self._translate(records).within(window)

    def gather(self, lines: Ints) -> Samples:
        """Return the samples of several lines, one line after the other."""
        return self._translate(
            self._file.gather_columns(self._record, self._start[lines], self.count[lines], "trace lines")
        )

    def _translate(self, records: Array | Mapping[str, Array]) -> Samples:
        ids = records["ctx"].astype(np.int64)
        context = self._contexts[ids]
        self.unknown += int(((context < 0) & (ids != 0)).sum())
        return Samples(records["time"].astype(np.int64), context)

    def ids(self, line: int) -> Ints:
        """Return the context ids of one line, each once."""
        return np.unique(self._records(line)["ctx"].astype(np.int64))

    def _records(self, line: int) -> Array:
        n, at = int(self.count[line]), int(self._start[line])
        return self._file.array(self._record, n, at if n else 0, f"trace line {line}")


# -- values ------------------------------------------------------------------------------------------------------------


N_METRIC_IDS = 1 << 16
VALUES_AT_ONCE = 1 << 14  # of profiles that have few: an array of twenty values takes as long as one of a thousand
READ_AT_ONCE = 1 << 16  # values of such batches, which are then given one by one: this is faster and fits into caches


class MetricTable:
    """From metric ids of the file (16 bits) to metric rows; -1 is unknown."""

    def __init__(self, rows: dict[int, int]) -> None:
        self._rows = np.full(N_METRIC_IDS, -1, np.int32)
        for id_, row in rows.items():
            if 0 <= id_ < N_METRIC_IDS:
                self._rows[id_] = row

    def __getitem__(self, ids: Array) -> Ids:
        rows: Ids = self._rows.take(ids)
        return rows

    def fill(self, out: Ids, ids: Array) -> None:
        """Fill a column with the rows of metric ids of 16 bits."""
        self._rows.take(ids, out=out, mode="clip")  # other modes make a copy first

    def __contains__(self, row: int) -> bool:
        return bool((self._rows == row).any())


def summary_is_alone(profiles: SparseBlocks | None, is_summary: Bools) -> bool:
    """Return whether the summary has values, while none of a thread can be read. It is then all that is known."""
    if profiles is None:
        return False
    has_values = (profiles.n_values > 0) & ~profiles.broken
    return bool(has_values[is_summary].any() and not has_values[~is_summary].any())


class DatabaseValues:
    """The values of profile.db and cct.db in the model's ids. Profiles keep the numbers they have in the file.

    In a summary profile a metric id means another thing (a statistic), so it has a table of its own.
    `problems` collects the damage that streaming met and stepped over.
    """

    def __init__(
        self,
        by_profile: SparseBlocks | None,
        by_context: SparseBlocks | None,
        contexts: IdMap,
        context_ids: Ints,
        metrics: MetricTable,
        summary_metrics: MetricTable,
        is_summary: Bools,
    ) -> None:
        self.by_profile, self.by_context = by_profile, by_context
        self._contexts, self._context_ids = contexts, context_ids
        self._metrics, self._summary_metrics = metrics, summary_metrics
        self._is_summary = is_summary
        self.problems: list[CallgroveError] = []

    @cached_property
    def summary_is_alone(self) -> bool:
        return summary_is_alone(self.by_profile, self._is_summary)

    def n_stored(self) -> int | None:
        """Return what the headers announce, values of the file's root included."""
        blocks = self.by_profile or self.by_context
        return None if blocks is None else int(blocks.n_values[~blocks.broken].sum())

    def summarises(self, metric: int) -> bool:
        """Return whether the stored summary answers for a metric. One without any value says nothing: writers that
        leave it out, or were interrupted, make such."""
        if self.by_profile is None or not self.belongs_in_summary(metric):
            return False
        return bool((self.by_profile.n_values[self._is_summary] > 0).all())

    def belongs_in_summary(self, metric: int) -> bool:
        """Do the tables say that summaries hold this metric?"""
        return metric in self._summary_metrics

    def profile(self, profile: int, metrics: Ints | None = None) -> SparseBlock:
        if self.by_profile is None:
            parts = [b.take(b.profile == profile) for b in self._from_contexts() if profile in b.profile]
            return SparseBlock.concatenate(parts).of_metrics(metrics)
        block = self.by_profile.block(profile)
        if len(block.ids) and block.ids[0] == 0:
            block = block.without_first()
        return self._of_profile(profile, block).of_metrics(metrics)

    def root(self, profile: int) -> tuple[Ids, Array]:
        """Return the metric rows and values of the file's root in one profile."""
        if self.by_profile is None:
            return np.empty(0, np.int32), np.empty(0)
        block = self.by_profile.lookup(profile, 0)
        table = self._summary_metrics if self._is_summary[profile] else self._metrics
        return table[block.minor], block.value.astype(np.float64)

    def root_by_profile(self, profiles: Ints) -> SparseBlock:
        """Return the values of the file's root in some profiles, as profile.db has them; damaged profiles are left
        out."""
        parts = []
        for profile in [] if self.by_profile is None else profiles[~self.by_profile.broken[profiles]].tolist():
            try:
                rows, value = self.root(profile)
            except CorruptFile as error:
                self._record_problem(error)
                continue
            parts.append(SparseBlock(np.full(len(rows), profile, np.int32), np.zeros_like(rows), rows, value))
        return SparseBlock.concatenate(parts)

    def root_by_context(self) -> SparseBlock:
        """Return the values of the root as cct.db has them."""
        assert self.by_context is not None
        block = self.by_context.block(0)
        profile, metric = block.minor.astype(np.int32), block.major(self._metrics[block.ids])
        return SparseBlock(profile, np.zeros_like(metric), metric, block.value.astype(np.float64))

    def context(self, context: int) -> SparseBlock:
        id_ = int(self._context_ids[context])
        if self.by_context is None or self.summary_is_alone:
            return self.in_profiles(context)
        return (
            self._of_context(context, self.by_context.block(id_)) if id_ < len(self.by_context) else SparseBlock.empty()
        )

    def in_profiles(self, context: int) -> SparseBlock:
        """Return the values of one context in all measured profiles, as profile.db has them."""
        if self.by_profile is None:
            return SparseBlock.empty()
        id_ = int(self._context_ids[context])
        chosen = self._is_summary if self.summary_is_alone else ~self._is_summary
        blocks = (
            self._of_profile(p, self.by_profile.lookup(p, id_))
            for p in np.flatnonzero(chosen & ~self.by_profile.broken).tolist()
        )
        return SparseBlock.concatenate([b for b in blocks if len(b)])

    def blocks(self, profiles: Ints | None = None, metrics: Ints | None = None) -> Iterator[Block]:
        for block in self._from_profiles(profiles) if self.by_profile is not None else self._from_contexts():
            part = block.of_metrics(metrics)
            if self.by_profile is None and profiles is not None:
                part = part.take(np.isin(part.profile, profiles))
            if len(part):
                yield part

    def fill(self, out: SparseBlock) -> int:
        at = 0
        if self.by_profile is None:
            for block in self._from_contexts():
                at = out.put(at, block)
            return at
        for batches in self._groups(self._in_order_of_file(np.arange(len(self.by_profile)))):
            together = self._read_together(batches, out.take(slice(at, None)))
            if together is not None:
                at += len(together[0])
                continue
            for block in self._read_apart(batches):
                at = out.put(at, block)
        return at

    def _from_profiles(self, profiles: Ints | None) -> Iterator[SparseBlock]:
        """Yield profile after profile in the order of their blocks: one sequential pass over the file."""
        assert self.by_profile is not None
        chosen = np.arange(len(self.by_profile)) if profiles is None else profiles
        for batches in self._groups(self._in_order_of_file(chosen)):
            yield from self._read_batches(batches)

    def _in_order_of_file(self, profiles: Ints) -> Ints:
        """Return profiles by where their blocks lie, without those that are known to be broken since the file was
        opened."""
        assert self.by_profile is not None
        chosen = profiles[~self.by_profile.broken[profiles]]
        return chosen[np.argsort(self.by_profile.values_at[chosen], kind="stable")]

    def _read_batches(self, batches: Sequence[Ints]) -> Iterator[SparseBlock]:
        """Yield a block for each of some batches, or for each profile of a batch that has something wrong with it."""
        together = self._read_together(batches)
        if together is None:
            yield from self._read_apart(batches)
            return
        triples, n_values = together
        ends = np.cumsum(np.add.reduceat(n_values, np.cumsum([0, *map(len, batches[:-1])]))).tolist()
        for first, end in pairwise([0, *ends]):
            yield triples.take(slice(first, end))

    def _read_apart(self, batches: Sequence[Ints]) -> Iterator[SparseBlock]:
        """Yield what `_read_batches` does of batches that cannot be read together."""
        if len(batches) > 1:
            for batch in batches:
                yield from self._read_batches([batch])
            return
        for profile in batches[0].tolist():
            try:
                yield self.profile(profile)
            except CorruptFile as error:
                self._record_problem(error)

    def _groups(self, profiles: Ints) -> Iterator[list[Ints]]:
        """Yield batches that follow each other and are read together; a large one or a summary is read alone."""
        assert self.by_profile is not None
        before = np.append(0, np.cumsum(self.by_profile.n_values[profiles].astype(np.int64) + 1))
        group: list[Ints] = []
        begin = 0
        for first, last in self._batches(profiles, before):
            is_alone = bool(self._is_summary[profiles[first]]) or before[last] - before[first] > READ_AT_ONCE
            if group and (is_alone or before[last] - before[begin] > READ_AT_ONCE):
                yield group
                group = []
            begin = begin if group else first
            group.append(profiles[first:last])
            if is_alone:
                yield group
                group = []
        if group:
            yield group

    def _batches(self, profiles: Ints, before: Ints) -> Iterator[tuple[int, int]]:
        """Yield ranges of profiles that have few values together, or one with many; summaries alone. `before` says how
        much comes before each."""
        alone = np.append(np.flatnonzero(self._is_summary[profiles]), len(profiles))
        first = 0
        while first < len(profiles):
            summary = int(alone[alone.searchsorted(first)])
            full = int(before.searchsorted(before[first] + VALUES_AT_ONCE, side="right")) - 1
            last = max(first + 1, min(full, summary))
            yield first, last
            first = last

    def _read_together(
        self, batches: Sequence[Ints], room: SparseBlock | None = None
    ) -> tuple[SparseBlock, Ints] | None:
        """Return the values of batches of measured profiles, written to where there is room for them, and how many each
        profile has; None where the profiles are to be read one by one, since there is one or something is wrong."""
        assert self.by_profile is not None
        profiles = np.concatenate(batches)
        blocks = self.by_profile.gather(profiles) if len(profiles) > 1 else None
        if blocks is None:
            return None
        context, n = self._contexts[blocks.ids], len(blocks.values)
        out = SparseBlock.with_room(n) if room is None else room.take(slice(n))
        self._metrics.fill(out.metric, blocks.values["id"])
        if int(context.min(initial=0)) < 0 or int(out.metric.min(initial=0)) < 0:
            return None
        out.profile[:] = np.repeat(profiles.astype(np.int32), blocks.n_values)
        fill_runs(out.context, context, blocks.first)
        out.value[:] = blocks.values["value"]
        return out, blocks.n_values

    def _from_contexts(self) -> Iterator[SparseBlock]:
        if self.by_context is None:
            return
        known = np.flatnonzero(self._context_ids >= 0)
        for context in known[np.argsort(self._context_ids[known])].tolist():
            id_ = int(self._context_ids[context])
            if id_ >= len(self.by_context) or self.by_context.broken[id_]:
                continue
            try:
                yield self._of_context(context, self.by_context.block(id_))
            except CorruptFile as error:
                self._record_problem(error)

    def _record_problem(self, error: CorruptFile) -> None:
        if str(error) not in {str(known) for known in self.problems}:
            self.problems.append(error)

    def _of_profile(self, profile: int, block: RawBlock) -> SparseBlock:
        contexts = self._contexts[block.ids]
        triples = SparseBlock(
            np.full(len(block.value), profile, np.int32),
            block.major(contexts),
            (self._summary_metrics if self._is_summary[profile] else self._metrics)[block.minor],
            block.value.astype(np.float64),
        )
        return self._keep_known(triples, f"profile {profile}", self.by_profile)

    def _of_context(self, context: int, block: RawBlock) -> SparseBlock:
        profile = block.minor.astype(np.int64)
        inside = profile < len(self._is_summary)
        triples = SparseBlock(
            np.where(inside, profile, -1).astype(np.int32),
            np.full(len(profile), context, np.int32),
            block.major(self._metrics[block.ids]),
            block.value.astype(np.float64),
        )
        triples = self._keep_known(triples, f"context {int(self._context_ids[context])}", self.by_context)
        return triples.take(~self._is_summary[triples.profile]) if self._is_summary.any() else triples

    def _keep_known(self, block: SparseBlock, section: str, blocks: SparseBlocks | None) -> SparseBlock:
        """Return the values whose profile, context and metric some table names; the others are a problem, not a
        value."""
        for what, ids in (("profile", block.profile), ("context", block.context), ("metric", block.metric)):
            if len(ids) and int(ids.min()) < 0:
                kept = (block.profile >= 0) & (block.context >= 0) & (block.metric >= 0)
                found = f"{count_of(int((~kept).sum()), 'value')} with an unknown {what} id, left out"
                assert blocks is not None
                self._record_problem(
                    CorruptFile(blocks.file.path, section, expected=f"{what} ids that a table names", found=found)
                )
                return block.take(kept)
        return block
