"""Folders around inputs, as profilers and people make them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from callgrove.binary.files import Source
from callgrove.errors import NotRecognised
from callgrove.formats.registry import open_path, settle_format
from callgrove.formats.run_names import MOST_TRIED
from tests.cli.commands import Capture, rows, run, said
from tests.formats.damage import scratch_folder
from tests.formats.gpu.gpu_databases import Event, Run, write_rocpd
from tests.formats.samples import CORPUS
from tests.permissions import as_nobody

SERIES = CORPUS / "extrap" / "text.txt"


@pytest.fixture(scope="module")
def cube(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The measured call tree of the example, as Score-P would store it."""
    from callgrove.examples import example
    from callgrove.formats.interface import WriteOptions
    from callgrove.formats.registry import writer_of
    from callgrove.formats.writing.transfer import write_experiment

    target = tmp_path_factory.mktemp("cube") / "profile.cubex"
    write_experiment(example(), writer_of("cube"), target, WriteOptions())
    return target


@pytest.fixture
def results(cube: Path, tmp_path: Path) -> Path:
    """What Score-P leaves behind, with a trace beside the profile."""
    folder = tmp_path / "scorep-20260101_1200_7"
    (folder / "traces").mkdir(parents=True)
    shutil.copy(cube, folder)
    (folder / "scorep.cfg").write_text("SCOREP_ENABLE_PROFILING=true\n")
    (folder / "MANIFEST.md").write_text("# Manifest\n")
    (folder / "traces.otf2").write_bytes(b"\x01BOTF2" + bytes(64))
    (folder / "traces" / "0.evt").write_bytes(bytes(64))
    return folder


def test_the_profile_in_a_results_folder(results: Path, cube: Path, capsys: Capture) -> None:
    for path in (results, f"{results}/", results.parent):
        assert rows(capsys, "top", path) == rows(capsys, "top", cube)
    assert "sound" not in run(capsys, "check", results)
    assert run(capsys, "dump", results, "--limit", 3) == run(capsys, "dump", cube, "--limit", 3)
    counted = run(capsys, "sql", results, "SELECT count(*) FROM contexts", "--format", "csv")
    assert counted == run(capsys, "sql", cube, "SELECT count(*) FROM contexts", "--format", "csv")
    assert "difference" in run(capsys, "diff", results, cube)
    run(capsys, "merge", results, cube, results.parent / "both.cubex", "--conflict", "sum")


def test_several_inputs_are_named(results: Path, capsys: Capture) -> None:
    shutil.copy(results / "profile.cubex", results / "summary.cubex")
    told = said(capsys, "info", results, code=3)
    assert told == f"{results}: holds several inputs: profile.cubex, summary.cubex; name one of them"
    told = said(capsys, "info", results.parent, code=3)
    assert f"{results.name}/profile.cubex, {results.name}/summary.cubex" in told
    for number in range(9):
        shutil.copy(SERIES, results / f"series{number}.txt")
    assert "series3.txt, ...; name one" in said(capsys, "info", results, code=3)


def test_a_database_beside_the_measurements_that_it_was_made_of(tmp_path: Path) -> None:
    """As hpcrun and hpcprof name them."""
    shutil.copytree(CORPUS / "hpcrun" / "04.00" / "pth4.m", tmp_path / "hpctoolkit-app-measurements")
    assert settle_format(Source.of(tmp_path))[1].path == tmp_path / "hpctoolkit-app-measurements"
    shutil.copytree(CORPUS / "hpctoolkit" / "release" / "mpi4.d", tmp_path / "hpctoolkit-app-database")
    assert settle_format(Source.of(tmp_path))[1].path == tmp_path / "hpctoolkit-app-database"


def test_what_is_no_input_is_not_opened(tmp_path: Path) -> None:
    """A name that a format often has is not enough."""
    (tmp_path / "notes.txt").write_text("a note")
    (tmp_path / "profile.cubex").write_bytes(b"")
    with pytest.raises(NotRecognised, match=r"it holds notes\.txt, profile\.cubex"):
        open_path(tmp_path)


def test_a_large_folder_is_not_searched_to_its_end(tmp_path: Path) -> None:
    for number in range(MOST_TRIED):
        (tmp_path / f"{number:04}.dat").write_bytes(b"x")
    shutil.copy(SERIES, tmp_path / "zzz.txt")
    with pytest.raises(NotRecognised, match="no performance data was recognised in this folder"):
        open_path(tmp_path)
    (tmp_path / "0000.dat").unlink()
    assert settle_format(Source.of(tmp_path))[1].path == tmp_path / "zzz.txt"


def test_a_folder_that_may_not_be_read_is_passed_over() -> None:
    with scratch_folder() as scratch:
        shutil.copy(SERIES, scratch / "series.txt")
        scratch.chmod(0o755)
        (scratch / "private").mkdir(mode=0)
        open_path(scratch)  # imports what is needed while everything may be read
        with as_nobody():
            assert settle_format(Source.of(scratch))[1].path == scratch / "series.txt"


def test_a_database_of_hpctoolkit_beside_those_of_gpus(tmp_path: Path) -> None:
    """The parts of one are called .db as well, and are not damaged databases of GPUs."""
    (tmp_path / "node1").mkdir()
    write_rocpd(tmp_path / "node1" / "7_results.db", [Run((Event("kernel", "k", 30, 40),))])
    shutil.copytree(CORPUS / "hpctoolkit" / "release" / "mpi4.d", tmp_path / "app.d")
    found = open_path(tmp_path)
    assert (found.format, found.warnings) == ("rocpd", ())
