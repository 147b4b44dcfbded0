"""trace.db and identifier tuples: many lines and profiles at a time make the files that one by one makes."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.arrays import ABSENT
from callgrove.binary.files import FileBytes
from callgrove.formats.hpctoolkit import trace_writer, value_writers
from callgrove.formats.hpctoolkit.identifiers import read_tuples
from callgrove.formats.hpctoolkit.prerelease import files as prerelease
from callgrove.formats.hpctoolkit.prerelease.writer import GENUINE, PrereleaseProfiles
from callgrove.formats.hpctoolkit.release import files as release
from callgrove.formats.hpctoolkit.release.writer import ReleasedProfiles
from callgrove.formats.interface import LossReport, SampleChunk, TakesLines, WriteOptions, Writes
from callgrove.formats.registry import load
from callgrove.formats.writing.transfer import transfer
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Metric, Scope
from callgrove.model.profiles import Identifier, IdentifierTuples, ProfileKind
from callgrove.model.traces.events import ArraySamples, LineBatch, Samples
from tests.formats.written import read

FORMATS = ("hpctoolkit-release", "hpctoolkit-prerelease")
N_PROFILES = 4  # the last one is a stored summary, which has no place for samples
Line = tuple[int, int, list[int]]  # profile, metric, times
LINES = st.lists(
    st.tuples(
        st.integers(0, N_PROFILES - 1),
        st.sampled_from([ABSENT, ABSENT, ABSENT, 0]),
        st.lists(st.integers(-2, 9), max_size=5) | st.lists(st.integers(0, 9), max_size=5).map(sorted),
    ),
    max_size=12,
)


def experiment_with(lines: list[Line]) -> Experiment:
    """Return three threads, a summary and these lines."""
    made = ExperimentBuilder("made up")
    for number in range(3):
        made.add_context(number - 1, ContextKind.FUNCTION, made.region(ContextKind.FUNCTION, f"f{number}"))
    for rank in range(N_PROFILES - 1):
        made.add_profile(ProfileKind.THREAD, [(2, rank, rank, 3)])
    made.add_profile(ProfileKind.SUMMARY, [])
    made.add_metric(Metric("time", Scope.POINT))
    profile, metric = (np.array([line[k] for line in lines], np.int32) for k in (0, 1))
    made.set_traces(ArraySamples(profile, metric, tuple(samples_of(line) for line in lines)))
    return made.build()


def samples_of(line: Line) -> Samples:
    """Return the samples of a line, on contexts that their times tell."""
    times = np.array(line[2], np.int64)
    return Samples(times, (times % 4 - 1).astype(np.int32))


def batch_of(lines: list[Line]) -> LineBatch:
    """Return several lines as one batch."""
    profile, metric = (np.array([line[k] for line in lines], np.int32) for k in (0, 1))
    samples = [samples_of(line) for line in lines]
    time, context = (np.concatenate([getattr(one, name) for one in samples]) for name in ("time_ns", "context"))
    return LineBatch(profile, metric, np.cumsum([0, *map(len, samples)]), Samples(time, context))


def write(lines: list[Line], target: Path, name: str, cuts: list[int] | None) -> tuple[dict[str, bytes], LossReport]:
    """Return what is written line by line, or in batches that are cut before some of the lines."""
    format_ = load(name)
    assert isinstance(format_, Writes)
    writer = format_.open_writer(target, WriteOptions(overwrite=True))
    writer.define(experiment_with([]))
    assert isinstance(writer, TakesLines)
    if cuts is None:
        for line in lines:
            writer.write(SampleChunk(line[0], line[1], samples_of(line)))
    else:
        for first, end in zip([0, *cuts], [*cuts, len(lines)], strict=True):
            if first < end:
                writer.write_lines(batch_of(lines[first:end]))
    report = writer.close()
    return {str(p.relative_to(target)): p.read_bytes() for p in target.rglob("*") if p.is_file()}, report


@pytest.mark.parametrize("name", FORMATS)
@given(LINES, st.lists(st.integers(0, 12)), st.booleans(), st.booleans())
def test_lines_are_written_alike_one_by_one_and_together(
    name: str, tmp_path_factory: pytest.TempPathFactory, lines: list[Line], cuts: list[int], is_long: bool, few: bool
) -> None:
    """Out of order, before time 0, in several parts, of metrics, of summaries, and without samples."""
    target = tmp_path_factory.mktemp("lines") / "new.d"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(value_writers, "LONG_BLOCK", 0 if is_long else 1 << 30)
        patch.setattr(trace_writer, "MERGED_SAMPLES", 3 if few else 1 << 17)
        alone, report = write(lines, target, name, None)
        together, same_report = write(lines, target, name, sorted(min(cut, len(lines)) for cut in cuts))
    assert together == alone
    assert (same_report.losses, same_report.unexplained) == (report.losses, report.unexplained)
    want: dict[int, list[int]] = {}
    for profile, metric, times in lines:
        if metric < 0 and profile < N_PROFILES - 1:
            want.setdefault(profile + 1, []).extend(max(time, 0) for time in times)
    found = {p: s.time_ns.tolist() for p, _, s in read(target).traces.lines() if len(s)}
    assert found == {profile: sorted(times) for profile, times in want.items() if times}
    shutil.rmtree(target)


@pytest.mark.parametrize("name", FORMATS)
def test_a_transfer_gives_lines_together(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[Line] = [(0, ABSENT, [3, 4]), (1, ABSENT, [5]), (2, ABSENT, []), (1, 0, [8])]
    format_ = load(name)
    assert isinstance(format_, Writes)
    writer = format_.open_writer(tmp_path / "new.d", WriteOptions())
    monkeypatch.delattr(type(writer), "_take_samples")  # what takes them one by one
    report = transfer(experiment_with(lines), writer)
    assert report.unexplained == []
    assert [s.time_ns.tolist() for _, _, s in read(tmp_path / "new.d").traces.lines()] == [[3, 4], [5], []]


# -- identifier tuples -------------------------------------------------------------------------------------------------

NUMBERS = st.sampled_from([0, 1, 77, 2**32 - 1, 2**32, 2**64 - 1])
TUPLES = st.lists(st.lists(st.tuples(st.integers(0, 300), NUMBERS, NUMBERS, st.integers(0, 3)), max_size=4), max_size=7)


@given(TUPLES, st.integers(1, 8))
def test_tuples_are_packed_many_at_a_time(tuples: list[list[Identifier]], at_once: int) -> None:
    """The bytes of hpctoolkit-databases.md B.4: kinds beyond 255 are left out, logical numbers are cut off."""
    measured = np.arange(len(tuples))[::-1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(value_writers, "TUPLES_AT_ONCE", at_once)
        packed = ReleasedProfiles(IdentifierTuples.of(tuples), measured)
    want, at = b"", []
    for profile in measured.tolist():
        at.append(packed._tuples_at + len(want))
        kept = [element for element in tuples[profile] if element[0] <= 255]
        want += struct.pack("<H6x", len(kept))
        for kind, physical, logical, interpretation in kept:
            want += struct.pack("<BxHIQ", kind, 0 if interpretation == 3 else 1, min(logical, 2**32 - 1), physical)
    assert packed._tuples == want
    assert packed._tuple_at.tolist() == at
    assert release.PHYSICAL_FLAG == 1


@given(TUPLES, st.integers(1, 8))
def test_tuples_of_the_older_generation_come_back(tuples: list[list[Identifier]], at_once: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(value_writers, "TUPLES_AT_ONCE", at_once)
        packed = PrereleaseProfiles(GENUINE, IdentifierTuples.of(tuples), np.arange(len(tuples)))
    file = FileBytes.over(Path("profile.db"), bytes(packed._tuples_at) + packed._tuples)
    found, damage = read_tuples(file, packed._tuple_at.astype(np.uint64), prerelease.TUPLE_LAYOUT, ())
    assert damage == []
    assert [found.rows(profile) for profile in range(len(found))] == [[(0, 0, 0, 0)], *tuples]
