"""Which bytes of which file were asked for: every access of FileBytes is checked, and so can be noted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from callgrove.arrays import Bools, Ints
from callgrove.binary.files import CheckedFile

__all__ = ["Touched", "watched"]


@dataclass
class Touched:
    """Ranges [start, end) per file name, as they were asked for."""

    ranges: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def add(self, path: Path, start: int, size: int) -> None:
        if size > 0:
            self.ranges.setdefault(path.name, []).append((start, start + size))

    def merged(self, name: str) -> tuple[Ints, Ints]:
        """Starts and ends for one file, ascending and disjoint."""
        merged: list[list[int]] = []
        for start, end in sorted(self.ranges.get(name, [])):
            if merged and start <= merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], end)
            else:
                merged.append([start, end])
        table = np.array(merged, np.int64).reshape(-1, 2)
        return table[:, 0], table[:, 1]

    def n_bytes(self, name: str) -> int:
        """Bytes of one file, each counted once."""
        start, end = self.merged(name)
        return int((end - start).sum())

    def meets(self, name: str, start: Ints, end: Ints) -> Bools:
        """For each of these ranges: was any byte of it asked for?"""
        first, last = self.merged(name)
        at = np.searchsorted(last, start, side="right")  # the first that ends behind the range's start
        begins = np.append(first, np.iinfo(np.int64).max)[at]
        met: Bools = (begins < end) & (start < end)
        return met


@contextmanager
def watched() -> Iterator[Touched]:
    """What is asked of any file meanwhile."""
    touched = Touched()
    check = CheckedFile.check

    def noting(self: CheckedFile, offset: int, size: int, section: str) -> None:
        check(self, offset, size, section)
        touched.add(self.path, int(offset), int(size))

    CheckedFile.check = noting  # type: ignore[method-assign]
    try:
        yield touched
    finally:
        CheckedFile.check = check  # type: ignore[method-assign]
