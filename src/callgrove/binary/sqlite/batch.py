"""Several small databases in memory at once, and one table of each as a single one.

The memory is given back for the next ones to use: most of what reading a small file costs is to get hold of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from pathlib import Path

import numpy as np

from callgrove.arrays import ABSENT, Array, Ints
from callgrove.binary.sqlite.database import SqliteFile, Version, version_of
from callgrove.binary.sqlite.pages import DEEPEST, INTERIOR, LEAF, Pages, Unusual
from callgrove.binary.sqlite.records import NULL, Records
from callgrove.binary.sqlite.tables import FoundRows, PageColumn, Room, TableLayout

__all__ = ["BUNDLE_BYTES", "JoinedFiles", "JoinedPages", "JoinedTable", "KnownTables"]


# The pages of several small files at once: one table of each, as if these were a single one.
#
# Most of what a small table costs is the number of operations on arrays, not their length. All databases of one run
# have tables with the same columns, so that these operations can be had once for many files.
#
#     file 0: page 1 | page 2 | ...     file 1: page 1 | page 2 | ...     pages are numbered over all files
#     owner   0        0                        1        1                 the file that a page or a row is of
#
# Only what is plain is read like this: equal sizes of pages and columns, records that stand in their pages, and numbers
# where these are asked for. Anything else is `Unusual`, and every file is read by itself.


ALIKE = np.r_[16:24, 56:60]  # of the header: sizes and versions, and how texts are encoded


class JoinedPages(Pages):
    """The pages of files; `bounds` tells where each one begins in `data`, which holds whole pages only."""

    def __init__(self, data: Array, bounds: Sequence[int]) -> None:
        super().__init__(data[: bounds[1]])
        heads = data[np.array(bounds[:-1])[:, None] + ALIKE]
        if (heads != heads[0]).any():
            raise Unusual("files of different kinds")
        self._set(data)
        self._before = np.array(bounds, np.int64) // self.size  # pages of the files before each

    def joined(self, layouts: Sequence[TableLayout | None]) -> JoinedTable:
        """A table of every file; None where it has none."""
        (found,) = self.several([layouts])
        if found is None:
            raise Unusual("a table that is not plain")
        return found

    def several(self, tables: Sequence[Sequence[TableLayout | None]]) -> list[JoinedTable | None]:
        """Several tables of every file, their rows looked for at once; None for those that are not plain. What a table
        of a file holds has one owner: these are numbered table by table."""
        n_files = len(self._before) - 1
        layouts = [layout for table in tables for layout in table]
        known = [(number, layout.root) for number, layout in enumerate(layouts) if layout is not None]
        owner, roots = np.array(known, np.int64).reshape(-1, 2).T
        pages, owner = self._forest(roots, owner, owner % n_files)
        begin, _, n_cells = self.header(pages)
        rows = self.rows(pages, begin, n_cells)
        n = np.bincount(owner, n_cells, len(layouts)).astype(np.int64)
        owner = np.repeat(owner, n_cells)
        falls = np.flatnonzero(rows.rowid[1:] <= rows.rowid[:-1])  # as they do from one file to the next
        if (owner[falls] == owner[falls + 1]).any():
            raise Unusual("row ids that do not rise")
        records = Records(self.bytes, rows, 0) if len(rows) else None
        if len(tables) == 1:
            return [_table(tables[0], records, owner, n)]
        out = []
        ends = np.cumsum(n)
        for number, table in enumerate(tables):
            own = n[number * n_files : (number + 1) * n_files]
            part = slice(ends[number * n_files] - own[0], ends[(number + 1) * n_files - 1])
            some = None if records is None or part.start == part.stop else records.part(part)
            out.append(_table(table, some, owner[part] - number * n_files, own))
        return out

    def _forest(self, roots: Ints, owner: Ints, file: Ints) -> tuple[Ints, Ints]:
        """The leaf pages below root pages, owner by owner, and whose they are."""
        pages = self._global_pages(roots, file)
        found: list[tuple[Ints, Ints]] = []
        is_done = np.zeros(int(owner.max(initial=0)) + 1, np.bool_)
        n_visited = 0
        for _ in range(DEEPEST):
            begin, kind, n_cells = self.header(pages)
            leaf = kind == LEAF
            if ((kind != INTERIOR) & ~leaf).any() or is_done[owner].any():
                raise Unusual("a page that belongs to no table")
            found.append((pages[leaf], owner[leaf]))
            is_done[owner[leaf]] = True
            inner = np.flatnonzero(~leaf)
            n_visited += int(n_cells[inner].sum()) + len(inner)
            if is_done[owner[inner]].any() or n_visited > self.count:
                raise Unusual("pages that are used twice")
            if not len(inner):
                every, of = (np.concatenate(parts) for parts in zip(*found, strict=True))
                order = np.argsort(of, kind="stable")
                return every[order], of[order]
            below, _ = self.children(pages[inner], begin[inner], n_cells[inner], np.zeros(len(inner), np.int64))
            owner, file = (np.repeat(column[inner], n_cells[inner] + 1) for column in (owner, file))
            pages = self._global_pages(below, file)
        raise Unusual("a tree without an end")

    def _global_pages(self, pages: Ints, file: Ints) -> Ints:
        """Numbers of pages in their files -> those over all files."""
        if ((pages < 2) | (pages > self._before[file + 1] - self._before[file])).any():
            raise Unusual("a page that no table can have")
        return pages + self._before[file]


def _table(layouts: Sequence[TableLayout | None], records: Records | None, owner: Ints, n: Ints) -> JoinedTable | None:
    """The rows of one table; None where columns differ, or records do not stand in their pages."""
    known = [layout for layout in layouts if layout is not None]
    first = known[0].columns if known else {}
    if any(layout.columns is not first and layout.columns != first for layout in known):
        return None
    if records is not None and not (records.knows_all and records.is_whole):
        return None
    return JoinedTable(known[0] if known else None, records, owner, n)


@dataclass(frozen=True)
class JoinedTable:
    """The rows of one table of several files; `n[k]` of them are of file k, and these come one after the other."""

    layout: TableLayout | None
    records: Records | None
    owner: Ints
    n: Ints

    def __len__(self) -> int:
        return len(self.owner)

    @cached_property
    def firsts(self) -> Ints:
        """The first row of every file."""
        return np.cumsum(self.n) - self.n

    @cached_property
    def within(self) -> Ints:
        """The number of every row in its file."""
        return np.arange(len(self.owner)) - np.repeat(self.firsts, self.n)

    def integers(self, name: str, missing: int) -> Ints:
        """A column of integers; `missing` where there is none."""
        if self.records is None or self.layout is None or name not in self.layout.columns:
            return np.full(len(self.owner), missing, np.int64)
        column = self.layout.columns[name]
        if column.place == ABSENT:
            return self.records.rows.rowid
        if column.is_real or self._was_added(column):
            raise Unusual("a column that was added, or that is of doubles")
        values, other = self.records.integers(column.place, missing)
        if len(other):
            raise Unusual("cells that are no integers")
        return values

    def is_everywhere(self, name: str, text: str) -> bool:
        """Do all rows hold this text, as far as there is such a column?"""
        if self.records is None or self.layout is None or name not in self.layout.columns:
            return True
        column = self.layout.columns[name]
        return column.place != ABSENT and bool(self.records.equals(column.place, text.encode()).all())

    def objects(self, name: str, rows: Ints) -> list[object]:
        """A column of some rows as it is stored."""
        if self.records is None or self.layout is None or name not in self.layout.columns:
            return [None] * len(rows)
        column = self.layout.columns[name]
        if column.place == ABSENT or column.is_real or self._was_added(column):
            raise Unusual("a column that is no text")
        return self.records.objects(column.place, rows)

    def _was_added(self, column: PageColumn) -> bool:
        """Are there records from before a column was added that has a default?"""
        return (
            column.has_default and self.records is not None and bool((self.records.serials(column.place) < NULL).any())
        )


BUNDLE_BYTES = 8 << 20  # of files that are read at once
LEAST_BYTES = 512  # a page
WORTH_KEEPING = 1000  # rows; few are found as fast as they are kept


@dataclass
class KnownTables:
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
    def of(cls, table: JoinedTable, room: Room) -> _KnownTable | None:
        """None where there is no room for it, where rows cannot be kept, or where there are few."""
        rows = None if len(table) < WORTH_KEEPING or table.records is None else FoundRows.of(table.records)
        if rows is None and len(table):
            return None
        made = cls(table.layout, rows, table.n)
        return made if room.take(made, 0 if rows is None else rows.n_bytes) else None

    def table(self, pages: JoinedPages) -> JoinedTable:
        records = None if self.rows is None else self.rows.records(pages.bytes)
        return JoinedTable(self.layout, records, np.repeat(np.arange(len(self.n)), self.n), self.n)


class JoinedFiles:
    """Files that nobody writes, read at once. Tables are found by the name that they have in each file."""

    def __init__(self, files: Sequence[SqliteFile], keeps: bool = False) -> None:
        """`keeps`: where rows stand is kept for who reads the same tables next."""
        self.files, self._keeps = files, keeps
        self._buffer: Array | None = None
        self._pages: JoinedPages | None = None
        self._tables: dict[str, JoinedTable | None] = {}  # None: not plain
        self._known = KnownTables([])

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
            if table is not None and (kept := _KnownTable.of(table, self.files[0].cache.room)):
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
        self._buffer = self._take_memory(bounds[-1])
        for k, (file, version) in enumerate(zip(self.files, versions, strict=True)):
            part = self._buffer[bounds[k] : bounds[k + 1]]
            _fill(file.path, part)
            file.give(part, version)
        pages = JoinedPages(self._buffer[: bounds[-1]], bounds)
        if any(size % pages.size for size in sizes):
            raise Unusual("half a page")
        self._known = self._knowledge_of(versions)
        return pages

    def _take_memory(self, n_bytes: int) -> Array:
        """Return memory to read into: what the files before were read into, where that is enough."""
        cache = self.files[0].cache
        spare, cache.spare = cache.spare, None
        return spare if spare is not None and len(spare) >= n_bytes else np.empty(max(n_bytes, BUNDLE_BYTES), np.uint8)

    def _knowledge_of(self, versions: Sequence[Version]) -> KnownTables:
        """What is known of these files as they are now."""
        first = self.files[0]
        now = [(file.path, version) for file, version in zip(self.files, versions, strict=True)]
        if first.known_tables is None or first.known_tables.versions != now:
            first.known_tables = KnownTables(now)
        return first.known_tables

    def give_back(self) -> None:
        """Forget everything; whoever asks again reads again."""
        if self._buffer is not None:
            for file in self.files:
                file.close()
            self.files[0].cache.spare = self._buffer
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
            "_known": KnownTables([]),
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
