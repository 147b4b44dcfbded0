"""Chrome's trace events, read by the standard library and by Perfetto's own trace processor."""

from __future__ import annotations

import errno
import gzip
import json
import subprocess
import sys
from collections import Counter, defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from callgrove.errors import CallgroveError
from callgrove.formats.interface import WriteOptions
from callgrove.formats.timeline import chrome_json
from callgrove.formats.timeline.chrome_json import FORMAT, points_text, slices_text, time_bounds
from callgrove.formats.timeline.content import (
    CounterPoints,
    Note,
    Process,
    ProcessTracks,
    Slices,
    Texts,
    Track,
    TrackKind,
    Value,
)
from callgrove.formats.writing.transfer import transfer
from callgrove.model.traces.events import Traces
from tests.cli.commands import Capture, run, said
from tests.formats.gpu.drawn_runs import DRAWN, EPOCH, FLOWS, drawn_runs, totals
from tests.formats.gpu.gpu_databases import Event, Run, execute, suffix_of, write_rocpd
from tests.formats.gpu.gpu_truth import opened
from tests.formats.samples import CORPUS
from tests.outside.trace_processor import TROUBLES, processed

STATS = "select name as n, value as v from stats where value > 0"
Json = dict[str, Any]


def written(source: Path, target: Path, **options: Any) -> list[str]:
    """What was lost."""
    return transfer(opened(source), FORMAT.open_writer(target, WriteOptions(**options))).losses


def events(path: Path) -> tuple[Json, list[Json]]:
    data = path.read_bytes()
    found = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data, parse_float=Decimal)
    return found, found["traceEvents"]


def slices_in(found: list[Json]) -> list[Json]:
    """What lasts, and instants, which last no time."""
    return [{"dur": Decimal(0), **e} for e in found if e["ph"] in "Xi"]


def ns(time: Decimal) -> int:
    exact = time * 1000
    assert exact == int(exact)
    return int(exact)


