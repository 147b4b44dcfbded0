"""Series of several studies: what differs at the points that they have in common.

A row is a call path and a metric at one point; values are means over repetitions. Points are the same where all
parameters are, whatever their order. What a study measured at points of its own is not compared, and said to be so.

    study A   p = 1 2 4        study B   p = 2 4 8        rows at p = 2, 4; p=1 only in A, p=8 only in B

How a study came to its values is for whoever made it: the sum over the processes of a run, or the mean. Two studies
that say different things of this are compared all the same, with a note.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import numpy as np

from callgrove.analysis.comparison.experiments import PRESENT, SHOWN, left_less_right, order_rows
from callgrove.analysis.comparison.sentences import short_names
from callgrove.analysis.comparison.sides import ONLY, SORTS
from callgrove.arrays import Array, Bools, Floats, Ints
from callgrove.errors import Parameter, UsageError
from callgrove.model.metrics import time_unit
from callgrove.model.study.series import Study
from callgrove.model.table import Column, Table

__all__ = ["StudyComparison", "StudyQuestion", "compare_studies"]

NAMED = 5  # points or metrics in a note
NOT_OF_STUDIES = ("loss",)
TAKEN = ("path", "metric", "left", "right", "difference", "ratio", "present", "input")  # names of columns
Point = tuple[float, ...]


@dataclass(frozen=True)
class StudyQuestion:
    """What is compared: one metric, as `LEFT=RIGHT` where the others call it differently, or all that the studies have
    in common. `sort` and `only` are those of experiments."""

    metric: str | None = None
    sort: str = "difference"
    only: str = ""

    def check(self) -> None:
        """Refuse words that mean nothing."""
        sorts = tuple(word for word in SORTS if word not in NOT_OF_STUDIES)
        for word, given, known in (("sort", self.sort, sorts), ("only", self.only, ("", *ONLY))):
            if given not in known:
                raise UsageError(f"there is no {word} {given!r} of studies; there are {', '.join(filter(None, known))}")


@dataclass(frozen=True, repr=False)
class StudyComparison:
    """Values of several studies, of which the first is compared with each of the others. Columns of `left` and `right`
    are rows of the table: one for each call path, metric, point and other study; NaN is not a value."""

    asked: StudyQuestion
    parameters: tuple[str, ...]
    names: tuple[str, ...]
    metrics: tuple[str, ...]
    path: list[str]
    metric: Ints
    point: Floats  # a row of coordinates each
    other: Ints
    left: Floats
    right: Floats
    notes: tuple[str, ...] = ()

    @property
    def present(self) -> tuple[Bools, Bools]:
        """Which rows have a left value, and which a right one."""
        return ~np.isnan(self.left), ~np.isnan(self.right)

    def table(self, limit: int | None = None) -> Table:
        """Return where the first study and another one differ, metric by metric, sorted as asked."""
        rows = self._order()
        shown = rows if limit is None else rows[:limit]
        difference, ratio = left_less_right(self.left, self.right)
        has = self.present
        columns = [
            Column("path", [self.path[k] for k in shown.tolist()]),
            Column("metric", [self.metrics[k] for k in self.metric[shown].tolist()]),
            *(Column(name, self.point[shown, k]) for k, name in enumerate(self._parameter_columns())),
            Column("left", self.left[shown], np.nan),
            Column("right", self.right[shown], np.nan),
            Column("difference", difference[shown], np.nan),
            Column("ratio", ratio[shown], np.nan),
            Column("present", PRESENT[has[0] + 2 * has[1].astype(int)][shown].tolist()),
        ]
        if len(self.names) > 2:
            columns.append(Column("input", [self.names[k] for k in self.other[shown].tolist()]))
        return Table(tuple(columns), left=len(rows) - len(shown), notes=(*self.sentences, *self.notes))

    def __repr__(self) -> str:
        """Return one line, whatever was compared."""
        return f"<StudyComparison of {len(self.names)} studies, {len(self.path)} values of {', '.join(self.metrics)}>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the first rows."""
        return self.table(SHOWN)._repr_html_()

    def _parameter_columns(self) -> Iterator[str]:
        """Yield what parameters are called as columns; one that is called like another column is `param.NAME`."""
        for name in self.parameters:
            yield f"param.{name}" if name in TAKEN else name

    @property
    def sentence(self) -> str:
        """What the comparison comes to, in words."""
        return "; ".join(self.sentences)

    @property
    def sentences(self) -> tuple[str, ...]:
        """How many values of each metric are larger and smaller in each of the other studies."""
        return tuple(
            self._say(metric, other) for other in range(1, len(self.names)) for metric in range(len(self.metrics))
        )

    def _say(self, metric: int, other: int) -> str:
        has = self.present
        rows = np.flatnonzero((self.metric == metric) & (self.other == other) & has[0] & has[1])
        difference, ratio = left_less_right(self.left[rows], self.right[rows])
        counts = [int((difference < 0).sum()), int((difference > 0).sum())]
        middle = ratio[np.isfinite(ratio) & (ratio > 0)]
        told = f"; the median of right by left is {float(np.median(1 / middle)):.3g}" if len(middle) else ""
        what = f"{self.metrics[metric]}: {len(rows)} values, {counts[0]} larger in {short_names(self.names)[other]}"
        return f"{what}, {counts[1]} smaller, {len(rows) - sum(counts)} equal{told}"

    def _order(self) -> Ints:
        """Return the rows to show, metric by metric: numbers of different units do not compare."""
        has = self.present
        only = {"both": has[0] & has[1], "left": has[0] & ~has[1], "right": has[1] & ~has[0]}
        rows = np.flatnonzero(only.get(self.asked.only, has[0] | has[1]))
        if self.asked.sort == "path":
            rank = {path: number for number, path in enumerate(sorted(set(self.path)))}
            place = np.array([rank[path] for path in self.path], np.int64)
            rows = rows[np.lexsort((rows, *self.point[rows].T[::-1], place[rows]))]
        else:
            difference, ratio = left_less_right(self.left, self.right)
            sizes = [np.nan_to_num(np.abs(side)) for side in (self.left, self.right)]
            rows = order_rows(rows, self.asked.sort, difference, ratio, sizes, has[0] & has[1])
        return rows[np.argsort(self.metric[rows], kind="stable")]


