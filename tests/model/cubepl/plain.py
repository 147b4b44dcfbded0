"""CubePL in the plainest way: one cell at a time, step by step, with Python's own numbers. What tests compare with."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from callgrove.model.cubepl.nodes import (
    Assignment,
    Block,
    Call,
    Chain,
    Comparison,
    Declaration,
    If,
    Match,
    Negative,
    Node,
    Not,
    Number,
    Power,
    Product,
    Reference,
    Sum,
    Text,
    Truth,
    Variable,
    While,
)

Plain = float | str
NAN = float("nan")


def number(value: Plain) -> float:
    if isinstance(value, float):
        return value
    found = re.match(r"\s*[+-]?(\d+\.?\d*|\.\d+)", value)
    return float(found[0]) if found else 0.0


def text(value: Plain) -> str:
    return value if isinstance(value, str) else repr(value).removesuffix(".0")


@dataclass
class PlainInterpreter:
    """One evaluation. `known` are reserved names and what is global; operands come from a function."""

    operand: Callable[[Reference], float]
    known: dict[tuple[str, int], Plain] = field(default_factory=dict)
    variables: dict[tuple[str, int], Plain] = field(default_factory=dict)

    def value(self, node: Node) -> Plain:
        match node:
            case Number() | Text():
                return node.value
            case Variable():
                index = 0 if node.index is None else int(self.number(node.index))
                assert index >= 0
                return self.variables.get((node.name, index), self.known.get((node.name, index), ""))
            case Sum():
                return sum((self.number(t) if s == "+" else -self.number(t)) for s, t in node.terms)
            case Product():
                out = self.number(node.factors[0][1])
                for sign, factor in node.factors[1:]:
                    other = self.number(factor)
                    out = out * other if sign == "*" else 0.0 if out == 0 else NAN if other == 0 else out / other
                return out
            case Power():
                out = self.number(node.base)
                for exponent in node.exponents:
                    out = power(out, self.number(exponent))
                return out
            case Negative():
                return -self.number(node.operand)
            case Call():
                return FUNCTIONS[node.name](*map(self.number, node.args))
            case Reference():
                return self.operand(node)
            case Block():
                self.run(node.statements)
                return self.value(node.result)
        raise AssertionError(node)

    def number(self, node: Node) -> float:
        return 0.0 if isinstance(node, Text) else number(self.value(node))

    def truth(self, node: Node) -> bool:
        match node:
            case Truth():
                return node.value
            case Not():
                return not self.truth(node.operand)
            case Match():
                return bool(re.search(node.source, text(self.value(node.text))))
            case Chain():
                out = self.truth(node.parts[0][1])
                for word, part in node.parts[1:]:
                    other = self.truth(part)
                    out = (out and other) if word == "and" else (out or other)
                return out
            case Comparison(operator="eq"):
                return text(self.value(node.left)) == text(self.value(node.right))
            case Comparison(operator="seq"):
                return text(self.value(node.left)).lower() == text(self.value(node.right)).lower()
            case Comparison():
                a, b = self.number(node.left), self.number(node.right)
                return {"==": a == b, "!=": a != b, "<": a < b, ">": a > b, "<=": a <= b, ">=": a >= b}[node.operator]
        raise AssertionError(node)

    def run(self, statements: tuple[Node, ...]) -> None:
        for node in statements:
            match node:
                case Assignment():
                    value = self.value(node.value)
                    index = 0 if node.target.index is None else int(self.number(node.target.index))
                    self.variables[node.target.name, index] = value
                case If():
                    for branch in node.branches:
                        if branch.condition is None or self.truth(branch.condition):
                            self.run(branch.body)
                            break
                case While():
                    while self.truth(node.condition):
                        self.run(node.body)
                case Declaration():
                    pass
                case _:
                    raise AssertionError(node)


def power(x: float, y: float) -> float:
    if x == 1 or y == 0:
        return 1.0
    try:
        return NAN if x < 0 and not float(y).is_integer() else math.pow(x, y)
    except OverflowError:
        return math.inf if x > 0 or y % 2 == 0 else -math.inf
    except ValueError:
        return math.copysign(math.inf, x) if y % 2 == 1 else math.inf


def least(a: float, b: float) -> float:
    return NAN if math.isnan(a) or math.isnan(b) else min(a, b)


def most(a: float, b: float) -> float:
    return NAN if math.isnan(a) or math.isnan(b) else max(a, b)


def root(x: float) -> float:
    return 0.0 if x < 0 else math.sqrt(x)


def whole(function: Callable[[float], int]) -> Callable[[float], float]:
    return lambda x: float(function(x)) if math.isfinite(x) else x


FUNCTIONS: dict[str, Callable[..., float]] = {
    "sqrt": root,
    "abs": abs,
    "sgn": lambda x: x if math.isnan(x) else float((x > 0) - (x < 0)),
    "pos": lambda x: most(x, 0.0),
    "neg": lambda x: least(x, 0.0),
    "floor": whole(math.floor),
    "ceil": whole(math.ceil),
    "min": least,
    "max": most,
}
