"""What a user names -> the databases in it, each once.

A file, several files, a folder (searched in depth for `*.db`, `*.rpd`, `*.sqlite`), or a folder with an `index.yaml`
that lists its files (`.rpdb`). Files that are no databases of ours are passed over in folders.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from callgrove.errors import InputError

__all__ = ["ENDINGS", "INDEX", "candidates", "databases", "names_of_files", "read_ahead", "size_of"]

ENDINGS = (".db", ".rpd", ".sqlite", ".sqlite3")
INDEX = "index.yaml"
OTHERS = ("meta.db", "profile.db", "cct.db", "trace.db")  # what HPCToolkit calls its own, which may lie nearby
OTHERS_MAGIC = b"HPCTOOLKIT"
MOST_LOOKED_AT = 4096  # entries of a folder that detection goes through
_FOLDER = re.compile(r"""^\s*path:\s*["']?([^"'#]+?)["']?\s*$""", re.MULTILINE)
_NAME = re.compile(r"""["']?([^"'#\[\],]+?\.(?:db|rpd|sqlite3?))["']?\s*(?=[,\]#]|$)""")


def databases(paths: Iterable[Path]) -> list[Path]:
    """The files behind paths, in order, none twice."""
    return [names[0] for names in names_of_files(paths)]


def names_of_files(paths: Iterable[Path]) -> list[list[Path]]:
    """The files behind paths, in order, each with all the names that lead to it."""
    found: dict[Path, list[Path]] = {}
    for path in paths:
        inside = _listed(path) if path.name == INDEX else _inside(path) if path.is_dir() else [path]
        for file in sorted(inside):
            found.setdefault(Path(os.path.realpath(file)), []).append(file)  # links may go round in circles
    return list(found.values())


def size_of(path: Path) -> int:
    """Bytes of a file; none of one that is gone."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def read_ahead(paths: Iterable[Path]) -> None:
    """Have the system fetch files that are wanted soon, while something else is done. Only a hint: whoever reads them
    says what is wrong with them."""
    if not hasattr(os, "posix_fadvise"):
        return
    for path in paths:
        with suppress(OSError):
            file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            try:
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_WILLNEED)
            finally:
                os.close(file)


def candidates(folder: Path, most: int) -> list[Path]:
    """Some files in a folder that could be databases, for detection: the search ends soon in large folders."""
    return sorted(islice(_inside(folder, MOST_LOOKED_AT), most))


def _inside(folder: Path, most: int | None = None) -> Iterator[Path]:
    index = folder / INDEX
    if index.is_file():
        yield from _listed(index)
        return
    for file in islice(folder.rglob("*"), most):
        hidden = any(p.startswith(".") for p in file.parts[-2:])
        if file.suffix in ENDINGS and file.is_file() and not hidden and not _is_of_hpctoolkit(file):
            yield file


def _is_of_hpctoolkit(file: Path) -> bool:
    if file.name not in OTHERS:
        return False
    try:
        with file.open("rb") as opened:
            return opened.read(len(OTHERS_MAGIC)) == OTHERS_MAGIC
    except OSError:  # whoever opens it says why
        return False


def _listed(index: Path) -> Iterator[Path]:
    """The files that an index names: whatever ends like a database, in lists of either style.

    They lie in the folder that its `path` names, if that is one, else beside the index.
    """
    try:
        text = index.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError(f"{index}: cannot be read: {error.strerror or error}") from error
    told = _FOLDER.search(text)
    folder = index.parent / told[1] if told and not told[1].endswith(ENDINGS) else index.parent
    for line in text.splitlines():
        item = re.sub(r"^\s*(?:-\s*)?(?:\w+:\s*)?", "", line)
        for name in _NAME.finditer(item):
            yield folder / name[1].strip()
