"""Measurement directories to databases: against reading all their records, by size, by workers, and how much memory."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np

from bench.cases.hpcrun import floor as floor_of_file
from bench.conditions import ROOT, Conditions
from bench.measurements import deep, files_of, multiplied
from bench.results import Finding
from bench.timing import Work, best_seconds
from callgrove.cli.main import main
from callgrove.formats.hpcrun.hpctrace import header_bytes, record_of

__all__ = ["run"]

N_FILES = 1024
N_SAMPLES = 22_500  # of a file: 280 MB in all
N_DEEP_FILES, N_DEEP_NODES = 4, 250_000  # a million contexts
AIM = 5.0
LINEAR = 1.5
GENUINE_MB = 417  # of the genuine tool, for as many traces
GENUINE_DEEP_MB = 1340  # of the genuine tool, for a tree of 375,000 contexts
RECORD = record_of(0)
MEASURED = """import sys
from callgrove.cli.main import main
code = main(sys.argv[1:])
print(open("/proc/self/status").read())
sys.exit(code)
"""


def floor(folder: Path) -> int:
    """All records of nodes, values and traces as native columns."""
    n = 0
    for path, trace in files_of(folder):
        n += sum(len(column) for column in floor_of_file(path))
        if trace is not None:
            records = np.fromfile(trace, RECORD, offset=len(header_bytes("01.01", 0)))
            n += len(records["time"].astype(np.uint64)) + len(records["node"].astype(np.uint32))
    return n


def convert(folder: Path, target: Path, jobs: int) -> None:
    """What the verb does, without starting Python."""
    if main(["prof", str(folder), str(target), "--foreign", "--ignore-structs", "-j", str(jobs)]):
        raise AssertionError(f"{folder}: could not be converted")


def _conversion(folder: Path, jobs: int) -> Work:
    target = folder.with_suffix(".d")
    shutil.rmtree(target, ignore_errors=True)
    return partial(convert, folder, target, jobs)


def _later(work: Work) -> Work:
    return work


def peak_mb(folder: Path) -> float:
    """The most memory that the verb has resident at any time, in a process of its own."""
    target = folder.with_suffix(".d")
    shutil.rmtree(target, ignore_errors=True)
    words = ["prof", str(folder), str(target), "--foreign", "--ignore-structs", "-j", "1"]
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *words], cwd=ROOT, capture_output=True, text=True, check=True
    )
    found = re.search(r"VmHWM:\s*(\d+) kB", done.stdout)
    return int(found[1]) / 1024 if found else float("nan")


def run(conditions: Conditions) -> Iterator[Finding]:
    n_repeats = max(1, conditions.n_repeats // 5)
    sizes = {scale: max(4, int(N_FILES * scale)) for scale in conditions.scales}
    folders = {s: multiplied(conditions.folder / f"prof-{n}.m", n, N_SAMPLES) for s, n in sizes.items()}
    largest = folders[conditions.largest]
    works = {("prof", s): partial(_conversion, folder, 1) for s, folder in folders.items()}
    works["two", conditions.largest] = partial(_conversion, largest, 2)
    works["floor", conditions.largest] = partial(_later, partial(floor, largest))
    best = best_seconds(works, n_repeats)
    yield from _findings(conditions, sizes, best)
    n_bytes = sum(file.stat().st_size for file in largest.iterdir())
    note = f"{n_bytes / 1e6:,.0f} MB of files"
    yield Finding("prof", "peak memory, many traces", peak_mb(largest), "MB", at_most=GENUINE_MB, note=note)
    yield from _deep(conditions, n_repeats)


def _findings(
    conditions: Conditions, sizes: dict[Fraction, int], best: dict[tuple[str, Fraction], float]
) -> Iterator[Finding]:
    smallest, largest = conditions.scales[0], conditions.largest
    one, two, least = (best[name, largest] for name in ("prof", "two", "floor"))
    note = f"{sizes[largest]:,} files in {one * 1e3:,.0f} ms, floor {least * 1e3:,.0f} ms"
    yield Finding("prof", "many traces / np.fromfile", one / least, at_most=AIM, note=note)
    yield Finding("prof", "two workers / one", two / one, note=f"{two * 1e3:,.0f} ms")
    for scale in conditions.scales[1:]:
        ratio = (best["prof", scale] / sizes[scale]) / (best["prof", smallest] / sizes[smallest])
        yield Finding("prof", f"time per file, scale {scale} / {smallest}", ratio, at_most=LINEAR)


def _deep(conditions: Conditions, n_repeats: int) -> Iterator[Finding]:
    sizes = {scale: max(100, int(N_DEEP_NODES * scale)) for scale in conditions.scales}
    folders = {s: deep(conditions.folder / f"deep-{n}.m", N_DEEP_FILES, n) for s, n in sizes.items()}
    smallest, largest = conditions.scales[0], conditions.largest
    works = {("deep", scale): partial(_conversion, folder, 1) for scale, folder in folders.items()}
    works["floor", largest] = partial(_later, partial(floor, folders[largest]))
    best = best_seconds(works, n_repeats)
    note = f"{N_DEEP_FILES * sizes[largest]:,} contexts in {best['deep', largest] * 1e3:,.0f} ms"
    yield Finding("prof", "many contexts / np.fromfile", best["deep", largest] / best["floor", largest], note=note)
    for scale in conditions.scales[1:]:
        ratio = (best["deep", scale] / sizes[scale]) / (best["deep", smallest] / sizes[smallest])
        yield Finding("prof", f"time per context, scale {scale} / {smallest}", ratio, at_most=LINEAR)
    yield Finding("prof", "peak memory, many contexts", peak_mb(folders[largest]), "MB", at_most=GENUINE_DEEP_MB)
