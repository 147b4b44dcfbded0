"""Some of the profiles (`part`), a call tree with other roots or without some calls (`cut`), and the call tree that all
inputs have (`common`).

    main -- solve -- kernel        roots=["solve"]    solve -- kernel
        `-- write                  prunes=["solve"]   main -- write      main costs what solve did

These are short forms of a selection, marked as the results of an operation: of profiles (`model/selection.py`), or of
contexts (`selecting.py`, `folding.py`). What is cut is a whole by itself: percentages are of it.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Sequence
from dataclasses import replace

import numpy as np

from callgrove.algebra.cells import equal
from callgrove.algebra.folding import Fold, apply_fold
from callgrove.algebra.operands import some
from callgrove.algebra.operations import Matching, join_experiments
from callgrove.algebra.profiles import Systems
from callgrove.algebra.selecting import ContextSelection, outermost, select_contexts
from callgrove.arrays import Bools
from callgrove.errors import Parameter, UsageError
from callgrove.model.experiment import Experiment, InputWarning, Severity
from callgrove.model.joining import PLACES, unify
from callgrove.model.profiles import choose_profiles
from callgrove.model.runs import Numbers
from callgrove.model.selection import select

__all__ = ["common", "cut", "part"]


def part(
    experiment: Experiment,
    *,
    ranks: Numbers | None = None,
    threads: Numbers | None = None,
    runs: Numbers | None = None,
    profiles: Container[int] | None = None,
    invert: bool = False,
) -> Experiment:
    """Return the experiment with these ranks, threads, runs and profiles only, or with all others. The tree stays as it
    is. `Experiment.select` chooses metrics and times as well.

        callgrove.part(experiment, ranks="0-3", invert=True)
    """
    chosen = choose_profiles(experiment, ranks, threads, runs, profiles, invert)
    measured = experiment.profiles.measured
    return _mark(select(experiment, profiles=measured if chosen is None else chosen), experiment, "part")


def _mark(made: Experiment, experiment: Experiment, word: str, *notes: str) -> Experiment:
    """Return a result that says what it was made of, by which operation, and what there is to know about it."""
    return replace(
        made,
        attributes={**made.attributes, "operation": word, "inputs": experiment.path or experiment.title},
        warnings=(*made.warnings, *(InputWarning(Severity.NOTE, note) for note in notes)),
    )


VISITS = ("visits",)  # counts of calls: those of a removed callee are not calls of its caller


def cut(experiment: Experiment, *, roots: Sequence[str] = (), prunes: Sequence[str] = ()) -> Experiment:
    """Return the experiment with other roots and without some calls, whose callers take their cost: short for
    `select(under=roots, prune=prunes, rest="drop")`, but new roots that look the same stay apart, as cube_cut leaves
    them.

    Texts are patterns: a name, a call path like "main -> solve", or a "/regular expression/". With recursion the
    outermost occurrences count. A root has no caller that could take its cost, so it is not pruned.

        callgrove.cut(experiment, roots=["solve"], prunes=["/^MPI_/"])
    """
    if not roots and not prunes:
        both = Parameter("roots"), ") or to prune (", Parameter("prunes"), ")"
        raise UsageError("nothing to cut: name contexts as roots (", *both)
    spelling = {"under": Parameter("roots"), "prune": Parameter("prunes")}
    asked = ContextSelection(under=roots, prune=prunes, rest="drop")
    made = select_contexts(experiment, asked, spelling, keeps_apart=True)
    return _mark(replace(made, whole=None), experiment, "cut")


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
    dropped = () if fold_visits else VISITS
    shared = (everywhere[np.maximum(numbers, 0)] for numbers in unified.maps)
    parts = [_take_shared(e, here, dropped) for e, here in zip(experiments, shared, strict=True)]
    return join_experiments(parts, matching, equal, "common")


def _take_shared(experiment: Experiment, shared: Bools, dropped: Collection[str]) -> Experiment:
    """Return the experiment without the topmost contexts that are not shared, and all below them; callers take the
    cost, but of `dropped` quantities."""
    tree = experiment.contexts
    removed = np.flatnonzero(outermost(tree, ~shared[: tree.n_listed]))
    made, losses = apply_fold(replace(experiment, whole=None), Fold.without(tree, removed), dropped)
    if len(roots := removed[tree.parent[removed] < 0]):
        names = some([tree.label(root) for root in roots.tolist()])
        losses.append(
            f"lost: the cost of {len(roots)} roots that not all inputs have ({names}): nothing above takes it"
        )
    return _mark(made, experiment, "common", *losses)
