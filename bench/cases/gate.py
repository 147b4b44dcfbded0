"""How often the gate alarms without a change, and how often it sees one: a simulation.

A program of 300 functions whose shares fall as 1/k^1.2, of which 26 have at least 0.5 %. The cost of a large function
scatters by a standard deviation s from run to run; that of small ones by more, as sampling does. A change is planted in
the third largest function. What disturbs runs besides:

    log-normal    nothing
    outliers      5 % of all costs are larger, by 30 % on average
    heavy         noise of a Student t with 3 degrees of freedom, of the same standard deviation
    common        another 1 % that all functions of a run share

Reports without a change that call anything slower, the whole program included, are false alarms. Everything is drawn
with fixed seeds, so the numbers are the same wherever they are computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np

from bench.conditions import Conditions
from bench.results import Finding
from callgrove.analysis.gate.decision import Gate, Limits, decide
from callgrove.analysis.gate.orders import Sides
from callgrove.arrays import Floats
from callgrove.model.metrics import Metric, Scope

__all__ = ["NOISES", "Program", "count_alarms", "count_detected", "count_overlooked", "count_seen", "run"]

N_FUNCTIONS, FALL, MIN_SHARE = 300, 1.2, 0.005
CHANGED = 2  # the third largest function
SAMPLING = 0.01  # a function of this share has as much noise from sampling as from all else
N_DRAWN = 999  # orders, where there are more than 20,000: ten times fewer than in a report
N_QUIET, N_CHANGED = 1_000, 200  # pairs
NOISES = ("log-normal", "outliers", "heavy", "common")
MOST_ALARMS, MOST_OVERLOOKED = 0.01, 0.05
TIME = Metric("time", Scope.EXCLUSIVE, "sec")


@dataclass(frozen=True)
class Program:
    """What is measured: `n` runs of each side with noise `s`, and by how much the changed function is slower. `drift`
    is by how much the machine is slower at the last run than at the first; the sides run in turn or in blocks."""

    n: int
    s: float
    noise: str = "log-normal"
    change: float = 0.0
    assumed: float | None = None
    drift: float = 0.0
    in_turn: bool = True

    def report(self, seed: int) -> Gate:
        """Measure both sides once, and compare them."""
        random = np.random.default_rng([seed, self.n, NOISES.index(self.noise)])
        costs = shares()[:, None] * np.exp(self._scatter(random))
        costs[CHANGED, self.n :] *= 1 + self.change
        whole = costs.sum(axis=0)
        rows = np.flatnonzero(costs.sum(axis=1) >= MIN_SHARE * whole.sum())
        limits = Limits(assume_noise=self.assumed)
        names = [f"f{row}" for row in rows.tolist()]
        return decide(names, costs[rows], whole, Sides(self.n, self.n), TIME, limits, N_DRAWN)

    def _scatter(self, random: np.random.Generator) -> Floats:
        size = N_FUNCTIONS, 2 * self.n
        deviation = self.s * np.sqrt(1 + SAMPLING / shares())[:, None]
        if self.noise == "heavy":
            return deviation * random.standard_t(3, size) / sqrt(3)
        out = deviation * random.standard_normal(size) + self.drift * self._times()
        if self.noise == "outliers":
            out += np.log1p(random.exponential(0.3, size)) * (random.random(size) < 0.05)
        if self.noise == "common":
            out += 0.01 * random.standard_normal(size[1])
        return out

    def _times(self) -> Floats:
        """Return when each run took place, from 0 to 1."""
        places = np.arange(2 * self.n).reshape(self.n, 2).T.ravel() if self.in_turn else np.arange(2 * self.n)
        times: Floats = places / (2 * self.n - 1)
        return times


def shares() -> Floats:
    """Return the part of the cost that each function has."""
    parts = np.arange(1, N_FUNCTIONS + 1, dtype=np.float64) ** -FALL
    whole: Floats = parts / parts.sum()
    return whole


def count_alarms(program: Program, n_pairs: int = N_QUIET) -> int:
    """Return how many reports of a program without a change fail."""
    return sum(program.report(seed).verdict == "slower" for seed in range(n_pairs))


def count_seen(program: Program, n_pairs: int = N_CHANGED) -> int:
    """Return how many reports call the changed function slower."""
    return sum(_verdict(program.report(seed)) == "slower" for seed in range(n_pairs))


def count_overlooked(program: Program, n_pairs: int = N_CHANGED) -> int:
    """Return how many reports call the changed function the same."""
    return sum(_verdict(program.report(seed)) == "same" for seed in range(n_pairs))


def count_detected(program: Program, n_pairs: int = N_CHANGED) -> int:
    """Return how many reports see a change of the size that another report of the same program calls detectable."""
    seen = 0
    for seed in range(n_pairs):
        row = next(row for row in program.report(seed).rows if row.path == f"f{CHANGED}")
        seen += _verdict(replace(program, change=row.detectable or 0.0).report(seed + n_pairs)) == "slower"
    return seen


def _verdict(report: Gate) -> str:
    return next(row.verdict for row in report.rows if row.path == f"f{CHANGED}")


def run(conditions: Conditions) -> Iterator[Finding]:
    """Fewer pairs where databases are smaller: the limits are for the full number."""
    scale = float(conditions.largest)
    n_quiet, n_changed = (max(1, round(n * scale)) for n in (N_QUIET, N_CHANGED))
    for noise in NOISES:
        for n in (5, 10, 20):
            program = Program(n, 0.01, noise)
            what = f"false alarms, {n} + {n}, s = 1 %, {noise}"
            yield _count(what, count_alarms, program, n_quiet, at_most=MOST_ALARMS)
    for n in (5, 10):
        for in_turn, order in ((True, "in turn"), (False, "one after the other")):
            program = Program(n, 0.01, drift=0.02, in_turn=in_turn)
            limit = MOST_ALARMS if in_turn else None
            what = f"false alarms, {n} + {n}, s = 1 %, drift of 2 %, {order}"
            yield _count(what, count_alarms, program, n_quiet, at_most=limit)
    for change in (0.03, 0.05):
        for n, s, noise, least in POWERS[change]:
            program = Program(n, s, noise, change)
            what = f"{change:.0%} seen, {n} + {n}, s = {100 * s:g} %, {noise}"
            yield _count(what, count_seen, program, n_changed, at_least=least)
    for n, s, noise, promised in DETECTABLE:
        program = Program(n, s, noise)
        what = f"{n} + {n}, s = {100 * s:g} %, {noise}"
        yield _count(
            f"a change called detectable is seen, {what}", count_detected, program, n_changed, at_least=promised
        )
        program = replace(program, change=0.03)
        yield _count(f"3% called the same, {what}", count_overlooked, program, n_changed, at_most=MOST_OVERLOOKED)
    for n, s, assumed in ((1, 0.01, 0.01), (1, 0.01, 0.02), (3, 0.01, 0.01), (3, 0.01, 0.02)):
        program = Program(n, s, assumed=assumed)
        what = f"{n} + {n}, s = {100 * s:g} %, {100 * assumed:g} % assumed"
        limit = MOST_ALARMS if assumed > s else None
        yield _count(f"false alarms, {what}", count_alarms, program, n_quiet, at_most=limit)
        for change in (0.05, 0.1):
            yield _count(f"{change:.0%} seen, {what}", count_seen, replace(program, change=change), n_changed)


# Runs of each side, s, noise, and how often a change is seen at least that another report called detectable. The error
# of a few runs is known so badly that fewer are seen than the 95 % which detectable is meant for.
DETECTABLE: list[tuple[int, float, str, float | None]] = [
    (5, 0.005, "log-normal", None),
    (5, 0.01, "log-normal", None),
    (7, 0.01, "log-normal", None),
    (10, 0.01, "log-normal", 0.85),
    (10, 0.01, "outliers", 0.85),
    (20, 0.02, "common", 0.85),
]

# Runs of each side, s, noise, and the least share of reports that see the change, where one is promised.
POWERS: dict[float, list[tuple[int, float, str, float | None]]] = {
    0.03: [
        (5, 0.005, "log-normal", 0.8),
        (5, 0.01, "log-normal", None),
        (7, 0.005, "log-normal", 0.95),
        (7, 0.005, "outliers", 0.85),
        (7, 0.01, "log-normal", None),
        (10, 0.01, "log-normal", None),
        (10, 0.01, "outliers", None),
        (12, 0.01, "log-normal", 0.95),
        (12, 0.01, "outliers", None),
        (20, 0.01, "log-normal", 0.95),
        (20, 0.01, "outliers", 0.95),
        (20, 0.01, "common", 0.9),
        (20, 0.02, "log-normal", None),
        (20, 0.03, "log-normal", None),
    ],
    0.05: [
        (5, 0.005, "log-normal", 0.95),
        (5, 0.01, "log-normal", None),
        (7, 0.01, "log-normal", 0.95),
        (10, 0.01, "log-normal", 0.95),
        (10, 0.01, "outliers", 0.95),
        (10, 0.02, "log-normal", None),
        (20, 0.02, "log-normal", 0.95),
        (20, 0.02, "common", None),
        (20, 0.03, "log-normal", None),
    ],
}


def _count(
    what: str,
    count: Callable[[Program, int], int],
    program: Program,
    n_pairs: int,
    *,
    at_most: float | None = None,
    at_least: float | None = None,
) -> Finding:
    """Return how many of 1,000 reports; a limit is a share of them."""
    value = 1000 * count(program, n_pairs) / n_pairs
    most, least = (None if limit is None else round(1000 * limit) for limit in (at_most, at_least))
    return Finding("gate", what, value, "of 1,000 reports", most, least, f"{n_pairs:,} pairs")
