"""For random runs, every writer of traces gives back what it was given: spans and time by kind, bytes, counters.

What is written is read by readers of the tests, not by the project's; the run says what they must find.

The first word of every name is the kind of its event, so that each format can be asked by names.
"""

from __future__ import annotations

import csv
import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.arrays import Array
from callgrove.formats.interface import LossReport, WriteOptions
from callgrove.formats.registry import writer_of
from callgrove.formats.writing.transfer import write_experiment
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.experiment import Experiment
from callgrove.model.profiles import ProfileKind
from callgrove.model.traces.events import ArraySpans, Device, SideTable, SpanKind
from tests.exhaustive import try_examples
from tests.formats.gpu.gpu_databases import Event, Run, write_rocpd
from tests.formats.gpu.gpu_truth import opened, spans
from tests.outside import perfetto_trace
from tests.requirements import need_module

Totals = dict[str, tuple[int, int]]  # kind -> spans, nanoseconds
KINDS = ("api", "marker", "region", "kernel", "copy", "alloc")
COUNTER = "SQ_WAVES"


@dataclass(frozen=True)
class Found:
    """What a file says; None where the format has no place for it."""

    totals: Totals
    bytes: int | None = None
    counted: float | None = None


@st.composite
def runs(draw: st.DrawFn) -> Run:
    """Any number of events, on any thread or stream, nested, crossing or of no length; some kernels have counters."""
    events = []
    for number in range(draw(st.integers(1, 25))):
        kind = draw(st.sampled_from(KINDS))
        start, length = draw(st.integers(0, 5000)), draw(st.integers(0, 900))
        size = draw(st.integers(0, 1 << 40)) if kind in ("copy", "alloc") else -1
        device = draw(st.integers(0, 1)) if kind in ("kernel", "copy") else -1
        events.append(
            Event(
                kind,
                f"{kind} {draw(st.sampled_from('ab'))}",
                start,
                start + length,
                thread=draw(st.integers(0, 1)),
                corr=number,
                device=device,
                stream=draw(st.integers(0, 1)),
                size=size,
                grid=(64, 1, 1) if kind == "kernel" else (0, 0, 0),
            )
        )
    kernels = [k for k, event in enumerate(events) if event.kind == "kernel"]
    counters = tuple((k, COUNTER, float(draw(st.integers(0, 1 << 50)))) for k in kernels if draw(st.booleans()))
    return Run(tuple(events), counters=counters)


def truth(run: Run) -> Found:
    totals: Totals = {}
    for event in run.events:
        count, ns = totals.get(event.kind, (0, 0))
        totals[event.kind] = count + 1, ns + event.length
    copied = sum(event.size for event in run.events if event.kind == "copy")
    return Found(totals, copied, sum(value for _, _, value in run.counters))


def summed(rows: Iterator[tuple[str, int]]) -> Totals:
    """Names and durations, by the first word of the name."""
    out: Totals = {}
    for name, ns in rows:
        count, before = out.get(name.split()[0], (0, 0))
        out[name.split()[0]] = count + 1, before + ns
    return out


def in_rocpd(path: Path) -> Found:
    with closing(sqlite3.connect(path)) as database:
        rows: list[tuple[str, int]] = []
        for view, name in (("memory_copies", "name"), ("memory_allocations", "type"), ("regions", "name")):
            rows += database.execute(f"SELECT {name}, duration FROM {view}")
        # rocprofv3's view `kernels` asks for queues, which these runs do not list
        symbol = "SELECT display_name FROM rocpd_info_kernel_symbol s WHERE s.id = k.kernel_id AND s.guid = k.guid"
        rows += database.execute(f'SELECT ({symbol}), "end" - start FROM rocpd_kernel_dispatch k')
        (copied,) = database.execute("SELECT total(size) FROM memory_copies").fetchone()
        (counted,) = database.execute("SELECT total(counter_value) FROM pmc_events").fetchone()
    return Found(summed(iter(rows)), int(copied), counted)


def in_draft(path: Path) -> Found:
    name = "(SELECT value FROM strings WHERE id = {})"
    with closing(sqlite3.connect(path)) as database:
        rows: list[tuple[str, int]] = []
        rows += database.execute(f"SELECT {name.format('kernel_id')}, duration_ns FROM gpu_kernel_launches")
        rows += database.execute(f"SELECT {name.format('region_name_id')}, duration_ns FROM instrumentation_regions")
        told = "json_extract(additional_info, '$.{}')"
        rows += database.execute(f"SELECT {told.format('name')}, {told.format('duration_ns')} FROM memory_operations")
        copies = "SELECT total(size_bytes) FROM memory_operations WHERE operation_type = 'COPY'"
        (copied,) = database.execute(copies).fetchone()
        (counted,) = database.execute("SELECT total(value) FROM hardware_counters").fetchone()
    return Found(summed(iter(rows)), int(copied), counted)


def in_perfetto(path: Path) -> Found:
    slices = perfetto_trace.read(path.read_bytes()).slices
    copied = sum(int(str(one.args["bytes"])) for one in slices if one.name.startswith("copy"))
    counted = sum(float(str(one.args.get(COUNTER, 0))) for one in slices)
    return Found(summed((one.name, one.end - one.start) for one in slices), copied, counted)


