"""The tables of a folder: columns, types and what stands for absent (docs/callgrove-format.md), as Arrow columns and
back.

Columns that only people and other tools need (`shown`) repeat what ids already say; our reader leaves them alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from callgrove.arrays import ABSENT, NO_OFFSET, Array
from callgrove.errors import MissingExtra

__all__ = [
    "BESIDE",
    "EXPERIMENT",
    "FIELD",
    "FILLER",
    "FORMAT_MINOR",
    "FORMAT_NAME",
    "FORMAT_VERSION",
    "LIST",
    "MANIFEST",
    "SIDE",
    "SOURCES",
    "STUDY",
    "VALUES",
    "TableColumn",
    "Words",
    "arrow",
    "column_of",
    "escape_texts",
    "list_of",
    "numbers",
    "parquet",
    "schema_of",
    "table_of",
    "texts",
    "unescape_texts",
    "value_columns",
]


FORMAT_NAME, FORMAT_VERSION = "callgrove", 1
FORMAT_MINOR = 2  # what was added since: such folders are read by older programs, and older folders here
MANIFEST, SOURCES = "callgrove.json", "sources"
VALUES, SIDE, BESIDE = "values", "span_", "trace_"  # how the names of tables begin of which there are several
FIELD, FILLER = "field_", "filler"  # further columns of values


@dataclass(frozen=True)
class TableColumn:
    """One column. Types: int32, int64, uint64, double, bool, text, binary; `word` is a text with few different ones.
    `since` is the minor version that has it first."""

    name: str
    type: str
    nullable: bool = False
    shown: bool = False
    since: int = 0


def _columns(text: str) -> tuple[TableColumn, ...]:
    """Return columns from `name:type` with `?` for NULL where absent, in brackets what is only shown, `+1` since minor
    version 1."""
    out = []
    for word in text.split():
        told, _, since = word.strip("[]").partition("+")
        name, _, type_ = told.partition(":")
        shown = word.startswith("[")
        out.append(TableColumn(name, type_.rstrip("?"), type_.endswith("?"), shown, int(since or 0)))
    return tuple(out)


EXPERIMENT: dict[str, tuple[TableColumn, ...]] = {
    name: _columns(text)
    for name, text in {
        "strings": "string:int32 text:text",
        "files": "file:int32 path:text copy:text?",
        "modules": "module:int32 name:text",
        "regions": "region:int32 kind:word [name:word?] [file:word?] line:int32? end_line:int32? [module:word?] "
        "offset:uint64? [role:word?] [paradigm:word?] name_id:int32? file_id:int32? module_id:int32? role_id:int32? "
        "paradigm_id:int32?",
        "contexts": "context:int32 parent:int32? subtree_end:int32 [depth:int32] kind:word relation:word [name:word] "
        "[file:word?] [line:int32?] [module:word?] [offset:uint64?] region:int32? within:int32? [call_file:word?] "
        "call_line:int32? source_id:int64? call_file_id:int32?",
        "context_parameters": "context:int32 name:text text:text? number:double? integer:int64?",
        "runs": "run:int32 name:text? repetition:int64 source:text?",
        "parameters": "run:int32 name:text value:double",
        "profiles": "profile:int32 source_id:int64? run:int32 kind:word name:text? [label:text] [node:uint64?] "
        "[rank:uint64?] [thread:uint64?] [gpu_device:uint64?] [gpu_context:uint64?] [gpu_stream:uint64?] "
        "[core:uint64?] place:int32? part:int32?",
        "identifiers": "profile:int32 [kind:word] physical:uint64 logical:uint64 interpretation:int32 kind_id:int32",
        "places": "place:int32 parent:int32? kind:word? name:text? rank:int64? source_id:int64?",
        "topologies": "topology:int32 name:text? dimension:int32? dimension_name:text? size:int64? periodic:bool?",
        "coordinates": "topology:int32 place:int32 dimension:int32 coordinate:int64",
        "metrics": "metric:int32 source_id:int64? name:text unit:text? scope:word? dtype:text aggregation:word "
        "parent:int32? description:text? url:text? visible:bool show_percent:bool number_format:text? formula:text? "
        "statistic:text? id_of_quantity:bool composite:text? summary_id:int64? formula_language:text?+2 "
        "formula_when:text?+2 formula_problem:text?+2",
        "metric_columns": "name:text scope:word? formula:text? description:text? statistic:text? visible:bool "
        "show_percent:bool number_format:text? source_id:int64? partner:int64?",
        "attributes": "owner:word number:int64 name:text value:text",
        "attachments": "name:text size:int64 data:binary",
        "value_order": "file:int32 first:int64 rows:int64",
        "samples": "line:int32 profile:int32 metric:int32? time_ns:int64 context:int32?",
        "sample_lines": "line:int32 profile:int32 metric:int32? samples:int64",
        "spans": "span:int64 profile:int32? kind:word category:word? name:word? label:word? start_ns:int64 "
        "end_ns:int64 depth:int32? correlation:int64? context:int32? parent_correlation:int64?+1",
        "span_strings": "string:int32 text:text",
        "span_sides": "side:word part:int32 first:int64 rows:int64",
        "devices": "part:int32 device:int32 process:int32 kind:word index:int64 name:text attributes:word",
        "counters": "profile:int32 name:word time_ns:int64 value:double",
        "index": "table:word row_group:int32 profile:int32? rows:int64 start_ns:int64? end_ns:int64?",
    }.items()
}

STUDY: dict[str, tuple[TableColumn, ...]] = {
    name: _columns(text)
    for name, text in {
        "points": "point:int32 parameter:word value:double",
        "callpaths": "callpath_id:int32 callpath:text",
        "metric_names": "metric_id:int32 metric:text",
        "series": "series:int32 [callpath:word] [metric:word] callpath_id:int32 metric_id:int32",
        "measurements": "series:int32 point:int32 repetitions:int64? mean:double? median:double? minimum:double? "
        "maximum:double? std:double?",
        "raw_values": "series:int32 point:int32 repetition:int64 value:double?",
        "models": "name:text? callpath:text metric:text function:text constant:double terms:text statistics:text "
        "segments:text",
    }.items()
}


def value_columns(type_: str, fillers: bool) -> tuple[TableColumn, ...]:
    """Return the columns of a table of values whose values are of one type; what composite ones have beside is not
    here."""
    more = f" {FILLER}:bool" if fillers else ""
    return _columns(f"profile:int32 context:int32 metric:int32 value:{type_}{more}")


# -- texts that Parquet can hold ---------------------------------------------------------------------------------------
# Names in files may have bytes that are not UTF-8; in Python these are lone surrogates, which no UTF-8 has. Each
# becomes two characters: U+10FFFF, which no text has, and the surrogate moved up by 0x100000. A U+10FFFF itself is
# doubled.


MARK = "\U0010ffff"
UP = 0x100000
_UNFIT = re.compile("[\ud800-\udfff\U0010ffff]")
_MARKED = re.compile("\U0010ffff(.)", re.DOTALL)


def escape_texts(texts: Sequence[str | None]) -> Sequence[str | None]:
    """Escape the texts that need it."""
    try:
        if MARK.encode() not in "".join(text for text in texts if text).encode():
            return texts
    except UnicodeEncodeError:  # a lone surrogate
        pass
    return [text if text is None else _UNFIT.sub(_move_surrogate, text) for text in texts]


def _move_surrogate(match: re.Match[str]) -> str:
    return MARK + (MARK if match[0] == MARK else chr(ord(match[0]) + UP))


def unescape_texts(texts: list[str | None]) -> list[str | None]:
    """Return the texts that `escape_texts` was given."""
    if MARK not in "".join(text for text in texts if text):
        return texts
    return [text if text is None else _MARKED.sub(_back, text) for text in texts]


def _back(match: re.Match[str]) -> str:
    if match[1] == MARK:
        return MARK
    low = ord(match[1]) - UP
    return chr(low) if 0xD800 <= low < 0xE000 else match[0]


# -- from NumPy to Arrow and back, with -1 for NULL --------------------------------------------------------------------
# pyarrow is imported here, when it is needed; everything else of the format works on NumPy arrays and on these
# functions.


PURPOSE = "the callgrove format, which is made of Parquet files,"
WORD, TEXT = "word", "text"
LIST = "list:"  # before the type of what a list has


def arrow() -> Any:
    """Return the module pyarrow."""
    try:
        import pyarrow
    except ImportError as error:
        raise MissingExtra("arrow", PURPOSE) from error
    return pyarrow


def parquet() -> Any:
    """Return the module pyarrow.parquet."""
    arrow()
    import pyarrow.parquet

    return pyarrow.parquet


class Words:
    """A column of texts of which there are few: ids, and the texts that they number; -1 is absent."""

    def __init__(self, ids: Array, texts: Sequence[str]) -> None:
        self.ids, self.texts = ids, texts

    def __len__(self) -> int:
        return len(self.ids)

    def drop_unused_texts(self) -> Words:
        """Return words with only the texts that occur, each once: a dictionary must not have a text twice."""
        used, ids = np.unique(self.ids, return_inverse=True)
        first = int(len(used) > 0 and used[0] < 0)
        numbers: dict[str, int] = {}
        new_ids = [numbers.setdefault(self.texts[k], len(numbers)) for k in used[first:].tolist()]
        return Words(np.array([ABSENT] * first + new_ids, np.int64)[ids.reshape(-1)], list(numbers))


Cells = Array | Sequence[Any] | Words


def arrow_type(type_: str) -> Any:
    pa = arrow()
    if type_ == WORD:
        return pa.dictionary(pa.int32(), pa.string())
    if type_ == "texts":
        return pa.list_(pa.string())
    if type_.startswith(LIST):
        return pa.list_(arrow_type(type_.removeprefix(LIST)))
    named_type = {TEXT: pa.string(), "binary": pa.binary(), "double": pa.float64(), "bool": pa.bool_()}.get(type_)
    return named_type if named_type is not None else pa.from_numpy_dtype(np.dtype(type_))


def schema_of(columns: Sequence[TableColumn]) -> Any:
    pa = arrow()
    return pa.schema([pa.field(c.name, arrow_type(c.type), c.nullable) for c in columns])


def table_of(columns: Sequence[TableColumn], cells: Mapping[str, Cells]) -> Any:
    """Return an Arrow table of the cells."""
    arrays = [column_of(cells[column.name], column) for column in columns]
    return arrow().Table.from_arrays(arrays, schema=schema_of(columns))


def column_of(cells: Cells, column: TableColumn) -> Any:
    """Return one column. Of numbers, -1 (the largest of uint64, NaN of doubles) is NULL where the column may have
    NULL."""
    pa = arrow()
    if isinstance(cells, Words):
        words = cells.drop_unused_texts()
        ids = pa.array(words.ids.astype(np.int32), mask=words.ids < 0) if column.nullable else words.ids
        return pa.DictionaryArray.from_arrays(
            pa.array(ids, pa.int32()), pa.array(escape_texts(words.texts), pa.string())
        )
    if column.type in (TEXT, WORD):
        texts_column = pa.array(escape_texts(list(cells)), pa.string())
        return texts_column if column.type == TEXT else texts_column.dictionary_encode()
    if column.type == "texts":
        return pa.array([escape_texts(cell) for cell in cells], arrow_type(column.type))
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
    """Return a column of lists of equal length: of each row, all numbers of the other axes."""
    pa = arrow()
    flat = np.ascontiguousarray(values).reshape(len(values), -1)
    bounds = np.arange(len(flat) + 1, dtype=np.int32) * flat.shape[1]
    return pa.ListArray.from_arrays(pa.array(bounds), pa.array(flat.reshape(-1)))


def numbers(column: Any, column_type: str) -> Array:
    """Return a column of numbers; NULL is -1, NaN of doubles, and no offset of uint64."""
    pa = arrow()
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(whole, pa.ChunkedArray):  # without any chunk
        whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.array([], column.type)
    if whole.null_count:
        fill: object = {"double": np.nan, "uint64": int(NO_OFFSET), "bool": False}.get(column_type, ABSENT)
        whole = whole.fill_null(pa.scalar(fill, whole.type))
    values: Array = whole.to_numpy(zero_copy_only=False)
    return values


def texts(column: Any) -> list[str | None]:
    """Return a column of texts; None is absent."""
    return unescape_texts(column.to_pylist())
