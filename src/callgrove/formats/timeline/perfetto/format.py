"""The format `perfetto`."""

from __future__ import annotations

from pathlib import Path

from callgrove.formats.interface import WriteOptions
from callgrove.formats.timeline.perfetto.encoder import PerfettoEncoder
from callgrove.formats.timeline.writer import TimelineWriter
from callgrove.formats.writing import WrittenOnly

__all__ = ["FORMAT"]


class PerfettoFormat(WrittenOnly):
    """Traces for ui.perfetto.dev and its trace processor."""

    name = "perfetto"
    title = "Perfetto trace (protocol buffers)"

    def open_writer(self, target: Path, options: WriteOptions) -> TimelineWriter:
        return TimelineWriter(target, options, PerfettoEncoder())


FORMAT = PerfettoFormat()
