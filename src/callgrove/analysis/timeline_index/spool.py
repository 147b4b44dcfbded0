"""Spans on their way from file order to tracks: sorted a chunk at a time, and put into a temporary file.

    source     rows in any order, of all tracks           chunk 0 | chunk 1 | chunk 2 | ...
    spool      each chunk by (track, start, -end, row)    0 0 1 1 2 | 0 1 2 2 2 | 0 0 0 1 2 | ...
    tracks     the same track of all chunks, merged       0 0 0 0 0 0 | 1 1 1 1 | ...

Small tracks that follow each other are read together, which is one read for each chunk. A large track is merged block
by block: every chunk of it is in order, so that memory holds a block of each. Numbers are stored less the smallest one
of their chunk, in as few bytes as they need. The file has no name: nothing is left when the process ends.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from callgrove.arrays import Array, Bools, Ints, distinct
from callgrove.errors import CallgroveError

__all__ = ["Spool", "TrackSpans"]

CHUNK = 1 << 19  # spans
MERGED = 1 << 17  # spans of a large track that are read at a time, of all chunks together
LEAST_BLOCK = 1 << 11
COLUMNS = ("start", "ns", "name", "row")
FREE_BITS = 63


@dataclass(frozen=True)
class TrackSpans:
    """Spans by track, start and falling end; equal ones by row."""

    track: Ints
    start: Ints
    end: Ints
    name: Ints
    row: Ints

    def __len__(self) -> int:
        return len(self.start)

    def take(self, rows: Array | slice) -> TrackSpans:
        return TrackSpans(self.track[rows], self.start[rows], self.end[rows], self.name[rows], self.row[rows])

    @classmethod
    def concatenate(cls, parts: list[TrackSpans]) -> TrackSpans:
        if len(parts) == 1:
            return parts[0]
        empty = np.empty(0, np.int64)
        fields = cls.__dataclass_fields__
        return cls(*(np.concatenate([empty, *(getattr(part, name) for part in parts)]) for name in fields))

    def sort(self) -> TrackSpans:
        """Return the spans in order."""
        order = _order(self.track, self.start, self.end, self.row)
        return self if order is None else self.take(order)


@dataclass(frozen=True)
class _Stored:
    """A column of a chunk in the file: where, of which type, and what was subtracted."""

    place: int
    dtype: np.dtype[Any]
    least: int


@dataclass(frozen=True)
class _Chunk:
    """A chunk: its tracks, where the rows of each begin, and its columns."""

    track: Ints
    bounds: Ints
    columns: Mapping[str, _Stored]


class Spool:
    """Takes spans in any order, then gives them by track."""

    def __init__(self, folder: Path, chunk: int = CHUNK, merged: int = MERGED) -> None:
        self._folder, self._chunk, self._merged = folder, chunk, merged
        self._waiting: list[TrackSpans] = []
        self._n_waiting = 0
        self._chunks: list[_Chunk] = []
        self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 - closed by whoever leaves
        self.n_spans = 0
        self.first_ns, self.last_ns = 2**62, 0

    def __enter__(self) -> Spool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def add(self, spans: TrackSpans) -> None:
        """Add spans."""
        if not len(spans):
            return
        self.n_spans += len(spans)
        self.first_ns = min(self.first_ns, int(spans.start.min()))
        self.last_ns = max(self.last_ns, int(spans.end.max()))
        self._waiting.append(spans)
        self._n_waiting += len(spans)
        if self._n_waiting >= self._chunk:
            self._put_away()

    def tracks(self) -> tuple[Ints, Ints]:
        """Return the tracks, ascending, and the number of spans of each. Nothing can be added any more."""
        if self._n_waiting:
            self._put_away()
        tracks = distinct(*(chunk.track for chunk in self._chunks)) if self._chunks else np.empty(0, np.int64)
        count = np.zeros(len(tracks), np.int64)
        for chunk in self._chunks:
            count[np.searchsorted(tracks, chunk.track)] += np.diff(chunk.bounds)
        return tracks, count

    def read(self, first: int, last: int) -> TrackSpans:
        """Return all spans of the tracks from the first to the last one."""
        parts = []
        for chunk in self._chunks:
            low, high = np.searchsorted(chunk.track, (first, last + 1)).tolist()
            if low < high:
                track = np.repeat(chunk.track[low:high], np.diff(chunk.bounds[low : high + 1]))
                parts.append(self._rows(chunk, track, int(chunk.bounds[low])))
        return TrackSpans.concatenate(parts).sort() if parts else TrackSpans.concatenate([])

    def merge(self, track: int) -> Iterator[TrackSpans]:
        """Yield the spans of one track in order, in parts."""
        runs = []
        for chunk in self._chunks:
            at = int(np.searchsorted(chunk.track, track))
            if at < len(chunk.track) and chunk.track[at] == track:
                runs.append(_Run(chunk, int(chunk.bounds[at]), int(chunk.bounds[at + 1])))
        size = max(LEAST_BLOCK, self._merged // max(1, len(runs)))
        ready: list[TrackSpans] = []
        while runs:
            for run in runs:
                if not len(run.held):
                    self._refill(run, track, size)
            behind = [run for run in runs if run.first < run.last]  # of which more is in the file
            bound = min((int(run.held.start[-1]) for run in behind), default=2**63 - 1)
            parts = [part for run in runs if len(part := run.give_before(bound))]
            if parts:
                ready.append(TrackSpans.concatenate(parts).sort())
                if sum(map(len, ready)) >= self._merged // 2:
                    yield TrackSpans.concatenate(ready)
                    ready = []
            else:  # a whole block starts at one time
                for run in behind:
                    if int(run.held.start[-1]) == bound:
                        self._refill(run, track, size)
            runs = [run for run in runs if len(run.held) or run.first < run.last]
        if ready:
            yield TrackSpans.concatenate(ready)

    def _refill(self, run: _Run, track: int, size: int) -> None:
        n = min(size, run.last - run.first)
        run.held = TrackSpans.concatenate([run.held, self._rows(run.chunk, np.full(n, track, np.int64), run.first)])
        run.first += n

    def _put_away(self) -> None:
        spans = TrackSpans.concatenate(self._waiting).sort()
        self._waiting, self._n_waiting = [], 0
        at = np.flatnonzero(np.append(True, spans.track[1:] != spans.track[:-1]))
        place = self._file.seek(0, 2)
        columns = {}
        try:
            for name in COLUMNS:
                cells = spans.end - spans.start if name == "ns" else getattr(spans, name)
                least = int(cells.min())
                dtype = np.min_scalar_type(int(cells.max()) - least)
                columns[name] = _Stored(place, dtype, least)
                data = (cells - least).astype(dtype)
                self._file.write(data.data)
                place += data.nbytes
        except OSError as error:
            raise CallgroveError(f"{self._folder}: no room for the spans of an index: {error.strerror}") from error
        self._chunks.append(_Chunk(spans.track[at], np.append(at, len(spans)), columns))

    def _rows(self, chunk: _Chunk, track: Ints, first: int) -> TrackSpans:
        cells = {name: self._cells(stored, first, len(track)) for name, stored in chunk.columns.items()}
        return TrackSpans(track, cells["start"], cells["start"] + cells["ns"], cells["name"], cells["row"])

    def _cells(self, stored: _Stored, first: int, n: int) -> Ints:
        self._file.seek(stored.place + first * stored.dtype.itemsize)
        data = self._file.read(n * stored.dtype.itemsize)
        assert data is not None
        out = np.frombuffer(data, stored.dtype).astype(np.int64)
        out += stored.least
        return out


class _Run:
    """The part of a track that one chunk has, of which some rows are held."""

    def __init__(self, chunk: _Chunk, first: int, last: int) -> None:
        self.chunk, self.first, self.last = chunk, first, last
        self.held = TrackSpans.concatenate([])

    def give_before(self, bound: int) -> TrackSpans:
        """Give up the rows that start before a time; all where the file has no more of any run."""
        n = int(np.searchsorted(self.held.start, bound)) if bound < 2**63 - 1 else len(self.held)
        out, self.held = self.held.take(slice(0, n)), self.held.take(slice(n, None))
        return out


def _order(track: Ints, start: Ints, end: Ints, row: Ints) -> Ints | None:
    """Return the order of spans by track, start, falling end and row; None where they are in it."""
    later = _in_order(track, start, end, row)
    if later.all():
        return None
    order = _by_start(start)
    tracks = track[order]
    if (tracks[1:] != tracks[:-1]).any():
        least = int(tracks.min())
        small = tracks - least
        order = order[np.argsort(small.astype(np.uint16) if int(small.max()) < 1 << 16 else small, kind="stable")]
    if not _in_order(track[order], start[order], end[order], row[order]).all():
        order = np.lexsort((row, -end, start, track))
    return order


def _by_start(start: Ints) -> Ints:
    """Return the order of starts; equal ones stay as they are."""
    n, least = len(start), int(start.min())
    bits = n.bit_length()
    if (int(start.max()) - least).bit_length() + bits <= FREE_BITS:
        key = (start - least) << bits
        key |= np.arange(n)
        key.sort(kind="stable")
        key &= (1 << bits) - 1
        return key
    return np.argsort(start, kind="stable")


def _in_order(track: Ints, start: Ints, end: Ints, row: Ints) -> Bools:
    out: Bools = row[:-1] < row[1:]
    for column, comes_first in ((end, np.greater), (start, np.less), (track, np.less)):
        out = comes_first(column[:-1], column[1:]) | ((column[:-1] == column[1:]) & out)
    return out
