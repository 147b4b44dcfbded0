"""From a study to models: what to know before trusting them, and fits of all series with the same points at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import IntFlag

import numpy as np

from callgrove.arrays import Array, Bools, Floats, Ids, Ints, group_alike
from callgrove.errors import Parameter, UsageError, compose_text
from callgrove.execute import IN_PROCESS, Progress, Workers, silent
from callgrove.model.study.from_runs import note_values
from callgrove.model.study.series import Study
from callgrove.model.table import Table, first_rows
from callgrove.modeling.functions import Factor, FunctionBuilder, Functions, Piece, join_functions, logs_are_possible
from callgrove.modeling.improved.series import (
    can_weigh,
    fit_improved,
    match_points,
    observe_series,
    pool_skew,
)
from callgrove.modeling.least_squares import Costs
from callgrove.modeling.multi import ParameterFits, combine
from callgrove.modeling.options import DETECTED, ModelOptions
from callgrove.modeling.refining import fit_refining
from callgrove.modeling.scaling import Line, lines_of
from callgrove.modeling.single import POINTS_FOR_SEGMENTS, SegmentedFits, SingleFits, Split, fit_segmented, fit_series

__all__ = ["FEWEST_POINTS", "NOISY", "POOR_FIT", "Caution", "Models", "model_study", "texts"]


# -- warnings about models ---------------------------------------------------------------------------------------------


FEWEST_POINTS = 5
NOISY = 0.2  # spread of the repetitions as part of their mean
POOR_FIT = 20.0  # SMAPE in percent


class Caution(IntFlag):
    """Reasons for care, as bits."""

    NOTHING = 1
    FEW_POINTS = 2
    FEW_ON_A_LINE = 4
    NO_LINES = 8
    NOT_FINITE = 16
    MISSING = 32
    NO_LOGARITHMS = 64
    NO_FIT = 128
    FEW_FOR_SEGMENTS = 256
    NOISE = 512
    POOR = 1024
    UNDISTURBED = 2048
    LACK_OF_FIT = 4096
    NOT_IMPROVED = 8192


_TEXTS = {
    Caution.NOTHING: "no finite value was measured, so there is no model",
    Caution.FEW_POINTS: f"fewer than {FEWEST_POINTS} points",
    Caution.FEW_ON_A_LINE: f"fewer than {FEWEST_POINTS} points along a parameter",
    Caution.NO_LINES: compose_text(
        "the parameters only vary together, so their influence cannot be told apart (try ", Parameter("along"), ")"
    ),
    Caution.NOT_FINITE: "values that are not finite were left out",
    Caution.MISSING: "not measured at every point",
    Caution.NO_LOGARITHMS: "coordinates below 1, so terms with logarithms were left out",
    Caution.NO_FIT: "the combined terms have no finite fit, so the model is a constant",
    Caution.FEW_FOR_SEGMENTS: "fewer than 9 points, too few to find a change of behaviour",
    Caution.NOISE: f"repetitions differ by more than {NOISY:.0%}",
    Caution.POOR: f"the model is off by more than {POOR_FIT:.0f}% (SMAPE)",
    Caution.UNDISTURBED: "noise only ever adds here, so the model is of the undisturbed value, below the mean",
    Caution.LACK_OF_FIT: "values scatter more around every function than repetitions around their mean",
    Caution.NOT_IMPROVED: (
        "the improved method needs values above 0 and one or two parameters with three points on a line, so this is "
        "Extra-P's model"
    ),
}


def texts(bits: int) -> list[str]:
    """Return all cautions of one model, in words."""
    return [text for caution, text in _TEXTS.items() if bits & caution]


def count_cautions(cautions: Array) -> Iterator[tuple[Caution, str, Array]]:
    """Yield each caution that applies to any model, in words, with the numbers of those models."""
    for caution, text in _TEXTS.items():
        models = np.flatnonzero(cautions & caution)
        if len(models):
            yield caution, text, models


# -- models of a study -------------------------------------------------------------------------------------------------


SERIES_AT_ONCE = 8_192  # progress is told after each; larger blocks are not faster


@dataclass(frozen=True, eq=False)
class Models:
    """One model for each series of a study: model m is that of series `series[m]`."""

    study: Study
    options: ModelOptions
    series: Ints
    functions: Functions
    costs: Costs
    n_points: Ints
    noise: Floats  # mean over the points of (maximum - minimum) / mean; NaN: unknown
    cautions: Ints  # bits of Caution
    probability: Floats | None = None  # with the improved method: the part of the evidence that speaks for the term

    def __len__(self) -> int:
        return len(self.series)

    def callpath(self, number: int) -> str:
        """Return the call path of a model."""
        return self.study.callpaths[int(self.study.series_callpath[self.series[number]])]

    def metric(self, number: int) -> str:
        """Return the metric of a model."""
        return self.study.metrics[int(self.study.series_metric[self.series[number]])]

    def take(self, rows: Array) -> Models:
        """Return some of the models."""
        probability = None if self.probability is None else self.probability[rows]
        kept = (self.n_points[rows], self.noise[rows], self.cautions[rows], probability)
        return Models(
            self.study, self.options, self.series[rows], self.functions.take(rows), self.costs.take(rows), *kept
        )

    def table(self, limit: int | None = None) -> Table:
        """Return the models as a table: call path, metric, function, terms, measures of error, order, warnings."""
        from callgrove.modeling.model_tables import model_tables

        tables = model_tables(self)
        table = Table.concatenate(tables if limit is None else first_rows(tables, limit, len(self)))
        return replace(table, notes=note_values(self.study))

    def predict(self, points: Floats) -> Floats:
        """Return (models x points): what the functions say."""
        return self.functions.evaluate(np.asarray(points, np.float64).reshape(-1, len(self.study.parameters)))

    def __repr__(self) -> str:
        """Return one line, whatever its size."""
        return f"<Models: {len(self.series)} over {', '.join(self.study.parameters)}>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the first models."""
        from callgrove.modeling.model_tables import models_html

        return models_html(self)


