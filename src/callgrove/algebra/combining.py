"""The values of a combination: those of all inputs, cell by cell, made one by a rule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from callgrove.algebra.cells import Cells, Differs, Rule, combined, difference, lanes, made_one, mean
from callgrove.algebra.operands import Operand
from callgrove.algebra.quantities import Plan
from callgrove.algebra.tiles import TiledValues, sparse
from callgrove.errors import Parameter, UsageError, worded
from callgrove.model.arrays import Array, Ints
from callgrove.model.books import Totals, counted_contexts
from callgrove.model.contexts import ContextTree
from callgrove.model.metrics import Scope
from callgrove.model.orders import combine_upwards, depths, levels
from callgrove.model.values import SparseBlock

__all__ = ["CombinedValues"]


LINEAR = (combined, mean, difference)


def _weights(rule: Rule, n_inputs: int) -> list[float]:
    """How often each input counts in a sum, a mean or a difference."""
    if rule is difference:
        return [1.0, *([-1.0] * (n_inputs - 1))]
    return [1 / n_inputs if rule is mean else 1.0] * n_inputs


class CombinedValues(TiledValues):
    """The values of several operands. Rows that only one of them has in a profile pass as they are, unless the rule
    is one for all of them (`everywhere`: a mean is divided by the number of inputs)."""

    def __init__(
        self, operands: Sequence[Operand], plan: Plan, tree: ContextTree, n_profiles: int, rule: Rule, everywhere: bool
    ) -> None:
        backends = [operand.experiment.values.backend for operand in operands]
        super().__init__(backends, plan.metrics, n_profiles, len(tree) * len(plan.metrics))
        self._operands, self._tree, self._rule = tuple(operands), tree, rule
        self._combined = plan.is_contested | everywhere
        self._given: list[Totals | None] = [None] * len(operands)
        self._derived = plan.derived
        self._base = {row: base for base, rows in plan.derived.items() for row in rows}

    def n_stored(self) -> int | None:
        """At most what the inputs hold, where nothing is converted."""
        whole = not self._derived and all(
            way.is_stored and not operand.collapsed for operand in self._operands for way in operand.ways.values()
        )
        counts = [source.n_stored() for source in self._sources] if whole else [None]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    def start_books(self) -> None:
        super().start_books()
        self._made = Totals(self._metrics, None, counted_contexts(self._tree))
        self._given = [operand.empty_totals(len(self._metrics)) for operand in self._operands]

    def differences(self) -> Iterator[str]:
        """Yield rows whose cost is not what the rule makes of the costs of the inputs, where it follows from these."""
        yield from super().differences()
        given = [totals for totals in self._given if totals is not None]
        if self._made is None or not given:
            return
        expected = self._made.like()
        for row in self._rows_that_add_up():
            signs = _weights(self._rule, len(given)) if self._combined[row] else [1.0] * len(given)
            expected.total[row] = sum(sign * float(one.total[row]) for sign, one in zip(signs, given, strict=True))
            expected.magnitude[row] = sum(float(one.magnitude[row]) for one in given)
            if not self._made.agrees(row, expected):
                before, after = expected.total[row], self._made.total[row]
                yield f"{self._metrics[row].label}: the inputs make {before:g}, the result has {after:g}"

    def _rows_that_add_up(self) -> list[int]:
        """Rows whose total follows from the totals of the inputs: not where values are chosen cell by cell."""
        assert self._made is not None
        chosen = self._combined if self._rule not in LINEAR else np.zeros_like(self._combined)
        derived = {row for rows in self._derived.values() for row in rows}
        return [row for row in np.flatnonzero(self._made.adds_up & ~chosen).tolist() if row not in derived]

    def tile(self, profiles: Ints, rows: Ints) -> Iterator[SparseBlock]:
        wanted = np.unique([self._base.get(row, row) for row in rows.tolist()])
        contested: list[tuple[int, SparseBlock]] = []
        for number, (operand, given) in enumerate(zip(self._operands, self._given, strict=True)):
            for block in operand.blocks(profiles, wanted, given):
                mask = self._combined[block.metric]
                if mask.all() and len(self._tree) == self._tree.n_listed:
                    contested.append((number, block))
                    continue
                listed = block.context < self._tree.n_listed  # elided contexts are of one input each
                yield block.take(~mask | ~(listed | np.isin(block.metric, list(self._derived))))
                contested.append((number, block.take(mask & listed)))
        for lane in lanes(contested):
            for block in self._made_one(lane):
                yield from self._scopes(block, set(rows.tolist()), profiles)

    @cached_property
    def _nesting(self) -> list[Ints]:
        """Contexts of the tree by how deep they are nested in the source text."""
        return levels(depths(self._tree.within[: self._tree.n_listed]))

    def _made_one(self, lane: list[tuple[int, SparseBlock]]) -> list[SparseBlock]:
        cells = Cells.of(lane, len(self._operands))
        try:
            return made_one(cells, self._rule, self._metrics)
        except Differs as found:
            raise UsageError(self._conflict(found)) from None

    def _conflict(self, found: Differs) -> str:
        cells, cell = found.cells, found.cell
        metric = self._metrics[int(cells.metric[cell])]
        first = self._operands[int(cells.owner[found.one])]
        left, right = first.experiment, self._operands[found.owner].experiment
        other = "none" if found.other is None else cells.value[found.other]
        own = np.flatnonzero(first.profiles == cells.profile[cell])
        profile = left.profiles.label(int(own[0])) if len(own) else "all profiles"
        return worded(
            f"{metric.name} ({metric.scope.word}) of {profile} at {self._tree.path(int(cells.context[cell]))}: "
            f"{left.path} has {cells.value[found.one]}, {right.path} has {other}; ",
            Parameter("conflict", "first"),
            ", last or sum decides, ",
            Parameter("system", "side-by-side"),
            " keeps both runs",
        )

    def _scopes(self, block: SparseBlock, rows: set[int], profiles: Ints) -> Iterator[SparseBlock]:
        """What was combined, in the scopes of the result: exclusive values of a base become those of its rows."""
        bases = np.isin(block.metric, list(self._derived))
        if not bases.all():
            yield block.take(~bases)
        for base in np.unique(block.metric[bases]).tolist():
            part = block.take(block.metric == base)
            for row, scope in self._derived[base].items():
                if row in rows:
                    yield from self._derive(part, row, scope, profiles)

    def _derive(self, exclusive: SparseBlock, row: int, scope: Scope, profiles: Ints) -> Iterator[SparseBlock]:
        if scope == Scope.EXCLUSIVE:
            yield SparseBlock(
                exclusive.profile, exclusive.context, np.full(len(exclusive), row, np.int32), exclusive.value
            )
            return
        tree, n = self._tree, self._tree.n_listed
        own = tree.parent[:n] if scope == Scope.INCLUSIVE else tree.within[:n]
        by_level = tree.levels if scope == Scope.INCLUSIVE else self._nesting
        used = np.unique(exclusive.profile)
        dense: Array = np.zeros((len(tree), len(used)), exclusive.value.dtype)
        dense[exclusive.context, np.searchsorted(used, exclusive.profile)] = exclusive.value
        dense[:n] = combine_upwards(dense[:n], own, by_level)
        yield sparse(dense, used, row)
