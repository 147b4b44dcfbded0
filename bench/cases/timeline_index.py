"""Timeline indexes: what building costs, how large they are, and how long a picture and a legend of any window take.

Spans are made chunk by chunk, 20 levels deep, of 400 names, in the order of their ends, so that a file of them need not
be there. Building runs in a process of its own, whose peak of memory is measured. Its time is compared with sorting the
same times twice with NumPy in this process, since this machine is shared; and so are the answers, with adding up as
many numbers as the picture has cells. Legends are compared with sums over all spans before they are timed.

    python -m bench "timeline index" --scale 10                   10^8 spans instead of 10^7: 4 GB of disk
    python -m bench.cases.timeline_index SPANS TRACKS FOLDER      builds one, and prints what it took, as JSON
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from shutil import rmtree

import numpy as np

from bench.conditions import ROOT, Conditions
from bench.memory import STATUS
from bench.results import Finding
from callgrove.analysis.timeline_index.answers import IndexOptions
from callgrove.analysis.timeline_index.builder import build
from callgrove.analysis.timeline_index.cache import IndexCache
from callgrove.analysis.timeline_index.index import TimelineIndex
from callgrove.arrays import Array, Ints
from callgrove.examples import example
from callgrove.model.experiment import Experiment
from callgrove.model.traces.events import SideTable, SpanChunk, SpanKind, Traces, Window

__all__ = ["Built", "MadeSpans", "build_apart", "made", "measure", "run"]

N_SPANS, N_TRACKS = 10_000_000, 1_000
N_NAMES, DEEPEST, MEAN_NS = 400, 20, 800
ROCPD_BYTES = 157  # of an event in a rocpd database, its event table included
WINDOWS = (1, 4, 16, 256)
COLUMNS = 1600


class MadeSpans:
    """Nested spans of tracks that all have the same shape, each with its own names, as a backend that reads a file."""

    def __init__(self, n_spans: int, n_tracks: int, seed: int = 0) -> None:
        self._n_tracks, self._seed = n_tracks, seed
        self._of_track = n_spans // n_tracks
        self.strings = tuple(f"function {k}" for k in range(N_NAMES))

    def count(self) -> int:
        return self._of_track * self._n_tracks

    def parts(self) -> Sequence[Ints]:
        return [np.arange(self._n_tracks)]

    def side(self, name: str, part: int | None = None) -> SideTable | None:
        return None

    def chunks(self, columns: Sequence[str], window: Window | None, profiles: Ints | None) -> Iterator[SpanChunk]:
        """Yield all spans, block of time after block of time: in each the spans of all tracks that end there."""
        n, row, now = max(1, min(1 << 18, self.count()) // self._n_tracks), 0, 10**18
        for first in range(0, self._of_track, n):
            start, end = _nested(min(n, self._of_track - first), self._seed + first)
            rng = np.random.default_rng(first)
            size = len(start) * self._n_tracks
            whole: dict[str, Array] = {
                "span": np.arange(row, row + size),
                "profile": np.tile(np.arange(self._n_tracks, dtype=np.int32), len(start)),
                "start_ns": np.repeat(start + now, self._n_tracks),
                "end_ns": np.repeat(end + now, self._n_tracks),
                "name": (rng.pareto(1.1, size) * 11).astype(np.int64) % N_NAMES,
                "kind": np.full(size, int(SpanKind.REGION), np.int8),
            }
            whole["label"] = whole["name"]
            yield {name: whole[name] for name in ("span", *columns)}
            row, now = row + size, now + int(end.max()) + MEAN_NS


def _nested(n: int, seed: int) -> tuple[Ints, Ints]:
    """Return starts and ends of nested spans, by end: a walk up and down between the outside and the deepest level."""
    rng = np.random.default_rng(seed)
    walk = np.cumsum(np.where(rng.random(4 * n) < 0.5, 1, -1)) % (2 * DEEPEST)
    level = np.append(0, np.minimum(walk, 2 * DEEPEST - walk))
    step = np.diff(level)
    last = int(np.flatnonzero(np.cumsum(step > 0) <= n)[-1]) + 1
    step = np.append(step[:last], np.full(int(level[last]), -1))
    after = np.cumsum(step)
    clock = np.cumsum(rng.integers(1, 2 * MEAN_NS, len(step)))
    event = np.arange(len(step))
    order = np.lexsort((event, np.where(step > 0, after, after + 1)))
    begins, ends = event[order][0::2], event[order][1::2]
    by_end = np.argsort(ends)
    return clock[begins[by_end]], clock[ends[by_end]]


def made(n_spans: int, n_tracks: int) -> Experiment:
    """Return an experiment of made-up spans."""
    return replace(example(), traces=Traces(spans_backend=MadeSpans(n_spans, n_tracks)))


@dataclass(frozen=True)
class Built:
    """What building took: seconds of the processor without making the spans, the peak of memory, and bytes on disk of
    the index and of its items, with and without the numbers of rows."""

    n_spans: int
    seconds: float
    sorting: float
    peak: int
    index_bytes: int
    item_bytes: int
    row_bytes: int


def measure(n_spans: int, n_tracks: int, folder: Path) -> Built:
    """Build an index in this process."""
    experiment = made(n_spans, n_tracks)
    began = time.process_time()
    n_made = sum(
        len(chunk["span"]) for chunk in experiment.traces.spans(("profile", "kind", "label", "start_ns", "end_ns"))
    )
    making = time.process_time() - began
    sorting = _sorting_seconds()
    began = time.process_time()
    build(experiment, IndexOptions(), folder, folder.name)
    seconds = time.process_time() - began - making
    peak = re.search(r"VmHWM:\s*(\d+) kB", STATUS.read_text()) if STATUS.is_file() else None
    sizes = {file.name: file.stat().st_size for file in folder.iterdir()}
    items = sum(size for name, size in sizes.items() if name.startswith(("item_", "block_", "stack_", "long_")))
    rows = sizes["item_row"]
    index = sum(sizes.values()) - items
    return Built(n_made, seconds, sorting, int(peak[1]) * 1024 if peak else 0, index, items - rows, rows)


def _sorting_seconds(n: int = 1 << 20) -> float:
    """Return the least processor time of sorting so many numbers twice, per million: the measure of this machine."""
    numbers = np.random.default_rng(0).integers(0, 2**62, n)
    return _least(lambda: (np.argsort(numbers, kind="stable"), np.argsort(-numbers, kind="stable"))) / n * 1e6


def _least(work: Callable[[], object], n_repeats: int = 5) -> float:
    best = float("inf")
    for _ in range(n_repeats):
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return best


def run(conditions: Conditions) -> Iterator[Finding]:
    """One huge track, then many; pictures and legends of the latter."""
    n_spans = max(2_000, round(N_SPANS * float(conditions.largest)))
    n_tracks = max(2, round(N_TRACKS * min(1.0, float(conditions.largest) * 4)))
    for tracks in (1, n_tracks):
        cache = IndexCache(conditions.folder / "timeline-index")
        folder = cache.folder / f"made-{tracks}"
        rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        yield from _building(build_apart(n_spans, tracks, folder), tracks)
        if tracks > 1:
            yield from _answers(folder, n_spans, tracks)
        rmtree(folder)


def build_apart(n_spans: int, n_tracks: int, folder: Path) -> Built:
    """Build an index in a process of its own; return what that took."""
    command = [sys.executable, "-m", "bench.cases.timeline_index", str(n_spans), str(n_tracks), str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return Built(**json.loads(done.stdout))


def _building(built: Built, tracks: int) -> Iterator[Finding]:
    where = f"{tracks:,} tracks" if tracks > 1 else "one track"
    per_million = built.seconds / built.n_spans * 1e6
    note = f"{built.n_spans:,} spans, {per_million:.2f} s of the processor for a million; sorting {built.sorting:.2f} s"
    what = f"building, {where} / sorting as many numbers twice"
    yield Finding("timeline index", what, per_million / built.sorting, at_most=10, note=note)
    peak = built.peak / 1e6 if built.peak else float("nan")
    yield Finding("timeline index", f"peak memory of building, {where}", peak, "MB", at_most=500, note=note)
    for what, n_bytes, limit in (
        ("index", built.index_bytes, 3.0),
        ("index and items", built.index_bytes + built.item_bytes, 11.0),
        ("index, items and row numbers", built.index_bytes + built.item_bytes + built.row_bytes, 14.0),
    ):
        share = 100 * n_bytes / built.n_spans / ROCPD_BYTES
        text = f"{n_bytes / built.n_spans:.2f} bytes a span; a rocpd database has {ROCPD_BYTES}"
        yield Finding("timeline index", f"{what}, {where}, of a rocpd database", share, "%", at_most=limit, note=text)


def _answers(folder: Path, n_spans: int, n_tracks: int) -> Iterator[Finding]:
    """Pictures and legends of random windows, against adding up as many numbers as a picture has cells."""
    experiment = made(n_spans, n_tracks)
    index = TimelineIndex.of_folder(experiment, folder)
    _compare_sums(index, experiment)
    rng = np.random.default_rng(0)
    first, last = index.window
    numbers = np.arange(2 * COLUMNS * n_tracks, dtype=np.int64)
    adding = _least(lambda: np.add.accumulate(numbers))
    for part in WINDOWS:
        length = (last - first) // part
        windows = [(low, low + length) for low in rng.integers(first, last - length + 1, 5).tolist()]
        seconds = _median(partial(index.picture, columns=COLUMNS), windows)
        note = f"{1e3 * seconds:.1f} ms of the processor, {n_tracks:,} tracks"
        what = f"picture of {COLUMNS:,} columns, 1/{part} of the time / adding up as many cells"
        yield Finding("timeline index", what, seconds / adding, at_most=12, note=note)
        for some in sorted({min(n_tracks, n) for n in (64, 250, 1000)}):
            lines = np.arange(some)
            exact = _median(partial(index.legend, lines=lines), windows)
            rough = _median(partial(index.legend, lines=lines, exact=False), windows)
            what = f"exact legend of {some:,} tracks, 1/{part} of the time / adding up as many cells"
            note = f"{1e3 * exact:.1f} ms of the processor, with an error bound {1e3 * rough:.1f} ms"
            yield Finding("timeline index", what, exact / adding, note=note)
    index.close()


def _median(ask: Callable[[Window], object], windows: Sequence[Window]) -> float:
    ask(windows[0])  # what is touched first is checked, and read from disk
    seconds = []
    for window in windows:
        began = time.process_time()
        ask(window)
        seconds.append(time.process_time() - began)
    return float(np.median(seconds))


def _compare_sums(index: TimelineIndex, experiment: Experiment) -> None:
    """Compare the time of all names together with the time in which outermost spans were open."""
    total = index.legend(index.window)
    busy = int(total.time_ns.sum())
    opened = 0
    reached = 0
    for chunk in experiment.traces.spans(("profile", "start_ns", "end_ns")):
        alone = chunk["profile"] == 0
        start, end = chunk["start_ns"][alone], chunk["end_ns"][alone]
        order = np.argsort(start, kind="stable")
        start, end = start[order], np.maximum.accumulate(end[order])
        before = np.maximum(np.append(reached, end[:-1]), reached)
        opened += int(np.maximum(end - np.maximum(start, before), 0).sum())
        reached = max(reached, int(end[-1]))
    n_tracks = int(index.lines.profile.max()) + 1
    if busy != opened * n_tracks:
        raise AssertionError(f"the legend has {busy} ns, the spans {opened * n_tracks}")


def main(n_spans: str, n_tracks: str, folder: str) -> None:
    """The measured process."""
    print(json.dumps(asdict(measure(int(n_spans), int(n_tracks), Path(folder)))))


if __name__ == "__main__":
    main(*sys.argv[1:])
