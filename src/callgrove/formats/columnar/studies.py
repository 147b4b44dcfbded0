"""Studies: points, series, what was measured of them, raw values and models, as tables, and back."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from callgrove.arrays import Array, Floats, Ints, freeze
from callgrove.errors import CorruptFile
from callgrove.formats.columnar.folder import Folder, Manifest, warnings_from, warnings_in
from callgrove.formats.columnar.reading import origin_of, version_text
from callgrove.formats.columnar.row_groups import write_table
from callgrove.formats.columnar.schema import FORMAT_NAME, MANIFEST, STUDY, Cells, Words, numbers
from callgrove.formats.columnar.writer import FOLDER
from callgrove.formats.interface import LossReport, WriteOptions
from callgrove.formats.writing.targets import PendingFolder
from callgrove.model.study.books import StudyBooks
from callgrove.model.study.series import STATISTICS, RawValues, Segment, StoredModel, Study, Term, read_exponent

__all__ = ["read_study", "write_study"]

MOST_CELLS = 1 << 28  # series x points, whatever was measured
RAW_IDS = {"series": "int32", "point": "int32", "repetition": "int64"}  # what says to which repetition a value belongs
MAPPINGS = ("callpath_tags", "metric_tags", "units", "modelers", "attributes")


def write_study(study: Study, target: Path, options: WriteOptions) -> LossReport:
    pending = PendingFolder(target, options.overwrite, FOLDER)
    books = StudyBooks(study, has_statistics=True)
    entered = _EnteredTables(books)
    with pending.or_nothing():
        rows = {name: write_table(pending.place, name, STUDY[name], cells, entered) for name, cells in _tables(study)}
        Manifest(
            "study",
            study.title,
            origin_of(study.format, study.version),
            rows,
            {
                "warnings": warnings_in(study.warnings),
                "parameters": list(study.parameters),
                "points": study.n_points,
                "scaling": study.scaling,
                **{name: _plain(getattr(study, name)) for name in MAPPINGS},
            },
        ).write(pending.place)
        pending.complete()
    return LossReport(unexplained=list(books.differences()))


class _EnteredTables:
    """Enters the tables of a study into books, as they were written. Measurements come before raw values."""

    def __init__(self, books: StudyBooks) -> None:
        self._study, self._passed = books.study, books.passed
        self._measured: Ints = np.empty(0, np.int64)  # cells whose values may follow
        self._mean: Floats = np.empty(0)

    def __call__(self, name: str, table: Any) -> None:
        if name == "points":
            self._passed.name_points(numbers(table["point"], "int32"))
        elif name == "series":
            self._passed.name_series(numbers(table["series"], "int32"))
        elif name == "measurements":
            series = numbers(table["series"], "int32").astype(np.int64)
            columns = {name: numbers(table[name], "double") for name in STATISTICS}
            columns["repetitions"] = numbers(table["repetitions"], "int64")
            self._passed.add_statistics(series, columns)
            self._measured, self._mean = self._cells(table), columns["mean"]
            if self._study.raw is None:
                self._add_means(self._measured[:0])
        elif name == "raw_values":
            self._add_values(table)
        elif name == "models":
            self._passed.n_models += table.num_rows

    def _cells(self, table: Any) -> Ints:
        series, point = (numbers(table[name], "int32").astype(np.int64) for name in ("series", "point"))
        cells: Ints = series * self._study.n_points + point
        return cells

    def _add_values(self, table: Any) -> None:
        table = table.filter(table["value"].is_valid()) if table["value"].null_count else table
        ids = [numbers(table[name], type_) for name, type_ in RAW_IDS.items()]
        begins = np.ones(table.num_rows, np.bool_)
        begins[1:] = np.logical_or.reduce([one[1:] != one[:-1] for one in ids])
        self._passed.add_values(ids[0], begins, numbers(table["value"], "double"))
        series, point = (one[begins].astype(np.int64) for one in ids[:2])
        self._add_means(series * self._study.n_points + point)

    def _add_means(self, cells_with_values: Ints) -> None:
        """Add the means of measurements that have no values."""
        has_values = np.zeros(self._study.present.size, np.bool_)
        has_values[cells_with_values] = True
        alone = ~has_values[self._measured]
        ones = np.ones(int(alone.sum()), np.int64)
        self._passed.add(self._measured[alone], ones, ones, self._mean[alone])


def _tables(study: Study) -> Iterator[tuple[str, Mapping[str, Cells]]]:
    n, n_parameters = study.points.shape
    yield (
        "points",
        {
            "point": np.repeat(np.arange(n), n_parameters),
            "parameter": Words(np.tile(np.arange(n_parameters), n), study.parameters),
            "value": study.points.reshape(-1),
        },
    )
    yield "callpaths", {"callpath_id": np.arange(len(study.callpaths)), "callpath": study.callpaths}
    yield "metric_names", {"metric_id": np.arange(len(study.metrics)), "metric": study.metrics}
    yield (
        "series",
        {
            "series": np.arange(len(study)),
            "callpath": Words(study.series_callpath, study.callpaths),
            "metric": Words(study.series_metric, study.metrics),
            "callpath_id": study.series_callpath,
            "metric_id": study.series_metric,
        },
    )
    series, point = np.nonzero(study.present)
    yield (
        "measurements",
        {
            "series": series,
            "point": point,
            "repetitions": study.repetitions[series, point],
            **{name: getattr(study, name)[series, point] for name in STATISTICS},
        },
    )
    if study.raw is not None:
        yield "raw_values", _raw_columns(study.raw, n)
    yield "models", _model_columns(study.models)


def _raw_columns(raw: RawValues, n_points: int) -> Mapping[str, Cells]:
    """Return a row per value; a repetition without any has one row without a value."""
    counts, sizes = np.diff(raw.cell_bounds), np.diff(raw.repetition_bounds)
    cell = np.repeat(np.arange(len(counts)), counts)
    number_in_cell = np.arange(len(sizes)) - np.repeat(raw.cell_bounds[:-1], counts)
    rows = np.maximum(sizes, 1)
    repetition = np.repeat(np.arange(len(sizes)), rows)
    there = np.repeat(sizes > 0, rows)
    values: list[float | None] = np.full(len(repetition), None, object).tolist()
    for place, value in zip(np.flatnonzero(there).tolist(), raw.values.tolist(), strict=True):
        values[place] = value
    series, point = np.divmod(cell, max(n_points, 1))
    return {
        "series": series[repetition],
        "point": point[repetition],
        "repetition": number_in_cell[repetition],
        "value": values,
    }


def _model_columns(models: tuple[StoredModel, ...]) -> Mapping[str, Cells]:
    texts = {name: [getattr(m, name) for m in models] for name in ("callpath", "metric", "function")}
    return {
        **texts,
        "name": [m.name or None for m in models],
        "constant": np.array([m.constant for m in models], np.float64),
        "terms": [_json(_terms(m.terms)) for m in models],
        "statistics": [_json(dict(m.statistics)) for m in models],
        "segments": [_json([_segment(s) for s in m.segments]) for m in models],
    }


def _terms(terms: tuple[Term, ...]) -> list[Any]:
    return [
        {"coefficient": t.coefficient, "exponents": {p: list(e) for p, e in t.exponents.items()}}
        | ({"pieces": {p: [_segment(s) for s in pieces] for p, pieces in t.pieces.items()}} if t.pieces else {})
        for t in terms
    ]


def _segment(one: Segment) -> dict[str, Any]:
    return {
        "from": one.start,
        "to": one.end,
        "function": one.function,
        "constant": one.constant,
        "terms": _terms(one.terms),
        "statistics": dict(one.statistics),
    }


def _json(value: Any) -> str:
    return json.dumps(_plain(value), allow_nan=False)


def _plain(value: Any) -> Any:
    """Return a value as JSON has it, which knows no infinity and no NaN: these are texts."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


