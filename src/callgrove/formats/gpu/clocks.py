"""The clocks of several machines, brought together where the user says how.

No file says how the clock of one node relates to that of another (gpu-traces.md 3.2), so times stay as they are stored
unless one of these is asked for:

    start     every process begins at 0: its own start is subtracted
    FILE      lines of `host,nanoseconds` (or separated by blanks): what is added to the times of that host

`shifted` wraps a data set; its events, counters, samples and processes come with moved times. Times that no clock shows
(absent, negative) are not moved: they stay recognisable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from callgrove.arrays import Array, Ids, Ints
from callgrove.binary.sqlite.cells import MISSING
from callgrove.errors import Parameter, UsageError, worded
from callgrove.formats.gpu.dataset import CounterRows, DataSet, Events, Lane, Process, Stacks
from callgrove.model.experiment import InputWarning, Severity
from callgrove.model.table import Table
from callgrove.model.traces.events import Device, SideTable

__all__ = ["NONE", "START", "align_clocks", "far_apart"]

NONE, START = "none", "start"
TIMES = ("start_ns", "end_ns")


def align_clocks(datasets: Sequence[DataSet], how: str) -> tuple[list[DataSet], list[InputWarning]]:
    """The data sets with their times moved, and what the user should know about that."""
    if how in ("", NONE):
        return list(datasets), far_apart(datasets)
    if how == START:
        return [Shifted(dataset, _to_zero(dataset)) for dataset in datasets], []
    offsets = _table(Path(how))
    hosts = {process.host for dataset in datasets for process in dataset.processes}
    if hosts and hosts.isdisjoint(offsets):
        there = f"{', '.join(sorted(hosts)[:5])}{', ...' * (len(hosts) > 5)}"
        raise UsageError(Parameter("align", how), f": names none of the hosts, which are {there}")
    known = [Shifted(d, [offsets.get(process.host, 0) for process in d.processes]) for d in datasets]
    missing = sorted(hosts - offsets.keys())
    text = f"{how}: says nothing about {', '.join(missing[:5])}{', ...' * (len(missing) > 5)}; their times stay"
    return [*known], [InputWarning(Severity.NOTE, text)] if missing else []


def far_apart(datasets: Sequence[DataSet]) -> list[InputWarning]:
    """A note where machines have times that do not even overlap: these are different clocks, or different runs."""
    ranges: dict[str, tuple[int, int]] = {}
    for process in (process for dataset in datasets for process in dataset.processes):
        if process.machine and process.lasted:
            first, last = ranges.get(process.machine, (process.start_ns, process.end_ns))
            ranges[process.machine] = min(first, process.start_ns), max(last, process.end_ns)
    if len(ranges) < 2 or max(first for first, _ in ranges.values()) <= min(last for _, last in ranges.values()):
        return []
    text = f"the times of {len(ranges)} machines do not overlap: their clocks differ; "
    return [InputWarning(Severity.NOTE, worded(text, Parameter("align", START), " lets all begin at 0"))]


def _to_zero(dataset: DataSet) -> list[int]:
    """What makes every process begin at 0: where the file does not say when it began, its first event."""
    starts = [process.start_ns for process in dataset.processes]
    if MISSING in starts:
        process_of = np.array([lane.process for lane in dataset.lanes], np.int64)
        first = np.full(len(starts), np.iinfo(np.int64).max)
        for events in dataset.events(("start_ns", "lane")):
            usable = events["start_ns"] >= 0
            np.minimum.at(first, process_of[events["lane"][usable]], events["start_ns"][usable])
        starts = [own if start == MISSING else start for start, own in zip(starts, first.tolist(), strict=True)]
    return [-start for start in starts]


def _table(path: Path) -> dict[str, int]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
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
        self._own, self._offsets = dataset, list(offsets)
        by_process = np.array(self._offsets, np.int64)
        self._by_lane = by_process[[lane.process for lane in dataset.lanes]]

    @property
    def path(self) -> Path:
        return self._own.path

    @property
    def version(self) -> str:
        return self._own.version

    @property
    def processes(self) -> Sequence[Process]:
        return [
            replace(process, start_ns=_move(process.start_ns, offset), end_ns=_move(process.end_ns, offset))
            for process, offset in zip(self._own.processes, self._offsets, strict=True)
        ]

    @property
    def devices(self) -> Sequence[Device]:
        return self._own.devices

    @property
    def lanes(self) -> Sequence[Lane]:
        return self._own.lanes

    @property
    def warnings(self) -> Sequence[InputWarning]:
        return self._own.warnings

    @property
    def strings(self) -> Sequence[str]:
        return self._own.strings

    @property
    def live(self) -> bool:
        return self._own.live

    def count(self) -> int:
        return self._own.count()

    def events(self, columns: Sequence[str]) -> Iterator[Events]:
        moved = [name for name in TIMES if name in columns]
        asked = [*columns, "lane"] if moved and "lane" not in columns else list(columns)
        for events in self._own.events(asked):
            yield self._move_times(events, moved) if moved else events

    def _move_times(self, events: Events, columns: Sequence[str]) -> Mapping[str, Array]:
        return {**events, **{name: self._times(events[name], events["lane"]) for name in columns}}

    def _times(self, times: Ints, lanes: Ids) -> Ints:
        return np.where(times >= 0, times + self._by_lane[lanes], times)

    def side(self, name: str) -> SideTable | None:
        return self._own.side(name)

    def has_side(self, name: str) -> bool:
        return self._own.has_side(name)

    def side_chunks(self, name: str) -> Iterator[SideTable]:
        return self._own.side_chunks(name)

    def counters(self) -> CounterRows | None:
        found = self._own.counters()
        return None if found is None else replace(found, time_ns=self._times(found.time_ns, found.lane))

    def stacks(self) -> Stacks | None:
        found = self._own.stacks()
        return None if found is None else replace(found, time_ns=self._times(found.time_ns, found.lane))

    def choose_kernel_names(self, which: str) -> None:
        self._own.choose_kernel_names(which)

    def tables(self) -> Mapping[str, Callable[[], Table]]:
        return self._own.tables()

    def close(self) -> None:
        self._own.close()


def _move(time: int, offset: int) -> int:
    return time if time == MISSING else time + offset
