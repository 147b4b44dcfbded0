"""Columns of side tables: their types in a folder, found piece by piece.

A side table comes in pieces, and a later one may have a column, or a kind of cell, that no piece before it had: then
the type that holds both is the one of the column.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np

from callgrove.formats.columnar.arrow import TEXT, Cells
from callgrove.formats.columnar.schema import TableColumn
from callgrove.model.arrays import ABSENT, Array
from callgrove.model.traces import SideTable

__all__ = ["JSON", "TEXTS", "Described", "columns_of", "described", "fitting", "listed", "widened"]

TEXTS, JSON = "texts", "json"
NOTHING = "nothing"  # objects of which there was none yet
INTEGERS = ("int8", "int16", "int32", "int64")  # each holds those before it
OBJECTS = (NOTHING, TEXT, TEXTS, JSON)
Described = Mapping[str, tuple[str, str]]  # column -> type, and what it is in memory: an array or a tuple


def widened(known: Described, piece: SideTable) -> Described:
    """The columns that hold what they held, and this piece too."""
    out = dict(known)
    for name, cells in piece.columns.items():
        kind, container = _kind(cells)
        old = known.get(name, (kind, container))
        out[name] = _wider(old[0], kind), old[1]
    return out


def _wider(one: str, other: str) -> str:
    if one == other or other == NOTHING:
        return one
    if one == NOTHING and other in OBJECTS:
        return other
    if one in INTEGERS and other in INTEGERS:
        return max(one, other, key=INTEGERS.index)
    return JSON if one in OBJECTS or other in OBJECTS or "double" not in (one, other) else "double"


def _kind(cells: Array | Sequence[object]) -> tuple[str, str]:
    """The type of some cells, and what they are in memory."""
    container = "array" if isinstance(cells, np.ndarray) else "tuple"
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "iuf":
        signed = cells.dtype.kind == "i" or cells.dtype == np.uint64
        return "double" if cells.dtype.kind == "f" else cells.dtype.name if signed else "int64", container
    if not len(cells):
        return NOTHING, container
    if all(cell is None or isinstance(cell, str) for cell in cells):
        return TEXT, container
    if all(isinstance(cell, tuple | list) and all(isinstance(one, str) for one in cell) for cell in cells):
        return TEXTS, container
    return JSON, container


def described(known: Described) -> list[list[str]]:
    """For the manifest: column, type, and what it is in memory."""
    return [[name, TEXT if kind == NOTHING else kind, container] for name, (kind, container) in known.items()]


def columns_of(told: Sequence[Sequence[str]]) -> tuple[TableColumn, ...]:
    """The columns of a side table as the manifest tells them; -1 and NULL are the same for numbers."""
    own = (TableColumn(name, TEXT if kind == JSON else kind, True) for name, kind, _ in told)
    return (TableColumn("span", "int64"), *own)


def fitting(piece: SideTable, told: Sequence[Sequence[str]]) -> dict[str, Array]:
    """A piece as the arrays that are collected; what it lacks is absent."""
    n = len(piece.span)
    out: dict[str, Array] = {"span": piece.span}
    for name, kind, _ in told:
        cells = piece.columns.get(name)
        if cells is not None:
            out[name] = _as(cells, kind)
        elif kind in OBJECTS:
            out[name] = np.full(n, None, object)
            if kind == TEXTS:
                out[name][:] = [()] * n
        else:
            out[name] = np.full(n, np.nan if kind == "double" else ABSENT, np.float64 if kind == "double" else np.int64)
    return out


def _as(cells: Array | Sequence[object], kind: str) -> Array:
    if kind not in OBJECTS:
        return np.asarray(cells).astype(np.float64 if kind == "double" else kind, copy=False)
    plain = cells.tolist() if isinstance(cells, np.ndarray) else cells
    out = np.empty(len(plain), object)
    for number, cell in enumerate(plain):
        if kind == JSON:
            out[number] = json.dumps(cell, default=str)
        else:
            out[number] = cell if cell is None or kind == TEXTS else str(cell)
    return out


def listed(rows: Mapping[str, Array], columns: Sequence[TableColumn]) -> dict[str, Cells]:
    """Texts as lists: those are what becomes text in Arrow."""
    texts = {column.name for column in columns if column.type in (TEXT, TEXTS)}
    return {name: cells.tolist() if name in texts else cells for name, cells in rows.items()}
