"""Formulas of users as CubePL, inside of the grammar that CubeLib reads.

    ipc = instructions / cycles          POSTDERIVED             metric::instructions() / metric::cycles()
    each(time / visits)                  PREDERIVED_EXCLUSIVE    metric::time(e) / metric::visits(e)
    each_incl(excl(time) / visits)       PREDERIVED_INCLUSIVE    metric::time(e) / metric::visits(i)
    log(x, 2), ln(x), sum(a, b, c)                               log(x) / log(2), log(x), a + b + c
    min(a, b, c), a^b^c, 1e-3                                    min(min(a, b), c), a^(b^c), 0.001

The value at the roots and statistics over profiles have no equal there. CubeLib differs where there is no value: 0/0
is 0 and the root or logarithm of a negative number is 0, where these are missing here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from callgrove.model.definitions import UserFormula
from callgrove.model.derived import When
from callgrove.model.formulas import Call, Expression, Number, Operand, fold, postorder
from callgrove.model.metrics import Scope

__all__ = ["KINDS", "may_become_zero", "write_cubepl"]

KINDS = {
    When.AFTER: "POSTDERIVED",
    When.EACH: "PREDERIVED_EXCLUSIVE",
    When.EACH_INCLUSIVE: "PREDERIVED_INCLUSIVE",
}
FLAVOURS = {Scope.EXCLUSIVE: "e", Scope.INCLUSIVE: "i"}
OF_CELL = {When.AFTER: "", When.EACH: "e", When.EACH_INCLUSIVE: "i"}  # what metrics of no named scope are in
NAME = re.compile(r"[A-Za-z0-9_:=]+")  # of a metric, as formulas can name it
NESTED = ("fixed::", "context::", "call::")  # how no name may begin
ADDED, MULTIPLIED, SIGNED, ATOM = range(4)  # how tightly texts bind
SAME = ("sqrt", "exp", "abs", "floor", "ceil")
LONGEST = 1 << 16  # characters

Part = tuple[str, int]


class _NotThere(Exception):
    """The grammar has no words for a part of a formula."""


def write_cubepl(formula: UserFormula, name_of: Callable[[str], str]) -> str | None:
    """Return a formula in CubePL, over the names that a file has for metrics; None where CubePL cannot say it."""

    def combine(node: Expression, args: Sequence[Part]) -> Part:
        if isinstance(node, Number):
            return _write_number(node.value)
        if isinstance(node, Operand):
            flavour = OF_CELL[formula.when] if node.scope is None else FLAVOURS[node.scope]
            return _write_reference(name_of(node.quantity), flavour), ATOM
        if not isinstance(node, Call):
            raise _NotThere
        return _write_call(node.name, args)

    try:
        text = fold(formula.tree, combine)[0]
    except _NotThere:
        return None
    return text if len(text) <= LONGEST else None


def may_become_zero(formula: UserFormula) -> bool:
    """Return whether CubePL computes 0, or what follows from it, where a formula may have no value: 0/0, which inside
    of each is 0 here as well, and roots and logarithms of negative numbers."""
    calls = [node for node in postorder(formula.tree) if isinstance(node, Call)]
    if any(call.name in ("sqrt", "ln", "log") for call in calls):
        return True
    divisors = [call.args[1] for call in calls if call.name == "/"]
    return formula.when == When.AFTER and not all(isinstance(by, Number) and by.value for by in divisors)


def _write_number(value: float) -> Part:
    text = np.format_float_positional(abs(value), trim="-")
    return (f"-{text}", SIGNED) if value < 0 else (text, ATOM)


def _write_reference(name: str, flavour: str) -> str:
    if not NAME.fullmatch(name) or name.startswith(NESTED):
        raise _NotThere
    return f"metric::{name}({flavour})"


def _write_call(name: str, args: Sequence[Part]) -> Part:
    if name in ("+", "-", "sum"):
        sign = "-" if name == "-" else "+"
        return f" {sign} ".join([args[0][0], *(_in_brackets(arg, MULTIPLIED) for arg in args[1:])]), ADDED
    if name in ("*", "/"):
        return f"{_in_brackets(args[0], MULTIPLIED)} {name} {_in_brackets(args[1], ATOM)}", MULTIPLIED
    if name == "^":
        return f"{_in_brackets(args[0], ATOM)}^{_in_brackets(args[1], ATOM)}", SIGNED
    if name == "neg":
        return f"-{_in_brackets(args[0], ATOM)}", SIGNED
    return _write_function(name, [text for text, _ in args])


def _write_function(name: str, args: Sequence[str]) -> Part:
    if name in SAME:
        return f"{name}({args[0]})", ATOM
    if name in ("ln", "log"):
        natural = [f"log({arg})" for arg in args]
        return " / ".join(natural), ATOM if len(natural) == 1 else MULTIPLIED
    if name in ("min", "max"):
        text = args[0]
        for other in args[1:]:
            text = f"{name}({text}, {other})"
        return text, ATOM if len(args) > 1 else ADDED
    raise _NotThere


def _in_brackets(part: Part, least: int) -> str:
    """Return a text that binds at least so tightly; a sign never stands beside an operator."""
    text, binds = part
    return text if binds >= least and not text.startswith("-") else f"({text})"
