"""What a traced run did: kernels, calls, copies, allocations, markers; how busy devices were, and why not.

    summarise(experiment, ...)   one `Summary` per part of the trace, added up; parts are read one at a time
    table(summary)               the rows that `callgrove summary` prints

Durations of spans that end before they start are not added up; they are counted (`n_backwards`). Statistics are exact.
Percentages are of the section (busy and overlap: of the time from a device's first operation to the end of its last).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np

from callgrove.analysis.devices import CAUSES, CLASSES, Activity, DeviceUse, device_use, latency
from callgrove.analysis.durations import Durations, Statistics
from callgrove.model.arrays import ABSENT, Array, Bools, Ids, Ints
from callgrove.model.experiment import Experiment
from callgrove.model.intervals import enclosing, usable
from callgrove.model.launches import launch_calls
from callgrove.model.profiles import ProfileKind
from callgrove.model.table import Table
from callgrove.model.traces import LABEL, SideTable, SpanKind, Window

__all__ = ["SECTIONS", "By", "Summary", "WindowMode", "summarise", "table"]

SECTION_OF = {
    SpanKind.KERNEL: "kernels",
    SpanKind.API: "api",
    SpanKind.SYNC: "api",
    SpanKind.COPY: "copies",
    SpanKind.MEMSET: "copies",
    SpanKind.ALLOC: "allocations",
    SpanKind.MARKER: "markers",
    SpanKind.REGION: "regions",
}
SPAN_SECTIONS = ("kernels", "api", "copies", "allocations", "markers", "regions")
SECTIONS = (*SPAN_SECTIONS, "counters", "busy", "overlap", "gaps", "latency")
ON_DEVICE = (SpanKind.KERNEL, SpanKind.COPY, SpanKind.MEMSET)
LAUNCHING = (SpanKind.API, SpanKind.MARKER, SpanKind.REGION)
COLUMNS = ("profile", "kind", "category", LABEL, "start_ns", "end_ns", "correlation")
COMMUNICATION = ("nccl", "rccl")  # kernels of collective libraries
COMPUTE, COMMUNICATE, COPY = range(len(CLASSES))
NOTHING = ""


class By(StrEnum):
    """What rows are divided by, beyond section and name."""

    RANK = "rank"
    AGENT = "agent"
    STREAM = "stream"
    DOMAIN = "domain"  # HIP, HSA, ...: the first word of a span's category
    MARKER = "marker"  # the innermost marker around the call that launched an operation


class WindowMode(StrEnum):
    """Which spans belong to a window of time, and how much of them."""

    INSIDE = "inside"
    TOUCH = "touch"
    CLIP = "clip"


Key = tuple[str, str, tuple[int | str | None, ...]]  # section, name, one value per `By`


@dataclass
class Summary:
    """What one or several parts of a trace add up to."""

    by: tuple[By, ...] = ()
    keys: dict[Key, int] = field(default_factory=dict)
    durations: Durations = field(default_factory=Durations)
    sizes: dict[int, int] = field(default_factory=dict)  # key -> bytes
    devices: list[tuple[int, int, DeviceUse]] = field(default_factory=list)  # rank, agent
    counters: dict[str, list[float]] = field(default_factory=dict)  # name -> count, sum, minimum, maximum
    n_spans: int = 0
    n_backwards: int = 0
    n_unlinked: int = 0

    def key(self, section: str, name: str, values: tuple[int | str | None, ...] = ()) -> int:
        return self.keys.setdefault((section, name, values), len(self.keys))

    def merge(self, other: Summary) -> Summary:
        """Add what another part found."""
        number = np.array([self.key(*key) for key in other.keys] or [0], np.int64)
        self.durations.merge(other.durations.renumbered(number))
        for key, size in other.sizes.items():
            own = int(number[key])
            self.sizes[own] = self.sizes.get(own, 0) + size
        self.devices += other.devices
        for name, (count, total, low, high) in other.counters.items():
            have = self.counters.setdefault(name, [0, 0.0, np.inf, -np.inf])
            self.counters[name] = [have[0] + count, have[1] + total, min(have[2], low), max(have[3], high)]
        self.n_spans += other.n_spans
        self.n_backwards += other.n_backwards
        self.n_unlinked += other.n_unlinked
        return self


@dataclass(frozen=True)
class Places:
    """Where each profile is, as columns by profile; -1 where it is not."""

    process: Ids
    rank: Ints
    agent: Ints
    stream: Ints

    @classmethod
    def of(cls, experiment: Experiment) -> Places:
        profiles = experiment.profiles
        columns = {name: _numbers(*profiles.identity(name)) for name in ("node", "rank", "gpu_device", "gpu_stream")}
        pairs = np.stack([columns["node"], columns["rank"]])
        _, process = np.unique(pairs, axis=1, return_inverse=True)
        agent = np.where(
            (columns["gpu_device"] < 0) & (profiles.kind == ProfileKind.GPU_STREAM), 0, columns["gpu_device"]
        )
        return cls(process.reshape(-1).astype(np.int32), columns["rank"], agent, columns["gpu_stream"])


def _numbers(values: Array, present: Bools) -> Ints:
    return np.where(present & (values < 2**62), values, 0).astype(np.int64) - (~present).astype(np.int64)


@dataclass(frozen=True)
class _Spans:
    """The spans of one part, as columns; names are numbers of the experiment's strings."""

    profile: Ids
    kind: Ids
    category: Ids
    name: Ids
    start_ns: Ints
    end_ns: Ints
    correlation: Ints
    span: Ints

    def take(self, rows: Array) -> _Spans:
        return _Spans(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))

    def __len__(self) -> int:
        return len(self.span)


