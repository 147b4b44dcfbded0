"""A folder whose entries are runs with their parameters in the name; or runs whose parameters a user gives.

A folder is claimed where the names of its folders (or files) follow the grammar and one of them is recognised as a run.
What has no such name is left alone and said, unless nothing has one.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from callgrove.binary.files import Source
from callgrove.errors import CallgroveError, InputError, NotRecognised, Parameter, UsageError, compose_text
from callgrove.formats.interface import Grade, Match, Problem, ReadOptions
from callgrove.formats.registry import detect, formats_made_of, load, refuse_unused
from callgrove.formats.run_names import (
    EXAMPLE,
    NamedRun,
    agree_on_parameters,
    as_extra_p_reads,
    by_pattern,
    by_table,
    parse_named_file,
    parse_point,
    suggest_pattern,
    without_ingredients,
)
from callgrove.model.experiment import Experiment, InputWarning, Severity
from callgrove.model.joining import join_runs
from callgrove.model.runs import PARAMETERS_DIFFER, Run

__all__ = ["FORMAT", "RunAt", "has_run", "is_run", "open_points", "open_runs", "runs_in"]


# -- opening the runs of a folder --------------------------------------------------------------------------------------
# Each is opened with the format that its content shows.


NAME = "runs"
FILES_LOOKED_AT = 64  # files of inner folders, to see whether there is a run at all


@dataclass(frozen=True)
class RunAt:
    """One execution: where it lies and what it was started with; `repetition` where its name says it."""

    path: Path
    name: str
    parameters: dict[str, float]
    repetition: int | None = None


def runs_in(source: Source, format_name: str = "") -> list[Path]:
    """Return the runs at a place: itself, or what lies in it and is recognised."""
    return [source.path] if format_name else without_ingredients(dict(_recognise(source)), formats_made_of)


def has_run(source: Source) -> bool:
    """Return whether there is a run at a place. The search ends with the first one, and soon in any case."""
    return next(_recognise(source, FILES_LOOKED_AT), None) is not None


def is_run(source: Source) -> bool:
    """Return whether some format recognises the place itself."""
    return bool(_format_of(source))


def _recognise(source: Source, most: int | None = None) -> Iterator[tuple[Path, str]]:
    """Yield the place itself, or what lies in it, or in folders of it if there is nothing else, as profilers make one
    for each execution; with the names of the formats. Names that begin with a dot are skipped, and files of inner
    folders after the first `most`."""
    if name := _format_of(source):
        yield source.path, name
        return
    nothing = True
    for inner in _visible(source.path) if source.is_folder else []:
        if name := _format_of(source.inside(inner)):
            yield inner, name
            nothing = False
    if not nothing or not source.is_folder:
        return
    deeper = (file for folder in filter(Path.is_dir, _visible(source.path)) for file in _visible(folder))
    for file in islice(filter(Path.is_file, deeper), most):
        if name := _format_of(source.inside(file)):
            yield file, name


def _visible(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


def _format_of(source: Source) -> str:
    """Return the name of the format, empty where it is not recognised. Folders of folders of runs are not runs."""
    try:
        return detect(source, without=(NAME,))[0].name
    except NotRecognised:
        return ""


def open_runs(runs: Sequence[RunAt], title: str, path: str, format_name: str, options: ReadOptions) -> Experiment:
    """Open all runs as one experiment, sorted by their points. One that cannot be read is damage; under `strict` it is
    an error."""
    ordered = sorted(runs, key=lambda run: (tuple(run.parameters.values()), run.repetition or 0, run.name, run.path))
    parts: list[tuple[Run, Experiment]] = []
    warnings: list[InputWarning] = []
    repetitions: dict[tuple[float, ...], set[int]] = {}
    kept: dict[Hashable, Any] = {}  # what formats keep from run to run
    for number, run in enumerate(ordered):
        options.progress("opening runs", number, len(ordered))
        try:
            opened = _open(run.path, format_name, options, kept)
        except InputError as error:
            if options.strict:
                raise
            warnings.append(InputWarning(Severity.DAMAGE, compose_text("a run was left out: ", error)))
            continue
        taken = repetitions.setdefault(tuple(run.parameters.values()), set())
        told = run.repetition if run.repetition and run.repetition not in taken else max(taken, default=0) + 1
        taken.add(told)
        parts.append((Run(run.name, dict(run.parameters), told, str(run.path)), opened))
    if not parts:
        raise InputError(f"{path}: none of its {len(ordered)} runs can be read; {warnings[0].text}")
    return join_runs(parts, NAME, title, path, warnings)


def _open(path: Path, format_name: str, options: ReadOptions, kept: dict[Hashable, Any]) -> Experiment:
    source = Source.of(path, kept)
    chosen = load(format_name) if format_name else detect(source, without=(NAME,))[0]
    options = replace(options, folder_pattern="", points_file="")  # which name the runs, and say nothing about one
    refuse_unused(options, chosen.name, path)
    try:
        opened = chosen.read(source, replace(options, run=""))  # which names one of these, not of what is in it
    except CallgroveError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: ", error) from error
    if not isinstance(opened, Experiment):
        raise InputError(f"{path}: holds series over parameters already, so it cannot be one run of a study")
    return opened


# -- the format --------------------------------------------------------------------------------------------------------


PARAMETER = re.compile(r"\.[A-Za-z_]+\d")
LOOKED_AT = 64  # entries whose names are tried for a match
TRIED = 2  # folders that are looked into for it
MOST_NAMED = 8  # entries in a message


class RunsFormat:
    name = NAME
    title = "folder of runs, one per parameter point"

    def match(self, source: Source) -> Match | None:
        if not source.is_folder:
            return None
        try:
            entries = list(islice(_entries(source.path), LOOKED_AT))
        except OSError:  # not ours to read
            return None
        named = [entry for entry in entries if parse_named_file(entry.name) is not None]
        if len(named) == 1 < len(entries):  # among others that are not called so: one alone is not a row of runs
            return None
        if _have_run(source, named):
            return Match(_grade(named), f"its entries are named like runs ({named[0].name})")
        return None

    def read(self, source: Source, options: ReadOptions) -> Experiment:
        entries = list(_entries(source.path))
        if not entries:
            raise InputError(f"{source.path}: is empty; expected folders of runs, like {EXAMPLE}/")
        named, notes, disagreement = _name_runs(entries, source.path, options)
        if beside := _list_files(entries, source.path):
            left = f"{', '.join(beside[:5])}{', ...' if len(beside) > 5 else ''}"
            notes.append(f"{source.path}: left alone, as they lie beside folders of runs: {left}")
        runs: list[RunAt] = []
        for one in named:
            place = source.path / one.name
            try:
                paths = runs_in(Source(place))
            except OSError:  # a run that cannot be read, which opening it will say
                paths = [place]
            if not paths:
                notes.append(f"{place}: nothing in it was recognised as a run")
            runs += [RunAt(path, one.name, dict(one.parameters), one.repetition) for path in paths]
        if not runs:
            raise InputError(f"{source.path}: no run was recognised in {source.path}/*/*; see `callgrove formats`")
        opened = _with_notes(open_runs(runs, source.name, str(source.path), "", options), notes)
        return replace(opened, attributes={**opened.attributes, **disagreement})

    def check(self, source: Source, options: ReadOptions) -> list[Problem]:
        """Return what opening all runs has to say."""
        experiment = self.read(source, options)
        return [Problem(w.severity, source.path.name, "runs", w.text) for w in experiment.warnings]


FORMAT = RunsFormat()


def _have_run(source: Source, named: Sequence[Path]) -> bool:
    """Return whether one of these is a run. Folders are alike, and looking into them takes long; of files many end in a
    number, and the first may be empty."""
    if named and named[0].is_file():
        return any(PARAMETER.search(file.stem) or _is_run_file(source.inside(file)) for file in named)
    return any(_has_run(source.inside(entry)) for entry in named[:TRIED])


def _is_run_file(source: Source) -> bool:
    try:
        return is_run(source)
    except InputError:  # not ours to read, so that nobody can know
        return True


def _has_run(source: Source) -> bool:
    """Return whether there is a run, or what nobody can know, as it is not ours to read."""
    try:
        return has_run(source)
    except OSError:
        return True
    except CallgroveError:
        return False


def _entries(folder: Path) -> Sequence[Path]:
    """Return what may be runs, in the order of their names: folders, or files where there is no folder."""
    visible = sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
    folders = [entry for entry in visible if entry.is_dir()]
    return folders or visible


def _list_files(entries: Sequence[Path], folder: Path) -> list[str]:
    """Return the files in a folder whose runs are folders."""
    if not all(entry.is_dir() for entry in entries):
        return []
    return sorted(file.name for file in folder.iterdir() if file.is_file() and not file.name.startswith("."))


def _name_runs(
    entries: Sequence[Path], folder: Path, options: ReadOptions
) -> tuple[list[NamedRun], list[str], dict[str, str]]:
    """Return the entries with their parameters, what is worth saying, and why they are not points of one study."""
    names = [entry.name for entry in entries]
    notes: list[str] = []
    if options.folder_pattern:
        named = by_pattern(names, options.folder_pattern)
    elif options.points_file:
        named = by_table(names, Path(options.points_file))
    else:
        parsed = [parse_named_file(name) for name in names]
        named = [one for one in parsed if one is not None]
        if not named:
            pattern = suggest_pattern(names)
            raise InputError(
                f"{folder}: the name {names[0]!r} has no parameter in it; name runs like {EXAMPLE}, or say how with ",
                Parameter("folder_pattern", pattern or ...),
                " or ",
                Parameter("points_file"),
            )
        if others := [name for name, one in zip(names, parsed, strict=True) if one is None]:
            notes.append(f"{folder}: left alone, as the name has no parameter: {', '.join(others[:5])}")
        notes += [f"{folder}: {text}" for text in _differences(named)]
    disagreement = {}
    try:
        runs, said = agree_on_parameters(named, options.strict)
    except InputError as error:
        if options.strict:
            raise InputError(f"{folder}: {error}") from None
        runs, said = _drop_parameters(named, error)
        disagreement = {PARAMETERS_DIFFER: str(error)}
    return runs, notes + [compose_text(f"{folder}: ", text) for text in said], disagreement


def _drop_parameters(runs: Sequence[NamedRun], error: InputError) -> tuple[list[NamedRun], list[str]]:
    """Return the runs whose names are not points of one study, which nobody may have meant them to be."""
    names = [one.name for one in runs]
    listed = ", ".join(names[:MOST_NAMED]) + (", ..." if len(names) > MOST_NAMED else "")
    text = f" to model them; they are {len(names)} runs without parameters: {listed}; "
    return [replace(one, parameters={}) for one in runs], [compose_text(error, text, Parameter("runs"), " chooses one")]


def _differences(runs: Sequence[NamedRun]) -> list[str]:
    for one in runs:
        if as_extra_p_reads(one.name) != list(one.parameters.items()):
            ours = ", ".join(f"{name}={value:g}" for name, value in one.parameters.items())
            return [f"{one.name} is read as {ours}; Extra-P 4.2.5 reads that name differently"]
    return []


def _with_notes(experiment: Experiment, notes: Sequence[str]) -> Experiment:
    added = tuple(InputWarning(Severity.NOTE, note) for note in notes)
    return replace(experiment, warnings=(*added, *experiment.warnings))


def _grade(named: Sequence[Path]) -> Grade:
    """Return how surely these names are runs: `app.p4.n100` says so; `node001` and `rank3.db` may as well be places of
    one run."""
    stems = [entry.stem if entry.is_file() else entry.name for entry in named]
    return Grade.EXACT if all(PARAMETER.search(stem) for stem in stems) else Grade.WEAK


# -- runs whose parameters a user gives --------------------------------------------------------------------------------
# callgrove ... --point p=4,n=100 RUN


def open_points(
    given: Sequence[tuple[str, str]], format_name: str = "", options: ReadOptions | None = None
) -> Experiment:
    """Return the experiment of (point, path) pairs, such as ("p=4,n=100", "run7.d"); equal points are repetitions."""
    runs: list[RunAt] = []
    names: set[str] = set()
    for text, place in given:
        point = parse_point(text)
        names = names or set(point)
        if set(point) != names:
            raise UsageError(f"{text!r} has other parameters than the points before it: {', '.join(sorted(names))}")
        path = Path(place)
        paths = runs_in(Source.of(path), format_name)
        if not paths:
            raise InputError(f"{path}: nothing in it was recognised as a run; see `callgrove formats`")
        ordered = {name: point[name] for name in runs[0].parameters} if runs else point
        runs += [RunAt(one, path.name, ordered) for one in paths]
    return open_runs(runs, f"{len(runs)} runs", "", format_name, options or ReadOptions())
