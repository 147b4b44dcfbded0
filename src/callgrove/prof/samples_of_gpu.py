"""The call paths of GPU samples: nodes whose callers the tool did not see.

Each such node gets the paths that the call graph allows, as nodes of the tree; how its value is shared between them is
decided for every profile from what else it measured. Without a usable call graph the node goes below an unknown
function.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from callgrove.model.arrays import ABSENT, Ids
from callgrove.prof.call_graphs import CallGraph
from callgrove.prof.contexts import Contexts
from callgrove.prof.nodes import UNKNOWN
from callgrove.prof.raw_tree import BARE, CODE, RawTree, place_of
from callgrove.prof.structures import Described

__all__ = ["Template", "Templates", "shares", "with_paths"]

Path = tuple[tuple[int, int], ...]  # (place, offset) of each node below the one that the samples hang from


@dataclass(frozen=True)
class Template:
    """One path: the context of its first function, that of the sampled instruction, and its call instructions, from the
    last to the first: their addresses, and the nodes of GPU samples there (-1: there are none)."""

    entry: int
    full: int
    calls: tuple[tuple[int, int], ...]
    is_certain: bool = False


@dataclass(frozen=True)
class Templates:
    """The templates of each node of GPU samples."""

    of_node: Mapping[int, tuple[Template, ...]]


class PathFinder:
    """The paths of addresses, module by module."""

    def __init__(self, described: Mapping[int, Described]) -> None:
        self._described = described
        self._graphs: dict[int, CallGraph | None] = {}
        self._of_function: dict[tuple[int, int], list[tuple[int, ...]] | None] = {}

    def paths(self, module: int, offset: int) -> tuple[bool, list[Path]]:
        """Whether callers are known, and the paths to an address."""
        calls = self._calls(module, offset)
        here = (place_of(module), offset)
        if calls is None:
            return False, [((CODE, UNKNOWN), here)]
        return True, [(*((place_of(module), call) for call in one), here) for one in calls]

    def _calls(self, module: int, offset: int) -> list[tuple[int, ...]] | None:
        described = self._described.get(module)
        if described is None:
            return None
        if module not in self._graphs:
            self._graphs[module] = CallGraph.of(described.structure, described.number)
        graph = self._graphs[module]
        [function] = described.procedures(np.array([offset], np.uint64)).tolist()
        if graph is None or function < 0:
            return None
        key = (module, function)
        if key not in self._of_function:
            self._of_function[key] = graph.templates(function)
        return self._of_function[key]


class _Paths:
    """Paths below nodes of a tree, added to it."""

    def __init__(self, tree: RawTree) -> None:
        self.above, self.place, self.offset = [], [], []  # type: list[int], list[int], list[int]
        self.n = len(tree)

    def add(self, start: int, path: Path) -> None:
        above = start
        for place, offset in path:
            self.above.append(above)
            self.place.append(place)
            self.offset.append(offset)
            above = self.n + len(self.above) - 1


@dataclass(frozen=True)
class Found:
    """Paths by the node of the whole tree that samples hang from, module, offset, whether callers are known."""

    tree: RawTree
    rows: tuple[tuple[int, int, int, bool, list[Path]], ...]

    def templates(self, contexts: Contexts) -> Templates:
        """The paths as contexts."""
        out: dict[int, tuple[Template, ...]] = {}
        for parent, module, offset, is_known, paths in self.rows:
            bare = self._node(parent, place_of(module, is_bare=True), offset)
            out[bare] = tuple(self._template(contexts, parent, path, is_known) for path in paths)
        return Templates(out)

    def _template(self, contexts: Contexts, parent: int, path: Path, is_known: bool) -> Template:
        first = last = ABSENT
        for number, (place, offset) in enumerate(path):
            last = self._node(parent if number == 0 else last, place, offset)
            first = last if number == 0 else first
        calls = tuple((offset, self._node(parent, place + BARE, offset)) for place, offset in reversed(path[:-1]))
        entry, full = int(contexts.first[first]), int(contexts.full[last])
        return Template(entry, full, calls if is_known else (), not is_known)

    def _node(self, parent: int, place: int, offset: int) -> int:
        region = self.tree.regions_of(np.array([place], np.int64), np.array([offset], np.uint64))
        parents: Ids = np.array([parent], np.int32)
        return int(self.tree.search(parents, region)[0])


def with_paths(tree: RawTree, described: Mapping[int, Described]) -> tuple[RawTree, Found]:
    """The tree with all paths that GPU samples may have, and what they are; `described` are modules by number."""
    place = tree.place[tree.region]
    bare = np.flatnonzero((place != CODE) & (place % 2 == BARE))
    finder, added = PathFinder(described), _Paths(tree)
    found: list[tuple[int, int, int, bool, list[Path]]] = []
    for node in bare.tolist():
        module, offset = int(place[node]) // 2 - 1, int(tree.offset[tree.region[node]])
        is_known, paths = finder.paths(module, offset)
        for path in paths:
            added.add(int(tree.parent[node]), path)
        found.append((int(tree.parent[node]), module, offset, is_known, paths))
    if not found:
        return tree, Found(tree, ())
    above = np.concatenate([tree.parent, np.array(added.above, np.int32)]).astype(np.int32)
    places = np.concatenate([place, np.array(added.place, np.int64)])
    offsets = np.concatenate([tree.offset[tree.region], np.array(added.offset, np.uint64)])
    whole = RawTree.of(tree.modules, [(above, places, offsets)])
    moved = whole.find(above, places, offsets)
    return whole, Found(whole, tuple((int(moved[parent]), *rest) for parent, *rest in found))  # type: ignore[misc]


def shares(templates: tuple[Template, ...], ratio: Mapping[int, float], samples: Mapping[int, float]) -> list[float]:
    """Which part of a value goes to each template. `ratio` of entry contexts: how many times more often the kernel ran
    than it was sampled, absent where it did not run; `samples` of nodes: instructions sampled there."""
    factors = [1.0 if t.is_certain else ratio.get(t.entry, 0.0) for t in templates]
    possible = [k for k, factor in enumerate(factors) if factor]
    share = [0.0] * len(templates)
    groups = [(possible, 1.0, 0)]
    while groups:
        members, part, depth = groups.pop()
        ended = [k for k in members if depth >= len(templates[k].calls)]
        if len(members) <= 1 or part == 0.0 or ended:
            for k in members:
                share[k] = part / len(members)
            continue
        by_call: dict[tuple[int, int], list[int]] = {}
        for k in members:
            by_call.setdefault(templates[k].calls[depth], []).append(k)
        counts = [samples.get(node, 0.0) for _, node in by_call]
        total = sum(counts)
        for (_, rest), count in zip(by_call.items(), counts, strict=True):
            groups.append((rest, part * (count / total if total else 1 / len(by_call)), depth + 1))
    return [factor * one for factor, one in zip(factors, share, strict=True)]
