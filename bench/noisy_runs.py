"""Runs of which a few functions cost nearly everything, and many only scatter: what is ranked first must be a cost."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bench.simulation import KINDS, X, disturb, plant, study_of_values
from callgrove.arrays import Floats
from callgrove.modeling.fitting import model_study
from callgrove.modeling.prediction import predict, target_of
from callgrove.modeling.ranking import RANKINGS, rank

__all__ = ["count_noise_ranked_first"]

N_COSTS, N_NOISE = 4, 20  # functions of a run
SMALLEST, LARGEST = 1e-6, 1e-3  # what noise is of the run
SCATTER = 1.0  # of its values: factors of 1 +- half of it, or of 1 + what has half of it as mean


def count_noise_ranked_first(n_studies: int, noise: float, n_repetitions: int, seed: int) -> tuple[int, int]:
    """Return in how many rankings noise comes first, and how many there are: `predict` and every --rank-by, at four
    and at sixteen times the scale."""
    rng = np.random.default_rng(seed)
    firsts = [first for _ in range(n_studies) for first in _rank_one_study(noise, n_repetitions, rng)]
    return sum(first >= N_COSTS for first in firsts), len(firsts)


def _rank_one_study(noise: float, n_repetitions: int, rng: np.random.Generator) -> Iterator[int]:
    """Yield the number of the function that comes first in each ranking; those from N_COSTS on are noise."""
    models = model_study(study_of_values(_values_of_run(noise, n_repetitions, rng)))
    for scale in (4.0, 16.0):
        target = target_of(models.study, {"p": scale * float(X[-1])})
        tables = [predict(models, target), *(rank(models, target, by) for by in RANKINGS)]
        for table in tables:
            if len(table) and table["apart"][0] is None:  # what is set apart is no answer, and said to be none
                yield int(table["callpath"][0].removeprefix("f"))


def _values_of_run(noise: float, n_repetitions: int, rng: np.random.Generator) -> Floats:
    """Return (functions x points x repetitions) of costs with planted behaviour, and of noise around constants."""
    kind = KINDS[int(rng.integers(len(KINDS)))]
    costs = disturb(plant(2, N_COSTS, rng).at(X), noise, kind, n_repetitions, rng)
    level = 10 ** rng.uniform(np.log10(SMALLEST), np.log10(LARGEST), (N_NOISE, 1)) * np.ones(len(X))
    return np.concatenate([costs, disturb(level, SCATTER, kind, n_repetitions, rng)])
