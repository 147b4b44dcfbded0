"""The database of rocprofv3 (rocpd, schema 3): one set of suffixed tables per process, several in a file.

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
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial

import numpy as np

from callgrove.arrays import Array, Ids, Ints, distinct_rows
from callgrove.binary.sqlite.cells import MISSING, Cells, Lookup, Type, is_json, json_object, json_strings
from callgrove.binary.sqlite.database import SqliteFile
from callgrove.errors import CorruptFile
from callgrove.formats.gpu.dataset import CounterRows, Events
from callgrove.formats.gpu.event_tables import EventTable, Extra, or_absent
from callgrove.formats.gpu.rocpd.places import ReadBefore, RocpdPlaces, suffixes
from callgrove.formats.gpu.rocpd.span_attributes import (
    FROM_EVENTS,
    OF_EVENTS,
    counter_rows,
    event_extras,
    region_names,
    side_pieces,
    side_table,
)
from callgrove.formats.gpu.rocpd.tables import COLUMNS, INFO_TABLES, columns_of, info_table, kind_of_category
from callgrove.model.experiment import Severity
from callgrove.model.table import Table
from callgrove.model.traces.events import SideTable, SpanKind

__all__ = ["EventRows", "RocpdData", "datasets"]


# Rows of the table that calls, kernels and copies refer to for their category and correlation.


class EventRows:
    """Rows of the event table by their id, which as a rule counts them."""

    def __init__(self, parts: Iterable[Cells], columns: Sequence[str]) -> None:
        found = [{name: _narrow(part[name]) for name in columns} for part in parts]
        nothing = [np.empty(0, np.int64)]
        # one column after the other, each part of it given back
        self._cells = {name: np.concatenate([part.pop(name) for part in found] or nothing) for name in columns}
        ids = self._cells.pop("id")
        self._first, self._n = (int(ids[0]) if len(ids) else 0), len(ids)
        counted = np.array_equal(ids, np.arange(self._first, self._first + self._n))
        self._lookup = None if counted else Lookup(ids.astype(np.int64), np.arange(self._n))

    def has(self, columns: Collection[str]) -> bool:
        return set(columns) <= {"id", *self._cells}

    def of(self, ids: Ints, columns: Collection[str], nowhere: Callable[[int], None]) -> Cells:
        """Columns for these ids; absent where there is no such row, and `nowhere` is told of how many that is so."""
        place = ids - self._first if self._lookup is None else self._lookup[ids]
        outside = (place < 0) | (place >= self._n)
        if outside.any():
            nowhere(int((ids[outside] != MISSING).sum()))
        if not self._n:
            return {name: np.full(len(ids), MISSING) for name in columns}
        if outside.any():
            place = np.where(outside, 0, place)
        cells = {name: self._cells[name].take(place).astype(np.int64) for name in columns}
        return {name: np.where(outside, MISSING, cell) for name, cell in cells.items()} if outside.any() else cells


def _narrow(column: Ints) -> Array:
    """Return numbers in 4 bytes each, where these suffice."""
    fits = not len(column) or (int(column.min()) >= -(2**31) and int(column.max()) < 2**31)
    return column.astype(np.int32) if fits else column


STRAY = re.compile(r"rocpd_(region|kernel_dispatch|memory_copy|memory_allocate|sample|info_\w+?)")
UNREAD = {
    "graph_launch": "launches of graphs",
    "hip_event": "waits and signals of HIP events",
    "event_operation": "waits and signals of HIP events",
}
FIELD_OF_NAME = {"short": "truncated_kernel_name", "demangled": "demangled_kernel_name"}
INTEGER, TEXT = Type.INTEGER, Type.TEXT
MOST_KEPT = 256 << 20  # bytes of the event table: some 4 million rows, of which a column takes 4 bytes as a rule


def datasets(file: SqliteFile, before: ReadBefore | None = None) -> list[RocpdData]:
    """Every process of a file. Tables whose suffix no metadata table has belong to nobody. What was read before may be
    told where there is one process."""
    known = suffixes(file)
    owned = {f"rocpd_{base}{suffix}" for suffix in known for base in (*COLUMNS, *UNREAD)}
    stray = [name for name in file.tables if STRAY.match(name) and name not in owned]
    if not known:
        raise CorruptFile(
            file.path, "rocpd_metadata", expected="a table that says whose these are", found=f"only {', '.join(stray)}"
        )
    out = [RocpdData(file, suffix, before if len(known) == 1 else None) for suffix in known]
    for view in sorted(owned & file.schema.views):
        out[0].warn(Severity.DAMAGE, f"{view}: is a view, and SQL of a file is never run; its rows are left out")
    read = {f"rocpd_{base}{suffix}" for suffix in known for base in COLUMNS}
    unread = [name for name in file.tables if name not in read and name not in stray]
    meanings = {f"rocpd_{base}{suffix}": what for base, what in UNREAD.items() for suffix in known}
    out[0].name_unread(unread, meanings)
    if stray:
        out[0].warn(Severity.DAMAGE, f"{', '.join(stray)}: no metadata says whose these are; they are left out")
    return out


def kernel_name(id_: int, display: str | None, mangled: str | None) -> str:
    return display or (mangled or "").removesuffix(".kd") or f"kernel #{id_}"


def _range(ids: Ints) -> tuple[int, int]:
    """From the least to the largest id that is there."""
    known = ids[ids != MISSING]
    return (int(known.min()), int(known.max())) if len(known) else (0, -1)


class RocpdData(RocpdPlaces):
    """One process's tables."""

    _kept_events: EventRows | None = None
    _event_rows: Cells

    @cached_property
    def _kernel_names(self) -> Lookup:
        rows = self.small("info_kernel_symbol", id=INTEGER, display_name=TEXT, kernel_name=TEXT)
        columns = (rows[name].tolist() for name in ("id", "display_name", "kernel_name"))
        names = [kernel_name(*row) for row in zip(*columns, strict=True)]
        if self.kernel_names:
            names = [asked or name for asked, name in zip(self._names_asked_for, names, strict=True)]
        return Lookup(rows["id"], self._names.numbers(names))

    @property
    def _names_asked_for(self) -> list[str]:
        """Of every kernel symbol, the name that was chosen; empty where it has none."""
        extdata = self.small("info_kernel_symbol", extdata=TEXT)["extdata"].tolist()
        return [str(json_object(text).get(FIELD_OF_NAME[self.kernel_names]) or "") for text in extdata]

    def choose_kernel_names(self, which: str) -> None:
        super().choose_kernel_names(which)
        if missing := self._names_asked_for.count(""):
            text = f"{missing} kernel symbols have no {which} name; their kernels go by the usual one"
            self.warn(Severity.NOTE, f"{self.table_name('info_kernel_symbol')}: {text}")

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
        track, category = self._track_names[cells["track_id"]], self._string_names[self._event_rows["category_id"]]
        return np.where(track >= 0, track, category).astype(np.int32)

    @cached_property
    def _track_names(self) -> Lookup:
        """What happens on tracks: the category as a rule, of OpenMP's events which one it is."""
        rows = self.small("track", id=INTEGER, name_id=INTEGER)
        return Lookup(rows["id"], self._string_names[rows["name_id"]])

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
        return np.array([kind_of_category(text) for text in [*self._names.all, ""]], np.int32)

    def _lane(self, table: EventTable, cells: Cells) -> Ids:
        if "stream_id" in cells:
            device, stream = self._device(cells), cells["stream_id"]
            for column in ("agent_id", "dst_agent_id", "src_agent_id"):
                unknown = (cells[column] != MISSING) & (self._agents[cells[column]] < 0)
                self.leads_nowhere(f"{table.name}.{column}", int(unknown.sum()))
            pairs, where = distinct_rows(device, stream)
            return np.array([self.streams[int(d), int(s)] for d, s in pairs.T], np.int32)[where]
        column, known = ("track_id", self._track_lanes) if "track_id" in cells else ("tid", self._threads)
        lane = known[cells[column]]
        unknown = (lane < 0) & (cells[column] != MISSING)
        if column == "track_id" and unknown.any():
            unknown &= ~np.isin(cells[column], self._tracks_of_no_thread)
        self.leads_nowhere(f"{table.name}.{column}", int(unknown.sum()))
        return np.where(lane >= 0, lane, self._nowhere).astype(np.int32)

    @cached_property
    def _tracks_of_no_thread(self) -> Ints:
        """Those of a device, or of the whole process."""
        rows = self.small("track", id=INTEGER, tid=INTEGER)
        return np.asarray(rows["id"][rows["tid"] == MISSING])

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
        """Arguments are counted: there may be more of them than of anything else. Of events, one piece is enough."""
        if name in FROM_EVENTS:
            return any(True for _ in self.side_chunks(name))
        return super().has_side(name) if name != "argument" else self._file.count(self.table_name("arg")) > 0

    def side_chunks(self, name: str) -> Iterator[SideTable]:
        """Tables of events may be large: some rows at a time."""
        if name not in OF_EVENTS and name not in FROM_EVENTS:
            yield from super().side_chunks(name)
            return
        with self._file.reading():
            yield from side_pieces(self, name)

    def tables(self) -> Mapping[str, Callable[[], Table]]:
        return {
            name: partial(info_table, self._file, self.table_name(base), name) for name, base in INFO_TABLES.items()
        }

    def counters(self) -> CounterRows | None:
        if not self.has_samples:  # values of operations, of which there may be many, are none over time
            return None
        with self._file.reading():
            return counter_rows(self)

    @property
    def event_tables(self) -> list[str]:
        """The tables whose rows are events, in the order of these."""
        return [table.name for table in self._tables]

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
