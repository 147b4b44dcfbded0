"""The bytes of traces: every real one is made again byte for byte, and every damage is named."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.binary.reading import FileReader, KeptMemory
from callgrove.errors import CorruptFile, InvalidExperiment, NotRecognised, UnsupportedVersion
from callgrove.formats.hpcrun import hpctrace
from callgrove.formats.hpcrun import hpctrace as rec
from callgrove.formats.hpcrun.hpctrace import MICROSECONDS, NANOSECONDS, TraceFile, write_trace
from callgrove.formats.hpctoolkit.legacy import values as legacy

START = b"HPCRUN-trace______01.01b"
NOW_NS = 1_700_000_000_000_000_000


def trace(path: Path, *samples: tuple[int, ...], flags: int = 0, version: str = "01.01") -> Path:
    """A trace packed by hand, independent of the tables that reader and writer share."""
    out = START.replace(b"01.01", version.encode())
    out += b"" if version == "01.00" else struct.pack(">Q", flags)
    for sample in samples:
        out += struct.pack(">QII"[: 1 + len(sample)], *sample)
    path.write_bytes(out)
    return path


def test_the_traces_of_legacy_databases_have_the_same_layout() -> None:
    """Formats do not know each other, so the layout stands in both; it is one."""
    assert legacy.TRACE_MAGIC == rec.MAGIC
    assert legacy.TRACE_VERSIONS == tuple(version.encode() for version in rec.VERSIONS)
    assert legacy.TRACE.itemsize == rec.START
    assert (legacy.SAMPLE, legacy.SAMPLE_OF_METRIC) == (rec.record_of(0), rec.record_of(rec.DATA_CENTRIC))
    assert (legacy.DATA_CENTRIC, legacy.LCA_RECORDED) == (rec.DATA_CENTRIC, rec.LCA_RECORDED)


def test_real_traces_are_made_again_byte_for_byte(shared: Path, tmp_path: Path) -> None:
    paths = sorted((shared / "data").rglob("*.hpctrace"))
    assert len(paths) >= 77
    for path in paths:
        found = TraceFile.open(path)
        again = tmp_path / "again.hpctrace"
        write_trace(again, found.flags, *found.arrays(), version=found.version, time_scale=found.time_scale)
        assert again.read_bytes() == path.read_bytes(), path
        assert not found.problems
        # Without a profile beside it, the times themselves say their unit.
        if found.n_records:
            assert TraceFile.open(again).time_scale == found.time_scale, path


def test_times_are_nanoseconds_whatever_the_file_holds(tmp_path: Path) -> None:
    us = NOW_NS // 1000
    old = TraceFile.open(trace(tmp_path / "old.hpctrace", (us, 5), (us + 1, 7)))
    new = TraceFile.open(trace(tmp_path / "new.hpctrace", (NOW_NS, 5), (NOW_NS + 1000, 7)))
    assert (old.time_scale, new.time_scale) == (MICROSECONDS, NANOSECONDS)
    for found in (old, new):
        time, node, metric = found.arrays()
        assert time.tolist() == [NOW_NS, NOW_NS + 1000]
        assert node.tolist() == [5, 7]
        assert metric is None
        assert time.dtype == np.int64
        assert time.dtype.isnative
        assert node.dtype.isnative


def test_the_profile_beside_a_trace_decides_its_unit(tmp_path: Path) -> None:
    path = trace(tmp_path / "a-000000-000-1-2-0.hpctrace", (5, 1))
    assert TraceFile.open(path).time_scale == NANOSECONDS
    path.with_suffix(".hpcrun").write_bytes(b"HPCRUN-profile____02.00b")
    assert TraceFile.open(path).time_scale == MICROSECONDS
    path.with_suffix(".hpcrun").write_bytes(b"HPCRUN-profile____04.00b")
    assert TraceFile.open(path).time_scale == NANOSECONDS
    assert TraceFile.open(path, MICROSECONDS).arrays()[0].tolist() == [5000]


def test_the_oldest_version_has_no_flags(tmp_path: Path) -> None:
    found = TraceFile.open(trace(tmp_path / "t", (7, 1), (8, 2), version="01.00"))
    assert (found.version, found.flags, found.n_records) == ("01.00", 0, 2)
    assert found.arrays()[0].tolist() == [7000, 8000]
    write_trace(tmp_path / "again", 0, *found.arrays(), version="01.00")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "t").read_bytes()


def test_data_centric_records_have_a_metric(tmp_path: Path) -> None:
    found = TraceFile.open(trace(tmp_path / "t", (NOW_NS, 1, 9), (NOW_NS, 2, 2**32 - 1), flags=rec.DATA_CENTRIC))
    time, node, metric = found.arrays()
    assert found.data_centric
    assert (node.tolist(), metric.tolist() if metric is not None else None) == ([1, 2], [9, 2**32 - 1])
    write_trace(tmp_path / "again", found.flags, time, node, metric)
    assert (tmp_path / "again").read_bytes() == (tmp_path / "t").read_bytes()


def test_a_depth_above_the_time_is_taken_off(tmp_path: Path) -> None:
    samples = ((3 << 56) | 1234, 1), ((1 << 56) | 1235, 2)
    masked = TraceFile.open(trace(tmp_path / "t", *samples, flags=rec.LCA_RECORDED))
    assert masked.arrays()[0].tolist() == [1234, 1235]
    plain = TraceFile.open(trace(tmp_path / "u", *samples))
    assert plain.arrays()[0].tolist() == [(3 << 56) | 1234, (1 << 56) | 1235]


def test_a_part_of_a_trace(tmp_path: Path) -> None:
    found = TraceFile.open(trace(tmp_path / "t", *((NOW_NS + k, k) for k in range(10))))
    assert found.arrays(3, 4)[1].tolist() == [3, 4, 5, 6]
    assert found.arrays(8, 100)[1].tolist() == [8, 9]
    assert found.arrays(50)[1].tolist() == []
    assert [len(part) for part in found.chunks(4)] == [4, 4, 2]


def test_a_partial_last_record_is_a_problem_and_the_rest_is_read(tmp_path: Path) -> None:
    path = trace(tmp_path / "t", (NOW_NS, 1), (NOW_NS + 5, 2))
    whole = path.read_bytes()
    for cut in range(1, 12):
        path.write_bytes(whole[:-cut])
        found = TraceFile.open(path)
        assert found.arrays()[1].tolist() == [1]
        assert [type(p) for p in found.problems] == [CorruptFile]
        assert "at byte 44" in str(found.problems[0])
        assert f"{12 - cut} bytes at the end" in str(found.problems[0])


@pytest.mark.parametrize("size", range(32))
def test_a_file_that_ends_in_its_header_is_an_empty_trace(tmp_path: Path, size: int) -> None:
    path = trace(tmp_path / "t")
    path.write_bytes(path.read_bytes()[:size])
    found = TraceFile.open(path)
    assert found.n_records == 0
    assert len(found.arrays()[0]) == 0
    assert f"ends at byte {size}" in str(found.problems[0])


def test_a_header_alone_is_a_sound_empty_trace(tmp_path: Path) -> None:
    assert not TraceFile.open(trace(tmp_path / "t")).problems
    assert not TraceFile.open(trace(tmp_path / "u", version="01.00")).problems


@pytest.mark.parametrize(
    ("start", "error", "words"),
    [
        (b"HPCRUN-profile____02.00b", NotRecognised, "HPCRUN-profile____"),
        (b"\x89PNG", NotRecognised, "PNG"),
        (b"HPCRUN-trace______02.00b", UnsupportedVersion, "'02.00' at byte 18"),
        (b"HPCRUN-trace______\xff\xff\xff\xff\xffb", UnsupportedVersion, r"\xff"),
        (b"HPCRUN-trace______01.01l", CorruptFile, "at byte 23: expected 'b'"),
    ],
)
def test_a_wrong_start_is_refused_with_the_bytes_found(
    tmp_path: Path, start: bytes, error: type[Exception], words: str
) -> None:
    path = tmp_path / "t"
    path.write_bytes(start + bytes(40))
    with pytest.raises(error) as raised:
        TraceFile.open(path)
    assert words in str(raised.value)


def test_times_that_no_clock_shows_are_cut_and_said_once(tmp_path: Path) -> None:
    found = TraceFile.open(trace(tmp_path / "t", (NOW_NS, 1), (2**64 - 1, 2)))
    assert found.arrays()[0].tolist() == [NOW_NS, 2**63 - 1]
    found.arrays()
    assert len(found.problems) == 1
    assert "later ones" in str(found.problems[0])


def test_what_no_trace_can_hold_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(InvalidExperiment, match="no flags"):
        write_trace(tmp_path / "t", rec.CALL_TRACE, [1], [1], version="01.00")
    with pytest.raises(InvalidExperiment, match="bit 0"):
        write_trace(tmp_path / "t", 0, [1], [1], [1])
    assert not (tmp_path / "t").exists()


TIMES = st.integers(0, 2**63 - 1)
IDS = st.integers(0, 2**32 - 1)


@given(st.lists(st.tuples(TIMES, IDS, IDS), max_size=20), st.sampled_from((0, 4, 1, 5)))
def test_what_was_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, samples: list[tuple[int, int, int]], flags: int
) -> None:
    path = tmp_path_factory.mktemp("trace") / "t"
    time, node, metric = ([sample[k] for sample in samples] for k in range(3))
    write_trace(path, flags, time, node, metric if flags & 1 else None)
    found = TraceFile.open(path, NANOSECONDS)
    assert [c.tolist() for c in found.arrays() if c is not None] == [time, node, metric][: 2 + (flags & 1)]


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("chunk", [1, 2, 100])
def test_from_when_to_when_a_trace_goes(
    in_order: bool, chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mapped or read piece by piece; of one in order only the first and the last record are asked for."""
    monkeypatch.setattr(hpctrace, "CHUNK", chunk)
    times = [5, 7, 7, 12] if in_order else [7, 12, 5, 9]
    path = trace(tmp_path / "t", *((NOW_NS + time, 1) for time in times))
    with FileReader(path, KeptMemory()) as file:
        for found in (TraceFile.open(path), TraceFile(file)):
            viewed = found.file.bytes_viewed
            assert found.time_range(in_order) == (NOW_NS + 5, NOW_NS + 12)
            assert found.file.bytes_viewed - viewed == 12 * (2 if in_order else 4)
    assert TraceFile.open(trace(tmp_path / "u")).time_range(in_order) is None
