"""A folder gives back what was put into it: every kind of sample, made-up experiments, random ones; exactly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from callgrove.analysis.tables import export
from callgrove.arrays import Array
from callgrove.errors import UsageError
from callgrove.examples import example, gpu_example, study_example
from callgrove.formats.interface import SampleChunk, WriteOptions, Writes
from callgrove.formats.registry import open_path, writer_of
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import TAU_ATOMIC
from callgrove.model.study.series import Study
from callgrove.model.traces.events import Samples
from callgrove.model.values import has_fillers
from tests.exhaustive import try_examples
from tests.formats import contract
from tests.formats.columnar.columnar_folders import (
    CALLGROVE,
    again,
    assert_same,
    digests,
    odd_experiment,
    values_of,
    written,
)
from tests.formats.damage import scratch_folder
from tests.formats.samples import Sample, samples
from tests.model.strategies import experiments

ONWARD = ("hpctoolkit-release", "hpctoolkit-prerelease", "cube")
# One of each kind; all kinds of events have more than one family of databases.
CONVERTED_ON = (
    "hpctoolkit/release/mpi4.d",
    "hpctoolkit/prerelease/mpi4.foreign.d",
    "hpctoolkit/legacy/plain20.d",
    "hpcrun/04.00/pth4.m",
    "made/nsight",
    "shared/own/cube/mpi4/profile.cubex",
    "shared/own/cube-clustered/profile.cubex",
)
LARGE = 20_000  # values; larger samples are left to those who ask for all of them


def usual(sample: Sample) -> bool:
    return sample.format != CALLGROVE and not sample.part


@pytest.mark.parametrize("sample", [s for s in samples() if usual(s)], ids=str)
def test_every_sample_comes_back(sample: Sample, tmp_path: Path) -> None:
    opened = open_path(sample.path)
    if isinstance(opened, Study):
        assert written(opened, tmp_path / "x.cgrove").losses == []
        found = open_path(tmp_path / "x.cgrove")
        assert isinstance(found, Study)
        assert_same_study(opened, found)
        return
    found = again(opened, tmp_path)
    assert found.format == CALLGROVE
    assert found.version == f"1.2 ({opened.format} {opened.version})".replace(" )", ")")
    assert_same(opened, found)
    if has_fillers(opened.values.backend):
        for metric in range(len(opened.metrics)):
            assert_same_totals(totals(found, metric), totals(opened, metric))
    if (opened.values.n_stored() or 0) <= LARGE:
        for name, selection in contract.tables_of(opened):
            rows = [[row for chunk in export(e, name, selection) for row in chunk.rows()] for e in (opened, found)]
            assert repr(rows[1]) == repr(rows[0]), (name, selection)


def totals(experiment: Experiment, metric: int) -> Array | str:
    try:
        return experiment.values.scalar(metric, experiment.values.totals(metric))
    except UsageError as error:  # values that cannot be combined
        return str(error)


def assert_same_totals(found: Array | str, expected: Array | str) -> None:
    """In which order sums were added is seen in the last digits."""
    if isinstance(found, str) or isinstance(expected, str):
        assert str(found) == str(expected)
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("sample", [s for s in samples() if s.name in CONVERTED_ON], ids=str)
def test_converting_on_gives_the_same_bytes(sample: Sample, tmp_path: Path) -> None:
    opened = open_path(sample.path)
    assert isinstance(opened, Experiment)
    found = again(opened, tmp_path)
    for to in ONWARD:
        for number, experiment in enumerate((opened, found)):
            (tmp_path / f"{number}").mkdir(exist_ok=True)
            losses = written(experiment, tmp_path / f"{number}" / to, to).losses
            assert losses == written(opened, tmp_path / f"{number}" / to, to, overwrite=True).losses
        direct, over_a_folder = (digests(tmp_path / f"{number}" / to) for number in range(2))
        assert over_a_folder == direct
    written(found, tmp_path / "y.cgrove")
    assert digests(tmp_path / "y.cgrove") == digests(tmp_path / "x.cgrove")


@pytest.mark.parametrize("make", [example, gpu_example])
def test_made_up_experiments_come_back(make: Callable[[], Experiment], tmp_path: Path) -> None:
    assert_same(made := make(), again(made, tmp_path))


def assert_same_study(old: Study, new: Study) -> None:
    assert repr(list(new.table().rows())) == repr(list(old.table().rows()))
    for name in ("parameters", "callpaths", "metrics", "scaling", "units", "models", "title", "warnings"):
        assert getattr(new, name) == getattr(old, name), name
    for name in ("callpath_tags", "metric_tags", "modelers", "attributes"):
        assert dict(getattr(new, name)) == dict(getattr(old, name)), name
    assert new.points.tobytes() == old.points.tobytes()
    assert (new.raw is None) == (old.raw is None)
    if old.raw is not None and new.raw is not None:
        for name in ("values", "repetition_bounds", "cell_bounds"):
            assert getattr(new.raw, name).tolist() == getattr(old.raw, name).tolist(), name


def test_a_study_comes_back(tmp_path: Path) -> None:
    study = Study.from_values(
        ("p", "n"),
        [(1, 10), (2, 10)],
        [("main->f", "time", 0, [1.0, [2.0, 3.0], []]), ("main", "bytes", 1, [2**60]), ("main", "time", 0, [np.inf])],
    )
    study = replace(study, callpath_tags={"main": {"agg__category": "x", "n": 3}}, units={"time": "s"}, scaling="weak")
    for number, one in enumerate((study, study_example())):
        written(one, tmp_path / f"{number}.cgrove")
        found = open_path(tmp_path / f"{number}.cgrove")
        assert isinstance(found, Study)
        assert_same_study(one, found)
        assert found.validate() == []


@try_examples(25)
@given(experiments())
def test_random_experiments_come_back(experiment: Experiment) -> None:
    with scratch_folder() as folder:
        assert_same(experiment, again(experiment, folder))


@try_examples(12)
@given(experiments(composite=True, n_runs=2, deep=True))
def test_random_experiments_with_all_kinds_of_values_come_back(experiment: Experiment) -> None:
    """Of composite values with fields that nobody knows the fields come back, though not what they mean."""
    with scratch_folder() as folder:
        found = again(experiment, folder)
        assert values_of(found) == values_of(experiment)
        assert found.runs == experiment.runs


def test_odd_things_come_back(tmp_path: Path) -> None:
    old = odd_experiment()
    new = again(old, tmp_path)
    assert_same(old, new)
    assert new.metrics[4].composite is TAU_ATOMIC
    assert new.values.scalar(5, new.values.metric(5).value).tolist() == [6.0, 15.0]
    assert new.metrics[0].source_id == 2**70
    side = new.traces.side("more", 0)
    assert side is not None
    assert list(side.columns["any"]) == [{"x": [1, None]}]


def test_empty_experiments_come_back(tmp_path: Path) -> None:
    empty = ExperimentBuilder("made").build()
    found = again(empty, tmp_path)
    assert_same(empty, found)
    assert (found.values.n_stored(), found.traces.n_spans, len(found.contexts)) == (0, 0, 0)


def test_a_writer_may_be_used_directly(tmp_path: Path) -> None:
    """Values and samples that the experiment itself does not have, as `prof` gives them."""
    experiment = example()
    bare = replace(experiment, values=replace(experiment.values, backend=ExperimentBuilder("x").build().values.backend))
    bare = replace(bare, traces=replace(experiment.traces, samples=None))
    format_ = writer_of(CALLGROVE)
    assert isinstance(format_, Writes)
    writer = format_.open_writer(tmp_path / "x.cgrove", WriteOptions())
    writer.define(bare)
    for block in experiment.values.blocks():
        writer.write(block)
        writer.flush()
    writer.write(SampleChunk(1, -1, Samples(np.array([5, 6]), np.array([0, -1], np.int32))))
    assert writer.close().losses == []
    found = open_path(tmp_path / "x.cgrove")
    assert isinstance(found, Experiment)
    measured = [row for row in values_of(experiment) if row[0] in experiment.profiles.measured]
    assert sorted(values_of(found)) == sorted(measured)
    assert [(p, s.time_ns.tolist()) for p, _, s in found.traces.lines()] == [(1, [5, 6])]


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        written(gpu_example(), tmp_path / name)
    assert digests(tmp_path / "a") == digests(tmp_path / "b")
