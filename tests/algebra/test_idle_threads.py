"""Idle threads, limited parallelism and imbalance, computed by hand on a hybrid run whose ids are not in preorder."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

import callgrove
from callgrove import Scope
from callgrove.algebra.idle_threads import (
    IDLE_THREADS,
    IMBALANCE,
    LIMITED_PARALLELISM,
    find_masters,
    find_parallel_regions,
    with_idle_threads,
)
from callgrove.errors import NotMeasured, UsageError
from callgrove.model.experiment import Experiment
from callgrove.model.joining import join_runs
from callgrove.model.runs import Run
from tests.formats.cube.raw_cubes import R1_TREE, Cube, Node, RawMetric, r1, system

Rows = Mapping[str, tuple[float, ...]]
OUTER, INNER = "!$omp parallel @a.c:3", "!$omp parallel @a.c:9"
TREE: list[Node] = [
    (6, "main", [
        (5, "setup", []),
        (0, OUTER, [(4, "work", []), (1, INNER, [(3, "inner", [])])]),
        (2, "finish", []),
    ])
]  # fmt: skip
TIME = {  # locations: master and worker of rank 0, of rank 1
    "main": (2, 0, 3, 0),
    "setup": (4, 0, 4, 0),
    OUTER: (1, 1, 1, 0.5),
    "work": (10, 8, 10, 10),
    INNER: (1, 1, 1, 1),
    "inner": (2, 2, 2, 2),
    "finish": (1, 0, 1, 0),
}
IDLE = {
    "main": (0, 2, 0, 3),
    "setup": (0, 4, 0, 4),
    OUTER: (0, 2, 0, 0.5),  # inclusive: 14 and 12, 14 and 13.5
    "work": (0, 0, 0, 0),
    INNER: (0, 0, 0, 0),
    "inner": (0, 0, 0, 0),
    "finish": (0, 1, 0, 1),
}
COMPUTATION = {"main": (2, 0, 4, 0), "work": (6, 0, 0, 0), "inner": (3, 1, 2, 0)}
VISITS = {"main": (1, 0, 1, 0), "work": (1, 0, 0, 0), "inner": (5, 1, 2, 0)}
NAMES = (IDLE_THREADS, LIMITED_PARALLELISM, *IMBALANCE)


def ids(tree: list[Node]) -> dict[str, int]:
    return {name: id_ for id_, name, below in tree for name, id_ in [(name, id_), *ids(below).items()]}


def metric(name: str, rows: Mapping[str, Sequence[float]]) -> RawMetric:
    return RawMetric(name, rows={ids(TREE)[region]: row for region, row in rows.items()})


def hybrid(path: Path, **options: str) -> Experiment:
    stored = [metric("time", TIME), metric("comp", COMPUTATION), metric("visits", VISITS)]
    opened = callgrove.open(Cube(TREE, stored + [RawMetric(name) for name in NAMES], **options).write(path))  # type: ignore[arg-type]
    assert isinstance(opened, Experiment)
    return opened


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    return hybrid(tmp_path / "hybrid.cubex")


def by_region(experiment: Experiment, name: str, scope: Scope = Scope.EXCLUSIVE) -> dict[str, tuple[float, ...]]:
    """The values of every context, by its name."""
    values = experiment.matrix(name, scope)
    return {experiment.contexts.name(c): tuple(values[c].tolist()) for c in range(len(experiment.contexts))}


def test_regions_and_masters_follow_the_tree(experiment: Experiment) -> None:
    outermost, inside = find_parallel_regions(experiment.contexts)
    names = np.array([experiment.contexts.name(c) for c in range(len(experiment.contexts))])
    assert names[outermost].tolist() == [OUTER]
    assert set(names[inside].tolist()) == {"work", INNER, "inner"}
    assert find_masters(experiment.profiles, experiment.system).tolist() == [0, 0, 2, 2]


def test_idle_threads(experiment: Experiment) -> None:
    made = with_idle_threads(experiment, "time", NAMES)
    assert by_region(made, IDLE_THREADS) == IDLE
    assert by_region(made, LIMITED_PARALLELISM) == {
        name: row if name == OUTER else (0, 0, 0, 0) for name, row in IDLE.items()
    }
    grown = {name: tuple(np.add(TIME[name], IDLE[name]).tolist()) for name in TIME}
    assert by_region(made, "time") == grown
    assert by_region(made, "comp") == by_region(experiment, "comp")
    assert made.root_total("time") == sum(map(sum, grown.values()))
    assert by_region(made, "time", Scope.INCLUSIVE)["main"] == (21, 21, 22, 22), "workers are there as long as masters"


def test_imbalance(experiment: Experiment) -> None:
    """Over masters outside: the mean of 2 and 4 is 3. Over all four threads inside: 6 / 4 and 6 / 4."""
    made = with_idle_threads(experiment, "time", NAMES)
    zero: Rows = dict.fromkeys(TIME, (0, 0, 0, 0))
    expected: dict[str, Rows] = {
        "imbalance": {"main": (1, 0, 1, 0), "work": (4.5, 1.5, 1.5, 1.5), "inner": (1.5, 0.5, 0.5, 1.5)},
        "imbalance_above": {"main": (0, 0, 1, 0), "work": (4.5, 0, 0, 0), "inner": (1.5, 0, 0.5, 0)},
        "imbalance_above_single": {"work": (4.5, 0, 0, 0)},
        "imbalance_below": {"main": (1, 0, 0, 0), "work": (0, 1.5, 1.5, 1.5), "inner": (0, 0.5, 0, 1.5)},
        "imbalance_below_bypass": {"work": (0, 1.5, 1.5, 1.5), "inner": (0, 0, 0, 1.5)},
        "imbalance_below_singularity": {"work": (0, 1.5, 1.5, 1.5)},
    }
    assert {name: by_region(made, name) for name in IMBALANCE} == {n: {**zero, **rows} for n, rows in expected.items()}


def test_a_part_keeps_what_the_whole_says(experiment: Experiment) -> None:
    """A worker is idle while its master works, whether that one is shown or not."""
    made = with_idle_threads(experiment, "time", NAMES)
    alone = made.select(ranks=1, threads=1)
    assert by_region(alone, IDLE_THREADS) == {name: row[3:] for name, row in IDLE.items()}
    assert made.totals(IDLE_THREADS, Scope.EXCLUSIVE, np.array([1])).sum() == 9
    row = made.metrics.quantities.index(IDLE_THREADS)
    of_context, of_profile = (
        part.of_metrics(np.array([row])) for part in (made.values.context(0), made.values.profile(3))
    )
    assert dict(zip(of_context.profile.tolist(), of_context.value.tolist(), strict=True)) == {1: 2, 3: 3}
    assert sorted(of_profile.value.tolist()) == [0.5, 1, 3, 4]


def test_metrics_that_have_values_stay(experiment: Experiment) -> None:
    made = with_idle_threads(experiment, "time", [LIMITED_PARALLELISM])
    assert by_region(made, "time") == by_region(experiment, "time")
    assert not made.matrix(IDLE_THREADS, Scope.EXCLUSIVE).any()
    assert made.totals(LIMITED_PARALLELISM, Scope.EXCLUSIVE).sum() == 2.5


def test_void_processes_take_no_part(tmp_path: Path) -> None:
    said = system().replace("<name>rank 1</name>", "<name>rank 1 &lt;VOID&gt;</name>")
    made = with_idle_threads(hybrid(tmp_path / "void.cubex", system=said), "time", NAMES)
    assert by_region(made, IDLE_THREADS) == {name: (*row[:2], 0, 0) for name, row in IDLE.items()}
    assert by_region(made, "imbalance")["main"] == (0, 0, 0, 0), "there is one master left"
    assert by_region(made, "imbalance_above")["inner"] == (1, 0, 0, 0)


def test_without_openmp_nobody_is_idle(tmp_path: Path) -> None:
    """R1 has no parallel region: masters are compared, everywhere, and bypass and singularity too."""
    cube = r1()
    cube.metrics += [RawMetric(name, id=10 + k) for k, name in enumerate(NAMES)]
    cube.metrics.append(RawMetric("comp", rows={0: (10, 1, 12, 3), 2: (4, 9, 0, 9)}, id=30))
    opened = callgrove.open(cube.write(tmp_path / "r1.cubex"))
    assert isinstance(opened, Experiment)
    made = with_idle_threads(opened, "time", NAMES)
    assert np.array_equal(made.matrix("time", Scope.EXCLUSIVE), opened.matrix("time", Scope.EXCLUSIVE))
    assert made.matrix("imbalance", Scope.EXCLUSIVE)[0].tolist() == [1, 0, 1, 0]
    assert made.matrix("imbalance", Scope.EXCLUSIVE)[2].tolist() == [2, 0, 2, 0]
    assert not made.matrix("imbalance_below_bypass", Scope.EXCLUSIVE).any(), "all masters visited both"


@pytest.mark.parametrize("generation", ["release", "prerelease"])
@pytest.mark.parametrize(("name", "n_workers"), [("mpi4", 12), ("pth4", 4)])
def test_parallel_regions_must_be_seen(generation: str, name: str, n_workers: int, shared: Path) -> None:
    """Masters compute next to nothing in these runs: compared alone, they would say that nothing is uneven."""
    opened = callgrove.open(shared / "data" / "own" / f"hpctoolkit-{generation}" / f"{name}.d")
    assert isinstance(opened, Experiment)
    with pytest.raises(UsageError, match=f"regions of OpenMP are not seen: nobody knows when the {n_workers} threads"):
        opened.remap(idle_threads=True)


def test_processes_without_workers_need_no_parallel_regions(shared: Path) -> None:
    """Five processes of one thread each, without ranks: computation of every context is compared over all of them."""
    opened = callgrove.open(shared / "data" / "own" / "hpctoolkit-release" / "gxx_s.d")
    assert isinstance(opened, Experiment)
    measured = opened.profiles.measured
    assert find_masters(opened.profiles, opened.system)[measured].tolist() == measured.tolist()
    made = opened.remap(idle_threads=True)
    computed = made.matrix("comp", Scope.EXCLUSIVE)
    uneven = np.abs(computed - computed.mean(axis=1, keepdims=True)).sum()
    assert made.totals("imbalance", Scope.EXCLUSIVE).sum() == pytest.approx(uneven)
    assert uneven > 0
    assert made.root_total(IDLE_THREADS) == 0, "there is no worker that could be idle"


@pytest.mark.parametrize(("paradigm", "is_refused"), [("openmp", True), ("pthread", False), ("", True)])
def test_openmp_without_parallel_regions_is_refused(paradigm: str, is_refused: bool, tmp_path: Path) -> None:
    """R1 has workers. Of a file that says no paradigm, nobody knows whether they share work."""
    cube = r1()
    said = re.sub("<paradigm>[a-z]*</paradigm>", f"<paradigm>{paradigm}</paradigm>", cube.anchor())
    opened = callgrove.open(cube.write(tmp_path / "r1.cubex", {"anchor.xml": said.encode()}))
    assert isinstance(opened, Experiment)
    if is_refused:
        with pytest.raises(UsageError, match="are not seen: nobody knows when the 2 threads that are not the first"):
            with_idle_threads(opened, "time", NAMES)
        return
    with_idle_threads(opened, "time", NAMES)
    alone = "imbalance is that of the first threads of processes: no parallel region of OpenMP has the other 2"
    assert alone in [warning.text for warning in opened.remap(idle_threads=True).warnings]


def test_profiles_must_be_threads(tmp_path: Path) -> None:
    said = system().replace("<type>thread</type>", "<type>metric</type>")
    with pytest.raises(UsageError, match="no profile is that of a thread: nobody knows which threads are idle"):
        with_idle_threads(hybrid(tmp_path / "none.cubex", system=said), "time", NAMES)


def test_visits_may_be_unknown(tmp_path: Path) -> None:
    opened = callgrove.open(
        Cube(TREE, [metric("time", TIME), metric("comp", COMPUTATION), *(RawMetric(n) for n in NAMES)]).write(
            tmp_path / "no-visits.cubex"
        )
    )
    assert isinstance(opened, Experiment)
    made = with_idle_threads(opened, "time", NAMES)
    assert made.root_total("imbalance") == 15
    with pytest.raises(NotMeasured, match=r"imbalance_below_bypass is not measured here, so it has no values$"):
        made.root_total("imbalance_below_bypass")


def test_only_sums_can_be_extended(tmp_path: Path) -> None:
    least = RawMetric("time", dtype="MINDOUBLE", rows={0: (1, 2, 3, 4)})
    opened = callgrove.open(Cube(R1_TREE, [least]).write(tmp_path / "least.cubex"))
    assert isinstance(opened, Experiment)
    with pytest.raises(UsageError, match="time is not a plain sum"):
        with_idle_threads(opened, "time", NAMES)


@pytest.mark.parametrize("name", ["fmt_KEY_THREADS", "fmt_THREAD_SUM"])
def test_sums_of_threads_are_refused(name: str, shared: Path) -> None:
    opened = callgrove.open(shared / "data" / "own" / "cube" / name / "profile.cubex")
    assert isinstance(opened, Experiment)
    with pytest.raises(UsageError, match="stand for several threads"):
        opened.remap(idle_threads=True)


def test_threads_of_several_runs_are_not_compared(experiment: Experiment) -> None:
    runs = [(Run(name, {"p": p}), experiment) for name, p in (("a", 1.0), ("b", 2.0))]
    both = join_runs(runs, "runs", "two", "two")
    with pytest.raises(UsageError, match="holds 2 runs, and threads of one run are compared; choose it with runs="):
        with_idle_threads(both, "time", NAMES)
