"""Several small databases in memory at once, and one table of each as a single one.

The memory is given back for the next ones to use: most of what reading a small file costs is to get hold of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from pathlib import Path

import numpy as np

from callgrove.arrays import ABSENT, Array, Ints
from callgrove.binary.files import read_into
from callgrove.binary.sqlite.cells import MISSING, Cells, Type, absent, text_column
from callgrove.binary.sqlite.database import CHANGED, SqliteFile, Version, version_from, version_of
from callgrove.binary.sqlite.numbers import PageError, check
from callgrove.binary.sqlite.pages import DEEPEST, INTERIOR, LEAF, PageFormat, Pages
from callgrove.binary.sqlite.plan import BUNDLE_BYTES, Slow, decode, plan, plan_table
from callgrove.binary.sqlite.records import NULL, Records
from callgrove.binary.sqlite.tables import FoundRows, PageColumn, Room, TableLayout

__all__ = ["JoinedFiles", "JoinedPages", "JoinedTable", "KnownTables", "OwnedRows"]


# The pages of several small files at once: one table of each, as if these were a single one.
#
# Most of what a small table costs is the number of operations on arrays, not their length. All databases of one run
# have tables with the same columns, so that these operations can be had once for many files.
#
#     file 0: page 1 | page 2 | ...     file 1: page 1 | page 2 | ...     pages are numbered over all files
#     owner   0        0                        1        1                 the file that a page or a row is of
#
# Only what is plain is read like this: equal sizes of pages and columns, records that stand in their pages, and numbers
# where these are asked for. For anything else the answer is `Slow`, and every file is read by itself.


class JoinedPages(Pages):
    """The pages of files; `bounds` tells where each one begins in `data`, which holds whole pages only."""

    def __init__(self, data: Array, page_format: PageFormat, bounds: Sequence[int]) -> None:
        super().__init__(data, page_format)
        self._before = np.array(bounds, np.int64) // self.size  # pages of the files before each

    def several(self, tables: Sequence[Sequence[TableLayout | None]]) -> list[JoinedTable | Slow]:
        """Return several tables of every file, whose rows are located at once; the layout of a table is None where a
        file lacks it. Each table of each file is one owner of rows; owners are numbered table by table."""
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
        check((owner[falls] != owner[falls + 1]).all(), "row ids that do not rise")
        records = Records(self.bytes, rows, 0) if len(rows) else None
        if len(tables) == 1:
            return [_table(tables[0], records, owner, n)]
        out = []
        ends = np.cumsum(n)
        for number, table in enumerate(tables):
            counts = n[number * n_files : (number + 1) * n_files]
            part = slice(ends[number * n_files] - counts[0], ends[(number + 1) * n_files - 1])
            some = None if records is None or part.start == part.stop else records.part(part)
            out.append(_table(table, some, owner[part] - number * n_files, counts))
        return out

    def _forest(self, roots: Ints, owner: Ints, file: Ints) -> tuple[Ints, Ints]:
        """Return the leaf pages below root pages, owner by owner, and the owner of each."""
        pages = self._global_pages(roots, file)
        leaves: list[tuple[Ints, Ints]] = []
        is_done = np.zeros(int(owner.max(initial=0)) + 1, np.bool_)
        n_visited = 0
        for _ in range(DEEPEST):
            begin, kind, n_cells = self.header(pages)
            leaf = kind == LEAF
            check((leaf | (kind == INTERIOR)).all() and not is_done[owner].any(), "a page that belongs to no table")
            leaves.append((pages[leaf], owner[leaf]))
            is_done[owner[leaf]] = True
            inner = np.flatnonzero(~leaf)
            n_visited += int(n_cells[inner].sum()) + len(inner)
            check(not is_done[owner[inner]].any() and n_visited <= self.count, "pages that are used twice")
            if not len(inner):
                every, of = (np.concatenate(parts) for parts in zip(*leaves, strict=True))
                order = np.argsort(of, kind="stable")
                return every[order], of[order]
            below, _ = self.children(pages[inner], begin[inner], n_cells[inner], np.zeros(len(inner), np.int64))
            owner, file = (np.repeat(column[inner], n_cells[inner] + 1) for column in (owner, file))
            pages = self._global_pages(below, file)
        raise PageError("a tree without an end")

    def _global_pages(self, pages: Ints, file: Ints) -> Ints:
        """Convert numbers of pages in their files to numbers over all files."""
        is_inside = (pages >= 2) & (pages <= self._before[file + 1] - self._before[file])
        check(is_inside.all(), "a page that no table can have")
        return pages + self._before[file]


def _table(layouts: Sequence[TableLayout | None], records: Records | None, owner: Ints, n: Ints) -> JoinedTable | Slow:
    """Return the rows of one table of every file, all with equal columns, if all records stand in their pages."""
    if records is not None and not (records.knows_all and records.is_whole):
        return Slow("records that are not in one page")
    return JoinedTable(next(filter(None, layouts), None), records, owner, n)


@dataclass(frozen=True)
class OwnedRows:
    """Rows of one table of several files, by columns: `n[k]` of them are of file k, and these come one after the
    other."""

    cells: Cells
    n: Ints

    @cached_property
    def firsts(self) -> Ints:
        """Return the first row of every file."""
        return np.cumsum(self.n) - self.n

    @cached_property
    def owner(self) -> Ints:
        """Return the file of every row."""
        return np.repeat(np.arange(len(self.n)), self.n)

    def of_file(self, number: int) -> Cells:
        """Return the rows of one file."""
        first = int(self.firsts[number])
        rows = slice(first, first + int(self.n[number]))
        return {name: column[rows] for name, column in self.cells.items()}

    @classmethod
    def join(cls, parts: Sequence[Cells]) -> OwnedRows:
        """Join the rows of files, each of which has the same columns."""
        n = np.array([len(next(iter(part.values()))) for part in parts], np.int64)
        if len(parts) == 1:
            return cls(parts[0], n)
        return cls({name: np.concatenate([part[name] for part in parts]) for name in parts[0]}, n)


@dataclass(frozen=True)
class JoinedTable:
    """The rows of one table of several files; `n[k]` of them are of file k, and these come one after the other."""

    layout: TableLayout | None
    records: Records | None
    owner: Ints
    n: Ints

    def __len__(self) -> int:
        return len(self.owner)

    def rows(self, columns: Mapping[str, Type]) -> OwnedRows:
        """Return some columns of all rows; missing ones read as absent."""
        return OwnedRows({name: self._column(name, type_) for name, type_ in columns.items()}, self.n)

    def _column(self, name: str, type_: Type) -> Array:
        column = self._find_column(name)
        if self.records is None or column is None:
            return absent(len(self.owner), type_)
        if type_ is Type.TEXT:
            return text_column(self.texts(name, np.arange(len(self.owner))))
        check(type_ is Type.INTEGER, "a column of times or of doubles")
        if column.place == ABSENT:
            return self.records.rows.rowid
        self._check_stored(column)
        values, other = self.records.integers(column.place, MISSING)
        check(not len(other), "cells that are not integers")
        return values

    def texts(self, name: str, rows: Ints) -> Sequence[object]:
        """Return a column of some rows as it is stored."""
        column = self._find_column(name)
        if self.records is None or column is None:
            return [None] * len(rows)
        check(column.place != ABSENT, "a column that is not text")
        self._check_stored(column)
        return self.records.objects(column.place, rows)

    def _find_column(self, name: str) -> PageColumn | None:
        return None if self.layout is None else self.layout.columns.get(name)

    def _check_stored(self, column: PageColumn) -> None:
        """Check that records hold the values of a column as they are: no default of an added column, and no doubles."""
        check(not column.is_real, "a column of doubles")
        if column.has_default and self.records is not None:
            is_older = (self.records.serials(column.place) < NULL).any()
            check(not is_older, "records from before a column was added that has a default")

    def is_everywhere(self, name: str, text: str) -> bool:
        """Return whether all rows hold this text; True where there is no such column."""
        if self.records is None or self.layout is None or name not in self.layout.columns:
            return True
        column = self.layout.columns[name]
        return column.place != ABSENT and bool(self.records.equals(column.place, text.encode()).all())


WORTH_KEEPING = 1000  # rows; few are found as fast as they are kept


@dataclass
class KnownTables:
    """Where the rows of some tables stand, of files that were read before: files are opened first to list processes and
    places, and then read again for their events."""

    versions: Sequence[tuple[Path, Version]]
    tables: dict[str, _KnownTable] = field(default_factory=dict)


@dataclass(frozen=True)
class _KnownTable:
    layout: TableLayout | None
    rows: FoundRows | None  # None: it has none
    n: Ints

    @classmethod
    def from_table(cls, table: JoinedTable, room: Room) -> _KnownTable | None:
        """Return where the rows of a table stand; None where there is no room for it, or rows cannot be kept, or are
        few."""
        rows = None if len(table) < WORTH_KEEPING or table.records is None else FoundRows.from_records(table.records)
        if rows is None and len(table):
            return None
        known_table = cls(table.layout, rows, table.n)
        return known_table if room.take(known_table, 0 if rows is None else rows.n_bytes) else None

    def table(self, pages: JoinedPages) -> JoinedTable:
        records = None if self.rows is None else self.rows.records(pages.bytes)
        return JoinedTable(self.layout, records, np.repeat(np.arange(len(self.n)), self.n), self.n)


class JoinedFiles:
    """Files that nobody writes, read at once. Tables are named by a key: in file k a table is called `table_name(key,
    k)`, and may be missing."""

    def __init__(self, files: Sequence[SqliteFile], table_name: Callable[[str, int], str], keeps: bool = False) -> None:
        """Join files; with `keeps`, remember where rows stand for the next reader of the same tables."""
        self.files, self._table_name, self._keeps = files, table_name, keeps
        self._buffer: Array | None = None
        self._pages: JoinedPages | Slow | None = None
        self._tables: dict[str, JoinedTable | Slow] = {}
        self._known = KnownTables([])

    # -- rows, or why every file has to be read by itself --------------------------------------------------------------

    def n_rows(self, key: str) -> Ints | Slow:
        """Return how many rows of a table each file has."""
        return decode(self._table(key), lambda table: table.n)

    def rows(self, key: str, columns: Mapping[str, Type]) -> OwnedRows | Slow:
        """Return columns of all rows of a table."""
        return decode(self._table(key), lambda table: table.rows(columns))

    def all_rows(self, key: str, columns: Mapping[str, Type]) -> OwnedRows:
        """Return columns of all rows of a table, read from every file by itself where that is needed."""
        rows = self.rows(key, columns)
        if not isinstance(rows, Slow):
            return rows
        return OwnedRows.join([file.table(self._table_name(key, k), columns) for k, file in enumerate(self.files)])

    def columns(self, key: str) -> set[str]:
        """Return the columns that a table has in any file."""
        named = [(k, self._table_name(key, k)) for k in dict.fromkeys(self.first_alike)]
        return {column for k, name in named for column in self.files[k].tables.get(name, ())}

    @cached_property
    def first_alike(self) -> list[int]:
        """Return for every file the first one that has the same tables, in the same places and under the same names
        but for a GUID. Most runs have one."""
        firsts: dict[tuple[int, str], int] = {}
        named = [(file.schema, self._table_name("", k)) for k, file in enumerate(self.files)]
        return [firsts.setdefault((id(s.declarations), s.marked(name)), k) for k, (s, name) in enumerate(named)]

    def texts(self, key: str, column: str, rows: Ints) -> Array | Slow:
        """Return a column of texts for some rows of a table."""
        return decode(self._table(key), lambda table: text_column(table.texts(column, rows)))

    def is_everywhere(self, key: str, column: str, text: str) -> bool | Slow:
        """Return whether all rows hold this text; True where there is no such column."""
        return decode(self._table(key), lambda table: table.is_everywhere(column, text))

    # -- tables --------------------------------------------------------------------------------------------------------

    def _table(self, key: str) -> JoinedTable | Slow:
        if key not in self._tables:
            self.read([key])
        return self._tables[key]

    def read(self, keys: Sequence[str]) -> None:
        """Locate the rows of several small tables at once, for later calls."""
        pages, known = self.pages, self._known.tables
        if isinstance(pages, Slow):
            self._tables |= dict.fromkeys(keys, pages)
            return
        self._tables |= {key: known[key].table(pages) for key in keys if key in known and key not in self._tables}
        layouts = {key: self._layouts(key) for key in keys if key not in self._tables}
        self._tables |= {key: layout for key, layout in layouts.items() if isinstance(layout, Slow)}
        wanted = {key: layout for key, layout in layouts.items() if not isinstance(layout, Slow)}
        if not wanted:
            return
        decoded = decode(pages, lambda pages: pages.several(list(wanted.values())))
        tables = [decoded] * len(wanted) if isinstance(decoded, Slow) else decoded
        self._tables |= dict(zip(wanted, tables, strict=True))
        for key, table in zip(wanted, tables, strict=True) if self._keeps else ():
            if isinstance(table, JoinedTable) and (
                known_table := _KnownTable.from_table(table, self.files[0].cache.room)
            ):
                known[key] = known_table

    def _layouts(self, key: str) -> list[TableLayout | None] | Slow:
        """Return where each file has a table, None for files that lack it; `Slow` where that cannot be told."""
        known: dict[int, TableLayout | None] = {}
        for k in dict.fromkeys(self.first_alike):
            name = self._table_name(key, k)
            if name in self.files[k].tables:
                known[k] = self.files[k].schema.layout(name)
        planned = plan_table(list(known.values())) if known else None
        return planned if isinstance(planned, Slow) else [known.get(k) for k in self.first_alike]

    # -- bytes ---------------------------------------------------------------------------------------------------------

    @property
    def pages(self) -> JoinedPages | Slow:
        """Return the pages of all files, read when they are first asked for."""
        if self._pages is None:
            self._pages = self._read()
        return self._pages

    def _read(self) -> JoinedPages | Slow:
        latest = [file.latest_version for file in self.files]
        pages = self._read_versions(latest)
        if pages != Slow(CHANGED):
            return pages
        now = [version_of(file.path) for file in self.files]
        return pages if now == latest else self._read_versions(now)

    def _read_versions(self, versions: Sequence[Version]) -> JoinedPages | Slow:
        """Read the files, which must be of these versions."""
        facts = list(map(SqliteFile.facts, self.files, versions))
        page_format = plan(facts)
        if isinstance(page_format, Slow):
            return page_format
        bounds = [0, *accumulate(fact.size for fact in facts)]
        self._buffer = self._take_memory(bounds[-1])
        for k, (file, version) in enumerate(zip(self.files, versions, strict=True)):
            part = self._buffer[bounds[k] : bounds[k + 1]]
            if reason := _fill(file.path, part, facts[k].head, version):
                self.give_back()
                return Slow(reason)
            file.give(part, version)
        self._known = self._knowledge_of(versions)
        return JoinedPages(self._buffer[: bounds[-1]], page_format, bounds)

    def _take_memory(self, n_bytes: int) -> Array:
        """Return memory to read into: what the files before were read into, where that is enough."""
        cache = self.files[0].cache
        spare, cache.spare = cache.spare, None
        return spare if spare is not None and len(spare) >= n_bytes else np.empty(max(n_bytes, BUNDLE_BYTES), np.uint8)

    def _knowledge_of(self, versions: Sequence[Version]) -> KnownTables:
        """Return what is known of these files in their current versions."""
        first = self.files[0]
        now = [(file.path, version) for file, version in zip(self.files, versions, strict=True)]
        if first.known_tables is None or first.known_tables.versions != now:
            first.known_tables = KnownTables(now)
        return first.known_tables

    def give_back(self) -> None:
        """Forget everything; a later call reads the files again."""
        if self._buffer is not None:
            for file in self.files:
                file.close()
            self.files[0].cache.spare = self._buffer
        self._buffer = self._pages = None
        self._tables = {}
        self.__dict__.pop("first_alike", None)

    def __getstate__(self) -> dict[str, object]:
        """Leave out what was read: a worker reads the files itself."""
        kept = {name: value for name, value in self.__dict__.items() if name != "first_alike"}
        return {
            **kept,
            "_buffer": None,
            "_pages": None,
            "_tables": {},
            "_known": KnownTables([]),
        }


def _fill(path: Path, part: Array, head: bytes, version: Version) -> str:
    """Read all bytes of a file, which must be of a version and begin with `head`; return what went wrong, or an empty
    text."""
    try:
        n_read, status = read_into(path, part.data)
    except OSError as error:
        return str(error)
    is_same = version_from(status) == version and n_read == len(part)
    return "" if is_same and part[: len(head)].tobytes() == head else CHANGED
