"""hpcrun measurement files, versions 02.00 (both dialects), 03.00 and 04.00: one file, or a folder of them, as an
experiment.

check.

Specification: hpcrun-format.txt of HPCToolkit ("hpcrun binary data format") for 02.00, and hpcrun-and-prof.md for what
genuine files do; the layouts are in `records`, the deviations of each version in files.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import numpy as np

from callgrove.arrays import ABSENT, Array, Ids, Ints, distinct
from callgrove.binary.files import FileBytes, IdMap, Source
from callgrove.errors import CallgroveError, CorruptFile, InputError, InvalidExperiment, count_of
from callgrove.execute import IN_PROCESS, Workers
from callgrove.formats.hpcrun import primitives as rec
from callgrove.formats.hpcrun import regions as placeholders
from callgrove.formats.hpcrun.dump import fields, header_text, json_text, summary, text, tree
from callgrove.formats.hpcrun.files import SUFFIX, TRACE_SUFFIX, measurement_files, read_tables, sort_key
from callgrove.formats.hpcrun.hpctrace import TraceFile
from callgrove.formats.hpcrun.measurement import DensePlace, Epoch, Measurement
from callgrove.formats.hpcrun.primitives import Cursor, Header, SectionCache, quote
from callgrove.formats.hpcrun.regions import OUTLINED, Regions, add_regions, merge, places_of, readable
from callgrove.formats.hpcrun.values import MeasurementValues, MetricRows, MetricTable, ValuePart
from callgrove.formats.interface import DumpView, Field, Grade, Match, Problem, ReadOptions, WriteOptions, Writer
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.experiment import Experiment, Severity
from callgrove.model.profiles import DEFAULT_ID_NAMES, Identifier, ProfileKind
from callgrove.model.traces.events import Samples, Window

__all__ = [
    "FORMAT",
    "HpcrunFormat",
    "MeasurementSamples",
    "OpenedFile",
    "TraceLine",
    "assemble",
    "open_files",
    "open_line",
    "problems",
]


# -- from measurement files, and the traces beside them, to an experiment ----------------------------------------------
#     one file, one epoch     every node is a context, `source_id` is its id
#     several files, epochs   equal call paths are one context; `source_id` is a node's id only where the epochs of one
#                             file agree on it
#
# Files are read one after the other and closed again; values and samples are read from them when asked for. So a view
# reads each of them twice: what its nodes are called is known when the trees of all of them are one, and to keep the
# values until then would take as much memory as there are values.


# -- traces beside measurement files -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class TraceLine:
    """The trace of one profile: node ids of the file, and the contexts that they are. `is_old` traces count
    microseconds."""

    path: Path
    profile: int
    is_old: bool
    count: int
    node_id: Array
    context: Ids
    time_range: Window | None

    def open(self) -> TraceFile:
        return open_trace(self.path, self.is_old)


def open_trace(path: Path, is_old: bool) -> TraceFile:
    """Return the trace in a file. Beside 02.00, times are microseconds; beside 04.00, nanoseconds."""
    return TraceFile.open(path, 1000 if is_old else 1)


def open_line(
    path: Path, profile: int, is_old: bool, node_id: Array, context: Ids, in_order: bool
) -> tuple[TraceLine, list[CallgroveError]]:
    """Return the line of a trace, and what is wrong with it at first sight. `in_order`: the profile says that it is."""
    trace = open_trace(path, is_old)
    n = trace.n_records
    time_range = None
    if n:
        times = [trace.arrays(0, 1)[0], trace.arrays(n - 1, 1)[0]] if in_order else [trace.arrays()[0]]
        time = np.concatenate(times)
        time_range = int(time.min()), int(time.max())
    return TraceLine(path, profile, is_old, n, node_id, context, time_range), trace.problems


class MeasurementSamples:
    """Sample lines. Samples of nodes that a profile does not have are left out and are a problem."""

    def __init__(self, lines: Sequence[TraceLine]) -> None:
        self._lines = lines
        self.profile = np.array([line.profile for line in lines], np.int32)
        self.metric = np.full(len(lines), -1, np.int32)
        self.count = np.array([line.count for line in lines], np.int64)
        self.problems: list[CallgroveError] = []

    @property
    def time_range(self) -> Window | None:
        """From the first sample to the last."""
        known = [line.time_range for line in self._lines if line.time_range is not None]
        return (min(k[0] for k in known), max(k[1] for k in known)) if known else None

    def line(self, line: int, window: Window | None = None) -> Samples:
        source = self._lines[line]
        try:
            trace = source.open()
            time, ids, _ = trace.arrays(0, source.count)
        except CallgroveError as error:  # gone, or another file since it was opened
            self._record_problem(error)
            return Samples(np.empty(0, np.int64), np.empty(0, np.int32))
        context = IdMap(source.node_id, source.context)[ids]
        unknown = context < 0
        if unknown.any():
            expected = "samples on nodes of the profile"
            found = f"{int(unknown.sum())} on others, which are left out"
            self._record_problem(CorruptFile(source.path, "records", expected=expected, found=found))
            time, context = time[~unknown], context[~unknown]
        if (time[1:] < time[:-1]).any():
            order = np.argsort(time, kind="stable")
            time, context = time[order], context[order]
        return Samples(time, context).within(window)

    def _record_problem(self, error: CallgroveError) -> None:
        if str(error) not in map(str, self.problems):
            self.problems.append(error)


# -- measurement files -------------------------------------------------------------------------------------------------


GPU_KINDS = ("GPUCONTEXT", "GPUSTREAM")
NOT_UNWOUND = ("unwound", "no")  # attribute of contexts whose callers the tool did not see
MOST_KINDS = 256


@dataclass(frozen=True)
class OpenedFile:
    """A file that was read, without its values; `n_values` counts them for each epoch."""

    path: Path
    measurement: Measurement
    n_values: tuple[int, ...]

    @classmethod
    def of(cls, path: Path, cache: SectionCache | None = None) -> OpenedFile:
        file = FileBytes(path)
        measurement = read_tables(file, cache=cache)
        return cls(path, measurement, tuple(_n_values(epoch, file) for epoch in measurement.epochs))


def _n_values(epoch: Epoch, file: FileBytes) -> int:
    place = epoch.place
    if not isinstance(place, DensePlace):
        return place.n_values
    return int(np.count_nonzero(file.array(place.record, place.n_nodes, place.at, "cct")["values"]))


def open_files(source: Source, builder: ExperimentBuilder, options: ReadOptions) -> list[OpenedFile]:
    """Return the file, or all that can be read of a folder, in the order of identifier tuples and names. Workers open
    the files of a folder, some at a time."""
    if not source.is_folder:
        return [OpenedFile.of(source.path)]
    files, paths = [], _files_in(source)
    cache = SectionCache()  # of this process: a worker begins with an empty one
    batches = [(cache, batch) for batch in _batch_paths(paths)]
    opened = options.workers.map(_open_batch, batches, label="opening profiles", progress=options.progress)
    for one in chain.from_iterable(opened):
        if isinstance(one, OpenedFile):
            files.append(one)
        else:
            builder.warn(Severity.DAMAGE, one)
    if not files:
        reason = f": {builder.warnings[0].text}" if builder.warnings else ""
        raise InputError(f"{source.path}: none of {len(paths)} measurement files can be read{reason}")
    return sorted(files, key=lambda f: (f.measurement.tuple_of_identifiers(), sort_key(f.path.name)))


def _files_in(source: Source) -> list[Path]:
    """Return the measurement files of a folder, which is listed once for recognising and reading it."""
    return source.keep((measurement_files, source.path), lambda: measurement_files(source.path))


FILES_AT_ONCE = 64  # that one task opens: sections that are alike in all of them are read once
Named = tuple[Path, Path]  # absolute, as workers may have another current folder, and as the user calls it


def _batch_paths(paths: Sequence[Path]) -> list[list[Named]]:
    named = [(path.absolute(), path) for path in paths]
    return [named[first : first + FILES_AT_ONCE] for first in range(0, len(named), FILES_AT_ONCE)]


def _open_batch(task: tuple[SectionCache, Sequence[Named]]) -> list[OpenedFile | str]:
    """Open files that follow each other; of one that cannot be read, return what is wrong with it."""
    cache, paths = task
    out: list[OpenedFile | str] = []
    for absolute, path in paths:
        try:
            out.append(replace(OpenedFile.of(path if path.exists() else absolute, cache), path=path))
        except InputError as error:
            out.append(str(error))
    return out


def assemble(builder: ExperimentBuilder, files: Sequence[OpenedFile]) -> Experiment:
    """Return the experiment of these files."""
    try:
        return _Assembly(builder, files).experiment()
    except InvalidExperiment as error:
        found = f"tables that contradict each other: {error.problems[0]}"
        raise CorruptFile(builder.path, "tables", expected="one measurement", found=found) from error


class _Assembly:
    def __init__(self, builder: ExperimentBuilder, files: Sequence[OpenedFile]) -> None:
        self.builder, self.files = builder, files
        self.parts = [(file, epoch) for file in files for epoch in file.measurement.epochs]
        self.is_lone = len(self.parts) == 1

    def experiment(self) -> Experiment:
        builder = self.builder
        versions = sorted({file.measurement.version for file in self.files})
        builder.version = ", ".join(versions)
        builder.title = readable(self.files[0].measurement.value("program-name")) or builder.title
        for file in self.files:
            _warn_of_modules(builder, file)
        table = MetricTable(builder, self.is_lone)
        rows = [table.add(epoch.metrics, str(file.path)) for file, epoch in self.parts]
        contexts = self._add_contexts()
        final = builder.order()
        parts = self._value_parts(rows, [final[numbers] for numbers in contexts])
        builder.set_values(MeasurementValues([f.path for f in self.files], parts))
        self._add_profiles()
        self._add_traces(parts)
        return builder.build()

    # -- contexts ----------------------------------------------------------------------------------------------

    def _add_contexts(self) -> list[Ids]:
        """Add contexts; return the number of each node's, for every part."""
        paths = dict.fromkeys(module.path for _, epoch in self.parts for module in epoch.modules if module.path)
        ordered = list(paths) if self.is_lone else sorted(paths)
        numbers = {path: number for number, path in enumerate(ordered)}
        in_builder = np.array([self.builder.module(readable(path)) for path in ordered], np.int64)
        regions, regions_of_parts = Regions(), []
        for file, epoch in self.parts:
            regions_of_parts.append(regions.add(*places_of([epoch], numbers, [file.measurement.is_old])))
        known, maps = regions.all()
        region, kind = add_regions(self.builder, known, in_builder)
        trees = [(epoch.nodes.above, maps[k][regions_of_parts[k]]) for k, (_, epoch) in enumerate(self.parts)]
        if self.is_lone:
            [(above, rows)], nodes = trees, self.parts[0][1].nodes
            self.builder.add_contexts(parent=above, kind=kind[rows], region=region[rows], source_id=nodes.id)
            contexts = [np.arange(len(above), dtype=np.int32)]
        elif trees:
            merged = merge(trees)
            ids = self._source_ids(merged.contexts, len(merged.parent))
            columns = {"kind": kind[merged.region], "region": region[merged.region]}
            self.builder.add_contexts(parent=merged.parent, source_id=ids, **columns)
            contexts = merged.contexts
        else:
            contexts = []
        self._describe(contexts)
        return contexts

    def _source_ids(self, contexts: list[Ids], n: int) -> Ints:
        """Return, of several epochs of one file, the node's id where it is the only one and no other context has it."""
        ids = np.full(n, ABSENT, np.int64)
        if len(self.files) == 1:
            pairs = [
                np.stack([contexts_of_nodes, e.nodes.id], axis=1)
                for contexts_of_nodes, (_, e) in zip(contexts, self.parts, strict=True)
            ]
            unique = np.unique(np.concatenate(pairs).astype(np.int64), axis=0)
            once = [np.isin(c, k[m == 1]) for c in unique.T for k, m in [np.unique(c, return_counts=True)]]
            unique = unique[once[0] & once[1]]
            ids[unique[:, 0]] = unique[:, 1]
        return ids

    def _describe(self, contexts: list[Ids]) -> None:
        """Mark contexts of GPU code whose callers are not known."""
        for contexts_of_nodes, (_, epoch) in zip(contexts, self.parts, strict=True):
            flags = epoch.nodes.flags
            if flags is not None:
                for context in np.unique(contexts_of_nodes[(flags & rec.UNWOUND) == 0]).tolist():
                    self.builder.describe_context(context, attributes=dict([NOT_UNWOUND]))

    # -- values and traces -------------------------------------------------------------------------------------

    def _value_parts(self, rows: list[MetricRows], contexts: list[Ids]) -> list[list[ValuePart]]:
        parts_of_files: list[list[ValuePart]] = []
        part = 0
        for file in self.files:
            parts_of_files.append([])
            for epoch, n_values in zip(file.measurement.epochs, file.n_values, strict=True):
                contexts_of_nodes = contexts[part]
                is_merged = not self.is_lone and len(distinct(contexts_of_nodes)) < len(contexts_of_nodes)
                parts_of_files[-1].append(
                    ValuePart(epoch.place, rows[part], epoch.nodes.id, contexts_of_nodes, n_values, is_merged)
                )
                part += 1
        return parts_of_files

    def _add_traces(self, parts: list[list[ValuePart]]) -> None:
        lines = [line for k in range(len(self.files)) if (line := self._line(k, parts[k])) is not None]
        if lines:
            samples = MeasurementSamples(lines)
            self.builder.set_traces(samples, time_range=samples.time_range)

    def _line(self, profile: int, parts: list[ValuePart]) -> TraceLine | None:
        """Return the line of a profile. Ids of its trace mean the last epoch that has them."""
        file = self.files[profile]
        path = file.path.with_suffix(TRACE_SUFFIX)
        if file.path.suffix == TRACE_SUFFIX or not path.is_file():
            return None
        none = [np.empty(0, np.int64)]
        ids = np.concatenate([part.node_id.astype(np.int64) for part in reversed(parts)] or none)
        context = np.concatenate([part.context for part in reversed(parts)] or none).astype(np.int32)
        in_order = file.measurement.value("trace-disorder") in ("", "0")
        try:
            line, problems = open_line(path, profile, file.measurement.is_old, ids, context, in_order)
        except CallgroveError as error:
            self.builder.warn(Severity.DAMAGE, f"{error}; the trace is left out")
            return None
        for problem in problems:
            self.builder.warn(Severity.DAMAGE, str(problem))
        return line

    # -- profiles ----------------------------------------------------------------------------------------------

    def _add_profiles(self) -> None:
        """Add profiles with their identifier tuples. Pairs that all files have are the experiment's attributes."""
        builder = self.builder
        pairs = [[(readable(k), readable(v)) for k, v in f.measurement.header.pairs] for f in self.files]
        common = set(pairs[0]).intersection(*pairs[1:])
        builder.attributes = {k: v for k, v in pairs[0] if (k, v) in common}
        builder.id_names = _id_names([file.measurement for file in self.files])
        tuples = [file.measurement.tuple_of_identifiers() for file in self.files]
        names = _names(self.files, tuples)
        for header_pairs, identifiers, name in zip(pairs, tuples, names, strict=True):
            words = {builder.id_names[k] for k, _, _, _ in identifiers if k < len(builder.id_names)}
            kind = ProfileKind.GPU_STREAM if words & set(GPU_KINDS) else ProfileKind.THREAD
            kind = ProfileKind.AGGREGATE if "SUMMARY" in words else kind
            rest = [pair for pair in header_pairs if pair not in common]
            builder.add_profile(kind, identifiers, name=name, attributes=rest)


