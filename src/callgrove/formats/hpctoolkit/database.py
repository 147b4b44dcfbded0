"""What databases of both generations share: which parts are there, and the experiment that is made of them.

Every part may be missing or damaged; what is intact is opened and the rest is recorded:

    tree (experiment.xml, meta.db)   without it, contexts are known by id only
    profile.db                       profiles and their values
    cct.db                           the same values by context; answers alone where profile.db is broken
    trace.db                         samples
    src/                             copies of source files
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from callgrove.arrays import ABSENT, Array, Bools, Ints, distinct
from callgrove.binary.files import FileBytes, IdMap, Source
from callgrove.errors import (
    CallgroveError,
    CorruptFile,
    InputError,
    InvalidExperiment,
    NotRecognised,
    UnsupportedVersion,
)
from callgrove.formats.hpctoolkit.identifiers import TupleLayout, read_tuples
from callgrove.formats.hpctoolkit.values import (
    DatabaseSamples,
    DatabaseValues,
    MetricTable,
    SparseBlocks,
    TraceLines,
    summary_is_alone,
)
from callgrove.formats.interface import Problem, ReadOptions
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment, Severity, Sources, replace_metrics
from callgrove.model.metrics import Metric, Scope
from callgrove.model.profiles import IdentifierTuples, ProfileKind
from callgrove.model.traces.events import Window

__all__ = ["Database", "DatabaseFormat", "split_source_path", "unit_of"]

Read = TypeVar("Read")
GPU_KINDS = ("GPUCONTEXT", "GPUSTREAM")
UNITS = ("sec", "B", "us", "usec", "ns", "ms")
WITHOUT = {
    "experiment.xml": "contexts and metrics are known by number only",
    "meta.db": "contexts and metrics are known by number only",
    "profile.db": "profiles are known by number only",
    "cct.db": "the values of one context are looked up in every profile",
    "trace.db": "there are no traces",
}


def unit_of(name: str) -> str:
    """Return the unit that HPCToolkit writes behind a metric's name: `CPUTIME (sec)`."""
    match = re.search(r"\(([^()]+)\)\s*$", name)
    return match.group(1) if match and match.group(1) in UNITS else ""


def split_source_path(path: str) -> tuple[str, str]:
    """Return (the file's original path, where its copy lies) of a copied source `[./]src/home/user/a.c`."""
    inside = path.removeprefix("./")
    return "/" + inside.removeprefix("src/").lstrip("/"), inside


