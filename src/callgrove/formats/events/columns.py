"""A data set for readers that decode a file once: columns are appended in chunks, and kept in memory while they are
small, in an unnamed temporary file beyond that.

How a reader uses it:

    store = ColumnStore()                                # one for all files of an input: they share the memory
    data = ColumnData(path, "otf2 3.0", store)
    process = data.add_process(Process(uid=str(path), pid=17, host="n1", rank=3))
    lane = data.lane_list.add(process, ProfileKind.THREAD, number=17, name="main")
    gpu = data.add_device(Device(process, "GPU", 0))     # its number; a `Lane` names its device by it

    first = data.append(                                 # number of the first event of the chunk: 0, 1, 2, ... in order
        kind=kinds, category=data.names.numbers(texts), name=..., start_ns=..., end_ns=..., lane=...,
        correlation=...,                                 # and, where there is any: label, parent_correlation
    )
    data.append_side("copy", spans, bytes=sizes, source=..., destination=...)     # columns as in `DataSet.side`
    data.append_flows(spans, ids, directions, data.names.numbers(names))          # what is not a correlation
    data.append_counters(lanes, data.names.numbers(names), times_ns, values)
    data.add_lazy_side("argument", make_chunks)          # a function that reads the file again and yields `SideTable`s
    data.warn(Severity.NOTE, "2 events have no time; they are left out")
    data.renumber_lanes(numbers)                         # lanes may be known as late as the end: what was appended
                                                         # as lane k is then lane numbers[k]
    data.base_ns = 1_700_000_000_000_000_000             # added to all times; may be known as late as the end
    return experiment_of("otf2", path, [data], options)

Columns are int64 or int32 arrays of one length; a column that is left out is absent (-1) in all rows of the chunk,
`label` is the name. Texts (`name`, `category`, `label`, columns of side tables that `text_columns` lists, names of
counters and flows) are numbers of `data.names`. Chunks may have any size; they are stored in blocks of `BLOCK_ROWS`.
Everything may still be appended until the data set is first read: then it is complete.

Flows join spans that are not a call and its operation: Chrome's s, t and f, messages of MPI, Perfetto's flow ids. They
become the side table `flow` (id, direction, name); spans with an equal id belong together, in order of time.

Pickled, a data set takes its columns along, as long as they are in memory. Once the store uses its file,
`is_shareable` is false, and everything is read in this process.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from callgrove.arrays import ABSENT, MISSING, Array, Ids, Ints, Names
from callgrove.errors import InputError
from callgrove.formats.events.dataset import (
    CounterRows,
    DeviceColumns,
    Events,
    Lane,
    LaneColumns,
    LaneList,
    Process,
    Stacks,
)
from callgrove.model.experiment import InputWarning, Severity
from callgrove.model.table import Table
from callgrove.model.traces.events import FLOW, LABEL, PARENT, Device, SideTable

__all__ = ["BLOCK_ROWS", "ColumnData", "ColumnStore", "Columns", "RegionFacts"]

IN_MEMORY = 192 << 20  # bytes of all columns of one input; a file takes what is beyond
BLOCK_ROWS = 1 << 16
EVENT_COLUMNS: Mapping[str, type[np.generic]] = {
    **dict.fromkeys(("kind", "category", "name", LABEL, "lane"), np.int32),
    **dict.fromkeys(("start_ns", "end_ns", "correlation", PARENT), np.int64),
}
TIMES = ("start_ns", "end_ns")
COUNTER_COLUMNS: Mapping[str, type[np.generic]] = {
    "lane": np.int32,
    "name": np.int32,
    "time_ns": np.int64,
    "value": np.float64,
}
SideChunks = Callable[[], Iterator[SideTable]]


# -- columns that grow -------------------------------------------------------------------------------------------------


class _Stored(NamedTuple):
    """An array in the file of a store."""

    offset: int
    n_bytes: int
    dtype: np.dtype[Any]


class ColumnStore:
    """Memory for the columns of one input, and an unnamed temporary file for what is beyond `limit` bytes of it."""

    def __init__(self, limit: int = IN_MEMORY) -> None:
        self._limit, self._used = limit, 0
        self._file: IO[bytes] | None = None
        self._end = 0

    @property
    def is_in_memory(self) -> bool:
        return self._file is None

    def put(self, array: Array) -> Array | _Stored:
        """Keep an array; return it, or where it is stored."""
        self._used += array.nbytes
        if self._used <= self._limit:
            return array
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the last data set that reads it
            weakref.finalize(self, self._file.close)
        stored = _Stored(self._end, array.nbytes, array.dtype)
        try:
            self._file.write(np.ascontiguousarray(array).data)
        except OSError as error:
            place = tempfile.gettempdir()
            raise InputError(f"{place}: no room for decoded events: {error.strerror}; set TMPDIR to another") from error
        self._end += array.nbytes
        return stored

    def get(self, kept: Array | _Stored) -> Array:
        """Return an array that was kept. It is read, not mapped, so that memory holds what is used."""
        if not isinstance(kept, _Stored):
            return kept
        assert self._file is not None
        self._file.flush()
        buffer = bytearray(kept.n_bytes)
        os.preadv(self._file.fileno(), [buffer], kept.offset)
        return np.frombuffer(buffer, kept.dtype)

    def __getstate__(self) -> dict[str, object]:
        assert self.is_in_memory, "columns in a file cannot be given to a worker"
        return self.__dict__


_Block = tuple[int, Mapping[str, Array | _Stored]]


class Columns:
    """Rows of named columns that grow by chunks. A column that no chunk of a block has is absent there."""

    def __init__(self, store: ColumnStore, dtypes: Mapping[str, type[np.generic]]) -> None:
        self._store, self._dtypes = store, dict(dtypes)
        self._blocks: list[_Block] = []
        self._waiting: list[Mapping[str, Array]] = []
        self._n_waiting = self._n = 0

    def __len__(self) -> int:
        return self._n

    @property
    def names(self) -> Sequence[str]:
        return list(self._dtypes)

    def append(self, n: int, columns: Mapping[str, Array]) -> int:
        """Append n rows; return the number of the first one."""
        first, self._n = self._n, self._n + n
        for name, column in columns.items():
            assert len(column) == n, f"{name} has {len(column)} rows of {n}"
            self._dtypes.setdefault(name, column.dtype.type)
        if n:
            self._waiting.append({name: np.asarray(c, self._dtypes[name]) for name, c in columns.items()} | _length(n))
            self._n_waiting += n
        if self._n_waiting >= BLOCK_ROWS:
            self._store_waiting()
        return first

    def _store_waiting(self) -> None:
        """Make blocks of the rows that wait."""
        if not self._waiting:
            return
        names = dict.fromkeys(name for chunk in self._waiting for name in chunk if name)
        joined = {name: np.concatenate([self._cells(chunk, name) for chunk in self._waiting]) for name in names}
        for first in range(0, self._n_waiting, BLOCK_ROWS):
            n = min(BLOCK_ROWS, self._n_waiting - first)
            part = {name: column[first : first + n] for name, column in joined.items()}
            self._blocks.append((n, {name: self._store.put(column) for name, column in part.items()}))
        self._waiting, self._n_waiting = [], 0

    def _cells(self, chunk: Mapping[str, Array], name: str) -> Array:
        return chunk[name] if name in chunk else self._absent(len(chunk[""]), name)

    def _absent(self, n: int, name: str) -> Array:
        dtype = self._dtypes.get(name, np.int64)
        return np.full(n, np.nan if issubclass(dtype, np.floating) else ABSENT, dtype)

    def blocks(self, names: Sequence[str]) -> Iterator[dict[str, Array]]:
        """Yield the rows block by block; `row` numbers them."""
        self._store_waiting()
        first = 0
        for n, block in self._blocks:
            cells = {name: self._store.get(block[name]) if name in block else self._absent(n, name) for name in names}
            yield {"row": np.arange(first, first + n), **cells}
            first += n

    def whole(self, names: Sequence[str]) -> dict[str, Array]:
        """Return all rows at once."""
        blocks = list(self.blocks(names))
        return {
            name: np.concatenate([*(block[name] for block in blocks), np.empty(0, self._dtypes.get(name, np.int64))])
            for name in names
        }


def _length(n: int) -> dict[str, Array]:
    """Return a column without a name or cells of its own, which tells the length of a chunk."""
    return {"": np.broadcast_to(np.int8(0), n)}


# -- the data set ------------------------------------------------------------------------------------------------------


class RegionFacts(NamedTuple):
    """What a trace says of a region, beyond its name; lines are -1 where they are not known."""

    file: str = ""
    line: int = ABSENT
    end_line: int = ABSENT
    role: str = ""
    paradigm: str = ""


class ColumnData:
    """A data set made of decoded columns; the module says how it is filled."""

    live = False

    def __init__(self, path: Path, version: str, store: ColumnStore | None = None) -> None:
        self.path, self.version = path, version
        self.names = Names()
        self.processes: list[Process] = []
        self.devices: list[Device] = []
        self.lane_list = LaneList()
        self.warnings: list[InputWarning] = []
        self.base_ns = 0
        self.texts: dict[str, set[str]] = {FLOW: {"name"}}  # by side table: columns that hold numbers of names
        self.regions: dict[str, RegionFacts] = {}  # by the name of spans
        self.about: dict[str, Callable[[], Table]] = {}  # what the file says beside (`DataSet.tables`)
        self._store = ColumnStore() if store is None else store
        self._events = Columns(self._store, EVENT_COLUMNS)
        self._sides: dict[str, Columns] = {}
        self._lazy: dict[str, SideChunks] = {}
        self._counters = Columns(self._store, COUNTER_COLUMNS)
        self._lane_of: Ids | None = None

    # -- filling it ----------------------------------------------------------------------------------------------------

    def add_process(self, process: Process) -> int:
        """Add a process; return its number."""
        self.processes.append(process)
        return len(self.processes) - 1

    def add_device(self, device: Device) -> int:
        """Add a device; return its number."""
        self.devices.append(device)
        return len(self.devices) - 1

    def append(self, **columns: Array) -> int:
        """Append events; return the number of the first one."""
        unknown = columns.keys() - EVENT_COLUMNS.keys()
        assert not unknown, f"events have no column {unknown}"
        return self._events.append(len(columns["start_ns"]), columns)

    def append_side(self, table: str, span: Ints, text_columns: Sequence[str] = (), /, **columns: Array) -> None:
        """Append rows of a side table. `text_columns` hold numbers of `names`, -1 for none."""
        if len(span):
            self.texts.setdefault(table, set()).update(text_columns)
            rows = self._sides.setdefault(table, Columns(self._store, {"span": np.int64}))
            rows.append(len(span), {"span": span, **columns})

    def append_flows(self, span: Ints, flow: Ints, direction: Array | Sequence[int], name: Ids | None = None) -> None:
        """Append ends of flows; directions are those of `FlowDirection`."""
        names = np.full(len(span), ABSENT, np.int32) if name is None else name
        self.append_side(FLOW, span, id=flow, direction=np.asarray(direction, np.int8), name=names)

    def append_counters(self, lane: Array, name: Array, time_ns: Ints, value: Array) -> None:
        """Append values over time."""
        self._counters.append(len(time_ns), {"lane": lane, "name": name, "time_ns": time_ns, "value": value})

    def renumber_lanes(self, numbers: Ids) -> None:
        """Set the lane of every number that was appended as one, for readers that know the lanes only at the end."""
        self._lane_of = numbers

    def add_lazy_side(self, table: str, chunks: SideChunks) -> None:
        """Set what makes a side table when somebody asks for it; texts in it are texts."""
        self._lazy[table] = chunks

    def warn(self, severity: Severity, text: str) -> None:
        self.warnings.append(InputWarning(severity, f"{self.path}: {text}"))

    # -- reading it ----------------------------------------------------------------------------------------------------

    @property
    def lanes(self) -> Sequence[Lane]:
        return self.lane_list.all

    def lane_columns(self) -> LaneColumns:
        return LaneColumns.of(self.lanes)

    def device_columns(self) -> DeviceColumns:
        return DeviceColumns.of(self.devices)

    @property
    def strings(self) -> Sequence[str]:
        return self.names.all

    @property
    def is_shareable(self) -> bool:
        return self._store.is_in_memory

    @property
    def has_counters(self) -> bool:
        return len(self._counters) > 0

    def count(self) -> int:
        return len(self._events)

    def events(self, columns: Sequence[str]) -> Iterator[Events]:
        stored = dict.fromkeys([*columns, "name"] if LABEL in columns else columns)
        for block in self._events.blocks(list(stored)):
            if LABEL in columns:
                block[LABEL] = np.where(block[LABEL] < 0, block["name"], block[LABEL])
            yield {"span": block["row"], **{name: self._place(name, block[name]) for name in columns}}

    def _place(self, name: str, cells: Array) -> Array:
        """Return a column with times and lanes as they are known in the end."""
        if name == "lane" and self._lane_of is not None:
            return self._lane_of[cells]
        if name not in TIMES or not self.base_ns:
            return cells
        return np.where(cells == MISSING, MISSING, cells + self.base_ns)

    def stored(self, columns: Sequence[str]) -> Iterator[Events]:
        """Yield columns of events as they were appended, with the lanes and times of the file."""
        return self._events.blocks(columns)

    def side(self, name: str) -> SideTable | None:
        pieces = list(self._side_pieces(name))
        if not pieces:
            return None
        columns = {
            column: np.concatenate([np.asarray(p.columns[column]) for p in pieces]) for column in pieces[0].columns
        }
        return SideTable(np.concatenate([piece.span for piece in pieces]), columns)

    def has_side(self, name: str) -> bool:
        return name in self._sides or next(self._side_pieces(name), None) is not None

    def side_chunks(self, name: str) -> Iterator[SideTable]:
        """Yield a side table by rising numbers of events: block by block where it was filled in that order."""
        if self._is_in_order(name):
            yield from self._side_pieces(name)
        elif (table := self.side(name)) is not None:
            yield table.take(np.argsort(table.span, kind="stable"))

    def _is_in_order(self, name: str) -> bool:
        if name not in self._sides:
            return True  # those that are made when asked for follow the file
        last = ABSENT
        for block in self._sides[name].blocks(("span",)):
            if block["span"][0] < last or (np.diff(block["span"]) < 0).any():
                return False
            last = int(block["span"][-1])
        return True

    def _side_pieces(self, name: str) -> Iterator[SideTable]:
        if name in self._lazy:
            yield from self._lazy[name]()
        if name not in self._sides:
            return
        rows = self._sides[name]
        for block in rows.blocks(rows.names):
            columns = {column: self._as_texts(name, column, block[column]) for column in rows.names if column != "span"}
            yield SideTable(block["span"], columns)

    def _as_texts(self, table: str, column: str, cells: Array) -> Array:
        if column not in self.texts.get(table, ()):
            return cells
        strings = np.array([*self.names.all, None], np.object_)  # the last one is for -1
        return strings[cells]

    def counters(self) -> CounterRows | None:
        if not len(self._counters):
            return None
        rows = self._counters.whole(list(COUNTER_COLUMNS))
        numbers, name = np.unique(rows["name"], return_inverse=True)
        names = tuple(self.names.all[k] for k in numbers.tolist())
        return CounterRows(
            self._place("lane", rows["lane"]),
            name.astype(np.int32),
            rows["time_ns"] + self.base_ns,
            rows["value"],
            names,
        )

    def stacks(self) -> Stacks | None:
        return None

    def choose_kernel_names(self, which: str) -> None:
        """Do nothing: kernels have one name."""

    def tables(self) -> Mapping[str, Callable[[], Table]]:
        return self.about

    def close(self) -> None:
        """Do nothing: the file was read when the data set was made."""
