"""Names for the array types of the model."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "ABSENT",
    "NO_OFFSET",
    "Array",
    "Bools",
    "Floats",
    "Ids",
    "Ints",
    "Offsets",
    "distinct",
    "frozen",
    "summable",
]

ABSENT = -1
NO_OFFSET = np.uint64(2**64 - 1)  # offsets are unsigned: kernel addresses exceed 2**63

Array = npt.NDArray[Any]
Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int32]
Ints = npt.NDArray[np.int64]
Offsets = npt.NDArray[np.uint64]


def frozen(array: Array) -> Array:
    """The same array, read-only: the model is immutable, its arrays too."""
    array.flags.writeable = False
    return array


def distinct(*parts: Array) -> Array:
    """The different numbers in some columns, ascending. Where most of them differ, sorting is far faster than the hash
    table of `np.unique`: 15 times for a million."""
    values = np.sort(parts[0] if len(parts) == 1 else np.concatenate(parts), kind="stable")
    fresh = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=fresh[1:])
    return values[fresh]


def summable(values: Array) -> Array:
    """The same numbers in a type that holds their sum: integers of 64 bits, or doubles where these would overflow."""
    if values.dtype.kind not in "biu":
        return values
    signed = values.dtype.kind != "u"
    wide = values.astype(np.int64 if signed else np.uint64, copy=False)
    if not values.size or values.dtype.itemsize * 8 + int(values.size).bit_length() < 63:
        return wide
    # Three comparisons instead of an exact sum: the largest magnitude times the count, then the sum in doubles.
    top = max(abs(int(wide.min())), abs(int(wide.max())))
    limit = 2**63 if signed else 2**64
    if top * values.size < limit or float(np.abs(wide.astype(np.float64)).sum()) < limit * 0.999:
        return wide
    return wide.astype(np.float64)
