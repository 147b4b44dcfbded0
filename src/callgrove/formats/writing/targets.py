"""Targets of writers: written beside their place, renamed into it when complete; stale ones of killed processes are
removed.

    target = PendingFolder(path, overwrite, kind)         or PendingFile(path, overwrite), PendingFiles(path, ...)
    with target.or_nothing():                              around everything that writes
        ... target.place / "meta.db" ...
        target.complete()                                  what was there before goes only now

A crash, a full disk or an interruption leaves what was there before, or nothing. A process that is killed leaves what
was there before or the new target, and perhaps something hidden, until the same target is written again (`recover`).
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import re
import secrets
import shutil
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import NoReturn

from callgrove.binary.sqlite.empty_tables import write_empty_tables
from callgrove.errors import CallgroveError, InputError, Parameter, UsageError

__all__ = [
    "FolderKind",
    "Pending",
    "PendingFile",
    "PendingFiles",
    "PendingFolder",
    "PendingTarget",
    "PendingTogether",
    "SqliteTarget",
    "make_hidden_place",
    "recover",
    "refuse_existing",
    "refuse_folder",
    "refuse_stdout",
    "remove",
]


# -- hidden places beside targets --------------------------------------------------------------------------------------
# Targets are written there. The names tell which of them killed processes left behind:
#
#     .NAME.WHERE-PID-RANDOM.partial      also .NAME.WHERE-PID-RANDOM.3.partial for parts of it
#     .NAME.WHERE-PID-RANDOM.old          what was there before, for the moment of a rename
#
# A process that is killed on the spot (SIGKILL, a node without memory) cannot take back what it began. Whoever writes
# the same target next does it, if there is no doubt: WHERE is a number for this boot of this machine and its space of
# process ids (those of containers are others), the process is gone, and the file is ours.
#
# A folder is replaced by exchanging two names in one step, where the system can (renameat2 of Linux, renamex_np of
# macOS; not on every file system). Elsewhere it takes two renames, and a process that is killed between them leaves
# both hidden. What was set aside shows that the new one was complete: whoever comes next finishes the replacement.


LONGEST = 200  # bytes of a name that is shown in the hidden one: file systems allow 255 in all
UNKNOWN = "00000000"
PARTIAL, OLD = ".partial", ".old"
LIST_OF_NEW = ".new"  # in a folder of files that were set aside: the names of those that replace them


def make_hidden_place(folder: Path, name: str) -> Path:
    """Return a new name in the folder for something in the making."""
    return folder / f".{_shorten(name)}.{_where()}-{os.getpid()}-{secrets.token_hex(4)}{PARTIAL}"


def recover(folder: Path, name: str, finish: Callable[[Path, Path], None] | None = None) -> None:
    """Finish what a process that no longer exists began to replace, and remove what else such processes left beside a
    target. What cannot be moved or removed stays. `finish` is given the place of the new one and what was set aside."""
    if _where() == UNKNOWN:
        return
    with suppress(OSError):  # a folder that may be written to but not be read
        left = list(_leftovers(folder, name))
        for old in (place for place in left if place.suffix == OLD):
            (finish or partial(_finish, folder / name))(old.with_suffix(PARTIAL), old)
        for place in left:
            remove(place)


def _finish(target: Path, new: Path, old: Path) -> None:
    """Move a complete target into place, or what was there before where there is none."""
    if not target.is_symlink() and not target.exists():
        (new if new.exists() else old).rename(target)


def _leftovers(folder: Path, name: str) -> Iterator[Path]:
    hidden = rf"\.{re.escape(_shorten(name))}\.{_where()}-([1-9]\d{{0,9}})-[0-9a-f]{{8}}"
    pattern = re.compile(rf"{hidden}((\.\d+)?{re.escape(PARTIAL)}|{re.escape(OLD)})")
    for match in filter(None, map(pattern.fullmatch, sorted(entry.name for entry in os.scandir(folder)))):
        if not _is_alive(int(match[1])) and _is_ours(folder / match[0]):
            yield folder / match[0]


def _is_alive(pid: int) -> bool:
    """Return whether a process exists; in doubt it does."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # somebody else's
        return True
    return True


def _is_ours(place: Path) -> bool:
    try:
        return place.lstat().st_uid == os.geteuid()
    except OSError:  # gone meanwhile
        return False


EXCHANGE = 2  # RENAME_EXCHANGE of Linux, RENAME_SWAP of macOS
AT_FDCWD = -100
NO_EXCHANGE = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EPERM)


