"""What an experiment has that a pre-release database cannot hold, in words; only what is really there is named."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from callgrove.formats.hpctoolkit.losses import DESCRIPTION, losses_of_both
from callgrove.formats.hpctoolkit.metric_plan import MetricPlan
from callgrove.formats.hpctoolkit.prerelease_parts import LARGEST_KIND
from callgrove.formats.hpctoolkit.prerelease_plan import Shape, TagTree
from callgrove.model.arrays import NO_OFFSET
from callgrove.model.contexts import Relation
from callgrove.model.experiment import Experiment

__all__ = ["losses_of"]


def losses_of(experiment: Experiment, tree: TagTree, plan: MetricPlan) -> Iterator[str]:
    """Everything that is left out or changed, one sentence each."""
    n = len(experiment.contexts)
    yield from losses_of_both(experiment, tree.kind_as_read, tree.around[:n], tree.keeps_ids, plan)
    yield from _nesting(tree)
    yield from _places(tree)
    if (experiment.profiles.identifiers.kind > LARGEST_KIND).any():
        yield f"identifiers: kinds above {LARGEST_KIND} do not fit"
    if DESCRIPTION in experiment.attributes:
        yield f"attributes: {DESCRIPTION}"


def _nesting(tree: TagTree) -> Iterator[str]:
    contexts, n = tree.contexts, len(tree.contexts)
    if n_lines := int(tree.flattened.sum()):
        yield f"inclusive values of {n_lines} lines: what they call hangs beside them"
    called = (contexts.call_line >= 0) & (contexts.relation != Relation.INLINED)
    if n_called := int(called.sum()):
        yield f"call sites: where {n_called} contexts were called from"
    sites = (tree.shape[:n] == Shape.SITE) & (contexts.relation != Relation.LEXICAL)
    inner = np.isin(tree.shape[:n], (Shape.LINE, Shape.LOOP, Shape.POINT)) & (contexts.relation != Relation.LEXICAL)
    if n_related := int((sites | inner).sum()):
        yield f"relations of {n_related} contexts: loops, lines and instructions are nested in their parents"


def _places(tree: TagTree) -> Iterator[str]:
    """Tags other than frames inherit their module; lines have no offset."""
    contexts, n = tree.contexts, len(tree.contexts)
    shape, module, offset = tree.shape[:n], contexts.column("module"), contexts.column("offset")
    inherits = np.isin(shape, (Shape.SITE, Shape.POINT, Shape.LOOP)) & contexts.listed
    other = inherits & (module >= 0) & (module != _frame_modules(tree)[:n])
    other |= (shape == Shape.LINE) & contexts.listed & ((module >= 0) | (offset != NO_OFFSET))
    if other.any():
        yield f"modules and offsets of {int(other.sum())} loops, lines and instructions"


def _frame_modules(tree: TagTree) -> np.ndarray:
    """The module of the frame that each row lies in."""
    module = np.append(tree.contexts.column("module"), np.full(len(tree) - len(tree.contexts), -1))
    is_frame = tree.shape == Shape.FRAME
    above = tree.parent.copy()
    while (climbing := (above >= 0) & ~is_frame[above]).any():
        above[climbing] = tree.parent[above[climbing]]
    return np.where(above >= 0, module[above], -1)
