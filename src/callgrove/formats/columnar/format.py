"""The format `callgrove`: detection by the manifest, reading, writing, checking and dumping."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from callgrove.binary.sources import Source
from callgrove.errors import InputError
from callgrove.formats.columnar.arrow import arrow
from callgrove.formats.columnar.checking import fields, problems
from callgrove.formats.columnar.manifest import BEGINNING, Manifest
from callgrove.formats.columnar.reading import read_experiment
from callgrove.formats.columnar.schema import FORMAT_NAME, MANIFEST
from callgrove.formats.columnar.studies import read_study, write_study
from callgrove.formats.columnar.writer import FOLDER, FolderWriter
from callgrove.formats.interface import Field, Grade, LossReport, Match, Problem, ReadOptions, WriteOptions, Writer
from callgrove.model.experiment import Experiment
from callgrove.model.study import Study

__all__ = ["FORMAT", "ColumnarFormat"]

LOOKED_AT = 256


class ColumnarFormat:
    """Reads and writes callgrove's own folders."""

    name = FORMAT_NAME
    title = "callgrove's own folder of Parquet tables"

    def match(self, source: Source) -> Match | None:
        """By the manifest, in a folder or by itself."""
        if source.has(MANIFEST):
            if BEGINNING.match(source.head(LOOKED_AT, MANIFEST)):
                return Match(Grade.EXACT, f"it has the manifest {MANIFEST}")
            return Match(Grade.WEAK, f"it has a file {MANIFEST}")
        if not source.is_folder and BEGINNING.match(source.head(LOOKED_AT)):
            return Match(Grade.EXACT, "it is the manifest of a folder")
        return None

    def read(self, source: Source, options: ReadOptions) -> Experiment | Study:
        folder = _folder(source)
        manifest = Manifest.read(folder)
        arrow()
        return read_experiment(folder, manifest) if manifest.holds == "experiment" else read_study(folder, manifest)

    def open_writer(self, target: Path, options: WriteOptions) -> Writer:
        """A folder that appears at `target` when the writer is closed."""
        return FolderWriter(target, options)

    def refuse_target(self, target: Path) -> None:
        FOLDER.refuse_others(target)

    def write_study(self, study: Study, target: Path, options: WriteOptions) -> LossReport:
        arrow()
        return write_study(study, target, options)

    def check(self, source: Source, options: ReadOptions) -> Iterator[Problem]:
        """What reading tells, and what every row group tells."""
        return problems(self.read(source, options), _folder(source), options.progress)

    def dump(self, source: Source) -> Iterator[Field]:
        """The manifest, and the row groups of every table."""
        arrow()
        return fields(_folder(source))


FORMAT = ColumnarFormat()


def _folder(source: Source) -> Path:
    if source.is_folder:
        return source.path
    if source.path.name != MANIFEST and not BEGINNING.match(source.head(LOOKED_AT)):
        raise InputError(f"{source.path}: is a file, and the format callgrove is a folder with a {MANIFEST}")
    return source.path.resolve().parent
