"""What a user names -> the databases in it, each once.

A file, several files, a folder (searched in depth for `*.db`, `*.rpd`, `*.sqlite`), or a folder with an `index.yaml`
that lists its files (`.rpdb`). Files that are no databases of ours are passed over in folders.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from callgrove.errors import InputError

__all__ = ["ENDINGS", "databases", "first_database"]

ENDINGS = (".db", ".rpd", ".sqlite", ".sqlite3")
INDEX = "index.yaml"
MOST_LOOKED_AT = 4096  # entries of a folder that detection goes through
_ITEM = re.compile(r"""^\s*-\s*["']?(?:path:\s*)?["']?([^"'#]+?)["']?\s*$""")


def databases(paths: Iterable[Path]) -> list[Path]:
    """The files behind paths, in order, none twice."""
    found: dict[Path, Path] = {}
    for path in paths:
        for file in sorted(_inside(path)) if path.is_dir() else [path]:
            found.setdefault(file.resolve(), file)
    return list(found.values())


def first_database(folder: Path) -> Path | None:
    """A file in a folder that could be a database, for detection: the search ends soon in large folders."""
    for looked_at, file in enumerate(_inside(folder)):
        if looked_at > MOST_LOOKED_AT:
            return None
        return file
    return None


def _inside(folder: Path) -> Iterator[Path]:
    index = folder / INDEX
    if index.is_file():
        yield from _listed(index)
        return
    for file in folder.rglob("*"):
        if file.suffix in ENDINGS and file.is_file() and not any(p.startswith(".") for p in file.parts[-2:]):
            yield file


def _listed(index: Path) -> Iterator[Path]:
    """The files that an index names: items of lists that end like a database. Paths are relative to the index."""
    try:
        text = index.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError(f"{index}: cannot be read: {error.strerror or error}") from error
    listed = [match[1].strip() for line in text.splitlines() if (match := _ITEM.match(line))]
    for name in listed:
        if name.endswith(ENDINGS):
            yield index.parent / name
