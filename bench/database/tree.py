"""A random calling context tree: an entry point, functions, loops and lines, as structured binaries give.

    main thread
    └─ function          called
       ├─ line           nested lexically
       │  └─ function    called from that line
       └─ loop
          └─ line

Every function has a line of its own. Which function calls which is a random recursive tree, so depth grows with the
logarithm of the size: 50,000 contexts are some 60 levels deep.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from callgrove.arrays import ABSENT, Array, Bools, Ints

__all__ = ["FUNCTION", "LINE", "LOOP", "SMALLEST", "Nesting", "Tree", "random_tree"]

FUNCTION, LOOP, LINE = 0, 1, 2  # the format's lexical types
SMALLEST = 8  # contexts: fewer do not make one of each kind
SHARE_OF_FUNCTIONS, SHARE_OF_LOOPS = 5, 12  # one context in so many
CONTEXTS_PER_FUNCTION = 8  # in which one function is called, on average
LINES_PER_FUNCTION = 10  # that have cost; genuine trees have one region for three or four contexts


@dataclass(frozen=True)
class Nesting:
    """A forest in preorder: `order` lists its nodes, and the subtree of node i is order[start[i]:end[i]]."""

    order: Ints
    start: Ints
    end: Ints

    @classmethod
    def of(cls, parent: Ints) -> Nesting:
        """Parents come before their children; -1 is a root."""
        parents = parent.tolist()
        size = [1] * len(parents)
        for node in range(len(parents) - 1, -1, -1):
            if parents[node] >= 0:
                size[parents[node]] += size[node]
        start = [0] * len(parents)
        free = [0] * len(parents)  # where the next child of a node goes
        free_root = 0
        for node, above in enumerate(parents):
            if above >= 0:
                start[node] = free[above]
                free[above] += size[node]
            else:
                start[node] = free_root
                free_root += size[node]
            free[node] = start[node] + 1
        first = np.array(start, np.int64)
        return cls(np.argsort(first), first, first + np.array(size, np.int64))

    def sums(self, own: Ints) -> Ints:
        """Rows of numbers per node, added up over each node's subtree. Integers: differences of sums are exact."""
        running = np.zeros((len(own), own.shape[1] + 1), np.int64)
        np.cumsum(own[:, self.order], axis=1, out=running[:, 1:])
        sums: Ints = running[:, self.end] - running[:, self.start]
        return sums


@dataclass(frozen=True)
class Tree:
    """Contexts in preorder. Context 0 is the entry point; it has no lexical type."""

    parent: Ints
    lexical_type: Array
    function: Ints  # number of the function that it is, or lies in
    line: Ints  # counted from the first line of the function
    id: Ints  # in the file; nothing promises an order there, so these are shuffled
    n_functions: int

    def __len__(self) -> int:
        return len(self.parent)

    @property
    def is_lexical(self) -> Bools:
        """Nested in its parent, as opposed to called from it."""
        nested: Bools = self.lexical_type != FUNCTION
        nested[0] = False
        return nested

    @cached_property
    def calls(self) -> Nesting:
        """All contexts below each context: scope `execution`."""
        return Nesting.of(self.parent)

    @cached_property
    def lexical(self) -> Nesting:
        """Contexts that are reached by lexical nesting only: scope `function`."""
        return Nesting.of(np.where(self.is_lexical, self.parent, ABSENT))


def random_tree(n_contexts: int, rng: np.random.Generator) -> Tree:
    """A tree of exactly `n_contexts` contexts."""
    if n_contexts < SMALLEST:
        raise ValueError(f"a tree has at least {SMALLEST} contexts, not {n_contexts}")
    n_functions = max(2, n_contexts // SHARE_OF_FUNCTIONS)
    n_loops = n_contexts // SHARE_OF_LOOPS
    n_lines = n_contexts - 1 - n_functions - n_loops
    # Numbered by kind first: the entry point, functions, loops, lines.
    loop_of = rng.integers(0, n_functions, n_loops)
    extra = rng.integers(0, n_functions + n_loops, n_lines - n_functions)
    line_parent = 1 + np.concatenate([np.arange(n_functions), extra])  # the first lines: one per function
    in_function = np.concatenate([np.arange(n_functions), loop_of])[line_parent - 1]
    caller = (rng.random(n_functions) * np.arange(n_functions)).astype(np.int64)
    calls = _some_line(caller, in_function, rng) + 1 + n_functions + n_loops
    calls[0] = 0  # main
    parent = np.concatenate([[ABSENT], calls, 1 + loop_of, line_parent])
    kind = np.repeat([FUNCTION, FUNCTION, LOOP, LINE], [1, n_functions, n_loops, n_lines])
    n_names = max(2, n_functions // CONTEXTS_PER_FUNCTION)
    name = np.concatenate([[0], rng.integers(1, n_names, n_functions - 1)])
    function = np.concatenate([[0], name, name[loop_of], name[in_function]])
    line = np.where(kind == FUNCTION, 0, 1 + rng.integers(0, LINES_PER_FUNCTION, n_contexts))
    order, above = _preorder(parent)
    ids = 1 + np.concatenate([[0], rng.permutation(np.arange(1, n_contexts))])
    return Tree(above, kind[order].astype(np.uint8), function[order], line[order], ids, n_names)


def _some_line(function: Ints, in_function: Ints, rng: np.random.Generator) -> Ints:
    """For each function given, one of its lines."""
    order = np.argsort(in_function, kind="stable")
    first = np.searchsorted(in_function[order], function)
    last = np.searchsorted(in_function[order], function, side="right")
    return order[first + (rng.random(len(function)) * (last - first)).astype(np.int64)]


def _preorder(parent: Ints) -> tuple[Ints, Ints]:
    """The nodes of one tree in preorder, and the parent of each in the new numbers. Parents may come in any order."""
    by_parent = np.argsort(parent, kind="stable")
    bounds = np.searchsorted(parent[by_parent], np.arange(len(parent) + 1)).tolist()
    children = by_parent.tolist()
    order: list[int] = []
    above: list[int] = []
    stack = [(int(children[0]), ABSENT)]
    while stack:
        node, parent_number = stack.pop()
        number = len(order)
        order.append(node)
        above.append(parent_number)
        stack.extend((child, number) for child in reversed(children[bounds[node] : bounds[node + 1]]))
    return np.array(order, np.int64), np.array(above, np.int64)
