"""The nodes of one file, brought to the rules that all files share, and one tree of many.

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
from pathlib import Path

import numpy as np

from callgrove.arrays import ABSENT, Bools, Ids, Ints, Offsets, depths, levels
from callgrove.errors import CorruptFile
from callgrove.formats.hpcrun import placeholders
from callgrove.formats.hpcrun import records as rec
from callgrove.formats.hpcrun.measurement import Epoch, Measurement
from callgrove.formats.hpcrun.placeholders import code_number
from callgrove.formats.hpcrun.regions import FIRST_MODULE, OUTLINED, UNKNOWN_MODULE, Region, Regions, merge, places_of

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
    "RawTree",
    "normal_nodes",
    "place_of",
    "place_table",
    "translate",
]


# -- trees of nodes ----------------------------------------------------------------------------------------------------
# Nodes are known by a module and an address:
#
#     place     0                      nodes that are no addresses: `offset` is their code
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
    """From places where modules are numbered in one order to those where they are numbered in another."""
    number = {path: k for k, path in enumerate(others)}
    return np.array([CODE, *(place_of(number[path]) for path in modules)], np.int64)


def translate(place: Ints, table: Ints) -> Ints:
    """Return places with other numbers of modules."""
    moved: Ints = table[place >> 1] + (place & 1)
    return moved


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
    def of(cls, modules: tuple[str, ...], trees: Sequence[tuple[Ids, Ints, Offsets]]) -> RawTree:
        """Of trees given by parents (in any order), places and offsets; `modules` are those that places name."""
        regions = Regions()
        region_of_node = [regions.add(place, offset) for _, place, offset in trees]
        known, maps = regions.all()
        merged = merge([(above, maps[k][region_of_node[k]]) for k, (above, _, _) in enumerate(trees)])
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


# -- nodes of one file -------------------------------------------------------------------------------------------------


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


def normal_nodes(
    measurement: Measurement, epoch: Epoch, modules: Mapping[str, int], flavour: Flavour, path: Path
) -> tuple[Ids, Ints, Offsets]:
    """Parent, place and offset of every node of a file, in its order; entries that were added come last."""
    return _Nodes(measurement, epoch, modules, path).normal(flavour)


class _Nodes:
    def __init__(self, measurement: Measurement, epoch: Epoch, modules: Mapping[str, int], path: Path) -> None:
        self.path, self.measurement, self.nodes = path, measurement, epoch.nodes
        place, offset = places_of(epoch, modules, measurement.is_old)
        unknown = place == UNKNOWN_MODULE
        self.above, self.offset = epoch.nodes.above.copy(), np.where(unknown, np.uint64(UNKNOWN), offset)
        self.place: Ints = np.where(place >= FIRST_MODULE, 2 * (place - FIRST_MODULE + 1), CODE).astype(np.int64)
        self.is_code: Bools = self.place == CODE
        self.is_outlined: Bools = (epoch.nodes.lm >= min(OUTLINED)) & (epoch.nodes.lm <= max(OUTLINED)) & unknown
        self.is_idle: Bools = self._has_code(IDLE)
        self.added: list[tuple[int, int]] = []  # parent and code

    def _has_code(self, code: int) -> Bools:
        has_code: Bools = self.is_code & (self.offset == code)
        return has_code

    def normal(self, flavour: Flavour) -> tuple[Ids, Ints, Offsets]:
        root = self._root()
        self._mark_bare()
        tops = (self.above < 0) | self.is_idle
        below_root = (self.above >= 0) & tops[self.above] & ~tops & ~self.is_outlined
        misplaced = np.flatnonzero(self._has_code(PARTIAL) & ~below_root)
        if len(misplaced):
            raise self._wrong(int(misplaced[0]), "partial call paths directly below the root", "them elsewhere")
        self._put(below_root, root)
        self._put(self.is_idle, root if flavour.has_idle else ABSENT, IDLE if flavour.has_idle else ROOT)
        self._put(self.is_outlined, root, PARTIAL)
        if not self.measurement.is_old:
            self._put(below_root & self._has_code(UNKNOWN), root, PARTIAL)
        self._go_below_entry(below_root, root, flavour)
        n = len(self.added)
        if not n:
            return self.above, self.place, self.offset
        return (
            np.append(self.above, np.array([above for above, _ in self.added], np.int32)),
            np.append(self.place, np.full(n, CODE)).astype(np.int64),
            np.append(self.offset, np.array([code for _, code in self.added], np.uint64)),
        )

    def _root(self) -> int:
        """Return the position of the root; one is added where only outlined ranges have none above them."""
        tops = self.above < 0
        wrong = np.flatnonzero(tops & ~self._has_code(ROOT) & ~self.is_outlined)
        if len(wrong):
            row = int(wrong[0])
            found = f"module {self.nodes.lm[row]}, address {int(self.nodes.ip[row]):#x}"
            raise self._wrong(row, "the root of the tree", found, "invalid root node")
        roots = np.flatnonzero(tops & ~self.is_outlined)
        return int(roots[0]) if len(roots) else self._add(ABSENT, ROOT)

    def _mark_bare(self) -> None:
        flags = self.nodes.flags
        if flags is not None:
            bare = (flags & rec.UNWOUND == 0) & ~self.is_code
            if not bare.any():
                return
            inner = np.flatnonzero(bare & self.nodes.has_children)
            if len(inner):
                raise self._wrong(int(inner[0]), "no calls below a node that was not unwound", "some")
            self.place += BARE * bare

    def _put(self, rows: Bools, above: int, code: int | None = None) -> None:
        self.above[rows] = above
        if code is not None:
            self.offset[rows] = code

    def _go_below_entry(self, below_root: Bools, root: int, flavour: Flavour) -> None:
        """What stands directly below the root and is no entry."""
        rest = below_root & ~(self._has_code(PARTIAL) | self._has_code(MAIN) | self._has_code(THREAD))
        if not rest.any():
            return
        if self.measurement.is_old:
            is_main = self.measurement.value("thread-id") in ("", "0")
            self._put(rest, self._add(root, MAIN if is_main else THREAD))
        elif flavour.demotes:
            self._put(rest, self._add(root, PARTIAL))

    def _add(self, above: int, code: int) -> int:
        """Add one more node, and return its position."""
        self.added.append((above, code))
        return len(self.place) + len(self.added) - 1

    def _wrong(self, row: int, expected: str, found: str, remedy: str = "") -> CorruptFile:
        node = f"{found} (node {self.nodes.id[row]})"
        return CorruptFile(self.path, "cct", expected=expected, found=node, remedy=remedy)
