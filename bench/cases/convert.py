"""Databases converted from one generation to the other: time against reading and writing the bytes, and memory.

The floor reads every file of the input and writes a file of each size that the output has. Time is that of the
processor, what the system does for reading and writing included. By the clock, whoever writes also waits for a disk
that is busy, with what others write as well, which says nothing of the work. Memory is what a process of its own holds
beyond the opened input, without the pages of mapped files, which are the system's; it is compared with the largest
section of the output, the value blocks of profile.db or of cct.db.

Of many profiles with few values and short traces, what counts is the time that each of them takes.

    python -m bench.cases.convert IN FORMAT OUT     converts, and prints the memory before and at the peak, as JSON
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path

from bench.cases.profiles import shape_of
from bench.conditions import ROOT, Conditions, opened
from bench.results import Finding
from bench.timing import Work, best_seconds, processor_clock
from callgrove.formats.interface import WriteOptions, Writes
from callgrove.formats.registry import load
from callgrove.formats.writing.transfer import transfer

__all__ = ["Memory", "convert", "memory_of", "run"]

RELEASE, PRERELEASE = "hpctoolkit-release", "hpctoolkit-prerelease"
MOST_TIME, MOST_MEMORY = 6, 2
N_PROFILES, MOST_US = 100_000, 10
STATUS = Path("/proc/self/status")
EVERY = 0.002  # seconds between two looks at the memory
REPEATS = 5


def convert(source: Path, to: str, target: Path) -> None:
    """The whole way, from one path to the other."""
    format_ = load(to)
    assert isinstance(format_, Writes)
    transfer(opened(source), format_.open_writer(target, WriteOptions(overwrite=True)))


def run(conditions: Conditions) -> Iterator[Finding]:
    """Both directions at every scale, and of many profiles."""
    for scale in conditions.scales:
        for source, to in _both(conditions.database(conditions.sparse_rows.with_profiles(scale))):
            yield from _one(conditions, scale, source, to)
    yield from _many_profiles(conditions)


def _both(released: Path) -> Iterator[tuple[Path, str]]:
    """Yield a released database and its conversion, and what each is converted to."""
    prerelease = released.with_suffix(".prerelease")
    if not prerelease.exists():
        convert(released, PRERELEASE, prerelease)
    yield from ((released, PRERELEASE), (prerelease, RELEASE))


def _many_profiles(conditions: Conditions) -> Iterator[Finding]:
    """Yield what each of many profiles with few values takes."""
    shape, target = shape_of(N_PROFILES, conditions.largest), conditions.folder / "converted.d"
    limit = MOST_US if conditions.largest >= 1 else None  # of few profiles, most is what a process does once
    for source, to in _both(conditions.database(shape)):
        works = {to: partial(_converting, source, to, target)}
        seconds = best_seconds(works, min(REPEATS, conditions.n_repeats), processor_clock)[to]
        what = f"one of {shape.n_profiles:,} profiles, to {to}"
        yield Finding("convert", what, 1e6 * seconds / shape.n_profiles, "us", at_most=limit)
    shutil.rmtree(target)


def _one(conditions: Conditions, scale: Fraction, source: Path, to: str) -> Iterator[Finding]:
    target = conditions.folder / "converted.d"
    memory = memory_of(source, to, target)
    works = {"floor": partial(_floor, source, target), "convert": partial(_converting, source, to, target)}
    best = best_seconds(works, min(REPEATS, conditions.n_repeats), processor_clock)
    what, note = f"to {to}, scale {scale}", f"{opened(source).values.n_stored():,} values"
    limit = MOST_TIME if scale == conditions.largest else None  # small ones spend their time on the tree
    yield Finding("convert", f"time / bytes, {what}", best["convert"] / best["floor"], at_most=limit, note=note)
    largest = max((target / name).stat().st_size for name in ("profile.db", "cct.db"))
    ratio = (memory.peak - memory.before) / largest if memory else float("nan")
    yield Finding(
        "convert", f"memory / largest section, {what}", ratio, at_most=MOST_MEMORY, note="" if memory else "needs /proc"
    )
    for folder in (target, target.with_suffix(".bytes")):
        shutil.rmtree(folder)


def _converting(source: Path, to: str, target: Path) -> Work:
    shutil.rmtree(target, ignore_errors=True)
    return partial(convert, source, to, target)


def _floor(source: Path, target: Path) -> Work:
    sizes = [path.stat().st_size for path in target.rglob("*") if path.is_file()]
    scratch = target.with_suffix(".bytes")
    shutil.rmtree(scratch, ignore_errors=True)
    return partial(_read_and_write, source, sizes, scratch)


def _read_and_write(source: Path, sizes: list[int], scratch: Path) -> None:
    for path in (path for path in source.rglob("*") if path.is_file()):
        path.read_bytes()
    scratch.mkdir()
    for number, size in enumerate(sizes):
        (scratch / str(number)).write_bytes(bytes(size))


@dataclass(frozen=True)
class Memory:
    """Bytes that are not pages of files: when the input was opened, and the most while it was converted."""

    before: int
    peak: int


def memory_of(source: Path, to: str, target: Path) -> Memory | None:
    """Measured in a fresh process; None where the system does not tell."""
    if not STATUS.is_file():
        return None
    command = [sys.executable, "-m", "bench.cases.convert", str(source), to, str(target)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return Memory(**json.loads(done.stdout))


def _anonymous() -> int:
    found = re.search(r"RssAnon:\s*(\d+) kB", STATUS.read_text())
    assert found is not None
    return int(found.group(1)) * 1024


def main(source: Path, to: str, target: Path) -> None:
    """The measured process: a thread looks at its memory all the time."""
    format_ = load(to)
    assert isinstance(format_, Writes)
    experiment = opened(source)
    before, seen, done = _anonymous(), [0], threading.Event()

    def watch() -> None:
        while not done.wait(EVERY):
            seen[0] = max(seen[0], _anonymous())

    watcher = threading.Thread(target=watch)
    watcher.start()
    transfer(experiment, format_.open_writer(target, WriteOptions(overwrite=True)))
    done.set()
    watcher.join()
    print(json.dumps({"before": before, "peak": max(seen[0], _anonymous())}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