def in_chrome(path: Path) -> Found:
    """Marks are instants, which have no length."""
    events = [e for e in json.loads(path.read_text(), parse_float=Decimal)["traceEvents"] if e["ph"] in "Xi"]
    copied = sum(int(e["args"]["bytes"]) for e in events if e["name"].startswith("copy"))
    counted = sum(float(e["args"].get(COUNTER, 0)) for e in events)
    return Found(summed((e["name"], int(e.get("dur", 0) * 1000)) for e in events), copied, counted)


def in_otf2(path: Path) -> Found:
    otf2 = need_module("otf2")
    totals, copied = Counter[tuple[str, str]](), 0
    with otf2.reader.open(str(path / "traces.otf2")) as trace:
        for _, event in trace.events:
            if not isinstance(event, otf2.events.Enter | otf2.events.Leave):
                continue
            kind, enters = event.region.name.split()[0], isinstance(event, otf2.events.Enter)
            totals[kind, "count"] += enters
            totals[kind, "ns"] += -event.time if enters else event.time
            if enters and kind == "copy":
                copied += next(value for a, value in event.attributes.items() if a.name == "bytes")
    kinds = {kind for kind, _ in totals}
    return Found({kind: (totals[kind, "count"], totals[kind, "ns"]) for kind in kinds}, copied)


def in_csv(path: Path) -> Found:
    rows: list[tuple[str, int]] = []
    copied, counted = 0, 0.0
    for file in path.parent.glob(f"{path.name}_*_trace.csv"):
        with file.open(newline="") as text:
            for row in csv.DictReader(text):
                if "Counter_Value" in row:
                    counted += float(row["Counter_Value"])
                    continue
                name = row.get("Kernel_Name") or row.get("Direction") or row.get("Function") or row["Operation"]
                length = int(row["End_Timestamp"]) - int(row["Start_Timestamp"])
                rows.append((name.removeprefix("MEMORY_ALLOCATION_"), length))
                copied += int(row.get("Size") or 0)
    for file in path.parent.glob(f"{path.name}_counter_collection.csv"):
        with file.open(newline="") as text:
            counted += sum(float(row["Counter_Value"]) for row in csv.DictReader(text))
    return Found(summed(iter(rows)), copied, counted)


def in_folder(path: Path) -> Found:
    need_module("pyarrow")
    experiment = opened(path)
    rows = ((name, end - start) for name, start, end in spans(experiment, "name", "start_ns", "end_ns"))
    copies, counters = (experiment.traces.side(name) for name in ("copy", "counter"))
    copied = 0 if copies is None else int(np.asarray(copies.columns["bytes"]).sum())
    counted = 0.0 if counters is None else float(np.asarray(counters.columns["value"]).sum())
    return Found(summed(rows), copied, counted)


WRITERS: dict[str, tuple[str, WriteOptions, Callable[[Path], Found]]] = {
    "rocpd": ("o.db", WriteOptions(), in_rocpd),
    "rocpd-draft": ("o.db", WriteOptions(), in_draft),
    "perfetto": ("o.pftrace", WriteOptions(), in_perfetto),
    "chrome-json": ("o.json", WriteOptions(), in_chrome),
    "otf2": ("o.otf2", WriteOptions(), in_otf2),
    "rocprof-csv": ("o", WriteOptions("extended"), in_csv),
    "rocprof-csv 2026": ("o", WriteOptions("2026"), in_csv),
    "callgrove": ("o.cgrove", WriteOptions(), in_folder),
}


def is_told(report: LossReport, *words: str) -> bool:
    return any(word in text for text in report.losses for word in words)


@pytest.mark.parametrize("name", WRITERS)
@try_examples(15)
@given(run=runs())
def test_what_is_written_adds_up_or_is_said_to_be_lost(name: str, run: Run) -> None:
    target, options, read = WRITERS[name]
    want = truth(run)
    with TemporaryDirectory() as folder:
        source = opened(write_rocpd(Path(folder) / "a.db", [run]))
        report = write_experiment(source, writer_of(name.split()[0]), Path(folder) / target, options)
        found = read(Path(folder) / target)
    for kind in want.totals:
        assert found.totals.get(kind) == want.totals[kind] or is_told(report, f"of kind {kind}"), kind
    assert set(found.totals) <= set(want.totals)
    assert found.bytes == want.bytes or is_told(report, "bytes of copies")
    assert (found.counted or 0) == want.counted or is_told(report, "counters of kernels")


@try_examples(10)
@given(run=runs(), other=runs())
def test_many_databases_add_up_in_one(run: Run, other: Run) -> None:
    second = replace(other, guid=other.guid[:-1] + "1", host="node1", machine="m1")
    wanted = [truth(run), truth(second)]
    with TemporaryDirectory() as folder:
        paths = [write_rocpd(Path(folder) / f"{k}.db", [own]) for k, own in enumerate((run, second))]
        write_experiment(opened(*paths), writer_of("rocpd"), Path(folder) / "o.db", WriteOptions())
        found = in_rocpd(Path(folder) / "o.db")
    for kind in KINDS:
        both = [own.totals.get(kind, (0, 0)) for own in wanted]
        assert found.totals.get(kind, (0, 0)) == tuple(map(sum, zip(*both, strict=True)))
    assert found.bytes == sum(own.bytes or 0 for own in wanted)


