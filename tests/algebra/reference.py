"""The two cubes of the specification (appendix A), made by the builder, and what tests of the algebra share.

    A: main { foo { bar, MPI_Send }, bar { foo }, MPI_Barrier }        B: main { bar, foo { MPI_Send, new } }

Both have two ranks with two threads each. `time` is stored inclusive, everything else exclusive; lo and hi are a
minimum and a maximum.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from callgrove.arrays import Array, combine_upwards, depths, levels
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.computed_values import recipe
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment, problems_of_experiment
from callgrove.model.metrics import Aggregation, Metric, Scope
from callgrove.model.profiles import ProfileKind

PLACES = {"main": ("m.c", 1), "foo": ("m.c", 10), "bar": ("b.c", -1), "new": ("n.c", -1)}
TREE_A = (("main", -1), ("foo", 0), ("bar", 1), ("MPI_Send", 1), ("bar", 0), ("foo", 4), ("MPI_Barrier", 0))
TREE_B = (("main", -1), ("bar", 0), ("foo", 0), ("MPI_Send", 2), ("new", 2))
VISITS_A = ((1, 0, 1, 0), (10, 20, 30, 40), (2,) * 4, (5, 6, 7, 8), (1,) * 4, (3,) * 4, (4, 0, 4, 0))
TIME_A = ((10, 1, 12, 3), (5, 6, 7, 8), (1, 2, 3, 4), (8, 7, 6, 5), (2,) * 4, (1, 3, 5, 7), (4,) * 4)
VISITS_B = ((1,) * 4,) * 5
TIME_B = ((100,) * 4, (20,) * 4, (50,) * 4, (8,) * 4, (1,) * 4)


def cube(
    name: str,
    tree: Sequence[tuple[str, int]],
    visits: Sequence[Sequence[int]],
    time: Sequence[Sequence[float]],
    time_scope: Scope = Scope.INCLUSIVE,
    ranks: Sequence[int] = (0, 1),
    threads: int = 2,
    extremes: bool = True,
) -> Experiment:
    """An experiment over these (name, parent) contexts; rows of values are contexts, columns are locations."""
    builder = ExperimentBuilder("test", title=name, path=f"{name}.cubex")
    for region, parent in tree:
        file, line = PLACES.get(region, ("", -1))
        place = builder.region(ContextKind.FUNCTION, region, file=builder.file(file), line=line)
        builder.add_context(parent, ContextKind.FUNCTION, place)
    for rank in ranks:
        for thread in range(threads):
            builder.add_profile(
                ProfileKind.THREAD, [(1, 77 + rank, rank, 0), (2, rank, rank, 3), (3, thread, thread, 3)]
            )
    above = np.array([parent for _, parent in tree], np.int32)
    exclusive = np.array(time, np.float64)
    inclusive = combine_upwards(exclusive, above, levels(depths(above)))
    _add(builder, Metric("visits", Scope.EXCLUSIVE, "occ", "UINT64"), np.array(visits, np.uint64))
    stored = inclusive if time_scope == Scope.INCLUSIVE else exclusive
    _add(builder, Metric("time", time_scope, "sec", "DOUBLE"), stored)
    if extremes:
        for label, factor, aggregation in (("lo", 0.5, Aggregation.MINIMUM), ("hi", 2.0, Aggregation.MAXIMUM)):
            _add(builder, Metric(label, Scope.EXCLUSIVE, "sec", "DOUBLE", aggregation), factor * exclusive)
    only = np.array([[1, 2, 3, 4]], np.int64) if name == "A" else np.full((1, 4), 0.5)
    if len(ranks) * threads == 4:
        _add(builder, Metric(f"only{name}", Scope.EXCLUSIVE, dtype="INT64" if name == "A" else "DOUBLE"), only)
    return builder.build()


def _add(builder: ExperimentBuilder, metric: Metric, values: Array) -> None:
    row = builder.add_metric(metric)
    context, profile = np.nonzero(values)
    builder.add_values(profile, context, row, values[context, profile])


def cube_a(**options: object) -> Experiment:
    return cube("A", TREE_A, VISITS_A, TIME_A, **options)  # type: ignore[arg-type]


def cube_b(**options: object) -> Experiment:
    return cube("B", TREE_B, VISITS_B, TIME_B, **options)  # type: ignore[arg-type]


def at(experiment: Experiment, path: str, metric: str, scope: Scope = Scope.EXCLUSIVE) -> list[float]:
    """The values of the first context of a call path, one per profile; absent is neutral."""
    tree = experiment.contexts
    context = next(c for c in range(tree.n_listed) if tree.path(c) == path.replace("/", "->"))
    return [matrix(experiment, metric, scope)[context, p] for p in range(len(experiment.profiles))]


def matrix(experiment: Experiment, metric: str, scope: Scope) -> Array:
    """A quantity in a scope over (contexts x profiles), as the model computes it for one profile at a time."""
    way = recipe(experiment.metrics, metric, scope)
    columns = [
        way.apply(experiment.values.dense(p, way.stored), experiment.contexts) for p in range(len(experiment.profiles))
    ]
    return np.stack(columns, axis=1) if columns else np.zeros((len(experiment.contexts), 0))


def paths(experiment: Experiment) -> list[str]:
    tree = experiment.contexts
    return [tree.path(context) for context in range(tree.n_listed)]


def notes(experiment: Experiment) -> str:
    return "\n".join(w.text for w in experiment.warnings)


def stored(experiment: Experiment) -> dict[tuple[int, int, str, str], object]:
    """Every stored value of the measured profiles by profile, context, metric and scope."""
    out: dict[tuple[int, int, str, str], object] = {}
    for block in experiment.values.blocks():
        rows = block.triples()
        for profile, context, metric, value in zip(
            rows.profile.tolist(), rows.context.tolist(), rows.metric.tolist(), rows.value.tolist(), strict=True
        ):
            row = experiment.metrics[metric]
            key = (profile, context, row.name, row.scope.word)
            assert key not in out, f"{key} comes twice"
            out[key] = value
    return out


def is_sound(experiment: Experiment) -> bool:
    """Does an experiment satisfy what the builder demands?"""
    return problems_of_experiment(experiment, []) == []
