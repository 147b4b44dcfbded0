"""Values as a table, stored or computed in a scope, and the metric rows that they carry.

Where a file names a metric by one id in every scope, as Cube does, computed values carry the row of that metric, and
there is no other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from callgrove.arrays import Array, Ints
from callgrove.errors import UsageError
from callgrove.model.books import Totals, select_counted_contexts
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Metric, Scope
from callgrove.model.scopes import SOURCES, Recipe, matrices, recipe
from callgrove.model.table import CHUNK, Column, Table
from callgrove.model.values import SparseBlock, is_set

__all__ = ["describe_left_out", "metric_rows", "silent", "value_tables"]

SHOWN = 5  # names in one sentence
MOST_CELLS = 1 << 24  # of the matrices that scopes are computed in


def silent(text: str) -> None:
    """Nobody listens."""


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
    tell: Callable[[str], None] = silent,
    complain: Callable[[str], None] = silent,
) -> Iterator[Table]:
    """Values of some profiles, of one quantity or all, as they are stored or in one scope. `tell` hears which metrics
    are not among them, and why; after the last table, `complain` gets a sentence for each metric whose computed values
    do not add up to what they were computed from."""
    if quantity is not None:
        experiment.metrics.require_values(quantity)
    for text in describe_left_out(experiment, scope) if quantity is None else ():
        tell(text)
    composite = any(m.composite is not None for m in experiment.metrics)
    if profiles is not None:
        experiment.values.demand_known(profiles)
    if scope == "stored":
        blocks = _read_stored_blocks(experiment, profiles, quantity)
    else:
        blocks = _compute_blocks(experiment, profiles, quantity, _scope(scope), tell, complain)
    empty = True
    for block in blocks:
        for first in range(0, len(block), CHUNK):
            yield _value_table(experiment, block.take(slice(first, first + CHUNK)), composite)
            empty = False
    if empty:
        yield _value_table(experiment, SparseBlock.empty(), composite)


def describe_left_out(experiment: Experiment, scope: str = "stored") -> list[str]:
    """Say which metrics have no values in a scope, for each reason in one sentence."""
    metrics = experiment.metrics
    derived, composite = list(metrics.derived), []
    if scope in (s.word for s in SOURCES):
        rest = (name for name in metrics.quantities if name not in derived)
        composite = [n for n in rest if metrics.first(n).composite and _possible(experiment, n, Scope(scope)) is None]
    out = [f"{_count_names(derived)} derived, and formulas are not evaluated"] if derived else []
    if composite:
        out.append(f"{_count_names(composite)} composite, and what is stored in another scope gives no {scope} values")
    return out


def _count_names(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"left out: metric {names[0]}: it is"
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"left out: {len(names)} metrics ({', '.join(names[:SHOWN])}{more}): they are"


def _value_table(experiment: Experiment, block: SparseBlock, composite: bool) -> Table:
    value: Array = block.value
    fields: list[str | None] = [None] * len(block)
    if value.dtype.names is not None:
        metric = int(block.metric[0])
        composite_type = metric_rows(experiment)[0][metric].composite  # the row may be a computed one
        describe = None if composite_type is None else composite_type.describe
        fields = [json.dumps(_plain(row if describe is None else describe(row))) for row in value]
        value = value if composite_type is None else composite_type.scalar(value)
    columns = (
        Column("profile", block.profile),
        Column("context", block.context),
        Column("metric", block.metric),
        Column("value", value),
    )
    return Table((*columns, Column("fields", fields)) if composite else columns)


def _read_stored_blocks(experiment: Experiment, profiles: Ints | None, quantity: str | None) -> Iterator[SparseBlock]:
    """Yield all values as they are stored; summaries are among them unless profiles were chosen."""
    chosen = np.arange(len(experiment.profiles)) if profiles is None else profiles
    wanted = None
    if quantity is not None:
        wanted = np.array([k for k, m in enumerate(experiment.metrics) if m.name == quantity])
    for block in experiment.values.blocks(chosen, wanted):
        yield block.triples()


def _compute_blocks(
    experiment: Experiment,
    profiles: Ints | None,
    quantity: str | None,
    scope: Scope,
    tell: Callable[[str], None],
    complain: Callable[[str], None],
) -> Iterator[SparseBlock]:
    """Yield every quantity in one scope, profile by profile; what is not stored is computed over the tree."""
    names = experiment.metrics.quantities if quantity is None else (quantity,)
    ways = [way for name in names if (way := _possible(experiment, name, scope)) is not None]
    if not ways:
        raise UsageError(f"{experiment.path}: no metric is stored or can be computed in scope {scope.word!r}")
    computed = metric_rows(experiment)[1]
    stored = {way.metric.name: experiment.metrics.find(way.metric.name, scope) for way in ways}
    rows = [computed[name, scope] if row is None else row for name, row in stored.items()]
    chosen = experiment.profiles.measured if profiles is None else profiles
    room = max(1, MOST_CELLS // max(1, len(ways) * len(experiment.contexts)))
    unfit: set[str] = set()
    counted = select_counted_contexts(experiment.contexts)
    given = Totals(tuple(experiment.metrics), None, counted)
    made = Totals([way.row for way in ways], None, counted)
    for first in range(0, len(chosen), room):
        band = chosen[first : first + room]
        by_row = _matrices(experiment, ways, band, unfit, given)
        for number, way in enumerate(ways):
            if (matrix := by_row.get(way.stored)) is not None:
                made.add_matrix(number, np.arange(len(matrix)), matrix, way.metric.aggregation.neutral)
        for column, profile in enumerate(band.tolist()):
            for way, row in zip(ways, rows, strict=True):
                if (matrix := by_row.get(way.stored)) is not None:
                    yield _one(matrix[:, column], way, profile, row)
    for number, way in enumerate(ways):
        if made.adds_up[number] and given.adds_up[way.stored] and not made.agrees(number, given, way.stored):
            before, after = given.total[way.stored], made.total[number]
            complain(f"{way.row.label}: what is stored makes {before:g}, what was printed {after:g}")
    if unfit and quantity is not None:
        raise UsageError(next(iter(unfit)))
    for text in sorted(unfit):
        tell(f"left out: {text}")


def _matrices(
    experiment: Experiment, ways: Sequence[Recipe], profiles: Ints, unfit: set[str], given: Totals
) -> dict[int, Array]:
    """Return the values of all ways; what is read is added to `given`. Composite values that cannot be combined are
    left out, and `unfit` gets the reasons."""
    values, tree = experiment.values, experiment.contexts
    by_row = matrices(values, tree, [way for way in ways if way.metric.composite is None], profiles, given)
    for way in ways:
        if way.metric.composite is not None:
            try:
                by_row |= matrices(values, tree, [way], profiles)
            except UsageError as error:
                unfit.add(f"{way.metric.name} ({way.metric.dtype}): {error}")
    return by_row


def _one(values: Array, way: Recipe, profile: int, row: int) -> SparseBlock:
    neutral = way.metric.aggregation.neutral
    there = values != neutral if values.dtype.names is None else is_set(values)
    contexts = np.flatnonzero(there).astype(np.int32)
    n = len(contexts)
    return SparseBlock(np.full(n, profile, np.int32), contexts, np.full(n, row, np.int32), values[contexts])


def _plain(value: Any) -> Any:
    """Fields of a composite value as JSON has them: no arrays, and null for what is not finite."""
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
