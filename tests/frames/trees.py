"""Small trees with costs that were added up by hand, and how tests of frames look at them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Metric, Scope
from callgrove.model.profiles import Interpretation, ProfileKind
from callgrove.model.runs import Run

__all__ = ["T_TIME", "T_TREE", "tree_t", "tree_with"]

# Depth and name, in preorder, and exclusive seconds on ranks 0 to 3; in all 224, of which main has 4.
T_TREE = (
    *((0, "main"), (1, "init"), (2, "MPI_Bcast"), (1, "write"), (2, "fwrite"), (1, "solve"), (2, "kernel")),
    *((3, "exp"), (2, "MPI_Allreduce"), (2, "solve"), (3, "kernel"), (3, "MPI_Allreduce")),
)
T_TIME = (
    *((1, 1, 1, 1), (2, 2, 2, 2), (1, 2, 2, 3), (8, 0, 0, 0), (4, 0, 0, 0), (3, 3, 3, 3), (20, 22, 24, 34)),
    *((5, 5, 5, 5), (12, 10, 8, 2), (1, 1, 1, 1), (4, 4, 4, 4), (2, 2, 2, 2)),
)


def tree_t(runs: int = 1) -> Experiment:
    """The tree T of the specification: time in seconds and, as integers, twice as many cycles. Every further run takes
    as much again."""
    time = np.array(T_TIME, np.float64)
    scaled = [time * (run + 1) for run in range(runs)]
    cycles = [(2 * one).astype(np.int64) for one in scaled]
    return tree_with(T_TREE, {"time": ("sec", np.hstack(scaled)), "cycles": ("occ", np.hstack(cycles))}, runs)


def tree_with(
    rows: Sequence[tuple[int, str]], metrics: Mapping[str, tuple[str, np.ndarray]], runs: int = 1
) -> Experiment:
    """An experiment of a tree in preorder, with exclusive costs, contexts x ranks; the ranks are those of several
    runs."""
    builder = ExperimentBuilder("made", title="T")
    path: list[int] = []
    for depth, name in rows:
        region = builder.region(ContextKind.FUNCTION, name)
        parent = path[depth - 1] if depth else -1
        path[depth:] = [builder.add_context(parent, ContextKind.FUNCTION, region)]
    n_profiles = next(iter(metrics.values()))[1].shape[1]
    for run in range(runs):
        builder.add_run(Run(f"run {run}", {"p": float(run + 1)}, source=f"run{run}"))
        for rank in range(n_profiles // runs):
            single = int(Interpretation.SINGLE)
            builder.add_profile(ProfileKind.THREAD, [(2, rank, rank, single), (3, 0, 0, single)], run=run)
    for name, (unit, matrix) in metrics.items():
        row = builder.add_metric(Metric(name, Scope.EXCLUSIVE, unit=unit))
        context, profile = np.nonzero(matrix)
        builder.add_values(profile, context, row, matrix[context, profile])
    return builder.build()