# -- reading -----------------------------------------------------------------------------------------------------------


def read_study(path: Path, manifest: Manifest) -> Study:
    folder = Folder(path, manifest, STUDY)
    parameters = tuple(map(str, manifest.get(path, "parameters", list)))
    points = _read_points(folder, parameters)
    callpaths = folder.read_numbered("callpaths", "callpath_id").names("callpath")
    metrics = folder.read_numbered("metric_names", "metric_id").names("metric")
    table, rows = folder.table("series"), folder.read_numbered("series", "series")
    if len(rows) * len(points) > MOST_CELLS:
        raise table.damage("rows", f"at most {MOST_CELLS:,} series at points", f"{len(rows) * len(points):,}")
    cells: dict[str, Any] = _read_cells(folder, len(rows), len(points))
    none: tuple[StoredModel, ...] = ()
    models = folder.or_warn(lambda: _read_models(folder), none)
    raw = folder.or_warn(lambda: _read_raw(folder, len(rows), len(points)), None)
    study = Study(
        parameters=parameters,
        points=freeze(points),
        callpaths=callpaths,
        metrics=metrics,
        series_callpath=freeze(folder.ids(table, rows, "callpath_id", len(callpaths), lowest=0)),
        series_metric=freeze(folder.ids(table, rows, "metric_id", len(metrics), lowest=0)),
        **cells,
        raw=raw,
        scaling=manifest.get(path, "scaling", str),
        models=models,
        **{name: manifest.get(path, name, dict) for name in MAPPINGS},
        title=manifest.title,
        format=FORMAT_NAME,
        version=version_text(manifest),
        warnings=(*warnings_from(manifest, path), *folder.warnings),
        path=str(path),
    )
    if problems := study.validate():
        raise CorruptFile(path, "tables", expected="a study without contradictions", found=problems[0])
    return study


