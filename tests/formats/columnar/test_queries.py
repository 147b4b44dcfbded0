"""Folders asked by others: DuckDB and pyarrow find in the plain tables what our own reader says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow.parquet as pq
import pytest

from callgrove.analysis.tables import export
from callgrove.examples import example, gpu_example, study_example
from callgrove.formats.columnar.schema import EXPERIMENT, STUDY, value_columns
from callgrove.model.experiment import Experiment
from callgrove.model.profiles import IDENTITY
from tests.formats.columnar.columnar_folders import odd_experiment, written
from tests.requirements import ROOT

MANUAL = ROOT / "docs" / "callgrove-format.md"


def asked(folder: Path, query: str) -> list[tuple[Any, ...]]:
    """The query, in which tables are named `{contexts}`."""
    text = re.sub(r"{([\w*-]+)}", lambda m: f"read_parquet('{folder}/{m[1]}.parquet', union_by_name = true)", query)
    return list(duckdb.connect().execute(text).fetchall())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Experiment, Path]:
    folder = tmp_path_factory.mktemp("made") / "x.cgrove"
    written(example(), folder)
    return example(), folder


def test_costs_by_function(made: tuple[Experiment, Path]) -> None:
    experiment, folder = made
    quantity = experiment.default_metric
    found = asked(
        folder,
        "SELECT c.context, c.name, sum(v.value) FROM {values} v JOIN {contexts} c USING (context) "
        "JOIN {metrics} m USING (metric) JOIN {profiles} p USING (profile) "
        f"WHERE m.name = '{quantity}' AND m.scope = 'inclusive' AND p.kind <> 'summary' GROUP BY ALL ORDER BY 1",
    )
    row = next(k for k, m in enumerate(experiment.metrics) if (m.name, m.scope) == (quantity, "inclusive"))
    totals = experiment.values.totals(row, experiment.profiles.measured)
    expected = [(c, experiment.contexts.name(c), totals[c]) for c in np.flatnonzero(totals).tolist()]
    assert [(c, name) for c, name, _ in found] == [(c, name) for c, name, _ in expected]
    assert [total for *_, total in found] == pytest.approx([total for *_, total in expected])


@pytest.mark.parametrize(
    ("table", "columns"),
    [
        (
            "contexts",
            ("context", "source_id", "parent", "kind", "name", "file", "line", "module", "offset", "relation"),
        ),
        ("profiles", ("profile", "source_id", "run", "kind", *IDENTITY)),
        ("samples", ("profile", "time_ns", "context", "metric")),
    ],
)
def test_tables_say_what_export_says(table: str, columns: tuple[str, ...], made: tuple[Experiment, Path]) -> None:
    experiment, folder = made
    found = asked(folder, "SELECT " + ", ".join(f'"{name}"' for name in columns) + f" FROM {{{table}}}")
    chunks = list(export(experiment, table))
    expected = [row for c in chunks for row in zip(*(c.column(name).plain() for name in columns), strict=True)]
    assert found == expected


def test_subtrees_are_ranges(made: tuple[Experiment, Path]) -> None:
    experiment, folder = made
    query = (
        "SELECT count(*) FROM {contexts} a JOIN {contexts} b ON b.context >= a.context AND b.context < a.subtree_end "
        "WHERE a.context = 3"
    )
    assert asked(folder, query) == [(int(experiment.contexts.subtree_end[3]) - 3,)]


def test_spans_and_their_kernels(tmp_path: Path) -> None:
    experiment = gpu_example()
    written(experiment, tmp_path / "x.cgrove")
    expected = [row for chunk in export(experiment, "spans") for row in chunk.rows()]
    columns = "profile, kind, category, name, start_ns, end_ns, depth, correlation"
    assert asked(tmp_path / "x.cgrove", f"SELECT {columns} FROM {{spans}}") == expected


def test_integers_are_exact_and_composite_values_have_fields(tmp_path: Path) -> None:
    written(odd_experiment(), tmp_path / "x.cgrove")
    assert asked(tmp_path / "x.cgrove", "SELECT value FROM {values-uint64}") == [(2**64 - 1,), (2**53 + 1,), (1,)]
    found = asked(tmp_path / "x.cgrove", "SELECT value, field_n, field_max FROM {values-metric-4}")
    assert found == [(3.0, 3, 2.0)]
    found = asked(tmp_path / "x.cgrove", "SELECT value, field_bins FROM {values-metric-5}")
    assert found == [(6.0, [1.0, 2.0, 3.0]), (15.0, [4.0, 5.0, 6.0])]
    assert asked(tmp_path / "x.cgrove", "SELECT count(*) FROM {values*}") == [(15,)]


def test_series_of_a_study(tmp_path: Path) -> None:
    study = study_example()
    written(study, tmp_path / "x.cgrove")
    found = asked(
        tmp_path / "x.cgrove",
        "SELECT callpath, metric, mean, std FROM {measurements} m JOIN {series} s USING (series) "
        "ORDER BY series, point",
    )
    columns = [study.table().column(name).plain() for name in ("callpath", "metric", "mean", "std")]
    assert found == list(zip(*columns, strict=True))


def test_tables_are_as_they_are_declared(made: tuple[Experiment, Path]) -> None:
    for path in made[1].glob("*.parquet"):
        schema, columns = pq.read_schema(path), EXPERIMENT.get(path.stem, value_columns("double", fillers=False))
        assert schema.names == [column.name for column in columns]
        assert [f.nullable for f in schema] == [column.nullable for column in columns]
        assert not [f for f in schema if str(f.type).startswith("dictionary")]  # plain types only


def test_the_manual_names_every_table_and_column() -> None:
    text = MANUAL.read_text()
    rows = {
        name: row
        for row in re.findall(r"^\|.*\|$", text, re.MULTILINE)
        for name in re.findall(r"`([a-z_]+)`", row.split("|")[1])
    }
    for name, columns in (*EXPERIMENT.items(), *STUDY.items()):
        described = set(re.findall(r"`([a-z_]+)`", rows[name]))
        assert {column.name for column in columns} <= described, name
