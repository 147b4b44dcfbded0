"""Writers that fail, or are given up, leave the old database and nothing else; memory stays small."""

from __future__ import annotations

import errno
import resource
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from callgrove.errors import CallgroveError, UsageError
from callgrove.examples import example
from callgrove.formats.hpctoolkit import database_writer
from callgrove.formats.hpctoolkit import value_writers as context_major
from callgrove.formats.hpctoolkit import value_writers as profile_writer
from callgrove.formats.hpctoolkit.release import writer as release_writer
from callgrove.formats.hpctoolkit.release.format import FORMAT
from callgrove.formats.hpctoolkit.trace_writer import TraceWriter
from callgrove.formats.hpctoolkit.value_writers import ProfileWriter
from callgrove.formats.interface import Chunk, LossReport, WriteOptions
from callgrove.formats.writing.targets import PendingFolder
from callgrove.formats.writing.transfer import transfer
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Metric, Scope
from callgrove.model.profiles import ProfileKind
from callgrove.model.traces.events import ArraySpans
from callgrove.model.values import DenseBlock, SparseBlock
from tests.formats.written import bits, damage, read, write

OVERWRITE = WriteOptions(overwrite=True)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """Where an older database lies."""
    write(example(seed=1, ranks=1), tmp_path / "run.d")
    return tmp_path / "run.d"


