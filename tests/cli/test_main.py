"""The contract of the command line: which verb runs, what is printed where, how it ends."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import pytest

from callgrove._version import __version__
from callgrove.cli.main import VERBS, Verb, load_command, main
from callgrove.cli.parser import EXAMPLES, Parser
from tests.requirements import ROOT, need
from tests.timing import HANG_SEC

FAKE_VERBS = (
    Verb("info", "what is this", "tests.cli.fake_verb"),
    Verb("top", "where the cost is", "tests.cli.fake_verb"),
    Verb("broken", "has no module", "tests.cli.there_is_no_such_module"),
)


def run(*arguments: str) -> int:
    return main(arguments, FAKE_VERBS)


def in_a_process(
    arguments: Sequence[str], more: Mapping[str, str] = MappingProxyType({}), **options: object
) -> subprocess.CompletedProcess[bytes]:
    """`main` with the fake verbs in an interpreter of its own, for what happens when one ends."""
    program = "import sys; from tests.cli.test_main import run; sys.exit(run(*sys.argv[1:]))"
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", **more}
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, env=environment, check=False, timeout=HANG_SEC, **options)  # type: ignore[call-overload,no-any-return]


def test_a_verb_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("top", "a", "--format", "csv") == 0
    assert capsys.readouterr() == ("path,number\na,0\na,1\n", "running\n")


def test_a_bare_path_is_looked_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(str(tmp_path), "--rows", "1", "--format", "csv") == 0
    assert capsys.readouterr().out == f"path,number\n{tmp_path},0\n"


def test_a_verb_goes_before_a_file_of_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "top").touch()
    monkeypatch.chdir(tmp_path)
    assert run("top") == 2


def test_a_word_that_is_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("tpo", "a") == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        "callgrove: 'tpo' is neither a verb nor an existing path (did you mean 'top'?); see 'callgrove --help'\n"
    )
    assert run("/no/such/file.cubex") == 2
    assert "did you mean" not in capsys.readouterr().err


def test_options_and_paths_in_any_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("top", "a", "--rows", "1", "b", "--format=csv", "--", "-c") == 0
    assert capsys.readouterr().out == "path,number\na,0\nb,0\n-c,0\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("top",), "PATH is missing; see 'callgrove top --help'"),
        (
            ("top", "a", "--limt", "3"),
            "unknown argument '--limt' (did you mean '--limit'?); see 'callgrove top --help'",
        ),
        (("top", "a", "--lim=3"), "unknown argument '--lim=3' (did you mean '--limit'?); see 'callgrove top --help'"),
        (("top", "a", "--strict", "--salvage"), "argument --salvage: not allowed with argument --strict"),
        (("top", "a", "--rank", "x"), "argument --rank: 'x' is not a list of numbers and ranges like 0-3,7"),
        (("top", "a", "--limit", "-2"), "argument --limit"),
        (("--strict", "a"), "unknown option '--strict' before the verb; see 'callgrove --help'"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"callgrove: {message}")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("failure", "code", "message"),
    [
        ("usage", 2, "no metric 'tmie'"),
        ("corrupt", 3, "a.db: header: expected magic, found nothing"),
        ("incomplete", 4, "2 of 3 profiles"),
        ("extra", 1, "sql needs an optional package: pip install 'callgrove[sql]'"),
        ("hostile", 2, r"no metric '\x1b[2J\n'"),
        ("memory", 1, "not enough memory; choose fewer profiles (--rank, --thread) or use a larger node"),
        ("denied", 1, "a.db: Permission denied"),
        ("disk", 1, "stdout: No space left on device"),
        ("interrupt", 130, "interrupted"),
        ("bug", 1, "this is a bug in callgrove: KeyError: 'oops'; run again with --debug and report it"),
    ],
)
def test_failures(failure: str, code: int, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("top", "a", "--fail", failure) == code
    assert capsys.readouterr() == ("", f"running\ncallgrove: {message}\n")


def test_a_closed_pipe_is_no_failure(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("top", "a", "--fail", "pipe") == 0
    assert capsys.readouterr() == ("", "running\n")


@pytest.mark.parametrize(
    "arguments", [("--debug", "top", "a", "--fail", "corrupt"), ("top", "--fail", "corrupt", "--debug", "a")]
)
def test_debug_shows_a_traceback(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*arguments) == 3
    error = capsys.readouterr().err
    assert "Traceback" in error
    assert error.endswith("\ncallgrove: a.db: header: expected magic, found nothing\n")


@pytest.mark.parametrize(("value", "shown"), [("1", True), ("0", False), ("", False)])
def test_debug_by_environment(
    value: str, shown: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CALLGROVE_DEBUG", value)
    assert run("top", "a", "--fail", "usage") == 2
    assert ("Traceback" in capsys.readouterr().err) == shown


def test_a_path_named_debug_is_a_path(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("top", "--fail", "usage", "--", "--debug") == 2
    assert "Traceback" not in capsys.readouterr().err


def test_a_missing_module_is_a_bug(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("broken") == 1
    assert "this is a bug in callgrove: ModuleNotFoundError" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_overview(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(option) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert all(f"  {verb.name} " in out and verb.help in out for verb in FAKE_VERBS)


def test_no_arguments_are_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("usage: callgrove VERB")


def test_help_of_a_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("top", "--help") == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith("usage: callgrove top ")
    assert "where the cost is" in out
    assert "--fail" in out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0
    assert capsys.readouterr().out == f"callgrove {__version__}\n"


def test_names_that_the_locale_cannot_write_are_escaped() -> None:
    arguments = ["top", "größe-日", "--format", "csv", "--rows", "1"]
    unicode = in_a_process(arguments, {"PYTHONIOENCODING": "utf-8"}, capture_output=True)
    assert unicode.stdout.decode() == "path,number\ngröße-日,0\n"
    ascii_only = in_a_process(arguments, {"PYTHONIOENCODING": "ascii"}, capture_output=True)
    assert ascii_only.stdout == b"path,number\ngr\\xf6\\xdfe-\\u65e5,0\n"
    assert ascii_only.returncode == 0


def test_a_reader_that_leaves_early() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        done = in_a_process(["top", "a", "--rows", "100000", "--format", "csv"], stdout=pipe, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (0, b"running\n")


@pytest.mark.parametrize("n_rows", ["1", "100000"])
def test_a_full_disk(n_rows: str) -> None:
    if not Path("/dev/full").exists():
        need("dev-full", "there is no /dev/full")
    with Path("/dev/full").open("wb") as full:
        done = in_a_process(["top", "a", "--rows", n_rows, "--format", "csv"], stdout=full, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (1, b"running\ncallgrove: stdout: No space left on device\n")


def test_the_table_of_verbs() -> None:
    names = [verb.name for verb in VERBS]
    assert len(set(names)) == len(names)
    assert "info" in names  # what a bare path means
    assert len({load_command(verb) for verb in VERBS}) == len(VERBS)
    assert max(len(verb.help) for verb in VERBS) <= 75  # the overview fits a terminal


def test_options_need_no_numpy() -> None:
    program = "import sys, callgrove.cli.main, callgrove.cli.options; print({'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("set()\n", "")


def test_the_overview_lists_every_verb_once_in_groups(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert [out.count(f"\n  {verb.name} ") for verb in VERBS] == [1] * len(VERBS)
    assert all(f"\n{group}:\n" in out for group in {verb.group for verb in VERBS})


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_every_verb_has_examples_that_can_be_typed(verb: Verb, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb.name, "--help"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"usage: callgrove {verb.name} ")
    assert len(out.splitlines()[0]) <= 80
    for example in EXAMPLES[verb.name]:
        assert f"\n  {example}\n" in out
        program, *words = shlex.split(example, comments=True)
        assert program == "callgrove"
        assert words[0] == verb.name or verb.name == "info"
        command = load_command(verb)
        parser = Parser(f"callgrove {verb.name}")
        command.add_arguments(parser)
        parser.read(words[1:] if words[0] == verb.name else words, command.options)  # else a UsageError
