"""Several small databases in memory at once, and one table of each as a single one.

The memory is given back for the next ones to use: most of what reading a small file costs is to get hold of memory.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from weakref import WeakKeyDictionary

import numpy as np

from callgrove.formats.gpu.joined_pages import JoinedPages, JoinedTable
from callgrove.formats.gpu.pages import Unusual
from callgrove.formats.gpu.pages_found import FoundRows, room
from callgrove.formats.gpu.pages_tables import TableLayout
from callgrove.formats.gpu.sqlite_file import SqliteFile, Version, version_of
from callgrove.model.arrays import Array, Ints

__all__ = ["BUNDLE_BYTES", "JoinedFiles"]

BUNDLE_BYTES = 8 << 20  # of files that are read at once
LEAST_BYTES = 512  # a page
WORTH_KEEPING = 1000  # rows; few are found as fast as they are kept


class _Spare(threading.local):
    """Memory that nobody of this thread uses."""

    def __init__(self) -> None:
        self.buffers: list[Array] = []

    def take(self, n_bytes: int) -> Array:
        found = [buffer for buffer in self.buffers if len(buffer) >= n_bytes]
        if not found:
            return np.empty(max(n_bytes, BUNDLE_BYTES), np.uint8)
        self.buffers = [buffer for buffer in self.buffers if buffer is not found[0]]
        return found[0]

    def give_back(self, buffer: Array) -> None:
        self.buffers = [buffer]


_spare = _Spare()


@dataclass
class _Known:
    """Where the rows of some tables stand, of files that were read before: who opens files to see who took part is
    followed by who wants to know what happened."""

    versions: Sequence[tuple[Path, Version]]
    tables: dict[str, _KnownTable] = field(default_factory=dict)


@dataclass(frozen=True)
class _KnownTable:
    layout: TableLayout | None
    rows: FoundRows | None  # None: it has none
    n: Ints

    @classmethod
    def of(cls, table: JoinedTable) -> _KnownTable | None:
        """None where there is no room for it, where rows cannot be kept, or where there are few."""
        rows = None if len(table) < WORTH_KEEPING or table.records is None else FoundRows.of(table.records)
        if rows is None and len(table):
            return None
        made = cls(table.layout, rows, table.n)
        return made if room.take(made, 0 if rows is None else rows.n_bytes) else None

    def table(self, pages: JoinedPages) -> JoinedTable:
        records = None if self.rows is None else self.rows.records(pages.bytes)
        return JoinedTable(self.layout, records, np.repeat(np.arange(len(self.n)), self.n), self.n)


_known: WeakKeyDictionary[SqliteFile, _Known] = WeakKeyDictionary()  # by the first of the files


class JoinedFiles:
    """Files that nobody writes, read at once. Tables are found by the name that they have in each file."""

    def __init__(self, files: Sequence[SqliteFile], keeps: bool = False) -> None:
        """`keeps`: where rows stand is kept for who reads the same tables next."""
        self.files, self._keeps = files, keeps
        self._buffer: Array | None = None
        self._pages: JoinedPages | None = None
        self._tables: dict[str, JoinedTable | None] = {}  # None: not plain
        self._known = _Known([])

    def table(self, key: str, name_of: Callable[[str, int], str]) -> JoinedTable:
        """The table that file k calls `name_of(key, k)`; a file may lack it."""
        if key not in self._tables:
            self.read([key], name_of)
        found = self._tables[key]
        if found is None:
            raise Unusual("a table that is not plain")
        return found

    def read(self, keys: Sequence[str], name_of: Callable[[str, int], str]) -> None:
        """Look for the rows of several small tables at once, for who will ask for them."""
        pages, known = self.pages, self._known.tables
        self._tables |= {key: known[key].table(pages) for key in keys if key in known and key not in self._tables}
        wanted = [key for key in keys if key not in self._tables]
        if not wanted:
            return
        found = pages.several([self._layouts(key, name_of) for key in wanted])
        self._tables |= dict(zip(wanted, found, strict=True))
        for key, table in zip(wanted, found, strict=True) if self._keeps else ():
            if table is not None and (kept := _KnownTable.of(table)):
                known[key] = kept

    def _layouts(self, key: str, name_of: Callable[[str, int], str]) -> list[TableLayout | None]:
        names = [(file, name_of(key, k)) for k, file in enumerate(self.files)]
        return [file.schema.layout(name) if name in file.tables else None for file, name in names]

    @property
    def pages(self) -> JoinedPages:
        if self._pages is None:
            self._pages = self._read()
        return self._pages

    def _read(self) -> JoinedPages:
        versions = [version_of(file.path) for file in self.files]
        if not all(map(SqliteFile.is_as_read, self.files, versions)):
            raise Unusual("a file that was changed")
        sizes = [version[0] for version in versions]
        bounds = [0, *accumulate(sizes)]
        if min(sizes) < LEAST_BYTES or bounds[-1] > 2 * BUNDLE_BYTES:
            raise Unusual("files that are too small, or too large")
        self._buffer = _spare.take(bounds[-1])
        for k, (file, version) in enumerate(zip(self.files, versions, strict=True)):
            part = self._buffer[bounds[k] : bounds[k + 1]]
            _fill(file.path, part)
            file.give(part, version)
        pages = JoinedPages(self._buffer[: bounds[-1]], bounds)
        if any(size % pages.size for size in sizes):
            raise Unusual("half a page")
        self._known = self._knowledge_of(versions)
        return pages

    def _knowledge_of(self, versions: Sequence[Version]) -> _Known:
        """What is known of these files as they are now."""
        found = _known.get(self.files[0])
        now = [(file.path, version) for file, version in zip(self.files, versions, strict=True)]
        if found is None or found.versions != now:
            found = _known[self.files[0]] = _Known(now)
        return found

    def give_back(self) -> None:
        """Forget everything; whoever asks again reads again."""
        if self._buffer is not None:
            for file in self.files:
                file.close()
            _spare.give_back(self._buffer)
        self._buffer = self._pages = None
        self._tables = {}

    def __getstate__(self) -> dict[str, object]:
        """A worker reads the files itself."""
        return {
            "files": self.files,
            "_keeps": self._keeps,
            "_buffer": None,
            "_pages": None,
            "_tables": {},
            "_known": _Known([]),
        }


def _fill(path: Path, part: Array) -> None:
    """All bytes of a file."""
    try:
        with path.open("rb", buffering=0) as stream:
            n_read = stream.readinto(part.data)
    except OSError as error:
        raise Unusual(str(error)) from error
    if n_read != len(part):
        raise Unusual("a file that was changed")
