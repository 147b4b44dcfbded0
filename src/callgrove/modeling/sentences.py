"""A study in a few sentences: what will not scale, what will cost most, what overtakes what, and how far to trust that.

Models are asked at a point worth predicting (four times the processes that were measured, all else as large as it was
measured) and compared with what they say at the fewest processes measured, so that only the number of processes
differs. Without a parameter that counts processes, the first one is taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from callgrove.analysis.explain.findings import Amount, Explanation, Finding, Sentence, label, percent, times
from callgrove.arrays import Floats, Ints
from callgrove.errors import UsageError
from callgrove.model.metrics import time_unit
from callgrove.model.study.series import Study
from callgrove.model.table import Table
from callgrove.modeling.fitting import Models
from callgrove.modeling.judgement import far_target
from callgrove.modeling.options import ModelOptions
from callgrove.modeling.prediction import Target, choose_series, models_of
from callgrove.modeling.ranking import find_crossings, rank
from callgrove.modeling.scaling import process_parameter

__all__ = ["explain_study"]

MOST_GROWING = 3  # call paths that are said not to scale
MOST_CROSSING = 2
N_COMPARED = 6  # of the largest costs, which are looked at for crossings
GROWS = 1.1  # times as much, before it is called growing
FEWEST_POINTS = 2
LEAST = 0.011  # weight of what is said always
MEASURED = 0.012  # weight of what was measured, where no model says more


@dataclass(frozen=True)
class _Outlook:
    """The models of one metric at a far point and at the fewest processes, ranked by what they lose in between."""

    models: Models
    metric: str
    target: Target
    parameter: str
    table: Table
    asked: str | None

    @property
    def study(self) -> Study:
        return self.models.study

    @property
    def trusted(self) -> list[dict[str, object]]:
        return [row for row in self.table if row["apart"] is None]

    def total(self, column: str) -> float:
        """Return the sum over what is to be trusted, of predictions or of what they are at the fewest processes."""
        return sum(max(0.0, float(str(row[column]))) for row in self.trusted)

    def amount(self, value: float) -> Amount:
        return Amount(value, self.study.units.get(self.metric, ""))

    def point(self, separator: str = ", ", sign: str = " = ") -> str:
        """Return the far point in words: `p = 256, n = 500`."""
        values = zip(self.study.parameters, self.target.at.tolist(), strict=True)
        return separator.join(f"{name}{sign}{value:g}" for name, value in values)

    @property
    def is_scaling(self) -> bool:
        """Whether the parameter counts processes; what grows with another one may well do so."""
        return process_parameter(self.study) is not None

    @property
    def smallest(self) -> str:
        value = self.target.base[self.study.parameters.index(self.parameter)]
        return f"{self.parameter} = {value:g}"

    def command(self, verb: str, *words: str) -> tuple[str, ...]:
        metric = ("-m", self.metric) if self.asked is not None or len(self.study.metrics) > 1 else ()
        return (verb, self.study.path or "PATH", *(metric if self.metric else ()), *words)


def explain_study(study: Study, metric: str | None = None, models: Models | None = None) -> Explanation:
    """Return what there is to know of a study: findings with their numbers, the weightiest first, each with the
    command that shows more. A weight is a share of what models say at the far point. `models` are those of all series,
    where they were made before.

        print(study.explain())
    """
    outlook = _look_ahead(study, metric, models)
    findings = [*_find_growing(outlook), *_find_largest(outlook), *_find_crossings(outlook), *_judge_trust(outlook)]
    others = [name for name in study.metrics if name != outlook.metric]
    notes = [f"of {len(study.metrics):,} metrics, this is {outlook.metric}"] if others else []
    beside = [*_find_measured(outlook), *_say_next(outlook)]
    if not outlook.trusted:  # what was measured is all there is
        findings += beside
    background = [*(beside if outlook.trusted else ()), *_count_points(outlook)]
    return Explanation.of(_say_total(outlook), findings, notes, background)


def _look_ahead(study: Study, metric: str | None, known: Models | None) -> _Outlook:
    if not study.parameters or study.n_points < FEWEST_POINTS or not len(study):
        where = study.path or study.title
        raise UsageError(f"{where}: was measured at {study.n_points} points, which say nothing about growth")
    name = _choose_metric(study, metric)
    if known is None:
        models = models_of(study, ModelOptions(), name)
    else:
        models = known.take(np.flatnonzero(np.isin(known.series, choose_series(known.study, name, None))))
    if not len(models):
        raise UsageError(f"{study.path or study.title}: has no series to explain")
    number = process_parameter(study) or 0
    at = far_target(study)
    base = at.copy()
    base[number] = study.points[:, number].min()
    target = Target(at, base)
    return _Outlook(models, models.metric(0), target, study.parameters[number], rank(models, target, "loss"), metric)


def _choose_metric(study: Study, metric: str | None) -> str | None:
    """Return the metric to explain: the one named, else the first time, else the first that adds up."""
    if metric is not None:
        return metric
    adding = [name for name in study.metrics if name not in study.ratios]
    if not adding:
        raise UsageError(f"{study.path or study.title}: no metric adds up, so nothing has a share that could be said")
    timed = [name for name in adding if time_unit(study.units.get(name, "")) or "time" in name.lower()]
    return (timed or adding)[0]


def _say_total(outlook: _Outlook) -> Finding:
    at, base = outlook.amount(outlook.total("prediction")), outlook.total("base")
    name = outlook.metric or "the metric"
    command = outlook.command("predict", "--at", outlook.point(",", "="))
    if not outlook.trusted:
        n = len(outlook.table)
        nothing = f"No model of {name} can be trusted at {outlook.point()}, so nothing is said about its total."
        return Finding("total", name, 1.0, (nothing,), Amount(float(n), ""), command)
    said: Sentence = (f"By its models, {name} will be ", at, f" in all at {outlook.point()}")
    if base > 0:
        said = (*said, ": ", times(at.value / base), f" what it is at {outlook.smallest}")
    return Finding("total", name, 1.0, (*said, "."), at, command)


def _find_growing(outlook: _Outlook) -> Iterator[Finding]:
    """Yield the call paths that lose most, each with how it grows and what it will have."""
    total = max(outlook.total("prediction"), 1e-300)
    for row in _list_growing(outlook):
        prediction, base = _number(row["prediction"]), _number(row["base"])
        share = prediction / total
        name = label(str(row["callpath"]))
        said: Sentence = (
            f"{name} will not scale: it" if outlook.is_scaling else name,
            f" grows with {row['order']}, from ",
        )
        said = (*said, outlook.amount(base), f" at {outlook.smallest} to ", outlook.amount(prediction))
        said = (*said, *((" (", times(prediction / base), ")") if base > 0 else ()), ", ")
        said = (*said, percent(share), " of all there.")
        command = outlook.command("model", "--rank-by", "growth", "--at", outlook.point(",", "="))
        weight = _number(row["loss"]) / total
        yield Finding("scaling", str(row["callpath"]), weight, said, outlook.amount(prediction), command)


def _list_growing(outlook: _Outlook) -> list[dict[str, object]]:
    rows = [row for row in outlook.trusted if _number(row["loss"]) > 0 and _grows(row)]
    return rows[:MOST_GROWING]


def _find_largest(outlook: _Outlook) -> Iterator[Finding]:
    """Yield what will cost most, where nothing was said of it: it is worth half of its share, as others limit
    scaling."""
    total = outlook.total("prediction")
    largest = max(outlook.trusted, key=lambda row: _number(row["prediction"]), default=None)
    if largest is None or not total > 0 or largest in _list_growing(outlook):
        return
    share = _number(largest["prediction"]) / total
    name, falls = str(largest["callpath"]), _number(largest["growth"]) < 1 / GROWS
    how = f"falls as {outlook.parameter} grows" if falls else f"does not grow with {outlook.parameter}"
    said: Sentence = (f"{label(name)} will cost most, ", percent(share), f" of all, and {how}.")
    command = outlook.command("predict", "--at", outlook.point(",", "="))
    yield Finding("function", name, share / 2, said, outlook.amount(_number(largest["prediction"])), command)


def _find_crossings(outlook: _Outlook) -> Iterator[Finding]:
    """Yield where one of the largest costs overtakes another, between what was measured and the far point."""
    number = {outlook.models.callpath(n): n for n in range(len(outlook.models))}
    ordered = sorted(outlook.trusted, key=lambda row: -_number(row["prediction"]))[:N_COMPARED]
    shares = {str(row["callpath"]): _number(row["prediction"]) for row in ordered}
    total = max(outlook.total("prediction"), 1e-300)
    crossings = find_crossings(outlook.models, outlook.target, [number[name] for name in shares])
    risers = [one for one in crossings if one.riser in shares and one.other in shares]
    for one in sorted(risers, key=lambda one: -shares[one.riser])[:MOST_CROSSING]:
        said: Sentence = (f"At {one.parameter} = {one.value:.4g}, {label(one.riser)} overtakes {label(one.other)}.",)
        command = outlook.command("model", "--rank-by", "share", "--at", outlook.point(",", "="))
        weight = shares[one.riser] / total / 4
        yield Finding("crossing", one.riser, weight, said, Amount(one.value, ""), command)


def _judge_trust(outlook: _Outlook) -> Iterator[Finding]:
    """Yield how many models are not to be trusted there, and what of the run they have; or that all can be."""
    apart = [row for row in outlook.table if row["apart"] is not None]
    n = len(outlook.table)
    command = outlook.command("model", "--at", outlook.point(",", "="))
    if not apart:
        told = f"All {n:,} models can be trusted there." if n > 1 else "The model can be trusted there."
        yield Finding("trust", outlook.metric, LEAST, (told,), Amount(float(n), ""), command)
        return
    shares = np.nan_to_num(np.array([_number(row["run_share"]) for row in apart])) / 100
    first = apart[int(np.argmax(shares))]
    told, they = f"{len(apart):,} of {n:,} models say nothing there, such as that of ", "they have"
    if len(apart) == 1:
        they = "it has"
        told = (
            "The only model says nothing there, that of "
            if n == 1
            else f"One of {n:,} models says nothing there, that of "
        )
    said: Sentence = (f"{told}{label(str(first['callpath']))}: {first['reason']}; {they} ",)
    said = (*said, percent(float(shares.sum())), " of the largest run measured.")
    weight = max(LEAST, float(shares.sum()))
    yield Finding("trust", str(first["callpath"]), weight, said, Amount(float(len(apart)), ""), command)


# -- background: said where models say little --------------------------------------------------------------------------


def _find_measured(outlook: _Outlook) -> Iterator[Finding]:
    """Yield how the total grew where it was measured, all other parameters being as large as they are there."""
    study, number = outlook.study, outlook.study.parameters.index(outlook.parameter)
    of_metric = study.series_metric == study.metrics.index(outlook.metric)
    values = np.where(study.present, study.mean, np.nan)[of_metric]
    complete = np.flatnonzero(np.isfinite(values).all(axis=0))
    if not len(complete):
        return
    points = study.points[complete]
    others = np.delete(points, number, axis=1)
    alike = complete[(others == others.max(axis=0)).all(axis=1)]
    if len(alike) < FEWEST_POINTS:
        return
    first, last = (int(choose(alike, study.points[alike, number])) for choose in (_smallest, _largest))
    before, after = (float(values[:, point].sum()) for point in (first, last))
    where = [f"{outlook.parameter} = {study.points[point, number]:g}" for point in (first, last)]
    said: Sentence = (f"As measured, {outlook.metric or 'the metric'} went from ", outlook.amount(before))
    said = (*said, f" at {where[0]} to ", outlook.amount(after), f" at {where[1]}")
    ratio: Sentence = (" (", times(after / before), ")") if before > 0 and after != before else ()
    rest = ", ".join(
        f"{name} = {value:g}"
        for name, value in zip(study.parameters, study.points[last].tolist(), strict=True)
        if name != outlook.parameter
    )
    said = (*said, *ratio, f", with {rest}." if rest else ".")
    command = ("export", study.path or "PATH", "--table", "series")
    yield Finding("measured", outlook.metric, MEASURED, said, outlook.amount(after), command)


def _smallest(points: Ints, values: Floats) -> int:
    return int(points[np.argmin(values)])


def _largest(points: Ints, values: Floats) -> int:
    return int(points[np.argmax(values)])


def _say_next(outlook: _Outlook) -> Iterator[Finding]:
    """Yield the run between what was measured and the far point that would tell more."""
    number = outlook.study.parameters.index(outlook.parameter)
    largest = float(outlook.study.points[:, number].max())
    far = float(outlook.target.at[number])
    if not largest < far < float("inf"):
        return
    between = 2 * largest
    said = f"Nothing was measured beyond {outlook.parameter} = {largest:g}: a run at {between:g} would be the first to "
    said += f"show whether models hold towards {far:g}."
    at = outlook.target.at.copy()
    at[number] = between
    words = ",".join(f"{name}={value:.12g}" for name, value in zip(outlook.study.parameters, at.tolist(), strict=True))
    yield Finding(
        "next", outlook.parameter, LEAST, (said,), Amount(between, ""), outlook.command("model", "--at", words)
    )


def _count_points(outlook: _Outlook) -> Iterator[Finding]:
    """Yield how much was measured."""
    study = outlook.study
    counts = [len(np.unique(study.points[:, k])) for k in range(len(study.parameters))]
    values = " and ".join(f"{n} of {name}" for n, name in zip(counts, study.parameters, strict=True))
    said = f"{study.n_points:,} points were measured, with different values: {values}."
    yield Finding(
        "measured", "points", LEAST, (said,), Amount(float(study.n_points), ""), ("info", study.path or "PATH")
    )


def _grows(row: dict[str, object]) -> bool:
    """Tell whether a prediction is more than it is at the fewest processes; from nothing, anything is."""
    return _number(row["prediction"]) > GROWS * _number(row["base"])


def _number(cell: object) -> float:
    return float(cell) if isinstance(cell, int | float) else float("nan")
