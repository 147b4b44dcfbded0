"""What `check` notes of any experiment that no checksum tells: names and numbers that a measurement hardly has.

names       control characters, and bytes that are not text
values      no number at all; sizes that no counter or clock has; one that dwarfs all others; few negative ones among
            many that are not
sums        an inclusive cost that is less than that of what it includes

All of these are notes: a genuine tool may have written them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from callgrove.arrays import ABSENT, Array, Floats
from callgrove.errors import UsageError
from callgrove.formats.interface import Problem
from callgrove.model.experiment import Experiment, Severity
from callgrove.model.metrics import Aggregation, Metric, Scope

__all__ = ["find_implausible"]

STRANGE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffd]")
LEAST, MOST = 1e-100, 1e100  # sizes of values
DWARFS = 1000.0  # times all other values together
ENOUGH = 10  # values to compare one with
FEW = 20  # one negative value in so many is strange; in differences they are usual
TOLERANCE = 1e-6


def find_implausible(experiment: Experiment) -> Iterator[Problem]:
    """Yield a note for every kind of strange name and for every metric with strange values."""
    yield from _look_at_names(experiment)
    statistics = [_Values() for _ in experiment.metrics.rows]
    for block in experiment.values.blocks():
        part = block.triples()
        if part.value.dtype.names is None:
            for row in np.unique(part.metric).tolist():
                statistics[row].add(part.value[part.metric == row])
    for row, metric in enumerate(experiment.metrics.rows):
        if metric.derivation is None and metric.composite is None:
            for text in (*statistics[row].tell(), *_look_at_sums(experiment, row, metric)):
                yield Problem(Severity.NOTE, experiment.path, f"values of {metric.name}", text)


def _look_at_names(experiment: Experiment) -> Iterator[Problem]:
    regions = experiment.contexts.regions
    kinds = {
        "names": regions.strings,
        "files": regions.files.paths,
        "modules": regions.modules,
        "metrics": tuple(metric.name for metric in experiment.metrics.rows),
        "places": (*experiment.system.name, *experiment.profiles.name),
    }
    for what, texts in kinds.items():
        strange = [text for text in texts if STRANGE.search(text)]
        if strange:
            text = f"{len(strange)} of {len(texts)} have characters that names do not have, such as {strange[0][:60]!r}"
            yield Problem(Severity.NOTE, experiment.path, what, text)


class _Values:
    """What is strange about the values of one metric, added up block by block."""

    def __init__(self) -> None:
        self.n = self.n_missing = self.n_negative = self.n_strange = 0
        self.largest = self.total = 0.0

    def add(self, values: Array) -> None:
        with np.errstate(all="ignore"):
            numbers = values.astype(np.float64)
            sizes = np.abs(numbers[np.isfinite(numbers)])
            self.n += len(numbers)
            self.n_missing += int(np.isnan(numbers).sum())
            self.n_negative += int((numbers < 0).sum())
            self.n_strange += int((((sizes < LEAST) & (sizes > 0)) | (sizes > MOST)).sum())
            self.largest = max(self.largest, float(sizes.max(initial=0.0)))
            self.total += float(sizes.sum())

    def tell(self) -> Iterator[str]:
        if self.n_missing:
            yield f"{self.n_missing} of {self.n} are not numbers"
        if self.n_strange:
            yield f"{self.n_strange} of {self.n} have a size that nothing measured has"
        elif self.n > ENOUGH and self.largest > DWARFS * (self.total - self.largest) and self.largest < self.total:
            yield f"one of {self.n} is {DWARFS:.0f} times larger than all others together"
        if 0 < self.n_negative * FEW <= self.n:
            yield f"{self.n_negative} of {self.n} are negative"


def _look_at_sums(experiment: Experiment, row: int, metric: Metric) -> Iterator[str]:
    """Yield how many contexts cost less than what they contain, where inclusive costs are stored."""
    if metric.scope != Scope.INCLUSIVE or metric.aggregation != Aggregation.SUM or metric.statistic:
        return
    tree = experiment.contexts
    try:
        totals: Floats = experiment.values.totals(row)[: tree.n_listed].astype(np.float64)
    except UsageError:
        return
    parent = tree.parent[: tree.n_listed]
    if not np.isfinite(totals).all() or (totals < 0).any():
        return  # differences, and what is told already
    below = np.zeros(tree.n_listed)
    inside = parent != ABSENT
    np.add.at(below, parent[inside], totals[inside])
    if n := int((below > totals * (1 + TOLERANCE) + LEAST).sum()):
        yield f"{n} contexts cost less than what they contain"
