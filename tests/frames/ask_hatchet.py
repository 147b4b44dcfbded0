"""Looks at an experiment with Hatchet, and with Thicket where that is installed. Runs in their environments:

    PYTHONPATH=src:. .peers/hatchet/bin/python tests/frames/ask_hatchet.py [PATH]

Without a path, the experiment is the tree T. Prints what it saw as JSON: test_peers.py compares it.
"""

from __future__ import annotations

import contextlib
import json
import sys
import warnings
from io import StringIO
from typing import Any

import numpy as np

import callgrove
from callgrove.model.experiment import Experiment
from tests.frames.trees import tree_t, tree_with


def look(experiment: Experiment) -> dict[str, Any]:
    """Return what a GraphFrame says, and the experiment that is made of it again."""
    graph_frame = experiment.to_hatchet()
    frame, default = graph_frame.dataframe, graph_frame.default_metric
    roots = frame.index.get_level_values("node").isin(graph_frame.graph.roots)
    back = callgrove.from_hatchet(graph_frame)
    names = list(graph_frame.exc_metrics)
    seen = {
        "nodes": len(graph_frame.graph),
        "levels": list(frame.index.names),
        "unique": bool(frame.index.is_unique),
        "columns": list(frame.columns),
        "metrics": [sorted(graph_frame.exc_metrics), sorted(graph_frame.inc_metrics)],
        "default": default,
        "exclusive": {name: float(frame[name].sum()) for name in names},
        "inclusive": {name: float(frame[roots][f"{name} (inc)"].sum()) for name in names},
        "back": {name: float(back.root_total(name)) for name in names},
        "contexts": len(back.contexts),
        "quantities": [list(experiment.metrics.shown), list(back.metrics.shown)],
        "warnings": [warning.text for warning in back.warnings],
        "tree": graph_frame.tree(metric_column=default),
    }
    squashed = graph_frame.squash()
    seen["squashed"] = {name: float(squashed.dataframe[name].sum()) for name in names}
    before = frame[graph_frame.inc_metrics].copy()
    update = getattr(graph_frame, "update_inclusive_columns", None) or graph_frame.calculate_inclusive_metrics
    update()
    after = graph_frame.dataframe[before.columns]
    seen["changed"] = float(((after - before).abs() / before.abs().max()).max().max())
    seen["absent"] = [int(before.isna().sum().sum()), int(after.isna().sum().sum())]
    return seen


def look_at_runs(experiment: Experiment) -> dict[str, Any]:
    """Return what a Thicket says, and whether its own functions agree with its table of statistics."""
    import thicket.stats
    from thicket.utils import validate_dataframe, validate_nodes, validate_profile

    ours, theirs = experiment.to_thicket(), experiment.to_thicket()
    for check in (validate_profile, validate_nodes):
        check(ours)
    validate_dataframe(ours.dataframe)
    columns = ["time", "time (inc)"]
    for function in (thicket.stats.mean, thicket.stats.std, thicket.stats.minimum, thicket.stats.maximum):
        function(theirs, columns)
    names = [f"{column}_{word}" for column in columns for word in ("mean", "std", "min", "max")]
    difference = (ours.statsframe.dataframe[names] - theirs.statsframe.dataframe[names]).abs().max().max()
    back = callgrove.from_hatchet(ours)
    roots = ours.dataframe.index.get_level_values("node").isin(ours.graph.roots)
    return {
        "type": type(ours).__name__,
        "levels": list(ours.dataframe.index.names),
        "sources": sorted(ours.profile_mapping.values()),
        "metadata": {row["name"]: row["p"] for row in ours.metadata.to_dict("records")},
        "exclusive": float(ours.dataframe["time"].sum()),
        "inclusive": float(ours.dataframe[roots]["time (inc)"].sum()),
        "difference": float(difference),
        "columns": list(ours.performance_cols),
        "default": ours.default_metric,
        "kept": float(ours.filter_metadata(lambda run: run["p"] > 1).dataframe["time"].sum()),
        "back": [float(back.root_total("time")), [dict(run.parameters) for run in back.runs]],
        "kernel": float(ours.statsframe.dataframe.set_index("name").loc["exp", "time_mean"]),
    }


def refuse_deep_trees() -> str:
    """Return what is said of a tree that Hatchet cannot walk."""
    n = 2_000
    deep = tree_with([(depth, f"f{depth}") for depth in range(n)], {"time": ("sec", np.ones((n, 1)))})
    try:
        deep.to_hatchet()
    except callgrove.UsageError as error:
        return str(error)
    return ""


def main(arguments: list[str]) -> None:
    opened = callgrove.open(arguments[0]) if arguments else tree_t()
    assert isinstance(opened, Experiment)
    warnings.simplefilter("ignore")  # of Hatchet, about pandas
    with contextlib.redirect_stdout(StringIO()):
        seen: dict[str, Any] = {"hatchet": look(opened)}
        seen["deep"] = refuse_deep_trees() if not arguments else ""
        if sys.prefix.endswith("thicket"):
            seen["thicket"] = look_at_runs(tree_t(3))
    print(json.dumps(seen))  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