def model_study(
    study: Study,
    options: ModelOptions | None = None,
    series: Array | None = None,
    progress: Progress = silent,
    workers: Workers = IN_PROCESS,
) -> Models:
    """Return models of all series of a study, or of those with the given numbers. `Study.model` chooses by name.
    `workers` fit a block of series each; how many there are makes no difference to the models."""
    options = options or ModelOptions()
    chosen = np.arange(len(study)) if series is None else np.asarray(series, np.int64)
    if len(chosen) and not (0 <= chosen.min() and chosen.max() < len(study)):
        raise UsageError(f"there are series 0 to {len(study) - 1}, not {chosen.min()} to {chosen.max()}")
    skew = pool_skew(study) if options.measure == DETECTED else None
    bounds = range(0, max(len(chosen), 1), SERIES_AT_ONCE)  # always the same blocks: sums of others differ in a bit
    blocks = [_Block(study, options, chosen[first : first + SERIES_AT_ONCE], skew) for first in bounds]
    if len(blocks) > 1 and workers.are_elsewhere:
        blocks = [block.cut_out() for block in blocks]

    def report(label: str, done: int, total: int) -> None:
        progress(label, min(done * SERIES_AT_ONCE, len(chosen)), len(chosen))

    fitted = list(workers.map(_fit_block, blocks, label="fitting models", progress=report))
    return Models(
        study,
        options,
        chosen,
        join_functions([one.functions for one in fitted]),
        Costs.join([one.costs for one in fitted]),
        np.concatenate([one.n_points for one in fitted]),
        np.concatenate([one.noise for one in fitted]),
        np.concatenate([one.cautions for one in fitted]),
        np.concatenate([one.probability for one in fitted]) if options.is_improved else None,
    )


@dataclass(frozen=True, eq=False)
class _Block:
    """Series of a study that are fitted at once; `skew` is that of the noise of all series, by metric."""

    study: Study
    options: ModelOptions
    series: Ints
    skew: Floats | None

    def cut_out(self) -> _Block:
        """Return the same without what only other series need, to be sent to a worker."""
        nameless = replace(self.study, callpaths=(), callpath_tags={}, metric_tags={}, warnings=())
        return replace(self, study=nameless.take(self.series), series=np.arange(len(self.series)))


