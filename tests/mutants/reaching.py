"""Which tests reach which places: a map that is made once, and again for what changes.

All places of all modules are marked (`mark_places`), and the tests run in processes that look after each test which
places were evaluated: by the test, by children that it forked, and by the fixtures that it shares with other tests.
What is known of a file of tests is kept in a file of its own. It holds for the sources as they are, and for that file
as it is.
"""

from __future__ import annotations

import base64
import builtins
import hashlib
import json
import mmap
import os
import sys
import time
import traceback
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.mutants.mutating import MARK, Mutant, find_mutants, mark_places
from tests.requirements import ROOT

__all__ = ["OPTIONS", "ReachedTests", "list_modules", "list_mutants", "list_tests", "make_map", "read_map"]

SOURCE = ROOT / "src" / "callgrove"
PARTS = {
    "binary": ("binary/**/*.py",),
    "model": ("model/**/*.py",),
    "algebra": ("algebra/**/*.py",),
    "modeling": ("modeling/**/*.py",),
    "record layers": (
        "formats/caliper/records.py",
        "formats/cube/rows.py",
        "formats/hpcrun/[pfv]*s.py",
        "formats/hpctoolkit/*/files.py",
        "formats/hpctoolkit/values.py",
        "formats/timeline/otf2/records.py",
        "formats/timeline/perfetto/fields.py",
    ),
}
FOLDERS = (  # of tests that run in one process; the first ones are those of the parts themselves
    "binary", "model", "algebra", "modeling", "formats", "frames", "query", "analysis", "patterns", "render", "cli",
    "prof", "explore", "assistant",
)  # fmt: skip
LIBRARY = ("test_derived_everywhere.py", "test_formulas.py", "test_library.py", "test_same_numbers.py", "test_table.py")
WARNING = "ignore:Module already imported:pytest.PytestAssertRewriteWarning"
OPTIONS = (
    "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not exhaustive", "--hypothesis-seed=0", "-W", WARNING,
)  # fmt: skip
BATCH = 6  # files of tests that one process runs

Reached = np.ndarray[Any, np.dtype[np.bool_]]


@cache
def list_modules() -> dict[str, tuple[str, Path]]:
    """Return the modules that mutants are made of: the part that each belongs to, and its file."""
    return {
        "callgrove." + ".".join(file.relative_to(SOURCE).with_suffix("").parts): (part, file)
        for part, patterns in PARTS.items()
        for file in sorted({file for pattern in patterns for file in SOURCE.glob(pattern)})
        if file.name != "__init__.py"
    }


@cache
def list_mutants() -> list[Mutant]:
    """Return all mutants of all modules. Their positions are the numbers of the places that are marked."""
    return [mutant for module, (_, file) in list_modules().items() for mutant in find_mutants(file, module)]


def list_tests() -> list[Path]:
    """Return the files of tests that may notice a mutant, those of the parts themselves first."""
    inside = [file for folder in FOLDERS for file in sorted((ROOT / "tests" / folder).rglob("test_*.py"))]
    return [*inside, *(ROOT / "tests" / name for name in LIBRARY)]


@cache
def _digest_sources() -> str:
    digest = hashlib.sha256()
    for _, file in list_modules().values():
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


# -- making the map ----------------------------------------------------------------------------------------------------


def make_map(folder: Path, n_processes: int, files: Sequence[Path]) -> None:
    """Run the files of tests whose part of the map is absent or out of date, in forked children."""
    folder.mkdir(parents=True, exist_ok=True)
    left = _find_left(folder, files)
    if left and not _wait_for(_fork(lambda: _map_files(folder, n_processes, left))):
        raise SystemExit("the map of tests was not made")


def _map_files(folder: Path, n_processes: int, files: Sequence[Path]) -> None:
    """Mark all places, and run files in batches; those of a batch that did not end well one by one."""
    first = 0
    for module, (_, source) in list_modules().items():
        mark_places(module, source, first)
        first += len(find_mutants(source, module))
    _map_batches(folder, n_processes, [files[begin : begin + BATCH] for begin in range(0, len(files), BATCH)])
    _map_batches(folder, n_processes, [[file] for file in _find_left(folder, files)])
    for file in _find_left(folder, files):
        _write_part(folder, file, _digest(file), {})  # it ends its process: it says nothing about mutants


def _map_batches(folder: Path, n_processes: int, batches: Sequence[Sequence[Path]]) -> None:
    running = 0
    for batch in batches:
        if running == n_processes:
            os.wait()
            running -= 1
        _fork(partial(_map_batch, folder, batch))
        running += 1
    for _ in range(running):
        os.wait()


