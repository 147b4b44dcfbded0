"""What every profile spends where: whole samples, so that all sums are exact in any order of adding.

A profile draws samples on lines, hot ones more often. What lies above a sampled line has inclusive cost, so a profile
touches whole call paths. How many samples give the wanted number of values is found by trial on a few profiles.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bench.database.tree import LINE, Tree
from callgrove.arrays import Bools, Floats, Ints

__all__ = ["SCOPES", "Costs", "Measured", "Rows"]

SCOPES = ("point", "function", "execution")
SECONDS_PER_SAMPLE = 1 / 256  # a power of two: seconds are exact as well
EVENTS_PER_SAMPLE = 10007  # of the other metrics, times the metric's number
N_AT_ONCE = 16  # profiles; bounds memory: 16 profiles x 50,000 contexts x 3 metrics x 8 bytes are 19 MB
N_IN_TRIALS = 4  # profiles
HEAT = 0.6  # exponent of the power law by which lines are hot


@dataclass(frozen=True)
class Rows:
    """The values of one profile by ascending context id: `context` repeats for every metric that it has."""

    context: Ints
    metric: Ints
    value: Floats


@dataclass(frozen=True)
class Measured:
    """A batch of profiles: samples[profile, context id, metric id], and which of them are stored."""

    first: int  # number of the first of the profiles, from 0
    samples: Ints
    stored: Bools

    def rows(self) -> Iterator[Rows]:
        """Profile after profile."""
        unit = units(self.samples.shape[2])
        for samples, stored in zip(self.samples, self.stored, strict=True):
            context, metric = np.nonzero(stored)
            yield Rows(context, metric, samples[context, metric] * unit[metric])


def units(n_metrics: int) -> Floats:
    """What one sample counts, per metric id: seconds in the first three, events in the others."""
    quantity = np.repeat(np.arange(n_metrics // len(SCOPES)), len(SCOPES))
    return np.where(quantity == 0, SECONDS_PER_SAMPLE, EVENTS_PER_SAMPLE * quantity)


class Costs:
    """All profiles of one database. The same arguments give the same numbers."""

    def __init__(self, tree: Tree, n_profiles: int, n_metrics: int, density: float, full_rows: bool, seed: int) -> None:
        self.tree, self.n_profiles, self.n_metrics = tree, n_profiles, n_metrics
        self.full_rows, self.seed = full_rows, seed
        self._lines = np.flatnonzero(tree.lexical_type == LINE)
        heat = np.random.default_rng([seed, 1]).permutation(np.arange(1.0, len(self._lines) + 1)) ** -HEAT
        self._heat = np.cumsum(heat) / heat.sum()
        self.n_samples = self._samples_for(density * len(tree) * n_metrics)

    def batches(self) -> Iterator[Measured]:
        """A few profiles at a time."""
        for first in range(0, self.n_profiles, N_AT_ONCE):
            yield self._batch(first, min(N_AT_ONCE, self.n_profiles - first), self.n_samples)

    def _batch(self, first: int, n: int, n_samples: int) -> Measured:
        execution, point = self._samples(first, n, n_samples)
        function = self.tree.lexical.sums(point)
        one = np.zeros((n, len(self.tree) + 1, len(SCOPES)), np.int64)
        one[:, self.tree.id] = np.stack([point, function, execution], axis=2)
        one[:, 0, -1] = execution[:, 0]  # the file's root has the inclusive cost only
        samples = np.tile(one, (1, 1, self.n_metrics // len(SCOPES)))
        return Measured(first, samples, samples > 0)

    def _samples(self, first: int, n: int, n_samples: int) -> tuple[Ints, Ints]:
        """Inclusive and own samples per profile and context."""
        rng = np.random.default_rng([self.seed, 2, first])
        drawn = self._lines[np.searchsorted(self._heat, rng.random((n, n_samples)))]
        point = np.zeros((n, len(self.tree)), np.int64)
        np.add.at(point, (np.arange(n)[:, None], drawn), 1)
        execution = self.tree.calls.sums(point)
        if self.full_rows:  # every context that is there has cost of its own, and so a value in every scope
            point += execution > 0
            execution = self.tree.calls.sums(point)
        return execution, point

    def _samples_for(self, n_values: float) -> int:
        """How many samples a profile needs to have about that many values."""
        n = min(N_IN_TRIALS, self.n_profiles)
        high = 1
        while high < 64 * len(self.tree) and self._batch(0, n, high).stored.sum() < n * n_values:
            high *= 2
        low = high // 2
        while high - low > 1:
            middle = (low + high) // 2
            if self._batch(0, n, middle).stored.sum() < n * n_values:
                low = middle
            else:
                high = middle
        return high
