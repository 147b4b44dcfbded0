"""The summary of one part of a trace, such as one database: all of its spans at once, as columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, product

import numpy as np

from callgrove.analysis.devices import CAUSES, CLASSES, Activity, DeviceUses, device_uses, latency
from callgrove.analysis.summary_sections import (
    DIVIDES,
    N_LONGEST,
    ON_DEVICE,
    SECTION_OF,
    By,
    DeviceSums,
    Division,
    Gap,
    Places,
    Sizes,
    Summary,
    WindowMode,
)
from callgrove.arrays import ABSENT, Array, Bools, Ids, Ints, choose_rows, distinct_rows
from callgrove.model.activities import is_collective
from callgrove.model.experiment import Severity
from callgrove.model.traces.events import (
    LABEL,
    FindsLater,
    SideTable,
    SpanKind,
    Traces,
    Window,
    find_rows,
    touch_window,
)
from callgrove.model.traces.intervals import enclosing, usable
from callgrove.model.traces.pairing import find_launching_calls

__all__ = ["Task", "of_part"]

LAUNCHING = (SpanKind.API, SpanKind.MARKER, SpanKind.REGION)
COLUMNS = ("profile", "kind", LABEL, "start_ns", "end_ns", "correlation")
COMPUTE, COMMUNICATE, COPY = range(len(CLASSES))
NOTHING = ""
DIGITS, ANY_DIGITS = re.compile(r"[0-9]+"), "#"


@dataclass(frozen=True)
class Task:
    """A part, and what to find out about it. `side` numbers it among the parts of its traces; None: all of them."""

    traces: Traces
    side: int | None
    places: Places
    profiles: Ints | None  # only these
    by: tuple[By, ...] = ()
    window: Window | None = None
    mode: WindowMode = WindowMode.INSIDE
    with_devices: bool = True  # whether how busy they were, and why not, is asked for
    ignore_digits: bool = False  # whether names that differ in digits alone are one


@dataclass(frozen=True)
class _Spans:
    """Spans as columns; names are numbers of strings. Of what a call launched, also the number of the call among all
    spans that were read (-1: not known) and the marker around it, where that was asked for."""

    profile: Ids
    kind: Ids
    category: Ids
    name: Ids
    start_ns: Ints
    end_ns: Ints
    call: Array
    marker: Ints
    span: Ints
    is_cut: Array  # by the ends of a window: what remains has a duration of its own, and no size
    on_device: Bools

    def take(self, rows: Array | slice) -> _Spans:
        return _Spans(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))

    def __len__(self) -> int:
        return len(self.span)


def of_part(task: Task) -> Summary:
    """Return the summary of one part."""
    summary = Summary(task.by)
    every = _read(task, summary)
    if every is not None:
        spans, strings = _spans_in_window(*every, task, summary), _strings(task.traces)
        _add_durations(summary, task, spans, strings)
        if task.with_devices:
            _add_devices(summary, task, spans, strings, every[0])
    _add_counters(summary, task)
    if isinstance(task.traces.spans_backend, FindsLater):
        warnings = task.traces.spans_backend.warnings
        summary.damage = [warning.text for warning in warnings if warning.severity == Severity.DAMAGE]
    task.traces.release()
    return summary


def _strings(traces: Traces) -> Sequence[str]:
    return traces.spans_backend.strings if traces.spans_backend is not None else ()


def _among(kind: Ids, kinds: Sequence[SpanKind]) -> Bools:
    out: Bools = kind == kinds[0]
    for other in kinds[1:]:
        out |= kind == other
    return out


def _read(task: Task, summary: Summary) -> tuple[_Spans, Array] | None:
    """Return all spans, and which of them can be measured. Calls and markers are looked for among all: they may lie
    outside of the window."""
    wanted = (*COLUMNS, *(["category"] if By.DOMAIN in task.by else []))
    columns = _columns(task, (*wanted, "span"))
    if columns is None:
        return None
    start, end = columns["start_ns"], columns["end_ns"]
    valid = usable(start, end)
    summary.n_read, summary.n_flagged = len(start), int((~valid).sum())
    on_device = _among(columns["kind"], ON_DEVICE)
    host = choose_rows(_among(columns["kind"], LAUNCHING) & valid)
    calls = find_launching_calls(columns, task.places.process, choose_rows(on_device), host)
    nothing: Array = np.broadcast_to(np.int32(ABSENT), len(start))
    spans = _Spans(
        columns["profile"],
        columns["kind"],
        columns.get("category", nothing),
        columns[LABEL],
        start,
        end,
        calls,
        _markers(columns, valid, on_device, calls) if By.MARKER in task.by else nothing,
        columns["span"],
        np.broadcast_to(np.False_, len(start)),
        on_device,
    )
    return spans, valid


def _columns(task: Task, names: Sequence[str]) -> dict[str, Array] | None:
    """Return all spans of the task; None where there are none. Who knows how many there are needs the memory once."""
    chunks = task.traces.spans([name for name in names if name != "span"], None, task.profiles)
    first = next(chunks, None)
    if first is None:
        return None
    n = task.traces.n_spans if task.profiles is None else 0
    if n <= len(first["span"]):
        rest = [first, *chunks]
        return {name: np.concatenate([chunk[name] for chunk in rest]) for name in names}
    out = {name: np.empty(n, first[name].dtype) for name in names}
    filled = 0
    for chunk in chain([first], chunks):
        end = filled + len(chunk["span"])
        for name in names:
            out[name][filled:end] = chunk[name]
        filled = end
    return {name: column[:filled] for name, column in out.items()}


def _spans_in_window(spans: _Spans, valid: Array, task: Task, summary: Summary) -> _Spans:
    kept, start, end = valid, spans.start_ns, spans.end_ns
    if task.window is not None:
        low, high = task.window
        if task.mode is WindowMode.INSIDE:
            kept = kept & (start >= low) & (end <= high)
        else:
            kept = kept & touch_window(start, end, task.window)
    shown = spans if kept.all() else spans.take(kept)
    summary.n_shown = len(shown)
    summary.n_unlinked = int((shown.on_device & (shown.call == ABSENT)).sum())
    if task.window is None or task.mode is not WindowMode.CLIP:
        return shown
    is_cut = (shown.start_ns < low) | (shown.end_ns > high)
    times = {"start_ns": np.maximum(shown.start_ns, low), "end_ns": np.minimum(shown.end_ns, high), "is_cut": is_cut}
    return _Spans(**{name: times.get(name, getattr(shown, name)) for name in shown.__dataclass_fields__})


def _markers(columns: dict[str, Array], valid: Array, on_device: Bools, calls: Array) -> Ints:
    """Return the name of the innermost marker around a span's call, or around a host span itself."""
    outer = np.flatnonzero((columns["kind"] == SpanKind.MARKER) & valid)
    host = np.where(calls >= 0, calls, np.arange(len(calls)))
    start, end, profile = columns["start_ns"], columns["end_ns"], columns["profile"]
    marker = enclosing(
        (start[outer], end[outer]),
        (start[host], end[host]),
        profile[outer],
        profile[host],
    )
    names = np.append(columns[LABEL][outer], ABSENT).astype(np.int64)[marker]
    return np.where(on_device & (calls < 0), ABSENT, names)


