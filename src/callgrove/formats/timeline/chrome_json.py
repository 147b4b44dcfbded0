"""Chrome's trace events (JSON), which chrome://tracing, Perfetto and speedscope open.

Specification: trace-outputs.md 3, and "Settled afterwards" 1. The text of events is made in chrome_text.py.

Readers keep microseconds as doubles, so times are exact only below 2^43 us, 102 days. Where the last time lies beyond
that, as times since the epoch do, one origin of whole milliseconds is subtracted from all of them, and the file says
which. Readers take the whole file into memory: above some hundred megabytes Perfetto's own format is the better choice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from callgrove.errors import Parameter, worded
from callgrove.formats.interface import LossReport, WriteOptions
from callgrove.formats.timeline.chrome_text import FOOTER, SEPARATOR, header, points_text, slices_text, tracks_text
from callgrove.formats.timeline.items import CounterPoints, Slices
from callgrove.formats.timeline.output import Data, FileOutput
from callgrove.formats.timeline.places import ProcessTracks
from callgrove.formats.timeline.writer import TimelineWriter
from callgrove.formats.writing import WrittenOnly
from callgrove.model.arrays import Ints
from callgrove.model.experiment import Experiment
from callgrove.model.traces import Traces, Window

__all__ = ["FORMAT", "ChromeEncoder", "ChromeWriter", "time_bounds"]

MS = 1_000_000  # nanoseconds
EXACT_NS = 2**43 * 1000  # the first time that readers round
LARGE = 500_000_000  # bytes
OPEN = 2**63 - 1


@dataclass(frozen=True)
class ChromeEncoder:
    """Events as JSON; `origin_ns` is subtracted from all times."""

    origin_ns: int = 0

    def opening(self, processes: Sequence[ProcessTracks]) -> Iterator[Data]:
        yield header(self.origin_ns)
        names = b"".join(tracks_text(tracks, tracks.take_new_tracks()) for tracks in processes)
        yield names.removeprefix(SEPARATOR)

    def part(self) -> ChromePart:
        return ChromePart(self.origin_ns)

    def closing(self) -> Iterator[Data]:
        yield FOOTER


@dataclass(frozen=True)
class ChromePart:
    """Encodes one part."""

    origin_ns: int

    def slices(self, slices: Slices) -> Iterator[Data]:
        yield tracks_text(slices.process, slices.process.take_new_tracks())
        yield from slices_text(slices, self.origin_ns)

    def points(self, points: CounterPoints) -> Iterator[Data]:
        yield tracks_text(points.process, points.process.take_new_tracks())
        yield points_text(points, self.origin_ns)


class _Closed(FileOutput):
    """What stays of a file after an interruption is closed, since readers refuse JSON that breaks off."""

    def discard(self) -> None:
        if self._keep and self._file is not None:
            with suppress(OSError):  # of a full disk
                self._file.write(FOOTER)
        super().discard()


class ChromeWriter(TimelineWriter):
    """A file in the making. When it begins, the times of all events must be known: these are read once more."""

    def __init__(self, target: Path, options: WriteOptions) -> None:
        output = _Closed(target, options.overwrite, options.keep_partial)
        super().__init__(target, options, ChromeEncoder(), output)
        self._lasts_too_long = False

    def _begin(self, tables: Experiment) -> None:
        bounds = time_bounds(tables.traces)
        if bounds is not None and bounds[1] >= EXACT_NS:
            self._encoder = ChromeEncoder(bounds[0] // MS * MS)
            self._lasts_too_long = bounds[1] - bounds[0] // MS * MS >= EXACT_NS
        super()._begin(tables)

    def close(self) -> LossReport:
        report = super().close()
        if self._lasts_too_long:
            report.add("exact times: readers round those that are more than 102 days after the first one")
        if self.target.is_file() and (size := self.target.stat().st_size) > LARGE:
            report.hint(
                worded(
                    f"{self.target}: has {size / 1e6:,.0f} MB, which readers take into memory; ",
                    Parameter("to_format", "perfetto"),
                    " is smaller",
                )
            )
        return report


def time_bounds(traces: Traces) -> Window | None:
    """The first and the last time of everything that can be written; None where there is nothing."""
    found: list[tuple[int, int]] = []

    def see(first: Ints, last: Ints) -> None:
        good = (first >= 0) & (last >= first) & (first < OPEN)
        if good.any():
            ends = last[good]
            found.append((int(first[good].min()), int(np.where(ends < OPEN, ends, first[good]).max())))

    for chunk in traces.spans(("start_ns", "end_ns")):
        see(chunk["start_ns"], np.where(chunk["end_ns"] == np.iinfo(np.int64).min, chunk["start_ns"], chunk["end_ns"]))
    for _, _, samples in traces.lines():
        see(samples.time_ns, samples.time_ns)
    if traces.counters is not None:
        see(traces.counters.time_ns, traces.counters.time_ns)
    return (min(first for first, _ in found), max(last for _, last in found)) if found else None


class ChromeJsonFormat(WrittenOnly):
    """Events for viewers that read JSON."""

    name = "chrome-json"
    title = "Chrome trace events (JSON) for chrome://tracing, Perfetto, speedscope"

    def open_writer(self, target: Path, options: WriteOptions) -> ChromeWriter:
        return ChromeWriter(target, options)


FORMAT = ChromeJsonFormat()
