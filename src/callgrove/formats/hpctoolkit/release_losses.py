"""What an experiment has that a released database cannot hold, in words; only what is really there is named."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from callgrove.formats.hpctoolkit.generations import unknown_procedure
from callgrove.formats.hpctoolkit.losses import losses_of_both
from callgrove.formats.hpctoolkit.metric_plan import MetricPlan
from callgrove.formats.hpctoolkit.release_parts import LARGEST_KIND, LARGEST_LOGICAL
from callgrove.formats.hpctoolkit.release_plan import FileTree
from callgrove.formats.hpctoolkit.rows import NOWHERE
from callgrove.model.contexts import ContextTree, Regions
from callgrove.model.experiment import Experiment
from callgrove.model.profiles import IdentifierTuples, Interpretation

__all__ = ["losses_of"]


def losses_of(experiment: Experiment, tree: FileTree, plan: MetricPlan) -> Iterator[str]:
    """Everything that is left out or changed, one sentence each."""
    n = len(experiment.contexts)
    around = np.where(tree.moved_to[:n] == NOWHERE, tree.around[:n], experiment.contexts.within)
    yield from losses_of_both(experiment, tree.kind_as_read[:n], around, tree.keeps_ids, plan)
    yield from _contexts(experiment.contexts, tree)
    yield from _identifiers(experiment.profiles.identifiers)


def _contexts(contexts: ContextTree, tree: FileTree) -> Iterator[str]:
    n, regions = len(contexts), contexts.regions
    if called := int(((contexts.call_line >= 0) & (tree.moved_to[:n] == NOWHERE)).sum()):
        yield f"call sites: where {called} contexts were called from"
    if left_out := int(tree.emptied.sum()):
        yield f"call sites: {left_out} whose instruction is not known are left out, their lines call instead"
    entries = tree.region[tree.entries]
    entries = entries[entries >= 0]
    if ((regions.file[entries] >= 0) | (regions.module[entries] >= 0)).any():
        yield "places of entry points: file, line, module and offset"
    inner = contexts.region[(tree.lexical_type[:n] > 0) & tree.listed[:n] & (contexts.region >= 0)]
    if any(_has_own_name(regions, region) for region in np.unique(inner[regions.name[inner] >= 0]).tolist()):
        yield "names of loops, lines and instructions: they are known by their place"


def _has_own_name(regions: Regions, region: int) -> bool:
    """Pre-release databases name instructions after their place."""
    module = int(regions.module[region])
    made = unknown_procedure(regions.modules[module], int(regions.offset[region])) if module >= 0 else ""
    return regions.label(region) != made


def _identifiers(identifiers: IdentifierTuples) -> Iterator[str]:
    if (identifiers.logical > LARGEST_LOGICAL).any() or (identifiers.kind > LARGEST_KIND).any():
        yield f"identifiers: logical numbers above {LARGEST_LOGICAL} and kinds above {LARGEST_KIND} do not fit"
    made = (Interpretation.LOGICAL_LOCAL, Interpretation.LOGICAL_GLOBAL)
    if np.isin(identifiers.interpretation, made).any():
        yield "identifiers: that logical numbers were generated"
