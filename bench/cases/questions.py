"""An analyst's questions: against Hatchet on the very same tree, and how they grow with the tree.

Hatchet has its GraphFrame in memory, and we have an experiment in memory; both are made anew for every question. The
totals of all answers are compared before anything is timed.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from bench.conditions import ROOT, Conditions
from bench.results import Finding
from bench.timing import Work, best_seconds
from callgrove.arrays import Array, Floats, Ids, preorder
from callgrove.frames.data_frames import to_pandas
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Metric, Scope
from callgrove.model.profiles import ProfileKind
from callgrove.model.table import Column, Table
from callgrove.render.text_table import text_table

__all__ = ["PYTHON", "Tree", "questions", "run"]

PYTHON = ROOT / ".peers" / "hatchet" / "bin" / "python"
SCRIPT = ROOT / "bench" / "peers" / "ask_with_hatchet.py"
SIZES = (12_500, 50_000)  # contexts; Hatchet takes its time for more
LARGEST, N_METRICS = 2_000_000, 4
N_REPEATS = 3
LONGEST_SEC = 120  # of a question to Hatchet; it is stopped then, and the ratio is at least what is shown
LEAST_FASTER = 100.0
LINEAR = 1.6  # at most, per context, over a tree of an eighth: caches of the processor have their part
N_NAMES = 200
N_HEADINGS = 2  # lines above a printed tree
COMPILED = ("flat profile", "difference")  # what Hatchet leaves to pandas
ONLY_PANDAS = "flat profile, pandas alone"


@dataclass(frozen=True)
class Tree:
    """A tree in preorder: every context with the name that its place among its siblings gives it."""

    parent: Ids
    name: Array
    seconds: Floats

    @classmethod
    def of(cls, n: int, seed: int = 1) -> Tree:
        """Return a tree that was grown at random, as deep as call trees are. Some of what calls nothing is MPI."""
        dice = np.random.default_rng(seed)
        parent = (dice.random(n) * np.arange(n)).astype(np.int32)
        parent[0] = -1
        by_parent = np.argsort(parent, kind="stable")
        first = np.flatnonzero(np.diff(parent[by_parent], prepend=-2))
        rank = np.empty(n, np.int64)
        rank[by_parent] = np.arange(n) - np.repeat(first, np.diff(np.append(first, n)))
        words = np.array([f"{word}{number}" for word in ("f", "MPI_") for number in range(N_NAMES)])
        is_mpi = (np.bincount(parent[1:], minlength=n) == 0) & (dice.random(n) < 0.3)
        name = words[rank % N_NAMES + N_NAMES * is_mpi]
        name[0] = "main"
        return cls._in_order(parent, name, np.round(dice.random(n), 3) + 0.001)

    @classmethod
    def _in_order(cls, parent: Ids, name: Array, seconds: Floats) -> Tree:
        order = preorder(parent)
        place = np.empty(len(order) + 1, np.int32)
        place[order], place[-1] = np.arange(len(order)), -1
        return cls(place[parent[order]], name[order], seconds[order])

    def with_version(self, name: str, times: int = 1) -> Tree:
        """Return the tree of a run that takes so many times as long, and calls one more function in every tenth
        context."""
        callers = np.arange(0, len(self.parent), 10, dtype=np.int32)
        parent, more = np.concatenate([self.parent, callers]), np.full(len(callers), name)
        seconds = times * np.concatenate([self.seconds, self.seconds[callers]])
        return Tree._in_order(parent, np.concatenate([self.name, more]), seconds)

    def experiment(self, n_metrics: int = 1) -> Experiment:
        """Return the tree as an experiment of one profile."""
        builder = ExperimentBuilder("bench", title=f"{len(self.parent):,} contexts")
        names, code = np.unique(self.name, return_inverse=True)
        regions = np.array([builder.region(ContextKind.FUNCTION, str(name)) for name in names])
        kind = np.full(len(code), int(ContextKind.FUNCTION))
        builder.add_contexts(parent=self.parent, kind=kind, region=regions[code])
        builder.add_profile(ProfileKind.THREAD)
        for number in range(n_metrics):
            row = builder.add_metric(Metric("time" if not number else f"count {number}", Scope.EXCLUSIVE, unit="sec"))
            builder.add_values(0, np.arange(len(code)), row, self.seconds * (number + 1))
        return builder.build()


# -- what is asked -----------------------------------------------------------------------------------------------------


def questions(other: Experiment, only_here: float = 0.0) -> dict[str, Callable[[Experiment], float]]:
    """Return what is asked, each answered by a total that both tools must agree on; of a tree, its rows. Hatchet's
    difference has no values of what is only here, in the tree that is subtracted."""
    return {
        "flat profile": lambda e: sum(e.top("time")["exclusive"]),
        "tree": _print_tree,
        "difference": lambda e: _both_scopes(other - e) + only_here,
        "filter": lambda e: _both_scopes(e.select(name="f1*", rest="drop")),
        "query": lambda e: _both_scopes(e.query("main -> ** -> MPI_*", rest="drop")),
    }


def _print_tree(experiment: Experiment) -> float:
    """Print the tree as Hatchet does: names, each below its caller, and inclusive time."""
    table = experiment.tree("time")
    names = ["  " * depth + name for depth, name in zip(table["depth"], table["name"], strict=True)]
    lines = "".join(text_table([Table((table.column("inclusive"), Column("name", names)))])).splitlines()
    return float(len(lines) - N_HEADINGS)


def _both_scopes(experiment: Experiment) -> float:
    """Return the total, once inclusive costs are there as well."""
    experiment.totals("time", Scope.INCLUSIVE)
    return float(experiment.totals("time", Scope.EXCLUSIVE).sum())


# -- findings ----------------------------------------------------------------------------------------------------------


def run(conditions: Conditions) -> Iterator[Finding]:
    """Questions at two sizes against Hatchet, then at two larger ones against themselves."""
    for size in SIZES:
        yield from _against_hatchet(max(100, round(size * conditions.largest)), conditions.folder)
    yield from _growth(max(1000, round(LARGEST * conditions.largest)))


def _against_hatchet(n: int, folder: Path) -> Iterator[Finding]:
    base = Tree.of(n)
    tree, other = base.with_version("v1"), base.with_version("v2", 2)
    asked = questions(other.experiment(), float(tree.seconds[tree.name == "v1"].sum()))
    if not PYTHON.is_file():
        for name in asked:
            yield Finding(
                "questions", _what(name, n), float("nan"), at_least=LEAST_FASTER, note="run `make peers` first"
            )
        return
    theirs = _ask_hatchet(tree, other, folder)
    for name, ask in asked.items():
        if (total := theirs[name]["total"]) is not None:
            _compare(name, ask(tree.experiment()), total)
    best = best_seconds({name: partial(_prepare, tree, ask) for name, ask in asked.items()}, N_REPEATS)
    floor = best_seconds({"floor": partial(_prepare_floor, tree)}, N_REPEATS)["floor"]
    for name, seconds in best.items():
        took = theirs[name]["seconds"] or 0.0
        stopped = "more than that: stopped after " if theirs[name]["total"] is None else ""
        note = f"{stopped}{took:.2g} s and {1000 * seconds:.2g} ms"
        if name in COMPILED:
            note += f"; to add up the column by name takes {1000 * floor:.2g} ms"
        yield Finding("questions", _what(name, n), took / seconds, at_least=LEAST_FASTER, note=note)
    alone = theirs[ONLY_PANDAS]["seconds"] or 0.0
    yield Finding("questions", _what(ONLY_PANDAS, n), alone / best["flat profile"], note="counts recursion twice")


def _what(name: str, n: int) -> str:
    return f"Hatchet / {name}, {n:,} contexts"


def _prepare(tree: Tree, ask: Callable[[Experiment], float]) -> Work:
    """Return one question to an experiment that was asked nothing yet."""
    return partial(ask, tree.experiment())


def _prepare_floor(tree: Tree) -> Work:
    """Return the least that a flat profile can be: one column added up by the numbers of names."""
    names, code = np.unique(tree.name, return_inverse=True)
    return partial(np.bincount, code, tree.seconds, len(names))


def _ask_hatchet(tree: Tree, minuend: Tree, folder: Path) -> dict[str, dict[str, float | None]]:
    """Return seconds and totals of every question, no total where it took too long; starting Hatchet and making its
    GraphFrame are not timed."""
    given, other, out = folder / "tree.npz", folder / "other.npz", folder / "hatchet.json"
    for path, one in ((given, tree), (other, minuend)):
        np.savez(path, parent=one.parent, name=one.name, seconds=one.seconds)
    subprocess.run([PYTHON, SCRIPT, given, other, out, str(LONGEST_SEC)], check=True, capture_output=True)
    answers: dict[str, dict[str, float | None]] = json.loads(out.read_text())
    return answers


def _compare(name: str, ours: float, theirs: float) -> None:
    if not np.isclose(ours, theirs, rtol=1e-9):
        raise AssertionError(f"{name}: Hatchet's answer adds up to {theirs}, ours to {ours}")


def _growth(n: int) -> Iterator[Finding]:
    """Time per context of the largest tree against that of an eighth, with all metrics in the frame."""
    sizes = {"small": n // 8, "large": n}
    trees = {word: Tree.of(size) for word, size in sizes.items()}
    asked = {name: ask for name, ask in questions(trees["small"].experiment()).items() if name != "tree"}
    asked["difference"] = lambda e: _both_scopes(e - e)
    asked |= {"tree of 100 rows": lambda e: float(len(e.tree("time", limit=100))), "frame": _make_frame}
    for name, ask in asked.items():
        works = {word: partial(_prepare_large, tree, ask) for word, tree in trees.items()}
        best = best_seconds(works, 2)
        grown = best["large"] / best["small"] * sizes["small"] / sizes["large"]
        note = f"{best['large']:.2g} s for {n:,} contexts and {N_METRICS} metrics"
        yield Finding("questions", f"{name}: time per context, 8 x as many", grown, at_most=LINEAR, note=note)


def _prepare_large(tree: Tree, ask: Callable[[Experiment], float]) -> Work:
    return partial(ask, tree.experiment(n_metrics=N_METRICS))


def _make_frame(experiment: Experiment) -> float:
    return float(to_pandas(experiment)["time"].sum())
