"""The stored summary against what the threads say.

Genuine writers are known to get some statistics wrong: the sum of squares holds plain sums, minima depend on the order
of threads, counts include threads that touch a context in any scope. Such a difference is a note; a wrong sum is
damage.
Threads are streamed once per batch of metrics, so that memory is bounded however many metrics and contexts there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from callgrove.formats.hpctoolkit.values import DatabaseValues
from callgrove.formats.interface import Problem
from callgrove.model.arrays import Bools, Floats, Ints
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment, Severity
from callgrove.model.metrics import Metric, Scope

__all__ = ["TOLERANCE", "combined", "problems_of_summaries"]

TOLERANCE = 1e-9  # relative to the parts of a sum, which may have been added in another order
BATCH_CELLS = 1_000_000  # contexts x metrics that are combined in one pass over the threads
DEFECTS = {
    "count": "the writer counts threads that touch the context in any scope",
    "min": "the writer's minima depend on the order of threads",
}


@dataclass(frozen=True)
class Combined:
    """What the threads say about one metric, per context. `parts` adds up absolute values: the scale of rounding."""

    total: Floats
    parts: Floats
    squares: Floats
    count: Floats
    low: Floats
    high: Floats

    def statistic(self, name: str) -> Floats | None:
        named = {"": self.total, "sum of squares": self.squares, "count": self.count, "min": self.low, "max": self.high}
        return named.get(name)


def problems_of_summaries(experiment: Experiment, values: DatabaseValues) -> Iterator[Problem]:
    """Every metric of a stored summary that differs from the threads."""
    for summary in experiment.profiles.summaries.tolist():
        if values.by_profile is None or values.by_profile.broken[summary]:
            continue
        stored = values.profile(summary)
        bases = {k: experiment.metrics.find(m.name, m.scope) for k, m in enumerate(experiment.metrics)}
        for base, threads in combined(experiment, sorted({base for base in bases.values() if base is not None})):
            for row in (k for k, of in bases.items() if of == base and values.belongs_in_summary(k)):
                part = stored.take(stored.metric == row)
                have = np.zeros(len(experiment.contexts))
                have[part.context] = part.value
                yield from _difference(experiment, values, summary, experiment.metrics[row], have, threads)


def combined(experiment: Experiment, rows: list[int]) -> Iterator[tuple[int, Combined]]:
    """What the threads say about each of some metrics, in passes over the threads of bounded memory."""
    step = max(1, BATCH_CELLS // max(1, len(experiment.contexts)))
    for first in range(0, len(rows), step):
        batch = rows[first : first + step]
        yield from zip(batch, _combine(experiment, batch), strict=True)


def _combine(experiment: Experiment, rows: list[int]) -> list[Combined]:
    """One pass over the threads for some metrics."""
    n = len(experiment.contexts)
    shape = (len(rows), n)
    total, parts, squares, count = (np.zeros(shape) for _ in range(4))
    low, high = np.full(shape, np.inf), np.full(shape, -np.inf)
    place = np.full(len(experiment.metrics), -1)
    place[rows] = np.arange(len(rows))
    for block in experiment.values.blocks(experiment.profiles.measured, np.array(rows)):
        part = block.triples()
        at = (place[part.metric], part.context)
        with np.errstate(invalid="ignore", over="ignore"):  # values need not be finite
            np.add.at(total, at, part.value)
            np.add.at(parts, at, np.abs(part.value))
            np.add.at(squares, at, part.value**2)
            np.add.at(count, at, 1)
            np.minimum.at(low, at, part.value)
            np.maximum.at(high, at, part.value)
    low[count == 0] = high[count == 0] = 0
    return [Combined(*(a[k] for a in (total, parts, squares, count, low, high))) for k in range(len(rows))]


def _close(a: Floats, b: Floats, scale: Floats) -> Bools:
    with np.errstate(invalid="ignore", over="ignore"):
        near: Bools = np.abs(a - b) <= TOLERANCE * scale
    same: Bools = near | (a == b) | (np.isnan(a) & np.isnan(b))
    return same


def _difference(
    experiment: Experiment, values: DatabaseValues, summary: int, metric: Metric, have: Floats, threads: Combined
) -> Iterator[Problem]:
    want = threads.statistic(metric.statistic)
    if want is None:
        return
    scale = threads.parts if not metric.statistic else np.abs(want)
    wrong: Ints = np.flatnonzero(~_close(have, want, scale))
    if metric.scope == Scope.LEXICAL:  # genuine summaries subtract nested loops, genuine threads do not
        wrong = wrong[experiment.contexts.kind[wrong] != ContextKind.LOOP]
    if not len(wrong):
        return
    defect = DEFECTS.get(metric.statistic, "")
    if metric.statistic == "sum of squares" and _close(have, threads.total, threads.parts).all():
        defect = "the writer stored plain sums"
    at, id_ = wrong[0], int(experiment.contexts.source_id[wrong[0]])
    what = f"{metric.name} ({', '.join(filter(None, (metric.scope.word, metric.statistic)))})"
    example = f"context {id_}: {have[at]:g} is stored, {want[at]:g} is right"
    text = f"{what}: {len(wrong)} contexts differ from the threads, e.g. {example}"
    assert values.by_profile is not None
    yield Problem(
        Severity.NOTE if defect else Severity.DAMAGE,
        str(values.by_profile.file.path),
        f"profile {summary}",
        f"{text} ({defect})" if defect else text,
    )
