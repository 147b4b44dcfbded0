"""Random trees of functions, loops and lines with whole-numbered costs, and what views of them must say."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from callgrove.analysis.costs import Costs, costs
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind, ContextTree, Relation
from callgrove.model.metrics import Metric, Scope
from callgrove.model.profiles import ProfileKind

__all__ = ["costly_trees", "function_of", "inclusive_of"]

FUNCTIONS = ("main", "solve", "kernel", "exchange")
NESTED = {ContextKind.LINE, ContextKind.LOOP, ContextKind.CALL}


@st.composite
def costly_trees(draw: Any, max_size: int = 25, least: int = 0) -> Costs:
    """The costs of a random experiment with one profile; functions recur along paths. `least` may lie below zero, as
    differences do."""
    builder = ExperimentBuilder("random")
    file = builder.file("/src/app.c")
    n = draw(st.integers(1, max_size))
    kinds: list[ContextKind] = []
    for number in range(n):
        parent = draw(st.integers(-1, number - 1)) if number else -1
        kind = ContextKind.FUNCTION
        if parent >= 0:
            kind = draw(st.sampled_from([ContextKind.FUNCTION, ContextKind.FUNCTION, *sorted(NESTED)]))
        kinds.append(kind)
        line = draw(st.integers(1, 4))
        name = draw(st.sampled_from(FUNCTIONS)) if kind == ContextKind.FUNCTION else ""
        region = builder.region(kind, name, file=file, line=1 if name else line)
        builder.add_context(parent, kind, region, Relation.CALL if name else Relation.LEXICAL)
    builder.add_metric(Metric("cost", Scope.EXCLUSIVE))
    builder.add_profile(ProfileKind.THREAD)
    amounts = draw(st.lists(st.integers(least, 5), min_size=n, max_size=n))
    builder.add_values(0, np.arange(n), 0, np.array(amounts, np.float64))
    return costs(builder.build())


def inclusive_of(found: Costs, context: int) -> float:
    """Own cost and that of everything below, by recursion."""
    return float(found.exclusive[context]) + sum(inclusive_of(found, c) for c in found.tree.children(context))


def function_of(tree: ContextTree, context: int) -> int:
    """The context of the function that a context is nested in."""
    while tree.relation[context] == Relation.LEXICAL and tree.parent[context] >= 0:
        context = int(tree.parent[context])
    return context
