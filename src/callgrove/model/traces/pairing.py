"""Spans that belong to each other: calls and the operations they launched, ranges and their kernels, allocations and
frees.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np

from callgrove.arrays import ABSENT, Array, Directory, Ids, Ints, Names, Translation, distinct_rows, pack_columns
from callgrove.model.traces.events import LABEL, SpanChunk, SpanKind, Traces

__all__ = ["MemoryInUse", "RegionNames", "find_launching_calls", "launch_calls", "strip_version"]

VERSIONED = re.compile(r"_v\d+$")


def strip_version(name: str) -> str:
    """Return the name of a call without the version of the interface: cudaMalloc for cudaMalloc_v3020."""
    return VERSIONED.sub("", name)


def launch_calls(
    correlation: Ints,
    process: Ints,
    call_correlation: Ints,
    call_process: Ints,
    call_start: Ints,
    start: Ints | None = None,
) -> Ints:
    """Return for each operation the number of the call with its correlation in its process; -1 where there is none.

    Of several calls it is the innermost: the one that started last, where `start` is given among those that started
    before the operation did. Where all started later, clocks disagree, and the first one stands.
    """
    if not len(call_correlation):
        return np.full(len(correlation), ABSENT, np.int64)
    call_key, asked = call_correlation, correlation
    if not (_is(call_process, int(call_process[0])) and _is(process, int(call_process[0]))):
        both = np.append(call_process, process), np.append(call_correlation, correlation)
        keys = pack_columns(*both)
        call_key, asked = np.split(distinct_rows(*both)[1] if keys is None else keys, [len(call_process)])
    number = Directory(call_key, np.arange(len(call_key)))
    if not number.is_unique:
        number_of = _innermost(call_key, asked, call_start, start)
    else:
        number_of = number[asked]
    return np.where(correlation != ABSENT, number_of, ABSENT)


def find_launching_calls(spans: SpanChunk, process: Array, operations: Ints | slice, calls: Ints | slice) -> Array:
    """Return for every span the row of the call that launched it: for those in `operations`, one of `calls`; -1 for all
    others, and where no call is known. `process` has the process of each profile."""
    correlation, start, profile = spans["correlation"], spans["start_ns"], spans["profile"]
    is_single = len(process) > 0 and _is(process, int(process[0]))
    processes = [
        np.broadcast_to(np.int64(process[0]), len(some)) if is_single else process[some].astype(np.int64)
        for some in (profile[operations], profile[calls])
    ]
    call = launch_calls(
        correlation[operations], processes[0], correlation[calls], processes[1], start[calls], start[operations]
    )
    out = np.full(len(start), ABSENT, np.int32 if len(start) < 2**31 else np.int64)
    if isinstance(calls, slice):
        out[operations] = call if calls.start == 0 else np.where(call >= 0, call + calls.start, ABSENT)
    else:
        out[operations] = np.append(calls, ABSENT)[call]
    return out


def _is(column: Ints, value: int) -> bool:
    """Return whether every cell is this one."""
    return bool((column == value).all())


def _innermost(call_key: Ints, asked: Ints, call_start: Ints, start: Ints | None) -> Ints:
    """Return, of calls with equal keys the one that started last, before the operation where its start is given."""
    order = np.lexsort((call_start, call_key))
    call_key, call_start = call_key[order], call_start[order]
    first, last = (np.searchsorted(call_key, asked, side=side) for side in ("left", "right"))
    place = last - 1
    if start is not None:
        _, rank = np.unique(np.append(call_start, start), return_inverse=True)
        _, key = np.unique(np.append(call_key, asked), return_inverse=True)
        width = int(rank.max(initial=0)) + 1
        begun, when = np.split(key.reshape(-1) * width + rank.reshape(-1), [len(call_key)])
        place = np.maximum(np.searchsorted(begun, when, side="right") - 1, first)
    return np.where(first < last, np.append(order, ABSENT)[np.minimum(place, len(order))], ABSENT)


# -- kernels named after the range that launched them ------------------------------------------------------------------
# Only some profilers say so; rocprofv3 does.


REGION_NAME = "region_name"  # of the side table `extra`


class RegionNames:
    """Renames kernels chunk after chunk; `strings` are the names afterwards. Memory holds those of one part."""

    def __init__(self, traces: Traces) -> None:
        self._traces = traces
        self._names = Names()
        self._translation = Translation(self._names)
        self._part_of = {int(p): number for number, part in enumerate(traces.parts()) for p in part.tolist()}
        self._part = ABSENT
        self._span: Ints = np.empty(0, np.int64)
        self._name: Ids = np.empty(0, np.int32)
        self.n_renamed = 0

    @property
    def strings(self) -> Sequence[str]:
        """What the columns `name` and `label` refer to afterwards; the list grows."""
        return self._names.all

    def of(self, chunk: SpanChunk) -> SpanChunk:
        """Return a chunk of one part, with the columns `profile` and `kind`: its names and labels are those of
        `strings`."""
        backend = self._traces.spans_backend
        if backend is None or not len(chunk["span"]):
            return chunk
        self._read(self._part_of[int(chunk["profile"][0])])
        place = np.searchsorted(self._span, chunk["span"])
        said = np.append(self._span, ABSENT)[place] == chunk["span"]
        renamed = np.flatnonzero(said & (chunk["kind"] == SpanKind.KERNEL))
        self.n_renamed += len(renamed)
        out = dict(chunk)
        for column in {"name", LABEL} & out.keys():
            names = self._translation.numbers(chunk[column], backend.strings)
            names[renamed] = self._name[place[renamed]]
            out[column] = names
        return out

    def _read(self, part: int) -> None:
        """Read the names of ranges of a part, by span."""
        if part == self._part:
            return
        self._part = part
        table = self._traces.side("extra", part)
        if table is None:
            self._span, self._name = np.empty(0, np.int64), np.empty(0, np.int32)
            return
        rows = np.flatnonzero(np.asarray(table.columns["name"], np.object_) == REGION_NAME)
        self._span, first = np.unique(table.span[rows], return_index=True)
        texts = np.asarray(table.columns["value"], np.object_)[rows[first]]
        self._name = self._names.numbers([str(text) for text in texts.tolist()])


# -- memory in use over time -------------------------------------------------------------------------------------------
# A FREE often says neither its device nor its size: both are those of the allocation at its address. Allocations count
# from their end on, frees too. Spans come by start, so what ends later than the next chunk begins waits for it.


ALLOC, FREE, REALLOC = 0, 1, 2
NAMES = ("time", "what", "bytes", "device", "address", "level")
NONE = np.empty(0, np.int64)
Rows = dict[str, Ints]


class MemoryInUse:
    """The memory of one process. What is kept: what is allocated, and what has not ended yet. `n_unknown` counts frees
    of what was never allocated, as far as is known: these change nothing."""

    def __init__(self) -> None:
        self.n_unknown = 0
        self._waiting: Rows = dict.fromkeys(NAMES, NONE)
        self._live: Rows = dict.fromkeys(NAMES, NONE)
        self._in_use: dict[tuple[int, int], int] = {}  # device, level -> bytes

    def add(
        self, time: Ints, index: Ints, words: Sequence[str], size: Ints, device: Ints, address: Ints, level: Ints
    ) -> None:
        """Add operations; number `index` of the words says which each one is."""
        what = np.array([_operation(word) for word in words] or [ALLOC], np.int64)[index]
        new = dict(zip(NAMES, (time, what, size, device, address, level), strict=True))
        self._waiting = {name: np.append(self._waiting[name], new[name]) for name in NAMES}

    def until(self, now: int) -> Iterator[tuple[int, int, Ints, Ints]]:
        """Yield (device, level, times, bytes in use) of all that ended until then."""
        ready = self._waiting["time"] <= now
        if not ready.any():
            return
        rows = {name: column[ready] for name, column in self._waiting.items()}
        self._waiting = {name: column[~ready] for name, column in self._waiting.items()}
        rows = _take(rows, np.argsort(rows["time"], kind="stable"))
        changes = self._changes(_with_frees(rows))
        pairs, number = distinct_rows(changes["device"], changes["level"])
        for k, (device, level) in enumerate(pairs.T.tolist()):
            rows_here = np.flatnonzero(number == k)
            curve = np.cumsum(changes["bytes"][rows_here]) + self._in_use.get((device, level), 0)
            self._in_use[device, level] = int(curve[-1])
            yield device, level, changes["time"][rows_here], curve

    def _changes(self, rows: Rows) -> Rows:
        """Return what each operation adds, where, and when; frees take their place and size from their allocation."""
        n_live = len(self._live["time"])
        rows = {name: np.append(self._live[name], rows[name]) for name in NAMES}
        order = np.argsort(rows["address"], kind="stable")
        by_address = _take(rows, order)
        is_free = by_address["what"] == FREE
        same = np.append(False, by_address["address"][1:] == by_address["address"][:-1])[: len(order)]
        before = np.append(0, np.arange(len(order) - 1))[: len(order)]
        matched = is_free & same & ~is_free[before] & (by_address["address"] != ABSENT)
        for name in ("bytes", "device", "level"):
            by_address[name] = np.where(matched, by_address[name][before], by_address[name])
        last = np.append(~same[1:], True)[: len(order)]  # what is allocated twice without a free was lost once
        left = np.flatnonzero(~is_free & last & (by_address["address"] != ABSENT))
        self.n_unknown += int(np.count_nonzero(is_free & ~matched))
        size = np.maximum(by_address["bytes"], 0)
        by_address["bytes"] = np.where(matched, -size, np.where(is_free, 0, size))
        kept = np.flatnonzero((~is_free | matched) & (order >= n_live))
        kept = kept[np.argsort(order[kept], kind="stable")]
        self._live = {**_take(by_address, left), "what": np.full(len(left), ALLOC, np.int64)}
        return _take(by_address, kept)


def _operation(word: str) -> int:
    upper = word.upper()
    if "REALLOC" in upper:
        return REALLOC
    return FREE if "FREE" in upper or "RECLAIM" in upper else ALLOC


def _with_frees(rows: Rows) -> Rows:
    """Return the rows with a free before each allocation of memory that is allocated anew."""
    again = rows["what"] == REALLOC
    if not again.any():
        return rows
    order = np.repeat(np.arange(len(again)), 1 + again)
    out = _take(rows, order)
    first = np.append(order[1:] == order[:-1], False)
    out["what"] = np.where(first, FREE, np.where(out["what"] == REALLOC, ALLOC, out["what"]))
    return out


def _take(rows: Rows, order: Array) -> Rows:
    return {name: column[order] for name, column in rows.items()}
