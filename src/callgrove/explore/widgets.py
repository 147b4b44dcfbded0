"""The widgets of the screen: rows, of which those on the screen alone are drawn, whatever their number; what keys do;
the choice of a metric.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.geometry import Region, Size
from textual.message import Message
from textual.screen import ModalScreen
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from callgrove.explore.layout import Layout, Line
from callgrove.explore.listing import Listing

__all__ = ["KEYS", "HelpScreen", "MetricScreen", "RowsWidget"]


# -- rows --------------------------------------------------------------------------------------------------------------


NUMBERS, BAR, LESS = Style(color="cyan"), Style(color="green"), Style(color="yellow")
CHOSEN, HIT = Style(reverse=True), Style(bold=True, underline=True)


class RowsWidget(ScrollView, can_focus=True):
    """The rows, one of which is chosen. Keys that are not about moving are actions of the application."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "up"),
        Binding("down,j", "move(1)", "down"),
        Binding("pageup,ctrl+b", "page(-1)", "a screen up"),
        Binding("pagedown,ctrl+f", "page(1)", "a screen down"),
        Binding("home,g", "go(0)", "first"),
        Binding("end,G", "go(-1)", "last"),
        Binding("right,enter,plus", "unfold", "unfold"),
        Binding("left,minus", "fold", "fold"),
        Binding("space", "turn", "unfold or fold"),
        Binding("e", "app.unfold_below", "unfold all"),
        Binding("E", "app.fold_all", "fold all"),
        Binding("h", "app.hot_path", "hot path"),
        Binding("1", "app.show('tree')", "call tree"),
        Binding("2", "app.show('flat')", "flat"),
        Binding("3", "app.show('callers')", "callers"),
        Binding("b", "app.group(1)", "group by"),
        Binding("B", "app.group(-1)", "group by"),
        Binding("L", "app.lines", "lines"),
        Binding("s", "app.sort(1)", "sort"),
        Binding("S", "app.sort(-1)", "sort"),
        Binding("r", "app.reverse", "reverse"),
        Binding("x", "app.scope", "scope"),
        Binding("m", "app.metric", "metric"),
        Binding("slash", "app.ask('search')", "search"),
        Binding("n", "app.find(False)", "next hit"),
        Binding("N", "app.find(True)", "previous hit"),
        Binding("f", "app.ask('filter')", "filter"),
        Binding("l", "app.panel('source')", "source"),
        Binding("d", "app.panel('spread')", "spread"),
        Binding("question_mark", "app.help", "help"),
        Binding("escape", "app.close", "close"),
        Binding("q", "app.quit", "quit"),
    ]

    class Moved(Message):
        """Another row was chosen, or rows were folded."""

    def __init__(self, listing: Listing, unicode: bool = True) -> None:
        super().__init__()
        self.listing, self._unicode = listing, unicode
        self.row = 0
        self.hits: frozenset[int] = frozenset()
        self._page: tuple[tuple[int, int, int, int], list[Line]] | None = None
        self._version = 0

    @property
    def layout_of_rows(self) -> Layout:
        return Layout(self.listing, max(20, self.scrollable_content_region.width or self.size.width), self._unicode)

    @property
    def node(self) -> int:
        """The node of the chosen row."""
        return int(self.listing.nodes[self.row])

    def show(self, listing: Listing, row: int = 0) -> None:
        """Show other rows, and choose one of them."""
        self.listing = listing
        self.renew(row)

    def renew(self, row: int) -> None:
        """Draw rows again that have changed, and choose one of them."""
        self._version += 1
        self.virtual_size = Size(self.size.width, len(self.listing))
        self.choose(row)

    def choose(self, row: int) -> None:
        """Choose a row, and scroll to where it is on the screen."""
        self.row = max(0, min(row, len(self.listing) - 1))
        self.scroll_to_region(Region(0, self.row, 1, 1), animate=False, force=True, immediate=True)
        self.refresh()
        self.post_message(self.Moved())

    def on_resize(self) -> None:
        self.renew(self.row)

    # Keys.

    def action_move(self, by: int) -> None:
        self.choose(self.row + by)

    def action_page(self, direction: int) -> None:
        self.choose(self.row + direction * max(1, self.size.height - 1))

    def action_go(self, row: int) -> None:
        self.choose(row if row >= 0 else len(self.listing) - 1)

    def action_unfold(self) -> None:
        self.listing.unfold(self.row)
        self.renew(self.row)

    def action_fold(self) -> None:
        if self.listing.fold(self.row):
            self.renew(self.row)
        else:
            self.choose(self.listing.parent_row(self.row))

    def action_turn(self) -> None:
        if not self.listing.fold(self.row):
            self.listing.unfold(self.row)
        self.renew(self.row)

    # Drawing.

    def render_line(self, y: int) -> Strip:
        width, height = self.size.width, self.size.height
        start = self.scroll_offset.y
        key = start, width, height, self._version
        if self._page is None or self._page[0] != key:
            self._page = key, self.layout_of_rows.lines(start, start + height)
        lines = self._page[1]
        if y >= len(lines):
            return Strip.blank(width)
        return Strip(self._segments(lines[y], start + y)).adjust_cell_length(width)

    def _segments(self, line: Line, row: int) -> list[Segment]:
        if row == self.row:
            return [Segment(line.text, CHOSEN)]
        name = HIT if int(self.listing.nodes[row]) in self.hits else None
        bar = LESS if line.bar.lstrip().startswith("-") else BAR
        return [Segment(line.name, name), Segment(line.numbers, NUMBERS), Segment(line.bar, bar)]


