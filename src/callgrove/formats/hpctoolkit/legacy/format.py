"""Legacy HPCToolkit databases: experiment.xml 2.0 to 2.2 [+ *.metric-db] [+ *.hpctrace or experiment.mt] [+ src/].

Specification: hpctoolkit-databases.md part C, hpcrun-and-prof.md section 4 for traces; the DTD inside of each file.

    experiment.xml    tables, tree, and the values of the summary (six digits)
    N.app-RANK-THREAD-HOST-PID-GEN.metric-db    the values of one thread: nodes x metrics, dense
    app-RANK-THREAD-HOST-PID-GEN.hpctrace       its trace; experiment.mt holds many of them

Known deviations: values of a metric-db begin 8 bytes behind the header that the XML announces. The exclusive cost of a
loop or inlined function is that of its own statements only (see tree.py). Versions 3.x are read as 2.2. Flat
profiles are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np

from callgrove.arrays import Array, Bools
from callgrove.binary.files import FileBytes
from callgrove.binary.sources import Source
from callgrove.errors import CallgroveError, CorruptFile, InvalidExperiment
from callgrove.execute import Progress, silent
from callgrove.formats.hpctoolkit.check import problems_of_samples
from callgrove.formats.hpctoolkit.dump import Dumper, plain, xml_fields
from callgrove.formats.hpctoolkit.experiment_xml import HEAD, major_version
from callgrove.formats.hpctoolkit.legacy import records as rec
from callgrove.formats.hpctoolkit.legacy.database import LegacyDatabase
from callgrove.formats.hpctoolkit.legacy.values import (
    LegacySamples,
    LegacyValues,
    TraceFile,
    open_metric_db,
    open_trace,
    read_merged_traces,
)
from callgrove.formats.interface import Field, Grade, Match, Problem, ReadOptions
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.experiment import Experiment, Severity
from callgrove.model.metrics import Scope

__all__ = ["FORMAT", "LegacyFormat", "fields_of", "problems"]


# -- what `check` verifies, beyond what reading demands ----------------------------------------------------------------
# threads == XML       the sum over all metric-db files is the value in the XML, to its six digits
# inclusive            at a node == over its children, the root included
# traces               time order, known nodes, within the announced times


DIGITS = 5e-6  # the relative error of six digits, rounded


def problems(experiment: Experiment, source: Source, progress: Progress = silent) -> Iterator[Problem]:
    """Yield everything that is wrong or remarkable."""
    for warning in experiment.warnings:
        yield Problem(warning.severity, str(source.path), "opening", warning.text)
    values = experiment.values.backend
    assert isinstance(values, LegacyValues)
    progress("checking values", 0, 2)
    yield from _summary(experiment, values)
    for row, metric in enumerate(experiment.metrics):
        if metric.scope == Scope.INCLUSIVE and not metric.statistic:
            yield from _inclusive(experiment, row)
    for met in values.problems:
        yield Problem(Severity.DAMAGE, experiment.path, "values", str(met))
    progress("checking traces", 1, 2)
    yield from _traces(experiment)


def _summary(experiment: Experiment, values: LegacyValues) -> Iterator[Problem]:
    """Yield the values of the XML against the sum over all threads."""
    if not values.files or any(w.severity == Severity.DAMAGE for w in experiment.warnings):
        return  # a thread that could not be read is missing in the sum
    for summary in experiment.profiles.summaries.tolist():
        for row in np.unique(np.concatenate([file.rows for file in values.files.values()])).tolist():
            said = experiment.values.dense(summary, row)
            threads = experiment.values.totals(row, experiment.profiles.measured)
            wrong = np.flatnonzero(~_close(said, threads))
            if len(wrong):
                metric, at = experiment.metrics[row], int(wrong[0])
                where = (
                    f"node {int(experiment.contexts.source_id[at])}: {said[at]:g} in the XML, {threads[at]:g} in all"
                )
                text = (
                    f"{metric.name} ({metric.scope.word}): {len(wrong)} nodes differ from their threads, e.g. {where}"
                )
                yield Problem(Severity.DAMAGE, experiment.path, "summary", text)


def _inclusive(experiment: Experiment, row: int) -> Iterator[Problem]:
    """A node has at least what its children have; the rest is its own, which only statements have."""
    tree, n = experiment.contexts, experiment.contexts.n_listed
    totals = experiment.values.totals(row)[:n]
    below = np.zeros(n)
    inner = np.flatnonzero(tree.parent[:n] >= 0)
    with np.errstate(invalid="ignore", over="ignore"):  # values need not be finite
        np.add.at(below, tree.parent[inner], totals[inner])
    parents = np.zeros(n, np.bool_)
    parents[tree.parent[inner]] = True
    wrong = np.flatnonzero(parents & ~_close(totals, below))
    if len(wrong):
        at, metric = int(wrong[0]), experiment.metrics[row]
        where = f"node {int(tree.source_id[at])}: {totals[at]:g}, its children have {below[at]:g}"
        text = f"{metric.name}: {len(wrong)} nodes have other inclusive cost than their children, e.g. {where}"
        yield Problem(Severity.NOTE, experiment.path, "tree", text)


def _close(a: Array, b: Array) -> Bools:
    with np.errstate(invalid="ignore", over="ignore"):
        near: Bools = np.abs(a - b) <= 2 * DIGITS * np.maximum(np.abs(a), np.abs(b))
    same: Bools = near | (a == b) | (np.isnan(a) & np.isnan(b))
    return same


def _traces(experiment: Experiment) -> Iterator[Problem]:
    samples = experiment.traces.samples
    if not isinstance(samples, LegacySamples):
        return
    bounds: list[int] = []
    try:
        for _, _, line in experiment.traces.lines():
            bounds += [int(line.time_ns[0]), int(line.time_ns[-1])] if len(line) else []
    except CallgroveError as error:
        yield Problem(Severity.DAMAGE, experiment.path, "traces", str(error))
        return
    for line_number in sorted(samples.unordered):
        profile = int(samples.profile[line_number])
        text = "time runs backwards; the samples were sorted"
        yield Problem(Severity.NOTE, experiment.path, f"trace of profile {profile}", text)
    time_range = (min(bounds), max(bounds)) if bounds else None
    yield from problems_of_samples(experiment, samples.unknown, time_range, Severity.NOTE)


# -- fields for `dump` -------------------------------------------------------------------------------------------------


def fields_of(path: Path) -> Iterator[Field]:
    """Yield the fields of one file, by what it begins with."""
    with path.open("rb") as file:
        head = file.read(18)
    if head == rec.METRIC_DB_MAGIC:
        yield from _metric_db(path)
    elif path.suffix == ".hpctrace" or head == rec.TRACE_MAGIC:
        yield from _trace(Dumper(FileBytes(path), path.name), open_trace(path), 0, "trace")
    elif path.suffix == ".mt":
        yield from _list_merged_trace_fields(path)
    else:
        yield from xml_fields(path)


def _metric_db(path: Path) -> Iterator[Field]:
    file = FileBytes(path)
    yield from Dumper(file, path.name).record("header", rec.METRIC_DB, 0)
    metric_db = open_metric_db(path, [])
    for node in range(metric_db.n_nodes):
        at = rec.METRIC_DB.itemsize + node * metric_db.n_metrics * rec.VALUE.itemsize
        for column, value in enumerate(file.array(rec.VALUE, metric_db.n_metrics, at, "values").tolist()):
            yield Field(
                path.name, "node", node + 1, at + column * rec.VALUE.itemsize, f"metric[{column}]", plain(value)
            )


def _trace(dumper: Dumper, trace: TraceFile, start: int, section: str) -> Iterator[Field]:
    if not dumper.file.size:
        return
    yield from dumper.record(f"{section} header", rec.TRACE, start)
    if trace.start > start + rec.TRACE.itemsize:
        yield from dumper.record(f"{section} header", rec.TRACE_FLAGS, start + rec.TRACE.itemsize)
    yield from dumper.table(section, trace.record, trace.count, trace.start)


def _list_merged_trace_fields(path: Path) -> Iterator[Field]:
    file = FileBytes(path)
    dumper = Dumper(file, path.name)
    yield from dumper.record("header", rec.MT_HEADER, 0)
    traces = read_merged_traces(path)
    yield from dumper.table("table", rec.MT_ENTRY, len(traces), rec.MT_HEADER.itemsize)
    offsets = file.array(rec.MT_ENTRY, len(traces), rec.MT_HEADER.itemsize, "table")["offset"].tolist()
    for number, (trace, start) in enumerate(zip(traces, offsets, strict=True)):
        yield from _trace(dumper, trace, start, f"trace {number}")
    yield from dumper.footer()


# -- the format --------------------------------------------------------------------------------------------------------


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
        """Yield what is wrong with a legacy database."""
        return problems(self.read(source, options), source, options.progress)

    def dump(self, source: Source) -> Iterator[Field]:
        """Yield every field of every part."""
        paths = [source.path]
        if source.is_folder:
            globs = (XML, "*.metric-db", "*.hpctrace", MERGED)
            paths = [path for glob in globs for path in _paths(source.path, glob)]
        for path in paths:
            yield from fields_of(path)


FORMAT = LegacyFormat()


def _names(folder: Path, glob: str) -> list[str]:
    """Names of files directly in the folder that fit; a glob never leaves it."""
    return sorted(path.name for path in folder.iterdir() if fnmatchcase(path.name, glob) and path.is_file())


def _paths(folder: Path, glob: str) -> list[Path]:
    return [folder / name for name in _names(folder, glob)]
