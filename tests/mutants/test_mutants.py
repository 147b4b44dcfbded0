"""Mutants: one change each, in functions that are loaded, and noticed by tests that look there."""

from __future__ import annotations

import builtins
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest

from tests.mutants import reaching
from tests.mutants.mutating import MARK, Mutant, find_mutants, mark_places, put_in_place
from tests.mutants.reaching import list_modules
from tests.mutants.running import KILLED, LATE, SURVIVED, UNREACHED
from tests.requirements import ROOT

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

    @property
    def half(self) -> int:
        return self.size

    @half.setter
    def half(self, value: int) -> None:
        self.size = value * 2

@cache
def add(a: int, b: int) -> int:
    if a == b:
        raise ValueError(f"{a + b}")
    return a + b

def name(n: int) -> str:
    match n:
        case 1:
            return "one"
        case 2 if n > 3:
            return "never"
    while n > 2:
        n = n - 1
    return "many"
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
    ("name", "1  ->  2"),
    ("name", "2  ->  3"),
    ("name", "n > 3  ->  n >= 3"),
    ("name", "3  ->  4"),
    ("name", "while n > 2:  ->  while not n > 2:"),
    ("name", "n > 2  ->  n >= 2"),
    ("name", "2  ->  3"),
    ("name", "n - 1  ->  n + 1"),
    ("name", "1  ->  2"),
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


def test_marks_say_what_is_evaluated(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[int] = set()
    monkeypatch.setattr(builtins, MARK, lambda number, _: seen.add(number), raising=False)
    mark_places("mutated", file, 100)
    mutated = sys.modules["mutated"]

    def reach() -> Sequence[str]:
        return [CHANGES[number - 100][1] for number in sorted(seen)]

    assert mutated.add(5, 3) == 8
    assert reach() == ["if a == b:  ->  if not a == b:", "a == b  ->  a != b", "a + b  ->  a - b"]
    seen.clear()
    assert mutated.Box().is_full(2) is False
    assert len(seen) == 2  # not what comes after `and`
    seen.clear()
    assert mutated.name(1) == "one"
    assert len(seen) == 2  # the patterns, which are marked where their subject is
    seen.clear()
    assert mutated.name(3) == "many"
    assert len(seen) == 2 + 5


TESTS = """
import sys
import pytest

@pytest.fixture(scope="module")
def eight():
    return sys.modules["mutated"].add(5, 3)

def test_of_a_fixture(eight):
    assert eight == 8

def test_of_nothing():
    assert True

def test_that_sees_nothing():
    assert sys.modules["mutated"].name(5) in ("many", "few")

def test_that_fails_anyway():
    assert sys.modules["mutated"].Box().twice == 7
"""


SCRIPT = """
import json, sys
from pathlib import Path
from tests.mutants import reaching, running
import mutated

here = Path.cwd()
modules = {"mutated": ("part", here / "mutated.py")}
for module in (reaching, running):
    module.ROOT, module.list_modules = here, lambda: modules
running.LEAST_SEC = 1
tests = [here / "test_mutated.py"]
reaching.make_map(here / "map", 1, tests)
reached = reaching.read_map(here / "map", tests)
trials = [running.Trial(one, *running.choose_tests(reached, one)) for one in reaching.list_mutants()]
running.try_mutants(trials, 2, float("inf"), lambda trial: None)
print(json.dumps([[one.mutant.function, one.mutant.text, len(one.tests), one.outcome] for one in trials]))
"""


def test_every_mutant_is_given_to_the_tests_that_reach_it(tmp_path: Path) -> None:
    """In a process of its own, which may fork: one test of `TESTS` fails without a mutant, and says nothing."""
    (tmp_path / "mutated.py").write_text(CODE)
    (tmp_path / "test_mutated.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"}
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    outcomes = {f"{function}: {text}": (n, end) for function, text, n, end in json.loads(done.stdout.splitlines()[-1])}
    assert outcomes["add: a + b  ->  a - b"] == (1, KILLED)
    assert outcomes["Box.twice: 2  ->  3"] == (0, UNREACHED)
    assert outcomes["name: n > 2  ->  n >= 2"] == (1, SURVIVED)
    assert outcomes["name: n - 1  ->  n + 1"] == (1, LATE)


def test_every_part_has_mutants_and_tests() -> None:
    modules = list_modules()
    assert {part for part, _ in modules.values()} == set(reaching.PARTS)
    assert [one for part in reaching.PARTS.values() for one in part if not list(reaching.SOURCE.glob(one))] == []
    assert "callgrove.binary.files" in modules
    files = reaching.list_tests()
    assert all(file.exists() for file in files)
    assert len(set(files)) == len(files)
