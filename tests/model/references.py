"""The reference cube R1 of cube.md (appendix A) as an experiment in memory: what is said of it was computed by CubeLib.

    main { foo { bar, MPI_Send }, bar { foo }, MPI_Barrier }       4 locations, 2 ranks with 2 threads each

time is stored inclusive, all others exclusive; lo = 0.5 x time and hi = 2 x time are a minimum and a maximum.
"""

from __future__ import annotations

import numpy as np

from callgrove.arrays import combine_upwards
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind, Relation
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Metric, Scope
from callgrove.model.profiles import ProfileKind

__all__ = ["R1_TIME", "r1"]

RANK, THREAD = 2, 3  # kinds of identifiers
NAMES = ("main", "foo", "bar", "MPI_Send", "bar", "foo", "MPI_Barrier")
PARENTS = (-1, 0, 1, 1, 0, 4, 0)
R1_TIME = np.array(
    [[10, 1, 12, 3], [5, 6, 7, 8], [1, 2, 3, 4], [8, 7, 6, 5], [2, 2, 2, 2], [1, 3, 5, 7], [4, 4, 4, 4]], np.float64
)
R1_VISITS = np.array(
    [[1, 0, 1, 0], [10, 20, 30, 40], [2, 2, 2, 2], [5, 6, 7, 8], [1, 1, 1, 1], [3, 3, 3, 3], [4, 0, 4, 0]], np.uint64
)


def r1() -> Experiment:
    """Return R1. Ids of metrics are those of the file: visits 0, time 1, lo 2, hi 3."""
    builder = ExperimentBuilder("R1")
    for name, parent in zip(NAMES, PARENTS, strict=True):
        region = builder.region(ContextKind.FUNCTION, name)
        builder.add_context(parent, ContextKind.FUNCTION, region, Relation.CALL)
    rows = (
        ("visits", "occ", Scope.EXCLUSIVE, Aggregation.SUM, "uint64"),
        ("time", "sec", Scope.INCLUSIVE, Aggregation.SUM, "double"),
        ("lo", "sec", Scope.EXCLUSIVE, Aggregation.MINIMUM, "double"),
        ("hi", "sec", Scope.EXCLUSIVE, Aggregation.MAXIMUM, "double"),
    )
    for number, (name, unit, scope, rule, kind) in enumerate(rows):
        builder.add_metric(
            Metric(name, scope, unit, aggregation=rule, dtype=kind, source_id=number, id_of_quantity=True)
        )
    levels = [np.array(level) for level in ([0], [1, 4, 6], [2, 3, 5])]
    inclusive = combine_upwards(R1_TIME, np.array(PARENTS, np.int32), levels)
    for location in range(4):
        rank, thread = divmod(location, 2)
        profile = builder.add_profile(ProfileKind.THREAD, [(RANK, rank, rank, 0), (THREAD, thread, thread, 0)])
        values = (R1_VISITS, inclusive, R1_TIME / 2, R1_TIME * 2)
        for metric, matrix in enumerate(values):
            builder.add_values(profile, np.arange(7), metric, matrix[:, location])
    return builder.build()
