"""Who calls whom in the code of one module, and the call paths that lead to an instruction.

GPU samples have an address and no callers. The structure file lists the calls of each function, so the callers that are
possible can be found (hpcrun-and-prof.md 8):

    callee -> (call instruction, caller), recursion removed
    template of an address: a function that nobody calls, then call instructions down to the address's function

Recursion is removed by strongly connected components: calls inside of one are left out; a call from outside that leads
to the function where the search for the component began also leads to its other functions, as the genuine tool has it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from callgrove.formats.hpcrun.hpcstruct_tables import ScopeKind, Structure
from callgrove.model.arrays import Ints

__all__ = ["MOST_TEMPLATES", "CallGraph"]

MOST_TEMPLATES = 4096  # call paths to one function; more of them say nothing
Edge = tuple[int, int]  # address of the call, function that it lies in


@dataclass(frozen=True)
class CallGraph:
    """`callers` of each function, by its row in the structure, without recursion."""

    callers: dict[int, list[Edge]]

    @classmethod
    def of(cls, structure: Structure, module: int) -> CallGraph | None:
        """The calls of a module; None where they are not listed, or lead to what is no function."""
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
        """The calls on each path down to a function, in the order of the reversed paths; None of too many."""
        found: list[tuple[int, ...]] = []
        pending: list[tuple[int, tuple[int, ...]]] = [(function, ())]
        while pending:
            here, calls = pending.pop()
            above = self.callers.get(here, [])
            if not above:
                found.append(calls)
            pending += [(caller, (address, *calls)) for address, caller in above]
            if len(found) + len(pending) > MOST_TEMPLATES:
                return None
        return sorted(found, key=lambda calls: calls[::-1])


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
    """The component of each function, named by the function that its search began from, and all those names. Tarjan's
    algorithm along callers, in the order of the document, without recursion."""
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
