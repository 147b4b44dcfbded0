"""Some of the profiles (`part`), a call tree with other roots or without some calls (`cut`), and the call tree that all
inputs have (`common`).

    main -- solve -- kernel        roots=["solve"]    solve -- kernel
        `-- write                  prunes=["solve"]   main -- write      main costs what solve did

A part is a selection (`model/selection.py`), marked as the result of an operation. The others change the tree, and with
it what values are of; they leave the rest to the same engine. With recursion the outermost occurrences count. A root
has no caller that could take its cost, so it is not pruned.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Container, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from callgrove.algebra.cells import NEAR, Cells, combine_cells, equal, lanes, made_one
from callgrove.algebra.operands import TILE_VALUES, TiledValues, matrix, some, sparse
from callgrove.algebra.operations import Matching, join_experiments
from callgrove.algebra.profiles import Systems
from callgrove.arrays import ABSENT, Array, Bools, Ids, Ints, absent_stays, combine_upwards, depths, levels
from callgrove.errors import Parameter, UsageError
from callgrove.model.books import Totals, select_counted_contexts
from callgrove.model.computed_values import Recipe, recipe
from callgrove.model.contexts import ContextKind, ContextTree
from callgrove.model.experiment import Experiment, InputWarning, Severity
from callgrove.model.joining import PLACES, unify
from callgrove.model.metrics import Aggregation, Metric, Scope
from callgrove.model.profiles import choose_profiles
from callgrove.model.runs import Numbers
from callgrove.model.selection import Kept, select, take_part
from callgrove.model.values import SparseBlock, blocks_without_fillers

__all__ = ["Folded", "FoldedValues", "common", "cut", "outermost", "part", "places"]


# -- values of a tree without some of its subtrees ---------------------------------------------------------------------
# What a removed subtree costs, its caller costs from then on:
#
#     exclusive, point   values of a removed subtree are combined into the caller
#     inclusive          stays: the caller's already has it; what is removed goes
#     function           a caller's, and of what it is nested in, grows by the inclusive cost of the subtree, less what
#                        it had of it before, where the subtree was nested in the source text
#
# Of quantities in `dropped` the removed part is not folded, but gone: inclusive ones are computed anew.


@dataclass(frozen=True)
class Folded:
    """A tree without the subtrees below `removed` contexts (each with none of them above). `into` is the context that
    takes the cost of each context: itself where it stays, -1 where a whole root went."""

    tree: ContextTree
    removed: Ints

    @cached_property
    def gone(self) -> Bools:
        """Removed contexts with all below them."""
        steps = np.zeros(len(self.tree) + 1, np.int64)
        steps[self.removed] += 1
        np.add.at(steps, self.tree.subtree_end[self.removed], -1)
        gone: Bools = np.cumsum(steps)[:-1] > 0
        return gone

    @cached_property
    def into(self) -> Ids:
        out = np.arange(len(self.tree), dtype=np.int32)
        lengths = self.tree.subtree_end[self.removed] - self.removed
        out[self.gone] = np.repeat(self.tree.parent[self.removed], lengths)
        return out

    @cached_property
    def within(self) -> Ids:
        """What each context of the tree is nested in. What is nested in a removed one without being below it stays, and
        is nested in nothing from then on."""
        within = self.tree.within[: self.tree.n_listed]
        return np.where(np.append(self.gone, np.False_)[within], np.int32(ABSENT), within)

    @cached_property
    def nesting(self) -> list[Ints]:
        """Contexts of the tree by how deep they are nested in the source text."""
        return levels(depths(self.within))

    def move_values(self, function: Array, inclusive: Array) -> Array:
        """Return the function-scope values after the fold."""
        tree, n = self.tree, self.tree.n_listed
        change = np.zeros_like(function)
        called = self.removed[tree.parent[self.removed] >= 0]
        np.add.at(change, tree.parent[called], inclusive[called])
        edge = np.flatnonzero(self.gone & (tree.within >= 0))
        edge = edge[~self.gone[tree.within[edge]]]
        np.subtract.at(change, tree.within[edge], function[edge])
        change[:n] = combine_upwards(change[:n], self.within, self.nesting)
        with np.errstate(invalid="ignore", over="ignore"):
            out = function + change
            if out.dtype.kind == "f":
                out[np.isfinite(out) & (np.abs(out) <= NEAR * np.maximum(np.abs(function), np.abs(change)))] = 0
        return out


class FoldedValues(TiledValues):
    """The values of an experiment over its folded tree."""

    def __init__(self, experiment: Experiment, fold: Folded, kept: Kept, dropped: Collection[str] = ()) -> None:
        rows = [m for m, row in zip(experiment.metrics, kept.metrics.tolist(), strict=True) if row >= 0]
        n_profiles = int((kept.profiles >= 0).sum())
        super().__init__([experiment.values.backend], rows, n_profiles, int((kept.contexts >= 0).sum()) * len(rows))
        self._experiment, self._fold, self._kept, self._dropped = experiment, fold, kept, frozenset(dropped)
        self._input_rows = np.flatnonzero(kept.metrics >= 0)
        self._input_profiles = np.flatnonzero(kept.profiles >= 0)
        self._into = absent_stays(kept.contexts)[fold.into]
        self._folds = np.array([self._is_folded(m) for m in experiment.metrics], np.bool_)
        self._computed = np.array([self._is_computed(m) for m in experiment.metrics], np.bool_)
        self._given: Totals | None = None

    def start_books(self) -> None:
        super().start_books()
        tree = self._fold.tree
        self._made = Totals(self._metrics, None, select_counted_contexts(tree.take(np.flatnonzero(~self._fold.gone))))
        stays = self._fold.into >= 0  # what went with a whole root is said to be lost
        counted = {scope: here & stays for scope, here in select_counted_contexts(tree).items()}
        self._given = Totals(self._metrics, None, counted)

    def differences(self) -> Iterator[str]:
        """Yield quantities whose cost has changed, but for those that are dropped."""
        yield from super().differences()
        if self._made is None or self._given is None:
            return
        for row in np.flatnonzero(self._made.adds_up).tolist():
            metric = self._metrics[row]
            if metric.name not in self._dropped and not self._given.agrees(row, self._made):
                before, after = self._given.total[row], self._made.total[row]
                yield f"{metric.label}: the input has {before:g}, what is left of it {after:g}"

    def _is_folded(self, metric: Metric) -> bool:
        extreme = metric.aggregation in (Aggregation.MINIMUM, Aggregation.MAXIMUM)
        is_exclusive = metric.scope in (Scope.EXCLUSIVE, Scope.POINT) or (extreme and metric.scope != Scope.INCLUSIVE)
        return is_exclusive and metric.name not in self._dropped

    def _is_computed(self, metric: Metric) -> bool:
        if metric.aggregation != Aggregation.SUM or metric.composite is not None:
            return False
        return metric.scope == Scope.FUNCTION or (metric.scope == Scope.INCLUSIVE and metric.name in self._dropped)

    def tile(self, profiles: Ints, rows: Ints) -> Iterator[SparseBlock]:
        input_profiles, input_rows = self._input_profiles[profiles], self._input_rows[rows]
        computed = self._computed[input_rows]
        waiting: list[SparseBlock] = []
        if not computed.all():
            for block in blocks_without_fillers(self._sources[0], input_profiles, input_rows[~computed]):
                part = block.triples()
                if self._given is not None:
                    self._given.add_rows(self._kept.metrics[part.metric], part.context, part.value)
                folds = self._folds[part.metric]
                place = np.where(folds, self._into[part.context], self._kept.contexts[part.context])
                yield from self._outward(part, place, ~folds)
                waiting += self._outward(part, place, folds)
        for lane in lanes([(0, block) for block in waiting]):
            yield from made_one(Cells.of(lane, 1), combine_cells, self._metrics)
        for row in input_rows[computed].tolist():
            yield from self._compute(row, input_profiles)

    def _outward(self, block: SparseBlock, place: Ids, chosen: Bools) -> list[SparseBlock]:
        rows = chosen & (place >= 0)
        if not rows.any():
            return []
        profile, metric = self._kept.profiles[block.profile[rows]], self._kept.metrics[block.metric[rows]]
        return [SparseBlock(profile, place[rows].astype(np.int32), metric, block.value[rows])]

    def _compute(self, row: int, input_profiles: Ints) -> Iterator[SparseBlock]:
        """Yield a row that is not merely folded, some profiles at a time."""
        step = max(1, TILE_VALUES // max(1, len(self._fold.tree)))
        chosen = np.flatnonzero(self._kept.contexts >= 0)
        for start in range(0, len(input_profiles), step):
            some = input_profiles[start : start + step]
            values = self._values(self._experiment.metrics[row], row, some)[chosen]
            yield sparse(values, self._kept.profiles[some], int(self._kept.metrics[row]))

    def _values(self, metric: Metric, row: int, input_profiles: Ints) -> Array:
        tree, n = self._fold.tree, self._fold.tree.n_listed
        if metric.name not in self._dropped:
            function = matrix(self._experiment, row, input_profiles)
            if self._given is not None:
                self._given.add_matrix(int(self._kept.metrics[row]), np.arange(len(function)), function)
            # Not the stored inclusive row: it may be rounded (the XML of HPCToolkit 2.x), and function must add up.
            inclusive = Recipe(row, metric, Scope.INCLUSIVE).apply(function, tree)
            wide = np.result_type(_choose_signed_type(function), _choose_signed_type(inclusive))
            return self._fold.move_values(function.astype(wide), inclusive.astype(wide))
        alone = recipe(self._experiment.metrics, metric.name, Scope.EXCLUSIVE)
        values = alone.apply(matrix(self._experiment, alone.stored, input_profiles), tree)
        values = np.where(self._fold.gone[:, None], np.zeros(1, values.dtype), values)
        above = tree.parent if metric.scope == Scope.INCLUSIVE else self._fold.within
        by_level = tree.levels if metric.scope == Scope.INCLUSIVE else self._fold.nesting
        values[:n] = combine_upwards(values[:n], above[:n], by_level)
        return values


def _choose_signed_type(values: Array) -> np.dtype[np.generic]:
    """Return a type that holds the differences of these values."""
    if values.dtype.kind == "u" and values.size and int(values.max()) >= 2**63:
        return np.dtype(np.float64)
    return np.dtype(np.int64 if values.dtype.kind in "biu" else np.float64)


# -- which contexts a text means ---------------------------------------------------------------------------------------
# solve                  every context of that name
# main->solve->kernel    kernel called by solve called by main, wherever that is; lines, loops and call sites in
#                        between need not be named
# /^MPI_/                every context whose name the pattern finds something in


BETWEEN = (ContextKind.LINE, ContextKind.LOOP, ContextKind.CALL, ContextKind.INSTRUCTION)


def places(tree: ContextTree, text: str) -> Bools:
    """Return the contexts of the tree that a text means; none is an error."""
    names = _names(tree)
    if len(text) > 2 and text.startswith("/") and text.endswith("/"):
        matches = _by_pattern(names, text[1:-1])
    elif text in set(names):
        matches = np.array([name == text for name in names], np.bool_)
    else:
        matches = _count_path_matches(tree, names, text)
    if not matches.any():
        near = difflib.get_close_matches(text.rpartition("->")[2], set(names), 1)
        hint = f"did you mean {near[0]!r}?" if near else "name a context, a call path like main->solve, or a /pattern/"
        raise UsageError(f"there is no context {text!r}; {hint}")
    return matches


def _names(tree: ContextTree) -> list[str]:
    return [tree.label(context) for context in range(tree.n_listed)]


def _by_pattern(names: list[str], pattern: str) -> Bools:
    try:
        search = re.compile(pattern).search
    except re.error as error:
        raise UsageError(f"/{pattern}/ is not a regular expression: {error}") from None
    known = {name: search(name) is not None for name in set(names)}
    return np.array([known[name] for name in names], np.bool_)


def _count_path_matches(tree: ContextTree, names: list[str], text: str) -> Bools:
    """Return how many names of the path end at each context; what stands in between does not interrupt it."""
    steps = text.split("->")
    between = np.isin(tree.kind[: tree.n_listed], BETWEEN).tolist()
    reached: list[frozenset[int]] = []  # lengths of the beginnings of the path that lead here
    matches = np.zeros(tree.n_listed, np.bool_)
    for context, (parent, name) in enumerate(zip(tree.parent[: tree.n_listed].tolist(), names, strict=True)):
        above = reached[parent] if parent >= 0 else frozenset()
        here = {length + 1 for length in above | {0} if length < len(steps) and steps[length] == name}
        matches[context] = len(steps) in here
        reached.append(frozenset(here | above) if between[context] else frozenset(here))
    return matches


def outermost(tree: ContextTree, chosen: Bools) -> Bools:
    """Return those of some contexts that have none of them above."""
    out = np.zeros(len(chosen), np.bool_)
    end = 0
    for context in np.flatnonzero(chosen).tolist():
        if context >= end:
            out[context] = True
            end = int(tree.subtree_end[context])
    return out


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
        experiment = _reroot(experiment, _contexts_called(experiment, roots))
    if prunes:
        experiment = _prune(experiment, _contexts_called(experiment, prunes), prunes)
    return experiment


def _contexts_called(experiment: Experiment, texts: Sequence[str]) -> Bools:
    chosen = np.zeros(experiment.contexts.n_listed, np.bool_)
    for text in texts:
        chosen |= places(experiment.contexts, text)
    return chosen


def _reroot(experiment: Experiment, chosen: Bools) -> Experiment:
    """Return the subtrees of the outermost chosen contexts."""
    tree = experiment.contexts
    heads = np.flatnonzero(outermost(tree, chosen))
    contexts = Folded(tree, heads).gone
    kept = Kept.of(experiment, contexts=contexts)
    notes = []
    if n_elided := len(tree) - tree.n_listed:
        notes.append(f"lost: {n_elided} elided contexts: nothing tells whether they lie below the new roots")
    if experiment.traces.n_samples:
        notes.append("samples outside of the new roots read as idle")
    return _mark(take_part(experiment, kept), experiment, "cut", *notes)


def _prune(experiment: Experiment, chosen: Bools, texts: Sequence[str]) -> Experiment:
    tree = experiment.contexts
    at_root = chosen & (tree.parent[: tree.n_listed] < 0)
    removed = np.flatnonzero(outermost(tree, chosen & ~at_root))
    notes = []
    if at_root.any():
        label = tree.label(int(np.flatnonzero(at_root)[0]))
        notes.append(f"{label} is a root: it has no caller that could take its cost, and stays")
    return without(experiment, removed, "cut", (), *notes)


def without(experiment: Experiment, removed: Ints, word: str, dropped: Collection[str], *notes: str) -> Experiment:
    """Return the experiment without these contexts and all below them; callers take the cost, but of `dropped`
    quantities."""
    if not len(removed):
        return _mark(take_part(experiment, Kept.of(experiment)), experiment, word, *notes)
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
    made = take_part(experiment, kept, FoldedValues(experiment, fold, kept, dropped))
    return _mark(made, experiment, word, *said)


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
        without(e, _find_unshared(e, everywhere[np.maximum(numbers, 0)]), "common", () if fold_visits else VISITS)
        for e, numbers in zip(experiments, unified.maps, strict=True)
    ]
    return join_experiments(parts, matching, equal, "common")


def _find_unshared(experiment: Experiment, shared: Bools) -> Ints:
    """Return the topmost contexts that are not shared."""
    tree = experiment.contexts
    return np.flatnonzero(outermost(tree, ~shared[: tree.n_listed]))
