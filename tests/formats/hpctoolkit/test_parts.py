"""Databases of which parts are missing, or belong to another generation."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from callgrove.binary.files import Source
from callgrove.cli.main import main
from callgrove.errors import NotRecognised, RefusedInput
from callgrove.formats.registry import detect, open_path
from callgrove.model.experiment import Experiment, Severity
from tests.formats.comparing import DB_FILES, GENERATIONS, PARTS, exported_values, tables
from tests.formats.hpctoolkit import by_source_id
from tests.formats.hpctoolkit.by_source_id import open_database
from tests.formats.hpctoolkit.databases import copied, corpus


def combinations(generation: str) -> list[tuple[str, ...]]:
    parts = PARTS[generation]
    return [kept for n in range(1, 5) for kept in itertools.combinations(parts, n)]


@pytest.mark.parametrize(
    ("generation", "kept"), [(g, kept) for g in GENERATIONS for kept in combinations(g)], ids=lambda x: str(x)
)
def test_missing_parts(generation: str, kept: tuple[str, ...], tmp_path: Path) -> None:
    """What is there is read; what is not is said, and is not damage."""
    path = copied(generation, tmp_path)
    for name in set(PARTS[generation]) - set(kept):
        (path / name).unlink()
    found, whole = open_database(path), open_database(corpus(generation))
    assert found.damage == ()
    missing = [w.text for w in found.warnings if w.severity == Severity.MISSING]
    assert len(missing) == 4 - len(kept)
    for name in set(PARTS[generation]) - set(kept):
        assert any(f"there is no {name}" in text for text in missing)
    values = {key: value for key, value in by_source_id.values_by_profile(whole).items() if key[1]}
    if "profile.db" not in kept:
        values = {key: value for key, value in values.items() if key[0]} if "cct.db" in kept else {}
    assert exported_values(found) == values
    samples = by_source_id.samples(whole) if "trace.db" in kept else {}
    assert by_source_id.samples(found) == samples
    if PARTS[generation][0] in kept:
        n = whole.contexts.n_listed
        assert tables(found)["contexts"][:n] == tables(whole)["contexts"][:n]
    assert main(["check", str(path)]) == 0
    assert main(["info", str(path)]) == 0


@pytest.mark.parametrize("generation", GENERATIONS)
def test_one_context_is_answered_by_either_file(generation: str, tmp_path: Path) -> None:
    whole = open_database(corpus(generation))
    wanted = by_source_id.values_by_context(whole)
    for name in ("cct.db", "profile.db"):
        path = copied(generation, tmp_path / name)
        (path / name).unlink()
        found = open_database(path)
        assert by_source_id.values_by_context(found) == wanted
        by_profile = {key: v for key, v in exported_values(found).items() if key[0]}
        assert by_profile == wanted


@pytest.mark.parametrize("generation", GENERATIONS)
def test_no_part_at_all(generation: str, tmp_path: Path) -> None:
    path = copied(generation, tmp_path)
    for name in PARTS[generation]:
        (path / name).unlink()
    with pytest.raises(NotRecognised, match="no performance data was recognised in this folder"):
        open_path(path)


def mixed(folder: Path, tree: str, values: str) -> Path:
    path = copied(tree, folder)
    for name in DB_FILES:
        (path / name).write_bytes((corpus(values) / name).read_bytes())
    return path


@pytest.mark.parametrize(("tree", "values"), [GENERATIONS, GENERATIONS[::-1]])
def test_parts_of_both_generations(tree: str, values: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The tree of one and the values of the other do not belong together: the ids differ."""
    path = mixed(tmp_path, tree, values)
    with pytest.raises(RefusedInput, match="separate the two"):
        open_path(path)
    assert main(["top", str(path)]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("values", "format_"), [("release", "hpctoolkit-release"), ("prerelease", "hpctoolkit-prerelease")]
)
def test_the_trees_of_both_generations(values: str, format_: str, tmp_path: Path) -> None:
    """Both experiment.xml and meta.db, and values of one: that one can be read, if need be by naming it."""
    path = copied("release", tmp_path)
    (path / "experiment.xml").write_bytes((corpus("prerelease") / "experiment.xml").read_bytes())
    for name in DB_FILES:
        (path / name).write_bytes((corpus(values) / name).read_bytes())
    found = open_path(path, format_)
    assert isinstance(found, Experiment)
    assert found.damage == ()
    assert tables(found) == tables(open_database(corpus(values)))
    if values == "release":
        assert detect(Source.of(path))[0].name == format_
