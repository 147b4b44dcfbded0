"""What a user names -> the databases in it, each once; index files.

A file, several files, a folder (searched in depth for `*.db`, `*.rpd`, `*.sqlite`), or a folder with an `index.yaml`
that lists its files (`.rpdb`). Files that are no databases of ours are passed over in folders.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from callgrove.binary.files import open_regular
from callgrove.errors import InputError, UsageError
from callgrove.formats.writing.targets import FolderKind, PendingFolder

__all__ = [
    "ENDINGS",
    "FOLDER",
    "INDEX",
    "candidates",
    "databases",
    "names_of_files",
    "read_ahead",
    "write_index",
]


ENDINGS = (".db", ".rpd", ".sqlite", ".sqlite3")
INDEX = "index.yaml"
OTHERS = ("meta.db", "profile.db", "cct.db", "trace.db")  # what HPCToolkit calls its own, which may lie nearby
OTHERS_MAGIC = b"HPCTOOLKIT"
MOST_LOOKED_AT = 4096  # entries of a folder that detection goes through
_FOLDER = re.compile(r"""^\s*path:\s*["']?([^"'#]+?)["']?\s*$""", re.MULTILINE)
_NAME = re.compile(r"""["']?([^"'#\[\],]+?\.(?:db|rpd|sqlite3?))["']?\s*(?=[,\]#]|$)""")


def databases(paths: Iterable[Path]) -> list[Path]:
    """Return the files behind paths, in order and without duplicates."""
    return [names[0] for names in names_of_files(paths)]


def names_of_files(paths: Iterable[Path]) -> list[list[Path]]:
    """Return the files behind paths, in order, each with all the names that lead to it."""
    names_by_file: dict[Path, list[Path]] = {}
    for path in paths:
        inside = _files_in_index(path) if path.name == INDEX else _inside(path) if path.is_dir() else [path]
        for file in sorted(inside):
            names_by_file.setdefault(Path(os.path.realpath(file)), []).append(file)  # links may go round in circles
    return list(names_by_file.values())


def read_ahead(paths: Iterable[Path]) -> None:
    """Ask the system to fetch files that are needed soon. This is only a hint: errors are left to whoever reads
    them."""
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
    """Return some files in a folder that may be databases, for detection; the search ends early in large folders."""
    return sorted(islice(_inside(folder, MOST_LOOKED_AT), most))


def _inside(folder: Path, most: int | None = None) -> Iterator[Path]:
    index = folder / INDEX
    if index.is_file():
        yield from _files_in_index(index)
        return
    for file in islice(folder.rglob("*"), most):
        hidden = any(p.startswith(".") for p in file.parts[-2:])
        if file.suffix in ENDINGS and file.is_file() and not hidden and not _is_of_hpctoolkit(file):
            yield file


def _is_of_hpctoolkit(file: Path) -> bool:
    if file.name not in OTHERS:
        return False
    try:
        with open_regular(file) as opened:
            return opened.read(len(OTHERS_MAGIC)) == OTHERS_MAGIC
    except OSError:  # whoever opens it says why
        return False


def _files_in_index(index: Path) -> Iterator[Path]:
    """Return the files that an index names: whatever ends like a database, in lists of either style.

    They lie in the folder that its `path` names, if that is one, else beside the index.
    """
    try:
        with open_regular(index) as file:
            text = file.read().decode("utf-8", "replace")
    except OSError as error:
        raise InputError(f"{index}: cannot be read: {error.strerror or error}") from error
    told = _FOLDER.search(text)
    folder = index.parent / told[1] if told and not told[1].endswith(ENDINGS) else index.parent
    for line in text.splitlines():
        item = re.sub(r"^\s*(?:-\s*)?(?:\w+:\s*)?", "", line)
        for name in _NAME.finditer(item):
            yield folder / name[1].strip()


# Writes an index: a folder (`.rpdb`) whose `index.yaml` names the databases of a run, so that they open as one.
#
#     rocprofiler-sdk:
#       rocpd:
#         path: ..                the folder that the names start from, relative to the index
#         files:
#           - node1/1000.db
#
# Nothing is copied. The folder and the databases can be moved together.


FOLDER = FolderKind("an index of databases", lambda folder: (folder / INDEX).is_file())
_SAFE = re.compile(r"""[^"'#\[\],:\s][^"'#\[\],\n\r]*""")


def write_index(files: Sequence[Path], target: Path, overwrite: bool = False) -> None:
    """Write an index of these databases; an existing file is replaced only if it is such an index."""
    below = Path(os.path.commonpath([file.resolve().parent for file in files]))
    names = [str(file.resolve().relative_to(below)) for file in files]
    for file, name in zip(files, names, strict=True):
        if not _SAFE.fullmatch(name) or not name.endswith(ENDINGS):
            raise UsageError(f"{file}: an index cannot hold this name; names in it end in {', '.join(ENDINGS)}")
    pending = PendingFolder(target, overwrite, FOLDER)
    with pending.or_nothing():
        start = os.path.relpath(below, target.resolve())
        lines = ["rocprofiler-sdk:", "  rocpd:", f"    path: {start}", "    files:", *(f"      - {n}" for n in names)]
        (pending.place / INDEX).write_text("\n".join(lines) + "\n", encoding="utf-8")
        pending.complete()