def summarise(
    experiment: Experiment,
    by: Sequence[By] = (),
    window: Window | None = None,
    mode: WindowMode = WindowMode.INSIDE,
    profiles: Ints | None = None,
) -> Summary:
    """The whole trace, part by part; memory holds one part."""
    places = Places.of(experiment)
    total = Summary(tuple(by))
    for number, part in enumerate(experiment.traces.parts()):
        chosen = part if profiles is None else np.intersect1d(part, profiles)
        if len(chosen):
            total.merge(_of_part(experiment, places, tuple(by), window, mode, number, chosen))
    _add_counters(total, experiment, window, profiles)
    return total


def _of_part(
    experiment: Experiment,
    places: Places,
    by: tuple[By, ...],
    window: Window | None,
    mode: WindowMode,
    number: int,
    profiles: Ints,
) -> Summary:
    summary = Summary(by)
    spans = _read(experiment, window, mode, profiles)
    summary.n_spans = len(spans)
    valid = usable(spans.start_ns, spans.end_ns)
    summary.n_backwards = int((~valid).sum())
    spans = spans.take(valid)
    calls = _calls(spans, places)
    _add_durations(summary, experiment, number, spans, places, calls)
    _add_devices(summary, experiment, spans, places, calls)
    return summary


def _read(experiment: Experiment, window: Window | None, mode: WindowMode, profiles: Ints) -> _Spans:
    chunks = list(experiment.traces.spans(COLUMNS, window, profiles))
    types = {"profile": np.int32, "kind": np.int32, "category": np.int32, LABEL: np.int32}
    columns = {
        name: np.concatenate([chunk[name] for chunk in chunks] or [np.empty(0, types.get(name, np.int64))])
        for name in (*COLUMNS, "span")
    }
    if window is not None:
        start, end = columns["start_ns"], columns["end_ns"]
        if mode is WindowMode.INSIDE:
            kept = (start >= window[0]) & (end <= window[1])
            columns = {name: column[kept] for name, column in columns.items()}
        elif mode is WindowMode.CLIP:
            columns["start_ns"], columns["end_ns"] = np.maximum(start, window[0]), np.minimum(end, window[1])
    return _Spans(name=columns.pop(LABEL), **columns)


def _calls(spans: _Spans, places: Places) -> Ints:
    """For each span the row of the host call that launched it; -1 for host spans and where no call is known."""
    on_device = np.isin(spans.kind, ON_DEVICE)
    api = np.flatnonzero(np.isin(spans.kind, LAUNCHING))
    out = np.full(len(spans), ABSENT, np.int64)
    found = launch_calls(
        spans.correlation[on_device],
        places.process[spans.profile[on_device]].astype(np.int64),
        spans.correlation[api],
        places.process[spans.profile[api]].astype(np.int64),
        spans.start_ns[api],
        spans.start_ns[on_device],
    )
    out[on_device] = np.append(api, ABSENT)[found]
    return out


# -- durations by name -----------------------------------------------------------------------------------------------


def _add_durations(
    summary: Summary, experiment: Experiment, part: int, spans: _Spans, places: Places, calls: Ints
) -> None:
    strings = _strings(experiment)
    columns = [spans.kind.astype(np.int64), spans.name.astype(np.int64)]
    columns += [_divided(by, spans, places, calls, strings) for by in summary.by]
    if not len(spans):
        return
    groups, number = np.unique(np.stack(columns), axis=1, return_inverse=True)
    keys = np.array([_key(summary, group, strings) for group in groups.T.tolist()], np.int64)
    own = keys[number.reshape(-1)]
    summary.durations.add(own, spans.end_ns - spans.start_ns)
    for side in ("copy", "alloc"):
        _add_sizes(summary, experiment.traces.side(side, part), spans, own)


