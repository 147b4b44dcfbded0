"""The database of rocprofv3 (rocpd, schema 3): one set of suffixed tables per process, several in a merged file.

Specification: gpu-traces.md section 3.

    rocpd_metadata<suffix>     schema_version, uuid, guid; its name tells the suffix, nothing else does
    rocpd_info_*<suffix>       node, process, thread, agent, queue, stream, pmc, code_object, kernel_symbol
    rocpd_event<suffix>        category and correlation (stack_id) of what refers to it
    rocpd_region, _kernel_dispatch, _memory_copy, _memory_allocate, _sample<suffix>      what happened

All look-ups stay inside one suffix. Event ids rise with the rows that refer to them, so a chunk needs a range of the
event table, not all of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from callgrove.errors import CorruptFile, UnsupportedVersion
from callgrove.formats.gpu.dataset import CounterRows, Device, Events, Lane, Process
from callgrove.formats.gpu.extras import Extra
from callgrove.formats.gpu.json_cells import is_json, json_strings
from callgrove.formats.gpu.lookup import Lookup
from callgrove.formats.gpu.rocpd_agents import AgentWords
from callgrove.formats.gpu.rocpd_events import EventRows
from callgrove.formats.gpu.rocpd_infos import INFO_TABLES, info_table
from callgrove.formats.gpu.rocpd_schema import COLUMNS, columns_of
from callgrove.formats.gpu.rocpd_sides import (
    OF_EVENTS,
    counter_rows,
    event_extras,
    region_names,
    side_pieces,
    side_table,
)
from callgrove.formats.gpu.rocpd_tables import (
    AGENT_NUMBERS,
    KIND_OF_CATEGORY,
    LISTED,
    ON_DEVICE,
    ON_THREADS,
    PLACE_COLUMNS,
    tables_of,
)
from callgrove.formats.gpu.sqlite_file import MISSING, Cells, SqliteFile, Type
from callgrove.formats.gpu.tables import EventTable, LaneList, TableData, or_absent
from callgrove.model.arrays import ABSENT, Array, Ids, Ints
from callgrove.model.experiment import Severity
from callgrove.model.grouping import distinct
from callgrove.model.profiles import ProfileKind
from callgrove.model.table import Table
from callgrove.model.traces import SideTable, SpanKind

__all__ = ["RocpdData", "UsedPlaces", "datasets", "suffixes"]

METADATA = re.compile(r"rocpd_metadata([0-9A-Za-z_]*)")
STRAY = re.compile(r"rocpd_(region|kernel_dispatch|memory_copy|memory_allocate|sample|info_\w+?)")
NEWEST = "3.0.5"  # of the schemas that are known
LATER_TABLES = ("graph_launch", "hip_event", "event_operation")
INTEGER, TEXT = Type.INTEGER, Type.TEXT
MOST_KEPT = 256 << 20  # bytes of the event table: some 4 million rows, of which a column takes 4 bytes as a rule


def suffixes(file: SqliteFile) -> list[str]:
    """The suffix of every set of tables."""
    found = [METADATA.fullmatch(name) for name in file.tables]
    return [match[1] for match in found if match]


@dataclass(frozen=True)
class UsedPlaces:
    """Where the events of one set of tables happened, each place once or a few times: the columns of `PLACE_COLUMNS` of
    what ran on devices, the tracks of samples, and the threads of everything else."""

    on_device: Sequence[Ints]
    threads: Ints
    tracks: Ints


@dataclass(frozen=True)
class ReadBefore:
    """What somebody has read of one set of tables: some of those that are listed, and where events happened."""

    listed: Mapping[str, Cells]
    used: UsedPlaces


def datasets(file: SqliteFile, before: ReadBefore | None = None) -> list[RocpdData]:
    """Every process of a file. Tables whose suffix no metadata table has belong to nobody. What was read before may be
    told where there is one process."""
    known = suffixes(file)
    owned = {f"rocpd_{base}{suffix}" for suffix in known for base in (*COLUMNS, *LATER_TABLES)}
    stray = [name for name in file.tables if STRAY.match(name) and name not in owned]
    if not known:
        raise CorruptFile(
            file.path, "rocpd_metadata", expected="a table that says whose these are", found=f"only {', '.join(stray)}"
        )
    out = [RocpdData(file, suffix, before if len(known) == 1 else None) for suffix in known]
    for view in sorted(owned & file.schema.views):
        out[0].warn(Severity.DAMAGE, f"{view}: is a view, and SQL of a file is never run; its rows are left out")
    if stray:
        out[0].warn(Severity.DAMAGE, f"{', '.join(stray)}: no metadata says whose these are; they are left out")
    return out


def kernel_name(id_: int, display: str | None, mangled: str | None) -> str:
    return display or (mangled or "").removesuffix(".kd") or f"kernel #{id_}"


def _range(ids: Ints) -> tuple[int, int]:
    """From the least to the largest id that is there."""
    known = ids[ids != MISSING]
    return (int(known.min()), int(known.max())) if len(known) else (0, -1)


class RocpdData(TableData):
    """One process's tables."""

    def __init__(self, file: SqliteFile, suffix: str, before: ReadBefore | None = None) -> None:
        super().__init__(file, tables_of(suffix))
        self._kept_events: EventRows | None = None
        self.suffix = suffix
        self._checked: set[str] = set()  # small tables whose ids were looked at
        with file.reading():
            listed = {} if before is None else before.listed
            tags = self._listed("metadata", listed)
            self.metadata = dict(zip(tags["tag"].tolist(), tags["value"].tolist(), strict=True))
            self.version = str(self.metadata.get("schema_version") or "3")
            self._refuse_unknown()
            self.require(self.table_name("string"), "id", "string")
            self.processes = self._read_processes(listed)
            self.devices, self._agents = self._read_devices(listed)
            self._is_gpu = np.array([device.kind == "GPU" for device in self.devices] + [False])
            self.lanes = self._read_lanes(listed, self._used_places() if before is None else before.used)

    def _refuse_unknown(self) -> None:
        if not re.fullmatch(r"3(\.\d+)*", self.version):
            known = {f"rocpd_{base}{self.suffix}" for base in COLUMNS}
            others = ", ".join(name for name in self._file.tables if name not in known)
            raise UnsupportedVersion(
                f"{self.path}: a rocpd database of schema {self.version}; schema 3, up to {NEWEST}, can be read: "
                f"write it as that, or use a newer callgrove{f'; unknown tables: {others}' * bool(others)}"
            )
        if compression := self.metadata.get("compression"):
            raise UnsupportedVersion(
                f"{self.path}: its columns are compressed ({compression}), which cannot be read; write it uncompressed"
            )
        if [int(number) for number in self.version.split(".")] > [int(number) for number in NEWEST.split(".")]:
            text = f"schema {self.version} is newer than {NEWEST}: what it has beyond that is not known"
            self.warn(Severity.NOTE, text)

    # -- the small tables --------------------------------------------------------------------------------------------

    def table_name(self, base: str) -> str:
        return f"rocpd_{base}{self.suffix}"

    def small(self, base: str, **columns: Type) -> Cells:
        return self._checked_once(base, self._file.table(self.table_name(base), columns))

    def _listed(self, base: str, before: Mapping[str, Cells]) -> Cells:
        """A table that opening reads, unless that was done before."""
        return self._checked_once(base, before[base]) if base in before else self.small(base, **LISTED[base])

    def _checked_once(self, base: str, cells: Cells) -> Cells:
        if "id" in cells and base not in self._checked:
            self._checked.add(base)
            self.once(self.table_name(base), cells["id"])
        return cells

    def _read_processes(self, before: Mapping[str, Cells]) -> tuple[Process, ...]:
        nodes, row = self._listed("info_node", before), self._listed("info_process", before)
        uid = str(self.metadata.get("guid") or self.suffix)
        if not len(row["pid"]):
            return (Process(uid, 0),)
        node = np.flatnonzero(nodes["id"] == row["nid"][0])
        at = int(node[0]) if len(node) else ABSENT
        return (
            Process(
                uid,
                int(row["pid"][0]),
                host=(nodes["hostname"][at] or "") if at >= 0 else "",
                machine=(nodes["machine_id"][at] or "") if at >= 0 else "",
                command=row["command"][0] or "",
                start_ns=int(row["init"][0]),
                end_ns=int(row["fini"][0]),
                environment=json_strings(row["environment"][0]),
            ),
        )

    def _read_devices(self, before: Mapping[str, Cells]) -> tuple[tuple[Device, ...], Lookup]:
        """Agents as devices, and the device of an agent's id."""
        agents = self._listed("info_agent", before)
        seen: dict[str, int] = {}
        devices: list[Device] = []
        for k in range(len(agents["id"])):
            kind = agents["type"][k] or "GPU"
            index = int(agents["type_index"][k])
            seen[kind] = seen.get(kind, -1) + 1
            name = agents["product_name"][k] or agents["name"][k] or ""
            told = {word: str(n) for word in AGENT_NUMBERS if (n := int(agents[word][k])) != MISSING}
            about = AgentWords(told, self.file, self.table_name("info_agent"), k)
            devices.append(Device(0, kind, seen[kind] if index == MISSING else index, name, about))
        self.agent_ids: Ints = agents["id"]
        return tuple(devices), Lookup(agents["id"], np.arange(len(devices)))

    def _read_lanes(self, before: Mapping[str, Cells], used: UsedPlaces) -> tuple[Lane, ...]:
        """The threads that are listed, then the streams that kernels and copies ran on.

        A stream's number is unique on a device only; a copy belongs to the device it goes to or, if that is a CPU or
        unknown, comes from.
        """
        threads = self._listed("info_thread", before)
        lanes = LaneList()
        own = [
            lanes.add(0, ProfileKind.THREAD, id_ if tid == MISSING else tid, name or "")
            for id_, tid, name in zip(*(threads[c].tolist() for c in ("id", "tid", "name")), strict=True)
        ]
        self.thread_ids: Ints = threads["id"]
        self.thread_lanes: Ints = np.array(own, np.int64)
        self._threads = Lookup(self.thread_ids, self.thread_lanes)
        streams = self._listed("info_stream", before)
        names = dict(zip(streams["id"].tolist(), streams["name"].tolist(), strict=True))
        self.streams: dict[tuple[int, int], int] = {}  # (device, stream) -> lane
        for device, stream in sorted(self._streams_used(used)):
            name = names.get(stream) or ("" if stream == MISSING else f"stream {stream}")
            number = lanes.add(0, ProfileKind.GPU_STREAM, max(stream, 0), name, device)
            self.streams[device, stream] = number
        self._nowhere = lanes.unknown(0) if self._has_homeless_rows(used) else ABSENT
        return tuple(lanes.all)

    def _used_places(self) -> UsedPlaces:
        found = [self._file.distinct(self.table_name(base), *PLACE_COLUMNS) for base in ON_DEVICE]
        on_device = [np.array(sorted(rows), np.int64).reshape(-1, len(PLACE_COLUMNS)).T for rows in found]
        threads = [id_ for base in ON_THREADS for (id_,) in self._file.distinct(self.table_name(base), "tid")]
        tracks = [id_ for (id_,) in self._file.distinct(self.table_name("sample"), "track_id")]
        return UsedPlaces(on_device, np.array(threads, np.int64), np.array(tracks, np.int64))

    def _streams_used(self, used: UsedPlaces) -> set[tuple[int, int]]:
        rows = np.concatenate(used.on_device, axis=1)
        cells = dict(zip(PLACE_COLUMNS, rows, strict=True))
        return set(zip(self._device(cells).tolist(), cells["stream_id"].tolist(), strict=True))

    def _has_homeless_rows(self, used: UsedPlaces) -> bool:
        """Are there rows whose thread is not listed?"""
        if (self._threads[used.threads] < 0).any():
            return True
        return len(used.tracks) > 0 and bool((self._track_lanes[used.tracks] < 0).any())

    def _device(self, cells: Cells) -> Ints:
        """The device that an event ran on: the agent, or for copies the GPU at either end."""
        own, to, origin = (self._agents[cells[name]] for name in ("agent_id", "dst_agent_id", "src_agent_id"))
        out = np.where(own >= 0, own, np.where(self._is_gpu[to], to, np.where(self._is_gpu[origin], origin, to)))
        return out.astype(np.int64)

    @cached_property
    def _kernel_names(self) -> Lookup:
        rows = self.small("info_kernel_symbol", id=INTEGER, display_name=TEXT, kernel_name=TEXT)
        columns = (rows[name].tolist() for name in ("id", "display_name", "kernel_name"))
        names = [kernel_name(*row) for row in zip(*columns, strict=True)]
        return Lookup(rows["id"], self._names.numbers(names))

    @cached_property
    def _string_names(self) -> Lookup:
        rows = self.small("string", id=INTEGER, string=TEXT)
        return Lookup(rows["id"], self._names.numbers(rows["string"].tolist()))

    # -- events ------------------------------------------------------------------------------------------------------

    def prepare(self, table: EventTable, columns: Sequence[str], cells: Cells) -> None:
        wanted = {column for name in columns for column in self._from_event(table, name)}
        place = f"{table.name}.event_id" if self.table_name("event") in self._file.tables else ""
        nowhere = partial(self.leads_nowhere, place)
        self._event_rows = self._event(cells["event_id"], wanted, nowhere) if "event_id" in cells and wanted else {}

    @staticmethod
    def _from_event(table: EventTable, column: str) -> Sequence[str]:
        """The columns of the event table that an event column is made of."""
        if column in ("correlation", "parent_correlation"):
            return ("stack_id",) if column == "correlation" else ("parent_stack_id",)
        return ("category_id",) if column == "category" or "event_id" in table.needs.get(column, ()) else ()

    def made(self, table: EventTable, column: str, cells: Cells) -> Array:
        event = self._event_rows
        make: dict[str, Callable[[], Array]] = {
            "start_ns": lambda: cells[table.needs["start_ns"][0]],
            "end_ns": lambda: cells[table.needs["end_ns"][0]],
            "name": lambda: self._name(table, cells),
            "label": lambda: self._label(table, cells),
            "category": lambda: self._category(event["category_id"]),
            "correlation": lambda: or_absent(event["stack_id"]),
            "parent_correlation": lambda: or_absent(event["parent_stack_id"]),
            "kind": lambda: self._kind(table, cells),
            "lane": lambda: self._lane(table, cells),
        }
        return make[column]()

    def events(self, columns: Sequence[str]) -> Iterator[Events]:
        try:
            yield from super().events(columns)
        finally:
            self._kept_events = None

    def _event(self, ids: Ints, wanted: Collection[str], nowhere: Callable[[int], None]) -> Cells:
        """Columns of the rows of the event table with these ids; absent where there is none.

        A table that is not large is read once and kept while events are read: it is smaller than they are.
        """
        columns = sorted(wanted)
        kept = self._kept_events
        if kept is None or not kept.has(columns):
            is_small = self._file.size_of(self.table_name("event")) <= MOST_KEPT
            span = None if is_small else _range(ids)
            raw = ("id", *columns)
            cells = self._file.chunks(self.table_name("event"), dict.fromkeys(raw, INTEGER), between=span)
            kept = EventRows(cells, raw)
            self._kept_events = kept if is_small else None
        return kept.of(ids, columns, nowhere)

    def _category(self, ids: Ints) -> Ids:
        """Categories that are no strings are none; they are counted."""
        found = self._string_names[ids]
        self.leads_nowhere(f"{self.table_name('event')}.category_id", int(((found < 0) & (ids != MISSING)).sum()))
        return found

    def _name(self, table: EventTable, cells: Cells) -> Ids:
        if "kernel_id" in cells:
            return self.named(self._kernel_names, cells["kernel_id"], "kernel", f"{table.name}.kernel_id")
        if "type" in cells:
            return self._names.numbers(cells["type"].tolist())
        if "name_id" in cells:
            return self.named(self._string_names, cells["name_id"], "string", f"{table.name}.name_id")
        return self._string_names[self._event_rows["category_id"]]

    def _label(self, table: EventTable, cells: Cells) -> Ids:
        """The name; of markers, the message that the event carries."""
        names = self._name(table, cells)
        if "kind" not in table.needs:
            return names
        rows = np.flatnonzero(self._kind(table, cells) == SpanKind.MARKER)
        ids = cells["event_id"][rows]
        if not len(ids):
            return names
        columns, between = {"id": INTEGER, "extdata": TEXT}, (int(ids.min()), int(ids.max()))
        for part in self._file.chunks(self.table_name("event"), columns, between, unlike=("extdata", "{}")):
            texts = set(part["extdata"].tolist())
            broken = {text for text in texts if not is_json(text)}
            n_broken = sum(text in broken for text in part["extdata"]) if broken else 0
            self.count_of_chunk(Severity.NOTE, f"{self.table_name('event')}.extdata: {{}} texts are no JSON", n_broken)
            message = {text: json_strings(text).get("message") for text in texts}
            messages = self._names.numbers([message[text] for text in part["extdata"].tolist()])
            found = Lookup(part["id"], messages)[ids]
            names[rows] = np.where(found >= 0, found, names[rows])
        return names

    def _kind(self, table: EventTable, cells: Cells) -> Ids:
        """Regions and samples are what their category says."""
        if "kind" not in table.needs:
            return self.kinds(table, cells)
        category = self._string_names[self._event_rows["category_id"]]
        return self._kind_of_category[category]

    @property
    def _kind_of_category(self) -> Ids:
        """By the number of a string; the last one is for none."""
        words = [text.partition("_")[0] for text in self._names.all]
        return np.array([KIND_OF_CATEGORY.get(word, SpanKind.REGION) for word in [*words, ""]], np.int32)

    def _lane(self, table: EventTable, cells: Cells) -> Ids:
        if "stream_id" in cells:
            device, stream = self._device(cells), cells["stream_id"]
            for column in ("agent_id", "dst_agent_id", "src_agent_id"):
                unknown = (cells[column] != MISSING) & (self._agents[cells[column]] < 0)
                self.leads_nowhere(f"{table.name}.{column}", int(unknown.sum()))
            pairs, where = distinct(device, stream)
            return np.array([self.streams[int(d), int(s)] for d, s in pairs.T], np.int32)[where]
        column, known = ("track_id", self._track_lanes) if "track_id" in cells else ("tid", self._threads)
        lane = known[cells[column]]
        self.leads_nowhere(f"{table.name}.{column}", int(((lane < 0) & (cells[column] != MISSING)).sum()))
        return np.where(lane >= 0, lane, self._nowhere).astype(np.int32)

    @cached_property
    def _track_lanes(self) -> Lookup:
        rows = self.small("track", id=INTEGER, tid=INTEGER)
        return Lookup(rows["id"], self._threads[rows["tid"]])

    def known(self, table: EventTable) -> Collection[str]:
        return columns_of(table.name.removeprefix("rocpd_").removesuffix(self.suffix))

    def extras(self) -> Iterator[Extra]:
        """Also the ranges that operations are said to belong to, and what the event table has."""
        yield from super().extras()
        yield from region_names(self)
        yield from event_extras(self)

    def side(self, name: str) -> SideTable | None:
        if name == "extra":
            return self.extra()
        with self._file.reading():
            table = side_table(self, name)
        return table if table is not None and len(table.span) else None

    def has_side(self, name: str) -> bool:
        """Arguments are counted: there may be more of them than of anything else."""
        return super().has_side(name) if name != "argument" else self._file.count(self.table_name("arg")) > 0

    def side_chunks(self, name: str) -> Iterator[SideTable]:
        """Tables of events may be large: some rows at a time."""
        if name not in OF_EVENTS:
            yield from super().side_chunks(name)
            return
        with self._file.reading():
            yield from side_pieces(self, name)

    def tables(self) -> Mapping[str, Callable[[], Table]]:
        return {
            name: partial(info_table, self._file, self.table_name(base), name) for name, base in INFO_TABLES.items()
        }

    def counters(self) -> CounterRows | None:
        with self._file.reading():
            return counter_rows(self)

    def devices_of(self, ids: Ints) -> Ids:
        """Numbers of devices by ids of agents."""
        return self._agents[ids]

    def lanes_of_tracks(self, ids: Ints) -> Ids:
        lane = self._track_lanes[ids]
        return np.where(lane >= 0, lane, self._nowhere).astype(np.int32)

    def names_of_spans(self, spans: Ints) -> list[str]:
        """The names of some events, by number."""
        every = np.concatenate([np.empty(0, np.int32), *(events["name"] for events in self.events(("name",)))])
        return [self._names.all[k] if k >= 0 else "" for k in every[spans].tolist()]

    @cached_property
    def span_of_event(self) -> Lookup:
        """The number of the span that refers to each row of the event table."""
        ids = [self._file.table(name, {"rowid": INTEGER, "event_id": INTEGER})["event_id"] for name in self.counts]
        every = np.concatenate([*ids, np.empty(0, np.int64)])
        return Lookup(every, np.arange(len(every)))
