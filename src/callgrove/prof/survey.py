"""The first pass over measurement files: which files were named, what each says of itself, and one tree of all.

A batch of files is read and merged at a time; surveys of two batches are combined on the workers. Files that cannot be
read are left out, and the survey says why. The second pass needs the same tables: in one process, those of small files
are kept for it.
"""

from __future__ import annotations

import os
import pickle
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import overload

import numpy as np

from callgrove.binary.files import FileBytes, open_regular, size_of
from callgrove.binary.reading import FileReader, KeptMemory
from callgrove.errors import CallgroveError, CorruptFile, InputError, Parameter, UsageError
from callgrove.formats.hpcrun import primitives as rec
from callgrove.formats.hpcrun.files import SUFFIX, TRACE_SUFFIX, measurement_files, read_tables, sort_key
from callgrove.formats.hpcrun.hpctrace import CALL_TRACE, TraceFile
from callgrove.formats.hpcrun.measurement import Epoch, Measurement, SparsePlace
from callgrove.formats.hpcrun.primitives import MetricDescription, Module, SectionCache
from callgrove.formats.hpcrun.regions import OUTLINED, readable
from callgrove.model.profiles import Identifier
from callgrove.prof.nodes import Flavour, Forest, NodeSource, RawTree, Tree, normal_nodes, place_table, translate
from callgrove.prof.spool import Meeting

__all__ = [
    "Batch",
    "FileTables",
    "Inputs",
    "PathRule",
    "Programs",
    "Survey",
    "SurveyedFile",
    "SurveyedFiles",
    "TraceInfo",
    "combine_surveys",
    "default_target",
    "file_tables",
    "survey_batch",
]


# -- the survey --------------------------------------------------------------------------------------------------------


Programs = tuple[str, ...]  # names of programs; none means all
MetricTables = tuple[tuple[MetricDescription, ...], ...]  # one for each epoch
ReadFile = tuple[FileBytes, Measurement]
NODE_BYTES = 100  # that a node takes in memory, roughly


@dataclass(frozen=True)
class FileTables:
    """A file that was read, and the nodes of each epoch by the rules that all files share; `modules` are the numbers
    that they know modules by."""

    file: FileBytes
    measurement: Measurement
    trees: tuple[Tree, ...]
    modules: Mapping[str, int]

    @property
    def n_bytes(self) -> int:
        """What it takes to keep it; it must not hold the file open."""
        return self.file.size + NODE_BYTES * sum(len(above) for above, _, _ in self.trees)


def file_tables(files: Sequence[ReadFile], modules: Mapping[str, int], flavour: Flavour) -> list[FileTables]:
    """Return the tables of files whose modules all have a number."""
    sources = [NodeSource(one, epoch, file.path) for file, one in files for epoch in one.epochs]
    trees = iter(normal_nodes(sources, modules, flavour))
    return [FileTables(file, one, tuple(islice(trees, len(one.epochs))), modules) for file, one in files]


@dataclass(frozen=True)
class TraceInfo:
    """The trace beside a file: its samples, from when to when, and whether samples mean functions."""

    n_samples: int
    time_range: tuple[int, int] | None
    is_call_trace: bool


@dataclass(frozen=True)
class SurveyedFile:
    """What is known of a file once it was read; its nodes and values stay there, unless they were kept."""

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
    tables: FileTables | None = None

    @property
    def order(self) -> tuple[object, ...]:
        """Profiles are numbered by tuple, then by name."""
        return self.identifiers, sort_key(self.path.rpartition("/")[2]), self.path


class SurveyedFiles(Sequence[SurveyedFile]):
    """The files of a survey, in parts. A part that came from another process stays packed until somebody looks at the
    files: those who combine surveys hand it on as it is, however often."""

    def __init__(self, *parts: tuple[SurveyedFile, ...] | bytes) -> None:
        self._parts = parts

    def __reduce__(self) -> tuple[type[SurveyedFiles], tuple[bytes, ...]]:
        return SurveyedFiles, tuple(part if isinstance(part, bytes) else pickle.dumps(part) for part in self._parts)

    def join(self, other: SurveyedFiles) -> SurveyedFiles:
        """Return these files, then others."""
        return SurveyedFiles(*self._parts, *other._parts)

    @cached_property
    def _all(self) -> tuple[SurveyedFile, ...]:
        parts = (pickle.loads(part) if isinstance(part, bytes) else part for part in self._parts)
        return tuple(chain.from_iterable(parts))

    def __len__(self) -> int:
        return len(self._all)

    @overload
    def __getitem__(self, which: int) -> SurveyedFile: ...
    @overload
    def __getitem__(self, which: slice) -> tuple[SurveyedFile, ...]: ...
    def __getitem__(self, which: int | slice) -> SurveyedFile | tuple[SurveyedFile, ...]:
        return self._all[which]

    def __iter__(self) -> Iterator[SurveyedFile]:
        return iter(self._all)


