"""Opening a database reads no value; a question reads the blocks that answer it and nothing else.

Where blocks lie is computed here from the specification; what was read is recorded where all reads pass.
"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from callgrove.analysis.costs import costs
from callgrove.analysis.overview import overview
from callgrove.analysis.tables import Selection, export
from callgrove.binary.files import FileBytes
from callgrove.cli.main import main
from callgrove.model.selection import select
from tests.formats.hpctoolkit.by_source_id import backend, open_database
from tests.formats.samples import databases
from tests.permissions import writable_copy

DATABASES = [*databases("prerelease"), *databases("release")]
every_database = pytest.mark.parametrize("path", DATABASES, ids=lambda p: f"{p.parent.name}/{p.name}")
Span = tuple[int, int]  # first byte, one after the last


def profile_blocks(path: Path) -> list[list[Span]]:
    """Of each profile: its values and its index."""
    data = (path / "profile.db").read_bytes()
    found = []
    if data.startswith(b"HPCTOOLKIT"):
        first, n, stride = struct.unpack_from("<QIB", data, struct.unpack_from("<Q", data, 0x18)[0])
        for k in range(n):
            n_values, values, n_contexts, index = struct.unpack_from("<QQI4xQ", data, first + k * stride)
            found.append([(values, values + 10 * n_values), (index, index + 12 * n_contexts)])
    else:
        for k in range(struct.unpack_from(">I", data, 18)[0]):
            n_values, n_contexts, at = struct.unpack_from(">QIQ", data, 128 + 52 * k + 32)
            index = at + 10 * n_values
            found.append([(at, index), (index, index + 12 * (n_contexts + 1))])
    return found


def context_blocks(path: Path) -> list[list[Span]]:
    """Of each context id: its values and its index."""
    data = (path / "cct.db").read_bytes()
    found = []
    if data.startswith(b"HPCTOOLKIT"):
        first, n, stride = struct.unpack_from("<QIB", data, struct.unpack_from("<Q", data, 0x18)[0])
        for k in range(n):
            n_values, values, n_metrics, index = struct.unpack_from("<QQH6xQ", data, first + k * stride)
            found.append([(values, values + 12 * n_values), (index, index + 10 * n_metrics)])
    else:
        for k in range(struct.unpack_from(">I", data, 18)[0]):
            n_values, n_metrics, at = struct.unpack_from(">QHQ", data, 128 + 22 * k + 4)
            index = at + 12 * n_values
            found.append([(at, index), (index, index + 10 * (n_metrics + 1 if n_metrics else 0))])
    return found


class Reads:
    """Which bytes of which files were looked at."""

    def __init__(self) -> None:
        self.spans: list[tuple[str, int, int]] = []

    def of(self, name: str) -> list[Span]:
        return [(first, last) for file, first, last in self.spans if file == name and last > first]

    def n_bytes(self, name: str) -> int:
        return sum(last - first for first, last in self.of(name))

    def touched(self, name: str, blocks: list[list[Span]]) -> set[int]:
        """Which blocks have bytes in common with what was read."""
        return {
            number
            for number, spans in enumerate(blocks)
            for begin, end in spans
            for first, last in self.of(name)
            if first < end and begin < last
        }

    def forget(self) -> None:
        self.spans.clear()


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    log = Reads()
    checked = FileBytes.check

    def check(self: FileBytes, offset: int, size: int, section: str) -> None:
        log.spans.append((self.path.name, int(offset), int(offset) + int(size)))
        checked(self, offset, size, section)

    monkeypatch.setattr(FileBytes, "check", check)
    return log


def size_of(spans: list[Span]) -> int:
    return sum(last - first for first, last in spans)


@every_database
def test_opening_reads_no_value(path: Path, reads: Reads) -> None:
    experiment = open_database(path)
    by_profile, by_context = backend(experiment).by_profile, backend(experiment).by_context
    assert by_profile is not None
    assert by_context is not None
    assert reads.touched("profile.db", profile_blocks(path)) == set()
    assert reads.touched("cct.db", context_blocks(path)) == set()
    for blocks, spans in ((by_profile, profile_blocks(path)), (by_context, context_blocks(path))):
        before_values = min(begin for one in spans for begin, end in one if end > begin)
        assert 0 < blocks.file.bytes_viewed <= before_values
    # of the traces, the headers: 22 or 24 bytes for a line, not its samples
    n = experiment.traces.n_lines
    assert reads.n_bytes("trace.db") <= 128 + 24 * n < reads.n_bytes("trace.db") + 12 * experiment.traces.n_samples


@every_database
def test_a_profile_reads_its_own_block(path: Path, reads: Reads) -> None:
    experiment = open_database(path)
    blocks = profile_blocks(path)
    by_profile = backend(experiment).by_profile
    assert by_profile is not None
    for profile in range(len(experiment.profiles)):
        reads.forget()
        before = by_profile.file.bytes_viewed
        values = experiment.values.profile(profile)
        assert reads.touched("profile.db", blocks) <= {profile}
        assert by_profile.file.bytes_viewed - before == reads.n_bytes("profile.db") <= size_of(blocks[profile])
        assert bool(len(values)) == bool(reads.of("profile.db"))
        assert not reads.of("cct.db")
        assert not reads.of("trace.db")


@every_database
def test_a_context_reads_its_own_block(path: Path, reads: Reads) -> None:
    experiment = open_database(path)
    blocks = context_blocks(path)
    for context, id_ in enumerate(experiment.contexts.source_id.tolist()):
        reads.forget()
        experiment.values.context(context)
        assert reads.touched("cct.db", blocks) <= {id_}
        assert reads.n_bytes("cct.db") == size_of(blocks[id_])
        assert not reads.of("profile.db")


@every_database
def test_a_context_without_cct_db_is_searched_in_the_indices(path: Path, reads: Reads, tmp_path: Path) -> None:
    """Only its own values are read, found by a search in each profile's index."""
    copy = tmp_path / "data"
    writable_copy(path, copy)
    (copy / "cct.db").unlink()
    experiment, whole = open_database(copy), open_database(path)
    indices = [index for _, index in profile_blocks(path)]
    for context, id_ in enumerate(experiment.contexts.source_id.tolist()):
        reads.forget()
        found = experiment.values.context(context)
        read = reads.of("profile.db")
        values = [span for span in read if span not in indices]
        assert size_of(values) == 10 * len(found)
        [there] = np.flatnonzero(whole.contexts.source_id == id_)
        assert sorted(found.value.tolist()) == sorted(whole.values.context(int(there)).value.tolist())


