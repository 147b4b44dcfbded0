"""Events of a Chrome trace -> columns of a data set, batch after batch.

Specification: more-inputs.md 1.3. What becomes of the phases:

    X, i, I, R              spans at once, in file order
    B, E, b, n, e, S, T, p, F   marks, which are paired when all are known (pairing.py)
    C                       values over time
    s, t, f                 ends of flows, tied to spans when somebody asks for them (pairing.py), as are links from
                            operators of PyTorch to the calls and device work that name them
    M                       names of processes and threads; the last one counts
    anything else           counted by its letter

Arguments stay in the file: `argument` is read again from there when it is asked for. Only what has a column of its own
is taken from them at once: correlations, sizes of kernels, bytes of copies.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import compress
from operator import itemgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from callgrove.arrays import ABSENT, Array, Bools, Ids, Ints
from callgrove.formats.events.columns import ColumnData, Columns, ColumnStore
from callgrove.formats.timeline.chrome.categories import (
    ON_STREAMS,
    WITH_SOURCES,
    KindOfCategory,
    copy_columns,
    kernel_columns,
    read_memory,
)
from callgrove.formats.timeline.chrome.stream import Event, EventStream
from callgrove.formats.timeline.chrome.times import read_numbers, read_spans, read_times
from callgrove.model.traces.events import Device, FlowDirection, SpanKind

__all__ = [
    "EXTERNAL",
    "FLOWS",
    "INSTANTS",
    "MARKS",
    "MEMORY",
    "Decoder",
    "TrackKey",
    "by_phase",
    "count_phases",
    "text_of",
]

INSTANTS = frozenset("iIR")
MARKS = tuple("BEbneSTpF")  # their place is their number
FLOWS = tuple("stf")
USED = {*"XCM", *INSTANTS, *MARKS, *FLOWS}
NO_ARGS: Mapping[str, Any] = MappingProxyType({})
MEMORY = "[memory]"
FREED = f"{MEMORY} free"
KIND_OF_WORD = {kind.word: int(kind) for kind in SpanKind}
PROFILER_RANGE = "cuda_profiler_range"
ASYNC = "async "
HEX = re.compile("0x[0-9a-fA-F]{1,16}")
NAMED_FLOWS = 1 << 60  # flows whose ids are not whole numbers
MARK_COLUMNS: dict[str, type[np.generic]] = {
    **dict.fromkeys(("phase", "lane", "name", "category"), np.int32),
    **dict.fromkeys(("key", "time_ns"), np.int64),
}
FLOW_COLUMNS = {**MARK_COLUMNS, "span": np.int64, "encloses": np.int8}
EXTERNAL = "External id"
CELLS = ("pid", "tid", "cat", "name")
OPERATORS = frozenset(("cpu_op", "user_annotation"))
LINKED = (SpanKind.API, SpanKind.KERNEL, SpanKind.COPY, SpanKind.MEMSET, SpanKind.SYNC, SpanKind.MARKER)
IS_LINKED = np.isin(np.arange(max(SpanKind) + 1), LINKED)
LINK_COLUMNS: dict[str, type[np.generic]] = {"span": np.int64, "id": np.int64, "direction": np.int8}
TrackKey = tuple[str, str]  # pid and tid, as texts


def text_of(cell: object) -> str:
    """Return a text as it is, nothing as an empty text, and any other value as JSON."""
    if isinstance(cell, str):
        return cell
    return "" if cell is None else json.dumps(cell)


def cells_of(events: Sequence[Event], *keys: str) -> Sequence[Sequence[Any]]:
    """Return the cells of events, a column for each of several keys; None where an event has no such key."""
    try:
        return [list(map(itemgetter(key), events)) for key in keys]
    except KeyError:
        return [[event.get(key) for event in events] for key in keys]


def _distinct(cells: Sequence[object]) -> frozenset[object] | None:
    """Return the different ones of some cells; None where some are lists or objects, which no set can hold."""
    try:
        return frozenset(cells)
    except TypeError:
        return None


def _are_in(words: frozenset[str], cells: Sequence[object]) -> Bools:
    return np.fromiter(map(words.__contains__, cells), np.bool_, len(cells))


class Tracks(dict[object, int]):
    """Numbers of tracks by pid and tid as they stand in events; 1 and "1" are the same."""

    def __init__(self) -> None:
        super().__init__()
        self.keys_in_order: list[TrackKey] = []
        self._number: dict[TrackKey, int] = {}

    def __missing__(self, key: object) -> int:
        assert isinstance(key, tuple)
        texts = (text_of(key[0]), text_of(key[1]))
        number = self._number.setdefault(texts, len(self.keys_in_order))
        if number == len(self.keys_in_order):
            self.keys_in_order.append(texts)
        self[key] = number
        return number

    def numbers(self, pids: Sequence[object], tids: Sequence[object]) -> Ids:
        """Return the numbers of tracks; pids and tids that are lists or objects count as their text."""
        pairs = zip(pids, tids, strict=True)
        try:
            return np.fromiter(map(self.__getitem__, pairs), np.int32, len(pids))
        except TypeError:
            return np.array([self[text_of(pid), text_of(tid)] for pid, tid in zip(pids, tids, strict=True)], np.int32)


class Decoder:
    """One file in the decoding: `data` gets its events, the rest is what places and pairs are made of."""

    def __init__(self, path: Path, store: ColumnStore) -> None:
        self.stream = EventStream(path)
        self.data = ColumnData(path, "", store)
        self.tracks = Tracks()
        self.meta: dict[tuple[str, TrackKey], object] = {}  # by what is said and of which track
        self.no_threads: set[TrackKey] = set()  # as our own files say it
        self.profiler_tracks: set[TrackKey] = set()  # likewise
        self.device_of_track: dict[int, tuple[int, int]] = {}  # of streams: device, stream
        self.api_calls: Counter[int] = Counter()  # by track: tells which process launches
        self.phases: Counter[str] = Counter()
        self.dropped: Counter[str] = Counter()  # reasons
        self.marks = Columns(store, MARK_COLUMNS)
        self.flows = Columns(store, FLOW_COLUMNS)
        self.links = Columns(store, LINK_COLUMNS)
        self.sourced: set[int] = set()  # numbers of names that tell where functions are defined
        self.n_correlated = 0
        self._recent: Ints = np.full((3, 1), ABSENT, np.int64)  # span, track and start of slices since the last batch
        self._kinds = KindOfCategory()
        self._devices: dict[int, int] = {}

    @property
    def header(self) -> dict[str, Any]:
        return self.stream.header

    def run(self) -> None:
        """Decode all events."""
        for batch in self.stream.batches():
            phases = _phases_of(batch)
            self.phases.update(phases)
            found = _find_phases(phases)
            before = _count_slices_before(found) if not found.keys().isdisjoint(FLOWS) else {}
            self._recent = self._recent[:, -1:]
            for phase, chosen in found.items():
                self._add(phase, list(compress(batch, chosen)), before)

    def _add(self, phase: str, events: list[Event], before: Mapping[str, Ints]) -> None:
        if phase == "X":
            self._add_complete(events)
        elif phase in INSTANTS:
            self._add_instants(events)
        elif phase == "C":
            self._add_counters(events)
        elif phase == "M":
            self._add_names(events)
        elif phase in FLOWS:
            self._add_flows(phase, events, before[phase])
        elif phase in MARKS:
            self._add_marks(phase, events)

    # -- spans ---------------------------------------------------------------------------------------------------------

    def _add_complete(self, events: list[Event]) -> None:
        cells = cells_of(events, "ts", "dur", *CELLS)
        start, end, good, open_ended = read_spans(*cells[:2])
        self.dropped["X events without dur: they last no time"] += int((open_ended & good).sum())
        usable, start, end = self._usable(events, good, start, end)
        recent = np.full((3, len(events)), ABSENT, np.int64)
        if usable:
            first, lane = self._append(usable, start, end, cells=cells[2:] if usable is events else None)
            recent[:, good] = np.arange(first, first + len(lane)), lane, start
        self._recent = np.concatenate([self._recent, recent], axis=1)

    def _add_instants(self, events: list[Event]) -> None:
        time, good = read_times([e.get("ts") for e in events])
        events, time, _ = self._usable(events, good, time, time)
        memory = [e.get("name") == MEMORY and type(e.get("args")) is dict for e in events]
        if any(memory):
            chosen = np.array(memory, np.bool_)
            self._add_memory([e for e, is_memory in zip(events, memory, strict=True) if is_memory], time[chosen])
            events, time = [e for e, is_memory in zip(events, memory, strict=True) if not is_memory], time[~chosen]
        if events:
            self._append(events, time, time, SpanKind.MARKER)

    def _usable(self, events: list[Event], good: Bools, start: Ints, end: Ints) -> tuple[list[Event], Ints, Ints]:
        """Return the events with usable times, and these; others are counted."""
        if good.all():
            return events, start, end
        self.dropped["events without usable times: they are left out"] += int((~good).sum())
        kept = [e for e, is_good in zip(events, good.tolist(), strict=True) if is_good]
        return kept, start[good], end[good]

    def _append(
        self,
        events: list[Event],
        start: Ints,
        end: Ints,
        kind: SpanKind | None = None,
        cells: Sequence[Sequence[Any]] | None = None,
    ) -> tuple[int, Ids]:
        """Append the spans of events, of which these cells may be known; return the number of the first one, and their
        tracks."""
        pids, tids, categories, names = cells or cells_of(events, *CELLS)
        distinct = _distinct(categories)
        if distinct is None:
            categories = [text_of(category) for category in categories]
            distinct = frozenset(categories)
        lane = self.tracks.numbers(pids, tids)
        kinds = self._kinds_of(categories) if kind is None else np.full(len(events), kind, np.int32)
        args = [a if (a := e.get("args")).__class__ is dict else NO_ARGS for e in events]
        if kind is None:
            self._take_told_kinds(kinds, args)
        correlation = self._correlations(args)
        labels = {}
        if FREED in names:  # as our own files call it
            labels = {"label": self._intern(names)}
            names = [MEMORY if name == FREED else name for name in names]
        name = self._intern(names)
        first = self.data.append(
            kind=kinds,
            category=self._intern(categories),
            name=name,
            **labels,
            start_ns=start,
            end_ns=end,
            lane=lane,
            correlation=correlation,
        )
        if not WITH_SOURCES.isdisjoint(distinct):
            self.sourced.update(name[_are_in(WITH_SOURCES, categories)].tolist())
        self._add_links(first, kinds, categories, args, correlation)
        if (kinds != SpanKind.REGION).any() or PROFILER_RANGE in distinct:
            self._add_attributes(first, kinds, categories, names, args, lane)
        return first, lane

    def _lanes(self, events: list[Event]) -> Ids:
        return self.tracks.numbers(*cells_of(events, "pid", "tid"))

    def _kinds_of(self, categories: Sequence[object]) -> Ids:
        return np.fromiter(map(self._kinds.__getitem__, categories), np.int32, len(categories))

    def _intern(self, cells: Sequence[object]) -> Ids:
        """Return numbers of texts; what is not text counts as its JSON, nothing as none."""
        names = self.data.names
        try:
            return names.numbers(cells)  # type: ignore[arg-type]
        except TypeError:
            return names.numbers([None if cell is None else text_of(cell) for cell in cells])

    def _take_told_kinds(self, kinds: Ids, args: Sequence[Mapping[str, Any]]) -> None:
        """Set the kinds of spans whose arguments tell it, as in our own files where a category does not."""
        if "schemaVersion" in self.header:
            return
        for row, word in [(k, word) for k, a in enumerate(args) if (word := a.get("kind")).__class__ is str]:
            kinds[row] = KIND_OF_WORD.get(word, kinds[row])

    def _correlations(self, args: Sequence[Mapping[str, Any]]) -> Ints:
        cells = [a.get("correlation", ABSENT) for a in args]
        if "schemaVersion" not in self.header:  # our own word for it
            cells = [a.get("corr", cell) for a, cell in zip(args, cells, strict=True)]
        out = read_numbers(cells)
        self.n_correlated += int((out >= 0).sum())
        return out

    def _add_links(
        self,
        first: int,
        kinds: Ids,
        categories: Sequence[object],
        args: Sequence[Mapping[str, Any]],
        correlation: Ints,
    ) -> None:
        """Keep Kineto's `External id`: of operators, and of calls and device work that name the operator which they
        belong to. Where it repeats the correlation, Kineto knew of no operator."""
        ids = read_numbers([a.get(EXTERNAL, ABSENT) for a in args])
        rows = np.flatnonzero((ids >= 0) & (ids != correlation))
        if not len(rows):
            return
        operators = _are_in(OPERATORS, categories)[rows]
        used = operators | IS_LINKED[kinds[rows]]
        directions = np.where(operators, FlowDirection.OUT, FlowDirection.IN).astype(np.int8)
        links: dict[str, Array] = {"span": rows + first, "id": ids[rows], "direction": directions}
        self.links.append(int(used.sum()), {name: column[used] for name, column in links.items()})

    # -- attributes of spans -------------------------------------------------------------------------------------------

    def _add_attributes(
        self,
        first: int,
        kinds: Ids,
        categories: Sequence[object],
        names: Sequence[object],
        args: Sequence[Mapping[str, Any]],
        lane: Ids,
    ) -> None:
        for track, n in zip(*np.unique(lane[kinds == SpanKind.API], return_counts=True), strict=True):
            self.api_calls[int(track)] += int(n)
        on_stream = [k for k, category in enumerate(categories) if category.__class__ is str and category in ON_STREAMS]
        self._see_streams([args[k] for k in on_stream], lane[on_stream])
        kernels = np.flatnonzero(kinds == SpanKind.KERNEL)
        if len(kernels):
            self.data.append_side("kernel", kernels + first, **kernel_columns([args[k] for k in kernels.tolist()]))
        copies = np.flatnonzero((kinds == SpanKind.COPY) | (kinds == SpanKind.MEMSET))
        if len(copies):
            rows = copies.tolist()
            devices = np.array([self.device_number(args[k].get("device")) for k in rows], np.int64)
            columns = copy_columns([names[k] for k in rows], [args[k] for k in rows], devices)
            self.data.append_side("copy", copies + first, **columns)
        allocations = np.flatnonzero(kinds == SpanKind.ALLOC)
        if len(allocations):
            size = read_numbers([args[k].get("bytes", ABSENT) for k in allocations.tolist()])
            self.data.append_side("alloc", allocations + first, bytes=size)
        if PROFILER_RANGE in categories:
            self._add_measured([k for k, category in enumerate(categories) if category == PROFILER_RANGE], first, args)

    def _see_streams(self, args: Sequence[Mapping[str, Any]], lane: Ids) -> None:
        """Remember which device and stream a track is of, as its events say."""
        for place in np.unique(lane, return_index=True)[1].tolist():
            track, device = int(lane[place]), args[place].get("device")
            if track not in self.device_of_track and type(device) is int and device >= 0:
                stream = args[place].get("stream")
                self.device_of_track[track] = device, stream if type(stream) is int else ABSENT
                self.device_number(device)

    def device_number(self, index: object) -> int:
        """Return the number of a GPU in the data set; -1 where it is none."""
        if type(index) is not int or not 0 <= index < 1 << 20:
            return ABSENT
        if index not in self._devices:
            self._devices[index] = self.data.add_device(Device(0, "GPU", index))
        return self._devices[index]

    def _add_measured(self, rows: Sequence[int], first: int, args: Sequence[Mapping[str, Any]]) -> None:
        """Add what CUPTI's profiler measured of a range: its numeric arguments."""
        cells = [
            (k, name, number) for k in rows for name, cell in args[k].items() if (number := _float(cell)) is not None
        ]
        if cells:
            self.data.append_side(
                "counter",
                np.array([first + k for k, _, _ in cells], np.int64),
                ["name"],
                name=self._intern([name for _, name, _ in cells]),
                value=np.array([number for _, _, number in cells], np.float64),
            )

    def _add_memory(self, events: list[Event], time: Ints) -> None:
        """Add Kineto's events of allocations, and the totals that they tell."""
        args = [e["args"] for e in events]
        size, address, device = read_memory(args)
        lane = self._lanes(events)
        freed = size < 0
        first = self.data.append(
            kind=np.full(len(events), SpanKind.ALLOC, np.int32),
            category=self._intern([e.get("cat") for e in events]),
            name=self._intern([e.get("name") for e in events]),
            label=self._intern([FREED if is_free else MEMORY for is_free in freed.tolist()]),
            start_ns=time,
            end_ns=time,
            lane=lane,
        )
        devices = np.array([self.device_number(number) for number in device.tolist()], np.int64)
        spans = np.arange(first, first + len(events))
        self.data.append_side("alloc", spans, bytes=np.abs(size), address=address, device=devices)
        for total in ("Total Allocated", "Total Reserved"):
            names = [f"{total} {'GPU' if number >= 0 else 'CPU'} {max(number, 0)}" for number in device.tolist()]
            self._append_values(lane, names, time, [a.get(total) for a in args])

    # -- what is not a span --------------------------------------------------------------------------------------------

    def _add_counters(self, events: list[Event]) -> None:
        time, good = read_times([e.get("ts") for e in events])
        events, time, _ = self._usable(events, good, time, time)
        series = [(k, _name_of_series(e, key), cell) for k, e in enumerate(events) for key, cell in _items(e)]
        rows = np.array([k for k, _, _ in series], np.int64)
        lane = self._lanes(events)[rows]
        self._append_values(lane, [name for _, name, _ in series], time[rows], [cell for _, _, cell in series])

    def _append_values(self, lane: Ids, names: Sequence[str], time: Ints, cells: Sequence[object]) -> None:
        """Add values over time; what is not a number is counted."""
        numbers = [_float(cell) for cell in cells]
        known = np.array([number is not None for number in numbers], np.bool_)
        self.dropped["values of counters are not numbers: they are left out"] += int((~known).sum())
        value = np.array([number for number in numbers if number is not None], np.float64)
        self.data.append_counters(lane[known], self._intern(names)[known], time[known], value)

    def _add_names(self, events: list[Event]) -> None:
        for event in events:
            args, what = event.get("args"), event.get("name")
            if isinstance(args, dict) and isinstance(what, str) and args:
                track = text_of(event.get("pid")), text_of(event.get("tid"))
                self.meta[what, track] = next(iter(args.values()))
                if what == "thread_name" and args.get("thread") is False:
                    self.no_threads.add(track)
                if what == "thread_name" and args.get("profiler") is True:
                    self.profiler_tracks.add(track)

    def _add_marks(self, phase: str, events: list[Event]) -> None:
        time, good = read_times([e.get("ts") for e in events])
        events, time, _ = self._usable(events, good, time, time)
        no_key = np.full(len(events), ABSENT, np.int64)
        keys = no_key if phase in "BE" else self._intern([_async_key(e) for e in events])
        lane = self._lanes(events if phase in "BE" else [_on_async_track(e) for e in events])
        columns = {
            "phase": np.full(len(events), MARKS.index(phase), np.int32),
            "lane": lane,
            "name": self._intern([e.get("name") for e in events]),
            "category": self._intern([e.get("cat") for e in events]),
            "key": keys,
            "time_ns": time,
        }
        self.marks.append(len(events), columns)

    def _add_flows(self, phase: str, events: list[Event], before: Ints) -> None:
        """Add ends of flows. One that follows a slice of its track that begins at its time is tied to that."""
        time, good = read_times([e.get("ts") for e in events])
        events, time, _ = self._usable(events, good, time, time)
        span, lane_before, start = self._recent[:, before[good]]
        pids, tids, categories, names, ids = cells_of(events, *CELLS, "id")
        lane = self.tracks.numbers(pids, tids)
        columns: dict[str, Array] = {
            "phase": np.full(len(events), FLOWS.index(phase), np.int32),
            "lane": lane,
            "span": np.where((lane_before == lane) & (start == time), span, ABSENT),
            "name": self._intern(names),
            "category": self._intern(categories),
            "key": self._flow_keys(ids),
            "time_ns": time,
            "encloses": np.array([phase != "f" or e.get("bp") == "e" for e in events], np.int8),
        }
        self.flows.append(len(events), columns)

    def _flow_keys(self, ids: Sequence[object]) -> Ints:
        """Return numbers for ids of flows: whole numbers as they are, others counted from far above."""
        out = read_numbers([int(cell, 16) if type(cell) is str and HEX.fullmatch(cell) else cell for cell in ids])
        others = np.flatnonzero(out < 0)
        out[others] = self._intern([ids[k] for k in others.tolist()]).astype(np.int64) + NAMED_FLOWS
        return out


