"""Rows as text in a width: a mark for folding, the name under its parents, numbers, a bar.

    ▼ main                          0 s     6.16 s  100.0%  ██████████
      ▶ solve                   12.3 ms     5.50 s   89.3%  █████████

Numbers are never cut; names give way, then bars, then the column that says least.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from callgrove.arrays import Ints
from callgrove.explore.listing import Listing
from callgrove.explore.measures import NAME
from callgrove.model.table import visible
from callgrove.render.cost_texts import shorten_place, write_unit
from callgrove.render.text_formats import reading_float
from callgrove.render.text_table import display_width, shorten
from callgrove.render.units import amount, bar, draw_signed_bar, percent

__all__ = ["Layout", "Line", "compose_title"]

WIDTHS = {"percent": 9, "ratio": 8, "difference": 13}
COST = 11  # cells of a column of costs, a space included
BAR = 10
LEAST_NAME = 24  # cells; where names have less, bars and columns are left out
LEAST_INPUT, LEAST_FILTER = 8, 16  # cells of names of inputs, and of a filter, above the rows
GIVES_WAY = ("exclusive", "right")  # the column that is left out first


def compose_title(names: str, headline: str, query: str, room: int, *, unicode: bool = True) -> str:
    """Return the line above the rows: inputs, what they cost, the filter. Numbers are never cut from the right, where
    what is left would be another number; the filter gives way, then names."""
    ellipsis = "…" if unicode else "..."
    least = min(LEAST_INPUT, display_width(names)) + 2
    said = headline
    if query:
        beside = room - display_width(headline) - 2 - least
        said += f"  {shorten(f'filter: {query}', max(beside, LEAST_FILTER), ellipsis)}"
    beside = room - display_width(said) - 2
    if beside + 2 >= least:
        return f"{shorten(names, beside, ellipsis)}  {said}"
    return said if display_width(said) <= room else ellipsis + said[len(said) - max(room - len(ellipsis), 0) :]


@dataclass(frozen=True)
class Line:
    """One row as text: the name with its mark, padded, the numbers, and the bar."""

    name: str
    numbers: str
    bar: str

    @property
    def text(self) -> str:
        return self.name + self.numbers + self.bar


@dataclass(frozen=True)
class Layout:
    """Where things stand in a row of a listing."""

    listing: Listing
    width: int
    unicode: bool = True

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that there is room for."""
        columns = self.listing.view.measures.columns
        while len(columns) > 1 and self.width - self._room(columns) < LEAST_NAME:
            dropped = next((name for name in GIVES_WAY if name in columns), columns[-1])
            columns = tuple(name for name in columns if name != dropped)
        return columns

    @staticmethod
    def _room(columns: Sequence[str]) -> int:
        return sum(WIDTHS.get(column, COST) for column in columns)

    @property
    def bar_width(self) -> int:
        """How many cells a bar has, without what is around it; 0 where there is no room for one."""
        measures = self.listing.view.measures
        needed = BAR + 2 + measures.is_difference
        has_room = self.width - self._room(self.columns) - needed >= LEAST_NAME
        return BAR if has_room and (measures.has_shares or measures.is_difference) else 0

    @property
    def name_width(self) -> int:
        drawn = self.bar_width + 2 + self.listing.view.measures.is_difference if self.bar_width else 0
        return max(4, self.width - self._room(self.columns) - drawn)

    def header(self) -> Line:
        """Return the names of the columns, with a mark at the one that rows are sorted by."""
        down, up = ("▼", "▲") if self.unicode else ("v", "^")
        mark = up if self.listing.ascending else down
        heads = {name: f"{name}{mark}" if name == self.listing.column else name for name in (NAME, *self.columns)}
        title = f"{self.listing.view.title} {mark}" if self.listing.column == NAME else self.listing.view.title
        numbers = "".join(heads[name].rjust(WIDTHS.get(name, COST)) for name in self.columns)
        return Line(self._fit(title, 0), numbers, " " * (self.width - self.name_width - len(numbers)))

    def lines(self, start: int, end: int) -> list[Line]:
        """Return some rows of the listing."""
        nodes, depth = self.listing.nodes[start:end], self.listing.depth[start:end]
        if not len(nodes):
            return []
        names = self._name_rows(nodes, depth.tolist())
        cells = self.listing.view.cells(nodes, self.listing.scope)
        columns = [self._write_column(column, cells[column].tolist()) for column in self.columns]
        numbers = ["".join(row) for row in zip(*columns, strict=True)]
        bars = self._bars(cells)
        return [Line(*parts) for parts in zip(names, numbers, bars, strict=True)]

    def _name_rows(self, nodes: Ints, depths: Sequence[int]) -> list[str]:
        opened, closed, none = ("▼ ", "▶ ", "  ") if self.unicode else ("- ", "+ ", "  ")
        unfolds = self.listing.view.have_children(nodes).tolist()
        out = []
        names = self.listing.view.names(nodes.tolist())
        for node, name, depth, can_unfold in zip(nodes.tolist(), names, depths, unfolds, strict=True):
            mark = (opened if node in self.listing.unfolded else closed) if can_unfold else none
            out.append(self._fit(mark + visible(shorten_place(name.text, name.kind)), depth))
        return out

    def _fit(self, text: str, depth: int) -> str:
        ellipsis = "…" if self.unicode else "..."
        fitted = shorten("  " * depth + text, self.name_width - 1, ellipsis)
        return fitted + " " * (self.name_width - display_width(fitted))

    def _write_column(self, column: str, values: Sequence[float]) -> list[str]:
        write, width = self._writer(column), WIDTHS.get(column, COST)
        none = "–" if self.unicode else "-"  # noqa: RUF001 - a dash
        return [(none if value != value else write(value)).rjust(width) for value in values]

    def _writer(self, column: str) -> Callable[[float], str]:
        if column == "percent":
            return lambda value: percent(value / 100)
        if column == "ratio":
            return lambda value: f"{value:.3g}"
        metric = self.listing.view.measures.first.metric
        if metric.is_derived:
            return write_unit(metric.unit) or reading_float
        return amount(metric.unit)

    def _bars(self, cells: dict[str, np.ndarray[tuple[int], np.dtype[np.float64]]]) -> list[str]:
        n = len(next(iter(cells.values())))
        if not self.bar_width:
            return [" " * (self.width - self.name_width - self._room(self.columns))] * n
        measures = self.listing.view.measures
        if not measures.is_difference:
            draw = draw_signed_bar if measures.first.is_signed else bar
            room = self.bar_width - measures.first.is_signed
            return ["  " + draw(share / 100, room, unicode=self.unicode) for share in cells["percent"].tolist()]
        sizes = np.abs(self.listing.view.cells(self.listing.nodes[:1], self.listing.scope)["difference"])
        largest = float(np.nanmax(np.append(np.abs(cells["difference"]), sizes), initial=0.0)) or 1.0
        shares = np.nan_to_num(cells["difference"] / largest).tolist()
        return ["  " + draw_signed_bar(share, self.bar_width, unicode=self.unicode) for share in shares]
