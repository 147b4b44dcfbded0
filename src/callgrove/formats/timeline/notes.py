"""What slices say about themselves: correlation, grid, sizes, hardware counters, arguments.

Specification: trace-outputs.md 2.5. `default`: corr; of operations also stream, of kernels grid, block, queue and their
counters, of copies bytes, src and dst, of allocations bytes. `all`: everything that is known; what has no key here is
counted as lost by source.py. What never ended says so in any case. Several values of one counter, one for each instance
of the hardware, are added up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from callgrove.arrays import ABSENT, Array, Bools, Floats, Ids, Ints, Names, distinct_rows
from callgrove.formats.events.kinds import kind_of_category, kinds_of_categories
from callgrove.formats.timeline.content import INSTANCES, OF_LOST, OF_OTHERS, Losses, Note, Places, Value, clean
from callgrove.formats.timeline.source import IS_OPERATION, Annotations, side_of, sizes_of
from callgrove.model.books import COUNTED
from callgrove.model.traces.events import PARENT, SpanChunk, SpanKind, Traces

__all__ = ["BYTES", "NoteMaker"]

OF_KERNELS = {
    "queue": "queue",
    "dispatch_id": "dispatch",
    "kernel_id": "kernel",
    "lds": "lds",
    "scratch": "scratch",
    "vgpr": "vgpr",
    "agpr": "accum_vgpr",
    "sgpr": "sgpr",
    "tid": "thread",
    "code_object_id": "code_object",
    "static_lds": "static_lds",
    "static_scratch": "static_scratch",
    "graph_exec": "graph_exec",
    "graph_node": "graph_node",
}
OF_COPIES = {"queue": "queue", "tid": "thread", "graph_exec": "graph_exec", "graph_node": "graph_node"}  # of `all`
OF_ALLOCATIONS = {"queue": "queue", "stream": "stream", "flags": "flags"}
BYTES = "bytes"
ADDRESSES = {"src_address": "source_address", "dst_address": "destination_address"}


class NoteMaker:
    """Notes for the spans of one part."""

    def __init__(
        self,
        traces: Traces,
        part: int,
        places: Places,
        level: Annotations,
        wanted: Mapping[str, tuple[str, ...]],
        losses: Losses,
        levels: Names,
        *,
        says_counters: bool = True,
        kind_of: Callable[[str], int] = kind_of_category,
    ) -> None:
        self._traces, self._part, self._places, self._level, self._wanted = traces, part, places, level, wanted
        self._losses, self._levels, self._says_counters = losses, levels, says_counters
        self._devices = [device.label_by(places.agents) for device in traces.devices(part)]
        self._kind_of, self._of_word = kind_of, np.array([kind_of(kind.word) for kind in SpanKind], np.int32)

    def of(self, rows: SpanChunk) -> list[Note]:
        notes = (
            [Note("unfinished", unfinished, unfinished, Value.TRUE)]
            if len(unfinished := np.flatnonzero(rows["unfinished"]))
            else []
        )
        if self._level is Annotations.NONE:
            return notes
        made = [*self._everywhere(rows), *self._operations(rows), *self._kernels(rows), *self._counters(rows)]
        made += self._sizes(rows)
        if self._level is Annotations.ALL:
            made += [*self._more(rows), *self._arguments(rows)]
        return [self._clean(note) for note in [*made, *notes] if len(note.rows)]

    def _clean(self, note: Note) -> Note:
        key, texts = clean(note.key, self._losses), [clean(text, self._losses, empty="") for text in note.texts]
        return replace(note, key=key, texts=texts)

    def _everywhere(self, rows: SpanChunk) -> Iterator[Note]:
        yield _integers("corr", rows["correlation"])
        if (
            self._level is not Annotations.ALL and self._traces.spans_backend is not None
        ):  # of `all`, every span says it
            told = kinds_of_categories(rows["category"], self._traces.spans_backend.strings, self._kind_of)
            told = np.where(rows["category"] >= 0, told, self._of_word[rows["kind"]])  # the kind is written as one
            yield _texts("kind", told != rows["kind"], rows["kind"], lambda kind: SpanKind(kind).word)

    def _operations(self, rows: SpanChunk) -> Iterator[Note]:
        on_device = IS_OPERATION[rows["kind"]]
        if on_device.any():
            stream = np.where(on_device, self._places.stream[rows["profile"]], ABSENT)
            yield _integers("stream", stream)

    def _kernels(self, rows: SpanChunk) -> Iterator[Note]:
        is_kernel = rows["kind"] == SpanKind.KERNEL
        if not is_kernel.any():
            return
        for key, word in (("grid", "grid"), ("block", "workgroup")):
            columns = [side_of(SpanKind.KERNEL, f"{word}_{axis}", self._wanted) for axis in "xyz"]
            x, y, z = (rows[column or ""] for column in columns)
            yield _triples(key, is_kernel & (x >= 0), x, y, z)
        for key, name in OF_KERNELS.items():
            column = side_of(SpanKind.KERNEL, name, self._wanted)
            if column is not None:
                yield _integers(key, np.where(is_kernel, rows[column], ABSENT))

    def _sizes(self, rows: SpanChunk) -> Iterator[Note]:
        copies: Bools = (rows["kind"] == SpanKind.COPY) | (rows["kind"] == SpanKind.MEMSET)
        allocations = rows["kind"] == SpanKind.ALLOC
        size = np.full(len(copies), ABSENT, np.int64)
        for sized, sizes in sizes_of(rows, self._wanted).values():
            size[sized] = sizes
        yield _integers(BYTES, size)
        if copies.any():
            for key, name in (("src", "source"), ("dst", "destination")):
                column = side_of(SpanKind.COPY, name, self._wanted)
                yield self._device(key, copies, rows[column or ""])
        if self._level is Annotations.ALL:
            yield from self._more_of_memory(rows, copies, allocations)

    def _more_of_memory(self, rows: SpanChunk, copies: Bools, allocations: Bools) -> Iterator[Note]:
        for chosen, kind, words in (
            (copies, SpanKind.COPY, OF_COPIES),
            (allocations, SpanKind.ALLOC, OF_ALLOCATIONS),
        ):
            for key, name in words.items() if chosen.any() else ():
                yield _integers(key, np.where(chosen, rows[side_of(kind, name, self._wanted) or ""], ABSENT))
        if copies.any():
            for key, name in ADDRESSES.items():
                yield _addresses(key, copies, rows[side_of(SpanKind.COPY, name, self._wanted) or ""])
        if allocations.any():
            address, device, level = (
                rows[side_of(SpanKind.ALLOC, name, self._wanted) or ""] for name in ("address", "device", "level")
            )
            yield _texts("address", allocations, address, _hexadecimal)
            yield self._device("on", allocations, device)
            yield _texts("level", allocations & (level >= 0), level, lambda number: self._levels.all[number])

    def _device(self, key: str, chosen: Bools, number: Ints) -> Note:
        return _texts(
            key, chosen & (number >= 0), number, lambda n: self._devices[n] if n < len(self._devices) else f"device {n}"
        )

    def _more(self, rows: SpanChunk) -> Iterator[Note]:
        every = np.ones(len(rows["span"]), np.bool_)
        yield _texts("kind", every, rows["kind"], lambda kind: SpanKind(kind).word)
        if self._traces.spans_backend is not None:
            strings = self._traces.spans_backend.strings
            yield _texts("category", rows["category"] >= 0, rows["category"], lambda k: strings[k])
        yield _integers("parent_corr", rows[PARENT])
        process = self._places.process[rows["profile"]]
        tracks = self._places.processes[int(process[0])]
        about = tracks.process
        if about.rank >= 0:
            yield Note("rank", np.arange(len(every)), np.full(len(every), about.rank, np.int64))
        if about.host:
            yield _texts("host", every, process, lambda _: about.host)
        device = self._places.device[rows["profile"]]
        yield _texts("agent", device >= 0, device, tracks.agent)

    # -- counters and arguments: side tables with any number of rows for a span ----------------------------------------

    @cached_property
    def _counter_rows(self) -> tuple[Ints, Ids, Floats, Sequence[str]]:
        """Spans, names and values of hardware counters, by span."""
        table = self._traces.side("counter", self._part) if self._says_counters else None
        if table is None:
            return np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0), []
        self._losses.given.add_side("counter", table)
        table = table.take(np.flatnonzero(table.is_whole))
        names = Names()
        number = names.numbers([str(name) for name in table.columns["name"]])
        order = np.argsort(table.span, kind="stable")
        return table.span[order], number[order], np.asarray(table.columns["value"], np.float64)[order], names.all

    def _counters(self, rows: SpanChunk) -> Iterator[Note]:
        spans, names, values, texts = self._counter_rows
        if not len(spans):
            return
        is_kernel = rows["kind"] == SpanKind.KERNEL
        self._leave_out_counters(OF_OTHERS, rows, ~is_kernel)
        row, entry = _entries(spans, rows["span"], is_kernel)
        for name in np.unique(names[entry]).tolist():
            mine = names[entry] == name
            kernels, where = np.unique(row[mine], return_inverse=True)
            total = np.bincount(where.reshape(-1), values[entry[mine]], len(kernels))
            self._count_merged(values[entry[mine]], total)
            yield Note(texts[name], kernels, total, Value.FLOAT)

    def _count_merged(self, values: Array, totals: Array) -> None:
        """Count values that were added to others; what is added to no number is none either."""
        self._losses.add(INSTANCES, n := len(values) - len(totals))
        given = self._losses.given.amount(COUNTED)
        given.enter(-n, 0, 0)
        if n and not np.isfinite(totals).all():
            given.enter(0, float(totals[np.isfinite(totals)].sum() - values[np.isfinite(values)].sum()), 0)

    def _leave_out_counters(self, why: str, rows: SpanChunk, chosen: Bools) -> None:
        """Take counters of some spans out of what was given."""
        spans, _, values, _ = self._counter_rows
        _, entry = _entries(spans, rows["span"], chosen)
        if len(entry):
            self._losses.add(why, len(entry))
            self._losses.given.add_amount(COUNTED, values[entry], times=-1)

    def take_out_counters(self, rows: SpanChunk) -> None:
        """Take the counters of spans that are counted as lost out of what was given."""
        self._leave_out_counters(OF_LOST, rows, np.ones(len(rows["span"]), np.bool_))

    @cached_property
    def _argument_rows(self) -> tuple[Ints, Ids, Array, Sequence[str]]:
        """Arguments, and columns of the file that nobody knows: spans, names and texts, by span."""
        names = Names()
        spans, numbers, values = [np.empty(0, np.int64)], [np.empty(0, np.int32)], [np.empty(0, np.object_)]
        for side, prefix in (("argument", "arg"), ("extra", "extra")):
            if (table := self._traces.side(side, self._part)) is not None:
                spans.append(table.span)
                numbers.append(names.numbers([f"{prefix}.{name}" for name in table.columns["name"]]))
                values.append(np.asarray(table.columns["value"], np.object_))
        span = np.concatenate(spans)
        order = np.argsort(span, kind="stable")
        return span[order], np.concatenate(numbers)[order], np.concatenate(values)[order], names.all

    def _arguments(self, rows: SpanChunk) -> Iterator[Note]:
        spans, names, values, texts = self._argument_rows
        if not len(spans):
            return
        row, entry = _entries(spans, rows["span"], np.ones(len(rows["span"]), np.bool_))
        for name in np.unique(names[entry]).tolist():
            mine = names[entry] == name
            calls, first = np.unique(row[mine], return_index=True)
            shown = ["" if text is None else str(text) for text in values[entry[mine][first]].tolist()]
            different = list(dict.fromkeys(shown))
            number = {text: k for k, text in enumerate(different)}
            index = np.array([number[text] for text in shown], np.int64)
            yield Note(texts[name], calls, index, Value.TEXT, different)


def _entries(spans: Ints, asked: Ints, chosen: Bools) -> tuple[Ints, Ints]:
    """Return the rows of a chunk and rows of a table, sorted by span, that belong to them; rows rise."""
    rows = np.flatnonzero(chosen)
    first, last = (np.searchsorted(spans, asked[rows], side=side) for side in ("left", "right"))
    n = last - first
    inside = np.arange(int(n.sum())) - np.repeat(np.cumsum(n) - n, n)
    return np.repeat(rows, n), np.repeat(first, n) + inside


def _integers(key: str, values: Ints) -> Note:
    """Return where they are known: not negative."""
    rows = np.flatnonzero(values >= 0)
    return Note(key, rows, values[rows])


def _hexadecimal(address: int) -> str:
    return f"{address & (2**64 - 1):#018x}"


def _addresses(key: str, chosen: Bools, values: Ints) -> Note:
    return _texts(key, chosen & (values != ABSENT), values, _hexadecimal)


def _in_order_of_use(number: Ints, n: int) -> tuple[Ints, Ints]:
    """Return which of n things come first, and their numbers in that order."""
    first = np.full(n, len(number), np.int64)
    first[number[::-1]] = np.arange(len(number) - 1, -1, -1)
    used = np.argsort(first, kind="stable")
    place = np.empty(n, np.int64)
    place[used] = np.arange(n)
    return used, place[number]


def _texts(key: str, chosen: Bools, numbers: Array, text: Callable[[int], str]) -> Note:
    rows = np.flatnonzero(chosen)
    different, number = np.unique(numbers[rows], return_inverse=True)
    used, index = _in_order_of_use(number.reshape(-1), len(different))
    return Note(key, rows, index, Value.TEXT, [text(int(different[k])) for k in used.tolist()])


def _triples(key: str, chosen: Bools, x: Ints, y: Ints, z: Ints) -> Note:
    rows = np.flatnonzero(chosen)
    if not len(rows):
        return Note(key, rows, rows, Value.TEXT)
    different, number = distinct_rows(x[rows], y[rows], z[rows])
    used, index = _in_order_of_use(number, different.shape[1])
    return Note(key, rows, index, Value.TEXT, [f"{a},{b},{c}" for a, b, c in different.T[used].tolist()])
