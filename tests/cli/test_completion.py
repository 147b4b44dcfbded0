"""Completion as shells do it: the functions that the scripts define, called with the words of a command line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from callgrove.cli.main import VERBS
from callgrove.cli.verbs.completion import answer, find_metrics
from callgrove.examples import example
from tests.cli.commands import Capture, run, said
from tests.requirements import need
from tests.timing import HANG_SEC


def complete(*words: str) -> list[str]:
    return answer(["callgrove", *words], len(words))


def test_topics_of_the_documentation() -> None:
    assert complete("help", "select") == ["words", "selecting"]
    assert complete("help", "rocprof") == ["words", "rocprof-csv"]
    assert complete("help", "--m") == ["words", "--man"]


def test_verbs_and_files_come_first() -> None:
    kind, *words = complete("")
    assert (kind, words) == ("files", [verb.name for verb in VERBS])
    assert complete("to") == ["files", "top"]
    assert complete("--v") == ["words", "--version"]


def test_options_and_their_values_are_those_of_the_parser() -> None:
    assert complete("top", "x.d", "--by") == ["words", "--by"]
    assert complete("top", "x.d", "--by", "l") == ["words", "line", "loop"]
    assert complete("top", "x.d", "--by", "=", "l") == ["words", "line", "loop"]
    assert "json" in complete("top", "x.d", "--format", "")
    assert "cube" in complete("top", "--from", "")
    assert "perfetto" in complete("convert", "x.d", "y", "--to", "p")
    assert "cube" not in complete("convert", "x.d", "y", "--to", "p")
    assert complete("top", "x.d", "-o", "") == ["files"]
    assert complete("top", "x.d", "--limit", "") == ["words"]
    assert complete("top", "") == ["files"]
    assert complete("x.d", "--metr") == ["words", "--metrics"]  # a bare path is info
    assert complete("--debug", "completion", "") == ["words", "bash", "zsh", "fish"]


def test_every_verb_answers() -> None:
    for verb in VERBS:
        assert len(complete(verb.name, "-")) > 1


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "my stencil.d"
    example().write(path)
    return path


def test_metrics_of_an_input(database: Path, capsys: Capture) -> None:
    assert complete("top", str(database), "-m", "") == ["words", "CPUTIME (sec)", "cycles"]
    assert run(capsys, "completion", "--metrics", database) == "CPUTIME (sec)\ncycles\n"
    assert find_metrics(str(database / "nothing")) == []
    assert complete("top", "nothing", "-m", "") == ["words"]


def test_a_script_needs_a_shell(capsys: Capture) -> None:
    for shell in ("bash", "zsh", "fish"):
        assert "callgrove completion --words" in run(capsys, "completion", shell)
    assert "name one shell" in said(capsys, "completion", "tcsh", code=2)
    assert "name one shell" in said(capsys, "completion", code=2)


def in_shell(shell: str, program: str, folder: Path) -> str:
    if shutil.which(shell) is None:
        need(shell, f"{shell} is not installed")
    place = folder / "bin"
    place.mkdir(exist_ok=True)
    (place / "callgrove").write_text(f'#!/bin/sh\nexec {sys.executable} -m callgrove "$@"\n')
    (place / "callgrove").chmod(0o755)
    environment = {**os.environ, "PATH": f"{place}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        [shell, "-c", program],
        capture_output=True,
        text=True,
        env=environment,
        cwd=folder,
        timeout=HANG_SEC,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout


BASH = """
eval "$(callgrove completion bash)"
complete -p callgrove
ask() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _callgrove; printf '<%s>' "${COMPREPLY[@]}"; echo; }
ask callgrove conv
ask callgrove top --by fu
ask callgrove top 'my stencil.d' -m CPU
ask callgrove top my
"""


def test_bash(database: Path) -> None:
    lines = in_shell("bash", BASH, database.parent).splitlines()
    assert lines == [
        "complete -F _callgrove callgrove",
        "<convert>",
        "<function>",
        r"<CPUTIME\ \(sec\)>",
        "<my stencil.d>",
    ]


def test_fish(database: Path) -> None:
    program = "callgrove completion fish | source; complete -C 'callgrove conv'; complete -C 'callgrove top --by fu'"
    assert in_shell("fish", program, database.parent).split() == ["convert", "function"]


def test_zsh(database: Path) -> None:
    program = (
        "compdef() { :; }; compadd() { shift; print -l -- $@; }; _files() { :; }; "
        'eval "$(callgrove completion zsh)"; words=(callgrove top --by fu); CURRENT=4; _callgrove'
    )
    assert in_shell("zsh", program, database.parent).split() == ["function"]
    nothing = program.replace("fu)", "xyz)") + "; echo $?"  # which lets zsh try what else it knows
    assert in_shell("zsh", nothing, database.parent).split() == ["1"]
