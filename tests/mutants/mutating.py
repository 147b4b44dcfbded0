"""What a mutant is: one comparison, operator, constant or condition of a function that is another one.

The code of a function that is loaded is replaced, so that everything that has imported it meets the mutant. Texts,
annotations, decorators and what modules do when they are imported stay as they are.
"""

from __future__ import annotations

import ast
import copy
import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

__all__ = ["MARK", "Mutant", "find_mutants", "mark_places", "put_in_place"]

MARK = "__mark_place__"  # what marked code calls, a name of `builtins`

COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}


@dataclass(frozen=True)
class Mutant:
    """The `number`th change that a module can have."""

    module: str
    number: int
    function: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.module}:{self.line} ({self.function}): {self.text}"


def find_mutants(file: Path, module: str) -> list[Mutant]:
    """Return all mutants of a module."""
    tree = ast.parse(file.read_text("utf-8"))
    return [
        Mutant(module, number, name, node.lineno, _describe(node)) for number, (name, node) in enumerate(_places(tree))
    ]


def _places(tree: ast.Module) -> Iterator[tuple[str, Any]]:
    """Yield what can be changed, with the function of the module, or method of one of its classes, that it lies in."""
    for name, function in _functions(tree, ""):
        for statement in function.body:
            for node in _walk(statement):
                if _can_change(node):
                    yield name, node


def _functions(parent: Any, prefix: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in parent.body:
        if isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef) and not any(map(_shares_name, node.decorator_list)):
            yield prefix + node.name, node


def _shares_name(decorator: ast.expr) -> bool:
    """Tell whether a decorator makes a second function of a name: a setter or an overload."""
    match decorator:
        case ast.Attribute(attr="setter" | "deleter") | ast.Name(id="overload"):
            return True
    return False


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """Yield nodes in order, without annotations and without what is raised: its texts are not what is tested."""
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list") or isinstance(node, ast.Raise):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _walk(child)


def _describe(node: Any) -> str:
    if isinstance(node, ast.If | ast.While):  # without what it holds
        node = type(node)(test=node.test, body=[ast.Pass()], orelse=[])
    changed = copy.deepcopy(node)
    _change(changed)
    before, after = ast.unparse(node), ast.unparse(changed)
    return f"{before.splitlines()[0][:70]}  ->  {after.splitlines()[0][:70]}"


def _can_change(node: Any) -> bool:
    match node:
        case ast.BinOp():
            return type(node.op) in COMPUTED and not isinstance(node.left, ast.Constant | ast.JoinedStr)
        case ast.Constant():
            return isinstance(node.value, int)
    return isinstance(node, ast.Compare | ast.BoolOp | ast.If | ast.While)


def _change(node: Any) -> None:
    """Change, in place, a node that can be changed."""
    match node:
        case ast.Compare():
            node.ops[0] = COMPARED[type(node.ops[0])]()
        case ast.BinOp(op=op):
            node.op = COMPUTED[type(op)]()
        case ast.BoolOp():
            node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        case ast.Constant(value=bool()):
            node.value = not node.value
        case ast.Constant(value=int() as value):
            node.value = value + 1
        case ast.If() | ast.While():
            node.test = ast.UnaryOp(ast.Not(), node.test)
    ast.fix_missing_locations(node)


# -- in place ----------------------------------------------------------------------------------------------------------


def put_in_place(mutant: Mutant, file: Path) -> None:
    """Give the function of a module that is imported the code of a mutant."""
    tree = ast.parse(file.read_text("utf-8"))
    [node] = [node for number, (_, node) in enumerate(_places(tree)) if number == mutant.number]
    _change(node)
    _exchange(compile(ast.fix_missing_locations(tree), str(file), "exec"), mutant.module, mutant.function)


def mark_places(module: str, file: Path, first: int) -> None:
    """Let all functions of a module that is imported call `MARK` with the number of a place, counted from `first`, and
    1, whenever they evaluate it."""
    tree = ast.parse(file.read_text("utf-8"))
    places = list(_places(tree))
    names = {name for name, _ in places}
    _Marker({id(node): first + number for number, (_, node) in enumerate(places)}).visit(tree)
    compiled = compile(ast.fix_missing_locations(tree), str(file), "exec")
    for name in sorted(names):
        _exchange(compiled, module, name)


class _Marker(ast.NodeTransformer):
    """Turns what can be changed into `MARK(number, 1) or what it is`; a pattern is marked where its subject is."""

    def __init__(self, numbers: dict[int, int]) -> None:
        self.numbers = numbers

    def visit(self, node: Any) -> Any:
        number = self.numbers.get(id(node))
        if isinstance(node, ast.Match):
            inside = [
                self.numbers[id(one)]
                for case in node.cases
                for one in ast.walk(case.pattern)
                if id(one) in self.numbers
            ]
            node.cases = [self._visit_case(case) for case in node.cases]
            node.subject = self.visit(node.subject)
            for one in inside:
                node.subject = _mark(one, node.subject)
            return node
        node = self.generic_visit(node)
        if number is None:
            return node
        if isinstance(node, ast.If | ast.While):
            node.test = _mark(number, node.test)
            return node
        return _mark(number, node)

    def _visit_case(self, case: ast.match_case) -> ast.match_case:
        if case.guard is not None:
            case.guard = self.visit(case.guard)
        case.body = [self.visit(statement) for statement in case.body]
        return case


def _mark(number: int, node: Any) -> ast.BoolOp:
    call = ast.Call(ast.Name(MARK, ast.Load()), [ast.Constant(number), ast.Constant(1)], [])
    return ast.copy_location(ast.BoolOp(ast.Or(), [call, node]), node)


def _exchange(compiled: CodeType, module: str, name: str) -> None:
    """Give a function its code in a module that was compiled anew, where it begins in the same line."""
    function = _find_function(importlib.import_module(module), name)
    [code] = [code for code in _find_codes(compiled, name) if code.co_firstlineno == function.__code__.co_firstlineno]
    function.__code__ = code


def _find_codes(code: CodeType, name: str) -> list[CodeType]:
    first, _, rest = name.partition(".")
    inner = [part for part in code.co_consts if isinstance(part, CodeType) and part.co_name == first]
    return [found for part in inner for found in _find_codes(part, rest)] if rest else inner


def _find_function(holder: Any, name: str) -> FunctionType:
    """Return a function or method behind all that decorators made of it."""
    *classes, last = name.split(".")
    for one in classes:
        holder = getattr(holder, one)
    found = vars(holder)[last]
    while not isinstance(found, FunctionType) or hasattr(found, "__wrapped__"):
        found = _unwrap(found)
    return found


def _unwrap(found: Any) -> Any:
    match found:
        case property():
            return found.fget
        case cached_property():
            return found.func
        case staticmethod() | classmethod():
            return found.__func__
        case _:
            return found.__wrapped__
