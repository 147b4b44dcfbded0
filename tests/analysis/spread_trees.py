"""The two small experiments that the numbers of imbalance are known of on paper."""

from __future__ import annotations

from collections.abc import Sequence

from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Metric, Scope
from callgrove.model.profiles import ProfileKind
from callgrove.model.runs import Run

Rows = Sequence[Sequence[float]]
RANK, THREAD = 2, 3

# Twelve contexts on four ranks: exclusive seconds. solve calls itself; write happens on rank 0 only. 224 s in all.
T_TREE = (
    *((0, "main"), (1, "init"), (2, "MPI_Bcast"), (1, "solve"), (2, "kernel"), (3, "exp"), (2, "MPI_Allreduce")),
    *((2, "solve"), (3, "kernel"), (3, "MPI_Allreduce"), (1, "write"), (2, "fwrite")),
)
T_TIME: Rows = (
    *((1, 1, 1, 1), (2, 2, 2, 2), (1, 2, 2, 3), (3, 3, 3, 3), (20, 22, 24, 34), (5, 5, 5, 5), (12, 10, 8, 2)),
    *((1, 1, 1, 1), (4, 4, 4, 4), (2, 2, 2, 2), (8, 0, 0, 0), (4, 0, 0, 0)),
)

# Seven contexts on two ranks with two threads each. 128 s in all.
R1_TREE = ((0, "main"), (1, "foo"), (2, "bar"), (2, "MPI_Send"), (1, "bar"), (2, "foo"), (1, "MPI_Barrier"))
R1_TIME: Rows = ((10, 1, 12, 3), (5, 6, 7, 8), (1, 2, 3, 4), (8, 7, 6, 5), (2, 2, 2, 2), (1, 3, 5, 7), (4, 4, 4, 4))
R1_VISITS: Rows = (
    *((1, 0, 1, 0), (10, 20, 30, 40), (2, 2, 2, 2), (5, 6, 7, 8), (1, 1, 1, 1), (3, 3, 3, 3)),
    (4, 0, 4, 0),
)


def make(
    tree: Sequence[tuple[int, str]], metrics: dict[Metric, Rows], places: Sequence[Sequence[int]], n_runs: int = 1
) -> Experiment:
    """Return an experiment with a profile for each place, (rank, thread) or (rank, thread, run)."""
    builder = ExperimentBuilder("made-up", path="made-up")
    for number in range(n_runs):
        builder.add_run(Run(name=f"run{number}"))
    above: list[int] = []
    for depth, name in tree:
        parent = above[depth - 1] if depth else -1
        region = builder.region(ContextKind.FUNCTION, name)
        above[depth:] = [builder.add_context(parent, ContextKind.FUNCTION, region)]
    rows = {builder.add_metric(metric): values for metric, values in metrics.items()}
    for column, (rank, thread, *run) in enumerate(places):
        identifiers = [(RANK, rank, rank, 0), (THREAD, thread, thread, 0)]
        profile = builder.add_profile(ProfileKind.THREAD, identifiers, run=run[0] if run else 0)
        for row, values in rows.items():
            has = [context for context in range(len(tree)) if values[context][column]]
            builder.add_values(profile, has, row, [float(values[context][column]) for context in has])
    return builder.build()


def metric(name: str, unit: str = "sec") -> Metric:
    """Return a metric that adds up."""
    return Metric(name, Scope.EXCLUSIVE, unit=unit)


def tree_t() -> Experiment:
    """Return T: a rank for each profile."""
    return make(T_TREE, {metric("time"): T_TIME}, [(rank, 0) for rank in range(4)])


def tree_r1() -> Experiment:
    """Return R1: two threads on each of two ranks."""
    places = [(rank, thread) for rank in range(2) for thread in range(2)]
    return make(R1_TREE, {metric("time"): R1_TIME, metric("visits", "occ"): R1_VISITS}, places)
