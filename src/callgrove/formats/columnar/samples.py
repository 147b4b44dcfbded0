"""Sample lines: one line after the other in `samples`, and who each belongs to in `sample_lines`."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from callgrove.arrays import ABSENT, Ids, Ints
from callgrove.errors import CallgroveError, CorruptFile
from callgrove.formats.columnar.folder import Folder, StoredTable
from callgrove.formats.columnar.row_groups import GroupWriter
from callgrove.formats.columnar.schema import EXPERIMENT, Cells
from callgrove.formats.interface import SampleChunk
from callgrove.model.traces.events import Samples, Window

__all__ = ["FolderSamples", "SamplesWriter", "read_samples"]


class SamplesWriter:
    """Every chunk is a line."""

    def __init__(self, folder: Path) -> None:
        self._file = GroupWriter(folder, "samples", EXPERIMENT["samples"])
        self._lines = tuple(array("q") for _ in range(3))  # profile, metric, samples

    def add(self, chunk: SampleChunk) -> None:
        samples, line = chunk.samples, len(self._lines[0])
        n = len(samples)
        for column, cell in zip(self._lines, (chunk.profile, chunk.metric, n), strict=True):
            column.append(cell)
        if n:
            self._file.add(
                {
                    "line": np.full(n, line, np.int32),
                    "profile": np.full(n, chunk.profile, np.int32),
                    "metric": np.full(n, chunk.metric, np.int32),
                    "time_ns": samples.time_ns,
                    "context": samples.context,
                }
            )

    def close(self) -> int:
        return self._file.close()

    def abort(self) -> None:
        self._file.abort()

    def lines(self) -> Mapping[str, Cells]:
        """Return the columns of `sample_lines`."""
        names = ("profile", "metric", "samples")
        columns = {name: np.array(column, np.int64) for name, column in zip(names, self._lines, strict=True)}
        return {"line": np.arange(len(self._lines[0])), **columns}


class FolderSamples:
    """Sample lines; of `samples` the row groups that a line lies in are read."""

    def __init__(self, table: StoredTable, profile: Ids, metric: Ids, count: Ints, n_contexts: int) -> None:
        self._table, self.profile, self.metric, self.count = table, profile, metric, count
        self._bounds = np.append(0, np.cumsum(count))
        self._n_contexts = n_contexts
        self._last: tuple[int, Samples] | None = None
        self.problems: list[CallgroveError] = []

    def line(self, line: int, window: Window | None = None) -> Samples:
        """Return the samples of one line; what is damaged is left out, and kept in `problems`."""
        first, last = int(self._bounds[line]), int(self._bounds[line + 1])
        parts = [Samples(np.empty(0, np.int64), np.empty(0, np.int32))]
        for group in self._table.groups_of(first, last):
            start = int(self._table.first_rows[group])
            part = slice(max(first - start, 0), last - start)
            try:
                samples = self._group(group)
            except CorruptFile as error:
                self._record_problem(error)
                continue
            parts.append(Samples(samples.time_ns[part], samples.context[part]))
        time_ns, context = (np.concatenate([getattr(p, name) for p in parts]) for name in ("time_ns", "context"))
        return self._check(line, Samples(time_ns, context)).within(window)

    def _group(self, group: int) -> Samples:
        if self._last is None or self._last[0] != group:
            rows = self._table.group(group, ("time_ns", "context"))
            self._last = group, Samples(rows.numbers("time_ns"), rows.numbers("context"))
        return self._last[1]

    def _check(self, line: int, samples: Samples) -> Samples:
        unknown = (samples.context < ABSENT) | (samples.context >= self._n_contexts)
        if unknown.any():
            found = f"{int(unknown.sum())} samples of others, which are left out"
            self._record_problem(self._table.damage(f"line {line}", f"context ids below {self._n_contexts}", found))
            samples = Samples(samples.time_ns[~unknown], samples.context[~unknown])
        if (np.diff(samples.time_ns) < 0).any():
            self._record_problem(
                self._table.damage(f"line {line}", "samples in the order of time", "another order; sorted")
            )
            order = np.argsort(samples.time_ns, kind="stable")
            samples = Samples(samples.time_ns[order], samples.context[order])
        return samples

    def _record_problem(self, error: CallgroveError) -> None:
        if str(error) not in {str(known) for known in self.problems}:
            self.problems.append(error)


def read_samples(folder: Folder, n_profiles: int, n_contexts: int, n_metrics: int) -> FolderSamples | None:
    """None where the folder has no samples at all."""
    if not folder.has("samples"):
        return None
    table = folder.table("sample_lines")
    rows = folder.read_numbered("sample_lines", "line")
    profile = folder.ids(table, rows, "profile", n_profiles, lowest=0)
    metric, count = folder.ids(table, rows, "metric", n_metrics), rows.numbers("samples")
    samples = folder.table("samples")
    if (count < 0).any() or int(count.sum()) != samples.n_rows:
        raise table.damage("column samples", f"{samples.n_rows:,} samples in all", f"{int(count.sum()):,}")
    return FolderSamples(samples, profile, metric, count, n_contexts)
