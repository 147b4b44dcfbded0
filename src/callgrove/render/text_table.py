"""A table for people: aligned columns, numbers to the right and whole, long names cut, control characters made visible.

Names give way, numbers and judgements never. Where a line is longer than a terminal, columns of text are narrowed, the
others before the indentation of the first suffers; where that is not enough, the table goes on in further blocks of
columns below, each with the names of the rows again:

    name   exclusive  inclusive
    -----  ---------  ---------
    solve     1.20 s     3.40 s

    name   visits
    -----  ------
    solve      12

The layout is the same on a terminal and in a file; a terminal only adds its width and, where wanted, colours. It is
made here and not by rich.Table, which needs the whole table at once and 0.4 ms for a row of eight cells (here 25 us).
Column widths come from the first chunk and grow with later ones, so a stream needs the memory of one chunk.
"""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from callgrove.model.table import Column, Table, visible
from callgrove.render.text_formats import (
    Graded,
    Identifier,
    Prose,
    Signed,
    Whole,
    cell_texts,
    chunks,
    is_numeric,
    more_rows,
    reading_writers,
)

__all__ = ["INDENT", "LEAST_NAME", "PLAIN", "Look", "display_width", "indentation", "shorten", "text_table", "visible"]


# -- text from files, made safe to print -------------------------------------------------------------------------------
# visible("a\x1b[2Jb")   ->  'a\\x1b[2Jb'
# display_width("日本")  ->  4
# shorten("abcdefghij", 7)  ->  'abc…hij'


INDENT = 2  # spaces for each level of a tree
LEAST_NAME = 12  # cells of a name that an indentation has to leave
_LEVEL = re.compile(r"\(\d+\) ", re.ASCII)


def display_width(text: str) -> int:
    """Return how many terminal cells a text takes."""
    return len(text) if text.isascii() else sum(map(_char_width, text))


