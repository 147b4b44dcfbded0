"""Every verb on real databases: what is printed, under which names, where it goes, and what is documented."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from callgrove.cli.main import VERBS, main
from callgrove.render import Look
from tests.cli.commands import Capture, header, rows, run, said
from tests.formats.samples import CORPUS, databases
from tests.golden import assert_golden
from tests.requirements import ROOT
from tests.timing import HANG_SEC

DATABASES = [*databases("prerelease"), *databases("release")]
every_database = pytest.mark.parametrize("path", DATABASES, ids=lambda p: f"{p.parent.name}/{p.name}")
PTH4 = CORPUS / "hpctoolkit" / "release" / "pth4.d"
MPI4 = CORPUS / "hpctoolkit" / "release" / "mpi4.d"
TABLES = ("profiles", "metrics", "contexts", "values", "samples", "spans", "counters", "parameters")
# DESIGN: `export` tables and their first columns; further columns may follow.
FIRST_COLUMNS = {
    "profiles": "profile source_id run kind name node rank thread gpu_device gpu_context gpu_stream core",
    "metrics": "metric source_id name unit scope dtype aggregate parent",
    "contexts": "context source_id parent kind name file line module offset path",
    "values": "profile context metric value",
    "samples": "profile time_ns context",
    "spans": "profile kind category name start_ns end_ns depth correlation",
    "counters": "profile name time_ns value",
    "parameters": "run name value",
}
# DESIGN: columns of the printed tables.
COSTS = ["name", "kind", "file", "line", "module", "exclusive", "inclusive", "percent"]
SPREAD = "name n sum mean min p25 median p75 max std cv imbalance percent_imbalance load_balance excess slowest percent"
PRINTED = {
    "imbalance": [*SPREAD.split(), "kind", "file", "line", "module"],
    "top": COSTS,
    "tree": ["context", "depth", *COSTS],
    "hot": ["context", "depth", *COSTS],
}

# -- every verb, every format ----------------------------------------------------------------------------------------

FORMATS = ("table", "csv", "json", "markdown", "latex", "html")
ON_A_DATABASE = [
    ("info", FORMATS, ()),
    ("info", FORMATS, ("--metrics",)),
    ("top", FORMATS, ()),
    ("tree", FORMATS, ()),
    ("tree", FORMATS, ("--bottom-up",)),
    ("tree", FORMATS, ("--source",)),
    ("hot", FORMATS, ()),
    ("imbalance", FORMATS, ()),
    ("imbalance", ("csv", "json"), ("--over", "thread", "--by", "context", "--scope", "inclusive")),
    ("top", FORMATS, ("--columns", "thread")),
    ("pop", ("table", "csv", "json"), ()),
    ("pop", ("markdown", "latex", "html"), ()),  # for people, with names indented
    ("dump", (*FORMATS, "jsonl"), ("--limit", "40")),
    ("check", FORMATS, ()),
    *(("export", (*FORMATS, "jsonl"), ("--table", table)) for table in TABLES),
    *(("export", ("csv",), ("--table", "values", "--scope", s)) for s in ("exclusive", "inclusive", "function")),
    *(("top", ("csv",), ("--by", by)) for by in ("function", "line", "loop", "context", "file", "module")),
    *(("top", FORMATS, ("--by", by)) for by in ("thread", "node", "run")),
]


@pytest.mark.parametrize(("verb", "formats", "options"), ON_A_DATABASE, ids=lambda x: x if isinstance(x, str) else None)
@every_database
def test_runs_in_every_format(
    path: Path, verb: str, formats: tuple[str, ...], options: tuple[str, ...], capsys: Capture
) -> None:
    names = {}
    for format_ in formats:
        out = run(capsys, verb, path, *options, "--format", format_)
        assert out.endswith("\n") or (not out and (format_ == "jsonl" or (verb, format_) == ("check", "table")))
        if format_ == "csv":
            names["csv"] = header(out)
            assert len({len(row) for row in csv.reader(io.StringIO(out))}) == 1
        elif format_ == "json" and verb != "info" and (found := json.loads(out)):
            names["json"] = list(found[0])
        elif format_ == "jsonl" and out:
            names["jsonl"] = list(json.loads(out.splitlines()[0]))
        elif format_ == "markdown":
            names["markdown"] = [cell.strip() for cell in out.splitlines()[0].strip("|").split("|")]
    assert len({tuple(found) for found in names.values()}) == 1


def test_every_verb_is_run_here() -> None:
    elsewhere = {"formats", "convert", "demo", "model", "predict", "advise", "summary", "prof"}
    elsewhere |= {"diff", "merge", "mean", "cut", "part", "common", "remap", "report", "sql", "timeline"}
    elsewhere |= {"explore", "completion", "help", "view", "rocpd", "anonymize", "explain", "why", "watch", "mcp"}
    assert {verb for verb, _, _ in ON_A_DATABASE} | elsewhere == {verb.name for verb in VERBS}


@pytest.mark.parametrize("format_", FORMATS)
def test_formats(format_: str, capsys: Capture) -> None:
    out = run(capsys, "formats", "--format", format_)
    assert "hpctoolkit-release" in out
    if format_ == "json":
        assert list(json.loads(out)[0]) == ["name", "title", "reads", "writes", "missing", "package"]


@pytest.mark.parametrize("table", TABLES)
@every_database
def test_columns_of_exported_tables(path: Path, table: str, capsys: Capture) -> None:
    expected = FIRST_COLUMNS[table].split()
    assert header(run(capsys, "export", path, "--table", table))[: len(expected)] == expected


@pytest.mark.parametrize("verb", PRINTED)
@every_database
def test_columns_of_printed_tables(path: Path, verb: str, capsys: Capture) -> None:
    assert header(run(capsys, verb, path, "--format", "csv")) == PRINTED[verb]


# -- goldens ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["info", "top", "tree", "hot"])
@every_database
def test_golden(path: Path, verb: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    assert_golden(f"cli/{path.parent.name}/{path.name}.{verb}.txt", run(capsys, verb, path.name))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("tree-source", ["tree", "mpi4.d", "--source", "--limit", "all"]),
        ("tree-bottom-up", ["tree", "mpi4.d", "--bottom-up"]),
        ("top-line", ["top", "mpi4.d", "--by", "line"]),
        ("top-rank", ["top", "mpi4.d", "--rank", "2-3", "--thread", "3"]),
        ("info-metrics", ["info", "mpi4.d", "--metrics"]),
        ("dump", ["dump", "mpi4.d", "--section", "Profile", "--limit", "30"]),
    ],
)
def test_golden_of_options(name: str, words: list[str], capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(MPI4.parent)
    assert_golden(f"cli/release/mpi4.d.{name}.txt", run(capsys, *words))


def test_golden_of_formats(capsys: Capture) -> None:
    assert_golden("cli/formats.txt", run(capsys, "formats"))


# -- what does not exist ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["export", PTH4, "--table", "nonsense"], r"invalid choice: 'nonsense' \(choose from '?profiles'?, .*--help"),
        (["top", PTH4, "-m", "cylces"], r"there is no metric 'cylces'; there are CPUTIME \(sec\)"),
        (["export", PTH4, "--table", "values", "-m", "cylces"], r"there is no metric 'cylces'"),
        (["top", MPI4, "--rank", "9"], r"no profile has rank 9 \(there are 0 to 3\)"),
        (["tree", MPI4, "--rank", "0", "--thread", "7-8"], r"rank 0 .* and thread 7-8 \(there are 0 to 3\)"),
        (["top", PTH4, "--rank", "0"], r"no profile has rank 0 \(there are none\)"),
        (
            ["top", CORPUS / "hpcrun" / "2016.12" / "pth4.m", "--rank", "9"],
            r"no profile has rank 9 \(there is only 0\)",
        ),
        (["top", PTH4, "--by", "fucntion"], r"invalid choice: 'fucntion' \(choose .* \(did you mean 'function'\?\)"),
        (["top", PTH4, "--by", "color"], r"invalid choice: 'color'"),
        (["top", PTH4, "--format", "xml"], r"invalid choice: 'xml'"),
        (["export", PTH4], r"name a table: --table profiles, metrics, .* or series"),
        (["export", PTH4, "--table", "series"], r"carry no parameters, .*--point"),
        (["export", PTH4, "--table", "values", "--scope", "best"], r"invalid choice: 'best'"),
        (
            ["info", PTH4, "--from", "hpctoolkit-relase"],
            r"no format 'hpctoolkit-relase'; did you mean hpctoolkit-release",
        ),
        (["tree", PTH4, "--bottom-up", "--source"], r"not allowed with argument"),
        (["hot", PTH4, "--share", "2"], r"'2' is not a share between 0 and 1"),
        (["convert", PTH4, "out", "--to", "hpctoolkit-relase"], r"did you mean hpctoolkit-release"),
    ],
    ids=lambda x: " ".join(str(getattr(w, "name", w)) for w in x) if isinstance(x, list) else "",
)
def test_wrong_usage(words: list[object], sentence: str, capsys: Capture) -> None:
    assert re.search(sentence, said(capsys, *words, code=2))


def test_from_overrides_detection(capsys: Capture) -> None:
    assert run(capsys, "info", PTH4, "--from", "hpctoolkit-release") == run(capsys, "info", PTH4)
    assert "released database" in said(capsys, "info", PTH4, "--from", "hpctoolkit-prerelease", code=3)


# -- where output goes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [["top"], ["tree"], ["hot"], ["check"], ["dump"], ["export", "--table", "values"]])
def test_output_to_a_file(words: list[str], tmp_path: Path, capsys: Capture) -> None:
    for format_ in ("csv", "json", "markdown"):
        shown = run(capsys, *words, PTH4, "--format", format_)
        target = tmp_path / f"out.{format_}"
        target.write_text("what was there before")
        assert run(capsys, *words, PTH4, "--format", format_, "-o", target) == ""
        assert target.read_text("utf-8") == shown
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.csv", "out.json", "out.markdown"]


def test_a_failure_leaves_the_old_file(tmp_path: Path, capsys: Capture) -> None:
    target = tmp_path / "out.csv"
    target.write_text("what was there before")
    said(capsys, "top", PTH4, "-m", "cylces", "-o", target, code=2)
    assert target.read_text() == "what was there before"


def test_a_bare_path_is_info(capsys: Capture) -> None:
    for path in DATABASES:
        assert run(capsys, path) == run(capsys, "info", path)
    assert json.loads(run(capsys, PTH4, "--format", "json")) == rows(capsys, "info", PTH4)


def test_info_of_several(capsys: Capture) -> None:
    both = run(capsys, "info", PTH4, MPI4)
    assert both == run(capsys, "info", PTH4) + "\n" + run(capsys, "info", MPI4)


def test_commands_of_info_run(capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`next` lists commands for this very file, quoted for a shell."""
    monkeypatch.chdir(tmp_path)
    spaced = tmp_path / "it's a run.d"
    spaced.symlink_to(PTH4)
    for path in (*DATABASES, spaced):
        commands = [line.strip() for line in run(capsys, path).partition("\nnext\n")[2].splitlines()]
        assert len(commands) >= 3
        for command in commands:
            program, *words = shlex.split(command)
            assert program == "callgrove"
            assert str(path) in words
            if words[0] == "report":
                run(capsys, *words, "--force")
                assert Path("report.html").stat().st_size
            else:
                assert run(capsys, *words)


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), **more}


