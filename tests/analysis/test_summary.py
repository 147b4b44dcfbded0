"""Summaries of traced runs against sums over plain Python rows, against the generator, and against stored truth."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.gpu_databases import GpuShape, make_gpu_database, truth
from callgrove.analysis import durations, summary
from callgrove.analysis.summary import summarise, table, tables
from callgrove.analysis.summary_parts import Task
from callgrove.analysis.summary_sections import By, Places, Summary, WindowMode
from callgrove.arrays import Array
from callgrove.errors import UsageError
from callgrove.execute import Engine, executor
from callgrove.formats.interface import ReadOptions
from callgrove.formats.registry import open_paths
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.experiment import Experiment
from callgrove.model.profiles import DEFAULT_ID_NAMES, Interpretation, ProfileKind
from callgrove.model.traces.events import ArraySpans, Counters, SideTable, SpanKind, Traces, Window
from callgrove.model.traces.windows import marker_window
from tests.formats.gpu.gpu_databases import Run, write_rocpd

N_RANKS = 3
SHAPES = [GpuShape(400, rank, N_RANKS) for rank in range(N_RANKS)]
DEVICE_KINDS = (SpanKind.KERNEL, SpanKind.COPY)
Row = dict[str, Any]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("gpu")
    return [make_gpu_database(folder / shape.name, shape) for shape in SHAPES]


@pytest.fixture(scope="module")
def experiment(files: list[Path]) -> Experiment:
    return opened(files)


def opened(files: list[Path], fold: bool = False) -> Experiment:
    found = open_paths(files, "", ReadOptions(fold=fold))
    assert isinstance(found, Experiment)
    return found


def rows(found: Summary, *sections: str) -> list[Row]:
    made = table(found, sections) if sections else table(found)
    return [dict(zip(made.names, row, strict=True)) for row in made.rows()]


def spans(experiment: Experiment) -> list[Row]:
    """All spans as plain rows, with what tells them apart."""
    ranks, agents = (experiment.profiles.identity_list(name) for name in ("rank", "gpu_device"))
    out = []
    for chunk in experiment.traces.spans(("profile", "kind", "label", "start_ns", "end_ns", "correlation")):
        strings = experiment.traces.spans_backend.strings  # type: ignore[union-attr]
        for profile, kind, name, start, end, correlation in zip(
            *(chunk[c].tolist() for c in ("profile", "kind", "label", "start_ns", "end_ns", "correlation")), strict=True
        ):
            out.append(
                {
                    "rank": ranks[profile],
                    "agent": agents[profile],
                    "kind": SpanKind(kind),
                    "name": strings[name],
                    "profile": profile,
                    "start": start,
                    "end": end,
                    "correlation": correlation,
                }
            )
    return out


def test_sums_are_those_of_the_generator(experiment: Experiment) -> None:
    found = {
        (row["name"], row["rank"]): (row["count"], row["total_ns"])
        for row in rows(summarise(experiment, [By.RANK]), "kernels", "copies", "api", "markers")
    }
    wanted = {(name, shape.rank): sums for shape in SHAPES for name, sums in truth(shape).items()}
    assert found == wanted


def test_statistics_are_those_of_plain_rows(experiment: Experiment) -> None:
    every = spans(experiment)
    for row in rows(summarise(experiment), "kernels"):
        lengths = [s["end"] - s["start"] for s in every if s["name"] == row["name"] and s["kind"] == SpanKind.KERNEL]
        assert row["count"] == len(lengths)
        assert row["total_ns"] == sum(lengths)
        assert row["median_ns"] == statistics.median(lengths)
        assert (row["min_ns"], row["max_ns"]) == (min(lengths), max(lengths))
        assert row["std_ns"] == pytest.approx(statistics.stdev(lengths))
        assert row["p95_ns"] == sorted(lengths)[-(-len(lengths) * 19 // 20) - 1]


def test_percent_adds_up_to_a_section(experiment: Experiment) -> None:
    for section in ("kernels", "copies", "api", "gaps", "overlap"):
        assert sum(row["percent"] for row in rows(summarise(experiment), section)) == pytest.approx(100)


@pytest.mark.parametrize("by", [By.RANK, By.AGENT])
@pytest.mark.parametrize("section", ["kernels", "overlap", "gaps", "latency"])
def test_divided_rows_say_whose_they_are_and_add_up(experiment: Experiment, section: str, by: By) -> None:
    whole, divided = rows(summarise(experiment), section), rows(summarise(experiment, [by]), section)
    assert divided
    assert None not in {row[by.value] for row in divided}
    for row in whole:
        own = [one for one in divided if one["name"] == row["name"]]
        assert sum(one["total_ns"] for one in own) == row["total_ns"]
        assert row["count"] is None or sum(one["count"] for one in own) == row["count"]


@pytest.mark.parametrize("section", ["overlap", "gaps", "latency"])
def test_what_is_divided_by_rank_is_what_each_rank_has(experiment: Experiment, section: str) -> None:
    divided = rows(summarise(experiment, [By.RANK]), section)
    for rank in range(N_RANKS):
        alone = rows(summarise(experiment, profiles=experiment.profiles.where([rank])), section)
        own = [row for row in divided if row["rank"] == rank]
        assert [(row["name"], row["total_ns"]) for row in own] == [(row["name"], row["total_ns"]) for row in alone]
        if section == "overlap":
            assert sum(row["percent"] for row in own) == pytest.approx(100)


def test_what_cannot_be_divided_is_known(experiment: Experiment) -> None:
    found = summarise(experiment, [By.RANK, By.STREAM])
    assert found.find_undivided(("kernels", "overlap", "gaps", "latency")) == {By.STREAM: ["overlap", "gaps"]}
    assert summarise(experiment, [By.RANK]).find_undivided(("busy", "overlap")) == {}
    overlap = next(made for made in tables(found) if made.names[0] == "overlap")
    assert "rank" in overlap.names
    assert "stream" not in overlap.names
    assert {row["stream"] for row in rows(found, "overlap")} == {None}


def test_counters_are_divided() -> None:
    builder = ExperimentBuilder("made")
    for rank in (0, 1):
        builder.add_profile(ProfileKind.THREAD, [(DEFAULT_ID_NAMES.index("RANK"), rank, rank, Interpretation.BOTH)])
    values = np.array([1.0, 5.0, 7.0, np.nan])
    profile = np.array([0, 0, 1, 1], np.int32)
    counters = Counters(profile, np.zeros(4, np.int32), np.arange(4), values, ("power",))
    builder.set_traces(counters=counters)
    found = rows(summarise(builder.build(), [By.RANK]), "counters")
    assert [(row["rank"], row["count"], row["value_mean"], row["value_max"]) for row in found] == [
        (0, 2, 3.0, 5.0),
        (1, 1, 7.0, 7.0),
    ]


def test_busy_and_at_once_against_every_moment(experiment: Experiment) -> None:
    every = [s for s in spans(experiment) if s["kind"] in DEVICE_KINDS]
    devices = experiment.profiles.identity_list("gpu_device")
    for row in rows(summarise(experiment), "busy"):
        own = [s for s in every if s["rank"] == row["rank"] and devices[s["profile"]] == row["agent"]]
        edges = sorted({t for s in own for t in (s["start"], s["end"])})
        open_ = [sum(s["start"] <= a < s["end"] for s in own) for a in edges[:-1]]
        busy = sum(b - a for a, b, n in zip(edges, edges[1:], open_, strict=False) if n)
        assert (row["count"], row["total_ns"]) == (len(own), busy)
        assert row["most_at_once"] == max(open_)
        assert row["span_ns"] == edges[-1] - edges[0]
        everyone = [s for s in spans(experiment) if s["rank"] == row["rank"]]
        process = max(s["end"] for s in everyone) - min(s["start"] for s in everyone)
        assert row["process_percent"] == pytest.approx(100 * busy / process)


@pytest.mark.parametrize("mode", list(WindowMode))
@pytest.mark.parametrize("part", [(0.2, 0.7), (0.5, 0.5001), (0.0, 1.0)])
def test_windows(experiment: Experiment, mode: WindowMode, part: tuple[float, float]) -> None:
    every = spans(experiment)
    first, last = min(s["start"] for s in every), max(s["end"] for s in every)
    low, high = (round(first + (last - first) * share) for share in part)
    wanted: dict[str, list[int]] = {}
    for s in every:
        inside = low <= s["start"] and s["end"] <= high
        touches = s["start"] < high and s["end"] > low
        if s["kind"] == SpanKind.KERNEL and (inside if mode is WindowMode.INSIDE else touches):
            start, end = (
                (s["start"], s["end"]) if mode is not WindowMode.CLIP else (max(s["start"], low), min(s["end"], high))
            )
            wanted.setdefault(s["name"], []).append(end - start)
    summary = summarise(experiment, window=(low, high), mode=mode)
    found = {row["name"]: (row["count"], row["total_ns"]) for row in rows(summary, "kernels")}
    assert found == {name: (len(lengths), sum(lengths)) for name, lengths in wanted.items()}
    assert summary.n_read == len(every)
    assert summary.n_unlinked == 0  # also where the call lies outside of the window


def test_kernels_by_marker_are_attributed_by_their_call(experiment: Experiment) -> None:
    every = spans(experiment)
    markers = [s for s in every if s["kind"] == SpanKind.MARKER]
    calls = {(s["rank"], s["correlation"]): s for s in every if s["kind"] == SpanKind.API}
    wanted: dict[tuple[str, str | None], int] = {}
    for s in every:
        if s["kind"] == SpanKind.KERNEL:
            call = calls[s["rank"], s["correlation"]]
            around = [
                m
                for m in markers
                if m["profile"] == call["profile"] and m["start"] <= call["start"] and call["end"] <= m["end"]
            ]
            key = (s["name"], around[-1]["name"] if around else None)
            wanted[key] = wanted.get(key, 0) + 1
    found = {(row["name"], row["marker"]): row["count"] for row in rows(summarise(experiment, [By.MARKER]), "kernels")}
    assert found == wanted
    assert any(marker == "step" for _, marker in found)


def test_names_that_differ_in_digits_alone(tmp_path: Path) -> None:
    run = Run.random(3, 60).without("memset")
    experiment = opened([write_rocpd(tmp_path / "t.db", [run])])
    markers = [event for event in run.events if event.kind == "marker"]
    assert {event.label for event in markers} > {"step 1", "step 2"}
    found = summarise(experiment, [By.MARKER], ignore_digits=True)
    (own,) = rows(found, "markers")
    assert own["name"] == "step #"
    assert (own["count"], own["total_ns"]) == (len(markers), sum(event.end - event.start for event in markers))
    assert own["median_ns"] == statistics.median(event.end - event.start for event in markers)
    divided = rows(summarise(experiment, [By.MARKER]), "kernels")
    together = rows(found, "kernels")
    assert {row["marker"] for row in together} == {"step #"}
    assert {row["marker"] for row in divided} > {"step 1", "step 2"}
    assert sum(row["count"] for row in together) == sum(row["count"] for row in divided)


def test_latency_and_gaps(experiment: Experiment) -> None:
    every = spans(experiment)
    calls = {(s["rank"], s["correlation"]): s for s in every if s["kind"] == SpanKind.API}
    operations = [(s, calls[s["rank"], s["correlation"]]) for s in every if s["kind"] in DEVICE_KINDS]
    found = {row["name"]: row for row in rows(summarise(experiment), "latency")}
    assert found["delay"]["total_ns"] == sum(op["start"] - call["end"] for op, call in operations)
    assert found["delay"]["min_ns"] < 0  # operations that start during their call are not clamped
    assert found["call and delay"]["count"] == len(operations)
    gaps = sum(row["total_ns"] for row in rows(summarise(experiment), "gaps"))
    assert gaps == sum(row["total_ns"] for row in rows(summarise(experiment), "overlap") if row["name"] == "idle")


def test_the_longest_gaps_are_listed(experiment: Experiment) -> None:
    wanted = []
    for rank, agent in {(s["rank"], s["agent"]) for s in spans(experiment) if s["kind"] in DEVICE_KINDS}:
        own = [s for s in spans(experiment) if s["kind"] in DEVICE_KINDS and (s["rank"], s["agent"]) == (rank, agent)]
        times = sorted((s["start"], s["end"]) for s in own if s["end"] > s["start"])
        reached = times[0][1]
        for start, end in times:
            if start > reached:
                wanted.append((reached - start, rank, agent, reached))
            reached = max(reached, end)
    found = rows(summarise(experiment), "longest-gaps")
    assert [(-g["total_ns"], g["rank"], g["agent"], g["start_ns"]) for g in found] == sorted(wanted)[:10]
    assert len(found) > 1


def test_ranks_are_chosen(experiment: Experiment) -> None:
    summary = summarise(experiment, [By.RANK], profiles=experiment.profiles.where([1]))
    assert {row["rank"] for row in rows(summary)} - {None} == {1}
    assert {row["name"]: row["count"] for row in rows(summary, "kernels")} == {
        name: sums[0] for name, sums in truth(SHAPES[1]).items() if name[:3] in ("gem", "sof", "ncc", "tri", "cop")
    }


def test_markers_bound_a_window(experiment: Experiment) -> None:
    steps = [s for s in spans(experiment) if s["name"] == "step"]
    first, last = min(s["start"] for s in steps), max(s["end"] for s in steps)
    assert marker_window(experiment, "step", "step", (0, 1)) == (first, last)
    assert marker_window(experiment, "step", "", (0, 1)) == (first, 1)
    with pytest.raises(UsageError, match="no marker 'nothing'"):
        marker_window(experiment, "nothing", "", (0, 1))


def test_limits_count_in_every_section(experiment: Experiment) -> None:
    made = table(summarise(experiment), ("kernels", "api", "latency"), 1)
    assert made.column("section").plain() == ["kernels", "api", "latency"]
    assert made.left == len(table(summarise(experiment), ("kernels", "api", "latency"))) - 3


@pytest.mark.parametrize("by", [[], [By.RANK, By.STREAM, By.MARKER]])
def test_processes_give_the_same_to_the_byte(files: list[Path], experiment: Experiment, by: list[By]) -> None:
    alone = table(summarise(experiment, by))
    with executor(Engine(jobs=2)) as workers:
        found = open_paths(files, "", ReadOptions(fold=False, workers=workers))
        assert isinstance(found, Experiment)
        together = table(summarise(found, by, workers=workers))
    assert list(together.rows()) == list(alone.rows())
    assert together.names == alone.names


def test_folding_changes_nothing(files: list[Path], experiment: Experiment) -> None:
    assert list(table(summarise(opened(files, fold=True))).rows()) == list(table(summarise(experiment)).rows())


def in_memory(events: list[tuple[SpanKind, str, int, int]], sizes: dict[int, int] | None = None) -> Experiment:
    """One thread and one stream, without a file."""
    builder = ExperimentBuilder("test", "1")
    rank = (DEFAULT_ID_NAMES.index("RANK"), 0, 0, Interpretation.SINGLE)
    builder.add_profile(ProfileKind.THREAD, [rank])
    builder.add_profile(ProfileKind.GPU_STREAM, [rank])
    names = sorted({name for _, name, _, _ in events})
    columns: dict[str, Array] = {
        "profile": np.array([int(kind in DEVICE_KINDS) for kind, _, _, _ in events], np.int32),
        "kind": np.array([kind for kind, _, _, _ in events], np.int32),
        "category": np.full(len(events), -1, np.int32),
        "name": np.array([names.index(name) for _, name, _, _ in events], np.int32),
        "start_ns": np.array([start for _, _, start, _ in events], np.int64),
        "end_ns": np.array([end for _, _, _, end in events], np.int64),
        "correlation": np.full(len(events), -1, np.int64),
    }
    known = sizes or {}
    side = SideTable(np.array(list(known), np.int64), {"bytes": np.array(list(known.values()), np.int64)})
    builder.set_traces(spans=ArraySpans(columns, tuple(names), {"copy": side}, chunk_rows=2))
    return builder.build()


def test_flagged_spans_are_counted_and_in_no_sum() -> None:
    events = [(SpanKind.KERNEL, "k", 0, 10), (SpanKind.KERNEL, "k", 30, 20), (SpanKind.SYNC, "wait", 0, 4)]
    found = summarise(in_memory(events))
    assert (found.n_read, found.n_shown, found.n_flagged, found.n_unlinked) == (3, 2, 1, 1)
    assert [(row["section"], row["count"], row["total_ns"]) for row in rows(found, "kernels", "api", "sync")] == [
        ("kernels", 1, 10),
        ("sync", 1, 4),
    ]


def test_sizes_and_rates() -> None:
    events = [(SpanKind.COPY, "up", 0, 1000), (SpanKind.COPY, "down", 5, 10), (SpanKind.COPY, "up", 2000, 3000)]
    found = {row["name"]: row for row in rows(summarise(in_memory(events, {0: 500, 2: 1500, 1: -1})), "copies")}
    assert found["up"]["bytes"] == 2000
    assert found["up"]["bytes_per_second"] == 1e9
    assert found["down"]["bytes"] is None


def test_rates_are_those_of_copies_whose_size_is_known() -> None:
    """3,000 bytes in 3,000 ns; the 97,000 ns of a copy whose size was lost, or that has no row at all, do not count."""
    events = [(SpanKind.COPY, "up", t, t + 1000) for t in (0, 1000, 2000)]
    events += [(SpanKind.COPY, "up", 3000, 100_000), (SpanKind.COPY, "up", 100_000, 197_000)]
    for sizes, missing in (({0: 1000, 1: 1000, 2: 1000, 3: -1}, 2), ({0: 1000, 1: 1000, 2: 1000, 3: 0, 4: 0}, None)):
        (row,) = rows(summarise(in_memory(events, sizes)), "copies")
        assert (row["count"], row["total_ns"], row["bytes"]) == (5, 197_000, 3000)
        assert row["bytes_per_second"] == pytest.approx(1e9 if missing else 3000 * 1e9 / 197_000)
        assert row.get("without_size") == missing
    (row,) = rows(summarise(in_memory(events)), "copies")
    assert [row.get(name) for name in ("bytes", "bytes_per_second", "without_size")] == [None, None, 5]


@pytest.mark.parametrize(("mode", "known"), [(WindowMode.TOUCH, 3000), (WindowMode.CLIP, 1000)])
def test_a_copy_that_a_window_cuts_has_no_size(mode: WindowMode, known: int) -> None:
    events = [(SpanKind.COPY, "up", t, t + 1000) for t in (0, 1000, 2000)]
    found = summarise(in_memory(events, {0: 1000, 1: 1000, 2: 1000}), window=(500, 2500), mode=mode)
    (row,) = rows(found, "copies")
    assert (row["count"], row["bytes"], row["bytes_per_second"]) == (3, known, 1e9)
    assert row.get("without_size") == (2 if mode is WindowMode.CLIP else None)


def test_nothing_at_all() -> None:
    assert rows(summarise(in_memory([]))) == []
    window: Window = (5, 6)
    assert rows(summarise(in_memory([(SpanKind.API, "a", 0, 1)]), window=window)) == []


def test_stored_truth(shared: Path) -> None:
    folder = shared / "data" / "own" / "rocpd" / "small"
    wanted = json.loads((folder / "truth.json").read_text())
    found = rows(summarise(opened([folder]), [By.RANK]), "kernels")
    for rank, process in enumerate(wanted):
        for name, (count, total, low, high) in process["top"].items():
            (row,) = [r for r in found if r["rank"] == rank and r["name"] == name]
            assert (row["count"], row["total_ns"], row["min_ns"], row["max_ns"]) == (count, total, low, high), name


# -- ranks that are complete -------------------------------------------------------------------------------------------


def test_what_ranks_took_is_the_same_when_it_is_finished_early(
    experiment: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    want = list(table(summarise(experiment, (By.RANK, By.AGENT))).rows())
    for name, value in (("COMPACT_ROWS", 10), ("MOST_BINNED", 0)):
        monkeypatch.setattr(durations, name, value)
    monkeypatch.setattr(summary, "BUNDLE_BYTES", 1)  # a part for each file
    early = summarise(experiment, (By.RANK, By.AGENT))
    assert early.durations._finished
    assert list(table(early).rows()) == want


@pytest.mark.parametrize(
    ("ranks", "ending"),
    [
        ([[0, 1], [2]], [[0, 1], [2]]),
        ([[0, 1], [1, 2], [0]], [[], [1, 2], [0]]),
        ([[-1], [-1, 3], []], [[], [-1, 3], []]),
        ([], []),
    ],
)
def test_a_rank_ends_with_its_last_part(ranks: list[list[int]], ending: list[list[int]]) -> None:
    tasks = [task_of(some) for some in ranks]
    counters = replace(task_of(range(5)), traces=Traces())  # counters of all profiles have no durations
    assert summary._ranks_that_end([*tasks, counters]) == [*ending, []]
    chosen = replace(task_of([4, 5, 6]), profiles=np.array([1]))
    assert summary._ranks_that_end([chosen, *tasks])[0] == [5]


def task_of(ranks: Sequence[int]) -> Task:
    """A part whose profiles have these ranks."""
    nothing = np.zeros(len(ranks), np.int64)
    spans = in_memory([(SpanKind.KERNEL, "k", 0, 1)]).traces.spans_backend
    places = Places(nothing.astype(np.int32), np.array(ranks, np.int64), nothing, nothing, nothing)
    return Task(Traces(spans_backend=spans), None, places, None)
