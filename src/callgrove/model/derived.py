"""Derived metrics: formulas over other metrics, and what they are worth in a cell of a view.

When a formula is computed decides what it means (`metrics.When`):

    AFTER             once, of operands that are aggregated for the cell already: 42 s / 112 visits of a function
    EACH              for every context and profile, of exclusive values; the results add up as measured values do
    EACH_INCLUSIVE    the same of inclusive values; exclusive is what is left without the children

    derive_metric(name, derivation) -> Metric           derivation: a formula of any language (`Derivation`)
    metric.derivation.evaluate(cells) -> numbers         cells: what the formula can ask for

Cells come in three kinds, which answer for the same quantities in different shapes:

    ProfileCells      contexts x profiles, of some profiles
    TotalCells        contexts, over all chosen profiles
    RowCells          rows of a view, each of one or many contexts (callgrove.analysis.costs)

A formula that is linear in additive metrics gives the same before and after aggregation: its row has scope exclusive
and adds up. Every other AFTER formula has no scope, and no values that could be added up.

NaN is "no value", and so is everything that is computed from it; a result that a double cannot hold has none either.
Formulas name quantities, not rows: they stay valid where metrics, contexts or profiles get other numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np

from callgrove.arrays import Array, Floats, Ids, Ints, combine_upwards, subtract_children
from callgrove.errors import NotEvaluated, UsageError
from callgrove.model.computed_values import demand_operands, lacks_operand, matrices, recipe
from callgrove.model.contexts import ContextTree
from callgrove.model.metrics import Aggregation, Metric, Metrics, Scope
from callgrove.model.values import DenseBlock

if TYPE_CHECKING:
    from callgrove.model.values import Values

__all__ = [
    "STATISTICS",
    "Cells",
    "Derivation",
    "ProfileCells",
    "Refused",
    "TotalCells",
    "Unavailable",
    "When",
    "derive_blocks",
    "derive_metric",
    "evaluate",
    "formula_identity",
    "is_linear",
    "mark_orphans",
    "number_cells",
    "over_batches",
    "require_scope",
    "tell_when_computed",
    "without_infinite",
]

MOST_CELLS = 1 << 21  # contexts x profiles that are evaluated at once
STATISTICS = ("mean", "max", "min", "std", "count")  # over profiles


class When(StrEnum):
    """When a formula is computed: after values are aggregated, or before that, in each context and profile."""

    AFTER = "postderived"
    EACH = "prederived, exclusive"
    EACH_INCLUSIVE = "prederived, inclusive"


class Cells(Protocol):
    """What a formula can ask for: operands of the cells that it is evaluated for. Shapes broadcast with one another."""

    @property
    def tree(self) -> ContextTree:
        """The contexts that there are."""

    @property
    def scope(self) -> Scope:
        """Exclusive or inclusive: the scope of operands that name none."""

    @property
    def contexts(self) -> Ids | None:
        """The context of each row; None where rows are groups of contexts."""

    @property
    def values(self) -> Values:
        """The values that operands are read from."""

    @property
    def profiles(self) -> Ints | None:
        """The profile of each column; None where profiles are combined."""

    @property
    def chosen(self) -> Ints | None:
        """All profiles that were chosen, of which those of the columns may be a part; None is every measured one."""

    def of(self, quantity: str, scope: Scope | None = None) -> Floats:
        """Return an operand. Absent is 0 of an additive metric, NaN of others."""

    def total(self, quantity: str) -> Floats:
        """Return the inclusive value of all roots, over the profiles of each cell."""

    def of_all_profiles(self, quantity: str, scope: Scope | None = None) -> Floats:
        """Return an operand over all chosen profiles, whatever the profile of a cell."""

    def in_tree(self, quantity: str, scope: Scope | None = None) -> Floats:
        """Return an operand in every context of the tree, over all chosen profiles, whatever the rows of the cells."""

    def over_profiles(self, statistic: str, quantity: str, scope: Scope | None = None) -> Floats:
        """Return one of STATISTICS of an operand over the chosen profiles."""


class Derivation(ABC):
    """A formula over other metrics.

    `language` is that of its text: `callgrove` or `cubepl`. `text` is the formula without the name of the metric,
    `when` says when it is computed. `reason` says why it cannot be evaluated; empty for all that can.
    """

    language: ClassVar[str]
    text: str
    when: When
    reason: str = ""

    @property
    @abstractmethod
    def operands(self) -> tuple[str, ...]:
        """The quantities that it names, each once."""

    @property
    def is_linear(self) -> bool:
        """Whether it is a sum of constant multiples of its operands, all in the scope of the cell. Its operands must
        be additive for it to be so as well."""
        return False

    @property
    def companions(self) -> tuple[str, ...]:
        """Other metrics that must stay where it stays, though they are not operands: they bring what it needs."""
        return ()

    @property
    def identity(self) -> tuple[object, ...]:
        """What makes two formulas the same, also those of two files: everything that the value follows from."""
        return self.language, self.when, self.text

    @property
    def adds_over_profiles(self) -> bool:
        """Whether it may be computed of operands that are added up over profiles: a sum of multiples of them, with
        factors that the context alone decides. Its operands must be additive."""
        return False

    @property
    def depends_on_contexts(self) -> bool:
        """Whether it asks what a context is, besides for the operands there: the time of MPI functions is no such time
        any more where their caller takes it."""
        return False

    @property
    def adds_plainly(self) -> bool:
        """Whether its results, where they are added up, are so as measured values are; False where a formula brings
        rules of its own (`add_profiles`, `spread`)."""
        return True

    @abstractmethod
    def evaluate(self, cells: Cells) -> Floats | float:
        """Return the value in each cell; NaN is not a value. Raises NotEvaluated where it cannot be computed at all."""

    def add_profiles(self, matrix: Floats) -> Floats:
        """Return what rows x profiles come to over all profiles."""
        summed: Floats = matrix.sum(axis=1)
        return summed

    def spread(self, values: Floats, given: Scope, wanted: Scope, tree: ContextTree) -> Floats:
        """Return values of one scope in the other one, over the tree."""
        if given == Scope.INCLUSIVE:
            return subtract_children(values.copy(), tree.parent)
        return combine_upwards(values.copy(), tree.parent, tree.levels, np.add)


@dataclass(frozen=True)
class Unavailable(Derivation):
    """A formula that cannot be evaluated: `reason` says why, with the place in the text."""

    language: ClassVar[str] = ""
    text: str
    when: When
    reason: str
    operands: tuple[str, ...] = ()

    def evaluate(self, cells: Cells) -> Floats:
        """Raise NotEvaluated, always."""
        raise NotEvaluated("", self.when, self.text, self.reason)


class Refused(Unavailable):
    """A formula that does not hold for the values that there are: nobody may write it where others would evaluate
    it."""


def derive_metric(name: str, derivation: Derivation, row: Metric, adds_up: bool) -> Metric:
    """Return the row of a derived metric with what else is known of it. `adds_up`: all its operands are additive, so
    that a linear formula is additive as well."""
    scopes = {When.EACH: Scope.EXCLUSIVE, When.EACH_INCLUSIVE: Scope.INCLUSIVE}
    is_sum = derivation.when != When.AFTER or (derivation.is_linear and adds_up)
    return replace(
        row,
        name=name,
        scope=scopes.get(derivation.when, Scope.EXCLUSIVE if is_sum else Scope.NONE),
        aggregation=Aggregation.SUM if is_sum else Aggregation.NONE,
        formula=derivation.text,
        derivation=derivation,
        show_percent=is_sum,
    )


def is_linear(metrics: Metrics, quantity: str) -> bool:
    """Return whether a derived quantity is a sum of constant multiples of others that add up: it is the same whether
    these are added up before or afterwards."""
    metric = metrics.first(quantity)
    formula = metric.derivation
    if formula is None or not formula.is_linear or metric.aggregation != Aggregation.SUM:
        return False
    operands = [metrics.first(name) for name in formula.operands if metrics.scopes(name)]
    return all(operand.aggregation == Aggregation.SUM and operand.composite is None for operand in operands)


def mark_orphans(kept: Sequence[Metric], before: Iterable[str]) -> list[Metric]:
    """Return metrics in which a formula over a quantity that there was before says that it is gone; it would read as
    computed from zeros otherwise."""
    gone = set(before) - {metric.name for metric in kept if not metric.statistic}
    return [_mark_orphan(metric, gone) for metric in kept] if gone else list(kept)


def _mark_orphan(metric: Metric, gone: set[str]) -> Metric:
    formula = metric.derivation
    lacking = [] if formula is None else [name for name in formula.operands if name in gone]
    if formula is None or not lacking:
        return metric
    return replace(metric, derivation=Refused(formula.text, formula.when, f"there is no {lacking[0]} any more"))


def tell_when_computed(metric: Metric) -> When:
    """Return when a derived metric is computed, also where nothing evaluates its formula."""
    if metric.derivation is not None:
        return metric.derivation.when
    return {Scope.NONE: When.AFTER, Scope.INCLUSIVE: When.EACH_INCLUSIVE}.get(metric.scope, When.EACH)


def formula_identity(metric: Metric) -> tuple[object, ...]:
    """Return what makes derived metrics of one name the same; nothing for a measured one."""
    if metric.derivation is not None:
        return metric.scope, *metric.derivation.identity
    return (metric.scope, metric.formula) if metric.is_derived else ()


@dataclass(frozen=True)
class ProfileCells:
    """Contexts x profiles. `every` are all profiles that were chosen, of which these may be a part."""

    values: Values
    scope: Scope
    profiles: Ints
    every: Ints
    cache: dict[tuple[str, Scope], Array] = field(default_factory=dict)  # shared with cells of the other scope
    across: list[TotalCells] = field(default_factory=list)  # cells over all profiles, once needed; shared by batches

    @property
    def tree(self) -> ContextTree:
        return self.values.tree

    @property
    def contexts(self) -> Ids:
        return np.arange(len(self.tree), dtype=np.int32)

    @property
    def chosen(self) -> Ints:
        return self.every

    @property
    def over_all(self) -> TotalCells:
        """The same contexts over all chosen profiles."""
        if not self.across:
            self.across.append(TotalCells(self.values, self.scope, self.every))
        return self.across[0]

    def of(self, quantity: str, scope: Scope | None = None) -> Floats:
        key = quantity, scope or self.scope
        if key not in self.cache:
            self.cache[key] = self._read(*key)
        return self.cache[key]

    def _read(self, quantity: str, scope: Scope) -> Floats:
        metric = self.values.metrics.first(quantity)
        if metric.derivation is None:
            return number_cells(metric, self._read_stored(quantity, scope))
        require_scope(metric, scope)
        if metric.derivation.when == When.AFTER:
            return evaluate(metric, replace(self, scope=scope), self._shape)
        _demand_single_profiles(self.values, self.every, quantity)
        asked = Scope.INCLUSIVE if metric.derivation.when == When.EACH_INCLUSIVE else Scope.EXCLUSIVE
        cells = evaluate(metric, replace(self, scope=asked), self._shape)
        return cells if asked == scope else _spread(metric.derivation, cells, asked, scope, self.tree)

    @property
    def _shape(self) -> tuple[int, ...]:
        return len(self.tree), len(self.profiles)

    def _read_stored(self, quantity: str, scope: Scope) -> Array:
        way = recipe(self.values.metrics, quantity, scope)
        matrix = matrices(self.values, self.tree, [way], self.profiles).get(way.stored)
        return np.full(self._shape, way.metric.aggregation.neutral) if matrix is None else matrix

    def total(self, quantity: str) -> Floats:
        return _add_roots(self.values.metrics.first(quantity), self.of(quantity, Scope.INCLUSIVE), self.tree)

    def of_all_profiles(self, quantity: str, scope: Scope | None = None) -> Floats:
        return self.in_tree(quantity, scope)[:, None]

    def in_tree(self, quantity: str, scope: Scope | None = None) -> Floats:
        demand_operands(self.values, quantity, self.every)
        return self.over_all.of(quantity, scope or self.scope)

    def over_profiles(self, statistic: str, quantity: str, scope: Scope | None = None) -> Floats:
        return self.over_all.over_profiles(statistic, quantity, scope or self.scope)[:, None]


@dataclass(frozen=True)
class TotalCells:
    """Contexts, over all measured profiles or those chosen."""

    values: Values
    scope: Scope
    chosen: Ints | None = None
    cache: dict[tuple[str, Scope], Array] = field(default_factory=dict)  # shared with cells of the other scope
    statistics: dict[tuple[str, Scope], dict[str, Floats]] = field(default_factory=dict)  # likewise
    profiles: None = None

    @property
    def tree(self) -> ContextTree:
        return self.values.tree

    @property
    def contexts(self) -> Ids:
        return np.arange(len(self.tree), dtype=np.int32)

    def of(self, quantity: str, scope: Scope | None = None) -> Floats:
        key = quantity, scope or self.scope
        if key not in self.cache:
            self.cache[key] = self._read(*key)
        return self.cache[key]

    def _read(self, quantity: str, scope: Scope) -> Floats:
        metric = self.values.metrics.first(quantity)
        if metric.derivation is None:
            way = recipe(self.values.metrics, quantity, scope)
            return number_cells(metric, way.apply(self.values.totals(way.stored, self.chosen), self.tree))
        require_scope(metric, scope)
        if metric.derivation.when == When.AFTER:
            return evaluate(metric, replace(self, scope=scope), (len(self.tree),))
        asked = Scope.INCLUSIVE if metric.derivation.when == When.EACH_INCLUSIVE else Scope.EXCLUSIVE
        summed: Floats | None = None
        if metric.derivation.adds_over_profiles and all(map(self._adds_up, metric.derivation.operands)):
            summed = evaluate(metric, replace(self, scope=asked), (len(self.tree),))
            return summed if asked == scope else _spread(metric.derivation, summed, asked, scope, self.tree)
        for cells in self.by_profile(asked, quantity):
            part = metric.derivation.add_profiles(cells.of(quantity))
            summed = part if summed is None else metric.derivation.add_profiles(np.stack([summed, part], axis=1))
        if summed is None:
            return np.zeros(len(self.tree))
        summed = without_infinite(summed)
        return summed if asked == scope else _spread(metric.derivation, summed, asked, scope, self.tree)

    def _adds_up(self, quantity: str) -> bool:
        metrics = self.values.metrics
        return not metrics.scopes(quantity) or metrics.first(quantity).aggregation == Aggregation.SUM

    def by_profile(self, scope: Scope, quantity: str) -> Iterator[ProfileCells]:
        """Yield cells of contexts x profiles, some profiles at a time, for a quantity that needs single profiles."""
        every = self.values.profiles.measured if self.chosen is None else self.chosen
        demand_operands(self.values, quantity, every)
        _demand_single_profiles(self.values, every, quantity)
        return _batches(self.values, scope, every, across=[self])

    def total(self, quantity: str) -> Floats:
        return _add_roots(self.values.metrics.first(quantity), self.of(quantity, Scope.INCLUSIVE), self.tree)

    def of_all_profiles(self, quantity: str, scope: Scope | None = None) -> Floats:
        return self.of(quantity, scope)

    def in_tree(self, quantity: str, scope: Scope | None = None) -> Floats:
        return self.of(quantity, scope)

    def over_profiles(self, statistic: str, quantity: str, scope: Scope | None = None) -> Floats:
        key = quantity, scope or self.scope
        if key not in self.statistics:
            parts = (cells.of(quantity) for cells in self.by_profile(key[1], quantity))
            self.statistics[key] = over_batches(self.values.metrics.first(quantity), parts, len(self.tree))
        return self.statistics[key][statistic]


def over_batches(metric: Metric, batches: Iterator[Floats], n_rows: int) -> dict[str, Floats]:
    """Return STATISTICS of rows over all profiles, which come as rows x some of them.

    A profile without a value does not count, as a minimum or a ratio has none where nothing happened. What adds up has
    a value everywhere: where one is missing, nothing is known of all. `count` is the number of profiles whose value is
    not zero.
    """
    n, n_used, total, squares = (np.zeros(n_rows) for _ in range(4))
    low, high, missing = np.full(n_rows, np.inf), np.full(n_rows, -np.inf), np.zeros(n_rows, np.bool_)
    with np.errstate(all="ignore"):
        for matrix in batches:
            known = ~np.isnan(matrix)
            numbers = np.where(known, matrix, 0.0)
            n_before, n_here = n, known.sum(axis=1)
            mean_before, mean_here = total / np.maximum(n, 1), numbers.sum(axis=1) / np.maximum(n_here, 1)
            n = n + n_here
            # Squares of distances from the mean: a difference of sums of squares would be rounding only.
            squares += (np.where(known, matrix - mean_here[:, None], 0.0) ** 2).sum(axis=1)
            squares += (mean_here - mean_before) ** 2 * n_before * n_here / np.maximum(n, 1)
            total += numbers.sum(axis=1)
            n_used += (numbers != 0).sum(axis=1)
            low = np.minimum(low, np.where(known, matrix, np.inf).min(axis=1, initial=np.inf))
            high = np.maximum(high, np.where(known, matrix, -np.inf).max(axis=1, initial=-np.inf))
            missing |= ~known.all(axis=1)
        answers = {"mean": total / n, "max": high, "min": low, "std": np.sqrt(squares / n)}
    unknown = missing & (metric.aggregation == Aggregation.SUM)
    out = {name: np.where(unknown | (n == 0), np.nan, numbers) for name, numbers in answers.items()}
    return {**out, "count": np.where(unknown, np.nan, n_used)}


def _demand_single_profiles(values: Values, profiles: Ints, quantity: str) -> None:
    """Raise a UsageError where values of single profiles are not known: a formula of what they have in all is another
    number."""
    values.demand_known(profiles)
    have_none = not len(profiles) and len(values.profiles.summaries)
    if have_none or np.isin(values.profiles.aggregates, profiles).any():
        raise UsageError(
            f"{quantity} is needed in each profile, and values of single profiles are not known, only those of all "
            "profiles together"
        )


def _batches(
    values: Values, scope: Scope, profiles: Ints, every: Ints | None = None, across: list[TotalCells] | None = None
) -> Iterator[ProfileCells]:
    """Yield cells of some of the profiles at a time; `every` are all that were chosen, `across` the cells over them."""
    step = max(1, MOST_CELLS // max(1, len(values.tree)))
    chosen = profiles if every is None else every
    shared: list[TotalCells] = [] if across is None else across
    for start in range(0, len(profiles), step):
        yield ProfileCells(values, scope, profiles[start : start + step], chosen, across=shared)


def number_cells(metric: Metric, values: Array) -> Floats:
    """Return stored values as operands: absent is 0 of what adds up, NaN of all else."""
    if metric.composite is not None:
        values = metric.composite.scalar(values)
    numbers: Floats = values.astype(np.float64)
    neutral = metric.aggregation.neutral
    return np.where(numbers == neutral, np.nan, numbers) if neutral else numbers


def require_scope(metric: Metric, scope: Scope) -> None:
    """Raise UsageError where a derived metric is asked for in a scope that only files store."""
    if metric.derivation is not None and scope not in (Scope.EXCLUSIVE, Scope.INCLUSIVE):
        raise UsageError(
            f"{metric.name} is a derived metric: it has exclusive and inclusive values, none in scope {scope.word!r}"
        )


def evaluate(metric: Metric, cells: Cells, shape: tuple[int, ...]) -> Floats:
    """Return the values of a derived metric in cells of this shape. Contexts outside of the tree have none."""
    assert metric.derivation is not None
    if cells.profiles is None:
        demand_operands(cells.values, metric.name, cells.chosen)
    with np.errstate(all="ignore"):
        try:
            numbers = np.asarray(metric.derivation.evaluate(cells), np.float64)
        except NotEvaluated as error:
            raise error.of_metric(metric.name) from None
    out: Floats = np.broadcast_to(without_infinite(numbers), shape)
    if cells.contexts is not None and cells.tree.n_listed < len(out):
        out = out.copy()
        out[cells.tree.n_listed :] = np.nan if metric.aggregation == Aggregation.NONE else 0.0
    return out if cells.profiles is None else _blank_unmeasured(metric, cells.values, cells.profiles, out)


def without_infinite(numbers: Floats) -> Floats:
    """Return results of formulas without those that a double cannot hold: nobody knows their values."""
    return np.where(np.isinf(numbers), np.nan, numbers) if np.isinf(numbers).any() else numbers


def _spread(formula: Derivation, values: Floats, given: Scope, wanted: Scope, tree: ContextTree) -> Floats:
    with np.errstate(over="ignore", invalid="ignore"):
        return without_infinite(formula.spread(values, given, wanted, tree))


def _blank_unmeasured(metric: Metric, values: Values, profiles: Ints, matrix: Floats) -> Floats:
    """Return rows x profiles without those of runs that did not measure an operand: they are missing, not zero."""
    lacking = lacks_operand(values, metric.name, profiles)
    return np.where(lacking, np.nan, matrix) if lacking.any() else matrix


def _add_roots(metric: Metric, inclusive: Floats, tree: ContextTree) -> Floats:
    if metric.aggregation == Aggregation.NONE:
        raise UsageError(f"{metric.name} does not add up: it has no total")
    rule, values = metric.aggregation, inclusive[tree.roots]
    if not rule.neutral:
        summed: Floats = rule.ufunc.reduce(values, axis=0)
        return summed
    out = rule.ufunc.reduce(np.where(np.isnan(values), rule.neutral, values), axis=0, initial=rule.neutral)
    return np.where(out == rule.neutral, np.nan, out)


def derive_blocks(
    values: Values,
    profiles: Ints,
    rows: Ints,
    every: Ints | None = None,
    across: list[TotalCells] | None = None,
) -> Iterator[DenseBlock]:
    """Yield the values of derived metrics, a matrix for each and some profiles at a time, in the scope of their rows.
    What they have in common is read once. `every` are the profiles that count as chosen, if these are not all; `across`
    keeps what is computed over these from call to call."""
    contexts = np.arange(len(values.tree), dtype=np.int32)
    for cells in _batches(values, Scope.EXCLUSIVE, profiles, every, across):
        for row in rows.tolist():
            metric = values.metrics[row]
            if metric.scope == Scope.NONE:
                raise UsageError(
                    f"{metric.name} is computed from sums and does not add up itself: it has no values to list"
                )
            yield DenseBlock(row, contexts, cells.profiles.astype(np.int32), cells.of(metric.name, metric.scope))
