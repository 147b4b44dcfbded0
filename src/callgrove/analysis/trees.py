"""The call tree from the roots down."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from callgrove.analysis.columns import ShownColumns
from callgrove.analysis.costs import Costs
from callgrove.analysis.groups import nearest
from callgrove.analysis.rows import described
from callgrove.analysis.statistics import Rows
from callgrove.model.arrays import Array, Bools, Floats, Ids, Ints
from callgrove.model.contexts import ContextTree
from callgrove.model.table import Column, Table

__all__ = ["Folded", "exclusive_of", "fold_lines", "top_down"]


@dataclass(frozen=True)
class Folded:
    """A tree in which lines and call sites are part of what they are nested in.

    `shown` are the contexts that remain, `owner` is the one that each became part of; `parent` and `depth` are theirs,
    for every context of the tree.
    """

    shown: Bools
    owner: Ids
    parent: Ids
    depth: Ids
    exclusive: Array
    inclusive: Array


def fold_lines(costs: Costs, source: bool = False) -> Folded:
    """Fold source lines, call sites and instructions into their functions and loops; `source` keeps them."""
    tree, n = costs.tree, costs.tree.n_listed
    shown = np.ones(n, np.bool_) if source else ~tree.folded[:n]
    owner = nearest(tree, shown)
    above = tree.parent[:n]
    parent = np.where(above >= 0, owner[np.maximum(above, 0)], -1).astype(np.int32)
    depth: list[int] = []
    for up, visible in zip(above.tolist(), shown.tolist(), strict=True):
        depth.append((depth[up] if up >= 0 else -1) + visible)
    return Folded(shown, owner, parent, np.array(depth, np.int32), exclusive_of(costs, owner), costs.inclusive)


def exclusive_of(costs: Costs, owner: Ids) -> Array:
    """Exclusive cost of contexts with all that became part of them; the same owners serve every metric."""
    aggregation = costs.metric.aggregation
    kind = costs.exclusive.dtype if not aggregation.neutral else np.dtype(np.float64)
    exclusive = np.full(len(owner), aggregation.neutral, kind)
    aggregation.combine_at(exclusive, owner, costs.exclusive)
    return exclusive


def top_down(
    costs: Costs, source: bool = False, limit: int | None = None, columns: ShownColumns | None = None
) -> Table:
    """The call tree in preorder, the costliest child first (by size, where costs are signed); percent is of inclusive
    cost.

    Contexts without any cost at or below them are left out. A limit keeps the contexts with the highest inclusive cost
    and all that lies above them. `columns` are shown of the same rows.
    """
    folded = fold_lines(costs, source)
    reached = costs.weights > 0 if costs.is_signed else costs.has(folded.exclusive) | costs.has(folded.inclusive)
    costly = np.flatnonzero(folded.shown & reached)
    ranks = costs.rank(folded.inclusive)
    chosen = costly if limit is None or len(costly) <= limit else _heaviest(folded, costly, ranks, limit)
    order = _walk(folded, chosen, ranks)
    return Table(
        (
            Column("context", order),
            Column("depth", folded.depth[order]),
            *described(costs.tree, order.tolist()),
            *costs.columns(folded.exclusive[order], folded.inclusive[order], folded.inclusive[order]),
            *_source_text(costs, order, source),
            *(columns.of_rows(Rows.of_contexts(order, folded.owner)) if columns else ()),
        ),
        left=len(costly) - len(chosen),
    )


def _heaviest(folded: Folded, costly: Ints, ranks: Floats, limit: int) -> Ints:
    """The `limit` contexts with the highest inclusive cost, each with everything above it."""
    kept: set[int] = set()
    for context in costly[np.lexsort((costly, -ranks[costly]))].tolist():
        chain = []
        while context >= 0 and context not in kept:
            chain.append(context)
            context = int(folded.parent[context])
        if len(kept) + len(chain) > limit:
            break
        kept.update(chain)
    return np.array(sorted(kept), np.int64)


def _walk(folded: Folded, chosen: Ints, ranks: Floats) -> Ints:
    """Preorder with the costliest sibling first."""
    below: dict[int, list[int]] = {}
    inside = set(chosen.tolist())
    for context in chosen.tolist():
        above = int(folded.parent[context])
        while above >= 0 and above not in inside:  # a parent whose parts cancel out has no row
            above = int(folded.parent[above])
        below.setdefault(above, []).append(context)
    for children in below.values():
        children.sort(key=lambda c: (ranks[c], -c))  # popped from the end: the costliest first
    order: list[int] = []
    stack = list(below.get(-1, []))
    while stack:
        context = stack.pop()
        order.append(context)
        stack.extend(below.get(context, []))
    return np.array(order, np.int64)


def _source_text(costs: Costs, order: Ints, source: bool) -> tuple[Column, ...]:
    """The text of each context's line, where a copy of the source is at hand."""
    if not source:
        return ()
    tree: ContextTree = costs.tree
    texts: dict[int, list[str]] = {}
    cells: list[str | None] = []
    for context in order.tolist():
        region = int(tree.region[context])
        file = int(tree.regions.file[region]) if region >= 0 else -1
        line = int(tree.regions.line[region]) if region >= 0 else -1
        if file not in texts:
            texts[file] = costs.experiment.sources.lines(file)
        cells.append(texts[file][line - 1].strip() if 0 < line <= len(texts[file]) else None)
    return (Column("source", cells),)
