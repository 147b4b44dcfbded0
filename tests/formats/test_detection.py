"""Who is asked first, and what is said of files that nobody knows."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from callgrove.binary.files import Source
from callgrove.errors import NotRecognised
from callgrove.formats import registry
from callgrove.formats.interface import Format
from tests.formats.samples import CORPUS


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the formats that are loaded."""
    names: list[str] = []
    load = registry.Entry.load

    def counting(entry: registry.Entry) -> Format:
        names.append(entry.name)
        return load(entry)

    monkeypatch.setattr(registry.Entry, "load", counting)
    return names


@pytest.mark.parametrize(
    ("name", "format_name", "most"),
    [("text.txt", "extrap-text", 2), ("json-old.json", "extrap-json-old", 3), ("jsonl.jsonl", "extrap-jsonl", 1)],
)
def test_a_usual_name_spares_loading_the_others(name: str, format_name: str, most: int, asked: list[str]) -> None:
    found, _ = registry.detect(Source.of(CORPUS / "extrap" / name))
    assert found.name == format_name
    assert len(asked) <= most


def test_the_mark_of_one_generation_spares_loading_the_others(tmp_path: Path, asked: list[str]) -> None:
    database = tmp_path / "mixed.d"
    shutil.copytree(CORPUS / "hpctoolkit" / "release" / "mpi4.d", database)
    assert registry.detect(Source.of(database))[0].name == "hpctoolkit-release"
    shutil.copy(CORPUS / "hpctoolkit" / "prerelease" / "mpi4.d" / "experiment.xml", database)
    assert registry.detect(Source.of(database))[0].name == "hpctoolkit-release"
    assert asked == ["hpctoolkit-release"] * 2
    (database / "meta.db").write_bytes(b"something else")
    assert registry.detect(Source.of(database))[0].name == "hpctoolkit-prerelease"


def test_an_unusual_name_changes_nothing(tmp_path: Path, asked: list[str]) -> None:
    other = tmp_path / "series.txt"
    other.write_bytes((CORPUS / "extrap" / "json.json").read_bytes())
    found, _ = registry.detect(Source.of(other))
    assert found.name == "extrap-json"
    assert len(asked) == len({entry.name for entry in registry.FORMATS if entry.reads})


def test_what_nobody_knows(tmp_path: Path) -> None:
    (tmp_path / "script.txt").write_text("pth 23269 2387.1: cpu-clock")
    with pytest.raises(NotRecognised, match=r"it begins with 'pth 23269 2387\.1'; see `callgrove formats`"):
        registry.detect(Source.of(tmp_path / "script.txt"))
