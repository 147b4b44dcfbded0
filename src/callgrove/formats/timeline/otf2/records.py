"""Enter and leave records of a location's file, decoded column by column.

    chunk      03, order of bytes (42 little, 23 big), first and last event u64, records; 00, 01 or 02 ends them
    05         a time u64, of all records until the next one
    06         attributes of the record after it: length, fields
    others     type, length u8 (255: a u64 follows), fields
    SINGLES    type, one compressed number without a length: a byte n, then n bytes; 255 is "undefined"

A record says only where the next one begins. To go through them without a loop, a walk is begun at every byte that
could be a time, for all of them at once, and ends at the next time. Walks that begin at a genuine time lead from each
to the next; no genuine one leads to the others, which began in the middle of something.

The library has read the same file by then and found nothing wrong, and tells how many events there are. What looks
unusual here is left to it: `Unusual`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from callgrove.arrays import Array, Bools, Ints
from callgrove.binary.files import FileBytes
from callgrove.errors import InputError

__all__ = ["LocalFacts", "Nesting", "Unusual", "read_nesting"]

HEADER = 18  # bytes of a chunk before its first record
ORDERS = {b"\x03\x42": "<", b"\x03\x23": ">"}
ENDS, TIME, ATTRIBUTES, ENTER, LEAVE = 2, 5, 6, 12, 13
EVENTS = range(10, 128)  # types of events; there are less than a hundred
SINGLES = (ENTER, LEAVE, 16, 17, 20, 21, 24, 28, 29, 30)
UNDEFINED = 0xFFFFFFFF
PADDING = 1 << 10  # zeros behind a chunk, so that a walk may look ahead: longer than any step
MOST_ROUNDS = 1 << 12  # records at one time
LONG = 255  # a length that does not fit into a byte


class Unusual(Exception):
    """Raised where a file holds what this module does not decode."""


@dataclass(frozen=True)
class LocalFacts:
    """What a location defines for itself: the archive's numbers of regions by its own, and offsets of its clock."""

    regions: Mapping[int, int] = field(default_factory=dict)
    clock: Sequence[tuple[int, int]] = ()  # time, offset


@dataclass(frozen=True)
class Nesting:
    """Enter and leave events: times in ticks, regions twice and 1 more where they are left, and how many events of any
    type came before each."""

    time: Array
    reference: Array
    number: Ints


def read_nesting(path: Path, chunk_size: int, n_events: int, facts: LocalFacts) -> Nesting:
    """Return the enter and leave events of a location, from its file; raise `Unusual` to leave it to the library."""
    try:
        file = FileBytes(path)
    except InputError as error:
        raise Unusual from error
    chunks, n_before = [_Chunk.empty()], 0
    for order, data in _chunks(file, chunk_size):
        chunks.append(_read_chunk(data, order, n_before))
        n_before += chunks[-1].n_events
    if n_before != n_events:
        raise Unusual
    if len(facts.clock) > 1:
        _check_order(np.concatenate([chunk.every_time for chunk in chunks]))
    time = np.concatenate([chunk.time for chunk in chunks])
    reference = np.concatenate([chunk.reference for chunk in chunks])
    number = np.concatenate([chunk.number for chunk in chunks])
    return Nesting(_correct(time, facts.clock), _map_regions(reference, facts.regions), number)


@dataclass(frozen=True)
class _Chunk(Nesting):
    every_time: Array  # of events of any type, each once
    n_events: int

    @classmethod
    def empty(cls) -> _Chunk:
        nothing = np.empty(0, np.uint64)
        return cls(nothing, nothing, np.empty(0, np.int64), nothing, 0)


def _check_order(time: Array) -> None:
    if np.any(time[1:] < time[:-1]):  # the library picks a clock offset by what came before
        raise Unusual


def _chunks(file: FileBytes, chunk_size: int) -> Iterator[tuple[str, Array]]:
    """Yield the order of bytes and the records of each chunk, with zeros behind them."""
    if chunk_size <= HEADER:
        raise Unusual
    for start in range(0, file.size, chunk_size):
        size = min(chunk_size, file.size - start)
        order = ORDERS.get(file.copy(start, min(2, size), "chunk"))
        if order is None or size < HEADER:
            raise Unusual
        padded = np.zeros(size - HEADER + PADDING, np.uint8)
        padded[: size - HEADER] = file.array(np.uint8, size - HEADER, start + HEADER, "chunk")
        yield order, padded


def _read_chunk(data: Array, order: str, n_before: int) -> _Chunk:
    """Return the enter and leave events of a chunk."""
    if data[0] <= ENDS:
        return _Chunk.empty()
    walks = _Walks(data)
    heads = walks.heads()
    n_records = walks.n_records[heads]
    first = np.cumsum(n_records) - n_records  # the first record of each head
    record = walks.records(heads, first, int(n_records.sum()))
    kind = data[record]
    nests = np.flatnonzero((kind == ENTER) | (kind == LEAVE))
    _refuse_attributes(kind, nests, first)
    at = record[nests]
    time = _numbers(data, walks.start[heads] + 1, order)
    reference = _compressed(data, at + 1, order) << np.uint64(1) | (kind[nests] == LEAVE)
    number = n_before + np.cumsum(kind != ATTRIBUTES) - 1
    n_events = int((kind != ATTRIBUTES).sum())
    return _Chunk(np.repeat(time, n_records)[nests], reference, number[nests], time, n_events)


def _refuse_attributes(kind: Array, nests: Ints, first: Ints) -> None:
    """Leave it to the library where enter and leave events have attributes, or where those stand before a time."""
    is_list = np.append(kind == ATTRIBUTES, False)
    if is_list.any() and (is_list[nests - 1].any() or is_list[first[1:] - 1].any()):
        raise Unusual


