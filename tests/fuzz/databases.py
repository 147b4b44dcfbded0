"""Damage to SQLite and Parquet files: to pages, headers, lists of free pages, footers; and to their rows."""

from __future__ import annotations

import io
import random
import sqlite3
from contextlib import closing
from typing import Any

from tests.fuzz.texts import LIES, break_bytes, lie_at

__all__ = ["break_parquet", "break_sqlite"]


# -- SQLite: bytes -----------------------------------------------------------------------------------------------------

HEADER = (
    (16, 2),
    (18, 1),
    (19, 1),
    (20, 1),
    (21, 1),
    (24, 4),
    (28, 4),
    (32, 4),
    (36, 4),
    (40, 4),
    (44, 4),
    (52, 4),
    (56, 4),
    (64, 4),
)
PAGE_FIELDS = ((0, 1), (1, 2), (3, 2), (5, 2), (7, 1), (8, 4))


def break_sqlite(data: bytes, rng: random.Random) -> bytes:
    """Return a database with a damaged header, page, cell or list of free pages, or with rows of another kind."""
    if rng.random() < 0.5:
        return _break_rows(data, rng)
    if len(data) < 1024 or rng.random() < 0.1:
        return break_bytes(data, rng)
    size = int.from_bytes(data[16:18], "big") or 4096
    size = 65536 if size == 1 else size
    what = rng.randrange(6)
    if what == 0:
        return lie_at(data, *rng.choice(HEADER), rng)
    if what == 1:
        return _free_pages(data, size, rng)
    if what == 2:
        return _swap_pages(data, size, rng)
    if what == 3:
        return data[: rng.randrange(len(data) // size + 1) * size]
    return _break_page(data, size, rng)


def _break_page(data: bytes, size: int, rng: random.Random) -> bytes:
    """Return the file with a wrong field of a page, pointer to a cell, or byte at the beginning of a cell."""
    begin = rng.randrange(max(1, len(data) // size)) * size
    top = begin + (100 if begin == 0 else 0)
    what = rng.randrange(3)
    if what == 0:
        offset, width = rng.choice(PAGE_FIELDS)
        return lie_at(data, min(top + offset, len(data) - width), width, rng)
    is_inner = data[top : top + 1] in (b"\x02", b"\x05")
    n_cells = int.from_bytes(data[top + 3 : top + 5], "big")
    pointer = top + (12 if is_inner else 8) + 2 * rng.randrange(max(1, min(n_cells, size // 2)))
    if what == 1:
        return lie_at(data, min(pointer, len(data) - 2), 2, rng)
    cell = begin + int.from_bytes(data[pointer : pointer + 2], "big") + rng.randrange(8)
    return lie_at(data, min(cell, len(data) - 1), 1, rng)


def _free_pages(data: bytes, size: int, rng: random.Random) -> bytes:
    """Return the file with a list of free pages that names pages in use, itself, or none."""
    n_pages = max(1, len(data) // size)
    trunk = rng.choice((1, rng.randrange(n_pages) + 1, n_pages, n_pages + 1, 2**32 - 1))
    broken = bytearray(data)
    broken[32:36] = trunk.to_bytes(4, "big")
    broken[36:40] = rng.choice((0, 1, n_pages, 2**32 - 1)).to_bytes(4, "big")
    if 1 < trunk <= n_pages:
        at = (trunk - 1) * size
        broken[at : at + 8] = rng.choice((trunk, 0, 2**32 - 1)).to_bytes(4, "big") + rng.choice((0, 1, 2**31)).to_bytes(
            4, "big"
        )
    return bytes(broken)


def _swap_pages(data: bytes, size: int, rng: random.Random) -> bytes:
    n_pages = max(1, len(data) // size)  # a page may be larger than the file, by what its header says
    one, other = (rng.randrange(n_pages) * size for _ in range(2))
    broken = bytearray(data)
    broken[one : one + size] = data[other : other + size]
    if rng.random() < 0.5:
        broken[other : other + size] = data[one : one + size]
    return bytes(broken)


# -- SQLite: rows ------------------------------------------------------------------------------------------------------

WRONG_CELLS: tuple[Any, ...] = (
    None,
    0,
    -1,
    1,
    2**31,
    2**32,
    2**53 + 1,
    2**63 - 1,
    -(2**63),
    0.5,
    1e308,
    -1e308,
    float("inf"),
    "",
    "x",
    "-1",
    "1e999",
    "\0",
    "a" * 70_000,
    b"",
    b"\xff\xfe",
    b"\0" * 9,
    "{",
    "[]",
    '{"a": ' * 60,
    "2024-01-01",
)


def _break_rows(data: bytes, rng: random.Random) -> bytes:
    """Return the database with another value, row, column or table, as SQLite itself writes it."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        try:
            database.deserialize(data)
            database.execute("PRAGMA foreign_keys=OFF")
            _edit(database, rng)
            return database.serialize()
        except (sqlite3.Error, MemoryError, OverflowError, UnicodeError):
            return break_bytes(data, rng)


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _edit(database: sqlite3.Connection, rng: random.Random) -> None:
    whole = "type = 'table' AND typeof(name) = 'text'"  # an earlier damage may have broken names, or taken all tables
    tables = [name for (name,) in database.execute(f"SELECT name FROM sqlite_master WHERE {whole} ORDER BY name")]
    if not tables:
        raise sqlite3.DatabaseError("no tables")
    table = rng.choice(tables)
    if rng.random() < 0.75:  # what has rows is worth more than what has none
        table = rng.choice(
            [name for name in tables if database.execute(f"SELECT 1 FROM {_quote(name)} LIMIT 1").fetchone()] or tables
        )
    columns = [row[1] for row in database.execute(f"PRAGMA table_info({_quote(table)})")]
    column, here = rng.choice(columns), _quote(table)
    what = rng.randrange(14)
    if what == 0:
        database.execute(f"DROP TABLE {here}")
    elif what == 1:
        database.execute(f"ALTER TABLE {here} RENAME COLUMN {_quote(column)} TO {rng.choice(('x', 'id2', 'name2'))}")
    elif what == 2:
        database.execute(f"ALTER TABLE {here} DROP COLUMN {_quote(column)}")
    elif what == 3:
        database.execute(f"DELETE FROM {here} WHERE rowid % {rng.choice((2, 3, 7))} = 0")
    elif what == 4:
        database.execute(f"INSERT OR IGNORE INTO {here} SELECT * FROM {here} LIMIT 3")
    elif what == 5:
        _replace_by_view(database, table)
    elif what == 6:
        database.execute(f"UPDATE {here} SET {_quote(column)} = ?", (_cell(rng),))
    else:
        n_rows = database.execute(f"SELECT count(*) FROM {here}").fetchone()[0]
        chosen = f"SELECT rowid FROM {here} LIMIT 1 OFFSET {rng.randrange(n_rows) if n_rows else 0}"
        database.execute(f"UPDATE {here} SET {_quote(column)} = ? WHERE rowid = ({chosen})", (_cell(rng),))


def _cell(rng: random.Random) -> Any:
    return rng.choice((*WRONG_CELLS, *(lie for lie in LIES if lie < 2**63)))


def _replace_by_view(database: sqlite3.Connection, table: str) -> None:
    """Put a view that does not end in the place of a table: nothing in a file may be run."""
    database.execute(f"DROP TABLE {_quote(table)}")
    endless = "WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n) SELECT * FROM n"
    database.execute(f"CREATE VIEW {_quote(table)} AS {endless}")


# -- Parquet -----------------------------------------------------------------------------------------------------------


def break_parquet(data: bytes, rng: random.Random) -> bytes:
    """Return a table with a damaged footer, or with other values, columns or rows."""
    if len(data) < 16 or rng.random() < 0.1:
        return break_bytes(data, rng)
    length = min(int.from_bytes(data[-8:-4], "little"), len(data) - 12)
    what = rng.randrange(5)
    if what == 0:
        return lie_at(data, len(data) - 8, 4, rng)
    if what == 1:
        footer = len(data) - 8 - length
        broken = break_bytes(data[footer:-8], rng)
        size = len(broken) if rng.random() < 0.7 else length
        return data[:footer] + broken + size.to_bytes(4, "little") + data[-4:]
    return _break_columns(data, rng)


def _break_columns(data: bytes, rng: random.Random) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.ParquetFile(io.BytesIO(data), memory_map=False).read(use_threads=False)
        if not table.num_columns:
            return break_bytes(data, rng)
        changed = _change_column(table, rng.randrange(table.num_columns), rng)
        out = io.BytesIO()
        pq.write_table(changed, out)
    except (pa.ArrowException, OSError, ValueError, OverflowError, TypeError):
        return break_bytes(data, rng)
    return out.getvalue()


def _change_column(table: Any, at: int, rng: random.Random) -> Any:
    import pyarrow as pa

    field, values = table.schema.field(at), table.column(at).to_pylist()
    what = rng.randrange(8)
    if what == 0:
        return table.remove_column(at)
    if what == 1:
        return table.rename_columns([f"{name}x" if k == at else name for k, name in enumerate(table.column_names)])
    if what == 2:
        return table.slice(0, rng.randrange(table.num_rows + 1))
    if what == 3:
        return pa.concat_tables([table, table.slice(0, rng.choice((1, 3, table.num_rows)))])
    if what == 4:
        return table.set_column(at, field.name, pa.array([str(value) for value in values]))
    if what == 5:
        return table.set_column(at, field.name, pa.nulls(table.num_rows, field.type))
    row = rng.randrange(len(values)) if values else 0
    if values:
        values[row] = rng.choice(
            (None, 0, -1, 2**31 - 1, 2**31, 2**63 - 1, -(2**63), 1e308, float("nan"), "", "x", b"\xff", [], True)
        )
    return table.set_column(at, field, pa.array(values, field.type, from_pandas=False))
