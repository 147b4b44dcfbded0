"""Names for the array types of the model."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["ABSENT", "NO_OFFSET", "Array", "Bools", "Floats", "Ids", "Ints", "Offsets", "frozen"]

ABSENT = -1
NO_OFFSET = np.uint64(2**64 - 1)  # offsets are unsigned: kernel addresses exceed 2**63

Array = npt.NDArray[Any]
Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int32]
Ints = npt.NDArray[np.int64]
Offsets = npt.NDArray[np.uint64]


def frozen(array: Array) -> Array:
    """The same array, read-only: the model is immutable, its arrays too."""
    array.flags.writeable = False
    return array
