"""`callgrove pop` as it is typed: formats, marks, runs, parts of the tree, and what is said and refused."""

from __future__ import annotations

import re
from pathlib import Path
from shutil import copytree

import pytest

from callgrove.cli.main import main
from callgrove.render import Look
from tests.cli.commands import Capture, notes, rows, run, said
from tests.formats.cube.raw_cubes import r1
from tests.formats.samples import CORPUS, databases

DATABASES = {path.name: path for path in databases("release")}


@pytest.fixture
def cube(tmp_path: Path) -> Path:
    return r1().write(tmp_path / "r1.cubex")


def by_name(found: list[dict[str, object]], column: str) -> dict[str, object]:
    return {str(row["name"]): row[column] for row in found}


def test_the_table(cube: Path, capsys: Capture) -> None:
    text = run(capsys, "pop", cube)
    assert re.search(r"^parallel efficiency +0\.551 !!$", text, re.MULTILINE)
    assert re.search(r"^  load balance +0\.741  !$", text, re.MULTILINE)
    assert re.search(r"^  OpenMP parallel efficiency +0\.896$", text, re.MULTILINE)
    assert re.search(r"^runtime +39 s$", text, re.MULTILINE)
    assert "serialisation" not in text
    told = notes(capsys, "pop", cube)
    assert "not available: serialisation efficiency, transfer efficiency: no profile tells" in told
    assert "time is 'time'; the runtime is the longest that thread 0 of a process has" in told


def test_data_has_every_figure_and_the_reasons(cube: Path, capsys: Capture) -> None:
    found = rows(capsys, "pop", cube)
    assert list(found[0]) == ["name", "depth", "unit", "r1.cubex", "missing"]
    values, reasons = by_name(found, "r1.cubex"), by_name(found, "missing")
    assert values["parallel efficiency"] == pytest.approx(0.551282, abs=1e-6)
    assert (values["threads"], values["serialisation efficiency"]) == (4, None)
    assert all((values[name] is None) == (reasons[name] is not None) for name in values)
    assert notes(capsys, "pop", cube, "--format", "csv") == ""


def test_latex(cube: Path, capsys: Capture, tmp_path: Path) -> None:
    run(capsys, "pop", cube, r1().write(tmp_path / "r_1.cubex"), "-o", tmp_path / "table.tex")
    lines = (tmp_path / "table.tex").read_text().splitlines()
    assert lines[:3] == [r"\begin{tabular}{lrr}", r"\hline", r"figure & r1.cubex & r\_1.cubex \\"]
    assert r"\quad parallel efficiency & 0.551 & 0.551 \\" in lines
    assert r"MPI share of time & 32.8\% & 32.8\% \\" in lines
    assert lines[-1] == r"\end{tabular}"


def test_markdown_reads_like_the_table(cube: Path, capsys: Capture, tmp_path: Path) -> None:
    lines = run(capsys, "pop", cube, "--format", "markdown").splitlines()
    assert lines[:4] == [
        *("| figure | r1.cubex |", "| :--- | ---: |", "| parallel efficiency | 0.551 |"),
        "| &emsp;load balance | 0.741 |",
    ]
    assert "| &emsp;&emsp;MPI load balance | 0.828 |" in lines
    assert "| MPI share of time | 32.8% |" in lines
    assert "| runtime | 39 s |" in lines
    assert not any("serialisation" in line for line in lines)
    run(capsys, "pop", cube, DATABASES["pth4.d"], "-o", tmp_path / "table.md")
    assert "| runtime | 39 s | - |" in (tmp_path / "table.md").read_text().splitlines()
    assert "not available: speed-up" in notes(capsys, "pop", cube, DATABASES["pth4.d"], "--format", "markdown")


