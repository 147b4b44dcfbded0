"""The events of any number of data sets as the spans of one experiment, on one clock.

Data sets come one after the other, each in file order: span number = events of the data sets before + own number.
Names and categories go through one list of strings that only grows. Depth needs all events of a data set at once, so
it is computed when asked for and kept for one data set at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path

import numpy as np

from callgrove.arrays import ABSENT, MISSING, Array, Ids, Ints, Names, Translation, bundles
from callgrove.errors import Parameter, UsageError, compose_text
from callgrove.formats.events.dataset import (
    CounterRows,
    DataSet,
    DeviceColumns,
    Events,
    Lane,
    LaneColumns,
    Process,
    Stacks,
)
from callgrove.model.experiment import Experiment, InputWarning, Severity
from callgrove.model.table import Table
from callgrove.model.traces.events import (
    LABEL,
    PARENT,
    SPAN_COLUMNS,
    Device,
    Releases,
    SideTable,
    SpanChunk,
    SpanKind,
    Window,
    separate_flows,
    touch_window,
)
from callgrove.model.traces.intervals import nesting

__all__ = [
    "HOST_KINDS",
    "NESTED_COLUMNS",
    "NONE",
    "START",
    "DataSetSpans",
    "align_clocks",
    "far_apart",
    "find_depths",
    "refuse_input_as",
    "refuse_unknown_columns",
    "select_events",
]


# -- spans -------------------------------------------------------------------------------------------------------------


NESTED_ROWS = 1 << 17  # host events of whole threads that are looked at at a time
NESTED_COLUMNS = ("kind", "lane", "start_ns", "end_ns")  # by which depths are found
HOST_KINDS = (SpanKind.API, SpanKind.MARKER, SpanKind.REGION, SpanKind.OVERHEAD)  # what nests on a thread


class DataSetSpans:
    """Spans of data sets; `profiles[d]` gives the profile of every lane of data set d. `names` are those of others who
    read some of the data sets, too."""

    def __init__(self, datasets: Sequence[DataSet], profiles: Sequence[Ids], names: Names | None = None) -> None:
        self._datasets, self._profiles = datasets, profiles
        self._names = Names() if names is None else names
        self._translations = [Translation(self._names) for _ in datasets]
        self._depths: tuple[int, Ids] = (ABSENT, np.empty(0, np.int32))

    @property
    def datasets(self) -> Sequence[DataSet]:
        return self._datasets

    def release(self) -> None:
        """Give back what data sets keep of their events; it can be read again."""
        for dataset in self._datasets:
            if isinstance(dataset, Releases):
                dataset.release()

    @property
    def strings(self) -> Sequence[str]:
        return self._names.all

    @property
    def warnings(self) -> Sequence[InputWarning]:
        """Return the warnings so far: some damage shows only when events are read."""
        return [warning for dataset in self._datasets for warning in dataset.warnings]

    @cached_property
    def firsts(self) -> list[int]:
        """Return the number of the first span of every data set, and the number of all spans."""
        return [0, *accumulate(dataset.count() for dataset in self._datasets)]

    def count(self) -> int:
        return self.firsts[-1]

    def chunks(self, columns: Sequence[str], window: Window | None, profiles: Ints | None) -> Iterator[SpanChunk]:
        refuse_unknown_columns(columns)
        for number, some in self._data_sets_with(profiles):
            yield from self._chunks_of(number, columns, window, some)

    def _data_sets_with(self, profiles: Ints | None) -> Iterator[tuple[int, Ints | None]]:
        """Yield the data sets that have any of these profiles, with the profiles where not all of the data set's are
        asked for."""
        if profiles is None:
            yield from ((number, None) for number in range(len(self._datasets)))
            return
        asked = np.zeros(len(self._owner), np.bool_)
        asked[profiles[(profiles >= 0) & (profiles < len(asked))]] = True
        for number in np.unique(self._owner[asked]).tolist():
            if number >= 0:
                yield number, None if asked[self._profiles[number]].all() else profiles

    @cached_property
    def _owner(self) -> Ids:
        """Return, by profile, the data set whose lane it is, or -1."""
        n = max((int(lane_profiles.max(initial=ABSENT)) + 1 for lane_profiles in self._profiles), default=0)
        owner = np.full(n, ABSENT, np.int32)
        for number, lane_profiles in enumerate(self._profiles):
            owner[lane_profiles] = number
        return owner

    def _chunks_of(
        self, number: int, columns: Sequence[str], window: Window | None, profiles: Ints | None
    ) -> Iterator[SpanChunk]:
        dataset, lane_profiles = self._datasets[number], self._profiles[number]
        asked = {"lane" if name == "profile" else name for name in columns} - {"depth", "context"}
        if window is not None:
            asked |= {"start_ns", "end_ns"}
        if profiles is not None:
            asked.add("lane")
        translation = self._translations[number]
        for events in dataset.events(sorted(asked)):
            selected = select_events(events, window, lane_profiles, profiles)
            if len(selected["span"]):
                yield self._translate(number, columns, selected, translation)

    def _translate(self, number: int, columns: Sequence[str], events: Events, translation: Translation) -> SpanChunk:
        local = events["span"]
        out: dict[str, Array] = {"span": local + self.firsts[number]}
        for name in columns:
            if name == "profile":
                out[name] = self._profiles[number][events["lane"]]
            elif name in ("name", "category", LABEL):
                out[name] = translation.numbers(events[name], self._datasets[number].strings)
            elif name == "depth":
                out[name] = self._depth(number)[local]
            elif name == "context":
                out[name] = np.full(len(local), ABSENT, np.int32)
            else:
                out[name] = events[name]
        return out

    def _depth(self, number: int) -> Ids:
        if self._depths[0] != number:
            dataset = self._datasets[number]
            self._depths = number, find_depths(dataset.count(), dataset.events(NESTED_COLUMNS))
        return self._depths[1]

    def parts(self) -> Sequence[Ints]:
        return [lane_profiles.astype(np.int64) for lane_profiles in self._profiles]

    def devices(self, part: int) -> Sequence[Device]:
        return self._datasets[part].devices

    def has_side(self, name: str, part: int) -> bool:
        return self._datasets[part].has_side(name)

    def side_chunks(self, name: str, part: int) -> Iterator[SideTable]:
        for table in self._datasets[part].side_chunks(name):
            yield SideTable(table.span + self.firsts[part], table.columns)

    def side(self, name: str, part: int | None = None) -> SideTable | None:
        chosen = range(len(self._datasets)) if part is None else [part]
        parts = [(self.firsts[number], self._datasets[number].side(name)) for number in chosen]
        found = [SideTable(table.span + first, table.columns) for first, table in parts if table is not None]
        if not found:
            return None
        tables = separate_flows(name, found)
        names = dict.fromkeys(column for table in tables for column in table.columns)
        return SideTable(
            np.concatenate([table.span for table in tables]),
            {column: _join_columns([_cells(table, column) for table in tables]) for column in names},
        )


def refuse_input_as(target: Path, experiment: Experiment) -> None:
    """Raise an error if a target is one of the files that still hold the events."""
    backend = experiment.traces.spans_backend
    datasets = backend.datasets if isinstance(backend, DataSetSpans) else []
    if target.resolve() in {dataset.path.resolve() for dataset in datasets}:
        raise UsageError(f"{target}: is one of the inputs, which are never modified; name another OUT")


def select_events(events: Events, window: Window | None, lane_profiles: Ids, profiles: Ints | None) -> Events:
    """Return the events in a window of time and of some profiles."""
    if window is None and profiles is None:
        return events
    is_selected = np.ones(len(events["span"]), np.bool_)
    if window is not None:
        is_selected &= touch_window(events["start_ns"], events["end_ns"], window)
    if profiles is not None:
        is_selected &= np.isin(lane_profiles[events["lane"]], profiles)
    return {name: column[is_selected] for name, column in events.items()}


def refuse_unknown_columns(columns: Sequence[str]) -> None:
    """Raise an error if spans have no such column."""
    if unknown := [name for name in columns if name not in (*SPAN_COLUMNS, LABEL, PARENT)]:
        raise UsageError(f"spans have no column {unknown[0]!r}; there are {', '.join(SPAN_COLUMNS)}")


def find_depths(n_spans: int, chunks: Iterable[Events]) -> Ids:
    """Return how deep host events nest on their thread; 0 for device events and those that end before they start.
    Threads are processed some at a time, so that memory holds little more than the times of host events."""
    out = np.zeros(n_spans, np.int32)
    columns = ("span", *NESTED_COLUMNS[1:])
    host_columns: list[list[Array]] = [[], [], [], []]
    for events in chunks:
        host = np.flatnonzero(np.isin(events["kind"], HOST_KINDS))
        for column, name in zip(host_columns, columns, strict=True):
            column.append(events[name][host])
    if not host_columns[0]:
        return out
    span, lane, start, end = (np.concatenate(column) for column in host_columns)
    host_columns.clear()
    order = np.argsort(lane, kind="stable")
    starts = np.flatnonzero(np.diff(lane[order], prepend=ABSENT))
    sizes = np.diff(starts, append=len(order)).tolist()
    bounds = [0, *accumulate(sizes)]
    for first, last in bundles(sizes, NESTED_ROWS):
        rows = order[bounds[first] : bounds[last]]
        out[span[rows]] = np.maximum(nesting(start[rows], end[rows], lane[rows]).depth, 0)
    return out


def _cells(table: SideTable, column: str) -> Array | tuple[object, ...]:
    """Return a column of a side table; all cells are absent where only another file has it."""
    return table.columns.get(column, np.full(len(table.span), ABSENT, np.int64))


def _join_columns(columns: Sequence[Array | tuple[object, ...]]) -> Array | tuple[object, ...]:
    if all(isinstance(column, np.ndarray) for column in columns):
        return np.concatenate([np.asarray(column) for column in columns])
    return tuple(cell for column in columns for cell in column)


# -- clocks of several machines, aligned as the user says --------------------------------------------------------------
# No file says how the clock of one node relates to that of another (gpu-traces.md 3.2), so times stay as they are
# stored unless one of these is asked for:
#
#     start     every process begins at 0: its own start is subtracted
#     FILE      lines of `host,nanoseconds` (or separated by blanks): what is added to the times of that host
#
# `shifted` wraps a data set; its events, counters, samples and processes come with moved times. Times that no clock
# shows (absent, negative) are not moved: they stay recognisable.


NONE, START = "none", "start"
TIMES = ("start_ns", "end_ns")


def align_clocks(datasets: Sequence[DataSet], how: str) -> tuple[list[DataSet], list[InputWarning]]:
    """Return the data sets with their times moved, and notes for the user about that."""
    if how in ("", NONE):
        return list(datasets), far_apart(datasets)
    if how == START:
        return [Shifted(dataset, _to_zero(dataset)) for dataset in datasets], []
    offsets = _table(Path(how))
    hosts = {process.host for dataset in datasets for process in dataset.processes}
    if hosts and hosts.isdisjoint(offsets):
        some_hosts = f"{', '.join(sorted(hosts)[:5])}{', ...' * (len(hosts) > 5)}"
        raise UsageError(Parameter("align", how), f": names none of the hosts, which are {some_hosts}")
    known = [Shifted(d, [offsets.get(process.host, 0) for process in d.processes]) for d in datasets]
    missing = sorted(hosts - offsets.keys())
    text = f"{how}: says nothing about {', '.join(missing[:5])}{', ...' * (len(missing) > 5)}; their times stay"
    return [*known], [InputWarning(Severity.NOTE, text)] if missing else []


def far_apart(datasets: Sequence[DataSet]) -> list[InputWarning]:
    """Return a note if the times of machines do not overlap: these are different clocks, or different runs."""
    ranges: dict[str, tuple[int, int]] = {}
    for process in (process for dataset in datasets for process in dataset.processes):
        if process.machine and process.lasted:
            first, last = ranges.get(process.machine, (process.start_ns, process.end_ns))
            ranges[process.machine] = min(first, process.start_ns), max(last, process.end_ns)
    if len(ranges) < 2 or max(first for first, _ in ranges.values()) <= min(last for _, last in ranges.values()):
        return []
    text = f"the times of {len(ranges)} machines do not overlap: their clocks differ; "
    return [InputWarning(Severity.NOTE, compose_text(text, Parameter("align", START), " lets all begin at 0"))]


def _to_zero(dataset: DataSet) -> list[int]:
    """Return the offsets that make every process begin at 0; where the file does not say when it began, its first event
    does."""
    starts = [process.start_ns for process in dataset.processes]
    if MISSING in starts:
        process_of = dataset.lane_columns().process
        first = np.full(len(starts), np.iinfo(np.int64).max)
        for events in dataset.events(("start_ns", "lane")):
            usable = events["start_ns"] >= 0
            np.minimum.at(first, process_of[events["lane"][usable]], events["start_ns"][usable])
        starts = [
            earliest if start == MISSING else start for start, earliest in zip(starts, first.tolist(), strict=True)
        ]
    return [-start for start in starts]


def _table(path: Path) -> dict[str, int]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        neither = f": neither 'none', 'start' nor a table of offsets: {reason}"
        raise UsageError(Parameter("align", str(path)), neither) from error
    offsets: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        words = line.replace(",", " ").split()
        if not words or words[0].startswith("#"):
            continue
        try:
            host, offset = words
            offsets[host] = int(offset)
        except ValueError:
            raise UsageError(f"{path}, line {number}: expected a host and nanoseconds, found {line!r}") from None
    return offsets


class Shifted:
    """A data set whose times are moved by `offsets[process]`."""

    def __init__(self, dataset: DataSet, offsets: Sequence[int]) -> None:
        self._dataset, self._offsets = dataset, list(offsets)
        by_process = np.array(self._offsets, np.int64)
        self._by_lane = by_process[dataset.lane_columns().process]

    @property
    def path(self) -> Path:
        return self._dataset.path

    @property
    def version(self) -> str:
        return self._dataset.version

    @property
    def processes(self) -> Sequence[Process]:
        return [
            replace(process, start_ns=_move(process.start_ns, offset), end_ns=_move(process.end_ns, offset))
            for process, offset in zip(self._dataset.processes, self._offsets, strict=True)
        ]

    @property
    def devices(self) -> Sequence[Device]:
        return self._dataset.devices

    @property
    def lanes(self) -> Sequence[Lane]:
        return self._dataset.lanes

    def lane_columns(self) -> LaneColumns:
        return self._dataset.lane_columns()

    def device_columns(self) -> DeviceColumns:
        return self._dataset.device_columns()

    @property
    def warnings(self) -> Sequence[InputWarning]:
        return self._dataset.warnings

    @property
    def strings(self) -> Sequence[str]:
        return self._dataset.strings

    @property
    def live(self) -> bool:
        return self._dataset.live

    @property
    def is_shareable(self) -> bool:
        return self._dataset.is_shareable

    def count(self) -> int:
        return self._dataset.count()

    def events(self, columns: Sequence[str]) -> Iterator[Events]:
        moved = [name for name in TIMES if name in columns]
        asked = [*columns, "lane"] if moved and "lane" not in columns else list(columns)
        for events in self._dataset.events(asked):
            yield self._move_times(events, moved) if moved else events

    def _move_times(self, events: Events, columns: Sequence[str]) -> Mapping[str, Array]:
        return {**events, **{name: self._times(events[name], events["lane"]) for name in columns}}

    def _times(self, times: Ints, lanes: Ids) -> Ints:
        return np.where(times >= 0, times + self._by_lane[lanes], times)

    def side(self, name: str) -> SideTable | None:
        return self._dataset.side(name)

    def has_side(self, name: str) -> bool:
        return self._dataset.has_side(name)

    def side_chunks(self, name: str) -> Iterator[SideTable]:
        return self._dataset.side_chunks(name)

    def counters(self) -> CounterRows | None:
        rows = self._dataset.counters()
        return None if rows is None else replace(rows, time_ns=self._times(rows.time_ns, rows.lane))

    def stacks(self) -> Stacks | None:
        samples = self._dataset.stacks()
        return None if samples is None else replace(samples, time_ns=self._times(samples.time_ns, samples.lane))

    def choose_kernel_names(self, which: str) -> None:
        self._dataset.choose_kernel_names(which)

    def tables(self) -> Mapping[str, Callable[[], Table]]:
        return self._dataset.tables()

    def close(self) -> None:
        self._dataset.close()


def _move(time: int, offset: int) -> int:
    return time if time == MISSING else time + offset