def count_phases(batch: Sequence[Event]) -> dict[str, int]:
    """Return the number of events of each phase, slices first; what has none that is a text counts as `?`."""
    counts = Counter(_phases_of(batch))
    return {phase: counts[phase] for phase in sorted(counts, key="X".__ne__)}


def by_phase(batch: Sequence[Event]) -> dict[str, list[Event]]:
    """Return events of the phases that become something, in order, slices first."""
    return {phase: list(compress(batch, chosen)) for phase, chosen in _find_phases(_phases_of(batch)).items()}


def _phases_of(batch: Sequence[Event]) -> list[str]:
    return [phase if (phase := event.get("ph")).__class__ is str else "?" for event in batch]


def _find_phases(phases: Sequence[str]) -> dict[str, bytes]:
    """Return for each phase that becomes something which events have it, as bytes of 0 and 1; slices first."""
    different = sorted(dict.fromkeys(phases), key="X".__ne__)
    known = [phase for phase in different if phase in USED]
    letters = "".join(phases)
    if letters.isascii() and len(letters) == len(phases) and "" not in different:
        text = np.frombuffer(letters.encode(), np.uint8)
        return {phase: (text == ord(phase)).tobytes() for phase in known}
    return {phase: bytes([one == phase for one in phases]) for phase in known}


