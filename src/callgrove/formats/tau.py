"""The format `tau`: profiles of TAU, a file for each thread (`profile.NODE.CONTEXT.THREAD`).

    23 templated_functions_MULTI_TIME
    # Name Calls Subrs Excl Incl ProfileCalls # <metadata>...</metadata>
    ".TAU application" 1 7 449 51781 0 GROUP="TAU_DEFAULT"
    "MPI_Init()  " 1 0 17983 17983 0 GROUP="MPI"                                      what it costs in all
    ".TAU application => MPI_Init()  " 1 0 17983 17983 0 GROUP="TAU_CALLPATH|MPI"     the same by call path
    0 aggregates
    1 userevents
    # eventname numevents max min mean sumsqr
    "Message size for reduce" 1 8 8 8 64

Specification: TAU's documentation of its profile format, and what genuine files show. Several metrics are several
folders `MULTI__METRIC`, each with a set of such files. Flat entries repeat the sums of call paths: contexts are the
entries by call path, and flat entries that end no path, which are the roots. Where no entry has a path, nobody knows
who calls whom: all are roots, and their inclusive costs, which contain each other, are a metric of their own. Of
several threads its largest value counts, as a sum over functions or threads would say nothing.

Call paths are recorded to a depth, which is two unless TAU_CALLPATH_DEPTH says otherwise: `foo => bar` stands below the
one path that ends in `foo`. Where several do, nobody knows which one it was: it is a root, and inclusive costs are
apart as well.

    "f() [{f.c} {3,0}] [THROTTLED]" ...     TAU stopped to measure it; the mark is no part of the name
    "f() [ <n> = <10> ]" ... GROUP="TAU_PARAM|..."     calls with one value of a parameter, which "f()" counts too
    "for (loop body) [OpenMP location: file:/a/b.c <28, 31>]" ...
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from callgrove.arrays import ABSENT, Array
from callgrove.binary.files import Source
from callgrove.errors import InputError, count_of
from callgrove.formats.interface import Field, Grade, Match, ReadOptions
from callgrove.formats.text_profiles import (
    LONGEST_NAME,
    CheckedByReading,
    ContextsByPath,
    LeftOut,
    add_up_values,
    is_private,
    text_blocks,
)
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import LAST_LINE, ContextKind
from callgrove.model.experiment import Experiment, Severity
from callgrove.model.metrics import Aggregation, Metric, Scope
from callgrove.model.profiles import DEFAULT_ID_NAMES, Identifier, Interpretation, ProfileKind

__all__ = ["FORMAT"]


# -- one file ----------------------------------------------------------------------------------------------------------


FIRST_LINE = re.compile(rb"(\d{1,9}) templated_functions(?:_MULTI_(\S+))?\s*")
FUNCTION = re.compile(rb'"(.*)" +(\S+) +(\S+) +(\S+) +(\S+) +\S+ +GROUP="([^"]*)"\s*')
EVENT = re.compile(rb'"(.*)" +(\S+) +(\S+) +(\S+) +(\S+) +\S+\s*')
SECTION = re.compile(rb"(\d{1,9}) (aggregates|userevents)\s*")
METADATA = re.compile(r"<attribute>\s*<name>([^<]*)</name>\s*<value>([^<]*)</value>\s*</attribute>")
FILE_NAME = re.compile(r"profile\.(\d{1,9})\.(\d{1,9})\.(\d{1,9})")
FOLDER = "MULTI__"
TIME = "TIME"
CALL_PATH, PARAMETER = b"TAU_CALLPATH", b"TAU_PARAM"
ARROW = " => "
THROTTLED = "[THROTTLED]"
NO_LINES = "lines that are not entries of a TAU profile"
REPEATED = "entries for values of parameters, which repeat costs of their functions"


@dataclass
class TauFile:
    """What one file holds: `functions` are names with calls, subroutines, exclusive and inclusive cost."""

    path: Path
    metric: str = TIME
    n_announced: int = 0
    n_functions: int = 0  # lines of them
    throttled: set[str] = field(default_factory=set)
    functions: dict[str, list[float]] = field(default_factory=dict)
    paths: dict[str, None] = field(default_factory=dict)  # names that are call paths, in the order of the file
    events: dict[str, list[float]] = field(default_factory=dict)
    metadata: str = ""


def read_tau_file(path: Path, left_out: LeftOut) -> TauFile:
    """Read one file; lines that cannot be understood are counted and left out."""
    out, section, number = TauFile(path), b"", 0
    for block in text_blocks(path):
        lines = block.data.split(b"\n")
        for line in lines if lines[-1].strip() else lines[:-1]:
            number += 1
            if number == 1:
                _read_first_line(out, line)
            elif line.startswith(b"#"):
                out.metadata = out.metadata or line.partition(b"<metadata>")[2].decode("utf-8", "backslashreplace")
            elif (match := SECTION.fullmatch(line)) is not None:
                section = match[2]
            elif line.startswith(b'"') and len(line) <= LONGEST_NAME:
                if not (_read_event(out, line) if section else _read_function(out, line, left_out)):
                    left_out.damage(NO_LINES, line)
            elif line.strip():
                left_out.damage(NO_LINES, line)
    if (n := out.n_functions) < out.n_announced:
        left_out.damage(f"functions of {out.n_announced:,} that {path.name} announces", n=out.n_announced - n)
    return out


def _read_first_line(out: TauFile, line: bytes) -> None:
    match = FIRST_LINE.fullmatch(line)
    if match is None:
        raise InputError(f"{out.path}: does not begin as a profile of TAU does, with 'N templated_functions'")
    out.n_announced = int(match[1])
    out.metric = match[2].decode("utf-8", "backslashreplace") if match[2] else TIME


def _read_function(out: TauFile, line: bytes, left_out: LeftOut) -> bool:
    """Read calls, subroutines, exclusive and inclusive cost of a function; return whether it is one. Costs of several
    lines of one name add up."""
    match = FUNCTION.fullmatch(line)
    numbers = match and _numbers(match.groups()[1:5])
    if not match or not numbers:
        return False
    out.n_functions += 1
    if PARAMETER in match[6]:
        left_out.note(REPEATED, match[1])
        return True
    text = match[1].decode("utf-8", "backslashreplace")
    name = _clean(text)
    if THROTTLED in text:
        out.throttled.add(name.rpartition(ARROW)[2])
    before = out.functions.get(name)
    out.functions[name] = [a + b for a, b in zip(before, numbers, strict=True)] if before else numbers
    if CALL_PATH in match[6] or ARROW in name:
        out.paths[name] = None
    return True


def _read_event(out: TauFile, line: bytes) -> bool:
    """Read number, maximum, minimum and mean of an event; return whether it is one."""
    match = EVENT.fullmatch(line)
    numbers = match and _numbers(match.groups()[1:5])
    if not match or not numbers:
        return False
    out.events[match[1].decode("utf-8", "backslashreplace").strip()] = numbers
    return True


def _numbers(texts: tuple[bytes, ...]) -> list[float]:
    """Return finite numbers; none at all where one of them is not."""
    try:
        numbers = [float(text) for text in texts]
    except ValueError:
        return []
    return numbers if all(map(math.isfinite, numbers)) else []


def _clean(name: str) -> str:
    """Return a name, or the names of a call path, without the blanks and marks that TAU leaves at their ends."""
    parts = re.split(r"=>\s", name) if "=>" in name else [name]
    return ARROW.join(part.strip().removesuffix(THROTTLED).rstrip() for part in parts)


# -- contexts and metrics ----------------------------------------------------------------------------------------------


SOURCE = re.compile(r"(.*?)\[\{([^{}]*)\} ?\{(\d{1,9})(?:,\d{1,9})?\}(?:-\{(\d{1,9}),\d{1,9}\})?\]")
OPENMP = re.compile(r"(.*?)\[OpenMP location: file:([^<>]*) <(\d{1,9}), ?(\d{1,9})>\]")
APART = "which contain each other, are metrics of their own, such as 'TIME (inclusive)'"
CONTAINER = "[CONTEXT]"  # an entry that only holds what was sampled in it
CLOCKS = ("GET_TIME_OF_DAY", "LINUX_TIMERS", "WALL_CLOCK", "VIRTUAL_TIME", TIME)
EVENT_METRICS = {
    "count": Aggregation.SUM,
    "max": Aggregation.MAXIMUM,
    "min": Aggregation.MINIMUM,
    "mean": Aggregation.NONE,
}


class TauContexts:
    """Contexts of a builder by call paths."""

    def __init__(self, builder: ExperimentBuilder) -> None:
        self._builder = builder
        self._names: dict[str, int] = {}
        self._list: list[str] = []
        self._contexts = ContextsByPath(self._add)

    def of(self, path: str, context: int = ABSENT) -> int:
        """Return the context of a call path, from above the roots or from a context on."""
        names = path.split(ARROW)
        for name in names:
            if name not in self._names:
                self._names[name] = len(self._list)
                self._list.append(name)
        return self._contexts.descend(map(self._names.__getitem__, names), context)

    def of_entries(self, file: TauFile, entries: list[str]) -> tuple[dict[str, int], int]:
        """Return the context of each entry of a file, and of how many call paths the callers are not known."""
        caller, n_unknown = _find_callers(file)
        out: dict[str, int] = {}
        for entry in entries:
            way = [entry]
            while way[-1] not in out and way[-1] in caller:
                way.append(caller[way[-1]])
            for path in reversed(way):
                if path not in out:
                    above = caller.get(path)
                    last = path if above is None else path.rpartition(ARROW)[2]
                    out[path] = self.of(last, ABSENT if above is None else out[above])
        return {entry: out[entry] for entry in entries}, n_unknown

    def _add(self, parent: int, number: int) -> int:
        name, builder = self._list[number], self._builder
        match = SOURCE.fullmatch(name) or OPENMP.fullmatch(name)
        if match is None:
            region = builder.region(ContextKind.FUNCTION, name)
        else:
            line, end = (min(int(text), LAST_LINE) if text else ABSENT for text in (match[3], match[4]))
            file = builder.file(match[2])
            region = builder.region(ContextKind.FUNCTION, match[1].rstrip(), file=file, line=line, end_line=end)
        return builder.add_context(parent, ContextKind.FUNCTION, region)


def _find_callers(file: TauFile) -> tuple[dict[str, str], int]:
    """Return the paths that those which begin in the middle of the program stand below, and how many have no place, as
    several paths or none lead there."""
    ends = {path.rpartition(ARROW)[2] for path in file.paths}
    leading: dict[str, list[str]] = {}
    for path in file.paths:
        leading.setdefault(path.partition(ARROW)[2], []).append(path)
    caller: dict[str, str] = {}
    cut = [path for path in file.paths if path.partition(ARROW)[0] in ends]
    for path in cut:
        candidates = leading.get(path.rpartition(ARROW)[0], [])
        if len(candidates) == 1 and candidates[0] != path:
            caller[path] = candidates[0]
    _break_circles(caller)
    return caller, len(cut) - len(caller)


def _break_circles(caller: dict[str, str]) -> None:
    """Drop the callers of what calls itself in a circle that nothing leads into."""
    sound: set[str] = set()
    for path in list(caller):
        way: dict[str, None] = {}
        while path in caller and path not in sound and path not in way:
            way[path] = None
            path = caller[path]
        if path in way:
            del caller[path]
        sound.update(way)


@dataclass
class _Column:
    """The numbers of one metric in one scope."""

    metric: Metric
    profile: list[int] = field(default_factory=list)
    context: list[int] = field(default_factory=list)
    value: list[float] = field(default_factory=list)

    def add(self, profile: int, context: int, value: float) -> None:
        self.profile.append(profile)
        self.context.append(context)
        self.value.append(value)

    def numbers(self) -> Array:
        values = np.array(self.value, np.float64)
        whole = bool((np.abs(values) < 2**53).all()) and bool((values == np.rint(values)).all())
        return values.astype(np.int64) if whole else values


class TauExperiment:
    """Collects files, and gives what they hold to a builder."""

    def __init__(self, builder: ExperimentBuilder) -> None:
        self._builder = builder
        self._contexts = TauContexts(builder)
        self._columns: dict[tuple[str, Scope], _Column] = {}
        self._profiles: dict[str, int] = {}
        self._flat: list[str] = []
        self._cut: list[str] = []  # files with call paths whose callers are not known
        self._throttled: set[str] = set()
        self._counted: set[int] = set()  # profiles whose calls are known
        builder.id_names = (*DEFAULT_ID_NAMES, "CONTEXT")

    def add(self, file: TauFile) -> None:
        """Add one file; those of one name in several folders are one profile."""
        profile = self._profile(file)
        ends = {path.rpartition(ARROW)[2] for path in file.paths}
        entries = [name for name in file.functions if name in file.paths or name not in ends]
        contexts, n_cut = self._contexts.of_entries(file, entries)
        if not file.paths and len(entries) > 1:
            self._flat.append(file.path.name)
        elif n_cut:
            self._cut.append(file.path.name)
        self._throttled |= file.throttled
        cost, is_first = self._column_pair(file.metric), profile not in self._counted
        for name, context in contexts.items():
            calls, subroutines, exclusive, inclusive = file.functions[name]
            if CONTAINER not in name.rpartition(ARROW)[2]:
                cost[0].add(profile, context, exclusive)
            if (file.paths and not n_cut) or len(entries) == 1:
                cost[1].add(profile, context, inclusive)
            else:
                self._largest(cost[0].metric).add(profile, context, inclusive)
            if is_first:
                self._column("calls").add(profile, context, calls)
                self._column("subroutines").add(profile, context, subroutines)
        if is_first:
            self._add_events(file, profile, contexts)
        self._counted.add(profile)

    def _profile(self, file: TauFile) -> int:
        name = file.path.name
        if name not in self._profiles:
            match = FILE_NAME.fullmatch(name)
            kinds = ("RANK", "CONTEXT", "THREAD")
            identifiers: list[Identifier] = [
                (self._builder.id_names.index(kind), int(text), int(text), int(Interpretation.SINGLE))
                for kind, text in zip(kinds, match.groups() if match else (), strict=False)
            ]
            self._profiles[name] = self._builder.add_profile(ProfileKind.THREAD, identifiers)
        return self._profiles[name]

    def _column_pair(self, metric: str) -> tuple[_Column, _Column]:
        unit = "us" if any(clock in metric for clock in CLOCKS) else ""
        return self._column(metric, unit=unit), self._column(metric, Scope.INCLUSIVE, unit)

    def _largest(self, metric: Metric) -> _Column:
        """Return the column of inclusive costs that contain each other: of several profiles the largest one counts."""
        return self._column(f"{metric.name} (inclusive)", Scope.INCLUSIVE, metric.unit, Aggregation.MAXIMUM)

    def _column(
        self, name: str, scope: Scope = Scope.EXCLUSIVE, unit: str = "", rule: Aggregation = Aggregation.SUM
    ) -> _Column:
        key = name, scope
        if key not in self._columns:
            self._columns[key] = _Column(Metric(name, scope, unit, aggregation=rule))
        return self._columns[key]

    def _add_events(self, file: TauFile, profile: int, contexts: Mapping[str, int]) -> None:
        """Add what events counted, at the context that their name tells, or at the root."""
        root = next((name for name in contexts if ARROW not in name), "")
        for name, numbers in file.events.items():
            event, _, place = name.partition(" : ")
            where = _clean(place)
            if where not in contexts:  # the first name may be one of the event, as in `data size : group size`
                known = where in file.functions or ARROW in where
                event, where = (event, where) if known else (name, root)
            if not where:
                continue
            context = contexts[where] if where in contexts else self._contexts.of(where)
            for (statistic, rule), number in zip(EVENT_METRICS.items(), numbers, strict=True):
                self._column(f"{event.strip()} {statistic}", rule=rule).add(profile, context, number)

    def finish(self) -> None:
        """Give the metrics to the builder."""
        for column in self._columns.values():
            values = column.numbers()
            if not len(values):
                continue
            metric = self._builder.add_metric(column.metric)
            rule = column.metric.aggregation
            combine = np.add if rule == Aggregation.NONE else rule.ufunc
            add_up_values(self._builder, column.profile, column.context, metric, values, combine)
        if self._flat:
            text = f"no call paths were recorded: inclusive costs, {APART}"
            self._builder.warn(Severity.NOTE, f"{_name_files(self._flat)}: {text}")
        if self._cut:
            text = "call paths begin at functions with several callers and stand as roots (TAU_CALLPATH_DEPTH); "
            text += f"inclusive costs, {APART}"
            self._builder.warn(Severity.NOTE, f"{_name_files(self._cut)}: {text}")
        if n := len(self._throttled):
            first = min(self._throttled)[:60]
            many = count_of(n, "function was", "functions were")
            text = f"{many} throttled, such as {first!r}: later calls count to their callers"
            self._builder.warn(Severity.NOTE, text)


def _name_files(names: list[str]) -> str:
    return f"{names[0]} and {len(names) - 1} more files" if len(names) > 1 else names[0]


# -- the format --------------------------------------------------------------------------------------------------------


HEAD = 128  # bytes that hold the first line


class TauFormat(CheckedByReading):
    """Reads, checks and prints profiles of TAU."""

    name = "tau"
    title = "TAU profiles (profile.N.C.T), a file or a folder of them, or folders MULTI__METRIC"

    def match(self, source: Source) -> Match | None:
        if not source.is_folder:
            first = source.head(HEAD).split(b"\n")[0]
            return Match(Grade.EXACT, "it begins with the number of functions") if FIRST_LINE.fullmatch(first) else None
        names = [name for name in source.listing or () if FILE_NAME.fullmatch(name) or name.startswith(FOLDER)]
        for name in sorted(names)[:2]:
            files = [source.path / name] if FILE_NAME.fullmatch(name) else _files_in(source.path / name)[:1]
            if any(FIRST_LINE.fullmatch(source.inside(file).head(HEAD).split(b"\n")[0]) for file in files):
                return Match(Grade.EXACT, f"{name} begins as a profile of TAU")
        return None

    def read(self, source: Source, options: ReadOptions) -> Experiment:
        """Return a profile for each thread."""
        builder = ExperimentBuilder(self.name, title=source.name, path=str(source.path))
        made, left_out, files = TauExperiment(builder), LeftOut(), _list_files(source.path)
        n_functions = 0
        for number, path in enumerate(files):
            options.progress("reading files", number, len(files))
            try:
                file = read_tau_file(path, left_out)
            except InputError as error:
                if options.strict or len(files) == 1:
                    raise
                builder.warn(Severity.DAMAGE, f"a file was left out: {error}")
                continue
            made.add(file)
            n_functions += len(file.functions)
            if number == 0:
                _add_metadata(builder, file, left_out)
        if not n_functions:
            raise InputError(f"{source.path}: there is no function in it")
        made.finish()
        left_out.report(builder, source.path)
        return builder.build()

    def dump(self, source: Source) -> Iterator[Field]:
        """Yield every line as it stands in the files."""
        for path in _list_files(source.path):
            index = 0
            for block in text_blocks(path):
                at = block.offset
                for line in block.data.splitlines(keepends=True):
                    yield Field(
                        path.name, "lines", index, at, "line", line.rstrip().decode("utf-8", "backslashreplace")
                    )
                    at, index = at + len(line), index + 1


FORMAT = TauFormat()


def _add_metadata(builder: ExperimentBuilder, file: TauFile, left_out: LeftOut) -> None:
    """Add what TAU says about the run, but for what names people, hosts or places."""
    if "<!" in file.metadata:
        left_out.damage("metadata that declares entities", file.metadata)
        return
    pairs = [(html.unescape(name), html.unescape(value)) for name, value in METADATA.findall(file.metadata)]
    builder.attributes.update({name: value for name, value in pairs if name and not is_private(name)})
    if hidden := sorted(name for name, _ in pairs if is_private(name)):
        builder.warn(
            Severity.NOTE, f"facts that may name people, hosts or places are not shown: {', '.join(hidden[:8])}"
        )


def _files_in(folder: Path) -> list[Path]:
    """Return the profiles in a folder, in the order of their numbers."""
    try:
        names = [path for path in folder.iterdir() if FILE_NAME.fullmatch(path.name)]
    except OSError as error:
        raise InputError(f"{folder}: cannot be read: {error.strerror or error}") from error
    return sorted(names, key=lambda path: [int(part) for part in path.name.split(".")[1:]])


def _list_files(path: Path) -> list[Path]:
    """Return the files of a place: itself, those in it, or those of its folders for several metrics."""
    if not path.is_dir():
        return [path]
    folders = sorted(inner for inner in path.iterdir() if inner.name.startswith(FOLDER) and inner.is_dir())
    files = [file for folder in (folders or [path]) for file in _files_in(folder)]
    if not files:
        raise InputError(f"{path}: no profile.N.C.T of TAU was found in it")
    return files
