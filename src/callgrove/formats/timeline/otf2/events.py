"""Frames of one location -> columns: spans, and what happened in them.

Enter and leave events are paired as a stack. Everything else knows how many of them came before it, and belongs to what
was entered last and not left.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from callgrove.arrays import ABSENT, Array, Ints
from callgrove.formats.events.begin_end import find_partners, open_at
from callgrove.formats.timeline.otf2.archive import DecoderFailed, read_frames
from callgrove.formats.timeline.otf2.decoder import WIDTH, Frame

__all__ = ["LocationEvents", "Task", "read_locations"]

MOST_FAILURES = 3  # of the library at locations that one worker reads: then it gives up the others
Table = Array  # rows of unsigned 64-bit numbers


@dataclass
class LocationEvents:
    """The events of one location. `reference`, `start` and `end` are those of spans, in ticks; `span` of other rows is
    a place among them, -1 outside of all. An end of 2**64 - 1 is one that was not recorded."""

    location: int
    reference: Table
    start: Table
    end: Table
    tables: Mapping[int, Table]
    span: Mapping[int, Ints]
    counts: Mapping[str, int] = field(default_factory=dict)
    program: Sequence[int] = ()
    n_open: int = 0
    n_stray: int = 0
    n_crossed: int = 0  # leave events that name another region than the one that was entered last
    problem: str = ""


@dataclass(frozen=True)
class Task:
    """Locations to read, with the number of events that the definitions announce."""

    anchor: Path
    locations: Sequence[tuple[int, int]]


def read_locations(task: Task) -> list[LocationEvents]:
    """Return the events of some locations. Where the library fails at one, those after it are read by themselves."""
    out: list[LocationEvents] = []
    waiting, n_failures = list(task.locations), 0
    while waiting:
        done, problem = _read_some(task.anchor, waiting)
        out += done
        waiting = waiting[len(done) :]
        if not problem:
            break
        n_failures += 1
        if waiting and not (done and done[-1].problem == problem):
            out.append(_empty(waiting.pop(0)[0], problem))
        if n_failures == MOST_FAILURES:
            out += [_empty(location, "not read, since the library failed at others") for location, _ in waiting]
            break
    return out


def _read_some(anchor: Path, locations: Sequence[tuple[int, int]]) -> tuple[list[LocationEvents], str]:
    """Return the events of locations until the decoder fails, and why it does."""
    announced = dict(locations)
    out: list[LocationEvents] = []
    parts: dict[int, list[Table]] = {}
    try:
        for code, location, content in read_frames(anchor, "events", list(announced)):
            if code == Frame.COUNTS:
                out.append(_location(location, parts, json.loads(content), announced.get(location, 0)))
                parts = {}
            else:
                parts.setdefault(code, []).append(np.frombuffer(content, np.uint64))
    except DecoderFailed as failure:
        if parts and len(out) < len(locations):  # what came before the failure is sound
            number = locations[len(out)][0]
            out.append(_location(number, parts, {"code": 0, "counts": {}, "has_events": True}, 0))
            out[-1].problem = str(failure)
        return out, str(failure)
    return out, ""


def _empty(location: int, problem: str) -> LocationEvents:
    nothing = np.empty(0, np.uint64)
    return LocationEvents(location, nothing, nothing, nothing, {}, {}, problem=problem)


def _location(
    location: int, parts: Mapping[int, list[Table]], about: Mapping[str, Any], announced: int
) -> LocationEvents:
    frames = parts.get(Frame.EVENTS, [])
    halves = [np.split(frame, 2) for frame in frames]
    time = np.concatenate([times for times, _ in halves] or [np.empty(0, np.uint64)])
    reference = np.concatenate([references for _, references in halves] or [np.empty(0, np.uint64)])
    tables = {code: np.concatenate(rows).reshape(-1, WIDTH[code]) for code, rows in parts.items() if code in WIDTH}
    begins = (reference & np.uint64(1)) == 0
    track = np.zeros(len(time), np.int64)
    partner = find_partners(track, begins)
    enters = np.flatnonzero(begins)
    span_of = np.full(len(time), ABSENT, np.int64)  # by event
    span_of[enters] = np.arange(len(enters))
    closed = partner[enters] >= 0
    span_of[partner[enters[closed]]] = np.flatnonzero(closed)
    end = np.full(len(enters), 2**64 - 1, np.uint64)
    end[closed] = time[partner[enters[closed]]]
    leaves = np.flatnonzero(~begins & (partner >= 0))
    crossed = int((reference[leaves] >> np.uint64(1) != reference[partner[leaves]] >> np.uint64(1)).sum())
    out = LocationEvents(
        location,
        reference[enters] >> np.uint64(1),
        time[enters],
        end,
        tables,
        {code: _owners(code, table, track, begins, span_of) for code, table in tables.items() if code in INSIDE},
        about["counts"],
        about.get("program", ()),
        int((~closed).sum()),
        int((~begins & (partner < 0)).sum()),
        crossed,
    )
    if about["code"]:
        out.problem = f"the library stops after {about['read']} events (error {about['code']})"
    elif about.get("read", announced) < announced:
        out.problem = f"{announced} events are announced, and there are {about['read']}"
    if len(out.end):
        out.end[~closed] = max(int(time.max()), 0)
    return out


INSIDE = (Frame.MESSAGES, Frame.COLLECTIVES, Frame.ATTRIBUTES, Frame.PARAMETERS)


def _owners(code: int, table: Table, track: Ints, begins: Array, span_of: Ints) -> Ints:
    """Return the span that each row belongs to."""
    place = np.minimum(table[:, 0], np.uint64(len(track))).astype(np.int64)
    if not len(track):
        return np.full(len(place), ABSENT, np.int64)
    if code == Frame.ATTRIBUTES:  # they come with an event
        return np.where(place < len(track), np.append(span_of, ABSENT)[place], ABSENT)
    event = open_at(track, begins, place)
    return np.where(event >= 0, span_of[event], ABSENT)
