"""Folders that are no input themselves and hold some: what profilers, batch jobs and people put around them.

scorep-20260101_1200_7/     profile.cubex, scorep.cfg, MANIFEST.md, perhaps traces.otf2 and traces/
results/                    hpctoolkit-app-database/ beside notes and scripts
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

from callgrove.binary.sources import Source
from callgrove.errors import CallgroveError, NotRecognised, Parameter, worded
from callgrove.formats.detection import Claim
from callgrove.formats.interface import Grade
from callgrove.formats.run_names import suggest_pattern

__all__ = ["only_input", "without_ingredients"]

Detect = Callable[[Source], Claim]
MadeOf = Callable[[str], Collection[str]]
MOST_TRIED = 64  # entries that are looked at
MOST_NAMED = 5  # in a message


def only_input(folder: Source, detect: Detect, made_of: MadeOf) -> Source | None:
    """Return the one input in a folder, or in a folder of it; None where there is none. Several are an error that names
    them. Only what a format is sure of counts; `made_of` tells which formats a tool makes of one."""
    if not folder.is_folder:
        return None
    named: dict[Path, str] = {}
    tries = iter(range(MOST_TRIED))
    for entry in _entries(folder.path):
        named |= _inputs_at(entry, detect, tries)
    inputs = without_ingredients(named, made_of)
    if len(inputs) > 1:
        names = ", ".join(str(path.relative_to(folder.path)) for path in inputs[:MOST_NAMED])
        more = ", ..." if len(inputs) > MOST_NAMED else ""
        raise NotRecognised(f"{folder.path}: holds several inputs: {names}{more}; ", _how_to_open(folder, inputs))
    return Source(inputs[0]) if inputs else None


def _how_to_open(folder: Source, inputs: Sequence[Path]) -> str:
    """Name one; or, where each lies in an entry of its own and these differ in numbers, say how runs are named."""
    entries = [path.relative_to(folder.path).parts[0] for path in inputs]
    pattern = suggest_pattern(entries) if len(set(entries)) == len(entries) else ""
    if not pattern:
        return "name one of them"
    as_runs = "name one of them, or open all as runs whose names have parameters: "
    return worded(as_runs, Parameter("folder_pattern", pattern))


def without_ingredients(inputs: Mapping[Path, str], made_of: MadeOf) -> list[Path]:
    """Inputs, each with the name of its format, but for what one of the others was made of: measurements beside their
    database are the same run."""
    formats = set(inputs.values())
    return [path for path, name in inputs.items() if formats.isdisjoint(made_of(name))]


def _inputs_at(path: Path, detect: Detect, tries: Iterator[int]) -> dict[Path, str]:
    """Inputs, with the names of their formats."""
    if name := _format_of(path, detect, tries):
        return {path: name}
    files = [file for file in _entries(path) if file.is_file()] if path.is_dir() else []
    return {file: name for file in files if (name := _format_of(file, detect, tries))}


def _format_of(path: Path, detect: Detect, tries: Iterator[int]) -> str:
    if next(tries, None) is None:
        return ""
    try:
        format_, match = detect(Source.of(path))
    except CallgroveError:  # of nobody, of two, or not to be opened
        return ""
    return format_.name if match.grade > Grade.WEAK else ""


def _entries(folder: Path) -> list[Path]:
    """Files first, as what lies beside a profile may be large; none where the folder is not ours to read."""
    try:
        visible = (entry for entry in folder.iterdir() if not entry.name.startswith("."))
        return sorted(visible, key=lambda entry: (entry.is_dir(), entry.name))
    except OSError:
        return []
