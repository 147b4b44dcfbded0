"""Models of two studies side by side: functions, predictions at a point, their ratio, and where they cross."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from callgrove.arrays import Floats, Ints
from callgrove.errors import Parameter, UsageError
from callgrove.model.study.series import Study
from callgrove.model.table import Column, Table
from callgrove.modeling.fitting import Models
from callgrove.modeling.functions import Functions
from callgrove.modeling.judgement import Judgements, Trust, far_target, judge
from callgrove.modeling.model_tables import function_text
from callgrove.modeling.scaling import process_parameter

__all__ = ["ModelComparison", "choose_target", "compare_models"]

SAMPLES = 400
PRESENT = ("left", "right", "both")


@dataclass(frozen=True, eq=False)
class ModelComparison:
    """Two sets of models at a point; pairs are numbers of models, -1 where a side has none."""

    left: Models
    right: Models
    at: Floats  # in the order of the left study's parameters
    pairs: tuple[tuple[int, int], ...]

    def table(self, limit: int | None = None, style: str = "extrap") -> Table:
        """Return a row for each call path and metric, the largest difference first, metric by metric."""
        judged = judge(self.left, self.at), judge(self.right, self._theirs(self.at[None])[0])
        left, right = (self._take(side, judged[side].prediction) for side in (0, 1))
        difference, ratio = left - right, _divide(left, right)
        size = np.where(np.isnan(difference), -np.inf, np.abs(difference))
        order = np.lexsort([np.arange(len(size)), -size, self._metric_order()])
        shown = order if limit is None else order[:limit]
        functions = [[self._text(side, k, style) for k in shown.tolist()] for side in (0, 1)]
        crossings = [self._crossing(k) for k in shown.tolist()]
        columns = [
            Column("path", [self._name(k)[0] for k in shown.tolist()]),
            Column("metric", [self._name(k)[1] for k in shown.tolist()]),
            Column("left_function", functions[0]),
            Column("right_function", functions[1]),
            Column("left", left[shown], np.nan),
            Column("right", right[shown], np.nan),
            Column("difference", difference[shown], np.nan),
            Column("ratio", ratio[shown], np.nan),
            Column("crosses_at", [at for at, _ in crossings]),
            Column("larger_beyond", [side for _, side in crossings]),
            Column("left_trust", self._trust(judged[0], 0, shown)),
            Column("right_trust", self._trust(judged[1], 1, shown)),
            Column("left_reason", self._reasons(judged[0], 0, shown)),
            Column("right_reason", self._reasons(judged[1], 1, shown)),
            Column("present", [PRESENT[2 if min(self.pairs[k]) >= 0 else int(self.pairs[k][0] < 0)] for k in shown]),
        ]
        return Table(tuple(columns), left=len(order) - len(shown))

    def _theirs(self, points: Floats) -> Floats:
        """Return points in the order of the right study's parameters."""
        here = self.left.study.parameters
        return points[:, [here.index(name) for name in self.right.study.parameters]]

    def _take(self, side: int, values: Floats) -> Floats:
        numbers = np.array([pair[side] for pair in self.pairs])
        return np.where(numbers >= 0, values[numbers], np.nan) if len(values) else np.full(len(numbers), np.nan)

    def _models(self, side: int) -> Models:
        return self.right if side else self.left

    def _name(self, k: int) -> tuple[str, str]:
        side = int(self.pairs[k][0] < 0)
        models, number = self._models(side), self.pairs[k][side]
        return models.callpath(number), models.metric(number)

    def _metric_order(self) -> Ints:
        names = [self._name(k)[1] for k in range(len(self.pairs))]
        place = {name: number for number, name in enumerate(dict.fromkeys(names))}
        return np.array([place[name] for name in names], np.int64)

    def _text(self, side: int, k: int, style: str) -> str | None:
        number = self.pairs[k][side]
        return function_text(self._models(side).functions, number, style) if number >= 0 else None

    def _trust(self, judged: Judgements, side: int, rows: Ints) -> list[str | None]:
        numbers = [self.pairs[k][side] for k in rows.tolist()]
        return [Trust(judged.trust[number]).word if number >= 0 else None for number in numbers]

    def _reasons(self, judged: Judgements, side: int, rows: Ints) -> list[str | None]:
        numbers = [self.pairs[k][side] for k in rows.tolist()]
        return [judged.reason(number) if number >= 0 else None for number in numbers]

    def _crossing(self, k: int) -> tuple[float | None, str | None]:
        """Return where the functions cross last on the way to the point, and which side is larger from there on."""
        if min(self.pairs[k]) < 0:
            return None, None
        study = self.left.study
        parameter = process_parameter(study) or 0
        first = float(min(study.points[:, parameter].min(), self._theirs_points()[:, parameter].min()))
        if not 0 < first < self.at[parameter]:
            return None, None
        x = np.geomspace(first, float(self.at[parameter]), SAMPLES)
        points = np.tile(self.at, (SAMPLES, 1))
        points[:, parameter] = x
        left = _evaluate(self.left.functions, self.pairs[k][0], points)
        right = _evaluate(self.right.functions, self.pairs[k][1], self._theirs(points))
        return _last_crossing(x, left - right)

    def _theirs_points(self) -> Floats:
        """Return the right study's points in the order of the left one's parameters."""
        theirs = self.right.study.parameters
        return self.right.study.points[:, [theirs.index(name) for name in self.left.study.parameters]]


