"""How processor time and memory grow with the number of profiles: opening, `info`, `top`, one rank, `report`.

Every question is asked in a process of its own, of databases of up to a million profiles with few values each. Time is
that of the processor, starting included, and the least of some runs; the peak is what was resident at any time, mapped
pages of files included.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
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
QUESTIONS = ("open", "info", "top", "rank", "report")
PROBE = """
import contextlib, io, re, sys, tempfile, time
question, path = sys.argv[1:]
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
            target = ["-o", folder + "/page.html"] if question == "report" else []
            assert main([question, path, *target]) == 0
if question != "rank":
    print(time.process_time())
print(re.search(r"VmHWM:\\s*(\\d+) kB", open("/proc/self/status").read())[1])
"""


def run(conditions: Conditions) -> Iterator[Finding]:
    """At 10,000, 100,000 and 1,000,000 profiles, or so many parts of them as the largest scale says."""
    if not Path("/proc/self/status").is_file():
        yield Finding("profiles", "peak", float("nan"), "MB", note="the system does not tell what a process takes")
        return
    sizes = [shape_of(n, conditions.largest) for n in N_PROFILES]
    folders = [conditions.database(shape) for shape in sizes]
    is_whole = conditions.largest >= 1
    for question in QUESTIONS:
        measured = [_probe(question, folder) for folder in folders]
        for shape, (seconds, peak) in zip(sizes, measured, strict=True):
            what = f"{question}, {shape.n_profiles:,} profiles"
            yield Finding("profiles", what, 1e3 * seconds, "ms", note=f"{1e6 * seconds / shape.n_profiles:.2f} us each")
            limit = MOST_MB if is_whole else None
            yield Finding("profiles", f"{what}: peak", peak, "MB", at_most=limit)
        times = [(shape.n_profiles, seconds) for shape, (seconds, _) in zip(sizes, measured, strict=True)]
        for (n, before), (more, after) in pairwise(times):
            what = f"{question}: time per profile, {more:,} / {n:,}"
            yield Finding("profiles", what, (after / more) / (before / n), at_most=LINEAR if is_whole else None)


def shape_of(n_profiles: int, scale: Fraction) -> Shape:
    """Return the shape of a database with many profiles and few values each."""
    return Shape(max(2, round(n_profiles * scale)), n_contexts=60, density=0.05, n_samples=2)


def _probe(question: str, folder: Path) -> tuple[float, float]:
    """Return the least processor time in seconds, and the largest peak in MB."""
    around = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    runs = []
    for _ in range(N_REPEATS):
        command = [sys.executable, "-c", PROBE, question, str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=around)
        seconds, peak = done.stdout.split()
        runs.append((float(seconds), int(peak) / 1024))
    return min(seconds for seconds, _ in runs), max(peak for _, peak in runs)
