"""Small experiments with samples or spans, and what a timeline of them must say, nanosecond by nanosecond."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind, Relation
from callgrove.model.experiment import Experiment
from callgrove.model.profiles import DEFAULT_ID_NAMES, ProfileKind
from callgrove.model.table import Table
from callgrove.model.traces.events import ArraySamples, ArraySpans, Samples, SpanKind, Traces, Window

__all__ = [
    "CONTEXTS",
    "NAMES",
    "THREAD",
    "Span",
    "cells",
    "count_spans",
    "sampled",
    "spanned",
    "watch_samples",
    "watch_spans",
]

RANK, THREAD = DEFAULT_ID_NAMES.index("RANK"), DEFAULT_ID_NAMES.index("THREAD")
# (parent, kind, name): the number of a context is its place, which is in preorder.
CONTEXTS = [
    (-1, ContextKind.ENTRY, "main thread"),
    (0, ContextKind.FUNCTION, "main"),
    (1, ContextKind.FUNCTION, "solve"),
    (2, ContextKind.LOOP, ""),
    (3, ContextKind.FUNCTION, "kernel"),
    (4, ContextKind.LINE, ""),
    (2, ContextKind.FUNCTION, "MPI_Allreduce"),
    (6, ContextKind.FUNCTION, "pthread_mutex_lock"),
    (1, ContextKind.FUNCTION, "MPI_Barrier"),
    (-1, ContextKind.PLACEHOLDER, "<no activity>"),
]
FUNCTION = {0: 0, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 6, 7: 7, 8: 8}  # of contexts; 9 is idle
NAMES = ("a", "b", "c", "step 1", "step 2", "MPI_Send", "hipMemcpy", "ncclDevKernel", "hipStreamSynchronize")
Span = tuple[int, SpanKind, int, int, int]  # profile, kind, name, start, end


def _builder(kinds: Sequence[ProfileKind]) -> ExperimentBuilder:
    builder = ExperimentBuilder("made", title="made", path="made")
    file = builder.file("a.c")
    for parent, kind, name in CONTEXTS:
        nested = kind in (ContextKind.LOOP, ContextKind.LINE)
        region = builder.region(kind, name, file=file if nested else -1, line=3 if nested else -1)
        builder.add_context(parent, kind, region, Relation.LEXICAL if nested else Relation.CALL)
    for number, what in enumerate(kinds):
        builder.add_profile(what, [(RANK, number // 2, number // 2, 3), (THREAD, number % 2, number % 2, 3)])
    return builder


def sampled(*lines: Sequence[tuple[int, int]]) -> Experiment:
    """One profile for each list of (time, context), in any order, as a damaged file may have them."""
    builder = _builder([ProfileKind.THREAD] * len(lines))
    made = []
    for line in lines:
        time, context = np.array(line, np.int64).reshape(-1, 2).T
        made.append(Samples(time, context.astype(np.int32)))
    owners = np.arange(len(lines), dtype=np.int32)
    samples = ArraySamples(owners, np.full(len(lines), -1, np.int32), tuple(made))
    return replace(builder.build(), traces=Traces(samples))


def spanned(
    spans: Sequence[Span], kinds: Sequence[ProfileKind] = (ProfileKind.THREAD, ProfileKind.GPU_STREAM)
) -> Experiment:
    """Spans on a thread and on a stream."""
    builder = _builder(kinds)
    rows = np.array([(p, int(kind), name, start, end) for p, kind, name, start, end in spans], np.int64).reshape(-1, 5)
    columns = dict(zip(("profile", "kind", "name", "start_ns", "end_ns"), rows.T, strict=True))
    for name in ("category", "depth", "correlation", "context"):
        columns[name] = np.full(len(rows), -1)
    builder.set_traces(None, ArraySpans(columns, NAMES, chunk_rows=3))
    return builder.build()


def cells(table: Table, *columns: str) -> dict[Any, int]:
    """Times of a table by some of its columns, as far as there are any."""
    found: dict[Any, int] = {}
    for row in table:
        key = tuple(row[name] for name in columns) if len(columns) > 1 else row[columns[0]]
        assert key not in found
        if row["time_ns"]:
            found[key] = row["time_ns"]
    return found


def watch_samples(lines: Sequence[Sequence[tuple[int, int]]], window: Window) -> Counter[tuple[int, str]]:
    """Profile and name at each nanosecond of a window."""
    found: Counter[tuple[int, str]] = Counter()
    for profile, line in enumerate(lines):
        ordered = sorted(line, key=lambda sample: sample[0])  # equal times stay in order
        for now in range(*window):
            before = [context for time, context in ordered if time <= now]
            if not ordered:
                continue
            if not before or now >= ordered[-1][0]:
                found[profile, "(no trace)"] += 1
            else:
                context = before[-1]
                found[profile, CONTEXTS[FUNCTION[context]][2] if context in FUNCTION else "idle"] += 1
    return found


def _usable(spans: Sequence[Span]) -> dict[int, list[Span]]:
    by_profile: dict[int, list[Span]] = defaultdict(list)
    for span in spans:
        if 0 <= span[3] <= span[4]:
            by_profile[span[0]].append(span)
    return by_profile


def watch_spans(spans: Sequence[Span], window: Window, exclusive: bool) -> Counter[tuple[int, str]]:
    """Profile and name at each nanosecond of a window: of the innermost span, or of all that are open."""
    found: Counter[tuple[int, str]] = Counter()
    for profile, some in _usable(spans).items():
        first, last = min(span[3] for span in some), max(span[4] for span in some)
        for now in range(*window):
            opened = [(start, -end, k, name) for k, (_, _, name, start, end) in enumerate(some) if start <= now < end]
            shown = [max(opened)] if exclusive and opened else opened
            for name in {NAMES[one[3]] for one in shown}:
                found[profile, name] += 1
            if not opened:
                outside = "(between spans)" if first <= now < last else "(no trace)"
                found[profile, outside if profile == 0 else "idle"] += 1
    return found


def count_spans(spans: Sequence[Span], window: Window, last: int) -> Counter[tuple[int, str]]:
    """How many spans of each name begin in a window; the last moment of all belongs to it."""
    inside = range(window[0], window[1] + (window[1] == last))
    return Counter((p, NAMES[span[2]]) for p, some in _usable(spans).items() for span in some if span[3] in inside)
