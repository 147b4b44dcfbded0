"""What is to be known about an input is said by every verb that opens it: once, on stderr, and never in the data."""

from __future__ import annotations

from pathlib import Path

import pytest

from callgrove.cli.main import main
from tests.cli.commands import Capture
from tests.formats.gpu.gpu_databases import Event, Run, write_rocpd

CLOCKS = "their clocks differ; --align start lets all begin at 0"
PRINT = (
    *(("top",), ("tree",), ("tree", "--bottom-up"), ("hot",), ("summary",), ("info", "--metrics")),
    *(("export", "--table", "spans"), ("export", "--table", "values"), ("sql", "--tables")),
)
WRITE = (("convert",), ("cut", "--root", "f"), ("part", "--rank", "0"))


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two machines whose times do not overlap."""
    folder = tmp_path_factory.mktemp("apart") / "in"
    folder.mkdir()
    for k, start in enumerate((1000, 10**15)):
        one = Run((Event("api", "f", start + 10, start + 20),), k + 1, f"n{k}", f"m{k}", f"018f-{k}", start=start)
        write_rocpd(folder / f"r{k}.db", [one])
    return folder


@pytest.mark.parametrize("words", PRINT, ids=" ".join)
def test_every_verb_that_prints_says_the_notes(words: tuple[str, ...], apart: Path, capsys: Capture) -> None:
    command = [words[0], str(apart), *words[1:]]
    shown = {}
    for format_ in ("table", "json", "csv"):
        assert main([*command, "--format", format_]) == 0
        shown[format_], err = capsys.readouterr()
        assert err.count(f"callgrove: note: the times of 2 machines do not overlap: {CLOCKS}\n") == 1
    assert not any("clocks" in out for out in shown.values())


def test_info_says_them_among_its_facts_only(apart: Path, capsys: Capture) -> None:
    assert main(["info", str(apart)]) == 0
    out, err = capsys.readouterr()
    assert CLOCKS in out
    assert err == ""


@pytest.mark.parametrize("words", WRITE, ids=" ".join)
def test_verbs_that_write_say_the_notes(words: tuple[str, ...], apart: Path, tmp_path: Path, capsys: Capture) -> None:
    assert main([words[0], str(apart), str(tmp_path / "o.cubex"), *words[1:]]) == 0
    assert capsys.readouterr().err.count(f"note: the times of 2 machines do not overlap: {CLOCKS}") == 1


@pytest.mark.parametrize("verb", ["diff", "mean", "common"])
def test_verbs_of_several_inputs_say_the_notes_of_each(verb: str, apart: Path, tmp_path: Path, capsys: Capture) -> None:
    target = [] if verb == "diff" else [str(tmp_path / "o.cubex")]
    assert main([verb, str(apart), str(apart), *target]) == 0
    assert capsys.readouterr().err.count(CLOCKS) == 2


def test_databases_that_are_merged_as_one_say_notes_and_damage(apart: Path, tmp_path: Path, capsys: Capture) -> None:
    files = sorted(apart.iterdir())
    assert main(["merge", *map(str, files), str(tmp_path / "o.db")]) == 0
    assert capsys.readouterr().err.count(CLOCKS) == 1
    broken = tmp_path / "broken.db"
    broken.write_bytes(files[1].read_bytes()[:-4096])
    assert main(["merge", str(files[0]), str(broken), str(tmp_path / "b.db")]) == 0
    assert f"damaged: {broken}: " in capsys.readouterr().err
    assert main(["merge", "--strict", str(files[0]), str(broken), str(tmp_path / "s.db")]) == 3
    assert not (tmp_path / "s.db").exists()


def test_a_report_says_the_notes(apart: Path, tmp_path: Path, capsys: Capture) -> None:
    assert main(["report", str(apart), "-o", str(tmp_path / "o.html")]) == 0
    assert capsys.readouterr().err.count(CLOCKS) == 1


def test_notes_on_a_tree_of_clusters(shared: Path, capsys: Capture) -> None:
    """A real file whose tree means something else than it seems to."""
    assert main(["tree", str(shared / "data" / "own" / "cube-clustered" / "profile.cubex")]) == 0
    assert "iterations are clustered" in capsys.readouterr().err
