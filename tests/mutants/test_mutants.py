"""Mutants: one change each, in functions that are loaded, and noticed by tests that look there."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.mutants.mutating import Mutant, find_mutants, put_in_place
from tests.mutants.running import find_tests, list_modules

CODE = '''"""Twice 3 + 4."""
from functools import cache, cached_property

LIMIT = 3 + 4

class Box:
    size: int = 3

    def is_full(self, n: int = 5) -> bool:
        return n >= self.size and True

    @cached_property
    def twice(self) -> int:
        return self.size * 2

@cache
def add(a: int, b: int) -> int:
    if a == b:
        raise ValueError(f"{a + b}")
    return a + b
'''
CHANGES = [
    ("Box.is_full", "n >= self.size and True  ->  n >= self.size or True"),
    ("Box.is_full", "n >= self.size  ->  n > self.size"),
    ("Box.is_full", "True  ->  False"),
    ("Box.twice", "self.size * 2  ->  self.size // 2"),
    ("Box.twice", "2  ->  3"),
    ("add", "if a == b:  ->  if not a == b:"),
    ("add", "a == b  ->  a != b"),
    ("add", "a + b  ->  a - b"),
]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "mutated.py"
    path.write_text(CODE)
    module = ModuleType("mutated")
    exec(compile(CODE, str(path), "exec"), module.__dict__)
    monkeypatch.setitem(sys.modules, "mutated", module)
    return path


def test_all_places_of_functions_are_found(file: Path) -> None:
    """No texts, annotations, defaults, errors, or what a module does when it is imported."""
    assert [(mutant.function, mutant.text) for mutant in find_mutants(file, "mutated")] == CHANGES


def put(file: Path, text: str) -> Mutant:
    [mutant] = [mutant for mutant in find_mutants(file, "mutated") if mutant.text.startswith(text)]
    put_in_place(mutant, file)
    return mutant


def test_whoever_has_imported_a_function_meets_the_mutant(file: Path) -> None:
    add, box = sys.modules["mutated"].add, sys.modules["mutated"].Box()
    put(file, "a + b")
    assert add(5, 3) == 2
    put(file, "self.size * 2")
    assert box.twice == 1
    put(file, "n >= self.size  ->")
    assert not box.is_full(3)


def test_every_part_has_mutants_and_tests() -> None:
    modules = list_modules()
    assert {module.split(".")[1] for module in modules} == {"binary", "model", "algebra", "modeling", "formats"}
    assert "callgrove.binary.files" in modules
    assert find_tests("callgrove.binary.manifest")[0].name == "test_manifest.py"
    assert all(find_tests(module) for module in list(modules)[::40])
