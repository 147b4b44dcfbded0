"""pyarrow at the edge: NumPy columns to Arrow columns and back, with -1 for NULL.

pyarrow is imported here, when it is needed; everything else of the format works on NumPy arrays and on these functions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from callgrove.errors import MissingExtra
from callgrove.formats.columnar.schema import TableColumn
from callgrove.formats.columnar.texts import escaped, unescaped
from callgrove.model.arrays import ABSENT, NO_OFFSET, Array

__all__ = ["LIST", "Words", "arrow", "column_of", "list_of", "numbers", "parquet", "schema_of", "table_of", "texts"]

PURPOSE = "the callgrove format, which is made of Parquet files,"
WORD, TEXT = "word", "text"
LIST = "list:"  # before the type of what a list has


def arrow() -> Any:
    """The module pyarrow."""
    try:
        import pyarrow
    except ImportError as error:
        raise MissingExtra("arrow", PURPOSE) from error
    return pyarrow


def parquet() -> Any:
    """The module pyarrow.parquet."""
    arrow()
    import pyarrow.parquet

    return pyarrow.parquet


class Words:
    """A column of texts of which there are few: ids, and the texts that they number; -1 is absent."""

    def __init__(self, ids: Array, texts: Sequence[str]) -> None:
        self.ids, self.texts = ids, texts

    def __len__(self) -> int:
        return len(self.ids)

    def used(self) -> Words:
        """The same with only the texts that occur, each once: a dictionary with a text twice is not written as one."""
        used, ids = np.unique(self.ids, return_inverse=True)
        first = int(len(used) > 0 and used[0] < 0)
        numbers: dict[str, int] = {}
        found = [numbers.setdefault(self.texts[k], len(numbers)) for k in used[first:].tolist()]
        return Words(np.array([ABSENT] * first + found, np.int64)[ids.reshape(-1)], list(numbers))


Cells = Array | Sequence[Any] | Words


def arrow_type(type_: str) -> Any:
    pa = arrow()
    if type_ == WORD:
        return pa.dictionary(pa.int32(), pa.string())
    if type_ == "texts":
        return pa.list_(pa.string())
    if type_.startswith(LIST):
        return pa.list_(arrow_type(type_.removeprefix(LIST)))
    found = {TEXT: pa.string(), "binary": pa.binary(), "double": pa.float64(), "bool": pa.bool_()}.get(type_)
    return found if found is not None else pa.from_numpy_dtype(np.dtype(type_))


def schema_of(columns: Sequence[TableColumn]) -> Any:
    pa = arrow()
    return pa.schema([pa.field(c.name, arrow_type(c.type), c.nullable) for c in columns])


def table_of(columns: Sequence[TableColumn], cells: Mapping[str, Cells]) -> Any:
    """An Arrow table of the cells."""
    arrays = [column_of(cells[column.name], column) for column in columns]
    return arrow().Table.from_arrays(arrays, schema=schema_of(columns))


def column_of(cells: Cells, column: TableColumn) -> Any:
    """One column. Of numbers, -1 (the largest of uint64, NaN of doubles) is NULL where the column may have NULL."""
    pa = arrow()
    if isinstance(cells, Words):
        words = cells.used()
        ids = pa.array(words.ids.astype(np.int32), mask=words.ids < 0) if column.nullable else words.ids
        return pa.DictionaryArray.from_arrays(pa.array(ids, pa.int32()), pa.array(escaped(words.texts), pa.string()))
    if column.type in (TEXT, WORD):
        found = pa.array(escaped(list(cells)), pa.string())
        return found if column.type == TEXT else found.dictionary_encode()
    if column.type == "texts":
        return pa.array([escaped(cell) for cell in cells], arrow_type(column.type))
    if not isinstance(cells, np.ndarray):
        return pa.array(cells, arrow_type(column.type))
    values = cells if column.type == "binary" else np.ascontiguousarray(cells, _dtype(column.type))
    return pa.array(values, arrow_type(column.type), mask=_absent(values) if column.nullable else None)


def _dtype(type_: str) -> np.dtype[Any]:
    return np.dtype({"double": "f8"}.get(type_, type_))


def _absent(values: Array) -> Array:
    if values.dtype.kind == "f":
        return np.isnan(values)
    out: Array = values == (NO_OFFSET if values.dtype == np.uint64 else ABSENT)
    return out


def list_of(values: Array) -> Any:
    """A column of lists of equal length: of each row, all numbers of the other axes."""
    pa = arrow()
    flat = np.ascontiguousarray(values).reshape(len(values), -1)
    bounds = np.arange(len(flat) + 1, dtype=np.int32) * flat.shape[1]
    return pa.ListArray.from_arrays(pa.array(bounds), pa.array(flat.reshape(-1)))


def numbers(column: Any, column_type: str) -> Array:
    """A column of numbers; NULL is -1, NaN of doubles, and no offset of uint64."""
    pa = arrow()
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(whole, pa.ChunkedArray):  # without any chunk
        whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.array([], column.type)
    if whole.null_count:
        fill: object = {"double": np.nan, "uint64": int(NO_OFFSET), "bool": False}.get(column_type, ABSENT)
        whole = whole.fill_null(pa.scalar(fill, whole.type))
    found: Array = whole.to_numpy(zero_copy_only=False)
    return found


def texts(column: Any) -> list[str | None]:
    """A column of texts; None is absent."""
    return unescaped(column.to_pylist())
