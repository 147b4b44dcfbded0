"""The tree of a formula of CubePL: values, conditions, statements.

Sums, products and chains of conditions are flat however long they are, so that a tree is as deep as the brackets of its
text. Every node knows the character where it begins; line and column are counted when an error needs them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

from callgrove.model.cubepl.patterns import Pattern

__all__ = [
    "Assignment",
    "Block",
    "Branch",
    "Call",
    "Chain",
    "Comparison",
    "Condition",
    "CubePlError",
    "Declaration",
    "If",
    "Match",
    "Negative",
    "Node",
    "Not",
    "Number",
    "Power",
    "Product",
    "Reference",
    "Setting",
    "Sum",
    "Text",
    "TooMuchWork",
    "Truth",
    "Variable",
    "While",
    "children",
    "walk",
]


class CubePlError(ValueError):
    """What is wrong with a formula, and at which character of its text."""

    def __init__(self, at: int, problem: str) -> None:
        super().__init__(at, problem)
        self.at, self.problem = at, problem

    def __str__(self) -> str:
        return self.problem

    def in_text(self, text: str) -> str:
        """Return the problem with its place as people count: line and column from 1."""
        line = text.count("\n", 0, self.at) + 1
        column = self.at - (text.rfind("\n", 0, self.at) + 1) + 1
        return f"line {line}, column {column}: {self.problem}"


class TooMuchWork(CubePlError):
    """A formula that did not end within the work that it may take."""


# -- values ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Node:
    """A part of a formula; `at` is the character where it begins."""

    at: int


@dataclass(frozen=True, slots=True)
class Number(Node):
    value: float


@dataclass(frozen=True, slots=True)
class Text(Node):
    value: str


@dataclass(frozen=True, slots=True)
class Variable(Node):
    """A variable or one element of it; without an index, the first element."""

    name: str
    index: Node | None = None


@dataclass(frozen=True, slots=True)
class Sum(Node):
    """Terms, each with `+` or `-` before it."""

    terms: tuple[tuple[str, Node], ...]


@dataclass(frozen=True, slots=True)
class Product(Node):
    """Factors, each with `*` or `/` before it."""

    factors: tuple[tuple[str, Node], ...]


@dataclass(frozen=True, slots=True)
class Power(Node):
    base: Node
    exponents: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Negative(Node):
    operand: Node


@dataclass(frozen=True, slots=True)
class Call(Node):
    """A function of FUNCTIONS, or one of OF_NAMES with a text as its argument."""

    name: str
    args: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Reference(Node):
    """The value of a metric. `form` is empty, fixed, context or call; modifiers are those written. `cnode` and `place`
    are what form `call` names."""

    form: str
    metric: str
    modifiers: tuple[str, ...]
    cnode: Node | None = None
    place: Node | None = None


@dataclass(frozen=True, slots=True)
class Block(Node):
    statements: tuple[Node, ...]
    result: Node


# -- conditions


@dataclass(frozen=True, slots=True)
class Condition(Node):
    """True or false."""


@dataclass(frozen=True, slots=True)
class Truth(Condition):
    value: bool


@dataclass(frozen=True, slots=True)
class Comparison(Condition):
    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Match(Condition):
    """Whether a regular expression occurs in a text. A broken one, None, occurs nowhere."""

    text: Node
    pattern: Pattern | None
    source: str


@dataclass(frozen=True, slots=True)
class Not(Condition):
    operand: Node


@dataclass(frozen=True, slots=True)
class Chain(Condition):
    """Conditions, each but the first with `and` or `or` before it."""

    parts: tuple[tuple[str, Node], ...]


# -- statements


@dataclass(frozen=True, slots=True)
class Assignment(Node):
    target: Variable
    value: Node


@dataclass(frozen=True, slots=True)
class Branch(Node):
    """Statements under a condition; None is `else`."""

    condition: Node | None
    body: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class If(Node):
    branches: tuple[Branch, ...]


@dataclass(frozen=True, slots=True)
class While(Node):
    condition: Node
    body: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Declaration(Node):
    """`global` or `local`."""

    word: str
    name: str


@dataclass(frozen=True, slots=True)
class Setting(Node):
    """A property of a metric that is set: only "value" to "VOID" means something."""

    metric: str
    key: str
    value: str


def walk(root: Node) -> Iterator[Node]:
    """Yield a node and all below it, in the order of the text."""
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(children(node)))


def children(node: Node) -> list[Node]:
    """Return the parts of a node, in the order of the text."""
    out: list[Node] = []
    for field in fields(node):
        value = getattr(node, field.name)
        if isinstance(value, Node):
            out.append(value)
        elif isinstance(value, tuple):
            out += [part[1] if isinstance(part, tuple) else part for part in value if not isinstance(part, str)]
    return out
