"""The formats of this package: which tables each one is known by, and who reads them.

Specification: gpu-traces.md 1.1. Versions overlap between families, so the names of tables decide.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from callgrove.binary.sources import Source
from callgrove.errors import InputError, NotRecognised
from callgrove.formats.gpu import draft, nsight, rocpd, rpd
from callgrove.formats.gpu.dataset import DataSet
from callgrove.formats.gpu.experiment import experiment_of
from callgrove.formats.gpu.files import databases, first_database
from callgrove.formats.gpu.sqlite_file import MAGIC, SqliteFile
from callgrove.formats.interface import Grade, Match, ReadOptions
from callgrove.model.experiment import Experiment, InputWarning, Severity

__all__ = ["DRAFT", "NSIGHT", "ROCPD", "RPD", "GpuFormat"]


@dataclass(frozen=True)
class GpuFormat:
    """One family of databases. `knows` looks at names of tables, `datasets` reads one file."""

    name: str
    title: str
    knows: Callable[[Collection[str]], str]  # why a file with these tables is of this family; empty if it is not
    datasets: Callable[[SqliteFile], Sequence[DataSet]]

    def match(self, source: Source) -> Match | None:
        path = first_database(source.path) if source.is_folder else source.path
        if path is None or (not source.is_folder and not source.head(len(MAGIC)).startswith(MAGIC)):
            return None
        try:
            reason = self.knows(SqliteFile.open(path).tables)
        except InputError:  # no database, or one too damaged to tell
            return None
        grade = Grade.STRONG if source.is_folder else Grade.EXACT
        return Match(grade, reason if not source.is_folder else f"{path.name} in it: {reason}") if reason else None

    def read(self, source: Source, options: ReadOptions) -> Experiment:
        files = databases(source.paths)
        found: list[DataSet] = []
        skipped: list[InputWarning] = []
        for done, path in enumerate(files):
            options.progress("opening databases", done, len(files))
            try:
                found += self._open(path)
            except InputError as error:
                if len(files) == 1:
                    raise
                skipped.append(InputWarning(Severity.DAMAGE, str(error)))
        if not found:
            raise InputError(skipped[0].text) if skipped else NotRecognised(f"{source.path}: holds no database")
        return experiment_of(self.name, source.path, found, options, skipped)

    def _open(self, path: Path) -> Sequence[DataSet]:
        file = SqliteFile.open(path)
        if not self.knows(file.tables):
            first = ", ".join(list(file.tables)[:8]) or "none"
            raise NotRecognised(f"{path}: a SQLite file, but not of {self.name}: its tables are {first}")
        return self.datasets(file)


def _rocpd_tables(tables: Collection[str]) -> str:
    named = [t for t in tables if t.startswith(("rocpd_info_node", "rocpd_kernel_dispatch"))]
    return f"a SQLite file with the table {named[0]}" if named else ""


ROCPD = GpuFormat("rocpd", "rocprofv3 database (rocpd, SQLite)", _rocpd_tables, rocpd.datasets)


def _rpd_tables(tables: Collection[str]) -> str:
    return "a SQLite file with the tables rocpd_api and rocpd_op" if {"rocpd_api", "rocpd_op"} <= set(tables) else ""


RPD = GpuFormat("rpd", "RPD database (rocmProfileData, SQLite)", _rpd_tables, rpd.datasets)


def _nsight_tables(tables: Collection[str]) -> str:
    others = {"ThreadNames", "ProcessStreams", "NVTX_EVENTS"} & set(tables)
    return f"a SQLite file with the tables StringIds and {min(others)}" if "StringIds" in tables and others else ""


NSIGHT = GpuFormat("nsight", "Nsight Systems export (SQLite)", _nsight_tables, nsight.datasets)


def _draft_tables(tables: Collection[str]) -> str:
    others = {"gpu_kernel_launches", "instrumentation_regions", "call_stacks"} & set(tables)
    return f"a SQLite file with the tables strings and {min(others)}" if "strings" in tables and others else ""


DRAFT = GpuFormat("rocpd-draft", "draft of rocprofv3's multi-node schema (SQLite)", _draft_tables, draft.datasets)
