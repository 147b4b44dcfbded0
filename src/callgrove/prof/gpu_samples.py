"""The call paths of GPU samples, whose callers the tool did not see, from the call graph of the code.

Each such node gets the paths that the call graph allows, as nodes of the tree; how its value is shared between them is
decided for every profile from what else it measured. Without a usable call graph the node goes below an unknown
function.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from callgrove.arrays import ABSENT, Ids, Ints
from callgrove.formats.hpcrun.hpcstruct import ScopeKind, Structure
from callgrove.prof.contexts import Contexts
from callgrove.prof.nodes import BARE, CODE, UNKNOWN, Forest, RawTree, place_of
from callgrove.prof.resolution import Described

__all__ = ["MOST_TEMPLATES", "CallGraph", "Template", "Templates", "shares", "with_paths"]


# -- call graph of one module ------------------------------------------------------------------------------------------
# GPU samples have an address and no callers. The structure file lists the calls of each function, so the callers that
# are possible can be found (hpcrun-and-prof.md 8):
#
#     callee -> (call instruction, caller), recursion removed
#     template of an address: a function that nobody calls, then call instructions down to the address's function
#
# Recursion is removed by strongly connected components: calls inside of one are left out; a call from outside that
# leads to the function where the search for the component began also leads to its other functions, as the genuine tool
# has it.


MOST_TEMPLATES = 4096  # call paths to one function; more of them say nothing
Edge = tuple[int, int]  # address of the call, function that it lies in


@dataclass(frozen=True)
class CallGraph:
    """`callers` of each function, by its row in the structure, without recursion."""

    callers: dict[int, list[Edge]]

    @classmethod
    def of(cls, structure: Structure, module: int) -> CallGraph | None:
        """Return the calls of a module; None where they are not listed, or lead to what is not a function."""
        calls = structure.calls(module)
        if not structure.modules.has_calls[module] and not len(calls):
            return None
        scopes, entries = structure.scopes, structure.entries
        functions = np.flatnonzero((scopes.kind == ScopeKind.PROCEDURE) & (scopes.module == module))
        callers: dict[int, list[Edge]] = {int(function): [] for function in functions}
        columns = (scopes.target[calls], scopes.address[calls], scopes.procedure[calls])
        for target, address, caller in zip(*(column.tolist() for column in columns), strict=True):
            callee = entries.get((module, target))
            if callee is None:
                return None
            callers[callee].append((address, caller))
        return cls(_without_recursion(callers, functions))

    def templates(self, function: int) -> list[tuple[int, ...]] | None:
        """Return the calls on each path down to a function, in the order of the reversed paths; None of too many."""
        templates: list[tuple[int, ...]] = []
        pending: list[tuple[int, tuple[int, ...]]] = [(function, ())]
        while pending:
            here, calls = pending.pop()
            above = self.callers.get(here, [])
            if not above:
                templates.append(calls)
            pending += [(caller, (address, *calls)) for address, caller in above]
            if len(templates) + len(pending) > MOST_TEMPLATES:
                return None
        return sorted(templates, key=lambda calls: calls[::-1])


def _without_recursion(callers: dict[int, list[Edge]], functions: Ints) -> dict[int, list[Edge]]:
    component, roots = _components(callers, functions)
    out = {f: [edge for edge in edges if component[edge[1]] != component[f]] for f, edges in callers.items()}
    members: dict[int, list[int]] = {}
    for function, root in component.items():
        members.setdefault(root, []).append(function)
    for root in roots:
        for member in members[root]:
            if member != root:
                out[member] = out[member] + out[root]
    return out


def _components(callers: dict[int, list[Edge]], functions: Ints) -> tuple[dict[int, int], list[int]]:
    """Return the component of each function, named by the function that its search began from, and all those names.
    Tarjan's algorithm along callers, in the order of the document, without recursion."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    component: dict[int, int] = {}
    stack: list[int] = []
    roots: list[int] = []
    for start in functions.tolist():
        work = [(start, 0)] if start not in index else []
        while work:
            here, edge = work.pop()
            if edge == 0:
                index[here] = low[here] = len(index)
                stack.append(here)
            above = callers[here]
            while edge < len(above):
                caller = above[edge][1]
                edge += 1
                if caller not in index:
                    work += [(here, edge), (caller, 0)]
                    break
                if caller not in component:
                    low[here] = min(low[here], index[caller])
            else:
                if low[here] == index[here]:
                    roots.append(here)
                    while here not in component:
                        component[stack.pop()] = here
                if work:
                    below = work[-1][0]
                    low[below] = min(low[below], low[here])
    return component, roots


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


# -- call paths of samples ---------------------------------------------------------------------------------------------


class PathFinder:
    """The paths of addresses, module by module."""

    def __init__(self, described: Mapping[int, Described]) -> None:
        self._described = described
        self._graphs: dict[int, CallGraph | None] = {}
        self._of_function: dict[tuple[int, int], list[tuple[int, ...]] | None] = {}

    def paths(self, module: int, offset: int) -> tuple[bool, list[Path]]:
        """Return whether callers are known, and the paths to an address."""
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
class SamplePaths:
    """Paths by the node of the whole tree that samples hang from, module, offset, whether callers are known."""

    tree: RawTree
    rows: tuple[tuple[int, int, int, bool, list[Path]], ...]

    def templates(self, contexts: Contexts) -> Templates:
        """Return the paths as contexts."""
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


def with_paths(tree: RawTree, described: Mapping[int, Described]) -> tuple[RawTree, SamplePaths]:
    """Return the tree with all paths that GPU samples may have, and what they are; `described` are modules by
    number."""
    place = tree.place[tree.region]
    bare = np.flatnonzero((place != CODE) & (place % 2 == BARE))
    finder, added = PathFinder(described), _Paths(tree)
    samples: list[tuple[int, int, int, bool, list[Path]]] = []
    for node in bare.tolist():
        module, offset = int(place[node]) // 2 - 1, int(tree.offset[tree.region[node]])
        is_known, paths = finder.paths(module, offset)
        for path in paths:
            added.add(int(tree.parent[node]), path)
        samples.append((int(tree.parent[node]), module, offset, is_known, paths))
    if not samples:
        return tree, SamplePaths(tree, ())
    above = np.concatenate([tree.parent, np.array(added.above, np.int32)]).astype(np.int32)
    places = np.concatenate([place, np.array(added.place, np.int64)])
    offsets = np.concatenate([tree.offset[tree.region], np.array(added.offset, np.uint64)])
    whole = RawTree.of(tree.modules, Forest.of([(above, places, offsets)]))
    moved = whole.find(above, places, offsets)
    return whole, SamplePaths(whole, tuple((int(moved[parent]), *rest) for parent, *rest in samples))  # type: ignore[misc]


def shares(templates: tuple[Template, ...], ratio: Mapping[int, float], samples: Mapping[int, float]) -> list[float]:
    """Return which part of a value goes to each template. `ratio` of entry contexts: how many times more often the
    kernel ran than it was sampled, absent where it did not run; `samples` of nodes: instructions sampled there."""
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
