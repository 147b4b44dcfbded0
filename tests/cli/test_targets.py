"""What cannot be written is said before anything is read, and inputs are never modified."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import callgrove
from callgrove.cli.main import VERBS, load_command
from callgrove.cli.parser import Parser
from callgrove.cli.verbs.convert import main as rocprofv3_merge
from callgrove.cli.verbs.demo import make_inputs
from callgrove.examples import example
from callgrove.formats.interface import WriteOptions
from callgrove.formats.registry import writer_of
from callgrove.formats.writing.transfer import write_experiment
from tests.cli.commands import Capture, run, said
from tests.formats.gpu.gpu_databases import Event, Run, write_rocpd

WRITING = (
    *(
        ("convert", "{input}", "{out}"),
        ("merge", "{input}", "{input}", "{out}"),
        ("mean", "{input}", "{input}", "{out}"),
    ),
    *(("cut", "{input}", "{out}", "--root", "main"), ("part", "{input}", "{out}")),
    *(("common", "{input}", "{input}", "{out}"), ("merge", "{input}", "{out}", "--index")),
)
PRINTING = (
    *(("export", "{input}", "--table", "spans"), ("top", "{input}"), ("sql", "{input}", "SELECT 1")),
    *(("report", "{input}"), ("dump", "{input}"), ("summary", "{input}")),
)


@pytest.fixture
def garbage(tmp_path: Path) -> Path:
    """An input that fails with exit code 3 as soon as it is opened."""
    path = tmp_path / "garbage"
    path.write_bytes(b"no performance data")
    return path


def asked(words: tuple[str, ...], source: Path, out: Path) -> list[str]:
    return [word.format(input=source, out=out) for word in words]


@pytest.mark.parametrize("words", WRITING, ids=" ".join)
def test_what_is_there_is_refused_before_the_input_is_opened(
    words: tuple[str, ...], garbage: Path, tmp_path: Path, capsys: Capture
) -> None:
    out = tmp_path / "out.pftrace"
    out.write_text("mine")
    assert f"{out}: exists already" in said(capsys, *asked(words, garbage, out), code=2)
    assert out.read_text() == "mine"


@pytest.mark.parametrize("words", [*WRITING, *((*words, "-o", "{out}") for words in PRINTING)], ids=" ".join)
def test_a_folder_that_is_not_there(words: tuple[str, ...], garbage: Path, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "nowhere" / "out.pftrace"
    expected = f"{out}: cannot be written: there is no folder {out.parent}; make it first"
    assert expected in said(capsys, *asked(words, garbage, out), code=2)


@pytest.mark.parametrize("words", PRINTING, ids=" ".join)
def test_tables_never_replace_an_input(words: tuple[str, ...], tmp_path: Path, capsys: Capture) -> None:
    path = write_rocpd(tmp_path / "r.db", [Run((Event("api", "f", 1, 2),))])
    before = path.read_bytes()
    (tmp_path / "link").symlink_to(path)
    for out in (path, tmp_path / "link"):
        found = said(capsys, *asked(words, path, out), "-o", str(out), code=2)
        assert f"{out}: is an input or a part of one, which is never modified" in found
    assert "is an input or a part of one" in said(capsys, "info", tmp_path, "-o", path, code=2)
    assert path.read_bytes() == before
    assert "is a folder" in said(capsys, *asked(words, path, path), "-o", str(tmp_path), code=2)
    assert "-o needs the name of a file" in said(capsys, *asked(words, path, path), "-o", "", code=2)


def test_a_table_that_does_not_fit_names_its_file(tmp_path: Path) -> None:
    """Where files have a limit (a quota of the shell, or of the file system), writing fails in the middle."""
    path = write_rocpd(tmp_path / "r.db", [Run(tuple(Event("api", f"f{k}", k, k + 1) for k in range(500)))])
    out = tmp_path / "spans.csv"
    script = (
        "import resource, signal, sys; from callgrove.cli.main import main;"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096));"
        f"sys.exit(main(['export', {str(path)!r}, '--table', 'spans', '-o', {str(out)!r}]))"
    )
    done = subprocess.run([sys.executable, "-B", "-c", script], capture_output=True, text=True)  # -B: no cut modules
    assert (done.returncode, done.stderr) == (1, f"callgrove: {out}: File too large\n")
    assert list(tmp_path.iterdir()) == [path]


def test_targets_that_are_or_hold_the_input(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "in").mkdir()
    path = write_rocpd(tmp_path / "in" / "r.db", [Run((Event("api", "f", 1, 2),))])
    for out in (path, path / "x.pftrace"):
        found = said(capsys, "convert", path, out, "--to", "perfetto", "--force", code=2)
        assert f"{out}: is the input itself or a part of it" in found
    assert "in: holds the input" in said(capsys, "convert", path, path.parent, "--to", "callgrove", "--force", code=2)
    assert "is the input itself" in said(capsys, "mean", path, path, path, "--force", code=2)


def test_files_of_csv_come_into_the_folder_of_the_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """They lie beside it, which does not modify it."""
    write_rocpd(tmp_path / "r.db", [Run((Event("api", "f", 1, 2),))])
    monkeypatch.chdir(tmp_path)
    run(capsys, "convert", "r.db", ".", "--to", "rocprof-csv")
    assert (tmp_path / "hip_api_trace.csv").read_text().splitlines()[1:]
    assert "hip_api_trace.csv: exists already" in said(capsys, "convert", "r.db", ".", "--to", "rocprof-csv", code=2)


@pytest.mark.parametrize("words", WRITING[:-2], ids=" ".join)
@pytest.mark.parametrize("name", ["out.cubex", "out.d", "out.cgrove", "out.otf2", "out.hpcrun"])
def test_other_kinds_are_never_replaced_and_that_is_said_first(
    words: tuple[str, ...], name: str, garbage: Path, tmp_path: Path, capsys: Capture
) -> None:
    """A folder where a file is to come, a file where a folder is, and a folder with other things in it."""
    out = tmp_path / name
    is_file = name in ("out.cubex", "out.hpcrun")
    command = [*asked(words, garbage, out), "--force"]
    if not is_file:
        out.write_text("mine")
        assert f"{out}: is a file, and a" in said(capsys, *command, code=2)
        out.unlink()
    out.mkdir()
    (out / "mine").touch()
    wanted = "and a file is to be written" if is_file else "with other things than a"
    assert f"{out}: is a folder" in (found := said(capsys, *command, code=2))
    assert wanted in found
    assert list(out.iterdir()) == [out / "mine"]


def test_without_an_ending_the_input_says_what_is_written(tmp_path: Path, capsys: Capture) -> None:
    for name in ("a", "b"):
        write_rocpd(tmp_path / f"{name}.db", [Run((Event("api", "f", 1, 2),))])
    out = tmp_path / "out"
    out.mkdir()
    for verb in ("mean", "merge"):
        found = said(capsys, verb, tmp_path / "a.db", tmp_path / "b.db", out, "--force", code=2)
        assert found == f"{out}: is a folder, and a file is to be written; choose another name"


@pytest.mark.parametrize("words", [("convert", "{input}", "{out}"), ("mean", "{input}", "{input}", "{out}")])
def test_an_unknown_target_offers_what_can_be_written(words: tuple[str, ...], tmp_path: Path, capsys: Capture) -> None:
    source = tmp_path / "in.cubex"
    callgrove.write(example(), source)
    asked = [word.format(input=source, out=tmp_path / "out") for word in words]
    near = said(capsys, *asked, "--to", "hpctoolkit", code=2)
    assert near == "there is no format 'hpctoolkit'; did you mean hpctoolkit-release?"
    assert "extrap-binary3" not in said(capsys, *asked, "--to", "zzz", code=2)


def test_the_input_may_lie_in_a_folder(tmp_path: Path, capsys: Capture) -> None:
    """As Score-P makes one around its profile: what is replaced is of the same kind."""
    parts = []
    for name in "ab":
        around = tmp_path / name
        around.mkdir()
        write_experiment(example(), writer_of("cube"), around / "profile.cubex", WriteOptions())
        parts.append(around)
    for more in ((), ("--force",)):
        run(capsys, "merge", *parts, tmp_path / "both", *more)
    assert (tmp_path / "both").is_file()


def test_what_other_verbs_write_is_looked_at_first_too(garbage: Path, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "out.extra-p"
    out.mkdir()
    assert f"{out}: exists already" in said(capsys, "model", garbage, "--save", out, code=2)
    assert f"{out}: is a folder" in said(capsys, "model", garbage, "--save", out, "--force", code=2)
    assert "cannot be written as cube" in said(capsys, "model", garbage, "--save", tmp_path / "o.cubex", code=2)
    assert f"{out}: is a folder" in said(capsys, "model", garbage, "--plot", out, code=2)
    assert "--plot needs the name of a file" in said(capsys, "model", garbage, "--plot", "", code=2)
    assert f"{out}: exists already" in said(capsys, "diff", garbage, garbage, "--write", out, code=2)
    index = tmp_path / "index"
    index.write_text("mine")
    assert f"{index}: is a file" in said(
        capsys, "merge", "--from", "rocpd", garbage, index, "--index", "--force", code=2
    )


def test_every_target_of_rocprofv3_merge_is_looked_at_first(tmp_path: Path, capsys: Capture) -> None:
    path = write_rocpd(tmp_path / "r.db", [Run((Event("api", "f", 1, 2),))])
    (tmp_path / "out.otf2").write_text("mine")
    words = ["--in", str(path), "--out", str(tmp_path / "out.otf2"), "--output-format", "pftrace", "otf2", "--force"]
    assert rocprofv3_merge(words) == 2
    assert "out.otf2: is a file, and an OTF2 archive is a folder" in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == [tmp_path / "out.otf2", path]


WITH_OUTPUT = {  # a command for every verb that has -o, and what begins or is in its output
    "info": ("info stencil.d", "title"),
    "formats": ("formats", "hpctoolkit-release"),
    "top": ("top stencil.d", "kernel"),
    "tree": ("tree stencil.d", "main"),
    "hot": ("hot stencil.d", "main"),
    "imbalance": ("imbalance stencil.d", "kernel"),
    "diff": ("diff stencil.d stencil.d", "present"),
    "pop": ("pop stencil.d", "load balance"),
    "explain": ("explain stencil.d", "kernel has"),
    "why": ("why stencil.d stencil.d", "CPUTIME"),
    "model": ("model scaling.txt", "kernel"),
    "predict": ("predict scaling.txt --at p=128,n=500", "kernel"),
    "advise": ("advise scaling.txt", "strategy"),
    "summary": ("summary train.db", "gemm"),
    "timeline": ("timeline stencil.d", "percent"),
    "report": ("report scaling.txt", "<!DOCTYPE html>"),
    "export": ("export stencil.d --table contexts", "context,"),
    "sql": ("sql scaling.txt SELECT(7)*6", "42"),
    "dump": ("dump stencil.d/meta.db", "HPCTOOLKIT"),
    "check": ("check stencil.d", "severity"),
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    make_inputs(folder)
    return folder


def test_every_verb_with_an_output_is_tried() -> None:
    with_output = set()
    for verb in VERBS:
        parser = Parser(verb.name)
        load_command(verb).add_arguments(parser)
        action = parser._option_string_actions.get("-o")
        if action and action.dest == "output":  # that of `rocpd` is how files in a folder are called
            with_output.add(verb.name)
    assert with_output == WITH_OUTPUT.keys()


@pytest.mark.parametrize("verb", WITH_OUTPUT)
def test_a_file_is_replaced_when_everything_is_written(
    verb: str, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """By all verbs alike; on a failure, and where it is an input, it stays."""
    monkeypatch.chdir(inputs)
    line, content = WITH_OUTPUT[verb]
    words, out = line.split(), tmp_path / "out"
    out.write_text("old")
    before = {path: path.read_bytes() for path in inputs.rglob("*") if path.is_file()}
    if verb != "formats":
        said(capsys, words[0], "absent.d", *words[2:], "-o", out, code=3)
        assert out.read_text() == "old"
        source = words[1] if Path(words[1]).is_file() else f"{words[1]}/meta.db"
        assert "never modified" in said(capsys, *words, "-o", source, code=2)
    run(capsys, *words, "-o", out)
    assert content in out.read_text()
    assert list(tmp_path.iterdir()) == [out]
    assert {path: path.read_bytes() for path in inputs.rglob("*") if path.is_file()} == before


def test_a_picture_is_replaced(inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.chdir(inputs)
    (tmp_path / "model.svg").write_text("old")
    run(capsys, "model", "scaling.txt", "--callpath", "main->output", "--plot", tmp_path / "model.svg")
    assert "<svg" in (tmp_path / "model.svg").read_text()