# -- screens on top of the rows ----------------------------------------------------------------------------------------


KEYS = (
    ("up down, j k", "move; PageUp, PageDown, Home, End as usual"),
    ("right, Enter", "unfold the row"),
    ("left", "fold it, or go to the row above it in the tree"),
    ("space", "unfold or fold"),
    ("e   E", "unfold all below the row (10,000 at most); fold all"),
    ("h", "hot path: while one row has half of its parent's cost"),
    ("1   2   3", "call tree, flat profile, callers"),
    ("b   B", "flat profile by function, line, loop, file, module"),
    ("L", "source lines as rows of the call tree"),
    ("s   S", "sort by the next, the previous column"),
    ("r", "sort the other way round"),
    ("x", "two inputs: compare inclusive or exclusive costs"),
    ("m", "choose the metric"),
    ("/", "search: a text or a /regular expression/"),
    ("n   N", "the next, the previous hit"),
    ("f", "filter by call paths:  main -> ** -> MPI_*"),
    ("l", "the source of the row"),
    ("d", "the spread of its cost over ranks, threads, ..."),
    ("Escape   q", "close what is open; quit"),
)
TITLE = "Keys; Escape closes this"
WIDEST_KEY = 14


class HelpScreen(ModalScreen[None]):
    """All keys on one screen."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark,enter", "dismiss", "close")]

    def compose(self) -> ComposeResult:
        lines = [TITLE, *(f"{keys:<{WIDEST_KEY}} {what}" for keys, what in KEYS)]
        with VerticalScroll(classes="dialog"):
            yield Static("\n".join(lines), markup=False)


class MetricScreen(ModalScreen[str | None]):
    """A list of metrics, of which one is chosen."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "dismiss(None)", "close")]

    def __init__(self, names: Sequence[str], chosen: str) -> None:
        super().__init__()
        self._names, self._chosen = list(names), chosen

    def compose(self) -> ComposeResult:
        yield OptionList(*(Option(name) for name in self._names), markup=False, classes="dialog")

    def on_mount(self) -> None:
        options = self.query_one(OptionList)
        options.border_title = "metric"
        options.highlighted = self._names.index(self._chosen) if self._chosen in self._names else 0

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._names[event.option_index])
