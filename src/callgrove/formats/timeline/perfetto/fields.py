"""Numbers of the fields of Perfetto's messages, for those who read and those who write. Names are those of the .proto
files.

    Trace            packet*
    TracePacket      timestamp, sequence, flags, and one of: track_event, track_descriptor, clock_snapshot, ...
    InternedData     {iid, text}*, of which events of the same sequence name the iid
"""

from __future__ import annotations

from enum import IntEnum

__all__ = [
    "BOOTTIME",
    "CLEARED",
    "EXPLICIT",
    "NEEDS_STATE",
    "OTHER_PACKETS",
    "PACKET",
    "PROFILER_TRACK",
    "SEQUENCE_CLOCKS",
    "Clock",
    "ClockSnapshot",
    "CounterDescriptor",
    "DebugAnnotation",
    "EventType",
    "Interned",
    "InternedData",
    "LegacyEvent",
    "NestedValue",
    "Packet",
    "PacketDefaults",
    "ProcessDescriptor",
    "SourceLocation",
    "ThreadDescriptor",
    "TrackDescriptor",
    "TrackEvent",
    "TrackEventDefaults",
    "Unit",
]


PACKET = 1  # Trace.packet


class Packet(IntEnum):
    TRUSTED_UID = 3
    CLOCK_SNAPSHOT = 6
    TIMESTAMP = 8
    TRUSTED_PACKET_SEQUENCE_ID = 10
    TRACK_EVENT = 11
    INTERNED_DATA = 12
    SEQUENCE_FLAGS = 13
    SYNCHRONIZATION_MARKER = 36
    INCREMENTAL_STATE_CLEARED = 41
    PREVIOUS_PACKET_DROPPED = 42
    PROCESS_DESCRIPTOR = 43
    THREAD_DESCRIPTOR = 44
    COMPRESSED_PACKETS = 50
    TIMESTAMP_CLOCK_ID = 58
    TRACE_PACKET_DEFAULTS = 59
    TRACK_DESCRIPTOR = 60
    TRUSTED_PID = 79
    FIRST_PACKET_ON_SEQUENCE = 87
    MACHINE_ID = 98


OTHER_PACKETS = {  # what is in packets that hold no events of tracks; others are called by their number
    1: "ftrace events",
    2: "process tree",
    5: "events of old Chrome",
    7: "system statistics",
    9: "process statistics",
    33: "configuration",
    34: "ftrace statistics",
    35: "statistics of the trace",
    37: "heap profile",
    38: "battery",
    39: "Android log",
    45: "system information",
    52: "GPU counters",
    53: "GPU render stages",
    54: "sampled stacks",
    61: "symbols",
    66: "samples of perf",
    67: "CPU information",
    69: "service events",
    71: "GPU memory",
    89: "trace id",
    133: "packets compressed with zstd",
}

CLEARED, NEEDS_STATE = 1, 2  # Packet.SEQUENCE_FLAGS
BOOTTIME = 6  # the clock of times that name none
SEQUENCE_CLOCKS = range(64, 128)  # clocks that each sequence has for itself


class ClockSnapshot(IntEnum):
    CLOCKS = 1
    PRIMARY_TRACE_CLOCK = 2


class Clock(IntEnum):
    CLOCK_ID = 1
    TIMESTAMP = 2
    IS_INCREMENTAL = 3
    UNIT_MULTIPLIER_NS = 4


class PacketDefaults(IntEnum):
    TRACK_EVENT_DEFAULTS = 11
    TIMESTAMP_CLOCK_ID = 58


class TrackEventDefaults(IntEnum):
    TRACK_UUID = 11
    EXTRA_COUNTER_TRACK_UUIDS = 31
    EXTRA_DOUBLE_COUNTER_TRACK_UUIDS = 45


class TrackDescriptor(IntEnum):
    UUID = 1
    NAME = 2
    PROCESS = 3
    THREAD = 4
    PARENT_UUID = 5
    COUNTER = 8
    STATIC_NAME = 10
    CHILD_ORDERING = 11
    SIBLING_ORDER_RANK = 12
    ATRACE_NAME = 13
    DESCRIPTION = 14


PROFILER_TRACK = "what the profiler tells of itself"  # our own TrackDescriptor.DESCRIPTION of such tracks
EXPLICIT = 3  # TrackDescriptor.CHILD_ORDERING: by rank


class ProcessDescriptor(IntEnum):
    PID = 1
    CMDLINE = 2
    PROCESS_NAME = 6
    PROCESS_LABELS = 8


class ThreadDescriptor(IntEnum):
    PID = 1
    TID = 2
    THREAD_NAME = 5


class CounterDescriptor(IntEnum):
    UNIT = 3
    UNIT_MULTIPLIER = 4
    IS_INCREMENTAL = 5
    UNIT_NAME = 6


class Unit(IntEnum):
    TIME_NS = 1
    COUNT = 2
    BYTES = 3


class TrackEvent(IntEnum):
    CATEGORY_IIDS = 3
    DEBUG_ANNOTATIONS = 4
    LEGACY_EVENT = 6
    TYPE = 9
    NAME_IID = 10
    TRACK_UUID = 11
    EXTRA_COUNTER_VALUES = 12
    CATEGORIES = 22
    NAME = 23
    COUNTER_VALUE = 30
    EXTRA_COUNTER_TRACK_UUIDS = 31
    SOURCE_LOCATION = 33
    SOURCE_LOCATION_IID = 34
    FLOW_IDS_OLD = 36
    TERMINATING_FLOW_IDS_OLD = 42
    DOUBLE_COUNTER_VALUE = 44
    EXTRA_DOUBLE_COUNTER_TRACK_UUIDS = 45
    EXTRA_DOUBLE_COUNTER_VALUES = 46
    FLOW_IDS = 47
    TERMINATING_FLOW_IDS = 48
    CORRELATION_ID = 52


class EventType(IntEnum):
    SLICE_BEGIN = 1
    SLICE_END = 2
    INSTANT = 3
    COUNTER = 4


class LegacyEvent(IntEnum):
    NAME_IID = 1
    PHASE = 2
    DURATION_US = 3
    UNSCOPED_ID = 6
    ID_SCOPE = 7
    BIND_ID = 8
    LOCAL_ID = 10
    GLOBAL_ID = 11
    FLOW_DIRECTION = 13
    PID_OVERRIDE = 18
    TID_OVERRIDE = 19


class DebugAnnotation(IntEnum):
    NAME_IID = 1
    BOOL_VALUE = 2
    UINT_VALUE = 3
    INT_VALUE = 4
    DOUBLE_VALUE = 5
    STRING_VALUE = 6
    POINTER_VALUE = 7
    NESTED_VALUE = 8
    LEGACY_JSON_VALUE = 9
    NAME = 10
    DICT_ENTRIES = 11
    ARRAY_VALUES = 12
    STRING_VALUE_IID = 17


class NestedValue(IntEnum):
    DICT_KEYS = 2
    DICT_VALUES = 3
    ARRAY_VALUES = 4
    INT_VALUE = 5
    DOUBLE_VALUE = 6
    BOOL_VALUE = 7
    STRING_VALUE = 8


class InternedData(IntEnum):
    EVENT_CATEGORIES = 1
    EVENT_NAMES = 2
    DEBUG_ANNOTATION_NAMES = 3
    SOURCE_LOCATIONS = 4
    DEBUG_ANNOTATION_STRING_VALUES = 29


class Interned(IntEnum):
    IID = 1
    TEXT = 2


class SourceLocation(IntEnum):
    IID = 1
    FILE_NAME = 2
    FUNCTION_NAME = 3
    LINE_NUMBER = 4
