"""Metrics, the columns that a file asks to show, and attributes of everything, as tables, and back.

Composite values are known by the name of their type; of a type with other fields than that name says, or with an
unknown name, the fields are kept and the first one is the scalar reading.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from callgrove.arrays import Array, Floats, cycles
from callgrove.formats.columnar.folder import Folder, Group, StoredTable
from callgrove.formats.columnar.schema import Cells
from callgrove.formats.columnar.stored_formulas import StoredFormula, cubepl_formulas, make_stored_formula
from callgrove.model.derived import When
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Column, Composite, Metric, Metrics, Scope, composite_named

__all__ = [
    "Attributes",
    "attribute_columns",
    "describe_dtype",
    "dtype_of",
    "large_ids",
    "metric_tables",
    "read_metrics",
    "read_stored_formulas",
]


# -- attributes: (owner, number, name, value), in order ----------------------------------------------------------------


Pairs = tuple[tuple[str, str], ...]


def attribute_columns(tables: Experiment) -> Mapping[str, Cells]:
    rows = list(_rows(tables))
    return {
        "owner": [owner for owner, *_ in rows],
        "number": np.array([number for _, number, _, _ in rows], np.int64),
        "name": [name for _, _, name, _ in rows],
        "value": [value for *_, value in rows],
    }


def _rows(tables: Experiment) -> Iterator[tuple[str, int, str, str]]:
    owners: tuple[tuple[str, Iterable[tuple[int, Iterable[tuple[str, str]]]]], ...] = (
        ("experiment", [(0, tables.attributes.items())]),
        ("run", ((k, run.attributes.items()) for k, run in enumerate(tables.runs))),
        ("context", ((k, pairs.items()) for k, pairs in sorted(tables.contexts.attributes.items()))),
        ("region", ((k, pairs.items()) for k, pairs in sorted(tables.contexts.regions.details.items()))),
        ("profile", enumerate(tables.profiles.attributes)),
        ("place", ((k, pairs.items()) for k, pairs in sorted(tables.system.attributes.items()))),
        ("metric", ((k, metric.attributes) for k, metric in enumerate(tables.metrics))),
    )
    for owner, numbered in owners:
        for number, pairs in numbered:
            for name, value in pairs:
                yield owner, number, str(name), str(value)


class Attributes:
    """Attributes that were read, by owner and number."""

    def __init__(self, pairs: Mapping[str, dict[int, list[tuple[str, str]]]]) -> None:
        self._pairs = pairs

    @classmethod
    def read(cls, folder: Folder) -> Attributes:
        rows = folder.table("attributes").whole()
        by_owner: dict[str, dict[int, list[tuple[str, str]]]] = {}
        columns = rows.names("owner"), rows.numbers("number").tolist(), rows.names("name"), rows.names("value")
        for owner, number, name, value in zip(*columns, strict=True):
            by_owner.setdefault(owner, {}).setdefault(number, []).append((name, value))
        return cls(by_owner)

    def mappings(self, owner: str, n: int) -> dict[int, dict[str, str]]:
        """Return the attributes of each owner of a kind; numbers beyond `n` are left out."""
        return {k: dict(pairs) for k, pairs in self._pairs.get(owner, {}).items() if 0 <= k < n}

    def of(self, owner: str, number: int = 0) -> Pairs:
        return tuple(self._pairs.get(owner, {}).get(number, ()))


# -- metrics -----------------------------------------------------------------------------------------------------------


TEXTS = ("unit", "description", "url", "number_format", "formula", "statistic")
FLAGS = ("visible", "show_percent")
NUMBERS = frozenset("biuf")
FORMULAS_SINCE = 2  # the minor version
LARGEST_VALUE = 1 << 24  # bytes of one composite value


def metric_tables(metrics: Metrics) -> Iterator[tuple[str, Mapping[str, Cells]]]:
    rows, columns = metrics.rows, metrics.columns
    yield (
        "metrics",
        {
            "metric": np.arange(len(rows)),
            "name": [m.name for m in rows],
            "dtype": [m.dtype for m in rows],
            "aggregation": [m.aggregation.value for m in rows],
            "parent": np.array([m.parent for m in rows], np.int32),
            "id_of_quantity": [m.id_of_quantity for m in rows],
            "composite": [None if m.composite is None else json.dumps(describe_dtype(m.composite.dtype)) for m in rows],
            "summary_id": [_fitting(m.summary_id) for m in rows],
            **_common_cells(rows),
            **{name: [getattr(m, name) or None for m in rows] for name in ("unit", "url")},
            **_formula_cells(rows),
        },
    )
    yield (
        "metric_columns",
        {
            "name": [c.name for c in columns],
            "partner": [_fitting(c.partner) for c in columns],
            **_common_cells(columns),
        },
    )


def _common_cells(rows: tuple[Metric, ...] | tuple[Column, ...]) -> dict[str, Cells]:
    """Return what both tables have."""
    texts = ("description", "number_format", "formula", "statistic")
    return {
        "source_id": [_fitting(row.source_id) for row in rows],
        "scope": [row.scope.value or None for row in rows],
        **{name: [bool(getattr(row, name)) for row in rows] for name in FLAGS},
        **{name: [getattr(row, name) or None for row in rows] for name in texts},
    }


def _formula_cells(rows: tuple[Metric, ...]) -> dict[str, Cells]:
    """Return what is said of formulas beside their texts."""
    stored = [make_stored_formula(row) for row in rows]
    return {
        "formula_language": [None if said is None else said.language or None for said in stored],
        "formula_when": [None if said is None else said.when.value for said in stored],
        "formula_problem": [None if said is None else said.reason or None for said in stored],
    }


def _fitting(number: int | None) -> int | None:
    return number if number is None or -(2**63) <= number < 2**63 else None


def large_ids(metrics: Metrics) -> dict[str, str]:
    """Return ids that no column holds, by row: the manifest has them."""
    return {str(k): str(m.source_id) for k, m in enumerate(metrics) if _fitting(m.source_id) != m.source_id}


def describe_dtype(dtype: np.dtype[Any]) -> Any:
    """Return a type of values as JSON has it: `<f8`, or its fields."""
    return dtype.str if dtype.names is None else _fields(dtype)


def _fields(dtype: np.dtype[Any]) -> list[Any]:
    out = []
    for name in dtype.names or ():
        inner = dtype[name]
        base, shape = inner.base, list(inner.shape)
        out.append([name, base.str if base.names is None else _fields(base), *([shape] if shape else [])])
    return out


def dtype_of(described: Any) -> np.dtype[Any]:
    """Return the type that `describe_dtype` described; ValueError for what is not a type of numbers."""
    try:
        dtype: np.dtype[Any] = np.dtype(_description(described))
    except (TypeError, ValueError, KeyError, RecursionError, OverflowError, MemoryError) as error:
        raise ValueError(f"{str(described)[:60]!r} is not a type of values") from error
    if dtype.itemsize > LARGEST_VALUE or not dtype.itemsize or not _is_numeric(dtype):
        raise ValueError(f"{str(described)[:60]!r} is not a type of numbers")
    return dtype


def _description(parsed: Any) -> Any:
    if isinstance(parsed, str):
        return parsed
    return [(name, _description(kind), *(tuple(shape) for shape in more)) for name, kind, *more in parsed]


def _is_numeric(dtype: np.dtype[Any]) -> bool:
    if dtype.names is None:
        return dtype.base.kind in NUMBERS and dtype.base.itemsize <= 8
    return all(_is_numeric(dtype[name].base) for name in dtype.names)


# -- reading -----------------------------------------------------------------------------------------------------------


def read_metrics(folder: Folder, attributes: Attributes) -> Metrics:
    table, rows = folder.table("metrics"), folder.read_numbered("metrics", "metric")
    parent = folder.ids(table, rows, "parent", len(rows))
    if len(cycles(parent)):
        raise table.damage("column parent", "metrics that nest", "a circle")
    texts = {name: rows.names(name) for name in (*TEXTS, "name", "dtype", "aggregation")}
    flags = {name: rows.numbers(name).tolist() for name in (*FLAGS, "id_of_quantity")}
    scopes, composites = _scopes(table, rows), rows.texts("composite")
    source_id, summary_id = rows.cells("source_id"), rows.cells("summary_id")
    for row, text in folder.manifest.get(folder.path, "large_metric_ids", dict, {}).items():
        if str(row).isdigit() and int(row) < len(rows) and str(text).lstrip("-").isdigit() and len(text) < 1000:
            source_id[int(row)] = int(text)
    cells: dict[str, Any] = {name: texts[name] for name in texts if name != "aggregation"} | flags
    metrics = []
    for k in range(len(rows)):
        try:
            rule = Aggregation(texts["aggregation"][k])
            composite = (
                None
                if composites[k] is None
                else _composite(texts["dtype"][k], dtype_of(json.loads(composites[k] or "")))
            )
        except ValueError as error:
            raise table.damage(f"row {k}", "a metric", str(error)) from error
        metrics.append(
            Metric(
                scope=scopes[k],
                aggregation=rule,
                parent=int(parent[k]),
                source_id=source_id[k],
                summary_id=summary_id[k],
                composite=composite,
                attributes=attributes.of("metric", k),
                **{name: column[k] for name, column in cells.items()},
            )
        )
    if len({(m.name, m.scope, m.statistic) for m in metrics}) < len(metrics):
        raise table.damage("rows", "each quantity once in a scope", "one of them twice")
    return Metrics(tuple(metrics), folder.or_warn(lambda: _read_columns(folder), ()))


def read_stored_formulas(folder: Folder, metrics: Metrics) -> dict[int, StoredFormula]:
    """Return what is said of each formula. Folders of before formulas were evaluated do not tell, but for what Cube
    files said."""
    if folder.manifest.minor < FORMULAS_SINCE:
        return cubepl_formulas(metrics)
    table, rows = folder.table("metrics"), folder.read_numbered("metrics", "metric")
    columns = [rows.names(f"formula_{word}") for word in ("language", "when", "problem")]
    out = {}
    for row, (language, when, problem) in enumerate(zip(*columns, strict=True)):
        if when and metrics[row].is_derived:
            try:
                out[row] = StoredFormula(language, When(when), problem)
            except ValueError as error:
                raise table.damage(f"row {row}", "when a formula is computed", str(error)) from error
    return out


def _read_columns(folder: Folder) -> tuple[Column, ...]:
    table = folder.table("metric_columns")
    rows = table.whole()
    scopes = _scopes(table, rows)
    texts = {name: rows.names(name) for name in ("name", "description", "number_format", "formula", "statistic")}
    flags = {name: rows.numbers(name).tolist() for name in FLAGS}
    ids = {name: rows.cells(name) for name in ("source_id", "partner")}
    cells = {**texts, **flags, **ids}
    return tuple(Column(scope=scopes[k], **{name: cells[name][k] for name in cells}) for k in range(len(rows)))


def _scopes(table: StoredTable, rows: Group) -> list[Scope]:
    try:
        return [Scope(word) for word in rows.names("scope")]
    except ValueError as error:
        raise table.damage("column scope", "a scope", str(error)) from error


def _composite(name: str, dtype: np.dtype[Any]) -> Composite:
    known = composite_named(name)
    return known if known is not None and known.dtype == dtype else Composite(dtype, _FirstField(dtype))


class _FirstField:
    """The scalar reading of an unknown type."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self._name = (dtype.names or ("",))[0]

    def __call__(self, values: Array) -> Floats:
        field = values[self._name]
        while field.dtype.names is not None:
            field = field[field.dtype.names[0]]
        out: Floats = field.reshape(*values.shape, -1).astype(np.float64).sum(axis=-1)
        return out