# -- durations by name -------------------------------------------------------------------------------------------------


def _add_durations(summary: Summary, task: Task, spans: _Spans, strings: Sequence[str]) -> None:
    if not len(spans):
        return
    columns = [_divide(by, spans, task.places, strings) for by in summary.by]
    groups, number = distinct_rows(spans.kind, spans.name, *columns)
    keys = np.array([_key(summary, task, group, strings) for group in groups.T.tolist()], np.int64).take(number)
    del number
    summary.durations.add(keys, spans.end_ns - spans.start_ns)
    for side in ("copy", "alloc"):
        _add_sizes(summary, task.traces.side(side, task.side), spans, keys)


def _divide(by: By, spans: _Spans, places: Places, strings: Sequence[str]) -> Ints:
    """Return what divides rows, as a number for each span; -1 is nothing."""
    if by is By.DOMAIN:
        return _domains(spans.category, strings)
    if by is By.MARKER:
        return spans.marker
    column: Ints = getattr(places, by.value)[spans.profile]
    return column


def _domains(category: Ids, strings: Sequence[str]) -> Ints:
    """Return the first string that has the same first word, for each category."""
    words: dict[str, int] = {}
    used = np.unique(category[category >= 0]).tolist()
    first = np.full(len(strings) + 1, ABSENT, np.int64)
    for number in used:
        first[number] = words.setdefault(strings[number].partition("_")[0], number)
    return first[category]


def _key(summary: Summary, task: Task, group: Sequence[int], strings: Sequence[str]) -> int:
    kind, name, *divided = group
    values = tuple(_value(by, number, strings, task) for by, number in zip(task.by, divided, strict=True))
    text = _name(strings[name], task) if name >= 0 else SpanKind(kind).word
    if By.DOMAIN in task.by:
        text = NOTHING  # one row per domain
    return summary.key(SECTION_OF[SpanKind(kind)], text, values)


