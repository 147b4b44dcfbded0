"""cut: a call tree with other roots, or without some calls. common: the call tree that all inputs have.

    main -- solve -- kernel        roots=["solve"]    solve -- kernel
        `-- write                  prunes=["solve"]   main -- write      main costs what solve did

With recursion the outermost occurrences count. A root has no caller that could take its cost, so it is not pruned.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from callgrove.algebra.cells import equal
from callgrove.algebra.folding import Folded, FoldedValues
from callgrove.algebra.operations import Matching, joined
from callgrove.algebra.places import outermost, places
from callgrove.algebra.profiles import Systems
from callgrove.algebra.quantities import some
from callgrove.algebra.selecting import Kept, taken
from callgrove.errors import Parameter, UsageError
from callgrove.model.arrays import Bools, Ids, Ints
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Scope
from callgrove.model.renumbering import absent_stays
from callgrove.model.unify import PLACES, unify

__all__ = ["common", "cut"]

VISITS = ("visits",)  # counts of calls: those of a removed callee are no calls of its caller


def cut(experiment: Experiment, *, roots: Sequence[str] = (), prunes: Sequence[str] = ()) -> Experiment:
    """Return the experiment with other roots and without some calls, whose callers take their cost; roots come first.

    Texts are a name, a call path like "main->solve", or a "/pattern/".

        callgrove.cut(experiment, roots=["solve"], prunes=["/^MPI_/"])
    """
    if not roots and not prunes:
        both = Parameter("roots"), ") or to prune (", Parameter("prunes"), ")"
        raise UsageError("nothing to cut: name contexts as roots (", *both)
    if roots:
        experiment = _rerooted(experiment, _chosen(experiment, roots))
    if prunes:
        experiment = _pruned(experiment, _chosen(experiment, prunes), prunes)
    return experiment


def _chosen(experiment: Experiment, texts: Sequence[str]) -> Bools:
    chosen = np.zeros(experiment.contexts.n_listed, np.bool_)
    for text in texts:
        chosen |= places(experiment.contexts, text)
    return chosen


def _rerooted(experiment: Experiment, chosen: Bools) -> Experiment:
    """The subtrees of the outermost chosen contexts."""
    tree = experiment.contexts
    heads = np.flatnonzero(outermost(tree, chosen))
    contexts = Folded(tree, heads).gone
    kept = Kept.of(experiment, contexts=contexts)
    notes = []
    if n_elided := len(tree) - tree.n_listed:
        notes.append(f"lost: {n_elided} elided contexts: nothing tells whether they lie below the new roots")
    if experiment.traces.n_samples:
        notes.append("samples outside of the new roots read as idle")
    return taken(experiment, kept, tree.take(np.flatnonzero(contexts)), kept.values(experiment), "cut", *notes)


def _pruned(experiment: Experiment, chosen: Bools, texts: Sequence[str]) -> Experiment:
    tree = experiment.contexts
    at_root = chosen & (tree.parent[: tree.n_listed] < 0)
    removed = np.flatnonzero(outermost(tree, chosen & ~at_root))
    notes = []
    if at_root.any():
        label = tree.label(int(np.flatnonzero(at_root)[0]))
        notes.append(f"{label} is a root: it has no caller that could take its cost, and stays")
    return without(experiment, removed, "cut", (), *notes)


def without(experiment: Experiment, removed: Ints, word: str, dropped: Collection[str], *notes: str) -> Experiment:
    """The experiment without these contexts and all below them; callers take the cost, but of `dropped` quantities."""
    if not len(removed):
        kept = Kept.of(experiment)
        return taken(experiment, kept, experiment.contexts, kept.values(experiment), word, *notes)
    fold = Folded(experiment.contexts, removed)
    rows = np.array([m.scope != Scope.LEXICAL for m in experiment.metrics], np.bool_)
    kept = Kept.of(experiment, contexts=~fold.gone, metrics=rows)
    samples: Ids = absent_stays(kept.contexts)[fold.into]
    kept = Kept.of(experiment, contexts=~fold.gone, metrics=rows, samples=samples)
    said = list(notes)
    if len(roots := removed[experiment.contexts.parent[removed] < 0]):
        names = some([experiment.contexts.label(root) for root in roots.tolist()])
        said.append(f"lost: the cost of {len(roots)} roots that not all inputs have ({names}): nothing above takes it")
    if not rows.all():
        said.append("lost: values of scope lexical: what they become depends on loops that were pruned")
    values = FoldedValues(experiment, fold, kept, dropped)
    return taken(experiment, kept, experiment.contexts.take(np.flatnonzero(~fold.gone)), values, word, *said)


def common(
    *experiments: Experiment,
    ignore: Collection[str] = (),
    by: str = "place",
    fold_visits: bool = False,
) -> Experiment:
    """Return all inputs side by side, each with the contexts that all of them have.

    The cost of other contexts goes to the nearest that is common; their visits are dropped, unless `fold_visits`.
    """
    if not experiments:
        raise UsageError("common needs at least one experiment")
    matching = Matching.of(ignore, by, Systems.SIDE_BY_SIDE)
    skipped = tuple(place for place in matching.ignore if place in PLACES)
    unified = unify([e.contexts for e in experiments], ignore=skipped, by_name=matching.by_name, keep_elided=False)
    count = np.zeros(len(unified.tree), np.int64)
    for numbers in unified.maps:
        count[numbers[numbers >= 0]] += 1
    everywhere = count == len(experiments)
    if not everywhere.any():
        raise UsageError("the inputs have no context in common; ", Parameter("by", "name"), " compares names only")
    parts = [
        without(e, _outside(e, everywhere[np.maximum(numbers, 0)]), "common", () if fold_visits else VISITS)
        for e, numbers in zip(experiments, unified.maps, strict=True)
    ]
    return joined(parts, matching, equal, "common")


def _outside(experiment: Experiment, shared: Bools) -> Ints:
    """The topmost contexts that are not shared."""
    tree = experiment.contexts
    return np.flatnonzero(outermost(tree, ~shared[: tree.n_listed]))
