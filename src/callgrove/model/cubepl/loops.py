"""Which loops can be executed for all their counts at once.

    while ( ${i} < ${cube::#callpaths} ) { ${r} = ${cube::callpath::calleeid}[${i}]; ${m}[${i}] = 1; ${i} = ${i} + 1; }

A loop that counts up by one, where no count reads what another may have assigned: plain variables are assigned before
they are read in the same count, and elements of others are read and written at the counter alone. So the counts can be
executed in any order, or all together.
"""

from __future__ import annotations

from dataclasses import dataclass

from callgrove.model.cubepl.nodes import (
    Assignment,
    Block,
    Call,
    Comparison,
    Declaration,
    If,
    Node,
    Number,
    Setting,
    Sum,
    Variable,
    While,
    walk,
)

__all__ = ["Loop", "plan_loop"]


@dataclass(frozen=True)
class Loop:
    """A loop whose counts do not depend on one another. `scalars` are assigned before they are read in every count;
    `arrays` are read and written at the counter only."""

    counter: str
    bound: Node
    is_below: bool  # < and not <=
    body: tuple[Node, ...]
    scalars: frozenset[str]
    arrays: frozenset[str]


def plan_loop(node: While) -> Loop | None:
    """Return how to execute a loop for all its counts at once; None where it must go step by step."""
    condition = node.condition
    if not (isinstance(condition, Comparison) and condition.operator in ("<", "<=") and node.body):
        return None
    counter, bound = condition.left, condition.right
    if not (isinstance(counter, Variable) and counter.index is None and _counts_up(node.body[-1], counter.name)):
        return None
    body = node.body[:-1]
    scalars: set[str] = set()
    arrays: set[str] = set()
    for part in (part for statement in body for part in walk(statement)):
        if isinstance(part, While | Declaration | Setting | Block):
            return None
        if isinstance(part, Call) and part.name in ("random", "defined", "sizeof"):
            return None
        if isinstance(part, Assignment):
            is_array = _is_at(part.target, counter.name)
            if part.target.name == counter.name or (part.target.index is not None and not is_array):
                return None
            (arrays if is_array else scalars).add(part.target.name)
    written = scalars | arrays
    fixed = isinstance(bound, Number) or (isinstance(bound, Variable) and bound.index is None)
    if scalars & arrays or not fixed or (isinstance(bound, Variable) and bound.name in written | {counter.name}):
        return None
    loop = Loop(counter.name, bound, condition.operator == "<", body, frozenset(scalars), frozenset(arrays))
    return loop if _is_independent(loop, body, set()) is not None else None


def _counts_up(statement: Node, counter: str) -> bool:
    """Return whether a statement is ${counter} = ${counter} + 1."""
    if not isinstance(statement, Assignment) or not isinstance(statement.value, Sum):
        return False
    terms = statement.value.terms
    if not (_is_scalar(statement.target, counter) and len(terms) == 2 and terms[1][0] == "+"):
        return False
    one, other = terms[0][1], terms[1][1]
    return _is_scalar(one, counter) and isinstance(other, Number) and other.value == 1


def _is_scalar(node: Node, name: str) -> bool:
    return isinstance(node, Variable) and node.name == name and node.index is None


def _is_at(node: Variable, counter: str) -> bool:
    return node.index is not None and _is_scalar(node.index, counter)


def _is_independent(loop: Loop, body: tuple[Node, ...], assigned: set[str]) -> set[str] | None:
    """Return the variables that are assigned after statements; None where one is read that another count may have
    assigned."""
    for statement in body:
        if isinstance(statement, Assignment):
            index = statement.target.index
            if not all(_may_read(loop, part, assigned) for part in (statement.value, *([index] if index else []))):
                return None
            assigned = assigned | {statement.target.name}
        elif isinstance(statement, If):
            after: list[set[str]] = []
            for branch in statement.branches:
                if branch.condition is not None and not _may_read(loop, branch.condition, assigned):
                    return None
                inside = _is_independent(loop, branch.body, assigned)
                if inside is None:
                    return None
                after.append(inside)
            if statement.branches[-1].condition is None:
                assigned = set.intersection(*after)
    return assigned


def _may_read(loop: Loop, node: Node, assigned: set[str]) -> bool:
    for part in walk(node):
        if isinstance(part, Variable):
            if part.name in loop.scalars and (part.index is not None or part.name not in assigned):
                return False
            if part.name in loop.arrays and not _is_at(part, loop.counter):
                return False
    return True
