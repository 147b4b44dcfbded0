"""Models one can trust: how often intervals cover the true curve, what "good" is worth, and the speed of both.

The rule for trust was set by such simulations and checked with other seeds (docs/modeling.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from bench.advising import width_ratios
from bench.cases.modeling import PYTHON, ask
from bench.conditions import Conditions
from bench.noisy_runs import count_noise_ranked_first
from bench.results import Finding
from bench.series import SeriesShape, study_of
from bench.simulation import KINDS, X, disturb, plant, study_of_values
from bench.timing import best_processor_seconds
from callgrove.modeling.fitting import model_study
from callgrove.modeling.improved.series import quantiles_at
from callgrove.modeling.judgement import Trust, judge
from callgrove.modeling.options import DETECTED, ModelOptions

__all__ = ["run"]

N_SERIES = 400
NOISES = (0.01, 0.05, 0.2)
COVERED_NOISES = (0.02, 0.1, 0.5, 1.0)
FASTER = 20.0
N_ADVISED = 40
N_RANKED = 20
LEAST_COVERED, MOST_COVERED = 85.0, 95.0
SEED = 31_337


def run(conditions: Conditions) -> Iterator[Finding]:
    """Coverage on both generators, right predictions among those called good, speed against Extra-P."""
    n = max(20, round(N_SERIES * conditions.largest))
    is_whole = n == N_SERIES
    rng = np.random.default_rng(SEED)
    for generator in (1, 2):
        parts = [_coverage(generator, kind, noise, n, rng) for kind in KINDS for noise in COVERED_NOISES]
        part = 100 * sum(parts) / len(parts)
        what = f"90 % intervals that cover the curve, generator {generator}"
        note = f"{100 * min(parts):.0f} to {100 * max(parts):.0f} by noise"
        most, least = (MOST_COVERED, LEAST_COVERED) if is_whole else (None, None)
        yield Finding("trust", what, part, "%", most, least, note)
    for noise in NOISES:
        right, good = _rightness(noise, n, rng)
        what = f"of those called good, within 20 % at four times the scale, noise {noise:.0%}"
        yield Finding("trust", what, 100 * right, "%", at_least=95.0 if is_whole else None, note=f"{good:.0%} are good")
    yield _ranking(max(1, round(N_RANKED * conditions.largest)))
    yield _advice(max(2, round(N_ADVISED * conditions.largest)))
    yield from _speed(conditions)


def _ranking(n: int) -> Finding:
    """Return how many of all rankings of simulated runs begin with noise: of every level of noise, with one repetition
    and with several."""
    counts = [count_noise_ranked_first(n, noise, r, SEED + r) for noise in NOISES for r in (1, 3, 5)]
    wrong, total = (sum(column) for column in zip(*counts, strict=True))
    note = f"of {total:,}: predict and --rank-by growth, share and loss"
    return Finding("trust", "rankings of simulated runs that begin with noise", wrong, "", at_most=0.0, note=note)


def _advice(n: int) -> Finding:
    """Return how much wider intervals are after points chosen at random than after advised ones, for equal cost."""
    factor = float(np.exp(np.log(width_ratios(n, SEED)).mean()))
    what = f"width of intervals after points chosen at random / after advised ones, {n} studies"
    return Finding("trust", what, factor, at_least=1.2 if n == N_ADVISED else None, note="on the scale of logarithms")


def _coverage(generator: int, kind: str, noise: float, n: int, rng: np.random.Generator) -> float:
    at = np.array([128.0, 1024.0])
    planted = plant(generator, n, rng)
    study = study_of_values(disturb(planted.at(X), noise, kind, 5, rng))
    low, high = quantiles_at(study, np.arange(n), at[:, None], DETECTED)
    true = planted.at(at)
    known = np.isfinite(low)
    return float(((low <= true) & (true <= high))[known].mean())


def _rightness(noise: float, n: int, rng: np.random.Generator) -> tuple[float, float]:
    """Return which part of those called good is right, and which part of all is good."""
    at, good, right, total = np.array([4 * X[-1]]), 0, 0, 0
    for generator in (1, 2):
        for kind in KINDS:
            for n_repetitions in (1, 3, 5):
                planted = plant(generator, n, rng)
                study = study_of_values(disturb(planted.at(X), noise, kind, n_repetitions, rng))
                judged = judge(model_study(study), at)
                true = planted.at(at)[:, 0] * (1 + noise / 2 if kind == "one-sided" else 1)  # the mean is modelled
                trusted = judged.trust == Trust.GOOD
                good, total = good + int(trusted.sum()), total + n
                right += int((np.abs(judged.prediction / true - 1) <= 0.2)[trusted].sum())
    return right / max(good, 1), good / total


def _speed(conditions: Conditions) -> Iterator[Finding]:
    shape = SeriesShape(1, max(20, round(2000 * conditions.largest)))
    what = f"Extra-P's default / improved method, {shape.n_series} series"
    if not PYTHON.is_file():
        yield Finding("trust", what, float("nan"), note="run `make peers` first")
        return
    study = study_of(shape)
    improved = ModelOptions(method="improved", measure=DETECTED)
    seconds = best_processor_seconds(partial(model_study, study, improved), conditions.n_repeats)
    note = f"{shape.n_series / seconds:,.0f} models/s"
    yield Finding("trust", what, ask(study).seconds / seconds, at_least=FASTER, note=note)
