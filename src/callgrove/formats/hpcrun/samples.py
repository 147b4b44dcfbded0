"""The traces beside measurement files, as sample lines; each is read from its file when asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from callgrove.binary.idmap import IdMap
from callgrove.errors import CallgroveError, CorruptFile
from callgrove.formats.hpcrun.hpctrace_records import TraceFile
from callgrove.model.arrays import Array, Ids
from callgrove.model.traces import Samples, Window

__all__ = ["MeasurementSamples", "TraceLine", "open_line"]


@dataclass(frozen=True)
class TraceLine:
    """The trace of one profile: node ids of the file, and the contexts that they are. `is_old` traces count
    microseconds."""

    path: Path
    profile: int
    is_old: bool
    count: int
    node_id: Array
    context: Ids
    time_range: Window | None

    def open(self) -> TraceFile:
        return open_trace(self.path, self.is_old)


def open_trace(path: Path, is_old: bool) -> TraceFile:
    """Beside 02.00, times are microseconds; beside 04.00, nanoseconds."""
    return TraceFile.open(path, 1000 if is_old else 1)


def open_line(
    path: Path, profile: int, is_old: bool, node_id: Array, context: Ids, in_order: bool
) -> tuple[TraceLine, list[CallgroveError]]:
    """The line of a trace, and what is wrong with it at first sight. `in_order`: the profile says that it is."""
    trace = open_trace(path, is_old)
    n = trace.n_records
    time_range = None
    if n:
        times = [trace.arrays(0, 1)[0], trace.arrays(n - 1, 1)[0]] if in_order else [trace.arrays()[0]]
        time = np.concatenate(times)
        time_range = int(time.min()), int(time.max())
    return TraceLine(path, profile, is_old, n, node_id, context, time_range), trace.problems


class MeasurementSamples:
    """Sample lines. Samples of nodes that a profile does not have are left out and are a problem."""

    def __init__(self, lines: Sequence[TraceLine]) -> None:
        self._lines = lines
        self.profile = np.array([line.profile for line in lines], np.int32)
        self.metric = np.full(len(lines), -1, np.int32)
        self.count = np.array([line.count for line in lines], np.int64)
        self.problems: list[CallgroveError] = []

    @property
    def time_range(self) -> Window | None:
        """From the first sample to the last."""
        known = [line.time_range for line in self._lines if line.time_range is not None]
        return (min(k[0] for k in known), max(k[1] for k in known)) if known else None

    def line(self, line: int, window: Window | None = None) -> Samples:
        source = self._lines[line]
        try:
            trace = source.open()
            time, ids, _ = trace.arrays(0, source.count)
        except CallgroveError as error:  # gone, or another file since it was opened
            self._met(error)
            return Samples(np.empty(0, np.int64), np.empty(0, np.int32))
        context = IdMap(source.node_id, source.context)[ids]
        unknown = context < 0
        if unknown.any():
            expected = "samples on nodes of the profile"
            found = f"{int(unknown.sum())} on others, which are left out"
            self._met(CorruptFile(source.path, "records", expected=expected, found=found))
            time, context = time[~unknown], context[~unknown]
        if (time[1:] < time[:-1]).any():
            order = np.argsort(time, kind="stable")
            time, context = time[order], context[order]
        return Samples(time, context).within(window)

    def _met(self, error: CallgroveError) -> None:
        if str(error) not in map(str, self.problems):
            self.problems.append(error)
