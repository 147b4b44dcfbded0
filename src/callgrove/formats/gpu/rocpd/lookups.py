"""Columns of rocprofv3's tables, of one data set or of several at once, and what the ids in them lead to.

Rows come as columns, and beside them `n`: how many rows each data set has, one after the other. One data set is the
case of a single number. Ids mean something in their data set only, so every look-up is by owner and id.

    OwnedTables     where columns come from: one file, in chunks; or several small files, each table at once
    EventRows       rows of the event table, which all other tables of events refer to
    Lookups         names, kinds, threads, devices and streams, by the ids that events have
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from callgrove.arrays import ABSENT, Array, Bools, Directory, Ids, Ints, Names
from callgrove.binary.sqlite.batch import JoinedFiles, OwnedRows
from callgrove.binary.sqlite.cells import MISSING, Type, json_object
from callgrove.binary.sqlite.database import version_of
from callgrove.binary.sqlite.plan import Slow
from callgrove.errors import InputError
from callgrove.formats.gpu.rocpd.owners import ByOwner, extremes
from callgrove.formats.gpu.rocpd.places import RocpdPlaces
from callgrove.formats.gpu.rocpd.tables import CATEGORIES, TABLES, TRACK_COLUMNS, kind_of_category

__all__ = ["EventRows", "Lookups", "OwnedTables", "Tracks", "choose_names"]

FIELD_OF_NAME = {"short": "truncated_kernel_name", "demangled": "demangled_kernel_name"}
INTEGER, TEXT = Type.INTEGER, Type.TEXT
MOST_KEPT = 256 << 20  # bytes of the event table: some 4 million rows, of which a column takes 4 bytes as a rule
NOT_YET = -2
NOTHING = np.empty(0, np.int64)


# Where columns come from.


class OwnedTables:
    """The tables of data sets, each in a file of its own. `joined`: these files read at once, where that is planned;
    a table that cannot be is read from every file by itself."""

    def __init__(self, datasets: Sequence[RocpdPlaces], joined: JoinedFiles | None) -> None:
        self.datasets, self._joined = datasets, joined

    @property
    def reads_some_texts(self) -> bool:
        """Return whether reading some texts of a table is cheaper than reading all of them."""
        return self._joined is not None

    def whole(self, base: str, columns: Mapping[str, Type]) -> OwnedRows:
        """Return columns of all rows of a table."""
        if self._joined is not None:
            return self._joined.all_rows(base, columns)
        return OwnedRows.join([data.file.table(data.table_name(base), columns) for data in self.datasets])

    def chunks(self, base: str, columns: Mapping[str, Type], between: tuple[int, int] | None) -> Iterator[OwnedRows]:
        """Yield columns of a table: of a single data set some rows at a time and between two row ids, of several all at
        once."""
        if len(self.datasets) > 1:
            yield self.whole(base, columns)
            return
        (dataset,) = self.datasets
        for cells in dataset.file.chunks(dataset.table_name(base), columns, between):
            yield OwnedRows(cells, np.array([len(next(iter(cells.values())))]))

    def texts(self, base: str, column: str, rows: Ints) -> Array | None:
        """Return a column of texts for some rows; None where all of it has to be read."""
        texts = None if self._joined is None else self._joined.texts(base, column, rows)
        return None if isinstance(texts, Slow) else texts

    def n_rows(self, base: str) -> Ints:
        """Return how many rows of an event table each data set has."""
        n = None if self._joined is None else self._joined.n_rows(base)
        if n is not None and not isinstance(n, Slow):
            return n
        return np.array([d.counts.get(d.table_name(base), 0) for d in self.datasets], np.int64)

    def columns(self, base: str) -> set[str]:
        """Return the columns that a table has in any data set."""
        if self._joined is not None:
            return self._joined.columns(base)
        every = {d.file.tables.get(d.table_name(base), ()) for d in self.datasets}
        return {name for columns in every for name in columns}


# What ids lead to.


class EventRows:
    """Rows of the event table by id; in most files ids count the rows."""

    def __init__(self, parts: Iterable[OwnedRows], columns: Sequence[str], n_owners: int) -> None:
        n, columns_of_parts = np.zeros(n_owners, np.int64), []
        for part in parts:
            n += part.n
            cells = {name: part.cells[name] for name in columns}
            columns_of_parts.append({name: _narrow(cell) for name, cell in cells.items()} if n_owners == 1 else cells)
        # one column after the other, each part of it given back
        self._cells = {name: _join([cells.pop(name) for cells in columns_of_parts]) for name in columns}
        ids, self._n = self._cells.pop("id"), n
        self._starts = np.cumsum(n) - n
        self._first = np.zeros(n_owners, np.int64)
        self._first[n > 0] = ids[self._starts[n > 0]]
        self._lookup = None if self._is_counted(ids) else ByOwner(n, ids.astype(np.int64))

    def _is_counted(self, ids: Array) -> bool:
        """Return whether the ids of every owner count its rows."""
        breaks, some = np.flatnonzero(ids[1:] != ids[:-1] + 1) + 1, self._n > 0
        if len(breaks) >= len(self._n) or not set(breaks.tolist()) <= set(self._starts.tolist()):
            return False
        last = ids[(self._starts + self._n - 1)[some]]
        return bool((last == (self._first + self._n - 1)[some]).all())

    def has(self, columns: Collection[str]) -> bool:
        return set(columns) <= {"id", *self._cells}

    def places(self, n: Ints, ids: Ints) -> tuple[Ints, Bools | None]:
        """Return the rows of ids, and which ids have none; None where all have one."""
        if self._lookup is not None:
            place = self._lookup(n, ids)
            outside = place < 0
            return place, outside if outside.any() else None
        low, high = extremes(n, ids)
        if ((n == 0) | ((low >= self._first) & (high < self._first + self._n))).all():
            return ids + np.repeat(self._starts - self._first, n), None
        first = np.repeat(self._first, n)
        outside = (ids < first) | (ids >= first + np.repeat(self._n, n))
        return np.where(outside, 0, ids - first + np.repeat(self._starts, n)), outside

    def column(self, name: str, places: Ints, outside: Bools | None) -> Ints:
        """Return a column at some rows; absent where there is no row."""
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
    """The tracks that samples, and in schema 4 all events, are on: rows by id, and of each row its lane, its name,
    whether it has no thread, and the ids of its agent, queue and stream. The last row stands for no track."""

    rows: ByOwner
    lane: Ints
    name: Ids
    is_of_no_thread: Bools
    ids: Mapping[str, Ints]


class Lookups:
    """A mapping from the ids of data sets to what they refer to, read when it is first needed. Names are numbers of
    `names`."""

    def __init__(self, tables: OwnedTables, names: Names) -> None:
        self.tables, self.datasets, self.names = tables, tables.datasets, names
        self._kinds: list[int] = []
        self._events: EventRows | None = None

    def forget_events(self) -> None:
        self._events = None

    def events(self, ids: Ints, columns: Collection[str]) -> EventRows:
        """Return the rows of the event table, at least those with these ids. A table that is not large is read once and
        kept."""
        if self._events is not None and self._events.has(columns):
            return self._events
        is_small, raw = self._has_few_events(), ("id", *sorted(columns))
        parts = self.tables.chunks("event", dict.fromkeys(raw, INTEGER), None if is_small else _range(ids))
        rows = EventRows(parts, raw, len(self.datasets))
        self._events = rows if is_small else None
        return rows

    def _has_few_events(self) -> bool:
        """Return whether the event table is not large, as in a small file or one of several."""
        first = self.datasets[0]
        if len(self.datasets) > 1 or version_of(first.path)[0] <= MOST_KEPT:
            return True
        return first.file.size_of(first.table_name("event")) <= MOST_KEPT

    @cached_property
    def columns(self) -> dict[str, set[str]]:
        """Return the columns that event tables have in any data set."""
        return {base: self.tables.columns(base) for base in TABLES}

    @cached_property
    def counts(self) -> dict[str, Ints]:
        """Return the number of events of every data set, by table."""
        return {base: self.tables.n_rows(base) for base in TABLES}

    # -- names ---------------------------------------------------------------------------------------------------------

    def _read_ids(self, base: str, **texts: Type) -> tuple[ByOwner, OwnedRows]:
        """Read a table by its ids, and warn about ids that a data set has twice."""
        rows = self.tables.whole(base, {"id": INTEGER, **texts})
        known = ByOwner(rows.n, rows.cells["id"])
        if not known.is_unique:
            for dataset, ids in zip(self.datasets, np.split(rows.cells["id"], rows.firsts[1:]), strict=True):
                dataset.check_once(base, ids)
        return known, rows

    @cached_property
    def _strings(self) -> tuple[ByOwner, Ids]:
        """Return the rows of strings and the number of each text; no numbers yet where only the texts in use are
        read."""
        texts = {} if self.tables.reads_some_texts else {"string": TEXT}
        known, rows = self._read_ids("string", **texts)
        numbers = np.full(int(rows.n.sum()) + 1, NOT_YET, np.int32)
        numbers[-1] = ABSENT
        if texts:
            numbers[:-1] = self.names.numbers(rows.cells["string"].tolist())
        return known, numbers

    def strings(self, n: Ints, ids: Ints) -> Ids:
        """Return the names of strings; -1 for ids that have none."""
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
    def _categories(self) -> tuple[ByOwner, Ids]:
        known, rows = self._read_ids(CATEGORIES, name=TEXT)
        return known, np.append(self.names.numbers(rows.cells["name"].tolist()), np.int32(ABSENT))

    @cached_property
    def _has_categories(self) -> Bools:
        """Return which data sets list categories in a table of their own, as schema 4 does."""
        return np.array([d.table_name(CATEGORIES) in d.file.tables for d in self.datasets], np.bool_)

    def categories(self, n: Ints, ids: Ints) -> Ids:
        """Return the names of categories; -1 for ids that have none."""
        if not self._has_categories.any():
            return self.strings(n, ids)
        known, numbers = self._categories
        names, is_listed = numbers.take(known(n, ids)), np.repeat(self._has_categories, n)
        return (
            names if is_listed.all() else np.where(is_listed, names, self.strings(n, np.where(is_listed, MISSING, ids)))
        )

    @cached_property
    def _symbols(self) -> tuple[ByOwner, Ids]:
        chosen = [dataset.kernel_names for dataset in self.datasets]
        columns = ("display_name", "kernel_name", *(["extdata"] if any(chosen) else []))
        known, rows = self._read_ids("info_kernel_symbol", **dict.fromkeys(columns, TEXT))
        cells = (rows.cells[name].tolist() for name in ("id", *columns[:2]))
        names = [kernel_name(*row) for row in zip(*cells, strict=True)]
        if any(chosen):
            texts = np.split(rows.cells["extdata"], rows.firsts[1:])
            asked = [name for part, which in zip(texts, chosen, strict=True) for name in choose_names(part, which)]
            names = [name or usual for name, usual in zip(asked, names, strict=True)]
        return known, np.append(self.names.numbers(names), np.int32(ABSENT))

    def kernels(self, n: Ints, ids: Ints) -> Ids:
        """Return the names of kernels."""
        known, numbers = self._symbols
        return numbers.take(known(n, ids))

    def kinds(self, category: Ids) -> Ids:
        """Return the kinds of events of these categories."""
        self._kinds += [kind_of_category(text) for text in self.names.all[len(self._kinds) :]]
        return np.array([*self._kinds, kind_of_category("")], np.int32).take(category)

    # -- places --------------------------------------------------------------------------------------------------------

    @cached_property
    def _first_lanes(self) -> Ints:
        return _firsts([dataset.n_lanes for dataset in self.datasets])

    @cached_property
    def _threads(self) -> tuple[ByOwner, Ints]:
        ids = [dataset.thread_ids for dataset in self.datasets]
        lanes = [d.thread_lanes + first for d, first in zip(self.datasets, self._first_lanes, strict=True)]
        return ByOwner(_lengths(ids), _join(ids)), np.append(_join(lanes), ABSENT)

    def threads(self, n: Ints, ids: Ints) -> Ints:
        """Return the lanes of threads; -1 for ids that have none."""
        known, lanes = self._threads
        return lanes.take(known(n, ids))

    @cached_property
    def tracks(self) -> Tracks:
        known, rows = self._read_ids("track", name_id=INTEGER, **dict.fromkeys(TRACK_COLUMNS, INTEGER))
        lane, name = self.threads(rows.n, rows.cells["tid"]), self.strings(rows.n, rows.cells["name_id"])
        no_thread = np.append(rows.cells["tid"] == MISSING, False)
        ids = {column: np.append(rows.cells[column], MISSING) for column in TRACK_COLUMNS}
        return Tracks(known, np.append(lane, ABSENT), np.append(name, np.int32(ABSENT)), no_thread, ids)

    @cached_property
    def unknown_lanes(self) -> Ints:
        """Return, by data set, the lane of events whose thread is unknown; -1 where it has none."""
        lanes = np.array([dataset.unknown_lane for dataset in self.datasets], np.int64)
        return np.where(lanes < 0, ABSENT, lanes + self._first_lanes)

    @cached_property
    def _agents(self) -> ByOwner:
        ids = [dataset.agent_ids for dataset in self.datasets]
        return ByOwner(_lengths(ids), _join(ids))

    def agents(self, n: Ints, ids: Ints) -> Ints:
        """Return the numbers of devices over all data sets; -1 for ids that have none."""
        return self._agents(n, ids)

    @cached_property
    def is_gpu(self) -> Bools:
        """Return, by the number of a device, whether it is a GPU; the last entry stands for no device."""
        return np.append(np.concatenate([dataset.are_gpus for dataset in self.datasets]), False)

    @cached_property
    def _streams(self) -> tuple[Directory, int, Directory]:
        """Return the numbers of streams by id, how many numbers there are, and the lanes by device and number."""
        every = [dataset.streams for dataset in self.datasets]
        n = _lengths([streams.id for streams in every])
        firsts = _firsts([dataset.n_devices + 1 for dataset in self.datasets])  # the first is for none
        device = np.concatenate([streams.device for streams in every]) + np.repeat(firsts + 1, n)
        lane = np.concatenate([streams.lane for streams in every]) + np.repeat(self._first_lanes, n)
        ids, number = np.unique(np.concatenate([streams.id for streams in every]), return_inverse=True)
        width = len(ids) + 1  # the last is for ids that no data set has
        return Directory(ids, np.arange(len(ids))), width, Directory(device * width + number.reshape(-1), lane)

    def streams(self, n: Ints, devices: Ints, ids: Ints) -> Ints:
        """Return the lanes of streams, whose ids are unique on a device only; -1 for those that have none."""
        known, width, lanes = self._streams
        owner, first = np.arange(len(n)), _firsts([dataset.n_devices for dataset in self.datasets])
        place = devices + np.repeat(owner + 1, n)
        if len(devices) and int(devices.min()) < 0:
            place = np.where(devices < 0, np.repeat(first + owner, n), place)
        number = known[ids]
        number[number < 0] = width - 1
        return lanes[place * width + number]

    def require_lanes(self, n: Ints, lanes: Ints) -> Ids:
        """Return lanes, after checking that all were known when the files were opened."""
        if len(lanes) and int(lanes.min()) < 0:
            changed = self.datasets[int(np.searchsorted(np.cumsum(n), np.argmin(lanes), side="right"))]
            raise InputError(f"{changed.path}: was changed while it was read; wait until its writer has finished")
        return lanes.astype(np.int32)


def kernel_name(id_: int, display: str | None, mangled: str | None) -> str:
    return display or (mangled or "").removesuffix(".kd") or f"kernel #{id_}"


def choose_names(texts: Iterable[str | None], which: str) -> list[str]:
    """Return the name of the chosen kind from the JSON of every kernel symbol; empty where it has none."""
    return [str(json_object(text).get(FIELD_OF_NAME[which]) or "") if which else "" for text in texts]


def _range(ids: Ints) -> tuple[int, int]:
    """Return the least and the largest id, without absent ones."""
    known = ids[ids != MISSING]
    return (int(known.min()), int(known.max())) if len(known) else (0, -1)


def _lengths(parts: Sequence[Array]) -> Ints:
    return np.array([len(part) for part in parts], np.int64)


def _firsts(n: Sequence[int]) -> Ints:
    """Return where each of several lists begins when they follow each other."""
    return np.cumsum(n, dtype=np.int64) - np.array(n, np.int64)
