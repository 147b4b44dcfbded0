"""Call chains of Nsight exports: who called an API, and what threads executed when they were sampled.

Specification: gpu-traces.md 5.5.

    CUDA_CALLCHAINS, OSRT_CALLCHAINS     id, symbol, unresolved, stackDepth (0 is the innermost frame)
    RUNTIME.callchainId, OSRT_API.callchainId     -> id, or id - 1: files show both, so each table is looked at
    SAMPLING_CALLCHAINS.id = COMPOSITE_EVENTS.id  (start, globalTid)

Frames without a symbol are left out: a third to a half of them are.
"""

from __future__ import annotations

import re
from functools import cached_property

import numpy as np

from callgrove.formats.gpu.sqlite_file import MISSING, SqliteFile, Type
from callgrove.model.arrays import ABSENT, Ids, Ints, distinct

__all__ = ["CallChains", "Frames", "unversioned"]

Frames = tuple[str, ...]  # the outermost first
INTEGER = Type.INTEGER
VERSIONED = re.compile(r"_v\d+$")
LOOKED_AT = 3  # innermost frames among which the called function should be


class CallChains:
    """The chains of one table."""

    def __init__(self, file: SqliteFile, table: str) -> None:
        rows = file.table(table, dict.fromkeys(("id", "symbol", "unresolved", "stackDepth"), INTEGER))
        self.every: Ints = distinct(rows["id"])
        self.largest = int(rows["id"].max(initial=0))
        kept = np.flatnonzero((rows["unresolved"] != 1) & (rows["symbol"] != MISSING))
        order = kept[np.lexsort((-rows["stackDepth"][kept], rows["id"][kept]))]
        self.ids, first = np.unique(rows["id"][order], return_index=True)
        self.bounds = np.append(first, len(order))
        self.symbol: Ints = rows["symbol"][order]
        self._strings = file.table("StringIds", {"id": INTEGER, "value": Type.TEXT}) if len(order) else {}

    @cached_property
    def _names(self) -> dict[int, str]:
        rows = self._strings
        if not rows:
            return {}
        used = np.isin(rows["id"], self.symbol)
        pairs = zip(rows["id"][used].tolist(), rows["value"][used].tolist(), strict=True)
        return {id_: text for id_, text in pairs if text is not None}

    def frames(self, chain: int) -> Frames:
        """The frames of a chain by its own id; none where there is no such chain."""
        place = int(np.searchsorted(self.ids, chain))
        if place == len(self.ids) or self.ids[place] != chain:
            return ()
        symbols = self.symbol[self.bounds[place] : self.bounds[place + 1]].tolist()
        return tuple(self._names.get(symbol, f"<missing string {symbol}>") for symbol in symbols)

    def symbols_of(self, chains: Ints) -> tuple[Ints, Ints]:
        """The symbols of chains, one chain after the other, and where each begins; an absent one for a chain without
        any."""
        place = np.minimum(np.searchsorted(self.ids, chains), max(len(self.ids) - 1, 0))
        found = self.ids[place] == chains if len(self.ids) else np.zeros(len(chains), np.bool_)
        first = np.where(found, self.bounds[place], 0)
        counts = np.where(found, np.append(np.diff(self.bounds), 1)[place], 1)
        bounds = np.append(0, np.cumsum(counts))
        at = np.arange(bounds[-1]) + np.repeat(first - bounds[:-1], counts)
        known = np.repeat(found, counts)
        symbols = np.where(known, np.append(self.symbol, MISSING)[np.where(known, at, -1)], MISSING)
        return symbols, bounds

    def offset(self, given: Ints, names: Ids, texts: list[str]) -> int:
        """What to add to a call's number to have that of its chain: 0 (and 0 is then no chain) or 1. Where the largest
        numbers do not tell, it is the one with which more chains end in the function that was called."""
        known = given != MISSING
        largest = int(given[known].max(initial=0))
        if largest == self.largest:
            return 0
        if largest + 1 == self.largest:
            return 1
        pairs = np.unique(np.stack([given[known], names[known]]), axis=1).T.tolist() if known.any() else []
        direct, next_ = (
            sum(
                unversioned(texts[name]) in self.frames(chain + more)[-LOOKED_AT:]
                for chain, name in pairs
                if name != ABSENT
            )
            for more in (0, 1)
        )
        return int(next_ > direct)

    def above(self, given: Ints, names: Ids, texts: list[str]) -> tuple[Ints, tuple[Frames, ...]]:
        """The rows of calls that have a chain, and its frames without the called function itself."""
        more = self.offset(given, names, texts)
        rows = np.flatnonzero((given != MISSING) & ((given != 0) | bool(more)))
        keys, number = np.unique(np.stack([given[rows], names[rows]]), axis=1, return_inverse=True)
        stacks = [
            _without(self.frames(chain + more), texts[name] if name >= 0 else "") for chain, name in keys.T.tolist()
        ]
        found = [stacks[k] for k in number.reshape(-1).tolist()]
        kept = np.array([bool(frames) for frames in found], np.bool_)
        return rows[kept], tuple(frames for frames in found if frames)


def unversioned(name: str) -> str:
    """The name of a call without the version of the interface: cudaMalloc_v3020."""
    return VERSIONED.sub("", name)


def _without(frames: Frames, name: str) -> Frames:
    return frames[:-1] if frames and frames[-1] == unversioned(name) else frames