@contextmanager
def full_disk(after: int) -> Iterator[None]:
    """No file may become longer than that: the system refuses the write, as a full disk does. Python keeps no module
    that it compiles meanwhile: it does not notice that only a part of it was written."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    kept, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    resource.setrlimit(resource.RLIMIT_FSIZE, (after, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        sys.dont_write_bytecode = kept


@pytest.mark.parametrize("after", [0, 1, 100, 1_000, 2_000, 4_000, 10_000, 16_000])
def test_a_full_disk_leaves_the_old_database(after: int, target: Path) -> None:
    before = contents(target)
    with (
        full_disk(after),
        pytest.raises(CallgroveError, match="cannot be written: File too large; nothing was changed"),
    ):
        transfer(example(), FORMAT.open_writer(target, OVERWRITE))
    assert contents(target) == before
    assert [path.name for path in target.parent.iterdir()] == ["run.d"]


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (release_writer, "write_meta_db"),
        (ProfileWriter, "store"),
        (ProfileWriter, "seal"),
        (database_writer, "write_context_major"),
        (ProfileWriter, "finish"),
        (TraceWriter, "finish"),
        (PendingFolder, "complete"),
    ],
)
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt(), ValueError()])
def test_a_failure_anywhere_leaves_nothing(
    module: Any, name: str, error: BaseException, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **options: object) -> None:
        raise error

    before = contents(target)
    monkeypatch.setattr(module, name, fail)
    with pytest.raises(CallgroveError if isinstance(error, OSError) else type(error)):
        transfer(example(), FORMAT.open_writer(target, OVERWRITE))
    assert contents(target) == before
    assert [path.name for path in target.parent.iterdir()] == ["run.d"]


def test_the_old_database_comes_back_when_the_new_one_cannot_be_moved(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, rename = contents(target), Path.rename

    def fail(self: Path, to: Path) -> Path:
        if self.name.endswith(".partial"):
            raise OSError(errno.EIO, "Input/output error")
        return rename(self, to)

    monkeypatch.setattr("callgrove.formats.writing.targets.exchange", lambda one, other: False)  # as on NFS
    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(CallgroveError, match="Input/output error"):
        transfer(example(), FORMAT.open_writer(target, OVERWRITE))
    assert contents(target) == before
    assert [path.name for path in target.parent.iterdir()] == ["run.d"]


def test_the_old_database_stays_when_the_names_cannot_be_exchanged(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(one: Path, other: Path) -> bool:
        raise OSError(errno.EIO, "Input/output error")

    before = contents(target)
    monkeypatch.setattr("callgrove.formats.writing.targets.exchange", fail)
    with pytest.raises(CallgroveError, match="Input/output error"):
        transfer(example(), FORMAT.open_writer(target, OVERWRITE))
    assert contents(target) == before
    assert [path.name for path in target.parent.iterdir()] == ["run.d"]


def test_abort_leaves_nothing(tmp_path: Path) -> None:
    writer = FORMAT.open_writer(tmp_path / "new.d", WriteOptions())
    writer.define(example())
    for block in example().values.blocks():
        writer.write(block)
    writer.flush()
    writer.abort()
    writer.abort()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UsageError):
        writer.close()


def test_nothing_is_at_the_target_before_close(tmp_path: Path) -> None:
    writer = FORMAT.open_writer(tmp_path / "new.d", WriteOptions())
    writer.define(example())
    assert not (tmp_path / "new.d").exists()
    writer.close()
    assert [path.name for path in tmp_path.iterdir()] == ["new.d"]
    with pytest.raises(UsageError, match="nothing after close"):
        writer.write(SparseBlock.empty())
    assert damage(tmp_path / "new.d") == []


def test_an_existing_target_is_refused(target: Path) -> None:
    before = contents(target)
    with pytest.raises(UsageError, match=r"run.d: exists already; choose another name"):
        FORMAT.open_writer(target, WriteOptions())
    assert contents(target) == before


def test_a_database_may_be_overwritten_even_by_itself(target: Path) -> None:
    old = bits(read(target))
    transfer(read(target), FORMAT.open_writer(target, OVERWRITE))
    assert bits(read(target)) == old
    assert [path.name for path in target.parent.iterdir()] == ["run.d"]


def test_other_folders_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").write_text("years of work")
    with pytest.raises(UsageError, match="other things than a database"):
        FORMAT.open_writer(tmp_path / "home", OVERWRITE)
    assert (tmp_path / "home" / "thesis.tex").exists()


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CallgroveError, match="No such file or directory"):
        FORMAT.open_writer(tmp_path / "no" / "new.d", WriteOptions())


# -- memory --------------------------------------------------------------------------------------------------------

N_CONTEXTS = 5_000
BUFFER = 1 << 15  # rows


def tables(n_profiles: int, n_metrics: int) -> Experiment:
    made = ExperimentBuilder("made up", title="large")
    names = [made.region(ContextKind.FUNCTION, f"f{k}") for k in range(100)]
    top = made.region(ContextKind.ENTRY, "main thread")
    made.add_contexts(
        parent=[-1, *(k // 4 for k in range(N_CONTEXTS - 1))],
        kind=[ContextKind.ENTRY, *[ContextKind.FUNCTION] * (N_CONTEXTS - 1)],
        region=[top, *(names[k % 100] for k in range(N_CONTEXTS - 1))],
    )
    for number in range(n_metrics):
        made.add_metric(Metric(f"m{number}", Scope.INCLUSIVE))
    for rank in range(n_profiles):
        made.add_profile(ProfileKind.THREAD, [(2, rank, rank, 3)])
    return made.build()


def by_profile(n_profiles: int, n_metrics: int) -> Iterator[Chunk]:
    context = np.repeat(np.arange(N_CONTEXTS, dtype=np.int32), n_metrics)
    metric = np.tile(np.arange(n_metrics, dtype=np.int32), N_CONTEXTS)
    for profile in range(n_profiles):
        numbers = np.arange(1, len(context) + 1) + profile / 7
        yield SparseBlock(np.full(len(context), profile, np.int32), context, metric, numbers)


def by_metric(n_profiles: int, n_metrics: int) -> Iterator[Chunk]:
    profiles, step = np.arange(n_profiles, dtype=np.int32), 100
    for metric in range(n_metrics):
        for first in range(0, N_CONTEXTS, step):
            contexts = np.arange(first, first + step, dtype=np.int32)
            yield DenseBlock(metric, contexts, profiles, 1.0 + np.add.outer(contexts, profiles))


@pytest.mark.parametrize("stream", [by_profile, by_metric])
def test_memory_does_not_grow_with_the_values(stream: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two million values, with buffers made small: what is held at a time is a small part of all of it."""
    monkeypatch.setattr(database_writer, "WAITING_ROWS", BUFFER)
    monkeypatch.setattr(profile_writer, "MERGED_ROWS", BUFFER)
    monkeypatch.setattr(context_major, "LARGEST_BATCH", BUFFER)
    n_profiles, n_metrics = 200, 2
    n_values = n_profiles * n_metrics * N_CONTEXTS
    experiment = tables(n_profiles, n_metrics)
    tracemalloc.start()
    try:
        writer = FORMAT.open_writer(tmp_path / "large.d", WriteOptions())
        writer.define(experiment)
        for chunk in stream(n_profiles, n_metrics):
            writer.write(chunk)
        writer.close()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert n_values == 2_000_000
    assert peak < 0.25 * n_values * (3 * 4 + 8)
    new = read(tmp_path / "large.d")
    stored = new.values.n_stored()
    summary = n_metrics * (N_CONTEXTS + 1)
    assert stored == n_values + n_profiles * n_metrics + summary