@pytest.mark.parametrize("first_ns", [0, EPOCH])
def test_every_slice_is_there_with_its_exact_times(first_ns: int, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    folder, _ = drawn_runs(tmp_path / "in", first_ns)
    losses = written(folder, tmp_path / "o.json")
    assert losses == []
    whole, found = events(tmp_path / "o.json")
    origin = int(whole.get("otherData", {}).get("time_origin_ns", 0))
    assert list(whole)[-1] == "traceEvents"
    assert origin % 1_000_000 == 0
    assert (origin > 0) == (first_ns > 0)
    assert origin <= first_ns
    slices = slices_in(found)
    assert {e["name"] for e in found if e["ph"] == "i"} == {"a mark"}
    assert all(ns(e["ts"]) < 2**43 * 1000 for e in slices)
    have = Counter((e["pid"], e["name"], ns(e["ts"]) + origin - first_ns, ns(e["dur"])) for e in slices)
    assert have == Counter((pid, s.name, s.start, s.length) for pid in (1, 2) for s in DRAWN)


def test_nothing_crosses_and_every_thread_has_a_name(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    written(drawn_runs(tmp_path / "in")[0], tmp_path / "o.json")
    _, found = events(tmp_path / "o.json")
    named = {(e["pid"], e["tid"]): e["args"]["name"] for e in found if e["name"] == "thread_name"}
    processes = {e["pid"]: e["args"]["name"] for e in found if e["name"] == "process_name"}
    assert processes == {1: "rank 0 host0 pid 15", 2: "rank 1 host1 pid 15"}
    lanes: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for event in found:
        if event["ph"] == "X":
            assert isinstance(event["tid"], int)
            lanes[event["pid"], event["tid"]].append((ns(event["ts"]), ns(event["ts"]) + ns(event["dur"])))
    assert set(lanes) <= set(named)
    for spans in lanes.values():
        stack: list[int] = []
        for start, end in sorted(spans, key=lambda span: (span[0], -span[1])):
            while stack and stack[-1] <= start:
                stack.pop()
            assert not stack or end <= stack[-1]
            stack.append(end)
    first = sorted(name for (pid, _), name in named.items() if pid == 1)
    assert first == [
        *("GPU 0 stream 0", "GPU 0 stream 0 #1", "GPU 0 stream 1", "GPU 1 stream 0"),
        *("thread 0", "thread 0 memory", "thread 1", "thread 1 #1"),
    ]
    assert {tid >= 1_000_000 for (_, tid), name in named.items() if "GPU" in name} == {True}


def test_flows_and_counters_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    written(drawn_runs(tmp_path / "in")[0], tmp_path / "o.json")
    _, found = events(tmp_path / "o.json")
    begin = {e["id"]: (e["pid"], ns(e["ts"])) for e in found if e["ph"] == "s"}
    end = {e["id"]: (e["pid"], ns(e["ts"])) for e in found if e["ph"] == "f"}
    assert len(begin) == len(end) == 2 * sum(map(len, FLOWS.values()))
    assert all(e["bp"] == "e" for e in found if e["ph"] == "f")
    have = Counter((*begin[id_], end[id_][1]) for id_ in begin)
    assert have == Counter((pid, start, op) for pid in (1, 2) for (_, start), ops in FLOWS.items() for op in ops)
    memory = [(e["pid"], ns(e["ts"]), e["args"]) for e in found if e["ph"] == "C"]
    assert memory == [(pid, when, {"bytes": n}) for pid in (1, 2) for when, n in ((1210, 1 << 20), (8010, 0))]


def test_the_trace_processor_agrees(tmp_path: Path) -> None:
    """Names, times, nesting, flows and counters; a gzipped file of times since the epoch."""
    (tmp_path / "in").mkdir()
    written(drawn_runs(tmp_path / "in", EPOCH)[0], tmp_path / "o.json.gz")
    whole, _ = events(tmp_path / "o.json.gz")
    origin = int(whole["otherData"]["time_origin_ns"])
    data = (tmp_path / "o.json.gz").read_bytes()
    where = "join thread_track t on t.id = s.track_id join thread using (utid) join process p using (upid)"
    slices, flows, counters, stats = processed(
        data,
        f"select p.name as p, s.name as n, s.ts as ts, s.dur as d, s.depth as depth from slice s {where}",
        "select a.name as a, a.ts as ats, b.ts as bts from flow f join slice a on a.id = f.slice_out "
        "join slice b on b.id = f.slice_in",
        "select t.name as n, c.ts as ts, c.value as v from counter c join counter_track t on t.id = c.track_id",
        STATS,
    )
    assert not {name for name, _ in stats} & set(TROUBLES)
    process = ("rank 0 host0 pid 15", "rank 1 host1 pid 15")
    shift = EPOCH - origin
    have = Counter((p, n, int(str(ts)) - shift, d) for p, n, ts, d, _ in slices)
    assert have == Counter((p, s.name, s.start, s.length) for p in process for s in DRAWN)
    depths = {(str(n), int(str(ts)) - shift): depth for _, n, ts, _, depth in slices}
    assert (
        depths["a mark", 2200] == depths["hipGraphLaunch", 1100] == depths["hipMemcpyAsync", 2100] == 1
    )  # inside the marker
    assert depths["crosses", 3200] == depths["overlaps", 2400] == 0  # in lanes of their own
    linked = Counter((a, int(str(ats)) - shift, int(str(bts)) - shift) for a, ats, bts in flows)
    assert linked == Counter((name, at, op) for (name, at), ops in FLOWS.items() for op in ops for _ in range(2))
    assert Counter((n, int(str(ts)) - shift, v) for n, ts, v in counters) == Counter(
        ("GPU 0 memory REAL bytes", when, v) for when, v in ((1210, float(1 << 20)), (8010, 0.0)) for _ in range(2)
    )


def test_samples_of_call_stacks_are_slices(tmp_path: Path) -> None:
    """The roots of the stacks of an HPCToolkit database last as long as its samples that are not idle."""
    database = CORPUS / "hpctoolkit" / "release" / "pth4.d"
    experiment = opened(database)
    written(database, tmp_path / "o.json")
    data = (tmp_path / "o.json").read_bytes()
    ((total, threads),), stats = processed(
        data, "select sum(dur) as d, count(distinct track_id) as n from slice where depth = 0", STATS
    )
    assert not {name for name, _ in stats} & set(TROUBLES)
    wanted = lines = 0
    for _, metric, samples in experiment.traces.lines():
        if metric < 0:
            lasting = np.diff(samples.time_ns)
            wanted += int(lasting[samples.context[:-1] >= 0].sum())
            lines += bool((samples.context[:-1] >= 0).any())
    assert total == wanted > 0
    assert threads == lines


HOSTILE = ['a"b\\c', "\x00\x01\x1f\x7f", "line\u2028sep\nnew", "\ud800", "", "é" * 40_000]


def test_names_of_any_kind(tmp_path: Path) -> None:
    names = [Event("api", f"name {k}", 10 * k, 10 * k + 5) for k in range(len(HOSTILE))]
    own = Run(tuple(names))
    path = write_rocpd(tmp_path / "r.db", [own])
    for k, text in enumerate(HOSTILE):
        blob = text.encode("utf-8", "surrogatepass").hex()
        execute(
            path,
            f"UPDATE rocpd_string{suffix_of(own)} SET string = CAST(x'{blob}' AS TEXT) WHERE string = 'name {k}'",
        )
    losses = written(path, tmp_path / "o.json")
    found = [e["name"] for e in events(tmp_path / "o.json")[1] if e["ph"] == "X"]
    assert found[:3] == [HOSTILE[0], "\u2400\x01\x1f\x7f", HOSTILE[2]]
    assert "\ud800" not in found[3]
    assert found[4] == "<unnamed>"
    assert found[5].startswith("é" * 30_000)
    assert found[5].endswith("…")
    assert len(found[5].encode()) <= 1 << 16
    assert len(losses) == 2


def test_impossible_times_and_large_ids(tmp_path: Path) -> None:
    """What cannot be shown is counted; process ids beyond 31 bits are replaced."""
    own = (
        *(Event("api", "good", 10, 20), Event("api", "backwards", 30, 20), Event("api", "before", -5, 20)),
        Event("api", "last", 2**63 - 300, 2**63 - 200),
    )
    path = write_rocpd(tmp_path / "r.db", [Run(own, pid=2**31 + 5, tids=(2**40, 3))])
    losses = written(path, tmp_path / "o.json")
    _, found = events(tmp_path / "o.json")
    assert {e["name"] for e in found if e["ph"] == "X"} == {"good", "last"}
    assert {e["pid"] for e in found} == {1}
    assert all(e.get("tid", 0) < 2**31 for e in found)
    assert [loss.split(" ")[0] for loss in losses] == ["1", "1", "exact"]


def test_notes_of_every_type_and_flows_to_many(tmp_path: Path) -> None:
    tracks = ProcessTracks(
        Process(0, "p", 7), [Track(0, TrackKind.PROCESS, "p"), Track(1, TrackKind.THREAD, "t", tid=9)]
    )
    n = 3
    rows, absent = np.arange(n), np.full(n, -1)
    text = Texts(np.array([0, 1, 0]), ["f", 'g"'])
    notes = [
        Note("big", rows[:2], np.array([2**63 - 1, -5])),
        Note("float", rows[1:], np.array([0.1, np.inf]), Value.FLOAT),
        Note("text", rows[2:], np.array([0]), Value.TEXT, ['quote"']),
        Note("unfinished", rows[2:], rows[2:], Value.TRUE),
    ]
    slices = Slices(
        *(tracks, np.ones(n, np.int64), np.array([0, 5, 2**43]), np.array([2**43 * 2, 9, 2**43]), text, text),
        *(np.array([-1, 4, -1]), np.array([0, -1, 3]), np.array([3, 0, 1]), notes),
    )
    body = b"".join(slices_text(slices, 0)) + points_text(
        CounterPoints(tracks, 0, np.array([1, 2]), np.array([0.5, np.nan])), 0
    )
    found = json.loads(b"[" + body.removeprefix(b",\n") + b"]", parse_float=Decimal)
    assert [e["ph"] for e in found] == ["X", "s", "s", "s", "X", "f", "X", "s", "C", "C"]
    first, second, third = (e for e in found if e["ph"] == "X")
    assert first["args"] == {"big": 2**63 - 1}
    assert second["args"] == {"big": -5, "float": Decimal("0.1")}
    assert third["args"] == {"float": "inf", "text": 'quote"', "unfinished": True}
    assert (ns(third["ts"]), ns(third["dur"]), third["tid"]) == (2**43, 0, 9)
    ids = {ph: [e["id"] - (1 << 32) for e in found if e["ph"] == ph] for ph in "sf"}
    assert ids == {"s": [0, 1, 2, 3], "f": [4]}
    assert [e["args"] for e in found[-2:]] == [{"value": Decimal("0.5")}, {"value": "nan"}]
    assert (absent == -1).all()


def test_bytes_are_the_same_every_time(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    folder, _ = drawn_runs(tmp_path / "in")
    for name in ("a.json.gz", "b.json.gz"):
        written(folder, tmp_path / name)
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()


def test_bytes_do_not_depend_on_who_did_the_work(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "in").mkdir()
    folder, _ = drawn_runs(tmp_path / "in", EPOCH)
    for jobs in (1, 2):
        run(capsys, "convert", folder, tmp_path / f"{jobs}.json", "-j", jobs)
    assert (tmp_path / "1.json").read_bytes() == (tmp_path / "2.json").read_bytes()


def test_times_of_nothing() -> None:
    assert time_bounds(Traces()) is None


# -- targets ---------------------------------------------------------------------------------------------------------


def test_json_is_chrome_json_for_traces_and_stdout_works(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "in").mkdir()
    folder, _ = drawn_runs(tmp_path / "in")
    run(capsys, "convert", folder, tmp_path / "o.json.gz")
    assert len(slices_in(events(tmp_path / "o.json.gz")[1])) == 2 * len(DRAWN)
    command = [sys.executable, "-m", "callgrove", "convert", str(folder), "-", "--to", "chrome-json"]
    done = subprocess.run(command, capture_output=True, check=True)
    found = json.loads(done.stdout)["traceEvents"]
    assert len(slices_in(found)) == sum(n for (_, what), n in totals().items() if what == "count") * 2


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in").mkdir()
    folder, _ = drawn_runs(tmp_path / "in")
    old = tmp_path / "o.json"
    old.write_text("old")

    def full(*_: object) -> object:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(chrome_json, "slices_text", full)
    with pytest.raises(CallgroveError, match="No space left on device; nothing was changed"):
        written(folder, old, overwrite=True)
    assert old.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "o.json"]


def test_what_has_no_traces_is_refused(tmp_path: Path, capsys: Capture) -> None:
    text = said(capsys, "convert", CORPUS / "hpcrun" / "synthetic", tmp_path / "o.json", "--to", "chrome-json", code=2)
    assert "synthetic has no traces (hpcrun records them with -t); `callgrove report` shows its profile" in text


def test_large_files_come_with_a_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in").mkdir()
    monkeypatch.setattr(chrome_json, "LARGE", 10)
    experiment = opened(drawn_runs(tmp_path / "in")[0])
    report = transfer(experiment, FORMAT.open_writer(tmp_path / "o.json", WriteOptions()))
    assert "to_format='perfetto'" in report.hints[0]


def test_more_names_than_kinds_can_count(tmp_path: Path) -> None:
    """Kinds of spans come in eight bits, the numbers of names do not."""
    own = Run(tuple(Event("api", f"name {k}", 10 * k, 10 * k + 5) for k in range(300)))
    written(write_rocpd(tmp_path / "r.db", [own]), tmp_path / "o.json")
    assert {e["name"] for e in slices_in(events(tmp_path / "o.json")[1])} == {f"name {k}" for k in range(300)}