def _names(files: Sequence[OpenedFile], tuples: list[list[Identifier]]) -> list[str]:
    """Return names for profiles that their tuples do not tell apart, as of a compiler and the programs that it
    starts."""
    seen: dict[tuple[Identifier, ...], int] = {}
    for one in tuples:
        seen[tuple(one)] = seen.get(tuple(one), 0) + 1
    words = ("program-name", "process-id")
    return [
        " ".join(readable(file.measurement.value(word)) for word in words).strip() if seen[tuple(one)] > 1 else ""
        for file, one in zip(files, tuples, strict=True)
    ]


def _id_names(measurements: Sequence[Measurement]) -> tuple[str, ...]:
    """Return the names of identifier kinds, from all dictionaries; what is said first stays."""
    named: dict[int, str] = {}
    for measurement in measurements:
        for kind, name in measurement.id_kinds:
            named.setdefault(kind, readable(name))
    if not named:
        return DEFAULT_ID_NAMES
    n = 1 + max(k for k in named if k < MOST_KINDS) if any(k < MOST_KINDS for k in named) else 0
    return tuple(named.get(k, "") for k in range(n))


def _warn_of_modules(builder: ExperimentBuilder, file: OpenedFile) -> None:
    for epoch, ids in file.measurement.find_unknown_modules():
        where = f"{file.path}: cct" + (f" of epoch {epoch}" if len(file.measurement.epochs) > 1 else "")
        unknown = np.setdiff1d(ids, OUTLINED)
        if len(unknown):
            text = f"nodes are in module {unknown[0]}, which the loadmap does not have; they count as unknown"
            more = f" (and in {len(unknown) - 1} more such modules)" if len(unknown) > 1 else ""
            builder.warn(Severity.DAMAGE, f"{where}: {text}{more}")
        if len(unknown) < len(ids):
            builder.warn(Severity.NOTE, f"{where}: nodes about outlined ranges of GPU code count as unknown")


