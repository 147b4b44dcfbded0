"""Where things happen according to rocprofv3 databases: processes, agents, lanes, of one database or of many at once.

Specifications: gpu-traces.md sections 3.2 and 3.3; more-inputs.md 7 for schema 4, where tracks say what happened where.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from callgrove.arrays import ABSENT, Array, Bools, Ids, Ints, distinct_rows
from callgrove.binary.sqlite.batch import JoinedFiles, OwnedRows
from callgrove.binary.sqlite.cells import MISSING, Cells, Lookup, Type, json_scalars, json_strings
from callgrove.binary.sqlite.database import SqliteFile
from callgrove.binary.sqlite.plan import Slow
from callgrove.errors import UnsupportedVersion
from callgrove.formats.events.dataset import Lane, LaneList, Process
from callgrove.formats.gpu.event_tables import TableData
from callgrove.formats.gpu.rocpd.tables import (
    AGENT_COLUMNS,
    AGENT_NUMBERS,
    COLUMNS,
    LISTED,
    NEWER,
    ON_DEVICE,
    ON_THREADS,
    PLACE_COLUMNS,
    TRACK,
    TRACK_COLUMNS,
    tables_of,
)
from callgrove.model.experiment import Severity
from callgrove.model.profiles import ProfileKind
from callgrove.model.traces.events import Device

__all__ = [
    "AgentWords",
    "OnTracks",
    "ReadBefore",
    "RocpdPlaces",
    "UsedPlaces",
    "device_of",
    "join_files",
    "read_together",
    "suffixes",
]


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


def suffixes(file: SqliteFile) -> list[str]:
    """Return the suffix of every set of tables."""
    matches = [METADATA.fullmatch(name) for name in file.tables if name.startswith("rocpd_metadata")]
    return [match[1] for match in matches if match]


@dataclass(frozen=True)
class UsedPlaces:
    """Where the events of one set of tables happened, each place once or a few times: the columns of `PLACE_COLUMNS` of
    what ran on devices, then the track; threads and tracks of everything else; the tracks of samples."""

    on_device: Sequence[Ints]
    threads: Ints
    tracks: Ints


@dataclass(frozen=True)
class ReadBefore:
    """Tables of one set that were read before: some of the listed ones, and where events happened, if that is known."""

    listed: Mapping[str, Cells]
    used: UsedPlaces | None


class RocpdPlaces(TableData):
    """The process, devices and lanes of one set of tables."""

    def __init__(self, file: SqliteFile, suffix: str, before: ReadBefore | None = None) -> None:
        super().__init__(file, tables_of(suffix))
        self.suffix = suffix
        self._checked: set[str] = set()  # small tables whose ids were looked at
        with file.reading():
            listed, used = ({}, None) if before is None else (before.listed, before.used)
            tags = self._read_table("metadata", listed)
            self.metadata = dict(zip(tags["tag"].tolist(), tags["value"].tolist(), strict=True))
            self.version = str(self.metadata.get("schema_version") or "3")
            self._refuse_unknown()
            self.require(self.table_name("string"), "id", "string")
            self.processes = self._read_processes(listed)
            self.devices, self._agents = self._read_devices(listed)
            self._is_gpu = np.array([device.kind == "GPU" for device in self.devices] + [False])
            used = self._find_used_places() if used is None else used
            self.lanes = self._read_lanes(listed, used)
            self.has_samples = len(used.tracks) > 0

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

    def _read_table(self, base: str, before: Mapping[str, Cells]) -> Cells:
        """Return a table that opening reads, as it was read before or from the file."""
        return self._check_once(base, before[base]) if base in before else self.small(base, **LISTED[base])

    def _check_once(self, base: str, cells: Cells) -> Cells:
        if "id" in cells:
            self.check_once(base, cells["id"])
        return cells

    def check_once(self, base: str, ids: Ints) -> None:
        """Warn of ids that a table has twice, when it is first read."""
        if base not in self._checked:
            self._checked.add(base)
            self.once(self.table_name(base), ids)

    def _read_processes(self, before: Mapping[str, Cells]) -> tuple[Process, ...]:
        nodes, row = self._read_table("info_node", before), self._read_table("info_process", before)
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
        """Read agents as devices, and the device of each agent's id."""
        agents = self._read_table("info_agent", before)
        seen: dict[str, int] = {}
        devices: list[Device] = []
        numbers = {word: agents[word].tolist() for word in AGENT_NUMBERS}
        rows = zip(*(agents[name].tolist() for name in ("type", "type_index", "product_name", "name")), strict=True)
        for k, (type_, index, product, model) in enumerate(rows):
            kind, name = type_ or "GPU", product or model or ""
            seen[kind] = seen.get(kind, -1) + 1
            told = {word: str(of_agent[k]) for word, of_agent in numbers.items() if of_agent[k] != MISSING}
            about = AgentWords(told, self.file, self.table_name("info_agent"), k)
            devices.append(Device(0, kind, seen[kind] if index == MISSING else index, name, about))
        self.agent_ids: Ints = agents["id"]
        return tuple(devices), Lookup(agents["id"], np.arange(len(devices)))

    def _read_lanes(self, before: Mapping[str, Cells], used: UsedPlaces) -> tuple[Lane, ...]:
        """Read the threads that are listed, then the streams that kernels and copies ran on.

        A stream's number is unique on a device only; a copy belongs to the device it goes to or, if that is a CPU or
        unknown, comes from.
        """
        threads = self._read_table("info_thread", before)
        lanes = LaneList()
        thread_lanes = [
            lanes.add(0, ProfileKind.THREAD, id_ if tid == MISSING else tid, name or "")
            for id_, tid, name in zip(*(threads[c].tolist() for c in ("id", "tid", "name")), strict=True)
        ]
        self.thread_ids: Ints = threads["id"]
        self.thread_lanes: Ints = np.array(thread_lanes, np.int64)
        self._threads = Lookup(self.thread_ids, self.thread_lanes)
        streams = self._read_table("info_stream", before)
        names = dict(zip(streams["id"].tolist(), streams["name"].tolist(), strict=True))
        self.streams: dict[tuple[int, int], int] = {}  # (device, stream) -> lane
        for device, stream in sorted(self._streams_used(used)):
            name = names.get(stream) or ("" if stream == MISSING else f"stream {stream}")
            number = lanes.add(0, ProfileKind.GPU_STREAM, max(stream, 0), name, device)
            self.streams[device, stream] = number
        self.unknown_lane = lanes.add_unknown(0) if self._has_homeless_rows(used) else ABSENT
        return tuple(lanes.all)

    def _find_used_places(self) -> UsedPlaces:
        on_device = [self._find_distinct(base, *PLACE_COLUMNS, TRACK) for base in ON_DEVICE]
        threads = [self._find_distinct(base, "tid", TRACK) for base in ON_THREADS]
        return UsedPlaces(on_device, np.concatenate(threads, axis=1), self._find_distinct("sample", TRACK)[0])

    def _find_distinct(self, base: str, *columns: str) -> Ints:
        """Return the different combinations of some columns of a table, one row for each column."""
        rows = sorted(self._file.distinct(self.table_name(base), *columns))
        return np.array(rows, np.int64).reshape(-1, len(columns)).T

    def _streams_used(self, used: UsedPlaces) -> set[tuple[int, int]]:
        rows = np.concatenate(used.on_device, axis=1)
        cells, track = dict(zip(PLACE_COLUMNS, rows, strict=False)), rows[-1]
        agents = [self._agents[cells[name]] for name in AGENT_COLUMNS]
        streams, of_track = cells["stream_id"], None
        if (track != MISSING).any():
            of_track = self._agents[self.tracks.column("agent_id", track)]
            streams = self.tracks.complete("stream_id", streams, track)
        return set(zip(device_of(agents, self._is_gpu, of_track).tolist(), streams.tolist(), strict=True))

    def _has_homeless_rows(self, used: UsedPlaces) -> bool:
        """Return whether there are rows whose thread is not listed."""
        threads, track = used.threads
        if (track != MISSING).any():
            threads = self.tracks.complete("tid", threads, track)
        if (self._threads[threads] < 0).any():
            return True
        return len(used.tracks) > 0 and bool((self._track_lanes[used.tracks] < 0).any())

    @cached_property
    def tracks(self) -> OnTracks:
        """Return what tracks say of the events on them."""
        return OnTracks(self.small("track", id=INTEGER, **dict.fromkeys(TRACK_COLUMNS, INTEGER)))

    @cached_property
    def _track_lanes(self) -> Lookup:
        rows = self.small("track", id=INTEGER, tid=INTEGER)
        return Lookup(rows["id"], self._threads[rows["tid"]])

    def devices_of(self, ids: Ints) -> Ids:
        """Return numbers of devices by ids of agents."""
        return self._agents[ids]

    def lanes_of_tracks(self, ids: Ints) -> Ids:
        lane = self._track_lanes[ids]
        return np.where(lane >= 0, lane, self.unknown_lane).astype(np.int32)


