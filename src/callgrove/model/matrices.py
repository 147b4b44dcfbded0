"""Quantities in a scope as matrices, contexts x profiles.

Blocks come by profile or by metric, sparse or dense; all of some profiles is read in one pass over them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from callgrove.errors import UsageError
from callgrove.model.arrays import Array, Ints
from callgrove.model.books import Totals
from callgrove.model.contexts import ContextTree
from callgrove.model.scopes import Recipe
from callgrove.model.values import Block, DenseBlock, Values

__all__ = ["matrices"]


def matrices(
    values: Values, tree: ContextTree, ways: Sequence[Recipe], profiles: Ints, given: Totals | None = None
) -> dict[int, Array]:
    """The wanted scope of each way, by its stored row; rows without any value are left out. What is read is added to
    `given`.

    Rows that are stored in the wanted scope are given as stored; others are computed from what was measured. Composite
    values that do not fit one another are left out too, unless nothing else was asked for.
    """
    filled: dict[int, Array] = {}
    column = np.zeros(len(values.profiles), np.int64)
    column[profiles] = np.arange(len(profiles))
    for stored in (True, False):  # as stored, or computed of what was measured
        chosen = {way.stored: way for way in ways if way.is_stored == stored}
        if not chosen:
            continue
        read = values.blocks if stored else values.measured_blocks
        for block in read(profiles, np.array(list(chosen))):
            if given is not None:
                given.add(block)
            for metric, part in _by_metric(block):
                _fill(filled, metric, chosen[metric], part, column, (len(tree), len(profiles)))
    out: dict[int, Array] = {}
    for way in ways:
        if way.stored in filled:
            try:
                out[way.stored] = way.apply(filled[way.stored], tree, in_place=True)
            except UsageError:  # composite values that do not fit one another: all others can still be had
                if len(ways) == 1:
                    raise
    return out


def _by_metric(block: Block) -> Iterator[tuple[int, Block]]:
    if isinstance(block, DenseBlock):
        yield block.metric, block
        return
    for metric in np.unique(block.metric).tolist():
        yield metric, block.take(block.metric == metric)


def _fill(
    filled: dict[int, Array], metric: int, way: Recipe, block: Block, column: Ints, shape: tuple[int, int]
) -> None:
    """Put the values of one metric into its matrix, which is made when the first of them come."""
    values = block.matrix if isinstance(block, DenseBlock) else block.value
    neutral = way.metric.aggregation.neutral
    kind = values.dtype if not neutral else np.dtype(np.float64)
    out = filled.get(metric)
    if out is None:
        filled[metric] = out = np.zeros(shape, kind)
        if neutral:
            out[:] = neutral
    elif out.dtype != kind:  # the runs of one experiment may store a metric in different types
        filled[metric] = out = out.astype(np.promote_types(out.dtype, kind))
    if isinstance(block, DenseBlock):
        if block.neutral != neutral:
            values = np.where(values == block.neutral, neutral, values)
        columns = column[block.profiles]
        if len(columns) == shape[1] and (np.diff(columns) == 1).all():
            out[block.contexts] = values
        else:
            out[np.ix_(block.contexts, columns)] = values
    else:
        out[block.context, column[block.profile]] = values
