"""Asks Hatchet the questions of an analyst's day. Runs in Hatchet's own environment:

    .peers/hatchet/bin/python bench/peers/ask_with_hatchet.py TREE.npz OTHER.npz OUT.json SECONDS

TREE.npz and OTHER.npz have the parent, name and seconds of every node, in preorder. OUT.json gets, for each question,
the seconds that the call took and the total of what it returned; null where it was stopped after SECONDS.
"""

from __future__ import annotations

import json
import multiprocessing
import signal
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
from hatchet import GraphFrame
from hatchet.frame import Frame
from hatchet.graph import Graph
from hatchet.node import Node


def read(path: str) -> Any:
    """Return the GraphFrame of a tree, with exclusive and inclusive time. Its names stand in a second column, since
    `groupby_aggregate` cannot group by `name`, a column that it makes."""
    with np.load(path) as tree:
        parent, name, seconds = tree["parent"], tree["name"].tolist(), tree["seconds"]
    inclusive = seconds.copy()
    for node in range(len(parent) - 1, 0, -1):
        inclusive[parent[node]] += inclusive[node]
    nodes: list[Any] = []
    for called, above in zip(name, parent.tolist(), strict=True):
        node = Node(Frame({"name": called, "type": "function"}), nodes[above] if above >= 0 else None)
        if above >= 0:
            nodes[above].add_child(node)
        nodes.append(node)
    graph = Graph(nodes[:1])
    graph.enumerate_traverse()
    columns = {"node": nodes, "name": name, "function": name, "time": seconds, "time (inc)": inclusive}
    frame = pandas.DataFrame(columns).set_index("node").sort_index()
    return GraphFrame(graph, frame, ["time"], ["time (inc)"])


class StoppedError(Exception):
    """A question that took too long."""


def stop(*_: object) -> None:
    """End the question that is asked."""
    raise StoppedError


def main(tree: str, other: str, out: str, longest: str) -> None:
    """Ask every question once; nothing that was made for one is used for another."""
    sys.setrecursionlimit(1_000_000)
    warnings.simplefilter("ignore")
    minuend = read(other)
    path = [{"name": "main"}, "*", {"name": "MPI_.*"}]
    sums = {"time": "sum", "time (inc)": "sum"}
    questions: dict[str, Callable[[Any], Any]] = {
        "flat profile": lambda frame: frame.groupby_aggregate(["function"], sums),
        "flat profile, pandas alone": lambda frame: frame.dataframe.groupby("name")[["time", "time (inc)"]].sum(),
        "tree": lambda frame: frame.tree(metric_column="time (inc)", render_header=False),
        "filter": lambda frame: frame.filter(lambda row: row["name"].startswith("f1")),
        "query": lambda frame: frame.filter(path),
        "difference": lambda frame: minuend - frame,
    }
    answers = {}
    signal.signal(signal.SIGALRM, stop)
    for name, ask in questions.items():
        frame = read(tree)
        start = time.perf_counter()
        signal.alarm(int(longest))
        try:
            answer = ask(frame)
        except StoppedError:
            for worker in multiprocessing.active_children():
                worker.kill()  # which `filter` starts, and which wait for ever
            answers[name] = {"seconds": time.perf_counter() - start, "total": None}
            continue
        finally:
            signal.alarm(0)
        seconds = time.perf_counter() - start
        table = getattr(answer, "dataframe", answer)
        total = float(table["time"].sum()) if hasattr(table, "columns") else float(len(answer.splitlines()))
        answers[name] = {"seconds": seconds, "total": total}
    Path(out).write_text(json.dumps(answers))


if __name__ == "__main__":
    main(*sys.argv[1:])
