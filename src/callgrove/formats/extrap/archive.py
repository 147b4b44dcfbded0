"""The ZIP archive of an `.extra-p` file, read with care, and the raw values in it."""

from __future__ import annotations

import errno
import io
import math
import re
import struct
import zlib
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import numpy as np
import numpy.typing as npt

from callgrove.errors import CallgroveError, CorruptFile, InputError, RefusedInput

__all__ = ["MEMBER", "ZIP_TROUBLE", "ValueReader", "ValueWriter", "open_archive", "read_member"]


MEMBER = "experiment.json"
LARGEST = 4 << 30
UNSUSPICIOUS = 64 << 20  # bytes that may be inflated whatever their size in the file
MOST_INFLATION = 250  # beyond that; JSON of measurements shrinks to a tenth or so
ZIP_TROUBLE = (BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, struct.error, ValueError, OSError)


def open_archive(path: Path) -> ZipFile:
    """Return the archive, or an error that says what is wrong with it."""
    try:
        return ZipFile(path)
    except FileNotFoundError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    except ZIP_TROUBLE as error:
        raise CorruptFile(
            path, "ZIP archive", expected="its table of contents", found=_reason(error), remedy=CUT
        ) from error


CUT = "the file is truncated or damaged"


def read_member(archive: ZipFile, name: str, path: Path) -> bytes:
    """Return a member in full; what is not there, too large or damaged is an error that names it."""
    try:
        info = archive.getinfo(name)
    except KeyError:
        there = ", ".join(archive.namelist()[:6]) or "nothing"
        raise CorruptFile(path, "ZIP archive", expected=f"the member {name}", found=there) from None
    _refuse_bombs(info, path)
    try:
        return archive.read(info)
    except ZIP_TROUBLE as error:
        raise CorruptFile(path, name, expected="an intact member", found=_reason(error), remedy=CUT) from error


def _reason(error: Exception) -> str:
    """Return what is wrong, in words for a reader. Offsets before the file are an invalid argument to the system."""
    if isinstance(error, OSError) and error.errno != errno.EINVAL:
        return error.strerror or "none"
    return "none" if isinstance(error, OSError | struct.error) or not str(error) else str(error)


def _refuse_bombs(info: ZipInfo, path: Path) -> None:
    size, packed = info.file_size, max(1, info.compress_size)
    if size > LARGEST:
        raise RefusedInput(f"{path}: {info.filename} says it has {size:,} bytes; more than {LARGEST:,} are not read")
    if size > UNSUSPICIOUS and size > MOST_INFLATION * packed:
        raise RefusedInput(f"{path}: {info.filename} says that {packed:,} bytes inflate to {size:,}; this is not read")


# -- raw values --------------------------------------------------------------------------------------------------------
# They are chunks of .npy arrays, addressed by (chunk, number):
#
#     values/N.vals   16 bytes `Extra-P VALUES\0\0`, then .npy arrays, one after the other
#     values/N.indx   16 bytes `Extra-P INDEX\0\0\0`, u64 count, count x u64 offsets into N.vals
#
# Specification: extrap.md section 10.1. Nothing is unpickled: arrays of objects are refused, and the size that a header
# announces is compared with what follows it.
#
# Deviation that a real writer shows: Extra-P gives the array that fills a chunk the number of the next chunk, so a
# number past the end means the last array of the chunk before.


VALUES_MAGIC = b"Extra-P VALUES\0\0"
INDEX_MAGIC = b"Extra-P INDEX\0\0\0"
CHUNK = 1 << 30  # bytes, after which a new chunk begins
LONGEST_HEADER = 1024  # bytes; NumPy writes 128
# As NumPy writes it: magic, version, size, then a dictionary whose keys are sorted, and spaces.
NPY = re.compile(
    rb"\x93NUMPY(?:\x01\x00..|[\x02\x03]\x00....)"
    rb"\{'descr': '(?P<type>[<>|=]?(?:b1|[iu][1248]|f[248]))', 'fortran_order': (?P<fortran>True|False), "
    rb"'shape': \((?P<shape>(?:\d{1,18}(?:, ?|(?=\))))*)\), \} *\n",
    re.DOTALL,
)

Array = npt.NDArray[Any]


