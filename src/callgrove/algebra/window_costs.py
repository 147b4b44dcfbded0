"""The costs of a window of time, made of traces: `callgrove top --window 10%:20%`.

Values that a file stores are of the whole run, so nothing of them is known for a part of it. Traces tell:

    samples    a sample stands for the time until the next one of its line; the last one for nothing. One metric,
               `time`, over the same contexts
    spans      a calling-context profile is folded from them anew: times are those inside of the window, and what
               begins there is counted. Where a span lies in the tree does not depend on the window

What the file stores is gone from the result, as are traces outside of the window.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from callgrove.arrays import ABSENT, Ints
from callgrove.errors import UsageError
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextTree
from callgrove.model.experiment import Experiment, InputWarning, Severity
from callgrove.model.metrics import Metric, Metrics, Scope
from callgrove.model.profiles import PROFILER, ProfileKind
from callgrove.model.selection import select
from callgrove.model.traces.events import Samples, Window
from callgrove.model.traces.profile_from_spans import Folding, Part, fold
from callgrove.model.values import ArrayValues, SparseBlock, ValueBackend, Values

__all__ = ["WHOLE_RUN", "costs_in_window"]

TIME = Metric("time", Scope.EXCLUSIVE, "s", description="Time of samples in the window")
NS = 1e-9
WHOLE_RUN = "costs are times of the traces in the window; what the input stores is of the whole run"


def costs_in_window(experiment: Experiment, window: Window) -> Experiment:
    """Return the experiment whose costs are those of its traces in a window, in ns of their clock."""
    traces = experiment.traces
    if not traces.n_spans and not traces.n_samples:
        raise UsageError(f"{experiment.path}: has no traces, so nothing is known of a window of time")
    make = _fold_spans if traces.n_spans else _add_up_samples
    tree, metrics, backend = make(experiment, window)
    part = select(experiment, window=window)
    return replace(
        part,
        contexts=tree,
        metrics=metrics,
        values=Values(backend, metrics, part.profiles, tree),
        warnings=(*part.warnings, InputWarning(Severity.NOTE, WHOLE_RUN)),
    )


Made = tuple[ContextTree, Metrics, ValueBackend]


def _add_up_samples(experiment: Experiment, window: Window) -> Made:
    """Return the time of each context in each profile, over the contexts that there are."""
    blocks = [
        _measure_line(profile, samples, window)
        for profile, metric, samples in experiment.traces.lines()
        if metric < 0 and len(samples)
    ]
    columns = [np.concatenate([getattr(block, name) for block in blocks]) for name in ("profile", "context", "value")]
    rows = SparseBlock(columns[0], columns[1], np.zeros(len(columns[0]), np.int32), columns[2])
    return experiment.contexts, Metrics((TIME,)), ArrayValues(rows, experiment.profiles)


def _measure_line(profile: int, samples: Samples, window: Window) -> SparseBlock:
    """Return how long a profile was in each context, in seconds. Of equal times, the last sample counts."""
    edges = np.clip(samples.time_ns, *window)
    lasting = np.diff(edges)
    used = (lasting > 0) & (samples.context[:-1] >= 0)
    contexts, number = np.unique(samples.context[:-1][used], return_inverse=True)
    seconds = np.bincount(number, lasting[used], len(contexts)) * NS
    rows = np.zeros((2, len(contexts)), np.int32)
    return SparseBlock(rows[0] + np.int32(profile), contexts.astype(np.int32), rows[1], seconds)


def _fold_spans(experiment: Experiment, window: Window) -> Made:
    """Return a calling-context profile of spans, folded part by part as when databases are opened."""
    builder = ExperimentBuilder(experiment.format, title=experiment.title, path=experiment.path)
    for _ in range(len(experiment.profiles)):
        builder.add_profile(ProfileKind.THREAD, [])
    process, device = (_climb(experiment, kind) for kind in ("process", "device"))
    every = np.arange(len(experiment.profiles), dtype=np.int32)
    folding = Folding(builder)
    is_program = (device == ABSENT) & (_climb(experiment, PROFILER) == ABSENT)
    folded = fold(Part(experiment.traces, every, process, device, is_program, window))
    if folded is not None:
        folding.add(folded)
    folding.finish()
    made = builder.build()
    return made.contexts, made.metrics, made.values.backend


def _climb(experiment: Experiment, kind: str) -> Ints:
    """Return the place of a kind that each profile lies in; -1 where there is none."""
    system = experiment.system
    place = np.full(len(system) + 1, ABSENT, np.int64)  # the last entry is for what has no place
    for node, above in enumerate(system.parent.tolist()):
        place[node] = node if system.kind[node] == kind else place[above]
    return place[experiment.profiles.system]
