"""`python -m bench.same_program FOLDER`: a real program measured again and again here, and what the gate says of it.

The program is a small stencil in NumPy with a part in plain Python. Every run is a fresh process that adds up its own
clocks by function. Three versions run in turn, N times each: `left` and `right` are the same program, `slower` does 5 %
more iterations. Each run becomes FOLDER/VERSION.K.cubex, which `callgrove diff --left ... --right ...` reads.

Of these runs, random halves of left and right together are compared as if they were two versions: all alarms are false.
Random runs of `slower` are compared with random runs of the other two as well: `sweep`, the largest function, should be
found there.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from callgrove.analysis.gate.decision import Gate, Limits, decide
from callgrove.analysis.gate.orders import Sides
from callgrove.arrays import Floats
from callgrove.formats.writing.transfer import write
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Metric, Scope
from callgrove.model.profiles import ProfileKind

__all__ = ["experiment_of", "main", "run_program"]

VERSIONS = {"left": 1000, "right": 1000, "slower": 1050}  # iterations
CLOCKS = {"time": time.perf_counter, "cpu": time.process_time}
FUNCTIONS = ("init", "sweep", "edges", "norm", "count", "write")
SIZE = 500
N_SPLITS, N_DRAWN = 500, 999

Times = dict[str, dict[str, float]]  # clock, function


def run_program(n_sweeps: int, size: int = SIZE) -> Times:
    """Run the program once in this process; return seconds by clock and function."""
    times: Times = {clock: dict.fromkeys(FUNCTIONS, 0.0) for clock in CLOCKS}

    def timed(name: str, work: Callable[[], object]) -> None:
        starts = {clock: read() for clock, read in CLOCKS.items()}
        work()
        for clock, read in CLOCKS.items():
            times[clock][name] += read() - starts[clock]

    grid = np.empty((size, size))
    x = np.linspace(0, 20, size)

    def sweep() -> None:
        grid[1:-1, 1:-1] = 0.25 * (grid[:-2, 1:-1] + grid[2:, 1:-1] + grid[1:-1, :-2] + grid[1:-1, 2:])

    def edges() -> None:
        for _ in range(20):
            grid[0], grid[-1], grid[:, 0], grid[:, -1] = grid[-2], grid[1], grid[:, -2].copy(), grid[:, 1].copy()

    def init() -> None:
        for _ in range(10):
            np.multiply(np.sin(x)[:, None] ** 3, np.exp(np.cos(x)) ** 1.5, out=grid)

    timed("init", init)
    for _ in range(n_sweeps):
        timed("sweep", sweep)
        timed("edges", edges)
        timed("norm", lambda: np.sqrt((grid**2).sum()))
    timed("count", lambda: sum(1 for value in 6 * grid.ravel().tolist() if value > 0.5))
    timed("write", lambda: _write(grid))
    return times


def _write(grid: Floats) -> None:
    with tempfile.TemporaryFile() as file:
        for _ in range(10):
            np.save(file, grid)


def experiment_of(times: Times) -> Experiment:
    """Return a run as an experiment: `main`, and below it the functions that it calls."""
    builder = ExperimentBuilder("stencil")
    builder.add_profile(ProfileKind.THREAD)
    main_ = builder.add_context(-1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, "main"))
    contexts = [
        builder.add_context(main_, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, name))
        for name in FUNCTIONS
    ]
    for clock, of_function in times.items():
        metric = builder.add_metric(Metric(clock, Scope.EXCLUSIVE, "sec"))
        builder.add_values(0, contexts, metric, [of_function[name] for name in FUNCTIONS])
    return builder.build()


def measure(folder: Path, n_runs: int) -> dict[str, list[Times]]:
    """Run all versions in turn, each in a fresh process, and keep the runs as Cube files."""
    folder.mkdir(parents=True, exist_ok=True)
    runs: dict[str, list[Times]] = {version: [] for version in VERSIONS}
    for number in range(n_runs):
        for version, n_sweeps in VERSIONS.items():
            program = (
                f"import json; from bench.same_program import run_program; print(json.dumps(run_program({n_sweeps})))"
            )
            done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
            runs[version].append(json.loads(done.stdout))
            write(experiment_of(runs[version][-1]), folder / f"{version}.{number}.cubex", overwrite=True)
    return runs


def costs_of(runs: Sequence[Times], clock: str) -> Floats:
    """Return seconds, (functions x runs)."""
    return np.array([[run[clock][name] for run in runs] for name in FUNCTIONS])


def compare(left: Floats, right: Floats) -> Gate:
    """Compare runs as `callgrove diff` does, with fewer orders."""
    costs, whole = np.hstack([left, right]), np.concatenate([left.sum(axis=0), right.sum(axis=0)])
    rows = np.flatnonzero(costs.sum(axis=1) >= 0.005 * whole.sum()).tolist()
    names, sides = [FUNCTIONS[row] for row in rows], Sides(left.shape[1], right.shape[1])
    return decide(names, costs[rows], whole, sides, Metric("time", Scope.EXCLUSIVE, "sec"), Limits(), N_DRAWN)


def rates(runs: dict[str, list[Times]], clock: str, n: int) -> tuple[float, float]:
    """Return the share of random splits that alarm without a change, and of those that find the slower function."""
    random = np.random.default_rng([n, len(clock)])
    same, slower = costs_of([*runs["left"], *runs["right"]], clock), costs_of(runs["slower"], clock)
    alarms = seen = 0
    for _ in range(N_SPLITS):
        order = random.permutation(same.shape[1])[: 2 * n]
        alarms += compare(same[:, order[:n]], same[:, order[n:]]).verdict == "slower"
        changed = compare(same[:, order[:n]], slower[:, random.permutation(slower.shape[1])[:n]])
        seen += any(row.path == "sweep" and row.verdict == "slower" for row in changed.rows)
    return alarms / N_SPLITS, seen / N_SPLITS


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print what was found."""
    parser = argparse.ArgumentParser(prog="python -m bench.same_program")
    parser.add_argument("folder", type=Path, help="where the runs are written")
    parser.add_argument("--runs", type=int, default=20, help="of each version")
    args = parser.parse_args(arguments)
    runs = measure(args.folder, args.runs)
    for clock in CLOCKS:
        costs = {version: costs_of(runs[version], clock) for version in VERSIONS}
        for version in ("right", "slower"):
            report = compare(costs["left"], costs[version])
            print(f"{clock}, left and {version}: {report.sentence}", *report.notes, sep="\n  ")
            for row in report.rows:
                print(f"  {row.path:6} {row.verdict:8} change {row.change:+.3%} p {row.p} noise {row.noise}")
        for n in sorted({min(n, args.runs) for n in (5, 10, 20)}):
            alarms, seen = rates(runs, clock, n)
            print(
                f"{clock}, {n} + {n}: false alarms {alarms:.1%}, 5 % more sweeps seen {seen:.1%} of {N_SPLITS} splits"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
