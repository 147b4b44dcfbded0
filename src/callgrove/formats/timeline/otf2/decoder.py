"""The program that calls OTF2's library, in a process of its own: a damaged archive may crash or hang the library, and
then takes only this process down.

    python decoder.py LIBRARY ANCHOR definitions            definitions of the archive
    python decoder.py LIBRARY ANCHOR events < locations     events of these locations, one after the other
    python decoder.py LIBRARY ANCHOR others < locations     the same without enter and leave events (see records.py)

It needs nothing but the standard library, so that it starts at once, and writes frames to its output:

    code u8, location u64, bytes u64, then so many bytes

EVENTS has the times of enter and leave events, then as many references; every other frame of numbers is a table of
unsigned 64-bit numbers, `WIDTH` columns wide. A reference is twice the number of a region, and 1 more where it is left;
calling contexts come after `CONTEXTS`. `place` counts the enter and leave events of the location before an event: what
was entered last and not left is where it happened. Without them it counts the events of any type.

The library applies the maps of ids and the clock offsets of each location. Times are ticks.
"""

from __future__ import annotations

import ctypes
import json
import signal
import struct
import sys
from array import array
from collections import Counter

TYPE_CHECKING = False  # importing typing for it would take a tenth of the time until the first event
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

__all__ = ["CONTEXTS", "HEAD", "WIDTH", "Frame", "main"]

HEAD = struct.Struct("<BQQ")
CONTEXTS = 1 << 33  # references of calling contexts begin here
BLOCK = 1 << 16  # events that are read at a time
PATIENCE = 1.0  # seconds of processor time without a frame, which has at most so many events: the library hangs
BYTES_PER_SECOND = 250_000  # of definitions, which come in one frame, at least
MOST_MEMORY = 8 << 30


class Frame:
    """Codes of frames."""

    DEFINITIONS, EVENTS, MESSAGES, COLLECTIVES, ATTRIBUTES, PARAMETERS, METRICS, SAMPLES, COUNTS, ERROR = range(10)


WIDTH = {
    Frame.MESSAGES: 8,  # place, kind (0 sent, 1 received, 2 posted to receive), time, peer, comm, tag, bytes, request
    Frame.COLLECTIVES: 7,  # place, time, operation, comm, root, bytes sent, bytes received
    Frame.ATTRIBUTES: 4,  # place (of the event itself where it is an enter event), attribute, type, value
    Frame.PARAMETERS: 4,  # place, parameter, type, value
    Frame.METRICS: 5,  # time, metric, member, type, value
    Frame.SAMPLES: 2,  # time, calling context
}
INT64, UINT64, STRING = 8, 4, 11  # OTF2's types of values
REGION_MAP = 3  # OTF2's type of maps
u8, u32, i64, u64, pointer = ctypes.c_uint8, ctypes.c_uint32, ctypes.c_int64, ctypes.c_uint64, ctypes.c_void_p


def send(code: int, location: int, *parts: bytes) -> None:
    """Write a frame, and start to count the time until the next one."""
    out = sys.stdout.buffer
    out.write(HEAD.pack(code, location, sum(map(len, parts))))
    for part in parts:
        out.write(part)
    out.flush()
    signal.setitimer(signal.ITIMER_PROF, PATIENCE)


def send_json(code: int, location: int, content: object) -> None:
    send(code, location, json.dumps(content).encode())


# -- the library -------------------------------------------------------------------------------------------------------


