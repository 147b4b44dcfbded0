"""Panels and their numbers, as tests look at them."""

from __future__ import annotations

from typing import Any

import numpy as np

from callgrove.arrays import Floats
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Metric, Scope
from callgrove.model.profiles import ProfileKind
from callgrove.model.runs import Run
from callgrove.viewer.page import Choice, Detail, Limits, Panel
from callgrove.viewer.profile import profile_maker

__all__ = ["cells", "inclusive_of", "panels", "tree_rows", "two_runs"]


def panels(
    experiment: Experiment, detail: Detail | None = None, choice: Choice | None = None, limits: Limits | None = None
) -> dict[str, Panel]:
    """The profile's panels by kind; empty where nothing has a cost."""
    maker = profile_maker(experiment, choice or Choice(), limits)
    return {panel.kind: panel for panel in maker.panels(detail or Detail())} if maker is not None else {}


def cells(panel: Panel, label: Any) -> list[tuple[str, str, str, int | None, str]]:
    """Labels as (name, kind, file, line, module)."""
    labels = panel.data["labels"]
    columns = [labels[name].values for name in ("name", "kind", "file")]
    rows = zip(*columns, labels["line"].tolist(), labels["module"].values, strict=True)
    known = [(name, kind, file, line if line >= 0 else None, module) for name, kind, file, line, module in rows]
    return [known[number] for number in np.asarray(label).tolist()]


def inclusive_of(tree: Any, metric: int) -> Floats:
    """Inclusive cost, added up as static/tree.js does where it is not in the data."""
    costs, parent = tree["metrics"][metric], tree["parent"].tolist()
    if "inclusive" in costs:
        return np.asarray(costs["inclusive"], np.float64)
    sums = costs["exclusive"].astype(np.float64).tolist()
    for row in range(len(parent) - 1, -1, -1):
        if parent[row] >= 0:
            sums[parent[row]] += sums[row]
    return np.array(sums)


def tree_rows(panel: Panel, metric: int = 0) -> dict[int, tuple[float, float]]:
    """Exclusive and inclusive cost by context."""
    tree = panel.data["tree"]
    kept = tree["context"].tolist()
    exclusive, inclusive = tree["metrics"][metric]["exclusive"].tolist(), inclusive_of(tree, metric).tolist()
    return {context: (exclusive[k], inclusive[k]) for k, context in enumerate(kept)}


def two_runs() -> Experiment:
    """Runs of which one lacks a parameter: no study can be made of them."""
    builder = ExperimentBuilder("made-up", title="two runs")
    for run in (Run("a", {"p": 1.0}), Run("b", {})):
        builder.add_run(run)
    builder.add_context(-1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, "main"))
    builder.add_metric(Metric("time", Scope.EXCLUSIVE, unit="sec"))
    for number in range(2):
        profile = builder.add_profile(ProfileKind.THREAD, run=number)
        builder.add_values(profile, np.array([0]), 0, np.array([2.0]))
    return builder.build()
