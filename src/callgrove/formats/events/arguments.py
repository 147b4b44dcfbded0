"""Arguments of events, stored as numbers: texts are made of them when somebody asks."""

from __future__ import annotations

import numpy as np

from callgrove.arrays import Array

__all__ = ["ARGUMENT_TYPES", "ValueType", "render_values"]


class ValueType:
    """How the value of an argument is stored, in 64 bits: a number, the bits of a double, the number of a text."""

    BOOL, INT, UINT, DOUBLE, TEXT, POINTER = range(6)


ARGUMENT_TYPES = ("bool", "int", "uint", "double", "string", "pointer")  # what users read, by `ValueType`


def render_values(type_: Array, bits: Array, texts: Array) -> Array:
    """Return values of arguments as texts; `texts` are those that values may number."""
    out = np.empty(len(type_), np.object_)
    for kind in np.unique(type_).tolist():
        rows = np.flatnonzero(type_ == kind)
        values = bits[rows]
        if kind == ValueType.TEXT:
            out[rows] = texts[values.astype(np.int64)]
        elif kind == ValueType.BOOL:
            out[rows] = np.where(values != 0, "true", "false").astype(np.object_)
        elif kind == ValueType.POINTER:
            out[rows] = [hex(value) for value in values.tolist()]
        else:
            signed = values.view(np.float64 if kind == ValueType.DOUBLE else np.int64)
            numbers = values if kind == ValueType.UINT else signed
            out[rows] = [str(value) for value in numbers.tolist()]
    return out
