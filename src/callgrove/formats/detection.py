"""Whose content is it? Formats say what they make of it, and the strongest claim wins."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from callgrove.binary.sources import Source
from callgrove.errors import InputError, NotRecognised, Parameter
from callgrove.formats.interface import Format, Grade, Match

if TYPE_CHECKING:
    from callgrove.formats.registry import Entry

__all__ = ["Claim", "claims_on", "is_sure", "named_like", "strongest"]

Claim = tuple[Format, Match]
T = TypeVar("T")

NAMES_LOOKED_AT = 256  # of those in a folder


def named_like(source: Source, entries: Sequence[Entry]) -> list[Entry]:
    """The formats whose files or folders have such names. An ending does not count for names that are another's."""
    names = _names(source)
    whole = {name for entry in entries for name in entry.usual_names if not name.startswith(".")}

    def is_named(entry: Entry) -> bool:
        endings = tuple(name for name in entry.usual_names if name not in whole)
        return any(name in entry.usual_names if name in whole else name.endswith(endings) for name in names)

    return [entry for entry in entries if is_named(entry)]


def _names(source: Source) -> list[str]:
    """The name of a file, or some of those in a folder."""
    if not source.is_folder:
        return [source.path.name]
    try:
        with os.scandir(source.path) as found:
            return [one.name for one in islice(found, NAMES_LOOKED_AT)]
    except OSError:  # formats will say what is wrong
        return []


def claims_on(source: Source, *groups: Sequence[Entry]) -> tuple[list[Claim], list[str]]:
    """The claims of formats, and which ones could not be asked. A group is asked, and its formats are loaded, only if
    nobody before is sure."""
    claims: list[Claim] = []
    missing: list[str] = []
    for entries in groups:
        if is_sure(source, claims):
            break
        for entry in entries:
            try:
                claim = _claim_of(entry, source)
            except ImportError as error:  # one format that cannot be loaded must not stop the others
                missing.append(f"{entry.name} ({error})")
                continue
            if claim is not None:
                claims.append(claim)
    return claims, missing


def is_sure(source: Source, claims: Sequence[Claim]) -> bool:
    """Is one of these claims enough to ask nobody else? The parts of a folder may be of two formats."""
    enough = Grade.EXACT if source.is_folder else Grade.STRONG
    return any(match.grade >= enough for _, match in claims)


def _claim_of(entry: Entry, source: Source) -> Claim | None:
    if entry.package:
        from callgrove.formats.plugins import claim

        return claim(entry, source)
    format_ = entry.load()
    match = format_.match(source)
    return None if match is None else (format_, match)


def strongest(source: Source, ours: Sequence[Claim], missing: Sequence[str], theirs: Sequence[Claim] = ()) -> Claim:
    """The claim of the highest grade. A tie, or no claim, is an error that says so. `theirs` are claims of plug-ins,
    which may read what we know as a stranger."""
    claims = [*ours, *theirs]
    best = max((match.grade for _, match in claims), default=None)
    if best is None or (best < Grade.EXACT and not source.is_folder and not is_sure(source, theirs)):
        _refuse_stranger(source)
    if best is None:
        unable = f"; these formats could not be tried: {', '.join(missing)}" if missing else ""
        raise NotRecognised(f"{_unrecognised(source)}; see `callgrove formats`{unable}")
    winners = [(f, m) for f, m in claims if m.grade == best]
    if len(winners) > 1:
        both = " and ".join(f"{f.name} ({m.reason})" for f, m in winners)
        raise NotRecognised(f"{source.path}: recognised as {both}; choose one with ", Parameter("from_format"))
    return winners[0]


def _refuse_stranger(source: Source) -> None:
    """What an input is that no format reads; loaded only where nothing is sure of the content."""
    from callgrove.formats.strangers import stranger

    if other := _readable(source.path, lambda: stranger(source)):
        raise NotRecognised(f"{source.path}: {other}")


def _unrecognised(source: Source) -> str:
    if source.is_folder:
        names = _readable(source.path, lambda: sorted(p.name for p in source.path.iterdir())[:5])
        inside = f"it holds {', '.join(names)}" + (", ..." if len(names) == 5 else "") if names else "it is empty"
        return f"{source.path}: no performance data was recognised in this folder: {inside}"
    _readable(source.path, lambda: source.path.open("rb").close())
    head = source.head(16)
    begins = f"it begins with {repr(head).removeprefix('b')}" if head else "it is empty"
    return f"{source.path}: not recognised as performance data: {begins}"


def _readable(path: Path, look: Callable[[], T]) -> T:
    """What a look at a path gives. Detection passes over what may not be read; here somebody asks why."""
    try:
        return look()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
