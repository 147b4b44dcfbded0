"""The interactive terminal as somebody uses it: keys of textual's pilot, and a real pseudo-terminal."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import select
import subprocess
import sys
import termios
import time
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple, TypeVar

import pytest

from callgrove.examples import example, study_example
from callgrove.explore.layout import compose_title
from callgrove.explore.session import Session
from tests.cli.commands import Capture, said
from tests.requirements import need_module
from tests.timing import HANG_SEC

need_module("textual")

from callgrove.explore.app import ExploreApp  # noqa: E402 - needs textual
from callgrove.explore.widgets import KEYS, HelpScreen, MetricScreen, RowsWidget  # noqa: E402

T = TypeVar("T")


def finish(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a thread of its own: in this one, the driver of the browser may have a loop."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


class Seen(NamedTuple):
    """The lines of the screen, and the rows and the screen that is on top."""

    lines: list[str]
    rows: RowsWidget
    screen: object


async def _press(app: ExploreApp, keys: list[str], size: tuple[int, int]) -> Seen:
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        for key in keys:
            await pilot.press(key)
            await pilot.pause()
        return Seen(read_lines(app), app.rows, app.screen)


def read_lines(app: ExploreApp) -> list[str]:
    return ["".join(part.text for part in strip) for strip in app.screen._compositor.render_strips()]


def press(app: ExploreApp, *keys: str, size: tuple[int, int] = (80, 24)) -> Seen:
    """What is there after some keys."""
    return finish(_press(app, list(keys), size))


def app_of(*seeds: int) -> ExploreApp:
    return ExploreApp(Session.of([example(seed) for seed in seeds]))


HEADLINE = "time: left 1.53 s in all, right 2.66 s in all"


@pytest.mark.parametrize("room", [30, 44, 60, 66, 90, 200])
@pytest.mark.parametrize("query", ["", "main -> ** -> MPI_*"])
def test_what_inputs_cost_is_not_cut(room: int, query: str) -> None:
    """`right 2.` would be another number than `right 2.66 s`."""
    title = compose_title("mpi4/profile.cubex and mpi8/profile.cubex", HEADLINE, query, room)
    assert len(title) <= room
    assert "right 2.66 s in all" in title or (query and room < len(HEADLINE) + 18), "but where only its end has room"
    assert "right 2.66" not in title or "right 2.66 s in all" in title
    assert ("filter:" in title) == bool(query)
    if room == 200:
        assert title.startswith("mpi4/profile.cubex and mpi8/profile.cubex  time: left 1.53 s")


def test_two_inputs_of_one_name_are_told_apart() -> None:
    inputs = [replace(example(seed), path=f"{folder}/profile.cubex") for seed, folder in enumerate(("before", "after"))]
    lines = press(ExploreApp(Session.of(inputs)), size=(130, 24)).lines
    assert lines[0].startswith(
        "before/profile.cubex and after/profile.cubex  CPUTIME (sec): left 6.16 s in all, right "
    )
    narrow = press(ExploreApp(Session.of(inputs)), size=(80, 24)).lines[0]
    assert re.search(r"left 6\.16 s in all, right [\d.]+ s in all +1 of ", narrow)


@pytest.mark.parametrize("width", [80, 100])
def test_the_first_screen(width: int) -> None:
    lines = press(app_of(0), size=(width, 24)).lines
    assert len(lines) == 24
    assert all(len(line) <= width for line in lines)
    assert lines[0].startswith("stencil  CPUTIME (sec): 6.16 s in all")
    assert re.split(r"\s+", lines[1].strip())[-3:] == ["exclusive", "inclusive▼", "percent"]
    assert "65.0%" in lines[2]
    assert lines[-1].startswith("?:help")


def test_moving_and_folding() -> None:
    rows = press(app_of(0), "right", "down", "right", "down", "left", "left", "space", "end", "home", "pagedown").rows
    assert len(rows.listing) > 2
    assert rows.row == len(rows.listing) - 1


def test_views_and_order() -> None:
    seen = press(app_of(0), "2", "b", "s", "r")
    assert seen.lines[1].startswith("flat, by line")
    assert (seen.rows.listing.column, seen.rows.listing.ascending) == ("inclusive", True)
    assert press(app_of(0), "3", "h").lines[1].startswith("callers")
    with_lines, without = (len(press(app_of(0), key, "e").rows.listing) for key in ("L", "1"))
    assert with_lines > without


def test_the_hot_path_and_everything() -> None:
    rows = press(app_of(0), "h").rows
    assert rows.listing.depth[rows.row] > 2
    assert len(press(app_of(0), "e").rows.listing) > len(press(app_of(0), "e", "E").rows.listing) == 2


def test_search() -> None:
    app = app_of(0)
    lines = press(app, "slash", *"mpi", "enter", "n", "N").lines
    assert app.said.startswith("3 hits for 'mpi', 21.7% of the whole")
    assert any("MPI_Waitall" in line for line in lines)
    app = app_of(0)
    press(app, "n", *"nothing", "enter")
    assert app.said.startswith("no hit")


def test_filter() -> None:
    app = app_of(0)
    lines = press(app, "f", *"kernel", "enter").lines
    assert "filter: kernel" in lines[0]
    app = app_of(0)
    press(app, "f", *"main", "space", "minus", "greater_than_sign", "enter")
    assert app.said == "expected a name at character 8 of 'main ->'"
    assert app.session.query == ""
    press(app_of(0), "f", "escape")


async def _filter_beside(app: ExploreApp, text: str, go_on: Event) -> tuple[int, str]:
    """Which row is chosen, and what is said, while a filter is computed; then let it go on."""
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("right", "f", *text, "enter")
        await pilot.press("escape", "down")
        await pilot.pause(1.2)
        row, said_meanwhile = app.rows.row, app.said
        go_on.set()
        await app.workers.wait_for_complete()
        await pilot.pause()
        return row, said_meanwhile


@pytest.mark.parametrize(("text", "query"), [("kernel", "kernel"), ("kernl", "")])
def test_the_screen_goes_on_while_a_large_tree_is_filtered(
    monkeypatch: pytest.MonkeyPatch, text: str, query: str
) -> None:
    go_on, filter_session = Event(), Session.filter

    def wait_and_filter(session: Session, query: str) -> None:
        assert go_on.wait(HANG_SEC)
        filter_session(session, query)

    monkeypatch.setattr(Session, "filter", wait_and_filter)
    monkeypatch.setattr("callgrove.explore.app.LARGE", 0)
    app = app_of(0)
    row, said_meanwhile = finish(_filter_beside(app, text, go_on))
    assert row == 1
    assert re.fullmatch(r"filtering \.\.\. \d+ s", said_meanwhile)
    assert app.session.query == query
    assert query or app.said == "there is no context 'kernl'; did you mean 'kernel'?"


def test_metric_and_help() -> None:
    assert "cycles: 14.8 G in all" in press(app_of(0), "m", "down", "enter").lines[0]
    for key, screen in (("m", MetricScreen), ("question_mark", HelpScreen)):
        assert isinstance(press(app_of(0), key).screen, screen)
        assert not isinstance(press(app_of(0), key, "escape").screen, screen)
    text = "\n".join(press(app_of(0), "question_mark").lines)
    assert all(what in text for _, what in KEYS)


async def _spread(app: ExploreApp) -> str:
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("d", "l")
        deadline = time.monotonic() + HANG_SEC
        while app._spread is None and time.monotonic() < deadline:
            await pilot.pause(0.05)
        await pilot.pause()
        return "\n".join(read_lines(app))


@pytest.mark.parametrize("seeds", [(0,), (0, 1)])
def test_the_panel(seeds: tuple[int, ...]) -> None:
    text = finish(_spread(app_of(*seeds)))
    assert "over 4 ranks" in text
    assert "histogram" in text
    assert "has no line of source" in text


def test_two_inputs() -> None:
    app = app_of(0, 1)
    lines = press(app, "h", "x").lines
    assert lines[1].split()[-4:] == ["left", "right", "difference▼", "ratio"]
    assert app.said == "exclusive costs are compared"


def test_without_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = app_of(0)
    press(app, "down")
    assert app.no_color


# -- a real terminal ---------------------------------------------------------------------------------------------------


ESCAPED = re.compile(rb"\x1b\[[0-9;?<>=]*[A-Za-z]")


@contextmanager
def ended(program: subprocess.Popen[bytes]) -> Iterator[None]:
    """End a program where a test of it fails, which would wait for it for ever."""
    try:
        yield
    finally:
        program.kill()


def read_until(terminal: int, text: bytes, raw: bool = False) -> bytes:
    """What a program writes until some text of it, which its escape sequences do not divide."""
    seen, deadline = b"", time.monotonic() + HANG_SEC
    while text not in (seen if raw else ESCAPED.sub(b"", seen)):
        ready, _, _ = select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"{text!r} did not appear in {seen[-2000:]!r}"
        seen += os.read(terminal, 65536)
    return seen


def test_in_a_pseudo_terminal(tmp_path: Path) -> None:
    path = tmp_path / "stencil.d"
    example().write(path)
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 100))
    before = termios.tcgetattr(theirs)
    command = [sys.executable, "-m", "callgrove", "explore", str(path)]
    environment = {**os.environ, "TERM": "xterm", "NO_COLOR": "1"}
    with (
        subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as program,
        ended(program),
    ):
        begun = read_until(ours, b"main thread")
        assert b"\x1b[?1049h" in begun, "the screen of the shell is kept"
        os.write(ours, b"h")
        read_until(ours, b"kernel")
        os.write(ours, b"/mpi\r")
        read_until(ours, b"3 hits for 'mpi'")
        os.write(ours, b"q")
        read_until(ours, b"\x1b[?1049l", raw=True)
        assert program.wait(HANG_SEC) == 0
    assert termios.tcgetattr(theirs) == before
    os.close(ours)
    os.close(theirs)


def test_what_is_no_terminal_is_refused(tmp_path: Path, capsys: Capture) -> None:
    assert "`callgrove tree` prints the call tree" in said(capsys, "explore", tmp_path, code=2)
    assert "one input, or two" in said(capsys, "explore", "a", "b", "c", code=2)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callgrove.cli.verbs.explore.is_terminal", lambda: True)


@pytest.mark.usefixtures("terminal")
def test_a_missing_package_is_named(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callgrove.cli.verbs.explore.find_spec", lambda _: None)
    assert "pip install 'callgrove[explore]'" in said(capsys, "explore", tmp_path, code=1)


@pytest.mark.usefixtures("terminal")
def test_a_study_is_refused(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "scaling.txt"
    study_example().write(path)
    assert "use `callgrove model`" in said(capsys, "explore", path, code=2)
