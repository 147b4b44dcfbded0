"""What a traced run did: kernels, calls, copies, allocations, markers, memory, and how busy devices were.

    summarise(experiment, ...)   one `Summary` per part of the trace, on any number of workers, added up in their order

Parts are summed up in their order, small ones some at a time, so the result does not depend on who did the work. Memory
holds one part, or one bundle of small ones, per worker. Spans that end before they start are not added up; they are
counted. Statistics are exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from callgrove.analysis.durations import Statistics
from callgrove.analysis.messages import MessageSums
from callgrove.analysis.summary_parts import Task, of_part
from callgrove.analysis.summary_sections import (
    DEVICE_SECTIONS,
    DIVIDES,
    OF_MESSAGES,
    SECTIONS,
    By,
    DeviceSums,
    Division,
    Gap,
    MemoryPeak,
    Places,
    Sizes,
    Summary,
    WindowMode,
)
from callgrove.arrays import ABSENT, Array, Ints, distinct_rows
from callgrove.execute import IN_PROCESS, Workers
from callgrove.model.experiment import Experiment
from callgrove.model.table import Table
from callgrove.model.traces.events import LABEL, SideRows, SideTable, SpanChunk, SpanKind, Traces, Window
from callgrove.model.traces.pairing import MemoryInUse

__all__ = [
    "SECTIONS",
    "By",
    "Summary",
    "WindowMode",
    "memory_peaks",
    "rows_by_section",
    "sections_of",
    "summarise",
    "table",
    "tables",
]


BUNDLE_BYTES = 8 << 20  # of small parts that are summed up at once


def summarise(
    experiment: Experiment,
    by: Sequence[By] = (),
    window: Window | None = None,
    mode: WindowMode = WindowMode.INSIDE,
    profiles: Ints | None = None,
    workers: Workers = IN_PROCESS,
    sections: Sequence[str] = SECTIONS,
    ignore_digits: bool = False,
) -> Summary:
    """Sum up the whole trace, or some profiles of it, or a window of time; what other sections need may be left out.
    Names that differ in digits alone, such as those of steps, may count as one."""
    total = Summary(tuple(by))
    asked = not DEVICE_SECTIONS.isdisjoint(sections)
    every = _tasks(experiment, tuple(by), window, mode, profiles)
    tasks = [replace(task, with_devices=asked, ignore_digits=ignore_digits) for task in every]
    parts = map(of_part, tasks) if len(tasks) < 2 else workers.map(of_part, tasks, label="summing up")
    for part, ranks in zip(parts, _ranks_that_end(tasks), strict=True):
        total.merge(part)
        total.complete(ranks)
    return total


def _ranks_that_end(tasks: Sequence[Task]) -> list[list[int]]:
    """Return for each task the ranks that no later one has; -1 for those without a number."""
    ending: list[list[int]] = [[] for _ in tasks]
    seen: set[int] = set()
    for number in reversed(range(len(tasks))):
        new = _ranks_of(tasks[number]) - seen
        ending[number] = sorted(new)
        seen |= new
    return ending


def _ranks_of(task: Task) -> set[int]:
    """Return the ranks whose spans a task adds up."""
    if task.traces.spans_backend is None:
        return set()
    rank = task.places.rank
    return set(np.unique(rank if task.profiles is None else rank[task.profiles]).tolist())


def _tasks(
    experiment: Experiment, by: tuple[By, ...], window: Window | None, mode: WindowMode, profiles: Ints | None
) -> Iterator[Task]:
    traces, places = experiment.traces, Places.of(experiment)
    parts = traces.parts()
    if traces.split is None:
        for number, part in enumerate(parts):
            chosen = part if profiles is None else np.intersect1d(part, profiles)
            if len(chosen):
                alone = Traces(spans_backend=traces.spans_backend)
                yield Task(
                    alone, number, places, chosen if len(parts) > 1 or profiles is not None else None, by, window, mode
                )
        yield Task(Traces(counters_source=traces.counters), 0, places, profiles, by, window, mode)
        return
    for first, end in traces.bundles(BUNDLE_BYTES):
        bundle = np.concatenate(parts[first:end])
        rows = None if profiles is None else np.flatnonzero(np.isin(bundle, profiles))
        if rows is None or len(rows):
            places_of_bundle = places.take(bundle).keep_parts_apart(
                np.repeat(np.arange(end - first), [len(p) for p in parts[first:end]])
            )
            yield Task(traces.split(first, end), None, places_of_bundle, rows, by, window, mode)


# -- tables of a summary -----------------------------------------------------------------------------------------------
# Rows stand by section, the largest total first.
#
# table       all sections in one, for programs
# tables      one per section with the columns that it has, for people


FIRST_COLUMNS = (
    "section",
    "name",
    "count",
    "total_ns",
    "percent",
    "mean_ns",
    "median_ns",
    "min_ns",
    "max_ns",
    "std_ns",
)
LAST_COLUMNS = (
    *("p95_ns", "bytes", "bytes_per_second", "without_size", "span_ns", "process_percent", "most_at_once", "start_ns"),
    *("peak_bytes", "left_bytes", "unknown_frees"),
    *("value_mean", "value_min", "value_max"),
    *("sender", "receiver", "communicator", "tag"),
)
LISTED = ("busy", "longest-gaps", "memory", *OF_MESSAGES)  # sections whose rows come in their order
SIZED = ("copies", "allocations")  # sections whose spans have a size
Row = dict[str, Any]


def table(summary: Summary, sections: Sequence[str] = SECTIONS, limit: int | None = None) -> Table:
    """Return the summary as one table, of each section at most `limit` rows; rank, agent, ... follow the name where
    they were asked for.

    Percentages are of the section's total; of `busy` and `overlap`, of the time from a device's first operation to the
    end of its last, and `process_percent` of the same of its process. Bytes per second are those of the copies whose
    size is known; `without_size` counts the others.
    """
    by_section = rows_by_section(summary, sections)
    shown = [row for rows in by_section.values() for row in rows[:limit]]
    left = sum(len(rows) for rows in by_section.values()) - len(shown)
    divided = (by.value for by in summary.by)
    return _make_table(summary, shown, left, ("section", "name", "count", "total_ns", "percent", *divided))


def tables(summary: Summary, sections: Sequence[str] = SECTIONS, limit: int | None = None) -> Iterator[Table]:
    """Yield a table for each section that has rows, with at most `limit` of them, headed by the name of the section."""
    for section, rows in rows_by_section(summary, sections).items():
        divisions = [by.value for by in summary.by if by in DIVIDES.get(section, summary.by)]
        made = _make_table(summary, rows[:limit], len(rows) - len(rows[:limit]), ("name", *divisions))
        columns = [replace(c, name=section) if c.name == "name" else c for c in made.columns if c.name != "section"]
        yield replace(made, columns=tuple(columns))


def sections_of(summary: Summary, sections: Sequence[str] = SECTIONS) -> list[str]:
    """Return the sections that have rows."""
    return list(rows_by_section(summary, sections))


def rows_by_section(summary: Summary, sections: Sequence[str]) -> dict[str, list[Row]]:
    """Return the rows of each section, in the order in which they are shown."""
    by_section: dict[str, list[Row]] = {section: [] for section in SECTIONS if section in sections}
    for row in _rows(summary):
        if row["section"] in by_section:
            by_section[row["section"]].append(row)
    divided = tuple(by.value for by in summary.by)
    for section, rows in by_section.items():
        if section not in LISTED:
            rows.sort(key=lambda row: _sort_key(row, divided))
    return {section: rows for section, rows in by_section.items() if rows}


def _make_table(summary: Summary, rows: Sequence[Row], left: int, always: Sequence[str]) -> Table:
    """Return the columns in use, those named in `always` in any case."""
    divided = tuple(by.value for by in summary.by)
    places = tuple(name for name in ("run", "rank", "agent") if name not in divided)
    names = (*FIRST_COLUMNS[:2], *divided, *places, *FIRST_COLUMNS[2:], *LAST_COLUMNS)
    used = [name for name in names if name in always or any(row.get(name) is not None for row in rows)]
    return replace(Table.from_rows(used, [[row.get(name) for name in used] for row in rows]), left=left)


def _sort_key(row: Row, divided: Sequence[str]) -> tuple[Any, ...]:
    """Return rows with the most time first, then by name: the order does not tell in which parts the spans were summed
    up."""
    values = [row.get(name) for name in divided]
    return (-(row.get("total_ns") or 0), row["name"], [(value is None, value) for value in values])


def _rows(summary: Summary) -> Iterator[Row]:
    statistics = summary.durations.statistics()
    keys = list(summary.keys)
    totals: dict[str, int] = {}
    for group, total in zip(statistics.group.tolist(), statistics.total.tolist(), strict=True):
        totals[keys[group][0]] = totals.get(keys[group][0], 0) + total
    for k, group in enumerate(statistics.group.tolist()):
        section, name, values = keys[group]
        share = None if section == "latency" else _percent(int(statistics.total[k]), totals[section])
        row: Row = {"section": section, "name": name, "percent": share}
        row |= _describe_sizes(section, summary.sizes.get(group), int(statistics.count[k]))
        yield row | _division_cells(summary, values) | _statistics(statistics, k)
    yield from map(_busy_row, sorted(summary.devices, key=lambda device: (device.run, device.rank, device.agent)))
    yield from _overlap_rows(summary)
    yield from (_make_gap_row(gap) for gap in summary.longest_gaps)
    yield from (_memory_row(peak) for peak in summary.memory)
    yield from map(_message_row, summary.messages)
    for (name, division), (count, value, low, high) in summary.counters.items():
        row = {"section": "counters", "name": name, "count": int(count), **_division_cells(summary, division)}
        yield row | {"value_mean": value / count, "value_min": low, "value_max": high}


def _describe_sizes(section: str, sizes: Sizes | None, count: int) -> Row:
    """Return bytes and rate of those spans whose size is known, and how many others there are."""
    known = sizes if sizes is not None else Sizes(0, 0, 0)
    return {
        "bytes": known.n_bytes if known.count else None,
        "bytes_per_second": known.bytes_per_second if section == "copies" else None,
        "without_size": (count - known.count or None) if section in SIZED else None,
    }


def _statistics(statistics: Statistics, k: int) -> Row:
    std = float(statistics.std[k])
    return {
        "count": int(statistics.count[k]),
        "total_ns": int(statistics.total[k]),
        "mean_ns": float(statistics.mean[k]),
        "median_ns": float(statistics.median[k]),
        "min_ns": int(statistics.minimum[k]),
        "max_ns": int(statistics.maximum[k]),
        "std_ns": None if np.isnan(std) else std,
        "p95_ns": int(statistics.p95[k]),
    }


def _division_cells(summary: Summary, division: Division) -> Row:
    return dict(zip((by.value for by in summary.by), division, strict=True))


def _busy_row(device: DeviceSums) -> Row:
    return {
        "section": "busy",
        "name": f"GPU {device.agent}" if device.agent >= 0 else "GPU",
        "run": device.run if device.run >= 0 else None,
        "rank": device.rank if device.rank >= 0 else None,
        "agent": device.agent if device.agent >= 0 else None,
        "count": device.n_operations,
        "total_ns": device.busy_ns,
        "percent": _percent(device.busy_ns, device.span_ns),
        "span_ns": device.span_ns,
        "process_percent": _percent(device.busy_ns, device.process_ns),
        "most_at_once": device.most_at_once,
    }


def _overlap_rows(summary: Summary) -> Iterator[Row]:
    """Yield what went on at once on all devices together, or on those of each rank or agent; percent is of their
    time."""
    lengths: dict[tuple[Division, str], int] = {}
    spans: dict[Division, int] = {}
    for device in summary.devices:
        known = {By.RANK: device.rank, By.AGENT: device.agent}
        division: Division = tuple(None if known.get(by, -1) < 0 else known[by] for by in summary.by)
        spans[division] = spans.get(division, 0) + device.span_ns
        for name, length in device.going_on_ns.items():
            lengths[division, name] = lengths.get((division, name), 0) + length
    for (division, name), length in lengths.items():
        if length:
            row = {"section": "overlap", "name": name, "total_ns": length, "percent": _percent(length, spans[division])}
            yield row | _division_cells(summary, division)


def _make_gap_row(gap: Gap) -> Row:
    """Return the row of gaps; its name says what they are due to, the largest part first."""
    causes = sorted(gap.cause_ns, key=lambda cause: -gap.cause_ns[cause])
    return {
        "section": "longest-gaps",
        "name": ", ".join(causes),
        "run": gap.run if gap.run >= 0 else None,
        "rank": gap.rank if gap.rank >= 0 else None,
        "agent": gap.agent if gap.agent >= 0 else None,
        "total_ns": gap.length_ns,
        "start_ns": gap.start_ns,
    }


def _memory_row(peak: MemoryPeak) -> Row:
    return {
        "section": "memory",
        "name": f"{peak.device} {peak.level}".strip(),
        "run": peak.run if peak.run >= 0 else None,
        "rank": peak.rank if peak.rank >= 0 else None,
        "count": peak.n_changes,
        "peak_bytes": peak.peak_bytes,
        "left_bytes": peak.left_bytes,
        "start_ns": peak.peak_ns,
        "unknown_frees": peak.n_unknown or None,
    }


def _message_row(sums: MessageSums) -> Row:
    return {
        "section": "collectives" if sums.operation else "messages",
        "name": sums.name,
        "sender": sums.sender if sums.sender >= 0 else None,
        "receiver": sums.receiver if sums.receiver >= 0 else None,
        "communicator": sums.communicator,
        "tag": sums.tag,
        "count": sums.count,
        "bytes": sums.n_bytes,
    }


def _percent(part: int, whole: int) -> float | None:
    return 100.0 * part / whole if whole else None


# -- peaks of memory, and what was never freed -------------------------------------------------------------------------


COLUMNS = ("profile", "kind", LABEL, "end_ns")
FOR_EVER = 2**63 - 1


def memory_peaks(
    experiment: Experiment, profiles: Ints | None = None, window: Window | None = None
) -> list[MemoryPeak]:
    """Return the peaks of memory of every process and device with allocations. In a window, what is in use when it
    begins counts too."""
    traces, places = experiment.traces, Places.of(experiment)
    peaks: list[MemoryPeak] = []
    for part, profiles_of_part in enumerate(traces.parts()):
        chosen = profiles_of_part if profiles is None else np.intersect1d(profiles_of_part, profiles)
        if len(chosen):
            peaks += _of_part(traces, part, chosen, places, window)
    return sorted(peaks, key=lambda peak: (peak.run, peak.rank, peak.device, peak.level))


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
            spans_of_process = np.flatnonzero(process == number)
            first = some["profile"][spans_of_process[0]]
            ranks[number] = int(places.rank[first]), int(places.run[first])
            memory = memories.setdefault(number, MemoryInUse())
            _add(
                memory,
                traces,
                {name: column[spans_of_process] for name, column in some.items()},
                table,
                place[spans_of_process],
                levels,
            )
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
