"""A progress bar: for those who watch, when it takes long, and on stderr."""

from __future__ import annotations

import io
import sys

import pytest

from callgrove.cli import messages as module
from callgrove.cli.messages import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def watched(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal as stderr. Not a fixture: pytest sets stderr anew between the fixtures and the test."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return terminal


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(module, "monotonic", lambda: now[0])
    return now


def test_nobody_watches(capsys: pytest.CaptureFixture[str], clock: list[float]) -> None:
    with progress() as report:
        clock[0] += 10
        report("profiles", 1, 2)
    assert capsys.readouterr() == ("", "")


def test_a_dumb_terminal_shows_nothing(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = watched(monkeypatch)
    monkeypatch.setenv("TERM", "dumb")
    with progress() as report:
        clock[0] += 10
        report("profiles", 1, 2)
    assert terminal.getvalue() == ""


def test_what_is_quick_shows_nothing(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = watched(monkeypatch)
    with progress() as report:
        report("profiles", 1, 2)
        clock[0] += 0.4
        report("profiles", 2, 2)
    assert terminal.getvalue() == ""


def test_a_bar_appears_after_half_a_second(
    clock: list[float], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = watched(monkeypatch)
    with progress() as report:
        clock[0] += 0.6
        report("profiles\x1b[2J [bold]", 30, 200)
        clock[0] += 0.6
        report("samples", 5, None)
        sys.stdout.write("data\n")
    shown = terminal.getvalue()
    assert r"profiles\x1b[2J [bold]" in shown
    assert "30/200" in shown
    assert "samples" in shown
    assert "data" not in shown
    assert capsys.readouterr().out == "data\n"


@pytest.mark.parametrize("width", [30, 80, 200])
def test_lines_fit_the_terminal_and_are_erased(width: int, clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = watched(monkeypatch)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("NO_COLOR", "1")
    with progress() as report:
        clock[0] += 1
        report("a label that is longer than some terminals are wide", 0, 1000)
        clock[0] += 1
        report("another one", 7, None)
        clock[0] += 29
        report("a label that is longer than some terminals are wide", 250, 1000)
    *_, first, second, end = terminal.getvalue().split("\n")
    lines = [line.rpartition("\x1b[2K")[2] for line in (first, second)]
    assert [line.split()[-2:] for line in lines] == [["250/1000", "0:01:30"], ["7/?", "-:--:--"]]
    assert all(len(line) < width for line in lines)
    assert end == "\x1b[2F\x1b[J\x1b[?25h"


def test_the_bar_is_as_long_as_its_share(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = watched(monkeypatch)
    monkeypatch.setenv("COLUMNS", "120")
    with progress() as report:
        clock[0] += 1
        report("profiles", 30, 120)
    assert "\x1b[35m" + "━" * 10 + "\x1b[0m\x1b[2m" + "━" * 30 + "\x1b[0m" in terminal.getvalue()


def test_calls_in_between_cost_nothing(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    watched(monkeypatch)
    drawn: list[int] = []
    with progress() as report:
        clock[0] += 1
        report("profiles", 0, 1000)
        monkeypatch.setattr(module._Bars, "_draw", lambda bars, _: drawn.append(bars._tasks["profiles"].done))
        for done in range(1, 1001):
            clock[0] += 0.01
            report("profiles", done, 1000)
    assert 80 <= len(drawn) <= 110
    assert drawn[-1] == 1000


def test_a_failure_gives_the_cursor_back(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = watched(monkeypatch)

    def interrupted() -> None:
        with progress() as report:
            clock[0] += 1
            report("profiles", 1, 2)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    shown = terminal.getvalue()
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")