def _value(by: By, number: int, strings: Sequence[str], task: Task) -> int | str | None:
    if number < 0:
        return None
    if by is By.DOMAIN:
        return strings[number].partition("_")[0]
    return _name(strings[number], task) if by is By.MARKER else number


def _name(text: str, task: Task) -> str:
    return DIGITS.sub(ANY_DIGITS, text) if task.ignore_digits else text


def _add_sizes(summary: Summary, table: SideTable | None, spans: _Spans, keys_of_spans: Ints) -> None:
    if table is None or "bytes" not in table.columns:
        return
    row = find_rows(spans.span, table.span)
    sizes = np.asarray(table.columns["bytes"]).astype(np.int64)
    here = np.flatnonzero((row >= 0) & (sizes >= 0))
    here = here[~spans.is_cut[row[here]]]
    keys, number = distinct_rows(keys_of_spans[row[here]])
    columns = (sizes[here], np.ones(len(here), np.int64), (spans.end_ns - spans.start_ns)[row[here]])
    sums = np.zeros((len(columns), keys.shape[1]), np.int64)
    for total, column in zip(sums, columns, strict=True):
        np.add.at(total, number, column)
    for key, known in zip(keys[0].tolist(), sums.T.tolist(), strict=True):
        summary.add_sizes(key, Sizes(*known))


# -- devices -----------------------------------------------------------------------------------------------------------


def _add_devices(summary: Summary, task: Task, spans: _Spans, strings: Sequence[str], every: _Spans) -> None:
    """Add the use of devices; `every` are the spans among which calls are looked for."""
    operations = spans.take(choose_rows(spans.on_device))
    if not len(operations):
        return
    places = task.places
    activity = Activity(
        operations.start_ns,
        operations.end_ns,
        _classes(operations.kind, operations.name, strings),
        _of_calls(every.start_ns, operations.call),
        _of_calls(every.end_ns, operations.call),
    )
    profiles, device = _devices_of(operations.profile, places)
    uses = device_uses(activity, device, len(profiles))
    ranks, agents, runs = places.rank[profiles], places.agent[profiles], places.run[profiles]
    lasts = _measure_processes(spans, places)[places.process[profiles]]
    columns = (ranks, agents, uses.n_operations, uses.busy_ns, uses.span_ns, lasts, uses.most_at_once)
    for row in zip(*(column.tolist() for column in columns), uses.going_on(), runs.tolist(), strict=True):
        summary.devices.append(DeviceSums(*row))
    summary.add_gaps(_longest_gaps(uses, ranks, agents, runs))
    _add_latencies(summary, task, activity, operations, strings)
    known = {By.RANK: ranks[uses.gap_device], By.AGENT: agents[uses.gap_device]}
    nothing = np.full(len(uses.gap_ns), ABSENT)
    divisions, number = _divisions(task, [known.get(by, nothing) for by in task.by], len(nothing), strings)
    for cause in CAUSES:
        length = uses.cause_ns[cause]
        keys = [summary.key("gaps", cause, division) for division in divisions]
        lasting = length > 0
        summary.durations.add(_keys_of(keys, number, lasting), length[lasting])


def _of_calls(times: Ints, call: Array) -> Ints:
    """Return the times of calls by row; absent where no call is known."""
    if int(call.min()) >= 0:
        return times.take(call)
    return np.where(call >= 0, times.take(call, mode="clip"), ABSENT)


def _keys_of(keys: Sequence[int], number: Ints, rows: Bools | slice) -> Ints | int:
    """Return the key of each row, given which key each has; one for all where there is one."""
    return keys[0] if len(keys) == 1 else np.array(keys, np.int64)[number[rows]]


def _divisions(task: Task, columns: Sequence[Ints], n_rows: int, strings: Sequence[str]) -> tuple[list[Division], Ints]:
    """Return the different divisions of rows, and which of them each row is in; one where nothing divides."""
    if not columns:
        return [()], np.zeros(n_rows, np.int64)
    groups, number = distinct_rows(*columns)
    return [
        tuple(_value(by, one, strings, task) for by, one in zip(task.by, group, strict=True))
        for group in groups.T.tolist()
    ], number


