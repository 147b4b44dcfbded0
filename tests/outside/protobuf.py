"""A decoder of protocol buffers in forty lines, and an encoder: field numbers and values, no meaning."""

from __future__ import annotations

__all__ = ["decoded", "message", "number"]


def decoded(data: bytes) -> dict[int, list[int | bytes]]:
    """Field number -> its values in order: numbers, eight bytes as they are, or the bytes of a text or message."""
    out: dict[int, list[int | bytes]] = {}
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        field, type_ = key >> 3, key & 7
        value: int | bytes
        if type_ == 0:
            value, at = _varint(data, at)
        else:
            size = {1: 8, 5: 4}.get(type_)
            if type_ == 2:
                size, at = _varint(data, at)
            assert size is not None, f"type {type_} of field {field} at {at}"
            assert at + size <= len(data), f"field {field} ends beyond the data, at {at}"
            value, at = data[at : at + size], at + size
        out.setdefault(field, []).append(value)
    return out


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        shift, at = shift + 7, at + 1
        assert shift <= 70, f"a number of more than ten bytes at {at}"
        if byte < 0x80:
            return value & (2**64 - 1), at


def number(field: int, value: int) -> bytes:
    return _encoded(field << 3) + _encoded(value)


def message(field: int, content: bytes) -> bytes:
    return _encoded(field << 3 | 2) + _encoded(len(content)) + content


def _encoded(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
