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
from callgrove.model.devices import AgentIndex
from callgrove.model.side_rows import SideChunks
from callgrove.model.traces import LABEL, SideTable, SpanChunk, SpanKind, Traces

__all__ = ["Devices", "Records", "SpanRecords", "counter_names", "wide_column"]

Records = Mapping[str, Array]
Pieces = Sequence[tuple[SideTable, Ints, Ints]]  # of a side table: rows, and the places of their spans in a chunk

SIDES = ("kernel", "copy", "alloc", "counter")
DEVICES = ("source", "destination", "device")
SCRATCH_LEVEL, VIRTUAL_LEVEL = "SCRATCH", "VIRTUAL"
OTHERWISE_SHOWN = {"kernel": ("sample_id",), "copy": (), "alloc": ("level",)}  # of side tables, beside `sides`
PLURALS = {"kernel": "kernels", "copy": "copies", "alloc": "allocations"}
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
            labels = [device.called(self._agents) for device in self._traces.devices(part)]
            self._first[part] = len(self.labels), len(labels)
            self.labels += labels
        first, n = self._first[part]
        return np.where((own >= 0) & (own < n), own + first, ABSENT)


class SpanRecords:
    """Makes records of the chunks of one part. `counters` are the names of all counters, in order; `queue` gives the
    number of every profile that is a queue, where spans do not say theirs. `lost` counts what spans have beside them
    and no column shows; `shown` are words that further columns are made of."""

    def __init__(
        self,
        traces: Traces,
        part: int,
        layout: Layout,
        counters: Sequence[str],
        devices: Devices,
        queue: Ints,
        lost: Counter[str],
        shown: Collection[str] = (),
    ) -> None:
        self._part, self._devices, self._queue, self._n_counters = part, devices, queue, len(counters)
        self._layout, self._lost, self._shown = layout, lost, shown
        self._counter = {name: number for number, name in enumerate(counters)}
        self._sides = {name: SideChunks(traces, name, part) for name in SIDES if name != "counter" or counters}

    def of(self, chunk: SpanChunk, domain: Ids) -> Iterator[tuple[FileTable, Records]]:
        """The records of each file; `domain` numbers the files of calls, -1 for spans of none."""
        kind, layout = chunk["kind"], self._layout
        kernels, copies, allocations = (kind == k for k in (SpanKind.KERNEL, SpanKind.COPY, SpanKind.ALLOC))
        if kernels.any():
            records = self._records(layout.kernels, _chosen(chunk, kernels))
            yield layout.kernels, records
            yield from self._counted(records)
        if copies.any():
            yield layout.copies, self._records(layout.copies, _chosen(chunk, copies))
        if allocations.any():
            own = _chosen(chunk, allocations)
            scratch = self._is_of(SCRATCH_LEVEL, own["span"])
            for table, rows in ((layout.allocations, ~scratch), (layout.scratch, scratch)):
                if rows.any():
                    yield table, self._records(table, _chosen(own, rows))
        files = [layout.regions] if layout.regions else list(layout.calls.values())
        for number, table in enumerate(files):
            if (rows := domain == number).any():
                yield table, self._records(table, _chosen(chunk, rows))

    def _records(self, table: FileTable, chunk: SpanChunk) -> Records:
        out = {name: chunk[name] for name in ("span", "profile", "start_ns", "correlation", "name", "category")}
        out["end"], out["end_ns"] = chunk["end_ns"], np.zeros(len(chunk["span"]), np.int64)
        out[LABEL] = np.where(chunk[LABEL] >= 0, chunk[LABEL], chunk["name"])
        if table.side:
            pieces = list(self._sides[table.side].of(chunk["span"]))
            words = [name for name in table.sides if name != "virtual"]
            out |= {name: self._column(pieces, name, len(chunk["span"])) for name in words}
            self._count_unshown(table, pieces)
        if "virtual" in table.sides:
            out["virtual"] = self._is_of(VIRTUAL_LEVEL, chunk["span"]).astype(np.int64)
        if "queue" in out:
            out["queue"] = np.where(out["queue"] >= 0, out["queue"], self._queue[chunk["profile"]])
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

    def _is_of(self, level: str, spans: Ints) -> Bools:
        """Which allocations are of a level."""
        out = np.zeros(len(spans), np.bool_)
        for table, rows, place in self._sides["alloc"].of(spans):
            if "level" in table.columns:
                out[place] = np.asarray(table.columns["level"], object)[rows] == level
        return out

    # -- counters ------------------------------------------------------------------------------------------------------

    def _counted(self, kernels: Records) -> Iterator[tuple[FileTable, Records]]:
        """A record for each kernel that has counters, and one for each counter of each kernel."""
        pieces = [_of_whole(*piece) for piece in self._sides["counter"].of(kernels["span"])] if self._n_counters else []
        if not any(len(rows) for _, rows, _ in pieces):
            return
        place = np.concatenate([own for _, _, own in pieces])
        counter, value, averaged = self._values(pieces)
        place, counter, value = self._combined(place, counter, value, averaged)
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
        return cells // self._n_counters, cells % self._n_counters, np.where(mean, total / count, total)


def _has(table: FileTable, word: str) -> bool:
    return any(what == word for _, what in table.columns)


def _chosen(chunk: SpanChunk, rows: Bools) -> SpanChunk:
    return chunk if rows.all() else {name: column[rows] for name, column in chunk.items()}


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
