"""Spans as rows of the draft schema.

What the schema has no column for goes into the JSON of `additional_info`: draft_tables.py lists it. A column of a side
table that is not even there is counted in `lost`. A launch gets the time and the thread of the call that it was made by
when all spans of its part were seen: until then, calls and launches of the part are held, some 40 bytes each.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from callgrove.formats.gpu.draft_infos import SIDE_DEVICES, SIDE_TEXTS
from callgrove.formats.gpu.draft_places import DraftPlaces, Strings
from callgrove.formats.gpu.draft_schema import insert
from callgrove.model.arrays import ABSENT, Array, Ints
from callgrove.model.books import COPIED, COUNTED, Books
from callgrove.model.launches import launch_calls
from callgrove.model.side_rows import SideRows
from callgrove.model.traces import LABEL, PARENT, SideTable, SpanChunk, SpanKind, Traces

__all__ = ["IN_COLUMNS", "SpanRows"]

US = 1000  # nanoseconds
NONE = np.empty(0, np.int64)
REGION = insert(
    "instrumentation_regions",
    *("process_id", "thread_id", "region_name_id", "start_time", "end_time", "additional_info"),
)
KERNEL = insert(
    "gpu_kernel_launches",
    *("process_id", "thread_id", "kernel_id", "start_time", "end_time", "additional_info", "id", "gpu_id"),
    *("dispatch_id", "grid_size_x", "grid_size_y", "grid_size_z", "block_size_x", "block_size_y", "block_size_z"),
    "shared_mem_bytes",
)
MEMORY = insert(
    "memory_operations",
    *("process_id", "thread_id", "timestamp", "operation_type", "source_address", "destination_address"),
    *("size_bytes", "duration_us", "additional_info"),
)
ON_KERNEL = insert("hardware_counters", "process_id", "timestamp", "event_id", "value", "additional_info")
LAUNCH = "UPDATE gpu_kernel_launches SET launch_time = ?, thread_id = coalesce(thread_id, ?) WHERE id = ?"
SHAPE = ("dispatch", "grid_x", "grid_y", "grid_z", "workgroup_x", "workgroup_y", "workgroup_z", "lds")
REGISTERS = ("scratch", "vgpr", "accum_vgpr", "sgpr")
IN_MEMORY = (SpanKind.COPY, SpanKind.ALLOC)
CALLS = (SpanKind.API, SpanKind.MARKER, SpanKind.REGION)
IN_COLUMNS = {  # of side tables: what has a column, or a key of its own in the JSON
    "kernel": {*SHAPE, *REGISTERS, "thread"},
    "copy": {"bytes", "source_address", "destination_address"},
    "alloc": {"bytes", "address", "level"},
    "counter": {"name", "value"},
}

Info = Mapping[str, Sequence[object]]  # key -> what each row says; None: nothing


class SpanRows:
    """Writes spans chunk by chunk; `names` are those that spans refer to. What is read beside them and what is written
    goes into the books; bytes and counters that are in columns are added up when the file is complete."""

    def __init__(
        self,
        database: sqlite3.Connection,
        strings: Strings,
        places: DraftPlaces,
        traces: Traces,
        names: Sequence[str],
        books: Books,
    ) -> None:
        self._given, self._passed = books.given, books.passed
        self._database, self._strings, self._places, self._names = database, strings, places, names
        self._sides = {side: SideRows(traces, side, self._given.add_side) for side in ("kernel", "copy", "alloc")}
        self._counters = SideRows(traces, "counter", self._see_counters)
        self._n_kernels = 0
        self._json: dict[str, str] = {}
        self._part_of = {int(p): number for number, part in enumerate(traces.parts()) for p in part.tolist()}
        self._part = ABSENT
        self._calls: list[list[Ints]] = []
        self._launches: list[list[Ints]] = []
        self.lost: Counter[str] = Counter()

    def write(self, chunk: SpanChunk) -> None:
        if not len(chunk["span"]):
            return
        if (part := self._part_of[int(chunk["profile"][0])]) != self._part:
            self.finish()
            self._part = part
        kind = chunk["kind"]
        kernel, memory, call = kind == SpanKind.KERNEL, np.isin(kind, IN_MEMORY), np.isin(kind, CALLS)
        groups = ((kernel, self._kernels), (memory, self._memory), (~kernel & ~memory, self._regions))
        for rows, write in groups:
            if rows.any():
                write({name: column[rows] for name, column in chunk.items()})
        if not kernel.all():
            self._leave_out_counters({name: column[~kernel] for name, column in chunk.items()})
        if (call & (chunk["correlation"] >= 0)).any():
            self._calls.append(
                self._link_keys({name: c[call & (chunk["correlation"] >= 0)] for name, c in chunk.items()})
            )

    def finish(self) -> None:
        """All spans of a part were seen: say when its kernels were launched, and by which thread."""
        if self._calls and self._launches:
            correlation, process, start, ids = map(np.concatenate, zip(*self._launches, strict=True))
            of_calls, in_process, began, thread = map(np.concatenate, zip(*self._calls, strict=True))
            call = launch_calls(correlation, process, of_calls, in_process, began, start)
            known = call >= 0
            threads = [number or None for number in thread[call[known]].tolist()]
            self._database.executemany(
                LAUNCH, zip(began[call[known]].tolist(), threads, ids[known].tolist(), strict=True)
            )
        self._calls, self._launches = [], []

    def _link_keys(self, chunk: SpanChunk, ids: Ints | None = None) -> list[Ints]:
        """What a launch is found by: correlation, process, start, and the thread of a call or the id of a launch."""
        profile = chunk["profile"]
        last = self._places.thread[profile] if ids is None else ids
        return [chunk["correlation"].astype(np.int64), self._places.process[profile], chunk["start_ns"], last]

    def _regions(self, chunk: SpanChunk) -> None:
        sizes = self._side(chunk, "copy", "bytes")
        infos = self._infos(chunk, {"bytes": sizes, "side": self._others(chunk, "copy")})
        times = (chunk[name].tolist() for name in ("start_ns", "end_ns"))
        self._insert(REGION, chunk, self._ids(chunk), *times, infos)
        if any(size is not None for size in sizes):
            self._passed.add_amount(COPIED, np.array([size for size in sizes if size is not None], np.int64))

    def _kernels(self, chunk: SpanChunk) -> None:
        n = len(chunk["span"])
        ids = range(self._n_kernels + 1, self._n_kernels + n + 1)
        self._n_kernels += n
        more = {name: self._side(chunk, "kernel", name) for name in REGISTERS}
        infos = self._infos(chunk, {**more, "side": self._others(chunk, "kernel")})
        times = (chunk[name].tolist() for name in ("start_ns", "end_ns"))
        gpus = [gpu or None for gpu in self._places.gpu[chunk["profile"]].tolist()]
        shape = (self._side(chunk, "kernel", name) for name in SHAPE)
        self._insert(KERNEL, chunk, self._ids(chunk), *times, infos, ids, gpus, *shape, threads=self._launchers(chunk))
        self._counters_of(chunk, np.array(ids, np.int64))
        self._launches.append(self._link_keys(chunk, np.array(ids, np.int64)))

    def _launchers(self, chunk: SpanChunk) -> list[int | None]:
        """The threads that launched kernels, where the profiler says so."""
        tids = self._side(chunk, "kernel", "thread")
        who = zip(self._places.process[chunk["profile"]].tolist(), tids, strict=True)
        rows = [self._places.thread_rows.get((process, tid)) if isinstance(tid, int) else None for process, tid in who]
        if unknown := sum(row is None and tid is not None for row, tid in zip(rows, tids, strict=True)):
            self.lost["kernels whose thread is none of those that are listed"] += unknown
        return rows

    def _memory(self, chunk: SpanChunk) -> None:
        names = [self._text(number) for number in chunk["name"].tolist()]
        is_copy = (chunk["kind"] == SpanKind.COPY).tolist()
        types = [
            "COPY" if copy else "FREE" if (name or "").upper() == "FREE" else "ALLOC"
            for copy, name in zip(is_copy, names, strict=True)
        ]
        sizes, of_alloc = self._side(chunk, "copy", "bytes"), self._side(chunk, "alloc", "bytes")
        sizes = [size if copy else other for copy, size, other in zip(is_copy, sizes, of_alloc, strict=True)]
        lasting = chunk["end_ns"] - chunk["start_ns"]
        more: Info = {"duration_ns": lasting.tolist(), "name": names, "level": self._side(chunk, "alloc", "level")}
        others = zip(is_copy, self._others(chunk, "copy"), self._others(chunk, "alloc"), strict=True)
        more = {**more, "side": [own if copy else other for copy, own, other in others]}
        origin, to, own = (
            self._side(chunk, side, word, signed=True)
            for side, word in (("copy", "source_address"), ("copy", "destination_address"), ("alloc", "address"))
        )
        to = [own_to if copy else address for copy, own_to, address in zip(is_copy, to, own, strict=True)]
        start, micro = chunk["start_ns"].tolist(), (np.maximum(lasting, 0) // US).tolist()
        self._insert(MEMORY, chunk, start, types, origin, to, sizes, micro, self._infos(chunk, more))

    def _counters_of(self, chunk: SpanChunk, ids: Ints) -> None:
        """Counters of kernels, at the kernel's end and of no thread, as the schema knows no other way."""
        table, here, row = self._counters_beside(chunk)
        if table is None:
            return
        names = [self._strings(str(name)) for name in np.asarray(table.columns["name"])[here].tolist()]
        process, end = self._places.process[chunk["profile"][row]].tolist(), chunk["end_ns"][row].tolist()
        others = self._cells_as_json("counter", table, here)
        infos = [
            f'{{"kernel":{id_}' + (f',"side":{json.dumps(more)}}}' if more else "}")
            for id_, more in zip(ids[row].tolist(), others, strict=True)
        ]
        values = np.asarray(table.columns["value"])[here].tolist()
        self._database.executemany(ON_KERNEL, zip(process, end, names, values, infos, strict=True))

    def _counters_beside(self, chunk: SpanChunk) -> tuple[SideTable | None, Ints, Ints]:
        """The table of counters, its rows of spans of the chunk, and the places of these."""
        table, _ = self._counters.of(chunk)
        if table is None:
            return None, NONE, NONE
        order = np.argsort(chunk["span"], kind="stable")
        place = np.minimum(np.searchsorted(chunk["span"][order], table.span), len(order) - 1)
        here = np.flatnonzero(chunk["span"][order][place] == table.span)
        return table, here, order[place[here]]

    def _see_counters(self, _: str, table: SideTable) -> None:
        """Add up all of them, also those that were sampled while a span ran."""
        self._given.add_amount(COUNTED, np.asarray(table.columns["value"]))

    def _leave_out_counters(self, chunk: SpanChunk) -> None:
        """Count counters of spans that are no kernels: rows of counters name a kernel, or none."""
        table, here, _ = self._counters_beside(chunk)
        if table is not None and len(here):
            self.lost["counters of spans that are no kernels"] += len(here)
            self._given.add_amount(COUNTED, np.asarray(table.columns["value"])[here], times=-1)

    # -- columns -------------------------------------------------------------------------------------------------------

    def _insert(
        self,
        statement: str,
        chunk: SpanChunk,
        *columns: Sequence[object] | Iterator[object],
        threads: Sequence[int | None] | None = None,
    ) -> None:
        """Rows of processes and threads: those of the profiles, unless others are given."""
        process, thread = (column[chunk["profile"]].tolist() for column in (self._places.process, self._places.thread))
        own = [number or None for number in thread] if threads is None else threads
        self._database.executemany(statement, zip(process, own, *columns, strict=True))
        self._passed.add_spans(chunk)

    def _ids(self, chunk: SpanChunk) -> list[int | None]:
        """The id of every name in the table `strings`."""
        known = {n: self._strings(self._names[n]) for n in np.unique(chunk["name"]).tolist() if n >= 0}
        return [known.get(number) for number in chunk["name"].tolist()]

    def _text(self, number: int) -> str | None:
        return self._names[number] if number >= 0 else None

    def _side(self, chunk: SpanChunk, side: str, column: str, *, signed: bool = False) -> list[object]:
        """A column of a side table; None where there is nothing, and unless `signed`, where it is below 0."""
        table, row = self._sides[side].of(chunk)
        if table is None or column not in table.columns:
            return [None] * len(row)
        cells = _cells(table, column)[row]
        known = row >= 0
        if cells.dtype != np.object_:
            known &= (cells != ABSENT) if signed else (cells >= 0)
        return [value if keep else None for keep, value in zip(known.tolist(), cells.tolist(), strict=True)]

    def _others(self, chunk: SpanChunk, side: str) -> list[dict[str, object] | None]:
        """What else a side table says of every span, by word; None where that is nothing."""
        table, row = self._sides[side].of(chunk)
        if table is None:
            return [None] * len(row)
        known = np.flatnonzero(row >= 0)
        out: list[dict[str, object] | None] = [None] * len(row)
        for place, told in zip(known.tolist(), self._cells_as_json(side, table, row[known]), strict=True):
            out[place] = told or None
        return out

    def _cells_as_json(self, side: str, table: SideTable, rows: Ints) -> list[dict[str, object]]:
        """Some rows of a side table without what has columns in the schema, and without cells that say nothing."""
        out: list[dict[str, object]] = [{} for _ in range(len(rows))]
        for word in (word for word in table.columns if word not in IN_COLUMNS[side]):
            cells = _cells(table, word)[rows]
            if word in SIDE_DEVICES:
                devices = np.append(self._places.devices[self._part], ABSENT)
                cells = devices[np.where((cells >= 0) & (cells < len(devices) - 1), cells, ABSENT)]
            elif word not in SIDE_TEXTS and cells.dtype.kind not in "iu":
                self.lost[f"{word} of {side}s"] += len(rows)
                continue
            for told, cell in zip(out, cells.tolist(), strict=True):
                if cell not in (None, "", ABSENT):
                    told[word] = cell
        return out

    def _infos(self, chunk: SpanChunk, more: Info) -> Iterator[str]:
        """The JSON of every row."""
        told = {key: values for key, values in more.items() if any(value is not None for value in values)}
        columns = ("kind", "category", "name", "correlation", "profile")
        labels = chunk.get(LABEL, chunk["name"]).tolist()
        parents = chunk[PARENT].tolist() if PARENT in chunk else [ABSENT] * len(labels)
        rows = zip(*(chunk[name].tolist() for name in columns), labels, parents, strict=True)
        for k, (kind, category, name, correlation, profile, label, parent) in enumerate(rows):
            parts = [f'"kind":"{SpanKind(kind).word}"', f'"corr":{correlation if correlation >= 0 else "null"}']
            if category >= 0:
                parts.append(f'"category":{self._quote(self._names[category])}')
            if label != name and label >= 0:
                parts.append(f'"label":{self._quote(self._names[label])}')
            if parent >= 0:
                parts.append(f'"parent_corr":{parent}')
            parts.append(self._where(profile))
            parts += [f'"{key}":{self._quote(values[k])}' for key, values in told.items() if values[k] is not None]
            yield "{" + ",".join(filter(None, parts)) + "}"

    def _where(self, profile: int) -> str:
        """The lane of what is on no thread, also in the words that readers without our metadata know."""
        lane, queue, gpu = (int(c[profile]) for c in (self._places.lane, self._places.queue, self._places.gpu))
        parts = [("lane", lane, ABSENT), ("queue", queue, ABSENT), ("gpu", gpu, 0)]
        return ",".join(f'"{key}":{number}' for key, number, none in parts if number != none)

    def _quote(self, value: object) -> str:
        if not isinstance(value, str):
            return json.dumps(value)
        if value not in self._json:
            self._json[value] = json.dumps(value)
        return self._json[value]


def _cells(table: SideTable, column: str) -> Array:
    cells = table.columns[column]
    return cells if isinstance(cells, np.ndarray) else np.array(cells, object)
