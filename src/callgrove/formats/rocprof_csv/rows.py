"""Spans as rows of the CSV file that they belong to: records in order, then cells of text; and the file about devices.

The order of rows is that of (process, start, span). Spans are sorted by what they are drawn by, which knows ends too:
so `end_ns` is 0 here, and the end has the name `end`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import numpy as np

from callgrove.arrays import ABSENT, Array, Bools, Ids, Ints
from callgrove.binary.text_rows import (
    Cells,
    Texts,
    blocks,
    decimals,
    fractions,
    hexadecimals,
    integers,
    join_fields,
    where,
)
from callgrove.formats.rocprof_csv.tables import Columns, FileTable, Layout
from callgrove.formats.writing.writer import is_told
from callgrove.model.books import COUNTED, Ledger
from callgrove.model.experiment import Experiment
from callgrove.model.profiles import ProfileKind
from callgrove.model.traces.events import (
    LABEL,
    AgentIndex,
    Device,
    SideChunks,
    SideTable,
    SpanChunk,
    SpanKind,
    Traces,
    labels_by_title,
)

__all__ = [
    "LONGEST",
    "WIDELY_COUNTED",
    "Devices",
    "Places",
    "Records",
    "SpanRecords",
    "Words",
    "agent_rows",
    "counter_names",
    "part_of_profiles",
    "quote",
    "rows_of",
    "wide_column",
]


Records = Mapping[str, Array]
Pieces = Sequence[tuple[SideTable, Ints, Ints]]  # of a side table: rows, and the places of their spans in a chunk

SIDES = ("kernel", "copy", "alloc", "counter")
DEVICES = ("source", "destination", "device")
SCRATCH_LEVEL, VIRTUAL_LEVEL = "SCRATCH", "VIRTUAL"
OTHERWISE_SHOWN = {"kernel": ("sample_id",), "copy": (), "alloc": ("level",)}  # of side tables, beside `sides`
PLURALS = {"kernel": "kernels", "copy": "copies", "alloc": "allocations"}
SIDE_OF = {SpanKind.KERNEL: "kernel", SpanKind.COPY: "copy", SpanKind.MEMSET: "copy", SpanKind.ALLOC: "alloc"}
WRITTEN = {"copy": SpanKind.COPY, "alloc": SpanKind.ALLOC, "counter": SpanKind.KERNEL}  # what a row is written with
WIDELY_COUNTED = "counters of spans in the wide table"  # an amount: the same once more, but for what is not a number
OF_OTHERS = "counters of spans that are not kernels"
INSTANCES = "instances of counters, whose values are put together"
DOES_NOT_ADD_UP = ("RELATIVE",)  # rocprofv3 calls every counter ABS, and adds up its instances


def wide_column(counter: int) -> str:
    """Return the column of a counter in the records of the wide table."""
    return f"counter {counter}"


class Devices:
    """The labels of all devices; a number of a part's list becomes one of this."""

    def __init__(self, traces: Traces, agents: AgentIndex = AgentIndex.RELATIVE) -> None:
        self.labels: list[str] = []
        self._traces, self._agents = traces, agents
        self._first: dict[int, tuple[int, int]] = {}

    def numbers(self, part: int, numbers_in_part: Array) -> Array:
        if part not in self._first:
            labels = [device.label_by(self._agents) for device in self._traces.devices(part)]
            self._first[part] = len(self.labels), len(labels)
            self.labels += labels
        first, n = self._first[part]
        return np.where((numbers_in_part >= 0) & (numbers_in_part < n), numbers_in_part + first, ABSENT)


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
        """Yield the records of each file; `domain` numbers the files of calls, -1 for spans of none."""
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
        spans = _choose_spans(chunk, rows)
        out = {name: spans[name] for name in ("span", "profile", "start_ns", "correlation", "name", "category", "kind")}
        out["end"], out["end_ns"] = spans["end_ns"], np.zeros(len(spans["span"]), np.int64)
        out[LABEL] = np.where(spans[LABEL] >= 0, spans[LABEL], spans["name"])
        if table.side:
            pieces = [_select_rows(*piece, rows) for piece in self._pieces[table.side]]
            words = [name for name in table.sides if name != "virtual"]
            out |= {name: self._column(pieces, name, len(spans["span"])) for name in words}
            self._count_unshown(table, pieces)
        if "virtual" in table.sides:
            out["virtual"] = self._is_of(VIRTUAL_LEVEL, len(rows))[rows].astype(np.int64)
        if "queue" in out:
            out["queue"] = np.where(out["queue"] >= 0, out["queue"], self._queue[spans["profile"]])
        return out

    def _column(self, pieces: Pieces, name: str, n: int) -> Ints:
        """Return a column of a side table; -1 where there is nothing."""
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
        """Return which of the spans of a chunk are allocations of a level."""
        out = np.zeros(n, np.bool_)
        for table, rows, place in self._pieces["alloc"]:
            if "level" in table.columns:
                out[place] = np.asarray(table.columns["level"], object)[rows] == level
        return out

    # -- counters ------------------------------------------------------------------------------------------------------

    def _counter_records(self, kernels: Records, chosen: Bools) -> Iterator[tuple[FileTable, Records]]:
        """Yield a record for each kernel that has counters, and one for each counter of each kernel."""
        pieces = [_of_whole(*_select_rows(*piece, chosen)) for piece in self._pieces.get("counter", ())]
        if not any(len(rows) for _, rows, _ in pieces):
            return
        place = np.concatenate([places for _, _, places in pieces])
        counter, value, averaged = self._values(pieces)
        place, counter, value = self._combine_instances(place, counter, value, averaged)
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
        """Return of every row its counter, its value, and whether values of one kernel are averaged instead of
        added."""
        counter, value, averaged = [], [], []
        for table, rows, _ in pieces:
            names = np.asarray(table.columns["name"], object)[rows]
            counter.append(np.array([self._counter[str(name)] for name in names.tolist()], np.int64))
            value.append(np.asarray(table.columns["value"], np.float64)[rows])
            types = table.columns.get("value_type")
            told = np.zeros(len(rows), object) if types is None else np.asarray(types, object)[rows]
            averaged.append(np.isin(told.astype(str), DOES_NOT_ADD_UP))
        return np.concatenate(counter), np.concatenate(value), np.concatenate(averaged)

    def _combine_instances(self, place: Ints, counter: Ints, value: Array, averaged: Bools) -> tuple[Ints, Ints, Array]:
        """Return one value for each counter of each kernel, by kernel and then by name; instances are added, as
        rocprofv3 does."""
        cells, group = np.unique(place * self._n_counters + counter, return_inverse=True)
        group = group.reshape(-1)
        total, count = np.bincount(group, value, len(cells)), np.bincount(group, minlength=len(cells))
        mean = np.bincount(group[averaged], minlength=len(cells)) > 0
        out = np.where(mean, total / count, total)
        self._count_merged(value, out, are_sums=not mean.any() and bool(np.isfinite(total).all()))
        return cells // self._n_counters, cells % self._n_counters, out

    def _count_merged(self, value: Array, combined: Array, *, are_sums: bool) -> None:
        """Count values that were put together with others; averages, and what is added to no number, are not sums."""
        n = len(value) - len(combined)
        self._lost[INSTANCES] += n
        if are_sums:
            self._given.amount(COUNTED).enter(-n, 0, 0)
        else:
            self._given.add_amount(COUNTED, value, times=-1)
            self._given.add_amount(COUNTED, combined)


