"""Means, differences and merges of two databases, against reading both; and the table of differences, against opening
them.

Both databases have the same tree and different costs, so that most cells of one are cells of the other.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from bench.conditions import ROOT, Conditions, opened
from bench.generate import generate
from bench.memory import STATUS, n_bytes
from bench.results import Finding
from bench.timing import Work, best_seconds
from callgrove.algebra.operations import diff, mean, merge
from callgrove.analysis.comparison import compare
from callgrove.model.experiment import Experiment

__all__ = ["run"]

OTHER_DENSITY = 0.05
OPERATIONS: dict[str, Callable[[Experiment, Experiment], Experiment]] = {
    "mean": mean,
    "diff": diff,
    "merge, side by side": partial(merge, system="side-by-side"),
    "merge, sum": partial(merge, conflict="sum"),
    "merge, last": partial(merge, conflict="last"),
}
AT_MOST = {"mean": 6, "diff": 6, "merge, side by side": 3, "merge, sum": 6, "merge, last": 25}


def run(conditions: Conditions) -> Iterator[Finding]:
    """Time of every operation and memory of one."""
    shape = conditions.sparse_rows.with_profiles(conditions.largest)
    pair = conditions.database(shape), conditions.folder / "other.d"
    generate(pair[1], replace(shape, density=OTHER_DENSITY))
    works: dict[str, Callable[[], Work]] = {name: partial(_streaming, pair, name) for name in OPERATIONS}
    works |= {"read": partial(_reading, pair), "open": partial(_opening, pair), "table": partial(_comparing, pair)}
    best = best_seconds(works, max(3, conditions.n_repeats // 3))
    note = f"{sum(opened(folder).values.n_stored() or 0 for folder in pair):,} values"
    for name in OPERATIONS:
        limit = AT_MOST.get(name)
        yield Finding("algebra", f"{name} / columns of both", best[name] / best["read"], at_most=limit, note=note)
    yield Finding("algebra", "table of differences / opening both", best["table"] / best["open"], at_most=4)
    peak = _peak(pair)
    ratio = peak if peak is not None else float("nan")
    yield Finding("algebra", "anonymous memory of a mean / columns of both", ratio, at_most=0.5)


def _pair(pair: tuple[Path, Path]) -> tuple[Experiment, Experiment]:
    return opened(pair[0]), opened(pair[1])


def _drain(experiment: Experiment) -> int:
    return sum(len(block) for block in experiment.values.blocks())


def _streaming(pair: tuple[Path, Path], name: str) -> Work:
    """What is made is made before: matching trees is the other half, and does not grow with profiles."""
    return partial(_drain, OPERATIONS[name](*_pair(pair)))


def _reading(pair: tuple[Path, Path]) -> Work:
    both = _pair(pair)
    return lambda: [experiment.values.columns() for experiment in both]


def _opening(pair: tuple[Path, Path]) -> Work:
    return partial(_pair, pair)


def _comparing(pair: tuple[Path, Path]) -> Work:
    return lambda: compare(_pair(pair)).table(20)


def _peak(pair: tuple[Path, Path]) -> float | None:
    """In a fresh process: what streaming a mean adds to anonymous memory, against the columns of both inputs."""
    if not STATUS.is_file():
        return None
    command = [sys.executable, "-m", "bench.cases.algebra", *map(str, pair)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout))


def _anonymous() -> int:
    found = re.search(r"RssAnon:\s*(\d+) kB", STATUS.read_text())
    assert found is not None
    return int(found.group(1)) * 1024


def main(pair: tuple[Path, Path]) -> None:
    """The measured process."""
    made = mean(*_pair(pair))
    before = highest = _anonymous()
    for _ in made.values.blocks():
        highest = max(highest, _anonymous())
    columns = sum(n_bytes(opened(folder).values.columns()) for folder in pair)
    print(json.dumps((highest - before) / columns))


if __name__ == "__main__":
    main((Path(sys.argv[1]), Path(sys.argv[2])))
