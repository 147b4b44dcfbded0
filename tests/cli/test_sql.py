"""`callgrove sql` as it is typed."""

from __future__ import annotations

import csv
import io
import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from bench.gpu_databases import GpuShape, make_gpu_database
from callgrove.cli.main import main
from callgrove.examples import example
from callgrove.formats.interface import WriteOptions
from callgrove.formats.registry import writer_of
from callgrove.formats.writing.transfer import write_experiment
from tests.cli.commands import Capture, rows, run, said
from tests.requirements import ROOT
from tests.test_docs import commands

COUNT = "SELECT name, count(*) AS n, sum(duration) AS ns FROM kernels GROUP BY name ORDER BY name"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sql")
    for rank in range(2):
        make_gpu_database(folder / f"rank{rank}.db", GpuShape(300, rank, 2))
    write_experiment(example(), writer_of("hpctoolkit-release"), folder / "stencil.d", WriteOptions())
    return folder


@pytest.fixture
def gpu(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.db"))


def raw(paths: list[Path]) -> list[dict[str, object]]:
    """Count and total by kernel, over the files' own tables."""
    found: dict[str, list[int]] = {}
    for path in paths:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            names = [n for (n,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            kernels, symbols = (next(n for n in names if word in n) for word in ("kernel_dispatch", "kernel_symbol"))
            for name, start, end in database.execute(
                f'SELECT s.display_name, k.start, k."end" FROM "{kernels}" k JOIN "{symbols}" s ON s.id = k.kernel_id'
            ):
                have = found.setdefault(name, [0, 0])
                have[0], have[1] = have[0] + 1, have[1] + end - start
    return [{"name": name, "n": n, "ns": ns} for name, (n, ns) in sorted(found.items())]


@pytest.mark.parametrize("engine", ["duckdb", "sqlite"])
def test_formats_and_files(capsys: Capture, gpu: list[Path], engine: str, tmp_path: Path) -> None:
    expected = raw(gpu)
    assert rows(capsys, "sql", *gpu, COUNT, "--engine", engine) == expected
    text = run(capsys, "sql", *gpu, COUNT, "--engine", engine, "--format", "csv")
    assert list(csv.DictReader(io.StringIO(text))) == [{k: str(v) for k, v in row.items()} for row in expected]
    assert run(capsys, "sql", *gpu, COUNT, "--engine", engine, "--format", "markdown").startswith("| name")
    target, query = tmp_path / "out.json", tmp_path / "query.sql"
    query.write_text(f"-- by kernel\n{COUNT}\n")
    assert run(capsys, "sql", *gpu, f"@{query}", "--engine", engine, "--format", "json", "-o", target) == ""
    assert json.loads(target.read_text()) == expected
    assert rows(capsys, "sql", *gpu, "-f", query, "--engine", engine) == expected
    assert len(rows(capsys, "sql", *gpu, COUNT, "--engine", engine, "--limit", 1)) == 1


def test_inputs_are_left_alone(capsys: Capture, gpu: list[Path], folder: Path) -> None:
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in gpu}
    names = sorted(folder.iterdir())
    for engine in ("duckdb", "sqlite"):
        run(capsys, "sql", *gpu, "SELECT * FROM spans", "--engine", engine)
        said(capsys, "sql", *gpu, "DELETE FROM spans", "--engine", engine, code=2)
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in gpu} == before
    assert sorted(folder.iterdir()) == names


def test_any_mixture_of_inputs(capsys: Capture, gpu: list[Path], folder: Path) -> None:
    """Databases of one family are one experiment; everything else stands by itself."""
    listed = rows(
        capsys, "sql", gpu[0], folder / "stencil.d", gpu[1], "SELECT input, format FROM inputs ORDER BY input"
    )
    assert listed == [{"input": 0, "format": "rocpd"}, {"input": 1, "format": "hpctoolkit-release"}]
    both = "SELECT input, count(*) AS n FROM profiles GROUP BY input ORDER BY input"
    assert [row["n"] for row in rows(capsys, "sql", *gpu, folder / "stencil.d", both)][1] == 9


def test_tables_are_listed(capsys: Capture, gpu: list[Path]) -> None:
    listed = rows(capsys, "sql", gpu[0], "--tables")
    assert {"table": "kernels", "kind": "view", "column": "duration", "type": "INTEGER"}.items() <= next(
        row for row in listed if row["table"] == "kernels" and row["column"] == "duration"
    ).items()
    shown = run(capsys, "sql", gpu[0], "--tables")
    assert [line.split()[0] for line in shown.splitlines()[2:]] == list(dict.fromkeys(row["table"] for row in listed))


def test_contexts_of_gpu_runs_are_folded_when_asked_for(capsys: Capture, gpu: list[Path]) -> None:
    found = rows(capsys, "sql", gpu[0], "SELECT count(*) AS n FROM contexts WHERE kind = 'kernel'")
    assert found[0]["n"] > 0
    sums = "SELECT m.name, sum(value) AS v FROM stored_values JOIN metrics m USING (metric) GROUP BY m.name"
    assert {row["name"] for row in rows(capsys, "sql", gpu[0], sums)} >= {"gpu_time", "host_calls"}


def test_what_is_not_there_is_said(capsys: Capture, folder: Path) -> None:
    capsys.readouterr()
    assert main(["sql", str(folder / "stencil.d"), "SELECT name FROM kernels", "--format", "csv"]) == 0
    out, err = capsys.readouterr()
    assert out == "name\n"
    assert err == f"callgrove: {folder / 'stencil.d'}: has nothing for kernels\n"


def test_wrong_usage(capsys: Capture, gpu: list[Path], tmp_path: Path) -> None:
    assert "after PATH comes a query" in said(capsys, "sql", gpu[0], code=2)
    assert "after PATH comes a query" in said(capsys, "sql", *gpu, code=2)
    assert "did you mean 'kernels'?" in said(capsys, "sql", gpu[0], "SELECT * FROM kernel", code=2)
    assert "No such file" in said(capsys, "sql", gpu[0], "@nowhere.sql", code=1)
    assert "invalid choice" in said(capsys, "sql", gpu[0], "SELECT 1", "--engine", "mysql", code=2)
    binary = tmp_path / "binary.sql"
    binary.write_bytes(b"SELECT \xff")
    assert "byte 7 is not UTF-8" in said(capsys, "sql", gpu[0], "-f", binary, code=2)
    binary.write_bytes(b" " * (1 << 21))
    assert "more than" in said(capsys, "sql", gpu[0], "-f", binary, code=2)
    said(capsys, "sql", tmp_path / "nothing.db", "SELECT 1", code=3)


def test_a_damaged_file_among_many(capsys: Capture, gpu: list[Path], tmp_path: Path) -> None:
    broken = tmp_path / "broken.db"
    broken.write_bytes(gpu[0].read_bytes()[:5000])
    capsys.readouterr()
    assert main(["sql", *map(str, gpu), str(broken), COUNT, "--format", "json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == raw(gpu)
    assert "broken.db" in err
    assert main(["sql", *map(str, gpu), str(broken), COUNT, "--strict"]) == 3


@pytest.mark.parametrize("query", ["SELECT count(*) AS n FROM samples", "SELECT * FROM samples"])
def test_nothing_is_printed_where_damage_took_it(capsys: Capture, folder: Path, tmp_path: Path, query: str) -> None:
    """A 0 on stdout would be taken for the truth; what another table says is printed, and exit code 3 is `export`'s."""
    broken = shutil.copytree(folder / "stencil.d", tmp_path / "broken.d")
    (broken / "trace.db").write_bytes((broken / "trace.db").read_bytes()[:200])
    capsys.readouterr()
    assert main(["sql", str(broken), query]) == main(["export", str(broken), "--table", "samples"]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert "has nothing for samples, which may have been in what is damaged; `callgrove check` lists it" in err
    joined = "SELECT count(*) AS n FROM profiles LEFT JOIN samples USING (profile)"
    assert rows(capsys, "sql", broken, joined)[0]["n"] > 0


def test_non_finite_numbers(capsys: Capture, gpu: list[Path]) -> None:
    query = "SELECT 9e999 AS x"
    assert run(capsys, "sql", gpu[0], query, "--engine", "sqlite", "--format", "csv") == "x\ninf\n"
    assert rows(capsys, "sql", gpu[0], query, "--engine", "sqlite") == [{"x": None}]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    assert main(["demo", "--keep", str(folder)]) == 0
    return folder


DOCUMENTED = [
    command.arguments
    for document in ("docs/sql.md", "docs/cli.md", "README.md")
    for command in commands((ROOT / document).read_text())
    if command.arguments[0] == "sql" and "--tables" not in command.arguments
]


@pytest.mark.parametrize("words", DOCUMENTED, ids=lambda words: next(word for word in words if "SELECT" in word)[:40])
def test_documented_queries_give_the_same_on_both_engines(
    capsys: Capture, demo: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.chdir(demo)
    asked = words[: 1 + next(k for k, word in enumerate(words) if "SELECT" in word)]
    texts = [run(capsys, *asked, "--format", "csv", "--engine", engine) for engine in ("duckdb", "sqlite")]
    assert texts[0].count("\n") > 1
    ordered = "ORDER BY" in asked[-1]
    one, two = (text.splitlines() if ordered else sorted(text.splitlines()) for text in texts)
    assert one == two
