"""Efficiencies: the reference cube of the specification, hybrid runs computed by hand, samples, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import callgrove
from callgrove.analysis.efficiency import Question, pop
from callgrove.analysis.efficiency_figures import FIGURES, Grade, RunFigures, grade
from callgrove.analysis.summary import summarise
from callgrove.analysis.time_use import Phase, TimeUse
from callgrove.errors import UsageError
from callgrove.examples import example, gpu_example
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind, Relation
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Metric, Scope
from callgrove.model.profiles import Interpretation, ProfileKind
from tests.formats.cube.raw_cubes import r1
from tests.model.strategies import experiments

RANK, THREAD = 2, 3  # kinds of identifiers
CONTEXTS = (  # parent, name, paradigm, role
    (-1, "main", "compiler", "function"),
    (0, "MPI_Init", "mpi", "function"),
    (0, "work", "compiler", "function"),
    (0, "MPI_Allreduce", "mpi", "all2all"),
    (0, "!$omp parallel @a.c:1", "openmp", "parallel"),
    (4, "!$omp for @a.c:2", "openmp", "loop"),
    (4, "!$omp implicit barrier @a.c:3", "openmp", "implicit barrier"),
)
MAIN, INIT, WORK, ALLREDUCE, LOOP, BARRIER = 0, 1, 2, 3, 5, 6
Seconds = Mapping[tuple[int, int], Mapping[int, float]]  # (rank, thread) -> context -> exclusive seconds


def opened(path: Path) -> Experiment:
    experiment = callgrove.open(path)
    assert isinstance(experiment, Experiment)
    return experiment


def run_of(seconds: Seconds, per_second: tuple[float, float] | None = None, idle: Seconds | None = None) -> Experiment:
    """An experiment of one run. `per_second` are instructions and cycles for each second of computation; barriers,
    which spin, execute many more. `idle` is the part of the time in which threads had nothing to do."""
    builder = ExperimentBuilder("test", title="run")
    for parent, name, paradigm, role in CONTEXTS:
        region = builder.region(ContextKind.FUNCTION, name, paradigm=paradigm, role=role)
        builder.add_context(parent, ContextKind.FUNCTION, region)
    time = builder.add_metric(Metric("time", Scope.EXCLUSIVE, "sec"))
    counters = [builder.add_metric(Metric(n, Scope.EXCLUSIVE)) for n in ("PAPI_TOT_INS", "PAPI_TOT_CYC")]
    if idle is not None:
        idle_metric = builder.add_metric(Metric("omp_idle_threads", Scope.EXCLUSIVE, "sec", parent=time))
    for (rank, thread), spent in seconds.items():
        place = [(RANK, rank, rank, Interpretation.SINGLE), (THREAD, thread, thread, Interpretation.SINGLE)]
        profile = builder.add_profile(ProfileKind.THREAD, place)
        contexts = np.array(list(spent), np.int64)
        values = np.array(list(spent.values()), np.float64)
        builder.add_values(profile, contexts, time, values)
        if idle is not None and (waits := idle.get((rank, thread))):
            builder.add_values(profile, np.array(list(waits)), idle_metric, np.array(list(waits.values()), np.float64))
        for metric, factor in zip(counters, per_second or (), strict=False):
            builder.add_values(profile, contexts, metric, values * np.where(contexts == BARRIER, 100, factor))
    return builder.build()


def figures(*experiments: Experiment, question: Question | None = None) -> tuple[RunFigures, ...]:
    return pop(experiments, question or Question()).runs


def check(found: RunFigures, **expected: float) -> None:
    for name, value in expected.items():
        assert found.values[name.replace("_", " ")] == pytest.approx(value, rel=1e-12), name


# -- the reference cube ------------------------------------------------------------------------------------------------


def test_the_reference_cube(tmp_path: Path) -> None:
    """T = 31 25 39 33, MPI = 12 11 10 9, COMP = 19 14 29 24; masters are the first and the third location."""
    found = figures(opened(r1().write(tmp_path / "r1.cubex")))[0]
    check(
        found,
        runtime=39,
        computation=86,
        processes=2,
        threads=4,
        parallel_efficiency=86 / 4 / 39,  # .551282
        load_balance=86 / 4 / 29,  # .741379
        communication_efficiency=29 / 39,  # .743590
        MPI_parallel_efficiency=(19 + 29) / 2 / 39,  # .615385
        MPI_load_balance=24 / 29,  # .827586
        MPI_communication_efficiency=29 / 39,
        OpenMP_parallel_efficiency=21.5 / 24,  # .895833
        MPI_share_of_time=42 / 128,
        MPI_collectives_and_barriers=16 / 128,  # MPI_Barrier; MPI_Send is none
    )


def test_a_subtree_of_the_reference_cube(tmp_path: Path) -> None:
    """Below foo, wherever it is called: main->foo (5 6 7 8) with bar (1 2 3 4) and MPI_Send (8 7 6 5), main->bar->foo
    (1 3 5 7): COMP = 7 11 15 19, T = 15 18 21 24, so R = 21 and U = 7 15."""
    table = opened(r1().write(tmp_path / "r1.cubex")).pop(under="foo")
    values = dict(zip(table["name"], table["r1.cubex"], strict=True))
    assert values["runtime"] == 21
    assert values["parallel efficiency"] == pytest.approx(52 / 4 / 21)
    assert values["MPI parallel efficiency"] == pytest.approx(11 / 21)
    assert values["load balance"] == pytest.approx(13 / 19)


def test_one_rank_of_the_reference_cube(tmp_path: Path) -> None:
    found = figures(opened(r1().write(tmp_path / "r1.cubex")), question=Question(ranks=0))[0]
    check(found, runtime=31, parallel_efficiency=(19 + 14) / 2 / 31, load_balance=33 / 2 / 19, processes=1, threads=2)


# -- three hybrid runs -------------------------------------------------------------------------------------------------

# 2 ranks with 2 threads:    T          MPI   COMP                U = T - MPI of masters
#   rank 0, thread 0         14          3    1 + 4 + 6 = 11      11
#   rank 0, thread 1          6          0    5
#   rank 1, thread 0         16          1    1 + 6 + 4 = 11      15
#   rank 1, thread 1          8          0    8
A: Seconds = {
    (0, 0): {MAIN: 1, INIT: 1, WORK: 4, ALLREDUCE: 2, LOOP: 6},
    (0, 1): {LOOP: 5, BARRIER: 1},
    (1, 0): {MAIN: 1, INIT: 1, WORK: 6, LOOP: 4, BARRIER: 4},
    (1, 1): {LOOP: 8},
}
# 4 ranks with a thread each, T = 12: COMP = 8 9 10 9 = 36, MPI = 4 3 2 3
B: Seconds = {(rank, 0): {WORK: comp, ALLREDUCE: 12 - comp} for rank, comp in enumerate((8, 9, 10, 9))}
# 1 rank with 4 threads: T of the master 20; COMP = 18 12 12 14 = 56; the rest waits in the barrier
C: Seconds = {
    (0, 0): {WORK: 4, LOOP: 14, BARRIER: 2},
    (0, 1): {LOOP: 12, BARRIER: 4},
    (0, 2): {LOOP: 12, BARRIER: 4},
    (0, 3): {LOOP: 14, BARRIER: 2},
}


def test_two_ranks_with_two_threads() -> None:
    check(
        figures(run_of(A))[0],
        runtime=16,
        computation=35,
        parallel_efficiency=8.75 / 16,  # 35 / 4 threads = 8.75
        load_balance=8.75 / 11,
        communication_efficiency=11 / 16,
        MPI_parallel_efficiency=13 / 16,  # (11 + 15) / 2 = 13
        MPI_load_balance=13 / 15,
        MPI_communication_efficiency=15 / 16,
        OpenMP_parallel_efficiency=8.75 / 13,
        MPI_share_of_time=4 / 44,  # 14 + 6 + 16 + 8 = 44
        MPI_collectives_and_barriers=2 / 44,
        OpenMP_share_of_time=5 / 44,
        OpenMP_barriers=5 / 44,
        # work 4 6: 1 above their mean of 5; the loop 6 5 4 8: .25 and 2.25 above 5.75
        computation_above_average=3.5 / 35,
    )


def test_four_ranks() -> None:
    check(
        figures(run_of(B))[0],
        runtime=12,
        parallel_efficiency=9 / 12,
        load_balance=9 / 10,
        communication_efficiency=10 / 12,
        MPI_parallel_efficiency=9 / 12,  # with a thread each there is no other loss
        OpenMP_parallel_efficiency=1,
        computation_above_average=1 / 36,
    )


def test_one_rank_with_four_threads() -> None:
    check(
        figures(run_of(C))[0],
        runtime=20,
        parallel_efficiency=14 / 20,  # 56 / 4 = 14
        load_balance=14 / 18,
        communication_efficiency=18 / 20,
        MPI_parallel_efficiency=1,
        MPI_load_balance=1,
        OpenMP_parallel_efficiency=14 / 20,
    )


def test_idle_time_that_a_tool_has_added_is_no_computation() -> None:
    """Remapped profiles count the time of masters outside of parallel regions as that of idle workers, too."""
    added = {**A, (0, 1): {**A[0, 1], MAIN: 1, WORK: 4}, (1, 1): {**A[1, 1], MAIN: 1, WORK: 6}}
    idle: Seconds = {(0, 1): {MAIN: 1, WORK: 4}, (1, 1): {MAIN: 1, WORK: 6}}
    plain, found = figures(run_of(A))[0], figures(run_of(added, idle=idle))[0]
    for name in ("runtime", "computation", "parallel efficiency", "load balance", "OpenMP parallel efficiency"):
        assert found.values[name] == plain.values[name]
    check(found, MPI_share_of_time=4 / (44 + 12))


def test_without_initialisation() -> None:
    """T becomes 13 and 15 of the masters, U stays 11 and 15."""
    found = figures(run_of(A), question=Question(exclude_init=True))[0]
    check(found, runtime=15, parallel_efficiency=8.75 / 15, MPI_parallel_efficiency=13 / 15, MPI_share_of_time=2 / 42)


def test_nothing_but_initialisation() -> None:
    found = figures(run_of(A), question=Question(exclude_init=True, under="MPI_Init"))[0]
    assert "runtime" not in found.values
    assert found.missing["runtime"] == "thread 0 of no process spent any time outside of MPI_Init and MPI_Finalize"
    assert found.missing["parallel efficiency"] == found.missing["runtime"]


def test_a_part_in_which_only_workers_spend_time() -> None:
    seconds = {(0, 0): {WORK: 4}, (0, 1): {LOOP: 5}}
    found = figures(run_of(seconds), question=Question(under="!$omp for*"))[0]
    assert found.missing["runtime"] == "thread 0 of no process spent any time there, so that the runtime is not known"
    check(found, computation=5)


def test_efficiencies_above_one_are_said() -> None:
    """In the loop, threads have 6 5 4 8 (masters are the first and third): R = 6, max(COMP) = 8, mean(COMP) = 23 / 4,
    mean(U) = 5. Products hold all the same."""
    said = pop([run_of(A)], Question(under="!$omp for*"))
    check(said.runs[0], runtime=6, communication_efficiency=8 / 6, OpenMP_parallel_efficiency=23 / 20)
    check(said.runs[0], parallel_efficiency=23 / 24, load_balance=23 / 32, MPI_parallel_efficiency=5 / 6)
    above = "above 1: communication efficiency, OpenMP parallel efficiency: other threads computed for longer"
    assert any(note.startswith(above) for note in said.notes)
    assert not any("above 1" in note for note in pop([run_of(A)], Question()).notes)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 1e308])
def test_times_that_are_no_numbers(value: float) -> None:
    """Figures of infinite times are missing; nothing is 0, and NumPy says nothing."""
    seconds = {(rank, thread): {WORK: value, LOOP: value, ALLREDUCE: 1.0} for rank in range(2) for thread in range(2)}
    found, other = figures(run_of(seconds), run_of(A))
    check(found, processes=2, threads=4)
    for name in ("runtime", "computation", "parallel efficiency", "MPI share of time", "computation above average"):
        assert name not in found.values
        assert "infinite" in found.missing[name]
    assert "not known in both runs" in other.missing["computation scaling"]
    check(other, runtime=16)


@pytest.mark.filterwarnings("error")
def test_inclusive_times_that_are_no_numbers() -> None:
    """A value that another one contains is taken off it: infinite ones leave no 0."""
    builder = ExperimentBuilder("test", title="run")
    for parent, name in ((-1, "main"), (0, "MPI_Send")):
        builder.add_context(parent, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, name))
    time = builder.add_metric(Metric("time", Scope.INCLUSIVE, "sec"))
    profile = builder.add_profile(ProfileKind.THREAD, [(THREAD, 0, 0, Interpretation.SINGLE)])
    builder.add_values(profile, np.arange(2), time, np.array([np.inf, np.inf]))
    found = figures(builder.build())[0]
    assert "infinite" in found.missing["runtime"]
    assert "computation" not in found.values


@pytest.mark.filterwarnings("error")
def test_counters_that_are_no_numbers() -> None:
    one: Seconds = {(0, 0): {WORK: 1}}
    infinite = figures(run_of(one, (np.inf, 2.0)))[0]
    assert "infinite" in infinite.missing["IPC"]
    assert "no cycle was counted" in figures(run_of(one, (3, 0)))[0].missing["IPC"]
    nothing = figures(run_of({(0, 0): {ALLREDUCE: 1}}, (3, 2)))[0]
    assert nothing.missing["frequency"] == "nothing was computed"


def test_why_no_average_is_known(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def reason(experiment: Experiment) -> str:
        return figures(experiment)[0].missing["computation above average"]

    own = shared / "data" / "own"
    assert "several threads added up" in reason(opened(own / "cube" / "fmt_THREAD_SUM" / "profile.cubex"))
    idle: Seconds = {(0, 1): {WORK: 4}}
    assert "omp_idle_threads is part of the time" in reason(run_of({**A, (0, 1): {WORK: 4}}, idle=idle))
    assert "parallel regions of OpenMP" in reason(opened(own / "hpctoolkit-release" / "mpi4.d"))
    assert reason(run_of({(0, 0): {ALLREDUCE: 1}})) == "nothing was computed"
    monkeypatch.setattr("callgrove.analysis.time_use.MOST_COMPARED", 1)
    assert reason(run_of(A)) == "7 contexts of 4 locations are too many to compare"


def test_strong_scaling_between_runs() -> None:
    """A: 3 instructions and 2 cycles a second; B: 4 and 2.5."""
    first, second = figures(run_of(A, (3, 2)), run_of(B, (4, 2.5)))
    check(first, IPC=1.5, frequency=2, computation_scaling=1, global_efficiency=8.75 / 16)
    check(
        second,
        IPC=1.6,
        frequency=2.5,
        computation_scaling=35 / 36,
        instruction_scaling=(35 * 3) / (36 * 4),
        IPC_scaling=1.6 / 1.5,
        frequency_scaling=2.5 / 2,
        global_efficiency=0.75 * 35 / 36,
    )
    assert second.values["speed-up"] == pytest.approx(16 / 12)


def test_weak_scaling_between_runs() -> None:
    """Per process: 35 / 2 = 17.5 against 36 / 4 = 9."""
    second = figures(run_of(A, (3, 2)), run_of(B, (4, 2.5)), question=Question(scaling="weak"))[1]
    check(second, computation_scaling=17.5 / 9, instruction_scaling=(17.5 * 3) / (9 * 4), IPC_scaling=1.6 / 1.5)


def test_threads_of_a_selection_need_their_master() -> None:
    found = figures(run_of(A), question=Question(threads=1))[0]
    assert "parallel efficiency" not in found.values
    assert "first thread" in found.missing["parallel efficiency"]
    check(found, computation=13, threads=2)


# -- what holds always -------------------------------------------------------------------------------------------------

TIMES = st.fixed_dictionaries({}, optional={context: st.integers(1, 50) for context in range(len(CONTEXTS))})


@given(st.dictionaries(st.tuples(st.integers(0, 3), st.integers(0, 2)), TIMES, min_size=1), st.booleans())
def test_products(seconds: Seconds, exclude_init: bool) -> None:
    with_masters = {**{(rank, 0): {WORK: 1} for rank, _ in seconds}, **seconds}
    for rank, _ in seconds:
        with_masters[rank, 0] = {WORK: 1, **with_masters[rank, 0]}
    values = figures(run_of(with_masters), question=Question(exclude_init=exclude_init))[0].values
    product = values["load balance"] * values["communication efficiency"]
    assert values["parallel efficiency"] == pytest.approx(product, rel=1e-12)
    mpi = values["MPI load balance"] * values["MPI communication efficiency"]
    assert values["MPI parallel efficiency"] == pytest.approx(mpi, rel=1e-12)
    hybrid = values["MPI parallel efficiency"] * values["OpenMP parallel efficiency"]
    assert values["parallel efficiency"] == pytest.approx(hybrid, rel=1e-12)


@given(*[st.lists(st.tuples(st.integers(1, 50), st.integers(0, 50)), min_size=1, max_size=5)] * 2, st.booleans())
def test_products_between_runs(a: list[tuple[int, int]], b: list[tuple[int, int]], weak: bool) -> None:
    first, second = (
        run_of({(rank, 0): {WORK: comp, ALLREDUCE: mpi} for rank, (comp, mpi) in enumerate(times)}, (k, 2.0 * k + 1))
        for k, times in enumerate((a, b), 1)
    )
    values = figures(first, second, question=Question(scaling="weak" if weak else "strong"))[1].values
    parts = values["instruction scaling"] * values["IPC scaling"] * values["frequency scaling"]
    assert values["computation scaling"] == pytest.approx(parts, rel=1e-12)
    whole = values["parallel efficiency"] * values["computation scaling"]
    assert values["global efficiency"] == pytest.approx(whole, rel=1e-12)


NAMES = ("main", "MPI_Send", "work", "!$omp barrier @a.c:1")
SOME = st.lists(st.tuples(st.integers(0, 99), st.sampled_from(NAMES), st.booleans()), min_size=1, max_size=20)


@given(SOME, st.sampled_from((Scope.EXCLUSIVE, Scope.FUNCTION, Scope.INCLUSIVE, Scope.POINT)), st.data())
def test_one_pass_over_what_is_stored_gives_exclusive_times(
    rows: list[tuple[int, str, bool]], scope: Scope, data: st.DataObject
) -> None:
    """Whatever the scope, and whatever stands in it."""
    builder = ExperimentBuilder("test")
    for k, (at, name, lexical) in enumerate(rows):
        relation = Relation.LEXICAL if lexical else Relation.CALL
        region = builder.region(ContextKind.FUNCTION, name)
        builder.add_context(at % k if k else -1, ContextKind.FUNCTION, region, relation)
    time = builder.add_metric(Metric("time", scope, "sec"))
    for rank in range(3):
        profile = builder.add_profile(ProfileKind.THREAD, [(RANK, rank, rank, Interpretation.SINGLE)])
        values = data.draw(st.lists(st.integers(0, 9), min_size=len(rows), max_size=len(rows)))
        builder.add_values(profile, np.arange(len(rows)), time, np.array(values, np.float64))
    experiment = builder.build()
    phase = Phase.of(experiment.contexts)
    use = TimeUse.measure(experiment, experiment.profiles.measured, experiment.metrics[0], phase)
    exclusive = experiment.matrix("time", Scope.EXCLUSIVE)
    for activity in ("comp", "mpi", "omp_time"):
        assert use.of(activity).tolist() == exclusive[phase.busy_with(activity)].sum(axis=0).tolist()


def test_batches_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = figures(run_of(A, (3, 2)))[0]
    monkeypatch.setattr("callgrove.analysis.time_use.MOST_CELLS", 1)
    assert figures(run_of(A, (3, 2)))[0].values == pytest.approx(dict(whole.values), rel=1e-12)


def test_every_figure_is_there_or_has_a_reason() -> None:
    every = {figure.name for figure in FIGURES}
    for several in ([run_of(A)], [run_of(A), run_of(B)], [gpu_example()], [example()]):
        for run in figures(*several):
            assert run.values.keys() | run.missing.keys() == every
            assert not run.values.keys() & run.missing.keys()
            assert all(run.missing.values())


@given(experiments(n_runs=2))
def test_any_experiment_has_figures_or_a_reason_to_have_none(experiment: Experiment) -> None:
    every = {figure.name for figure in FIGURES}
    for metric in (None, *experiment.metrics.quantities):
        with suppress(UsageError):  # no time, nothing to divide
            found = pop([experiment], Question(metric))
            for run in found.runs:
                assert run.values.keys() | run.missing.keys() == every
                assert np.isfinite(list(run.values.values())).all()
            assert len(found.table()) == len(FIGURES)


def test_an_experiment_without_profiles_is_refused() -> None:
    with pytest.raises(UsageError, match="no thread or device was measured"):
        pop([ExperimentBuilder("test").build()], Question())


def test_grades() -> None:
    assert [grade(value) for value in (0.59, 0.6, 0.79, 0.8, 1.2)] == [
        *(Grade.POOR, Grade.FAIR, Grade.FAIR, Grade.GOOD, Grade.GOOD)
    ]


# -- several runs ------------------------------------------------------------------------------------------------------


def test_runs_of_a_folder_by_their_threads(shared: Path) -> None:
    experiment = opened(shared / "data" / "own" / "scaling" / "runs")
    found = pop([experiment], Question(runs="n=4000"))
    assert [run.name for run in found.runs] == [f"app.p{p}.n4000.r1" for p in (1, 2, 4, 8, 16)]
    assert [run.values["processes"] for run in found.runs] == [1, 2, 4, 8, 16]
    assert not any("differ" in note for note in found.notes)
    assert any("runs differ in p, n" in note for note in pop([experiment], Question()).notes)
    alone = figures(opened(shared / "data" / "own" / "scaling" / "runs" / "app.p8.n4000.r1"))[0]
    same = [name for name in alone.values if name in found.runs[3].values]
    for name in same:
        assert found.runs[3].values[name] == pytest.approx(alone.values[name], rel=1e-12), name
    assert found.runs[3].values["computation scaling"] == pytest.approx(
        found.runs[0].values["computation"] / alone.values["computation"]
    )


def test_runs_that_are_called_alike() -> None:
    experiment = run_of(A)
    names = [run.name for run in pop([experiment] * 3, Question()).runs]
    assert names == ["run", "run (2)", "run (3)"]


# -- samples -----------------------------------------------------------------------------------------------------------


def test_computation_is_that_of_the_remapped_profile(shared: Path) -> None:
    folder = shared / "data" / "own" / "cube" / "mpi4"
    remapped = opened(folder / "remapped.cubex")
    comp, mpi = (remapped.matrix(name, Scope.INCLUSIVE)[0] for name in ("comp", "mpi"))
    time = opened(folder / "profile.cubex").matrix("time", Scope.INCLUSIVE)[0]
    masters = np.arange(0, 8, 2)
    runtime = time[masters].max()
    useful = (time - mpi)[masters]
    check(
        figures(opened(folder / "profile.cubex"))[0],
        parallel_efficiency=comp.mean() / runtime,
        load_balance=comp.mean() / comp.max(),
        OpenMP_parallel_efficiency=comp.mean() / useful.mean(),
        MPI_parallel_efficiency=useful.mean() / runtime,
    )


def test_sampled_threads_of_hpctoolkit(shared: Path) -> None:
    """Nothing of libgomp computes: its threads wait there for work."""
    experiment = opened(shared / "data" / "own" / "hpctoolkit-release" / "mpi4.d")
    found = figures(experiment)[0]
    time = experiment.matrix("CPUTIME (sec)", Scope.EXCLUSIVE)
    modules = experiment.contexts.column("module")
    names = [experiment.contexts.regions.modules[m] if m >= 0 else "" for m in modules.tolist()]
    waits = np.array(["libgomp" in name for name in names])
    listed = experiment.contexts.listed
    comp = time[listed & ~waits].sum(axis=0)
    threads = [experiment.profiles.identity_list("thread")[p] for p in experiment.profiles.measured.tolist()]
    runtime = time[listed].sum(axis=0)[[thread == 0 for thread in threads]].max()
    check(found, runtime=runtime, parallel_efficiency=comp.mean() / runtime, load_balance=comp.mean() / comp.max())
    assert found.values["OpenMP share of time"] > 0.9
    assert "names" in found.missing["OpenMP barriers"]
    notes = pop([experiment], Question()).notes
    assert any("CPUTIME" in note and "processor" in note for note in notes)


def test_functions_without_names_are_said(shared: Path) -> None:
    notes = pop([opened(shared / "data" / "own" / "hpctoolkit-release" / "gxx_s.foreign.d")], Question()).notes
    assert any("without a name" in note for note in notes)
    named = pop([opened(shared / "data" / "public" / "hpctoolkit" / "dbase" / "small.d")], Question()).notes
    assert not any("without a name" in note for note in named)


def length_of_union(spans: Sequence[tuple[int, int]]) -> int:
    total, reached = 0, -1
    for start, end in sorted(spans):
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total


def test_devices() -> None:
    """Every second of a device counted by brute force: kernels that reduce over ranks are not computation."""
    experiment = gpu_example()
    spans = experiment.export("spans")
    rank_of = experiment.profiles.identity_list("rank")
    kernels: dict[int, list[tuple[int, int]]] = {}
    busy: dict[int, list[tuple[int, int]]] = {}
    copies: dict[int, list[tuple[int, int]]] = {}
    lasts: dict[int, tuple[int, int]] = {}
    for row in spans:
        rank, span = rank_of[row["profile"]], (row["start_ns"], row["end_ns"])
        assert rank is not None
        first, last = lasts.get(rank, span)
        lasts[rank] = min(first, span[0]), max(last, span[1])
        if row["kind"] in ("kernel", "copy", "memset"):
            busy.setdefault(rank, []).append(span)
        if row["kind"] in ("copy", "memset"):
            copies.setdefault(rank, []).append(span)
        if row["kind"] == "kernel" and "nccl" not in row["name"].lower():
            kernels.setdefault(rank, []).append(span)
    lengths = [length_of_union(kernels[rank]) for rank in sorted(kernels)]
    runtime = max(last - first for first, last in lasts.values())
    most = max(length_of_union(spans) for spans in busy.values())
    copying = [length_of_union(copies[rank]) for rank in sorted(copies)]
    either = [length_of_union(copies[rank] + kernels[rank]) for rank in sorted(copies)]
    both = sum(copying) + sum(lengths) - sum(either)
    found = figures(experiment)[0]
    check(
        found,
        devices=2,
        device_runtime=runtime * 1e-9,
        device_parallel_efficiency=float(np.mean(lengths)) / runtime,
        device_load_balance=float(np.mean(lengths)) / max(lengths),
        device_communication_efficiency=max(lengths) / most,
        device_orchestration_efficiency=most / runtime,
        copy_share_of_device_runtime=float(np.mean(copying)) / runtime,
        copy_time_overlapped_by_kernels=both / sum(copying),
    )
    assert "time that threads of the host spent" in found.missing["parallel efficiency"]


@pytest.mark.parametrize(
    "sample", ["own/rocpd/small", "public/extrap/nsight/concurrent_example/concurrent.s2/profile2.sqlite"]
)
def test_device_databases(shared: Path, sample: str) -> None:
    experiment = opened(shared / "data" / sample)
    found = figures(experiment)[0]
    devices = summarise(experiment).devices
    both = sum(ns for d in devices for name, ns in d.going_on_ns.items() if "compute" in name and "copy" in name)
    copies = sum(ns for d in devices for name, ns in d.going_on_ns.items() if "copy" in name)
    check(found, devices=len(devices), copy_time_overlapped_by_kernels=both / copies)
    parts = ("device load balance", "device communication efficiency", "device orchestration efficiency")
    product = np.prod([found.values[name] for name in parts])
    assert found.values["device parallel efficiency"] == pytest.approx(product, rel=1e-12)


# -- threads that are added up, and what is refused --------------------------------------------------------------------


def test_sums_over_threads(shared: Path) -> None:
    folder = shared / "data" / "own" / "cube"
    summed = figures(opened(folder / "fmt_THREAD_SUM" / "profile.cubex"))[0]
    check(summed, processes=2, threads=8)
    assert "added up" in summed.missing["runtime"]
    assert "load balance" not in summed.values
    keyed = figures(opened(folder / "fmt_KEY_THREADS" / "profile.cubex"))[0]
    check(keyed, processes=2, threads=8)
    assert keyed.values["parallel efficiency"] < 1


def test_tuples_over_threads_are_refused(shared: Path) -> None:
    experiment = opened(shared / "data" / "own" / "cube" / "fmt_CUBE_TUPLE" / "profile.cubex")
    with pytest.raises(UsageError, match="tuples over the threads"):
        pop([experiment], Question(metric="bytes_put"))


@pytest.mark.parametrize(
    ("question", "words"),
    [
        (Question(metric="PAPI_TOT_INS"), "is not time"),
        (Question(metric="nothing"), "no metric 'nothing'"),
        (Question(scaling="sideways"), "no scaling 'sideways'"),
        (Question(ranks=9), "no profile has rank 9"),
        (Question(under="nowhere"), "no context 'nowhere'"),
    ],
)
def test_refused_questions(question: Question, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        pop([run_of(A, (3, 2))], question)


def test_a_profile_without_a_time_of_the_host_is_refused(shared: Path) -> None:
    experiment = opened(shared / "data" / "public" / "hpctoolkit" / "dbase" / "loops-cuda-nvidia-t.d")
    with pytest.raises(UsageError, match="no metric of the time that threads of the host spent"):
        pop([experiment], Question())