def _divided(by: By, spans: _Spans, places: Places, calls: Ints, strings: Sequence[str]) -> Ints:
    """What divides rows, as a number for each span; -1 is nothing."""
    if by is By.DOMAIN:
        return _domains(spans.category, strings)
    if by is By.MARKER:
        return _markers(spans, calls)
    column: Ints = getattr(places, by.value)[spans.profile]
    return column


def _domains(category: Ids, strings: Sequence[str]) -> Ints:
    """The first string that has the same first word, for each category."""
    words: dict[str, int] = {}
    used = np.unique(category[category >= 0]).tolist()
    first = np.full(len(strings) + 1, ABSENT, np.int64)
    for number in used:
        first[number] = words.setdefault(strings[number].partition("_")[0], number)
    return first[category]


def _markers(spans: _Spans, calls: Ints) -> Ints:
    """The name of the innermost marker around a span's call, or around a host span itself."""
    outer = np.flatnonzero(spans.kind == SpanKind.MARKER)
    host = np.where(calls >= 0, calls, np.arange(len(spans)))
    is_device = np.isin(spans.kind, ON_DEVICE)
    found = enclosing(
        (spans.start_ns[outer], spans.end_ns[outer]),
        (spans.start_ns[host], spans.end_ns[host]),
        spans.profile[outer],
        spans.profile[host],
    )
    names = np.append(spans.name[outer], ABSENT).astype(np.int64)[found]
    return np.where(is_device & (calls < 0), ABSENT, names)


def _key(summary: Summary, group: Sequence[int], strings: Sequence[str]) -> int:
    kind, name, *divided = group
    values = tuple(_value(by, number, strings) for by, number in zip(summary.by, divided, strict=True))
    text = strings[name] if name >= 0 else SpanKind(kind).word
    if By.DOMAIN in summary.by:
        text = NOTHING  # one row per domain
    return summary.key(SECTION_OF[SpanKind(kind)], text, values)


def _value(by: By, number: int, strings: Sequence[str]) -> int | str | None:
    if number < 0:
        return None
    if by is By.DOMAIN:
        return strings[number].partition("_")[0]
    return strings[number] if by is By.MARKER else number


def _add_sizes(summary: Summary, table: SideTable | None, spans: _Spans, own: Ints) -> None:
    if table is None or "bytes" not in table.columns or not len(spans):
        return
    order = np.argsort(spans.span, kind="stable")
    place = np.searchsorted(spans.span[order], table.span)
    place = np.minimum(place, len(order) - 1)
    here = spans.span[order][place] == table.span
    sizes = np.asarray(table.columns["bytes"])[here].astype(np.int64)
    keys = own[order[place[here]]]
    known = sizes >= 0
    for key in np.unique(keys[known]).tolist():
        summary.sizes[key] = summary.sizes.get(key, 0) + int(sizes[known & (keys == key)].sum())


def _strings(experiment: Experiment) -> Sequence[str]:
    backend = experiment.traces.spans_backend
    return backend.strings if backend is not None else ()


# -- devices ---------------------------------------------------------------------------------------------------------


def _add_devices(summary: Summary, experiment: Experiment, spans: _Spans, places: Places, calls: Ints) -> None:
    rows = np.flatnonzero(np.isin(spans.kind, ON_DEVICE))
    summary.n_unlinked = int((calls[rows] < 0).sum())
    klass = _classes(spans, _strings(experiment))
    call_start, call_end = np.append(spans.start_ns, ABSENT)[calls], np.append(spans.end_ns, ABSENT)[calls]
    profile = spans.profile[rows]
    where = np.stack([places.process[profile], places.agent[profile]]).astype(np.int64)
    for device in np.unique(where, axis=1).T:
        own = rows[(where == device[:, None]).all(axis=0)]
        activity = Activity(spans.start_ns[own], spans.end_ns[own], klass[own], call_start[own], call_end[own])
        rank, agent = int(places.rank[spans.profile[own[0]]]), int(device[1])
        use = device_use(activity)
        summary.devices.append((rank, agent, use))
        delays = latency(activity)
        for name, lengths in (
            ("call", delays.call_ns),
            ("delay", delays.delay_ns),
            ("call and delay", delays.total_ns),
        ):
            summary.durations.add(np.full(len(lengths), summary.key("latency", name)), lengths)
        for cause in CAUSES:
            lengths = use.cause_ns[cause]
            lengths = lengths[lengths > 0]
            summary.durations.add(np.full(len(lengths), summary.key("gaps", cause)), lengths)


