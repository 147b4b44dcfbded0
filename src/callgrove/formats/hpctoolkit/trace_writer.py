"""trace.db of a released database, written as samples come.

    header, CtxTraces      one record per measured profile, also where it has no samples
    lines                  (time, context) records, each line at a multiple of 8
    footer

Samples of one profile may come in several parts. Parts that follow each other, in the file and in time, are one line
at once; otherwise `finish` writes the file again with the parts of each line together, in the order of time.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from callgrove.binary.filebytes import FileBytes
from callgrove.formats.hpctoolkit import release_records as rec
from callgrove.formats.hpctoolkit.block_writer import aligned
from callgrove.formats.hpctoolkit.release_files import header_bytes
from callgrove.model.arrays import Array

__all__ = ["TraceWriter"]

SECTION_AT = 0x20
RECORDS_AT = SECTION_AT + rec.CTX_TRACES.itemsize
LINE_ALIGNMENT = 8
Part = tuple[int, int, int]  # profile, start, end


class TraceWriter:
    """trace.db in the making. `disordered` says whether samples had to be sorted."""

    def __init__(self, path: Path, n_profiles: int) -> None:
        self._path, self._n_lines = path, n_profiles - 1
        self._time_range: tuple[int, int] | None = None
        self.disordered = False
        self._begin()

    def _begin(self) -> None:
        self._file = self._path.open("wb")
        self._at = aligned(RECORDS_AT + rec.TRACE.itemsize * self._n_lines, LINE_ALIGNMENT)
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
        first, last = int(samples["time"][0]), int(samples["time"][-1])
        if self._parts and self._parts[-1][0] == profile and first >= self._last_time:
            start = self._parts.pop()[1]
        else:
            start = aligned(self._at, LINE_ALIGNMENT)
            self._file.write(bytes(start - self._at))
            self._at = start
        self._file.write(samples.data)
        self._at += samples.nbytes
        self._parts.append((profile, start, self._at))
        self._last_time = last
        low, high = self._time_range or (first, last)
        self._time_range = min(low, first), max(high, last)

    def flush(self) -> None:
        self._file.flush()

    def finish(self) -> None:
        """Fill in the tables and close the file."""
        if len({profile for profile, _, _ in self._parts}) < len(self._parts):
            self._merge()
        self._file.write(rec.FOOTERS["trce"])
        lines = np.zeros(self._n_lines, rec.TRACE)
        lines["profIndex"] = np.arange(1, self._n_lines + 1)
        lines["pStart"] = lines["pEnd"] = RECORDS_AT + lines.nbytes
        for profile, start, end in self._parts:
            lines["pStart"][profile - 1], lines["pEnd"][profile - 1] = start, end
        section = np.zeros(1, rec.CTX_TRACES)
        section[0] = (RECORDS_AT, self._n_lines, rec.TRACE.itemsize, *(self._time_range or (0, 0)))
        self._file.seek(0)
        self._file.write(header_bytes("trce", {"CtxTraces": (SECTION_AT, section.nbytes + lines.nbytes)}))
        self._file.write(section.tobytes() + lines.tobytes())
        self._file.close()

    def _merge(self) -> None:
        self._file.close()
        parts_path = self._path.with_suffix(".parts")
        self._path.rename(parts_path)
        file, by_profile = FileBytes(parts_path), dict[int, list[tuple[int, int]]]()
        for profile, start, end in self._parts:
            by_profile.setdefault(profile, []).append((start, end))
        self._begin()
        for profile, places in sorted(by_profile.items()):
            size = rec.SAMPLE.itemsize
            parts = [file.array(rec.SAMPLE, (end - start) // size, start, "trace line") for start, end in places]
            self.store(profile, np.concatenate(parts))
        parts_path.unlink()

    def close(self) -> None:
        """Give the file up, whatever is in it."""
        self._file.close()
