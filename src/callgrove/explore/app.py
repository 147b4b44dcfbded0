"""The screen of `callgrove explore`: rows, a panel about the chosen one, a line to type in, and what was said last.

    stencil.d   CPUTIME (sec): 6.16 s in all                     3 of 12 rows
    call tree                               exclusive inclusive▼  percent
    ▼ main thread                                 0 s        4 s    65.0%  ██████▌
      ▶ main                                      0 s        4 s    65.0%  ██████▌

Everything that reads values holds one lock, as the spread of a row is read while somebody goes on with the keys. Views
of large trees are computed on a thread of their own: a session of its own is changed there, and takes the place of the
one that is shown once it is complete.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from threading import Lock
from time import monotonic
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Key
from textual.timer import Timer
from textual.widgets import Input, Static
from textual.worker import Worker, WorkerState

from callgrove.analysis.comparison.sentences import short_names
from callgrove.errors import CallgroveError
from callgrove.explore.details import read_source, spread_of, write_spread
from callgrove.explore.layout import compose_title
from callgrove.explore.listing import Listing
from callgrove.explore.searching import Search, search
from callgrove.explore.session import Session
from callgrove.explore.views import FLAT, View
from callgrove.explore.widgets import HelpScreen, MetricScreen, RowsWidget
from callgrove.model.metrics import Scope
from callgrove.model.table import visible
from callgrove.patterns.syntax import PatternError
from callgrove.render.text_table import display_width

__all__ = ["ExploreApp"]

HINT = "?:help /:search f:filter m:metric 1:tree 2:flat 3:callers s:sort h:hot q:quit"
SOURCE_LINES = 9
PARAMETER = "query=...: "  # how the library calls what is typed here
PAUSE_SEC = 0.15  # without a key, before the spread of a row is read
LARGE = 200_000  # contexts: views of more are computed beside the screen, which goes on
PROMPTS = {"search": "search for: ", "filter": "filter by path: "}


@dataclass(frozen=True)
class Made:
    """Rows that were computed for a view, and the session that they are of; or why there are none."""

    session: Session
    kind: str
    how: str
    listing: Listing | None = None
    error: CallgroveError | None = None


class ExploreApp(App[None]):
    """What can be done with a session: each action is a key, most of them of RowsWidget."""

    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+c", "quit", "quit", priority=True)]
    CSS = """
    Screen { background: ansi_default; color: ansi_default; }
    RowsWidget { background: ansi_default; color: ansi_default; scrollbar-size-vertical: 1;
                 scrollbar-gutter: stable; overflow-x: hidden; }
    #title { text-style: bold; height: 1; }
    #header { text-style: underline; height: 1; }
    #panel { height: auto; max-height: 50%; border-top: solid ansi_default; display: none; }
    #status { height: 1; }
    #prompt { display: none; height: 1; border: none; padding: 0; background: ansi_default; color: ansi_default; }
    ModalScreen { align: center middle; background: ansi_default; }
    .dialog { width: 96%; max-height: 96%; height: auto; border: solid ansi_default; background: ansi_default;
              color: ansi_default; }
    """

    def __init__(self, session: Session, *, unicode: bool = True) -> None:
        super().__init__(ansi_color=True)
        self.session, self._unicode = session, unicode
        self._kind, self._how = "tree", {"tree": "", "flat": FLAT[0], "callers": ""}
        self._lock = Lock()
        self._panels: set[str] = set()
        self._search: Search | None = None
        self._asked = ""
        self._timer: Timer | None = None
        self._clock: Timer | None = None
        self._spread: tuple[tuple[int, int], list[str]] | None = None
        self.said = HINT

    def compose(self) -> ComposeResult:
        yield Static(id="title", markup=False)
        yield Static(id="header", markup=False)
        yield RowsWidget(self.session.list("tree"), self._unicode)
        yield Static(id="panel", markup=False)
        yield Input(id="prompt", select_on_focus=False)
        yield Static(HINT, id="status", markup=False)

    def on_mount(self) -> None:
        self.rows.focus()

    @property
    def rows(self) -> RowsWidget:
        return self.screen_stack[0].query_one(RowsWidget)

    # What is said.

    def say(self, text: str) -> None:
        """Show one line of text until the next one."""
        self.said = text
        self._set_text("status", text)

    def _set_text(self, where: str, text: str) -> None:
        self.screen_stack[0].query_one(f"#{where}", Static).update(text)

    def on_rows_widget_moved(self) -> None:
        rows, width = self.rows, self.size.width
        place = f"{rows.row + 1:,} of {len(rows.listing):,} rows"
        names = " and ".join(map(visible, short_names(self.session.names)))
        room = width - len(place) - 2
        unicode = rows.layout_of_rows.unicode
        title = compose_title(
            names, visible(self.session.headline()), visible(self.session.query), room, unicode=unicode
        )
        self._set_text("title", f"{title}{' ' * (room - display_width(title))}  {place}")
        self._set_text("header", rows.layout_of_rows.header().text)
        self._show_panel()

    def _compute(self, text: str, kind: str, how: str, change: Callable[[Session], None] | None = None) -> None:
        """Say what takes a while, compute it, and show it; what goes wrong is said, and nothing else changes."""
        self.say(text)
        work = partial(self._make, self.session.copy(), kind, how, change)
        if len(self.session.whole.contexts) <= LARGE:
            self.call_after_refresh(lambda: self._finish(work()))
            return
        self._stop_clock()
        self._clock = self.set_interval(1, partial(self._say_seconds, text, monotonic()))
        self.run_worker(work, thread=True, exclusive=True, group="view")

    def _say_seconds(self, text: str, since: float) -> None:
        self.say(f"{text} {monotonic() - since:.0f} s")

    def _stop_clock(self) -> None:
        if self._clock is not None:
            self._clock.stop()
            self._clock = None

    def _make(self, session: Session, kind: str, how: str, change: Callable[[Session], None] | None) -> Made:
        """Return the rows of a view of a session, which is changed first."""
        try:
            with self._lock:
                if change is not None:
                    change(session)
                return Made(session, kind, how, session.list(kind, how))
        except CallgroveError as error:
            return Made(session, kind, how, error=error)

    def _finish(self, made: Made) -> None:
        """Show what was computed, or say why there is nothing."""
        self._stop_clock()
        prompt = self.screen_stack[0].query_one("#prompt", Input)
        if made.listing is None:
            if isinstance(made.error, PatternError) and prompt.display:
                prompt.cursor_position = made.error.position
            self.say(str(made.error).removeprefix(PARAMETER))
            return
        if made.session.query != self.session.query and prompt.display and self._asked == "filter":
            self.action_close()
        self.session, self._kind, self._how[made.kind] = made.session, made.kind, made.how
        self._search, self._spread, self.rows.hits = None, None, frozenset()
        self.rows.show(made.listing)
        self.say(HINT)

    def _attempt(self, work: Callable[[], None]) -> None:
        """Do what needs no values but those in memory, and say what goes wrong."""
        self.said = HINT
        try:
            work()
        except CallgroveError as error:
            self.said = str(error).removeprefix(PARAMETER)
        self.say(self.said)

    # Views, order and metric.

    def action_show(self, kind: str) -> None:
        self._compute("computing ...", kind, self._how[kind])

    def action_group(self, by: int) -> None:
        place = FLAT.index(self._how["flat"]) + (by if self._kind == "flat" else 0)
        self._compute("computing ...", "flat", FLAT[place % len(FLAT)])

    def action_lines(self) -> None:
        how = "" if self._how["tree"] == "source" and self._kind == "tree" else "source"
        self._compute("computing ...", "tree", how)

    def action_sort(self, by: int) -> None:
        listing = self.rows.listing
        place = listing.columns.index(listing.column) + by
        self._sort(listing.columns[place % len(listing.columns)], False)

    def action_reverse(self) -> None:
        self._sort(self.rows.listing.column, not self.rows.listing.ascending)

    def _sort(self, column: str, ascending: bool) -> None:
        node, listing = self.rows.node, self.rows.listing
        listing.sort(column, ascending)
        self.rows.renew(listing.row_of(node))
        self.say(f"sorted by {column}")

    def action_scope(self) -> None:
        listing, node = self.rows.listing, self.rows.node
        if not self.session.is_difference:
            self.say("both scopes are shown; x chooses which one of two inputs is compared")
            return
        listing.show_scope(Scope.EXCLUSIVE if listing.scope == Scope.INCLUSIVE else Scope.INCLUSIVE)
        self.rows.renew(listing.row_of(node))
        self.say(f"{listing.scope.value} costs are compared")

    def action_metric(self) -> None:
        screen = MetricScreen(self.session.choices, self.session.metrics[0])
        self.push_screen(screen, self._choose_metric)

    def _choose_metric(self, name: str | None) -> None:
        if name is not None:
            self._recompute(f"computing {name} ...", lambda session: session.choose_metric(name))

    def _recompute(self, text: str, change: Callable[[Session], None]) -> None:
        self._compute(text, self._kind, self._how[self._kind], change)

    # Folding, search and filter.

    def action_unfold_below(self) -> None:
        node, listing = self.rows.node, self.rows.listing
        whole = listing.unfold_below(self.rows.row)
        self.rows.renew(listing.row_of(node))
        self.say("" if whole else "too many rows below this one: the first levels are unfolded")

    def action_fold_all(self) -> None:
        self.rows.listing.fold_all()
        self.rows.renew(0)

    def action_hot_path(self) -> None:
        self._attempt(lambda: self.rows.renew(self.rows.listing.follow(self.rows.row)))

    def action_ask(self, what: str) -> None:
        """Open the line to type in."""
        self._asked = what
        prompt = self.query_one("#prompt", Input)
        prompt.value = self.session.query if what == "filter" else self._search.text if self._search else ""
        prompt.placeholder = PROMPTS[what]
        prompt.display = True
        prompt.cursor_position = len(prompt.value)
        self.screen.set_focus(prompt, scroll_visible=False)
        self.say(f"{PROMPTS[what]}Enter does it, Escape does not")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        text, what = event.value.strip(), self._asked
        if what == "search":
            self.action_close()
            self._attempt(partial(self._find_first, text))
        elif text != self.session.query:
            self._recompute("filtering ...", lambda session: session.filter(text))
        else:
            self.action_close()

    def _find_first(self, text: str) -> None:
        self._search = search(self.rows.listing, text) if text else None
        self.rows.hits = frozenset()
        if self._search is not None:
            self._go_to_hit(backwards=False)

    def action_find(self, backwards: bool) -> None:
        if self._search is None:
            self.action_ask("search")
        else:
            self._attempt(partial(self._go_to_hit, backwards))

    def _go_to_hit(self, backwards: bool) -> None:
        assert self._search is not None
        found = self._search
        row = found.find(self.rows.row, backwards)
        self.rows.hits = frozenset(found.among(self.rows.listing.nodes).tolist())
        self.rows.renew(row)
        share = "" if found.share is None or not found.n_hits else f", {found.share:.1f}% of the whole"
        n = "no hit" if not found.n_hits else "1 hit" if found.n_hits == 1 else f"{found.n_hits:,} hits"
        self.said = f"{n} for {found.text!r}{share}{'; n, N: next, previous' if found.n_hits else ''}"

    def action_close(self) -> None:
        """Close the line to type in, else the panel, else forget the search."""
        prompt = self.query_one("#prompt", Input)
        if prompt.display:
            prompt.display = False
            self.rows.focus()
        elif self._panels:
            self._panels.clear()
            self._show_panel()
        else:
            self._search, self.rows.hits = None, frozenset()
            self.rows.renew(self.rows.row)
        self.say(HINT)

    def on_key(self, event: Key) -> None:
        """Type what arrived before the line to type in was open: a slow connection brings several keys at once."""
        prompt = self.screen_stack[0].query_one("#prompt", Input)
        if not prompt.display or not (event.is_printable or event.key == "escape"):
            return
        event.stop()
        event.prevent_default()
        if event.key == "escape":
            self.action_close()
        elif event.character:
            prompt.insert_text_at_cursor(event.character)

    def action_help(self) -> None:
        self.push_screen(HelpScreen())

    # The panel about the chosen row.

    def action_panel(self, what: str) -> None:
        self._panels ^= {what}
        self._show_panel()

    def _show_panel(self) -> None:
        panel = self.screen_stack[0].query_one("#panel", Static)
        panel.display = bool(self._panels)
        if self._panels:
            panel.update("\n".join(line[: self.size.width] for line in self._panel_lines()))

    def _panel_lines(self) -> list[str]:
        rows = self.rows
        view = rows.listing.view
        lines = self._source_lines(view, rows.node) if "source" in self._panels else []
        if "spread" not in self._panels:
            return lines
        if self._spread is not None and self._spread[0] == (id(view), rows.node):
            return lines + self._spread[1]
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(PAUSE_SEC, partial(self._read_spread, view, rows.node))
        return [*lines, "reading the cost in every rank or thread ..."]

    def _source_lines(self, view: View, node: int) -> list[str]:
        try:
            source = read_source(view, node, SOURCE_LINES)
        except CallgroveError as error:
            return [visible(str(error))]
        if source.missing:
            return [visible(source.missing)]
        mark = "▶" if self._unicode else ">"
        return [visible(f"{source.file}:{source.line}")] + [
            f"{mark if chosen else ' '}{number:>6} {visible(text.expandtabs(4))}"
            for number, text, chosen in source.rows()
        ]

    def _read_spread(self, view: View, node: int) -> None:
        self.run_worker(partial(self._spread_lines, view, node), thread=True, exclusive=True, group="spread")

    def _spread_lines(self, view: View, node: int) -> tuple[tuple[int, int], list[str]]:
        lines: list[str] = []
        try:
            with self._lock:
                spreads = spread_of(view, node)
            for word, spread in zip(("left: ", "right: ") if len(spreads) > 1 else ("",), spreads, strict=True):
                first, *others = write_spread(spread, self.size.width, self._unicode)
                lines += [word + first, *others]
        except CallgroveError as error:
            lines = [str(error)]
        return (id(view), node), lines

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        if event.state != WorkerState.SUCCESS:
            return
        if event.worker.group == "spread":
            self._spread = event.worker.result
            self._show_panel()
        elif event.worker.group == "view" and isinstance(event.worker.result, Made):
            self._finish(event.worker.result)