@every_database
def test_info_reads_the_summary_only(path: Path, reads: Reads, capsys: pytest.CaptureFixture[str]) -> None:
    experiment = open_database(path)
    overview(experiment)
    assert reads.touched("profile.db", profile_blocks(path)) == {0}
    assert reads.touched("cct.db", context_blocks(path)) == set()
    reads.forget()
    assert main(["info", str(path)]) == 0
    assert "hottest" in capsys.readouterr().out
    assert reads.touched("profile.db", profile_blocks(path)) == {0}
    assert reads.touched("cct.db", context_blocks(path)) == set()


@pytest.mark.parametrize("table", ["profiles", "metrics", "contexts", "parameters"])
@every_database
def test_tables_without_values_read_none(path: Path, table: str, reads: Reads) -> None:
    list(export(open_database(path), table))
    assert reads.touched("profile.db", profile_blocks(path)) == set()
    assert reads.touched("cct.db", context_blocks(path)) == set()


@every_database
def test_a_selection_reads_the_profiles_chosen(path: Path, reads: Reads) -> None:
    experiment = open_database(path)
    chosen = experiment.profiles.where(threads={1, 3})
    list(export(experiment, "values", Selection(profiles=chosen)))
    assert reads.touched("profile.db", profile_blocks(path)) <= set(chosen.tolist())
    reads.forget()
    costs(experiment, threads={1, 3})
    assert reads.touched("profile.db", profile_blocks(path)) <= {0, *chosen.tolist()}  # 0: which metric has any cost


@every_database
def test_a_cut_experiment_reads_what_was_chosen(path: Path, reads: Reads) -> None:
    """Making it, with unused contexts left out, and streaming all of it."""
    experiment = open_database(path)
    chosen = experiment.profiles.where(threads={1, 3})
    lines = experiment.traces.samples
    assert lines is not None
    expected = 12 * int(lines.count[np.isin(lines.profile, chosen)].sum())
    reads.forget()
    part = select(experiment, profiles=chosen, drop_unused=True)
    assert reads.touched("profile.db", profile_blocks(path)) <= set(chosen.tolist())
    assert reads.n_bytes("trace.db") == expected
    reads.forget()
    list(part.values.blocks())
    list(part.traces.lines())
    assert reads.touched("profile.db", profile_blocks(path)) <= set(chosen.tolist())
    assert reads.touched("cct.db", context_blocks(path)) == set()
    assert reads.n_bytes("trace.db") == expected
    without = select(experiment, profiles=chosen, traces=False, drop_unused=True)
    assert without.traces.n_samples == 0


@every_database
def test_samples_of_a_profile_read_its_own_line(path: Path, reads: Reads) -> None:
    experiment = open_database(path)
    reads.forget()
    [(_, _, line)] = experiment.traces.lines(np.array([2]))
    assert reads.n_bytes("trace.db") == 12 * len(line)
