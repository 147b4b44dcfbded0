"""The columns that a database asks to show, as formulas over what its own summary holds.

An experiment's columns are kept where the file holds what they are made of. A metric without any gets the usual ones:

    Sum $s    Mean $s/$n    StdDev sqrt($q/$n-($s/$n)^2)    CfVar StdDev/Mean    Min    Max

as far as there are statistics for them. The pre-release generation tells statistics apart by these formulas alone, so
that it gets them for every metric with several.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from callgrove.formats.hpctoolkit.metric_plan import MetricPlan, StoredMetric, StoredScope
from callgrove.formats.hpctoolkit.statistics import COUNT, MAXIMUM, MINIMUM, SQUARES, SUM
from callgrove.model.expressions import Expression, renumber
from callgrove.model.formulas import FormulaError, parse
from callgrove.model.metrics import Column, Metrics, Scope

__all__ = ["ViewColumn", "view_columns"]

WORDS = {"sum": SUM, "count": COUNT, "squares": SQUARES, "min": MINIMUM, "max": MAXIMUM}
FORMULAS = {  # of each view, and the statistics that it is over
    "Sum": ("{sum}", (SUM,)),
    "Mean": ("{sum}/{count}", (SUM, COUNT)),
    "StdDev": ("sqrt({squares}/{count}-({sum}/{count})^2)", (SUM, COUNT, SQUARES)),
    "CfVar": ("sqrt({squares}/{count}-({sum}/{count})^2)/({sum}/{count})", (SUM, COUNT, SQUARES)),
    "Min": ("{min}", (MINIMUM,)),
    "Max": ("{max}", (MAXIMUM,)),
}


@dataclass(frozen=True)
class ViewColumn:
    """A column, and its formula over the ids of the file's summary."""

    column: Column
    formula: Expression


def view_columns(plan: MetricPlan, metrics: Metrics, tells_statistics: bool) -> tuple[list[ViewColumn], list[str]]:
    """The columns in their order, and the names of those that could not be kept. With `tells_statistics` there are the
    usual columns for each metric with several."""
    ids = plan.renumber(metrics)
    scopes = {scope.scope for _, scope in plan.scopes}
    kept: list[ViewColumn] = []
    lost: list[str] = []
    for column in metrics.columns:
        if column.scope == Scope.LEXICAL and Scope.LEXICAL not in scopes:
            continue  # goes with its scope, which is reported
        try:
            expression = parse(column.formula)
        except FormulaError:
            expression = None
        if expression is not None and expression.variables() <= ids.keys():
            kept.append(ViewColumn(column, renumber(expression, ids)))
        else:
            lost.append(" ".join(word for word in (column.name, column.statistic, column.scope.word) if word))
    known = {(c.column.name, c.column.statistic, c.column.scope) for c in kept}
    names = {name for name, _, _ in known}
    for metric in plan.metrics:
        several = any(len(scope.statistics) > 1 for scope in metric.scopes)
        if metric.first.name not in names or (several and tells_statistics):
            kept += (c for c in _usual(metric) if (c.column.name, c.column.statistic, c.column.scope) not in known)
    return kept, lost


def _usual(metric: StoredMetric) -> Iterator[ViewColumn]:
    row = metric.first
    scopes = {scope.scope: scope for scope in metric.scopes}
    if Scope.FUNCTION in scopes:
        scopes.pop(Scope.POINT, None)
    for statistic, (text, needs) in FORMULAS.items():
        for scope in (Scope.INCLUSIVE, Scope.FUNCTION, Scope.POINT, Scope.LEXICAL):
            if scope in scopes and set(needs) <= dict(scopes[scope].statistics).keys():
                column = Column(row.name, scope, "", row.description, statistic, row.visible)
                shown = replace(column, show_percent=row.show_percent, number_format=row.number_format)
                yield ViewColumn(shown, parse(_filled(text, scopes[scope])))


def _filled(text: str, scope: StoredScope) -> str:
    ids = {word: f"${dict(scope.statistics).get(statistic)}" for word, statistic in WORDS.items()}
    return text.format(**ids)