def _has(table: FileTable, word: str) -> bool:
    return any(what == word for _, what in table.columns)


def _choose_spans(chunk: SpanChunk, rows: Bools) -> SpanChunk:
    return chunk if rows.all() else {name: column[rows] for name, column in chunk.items()}


def _select_rows(table: SideTable, rows: Ints, places: Ints, chosen: Bools) -> tuple[SideTable, Ints, Ints]:
    """Return the rows of the spans that are chosen, with the places of these among each other."""
    if chosen.all():
        return table, rows, places
    is_chosen = chosen[places]
    return table, rows[is_chosen], (np.cumsum(chosen) - 1)[places[is_chosen]]


def _of_whole(table: SideTable, rows: Ints, places: Ints) -> tuple[SideTable, Ints, Ints]:
    whole = table.is_whole[rows]
    return table, rows[whole], places[whole]


def counter_names(traces: Traces) -> list[str]:
    """Return the names of all counters of kernels, in order."""
    different: set[str] = set()
    for part in range(len(traces.parts())):
        for table in traces.side_chunks("counter", part):
            names = np.asarray(table.columns["name"], object)[table.is_whole]
            different |= {str(name) for name in set(names.tolist())}
    return sorted(different)


# -- texts about profiles ----------------------------------------------------------------------------------------------
# The process, thread or stream of a row: one text per profile.


