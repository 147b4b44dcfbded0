"""From runs with parameters to series."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from callgrove.errors import UsageError
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind, Relation
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Metric, Scope
from callgrove.model.profiles import DEFAULT_ID_NAMES, Identifier, Interpretation, ProfileKind
from callgrove.model.runs import Run
from callgrove.model.study.from_runs import combination_for, fold
from callgrove.model.study.run_values import Combination
from tests.model.strategies import ATOMIC, ATOMIC_TYPE, experiments
from tests.timing import assert_linear

E, I = Scope.EXCLUSIVE, Scope.INCLUSIVE  # noqa: E741


def runs(*parameters: dict[str, float], metrics: Sequence[Metric] = (Metric("time", E, "sec"),)) -> ExperimentBuilder:
    """main calls f twice (two contexts) and g; every run has two processes and a stream without values."""
    builder = ExperimentBuilder("test", path="runs")
    names = {n: builder.region(ContextKind.FUNCTION, n) for n in "mfg"}
    main = builder.add_context(-1, ContextKind.FUNCTION, names["m"])
    for name in "ffg":
        builder.add_context(main, ContextKind.FUNCTION, names[name])
    builder.add_context(-1, ContextKind.ELIDED)
    for number, point in enumerate(parameters):
        builder.add_run(Run(f"r{number}", point))
        for rank in range(2):
            identifier = DEFAULT_ID_NAMES.index("RANK"), rank, rank, int(Interpretation.SINGLE)
            builder.add_profile(ProfileKind.THREAD, [identifier], run=number)
        builder.add_profile(ProfileKind.GPU_STREAM, run=number)
    for metric in metrics:
        builder.add_metric(metric)
    return builder


def three_runs() -> ExperimentBuilder:
    builder = runs({"p": 2}, {"p": 4}, {"p": 2})
    builder.add_values([0, 0, 0, 1], [1, 2, 4, 1], 0, [1.0, 2.0, 99.0, 5.0])  # run 0: f; 99 is elided
    builder.add_values([3, 4], [3, 0], 0, [7.0, 1.0])  # run 1: g and main
    builder.add_values([6], [1], 0, [10.0])  # run 2: f
    return builder


def test_contexts_of_one_call_path_add_up_and_runs_of_one_point_repeat() -> None:
    study = fold(three_runs().build())
    assert (study.parameters, study.points.tolist()) == (("p",), [[2], [4]])
    assert study.series("m->f", "time").values[0].tolist() == [8, 10]
    assert study.series("m->f", "time").repetitions.tolist() == [2]
    assert study.series("m->g", "time").points.tolist() == [[4]]
    assert (study.units, study.scaling, study.path) == ({"time": "sec"}, "strong", "runs")
    assert study.validate() == []


def test_reached_without_cost_is_zero_and_never_reached_is_absent() -> None:
    study = fold(three_runs().build())
    main = study.series("m", "time")
    assert main.mean.tolist() == [0, 1], "runs 0 and 2 passed through main"
    assert main.repetitions.tolist() == [2, 1]
    assert study.series("m->f", "time").point.tolist() == [0], "run 1 never called f"


def test_what_some_repetitions_lack_is_said() -> None:
    """At p = 2 the first run has 10 in f, the second none, and 30 in g: means of 10 and 30 make more than the 20 that a
    run has in the mean."""
    builder = runs({"p": 2}, {"p": 2}, {"p": 4})
    builder.add_values([0, 6], [1, 1], 0, [10.0, 1.0])
    builder.add_values([3, 6], [3, 3], 0, [30.0, 1.0])
    study = fold(builder.build())
    assert [study.series(path, "time").mean[0] for path in ("m->f", "m->g")] == [10, 30]
    notes = [warning.text for warning in study.warnings if "repetitions" in warning.text]
    assert len(notes) == 1
    assert notes[0].startswith("2 series were reached by some repetitions of a point alone: m->f (time), m->g (time);")
    assert not any("repetitions" in warning.text for warning in fold(three_runs().build()).warnings)


def test_inclusive_cost() -> None:
    study = three_runs().build().study(scope=I)
    assert study.series("m", "time").values[0].tolist() == [8, 10]
    assert study.series("m", "time").mean.tolist() == [9, 8]


@pytest.mark.parametrize(
    ("combination", "values", "scaling"),
    [
        (Combination.SUM, [8, 10], "strong"),
        (Combination.STRONG, [8, 10], "strong"),
        (Combination.MEAN, [4, 10], ""),
        (Combination.MAXIMUM, [5, 10], ""),
        (Combination.EACH, [3, 5, 0, 10, 0, 0], "weak"),
        (Combination.EACH_USED, [3, 5, 10], "weak_threaded"),
    ],
)
def test_values_of_profiles_are_combined(combination: Combination, values: list[float], scaling: str) -> None:
    study = three_runs().build().study(["time"], combination=combination)
    series = study.series("m->f", "time")
    assert (series.values[0].tolist(), study.scaling) == (values, scaling)
    assert series.repetitions.tolist() == [2], "runs, however many values they have"


def test_the_mean_of_a_formula_adds_up_to_what_a_process_has_of_it() -> None:
    """Two processes have 2 x 3 and 2 x 5 at f: 8 each, of 16 in all."""
    experiment = three_runs().build().with_metric("twice = 2 * time")
    study = experiment.study(["twice"], combination=Combination.MEAN)
    assert study.series("m->f", "twice").values[0].tolist() == [8, 20]
    assert study.unexplained == ()


def test_only_zeros_are_kept_where_there_is_nothing_else() -> None:
    study = three_runs().build().study(combination=Combination.EACH_USED)
    assert study.series("m", "time").values[0].tolist() == [0, 0, 0, 0, 0, 0]


def test_series_without_any_cost_are_left_out() -> None:
    builder = runs({"p": 1}, {"p": 2})
    builder.add_values([0, 3], [1, 1], 0, [1.0, 2.0])
    assert fold(builder.build()).callpaths == ("m->f",)


def test_minima_are_combined_by_their_own_rule() -> None:
    metrics = [Metric("low", E, aggregation=Aggregation.MINIMUM)]
    builder = runs({"p": 1}, metrics=metrics)
    builder.add_values([0, 0, 1], [1, 2, 1], 0, [4.0, 2.0, 3.0])
    assert fold(builder.build()).series("m->f", "low").mean.tolist() == [2]
    assert fold(builder.build(), combination=Combination.MAXIMUM).series("m->f", "low").mean.tolist() == [3]
    assert fold(builder.build(), combination=Combination.MEAN).series("m->f", "low").mean.tolist() == [2.5]


def test_composite_values_by_their_scalar_reading() -> None:
    metric = Metric("atomic", E, aggregation=Aggregation.COMPOSITE, composite=ATOMIC_TYPE)
    builder = runs({"p": 1}, metrics=[metric])
    builder.add_values([0, 1], [3, 3], 0, np.array([(1, 1, 1, 1), (1, 5, 5, 5)], ATOMIC))
    assert fold(builder.build()).series("m->g", "atomic").mean.tolist() == [3]


def test_quantities_that_cannot_be_had_are_left_out_with_a_note() -> None:
    metrics = [Metric("time", E), Metric("strange", Scope.LEXICAL), Metric("alone", E, aggregation=Aggregation.NONE)]
    builder = runs({"p": 1}, metrics=metrics)
    for metric in range(3):
        builder.add_values([0, 1], [1, 1], metric, [1.0, 2.0])
    study = fold(builder.build())
    assert study.metrics == ("time",)
    texts = [w.text for w in study.warnings]
    assert ["strange" in texts[0], "'none' cannot be combined" in texts[1], len(texts)] == [True, True, 2]
    with pytest.raises(UsageError, match="strange has no exclusive values"):
        fold(builder.build(), ["strange"])


def test_metrics_are_found_by_a_part_of_their_name() -> None:
    builder = runs({"p": 1}, metrics=[Metric("CPUTIME (sec)", E), Metric("visits", E)])
    builder.add_values([0, 0], [1, 1], [0, 1], [1.0, 2.0])
    assert fold(builder.build(), ["cpu", "CPUTIME (sec)"]).metrics == ("CPUTIME (sec)",)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ([{}], "the runs carry no parameters"),
        ([{"p": 1.0}, {"p": 1.0, "n": 2.0}], "run r1 has the parameters p, n, the first run has p"),
        ([{"p": 1.0}, {}], "run r1 has the parameters none"),
    ],
)
def test_runs_must_have_the_same_parameters(parameters: list[dict[str, float]], message: str) -> None:
    builder = runs(*parameters)
    builder.add_values(0, 0, 0, [1.0])
    with pytest.raises(UsageError, match=message):
        fold(builder.build())


def test_the_order_of_parameters_may_differ() -> None:
    builder = runs({"p": 1, "n": 2}, {"n": 2, "p": 1})
    builder.add_values([0, 3], 0, 0, [1.0, 2.0])
    study = fold(builder.build())
    assert (study.points.tolist(), study.repetitions.tolist()) == ([[1, 2]], [[2]])


def test_no_value_no_study() -> None:
    with pytest.raises(UsageError, match="runs: there is no exclusive value to make a study of"):
        fold(runs({"p": 1}).build())


def test_arrows_in_names_are_drawn_apart_and_what_reads_the_same_is_numbered() -> None:
    builder = ExperimentBuilder("test")
    names = {n: builder.region(ContextKind.FUNCTION, n) for n in ("a", "b", "a->b", "a- >b")}
    first = builder.add_context(-1, ContextKind.FUNCTION, names["a"])
    builder.add_context(first, ContextKind.FUNCTION, names["b"])
    builder.add_context(-1, ContextKind.FUNCTION, names["a->b"])
    builder.add_context(-1, ContextKind.FUNCTION, names["a- >b"])
    _with_values(builder, 4)
    study = fold(builder.build())
    assert study.callpaths == ("a", "a->b", "a- >b", "a- >b #2")
    assert study.mean.tolist() == [[1], [2], [3], [4]]


def _with_values(builder: ExperimentBuilder, n: int) -> None:
    builder.add_run(Run("r", {"p": 1.0}))
    builder.add_profile(ProfileKind.THREAD)
    builder.add_metric(Metric("m", E))
    builder.add_values(0, np.arange(n), 0, np.arange(1.0, n + 1))


@pytest.mark.parametrize("scope", [E, I])
def test_deep_recursion_keeps_every_level_apart(scope: Scope) -> None:
    n = 20_000
    study = fold(_recursion(n), scope=scope)
    assert len(study) == n
    assert study.mean[0, 0] == (1 if scope == E else n * (n + 1) / 2)
    assert study.callpaths[99] == "->".join(["f"] * 100)
    assert study.callpaths[100] == "->".join([*["f"] * 50, "...", *["f"] * 50])
    assert study.callpaths[101] == study.callpaths[100] + " #2"
    assert_linear(lambda n: partial(fold, _recursion(n), scope=scope), n // 4)


def _recursion(n: int) -> Experiment:
    builder = ExperimentBuilder("test")
    region = builder.region(ContextKind.FUNCTION, "f")
    builder.add_contexts(parent=range(-1, n - 1), kind=[1] * n, region=[region] * n)
    _with_values(builder, n)
    return builder.build()


def test_function_scope_becomes_exclusive() -> None:
    builder = ExperimentBuilder("test")
    root = builder.add_context(-1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, "main"))
    line = builder.region(ContextKind.LINE, file=builder.file("a.c"), line=3)
    builder.add_context(root, ContextKind.LINE, line, Relation.LEXICAL)
    builder.add_run(Run("r", {"p": 1.0}))
    builder.add_profile(ProfileKind.THREAD)
    builder.add_metric(Metric("m", Scope.FUNCTION))
    builder.add_values(0, [0, 1], 0, [5.0, 3.0])
    assert fold(builder.build()).mean[:, 0].tolist() == [2, 3]


@given(experiments(n_runs=3, traces=False, summary=False, n_profiles=6, aggregations=(Aggregation.SUM,)))
def test_a_study_adds_up_to_the_experiment(experiment: Experiment) -> None:
    for scope in (E, I):
        try:
            study = fold(experiment, scope=scope)
        except UsageError:
            continue
        assert study.validate() == []
        assert study.unexplained == ()
        sums: dict[str, Any] = {}
        for series in study.all_series():
            total = sum(float(values.sum()) for values in series.values)
            sums[series.metric] = sums.get(series.metric, 0) + total
        for quantity in experiment.metrics.quantities:
            n = experiment.contexts.n_listed
            parts = [
                experiment.totals(
                    quantity,
                    scope,
                    experiment.profiles.measured[experiment.profiles.run[experiment.profiles.measured] == r],
                )
                for r in range(3)
            ]
            expected = sum(float(part[:n].astype(float).sum()) for part in parts)
            largest = max([1.0, *(float(np.abs(part[:n].astype(float)).max(initial=0)) for part in parts)])
            assert sums.get(quantity, 0) == pytest.approx(expected, abs=1e-9 * largest)


def test_progress_is_told_for_every_metric() -> None:
    told: list[tuple[str, int, int]] = []
    three_runs().build().study(progress=lambda *words: told.append(words))
    assert told == [("folding metrics", 0, 1)]


def places(**numbers: int) -> list[Identifier]:
    """An identifier tuple like (rank, GPU device, GPU stream)."""
    return [(DEFAULT_ID_NAMES.index(name), n, n, Interpretation.SINGLE) for name, n in numbers.items()]


def gpu_runs() -> ExperimentBuilder:
    """Two runs of two processes with two threads and two GPUs each, which have two streams, one of them idle."""
    metrics = [Metric("gpu_time", E, "sec"), Metric("host_time", E, "sec"), Metric("both", E, "sec")]
    builder = ExperimentBuilder("test", path="runs")
    builder.add_context(-1, ContextKind.KERNEL, builder.region(ContextKind.KERNEL, "k"))
    for metric in metrics:
        builder.add_metric(metric)
    for run in range(2):
        builder.add_run(Run(f"r{run}", {"p": 2.0 + run}))
        for rank in range(2):
            for thread in range(2):
                made = builder.add_profile(ProfileKind.THREAD, places(RANK=rank, THREAD=thread), run=run)
                builder.add_values([made], [0], 1, [1.0 + thread])
                builder.add_values([made], [0], 2, [1.0])
            for device in range(2):
                for stream in range(2):
                    own = places(RANK=rank, GPUDEVICE=device, GPUSTREAM=stream)
                    made = builder.add_profile(ProfileKind.GPU_STREAM, own, run=run)
                    if not (rank and device):  # the last GPU does nothing
                        builder.add_values([made], [0], 0, [10.0 * (1 + stream)])
                        builder.add_values([made], [0], 2, [1.0])
    return builder


def test_gpu_runs_are_modelled_by_device_and_process() -> None:
    experiment = gpu_runs().build()
    assert combination_for(experiment) is Combination.DEVICE
    study = fold(experiment, combination=combination_for(experiment))
    assert study.series("k", "gpu_time").values[0].tolist() == [30, 30, 30, 0]  # of four GPUs
    assert study.series("k", "host_time").values[0].tolist() == [3, 3]  # of two processes
    assert study.series("k", "both").values[0].tolist() == [6, 4]  # of processes with their GPUs
    assert study.scaling == "weak"
    assert combination_for(experiment, "sum") is Combination.SUM
    assert fold(experiment, combination=Combination.SUM).series("k", "gpu_time").values[0].tolist() == [90]


def test_without_gpus_each_profile_counts_as_in_extra_p() -> None:
    assert combination_for(three_runs().build()) is Combination.EACH  # a stream of no process, as Cube has them
    with pytest.raises(UsageError, match="weak, weak_threaded, strong, device"):
        combination_for(three_runs().build(), "nix")
