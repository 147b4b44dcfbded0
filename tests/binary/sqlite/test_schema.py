"""Schemas of files of one run, which share what they declare."""

from __future__ import annotations

import pickle
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from callgrove.binary.files import read_into
from callgrove.binary.sqlite import schema as schemas
from callgrove.binary.sqlite.cells import Type
from callgrove.binary.sqlite.database import SqliteCache, SqliteFile

GUIDS = [f"0000000{k}-1111-2222-3333-444444444444" for k in range(4)]


def make(path: Path, guid: str, *further: str, page_size: int = 4096) -> Path:
    """A database with one table and one view, named by the GUID."""
    name = guid.replace("-", "_")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA page_size={page_size}")
        connection.execute(f'CREATE TABLE "t_{name}"(id INTEGER PRIMARY KEY, guid TEXT DEFAULT "{guid}", a)')
        connection.execute(f'CREATE VIEW "v_{guid}" AS SELECT a FROM "t_{name}"')
        for statement in further:
            connection.execute(statement)
        connection.execute(f'INSERT INTO "t_{name}"(a) VALUES (7)')
    return path


@pytest.mark.parametrize("page_size", [512, 4096])
def test_files_that_differ_by_a_guid_share_what_they_declare(tmp_path: Path, page_size: int) -> None:
    cache, declarations, files = SqliteCache(), set[int](), list[SqliteFile]()
    for k, guid in enumerate(GUIDS):
        file, name = (
            SqliteFile.open(make(tmp_path / f"{k}.db", guid, page_size=page_size), cache),
            guid.replace("-", "_"),
        )
        assert dict(file.tables) == {f"t_{name}": ("id", "guid", "a")}
        assert (len(file.tables), list(file.tables), f"t_{name}" in file.tables) == (1, [f"t_{name}"], True)
        assert "t" not in file.tables
        assert f"t_{GUIDS[k - 1]}" not in file.tables
        assert file.schema.views == {f"v_{guid}"}
        assert list(file.schema.roots) == [f"t_{name}"]
        assert file.table(f"t_{name}", {"a": Type.INTEGER})["a"].tolist() == [7]
        files.append(file)
        declarations.add(id(file.schema.declarations))
    assert (len(cache.schemas.whole), len(declarations)) == (1, 2)  # those of the first file, and those of all others


def test_another_process_has_other_marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = SqliteCache()
    files = [SqliteFile.open(make(tmp_path / f"{k}.db", guid), cache) for k, guid in enumerate(GUIDS)]
    sent = pickle.dumps([(file.tables, file.schema) for file in files])
    named = [f"t_{guid.replace('-', '_')}" for guid in GUIDS]
    marks = ("<" + "0" * 34 + ">", "<" + "1" * 34 + ">")
    monkeypatch.setattr(schemas, "MARKS", marks)
    for (tables, schema), name in zip(pickle.loads(sent), named, strict=True):
        assert dict(tables) == {name: ("id", "guid", "a")}
        assert schema.layout(name) is not None


@pytest.mark.parametrize(
    "further",
    [
        (f'CREATE TABLE "u_{GUIDS[1].replace("-", "_")}"(b)',),  # the GUID of another file
        (f'CREATE TABLE u(b, "x_{GUIDS[0].replace("-", "_")}")',),  # in the name of a column
        (f"CREATE TABLE u(b TEXT DEFAULT '{GUIDS[2]}')",),
    ],
)
def test_a_guid_elsewhere_belongs_to_its_file(tmp_path: Path, further: tuple[str, ...]) -> None:
    cache = SqliteCache()
    for k, guid in enumerate(GUIDS):
        path = make(tmp_path / f"{k}.db", guid, *further)
        with_others, alone = SqliteFile.open(path, cache), SqliteFile.open(path)
        assert dict(with_others.tables) == dict(alone.tables)
        assert with_others.schema.roots == alone.schema.roots
    assert len(cache.schemas.whole) <= 1  # that of the file whose GUID it is


def test_a_known_schema_is_not_found_in_pages_that_differ(tmp_path: Path) -> None:
    """Of the same length: another name, another type, or no GUID where there was one."""
    cache = SqliteCache()
    original = make(tmp_path / "0.db", GUIDS[0])
    SqliteFile.open(original, cache).schema.layout("")
    SqliteFile.open(make(tmp_path / "1.db", GUIDS[1]), cache)
    for k, (old, new) in enumerate(
        [(b"guid TEXT", b"name TEXT"), (b"guid TEXT", b"guid REAL"), (b"-1111-", b"-111x-")]
    ):
        changed = tmp_path / f"changed{k}.db"
        changed.write_bytes(original.read_bytes().replace(old, new))
        with_others, alone = SqliteFile.open(changed, cache), SqliteFile.open(changed)
        assert dict(with_others.tables) == dict(alone.tables)
        assert {name: with_others.schema.layout(name) for name in alone.tables} == {
            name: alone.schema.layout(name) for name in alone.tables
        }


def test_reading_into_memory(tmp_path: Path) -> None:
    path = tmp_path / "some"
    path.write_bytes(b"abcdef")
    for size, read in ((4, b"abcd"), (6, b"abcdef"), (9, b"abcdef")):
        room = np.zeros(size, np.uint8)
        n, status = read_into(path, room.data)
        assert (n, room[:n].tobytes(), status.st_size) == (len(read), read, 6)
    with pytest.raises(OSError, match="Is a directory"):
        read_into(tmp_path, memoryview(bytearray(4)))