class Library:
    """OTF2's C functions. Handles are pointers, results of calls numbers, of which 0 is success."""

    def __init__(self, path: str, anchor: str) -> None:
        self._c = ctypes.CDLL(path)
        self._kept: list[Any] = []
        self.reader = self.handle("OTF2_Reader_Open", anchor.encode("utf-8", "surrogateescape"))
        if not self.reader:
            raise SystemExit(1)
        self.call("OTF2_Reader_SetSerialCollectiveCallbacks", self.reader)

    def handle(self, name: str, *args: Any) -> int | None:
        function = getattr(self._c, name)
        function.restype = pointer
        return function(*map(_plain, args))  # type: ignore[no-any-return]

    def call(self, name: str, *args: Any) -> int:
        function = getattr(self._c, name)
        function.restype = ctypes.c_int
        return function(*map(_plain, args))  # type: ignore[no-any-return]

    def bind(self, name: str, result: Any, *types: Any) -> Callable[..., int]:
        """Return a function for those who call it often: types are set once."""
        function = getattr(self._c, name)
        function.restype, function.argtypes = result, types
        return function  # type: ignore[no-any-return]

    def number(self, name: str, kind: Any = u64) -> int:
        value = kind(0)
        self.call(name, self.reader, ctypes.byref(value))
        return int(value.value)

    def text(self, name: str, *args: Any) -> str:
        value = ctypes.c_char_p()
        self.call(name, self.reader, *args, ctypes.byref(value))
        return _text(value.value)

    def set_callback(self, table: int, setter: str, function: Callable[..., int], *types: Any) -> bool:
        """Set a callback; False where this version of the library has no such event or definition."""
        setting = getattr(self._c, setter, None)
        if setting is None:
            return False
        made = ctypes.CFUNCTYPE(ctypes.c_int, *types)(function)
        self._kept.append(made)
        setting.restype = ctypes.c_int
        return int(setting(pointer(table), made)) == 0


def _plain(value: Any) -> Any:
    """Return an argument as C takes it: numbers are handles or counts of 64 bits."""
    return u64(value) if isinstance(value, int) else value


def _text(value: bytes | None) -> str:
    return (value or b"").decode("utf-8", "replace")


# -- definitions -------------------------------------------------------------------------------------------------------


DEFINITIONS: dict[str, tuple[Any, ...]] = {  # what the library says of each, after its number
    "String": (ctypes.c_char_p,),
    "Attribute": (u32, u32, u8),  # name, description, type
    "SystemTreeNode": (u32, u32, u32),  # name, class, parent
    "LocationGroup": (u32, u8, u32, u32),  # name, type, node, created by
    "Region": (
        u32,
        u32,
        u32,
        u8,
        u8,
        u32,
        u32,
        u32,
        u32,
    ),  # name, canonical name, description, role, paradigm, flags, file, lines
    "MetricMember": (
        u32,
        u32,
        u8,
        u8,
        u8,
        u8,
        i64,
        u32,
    ),  # name, description, type, mode, value type, base, exponent, unit
    "MetricInstance": (u32, u64, u8, u64),  # class, recorder, scope, scope number
    "Comm": (u32, u32, u32, u32),  # name, group, parent, flags
    "InterComm": (u32, u32, u32, u32, u32),  # name, groups, common communicator, flags
    "Parameter": (u32, u8),  # name, type
    "SourceCodeLocation": (u32, u32),  # file, line
    "CallingContext": (u32, u32, u32),  # region, source code location, parent
    "SystemTreeNodeProperty": (u32, u8, u64),  # name, type, value
    "LocationGroupProperty": (u32, u8, u64),
}
OTHER_DEFINITIONS = ("Location", "LocationProperty", "Group", "MetricClass", "Clock")