def _count_slices_before(found: Mapping[str, bytes]) -> dict[str, Ints]:
    """Return, for each end of a flow in a batch, how many slices stand before it there, by phase."""
    chosen = {phase: np.frombuffer(marks, np.bool_) for phase, marks in found.items()}
    slices = chosen.get("X")
    n = np.zeros(len(next(iter(chosen.values()))), np.int64) if slices is None else np.cumsum(slices, dtype=np.int64)
    return {way: n[chosen[way]] for way in FLOWS if way in chosen}


def _items(event: Event) -> Iterator[tuple[str, object]]:
    args = event.get("args")
    return iter(args.items()) if isinstance(args, dict) else iter(())


def _name_of_series(event: Event, key: str) -> str:
    """Return the name of one series of a counter. One that is called `value`, as in our own files, needs no name."""
    number = event.get("id")
    name = text_of(event.get("name")) + ("" if number is None else f"[{text_of(number)}]")
    return name if key == "value" else f"{name} {key}"


def _float(cell: object) -> float | None:
    if isinstance(cell, bool) or not isinstance(cell, int | float | str):
        return None
    try:
        return float(cell)
    except (ValueError, OverflowError):
        return None


def _async_key(event: Event) -> str:
    """Return what tells the series of an asynchronous event from others."""
    ids = event.get("id2")
    if isinstance(ids, dict) and "local" in ids:
        return f"{text_of(event.get('pid'))}\0{text_of(event.get('cat'))}\0{text_of(ids['local'])}"
    number = ids.get("global") if isinstance(ids, dict) else event.get("id")
    return f"\0{text_of(event.get('cat'))}\0{text_of(number)}"


def _on_async_track(event: Event) -> Event:
    return {"pid": event.get("pid"), "tid": f"{ASYNC}{text_of(event.get('cat'))}"}
