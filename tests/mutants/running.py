"""A forked child for each mutant, which runs the tests of its module until one fails."""

from __future__ import annotations

import os
import random
import re
import resource
import signal
import time
import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

from tests.mutants.mutating import Mutant, find_mutants, put_in_place
from tests.requirements import ROOT

__all__ = ["KILLED", "SURVIVED", "UNDECIDED", "choose_mutants", "find_tests", "list_modules", "try_mutant"]

SOURCE = ROOT / "src" / "callgrove"
PARTS = ("binary/**/*.py", "model/**/*.py", "algebra/**/*.py", "modeling/**/*.py", "formats/**/*record*.py")
KILLED, SURVIVED, UNDECIDED = "killed", "survived", "undecided"
WARNING = "ignore:Module already imported:pytest.PytestAssertRewriteWarning"
OPTIONS = ("-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not exhaustive", "-W", WARNING)
N_FILES = 5  # of tests, for one mutant
CPU_SEC = 30
SILENCE_SEC = 300.0


def list_modules() -> dict[str, Path]:
    """Return the modules that mutants are made of, and their files."""
    files = sorted({file for part in PARTS for file in SOURCE.glob(part) if file.name != "__init__.py"})
    return {"callgrove." + ".".join(file.relative_to(SOURCE).with_suffix("").parts): file for file in files}


def choose_mutants(n: int, seed: int) -> Iterator[Mutant]:
    """Yield a sample, in which every module has its share by the number of its mutants."""
    everything = [mutant for module, file in list_modules().items() for mutant in find_mutants(file, module)]
    yield from random.Random(seed).sample(everything, min(n, len(everything)))


def find_tests(module: str) -> list[Path]:
    """Return the files of tests that name a module, those first that are called like it; else those of its package."""
    *package, name = module.split(".")
    pattern = re.compile(rf"\b{re.escape(module)}\b|from {re.escape('.'.join(package))} import .*\b{name}\b")
    parent = ".".join(package)
    naming = [file for file, text in _read_tests().items() if parent in text and pattern.search(text)]
    beside = sorted((ROOT / "tests" / package[1]).rglob("test_*.py")) if len(package) > 1 else []
    ordered = dict.fromkeys([*sorted(naming, key=lambda file: name.rstrip("s") not in file.name), *beside])
    return [file for file in ordered if "browser" not in file.parts][:N_FILES]


@cache
def _read_tests() -> dict[Path, str]:
    return {file: file.read_text("utf-8") for file in sorted((ROOT / "tests").rglob("test_*.py"))}


def try_mutant(mutant: Mutant | None, tests: Sequence[Path]) -> str:
    """Run the tests of a mutant in a child, or of the code as it is. One that takes too long is undecided."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        _be_child(mutant, tests)
    deadline = time.monotonic() + SILENCE_SEC
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return _judge(os.waitstatus_to_exitcode(status))
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return UNDECIDED


FAILED = (pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED)  # also where tests cannot be imported any more


def _judge(code: int) -> str:
    if code == pytest.ExitCode.OK:
        return SURVIVED
    if code == -signal.SIGXCPU:
        return UNDECIDED
    if code in FAILED or code < 0:
        return KILLED
    raise AssertionError(f"the tests do not run: exit code {code}")


def _be_child(mutant: Mutant | None, tests: Sequence[Path]) -> None:
    code = 70
    try:
        nowhere = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nowhere, number)
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SEC, CPU_SEC + 5))
        resource.setrlimit(resource.RLIMIT_DATA, (3 << 30, 3 << 30))
        if mutant is not None:
            put_in_place(mutant, list_modules()[mutant.module])
        code = int(pytest.main([*OPTIONS, *map(str, tests)]))
    except BaseException:
        code = 71
    finally:
        os._exit(code)
