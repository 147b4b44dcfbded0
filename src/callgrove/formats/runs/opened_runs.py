"""Opening the runs of a set, each with the format that its content shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from callgrove.binary.sources import Source
from callgrove.errors import CallgroveError, InputError, NotRecognised, worded
from callgrove.formats.folders import without_ingredients
from callgrove.formats.interface import ReadOptions
from callgrove.formats.registry import detect, formats_made_of, load, refuse_unused
from callgrove.model.experiment import Experiment, InputWarning, Severity
from callgrove.model.joining import join_runs
from callgrove.model.runs import Run

__all__ = ["RunAt", "has_run", "is_run", "open_runs", "runs_in"]

NAME = "runs"
LOOKED_AT = 64  # files of inner folders, to see whether there is a run at all


@dataclass(frozen=True)
class RunAt:
    """One execution: where it lies and what it was started with; `repetition` where its name says it."""

    path: Path
    name: str
    parameters: dict[str, float]
    repetition: int | None = None


def runs_in(source: Source, format_name: str = "") -> list[Path]:
    """The runs at a place: itself, or what lies in it and is recognised."""
    return [source.path] if format_name else without_ingredients(dict(_recognised(source)), formats_made_of)


def has_run(source: Source) -> bool:
    """Is there a run at a place? The search ends with the first one, and soon in any case."""
    return next(_recognised(source, LOOKED_AT), None) is not None


def is_run(source: Source) -> bool:
    """Does some format recognise the place itself?"""
    return bool(_format_of(source))


def _recognised(source: Source, most: int | None = None) -> Iterator[tuple[Path, str]]:
    """The place itself, or what lies in it, or in folders of it if there is nothing else, as profilers make one for
    each execution; with the names of the formats. Names that begin with a dot are skipped, and files of
    inner folders after the first `most`."""
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
    """The name of the format, empty where it is not recognised. Folders of folders of runs are no runs."""
    try:
        return detect(source, without=(NAME,))[0].name
    except NotRecognised:
        return ""


def open_runs(runs: Sequence[RunAt], title: str, path: str, format_name: str, options: ReadOptions) -> Experiment:
    """All runs as one experiment, sorted by their points. One that cannot be read is damage; under `strict` it is an
    error."""
    ordered = sorted(runs, key=lambda run: (tuple(run.parameters.values()), run.repetition or 0, run.name, run.path))
    parts: list[tuple[Run, Experiment]] = []
    warnings: list[InputWarning] = []
    repetitions: dict[tuple[float, ...], set[int]] = {}
    for number, run in enumerate(ordered):
        options.progress("opening runs", number, len(ordered))
        try:
            opened = _open(run.path, format_name, options)
        except InputError as error:
            if options.strict:
                raise
            warnings.append(InputWarning(Severity.DAMAGE, worded("a run was left out: ", error)))
            continue
        taken = repetitions.setdefault(tuple(run.parameters.values()), set())
        told = run.repetition if run.repetition and run.repetition not in taken else max(taken, default=0) + 1
        taken.add(told)
        parts.append((Run(run.name, dict(run.parameters), told, str(run.path)), opened))
    if not parts:
        raise InputError(f"{path}: none of its {len(ordered)} runs can be read; {warnings[0].text}")
    return join_runs(parts, NAME, title, path, warnings)


def _open(path: Path, format_name: str, options: ReadOptions) -> Experiment:
    source = Source.of(path)
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
