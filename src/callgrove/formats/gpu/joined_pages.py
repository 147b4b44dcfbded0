"""The pages of several small files at once: one table of each, as if these were a single one.

Most of what a small table costs is the number of operations on arrays, not their length. All databases of one run have
tables with the same columns, so that these operations can be had once for many files.

    file 0: page 1 | page 2 | ...     file 1: page 1 | page 2 | ...     pages are numbered over all files
    owner   0        0                        1        1                 the file that a page or a row is of

Only what is plain is read like this: equal sizes of pages and columns, records that stand in their pages, and numbers
where these are asked for. Anything else is `Unusual`, and every file is read by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from callgrove.formats.gpu.pages import DEEPEST, INTERIOR, LEAF, Pages, Unusual
from callgrove.formats.gpu.pages_records import NULL, Records
from callgrove.formats.gpu.pages_tables import PageColumn, TableLayout
from callgrove.model.arrays import ABSENT, Array, Ints

__all__ = ["JoinedPages", "JoinedTable"]

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
