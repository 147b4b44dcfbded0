"""Spans as columns of the file that they belong to, in numbers, so that rows can be put in order before they are text.

The order of rows is that of (process, start, span). Spans are sorted by what they are drawn by, which knows ends too:
so `end_ns` is 0 here, and the end has the name `end`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from callgrove.formats.losses import is_told
from callgrove.formats.rocprof_csv.tables import FileTable, Layout
from callgrove.model.arrays import ABSENT, Array, Bools, Ids, Ints
from callgrove.model.books import COUNTED, Ledger
from callgrove.model.devices import AgentIndex
from callgrove.model.side_rows import SideChunks
from callgrove.model.traces import LABEL, SideTable, SpanChunk, SpanKind, Traces

__all__ = ["WIDELY_COUNTED", "Devices", "Records", "SpanRecords", "counter_names", "wide_column"]

Records = Mapping[str, Array]
Pieces = Sequence[tuple[SideTable, Ints, Ints]]  # of a side table: rows, and the places of their spans in a chunk

SIDES = ("kernel", "copy", "alloc", "counter")
DEVICES = ("source", "destination", "device")
SCRATCH_LEVEL, VIRTUAL_LEVEL = "SCRATCH", "VIRTUAL"
OTHERWISE_SHOWN = {"kernel": ("sample_id",), "copy": (), "alloc": ("level",)}  # of side tables, beside `sides`
PLURALS = {"kernel": "kernels", "copy": "copies", "alloc": "allocations"}
SIDE_OF = {SpanKind.KERNEL: "kernel", SpanKind.COPY: "copy", SpanKind.MEMSET: "copy", SpanKind.ALLOC: "alloc"}
WRITTEN = {"copy": SpanKind.COPY, "alloc": SpanKind.ALLOC, "counter": SpanKind.KERNEL}  # what a row is written with
WIDELY_COUNTED = "counters of spans in the wide table"  # an amount: the same once more, but for what is no number
OF_OTHERS = "counters of spans that are no kernels"
INSTANCES = "instances of counters, whose values are put together"
DOES_NOT_ADD_UP = ("RELATIVE",)  # rocprofv3 calls every counter ABS, and adds up its instances


def wide_column(counter: int) -> str:
    """The column of a counter in the records of the wide table."""
    return f"counter {counter}"


class Devices:
    """The labels of all devices; a number of a part's list becomes one of this."""

    def __init__(self, traces: Traces, agents: AgentIndex = AgentIndex.RELATIVE) -> None:
        self.labels: list[str] = []
        self._traces, self._agents = traces, agents
        self._first: dict[int, tuple[int, int]] = {}

    def numbers(self, part: int, own: Array) -> Array:
        if part not in self._first:
            labels = [device.label_by(self._agents) for device in self._traces.devices(part)]
            self._first[part] = len(self.labels), len(labels)
            self.labels += labels
        first, n = self._first[part]
        return np.where((own >= 0) & (own < n), own + first, ABSENT)