def exchange(one: Path, other: Path) -> bool:
    """Exchange what two names stand for, in one step; return False where the system or the file system cannot."""
    system = ctypes.CDLL(None, use_errno=True)
    if hasattr(system, "renameat2"):
        failed = system.renameat2(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), EXCHANGE)
    elif hasattr(system, "renamex_np"):
        failed = system.renamex_np(os.fsencode(one), os.fsencode(other), EXCHANGE)
    else:
        return False
    if failed and (number := ctypes.get_errno()) not in NO_EXCHANGE:
        raise OSError(number, os.strerror(number), str(one), None, str(other))
    return not failed


def remove(path: Path) -> None:
    """Remove a file or a folder, as far as possible; of a link the link."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def _shorten(name: str) -> str:
    """Return the name, or what stands for one that would become too long."""
    encoded = os.fsencode(name)
    return name if len(encoded) <= LONGEST else hashlib.blake2b(encoded, digest_size=16).hexdigest()


@cache
def _where() -> str:
    """Return whose process ids these are; unknown where the system does not tell it."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
        space = os.readlink("/proc/self/ns/pid")  # noqa: PTH115 - no path: a text like pid:[4026531836]
    except OSError:
        return UNKNOWN
    return hashlib.blake2b(f"{boot}{space}".encode(), digest_size=4).hexdigest()


# -- targets -----------------------------------------------------------------------------------------------------------


