"""What functions cost in each rank or thread of a run, and which of them wait.

    cells    functions x ranks, exclusive costs: a column adds up to what the rank costs

Functions that exchange messages or synchronise wait for others: what they cost is low on the rank that all others wait
for. Work is all else, and its excess, the largest less the mean, is what the slowest rank costs each of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from callgrove.analysis.costs import Costs, costs, group
from callgrove.analysis.explain.findings import input_of
from callgrove.analysis.spread.entities import Entities
from callgrove.analysis.spread.imbalance import COMMUNICATES, choose_compared
from callgrove.analysis.spread.values import KEPT_CELLS, EntityCosts, demand_spread
from callgrove.arrays import Bools, Floats, Ints
from callgrove.errors import UsageError
from callgrove.model.activities import find_activities, find_classes
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Metric, Scope

__all__ = ["Program", "read_program", "spread_of"]

WHOLE = "run"


@dataclass(frozen=True)
class Program:
    """Functions by name, and what each costs in every entity of a kind: `over` is rank, thread, ... `total` is what
    the run costs in all, what belongs to no such entity included; `asked` the metric that somebody named."""

    experiment: Experiment
    metric: Metric
    names: tuple[str, ...]
    cells: Floats
    waits: Bools
    over: str
    entities: Sequence[str]
    total: float
    asked: str | None = None

    @cached_property
    def row(self) -> dict[str, int]:
        """The row of each function."""
        return {name: number for number, name in enumerate(self.names)}

    def command(self, verb: str, *words: str) -> tuple[str, ...]:
        """Return a command that shows more of this run."""
        chosen = ("-m", self.asked) if self.asked else ()
        return (verb, input_of(self.experiment), *words, *chosen)

    @property
    def mean(self) -> float:
        """What an entity costs, which is the time of the run where all of them run to its end."""
        return float(self.cells.sum()) / max(1, len(self.entities))

    @cached_property
    def work(self) -> Floats:
        """What each entity spends on other things than waiting."""
        work: Floats = self.cells[~self.waits].sum(axis=0)
        return work

    @property
    def excess(self) -> float:
        """How much more work the slowest entity has than the mean."""
        return spread_of(self.work)

    def of(self, name: str) -> Floats:
        """Return what a function costs in every entity; 0 where it is not there."""
        return self.cells[self.row[name]] if name in self.row else np.zeros(len(self.entities))

    def blame(self) -> tuple[str, str]:
        """Return the entity with the most work, and the function of which it has most beyond the mean."""
        slowest = int(np.argmax(self.work))
        beyond = np.where(self.waits, -np.inf, self.cells[:, slowest] - self.cells.mean(axis=1))
        return self.entities[slowest], self.names[int(np.argmax(beyond))]


def spread_of(values: Floats) -> float:
    """Return the largest value less the mean."""
    return float(values.max() - values.mean()) if len(values) else 0.0


def read_program(experiment: Experiment, metric: str | None = None, over: str | None = None) -> Program:
    """Return the functions of a run that have a cost. Raises UsageError where costs do not add up."""
    all_costs = costs(experiment, metric)
    if not all_costs.is_additive or all_costs.is_signed:
        raise UsageError(f"{all_costs.metric.name} does not add up to a whole that could be explained")
    groups = group(all_costs.tree, "function")
    rows = np.flatnonzero(groups.costs(all_costs)[0])
    cells, entities, kind = _read_cells(all_costs, rows, over)
    first = groups.first[rows]
    labels = [all_costs.tree.name(context) for context in first.tolist()]
    names = tuple(dict.fromkeys(labels))
    of_name = {name: number for number, name in enumerate(names)}
    place = np.array([of_name[label] for label in labels], np.int64)
    added = np.zeros((len(names), cells.shape[1]))
    np.add.at(added, place, cells)
    waits = np.zeros(len(names), np.bool_)
    classes = find_classes(find_activities(all_costs.tree))[first]
    waits[place[np.isin(classes, COMMUNICATES)]] = True
    return Program(experiment, all_costs.metric, names, added, waits, kind, entities, float(all_costs.total))


def _read_cells(all_costs: Costs, rows: Ints, over: str | None) -> tuple[Floats, Sequence[str], str]:
    """Return what groups cost in each entity; in the whole run where entities are not known, or too many."""
    groups = group(all_costs.tree, "function")
    entities = _choose_entities(all_costs, over)
    if entities is None or len(rows) * len(entities) > KEPT_CELLS:
        return groups.costs(all_costs)[0][rows].astype(np.float64)[:, None], (WHOLE,), WHOLE
    matrix = EntityCosts(all_costs, Scope.EXCLUSIVE, groups, rows, entities).matrix()
    return matrix, entities.names, entities.over


def _choose_entities(all_costs: Costs, over: str | None) -> Entities | None:
    """Return what is compared; None where there is one, or where values of single profiles are not known."""
    try:
        entities = choose_compared(all_costs, over)
        demand_spread(all_costs, entities)
    except UsageError:
        return None
    return entities if len(entities) > 1 else None