@dataclass(frozen=True, eq=False)
class _Fitted:
    """The models of a block: columns of `Models`."""

    functions: Functions
    costs: Costs
    n_points: Ints
    noise: Floats
    cautions: Ints
    probability: Floats


def _fit_block(block: _Block) -> _Fitted:
    return _Fitting(block).run()


class _Fitting:
    """The fitting of one block; results are put in place by rows."""

    def __init__(self, block: _Block) -> None:
        study, options, series = self.study, self.options, self.series = block.study, block.options, block.series
        self.values = study.measure(options.statistic)
        n, n_parameters = len(series), len(study.parameters)
        most_terms = 1 if n_parameters == 1 else max(3, n_parameters)
        self.probability = np.full(n, np.nan)
        self.skew = block.skew
        self.out = FunctionBuilder(study.parameters, n, most_terms)
        self.costs, self.noise = Costs.make_unknown(n), np.full(n, np.nan)
        self.n_points, self.cautions = np.zeros(n, np.int64), np.zeros(n, np.int64)

    @np.errstate(all="ignore")  # values may be too large to be added up; a term with such an error is never chosen
    def run(self) -> _Fitted:
        """Fit all series."""
        rows, numbers = np.arange(len(self.series)), self.series
        present, values = self.study.present[numbers], self.values[numbers]
        usable = present & np.isfinite(values)
        self.n_points[rows] = usable.sum(axis=1)
        self._caution(rows, Caution.MISSING, ~present.all(axis=1))
        self._caution(rows, Caution.NOT_FINITE, (present & ~usable).any(axis=1))
        self.noise[rows] = _noise(self.study, numbers, usable)
        for pattern, members in group_alike(usable):
            if not pattern.any():
                self.cautions[rows[members]] |= Caution.NOTHING
                continue
            points = self.study.points[pattern]
            self._fit(rows[members], points, np.ascontiguousarray(values[np.ix_(members, np.flatnonzero(pattern))]))
        with np.errstate(invalid="ignore"):
            self._caution(rows, Caution.NOISE, self.noise[rows] > NOISY)
            self._caution(rows, Caution.POOR, self.costs.smape[rows] > POOR_FIT)
        return _Fitted(self.out.build(), self.costs, self.n_points, self.noise, self.cautions, self.probability)

    def _caution(self, rows: Ints, caution: Caution, applies: Array | np.bool_ | bool) -> None:
        self.cautions[rows] |= np.where(applies, int(caution), 0)

    def _fit(self, rows: Ints, points: Floats, y: Floats) -> None:
        """Fit series (series x points) that were measured at the same points."""
        self._caution(rows, Caution.FEW_POINTS, len(points) < FEWEST_POINTS)
        if self.options.is_improved:
            rest = self._fit_improved(rows, points, y)
            rows, y = rows[rest], y[rest]
            self._caution(rows, Caution.NOT_IMPROVED, True)
        if not len(rows):
            return
        if points.shape[1] == 1:
            self._caution_of_line(rows, points[:, 0])
            self._fit_one_parameter(rows, points[:, 0], y)
            return
        lines = lines_of(points, self.options.selection)
        self._caution(rows, Caution.NO_LINES, len(points) > 1 and all(line.longest == 1 for line in lines))
        self._caution(rows, Caution.FEW_ON_A_LINE, any(1 < len(line.x) < FEWEST_POINTS for line in lines))
        fits = [self._parameter(rows, line, y) for line in lines]
        costs, failed = combine(rows, points, y, fits, self.options, self.out)
        self.costs.put(rows, costs)
        self.cautions[rows[failed]] |= Caution.NO_FIT

    def _fit_improved(self, rows: Ints, points: Floats, y: Floats) -> Bools:
        """Fit the series that the improved method can fit; return which ones are left."""
        possible: Bools = np.asarray((y > 0).all(axis=1)) & can_weigh(points)
        if not possible.any():
            return ~possible
        chosen = np.flatnonzero(possible)
        series = self.series[rows[chosen]]
        columns = match_points(self.study, points)
        observed = observe_series(self.study, series, columns, self.options.measure, self.skew)
        for part, fits in fit_improved(points, observed, self.out):
            here = chosen[part]
            fits.put(rows[here], self.out)
            self.costs.put(rows[here], fits.costs(np.ascontiguousarray(y[here].T)))
            self.probability[rows[here]] = fits.probability
            self._caution(rows[here], Caution.UNDISTURBED, fits.one_sided & fits.is_known)
            self._caution(rows[here], Caution.LACK_OF_FIT, fits.lacks_fit & fits.is_known)
            possible[here] = fits.is_known
        return ~possible

    def _caution_of_line(self, rows: Ints, x: Floats) -> None:
        wanted = self.options.logarithms or bool(self.options.logs)
        self._caution(rows, Caution.NO_LOGARITHMS, wanted and not logs_are_possible(x, self.options))
        segmented = self.options.modeler == "segmented"
        self._caution(rows, Caution.FEW_FOR_SEGMENTS, segmented and len(x) < POINTS_FOR_SEGMENTS)

    def _parameter(self, rows: Ints, line: Line, y: Floats) -> ParameterFits:
        if len(line.x) > 1:
            self._caution_of_line(rows, line.x)
        fits = _MODELERS[self.options.modeler](line.x, line.values(y), self.options)
        whole = fits.whole if isinstance(fits, SegmentedFits) else fits
        factor, c0, c1 = self._factors(whole), whole.c0, whole.c1
        for split in fits.splits if isinstance(fits, SegmentedFits) else ():
            factor[split.rows], c0[split.rows], c1[split.rows] = self._piecewise(split), 0.0, 1.0
        return ParameterFits(factor, c0, c1)

    def _fit_one_parameter(self, rows: Ints, x: Floats, y: Floats) -> None:
        fits = _MODELERS[self.options.modeler](x, y, self.options)
        whole = fits.whole if isinstance(fits, SegmentedFits) else fits
        factor = self._factors(whole)
        has_term = factor >= 0
        flat, steep = np.flatnonzero(~has_term), np.flatnonzero(has_term)
        self.out.put(rows[flat], whole.c0[flat], np.empty((len(flat), 0)), np.empty((len(flat), 0, 1)))
        self.out.put(rows[steep], whole.c0[steep], whole.c1[steep, None], factor[steep, None, None])
        for split in fits.splits if isinstance(fits, SegmentedFits) else ():
            ones = np.ones((len(split.rows), 1))
            self.out.put(rows[split.rows], ones[:, 0] * 0, ones, self._piecewise(split)[:, None, None])
        self.costs.put(rows, whole.costs)

    def _factors(self, fits: SingleFits) -> Ids:
        """Return the number of each model's factor, -1 for constants."""
        used, back = np.unique(fits.term, return_inverse=True)
        numbers = [-1 if t < 0 else self.out.factor_number(Factor(fits.terms[t])) for t in used.tolist()]
        return np.array(numbers, np.int32)[back.reshape(-1)]

    def _piecewise(self, split: Split) -> Ids:
        factors = []
        for k in range(len(split.rows)):
            pieces = _piece(split.left, k, -np.inf, split.end), _piece(split.right, k, split.start, np.inf)
            factors.append(self.out.factor_number(Factor(pieces=pieces)))
        return np.array(factors, np.int32)


_Modeler = Callable[[Floats, Floats, ModelOptions], SingleFits | SegmentedFits]
_MODELERS: dict[str, _Modeler] = {"default": fit_series, "refining": fit_refining, "segmented": fit_segmented}


def _piece(fits: SingleFits, k: int, start: float, end: float) -> Piece:
    term = int(fits.term[k])
    terms = ((float(fits.c1[k]), fits.terms[term]),) if term >= 0 else ()
    return Piece(start, end, float(fits.c0[k]), terms)


def _noise(study: Study, numbers: Ints, usable: Bools) -> Floats:
    known = usable & (study.repetitions[numbers] != 1)
    with np.errstate(all="ignore"):
        spread = np.abs((study.maximum[numbers] - study.minimum[numbers]) / study.mean[numbers])
        known &= np.isfinite(spread)
        noise: Floats = np.where(known, spread, 0.0).sum(axis=1) / known.sum(axis=1)
    return noise