# -- side tables: a column is written, or named ----------------------------------------------------------------------


class WithDevices(ArraySpans):
    """Spans in memory whose devices are known."""

    def devices(self, part: int) -> list[Device]:
        return [Device(0, "GPU", 0, "MI300X", {"name": "gfx942", "cu_count": "304"})]


def made(path: Path, side: str, words: dict[str, object]) -> Experiment:
    """One operation on a stream, with one row beside it."""
    kind = {"kernel": SpanKind.KERNEL, "copy": SpanKind.COPY, "alloc": SpanKind.ALLOC}.get(side, SpanKind.API)
    builder = ExperimentBuilder("made", path=str(path))
    builder.add_profile(ProfileKind.THREAD, [], name="thread")
    names = ("profile", "category", "depth", "context")
    columns: dict[str, Array] = {
        **{name: np.full(1, 0 if name == "profile" else -1, np.int32) for name in names},
        **{name: np.full(1, value, np.int64) for name, value in (("start_ns", 10), ("end_ns", 30), ("correlation", 1))},
        "kind": np.full(1, kind, np.int32),
        "name": np.zeros(1, np.int32),
    }
    cells = {word: np.array([value], object if isinstance(value, str) else None) for word, value in words.items()}
    table = SideTable(np.zeros(1, np.int64), cells)
    builder.set_traces(None, WithDevices(columns, ("work",), {side: table}))
    return builder.build()


@pytest.mark.parametrize("name", ["rocpd-draft", "perfetto", "chrome-json", "otf2", "rocprof-csv"])
@pytest.mark.parametrize(
    ("side", "words"),
    [
        ("kernel", {"news": 7}),
        ("copy", {"bytes": 5, "news": 7}),
        ("alloc", {"bytes": 5, "news": 7}),
        ("stack", {"frames": "main"}),
        ("argument", {"position": 0, "type": "int", "name": "n", "value": "7"}),
    ],
)
def test_what_nobody_expected_is_written_or_named(
    name: str, side: str, words: dict[str, object], tmp_path: Path
) -> None:
    """A column that a reader may give tomorrow does not vanish in silence: 7 is in the file, or a line has a count."""
    if name == "otf2":
        need_module("otf2")
    experiment = made(tmp_path, side, words)
    target = tmp_path / WRITERS[name][0]
    report = write_experiment(experiment, writer_of(name), target, WriteOptions(annotations="all"))
    if name == "rocpd-draft" and "news" in words:
        cells = opened(target).traces.side(side)
        assert cells is not None
        assert np.asarray(cells.columns["news"]).tolist() == [7]
    elif name in ("perfetto", "chrome-json") and side == "argument":
        assert b"arg.n" in target.read_bytes()
    else:
        assert any(" 1 " in f" {text} " for text in report.losses), report.losses


@pytest.mark.parametrize("name", ["perfetto", "chrome-json", "otf2"])
def test_facts_about_devices_are_named_as_lost(name: str, tmp_path: Path) -> None:
    if name == "otf2":
        need_module("otf2")
    report = write_experiment(
        made(tmp_path, "copy", {"bytes": 5}), writer_of(name), tmp_path / WRITERS[name][0], WriteOptions()
    )
    (told,) = (text for text in report.losses if "alone, without what else" in text)
    assert told.startswith("1 device is")


def test_annotations_say_all_of_copies_and_allocations(tmp_path: Path) -> None:
    words: dict[str, dict[str, object]] = {
        "copy": {"bytes": 5, "queue": 3, "thread": 42, "source_address": 16, "destination_address": 255},
        "alloc": {"bytes": 5, "address": 16, "device": 0, "level": "VIRTUAL", "queue": 3, "flags": 2},
        "kernel": {"thread": 42, "graph_exec": 7, "graph_node": 9, "code_object": 2},
    }
    want: dict[str, dict[str, object]] = {
        "copy": {"queue": 3, "tid": 42, "src_address": "0x0000000000000010", "dst_address": "0x00000000000000ff"},
        "alloc": {"address": "0x0000000000000010", "on": "GPU 0", "level": "VIRTUAL", "queue": 3, "flags": 2},
        "kernel": {"tid": 42, "graph_exec": 7, "graph_node": 9, "code_object_id": 2},
    }
    for side, told in words.items():
        target = tmp_path / f"{side}.json"
        report = write_experiment(
            made(tmp_path, side, told), writer_of("chrome-json"), target, WriteOptions(annotations="all")
        )
        assert all("alone, without what else" in text for text in report.losses)
        (one,) = (e for e in json.loads(target.read_text())["traceEvents"] if e["ph"] == "X")
        assert {key: one["args"].get(key) for key in want[side]} == want[side]
