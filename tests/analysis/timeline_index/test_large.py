"""Traces that are large for a test, and real ones, against sweeps over all their intervals."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from callgrove.analysis.timeline.items import Frames
from callgrove.analysis.timeline.stretches import Plan
from callgrove.analysis.timeline_index import builder, layout
from callgrove.analysis.timeline_index.answers import IndexOptions, LineKind
from callgrove.analysis.timeline_index.index import TimelineIndex
from callgrove.arrays import Array, Ints
from callgrove.formats.registry import open_path
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment
from callgrove.model.traces.events import LABEL, ArraySpans, Counters, SpanKind, Traces
from callgrove.model.traces.intervals import innermost, usable
from tests.analysis.timeline_index.brute_force import legend_of, named
from tests.analysis.traced import sampled, spanned
from tests.requirements import ROOT, each_of_shared

CORPUS = ROOT / "tests" / "corpus"
ON_DEVICE = [SpanKind.KERNEL, SpanKind.COPY, SpanKind.MEMSET, SpanKind.OVERHEAD]


def made_calls(n: int, n_tracks: int, n_names: int, seed: int, scale: int = 800) -> Experiment:
    """Calls that nest up to 20 deep, in the order of their ends; some are equal, touch, or last no time."""
    rng = np.random.default_rng(seed)
    columns: dict[str, list[Ints]] = {"profile": [], "name": [], "start_ns": [], "end_ns": []}
    for track in range(n_tracks):
        time, stack, start, end = 10**18 + int(rng.integers(0, scale)), list[int](), list[int](), list[int]()
        steps = rng.integers(0, 2 * scale, 4 * n)
        ups = rng.random(4 * n) < 0.5
        for step, up in zip(steps.tolist(), ups.tolist(), strict=True):
            time += step if step % 7 else 0
            if len(start) < n // n_tracks and (not stack or (up and len(stack) < 20)):
                stack.append(len(start))
                start.append(time)
                end.append(0)
            elif stack:
                end[stack.pop()] = time
            else:
                break
        columns["start_ns"].append(np.array(start))
        columns["end_ns"].append(np.array(end))
        columns["profile"].append(np.full(len(start), track))
        columns["name"].append(rng.integers(0, n_names, len(start)) ** 2 // n_names)
    arrays: dict[str, Array] = {name: np.concatenate(parts) for name, parts in columns.items()}
    order = np.argsort(arrays["end_ns"], kind="stable")
    arrays = {name: column[order] for name, column in arrays.items()}
    arrays["kind"] = np.full(len(order), int(SpanKind.REGION))
    spans = ArraySpans(arrays, tuple(f"f{k}" for k in range(n_names)), chunk_rows=1000)
    return replace(spanned([]), traces=Traces(spans_backend=spans))


def sweep(experiment: Experiment, windows: list[tuple[int, int]]) -> list[dict[str, int]]:
    """Return the time of each name in windows, by sweeps over all intervals of the experiment."""
    sums: list[Counter[str]] = [Counter() for _ in windows]

    def add(start: Ints, end: Ints, name: Ints, texts: list[str]) -> None:
        for out, (low, high) in zip(sums, windows, strict=True):
            ns = np.maximum(np.minimum(end, high) - np.maximum(start, low), 0)
            total = np.zeros(len(texts), np.int64)
            np.add.at(total, name, ns)
            for k in np.flatnonzero(total).tolist():
                out[texts[k]] += int(total[k])

    chunks = list(experiment.traces.spans(("profile", "kind", LABEL, "start_ns", "end_ns")))
    if chunks:
        backend = experiment.traces.spans_backend
        assert backend is not None
        whole = {name: np.concatenate([chunk[name] for chunk in chunks]).astype(np.int64) for name in chunks[0]}
        kept = usable(whole["start_ns"], whole["end_ns"])
        whole = {name: column[kept] for name, column in whole.items()}
        keys, number = np.unique(np.stack([whole[LABEL], whole["kind"]]), axis=1, return_inverse=True)
        words = [SpanKind(int(kind)).word for kind in keys[1]]
        texts = [f"{backend.strings[k] if k >= 0 else w}/{w}" for k, w in zip(keys[0].tolist(), words, strict=True)]
        flat = np.isin(whole["kind"], ON_DEVICE)
        add(whole["start_ns"][flat], whole["end_ns"][flat], number.reshape(-1)[flat], texts)
        calls = np.flatnonzero(~flat)
        order = calls[np.argsort(whole["span"][calls], kind="stable")]
        pieces = innermost(whole["start_ns"][order], whole["end_ns"][order], whole["profile"][order])
        add(pieces.start, pieces.end, number.reshape(-1)[order][pieces.index], texts)
    tree = experiment.contexts
    for _, line in Plan(experiment).lines():
        end = np.append(line.time_ns[1:], line.time_ns[-1] if line.until_ns is None else line.until_ns)
        busy = (line.context >= 0) & ~np.append(tree.idle, True)[line.context]
        frame = Frames(tree).cut(line.context[busy]).astype(np.int64)
        used, number = np.unique(frame, return_inverse=True)
        texts = [f"{tree.name(k)}/{ContextKind(int(tree.kind[k])).word}" for k in used.tolist()]
        add(line.time_ns[busy], end[busy], number, texts)
    return [dict(out) for out in sums]


def windows_of(index: TimelineIndex, seed: int, n: int = 4) -> list[tuple[int, int]]:
    rng = np.random.default_rng(seed)
    first, last = index.window
    out = [(first, last), (first - 5, last + 5)]
    for part in (2, 5, 20, 100, 5000):
        length = max(1, (last - first) // part)
        out += [(low, low + length) for low in rng.integers(first, max(first + 1, last - length), n).tolist()]
    return out


def check(experiment: Experiment, seed: int = 0, **options: Any) -> None:
    with TimelineIndex.open(experiment, options=IndexOptions(**options), in_background=False) as index:
        windows = windows_of(index, seed)
        for window, truth in zip(windows, sweep(experiment, windows), strict=True):
            assert legend_of(index, index.legend(window)) == truth
            rough = index.legend(window, exact=False)
            assert sum(truth.values()) - int(rough.time_ns.sum()) <= rough.missing_ns
        check_cells(index, seed)


def check_cells(index: TimelineIndex, seed: int) -> None:
    """Random cells of pictures of random windows: the dominant name and both shares."""
    rng = np.random.default_rng(seed)
    for window in windows_of(index, seed, 1):
        picture = index.picture(window, int(rng.integers(1, 400)))
        for _ in range(8 if picture.name.size else 0):
            line, cell = (int(rng.integers(0, size)) for size in picture.name.shape)
            width = picture.cell_ns * int(picture.coarse[line])
            first = index.window[0]
            begin = first + (picture.start_ns + cell * picture.cell_ns - first) // width * width
            exact = legend_of(index, index.legend((begin, begin + width), np.array([line])))
            name = int(picture.name[line, cell])
            assert (name < 0) == (not exact)
            if exact:
                assert exact[named(index.names, name)] == max(exact.values())
                assert abs(int(picture.share[line, cell]) - 255 * max(exact.values()) / width) <= 0.51
                assert abs(int(picture.busy[line, cell]) - 255 * sum(exact.values()) / width) <= 0.51


@pytest.mark.parametrize(("n_tracks", "batch"), [(1, 500), (1, 1 << 16), (3, 1 << 16), (200, 300), (200, 1 << 16)])
def test_calls_on_few_and_on_many_tracks(n_tracks: int, batch: int) -> None:
    with mock.patch.object(builder, "BATCH", batch):
        check(made_calls(12_000, n_tracks, 60, n_tracks), n_tracks)


def test_a_huge_track_with_one_long_gap_and_one_long_call() -> None:
    """Cells of a call that lasts for most of the time come in parts, also where nothing starts."""
    calls = made_calls(4000, 1, 20, 5)
    assert isinstance(calls.traces.spans_backend, ArraySpans)
    columns = dict(calls.traces.spans_backend.columns)
    far = columns["start_ns"] > np.median(columns["start_ns"])
    moved = {name: np.where(far, columns[name] + 10**12, columns[name]) for name in ("start_ns", "end_ns")}
    low, high = int(moved["start_ns"].min()), int(moved["end_ns"].max())
    whole = {"start_ns": low - 3, "end_ns": high + 10**13, "name": 3, "profile": 0, "kind": int(SpanKind.REGION)}
    columns = {name: np.append(moved.get(name, column), whole[name]) for name, column in columns.items()}
    spans = replace(calls.traces.spans_backend, columns=columns)
    with mock.patch.object(builder, "BATCH", 300), mock.patch.object(builder, "CELLS_AT_ONCE", 1 << 8):
        check(replace(calls, traces=Traces(spans_backend=spans)))


def test_a_huge_device_with_lanes() -> None:
    rng = np.random.default_rng(3)
    start = np.sort(rng.integers(0, 10**6, 5000))
    spans = [
        (1, SpanKind.KERNEL, int(name), int(begin), int(begin + ns))
        for name, begin, ns in zip(rng.integers(0, 9, 5000), start, rng.integers(0, 900, 5000), strict=True)
    ]
    experiment = spanned(spans)
    with mock.patch.object(builder, "BATCH", 400):
        check(experiment)
        with TimelineIndex.open(experiment, in_background=False) as index:
            assert len(index.lines) > 2
            assert set(index.lines.kind.tolist()) == {LineKind.DEVICE}
            assert index.lines.lane.tolist() == list(range(len(index.lines)))
            rows = index.spans_in(index.window, limit=10**6)
            for line in range(len(index.lines)):
                mine = rows.line == line
                assert (rows.start_ns[mine][1:] >= rows.end_ns[mine][:-1]).all(), "spans of a lane do not overlap"
            assert sorted(rows.row.tolist()) == list(range(5000))


def test_more_names_than_16_bits() -> None:
    n = 70_000
    columns = {
        "profile": np.zeros(n, np.int64),
        "name": np.arange(n),
        "kind": np.full(n, int(SpanKind.API)),
        "start_ns": np.arange(n) * 10,
        "end_ns": np.arange(n) * 10 + 7,
    }
    traces = Traces(spans_backend=ArraySpans(columns, tuple(f"f{k}" for k in range(n))))
    experiment = replace(spanned([]), traces=traces)
    check(experiment)
    with TimelineIndex.open(experiment, in_background=False) as index:
        assert len(index.names) == n
        assert index.stack_at(0, 10 * 69_999).spans.name.tolist() == [69_999]
        assert index.search(69_999, 0) is not None


def test_times_at_the_limits_of_clocks() -> None:
    last = 2**62
    spans = [
        (0, SpanKind.REGION, 0, 0, last),
        (0, SpanKind.REGION, 1, 5, last - 1),
        (0, SpanKind.REGION, 2, last - 9, last - 3),
        (0, SpanKind.REGION, 3, 7, 2**63 - 1),
        (1, SpanKind.KERNEL, 4, -(2**63), 5),
        (1, SpanKind.KERNEL, 5, 3, last),
    ]
    with TimelineIndex.open(spanned(spans), in_background=False) as index:
        assert index.n_left_out == 2
        assert index.window == (0, last)
        assert legend_of(index, index.legend((0, last))) == {
            "a/region": 6,
            "b/region": last - 12,
            "c/region": 6,
            "MPI_Send/kernel": last - 3,
        }
        assert legend_of(index, index.legend((last - 5, last)))["c/region"] == 2
        assert index.spans_in((last - 1, last)).row.tolist() == [0, 5]
        assert index.picture((0, last), 100).n_cells > 50


def test_rows_of_several_lines() -> None:
    lines = [[(0, 1), (10, 2), (100, -1)], [(0, 2), (100, -1)], [(0, 1), (50, -1), (100, -1)]]
    with TimelineIndex.open(sampled(*lines), in_background=False) as index:
        rows = [np.array([0, 1, 2]), np.array([1]), np.empty(0, np.int64)]
        picture = index.picture((0, 100), 1, rows)
        assert picture.is_merged
        assert [named(index.names, int(picture.name[r, 0])).split("/")[0] for r in (0, 1)] == ["solve", "solve"]
        assert picture.name[2].tolist() == [-1] * picture.n_cells
        alone = index.picture((0, 100), 1)
        assert abs(int(picture.busy[0, 0]) - alone.busy[:, 0].mean()) <= 1


def test_counters_are_curves() -> None:
    counters = Counters(
        np.array([0, 0, 0, 1, 0, 0], np.int32),
        np.zeros(6, np.int32),
        np.array([5, 12, 11, 3, 39, 25], np.int64),
        np.array([1.0, 4.0, 2.0, 9.0, 7.0, np.nan]),
        ("watts",),
    )
    experiment = replace(spanned([]), traces=Traces(counters_source=counters))
    with TimelineIndex.open(experiment, in_background=False) as index:
        first, second = index.curves((10, 40), 3)
        assert (first.profile, first.name, first.before, first.n.tolist()) == (0, "watts", 1.0, [2, 0, 1])
        assert (first.minimum[0], first.maximum[0], first.mean[0], first.mean[2]) == (2, 4, 3, 7)
        assert np.isnan(first.mean[1])
        assert (first.last[0], first.last[2]) == (4, 7)
        assert (second.profile, second.before, second.n.tolist()) == (1, 9.0, [0, 0, 0])


CORPUS_TRACES = sorted(path for path in (CORPUS / "hpctoolkit").glob("*/*") if (path / "trace.db").exists())


@pytest.mark.parametrize("path", CORPUS_TRACES, ids=lambda path: str(path.relative_to(CORPUS)))
def test_real_traces(path: Path) -> None:
    check_real(path)


def check_real(path: Path) -> None:
    experiment = open_path(path)
    assert isinstance(experiment, Experiment)
    with mock.patch.object(builder, "BATCH", 1 << 9):
        check(experiment)


SHARED_TRACES = (
    "own/rocpd/same_pid/rank00001_results.db",
    "public/extrap/nsight/concurrent_example/concurrent.s4/profile4.sqlite",
    "public/hpctoolkit/dbase/loops-cuda-nvidia-t.d",
    "public/pipit/ping-pong-hpctoolkit",
)


@each_of_shared("name", SHARED_TRACES)
def test_shared_traces(shared: Path, name: str) -> None:
    check_real(shared / "data" / name)


def test_the_layout_is_what_is_documented() -> None:
    """Every column is named where the files are described."""
    text = layout.__doc__ or ""
    assert all(name in text for name in layout.COLUMNS), "say in the module what this column is"
