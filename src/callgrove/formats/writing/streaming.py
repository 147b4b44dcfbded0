"""Traces that are written while they are measured: a handle, any number of parts of the data, and an end.

    with open_writer("run.pftrace") as trace:
        main = trace.add_thread("main", rank=0)
        gpu = trace.add_stream("stream 0", rank=0, device=0)
        trace.write(main, "api", "hipLaunchKernel", [1_000], [1_400], correlation=[1])
        trace.write(gpu, "kernel", ["gemm"], [2_000], [9_000], correlation=[1])
        trace.flush()                                      others can read this now
        ...

Memory holds what was written since the last flush, and names. Threads and streams are named before the first span, as
most formats list them at their beginning.

What others can read before the end, also if the writer is killed:

    perfetto, chrome-json    all that was flushed: the file may end anywhere
    rocpd-draft, rocpd       all that was flushed: a database with a write-ahead log
    otf2, rocprof-csv, ...   nothing: the target appears when it is complete
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self, Unpack

import numpy as np
from numpy.typing import ArrayLike

from callgrove.arrays import ABSENT, Array, Ids, Ints, Names
from callgrove.errors import UsageError
from callgrove.formats.interface import WriteKeywords, WriteOptions, Writer, Writes
from callgrove.formats.registry import check_dialect, entry_of, format_for_target, writer_of
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.experiment import Experiment
from callgrove.model.profiles import DEFAULT_ID_NAMES, Identifier, Interpretation, ProfileKind
from callgrove.model.traces.events import LABEL, PARENT, SideTable, SpanChunk, SpanKind, Window

__all__ = ["TraceStream", "open_writer"]

IN_PLACE = "in_place"  # the field of `WriteOptions`, and how an entry says that a format has a use for it


class LiveSpans:
    """The spans of a trace in the making: names, where they are, and those that are about to be written."""

    def __init__(self, n_profiles: int) -> None:
        self.names, self._n_profiles = Names(), n_profiles
        self.n_written, self.waiting = 0, list[SpanChunk]()

    @property
    def strings(self) -> Sequence[str]:
        return self.names.all

    def count(self) -> int:
        return self.n_written + sum(len(chunk["span"]) for chunk in self.waiting)

    def chunks(self, columns: Sequence[str], window: Window | None, profiles: Ints | None) -> Iterator[SpanChunk]:
        """Yield spans that are not yet written; the others are gone."""
        for chunk in self.waiting:
            yield {name: chunk[name] for name in ("span", *columns)}

    def side(self, name: str, part: int | None = None) -> SideTable | None:
        return None

    def parts(self) -> Sequence[Ints]:
        return [np.arange(self._n_profiles)]


class TraceStream:
    """A trace in the making. It ends with `close`, or `abort`; as a context manager, whichever fits."""

    def __init__(self, target: Path, writer: Writer, title: str, *, is_live: bool) -> None:
        """Make a handle; `open_writer` does it."""
        self.target, self.is_live = target, is_live
        self._writer, self._builder = writer, ExperimentBuilder("stream", title=title or target.name)
        self._n_places, self._spans = 0, LiveSpans(0)
        self._is_defined = self._is_closed = False

    # -- places ----------------------------------------------------------------------------------------------------

    def add_thread(self, name: str = "", *, rank: int = 0, thread: int | None = None) -> int:
        """Add a thread of a process, and return its number for `write`."""
        number = self._n_places if thread is None else thread
        return self._add_place(ProfileKind.THREAD, name, rank, [("THREAD", number)])

    def add_stream(self, name: str = "", *, rank: int = 0, device: int = 0, stream: int | None = None) -> int:
        """Add a stream of a GPU, and return its number for `write`."""
        number = self._n_places if stream is None else stream
        return self._add_place(ProfileKind.GPU_STREAM, name, rank, [("GPUDEVICE", device), ("GPUSTREAM", number)])

    def _add_place(self, kind: ProfileKind, name: str, rank: int, ids: list[tuple[str, int]]) -> int:
        if self._is_defined or self._is_closed:
            raise UsageError(f"{self.target}: threads and streams are named before the first span is written")
        identifiers: list[Identifier] = [
            (DEFAULT_ID_NAMES.index(word), number, number, Interpretation.SINGLE)
            for word, number in (("RANK", rank), *ids)
        ]
        self._n_places += 1
        return self._builder.add_profile(kind, identifiers, name=name)

    # -- spans -----------------------------------------------------------------------------------------------------

    def write(
        self,
        place: int | ArrayLike,
        kind: str | Sequence[str],
        name: str | Sequence[str],
        start_ns: ArrayLike,
        end_ns: ArrayLike,
        *,
        category: str | Sequence[str] = "",
        correlation: ArrayLike = ABSENT,
    ) -> None:
        """Write spans: columns of equal length, or one value for all. `kind` is kernel, copy, api, marker, ...;
        `correlation` is a number that a call and what it launches share."""
        starts, ends = (np.atleast_1d(np.asarray(times, np.int64)) for times in (start_ns, end_ns))
        if starts.shape != ends.shape or starts.ndim != 1:
            raise UsageError(
                f"{self.target}: {starts.shape} starts and {ends.shape} ends are not columns of one length"
            )
        columns = {"place": place, "kind": kind, "name": name, "category": category, "correlation": correlation}
        try:
            cells = {word: np.broadcast_to(np.asarray(value), starts.shape) for word, value in columns.items()}
        except ValueError as error:
            raise UsageError(f"{self.target}: {len(starts)} spans, and a column of another length: {error}") from None
        if len(starts):
            self._require_places(cells["place"])
            self._spans.waiting.append(self._chunk(cells, starts, ends))
            self._pass_on()

    def _require_places(self, places: Array) -> None:
        if self._is_closed:
            raise UsageError(f"{self.target}: is closed")
        if int(places.min()) < 0 or int(places.max()) >= self._n_places:
            raise UsageError(f"{self.target}: no such place; add_thread and add_stream return their numbers")

    def _chunk(self, cells: dict[str, Array], starts: Ints, ends: Ints) -> SpanChunk:
        first, n = self._spans.count(), len(starts)
        kinds = {word: _kind(word) for word in dict.fromkeys(cells["kind"].tolist())}
        name = self._spans.names.numbers(cells["name"].tolist())
        none: Ids = np.full(n, ABSENT, np.int32)
        return {
            "span": np.arange(first, first + n),
            "profile": cells["place"].astype(np.int32),
            "kind": np.array([kinds[word] for word in cells["kind"].tolist()], np.int32),
            "category": self._spans.names.numbers([text or None for text in cells["category"].tolist()]),
            "name": name,
            LABEL: name,
            "start_ns": starts,
            "end_ns": ends,
            "depth": none,
            "context": none,
            "correlation": cells["correlation"].astype(np.int64),
            PARENT: np.full(n, ABSENT, np.int64),
        }

    def _pass_on(self) -> None:
        if not self._is_defined:
            self._define()
        for chunk in self._spans.waiting:
            self._writer.write(chunk)
            self._spans.n_written += len(chunk["span"])
        self._spans.waiting.clear()

    def _define(self) -> None:
        spans = self._spans
        self._spans = LiveSpans(self._n_places)
        self._spans.names, self._spans.waiting = spans.names, spans.waiting
        self._builder.set_traces(spans=self._spans)
        experiment: Experiment = self._builder.build()
        self._writer.define(experiment)
        self._is_defined = True

    # -- the end ---------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Let others read all that was written so far, where the format can be read before its end (`is_live`)."""
        if self._is_defined and not self._is_closed:
            self._writer.flush()

    def close(self) -> Sequence[str]:
        """Finish the target, and return what the format could not hold, a sentence each."""
        if self._is_closed:
            return ()
        if not self._is_defined:
            raise UsageError(f"{self.target}: nothing was written")
        report = self._writer.close()
        self._is_closed = True
        return (*report.lines, *(f"unexplained: {difference}" for difference in report.unexplained))

    def abort(self) -> None:
        """Leave nothing behind, but for what was flushed to a target that others may be reading."""
        self._is_closed = True
        self._writer.abort()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if error is None and self._is_defined:
            self.close()
        elif not self._is_closed:
            self.abort()


