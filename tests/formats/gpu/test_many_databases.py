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
from tests.formats.gpu.gpu_databases import Run, write_rocpd

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