def _classes(spans: _Spans, strings: Sequence[str]) -> Ints:
    """Compute, communication or copy, for each span on a device."""
    kernels = np.unique(spans.name[(spans.kind == SpanKind.KERNEL) & (spans.name >= 0)])
    communicate = [name for name in kernels.tolist() if any(w in strings[name].lower() for w in COMMUNICATION)]
    out = np.where(np.isin(spans.name, communicate), COMMUNICATE, COMPUTE)
    return np.where(spans.kind == SpanKind.KERNEL, out, COPY)


def _add_counters(summary: Summary, experiment: Experiment, window: Window | None, profiles: Ints | None) -> None:
    counters = experiment.traces.counters
    if counters is None:
        return
    kept = np.ones(len(counters), np.bool_)
    if window is not None:
        kept &= (counters.time_ns >= window[0]) & (counters.time_ns <= window[1])
    if profiles is not None:
        kept &= np.isin(counters.profile, profiles)
    for number, name in enumerate(counters.names):
        values = counters.value[kept & (counters.name == number)].astype(np.float64)
        if len(values):
            found = [len(values), float(values.sum()), float(values.min()), float(values.max())]
            summary.merge(Summary(summary.by, counters={name: found}))


# -- the table -------------------------------------------------------------------------------------------------------

FIRST_COLUMNS = (
    "section",
    "name",
    "count",
    "total_ns",
    "mean_ns",
    "median_ns",
    "min_ns",
    "max_ns",
    "std_ns",
    "percent",
)


def table(summary: Summary, sections: Sequence[str] = SECTIONS) -> Table:
    """Rows by section and falling total; rank, agent, ... follow where they were asked for."""
    divided = tuple(by.value for by in summary.by)
    places = tuple(name for name in ("rank", "agent") if name not in divided)
    names = (*FIRST_COLUMNS, *divided, *places, "p95_ns", "bytes", "value_mean", "value_min", "value_max")
    rows = [dict(row) for row in _rows(summary) if row["section"] in sections]
    order = {section: k for k, section in enumerate(SECTIONS)}
    rows.sort(key=lambda row: (order[row["section"]], -(row.get("total_ns") or 0)))
    used = [name for name in names if name in FIRST_COLUMNS + divided or any(row.get(name) is not None for row in rows)]
    return Table.from_rows(used, [[row.get(name) for name in used] for row in rows])


Row = dict[str, Any]


def _rows(summary: Summary) -> Iterator[Row]:
    statistics = summary.durations.statistics()
    keys = list(summary.keys)
    totals: dict[str, int] = {}
    for group, total in zip(statistics.group.tolist(), statistics.total.tolist(), strict=True):
        totals[keys[group][0]] = totals.get(keys[group][0], 0) + total
    for k, group in enumerate(statistics.group.tolist()):
        section, name, values = keys[group]
        share = None if section == "latency" else _percent(int(statistics.total[k]), totals[section])
        row: Row = {"section": section, "name": name, "percent": share, "bytes": summary.sizes.get(group)}
        row |= dict(zip((by.value for by in summary.by), values, strict=False))
        yield row | _statistics(statistics, k)
    yield from _device_rows(summary)
    for name, (count, total, low, high) in summary.counters.items():
        row = {"section": "counters", "name": name, "count": int(count)}
        yield row | {"value_mean": total / count, "value_min": low, "value_max": high}


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


def _device_rows(summary: Summary) -> Iterator[Row]:
    for rank, agent, use in sorted(summary.devices, key=lambda device: device[:2]):
        place: Row = {"rank": rank if rank >= 0 else None, "agent": agent if agent >= 0 else None}
        busy: Row = {"section": "busy", "name": f"GPU {agent}" if agent >= 0 else "GPU", "count": use.n_operations}
        yield busy | place | {"total_ns": use.busy_ns, "percent": _percent(use.busy_ns, use.span_ns)}
    span = sum(use.span_ns for _, _, use in summary.devices)
    for name, length in _overlaps([use for _, _, use in summary.devices]).items():
        if length:
            yield {"section": "overlap", "name": name, "total_ns": length, "percent": _percent(length, span)}


def _overlaps(uses: Sequence[DeviceUse]) -> dict[str, int]:
    """All devices' time by what was going on at once, idle included."""
    out: dict[str, int] = {}
    for use in uses:
        lengths = {f"{CLASSES[k]} only": length for k, length in enumerate(use.alone_ns)}
        lengths |= {" and ".join(classes): length for classes, length in use.together_ns.items()}
        for name, length in {**lengths, "idle": use.idle_ns}.items():
            out[name] = out.get(name, 0) + length
    return out


def _percent(part: int, whole: int) -> float | None:
    return 100.0 * part / whole if whole else None