# -- the format --------------------------------------------------------------------------------------------------------


# -- what `check` verifies, beyond what reading demands ----------------------------------------------------------------
# layout   sections at multiples of 1024 with zeros between them; loadmap ids 1..n; one root; signs of leaves
# values   metrics that the table has, one value for each node and metric, finite numbers
# traces   nodes that the profile has, time order, the announced first and last time


Finding = tuple[Severity, str, str]  # severity, place, text


def problems(experiment: Experiment, paths: list[Path], workers: Workers = IN_PROCESS) -> Iterator[Problem]:
    """Yield everything that is wrong or remarkable in an experiment and the files that it was read from, at which
    workers look, some at a time."""
    said: set[str] = set()
    for warning in experiment.warnings:
        said.add(warning.text)
        yield Problem(warning.severity, experiment.path, "opening", warning.text)
    for place, errors in (("values", _met_in_values(experiment)), ("traces", _met_in_traces(experiment))):
        for error in errors:
            if str(error) not in said:
                yield Problem(Severity.DAMAGE, experiment.path, place, str(error))
    for findings in workers.map(_check_batch, _batch_paths(paths), label="looking at files"):
        yield from findings


def _check_batch(paths: Sequence[Named]) -> list[Problem]:
    out: list[Problem] = []
    for absolute, path in paths:
        with suppress(CallgroveError):  # said when the file was opened, or when its values were read
            findings = list(_of_file(path if path.exists() else absolute))
            out += [Problem(severity, str(path), place, text) for severity, place, text in findings]
    return out


