"""How far a model is to be trusted at a point: its interval, what nearly equal functions say there, noise and distance.

    good   the interval of 90% stays within 12% of the prediction, and functions that fit nearly as well agree
    fair   it stays within a factor of 2; few points without repetitions, which may fit by luck
    poor   it does not, or there is a reason to expect nothing of the model

The rule was set on simulated series of one set of seeds and checked on another (`bench trust`): docs/modeling.md.
Intervals are those of the improved method, whichever method found the function.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np

from callgrove.arrays import Bools, Floats, Ints, group_alike
from callgrove.model.study.series import Study
from callgrove.modeling.fitting import FEWEST_POINTS, NOISY, POOR_FIT, Caution, Models
from callgrove.modeling.improved.repetitions import Observations, repetitions_of
from callgrove.modeling.improved.series import quantiles_at
from callgrove.modeling.near_equals import spread_at

__all__ = [
    "FAR",
    "Apart",
    "Judgements",
    "Trust",
    "compute_measured_shares",
    "default_floors",
    "far_target",
    "intervals_at",
    "judge",
    "judge_at",
    "misfit_floors",
    "noise_floors",
    "set_apart",
    "set_apart_at",
]

FEWEST_TO_EXTRAPOLATE = 3  # values along a parameter: every term fits two of them, and each says something else beyond
FAR = 4.0  # times the largest value measured: beyond, terms that fit equally well part ways
CLOSE, ROUGH = 1.12, 2.0  # the interval by the prediction: good, fair
AGREEING, DISAGREEING = 1.2, 2.0  # the spread of near equals by the prediction
LUCK, LUCKY_DEGREES = 0.106, 4.0  # scatter to expect without repetitions, by the root of degrees of freedom; its weight
CLOSE_FOR_LUCKY = 1.2  # the interval with that scatter by the prediction
EXACT_FIT, FLAT = 0.02, 1.0  # SMAPE in percent: no luck is so good; constants beyond may hide a steep term
N_FITTED = 3  # of each function: two coefficients, and the choice of a term
SERIES_AT_ONCE = 8_192


class Trust(IntEnum):
    """How far to trust a prediction."""

    POOR = 0
    FAIR = 1
    GOOD = 2

    @property
    def word(self) -> str:
        """The name in tables."""
        return self.name.lower()


class Reason(IntEnum):
    """Why; the first that applies counts."""

    NO_MODEL = 0
    NOT_ABOVE_ZERO = 1
    BELOW_ZERO = 2
    POOR_FIT = 3
    ANYTHING_FITS = 4
    UNPREDICTABLE = 5
    OUTSIDE = 6
    UNLIKE = 7
    FAR_WITHOUT_INTERVAL = 8
    FEW_POINTS = 9
    NO_INTERVAL = 10
    ROUGH = 11
    UNSURE = 12
    MAYBE_LUCK = 13
    SURE = 14


class Apart(IntEnum):
    """Whether a prediction stands apart from those that costs are ranked by."""

    NO = 0
    UNTRUSTED = 1
    NOISE = 2


@dataclass(frozen=True, eq=False)
class Judgements:
    """What to think of M models at one point."""

    at: Floats
    prediction: Floats
    low: Floats  # interval of 90%; NaN: there is none
    high: Floats
    spread_low: Floats  # least and largest prediction of functions that fit nearly as well
    spread_high: Floats
    share: Floats  # percent of the metric at the largest point measured; NaN where it was not measured there
    distance: Floats  # the point by the largest (or smallest) value measured; 1 inside
    trust: Ints
    why: Ints  # Reason
    smape: Floats
    n_points: Ints

    def text(self, number: int) -> str:
        """Return the judgement of one model in words: `poor: not predictable: 0.1 to 9`."""
        return f"{Trust(self.trust[number]).word}: {self.reason(number)}"

    def reason(self, number: int) -> str:
        """Return why a model is trusted so far."""
        numbers = (self.prediction, self.low, self.high, self.spread_low, self.spread_high)
        value, low, high, least, most = (float(column[number]) for column in numbers)
        match Reason(self.why[number]):
            case Reason.NO_MODEL:
                return "there is no model"
            case Reason.BELOW_ZERO:
                return "falls below 0 there"
            case Reason.NOT_ABOVE_ZERO:
                return "no interval is known of values below 0"
            case Reason.POOR_FIT:
                return f"misses its measurements by {self.smape[number]:.0f}%"
            case Reason.UNPREDICTABLE:
                return f"not predictable: anything from {low:.3g} to {high:.3g}"
            case Reason.OUTSIDE:
                return f"says {value:.3g}; more likely from {low:.3g} to {high:.3g}"
            case Reason.UNLIKE | Reason.UNSURE:
                return f"other functions that fit say {least:.3g} to {most:.3g}"
            case Reason.FAR_WITHOUT_INTERVAL:
                return f"no interval is known, {self.distance[number]:.3g} times beyond what was measured"
            case Reason.ANYTHING_FITS:
                return f"fewer than {FEWEST_TO_EXTRAPOLATE} values to go beyond: any function fits them"
            case Reason.FEW_POINTS:
                return f"only {self.n_points[number]} point{'' if self.n_points[number] == 1 else 's'}"
            case Reason.NO_INTERVAL:
                return "no interval is known"
            case Reason.MAYBE_LUCK:
                return f"{self.n_points[number]} points without repetitions may fit by luck"
            case Reason.ROUGH:
                return f"from {low:.3g} to {high:.3g}"
            case _:
                return f"within {max(high / value, value / low) - 1:.1%}" if value else "0 everywhere"


def judge(models: Models, at: Floats) -> Judgements:
    """Return what to think of models at a point, from their own measurements."""
    return judge_at(models, at[None])[0]


def judge_at(models: Models, points: Floats) -> list[Judgements]:
    """Return what to think of models at each of some points; the evidence of their measurements is weighed once."""
    predictions = models.functions.evaluate(points)
    bounds = intervals_at(models, points)
    spread = np.stack(_spread(models, points))
    share = compute_measured_shares(models.study)[models.series]
    judgements = [
        _judge_point(models, at, predictions[:, k], bounds[:, :, k], spread[:, :, k], share)
        for k, at in enumerate(points)
    ]
    return _doubt_luck(models, judgements)


def intervals_at(models: Models, points: Floats) -> Floats:
    """Return the intervals of models at points (bounds x models x points)."""
    out = np.full((2, len(models), len(points)), np.nan)
    known = (points > 0).all(axis=1)
    if known.any():
        out[:, :, known] = quantiles_at(models.study, models.series, points[known], models.options.measure)
    if len(models.study.parameters) > 1:  # surfaces that fall are not among those that intervals are made of
        out[:, _has_falling_term(models)] = np.nan
    return out


def _judge_point(
    models: Models, at: Floats, prediction: Floats, interval: Floats, spread: Floats, share: Floats
) -> Judgements:
    (low, high), (least, most) = interval, spread
    with np.errstate(all="ignore"):
        least, most = np.fmin(least, prediction), np.fmax(most, prediction)
    distance = _distance(models.study, models.series, at)
    fits_anything = _goes_beyond_few(models.study, models.series, at)
    why = _find_reasons(models, prediction, (low, high), (least, most), distance, fits_anything)
    trust = np.where(why == Reason.SURE, Trust.GOOD, np.where(why >= Reason.FEW_POINTS, Trust.FAIR, Trust.POOR))
    return Judgements(
        at, prediction, low, high, least, most, share, distance, trust, why, models.costs.smape, models.n_points
    )


def _doubt_luck(models: Models, judgements: list[Judgements]) -> list[Judgements]:
    """Return judgements in which few points without repetitions are fair where a fit this close may be luck: of many
    functions one fits almost any few values. Then the interval must stay close with a scatter that is expected from
    the degrees of freedom; and constants must leave no room for a term that is steep beyond."""
    sure = np.any([one.why == Reason.SURE for one in judgements], axis=0)
    if len(models.study.parameters) > 1:
        return judgements
    rows = np.flatnonzero(sure & (models.costs.smape > EXACT_FIT))
    rows = rows[~_is_repeated(models.study, models.series[rows])]
    if not len(rows):
        return judgements
    points = np.stack([one.at for one in judgements])
    low, high = quantiles_at(models.study, models.series[rows], points, models.options.measure, observe_as=_expect_luck)
    n_terms = np.bincount(models.functions.owner, minlength=len(models))[rows]
    hides_growth = (n_terms == 0) & (models.costs.smape[rows] > FLAT)
    doubted = []
    for k, one in enumerate(judgements):
        with np.errstate(all="ignore"):
            reach = np.maximum(high[:, k] / one.prediction[rows], one.prediction[rows] / low[:, k])
        why, trust = one.why.copy(), one.trust.copy()
        lucky = rows[(why[rows] == Reason.SURE) & (hides_growth | ~(reach <= CLOSE_FOR_LUCKY))]
        why[lucky], trust[lucky] = Reason.MAYBE_LUCK, Trust.FAIR
        doubted.append(replace(one, why=why, trust=trust))
    return doubted


def _expect_luck(observed: Observations) -> Observations:
    return observed.expect_scatter(LUCK / max(len(observed.y) - N_FITTED, 1) ** 0.5, LUCKY_DEGREES)


def _is_repeated(study: Study, series: Ints) -> Bools:
    """Return which series have repetitions at any point."""
    result = np.zeros(len(series), np.bool_)
    for start in range(0, len(series), SERIES_AT_ONCE):
        block = slice(start, start + SERIES_AT_ONCE)
        result[block] = (repetitions_of(study, series[block]).count > 1).any(axis=1)
    return result


def _has_falling_term(models: Models) -> Bools:
    falls: Bools = np.bincount(models.functions.owner, models.functions.coefficient < 0, minlength=len(models)) > 0
    return falls


def _find_reasons(
    models: Models,
    prediction: Floats,
    interval: tuple[Floats, Floats],
    spread: tuple[Floats, Floats],
    distance: Floats,
    fits_anything: Bools,
) -> Ints:
    """Return the first reason that applies to each model."""
    low, high = interval
    with np.errstate(all="ignore"):
        positive = prediction > 0
        reach = np.maximum(high / prediction, prediction / low)
        outside = np.maximum(low / prediction, prediction / high) > CLOSE
        agreement = np.where(spread[0] > 0, np.maximum(spread[1] / prediction, prediction / spread[0]), np.inf)
        known = np.isfinite(low) & np.isfinite(high)
        few = (models.n_points < FEWEST_POINTS) | ((models.cautions & Caution.FEW_ON_A_LINE) != 0)
        all_zero = (prediction == 0) & (models.costs.rss == 0)
        tests: dict[Reason, Bools] = {
            Reason.NO_MODEL: ~np.isfinite(prediction),
            Reason.NOT_ABOVE_ZERO: ~positive & ~all_zero & _is_below_zero(models),
            Reason.BELOW_ZERO: ~positive & ~all_zero,
            Reason.POOR_FIT: models.costs.smape > POOR_FIT,
            Reason.ANYTHING_FITS: fits_anything & ~all_zero,
            Reason.UNPREDICTABLE: known & (high > ROUGH**2 * low),
            Reason.OUTSIDE: known & ((reach > ROUGH) | outside),
            Reason.UNLIKE: ~known & ~all_zero & (agreement > DISAGREEING),
            Reason.FAR_WITHOUT_INTERVAL: ~known & ~all_zero & (distance > FAR),
            Reason.FEW_POINTS: few,
            Reason.NO_INTERVAL: ~known & ~all_zero,
            Reason.ROUGH: known & (reach > CLOSE),
            Reason.UNSURE: known & (agreement > AGREEING),
        }
    return np.select(list(tests.values()), [int(reason) for reason in tests], int(Reason.SURE))


def _is_below_zero(models: Models) -> Bools:
    """Return which series have only values below 0."""
    values = models.study.mean[models.series]
    measured = models.study.present[models.series] & np.isfinite(values)
    return np.asarray(measured.any(axis=1) & ((values < 0) | ~measured).all(axis=1))


def _spread(models: Models, at: Floats) -> tuple[Floats, Floats]:
    """Return the least and largest prediction of near equals of each model (models x points)."""
    study, series = models.study, models.series
    low, high = np.full((len(series), len(at)), np.nan), np.full((len(series), len(at)), np.nan)
    values = study.measure(models.options.statistic)
    for start in range(0, len(series), SERIES_AT_ONCE):
        block = np.arange(start, min(start + SERIES_AT_ONCE, len(series)))
        usable = study.present[series[block]] & np.isfinite(values[series[block]])
        for pattern, members in group_alike(usable):
            if pattern.any():
                columns, rows = np.flatnonzero(pattern), block[members]
                y = values[np.ix_(series[rows], columns)]
                low[rows], high[rows] = spread_at(study.points[columns], y, at, models.options)
    return low, high


def _distance(study: Study, series: Ints, at: Floats) -> Floats:
    """Return how many times a point lies beyond what was measured of each series, in the parameter where it is most."""
    distance = np.ones(len(series))
    for pattern, rows in group_alike(study.present[series]):
        if pattern.any():
            largest, smallest = study.points[pattern].max(axis=0), study.points[pattern].min(axis=0)
            with np.errstate(all="ignore"):
                beyond, below = np.where(largest > 0, at / largest, 1.0), np.where(at > 0, smallest / at, 1.0)
            distance[rows] = max(1.0, float(beyond.max()), float(below.max()))
    return distance


def _goes_beyond_few(study: Study, series: Ints, at: Floats) -> Bools:
    """Return whether a point lies beyond what was measured of each series along a parameter of too few values."""
    result = np.zeros(len(series), np.bool_)
    for pattern, rows in group_alike(study.present[series] & np.isfinite(study.mean[series])):
        known = study.points[pattern]
        if len(known):
            beyond = (at > known.max(axis=0)) | (at < known.min(axis=0))
            few = [len(np.unique(column)) < FEWEST_TO_EXTRAPOLATE for column in known.T]
            result[rows] = bool((beyond & np.array(few)).any())
    return result


# -- the run as a whole ------------------------------------------------------------------------------------------------


def far_target(study: Study) -> Floats:
    """Return a point worth predicting: the largest values measured, with four times the processes (or the first
    parameter)."""
    from callgrove.modeling.scaling import process_parameter

    at: Floats = study.points.max(axis=0)
    with np.errstate(over="ignore"):
        at[process_parameter(study) or 0] *= FAR
    return at


def _sum_by_metric(study: Study, values: Floats) -> Floats:
    """Return (metrics x points): sums over the series of each metric; what was not measured counts as nothing."""
    total = np.zeros((len(study.metrics), study.n_points))
    np.add.at(total, study.series_metric, np.where(study.present & np.isfinite(values), values, 0.0))
    return total


def compute_measured_shares(study: Study) -> Floats:
    """Return the percent that each series makes up of its metric at the largest point; NaN where it was not measured
    there, or where the metric does not add up."""
    with np.errstate(over="ignore"):  # what is infinite is the largest, in the order of its parameters
        sizes = study.points.prod(axis=1)
    largest = int(np.lexsort([*study.points.T[::-1], sizes])[-1])
    total = _sum_by_metric(study, study.mean)[:, largest]
    ratios = np.isin(np.array(study.metrics, object), np.array(study.ratios, object))
    total = np.where(ratios | (total <= 0), np.nan, total)
    share: Floats = study.mean[:, largest] / total[study.series_metric] * 100
    return share


def noise_floors(study: Study) -> Floats:
    """Return for each metric the percent of a run that repetitions differ by: the scatter of all series together by
    their sum, at the median point; NaN where nothing was repeated."""
    shape = len(study.metrics), study.n_points
    variance, total, is_repeated = np.zeros(shape), np.zeros(shape), np.zeros(shape[0], np.bool_)
    largest = np.zeros(shape[0])  # of each metric, so that squares stay in the range of numbers
    sizes = np.where(study.present & np.isfinite(study.mean), np.abs(study.mean), 0.0)
    np.maximum.at(largest, study.series_metric, sizes.max(axis=1, initial=0.0))
    scale = np.where(largest > 0, largest, 1.0)[study.series_metric]
    for start in range(0, len(study), SERIES_AT_ONCE):
        series = np.arange(start, min(start + SERIES_AT_ONCE, len(study)))
        known = repetitions_of(study, series)
        repeated = known.count > 1
        np.logical_or.at(is_repeated, study.series_metric[series], repeated.any(axis=1))
        with np.errstate(over="ignore"):  # a scatter beyond the range of squares is infinite
            std, mean = known.std / scale[series, None], np.abs(known.mean) / scale[series, None]
            np.add.at(variance, study.series_metric[series], np.where(repeated, std**2, 0.0))
        np.add.at(total, study.series_metric[series], np.where(known.count > 0, mean, 0.0))
    with np.errstate(all="ignore"):
        part = np.where(total > 0, np.sqrt(variance) / total, 0.0) * 100
    floors: Floats = np.where(is_repeated, np.nan_to_num(np.median(part, axis=1)), np.nan)
    return floors


def misfit_floors(models: Models) -> Floats:
    """Return for each metric the percent of a run that measurements miss their models by, as if series did so
    independently: the error of the model that half of the cost has less than, for runs that nobody repeated."""
    study = models.study
    metric, values = study.series_metric[models.series], np.abs(study.mean[models.series])
    measured = study.present[models.series] & np.isfinite(values)
    cost = (np.where(measured, values, 0.0) / np.maximum(measured.sum(axis=1), 1)[:, None]).sum(axis=1)
    known = np.isfinite(models.costs.smape) & (cost > 0)
    floors = np.zeros(len(study.metrics))
    for number in np.unique(metric[known]).tolist():
        rows = np.flatnonzero(known & (metric == number))
        rows = rows[np.argsort(models.costs.smape[rows], kind="stable")]
        part = cost[rows] / cost[rows].max()  # squares of what is large or small leave the range of numbers
        half = int(np.searchsorted(np.cumsum(part), part.sum() / 2))
        floors[number] = models.costs.smape[rows[half]] * np.sqrt((part**2).sum()) / part.sum()
    return floors


def below_floor(study: Study, series: Ints, floors: Floats) -> Bools:
    """Return which series stay below a part (percent, by metric) of their metric's total wherever they were
    measured."""
    total = _sum_by_metric(study, study.mean)[study.series_metric[series]]
    limit = total * (floors[study.series_metric[series]] / 100)[:, None]
    with np.errstate(invalid="ignore"):
        small: Bools = (study.mean[series] < limit) | ~study.present[series]
    return np.asarray(small.all(axis=1))


def set_apart(models: Models, judgements: Judgements, floor: float | None = None) -> Ints:
    """Return what stands apart: models that are not to be trusted, and series that stay below the noise floor (percent
    of the run; by default `default_floors`, for what is not trusted well or scatters much)."""
    return set_apart_at(models, [judgements], floor)[0]


def set_apart_at(
    models: Models, judgements: Sequence[Judgements], floor: float | None = None, floors: Floats | None = None
) -> list[Ints]:
    """Return what stands apart at each of some points. Of some models only, `floors` are the default ones of all."""
    if floor is not None:
        floors = np.full(len(models.study.metrics), floor)
    below = below_floor(models.study, models.series, default_floors(models) if floors is None else floors)
    return [np.where(_is_noise(models, one, below, floor), int(Apart.NOISE), _find_doubtful(one)) for one in judgements]


def default_floors(models: Models) -> Floats:
    """Return the noise floor of each metric, percent of the run: what repetitions differ by, or without any what
    models are missed by."""
    floors = noise_floors(models.study)
    return np.where(np.isnan(floors), misfit_floors(models), floors) if np.isnan(floors).any() else floors


def _is_noise(models: Models, judgements: Judgements, below: Bools, floor: float | None) -> Bools:
    """Return what is noise of all that stays below a floor: everything where a user named it."""
    return below if floor is not None else below & ((judgements.trust < Trust.GOOD) | (models.noise > NOISY))


def _find_doubtful(judgements: Judgements) -> Ints:
    return np.where(judgements.trust == Trust.POOR, int(Apart.UNTRUSTED), int(Apart.NO))
