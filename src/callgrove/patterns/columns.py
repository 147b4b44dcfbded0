"""What conditions can ask of contexts, and which contexts belong to which function.

    main                function
    |-- main.c:7        line           nested in main: part of it
    |   `-- solve       function       called: begins a body of its own
    `-- loop at ...     loop           nested in main
        `-- main.c:9    line           nested in the loop, and in main

Lines, loops, call sites and instructions that are nested in the source text belong to the function around them: where a
function is chosen they are, and its exclusive cost, as in `top`, contains theirs. Profilers measure there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from callgrove.arrays import Array, Bools, Floats, Ids, Ints, combine_upwards, depths, levels
from callgrove.errors import UsageError
from callgrove.model.contexts import ContextKind, ContextTree, Relation
from callgrove.model.definitions import Names
from callgrove.model.derived import TotalCells, When
from callgrove.model.metrics import Aggregation, Scope
from callgrove.patterns.conditions import Column, NumberColumn, TextColumn
from callgrove.patterns.paths import CallPaths

if TYPE_CHECKING:
    from callgrove.model.experiment import Experiment

__all__ = ["COLUMNS", "Bodies", "ContextColumns"]

COLUMNS = ("name", "kind", "file", "line", "module", "path", "depth", "children")
NESTED = (ContextKind.LINE, ContextKind.LOOP, ContextKind.CALL, ContextKind.INSTRUCTION)
WITHOUT_MISSING = {Aggregation.MINIMUM: np.fmin, Aggregation.MAXIMUM: np.fmax}  # of numbers where NaN is none


@dataclass(frozen=True)
class Bodies:
    """Which contexts of a tree are nested in others in the source text."""

    tree: ContextTree

    @cached_property
    def nested(self) -> Bools:
        """Lines, loops, call sites and instructions that belong to what they lie in. One that was called, since nothing
        is known of its function, stands for that."""
        tree, n = self.tree, self.tree.n_listed
        inside = (tree.relation[:n] == Relation.LEXICAL) & (tree.parent[:n] >= 0)
        out: Bools = np.isin(tree.kind[:n], NESTED) & inside
        return out

    @cached_property
    def owner(self) -> Ids:
        """What each context is nested in; -1 for what is called."""
        return np.where(self.nested, self.tree.parent[: self.tree.n_listed], np.int32(-1))

    @cached_property
    def levels(self) -> list[Ints]:
        """Contexts by how deep they are nested."""
        return levels(depths(self.owner))

    def close(self, chosen: Bools) -> Bools:
        """Return contexts with all that is nested in them."""
        out = chosen.copy()
        for level in self.levels[1:]:
            out[level] |= out[self.owner[level]]
        return out

    def inherit(self, numbers: Array) -> Array:
        """Return a column in which -1 becomes what the context has that it is nested in."""
        out = numbers.copy()
        for level in self.levels[1:]:
            above = out[self.owner[level]]
            out[level] = np.where(out[level] < 0, above, out[level])
        return out


@dataclass(frozen=True)
class _BodyCells(TotalCells):
    """Contexts whose exclusive cost contains that of what is nested in them."""

    bodies: Bodies | None = None

    def _read(self, quantity: str, scope: Scope) -> Floats:
        numbers = super()._read(quantity, scope)
        metric = self.values.metrics.first(quantity)
        if scope != Scope.EXCLUSIVE or (metric.derivation is not None and metric.derivation.when == When.AFTER):
            return numbers  # formulas are made of sums already
        return _add_nested(numbers, self.bodies, WITHOUT_MISSING.get(metric.aggregation, np.add))


def _add_nested(numbers: Array, bodies: Bodies | None, ufunc: np.ufunc) -> Array:
    assert bodies is not None
    n = bodies.tree.n_listed
    out = numbers.copy()
    out[:n] = combine_upwards(numbers[:n], bodies.owner, bodies.levels, ufunc)
    return out


class ContextColumns:
    """The columns and the costs of the contexts of an experiment's tree. Costs are of all its profiles; each column is
    read once."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment, self.tree = experiment, experiment.contexts
        self.bodies = Bodies(self.tree)
        self._metric_names = Names(experiment.metrics)
        self._known: dict[tuple[str, str], Column] = {}

    @property
    def n_rows(self) -> int:
        return self.tree.n_listed

    @property
    def names(self) -> Sequence[str]:
        return (*COLUMNS, *self.experiment.metrics.quantities)

    def find(self, name: str) -> Sequence[str]:
        return [name] if name in COLUMNS else self._metric_names.find(name)

    def read(self, name: str, scope: str) -> Column:
        """Return a column, or a metric: inclusive unless `scope` says excl."""
        if (name, scope) not in self._known:
            is_column = name in COLUMNS and not (scope and name in self.experiment.metrics.quantities)
            self._known[name, scope] = self._column(name) if is_column else self._metric(name, scope)
        return self._known[name, scope]

    def text(self, name: str) -> TextColumn:
        """Return one of the columns that hold texts."""
        column = self.read(name, "")
        assert isinstance(column, TextColumn)
        return column

    def mark(self, word: str) -> Bools:
        """Return the roots, or the contexts that call nothing; what is nested in them is not a call."""
        if word == "root":
            roots: Bools = self.tree.parent[: self.n_rows] < 0
            return roots
        leaves: Bools = self._n_children == 0
        return leaves

    @cached_property
    def _n_children(self) -> Ints:
        """How many calls each context has: those of what is nested in it are its calls."""
        n, bodies = self.n_rows, self.bodies
        called = np.flatnonzero(~bodies.nested & (self.tree.parent[:n] >= 0))
        counts = np.bincount(self.tree.parent[called], minlength=n)
        return combine_upwards(counts, bodies.owner, bodies.levels)

    def _column(self, name: str) -> Column:
        tree, n = self.tree, self.n_rows
        if name == "name":
            return self._labels()
        if name == "kind":
            return TextColumn(tree.kind[:n], [kind.word for kind in ContextKind])
        if name in ("file", "module"):
            texts = tree.regions.files.paths if name == "file" else tree.regions.modules
            return TextColumn(self.bodies.inherit(tree.column(name)[:n].astype(np.int32)), texts)
        if name == "path":
            labels = self.text("name")
            return CallPaths(tree, labels.codes, labels.texts)
        if name == "line":
            return NumberColumn(lines := tree.column("line")[:n], lines < 0)
        return NumberColumn(tree.depth[:n] if name == "depth" else self._n_children)

    def _labels(self) -> TextColumn:
        """Return the labels of contexts; most are those of their regions."""
        tree, n = self.tree, self.n_rows
        known: dict[str, int] = {}
        region = tree.region[:n]
        used = np.flatnonzero(np.bincount(region[region >= 0], minlength=len(tree.regions)))
        code_of_region = np.full(len(tree.regions) + 1, -1, np.int32)
        for number in used.tolist():
            code_of_region[number] = known.setdefault(tree.regions.label(number), len(known))
        codes = code_of_region[region]
        special = {int(c) for c in np.flatnonzero(region < 0)} | {c for c in tree.parameters if c < n}
        for context in special:
            codes[context] = known.setdefault(tree.label(context), len(known))
        return TextColumn(codes, list(known))

    def _metric(self, name: str, scope: str) -> NumberColumn:
        experiment, metric = self.experiment, self.experiment.metrics.first(name)
        if metric.composite is not None:
            raise UsageError(f"{name} has composite values ({metric.dtype}), which conditions cannot compare")
        neutral = metric.aggregation.neutral
        if scope != "excl":
            values = experiment.totals(name, Scope.INCLUSIVE)
        elif experiment.is_computed(name):
            values = _BodyCells(experiment.values, Scope.EXCLUSIVE, bodies=self.bodies).of(name)
        else:
            values = _add_nested(experiment.totals(name, Scope.EXCLUSIVE), self.bodies, metric.aggregation.ufunc)
        values = values[: self.n_rows]
        missing = values == neutral if neutral else None
        return NumberColumn(values, missing, metric.unit, experiment.whole_total(name))
