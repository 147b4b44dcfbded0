"""Quantities in a scope as matrices, contexts x profiles.

Blocks come by profile or by metric, sparse or dense; all of some profiles is read in one pass over them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

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

    Like every view, and like `Values.totals`, they are made of what was measured: numbers that an input holds in places
    where nothing was measured are not in them. Composite values that do not fit one another raise UsageError.
    """
    filled: dict[int, Array] = {}
    column = np.zeros(len(values.profiles), np.int64)
    column[profiles] = np.arange(len(profiles))
    chosen = {way.stored: way for way in ways}
    for block in values.measured_blocks(profiles, np.array(list(chosen), np.int64)):
        if given is not None:
            given.add(block)
        for metric, part in _by_metric(block):
            _fill(filled, metric, chosen[metric], part, column, (len(tree), len(profiles)))
    return {way.stored: way.apply(filled[way.stored], tree, in_place=True) for way in ways if way.stored in filled}


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
