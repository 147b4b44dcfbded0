"""Running the command line in tests, and reading what it prints."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest

from callgrove.cli.main import main

Capture = pytest.CaptureFixture[str]


def run(capsys: Capture, *words: object, code: int = 0) -> str:
    """What a command prints; it ends with `code`, and what it says on stderr are messages."""
    capsys.readouterr()
    got = main([str(word) for word in words])
    out, err = capsys.readouterr()
    assert got == code, err
    assert all(line.startswith("callgrove: ") for line in err.splitlines())
    if code not in (0, 4):
        assert out == "" or words[0] in ("check", "dump")
        assert err.count("\n") >= 1
    return out


def said(capsys: Capture, *words: object, code: int) -> str:
    """The one sentence that a command says when it fails."""
    capsys.readouterr()
    assert main([str(word) for word in words]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return err.removeprefix("callgrove: ").rstrip()


def notes(capsys: Capture, *words: object) -> str:
    """What a command that succeeds says on stderr."""
    capsys.readouterr()
    assert main([str(word) for word in words]) == 0
    return capsys.readouterr().err


def rows(capsys: Capture, *words: object) -> list[dict[str, Any]]:
    """A table as JSON."""
    found: list[dict[str, Any]] = json.loads(run(capsys, *words, "--format", "json"))
    return found


def facts(capsys: Capture, path: object) -> list[tuple[str, str]]:
    """What `info` says to people, as pairs."""
    _, *pairs = csv.reader(io.StringIO(run(capsys, "info", path, "--format", "csv")))
    return [(word, text) for word, text in pairs]


def header(text: str) -> list[str]:
    return next(csv.reader(io.StringIO(text)))
