"""Where indexes are kept: a folder of the user, one folder in it for each index, the least recently used go.

    $CALLGROVE_CACHE, else $XDG_CACHE_HOME/callgrove, else ~/.cache/callgrove
      timelines/
        3f0c...e1/                      a complete index, by its key
          used                          its time is when it was last opened
        3f0c...e1.partial-k2x9/         one that is being built; whoever builds it holds a lock on `lock` in it
        3f0c...e1.gone-b7/              one that is being removed

The key is a digest of what was read: of every file its name, size, time of change, inode and parts of its content; how
it was read; and the version of callgrove. So a file that is replaced, grown or cut has another index.

An index is renamed into place when it is complete, so that nothing else is ever taken for one. Two processes may build
the same index; the second to finish uses the first one's. A folder whose lock nobody holds was left by a process that
is no more, and is removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
import time
import weakref
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import IO

from callgrove._version import __version__
from callgrove.analysis.timeline_index.answers import IndexOptions
from callgrove.analysis.timeline_index.layout import VERSION, DamagedIndex, read_state
from callgrove.errors import CallgroveError
from callgrove.user_cache import VARIABLE, cache_folder

__all__ = ["IndexCache", "PartialIndex", "fingerprint"]

MOST_BYTES = 20 << 30  # of all indexes
STALE_SEC = 3600  # after which a partial index that cannot be locked, and was not written to, is left by somebody
SAMPLED_BYTES = 4096
N_SAMPLES = 16


# -- keys --------------------------------------------------------------------------------------------------------------


def fingerprint(files: Iterable[Path], reading: str, options: IndexOptions) -> str:
    """Return the key of an index: of files and folders, how they were read, and what is indexed. Looks at parts of
    large files, at all of small ones."""
    digest = hashlib.sha256(f"{VERSION} {__version__} {reading!r} {options!r}".encode())
    for path in files:
        for file in _files_in(path):
            digest.update(_describe(file))
    return digest.hexdigest()[:40]


def _files_in(path: Path) -> Iterator[Path]:
    """Yield a file, or all files below a folder in order."""
    if not path.is_dir():
        yield path.absolute()
        return
    for entry in sorted(path.absolute().rglob("*")):
        if entry.is_file():
            yield entry


def _describe(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            status = os.fstat(opened.fileno())
            digest = hashlib.sha256()
            for place in _places(status.st_size):
                opened.seek(place)
                digest.update(opened.read(SAMPLED_BYTES))
    except OSError as error:
        raise CallgroveError(f"{file}: cannot be read: {error.strerror}") from error
    numbers = status.st_size, status.st_mtime_ns, status.st_ino, status.st_dev
    return f"{file!s} {numbers} {digest.hexdigest()}\\n".encode("utf-8", "surrogateescape")


def _places(size: int) -> Iterable[int]:
    """Return where to look at a file: everywhere, or at places that are equally far apart, both ends among them."""
    if size <= N_SAMPLES * SAMPLED_BYTES:
        return range(0, size, SAMPLED_BYTES)
    return ((size - SAMPLED_BYTES) * k // (N_SAMPLES - 1) for k in range(N_SAMPLES))


# -- folders -----------------------------------------------------------------------------------------------------------


class PartialIndex:
    """A folder in which an index is built, locked as long as this lives."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        begun = folder / "lock.new"
        self._lock: IO[bytes] | None = begun.open("wb")
        with contextlib.suppress(OSError):  # some file systems have no locks: then the time of the last change tells
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        begun.rename(folder / "lock")  # which nobody ever sees unlocked: others would take the folder for a left one

    def __enter__(self) -> PartialIndex:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
        shutil.rmtree(self.folder, ignore_errors=True)  # renamed by then, if it is complete

    def release(self) -> None:
        """Give up the lock."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None


class IndexCache:
    """Indexes in a folder, of at most so many bytes together."""

    def __init__(self, folder: Path | None = None, most_bytes: int = MOST_BYTES) -> None:
        self.folder, self._most_bytes = folder or cache_folder("timelines") or self._private_folder(), most_bytes

    def _private_folder(self) -> Path:
        """Return a folder that is removed with this cache, where there is no place to keep indexes."""
        folder = tempfile.mkdtemp(prefix="callgrove-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return Path(folder)

    def find(self, key: str) -> Path | None:
        """Return the folder of a complete index; None where there is none. What is damaged is removed."""
        folder = self.folder / key
        if not folder.is_dir():
            return None
        try:
            state = read_state(folder)
        except DamagedIndex:
            self.remove(key)
            return None
        if not state.is_complete or state.key != key:
            self.remove(key)
            return None
        with contextlib.suppress(OSError):
            (folder / "used").touch()
        return folder

    def begin(self, key: str) -> PartialIndex:
        """Return a folder in which to build an index. What others have left behind is removed."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.sweep()
            return PartialIndex(Path(tempfile.mkdtemp(prefix=f"{key}.partial-", dir=self.folder)))
        except OSError as error:
            raise CallgroveError(
                f"{self.folder}: no index can be kept there: {error.strerror}; name another folder with {VARIABLE}"
            ) from error

    def finish(self, key: str, partial: PartialIndex) -> Path:
        """Put a complete index into its place; where another process has done so meanwhile, use that one."""
        place = self.folder / key
        (partial.folder / "used").touch()
        try:
            partial.folder.rename(place)
        except OSError:  # somebody was faster
            if self.find(key) is None:
                partial.folder.rename(place)
        self.evict(key)
        return place

    def building(self, key: str) -> Path | None:
        """Return the folder in which another process builds an index, if one does."""
        for folder in self.folder.glob(f"{key}.partial-*"):
            if not _is_left(folder):
                return folder
        return None

    def remove(self, key: str) -> None:
        """Remove an index."""
        gone = self.folder / f"{key}.gone-{os.getpid()}-{time.monotonic_ns()}"
        with contextlib.suppress(FileNotFoundError):
            (self.folder / key).rename(gone)
            shutil.rmtree(gone, ignore_errors=True)

    def sweep(self) -> None:
        """Remove what processes that are no more have left behind."""
        for folder in [*self.folder.glob("*.partial-*"), *self.folder.glob("*.gone-*")]:
            if ".gone-" in folder.name or _is_left(folder):
                shutil.rmtree(folder, ignore_errors=True)

    def evict(self, kept: str) -> None:
        """Remove the indexes that were not used for the longest time, until the others have room."""
        every = [folder for folder in self.folder.iterdir() if folder.is_dir() and "." not in folder.name]
        used = {folder: _last_used(folder) for folder in every}
        size = {folder: sum(file.stat().st_size for file in folder.iterdir()) for folder in every if folder.is_dir()}
        total = sum(size.values())
        for folder in sorted(size, key=lambda one: used[one]):
            if total <= self._most_bytes:
                break
            if folder.name != kept:
                self.remove(folder.name)
                total -= size[folder]


def _last_used(folder: Path) -> int:
    try:
        return (folder / "used").stat().st_mtime_ns
    except OSError:
        return 0


def _is_left(folder: Path) -> bool:
    """Tell whether nobody builds in a folder any more."""
    try:
        with (folder / "lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    except FileNotFoundError:  # just made, or just renamed
        pass
    except OSError:  # no locks there
        pass
    try:
        latest = max(path.stat().st_mtime for path in [folder, *folder.iterdir()])
    except OSError:
        return False
    return time.time() - latest > STALE_SEC
