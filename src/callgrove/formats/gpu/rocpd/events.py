"""What the rows of rocprofv3's event tables mean, for one data set or for several at once.

Rows come as columns, and beside them `n`: how many rows each data set has, one after the other. One data set is the
case of a single number. Ids mean something in their data set only, so every look-up is by owner and id.

    OwnedTables     where columns come from: one file, in chunks; or several small files, each table at once
    Lookups         what ids lead to: names, threads, devices, streams, rows of the event table
    EventChunk      event columns, made of the columns of some rows and what these refer to
    RocpdEvents     the events of several data sets

An id that leads nowhere is counted for the data set that has it, which names it in its warnings.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile

import numpy as np

from callgrove.arrays import ABSENT, Array, Bools, Directory, Ids, Ints, Names
from callgrove.binary.sqlite.batch import JoinedFiles, OwnedRows
from callgrove.binary.sqlite.cells import MISSING, Lookup, Type, is_json, json_object, json_strings
from callgrove.binary.sqlite.plan import Slow
from callgrove.errors import InputError
from callgrove.formats.gpu.dataset import Events
from callgrove.formats.gpu.event_tables import EventTable, or_absent
from callgrove.formats.gpu.rocpd.places import RocpdPlaces, device_of
from callgrove.formats.gpu.rocpd.tables import AGENT_COLUMNS, TABLES, kind_of_category
from callgrove.model.experiment import Severity
from callgrove.model.traces.events import SideTable, SpanKind

__all__ = ["ByOwner", "EventChunk", "Lookups", "OwnedTables", "RocpdEvents", "chosen_names"]

EVENT_TABLES = {base: EventTable(base, *what) for base, what in TABLES.items()}
SMALL = ("string", "info_kernel_symbol", "sample", "memory_allocate")  # as a rule
FIELD_OF_NAME = {"short": "truncated_kernel_name", "demangled": "demangled_kernel_name"}
INTEGER, TEXT = Type.INTEGER, Type.TEXT
LARGEST = 1 << 22  # cells of a look-up
MOST_KEPT = 256 << 20  # bytes of the event table: some 4 million rows, of which a column takes 4 bytes as a rule
NO_JSON = "{}"
NOT_YET = -2
NOTHING, NO_EVENTS = np.empty(0, np.int64), np.int64(0)


# Where columns come from.


class OwnedTables:
    """The tables of data sets, each in a file of its own. `joined`: these files read at once, where that is planned;
    a table that cannot be is read from every file by itself."""

    def __init__(self, datasets: Sequence[RocpdPlaces], joined: JoinedFiles | None) -> None:
        self.datasets, self._joined = datasets, joined

    @property
    def reads_some_texts(self) -> bool:
        """Is it cheaper to read some texts of a table than all of them?"""
        return self._joined is not None

    def whole(self, base: str, columns: Mapping[str, Type]) -> OwnedRows:
        """Columns of all rows of a table."""
        rows = None if self._joined is None else self._joined.rows(base, columns)
        if rows is not None and not isinstance(rows, Slow):
            return rows
        parts = [dataset.file.table(dataset.table_name(base), columns) for dataset in self.datasets]
        n = np.array([len(next(iter(part.values()))) for part in parts], np.int64)
        if len(parts) == 1:
            return OwnedRows(parts[0], n)
        return OwnedRows({name: np.concatenate([part[name] for part in parts]) for name in columns}, n)

    def chunks(self, base: str, columns: Mapping[str, Type], between: tuple[int, int] | None) -> Iterator[OwnedRows]:
        """Columns of a table, of a single data set some rows at a time and between two row ids."""
        if len(self.datasets) > 1:
            yield self.whole(base, columns)
            return
        (dataset,) = self.datasets
        for cells in dataset.file.chunks(dataset.table_name(base), columns, between):
            yield OwnedRows(cells, np.array([len(next(iter(cells.values())))]))

    def texts(self, base: str, column: str, rows: Ints) -> Array | None:
        """A column of texts of some rows; None where all of it has to be read."""
        texts = None if self._joined is None else self._joined.texts(base, column, rows)
        return None if isinstance(texts, Slow) else texts

    def n_rows(self, base: str) -> Ints:
        """How many rows of an event table each data set has."""
        n = None if self._joined is None else self._joined.n_rows(base)
        if n is not None and not isinstance(n, Slow):
            return n
        return np.array([d.counts.get(d.table_name(base), 0) for d in self.datasets], np.int64)

    def columns(self, base: str) -> set[str]:
        """The columns that a table has in any data set."""
        return {name for d in self.datasets for name in d.file.tables.get(d.table_name(base), ())}


class ByOwner:
    """From an id of one of several data sets to the row that has it; -1 for ids that it does not have. The first of
    equal ids counts."""

    def __init__(self, n: Ints, ids: Ints) -> None:
        self._n_rows = len(ids)
        self._low, high = _extremes(n, ids)
        width = (
            max((int(h) - int(low) for low, h in zip(self._low.tolist(), high.tolist(), strict=True)), default=0) + 2
        )
        self._width = width  # the last cell is for all other ids
        self._each: list[Directory] = []
        if width * len(n) > LARGEST:
            rows = np.split(np.arange(len(ids)), np.cumsum(n)[:-1])
            self._each = [Directory(ids[own], own) for own in rows]
            return
        self._table = np.full(width * len(n), ABSENT, np.int64)
        place = ids + np.repeat(np.arange(len(n)) * width - self._low, n)
        self._table[place[::-1]] = np.arange(len(ids))[::-1]

    @property
    def is_unique(self) -> bool:
        if self._each:
            return all(directory.is_unique for directory in self._each)
        return int((self._table >= 0).sum()) == self._n_rows

    def __call__(self, n: Ints, ids: Ints) -> Ints:
        """The rows of ids: n[k] of them are of data set k, and these come one after the other."""
        if self._each:
            parts = np.split(ids, np.cumsum(n)[:-1])
            return np.concatenate([directory[part] for directory, part in zip(self._each, parts, strict=True)])
        return self._table.take(self._places(n, ids))

    def _places(self, n: Ints, ids: Ints) -> Ints:
        firsts = np.arange(len(n)) * self._width
        least, largest = _extremes(n, ids)
        if ((n == 0) | ((least >= self._low) & (largest < self._low + self._width))).all():
            return ids + np.repeat(firsts - self._low, n)
        with np.errstate(over="ignore"):
            place = (ids - np.repeat(self._low, n)).view(np.uint64)  # what lies below wraps around to far above
        return np.minimum(place, np.uint64(self._width - 1)).view(np.int64) + np.repeat(firsts, n)


def _extremes(n: Ints, ids: Ints) -> tuple[Ints, Ints]:
    """The least and the largest id of every owner; 0 for those that have none."""
    least, largest, some = np.zeros(len(n), np.int64), np.zeros(len(n), np.int64), n > 0
    if some.any():
        firsts = (np.cumsum(n) - n)[some]
        least[some], largest[some] = np.minimum.reduceat(ids, firsts), np.maximum.reduceat(ids, firsts)
    return least, largest


# What ids lead to.


class EventRows:
    """Rows of the event table by their id, which as a rule counts them."""

    def __init__(self, parts: Iterable[OwnedRows], columns: Sequence[str], n_owners: int) -> None:
        n, found = np.zeros(n_owners, np.int64), []
        for part in parts:
            n += part.n
            found.append({name: _narrow(part.cells[name]) if n_owners == 1 else part.cells[name] for name in columns})
        # one column after the other, each part of it given back
        self._cells = {name: _join([part.pop(name) for part in found]) for name in columns}
        ids, self._n = self._cells.pop("id"), n
        self._starts = np.cumsum(n) - n
        self._first = np.zeros(n_owners, np.int64)
        self._first[n > 0] = ids[self._starts[n > 0]]
        counted = np.array_equal(ids, np.arange(len(ids)) + np.repeat(self._first - self._starts, n))
        self._lookup = None if counted else ByOwner(n, ids.astype(np.int64))

    def has(self, columns: Collection[str]) -> bool:
        return set(columns) <= {"id", *self._cells}

    def places(self, n: Ints, ids: Ints) -> tuple[Ints, Bools | None]:
        """The rows of ids; and which ids have none, unless all have one."""
        if self._lookup is not None:
            place = self._lookup(n, ids)
            outside = place < 0
            return place, outside if outside.any() else None
        low, high = _extremes(n, ids)
        if ((n == 0) | ((low >= self._first) & (high < self._first + self._n))).all():
            return ids + np.repeat(self._starts - self._first, n), None
        first = np.repeat(self._first, n)
        outside = (ids < first) | (ids >= first + np.repeat(self._n, n))
        return np.where(outside, 0, ids - first + np.repeat(self._starts, n)), outside

    def column(self, name: str, places: Ints, outside: Bools | None) -> Ints:
        """A column of rows; absent where there is no row."""
        column = self._cells[name]
        if not len(column):
            return np.full(len(places), MISSING)
        cells = column.take(places).astype(np.int64, copy=False)
        return cells if outside is None else np.where(outside, MISSING, cells)


def _narrow(column: Ints) -> Array:
    """Return numbers in 4 bytes each, where these suffice."""
    fits = not len(column) or (int(column.min()) >= -(2**31) and int(column.max()) < 2**31)
    return column.astype(np.int32) if fits else column


def _join(parts: Sequence[Array]) -> Array:
    return parts[0] if len(parts) == 1 else np.concatenate(parts or [NOTHING])


@dataclass(frozen=True)
class Tracks:
    """The tracks that samples are on: rows by id, and of each row its lane, its name and whether it has no thread."""

    rows: ByOwner
    lane: Ints
    name: Ids
    is_of_no_thread: Bools


class Lookups:
    """What the ids of data sets lead to, found out when it is asked for. Names are numbers of `names`."""

    def __init__(self, tables: OwnedTables, names: Names) -> None:
        self.tables, self.datasets, self.names = tables, tables.datasets, names
        self._kinds: list[int] = []
        self._events: EventRows | None = None

    def forget_events(self) -> None:
        self._events = None

    def events(self, ids: Ints, columns: Collection[str]) -> EventRows:
        """Rows of the event table, those with these ids at least. One that is not large is read once and kept."""
        if self._events is not None and self._events.has(columns):
            return self._events
        datasets = self.datasets
        is_small = len(datasets) > 1 or datasets[0].file.size_of(datasets[0].table_name("event")) <= MOST_KEPT
        raw = ("id", *sorted(columns))
        parts = self.tables.chunks("event", dict.fromkeys(raw, INTEGER), None if is_small else _range(ids))
        rows = EventRows(parts, raw, len(datasets))
        self._events = rows if is_small else None
        return rows

    @cached_property
    def columns(self) -> dict[str, set[str]]:
        """The columns that event tables have in any data set."""
        return {base: self.tables.columns(base) for base in EVENT_TABLES}

    @cached_property
    def counts(self) -> dict[str, Ints]:
        """Events of every data set, by table."""
        return {base: self.tables.n_rows(base) for base in EVENT_TABLES}

    # -- names ---------------------------------------------------------------------------------------------------------

    def _read_ids(self, base: str, **texts: Type) -> tuple[ByOwner, OwnedRows]:
        """A table by its ids; a data set that has one of them twice says so."""
        rows = self.tables.whole(base, {"id": INTEGER, **texts})
        known = ByOwner(rows.n, rows.cells["id"])
        if not known.is_unique:
            for dataset, ids in zip(self.datasets, np.split(rows.cells["id"], rows.firsts[1:]), strict=True):
                dataset.check_once(base, ids)
        return known, rows

    @cached_property
    def _strings(self) -> tuple[ByOwner, Ids]:
        """Rows of strings, and the number of each text; not yet, where only the texts that are used are read."""
        texts = {} if self.tables.reads_some_texts else {"string": TEXT}
        known, rows = self._read_ids("string", **texts)
        numbers = np.full(int(rows.n.sum()) + 1, NOT_YET, np.int32)
        numbers[-1] = ABSENT
        if texts:
            numbers[:-1] = self.names.numbers(rows.cells["string"].tolist())
        return known, numbers

    def strings(self, n: Ints, ids: Ints) -> Ids:
        """The names of strings; -1 for ids that have none."""
        known, numbers = self._strings
        rows = known(n, ids)
        out = numbers.take(rows)
        if int(out.min(initial=0)) != NOT_YET:
            return out
        is_used = np.zeros(len(numbers), np.bool_)
        is_used[rows] = True
        unknown: Ints | slice = np.flatnonzero(is_used & (numbers == NOT_YET))
        texts = self.tables.texts("string", "string", np.asarray(unknown))
        if texts is None:
            unknown, texts = slice(0, -1), self.tables.whole("string", {"string": TEXT}).cells["string"]
        numbers[unknown] = self.names.numbers(texts.tolist())
        return numbers.take(rows)

    @cached_property
    def _symbols(self) -> tuple[ByOwner, Ids]:
        chosen = [dataset.kernel_names for dataset in self.datasets]
        columns = ("display_name", "kernel_name", *(["extdata"] if any(chosen) else []))
        known, rows = self._read_ids("info_kernel_symbol", **dict.fromkeys(columns, TEXT))
        cells = (rows.cells[name].tolist() for name in ("id", *columns[:2]))
        names = [kernel_name(*row) for row in zip(*cells, strict=True)]
        if any(chosen):
            texts = np.split(rows.cells["extdata"], rows.firsts[1:])
            asked = [name for own, which in zip(texts, chosen, strict=True) for name in chosen_names(own, which)]
            names = [name or usual for name, usual in zip(asked, names, strict=True)]
        return known, np.append(self.names.numbers(names), np.int32(ABSENT))

    def kernels(self, n: Ints, ids: Ints) -> Ids:
        """The names of kernels."""
        known, numbers = self._symbols
        return numbers.take(known(n, ids))

    def kinds(self, category: Ids) -> Ids:
        """What events of these categories are."""
        self._kinds += [kind_of_category(text) for text in self.names.all[len(self._kinds) :]]
        return np.array([*self._kinds, kind_of_category("")], np.int32).take(category)

    # -- places --------------------------------------------------------------------------------------------------------

    @cached_property
    def _first_lanes(self) -> Ints:
        return _firsts([len(dataset.lanes) for dataset in self.datasets])

    @cached_property
    def _threads(self) -> tuple[ByOwner, Ints]:
        ids = [dataset.thread_ids for dataset in self.datasets]
        lanes = [own.thread_lanes + first for own, first in zip(self.datasets, self._first_lanes, strict=True)]
        return ByOwner(_lengths(ids), _join(ids)), np.append(_join(lanes), ABSENT)

    def threads(self, n: Ints, ids: Ints) -> Ints:
        """The lanes of threads; -1 for ids that have none."""
        known, lanes = self._threads
        return lanes.take(known(n, ids))

    @cached_property
    def tracks(self) -> Tracks:
        known, rows = self._read_ids("track", tid=INTEGER, name_id=INTEGER)
        lane, name = self.threads(rows.n, rows.cells["tid"]), self.strings(rows.n, rows.cells["name_id"])
        no_thread = np.append(rows.cells["tid"] == MISSING, False)
        return Tracks(known, np.append(lane, ABSENT), np.append(name, np.int32(ABSENT)), no_thread)

    @cached_property
    def unknown_lanes(self) -> Ints:
        """By data set, where events are that no thread is known of."""
        lanes = zip(self.datasets, self._first_lanes.tolist(), strict=True)
        return np.array([first + own.unknown_lane % max(1, len(own.lanes)) for own, first in lanes], np.int64)

    @cached_property
    def _agents(self) -> ByOwner:
        ids = [dataset.agent_ids for dataset in self.datasets]
        return ByOwner(_lengths(ids), _join(ids))

    def agents(self, n: Ints, ids: Ints) -> Ints:
        """The numbers of devices, over all data sets; -1 for ids that have none."""
        return self._agents(n, ids)

    @cached_property
    def is_gpu(self) -> Bools:
        """By the number of a device; the last is for none."""
        kinds = [device.kind == "GPU" for dataset in self.datasets for device in dataset.devices]
        return np.array([*kinds, False], np.bool_)

    @cached_property
    def _streams(self) -> tuple[Directory, int, Directory]:
        """From ids of streams to numbers, how many there are, and from devices and these numbers to lanes."""
        firsts = _firsts([len(dataset.devices) + 1 for dataset in self.datasets]).tolist()  # the first is for none
        used = [
            (first + 1 + device, stream, lane + first_lane)
            for dataset, first, first_lane in zip(self.datasets, firsts, self._first_lanes.tolist(), strict=True)
            for (device, stream), lane in dataset.streams.items()
        ]
        device, stream, lane = np.array(used, np.int64).reshape(-1, 3).T
        ids, number = np.unique(stream, return_inverse=True)
        width = len(ids) + 1  # the last is for ids that no data set has
        return Directory(ids, np.arange(len(ids))), width, Directory(device * width + number.reshape(-1), lane)

    def streams(self, n: Ints, devices: Ints, ids: Ints) -> Ints:
        """The lanes of streams, which are unique on a device only."""
        known, width, lanes = self._streams
        owner, first = np.arange(len(n)), _firsts([len(dataset.devices) for dataset in self.datasets])
        place = np.where(devices < 0, np.repeat(first + owner, n), devices + np.repeat(owner + 1, n))
        number = known[ids]
        out = lanes[place * width + np.where(number < 0, width - 1, number)]
        if len(out) and int(out.min()) < 0:  # a stream that was not there when the file was opened
            changed = self.datasets[int(np.searchsorted(np.cumsum(n), np.argmin(out), side="right"))]
            raise InputError(f"{changed.path}: was changed while it was read; wait until its writer has finished")
        return out


def kernel_name(id_: int, display: str | None, mangled: str | None) -> str:
    return display or (mangled or "").removesuffix(".kd") or f"kernel #{id_}"


def chosen_names(texts: Iterable[str | None], which: str) -> list[str]:
    """Of every kernel symbol, by the JSON that it has, the name that was chosen; empty where it has none."""
    return [str(json_object(text).get(FIELD_OF_NAME[which]) or "") if which else "" for text in texts]


def _range(ids: Ints) -> tuple[int, int]:
    """From the least to the largest id that is there."""
    known = ids[ids != MISSING]
    return (int(known.min()), int(known.max())) if len(known) else (0, -1)


def _lengths(parts: Sequence[Array]) -> Ints:
    return np.array([len(part) for part in parts], np.int64)


def _firsts(n: Sequence[int]) -> Ints:
    """Where each of several lists begins when they follow each other."""
    return np.cumsum(n, dtype=np.int64) - np.array(n, np.int64)


# Events.


class EventChunk:
    """Some rows of an event table, and the event columns that are made of them."""

    def __init__(self, lookups: Lookups, base: str, rows: OwnedRows) -> None:
        self._lookups, self._table = lookups, EVENT_TABLES[base]
        self._base, self._n, self._cells = base, rows.n, rows.cells

    def columns(self, names: Sequence[str]) -> dict[str, Array]:
        """The event columns asked for."""
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
        """The columns of the event table that an event column is made of."""
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
        """A column of ids; none where no data set has the column."""
        return self._cells[column] if column in self._cells else np.full(int(self._n.sum()), MISSING)

    def _count(self, column: str, is_lost: Bools | None, base: str = "") -> None:
        """Tell data sets how many of their ids lead to no row; None: not one of them."""
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
            return self._named(self._lookups.kernels, "kernel_id", "kernel")
        if self._base == "memory_allocate":
            types = self._cells.get("type", [None] * int(self._n.sum()))
            return self._lookups.names.numbers(list(types))
        if self._base == "sample":
            tracks = self._lookups.tracks
            track = tracks.name.take(tracks.rows(self._n, self._ids("track_id")))
            return np.where(track >= 0, track, self._category_names)
        return self._named(self._lookups.strings, "name_id", "string")

    def _named(self, lookup: Callable[[Ints, Ints], Ids], column: str, what: str) -> Ids:
        """Names by id; an id that has none gets one that says so."""
        ids = self._ids(column)
        out = lookup(self._n, ids)
        is_missing = (out < 0) & (ids != MISSING)
        self._count(column, is_missing)
        if is_missing.any():
            dangling, number = np.unique(ids[is_missing], return_inverse=True)
            names = self._lookups.names.numbers([f"<missing {what} {id_}>" for id_ in dangling.tolist()])
            out[is_missing] = names[number.reshape(-1)]
        return out

    @cached_property
    def _category_names(self) -> Ids:
        return self._lookups.strings(self._n, self._of_event("category_id"))

    def _category(self) -> Ids:
        """Categories that are no strings are none; they are counted."""
        ids = self._of_event("category_id")
        self._count("category_id", (self._category_names < 0) & (ids != MISSING), "event")
        return self._category_names

    @cached_property
    def _kinds(self) -> Ids:
        """Regions and samples are what their category says."""
        if "kind" in self._table.needs:
            return self._lookups.kinds(self._category_names)
        return np.full(int(self._n.sum()), self._table.kind, np.int32)

    def _label(self) -> Ids:
        """The name; of markers, the message that the event carries."""
        if "kind" not in self._table.needs:
            return self._names
        rows = np.flatnonzero(self._kinds == SpanKind.MARKER)
        if not len(rows):
            return self._names
        texts = self._lookups.tables.texts("event", "extdata", self._event_rows[0][rows])
        if texts is None or not all(map(is_json, set(texts.tolist()))):
            found = self._read_messages(rows)
        else:
            found = self._number_messages(texts)
        out = self._names.copy()
        out[rows] = np.where(found >= 0, found, out[rows])
        return out

    def _number_messages(self, texts: Array) -> Ids:
        message = {text: json_strings(text).get("message") for text in set(texts.tolist()) if text != NO_JSON}
        return self._lookups.names.numbers([message.get(text) for text in texts.tolist()])

    def _read_messages(self, rows: Ints) -> Ids:
        """The messages of some rows, data set by data set, with a note about those that are broken."""
        out = np.full(len(rows), ABSENT, np.int32)
        bounds = np.searchsorted(rows, np.append(0, np.cumsum(self._n))).tolist()
        ids = self._ids("event_id")[rows]
        for dataset, n_rows, first, end in zip(
            self._lookups.datasets, self._n.tolist(), bounds[:-1], bounds[1:], strict=True
        ):
            if first < end:
                out[first:end] = self._messages_of(dataset, ids[first:end], n_rows)
        return out

    def _messages_of(self, dataset: RocpdPlaces, ids: Ints, n_rows: int) -> Ids:
        table, out, n_broken = dataset.table_name("event"), np.full(len(ids), ABSENT, np.int32), 0
        columns, between = {"id": INTEGER, "extdata": TEXT}, (int(ids.min()), int(ids.max()))
        for part in dataset.file.chunks(table, columns, between, unlike=("extdata", NO_JSON)):
            broken = {text for text in set(part["extdata"].tolist()) if not is_json(text)}
            n_broken += sum(text in broken for text in part["extdata"]) if broken else 0
            found = Lookup(part["id"], self._number_messages(part["extdata"]))[ids]
            out = np.where(found >= 0, found, out)
        dataset.count_of_chunk(Severity.NOTE, f"{table}.extdata: {{}} texts are no JSON", n_broken, n_rows)
        return out

    # -- places --------------------------------------------------------------------------------------------------------

    def _lane(self) -> Ids:
        if "stream_id" in self._table.needs["lane"]:
            device = device_of([self._devices(name) for name in AGENT_COLUMNS], self._lookups.is_gpu)
            return self._lookups.streams(self._n, device, self._ids("stream_id")).astype(np.int32)
        if self._base == "sample":
            column, tracks, ids = "track_id", self._lookups.tracks, self._ids("track_id")
            rows = tracks.rows(self._n, ids)
            lane = tracks.lane.take(rows)
            is_lost = (lane < 0) & (ids != MISSING) & ~tracks.is_of_no_thread.take(rows)
        else:
            column, ids = "tid", self._ids("tid")
            lane = self._lookups.threads(self._n, ids)
            is_lost = (lane < 0) & (ids != MISSING)
        self._count(column, is_lost)
        if not len(lane) or int(lane.min()) >= 0:
            return lane.astype(np.int32)
        return np.where(lane >= 0, lane, np.repeat(self._lookups.unknown_lanes, self._n)).astype(np.int32)

    def _devices(self, column: str) -> Ints:
        """The devices that a column of agents names; -1 where it names none."""
        if column not in self._lookups.columns[self._base]:
            return np.broadcast_to(np.int64(ABSENT), int(self._n.sum()))
        ids = self._ids(column)
        device = self._lookups.agents(self._n, ids)
        self._count(column, (device < 0) & (ids != MISSING))
        return device


class RocpdEvents:
    """The events of data sets, each in a file of its own, read at once; spans number `names`."""

    def __init__(self, datasets: Sequence[RocpdPlaces], names: Names) -> None:
        self._datasets, self._names = datasets, names
        self._files = JoinedFiles([dataset.file for dataset in datasets], self._table_name)
        self._known: Lookups | None = None

    def _table_name(self, base: str, k: int) -> str:
        return self._datasets[k].table_name(base)

    @property
    def obstacle(self) -> str:
        """Why each data set has to be read by itself; empty where that is not so."""
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
        """A worker reads the files itself."""
        return {**self.__dict__, "_known": None}

    # -- events --------------------------------------------------------------------------------------------------------

    def count(self) -> int:
        return int(sum(self._lookups.counts.values(), NO_EVENTS).sum())

    def _before(self, base: str) -> Ints:
        """How many events of each data set come before those of a table."""
        counts = takewhile(lambda item: item[0] != base, self._lookups.counts.items())
        return sum((n for _, n in counts), np.zeros(len(self._datasets), np.int64))

    def _spans(self, base: str, rows: OwnedRows) -> Ints:
        """The numbers of the events of a table."""
        n_events = sum(self._lookups.counts.values(), NO_EVENTS)
        first = np.cumsum(n_events) - n_events + self._before(base)
        return np.arange(int(rows.n.sum())) + np.repeat(first - rows.firsts, rows.n)

    def events(self, columns: Sequence[str]) -> list[Events]:
        """Chunks of events, table by table; `lane` counts over all data sets."""
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
        """May any event carry the functions that led to it?"""
        return self._files.is_everywhere("event", "call_stack", NO_JSON) is not True

    def sizes(self, name: str) -> SideTable | None:
        """The bytes of copies or of allocations."""
        base = {"copy": "memory_copy", "alloc": "memory_allocate"}[name]
        rows = self._lookups.tables.whole(base, {"size": INTEGER})
        if not rows.n.any():
            return None
        return SideTable(self._spans(base, rows), {"bytes": or_absent(rows.cells["size"])})
