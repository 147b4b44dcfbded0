"""The format `perfetto`."""

from __future__ import annotations

from pathlib import Path

from callgrove.binary.sources import Source
from callgrove.errors import UsageError
from callgrove.formats.interface import Match, ReadOptions, WriteOptions
from callgrove.formats.timeline.perfetto.encoder import PerfettoEncoder
from callgrove.formats.timeline.writer import TimelineWriter
from callgrove.model.experiment import Experiment

__all__ = ["FORMAT"]


class PerfettoFormat:
    """Traces for ui.perfetto.dev and its trace processor; they are written, not read."""

    name = "perfetto"
    title = "Perfetto trace (protocol buffers)"

    def match(self, source: Source) -> Match | None:
        return None

    def read(self, source: Source, options: ReadOptions) -> Experiment:
        raise UsageError(f"{source.path}: the format {self.name} can be written, but not read")

    def open_writer(self, target: Path, options: WriteOptions) -> TimelineWriter:
        return TimelineWriter(target, options, PerfettoEncoder())


FORMAT = PerfettoFormat()
