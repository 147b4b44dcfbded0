"""Measurement files written to disk and opened, for tests."""

from __future__ import annotations

from pathlib import Path

from callgrove.formats.registry import open_path
from callgrove.model.experiment import Experiment


def written(folder: Path, data: bytes, name: str = "a.hpcrun") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def opened(path: Path) -> Experiment:
    found = open_path(path)
    assert isinstance(found, Experiment)
    return found


def values_by_label(experiment: Experiment) -> dict[tuple[str, str], float]:
    """(label of the context, metric) -> value, where labels are unique."""
    found = {}
    for block in experiment.values.blocks():
        rows = block.triples()
        for context, metric, value in zip(rows.context, rows.metric, rows.value, strict=True):
            key = experiment.contexts.label(int(context)), experiment.metrics[int(metric)].name
            assert key not in found
            found[key] = value.item()
    return found