def read_definitions(library: Library) -> None:
    """Send all definitions, and what the anchor says."""
    out: dict[str, list[list[Any]]] = {name: [] for name in (*DEFINITIONS, *OTHER_DEFINITIONS)}
    table = library.handle("OTF2_GlobalDefReaderCallbacks_New")
    assert table
    prefix = "OTF2_GlobalDefReaderCallbacks_Set"

    def keep(name: str) -> Callable[..., int]:
        rows = out[name]

        def add(_: Any, *row: Any) -> int:
            rows.append([_text(cell) if isinstance(cell, bytes) else cell for cell in row])
            return 0

        return add

    def group(_: Any, number: int, name: int, kind: int, paradigm: int, flags: int, n: int, members: Any) -> int:
        out["Group"].append([number, name, kind, paradigm, flags, members[:n] if n else []])
        return 0

    def metric_class(_: Any, number: int, n: int, members: Any, occurrence: int, recorder: int) -> int:
        out["MetricClass"].append([number, members[:n] if n else [], occurrence, recorder])
        return 0

    for name, types in DEFINITIONS.items():
        library.set_callback(table, f"{prefix}{name}Callback", keep(name), pointer, u32, *types)
    library.set_callback(table, f"{prefix}LocationCallback", keep("Location"), pointer, u64, u32, u8, u64, u32)
    kept = keep("LocationProperty")
    library.set_callback(table, f"{prefix}LocationPropertyCallback", kept, pointer, u64, u32, u8, u64)
    library.set_callback(table, f"{prefix}ClockPropertiesCallback", keep("Clock"), pointer, u64, u64, u64, u64)
    many = ctypes.POINTER(u64)
    library.set_callback(table, f"{prefix}GroupCallback", group, pointer, u32, u32, u8, u8, u32, u32, many)
    few = ctypes.POINTER(u32)
    library.set_callback(table, f"{prefix}MetricClassCallback", metric_class, pointer, u32, u8, few, u8, u8)
    reader = library.handle("OTF2_Reader_GetGlobalDefReader", library.reader)
    code = 1
    if reader:
        library.call("OTF2_Reader_RegisterGlobalDefCallbacks", library.reader, reader, table, 0)
        n_read = u64(0)
        code = library.call("OTF2_Reader_ReadAllGlobalDefinitions", library.reader, reader, ctypes.byref(n_read))
    version = (u8(0), u8(0), u8(0))
    library.call("OTF2_Reader_GetVersion", library.reader, *map(ctypes.byref, version))
    about = {
        "code": code,
        "version": ".".join(str(part.value) for part in version),
        "creator": library.text("OTF2_Reader_GetCreator"),
        "description": library.text("OTF2_Reader_GetDescription"),
        "machine": library.text("OTF2_Reader_GetMachineName"),
        "substrate": library.number("OTF2_Reader_GetFileSubstrate", u8),
        "chunk_size": _chunk_size(library),
        "n_locations": library.number("OTF2_Reader_GetNumberOfLocations"),
        "n_definitions": library.number("OTF2_Reader_GetNumberOfGlobalDefinitions"),
        "properties": _properties(library),
    }
    send_json(Frame.DEFINITIONS, 0, {"about": about, **out})


def _chunk_size(library: Library) -> int:
    """Return the size of chunks of events in bytes."""
    events, definitions = u64(0), u64(0)
    library.call("OTF2_Reader_GetChunkSize", library.reader, ctypes.byref(events), ctypes.byref(definitions))
    return events.value


def _properties(library: Library) -> dict[str, str]:
    n, names = u32(0), ctypes.POINTER(ctypes.c_char_p)()
    if library.call("OTF2_Reader_GetPropertyNames", library.reader, ctypes.byref(n), ctypes.byref(names)):
        return {}
    return {_text(name): library.text("OTF2_Reader_GetProperty", name) for name in names[: n.value] if name}


# -- events ------------------------------------------------------------------------------------------------------------


COUNTED = (  # further events, which are counted
    *("BufferFlush", "MeasurementOnOff", "MpiIsendComplete", "MpiRequestTest", "MpiRequestCancelled"),
    *("MpiCollectiveBegin", "OmpFork", "OmpJoin", "OmpAcquireLock", "OmpReleaseLock", "OmpTaskCreate", "OmpTaskSwitch"),
    *("OmpTaskComplete", "RmaWinCreate", "RmaWinDestroy", "RmaCollectiveBegin", "RmaCollectiveEnd", "RmaGroupSync"),
    *("RmaRequestLock", "RmaAcquireLock", "RmaTryLock", "RmaReleaseLock", "RmaSync", "RmaWaitChange", "RmaPut"),
    *("RmaGet", "RmaAtomic", "RmaOpCompleteBlocking", "RmaOpCompleteNonBlocking", "RmaOpTest", "RmaOpCompleteRemote"),
    *("ThreadFork", "ThreadJoin", "ThreadTeamBegin", "ThreadTeamEnd", "ThreadAcquireLock", "ThreadReleaseLock"),
    *("ThreadTaskCreate", "ThreadTaskSwitch", "ThreadTaskComplete", "ThreadCreate", "ThreadBegin", "ThreadWait"),
    *("ThreadEnd", "IoCreateHandle", "IoDestroyHandle", "IoDuplicateHandle", "IoSeek", "IoChangeStatusFlags"),
    *("IoDeleteFile", "IoOperationBegin", "IoOperationTest", "IoOperationIssued", "IoOperationComplete"),
    *("IoOperationCancelled", "IoAcquireLock", "IoReleaseLock", "IoTryLock", "ProgramEnd"),
    *("NonBlockingCollectiveRequest", "CommCreate", "CommDestroy", "MpiProbe", "MpiMrecv", "MpiImrecvRequest"),
    *("MpiImrecv", "Unknown"),
)