class SpanRecords:
    """Makes records of the chunks of one part. `counters` are the names of all counters, in order; `queue` gives the
    number of every profile that is a queue, where spans do not say theirs. `lost` counts what spans have beside them
    and no column shows; `shown` are words that further columns are made of. What is read beside spans is added to
    `given`, without what is counted as lost."""

    def __init__(
        self,
        traces: Traces,
        part: int,
        layout: Layout,
        counters: Sequence[str],
        devices: Devices,
        queue: Ints,
        lost: Counter[str],
        given: Ledger,
        shown: Collection[str] = (),
    ) -> None:
        self._given = given
        self._part, self._devices, self._queue, self._n_counters = part, devices, queue, len(counters)
        self._layout, self._lost, self._shown = layout, lost, shown
        self._counter = {name: number for number, name in enumerate(counters)}
        names = [name for name in SIDES if name != "counter" or counters]
        self._sides = {name: SideChunks(traces, name, part, given.add_side) for name in names}
        self._pieces: dict[str, Pieces] = {}

    def of(self, chunk: SpanChunk, domain: Ids) -> Iterator[tuple[FileTable, Records]]:
        """The records of each file; `domain` numbers the files of calls, -1 for spans of none."""
        self._read_sides(chunk)
        kind, layout = chunk["kind"], self._layout
        kernels, copies, allocations = (kind == k for k in (SpanKind.KERNEL, SpanKind.COPY, SpanKind.ALLOC))
        if kernels.any():
            records = self._records(layout.kernels, chunk, kernels)
            yield layout.kernels, records
            yield from self._counter_records(records, kernels)
        if copies.any():
            yield layout.copies, self._records(layout.copies, chunk, copies)
        if allocations.any():
            scratch = allocations & self._is_of(SCRATCH_LEVEL, len(kind))
            for table, rows in ((layout.allocations, allocations & ~scratch), (layout.scratch, scratch)):
                if rows.any():
                    yield table, self._records(table, chunk, rows)
        files = [layout.regions] if layout.regions else list(layout.calls.values())
        for number, table in enumerate(files):
            if (rows := domain == number).any():
                yield table, self._records(table, chunk, rows)

    def _read_sides(self, chunk: SpanChunk) -> None:
        """Look up what the spans of a chunk have beside them; what no file has a row for is counted or was before."""
        n = np.bincount(chunk["kind"], minlength=len(SpanKind))
        wanted = dict.fromkeys([*(side for kind, side in SIDE_OF.items() if n[kind]), "counter"])
        self._pieces = {name: list(self._sides[name].of(chunk["span"])) for name in wanted if name in self._sides}
        for name, written in WRITTEN.items():
            for table, rows, place in self._pieces.get(name, ()):
                others = rows[chunk["kind"][place] != written]
                if len(others):
                    self._given.add_side(name, table, others, times=-1)
                    self._lost[OF_OTHERS] += int(table.is_whole[others].sum()) if name == "counter" else 0

    def _records(self, table: FileTable, chunk: SpanChunk, rows: Bools) -> Records:
        own = _chosen(chunk, rows)
        out = {name: own[name] for name in ("span", "profile", "start_ns", "correlation", "name", "category", "kind")}
        out["end"], out["end_ns"] = own["end_ns"], np.zeros(len(own["span"]), np.int64)
        out[LABEL] = np.where(own[LABEL] >= 0, own[LABEL], own["name"])
        if table.side:
            pieces = [_of_some(*piece, rows) for piece in self._pieces[table.side]]
            words = [name for name in table.sides if name != "virtual"]
            out |= {name: self._column(pieces, name, len(own["span"])) for name in words}
            self._count_unshown(table, pieces)
        if "virtual" in table.sides:
            out["virtual"] = self._is_of(VIRTUAL_LEVEL, len(rows))[rows].astype(np.int64)
        if "queue" in out:
            out["queue"] = np.where(out["queue"] >= 0, out["queue"], self._queue[own["profile"]])
        return out

    def _column(self, pieces: Pieces, name: str, n: int) -> Ints:
        """A column of a side table; -1 where there is nothing."""
        out = np.full(n, ABSENT, np.int64)
        for table, rows, place in pieces:
            if name in table.columns:
                out[place] = np.asarray(table.columns[name])[rows]
        return self._devices.numbers(self._part, out) if name in DEVICES else out

    def _count_unshown(self, table: FileTable, pieces: Pieces) -> None:
        """Count the cells that have no column."""
        shown = {*table.sides, *OTHERWISE_SHOWN[table.side]}
        shown -= {"bytes"} if "bytes" not in self._shown and not _has(table, "bytes") else set()
        for side, rows, _ in pieces:
            for word in side.columns.keys() - shown:
                self._lost[f"{word} of {PLURALS[table.side]}"] += int(is_told(side.columns[word])[rows].sum())
            if "bytes" not in shown:
                self._given.add_side(table.side, side, rows, times=-1)

    def _is_of(self, level: str, n: int) -> Bools:
        """Which of the spans of a chunk are allocations of a level."""
        out = np.zeros(n, np.bool_)
        for table, rows, place in self._pieces["alloc"]:
            if "level" in table.columns:
                out[place] = np.asarray(table.columns["level"], object)[rows] == level
        return out

    # -- counters ------------------------------------------------------------------------------------------------------

    def _counter_records(self, kernels: Records, chosen: Bools) -> Iterator[tuple[FileTable, Records]]:
        """A record for each kernel that has counters, and one for each counter of each kernel."""
        pieces = [_of_whole(*_of_some(*piece, chosen)) for piece in self._pieces.get("counter", ())]
        if not any(len(rows) for _, rows, _ in pieces):
            return
        place = np.concatenate([own for _, _, own in pieces])
        counter, value, averaged = self._values(pieces)
        place, counter, value = self._combined(place, counter, value, averaged)
        self._given.add_amount(WIDELY_COUNTED, value[~np.isnan(value)])
        layout = self._layout
        yield (
            layout.counters,
            {name: column[place] for name, column in kernels.items()} | {"counter": counter, "value": value},
        )
        counted, row = np.unique(place, return_inverse=True)
        wide = np.full((len(counted), self._n_counters), np.nan)
        wide[row.reshape(-1), counter] = value
        of_kernels = {name: column[counted] for name, column in kernels.items()}
        yield layout.wide, of_kernels | {wide_column(k): wide[:, k] for k in range(self._n_counters)}

    def _values(self, pieces: Pieces) -> tuple[Ints, Array, Bools]:
        """Of every row: its counter, its value, and whether values of one kernel are averaged instead of added."""
        counter, value, averaged = [], [], []
        for table, rows, _ in pieces:
            names = np.asarray(table.columns["name"], object)[rows]
            counter.append(np.array([self._counter[str(name)] for name in names.tolist()], np.int64))
            value.append(np.asarray(table.columns["value"], np.float64)[rows])
            types = table.columns.get("value_type")
            told = np.zeros(len(rows), object) if types is None else np.asarray(types, object)[rows]
            averaged.append(np.isin(told.astype(str), DOES_NOT_ADD_UP))
        return np.concatenate(counter), np.concatenate(value), np.concatenate(averaged)

    def _combined(self, place: Ints, counter: Ints, value: Array, averaged: Bools) -> tuple[Ints, Ints, Array]:
        """One value for each counter of each kernel, in the order of kernels and then of names: instances are added,
        as rocprofv3 does."""
        cells, group = np.unique(place * self._n_counters + counter, return_inverse=True)
        group = group.reshape(-1)
        total, count = np.bincount(group, value, len(cells)), np.bincount(group, minlength=len(cells))
        mean = np.bincount(group[averaged], minlength=len(cells)) > 0
        out = np.where(mean, total / count, total)
        self._count_merged(value, out, are_sums=not mean.any() and bool(np.isfinite(total).all()))
        return cells // self._n_counters, cells % self._n_counters, out

    def _count_merged(self, value: Array, combined: Array, *, are_sums: bool) -> None:
        """Count values that were put together with others; averages, and what is added to no number, are no sums."""
        n = len(value) - len(combined)
        self._lost[INSTANCES] += n
        if are_sums:
            self._given.amount(COUNTED).enter(-n, 0, 0)
        else:
            self._given.add_amount(COUNTED, value, times=-1)
            self._given.add_amount(COUNTED, combined)


def _has(table: FileTable, word: str) -> bool:
    return any(what == word for _, what in table.columns)


def _chosen(chunk: SpanChunk, rows: Bools) -> SpanChunk:
    return chunk if rows.all() else {name: column[rows] for name, column in chunk.items()}


def _of_some(table: SideTable, rows: Ints, places: Ints, chosen: Bools) -> tuple[SideTable, Ints, Ints]:
    """Rows of the spans that are chosen, with the places of these among each other."""
    if chosen.all():
        return table, rows, places
    own = chosen[places]
    return table, rows[own], (np.cumsum(chosen) - 1)[places[own]]


def _of_whole(table: SideTable, rows: Ints, places: Ints) -> tuple[SideTable, Ints, Ints]:
    whole = table.is_whole[rows]
    return table, rows[whole], places[whole]


def counter_names(traces: Traces) -> list[str]:
    """The names of all counters of kernels, in order."""
    found: set[str] = set()
    for part in range(len(traces.parts())):
        for table in traces.side_chunks("counter", part):
            names = np.asarray(table.columns["name"], object)[table.is_whole]
            found |= {str(name) for name in set(names.tolist())}
    return sorted(found)