def _met_in_values(experiment: Experiment) -> list[CallgroveError]:
    for _ in experiment.values.blocks():
        pass
    return experiment.values.problems


def _met_in_traces(experiment: Experiment) -> list[CallgroveError]:
    for _ in experiment.traces.lines():
        pass
    return [] if experiment.traces.samples is None else experiment.traces.samples.problems


def _of_file(path: Path) -> Iterator[Finding]:
    file = FileBytes(path)
    measurement = read_tables(file).with_values(file)
    yield from _layout(measurement, file)
    for number, epoch in enumerate(measurement.epochs):
        place = f"epoch {number}" if measurement.is_old else "tables"
        yield from ((severity, place, text) for severity, text in _epoch(epoch, measurement.is_old))
    trace = path.with_suffix(TRACE_SUFFIX)
    if trace != path and trace.is_file():
        yield from _trace(trace, measurement)


def _layout(measurement: Measurement, file: FileBytes) -> Iterator[Finding]:
    """Yield sections of 04.00 that are not as genuine files have them."""
    starts = [start for _, start, _ in measurement.sections] + [file.size - rec.FOOTER.itemsize]
    for (name, start, end), following in zip(measurement.sections, starts[1:], strict=False):
        if start % rec.ALIGNMENT:
            yield Severity.NOTE, name, f"begins at byte {start}, which is not a multiple of {rec.ALIGNMENT}"
        if any(file.copy(end, following - end, name)):
            yield Severity.NOTE, name, f"is followed by bytes other than 0, from byte {end} to byte {following}"