class _Walks:
    """Walks over records, from every byte that could be a time to the next time."""

    def __init__(self, data: Array) -> None:
        self._data = data
        start = np.flatnonzero(data[:-PADDING] == TIME)
        self.start: Ints = start[IS_RECORD[data[start + 9]]]
        self._rounds: list[tuple[Ints, Ints]] = []  # of records that are so many steps behind a time: walk, place
        self.n_records = np.zeros(len(self.start), np.int64)
        self._end = self.start + 9  # the place after the last record of each walk
        self._is_sound = np.ones(len(self.start), np.bool_)
        walk, place = np.arange(len(self.start)), self._end.copy()
        while len(walk):
            walk, place = self._step(walk, place)

    def _step(self, walk: Ints, place: Ints) -> tuple[Ints, Ints]:
        """Pass a record of each walk; return the walks that go on, and where."""
        data = self._data
        self._rounds.append((walk, place))
        if len(self._rounds) > MOST_ROUNDS:
            raise Unusual
        kind, size = data[place], data[place + 1].astype(np.int64)
        is_single = IS_SINGLE[kind]
        is_sound = IS_RECORD[kind] & np.where(is_single, (size <= 8) | (size == LONG), size < LONG)
        size[is_single & (size == LONG)] = 0
        following = np.minimum(place + 2 + size, len(data) - PADDING)
        is_sound &= following < len(data) - PADDING  # something ends a chunk
        self.n_records[walk] += 1
        self._end[walk] = following
        self._is_sound[walk] &= is_sound
        goes_on = is_sound & (data[following] != TIME) & (data[following] > ENDS)
        return walk[goes_on], following[goes_on]

    def heads(self) -> Ints:
        """Return the walks that begin at genuine times, in their order: the first one, and those that others lead to
        which are such themselves."""
        n, data = len(self.start), self._data
        number = np.full(len(data), -1, np.int64)
        number[self.start] = np.arange(n)
        following = np.where(data[self._end] == TIME, number[self._end], n)  # n: the end of the chunk, or of a way
        walks = np.arange(n)
        while True:
            is_led_to = np.zeros(n + 1, np.bool_)
            is_led_to[following[walks]] = True
            is_led_to[number[:1]] = data[0] == TIME
            kept = walks[is_led_to[walks]]
            if len(kept) == len(walks):
                break
            walks = kept
        is_end = data[self._end[walks]] <= ENDS
        if not (len(walks) and self._is_sound[walks].all() and np.array_equal(following[walks[:-1]], walks[1:])):
            raise Unusual
        if walks[0] != number[0] or not is_end[-1]:
            raise Unusual
        return walks

    def records(self, heads: Ints, first: Ints, n: int) -> Ints:
        """Return the places of the records of some walks in their order; `first` numbers the first of each."""
        out = np.empty(n, np.int64)
        slot = np.full(len(self.start), -1, np.int64)
        slot[heads] = first
        for step, (walk, place) in enumerate(self._rounds):
            is_on_way = slot[walk] >= 0
            out[slot[walk][is_on_way] + step] = place[is_on_way]
        return out


IS_SINGLE: Bools = np.isin(np.arange(256), SINGLES)
IS_RECORD: Bools = np.isin(np.arange(256), (ATTRIBUTES, *EVENTS))


def _numbers(data: Array, place: Ints, order: str) -> Array:
    """Return the 64-bit numbers at some places."""
    window = np.lib.stride_tricks.sliding_window_view(data, 8)[place]
    return window.reshape(-1).view(f"{order}u8").astype(np.uint64)


def _compressed(data: Array, place: Ints, order: str) -> Array:
    """Return the compressed 32-bit numbers at some places."""
    size = data[place].astype(np.int64)
    out = np.zeros(len(place), np.uint64)
    for size_here in np.flatnonzero(np.bincount(size, minlength=256)).tolist():
        rows = slice(None) if len(place) == 0 else np.flatnonzero(size == size_here)
        if size_here == LONG:
            out[rows] = UNDEFINED
        elif size_here > 4:
            raise Unusual
        for byte in range(size_here if size_here <= 4 else 0):
            shift = byte if order == "<" else size_here - 1 - byte
            out[rows] |= data[place[rows] + 1 + byte].astype(np.uint64) << np.uint64(8 * shift)
    return out


def _map_regions(reference: Array, regions: Mapping[int, int]) -> Array:
    """Return references with the numbers that regions have in the archive; those without one keep theirs."""
    if not regions or not len(reference):
        return reference
    different, row = np.unique(reference >> np.uint64(1), return_inverse=True)
    there = np.array([regions.get(one, one) for one in different.tolist()], np.uint64)
    out: Array = there[row.reshape(-1)] << np.uint64(1) | (reference & np.uint64(1))
    return out


def _correct(time: Array, clock: Sequence[tuple[int, int]]) -> Array:
    """Return times with the offsets of their clock, which are interpolated between those that were measured. As the
    library has it: an offset that was measured once is none, and the last interval goes on for ever."""
    if len(clock) < 2 or not len(time):
        return time
    at, offset = np.array([row[0] for row in clock], np.uint64), np.array([row[1] for row in clock], np.int64)
    if np.any(at[1:] <= at[:-1]):
        raise Unusual
    slope = np.diff(offset).astype(np.float64) / np.diff(at).astype(np.float64)
    row = np.minimum(np.searchsorted(at[1:], time, side="left"), len(slope) - 1)
    since = (time - at[row]).view(np.int64).astype(np.float64)
    shift = offset[row] + np.rint(slope[row] * since).astype(np.int64)
    out: Array = time + shift.view(np.uint64)
    return out
