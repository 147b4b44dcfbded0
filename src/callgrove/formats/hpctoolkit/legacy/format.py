"""Legacy HPCToolkit databases: experiment.xml 2.0 to 2.2 [+ *.metric-db] [+ *.hpctrace or experiment.mt].

Specification: hpctoolkit-databases.md part C, hpcrun-and-prof.md section 4 for traces; the DTD inside of each file.

    experiment.xml    tables, tree, and the values of the summary (six digits)
    N.app-RANK-THREAD-HOST-PID-GEN.metric-db    the values of one thread: nodes x metrics, dense
    app-RANK-THREAD-HOST-PID-GEN.hpctrace       its trace; experiment.mt holds many of them

Known deviations: values of a metric-db begin 8 bytes behind the header that the XML announces. The exclusive cost of a
loop or inlined function is that of its own statements only (see tree.py). Versions 3.x are read as 2.2. Flat
profiles are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np

from callgrove.arrays import ABSENT, Array, Bools, Floats, Ids, Ints
from callgrove.binary.files import FileBytes, IdMap, Source, open_regular
from callgrove.errors import CallgroveError, CorruptFile, InvalidExperiment, count_of
from callgrove.execute import Progress, silent
from callgrove.formats.hpctoolkit.check import problems_of_samples
from callgrove.formats.hpctoolkit.dump import Dumper, plain, xml_fields
from callgrove.formats.hpctoolkit.experiment_xml import HEAD, major_version
from callgrove.formats.hpctoolkit.legacy import values as legacy_traces
from callgrove.formats.hpctoolkit.legacy import values as rec
from callgrove.formats.hpctoolkit.legacy.experiment_xml import (
    ALL_TRACES,
    ROOT_ID,
    LegacyTree,
    LegacyXml,
    MetricRows,
    Thread,
    TraceDb,
    add_metrics,
    parse,
)
from callgrove.formats.hpctoolkit.legacy.values import (
    LegacySamples,
    LegacyValues,
    MetricDbFile,
    ThreadName,
    TraceFile,
    open_metric_db,
    open_trace,
    read_merged_traces,
)
from callgrove.formats.interface import Field, Grade, Match, Problem, ReadOptions
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment, Severity, Sources
from callgrove.model.metrics import Metric, Scope
from callgrove.model.profiles import ProfileKind
from callgrove.model.values import SparseBlock

__all__ = ["FORMAT", "LegacyDatabase", "LegacyFormat", "fields_of", "problems"]


# -- A database while it is opened -------------------------------------------------------------------------------------


Files = Callable[[str], list[Path]]  # the files of the folder that fit a glob
FIRST_STREAM = 500  # threads from this number on are streams of a GPU
NO_ID = 2**62  # no value names a metric by such a number


@dataclass
class _Thread:
    """One profile to be: what is known of it."""

    name: ThreadName | None
    label: str = ""
    file: MetricDbFile | None = None
    trace: TraceFile | None = None
    inline: SparseBlock | None = None


@dataclass
class LegacyDatabase:
    """Collects tables, threads and traces; what is damaged is recorded and left out."""

    folder: Path
    builder: ExperimentBuilder
    xml: LegacyXml = field(default_factory=LegacyXml)
    tree: LegacyTree | None = None
    rows: MetricRows = field(default_factory=MetricRows)
    threads: list[_Thread] = field(default_factory=list)
    n_broken: int = 0

    def record_damage(self, text: str) -> None:
        self.builder.warn(Severity.DAMAGE, text)

    # -- experiment.xml ----------------------------------------------------------------------------------------

    def read_xml(self, path: Path, salvage: bool) -> None:
        """Read tables, tree and metrics."""

        def warn(text: str) -> None:
            self.record_damage(text if text.startswith(str(path)) else f"{path}: {text}")

        self.xml, self.tree = parse(path, self.builder, warn, salvage)
        self.builder.version, self.builder.title = self.xml.version, self.xml.title or self.builder.title
        self.rows = add_metrics(self.builder, self.xml)
        metric = self.tree.inline[1]
        for id_ in np.unique(metric[~np.isin(metric, [*self.rows.summary, *self.rows.threads])]).tolist():
            warn(f"metric {id_} has values, but is in no table")
            row = Metric(f"metric#{id_}", Scope.NONE, source_id=id_, summary_id=id_)
            self.rows.summary[id_] = self.builder.add_metric(row)

    def _inline_threads(self) -> None:
        """Add threads whose values are in the XML, in metrics of their own."""
        if self.tree is None:
            return
        context, metric, value = self.tree.inline
        by_thread: dict[Thread, dict[int, int]] = {}
        for id_, (thread, row) in self.rows.threads.items():
            by_thread.setdefault(thread, {})[id_] = row
        for (rank, number), ids in sorted(by_thread.items()):
            known = next((t for t in self.threads if t.name and (t.name.rank, t.name.thread) == (rank, number)), None)
            if known is None:
                known = _Thread(ThreadName(rank, number))
                self.threads.append(known)
            known.inline = self._block(context, metric, value, ids)

    def _block(self, context: Ints, metric: Ints, value: Floats, rows: dict[int, int]) -> SparseBlock:
        """Return the inline values of some metric ids, in the builder's context numbers; each once, and none zero."""
        ids = np.array(sorted(id_ for id_ in rows if abs(id_) < NO_ID), np.int64)
        table = np.array([rows[id_] for id_ in ids.tolist()], np.int32)
        kept = np.isin(metric, ids) & (context >= 0) & (value != 0)
        row: Ids = table[np.searchsorted(ids, metric[kept])] if len(ids) else np.empty(0, np.int32)
        where: Ids = context[kept].astype(np.int32)
        first = np.unique(np.stack([where, row]), axis=1, return_index=True)[1]
        if len(first) < len(row):
            self.record_damage(
                f"{self.builder.path}: {count_of(len(row) - len(first), 'value is', 'values are')} given twice; "
                "the first one counts"
            )
        first = np.sort(first)
        return SparseBlock(np.zeros(len(first), np.int32), where[first], row[first], value[kept][first])

    # -- the files beside it -----------------------------------------------------------------------------------

    def add_threads(self, files: Files) -> None:
        """Add a profile for every metric-db."""
        meanings: dict[Path, list[tuple[int, int]]] = {}
        for db, row in self.rows.files:
            for path in files(db.glob):
                meanings.setdefault(path, []).append((db.column, row))
        for path in sorted(meanings, key=_by_thread):
            self._add_file(path, meanings[path])
        if not meanings and not self.rows.threads:
            text = f"{self.folder}: there is no metric-db: only what all threads have together is known"
            self.builder.warn(Severity.MISSING, text)

    def add_unnamed(self, paths: list[Path]) -> None:
        """Add metric-db files without experiment.xml: metrics are known by the number of their column."""
        rows: list[int] = []
        for path in sorted(paths, key=_by_thread):
            try:
                n = open_metric_db(path, []).n_metrics
            except CallgroveError:
                n = 0  # reported below
            while len(rows) < n:
                rows.append(self.builder.add_metric(Metric(f"metric#{len(rows)}", Scope.NONE, source_id=len(rows))))
            self._add_file(path, list(enumerate(rows[:n])))
        if self.n_broken == len(paths) == 1:
            open_metric_db(paths[0], [])  # nothing is left: the damage is the answer

    def _add_file(self, path: Path, meanings: list[tuple[int, int]]) -> None:
        name = ThreadName.of(path.name)
        thread = _Thread(name, "" if name else path.name)
        self.threads.append(thread)
        try:
            thread.file = open_metric_db(path, meanings)
        except CallgroveError as error:
            self.n_broken += 1
            self.record_damage(str(error))

    def add_traces(self, files: Files, merged: Path) -> None:
        """Add traces, each given to the thread that it is of; one that nothing else is known of is a thread as well."""
        traces: list[tuple[ThreadName | None, str, TraceFile]] = []
        candidates = files(self.xml.trace_db.glob if self.xml.trace_db else ALL_TRACES)
        paths = [path for path in candidates if path != merged]
        for path in sorted(paths, key=_by_thread):
            try:
                traces.append((ThreadName.of(path.name), path.name, legacy_traces.open_trace(path)))
            except CallgroveError as error:
                self.record_damage(str(error))
        if not paths and merged.is_file():
            try:
                inside = legacy_traces.read_merged_traces(merged)
                traces += [(ThreadName(trace.rank, trace.thread), "", trace) for trace in inside]
            except CallgroveError as error:
                self.record_damage(str(error))
        for name, label, trace in traces:
            if trace.rest:
                self.record_damage(f"{trace.path}: the last record is cut off after {trace.rest} bytes; it is left out")
            self._thread_of(name, label).trace = trace

    def _thread_of(self, name: ThreadName | None, label: str) -> _Thread:
        if name is not None:
            free = [t for t in self.threads if t.name is not None and t.trace is None]
            same = [t for t in free if t.name == name]
            near = [t for t in free if t.name and (t.name.rank, t.name.thread) == (name.rank, name.thread)]
            if same or (near and not name.pid):
                return (same or near)[0]
        self.threads.append(_Thread(name, "" if name else label))
        return self.threads[-1]

    # -- the experiment ----------------------------------------------------------------------------------------

    def finish(self) -> Experiment:
        self._inline_threads()
        self._add_elided()
        order = self.builder.order()
        ids = np.full(len(order), ABSENT, np.int64)
        ids[order] = self.builder.source_ids()
        contexts = IdMap(ids[ids >= 0], np.flatnonzero(ids >= 0))
        summary = self._summary()
        alone = summary is not None and all(t.file is None and not t.inline for t in self.threads)
        self._add_profiles(summary is not None, alone)
        first = int(summary is not None)
        inline = {first + k: t.inline for k, t in enumerate(self.threads) if t.inline is not None and len(t.inline)}
        if summary is not None:
            inline[0] = summary
        files = {first + k: t.file for k, t in enumerate(self.threads) if t.file is not None}
        placed = {p: _renumber_values(block, p, order) for p, block in inline.items()}
        summaries = [0] if summary is not None and not alone else []
        self.builder.set_values(LegacyValues(placed, files, contexts, ids, summaries, not self.n_broken))
        self._set_traces(order, first)
        self.builder.sources = Sources(self.folder if self.folder.is_dir() else None)
        return self.builder.build()

    def _summary(self) -> SparseBlock | None:
        """Return what the XML says about all threads together; None where it has no such metric."""
        if self.tree is None or not self.rows.summary:
            return None
        return self._block(*self.tree.inline, self.rows.summary)

    def _add_profiles(self, summary: bool, alone: bool) -> None:
        """Add the profiles. A summary that is `alone`, because no thread has values, is all that was measured."""
        if summary:
            self.builder.add_profile(ProfileKind.AGGREGATE if alone else ProfileKind.SUMMARY, [(0, 0, 0, 0)])
        hosts = {host: k for k, host in enumerate(sorted({t.name.host for t in self.threads if t.name}))}
        for thread in self.threads:
            stream = thread.name is not None and thread.name.thread >= FIRST_STREAM
            identifiers = thread.name.identifiers(hosts) if thread.name else []
            kind = ProfileKind.GPU_STREAM if stream else ProfileKind.THREAD
            self.builder.add_profile(kind, identifiers, name=thread.label)

    def _add_elided(self) -> None:
        """Add nodes with values in a metric-db that the XML does not list."""
        known = self.builder.source_ids()
        files = [thread.file for thread in self.threads if thread.file is not None]
        n = max((file.n_nodes for file in files), default=0)
        unlisted = np.setdiff1d(np.arange(ROOT_ID + 1, n + 1), known)
        used = np.zeros(len(unlisted), np.bool_)
        for file in files if len(unlisted) else []:
            inside = unlisted <= file.n_nodes
            matrix = file.values(0, file.n_nodes)
            used[inside] |= (matrix[unlisted[inside] - 1] != 0).any(axis=1)
        elided = unlisted[used]
        none = np.full(len(elided), ABSENT)
        self.builder.add_contexts(parent=none, kind=none * 0 + ContextKind.ELIDED, source_id=elided)

    def _set_traces(self, order: Ids, first: int) -> None:
        lines = [(first + k, thread.trace) for k, thread in enumerate(self.threads) if thread.trace is not None]
        if not lines or self.tree is None:
            return
        said = self.xml.trace_db or TraceDb()
        largest = said.last or max((_last_time(trace) for _, trace in lines), default=0)
        scale = legacy_traces.ticks_to_ns(said.ticks_per_sec, largest)
        trace_ids = self.tree.trace_ids
        known = trace_ids >= 0
        contexts = IdMap(trace_ids[known], order[: len(trace_ids)][known])
        profiles: Ids = np.array([profile for profile, _ in lines], np.int32)
        samples = LegacySamples([trace for _, trace in lines], profiles, contexts, scale)
        ends = (min(said.first * scale, legacy_traces.LAST_NS), min(said.last * scale, legacy_traces.LAST_NS))
        self.builder.set_traces(samples, time_range=ends if said.last and samples.count.any() else None)


