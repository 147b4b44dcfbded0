"""What is shown of one row below the others: lines of its source, and its cost in every rank or thread."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from callgrove.analysis.costs import Costs, Groups
from callgrove.analysis.spread.entities import Entities
from callgrove.analysis.spread.imbalance import choose_compared
from callgrove.analysis.spread.values import EntityCosts, demand_spread
from callgrove.arrays import Bools, Floats, Ints
from callgrove.explore.views import CallTree, View
from callgrove.model.computed_values import recipe
from callgrove.model.metrics import Scope
from callgrove.model.values import has_fillers
from callgrove.render.cost_texts import amount_of
from callgrove.render.units import heat, percent

__all__ = ["SourceLines", "Spread", "draw_histogram", "read_source", "read_values", "spread_of", "write_spread"]


# -- source lines ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SourceLines:
    """Some lines of a file, the first of which has a number. `line` is the one that a row is about; `missing` says why
    there is no text."""

    file: str
    line: int
    first: int
    texts: tuple[str, ...]
    missing: str = ""

    def rows(self) -> Iterator[tuple[int, str, bool]]:
        """Yield number, text, and whether it is the line that the row is about."""
        for number, text in enumerate(self.texts, self.first):
            yield number, text, number == self.line


def read_source(view: View, node: int, n_lines: int) -> SourceLines:
    """Return the lines around the place of a row."""
    name = view.names([node])[0]
    if not name.file or not name.line:
        return SourceLines(name.file or "", 0, 0, (), f"{name.text} has no line of source")
    costs, context = view.measures.first, view.context(node)
    region = int(costs.tree.region[context])
    lines = costs.experiment.sources.lines(int(costs.tree.regions.file[region])) if region >= 0 else []
    if not lines:
        return SourceLines(name.file, name.line, 0, (), f"{name.file}:{name.line}: no copy of this file is at hand")
    if name.line > len(lines):
        return SourceLines(name.file, name.line, 0, (), f"{name.file} has {len(lines)} lines, but not line {name.line}")
    first = max(1, min(name.line - (n_lines - 1) // 2, len(lines) - n_lines + 1))
    return SourceLines(name.file, name.line, first, tuple(lines[first - 1 : first - 1 + n_lines]))


# -- the spread of a row -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Spread:
    """The cost of a row in each rank, thread, ...; NaN is not a value. `scope` is what the cost is of."""

    costs: Costs
    entities: Entities
    values: Floats
    scope: Scope

    def statistics(self) -> tuple[float, float, float]:
        """Return the least, the mean and the most."""
        known = self.values[~np.isnan(self.values)]
        return (float(known.min()), float(known.mean()), float(known.max())) if len(known) else (np.nan,) * 3


def spread_of(view: View, node: int) -> list[Spread]:
    """Return the cost of a row in each entity, for each experiment. Reads values; of a context whose cost is stored,
    its own alone."""
    members = view.members(node)
    out = []
    for costs in view.measures.sides:
        entities = choose_compared(costs, None)
        demand_spread(costs, entities)
        context = view.context(node) if isinstance(view, CallTree) else None
        out.append(Spread(costs, entities, read_values(costs, entities, members, context, view.scope), view.scope))
    return out


def read_values(costs: Costs, entities: Entities, members: Bools, context: int | None, scope: Scope) -> Floats:
    """Return what some contexts cost in each entity; of a context whose cost is stored, only that is read."""
    values = costs.experiment.values
    if context is not None and costs.metric.derivation is None and not has_fillers(values.backend):
        way = recipe(costs.experiment.metrics, costs.metric.name, scope)
        if way.is_stored:
            return _read_stored(costs, entities, context, way.stored)
    groups = Groups(members.astype(np.int32), np.zeros(2, np.int64))
    cells: Floats = EntityCosts(costs, scope, groups, np.ones(1, np.int64), entities).matrix()[0]
    return cells


def _read_stored(costs: Costs, entities: Entities, context: int, metric: int) -> Floats:
    """Return what is stored of one context."""
    values = costs.experiment.values
    values.demand_known(entities.profiles)
    block, rule = values.context(context), costs.metric.aggregation
    out = np.full(len(entities), rule.neutral)
    entity: Ints = entities.of[block.profile]
    kept = (block.metric == metric) & (entity >= 0)
    rule.combine_at(out, entity[kept], block.value[kept].astype(np.float64))
    return out


def write_spread(spread: Spread, width: int, unicode: bool = True) -> list[str]:
    """Return lines of text: least, mean and most and who has them, all in the order of ranks, and how many ranks cost
    how much."""
    over, n = spread.entities.over, len(spread.entities)
    low, mean, high = spread.statistics()
    if np.isnan(mean):
        return [f"no {over} has a value"]
    write = amount_of(spread.costs.metric.unit, spread.costs.metric.is_derived)
    names = [spread.entities.names[int(place(spread.values))] for place in (np.nanargmin, np.nanargmax)]
    text = f"min {write(low)} ({names[0]}), mean {write(mean)}, max {write(high)} ({names[1]})"
    uneven = f", imbalance {percent(high / mean - 1)}" if mean > 0 and spread.costs.is_additive else ""
    cells = [None if np.isnan(value) else value for value in spread.values.tolist()]
    room = max(8, width - 24)
    order = heat(cells, room, unicode=unicode)
    counts, bounds = draw_histogram(spread.values, min(room, 40), unicode=unicode)
    plural = f"{n:,} {over}{'' if n == 1 else 's'}"
    return [
        f"{spread.scope.value} {spread.costs.metric.name} over {plural}{uneven}",
        text,
        f"{f'by {over}':<12}{order}",
        f"{'histogram':<12}{counts}  {write(bounds[0])} to {write(bounds[1])}",
    ]


_BLOCKS, _ASCII = " ▁▂▃▄▅▆▇█", " .:-=+*%#"


def draw_histogram(values: Floats, n_bins: int, *, unicode: bool = True) -> tuple[str, tuple[float, float]]:
    """Return how many values lie in each part of their range, as blocks of that height; what is there always shows.
    And the range."""
    known = values[np.isfinite(values)]
    if not len(known):
        return "", (np.nan, np.nan)
    low, high = float(known.min()), float(known.max())
    bins = max(1, min(n_bins, len(known))) if high > low else 1
    counts = np.histogram(known, bins, (low, high))[0] if high > low else np.array([len(known)])
    glyphs = _BLOCKS if unicode else _ASCII
    heights = np.ceil(counts * (len(glyphs) - 1) / counts.max()).astype(int)
    return "".join(glyphs[height] for height in heights.tolist()), (low, high)
