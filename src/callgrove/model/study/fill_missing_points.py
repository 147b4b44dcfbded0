"""Series that lack points, made part of the nearest call path above them that has them.

Extra-P can model only what was measured everywhere. What runs reached at some points only (a function that appears
with the second process) is therefore added to the nearest ancestor of the same metric: mean, median, minimum and
maximum add up, standard deviations as if independent; points that the ancestor lacks are taken over. Inclusive series
contain what is below them already and are left out instead. So is what has no ancestor, and what does not add up.

Specification: extrap.md section 8. Deepest call paths come first, so that what was folded may be folded further.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from callgrove.arrays import Bools, Floats, Ids, Ints, freeze
from callgrove.errors import InputError, count_of
from callgrove.model.books import is_equal
from callgrove.model.experiment import Experiment, InputWarning, Severity
from callgrove.model.metrics import Scope
from callgrove.model.study.from_runs import Progress, combination_for, fold
from callgrove.model.study.series import MEASURES, RawValues, Study

__all__ = ["fill_missing_points", "series_of"]

NAMED = 3  # series that a note names
ARROW = "->"


def series_of(
    experiment: Experiment,
    scaling: str = "",
    scope: str = "exclusive",
    progress: Progress | None = None,
    name: str = "",
    derived: Sequence[str] = (),
) -> Study:
    """Return the runs of an experiment as series that were measured at every point of their parameters. `name` is how
    messages call the input, `derived` names metrics to evaluate."""
    folded = fold(experiment, None, Scope(scope), combination_for(experiment, scaling), progress, derived)
    study = fill_missing_points(folded, fold=scope == "exclusive")
    if not len(study):
        where = name or experiment.path or experiment.title
        raise InputError(f"{where}: no series was measured at all of the {study.n_points} points")
    return study


def fill_missing_points(study: Study, fold: bool = True) -> Study:
    """Return the study without incomplete series, and notes on what became of them. `fold` is for exclusive values."""
    lacking = study.incomplete().tolist()
    if not lacking:
        return study
    work = _Work(study)
    for series in sorted(lacking, key=lambda s: -_depth(study, s)):
        work.fold(series) if fold else work.drop(series)
    return work.result()


def _depth(study: Study, series: int) -> int:
    path: str = study.callpaths[study.series_callpath[series]]
    return path.count(ARROW)


class _Work:
    """Copies of the columns that folding changes."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self.measures = {name: getattr(study, name).copy() for name in MEASURES}
        self.std, self.repetitions, self.present = study.std.copy(), study.repetitions.copy(), study.present.copy()
        self.kept: Bools = np.ones(len(study), np.bool_)
        self.changed: Bools = np.zeros(study.present.shape, np.bool_)
        self.folded: list[int] = []
        self.dropped: list[int] = []

    def fold(self, series: int) -> None:
        if self.present[series].all():  # what was folded into it completed it
            return
        does_not_add_up = self.study.metrics[self.study.series_metric[series]] in self.study.ratios
        ancestor = None if does_not_add_up else self._ancestor(series)
        if ancestor is None:
            self.drop(series)
            return
        both = self.present[series] & self.present[ancestor]
        only = self.present[series] & ~self.present[ancestor]
        for column in self.measures.values():
            column[ancestor, both] += column[series, both]
            column[ancestor, only] = column[series, only]
        self.std[ancestor, both] = np.hypot(self.std[ancestor, both], self.std[series, both])
        self.std[ancestor, only] = self.std[series, only]
        self.repetitions[ancestor, only] = self.repetitions[series, only]
        self.present[ancestor] |= self.present[series]
        self.changed[ancestor] |= self.present[series]
        self.kept[series] = False
        self.folded.append(series)

    def drop(self, series: int) -> None:
        self.kept[series] = False
        self.dropped.append(series)

    def _ancestor(self, series: int) -> int | None:
        path = self.study.callpaths[self.study.series_callpath[series]]
        metric = self.study.metrics[self.study.series_metric[series]]
        while ARROW in path:
            path = path.rpartition(ARROW)[0]
            above = self.study.find(path, metric)
            if above is not None and self.kept[above]:
                return above
        return None

    def result(self) -> Study:
        kept = np.flatnonzero(self.kept)
        mean, median, minimum, maximum = (freeze(self.measures[name][kept]) for name in MEASURES)
        callpaths, callpath_of = _keep_used(self.study.callpaths, self.study.series_callpath[kept])
        metrics, metric_of = _keep_used(self.study.metrics, self.study.series_metric[kept])
        return replace(
            self.study,
            callpaths=callpaths,
            metrics=metrics,
            series_callpath=callpath_of,
            series_metric=metric_of,
            mean=mean,
            median=median,
            minimum=minimum,
            maximum=maximum,
            std=freeze(self.std[kept]),
            repetitions=freeze(self.repetitions[kept]),
            present=freeze(self.present[kept]),
            raw=self._raw(kept),
            warnings=(*self.study.warnings, *self._notes()),
            unexplained=(*self.study.unexplained, *self._differences(mean, metric_of, metrics)),
        )

    def _differences(self, mean: Floats, metric_of: Ids, metrics: tuple[str, ...]) -> Iterator[str]:
        """Yield metrics whose means do not add up to what they were, without the series that were left out."""
        before, left_out = self._sums(self.study.mean), self._sums(self.measures["mean"], self.dropped)
        after = dict(zip(metrics, np.bincount(metric_of, np.nansum(mean, axis=1), len(metrics)).tolist(), strict=True))
        magnitude = self._sums(np.abs(self.study.mean))
        for row, name in enumerate(self.study.metrics):
            given, made = float(before[row] - left_out[row]), float(after.get(name, 0.0))
            if not is_equal(given, made, float(magnitude[row])):
                yield f"{name}: means of {given:g} were given, {made:g} are left when series that lack points are added"

    def _sums(self, mean: Floats, series: Sequence[int] | None = None) -> Floats:
        """Return the sum of means by metric, of all series or of some."""
        chosen = np.arange(len(self.study)) if series is None else np.array(series, np.int64)
        metric = self.study.series_metric[chosen]
        sums: Floats = np.zeros(len(self.study.metrics))
        np.add.at(sums, metric, np.nansum(mean[chosen], axis=1))
        return sums

    def _raw(self, kept: Ints) -> RawValues | None:
        """Return the raw values of the cells that are as they were measured."""
        raw, n_points = self.study.raw, self.study.n_points
        if raw is None:
            return None
        cells = (kept[:, None] * n_points + np.arange(n_points)).ravel()
        same = ~self.changed[kept].ravel()
        counts = np.where(same, np.diff(raw.cell_bounds)[cells], 0)
        repetitions = _ranges(raw.cell_bounds[cells], counts)
        sizes = np.diff(raw.repetition_bounds)[repetitions]
        values = raw.values[_ranges(raw.repetition_bounds[repetitions], sizes)]
        bounds = np.append(0, np.cumsum(sizes)), np.append(0, np.cumsum(counts))
        if not len(values):
            return None
        return RawValues(freeze(values), freeze(bounds[0]), freeze(bounds[1]), raw.makes_statistics)

    def _notes(self) -> list[InputWarning]:
        notes = []
        for series, what in ((self.folded, "added to the call path above them"), (self.dropped, "left out")):
            if series:
                named = [self._name(s) for s in series[:NAMED]]
                more = ", ..." if len(series) > NAMED else ""
                many = count_of(len(series), "series lacks points and was", "series lack points and were")
                text = f"{many} {what}: {', '.join(named)}{more}"
                notes.append(InputWarning(Severity.NOTE, text))
        return notes

    def _name(self, series: int) -> str:
        study = self.study
        return f"{study.callpaths[study.series_callpath[series]]} ({study.metrics[study.series_metric[series]]})"


def _keep_used(names: tuple[str, ...], ids: Ids) -> tuple[tuple[str, ...], Ids]:
    """Return the names that are still used, in their order, and ids into these."""
    used = np.unique(ids)
    return tuple(names[k] for k in used.tolist()), freeze(np.searchsorted(used, ids).astype(np.int32))


def _ranges(first: Ints, counts: Ints) -> Ints:
    """Return first[0], first[0] + 1, ... (counts[0] numbers), first[1], ..."""
    ends = np.cumsum(counts)
    return np.repeat(first - (ends - counts), counts) + np.arange(int(ends[-1]) if len(ends) else 0)