class Pending(ABC):
    """Something in the making that becomes `target`."""

    def __init__(self, target: Path) -> None:
        self.target = target

    @contextmanager
    def or_nothing(self, before: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Remove everything that was written where anything fails inside; `before` closes what is open."""
        try:
            yield
        except OSError as error:
            self._discard(before)
            self._refuse(error)
        except InputError as error:
            self._discard(before)
            self._refuse_unreadable(error)
        except BaseException:
            self._discard(before)
            raise

    def _discard(self, before: Callable[[], None]) -> None:
        before()
        self.discard()

    def _refuse(self, error: OSError) -> NoReturn:
        reason = error.strerror or str(error)
        raise CallgroveError(f"{self.target}: cannot be written: {reason}{self._what_stays()}") from error

    def _refuse_unreadable(self, error: InputError) -> NoReturn:
        raise error

    def _what_stays(self) -> str:
        return "; nothing was changed"

    @abstractmethod
    def complete(self) -> None:
        """Move into place."""

    @abstractmethod
    def discard(self) -> None:
        """Remove what was written so far."""


class PendingTarget(Pending):
    """A target in the making. `place` is where to write."""

    def __init__(self, target: Path, overwrite: bool) -> None:
        super().__init__(target)
        self._overwrite = overwrite
        self._recover()
        self.refuse_existing()
        self.place = make_hidden_place(target.parent, target.name)

    def _recover(self) -> None:
        """Finish or remove what killed processes left of the same target: it may be large."""
        recover(self.target.parent, self.target.name)

    def _refuse_unreadable(self, error: InputError) -> NoReturn:
        """Name the target where it is not an input, but something of the target that is looked at again."""
        if str(self.place) not in error.message:
            raise error
        reason = error.message.replace(f"{self.place}/", "").replace(str(self.place), self.target.name)
        raise CallgroveError(f"{self.target}: cannot be written: {reason}{self._what_stays()}") from error

    @property
    def exists(self) -> bool:
        return self.target.is_symlink() or self.target.exists()

    def refuse_existing(self) -> None:
        """Refuse to replace what is there already, unless that was asked for and it is of the same kind."""
        if str(self.target) == "-":
            raise UsageError("this format cannot go to stdout; name OUT")
        refuse_existing(self.target, self._overwrite)
        if self.exists:
            self._refuse_kind()

    def _refuse_kind(self) -> None:
        raise NotImplementedError

    def complete(self) -> None:
        """Rename into place, in one step where the system can exchange two names."""
        self.refuse_existing()
        if not self.exists:
            self.place.rename(self.target)
        elif exchange(self.place, self.target):
            remove(self.place)  # what was there before
        else:
            self._replace_in_two_steps()

    def _replace_in_two_steps(self) -> None:
        """Set aside what is there already, which comes back if the other rename fails."""
        old = self.place.with_suffix(OLD)
        self.target.rename(old)
        try:
            self.place.rename(self.target)
        except BaseException:
            old.rename(self.target)
            raise
        remove(old)

    def discard(self) -> None:
        remove(self.place)


class PendingTogether(Pending):
    """Targets of which there are all or none. What they are may be known only later."""

    def __init__(self, target: Path) -> None:
        super().__init__(target)
        self.parts: list[PendingTarget] = []

    def complete(self) -> None:
        for part in self.parts:
            part.complete()

    def discard(self) -> None:
        for part in self.parts:
            part.discard()


def refuse_existing(target: Path, overwrite: bool) -> None:
    """Refuse to replace what is there already, unless that was asked for; devices are never replaced."""
    if not target.is_symlink() and not target.exists():
        return
    if _is_special(target):
        raise UsageError(f"{target}: is a device, a pipe or the like, which is never replaced; name a new file")
    if not overwrite:
        raise _is_there(target)


def _is_there(target: Path) -> UsageError:
    """Return the error that a target exists already."""
    overwrite = Parameter("overwrite", True)
    return UsageError(f"{target}: exists already; choose another name, or replace it (", overwrite, ")")


def refuse_folder(target: Path) -> None:
    """Refuse a folder where a file is to be written."""
    if target.is_dir():
        raise UsageError(f"{target}: is a folder, and a file is to be written; choose another name")


@dataclass(frozen=True)
class FolderKind:
    """What a target is that is a folder. One that is there already is replaced only if `is_ours` finds such data in it,
    or if it is empty."""

    what: str
    is_ours: Callable[[Path], bool]

    def refuse_others(self, target: Path) -> None:
        if target.is_file():
            raise UsageError(f"{target}: is a file, and {self.what} is a folder; choose another name")
        if target.is_dir() and any(target.iterdir()) and not self.is_ours(target):
            raise UsageError(f"{target}: is a folder with other things than {self.what} in it; remove it yourself")


def refuse_stdout(target: Path, what: str) -> None:
    """Refuse stdout, for targets that are several files."""
    if str(target) == "-":
        raise UsageError(f"{what} cannot go to stdout: it is several files; name OUT")


class PendingFolder(PendingTarget):
    """A folder of some kind."""

    def __init__(self, target: Path, overwrite: bool, kind: FolderKind) -> None:
        self._kind = kind
        super().__init__(target, overwrite)
        with self.or_nothing():
            self.place.mkdir()

    def _refuse_kind(self) -> None:
        self._kind.refuse_others(self.target)


class PendingFile(PendingTarget):
    """A file."""

    def __init__(self, target: Path, overwrite: bool) -> None:
        super().__init__(target, overwrite)
        with self.or_nothing():
            self.place.touch()

    def _refuse_kind(self) -> None:
        refuse_folder(self.target)

    def complete(self) -> None:
        """Put the file in place: a rename replaces a file in one step."""
        self.refuse_existing()
        self.place.replace(self.target)


class PendingFiles(PendingTarget):
    """Files that belong together, in a folder that is there already, or with names that begin with the target's.

    `names` are all that there may be. Those of an earlier set that the new one does not have go as well: what stays
    would be taken for a part of it. `keep_partial`: after a failure, what was written stays as the folder OUT.part.
    """

    def __init__(self, target: Path, overwrite: bool, names: Sequence[str], *, keep_partial: bool = False) -> None:
        self._keep_partial = keep_partial
        self._folder, prefix = (target, "") if target.is_dir() else (target.parent, f"{target.name}_")
        self._targets = {name: self._folder / f"{prefix}{name}" for name in names}
        super().__init__(target, overwrite)
        self.place = make_hidden_place(self._folder, self._name)
        with self.or_nothing():
            self.place.mkdir()

    @property
    def _name(self) -> str:
        return self.target.name or "files"

    def _recover(self) -> None:
        recover(self._folder, self._name, self._finish)

    def _finish(self, new: Path, old: Path) -> None:
        """Move the rest of a complete set into place; what is not in the set and was not moved yet goes."""
        listed = old / LIST_OF_NEW
        if not listed.is_file():  # nothing was moved yet
            return
        names = listed.read_text("utf-8").split("\n")
        for name, path in self._targets.items():
            if (new / name).exists():
                (new / name).replace(path)
            elif name not in names and path.is_file():
                path.unlink()

    def refuse_existing(self) -> None:
        there = [path for path in self._targets.values() if path.is_symlink() or path.exists()]
        if there and not self._overwrite:
            raise _is_there(there[0])
        if folders := [path for path in there if path.is_dir() and not path.is_symlink()]:
            raise UsageError(f"{folders[0]}: is a folder, and a file is to be written; choose another name")

    def complete(self) -> None:
        """Move all of them; if one cannot be moved, everything is as it was before."""
        self.refuse_existing()
        old = self.place.with_suffix(OLD)  # not in `place`: what could not be brought back must not go with it
        old.mkdir()
        moved: list[tuple[Path, Path]] = []
        try:
            self._list_new(old / LIST_OF_NEW)
            for name, path in self._targets.items():
                if path.is_symlink() or path.exists():
                    path.rename(old / name)
                    moved.append((path, old / name))
                if (self.place / name).exists():
                    (self.place / name).rename(path)
                    moved.append((self.place / name, path))
        except BaseException:
            for before, now in reversed(moved):
                now.rename(before)
            with suppress(OSError):
                for listed in (old / LIST_OF_NEW, (old / LIST_OF_NEW).with_suffix(PARTIAL)):
                    listed.unlink(missing_ok=True)
                old.rmdir()  # never with anything else in it
            raise
        remove(old)
        remove(self.place)

    def _list_new(self, place: Path) -> None:
        """Write down which files there are in the new set, for whoever comes after a process that was killed."""
        begun = place.with_suffix(PARTIAL)
        begun.write_text("\n".join(name for name in self._targets if (self.place / name).exists()), "utf-8")
        begun.rename(place)

    def discard(self) -> None:
        part = self.place.parent / f"{self.target.name or 'files'}.part"
        if self._keep_partial and self.place.is_dir() and any(self.place.iterdir()) and not part.exists():
            self.place.rename(part)
        else:
            super().discard()


def _is_special(path: Path) -> bool:
    """Return whether this is a device, a pipe or a socket, or a link that stands for what a process has open
    (/dev/stdout)."""
    if path.is_symlink() and path.readlink().is_relative_to("/proc"):
        return True
    return path.exists() and not path.is_file() and not path.is_dir()


# -- SQLite databases --------------------------------------------------------------------------------------------------
# Written beside their place until complete, or in place for readers that cannot wait.


class SqliteTarget(Pending):
    """`database` is connected, without a transaction; failing inside `or_nothing` leaves nothing of a pending file."""

    def __init__(self, path: Path, overwrite: bool, *, in_place: bool = False) -> None:
        super().__init__(path)
        if in_place and path.exists():
            raise UsageError(f"{path}: exists already; choose another name")
        self.pending = None if in_place else PendingFile(path, overwrite)
        with self.or_nothing():
            self._connect()

    def _connect(self) -> None:
        self.database = sqlite3.connect(self.pending.place if self.pending else self.target, isolation_level=None)
        # of a pending file there is nothing to go back to; in place, readers need the log
        for pragma in (f"journal_mode={'OFF' if self.pending else 'WAL'}", "synchronous=OFF", "foreign_keys=ON"):
            self.database.execute(f"PRAGMA {pragma}")

    def create_tables(self, tables: Iterable[tuple[str, str]]) -> None:
        """Create the first tables, which may be very many, by their names and statements; `database` is another one
        then. In place, where others may have opened the file, SQLite creates them."""
        if self.pending is None:
            self.database.execute("BEGIN")
            for _, statement in tables:
                self.database.execute(statement)
            self.database.execute("COMMIT")
            return
        self._disconnect()
        with self.pending.place.open("wb") as file:
            write_empty_tables(file, tables)
        self._connect()

    @contextmanager
    def or_nothing(self, before: Callable[[], None] = lambda: None) -> Iterator[None]:
        try:
            with super().or_nothing(before):
                yield
        except sqlite3.Error as error:
            raise CallgroveError(f"{self.target}: cannot be written: {error}; nothing was changed") from error

    def _disconnect(self) -> None:
        if hasattr(self, "database"):
            self.database.close()

    def complete(self) -> None:
        """Close, and move it into place; one in place ends as a single file without a log."""
        self._end_log()
        self._disconnect()
        if self.pending is not None:
            self.pending.complete()

    def _end_log(self) -> None:
        """Work the log into the database and give it up: whoever only reads a database that has one would leave files
        beside it. Where a reader has it open now, the log stays, but the database has what that reader allows."""
        if self.pending is None and hasattr(self, "database"):
            self.database.execute("PRAGMA busy_timeout=0")
            try:
                self.database.execute("PRAGMA journal_mode=DELETE")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                    raise
                self.database.execute("PRAGMA wal_checkpoint")

    def discard(self) -> None:
        """Discard a pending file entirely; of one in place, what was committed stays."""
        self._disconnect()
        if self.pending is not None:
            self.pending.discard()
