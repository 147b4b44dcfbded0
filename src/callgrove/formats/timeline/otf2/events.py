"""Frames of one location -> columns: spans, and what happened in them.

Enter and leave events are paired as a stack. Everything else knows how many of them came before it, and belongs to what
was entered last and not left.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from callgrove.arrays import ABSENT, Array, Ints
from callgrove.formats.events.begin_end import find_partners, open_at
from callgrove.formats.timeline.otf2.archive import DecoderFailed, read_frames
from callgrove.formats.timeline.otf2.decoder import WIDTH, Frame
from callgrove.formats.timeline.otf2.records import LocalFacts, Unusual, read_nesting

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
    n_read: int = ABSENT  # of any type, where the library came to the end
    n_open: int = 0
    n_stray: int = 0
    n_crossed: int = 0  # leave events that name another region than the one that was entered last
    problem: str = ""


@dataclass(frozen=True)
class Task:
    """Locations to read, with the number of events that the definitions announce. `chunk_size` is that of their
    files."""

    anchor: Path
    locations: Sequence[tuple[int, int]]
    chunk_size: int = 0


def read_locations(task: Task) -> list[LocationEvents]:
    """Return the events of some locations. Where nothing is unusual, enter and leave events, most of all, are decoded
    here, which is many times faster than being told of each by the library."""
    direct = _read_directly(task)
    others = [(location, n) for location, n in task.locations if location not in direct]
    by_library = {events.location: events for events in _read_by_library(task.anchor, others)}
    return [direct.get(location) or by_library[location] for location, _ in task.locations]


def _read_directly(task: Task) -> dict[int, LocationEvents]:
    """Return the events of the locations whose files are sound and have nothing unusual."""
    out: dict[int, LocationEvents] = {}
    parts: dict[int, list[Table]] = {}
    folder = task.anchor.with_suffix("")
    try:
        for code, location, content in read_frames(task.anchor, "others", [number for number, _ in task.locations]):
            if code != Frame.COUNTS:
                parts.setdefault(code, []).append(np.frombuffer(content, np.uint64))
                continue
            about, tables = json.loads(content), _join_tables(parts)
            parts = {}
            if about["code"] or about["needs_nesting"] or not about["has_events"]:
                continue
            facts = LocalFacts(dict(about["regions"]), about["clock"])
            with suppress(Unusual):
                nesting = read_nesting(folder / f"{location}.evt", task.chunk_size, about["read"], facts)
                for code in INSIDE & tables.keys():
                    tables[code][:, 0] = np.searchsorted(nesting.number, tables[code][:, 0].astype(np.int64))
                out[location] = _location(location, nesting.time, nesting.reference, tables, about)
    except DecoderFailed:  # read once more by the library alone, which says where
        pass
    for location, announced in task.locations:
        if location in out:
            _compare(out[location], announced)
    return out


def _read_by_library(anchor: Path, locations: Sequence[tuple[int, int]]) -> list[LocationEvents]:
    """Return the events of some locations. Where the library fails at one, those after it are read by themselves."""
    out: list[LocationEvents] = []
    waiting, n_failures = list(locations), 0
    while waiting:
        done, problem = _read_some(anchor, waiting)
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
                out.append(_told_location(location, parts, json.loads(content)))
                _compare(out[-1], announced.get(location, 0))
                parts = {}
            else:
                parts.setdefault(code, []).append(np.frombuffer(content, np.uint64))
    except DecoderFailed as failure:
        if parts and len(out) < len(locations):  # what came before the failure is sound
            number = locations[len(out)][0]
            out.append(_told_location(number, parts, {"code": 0, "counts": {}}))
            out[-1].problem = str(failure)
        return out, str(failure)
    return out, ""


def _empty(location: int, problem: str) -> LocationEvents:
    nothing = np.empty(0, np.uint64)
    return LocationEvents(location, nothing, nothing, nothing, {}, {}, problem=problem)


def _join_tables(parts: Mapping[int, list[Table]]) -> dict[int, Table]:
    return {code: np.concatenate(rows).reshape(-1, WIDTH[code]) for code, rows in parts.items() if code in WIDTH}


def _told_location(location: int, parts: Mapping[int, list[Table]], about: Mapping[str, Any]) -> LocationEvents:
    """Return the events that the library told of."""
    halves = [np.split(frame, 2) for frame in parts.get(Frame.EVENTS, [])]
    time = np.concatenate([times for times, _ in halves] or [np.empty(0, np.uint64)])
    reference = np.concatenate([references for _, references in halves] or [np.empty(0, np.uint64)])
    return _location(location, time, reference, _join_tables(parts), about)


def _location(
    location: int, time: Table, reference: Table, tables: Mapping[int, Table], about: Mapping[str, Any]
) -> LocationEvents:
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
        about.get("read", -1),
        int((~closed).sum()),
        int((~begins & (partner < 0)).sum()),
        crossed,
    )
    if about["code"]:
        out.problem = f"the library stops after {about['read']} events (error {about['code']})"
    if len(out.end):
        out.end[~closed] = max(int(time.max()), 0)
    return out


def _compare(events: LocationEvents, announced: int) -> None:
    """Set a problem where there are fewer events than announced."""
    if not events.problem and 0 <= events.n_read < announced:
        events.problem = f"{announced} events are announced, and there are {events.n_read}"


INSIDE = {Frame.MESSAGES, Frame.COLLECTIVES, Frame.ATTRIBUTES, Frame.PARAMETERS}


def _owners(code: int, table: Table, track: Ints, begins: Array, span_of: Ints) -> Ints:
    """Return the span that each row belongs to."""
    place = np.minimum(table[:, 0], np.uint64(len(track))).astype(np.int64)
    if not len(track):
        return np.full(len(place), ABSENT, np.int64)
    if code == Frame.ATTRIBUTES:  # they come with an event
        return np.where(place < len(track), np.append(span_of, ABSENT)[place], ABSENT)
    event = open_at(track, begins, place)
    return np.where(event >= 0, span_of[event], ABSENT)
