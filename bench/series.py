"""Makes studies of any number of series: functions of one to three parameters with noise, straight from arrays."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from callgrove.arrays import Floats, freeze
from callgrove.model.study.series import Study

__all__ = ["SeriesShape", "study_of"]

AXES = ((4, 8, 16, 32, 64), (10, 20, 30, 40, 50), (1, 2, 3, 4, 5))
POWERS = (0.5, 1.0, 1.5, 2.0)
NOISE = 0.05


@dataclass(frozen=True)
class SeriesShape:
    """So many series over a full grid of 5 values for each parameter."""

    n_parameters: int
    n_series: int
    seed: int = 1

    @property
    def parameters(self) -> tuple[str, ...]:
        return ("p", "n", "m")[: self.n_parameters]

    @property
    def points(self) -> Floats:
        return np.array(list(product(*AXES[: self.n_parameters])), np.float64)

    def values(self) -> Floats:
        """(series x points): c0 + c1 * product of powers + c2 * the first parameter, 5 % noise."""
        random = np.random.default_rng(self.seed)
        points, n = self.points, self.n_series
        powers = random.choice(POWERS, (n, 1, self.n_parameters))
        c0, c1, c2 = (random.uniform(low, high, (n, 1)) for low, high in ((1, 10), (0.1, 10), (0, 5)))
        values = c0 + c1 * np.prod(points**powers, axis=2) + c2 * points[:, 0]
        return np.asarray(values * random.uniform(1 - NOISE, 1 + NOISE, values.shape), np.float64)


def study_of(shape: SeriesShape) -> Study:
    """One value per cell, so all measures are the same."""
    values = freeze(shape.values())
    n = shape.n_series
    return Study(
        parameters=shape.parameters,
        points=freeze(shape.points),
        callpaths=tuple(f"f{k}" for k in range(n)),
        metrics=("time",),
        series_callpath=freeze(np.arange(n, dtype=np.int32)),
        series_metric=freeze(np.zeros(n, np.int32)),
        mean=values,
        median=values,
        minimum=values,
        maximum=values,
        std=freeze(np.zeros_like(values)),
        repetitions=freeze(np.ones(values.shape, np.int64)),
        present=freeze(np.ones(values.shape, np.bool_)),
    )
