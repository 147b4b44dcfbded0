"""The database of rocprofv3 (rocpd, schemas 3 and 4): one set of suffixed tables per process, several in a file.

Specifications: gpu-traces.md section 3; more-inputs.md section 7 for schema 4.

    rocpd_metadata<suffix>     schema_version, uuid, guid; its name tells the suffix, nothing else does
    rocpd_info_*<suffix>       node, process, thread, agent, queue, stream, pmc, code_object, kernel_symbol
    rocpd_event<suffix>        category and correlation (stack_id) of what refers to it
    rocpd_region, _kernel_dispatch, _memory_copy, _memory_allocate, _sample<suffix>      what happened
    rocpd_track<suffix>        of samples, and in schema 4 of all events: thread, agent, queue, stream
    rocpd_call_stack, _line_info, _info_pc, _info_source_code, _info_category<suffix>    schema 4

All look-ups stay inside one suffix. Event ids rise with the rows that refer to them, so a chunk needs a range of the
event table, not all of it.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property, partial

import numpy as np

from callgrove.arrays import Array, Ints, Names
from callgrove.binary.sqlite.batch import OwnedRows
from callgrove.binary.sqlite.cells import Cells, Lookup, Type
from callgrove.binary.sqlite.database import SqliteFile
from callgrove.errors import CorruptFile
from callgrove.formats.events.dataset import CounterRows, DataSet, Events
from callgrove.formats.gpu.event_tables import EventTable, Extra
from callgrove.formats.gpu.rocpd.events import EventChunk, RocpdEvents
from callgrove.formats.gpu.rocpd.lookups import Lookups, OwnedTables, choose_names
from callgrove.formats.gpu.rocpd.places import READ, ReadBefore, RocpdPlaces, suffixes
from callgrove.formats.gpu.rocpd.span_attributes import (
    FROM_EVENTS,
    OF_EVENTS,
    counter_rows,
    event_extras,
    region_names,
    side_pieces,
    side_table,
    unusual_phases,
)
from callgrove.formats.gpu.rocpd.tables import INFO_TABLES, info_table, known_columns
from callgrove.model.experiment import Severity
from callgrove.model.table import Table
from callgrove.model.traces.events import SideTable

__all__ = ["RocpdData", "datasets"]


STRAY = re.compile(r"rocpd_(region|kernel_dispatch|memory_copy|memory_allocate|sample|info_\w+?)")
UNREAD = {
    "info_address_range": "ranges of addresses",
    "graph_launch": "launches of graphs",
    "hip_event": "waits and signals of HIP events",
    "event_operation": "waits and signals of HIP events",
}
INTEGER, TEXT = Type.INTEGER, Type.TEXT
MADE_OF_ROWS = ("_lookups", "_made", "_span_of_event")  # what a data set keeps of what it has read


def datasets(file: SqliteFile, before: ReadBefore | None = None) -> list[RocpdData]:
    """Return the data set of every process of a file. Tables whose suffix no metadata table has are left out with a
    warning. `before` is what was read already; it is used where there is one process."""
    if before is not None and before.is_plain:
        return [RocpdData(file, before.suffix, before)]
    known = suffixes(file)
    read = {f"rocpd_{base}{suffix}" for suffix in known for base in READ}
    others = [name for name in file.tables if name not in read]
    if known and not others and not file.schema.views:  # as a rule
        return [RocpdData(file, suffix, before if len(known) == 1 else None) for suffix in known]
    owned = read | {f"rocpd_{base}{suffix}" for suffix in known for base in UNREAD}
    stray = [name for name in others if STRAY.match(name) and name not in owned]
    if not known:
        raise CorruptFile(
            file.path, "rocpd_metadata", expected="a table that says whose these are", found=f"only {', '.join(stray)}"
        )
    out = [RocpdData(file, suffix, before if len(known) == 1 else None) for suffix in known]
    for view in sorted(owned & file.schema.views):
        out[0].warn(Severity.DAMAGE, f"{view}: is a view, and SQL of a file is never run; its rows are left out")
    unread = [name for name in others if name not in stray]
    meanings = {f"rocpd_{base}{suffix}": meaning for base, meaning in UNREAD.items() for suffix in known}
    out[0].name_unread(unread, meanings)
    if stray:
        out[0].warn(Severity.DAMAGE, f"{', '.join(stray)}: no metadata says whose these are; they are left out")
    return out


class RocpdData(RocpdPlaces):
    """A data set of rocprofv3: the tables of one process."""

    _made: Mapping[str, Array]
    _span_of_event: Lookup | None = None

    @cached_property
    def _lookups(self) -> Lookups:
        alone = weakref.proxy(self)  # no cycle: private copies of files are removed with the last who reads them
        return Lookups(OwnedTables([alone], None), self._names)

    def __getstate__(self) -> dict[str, object]:
        """Leave out what was read: a worker reads the file itself."""
        return {
            name: value for name, value in self.__dict__.items() if name not in ("_lookups", "_made", "_span_of_event")
        }

    def choose_kernel_names(self, which: str) -> None:
        super().choose_kernel_names(which)
        texts = self.small("info_kernel_symbol", extdata=TEXT)["extdata"].tolist()
        if missing := choose_names(texts, which).count(""):
            text = f"{missing} kernel symbols have no {which} name; their kernels go by the usual one"
            self.warn(Severity.NOTE, f"{self.table_name('info_kernel_symbol')}: {text}")

    def join(self, datasets: Sequence[DataSet], names: Names) -> RocpdEvents | None:
        """Return the events of several data sets, read at once, if all are of rocprofv3 and each has its own file."""
        members = [dataset for dataset in datasets if isinstance(dataset, RocpdData)]
        files = {dataset.path for dataset in members}
        return RocpdEvents(members, names) if len(members) == len(files) == len(datasets) else None

    # -- events ------------------------------------------------------------------------------------------------------

    def events(self, columns: Sequence[str]) -> Iterator[Events]:
        try:
            yield from super().events(columns)
        finally:
            self._lookups.forget_events()
            self._made = {}

    def prepare(self, table: EventTable, columns: Sequence[str], cells: Cells) -> None:
        """Make all event columns of a chunk at once, by the code that also serves several data sets."""
        rows = OwnedRows(cells, np.array([len(cells["rowid"])]))
        self._made = EventChunk(self._lookups, self._base(table), rows).columns(columns)

    def make_column(self, table: EventTable, column: str, cells: Cells) -> Array:
        return self._made[column]

    def _base(self, table: EventTable) -> str:
        return table.name.removeprefix("rocpd_").removesuffix(self.suffix)

    def find_known_columns(self, table: EventTable) -> Collection[str]:
        return known_columns(self._base(table))

    def extras(self) -> Iterator[Extra]:
        """Yield the cells of unknown columns, the region names of operations, unusual phases, and other contents of the
        event table and of what refers to it."""
        yield from super().extras()
        yield from region_names(self)
        yield from unusual_phases(self)
        yield from event_extras(self)

    def side(self, name: str) -> SideTable | None:
        if name == "extra":
            return self.extra()
        with self._file.reading():
            table = side_table(self, name)
        return table if table is not None and len(table.span) else None

    def has_side(self, name: str) -> bool:
        """Return whether there is such a side table. Arguments, which may be very many, are only counted; of tables
        made of events, one piece is read."""
        if name in FROM_EVENTS:
            return any(True for _ in self.side_chunks(name))
        return super().has_side(name) if name != "argument" else self._file.count(self.table_name("arg")) > 0

    def side_chunks(self, name: str) -> Iterator[SideTable]:
        """Yield a side table; tables of events, which may be large, some rows at a time."""
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
        """Return the names of the tables whose rows are events, in the order of these."""
        return [table.name for table in self._tables]

    def names_of_spans(self, spans: Ints) -> list[str]:
        """Return the names of some events, by number."""
        every = np.concatenate([np.empty(0, np.int32), *(events["name"] for events in self.events(("name",)))])
        return [self._names.all[k] if k >= 0 else "" for k in every[spans].tolist()]

    @property
    def span_of_event(self) -> Lookup:
        """Return the number of the span that refers to each row of the event table; kept until `release`."""
        if self._span_of_event is None:
            ids = [self._file.table(name, {"rowid": INTEGER, "event_id": INTEGER})["event_id"] for name in self.counts]
            every = np.concatenate([*ids, np.empty(0, np.int64)])
            self._span_of_event = Lookup(every, np.arange(len(every)))
        return self._span_of_event

    def release(self) -> None:
        """Give back what grows with the number of events. Of a run with thousands of databases all stay open."""
        self._made, self._span_of_event = {}, None
