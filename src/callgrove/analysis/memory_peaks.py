"""How much memory of each device was in use at most, and when; what was never freed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from callgrove.analysis.summaries import MemoryPeak, Places
from callgrove.model.arrays import ABSENT, Array, Ints
from callgrove.model.experiment import Experiment
from callgrove.model.grouping import distinct_rows
from callgrove.model.memory_use import MemoryInUse
from callgrove.model.side_rows import SideRows
from callgrove.model.traces import LABEL, SideTable, SpanChunk, SpanKind, Traces, Window

__all__ = ["memory_peaks"]

COLUMNS = ("profile", "kind", LABEL, "end_ns")
FOR_EVER = 2**63 - 1


def memory_peaks(
    experiment: Experiment, profiles: Ints | None = None, window: Window | None = None
) -> list[MemoryPeak]:
    """Of every process and device with allocations. In a window, what is in use when it begins counts too."""
    traces, places = experiment.traces, Places.of(experiment)
    found: list[MemoryPeak] = []
    for part, own in enumerate(traces.parts()):
        chosen = own if profiles is None else np.intersect1d(own, profiles)
        if len(chosen):
            found += _of_part(traces, part, chosen, places, window)
    return sorted(found, key=lambda peak: (peak.run, peak.rank, peak.device, peak.level))


def _of_part(traces: Traces, part: int, profiles: Ints, places: Places, window: Window | None) -> Iterator[MemoryPeak]:
    memories: dict[int, MemoryInUse] = {}
    ranks: dict[int, tuple[int, int]] = {}  # of a process, with its run
    levels: dict[str, int] = {}
    sides = SideRows(traces, "alloc")
    for chunk in traces.spans(COLUMNS, None, profiles):
        rows = np.flatnonzero(chunk["kind"] == SpanKind.ALLOC)
        if not len(rows):
            continue
        some: SpanChunk = {name: column[rows] for name, column in chunk.items()}
        table, place = sides.of(some)
        process = places.process[some["profile"]]
        for number in np.unique(process).tolist():
            own = np.flatnonzero(process == number)
            first = some["profile"][own[0]]
            ranks[number] = int(places.rank[first]), int(places.run[first])
            memory = memories.setdefault(number, MemoryInUse())
            _add(memory, traces, {name: column[own] for name, column in some.items()}, table, place[own], levels)
    names = list(levels)
    for number, memory in memories.items():
        for device, level, times, values in memory.until(FOR_EVER):
            when, value = _within(times, values, window)
            if not len(value):
                continue
            top = int(np.argmax(value))
            rank, run = ranks[number]
            yield MemoryPeak(
                rank,
                _device(traces, part, device),
                names[level] if level >= 0 else "",
                len(value),
                int(value[top]),
                int(when[top]),
                int(value[-1]),
                memory.n_unknown,
                run,
            )


def _add(
    memory: MemoryInUse, traces: Traces, rows: SpanChunk, table: SideTable | None, place: Ints, levels: dict[str, int]
) -> None:
    assert traces.spans_backend is not None
    used, index = distinct_rows(rows[LABEL])
    words = [traces.spans_backend.strings[name] if name >= 0 else "alloc" for name in used[0].tolist()]
    size, device, address = (_column(table, name, place) for name in ("bytes", "device", "address"))
    memory.add(rows["end_ns"], index, words, size, device, address, _levels(table, place, levels))


def _column(table: SideTable | None, name: str, place: Ints) -> Ints:
    if table is None or name not in table.columns:
        return np.full(len(place), ABSENT, np.int64)
    return np.append(np.asarray(table.columns[name]).astype(np.int64), ABSENT)[place]


def _levels(table: SideTable | None, place: Ints, levels: dict[str, int]) -> Ints:
    if table is None or "level" not in table.columns:
        return np.full(len(place), ABSENT, np.int64)
    texts: Array = np.asarray(table.columns["level"], object)
    return np.array([levels.setdefault(str(texts[k]), len(levels)) if k >= 0 else ABSENT for k in place.tolist()])


def _within(times: Ints, values: Ints, window: Window | None) -> tuple[Ints, Ints]:
    if window is None:
        return times, values
    first = max(int(np.searchsorted(times, window[0], side="right")) - 1, 0)
    last = int(np.searchsorted(times, window[1], side="right"))
    return np.maximum(times[first:last], window[0]), values[first:last]


def _device(traces: Traces, part: int, device: int) -> str:
    known = traces.devices(part)
    if 0 <= device < len(known):
        return known[device].title
    return f"device {device}" if device >= 0 else "unknown device"
