"""Formula trees: Number, Variable and Call, and the passes over them.

Specification: the formula grammar of hpctoolkit-databases.md A.5 and B.2; `formulas` reads and computes them.

    Call("-", (Variable(1), Call("neg", (Number(2),))))        $1 - -(2)

Operators are calls named "+", "-", "*", "/", "^" and "neg". Long sums make deep trees, so nothing here recurses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

__all__ = [
    "ARITIES",
    "PRECEDENCES",
    "THREAD_VALUE",
    "Call",
    "Expression",
    "Number",
    "Variable",
    "arity_words",
    "fold",
    "postorder",
    "render",
    "renumber",
    "takes",
]

MANY = 1_000_000_000
ARITIES: Mapping[str, tuple[int, int]] = {
    **dict.fromkeys(("+", "-", "*", "/", "^"), (2, 2)),
    **dict.fromkeys(("neg", "sqrt", "ln", "floor", "ceil"), (1, 1)),
    **dict.fromkeys(("min", "max", "sum"), (1, MANY)),
    "log": (1, 2),
}
PRECEDENCES: Mapping[str, int] = {"+": 1, "-": 1, "*": 2, "/": 2, "neg": 3, "^": 4}
ATOM = 5  # binds tighter than every operator

T = TypeVar("T")


class Expression:
    """A formula as a tree: Number, Variable or Call."""

    __slots__ = ()

    def variables(self) -> frozenset[int]:
        """The ids of the columns it needs; `$$` has none."""
        leaves = (node for node in postorder(self) if isinstance(node, Variable))
        return frozenset(leaf.id for leaf in leaves if leaf.id is not None)


@dataclass(frozen=True, slots=True)
class Number(Expression):
    """A constant, finite."""

    value: float

    def __post_init__(self) -> None:
        if not math.isfinite(self.value):
            raise ValueError(f"a formula cannot hold the number {self.value}")


@dataclass(frozen=True, slots=True)
class Variable(Expression):
    """The column with this id, or with None the value of one thread (`$$`)."""

    id: int | None


THREAD_VALUE = Variable(None)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Call(Expression):
    """An operator or function applied to its arguments."""

    name: str
    args: tuple[Expression, ...]

    def __post_init__(self) -> None:
        if self.name not in ARITIES:
            raise ValueError(f"there is no function {self.name!r} in formulas")
        if not takes(self.name, len(self.args)):
            raise ValueError(f"{self.name} takes {arity_words(self.name)}, not {len(self.args)}")

    # The generated methods would recurse, and fail on long sums.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Call) and (self is other or _postfix(self) == _postfix(other))

    def __hash__(self) -> int:
        return hash(_postfix(self))

    def __repr__(self) -> str:
        return f"parse({render(self)!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return _from_postfix, (_postfix(self),)


def takes(name: str, n_args: int) -> bool:
    """Whether a function can be called with that many arguments."""
    least, most = ARITIES[name]
    return least <= n_args <= most


def arity_words(name: str) -> str:
    """How many arguments a function takes, in words."""
    least, most = ARITIES[name]
    if most == MANY:
        return f"at least {least} argument"
    return f"{least} argument{'s' * (least > 1)}" if least == most else f"{least} or {most} arguments"


def postorder(expression: Expression) -> list[Expression]:
    """Every node after its arguments."""
    reverse: list[Expression] = []
    stack = [expression]
    while stack:
        node = stack.pop()
        reverse.append(node)
        if isinstance(node, Call):
            stack.extend(node.args)
    return reverse[::-1]


def fold(expression: Expression, combine: Callable[[Expression, Sequence[T]], T]) -> T:
    """Replace each node by a value made from the values of its arguments."""
    values: list[T] = []
    for node in postorder(expression):
        first = len(values) - (len(node.args) if isinstance(node, Call) else 0)
        values[first:] = [combine(node, values[first:])]
    return values[0]


def _postfix(expression: Expression) -> tuple[Expression | tuple[str, int], ...]:
    """The tree without nesting: leaves, and (name, number of arguments) for calls."""
    return tuple((n.name, len(n.args)) if isinstance(n, Call) else n for n in postorder(expression))


def _from_postfix(tokens: Sequence[Expression | tuple[str, int]]) -> Expression:
    values: list[Expression] = []
    for token in tokens:
        if isinstance(token, Expression):
            values.append(token)
        else:
            name, n_args = token
            first = len(values) - n_args
            values[first:] = [Call(name, tuple(values[first:]))]
    return values[0]


def renumber(expression: Expression, ids: Mapping[int, int]) -> Expression:
    """The same formula over other ids; a KeyError names the id that has no new one."""

    def combine(node: Expression, args: Sequence[Expression]) -> Expression:
        if isinstance(node, Call):
            return Call(node.name, tuple(args))
        return Variable(ids[node.id]) if isinstance(node, Variable) and node.id is not None else node

    return fold(expression, combine)


def render(expression: Expression) -> str:
    """Text that parses back to an equal tree, with as few brackets as that allows."""
    return fold(expression, _render_node)[0]


def _render_node(node: Expression, args: Sequence[tuple[str, int]]) -> tuple[str, int]:
    """The text of a node and how tightly it binds."""
    if isinstance(node, Number):
        text = repr(float(node.value)).removesuffix(".0")
        return text, PRECEDENCES["neg"] if text.startswith("-") else ATOM
    if isinstance(node, Variable):
        return "$$" if node.id is None else f"${node.id}", ATOM
    assert isinstance(node, Call)
    precedence = PRECEDENCES.get(node.name)
    if precedence is None:
        return f"{node.name}({', '.join(text for text, _ in args)})", ATOM
    if node.name == "neg":
        # "-2" is a negative number, "-(2)" the negation of a number.
        least = ATOM + 1 if isinstance(node.args[0], Number) else precedence
        return "-" + _bracketed(args[0], least), precedence
    right_first = node.name == "^"
    left = _bracketed(args[0], precedence + right_first)
    right = _bracketed(args[1], precedence + (not right_first))
    return left + node.name + right, precedence


def _bracketed(part: tuple[str, int], least: int) -> str:
    text, precedence = part
    return text if precedence >= least else f"({text})"
