"""From the ids that a file uses to dense ones, without trusting the ids to be small."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["IdMap"]

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
                found: npt.NDArray[np.int32] = self._table[ids]
                return found
            inside = (ids >= 0) & (ids < len(self._table))
            return np.where(inside, self._table[np.where(inside, ids, 0)], -1).astype(np.int32)
        if not len(self._keys):
            return np.full(len(ids), -1, np.int32)
        at = np.minimum(np.searchsorted(self._keys, ids), len(self._keys) - 1)
        return np.where(self._keys[at] == ids, self._values[at], -1).astype(np.int32)

    def one(self, id_: int) -> int:
        """The dense number of one id, or -1."""
        return int(self[np.array([id_ & 0xFFFF_FFFF_FFFF_FFFF], np.uint64)][0])