@dataclass
class Database:
    """The parts of one database while it is being opened."""

    folder: Path
    parts: dict[str, Path]
    builder: ExperimentBuilder
    by_profile: SparseBlocks | None = None
    by_context: SparseBlocks | None = None
    is_summary: Bools = field(default_factory=lambda: np.zeros(0, np.bool_))
    identifiers: IdentifierTuples | None = None
    metrics: dict[int, int] = field(default_factory=dict)  # id in threads -> row
    summary_metrics: dict[int, int] = field(default_factory=dict)  # id in summaries -> row
    lines: TraceLines | None = None
    sample_record: np.dtype[Any] | None = None
    time_range: Window | None = None
    dense_ids: bool = False
    files: dict[str, FileBytes] = field(default_factory=dict)  # parts that were opened, each once

    @classmethod
    def locate(cls, source: Source, builder: ExperimentBuilder, names: tuple[str, ...], lone: str) -> Database:
        """Return the files of a folder, or a single file that its content says is the part `lone`."""
        if source.is_folder:
            parts = {name: source.path / name for name in names if source.has(name)}
            if not parts:
                raise NotRecognised(f"{source.path}: there is none of {', '.join(names)} in this folder")
            database = cls(source.path, parts, builder)
            for name in names:
                if name not in parts:
                    builder.warn(Severity.MISSING, f"{source.path}: there is no {name}: {WITHOUT[name]}")
            return database
        rest = "open the folder that it came from to see names and the rest"
        builder.warn(Severity.MISSING, f"{source.path}: is only the {lone} of a database; {rest}")
        return cls(source.folder, {lone: source.path}, builder)

    def record_damage(self, error: CallgroveError) -> None:
        self.builder.warn(Severity.DAMAGE, str(error))

    def record_unfinished(self, file: FileBytes) -> None:
        self.builder.warn(Severity.DAMAGE, f"{file.path}: the closing word is missing: its writer did not finish")

    def name_metrics(self) -> None:
        """Add rows `metric#ID` for the ids that occur, where no table names them. All values are looked at."""
        for blocks, table in ((self.by_profile, self.metrics), (self.by_context, self.metrics)):
            if blocks is None or table:
                continue
            ids = {
                id_ for number in np.flatnonzero(~blocks.broken).tolist() for id_ in self._metric_ids(blocks, number)
            }
            for id_ in sorted(ids):
                table[id_] = self.builder.add_metric(Metric(f"metric#{id_}", Scope.NONE, source_id=id_))
        self.summary_metrics.update(self.metrics)

    def _metric_ids(self, blocks: SparseBlocks, number: int) -> list[int]:
        try:
            block = blocks.block(number)
        except CorruptFile as error:
            self.record_damage(error)
            return []
        ids: list[int] = np.unique(block.minor if blocks is self.by_profile else block.ids).tolist()
        return ids

    def part(
        self, name: str, read: Callable[[FileBytes], Read], footer_missing: Callable[[FileBytes, str], bool]
    ) -> Read | None:
        """Return what `read` makes of a part; None where it is not there or damaged, and a record of which."""
        if name not in self.parts:
            return None
        file = self._open_part(name)
        if file is None:
            return None
        try:
            result = read(file)
        except UnsupportedVersion as error:
            if len(self.parts) == 1:
                raise  # nothing else is there to open
            self.record_damage(error)
            return None
        except CorruptFile as error:
            self.record_damage(error)
            return None
        if footer_missing(file, name):
            self.record_unfinished(file)
        file.forget()  # tables were copied; values and samples are mapped again when they are asked for
        return result

    def _open_part(self, name: str) -> FileBytes | None:
        """Return a part; None where it is not ours to read, and others are."""
        try:
            self.files[name] = FileBytes(self.parts[name])
            return self.files[name]
        except InputError as error:
            if len(self.parts) == 1:
                raise
            self.record_damage(error)
            return None

    def read_identifiers(self, pointers: Array, layout: TupleLayout, names: tuple[str, ...]) -> None:
        """Read the identifier tuples of all profiles; a broken one is empty."""
        assert self.by_profile is not None
        self.identifiers, damage = read_tuples(self.by_profile.file, pointers, layout, names)
        for error in damage:
            self.record_damage(error)

    def finish(self) -> Experiment:
        """Add profiles, elided contexts, values and traces to the tree and the metrics that are built already, and
        return the experiment."""
        try:
            return self._finish()
        except InvalidExperiment as error:
            found = f"tables that contradict each other: {error.problems[0]}"
            raise CorruptFile(self.builder.path, "tables", expected="one database", found=found) from error

    def _finish(self) -> Experiment:
        self._add_profiles()
        self._add_elided()
        builder = self.builder
        builder.name_summaries(self.summary_metrics)
        order = builder.order()
        ids = np.full(len(order), ABSENT, np.int64)
        ids[order] = builder.source_ids()
        contexts = IdMap(ids[ids > 0], np.flatnonzero(ids > 0))
        for blocks in (self.by_profile, self.by_context):
            for error in blocks.damage() if blocks else []:
                self.record_damage(error)
        values = DatabaseValues(
            self.by_profile,
            self.by_context,
            contexts,
            ids,
            MetricTable(self.metrics),
            MetricTable(self.summary_metrics),
            self.is_summary,
        )
        builder.set_values(values)
        self._add_traces(contexts)
        builder.sources = Sources(self.folder if self.folder.is_dir() else None)
        return _derive_metrics(builder.build())

    def _add_profiles(self) -> None:
        if self.identifiers is None:  # only cct.db is left: profiles are known by number
            n = self._profiles_in_contexts()
            self.is_summary = np.arange(n) == 0
            self.identifiers = IdentifierTuples.empty(n)
        kinds = np.full(len(self.identifiers), ProfileKind.THREAD, np.int32)
        for name in GPU_KINDS:
            kinds[self.identifiers.pick(name, "logical")[1]] = ProfileKind.GPU_STREAM
        kinds[self.identifiers.pick("SUMMARY", "logical")[1]] = ProfileKind.AGGREGATE
        alone = summary_is_alone(self.by_profile, self.is_summary)
        if alone:
            text = f"{self.folder}: no thread has values: only what all threads have together is known"
            self.builder.warn(Severity.MISSING, text)
        kinds[self.is_summary] = ProfileKind.AGGREGATE if alone else ProfileKind.SUMMARY
        self.builder.add_profiles(kinds, self.identifiers, source_id=np.arange(len(kinds)))

    def _profiles_in_contexts(self) -> int:
        """Return one more than the highest profile that cct.db mentions, or that has a trace line. There are not more
        than values and lines together: a damaged number must not make millions of profiles."""
        n_lines = 0 if self.lines is None else len(self.lines.profile)
        highest, most = int(self.lines.profile.max()) if self.lines is not None and n_lines else 0, n_lines
        if self.by_context is not None:
            most += int(self.by_context.n_values[~self.by_context.broken].sum())
            for context in np.flatnonzero((self.by_context.n_values > 0) & ~self.by_context.broken).tolist():
                try:
                    highest = max(highest, int(self.by_context.block(context).minor.max()))
                except CorruptFile as error:
                    self.record_damage(error)
        return min(highest, most) + 1 if highest else 0

    def _add_elided(self) -> None:
        """Add contexts that carry values, or that the database numbers, but that the tree does not list."""
        known = self.builder.source_ids()
        candidates = self._find_unlisted()
        unlisted = candidates[(candidates != 0) & ~np.isin(candidates, known)]
        none = np.full(len(unlisted), ABSENT)
        self.builder.add_contexts(parent=none, kind=none * 0 + ContextKind.ELIDED, source_id=unlisted)

    def _find_unlisted(self) -> Ints:
        """Return the ids of contexts with values: cct.db lists them; without it, the indices of profile.db do.

        Where ids are dense, every number is a context: one without values may still be named by a trace.
        """
        if self.by_context is not None:
            listed = np.flatnonzero(self.dense_ids | (self.by_context.n_values > 0))
            return listed if self._files_agree() else distinct(listed, self._ids_in_indices())
        traced = self._ids_in_traces() if not self.builder.n_contexts else np.empty(0, np.int64)
        return distinct(self._ids_in_indices(), traced)

    def _files_agree(self) -> bool:
        """Do profile.db and cct.db announce as many values of threads? If not, a damaged one must not hide contexts."""
        if self.by_profile is None or self.by_context is None:
            return True
        return bool(self.by_profile.n_values[~self.is_summary].sum() == self.by_context.n_values.sum())

    def _ids_in_indices(self) -> Ints:
        """Return the ids in the indices of profile.db. A summary names them all; without one, every profile is
        asked."""
        if self.by_profile is None:
            return np.empty(0, np.int64)
        sound = ~self.by_profile.broken
        ids: list[Ints] = [np.empty(0, np.int64)]
        for profile in [*np.flatnonzero(sound & self.is_summary), *np.flatnonzero(sound & ~self.is_summary)]:
            try:
                ids.append(self.by_profile.index(profile)[0])
            except CorruptFile as error:
                self.record_damage(error)
            else:
                if self.is_summary[profile]:
                    break
        return distinct(*ids)

    def _ids_in_traces(self) -> Ints:
        """Return the ids that a trace names, where no tree does."""
        if self.lines is None or self.sample_record is None:
            return np.empty(0, np.int64)
        lines = self.lines
        every = IdMap(np.empty(0, np.int64))
        none = np.zeros(len(lines.profile), np.int32)
        samples = DatabaseSamples(self.files["trace.db"], self.sample_record, none, none, lines.start, lines.end, every)
        return np.unique(np.concatenate([np.empty(0, np.int64), *(samples.ids(k) for k in range(len(none)))]))

    def _add_traces(self, contexts: IdMap) -> None:
        if self.lines is None or self.sample_record is None:
            return
        lines, n = self.lines, len(self.is_summary)
        inside = lines.profile < n
        if not inside.all():
            wrong = int(lines.profile[~inside][0])
            self.record_damage(
                CorruptFile(
                    self.parts["trace.db"], "trace lines", expected=f"profiles below {n}", found=f"profile {wrong}"
                )
            )
        metric = MetricTable(self.metrics)[np.where(lines.type > 0, lines.type, 0)]
        samples = DatabaseSamples(
            self.files["trace.db"],
            self.sample_record,
            lines.profile[inside].astype(np.int32),
            np.where(lines.type > 0, metric, ABSENT).astype(np.int32)[inside],
            lines.start[inside],
            lines.end[inside],
            contexts,
        )
        for problem in samples.problems:
            self.record_damage(problem)
        has_samples = bool(samples.count.sum())
        if not has_samples and not samples.problems and self.time_range is not None and self.time_range[1] > 0:
            expected = f"samples from {self.time_range[0]} to {self.time_range[1]}"
            self.record_damage(CorruptFile(self.parts["trace.db"], "trace lines", expected=expected, found="none"))
        self.builder.set_traces(samples, time_range=self.time_range if has_samples else None)


def _derive_metrics(experiment: Experiment) -> Experiment:
    """Return the experiment with a derived metric for every column that is a formula and none of its metrics."""
    metrics, known = experiment.metrics, set(experiment.metrics.quantities)
    if all(column.name in known for column in metrics.columns):
        return experiment
    from callgrove.formats.hpctoolkit.column_formulas import derive_from_columns  # few databases have such columns

    return replace_metrics(experiment, derive_from_columns(metrics))


class DatabaseFormat(ABC):
    """What the two generations that are read and written have in common."""

    @abstractmethod
    def read(self, source: Source, options: ReadOptions) -> Experiment:
        """Return the experiment; values and traces stay in the files until asked for."""

    def refuse_target(self, target: Path) -> None:
        from callgrove.formats.hpctoolkit.database_writer import DATABASE

        DATABASE.refuse_others(target)

    def check(self, source: Source, options: ReadOptions) -> Iterator[Problem]:
        """Yield what is wrong with a database."""
        from callgrove.formats.hpctoolkit.check import problems

        return problems(self.read(source, options), source, options.progress)
