"""The order of calls that all writers want, and what a failure leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from callgrove.errors import CallgroveError, UsageError
from callgrove.examples import example
from callgrove.formats.interface import Chunk, WriteOptions, Writer, Writes
from callgrove.formats.registry import FORMATS, load
from callgrove.formats.writing.targets import PendingFile
from callgrove.formats.writing.writer import TargetWriter
from callgrove.model.experiment import Experiment
from callgrove.model.values import SparseBlock
from tests.requirements import need_module

NAMES = [entry.name for entry in FORMATS if entry.writes and not entry.holds_series]
OF_GPU_EVENTS = {"rocpd", "rocprof-csv"}  # which the example has none of


def opened(name: str, folder: Path) -> Writer:
    entry = next(entry for entry in FORMATS if entry.name == name)
    if entry.module_of_extra:
        need_module(entry.module_of_extra)
    format_ = load(name)
    assert isinstance(format_, Writes)
    return format_.open_writer(folder / f"out{(*entry.suffixes, '')[0]}", WriteOptions())


@pytest.mark.parametrize("name", NAMES)
def test_nothing_comes_before_define(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="define comes first"):
        opened(name, tmp_path).write(SparseBlock.empty())
    with pytest.raises(UsageError, match="define comes first"):
        opened(name, tmp_path).close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [name for name in NAMES if name not in OF_GPU_EVENTS])
def test_define_comes_once_and_nothing_after_close(name: str, tmp_path: Path) -> None:
    experiment = example(ranks=1, threads=1)
    writer = opened(name, tmp_path)
    writer.define(experiment)
    with pytest.raises(UsageError, match="define was called twice"):
        writer.define(experiment)
    assert list(tmp_path.iterdir()) == []
    writer = opened(name, tmp_path)
    writer.define(experiment)
    writer.close()
    there = sorted(tmp_path.rglob("*"))
    with pytest.raises(UsageError, match="nothing after close"):
        writer.flush()
    assert there == sorted(tmp_path.rglob("*")) != []


class OnFullDisk(TargetWriter[PendingFile, str]):
    """Nothing can be written any more, and closing tries once more."""

    def _begin(self, tables: Experiment) -> None:
        self._open = "file"
        self._pending.place.write_text("a part")

    def _take(self, opened: str, chunk: Chunk) -> None:
        raise OSError(28, "No space left on device")

    def _finish(self, opened: str) -> None:
        raise AssertionError("there is nothing to finish")

    def _give_up(self, opened: str) -> None:
        raise OSError(28, "No space left on device, still")


def test_a_disk_that_stays_full_leaves_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("old")
    writer = OnFullDisk(PendingFile(tmp_path / "out", overwrite=True))
    writer.define(example(ranks=1, threads=1))
    with pytest.raises(CallgroveError, match="No space left on device; nothing was changed"):
        writer.write(SparseBlock.empty())
    writer.abort()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert (tmp_path / "out").read_text() == "old"