STREAMS = (ProfileKind.GPU_STREAM,)
QUEUES = (ProfileKind.QUEUE,)


def part_of_profiles(traces: Traces, n_profiles: int) -> Ids:
    """Return the number of the part that each profile belongs to."""
    out = np.zeros(n_profiles, np.int32)
    for number, part in enumerate(traces.parts()):
        out[part] = number
    return out


class Places:
    """By profile: `process` counts processes; `queue` is -1, and texts are empty, where nothing is known."""

    def __init__(self, tables: Experiment, agents: AgentIndex = AgentIndex.RELATIVE) -> None:
        self._tables, self._agents = tables, agents
        self._called: dict[int, Mapping[str, str]] = {}  # by part: labels of devices
        profiles, n = tables.profiles, len(tables.profiles)
        self.part = part_of_profiles(tables.traces, n)
        self._above = [self._path(profile) for profile in range(n)]
        self.process = self._process_numbers()
        self.guid = [self._about(p, "process").get("guid", "") for p in range(n)]
        self.pid = [self._about(p, "process").get("pid", "") for p in range(n)]
        self.host = [self._about(p, "process").get("hostname", "") for p in range(n)]
        self.agent = [self._device(p) for p in range(n)]
        self.rank = ["" if rank is None else str(rank) for rank in profiles.identity_list("rank")]
        streams = profiles.identity_list("gpu_stream")
        self.stream = self._numbers(streams, STREAMS)
        self.queue = np.array([int(number or ABSENT) for number in self._numbers(streams, QUEUES)], np.int64)
        tids, known = profiles.identifiers.pick("THREAD", "physical")
        self.tid = [str(tid) if told else "" for tid, told in zip(tids.tolist(), known.tolist(), strict=True)]

    def _path(self, profile: int) -> Mapping[str, int]:
        """Return the node of every kind that a profile is below of."""
        system, leaf = self._tables.system, int(self._tables.profiles.system[profile])
        return {system.kind[place]: place for place in (system.path(leaf) if leaf >= 0 else [])}

    def _about(self, profile: int, kind: str) -> Mapping[str, str]:
        return self._tables.system.attributes.get(self._above[profile].get(kind, ABSENT), {})

    def _process_numbers(self) -> Ints:
        numbers: dict[int, int] = {}
        number_of_profile = [numbers.setdefault(above.get("process", ABSENT), len(numbers)) for above in self._above]
        return np.array(number_of_profile, np.int64)

    def _device(self, profile: int) -> str:
        place = self._above[profile].get("device", ABSENT)
        title = self._tables.system.name[place] if place >= 0 else ""
        if self._agents is AgentIndex.RELATIVE:
            return self._about(profile, "device").get("label") or title
        part = int(self.part[profile])
        if title and part not in self._called:
            self._called[part] = labels_by_title(self._tables.traces.devices(part), self._agents)
        return self._called[part].get(title, title) if title else ""

    def _numbers(self, numbers: list[int | None], kinds: tuple[ProfileKind, ...]) -> list[str]:
        kind_of_profile = self._tables.profiles.kind.tolist()
        return [
            str(n) if n is not None and kind in kinds else "" for n, kind in zip(numbers, kind_of_profile, strict=True)
        ]


