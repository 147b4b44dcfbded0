"""A forked child for each mutant, which runs tests that reach it until one fails.

The tests are collected once. The child of a mutant is forked after that, puts it in place and runs its tests: the
shortest of each file first, of at most `MOST_TESTS` that take at most `MOST_SEC` without the mutant.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.mutants.mutating import Mutant, put_in_place
from tests.mutants.reaching import OPTIONS, ReachedTests, list_modules, list_mutants
from tests.requirements import ROOT

__all__ = [
    "KILLED",
    "LATE",
    "SURVIVED",
    "UNDECIDED",
    "UNREACHED",
    "Trial",
    "choose_mutants",
    "choose_tests",
    "find_named",
    "try_mutants",
]

KILLED, LATE, SURVIVED, UNREACHED, UNDECIDED = "killed", "too long", "survived", "unreached", "undecided"
MOST_TESTS = 80
MOST_SEC = 12.0
LEAST_SEC = 10
SILENCE_SEC = 300.0


@dataclass
class Trial:
    """A mutant, the tests that it is given to, and what came of it."""

    mutant: Mutant
    tests: Sequence[str]  # their names, or those of files of them
    cpu_sec: float  # of the tests without the mutant
    outcome: str = UNDECIDED
    begin: float = field(default_factory=time.monotonic)

    @property
    def most_sec(self) -> int:
        """Processor time after which the tests do not come to an end: each has its time limit, which it would miss."""
        return LEAST_SEC + int(10 * self.cpu_sec)


def choose_mutants(n: int, seed: int, part: str = "") -> list[Mutant]:
    """Return a sample of all mutants, or of those of one part: the same one while the modules are the same."""
    modules = list_modules()
    everything = [mutant for mutant in list_mutants() if part in ("", modules[mutant.module][0])]
    return random.Random(seed).sample(everything, min(n, len(everything)))


def find_named(text: str) -> list[Mutant]:
    """Return the mutants whose description, such as "callgrove.model.units:20 (parse): 1  ->  2", contains a text."""
    return [mutant for mutant in list_mutants() if text in str(mutant)]


def choose_tests(reached: ReachedTests, mutant: Mutant) -> tuple[list[str], float]:
    """Return the tests that a mutant is given to, and their time: from all files in turn, those first that are called
    like its module."""
    own = mutant.module.split(".")[-1].rstrip("s")
    turns: dict[str, int] = {}
    ranked: list[tuple[int, bool, str]] = []
    for name in reached.of(mutant):
        file = name.partition("::")[0]
        turns[file] = turns.get(file, -1) + 1
        ranked.append((turns[file] // (8 if own in file else 1), own not in file, name))
    chosen: list[str] = []
    seconds = 0.0
    for _, _, name in sorted(ranked, key=lambda rank: rank[:2]):
        if len(chosen) < MOST_TESTS and seconds + reached.seconds[name] <= MOST_SEC:
            chosen.append(name)
            seconds += reached.seconds[name]
    return chosen, seconds


def try_mutants(trials: Sequence[Trial], n_processes: int, deadline: float, report: Callable[[Trial], None]) -> None:
    """Run the tests of some mutants, as many as begin before a time, and report each when its outcome is known."""
    files = sorted({name.partition("::")[0] for trial in trials for name in trial.tests})
    for trial in trials:
        if not trial.tests:
            trial.outcome = UNREACHED
            report(trial)
    if not files:
        return
    with tempfile.TemporaryDirectory(prefix="callgrove-mutants-") as scratch, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HYPOTHESIS_STORAGE_DIRECTORY", f"{scratch}/hypothesis")  # a mutant's examples are not ours
        runner = _Runner([trial for trial in trials if trial.tests], n_processes, deadline, report)
        code = pytest.main(
            [f"--basetemp={scratch}/tests", *OPTIONS, *(str(ROOT / file) for file in files)],
            plugins=[runner],
        )
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise SystemExit(f"the tests could not be collected: {code!r}")


class _Runner:
    """Takes the place of the loop that runs the tests."""

    def __init__(
        self, trials: Sequence[Trial], n_processes: int, deadline: float, report: Callable[[Trial], None]
    ) -> None:
        self.left = list(trials)
        self.n_processes = n_processes
        self.deadline = deadline
        self.report = report
        self.running: dict[int, Trial] = {}

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Let pytest itself say nothing."""
        config.pluginmanager.unregister(name="terminalreporter")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items: dict[str, list[pytest.Item]] = {}
        for item in session.items:
            for name in (item.nodeid, item.nodeid.partition("::")[0]):
                items.setdefault(name, []).append(item)
        while self.left or self.running:
            if time.monotonic() > self.deadline:
                self.left.clear()
            while self.left and len(self.running) < self.n_processes:
                trial = self.left.pop(0)
                trial.begin = time.monotonic()
                given = [item for name in trial.tests for item in items.get(name, [])]
                self.running[_fork(session, trial, given)] = trial
            for child, outcome in self._collect_ended():
                trial = self.running.pop(child)
                trial.outcome = outcome
                self.report(trial)
            time.sleep(0.02)
        session.items = []
        return True

    def _collect_ended(self) -> Iterator[tuple[int, str]]:
        for child in list(self.running):
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                _end_group(child)  # what a test started
                yield child, _judge(os.waitstatus_to_exitcode(status))
            elif time.monotonic() - self.running[child].begin > SILENCE_SEC:
                _end_group(child)
                os.waitpid(child, 0)
                yield child, UNDECIDED


NOTICED, UNNOTICED, BROKEN = 1, 0, 70


def _judge(code: int) -> str:
    if code == BROKEN:
        raise AssertionError("a mutant could not be put in place")
    if code == UNNOTICED:
        return SURVIVED
    return LATE if code == -signal.SIGXCPU else KILLED


def _end_group(child: int) -> None:
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        return


def _fork(session: pytest.Session, trial: Trial, items: Sequence[pytest.Item]) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        _be_child(session, trial, items)
    return child


def _be_child(session: pytest.Session, trial: Trial, items: Sequence[pytest.Item]) -> None:
    code = BROKEN
    try:
        os.setpgid(0, 0)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nowhere, number)
        used = int(time.process_time()) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (used + trial.most_sec, used + trial.most_sec + 5))
        resource.setrlimit(resource.RLIMIT_DATA, (3 << 30, 3 << 30))
        put_in_place(trial.mutant, list_modules()[trial.mutant.module][1])
        code = NOTICED
        code = _run_until_one_fails(session, items)
    finally:
        os._exit(code)


def _run_until_one_fails(session: Any, items: Sequence[pytest.Item]) -> int:
    for item, following in zip(items, [*items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.testsfailed:
            return NOTICED
    return UNNOTICED
