"""Where the cost of a row is: by rank, thread, GPU or node, and line by line in its source.

What is too much to be drawn one by one is joined with its neighbours: mean, least and most of each part. Statistics are
those of all of them, whatever is joined.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from callgrove.analysis.costs import Costs, Groups
from callgrove.analysis.spread.entities import ENTITIES, Entities, entities_of
from callgrove.analysis.spread.imbalance import choose_compared, spread_statistics
from callgrove.analysis.spread.values import EntityCosts, demand_spread, everything
from callgrove.arrays import Array, Floats, Ints
from callgrove.errors import UsageError, compose_text
from callgrove.explore.details import read_source, read_values
from callgrove.explore.views import ABOVE, CallTree, FlatView, View
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Scope
from callgrove.model.system import Topology
from callgrove.viewer.page import Texts
from callgrove.viewer.profile import Places
from callgrove.viewer.profile_tree import describe_metric
from callgrove.viewer.server.looks import Look, Looks
from callgrove.viewer.server.parameters import Parameters
from callgrove.viewer.server.rows import find_node, make_view, read_view

__all__ = ["answer_grid", "answer_source", "answer_spread", "answer_topology"]

MOST_BARS = 2_048  # entities that are drawn one by one
MOST_CELLS, MOST_LANES = 4_096, 64  # of the heat map
MOST_PLACES = 65_536  # of a topology
SOURCE_LINES = 400  # around the line of a row
QUARTILES = (25, 50, 75)

Document = dict[str, Any]


# -- ranks, threads, GPUs, nodes ---------------------------------------------------------------------------------------


def answer_spread(looks: Looks, look: Look, parameters: Parameters) -> Document:
    """Return the cost of a row, or of everything, in each rank, thread, ...; or why nobody knows it."""
    view = read_view(looks, look, parameters)
    node, costs = find_node(view, parameters.text("node", "")), view.measures.first
    over = parameters.choice("over", (*ENTITIES, ""), "")
    entities = choose_compared(costs, over or _find_kind(looks, look, costs))
    several = {kind for kind in ENTITIES if len(entities_of(costs.experiment, kind, costs.profiles)) > 1}
    kinds = [kind for kind in ENTITIES if kind in several | {entities.over}]
    try:
        values, reason = _read(view, node, entities), ""
    except UsageError as error:  # of minima, and where single profiles are not known
        values, reason = np.full(len(entities), np.nan), looks.spell(compose_text(error))
    known = values[~np.isnan(values)]
    return {
        "reason": reason,
        "over": entities.over,
        "kinds": kinds,
        "n": len(entities),
        "scope": _scope(view, node).value,
        "metric": describe_metric(costs),
        **_join(entities.names, values),
        "statistics": _summarise(known) if len(known) else None,
    }


def _find_kind(looks: Looks, look: Look, costs: Costs) -> str:
    """Return what costs are compared over unless something else is asked for, as `imbalance` does."""
    key = ("compared over", look.derive, look.filter, costs.metric.name)
    found: str = looks.others.get(key, lambda: choose_compared(costs, None).over)
    return found


def _scope(view: View, node: int) -> Scope:
    """Return the scope in which a row is looked at; everything has its cost once."""
    return Scope.EXCLUSIVE if node == ABOVE else view.scope


def _read(view: View, node: int, entities: Entities) -> Floats:
    costs = view.measures.first
    demand_spread(costs, entities)
    if node == ABOVE:
        return _read_everything(costs, entities)
    context = view.context(node) if isinstance(view, CallTree) else None
    return read_values(costs, entities, view.members(node), context, view.scope)


def _read_everything(costs: Costs, entities: Entities) -> Floats:
    groups: Groups = everything(costs)
    cells: Floats = EntityCosts(costs, Scope.EXCLUSIVE, groups, np.zeros(1, np.int64), entities).matrix()[0]
    return cells


def _summarise(values: Floats) -> Document:
    """Return what a box plot shows, and how uneven it is."""
    low, middle, high = (float(one) for one in np.percentile(values, QUARTILES))
    return {**spread_statistics(values), "p25": low, "median": middle, "p75": high, "sum": float(values.sum())}


def _join(names: Sequence[str], values: Floats) -> Document:
    """Return values one by one, or those of neighbours together."""
    joined = max(1, -(-len(values) // MOST_BARS))
    if joined == 1:
        return {"name": Texts(names), "mean": values, "low": values, "high": values, "n_joined": 1}
    starts: Ints = np.arange(0, len(values), joined)
    known = (~np.isnan(values)).astype(np.float64)
    with np.errstate(invalid="ignore"):
        mean = np.add.reduceat(np.nan_to_num(values), starts) / np.add.reduceat(known, starts)
    last = np.minimum(starts + joined, len(values)) - 1
    labels = [f"{names[a]} to {names[b]}" for a, b in zip(starts.tolist(), last.tolist(), strict=True)]
    low, high = np.fmin.reduceat(values, starts), np.fmax.reduceat(values, starts)
    return {"name": Texts(labels), "mean": mean, "low": low, "high": high, "n_joined": joined}


def answer_grid(looks: Looks, look: Look, parameters: Parameters) -> Document:
    """Return the cost of a row in every profile, as a grid: a column for each rank, a row for each thread or stream."""
    view = read_view(looks, look, parameters)
    node, costs = find_node(view, parameters.text("node", "")), view.measures.first
    experiment = costs.experiment
    profiles: Ints = experiment.values.known if costs.profiles is None else costs.profiles
    of = np.full(len(experiment.profiles), -1)
    of[profiles] = np.arange(len(profiles))
    values = _read(view, node, Entities("profile", experiment.profiles.labels(profiles), of, profiles[:0]))
    grid = looks.others.get(
        ("grid", look.derive, look.filter), lambda: Places(experiment, profiles, MOST_LANES).grid(MOST_CELLS)
    )
    n_known = grid.combine((~np.isnan(values)).astype(np.float64), np.add, 0.0)
    with np.errstate(invalid="ignore"):
        mean = grid.combine(np.nan_to_num(values), np.add, 0.0) / n_known
    low, high = grid.combine(values, np.fmin, np.nan), grid.combine(values, np.fmax, np.nan)
    return {"metric": describe_metric(costs), "grid": grid.data, "mean": mean, "low": low, "high": high}


# -- topologies --------------------------------------------------------------------------------------------------------


def answer_topology(looks: Looks, look: Look, parameters: Parameters) -> Document:
    """Return the cost of a row in every place of a Cartesian arrangement of processes or threads. Neighbours in the
    first dimension are one cell where there are more than a picture can show."""
    view = read_view(looks, look, parameters)
    node, costs = find_node(view, parameters.text("node", "")), view.measures.first
    system = costs.experiment.system
    number = parameters.integer("topology", 0, max(len(system.topologies) - 1, 0), 0)
    if not system.topologies:
        raise UsageError("this input has no topology")
    topology = system.topologies[number]
    places, inverse = np.unique(topology.system.astype(np.int64), return_inverse=True)
    entry, names = inverse.reshape(-1), tuple(system.name[place] for place in places.tolist())
    by_place = _read(view, node, Entities("place", names, _find_places(costs.experiment, places), places[:0]))
    joined = max(1, -(-int(np.prod(topology.sizes)) // MOST_PLACES))
    sizes = (-(-topology.sizes[0] // joined), *topology.sizes[1:])
    columns = [column // (1 if k else joined) for k, column in enumerate(topology.coordinates.T.astype(np.int64))]
    codes, first, cell = np.unique(np.ravel_multi_index(columns, sizes), return_index=True, return_inverse=True)
    return {
        "metric": describe_metric(costs),
        "name": topology.name,
        "sizes": list(sizes),
        "dimensions": _name_dimensions(topology),
        "coordinates": [np.asarray(one, np.int64) for one in np.unravel_index(codes, sizes)],
        "place": Texts([names[place] for place in entry[first].tolist()]),
        "n_joined": joined,
        **_combine_cells(by_place[entry], cell.reshape(-1), len(codes)),
    }


def _combine_cells(values: Floats, cell: Array, n: int) -> dict[str, Floats]:
    """Return the mean, the least and the most of every cell; NaN where nothing has a value."""
    known = ~np.isnan(values)
    low, high = np.full(n, np.nan), np.full(n, np.nan)
    np.fmin.at(low, cell, values)
    np.fmax.at(high, cell, values)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.bincount(cell[known], values[known], n) / np.bincount(cell[known], minlength=n)
    return {"mean": mean, "low": low, "high": high}


def _name_dimensions(topology: Topology) -> list[str]:
    given = dict(enumerate(topology.dimension_names))
    return [given.get(k) or f"dimension {k}" for k in range(len(topology.sizes))]


def _find_places(experiment: Experiment, places: Array) -> Ints:
    """Return which of some nodes of the system tree each profile is, or lies below; -1 for none."""
    system = experiment.system
    of: Ints = np.full(len(system) + 1, -1, np.int64)
    of[places] = np.arange(len(places))
    for node, above in enumerate(system.parent.tolist()):  # parents come first
        if of[node] < 0 and above >= 0:
            of[node] = of[above]
    return of[experiment.profiles.system]


# -- source ------------------------------------------------------------------------------------------------------------


def answer_source(looks: Looks, look: Look, parameters: Parameters) -> Document:
    """Return the lines around the place of a row, and what each costs in the whole run."""
    view = read_view(looks, look, parameters)
    node = find_node(view, parameters.text("node"))
    lines = read_source(view, node, SOURCE_LINES)
    exclusive = np.full(len(lines.texts), np.nan)
    if lines.texts:
        by_line = make_view(looks, look, "flat", "line")
        assert isinstance(by_line, FlatView)
        _add_costs(by_line, view.context(node), lines.first, exclusive)
    return {
        "file": lines.file,
        "line": lines.line,
        "first": lines.first,
        "text": Texts(lines.texts),
        "missing": lines.missing,
        "metric": describe_metric(view.measures.first),
        "exclusive": exclusive,
    }


def _add_costs(by_line: FlatView, context: int, first: int, exclusive: Floats) -> None:
    """Fill in what lines of the file of a context cost."""
    tree = by_line.measures.tree
    rows, contexts = by_line.rows
    region = tree.region[contexts]
    has_region = region >= 0
    rows, region = rows[has_region], region[has_region]
    here = tree.regions.file[region] == tree.regions.file[tree.region[context]]
    number = tree.regions.line[region] - first
    inside = here & (number >= 0) & (number < len(exclusive))
    costs = by_line.cells(rows[inside])["exclusive"]
    np.fmax.at(exclusive, number[inside], 0.0)
    np.add.at(exclusive, number[inside], np.nan_to_num(costs))
