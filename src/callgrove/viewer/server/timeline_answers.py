"""Requests about timelines: the time of each name in any window, what was open when, how long spans were.

Times in requests and answers are ns since the timeline begins; `origin` is when that is by the clock of the traces. A
page knows rows by their numbers among the lines that were there when it asked (`lines`): others come in between while
an index is built. Sums are texts, since they may have more digits than the numbers of a page hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from callgrove.analysis.timeline_index.answers import Curve, LineKind, NameTable, SpanRows
from callgrove.analysis.timeline_index.index import TimelineIndex
from callgrove.arrays import ABSENT, Array, Ints
from callgrove.errors import UsageError
from callgrove.explore.searching import make_test
from callgrove.model.experiment import Experiment
from callgrove.model.traces.events import Window
from callgrove.viewer.page import Texts
from callgrove.viewer.server.looks import Look, Looks, select_part
from callgrove.viewer.server.parameters import Parameters
from callgrove.viewer.server.timelines import OpenTimeline, TimelineRows
from callgrove.viewer.timeline.events import rows_of

__all__ = [
    "ROWS",
    "WINDOW",
    "answer_curves",
    "answer_durations",
    "answer_find",
    "answer_legend",
    "answer_stack",
    "name_document",
    "numbers_of_spans",
    "open_timeline",
    "read_rows",
    "read_window",
    "timeline_document",
    "times_of",
]

Document = dict[str, Any]

WINDOW = ("depth", "from", "to")
ROWS = (*WINDOW, "lines", "top", "bottom")
LATEST = 2**62
MOST_COLUMNS = 8_192
DEEPEST = 64
MEASURED_SPANS = 2_000_000  # of which durations are added up
MOST_NAMES = 1_000
SHOWN_NAMES = 400
MOST_CURVES = 12


# -- what is asked -----------------------------------------------------------------------------------------------------


def open_timeline(looks: Looks, look: Look, parameters: Parameters) -> OpenTimeline:
    """Return the timeline that a request is about."""
    depth = parameters.integer("depth", 0, DEEPEST, 0)
    assert looks.timelines is not None
    return looks.timelines.get(depth or None, look.filter, lambda experiment: select_part(experiment, look.filter))


def read_window(index: TimelineIndex, parameters: Parameters) -> Window:
    """Return the window of a request by the clock of the traces; all of the time where none is given."""
    first, last = index.window
    begin = parameters.integer("from", 0, LATEST, 0)
    end = parameters.integer("to", 0, LATEST, last - first)
    if end <= begin:
        raise UsageError("the window ends before it begins")
    return first + begin, first + end


def read_rows(timeline: OpenTimeline, parameters: Parameters) -> tuple[TimelineRows, int, int]:
    """Return all rows that a page knows, and the range of those that it asks about."""
    rows = timeline.rows(parameters.integer("lines", 0, LATEST, LATEST))
    top = min(parameters.integer("top", 0, LATEST, 0), len(rows))
    bottom = min(parameters.integer("bottom", 0, LATEST, LATEST), len(rows))
    return rows, top, max(top, bottom)


def timeline_document(looks: Looks, look: Look) -> Document:
    """Return what the pane of the timeline begins with."""
    traces, tree = looks.experiment(look).traces, looks.experiment(look).contexts
    deepest = int(tree.depth.max(initial=0)) + 1 if len(tree) else 16
    counters = traces.counters
    return {
        "deepest": min(max(deepest, 2), 32),
        "n_events": traces.n_spans + traces.n_samples,
        "has_counters": counters is not None and len(counters) > 0,
        "has_spans": traces.n_spans > 0,
        "has_tree": len(tree) > 0,
    }


def times_of(index: TimelineIndex, times: Ints) -> Array:
    """Return times since the timeline begins."""
    return np.asarray(times - index.window[0], np.float64)


def name_document(every: NameTable, numbers: Array) -> Document:
    """Return names by their numbers."""
    chosen = numbers.tolist()
    return {
        "number": numbers,
        "text": Texts([every.text[number] for number in chosen]),
        "kind": Texts([every.kind[number] for number in chosen]),
    }


def numbers_of_spans(index: TimelineIndex, spans: SpanRows) -> Ints:
    """Return the numbers of spans in the experiment; -1 for samples."""
    is_sample = index.lines.kind[spans.line] == LineKind.SAMPLES
    numbers: Ints = np.where(is_sample, ABSENT, spans.row)
    return numbers


# -- sums --------------------------------------------------------------------------------------------------------------


def answer_legend(looks: Looks, look: Look, parameters: Parameters) -> Document:
    """Return the time of each name in a window of some rows, the largest first; and of each kind of names."""
    timeline = open_timeline(looks, look, parameters)
    index = timeline.index
    rows, top, bottom = read_rows(timeline, parameters)
    window = read_window(index, parameters)
    lines = rows.lines(top, bottom)
    legend = index.legend(window, lines, exact=bool(parameters.integer("exact", 0, 1, 1)))
    most = parameters.integer("most", 1, MOST_NAMES, SHOWN_NAMES)
    kinds: dict[str, int] = {}
    for number, ns in zip(legend.name.tolist(), legend.time_ns.tolist(), strict=True):
        kinds[index.names.kind[number]] = kinds.get(index.names.kind[number], 0) + ns
    is_profiler = index.lines.kind[lines] == LineKind.PROFILER
    length = min(window[1], index.window[1]) - max(window[0], index.window[0])
    return {
        "n": len(legend.name),
        "names": name_document(index.names, legend.name[:most]),
        "time_ns": Texts([str(ns) for ns in legend.time_ns[:most].tolist()]),
        "kinds": Texts(list(kinds)),
        "kinds_ns": Texts([str(ns) for ns in kinds.values()]),
        "total_ns": str(int(legend.time_ns.sum())),
        "missing_ns": str(legend.missing_ns),
        "window_ns": str(max(0, length) * (int(np.count_nonzero(~is_profiler)) or len(lines))),
        "n_rows": bottom - top,
    }


def answer_durations(looks: Looks, look: Look, parameters: Parameters) -> Document:
    """Return, of the spans that begin in a window, how long those of each name were."""
    timeline = open_timeline(looks, look, parameters)
    index = timeline.index
    rows, top, bottom = read_rows(timeline, parameters)
    window = read_window(index, parameters)
    lines = rows.lines(top, bottom)
    lines = np.sort(lines[index.lines.kind[lines] != LineKind.SAMPLES])
    if (n := index.most_in(window, lines)) > MEASURED_SPANS:
        raise UsageError(f"about {n:,} spans are in this range, too many to list how long each was; choose less of it")
    spans = index.spans_in(window, lines, MEASURED_SPANS)
    kept = np.flatnonzero((spans.start_ns >= window[0]) & (spans.name >= 0))
    name, length = spans.name[kept], (spans.end_ns - spans.start_ns)[kept]
    order = np.lexsort((length, name))
    name, length = name[order], length[order]
    first = np.flatnonzero(np.append(True, name[1:] != name[:-1])[: len(name)])
    count = np.diff(np.append(first, len(name)))
    total = np.add.reduceat(length, first) if len(first) else first
    by_time = np.argsort(-total, kind="stable")[:MOST_NAMES]
    first, count, total = first[by_time], count[by_time], total[by_time]
    low, high = first + (count - 1) // 2, first + count // 2
    return {
        "n": len(kept),
        "n_names": len(by_time),
        "names": name_document(index.names, name[first]),
        "count": count,
        "total_ns": Texts([str(ns) for ns in total.tolist()]),
        "min_ns": length[first].astype(np.float64),
        "median_ns": (length[low] + length[high]) / 2,
        "max_ns": length[first + count - 1].astype(np.float64),
        "histogram": np.concatenate([_histogram(length[a : a + n]) for a, n in zip(first, count, strict=True)])
        if len(first)
        else np.empty(0, np.int64),
    }


def _histogram(lengths: Ints) -> Ints:
    """Return how many lengths have each number of binary digits, from 0 to 63."""
    digits = np.frexp(lengths.astype(np.float64))[1]
    return np.bincount(np.clip(digits, 0, 63), minlength=64)


def answer_curves(looks: Looks, look: Look, parameters: Parameters) -> Document:
    """Return counters in columns of a window: those of the profiles of some rows and of what has no row, the first few
    of them."""
    timeline = open_timeline(looks, look, parameters)
    index = timeline.index
    rows, top, bottom = read_rows(timeline, parameters)
    window = read_window(index, parameters)
    width = parameters.integer("width", 1, MOST_COLUMNS, 600)
    assert looks.timelines is not None
    with looks.timelines.lock:
        counters = timeline.experiment.traces.counters
        rowless = np.setdiff1d(counters.profile, rows.profile) if counters is not None else np.empty(0, np.int64)
        curves = index.curves(window, width, np.union1d(rows.profile[top:bottom], rowless))
    shown = curves[:MOST_CURVES]
    return {
        "start_ns": window[0] - index.window[0],
        "end_ns": window[1] - index.window[0],
        "n": len(curves),
        "curves": [
            {
                "name": curve.name,
                "where": where,
                "minimum": curve.minimum,
                "maximum": curve.maximum,
                "mean": curve.mean,
                "last": curve.last,
                "before": curve.before,
            }
            for curve, where in zip(shown, _places_of(timeline.experiment, shown), strict=True)
        ],
    }


def _places_of(experiment: Experiment, curves: Sequence[Curve]) -> list[str]:
    """Return what the profiles of curves are called, whether they have rows or none."""
    none = np.empty(0, np.int64)
    rows = rows_of(experiment, none, np.unique(np.array([curve.profile for curve in curves], np.int64)), none)
    numbers = [int(rows.of_spans[curve.profile]) for curve in curves]
    return [f"{rows.group[number]} {rows.name[number]}".strip() for number in numbers]


# -- one moment, and the next of a name --------------------------------------------------------------------------------


def answer_stack(looks: Looks, look: Look, parameters: Parameters) -> Document:
    """Return what was open on a row at a time, from the outside in, and which context of the call tree that is."""
    timeline = open_timeline(looks, look, parameters)
    index = timeline.index
    rows, _, _ = read_rows(timeline, parameters)
    row = parameters.integer("row", 0, max(0, len(rows) - 1))
    time = index.window[0] + parameters.integer("time", 0, LATEST)
    if not len(rows) or rows.line[row] < 0:
        raise UsageError("this row is still being indexed; what was open then is known in a moment")
    assert looks.timelines is not None
    with looks.timelines.lock:
        stack = index.stack_at(int(rows.line[row]), time)
    spans, names = stack.spans, index.names
    texts = [names.text[number] if number >= 0 else "idle" for number in spans.name.tolist()]
    kinds = [names.kind[number] if number >= 0 else "" for number in spans.name.tolist()]
    tree = timeline.experiment.contexts
    context = stack.context if stack.context >= 0 else find_context(timeline.experiment, texts)
    path = tree.ancestors(context)[::-1] if context >= 0 else []
    if stack.context >= 0:
        n = len(path)
        texts, kinds = [tree.label(one) for one in path], ["call"] * n
        start, end = (np.repeat(times, n) for times in (spans.start_ns, spans.end_ns))
        number = np.full(n, ABSENT)
    else:
        start, end, number = spans.start_ns, spans.end_ns, numbers_of_spans(index, spans)
    return {
        "where": f"{rows.group[row]} {rows.name[row]}".strip(),
        "profile": int(rows.profile[row]),
        "text": Texts(texts),
        "kind": Texts(kinds),
        "start": times_of(index, start),
        "end": times_of(index, end),
        "span": number,
        "path": [str(one) for one in path],
    }


def find_context(experiment: Experiment, names: Sequence[str]) -> int:
    """Return the context whose call path has these names, the outermost first; -1 where there is none."""
    tree, at = experiment.contexts, ABSENT
    for depth, name in enumerate(names):
        below = tree.children(at) if depth else tree.roots.tolist()
        at = next((one for one in below if tree.name(one) == name), ABSENT)
        if at < 0:
            break
    return at


def answer_find(looks: Looks, look: Look, parameters: Parameters) -> Document:
    """Return how much time in a window names with a text have, and where the next of them is."""
    timeline = open_timeline(looks, look, parameters)
    index = timeline.index
    rows, _, _ = read_rows(timeline, parameters)
    text = parameters.text("text").strip()
    fits = make_test(text)
    hits = np.array([number for number, name in enumerate(index.names.text) if fits(name)], np.int64)
    legend = index.legend(read_window(index, parameters), rows.lines())
    ns = int(legend.time_ns[np.isin(legend.name, hits)].sum())
    time = index.window[0] + parameters.integer("time", 0, LATEST, 0)
    forward = bool(parameters.integer("forward", 0, 1, 1))
    sought = _present(legend.name, hits)
    places = [index.search(number, time, rows.lines(), forward=forward) for number in sought]
    starts = [place for place in places if place is not None]
    best = min(starts, key=lambda one: one.start_ns if forward else -one.start_ns, default=None)
    return {
        "n_names": len(hits),
        "n_sought": len(sought),  # of which the next is looked for
        "time_ns": str(ns),
        "total_ns": str(int(legend.time_ns.sum())),
        "next": None
        if best is None
        else {
            "row": rows.find(best.line),
            "start": best.start_ns - index.window[0],
            "end": best.end_ns - index.window[0],
        },
    }


MOST_SEARCHED = 50


def _present(names: Array, hits: Ints) -> list[int]:
    """Return the names to look for: those with most time in the window first, and not too many."""
    here: list[int] = names[np.isin(names, hits)].tolist()
    others = [number for number in hits.tolist() if number not in set(here[:MOST_SEARCHED])]
    return [*here, *others][:MOST_SEARCHED]
