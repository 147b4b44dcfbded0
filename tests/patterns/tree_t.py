"""Tree T of the specification of analyses, and small trees given by indented names."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from callgrove.arrays import Bools, combine_upwards, depths, levels
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind, Relation
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Metric, Scope
from callgrove.model.profiles import ProfileKind

T = (
    (0, "main", "app.c", (1, 1, 1, 1)),
    (1, "init", "app.c", (2, 2, 2, 2)),
    (2, "MPI_Bcast", "MPI", (1, 2, 2, 3)),
    (1, "solve", "app.c", (3, 3, 3, 3)),
    (2, "kernel", "kern.c", (20, 22, 24, 34)),
    (3, "exp", "libm", (5, 5, 5, 5)),
    (2, "MPI_Allreduce", "MPI", (12, 10, 8, 2)),
    (2, "solve", "app.c", (1, 1, 1, 1)),
    (3, "kernel", "kern.c", (4, 4, 4, 4)),
    (3, "MPI_Allreduce", "MPI", (2, 2, 2, 2)),
    (1, "write", "io.c", (8, 0, 0, 0)),
    (2, "fwrite", "libc", (4, 0, 0, 0)),
)
IS_MODULE = ("MPI", "libm", "libc")


def parents(depth: Sequence[int]) -> list[int]:
    """The parent of each context, from depths in preorder."""
    path: list[int] = []
    out = []
    for context, level in enumerate(depth):
        del path[level:]
        out.append(path[-1] if path else -1)
        path.append(context)
    return out


def tree_t(scope: Scope = Scope.EXCLUSIVE) -> Experiment:
    """T on four ranks: time in seconds, and cycles, twice as many."""
    builder = ExperimentBuilder("test", title="T", path="t.cubex")
    above = parents([depth for depth, *_ in T])
    for (_, name, place, _), parent in zip(T, above, strict=True):
        module, file = (builder.module(place), -1) if place in IS_MODULE else (-1, builder.file(place))
        region = builder.region(ContextKind.FUNCTION, name, file=file, module=module)
        builder.add_context(parent, ContextKind.FUNCTION, region)
    for rank in range(4):
        builder.add_profile(ProfileKind.THREAD, [(1, 77, 0, 0), (2, rank, rank, 3), (3, 0, 0, 3)])
    values = np.array([times for *_, times in T], np.float64)
    if scope == Scope.INCLUSIVE:
        up = np.array(above, np.int32)
        values = combine_upwards(values, up, levels(depths(up)))
    contexts, profiles = np.indices(values.shape)
    for name, unit, factor in (("time", "sec", 1), ("cycles", "occ", 2)):
        row = builder.add_metric(Metric(name, scope, unit, "DOUBLE"))
        builder.add_values(profiles.ravel(), contexts.ravel(), row, factor * values.ravel())
    return builder.build()


def small_tree(text: str) -> Experiment:
    """A tree from lines such as `  kernel 5`, indented by depth; a name in brackets is that of a line or a loop that is
    nested in the source text, as `[loop at a.c:1]`. Times are in seconds."""
    builder = ExperimentBuilder("test", title="small", path="small")
    rows = [(line, line.strip()) for line in text.splitlines() if line.strip()]
    indent = [len(line) - len(stripped) for line, stripped in rows]
    known = sorted(set(indent))
    above = parents([known.index(one) for one in indent])
    time = builder.add_metric(Metric("time", Scope.EXCLUSIVE, "sec", "DOUBLE"))
    builder.add_profile(ProfileKind.THREAD, [(2, 0, 0, 3), (3, 0, 0, 3)])
    for parent, (_, line) in zip(above, rows, strict=True):
        name, _, cost = line.rpartition(" ")
        nested = name.startswith("[")
        kind = ContextKind.FUNCTION if not nested else ContextKind.LOOP if "loop" in name else ContextKind.LINE
        region = builder.region(kind, name[1:-1] if nested else name)
        number = builder.add_context(parent, kind, region, Relation.LEXICAL if nested else Relation.CALL)
        builder.add_values(0, number, time, float(cost))
    return builder.build()


def names_of(experiment: Experiment, chosen: Bools) -> str:
    """The names of some contexts, in order."""
    return " ".join(experiment.contexts.label(context) for context in np.flatnonzero(chosen).tolist())


def wide_tree(n: int) -> Experiment:
    """Functions f0 ... f9 in n contexts, of which each has up to four children; one second each."""
    builder = ExperimentBuilder("test", title="wide", path="wide")
    regions = np.array([builder.region(ContextKind.FUNCTION, f"f{k}") for k in range(10)])
    parent = (np.arange(n) - 1) // 4
    kinds = np.full(n, int(ContextKind.FUNCTION))
    builder.add_contexts(parent=parent, kind=kinds, relation=np.full(n, 1), region=regions[np.arange(n) * 7 % 10])
    builder.add_profile(ProfileKind.THREAD, [(2, 0, 0, 3), (3, 0, 0, 3)])
    row = builder.add_metric(Metric("time", Scope.EXCLUSIVE, "sec", "DOUBLE"))
    builder.add_values(np.zeros(n, np.int32), np.arange(n), row, np.ones(n))
    return builder.build()
