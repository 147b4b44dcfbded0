"""What `check` verifies in a legacy database, beyond what reading already demands.

threads == XML       the sum over all metric-db files is the value in the XML, to its six digits
inclusive            at a node == over its children, the root included
traces               time order, known nodes, within the announced times
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from callgrove.binary.sources import Source
from callgrove.errors import CallgroveError
from callgrove.formats.hpctoolkit.consistency import problems_of_samples
from callgrove.formats.hpctoolkit.legacy_traces import LegacySamples
from callgrove.formats.hpctoolkit.legacy_values import LegacyValues
from callgrove.formats.interface import Problem, Progress, silent
from callgrove.model.arrays import Array, Bools
from callgrove.model.experiment import Experiment, Severity
from callgrove.model.metrics import Scope

__all__ = ["problems"]

DIGITS = 5e-6  # the relative error of six digits, rounded


def problems(experiment: Experiment, source: Source, progress: Progress = silent) -> Iterator[Problem]:
    """Everything that is wrong or remarkable."""
    for warning in experiment.warnings:
        yield Problem(warning.severity, str(source.path), "opening", warning.text)
    values = experiment.values.backend
    assert isinstance(values, LegacyValues)
    progress("checking values", 0, 2)
    yield from _summary(experiment, values)
    for row, metric in enumerate(experiment.metrics):
        if metric.scope == Scope.INCLUSIVE and not metric.statistic:
            yield from _inclusive(experiment, row)
    for met in values.problems:
        yield Problem(Severity.DAMAGE, experiment.path, "values", str(met))
    progress("checking traces", 1, 2)
    yield from _traces(experiment)


def _summary(experiment: Experiment, values: LegacyValues) -> Iterator[Problem]:
    """The values of the XML against the sum over all threads."""
    if not values.files or any(w.severity == Severity.DAMAGE for w in experiment.warnings):
        return  # a thread that could not be read is missing in the sum
    for summary in experiment.profiles.summaries.tolist():
        for row in np.unique(np.concatenate([file.rows for file in values.files.values()])).tolist():
            said = experiment.values.dense(summary, row)
            threads = experiment.values.totals(row, experiment.profiles.measured)
            wrong = np.flatnonzero(~_close(said, threads))
            if len(wrong):
                metric, at = experiment.metrics[row], int(wrong[0])
                where = (
                    f"node {int(experiment.contexts.source_id[at])}: {said[at]:g} in the XML, {threads[at]:g} in all"
                )
                text = (
                    f"{metric.name} ({metric.scope.word}): {len(wrong)} nodes differ from their threads, e.g. {where}"
                )
                yield Problem(Severity.DAMAGE, experiment.path, "summary", text)


def _inclusive(experiment: Experiment, row: int) -> Iterator[Problem]:
    """A node has at least what its children have; the rest is its own, which only statements have."""
    tree, n = experiment.contexts, experiment.contexts.n_listed
    totals = experiment.values.totals(row)[:n]
    below = np.zeros(n)
    inner = np.flatnonzero(tree.parent[:n] >= 0)
    with np.errstate(invalid="ignore", over="ignore"):  # values need not be finite
        np.add.at(below, tree.parent[inner], totals[inner])
    parents = np.zeros(n, np.bool_)
    parents[tree.parent[inner]] = True
    wrong = np.flatnonzero(parents & ~_close(totals, below))
    if len(wrong):
        at, metric = int(wrong[0]), experiment.metrics[row]
        where = f"node {int(tree.source_id[at])}: {totals[at]:g}, its children have {below[at]:g}"
        text = f"{metric.name}: {len(wrong)} nodes have other inclusive cost than their children, e.g. {where}"
        yield Problem(Severity.NOTE, experiment.path, "tree", text)


def _close(a: Array, b: Array) -> Bools:
    with np.errstate(invalid="ignore", over="ignore"):
        near: Bools = np.abs(a - b) <= 2 * DIGITS * np.maximum(np.abs(a), np.abs(b))
    same: Bools = near | (a == b) | (np.isnan(a) & np.isnan(b))
    return same


def _traces(experiment: Experiment) -> Iterator[Problem]:
    samples = experiment.traces.samples
    if not isinstance(samples, LegacySamples):
        return
    bounds: list[int] = []
    try:
        for _, _, line in experiment.traces.lines():
            bounds += [int(line.time_ns[0]), int(line.time_ns[-1])] if len(line) else []
    except CallgroveError as error:
        yield Problem(Severity.DAMAGE, experiment.path, "traces", str(error))
        return
    for line_number in sorted(samples.unordered):
        profile = int(samples.profile[line_number])
        text = "time runs backwards; the samples were sorted"
        yield Problem(Severity.NOTE, experiment.path, f"trace of profile {profile}", text)
    found = (min(bounds), max(bounds)) if bounds else None
    yield from problems_of_samples(experiment, samples.unknown, found, Severity.NOTE)
