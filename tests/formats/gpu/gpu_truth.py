"""What an experiment of a GPU run says, in the words of the run that it was made from."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from callgrove.formats.registry import open_path, open_paths
from callgrove.model.experiment import Experiment
from callgrove.model.traces.events import LABEL, SPAN_COLUMNS, SideRows, SpanKind
from tests.formats.gpu.gpu_databases import Run

SIDES = {
    "kernel": ("grid_x", "grid_y", "grid_z", "workgroup_x", "workgroup_y", "workgroup_z", "lds"),
    "copy": ("bytes",),
    "alloc": ("bytes", "address"),
}
PLACE = ("node", "rank", "thread", "gpu_device", "gpu_stream")


def opened(*paths: object) -> Experiment:
    found = open_paths([str(path) for path in paths]) if len(paths) > 1 else open_path(str(paths[0]))
    assert isinstance(found, Experiment)
    return found


def spans(experiment: Experiment, *columns: str) -> list[tuple[Any, ...]]:
    """Every span; `name`, `label` and `category` as texts, `kind` as a word."""
    backend = experiment.traces.spans_backend
    out: list[tuple[Any, ...]] = []
    for chunk in experiment.traces.spans(columns):
        cells = []
        for name in columns:
            values = chunk[name].tolist()
            if name in ("name", LABEL, "category"):
                assert backend is not None
                values = [backend.strings[v] if v >= 0 else None for v in values]
            cells.append([SpanKind(v).word for v in values] if name == "kind" else values)
        out += zip(*cells, strict=True)
    return out


def everything(experiment: Experiment) -> Counter[tuple[Any, ...]]:
    """All spans with their place, times, texts and what belongs to them, whatever their order."""
    sides = {name: SideRows(experiment.traces, name) for name in SIDES}
    places = [experiment.profiles.identity_list(name) for name in PLACE]
    columns = ("profile", "kind", "category", "name", LABEL, "start_ns", "end_ns", "correlation")
    rows = iter(spans(experiment, *columns))
    found: Counter[tuple[Any, ...]] = Counter()
    for chunk in experiment.traces.spans(SPAN_COLUMNS):
        extra = []
        for side, names in SIDES.items():
            table, row = sides[side].of(chunk)
            for name in names:
                have = table is not None and name in table.columns
                cells = np.asarray(table.columns[name])[row] if table is not None and have else np.full(len(row), -1)
                extra.append(np.where(row >= 0, cells, -1).tolist())
        for k in range(len(chunk["span"])):
            profile, *said = next(rows)
            place = (*(column[profile] for column in places), experiment.profiles.name[profile])
            found[place, tuple(said), tuple(column[k] for column in extra)] += 1
    return found


def totals(experiment: Experiment, kind: str) -> dict[str, tuple[int, int]]:
    """By name: how many spans of a kind, and for how long in all."""
    found: dict[str, tuple[int, int]] = {}
    for word, name, start, end in spans(experiment, "kind", "name", "start_ns", "end_ns"):
        if word == kind:
            count, total = found.get(name, (0, 0))
            found[name] = count + 1, total + end - start
    return found


def gpu_time(experiment: Experiment) -> int:
    """Nanoseconds over all contexts."""
    return round(experiment.root_total("gpu_time") * 1e9)


def expected_gpu_time(*runs: Run) -> int:
    return sum(event.length for run in runs for event in run.operations)


def extras(experiment: Experiment) -> dict[tuple[int, str], str]:
    """What stands in columns that no reader knows, by span and name."""
    table = experiment.traces.side("extra")
    if table is None:
        return {}
    names, values = (np.asarray(table.columns[name]).tolist() for name in ("name", "value"))
    return dict(zip(zip(table.span.tolist(), names, strict=True), values, strict=True))
