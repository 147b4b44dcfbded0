"""Many profiles with few values, and many short lines, are read together: what comes out is what one by one gives."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from callgrove.binary import files
from callgrove.formats.hpctoolkit import values as database_values
from callgrove.model.experiment import Experiment
from callgrove.model.traces import events
from callgrove.model.values import SparseBlock
from tests.formats.hpctoolkit.by_source_id import backend, open_database
from tests.formats.hpctoolkit.databases import copied

GENERATIONS = ("release", "prerelease")
SIZES = (1, 9, 200, 1 << 14)
TOGETHER = (0, 300, 1 << 16)


def read_rows(experiment: Experiment) -> list[tuple[int, int, int, float]]:
    """Return all values in the order in which they come, stored summaries among them."""
    every = np.arange(len(experiment.profiles))
    return cells_of(SparseBlock.concatenate([block.triples() for block in experiment.values.blocks(every)]))


def cells_of(block: SparseBlock) -> list[tuple[int, int, int, float]]:
    """Return values as tuples."""
    columns = (block.profile, block.context, block.metric, block.value)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def read_with(
    path: Path, size: int, patch: pytest.MonkeyPatch, together: int, long: int = files.LONG_RANGE
) -> tuple[list[tuple[int, int, int, float]], list[str]]:
    """Return values and problems, in batches of a size; `together` are read at once, none of them one by one. Columns
    that are filled in place have the same ones."""
    patch.setattr(database_values, "VALUES_AT_ONCE", size)
    patch.setattr(database_values, "READ_AT_ONCE", together)
    patch.setattr(files, "LONG_RANGE", long)
    experiment, filled = open_database(path), open_database(path)
    rows, problems = read_rows(experiment), [*map(str, experiment.values.problems)]
    assert cells_of(filled.values.columns()) == rows
    assert [*map(str, filled.values.problems)] == problems
    return rows, problems


@pytest.mark.parametrize("generation", GENERATIONS)
def test_values_are_the_same_in_batches_of_any_size(
    generation: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = copied(generation, tmp_path)
    alone, none = read_with(path, 1, monkeypatch, 0)
    assert alone
    assert not none
    for size, together in product(SIZES, TOGETHER):
        assert read_with(path, size, monkeypatch, together) == (alone, [])
    for long in (1, 1 << 30):  # every range by itself; every record
        assert read_with(path, SIZES[1], monkeypatch, TOGETHER[-1], long) == (alone, [])


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("which", ["start", "id"])
def test_a_broken_index_costs_its_profile_alone(
    generation: str, which: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = copied(generation, tmp_path)
    blocks = backend(open_database(path)).by_profile
    assert blocks is not None
    victim = int(np.flatnonzero(blocks.n_index > 2)[-1])
    record = blocks.layout.index
    at = int(blocks.index_at[victim]) + record.itemsize + record.fields[which][1]  # type: ignore[index]
    with (path / "profile.db").open("r+b") as file:
        file.seek(at)
        file.write(b"\xff" * record[which].itemsize)
    alone, problems = read_with(path, 1, monkeypatch, 0)
    assert len(problems) == 1
    assert victim not in {profile for profile, *_ in alone}
    for size, together in product(SIZES, TOGETHER):
        assert read_with(path, size, monkeypatch, together) == (alone, problems)


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize(
    ("entry", "field", "number"),
    [(0, "start", 1), (0, "id", 70_000), (1, "id", 0), (1, "start", 1 << 63), (-1, "start", 1 << 40), (-1, "id", 1)],
)
def test_damaged_entries_are_met_alike_in_batches_of_any_size(
    generation: str, entry: int, field: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A first start that is not 0, ids that nothing names or out of order, the file's root twice, absurd starts."""
    path = copied(generation, tmp_path)
    blocks = backend(open_database(path)).by_profile
    assert blocks is not None
    victim = int(np.flatnonzero(blocks.n_index > 2)[-1])
    record = blocks.layout.index
    changed = np.memmap(path / "profile.db", record, "r+", int(blocks.index_at[victim]), int(blocks.n_index[victim]))
    changed[field][entry] = number
    changed.flush()
    alone, problems = read_with(path, 1, monkeypatch, 0)
    assert problems
    for size, together in product(SIZES, TOGETHER):
        assert read_with(path, size, monkeypatch, together) == (alone, problems)


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("size", SIZES)
def test_lines_are_the_same_in_batches_of_any_size(
    generation: str, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "SAMPLES_AT_ONCE", size)
    whole = open_database(copied(generation, tmp_path))
    part = whole.select(profiles=whole.profiles.measured[1:])
    cut = whole.select(window=(whole.traces.time_range[0] + 1000, whole.traces.time_range[1]))  # type: ignore[index]
    for experiment in (whole, part, cut):
        one_by_one = [(p, m, s.time_ns.tolist(), s.context.tolist()) for p, m, s in experiment.traces.lines()]
        together = []
        for batch in experiment.traces.line_batches():
            for k, (profile, metric) in enumerate(zip(batch.profile.tolist(), batch.metric.tolist(), strict=True)):
                line = slice(int(batch.bounds[k]), int(batch.bounds[k + 1]))
                time, context = batch.samples.time_ns[line].tolist(), batch.samples.context[line].tolist()
                together.append((profile, metric, time, context))
        assert one_by_one
        assert together == one_by_one
