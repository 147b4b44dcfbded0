"""Raw values in an `.extra-p` archive: chunks of .npy arrays, addressed by (chunk, number).

    values/N.vals   16 bytes `Extra-P VALUES\\0\\0`, then .npy arrays, one after the other
    values/N.indx   16 bytes `Extra-P INDEX\\0\\0\\0`, u64 count, count x u64 offsets into N.vals

Specification: extrap.md section 10.1. Nothing is unpickled: arrays of objects are refused, and the size that a header
announces is compared with what follows it.

Deviation that a real writer shows: Extra-P gives the array that fills a chunk the number of the next chunk, so a number
past the end means the last array of the chunk before.
"""

from __future__ import annotations

import io
import math
import re
import struct
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile, ZipInfo

import numpy as np
import numpy.typing as npt

from callgrove.errors import CallgroveError
from callgrove.formats.extrap.archive import read_member

__all__ = ["ValueReader", "ValueWriter"]

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
        """An array, or None where it cannot be had."""
        found = self._chunk(chunk)
        if found is not None and number < len(found[1]):
            return self._array(found[0], found[1][number])
        before = self._chunk(chunk - 1) if chunk > 0 and (found is None or number >= len(found[1])) else None
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
    """The .npy array at an offset, as numbers of double precision."""
    if not 0 <= offset < len(data):
        raise ValueError(f"its offset {offset} lies outside of {len(data)} bytes")
    found = NPY.match(data, offset, offset + LONGEST_HEADER)
    if found is None:
        raise ValueError(f"byte {offset} is not the start of numbers in the .npy format")
    shape = [int(extent) for extent in found["shape"].split(b",") if extent.strip()]
    dtype, count = np.dtype(found["type"].decode()), math.prod(shape)
    start = found.end()
    if count * dtype.itemsize > len(data) - start:
        raise ValueError(f"it announces {count} numbers, and {len(data) - start} bytes are left")
    numbers = np.frombuffer(data, dtype, count, start)
    return numbers.reshape(shape, order="F" if found["fortran"] == b"True" else "C").astype(np.float64)


class ValueWriter:
    """Writes arrays into an archive, chunk after chunk."""

    def __init__(self, archive: ZipFile, chunk_size: int = CHUNK) -> None:
        self._archive, self._chunk_size = archive, chunk_size
        self._chunk, self._offsets = 0, list[int]()
        self._data = io.BytesIO()

    def add(self, array: Array) -> tuple[int, int]:
        """The chunk and number of an array."""
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
