"""The data types of metrics, by the names that files use. Packed, in the byte order that the index announces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from callgrove.formats.cube.scale_functions import SCALE_FUNC_BYTES, pack_scale_functions, unpack_scale_functions
from callgrove.model.arrays import Array
from callgrove.model.composites import SCALE_FUNC, composite_named
from callgrove.model.metrics import Aggregation, Composite

__all__ = ["LARGEST", "ValueType", "value_type"]

LARGEST = float(np.finfo(np.float64).max)  # stands for an absent minimum; its negative for an absent maximum
PLAIN = {
    "i1": ("INT8", "CHAR"),
    "u1": ("UINT8",),
    "i2": ("INT16", "SHORT INT", "SIGNED SHORT INT"),
    "u2": ("UINT16", "UNSIGNED SHORT INT"),
    "i4": ("INT32", "INT", "SIGNED INT"),
    "u4": ("UINT32", "UNSIGNED INT"),
    "i8": ("INT64", "INTEGER", "SIGNED INTEGER"),
    "u8": ("UINT64", "UNSIGNED INTEGER"),
    "f8": ("DOUBLE", "FLOAT", "MINDOUBLE", "MAXDOUBLE"),
}
NUMBERS = {name: np.dtype(f"<{code}") for code, names in PLAIN.items() for name in names}


@dataclass(frozen=True)
class ValueType:
    """One data type: `item` is its size in the file, `dtype` what a value is in memory."""

    name: str
    dtype: np.dtype[Any]
    item: int
    aggregation: Aggregation
    composite: Composite | None = None

    @property
    def absent(self) -> float:
        """What the file stores where there is no value."""
        return {Aggregation.MINIMUM: LARGEST, Aggregation.MAXIMUM: -LARGEST}.get(self.aggregation, 0.0)

    @property
    def is_scale_function(self) -> bool:
        return self.composite is SCALE_FUNC

    def decode(self, raw: Array, big: bool) -> Array:
        """From bytes (rows x bytes of a row) to values (rows x locations); little-endian ones are not copied."""
        if self.is_scale_function:
            return unpack_scale_functions(raw.reshape(len(raw), -1, self.item), big)
        values: Array = raw.view(self.dtype.newbyteorder(">" if big else "<"))
        return values.astype(self.dtype) if big else values

    def encode(self, values: Array) -> Array:
        """The way back, in little-endian: rows x bytes of a row."""
        if self.is_scale_function:
            return pack_scale_functions(values).reshape(len(values), -1)
        fitting = np.ascontiguousarray(values, self.dtype)
        return fitting.view(np.uint8).reshape(len(values), -1)


def value_type(name: str) -> ValueType | None:
    """The type of that name, None where it is not known."""
    word = " ".join(name.split()).upper()
    if word in NUMBERS:
        rules = {"MINDOUBLE": Aggregation.MINIMUM, "MAXDOUBLE": Aggregation.MAXIMUM}
        return ValueType(word, NUMBERS[word], NUMBERS[word].itemsize, rules.get(word, Aggregation.SUM))
    if (found := composite_named(name)) is None:
        return None
    item = SCALE_FUNC_BYTES if found is SCALE_FUNC else found.dtype.itemsize
    return ValueType(word, found.dtype, item, Aggregation.COMPOSITE, found)
