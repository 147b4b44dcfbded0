"""`callgrove summary` as it is typed: windows, ranks, limits, units, processes, and what is said about the data."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from bench.gpu_databases import GpuShape, make_gpu_database
from callgrove.cli.main import main
from callgrove.render import Look
from tests.cli.commands import Capture, rows, run, said
from tests.formats.gpu.gpu_databases import Run, execute, suffix_of, write_rocpd


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gpu")
    for rank in range(2):
        make_gpu_database(folder / f"rank{rank}.db", GpuShape(300, rank, 2))
    return folder


def noted(capsys: Capture, *words: object) -> str:
    """What a command that succeeds says on stderr."""
    capsys.readouterr()
    assert main([str(word) for word in words]) == 0
    return capsys.readouterr().err


def n_kernels(found: list[dict[str, object]]) -> int:
    return sum(int(str(row["count"])) for row in found if row["section"] == "kernels")


def test_the_last_line_counts(capsys: Capture, folder: Path) -> None:
    last = noted(capsys, "summary", folder, "--limit", 1).splitlines()[-1]
    assert last.startswith("callgrove: 608 spans read, 608 shown, 0 flagged")
    assert last.endswith("0 operations without a launching call")


def test_windows(capsys: Capture, folder: Path) -> None:
    whole = n_kernels(rows(capsys, "summary", folder))
    halves = [
        rows(capsys, "summary", folder, *w, "--window-mode", "touch") for w in (("--end", "50%"), ("--start", "50%"))
    ]
    inside = rows(capsys, "summary", folder, "--start", "50%")
    assert n_kernels(halves[0]) + n_kernels(halves[1]) >= whole > n_kernels(halves[0]) > 0
    assert n_kernels(inside) <= n_kernels(halves[1])
    assert n_kernels(rows(capsys, "summary", folder, "--start-marker", "step")) > 0
    assert "no marker 'x'" in said(capsys, "summary", folder, "--end-marker", "x", code=2)
    assert "times are like" in said(capsys, "summary", folder, "--start", "soon", code=2)
    assert "is empty" in said(capsys, "summary", folder, "--start", "9s", code=2)
    touching = ("--start", "50%", "--section", "kernels")
    for word, expected in (("False", halves[1]), ("true", inside)):
        assert n_kernels(rows(capsys, "summary", folder, *touching, "--inclusive", word)) == n_kernels(expected)
    assert "neither true nor false" in said(capsys, "summary", folder, "--inclusive", "no", code=2)
    assert "end at 100%" in said(capsys, "summary", folder, "--end", "101%", code=2)


def test_percentages_are_of_what_happened(capsys: Capture, tmp_path: Path) -> None:
    """Processes may begin long before the first span and end long after the last one; spans without a time are none."""
    data = Run.random(2, 40).without("memset")
    path, tail = write_rocpd(tmp_path / "r.db", [data]), suffix_of(data)
    execute(
        path,
        f"UPDATE rocpd_info_process{tail} SET init = 1, fini = 10000000",
        f"UPDATE rocpd_memory_copy{tail} SET start = NULL WHERE rowid = 1",
    )
    first = next(event for event in data.events if event.kind == "copy")
    events = [event for event in data.events if event is not first]
    begin, end = min(event.start for event in events), max(event.end for event in events)
    middle = begin + (end - begin) // 2
    found = rows(capsys, "summary", path, "--end", "50%")
    expected = [event for event in events if event.start >= begin and event.end <= middle and event.kind == "kernel"]
    assert n_kernels(found) == len(expected) > 0


def test_ranks_and_processes(capsys: Capture, folder: Path) -> None:
    one = rows(capsys, "summary", folder, "--rank", 1, "--by", "rank", "--section", "kernels")
    assert {row["rank"] for row in one} == {1}
    words = ("summary", folder, "--by", "rank", "--format", "csv")
    assert run(capsys, *words, "-j", 1) == run(capsys, *words, "-j", 2)


def test_tables_for_people_have_units_and_limits(capsys: Capture, folder: Path) -> None:
    text = run(capsys, "summary", folder, "--section", "kernels", "--section", "copies", "--limit", 1)
    kernels, copies = (block.splitlines() for block in text.split("\n\n"))
    assert kernels[0].split()[:4] == ["kernels", "count", "total", "percent"]
    assert "bytes" not in kernels[0]
    assert " us " in kernels[2]
    assert "more" in kernels[3]
    assert copies[0].split()[0] == "copies"
    assert "GB/s" in copies[2]


def test_an_input_without_events_is_told_so(capsys: Capture, tmp_path: Path) -> None:
    run(capsys, "demo", "--keep", tmp_path / "demo")
    text = noted(capsys, "summary", tmp_path / "demo" / "stencil.d")
    assert len(text.splitlines()) == 1
    assert "has no events with a start and an end" in text


def test_people_see_the_first_rows_and_programs_all(capsys: Capture, folder: Path) -> None:
    divided = ("summary", folder, "--section", "kernels", "--by", "stream", "--by", "rank")
    n_rows = len(rows(capsys, *divided))
    assert n_rows > 20
    assert len(run(capsys, *divided).splitlines()) == 2 + 20 + 1
    assert len(run(capsys, *divided, "--limit", "all").splitlines()) == 2 + n_rows


def test_much_that_is_flagged_is_said(capsys: Capture, tmp_path: Path) -> None:
    path = make_gpu_database(tmp_path / "a.db", GpuShape(200))
    with closing(sqlite3.connect(path)) as connection, connection:
        (name,) = connection.execute("SELECT name FROM sqlite_master WHERE name LIKE 'rocpd_region%'").fetchone()
        connection.execute(f'UPDATE "{name}" SET end = start - 1 WHERE id % 10 = 0')
    text = noted(capsys, "summary", path)
    assert "data quality: " in text
    assert "10 flagged" in text


def test_cells_that_are_no_numbers_are_said_by_any_process(capsys: Capture, tmp_path: Path) -> None:
    files = []
    for rank in range(2):
        files.append(make_gpu_database(tmp_path / f"rank{rank}.db", GpuShape(200, rank, 2)))
        with closing(sqlite3.connect(files[-1])) as connection, connection:
            (name,) = connection.execute(
                "SELECT name FROM sqlite_master WHERE name LIKE 'rocpd_memory_copy%'"
            ).fetchone()
            connection.execute(f"UPDATE \"{name}\" SET start = 'soon' WHERE id = 2")
    for jobs in (1, 2):
        text = noted(capsys, "summary", *files, "-j", jobs)
        assert text.count("1 cells are not numbers") == 2, text


def test_a_narrow_terminal_keeps_names_and_whole_numbers(
    capsys: Capture, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("summary", folder, "--section", "kernels", "--section", "copies")
    wide = run(capsys, *words)
    monkeypatch.setattr("callgrove.cli.output.stdout_look", lambda: Look(width=80))
    narrow = run(capsys, *words)
    assert {"std", "p95"} <= set(wide.splitlines()[0].split()) <= set(narrow.split())
    assert max(map(len, narrow.splitlines())) <= 80
    assert re.search(r"^copies .* bytes_per_second$", narrow, re.MULTILINE)
    assert set(re.findall(r"[\d.]+ GB/s", narrow)) == set(re.findall(r"[\d.]+ GB/s", wide))
    for name in re.findall(r"^(?:MEMORY_|void )\S+", wide, re.MULTILINE):
        assert name[:12] in narrow


def test_what_is_not_divided_is_said(capsys: Capture, folder: Path) -> None:
    words = ("summary", folder, "--section", "overlap", "--section", "kernels")
    assert "overlap cannot be divided by stream: these rows cover all of them" in noted(
        capsys, *words, "--by", "stream"
    )
    assert "cannot be divided" not in noted(capsys, *words, "--by", "rank")
