"""Legacy HPCToolkit databases: experiment.xml 2.0 to 2.2 [+ *.metric-db] [+ *.hpctrace or experiment.mt] [+ src/].

Specification: hpctoolkit-databases.md part C, hpcrun-and-prof.md section 4 for traces; the DTD inside of each file.

    experiment.xml    tables, tree, and the values of the summary (six digits)
    N.app-RANK-THREAD-HOST-PID-GEN.metric-db    the values of one thread: nodes x metrics, dense
    app-RANK-THREAD-HOST-PID-GEN.hpctrace       its trace; experiment.mt holds many of them

Known deviations: values of a metric-db begin 8 bytes behind the header that the XML announces. The exclusive cost of a
loop or inlined function is that of its own statements only (see `legacy_tree`). Versions 3.x are read as 2.2. Flat
profiles are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from callgrove.binary.sources import Source
from callgrove.errors import CorruptFile, InvalidExperiment
from callgrove.formats.hpctoolkit import legacy_consistency, legacy_fields
from callgrove.formats.hpctoolkit import legacy_records as rec
from callgrove.formats.hpctoolkit.experiment_xml import HEAD, major_version
from callgrove.formats.hpctoolkit.legacy_database import LegacyDatabase
from callgrove.formats.interface import Field, Grade, Match, Problem, ReadOptions
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.experiment import Experiment, Severity

__all__ = ["FORMAT", "LegacyFormat"]

XML = "experiment.xml"
MERGED = "experiment.mt"
VERSIONS = ("2", "3")


class LegacyFormat:
    """Reads legacy databases, with or without the files beside experiment.xml."""

    name = "hpctoolkit-legacy"
    title = "HPCToolkit database, legacy (experiment.xml 2.x)"

    def match(self, source: Source) -> Match | None:
        """By the version inside experiment.xml, or the magic of a metric-db."""
        if not source.is_folder:
            if source.head(18) == rec.METRIC_DB_MAGIC:
                return Match(Grade.EXACT, "it is a metric-db of a legacy database")
            version = major_version(source.head(HEAD))
            return Match(Grade.EXACT, f"it is an experiment.xml of version {version}") if version in VERSIONS else None
        if source.head(10, "meta.db") == b"HPCTOOLKIT":
            return None
        version = major_version(source.head(HEAD, XML))
        if version in VERSIONS:
            return Match(Grade.EXACT, f"experiment.xml has version {version}")
        first = next(iter(_names(source.path, "*.metric-db")), "") if not source.has(XML) else ""
        if first and source.head(18, first) == rec.METRIC_DB_MAGIC:
            return Match(Grade.STRONG, f"it has {first}, a metric-db of a legacy database")
        return None

    def read(self, source: Source, options: ReadOptions) -> Experiment:
        builder = ExperimentBuilder(self.name, path=str(source.path), title=source.path.name)
        database = LegacyDatabase(source.folder, builder)
        lone_metric_db = not source.is_folder and source.head(18) == rec.METRIC_DB_MAGIC
        if lone_metric_db or (source.is_folder and not source.has(XML)):
            builder.warn(Severity.MISSING, f"{source.path}: there is no {XML}: contexts and metrics have numbers only")
            database.add_unnamed([source.path] if lone_metric_db else _paths(source.path, "*.metric-db"))
        else:
            path = source.path / XML if source.is_folder else source.path
            options.progress(f"reading {XML}", 0, path.stat().st_size)
            database.read_xml(path, options.salvage)
            if source.is_folder:
                database.add_threads(lambda glob: _paths(source.path, glob))
                database.add_traces(lambda glob: _paths(source.path, glob), source.path / MERGED)
            else:
                text = "is only the experiment.xml of a database; open the folder that it came from to see the rest"
                builder.warn(Severity.MISSING, f"{source.path}: {text}")
        try:
            return database.finish()
        except InvalidExperiment as error:
            found = f"tables that contradict each other: {error.problems[0]}"
            raise CorruptFile(source.path, "tables", expected="one database", found=found) from error

    def check(self, source: Source, options: ReadOptions) -> Iterator[Problem]:
        """Everything that `legacy_consistency` verifies."""
        return legacy_consistency.problems(self.read(source, options), source, options.progress)

    def dump(self, source: Source) -> Iterator[Field]:
        """Every field of every part."""
        paths = [source.path]
        if source.is_folder:
            globs = (XML, "*.metric-db", "*.hpctrace", MERGED)
            paths = [path for glob in globs for path in _paths(source.path, glob)]
        for path in paths:
            yield from legacy_fields.fields_of(path)


FORMAT = LegacyFormat()


def _names(folder: Path, glob: str) -> list[str]:
    """Names of files directly in the folder that fit; a glob never leaves it."""
    return sorted(path.name for path in folder.iterdir() if fnmatchcase(path.name, glob) and path.is_file())


def _paths(folder: Path, glob: str) -> list[Path]:
    return [folder / name for name in _names(folder, glob)]
