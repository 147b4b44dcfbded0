"""Tables are those that `export` prints, for any experiment and on both engines; several inputs are asked as one."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.analysis.tables import TABLES, export
from callgrove.examples import example, gpu_example, study_example
from callgrove.formats.registry import open_path
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Metric, Scope
from callgrove.model.profiles import ProfileKind
from callgrove.model.study.builder import StudyBuilder
from callgrove.model.study.series import Study
from callgrove.query.catalog import Catalog
from callgrove.query.relations import ENGINES, Type
from callgrove.query.sql import sql, table_list
from tests.exhaustive import try_examples
from tests.formats.gpu.gpu_databases import Run, write_nsight, write_rocpd, write_rpd
from tests.model.strategies import experiments

EACH = pytest.mark.parametrize("engine", ENGINES)


def fitting(cell: Any, type_: Type) -> Any:
    """What SQL can hold of a cell."""
    if type_ is Type.TEXT or cell is None:
        return None if cell is None else str(cell)
    if type_ is Type.REAL:
        return None if math.isnan(cell) else float(cell)
    return int(cell) if -(2**63) <= cell < 2**63 else None


def exported(experiment: Experiment, table: str) -> Counter[tuple[Any, ...]]:
    """Rows of `export`, as SQL holds them."""
    types = {field.name: field.type for field in Catalog((experiment,)).relations[table].fields}
    found: Counter[tuple[Any, ...]] = Counter()
    for chunk in export(experiment, table):
        columns = [[fitting(cell, types[c.name]) for cell in c.plain()] for c in chunk.columns]
        found.update(zip(*columns, strict=True))
    return found


def asked(experiment: Experiment, table: str, engine: str) -> Counter[tuple[Any, ...]]:
    names = ", ".join(f'"{name}"' for name in next(export(experiment, table)).names)
    return Counter(sql(experiment, f'SELECT {names} FROM "{table}"', engine).rows())


@try_examples(20)
@given(experiments(), st.sampled_from(TABLES[:-1]))
def test_tables_are_those_of_export(experiment: Experiment, chosen: str) -> None:
    for table in TABLES[:-1]:
        expected = exported(experiment, table)
        for engine in ENGINES if table == chosen else ("sqlite",):
            assert asked(experiment, table, engine) == expected


@pytest.mark.parametrize("made", [example, gpu_example])
def test_every_column_of_export_is_known(made: Any) -> None:
    experiment = made()
    relations = Catalog((experiment,)).relations
    for table in TABLES[:-1]:
        assert set(next(export(experiment, table)).names) <= set(relations[table].names), table


@EACH
@pytest.mark.parametrize("scope", ["stored", "exclusive", "inclusive"])
def test_sums_of_values_are_those_of_export(engine: str, scope: str) -> None:
    from callgrove.analysis.tables import Selection

    experiment = example()
    expected: dict[int, float] = {}
    for chunk in export(experiment, "values", Selection(scope=scope)):
        for metric, value in zip(chunk.column("metric").plain(), chunk.column("value").plain(), strict=True):
            expected[metric] = expected.get(metric, 0.0) + value
    found = dict(sql(experiment, f"SELECT metric, sum(value) FROM {scope}_values GROUP BY metric", engine).rows())
    assert found == pytest.approx(expected)


@try_examples(20)
@given(st.data())
def test_engines_agree_on_any_part_of_a_view(data: st.DataObject) -> None:
    relations = Catalog((GPU,)).relations
    view = data.draw(st.sampled_from([name for name, one in relations.items() if one.has(GPU)]))
    names = data.draw(st.lists(st.sampled_from(relations[view].names), min_size=1, max_size=4, unique=True))
    chosen = ", ".join(f'"{name}"' for name in names)
    query = f'SELECT {chosen}, count(*) AS n FROM "{view}" GROUP BY {chosen}'
    one, two = (Counter(sql(GPU, query, engine).rows()) for engine in ENGINES)
    assert one == two
    whole = Counter(
        tuple(row[relations[view].names.index(name)] for name in names)
        for row in sql(GPU, f'SELECT * FROM "{view}"', "sqlite").rows()
    )
    assert {row[:-1]: row[-1] for row in two} == whole


GPU = gpu_example()


@EACH
def test_integers_stay_integers(engine: str) -> None:
    builder = ExperimentBuilder("example", "1")
    builder.add_profile(ProfileKind.THREAD, [])
    context = builder.add_context(-1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, "f"))
    metric = builder.add_metric(Metric("cycles", scope=Scope.EXCLUSIVE, dtype="UINT64"))
    builder.add_values(0, context, metric, np.array([2**53 + 1], np.uint64))
    one = builder.build()
    assert list(sql(one, "SELECT value, integer FROM stored_values", engine).rows()) == [(2**53 + 1, 2**53 + 1)]
    both = sql(
        [one, example()], "SELECT typeof(value), integer FROM stored_values ORDER BY integer DESC LIMIT 1", engine
    )
    assert [row[1] for row in both.rows()] == [2**53 + 1]


@EACH
def test_several_inputs_are_asked_as_one(engine: str) -> None:
    first, second, study = example(ranks=2), example(seed=1, ranks=1), study_example()
    inputs: list[Experiment | Study] = [first, second, study]
    counted: dict[int, int] = dict(sql(inputs, "SELECT input, count(*) FROM profiles GROUP BY input", engine).rows())
    assert counted == {0: len(first.profiles), 1: len(second.profiles)}
    query = (
        "SELECT p.input, sum(v.value) FROM stored_values v JOIN profiles p USING (profile)"
        " JOIN metrics m USING (metric) JOIN contexts c USING (context)"
        " WHERE p.input = m.input AND p.input = c.input GROUP BY p.input"
    )
    sums: dict[int, float] = dict(sql(inputs, query, engine).rows())
    alone = [next(sql(one, "SELECT sum(value) FROM stored_values", engine).rows())[0] for one in (first, second)]
    assert sums == pytest.approx({0: alone[0], 1: alone[1]})
    roots = "SELECT input, count(*) FROM contexts WHERE parent IS NULL GROUP BY input"
    assert dict(sql(inputs, roots, engine).rows()) == {
        k: int((one.contexts.parent < 0).sum()) for k, one in enumerate((first, second))
    }
    assert next(sql(inputs, "SELECT count(*), min(input) FROM series", engine).rows()) == (int(study.present.sum()), 2)
    kinds = [row[0] for row in sql(inputs, "SELECT kind FROM inputs ORDER BY input", engine).rows()]
    assert kinds == ["experiment", "experiment", "study"]


@EACH
def test_series_have_a_column_per_parameter(engine: str) -> None:
    study = study_example()
    found = sql(study, "SELECT callpath, p, n, mean FROM series WHERE p = 8 AND n = 100 ORDER BY callpath", engine)
    rows = list(found.rows())
    assert [row[0] for row in rows] == sorted(study.callpaths)
    assert {row[1:3] for row in rows} == {(8.0, 100.0)}
    points = sql(study, "SELECT count(DISTINCT run) FROM parameters", engine)
    assert next(points.rows()) == (study.n_points,)


@EACH
def test_parameters_called_like_columns_get_other_names(engine: str) -> None:
    builder = StudyBuilder(("mean", "P", "p"))
    points = [builder.point((1.0, 2.0, 3.0)), builder.point((4.0, 5.0, 6.0))]
    for point in points:
        builder.add_values("main", "time", point, [1.0, 2.0])
    first = sql(builder.build(), "SELECT * FROM series ORDER BY mean_2", engine).table()
    assert first.names[2:5] == ("mean_2", "P", "p_2")
    assert next(first.rows())[2:5] == (1.0, 2.0, 3.0)


@EACH
def test_every_family_has_the_views(engine: str, tmp_path: Path) -> None:
    """The same run, written as three families write it."""
    run = Run.random(5).without("memset")
    paths = (
        write_rocpd(tmp_path / "a.db", [run]),
        write_rpd(tmp_path / "b.rpd", run),
        write_nsight(tmp_path / "c.sqlite", run),
    )
    for path in paths:
        opened = open_path(path)
        assert isinstance(opened, Experiment)
        kernels = sql(opened, "SELECT name, count(*), sum(duration) FROM kernels GROUP BY name", engine)
        assert {name: rest for name, *rest in kernels.rows()} == {
            name: [n, ns] for name, (n, ns) in run.totals("kernel").items()
        }
        [sizes] = sql(opened, "SELECT grid_x, workgroup_x, workgroup_y FROM kernels LIMIT 1", engine).rows()
        assert sizes == (256, 64, 2)
        for view, relation in Catalog((opened,)).relations.items() if engine == "sqlite" else ():
            if relation.has(opened):
                assert sql(opened, f'SELECT * FROM "{view}"', engine).table().names == relation.names
        copied = sum(event.size for event in run.events if event.kind == "copy")
        assert next(sql(opened, "SELECT sum(size) FROM memory_copies", engine).rows()) == (copied,)


def test_the_list_of_tables() -> None:
    listed = table_list([gpu_example()])
    names = dict.fromkeys(listed.column("table").plain())
    assert {"profiles", "spans", "kernels", "busy", "kernel_summary"} <= set(names)
    assert "series" not in names
    assert list(dict.fromkeys(table_list([study_example()]).column("table").plain())) == [
        "inputs",
        "parameters",
        "series",
    ]


def test_a_folder_of_runs(tmp_path: Path) -> None:
    """Runs with parameters have series as well."""
    from callgrove.formats.interface import WriteOptions
    from callgrove.formats.registry import writer_of
    from callgrove.formats.writing.transfer import write_experiment

    for ranks in (2, 4):
        write_experiment(
            example(ranks=ranks), writer_of("hpctoolkit-release"), tmp_path / f"stencil.p{ranks}.r1", WriteOptions()
        )
    opened = open_path(tmp_path)
    assert isinstance(opened, Experiment)
    found = sql(opened, "SELECT DISTINCT p FROM series ORDER BY p")
    assert list(found.rows()) == [(2.0,), (4.0,)]
