"""`convert` to formats of stacks, and `tree` as a picture, from the command line."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from callgrove.analysis.costs import costs
from callgrove.cli.main import main
from callgrove.examples import example
from callgrove.formats.writing.transfer import write
from tests.cli.commands import notes, rows, run, said
from tests.formats.stacks.reading_back import read_dot, read_folded, read_speedscope

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def database(tmp_path: Path) -> Path:
    write(example(), tmp_path / "stencil.d")
    return tmp_path / "stencil.d"


def test_folded_to_stdout(database: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["convert", str(database), "-", "--to", "folded"]) == 0
    out, err = capsysbinary.readouterr()
    total = sum(int(line.rpartition(b" ")[2]) for line in out.splitlines())
    assert total == pytest.approx(costs(example()).total * 1e9, abs=1)
    assert b"numbers are nanoseconds of CPUTIME (sec): sec times 1e+09" in err
    assert b"lost: which of 8 profiles: their costs are added up" in err


def test_the_metric_and_ranks_are_chosen(database: Path, tmp_path: Path, capsys: Capture) -> None:
    told = notes(capsys, "convert", database, tmp_path / "c.folded", "-m", "cycles", "--rank", "1")
    assert "numbers are those of" in told or "of cycles" in told
    stacks = read_folded(tmp_path / "c.folded")
    assert sum(stacks.values()) == pytest.approx(costs(example(), "cycles", ranks=1).total)


def test_limit_is_for_graphs(database: Path, tmp_path: Path, capsys: Capture) -> None:
    run(capsys, "convert", database, tmp_path / "g.dot", "--limit", "2")
    nodes, _ = read_dot((tmp_path / "g.dot").read_text())
    assert len(nodes) == 3
    assert "--limit makes no difference to folded; it is for dot" in said(
        capsys, "convert", database, tmp_path / "g.folded", "--limit", "2", code=2
    )
    assert "has graph, tree, not 'x'" in said(capsys, "convert", database, tmp_path / "h.dot", "--dialect", "x", code=2)


def test_a_window_is_one_of_costs(database: Path, tmp_path: Path, capsys: Capture) -> None:
    """Stored costs are of the whole run: of a window, the traces tell, as they do in `top`."""
    window = ("--window", "10%:20%", "--under", "solve")
    wanted = sum(float(row["exclusive"]) for row in rows(capsys, "top", database, *window, "--limit", "all"))
    told = notes(capsys, "convert", database, tmp_path / "w.folded", *window)
    assert "what the input stores is of the whole run" in told
    assert sum(read_folded(tmp_path / "w.folded").values()) == pytest.approx(wanted * 1e9, abs=1)
    run(capsys, "convert", database, tmp_path / "w.speedscope.json", *window)
    first = read_speedscope(tmp_path / "w.speedscope.json")["profiles"][0]
    assert sum(first["weights"]) == pytest.approx(wanted)
    assert main(["convert", str(database), str(tmp_path / "c.folded"), *window, "-m", "cycles"]) == 2
    assert "there is no metric 'cycles'" in capsys.readouterr().err


def test_pictures_have_no_rows(database: Path, tmp_path: Path, capsys: Capture) -> None:
    for words in (("--limit", "3"), ("--where", "percent > 5")):
        said_why = said(capsys, "tree", database, "-o", tmp_path / "f.svg", *words, code=2)
        assert f"{words[0]} chooses rows of a table" in said_why


def test_no_traces_leaves_costs(database: Path, tmp_path: Path, capsys: Capture) -> None:
    run(capsys, "convert", database, tmp_path / "s.speedscope.json", "--no-traces")
    profiles = read_speedscope(tmp_path / "s.speedscope.json")["profiles"]
    assert {profile["type"] for profile in profiles} == {"sampled"}
    assert len(profiles) == 9


def test_tree_as_a_picture(database: Path, tmp_path: Path, capsys: Capture) -> None:
    run(capsys, "tree", database, "-o", tmp_path / "flame.svg")
    assert ElementTree.parse(tmp_path / "flame.svg").getroot().tag.endswith("svg")
    assert run(capsys, "tree", database, "--format", "svg", "--bottom-up").startswith("<svg ")
    for option in ("--source", "--metrics"):
        assert "draws calls by one metric" in said(capsys, "tree", database, option, "--format", "svg", code=2)
    assert "does not write svg" in said(capsys, "top", database, "-o", tmp_path / "top.svg", code=2)
