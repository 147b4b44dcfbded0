"""Files that are read piece by piece into memory that is kept, for those who go through thousands of them once.

To map a file takes the system some time, and each of its pages some more when it is looked at first; fresh memory to
read it into takes about as long. Here one piece of memory is used for all files, one after the other.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from callgrove.binary.files import CheckedFile, cannot_be_read, open_number
from callgrove.errors import InputError

__all__ = ["FileReader", "KeptMemory"]


SHORTER = "became shorter while it was read; run again when nothing writes to it any more"


class KeptMemory:
    """Memory that is used again and again: fresh memory takes longer to get than to fill."""

    def __init__(self) -> None:
        self._bytes = memoryview(b"")

    def room(self, size: int) -> memoryview:
        """Return so many bytes, in the same place as all that was given before."""
        if size > len(self._bytes):
            self._bytes = np.empty(size + size // 4, np.uint8).data
        return self._bytes[:size]

    def items(self, dtype: npt.DTypeLike, count: int) -> npt.NDArray[Any]:
        """Return room for so many items."""
        kind = np.dtype(dtype)
        return np.frombuffer(self.room(kind.itemsize * count), kind, count) if count else np.empty(0, kind)


class FileReader(CheckedFile):
    """Checked reads of one file, which is open as long as the context is. An array is good until its memory is used
    again."""

    def __init__(self, path: Path, memory: KeptMemory) -> None:
        self.path, self._memory = path, memory
        try:
            number, self.size = open_number(path)
        except (OSError, ValueError) as error:
            raise cannot_be_read(path, error) from error
        self._file = io.FileIO(number, "rb")

    def __enter__(self) -> FileReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def array(self, dtype: npt.DTypeLike, count: int, offset: int, section: str) -> npt.NDArray[Any]:
        kind, count, offset = np.dtype(dtype), int(count), int(offset)
        self.check(offset, count * kind.itemsize, section)
        self.bytes_viewed += count * kind.itemsize
        rest = self._memory.room(count * kind.itemsize)
        try:
            self._file.seek(offset)
            while len(rest) and (n := self._file.readinto(rest)):
                rest = rest[n:]
        except OSError as error:
            raise cannot_be_read(self.path, error) from error
        if len(rest):
            raise InputError(f"{self.path}: {SHORTER}")
        return self._memory.items(kind, count)
