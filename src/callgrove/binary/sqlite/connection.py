"""SQLite's own way to a database: never changing it, with its errors as ours, and from a private copy where a writer
did not finish.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from callgrove.errors import CorruptFile, InputError

__all__ = ["PrivateCopies", "PrivateCopy", "SqliteErrors", "connect", "is_left_behind"]


# A database whose writer did not finish: a write-ahead log or a journal is left beside it.
#
# To read it, SQLite has to work the log in or the journal back, for which it makes files beside the input, or refuses
# where it may not. So the file and what lies beside it are copied into a folder of our own, and SQLite may do there
# what it likes. A copy is there for as long as somebody has it; the latest one is kept, as a file that was recognised
# is read.


BESIDE = ("-wal", "-journal")
State = tuple[tuple[int, int] | None, ...]


LOCKS = Path("/proc/locks")


def is_left_behind(path: Path) -> bool:
    """Return whether there is a log, but no process that has the database open, as far as the system tells. Such a
    process keeps an index of the log beside it (-shm) and a lock on that; where it was killed, the index stays, and
    opening the database in place would change it."""
    really = path.resolve()
    return _with_suffix(really, "-wal").exists() and not _is_locked(_with_suffix(really, "-shm"))


def _is_locked(path: Path) -> bool:
    """Return whether a process has a lock on a file. The system's list is asked: a lock that we tried by ourselves
    would, when given back, take away those that this very process has on the file (POSIX)."""
    try:
        about = path.stat()
        locks = LOCKS.read_text()
    except OSError:  # no such file, or a system without such a list
        return False
    place = f"{os.major(about.st_dev):02x}:{os.minor(about.st_dev):02x}:{about.st_ino}"
    return any(place in line.split() for line in locks.splitlines())


class PrivateCopy:
    """A copy in a folder of its own, which is removed with the last reference to it."""

    def __init__(self, path: Path, state: State) -> None:
        self.original, self.state = path, state
        folder = tempfile.mkdtemp(prefix="callgrove-")
        self._clean = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self.path = Path(folder) / "copy.db"
        shutil.copyfile(path, self.path)
        for suffix in BESIDE:
            if _with_suffix(path, suffix).exists():
                shutil.copyfile(_with_suffix(path, suffix), _with_suffix(self.path, suffix))


class PrivateCopies:
    """Copies of databases, of which the latest one is kept."""

    def __init__(self) -> None:
        self._latest: PrivateCopy | None = None

    def copy(self, path: Path) -> PrivateCopy:
        """Return a copy of a database as it is now."""
        really = path.resolve()
        state = _state(really)
        known = self._latest
        if known is not None and known.original == really and known.state == state:
            return known
        self._latest = known = None
        try:
            copy = PrivateCopy(really, state)
        except OSError as error:
            raise InputError(
                f"{path}: its writer did not finish, and it cannot be copied to {tempfile.gettempdir()} to read what "
                f"was committed: {error.strerror or error}; TMPDIR may name another folder"
            ) from error
        if _state(really) != state:
            raise InputError(f"{path}: was changed while it was read; wait until its writer has finished")
        self._latest = copy
        return copy


def _with_suffix(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _state(path: Path) -> State:
    """Return size and time of the last change of a database and of the files beside it."""
    return tuple(_file_state(_with_suffix(path, suffix)) for suffix in ("", *BESIDE))


def _file_state(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


OPENING = "opening"
SECONDS_TO_WAIT = 0.2  # for the lock of a writer
NEEDS_WRITING = (  # SQLite's names for what a reader that may not write cannot do
    *("SQLITE_READONLY_ROLLBACK", "SQLITE_READONLY_RECOVERY", "SQLITE_READONLY_CANTINIT", "SQLITE_READONLY_CANTLOCK"),
    *("SQLITE_READONLY_DIRECTORY", "SQLITE_READONLY", "SQLITE_CANTOPEN"),
)


def connect(path: Path, live: bool, copies: PrivateCopies) -> tuple[sqlite3.Connection, PrivateCopy | None]:
    """Return a connection, and the private copy that it reads, where the file cannot be read without changing what lies
    beside it. `live`: another process may still be writing."""
    with SqliteErrors(path, OPENING):
        if not live:
            return _connect(path, "ro&immutable=1"), None
        _refuse_special(path)
        if not is_left_behind(path):
            try:
                return _connect(path, "ro"), None
            except sqlite3.OperationalError as error:
                if error.sqlite_errorname not in NEEDS_WRITING:
                    raise
        copy = copies.copy(path)
        return _connect(copy.path, "rw"), copy


def _refuse_special(path: Path) -> None:
    """Raise an error where a log or a journal is not a regular file: SQLite would wait for the writer of a pipe."""
    for beside in (_with_suffix(path.resolve(), suffix) for suffix in BESIDE):
        if beside.exists() and not beside.is_file():
            raise InputError(f"{beside}: cannot be read: not a regular file; move it away to read the database")


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    """Return a connection on which everything is read from one snapshot."""
    uri = f"file:{quote(bytes(path.resolve()))}?mode={mode}"
    connection = sqlite3.connect(uri, timeout=SECONDS_TO_WAIT, uri=True, isolation_level=None, check_same_thread=False)
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
    """A context that turns SQLite's errors into ours, which name the file and the table. `find_damage` is asked whether
    it is the file that needs more memory than there is."""

    def __init__(self, path: Path, section: str, find_damage: Callable[[], str] | None = None) -> None:
        self._path, self._section, self._find_damage = path, section, find_damage

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
        damage = self._find_damage() if type(error) is MemoryError and self._find_damage is not None else ""
        if damage:  # SQLite allocates what a row announces, and NumPy has an error of its own
            raise CorruptFile(
                self._path, self._section, expected="rows that fit into memory", found=f"{damage!r}, says SQLite"
            ) from error
        if isinstance(error, sqlite3.Error | UnicodeDecodeError):  # the second: of SQLite's own message
            said = f"SQLite says: {error}" if isinstance(error, sqlite3.Error) else "names that are not text"
            raise CorruptFile(
                self._path,
                self._section,
                expected="a readable database",
                found=said,
                remedy=f"'sqlite3 {self._path.name} .recover' may save a part of it",
            ) from error
