"""Regions in the making: each is kept once, and numbered as it comes.

Most regions are said one by one. Addresses without a name are different: there may be a million of them, known by
module and offset alone. Those of a module that come together are kept as columns, with no Python object for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from callgrove.model.arrays import ABSENT, Array, Ids, Offsets

__all__ = ["COLUMNS", "RegionTable"]

COLUMNS = ("kind", "name", "file", "line", "end_line", "module", "offset", "role", "paradigm")
KIND, MODULE, OFFSET = (COLUMNS.index(name) for name in ("kind", "module", "offset"))
Key = tuple[int, ...]  # a value for each column, and a number for the mangled name


@dataclass(frozen=True)
class _Addresses:
    """Addresses with consecutive numbers."""

    kind: int
    first: int
    module: Ids
    offset: Offsets


class RegionTable:
    """What was said so far."""

    def __init__(self) -> None:
        self._single: dict[Key, int] = {}
        self._blocks: list[_Addresses] = []
        self._known: dict[tuple[int, int], tuple[Offsets, Ids]] = {}  # by kind and module: offsets, sorted, and numbers
        self._said: set[tuple[int, int]] = set()  # kinds and modules of addresses that came one by one
        self._n = 0

    def __len__(self) -> int:
        return self._n

    def number(self, key: Key) -> int:
        """The number of a region."""
        if key == _bare(key[KIND], key[MODULE], key[OFFSET]):
            return self._address(key)
        return self._one(key)

    def _one(self, key: Key) -> int:
        number = self._single.setdefault(key, self._n)
        self._n += number == self._n
        return number

    def _address(self, key: Key) -> int:
        group = key[KIND], key[MODULE]
        if group in self._known:
            offsets, numbers = self._known[group]
            at = int(np.searchsorted(offsets, np.uint64(key[OFFSET])))
            if at < len(offsets) and int(offsets[at]) == key[OFFSET]:
                return int(numbers[at])
        self._said.add(group)
        return self._one(key)

    def addresses(self, kind: int, module: Ids, offset: Offsets) -> Ids:
        """The numbers of many addresses: the same as one by one."""
        groups = {(kind, one) for one in np.unique(module).tolist()}
        if any(group in self._known or group in self._said for group in groups):
            keys = (_bare(kind, m, at) for m, at in zip(module.tolist(), offset.tolist(), strict=True))
            return np.fromiter((self._address(key) for key in keys), np.int32, len(module))
        order = np.lexsort((offset, module))
        fresh = np.ones(len(order), np.bool_)
        fresh[1:] = (np.diff(module[order]) != 0) | (np.diff(offset[order]) != 0)
        earliest = order[fresh]  # sorting is stable
        numbers = (self._n + np.argsort(np.argsort(earliest))).astype(np.int32)
        modules, offsets = module[earliest], offset[earliest]
        for group in groups:
            part = slice(*np.searchsorted(modules, [group[1], group[1] + 1]).tolist())
            self._known[group] = offsets[part], numbers[part]
        out = np.empty(len(order), np.int32)
        out[order] = numbers[np.cumsum(fresh) - 1]
        kept = np.sort(earliest)
        self._blocks.append(_Addresses(kind, self._n, module[kept], offset[kept]))
        self._n += len(kept)
        return out

    def columns(self) -> Sequence[Array]:
        """All regions, column by column."""
        out = [np.full(self._n, ABSENT, np.int32) for _ in COLUMNS]
        out[OFFSET] = np.zeros(self._n, np.uint64)
        rows = np.fromiter(self._single.values(), np.int64, len(self._single))
        for column, values in zip(out, zip(*self._single, strict=True), strict=False):
            column[rows] = np.array(values, column.dtype)
        for block in self._blocks:
            part = slice(block.first, block.first + len(block.module))
            out[KIND][part], out[MODULE][part], out[OFFSET][part] = block.kind, block.module, block.offset
        return out


def _bare(kind: int, module: int, offset: int) -> Key:
    """The key of an address without a name."""
    return kind, ABSENT, ABSENT, ABSENT, ABSENT, module, offset, ABSENT, ABSENT, ABSENT
