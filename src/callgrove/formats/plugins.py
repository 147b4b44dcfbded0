"""Formats of other packages: what they give through the entry-point group `callgrove.formats`.

    [project.entry-points."callgrove.formats"]
    ticks = "ticks_of_mine:ENTRY"              an `Entry`, or a list of them; its `location` names the format

Looking for entry points reads a file of every package that is installed, which takes long on a cluster's file system.
They are looked for once, and only when needed: a name is asked for that is not ours, an ending of a target is not ours,
none of our formats is sure of the content, or all formats are listed.

A plug-in that cannot be used is named in a `PluginWarning`, once, and counts as not there.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

from callgrove.binary.files import Source
from callgrove.errors import PluginWarning, UsageError
from callgrove.formats.interface import Entry, Format, Match

__all__ = ["GROUP", "claim", "find_plugins", "load_plugin", "package_at_fault", "require_plugin"]

GROUP = "callgrove.formats"
NOT_READ, NOT_WRITTEN = ("match", "read"), ("open_writer", "write_study")
T = TypeVar("T")


@cache
def find_plugins(ours: frozenset[str]) -> tuple[Entry, ...]:
    """Return the entries of all plug-ins in the order of their packages' names; `ours` are names that are taken."""
    taken = dict.fromkeys(ours, "callgrove")
    accepted = []
    for entry in (entry for point in _points() for entry in _entries(point)):
        if entry.name in taken:
            _complain(
                entry.package, f"its format {entry.name} is left out, as {taken[entry.name]} has one of that name"
            )
            continue
        taken[entry.name] = entry.package
        accepted.append(entry)
    return tuple(accepted)


def _points() -> list[EntryPoint]:
    return sorted(entry_points(group=GROUP), key=lambda point: (_package(point), point.name))


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.module


def _entries(point: EntryPoint) -> Iterator[Entry]:
    package = _package(point)
    given = _attempt(package, f"cannot be loaded ({point.value})", point.load)
    several = given if isinstance(given, list | tuple) else [] if given is None else [given]
    for entry in several:
        if isinstance(entry, Entry):
            yield replace(entry, package=package)
        else:
            kind = type(entry).__name__
            _complain(
                package, f"{point.value} should be an Entry or a list of them, and holds an object of type {kind}"
            )


def load_plugin(entry: Entry) -> Format | None:
    """Return the format of a plug-in, or None where it cannot be used, which is said."""
    format_ = _attempt(entry.package, f"its format {entry.name} cannot be loaded ({entry.location})", entry.load)
    if format_ is not None and (lacking := _lacking(entry, format_)):
        _complain(entry.package, f"its format {entry.name} cannot be used: {entry.location} has no {lacking}")
        return None
    return format_


def require_plugin(entry: Entry) -> Format:
    """Return the format of a plug-in; where it cannot be used, the warning has said why."""
    format_ = load_plugin(entry)
    if format_ is None:
        raise UsageError(f"the format {entry.name} of the package {entry.package} cannot be used")
    return format_


def _lacking(entry: Entry, format_: object) -> str:
    """Name what a format should have and does not."""
    if getattr(format_, "name", None) != entry.name:
        return f"name {entry.name!r}"
    if entry.reads and (missing := [name for name in NOT_READ if not callable(getattr(format_, name, None))]):
        return f"function {missing[0]}"
    if entry.writes and not any(callable(getattr(format_, name, None)) for name in NOT_WRITTEN):
        return f"function {NOT_WRITTEN[0]}"
    return ""


def claim(entry: Entry, source: Source) -> tuple[Format, Match] | None:
    """Return what the format of a plug-in makes of a source."""
    format_ = load_plugin(entry)
    if format_ is None:
        return None
    match = _attempt(entry.package, f"its format {entry.name} failed to look at a file", lambda: format_.match(source))
    if match is not None and not isinstance(match, Match):
        _complain(entry.package, f"its format {entry.name} answers {match!r:.60} instead of a Match or None")
        return None
    return None if match is None else (format_, match)


def _attempt(package: str, what: str, step: Callable[[], T]) -> T | None:
    """Return what a step of a plug-in gives, or None where it fails in any way, which is said."""
    try:
        return step()
    except (Exception, SystemExit) as error:
        _complain(package, f"{what}: {type(error).__name__}: {error}")
        return None


_said: set[tuple[str, str]] = set()


def _complain(package: str, why: str) -> None:
    """Warn once of each thing that is wrong with a package."""
    if (package, why.partition(":")[0]) not in _said:
        _said.add((package, why.partition(":")[0]))
        warnings.warn(f"the plug-in {package}: {why}", PluginWarning, stacklevel=2)


def package_at_fault(error: BaseException, plugins: Sequence[Entry]) -> str:
    """Return the package of the plug-in in whose code an error came up; empty where it was in none."""
    packages = {entry.location.partition(":")[0].partition(".")[0]: entry.package for entry in plugins}
    at_fault, step = "", error.__traceback__
    while step is not None:
        module = step.tb_frame.f_globals.get("__name__", "")
        at_fault = packages.get(module.partition(".")[0], at_fault)
        step = step.tb_next
    return at_fault
