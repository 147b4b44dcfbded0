"""The format `callgrove`: detection by the manifest, reading, writing, checking and dumping."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from callgrove.binary.files import Source
from callgrove.errors import CallgroveError, CorruptFile, InputError
from callgrove.execute import Progress
from callgrove.formats.columnar.folder import BEGINNING, Manifest, StoredTable
from callgrove.formats.columnar.reading import read_experiment
from callgrove.formats.columnar.schema import FORMAT_NAME, MANIFEST, arrow
from callgrove.formats.columnar.studies import read_study, write_study
from callgrove.formats.columnar.writer import FOLDER, FolderWriter
from callgrove.formats.interface import Field, Grade, LossReport, Match, Problem, ReadOptions, WriteOptions, Writer
from callgrove.model.experiment import Experiment, Severity
from callgrove.model.study.series import Study
from callgrove.model.traces.events import LABEL, PARENT, SIDE_TABLES, SPAN_COLUMNS

__all__ = ["FORMAT", "ColumnarFormat", "fields", "problems"]


# -- what `check` and `dump` say of a folder ---------------------------------------------------------------------------


def problems(opened: Experiment | Study, folder: Path, progress: Progress) -> Iterator[Problem]:
    """Yield what was said on opening, then what every row group says."""
    for warning in opened.warnings:
        yield Problem(warning.severity, folder.name, "tables", warning.text)
    if isinstance(opened, Study):
        return
    total, done = opened.values.n_stored() or 0, 0
    for block in opened.values.blocks(np.arange(len(opened.profiles))):
        done += len(block)
        progress("checking values", done, max(done, total))
    for _ in opened.traces.lines():
        pass
    damage = list(opened.values.problems)
    if opened.traces.samples is not None:
        damage += opened.traces.samples.problems
    damage += _collect_damage(opened)
    for error in damage:
        section = error.section if isinstance(error, CorruptFile) else "values"
        yield Problem(Severity.DAMAGE, folder.name, section, str(error))


def _collect_damage(experiment: Experiment) -> Iterator[CallgroveError]:
    """Yield damage of spans, counters and attachments, which is raised where it is met."""
    traces = experiment.traces
    parts = range(len(traces.parts()))
    asked: list[Callable[[], object]] = [
        lambda: [None for _ in traces.spans((*SPAN_COLUMNS, LABEL, PARENT))],
        lambda: [None for name in SIDE_TABLES for part in parts for _ in traces.side_chunks(name, part)],
        lambda: [traces.devices(part) for part in parts],
        *traces.tables.values(),
        lambda: [traces.counters],
        lambda: [attachment.read() for attachment in experiment.attachments.values()],
    ]
    for ask in asked:
        try:
            ask()
        except CallgroveError as error:
            yield error


def fields(folder: Path) -> Iterator[Field]:
    """Yield the manifest, and of every table its row groups: where they begin and how many rows they have."""
    manifest = Manifest.read(folder)
    for key, value in (("holds", manifest.holds), ("title", manifest.title), *manifest.more.items()):
        yield Field(MANIFEST, "manifest", -1, 0, key, value if isinstance(value, int | str) else json.dumps(value))
    for name, rows in manifest.tables.items():
        table = StoredTable(folder, name, (), rows)
        yield Field(table.path.name, name, -1, 0, "rows", rows)
        for number, size in enumerate(np.diff(table.first_rows).tolist()):
            yield Field(table.path.name, f"{name} row groups", number, int(table.first_rows[number]), "rows", size)


# -- the format --------------------------------------------------------------------------------------------------------


LOOKED_AT = 256


class ColumnarFormat:
    """Reads and writes callgrove's own folders."""

    name = FORMAT_NAME
    title = "callgrove's own folder of Parquet tables"

    def match(self, source: Source) -> Match | None:
        """Recognise a folder by its manifest, or the manifest by itself."""
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
        """Return the writer of a folder that appears at `target` when the writer is closed."""
        return FolderWriter(target, options)

    def refuse_target(self, target: Path) -> None:
        FOLDER.refuse_others(target)

    def write_study(self, study: Study, target: Path, options: WriteOptions) -> LossReport:
        arrow()
        return write_study(study, target, options)

    def check(self, source: Source, options: ReadOptions) -> Iterator[Problem]:
        """Yield what reading tells, and what every row group tells."""
        return problems(self.read(source, options), _folder(source), options.progress)

    def dump(self, source: Source) -> Iterator[Field]:
        """Yield the manifest, and the row groups of every table."""
        arrow()
        return fields(_folder(source))


FORMAT = ColumnarFormat()


def _folder(source: Source) -> Path:
    if source.is_folder:
        return source.path
    if source.path.name != MANIFEST and not BEGINNING.match(source.head(LOOKED_AT)):
        raise InputError(f"{source.path}: is a file, and the format callgrove is a folder with a {MANIFEST}")
    return source.path.resolve().parent
