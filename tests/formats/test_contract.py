"""Every format keeps its contract on every sample: the corpus, and what the registry recognises in ../shared."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.formats import contract
from tests.formats.samples import COPIED, CORPUS, Sample, samples
from tests.golden import GOLDENS, assert_golden

every_sample = pytest.mark.parametrize("sample", samples(), ids=str)
DECIMALS = "shared/own/folded/quirks.folded"  # folded stacks are written in whole numbers, multiplied if need be
writable = [
    sample for sample in samples() if contract.can_write(sample.format) and not sample.part and sample.name != DECIMALS
]


@every_sample
def test_detects(sample: Sample, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contract.detects(sample, contract.hidden(sample, tmp_path), monkeypatch)


@every_sample
def test_reads_and_leaves_the_input_alone(sample: Sample, tmp_path: Path) -> None:
    before = contract.fingerprint(sample.path)
    path = contract.hidden(sample, tmp_path)
    contract.reads(sample, path)
    found = contract.opened(path)
    contract.is_sound(found)
    contract.exports(found)
    contract.has_no_damage(path)
    assert contract.fingerprint(sample.path) == before
    assert [p.name for p in tmp_path.iterdir()] == ["data"]


@every_sample
def test_summary(sample: Sample, tmp_path: Path) -> None:
    path = contract.hidden(sample, tmp_path)
    assert_golden(f"contract/{sample.name}.txt", contract.summary(sample, contract.opened(path), path))


@pytest.mark.parametrize("sample", writable, ids=str)
def test_writes_and_reads_back(sample: Sample, tmp_path: Path) -> None:
    contract.round_trip(contract.opened(contract.hidden(sample, tmp_path)), tmp_path / "written")


def test_shared_samples_are_there(shared: Path) -> None:
    """Databases found by their magic alone, without any of our code, are all among the samples."""
    known = {sample.path for sample in samples()}
    copied = {
        shared / "data" / origin / p.name for folder, origin in COPIED.items() for p in (CORPUS / folder).iterdir()
    }
    for file in (shared / "data").rglob("*"):
        if file.name == "meta.db" and file.read_bytes().startswith(b"HPCTOOLKITmeta"):
            assert file.parent in known | copied
        if file.name == "experiment.xml" and b'<HPCToolkitExperiment version="4.0">' in file.read_bytes()[:200]:
            assert file.parent in known | copied


def test_the_corpus_is_what_its_readme_says(shared: Path) -> None:
    for folder, origin in COPIED.items():
        for copy in sorted(p for p in (CORPUS / folder).rglob("*") if p.is_file()):
            original = shared / "data" / origin / copy.relative_to(CORPUS / folder)
            assert copy.read_bytes() == original.read_bytes()


def test_every_golden_belongs_to_a_sample(shared: Path) -> None:
    expected = {GOLDENS / "contract" / f"{sample.name}.txt" for sample in samples()}
    assert set((GOLDENS / "contract").rglob("*.txt")) == expected
