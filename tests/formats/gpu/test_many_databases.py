"""What many small databases take: work that grows with their number, counted in what is asked of SQLite.

The table names of rocpd carry the GUID of their process, so a file of n processes has 20 n tables. SQLite searches all
of them after each CREATE TABLE; nothing else of ours may do such a thing either.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from callgrove.binary.sqlite import schema, tables
from callgrove.cli.main import main
from callgrove.formats.gpu.rocpd.events import EventChunk
from callgrove.formats.timeline import writer
from tests.formats.gpu.gpu_databases import Run, execute, suffix_of, write_rocpd

FEW, MANY = 4, 40


def make_databases(folder: Path, n: int) -> Path:
    """Write a folder of databases that differ in their GUID alone."""
    folder.mkdir()
    run = Run.random(1).without("memset")
    for k in range(n):
        write_rocpd(folder / f"{k:03}.db", [replace(run, guid=f"018f0000-0000-7000-8000-{k:012x}")])
    return folder


def merge(source: Path, target: Path) -> Path:
    assert main(["convert", str(source), str(target), "--to", "rocpd"]) == 0
    return target


class Sqlite:
    """What SQLite is asked: connections by the kind of file, and instructions on what is written."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.n_connections: Counter[str] = Counter()
        self.n_instructions = 0
        self._connect: Any = sqlite3.connect
        monkeypatch.setattr(sqlite3, "connect", self.connect)

    def connect(self, path: Any, *args: Any, **words: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = self._connect(path, *args, **words)
        is_written = str(path).endswith(".partial")
        self.n_connections["written" if is_written else "read"] += 1
        if is_written:
            connection.set_progress_handler(self._count, 10)
        return connection

    def _count(self) -> int:
        self.n_instructions += 10
        return 0


def test_merging_takes_instructions_by_the_number_of_databases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    each = {}
    for n in (FEW, MANY):
        source = make_databases(tmp_path / f"{n}", n)
        with monkeypatch.context() as patched:
            counted = Sqlite(patched)
            merge(source, tmp_path / f"{n}.db")
        each[n] = counted.n_instructions / n
    assert each[MANY] < 1.2 * each[FEW], each


def test_writing_spans_of_many_processes_takes_instructions_by_their_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    each = {}
    for n in (FEW, MANY):
        source = make_databases(tmp_path / f"{n}", n)
        assert main(["convert", str(source), str(tmp_path / f"{n}.cgrove")]) == 0
        with monkeypatch.context() as patched:
            counted = Sqlite(patched)
            merge(tmp_path / f"{n}.cgrove", tmp_path / f"{n}.db")
        each[n] = counted.n_instructions / n
    assert each[MANY] < 1.2 * each[FEW], each


def test_a_merged_file_is_opened_once_to_be_merged_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite reads the whole schema, of all processes, whenever it opens the file."""
    of_file = {}
    for n in (FEW, MANY):
        merged = merge(make_databases(tmp_path / f"{n}", n), tmp_path / f"{n}.db")
        with monkeypatch.context() as patched:
            counted = Sqlite(patched)
            again = merge(merged, tmp_path / f"{n}-again.db")
        of_file[n] = counted.n_connections["read"]
        with closing(sqlite3.connect(merged)) as once, closing(sqlite3.connect(again)) as twice:
            assert list(once.iterdump()) == list(twice.iterdump())
    assert of_file[FEW] == of_file[MANY]


def test_tables_of_a_merged_file_are_looked_at_as_those_of_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Statements that differ in a GUID alone are asked of SQLite once, and each table is measured once."""
    asked: dict[int, Counter[str]] = {}
    for n in (FEW, MANY):
        merged = merge(make_databases(tmp_path / f"{n}", n), tmp_path / f"{n}.db")
        asked[n] = count = Counter[str]()
        ask, measure = schema._ask_sqlite, vars(tables.FoundTable)["n_bytes"].fget

        def ask_and_count(
            connection: sqlite3.Connection, table: str, count: Counter[str] = count, ask: Any = ask
        ) -> Any:
            count["asked"] += 1
            return ask(connection, table)

        def measure_and_count(table: Any, count: Counter[str] = count, measure: Any = measure) -> int:
            count["measured"] += 1
            return int(measure(table))

        with monkeypatch.context() as patched:
            patched.setattr(schema, "_ask_sqlite", ask_and_count)
            patched.setattr(tables.FoundTable, "n_bytes", property(measure_and_count))
            assert main(["summary", str(merged)]) == 0
    assert asked[FEW]["asked"] == asked[MANY]["asked"]
    assert asked[MANY]["measured"] / MANY <= asked[FEW]["measured"] / FEW


# -- timelines ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["perfetto", "chrome-json"])
def test_timelines_make_the_events_of_small_databases_at_once(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many databases fit into a bundle, the columns of each kind of table are made once."""
    made = {}
    for n in (FEW, MANY):
        source, calls = make_databases(tmp_path / f"{n}", n), Counter[str]()
        columns = EventChunk.columns

        def count_columns(chunk: EventChunk, names: Any, calls: Counter[str] = calls, columns: Any = columns) -> Any:
            calls["made"] += 1
            return columns(chunk, names)

        with monkeypatch.context() as patched:
            patched.setattr(EventChunk, "columns", count_columns)
            assert main(["convert", str(source), str(tmp_path / f"{n}.out"), "--to", target]) == 0
        made[n] = calls["made"]
    assert made[FEW] == made[MANY] > 0


def make_different_databases(folder: Path) -> Path:
    """Write databases of different runs: some with two processes, with ids that lead nowhere, with one correlation for
    all, with call stacks, or with times that end before they start."""
    folder.mkdir()
    runs = [replace(Run.random(k), guid=f"018f0000-0000-7000-8000-{k:012x}").without("memset") for k in range(7)]
    paths = [write_rocpd(folder / f"{k}.db", [run]) for k, run in enumerate(runs[:5])]
    write_rocpd(folder / "5.db", runs[5:])
    tails = [suffix_of(run) for run in runs]
    execute(
        paths[1],
        f"UPDATE rocpd_kernel_dispatch{tails[1]} SET kernel_id = 99 WHERE id % 3 = 0",
        f"UPDATE rocpd_region{tails[1]} SET event_id = 77777 WHERE id % 4 = 0",
    )
    execute(paths[2], f"UPDATE rocpd_event{tails[2]} SET stack_id = 3")
    execute(paths[3], f"""UPDATE rocpd_event{tails[3]} SET call_stack = '["a"]' WHERE id % 2 = 0""")
    execute(paths[4], f"UPDATE rocpd_region{tails[4]} SET end = start - 5 WHERE id % 5 = 0")
    return folder


@pytest.mark.parametrize("options", [[], ["--annotations", "all"], ["--kernel-rename", "--group-by-queue"]])
@pytest.mark.parametrize("target", ["perfetto", "chrome-json"])
def test_timelines_are_equal_however_databases_are_read(
    target: str, options: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """At once, and each by itself: the same bytes, and the same messages."""
    source, said, written = make_different_databases(tmp_path / "runs"), [], []
    for n_bytes in (writer.BUNDLE_BYTES, 0):
        monkeypatch.setattr(writer, "BUNDLE_BYTES", n_bytes)
        assert main(["convert", str(source), str(tmp_path / "out"), "--force", "--to", target, *options]) == 0
        said.append(capsys.readouterr().err)
        written.append((tmp_path / "out").read_bytes())
    assert written[0] == written[1]
    assert said[0] == said[1]
    assert "end before they start" in said[0]