def _renumber_values(block: SparseBlock, profile: int, order: Ids) -> SparseBlock:
    """Return the inline values with the final ids of profile and context."""
    context: Array = order[block.context]
    return SparseBlock(np.full(len(block), profile, np.int32), context, block.metric, block.value)


def _last_time(trace: TraceFile) -> int:
    return int(trace.records()["time"][-1]) if trace.count else 0


def _by_thread(path: Path) -> tuple[tuple[int, ...], str]:
    name = ThreadName.of(path.name)
    return (name.rank, name.thread, name.host, name.pid, name.generation) if name else (), path.name


# -- the format --------------------------------------------------------------------------------------------------------


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
            yield from _check_inclusive(experiment, row)
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
                node = int(experiment.contexts.source_id[at])
                where = f"node {node}: {said[at]:g} in the XML, {threads[at]:g} in all"
                many = count_of(len(wrong), "node differs", "nodes differ")
                text = f"{metric.name} ({metric.scope.word}): {many} from the threads, e.g. {where}"
                yield Problem(Severity.DAMAGE, experiment.path, "summary", text)


def _check_inclusive(experiment: Experiment, row: int) -> Iterator[Problem]:
    """Yield a note where nodes have another inclusive cost than their children: a node has at least what its children
    have; the rest is its own, which only statements have."""
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
        many = count_of(len(wrong), "node has", "nodes have")
        text = f"{metric.name}: {many} other inclusive cost than the children, e.g. {where}"
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
    with open_regular(path) as file:
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
        """Recognise a database by the version inside experiment.xml, or the magic of a metric-db."""
        if not source.is_folder:
            if source.head(18) == rec.METRIC_DB_MAGIC:
                return Match(Grade.EXACT, "it is a metric-db of a legacy database")
            version = major_version(source.head(HEAD))
            return Match(Grade.EXACT, f"it is an experiment.xml of version {version}") if version in VERSIONS else None
        version = major_version(source.head(HEAD, XML))
        if version in VERSIONS:
            return Match(Grade.EXACT, f"experiment.xml has version {version}")
        first = next(iter(_list_names(source.path, "*.metric-db")), "") if not source.has(XML) else ""
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


def _list_names(folder: Path, glob: str) -> list[str]:
    """Return names of files directly in the folder that fit; a glob never leaves it."""
    return sorted(path.name for path in folder.iterdir() if fnmatchcase(path.name, glob) and path.is_file())


def _paths(folder: Path, glob: str) -> list[Path]:
    return [folder / name for name in _list_names(folder, glob)]