def _char_width(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def indentation(text: str) -> int:
    """Return how many spaces a text begins with."""
    return len(text) - len(text.lstrip(" "))


def shorten(text: str, width: int, ellipsis: str = "…") -> str:
    """Return the text in at most `width` cells, its middle cut out: both ends of a long name tell it apart. An
    indentation stays as long as it leaves room for a name; a deeper level is written as a number: `(12) name`."""
    if display_width(text) <= width:
        return text
    if text.startswith(" ") and text.strip(" "):
        return _shorten_indented(indentation(text), text.lstrip(" "), width, ellipsis)
    kept = width - len(ellipsis)
    if kept < 2:
        return _fitting(text, width)
    head = _fitting(text, (kept + 1) // 2)
    tail = _fitting(text[::-1], kept // 2)[::-1]
    return head + ellipsis + tail


def _shorten_indented(indent: int, name: str, width: int, ellipsis: str) -> str:
    if width - indent >= min(LEAST_NAME, display_width(name)):
        return " " * indent + shorten(name, width - indent, ellipsis)
    level = "" if _LEVEL.match(name) else f"({indent // INDENT}) "
    kept = max(width - len(level) - LEAST_NAME, 0)
    room = width - kept - len(level)
    return " " * kept + level + shorten(name, room, ellipsis) if room >= 1 else shorten(level + name, width, ellipsis)


def _fitting(text: str, width: int) -> str:
    """Return the longest start of the text that fits."""
    used = 0
    for index, char in enumerate(text):
        used += _char_width(char)
        if used > width:
            return text[:index]
    return text


# -- the table ---------------------------------------------------------------------------------------------------------


GAP = "  "
WIDEST_CELL = 160  # where no width is given: some C++ names have thousands of characters
NARROWEST_FIRST = 16  # cells of the first column, before columns go to another block
NARROWEST_CELL = 10  # the same of other columns of text; and of all within a block
WIDEST_HEADING = 32  # of a column of numbers; longer ones are cut, the numbers are not
MOST_INDENTED = 40  # columns that the indentation of the first one is worth to the others

_BOLD, _DIM, _RESET = "\x1b[1m", "\x1b[2m", "\x1b[0m"
_LESS, _MORE = "\x1b[32m", "\x1b[31m"  # green and red
_DOUBTFUL, _BAD = "\x1b[33m", "\x1b[31m"  # yellow and red
_WRITERS = reading_writers(visible)


@dataclass(frozen=True)
class Look:
    """Where text is shown. No width: not a terminal, lines may be long. `unicode`: it can show more than ASCII."""

    width: int | None = None
    colour: bool = False
    unicode: bool = True

    @property
    def ellipsis(self) -> str:
        return "…" if self.unicode else "..."

    def bold(self, text: str) -> str:
        return f"{_BOLD}{text}{_RESET}" if self.colour else text

    def dim(self, text: str) -> str:
        return f"{_DIM}{text}{_RESET}" if self.colour else text

    def by_sign(self, text: str) -> str:
        """Return what became less in green, what became more in red."""
        if not self.colour or not text.strip():
            return text
        return f"{_LESS if text.lstrip().startswith('-') else _MORE}{text}{_RESET}"

    def by_grade(self, text: str) -> str:
        """Return what is doubtful (!) in yellow, what is bad (!!) in red."""
        if not self.colour or not text.rstrip().endswith("!"):
            return text
        return f"{_BAD if text.rstrip().endswith('!!') else _DOUBTFUL}{text}{_RESET}"

    def painter(self, column: Column) -> Callable[[str], str] | None:
        """Return what colours the cells of a column; None for most columns."""
        return self.by_sign if isinstance(column, Signed) else self.by_grade if isinstance(column, Graded) else None


PLAIN = Look()


def text_table(tables: Iterable[Table], look: Look = PLAIN, caption: str = "") -> Iterator[str]:
    """Lay out the chunks of one table, below its caption."""
    layout: _Layout | None = None
    left = 0
    if caption:
        yield _lay_out_caption(caption, look)
    for table in chunks(tables):
        columns = [list(cell_texts(column, _WRITERS)) for column in table.columns]
        begun = layout is not None
        layout = layout or _Layout.of(table, look)
        layout.grow(columns)
        blocks = layout.blocks()
        for number, block in enumerate(blocks):
            if (begun and len(blocks) > 1) or number:
                yield "\n"
            if not begun or len(blocks) > 1:
                yield block.header()
            yield block.lines(columns)
        left = table.left or left
    if left:
        yield look.dim(look.ellipsis + " " + more_rows(left)) + "\n"


def _lay_out_caption(caption: str, look: Look) -> str:
    """Return a caption in lines as long as a terminal is wide, and an empty line."""
    lines = textwrap.wrap(visible(caption), look.width) if look.width else [visible(caption)]
    return "\n".join(lines) + "\n\n"


def _may_be_cut(column: Column) -> bool:
    return not (is_numeric(column) or isinstance(column, (Whole, Prose)))


@dataclass
class _Layout:
    """Names, alignment and wanted widths of the columns. `names_rows` are the first columns, which tell rows apart."""

    names: list[str]
    to_right: list[bool]
    cuttable: list[bool]
    names_rows: list[int]
    prose: bool  # the last column is sentences, which are as long as they are
    painters: list[Callable[[str], str] | None]
    look: Look
    wanted: list[int] = field(default_factory=list)
    indent: int = 0  # of the first column

    @classmethod
    def of(cls, table: Table, look: Look) -> _Layout:
        names = [visible(name) for name in table.names]
        to_right = [is_numeric(column) for column in table.columns]
        cuttable = [_may_be_cut(column) for column in table.columns]
        prose = bool(table.columns) and isinstance(table.columns[-1], Prose)
        identify = [cut or isinstance(c, Identifier) for c, cut in zip(table.columns, cuttable, strict=True)]
        leading = identify.index(False) if False in identify else len(identify)
        painters = [look.painter(column) for column in table.columns]
        layout = cls(names, to_right, cuttable, list(range(max(1, leading))), prose, painters, look)
        layout.wanted = [
            min(display_width(name), WIDEST_HEADING if right else WIDEST_CELL)
            for name, right in zip(names, to_right, strict=True)
        ]
        return layout

    def grow(self, columns: Sequence[Sequence[str]]) -> None:
        """Widen columns to their cells."""
        for index, cells in enumerate(columns[:-1] if self.prose else columns):
            widest = max(map(display_width, cells), default=0)
            self.wanted[index] = max(self.wanted[index], min(widest, WIDEST_CELL) if self.cuttable[index] else widest)
        if columns:
            self.indent = max(self.indent, max(map(indentation, columns[0]), default=0))

    def blocks(self) -> list[_Block]:
        """Return all columns in one block, or in as many as a terminal needs."""
        every = list(range(len(self.names)))
        if self.look.width is None or self._least(every) <= self.look.width:
            return [self._block(every)]
        names_rows = self._choose_row_names(self.look.width)
        blocks: list[list[int]] = [[]]
        for index in every[len(names_rows) :]:
            if blocks[-1] and self._least([*names_rows, *blocks[-1], index]) > self.look.width:
                blocks.append([])
            blocks[-1].append(index)
        return [self._block([*names_rows, *block]) for block in blocks]

    def _choose_row_names(self, width: int) -> list[int]:
        """Return the columns that name the rows in every block: half of the width at most, but always one."""
        n = len(self.names_rows)
        while n > 1 and self._least(self.names_rows[:n]) > width // 2:
            n -= 1
        return self.names_rows[:n]

    def _floor(self, index: int) -> int:
        """Return the width below which a column is not narrowed as long as there is another way."""
        if self.prose and index == len(self.names) - 1:
            return 0
        least = NARROWEST_CELL if index else NARROWEST_FIRST
        return min(self.wanted[index], least) if self.cuttable[index] else self.wanted[index]

    def _least(self, indices: Sequence[int]) -> int:
        return sum(map(self._floor, indices)) + len(GAP) * (len(indices) - 1)

    def _block(self, indices: list[int]) -> _Block:
        widths = {index: self.wanted[index] for index in indices}
        if self.look.width is not None:
            self._narrow(widths, self.look.width)
        return _Block(self, indices, [widths[index] for index in indices])

    def _narrow(self, widths: dict[int, int], width: int) -> None:
        """Narrow the widest columns of text: first with regard to the indentation of names, then to what floors there
        are, at last below these."""
        cuttable = [index for index in widths if self.cuttable[index]]
        indented = {0: min(self.indent + LEAST_NAME, MOST_INDENTED)} if self.indent else {}
        floors = {index: self._floor(index) for index in cuttable}
        excess = sum(widths.values()) + len(GAP) * (len(widths) - 1) - width
        for least in (floors | indented, floors, dict.fromkeys(cuttable, NARROWEST_CELL)):
            excess = _take_away(widths, {index: least[index] for index in cuttable}, excess)


def _take_away(widths: dict[int, int], least: Mapping[int, int], excess: int) -> int:
    """Narrow columns by `excess` cells in all, always the widest one; returns what is still too much."""
    while excess > 0:
        wide = [index for index in least if widths[index] > least[index]]
        if not wide:
            break
        widths[max(wide, key=widths.__getitem__)] -= 1
        excess -= 1
    return excess


@dataclass(frozen=True)
class _Block:
    """Columns beside each other, with their widths."""

    layout: _Layout
    indices: list[int]
    widths: list[int]

    def header(self) -> str:
        look = self.layout.look
        rule = look.dim(GAP.join("-" * width for width in self.widths))
        names = [cell for k, index in enumerate(self.indices) for cell in self._pad(k, [self.layout.names[index]])]
        return f"{look.bold(GAP.join(names).rstrip())}\n{rule}\n"

    def lines(self, columns: Sequence[Sequence[str]]) -> str:
        padded = [self._paint(index, self._pad(k, columns[index])) for k, index in enumerate(self.indices)]
        return "".join(GAP.join(row).rstrip() + "\n" for row in zip(*padded, strict=True))

    def _paint(self, index: int, cells: Sequence[str]) -> Sequence[str]:
        paint = self.layout.painters[index]
        return cells if paint is None else list(map(paint, cells))

    def _pad(self, k: int, texts: Sequence[str]) -> Sequence[str]:
        """Return the cells of the k-th column, all of its width; sentences stay as they are."""
        index, width = self.indices[k], self.widths[k]
        if self.layout.prose and index == len(self.layout.names) - 1:
            return texts
        to_right = self.layout.to_right[index]
        return [self._cell(text, width, to_right) for text in texts]

    def _cell(self, text: str, width: int, to_right: bool) -> str:
        if len(text) <= width and text.isascii():  # most of them
            return text.rjust(width) if to_right else text.ljust(width)
        text = shorten(text, width, self.layout.look.ellipsis)
        padding = " " * (width - display_width(text))
        return padding + text if to_right else text + padding
