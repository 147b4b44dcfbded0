"""The hot path: from the costliest root along the costliest calls, as long as one call dominates."""

from __future__ import annotations

import numpy as np

from callgrove.analysis.columns import ShownColumns
from callgrove.analysis.costs import Costs
from callgrove.analysis.rows import described
from callgrove.analysis.statistics import Rows
from callgrove.analysis.trees import Folded, fold_lines
from callgrove.model.arrays import Floats
from callgrove.model.table import Column, Table

__all__ = ["hot_path"]


def hot_path(costs: Costs, share: float = 0.5, columns: ShownColumns | None = None) -> Table:
    """Contexts from a root down, each with at least `share` of its parent's inclusive cost; percent is of the total. Of
    signed costs, at least `share` of all changes below the parent, whichever way they go."""
    folded = fold_lines(costs)
    path = _walk(folded, costs.weights, share)
    chosen = np.array(path, np.int64)
    return Table(
        (
            Column("context", chosen),
            Column("depth", folded.depth[chosen]),
            *described(costs.tree, path),
            *costs.columns(folded.exclusive[chosen], folded.inclusive[chosen], folded.inclusive[chosen]),
            *(columns.of_rows(Rows.of_contexts(chosen, folded.owner)) if columns else ()),
        )
    )


def _walk(folded: Folded, weights: Floats, share: float) -> list[int]:
    below: dict[int, list[int]] = {}
    for context in np.flatnonzero(folded.shown & (weights > 0)).tolist():
        below.setdefault(int(folded.parent[context]), []).append(context)
    path: list[int] = []
    children, floor = below.get(-1, []), 0.0
    while children:
        best = max(children, key=lambda c: (weights[c], -c))
        if weights[best] < floor:
            break
        path.append(best)
        floor = share * float(weights[best])
        children = below.get(best, [])
    return path
