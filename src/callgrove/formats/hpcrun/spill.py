"""What a writer was given and cannot place yet, on disk: rows of many profiles in, those of one profile out."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import IO, Any

import numpy as np

from callgrove.model.arrays import Array

__all__ = ["Spill"]


class Spill:
    """Records of one layout in a file without a name, which goes with the process. `mark` tells batches apart."""

    def __init__(self, folder: Path, record: np.dtype[Any]) -> None:
        self._record = record
        self._file: IO[bytes] = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - closed by `close`
        self._batches: dict[int, list[tuple[int, int, str]]] = {}  # profile -> (offset, count, mark)
        self._end = 0

    def add(self, profile: int, records: Array, mark: str = "") -> None:
        self._file.seek(self._end)
        self._file.write(records.tobytes())
        self._batches.setdefault(profile, []).append((self._end, len(records), mark))
        self._end += records.nbytes

    def __contains__(self, profile: int) -> bool:
        return profile in self._batches

    def batches(self, profile: int) -> list[tuple[str, Array]]:
        """(mark, records) of everything that was added for a profile, in that order."""
        found = []
        for offset, count, mark in self._batches.get(profile, []):
            self._file.seek(offset)
            found.append((mark, np.frombuffer(self._file.read(count * self._record.itemsize), self._record)))
        return found

    def close(self) -> None:
        self._file.close()
