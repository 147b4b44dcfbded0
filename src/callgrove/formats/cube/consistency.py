"""What `check` looks for: everything that reading tells, and what the values themselves tell."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from callgrove.formats.cube.values import WRAPPED
from callgrove.formats.interface import Problem, Progress
from callgrove.model.experiment import Experiment, Severity
from callgrove.model.metrics import Scope
from callgrove.model.values import DenseBlock

__all__ = ["problems"]


def problems(experiment: Experiment, progress: Progress) -> Iterator[Problem]:
    """Every problem; all values are read for it, one band of rows at a time."""
    for warning in experiment.warnings:
        if warning.severity == Severity.DAMAGE:
            yield Problem(warning.severity, experiment.path, "opening", warning.text)
    total, done = experiment.values.n_stored() or 0, 0
    wrapped: dict[int, int] = {}
    for block in experiment.values.blocks():
        done += len(block)
        progress("checking values", done, max(done, total))
        if isinstance(block, DenseBlock) and block.matrix.dtype == np.uint64:
            count = int(np.count_nonzero(block.matrix >= WRAPPED))
            wrapped[block.metric] = wrapped.get(block.metric, 0) + count
    for error in experiment.values.problems:
        yield Problem(Severity.DAMAGE, experiment.path, getattr(error, "section", "values"), str(error))
    for metric, count in wrapped.items():
        if count:
            text = f"{count} values are 2^63 or more: counters that went below zero; computed views leave them out"
            yield Problem(Severity.NOTE, experiment.path, experiment.metrics[metric].name, text)
    yield from _negative(experiment)


def _negative(experiment: Experiment) -> Iterator[Problem]:
    """Inclusive counters that are smaller than those below them."""
    for row, metric in enumerate(experiment.metrics):
        if metric.scope == Scope.INCLUSIVE and metric.dtype.upper().startswith("U") and metric.composite is None:
            if not (experiment.values.totals(row) > 0).any():
                continue
            found = int(np.count_nonzero(experiment.totals(metric.name, Scope.EXCLUSIVE) < 0))
            if found:
                who = "1 context has" if found == 1 else f"{found} contexts have"
                text = f"{who} less than what it calls: the exclusive value is negative"
                yield Problem(Severity.NOTE, experiment.path, metric.name, text)
