"""How large a report gets, per context and against its bound, and what making it costs against reading the values; what
a timeline costs against reading the samples."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path

from bench.conditions import ROOT, Conditions, columns_from_path, opened
from bench.measurements import multiplied
from bench.results import Finding
from bench.timing import Work, best_seconds
from callgrove.analysis.costs import costs
from callgrove.analysis.views import top_down
from callgrove.model.experiment import Experiment
from callgrove.viewer.page import DEFAULT_SIZE, Choice, Detail, page
from callgrove.viewer.report import Input, report
from callgrove.viewer.timeline.maker import timeline_maker

__all__ = ["run"]

CONTEXTS = Fraction(2)  # of those of the other benches: 100,000
MOST_BYTES = 40  # of a context with a cost, everything else of its page included
LEAST = 30_000  # bytes of a folded page beyond script and style: some rows of every table always stay
MOST_TIME = 6  # of reading all values
N_REPEATS = 3  # it takes seconds
# threads, samples of each; what a timeline of them takes at most: times of reading them, and MB
TRACES = ((64, 62_500, 150, 250), (2_048, 293, 30, 250))
MEASURED = """import sys
from pathlib import Path
from bench.cases.report import draw, opened
draw(opened(Path(sys.argv[1])))
print(open("/proc/self/status").read())
"""


def run(conditions: Conditions) -> Iterator[Finding]:
    """On the largest number of profiles, over a tree of twice the size."""
    shape = conditions.sparse_rows.with_profiles(conditions.largest).with_contexts(CONTEXTS)
    folder = conditions.database(shape)
    n_contexts = _n_costly(folder)
    empty = len(page("", ""))
    whole = _written(folder, 10 * DEFAULT_SIZE)
    note = f"{n_contexts:,} of {shape.n_contexts:,} contexts, {shape.n_profiles:,} profiles"
    per_context = (len(whole) - empty) / n_contexts
    limit = MOST_BYTES if n_contexts > 10_000 else None  # small pages consist of other things
    yield Finding("report", "bytes per context", per_context, "bytes", at_most=limit, note=note)
    yield Finding("report", "script and style", empty, "bytes")
    for bound in (DEFAULT_SIZE, empty + max((len(whole) - empty) // 2, LEAST)):
        size = len(_written(folder, bound))
        yield Finding("report", f"page / its bound of {bound:,} bytes", size / bound, at_most=1)
    works = {"page": partial(_writing, folder), "columns": partial(columns_from_path, folder)}
    best = best_seconds(works, min(N_REPEATS, conditions.n_repeats))
    limit = MOST_TIME if n_contexts > 10_000 else None
    yield Finding("report", "time / reading all values", best["page"] / best["columns"], at_most=limit)
    for n_threads, n_samples, most_time, most_mb in TRACES:
        n = max(4, int(n_threads * conditions.largest))
        yield from _timeline(conditions, n, n_samples, most_time if n == n_threads else None, most_mb)


def _timeline(
    conditions: Conditions, n_threads: int, n_samples: int, most_time: int | None, most_mb: int
) -> Iterator[Finding]:
    """Time and memory of the timeline of many samples."""
    folder = multiplied(conditions.folder / f"timeline-{n_threads}.m", n_threads, n_samples)
    works = {"timeline": partial(_drawing, folder), "samples": partial(_reading, folder)}
    best = best_seconds(works, min(N_REPEATS, conditions.n_repeats))
    what = f"timeline of {n_threads:,} threads with {n_samples:,} samples each"
    note = f"{best['timeline'] * 1e3:,.0f} ms, floor {best['samples'] * 1e3:,.0f} ms"
    ratio = best["timeline"] / best["samples"]
    yield Finding("report", f"{what} / reading the samples", ratio, at_most=most_time, note=note)
    yield Finding("report", f"{what}, peak memory", peak_mb(folder), "MB", at_most=most_mb)


def draw(experiment: Experiment) -> None:
    """Make the panel of a timeline."""
    maker = timeline_maker(experiment, Choice())
    if maker is None or not list(maker.panels(Detail())):
        raise AssertionError(f"{experiment.path}: there is no timeline")


def _drawing(folder: Path) -> Work:
    return partial(draw, opened(folder))


def _reading(folder: Path) -> Work:
    traces = opened(folder).traces
    return lambda: sum(len(line) for _, _, line in traces.lines())


def peak_mb(folder: Path) -> float:
    """The most memory that a process which draws the timeline has resident at any time."""
    command = [sys.executable, "-c", MEASURED, str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found = re.search(r"VmHWM:\s*(\d+) kB", done.stdout)
    return int(found[1]) / 1024 if found else float("nan")


def _written(folder: Path, max_size: int) -> str:
    return report([Input(opened(folder), [str(folder)])], max_size=max_size)


def _writing(folder: Path) -> Work:
    return partial(_written, folder, DEFAULT_SIZE)


def _n_costly(folder: Path) -> int:
    """Contexts that a page shows: those with a cost, lines being part of their function."""
    return len(top_down(costs(opened(folder))))
