"""Which call launched which operations, for arrows from one to the others.

Every operation whose call is known gets a number among those of its process, such that those of one call follow each
other: a call says the first number and how many there are. Memory holds 16 bytes for each operation and 8 for each
call of a process while they are read.

Of several calls with one correlation the innermost counts, as everywhere (model/launches.py): what these are is looked
up in a second pass, which hardly any trace needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from callgrove.model.arrays import ABSENT, Array, Ints
from callgrove.model.launches import launch_calls
from callgrove.model.traces import SpanChunk, SpanKind

__all__ = ["AGAIN", "FLOW", "IS_OPERATION", "LAUNCHED", "N_LAUNCHED", "Launches", "is_narrow", "narrow"]

IS_CALL = np.isin(np.arange(len(SpanKind)), (SpanKind.API, SpanKind.MARKER, SpanKind.REGION))  # by kind
IS_OPERATION = np.isin(np.arange(len(SpanKind)), (SpanKind.KERNEL, SpanKind.COPY, SpanKind.MEMSET))
AGAIN = ("profile", "kind", "correlation", "start_ns")  # columns of the second pass
FLOW, LAUNCHED, N_LAUNCHED = "flow", "launched", "n_launched"  # columns that are added to chunks
NONE, NOTHING = np.empty(0, np.int64), np.empty(0, np.int32)  # the second one has no effect on wider types
PIECE = 1 << 16


def is_narrow(numbers: Array) -> bool:
    """Do they fit into four bytes?"""
    return not len(numbers) or (int(numbers.max()) < 2**31 and int(numbers.min()) >= -(2**31))


def narrow(numbers: Array) -> Array:
    """In four bytes where they fit: there are many."""
    return numbers.astype(np.int32 if is_narrow(numbers) else np.int64)


class Launches:
    """The launches of the processes of one part; `process` numbers those of all profiles."""

    def __init__(self, process: Ints) -> None:
        self._process = process
        self._of: dict[int, _ProcessLaunches] = {}

    def seen(self, chunk: SpanChunk) -> Ints:
        """Look at spans in file order; gives the number of each operation in its process, -1 for other spans."""
        out = np.full(len(chunk["span"]), ABSENT, np.int64)
        for process, rows in self._by_process(chunk):
            own = self._of.setdefault(process, _ProcessLaunches())
            kind, correlation = chunk["kind"][rows], chunk["correlation"][rows]
            operations = np.flatnonzero(IS_OPERATION[kind])
            out[rows[operations]] = own.count(len(operations))
            own.operations.append(narrow(correlation[operations]))
            if len(operations) < len(kind):
                own.calls.append(narrow(correlation[IS_CALL[kind] & (correlation != ABSENT)]))
        return out

    def finish(self, again: Callable[[], Iterator[SpanChunk]]) -> None:
        """After all were seen; `again` reads the columns `AGAIN` of the same spans once more."""
        for own in self._of.values():
            own.finish()
        if not any(len(own.ambiguous) for own in self._of.values()):
            return
        for chunk in again():
            for process, rows in self._by_process(chunk):
                self._of[process].see_again({name: column[rows] for name, column in chunk.items()})
        for own in self._of.values():
            own.settle()

    def of(self, process: int, operation: Ints, chunk: SpanChunk) -> dict[str, Ints]:
        """For spans of one process: of operations their number (FLOW), of calls the first number that they launched
        (LAUNCHED) and how many (N_LAUNCHED)."""
        own = self._of.get(process)
        if own is None or not len(own.key):
            absent = np.full(len(operation), ABSENT, np.int64)
            return {FLOW: absent, LAUNCHED: absent, N_LAUNCHED: np.zeros(len(operation), np.int64)}
        flow = np.where(operation >= 0, own.rank[np.maximum(operation, 0)], ABSENT).astype(np.int64)
        first, n = np.full(len(flow), ABSENT, np.int64), np.zeros(len(flow), np.int64)
        calls = np.flatnonzero(IS_CALL[chunk["kind"]] & (chunk["correlation"] != ABSENT))
        first[calls], n[calls] = own.launched(chunk["correlation"][calls], chunk["span"][calls])
        return {FLOW: flow, LAUNCHED: first, N_LAUNCHED: n}

    def _by_process(self, chunk: SpanChunk) -> Iterator[tuple[int, Ints]]:
        process = self._process[chunk["profile"]]
        if len(process) and bool((process == process[0]).all()):
            yield int(process[0]), np.arange(len(process))
            return
        for number in np.unique(process).tolist():
            yield number, np.flatnonzero(process == number)


class _ProcessLaunches:
    """Those of one process. `key`: correlations of operations, sorted; `rank`: where each operation is in it, -1 for
    those without a call."""

    def __init__(self) -> None:
        self.operations: list[Array] = []
        self.calls: list[Array] = []
        self.key: Array = NONE
        self.rank: Array = NONE
        self.ambiguous: Array = NONE
        self._n = 0
        self._again: list[SpanChunk] = []
        self._calls = self._first = self._many = NONE  # of ambiguous correlations: spans of calls and their launches

    def count(self, n: int) -> Ints:
        self._n += n
        return np.arange(self._n - n, self._n)

    def finish(self) -> None:
        self.key, self.operations = np.concatenate([NOTHING, *self.operations]), []
        in_order = bool((self.key[1:] >= self.key[:-1]).all())  # as they are where calls come by start
        order = None if in_order else np.argsort(self.key, kind="stable")
        self.key = self.key if order is None else self.key[order]
        n = len(self.key)
        self.rank = np.arange(n, dtype=np.int32 if n < 2**31 else np.int64)
        if order is not None:
            self.rank[order] = np.arange(n)
        calls, self.calls = np.concatenate([NOTHING, *self.calls]).astype(self.key.dtype, copy=False), []
        calls.sort()
        ambiguous = []
        for first in range(0, n, PIECE):
            key = self.key[first : first + PIECE]
            n_calls = np.searchsorted(calls, key, side="right") - np.searchsorted(calls, key, side="left")
            n_calls[key == ABSENT] = 0
            alone = first + np.flatnonzero(n_calls == 0)
            self.rank[alone if order is None else order[alone]] = ABSENT
            ambiguous.append(np.unique(key[n_calls > 1]))
        self.ambiguous = np.unique(np.concatenate([NOTHING, *ambiguous]))

    def launched(self, correlation: Ints, span: Ints) -> tuple[Ints, Ints]:
        known = np.iinfo(self.key.dtype)
        inside = (correlation >= 0) & (correlation <= known.max)
        asked = np.where(inside, correlation, 0).astype(self.key.dtype)  # or else all keys would be made wider
        first, last = (np.searchsorted(self.key, asked, side=side) for side in ("left", "right"))
        n = np.where(inside, last - first, 0)
        if len(self.ambiguous):
            rows = np.flatnonzero(np.isin(correlation, self.ambiguous))
            place = np.minimum(np.searchsorted(self._calls, span[rows]), max(len(self._calls) - 1, 0))
            found = self._calls[place] == span[rows] if len(self._calls) else np.zeros(len(rows), np.bool_)
            first[rows] = np.where(found, self._first[place] if len(self._calls) else 0, ABSENT)
            n[rows] = np.where(found, self._many[place] if len(self._calls) else 0, 0)
        return np.where(n > 0, first, ABSENT), n

    # -- several calls with one correlation ----------------------------------------------------------------------------

    def see_again(self, chunk: SpanChunk) -> None:
        operation = IS_OPERATION[chunk["kind"]]
        number = np.full(len(operation), ABSENT, np.int64)
        number[operation] = np.arange(self._n - len(self.rank), self._n - len(self.rank) + int(operation.sum()))
        self._n += int(operation.sum())  # counts the operations once more, from `len(self.rank)` on
        rows = np.flatnonzero(np.isin(chunk["correlation"], self.ambiguous))
        self._again.append({"number": number[rows], **{name: column[rows] for name, column in chunk.items()}})

    def settle(self) -> None:
        """Operations of one correlation in the order of their calls."""
        if not self._again:
            return
        rows = {name: np.concatenate([part[name] for part in self._again]) for name in self._again[0]}
        self._again = []
        ops, calls = np.flatnonzero(rows["number"] >= 0), np.flatnonzero(IS_CALL[rows["kind"]])
        correlation, start = rows["correlation"], rows["start_ns"]
        nowhere = np.zeros(len(start), np.int64)
        call = launch_calls(
            *(correlation[ops], nowhere[ops], correlation[calls], nowhere[calls], start[calls], start[ops])
        )
        order = np.lexsort((rows["number"][ops], call, correlation[ops]))
        keys = correlation[ops][order]
        new_group = np.append(True, keys[1:] != keys[:-1])[: len(keys)]
        begin = np.flatnonzero(new_group)
        inside = np.arange(len(keys)) - np.repeat(begin, np.diff(np.append(begin, len(keys))))
        place = np.searchsorted(self.key, keys) + inside
        self.rank[rows["number"][ops][order]] = place
        used, first, many = np.unique(call[order], return_index=True, return_counts=True)
        spans = rows["span"][calls[used]]
        by_span = np.argsort(spans)
        self._calls, self._first, self._many = spans[by_span], place[first][by_span], many[by_span]
