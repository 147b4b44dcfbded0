"""What a user names -> the databases in it, each once; index files.

A file, several files, a folder (searched in depth for `*.db`, `*.rpd`, `*.sqlite`), or a folder with an `index.yaml`
that lists its files (`.rpdb`). Files that are not databases of ours are passed over in folders.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from callgrove.binary.files import open_regular
from callgrove.binary.sqlite.schema import UNFINISHED, is_unfinished
from callgrove.errors import InputError, UsageError
from callgrove.formats.writing.targets import FolderKind, PendingFile, PendingFolder

__all__ = [
    "ENDINGS",
    "FOLDER",
    "INDEX",
    "Listings",
    "candidates",
    "databases",
    "find_begun",
    "find_unfinished",
    "names_of_files",
    "read_ahead",
    "write_index",
]


ENDINGS = (".db", ".rpd", ".sqlite", ".sqlite3")
INDEX = "index.yaml"
OTHERS = ("meta.db", "profile.db", "cct.db", "trace.db")  # what HPCToolkit calls its own, which may lie nearby
OTHERS_MAGIC = b"HPCTOOLKIT"
WORTH_LISTING = 64  # files of one folder
MOST_LOOKED_AT = 4096  # entries of a folder that detection goes through
_FOLDER = re.compile(r"""^\s*path:\s*["']?([^"'#]+?)["']?\s*$""", re.MULTILINE)
_NAME = re.compile(r"""["']?([^"'#\[\],]+?\.(?:db|rpd|sqlite3?))["']?\s*(?=[,\]#]|$)""")


class Listings:
    """What lay in the folders of one input: each is listed once, by whoever recognises the input, and known to those
    who read it. Another process lists them anew."""

    def __init__(self) -> None:
        self._entries: dict[str, list[os.DirEntry[str]] | None] = {}

    def entries(self, folder: str) -> list[os.DirEntry[str]] | None:
        """Return what lies in a folder; None where that may not be read."""
        if folder not in self._entries:
            try:
                with os.scandir(folder or os.curdir) as found:
                    self._entries[folder] = list(found)
            except OSError:
                self._entries[folder] = None
        return self._entries[folder]

    def __reduce__(self) -> tuple[type[Listings], tuple[()]]:
        return Listings, ()


def databases(paths: Iterable[Path]) -> list[Path]:
    """Return the files behind paths, in order and without duplicates."""
    return [names[0] for names in names_of_files(paths)]


def names_of_files(paths: Iterable[Path], listings: Listings | None = None) -> list[list[Path]]:
    """Return the files behind paths, in order, each with all the names that lead to it."""
    listings = Listings() if listings is None else listings
    names_by_file: dict[str, list[Path]] = {}
    folders: dict[str, str] = {}  # and what they really are: many files lie in one
    for path in paths:
        mode = _mode(path)
        is_file = stat.S_ISREG(mode) and path.name != INDEX
        inside = [path] if is_file else _files_in_index(path) if path.name == INDEX else _list_files(path, listings)
        for file in sorted(inside):
            names_by_file.setdefault(_real_name(file, folders, is_file), []).append(file)
    return list(names_by_file.values())


def _mode(path: Path) -> int:
    """Return what kind of file there is, a link as such; 0 for none."""
    try:
        return os.lstat(path).st_mode
    except OSError:
        return 0


def _list_files(path: Path, listings: Listings) -> Iterable[Path]:
    return _inside(path, listings) if path.is_dir() else [path]


def _real_name(file: Path, known_folders: dict[str, str], is_no_link: bool) -> str:
    """Return the path of a file without links, which may go round in circles. A folder is looked at once."""
    folder, name = os.path.split(file)
    if name in ("", os.curdir, os.pardir) or (not is_no_link and os.path.islink(file)):  # noqa: PTH114 - no objects
        return os.path.realpath(file)
    if folder not in known_folders:
        known_folders[folder] = os.path.realpath(folder)
    return f"{known_folders[folder]}{os.sep}{name}"


# A database with a write-ahead log or a journal beside it may still be written: what is committed is not all in the
# file. Asking the system for each of thousands of files takes long, so a folder of many is listed, twice: before its
# databases are opened, and when all are open. A file that got its log in between is opened again. A log that comes
# later has rows of later; what was opened stays as it was then, or is found to be changed.


def find_unfinished(files: Sequence[Path], listings: Listings) -> list[bool | None]:
    """Return for each file whether there is a write-ahead log or a journal beside it, as far as a listing tells: None
    for files of folders with few of them, which are to be asked when they are opened."""
    places = [os.path.split(file) for file in files]
    in_folder = Counter(folder for folder, _ in places)
    listed = {folder: _list_doubtful(listings.entries(folder)) for folder, n in in_folder.items() if n >= WORTH_LISTING}
    doubtful = {folder: names for folder, names in listed.items() if names is not None}
    return [
        name in doubtful[folder] and is_unfinished(file) if folder in doubtful else None
        for file, (folder, name) in zip(files, places, strict=True)
    ]


def find_begun(files: Sequence[Path], known: Sequence[bool | None]) -> list[int]:
    """Return the numbers of files that had neither log nor journal when their folder was listed, and have one now."""
    places = {number: os.path.split(files[number]) for number, unfinished in enumerate(known) if unfinished is False}
    listings = Listings()
    doubtful = {
        folder: _list_doubtful(listings.entries(folder)) for folder in {folder for folder, _ in places.values()}
    }
    return [
        number
        for number, (folder, name) in places.items()
        if ((names := doubtful[folder]) is None or name in names) and is_unfinished(files[number])
    ]


def _list_doubtful(entries: Iterable[os.DirEntry[str]] | None) -> set[str] | None:
    """Return the names in a folder that something lies beside, and those of links, which lead elsewhere; None where it
    could not be listed."""
    if entries is None:
        return None
    out: set[str] = set()
    for entry in entries:
        stem, mark, end = entry.name.rpartition("-")
        if mark + end in UNFINISHED:
            out.add(stem)
        if entry.is_symlink():
            out.add(entry.name)
    return out


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


def candidates(folder: Path, most: int, listings: Listings) -> list[Path]:
    """Return some files in a folder that may be databases, for detection; the search ends early in large folders."""
    return sorted(islice(_inside(folder, listings, MOST_LOOKED_AT), most))


def _inside(folder: Path, listings: Listings, most: int | None = None) -> Iterator[Path]:
    index = folder / INDEX
    if index.is_file():
        yield from _files_in_index(index)
        return
    for entry in islice(_walk(folder, listings), most):
        if not entry.name.endswith(ENDINGS):  # as most: paths of thousands of files take long
            continue
        file = Path(entry.path)
        hidden = any(p.startswith(".") for p in file.parts[-2:])
        if file.suffix in ENDINGS and not hidden and _leads_to_file(entry, file) and not _is_of_hpctoolkit(file):
            yield file


def _leads_to_file(entry: os.DirEntry[str], file: Path) -> bool:
    """Return whether an entry is a file, as the listing says, or a link to one, and not in a circle."""
    return file.is_file() if entry.is_symlink() else entry.is_file()


def _walk(folder: Path, listings: Listings) -> Iterator[os.DirEntry[str]]:
    """Yield what lies in a folder, then what lies in its folders; links are not followed, and what may not be read is
    left out."""
    folders = [str(folder)]
    while folders:
        entries = listings.entries(folders.pop()) or []
        yield from entries
        folders += [entry.path for entry in reversed(entries) if entry.is_dir(follow_symlinks=False)]


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
#         rocpd_package_version: '1.0'
#         path: .                 the folder that names start from; ROCm's command knows no other
#         files:
#           - ../node1/1000.db
#
# Nothing is copied, unless that is asked for. The folder and the databases can be moved together.


FIRST_LINE = "rocprofiler-sdk:"
FOLDER = FolderKind("an index of databases", lambda folder: (folder / INDEX).is_file())
_SAFE = re.compile(r"""[^"'#\[\],:\s][^"'#\[\],\n\r]*""")


def _is_index(path: Path) -> bool:
    """Return whether a file begins as an index of databases does; what cannot be read is none."""
    try:
        with open_regular(path) as file:
            return file.read(len(FIRST_LINE)) == FIRST_LINE.encode()
    except OSError:
        return False


def write_index(files: Sequence[Path], target: Path, overwrite: bool = False, *, copies: bool = False) -> None:
    """Write a folder with an index of these databases, or with copies of them as well. What is there is replaced only
    if it is such an index; into the current folder the index alone is written."""
    if target.resolve() == Path.cwd():
        text = _index_text(files, _names_from(files, target))
        index = target / INDEX
        if index.exists() and not _is_index(index):
            raise UsageError(f"{index}: exists already, and is not an index of databases; name a folder for this one")
        file = PendingFile(index, overwrite)
        with file.or_nothing():
            file.place.write_text(text, encoding="utf-8")
            file.complete()
        return
    names = _names_of_copies(files) if copies else _names_from(files, target)
    text, pending = _index_text(files, names), PendingFolder(target, overwrite, FOLDER)
    with pending.or_nothing():
        for file_, name in zip(files, names, strict=True) if copies else ():
            shutil.copy2(file_, pending.place / name)
        (pending.place / INDEX).write_text(text, encoding="utf-8")
        pending.complete()


def _names_from(files: Sequence[Path], folder: Path) -> list[str]:
    return [os.path.relpath(file.resolve(), folder.resolve()) for file in files]


def _names_of_copies(files: Sequence[Path]) -> list[str]:
    """Return the names of files in one folder, where each must be another one."""
    names = [file.name for file in files]
    for name, n in Counter(names).items():
        if n > 1:
            several = ", ".join(str(file) for file in files if file.name == name)
            raise UsageError(
                f"{several}: have one name, and would be one file; rename them, or list them without copies"
            )
    return names


def _index_text(files: Sequence[Path], names: Sequence[str]) -> str:
    for file, name in zip(files, names, strict=True):
        if not _SAFE.fullmatch(name) or not name.endswith(ENDINGS):
            raise UsageError(f"{file}: an index cannot hold this name; names in it end in {', '.join(ENDINGS)}")
    about = ["  rocpd:", "    rocpd_package_version: '1.0'", "    path: .", "    files:"]
    return "\n".join([FIRST_LINE, *about, *(f"      - {name}" for name in names)]) + "\n"
