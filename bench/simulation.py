"""Series with planted behaviour and noise, as modeling.md B3 makes them; for `bench trust` and for tests."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from callgrove.arrays import Floats, Ints
from callgrove.model.study.series import Study
from callgrove.modeling.functions import term_values, usual_terms

X = np.array([4.0, 8, 16, 32, 64])
KINDS = ("uniform", "one-sided")


@dataclass(frozen=True, eq=False)
class Planted:
    """Functions c0 + c1 * term of one parameter."""

    term: Ints
    c0: Floats
    c1: Floats
    x: Floats

    def at(self, x: Floats) -> Floats:
        """Return (series x coordinates): what is true."""
        values: Floats = self.c0[:, None] + self.c1[:, None] * term_values(usual_terms(self.x), x)[self.term]
        return values


def plant(generator: int, n_series: int, rng: np.random.Generator, x: Floats = X) -> Planted:
    """Return functions: of generator 1 with coefficients of any size, of 2 with a constant that matters."""
    terms = usual_terms(x)
    term = rng.integers(0, len(terms), n_series)
    if generator == 1:
        return Planted(term, 10 ** rng.uniform(-3, 3, n_series), 10 ** rng.uniform(-3, 3, n_series), x)
    share = rng.uniform(0, 1, n_series)
    return Planted(term, 1 - share, share / term_values(terms, x[-1:])[term, 0], x)


def disturb(true: Floats, noise: float, kind: str, n_repetitions: int, rng: np.random.Generator) -> Floats:
    """Return (series x points x repetitions): factors of 1 +- noise / 2, or of 1 + what has that mean."""
    shape = (*true.shape, n_repetitions)
    factor = 1 + (noise * rng.uniform(-0.5, 0.5, shape) if kind == "uniform" else rng.exponential(noise / 2, shape))
    values: Floats = true[:, :, None] * factor
    return values


def study_of_values(values: Floats, x: Floats = X) -> Study:
    """Return a study of series f0, f1, ... of the metric `time`."""
    entries = (
        (f"f{number}", "time", point, repetitions.tolist())
        for number, series in enumerate(values)
        for point, repetitions in enumerate(series)
    )
    return Study.from_values(["p"], [[at] for at in x.tolist()], entries)
