"""Folders of many files: none stays open, values are read when asked for, and only those of the profile."""

from __future__ import annotations

import gc
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from callgrove.binary.files import FileBytes
from callgrove.formats.hpcrun.regions import merge
from callgrove.model.experiment import Experiment
from callgrove.model.joining import unify
from tests.formats.hpcrun.hpcrun_bytes import File04
from tests.formats.hpcrun.hpcrun_opening import opened
from tests.formats.hpcrun.hpcrun_synthetic import MIXED_04
from tests.formats.samples import CORPUS
from tests.requirements import need

N_FILES = 60


def many(folder: Path) -> Experiment:
    for rank in range(N_FILES):
        identifiers = ((1, 0x7F, 0, 1), (2, rank, rank, 3), (3, 0, 0, 3))
        (folder / f"app-{rank:06d}-000-0000007f-1-0.hpcrun").write_bytes(File04().changed(identifiers=identifiers))
        (folder / f"app-{rank:06d}-000-0000007f-1-0.hpctrace").write_bytes(
            b"HPCRUN-trace______01.01b" + bytes(8) + (1).to_bytes(8, "big") + (18).to_bytes(4, "big")
        )
    return opened(folder)


def n_open_files() -> int:
    listing = Path("/proc/self/fd")
    if not listing.is_dir():
        need("proc", "/proc is absent")
    gc.collect()  # of tests before this one
    return len(os.listdir(listing))  # noqa: PTH208 - Path.iterdir keeps the folder open


def test_no_file_stays_open(tmp_path: Path) -> None:
    before = n_open_files()
    experiment = many(tmp_path)
    assert n_open_files() == before
    total = experiment.values.totals(0).sum()
    samples = sum(len(line) for _, _, line in experiment.traces.lines())
    assert (total, samples) == (0.75 * N_FILES, N_FILES)
    assert n_open_files() == before


def test_one_profile_reads_its_own_file_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = many(tmp_path)
    names: list[str] = []
    really = FileBytes.__init__

    def noted(self: FileBytes, path: Path) -> None:
        names.append(path.name)
        really(self, path)

    monkeypatch.setattr(FileBytes, "__init__", noted)
    experiment.values.profile(7)
    assert names == ["app-000007-000-0000007f-1-0.hpcrun"]


def test_top_reads_every_file_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once to open it, and once for the values, of which the choice of the metric, exclusive and inclusive cost are
    made."""
    folder = tmp_path / "m"
    folder.mkdir()
    many(folder)
    names: Counter[str] = Counter()
    bytes_read: Counter[str] = Counter()
    really, reads = FileBytes.__init__, FileBytes.check

    def noted(self: FileBytes, path: Path) -> None:
        names[path.name] += 1
        really(self, path)

    def asked(self: FileBytes, offset: int, size: int, section: str) -> None:
        bytes_read[self.path.name] += size
        reads(self, offset, size, section)

    monkeypatch.setattr(FileBytes, "__init__", noted)
    monkeypatch.setattr(FileBytes, "check", asked)
    top = opened(folder).top()
    assert sum(top["exclusive"]) == 0.75 * N_FILES
    files = [path for path in folder.iterdir() if path.suffix == ".hpcrun"]
    assert [names[path.name] for path in files] == [2] * N_FILES
    assert all(0 < bytes_read[path.name] <= 2 * path.stat().st_size for path in files)


def test_opening_leaves_values_in_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values with a metric that nobody knows are no obstacle to opening."""
    data = File04().changed(values=((21, ((9, 0.5),)),))
    (tmp_path / "a.hpcrun").write_bytes(data)
    experiment = opened(tmp_path / "a.hpcrun")
    assert experiment.values.n_stored() == 1
    assert list(experiment.values.blocks()) == []
    assert len(experiment.values.problems) == 1


@pytest.mark.parametrize("most", [1, 2, 3, 5, 7, 100])
def test_large_files_are_given_in_parts(most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any size of the parts: the same values, integers and reals, in the same order."""
    nodes = MIXED_04.nodes
    rows = (20, ((1, 3),)), (18, ((0, 0.25), (1, 7))), (16, ()), (22, ((0, 0.125),)), (24, ((0, 4.0), (1, 1)))
    path = tmp_path / "a.hpcrun"
    path.write_bytes(MIXED_04.changed(nodes=nodes, values=rows))
    monkeypatch.setattr("callgrove.formats.hpcrun.values.LARGE", most)
    experiment = opened(path)
    blocks = [block.triples() for block in experiment.values.blocks()]
    assert max(map(len, blocks)) <= most
    found = [
        (int(experiment.contexts.source_id[c]), m, v)
        for block in blocks
        for c, m, v in zip(block.context.tolist(), block.metric.tolist(), block.value.tolist(), strict=True)
    ]
    want = [(node, m, v * (10**8 if m else 1)) for node, own in rows for m, v in own]
    assert sorted(found) == sorted(want)
    for metric in range(2):
        only = [block.triples() for block in experiment.values.blocks(metrics=np.array([metric]))]
        assert sum(map(len, only)) == sum(row[1] == metric for row in want)


@pytest.mark.parametrize("release", ["2016.12", "2018.09", "04.00"])
def test_the_merged_tree_is_that_of_unify(release: str) -> None:
    """The general way to one tree, context by context, against the sorted one: equal paths, equal maps."""
    folder = CORPUS / "hpcrun" / release / "pth4.m"
    whole = opened(folder)
    files = [opened(path) for path in sorted(folder.glob("*.hpcrun"))]
    unified = unify([file.contexts for file in files], merge_equal=True)
    paths = sorted(unified.tree.path(c) for c in range(len(unified.tree)))
    assert sorted(whole.contexts.path(c) for c in range(len(whole.contexts))) == paths
    for profile, (file, own) in enumerate(zip(files, unified.maps, strict=True)):
        block, mine = whole.values.profile(profile), file.values.profile(0)
        want = {unified.tree.path(int(own[c])): v for c, v in zip(mine.context, mine.value.tolist(), strict=True)}
        have = {whole.contexts.path(int(c)): v for c, v in zip(block.context, block.value.tolist(), strict=True)}
        assert have == pytest.approx(want)


def test_merging_does_not_depend_on_the_order_of_trees() -> None:
    a = np.array([-1, 0, 1, 0], np.int32), np.array([5, 3, 1, 2], np.int32)
    b = np.array([-1, 0, 0, 2, 0], np.int32), np.array([5, 2, 3, 1, 2], np.int32)
    one, two = merge([a, b]), merge([b, a])
    assert one.parent.tolist() == two.parent.tolist() == [-1, 0, 0, 2]
    assert one.region.tolist() == two.region.tolist() == [5, 2, 3, 1]
    assert one.contexts[0].tolist() == two.contexts[1].tolist() == [0, 2, 3, 1]
    assert one.contexts[1].tolist() == [0, 1, 2, 3, 1]
