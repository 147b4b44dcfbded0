"""Ask queries of tree T with Hatchet, in an environment of its own: names of what is found, and the total after squash.

    .peers/hatchet/bin/python bench/peers/query_with_hatchet.py < queries.json

Queries come as a JSON list; an inner list is a tuple of Hatchet's. What it refuses is the name of the error.
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

warnings.simplefilter("ignore")

import hatchet  # noqa: E402

Node = dict[str, Any]


def node(name: str, time: float, *children: Node) -> Node:
    """Return a context as `from_literal` takes it."""
    inclusive = time + sum(child["metrics"]["time (inc)"] for child in children)
    metrics = {"time": float(time), "time (inc)": float(inclusive)}
    return {"frame": {"name": name, "type": "function"}, "metrics": metrics, "children": list(children)}


INNER = node("solve", 4, node("kernel", 16), node("MPI_Allreduce", 8))
SOLVE = node("solve", 12, node("kernel", 100, node("exp", 20)), node("MPI_Allreduce", 32), INNER)
T = node("main", 4, node("init", 8, node("MPI_Bcast", 8)), SOLVE, node("write", 8, node("fwrite", 4)))


def ask(frame: Any, query: Any) -> list[Any]:
    """Return the names that a query finds, and the exclusive total after squash; or the name of the error."""
    steps = [tuple(step) if isinstance(step, list) else step for step in query] if isinstance(query, list) else query
    try:
        found, squashed = (frame.filter(steps, squash=squash).dataframe for squash in (False, True))
    except Exception as error:  # whatever a version refuses
        return [type(error).__name__, 0.0]
    return [sorted(found["name"]), float(squashed["time"].sum())]


if __name__ == "__main__":
    graph = hatchet.GraphFrame.from_literal([T])
    graph.exc_metrics, graph.inc_metrics = ["time"], ["time (inc)"]
    print(json.dumps([ask(graph, query) for query in json.load(sys.stdin)]))
