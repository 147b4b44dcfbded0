"""Inputs are regular files: a pipe in the place of any of them is refused or passed over, never waited for."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from callgrove.cli.main import main
from callgrove.examples import example, gpu_example, study_example
from tests.requirements import ROOT

VERBS = (["info"], ["check"], ["top"], ["export", "--table", "values"], ["export", "--table", "spans"])
SECONDS = 10.0  # nothing here takes a tenth of it


def write_inputs(folder: Path) -> dict[str, Path]:
    """Write an example of every kind of input that is a folder, or that has files beside it."""
    for name in ("run.cgrove", "run.d"):
        example(ranks=2).write(str(folder / name))
    for name, format_name in (("old.d", "hpctoolkit-prerelease"), ("m", "hpcrun")):
        example(ranks=2).write(str(folder / name), format_name)
    gpu_example().write(str(folder / "gpu.cgrove"))
    gpu_example().write(str(folder / "gpu.db"), "rocpd-draft")
    study_example().write(str(folder / "study.cgrove"))
    return {path.name: path for path in folder.iterdir()}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_inputs(tmp_path_factory.mktemp("inputs"))


@contextlib.contextmanager
def released(pipe: Path) -> Iterator[list[str]]:
    """After some seconds, let whoever waits for the pipe go on, and remember that somebody did."""
    waited: list[str] = []

    def release() -> None:
        with contextlib.suppress(OSError):  # nobody waits
            os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
            waited.append(pipe.name)

    timer = threading.Timer(SECONDS, release)
    timer.start()
    try:
        yield waited
    finally:
        timer.cancel()


@pytest.mark.parametrize("name", ["run.cgrove", "gpu.cgrove", "study.cgrove", "run.d", "old.d", "m"])
def test_no_verb_waits_for_a_pipe_in_a_folder(
    name: str, inputs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = sorted(path.relative_to(inputs[name]) for path in inputs[name].rglob("*") if path.is_file())
    assert files
    for number, file in enumerate(files[:16]):
        copy = tmp_path / str(number)
        shutil.copytree(inputs[name], copy)
        (copy / file).unlink()
        os.mkfifo(copy / file)
        with released(copy / file) as waited:
            for verb in VERBS:
                assert main([*verb[:1], str(copy), *verb[1:]]) in (0, 1, 2, 3), verb
                assert not waited, (verb, file)
        assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("suffix", ["-wal", "-journal"])
def test_no_verb_waits_for_a_pipe_beside_a_database(
    suffix: str, inputs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = Path(shutil.copy(inputs["gpu.db"], tmp_path))
    os.mkfifo(database.with_name(f"gpu.db{suffix}"))
    with released(database.with_name(f"gpu.db{suffix}")) as waited:
        for verb in VERBS:
            main([*verb[:1], str(database), *verb[1:]])
            assert not waited, verb
    assert "not a regular file" in capsys.readouterr().err


# -- one place ---------------------------------------------------------------------------------------------------------

SRC = ROOT / "src" / "callgrove"
ROOMS = ("binary", "formats", "model", "prof", "query", "analysis", "algebra", "modeling")
READS = re.compile(
    r"""\.open\((buffering=\d, )?["']rb?["']|\.read_bytes\(\)|\.read_text\(|fromfile\((self\.)?path|memory_map\("""
)
# What these modules read in another way is not input: it is the system's, it was written by ourselves, or a user names
# it in an option, where it may come from a pipe (`--align <(...)`).
OTHERS = {
    "binary/files.py": "parts of files that we wrote",
    "binary/sqlite/connection.py": "the system's list of locks",
    "formats/writing/outputs.py": "what was written, to be copied",
    "formats/writing/targets.py": "the system's number of this boot",
    "formats/timeline/otf2/writer.py": "the archive in the making",
    "formats/columnar/folder.py": "a table that open_regular has looked at",
    "formats/events/spans.py": "the option align",
    "model/experiment.py": "a copy of a source that is a file",
    "prof/second_pass.py": "our spool",
    "prof/spool.py": "our spool",
    "analysis/timeline_index/cache.py": "our lock, and samples of files that their format has opened",
    "analysis/timeline_index/layout.py": "our index",
    "analysis/timeline/items.py": "an option",
    "analysis/comparison/call_paths.py": "an option",
}


def test_inputs_are_opened_in_one_place() -> None:
    others = []
    for path in (path for room in ROOMS for path in sorted((SRC / room).rglob("*.py"))):
        name = str(path.relative_to(SRC))
        if name not in OTHERS:
            lines = path.read_text("utf-8").splitlines()
            others += [f"{name}:{number}" for number, line in enumerate(lines, 1) if READS.search(line)]
    assert not others, "these read files without `binary.files.open_regular`"
