"""Files whose every access is checked: one file, parts of files, and what a user points at (a file, a folder or
several).

Files are mapped into memory; small ones are read at once, which is faster where there are thousands. Who goes through
many files piece by piece reads them into memory that is kept (reading.py).

A count or an offset that a file announces is compared with the size of the file before anything is allocated,
so a damaged or hostile file costs an error and not memory. Numbers read from a file may come as NumPy's, which wrap
around: they are made plain before anything is computed with them. `bytes_viewed` adds up what was asked for.
"""

from __future__ import annotations

import errno
import glob
import io
import mmap
import os
import stat
import weakref
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

import numpy as np
import numpy.typing as npt

from callgrove.errors import CorruptFile, InputError, UsageError

__all__ = [
    "HEAD_BUDGET",
    "LEAST_HEAD",
    "CheckedFile",
    "FileBytes",
    "FilePart",
    "IdMap",
    "ReadableBytes",
    "Record",
    "Source",
    "cannot_be_read",
    "open_number",
    "open_regular",
    "read_into",
    "size_of",
    "walk_folder",
]


# -- one read-only file ------------------------------------------------------------------------------------------------


LONGEST_STRING = 1 << 20
OPENING = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)  # a pipe would wait for its writer
SMALL = 1 << 16  # bytes; mapping such a file costs more than reading it
MOST_MAPPED = 32 << 20  # bytes of a file that stay mapped after they were copied
LONG_RANGE = 16  # records: so many are copied faster as a range than one by one
Record = np.void
Buffer = bytes | mmap.mmap


class CheckedFile:
    """What all ways to read one file share: nothing outside of it is asked for."""

    path: Path
    size: int
    bytes_viewed = 0

    def check(self, offset: int, size: int, section: str) -> None:
        """Raise unless `size` bytes at `offset` lie inside the file."""
        offset, size = int(offset), int(size)
        if offset < 0 or size < 0 or offset + size > self.size:
            raise CorruptFile(
                self.path,
                section,
                offset=offset,
                expected=f"{size} bytes",
                found=f"a file that ends at byte {self.size}",
                remedy="the file is truncated or damaged",
            )

    def array(self, dtype: npt.DTypeLike, count: int, offset: int, section: str) -> npt.NDArray[Any]:
        """Return `count` items of `dtype` at `offset`."""
        raise NotImplementedError

    def copy(self, offset: int, size: int, section: str) -> bytes:
        """Return a copy of `size` bytes."""
        return self.array(np.uint8, size, offset, section).tobytes()


