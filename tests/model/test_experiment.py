"""An experiment: totals, selections, copied sources."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from callgrove.errors import InputError, RefusedInput, UsageError
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind, Relation
from callgrove.model.experiment import Experiment, Sources
from callgrove.model.metrics import Aggregation, Metric, Scope
from callgrove.model.profiles import ProfileKind
from tests.model.strategies import ATOMIC, ATOMIC_TYPE, experiments

RANK, THREAD = 2, 3


def small() -> Experiment:
    """main calls work, on two ranks of two threads; the time is in function scope, cycles are inclusive."""
    builder = ExperimentBuilder("test", path="small")
    main = builder.add_context(-1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, "main"))
    line = builder.add_context(main, ContextKind.LINE, relation=Relation.LEXICAL)
    builder.add_context(line, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, "work"))
    builder.add_profile(ProfileKind.SUMMARY, [(0, 0, 0, 3)])
    for rank in range(2):
        for thread in range(2):
            builder.add_profile(ProfileKind.THREAD, [(RANK, rank, rank, 0), (THREAD, thread, thread, 0)])
    builder.add_profile(ProfileKind.GPU_STREAM, [(RANK, 0, 0, 0)])
    builder.add_metric(Metric("nothing", Scope.EXCLUSIVE, "sec"))
    builder.add_metric(Metric("cycles", Scope.INCLUSIVE))
    builder.add_metric(Metric("time", Scope.FUNCTION, "sec"))
    for profile in range(1, 5):
        builder.add_values(profile, [0, 1, 2], 2, [3.0, 2.0, 10.0 * profile])
        builder.add_values(profile, [0, 1, 2], 1, np.array([9, 8, 5]))
    return builder.build()


def test_totals_in_every_scope() -> None:
    experiment = small()
    assert experiment.totals("time", Scope.FUNCTION).tolist() == [12, 8, 100]
    assert experiment.totals("time", Scope.EXCLUSIVE).tolist() == [4, 8, 100]
    assert experiment.totals("time", Scope.INCLUSIVE).tolist() == [112, 108, 100]
    assert experiment.totals("time", Scope.INCLUSIVE, np.array([2])).tolist() == [23, 22, 20]
    assert experiment.totals("cycles", Scope.EXCLUSIVE).tolist() == [4, 12, 20]
    assert experiment.root_total("time") == 112
    assert experiment.root_total("time", np.array([1])) == 13
    assert experiment.root_total("nothing") == 0


def test_unknown_quantities_are_refused() -> None:
    with pytest.raises(UsageError, match="no metric 'unheard of'; there are nothing, cycles, time"):
        small().totals("unheard of", Scope.EXCLUSIVE)


def test_the_default_metric_has_cost() -> None:
    assert small().default_metric == "time"


def test_composite_values_are_no_default_metric() -> None:
    builder = ExperimentBuilder("test")
    builder.add_context(-1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, "main"))
    profile = builder.add_profile(ProfileKind.THREAD)
    builder.add_metric(
        Metric("atomic", Scope.EXCLUSIVE, "sec", composite=ATOMIC_TYPE, aggregation=Aggregation.COMPOSITE)
    )
    builder.add_metric(Metric("visits", Scope.EXCLUSIVE))
    builder.add_values(profile, [0], 0, np.array([(1, 2.0, 2.0, 2.0)], ATOMIC))
    builder.add_values(profile, [0], 1, [3.0])
    assert builder.build().default_metric == "visits"


@pytest.mark.parametrize(
    ("chosen", "profiles"),
    [
        ({}, [1, 2, 3, 4, 5]),
        ({"ranks": {0}}, [1, 2, 5]),
        ({"ranks": range(1, 9)}, [3, 4]),
        ({"threads": [1]}, [2, 4]),
        ({"threads": 1}, [2, 4]),
        ({"ranks": "0,2-7"}, [1, 2, 5]),
        ({"ranks": [0], "threads": [0]}, [1]),
        ({"ranks": []}, []),
        ({"ranks": [7]}, []),
    ],
)
def test_profiles_by_rank_and_thread(chosen: dict[str, Any], profiles: list[int]) -> None:
    found = small().profiles.where(**chosen)
    assert (found.tolist(), found.dtype.kind) == (profiles, "i")


@given(experiments(traces=False))
def test_a_selection_of_all_is_all(experiment: Experiment) -> None:
    assert experiment.profiles.where().tolist() == experiment.profiles.measured.tolist()
    for quantity in experiment.metrics.quantities:
        for scope in experiment.metrics.scopes(quantity):
            alone = experiment.totals(quantity, scope, experiment.profiles.where())
            assert len(alone) == len(experiment.contexts)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A database folder with sources, beside a secret."""
    (tmp_path / "secret.c").write_text("secret\n")
    database = tmp_path / "database"
    (database / "src" / "inner").mkdir(parents=True)
    (database / "src" / "a.c").write_bytes(b"int a;\nint \xff;\n")
    (database / "src" / "out.c").symlink_to(tmp_path / "secret.c")
    (database / "src" / "in.c").symlink_to(database / "src" / "a.c")
    (database / "src" / "up").symlink_to(tmp_path)
    (database / "src" / "circle.c").symlink_to(database / "src" / "circle.c")
    return database


@pytest.mark.parametrize("name", ["src/a.c", "src/in.c", "./src/inner/../a.c"])
def test_sources_inside_the_folder_are_read(folder: Path, name: str) -> None:
    sources = Sources(folder, {0: name})
    assert sources.lines(0) == ["int a;", "int �;"]
    assert len(sources) == 1


@pytest.mark.parametrize("name", ["../secret.c", "src/out.c", "src/up/secret.c", "/etc/passwd", "src/../../secret.c"])
def test_sources_outside_the_folder_are_refused(folder: Path, name: str) -> None:
    sources = Sources(folder, {0: name})
    for read in (sources.path, sources.lines):
        with pytest.raises(RefusedInput, match="lies outside of the folder"):
            read(0)


@pytest.mark.parametrize("name", ["src/none.c", "src", "src/circle.c", "x" * 5000, "a\0b", "", "src/a.c/x"])
def test_sources_that_are_not_there_have_no_lines(folder: Path, name: str) -> None:
    sources = Sources(folder, {0: name})
    assert (sources.path(0), sources.lines(0)) == (None, [])


def test_a_folder_reached_by_a_link_is_a_folder(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(folder)
    assert Sources(tmp_path / "link", {0: "src/a.c"}).path(0) == folder.resolve() / "src" / "a.c"


def test_sources_without_folder_or_copy() -> None:
    assert Sources().path(0) is None
    assert Sources(Path("/"), {}).path(3) is None


def test_a_copy_that_cannot_be_read_says_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_text", refuse)
    with pytest.raises(InputError, match=r"a\.c: Permission denied"):
        Sources(folder, {0: "src/a.c"}).lines(0)
