"""Event tables of SQLite files, and a data set that is made of them.

A family says for each of its tables which raw columns an event column needs, and how it is made of them:

    EventTable("rocpd_op", SpanKind.KERNEL, {"start_ns": ("start",), "lane": ("gpuId", "queueId"), ...})
    make_column(table, "lane", cells)    the numbers of lanes, from the cells of these columns

Only what was asked for is read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from callgrove.arrays import ABSENT, MISSING, Array, Bools, Ids, Ints, Names
from callgrove.binary.sqlite.cells import Cells, Lookup, Type
from callgrove.binary.sqlite.database import SqliteFile
from callgrove.errors import CorruptFile
from callgrove.formats.events.dataset import CounterRows, DeviceColumns, Events, Lane, LaneColumns, Process, Stacks
from callgrove.model.experiment import InputWarning, Severity
from callgrove.model.table import Table
from callgrove.model.traces.events import Device, SideTable, SpanKind

__all__ = ["NOTHING", "EventTable", "Extra", "TableData", "extra_table", "or_absent"]


# Columns of event tables that no reader knows: kept as rows of (span, name, value), so that nothing a newer profiler
# writes is lost.
#
# Specification: gpu-traces.md 1.3. They are read when somebody asks for the side table `extra`. Cells that hold nothing
# (NULL, '', {}) have no row.


NOTHING = ("", "{}", "[]")


class Extra(NamedTuple):
    """Cells of one unknown column: text or None."""

    name: str
    span: Ints
    value: Array


def extra_table(extras: Iterable[Extra]) -> SideTable | None:
    """Return the cells that hold something as one side table, by span; None where there are none."""
    filled = [extra for extra in map(_fill, extras) if len(extra.span)]
    if not filled:
        return None
    span = np.concatenate([extra.span for extra in filled])
    order = np.argsort(span, kind="stable")
    names = np.repeat(np.array([extra.name for extra in filled], object), [len(extra.span) for extra in filled])
    return SideTable(span[order], {"name": names[order], "value": _join([extra.value for extra in filled])[order]})


def _fill(extra: Extra) -> Extra:
    has_value = np.array([cell is not None and cell not in NOTHING for cell in extra.value.tolist()], np.bool_)
    return Extra(extra.name, extra.span[has_value], extra.value[has_value])


def _join(columns: Sequence[Array]) -> Array:
    return np.concatenate([*columns, np.empty(0, object)])


TIME_COLUMNS = ("start", "end", "start_time", "end_time", "timestamp")


class EventTable(NamedTuple):
    """A table whose rows are events of one kind, unless the reader of a format finds the kind row by row."""

    name: str
    kind: SpanKind
    needs: Mapping[str, Sequence[str]]  # event column -> raw columns; "kept": those that tell which rows are events
    texts: frozenset[str] = frozenset()  # raw columns that hold text
    times: frozenset[str] = frozenset()  # raw columns that hold times, which may be dates

    def raw(self, columns: Sequence[str]) -> dict[str, Type]:
        """Return the raw columns that some event columns are made of; `rowid` is always among them."""
        names = ["rowid", *(name for column in (*columns, "kept") for name in self.needs.get(column, ()))]
        return {name: self._type(name) for name in names}

    @property
    def times_needed(self) -> list[str]:
        """Return the raw columns without which its rows have no place in time."""
        raw = (*self.needs.get("start_ns", ()), *self.needs.get("end_ns", ()))
        return list(dict.fromkeys(name for name in raw if name in TIME_COLUMNS))

    def _type(self, name: str) -> Type:
        if name in self.times:
            return Type.TIME
        return Type.TEXT if name in self.texts else Type.INTEGER


class TableData(ABC):
    """A data set made of event tables."""

    processes: Sequence[Process]
    devices: Sequence[Device]
    lanes: Sequence[Lane]
    version: str

    def __init__(self, file: SqliteFile, is_checked: bool = False) -> None:
        """Begin a data set of a file. `is_checked` says that its event tables are known to have the columns that give
        their rows a time."""
        self._file, self._tables_of_file = file, file.tables
        for table in () if is_checked else self._tables:
            self.require(table.name, *table.times_needed)
        self._names = Names()
        self._warnings: list[InputWarning] = []
        self.kernel_names = ""  # `short` or `demangled`; without a word, as the profiler's own tools
        self._counted: dict[tuple[Severity, str], dict[int, int]] = {}  # what -> first row of a chunk -> how many
        self._chunk = 0

    @cached_property
    def _tables(self) -> list[EventTable]:
        """Return the event tables that the file had when it was opened."""
        return [table for table in self.list_event_tables() if table.name in self._tables_of_file]

    @abstractmethod
    def list_event_tables(self) -> Sequence[EventTable]:
        """Return the event tables that files of this kind may have."""

    def lane_columns(self) -> LaneColumns:
        return LaneColumns.of(self.lanes)

    def device_columns(self) -> DeviceColumns:
        return DeviceColumns.of(self.devices)

    @property
    def file(self) -> SqliteFile:
        return self._file

    @property
    def path(self) -> Path:
        return self._file.path

    @property
    def live(self) -> bool:
        return self._file.live

    @property
    def is_shareable(self) -> bool:
        return not self.live

    @property
    def strings(self) -> Sequence[str]:
        return self._names.all

    @property
    def warnings(self) -> Sequence[InputWarning]:
        """Return the warnings so far; cells that are not numbers show only when they are read."""
        strange = [
            InputWarning(Severity.DAMAGE, f"{self.path}: {place}: {n} cells are not numbers; they read as absent")
            for place, n in self._file.strange.items()
        ]
        counted = [
            InputWarning(severity, f"{self.path}: {text.format(sum(n.values()))}")
            for (severity, text), n in self._counted.items()
            if n
        ]
        return [*self._warnings, *strange, *counted]

    def require(self, table: str, *columns: str) -> None:
        """Raise an error if a table exists without these columns."""
        missing = [name for name in columns if table in self._file.tables and not self._file.has(table, name)]
        if missing:
            raise CorruptFile(
                self.path,
                table,
                expected=f"the columns {' and '.join(columns)}",
                found=f"no {missing[0]}",
                remedy="'callgrove dump' shows what the table has",
            )

    def once(self, table: str, ids: Ints) -> None:
        """Warn about ids that a table has twice, of which the first row counts."""
        again = len(ids) - len(set(ids.tolist()))
        if again:
            self.warn(Severity.DAMAGE, f"{table}: {again} ids are there twice; the first row of each counts")

    def warn(self, severity: Severity, text: str) -> None:
        self._warnings.append(InputWarning(severity, f"{self.path}: {text}"))

    def choose_kernel_names(self, which: str) -> None:
        """Say which name of a kernel counts, where there are several: `short` or `demangled`."""
        self.kernel_names = which

    def name_unread(self, tables: Iterable[str], meanings: Mapping[str, str]) -> None:
        """Add a note about those tables that have rows, with what they hold where that is known."""
        filled = [name for name in tables if self._may_have_rows(name)]
        if filled:
            listed = ", ".join(f"{name} ({meanings[name]})" if name in meanings else name for name in filled)
            self.warn(Severity.NOTE, f"not read: {listed}")

    def _may_have_rows(self, table: str) -> bool:
        """Return whether a table has rows, or is damaged and may have some."""
        try:
            return bool(self._file.first_rows(table, 1))
        except CorruptFile:
            return True

    def close(self) -> None:
        self._file.close()

    # -- events ------------------------------------------------------------------------------------------------------

    @cached_property
    def counts(self) -> dict[str, int]:
        """Return the number of rows of every event table."""
        return self.count_tables()

    def count_tables(self) -> dict[str, int]:
        with self._file.reading():
            return {table.name: self._count(table) for table in self._tables}

    def _count(self, table: EventTable) -> int:
        if "kept" not in table.needs:
            return self._file.count(table.name)
        masks = (self.select_rows(table, cells) for cells in self._file.chunks(table.name, table.raw(())))
        return sum(int(rows.sum()) for rows in masks if rows is not None)

    def count(self) -> int:
        return sum(self.counts.values())

    def first(self, table: str) -> int:
        """Return the number of a table's first event; for a missing table, the number after all events."""
        return sum(self.counts[name] for name in takewhile(lambda name: name != table, self.counts))

    def events(self, columns: Sequence[str]) -> Iterator[Events]:
        first = 0
        with self._file.reading():
            for table in self._tables:
                for every in self._file.chunks(table.name, table.raw(columns)):
                    is_event = self.select_rows(table, every)
                    cells = every if is_event is None else {name: column[is_event] for name, column in every.items()}
                    n = len(cells["rowid"])
                    self.begin_chunk(first)
                    self.prepare(table, columns, cells)
                    values = {column: self.make_column(table, column, cells) for column in columns}
                    yield {"span": np.arange(first, first + n), **values}
                    first += n

    def select_rows(self, table: EventTable, cells: Cells) -> Bools | None:
        """Return which rows of a chunk are events; None if all are."""
        return None

    def prepare(self, table: EventTable, columns: Sequence[str], cells: Cells) -> None:
        """Look up what several columns of a chunk need."""
        return

    @abstractmethod
    def make_column(self, table: EventTable, column: str, cells: Cells) -> Array:
        """Return one event column of a chunk."""

    def kinds(self, table: EventTable, cells: Cells) -> Ids:
        return np.full(len(cells["rowid"]), table.kind, np.int32)

    # -- what only some events have ------------------------------------------------------------------------------------

    @abstractmethod
    def side(self, name: str) -> SideTable | None: ...

    def has_side(self, name: str) -> bool:
        return self.side(name) is not None

    def side_chunks(self, name: str) -> Iterator[SideTable]:
        """Yield a side table by rising numbers of events. Readers of formats with large tables yield it in pieces."""
        table = self.side(name)
        if table is not None and len(table.span):
            yield table.take(np.argsort(table.span, kind="stable"))

    def counters(self) -> CounterRows | None:
        return None

    def stacks(self) -> Stacks | None:
        return None

    def tables(self) -> Mapping[str, Callable[[], Table]]:
        return {}

    def side_of(self, table: str, columns: Mapping[str, str], texts: Sequence[str] = ()) -> SideTable | None:
        """Return columns of an event table, unchanged, as a side table; `columns` maps new names to raw names."""
        pieces = list(self.side_pieces(table, columns, texts))
        if not pieces:
            return None
        return SideTable(
            np.concatenate([piece.span for piece in pieces]),
            {name: np.concatenate([np.asarray(piece.columns[name]) for piece in pieces]) for name in columns},
        )

    def side_pieces(self, table: str, columns: Mapping[str, str], texts: Sequence[str] = ()) -> Iterator[SideTable]:
        """Yield columns of an event table as a side table, some rows at a time."""
        if table not in self.counts or not self.counts[table]:
            return
        raw = {name: Type.TEXT if name in texts else Type.INTEGER for name in ("rowid", *columns.values())}
        first = self.first(table)
        for cells in self._file.chunks(table, raw):
            values = {new: cells[old] if old in texts else or_absent(cells[old]) for new, old in columns.items()}
            n = len(cells["rowid"])
            yield SideTable(np.arange(first, first + n), values)
            first += n

    def gpus_called(self, numbers: Ints) -> Ids:
        """Return the first device of the data set with each of these indices; -1 where there is none."""
        gpus = [(device.index, k) for k, device in enumerate(self.devices) if device.kind == "GPU"]
        index, place = np.array(gpus, np.int64).reshape(-1, 2).T
        return Lookup(index, place)[numbers]

    # -- unknown columns -----------------------------------------------------------------------------------------------

    def find_known_columns(self, table: EventTable) -> Collection[str]:
        """Return the columns of an event table that the reader uses or that the specification lists."""
        return {name for needs in table.needs.values() for name in needs}

    def extras(self) -> Iterator[Extra]:
        """Yield the cells of all other columns of event tables."""
        for table in self._tables:
            known = {*self.find_known_columns(table), *table.raw(())}
            unknown = [name for name in self._file.tables[table.name] if name not in known]
            yield from self._columns_as_text(table, unknown) if unknown else ()

    def _columns_as_text(self, table: EventTable, columns: Sequence[str]) -> Iterator[Extra]:
        first = self.first(table.name)
        for cells in self._file.chunks(table.name, table.raw(()) | dict.fromkeys(columns, Type.TEXT)):
            is_event = self.select_rows(table, cells)
            rows = np.arange(len(cells["rowid"])) if is_event is None else np.flatnonzero(is_event)
            for name in columns:
                yield Extra(name, np.arange(first, first + len(rows)), cells[name][rows])
            first += len(rows)

    def extra(self) -> SideTable | None:
        """Return the side table `extra`, with the cells of unknown columns."""
        with self._file.reading():
            return extra_table(self.extras())

    # -- names ---------------------------------------------------------------------------------------------------------

    def begin_chunk(self, first: int) -> None:
        """Set the chunk that following counts belong to, by the number of its first event."""
        self._chunk = first

    @property
    def has_counted(self) -> bool:
        return bool(self._counted)

    def leads_nowhere(self, place: str, n: int, n_rows: int = 0) -> None:
        """Count ids of the current chunk that refer to no row."""
        if place:
            self.count_of_chunk(Severity.DAMAGE, f"{place}: {{}} ids lead to no row", n, n_rows)

    def count_of_chunk(self, severity: Severity, text: str, n: int, n_rows: int = 0) -> None:
        """Set the number of a warning for the current chunk. Numbers are added up over chunks, and reading a chunk
        again changes nothing. `n_rows` is the size of the chunk, if the next pass may read chunks of other sizes."""
        key, again = (severity, text), range(self._chunk, self._chunk + n_rows)
        counted = {first: k for first, k in self._counted.get(key, {}).items() if first not in again}
        if n:
            counted[self._chunk] = n
        if counted or key in self._counted:
            self._counted[key] = counted

    def look_up_names(self, lookup: Lookup, ids: Ints, kind: str, place: str = "") -> Ids:
        """Return names by id. An id without a name gets one that says so, and is counted for `place`, its column."""
        out = lookup[ids]
        missing = np.flatnonzero((out < 0) & (ids != MISSING))
        self.leads_nowhere(place, len(missing))
        if len(missing):
            dangling = np.unique(ids[missing])
            names = self._names.numbers([f"<missing {kind} {id_}>" for id_ in dangling.tolist()])
            out[missing] = names[np.searchsorted(dangling, ids[missing])]
        return out


def or_absent(cells: Ints) -> Ints:
    """Replace absent integers by the model's mark for them."""
    return np.where(cells == MISSING, ABSENT, cells)