@dataclass(frozen=True)
class Batch:
    """Files that are surveyed together: (path, measurement directory). `keeps` is how many bytes of their tables may
    be kept; workers say whether they see the `meeting`."""

    files: tuple[tuple[str, str], ...]
    flavour: Flavour
    only_exe: Programs = ()
    wants_traces: bool = True
    keeps: int = 0
    meeting: Meeting | None = None


@dataclass(frozen=True)
class Survey:
    """`skipped` are files that could not be read, `notes` what else is wrong, `others` the programs of files that were
    not wanted. `all_meet`: did all who took part see the meeting?"""

    tree: RawTree | None
    files: SurveyedFiles
    skipped: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    all_meet: bool = True


def combine_surveys(left: Survey, right: Survey) -> Survey:
    """Return two surveys as one."""
    trees = [survey.tree for survey in (left, right) if survey.tree is not None]
    tree = trees[0].merge_with(trees[1]) if len(trees) == 2 else trees[0] if trees else None
    return Survey(
        tree,
        left.files.join(right.files),
        left.skipped + right.skipped,
        left.notes + right.notes,
        left.others + right.others,
        left.all_meet and right.all_meet,
    )


def survey_batch(batch: Batch) -> Survey:
    """Return the survey of a batch."""
    return _Surveying(batch).survey()


