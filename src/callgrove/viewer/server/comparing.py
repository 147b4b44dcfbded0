"""Two or more inputs side by side: the panels of `diff --report` for two of them, and what functions cost in all.

Inputs are compared as they are looked at: in one metric, with the metrics that were typed, filtered by one pattern.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from callgrove.analysis.comparison import Comparison, compare
from callgrove.analysis.comparison.sides import Question
from callgrove.arrays import Floats, Ints
from callgrove.model.metrics import Aggregation, Scope
from callgrove.viewer.comparison import ComparisonMaker, Pair, TimelinesMaker
from callgrove.viewer.page import Detail, Limits, Panel, Texts
from callgrove.viewer.report import report_comparison
from callgrove.viewer.server.looks import Look, Looks
from callgrove.viewer.server.parameters import Parameters
from callgrove.viewer.server.tabs import panel_document

__all__ = ["COLUMNS", "COMPARE", "PARTS", "answer_columns", "answer_compare", "make_report"]

COMPARE = ("with", "part")  # parameters
COLUMNS = ("others",)
PARTS = ("Overview", "Flame graph", "Call tree", "Timelines")
LIMITS = Limits(contexts=40_000, metrics=0, derived=0)  # further metrics are asked for when they are chosen
MOST_FUNCTIONS = 2_000

Document = dict[str, Any]


def answer_compare(looks: Sequence[Looks], look: Look, parameters: Parameters) -> Document:
    """Return one view of the comparison of the first of two inputs with the second."""
    left, right = looks
    part = parameters.choice("part", PARTS)
    exact = replace(look, metric=left.metric(look))
    kind = "timelines" if part == PARTS[-1] else "costs"

    def make() -> list[Panel]:
        pair = Pair((left.experiment(exact), right.experiment(exact)), Question())
        if kind == "timelines":
            names = compare(pair.sides, replace(pair.asked, metric=exact.metric)).short_names
            return list(TimelinesMaker(pair, names, Limits()).panels(Detail()))
        return list(ComparisonMaker(pair, exact.metric, LIMITS).panels(Detail()))

    # The other input may have been opened again since: then its experiment is another one.
    key = ("comparison", kind, id(right.experiment(exact)), exact)
    panels = [panel for panel in left.others.get(key, make) if panel.title == part]
    missing = Panel("unavailable", part, {"reason": f"These inputs have nothing to show as {part.lower()}."})
    return {"panels": [panel_document(panel, left.spell) for panel in panels or [missing]]}


def make_report(looks: Sequence[Looks], look: Look) -> str:
    """Return the page of a comparison, to keep."""
    exact = replace(look, metric=looks[0].metric(look))
    compared = compare([one.experiment(exact) for one in looks], Question(metric=exact.metric))
    return report_comparison(compared, wording=looks[0].spell)


def answer_columns(looks: Sequence[Looks], look: Look, parameters: Parameters) -> Document:
    """Return what functions cost in several inputs: a column for each of them."""
    exact = replace(look, metric=looks[0].metric(look))
    experiments = [one.experiment(exact) for one in looks]
    asked = Question(metric=exact.metric, flat=True)
    exclusive = compare(experiments, asked)
    inclusive = compare(experiments, replace(asked, scope=Scope.INCLUSIVE))
    metric = exclusive.metric
    rows = _choose_rows(exclusive)
    names = [exclusive.paths.text(row) for row in rows.tolist()]
    place = {inclusive.paths.text(row): row for row in range(len(inclusive.paths))}
    same: Ints = np.array([place.get(name, -1) for name in names], np.int64)
    wide: Floats = np.vstack([inclusive.values.astype(np.float64), np.full((1, len(looks)), np.nan)])
    return {
        "metric": {"name": metric.name, "unit": metric.unit, "derived": metric.formula if metric.is_derived else ""},
        "sides": list(exclusive.short_names),
        "totals": [float(total) for total in exclusive.totals] if exclusive.is_additive else [],
        "name": Texts(names),
        "exclusive": [np.ascontiguousarray(exclusive.values[rows, side]) for side in range(len(looks))],
        "inclusive": [np.ascontiguousarray(wide[same, side]) for side in range(len(looks))],
        "left": len(exclusive.paths) - len(rows),
        "notes": [looks[0].spell(note) for note in exclusive.notes],
    }


def _choose_rows(comparison: Comparison) -> Ints:
    """Return the functions with the largest cost in any input, the largest first."""
    values = np.abs(np.nan_to_num(comparison.values.astype(np.float64)))
    if comparison.metric.aggregation != Aggregation.NONE:
        values[comparison.values == comparison.metric.aggregation.neutral] = 0.0
    largest = values.max(axis=1, initial=0.0)
    order: Ints = np.argsort(-largest, kind="stable")
    return order[: min(int((largest > 0).sum()), MOST_FUNCTIONS)]
