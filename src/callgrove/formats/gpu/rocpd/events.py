"""What the rows of rocprofv3's event tables mean, for one data set or for several at once.

    EventChunk      event columns, made of some rows of a table and what these refer to (lookups.py)
    RocpdEvents     the events of several small data sets, each table read at once

An id that leads nowhere is counted for the data set that has it, which names it in its warnings.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cached_property, partial
from itertools import pairwise, takewhile

import numpy as np

from callgrove.arrays import ABSENT, Array, Bools, Ids, Ints, Names
from callgrove.binary.sqlite.batch import JoinedFiles, OwnedRows
from callgrove.binary.sqlite.cells import MISSING, Lookup, Type, is_json, json_strings
from callgrove.binary.sqlite.plan import Slow
from callgrove.formats.events.dataset import Events
from callgrove.formats.gpu.event_tables import EventTable, or_absent
from callgrove.formats.gpu.rocpd.lookups import Lookups, OwnedTables
from callgrove.formats.gpu.rocpd.place_columns import device_of
from callgrove.formats.gpu.rocpd.places import RocpdPlaces
from callgrove.formats.gpu.rocpd.tables import AGENT_COLUMNS, TABLES, TRACK
from callgrove.model.experiment import Severity
from callgrove.model.traces.events import SideTable, SpanKind

__all__ = ["EventChunk", "RocpdEvents"]

EVENT_TABLES = {base: EventTable(base, *what) for base, what in TABLES.items()}
SMALL = ("string", "info_kernel_symbol", "sample", "memory_allocate")  # as a rule
INTEGER, TEXT = Type.INTEGER, Type.TEXT
NO_JSON = "{}"
NO_EVENTS = np.int64(0)


class EventChunk:
    """Some rows of an event table, and the event columns that are made of them."""

    def __init__(self, lookups: Lookups, base: str, rows: OwnedRows) -> None:
        self._lookups, self._table = lookups, EVENT_TABLES[base]
        self._base, self._n, self._cells = base, rows.n, rows.cells

    def columns(self, names: Sequence[str]) -> dict[str, Array]:
        """Return the event columns asked for."""
        wanted = {column for name in names for column in self._columns_of_event(name)}
        if wanted:
            self._refer_to_events(wanted)
        make: dict[str, Callable[[], Array]] = {
            "start_ns": lambda: self._cells[self._table.needs["start_ns"][0]],
            "end_ns": lambda: self._cells[self._table.needs["end_ns"][0]],
            "name": lambda: self._names,
            "label": self._label,
            "category": self._category,
            "correlation": lambda: or_absent(self._of_event("stack_id")),
            "parent_correlation": lambda: or_absent(self._of_event("parent_stack_id")),
            "kind": lambda: self._kinds,
            "lane": self._lane,
        }
        return {name: make[name]() for name in names}

    # -- what rows refer to --------------------------------------------------------------------------------------------

    def _columns_of_event(self, column: str) -> Sequence[str]:
        """Return the columns of the event table that an event column is made of."""
        if column in ("correlation", "parent_correlation"):
            return ("stack_id",) if column == "correlation" else ("parent_stack_id",)
        return ("category_id",) if column == "category" or "event_id" in self._table.needs.get(column, ()) else ()

    def _refer_to_events(self, columns: Collection[str]) -> None:
        ids = self._ids("event_id")
        self._events = self._lookups.events(ids, columns)
        self._event_rows = self._events.places(self._n, ids)
        outside = self._event_rows[1]
        self._count("event_id", None if outside is None else outside & (ids != MISSING))

    def _of_event(self, column: str) -> Ints:
        return self._events.column(column, *self._event_rows)

    def _ids(self, column: str) -> Ints:
        """Return a column of ids; all are absent where no data set has the column."""
        return self._cells[column] if column in self._cells else np.full(int(self._n.sum()), MISSING)

    def _find_lost(self, column: str, numbers: Array, base: str = "", ids: Ints | None = None) -> Bools | None:
        """Return which ids of a column refer to no row, given the numbers that they refer to, and count them for their
        data sets. Return None if there are none."""
        is_lost = None
        if len(numbers) and int(numbers.min()) < 0:
            is_lost = (numbers < 0) & ((self._ids(column) if ids is None else ids) != MISSING)
        self._count(column, is_lost, base)
        return is_lost

    def _count(self, column: str, is_lost: Bools | None, base: str = "") -> None:
        """Count for each data set how many of its ids refer to no row; `is_lost` is None if there are none."""
        datasets = self._lookups.datasets
        if is_lost is None or not is_lost.any():
            if not any(dataset.has_counted for dataset in datasets):
                return
            is_lost = np.zeros(int(self._n.sum()), np.bool_)
        totals, ends = np.append(0, np.cumsum(is_lost)), np.cumsum(self._n)
        lost = (totals[ends] - totals[ends - self._n]).tolist()
        for dataset, n, n_rows in zip(datasets, lost, self._n.tolist(), strict=True):
            if column != "event_id" or dataset.table_name("event") in dataset.file.tables:
                dataset.leads_nowhere(f"{dataset.table_name(base or self._base)}.{column}", n, n_rows)

    # -- names ---------------------------------------------------------------------------------------------------------

    @cached_property
    def _names(self) -> Ids:
        if self._base == "kernel_dispatch":
            return self._look_up_names(self._lookups.kernels, "kernel_id", "kernel")
        if self._base == "memory_allocate":
            types = self._cells.get("type", [None] * int(self._n.sum()))
            return self._or_given_name(self._lookups.names.numbers(list(types)))
        if self._base == "sample":
            tracks = self._lookups.tracks
            track = tracks.name.take(tracks.rows(self._n, self._ids(TRACK)))
            return self._or_given_name(np.where(track >= 0, track, self._category_names))
        return self._look_up_names(self._lookups.strings, "name_id", "string")

    def _or_given_name(self, names: Ids) -> Ids:
        """Return names; where rows have one of their own, as in schema 4, that one."""
        if "name_id" not in self._lookups.columns[self._base]:
            return names
        given, no_text = self._look_up_names(self._lookups.strings, "name_id", "string"), self._lookups.names("")
        return np.where((given >= 0) & (given != no_text), given, names)

    def _look_up_names(self, lookup: Callable[[Ints, Ints], Ids], column: str, kind: str) -> Ids:
        """Return names by id; an id without a name gets one that says so."""
        ids = self._ids(column)
        out = lookup(self._n, ids)
        is_lost = self._find_lost(column, out)
        if is_lost is not None and is_lost.any():
            dangling, number = np.unique(ids[is_lost], return_inverse=True)
            names = self._lookups.names.numbers([f"<missing {kind} {id_}>" for id_ in dangling.tolist()])
            out[is_lost] = names[number.reshape(-1)]
        return out

    @cached_property
    def _category_names(self) -> Ids:
        return self._lookups.categories(self._n, self._of_event("category_id"))

    def _category(self) -> Ids:
        """Return the names of categories; ids that refer to no string are counted."""
        self._find_lost("category_id", self._category_names, "event", self._of_event("category_id"))
        return self._category_names

    @cached_property
    def _kinds(self) -> Ids:
        """Return the kinds of events; those of regions and samples follow from their category."""
        if "kind" in self._table.needs:
            return self._lookups.kinds(self._category_names)
        return np.full(int(self._n.sum()), self._table.kind, np.int32)

    def _label(self) -> Ids:
        """Return the name; for markers, the message of the event."""
        if "kind" not in self._table.needs:
            return self._names
        rows = np.flatnonzero(self._kinds == SpanKind.MARKER)
        if not len(rows):
            return self._names
        texts = self._lookups.tables.texts("event", "extdata", self._event_rows[0][rows])
        if texts is None or not all(map(is_json, set(texts.tolist()))):
            messages = self._read_messages(rows)
        else:
            messages = self._number_messages(texts)
        out = self._names.copy()
        out[rows] = np.where(messages >= 0, messages, out[rows])
        return out

    def _number_messages(self, texts: Array) -> Ids:
        message = {text: json_strings(text).get("message") for text in set(texts.tolist()) if text != NO_JSON}
        return self._lookups.names.numbers([message.get(text) for text in texts.tolist()])

    def _read_messages(self, rows: Ints) -> Ids:
        """Read the messages of some rows, data set by data set, and count those that are not JSON."""
        out = np.full(len(rows), ABSENT, np.int32)
        bounds = np.searchsorted(rows, np.append(0, np.cumsum(self._n))).tolist()
        ids = self._ids("event_id")[rows]
        for k, (first, end) in enumerate(pairwise(bounds)):
            if first < end:
                out[first:end] = self._messages_of(self._lookups.datasets[k], ids[first:end], int(self._n[k]))
        return out

    def _messages_of(self, dataset: RocpdPlaces, ids: Ints, n_rows: int) -> Ids:
        table, out, n_broken = dataset.table_name("event"), np.full(len(ids), ABSENT, np.int32), 0
        columns, between = {"id": INTEGER, "extdata": TEXT}, (int(ids.min()), int(ids.max()))
        for part in dataset.file.chunks(table, columns, between, unlike=("extdata", NO_JSON)):
            broken = {text for text in set(part["extdata"].tolist()) if not is_json(text)}
            n_broken += sum(text in broken for text in part["extdata"]) if broken else 0
            messages = Lookup(part["id"], self._number_messages(part["extdata"]))[ids]
            out = np.where(messages >= 0, messages, out)
        dataset.count_of_chunk(Severity.NOTE, f"{table}.extdata: {{}} texts are not JSON", n_broken, n_rows)
        return out

    # -- places --------------------------------------------------------------------------------------------------------

    def _lane(self) -> Ids:
        if "stream_id" in self._table.needs["lane"]:
            of_track = self._track_devices() if self._is_on_tracks else None
            devices = device_of([self._devices(name) for name in AGENT_COLUMNS], self._lookups.is_gpu, of_track)
            lanes = self._lookups.streams(self._n, devices, self._complete("stream_id"))
        else:
            lanes = self._thread_lanes()
            if len(lanes) and int(lanes.min()) < 0:
                lanes = np.where(lanes < 0, np.repeat(self._lookups.unknown_lanes, self._n), lanes)
        return self._lookups.require_lanes(self._n, lanes)

    def _thread_lanes(self) -> Ints:
        """Return the lanes of threads, which rows name themselves or by their track."""
        ids = self._ids("tid")
        lanes = self._lookups.threads(self._n, ids)
        self._find_lost("tid", lanes)
        return np.where(ids == MISSING, self._track_lanes(), lanes) if self._is_on_tracks else lanes

    @property
    def _is_on_tracks(self) -> bool:
        """Return whether rows name the track that they are on: samples do, and in schema 4 all events."""
        return TRACK in self._lookups.columns[self._base]

    @cached_property
    def _track_rows(self) -> Ints:
        return self._lookups.tracks.rows(self._n, self._ids(TRACK))

    def _track_lanes(self) -> Ints:
        """Return the lanes of tracks. Tracks of a device or of the whole process have none, and do not count as
        lost."""
        tracks, ids = self._lookups.tracks, self._ids(TRACK)
        lanes = tracks.lane.take(self._track_rows)
        self._count(TRACK, (lanes < 0) & (ids != MISSING) & ~tracks.is_of_no_thread.take(self._track_rows))
        return lanes

    def _track_devices(self) -> Ints:
        """Return the devices of tracks; -1 where a track names none."""
        agents = self._lookups.tracks.ids["agent_id"].take(self._track_rows)
        devices = self._lookups.agents(self._n, agents)
        is_lost = (self._track_rows < 0) & (self._ids(TRACK) != MISSING) | (devices < 0) & (agents != MISSING)
        self._count(TRACK, is_lost)
        return devices

    def _complete(self, column: str) -> Ints:
        """Return a column of ids, with what tracks say where rows say nothing themselves."""
        ids = self._ids(column)
        if not self._is_on_tracks:
            return ids
        return np.where(ids == MISSING, self._lookups.tracks.ids[column].take(self._track_rows), ids)

    def _devices(self, column: str) -> Ints:
        """Return the devices that a column of agents names; -1 where it names none."""
        if column not in self._lookups.columns[self._base]:
            return np.broadcast_to(np.int64(ABSENT), int(self._n.sum()))
        devices = self._lookups.agents(self._n, self._ids(column))
        self._find_lost(column, devices)
        return devices


def _name_table(datasets: Sequence[RocpdPlaces], base: str, number: int) -> str:
    return datasets[number].table_name(base)


class RocpdEvents:
    """The events of data sets, each in a file of its own, read at once. Names are numbers of `names`."""

    def __init__(self, datasets: Sequence[RocpdPlaces], names: Names) -> None:
        self._datasets, self._names = datasets, names
        # no cycle: private copies of files are removed with the last who reads them
        self._files = JoinedFiles([data.file for data in datasets], partial(_name_table, datasets))
        self._known: Lookups | None = None

    @property
    def obstacle(self) -> str:
        """Return why each data set has to be read by itself; empty if all can be read at once."""
        pages = self._files.pages
        return pages.reason if isinstance(pages, Slow) else ""

    @property
    def _lookups(self) -> Lookups:
        if self._known is None:
            self._files.read(SMALL)
            self._known = Lookups(OwnedTables(self._datasets, self._files), self._names)
        return self._known

    def give_back(self) -> None:
        """Forget what was read; only names stay, which others know by their numbers."""
        self._files.give_back()
        self._known = None

    def __getstate__(self) -> dict[str, object]:
        """Leave out what was read: a worker reads the files itself."""
        return {**self.__dict__, "_known": None}

    # -- events --------------------------------------------------------------------------------------------------------

    def count(self) -> int:
        return int(sum(self._lookups.counts.values(), NO_EVENTS).sum())

    def _before(self, base: str) -> Ints:
        """Return how many events of each data set precede those of a table."""
        counts = takewhile(lambda item: item[0] != base, self._lookups.counts.items())
        return sum((n for _, n in counts), np.zeros(len(self._datasets), np.int64))

    def _spans(self, base: str, rows: OwnedRows) -> Ints:
        """Return the numbers of the events of a table."""
        n_events = sum(self._lookups.counts.values(), NO_EVENTS)
        first = np.cumsum(n_events) - n_events + self._before(base)
        return np.arange(int(rows.n.sum())) + np.repeat(first - rows.firsts, rows.n)

    def events(self, columns: Sequence[str]) -> list[Events]:
        """Return chunks of events, table by table; `lane` counts over all data sets."""
        return [self._events(base, columns) for base, n in self._lookups.counts.items() if n.any()]

    def _events(self, base: str, columns: Sequence[str]) -> Events:
        stored, raw = {"rowid", *self._lookups.columns[base]}, EVENT_TABLES[base].raw(columns)
        rows = self._lookups.tables.whole(base, {name: raw[name] for name in raw if name in stored})
        for dataset, first in zip(self._datasets, self._before(base).tolist(), strict=True):
            dataset.begin_chunk(first)
        return {"span": self._spans(base, rows), **EventChunk(self._lookups, base, rows).columns(columns)}

    # -- what only some events have ------------------------------------------------------------------------------------

    @property
    def has_samples(self) -> bool:
        return bool(self._lookups.tables.n_rows("sample").any())

    @property
    def has_stacks(self) -> bool:
        """Return whether any event may carry the functions that led to it."""
        rows = self._files.n_rows("call_stack")  # a table of schema 4
        has_rows = isinstance(rows, Slow) or bool(rows.any())
        return has_rows or self._files.is_everywhere("event", "call_stack", NO_JSON) is not True

    def sizes(self, name: str) -> SideTable | None:
        """Return the bytes of copies or of allocations."""
        base = {"copy": "memory_copy", "alloc": "memory_allocate"}[name]
        rows = self._lookups.tables.whole(base, {"size": INTEGER})
        if not rows.n.any():
            return None
        return SideTable(self._spans(base, rows), {"bytes": or_absent(rows.cells["size"])})