def _kind(word: str) -> SpanKind:
    known = {kind.word: kind for kind in SpanKind}
    if word not in known:
        raise UsageError(f"{word!r} is not a kind of span; there are {', '.join(known)}")
    return known[word]


def open_writer(
    target: str | Path, to_format: str = "", *, title: str = "", **options: Unpack[WriteKeywords]
) -> TraceStream:
    """Return a handle to a trace that is written part by part, while it is measured.

    to_format       perfetto, chrome-json, rocpd-draft, rocpd, otf2, rocprof-csv (default: by the target's ending)
    title           what the trace is of

    and by keyword what `callgrove.write` has. Where the format can be read before its end, the target is written in its
    place, and others read what was flushed; else it appears when it is closed.

        with callgrove.open_writer("run.pftrace") as trace:
            gpu = trace.add_stream("stream 0")
            trace.write(gpu, "kernel", "gemm", [2_000], [9_000])
    """
    path = Path(target)
    name = to_format or format_for_target(path, series=False)
    format_, entry = writer_of(name), entry_of(name, to_write=True)
    is_live = IN_PLACE in entry.write_options
    if not isinstance(format_, Writes) or not (is_live or entry.holds_only_traces):
        raise UsageError(f"{target}: {name} holds more than traces, which are all that is written part by part")
    how = WriteOptions(**options)
    how = replace(how, dialect=check_dialect(name, how.dialect), in_place=is_live)
    return TraceStream(path, format_.open_writer(path, how), title, is_live=is_live)
