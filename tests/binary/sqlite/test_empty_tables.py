"""Databases of very many tables, made as pages: SQLite reads them as if it had created the tables itself."""

from __future__ import annotations

import io
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from callgrove.binary.sqlite.database import SqliteFile
from callgrove.binary.sqlite.empty_tables import write_empty_tables

PAGE = 4096
Table = tuple[str, str]


def declare(n: int, n_columns: int = 3) -> list[Table]:
    """Return names that need quotes, with their statements."""
    columns = ", ".join(f"column_{k} TEXT DEFAULT 'ä{k}'" for k in range(n_columns))
    return [(f'ta"ble_{k}_é', f'CREATE TABLE "ta""ble_{k}_é" (id INTEGER PRIMARY KEY, {columns})') for k in range(n)]


def written(path: Path, tables: list[Table]) -> sqlite3.Connection:
    with path.open("wb") as file:
        write_empty_tables(file, iter(tables))
    return sqlite3.connect(path)


def is_whole(database: sqlite3.Connection) -> bool:
    return database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@pytest.mark.parametrize(
    ("n", "n_columns"),
    # none, one leaf, leaves below page 1, interior pages between these, and statements of several pages
    [(0, 3), (1, 3), (2, 3), (30, 3), (5000, 3), (3000, 60), (2, 115), (3, 116), (40, 140), (9, 900)],
)
def test_sqlite_finds_the_tables_and_fills_them(n: int, n_columns: int, tmp_path: Path) -> None:
    tables = declare(n, n_columns)
    with closing(written(tmp_path / "t.db", tables)) as database:
        assert is_whole(database)
        listed = database.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY rowid").fetchall()
        assert listed == [("table", name, name, statement) for name, statement in tables]
        assert database.execute("PRAGMA page_count").fetchone() == ((tmp_path / "t.db").stat().st_size // PAGE,)
        for k in sorted({0, n // 2, n - 1} if n else ()):
            database.execute(f'INSERT INTO "ta""ble_{k}_é" (column_0) VALUES (?)', ("x" * 3 * PAGE,))
            assert database.execute(f'SELECT length(column_0), column_1 FROM "ta""ble_{k}_é"').fetchall() == [
                (3 * PAGE, "ä1")
            ]
        database.execute("CREATE TABLE further (a)")
        database.execute("CREATE INDEX indexed ON further (a)")
        if n:
            database.execute('DROP TABLE "ta""ble_0_é"')
        database.commit()
        assert is_whole(database)
        if n < 100:
            database.execute("VACUUM")
            assert is_whole(database)


def test_it_is_what_sqlite_writes_itself(tmp_path: Path) -> None:
    """The same settings, tables and statements: SQLite's text of both is the same."""
    tables = declare(50)
    with (
        closing(written(tmp_path / "ours.db", tables)) as ours,
        closing(sqlite3.connect(tmp_path / "its.db")) as its,
    ):
        for _, statement in tables:
            its.execute(statement)
        assert list(ours.iterdump()) == list(its.iterdump())
        for setting in ("page_size", "encoding", "auto_vacuum", "user_version", "application_id", "journal_mode"):
            assert ours.execute(f"PRAGMA {setting}").fetchall() == its.execute(f"PRAGMA {setting}").fetchall()


def test_our_own_reader_finds_them_too(tmp_path: Path) -> None:
    tables = declare(300)
    written(tmp_path / "t.db", tables).close()
    file = SqliteFile.open(tmp_path / "t.db")
    assert dict(file.tables) == {name: ("id", "column_0", "column_1", "column_2") for name, _ in tables}


class Counted(io.BytesIO):
    n_written = 0

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self.n_written += len(data)
        return super().write(data)


def test_each_page_is_written_once_and_tables_are_taken_as_they_come() -> None:
    """Ten times the tables are ten times the bytes; page 1 comes first as a gap, and is written at the end."""
    for n in (400, 4000):
        file, taken, behind = Counted(), 0, 0

        def tables(n: int, file: Counted) -> Iterator[Table]:
            nonlocal taken, behind
            for table in declare(n):
                taken += 1
                behind = max(behind, taken * PAGE - file.n_written)
                yield table

        write_empty_tables(file, tables(n, file))
        assert taken == n
        assert behind <= 0  # nothing waits but the rows of one page
        assert file.n_written == len(file.getvalue()) + PAGE
        of_rows = sum(len(statement.encode()) + 3 * len(name.encode()) for name, statement in declare(n))
        assert n * PAGE < file.n_written < n * PAGE + 2 * of_rows + 8 * PAGE
