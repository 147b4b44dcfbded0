"""A table for people: aligned columns, numbers to the right and whole, long names cut in the middle.

The layout is the same on a terminal and in a file; a terminal only adds its width and, where wanted, colours. It is
made here and not by rich.Table, which needs the whole table at once and 0.4 ms for a row of eight cells (here 25 us).
Column widths come from the first chunk and grow with later ones, so a stream needs the memory of one chunk.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from callgrove.model.table import Column, Table
from callgrove.render.cells import Prose, cell_texts, chunks, is_numeric, left_out, reading_writers
from callgrove.render.visible import display_width, shorten, visible

__all__ = ["PLAIN", "Look", "text_table", "width_of"]

GAP = "  "
WIDEST_CELL = 160  # where no width is given: some C++ names have thousands of characters
NARROWEST_CELL = 8

_BOLD, _DIM, _RESET = "\x1b[1m", "\x1b[2m", "\x1b[0m"
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


PLAIN = Look()


def text_table(tables: Iterable[Table], look: Look = PLAIN) -> Iterator[str]:
    layout: _Layout | None = None
    left = 0
    for table in chunks(tables):
        columns = [list(cell_texts(column, _WRITERS)) for column in table.columns]
        if layout is None:
            layout = _Layout.of(table, look)
            layout.grow(columns)
            yield layout.header()
        else:
            layout.grow(columns)
        yield layout.lines(columns)
        left = table.left or left
    if left:
        yield look.dim(look.ellipsis + " " + left_out(left)) + "\n"


def width_of(column: Column) -> int:
    """The room that a column wants, with the gap behind it."""
    widths = map(display_width, cell_texts(column, _WRITERS))
    return max(display_width(visible(column.name)), max(widths, default=0)) + len(GAP)


@dataclass
class _Layout:
    """Names, widths and alignment of the columns."""

    names: list[str]
    to_right: list[bool]
    widths: list[int]
    prose: bool  # the last column is sentences
    look: Look

    @classmethod
    def of(cls, table: Table, look: Look) -> _Layout:
        names = [visible(name) for name in table.names]
        to_right = [is_numeric(column) for column in table.columns]
        prose = bool(table.columns) and isinstance(table.columns[-1], Prose)
        return cls(names, to_right, [display_width(name) for name in names], prose, look)

    def grow(self, columns: Sequence[Sequence[str]]) -> None:
        """Widens columns to their cells, then narrows columns of text until a line fits."""
        for index, cells in enumerate(columns[:-1] if self.prose else columns):
            self.widths[index] = max(self.widths[index], max(map(display_width, cells), default=0))
        if self.look.width is None:
            self.widths = [min(width, WIDEST_CELL) for width in self.widths]
        else:
            self._fit(self.look.width)

    def _fit(self, width: int) -> None:
        text_columns = [index for index, to_right in enumerate(self.to_right) if not to_right]
        excess = sum(self.widths) + len(GAP) * (len(self.widths) - 1) - width
        for _ in range(max(excess, 0)):
            widest = max(text_columns, key=lambda index: self.widths[index], default=None)
            if widest is None or self.widths[widest] <= NARROWEST_CELL:
                return
            self.widths[widest] -= 1

    def header(self) -> str:
        rule = self.look.dim(GAP.join("-" * width for width in self.widths))
        return f"{self.look.bold(self._line(self.names))}\n{rule}\n"

    def lines(self, columns: Sequence[Sequence[str]]) -> str:
        return "".join(self._line(row) + "\n" for row in zip(*columns, strict=True))

    def _line(self, cells: Sequence[str]) -> str:
        if self.prose:
            return GAP.join([*map(self._cell, cells[:-1], self.widths, self.to_right), cells[-1]]).rstrip()
        return GAP.join(map(self._cell, cells, self.widths, self.to_right)).rstrip()

    def _cell(self, text: str, width: int, to_right: bool) -> str:
        text = shorten(text, width, self.look.ellipsis)
        padding = " " * (width - display_width(text))
        return padding + text if to_right else text + padding
