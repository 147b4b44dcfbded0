"""Trace lines of trace.db, of both generations: (time in ns, context id) records, read when asked for."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Any

import numpy as np

from callgrove.binary.filebytes import FileBytes
from callgrove.binary.idmap import IdMap
from callgrove.errors import CallgroveError, CorruptFile
from callgrove.model.arrays import Array, Bools, Ids, Ints, Offsets
from callgrove.model.traces import Samples, Window

__all__ = ["DatabaseSamples", "TraceLines"]


@dataclass(frozen=True)
class TraceLines:
    """Where the samples of each line lie; `type` 0 is contexts, others follow the metric of that id."""

    profile: Ints
    type: Ints
    start: Offsets
    end: Offsets


class DatabaseSamples:
    """Sample lines in the model's ids. Context 0 is idle (-1), and so is an id that nothing in the database names;
    `unknown` counts the samples of such ids.

    Lines that lie outside of the file, or that break off inside a record, end with the last whole record in the file;
    lines that lie in one another are empty. `problems` says so.
    """

    def __init__(
        self,
        file: FileBytes,
        record: np.dtype[Any],
        profile: Ids,
        metric: Ids,
        start: Offsets,
        end: Offsets,
        contexts: IdMap,
    ) -> None:
        self._file, self._record, self._contexts = file, record, contexts
        self.profile, self.metric = profile, metric
        self.problems: list[CallgroveError] = []
        self.unknown = 0
        self._start, self.count = self._inside(start, end)

    def _inside(self, start: Offsets, end: Offsets) -> tuple[Ints, Ints]:
        size = np.uint64(self._file.size)
        first, last = np.minimum(start, size), np.minimum(end, size)
        empty = start == end  # a line without samples may point anywhere
        length = np.where(empty | (last < first), np.uint64(0), last - np.minimum(first, last)).astype(np.int64)
        whole = length // self._record.itemsize
        broken: Bools = ~empty & ((start > end) | (end > size) | (length % self._record.itemsize != 0))
        shared = self._file.shared(first, length)
        whole[shared] = 0
        for line in np.flatnonzero(broken | shared).tolist():
            expected = f"samples from byte {int(start[line])} to byte {int(end[line])}"
            found = f"{int(whole[line])} whole samples in a file of {self._file.size} bytes"
            found = "samples of another line" if shared[line] else found
            self.problems.append(CorruptFile(self._file.path, f"trace line {line}", expected=expected, found=found))
        return first.astype(np.int64), whole

    def line(self, line: int, window: Window | None = None) -> Samples:
        records = self._records(line)
        if window is not None:  # a search looks at a few records; the rest is not even read
            first, last = (bisect_left(range(len(records)), at, key=lambda k: int(records["time"][k])) for at in window)
            records = records[max(0, first - 1) : last + 1]
        ids = records["ctx"].astype(np.int64)
        context = self._contexts[ids]
        self.unknown += int(((context < 0) & (ids != 0)).sum())
        return Samples(records["time"].astype(np.int64), context).within(window)

    def ids(self, line: int) -> Ints:
        """The context ids of one line, each once."""
        return np.unique(self._records(line)["ctx"].astype(np.int64))

    def _records(self, line: int) -> Array:
        n, at = int(self.count[line]), int(self._start[line])
        return self._file.array(self._record, n, at if n else 0, f"trace line {line}")
