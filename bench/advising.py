"""Advice against chance: intervals after measuring what is advised, and after points chosen at random for no more."""

from __future__ import annotations

import numpy as np

from bench.simulation import Planted, X, disturb, plant, study_of_values
from callgrove.arrays import Floats
from callgrove.model.study.series import Study
from callgrove.modeling.advice import Candidate, advise, candidates_of
from callgrove.modeling.fitting import model_study
from callgrove.modeling.improved.series import quantiles_at

__all__ = ["width_ratios"]

NOISE, N_REPETITIONS = 0.1, 3


def width_ratios(n_studies: int, seed: int) -> Floats:
    """Return for each study the logarithmic width of the interval at four times the scale after points chosen at
    random, by that after the points that were advised, with the same budget: what 1.5 times the largest point costs."""
    rng = np.random.default_rng(seed)
    ratios: list[float] = []
    at = np.array([4 * X[-1]])
    while len(ratios) < n_studies:
        planted = plant(2, 1, rng)
        values = disturb(planted.at(X), NOISE, "uniform", N_REPETITIONS, rng)
        models = model_study(study_of_values(values))
        candidates = candidates_of(models, at)
        budget = max((one.cost for one in candidates if one.point[0] <= 1.5 * X[-1]), default=0.0)
        advised = [one.candidate for one in advise(models, at, budget, seed=len(ratios))] if budget else []
        if not advised:
            continue
        chance = _choose_at_random(candidates, budget, rng)
        outcomes = _measure(planted, candidates, rng)
        widths = [_width_after(values, [outcomes[one] for one in chosen], at) for chosen in (chance, advised)]
        if all(np.isfinite(widths)) and min(widths) > 0:
            ratios.append(widths[0] / widths[1])
    return np.array(ratios)


def _choose_at_random(candidates: list[Candidate], budget: float, rng: np.random.Generator) -> list[Candidate]:
    chosen: list[Candidate] = []
    for number in rng.permutation(len(candidates)).tolist():
        if candidates[number].cost <= budget:
            chosen.append(candidates[number])
            budget -= candidates[number].cost
    return chosen


def _measure(
    planted: Planted, candidates: list[Candidate], rng: np.random.Generator
) -> dict[Candidate, tuple[float, Floats]]:
    """Return each point with what is measured there, whoever chose it."""
    x = np.array([one.point[0] for one in candidates])
    measured = disturb(planted.at(x), NOISE, "uniform", N_REPETITIONS, rng)
    return {one: (float(x[k]), measured[:, k : k + 1]) for k, one in enumerate(candidates)}


def _width_after(values: Floats, outcomes: list[tuple[float, Floats]], at: Floats) -> float:
    new = [x for x, _ in outcomes]
    measured = [value for _, value in outcomes]
    study: Study = study_of_values(np.concatenate([values, *measured], axis=1), np.concatenate([X, new]))
    low, high = quantiles_at(study, np.arange(1), at[None])[:, 0, 0]
    return float(np.log(high / low))
