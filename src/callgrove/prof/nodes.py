"""The nodes of one file, brought to the rules that all files share; one tree of many; from there to the calling context
tree.

    ^Primary                      the root: global, no context
    |-- ^Partial                  unknown entry
    |-- | Main  , | Thread        main thread, application thread
    `-- NoActvty                  idle; released databases: global itself

Anything else that stands directly below the root goes below the unknown entry, unless the target wants it where it is;
in 02.00, which has no such fences, below the entry of the file's thread. Nodes in no known module are unknown. Nodes
about outlined ranges of GPU code (modules 65531 to 65533) are the unknown entry.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from callgrove.arrays import ABSENT, Array, Bools, Ids, Ints, Offsets, depths, levels
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
    places_of,
    readable,
)
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import LAST_LINE, ContextKind, Relation

__all__ = [
    "BARE",
    "CODE",
    "ENTRY_NAMES",
    "IDLE",
    "MAIN",
    "PARTIAL",
    "ROOT",
    "THREAD",
    "UNKNOWN",
    "Contexts",
    "Flavour",
    "RawTree",
    "ScopeChains",
    "ScopeTable",
    "contexts_of",
    "normal_nodes",
    "place_of",
    "place_table",
    "translate",
]


# -- nodes -------------------------------------------------------------------------------------------------------------


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
        """Return the tree made of trees given by parents (in any order), places and offsets; `modules` are those that
        places name."""
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
    """Return the parent, place and offset of every node of a file, in its order; entries that were added come last."""
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
        """Put what stands directly below the root and is not an entry below one."""
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


# -- from the merged tree to contexts ----------------------------------------------------------------------------------
# Every node asks for its chain of scopes below the last context of its parent:
#
#     node (module, address)     function -> loop -> line -> instruction       or the instruction alone
#                                `first`                     `full`
#
# Equal scopes below one parent are one context. All nodes of a level take a step together, so no loop touches a single
# node. Context 0 is global: above all entries, and no context of the model.


# -- scopes: what contexts execute -------------------------------------------------------------------------------------
# Two contexts below one parent are one where their scopes and relations are equal. What makes scopes equal is not
# always what makes regions equal: two inlined copies of a function are two scopes of one region.


ENTRY_NAMES = {PARTIAL: "unknown entry", MAIN: "main thread", THREAD: "application thread"}
UNKNOWN_FUNCTION = "<unknown function>"


class ScopeChains(NamedTuple):
    """Scopes around some addresses, outermost first: those of address k are `scope[bounds[k]:bounds[k + 1]]`."""

    bounds: Ints
    scope: Ids
    relation: Ids

    @classmethod
    def none(cls, n: int) -> ScopeChains:
        """Return chains in which nothing is known about n addresses."""
        empty = np.empty(0, np.int32)
        return cls(np.zeros(n + 1, np.int64), empty, empty)


class ScopeTable:
    """All scopes that occur, with the kind and the region of each; there is always a number 0, for what is above all
    entries."""

    def __init__(self, builder: ExperimentBuilder) -> None:
        self.builder = builder
        self._known: dict[Hashable, int] = {}
        self._kind, self._region = array("i"), array("i")

    @property
    def kind(self) -> Ids:
        return np.array(self._kind or [ContextKind.UNKNOWN], np.int32)

    @property
    def region(self) -> Ids:
        return np.array(self._region or [ABSENT], np.int32)

    def add(self, identity: Hashable, kind: ContextKind, region: int) -> int:
        """Return the scope with that identity; what is said first about it stays."""
        number = self._known.setdefault(identity, len(self._kind))
        if number == len(self._kind):
            self._kind.append(kind)
            self._region.append(region)
        return number

    def function(self, identity: Hashable, name: str, file: int, line: int, module: int, offset: int | None) -> int:
        """Return the scope of a function, or of an inlined one: `identity` tells copies of it apart."""
        return self.add(
            identity, ContextKind.FUNCTION, self._place(ContextKind.FUNCTION, name, file, line, module, offset)
        )

    def line(self, file: int, line: int) -> int:
        return self.add(("line", file, line), ContextKind.LINE, self._place(ContextKind.LINE, "", file, line))

    def loop(self, file: int, line: int, module: int, offset: int | None) -> int:
        region = self._place(ContextKind.LOOP, "", file, line, module, offset)
        return self.add(("loop", file, line, module, offset), ContextKind.LOOP, region)

    def _place(
        self, kind: ContextKind, name: str, file: int, line: int, module: int = ABSENT, offset: int | None = None
    ) -> int:
        known = line if file >= 0 and line <= LAST_LINE else ABSENT
        return self.builder.region(kind, name, file=file, line=known, module=module, offset=offset)

    def entry(self, code: int) -> int:
        """Return the scope of an entry point."""
        name = ENTRY_NAMES[code]
        return self.add(("entry", code), ContextKind.ENTRY, self.builder.region(ContextKind.ENTRY, name))

    def placeholder(self, code: int) -> int:
        """Return what a node of module 0 stands for."""
        if code == UNKNOWN:
            region = self.builder.region(ContextKind.UNKNOWN, UNKNOWN_FUNCTION)
            return self.add("unknown", ContextKind.UNKNOWN, region)
        name = "<no activity>" if code == IDLE else placeholders.describe(code)[1]
        region = self.builder.region(ContextKind.PLACEHOLDER, readable(name))
        return self.add(("placeholder", code), ContextKind.PLACEHOLDER, region)

    def instructions(self, module: int, offset: Offsets) -> Ids:
        """Return the instructions of a module, which must not have been asked for before."""
        first = len(self._kind)
        regions = self.builder.addresses(ContextKind.INSTRUCTION, np.full(len(offset), module), offset)
        self._kind.frombytes(np.full(len(offset), ContextKind.INSTRUCTION, np.int32).tobytes())
        self._region.frombytes(np.asarray(regions, np.int32).tobytes())
        return np.arange(first, first + len(offset), dtype=np.int32)


def concatenate(parts: list[ScopeChains], last: Array, relation: Array) -> ScopeChains:
    """Return the chains of all parts, one after the other, each with one more scope at its end."""
    lengths = np.concatenate([np.diff(part.bounds) for part in parts]) if parts else np.empty(0, np.int64)
    bounds = np.append(0, np.cumsum(lengths + 1))
    ends = bounds[1:] - 1
    inner = np.ones(int(bounds[-1]), np.bool_)
    inner[ends] = False
    out = [np.empty(len(inner), np.int32) for _ in range(2)]
    for column, (one, final) in zip(out, (("scope", last), ("relation", relation)), strict=True):
        column[inner] = np.concatenate([getattr(part, one) for part in parts]) if parts else []
        column[ends] = final
    return ScopeChains(bounds, *out)


# -- the calling context tree ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Contexts:
    """Contexts level by level, children of one parent side by side; `first` and `full` of every node of the tree, -1
    for those that have none."""

    parent: Ids
    scope: Ids
    relation: Ids
    depth: Ids
    first: Ids
    full: Ids

    def __len__(self) -> int:
        return len(self.parent)

    def is_elided(self, kind: Ids) -> Bools:
        """Return which contexts are instructions inside of what is known about them; `kind` is that of scopes."""
        elided: Bools = (kind[self.scope] == ContextKind.INSTRUCTION) & (self.relation == Relation.LEXICAL)
        elided[0] = False
        return elided


def contexts_of(tree: RawTree, chains: ScopeChains, entry: Ids) -> Contexts:
    """Return the contexts of a tree. `chains` are those of the tree's regions; a region whose chain is -1 has no
    context. `entry` is the scope that a region has instead directly below the root, -1 for most."""
    grown = _Growth(tree, chains, entry)
    for level in levels(depths(tree.parent)):
        grown.add(level)
    return grown.put_in_order()


class _Growth:
    def __init__(self, tree: RawTree, chains: ScopeChains, entry: Ids) -> None:
        self.tree, self.chains, self.entry = tree, chains, entry
        self.parents: list[Ids] = [np.array([ABSENT], np.int32)]
        self.scopes: list[Ids] = [np.array([0], np.int32)]
        self.relations: list[Ids] = [np.array([Relation.CALL], np.int32)]
        self.n = 1
        self.first, self.full = (np.full(len(tree), ABSENT, np.int32) for _ in range(2))

    def add(self, level: Ints) -> None:
        tree, region = self.tree, self.tree.region[level]
        is_root = (tree.parent[level] < 0) & (tree.place[region] == CODE) & (tree.offset[region] == np.uint64(ROOT))
        self.first[level[is_root]] = self.full[level[is_root]] = 0
        above = np.where(tree.parent[level] >= 0, self.full[tree.parent[level]], ABSENT)
        start, end = self.chains.bounds[region], self.chains.bounds[region + 1]
        going = ~is_root & (above >= 0) & (self.chains.scope[start] >= 0)
        nodes, above, start, end = level[going], above[going], start[going], end[going]
        step = 0
        while len(nodes):
            scope, relation = self.chains.scope[start + step], self.chains.relation[start + step]
            if step == 0:
                entry = self.entry[tree.region[nodes]]
                scope = np.where((above == 0) & (entry >= 0), entry, scope)
            above = self._step(above, scope, relation)
            if step == 0:
                self.first[nodes] = above
            self.full[nodes] = above
            step += 1
            more = start + step < end
            nodes, above, start, end = nodes[more], above[more], start[more], end[more]

    def _step(self, above: Ids, scope: Ids, relation: Ids) -> Ids:
        """Return the child of each context with that scope and relation; new ones are made."""
        key = (above.astype(np.int64) << 32) | (relation.astype(np.int64) << 30) | scope
        keys, inverse = np.unique(key, return_inverse=True)
        self.parents.append((keys >> 32).astype(np.int32))
        self.relations.append(((keys >> 30) & 3).astype(np.int32))
        self.scopes.append((keys & (1 << 30) - 1).astype(np.int32))
        made: Ids = (self.n + inverse).astype(np.int32)
        self.n += len(keys)
        return made

    def put_in_order(self) -> Contexts:
        """Return contexts in the order of depth, then of parents, relations and scopes."""
        parent, scope, relation = (np.concatenate(c) for c in (self.parents, self.scopes, self.relations))
        depth = depths(parent)
        number = np.full(len(parent) + 1, ABSENT, np.int32)  # -1 picks the last
        sequence, n = [], 0
        for level in levels(depth):
            order = level[np.lexsort((scope[level], relation[level], number[parent[level]]))]
            number[order] = np.arange(n, n + len(order))
            sequence.append(order)
            n += len(order)
        order = np.concatenate(sequence)
        columns = (number[parent[order]], scope[order], relation[order], depth[order])
        return Contexts(*columns, number[self.first], number[self.full])