class ValueReader:
    """The raw values of an archive. `problems` says what could not be read, once for each reason."""

    def __init__(self, archive: ZipFile, path: Path) -> None:
        self._archive, self._path = archive, path
        self._members = set(archive.namelist())
        self._chunks: dict[int, tuple[bytes, list[int]] | None] = {}
        self.problems: dict[str, int] = {}

    def read(self, chunk: int, number: int) -> Array | None:
        """Return an array, or None where it cannot be had."""
        arrays = self._chunk(chunk)
        if arrays is not None and number < len(arrays[1]):
            return self._array(arrays[0], arrays[1][number])
        before = self._chunk(chunk - 1) if chunk > 0 and (arrays is None or number >= len(arrays[1])) else None
        if before is not None and number == len(before[1]) - 1:
            self._complain("some are numbered with the next chunk, as Extra-P does for the last array of a chunk")
            return self._array(before[0], before[1][number])
        self._complain(f"chunk {chunk} has no array {number}")
        return None

    def _chunk(self, chunk: int) -> tuple[bytes, list[int]] | None:
        if chunk not in self._chunks:
            self._chunks.clear()  # one at a time: a chunk may have a gigabyte
            self._chunks[chunk] = self._load(chunk)
        return self._chunks[chunk]

    def _load(self, chunk: int) -> tuple[bytes, list[int]] | None:
        if f"values/{chunk}.indx" not in self._members:
            return None
        try:
            index = read_member(self._archive, f"values/{chunk}.indx", self._path)
            values = read_member(self._archive, f"values/{chunk}.vals", self._path)
        except CallgroveError as error:
            self._complain(str(error))
            return None
        if not index.startswith(INDEX_MAGIC) or not values.startswith(VALUES_MAGIC) or len(index) < 24:
            self._complain(f"values/{chunk} does not begin as such files do")
            return None
        count = min(struct.unpack_from("<Q", index, 16)[0], (len(index) - 24) // 8)
        return values, list(struct.unpack_from(f"<{count}Q", index, 24))

    def _array(self, values: bytes, offset: int) -> Array | None:
        try:
            return _npy(values, offset)
        except ValueError as error:
            self._complain(f"an array is damaged: {error}")
            return None

    def _complain(self, text: str) -> None:
        self.problems[text] = self.problems.get(text, 0) + 1


def _npy(data: bytes, offset: int) -> Array:
    """Return the .npy array at an offset, as numbers of double precision."""
    if not 0 <= offset < len(data):
        raise ValueError(f"its offset {offset} lies outside of {len(data)} bytes")
    match = NPY.match(data, offset, offset + LONGEST_HEADER)
    if match is None:
        raise ValueError(f"byte {offset} is not the start of numbers in the .npy format")
    shape = [int(extent) for extent in match["shape"].split(b",") if extent.strip()]
    dtype, count = np.dtype(match["type"].decode()), math.prod(shape)
    start = match.end()
    if count * dtype.itemsize > len(data) - start:
        raise ValueError(f"it announces {count} numbers, and {len(data) - start} bytes are left")
    numbers = np.frombuffer(data, dtype, count, start)
    return numbers.reshape(shape, order="F" if match["fortran"] == b"True" else "C").astype(np.float64)


class ValueWriter:
    """Writes arrays into an archive, chunk after chunk."""

    def __init__(self, archive: ZipFile, chunk_size: int = CHUNK) -> None:
        self._archive, self._chunk_size = archive, chunk_size
        self._chunk, self._offsets = 0, list[int]()
        self._data = io.BytesIO()

    def add(self, array: Array) -> tuple[int, int]:
        """Return the chunk and number of an array."""
        if not self._offsets:
            self._data = io.BytesIO()
            self._data.write(VALUES_MAGIC)
        address = self._chunk, len(self._offsets)
        self._offsets.append(self._data.tell())
        np.lib.format.write_array(self._data, array, (1, 0), allow_pickle=False)
        if self._data.tell() >= self._chunk_size:
            self.flush()
        return address

    def flush(self) -> None:
        """Write what was collected; the next array begins another chunk."""
        if not self._offsets:
            return
        index = INDEX_MAGIC + struct.pack(f"<{len(self._offsets) + 1}Q", len(self._offsets), *self._offsets)
        for name, data in (("vals", self._data.getbuffer()), ("indx", index)):
            info = ZipInfo(f"values/{self._chunk}.{name}")
            info.compress_type = ZIP_STORED  # arrays are read at any place
            self._archive.writestr(info, bytes(data))
        self._chunk, self._offsets = self._chunk + 1, []
