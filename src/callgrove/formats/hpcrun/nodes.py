"""The nodes of a calling context tree as arrays, and the checks that make them a tree.

position   0   1   2   3         row of the file
id        12  18  20  22         the file's own, any number but 0, each once
parent     0  12  18  18         id of the parent, 0 for a root
above     -1   0   1   1         position of the parent, which comes first
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from callgrove.errors import CorruptFile
from callgrove.formats.hpcrun import records as rec
from callgrove.model.arrays import Array, Bools, Ids, Offsets

__all__ = ["Nodes", "Positions", "nodes_of"]

Numbers = npt.NDArray[np.uint32]


class Positions:
    """From node ids to positions, -1 where there is none. Nearly dense ids use one table, others a search."""

    def __init__(self, ids: Numbers) -> None:
        self.duplicate = -1  # position of a node whose id another one has
        top = int(ids.max()) if len(ids) else 0
        rows = np.arange(len(ids), dtype=np.int32)
        self._table: Ids | None = None
        if top <= 16 * len(ids) + 1024:
            self._table = np.full(top + 1, -1, np.int32)
            self._table[ids] = rows
            again = np.flatnonzero(self._table[ids] != rows)
            self.duplicate = int(again[0]) if len(again) else -1
        else:
            self._order = np.argsort(ids, kind="stable").astype(np.int32)
            self._keys = ids[self._order]
            again = np.flatnonzero(self._keys[1:] == self._keys[:-1])
            self.duplicate = int(self._order[again[0] + 1]) if len(again) else -1

    def __getitem__(self, ids: Array) -> Ids:
        if self._table is not None:
            last = len(self._table) - 1
            if not len(ids) or int(ids.max()) <= last:
                inside: Ids = self._table.take(ids)  # twice as fast as [ids]
                return inside
            return np.where(ids <= last, self._table[np.minimum(ids, last)], np.int32(-1))
        at = np.minimum(np.searchsorted(self._keys, ids), len(self._keys) - 1)
        return np.where(self._keys[at] == ids, self._order[at], np.int32(-1))


@dataclass(frozen=True)
class Nodes:
    """A tree, parents first, in the order of the file and in native byte order.

    `is_leaf` is the sign of ids in 02.00, `flags` are those of 04.00; `association` and `lip` belong to logical
    unwinding. What a file does not have is None.
    """

    id: Numbers
    parent: Numbers
    lm: npt.NDArray[np.uint16]
    ip: Offsets
    above: Ids
    positions: Positions
    is_leaf: Bools | None = None
    flags: npt.NDArray[np.uint8] | None = None
    association: Numbers | None = None
    lip: npt.NDArray[np.uint8] | None = None

    def __len__(self) -> int:
        return len(self.id)

    @property
    def has_children(self) -> Bools:
        found = np.zeros(len(self), np.bool_)
        found[self.above[self.above >= 0]] = True
        return found

    def pack_04(self) -> bytes:
        """As 04.00 stores them, with flags or, in files of 2021 and 2022, without."""
        out = np.empty(len(self), rec.NODE_04_EARLY if self.flags is None else rec.NODE_04)
        for name in ("id", "parent", "lm", "ip"):
            out[name] = getattr(self, name)
        if self.flags is not None:
            out["flags"] = self.flags
        return out.tobytes()

    def pack_02(self, values: Offsets) -> bytes:
        """As 02.00 stores them; `values` are (nodes x metrics) of eight bytes each."""
        out = np.empty(len(self), rec.node_02(self.lip is not None, values.shape[1]))
        id_ = self.id.astype(np.int64)
        out["id"] = id_ if self.is_leaf is None else np.where(self.is_leaf, -id_, id_)
        for name in ("parent", "lm", "ip"):
            out[name] = getattr(self, name)
        if self.lip is not None:
            out["association"], out["lip"] = self.association, self.lip
        out["values"] = values
        return out.tobytes()


def nodes_of(table: Array, path: Path, offset: int, section: str = "cct") -> Nodes:
    """The nodes in a table of the file, which lies at `offset`; an error where they are no tree."""
    names = table.dtype.names or ()
    stored = table["id"]
    is_leaf = stored < 0 if stored.dtype.kind == "i" else None
    id_ = (stored if is_leaf is None else np.abs(stored.astype(np.int64))).astype(np.uint32)
    parent = table["parent"].astype(np.uint32)
    positions = Positions(id_)
    above = positions[parent]
    _refuse(_first_wrong(id_, parent, above, positions), table, path, offset, section)
    return Nodes(
        id_,
        parent,
        table["lm"].astype(np.uint16),
        table["ip"].astype(np.uint64),
        above,
        positions,
        is_leaf,
        table["flags"].copy() if "flags" in names else None,
        table["association"].astype(np.uint32) if "association" in names else None,
        table["lip"].copy() if "lip" in names else None,
    )


def _first_wrong(id_: Numbers, parent: Numbers, above: Ids, positions: Positions) -> tuple[int, str, str] | None:
    """(position, expected, found) of the first node that has no place in a tree."""
    if len(id_) and not id_.all():
        return int(np.flatnonzero(id_ == 0)[0]), "a node id other than 0", "0"
    if (row := positions.duplicate) >= 0:
        return row, "node ids that occur once", f"id {id_[row]} again"
    if len(wrong := np.flatnonzero((above < 0) & (parent != 0))):
        row = int(wrong[0])
        return row, "the id of a node as parent", f"{parent[row]} (of node {id_[row]}), which no node has"
    if len(wrong := np.flatnonzero(above >= np.arange(len(id_)))):
        row = int(wrong[0])
        what = "itself" if above[row] == row else f"{parent[row]}, which comes later"
        return row, f"a parent before node {id_[row]}", what
    return None


def _refuse(wrong: tuple[int, str, str] | None, table: Array, path: Path, offset: int, section: str) -> None:
    if wrong is not None:
        row, expected, found = wrong
        at = offset + row * int(table.dtype.itemsize)
        raise CorruptFile(path, section, offset=at, expected=expected, found=found, remedy="the nodes are no tree")
