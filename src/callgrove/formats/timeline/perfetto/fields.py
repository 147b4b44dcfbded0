"""Field numbers of the messages that are written, by the names of perfetto's .proto files, and single messages.

Types on the wire: 0 a number of variable length, 1 eight bytes, 2 a length and that many bytes.
"""

from __future__ import annotations

from enum import IntEnum

__all__ = [
    "CounterDescriptor",
    "DebugAnnotation",
    "EventType",
    "Interned",
    "InternedData",
    "Packet",
    "ProcessDescriptor",
    "ThreadDescriptor",
    "TrackDescriptor",
    "TrackEvent",
    "Unit",
    "fixed64_tag",
    "message",
    "number",
    "tag",
    "text",
    "varint",
]

PACKET = 1  # Trace.packet


class Packet(IntEnum):
    TIMESTAMP = 8
    TRUSTED_PACKET_SEQUENCE_ID = 10
    TRACK_EVENT = 11
    INTERNED_DATA = 12
    SEQUENCE_FLAGS = 13
    TRACK_DESCRIPTOR = 60


CLEARED, NEEDS_STATE = 1, 2  # Packet.SEQUENCE_FLAGS


class TrackDescriptor(IntEnum):
    UUID = 1
    NAME = 2
    PROCESS = 3
    THREAD = 4
    PARENT_UUID = 5
    COUNTER = 8
    CHILD_ORDERING = 11
    SIBLING_ORDER_RANK = 12


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
    UNIT_NAME = 6


class Unit(IntEnum):
    BYTES = 3


class TrackEvent(IntEnum):
    CATEGORY_IIDS = 3
    DEBUG_ANNOTATIONS = 4
    TYPE = 9
    NAME_IID = 10
    TRACK_UUID = 11
    COUNTER_VALUE = 30
    DOUBLE_COUNTER_VALUE = 44
    FLOW_IDS = 47
    TERMINATING_FLOW_IDS = 48


class EventType(IntEnum):
    SLICE_BEGIN = 1
    SLICE_END = 2
    COUNTER = 4


class DebugAnnotation(IntEnum):
    NAME_IID = 1
    BOOL_VALUE = 2
    INT_VALUE = 4
    DOUBLE_VALUE = 5
    STRING_VALUE_IID = 17


class InternedData(IntEnum):
    EVENT_CATEGORIES = 1
    EVENT_NAMES = 2
    DEBUG_ANNOTATION_NAMES = 3
    DEBUG_ANNOTATION_STRING_VALUES = 29


class Interned(IntEnum):
    IID = 1
    TEXT = 2


ONE_BYTE = tuple(bytes((k,)) for k in range(0x80))


def varint(value: int) -> bytes:
    """A number, seven bits at a time; negative ones as 64-bit numbers."""
    if 0 <= value < 0x80:
        return ONE_BYTE[value]
    value &= 2**64 - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def tag(field: int) -> bytes:
    return varint(field << 3)


def fixed64_tag(field: int) -> bytes:
    return varint(field << 3 | 1)


def number(field: int, value: int) -> bytes:
    return tag(field) + varint(value)


def message(field: int, *parts: bytes) -> bytes:
    """A message inside another one, or a text."""
    content = b"".join(parts)
    return varint(field << 3 | 2) + varint(len(content)) + content


def text(field: int, value: str) -> bytes:
    return message(field, value.encode("utf-8", "replace"))
