"""A part of a file that somebody else wrote, and how it gets into another file without passing through this process.

FilePart(path, offset, size)     in the order in which it was written
part.append_to(file)             by the kernel where it can, else piece by piece
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from callgrove.errors import CorruptFile

__all__ = ["FilePart"]

PIECE = 1 << 20


@dataclass(frozen=True)
class FilePart:
    """Bytes of a file."""

    path: str
    offset: int
    size: int

    def array(self, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """What it holds as items of a type."""
        kind = np.dtype(dtype)
        found = np.fromfile(self.path, kind, self.size // kind.itemsize, offset=self.offset)
        if found.nbytes != self.size:
            raise self._cut(found.nbytes)
        return found

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
        return os.path.samestat(Path(self.path).stat(), os.fstat(target.fileno()))

    def _by_kernel(self, source: int, target: int, start: int) -> int:
        """How much the kernel copied: nothing between some file systems, on some systems, or onto the part itself."""
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

    def _cut(self, found: int) -> CorruptFile:
        return CorruptFile(
            Path(self.path), "part", offset=self.offset, expected=f"{self.size} bytes", found=f"{found} bytes"
        )
