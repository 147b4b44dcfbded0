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

__all__ = ["Mutant", "find_mutants", "put_in_place"]

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
                if _change(copy.deepcopy(node)):
                    yield name, node


def _functions(parent: Any, prefix: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in parent.body:
        if isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef):
            yield prefix + node.name, node


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """Yield nodes in order, without annotations and without what is raised: its texts are not what is tested."""
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list") or isinstance(node, ast.Raise):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _walk(child)


def _describe(node: ast.AST) -> str:
    changed = copy.deepcopy(node)
    _change(changed)
    before, after = ast.unparse(node), ast.unparse(changed)
    return f"{before.splitlines()[0][:70]}  ->  {after.splitlines()[0][:70]}"


def _change(node: Any) -> bool:
    """Change a node in place, and return whether there is anything to change."""
    match node:
        case ast.Compare():
            node.ops[0] = COMPARED[type(node.ops[0])]()
        case ast.BinOp(op=op) if type(op) in COMPUTED and not isinstance(node.left, ast.Constant | ast.JoinedStr):
            node.op = COMPUTED[type(op)]()
        case ast.BoolOp():
            node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        case ast.Constant(value=bool()):
            node.value = not node.value
        case ast.Constant(value=int() as value):
            node.value = value + 1
        case ast.If() | ast.While():
            node.test = ast.UnaryOp(ast.Not(), node.test)
        case _:
            return False
    ast.fix_missing_locations(node)
    return True


# -- in place ----------------------------------------------------------------------------------------------------------


def put_in_place(mutant: Mutant, file: Path) -> None:
    """Give the function of a module that is imported the code of a mutant."""
    tree = ast.parse(file.read_text("utf-8"))
    [node] = [node for number, (_, node) in enumerate(_places(tree)) if number == mutant.number]
    _change(node)
    code = _find_code(compile(ast.fix_missing_locations(tree), str(file), "exec"), mutant.function)
    _find_function(importlib.import_module(mutant.module), mutant.function).__code__ = code


def _find_code(code: CodeType, name: str) -> CodeType:
    first, _, rest = name.partition(".")
    [inner] = [part for part in code.co_consts if isinstance(part, CodeType) and part.co_name == first][-1:]
    return _find_code(inner, rest) if rest else inner


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
