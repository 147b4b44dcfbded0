"""Traces that are written part by part: others read what was flushed, also if the writer is killed."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import textwrap
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import callgrove
from callgrove.errors import UsageError
from callgrove.formats.writing.streaming import TraceStream, open_writer
from tests.formats.gpu.gpu_truth import opened, spans
from tests.outside import perfetto_trace
from tests.requirements import need_module

N_PARTS, PER_PART = 3, 40
LIVE = {"perfetto": "run.pftrace", "chrome-json": "run.json", "rocpd-draft": "run.db", "rocpd": "run.db"}
Rows = list[tuple[str, int, int]]


def part(number: int) -> tuple[Rows, Rows]:
    """Calls and the kernels that they launch: name, start and end. Kernels touch and overlap, also across parts."""
    begin = 10_000 * number
    calls = [("hipLaunchKernel", begin + 100 * k, begin + 100 * k + 40) for k in range(PER_PART)]
    kernels = [(f"kernel {k % 3}", begin + 100 * k + 50, begin + 100 * k + 50 + 120) for k in range(PER_PART)]
    return calls, kernels


def write_part(trace: TraceStream, places: tuple[int, int], number: int) -> None:
    numbers = range(number * PER_PART, (number + 1) * PER_PART)
    for place, kind, rows in zip(places, ("api", "kernel"), part(number), strict=True):
        names, starts, ends = zip(*rows, strict=True)
        category = "HIP_RUNTIME_API" if kind == "api" else "KERNEL_DISPATCH"
        trace.write(place, kind, names, starts, ends, category=category, correlation=list(numbers))


def places_of(trace: TraceStream) -> tuple[int, int]:
    return trace.add_thread("main", rank=3), trace.add_stream("stream 0", rank=3, device=1)


def expected(n_parts: int) -> Rows:
    return sorted(row for number in range(n_parts) for rows in part(number) for row in rows)


def read(path: Path, format_: str) -> Rows:
    """What somebody else reads from the file."""
    if format_ == "perfetto":
        return sorted((s.name, s.start, s.end) for s in perfetto_trace.read(path.read_bytes()).slices)
    if format_ == "chrome-json":
        events = [event for event in _events(path.read_text()) if event["ph"] == "X"]
        return sorted((e["name"], round(e["ts"] * 1000), round((e["ts"] + e["dur"]) * 1000)) for e in events)
    return sorted(spans(opened(path), "name", "start_ns", "end_ns"))


def _events(text: str) -> list[dict[str, Any]]:
    """Events of a file that may end anywhere."""
    body = text.partition('"traceEvents":[')[2].rstrip()
    return json.loads("[" + body.removesuffix("]}").rstrip().rstrip(",") + "]")  # type: ignore[no-any-return]


@pytest.mark.parametrize("format_", LIVE)
def test_what_was_flushed_is_read_while_more_is_written(format_: str, tmp_path: Path) -> None:
    path = tmp_path / LIVE[format_]
    with open_writer(path, format_, title="train") as trace:
        assert trace.is_live
        places = places_of(trace)
        for number in range(N_PARTS):
            write_part(trace, places, number)
            trace.flush()
            assert read(path, format_) == expected(number + 1)
    assert read(path, format_) == expected(N_PARTS)


@pytest.mark.parametrize("format_", [*LIVE, "otf2", "rocprof-csv"])
def test_parts_are_the_same_as_one(format_: str, tmp_path: Path) -> None:
    """Without flushes between them, to the byte; databases by their rows."""
    if format_ == "otf2":
        need_module("otf2")
    written = []
    for at_once in (False, True):
        folder = tmp_path / str(at_once)
        folder.mkdir()
        trace = open_writer(folder / LIVE.get(format_, "run"), format_, title="train")
        places = places_of(trace)
        for number in range(N_PARTS):
            write_part(trace, places, number)
            if not at_once and format_ not in LIVE:
                trace.flush()
                assert not trace.is_live
                assert list(folder.glob("[!.]*")) == []
        losses = trace.close()
        assert not [text for text in losses if text.startswith("unexplained")]
        written.append({path.name: _content(path) for path in sorted(folder.rglob("*")) if path.is_file()})
    assert written[0] == written[1]
    assert written[0]


def _content(path: Path) -> object:
    if path.suffix != ".db":
        return path.read_bytes() if path.suffix in (".csv", ".json", ".pftrace") else None
    with closing(sqlite3.connect(path)) as database:
        return list(database.iterdump())


PROGRAM = """
    import sys, time
    from pathlib import Path
    from tests.formats.writing.test_streaming import open_writer, places_of, write_part

    trace = open_writer(Path(sys.argv[1]), sys.argv[2])
    places = places_of(trace)
    for number in range(2):
        write_part(trace, places, number)
        trace.flush()
    write_part(trace, places, 2)  # and not flushed
    print("ready", flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("format_", LIVE)
def test_what_was_flushed_stays_when_the_writer_is_killed(format_: str, tmp_path: Path) -> None:
    path = tmp_path / LIVE[format_]
    words = [sys.executable, "-c", textwrap.dedent(PROGRAM), str(path), format_]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        writer.send_signal(signal.SIGKILL)
    assert read(path, format_) == expected(2)


def test_arrows_lead_from_calls_to_kernels_of_one_part(tmp_path: Path) -> None:
    """Their numbers are of no other part."""
    with open_writer(tmp_path / "run.pftrace") as trace:
        places = places_of(trace)
        for number in range(N_PARTS):
            write_part(trace, places, number)
            trace.flush()
    slices = perfetto_trace.read((tmp_path / "run.pftrace").read_bytes()).slices
    begins = [flow for s in slices for flow in s.flows]
    ends = [flow for s in slices for flow in s.ends_flows]
    assert len(begins) == len(set(begins)) == N_PARTS * PER_PART
    assert sorted(begins) == sorted(ends)


def test_misuse_is_said(tmp_path: Path) -> None:
    trace = callgrove.open_writer(tmp_path / "run.pftrace")
    thread = trace.add_thread("main")
    for arguments, said in (
        ((thread, "kernle", "k", [1], [2]), "not a kind of span"),
        ((7, "kernel", "k", [1], [2]), "no such place"),
        ((thread, "kernel", "k", [1, 2], [2]), "not columns of one length"),
        ((thread, "kernel", ["a", "b", "c"], [1, 2], [2, 3]), "another length"),
    ):
        with pytest.raises(UsageError, match=said):
            trace.write(*arguments)
    with pytest.raises(UsageError, match="nothing was written"):
        trace.close()
    trace.write(thread, "region", "solve", 5, 9)
    with pytest.raises(UsageError, match="before the first span"):
        trace.add_stream()
    trace.close()
    with pytest.raises(UsageError, match="is closed"):
        trace.write(thread, "region", "solve", 5, 9)
    with pytest.raises(UsageError, match="exists already"):
        open_writer(tmp_path / "run.pftrace")
    with pytest.raises(UsageError, match="holds more than traces"):
        open_writer(tmp_path / "run.cubex")
    assert not (tmp_path / "run.cubex").exists()


def test_a_failure_leaves_nothing_but_what_was_flushed(tmp_path: Path) -> None:
    def fail(path: Path, flushed: bool) -> None:
        with open_writer(path, "rocprof-csv" if not flushed else "rocpd-draft") as trace:
            write_part(trace, places_of(trace), 0)
            trace.flush()
            raise KeyError("the collector's own")

    with pytest.raises(KeyError):
        fail(tmp_path / "run", flushed=False)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(KeyError):
        fail(tmp_path / "run.db", flushed=True)
    assert read(tmp_path / "run.db", "rocpd-draft") == expected(1)


@pytest.mark.parametrize("format_", ["rocpd-draft", "rocpd"])
def test_a_closed_database_is_one_file_and_stays_so_when_read(format_: str, tmp_path: Path) -> None:
    """A database with a write-ahead log would get files beside it from whoever only reads it."""
    path = tmp_path / "run.db"
    with open_writer(path, format_) as trace:
        write_part(trace, places_of(trace), 0)
        trace.flush()
        assert path.with_name("run.db-wal").stat().st_size
    content = path.read_bytes()
    assert (content[18], content[19]) == (1, 1)  # SQLite's file format: written and read without a log
    assert read(path, format_) == expected(1)
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == content


@pytest.mark.parametrize("format_", ["rocpd-draft", "rocpd"])
def test_a_database_is_whole_though_a_reader_has_it_open_at_the_end(format_: str, tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    with open_writer(path, format_) as trace:
        places = places_of(trace)
        write_part(trace, places, 0)
        trace.flush()
        reader = sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM sqlite_master").fetchone()
        write_part(trace, places, 1)
    reader.close()
    assert read(path, format_) == expected(2)
