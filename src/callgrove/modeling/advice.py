"""Which points to measure next: what they cost, and how much narrower the intervals of predictions become.

Strategies, as Extra-P's advisor has them; the first that applies is used, and named:

    base     along a parameter there are fewer than five points, the others fixed: the cheapest ones that complete five
    narrow   the points that are expected to narrow intervals most for what they cost
    add      there are no intervals (three and more parameters, values of 0 and below): the cheapest points that are
             one step beyond those measured

Instead of Extra-P's `GPR`, which chooses the point where a Gaussian process is least sure, the evidence for all
functions says it: measurements at a candidate are drawn from what is still possible, and the interval at the target is
computed with each of them. The expectation is over the series that will cost most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from callgrove.arrays import Floats, Ints
from callgrove.errors import UsageError
from callgrove.model.study.series import Study
from callgrove.model.table import Column, Table
from callgrove.modeling.fitting import FEWEST_POINTS, Models
from callgrove.modeling.improved.evidence import weigh
from callgrove.modeling.improved.evidence_grid import grid_hypotheses, grid_quantiles, weigh_grid
from callgrove.modeling.improved.intervals import Hypotheses, curve_hypotheses, curve_quantiles
from callgrove.modeling.improved.repetitions import Observations
from callgrove.modeling.improved.series import can_weigh, observe_series
from callgrove.modeling.scaling import process_parameter

__all__ = ["Advice", "Candidate", "advice_table", "advise", "candidates_of"]

N_SERIES = 4  # the costliest, whose intervals count
N_DRAWS = {1: 16, 2: 6}  # measurements that are imagined at a candidate, by the number of parameters
MOST_CANDIDATES = {1: 16, 2: 8}
NARROWS = 0.98  # of the width, on the scale of logarithms: what leaves more than this is not advice
MOST_CHOICES = 6
FEWEST_FOR_STEP = 3  # values: two have both a step and a ratio
DOUBLED = (2.0, 4.0, 8.0, 16.0)  # times the largest value: always enough for five
LEAST_NOISE = 0.01  # relative, where repetitions say nothing
SECONDS = 3600.0


@dataclass(frozen=True)
class Candidate:
    """A point that could be measured, so many times, for so many processor hours."""

    point: tuple[float, ...]
    repetitions: int
    cost: float


@dataclass(frozen=True)
class Advice:
    """One point to measure. Widths are upper by lower bound of the interval at the target, the geometric mean over the
    series that count."""

    candidate: Candidate
    strategy: str
    width_before: float
    width_after: float


# -- what could be measured --------------------------------------------------------------------------------------------


def candidates_of(models: Models, at: Floats) -> list[Candidate]:
    """Return points that were not measured, the cheapest first: values between, below and beyond those of each
    parameter, up to the target, combined with the values of the others."""
    study = models.study
    axes = [_values_to_try(study.points[:, p], float(at[p])) for p in range(len(study.parameters))]
    measured = {tuple(point) for point in study.points.tolist()}
    return _price(models, [point for point in product(*axes) if point not in measured])


def _price(models: Models, new: Sequence[tuple[float, ...]]) -> list[Candidate]:
    """Return points as candidates, the cheapest first; those whose cost is unknown are left out."""
    study = models.study
    points = np.array(new, np.float64).reshape(-1, len(study.parameters))
    known = study.repetitions[study.present & (study.repetitions > 0)]
    repetitions = max(1, int(np.median(known))) if len(known) else 1
    costs = _cost_of_runs(models, points) * repetitions
    order = [k for k in np.argsort(costs, kind="stable").tolist() if np.isfinite(costs[k]) and costs[k] > 0]
    return [Candidate(tuple(points[k].tolist()), repetitions, float(costs[k])) for k in order]


def _values_to_try(values: Floats, target: float) -> list[float]:
    """Return the values of a parameter, and others: between them, half the least, twice and four times the largest."""
    known = np.unique(values)
    if len(known) < 2 or known[0] <= 0:
        return [float(v) for v in known]
    between = np.sqrt(known[:-1] * known[1:])
    beyond = [known[-1] * factor for factor in (1.5, 2.0, 4.0) if known[-1] * factor <= max(target, 2 * known[-1])]
    whole = bool((known == np.round(known)).all())
    tried = np.array([known[0] / 2, *between, *beyond])
    tried = np.round(tried) if whole else tried
    return sorted({*known.tolist(), *(float(v) for v in tried if v >= (1 if whole else 0))})


def _cost_metric(study: Study) -> int:
    """Return the metric that says what a run costs: time, or the first."""
    names = [name.lower() for name in study.metrics]
    return names.index("time") if "time" in names else 0


def _explain_unknown_cost(models: Models) -> str:
    metric = _cost_metric(models.study)
    if (models.study.series_metric[models.series] == metric).any():
        return "no cost is known for points that were not measured"
    name = models.study.metrics[metric] or "<default>"
    return f"what a run costs is told by {name}, of which no series is chosen"


def _cost_of_runs(models: Models, points: Floats) -> Floats:
    """Return the processor hours of a run at each point: the time of all models together, times the processes, unless
    values are totals of all processes."""
    study = models.study
    rows = study.series_metric[models.series] == _cost_metric(study)
    seconds = np.maximum(models.functions.evaluate(points)[rows], 0.0)
    total: Floats = np.nan_to_num(seconds).sum(axis=0) / SECONDS
    parameter = process_parameter(study)
    return total if parameter is None or study.scaling == "strong" else total * points[:, parameter]


# -- what a measurement would tell -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _State:
    """The series that count, at the points measured or imagined so far."""

    points: Floats
    observed: Observations

    def hypotheses(self, at: Floats) -> Hypotheses:
        """Return what the curves may be at a point."""
        if self.points.shape[1] == 1:
            x = float(at[0])
            parts = [curve_hypotheses(evidence, x) for _, evidence in weigh(self.points[:, 0], self.observed)]
        else:
            parts = [grid_hypotheses(evidence, at) for _, evidence in weigh_grid(self.points, self.observed)]
        return Hypotheses(
            np.concatenate([one.centre for one in parts], axis=1),
            np.concatenate([one.sd for one in parts], axis=1),
            np.concatenate([one.mass for one in parts], axis=1),
            np.concatenate([one.degrees for one in parts]),
        )

    def widths(self, at: Floats) -> Floats:
        """Return the logarithm of upper by lower bound of each series at a point; NaN where there is no interval."""
        if self.points.shape[1] == 1:
            parts = [curve_quantiles(evidence, at) for _, evidence in weigh(self.points[:, 0], self.observed)]
        else:
            parts = [grid_quantiles(evidence, at[None]) for _, evidence in weigh_grid(self.points, self.observed)]
        low, high = np.concatenate(parts, axis=1)[:, :, 0]
        with np.errstate(all="ignore"):
            widths: Floats = np.log(high / low)
        return widths

    def repeat(self, n: int) -> _State:
        """Return every series n times, one after the other."""
        return replace(self, observed=self.observed.take(np.repeat(np.arange(self.observed.y.shape[1]), n)))

    def add(self, candidate: Candidate, values: Floats, noise: Floats) -> _State:
        """Return the state with a value of each series at a further point."""
        old, r = self.observed, candidate.repetitions
        n = len(self.points)
        observed = Observations(
            np.vstack([old.y, values]),
            old.within + (r - 1) * noise**2,
            (n + 1) / (n / old.repetitions + 1 / r),
            old.degrees + (r - 1),
            old.one_sided,
            old.noise,
        )
        return _State(np.vstack([self.points, candidate.point]), observed)


def _imagine(state: _State, candidate: Candidate, noise: Floats, rng: np.random.Generator) -> _State:
    """Return the state with measurements at a candidate that are drawn from what the curves may be."""
    hypotheses = state.hypotheses(np.array(candidate.point))
    share = np.cumsum(hypotheses.mass, axis=0)
    drawn = (share < rng.uniform(size=share.shape[1]) * share[-1]).sum(axis=0)
    series = np.arange(share.shape[1])
    row = np.minimum(drawn, len(share) - 1)
    centre, sd = hypotheses.centre[row, series], hypotheses.sd[row, series]
    error = noise / np.sqrt(candidate.repetitions)
    values = np.exp(centre + sd * rng.standard_normal(len(series)) + error * rng.standard_normal(len(series)))
    return state.add(candidate, values, noise)


def _predict_widths(state: _State, candidate: Candidate, at: Floats, noise: Floats, rng: np.random.Generator) -> Floats:
    """Return the mean over draws of the width of each series after a measurement at the candidate."""
    n = N_DRAWS[state.points.shape[1]]
    after = _imagine(state.repeat(n), candidate, np.repeat(noise, n), rng).widths(at).reshape(-1, n)
    known = np.isfinite(after)
    with np.errstate(all="ignore"):
        means: Floats = np.where(known, after, 0.0).sum(axis=1) / known.sum(axis=1)
    return means


# -- advice ------------------------------------------------------------------------------------------------------------


def advise(models: Models, at: Floats, budget: float | None = None, seed: int = 1) -> list[Advice]:
    """Return the points to measure next, the most useful first: those that narrow the interval at a point most for
    what they cost. With a budget in processor hours, as many as it buys, one after the other: the best for their
    cost or the best at all, whichever leaves the narrower interval. Where there are no intervals, the cheapest."""
    base = _complete_base(models, at)
    if base:
        return _buy(base, budget, "base")
    costliest = _costliest(models, at)
    if costliest is None:
        return _buy(_refuse_none(models, _step_beyond(models, at))[:MOST_CHOICES], budget, "add")
    state, noise = costliest
    candidates = _refuse_none(models, candidates_of(models, at))
    rng = np.random.default_rng(seed)
    if budget is None:
        choices = _compare(state, _thin(candidates, state), at, noise, rng)
        return sorted(filter(_narrows, choices), key=_gain, reverse=True)
    plans = [list(_spend(state, candidates, at, noise, rng, budget, choose)) for choose in (_least_width, _most_gain)]
    return min(plans, key=lambda plan: plan[-1].width_after if plan else np.inf)


def _thin(candidates: Sequence[Candidate], state: _State) -> list[Candidate]:
    """Return a few of the candidates, from the cheapest to the dearest."""
    most = MOST_CANDIDATES[state.points.shape[1]]
    places = np.linspace(0, len(candidates) - 1, min(most, len(candidates))).astype(int)
    return [candidates[k] for k in dict.fromkeys(places.tolist())]


def _narrows(advice: Advice) -> bool:
    return bool(np.log(advice.width_after) < NARROWS * np.log(advice.width_before))


def _gain(advice: Advice) -> float:
    """Return how much narrower the interval becomes for what it costs, on the scale of logarithms."""
    return float(np.log(advice.width_before / advice.width_after)) / advice.candidate.cost


def _least_width(choices: Sequence[Advice]) -> Advice:
    """Return the point that narrows the interval most, whatever it costs: one dear point."""
    return min(choices, key=lambda one: one.width_after)


def _most_gain(choices: Sequence[Advice]) -> Advice:
    """Return the point that narrows the interval most for what it costs: several cheap ones."""
    return max(choices, key=_gain)


def _refuse_none(models: Models, candidates: list[Candidate]) -> list[Candidate]:
    if not candidates:
        raise UsageError(f"nothing can be advised: {_explain_unknown_cost(models)}")
    return candidates


def _buy(candidates: Sequence[Candidate], budget: float | None, strategy: str) -> list[Advice]:
    """Return points in their order, as many as a budget buys."""
    left = np.inf if budget is None else budget
    advices = []
    for one in candidates:
        if one.cost <= left:
            left -= one.cost
            advices.append(Advice(one, strategy, np.nan, np.nan))
    if not advices:
        least = min(one.cost for one in candidates)
        raise UsageError(f"{budget:g} processor hours buy no point; the cheapest that helps costs {least:.3g}")
    return advices


def _complete_base(models: Models, at: Floats) -> list[Candidate]:
    """Return the points that give every parameter a line of five, the others fixed: at values of the parameter that
    were measured elsewhere where there are some, and the cheapest otherwise."""
    study = models.study
    chosen: dict[tuple[float, ...], Candidate] = {}
    for p in range(len(study.parameters)):
        line, others = _longest_line(study.points, p)
        missing = FEWEST_POINTS - len(line)
        if missing <= 0:
            continue
        known = set(study.points[:, p].tolist())
        tried = {*_values_to_try(study.points[:, p], float(at[p])), *_double(max(known))} - line
        new = [(*others[:p], value, *others[p:]) for value in sorted(tried)]
        candidates = sorted(_refuse_none(models, _price(models, new)), key=lambda one: one.point[p] not in known)
        chosen |= {one.point: one for one in candidates[:missing]}
    return list(chosen.values())


def _double(largest: float) -> set[float]:
    """Return larger values; from 0 on, whole numbers."""
    return {largest * factor if largest > 0 else factor / 2 for factor in DOUBLED} if largest >= 0 else set()


def _longest_line(points: Floats, p: int) -> tuple[set[float], tuple[float, ...]]:
    """Return the values of a parameter on the longest line along it, and the values of the others there; of several,
    the line that begins at the least of them."""
    lines: dict[tuple[float, ...], set[float]] = {}
    for point in points[np.argsort(points.sum(axis=1), kind="stable")].tolist():
        lines.setdefault((*point[:p], *point[p + 1 :]), set()).add(point[p])
    others = max(lines, key=lambda one: len(lines[one]))
    return lines[others], others


def _step_beyond(models: Models, at: Floats) -> list[Candidate]:
    """Return points measured with one parameter moved to the value after its last one: along the parameters in which
    the target lies beyond what was measured, or along all of them."""
    study = models.study
    outside = np.flatnonzero((at > study.points.max(axis=0)) | (at < study.points.min(axis=0)))
    new: set[tuple[float, ...]] = set()
    for p in outside.tolist() or range(len(study.parameters)):
        known = np.unique(study.points[:, p])
        value = _next_value(known[::-1] if at[p] < known[0] else known)
        new |= {(*point[:p], value, *point[p + 1 :]) for point in study.points.tolist()}
    return _price(models, sorted(new))


def _next_value(known: Floats) -> float:
    """Return what follows on values in order: by their step where it is always the same, else by their last ratio."""
    before, last = known[-2:].tolist()
    value = 2 * last - before
    is_even = bool(np.isclose(np.diff(known), last - before).all())
    if len(known) < FEWEST_FOR_STEP or not is_even or (value <= 0 < last):
        value = last * last / before if before > 0 else value
    return float(round(value)) if bool((known == np.round(known)).all()) and abs(value) >= 1 else float(value)


def _costliest(models: Models, at: Floats) -> tuple[_State, Floats] | None:
    """Return the series that will cost most, and their noise; None where they have no intervals."""
    study = models.study
    value = models.functions.evaluate(at[None])[:, 0]
    above_zero = study.present[models.series].all(axis=1) & (study.mean[models.series] > 0).all(axis=1)
    usable = above_zero & np.isfinite(value)
    if not can_weigh(study.points) or not usable.any():
        return None
    chosen = np.argsort(np.where(usable, -value, np.inf), kind="stable")[: min(N_SERIES, int(usable.sum()))]
    series: Ints = models.series[chosen]
    observed = observe_series(study, series, np.arange(study.n_points), "mean", None)
    residual = np.nan_to_num(models.costs.smape[chosen], nan=100 * LEAST_NOISE) / 100
    noise = np.where(np.isfinite(observed.noise), observed.noise, residual)
    state = _State(study.points, observed)
    return (state, np.maximum(noise, LEAST_NOISE)) if np.isfinite(state.widths(at)).any() else None


def _compare(
    state: _State, candidates: Sequence[Candidate], at: Floats, noise: Floats, rng: np.random.Generator
) -> list[Advice]:
    before = state.widths(at)
    advices = []
    for candidate in candidates:
        after = _predict_widths(state, candidate, at, noise, rng)
        known = np.isfinite(before) & np.isfinite(after)
        if known.any():
            widths = (float(np.exp(width[known].mean())) for width in (before, after))
            advices.append(Advice(candidate, "narrow", *widths))
    return advices


def _spend(
    state: _State,
    candidates: Sequence[Candidate],
    at: Floats,
    noise: Floats,
    rng: np.random.Generator,
    budget: float,
    choose: Callable[[Sequence[Advice]], Advice],
) -> Iterator[Advice]:
    """Yield points that a rule chooses in turn; those chosen count as measured, with the value that is expected."""
    left = budget
    for _ in range(MOST_CHOICES):
        affordable = [one for one in candidates if one.cost <= left]
        choices = [one for one in _compare(state, _thin(affordable, state), at, noise, rng) if _narrows(one)]
        if not choices:
            return
        best = choose(choices)
        yield best
        left -= best.candidate.cost
        expected = state.hypotheses(np.array(best.candidate.point))
        weight = expected.mass / expected.mass.sum(axis=0)
        state = state.add(best.candidate, np.exp((expected.centre * weight).sum(axis=0)), noise)
        candidates = [one for one in candidates if one != best.candidate]


def advice_table(advices: Sequence[Advice], study: Study) -> Table:
    """Return a table of the points: a column for each parameter, repetitions, cpu_hours, what all so far cost together,
    the width of the interval before and after, and the strategy."""
    costs = np.array([one.candidate.cost for one in advices], np.float64)
    columns = [Column(name, [one.candidate.point[p] for one in advices]) for p, name in enumerate(study.parameters)]
    columns += [
        Column("repetitions", [one.candidate.repetitions for one in advices]),
        Column("cpu_hours", costs),
        Column("cpu_hours_so_far", np.cumsum(costs)),
        Column("width_before", np.array([one.width_before for one in advices], np.float64), np.nan),
        Column("width_after", np.array([one.width_after for one in advices], np.float64), np.nan),
        Column("strategy", [one.strategy for one in advices]),
    ]
    return Table(tuple(columns))