def _epoch(epoch: Epoch, is_old: bool) -> Iterator[tuple[Severity, str]]:
    nodes = epoch.nodes
    assert epoch.values is not None
    if [module.id for module in epoch.modules] != list(range(1, len(epoch.modules) + 1)):
        yield Severity.NOTE, "the ids of modules are not 1, 2, ..."
    roots = np.flatnonzero(nodes.above < 0)
    code = 0 if is_old else placeholders.code_number(placeholders.ROOT)
    if len(nodes) and (len(roots) != 1 or nodes.lm[roots[0]] != 0 or int(nodes.ip[roots[0]]) != code):
        yield Severity.NOTE, f"there are {len(roots)} roots, or one that is not the usual root"
    if nodes.is_leaf is not None and (wrong := int((nodes.is_leaf == nodes.has_children).sum())):
        yield Severity.NOTE, f"{count_of(wrong, 'node has', 'nodes have')} the sign of a leaf and children, or neither"
    stored = epoch.values.list_stored(nodes.positions)
    known = stored.metric < len(epoch.metrics)
    is_real = np.array([metric.is_real for metric in epoch.metrics] or [False], np.bool_)
    reals = stored.raw[known][is_real[stored.metric[known]]].view(np.float64)
    if not np.isfinite(reals).all():
        yield Severity.NOTE, "there are values that are not finite"


