"""`callgrove report`: where the page goes, what is refused, and what it says about its input."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import callgrove
from callgrove.cli.main import main
from callgrove.cli.verbs.report import size
from callgrove.model.experiment import Experiment
from tests.cli.commands import Capture, run, said
from tests.formats.samples import CORPUS
from tests.viewer.test_encoding import decoded

PTH4 = CORPUS / "hpctoolkit" / "release" / "pth4.d"
MPI4 = CORPUS / "hpctoolkit" / "release" / "mpi4.d"
STUDY = CORPUS / "extrap" / "text.txt"


def data_of(page: Path) -> dict[str, object]:
    """The document inside a page."""
    text = page.read_text("utf-8")
    start = text.index(">", text.index('id="callgrove-data"')) + 1
    found: dict[str, object] = decoded(text[start : text.index("</script>", start)])
    return found


def test_a_page_is_written_beside_its_place_and_replaced(capsys: Capture, tmp_path: Path) -> None:
    target = tmp_path / "out.html"
    assert run(capsys, "report", PTH4, "-o", target) == ""
    assert list(tmp_path.iterdir()) == [target]
    assert target.read_text("utf-8").startswith("<!DOCTYPE html>")
    run(capsys, "report", PTH4, "-o", target, "--title", "Another")
    assert "<title>Another</title>" in target.read_text("utf-8")
    assert list(tmp_path.iterdir()) == [target]


def test_the_same_input_gives_the_same_bytes(capsys: Capture, tmp_path: Path) -> None:
    for name in ("a.html", "b.html"):
        run(capsys, "report", MPI4, "-o", tmp_path / name)
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_a_failure_leaves_nothing(capsys: Capture, tmp_path: Path) -> None:
    target = tmp_path / "out.html"
    assert "no metric 'energy'" in said(capsys, "report", PTH4, "-m", "energy", "-o", target, code=2)
    assert "no profile has rank 77" in said(capsys, "report", PTH4, "--rank", "77", "-o", target, code=2)
    assert "shows nothing of this" in said(capsys, "report", PTH4, "--max-size", "10kB", "-o", target, code=2)
    said(capsys, "report", tmp_path / "absent.d", "-o", target, code=3)
    assert list(tmp_path.iterdir()) == []


def test_inputs_are_never_written_to(capsys: Capture, tmp_path: Path) -> None:
    copy = tmp_path / "run.d"
    shutil.copytree(PTH4, copy)
    before = (copy / "meta.db").read_bytes()
    assert "never modified" in said(capsys, "report", copy, "-o", copy / "meta.db", code=2)
    assert (copy / "meta.db").read_bytes() == before


def test_several_inputs_have_a_section_each(capsys: Capture, tmp_path: Path) -> None:
    target = tmp_path / "out.html"
    run(capsys, "report", PTH4, STUDY, MPI4, "-o", target)
    sections = data_of(target)["sections"]
    assert isinstance(sections, list)
    opened = [dict(section["facts"])["opened"] for section in sections]
    assert opened == [str(PTH4), str(STUDY), str(MPI4)]
    assert [panel["kind"] for panel in sections[0]["panels"]][:4] == ["hotspots", "flame", "calltree", "spread"]


@pytest.mark.parametrize("first", [True, False])
def test_only_paths_of_one_format_are_one_input(first: bool, capsys: Capture, tmp_path: Path) -> None:
    """Whatever comes first: a format that takes several files takes none of another."""
    traces = [tmp_path / "a.json", tmp_path / "b.json"]
    for trace in traces:
        trace.write_text('{"traceEvents": [{"ph": "X", "name": "f", "pid": 1, "tid": 1, "ts": 0, "dur": 5}]}')
    paths = [*traces, PTH4] if first else [PTH4, *traces]
    run(capsys, "report", *paths, "-o", tmp_path / "out.html")
    sections = data_of(tmp_path / "out.html")["sections"]
    assert isinstance(sections, list)
    opened = [dict(section["facts"])["opened"] for section in sections]
    expected = [str(traces[0]), str(PTH4)]  # which names the first of several
    assert opened == (expected if first else expected[::-1])
    assert not any(section["warnings"] for section in sections)


def test_damage_is_on_the_page_and_strict_refuses_it(capsys: Capture, tmp_path: Path) -> None:
    copy, target = tmp_path / "run.d", tmp_path / "out.html"
    shutil.copytree(PTH4, copy)
    (copy / "trace.db").write_bytes((copy / "trace.db").read_bytes()[:40])
    run(capsys, "report", copy, "-o", target)
    sections = data_of(target)["sections"]
    assert isinstance(sections, list)
    assert any(word == "damage" and "trace.db" in text for word, text in sections[0]["warnings"])
    assert any("callgrove check" in command for command in sections[0]["commands"])
    run(capsys, "report", copy, "-o", target, "--strict", code=3)


def test_damage_that_shows_when_values_are_read_is_on_the_page(capsys: Capture, tmp_path: Path) -> None:
    copy, target = tmp_path / "run.d", tmp_path / "out.html"
    shutil.copytree(MPI4, copy)
    values = bytearray((copy / "profile.db").read_bytes())
    middle = len(values) // 2
    values[middle : middle + 400] = b"\xff" * 400
    (copy / "profile.db").write_bytes(values)
    assert main(["report", str(copy), "-o", str(target)]) == 0
    told = capsys.readouterr().err
    assert "damaged: " in told
    assert "profile.db" in told
    sections = data_of(target)["sections"]
    assert isinstance(sections, list)
    on_page = [text for word, text in sections[0]["warnings"] if word == "damage"]
    assert on_page
    assert all(text in told for text in on_page)


@pytest.mark.parametrize(
    ("text", "expected"), [("5MB", 5_000_000), ("800 kB", 800_000), ("1.5M", 1_500_000), ("123", 123), ("1GB", 10**9)]
)
def test_sizes(text: str, expected: int) -> None:
    assert size(text) == expected


@pytest.mark.parametrize("text", ["", "MB", "5 TB", "1e6", "5MiB"])
def test_what_is_no_size_is_refused(text: str, capsys: Capture, tmp_path: Path) -> None:
    told = said(capsys, "report", PTH4, "-o", tmp_path / "x.html", "--max-size", text, code=2)
    assert "is not a size like 800kB or 5MB" in told


def test_pages_of_the_command_line_name_its_flags(tmp_path: Path, capsys: Capture) -> None:
    """Notes name parameters, which a page that the library made spells as the library does."""
    folder = tmp_path / "runs"
    for name in ("app.p1", "app.q2"):
        shutil.copytree(PTH4, folder / name)
    run(capsys, "report", folder, "-o", tmp_path / "page.html")
    experiment = callgrove.open(folder)
    assert isinstance(experiment, Experiment)
    experiment.report(tmp_path / "library.html")
    assert "; --run chooses one" in str(data_of(tmp_path / "page.html"))
    assert "; runs=... chooses one" in str(data_of(tmp_path / "library.html"))
