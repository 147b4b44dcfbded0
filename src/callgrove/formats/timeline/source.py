"""The spans of one part of a trace, by process and time, with what belongs to them and what launched them.

    file order --> side tables beside it --> launches look at it --> SpanOrder --> chunks of one process each

Side tables (grids, sizes, addresses) would not fit into memory beside a large trace, so what is wanted of them goes
along with the spans, in columns that all kinds of spans share: SIDES says which column holds what for which kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from callgrove.arrays import ABSENT, Array, Ints, Names
from callgrove.formats.timeline.content import OPEN
from callgrove.formats.writing.writer import is_told
from callgrove.model.books import ALLOCATED, COPIED, Ledger
from callgrove.model.traces.events import LABEL, PARENT, SideChunks, SpanChunk, SpanKind, Traces
from callgrove.model.traces.pairing import RegionNames, launch_calls
from callgrove.model.traces.span_order import SpanOrder

__all__ = [
    "AGAIN",
    "FLOW",
    "IS_OPERATION",
    "LAUNCHED",
    "N_LAUNCHED",
    "PLURALS",
    "Annotations",
    "Launches",
    "OrderedSpans",
    "is_narrow",
    "narrow",
    "side_columns",
    "side_of",
    "sizes_of",
]


# -- launches: arrows from calls to operations -------------------------------------------------------------------------
# Every operation whose call is known gets a number among those of its process, such that those of one call follow each
# other: a call says the first number and how many there are. Memory holds 16 bytes for each operation and 8 for each
# call of a process while they are read.
#
# Of several calls with one correlation the innermost counts, as everywhere (model/traces/pairing.py): what these are is
# looked up in a second pass, which hardly any trace needs.


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
    """Return numbers in four bytes where they fit: there are many."""
    return numbers.astype(np.int32 if is_narrow(numbers) else np.int64)


class Launches:
    """The launches of the processes of one part; `process` numbers those of all profiles."""

    def __init__(self, process: Ints) -> None:
        self._process = process
        self._of: dict[int, _ProcessLaunches] = {}
        self._before: Counter[int] = Counter()  # numbers that were given before, by process

    def begin_anew(self) -> Launches:
        """Return launches for what follows, whose numbers follow those that were given."""
        following = Launches(self._process)
        following._before = self._before + Counter({process: len(own.rank) for process, own in self._of.items()})
        return following

    def number_operations(self, chunk: SpanChunk) -> Ints:
        """Return the number of each operation in its process, -1 for other spans. Chunks come in file order."""
        out = np.full(len(chunk["span"]), ABSENT, np.int64)
        for process, rows in self._by_process(chunk):
            launches = self._of.setdefault(process, _ProcessLaunches())
            kind, correlation = chunk["kind"][rows], chunk["correlation"][rows]
            operations = np.flatnonzero(IS_OPERATION[kind])
            out[rows[operations]] = launches.count(len(operations))
            launches.operations.append(narrow(correlation[operations]))
            if len(operations) < len(kind):
                launches.calls.append(narrow(correlation[IS_CALL[kind] & (correlation != ABSENT)]))
        return out

    def finish(self, again: Callable[[], Iterator[SpanChunk]]) -> None:
        """Finish after all were seen; `again` reads the columns `AGAIN` of the same spans once more."""
        for launches in self._of.values():
            launches.finish()
        if not any(len(launches.ambiguous) for launches in self._of.values()):
            return
        for chunk in again():
            for process, rows in self._by_process(chunk):
                self._of[process].see_again({name: column[rows] for name, column in chunk.items()})
        for launches in self._of.values():
            launches.settle()

    def of(self, process: int, operation: Ints, chunk: SpanChunk) -> dict[str, Ints]:
        """Return for spans of one process: of operations their number (FLOW), of calls the first number that they
        launched (LAUNCHED) and how many (N_LAUNCHED)."""
        launches = self._of.get(process)
        if launches is None or not len(launches.key):
            absent = np.full(len(operation), ABSENT, np.int64)
            return {FLOW: absent, LAUNCHED: absent, N_LAUNCHED: np.zeros(len(operation), np.int64)}
        flow = np.where(operation >= 0, launches.rank[np.maximum(operation, 0)], ABSENT).astype(np.int64)
        first, n = np.full(len(flow), ABSENT, np.int64), np.zeros(len(flow), np.int64)
        calls = np.flatnonzero(IS_CALL[chunk["kind"]] & (chunk["correlation"] != ABSENT))
        first[calls], n[calls] = launches.find_launches(chunk["correlation"][calls], chunk["span"][calls])
        if before := self._before[process]:
            flow[flow >= 0] += before
            first[first >= 0] += before
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

    def find_launches(self, correlation: Ints, span: Ints) -> tuple[Ints, Ints]:
        known = np.iinfo(self.key.dtype)
        inside = (correlation >= 0) & (correlation <= known.max)
        asked = np.where(inside, correlation, 0).astype(self.key.dtype)  # or else all keys would be made wider
        first, last = (np.searchsorted(self.key, asked, side=side) for side in ("left", "right"))
        n = np.where(inside, last - first, 0)
        if len(self.ambiguous):
            rows = np.flatnonzero(np.isin(correlation, self.ambiguous))
            place = np.minimum(np.searchsorted(self._calls, span[rows]), max(len(self._calls) - 1, 0))
            is_call = self._calls[place] == span[rows] if len(self._calls) else np.zeros(len(rows), np.bool_)
            first[rows] = np.where(is_call, self._first[place] if len(self._calls) else 0, ABSENT)
            n[rows] = np.where(is_call, self._many[place] if len(self._calls) else 0, 0)
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
        """Put operations of one correlation in the order of their calls."""
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


# -- spans in order ----------------------------------------------------------------------------------------------------


COLUMNS = ("profile", "kind", "category", LABEL, "start_ns", "end_ns", "correlation")
MISSING = int(np.iinfo(np.int64).min)  # an end that is absent
KERNEL = (*(f"grid_{axis}" for axis in "xyz"), *(f"workgroup_{axis}" for axis in "xyz"), "queue")
COPY = ("bytes", "source", "destination", "queue")
ALLOCATION = ("bytes", "device", "address", "level")
GRAPH = ("graph_exec", "graph_node")
MORE = {  # where slices say everything
    "kernel": (
        *("dispatch", "kernel", "lds", "scratch", "vgpr", "accum_vgpr", "sgpr", "thread", "code_object"),
        *("static_lds", "static_scratch", *GRAPH),
    ),
    "copy": ("thread", "source_address", "destination_address", *GRAPH),
    "alloc": ("queue", "stream", "flags"),
}
SHOWN = {  # columns of side tables that slices can say; `agent` is that of their track
    "kernel": {*KERNEL, *MORE["kernel"], "agent"},
    "copy": {*COPY, *MORE["copy"]},
    "alloc": {*ALLOCATION, *MORE["alloc"]},
}
PLURALS = {"kernel": "kernels", "copy": "copies", "alloc": "allocations"}
TABLE_OF = {SpanKind.KERNEL: "kernel", SpanKind.COPY: "copy", SpanKind.MEMSET: "copy", SpanKind.ALLOC: "alloc"}
OPERATION = "operation"


class Annotations(StrEnum):
    """How much slices say about themselves."""

    NONE = "none"
    DEFAULT = "default"
    ALL = "all"


def side_columns(annotations: Annotations, by_queue: bool) -> Mapping[str, tuple[str, ...]]:
    """Return by side table what is wanted of it. Allocations are wanted in any case, for the memory in use."""
    if annotations is Annotations.NONE:
        queue = ("queue",) if by_queue else ()
        return {"kernel": queue, "copy": queue, "alloc": ALLOCATION}
    usual = {"kernel": KERNEL, "copy": COPY, "alloc": ALLOCATION}
    if annotations is Annotations.DEFAULT:
        return usual
    return {table: (*columns, *MORE[table]) for table, columns in usual.items()}


def side_of(kind: SpanKind, column: str, wanted: Mapping[str, tuple[str, ...]]) -> str | None:
    """Return the column of ordered chunks that holds a column of the side table of spans of a kind."""
    columns = wanted.get(TABLE_OF.get(kind, ""), ())
    return f"side{columns.index(column)}" if column in columns else None


def sizes_of(rows: SpanChunk, wanted: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[Ints, Ints]]:
    """Return the rows that are copies and allocations whose bytes are known, and these."""
    kind, out = rows["kind"], {}
    for what, kinds in ((COPIED, (SpanKind.COPY, SpanKind.MEMSET)), (ALLOCATED, (SpanKind.ALLOC,))):
        column = side_of(kinds[0], "bytes", wanted)
        if column is not None and (is_kind := np.isin(kind, kinds)).any():
            sized = np.flatnonzero(is_kind & (rows[column] >= 0))
            out[what] = sized, rows[column][sized].astype(np.int64, copy=False)
    return out


@dataclass
class OrderedSpans:
    """The spans of part number `part` of the traces, on these profiles; `process[p]` is the process of profile p.
    What is read goes into `given`: also bytes, where slices say them."""

    traces: Traces
    part: int
    profiles: Ints | None
    process: Ints
    wanted: Mapping[str, tuple[str, ...]]
    annotations: Annotations = Annotations.DEFAULT
    kernel_rename: bool = False
    given: Ledger = field(default_factory=Ledger)

    def __post_init__(self) -> None:
        self.levels = Names()  # of memory: column `level` numbers these
        self.unshown: Counter[str] = Counter()  # cells of side tables that no slice can say
        self.region_names = RegionNames(self.traces) if self.kernel_rename else None
        self._latest: dict[int, int] = {}
        n = max((len(columns) for columns in self.wanted.values()), default=0)
        self._sides = [f"side{k}" for k in range(n)]
        self._columns = (*COLUMNS, PARENT) if self.annotations is Annotations.ALL else COLUMNS
        self._launches, self._order = Launches(self.process), SpanOrder(self.process)
        seen = Ledger().add_side if self.annotations is Annotations.NONE else self.given.add_side
        self._tables = {
            table: SideChunks(self.traces, table, self.part, seen) for table, names in self.wanted.items() if names
        }

    @property
    def labels(self) -> Sequence[str]:
        """What the labels of spans refer to."""
        if self.region_names is not None:
            return self.region_names.strings
        return [] if self.traces.spans_backend is None else self.traces.spans_backend.strings

    def latest(self, process: int) -> int:
        """Return the last moment of a process, once its spans are given."""
        return self._latest.get(process, 0)

    def read(self) -> Iterator[SpanChunk]:
        """Yield all of them, for `add`: in file order."""
        return self.traces.spans(self._columns, profiles=self.profiles)

    def add(self, chunk: SpanChunk) -> None:
        """Add spans of the part, in file order."""
        self.given.add_spans(chunk)
        chunk = chunk if self.region_names is None else self.region_names.of(chunk)
        out = {name: chunk[name] for name in ("span", *self._columns)}
        open_ = out["end_ns"] == MISSING
        if open_.any():
            out["end_ns"] = np.where(open_ & (out["start_ns"] >= 0), OPEN, out["end_ns"])
        self._note_latest(out)
        out.update(self._sides_of(out))
        out[OPERATION] = narrow(self._launches.number_operations(out))
        out["correlation"], out["kind"] = narrow(out["correlation"]), out["kind"].astype(np.int8)
        self._order.add(out)

    def chunks(self) -> Iterator[SpanChunk]:
        """Yield what was added, once: chunks of one process each, with columns for launches and sides."""
        try:
            self._launches.finish(lambda: self.traces.spans(AGAIN, profiles=self.profiles))
            for chunk in self._order.chunks():
                process = int(self.process[chunk["profile"][0]])
                yield {**chunk, **self._launches.of(process, chunk[OPERATION], chunk)}
        finally:
            self.close()

    def begin_anew(self) -> None:
        """Begin anew after all that was added has been read by `chunks`."""
        self._launches, self._order = self._launches.begin_anew(), SpanOrder(self.process)

    def close(self) -> None:
        """Give back the temporary file."""
        self._order.close()

    def _note_latest(self, chunk: SpanChunk) -> None:
        ends = np.where(chunk["end_ns"] == OPEN, chunk["start_ns"], chunk["end_ns"])
        process = self.process[chunk["profile"]]
        for number in [int(process[0])] if bool((process == process[0]).all()) else np.unique(process).tolist():
            ends_of_process = ends[process == number]
            self._latest[number] = max(self._latest.get(number, 0), int(ends_of_process.max(initial=0)))

    def _sides_of(self, chunk: SpanChunk) -> dict[str, Array]:
        sides, n = self._tables, len(chunk["span"])
        out: dict[str, Array] = {name: np.full(n, ABSENT, np.int32) for name in self._sides}
        kinds = {SpanKind(kind) for kind in np.flatnonzero(np.bincount(chunk["kind"], minlength=1)).tolist()}
        for table in dict.fromkeys(TABLE_OF[kind] for kind in sorted(kinds) if kind in TABLE_OF):
            if table not in sides:
                continue
            owners = [kind for kind, name in TABLE_OF.items() if name == table]
            for piece, rows, place in sides[table].of(chunk["span"]):
                right = np.isin(chunk["kind"][place], owners)
                rows, place = rows[right], place[right]
                for name in piece.columns.keys() - SHOWN[table]:
                    self.unshown[f"{name} of {PLURALS[table]}"] += int(is_told(piece.columns[name])[rows].sum())
                for k, name in enumerate(self.wanted[table]):
                    cells = piece.columns.get(name)
                    if cells is not None:
                        values = np.asarray(cells)[rows]
                        values = self.levels.numbers(values) if name == "level" else values
                        column = out[f"side{k}"]
                        if not is_narrow(values):
                            column = out[f"side{k}"] = column.astype(np.int64)
                        column[place] = values
        return out
