"""SQLite's own way to a database that somebody else wrote: never to change it, and its errors as ours."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from urllib.parse import quote

from callgrove.errors import CorruptFile, InputError
from callgrove.formats.gpu.private_copy import PrivateCopy, is_left_behind, private_copy

__all__ = ["SqliteErrors", "connect"]

OPENING = "opening"
SECONDS_TO_WAIT = 0.2  # for the lock of a writer
NEEDS_WRITING = (  # SQLite's names for what a reader that may not write cannot do
    *("SQLITE_READONLY_ROLLBACK", "SQLITE_READONLY_RECOVERY", "SQLITE_READONLY_CANTINIT", "SQLITE_READONLY_CANTLOCK"),
    *("SQLITE_READONLY_DIRECTORY", "SQLITE_READONLY", "SQLITE_CANTOPEN"),
)


def connect(path: Path, live: bool) -> tuple[sqlite3.Connection, PrivateCopy | None]:
    """A connection, and the copy that it is to, where the file cannot be read without changing what lies beside it.
    `live`: another process may still be writing."""
    with SqliteErrors(path, OPENING):
        if not live:
            return _connected(path, "ro&immutable=1"), None
        if not is_left_behind(path):
            try:
                return _connected(path, "ro"), None
            except sqlite3.OperationalError as error:
                if error.sqlite_errorname not in NEEDS_WRITING:
                    raise
        copy = private_copy(path)
        return _connected(copy.path, "rw"), copy


def _connected(path: Path, mode: str) -> sqlite3.Connection:
    """All that is read is one snapshot."""
    uri = f"file:{quote(bytes(path.resolve()))}?mode={mode}"
    connection = sqlite3.connect(uri, SECONDS_TO_WAIT, uri=True, isolation_level=None, check_same_thread=False)
    try:
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        for pragma in ("trusted_schema=OFF", "query_only=ON", "cell_size_check=ON"):
            connection.execute(f"PRAGMA {pragma}")
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


class SqliteErrors:
    """SQLite's errors inside become ours: they name the file and the table."""

    def __init__(self, path: Path, section: str) -> None:
        self._path, self._section = path, section

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
            raise InputError(
                f"{self._path}: {self._section}: another process has locked it; wait until it has finished"
            ) from error
        if isinstance(error, MemoryError) and self._section == OPENING:  # the tables of no sound file need so much
            raise CorruptFile(
                self._path, self._section, expected="a readable database", found="definitions of tables without an end"
            ) from error
        if isinstance(error, sqlite3.Error | UnicodeDecodeError):  # the second: of SQLite's own message
            said = f"SQLite says: {error}" if isinstance(error, sqlite3.Error) else "names that are no text"
            raise CorruptFile(
                self._path,
                self._section,
                expected="a readable database",
                found=said,
                remedy=f"'sqlite3 {self._path.name} .recover' may save a part of it",
            ) from error
