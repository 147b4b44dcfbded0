"""A folder whose entries are runs with their parameters in the name.

A folder is claimed where the names of its folders (or files) follow the grammar and one of them is recognised as a run.
What has no such name is left alone and said, unless nothing has one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from callgrove.binary.sources import Source
from callgrove.errors import CallgroveError, InputError, Parameter, worded
from callgrove.formats.interface import Grade, Match, Problem, ReadOptions
from callgrove.formats.runs.opened_runs import NAME, RunAt, has_run, is_run, open_runs, runs_in
from callgrove.model.experiment import Experiment, InputWarning, Severity
from callgrove.model.run_names import (
    EXAMPLE,
    NamedRun,
    agreed,
    as_extra_p_reads,
    by_pattern,
    by_table,
    parse_named_file,
    suggest_pattern,
)
from callgrove.model.runs import PARAMETERS_DIFFER

__all__ = ["FORMAT"]

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
        if len(named) == 1 < len(entries):  # among others that are not called so: one alone is no row of runs
            return None
        if _have_run(source, named):
            return Match(_grade(named), f"its entries are named like runs ({named[0].name})")
        return None

    def read(self, source: Source, options: ReadOptions) -> Experiment:
        entries = list(_entries(source.path))
        if not entries:
            raise InputError(f"{source.path}: is empty; expected folders of runs, like {EXAMPLE}/")
        named, notes, disagreement = _named(entries, source.path, options)
        if beside := _files_beside(entries, source.path):
            left = f"{', '.join(beside[:5])}{', ...' if len(beside) > 5 else ''}"
            notes.append(f"{source.path}: left alone, as they lie beside folders of runs: {left}")
        runs: list[RunAt] = []
        for one in named:
            place = source.path / one.name
            try:
                found = runs_in(Source(place))
            except OSError:  # a run that cannot be read, which opening it will say
                found = [place]
            if not found:
                notes.append(f"{place}: nothing in it was recognised as a run")
            runs += [RunAt(path, one.name, dict(one.parameters), one.repetition) for path in found]
        if not runs:
            raise InputError(f"{source.path}: no run was recognised in {source.path}/*/*; see `callgrove formats`")
        opened = _with_notes(open_runs(runs, source.name, str(source.path), "", options), notes)
        return replace(opened, attributes={**opened.attributes, **disagreement})

    def check(self, source: Source, options: ReadOptions) -> list[Problem]:
        """What opening all runs has to say."""
        found = self.read(source, options)
        return [Problem(w.severity, source.path.name, "runs", w.text) for w in found.warnings]


FORMAT = RunsFormat()


def _have_run(source: Source, named: Sequence[Path]) -> bool:
    """Is one of these a run? Folders are alike, and looking into them takes long; of files many end in a number, and
    the first may be empty."""
    if named and named[0].is_file():
        return any(PARAMETER.search(file.stem) or _is_run_file(source.inside(file)) for file in named)
    return any(_has_run(source.inside(entry)) for entry in named[:TRIED])


def _is_run_file(source: Source) -> bool:
    try:
        return is_run(source)
    except InputError:  # not ours to read, so that nobody can know
        return True


def _has_run(source: Source) -> bool:
    """Is there a run, or what nobody can know, as it is not ours to read?"""
    try:
        return has_run(source)
    except OSError:
        return True
    except CallgroveError:
        return False


def _entries(folder: Path) -> Sequence[Path]:
    """What may be runs, in the order of their names: folders, or files where there is no folder."""
    visible = sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
    folders = [entry for entry in visible if entry.is_dir()]
    return folders or visible


def _files_beside(entries: Sequence[Path], folder: Path) -> list[str]:
    """Files in a folder whose runs are folders."""
    if not all(entry.is_dir() for entry in entries):
        return []
    return sorted(file.name for file in folder.iterdir() if file.is_file() and not file.name.startswith("."))


def _named(
    entries: Sequence[Path], folder: Path, options: ReadOptions
) -> tuple[list[NamedRun], list[str], dict[str, str]]:
    """Return the entries with their parameters, what is worth saying, and why they are no points of one study."""
    names = [entry.name for entry in entries]
    notes: list[str] = []
    if options.folder_pattern:
        found = by_pattern(names, options.folder_pattern)
    elif options.points_file:
        found = by_table(names, Path(options.points_file))
    else:
        parsed = [parse_named_file(name) for name in names]
        found = [one for one in parsed if one is not None]
        if not found:
            pattern = suggest_pattern(names)
            raise InputError(
                f"{folder}: the name {names[0]!r} has no parameter in it; name runs like {EXAMPLE}, or say how with ",
                Parameter("folder_pattern", pattern or ...),
                " or ",
                Parameter("points_file"),
            )
        if others := [name for name, one in zip(names, parsed, strict=True) if one is None]:
            notes.append(f"{folder}: left alone, as the name has no parameter: {', '.join(others[:5])}")
        notes += [f"{folder}: {text}" for text in _differences(found)]
    disagreement = {}
    try:
        runs, said = agreed(found, options.strict)
    except InputError as error:
        if options.strict:
            raise InputError(f"{folder}: {error}") from None
        runs, said = _without_parameters(found, error)
        disagreement = {PARAMETERS_DIFFER: str(error)}
    return runs, notes + [worded(f"{folder}: ", text) for text in said], disagreement


def _without_parameters(found: Sequence[NamedRun], error: InputError) -> tuple[list[NamedRun], list[str]]:
    """Runs whose names are no points of one study, which nobody may have meant them to be."""
    names = [one.name for one in found]
    listed = ", ".join(names[:MOST_NAMED]) + (", ..." if len(names) > MOST_NAMED else "")
    text = f" to model them; they are {len(names)} runs without parameters: {listed}; "
    return [replace(one, parameters={}) for one in found], [worded(error, text, Parameter("runs"), " chooses one")]


def _differences(found: Sequence[NamedRun]) -> list[str]:
    for one in found:
        if as_extra_p_reads(one.name) != list(one.parameters.items()):
            ours = ", ".join(f"{name}={value:g}" for name, value in one.parameters.items())
            return [f"{one.name} is read as {ours}; Extra-P 4.2.5 reads that name differently"]
    return []


def _with_notes(experiment: Experiment, notes: Sequence[str]) -> Experiment:
    added = tuple(InputWarning(Severity.NOTE, note) for note in notes)
    return replace(experiment, warnings=(*added, *experiment.warnings))


def _grade(named: Sequence[Path]) -> Grade:
    """`app.p4.n100` says that it is a run; `node001` and `rank3.db` may as well be places of one run."""
    stems = [entry.stem if entry.is_file() else entry.name for entry in named]
    return Grade.EXACT if all(PARAMETER.search(stem) for stem in stems) else Grade.WEAK
