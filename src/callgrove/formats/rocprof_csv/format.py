"""The format of the registry. It is written only: what these files hold is read better from the database."""

from __future__ import annotations

from pathlib import Path

from callgrove.binary.sources import Source
from callgrove.errors import UsageError
from callgrove.formats.interface import Match, ReadOptions, WriteOptions
from callgrove.formats.rocprof_csv.writer import RocprofCsvWriter
from callgrove.model.experiment import Experiment

__all__ = ["FORMAT"]


class RocprofCsvFormat:
    """rocprofv3's CSV files."""

    name = "rocprof-csv"
    title = "CSV files as rocprofv3 writes them, one for each domain"

    def match(self, source: Source) -> Match | None:
        return None

    def read(self, source: Source, options: ReadOptions) -> Experiment:
        raise UsageError(f"{source.path}: {self.name} can be written, but not read; open the database it was made of")

    def open_writer(self, target: Path, options: WriteOptions) -> RocprofCsvWriter:
        return RocprofCsvWriter(target, options)


FORMAT = RocprofCsvFormat()