class LocalDefinitions:
    """What belongs to one location: the numbers that it uses for regions, and offsets of its clock. The library keeps
    both, and applies them to the events that it reads afterwards."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self.regions: list[tuple[int, int]] = []  # its number, the archive's
        self.clock: list[tuple[int, int]] = []  # time, offset
        self._callbacks = library.handle("OTF2_DefReaderCallbacks_New")
        assert self._callbacks
        prefix = "OTF2_DefReaderCallbacks_Set"
        library.set_callback(self._callbacks, f"{prefix}MappingTableCallback", self._note_map, pointer, u8, pointer)
        offset = pointer, u64, i64, ctypes.c_double
        library.set_callback(self._callbacks, f"{prefix}ClockOffsetCallback", self._note_offset, *offset)
        self._visit = ctypes.CFUNCTYPE(None, u64, u64, pointer)(self._note_pair)
        self._traverse = library.bind("OTF2_IdMap_Traverse", ctypes.c_int, pointer, pointer, pointer)

    def _note_map(self, user: Any, kind: int, id_map: int) -> int:
        if kind == REGION_MAP:
            self._traverse(id_map, ctypes.cast(self._visit, pointer), None)
        return 0

    def _note_pair(self, number: int, in_archive: int, user: Any) -> None:
        self.regions.append((number, in_archive))

    def _note_offset(self, user: Any, time: int, offset: int, deviation: float) -> int:
        self.clock.append((time, offset))
        return 0

    def read(self, location: int) -> int:
        """Read those of a location, which may have none; return the library's code."""
        library, reader = self._library, self._library.reader
        self.regions, self.clock = [], []
        definitions = library.handle("OTF2_Reader_GetDefReader", reader, location)
        if not definitions:
            return 0
        library.call("OTF2_Reader_RegisterDefCallbacks", reader, definitions, self._callbacks, 0)
        n_read = u64(0)
        code = library.call("OTF2_Reader_ReadAllLocalDefinitions", reader, definitions, ctypes.byref(n_read))
        library.call("OTF2_Reader_CloseDefReader", reader, definitions)
        return code


