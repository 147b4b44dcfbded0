"""What a timeline must say, moment by moment, with nothing of the index: slow, plain, and for small inputs."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from callgrove.analysis.timeline_index.answers import Legend, LineKind, NameTable
from callgrove.analysis.timeline_index.index import TimelineIndex
from callgrove.model.experiment import Experiment
from callgrove.model.traces.events import SpanKind

__all__ = ["Moments", "Piece", "legend_of", "moments_of", "named"]

Piece = tuple[int, int, str]  # start, end, name
ON_DEVICE = (SpanKind.KERNEL, SpanKind.COPY, SpanKind.MEMSET)
FUNCTION = {0: "main thread", 1: "main", 2: "solve", 3: "solve", 4: "kernel", 5: "kernel", 6: "MPI_Allreduce"} | {
    7: "pthread_mutex_lock",
    8: "MPI_Barrier",
}


@dataclass
class Moments:
    """Pieces of time by track, which is (profile, kind of line). Of devices they may overlap."""

    pieces: dict[tuple[int, LineKind], list[Piece]]

    def sums(self, window: tuple[int, int], tracks: Sequence[tuple[int, LineKind]] | None = None) -> dict[str, int]:
        """Return the time of each name in a window."""
        out: Counter[str] = Counter()
        for track, pieces in self.pieces.items():
            if tracks is None or track in tracks:
                for start, end, name in pieces:
                    if (ns := min(end, window[1]) - max(start, window[0])) > 0:
                        out[name] += ns
        return dict(out)


def innermost(spans: Sequence[tuple[int, int, str]]) -> list[Piece]:
    """Return to whom each moment belongs: of what is open, to what started last; spans are by start, -end and row."""
    edges = sorted({edge for start, end, _ in spans for edge in (start, end)})
    out = []
    for low, high in itertools.pairwise(edges):
        inside = [
            (start, place, name) for place, (start, end, name) in enumerate(spans) if start <= low and end >= high
        ]
        if inside:
            out.append((low, high, max(inside)[2]))
    return out


def moments_of(experiment: Experiment, depth: int | None = None) -> Moments:
    """Return what went on, from the columns of an experiment whose arrays are in memory."""
    pieces: dict[tuple[int, LineKind], list[Piece]] = {}
    spans: dict[tuple[int, LineKind], list[tuple[int, int, int, str]]] = {}
    backend = experiment.traces.spans_backend
    for chunk in experiment.traces.spans(("profile", "kind", "name", "start_ns", "end_ns")):
        assert backend is not None
        for profile, kind, name, start, end, row in zip(
            *(chunk[c].tolist() for c in ("profile", "kind", "name", "start_ns", "end_ns", "span")), strict=True
        ):
            if 0 <= start <= end <= 2**62:
                line = LineKind.DEVICE if kind in ON_DEVICE else LineKind.CALLS
                line = LineKind.PROFILER if kind == SpanKind.OVERHEAD else line
                text = f"{backend.strings[name]}/{SpanKind(kind).word}"
                spans.setdefault((profile, line), []).append((start, -end, row, text))
    for track, rows in spans.items():
        ordered = [(start, -end, text) for start, end, _, text in sorted(rows)]
        if track[1] == LineKind.CALLS:
            kept = ordered if depth is None else [one for k, one in enumerate(ordered) if _depth(ordered, k) < depth]
            pieces[track] = innermost(kept)
        else:
            pieces[track] = ordered
    for profile, metric, samples in experiment.traces.lines():
        if metric < 0 and len(samples):
            times, contexts = samples.time_ns.tolist(), samples.context.tolist()
            order = sorted(range(len(times)), key=times.__getitem__)
            steps = [(times[a], times[b], contexts[a]) for a, b in itertools.pairwise(order)]
            pieces[profile, LineKind.SAMPLES] = [
                (a, b, f"{FUNCTION[c]}/{'entry' if c == 0 else 'function'}") for a, b, c in steps if c in FUNCTION
            ]
    return Moments(pieces)


def _depth(spans: Sequence[tuple[int, int, str]], place: int) -> int:
    """Return how many spans are open where one starts, that come before it and were not outlasted until then."""
    stack: list[int] = []
    for start, end, _ in spans[:place]:
        stack = [stop for stop in stack if stop > start]
        if end > start:
            while stack and stack[-1] < end:
                stack.pop()
            stack.append(end)
    begin = spans[place][0]
    return len([stop for stop in stack if stop > begin and stop >= spans[place][1]])


def named(names: NameTable, number: int) -> str:
    """Return a name as the brute force has it."""
    return f"{names.text[number]}/{names.kind[number]}"


def legend_of(index: TimelineIndex, legend: Legend) -> dict[str, int]:
    """Return a legend by text."""
    names = index.names
    assert len(set(legend.name.tolist())) == len(legend.name)
    assert (np.diff(legend.time_ns) <= 0).all()
    return {named(names, n): ns for n, ns in zip(legend.name.tolist(), legend.time_ns.tolist(), strict=True)}