def _read_points(folder: Folder, parameters: tuple[str, ...]) -> Floats:
    n = folder.manifest.get(folder.path, "points", int)
    table = folder.table("points")
    rows = table.whole()
    value = rows.numbers("value")
    if n < 0 or len(value) != n * len(parameters) or n > MOST_CELLS:
        path = folder.path / MANIFEST
        raise CorruptFile(path, "points", expected=f"{len(value)} coordinates", found=f"{n} points")
    ids, words = rows.words("parameter")
    order = np.repeat(np.arange(n), len(parameters))
    named = [words[k] for k in ids[: len(parameters)].tolist()]
    if not np.array_equal(rows.numbers("point"), order) or (n and named != list(parameters)):
        raise table.damage("rows", "every parameter of one point after the other", "another order")
    out: Floats = value.reshape(n, len(parameters)).copy()
    return out


def _cell_ids(folder: Folder, name: str, n_series: int, n_points: int) -> tuple[Any, Ints]:
    table = folder.table(name)
    rows = table.whole()
    series = folder.ids(table, rows, "series", n_series, lowest=0).astype(np.int64)
    return rows, series * n_points + folder.ids(table, rows, "point", n_points, lowest=0)


def _read_cells(folder: Folder, n_series: int, n_points: int) -> dict[str, Any]:
    rows, cell = _cell_ids(folder, "measurements", n_series, n_points)
    shape = (n_series, n_points)
    present = np.zeros(n_series * n_points, np.bool_)
    repetitions = np.zeros(n_series * n_points, np.int64)
    present[cell], repetitions[cell] = True, rows.numbers("repetitions")
    out: dict[str, Array] = {
        "present": freeze(present.reshape(shape)),
        "repetitions": freeze(repetitions.reshape(shape)),
    }
    for name in STATISTICS:
        column = np.full(n_series * n_points, np.nan)
        column[cell] = rows.numbers(name)
        out[name] = freeze(column.reshape(shape))
    return out


def _read_raw(folder: Folder, n_series: int, n_points: int) -> RawValues | None:
    if not folder.has("raw_values"):
        return None
    rows, cell = _cell_ids(folder, "raw_values", n_series, n_points)
    table = folder.table("raw_values")
    repetition, values = rows.numbers("repetition"), rows.cells("value")
    if (np.diff(cell) < 0).any():
        raise table.damage("rows", "cells in the order of series and points", "another order")
    new = np.append(True, (np.diff(cell) != 0) | (np.diff(repetition) != 0)) if len(cell) else np.empty(0, np.bool_)
    first = np.flatnonzero(new)
    there = np.array([value is not None for value in values], np.bool_)
    before = np.append(0, np.cumsum(there))
    bounds = before[np.append(first, len(cell))]
    known = np.array([value for value in values if value is not None], np.float64)
    cells = np.searchsorted(cell[first], np.arange(n_series * n_points + 1))
    return RawValues(freeze(known), freeze(bounds), freeze(cells.astype(np.int64)))


def _read_models(folder: Folder) -> tuple[StoredModel, ...]:
    table = folder.table("models")
    rows = table.whole()
    columns = [rows.names(name) for name in ("callpath", "metric", "function", "name")]
    constants = rows.numbers("constant").tolist()
    try:
        parsed = [[json.loads(text) for text in rows.names(n)] for n in ("terms", "statistics", "segments")]
        return tuple(
            StoredModel(
                callpath,
                metric,
                function,
                constant,
                _terms_of(terms),
                _numbers_of(statistics),
                name,
                tuple(map(_segment_of, segments)),
            )
            for callpath, metric, function, name, constant, terms, statistics, segments in zip(
                *columns, constants, *parsed, strict=True
            )
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        found = " ".join(str(error).split())[:80] or type(error).__name__
        raise table.damage("rows", "models", found) from error


def _numbers_of(pairs: Any) -> dict[str, float]:
    return {str(key): float(value) for key, value in pairs.items()}


def _terms_of(terms: Any) -> tuple[Term, ...]:
    return tuple(
        Term(
            float(t["coefficient"]),
            {str(p): (_exponent_of(a), _exponent_of(b)) for p, (a, b) in t["exponents"].items()},
            {str(p): tuple(map(_segment_of, pieces)) for p, pieces in t.get("pieces", {}).items()},
        )
        for t in terms
    )


def _exponent_of(text: Any) -> str:
    """Return the text of an exponent as it stands, if it is one."""
    read_exponent(str(text))
    return str(text)


def _segment_of(one: Any) -> Segment:
    return Segment(
        float(one["from"]),
        float(one["to"]),
        str(one["function"]),
        float(one["constant"]),
        _terms_of(one["terms"]),
        _numbers_of(one["statistics"]),
    )
