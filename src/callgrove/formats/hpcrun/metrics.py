"""Metric tables of files as metric rows of the experiment: equal names are one metric.

What was measured has the scope `point`; a metric with a formula has no values and no scope, and its formula names rows
of the experiment. Fields of a description that the model has no word for are attributes, so that they can be written
again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from callgrove.formats.hpcrun.primitives import TYPES, VALUE_TYPES, MetricDescription
from callgrove.formats.hpcrun.regions import readable
from callgrove.formats.hpcrun.values import MetricRows
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.experiment import Severity
from callgrove.model.metrics import TIME_UNITS, Aggregation, Metric, Scope

__all__ = ["MetricTable", "description_of", "is_int", "unit_of"]

REFERENCE = re.compile(r"[#$@](\d+)")
SHOWN = (1, 2, 3)
HIDDEN, SHOW = 0, 1
INTEGERS = ("int", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "integer")
# attribute of a metric row -> field of a description, and what it is where nothing is said
KEPT = {
    "period": ("period", 1),
    "show": ("show", SHOW),
    "move2proc": ("move2proc", 0),
    "partner": ("partner", 0),
    "frequency": ("is_frequency", 0),
    "multiplexed": ("is_multiplexed", 0),
    "mean": ("threshold_mean", 0.0),
    "samples": ("n_samples", 0),
}


def unit_of(name: str) -> str:
    """The unit that hpcrun writes behind a metric's name: `CPUTIME (usec)`."""
    found = re.search(r"\(([^()]+)\)\s*$", name)
    return found[1] if found and (found[1] in TIME_UNITS or found[1] == "B") else ""


@dataclass
class MetricTable:
    """The metric rows of an experiment while its files are being opened. `keeps_ids`: there is one table only."""

    builder: ExperimentBuilder
    keeps_ids: bool
    rows: dict[str, int] = field(default_factory=dict)

    def add(self, metrics: Sequence[MetricDescription], where: str) -> MetricRows:
        """The rows of one file's table; new names get new rows."""
        names = self._names(metrics, where)
        known = len(self.rows)
        for name in names:
            self.rows.setdefault(name, len(self.rows))
        row = np.array([self.rows[name] for name in names], np.int32)
        for number, (name, metric) in enumerate(zip(names, metrics, strict=True)):
            if self.rows[name] == known:
                known += 1
                self.builder.add_metric(self._metric(name, metric, number, row.tolist()))
            if metric.period == 0:
                self.builder.warn(Severity.NOTE, f"{where}: the period of {name} is 0, which is taken for 1")
        period = np.array([metric.period or 1 for metric in metrics], np.uint64)
        return MetricRows(row, period, np.array([metric.is_real for metric in metrics], np.bool_))

    def _names(self, metrics: Sequence[MetricDescription], where: str) -> list[str]:
        """The names of a table; the second metric of one name gets a number, as values of both are kept apart."""
        found: list[str] = []
        for metric in metrics:
            name = readable(metric.name)
            if name in found:
                again = next(f"{name} [{k}]" for k in range(2, len(metrics) + 2) if f"{name} [{k}]" not in found)
                self.builder.warn(Severity.NOTE, f"{where}: there are several metrics {name}; one is called {again}")
                name = again
            found.append(name)
        return found

    def _metric(self, name: str, metric: MetricDescription, number: int, rows: list[int]) -> Metric:
        kept = [(word, getattr(metric, attribute), default) for word, (attribute, default) in KEPT.items()]
        attributes = [(word, repr(value)) for word, value, default in kept if value not in (None, default)]
        attributes += [("type", TYPES[metric.ty])] if metric.ty != 1 else []
        attributes += [("value type", str(metric.val_ty))] if metric.val_ty else []
        return Metric(
            name,
            Scope.NONE if metric.formula else Scope.POINT,
            unit=unit_of(name),
            dtype="real" if metric.is_real else "int",
            aggregation=Aggregation.NONE if metric.formula else Aggregation.SUM,
            description=readable(metric.description),
            visible=metric.show in SHOWN,
            show_percent=bool(metric.show_percent),
            number_format=readable(metric.format),
            formula=renumbered(readable(metric.formula), rows, "#"),
            source_id=number if self.keeps_ids else None,
            attributes=tuple(attributes),
        )


def renumbered(formula: str, rows: Sequence[int] | Mapping[int, int], sign: str) -> str:
    """A formula whose metrics have other numbers, and this sign before them: `#`, or `$` in 02.00."""

    def one(found: re.Match[str]) -> str:
        number = int(found[1])
        known = rows.get(number) if isinstance(rows, Mapping) else rows[number] if number < len(rows) else None
        return found[0] if known is None else f"{sign}{known}"

    return REFERENCE.sub(one, formula)


def is_int(metric: Metric) -> bool:
    """Does the row say that its values are integers?"""
    return metric.dtype.lower() in INTEGERS


def description_of(metric: Metric, val_fmt: int, formula: str) -> MetricDescription:
    """What a file says of a metric row; `period` is the one that it was read with."""
    kept = dict(metric.attributes)
    numbers = {field_: _number(kept.get(word), default) for word, (field_, default) in KEPT.items()}
    if "show" not in kept:
        numbers["show"] = SHOW if metric.visible else HIDDEN
    types = {word: number for number, word in TYPES.items()}
    value_type = int(_number(kept.get("value type"), 0))
    return MetricDescription(
        metric.name,
        metric.description,
        types.get(kept.get("type", ""), 3 if formula else 1),
        value_type if value_type in VALUE_TYPES else 0,
        val_fmt,
        int(numbers["move2proc"]),
        int(numbers["partner"]),
        int(numbers["show"]),
        int(metric.show_percent),
        int(numbers["period"]),
        formula,
        metric.number_format,
        int(numbers["is_frequency"]),
        int(numbers["is_multiplexed"]),
        float(numbers["threshold_mean"]),
        int(numbers["n_samples"]),
    )


def _number(text: str | None, default: float) -> float:
    if text is None:
        return default
    try:
        return int(text) if text.isdigit() else float(text)
    except ValueError:
        return default
