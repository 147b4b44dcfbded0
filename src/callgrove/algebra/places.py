"""Which contexts a text means.

solve                  every context of that name
main->solve->kernel    kernel called by solve called by main, wherever that is; lines, loops and call sites in
                       between need not be named
/^MPI_/                every context whose name the pattern finds something in
"""

from __future__ import annotations

import difflib
import re

import numpy as np

from callgrove.errors import UsageError
from callgrove.model.arrays import Bools
from callgrove.model.contexts import ContextKind, ContextTree

__all__ = ["outermost", "places"]

BETWEEN = (ContextKind.LINE, ContextKind.LOOP, ContextKind.CALL, ContextKind.INSTRUCTION)


def places(tree: ContextTree, text: str) -> Bools:
    """The contexts of the tree that a text means; none is an error."""
    names = _names(tree)
    if len(text) > 2 and text.startswith("/") and text.endswith("/"):
        found = _by_pattern(names, text[1:-1])
    elif text in set(names):
        found = np.array([name == text for name in names], np.bool_)
    else:
        found = _by_path(tree, names, text)
    if not found.any():
        near = difflib.get_close_matches(text.rpartition("->")[2], set(names), 1)
        hint = f"did you mean {near[0]!r}?" if near else "name a context, a call path like main->solve, or a /pattern/"
        raise UsageError(f"there is no context {text!r}; {hint}")
    return found


def _names(tree: ContextTree) -> list[str]:
    return [tree.label(context) for context in range(tree.n_listed)]


def _by_pattern(names: list[str], pattern: str) -> Bools:
    try:
        search = re.compile(pattern).search
    except re.error as error:
        raise UsageError(f"/{pattern}/ is not a regular expression: {error}") from None
    known = {name: search(name) is not None for name in set(names)}
    return np.array([known[name] for name in names], np.bool_)


def _by_path(tree: ContextTree, names: list[str], text: str) -> Bools:
    """How many names of the path end at each context; what stands in between does not interrupt it."""
    steps = text.split("->")
    between = np.isin(tree.kind[: tree.n_listed], BETWEEN).tolist()
    reached: list[frozenset[int]] = []  # lengths of the beginnings of the path that lead here
    found = np.zeros(tree.n_listed, np.bool_)
    for context, (parent, name) in enumerate(zip(tree.parent[: tree.n_listed].tolist(), names, strict=True)):
        above = reached[parent] if parent >= 0 else frozenset()
        here = {length + 1 for length in above | {0} if length < len(steps) and steps[length] == name}
        found[context] = len(steps) in here
        reached.append(frozenset(here | above) if between[context] else frozenset(here))
    return found


def outermost(tree: ContextTree, chosen: Bools) -> Bools:
    """Those of some contexts that have none of them above."""
    out = np.zeros(len(chosen), np.bool_)
    end = 0
    for context in np.flatnonzero(chosen).tolist():
        if context >= end:
            out[context] = True
            end = int(tree.subtree_end[context])
    return out
