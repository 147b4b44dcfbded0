"""The flat profile by entity: entities as rows, or as columns beside the rows of functions, lines, files, ...

    top(by="rank")                        one row for each rank, with its cost
    top(by="function", columns="rank")    one row for each function, one column for each rank

Costs are exclusive: rows and columns add up to the total. Profiles that belong to no entity have a row or a column of
their own, such as `(no rank)`.
"""

from __future__ import annotations

import numpy as np

from callgrove.analysis.columns import ShownColumns
from callgrove.analysis.costs import GROUPINGS, Costs, group
from callgrove.analysis.spread.entities import ENTITIES, SYNONYMS, Entities, choose_entities, count
from callgrove.analysis.spread.values import EntityCosts, demand_spread, everything, find_unmeasured, say_difference
from callgrove.analysis.views import order_groups, top
from callgrove.arrays import ABSENT, Array, Bools, Floats, Ints
from callgrove.errors import Parameter, UsageError
from callgrove.model.metrics import Scope
from callgrove.model.table import Column, Table

__all__ = ["MOST_CELLS", "EntityColumn", "is_entity", "top_by_entity", "top_side_by_side", "top_table"]

METRIC = Parameter("metric")
MOST_CELLS = 100_000_000  # rows x entities of one table


class EntityColumn(Column):
    """What the rows of a table cost in one entity, which the column is called after."""


def is_entity(word: str) -> bool:
    """Return whether rows or columns of that kind are entities: ranks, threads, ..."""
    return word in ENTITIES or word in SYNONYMS


def top_table(
    costs: Costs, by: str, columns: str | None = None, limit: int | None = None, shown: ShownColumns | None = None
) -> Table:
    """Return the flat profile with rows of any kind, and with a column for each entity of a kind where that is asked
    for. `shown` are further columns of rows that are made of contexts."""
    if columns is None and not is_entity(by):
        return top(costs, by, limit, shown)
    if shown is not None:
        what = f"rows of a {by} are" if columns is None else f"columns of a {columns} are"
        raise UsageError(f"further metrics are columns of contexts, which {what} not; choose one metric with ", METRIC)
    if columns is None:
        return top_by_entity(costs, by, limit)
    if is_entity(by):
        raise UsageError(f"rows are a {by} each already; rows beside columns are {', '.join(GROUPINGS)}")
    return top_side_by_side(costs, by, columns, limit)


def top_by_entity(costs: Costs, over: str, limit: int | None = None) -> Table:
    """Return one row for each entity, the costliest first; percent is of the total."""
    entities = _choose(costs, over)
    whole = EntityCosts(costs, Scope.EXCLUSIVE, everything(costs), np.zeros(1, np.int64), entities)
    exclusive = _with_integers(costs, _read(whole)[0])
    has_cost = costs.has(exclusive)
    order = np.flatnonzero(has_cost)[np.argsort(-costs.rank(exclusive[has_cost]), kind="stable")]
    shown = order if limit is None else order[:limit]
    n = len(shown)
    empty: list[str | None] = [None] * n
    return Table(
        (
            Column("name", [entities.names[k] for k in shown.tolist()]),
            Column("kind", [entities.over] * n),
            Column("file", empty),
            Column("line", [ABSENT] * n, ABSENT),
            Column("module", empty),
            *costs.columns(exclusive[shown], exclusive[shown], exclusive[shown]),
        ),
        left=len(order) - n,
        notes=(*_say_without(entities, has_cost), *say_difference(whole)),
    )


def top_side_by_side(costs: Costs, by: str, over: str, limit: int | None = None) -> Table:
    """Return the flat profile with a column for each entity: what its profiles have of the exclusive cost."""
    entities = _choose(costs, over)
    table, chosen = top(costs, by, limit), _find_groups(costs, by, limit)
    if len(chosen) * len(entities) > MOST_CELLS:
        raise UsageError(
            f"{len(chosen):,} rows with {len(entities):,} columns are too many for a table; show fewer rows with ",
            Parameter("limit"),
        )
    spread_costs = EntityCosts(costs, Scope.EXCLUSIVE, group(costs.tree, by), chosen, entities)
    cells = _with_integers(costs, _read(spread_costs))
    absent = costs.neutral if costs.neutral else np.nan
    columns = [EntityColumn(name, column, absent) for name, column in zip(entities.names, cells.T, strict=True)]
    return Table((*table.columns, *columns), table.left, notes=(*table.notes, *say_difference(spread_costs)))


def _choose(costs: Costs, over: str) -> Entities:
    entities = choose_entities(costs.experiment, over, costs.profiles).with_outside()
    demand_spread(costs, entities)
    return entities


def _find_groups(costs: Costs, by: str, limit: int | None) -> Ints:
    """Return the groups that `top` shows, in its order."""
    exclusive, inclusive = group(costs.tree, by).costs(costs)
    return order_groups(costs, exclusive, inclusive)[:limit]


def _read(spread_costs: EntityCosts) -> Floats:
    """Return rows x entities; what nobody measured is NaN."""
    matrix = spread_costs.matrix()
    unmeasured = find_unmeasured(spread_costs.costs, spread_costs.entities)
    matrix[:, unmeasured] = np.nan
    return matrix


def _with_integers(costs: Costs, cells: Floats) -> Array:
    """Return counts as integers, as everywhere else, where doubles hold them exactly."""
    counts = costs.exclusive.dtype.kind in "iu" and bool(np.isfinite(cells).all())
    return cells.astype(np.int64) if counts and not (np.abs(cells) >= 2.0**53).any() else cells


def _say_without(entities: Entities, has_cost: Bools) -> tuple[str, ...]:
    is_one = np.array([name != f"(no {entities.over})" for name in entities.names], np.bool_)
    n = int(np.count_nonzero(is_one & ~has_cost))
    return (f"{count(n, entities.over)} without any cost",) if n else ()
