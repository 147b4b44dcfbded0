"""Panels and their numbers, as tests look at them."""

from __future__ import annotations

from typing import Any

import numpy as np

from callgrove.model.experiment import Experiment
from callgrove.viewer.panels import Choice, Detail, Panel
from callgrove.viewer.profile.maker import profile_maker

__all__ = ["cells", "panels", "tree_rows"]


def panels(experiment: Experiment, detail: Detail | None = None, choice: Choice | None = None) -> dict[str, Panel]:
    """The profile's panels by kind; empty where nothing has a cost."""
    maker = profile_maker(experiment, choice or Choice())
    return {panel.kind: panel for panel in maker.panels(detail or Detail())} if maker is not None else {}


def cells(panel: Panel, label: Any) -> list[tuple[str, str, str, int | None, str]]:
    """Labels as (name, kind, file, line, module)."""
    labels = panel.data["labels"]
    columns = [labels[name].values for name in ("name", "kind", "file")]
    rows = zip(*columns, labels["line"].tolist(), labels["module"].values, strict=True)
    known = [(name, kind, file, line if line >= 0 else None, module) for name, kind, file, line, module in rows]
    return [known[number] for number in np.asarray(label).tolist()]


def tree_rows(panel: Panel, metric: int = 0) -> dict[int, tuple[float, float]]:
    """Exclusive and inclusive cost by context."""
    tree = panel.data["tree"]
    costs = tree["metrics"][metric]
    kept = tree["context"].tolist()
    exclusive, inclusive = costs["exclusive"].tolist(), costs["inclusive"].tolist()
    return {context: (exclusive[k], inclusive[k]) for k, context in enumerate(kept)}
