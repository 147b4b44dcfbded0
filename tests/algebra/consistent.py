"""Random experiments whose scopes fit together, and what they must become, computed the slow way.

Every value follows from exclusive ones: inclusive over the subtree, function over what is nested in the source text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from callgrove.arrays import ABSENT, Array
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind, ContextTree, Relation
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Metric, Scope
from callgrove.model.profiles import ProfileKind

Draw = Callable[[st.SearchStrategy[Any]], Any]
SCOPES = (Scope.EXCLUSIVE, Scope.FUNCTION, Scope.INCLUSIVE)
NAMES = st.sampled_from(["f", "g", "h"])


@st.composite
def consistent(draw: Draw, most: int = 10, beside: bool = False) -> Experiment:
    """A tree with few names, so that two of them have much in common, with integers as costs. `beside`: some contexts
    are nested in a sibling, as in the pre-release XML."""
    builder = ExperimentBuilder("test", title="random", path=draw(st.sampled_from(["a.d", "b.d"])))
    n = draw(st.integers(1, most))
    parents = [ABSENT, *(draw(st.integers(0, k)) for k in range(n - 1))]
    for k, parent in enumerate(parents):
        lexical = k > 0 and draw(st.booleans())
        kind = ContextKind.LINE if lexical else ContextKind.FUNCTION
        region = builder.region(kind, "" if lexical else draw(NAMES), file=builder.file("x.c"), line=k % 3)
        siblings = [s for s in range(1, k) if beside and parents[s] == parent]
        within = draw(st.sampled_from(siblings)) if lexical and siblings and draw(st.booleans()) else -2
        builder.add_context(parent, kind, region, Relation.LEXICAL if lexical else Relation.CALL, within=within)
    profiles = draw(st.integers(1, 3))
    for rank in range(profiles):
        builder.add_profile(ProfileKind.THREAD, [(2, rank, rank, 3), (3, 0, 0, 3)])
    for scope in SCOPES:
        builder.add_metric(Metric("time", scope, "sec"))
    builder.add_metric(Metric("visits", Scope.EXCLUSIVE, dtype="UINT64"))
    bare = builder.build()
    order = np.argsort(builder.order())  # the number that a context was added under
    cost = np.array(draw(st.lists(st.integers(0, 9), min_size=n * profiles, max_size=n * profiles))).reshape(
        n, profiles
    )
    for row, scope in enumerate(SCOPES):
        _add(builder, row, in_scope(bare.contexts, cost, scope), order, float)
    _add(builder, len(SCOPES), cost + 1, order, int)
    return builder.build()


def _add(builder: ExperimentBuilder, row: int, values: Array, order: Array, kind: type) -> None:
    context, profile = np.nonzero(values)
    builder.add_values(profile, order[context], row, values[context, profile].astype(kind))


def in_scope(tree: ContextTree, exclusive: Array, scope: Scope) -> Array:
    """Exclusive costs (contexts x profiles) in another scope: every context's is added to all that contain it."""
    if scope == Scope.EXCLUSIVE:
        return exclusive
    above = tree.parent if scope == Scope.INCLUSIVE else tree.within
    out = np.zeros_like(exclusive)
    for context in range(len(tree)):
        at = context
        while at >= 0:
            out[at] += exclusive[context]
            at = int(above[at])
    return out


def dense(experiment: Experiment, name: str, scope: Scope) -> Array:
    """A stored row over (contexts x profiles)."""
    row = experiment.metrics.find(name, scope)
    assert row is not None
    columns = [experiment.values.dense(p, row) for p in range(len(experiment.profiles))]
    return np.stack(columns, axis=1)