class OnTracks:
    """What the rows of the track table say of the events that name them."""

    def __init__(self, rows: Cells) -> None:
        self._rows = Lookup(rows["id"], np.arange(len(rows["id"])))
        self._columns = {name: np.append(rows[name], MISSING) for name in TRACK_COLUMNS}

    def column(self, name: str, tracks: Ints) -> Ints:
        """Return a column for tracks by id; absent where there is no such track."""
        return self._columns[name][self._rows[tracks]]

    def complete(self, name: str, cells: Ints, tracks: Ints) -> Ints:
        """Return a column of events with what their tracks say where they say nothing themselves."""
        return np.where(cells == MISSING, self.column(name, tracks), cells)


def device_of(agents: Sequence[Array], is_gpu: Bools, of_track: Array | None = None) -> Array:
    """Return the device that events ran on, from those of `AGENT_COLUMNS`: the agent's, or for copies the GPU at either
    end, or else that of the track. `is_gpu` has an entry for every device, and a last one for no device, which is
    -1."""
    agent, to, origin = agents
    if len(agent) and int(agent.min()) >= 0:
        return agent
    otherwise = to if of_track is None else np.where(of_track >= 0, of_track, to)
    return np.where(agent >= 0, agent, np.where(is_gpu[to], to, np.where(is_gpu[origin], origin, otherwise)))


