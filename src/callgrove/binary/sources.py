"""What a user points at: a file, a folder or several of them, read by content."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from callgrove.binary.files import FileBytes
from callgrove.errors import InputError, UsageError

__all__ = ["HEAD_BUDGET", "Source"]

HEAD_BUDGET = 64 * 1024  # bytes that detection may look at, in all
T = TypeVar("T")


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
        """The source at `path`; a missing one is an error here and nowhere later."""
        return cls(_existing(path), (), {} if kept is None else kept)

    @classmethod
    def of_all(cls, paths: Sequence[str | Path]) -> Source:
        """The source that several paths make together."""
        first, *more = map(_existing, paths)
        return cls(first, tuple(more))

    @property
    def paths(self) -> tuple[Path, ...]:
        return (self.path, *self.more)

    @property
    def name(self) -> str:
        """What it is called, also where it was named by its place alone, as `.` or `..`."""
        own = self.path.name
        return own if own not in ("", "..") else self.path.resolve().name or str(self.path)

    def inside(self, path: Path) -> Source:
        """A source in this one, whose heads count as those of this one."""
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

    def has(self, name: str) -> bool:
        """Is there a file of that name in the folder, as far as we may know?"""
        return self.is_folder and os.path.isfile(self.path / name)  # noqa: PTH113 - Path asks with errors

    def head(self, size: int, name: str = "") -> bytes:
        """The first bytes of the file, or of the folder's file `name`; empty where there is none."""
        path = self.path / name if name else self.path
        if self._asked.get(path, -1) >= min(size, HEAD_BUDGET):  # a shorter file has no more
            return self._heads[path][:size]
        spent = sum(len(head) for other, head in self._heads.items() if other != path)
        self._heads[path], self._asked[path] = b"", min(size, HEAD_BUDGET)
        with suppress(OSError):  # a folder, a pipe, or not ours to read: no head, so no format claims it
            if path.is_file():
                with path.open("rb") as file:
                    self._heads[path] = file.read(max(0, min(size, HEAD_BUDGET - spent)))
        return self._heads[path][:size]

    def bytes(self, name: str = "") -> FileBytes:
        """The file, or the folder's file `name`, mapped."""
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
