"""Values as a table, streamed: as they are stored, or computed in one scope; derived metrics are among the latter.

    stored       what the input holds, in whatever scope; derived metrics have nothing there
    exclusive    every metric in one scope: what is not stored is computed over the tree, formulas are evaluated for
    inclusive    each context and profile
    point ...    what the input holds in that scope, and lexical from function

Where a file names a metric by one id in every scope, as Cube does, computed values carry the row of that metric, and
there is no other. So do those of a formula over sums, which has no scope of its own: its values are those of the scope
asked for.

No row is not a value: 0 of what adds up, nothing of all else. So a value of 0 has a row where nothing adds up, and a
value that is missing (a division by zero) has a row with an empty cell where things do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from callgrove.arrays import Array, Bools, Ints
from callgrove.errors import Parameter, UsageError, compose_text
from callgrove.model.books import Totals, select_counted_contexts
from callgrove.model.computed_values import SOURCES, Recipe, matrices, recipe
from callgrove.model.derived import ProfileCells, TotalCells, number_cells, require_scope
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Metric, Scope
from callgrove.model.table import CHUNK, Column, Table
from callgrove.model.values import SparseBlock, is_set

__all__ = ["describe_left_out", "metric_rows", "silent", "value_tables"]


SHOWN = 5  # names in one sentence
MOST_CELLS = 1 << 24  # of the matrices that scopes are computed in

Tell = Callable[[str], None]


def silent(text: str) -> None:
    """Do nothing: nobody listens."""


def metric_rows(experiment: Experiment) -> tuple[list[Metric], dict[tuple[str, Scope], int]]:
    """Return all metric rows, the stored ones first, and where each computed (quantity, scope) stands."""
    metrics = experiment.metrics
    rows, computed = list(metrics), {}
    for quantity in metrics.quantities:
        for scope in SOURCES:
            if metrics.find(quantity, scope) is None and (way := _possible(experiment, quantity, scope)) is not None:
                computed[quantity, scope] = way.stored if way.metric.id_of_quantity else len(rows)
                rows += [] if way.metric.id_of_quantity else [way.row]
    return rows, computed


def _possible(experiment: Experiment, quantity: str, scope: Scope) -> Recipe | None:
    try:
        way = recipe(experiment.metrics, quantity, scope)
    except UsageError:
        return None
    return way if way.is_possible else None


def value_tables(
    experiment: Experiment,
    profiles: Ints | None = None,
    quantity: str | None = None,
    scope: str = "stored",
    tell: Tell = silent,
    complain: Tell = silent,
) -> Iterator[Table]:
    """Yield values of some profiles, of one quantity or all, as they are stored or in one scope. `tell` hears which
    metrics are not among them, and why; after the last table, `complain` gets a sentence for each metric whose computed
    values do not add up to what they were computed from."""
    if quantity is not None:
        _require_scope(experiment, quantity, scope)
    for text in describe_left_out(experiment, scope) if quantity is None else ():
        tell(text)
    if profiles is not None:
        experiment.values.demand_known(profiles)
    rows = metric_rows(experiment)[0]
    composite = any(m.composite is not None for m in experiment.metrics)
    if scope == "stored":
        blocks = _read_stored_blocks(experiment, profiles, quantity)
    else:
        blocks = _compute_blocks(experiment, profiles, quantity, _scope(scope), tell, complain)
    empty = True
    for block in blocks:
        for first in range(0, len(block), CHUNK):
            yield _value_table(rows, block.take(slice(first, first + CHUNK)), composite)
            empty = False
    if empty:
        yield _value_table(rows, SparseBlock.empty(), composite)


def _require_scope(experiment: Experiment, quantity: str, scope: str) -> None:
    """Raise an error where a derived metric has no values, or none in this scope."""
    experiment.metrics.require_values(quantity)
    metric = experiment.metrics.first(quantity)
    if scope != "stored":
        require_scope(metric, _scope(scope))
    elif metric.derivation is not None:
        exclusive, inclusive = (Parameter("scope", one.word) for one in SOURCES)
        nothing = f"{quantity} is a derived metric, of which nothing is stored; "
        raise UsageError(nothing, exclusive, " and ", inclusive, " compute it")


def describe_left_out(experiment: Experiment, scope: str = "stored") -> list[str]:
    """Say which metrics have no values in a scope, for each reason in one sentence. Formulas that turn out to be
    impossible to evaluate are not among them: nothing is evaluated here."""
    metrics = experiment.metrics
    computed = scope in (s.word for s in SOURCES)
    derived = [name for name in metrics.derived if not computed or metrics.first(name).derivation is None]
    composite = []
    if computed:
        rest = (name for name in metrics.quantities if name not in metrics.derived)
        composite = [n for n in rest if metrics.first(n).composite and _possible(experiment, n, Scope(scope)) is None]
    out = [f"{_count_names(metrics.missing)} not measured"] if metrics.missing else []
    if derived and computed:
        out.append(f"{_count_names(derived)} derived, and formulas are not evaluated")
    elif derived:
        out.append(f"{_count_names(derived)} derived, and computed in scope exclusive or inclusive only")
    if composite:
        out.append(f"{_count_names(composite)} composite, and what is stored in another scope gives no {scope} values")
    return out


def _count_names(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"left out: metric {names[0]}: it is"
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"left out: {len(names)} metrics ({', '.join(names[:SHOWN])}{more}): they are"


def _value_table(rows: Sequence[Metric], block: SparseBlock, composite: bool) -> Table:
    value: Array = block.value
    fields: list[str | None] = [None] * len(block)
    row = rows[int(block.metric[0])] if len(block) else None  # that of all, where values are computed
    if value.dtype.names is not None and row is not None:
        composite_type = row.composite
        describe = None if composite_type is None else composite_type.describe
        fields = [json.dumps(_plain(one if describe is None else describe(one))) for one in value]
        value = value if composite_type is None else composite_type.scalar(value)
    columns = (
        Column("profile", block.profile),
        Column("context", block.context),
        Column("metric", block.metric),
        Column("value", value, np.nan if row is not None and row.derivation is not None else None),
    )
    return Table((*columns, Column("fields", fields)) if composite else columns)


def _plain(value: Any) -> Any:
    """Return fields of a composite value as JSON has them: no arrays, and null for what is not finite."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, np.void):
        return {name: _plain(value[name]) for name in value.dtype.names or ()}
    if isinstance(value, list | np.ndarray):
        return [_plain(one) for one in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _scope(word: str) -> Scope:
    try:
        return Scope(word)
    except ValueError:
        known = ", ".join(["stored", *(s.word for s in Scope if s.word)])
        raise UsageError(f"there is no scope {word!r}; there are {known}") from None


# -- values as they are stored -----------------------------------------------------------------------------------------


def _read_stored_blocks(experiment: Experiment, profiles: Ints | None, quantity: str | None) -> Iterator[SparseBlock]:
    """Yield all values as they are stored; summaries are among them unless profiles were chosen."""
    chosen = np.arange(len(experiment.profiles)) if profiles is None else profiles
    wanted = None
    if quantity is not None:
        wanted = np.array([k for k, m in enumerate(experiment.metrics) if m.name == quantity])
    for block in experiment.values.blocks(chosen, wanted):
        yield block.triples()


# -- values in one scope, some profiles at a time ----------------------------------------------------------------------


@dataclass(frozen=True)
class _Filled:
    """A metric in one scope: contexts x some profiles, the row that it is listed under, and which cells are listed."""

    row: int
    matrix: Array
    listed: Bools

    def of_profile(self, column: int, profile: int) -> SparseBlock:
        """Return the values of one profile."""
        contexts = np.flatnonzero(self.listed[:, column]).astype(np.int32)
        profiles, rows = (np.full(len(contexts), number, np.int32) for number in (profile, self.row))
        return SparseBlock(profiles, contexts, rows, self.matrix[contexts, column])


def _compute_blocks(
    experiment: Experiment, profiles: Ints | None, quantity: str | None, scope: Scope, tell: Tell, complain: Tell
) -> Iterator[SparseBlock]:
    """Yield every quantity in one scope, profile by profile; what is not stored is computed over the tree."""
    names = experiment.metrics.quantities if quantity is None else (quantity,)
    chosen = experiment.profiles.measured if profiles is None else profiles
    measured = _Measured.of(experiment, names, scope)
    derived = _Derived.of(experiment, names, scope, chosen)
    if not measured.ways and not derived.rows:
        raise UsageError(f"{experiment.path}: no metric is stored or can be computed in scope {scope.word!r}")
    n_matrices = len(measured.ways) + 2 * len(derived.rows)  # formulas may need their operands in both scopes
    room = max(1, MOST_CELLS // max(1, n_matrices * len(experiment.contexts)))
    for first in range(0, len(chosen), room):
        band = chosen[first : first + room]
        stored = measured.fill(band)
        filled = [*stored, *derived.fill(band, measured.operands(stored))]
        for column, profile in enumerate(band.tolist()):
            for one in filled:
                yield one.of_profile(column, profile)
    for text in measured.find_differences():
        complain(text)
    unfit = {**measured.unfit, **derived.unfit}
    if unfit and quantity is not None:
        raise unfit[quantity]
    for text in (*measured.describe_unfit(), *derived.describe_unfit()):
        tell(text)


@dataclass(frozen=True)
class _Measured:
    """Metrics with stored values, in one scope. `unfit` gets those that cannot be combined, and why; `given` and `made`
    add up what is read and what becomes of it."""

    experiment: Experiment
    ways: list[Recipe]
    rows: list[int]
    given: Totals
    made: Totals
    unfit: dict[str, UsageError] = field(default_factory=dict)

    @classmethod
    def of(cls, experiment: Experiment, names: Sequence[str], scope: Scope) -> _Measured:
        metrics, computed = experiment.metrics, metric_rows(experiment)[1]
        stored = [name for name in names if name not in metrics.derived]
        ways = [way for name in stored if (way := _possible(experiment, name, scope)) is not None]
        kept = [(way.metric.name, metrics.find(way.metric.name, scope)) for way in ways]
        rows = [computed[name, scope] if row is None else row for name, row in kept]
        counted = select_counted_contexts(experiment.contexts)
        return cls(
            experiment,
            ways,
            rows,
            Totals(tuple(metrics), None, counted),
            Totals([way.row for way in ways], None, counted),
        )

    def fill(self, profiles: Ints) -> list[_Filled]:
        """Return what some profiles have of every metric that has any value there."""
        by_row = self._read(profiles) if self.ways else {}
        filled = []
        for number, (way, row) in enumerate(zip(self.ways, self.rows, strict=True)):
            if (matrix := by_row.get(way.stored)) is not None:
                neutral = way.metric.aggregation.neutral
                self.made.add_matrix(number, np.arange(len(matrix)), matrix, neutral)
                listed = matrix != neutral if matrix.dtype.names is None else is_set(matrix)
                filled.append(_Filled(row, matrix, listed))
        return filled

    def _read(self, profiles: Ints) -> dict[int, Array]:
        """Return the values of all ways by stored row, but for composite values that cannot be combined."""
        values, tree = self.experiment.values, self.experiment.contexts
        by_row = matrices(
            values, tree, [way for way in self.ways if way.metric.composite is None], profiles, self.given
        )
        for way in self.ways:
            if way.metric.composite is not None:
                try:
                    by_row |= matrices(values, tree, [way], profiles)
                except UsageError as error:
                    self.unfit[way.metric.name] = UsageError(f"{way.metric.name} ({way.metric.dtype}): ", error)
        return by_row

    def operands(self, filled: Sequence[_Filled]) -> dict[tuple[str, Scope], Array]:
        """Return what was read for formulas that ask for it: nothing is read twice."""
        metric = {row: way.metric for way, row in zip(self.ways, self.rows, strict=True)}
        scope = {row: way.wanted for way, row in zip(self.ways, self.rows, strict=True)}
        return {
            (metric[one.row].name, scope[one.row]): number_cells(metric[one.row], one.matrix)
            for one in filled
            if one.matrix.dtype.names is None
        }

    def describe_unfit(self) -> list[str]:
        """Say which metrics are left out, and why."""
        return sorted({compose_text("left out: ", error) for error in self.unfit.values()})

    def find_differences(self) -> Iterator[str]:
        """Yield what does not add up to what it was computed from."""
        given, made = self.given, self.made
        for number, way in enumerate(self.ways):
            if made.adds_up[number] and given.adds_up[way.stored] and not made.agrees(number, given, way.stored):
                before, after = given.total[way.stored], made.total[number]
                yield f"{way.row.label}: what is stored makes {before:g}, what was printed {after:g}"


@dataclass(frozen=True)
class _Derived:
    """Derived metrics in one scope, each with the row that it is listed under, over all profiles that were chosen.
    `unfit` gets those whose formulas cannot be evaluated, and why."""

    experiment: Experiment
    scope: Scope
    rows: dict[str, int]
    every: Ints
    unfit: dict[str, UsageError] = field(default_factory=dict)
    across: list[TotalCells] = field(default_factory=list)  # over all profiles, once a formula asks for that

    @classmethod
    def of(cls, experiment: Experiment, names: Sequence[str], scope: Scope, every: Ints) -> _Derived:
        metrics, computed = experiment.metrics, metric_rows(experiment)[1]
        wanted = [name for name in names if name in metrics.derived and metrics.first(name).derivation is not None]
        rows = {name: computed.get((name, scope), metrics.find(name, metrics.first(name).scope)) for name in wanted}
        return cls(experiment, scope, {n: r for n, r in rows.items() if r is not None and scope in SOURCES}, every)

    def fill(self, profiles: Ints, operands: dict[tuple[str, Scope], Array]) -> list[_Filled]:
        """Return what some profiles have of every formula that can be evaluated. What formulas have in common is
        computed once."""
        cells = ProfileCells(self.experiment.values, self.scope, profiles, self.every, operands, self.across)
        filled = []
        for name in [name for name in self.rows if name not in self.unfit]:
            try:
                filled.append(self._fill_one(name, cells.of(name)))
            except UsageError as error:
                self.unfit[name] = error
        return filled

    def describe_unfit(self) -> list[str]:
        """Say which formulas cannot be evaluated, in one sentence: there may be very many."""
        if len(self.unfit) < 2:
            return [compose_text("left out: ", error) for error in self.unfit.values()]
        which = _count_names(list(self.unfit))
        return [compose_text(f"{which} derived, and cannot be evaluated; ", next(iter(self.unfit.values())))]

    def _fill_one(self, name: str, matrix: Array) -> _Filled:
        is_sum = self.experiment.metrics.first(name).aggregation != Aggregation.NONE
        return _Filled(self.rows[name], matrix, matrix != 0 if is_sum else ~np.isnan(matrix))
