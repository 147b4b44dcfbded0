"""trace.db, of both generations, written as samples come.

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

from callgrove.binary.filebytes import FileBytes
from callgrove.binary.filepart import FilePart
from callgrove.formats.hpctoolkit.block_writer import aligned
from callgrove.formats.interface import SamplePlaces
from callgrove.model.arrays import Array, Ints
from callgrove.model.traces import Window

__all__ = ["TraceWriter", "TracesFile"]

Part = tuple[int, int, int]  # profile, start, end


class TracesFile(Protocol):
    """What a trace.db of one generation has beside its lines."""

    sample: np.dtype[Any]
    lines_at: int
    alignment: int
    footer: bytes

    def tables(self, start: Ints, end: Ints, time_range: Window) -> bytes:
        """Everything before the first line, for lines that begin and end there."""


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
        self._parts: list[Part] = []
        self._last_time = 0

    def store(self, profile: int, samples: Array) -> None:
        """Append samples of a profile, as records of the file."""
        if not len(samples):
            return
        time = samples["time"]
        if (time[1:] < time[:-1]).any():
            self.disordered = True
            samples = samples[np.argsort(time, kind="stable")]
        self.append(profile, samples, (int(samples["time"][0]), int(samples["time"][-1])))

    def append(self, profile: int, samples: Array | FilePart, ends: Window) -> None:
        """The same for samples that are in order; `ends` are the first and the last of their times."""
        first, last = ends
        if self._parts and self._parts[-1][0] == profile and first >= self._last_time:
            start = self._parts.pop()[1]
        else:
            start = self._align()
        if isinstance(samples, FilePart):
            samples.append_to(self._file)
            self._at += samples.size
        else:
            self._file.write(samples.data)
            self._at += samples.nbytes
        self._parts.append((profile, start, self._at))
        self._last_time = last
        self.widen(ends)

    def places(self, counts: Ints) -> SamplePlaces:
        """Where lines of so many samples would lie, as long as none is there yet."""
        self._file.flush()
        at, sizes = self._at, counts * self._written.sample.itemsize
        offsets = np.zeros(len(counts), np.int64)
        for line, size in enumerate(sizes.tolist()):
            if size:
                offsets[line] = at = aligned(at, self._written.alignment)
                at += size
        return SamplePlaces(str(self._path.absolute()), offsets, counts)

    def widen(self, measured: Window) -> None:
        """The times that the file announces contain these."""
        low, high = self.time_range or measured
        self.time_range = min(low, measured[0]), max(high, measured[1])

    def _align(self) -> int:
        """Go to where a line may begin."""
        start: int = aligned(self._at, self._written.alignment)
        self._file.write(bytes(start - self._at))
        self._at = start
        return start

    @property
    def n_samples(self) -> int:
        """How many samples are in the file."""
        return sum(end - start for _, start, end in self._parts) // self._written.sample.itemsize

    def flush(self) -> None:
        self._file.flush()

    def finish(self) -> None:
        """Fill in the tables and close the file. Without a sample no times are announced."""
        if not self._parts:
            self.time_range = None
        if len({profile for profile, _, _ in self._parts}) < len(self._parts):
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
        """A line without samples lies where the next one begins."""
        start = np.full(self._n_lines, self._at)
        end = start.copy()
        for profile, first, last in self._parts:
            start[profile - 1], end[profile - 1] = first, last
        following = np.minimum.accumulate(start[::-1])[::-1] if self._in_order else start
        empty = start == end
        start[empty] = end[empty] = following[empty]
        return start, end

    @property
    def _in_order(self) -> bool:
        numbers = [profile for profile, _, _ in self._parts]
        return numbers == sorted(numbers)

    def _merge(self) -> None:
        self._file.close()
        parts_path = self._path.with_suffix(".parts")
        self._path.rename(parts_path)
        file, by_profile = FileBytes(parts_path), dict[int, list[tuple[int, int]]]()
        for profile, start, end in self._parts:
            by_profile.setdefault(profile, []).append((start, end))
        self._begin()
        sample = self._written.sample
        for profile, places in sorted(by_profile.items()):
            parts = [file.array(sample, (end - start) // sample.itemsize, start, "trace line") for start, end in places]
            self.store(profile, np.concatenate(parts, dtype=sample))  # which would become native otherwise
        parts_path.unlink()

    def close(self) -> None:
        """Give the file up, whatever is in it."""
        self._file.close()
