"""What the reader of recorded events gives: a data set with its processes, devices, lanes and events.

    processes   uid, pid, host, machine, ...                one data set of rocpd has one; RPD and Nsight may have more
    devices     GPUs and CPUs of a process
    lanes       threads, streams, queues: where events happen; they become profiles
    events      chunks of columns in file order; `span` numbers them from 0 over all tables of the data set

An event's `name`, `label` (a marker's text where its name is only that of a call) and `category` number the data set's
own `strings`, its `lane` the data set's `lanes`. Events whose
end comes before their start are kept as they are: who adds up durations leaves them out and counts them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from callgrove.arrays import ABSENT, MISSING, Array, Bools, Floats, Ids, Ints, Offsets
from callgrove.model.experiment import InputWarning
from callgrove.model.profiles import ProfileKind
from callgrove.model.table import Table
from callgrove.model.traces.events import Device, SideTable

__all__ = [
    "OF_NO_STREAM",
    "OVERHEAD",
    "UNKNOWN_THREAD",
    "UTC_CLOCK",
    "CounterRows",
    "DataSet",
    "DeviceColumns",
    "Events",
    "Lane",
    "LaneColumns",
    "LaneList",
    "Process",
    "Recorded",
    "Stacks",
    "as_unsigned",
    "name_device_lane",
]


# -- data sets ---------------------------------------------------------------------------------------------------------


UTC_CLOCK = "UTC"
UNKNOWN_THREAD = "unknown thread"  # the name of the lane of events whose thread is not known
OVERHEAD = "overhead"  # the category of what the profiler itself did, in every family
Events = Mapping[str, Array]


@dataclass(frozen=True)
class Recorded:
    """The time from when to when something was recorded. `clock` is that of a machine, UTC_CLOCK, or empty where the
    file names no machine; `is_life` says that it is the lifetime of the processes, not the time that the profiler chose
    to record."""

    clock: str
    start_ns: int
    end_ns: int
    is_life: bool = False

    @classmethod
    def around(cls, windows: Sequence[Recorded]) -> Recorded:
        """Return the window that contains all of some, which are on one clock."""
        start, end = min(window.start_ns for window in windows), max(window.end_ns for window in windows)
        return cls(windows[0].clock, start, end, all(window.is_life for window in windows))


@dataclass(frozen=True)
class Process:
    """A process. Processes with equal `machine` share a clock; `rank` is -1 unless the data itself tells it. Processes
    with equal `session` were recorded at once; `recorded` says when, where start and end of processes do not."""

    uid: str
    pid: int
    host: str = ""
    machine: str = ""
    command: str = ""
    rank: int = ABSENT
    start_ns: int = MISSING
    end_ns: int = MISSING
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold secrets: never shown
    node: int = ABSENT  # the number of its node, where the data itself says it
    session: str = ""
    recorded: Recorded | None = None

    @property
    def lasted(self) -> bool:
        """Return whether start and end are known. The end of a process that was killed may be 0."""
        return MISSING not in (self.start_ns, self.end_ns) and self.start_ns <= self.end_ns

    @property
    def window(self) -> Recorded | None:
        """Return when it was recorded, by a clock that others may share; None where the file does not say."""
        if self.recorded is not None or not self.lasted or not self.machine:
            return self.recorded
        return Recorded(self.machine, self.start_ns, self.end_ns, is_life=True)


class Lane(NamedTuple):
    """A place where events happen: a thread, or a stream or queue of a device. `number` is the file's own (tid, stream
    id). What the profiler tells of itself, such as how long it recorded, is `of_profiler`: no time of the program."""

    process: int
    kind: ProfileKind
    number: int
    name: str = ""
    device: int = ABSENT  # number of a `Device`
    of_profiler: bool = False


# -- places as columns -------------------------------------------------------------------------------------------------
# A folder may hold ten thousand data sets of a dozen lanes each. What is made of all of them at once, such as profiles
# and the system tree, is made of columns, and readers of many small files need no object for a lane or a device.


@dataclass(frozen=True)
class LaneColumns:
    """Lanes by column. Numbers are Python's own integers where one does not fit into 63 bits."""

    process: Ints
    kind: Ids
    number: Array
    name: Sequence[str]
    device: Ints
    of_profiler: Bools

    @classmethod
    def of(cls, lanes: Sequence[Lane]) -> LaneColumns:
        return cls(
            np.array([lane.process for lane in lanes], np.int64),
            np.array([lane.kind for lane in lanes], np.int32),
            _column_of_numbers([lane.number for lane in lanes]),
            [lane.name for lane in lanes],
            np.array([lane.device for lane in lanes], np.int64),
            np.array([lane.of_profiler for lane in lanes], np.bool_),
        )

    @classmethod
    def join(cls, parts: Sequence[LaneColumns]) -> LaneColumns:
        """Join the lanes of several data sets; processes and devices keep their numbers."""
        nothing = cls.of(())
        process, kind, number, device, of_profiler = (
            np.concatenate([getattr(nothing, name), *(getattr(part, name) for part in parts)])
            for name in ("process", "kind", "number", "device", "of_profiler")
        )
        return cls(process, kind, number, [name for part in parts for name in part.name], device, of_profiler)

    def take(self, rows: slice) -> LaneColumns:
        return LaneColumns(
            self.process[rows],
            self.kind[rows],
            self.number[rows],
            self.name[rows],
            self.device[rows],
            self.of_profiler[rows],
        )

    def lanes(self) -> tuple[Lane, ...]:
        """Return them as objects."""
        columns = (self.process.tolist(), map(ProfileKind, self.kind.tolist()), self.number.tolist(), self.name)
        return tuple(map(Lane, *columns, self.device.tolist(), self.of_profiler.tolist()))

    def __len__(self) -> int:
        return len(self.kind)


