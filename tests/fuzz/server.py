"""Cases in forked children: the package is imported once, and every child has limits.

A child takes one case after the other and reports each; when one kills it, the next child goes on after that one. What
is a finding is asked again in a child of its own. Limits: memory twice the input and 200 MB, ten seconds of processor
time for a case, 128 open files, and two minutes without a report.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import json
import os
import pkgutil
import re
import resource
import select
import shutil
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

import callgrove
from tests.fuzz.asking import PACKAGE, Answer, Finding, Hang, Questions, ask, choose_questions
from tests.fuzz.cases import Case, make_input
from tests.fuzz.seeds import Seed

__all__ = ["Report", "Work", "ask_apart", "cpu_sec", "import_package", "run_cases"]

MEMORY = 200 << 20
CPU_SEC = 10.0
SILENCE_SEC = 120.0
DESCRIPTORS = 128
LARGEST_FILE = 1 << 30
PAGE = resource.getpagesize()


@dataclass(frozen=True)
class Report:
    """What came of one case: the answer, its processor time, and how much more memory it needed than before."""

    answer: Answer
    cpu_sec: float
    peak_bytes: int


Work = Callable[[int, Path], Report]


def run_cases(cases: Sequence[Case], seeds: dict[str, list[Seed]], scratch: Path) -> Iterator[tuple[Case, Report]]:
    """Yield the report of every case, in order."""

    def work(number: int, folder: Path) -> Report:
        case = cases[number]
        path = make_input(case, seeds, folder / "in")
        return measure(path, choose_questions(case.format, case.chance("questions")), folder / "out")

    first = 0
    while first < len(cases):
        for number, report in _serve(range(first, len(cases)), work, scratch):
            yield cases[number], report
            first = number + 1


def ask_apart(path: Path, asked: Questions, scratch: Path) -> Report:
    """Ask one input in a child of its own."""

    def work(_number: int, folder: Path) -> Report:
        copy = folder / "in" / path.name
        shutil.copytree(path, copy) if path.is_dir() else shutil.copyfile(path, copy)
        return measure(copy, asked, folder / "out")

    [(_, report)] = _serve(range(1), work, scratch)
    return report


# -- before children are forked ----------------------------------------------------------------------------------------

UNUSED = tuple(f"callgrove.{name}" for name in ("__main__", "explore", "frames", "viewer.server", "execute.engines"))
PACKAGES_BEHIND = ("duckdb", "pyarrow.parquet", "pyarrow.compute", "pyarrow.dataset", "zipfile", "xml.parsers.expat")


def import_package() -> None:
    """Import all that children need: what one of them imports is lost with it. Nothing may start a thread."""
    for module in pkgutil.walk_packages(callgrove.__path__, "callgrove."):
        if not module.name.startswith(UNUSED):
            importlib.import_module(module.name)
    for name in PACKAGES_BEHIND:
        importlib.import_module(name)
    importlib.import_module("pyarrow").set_cpu_count(1)
    importlib.import_module("pyarrow").set_io_thread_count(1)


# -- in the child ------------------------------------------------------------------------------------------------------


def measure(path: Path, asked: Questions, scratch: Path) -> Report:
    """Ask an input with little memory and time, and say what it took."""
    size = sum(file.lstat().st_size for file in path.rglob("*")) if path.is_dir() else path.stat().st_size
    data, resident = _memory()
    resource.setrlimit(resource.RLIMIT_DATA, (data + MEMORY + 2 * size, resource.RLIM_INFINITY))
    _reset_peak()
    begin = cpu_sec()
    signal.setitimer(signal.ITIMER_PROF, CPU_SEC)
    try:
        answer = ask(path, asked, scratch)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_DATA, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    return Report(answer, cpu_sec() - begin, max(0, _peak() - resident))


def cpu_sec() -> float:
    """Return the processor time of this process and of those that it waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _memory() -> tuple[int, int]:
    """Return the bytes of private memory that the limit counts, and those that are resident."""
    words = Path("/proc/self/statm").read_text().split()
    return int(words[5]) * PAGE, int(words[1]) * PAGE


def _reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def _peak() -> int:
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) << 10  # type: ignore[index]


def _stop_hanging(_signal: int, _frame: object) -> NoReturn:
    raise Hang(f"more than {CPU_SEC:.0f} s of processor time")


def _be_child(numbers: Sequence[int], work: Work, scratch: Path, pipe: int, crash: Path) -> NoReturn:
    os.setsid()  # so that what it starts ends with it
    signal.signal(signal.SIGPROF, _stop_hanging)
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, LARGEST_FILE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with crash.open("w") as log:
        faulthandler.enable(log)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what C libraries print
        for number in numbers:
            for name in ("in", "out"):
                _make_empty(scratch / name)
            report = work(number, scratch)
            os.write(pipe, json.dumps([number, asdict(report)]).encode() + b"\n")
        sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115
    os._exit(0)


def _make_empty(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()


# -- in the parent -----------------------------------------------------------------------------------------------------


def _serve(numbers: Sequence[int], work: Work, scratch: Path) -> Iterator[tuple[int, Report]]:
    """Yield the reports of one child: of all numbers, or up to the one that ended it."""
    reading, writing = os.pipe()
    crash = scratch / "crash.txt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 and later: of threads, which only wait
        child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            _be_child(numbers, work, scratch, writing, crash)
        except BaseException as error:
            os.write(writing, json.dumps([-1, repr(error)]).encode() + b"\n")
        os._exit(1)
    os.close(writing)
    last, wrong = numbers[0] - 1, ""
    for number, content in _read_reports(reading, child):
        if number < 0:
            wrong = content
            break
        last = number
        yield number, _read_report(content)
    os.close(reading)
    _end(child)
    status = os.waitpid(child, 0)[1]
    if wrong:
        raise AssertionError(f"the fuzzer itself failed after case {last}: {wrong}")
    if last != numbers[-1]:
        yield last + 1, Report(Answer("broken", _describe_crash(status, crash)), CPU_SEC, 0)


def _read_reports(pipe: int, child: int) -> Iterator[tuple[int, Any]]:
    """Yield what a child reports; a silent one is told to show where it is, and ended."""
    rest = b""
    while True:
        ready, _, _ = select.select([pipe], [], [], SILENCE_SEC)
        if not ready:
            os.kill(child, signal.SIGABRT)
            return
        got = os.read(pipe, 1 << 16)
        if not got:
            return
        *lines, rest = (rest + got).split(b"\n")
        yield from map(json.loads, lines)


def _read_report(content: dict[str, Any]) -> Report:
    finding = content["answer"]["finding"]
    answer = Answer(content["answer"]["outcome"], Finding(**finding) if finding else None)
    return Report(answer, content["cpu_sec"], content["peak_bytes"])


def _end(child: int) -> None:
    """End a child that has not ended by itself, and what it started."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        time.sleep(0.002)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)


def _describe_crash(status: int, log: Path) -> Finding:
    how = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else f"exit code {os.WEXITSTATUS(status)}"
    text = log.read_text(errors="replace") if log.exists() else ""
    frames = re.findall(rf'File "{re.escape(PACKAGE)}/([^"]+)", line \d+ in (\S+)', text)
    place = f"{frames[0][0]}:{frames[0][1]}" if frames else "unknown"
    return Finding(f"ended by {how}", place, text[:400])
