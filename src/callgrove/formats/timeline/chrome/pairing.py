"""Begins and ends become spans, and ends of flows find theirs.

Specification: more-inputs.md 1.3. On a thread, B and E are a stack: by time, at equal times in file order; an E closes
the innermost B, whatever it is called. Asynchronous events are a stack of their own for each category and id.

    pair_marks(decoder)      appends the spans; returns which span every mark became, and what was left open or alone
    bind_flows(decoder)      yields the side table `flow`
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from callgrove.arrays import ABSENT, Array, Bools, Ids, Ints, distinct_rows
from callgrove.formats.events.columns import ColumnData, Columns
from callgrove.formats.timeline.chrome.decode import EXTERNAL, MARKS
from callgrove.model.traces.events import FlowDirection, SideTable, SpanKind
from callgrove.model.traces.intervals import nesting
from callgrove.model.traces.pairing import launch_calls

__all__ = ["PairedMarks", "bind_flows", "pair_marks"]

BEGINS = tuple(MARKS.index(phase) for phase in "BbS")
ENDS = tuple(MARKS.index(phase) for phase in "EeF")
INSTANTS = tuple(MARKS.index(phase) for phase in "nTp")
ON_THREADS = tuple(MARKS.index(phase) for phase in "BE")
DIRECTIONS = np.array([FlowDirection.OUT, FlowDirection.STEP, FlowDirection.IN], np.int8)  # of s, t, f


@dataclass(frozen=True)
class PairedMarks:
    """What became of marks: the span of each, -1 where it has none; how many were open, and how many ends alone."""

    span: Ints
    n_open: int = 0
    n_alone: int = 0


def pair_marks(data: ColumnData, marks: Columns, kind_of: dict[int, int], last_ns: Ints) -> PairedMarks:
    """Append the spans of all marks. `kind_of` gives the kind by number of a category; `last_ns` is, by lane, the last
    time that is known, at which spans without an end are closed."""
    if not len(marks):
        return PairedMarks(np.empty(0, np.int64))
    rows = marks.whole(("phase", "lane", "name", "category", "key", "time_ns"))
    begins, ends = np.isin(rows["phase"], BEGINS), np.isin(rows["phase"], ENDS)
    of_thread = np.isin(rows["phase"], ON_THREADS)
    stack = np.where(of_thread, rows["lane"].astype(np.int64), -2 - rows["key"])  # two sorts of stacks, one number
    begin, end, alone = match_pairs(stack, rows["time_ns"], begins, ends)
    last = last_ns.copy()
    np.maximum.at(last, rows["lane"], rows["time_ns"])
    is_open = end < 0
    end_ns = np.where(is_open, last[rows["lane"][begin]], rows["time_ns"][end])
    kinds = np.array([kind_of[category] for category in rows["category"].tolist()], np.int32)
    span = np.full(len(begins), ABSENT, np.int64)
    first = _append(data, rows, begin, end_ns, kinds)
    span[begin] = np.arange(first, first + len(begin))
    span[end[~is_open]] = span[begin[~is_open]]
    instants = np.flatnonzero(np.isin(rows["phase"], INSTANTS))
    marker = np.full(len(begins), SpanKind.MARKER, np.int32)
    first = _append(data, rows, instants, rows["time_ns"][instants], marker)
    span[instants] = np.arange(first, first + len(instants))
    return PairedMarks(span, int(is_open.sum()), len(alone))


def _append(data: ColumnData, rows: dict[str, Array], chosen: Ints, end_ns: Ints, kinds: Ids) -> int:
    columns = {name: rows[name][chosen] for name in ("lane", "name", "category")}
    return data.append(kind=kinds[chosen], start_ns=rows["time_ns"][chosen], end_ns=end_ns, **columns)


def match_pairs(stack: Ints, time: Ints, begins: Bools, ends: Bools) -> tuple[Ints, Ints, Ints]:
    """Return the marks that begin something, in file order, the mark that ends each, -1 where there is none, and the
    ends that end nothing."""
    used = np.flatnonzero(begins | ends)
    order = used[np.lexsort((used, time[used], stack[used]))]
    order, alone = _without_lone_ends(order, stack, ends)
    step = np.where(ends[order], -1, 1)
    depth = np.cumsum(step) - np.where(ends[order], -1, 0)  # of a begin after it, of an end before it
    paired = np.lexsort((np.arange(len(order)), depth, stack[order]))
    rows = order[paired]  # of one stack and depth, begins and ends take turns
    follows = np.append(rows[1:], ABSENT)
    same = np.append((stack[rows[1:]] == stack[rows[:-1]]) & (depth[paired[1:]] == depth[paired[:-1]]), False)
    here = np.flatnonzero(begins[rows])
    is_closed = same[: len(rows)][here] & ends[follows[: len(rows)][here]] if len(rows) else np.empty(0, np.bool_)
    begin, end = rows[here], np.where(is_closed, follows[here], ABSENT)
    in_order = np.argsort(begin, kind="stable")
    return begin[in_order], end[in_order], alone


def _without_lone_ends(order: Ints, stack: Ints, ends: Bools) -> tuple[Ints, Ints]:
    """Leave out ends at which nothing is open: those that reach a new lowest level of their stack."""
    if not len(order):
        return order, order
    level = np.cumsum(np.where(ends[order], -1, 1))
    starts = np.flatnonzero(np.diff(stack[order], prepend=stack[order][0] - 1))
    sizes = np.diff(starts, append=len(order))
    before = np.append(0, level)[starts]
    number = np.repeat(np.arange(len(starts)), sizes)
    level -= before[number]
    far = 2 * len(order) + 2
    lowest = np.minimum.accumulate(np.minimum(level, 0) - number * far) + number * far  # each stack by itself
    previous = np.append(0, lowest[:-1])
    previous[starts] = 0
    is_alone = ends[order] & (level < previous)
    return order[~is_alone], order[is_alone]


# -- flows -------------------------------------------------------------------------------------------------------------


def bind_flows(data: ColumnData, flows: Columns, left_out: Bools, links: Columns) -> Iterator[SideTable]:
    """Yield the ends of flows with their spans, by rising numbers of these: the innermost span around their time on
    their lane, or for ends that do not say `enclosing`, the next one. `left_out` says of names which are not flows:
    they repeat what correlations say. Links that name an operator are flows, too."""
    events = _bound_events(data, flows, left_out)
    first_id = int(np.asarray(events.columns["id"]).max(initial=ABSENT)) + 1
    tables = [events, _joined_links(data, links, first_id)]
    span = np.concatenate([table.span for table in tables])
    if len(span):
        columns = {
            name: np.concatenate([np.asarray(table.columns[name]) for table in tables]) for name in events.columns
        }
        yield SideTable(span, columns).take(np.argsort(span, kind="stable"))


def _bound_events(data: ColumnData, flows: Columns, left_out: Bools) -> SideTable:
    """Return the ends of flows that lie on a span."""
    rows = flows.whole(("phase", "lane", "span", "name", "category", "key", "time_ns", "encloses"))
    kept = ~left_out[rows["name"]]
    rows = {name: column[kept] for name, column in rows.items()}
    encloses = rows["encloses"] != 0
    span = np.where(encloses, rows["span"], ABSENT)
    others = np.flatnonzero(span < 0)
    span[others] = _spans_at(data, rows["lane"][others], rows["time_ns"][others], encloses[others])
    _, number = distinct_rows(rows["category"], rows["name"], rows["key"])
    chosen = np.flatnonzero(span >= 0)
    strings = np.array([*(text or None for text in data.strings), None], np.object_)
    columns: dict[str, Array] = {
        "id": number[chosen].astype(np.int64),
        "direction": DIRECTIONS[rows["phase"][chosen]],
        "name": strings[rows["name"][chosen]],
    }
    return SideTable(span[chosen], columns)


def _joined_links(data: ColumnData, links: Columns, first_id: int) -> SideTable:
    """Return links that name an operator as flows, which begin at it and have ids from a first one on. Of several
    operators with one number, as in traces that were put together, it is the one that began last before."""
    rows = links.whole(("span", "id", "direction"))
    is_start = rows["direction"] == FlowDirection.OUT
    starts, ends = np.flatnonzero(is_start), np.flatnonzero(~is_start)
    time = np.concatenate([np.empty(0, np.int64), *(block["start_ns"] for block in data.stored(("start_ns",)))])
    nowhere, begin = np.zeros(len(is_start), np.int64), time[rows["span"]]
    operator = launch_calls(
        rows["id"][ends], nowhere[ends], rows["id"][starts], nowhere[starts], begin[starts], begin[ends]
    )
    known = np.flatnonzero(operator >= 0)
    n = len(known)
    columns: dict[str, Array] = {
        "id": np.tile(np.arange(first_id, first_id + n), 2),
        "direction": np.repeat(np.array([FlowDirection.OUT, FlowDirection.IN], np.int8), n),
        "name": np.full(2 * n, EXTERNAL, np.object_),
    }
    return SideTable(np.append(rows["span"][starts[operator[known]]], rows["span"][ends[known]]), columns)


def _spans_at(data: ColumnData, lane: Ids, time: Ints, encloses: Bools) -> Ints:
    """Return the span on each lane at each time; -1 where there is none."""
    blocks = list(data.stored(("lane", "start_ns", "end_ns")))
    lanes, starts, ends = (np.concatenate([block[name] for block in blocks]) for name in ("lane", "start_ns", "end_ns"))
    out = np.full(len(lane), ABSENT, np.int64)
    order = np.lexsort((-ends, starts, lanes))
    firsts = np.searchsorted(lanes[order], np.arange(int(lanes.max(initial=-1)) + 2))
    for number in np.unique(lane).tolist():
        if number + 1 >= len(firsts):
            continue
        spans = order[firsts[number] : firsts[number + 1]]
        here = np.flatnonzero(lane == number)
        out[here] = _spans_of_lane(spans, starts[spans], ends[spans], time[here], encloses[here])
    return out


def _spans_of_lane(spans: Ints, start: Ints, end: Ints, time: Ints, encloses: Bools) -> Ints:
    """Return the span at each time, of spans by start, the outermost first."""
    if not len(spans):
        return np.full(len(time), ABSENT, np.int64)
    place = np.searchsorted(start, time, side="right") - 1
    above = nesting(start, end, np.zeros(len(start), np.int64)).parent
    while True:  # up to the innermost one that has not ended
        wrong = (place >= 0) & (end[place] < time)
        if not wrong.any():
            break
        place[wrong] = above[place[wrong]]
    following = np.searchsorted(start, time, side="left")
    following = np.where(following < len(spans), following, ABSENT)
    place = np.where(encloses, place, following)
    return np.append(spans, ABSENT)[place]