class Events:
    """The events of one location at a time."""

    def __init__(self, library: Library, nesting: bool) -> None:
        self._library, self._has_nesting = library, nesting
        self._local = LocalDefinitions(library)
        self._needs_nesting = False  # are there attributes or calling contexts, which only all callbacks tell of?
        self._time, self._reference = array("Q"), array("Q")
        self._n_before = 0  # enter and leave events in frames that were sent
        self._tables = {code: array("Q") for code in WIDTH}
        self._counts: Counter[str] = Counter()
        self._program: list[int] = []
        self._error = ""
        self._callbacks = library.handle("OTF2_EvtReaderCallbacks_New")
        self._attribute = u32(0), u8(0), u64(0)
        self._attribute_places = [ctypes.byref(cell) for cell in self._attribute]
        cells = [ctypes.POINTER(type(cell)) for cell in self._attribute]
        get = "OTF2_AttributeList_GetAttributeByIndex"
        self._get_attribute = library.bind(get, ctypes.c_int, pointer, u32, *cells)
        self._set_callbacks()

    def _set_callbacks(self) -> None:
        if self._has_nesting:
            self._set_nesting()
        else:
            self._watch_nesting()
        self._set_messages()
        self._set_values()
        for name in COUNTED:
            self._set(name, self._counting(name))

    def _set(self, name: str, function: Callable[..., int], *types: Any) -> None:
        """Set the callback of an event: location, time, position, user data, attributes, then what it has."""
        assert self._callbacks
        setter = f"OTF2_EvtReaderCallbacks_Set{name}Callback"
        self._library.set_callback(self._callbacks, setter, function, u64, u64, u64, pointer, pointer, *types)

    def _counting(self, name: str) -> Callable[..., int]:
        counts = self._counts

        def count(*_: Any) -> int:
            counts[name] += 1
            return 0

        return count

    def _set_nesting(self) -> None:
        add_time, add_reference, note = self._time.append, self._reference.append, self._note_attributes
        count = self._library.bind("OTF2_AttributeList_GetNumberOfElements", u32, pointer)  # asked at every event

        def enter(location: int, time: int, position: int, user: Any, attributes: Any, region: int) -> int:
            if count(attributes):
                note(attributes, count(attributes))
            add_time(time)
            add_reference(region << 1)
            return 0

        def leave(location: int, time: int, position: int, user: Any, attributes: Any, region: int) -> int:
            if count(attributes):
                note(attributes, count(attributes))
            add_time(time)
            add_reference(region << 1 | 1)
            return 0

        def enter_context(location: int, time: int, position: int, user: Any, attributes: Any, context: int) -> int:
            return enter(location, time, position, user, attributes, context + CONTEXTS)

        def leave_context(location: int, time: int, position: int, user: Any, attributes: Any, context: int) -> int:
            return leave(location, time, position, user, attributes, context + CONTEXTS)

        self._set("Enter", enter, u32)
        self._set("Leave", leave, u32)
        self._set("CallingContextEnter", enter_context, u32)
        self._set("CallingContextLeave", leave_context, u32)

    def _watch_nesting(self) -> None:
        def note(*_: Any) -> int:
            self._needs_nesting = True
            return 0

        self._set("CallingContextEnter", note, u32)
        self._set("CallingContextLeave", note, u32)

    def _set_messages(self) -> None:
        def message(kind: int) -> Callable[..., int]:
            add = self._tables[Frame.MESSAGES].extend

            def note(
                location: int,
                time: int,
                at: int,
                user: Any,
                given: Any,
                peer: int,
                comm: int,
                tag: int,
                n: int,
                request: int = 0,
            ) -> int:
                add((self._place(at), kind, time, peer, comm, tag, n, request))
                return 0

            return note

        def posted(location: int, time: int, at: int, user: Any, attributes: Any, request: int) -> int:
            self._tables[Frame.MESSAGES].extend((self._place(at), 2, time, 0, 0, 0, 0, request))
            return 0

        def collective(
            location: int,
            time: int,
            at: int,
            user: Any,
            given: Any,
            operation: int,
            comm: int,
            root: int,
            sent: int,
            got: int,
        ) -> int:
            self._tables[Frame.COLLECTIVES].extend((self._place(at), time, operation, comm, root, sent, got))
            return 0

        envelope = (u32, u32, u32, u64)
        self._set("MpiSend", message(0), *envelope)
        self._set("MpiIsend", message(0), *envelope, u64)
        self._set("MpiRecv", message(1), *envelope)
        self._set("MpiIrecv", message(1), *envelope, u64)
        self._set("MpiIrecvRequest", posted, u64)
        self._set("MpiCollectiveEnd", collective, u8, u32, u32, u64, u64)
        self._set("NonBlockingCollectiveComplete", collective, u8, u32, u32, u64, u64)

    def _set_values(self) -> None:
        def sample(location: int, time: int, at: int, user: Any, attributes: Any, context: int) -> int:
            self._tables[Frame.SAMPLES].extend((time, context))
            return 0

        def metric(
            location: int, time: int, at: int, user: Any, given: Any, number: int, n: int, types: Any, values: Any
        ) -> int:
            for member in range(n):
                self._tables[Frame.METRICS].extend((time, number, member, types[member], values[member]))
            return 0

        def parameter(kind: int) -> Callable[..., int]:
            def note(location: int, time: int, at: int, user: Any, given: Any, number: int, value: int) -> int:
                self._tables[Frame.PARAMETERS].extend((self._place(at), number, kind, value))
                return 0

            return note

        def program(location: int, time: int, at: int, user: Any, given: Any, name: int, n: int, words: Any) -> int:
            self._program = [name, *words[:n]] if n else [name]
            self._counts["ProgramBegin"] += 1
            return 0

        self._set("CallingContextSample", sample, u32)
        self._set("Metric", metric, u32, u8, ctypes.POINTER(u8), ctypes.POINTER(u64))
        self._set("ParameterString", parameter(STRING), u32, u32)
        self._set("ParameterInt", parameter(INT64), u32, u64)
        self._set("ParameterUnsignedInt", parameter(UINT64), u32, u64)
        self._set("ProgramBegin", program, u32, u32, ctypes.POINTER(u32))

    def _place(self, position: int) -> int:
        return self._n_before + len(self._time) if self._has_nesting else position - 1

    def _note_attributes(self, attributes: int, n: int) -> None:
        """Note the attributes of the event that comes next."""
        add, place = self._tables[Frame.ATTRIBUTES].extend, self._n_before + len(self._time)
        number, kind, value = self._attribute
        get, places = self._get_attribute, self._attribute_places
        for index in range(n):
            value.value = 0
            if get(attributes, index, *places) == 0:
                add((place, number.value, kind.value, value.value))

    def read(self, location: int) -> None:
        """Send the events of a location, and in the end how many there were."""
        library, reader = self._library, self._library.reader
        code = self._local.read(location)
        events = library.handle("OTF2_Reader_GetEvtReader", reader, location)
        n_events = 0
        self._n_before = 0
        if events:
            library.call("OTF2_Reader_RegisterEvtCallbacks", reader, events, self._callbacks, 0)
            n_read = u64(BLOCK)
            while n_read.value == BLOCK and not code:
                n_read = u64(0)
                code = library.call("OTF2_Reader_ReadLocalEvents", reader, events, BLOCK, ctypes.byref(n_read))
                n_events += n_read.value
                self._send_block(location)
            library.call("OTF2_Reader_CloseEvtReader", reader, events)
        about = {
            "code": code,
            "has_events": bool(events),
            "read": n_events,
            "program": self._program,
            "counts": self._counts,
            "regions": self._local.regions,
            "clock": self._local.clock,
            "needs_nesting": self._needs_nesting,
        }
        send_json(Frame.COUNTS, location, about)
        self._counts.clear()
        self._program, self._needs_nesting = [], False

    def _send_block(self, location: int) -> None:
        if self._time:
            send(Frame.EVENTS, location, self._time.tobytes(), self._reference.tobytes())
            self._n_before += len(self._time)
            del self._time[:], self._reference[:]
        for code, table in self._tables.items():
            if table:
                send(code, location, table.tobytes())
                del table[:]
        signal.setitimer(signal.ITIMER_PROF, PATIENCE)  # it went on, even if there was nothing to send


