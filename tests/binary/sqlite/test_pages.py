"""Tables read from the pages of a file are what sqlite3 gives: all types, page sizes, overflow, damage."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import count, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.binary.files import ReadableBytes
from callgrove.binary.sqlite import database as sqlite_file
from callgrove.binary.sqlite import pages as sqlite_pages
from callgrove.binary.sqlite import records as pages_shapes
from callgrove.binary.sqlite import tables as pages_tables
from callgrove.binary.sqlite.cells import Type
from callgrove.binary.sqlite.database import SqliteCache, SqliteFile
from callgrove.binary.sqlite.numbers import PageError
from callgrove.binary.sqlite.pages import Pages
from callgrove.binary.sqlite.plan import FileFacts, Slow, plan, plan_table
from callgrove.binary.sqlite.records import Records
from callgrove.binary.sqlite.schema import KnownSchemas, Schema
from callgrove.binary.sqlite.tables import PageTables, TableLayout, few_rows, schema_leaves, schema_rows
from callgrove.errors import CallgroveError, CorruptFile
from tests.exhaustive import some_of, try_examples

BIG = 2**63


@pytest.fixture(autouse=True, scope="module")
def _small_tables_too() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite_file, "FEW_ROWS", 0)
        patch.setattr(pages_shapes, "MANY_ALIKE", 2)
        yield


NUMBERS = st.one_of(
    st.none(),
    st.integers(-BIG, BIG - 1),
    st.integers(-130, 130),
    st.sampled_from([0, 1, 127, 128, -129, 2**15, -(2**15), 2**23, 2**31, -(2**31) - 1, 2**47, -(2**47), 2**62]),
    st.floats(allow_nan=False),
)
TEXTS = st.one_of(st.text(max_size=40), st.binary(max_size=40), st.integers(0, 3000).map(lambda n: "ab" * n))
CELLS = st.one_of(NUMBERS, TEXTS)


@contextmanager
def connect(path: Path, page_size: int = 4096) -> Iterator[sqlite3.Connection]:
    """One transaction, and no wait for the disk."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        for pragma in (f"page_size={page_size}", "synchronous=OFF", "journal_mode=MEMORY"):
            connection.execute(f"PRAGMA {pragma}")
        connection.execute("BEGIN")
        yield connection
        if connection.in_transaction:
            connection.execute("COMMIT")


def facts(path: Path) -> FileFacts:
    raw = path.read_bytes()
    return FileFacts(raw[:100], len(raw))


def pages_of(path: Path, file: ReadableBytes | None = None) -> Pages:
    page_format = plan([facts(path)])
    assert not isinstance(page_format, Slow), page_format.reason
    return Pages(np.fromfile(path, np.uint8), page_format, file)


def layout_of(path: Path, pages: Pages, table: str, unlike: tuple[str, str] | None = None) -> TableLayout:
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as connection:
        rows = connection.execute("SELECT type, name, tbl_name, rootpage, sql FROM sqlite_master").fetchall()
        assert rows == schema_rows(pages, schema_leaves(pages))[0]
        layout = plan_table([Schema.of_rows(rows, lambda: connection, KnownSchemas()).layout(table)], unlike)
    if isinstance(layout, Slow):
        raise PageError(layout.reason)
    return layout


def by_pages(path: Path, table: str, names: Sequence[str], **options: Any) -> list[tuple[object, ...]]:
    """Rows as tuples of objects; raises what the reader of pages raises. A table of one page is also read row by row,
    and any table a second and a third time, from what was found at first; all of it from bytes in memory, and as from a
    large file, by windows."""
    pages, in_windows = pages_of(path), pages_of(path, ReadableBytes(path))
    layout = layout_of(path, pages, table, options.get("unlike"))
    tables, by_windows = PageTables(pages), PageTables(in_windows)
    for either in (tables, by_windows):
        list(either.rows_of(layout, []))
    out: list[list[tuple[object, ...]]] = []
    again = PageTables(pages, tables.found_tables), PageTables(in_windows, by_windows.found_tables)
    for reader in (tables, by_windows, PageTables(pages), PageTables(in_windows), *again):
        out.append([])
        for found in reader.rows_of(layout, names, **options):
            out[-1] += zip(*(found.objects(name) for name in names), strict=True)
    if pages.is_single(layout.root):
        out.append(few_rows(pages, layout, names, **options))
    assert all(same(out[0], other) for other in out[1:])
    return out[0]


