"""Keys of Nsight exports that hold in one process only: correlations and NVTX domains.

Specification: gpu-traces.md 5.5.
"""

from __future__ import annotations

import numpy as np

from callgrove.formats.gpu.dataset import Names
from callgrove.formats.gpu.nsight_tables import DOMAIN_CREATE, TID_BITS
from callgrove.formats.gpu.sqlite_file import SqliteFile, Type
from callgrove.model.arrays import ABSENT, Ids, Ints

__all__ = ["CallsByCorrelation", "Domains"]


class Domains:
    """The names of NVTX domains; the first one, 0, has none."""

    def __init__(self, file: SqliteFile, names: Names) -> None:
        self._name: dict[tuple[int, int], int] = {}
        columns = dict.fromkeys(("globalTid", "domainId", "eventType"), Type.INTEGER) | {"text": Type.TEXT}
        for cells in file.chunks("NVTX_EVENTS", columns):
            rows = np.flatnonzero(cells["eventType"] == DOMAIN_CREATE)
            keys = zip((cells["globalTid"][rows] >> TID_BITS).tolist(), cells["domainId"][rows].tolist(), strict=True)
            for key, text in zip(keys, cells["text"][rows].tolist(), strict=True):
                self._name.setdefault(key, names(text))

    def at(self, tids: Ints, domains: Ints) -> Ids:
        """The name of the domain of every event, given its thread; -1 where it has none."""
        if not self._name or not len(tids):
            return np.full(len(tids), ABSENT, np.int32)
        keys, number = np.unique(np.stack([tids >> TID_BITS, domains]), axis=1, return_inverse=True)
        found = [self._name.get((process, domain), ABSENT) for process, domain in keys.T.tolist()]
        return np.array(found, np.int32)[number.reshape(-1)]


class CallsByCorrelation:
    """Calls, to be found by process and correlation."""

    def __init__(self, thread: Ints, correlation: Ints) -> None:
        self.thread = thread
        self._order = np.lexsort((correlation, thread >> TID_BITS))
        self._process, self._correlation = (thread >> TID_BITS)[self._order], correlation[self._order]

    def find(self, process: Ints, correlation: Ints) -> Ints:
        """The number of the first such call; -1 where there is none."""
        out = np.full(len(process), ABSENT, np.int64)
        for own in np.unique(process).tolist():
            first, last = np.searchsorted(self._process, own, "left"), np.searchsorted(self._process, own, "right")
            asked = np.flatnonzero(process == own)
            place = first + np.searchsorted(self._correlation[first:last], correlation[asked])
            inside = np.flatnonzero(place < last)
            inside = inside[self._correlation[place[inside]] == correlation[asked[inside]]]
            out[asked[inside]] = self._order[place[inside]]
        return out
