"""OTF2 archives, read by `otf2-print` and by the Python reader of OTF2's own library."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.errors import CallgroveError, MissingExtra, UsageError
from callgrove.formats.interface import WriteOptions
from callgrove.formats.timeline.otf2 import writer as otf2_archive
from callgrove.formats.timeline.otf2.format import FORMAT
from callgrove.formats.timeline.otf2.writer import OpenSlices
from callgrove.formats.writing.transfer import transfer
from callgrove.model.traces.span_order import Lanes
from tests.cli.commands import Capture, run, said
from tests.formats.gpu.drawn_runs import DRAWN, EPOCH, drawn_runs
from tests.formats.gpu.gpu_truth import opened
from tests.formats.samples import CORPUS
from tests.requirements import need, need_module

otf2, _otf2 = need_module("otf2"), need_module("_otf2")
N_POINTS = 2  # of the memory in use, in each process


def written(source: Path, target: Path, **options: Any) -> list[str]:
    """What was lost."""
    return transfer(opened(source), FORMAT.open_writer(target, WriteOptions(**options))).losses


def drawn_archive(folder: Path, first_ns: int = 0) -> Path:
    (folder / "in").mkdir()
    written(drawn_runs(folder / "in", first_ns)[0], folder / "o.otf2")
    return folder / "o.otf2"


def slices_of(events: list[tuple[int, str, str]]) -> Counter[tuple[str, int, int]]:
    """Of the events (time, ENTER or LEAVE, region) of one location: what was entered and left, as it must be."""
    out: Counter[tuple[str, int, int]] = Counter()
    stack: list[tuple[str, int]] = []
    last = 0
    for time, what, region in events:
        assert time >= last
        last = time
        if what == "ENTER":
            stack.append((region, time))
        else:
            name, start = stack.pop()
            assert name == region
            out[name, start, time - start] += 1
    assert not stack
    return out


EXPECTED = Counter((s.name, s.start, s.length) for s in DRAWN)


def test_the_python_reader_finds_every_slice(tmp_path: Path) -> None:
    archive = drawn_archive(tmp_path, EPOCH)
    events: dict[str, dict[str, list[tuple[int, str, str]]]] = defaultdict(lambda: defaultdict(list))
    metrics: dict[str, list[tuple[int, int]]] = defaultdict(list)
    roles: dict[str, tuple[str, str]] = {}
    attributes: dict[tuple[str, int], dict[str, object]] = {}
    with otf2.reader.open(str(archive / "traces.otf2")) as trace:
        assert trace.timer_resolution == 10**9
        for location, event in trace.events:
            group = location.group
            owner = group.creating_location_group or group
            time = event.time - EPOCH
            if isinstance(event, otf2.events.Metric):
                metrics[owner.name].append((time, event.values[0]))
                continue
            enters = isinstance(event, otf2.events.Enter)
            events[owner.name][location.name].append((time, "ENTER" if enters else "LEAVE", event.region.name))
            role, paradigm = (
                str(word).rpartition(".")[2] for word in (event.region.region_role, event.region.paradigm)
            )
            roles[event.region.name] = role, paradigm
            if enters:
                told = {a.name: v for a, v in (event.attributes or {}).items()}
                attributes[event.region.name, time] = told
        locations = {location.name: location.type for location in trace.definitions.locations}
    assert set(events) == {"rank 0 host0 pid 15", "rank 1 host1 pid 15"}
    for tracks in events.values():
        assert sum((slices_of(own) for own in tracks.values()), Counter()) == EXPECTED
    assert list(metrics.values()) == [[(1210, 1 << 20), (8010, 0)]] * 2
    assert roles["overlaps"] == ("KERNEL", "HIP")
    assert roles["MEMORY_COPY_HOST_TO_DEVICE"] == ("DATA_TRANSFER", "HIP")
    assert (roles["ALLOC"][0], roles["FREE"][0]) == ("ALLOCATE", "DEALLOCATE")
    assert roles[DRAWN[0].name] == ("CODE", "USER")
    copied = attributes["MEMORY_COPY_HOST_TO_DEVICE", 4000]
    assert copied == {"category": "MEMORY_COPY", "corr": 3, "bytes": 4096}
    assert locations["GPU 0 stream 0 #1"] == otf2.LocationType.ACCELERATOR_STREAM
    assert locations["thread 0"] == otf2.LocationType.CPU_THREAD
    assert locations["GPU 0 memory REAL"] == otf2.LocationType.METRIC


def printed(archive: Path, *options: str) -> str:
    program = shutil.which("otf2-print")
    if program is None:
        need("otf2-print", "otf2-print (Debian: otf2-tools) is not installed")
    done = subprocess.run([program, *options, str(archive / "traces.otf2")], capture_output=True, check=True)
    return done.stdout.decode()


def test_otf2_print_counts_the_same(tmp_path: Path) -> None:
    """What a location says it has is there: a time that goes back would be counted and not written."""
    archive = drawn_archive(tmp_path)
    found = re.findall(r"^(ENTER|LEAVE|METRIC) +(\d+) +(\d+)", printed(archive), re.MULTILINE)
    said = re.findall(r"^LOCATION +(\d+) .*# Events: (\d+)", printed(archive, "-G"), re.MULTILINE)
    counts = Counter(location for _, location, _ in found)
    assert counts == Counter({location: int(n) for location, n in said})
    assert sum(counts.values()) == 2 * (2 * len(DRAWN) + N_POINTS)
    for location in counts:
        times = [int(time) for _, own, time in found if own == location]
        assert times == sorted(times)
    text = printed(archive, "-G")
    for word in ("Ticks per Seconds: 1000000000", 'Class: "node"', "Type: ACCELERATOR, Parent", "Type: METRIC"):
        assert word in text


def test_samples_of_call_stacks(tmp_path: Path) -> None:
    database = CORPUS / "hpctoolkit" / "release" / "pth4.d"
    losses = written(database, tmp_path / "o")
    assert losses == ["values of metrics: only what happened over time is written"]
    wanted = 0
    for _, metric, samples in opened(database).traces.lines():
        if metric < 0:
            wanted += int(np.diff(samples.time_ns)[samples.context[:-1] >= 0].sum())
    found = 0
    with otf2.reader.open(str(tmp_path / "o" / "traces.otf2")) as trace:
        depth: Counter[str] = Counter()
        for location, event in trace.events:
            enters = isinstance(event, otf2.events.Enter)
            if enters and not depth[location.name]:
                found -= event.time
            depth[location.name] += 1 if enters else -1
            if not enters and not depth[location.name]:
                found += event.time
    assert found == wanted > 0


def test_what_is_lost_is_counted_and_launches_and_large_archives_have_hints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    (tmp_path / "in").mkdir()
    monkeypatch.setattr(otf2_archive, "MANY", 10)
    folder, _ = drawn_runs(tmp_path / "in")
    report = transfer(opened(folder), FORMAT.open_writer(tmp_path / "o.otf2", WriteOptions()))
    why = "the format has no place for them"
    assert report.losses == [
        f"{2 * 2} addresses, levels and devices of allocations: {why}",
        f"{2 * 1} ends and queues of copies: {why}",
        f"{2 * 4} grids, registers, numbers and queues of kernels: {why}",
    ]
    launches, size = report.hints
    assert launches == "arrows from calls to operations: in OTF2 the attribute corr is equal at both ends"
    assert f"{2 * (2 * len(DRAWN) + N_POINTS)} events" in size
    run(capsys, "convert", folder, tmp_path / "by_ending.otf2")
    assert (tmp_path / "by_ending.otf2" / "traces.otf2").is_file()


def test_bytes_are_the_same_every_time(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    folder, _ = drawn_runs(tmp_path / "in")
    for name in ("a", "b"):
        written(folder, tmp_path / name)
    files = sorted(path.relative_to(tmp_path / "a") for path in (tmp_path / "a").rglob("*") if path.is_file())
    assert len(files) > 3
    assert [f for f in files if (tmp_path / "a" / f).read_bytes() != (tmp_path / "b" / f).read_bytes()] == []


def test_chunks_are_small_and_the_longest_names_fit(tmp_path: Path) -> None:
    """The library keeps a chunk of events and one of definitions of each location: of 4 MB, if it is not asked."""
    source, name = tmp_path / "trace.json", "n" * (1 << 17)
    event = {"ph": "X", "pid": 1, "tid": 1, "ts": 1, "dur": 2, "name": name, "cat": "user_annotation"}
    source.write_text(json.dumps({"traceEvents": [event], "schemaVersion": 1}))
    assert "1 name longer than 64 KiB" in " ".join(written(source, tmp_path / "o.otf2"))
    with otf2.reader.open(str(tmp_path / "o.otf2" / "traces.otf2")) as trace:
        assert _otf2.Reader_GetChunkSize(trace.handle) == (1 << 18, 1 << 18)
        assert [len(region.name.encode()) for region in trace.definitions.regions] == [1 << 16]


def test_names_of_processes_and_threads_have_room(tmp_path: Path) -> None:
    source, name = tmp_path / "trace.json", "n" * 400_000
    words = ("process_name", "thread_name")
    marks = [{"ph": "M", "pid": 1, "tid": 1, "name": what, "args": {"name": name}} for what in words]
    event = {"ph": "X", "pid": 1, "tid": 1, "ts": 1, "dur": 2, "name": "step"}
    source.write_text(json.dumps({"traceEvents": [*marks, event], "schemaVersion": 1}))
    written(source, tmp_path / "o.otf2")
    with otf2.reader.open(str(tmp_path / "o.otf2" / "traces.otf2")) as trace:
        assert any(name in location.name for location in trace.definitions.locations)


# -- targets ---------------------------------------------------------------------------------------------------------


def test_an_archive_is_replaced_only_if_asked_for_and_nothing_else_is(tmp_path: Path) -> None:
    archive = drawn_archive(tmp_path)
    with pytest.raises(UsageError, match="exists already"):
        written(tmp_path / "in", archive)
    written(tmp_path / "in", archive, overwrite=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("dear")
    with pytest.raises(UsageError, match="other things than an OTF2 archive"):
        written(tmp_path / "in", tmp_path / "other", overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "o.otf2", "other"]


def test_a_failure_leaves_the_archive_of_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = drawn_archive(tmp_path)
    before = (archive / "traces.def").read_bytes()

    def fail(*_: object) -> object:
        import _otf2

        raise _otf2.Error(_otf2.ERROR_INVALID_ARGUMENT)

    monkeypatch.setattr(OpenSlices, "events", fail)
    with pytest.raises(CallgroveError, match=r"cannot be written: .*; nothing was changed"):
        written(tmp_path / "in", archive, overwrite=True)
    assert (archive / "traces.def").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "o.otf2"]


def test_without_the_library_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "otf2", None)
    with pytest.raises(MissingExtra, match=r"callgrove\[otf2\]"):
        FORMAT.open_writer(tmp_path / "o.otf2", WriteOptions())


@pytest.mark.parametrize("format_name", ["otf2", "rocprof-csv"])
def test_what_is_no_single_file_does_not_go_to_stdout(format_name: str, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "in").mkdir()
    folder, _ = drawn_runs(tmp_path / "in")
    assert "stdout" in said(capsys, "convert", folder, "-", "--to", format_name, code=2)


# -- order -----------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 8)), min_size=1, max_size=40), st.integers(1, 12))
def test_events_nest_however_slices_are_divided(spans: list[tuple[int, int]], size: int) -> None:
    """Any intervals, in the lanes that they get; every slice is entered and left once, at its times."""
    rows = sorted(((start, start + length, k) for k, (start, length) in enumerate(spans)), key=lambda r: (r[0], -r[1]))
    start, end = (np.array(column, np.int64) for column in list(zip(*rows, strict=True))[:2])
    lane = Lanes().of(np.zeros(len(start), np.int64), np.ones(len(start), np.bool_), start, end)
    opened_ = OpenSlices()
    found: dict[int, list[tuple[int, bool, int]]] = defaultdict(list)
    for first in range(0, len(start), size):
        part = np.arange(first, min(first + size, len(start)))
        for number in np.unique(lane[part]).tolist():
            own = part[lane[part] == number]
            events = opened_.events(number, own, start[own], end[own], own)
            found[number] += zip(events.time.tolist(), events.enters.tolist(), events.region.tolist(), strict=True)
            assert all(row == region for row, region in zip(events.slice, events.region, strict=True) if row >= 0)
    for number, events in opened_.rest():
        found[number] += zip(events.time.tolist(), events.enters.tolist(), events.region.tolist(), strict=True)
    total = Counter[tuple[str, int, int]]()
    for own in found.values():
        total += slices_of([(time, "ENTER" if enters else "LEAVE", str(region)) for time, enters, region in own])
    wanted = zip(start.tolist(), end.tolist(), strict=True)
    assert total == Counter((str(k), begin, stop - begin) for k, (begin, stop) in enumerate(wanted))


def test_a_writer_that_could_not_be_made_is_collected_without_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a folder cannot be made, the library has a handle already, and closing it fails as well."""
    errors = (otf2.error.Error, need_module("_otf2").Error)
    unraisable: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)

    def fail() -> None:
        raise errors[1](86)

    quiet = otf2_archive._quiet_writer(otf2, errors)
    half_made = quiet.__new__(quiet)  # has no handle, so that closing it fails
    del half_made
    closing = quiet.__new__(quiet)
    closing.close = fail
    del closing
    assert unraisable == []
