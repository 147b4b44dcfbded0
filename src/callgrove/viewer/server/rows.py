"""Rows of views, a few at a time: the children of one node, in order; what a search finds; the way to a node.

Views are those of the terminal (`callgrove.explore.views`), so that numbers are those of `tree`, `top` and
`tree --bottom-up`. A node has a key that holds whatever was kept or dropped in between: the number of its context or
group, and for callers the groups from the function outwards.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from callgrove.arrays import Ints
from callgrove.errors import UsageError
from callgrove.explore.listing import Listing
from callgrove.explore.measures import NAME, Measures
from callgrove.explore.searching import search
from callgrove.explore.views import ABOVE, FLAT, CallerView, CallTree, FlatView, View
from callgrove.viewer.page import Texts
from callgrove.viewer.profile_tree import describe_metric
from callgrove.viewer.server.looks import Look, Looks
from callgrove.viewer.server.parameters import BadRequest, Parameters

__all__ = ["NODE", "answer_path", "answer_rows", "answer_search", "find_node", "make_view", "read_key", "read_view"]

VIEWS = ("tree", "callers", "flat")
NODE = ("view", "by", "node")  # parameters of requests about one row
SORTS = ("inclusive", "exclusive", NAME)
MOST_ROWS = 500  # of an answer
MOST_COLUMNS = 6  # of further metrics
MOST_HITS = 200
LONGEST_KEY = 200  # groups of a chain of callers
MOST_SORTED = 50_000  # rows that are sorted by their names

Document = dict[str, Any]


def read_view(looks: Looks, look: Look, parameters: Parameters) -> View:
    """Return the view that a request is about."""
    kind = parameters.choice("view", VIEWS, VIEWS[0])
    by = parameters.choice("by", FLAT, FLAT[0])
    return make_view(looks, look, kind, by)


def make_view(looks: Looks, look: Look, kind: str, by: str = FLAT[0]) -> View:
    """Return a view of what is looked at."""
    exact = replace(look, metric=looks.metric(look))

    def make() -> View:
        measures = Measures((looks.costs(exact),))
        if kind == "flat":
            return FlatView(measures, by)
        if kind == "callers":
            if not measures.has_shares:
                raise UsageError(f"{exact.metric} has no parts that callers could share")
            return CallerView(measures)
        return CallTree(measures)

    return looks.others.get(("view", kind, by if kind == "flat" else "", exact), make)


# -- keys --------------------------------------------------------------------------------------------------------------


def find_node(view: View, key: str) -> int:
    """Return the node of a key; the empty one stands above all rows."""
    if not key:
        return ABOVE
    numbers = read_key(key)
    if isinstance(view, CallerView):
        return view.find(numbers)
    node = numbers[-1]
    if len(numbers) != 1 or not view.has_row(node):
        raise BadRequest("node: there is no such row")
    return node


def read_key(key: str) -> list[int]:
    """Return the numbers of a key."""
    words = key.split(".")
    if len(words) > LONGEST_KEY or not all(word.isascii() and word.isdigit() and len(word) < 12 for word in words):
        raise BadRequest("node: is not a row of this view")
    return [int(word) for word in words]


def _keys(view: View, parent: str, nodes: Ints) -> list[str]:
    if isinstance(view, CallerView):
        before = f"{parent}." if parent else ""
        return [f"{before}{view.group(node)}" for node in nodes.tolist()]
    return [str(node) for node in nodes.tolist()]


# -- rows --------------------------------------------------------------------------------------------------------------


def answer_rows(looks: Looks, look: Look, parameters: Parameters) -> Document:
    """Return some of the rows right below a node, in order, with the costs in the metric and in further ones."""
    view, parent = read_view(looks, look, parameters), parameters.text("node", "")
    children = view.children(find_node(view, parent))
    sort = parameters.choice("sort", SORTS, view.default)
    ordered = _sort(view, children, sort, bool(parameters.integer("down", 0, 1, 1)))
    first = parameters.integer("first", 0, max(len(ordered), 0), 0)
    count = parameters.integer("count", 1, MOST_ROWS, MOST_ROWS)
    nodes = ordered[first : first + count]
    others = parameters.texts("columns", MOST_COLUMNS)
    return {
        **_describe(view, parent, nodes),
        "n": len(ordered),
        "metrics": [_cost_cells(view, nodes), *(_other_cells(looks, look, parameters, nodes, name) for name in others)],
    }


def _sort(view: View, nodes: Ints, sort: str, down: bool) -> Ints:
    """Return siblings in the order of a column; the largest first where `down`, and names from A on where not."""
    if sort == NAME:
        if len(nodes) > MOST_SORTED:
            raise UsageError(f"{len(nodes):,} rows are too many to be sorted by name")
        order = np.argsort(np.array([name.text for name in view.names(nodes.tolist())], object), kind="stable")
        return nodes[order[::-1] if down else order]
    cells, sign = view.cells(nodes), -1.0 if down else 1.0
    keys = [sign * view.measures.rank(column, cells) for column in dict.fromkeys((sort, "inclusive"))]
    ordered: Ints = nodes[np.lexsort(keys[::-1])]  # by the last key first; equal ones stay in their order
    return ordered


def _describe(view: View, parent: str, nodes: Ints) -> Document:
    names = view.names(nodes.tolist())
    return {
        "key": Texts(_keys(view, parent, nodes)),
        "name": Texts([name.text for name in names]),
        "kind": Texts([name.kind for name in names]),
        "file": Texts([name.file or "" for name in names]),
        "line": np.array([-1 if name.line is None else name.line for name in names], np.int64),
        "module": Texts([name.module or "" for name in names]),
        "opens": view.have_children(nodes),
    }


def _cost_cells(view: View, nodes: Ints) -> Document:
    cells = view.cells(nodes)
    return {**describe_metric(view.measures.first), "exclusive": cells["exclusive"], "inclusive": cells["inclusive"]}


def _other_cells(looks: Looks, look: Look, parameters: Parameters, nodes: Ints, metric: str) -> Document:
    """Return what the same rows cost in another metric. Rows of callers are those of their metric."""
    view = read_view(looks, replace(look, metric=metric), parameters)
    if isinstance(view, CallerView):
        raise BadRequest("columns: callers are shown in one metric")
    return _cost_cells(view, nodes)


# -- a search, and the way to a row ------------------------------------------------------------------------------------


def answer_search(looks: Looks, look: Look, parameters: Parameters) -> Document:
    """Return the costliest rows of the call tree whose names have a text, how many there are, and their share."""
    view = make_view(looks, look, "tree")
    assert isinstance(view, CallTree)
    text = parameters.text("text").strip()
    if not text:
        raise BadRequest("text: is empty")
    result = search(Listing(view), text)
    hits = result.among(np.flatnonzero(view.shown))
    best = _sort(view, hits, "inclusive", True)[:MOST_HITS]
    paths = [view.path(node) for node in best.tolist()]
    return {
        **_describe(view, "", best),
        "n": result.n_hits,
        "share": None if result.share is None else result.share / 100,
        "paths": [[str(node) for node in path] for path in paths],
        "metrics": [_cost_cells(view, best)],
    }


def answer_path(looks: Looks, look: Look, parameters: Parameters) -> Document:
    """Return the rows above a row of the call tree, the outermost first, and the row itself."""
    view = make_view(looks, look, "tree")
    node = find_node(view, parameters.text("node"))
    path: Ints = np.array(view.path(node), np.int64)
    return {**_describe(view, "", path), "n": len(path), "metrics": [_cost_cells(view, path)]}
