"""The format of the registry. It is written only: what these files hold is read better from the database."""

from __future__ import annotations

from pathlib import Path

from callgrove.formats.interface import WriteOptions
from callgrove.formats.rocprof_csv.writer import RocprofCsvWriter
from callgrove.formats.writing import WrittenOnly

__all__ = ["FORMAT"]


class RocprofCsvFormat(WrittenOnly):
    """rocprofv3's CSV files."""

    name = "rocprof-csv"
    title = "CSV files as rocprofv3's converter writes them (2025 or 2026)"

    def open_writer(self, target: Path, options: WriteOptions) -> RocprofCsvWriter:
        return RocprofCsvWriter(target, options)


FORMAT = RocprofCsvFormat()
