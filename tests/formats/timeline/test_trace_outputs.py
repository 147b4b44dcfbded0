"""One run in every format for traces: what outside readers find in one of them, they find in the others."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path

import pytest

from callgrove.formats.interface import WriteOptions
from callgrove.formats.registry import writer_of
from callgrove.formats.writing.transfer import write_experiment
from tests.formats.gpu.drawn_runs import EVENTS, FLOWS, drawn_runs, totals
from tests.formats.gpu.gpu_truth import opened
from tests.outside.trace_processor import TROUBLES, processed
from tests.requirements import need_module

SLICES = """
select p.name as process, coalesce(t.name, thread.name) as track, s.name as name, count(*) as n, sum(s.dur) as total
from slice s join {track} t on t.id = s.track_id left join thread using (utid) join process p {process} group by 1, 2, 3
"""
OF_TRACKS = (  # Chrome's slices are all on threads; of Perfetto's, those of devices are on tracks of the process
    SLICES.format(track="thread_track", process="on p.upid = thread.upid"),
    SLICES.replace("left join thread using (utid) ", "")
    .replace("coalesce(t.name, thread.name)", "t.name")
    .format(track="process_track", process="using (upid)"),
)
N_FLOWS = "select count(*) as n from flow"
STATS = "select name as n, value as v from stats where value > 0"
Sums = Counter[tuple[str, str]]


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return drawn_runs(tmp_path_factory.mktemp("runs"))[0]


def by_name(rows: list[tuple[object, ...]]) -> Sums:
    out: Sums = Counter()
    for _, _, name, n, total in rows:
        out[str(name), "count"] += int(str(n))
        out[str(name), "total"] += int(str(total))
    return out


def both() -> Sums:
    """Of both processes."""
    return Counter({key: 2 * n for key, n in totals().items()})


def test_perfetto_and_chrome_show_the_same(run_folder: Path, tmp_path: Path) -> None:
    """Per name and per track, lanes counted as their track; and as many flows."""
    found = {}
    for name, target in (("perfetto", "o.pftrace"), ("chrome-json", "o.json")):
        write_experiment(opened(run_folder), writer_of(name), tmp_path / target, WriteOptions())
        on_threads, on_processes, flows, stats = processed((tmp_path / target).read_bytes(), *OF_TRACKS, N_FLOWS, STATS)
        assert not {stat for stat, _ in stats} & set(TROUBLES)
        rows = on_threads + on_processes
        assert by_name(rows) == both()
        assert flows == [(2 * sum(map(len, FLOWS.values())),)]
        sums: Counter[tuple[str, str]] = Counter()
        for process, track, _, n, total in rows:
            base = str(track).partition(" #")[0]
            sums[f"{process} {base}", "count"] += int(str(n))
            sums[f"{process} {base}", "total"] += int(str(total))
        found[name] = sums
    assert found["perfetto"] == found["chrome-json"]


def test_otf2_has_the_same(run_folder: Path, tmp_path: Path) -> None:
    otf2 = need_module("otf2")
    write_experiment(opened(run_folder), writer_of("otf2"), tmp_path / "o.otf2", WriteOptions())
    sums: Sums = Counter()
    with otf2.reader.open(str(tmp_path / "o.otf2" / "traces.otf2")) as trace:
        for _, event in trace.events:
            if isinstance(event, otf2.events.Enter):
                sums[event.region.name, "count"] += 1
                sums[event.region.name, "total"] -= event.time
            elif isinstance(event, otf2.events.Leave):
                sums[event.region.name, "total"] += event.time
    assert sums == both()


def test_csv_has_what_it_has_files_for(run_folder: Path, tmp_path: Path) -> None:
    report = write_experiment(opened(run_folder), writer_of("rocprof-csv"), tmp_path / "o", WriteOptions())
    sums: Sums = Counter()
    for path in tmp_path.glob("o_*_trace.csv"):
        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                name = row.get("Kernel_Name") or row.get("Direction") or row.get("Function") or row["Operation"]
                name = name.removeprefix("MEMORY_ALLOCATION_").replace("ALLOCATE", "ALLOC")
                sums[name, "count"] += 1
                sums[name, "total"] += int(row["End_Timestamp"]) - int(row["Start_Timestamp"])
    regions = {event.name for event in EVENTS if event.kind == "region"}
    assert sums == Counter({key: n for key, n in both().items() if key[0] not in regions})
    assert any(f"{2 * len(regions)} events of kind region" in loss for loss in report.losses)


@pytest.mark.parametrize(
    ("format_name", "where"),
    [
        ("chrome-json", "callgrove.formats.timeline.chrome_json.points_text"),
        ("rocprof-csv", "callgrove.formats.rocprof_csv.format.agent_rows"),
        ("otf2", "callgrove.formats.timeline.otf2.writer._is_float"),
    ],
)
def test_an_interruption_leaves_what_was_there(
    format_name: str, where: str, run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the middle of the work, when a part is written already."""
    if format_name == "otf2":
        need_module("otf2")
    target = tmp_path / "o"

    def contents() -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file()}

    write_experiment(opened(run_folder), writer_of(format_name), target, WriteOptions())
    before = contents()

    def interrupt(*_: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(where, interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_experiment(opened(run_folder), writer_of(format_name), target, WriteOptions(overwrite=True))
    assert contents() == before
    assert not list(tmp_path.glob(".*"))


def test_what_was_written_before_an_interruption_can_be_kept(
    run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As JSON that is closed, and as a folder of CSV files; a second one does not replace the first."""

    def interrupt(*_: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr("callgrove.formats.timeline.chrome_json.points_text", interrupt)
    monkeypatch.setattr("callgrove.formats.rocprof_csv.format.agent_rows", interrupt)
    for name, target in (("chrome-json", "o.json"), ("rocprof-csv", "o"), ("rocprof-csv", "o")):
        with pytest.raises(KeyboardInterrupt):
            write_experiment(opened(run_folder), writer_of(name), tmp_path / target, WriteOptions(keep_partial=True))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["o.json.part", "o.part"]
    found = json.loads((tmp_path / "o.json.part").read_text())["traceEvents"]
    assert sum(event["ph"] == "X" for event in found) > 0
    assert (tmp_path / "o.part" / "kernel_trace.csv").read_text().count("\n") == 1 + 2 * sum(
        event.kind == "kernel" for event in EVENTS
    )
