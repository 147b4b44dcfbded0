"""The costs of a window of time: parts of the window add up, and every way to ask gives the same."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import callgrove
from callgrove.errors import UsageError
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Scope
from callgrove.model.profiles import ProfileKind
from callgrove.model.selection import time_span
from callgrove.model.traces.events import ArraySamples, Samples
from tests.analysis.traced import sampled
from tests.cli.commands import Capture, rows
from tests.formats.samples import CORPUS
from tests.patterns.tree_t import tree_t

MPI4 = CORPUS / "hpctoolkit" / "release" / "mpi4.d"


def test_a_sample_stands_for_the_time_until_the_next() -> None:
    builder = ExperimentBuilder("test", path="made up")
    main = builder.add_context(-1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, "main"))
    leaf = builder.add_context(main, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, "leaf"))
    builder.add_profile(ProfileKind.THREAD, [(2, 0, 0, 3)])
    line = Samples(np.array([10, 20, 20, 50, 70], np.int64), np.array([main, main, leaf, -1, leaf], np.int32))
    builder.set_traces(samples=ArraySamples(np.zeros(1, np.int32), np.full(1, -1, np.int32), (line,)))
    experiment = builder.build()
    for window, wanted in (((0, 100), (10, 30)), ((15, 30), (5, 10)), ((50, 100), (0, 0)), ((30, 31), (0, 1))):
        part = experiment.in_window(window)
        exclusive = part.totals("time", Scope.EXCLUSIVE)
        assert tuple(np.round(exclusive * 1e9).astype(int)[[main, leaf]]) == wanted


def test_a_sample_alone_stands_for_no_time() -> None:
    assert sampled([(5, 5)], [(7, 3)]).in_window((0, 100)).root_total("time") == 0


def split_points(experiment: Experiment) -> list[int]:
    span = time_span(experiment.traces)
    assert span is not None
    return [span[0], *(span[0] + (span[1] - span[0]) * k // 7 for k in (1, 2, 5)), span[1] + 1]


@pytest.mark.parametrize("name", ["own/rocpd/small", "own/rocpd/same_pid"])
def test_parts_of_the_time_add_up_to_the_run(name: str, shared: Path) -> None:
    experiment = callgrove.open(shared / "data" / name)
    assert isinstance(experiment, Experiment)
    edges = split_points(experiment)
    parts = [experiment.in_window((start, end)) for start, end in pairwise(edges)]
    for quantity in experiment.metrics.quantities:
        whole = experiment.root_total(quantity)
        summed = sum(part.root_total(quantity) for part in parts if quantity in part.metrics.quantities)
        assert summed == pytest.approx(whole, rel=1e-12), quantity


def test_top_of_a_window_is_the_timeline(capsys: Capture) -> None:
    flat = rows(capsys, "top", MPI4, "--window", "10%:60%", "--limit", "all")
    line = rows(capsys, "timeline", MPI4, "--window", "10%:60%", "--by", "context")
    assert sum(row["exclusive"] for row in flat) > 0
    busy = sum(row["time_ns"] for row in line if row["context"] is not None)
    assert sum(row["exclusive"] for row in flat) == pytest.approx(busy * 1e-9, rel=1e-12)
    tree = rows(capsys, "tree", MPI4, "--window", "10%:60%", "--limit", "all")
    assert sum(row["inclusive"] for row in tree if row["depth"] == 0) == pytest.approx(busy * 1e-9, rel=1e-12)


def test_without_traces_nothing_is_known(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no traces"):
        tree_t().in_window("10%:20%")
