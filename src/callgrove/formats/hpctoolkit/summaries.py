"""The stored summary against what the threads say.

Genuine writers are known to get some statistics wrong: the sum of squares holds plain sums, minima depend on the order
of threads, counts include threads that touch a context in any scope. Such a difference is a note; a wrong sum is
damage. In lexical scope a loop of the summary has its function scope less that of the loops nested in it, which threads
do not subtract.
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
from callgrove.model.scopes import Recipe
from callgrove.model.values import SparseBlock

__all__ = ["TOLERANCE", "combined", "pair_text", "problems_of_summaries"]

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
            yield from _at_loops(experiment, values, summary, stored, base, threads)


def _at_loops(
    experiment: Experiment, values: DatabaseValues, summary: int, stored: SparseBlock, base: int, threads: Combined
) -> Iterator[Problem]:
    """Lexical scope of the summary at loops, which follows from function scope of the threads."""
    metrics, tree = experiment.metrics, experiment.contexts
    row = metrics.find(metrics[base].name, Scope.LEXICAL)
    if metrics[base].scope != Scope.FUNCTION or row is None or not values.belongs_in_summary(row):
        return
    part = stored.take(stored.metric == row)
    have = np.zeros(len(tree))
    have[part.context] = part.value
    want = Recipe(base, metrics[base], Scope.LEXICAL).apply(threads.total, tree)
    same = _close(have, want, threads.parts) | (tree.kind != ContextKind.LOOP)
    yield from _told(experiment, values, summary, metrics[row], np.flatnonzero(~same), have, want)


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
    defect = DEFECTS.get(metric.statistic, "")
    if metric.statistic == "sum of squares" and _close(have, threads.total, threads.parts).all():
        defect = "the writer stored plain sums"
    yield from _told(experiment, values, summary, metric, wrong, have, want, defect)


def _told(
    experiment: Experiment,
    values: DatabaseValues,
    summary: int,
    metric: Metric,
    wrong: Ints,
    have: Floats,
    want: Floats,
    defect: str = "",
) -> Iterator[Problem]:
    """One problem for all contexts in which a metric of the summary is wrong; a known defect is a note."""
    if not len(wrong):
        return
    at, id_ = wrong[0], int(experiment.contexts.source_id[wrong[0]])
    what = f"{metric.name} ({', '.join(filter(None, (metric.scope.word, metric.statistic)))})"
    stored, right = pair_text(float(have[at]), float(want[at]))
    example = f"context {id_}: {stored} is stored, {right} is right"
    text = f"{what}: {len(wrong)} contexts differ from the threads, e.g. {example}"
    assert values.by_profile is not None
    yield Problem(
        Severity.NOTE if defect else Severity.DAMAGE,
        str(values.by_profile.file.path),
        f"profile {summary}",
        f"{text} ({defect})" if defect else text,
    )


def pair_text(left: float, right: float) -> tuple[str, str]:
    """Two numbers that differ, short where their short forms differ as well."""
    short = f"{left:g}", f"{right:g}"
    return short if short[0] != short[1] else (repr(left), repr(right))
