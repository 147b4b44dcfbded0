"""`convert` and `prof` to our own folders, and `export --format parquet`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from callgrove.analysis.tables import TABLES
from callgrove.cli.main import main
from callgrove.errors import MissingExtra
from callgrove.examples import study_example
from callgrove.formats.extrap.experiment import FORMAT as EXTRA_P
from callgrove.formats.interface import WriteOptions
from callgrove.formats.registry import open_path
from callgrove.model.table import Column, Table
from tests.cli.commands import Capture, rows, run, said
from tests.formats.columnar.columnar_folders import digests, odd_experiment, written
from tests.formats.samples import CORPUS
from tests.requirements import need_module

DATABASE = CORPUS / "hpctoolkit" / "release" / "mpi4.d"
MEASUREMENTS = CORPUS / "hpcrun" / "04.00" / "pth4.m"


def test_the_ending_of_the_target_chooses_the_format(capsys: Capture, tmp_path: Path) -> None:
    run(capsys, "convert", DATABASE, tmp_path / "a.cgrove")
    run(capsys, "convert", DATABASE, tmp_path / "b", "--to", "callgrove")
    for table in ("contexts", "values", "samples"):
        expected = run(capsys, "export", DATABASE, "--table", table)
        for name in ("a.cgrove", "b"):
            assert run(capsys, "export", tmp_path / name, "--table", table) == expected
    assert run(capsys, "tree", tmp_path / "b") == run(capsys, "tree", DATABASE)
    assert "hpctoolkit-release 4.0" in run(capsys, "info", tmp_path / "b")


def test_a_part_may_be_kept(capsys: Capture, tmp_path: Path) -> None:
    run(capsys, "convert", DATABASE, tmp_path / "a.cgrove", "--rank", "1")
    assert {row["rank"] for row in rows(capsys, "export", tmp_path / "a.cgrove", "--table", "profiles")} == {1}


def test_measurements_become_a_folder(capsys: Capture, tmp_path: Path) -> None:
    """The same program as a database and as a folder."""
    run(capsys, "prof", MEASUREMENTS, tmp_path / "a.cgrove")
    run(capsys, "prof", MEASUREMENTS, tmp_path / "a.d")
    assert open_path(tmp_path / "a.cgrove").format == "callgrove"
    assert open_path(tmp_path / "a.d").format == "hpctoolkit-release"
    for words in (("top", "--format", "csv"), ("export", "--table", "samples")):
        verb, *options = words
        a, b = (run(capsys, verb, tmp_path / name, *options) for name in ("a.cgrove", "a.d"))
        assert a.count("\n") == b.count("\n") > 10
    exported = [rows(capsys, "export", tmp_path / name, "--table", "values") for name in ("a.cgrove", "a.d")]
    sums = [sorted(row["value"] for row in table if row["profile"] is not None) for table in exported]
    assert set(sums[0]) <= set(sums[1])  # the database has a summary besides


@pytest.mark.parametrize("name", ["plain", "series.txt", "a.json.d"])
def test_an_ending_that_says_no_format_of_executions_means_a_database(
    name: str, capsys: Capture, tmp_path: Path
) -> None:
    run(capsys, "prof", MEASUREMENTS, tmp_path / name, "--no-traces")
    assert open_path(tmp_path / name).format == "hpctoolkit-release"


def test_measurements_come_back_from_a_folder(capsys: Capture, tmp_path: Path) -> None:
    """Headers, names and identifiers too: what hpcrun wrote, by way of a folder, is what is written directly."""
    run(capsys, "convert", MEASUREMENTS, tmp_path / "a.cgrove")
    said_of = []
    for source, target in ((MEASUREMENTS, "direct.m"), (tmp_path / "a.cgrove", "over.m")):
        capsys.readouterr()
        assert main(["convert", str(source), str(tmp_path / target), "--to", "hpcrun"]) == 0
        said_of.append(capsys.readouterr().err)
    assert said_of[1] == said_of[0]
    direct, over = (digests(tmp_path / name) for name in ("direct.m", "over.m"))
    assert len(direct) > 5
    assert over == direct


def test_studies_become_folders(capsys: Capture, tmp_path: Path) -> None:
    EXTRA_P.write_study(study_example(), tmp_path / "s.extra-p", WriteOptions())
    run(capsys, "convert", tmp_path / "s.extra-p", tmp_path / "s.cgrove")
    for words in (("export", "--table", "series"), ("model", "--format", "json")):
        assert run(capsys, words[0], tmp_path / "s.cgrove", *words[1:]) == run(
            capsys, words[0], tmp_path / "s.extra-p", *words[1:]
        )


@pytest.mark.parametrize("table", [name for name in TABLES if name != "series"])
def test_every_table_as_parquet(table: str, capsys: Capture, tmp_path: Path) -> None:
    written(odd_experiment(), tmp_path / "odd.cgrove")
    for source in (DATABASE, tmp_path / "odd.cgrove"):
        run(capsys, "export", source, "--table", table, "--format", "parquet", "-o", tmp_path / "t.parquet")
        found = pq.read_table(tmp_path / "t.parquet")
        expected = rows(capsys, "export", source, "--table", table, "--format", "json")
        assert found.num_rows == len(expected)
        for own, theirs in zip(found.to_pylist(), expected, strict=True):
            assert {k: shown(v) for k, v in own.items()} == {k: shown(v) for k, v in theirs.items()}


def shown(cell: Any) -> Any:
    """JSON has no NaN, and lone surrogates; numbers above what a column holds are absent."""
    if isinstance(cell, str):
        return cell.encode("utf-8", "backslashreplace").decode()
    if isinstance(cell, float) and cell - cell != 0:
        return None
    return None if isinstance(cell, int) and not -(2**63) <= cell < 2**64 else float(cell) if cell is not None else cell


def test_parquet_needs_a_file_and_takes_a_limit(capsys: Capture, tmp_path: Path) -> None:
    words = ("export", DATABASE, "--table", "values", "--format", "parquet")
    assert "name it with -o FILE" in said(capsys, *words, code=2)
    assert "more rows were left out" in said(capsys, *words, "--limit", 5, "-o", tmp_path / "v.parquet", code=0)
    assert pq.read_table(tmp_path / "v.parquet").num_rows == 5
    EXTRA_P.write_study(study_example(), tmp_path / "s.extra-p", WriteOptions())
    out = ("--format", "parquet", "-o", tmp_path / "s.parquet")
    run(capsys, "export", tmp_path / "s.extra-p", "--table", "series", *out)
    assert pq.read_table(tmp_path / "s.parquet").column("metric").to_pylist()[0] == study_example().metrics[0]


@pytest.mark.parametrize(("method", "module"), [("to_arrow", "pyarrow"), ("to_pandas", "pandas")])
def test_tables_say_what_they_need(method: str, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=r"pip install 'callgrove\[(arrow|pandas)\]'"):
        getattr(Table((Column("a", [1]),)), method)()


LARGE = (2**53 + 1, 2**64 - 1, -(2**63))


@pytest.mark.parametrize("large", LARGE)
def test_integers_stay_exact(large: int) -> None:
    """Beside absent cells, pandas would make doubles of them; beyond 63 bits, Arrow would give up."""
    need_module("pandas")
    table = Table((Column("a", [large, None]), Column("b", [large, large]), Column("c", [None, None])))
    arrow, frame = table.to_arrow(), table.to_pandas()
    assert arrow.column("a").to_pylist() == [large, None]
    assert (int(frame["a"][0]), bool(frame["a"].isna()[1])) == (large, True)
    assert frame["b"].tolist() == [large, large]
    assert frame["c"].isna().all()
    mixed = Table((Column("x", [1, 2.5, None]), Column("y", ["s", None, "t"]))).to_pandas()
    assert mixed["x"].tolist()[:2] == [1, 2.5]
    assert mixed["y"].tolist()[0] == "s"


def test_tables_for_arrow() -> None:
    found = Table((Column("a", [1, -1], -1), Column("b", ["x", None]))).to_arrow()
    assert found.to_pylist() == [{"a": 1, "b": "x"}, {"a": None, "b": None}]