class FileBytes(CheckedFile):
    """Checked views into one file. The arrays it gives are read-only views; nothing is copied."""

    def __init__(self, path: Path) -> None:
        self._view(path, _open(path))

    @classmethod
    def over(cls, path: Path, buffer: Buffer) -> FileBytes:
        """Return views into bytes that were made from the file at `path`, such as what it holds in compressed form."""
        made = cls.__new__(cls)
        made._view(path, buffer)
        return made

    def _view(self, path: Path, buffer: Buffer) -> None:
        self.path = path
        self.bytes_viewed = self._gathered = 0
        self._buffer: Buffer = buffer
        self.size = len(buffer)

    def array(self, dtype: npt.DTypeLike, count: int, offset: int, section: str) -> npt.NDArray[Any]:
        kind, count, offset = np.dtype(dtype), int(count), int(offset)
        self.check(offset, count * kind.itemsize, section)
        self.bytes_viewed += count * kind.itemsize
        if count == 0:
            return np.empty(0, kind)
        return np.frombuffer(self._buffer, kind, count, offset)

    def record(self, dtype: npt.DTypeLike, offset: int, section: str) -> Record:
        """Return one structured record."""
        record: Record = self.array(dtype, 1, offset, section)[0]
        return record

    def read_strided(
        self, dtype: np.dtype[Any], stride: int, count: int, offset: int, section: str
    ) -> npt.NDArray[Any]:
        """Return records of `dtype` that lie `stride` bytes apart: a newer writer may have made them longer."""
        stride, count, offset = int(stride), int(count), int(offset)
        if stride < dtype.itemsize:
            wanted = f"records of at least {dtype.itemsize} bytes"
            raise CorruptFile(self.path, section, offset=offset, expected=wanted, found=str(stride))
        self.check(offset, count * stride, section)
        self.bytes_viewed += count * dtype.itemsize
        if count == 0:
            return np.empty(0, dtype)
        return np.ndarray((count,), dtype, self._buffer, offset, (stride,))

    def gather(self, dtype: np.dtype[Any], at: npt.NDArray[np.int64], section: str) -> npt.NDArray[Any]:
        """Return a copy of the records of `dtype` that begin at these bytes, in the order given."""
        if len(at) == 0:
            return np.empty(0, dtype)
        first, last = int(at.min()), int(at.max())
        self.check(first, 0, section)
        self.check(last, dtype.itemsize, section)
        plain = np.dtype((np.void, dtype.itemsize))  # copied as bytes: four times as fast as field by field
        everywhere = np.ndarray((self.size - dtype.itemsize + 1,), plain, self._buffer, 0, (1,))
        records: npt.NDArray[Any] = everywhere[at].view(dtype)
        self._note_gathered(records.nbytes)
        return records

    def gather_ranges(
        self, dtype: np.dtype[Any], at: npt.NDArray[Any], count: npt.NDArray[np.int64], section: str
    ) -> npt.NDArray[Any]:
        """Return a copy of several ranges of records, one after the other: `count` records from each of `at` on.
        Ranges without records may begin anywhere."""
        kept = count > 0
        starts, counts = at[kept].astype(np.int64), count[kept]
        n_records = int(counts.sum())
        if n_records < LONG_RANGE * max(1, len(starts)):
            before = np.cumsum(counts) - counts
            places = np.repeat(starts - dtype.itemsize * before, counts) + dtype.itemsize * np.arange(n_records)
            return self.gather(dtype, places, section)
        sizes = counts * dtype.itemsize
        outside = np.flatnonzero((starts < 0) | (starts > self.size - sizes))
        for k in outside[:1].tolist():
            self.check(starts[k], sizes[k], section)
        with memoryview(self._buffer) as whole:
            parts = [whole[start:end] for start, end in zip(starts.tolist(), (starts + sizes).tolist(), strict=True)]
            records = np.frombuffer(bytearray().join(parts), dtype)
        self._note_gathered(records.nbytes)
        return records

    def gather_columns(
        self, dtype: np.dtype[Any], at: npt.NDArray[Any], count: npt.NDArray[np.int64], section: str
    ) -> dict[str, npt.NDArray[Any]]:
        """Return the fields of what `gather_ranges` does."""
        records = self.gather_ranges(dtype, at, count, section)
        return {name: np.ascontiguousarray(records[name]) for name in dtype.names or ()}

    def _note_gathered(self, n_bytes: int) -> None:
        """Count bytes that were copied, and give pages back behind a pass over a large file."""
        self.bytes_viewed += n_bytes
        self._gathered += n_bytes
        if self._gathered > MOST_MAPPED:
            self._gathered = 0
            self.forget()

    def find_overlaps(self, at: npt.NDArray[Any], sizes: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Return which ranges begin inside an earlier one. All of them lie in the file; overlaps are looked for only
        where the ranges add up to more than the file, which could otherwise be read without end."""
        starts, lengths = at.astype(np.int64), sizes.astype(np.int64)
        out = np.zeros(len(starts), np.bool_)
        if int(lengths.sum()) > self.size:
            order = np.lexsort((lengths == 0, starts))
            ends = np.maximum.accumulate((starts + lengths)[order])
            out[order[1:]] = (starts[order[1:]] < ends[:-1]) & (lengths[order[1:]] > 0)
        return out

    def copy(self, offset: int, size: int, section: str) -> bytes:
        offset, size = int(offset), int(size)
        self.check(offset, size, section)
        self.bytes_viewed += size
        return bytes(self._buffer[offset : offset + size])

    def text(self, offset: int, section: str) -> str:
        """Return the NUL-terminated UTF-8 string at `offset`; broken bytes are kept as escapes."""
        offset = int(offset)
        self.check(offset, 1, section)
        end = self._buffer.find(b"\0", offset, offset + LONGEST_STRING)
        if end < 0:
            found = f"no NUL in {min(LONGEST_STRING, self.size - offset)} bytes"
            raise CorruptFile(self.path, section, offset=offset, expected="a string that ends with NUL", found=found)
        self.bytes_viewed += end + 1 - offset
        return bytes(self._buffer[offset:end]).decode("utf-8", "backslashreplace")

    def tail(self, size: int) -> bytes:
        """Return the last `size` bytes, or all of a shorter file."""
        return bytes(self._buffer[max(0, self.size - size) :])

    def forget(self) -> None:
        """Give mapped pages back to the system's cache, from which they are mapped again when they are looked at: they
        would count as memory of this process."""
        if isinstance(self._buffer, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            self._buffer.madvise(mmap.MADV_DONTNEED)

    @property
    def is_mapped(self) -> bool:
        """Does it hold the file open? What was read at once is in memory, whatever becomes of the file."""
        return isinstance(self._buffer, mmap.mmap)

    @property
    def buffer(self) -> Buffer:
        """The whole file, for parsers that unpack by themselves. Check before you read."""
        return self._buffer


class ReadableBytes(FileBytes):
    """Checked views into one mapped file, of which ranges can also be read into memory of the caller's: where that is
    used again and again, it takes much less time than to map each page for the first time."""

    def __init__(self, path: Path) -> None:
        try:
            self._file, _ = open_number(path)
            weakref.finalize(self, os.close, self._file).atexit = False
            self._view(path, _map(self._file))
        except (OSError, ValueError) as error:
            raise cannot_be_read(path, error) from error

    @property
    def can_read(self) -> bool:
        """Return whether this system reads into memory at any place of a file."""
        return hasattr(os, "preadv")

    def read_into(self, memory: npt.NDArray[np.uint8], offset: int) -> bool:
        """Fill memory with the bytes at `offset`, and return whether there were as many: a file may become shorter."""
        self.bytes_viewed += len(memory)
        return os.preadv(self._file, [memory.data], offset) == len(memory)


def open_regular(path: Path, buffering: int = -1) -> io.BufferedReader:
    """Return a file of an input, open for reading; raise an OSError where it is not a regular file. A pipe would be
    waited for without an end, and a device may never end."""
    return cast(io.BufferedReader, os.fdopen(open_number(path)[0], "rb", buffering))


def open_number(path: Path) -> tuple[int, int]:
    """Return the number of a regular file that was opened, which is the caller's to close, and its size."""
    file, about = _open_number(path)
    return file, about.st_size


def _open_number(path: Path) -> tuple[int, os.stat_result]:
    file = os.open(path, OPENING)
    try:
        about = os.fstat(file)
        if not stat.S_ISREG(about.st_mode):
            reason = "Is a directory" if stat.S_ISDIR(about.st_mode) else "not a regular file"
            raise OSError(errno.EINVAL, reason, str(path))
    except BaseException:
        os.close(file)
        raise
    return file, about


def read_into(path: Path, room: memoryview) -> tuple[int, os.stat_result]:
    """Read a regular file into memory that the caller has, as far as it goes; return how many bytes there were, and
    what the system says of the file. Of thousands of small files, nothing is made for each."""
    file, about = _open_number(path)
    try:
        n_read = 0
        while n_read < len(room) and (n := _read_piece(file, room[n_read:])):
            n_read += n
        return n_read, about
    finally:
        os.close(file)


def _read_piece(file: int, room: memoryview) -> int:
    if hasattr(os, "readv"):
        return os.readv(file, [room])
    piece = os.read(file, len(room))  # not on this system
    room[: len(piece)] = piece
    return len(piece)


def _open(path: Path) -> Buffer:
    try:
        file, size = open_number(path)
        try:
            return os.read(file, size) if size <= SMALL else _map(file)
        finally:
            os.close(file)
    except (OSError, ValueError) as error:
        raise cannot_be_read(path, error) from error


def cannot_be_read(path: Path, error: OSError | ValueError) -> InputError:
    """Return the error of an input that the system does not let us read."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return InputError(f"{path}: cannot be read: {reason}")


def _map(file: int) -> mmap.mmap:
    return mmap.mmap(file, 0, access=mmap.ACCESS_READ)


# -- parts of files ----------------------------------------------------------------------------------------------------
# A part that another process wrote gets into another file without passing through this process.
#
# FilePart(path, offset, size)     in the order in which it was written
# part.append_to(file)             by the kernel where it can, else piece by piece


PIECE = 1 << 20


@dataclass(frozen=True)
class FilePart:
    """Bytes of a file."""

    path: str
    offset: int
    size: int

    def array(self, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return what it holds as items of a type."""
        kind = np.dtype(dtype)
        values = np.fromfile(self.path, kind, self.size // kind.itemsize, offset=self.offset)
        if values.nbytes != self.size:
            raise self._cut(values.nbytes)
        return values

    def append_to(self, target: BinaryIO) -> None:
        """Copy it to where a file that is open for writing stands. It may be a part of that very file, further on."""
        target.flush()
        start = target.tell()
        if start == self.offset and self._is_in(target):
            target.seek(self.size, os.SEEK_CUR)
            return
        with Path(self.path).open("rb", buffering=0) as source:
            done = self._by_kernel(source.fileno(), target.fileno(), start)
            target.seek(start + done)
            source.seek(self.offset + done)
            while done < self.size:
                piece = source.read(min(PIECE, self.size - done))
                if not piece:
                    raise self._cut(done)
                target.write(piece)
                done += len(piece)

    def _is_in(self, target: BinaryIO) -> bool:
        return os.path.samestat(os.stat(self.path), os.fstat(target.fileno()))  # noqa: PTH116 - one for each profile

    def _by_kernel(self, source: int, target: int, start: int) -> int:
        """Return how much the kernel copied: nothing between some file systems, on some systems, or onto the part
        itself."""
        done = 0
        try:
            while done < self.size:
                n = os.copy_file_range(source, target, self.size - done, self.offset + done, start + done)
                if n == 0:
                    break
                done += n
        except (AttributeError, OSError):  # not here; a disk that is full says so again when we write ourselves
            return done
        return done

    def _cut(self, n_bytes: int) -> CorruptFile:
        return CorruptFile(
            Path(self.path), "part", offset=self.offset, expected=f"{self.size} bytes", found=f"{n_bytes} bytes"
        )


# -- sparse ids to dense ones ------------------------------------------------------------------------------------------
# Ids of a file need not be small.


Ints = npt.NDArray[np.int64]


class IdMap:
    """`map[ids]` gives the dense number of each id, -1 where the id is not known.

    Ids that are nearly dense use one table; ids with wide gaps (damaged files) use a binary search, so that one
    absurd id cannot ask for gigabytes. Unsigned ids from 2^63 on are known by the negative number of the same bits.
    """

    def __init__(self, ids: npt.NDArray[np.integer], dense: npt.NDArray[np.integer] | None = None) -> None:
        keys = np.asarray(ids).astype(np.int64)
        values = np.arange(len(keys), dtype=np.int32) if dense is None else np.asarray(dense, np.int32)
        order = np.argsort(keys, kind="stable")
        self._keys = keys[order]
        self._values = values[order]
        top = int(self._keys[-1]) if len(keys) else -1
        self._table: npt.NDArray[np.int32] | None = None
        if len(keys) and self._keys[0] >= 0 and top <= 16 * len(keys) + 1024:
            self._table = np.full(top + 1, -1, np.int32)
            self._table[self._keys[::-1]] = self._values[::-1]  # the first of equal ids wins

    def __len__(self) -> int:
        return len(self._keys)

    def __getitem__(self, ids: npt.NDArray[np.integer]) -> npt.NDArray[np.int32]:
        if ids.dtype == np.uint64:
            ids = ids.astype(np.int64)  # a search with mixed signs would compare doubles
        if self._table is not None:
            if not len(ids) or (int(ids.max()) < len(self._table) and int(ids.min()) >= 0):
                dense: npt.NDArray[np.int32] = self._table.take(ids)
                return dense
            inside = (ids >= 0) & (ids < len(self._table))
            return np.where(inside, self._table[np.where(inside, ids, 0)], -1).astype(np.int32)
        if not len(self._keys):
            return np.full(len(ids), -1, np.int32)
        at = np.minimum(np.searchsorted(self._keys, ids), len(self._keys) - 1)
        return np.where(self._keys[at] == ids, self._values[at], -1).astype(np.int32)

    def one(self, id_: int) -> int:
        """Return the dense number of one id, or -1."""
        return int(self[np.array([id_ & 0xFFFF_FFFF_FFFF_FFFF], np.uint64)][0])


# -- what a user points at ---------------------------------------------------------------------------------------------


HEAD_BUDGET = 64 * 1024  # bytes that detection may look at, in all
NAMES_LOOKED_AT = 256  # of those in a folder
T = TypeVar("T")
LEAST_HEAD = 32  # bytes that are read of a file at least: marks are shorter, and every format that asks has its own


@dataclass
class Source:
    """A path and what detection has looked at. Formats ask it for heads of files, never for names alone.

    `more` are the other members of a set: only formats that open many files as one experiment are asked about those.
    """

    path: Path
    more: tuple[Path, ...] = ()
    kept: dict[Hashable, Any] = field(default_factory=dict, repr=False)  # see `keep`; several sources may share it
    _heads: dict[Path, bytes] = field(default_factory=dict, repr=False)
    _asked: dict[Path, int] = field(default_factory=dict, repr=False)  # bytes of each head that were asked for

    @classmethod
    def of(cls, path: str | Path, kept: dict[Hashable, Any] | None = None) -> Source:
        """Return the source at `path`; a missing one is an error here and nowhere later."""
        return cls(_existing(path), (), {} if kept is None else kept)

    @classmethod
    def of_all(cls, paths: Sequence[str | Path]) -> Source:
        """Return the source that several paths make together."""
        first, *more = map(_existing, paths)
        return cls(first, tuple(more))

    @property
    def paths(self) -> tuple[Path, ...]:
        return (self.path, *self.more)

    @property
    def name(self) -> str:
        """What it is called, also where it was named by its place alone, as `.` or `..`."""
        last = self.path.name
        return last if last not in ("", "..") else self.path.resolve().name or str(self.path)

    def inside(self, path: Path) -> Source:
        """Return a source in this one, whose heads count as those of this one."""
        return Source(path, (), self.kept, self._heads, self._asked)

    def keep(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what is kept under a key, and make it where nothing is: several formats look at one source, and who
        has recognised it reads it."""
        if key not in self.kept:
            self.kept[key] = make()
        kept: T = self.kept[key]
        return kept

    @cached_property
    def is_folder(self) -> bool:
        """Every format asks."""
        return self.path.is_dir()

    @property
    def folder(self) -> Path:
        """The folder itself, or the one that a file lies in."""
        return self.path if self.is_folder else self.path.parent

    @cached_property
    def listing(self) -> Mapping[str, bool] | None:
        """Some names in the folder, and which of them are files; read once, as asking a parallel file system for one
        file after the other takes long. None where there is no folder, or none that we may look into."""
        try:
            with os.scandir(self.path) as entries:
                return {entry.name: entry.is_file() for entry in islice(entries, NAMES_LOOKED_AT)}
        except OSError:  # formats will say what is wrong
            return None

    def has(self, name: str) -> bool:
        """Return whether a file of that name is in the folder, as far as we may know."""
        if not self.is_folder:
            return False
        listing = self.listing
        if listing is not None and "/" not in name and (name in listing or len(listing) < NAMES_LOOKED_AT):
            return listing.get(name, False)
        return os.path.isfile(self.path / name)  # noqa: PTH113 - Path asks with errors

    def head(self, size: int, name: str = "") -> bytes:
        """Return the first bytes of the file, or of the folder's file `name`; empty where there is none."""
        path = self.path / name if name else self.path
        wanted = min(max(size, LEAST_HEAD), HEAD_BUDGET)
        if self._asked.get(path, -1) >= wanted:  # a shorter file has no more
            return self._heads[path][:size]
        spent = sum(len(head) for other, head in self._heads.items() if other != path)
        known = self._heads.setdefault(path, b"")
        self._asked[path] = wanted
        if path == self.path and self.is_folder:
            return b""
        with suppress(OSError), open_regular(path, 0) as file:  # what may not be read has no head: no format claims it
            file.seek(len(known))
            self._heads[path] = known + file.read(max(0, min(wanted, HEAD_BUDGET - spent) - len(known)))
        return self._heads[path][:size]

    def bytes(self, name: str = "") -> FileBytes:
        """Return the file, or the folder's file `name`, mapped."""
        return FileBytes(self.path / name if name else self.path)


def _set_aside(path: Path) -> str:
    """Return a hint where a program was killed while it replaced what is missing now (formats/writing/targets.py)."""
    with suppress(OSError, ValueError):
        for place in sorted(path.parent.glob(f".{glob.escape(path.name)}.*.old")):
            return f"; a program was killed while it replaced it, and what was there before is {place}"
    return ""


def _existing(path: str | Path) -> Path:
    if not str(path):  # as of a shell variable that nobody set; it would mean the current folder
        raise UsageError("the name of an input is empty; name a file or folder")
    where = Path(path)
    try:
        mode = where.stat().st_mode
        if stat.S_ISDIR(mode):
            os.scandir(where).close()  # may we look into it?
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise InputError(f"{where}: {getattr(error, 'strerror', None) or error}{_set_aside(where)}") from error
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):  # a pipe would be waited for, a device may never end
        raise InputError(f"{where}: is a device, a pipe or the like; save what comes out of it, and open that file")
    return where


def size_of(path: Path) -> int:
    """Return the size of a file in bytes; 0 if it is gone."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def walk_folder(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Yield all that lies in a folder and in those below; links are not followed."""
    pending = [str(folder)]
    while pending:
        try:
            entries = sorted(os.scandir(pending.pop()), key=lambda entry: entry.name)
        except OSError:  # whoever reads it says why
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                pending.append(entry.path)
            yield entry
