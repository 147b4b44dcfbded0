"""Formulas of derived metrics as files hold them, and back: a text, its language, when it is computed.

    make_stored_formula(metric) -> StoredFormula                  what to store of a derived metric
    read_formulas(experiment, stored) -> Experiment          metrics with formulas that evaluate

A language reads its formulas here, whatever file holds them. What cannot be read is unavailable, with the reason. What
CubePL has beside a formula, init blocks and rules of adding up, are attributes of its metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from callgrove.errors import UsageError
from callgrove.model.cubepl import KINDS, Definition, Surroundings, compile_metrics
from callgrove.model.definitions import UserFormula, read_formula
from callgrove.model.derived import Refused, Unavailable, When, derive_metric, tell_when_computed
from callgrove.model.experiment import Experiment, replace_metrics
from callgrove.model.metrics import Metric, Metrics

__all__ = ["StoredFormula", "cubepl_formulas", "is_read_again", "make_stored_formula", "read_formulas"]

USER, CUBEPL = UserFormula.language, "cubepl"
PREFIX, RULE = "cube: ", "cubeplaggr "  # of attributes
MOST_FORMULAS = 2000  # of users, in one folder


@dataclass(frozen=True)
class StoredFormula:
    """What a file says of a formula beside its text. `reason`: why it cannot be evaluated, wherever it is read."""

    language: str
    when: When
    reason: str = ""


def make_stored_formula(metric: Metric) -> StoredFormula | None:
    """Return what to store of a derived metric; None where its formula is in a language that nobody here knows."""
    formula = metric.derivation
    if formula is None:
        return StoredFormula(CUBEPL, KINDS[_cubepl_kind(metric)]) if _is_cubepl(metric) else None
    is_cubepl = not isinstance(formula, UserFormula | Refused) and _cubepl_kind(metric) in KINDS
    return StoredFormula(CUBEPL if is_cubepl else formula.language, formula.when, formula.reason)


def is_read_again(metric: Metric) -> bool:
    """Return whether a formula is in a language that is read here, or cannot be evaluated anyway."""
    stored = make_stored_formula(metric)
    return stored is None or bool(stored.reason) or stored.language in READERS


def cubepl_formulas(metrics: Metrics) -> dict[int, StoredFormula]:
    """Return the formulas that are CubePL by what Cube files say of their metrics."""
    return {row: StoredFormula(CUBEPL, KINDS[_cubepl_kind(m)]) for row, m in enumerate(metrics) if _is_cubepl(m)}


def _is_cubepl(metric: Metric) -> bool:
    return metric.is_derived and _cubepl_kind(metric) in KINDS


def _cubepl_kind(metric: Metric) -> str:
    return dict(metric.attributes).get(f"{PREFIX}type", "").strip().upper()


def read_formulas(experiment: Experiment, stored: Mapping[int, StoredFormula]) -> Experiment:
    """Return the experiment with metrics whose rows have the formulas that they were stored with."""
    if not stored:
        return experiment
    metrics = experiment.metrics
    for language, read in READERS.items():
        rows = [row for row, said in stored.items() if said.language == language]
        metrics = read(experiment, metrics, rows) if rows else metrics
    others = {row: _refuse(metrics[row], said) for row, said in stored.items() if said.language not in READERS}
    reasons = {row: said.reason for row, said in stored.items() if said.reason and said.language in READERS}
    metrics = _with_rows(metrics, others)
    return replace_metrics(
        experiment, _with_rows(metrics, {row: _mark(metrics[row], reason) for row, reason in reasons.items()})
    )


def _refuse(metric: Metric, said: StoredFormula) -> Metric:
    reason = said.reason or f"its language {said.language!r} is not known here"
    return replace(metric, derivation=Refused(metric.formula, said.when, reason))


def _mark(metric: Metric, reason: str) -> Metric:
    """Return a metric that was not evaluated where it was stored, and is not evaluated here."""
    operands = () if metric.derivation is None else metric.derivation.operands
    return replace(metric, derivation=Unavailable(metric.formula, tell_when_computed(metric), reason, operands))


def _with_rows(metrics: Metrics, rows: Mapping[int, Metric]) -> Metrics:
    if not rows:
        return metrics
    return replace(metrics, rows=tuple(rows.get(number, metric) for number, metric in enumerate(metrics)))


# -- formulas of users -------------------------------------------------------------------------------------------------


def _read_user_formulas(experiment: Experiment, metrics: Metrics, rows: list[int]) -> Metrics:
    """Return metrics with formulas of the user. They may use one another in any order, but not in circles."""
    waiting, reasons = rows[:MOST_FORMULAS], dict[int, str]()
    too_many = f"there are more than {MOST_FORMULAS} formulas of users"
    metrics = _with_rows(metrics, {row: _mark(metrics[row], too_many) for row in rows[MOST_FORMULAS:]})
    while waiting:
        left = []
        for row in waiting:
            try:
                metrics = _with_rows(metrics, {row: _read_user_formula(metrics, row)})
            except UsageError as error:
                left.append(row)
                reasons[row] = str(error)
        if len(left) == len(waiting):
            return _with_rows(metrics, {row: _mark(metrics[row], reasons[row]) for row in left})
        waiting = left
    return metrics


def _read_user_formula(metrics: Metrics, row: int) -> Metric:
    metric = metrics[row]
    formula = read_formula(metrics, metric.formula)
    made = derive_metric(metric.name, formula.derivation, metric, formula.adds_up)
    return replace(made, show_percent=metric.show_percent)


# -- CubePL ------------------------------------------------------------------------------------------------------------


def _read_cubepl(experiment: Experiment, metrics: Metrics, rows: list[int]) -> Metrics:
    """Return metrics with formulas of CubePL; to these, metrics that users have defined are measured ones."""
    definitions = [_definition(metric, row in rows) for row, metric in enumerate(metrics) if not metric.statistic]
    mirrors = list(filter(None, experiment.attributes.get(f"{PREFIX}mirrors", "").split("\n")))
    leaves = experiment.profiles.system[experiment.profiles.measured].tolist()
    around = Surroundings(experiment.title, len(mirrors), experiment.system, tuple(leaves))
    compiled = {row.name: row for row in compile_metrics(definitions, around).rows}
    return _with_rows(metrics, {row: compiled[metrics[row].name] for row in rows})


def _definition(metric: Metric, is_formula: bool) -> Definition:
    said = {key.removeprefix(PREFIX): text for key, text in metric.attributes if key.startswith(PREFIX)}
    rules = tuple((key.removeprefix(RULE), text) for key, text in said.items() if key.startswith(RULE))
    is_void = said.get("val", "").strip() == "VOID"
    return Definition(metric, _cubepl_kind(metric) if is_formula else "", said.get("cubeplinit", ""), rules, is_void)


Reader = Callable[[Experiment, Metrics, list[int]], Metrics]
READERS: Mapping[str, Reader] = {CUBEPL: _read_cubepl, USER: _read_user_formulas}
