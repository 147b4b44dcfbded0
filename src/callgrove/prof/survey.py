"""The first pass over measurement files: what each says of itself, and one tree of all.

A batch of files is read and merged at a time; surveys of two batches are combined on the workers. Files that cannot be
read are left out, and the survey says why.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from callgrove.binary.filebytes import FileBytes
from callgrove.errors import CallgroveError, CorruptFile, InputError
from callgrove.formats.hpcrun import records as rec
from callgrove.formats.hpcrun.files import TRACE_SUFFIX, read_tables, sort_key
from callgrove.formats.hpcrun.hpctrace_records import CALL_TRACE, TraceFile
from callgrove.formats.hpcrun.measurement import Epoch, Measurement, SparsePlace
from callgrove.formats.hpcrun.primitives import MetricDescription
from callgrove.formats.hpcrun.regions import OUTLINED, readable
from callgrove.model.arrays import Ids, Ints, Offsets
from callgrove.model.profiles import Identifier
from callgrove.prof.nodes import Flavour, normal_nodes
from callgrove.prof.raw_tree import RawTree, renumbered

__all__ = ["Batch", "Survey", "SurveyedFile", "TraceInfo", "combined", "surveyed", "trees_of"]

MetricTables = tuple[tuple[MetricDescription, ...], ...]  # one for each epoch


@dataclass(frozen=True)
class TraceInfo:
    """The trace beside a file: its samples, from when to when, and whether samples mean functions."""

    n_samples: int
    time_range: tuple[int, int] | None
    is_call_trace: bool


@dataclass(frozen=True)
class SurveyedFile:
    """What is known of a file once it was read; its nodes and values stay there."""

    path: str
    folder: str  # the measurement directory that it was found in
    version: str
    identifiers: tuple[Identifier, ...]
    id_kinds: tuple[tuple[int, str], ...]
    program: str
    program_path: str
    process: str
    metrics: MetricTables
    n_values: int
    trace: TraceInfo | None

    @property
    def order(self) -> tuple[object, ...]:
        """Profiles are numbered by tuple, then by name."""
        return self.identifiers, sort_key(Path(self.path).name), self.path


@dataclass(frozen=True)
class Batch:
    """Files that are surveyed together: (path, measurement directory)."""

    files: tuple[tuple[str, str], ...]
    flavour: Flavour
    only_exe: str = ""
    wants_traces: bool = True


@dataclass(frozen=True)
class Survey:
    """`skipped` are files that could not be read, `notes` what else is wrong, `others` how many were not wanted."""

    tree: RawTree | None
    files: tuple[SurveyedFile, ...]
    skipped: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    n_others: int = 0


def combined(left: Survey, right: Survey) -> Survey:
    """One survey of two."""
    trees = [survey.tree for survey in (left, right) if survey.tree is not None]
    tree = trees[0].merged(trees[1]) if len(trees) == 2 else trees[0] if trees else None
    lists = (left.files + right.files, left.skipped + right.skipped, left.notes + right.notes)
    return Survey(tree, *lists, left.n_others + right.n_others)


def surveyed(batch: Batch) -> Survey:
    """The survey of a batch."""
    work = _Surveying(batch)
    for path, folder in batch.files:
        try:
            work.add(Path(path), folder)
        except InputError as error:
            work.skipped.append((path, str(error)))
    return work.survey()


class _Surveying:
    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.files: list[SurveyedFile] = []
        self.skipped: list[tuple[str, str]] = []
        self.notes: list[str] = []
        self.modules: dict[str, int] = {}  # numbered as they come
        self.trees: list[tuple[Ids, Ints, Offsets]] = []
        self.tables: dict[MetricTables, MetricTables] = {}
        self.n_others = 0

    def add(self, path: Path, folder: str) -> None:
        file = FileBytes(path)
        measurement = read_tables(file)
        program_path = readable(measurement.value("program-path"))
        if self.batch.only_exe and Path(program_path).name != self.batch.only_exe:
            self.n_others += 1
            return
        n_values = sum(_checked_values(epoch, file) for epoch in measurement.epochs)
        for module in (m for epoch in measurement.epochs for m in epoch.modules if m.path):
            self.modules.setdefault(module.path, len(self.modules))
        trees = trees_of(measurement, path, self.modules, self.batch.flavour)
        metrics = tuple(epoch.metrics for epoch in measurement.epochs)
        trace = self._trace(path, measurement) if self.batch.wants_traces else None
        self.notes += _doubts(path, measurement)
        self.trees += trees
        self.files.append(
            SurveyedFile(
                str(path),
                folder,
                measurement.version,
                tuple(measurement.tuple_of_identifiers()),
                measurement.id_kinds,
                readable(measurement.value("program-name")),
                program_path,
                readable(measurement.value("process-id")),
                self.tables.setdefault(metrics, metrics),
                n_values,
                trace,
            )
        )

    def _trace(self, path: Path, measurement: Measurement) -> TraceInfo | None:
        """The trace beside a file; one that cannot be used is said."""
        where = path.with_suffix(TRACE_SUFFIX)
        if not where.is_file():
            return None
        try:
            trace = TraceFile.open(where, 1000 if measurement.is_old else 1)
            if trace.data_centric:
                raise CorruptFile(where, "flags", expected="samples of contexts", found="samples of metrics")
            self.notes += map(str, trace.problems)
            return TraceInfo(trace.n_records, _time_range(trace, measurement), bool(trace.flags & CALL_TRACE))
        except CallgroveError as error:
            self.notes.append(f"{error}; the trace is left out")
            return None

    def survey(self) -> Survey:
        modules = tuple(sorted(self.modules))
        trees = [(above, renumbered(place, self.modules, modules), offset) for above, place, offset in self.trees]
        tree = RawTree.of(modules, trees) if trees else None
        return Survey(tree, tuple(self.files), tuple(self.skipped), tuple(self.notes), self.n_others)


def trees_of(
    measurement: Measurement, path: Path, modules: dict[str, int], flavour: Flavour
) -> list[tuple[Ids, Ints, Offsets]]:
    """The nodes of each epoch, by the rules that all files share."""
    return [normal_nodes(measurement, epoch, modules, flavour, path) for epoch in measurement.epochs]


def _checked_values(epoch: Epoch, file: FileBytes) -> int:
    """How many values there are; an error where one is of a metric that the file does not have."""
    place, n = epoch.place, len(epoch.metrics)
    if not isinstance(place, SparsePlace):
        return place.n_nodes * n
    metric = file.array(rec.VALUE, place.n_values, place.at, "sparse metrics")["metric"]
    if len(metric) and int(metric.max()) >= n:
        row = int(np.flatnonzero(metric >= n)[0])
        expected, found = f"values of the {n} metrics of the table", f"value {row} of metric {metric[row]}"
        raise CorruptFile(file.path, "sparse metrics", offset=place.at, expected=expected, found=found)
    return place.n_values


def _time_range(trace: TraceFile, measurement: Measurement) -> tuple[int, int] | None:
    n = trace.n_records
    if not n:
        return None
    in_order = measurement.value("trace-disorder") in ("", "0")
    times = [trace.arrays(0, 1)[0], trace.arrays(n - 1, 1)[0]] if in_order else [trace.arrays()[0]]
    time = np.concatenate(times)
    return int(time.min()), int(time.max())


def _doubts(path: Path, measurement: Measurement) -> list[str]:
    found = []
    for epoch in measurement.epochs:
        unknown = set(np.unique(epoch.nodes.lm).tolist()) - {0, *(module.id for module in epoch.modules)}
        outlined = unknown.intersection(OUTLINED)
        if unknown != outlined:
            first = min(unknown - outlined)
            found.append(f"{path}: cct: module {first} is not in the loadmap; its nodes count as unknown")
        if outlined:
            found.append(f"{path}: cct: nodes about outlined ranges of GPU code count as unknown")
    for table in (epoch.metrics for epoch in measurement.epochs):
        found += [f"{path}: the period of {readable(m.name)} is 0, which is taken for 1" for m in table if not m.period]
    return found