def _map_batch(folder: Path, files: Sequence[Path]) -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    digests = {file: _digest(file) for file in files}  # as they are before they run
    watcher = _Watcher(len(list_mutants()))
    pytest.main([*OPTIONS, *map(str, files)], plugins=[watcher])
    for file, digest in digests.items():
        prefix = f"{file.relative_to(ROOT)}::"
        reached = {name: kept for name, kept in watcher.tests.items() if name.startswith(prefix) and kept[1]}
        _write_part(folder, file, digest, reached)


def _find_left(folder: Path, files: Sequence[Path]) -> list[Path]:
    return [file for file in files if _read_part(folder, file) is None]


def _fork(work: Callable[[], None]) -> int:
    sys.stdout.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which are not used here
        child = os.fork()
    if child:
        return child
    code = 70
    try:
        work()
        code = 0
    except Exception:
        traceback.print_exc()
    finally:
        os._exit(code)


def _wait_for(child: int) -> bool:
    _, status = os.waitpid(child, 0)
    return status == 0


class _Watcher:
    """Looks which places each test reached; those that a shared fixture reached count for all tests that use it."""

    def __init__(self, n_places: int) -> None:
        self.marks = mmap.mmap(-1, n_places)  # shared with children
        self.tests: dict[str, tuple[float, str]] = {}
        self.of_fixtures: dict[int, Reached] = {}
        self.begin = 0.0
        setattr(builtins, MARK, self.marks.__setitem__)

    def _take(self) -> Reached:
        return np.frombuffer(self.marks[:], np.bool_)

    def _clear(self) -> None:
        self.marks[:] = bytes(len(self.marks))

    @pytest.hookimpl(hookwrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        if fixturedef.scope == "function":
            yield
            return
        before = self._take()
        self._clear()
        yield
        self.of_fixtures[id(fixturedef)] = self._take()
        self.marks[:] = (before | self._take()).tobytes()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Iterator[None]:
        self._clear()
        self.begin = time.process_time()
        yield

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self.tests[report.nodeid] = (report.duration, "")
        elif report.failed:
            self.tests.pop(report.nodeid, None)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_teardown(self, item: Any) -> None:
        if item.nodeid not in self.tests:
            return
        reached = self._take()
        for definitions in item._fixtureinfo.name2fixturedefs.values():
            for definition in definitions:
                reached = reached | self.of_fixtures.get(id(definition), False)
        packed = zlib.compress(np.packbits(reached).tobytes())
        self.tests[item.nodeid] = (round(time.process_time() - self.begin, 4), base64.b64encode(packed).decode())


# -- as it is kept -----------------------------------------------------------------------------------------------------


class ReachedTests:
    """The tests that reach each place, the shortest first."""

    def __init__(self, tests: dict[str, tuple[float, Reached]]) -> None:
        self.names = sorted(tests, key=lambda name: tests[name][0])
        self.seconds = {name: tests[name][0] for name in tests}
        self._reached = np.array([tests[name][1] for name in self.names]).reshape(len(tests), len(list_mutants()))

    def of(self, mutant: Mutant) -> list[str]:
        """Return the tests that evaluate what a mutant changes."""
        place = list_mutants().index(mutant)
        return [self.names[test] for test in np.flatnonzero(self._reached[:, place])]


def read_map(folder: Path, files: Sequence[Path]) -> ReachedTests:
    """Return what is known of some files of tests."""
    tests: dict[str, tuple[float, Reached]] = {}
    for file in files:
        for name, (seconds, packed) in (_read_part(folder, file) or {}).items():
            bits = np.frombuffer(zlib.decompress(base64.b64decode(packed)), np.uint8)
            tests[name] = seconds, np.unpackbits(bits, count=len(list_mutants())).astype(np.bool_)
    return ReachedTests(tests)


def _part_of(folder: Path, file: Path) -> Path:
    return folder / (".".join(file.relative_to(ROOT).with_suffix("").parts) + ".json")


def _read_part(folder: Path, file: Path) -> dict[str, tuple[float, str]] | None:
    """Return what is known of a file of tests, or None where that is out of date."""
    part = _part_of(folder, file)
    if not part.exists():
        return None
    kept = json.loads(part.read_text("utf-8"))
    current = kept["sources"] == _digest_sources() and kept["tests"] == _digest(file)
    return {name: (seconds, packed) for name, (seconds, packed) in kept["reached"].items()} if current else None


def _write_part(folder: Path, file: Path, digest: str, reached: dict[str, tuple[float, str]]) -> None:
    known = {"sources": _digest_sources(), "tests": digest, "reached": reached}
    part = _part_of(folder, file)
    scratch = part.with_suffix(f".{os.getpid()}")
    scratch.write_text(json.dumps(known), "utf-8")
    scratch.replace(part)