def _trace(path: Path, measurement: Measurement) -> Iterator[Finding]:
    try:
        time = open_trace(path, measurement.is_old).arrays()[0]
    except CallgroveError:
        return  # said when it was opened
    if (time[1:] < time[:-1]).any() and measurement.value("trace-disorder") in ("", "0"):
        yield (
            Severity.NOTE,
            "trace",
            "time runs backwards, and the profile does not say so; samples are sorted when read",
        )
    announced = measurement.value("trace-min-time"), measurement.value("trace-max-time")
    if not measurement.is_old and all(announced):  # in 02.00 genuine files often disagree
        ends = (str(time.min()), str(time.max())) if len(time) else ("0", "0")
        if announced != ends:
            text = f"samples run from {ends[0]} to {ends[1]}; the profile announces {announced[0]} to {announced[1]}"
            yield Severity.NOTE, "trace", text


# -- the format --------------------------------------------------------------------------------------------------------


MOST_HEADS = 64  # files of a folder that detection looks at


class HpcrunFormat:
    """Reads, prints, checks and writes measurement files."""

    name = "hpcrun"
    title = "HPCToolkit measurements"

    def match(self, source: Source) -> Match | None:
        """Recognise a file by its magic, or a folder by that of some file with the tool's ending."""
        if not source.is_folder:
            return _of_head(source.head(rec.START_SIZE))
        with suppress(OSError):
            names = [path.name for path in _files_in(source)]
            for name in names[:MOST_HEADS]:
                if source.head(rec.START_SIZE, name).startswith(rec.MAGIC):
                    return Match(Grade.EXACT, f"it has {name}, a measurement file")
            if names:
                return Match(Grade.WEAK, f"it has a file that ends with {SUFFIX}")
        return None

    def read(self, source: Source, options: ReadOptions) -> Experiment:
        builder = ExperimentBuilder(self.name, path=str(source.path), title=source.path.name)
        return replace(assemble(builder, open_files(source, builder, options)), is_measurement=True)

    def check(self, source: Source, options: ReadOptions) -> Iterator[Problem]:
        """Yield what is wrong with measurement files."""
        return problems(self.read(source, options), _paths(source), options.workers)

    def dump(self, source: Source) -> Iterator[Field]:
        """Yield every field of the file, or of every file of a folder."""
        for path in _paths(source):
            yield from fields(FileBytes(path))

    def dump_text(self, source: Source) -> Iterator[str]:
        """Yield every field as text."""
        return self.dump_view(source, DumpView.TEXT)

    def dump_view(self, source: Source, view: DumpView, limit: int | None = None) -> Iterator[str]:
        """Yield a file as text or JSON, its summary or its tree; the files of a folder one after the other, each after
        a line with its name (in JSON: as an array)."""
        show = {DumpView.TEXT: text, DumpView.JSON: json_text, DumpView.SUMMARY: summary, DumpView.TREE: tree}[view]
        if not source.is_folder:
            yield from _show_file(source.path, show, limit)
            return
        is_json, damage = view == DumpView.JSON, list[CallgroveError]()
        n = 0
        for path in measurement_files(source.path):
            head = ("[\n" if not n else ",\n") if is_json else f"file {quote(path.name)}\n"
            try:
                for number, piece in enumerate(_show_file(path, show, limit)):
                    yield piece if number else head + piece
                    n += 1
            except CallgroveError as error:
                damage.append(error)
        if is_json:
            yield "]\n" if n else "[]\n"
        if damage:
            raise damage[0]

    def open_writer(self, target: Path, options: WriteOptions) -> Writer:
        """Return the writer of files that appear at `target` when the writer is closed."""
        from callgrove.formats.hpcrun.writer import MeasurementWriter

        return MeasurementWriter(target, options)

    def refuse_target(self, target: Path) -> None:
        from callgrove.formats.hpcrun.writer import refuse_other_targets

        refuse_other_targets(target)


FORMAT = HpcrunFormat()


def _paths(source: Source) -> list[Path]:
    return _files_in(source) if source.is_folder else [source.path]


def _show_file(
    path: Path, show: Callable[[Measurement, int | None], Iterator[str]], limit: int | None
) -> Iterator[str]:
    """Yield a file as text; where it is damaged, its header at least."""
    file = FileBytes(path)
    try:
        measurement = read_tables(file).with_values(file)
    except CorruptFile:
        if show is text:
            header: Header | None = None
            with suppress(CallgroveError):
                header = Header.read(Cursor(file, "header"))
            yield from header_text(header) if header is not None else ()
        raise
    yield from show(measurement, limit)


def _of_head(head: bytes) -> Match | None:
    if head.startswith(rec.MAGIC):
        return Match(Grade.EXACT, "it begins as a measurement file")
    cut = len(head) > 6 and rec.MAGIC.startswith(head)
    return Match(Grade.WEAK, "it is the beginning of a measurement file") if cut else None