# -- transfer ------------------------------------------------------------------------------------------------------


class Recorder:
    """A writer that remembers what it was asked to do."""

    books = None

    def __init__(self, takes_spans: bool, fails_at: str = "") -> None:
        self.takes_spans, self._fails_at = takes_spans, fails_at
        self.calls: list[str] = []
        self.spans = 0

    def _note(self, call: str) -> None:
        self.calls.append(call)
        if call == self._fails_at:
            raise ZeroDivisionError

    def define(self, tables: Experiment) -> None:
        self._note("define")

    def write(self, chunk: Chunk) -> None:
        self._note(type(chunk).__name__)
        self.spans += len(chunk["span"]) if isinstance(chunk, dict) else 0

    def flush(self) -> None:
        self._note("flush")

    def close(self) -> LossReport:
        self._note("close")
        return LossReport()

    def abort(self) -> None:
        self._note("abort")


def with_spans() -> Experiment:
    made = ExperimentBuilder("made up", title="spans")
    made.add_profile(ProfileKind.THREAD, [(2, 0, 0, 3)])
    columns = {name: np.arange(5) % 2 - 1 for name in ("category", "name", "context", "correlation")}
    columns |= {"profile": np.zeros(5, np.int64), "kind": np.zeros(5, np.int64), "depth": np.zeros(5, np.int64)}
    columns |= {"start_ns": np.arange(5), "end_ns": np.arange(5) + 1}
    columns["context"] = np.full(5, -1)
    made.set_traces(spans=ArraySpans(columns, ("a",), chunk_rows=2))
    return made.build()


def test_spans_go_to_writers_that_take_them(tmp_path: Path) -> None:
    taking, other = Recorder(True), Recorder(False)
    transfer(with_spans(), taking)
    transfer(with_spans(), other)
    assert (taking.spans, other.spans) == (5, 0)
    assert taking.calls == ["define", "dict", "dict", "dict", "close"]
    assert other.calls == ["define", "close"]
    assert "spans: 5 are left out" in write(with_spans(), tmp_path / "new.d").losses


@pytest.mark.parametrize("call", ["define", "SparseBlock", "SampleChunk", "close"])
def test_a_transfer_that_fails_is_aborted(call: str) -> None:
    writer = Recorder(False, fails_at=call)
    with pytest.raises(ZeroDivisionError):
        transfer(example(ranks=1), writer)
    assert writer.calls[-2:] == [call, "abort"]


def test_progress_reaches_the_end() -> None:
    seen: dict[str, tuple[int, int]] = {}

    def progress(label: str, done: int, total: int) -> None:
        assert seen.get(label, (0, 0))[0] <= done <= total
        seen[label] = done, total

    transfer(example(ranks=1), Recorder(False), progress)
    assert set(seen) == {"writing values", "writing samples"}
    assert all(done == total for done, total in seen.values())