# -- records as rows of text -------------------------------------------------------------------------------------------
# `tables.py` says what a cell is made of.


LONGEST = 1 << 16  # bytes of a name
ROOM = 512  # bytes that a row needs at most, as a rule, without its names
USUAL = 32  # columns
RENAMED = {"ALLOC": "ALLOCATE"}
UNNAMED = "<unnamed>"


def quote(text: str) -> bytes:
    """Return a text as a cell: RFC 4180, and bytes that every reader takes."""
    data = text.replace("\0", "\u2400").replace('"', '""').encode("utf-8", "replace")
    if len(data) > LONGEST:
        data = text.replace("\0", "\u2400").encode("utf-8", "replace")[:LONGEST]
        data = (data.decode("utf-8", "ignore") + "…").replace('"', '""').encode()
    return b'"%b"' % data


def _name_cell(text: str) -> bytes:
    return quote(text or UNNAMED)


def _operation(prefix: str) -> Callable[[str], bytes]:
    """Return the function that names an operation as rocprofv3 does; names of rocpd 4 begin with the prefix already."""

    def name(text: str) -> bytes:
        word = text.removeprefix(prefix)
        return quote(prefix + (word if prefix == "SCRATCH_MEMORY_" else RENAMED.get(word, word)))

    return name


class Words:
    """Every text that a row may have, by the words of `tables.py`."""

    def __init__(
        self,
        places: Places,
        names: Sequence[str],
        categories: Sequence[str],
        devices: Sequence[str],
        counters: Sequence[str],
    ) -> None:
        self._texts = {
            "$name": Texts(names, _name_cell, quote(UNNAMED)),
            "$label": Texts(names, _name_cell, quote(UNNAMED)),
            "$category": Texts(categories, quote, b'""'),
            "$operation": Texts(names, _operation("MEMORY_ALLOCATION_"), b'""'),
            "$virtual_operation": Texts(names, _operation("MEMORY_ALLOCATION_VMEM_"), b'""'),
            "$scratch_operation": Texts(names, _operation("SCRATCH_MEMORY_"), b'""'),
            "$counter": Texts(counters, quote, b'""'),
            **{f"${word}": Texts(devices, quote, b'""') for word in ("source", "destination", "device")},
            **{f"@{word}": Texts(getattr(places, word), quote) for word in ("guid", "agent", "host")},
            **{f"#{word}": Texts(getattr(places, word), str.encode) for word in ("pid", "tid", "stream", "rank")},
        }

    def cells(self, what: str, records: Records) -> Cells | bytes:
        """Return one column."""
        if what.startswith("="):
            return quote(what[1:])
        if what[0] in "@#":
            return self._texts[what].cells(records["profile"])
        if what == "$leveled_operation":
            levels = (self._texts[f"${word}operation"].cells(records["name"]) for word in ("virtual_", ""))
            return np.where(records["virtual"] == 1, *levels)
        if what.startswith("$"):
            return self._texts[what].cells(records["name" if "operation" in what else what[1:]])
        if what.startswith("*"):
            return _numbers(_multiply(*(records[f"{what[1:]}_{axis}"] for axis in "xyz")))
        if what.startswith(("0x ", "0X ")):
            return _format_addresses(records[what[3:]], large=what[1] == "X")
        if what == "duration":
            return _format_durations(records)
        return _compute_bandwidth(records) if what == "~bandwidth" else self._number(what, records)

    def _number(self, what: str, records: Records) -> Cells | bytes:
        return fractions(records[what[1:]], _format_not_finite) if what.startswith("~") else _numbers(records[what])

    def widths(self, records: Records, columns: Columns) -> Ints:
        """Return the room that the longest texts of each row need."""
        out = np.zeros(len(records["span"]), np.int64)
        for _, what in columns:
            if what in ("$name", "$label", "$category"):
                out += self._texts[what].widths(records[what[1:]])
        return out


