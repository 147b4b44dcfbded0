"""A measurement file in memory: its tables, the nodes of its tree as arrays, and where its values lie.

    measurement   header pairs, identifier tuple, names of identifier kinds
    `-- epoch     metrics, modules, nodes, values; 04.00 has exactly one, 02.00 any number

Reading tables (files.py) leaves the values in the file; `Measurement` with all values gives the same bytes again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from callgrove.arrays import Array, Bools, Ids, Ints, Offsets
from callgrove.binary.files import FileBytes
from callgrove.errors import CorruptFile
from callgrove.formats.hpcrun import primitives as rec
from callgrove.formats.hpcrun.primitives import EpochHeader, Header, MetricDescription, Module
from callgrove.model.profiles import DEFAULT_ID_NAMES, Identifier

__all__ = [
    "DensePlace",
    "DenseValues",
    "Epoch",
    "Measurement",
    "NodeWords",
    "Nodes",
    "Positions",
    "SparsePlace",
    "SparseValues",
    "Stored",
    "nodes_of",
]


# -- nodes as arrays ---------------------------------------------------------------------------------------------------
# They are checked to be a tree.
#
# position   0   1   2   3         row of the file
# id        12  18  20  22         the file's own, any number but 0, each once
# parent     0  12  18  18         id of the parent, 0 for a root
# above     -1   0   1   1         position of the parent, which comes first


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
            again = self._table.take(ids) != rows
            self.duplicate = int(again.argmax()) if again.any() else -1
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

    def give(self, words: Array, missing: int) -> NodeWords:
        """Return what gives, for each node id, the word at its position: a step less for whoever wants many."""
        last = np.array([missing], words.dtype)
        known = np.concatenate((words, last))  # position -1 picks the last
        if self._table is not None:
            return NodeWords(None, np.concatenate((known[self._table], last)))
        return NodeWords(self._keys, np.concatenate((known[self._order], last)))


@dataclass(frozen=True)
class NodeWords:
    """From node ids to words about nodes, the last of which is for ids that there are not: by a table, or by a search
    among `keys`."""

    keys: Numbers | None
    words: Array

    def __getitem__(self, ids: Array) -> Array:
        if self.keys is None:
            is_inside = not len(ids) or int(ids.max()) < len(self.words)  # which takes less time than clipping
            found: Array = self.words.take(ids, mode="raise" if is_inside else "clip")
            return found
        at = np.minimum(np.searchsorted(self.keys, ids), len(self.keys) - 1)
        return np.where(self.keys[at] == ids, self.words[at], self.words[-1])


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
        has_child = np.zeros(len(self), np.bool_)
        has_child[self.above[self.above >= 0]] = True
        return has_child

    def pack_04(self) -> bytes:
        """Return the nodes as 04.00 stores them, with flags or, in files of 2021 and 2022, without."""
        out = np.empty(len(self), rec.NODE_04_EARLY if self.flags is None else rec.NODE_04)
        for name in ("id", "parent", "lm", "ip"):
            out[name] = getattr(self, name)
        if self.flags is not None:
            out["flags"] = self.flags
        return out.tobytes()

    def pack_02(self, values: Offsets) -> bytes:
        """Return the nodes as 02.00 stores them; `values` are (nodes x metrics) of eight bytes each."""
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
    """Return the nodes in a table of the file, which lies at `offset`; an error where they are not a tree."""
    names = table.dtype.names or ()
    stored = table["id"]
    is_leaf = stored < 0 if stored.dtype.kind == "i" else None
    id_ = (stored if is_leaf is None else np.abs(stored.astype(np.int64))).astype(np.uint32)
    parent = table["parent"].astype(np.uint32)
    positions = Positions(id_)
    above = positions[parent]
    _refuse(_find_wrong_node(id_, parent, above, positions), table, path, offset, section)
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


def _find_wrong_node(id_: Numbers, parent: Numbers, above: Ids, positions: Positions) -> tuple[int, str, str] | None:
    """Return (position, expected, found) of the first node that has no place in a tree."""
    rows = np.arange(len(id_), dtype=np.int32)
    is_wrong = (above >= rows) | ((above < 0) & (parent != 0))
    if positions.duplicate < 0 and id_.all() and not is_wrong.any():
        return None
    if len(id_) and not id_.all():
        return int(np.flatnonzero(id_ == 0)[0]), "a node id other than 0", "0"
    if (row := positions.duplicate) >= 0:
        return row, "node ids that occur once", f"id {id_[row]} again"
    if len(wrong := np.flatnonzero((above < 0) & (parent != 0))):
        row = int(wrong[0])
        return row, "the id of a node as parent", f"{parent[row]} (of node {id_[row]}), which no node has"
    if len(wrong := np.flatnonzero(above >= rows)):
        row = int(wrong[0])
        what = "itself" if above[row] == row else f"{parent[row]}, which comes later"
        return row, f"a parent before node {id_[row]}", what
    return None


def _refuse(wrong: tuple[int, str, str] | None, table: Array, path: Path, offset: int, section: str) -> None:
    if wrong is not None:
        row, expected, found = wrong
        at = offset + row * int(table.dtype.itemsize)
        raise CorruptFile(path, section, offset=at, expected=expected, found=found, remedy="the nodes are not a tree")


# -- values and tables -------------------------------------------------------------------------------------------------


class Stored(NamedTuple):
    """Values of one epoch: position of the node, number of the metric, eight raw bytes as a number."""

    node: Ids
    metric: Array
    raw: Offsets


@dataclass(frozen=True)
class SparseValues:
    """Values of 04.00: those of node `node_id[k]` begin at `first[k]`. The end of the index is not kept."""

    raw: Offsets
    metric: npt.NDArray[np.uint16]
    node_id: npt.NDArray[np.uint32]
    first: Offsets

    def list_stored(self, positions: Positions, names: Ids | None = None) -> Stored:
        """Return the values in the order of the file; `names` are numbers for the nodes in place of their positions."""
        counts = np.diff(np.append(self.first.astype(np.int64), len(self.raw)))
        node = positions[self.node_id]
        return Stored(np.repeat(node if names is None else names[node], counts), self.metric, self.raw)

    def part(self, start: int, stop: int) -> SparseValues:
        """Return the values from one to another; a node may have its values in several parts."""
        first = self.first.astype(np.int64)
        node = slice(max(0, int(np.searchsorted(first, start, side="right")) - 1), int(np.searchsorted(first, stop)))
        begins = np.maximum(first[node] - start, 0).astype(np.uint64)
        return SparseValues(self.raw[start:stop].astype(np.uint64), self.metric[start:stop], self.node_id[node], begins)

    def repeats(self, positions: Positions) -> bool:
        """Return whether a node may have two values of one metric."""
        again = self.metric[1:] <= self.metric[:-1]
        again[self.first[1:][(self.first[1:] > 0) & (self.first[1:] < len(self.raw))].astype(np.int64) - 1] = False
        node = positions[self.node_id]
        n_different = int((np.bincount(node) > 0).sum()) if len(node) else 0
        return bool(again.any()) or n_different < len(node)


@dataclass(frozen=True)
class DenseValues:
    """Values of 02.00: one for every node and metric."""

    matrix: Offsets

    def list_stored(self, positions: Positions, names: Ids | None = None) -> Stored:
        """Return the values that are not zero, node after node."""
        node, metric = np.nonzero(self.matrix)
        return Stored(node.astype(np.int32) if names is None else names[node], metric, self.matrix[node, metric])

    def repeats(self, positions: Positions) -> bool:
        """Return False: there is one place for each value."""
        return False


@dataclass(frozen=True)
class SparsePlace:
    """Where the values of 04.00 lie."""

    at: int
    n_values: int
    n_nodes: int

    @property
    def index_at(self) -> int:
        return self.at + self.n_values * rec.VALUE.itemsize

    def read(self, file: FileBytes) -> SparseValues:
        """Return all values, in native byte order."""
        values = self.view(file)
        return replace(values, raw=values.raw.astype(np.uint64))

    def view(self, file: FileBytes) -> SparseValues:
        """Return values that are still those of the file, so that a part of them costs only that part."""
        values = file.array(rec.VALUE, self.n_values, self.at, "sparse metrics")
        index = file.array(rec.INDEX, self.n_nodes + 1, self.index_at, "sparse metrics")
        self.check_index(index, file.path)
        return SparseValues(
            values["value"],
            values["metric"].astype(np.uint16),
            index["node"][:-1].astype(np.uint32),
            index["first"][:-1].astype(np.uint64),
        )

    def check_index(self, index: Array, path: Path) -> None:
        """Check that the index begins at the first value, never falls, and ends with its mark at the last."""
        first = index["first"].astype(np.uint64)
        last = int(index["node"][-1]), int(first[-1])
        end = self.index_at + self.n_nodes * rec.INDEX.itemsize
        if last != (rec.INDEX_END, self.n_values):
            expected, found = (
                f"the end of the index ({rec.INDEX_END:#x}, {self.n_values})",
                f"({last[0]:#x}, {last[1]})",
            )
            raise CorruptFile(path, "sparse metrics", offset=end, expected=expected, found=found)
        falls = first[1:] < first[:-1]
        if falls.any() or first[0] != 0:
            row = int(falls.argmax()) + 1 if falls.any() else 0
            where = self.index_at + row * rec.INDEX.itemsize
            expected = f"numbers of values that rise from 0 to {self.n_values}"
            raise CorruptFile(path, "sparse metrics", offset=where, expected=expected, found=str(first[row]))


@dataclass(frozen=True)
class DensePlace:
    """Where the nodes of 02.00, and their values with them, lie."""

    at: int
    n_nodes: int
    record: np.dtype[Any]

    def read(self, file: FileBytes) -> DenseValues:
        table = file.array(self.record, self.n_nodes, self.at, "cct")
        return DenseValues(table["values"].astype(np.uint64).reshape(self.n_nodes, -1))


@dataclass(frozen=True)
class Epoch:
    """One tree with its metrics and modules. `header` is None in 04.00; `values` is None where they were not read."""

    header: EpochHeader | None
    metrics: tuple[MetricDescription, ...]
    modules: tuple[Module, ...]
    nodes: Nodes
    values: SparseValues | DenseValues | None
    place: SparsePlace | DensePlace


@dataclass(frozen=True)
class Measurement:
    """One file. `dialect` is `A` or `B` in 02.00 and empty in 04.00; `sections` are (name, start, end) of 04.00."""

    header: Header
    dialect: str
    epochs: tuple[Epoch, ...]
    identifiers: tuple[Identifier, ...] = ()
    id_kinds: tuple[tuple[int, str], ...] = ()
    sections: tuple[tuple[str, int, int], ...] = ()

    @property
    def version(self) -> str:
        return self.header.version

    @property
    def is_old(self) -> bool:
        """02.00 and 03.00: epochs, return addresses, times in microseconds."""
        return self.version < "04"

    def value(self, name: str) -> str:
        """Return what a pair of the header says."""
        return self.header.value(name)

    def with_values(self, file: FileBytes) -> Measurement:
        """Return this measurement with its values in memory."""
        epochs = tuple(replace(epoch, values=epoch.place.read(file)) for epoch in self.epochs)
        return replace(self, epochs=epochs)

    def tuple_of_identifiers(self) -> list[Identifier]:
        """Return the identifier tuple: the file's own, in 02.00 what the header says of node, rank and thread."""
        if not self.is_old:
            return list(self.identifiers)
        identifiers = []
        for name, kind, base in (("host-id", "NODE", 16), ("mpi-rank", "RANK", 10), ("thread-id", "THREAD", 10)):
            number = _number(self.value(name), base)
            if number is not None:
                is_node = kind == "NODE"
                identifiers.append(
                    (DEFAULT_ID_NAMES.index(kind), number, 0 if is_node else number, 1 if is_node else 3)
                )
        return identifiers

    def find_unknown_modules(self) -> Iterator[tuple[int, Ints]]:
        """Yield (epoch, module ids that nodes name and the loadmap does not)."""
        for number, epoch in enumerate(self.epochs):
            known = np.array([0, *(module.id for module in epoch.modules)])
            yield number, np.setdiff1d(epoch.nodes.lm, known).astype(np.int64)


def _number(text: str, base: int) -> int | None:
    try:
        number = int(text, base)
    except ValueError:
        return None
    return number if 0 <= number < 2**64 else None
