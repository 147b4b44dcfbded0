"""Formulas of derived metrics as files hold them, and back: a text, its language, when it is computed.

    stored_formula(metric) -> StoredFormula                  what to store of a derived metric
    read_formulas(metrics, stored, tree) -> Metrics          the same metrics with formulas that evaluate

A language reads its formulas here, whatever file holds them. What cannot be read is unavailable, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from callgrove.errors import UsageError
from callgrove.model.definitions import read_formula
from callgrove.model.derived import Refused, When, derived_metric, when_computed
from callgrove.model.metrics import Metric, Metrics

__all__ = ["StoredFormula", "read_formulas", "stored_formula"]

USER, CUBEPL = "callgrove", "cubepl"


@dataclass(frozen=True)
class StoredFormula:
    """What a file says of a formula beside its text. `reason`: why it cannot be evaluated, wherever it is read."""

    language: str
    when: When
    reason: str = ""


def stored_formula(metric: Metric) -> StoredFormula | None:
    """Return what to store of a derived metric; None where its formula is in a language that nobody here knows."""
    formula = metric.derivation
    if formula is None:
        return None
    return StoredFormula(formula.language, formula.when, formula.reason)


def read_formulas(metrics: Metrics, stored: Mapping[int, StoredFormula]) -> Metrics:
    """Return metrics whose rows have the formulas that they were stored with."""
    refused = {row: _refuse(metrics[row], said.reason, said.when) for row, said in stored.items() if said.reason}
    metrics = _with_rows(metrics, refused)
    for language, read in READERS.items():
        rows = [row for row, said in stored.items() if said.language == language and not said.reason]
        metrics = read(metrics, rows) if rows else metrics
    unknown = {row: said for row, said in stored.items() if said.language not in READERS and not said.reason}
    words = "its language {!r} is not known here"
    return _with_rows(
        metrics, {row: _refuse(metrics[row], words.format(s.language), s.when) for row, s in unknown.items()}
    )


def _with_rows(metrics: Metrics, rows: Mapping[int, Metric]) -> Metrics:
    if not rows:
        return metrics
    return replace(metrics, rows=tuple(rows.get(number, metric) for number, metric in enumerate(metrics)))


def _refuse(metric: Metric, reason: str, when: When | None = None) -> Metric:
    refused = Refused(metric.formula, when or when_computed(metric), reason)
    return replace(metric, derivation=refused)


def _read_user_formulas(metrics: Metrics, rows: list[int]) -> Metrics:
    """Return metrics with formulas of the user. They may use one another in any order, but not in circles."""
    waiting, reasons = list(rows), dict[int, str]()
    while waiting:
        left = []
        for row in waiting:
            try:
                metrics = _with_rows(metrics, {row: _read_user_formula(metrics, row)})
            except UsageError as error:
                left.append(row)
                reasons[row] = str(error)
        if len(left) == len(waiting):
            return _with_rows(metrics, {row: _refuse(metrics[row], reasons[row]) for row in left})
        waiting = left
    return metrics


def _read_user_formula(metrics: Metrics, row: int) -> Metric:
    metric = metrics[row]
    formula = read_formula(metrics, metric.formula)
    made = derived_metric(metric.name, formula.derivation, metric, formula.adds_up)
    return replace(made, show_percent=metric.show_percent)


READERS: Mapping[str, Callable[[Metrics, list[int]], Metrics]] = {USER: _read_user_formulas}
