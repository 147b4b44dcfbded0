"""An opened HPCToolkit database in the file's own ids, for comparison with what others say about the file."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from callgrove.formats.hpctoolkit.values import DatabaseValues
from callgrove.formats.registry import open_path
from callgrove.model.experiment import Experiment
from callgrove.model.values import SparseBlock

Key = tuple[int, int, int]  # profile, context, metric
Values = dict[Key, float]


def open_database(path: Path) -> Experiment:
    found = open_path(path)
    assert isinstance(found, Experiment)
    return found


def backend(experiment: Experiment) -> DatabaseValues:
    found = experiment.values.backend
    assert isinstance(found, DatabaseValues)
    return found


def keyed(experiment: Experiment, block: SparseBlock) -> Values:
    """The values of a block by the file's ids; each key occurs once."""
    metric_ids = np.array([m.source_id for m in experiment.metrics])
    columns = (
        experiment.profiles.source_id[block.profile],
        experiment.contexts.source_id[block.context],
        metric_ids[block.metric],
    )
    keys = zip(*(column.tolist() for column in columns), strict=True)
    found = dict(zip(keys, block.value.tolist(), strict=True))
    assert len(found) == len(block)
    return found


def values_by_profile(experiment: Experiment) -> Values:
    """Everything that streaming gives, and the values of the file's root, context 0."""
    found: Values = {}
    for block in experiment.values.blocks(np.arange(len(experiment.profiles))):
        found.update(keyed(experiment, block.triples()))
    for profile in range(len(experiment.profiles)):
        rows, numbers = backend(experiment).root(profile)
        for row, number in zip(rows.tolist(), numbers.tolist(), strict=True):
            metric = experiment.metrics[row].source_id
            assert metric is not None
            found[profile, 0, metric] = number
    return found


def values_by_context(experiment: Experiment) -> Values:
    """Every context asked for by itself; the file's root is none."""
    found: Values = {}
    for context in range(len(experiment.contexts)):
        found.update(keyed(experiment, experiment.values.context(context)))
    return found


def samples(experiment: Experiment) -> dict[int, list[tuple[int, int]]]:
    """{profile: [(time, context id)]}; idle is 0."""
    ids = np.append(experiment.contexts.source_id, 0)  # -1 picks the last
    found = {}
    for profile, _, line in experiment.traces.lines():
        found[profile] = list(zip(line.time_ns.tolist(), ids[line.context].tolist(), strict=True))
    return found
