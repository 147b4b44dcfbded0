"""Records of the released format, filled by column."""

from __future__ import annotations

from typing import Any

import numpy as np

from callgrove.arrays import Array
from callgrove.formats.hpctoolkit.release import files as rec

__all__ = ["WORD", "header", "records"]

WORD = 8  # bytes; what meta.db is aligned to


def header(fmt: str) -> Array:
    """The first 16 bytes of a file."""
    return np.array([(rec.MAGIC, fmt.encode(), 4, 0)], rec.HEADER)


def records(dtype: np.dtype[Any], n_records: int = 1, /, **columns: object) -> Array:
    """`n_records` records; fields that are not named are zero."""
    out = np.zeros(n_records, dtype)
    for name, column in columns.items():
        out[name] = column
    return out