def _evaluate(functions: Functions, number: int, points: Floats) -> Floats:
    values: Floats = functions.take(np.array([number])).evaluate(points)[0]
    return values


def _divide(left: Floats, right: Floats) -> Floats:
    with np.errstate(all="ignore"):
        ratio: Floats = np.where(right != 0, left / right, np.nan)
    return ratio


def _last_crossing(x: Floats, difference: Floats) -> tuple[float | None, str | None]:
    with np.errstate(invalid="ignore"):
        changes = np.flatnonzero(difference[:-1] * difference[1:] < 0)
    if not len(changes):
        return None, None
    k = int(changes[-1])
    part = difference[k] / (difference[k] - difference[k + 1])
    return float(x[k] * (x[k + 1] / x[k]) ** part), "left" if difference[k + 1] > 0 else "right"


def compare_models(left: Models, right: Models, at: Floats, metric: Sequence[str] = ()) -> ModelComparison:
    """Return two sets of models side by side. Studies have the same parameters; `metric` names one of each side, and
    without it metrics and call paths with the same name belong together."""
    if set(left.study.parameters) != set(right.study.parameters):
        said = [", ".join(models.study.parameters) for models in (left, right)]
        raise UsageError(f"models over {said[0]} and over {said[1]} have nothing in common to compare")
    renamed = {metric[1]: metric[0]} if len(metric) == 2 else {}
    numbers = {key: n for n, key in enumerate(_keys(left, {}))}
    theirs = {key: n for n, key in enumerate(_keys(right, renamed))}
    pairs = [(numbers.get(key, -1), theirs.get(key, -1)) for key in dict.fromkeys([*numbers, *theirs])]
    if not any(min(pair) >= 0 for pair in pairs):
        first = [next(_keys(models, renamed), ("none", "")) for models in (left, right)]
        left_one, right_one = (f"{path} ({metric})" if metric else path for path, metric in first)
        nothing = (
            "no call path and metric is in both studies: the first one of the left is "
            f"{left_one}, of the right {right_one}; "
        )
        raise UsageError(nothing, Parameter('export("series")'), " lists them")
    return ModelComparison(left, right, at, tuple(pairs))


def _keys(models: Models, renamed: dict[str, str]) -> Iterator[tuple[str, str]]:
    for number in range(len(models)):
        metric = models.metric(number)
        yield models.callpath(number), renamed.get(metric, metric)


def choose_target(left: Study, right: Study) -> Floats:
    """Return a point worth predicting of two studies: four times the processes that one of them measured."""
    if set(left.parameters) != set(right.parameters):
        return far_target(left)
    order = [right.parameters.index(name) for name in left.parameters]
    return np.maximum(far_target(left), far_target(right)[order])
