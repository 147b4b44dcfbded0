"""Single spans of a timeline: everything that the file tells of one, what launched it, and what it launched."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from callgrove.analysis.timeline_index.answers import LineKind
from callgrove.arrays import ABSENT, Ints
from callgrove.model.traces.events import LABEL, SIDE_TABLES, SpanKind, Traces, Window
from callgrove.model.traces.pairing import launch_calls
from callgrove.render.units import duration_ns
from callgrove.viewer.server.looks import Look, Looks
from callgrove.viewer.server.parameters import BadRequest, Parameters
from callgrove.viewer.server.timeline_answers import LATEST, open_timeline, read_rows, read_window
from callgrove.viewer.server.timelines import OpenTimeline

__all__ = ["answer_links", "answer_span"]

Document = dict[str, Any]
Link = dict[str, Any]

ON_DEVICE = np.array([SpanKind.KERNEL, SpanKind.COPY, SpanKind.MEMSET])
COLUMNS = ("profile", "kind", "correlation", "start_ns", "end_ns", LABEL)
MOST_READ = 20_000_000  # spans among which the other end of a launch is looked for
MOST_LINKS = 100
MOST_PAIRS = 2_000
MOST_FACTS = 60
LONGEST = 400  # characters of a fact
NOTHING = ("", "{}", "[]")  # texts of columns that say nothing


def answer_span(looks: Looks, look: Look, parameters: Parameters) -> Document:
    """Return what is known of a span, and of those it is linked to."""
    timeline = open_timeline(looks, look, parameters)
    assert looks.timelines is not None
    with looks.timelines.lock:
        traces = timeline.experiment.traces
        number = parameters.integer("span", 0, max(0, traces.n_spans - 1))
        profile = parameters.integer("profile", 0, max(0, len(timeline.experiment.profiles) - 1))
        start = timeline.index.window[0] + parameters.integer("time", 0, LATEST)
        span = _find_span(traces, number, profile, start)
        return {
            "facts": [[word, text[:LONGEST]] for word, text in _facts(traces, number, profile, span)][:MOST_FACTS],
            "links": list(_links(timeline, parameters, profile, span)),
        }


def _find_span(traces: Traces, number: int, profile: int, start: int) -> dict[str, int]:
    """Return the columns of one span."""
    columns = (*COLUMNS, "category", "name")
    for chunk in traces.spans(columns, (start, start + 1), np.array([profile])):
        here = np.flatnonzero(chunk["span"] == number)
        if len(here):
            return {"span": number, **{column: int(chunk[column][here[0]]) for column in columns}}
    raise BadRequest("span: there is no such span at this time")


# -- what is told of it ------------------------------------------------------------------------------------------------


def _facts(traces: Traces, number: int, profile: int, span: dict[str, int]) -> Iterator[tuple[str, str]]:
    """Yield words and texts: of the span itself, and of every side table that has a row for it."""
    assert traces.spans_backend is not None
    strings = traces.spans_backend.strings
    yield "kind", SpanKind(span["kind"]).word
    yield "duration", f"{duration_ns(span['end_ns'] - span['start_ns'])} ({span['end_ns'] - span['start_ns']:,} ns)"
    if span["category"] >= 0:
        yield "category", strings[span["category"]]
    if span["correlation"] != ABSENT:
        yield "correlation", str(span["correlation"])
    part = next((place for place, every in enumerate(traces.parts()) if profile in every), 0)
    for name in SIDE_TABLES:
        if traces.has_side(name, part):
            yield from _side_facts(traces, name, part, number)


def _side_facts(traces: Traces, name: str, part: int, number: int) -> Iterator[tuple[str, str]]:
    """Yield what one side table says of a span: tables with a name and a value in each row by that name."""
    table = traces.side(name, part)
    if table is None:
        return
    for row in np.flatnonzero(table.span == number).tolist():
        cells = {column: cells[row] for column, cells in table.columns.items()}
        label = cells.get("name")
        if isinstance(label, str) and "value" in cells:
            yield label, str(cells["value"])
            continue
        for column, cell in cells.items():
            is_absent = isinstance(cell, int | float | np.number) and cell == ABSENT
            if cell is not None and not is_absent and str(cell) not in NOTHING:
                words = f"{name} {column}".replace("_", " ").split()
                yield " ".join(dict.fromkeys(words)), str(cell)


# -- launches ----------------------------------------------------------------------------------------------------------


def _links(timeline: OpenTimeline, parameters: Parameters, profile: int, span: dict[str, int]) -> Iterator[Link]:
    """Yield the other ends of launches: the call of an operation, or the operations of a call."""
    traces = timeline.experiment.traces
    if span["correlation"] == ABSENT or traces.n_spans > MOST_READ:
        return
    profiles = next((part for part in traces.parts() if profile in part), np.array([profile]))
    other = _same_correlation(traces, span["correlation"], profiles)
    is_device = np.isin(other["kind"], ON_DEVICE)
    if np.isin(span["kind"], ON_DEVICE):
        calls = np.flatnonzero(~is_device & (other["start_ns"] <= span["start_ns"]))
        chosen = calls[np.argsort(other["start_ns"][calls], kind="stable")][-1:]
    else:
        chosen = np.flatnonzero(is_device)[:MOST_LINKS]
    rows, _, _ = read_rows(timeline, parameters)
    origin = timeline.index.window[0]
    assert traces.spans_backend is not None
    for place in chosen.tolist():
        one = {name: int(column[place]) for name, column in other.items()}
        line = _find_line(timeline, one)
        label = one[LABEL]
        text = traces.spans_backend.strings[label] if label >= 0 else SpanKind(one["kind"]).word
        if line is not None and line in rows.line:
            begin, end = one["start_ns"] - origin, one["end_ns"] - origin
            yield {"row": rows.find(line), "start": begin, "end": end, "text": text, "span": one["span"]}


def _same_correlation(traces: Traces, correlation: int, profiles: Ints) -> dict[str, Ints]:
    parts: list[dict[str, Ints]] = []
    for chunk in traces.spans(COLUMNS, None, profiles):
        rows = np.flatnonzero(chunk["correlation"] == correlation)
        parts.append({name: chunk[name][rows].astype(np.int64) for name in ("span", *COLUMNS)})
    empty = {name: np.empty(0, np.int64) for name in ("span", *COLUMNS)}
    return {name: np.concatenate([part[name] for part in [empty, *parts]]) for name in empty}


def _find_line(timeline: OpenTimeline, span: dict[str, int]) -> int | None:
    """Return the line that a span is on."""
    lines = timeline.index.lines
    kind = LineKind.DEVICE if span["kind"] in ON_DEVICE else LineKind.CALLS
    chosen = np.flatnonzero((lines.profile == span["profile"]) & (lines.kind == kind))
    if len(chosen) < 2:
        return int(chosen[0]) if len(chosen) else None
    here = timeline.index.spans_in((span["start_ns"], span["start_ns"] + 1), chosen)
    at = np.flatnonzero(here.row == span["span"])
    return int(here.line[at[0]]) if len(at) else None


def answer_links(looks: Looks, look: Look, parameters: Parameters) -> Document:
    """Return pairs of calls and the operations that they launched, of the spans in a window, by their numbers."""
    timeline = open_timeline(looks, look, parameters)
    window = read_window(timeline.index, parameters)
    assert looks.timelines is not None
    with looks.timelines.lock:
        call, operation = _pairs(timeline.experiment.traces, window)
    return {"call": call[:MOST_PAIRS], "operation": operation[:MOST_PAIRS], "n": len(call)}


def _pairs(traces: Traces, window: Window) -> tuple[Ints, Ints]:
    part_of = np.zeros(1 + max((int(part.max()) for part in traces.parts() if len(part)), default=0), np.int64)
    for number, part in enumerate(traces.parts()):
        part_of[part] = number
    names = ("span", "profile", "kind", "correlation", "start_ns")
    chunks = [{name: chunk[name] for name in names} for chunk in traces.spans(names[1:], window)]
    if not chunks:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    spans = {name: np.concatenate([chunk[name] for chunk in chunks]).astype(np.int64) for name in names}
    linked = spans["correlation"] != ABSENT
    is_device = np.isin(spans["kind"], ON_DEVICE)
    calls, ops = np.flatnonzero(linked & ~is_device), np.flatnonzero(linked & is_device)
    process = part_of[spans["profile"]]
    which = launch_calls(
        spans["correlation"][ops],
        process[ops],
        spans["correlation"][calls],
        process[calls],
        spans["start_ns"][calls],
        spans["start_ns"][ops],
    )
    kept = which >= 0
    return spans["span"][calls[which[kept]]], spans["span"][ops[kept]]
