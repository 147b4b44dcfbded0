"""Where things happen according to rocprofv3 databases: processes, agents, lanes, of one database or of many at once.

Specifications: gpu-traces.md sections 3.2 and 3.3; more-inputs.md 7 for schema 4, where tracks say what happened where.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from callgrove.arrays import ABSENT, Bools, Ids, Ints, distinct_rows
from callgrove.binary.sqlite.batch import JoinedFiles, OwnedRows
from callgrove.binary.sqlite.cells import MISSING, Cells, Lookup, Type, json_scalars, json_strings
from callgrove.binary.sqlite.database import SqliteFile
from callgrove.binary.sqlite.plan import Slow
from callgrove.errors import UnsupportedVersion
from callgrove.formats.events.dataset import DeviceColumns, Lane, LaneColumns, Process
from callgrove.formats.gpu.event_tables import EventTable, TableData
from callgrove.formats.gpu.rocpd.owners import have_repeated
from callgrove.formats.gpu.rocpd.place_columns import PlaceColumns, Streams, Tracks, UsedPlaces
from callgrove.formats.gpu.rocpd.tables import (
    AGENT_NUMBERS,
    COLUMNS,
    LISTED,
    NEWER,
    ON_DEVICE,
    ON_THREADS,
    PLACE_COLUMNS,
    TABLES,
    TRACK,
    TRACK_COLUMNS,
    tables_of,
)
from callgrove.model.experiment import Severity
from callgrove.model.traces.events import Device

__all__ = ["READ", "AgentWords", "ReadBefore", "RocpdPlaces", "join_files", "read_together", "suffixes"]


# What rocprofv3's databases say of agents, which are devices here.


AGENT_TEXTS = ("name", "model_name", "vendor_name", "product_name")


class AgentWords(Mapping[str, str]):
    """The names of an agent, and what its JSON holds. All but its numbers is long, and read when it is first needed."""

    def __init__(self, numbers: Mapping[str, str], file: SqliteFile, table: str, row: int) -> None:
        self._numbers, self._file, self._table, self._row = numbers, file, table, row
        self._read: Mapping[str, str] | None = None

    @property
    def _all(self) -> Mapping[str, str]:
        if self._read is None:
            with self._file.reading():
                agents = self._file.table(self._table, dict.fromkeys((*AGENT_TEXTS, "extdata"), Type.TEXT))
            names = {word: agents[word][self._row] for word in AGENT_TEXTS if agents[word][self._row]}
            self._read = {**json_scalars(agents["extdata"][self._row]), **names, **self._numbers}
        return self._read

    def __getitem__(self, word: str) -> str:
        return self._numbers[word] if word in AGENT_NUMBERS else self._all[word]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)


METADATA = re.compile(r"rocpd_metadata([0-9A-Za-z_]*)")
NEWEST = {3: "3.0.5", 4: "4.1.0"}  # of the schemas that are known
VERSION = re.compile(r"\d+(\.\d+)*")
INTEGER = Type.INTEGER
READ = (*COLUMNS, *(base for base in NEWER if base != "info_address_range"))
TRACK_ROWS = dict.fromkeys(("id", *TRACK_COLUMNS), INTEGER)


def suffixes(file: SqliteFile) -> list[str]:
    """Return the suffix of every set of tables."""
    matches = [METADATA.fullmatch(name) for name in file.tables if name.startswith("rocpd_metadata")]
    return [match[1] for match in matches if match]


@dataclass(frozen=True)
class ReadTogether:
    """What opening takes of several sets, read at once: the tables that list things, which of these have an id twice in
    a set, the places that they come to, and how many events each table has, where all of them can be counted."""

    listed: Mapping[str, OwnedRows]
    repeated: Mapping[str, Bools]
    places: PlaceColumns
    n_events: Mapping[str, Ints]


@dataclass(frozen=True)
class ReadBefore:
    """One of several sets that were read at once; `is_plain` says that its file has nothing else."""

    together: ReadTogether
    number: int
    suffix: str
    is_plain: bool

    def has_repeated(self, base: str) -> bool:
        """Return whether a table has an id twice."""
        return base in self.together.repeated and bool(self.together.repeated[base][self.number])

    def cells(self, base: str) -> Cells:
        return self.together.listed[base].of_file(self.number)


class RocpdPlaces(TableData):
    """The process, devices and lanes of one set of tables."""

    def __init__(self, file: SqliteFile, suffix: str, before: ReadBefore | None = None) -> None:
        is_checked = before is not None and before.is_plain
        self.suffix = suffix
        super().__init__(file, is_checked)
        self._checked: set[str] = set()  # small tables whose ids were looked at
        with file.reading() if before is None else nullcontext():
            tags = self._read_listed("metadata", before)
            self.metadata = dict(zip(tags["tag"].tolist(), tags["value"].tolist(), strict=True))
            self.version = str(self.metadata.get("schema_version") or "3")
            self._refuse_unknown()
            if not is_checked:
                self.require(self.table_name("string"), "id", "string")
            self.processes = self._make_processes(
                self._read_listed("info_node", before), self._read_listed("info_process", before)
            )
            self._places, self._number = self._find_places(before)
            self._n_events = {} if before is None else before.together.n_events

    def list_event_tables(self) -> Sequence[EventTable]:
        return tables_of(self.suffix)

    def count_tables(self) -> dict[str, int]:
        """Return the number of rows of every event table, as it was when the file was opened unless it was changed."""
        if not self._n_events or not self._file.is_as_read():
            return super().count_tables()
        tables = self._tables_of_file
        n = {self.table_name(base): int(n[self._number]) for base, n in self._n_events.items()}
        return {name: n_rows for name, n_rows in n.items() if name in tables}

    def _refuse_unknown(self) -> None:
        numbers = list(map(int, self.version.split("."))) if VERSION.fullmatch(self.version) else [0]
        if numbers[0] not in NEWEST:
            known = {f"rocpd_{base}{self.suffix}" for base in (*COLUMNS, *NEWER)}
            others = ", ".join(name for name in self._file.tables if name not in known)
            raise UnsupportedVersion(
                f"{self.path}: a rocpd database of schema {self.version}; schemas up to {NEWEST[3]} and {NEWEST[4]} "
                "can be read: write it as one of these, or use a newer callgrove"
                f"{f'; unknown tables: {others}' * bool(others)}"
            )
        if compression := self.metadata.get("compression"):
            raise UnsupportedVersion(
                f"{self.path}: its columns are compressed ({compression}), which cannot be read; write it uncompressed"
            )
        newest = NEWEST[numbers[0]]
        if numbers > list(map(int, newest.split("."))):
            text = f"schema {self.version} is newer than {newest}: what it has beyond that is not known"
            self.warn(Severity.NOTE, text)

    # -- the small tables --------------------------------------------------------------------------------------------

    def table_name(self, base: str) -> str:
        return f"rocpd_{base}{self.suffix}"

    def small(self, base: str, **columns: Type) -> Cells:
        return self._check_once(base, self._file.table(self.table_name(base), columns))

    def _read_listed(self, base: str, before: ReadBefore | None) -> Cells:
        """Return a table that opening reads, as it was read before or from the file."""
        if before is None:
            return self.small(base, **LISTED[base])
        cells = before.cells(base)
        return self._check_once(base, cells) if before.has_repeated(base) else cells

    def _check_once(self, base: str, cells: Cells) -> Cells:
        if "id" in cells:
            self.check_once(base, cells["id"])
        return cells

    def check_once(self, base: str, ids: Ints) -> None:
        """Warn of ids that a table has twice, when it is first read."""
        if base not in self._checked:
            self._checked.add(base)
            self.once(self.table_name(base), ids)

    def _make_processes(self, nodes: Cells, row: Cells) -> tuple[Process, ...]:
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

    # -- devices and lanes ---------------------------------------------------------------------------------------------

    def _find_places(self, before: ReadBefore | None) -> tuple[PlaceColumns, int]:
        """Return the devices and lanes of this set or of several, and the number of this set among these."""
        if before is None:
            return self._read_places(), 0
        places, number = before.together.places, before.number
        for base in ("info_agent", "info_thread", "info_stream", *(["track"] if places.needs_tracks[number] else [])):
            if before.has_repeated(base):
                self._check_once(base, before.cells(base))
        return places, number

    def _read_places(self) -> PlaceColumns:
        agents = OwnedRows.join([self.small("info_agent", **LISTED["info_agent"])])
        used = UsedPlaces(
            self._find_distinct(ON_DEVICE, (*PLACE_COLUMNS, TRACK)),
            self._find_distinct(ON_THREADS, ("tid", TRACK)),
            self._find_distinct(("sample",), (TRACK,)),
        )
        lists = {base: OwnedRows.join([self.small(base, **LISTED[base])]) for base in ("info_thread", "info_stream")}
        return PlaceColumns({"info_agent": agents, **lists}, used, lambda: OwnedRows.join([self._read_tracks()]))

    def _find_distinct(self, bases: Sequence[str], columns: Sequence[str]) -> OwnedRows:
        """Return the different combinations of some columns in tables."""
        rows = [row for base in bases for row in sorted(self._file.distinct(self.table_name(base), *columns))]
        cells = np.array(rows, np.int64).reshape(-1, len(columns)).T
        return OwnedRows(dict(zip(columns, cells, strict=True)), np.array([len(rows)]))

    def _read_tracks(self) -> Cells:
        return self.small("track", **TRACK_ROWS)

    @property
    def n_lanes(self) -> int:
        return int(self._places.n_lanes[self._number])

    @property
    def n_devices(self) -> int:
        return int(self._places.n_devices[self._number])

    def lane_columns(self) -> LaneColumns:
        return self._places.lanes_of(self._number)

    def device_columns(self) -> DeviceColumns:
        return self._places.devices_of(self._number)

    @property
    def lanes(self) -> tuple[Lane, ...]:  # type: ignore[override]
        return self.lane_columns().lanes()

    @cached_property
    def devices(self) -> tuple[Device, ...]:  # type: ignore[override]
        """Return agents as devices."""
        columns, first = self.device_columns(), self._places.rows_of_devices(self._number).start
        table = self.table_name("info_agent")
        words = [AgentWords(self._places.agent_numbers(first + k), self.file, table, k) for k in range(len(columns))]
        named = zip(columns.kind, columns.index.tolist(), columns.name, words, strict=True)
        return tuple(Device(0, kind, index, name, about) for kind, index, name, about in named)

    @property
    def agent_ids(self) -> Ints:
        return self._places.agent_ids[self._places.rows_of_devices(self._number)]

    @property
    def are_gpus(self) -> Bools:
        """Return for every device whether it is a GPU."""
        return self._places.is_gpu[self._places.rows_of_devices(self._number)]

    @property
    def thread_ids(self) -> Ints:
        """Return the ids of the threads that are listed."""
        return self._places.thread_ids[self._places.rows_of_threads(self._number)]

    @property
    def thread_lanes(self) -> Ints:
        """Return the lanes of the threads that are listed."""
        return self._places.thread_lanes[self._places.rows_of_threads(self._number)]

    @property
    def streams(self) -> Streams:
        return self._places.streams_of(self._number)

    @property
    def unknown_lane(self) -> int:
        """Return the lane of events whose thread is not listed; -1 where there are none."""
        return int(self._places.unknown_lanes[self._number])

    @property
    def has_samples(self) -> bool:
        return bool(self._places.has_samples[self._number])

    @cached_property
    def _agents(self) -> Lookup:
        return Lookup(self.agent_ids, np.arange(self.n_devices))

    @cached_property
    def _tracks(self) -> Tracks:
        return Tracks(OwnedRows.join([self._read_tracks()]))

    @cached_property
    def _track_lanes(self) -> Lookup:
        rows = self.small("track", id=INTEGER, tid=INTEGER)
        return Lookup(rows["id"], Lookup(self.thread_ids, self.thread_lanes)[rows["tid"]])

    def column_of_tracks(self, name: str, ids: Ints) -> Ints:
        """Return what tracks say of the events on them; absent where there is no such track."""
        return self._tracks.column(name, np.array([len(ids)]), ids)

    def devices_of(self, ids: Ints) -> Ids:
        """Return numbers of devices by ids of agents."""
        return self._agents[ids]

    def lanes_of_tracks(self, ids: Ints) -> Ids:
        lane = self._track_lanes[ids]
        return np.where(lane >= 0, lane, self.unknown_lane).astype(np.int32)


# What opening takes, of many small rocpd databases at once: the tables that list things, and where events happened.
#
# Whatever is not plain is read from each database by itself.


SMALL = (*LISTED, "sample", "memory_allocate")  # as a rule


def join_files(files: Sequence[SqliteFile], keeps: bool = False) -> JoinedFiles:
    """Join databases of one set of tables each; see `JoinedFiles`."""
    known: list[str] = []

    def table_name(base: str, k: int) -> str:
        if not known:
            known.extend(suffix for (suffix,) in _suffixes_of_files(files))
        return f"rocpd_{base}{known[k]}"

    return JoinedFiles(files, table_name, keeps)


def _suffixes_of_files(files: Sequence[SqliteFile]) -> list[list[str]]:
    """Return what `suffixes` gives for every file; files that declare the same are looked at once."""
    known: dict[int, list[str]] = {}
    out = []
    for file in files:
        schema, key = file.schema, id(file.schema.declarations)
        if key not in known:
            known[key] = list(map(schema.marked, suffixes(file)))
        out.append(list(map(schema.named, known[key])))
    return out


def is_plain(file: SqliteFile, suffix: str) -> bool:
    """Return whether a file has one set of tables, with the columns that are needed, and nothing else."""
    tables, known = file.tables, {f"rocpd_{base}{suffix}" for base in READ}
    if suffixes(file) != [suffix] or file.schema.views or any(name not in known for name in tables):
        return False
    needed = {table.name: table.times_needed for table in tables_of(suffix)}
    needed[f"rocpd_string{suffix}"] = ["id", "string"]
    is_ours = any(f"rocpd_{base}{suffix}" in tables for base in ("info_node", "kernel_dispatch"))
    return is_ours and all(file.has(name, *columns) for name, columns in needed.items() if name in tables)


def read_together(joined: JoinedFiles) -> list[ReadBefore]:
    """Read the small tables of all files at once; empty if that cannot be done, or if a file has several sets of
    tables. Of a table that is not plain, the rows of every file are read by themselves."""
    if isinstance(joined.pages, Slow):
        return []
    every = _suffixes_of_files(joined.files)
    if any(len(some) != 1 for some in every):
        return []
    joined.read(SMALL)
    listed = {base: joined.all_rows(base, columns) for base, columns in LISTED.items()}
    used = UsedPlaces(
        _read_distinct(joined, ON_DEVICE, (*PLACE_COLUMNS, TRACK)),
        _read_distinct(joined, ON_THREADS, ("tid", TRACK)),
        _read_distinct(joined, ("sample",), (TRACK,)),
    )
    if used.need_tracks.any():
        listed["track"] = joined.all_rows("track", TRACK_ROWS)
    repeated = {base: have_repeated(rows.n, rows.cells["id"]) for base, rows in listed.items() if "id" in rows.cells}
    places = PlaceColumns(listed, used, lambda: listed["track"])
    counted = {base: joined.n_rows(base) for base in TABLES}
    n_events = {base: n for base, n in counted.items() if not isinstance(n, Slow)}
    together = ReadTogether(listed, repeated, places, n_events if len(n_events) == len(TABLES) else {})
    firsts = {k: is_plain(joined.files[k], every[k][0]) for k in dict.fromkeys(joined.first_alike)}
    plain = [firsts[k] for k in joined.first_alike]
    return [ReadBefore(together, number, suffix, plain[number]) for number, (suffix,) in enumerate(every)]


def _read_distinct(joined: JoinedFiles, bases: Sequence[str], columns: Sequence[str]) -> OwnedRows:
    """Return the different combinations of some columns in tables of each file."""
    parts = []
    for base in bases:
        known = joined.columns(base)
        stored = [name for name in columns if name in known]  # an absent column has one value
        rows = joined.all_rows(base, dict.fromkeys(stored or columns, INTEGER))
        different, _ = distinct_rows(rows.owner, *(rows.cells[name] for name in stored))
        cells = dict(zip(stored, different[1:], strict=True))
        parts.append(np.stack([different[0], *(cells.get(name, different[0] * 0 + MISSING) for name in columns)]))
    owner, *cells_of_all = np.concatenate(parts, axis=1)
    order = np.argsort(owner, kind="stable")
    n = np.bincount(owner, minlength=len(joined.files))
    return OwnedRows({name: column[order] for name, column in zip(columns, cells_of_all, strict=True)}, n)
