"""An experiment with another table of metrics, over the same contexts and profiles.

    with_metric_rows(experiment, rows)     each row says whose stored values it has, if any: see `NewRow`
    ComputedRows                           values of rows that are computed when they are asked for

Nothing is read or computed before that: this makes no more than the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from callgrove.arrays import ABSENT, Ints
from callgrove.errors import CallgroveError
from callgrove.model.computed_values import ChainedValues, Link
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Metric, Metrics
from callgrove.model.profiles import Profiles
from callgrove.model.traces.selected import TraceSelection
from callgrove.model.values import Block, SparseBlock, Values

__all__ = ["Compute", "ComputedRows", "NewRow", "with_metric_rows"]

Compute = Callable[[Ints | None, Ints | None], Iterator[Block]]  # of some profiles, and of some rows


class ComputedRows:
    """Values of rows that are computed when they are asked for; `rows` are those that `compute` knows."""

    def __init__(self, rows: Ints, profiles: Profiles, compute: Compute) -> None:
        self.problems: list[CallgroveError] = []
        self._rows, self._measured, self._compute = rows, profiles.measured, compute

    def n_stored(self) -> int | None:
        return None

    def summarises(self, metric: int) -> bool:
        return False

    def profile(self, profile: int, metrics: Ints | None = None) -> SparseBlock:
        return SparseBlock.concatenate([block.triples() for block in self.blocks(np.array([profile]), metrics)])

    def context(self, context: int) -> SparseBlock:
        parts = (block.triples() for block in self.blocks())
        return SparseBlock.concatenate([part.take(part.context == context) for part in parts])

    def blocks(self, profiles: Ints | None = None, metrics: Ints | None = None) -> Iterator[Block]:
        chosen = self._measured if profiles is None else np.intersect1d(profiles, self._measured)
        rows = self._rows if metrics is None else np.intersect1d(metrics, self._rows)
        return self._compute(chosen, rows) if len(chosen) and len(rows) else iter(())


@dataclass(frozen=True)
class NewRow:
    """A row of a new table of metrics, and the old row whose stored values it has; -1 where it has none."""

    metric: Metric
    stored: int = ABSENT


def with_metric_rows(
    experiment: Experiment, rows: Sequence[NewRow], computed: Sequence[tuple[Ints, Compute]] = ()
) -> Experiment:
    """Return the experiment with these metrics in place of its own; parents are numbers among the new rows. Values of
    old rows that none of them names are left out. `computed` gives the values of some new rows, by number."""
    metrics = Metrics(tuple(row.metric for row in rows), experiment.metrics.columns)
    new = np.full(len(experiment.metrics), ABSENT, np.int32)
    for number, row in enumerate(rows):
        if row.stored >= 0:
            new[row.stored] = number
    profiles, contexts = (np.arange(len(table), dtype=np.int32) for table in (experiment.profiles, experiment.contexts))
    links = [Link(experiment.values.backend, profiles, contexts, new)]
    for numbers, function in computed:
        kept = np.full(len(rows), ABSENT, np.int32)
        kept[numbers] = numbers
        links.append(Link(ComputedRows(numbers, experiment.profiles, function), profiles, contexts, kept))
    traces = experiment.traces
    if traces.samples is not None:  # whose lines are of metrics
        traces = TraceSelection(profiles, contexts, new).apply(traces)
    values = Values(ChainedValues(links), metrics, experiment.profiles, experiment.contexts)
    return replace(experiment, metrics=metrics, values=values, traces=traces, whole=None)
