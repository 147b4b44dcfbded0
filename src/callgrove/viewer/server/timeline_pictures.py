"""Pictures of timelines: what dominates in cells of any window, and single spans where few are in sight.

While an index is built, rows that are not complete show what was read of them (`preview.py`), and say so (`pending`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from callgrove.analysis.timeline_index.answers import Lines, NameTable, Picture, Progress, SpanRows
from callgrove.analysis.timeline_index.index import TimelineIndex
from callgrove.analysis.timeline_index.preview import MOMENTS, Moments
from callgrove.arrays import ABSENT, Array, Bools, Ints
from callgrove.model.traces.events import Window
from callgrove.viewer.page import Texts
from callgrove.viewer.server.looks import Look, Looks
from callgrove.viewer.server.parameters import Parameters
from callgrove.viewer.server.timeline_answers import (
    MOST_COLUMNS,
    name_document,
    numbers_of_spans,
    open_timeline,
    read_rows,
    read_window,
    times_of,
)
from callgrove.viewer.server.timelines import OpenTimeline, TimelineRows, make_rows

__all__ = ["answer_picture"]

Document = dict[str, Any]

MOST_ROWS = 1_200
DRAWN_LINES, DRAWN_SPANS = 96, 8_000  # of which each is drawn by itself
CELL_TYPES = (np.uint8, np.uint16, np.uint32)
STEPS = 15  # of shares in a picture; exact ones are asked for
FULL = 255


def answer_picture(looks: Looks, look: Look, parameters: Parameters) -> Document:
    """Return what dominates in cells of a window, for as many rows as there is room for: neighbours are merged. Where
    few spans are in sight, these come as well, each by itself."""
    timeline = open_timeline(looks, look, parameters)
    index = timeline.index
    is_reading, progress = index.is_reading, index.progress
    width = parameters.integer("width", 1, MOST_COLUMNS, 1_200)
    most = parameters.integer("rows", 1, MOST_ROWS, 200)
    moments = index.moments
    if is_reading and moments is not None:
        return _progress_document(progress, is_reading=True) | _draw_moments(timeline, moments, most)
    rows, top, bottom = read_rows(timeline, parameters)
    window = read_window(index, parameters)
    bounds = share_out(top, bottom, most)
    groups = [rows.lines(first, last) for first, last in pairwise(bounds)]
    picture = index.picture(window, max(1, width // 2), groups)
    pending = _fill_pending(picture, rows, bounds, groups, moments)
    return {
        **_progress_document(progress, is_reading=is_reading),
        **_window_document(index.window),
        "n_left_out": index.n_left_out,
        **_rows_document(rows, top, bottom, bounds, pending),
        **_cells(index.names, index.window[0], picture),
        "spans": _single_spans(index, window, rows, top, bottom),
    }


def _progress_document(progress: Progress, *, is_reading: bool) -> Document:
    return {
        "progress": {
            "reading": is_reading,
            "done": progress.n_done,
            "total": progress.n_total,
            "tracks_done": progress.n_tracks_done,
            "tracks": progress.n_tracks,
            "error": progress.error,
            "complete": progress.is_complete,
        }
    }


def _window_document(window: Window) -> Document:
    return {"origin": str(window[0]), "length_ns": window[1] - window[0]}


def _rows_document(rows: TimelineRows, top: int, bottom: int, bounds: Sequence[int], pending: Bools) -> Document:
    return {
        "n_lines": rows.n_lines,
        "n_rows": len(rows),
        "top": top,
        "bottom": bottom,
        "bounds": np.array(bounds),
        "group": Texts([rows.group[first] for first in bounds[:-1]]),
        "name": Texts(list(_row_names(rows, bounds))),
        "pending": pending,
    }


# -- what is not complete ----------------------------------------------------------------------------------------------


def _draw_moments(timeline: OpenTimeline, moments: Moments, most: int) -> Document:
    """Return a picture of all that was read so far, each row by the first of its tracks."""
    nothing = np.empty(0, np.int64)
    rows = make_rows(timeline.experiment, Lines(*[nothing] * 6), moments)
    bounds = share_out(0, len(rows), most)
    n = len(bounds) - 1
    begin = moments.window[0] >> moments.shift << moments.shift
    n_cells = min(((moments.window[1] - 1 - begin) >> moments.shift) + 1, MOMENTS) if n else 0
    times = begin + (np.arange(n_cells) << moments.shift)
    name = moments.at(rows.track[bounds[:-1]], times)
    share = np.where(name >= 0, FULL, 0).astype(np.uint8)
    picture = Picture(begin, 1 << moments.shift, name, share, share, np.ones(n, np.int64))
    return {
        **_window_document(moments.window),
        "n_left_out": 0,
        **_rows_document(rows, 0, len(rows), bounds, np.ones(n, np.bool_)),
        **_cells(moments.names, moments.window[0], picture),
        "spans": None,
    }


def _fill_pending(
    picture: Picture, rows: TimelineRows, bounds: Sequence[int], groups: Sequence[Ints], moments: Moments | None
) -> Bools:
    """Draw rows of which nothing is complete by what was read of them; return which these are."""
    pending = np.array([not len(group) for group in groups], np.bool_)
    if pending.any() and moments is not None and picture.n_cells:
        row = np.flatnonzero(pending)
        middles = picture.start_ns + np.arange(picture.n_cells) * picture.cell_ns + picture.cell_ns // 2
        name = moments.at(rows.track[np.array(bounds)[row]], middles)
        picture.name[row] = name
        picture.share[row] = picture.busy[row] = np.where(name >= 0, FULL, 0)
    return pending


# -- rows and cells ----------------------------------------------------------------------------------------------------


def share_out(top: int, bottom: int, most: int) -> list[int]:
    """Return where groups of neighbouring rows begin, and where the last one ends: at most so many, about equal."""
    n = bottom - top
    n_groups = min(n, most)
    return [top + n * k // n_groups for k in range(n_groups + 1)] if n_groups else [top]


def _row_names(rows: TimelineRows, bounds: Sequence[int]) -> Iterator[str]:
    for first, last in pairwise(bounds):
        if last - first == 1:
            yield rows.name[first]
        else:
            yield f"{rows.name[first]} and {last - first - 1:,} more"


def _cells(every: NameTable, origin: int, picture: Picture) -> Document:
    """Return the cells of a picture: names among those in it from 1 on, 0 where nothing went on; shares of the name and
    of all names, of 15, in one byte."""
    names = picture.name.reshape(-1).astype(np.intp)
    names += 1
    used = np.flatnonzero(np.bincount(names, minlength=1)[1:])
    number = np.zeros(len(every) + 1, next(kind for kind in CELL_TYPES if len(used) <= np.iinfo(kind).max))
    number[used + 1] = np.arange(1, len(used) + 1)
    share, busy = (_round_share(part.reshape(-1)) for part in (picture.share, picture.busy))
    share <<= 4
    share |= busy
    return {
        "start_ns": picture.start_ns - origin,
        "cell_ns": picture.cell_ns,
        "n_cells": picture.n_cells,
        "is_merged": picture.is_merged,
        "coarse": picture.coarse,
        "cell": number.take(names, mode="clip"),  # none is outside: this does not look
        "weight": share,
        "names": name_document(every, used),
    }


def _round_share(share: Array) -> Array:
    """Return shares of 255 as shares of 15; what there is stays above 0."""
    step = 255 // STEPS
    out: Array = np.minimum(share, 255 - step // 2) + np.uint8(step // 2)
    out //= np.uint8(step)
    return np.maximum(out, (share > 0).view(np.uint8), out=out)


def _single_spans(index: TimelineIndex, window: Window, rows: TimelineRows, top: int, bottom: int) -> Document | None:
    """Return all spans in sight, where these are few; else None."""
    lines = rows.lines(top, bottom)
    if not len(lines) or len(lines) > DRAWN_LINES or index.most_in(window, lines) > DRAWN_SPANS:
        return None
    spans = index.spans_in(window, np.sort(lines), DRAWN_SPANS)
    if spans.n > len(spans):
        return None
    number = numbers_of_spans(index, spans)
    first, last = _join_samples(spans, number < 0)
    place = np.full(int(lines.max()) + 1, ABSENT, np.int64)
    place[lines] = top + np.flatnonzero(rows.line[top:bottom] >= 0)
    return {
        "row": place[spans.line[first]],
        "start": times_of(index, spans.start_ns[first]),
        "end": times_of(index, spans.end_ns[last]),
        "name": spans.name[first],
        "depth": spans.depth[first],
        "span": number[first],
        "names": name_document(index.names, np.unique(spans.name[first])),
    }


def _join_samples(spans: SpanRows, is_sample: Bools) -> tuple[Ints, Ints]:
    """Return the first and the last of spans that are drawn as one: samples of one name that follow each other. What
    is idle is left out."""
    same = (spans.line[1:] == spans.line[:-1]) & (spans.name[1:] == spans.name[:-1])
    goes_on = same & is_sample[1:] & (spans.start_ns[1:] == spans.end_ns[:-1])
    first = np.flatnonzero(np.append(True, ~goes_on)[: len(spans)])
    last = np.append(first[1:], len(spans)) - 1
    busy = spans.name[first] >= 0
    return first[busy], last[busy]
