"""The nodes of files, brought to the rules that all files share, and one tree of many.

    ^Primary                      the root: global, no context
    |-- ^Partial                  unknown entry
    |-- | Main  , | Thread        main thread, application thread
    `-- NoActvty                  idle; released databases: global itself

Anything else that stands directly below the root goes below the unknown entry, unless the target wants it where it is;
in 02.00, which has no such fences, below the entry of the file's thread. Nodes in no known module are unknown. Nodes
about outlined ranges of GPU code (modules 65531 to 65533) are the unknown entry.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from callgrove.arrays import ABSENT, Bools, Ids, Ints, Offsets, depths, levels
from callgrove.errors import CorruptFile
from callgrove.formats.hpcrun import primitives as rec
from callgrove.formats.hpcrun import regions as placeholders
from callgrove.formats.hpcrun.measurement import Epoch, Measurement
from callgrove.formats.hpcrun.regions import (
    FIRST_MODULE,
    OUTLINED,
    UNKNOWN_MODULE,
    Region,
    Regions,
    code_number,
    merge,
    number_regions,
    places_of,
)

__all__ = [
    "BARE",
    "CODE",
    "IDLE",
    "MAIN",
    "PARTIAL",
    "ROOT",
    "THREAD",
    "UNKNOWN",
    "Flavour",
    "Forest",
    "NodeSource",
    "RawTree",
    "Tree",
    "normal_nodes",
    "place_of",
    "place_table",
    "translate",
]


# -- trees of nodes ----------------------------------------------------------------------------------------------------
# Nodes are known by a module and an address:
#
#     place     0                      nodes that are not addresses: `offset` is their code
#               2 * (module + 1)       addresses in a module, numbered in the order of the modules' paths
#               2 * (module + 1) + 1   the same, where the tool could not see who called (`BARE`)
#
# Nodes stand level by level, those of a level by parent and region, so (parent, region) rises over the whole tree and a
# node is found by binary search. The tree does not depend on the order in which it was merged.


CODE = 0  # the place of placeholders
BARE = 1  # added to the place of addresses whose callers are not known


def place_of(module: int, is_bare: bool = False) -> int:
    """Return the place of addresses in a module."""
    return 2 * (module + 1) + is_bare


def place_table(modules: Iterable[str], others: Sequence[str]) -> Ints:
    """Return a table from places where modules are numbered in one order to those where they are numbered in
    another."""
    number = {path: k for k, path in enumerate(others)}
    return np.array([CODE, *(place_of(number[path]) for path in modules)], np.int64)


def translate(place: Ints, table: Ints) -> Ints:
    """Return places with other numbers of modules."""
    moved: Ints = table[place >> 1] + (place & 1)
    return moved


Tree = tuple[Ids, Ints, Offsets]  # parent, place and offset of each node


class Forest(NamedTuple):
    """Several trees, one after the other: `above` counts nodes over all of them, `starts` is where each begins, and
    last where all end."""

    above: Ids
    place: Ints
    offset: Offsets
    starts: Ints

    @classmethod
    def of(cls, trees: Sequence[Tree]) -> Forest:
        """Return the forest of some trees."""
        sizes = [len(above) for above, _, _ in trees]
        starts = np.cumsum([0, *sizes])
        none = np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.uint64)
        above, place, offset = (np.concatenate(column) for column in zip(none, *trees, strict=True))
        return cls(shift(above, np.repeat(starts[:-1], sizes)), place, offset, starts)

    def trees(self) -> list[Tree]:
        """Return copies of the trees."""
        above = shift(self.above, -np.repeat(self.starts[:-1], np.diff(self.starts)))
        bounds = self.starts.tolist()
        parts = (slice(first, last) for first, last in pairwise(bounds))
        return [(above[part].copy(), self.place[part].copy(), self.offset[part].copy()) for part in parts]


def shift(above: Ids, by: Ints) -> Ids:
    """Return parents that are counted from elsewhere; what has none stays without."""
    return np.where(above < 0, ABSENT, above + by).astype(np.int32)


@dataclass(frozen=True)
class RawTree:
    """`parent` and `region` of each node; regions are sorted by place and offset. Paths of modules are sorted."""

    modules: tuple[str, ...]
    place: Ints
    offset: Offsets
    parent: Ids
    region: Ids

    def __len__(self) -> int:
        return len(self.parent)

    @classmethod
    def of(cls, modules: tuple[str, ...], forest: Forest) -> RawTree:
        """Return the tree made of several, whose nodes may come in any order; `modules` are those that places name."""
        known, region = number_regions(forest.place, forest.offset)
        merged = merge([(forest.above, region)])
        return cls(modules, known.place, known.offset, merged.parent, merged.region)

    def merge_with(self, other: RawTree) -> RawTree:
        """Return one tree that has the nodes of both."""
        modules = tuple(sorted({*self.modules, *other.modules}))
        regions = Regions()
        for tree in (self, other):
            regions.add_known(Region(translate(tree.place, place_table(tree.modules, modules)), tree.offset))
        known, maps = regions.all()
        merged = merge(
            [(tree.parent, region_map[tree.region]) for tree, region_map in zip((self, other), maps, strict=True)]
        )
        return RawTree(modules, known.place, known.offset, merged.parent, merged.region)

    @cached_property
    def keys(self) -> Ints:
        """(parent, region) of each node as one number, ascending."""
        return (self.parent.astype(np.int64) + 1 << 32) | self.region

    @cached_property
    def _bounds(self) -> Ints:
        """Where the regions of each place begin."""
        last = int(self.place[-1]) if len(self.place) else -1
        return np.searchsorted(self.place, np.arange(last + 2))

    def regions_of(self, place: Ints, offset: Offsets) -> Ints:
        """Return the region of each (place, offset); -1 where there is none."""
        out = np.full(len(place), ABSENT, np.int64)
        for one in np.unique(place).tolist():
            if one + 1 >= len(self._bounds):
                continue
            first, last = int(self._bounds[one]), int(self._bounds[one + 1])
            rows = np.flatnonzero(place == one)
            at = first + np.searchsorted(self.offset[first:last], offset[rows])
            inside = at < last
            rows, at = rows[inside], at[inside]
            same = self.offset[at] == offset[rows]
            out[rows[same]] = at[same]
        return out

    def find(self, above: Ids, place: Ints, offset: Offsets) -> Ids:
        """Return the node of this tree that each node of another one is; -1 where there is none."""
        region = self.regions_of(place, offset)
        out = np.full(len(above) + 1, ABSENT, np.int32)  # -1 picks the last: above a root is nothing
        for number, level in enumerate(levels(depths(above))):
            up = out[above[level]]
            at = self.search(up, region[level])
            out[level] = np.where((up >= 0) | (number == 0), at, ABSENT)
        return out[:-1]

    def search(self, parent: Ids, region: Ints) -> Ids:
        """Return the child of each parent (-1: a root) with that region; -1 where there is none."""
        wanted = (parent.astype(np.int64) + 1 << 32) | np.maximum(region, 0)
        at = np.minimum(np.searchsorted(self.keys, wanted), len(self) - 1)
        is_here = (region >= 0) & (self.keys[at] == wanted) if len(self) else np.zeros(len(region), np.bool_)
        return np.where(is_here, at, ABSENT).astype(np.int32)


# -- nodes of files ----------------------------------------------------------------------------------------------------


ROOT, PARTIAL, UNKNOWN, IDLE, MAIN, THREAD = (
    code_number(code)
    for code in (
        placeholders.ROOT,
        placeholders.PARTIAL,
        placeholders.UNKNOWN,
        placeholders.NO_ACTIVITY,
        placeholders.ENTRIES["main thread"],
        placeholders.ENTRIES["application thread"],
    )
)


@dataclass(frozen=True)
class Flavour:
    """What differs between targets: `demotes` puts what stands directly below the root below the unknown entry;
    `has_idle` keeps idle as a context, and every idle sample."""

    demotes: bool = True
    has_idle: bool = False


class NodeSource(NamedTuple):
    """Where nodes come from: an epoch of a measurement, and its file."""

    measurement: Measurement
    epoch: Epoch
    path: Path


def normal_nodes(sources: Sequence[NodeSource], modules: Mapping[str, int], flavour: Flavour) -> list[Tree]:
    """Return the tree of every source, its nodes in the order of the file; entries that were added come last. All are
    worked on together, as most files are small. Raise where one of them breaks the rules."""
    return _Nodes(sources, modules).normal(flavour).trees() if sources else []


class _Nodes:
    """The nodes of all sources, one after the other; `source` and `is_old` of each."""

    def __init__(self, sources: Sequence[NodeSource], modules: Mapping[str, int]) -> None:
        self.sources, epochs = sources, [one.epoch for one in sources]
        old = [one.measurement.is_old for one in sources]
        sizes = [len(epoch.nodes) for epoch in epochs]
        self.starts = np.cumsum([0, *sizes])
        self.source: Ids = np.repeat(np.arange(len(sources), dtype=np.int32), sizes)
        self.is_old: Bools = np.repeat(old, sizes)
        place, offset = places_of(epochs, modules, old)
        unknown = place == UNKNOWN_MODULE
        self.above = shift(np.concatenate([epoch.nodes.above for epoch in epochs]), np.repeat(self.starts[:-1], sizes))
        self.offset: Offsets = np.where(unknown, np.uint64(UNKNOWN), offset)
        self.place: Ints = np.where(place >= FIRST_MODULE, 2 * (place - FIRST_MODULE + 1), CODE).astype(np.int64)
        self.is_code: Bools = self.place == CODE
        self.is_outlined = unknown & self._is_outlined(epochs) if unknown.any() else unknown
        self.is_idle: Bools = self._has_code(IDLE)
        self.added: list[tuple[int, int, int]] = []  # source, parent and code

    def _is_outlined(self, epochs: Sequence[Epoch]) -> Bools:
        module = np.concatenate([epoch.nodes.lm for epoch in epochs])
        outlined: Bools = (module >= min(OUTLINED)) & (module <= max(OUTLINED))
        return outlined

    def _has_code(self, code: int) -> Bools:
        has_code: Bools = self.is_code & (self.offset == code)
        return has_code

    def normal(self, flavour: Flavour) -> Forest:
        """Return the nodes by the rules that all files share."""
        root = self._roots()
        self._mark_bare()
        tops = (self.above < 0) | self.is_idle
        below_root = (self.above >= 0) & tops[self.above] & ~tops & ~self.is_outlined
        self._refuse(
            self._has_code(PARTIAL) & ~below_root, "partial call paths directly below the root", "them elsewhere"
        )
        self._put(below_root, root)
        self._put(self.is_idle, root if flavour.has_idle else None, IDLE if flavour.has_idle else ROOT)
        self._put(self.is_outlined, root, PARTIAL)
        self._put(below_root & self._has_code(UNKNOWN) & ~self.is_old, root, PARTIAL)
        self._go_below_entry(below_root, root, flavour)
        forest = Forest(self.above, self.place, self.offset, self.starts)
        return self._with_added(forest) if self.added else forest

    def _roots(self) -> Ids:
        """Return the root of every source; one is added where only outlined ranges have none above them."""
        tops = (self.above < 0) & ~self.is_outlined
        wrong = tops & ~self._has_code(ROOT)
        if wrong.any():
            source, row = self._first(wrong)
            nodes = self.sources[source].epoch.nodes
            found = f"module {nodes.lm[row]}, address {int(nodes.ip[row]):#x}"
            self._refuse(wrong, "the root of the tree", found, "invalid root node")
        rows = np.flatnonzero(tops)[::-1].astype(np.int32)
        roots: Ids = np.full(len(self.sources), ABSENT, np.int32)
        roots[self.source[rows]] = rows  # the first one of each wins
        for source in np.flatnonzero(roots < 0).tolist():
            roots[source] = self._add(source, ABSENT, ROOT)
        return roots

    def _mark_bare(self) -> None:
        bare = ~self._are_unwound() & ~self.is_code
        if bare.any():
            has_child = np.zeros(len(bare), np.bool_)
            has_child[self.above[self.above >= 0]] = True
            self._refuse(bare & has_child, "no calls below a node that was not unwound", "some")
            self.place += BARE * bare

    def _are_unwound(self) -> Bools:
        """Return which nodes were unwound: all of files that say nothing about it."""
        all_nodes = (one.epoch.nodes for one in self.sources)
        flags = [
            np.full(len(nodes), rec.UNWOUND, np.uint8) if nodes.flags is None else nodes.flags for nodes in all_nodes
        ]
        unwound: Bools = (np.concatenate(flags) & rec.UNWOUND) != 0
        return unwound

    def _put(self, rows: Bools, above: Ids | None, code: int | None = None) -> None:
        """Put nodes below the one that their source has, or below none."""
        at = np.flatnonzero(rows)
        if len(at):
            self.above[at] = ABSENT if above is None else above[self.source[at]]
            if code is not None:
                self.offset[at] = code

    def _go_below_entry(self, below_root: Bools, root: Ids, flavour: Flavour) -> None:
        """Put what stands directly below the root and is not an entry below one."""
        is_entry = self._has_code(PARTIAL) | self._has_code(MAIN) | self._has_code(THREAD)
        rest = below_root & ~is_entry & (self.is_old | flavour.demotes)
        entry = root.copy()
        for source in np.unique(self.source[rest]).tolist():
            entry[source] = self._add(source, int(root[source]), self._entry_code(self.sources[source].measurement))
        self._put(rest, entry)

    def _entry_code(self, measurement: Measurement) -> int:
        if not measurement.is_old:
            return PARTIAL
        return MAIN if measurement.value("thread-id") in ("", "0") else THREAD

    def _add(self, source: int, above: int, code: int) -> int:
        """Add one more node, and return its number, behind all nodes."""
        self.added.append((source, above, code))
        return len(self.place) + len(self.added) - 1

    def _with_added(self, forest: Forest) -> Forest:
        """Return a forest in which added nodes are the last of their tree."""
        source, above, code = (np.array(column) for column in zip(*self.added, strict=True))
        owner = np.append(self.source, source)
        order = np.argsort(owner, kind="stable")
        number = np.empty(len(order) + 1, np.int32)
        number[order], number[-1] = np.arange(len(order)), ABSENT  # which -1 picks
        return Forest(
            number[np.append(forest.above, above)[order]],
            np.append(forest.place, np.full(len(code), CODE))[order],
            np.append(forest.offset, code.astype(np.uint64))[order],
            np.cumsum([0, *np.bincount(owner, minlength=len(self.sources))]),
        )

    def _first(self, rows: Bools) -> tuple[int, int]:
        """Return the source of the first of these nodes, and its position there."""
        row = int(np.flatnonzero(rows)[0])
        source = int(self.source[row])
        return source, row - int(self.starts[source])

    def _refuse(self, wrong: Bools, expected: str, found: str, remedy: str = "") -> None:
        """Raise if a node is wrong."""
        if wrong.any():
            source, row = self._first(wrong)
            one = self.sources[source]
            node = f"{found} (node {one.epoch.nodes.id[row]})"
            raise CorruptFile(one.path, "cct", expected=expected, found=node, remedy=remedy)