def in_a_terminal(*words: str, **more: str) -> str:
    """What a command prints to a terminal of 100 columns. stderr is none: on a slow machine it would show a bar."""
    import fcntl
    import pty
    import struct
    import termios

    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    command = [sys.executable, "-m", "callgrove", *words]
    variables = environment(TERM="xterm-256color", PYTHONUTF8="1", **more)
    variables = {name: value for name, value in variables.items() if value}
    with subprocess.Popen(command, stdin=child, stdout=child, stderr=subprocess.DEVNULL, env=variables) as process:
        os.close(child)
        pieces = list(_until_closed(parent))
    os.close(parent)
    assert process.returncode == 0
    return b"".join(pieces).decode()


def _until_closed(descriptor: int) -> Iterator[bytes]:
    try:
        while piece := os.read(descriptor, 65536):
            yield piece
    except OSError:  # the other end of a terminal is closed
        return


def test_colours_on_a_terminal_only(capsys: Capture) -> None:
    colours = re.compile(r"\x1b\[[0-9;]*m")
    shown = in_a_terminal("top", str(PTH4), NO_COLOR="")
    plain = in_a_terminal("top", str(PTH4), NO_COLOR="1")
    assert colours.search(shown)
    assert not colours.search(plain)
    assert colours.sub("", shown) == plain
    assert "\x1b" not in run(capsys, "top", PTH4)
    assert max(len(line) for line in plain.splitlines()) <= 100


