"""JSON: an array of objects, one per line, or one object per line without the array (`jsonl`).

Absent cells and non-finite numbers are null, since JSON has no NaN. Integers keep all their digits. Everything beyond
ASCII is escaped, so the text is the same under every locale and safe on every terminal.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from math import isfinite
from typing import Any

from callgrove.model.table import Table
from callgrove.render.cells import CellWriters, cell_texts, chunks

__all__ = ["json_text", "json_value", "jsonl_text"]


def json_text(tables: Iterable[Table]) -> Iterator[str]:
    separator = "[\n"
    for objects in _object_chunks(tables):
        yield separator + ",\n".join(objects)
        separator = ",\n"
    yield "[]\n" if separator == "[\n" else "\n]\n"


def jsonl_text(tables: Iterable[Table]) -> Iterator[str]:
    for objects in _object_chunks(tables):
        yield "\n".join(objects) + "\n"


def json_value(value: Any) -> str:
    """Any plain value, nested or not, as JSON text."""
    try:
        return json.dumps(value, allow_nan=False, default=_simpler)
    except ValueError:
        return json.dumps(_finite(value), allow_nan=False)


def _object_chunks(tables: Iterable[Table]) -> Iterator[Iterable[str]]:
    for table in chunks(tables):
        if len(table):
            template = _template(table.names)
            columns = [cell_texts(column, _WRITERS) for column in table.columns]
            yield map(template.__mod__, zip(*columns, strict=True))


def _template(names: Iterable[str]) -> str:
    """`{"name": %s, "value": %s}`: one object, its cells to be filled in."""
    keys = (json.dumps(name).replace("%", "%%") for name in names)
    return "{" + ", ".join(f"{key}: %s" for key in keys) + "}"


def _simpler(value: Any) -> Any:
    """What `json` does not know: a NumPy array or number becomes Python's, all else its text."""
    return _finite(value.tolist()) if hasattr(value, "tolist") else str(value)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    if isinstance(value, float):
        return value if isfinite(value) else None
    return value if isinstance(value, str | int | None) else _finite(_simpler(value))


def _float(value: float) -> str:
    return float.__repr__(value) if isfinite(value) else "null"


def _null(_: None) -> str:
    return "null"


def _truth(value: bool) -> str:
    return "true" if value else "false"


_WRITERS = CellWriters(
    {
        type(None): _null,
        bool: _truth,
        int: int.__repr__,
        float: _float,
        str: json.encoder.encode_basestring_ascii,
        object: json_value,
    }
)
