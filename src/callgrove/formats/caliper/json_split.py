"""The JSON-split of cali-query: rows of numbers and of references to nodes.

    {"data": [[62, 0, 3]], "columns": ["count", "mpi.rank", "path"],
     "column_metadata": [{"is_value": true}, {"is_value": true}, {"is_value": false}],
     "nodes": [{"label": "main", "column": "path"}, {"label": "f", "column": "path", "parent": 0}]}

A cell of a column that is not a value is the number of a node, or null. The call path is the column `path`, or the one
whose name begins with `source.function`. Further keys of the object are facts about the run.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from callgrove.arrays import ABSENT, Array
from callgrove.errors import CorruptFile
from callgrove.formats.caliper.records import Attribute, Global, Properties, Records, RecordTable

__all__ = ["KEYS", "PATH", "read_json_split"]

KEYS = ("data", "columns", "column_metadata", "nodes")
PATH = "path"
CALL_PATHS = (PATH, "source.function#callpath.address")
BROKEN_ROWS = "rows with cells that are not numbers, or name no node"


def read_json_split(data: bytes, path: Path, records: Records) -> Records:
    """Read a whole file into records."""
    parts = _parse(data, path)
    columns: list[str] = [str(name) for name in parts["columns"]]
    is_value = [isinstance(about, dict) and about.get("is_value") is True for about in parts["column_metadata"]]
    if len(is_value) != len(columns):
        found = f"{len(columns)} columns, and metadata of {len(is_value)}"
        raise CorruptFile(path, "columns", expected="metadata of every column", found=found)
    nodes = _Nodes(records, parts["nodes"], next((name for name in CALL_PATHS if name in columns), PATH))
    rows = [row for row in parts["data"] if isinstance(row, list) and len(row) == len(columns)]
    if len(rows) < len(parts["data"]):
        records.left_out.damage(
            "rows with other numbers of cells than there are columns", n=len(parts["data"]) - len(rows)
        )
    _add_rows(records, rows, columns, is_value, nodes)
    for key, value in parts.items():
        if key not in KEYS and isinstance(value, str | int | float):
            records.globals[key] = Global(Attribute(key, "int" if str(value).isdigit() else "string"), str(value))
    return records


def _parse(data: bytes, path: Path) -> dict[str, Any]:
    try:
        parts = json.loads(data)
    except (ValueError, RecursionError) as error:
        found = str(error).replace("\n", " ")
        raise CorruptFile(
            path, "JSON", expected="a whole object", found=found, remedy="the file is cut off or damaged"
        ) from error
    if not isinstance(parts, dict) or not all(isinstance(parts.get(key), list) for key in KEYS):
        raise CorruptFile(path, "JSON", expected=f"lists {', '.join(KEYS)}", found="other keys or types")
    return parts


class _Nodes:
    """The nodes of a file: the path of each that belongs to the call path, and the label of each other."""

    def __init__(self, records: Records, rows: Sequence[Any], path_column: str) -> None:
        self.path_column = path_column
        self.path: list[int] = []
        self.label: list[str] = []
        for number, row in enumerate(rows):
            node = row if isinstance(row, dict) else {}
            parent, label = node.get("parent"), str(node.get("label", ""))
            above = parent if isinstance(parent, int) and 0 <= parent < number else ABSENT
            if not node or (parent is not None and above < 0):
                records.left_out.damage("nodes without a label, or below unknown nodes", str(row))
            is_step = node.get("column") == path_column
            self.path.append(
                records.paths.child(self.path[above] if above >= 0 else ABSENT, PATH, label) if is_step else ABSENT
            )
            self.label.append(f"{self.label[above]}/{label}" if above >= 0 and not is_step else label)

    def __len__(self) -> int:
        return len(self.path)


def _add_rows(records: Records, rows: list[list[Any]], columns: list[str], is_value: list[bool], nodes: _Nodes) -> None:
    """Add the rows to tables: for each set of values that are there, one."""
    numbers = [k for k, value in enumerate(is_value) if value]
    for name in (columns[k] for k in numbers):
        records.attributes.setdefault(name, Attribute(name, "double", int(Properties.AS_VALUE)))
    tables: dict[tuple[int, ...], tuple[list[int], list[list[float]]]] = {}
    for row in rows:
        try:
            head = _head_of(records, row, columns, is_value, nodes)
            there = tuple(k for k in numbers if row[k] is not None)
            values = [_number(row[k]) for k in there]
        except (TypeError, ValueError, IndexError, OverflowError):
            records.left_out.damage(BROKEN_ROWS, str(row))
            continue
        heads, cells = tables.setdefault(there, ([], []))
        heads.append(head)
        cells.append(values)
    for there, (heads, cells) in tables.items():
        named = {columns[k]: _column([row[n] for row in cells]) for n, k in enumerate(there)}
        records.tables.append(RecordTable(np.array(heads, np.int64), named))


def _head_of(records: Records, row: list[Any], columns: list[str], is_value: list[bool], nodes: _Nodes) -> int:
    path, labels = ABSENT, []
    for name, value, cell in zip(columns, is_value, row, strict=True):
        if value or cell is None:
            continue
        if not isinstance(cell, int) or isinstance(cell, bool) or not 0 <= cell < len(nodes):
            raise ValueError(cell)
        if name == nodes.path_column:
            path = nodes.path[cell]
        else:
            labels.append((name, nodes.label[cell]))
    return records.head(path, tuple(labels))


def _number(cell: Any) -> float:
    """Return a cell as a finite number; raise where it is none."""
    number = cell if isinstance(cell, int) and abs(cell) < 2**63 else float(cell)
    if isinstance(cell, bool) or not np.isfinite(number):
        raise ValueError(cell)
    return number


def _column(numbers: list[float]) -> Array:
    return np.array(numbers, np.float64 if any(isinstance(number, float) for number in numbers) else np.int64)