class _Surveying:
    """All files are read first, then their nodes are brought to the common rules together, then each is described."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.files: list[SurveyedFile] = []
        self.skipped: dict[Path, str] = {}
        self.notes: list[str] = []
        self.modules: dict[str, int] = {}
        self.loadmap: tuple[Module, ...] = ()  # the one that was numbered last
        self.trees: list[Tree] = []
        self.keeps = batch.keeps
        self.metrics: dict[MetricTables, MetricTables] = {}
        self.others: list[str] = []
        self.sections, self.memory = SectionCache(), KeptMemory()

    def survey(self) -> Survey:
        folders = {Path(path): folder for path, folder in self.batch.files}
        for tables in self._tables([file for path in folders for file in self._read(path)]):
            self._add(tables, folders[tables.file.path])
        skipped = tuple((str(path), self.skipped[path]) for path in folders if path in self.skipped)
        meets = self.batch.meeting is None or self.batch.meeting.is_seen()
        lists = (skipped, tuple(self.notes), tuple(self.others))
        return Survey(self._tree() if self.files else None, SurveyedFiles(tuple(self.files)), *lists, meets)

    def _read(self, path: Path) -> Iterator[ReadFile]:
        """Yield a file that is wanted and can be read."""
        try:
            file = FileBytes(path)
            measurement = read_tables(file, cache=self.sections)
            if not self._is_wanted(measurement):
                return
            for epoch in measurement.epochs:
                _check_values(epoch, file)
        except InputError as error:
            self.skipped[path] = str(error)
            return
        for epoch in measurement.epochs:
            self._number_modules(epoch.modules)
        yield file, measurement

    def _number_modules(self, loadmap: tuple[Module, ...]) -> None:
        """Number modules as they come; of the loadmap that files share once."""
        if loadmap is not self.loadmap:
            self.loadmap = loadmap
            for module in loadmap:
                if module.path:
                    self.modules.setdefault(module.path, len(self.modules))

    def _is_wanted(self, measurement: Measurement) -> bool:
        """Return whether a file is of a program that was named, if any was."""
        if not self.batch.only_exe:
            return True
        program = Path(readable(measurement.value("program-path"))).name
        is_wanted = program in self.batch.only_exe
        self.others += [] if is_wanted else [program]
        return is_wanted

    def _tables(self, files: Sequence[ReadFile]) -> list[FileTables]:
        """Return the tables of files; one whose nodes break the rules is skipped."""
        try:
            return file_tables(files, self.modules, self.batch.flavour)
        except InputError as error:
            if len(files) > 1:  # each by itself
                return [tables for one in files for tables in self._tables([one])]
            self.skipped[files[0][0].path] = str(error)
            return []

    def _add(self, tables: FileTables, folder: str) -> None:
        path, measurement = tables.file.path, tables.measurement
        metrics = tuple(epoch.metrics for epoch in measurement.epochs)
        trace = self._trace(path, measurement) if self.batch.wants_traces else None
        self.notes += _doubts(path, measurement)
        self.trees += tables.trees
        self.files.append(
            SurveyedFile(
                str(path),
                folder,
                measurement.version,
                tuple(measurement.tuple_of_identifiers()),
                measurement.id_kinds,
                readable(measurement.value("program-name")),
                readable(measurement.value("program-path")),
                readable(measurement.value("process-id")),
                self.metrics.setdefault(metrics, metrics),
                sum(_count_values(epoch) for epoch in measurement.epochs),
                trace,
                self._keep_if_small(tables),
            )
        )

    def _keep_if_small(self, tables: FileTables) -> FileTables | None:
        if tables.file.is_mapped or tables.n_bytes > self.keeps:
            return None
        self.keeps -= tables.n_bytes
        return tables

    def _trace(self, path: Path, measurement: Measurement) -> TraceInfo | None:
        """Return the trace beside a file; one that cannot be used is said."""
        where = path.with_suffix(TRACE_SUFFIX)
        if not where.is_file():
            return None
        try:
            with FileReader(where, self.memory) as file:
                trace = TraceFile(file, 1000 if measurement.is_old else 1)
                if trace.data_centric:
                    raise CorruptFile(where, "flags", expected="samples of contexts", found="samples of metrics")
                self.notes += map(str, trace.problems)
                time_range = trace.time_range(in_order=measurement.value("trace-disorder") in ("", "0"))
            return TraceInfo(trace.n_records, time_range, bool(trace.flags & CALL_TRACE))
        except CallgroveError as error:
            self.notes.append(f"{error}; the trace is left out")
            return None

    def _tree(self) -> RawTree:
        modules, forest = tuple(sorted(self.modules)), Forest.of(self.trees)
        return RawTree.of(modules, forest._replace(place=translate(forest.place, place_table(self.modules, modules))))


def _count_values(epoch: Epoch) -> int:
    """Return how many values there are, zeros included where they are stored."""
    place = epoch.place
    return place.n_values if isinstance(place, SparsePlace) else place.n_nodes * len(epoch.metrics)


def _check_values(epoch: Epoch, file: FileBytes) -> None:
    """Raise where a value is of a metric that the file does not have."""
    place, n = epoch.place, len(epoch.metrics)
    if not isinstance(place, SparsePlace):
        return
    metric = file.array(rec.VALUE, place.n_values, place.at, "sparse metrics")["metric"]
    if len(metric) and int(metric.max()) >= n:
        row = int(np.flatnonzero(metric >= n)[0])
        expected, found = f"values of the {n} metrics of the table", f"value {row} of metric {metric[row]}"
        raise CorruptFile(file.path, "sparse metrics", offset=place.at, expected=expected, found=found)


def _doubts(path: Path, measurement: Measurement) -> list[str]:
    doubts = []
    for epoch in measurement.epochs:
        known = {0, *(module.id for module in epoch.modules)}
        if int(epoch.nodes.lm.max(initial=0)) < len(known) == max(known) + 1:  # the usual case: all are there
            continue
        unknown = set(np.unique(epoch.nodes.lm).tolist()) - known
        outlined = unknown.intersection(OUTLINED)
        if unknown != outlined:
            first = min(unknown - outlined)
            doubts.append(f"{path}: cct: module {first} is not in the loadmap; its nodes count as unknown")
        if outlined:
            doubts.append(f"{path}: cct: nodes about outlined ranges of GPU code count as unknown")
    for table in (epoch.metrics for epoch in measurement.epochs):
        doubts += [
            f"{path}: the period of {readable(m.name)} is 0, which is taken for 1" for m in table if not m.period
        ]
    return doubts


# -- which files were named, and where the files that they mention lie -------------------------------------------------
# A measurement directory contributes its own measurement files, nothing below it. Relative paths in it begin at the
# directory. GPU binaries may be known by where the directory lay when it was made: the file `original-path` in it says
# where that was.


ORIGINAL_PATH = "original-path"
LONGEST_PATH = 4096
BATCH_FILES, BATCH_BYTES = 32, 16 << 20  # whichever is reached first


@dataclass(frozen=True)
class PathRule:
    """`from=to`: paths that begin like this begin like that here (from the current folder, unless absolute). `*` is any
    one component."""

    pattern: re.Pattern[str]
    to: str
    text: str = ""

    @classmethod
    def parse(cls, text: str) -> PathRule:
        parts = re.split(r"(?<!\\)=", text)
        if len(parts) != 2 or not parts[0]:
            form = ": is not of the form FROM=TO (a '=' in a path is written '\\=')"
            raise UsageError(Parameter("rules", text), form)
        before, after = (part.replace("\\=", "=") for part in parts)
        components = [re.escape(c).replace(r"\*", "[^/]+") for c in before.rstrip("/").split("/")]
        pattern = re.compile("/".join(components) + r"(?=/|$)")
        return cls(pattern, str(Path(after).absolute()).rstrip("/") if after else "", text)

    def apply(self, path: str) -> str | None:
        """Return the path here, or None where the rule does not concern it."""
        match = self.pattern.match(path)
        return self.to + path[match.end() :] if match else None


@dataclass(frozen=True)
class Inputs:
    """Measurement directories and files. `is_foreign`: nothing outside of the directories is ever opened."""

    paths: tuple[Path, ...]
    rules: tuple[PathRule, ...] = ()
    is_foreign: bool = False

    @cached_property
    def files(self) -> list[tuple[Path, Path]]:
        """(file, measurement directory) of all files, each once."""
        folder_of: dict[Path, Path] = {}
        for path in self.paths:
            folder, files = self._files_of(path)
            for file in files:
                folder_of.setdefault(file, folder)
        return list(folder_of.items())

    def _files_of(self, path: Path) -> tuple[Path, Sequence[Path]]:
        """Return a measurement directory and the files of it that a path means."""
        try:
            if not path.exists():
                raise InputError(f"{path}: there is no such file or folder")
            folder = path.resolve()
            if not path.is_dir():
                return folder.parent, [folder.parent / path.name]
            files = measurement_files(folder)
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
        if not files:
            raise InputError(f"{path}: there are no measurements ({SUFFIX} files) in this folder")
        return folder, files

    @cached_property
    def folders(self) -> list[Path]:
        """The measurement directories."""
        return list(dict.fromkeys(folder for _, folder in self.files))

    def batches(
        self, flavour: Flavour, only_exe: Programs, wants_traces: bool, keeps: int = 0, meeting: Meeting | None = None
    ) -> list[Batch]:
        """Return files in batches of bounded size. All together they may keep so many bytes of their tables."""
        bounds = bound_ranges([size_of(path) for path, _ in self.files])
        files = [(str(path), str(folder)) for path, folder in self.files]
        each = keeps // max(1, len(bounds))
        return [Batch(tuple(files[a:b]), flavour, only_exe, wants_traces, each, meeting) for a, b in bounds]

    @cached_property
    def _first_places(self) -> list[tuple[str, Path]]:
        """(where a measurement directory lay first, where it lies now)."""
        places = []
        for folder in self.folders:
            told = folder / ORIGINAL_PATH
            try:
                with open_regular(told) as file:
                    text = os.fsdecode(file.read(LONGEST_PATH)).strip()
            except OSError:
                continue
            if text.startswith("/"):
                places.append((text.rstrip("/"), folder))
        return places

    def candidates(self, path: str) -> list[str]:
        """Return everything that a path of a module or source file may be called: as measured, then where it may lie
        here."""
        paths = [path]
        if not path.startswith("/"):
            paths += [str(folder / path) for folder in self.folders]
            paths += [f"{place}/{path}" for place, _ in self._first_places]
            return paths
        for place, folder in self._first_places:
            if path.startswith(place + "/"):
                rest = path[len(place) + 1 :]
                paths += [str(folder / rest), rest]
        paths += [moved for rule in self.rules if (moved := rule.apply(path)) is not None]
        return paths

    def locate(self, path: str) -> Path | None:
        """Return the file that a path means here, where it may be opened."""
        if "\0" in path:
            return None
        for candidate in reversed(self.candidates(path)):
            where = Path(candidate)
            try:
                if where.is_absolute() and self._may_open(where) and where.is_file():
                    return where
            except OSError:  # in a folder of somebody else, or no path that a file could have
                continue
        return None

    def find_unused_rules(self, paths: Iterable[str]) -> list[PathRule]:
        """Return rules that concern none of these paths."""
        known = list(paths)
        return [rule for rule in self.rules if all(rule.apply(path) is None for path in known)]

    def _may_open(self, path: Path) -> bool:
        if not self.is_foreign:
            return True
        real = Path(os.path.realpath(path))  # where links go round in circles, too
        return any(real.is_relative_to(folder) for folder in self.folders)


def bound_ranges(sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Return ranges of items that are together not too large; at least one item each."""
    out: list[tuple[int, int]] = []
    first, total = 0, 0
    for number, size in enumerate(sizes):
        if number > first and (number - first >= BATCH_FILES or total + size > BATCH_BYTES):
            out.append((first, number))
            first, total = number, 0
        total += size
    return [*out, (first, len(sizes))] if len(sizes) else out


def default_target(folder: Path) -> Path:
    """Return the database of a measurement directory, named as HPCToolkit names it, in the current folder: measurements
    may lie where nobody should write."""
    given = Path(os.path.normpath(Path.cwd() / folder)).name
    match = re.fullmatch(r"(hpctoolkit-.*)-measurements(-.*)?", given)
    return Path(f"{match[1]}-database{match[2] or ''}" if match else f"{given}-database")
