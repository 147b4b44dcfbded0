"""Damage to record tables, whose fields the formats themselves list, to protocol buffers and to OTF2's records."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from tests.fuzz.texts import LIES, break_bytes, lie_at

__all__ = ["break_fields", "break_otf2", "break_protobuf"]


def break_fields(data: bytes, rng: random.Random, offsets: Sequence[int]) -> bytes:
    """Return the content with a wrong number where a field begins; `offsets` are those of all fields, in order."""
    inside = [offset for offset in offsets if offset < len(data)]
    if not inside or rng.random() < 0.2:
        return break_bytes(data, rng)
    at = rng.randrange(len(inside))
    if rng.random() < 0.1:
        return data[: inside[at]]
    end = inside[at + 1] if at + 1 < len(inside) else len(data)
    width = max(width for width in (1, 2, 4, 8) if width <= max(1, end - inside[at]))
    return lie_at(data, inside[at], min(width, len(data) - inside[at]), rng)


# -- protocol buffers --------------------------------------------------------------------------------------------------

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


@dataclass
class _Field:
    number: int
    kind: int
    value: int | bytes | list[_Field]


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]  # an IndexError ends what is not a message
        number |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return number, at
        if shift > 63:
            raise IndexError


def _write_varint(number: int) -> bytes:
    out = bytearray()
    number &= 2**64 - 1
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def _parse(data: bytes, depth: int = 0) -> list[_Field] | None:
    """Return the fields of a message, nested where content reads as one; None: it is not a message."""
    fields, at = [], 0
    try:
        while at < len(data):
            key, at = _read_varint(data, at)
            number, kind = key >> 3, key & 7
            value: int | bytes | list[_Field]
            if kind == VARINT:
                value, at = _read_varint(data, at)
            elif kind in (FIXED64, FIXED32):
                width = 8 if kind == FIXED64 else 4
                value, at = data[at : at + width], at + width
            elif kind == BYTES:
                size, at = _read_varint(data, at)
                content, at = data[at : at + size], at + size
                value = (_parse(content, depth + 1) if depth < 6 and content else None) or content
            else:
                return None
            if number == 0 or at > len(data):
                return None
            fields.append(_Field(number, kind, value))
    except IndexError:
        return None
    return fields


def _encode(fields: list[_Field]) -> bytes:
    out = []
    for field in fields:
        value = _encode(field.value) if isinstance(field.value, list) else field.value
        out.append(_write_varint(field.number << 3 | field.kind))
        if isinstance(value, int):
            out.append(_write_varint(value))
        elif field.kind == BYTES:
            out.append(_write_varint(len(value)) + value)
        else:
            out.append(value)
    return b"".join(out)


def break_protobuf(data: bytes, rng: random.Random) -> bytes:
    """Return messages with another number, text, order or kind of field at any level."""
    fields = _parse(data)
    if not fields or rng.random() < 0.2:
        return break_bytes(data, rng)
    siblings = fields
    while True:
        at = rng.randrange(len(siblings))
        value = siblings[at].value
        if not isinstance(value, list) or rng.random() < 0.2:
            break
        siblings = value
    _change_field(siblings, at, rng)
    return _encode(fields)


def _change_field(siblings: list[_Field], at: int, rng: random.Random) -> None:
    field, what = siblings[at], rng.randrange(7)
    if what == 0:
        del siblings[at]
    elif what == 1:
        siblings[at:at] = [field] * rng.choice((1, 2, 200))
    elif what == 2:
        siblings[at], siblings[other] = siblings[other := rng.randrange(len(siblings))], field
    elif what == 3:
        siblings[at] = _Field(rng.choice((1, 2, 5, 19000, 2**29 - 1, field.number + 1)), field.kind, field.value)
    elif what == 4:
        siblings[at] = _Field(
            field.number,
            *rng.choice(
                ((VARINT, rng.choice(LIES)), (BYTES, b"\xff\xfe"), (FIXED32, b"\xff" * 4), (FIXED64, b"\x7f" * 8))
            ),
        )
    elif field.kind == VARINT:
        siblings[at] = _Field(field.number, VARINT, rng.choice(LIES))
    elif isinstance(field.value, bytes):
        siblings[at] = _Field(field.number, field.kind, break_bytes(field.value, rng))


# -- OTF2 --------------------------------------------------------------------------------------------------------------
# A chunk begins with its kind, the byte order and the numbers of its first and last events. A record is a type, a
# length (one byte, or 255 and eight) and that many bytes; a time (type 5) is eight bytes without a length.

CHUNK_HEADER = 18
TIME = 5


def break_otf2(data: bytes, rng: random.Random) -> bytes:
    """Return a file of an archive with another type, length or number in one of its records."""
    records = _records(data)
    if not records or rng.random() < 0.3:
        return break_bytes(data, rng)
    begin, end = rng.choice(records)
    what = rng.randrange(5)
    if what == 0:
        return lie_at(data, begin, 1, rng)
    if what == 1:
        return lie_at(data, min(begin + 1, len(data) - 1), 1, rng)
    if what == 2:
        return data[:begin] + data[begin:end] * rng.choice((0, 2, 50)) + data[end:]
    if what == 3:
        return lie_at(data, rng.choice((0, 1, 2, 10)), 1, rng)
    return data[:begin] + break_bytes(data[begin:end], rng) + data[end:]


def _records(data: bytes) -> list[tuple[int, int]]:
    places: list[tuple[int, int]] = []
    at = CHUNK_HEADER
    while at + 2 <= len(data) and len(places) < 10_000:
        if data[at] == TIME:
            end = at + 9
        elif data[at + 1] == 255:
            end = at + 10 + int.from_bytes(data[at + 2 : at + 10], "little")
        else:
            end = at + 2 + data[at + 1]
        if end > len(data) or data[at] == 0:
            break
        places.append((at, end))
        at = end
    return places