@dataclass(frozen=True)
class DeviceColumns:
    """Devices by column: what the system tree shows of them."""

    kind: Sequence[str]
    index: Array
    name: Sequence[str]
    label: Sequence[str]

    @classmethod
    def of(cls, devices: Sequence[Device]) -> DeviceColumns:
        return cls(
            [device.kind for device in devices],
            _column_of_numbers([device.index for device in devices]),
            [device.name for device in devices],
            [device.label for device in devices],
        )

    @classmethod
    def join(cls, parts: Sequence[DeviceColumns]) -> DeviceColumns:
        """Join the devices of several data sets."""
        index = np.concatenate([np.empty(0, np.int64), *(part.index for part in parts)])
        kind, name, label = (
            [cell for part in parts for cell in getattr(part, column)] for column in ("kind", "name", "label")
        )
        return cls(kind, index, name, label)

    def take(self, rows: slice) -> DeviceColumns:
        return DeviceColumns(self.kind[rows], self.index[rows], self.name[rows], self.label[rows])

    def __len__(self) -> int:
        return len(self.kind)


def _column_of_numbers(numbers: Sequence[int]) -> Array:
    try:
        return np.array(numbers, np.int64)
    except OverflowError:
        return np.array(numbers, object)


def as_unsigned(numbers: Array) -> Offsets:
    """Return numbers of a column without a sign, as identifiers are: those below 0 count from 2^64 down."""
    if numbers.dtype == object:
        return np.array([number & (2**64 - 1) for number in numbers.tolist()], np.uint64)
    return numbers.astype(np.int64).view(np.uint64)


OF_NO_STREAM = re.compile(r"GPU (\d{1,9}) \(no stream\)")


def name_device_lane(device: int) -> str:
    """Return what the lane of the work that a device does on none of its streams is called, here and in what is
    written: `OF_NO_STREAM` recognises it."""
    return f"GPU {device} (no stream)"


@dataclass(frozen=True)
class CounterRows:
    """Measured quantities over time; `name` numbers `names`."""

    lane: Ids
    name: Ids
    time_ns: Ints
    value: Floats
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Stacks:
    """Samples of call stacks: sample k has the frames [bounds[k], bounds[k + 1]), the outermost first.

    `function` and `file` number the data set's strings, -1 where they are not known.
    """

    lane: Ids
    time_ns: Ints
    bounds: Ints
    function: Ids
    file: Ids
    line: Ints


