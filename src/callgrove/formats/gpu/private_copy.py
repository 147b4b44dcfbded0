"""A database whose writer did not finish: a write-ahead log or a journal is left beside it.

To read it, SQLite has to work the log in or the journal back, for which it makes files beside the input, or refuses
where it may not. So the file and what lies beside it are copied into a folder of our own, and SQLite may do there what
it likes. A copy is there for as long as somebody has it; the latest one is kept, as a file that was recognised is read.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path

from callgrove.errors import InputError

__all__ = ["PrivateCopy", "is_left_behind", "private_copy"]

BESIDE = ("-wal", "-journal")
State = tuple[tuple[int, int] | None, ...]


def is_left_behind(path: Path) -> bool:
    """Is there a log, but nobody who has the database open? Who has keeps an index of the log beside it."""
    really = path.resolve()
    return _named(really, "-wal").exists() and not _named(really, "-shm").exists()


class PrivateCopy:
    """A copy in a folder of its own, which is gone with the last one who has it."""

    def __init__(self, path: Path, state: State) -> None:
        self.original, self.state = path, state
        folder = tempfile.mkdtemp(prefix="callgrove-")
        self._clean = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self.path = Path(folder) / "copy.db"
        shutil.copyfile(path, self.path)
        for suffix in BESIDE:
            if _named(path, suffix).exists():
                shutil.copyfile(_named(path, suffix), _named(self.path, suffix))


_latest: list[PrivateCopy] = []


def private_copy(path: Path) -> PrivateCopy:
    really = path.resolve()
    state = _state(really)
    for known in _latest:
        if known.original == really and known.state == state:
            return known
    _latest.clear()
    try:
        found = PrivateCopy(really, state)
    except OSError as error:
        raise InputError(
            f"{path}: its writer did not finish, and it cannot be copied to {tempfile.gettempdir()} to read what was "
            f"committed: {error.strerror or error}; TMPDIR may name another folder"
        ) from error
    if _state(really) != state:
        raise InputError(f"{path}: was changed while it was read; wait until its writer has finished")
    _latest.append(found)
    return found


def _named(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _state(path: Path) -> State:
    """Size and time of the last change of a database and of what lies beside it."""
    return tuple(_seen(_named(path, suffix)) for suffix in ("", *BESIDE))


def _seen(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns
