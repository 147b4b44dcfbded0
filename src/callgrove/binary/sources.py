"""What a user points at: a file, a folder or several of them, read by content."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from callgrove.binary.files import FileBytes
from callgrove.errors import InputError, UsageError

__all__ = ["HEAD_BUDGET", "Source"]

HEAD_BUDGET = 64 * 1024  # bytes that detection may look at, in all
NAMES_LOOKED_AT = 256  # of those in a folder
T = TypeVar("T")
LEAST_HEAD = 32  # bytes that are read of a file at least: marks are shorter, and every format that asks has its own


@dataclass
class Source:
    """A path and what detection has looked at. Formats ask it for heads of files, never for names alone.

    `more` are the other members of a set: only formats that open many files as one experiment are asked about those.
    """

    path: Path
    more: tuple[Path, ...] = ()
    kept: dict[Hashable, Any] = field(default_factory=dict, repr=False)  # see `keep`; several sources may share it
    _heads: dict[Path, bytes] = field(default_factory=dict, repr=False)
    _asked: dict[Path, int] = field(default_factory=dict, repr=False)  # bytes of each head that were asked for

    @classmethod
    def of(cls, path: str | Path, kept: dict[Hashable, Any] | None = None) -> Source:
        """Return the source at `path`; a missing one is an error here and nowhere later."""
        return cls(_existing(path), (), {} if kept is None else kept)

    @classmethod
    def of_all(cls, paths: Sequence[str | Path]) -> Source:
        """Return the source that several paths make together."""
        first, *more = map(_existing, paths)
        return cls(first, tuple(more))

    @property
    def paths(self) -> tuple[Path, ...]:
        return (self.path, *self.more)

    @property
    def name(self) -> str:
        """What it is called, also where it was named by its place alone, as `.` or `..`."""
        last = self.path.name
        return last if last not in ("", "..") else self.path.resolve().name or str(self.path)

    def inside(self, path: Path) -> Source:
        """Return a source in this one, whose heads count as those of this one."""
        return Source(path, (), self.kept, self._heads, self._asked)

    def keep(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what is kept under a key, and make it where nothing is: several formats look at one source, and who
        has recognised it reads it."""
        if key not in self.kept:
            self.kept[key] = make()
        kept: T = self.kept[key]
        return kept

    @cached_property
    def is_folder(self) -> bool:
        """Every format asks."""
        return self.path.is_dir()

    @property
    def folder(self) -> Path:
        """The folder itself, or the one that a file lies in."""
        return self.path if self.is_folder else self.path.parent

    @cached_property
    def listing(self) -> Mapping[str, bool] | None:
        """Some names in the folder, and which of them are files; read once, as asking a parallel file system for one
        file after the other takes long. None where there is no folder, or none that we may look into."""
        try:
            with os.scandir(self.path) as entries:
                return {entry.name: entry.is_file() for entry in islice(entries, NAMES_LOOKED_AT)}
        except OSError:  # formats will say what is wrong
            return None

    def has(self, name: str) -> bool:
        """Is there a file of that name in the folder, as far as we may know?"""
        if not self.is_folder:
            return False
        listing = self.listing
        if listing is not None and "/" not in name and (name in listing or len(listing) < NAMES_LOOKED_AT):
            return listing.get(name, False)
        return os.path.isfile(self.path / name)  # noqa: PTH113 - Path asks with errors

    def head(self, size: int, name: str = "") -> bytes:
        """Return the first bytes of the file, or of the folder's file `name`; empty where there is none."""
        path = self.path / name if name else self.path
        wanted = min(max(size, LEAST_HEAD), HEAD_BUDGET)
        if self._asked.get(path, -1) >= wanted:  # a shorter file has no more
            return self._heads[path][:size]
        spent = sum(len(head) for other, head in self._heads.items() if other != path)
        self._heads[path], self._asked[path] = b"", wanted
        with suppress(OSError):  # a folder, a pipe, or not ours to read: no head, so no format claims it
            if path.is_file():
                with path.open("rb") as file:
                    self._heads[path] = file.read(max(0, min(wanted, HEAD_BUDGET - spent)))
        return self._heads[path][:size]

    def bytes(self, name: str = "") -> FileBytes:
        """Return the file, or the folder's file `name`, mapped."""
        return FileBytes(self.path / name if name else self.path)


def _existing(path: str | Path) -> Path:
    if not str(path):  # as of a shell variable that nobody set; it would mean the current folder
        raise UsageError("the name of an input is empty; name a file or folder")
    where = Path(path)
    try:
        mode = where.stat().st_mode
        if stat.S_ISDIR(mode):
            os.scandir(where).close()  # may we look into it?
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise InputError(f"{where}: {getattr(error, 'strerror', None) or error}") from error
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):  # a pipe would be waited for, a device may never end
        raise InputError(f"{where}: is a device, a pipe or the like; save what comes out of it, and open that file")
    return where
