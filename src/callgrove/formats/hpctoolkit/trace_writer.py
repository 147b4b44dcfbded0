"""Writes trace.db as samples come, for both generations; many lines at a time.

    header, one record per measured profile     also where it has no samples
    lines                                       (time, context) records
    [footer]

Samples of one profile may come in several parts. Parts that follow each other, in the file and in time, are one line
at once; otherwise `finish` writes the file again with the parts of each line together, in the order of time.

Others may write lines where `places` says that they would lie if all their samples were there. When such a line comes
in, it is where it belongs, or is moved towards the beginning, because one before it became shorter.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from callgrove.arrays import Array, Ints, bundles, in_order
from callgrove.binary.files import FileBytes, FilePart
from callgrove.formats.hpctoolkit.value_writers import align, lay_out
from callgrove.formats.interface import SamplePlaces
from callgrove.model.traces.events import Window

__all__ = ["TraceWriter", "TracesFile"]

MERGED_SAMPLES = 1 << 17  # that are put together at a time, unless one line has more


class TracesFile(Protocol):
    """What a trace.db of one generation has beside its lines."""

    sample: np.dtype[Any]
    lines_at: int
    alignment: int
    footer: bytes

    def tables(self, start: Ints, end: Ints, time_range: Window) -> bytes:
        """Return everything before the first line, for lines that begin and end there."""


class TraceWriter:
    """trace.db in the making. `disordered` says whether samples had to be sorted."""

    def __init__(self, path: Path, written: TracesFile, n_profiles: int) -> None:
        self._path, self._written, self._n_lines = path, written, n_profiles - 1
        self.time_range: Window | None = None
        self.disordered = False
        self._begin()

    def _begin(self) -> None:
        self._file = self._path.open("wb")
        self._at = self._written.lines_at
        self._file.seek(self._at)
        self._parts: list[Ints] = [np.empty((3, 0), np.int64)]  # profile, start, end
        self._last = 0, 0  # profile and time of the last sample; no line is that of profile 0

    def store(self, profiles: Ints, bounds: Ints, samples: Array) -> None:
        """Append samples of some profiles, as records of the file. Those of the k-th are [bounds[k], bounds[k + 1]), at
        least one."""
        time = samples["time"].astype(np.int64)
        first, last = bounds[:-1], bounds[1:] - 1
        falls = time[1:] < time[:-1]
        falls[last[:-1]] = False
        if falls.any():
            self.disordered = True
            order = in_order(np.repeat(np.arange(len(profiles)), np.diff(bounds)), time)
            samples, time = samples[order], time[order]
        self._append_lines(profiles, bounds, samples, time[first], time[last])

    def _append_lines(self, profiles: Ints, bounds: Ints, samples: Array, first: Ints, last: Ints) -> None:
        """Write lines that are in order; `first` and `last` are the ends of their times."""
        begins = np.ones(len(profiles), np.bool_)
        begins[1:] = (profiles[1:] != profiles[:-1]) | (first[1:] < last[:-1])
        goes_on = self._goes_on(int(profiles[0]), int(first[0]))
        at = self._at if goes_on else self._align()
        parts = np.flatnonzero(begins)
        sizes = np.diff(bounds[:-1][parts], append=bounds[-1]) * samples.itemsize
        room = align(sizes, self._written.alignment)
        room[0] = align(at + sizes[0], self._written.alignment) - at
        start, gaps = at + np.cumsum(room) - room, room - sizes
        gaps[-1] = 0  # written when it is known that the last line does not go on
        self._file.write(lay_out([samples], np.stack([sizes, gaps])).data if gaps.any() else samples.data)
        self._keep(np.stack([profiles[parts], start, start + sizes]), goes_on)
        self._last = int(profiles[-1]), int(last[-1])
        self.widen((int(first.min()), int(last.max())))

    def append(self, profile: int, samples: Array | FilePart, ends: Window) -> None:
        """Write samples that are in order; `ends` are the first and the last of their times."""
        goes_on = self._goes_on(profile, ends[0])
        at = self._at if goes_on else self._align()
        if isinstance(samples, FilePart):
            samples.append_to(self._file)
            size = samples.size
        else:
            self._file.write(samples.data)
            size = samples.nbytes
        self._keep(np.array([[profile], [at], [at + size]]), goes_on)
        self._last = profile, ends[1]
        self.widen(ends)

    def _goes_on(self, profile: int, time: int) -> bool:
        """Return whether samples of a profile, from a time on, are more of the last part."""
        return profile == self._last[0] and time >= self._last[1]

    def _keep(self, parts: Ints, goes_on: bool) -> None:
        """Keep where parts were written; the first may be more of the last one."""
        self._at = int(parts[2, -1])
        if goes_on:
            self._parts[-1][2, -1] = parts[2, 0]
            parts = parts[:, 1:]
        if parts.shape[1]:
            self._parts.append(parts)

    def places(self, counts: Ints) -> SamplePlaces:
        """Return where lines of so many samples would lie, as long as none is there yet."""
        self._file.flush()
        sizes, alignment = counts * self._written.sample.itemsize, self._written.alignment
        room = align(sizes, alignment)
        offsets = np.where(sizes > 0, align(self._at, alignment) + np.cumsum(room) - room, 0)
        return SamplePlaces(str(self._path.absolute()), offsets, counts)

    def widen(self, measured: Window) -> None:
        """Widen the times that the file announces, so that they contain these."""
        low, high = self.time_range or measured
        self.time_range = min(low, measured[0]), max(high, measured[1])

    def _align(self) -> int:
        """Go to where a line may begin."""
        start: int = align(self._at, self._written.alignment)
        self._file.write(bytes(start - self._at))
        self._at = start
        return start

    @property
    def _table(self) -> Ints:
        self._parts = [np.concatenate(self._parts, axis=1)]
        return self._parts[0]

    @property
    def n_samples(self) -> int:
        """How many samples are in the file."""
        _, start, end = self._table
        return int((end - start).sum()) // self._written.sample.itemsize

    def flush(self) -> None:
        self._file.flush()

    def finish(self) -> None:
        """Fill in the tables and close the file. Without a sample no times are announced."""
        profiles = self._table[0]
        if not len(profiles):
            self.time_range = None
        if len(np.unique(profiles)) < len(profiles):
            self._merge()
        self._align()
        self._file.write(self._written.footer)
        size = self._file.tell()
        if self._file.seek(0, os.SEEK_END) > size:  # lines were written further on, and moved
            self._file.truncate(size)
        start, end = self._places()
        self._file.seek(0)
        self._file.write(self._written.tables(start, end, self.time_range or (0, 0)))
        self._file.close()

    def _places(self) -> tuple[Ints, Ints]:
        """Return where the samples of each line begin and end; a line without samples lies where the next one
        begins."""
        profiles, *places = self._table
        start = np.full(self._n_lines, self._at)
        end = start.copy()
        start[profiles - 1], end[profiles - 1] = places
        is_in_order = bool((profiles[1:] > profiles[:-1]).all())
        following = np.minimum.accumulate(start[::-1])[::-1] if is_in_order else start
        empty = start == end
        start[empty] = end[empty] = following[empty]
        return start, end

    def _merge(self) -> None:
        """Write the file again with the parts of each line together."""
        self._file.close()
        table, parts_path = self._table, self._path.with_suffix(".parts")
        self._path.rename(parts_path)
        file, sample = FileBytes(parts_path), self._written.sample
        self._begin()
        profiles, start, end = table[:, np.argsort(table[0], kind="stable")]
        counts, first = (end - start) // sample.itemsize, np.flatnonzero(np.diff(profiles, prepend=0))
        lines, n_samples = profiles[first], np.add.reduceat(counts, first)
        bounds = np.append(first, len(profiles))
        for one, after in bundles(n_samples.tolist(), MERGED_SAMPLES):
            parts = slice(bounds[one], bounds[after])
            samples = file.gather_ranges(sample, start[parts], counts[parts], "trace line")
            self.store(lines[one:after], np.append(0, np.cumsum(n_samples[one:after])), samples)
        parts_path.unlink()

    def close(self) -> None:
        """Give the file up, whatever is in it."""
        self._file.close()