def test_check_prints_problems_in_full_and_nothing_where_there_are_none(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(capsys, "check", PTH4) == ""
    monkeypatch.setattr("callgrove.cli.output.stdout_look", lambda: Look(width=60))
    broken = tmp_path / "series.txt"
    broken.write_text("PARAMETER p\nPOINTS 1 2\nREGION main\nDATA 1\nDATA 2\nDATA 3\n")
    last = run(capsys, "check", broken, code=3).splitlines()[-1]
    assert re.search(r"opening +DATA.* 2 DATA lines, one per point, found 3 for the region 'main'", last), last


def test_stdout_is_data_only() -> None:
    for words in (["top"], ["tree"], ["export", "--table", "values"], ["check"]):
        done = subprocess.run(
            [sys.executable, "-m", "callgrove", *words, str(PTH4), "--format", "csv"],
            capture_output=True,
            text=True,
            timeout=HANG_SEC,
            check=True,
            env=environment(),
        )
        table = list(csv.reader(io.StringIO(done.stdout)))
        assert len({len(row) for row in table}) == 1
        assert all(line.startswith("callgrove: ") for line in done.stderr.splitlines())


def test_a_reader_that_has_seen_enough() -> None:
    """`callgrove ... | head -n 1` is not a failure, and nothing is said about it."""
    command = [sys.executable, "-m", "callgrove", "dump", str(MPI4), "--format", "csv"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"file,offset,section,index,field,value\n"
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


# -- convert and demo ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("to", ["hpctoolkit-release", "hpctoolkit-prerelease"])
@every_database
def test_convert(path: Path, to: str, tmp_path: Path, capsys: Capture) -> None:
    """To either generation: the same totals, a sound database, and nothing is overwritten unasked."""
    target = tmp_path / "out.d"
    assert run(capsys, "convert", path, target, "--to", to) == ""
    assert run(capsys, "check", target, "--format", "csv").count("\n") == 1
    totals = [sum(r["exclusive"] for r in rows(capsys, "top", p, "--limit", "all")) for p in (path, target)]
    assert totals[0] == pytest.approx(totals[1], rel=1e-9)
    before = {p: p.read_bytes() for p in target.rglob("*") if p.is_file()}
    assert str(target) in said(capsys, "convert", path, target, "--to", to, code=2)
    assert {p: p.read_bytes() for p in target.rglob("*") if p.is_file()} == before
    run(capsys, "convert", path, target, "--to", to, "--force")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.d"]


def test_convert_says_what_is_missing_or_unknown(capsys: Capture, tmp_path: Path) -> None:
    """A format that nothing names, dialects that a format does not have."""
    out = tmp_path / "out.d"
    assert "choose one with --to" in said(capsys, "convert", PTH4, tmp_path / "out", code=2)
    for to, dialect, message in (
        ("hpctoolkit-prerelease", "modern", "has genuine, document, not 'modern'"),
        ("hpctoolkit-release", "genuine", "has no dialects, not 'genuine'"),
    ):
        assert message in said(capsys, "convert", PTH4, out, "--to", to, "--dialect", dialect, code=2)
    assert not out.exists()
    run(capsys, "convert", PTH4, out, "--to", "hpctoolkit-prerelease", "--dialect", "document")
    assert (out / "profile.db").read_bytes()[16:18] == bytes([4, 0])


def test_convert_to_a_format_that_is_only_read(capsys: Capture, tmp_path: Path) -> None:
    readers = [row["name"] for row in rows(capsys, "formats") if row["writes"] == "no"]
    for name in readers:
        assert name in said(capsys, "convert", PTH4, tmp_path / "out", "--to", name, code=2)


def test_demo(capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "$ callgrove info stencil.d" in run(capsys, "demo", "--keep", tmp_path)
    assert run(capsys, "check", tmp_path / "stencil.d", "--format", "csv").count("\n") == 1


# -- documentation ---------------------------------------------------------------------------------------------------

REFERENCE = (ROOT / "docs" / "cli.md").read_text("utf-8")


@pytest.mark.parametrize("verb", [verb.name for verb in VERBS])
def test_every_verb_is_documented_with_an_example(verb: str) -> None:
    assert f"| [`{verb}`](#{verb}) |" in REFERENCE
    section = re.search(rf"^## {verb}$(.*?)(?=^## |\Z)", REFERENCE, re.MULTILINE | re.DOTALL)
    assert section is not None, f"docs/cli.md has no section about {verb}"
    shown = "text" if verb in ("explore", "mcp") else "console"  # these need a terminal, or somebody who asks
    assert re.search(rf"```{shown}\n(.*\n)*?\$ callgrove {verb}\b", section[1])


def test_nothing_else_is_documented() -> None:
    documented = set(re.findall(r"^\| \[`(\w+)`\]", REFERENCE, re.MULTILINE))
    assert documented == {verb.name for verb in VERBS}


def test_documented_output_is_real(capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the reference shows below a command is what the command prints; `...` stands for more of it."""
    monkeypatch.chdir(tmp_path)
    run(capsys, "demo", "--keep", ".")
    n_shown = 0
    for block in re.findall(r"^```console\n(.*?)^```", REFERENCE, re.MULTILINE | re.DOTALL):
        shown = re.findall(r"^\$ callgrove (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
        for command, output in shown:
            if not any(text for _, text in shown):
                continue
            printed = run(capsys, *shlex.split(command))  # one may need what the one before wrote
            if not output:
                continue
            text, _, more = output.partition("...\n")
            assert printed.startswith(text) if "...\n" in output else printed == text, command
            assert more == ""
            n_shown += 1
    assert n_shown >= 4


def test_the_hot_path_says_why_it_ends(capsys: Capture) -> None:
    assert main(["hot", str(PTH4), "--share", "0.9"]) == 0
    out, err = capsys.readouterr()
    further = re.search(r"no call of (\S+) has 90% of its cost; leaf has 59%: --share (0.58) goes on", err)
    assert further, err
    assert len(run(capsys, "hot", PTH4, "--share", further[2]).splitlines()) == len(out.splitlines()) + 1
    capsys.readouterr()
    assert main(["hot", str(PTH4), "--share", "0.9", "--format", "csv"]) == 0
    assert capsys.readouterr().err == ""


def test_measurements_lead_to_a_database(capsys: Capture) -> None:
    commands = re.findall(
        r"^ +(callgrove .*)", run(capsys, "info", CORPUS / "hpcrun" / "04.00" / "pth4.m"), re.MULTILINE
    )
    assert commands[0].startswith("callgrove prof ")


def test_an_empty_table_is_said(capsys: Capture, tmp_path: Path) -> None:
    for table in ("spans", "counters"):
        capsys.readouterr()
        assert main(["export", str(PTH4), "--table", table]) == 0
        out, err = capsys.readouterr()
        assert (out.count("\n"), err) == (1, f"callgrove: {PTH4}: has no {table}\n")


def test_stdin_is_no_input(capsys: Capture) -> None:
    assert "inputs cannot be read from a pipe" in said(capsys, "info", "-", code=2)


def test_a_file_is_written_as_its_name_says(capsys: Capture, tmp_path: Path) -> None:
    for name, option in (
        ("t.csv", "csv"),
        ("t.json", "json"),
        ("t.md", "markdown"),
        ("t.txt", "table"),
        ("t", "table"),
    ):
        run(capsys, "top", PTH4, "-o", tmp_path / name)
        told = tmp_path / "told"
        run(capsys, "top", PTH4, "--format", option, "-o", told)
        assert (tmp_path / name).read_text() == told.read_text()
    run(capsys, "top", PTH4, "--format", "csv", "-o", tmp_path / "t.json")  # as told
    assert (tmp_path / "t.json").read_text() == (tmp_path / "t.csv").read_text()
    run(capsys, "export", PTH4, "--table", "metrics", "-o", tmp_path / "m.jsonl")
    assert (tmp_path / "m.jsonl").read_text().startswith("{")
    assert "does not write parquet" in said(capsys, "top", PTH4, "-o", tmp_path / "t.parquet", code=2)
    page = tmp_path / "page.pdf"
    assert "a report is a page of HTML; name it like page.html" in said(capsys, "report", PTH4, "-o", page, code=2)
    assert not page.exists()
