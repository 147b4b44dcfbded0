"""SQLite's table b-trees, read straight from the bytes of a file that nobody writes.

Specification: sqlite.org/fileformat2.html. SQLite hands out rows one value at a time; a trace has millions of rows of
the same few shapes, so here a batch of pages is taken apart at once.

    file         page 1 | page 2 | ...             all of one size; the header of 100 bytes stands in page 1
    interior     0x05  n cells  rightmost child    cells: child page (u32), last row id below it (varint)
    leaf         0x0d  n cells                     cells: payload size (varint), row id (varint), record, [u32 overflow]
    record       header size, serial types (varints), then the values, big-endian and as short as they can be

A page's cells are found by an array of u16 after its header. A record that does not fit its page goes on in a chain of
overflow pages, each u32 next page (0: none) and then bytes.

Nothing is repaired and nothing is guessed: whatever does not look as it should, tables without row ids included, is
a `PageError`, and whoever reads leaves the rest to SQLite. Every offset is checked before it is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from callgrove.arrays import Array, Bools, Ints
from callgrove.binary.files import ReadableBytes
from callgrove.binary.sqlite.numbers import Bytes, PageError, check

if TYPE_CHECKING:
    from callgrove.binary.sqlite.records import Header

__all__ = ["Leaves", "PageFormat", "PageReader", "Pages", "PagesInMemory", "RowBatch", "Window"]

INTERIOR, LEAF = 0x05, 0x0D
DEEPEST = 20  # levels; SQLite's own limit
BATCH_BYTES = 8 << 20
BATCH_ROWS = 1 << 16
WINDOW_BYTES = 8 << 20  # that are read at once
MOST_READ_FOR_ONE = 8  # pages that are read for one page of a table
PADDING = 512  # bytes behind a window, as records are looked at in blocks
LAST_ROWID = int(np.iinfo(np.int64).max)


@dataclass(frozen=True)
class PageFormat:
    """The size of the pages of a file, and how many bytes of each hold rows."""

    size: int
    usable: int


@dataclass(frozen=True)
class Leaves:
    """The leaf pages of a table in order, and the last row id that each may hold."""

    page: Ints
    last_rowid: Ints

    def select_between(self, low: int, high: int) -> Leaves:
        """Return the leaves that may hold row ids from low to high."""
        first, last = (int(k) for k in np.searchsorted(self.last_rowid, [low, high], side="left"))
        return Leaves(self.page[first : last + 1], self.last_rowid[first : last + 1])


@dataclass(frozen=True)
class RowBatch:
    """Rows of some leaf pages: row id, where the record begins, its size, and how much of it stands in the page."""

    rowid: Ints
    start: Ints
    size: Ints
    local: Ints

    def take(self, rows: Array | slice) -> RowBatch:
        return RowBatch(self.rowid[rows], self.start[rows], self.size[rows], self.local[rows])

    def __len__(self) -> int:
        return len(self.rowid)


class PagesInMemory:
    """Pages that follow each other in a file, the first of them page number `first`, and the rows in them."""

    def __init__(self, data: Bytes, page_format: PageFormat, first: int, count: int) -> None:
        self.format, self.size, self.usable = page_format, page_format.size, page_format.usable
        self.bytes, self.first, self.count = data, first, count
        self._halves = data.data[: count * self.size].view(">u2").reshape(count, self.size // 2)

    @property
    def window(self) -> Window | None:
        """Return which pages these are, for `PageReader.read`."""
        return Window(self.first, self.count)

    def begin(self, pages: Ints) -> Ints:
        """Return where pages begin. The first page of a file, which has another header, belongs to the schema."""
        end = self.first + self.count
        is_sound = not len(pages) or (int(pages.min()) >= max(2, self.first) and int(pages.max()) < end)
        check(is_sound, "a page that no table can have")
        return (pages - self.first) * self.size

    def header(self, pages: Ints) -> tuple[Ints, Array, Ints]:
        """Return where pages begin, their kind, and their number of cells."""
        begin = self.begin(pages)
        word = self.bytes.words(begin)
        return begin, word >> np.uint64(56), ((word >> np.uint64(24)) & np.uint64(0xFFFF)).astype(np.int64)

    def cells(self, pages: Ints, begin: Ints, n_cells: Ints, header: int, least: int) -> Ints:
        """Return where the cells of pages begin."""
        most = int(n_cells.max(initial=0))
        check(header + 2 * most <= self.usable, "more cells than a page has room for")
        pointers = self._halves[pages - self.first, header // 2 : header // 2 + most].astype(np.int64)
        pointer = pointers[np.arange(most) < n_cells[:, None]]
        lowest, is_used = _reduce_pages(np.minimum, pointer, n_cells)
        check((lowest >= header + 2 * n_cells[is_used]).all(), "a cell outside of its page")
        check(int(pointer.max(initial=0)) <= self.usable - least, "a cell outside of its page")
        pointer += np.repeat(begin, n_cells)
        return pointer

    def rows(self, pages: Ints, begin: Ints, n_cells: Ints) -> RowBatch:
        """Return the rows of leaf pages."""
        cell = self.cells(pages, begin, n_cells, 8, 4)
        size, rowid, start = self.bytes.varint_pairs(cell)
        check(int(size.min(initial=0)) >= 0, "a record of a negative size")
        local = self._local(size)
        end = start + local if local is size else start + local + 4 * (local < size)
        last, is_used = _reduce_pages(np.maximum, end, n_cells)
        check((last <= begin[is_used] + self.usable).all(), "a record that leaves its page")
        return RowBatch(rowid, start, size, local)

    def _local(self, size: Ints) -> Ints:
        """Return how many bytes of each record its page holds."""
        most = self.usable - 35
        if not len(size) or int(size.max()) <= most:
            return size
        least = (self.usable - 12) * 32 // 255 - 23
        some = least + (size - least) % (self.usable - 4)
        return np.where(size <= most, size, np.where(some <= most, some, least))

    def local(self, size: int) -> int:
        """Return how many bytes of one record its page holds."""
        most, least = self.usable - 35, (self.usable - 12) * 32 // 255 - 23
        if size <= most:
            return size
        some = least + (size - least) % (self.usable - 4)
        return some if some <= most else least


def _reduce_pages(function: np.ufunc, of_cells: Ints, n_cells: Ints) -> tuple[Ints, Bools]:
    """Return the least or the largest number of the cells of each page that has any, and which pages these are."""
    is_used = n_cells > 0
    firsts = (np.cumsum(n_cells) - n_cells)[is_used]
    return function.reduceat(of_cells, firsts) if len(firsts) else of_cells[:0], is_used


class Pages(PagesInMemory):
    """The pages of one file, from all of its bytes; `file` is where these are mapped from, if they are."""

    def __init__(
        self,
        data: Array,
        page_format: PageFormat,
        file: ReadableBytes | None = None,
        known_headers: dict[bytes, Header] | None = None,
    ) -> None:
        count = len(data) // page_format.size
        self.known_headers = {} if known_headers is None else known_headers
        super().__init__(Bytes(data[: count * page_format.size], self.known_headers), page_format, 1, count)
        self.file = file
        self._spilled = 0
        self._leaves: dict[int, Leaves] = {}
        self.buffer = self.bytes.data.data  # the same, byte by byte

    @property
    def window(self) -> Window | None:
        return None

    def is_single(self, root: int) -> bool:
        """Return whether a table is one page."""
        return 2 <= root <= self.count and int(self.bytes.data[(root - 1) * self.size]) == LEAF

    def _headers(self, pages: Ints) -> tuple[Ints, Array, Ints]:
        """Return the headers of any number of pages, without having all of them mapped at once."""
        most = max(1, BATCH_BYTES // self.size)
        if self.file is None or len(pages) <= most:
            return self.header(pages)
        parts = []
        for first in range(0, len(pages), most):
            parts.append(self.header(pages[first : first + most]))
            self.forget()
        at, kind, n_cells = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        return at, kind, n_cells

    def forget(self) -> None:
        """Give mapped pages back."""
        if self.file is not None:
            self.file.forget()

    # -- the tree ----------------------------------------------------------------------------------------------------

    def leaves(self, root: int) -> Leaves:
        """Return all leaf pages of a table."""
        if root not in self._leaves:
            self._leaves[root] = self._find_leaves(root)
        return self._leaves[root]

    def _find_leaves(self, root: int) -> Leaves:
        pages, last = np.array([root], np.int64), np.array([LAST_ROWID], np.int64)
        visited = 1
        for _ in range(DEEPEST):
            if int(self.header(pages[:1])[1][0]) == LEAF:  # as all of its level are: who reads them looks
                check((last[1:] > last[:-1]).all(), "row ids that do not rise")
                return Leaves(pages, last)
            at, kind, n_cells = self._headers(pages)
            check((kind == INTERIOR).all(), "a page that belongs to no table")
            visited += int(n_cells.sum()) + len(pages)
            check(visited <= self.count, "pages that are used twice")
            pages, last = self.children(pages, at, n_cells, last)
        raise PageError("a tree without an end")

    def children(self, pages: Ints, at: Ints, n_cells: Ints, last: Ints) -> tuple[Ints, Ints]:
        """Return the children of interior pages, in order, and the last row id below each."""
        cell = self.cells(pages, at, n_cells, 12, 5)
        key, _ = self.bytes.varints(cell + 4)
        place = np.cumsum(n_cells + 1) - 1  # of the rightmost ones among all
        children, bounds = np.empty(len(cell) + len(pages), np.int64), np.empty(len(cell) + len(pages), np.int64)
        others = np.ones(len(children), np.bool_)
        others[place] = False
        children[place], bounds[place] = self.bytes.u32(at + 8), last
        children[others], bounds[others] = self.bytes.u32(cell), key
        return children, bounds

    # -- the rows ----------------------------------------------------------------------------------------------------

    def n_rows(self, leaves: Leaves) -> int:
        _, kind, n_cells = self._headers(leaves.page)
        check((kind == LEAF).all(), "a page that is not a leaf")
        return int(n_cells.sum())

    def batches(self, leaves: Leaves) -> Iterator[tuple[PagesInMemory, RowBatch]]:
        """Yield the rows of leaf pages, some pages at a time, which stay in memory until the next ones are asked
        for."""
        reader = PageReader(self)
        first = 0
        most = largest = max(1, BATCH_BYTES // self.size)
        before = -LAST_ROWID - 1
        while first < len(leaves.page):
            pages, some = reader.read_first(leaves.page[first : first + most])
            begin, kind, n_cells = some.header(pages)
            check((kind == LEAF).all(), "a page that is not a leaf")
            n = max(1, int(np.searchsorted(np.cumsum(n_cells), BATCH_ROWS, side="right")))
            batch = some.rows(pages[:n], begin[:n], n_cells[:n])
            first += len(pages[:n])
            most = min(n + n // 32 + 1, largest)  # what is read without need is read twice
            if not len(batch):
                continue
            check(int(batch.rowid[0]) >= before, "row ids that do not rise")
            check((batch.rowid[1:] > batch.rowid[:-1]).all(), "row ids that do not rise")
            before = int(batch.rowid[-1])
            yield some, batch

    def read_overflow(self, rows: RowBatch, wanted: Ints, base: int = 0) -> tuple[Bytes, RowBatch]:
        """Return the records of rows joined with their overflow pages, up to `wanted` bytes each; `base` is where in
        the file the places of rows are counted from."""
        self._note_spilled(int(wanted.sum()))
        check((wanted <= rows.size).all(), "values that leave their record")
        parts = [b"\0" * 8]
        for k, length in enumerate(wanted.tolist()):
            parts.append(self._chain(base + int(rows.start[k]), int(rows.local[k]), length))
        start = np.cumsum([len(part) for part in parts[:-1]])
        data = np.frombuffer(b"".join([*parts, b"\0" * 8]), np.uint8)
        return Bytes(data, self.known_headers), RowBatch(rows.rowid, start, rows.size, wanted)

    def chain(self, start: int, local: int, size: int) -> bytes:
        """Return one record joined with its overflow pages."""
        self._note_spilled(size)
        return self._chain(start, local, size)

    def _note_spilled(self, n_bytes: int) -> None:
        """Bound the work: no sound file has more bytes in overflow pages than in all."""
        self._spilled += n_bytes
        check(self._spilled <= 4 * len(self.bytes), "records that share their pages")

    def _chain(self, start: int, local: int, wanted: int) -> bytes:
        data = self.bytes.data
        out = [data[start : start + local].tobytes()]
        missing, at = wanted - local, start + local
        while missing > 0:
            page = int.from_bytes(data[at : at + 4].tobytes(), "big")
            check(1 <= page <= self.count, "an overflow page outside of the file")
            at = (page - 1) * self.size
            out.append(data[at + 4 : at + 4 + min(missing, self.usable - 4)].tobytes())
            missing -= self.usable - 4
        return b"".join(out)[:wanted]


# -- pages in memory that is used again --------------------------------------------------------------------------------
# Rows of a mapped file are slow to look at: every page has to be mapped, and every row comes from far away. So pages
# that stand close to each other are read into a few megabytes, where the processor has them at hand. Where this was
# measured, reading took 0.06 ns a byte, and then a look at one byte of each row 1 ns instead of 13.


class Window(NamedTuple):
    """Pages that follow each other in a file: the number of the first, and how many there are."""

    first: int
    n_pages: int


class PageReader:
    """What brings pages of a file into memory for one caller; what it has brought is gone with the next."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._memory = np.empty(0, np.uint8)

    def read_first(self, pages: Ints) -> tuple[Ints, PagesInMemory]:
        """Return the first ones of some pages, at least one, and the memory in which these stand."""
        self._pages.begin(pages)
        window, n = _find_window(pages, max(1, WINDOW_BYTES // self._pages.size))
        if window is None or not self._can_read:
            return pages, self._pages
        return pages[:n], self.read(window)

    @property
    def _can_read(self) -> bool:
        return self._pages.file is not None and self._pages.file.can_read

    def read(self, window: Window | None) -> PagesInMemory:
        """Return the pages of a window; None stands for those of the whole file."""
        file, size = self._pages.file, self._pages.size
        if window is None or file is None:
            return self._pages
        n_bytes, offset = window.n_pages * size, (window.first - 1) * size
        if len(self._memory) < n_bytes + PADDING:
            self._memory = np.empty(n_bytes + PADDING, np.uint8)
        try:
            is_whole = file.read_into(self._memory[:n_bytes], offset)
        except OSError as error:  # SQLite tries again, and says so
            raise PageError(f"pages that cannot be read: {error}") from error
        check(is_whole, "a file that has become shorter")
        self._memory[n_bytes : n_bytes + PADDING] = 0
        data = Bytes(self._memory[: n_bytes + PADDING], self._pages.known_headers, offset)
        return PagesInMemory(data, self._pages.format, window.first, window.n_pages)


def _find_window(pages: Ints, most: int) -> tuple[Window | None, int]:
    """Return the window of the first ones of some pages, and how many of them are in it; None where most of it would be
    other pages."""
    low, high = np.minimum.accumulate(pages), np.maximum.accumulate(pages)
    n = int(np.count_nonzero(high - low < most))
    window = Window(int(low[n - 1]), int(high[n - 1] - low[n - 1]) + 1)
    return (window if n * MOST_READ_FOR_ONE >= window.n_pages else None), n