# What opening takes, of many small rocpd databases at once: the tables that list things, and where events happened.
#
# Whatever is not plain is left out, and each database reads it by itself.


SMALL = (*LISTED, "sample", "memory_allocate")  # as a rule


def join_files(files: Sequence[SqliteFile], keeps: bool = False) -> JoinedFiles:
    """Join databases of one set of tables each; see `JoinedFiles`."""
    known: dict[int, str] = {}

    def table_name(base: str, k: int) -> str:
        if k not in known:
            (known[k],) = suffixes(files[k])
        return f"rocpd_{base}{known[k]}"

    return JoinedFiles(files, table_name, keeps)


def read_together(joined: JoinedFiles) -> list[ReadBefore]:
    """Read the small tables of all files at once; empty if that cannot be done, or if a file has several sets of
    tables."""
    if isinstance(joined.pages, Slow) or any(len(suffixes(file)) != 1 for file in joined.files):
        return []
    joined.read(SMALL)
    cells: list[dict[str, Cells]] = [{} for _ in joined.files]
    for base, columns in LISTED.items():
        rows = joined.rows(base, columns)
        if not isinstance(rows, Slow):
            for listed, part in zip(cells, _split(rows), strict=True):
                listed[base] = part
    return [ReadBefore(listed, places) for listed, places in zip(cells, _read_used_places(joined), strict=True)]


def _split(rows: OwnedRows) -> list[Cells]:
    """Divide columns of all rows into those of each file."""
    bounds = [0, *np.cumsum(rows.n).tolist()]
    return [{name: column[first:end] for name, column in rows.cells.items()} for first, end in pairwise(bounds)]


def _read_used_places(joined: JoinedFiles) -> Sequence[UsedPlaces | None]:
    """Read where the events of each file happened; None where each file has to be read by itself."""
    wanted = {
        **dict.fromkeys(ON_DEVICE, (*PLACE_COLUMNS, TRACK)),
        **dict.fromkeys(ON_THREADS, ("tid", TRACK)),
        "sample": (TRACK,),
    }
    used: dict[str, list[Ints]] = {}
    for base, columns in wanted.items():
        rows = joined.rows(base, dict.fromkeys(columns, INTEGER))
        if isinstance(rows, Slow):
            return [None] * len(joined.files)
        owner = np.repeat(np.arange(len(rows.n)), rows.n)
        stored = [name for name in columns if joined.has(base, name)]  # an absent column has one value
        distinct, _ = distinct_rows(owner, *(rows.cells[name] for name in stored))
        cells = dict(zip(stored, distinct[1:], strict=True))
        every = np.stack([cells.get(name, np.full(distinct.shape[1], MISSING)) for name in columns])
        used[base] = np.split(every, np.searchsorted(distinct[0], np.arange(1, len(rows.n))), axis=1)
    return [
        UsedPlaces(
            [used[base][k] for base in ON_DEVICE],
            np.concatenate([used[base][k] for base in ON_THREADS], axis=1),
            used["sample"][k][0],
        )
        for k in range(len(joined.files))
    ]