def _add_latencies(
    summary: Summary, task: Task, activity: Activity, operations: _Spans, strings: Sequence[str]
) -> None:
    delays = latency(activity)
    linked = operations.take(activity.linked) if task.by else operations
    columns = [_divide(by, linked, task.places, strings) for by in task.by]
    divisions, number = _divisions(task, columns, len(delays.call_ns), strings)
    lengths = {"call": delays.call_ns, "delay": delays.delay_ns, "call and delay": delays.total_ns}
    for name, length in lengths.items():
        keys = [summary.key("latency", name, division) for division in divisions]
        summary.durations.add(_keys_of(keys, number, slice(None)), length)


def _devices_of(profile: Ids, places: Places) -> tuple[Ints, Ids]:
    """Return the devices that operations on these profiles ran on, by process and agent: a profile of each; and the
    device of each operation."""
    _, of_profile = distinct_rows(places.process, places.agent)
    first = np.full(len(of_profile), len(profile))  # the operation that comes first
    device = of_profile.take(profile)
    used = np.flatnonzero(np.bincount(device, minlength=len(first)))
    number = np.zeros(len(first), np.int32)
    number[used] = np.arange(len(used))
    first[device[::-1]] = np.arange(len(device))[::-1]
    return profile[first[used]].astype(np.int64), number.take(device)


def _longest_gaps(uses: DeviceUses, ranks: Ints, agents: Ints, runs: Ints) -> Iterator[Gap]:
    n = min(N_LONGEST, len(uses.gap_ns))
    if not n:
        return
    least = np.partition(uses.gap_ns, len(uses.gap_ns) - n)[len(uses.gap_ns) - n]
    rows = np.flatnonzero(uses.gap_ns >= least)
    device = uses.gap_device[rows]
    order = np.lexsort((uses.gap_start_ns[rows], agents[device], ranks[device], runs[device], -uses.gap_ns[rows]))
    for k in rows[order[:n]].tolist():
        parts = {cause: int(uses.cause_ns[cause][k]) for cause in CAUSES if uses.cause_ns[cause][k]}
        device_number = int(uses.gap_device[k])
        place = int(ranks[device_number]), int(agents[device_number])
        yield Gap(*place, int(uses.gap_start_ns[k]), int(uses.gap_ns[k]), parts, int(runs[device_number]))


def _measure_processes(spans: _Spans, places: Places) -> Ints:
    """Return the time from the first to the last moment of every process. Spans of one process follow each other for a
    while."""
    process = places.process.take(spans.profile)
    begins = np.flatnonzero(np.append(True, process[1:] != process[:-1]))
    n = int(places.process.max()) + 1
    first, last = np.full(n, np.iinfo(np.int64).max), np.zeros(n, np.int64)
    np.minimum.at(first, process[begins], np.minimum.reduceat(spans.start_ns, begins))
    np.maximum.at(last, process[begins], np.maximum.reduceat(spans.end_ns, begins))
    lengths: Ints = last - first
    return lengths


def _classes(kind: Ids, name: Ids, strings: Sequence[str]) -> Array:
    """Compute, communication or copy, for each span on a device."""
    is_kernel = kind == SpanKind.KERNEL
    table = np.full(len(strings) + 1, COMPUTE, np.int8)
    used = np.zeros(len(strings) + 1, np.bool_)  # the last one is for no name
    used[name[is_kernel]] = True
    for number in np.flatnonzero(used[:-1]).tolist():
        if is_collective(strings[number]):
            table[number] = COMMUNICATE
    return np.where(is_kernel, table[name], np.int8(COPY))


def _add_counters(summary: Summary, task: Task) -> None:
    counters = task.traces.counters
    if counters is None:
        return
    kept = np.ones(len(counters), np.bool_)
    if task.window is not None:
        kept &= (counters.time_ns >= task.window[0]) & (counters.time_ns <= task.window[1])
    if task.profiles is not None:
        kept &= np.isin(counters.profile, task.profiles)
    kept &= ~np.isnan(counters.value)
    places = {by: getattr(task.places, by.value) for by in task.by if by in DIVIDES["counters"]}
    nothing = np.full(len(counters), ABSENT)
    columns = [places[by][counters.profile] if by in places else nothing for by in task.by]
    divisions, of_row = _divisions(task, columns, len(counters), ())
    for name, division in product(range(len(counters.names)), range(len(divisions))):
        values = counters.value[kept & (counters.name == name) & (of_row == division)].astype(np.float64)
        if len(values):
            key = counters.names[name], divisions[division]
            summary.counters[key] = [len(values), float(values.sum()), float(values.min()), float(values.max())]