def compare_studies(studies: Sequence[Study], question: StudyQuestion | None = None) -> StudyComparison:
    """Compare the first study with each of the others, at the points that both have."""
    asked = question or StudyQuestion()
    asked.check()
    if len(studies) < 2:
        raise UsageError("comparing needs two studies")
    names = tuple(study.path or study.title for study in studies)
    first = studies[0]
    pairs, notes = _choose_metrics(studies, names, asked.metric)
    path: list[str] = []
    parts: dict[str, list[Array]] = {word: [] for word in ("metric", "point", "other", "left", "right")}
    for number, other in enumerate(studies[1:], 1):
        common, coordinates = _common_points(first, other, names[0], names[number])
        notes += _say_points(first, other, common, names[0], names[number])
        for metric, (left_name, right_names) in enumerate(pairs.items()):
            factor = _factor(first, other, left_name, right_names[number - 1])
            rows = _rows(first, other, left_name, right_names[number - 1], common)
            path += [callpath for callpath in rows for _ in common]
            values = [np.concatenate([pair[k] for pair in rows.values()]) for k in (0, 1)]
            n = len(values[0])
            parts["left"].append(values[0])
            parts["right"].append(values[1] * factor)
            parts["metric"].append(np.full(n, metric))
            parts["other"].append(np.full(n, number))
            parts["point"].append(np.tile(coordinates, (len(rows), 1)))
    columns = {word: np.concatenate(chunks) for word, chunks in parts.items()}
    made = StudyComparison(asked, first.parameters, names, tuple(pairs), path, **columns, notes=tuple(notes))
    _require_common(made, studies)
    return made


def _rows(
    first: Study, other: Study, left_name: str, right_name: str, common: Sequence[tuple[int, int]]
) -> dict[str, tuple[Floats, Floats]]:
    """Return the values of both studies at the common points, for every call path that one of them has."""
    here = [np.array([pair[k] for pair in common]) for k in (0, 1)]
    out: dict[str, tuple[Floats, Floats]] = {}
    for callpath in dict.fromkeys([*first.callpaths, *other.callpaths]):
        sides = []
        for study, name, points in ((first, left_name, here[0]), (other, right_name, here[1])):
            number = study.find(callpath, name)
            values = np.full(len(points), np.nan)
            if number is not None:
                values = np.where(study.present[number, points], study.mean[number, points], np.nan)
            sides.append(values)
        out[callpath] = sides[0], sides[1]
    return out


# -- what studies have in common ---------------------------------------------------------------------------------------