def rows_of(words: Words, columns: Columns, records: Records) -> Iterator[tuple[Records, bytes]]:
    """Yield the rows, block after block: records, and their text."""
    for part in blocks(words.widths(records, columns), ROOM + 16 * max(0, len(columns) - USUAL)):
        rows = {name: column[part] for name, column in records.items()}
        fields: list[Cells | bytes] = []
        for _, what in columns:
            fields += [words.cells(what, rows), b","]
        fields[-1] = b"\n"
        yield rows, join_fields(len(rows["span"]), fields)


def _numbers(values: Ints) -> Cells | bytes:
    known = values >= 0
    if known.all():
        return integers(values)
    return where(known, integers(np.maximum(values, 0))) if known.any() else b""


def _multiply(*columns: Ints) -> Ints:
    """Return the product; -1 where a factor is not known, or the product is not a number of 63 bits."""
    size = np.prod([column.astype(np.float64) for column in columns], axis=0)
    good = np.all([column >= 0 for column in columns], axis=0) & (size < 2.0**63)
    return np.where(good, np.prod(np.stack(columns), axis=0), -1)


def _format_addresses(values: Ints, *, large: bool) -> Cells:
    """Return addresses as text; -1 is none."""
    n = len(values)
    digits = np.char.upper(hexadecimals(values)) if large else hexadecimals(values)
    text = np.frombuffer(join_fields(n, [b'"0x', digits, b'"']), "S20") if n else np.empty(0, "S20")
    return where(values != -1, text, b'""')


def _format_durations(records: Records) -> Cells | bytes:
    """Return durations; empty for what never ended."""
    return _numbers(np.where(records["end"] >= 0, records["end"] - records["start_ns"], -1))


def _format_not_finite(value: float) -> bytes:
    """Return the text of a number that is not finite; empty for NaN."""
    return b"" if np.isnan(value) else repr(value).encode()


def _compute_bandwidth(records: Records) -> Cells | bytes:
    """Return the bandwidth. Bytes by nanoseconds are gigabytes by seconds, here with three digits after the point."""
    lasting, size = records["end"] - records["start_ns"], records["bytes"]
    known = (lasting > 0) & (size >= 0)
    if not known.any():
        return b""
    thousandths = np.rint(1000.0 * np.maximum(size, 0) / np.maximum(lasting, 1)).astype(np.int64)
    n = len(size)
    parts = decimals(thousandths)
    lines = join_fields(n, [*parts, b"\n"]).split()
    return where(known, np.array(lines, np.bytes_))


# -- devices -----------------------------------------------------------------------------------------------------------
# A row for each device of each process that says more of it than its number.


NUMBER = re.compile(r"-?[0-9.e+-]*", re.ASCII)  # or nothing


def agent_rows(tables: Experiment, places: Places, layout: Layout) -> bytes:
    """Return the whole file; empty where nothing is known of any device."""
    lines = []
    for number, part in enumerate(tables.traces.parts()):
        profiles = part.tolist()
        guids = list(dict.fromkeys(places.guid[profile] for profile in profiles))
        devices = [
            device for device in tables.traces.devices(number) if profiles and device.attributes.get("logical_index")
        ]
        lines += [_row(guids[min(device.process, len(guids) - 1)], device, layout) for device in devices]
    if not lines:
        return b""
    headers = ["Guid", *(name for name, _, _ in layout.agents)]
    return b"\n".join([b",".join(map(quote, headers)), *lines, b""])


def _row(guid: str, device: Device, layout: Layout) -> bytes:
    """Return a row. The kind is a word, whatever number the profiler's JSON has for it."""
    told = {"name": device.name, **device.attributes, "type": device.kind}
    cells = [quote(guid)]
    for _, word, is_text in layout.agents:
        cell = told.get(word, "")
        is_number = not is_text and NUMBER.fullmatch(cell)
        cells.append(cell.encode() if is_number else quote(cell))
    return b",".join(cells)
