"""How processor time and memory grow with the number of profiles: opening, `info`, `top`, one rank, `report`.

Every question is asked in a process of its own, of databases of up to a million profiles with few values each. Time is
that of the processor, starting included, and the least of some runs; the peak is what was resident at any time, mapped
pages of files included.

Opening keeps columns of all profiles: identifiers, kinds, places. What verbs that stream add to that is measured
without pages of files, which are the system's: it should not grow with the number of profiles.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

from bench.conditions import Conditions
from bench.generate import Shape
from bench.results import Finding

__all__ = ["run", "shape_of"]

N_PROFILES = (10_000, 100_000, 1_000_000)
LINEAR = 1.1  # times as much for each profile as at a tenth of the size
N_REPEATS = 3
MOST_MB = 600
MOST_MS = {"open": 2_000, "top": 1_500, "rank": 50, "report": 30_000}  # of the largest database
QUESTIONS = ("open", "info", "top", "rank", "report")
STREAMING = ("top", "export", "imbalance")
FLAT = 1.3  # times the anonymous memory of opening, of the largest database
PROBE = """
import contextlib, io, re, sys, tempfile, threading, time
question, path = sys.argv[1:]
status, anonymous, done = "/proc/self/status", [0], threading.Event()
def look():
    anonymous[0] = max(anonymous[0], int(re.search(r"RssAnon:\\s*(\\d+) kB", open(status).read())[1]))
def watch():
    while not done.wait(0.01):
        look()
watcher = threading.Thread(target=watch, daemon=True)  # it must not outlive an error
watcher.start()
with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    if question in ("open", "rank"):
        import callgrove
        experiment = callgrove.open(path)
        if question == "rank":
            last = int(experiment.profiles.identity("rank")[0].max())
            experiment.select(ranks=last).top()  # what is imported and made once
            begun = time.process_time()
            experiment.select(ranks=last // 2).top()
            print(time.process_time() - begun, file=sys.__stdout__)
    else:
        from callgrove.cli.main import main
        with tempfile.TemporaryDirectory() as folder:
            words = {"report": ["-o", folder + "/page.html"]}
            words["export"] = ["--table", "values", "-j", "1", "-o", folder + "/values.csv"]
            assert main([question, path, *words.get(question, [])]) == 0
look()
done.set()
watcher.join()
if question != "rank":
    print(time.process_time())
print(re.search(r"VmHWM:\\s*(\\d+) kB", open(status).read())[1], anonymous[0])
"""


def run(conditions: Conditions) -> Iterator[Finding]:
    """At 10,000, 100,000 and 1,000,000 profiles, or so many parts of them as the largest scale says."""
    if not Path("/proc/self/status").is_file():
        yield Finding("profiles", "peak", float("nan"), "MB", note="the system does not tell what a process takes")
        return
    folders = {shape.n_profiles: conditions.database(shape) for shape in _shapes(conditions)}
    is_whole = conditions.largest >= 1
    anonymous: dict[str, dict[int, float]] = {}
    for question in QUESTIONS:
        took = {n: _probe(question, folder, N_REPEATS) for n, folder in folders.items()}
        anonymous[question] = {n: probe.anonymous_mb for n, probe in took.items()}
        yield from _costs(question, took, is_whole)
    for question in STREAMING:
        if question not in anonymous:
            anonymous[question] = {n: _probe(question, folder, 1).anonymous_mb for n, folder in folders.items()}
        yield from _streaming(question, anonymous[question], anonymous["open"], is_whole)


def _shapes(conditions: Conditions) -> list[Shape]:
    return [shape_of(n, conditions.largest) for n in N_PROFILES]


def _costs(question: str, took: Mapping[int, Probe], is_whole: bool) -> Iterator[Finding]:
    """Yield times and peaks of a question, by the number of profiles."""
    for n, probe in took.items():
        what, note = f"{question}, {n:,} profiles", f"{1e6 * probe.seconds / n:.2f} us each"
        most_ms = MOST_MS.get(question) if is_whole and n == max(took) else None
        yield Finding("profiles", what, 1e3 * probe.seconds, "ms", at_most=most_ms, note=note)
        yield Finding("profiles", f"{what}: peak", probe.peak_mb, "MB", at_most=MOST_MB if is_whole else None)
    for n, more in pairwise(took):
        ratio = (took[more].seconds / more) / (took[n].seconds / n)
        what = f"{question}: time per profile, {more:,} / {n:,}"
        yield Finding("profiles", what, ratio, at_most=LINEAR if is_whole else None)


def _streaming(
    question: str, took: Mapping[int, float], opening: Mapping[int, float], is_whole: bool
) -> Iterator[Finding]:
    """Yield what a verb takes beyond opening, by the number of profiles, in MB and against it."""
    for n in took:
        what = f"{question}: anonymous memory beyond opening, {n:,} profiles"
        yield Finding("profiles", what, took[n] - opening[n], "MB", note=f"opening: {opening[n]:,.0f} MB")
    most = max(took)
    what = f"{question}: anonymous memory / that of opening, {most:,} profiles"
    yield Finding("profiles", what, took[most] / opening[most], at_most=FLAT if is_whole else None)


def shape_of(n_profiles: int, scale: Fraction) -> Shape:
    """Return the shape of a database with many profiles and few values each."""
    return Shape(max(2, round(n_profiles * scale)), n_contexts=60, density=0.05, n_samples=2)


@dataclass(frozen=True)
class Probe:
    """The least processor time of some runs, and the largest peaks: of all that was resident, and without files."""

    seconds: float
    peak_mb: float
    anonymous_mb: float


def _probe(question: str, folder: Path, n_repeats: int) -> Probe:
    """Ask a question in processes of its own."""
    around = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", PROBE, question, str(folder)]
    runs = [
        [float(word) for word in done.stdout.split()]
        for _ in range(n_repeats)
        for done in (subprocess.run(command, capture_output=True, text=True, check=True, env=around),)
    ]
    seconds, peak, anonymous = zip(*runs, strict=True)
    return Probe(min(seconds), max(peak) / 1024, max(anonymous) / 1024)
