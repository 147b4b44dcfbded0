"""Columns as an engine takes them, and an engine's cells as results have them.

In a column of integers, what does not fit into 64 bits is NULL; in one of real numbers, what is no number is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from callgrove.model.arrays import Array
from callgrove.model.table import Column
from callgrove.query.relations import Coded, Type

__all__ = ["codes_and_texts", "numbers_and_nulls", "plain_cell", "plain_cells"]

LARGEST = 2**63 - 1


def numbers_and_nulls(column: Column, type_: Type) -> tuple[Array, Array]:
    """An array of int64 or float64, and where there is nothing."""
    values = column.values
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "biuf":
        return _from_cells(column.plain(), type_)
    missing: Array = np.zeros(len(values), np.bool_)
    if column.absent is not None:
        missing = np.isnan(values) if column.absent != column.absent else values == column.absent
    if type_ is Type.REAL:
        made = values.astype(np.float64, copy=False)
        return made, missing | np.isnan(made)
    if values.dtype.kind == "f":
        return _from_cells(column.plain(), type_)
    if values.dtype.kind == "u":
        missing = missing | (values > np.uint64(LARGEST))
    return values.astype(np.int64, copy=False), missing


def _from_cells(cells: Sequence[Any], type_: Type) -> tuple[Array, Array]:
    fits = _fits_integer if type_ is Type.INTEGER else _fits_real
    missing = np.array([not fits(cell) for cell in cells], np.bool_)
    zeroed = [0 if gone else cell for cell, gone in zip(cells, missing.tolist(), strict=True)]
    return np.array(zeroed, np.int64 if type_ is Type.INTEGER else np.float64), missing


def _fits_integer(cell: Any) -> bool:
    return isinstance(cell, int | float) and -LARGEST - 1 <= cell <= LARGEST and cell == int(cell)


def _fits_real(cell: Any) -> bool:
    return isinstance(cell, int | float) and cell == cell


def codes_and_texts(column: Column) -> tuple[Array, list[str | None]]:
    """Numbers into a list of texts, which may hold None."""
    if isinstance(column.values, Coded):
        codes, texts = column.values.compact()
    else:
        number: dict[Any, int] = {}
        codes = np.array([number.setdefault(cell, len(number)) for cell in column.plain()], np.int64)
        texts = list(number)
    return codes, [None if text is None else _encodable(str(text)) for text in texts]


def _encodable(text: str) -> str:
    """The same text, with replacement characters for what is no Unicode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def plain_cells(column: Column, type_: Type) -> list[Any]:
    """Python's own numbers and texts; None is NULL."""
    if type_ is Type.TEXT:
        codes, texts = codes_and_texts(column)
        return [texts[code] for code in codes.tolist()]
    values, missing = numbers_and_nulls(column, type_)
    cells: list[Any] = values.tolist()
    for row in np.flatnonzero(missing).tolist():
        cells[row] = None
    return cells


def plain_cell(cell: Any) -> Any:
    """A cell of a result: numbers, texts and None as they are, truth as 1 and 0, all else as text."""
    make = _CELLS.get(type(cell))
    if make is None:
        return str(cell)
    return make(cell)


def _same(cell: Any) -> Any:
    return cell


_CELLS: dict[type, Callable[[Any], Any]] = {
    **dict.fromkeys((int, float, str, type(None), list, dict), _same),
    bool: int,
    Decimal: float,
    bytes: bytes.hex,
}
