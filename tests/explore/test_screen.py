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
from pathlib import Path

import pytest

from callgrove.cli.main import main
from callgrove.examples import example
from callgrove.explore.session import Session
from tests.cli.commands import Capture, said
from tests.timing import HANG_SEC

pytest.importorskip("textual")

from callgrove.explore.app import ExploreApp
from callgrove.explore.widgets import KEYS, HelpScreen, MetricScreen


async def _press(app: ExploreApp, keys: list[str], size: tuple[int, int]) -> list[str]:
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        for key in keys:
            await pilot.press(key)
            await pilot.pause()
        return ["".join(part.text for part in strip) for strip in app.screen._compositor.render_strips()]


def press(app: ExploreApp, *keys: str, size: tuple[int, int] = (80, 24)) -> list[str]:
    """The lines of the screen after some keys."""
    return asyncio.run(_press(app, list(keys), size))


def app_of(*seeds: int) -> ExploreApp:
    return ExploreApp(Session.of([example(seed) for seed in seeds]))


@pytest.mark.parametrize("width", [80, 100])
def test_the_first_screen(width: int) -> None:
    lines = press(app_of(0), size=(width, 24))
    assert len(lines) == 24
    assert all(len(line) <= width for line in lines)
    assert lines[0].startswith("stencil  CPUTIME (sec): 6.16 s in all")
    assert re.split(r"\s+", lines[1].strip())[-3:] == ["exclusive", "inclusive▼", "percent"]
    assert "65.0%" in lines[2]
    assert lines[-1].startswith("?:help")


def test_moving_and_folding() -> None:
    app = app_of(0)
    press(app, "right", "down", "right", "down", "left", "left", "space", "end", "home", "pagedown")
    assert len(app.rows.listing) > 2
    assert app.rows.row == len(app.rows.listing) - 1


def test_views_and_order() -> None:
    app = app_of(0)
    lines = press(app, "2", "b", "s", "r")
    assert lines[1].startswith("flat, by line")
    assert (app.rows.listing.column, app.rows.listing.ascending) == ("inclusive", True)
    assert press(app_of(0), "3", "h")[1].startswith("callers")
    assert press(app_of(0), "L", "h")[1].startswith("call tree")


def test_the_hot_path_and_everything() -> None:
    app = app_of(0)
    press(app, "h")
    assert app.rows.listing.depth[app.rows.row] > 2
    press(app_of(0), "e", "E")


def test_search() -> None:
    app = app_of(0)
    lines = press(app, "slash", *"mpi", "enter", "n", "N")
    assert app.said.startswith("3 hits for 'mpi', 21.7% of the whole")
    assert any("MPI_Waitall" in line for line in lines)
    app = app_of(0)
    press(app, "n", *"nothing", "enter")
    assert app.said.startswith("no hit")


def test_filter() -> None:
    app = app_of(0)
    lines = press(app, "f", *"kernel", "enter")
    assert "filter: kernel" in lines[0]
    app = app_of(0)
    press(app, "f", *"main -", "greater_than_sign", "enter")
    assert app.said == "expected a name at character 8 of 'main ->'"
    assert app.session.query == ""
    press(app_of(0), "f", "escape")


def test_metric_and_help() -> None:
    app = app_of(0)
    lines = press(app, "m", "down", "enter")
    assert "cycles: 14.8 G in all" in lines[0]
    for key, screen in (("m", MetricScreen), ("question_mark", HelpScreen)):
        app = app_of(0)
        press(app, key)
        assert isinstance(app.screen_stack[-1] if app.screen_stack else None, screen) or app.return_code is not None
    text = "\n".join(press(app_of(0), "question_mark"))
    assert all(what in text for _, what in KEYS)


async def _spread(app: ExploreApp) -> str:
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("d", "l")
        deadline = time.monotonic() + HANG_SEC
        while app._spread is None and time.monotonic() < deadline:
            await pilot.pause(0.05)
        await pilot.pause()
        return "\n".join("".join(part.text for part in strip) for strip in app.screen._compositor.render_strips())


@pytest.mark.parametrize("seeds", [(0,), (0, 1)])
def test_the_panel(seeds: tuple[int, ...]) -> None:
    text = asyncio.run(_spread(app_of(*seeds)))
    assert "over 4 ranks" in text
    assert "histogram" in text
    assert "has no line of source" in text


def test_two_inputs() -> None:
    app = app_of(0, 1)
    lines = press(app, "h", "x")
    assert lines[1].split()[-4:] == ["left", "right", "difference▼", "ratio"]
    assert app.said == "exclusive costs are compared"


def test_without_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = app_of(0)
    press(app, "down")
    assert app.no_color


# -- a real terminal ---------------------------------------------------------------------------------------------------


def read_until(terminal: int, text: bytes) -> bytes:
    """What a program writes until some text of it, without the escape sequences."""
    seen, deadline = b"", time.monotonic() + HANG_SEC
    while text not in re.sub(rb"\x1b\[[0-9;?<>=]*[A-Za-z]", b"", seen):
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
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, env=environment) as program:
        begun = read_until(ours, b"main thread")
        assert b"\x1b[?1049h" in begun, "the screen of the shell is kept"
        os.write(ours, b"h")
        read_until(ours, b"kernel")
        os.write(ours, b"/mpi\r")
        read_until(ours, b"3 hits for 'mpi'")
        os.write(ours, b"q")
        ended = read_until(ours, b"")
        while b"\x1b[?1049l" not in ended:
            ended += os.read(ours, 65536)
        assert program.wait(HANG_SEC) == 0
        assert program.stderr is not None
        assert program.stderr.read() == b""
    assert termios.tcgetattr(theirs) == before
    os.close(ours)
    os.close(theirs)


def test_what_is_no_terminal_is_refused(tmp_path: Path, capsys: Capture) -> None:
    assert "`callgrove tree` prints the call tree" in said(capsys, "explore", tmp_path, code=2)
    assert "one input, or two" in said(capsys, "explore", "a", "b", "c", code=2)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True)


def test_a_missing_package_is_named(
    terminal: None, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("callgrove.cli.verbs.explore.find_spec", lambda _: None)
    assert main(["explore", str(tmp_path)]) == 1
    assert "pip install 'callgrove[explore]'" in capsys.readouterr().err