def _common_points(first: Study, other: Study, name: str, other_name: str) -> tuple[list[tuple[int, int]], Floats]:
    """Return the numbers of common points in both studies, and their coordinates."""
    if set(first.parameters) != set(other.parameters):
        said = [", ".join(study.parameters) or "none" for study in (first, other)]
        raise UsageError(
            f"{name} has the parameters {said[0]}, {other_name} has {said[1]}: these have no points in common"
        )
    known = {point: number for number, point in enumerate(_points(other, first.parameters))}
    pairs = [(number, known[point]) for number, point in enumerate(_points(first, first.parameters)) if point in known]
    if not pairs:
        one, two = (_say_point(first.parameters, _points(study, first.parameters)[0]) for study in (first, other))
        raise UsageError(
            f"{name} and {other_name} have no point in common: the first one of the left is {one}, of the right {two}"
        )
    return pairs, first.points[[left for left, _ in pairs]]


def _points(study: Study, parameters: Sequence[str]) -> list[Point]:
    """Return the points of a study as coordinates in the order of these parameters."""
    order = [study.parameters.index(name) for name in parameters]
    return [tuple(row) for row in study.points[:, order].tolist()]


def _say_point(parameters: Sequence[str], point: Point) -> str:
    return ",".join(f"{name}={value:g}" for name, value in zip(parameters, point, strict=True))


def _say_points(
    first: Study, other: Study, common: Sequence[tuple[int, int]], name: str, other_name: str
) -> Iterator[str]:
    """Say which points only one of two studies has."""
    for study, side, place in ((first, 0, name), (other, 1, other_name)):
        compared = {pair[side] for pair in common}
        alone = [p for number, p in enumerate(_points(study, first.parameters)) if number not in compared]
        if alone:
            some = "; ".join(_say_point(first.parameters, point) for point in alone[:NAMED])
            more = f" and {len(alone) - NAMED} more" if len(alone) > NAMED else ""
            yield f"{len(common)} points are compared; only in {place}: {some}{more}"
    if first.scaling != other.scaling and first.scaling and other.scaling:
        yield f"{name} was made for {first.scaling} scaling, {other_name} for {other.scaling}: values are as they are"


def _choose_metrics(
    studies: Sequence[Study], names: Sequence[str], asked: str | None
) -> tuple[dict[str, list[str]], list[str]]:
    """Return the metrics to compare, with what the other studies call each, and which metrics are left out."""
    first, *others = studies
    if asked is not None:
        left, equals, right = asked.partition("=")
        if not equals or asked in first.metrics:
            left = right = asked
        found = _find_metric(first, left.strip(), names[0])
        theirs = (right if equals and right != left else found).strip()
        return {found: [_find_metric(study, theirs, name) for study, name in zip(others, names[1:], strict=True)]}, []
    shared = [name for name in first.metrics if all(name in study.metrics for study in others)]
    if not shared:
        there = [", ".join(study.metrics[:NAMED]) for study in (first, others[0])]
        raise UsageError(
            f"the studies share no metric: {names[0]} has {there[0]}, others have {there[1]}; ",
            Parameter("metric", "LEFT=RIGHT"),
            " names one of each",
        )
    notes = list[str]()
    for study, name in zip(studies, names, strict=True):
        if alone := [metric for metric in study.metrics if metric not in shared]:
            more = ", ..." if len(alone) > NAMED else ""
            notes.append(f"metrics of {name} that are not compared: {', '.join(alone[:NAMED])}{more}")
    times_first = sorted(shared, key=lambda metric: time_unit(first.units.get(metric, "")) is None and metric != "time")
    return {metric: [metric] * len(others) for metric in times_first}, notes


def _find_metric(study: Study, text: str, name: str) -> str:
    """Return the metric that a text names; a part of its name is enough."""
    if text in study.metrics:
        return text
    matches = [metric for metric in study.metrics if text.lower() in metric.lower()]
    if len(matches) == 1:
        return matches[0]
    near = get_close_matches(text, study.metrics, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(matches or study.metrics)}"
    raise UsageError(f"{name}: there is no metric {text!r}; {hint}")


def _factor(first: Study, other: Study, left_name: str, right_name: str) -> float:
    """Return what the right values are multiplied with, so that times in different units compare."""
    units = first.units.get(left_name, ""), other.units.get(right_name, "")
    times = time_unit(units[0]), time_unit(units[1])
    if units[0] == units[1] or not all(units):
        return 1.0
    if times[0] is None or times[1] is None:
        raise UsageError(f"metric {left_name}: is measured in {units[0]} and {units[1]}: these cannot be compared")
    return times[1] / times[0]


def _require_common(made: StudyComparison, studies: Sequence[Study]) -> None:
    """Refuse studies of which none has a call path in common with the first."""
    has = made.present
    if (has[0] & has[1]).any():
        return
    first = [study.callpaths[0] for study in studies[:2]]
    raise UsageError(
        f"{made.names[0]} and {made.names[1]} have no call path in common: the first one of the left is {first[0]}, of "
        f"the right {first[1]}"
    )
