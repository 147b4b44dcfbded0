"""The flat profile: where the cost is, whoever called."""

from __future__ import annotations

import numpy as np

from callgrove.analysis.columns import ShownColumns
from callgrove.analysis.costs import Costs
from callgrove.analysis.groups import group
from callgrove.analysis.rows import described
from callgrove.model.arrays import ABSENT
from callgrove.model.table import Column, Table

__all__ = ["described_groups", "top"]


def top(costs: Costs, by: str = "function", limit: int | None = None, columns: ShownColumns | None = None) -> Table:
    """Groups by exclusive cost, the costliest first; percent is of their exclusive cost.

    Groups without any cost are left out. Over all rows, the exclusive column adds up to the total. `columns` are shown
    of the same rows.
    """
    groups = group(costs.tree, by)
    exclusive, inclusive = groups.exclusive(costs), groups.inclusive(costs)
    costly = np.flatnonzero(costs.has(exclusive) | costs.has(inclusive))
    order = costly[np.lexsort((costly, -costs.rank(inclusive[costly]), -costs.rank(exclusive[costly])))]
    shown = order if limit is None else order[:limit]
    more = columns.of_rows(groups.rows(shown, costs.tree)) if columns else ()
    return Table(
        (
            *described_groups(costs, by, groups.first[shown].tolist()),
            *costs.columns(exclusive[shown], inclusive[shown], exclusive[shown]),
            *more,
        ),
        left=len(order) - len(shown),
    )


def described_groups(costs: Costs, by: str, contexts: list[int]) -> tuple[Column, ...]:
    """What groups are called, each of which one of its contexts stands for."""
    columns = described(costs.tree, contexts, parameters=by == "context")
    return _only(by, contexts, columns) if by in ("file", "module") else columns


def _only(by: str, contexts: list[int], columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """A row that stands for a file or a module is named after it and has no other place."""
    cells = {column.name: column.plain() for column in columns}
    n = len(contexts)
    names = [cell if cell is not None else f"<unknown {by}>" for cell in cells[by]]
    empty: list[str | None] = [None] * n
    return (
        Column("name", names),
        Column("kind", [by] * n),
        Column("file", cells["file"] if by == "file" else empty),
        Column("line", [ABSENT] * n, ABSENT),
        Column("module", cells["module"] if by == "module" else empty),
    )