class LaneList:
    """A list of lanes that grows; each is known by its process, kind, device and number."""

    def __init__(self) -> None:
        self.all: list[Lane] = []
        self._number: dict[tuple[int, ProfileKind, int, int], int] = {}

    def add(self, process: int, kind: ProfileKind, number: int, name: str = "", device: int = ABSENT) -> int:
        key = (process, kind, device, number)
        if key not in self._number:
            self._number[key] = len(self.all)
            self.all.append(Lane(process, kind, number, name, device))
        return self._number[key]

    def append(self, lane: Lane) -> int:
        """Add a lane that the file lists, even if an equal one was added before."""
        self._number.setdefault((lane.process, lane.kind, lane.device, lane.number), len(self.all))
        self.all.append(lane)
        return len(self.all) - 1

    def add_unknown(self, process: int) -> int:
        """Return the lane of a process for events whose thread is not known."""
        return self.add(process, ProfileKind.OTHER, 0, UNKNOWN_THREAD)


class DataSet(Protocol):
    """The interface of a data set: one set of tables with events, and the places where these happened."""

    @property
    def path(self) -> Path: ...
    @property
    def version(self) -> str: ...
    @property
    def processes(self) -> Sequence[Process]: ...
    @property
    def devices(self) -> Sequence[Device]: ...
    @property
    def lanes(self) -> Sequence[Lane]: ...
    def lane_columns(self) -> LaneColumns: ...
    def device_columns(self) -> DeviceColumns: ...
    @property
    def warnings(self) -> Sequence[InputWarning]: ...

    @property
    def strings(self) -> Sequence[str]:
        """Return the texts that events refer to; the list may grow while chunks are read."""

    @property
    def live(self) -> bool:
        """Return whether another process is still writing the file."""

    @property
    def is_shareable(self) -> bool:
        """Return whether a worker that it is pickled for can read it."""

    def count(self) -> int:
        """Return the number of events."""

    def events(self, columns: Sequence[str]) -> Iterator[Events]:
        """Yield chunks of `span` and the columns asked for, in file order. Columns are kind, category, name, label,
        start_ns, end_ns, lane, correlation and parent_correlation."""

    def side(self, name: str) -> SideTable | None:
        """Return a table of what only some events have; `span` is the number of an event in this data set.

        kernel    grid_x, grid_y, grid_z (work-items), workgroup_x, ..., lds, scratch, vgpr, accum_vgpr, sgpr, dispatch,
                  short_name, demangled_name (where events have both)
        copy      bytes (-1 unknown), source, destination (numbers of devices, -1 unknown)
        alloc     bytes, address, level, device
        argument  position, type, name, value
        counter   name, value, value_type, pmc (the row of `pmc_info`)
        flow      id, direction (`FlowDirection`), name: spans with one id are joined, in order of time
        stack     frames: names of the functions that led to a call, the outermost first
        extra     name, value: columns of event tables that the reader does not know
        event, event_text, region     of rocprofv3: event_id and correlation_id; extdata, call_stack and line_info; the
                  range that an operation is said to belong to
        """

    def has_side(self, name: str) -> bool:
        """Return whether there is such a side table."""

    def side_chunks(self, name: str) -> Iterator[SideTable]:
        """Yield a side table in pieces by rising numbers of events; memory holds one of them where that is possible."""

    def counters(self) -> CounterRows | None:
        """Return quantities over time that belong to no event."""

    def stacks(self) -> Stacks | None:
        """Return samples of what threads executed."""

    def choose_kernel_names(self, which: str) -> None:
        """Say which name of a kernel counts, where there are several: `short` or `demangled`."""

    def tables(self) -> Mapping[str, Callable[[], Table]]:
        """Return what the file says of queues, kernel_symbols, ... (see `Traces.tables`), without the process."""

    def close(self) -> None:
        """Close the file."""
