"""Several small databases in memory at once, and one table of each as a single one.

The memory is given back for the next ones to use: most of what reading a small file costs is to get hold of memory.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import numpy as np

from callgrove.formats.gpu.joined_pages import JoinedPages, JoinedTable
from callgrove.formats.gpu.pages import Unusual
from callgrove.formats.gpu.pages_tables import TableLayout
from callgrove.formats.gpu.sqlite_file import SqliteFile
from callgrove.model.arrays import Array

__all__ = ["BUNDLE_BYTES", "JoinedFiles"]

BUNDLE_BYTES = 8 << 20  # of files that are read at once
LEAST_BYTES = 512  # a page


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


class JoinedFiles:
    """Files that nobody writes, read at once. Tables are found by the name that they have in each file."""

    def __init__(self, files: Sequence[SqliteFile]) -> None:
        self.files = files
        self._buffer: Array | None = None
        self._pages: JoinedPages | None = None
        self._tables: dict[str, JoinedTable | None] = {}  # None: not plain

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
        pages = self.pages
        wanted = [key for key in keys if key not in self._tables]
        found = pages.several([self._layouts(key, name_of) for key in wanted])
        self._tables |= dict(zip(wanted, found, strict=True))

    def _layouts(self, key: str, name_of: Callable[[str, int], str]) -> list[TableLayout | None]:
        names = [(file, name_of(key, k)) for k, file in enumerate(self.files)]
        return [file.schema.layout(name) if name in file.tables else None for file, name in names]

    @property
    def pages(self) -> JoinedPages:
        if self._pages is None:
            self._pages = self._read()
        return self._pages

    def _read(self) -> JoinedPages:
        if not all(file.is_as_read() for file in self.files):
            raise Unusual("a file that was changed")
        try:
            sizes = [file.path.stat().st_size for file in self.files]
            bounds = [0, *np.cumsum(sizes).tolist()]
            if min(sizes) < LEAST_BYTES or bounds[-1] > 2 * BUNDLE_BYTES:
                raise Unusual("files that are too small, or too large")
            self._buffer = _spare.take(bounds[-1])
            for k, file in enumerate(self.files):
                self._fill(file, self._buffer[bounds[k] : bounds[k + 1]])
        except OSError as error:
            raise Unusual(str(error)) from error
        pages = JoinedPages(self._buffer[: bounds[-1]], bounds)
        if any(size % pages.size for size in sizes):
            raise Unusual("half a page")
        return pages

    @staticmethod
    def _fill(file: SqliteFile, part: Array) -> None:
        with file.path.open("rb", buffering=0) as stream:
            if stream.readinto(part.data) != len(part):
                raise Unusual("a file that was changed")
        file.give(part)

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
        return {"files": self.files, "_buffer": None, "_pages": None, "_tables": {}}
