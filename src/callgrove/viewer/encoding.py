"""A document of columns and texts, small enough to mail.

A panel's data is made of plain values, NumPy arrays and `Texts`. In the page it is the same thing again, with typed
arrays in place of NumPy's and arrays of strings in place of `Texts` (static/data.js is the other half):

    {"version": 1, ..., "strings": [offset, bytes], "blob": base64(deflate(bytes))}
    array   {"$a": [type, offset, length]}      type: i1 u1 i2 u2 i4 u4 f4 f8, little-endian
    texts   {"$t": [type, offset, length]}      indices into the strings of the document, each of them stored once

Numbers of more than one byte are stored byte plane by byte plane: first bytes, then second ones, and so on. Deflate
makes of such planes about half of what it makes of the numbers as they are. An array that occurs twice is stored once.
Integers take the smallest type that holds them; beyond 32 bits they become doubles, the only numbers that pages have.

Every text is made visible here: no control character, direction mark or half character gets into a page.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np

from callgrove.model.arrays import Array
from callgrove.render.visible import visible

__all__ = ["Texts", "encode"]

VERSION = 1
INTEGERS = ("u1", "i1", "u2", "i2", "u4", "i4")
LEVEL = 6  # of deflate: higher ones take far longer for a percent


@dataclass(frozen=True, eq=False)
class Texts:
    """A column of texts, many of which may be equal."""

    values: Sequence[str]


def encode(document: Mapping[str, Any]) -> str:
    """The document as JSON that may stand inside an HTML script element."""
    packer = _Packer()
    body = packer.plain(document)
    strings = packer.strings()
    blob = base64.b64encode(zlib.compress(packer.bytes(), LEVEL)).decode("ascii")
    text = json.dumps({"version": VERSION, **body, "strings": strings, "blob": blob}, separators=(",", ":"))
    # json.dumps leaves ASCII only; these could still end or open an element
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


class _Packer:
    """Bytes so far, and where everything lies in them."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0
        self._places: dict[int, tuple[object, list[Any]]] = {}  # by identity; the object is kept alive
        self._numbers: dict[str, int] = {}

    def plain(self, value: Any) -> Any:
        """The value as JSON knows it."""
        if isinstance(value, Mapping):
            return {visible(str(key)): self.plain(part) for key, part in value.items()}
        if isinstance(value, np.ndarray):
            return {"$a": self._once(value, lambda: self._array(value))}
        if isinstance(value, Texts):
            return {"$t": self._once(value, lambda: self._texts(value))}
        if isinstance(value, np.generic):
            return self.plain(value.item())
        if isinstance(value, str):
            return visible(value)
        if isinstance(value, list | tuple):
            return [self.plain(part) for part in value]
        return None if isinstance(value, float) and not isfinite(value) else value

    def _once(self, value: object, place: Any) -> list[Any]:
        if id(value) not in self._places:
            self._places[id(value)] = value, place()
        return self._places[id(value)][1]

    def _texts(self, texts: Texts) -> list[Any]:
        numbers = [self._numbers.setdefault(visible(text), len(self._numbers)) for text in texts.values]
        return self._array(np.array(numbers, np.int64))

    def _array(self, array: Array) -> list[Any]:
        small = _smallest(array)
        kind = small.dtype.str[1:]
        planes = np.ascontiguousarray(small).view(np.uint8).reshape(-1, small.dtype.itemsize).T
        return [kind, self._add(planes.tobytes()), len(small)]

    def _add(self, piece: bytes) -> int:
        at = self._size
        self._pieces.append(piece)
        self._size += len(piece)
        return at

    def strings(self) -> list[int]:
        """All texts, as a JSON array among the bytes: where it lies, and how long it is."""
        text = json.dumps(list(self._numbers), ensure_ascii=False, separators=(",", ":")).encode()
        return [self._add(text), len(text)]

    def bytes(self) -> bytes:
        return b"".join(self._pieces)


def _smallest(array: Array) -> Array:
    """The array in a type that pages know, one-dimensional and little-endian."""
    flat = array.reshape(-1)
    if flat.dtype.kind == "b":
        return flat.astype("<u1")
    if flat.dtype.kind in "iu":
        low, high = (int(flat.min()), int(flat.max())) if len(flat) else (0, 0)
        for name in INTEGERS:
            limits = np.iinfo(name)
            if limits.min <= low and high <= limits.max:
                return flat.astype(f"<{name}")
        return flat.astype("<f8")
    return flat.astype("<f4" if flat.dtype == np.float32 else "<f8")