def test_low_figures_have_colours(cube: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callgrove.cli.output.stdout_look", lambda: Look(100, colour=True))
    text = run(capsys, "pop", cube)
    red, yellow = "\x1b[31m", "\x1b[33m"
    assert re.search(rf"parallel efficiency +{re.escape(red)} *0\.551 !!\x1b\[0m", text)
    assert re.search(rf"load balance +{re.escape(yellow)} *0\.741  !\x1b\[0m", text)
    assert re.search(r"OpenMP parallel efficiency +0\.896", text)


def test_parts_of_the_tree(cube: Path, capsys: Capture) -> None:
    assert by_name(rows(capsys, "pop", cube, "--under", "foo"), "r1.cubex")["runtime"] == 21
    assert by_name(rows(capsys, "pop", cube, "--under", "main->foo"), "r1.cubex")["runtime"] == 16
    assert by_name(rows(capsys, "pop", cube, "--under", "/^MPI_/"), "r1.cubex")["computation"] == 0
    assert "did you mean 'foo'" in said(capsys, "pop", cube, "--under", "fooo", code=2)
    assert "expected a name at character 1 of ''" in said(capsys, "pop", cube, "--under", "", code=2), (
        "not the whole tree"
    )


def test_two_inputs_are_compared(cube: Path, capsys: Capture) -> None:
    found = rows(capsys, "pop", cube, DATABASES["mpi4.d"])
    assert list(found[0])[3:5] == ["r1.cubex", "mpi4.d"]
    scaling = by_name(found, "mpi4.d")
    computation = [by_name(found, column)["computation"] for column in ("r1.cubex", "mpi4.d")]
    assert scaling["computation scaling"] == pytest.approx(computation[0] / computation[1])  # type: ignore[operator]
    weak = by_name(rows(capsys, "pop", cube, DATABASES["mpi4.d"], "--scaling", "weak"), "mpi4.d")
    assert weak["computation scaling"] == pytest.approx(scaling["computation scaling"] * 4 / 2)  # type: ignore[operator]
    told = notes(capsys, "pop", cube, DATABASES["mpi4.d"], "--scaling", "weak")
    assert "weak scaling: the computation per process is compared with that of r1.cubex" in told
    assert "times of runs are different metrics ('time', 'CPUTIME (sec)')" in told
    assert "different metrics" not in notes(capsys, "pop", cube, cube)


def test_a_folder_of_runs(tmp_path: Path, capsys: Capture) -> None:
    for point, name in ((8, "mpi4.d"), (4, "pth4.d")):
        copytree(DATABASES[name], tmp_path / "runs" / f"app.p{point}.r1")
    found = rows(capsys, "pop", tmp_path / "runs")
    assert list(found[0])[3:5] == ["app.p4.r1", "app.p8.r1"]
    assert re.search(r"^parallel efficiency +- +0\.\d+ !!$", run(capsys, "pop", tmp_path / "runs"), re.MULTILINE)
    alone = by_name(rows(capsys, "pop", DATABASES["mpi4.d"]), "mpi4.d")
    assert by_name(found, "app.p8.r1")["load balance"] == pytest.approx(alone["load balance"])
    chosen = rows(capsys, "pop", tmp_path / "runs", "--run", "p=8")
    assert by_name(chosen, list(chosen[0])[3]) == pytest.approx(alone)


def test_runs_without_a_runtime(shared: Path, capsys: Capture) -> None:
    """Thread 0 of no process was sampled: there is no runtime, nor what is made of it, not even of zero."""
    folder = shared / "data" / "own"
    paths = folder / "hpcrun-02.00" / "2018.09" / "mpi4.m", folder / "hpcrun-04.00" / "mpi4.m"
    found = rows(capsys, "pop", *paths)
    first, second, reasons = (by_name(found, name) for name in ("2018.09/mpi4.m", "hpcrun-04.00/mpi4.m", "missing"))
    why = "thread 0 of no process has any value of this time, so that the runtime is not known"
    for name in ("runtime", "parallel efficiency", "communication efficiency", "OpenMP parallel efficiency"):
        assert first[name] is None
        assert second[name] is not None
        assert reasons[name] == f"2018.09/mpi4.m: {why}"
    for name in ("speed-up", "global efficiency"):
        assert first[name] is second[name] is None
        assert "is not known in both runs" in str(reasons[name])
    told = notes(capsys, "pop", *paths)
    assert "load balance, communication efficiency, MPI parallel efficiency, MPI load balance, " in told
    assert f"runtime: 2018.09/mpi4.m: {why}" in told
    assert "4 of 16 locations have no values, and count in averages all the same" in told


def test_a_run_without_a_runtime(cube: Path, capsys: Capture) -> None:
    values = by_name(rows(capsys, "pop", DATABASES["pth4.d"]), "pth4.d")
    assert values["runtime"] is None
    assert values["computation"] == pytest.approx(0.354, abs=1e-3)
    told = notes(capsys, "pop", cube, "--under", "MPI_Send", "--thread", "1")
    assert "thread 0" not in told
    assert "runtime: the first thread of some process is not among those that are looked at" in told


def test_every_path_is_a_column_whatever_the_first_is(shared: Path, cube: Path, capsys: Capture) -> None:
    """Formats that take several files are not asked to read those of others, nor to make one run of two."""
    folder = shared / "data" / "own" / "rocpd" / "small"
    one, other = folder / "rank00000_results.db", folder / "rank00001_results.db"
    for paths in ((folder, cube), (cube, folder), (one, cube), (one, other), (cube, one, other)):
        found = rows(capsys, "pop", *paths)
        assert list(found[0])[3:-1] == [path.name for path in paths]
        assert "damaged" not in notes(capsys, "pop", *paths)
        for path in paths:
            alone = by_name(rows(capsys, "pop", path), path.name)
            name = "runtime" if path == cube else "device parallel efficiency"
            assert by_name(found, path.name)[name] == alone[name] is not None
    told = notes(capsys, "pop", folder, cube)
    assert "not available: figures of the host: small: there is no metric of the time" in told
    assert "not available: figures of devices: r1.cubex: no operation of a device was traced" in told


def test_a_folder_of_traced_runs(shared: Path, capsys: Capture) -> None:
    """Runs that are joined have no traces, so each is opened by itself."""
    folder = shared / "data" / "public" / "extrap" / "nsight" / "concurrent_example"
    found = rows(capsys, "pop", folder)
    names = [f"concurrent.s{n}" for n in (1, 2, 4, 8, 16)]
    assert list(found[0])[3:-1] == names
    alone = by_name(rows(capsys, "pop", folder / "concurrent.s4"), "concurrent.s4")
    assert by_name(found, "concurrent.s4") == pytest.approx(alone)
    assert alone["device parallel efficiency"] is not None
    assert list(rows(capsys, "pop", folder, "--run", "s=4,r=1")[0])[3:-1] == ["concurrent.s4"]


@pytest.mark.filterwarnings("error")
def test_infinite_times(cube: Path, capsys: Capture, tmp_path: Path) -> None:
    derived = ("--derive", "x = 1e308 * time * 1e308", "-m", "x")
    values = by_name(rows(capsys, "pop", cube, *derived), "r1.cubex")
    assert (values["threads"], values["runtime"], values["computation"]) == (4, None, None)
    assert "not available: figures between runs: the time that threads" in notes(capsys, "pop", cube, cube, *derived)
    told = notes(capsys, "report", cube, *derived, "-o", tmp_path / "page.html")
    assert "RuntimeWarning" not in told


def test_what_is_refused(cube: Path, capsys: Capture) -> None:
    assert "visits is not time" in said(capsys, "pop", cube, "-m", "visits", code=2)
    assert "no profile has rank 7" in said(capsys, "pop", cube, "--rank", "7", code=2)
    assert "holds series" in said(capsys, "pop", CORPUS / "extrap" / "text.txt", code=2)
    assert main(["pop", str(cube), "--scaling", "sideways"]) == 2
