"""The tree T of analysis.md and its sibling on two ranks, built by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind, Relation
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Metric, Scope
from callgrove.model.profiles import ProfileKind

RANK, THREAD, SINGLE = 2, 3, 3  # kinds of identifiers, and how their numbers are read
Row = tuple[int, str, Sequence[float]]  # depth, name, exclusive seconds on each rank

T: tuple[Row, ...] = (
    (0, "main", (1, 1, 1, 1)),
    (1, "init", (2, 2, 2, 2)),
    (2, "MPI_Bcast", (1, 2, 2, 3)),
    (1, "write", (8, 0, 0, 0)),
    (2, "fwrite", (4, 0, 0, 0)),
    (1, "solve", (3, 3, 3, 3)),
    (2, "kernel", (20, 22, 24, 34)),
    (3, "exp", (5, 5, 5, 5)),
    (2, "MPI_Allreduce", (12, 10, 8, 2)),
    (2, "solve", (1, 1, 1, 1)),
    (3, "kernel", (4, 4, 4, 4)),
    (3, "MPI_Allreduce", (2, 2, 2, 2)),
)
# The same program on two ranks: 174 s.
S: tuple[Row, ...] = (
    (0, "main", (1, 1)),
    (1, "init", (2, 2)),
    (2, "MPI_Bcast", (1, 1)),
    (1, "write", (8, 0)),
    (2, "fwrite", (4, 0)),
    (1, "solve", (3, 3)),
    (2, "kernel", (50, 50)),
    (3, "exp", (10, 10)),
    (2, "MPI_Allreduce", (4, 4)),
    (2, "solve", (1, 1)),
    (3, "kernel", (8, 8)),
    (3, "MPI_Allreduce", (1, 1)),
)


def program(
    rows: Sequence[Row],
    path: str = "made",
    factors: Mapping[str, float] | None = None,
    *,
    metric: str = "time",
    unit: str = "sec",
    format: str = "made",
    has_ranks: bool = True,
) -> Experiment:
    """An experiment of rows in preorder; `factors` multiplies the cost of some functions."""
    builder = ExperimentBuilder(format, title=path, path=path)
    above: list[int] = []
    for number, (depth, name, _) in enumerate(rows):
        del above[depth:]
        region = builder.region(ContextKind.FUNCTION, name)
        builder.add_context(above[-1] if above else -1, ContextKind.FUNCTION, region, Relation.CALL)
        above.append(number)
    builder.add_metric(Metric(metric, Scope.EXCLUSIVE, unit=unit))
    n = len(rows[0][2])
    for rank in range(n):
        identifiers = [(RANK, rank, rank, SINGLE), (THREAD, 0, 0, SINGLE)] if has_ranks else []
        builder.add_profile(ProfileKind.THREAD, identifiers)
    cost = np.array([[seconds * (factors or {}).get(name, 1) for seconds in row] for _, name, row in rows], float)
    context, profile = np.nonzero(cost)
    builder.add_values(profile, context, 0, cost[context, profile])
    return builder.build()


def renamed(rows: Sequence[Row], names: Mapping[str, str]) -> list[Row]:
    """The same rows under other names."""
    return [(depth, names.get(name, name), cost) for depth, name, cost in rows]