def by_sql(path: Path, table: str, names: Sequence[str], where: str = "TRUE") -> list[tuple[object, ...]]:
    with connect(path) as connection:
        columns = ", ".join(f'"{name}"' for name in names)
        return connection.execute(f'SELECT {columns} FROM "{table}" WHERE {where} ORDER BY rowid').fetchall()


def same(left: Sequence[tuple[object, ...]], right: Sequence[tuple[object, ...]]) -> bool:
    """Also in type: 1 is not 1.0."""
    return [[(type(c), c) for c in row] for row in left] == [[(type(c), c) for c in row] for row in right]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pages")


@try_examples(60)
@given(
    rows=st.lists(st.tuples(CELLS, CELLS, NUMBERS, TEXTS), max_size=60),
    page_size=st.sampled_from([512, 1024, 4096, 65536]),
    removed=st.integers(0, 5),
    ids=st.lists(st.integers(-BIG, BIG - 1), max_size=60, unique=True),
)
def test_any_rows(
    folder: Path,
    rows: list[tuple[object, ...]],
    page_size: int,
    removed: int,
    ids: list[int],
) -> None:
    path = folder / "any.db"
    path.unlink(missing_ok=True)
    with connect(path, page_size) as connection:
        connection.execute("CREATE TABLE t(a, b TEXT, c REAL, id INTEGER PRIMARY KEY, d BLOB)")
        keys = [*ids, *([None] * len(rows))]
        for key, (a, b, c, d) in zip(keys, rows, strict=False):
            try:
                connection.execute("INSERT INTO t(id, a, b, c, d) VALUES (?, ?, ?, ?, ?)", (key, a, b, c, d))
            except sqlite3.Error:  # no row id is left after the largest
                continue
        connection.execute("DELETE FROM t WHERE rowid % 7 = ?", (removed,))
    names = ("a", "b", "c", "id", "d", "rowid")
    found = by_pages(path, "t", names)
    assert same(found, by_sql(path, "t", names))
    low, high = sorted((int(found[len(found) // 3][3]), 77)) if found else (0, 1)  # type: ignore[call-overload]
    assert same(
        by_pages(path, "t", names, between=(low, high)), by_sql(path, "t", names, f"id BETWEEN {low} AND {high}")
    )


@try_examples(40)
@given(rows=st.lists(st.tuples(CELLS, CELLS, CELLS), max_size=40))
def test_typed_columns_are_those_of_sqlite(folder: Path, rows: list[tuple[object, ...]]) -> None:
    path = folder / "typed.db"
    path.unlink(missing_ok=True)
    with connect(path) as connection:
        connection.execute("CREATE TABLE t(a, b INTEGER, c REAL)")
        connection.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
    for type_ in (Type.INTEGER, Type.REAL, Type.TEXT):
        columns = dict.fromkeys(("rowid", "c", "missing", "a", "b"), type_)
        one, other = SqliteFile.open(path), SqliteFile.open(path)
        fast, slow = list(one.chunks("t", columns)), list(by_sqlite(other, columns))
        assert len(fast) == len(slow) == (len(rows) > 0)
        for name in columns if rows else ():
            np.testing.assert_array_equal(fast[0][name], slow[0][name])
            assert fast[0][name].dtype == slow[0][name].dtype
        assert one.strange == other.strange
        assert one.count("t") == len(rows)


def by_sqlite(file: SqliteFile, columns: dict[str, Type]) -> Iterator[Any]:
    with file.reading():
        yield from file._sql_cells("t", columns, {"rowid", "a", "b", "c"}, None, None)


@pytest.mark.parametrize(
    "page_size", some_of([512, 1024, 2048, 8192, 16384, 32768, 65536], lambda size: size in (512, 65536))
)
def test_many_rows_in_trees_of_several_levels(tmp_path: Path, page_size: int) -> None:
    path = tmp_path / "many.db"
    with connect(path, page_size) as connection:
        connection.execute("CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, guid TEXT, a INTEGER, b INTEGER)")
        connection.execute("CREATE TABLE u(x)")
        for k in range(20_000):
            connection.execute(
                "INSERT INTO t VALUES (?, ?, ?, ?)", (k * k, "g" * 36, k << (k % 40), -k if k % 9 else None)
            )
            connection.execute("INSERT INTO u VALUES (?)", (k,))
        connection.execute("DELETE FROM t WHERE a % 5 = 2")
    for table, names in (("t", ("b", "id", "a")), ("u", ("x",))):
        assert same(by_pages(path, table, names), by_sql(path, table, names))
    bounds = (4000, 250_000_000)
    wanted = by_sql(path, "t", ("a",), "id BETWEEN 4000 AND 250000000")
    assert same(by_pages(path, "t", ("a",), between=bounds), wanted)
    assert SqliteFile.open(path).count("t") == len(by_sql(path, "t", ("id",)))


@pytest.mark.parametrize("reserved", [8, 32])
def test_reserved_bytes_at_the_end_of_pages(tmp_path: Path, reserved: int) -> None:
    """An empty database whose header keeps bytes for somebody else; SQLite then fills it accordingly."""
    path = tmp_path / "reserved.db"
    with connect(path, 512) as connection:
        connection.execute("PRAGMA user_version=1")
    raw = bytearray(path.read_bytes())
    raw[20], raw[105:107] = reserved, (512 - reserved).to_bytes(2, "big")
    path.write_bytes(raw)
    with connect(path) as connection:
        connection.execute("CREATE TABLE t(a, b)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", [("x" * k, k) for k in range(0, 2000, 7)])
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert path.read_bytes()[20] == reserved
    assert same(by_pages(path, "t", ("b", "a")), by_sql(path, "t", ("b", "a")))
    raw = bytearray(path.read_bytes())
    raw[20] = 200  # leaves 312 bytes: fewer than SQLite allows
    path.write_bytes(raw)
    assert plan([facts(path)]) == Slow("pages of 512 bytes")


def test_a_primary_key_that_is_not_the_row_id(tmp_path: Path) -> None:
    path = tmp_path / "keys.db"
    with connect(path) as connection:
        for table, declared in {
            "alias": "id integer PRIMARY KEY",
            "descending": "id INTEGER PRIMARY KEY DESC",
            "int": "id INT PRIMARY KEY",
            "serial": "id SERIAL PRIMARY KEY",
            "clause": "id INTEGER, PRIMARY KEY(id)",
            "two": "id INTEGER, x, PRIMARY KEY(id, x)",
        }.items():
            connection.execute(f'CREATE TABLE "{table}"({declared})')
            connection.executemany(f'INSERT INTO "{table}"(id) VALUES (?)', [(5,), (None,), (9,)])
            connection.execute("COMMIT")
            connection.execute("BEGIN")
            assert same(by_pages(path, table, ("id", "rowid")), by_sql(path, table, ("id", "rowid"))), table


def test_columns_that_were_added(tmp_path: Path) -> None:
    path = tmp_path / "added.db"
    with connect(path) as connection:
        connection.execute("CREATE TABLE t(a)")
        connection.execute("INSERT INTO t VALUES (1)")
        connection.execute("ALTER TABLE t ADD COLUMN b")
        connection.execute("ALTER TABLE t ADD COLUMN c INTEGER DEFAULT 7")
        connection.execute("INSERT INTO t VALUES (2, 3, 4)")
    assert by_pages(path, "t", ("a", "b")) == [(1, None), (2, 3)]
    with pytest.raises(PageError, match="before a column was added"):
        by_pages(path, "t", ("a", "c"))
    (cells,) = SqliteFile.open(path).chunks("t", {"c": Type.INTEGER})
    assert cells["c"].tolist() == [7, 4]


def test_generated_columns(tmp_path: Path) -> None:
    path = tmp_path / "generated.db"
    with connect(path) as connection:
        connection.execute("CREATE TABLE t(v GENERATED ALWAYS AS (a + 1), a, s AS (a * 2) STORED, z)")
        connection.executemany("INSERT INTO t(a, z) VALUES (?, ?)", [(1, 5), (2, 6)])
    assert by_pages(path, "t", ("a", "s", "z")) == [(1, 2, 5), (2, 4, 6)]
    with pytest.raises(KeyError):
        by_pages(path, "t", ("v",))  # is stored nowhere


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE t(a PRIMARY KEY, b) WITHOUT ROWID",
        "CREATE TABLE t(rowid TEXT, a, b)",
        "CREATE TABLE t(a, b, OID)",
    ],
)
def test_what_is_left_to_sqlite(tmp_path: Path, sql: str) -> None:
    path = tmp_path / "t.db"
    with connect(path) as connection:
        connection.execute(sql)
        connection.executemany("INSERT INTO t(a, b) VALUES (?, ?)", [(k, -k) for k in range(5)])
    with pytest.raises(PageError, match=r"belongs to no table|cannot be told"):
        by_pages(path, "t", ("a", "b"))


def test_other_encodings_are_left_to_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "wide.db"
    with connect(path) as connection:
        connection.execute("PRAGMA encoding='UTF-16le'")
        connection.execute("CREATE TABLE t(a)")
        connection.execute("INSERT INTO t VALUES ('é')")
    (cells,) = SqliteFile.open(path).chunks("t", {"a": Type.TEXT})
    assert cells["a"].tolist() == ["é"]
    assert plan([facts(path)]) == Slow("text that is not UTF-8")


def test_a_write_ahead_log_is_not_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "live.db"
    with connect(path) as connection:
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE t(a)")
        connection.execute("INSERT INTO t VALUES (1)")
        connection.execute("PRAGMA wal_checkpoint")
        connection.execute("INSERT INTO t VALUES (2)")
        (cells,) = SqliteFile.open(path).chunks("t", {"a": Type.INTEGER})
        assert cells["a"].tolist() == [1, 2]


def test_rows_without_a_certain_text(tmp_path: Path) -> None:
    path = tmp_path / "unlike.db"
    cells = ["{}", None, "{}x", "", b"{}", '{"a":1}', 5, "{}"]
    with connect(path) as connection:
        for declared in ("TEXT", "JSONB", "TEXT COLLATE NOCASE"):
            connection.execute("DROP TABLE IF EXISTS t")
            connection.execute(f"CREATE TABLE t(a {declared})")
            connection.executemany("INSERT INTO t VALUES (?)", [(cell,) for cell in cells])
            connection.execute("COMMIT")
            connection.execute("BEGIN")
            (found,) = SqliteFile.open(path).chunks("t", {"rowid": Type.INTEGER}, unlike=("a", "{}"))
            assert found["rowid"].tolist() == [2, 3, 4, 5, 6, 7], declared


def test_a_spoiled_page_in_the_middle(tmp_path: Path) -> None:
    """SQLite reads on where the reader of pages stops, and says what it does not like; nothing comes twice."""
    path = tmp_path / "spoiled.db"
    with connect(path, 512) as connection:
        connection.execute("CREATE TABLE t(a)")
        connection.executemany("INSERT INTO t VALUES (?)", [(k,) for k in range(200_000)])
    raw = bytearray(path.read_bytes())
    leaves = [at for at in range(512, len(raw), 512) if raw[at] == 0x0D]
    at = leaves[len(leaves) * 3 // 4]
    raw[at : at + 8] = b"\xff" * 8
    path.write_bytes(raw)
    seen: list[int] = []
    chunks = SqliteFile.open(path).chunks("t", {"a": Type.INTEGER})
    with pytest.raises(CallgroveError, match="malformed"):
        seen.extend(int(a) for cells in chunks for a in cells["a"])
    assert seen == list(range(len(seen)))
    assert len(seen) > 60_000


N_WIDE = 70  # columns, whose headers are longer than those that are parsed one by one


def wide(path: Path) -> Path:
    """Rows of 0, 1, ..., whose headers are 71 bytes: their size, and 8 or 9 or 1 for each column."""
    names = [f"c{k}" for k in range(N_WIDE)]
    with connect(path) as connection:
        connection.execute(f"CREATE TABLE t({', '.join(names)})")
        for row in range(3):
            connection.execute(f"INSERT INTO t VALUES ({', '.join('?' * N_WIDE)})", [row + k for k in range(N_WIDE)])
    return path


@pytest.mark.parametrize("code", [b"\x0a", b"\x0b", b"\xff" * 8 + b"\xfe", b"\xff" * 9], ids=bytes.hex)
def test_types_that_are_not_used_are_refused_in_long_records_too(tmp_path: Path, code: bytes) -> None:
    path = wide(tmp_path / "wide.db")
    assert by_pages(path, "t", ["c1", "c20"]) == [(1, 20), (2, 21), (3, 22)]
    raw = path.read_bytes()
    header = bytes([N_WIDE + 1, 8, 9, *[1] * (N_WIDE - 2)])  # of the row 0, 1, 2, ...
    spoiled = header[:10] + code + header[10 + len(code) :]
    assert raw.count(header) == 1
    path.write_bytes(raw.replace(header, spoiled))
    pages = pages_of(path)
    with pytest.raises(PageError, match="a serial type that is not used"):
        list(PageTables(pages).rows_of(layout_of(path, pages, "t"), ["c20"]))


def test_long_records_are_walked_through_again_for_later_columns_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    walks: list[int] = []
    walk = Records._walk

    def count(records: Records, n_columns: int) -> None:
        walks.append(n_columns)
        walk(records, n_columns)

    monkeypatch.setattr(Records, "_walk", count)
    path = wide(tmp_path / "wide.db")
    pages = pages_of(path)
    tables, layout = PageTables(pages), layout_of(path, pages, "t")
    for name in ("c5", "c5", "c0", "c6", "c5"):
        assert [found.objects(name) for found in tables.rows_of(layout, [name])] == [
            [int(name[1]) + k for k in range(3)]
        ]
    assert walks == [6, 7]


def flips(raw: bytes, seed: int) -> Iterator[bytes]:
    random = np.random.default_rng(seed)
    for _ in range(60):
        spoiled = bytearray(raw)
        for _ in range(int(random.integers(1, 6))):
            spoiled[int(random.integers(100, len(raw)))] = int(random.integers(0, 256))
        yield bytes(spoiled)


@pytest.mark.parametrize("seed", range(3))
def test_bytes_that_are_wrong_anywhere(tmp_path: Path, seed: int) -> None:
    """Either rows come out, or one error of ours."""
    path, spoiled = tmp_path / "sound.db", tmp_path / "spoiled.db"
    with connect(path, 512) as connection:
        connection.execute("CREATE TABLE t(a, b TEXT, c)")
        connection.executemany("INSERT INTO t VALUES (?, ?, ?)", [(k * k, "x" * (k % 700), -k) for k in range(120)])
    raw = path.read_bytes()
    n_read = 0
    for bad in flips(raw, seed):
        spoiled.write_bytes(bad)
        try:
            file = SqliteFile.open(spoiled)
            for cells in file.chunks("t", {"a": Type.INTEGER, "b": Type.TEXT, "c": Type.REAL}):
                n_read += len(cells["a"])
        except CallgroveError:
            continue
    assert n_read > 1000


def test_records_that_share_their_overflow_pages_are_bounded(tmp_path: Path) -> None:
    """Cells that all claim one long chain would make much of little."""
    path = tmp_path / "shared.db"
    with connect(path, 512) as connection:
        connection.execute("CREATE TABLE t(a)")
        connection.execute("INSERT INTO t VALUES (?)", ("z" * 20_000,))
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master").fetchone()
    pages = pages_of(path)
    ((_, row),) = pages.batches(pages.leaves(root))
    data, moved = pages.read_overflow(row, row.size)
    assert data.data[int(moved.start[0]) :].tobytes().count(b"z") == 20_000
    with pytest.raises(PageError, match="share"):
        pages.read_overflow(row.take(np.zeros(10_000, np.int64)), np.repeat(row.size, 10_000))


# -- windows -----------------------------------------------------------------------------------------------------------


def scattered(path: Path, n: int = 3000) -> Path:
    """Tables whose pages stand between each other's, in an order that is not that of rows, with records that go on in
    other pages."""
    with connect(path, 512) as connection:
        for name in ("t", "u"):
            connection.execute(f"CREATE TABLE {name}(id INTEGER PRIMARY KEY, a, b)")
        for k in range(n):
            row = (k * 7919 % n, k << (k % 40), "x" * (900 if k % 97 == 5 else k % 30))
            connection.execute(f"INSERT INTO {'tu'[k % 2]} VALUES (?, ?, ?)", row)
        connection.execute("DELETE FROM u WHERE id % 5 = 2")
        connection.executemany("INSERT INTO t VALUES (?, ?, ?)", ((n + k, -k, None) for k in range(n)))
    return path


@pytest.mark.parametrize("window", [1, 512, 4096, 1 << 20])
@pytest.mark.parametrize("most_for_one", [1, 3, 10_000])
@pytest.mark.parametrize("batch_rows", [7, 1 << 16])
def test_windows_of_any_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: int, most_for_one: int, batch_rows: int
) -> None:
    monkeypatch.setattr(sqlite_pages, "WINDOW_BYTES", window)
    monkeypatch.setattr(sqlite_pages, "MOST_READ_FOR_ONE", most_for_one)
    monkeypatch.setattr(sqlite_pages, "BATCH_ROWS", batch_rows)
    path = scattered(tmp_path / "scattered.db", 600)
    for table in "tu":
        assert same(by_pages(path, table, ("b", "a", "id")), by_sql(path, table, ("b", "a", "id")))
        some = by_pages(path, table, ("a", "b"), between=(40, 333))
        assert same(some, by_sql(path, table, ("a", "b"), "id BETWEEN 40 AND 333"))


def test_two_tables_of_a_large_file_are_read_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one reader has in memory is not given to another."""
    monkeypatch.setattr(sqlite_pages, "BATCH_ROWS", 50)
    path = scattered(tmp_path / "scattered.db")
    pages, names = pages_of(path, ReadableBytes(path)), ("id", "a", "b")
    layouts = {table: layout_of(path, pages, table) for table in "tu"}
    tables, rows = PageTables(pages), dict[str, list[tuple[object, ...]]](t=[], u=[])
    for _ in range(2):  # the second time from where rows were found
        for pair in zip_longest(*(tables.rows_of(layout, names) for layout in layouts.values())):
            for table, some in zip("tu", pair, strict=True):
                rows[table] += [] if some is None else zip(*(some.objects(name) for name in names), strict=True)
    for table in "tu":
        wanted = by_sql(path, table, names)
        assert same(rows[table], [*wanted, *wanted])


def test_pages_of_a_large_file_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_file, "SMALL_FILE", 0)
    path = large(tmp_path / "t.db", 50_000, 0)
    file = SqliteFile.open(path)
    n_read: list[int] = []
    read_into = ReadableBytes.read_into

    def note(file: ReadableBytes, memory: Any, offset: int) -> bool:
        n_read.append(len(memory))
        return read_into(file, memory, offset)

    monkeypatch.setattr(ReadableBytes, "read_into", note)
    assert read(file) == list(range(50_000))
    assert 0.9 * path.stat().st_size < sum(n_read) <= path.stat().st_size


def test_without_reading_into_memory_pages_are_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_file, "SMALL_FILE", 0)
    monkeypatch.setattr(ReadableBytes, "can_read", False)
    monkeypatch.setattr(ReadableBytes, "read_into", lambda *_: pytest.fail("was read"))
    assert read(SqliteFile.open(large(tmp_path / "t.db", 5000, 3))) == list(range(3, 5003))


def test_sqlite_tries_where_pages_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_file, "SMALL_FILE", 0)
    monkeypatch.setattr(sqlite_pages, "BATCH_ROWS", 1000)
    n_calls, preadv = count(), os.preadv

    def fail_at_times(*asked: Any) -> int:
        if next(n_calls) == 3:
            raise OSError(errno.EIO, "Input/output error")
        return preadv(*asked)

    monkeypatch.setattr(os, "preadv", fail_at_times)
    assert read(SqliteFile.open(large(tmp_path / "t.db", 9000, 3))) == list(range(3, 9003))
    assert next(n_calls) == 4  # and no page is read like this any more


def test_a_large_file_that_becomes_shorter_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite reads what is left, and says what is missing."""
    monkeypatch.setattr(sqlite_file, "SMALL_FILE", 0)
    monkeypatch.setattr(sqlite_pages, "WINDOW_BYTES", 1 << 16)
    path = large(tmp_path / "t.db", 20_000, 0)
    file = SqliteFile.open(path)
    seen: list[int] = []
    with pytest.raises(CorruptFile, match=r"t\.db"), file.reading():  # noqa: PT012 - cut while it is read
        for cells in file.chunks("t", {"a": Type.INTEGER}):
            seen += cells["a"].tolist()
            os.truncate(path, 1 << 19)
    assert seen == list(range(len(seen)))
    assert 0 < len(seen) < 20_000


def test_texts_that_repeat(tmp_path: Path) -> None:
    path = tmp_path / "texts.db"
    texts = ["same"] * 40 + ["sama"] * 30 + ["same", "sam\u00e9", "s" * 64, "s" * 65, ""] + ["x" * 64] * 9
    with connect(path) as connection:
        connection.execute("CREATE TABLE t(a, b)")
        for k, text in enumerate(texts):
            connection.execute("INSERT INTO t VALUES (?, ?)", (text, text.encode() if k % 20 == 3 else text))
    assert same(by_pages(path, "t", ("a", "b")), by_sql(path, "t", ("a", "b")))


def large(path: Path, n: int, value: int) -> Path:
    path.unlink(missing_ok=True)
    with connect(path) as connection:
        connection.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, a, filling)")
        connection.executemany("INSERT INTO t VALUES (?, ?, ?)", ((k, value + k, "f" * 60) for k in range(n)))
    return path


def read(file: SqliteFile) -> list[int]:
    found: list[int] = file.table("t", {"a": Type.INTEGER})["a"].tolist()
    return found


@pytest.mark.parametrize("kept", [0, 1 << 12, 1 << 20])
def test_where_rows_stand_is_known_for_who_reads_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    monkeypatch.setattr(sqlite_file, "SMALL_FILE", 0)
    monkeypatch.setattr(pages_tables, "KEPT_BYTES", kept)
    monkeypatch.setattr("callgrove.binary.sqlite.pages.BATCH_ROWS", 1000)
    monkeypatch.setattr(pages_tables, "LATEST_BYTES", 0)
    cache = SqliteCache()
    one, two = (SqliteFile.open(large(tmp_path / f"{k}.db", 5000, k), cache) for k in range(2))
    for _ in range(2):
        assert read(one) == list(range(5000))
        assert bool(one._found_tables) == (kept == 1 << 20)  # 2 bytes for each row
        assert one.count("t") == 5000
        assert one.distinct("t", "a") == {(k,) for k in range(5000)}
        some = [cells["a"] for cells in one.chunks("t", {"a": Type.INTEGER}, between=(998, 2001))]
        assert np.concatenate(some).tolist() == list(range(998, 2002))
    assert read(two) == list(range(1, 5001))
    assert bool(one._found_tables) == (kept == 1 << 20)  # there is room for both
    assert read(one) == list(range(5000))
    large(one.path, 4000, 7)
    assert read(one) == list(range(7, 4007))


def test_few_pages_are_looked_at_before_their_rows_are_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mapped page that is looked at too early is given back and fetched again."""
    monkeypatch.setattr("callgrove.binary.sqlite.pages.BATCH_ROWS", 1000)
    file = SqliteFile.open(large(tmp_path / "t.db", 20_000, 0))
    looked_at: list[int] = []
    header = Pages.header

    def note(pages: Pages, numbers: Any) -> Any:
        looked_at.extend(numbers.tolist())
        return header(pages, numbers)

    monkeypatch.setattr(Pages, "header", note)
    assert read(file) == list(range(20_000))
    n_pages = len(set(looked_at))
    assert n_pages > 40
    assert len(looked_at) < 3 * n_pages  # all of them by the first batch, and an eighth too many by the others


@pytest.mark.parametrize("page_size", [512, 4096])
def test_schemas_that_differ_by_a_guid(tmp_path: Path, page_size: int) -> None:
    """In names, in defaults, in comments, in what was deleted; with equal and with other columns."""
    guids = ["0000000a-1111-2222-3333-44444444444" + str(k) for k in range(6)]
    for k, guid in enumerate(guids):
        path, name = tmp_path / f"{k}.db", guid.replace("-", "_")
        with connect(path, page_size) as connection:
            for base in ("first", "second"):
                columns = f'id INTEGER PRIMARY KEY, guid TEXT DEFAULT "{guid}", a /* {guid} {name} */'
                connection.execute(f'CREATE TABLE "{base}_{name}"({columns}, b{k % 2})')
            connection.execute(f'CREATE TABLE "gone_{guids[0].replace("-", "_")}"(x)')
            if k > 2:
                connection.execute(f'DROP TABLE "gone_{guids[0].replace("-", "_")}"')
            connection.execute(f'CREATE INDEX "i_{name}" ON "first_{name}"(a)')
    known = KnownSchemas()
    for _ in range(2):
        for k in range(len(guids)):
            path = tmp_path / f"{k}.db"
            pages = pages_of(path)
            with connect(path) as connection:
                wanted = connection.execute("SELECT type, name, tbl_name, rootpage, sql FROM sqlite_master").fetchall()
                assert schema_rows(pages, schema_leaves(pages))[0] == wanted
                own = Schema.of_rows(wanted, lambda: connection, known)
            found = Schema.of_pages(pages, pytest.fail, known)  # texts are known by now
            assert list(found.tables.items()) == list(own.tables.items())
            assert found.roots == own.roots
            assert all(found.layout(name) == own.layout(name) for name in own.tables)


def test_columns_that_are_called_like_a_guid(tmp_path: Path) -> None:
    """Then files that differ by a GUID differ in more than the names of tables."""
    for k in range(2):
        guid = f"0000000b_1111_2222_3333_44444444444{k}"
        path = tmp_path / f"{k}.db"
        execute = f'CREATE TABLE "t_{guid}"(a, "x_{guid}")'
        with connect(path) as connection:
            connection.execute(execute)
        assert SqliteFile.open(path).tables == {f"t_{guid}": ("a", f"x_{guid}")}