def read_events(library: Library, locations: Iterable[int], nesting: bool) -> None:
    """Send the events of some locations, with those that enter and leave regions or without them."""
    numbers = list(locations)
    for number in numbers:
        library.call("OTF2_Reader_SelectLocation", library.reader, number)
    library.call("OTF2_Reader_OpenDefFiles", library.reader)  # there may be none
    library.call("OTF2_Reader_OpenEvtFiles", library.reader)
    events = Events(library, nesting)
    for number in numbers:
        events.read(number)


def _size_of_definitions(anchor: str, what: str) -> int:
    """Return the size of the file of definitions, where these are to be read."""
    if what != "definitions":
        return 0
    from pathlib import Path

    file = Path(anchor).with_suffix(".def")
    return file.stat().st_size if file.is_file() else 0


def main(path: str, anchor: str, what: str) -> None:
    """Do what the command line asks for."""
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_AS)
    limit = MOST_MEMORY if most == resource.RLIM_INFINITY else min(MOST_MEMORY, most)
    resource.setrlimit(resource.RLIMIT_AS, (limit, most))
    signal.setitimer(signal.ITIMER_PROF, PATIENCE + _size_of_definitions(anchor, what) / BYTES_PER_SECOND)
    library = Library(path, anchor)
    if what == "definitions":
        read_definitions(library)
    else:
        read_events(library, map(int, sys.stdin.read().split()), nesting=what == "events")


if __name__ == "__main__":
    main(*sys.argv[1:])
