"""Files for viewers of stacks: hand-computed costs, real files, random experiments, names that want to break out."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from callgrove.analysis.costs import costs
from callgrove.errors import CallgroveError, UsageError
from callgrove.examples import example, gpu_example
from callgrove.formats.interface import LossReport, WriteOptions
from callgrove.formats.registry import formats_for_target, open_path, writer_of
from callgrove.formats.stacks import costs as stack_costs
from callgrove.formats.stacks.costs import Scale, choose_scale, round_costs
from callgrove.formats.stacks.writer import StackWriter
from callgrove.formats.writing.transfer import write_experiment
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind, Relation
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Metric, Scope
from callgrove.model.profiles import DEFAULT_ID_NAMES, ProfileKind
from callgrove.model.traces.events import ArraySpans, SpanKind
from tests.formats.samples import CORPUS
from tests.formats.stacks.reading_back import (
    pprof_stacks,
    read_dot,
    read_folded,
    read_pprof,
    read_speedscope,
    spans_of,
    stacks_of,
    tree_t,
)
from tests.model.strategies import experiments

FORMATS = {"folded": ".folded", "speedscope": ".speedscope.json", "pprof": ".pb.gz", "dot": ".dot"}
DATABASES = sorted((CORPUS / "hpctoolkit" / "release").glob("*.d"))
HOSTILE = [
    *("a;b", "line\nend", 'quote"s', "back\\slash", "tab\there", "\udc80", "\0", "-> x", "12", "", " x ", "日本"),
    *("]}", "<b>&amp;</b>", "\\N", "n\\", "\u202e"),
]


def write(experiment: Experiment, path: Path, **options: Any) -> LossReport:
    name = formats_for_target(path)[0]
    report = write_experiment(experiment, writer_of(name), path, WriteOptions(**options))
    assert report.unexplained == []
    return report


# -- the tree of analysis.md -----------------------------------------------------------------------------------------


EXCLUSIVE = {  # seconds, over all ranks
    ("main",): 4,
    ("main", "init"): 8,
    ("main", "init", "MPI_Bcast"): 8,
    ("main", "solve"): 12,
    ("main", "solve", "kernel"): 100,
    ("main", "solve", "kernel", "exp"): 20,
    ("main", "solve", "MPI_Allreduce"): 32,
    ("main", "solve", "solve"): 4,
    ("main", "solve", "solve", "kernel"): 16,
    ("main", "solve", "solve", "MPI_Allreduce"): 8,
    ("main", "write"): 8,
    ("main", "write", "fwrite"): 4,
}


def test_folded(tmp_path: Path) -> None:
    report = write(tree_t(), tmp_path / "t.folded")
    assert read_folded(tmp_path / "t.folded") == {stack: cost * 10**9 for stack, cost in EXCLUSIVE.items()}
    assert (tmp_path / "t.folded").read_text().startswith("main 4000000000\nmain;init 8000000000\nmain;init;MPI_Bcast ")
    assert report.hints == ["numbers are nanoseconds of time: sec times 1e+09"]
    assert "which of 4 profiles: their costs are added up" in report.losses


def test_speedscope(tmp_path: Path) -> None:
    write(tree_t(), tmp_path / "t.speedscope.json")
    file = read_speedscope(tmp_path / "t.speedscope.json")
    names = [profile["name"] for profile in file["profiles"]]
    assert names == ["time, all profiles", "rank 0", "rank 1", "rank 2", "rank 3"]
    assert stacks_of(file, file["profiles"][0]) == EXCLUSIVE
    assert [profile["endValue"] for profile in file["profiles"]] == [224, 63, 52, 52, 57]
    assert stacks_of(file, file["profiles"][4])["main", "solve", "kernel"] == 34


def test_pprof(tmp_path: Path) -> None:
    write(tree_t(), tmp_path / "t.pb.gz")
    profile = read_pprof(tmp_path / "t.pb.gz")
    texts = profile.string_table
    assert [(texts[one.type], texts[one.unit]) for one in profile.sample_type] == [("time", "nanoseconds")]
    assert pprof_stacks(profile) == {stack: cost * 10**9 for stack, cost in EXCLUSIVE.items()}
    assert pprof_stacks(profile, rank=3)["main", "solve", "kernel"] == 34 * 10**9
    assert pprof_stacks(profile, rank=4) == {}


def test_dot(tmp_path: Path) -> None:
    report = write(tree_t(), tmp_path / "t.dot")
    nodes, edges = read_dot((tmp_path / "t.dot").read_text())
    by_name = {node["label"].split("\n")[0]: (key, node) for key, node in nodes.items()}
    exclusive = {name: float(node["exclusive"]) for name, (_, node) in by_name.items()}
    inclusive = {name: float(node["inclusive"]) for name, (_, node) in by_name.items()}
    sums = {"main": 4, "init": 8, "MPI_Bcast": 8, "solve": 16, "kernel": 116, "exp": 20}
    assert exclusive == {**sums, "MPI_Allreduce": 40, "write": 8, "fwrite": 4}
    assert (inclusive["main"], inclusive["solve"], inclusive["kernel"], inclusive["write"]) == (224, 192, 136, 12)
    key = {name: node for name, (node, _) in by_name.items()}
    assert float(edges[key["solve"], key["kernel"], True]["cost"]) == 136
    assert float(edges[key["solve"], key["solve"], True]["cost"]) == 28
    assert "rest" not in nodes
    assert not any("cost less" in loss for loss in report.losses)


def test_small_nodes_are_left_out_and_counted(tmp_path: Path) -> None:
    report = write(tree_t(), tmp_path / "t.dot", limit=3)
    nodes, edges = read_dot((tmp_path / "t.dot").read_text())
    assert [node["label"].split("\n")[0] for node in nodes.values()] == ["main", "solve", "kernel", "6 more"]
    assert float(nodes["rest"]["exclusive"]) == 88
    assert sum(float(node["exclusive"]) for node in nodes.values()) == 224
    assert any("functions that cost less than the 3 shown: 6 with 88 sec of time" in loss for loss in report.losses)
    assert len(edges) == 3


def test_edges_lead_over_what_is_left_out(tmp_path: Path) -> None:
    """main calls init, which is small, which calls work: an edge without init is dashed."""
    builder = ExperimentBuilder("example", title="gap")
    time = builder.add_metric(Metric("time", Scope.EXCLUSIVE, "sec"))
    builder.add_profile(ProfileKind.THREAD)
    above = -1
    for name, cost in (("main", 1.0), ("init", 0.0), ("work", 7.0)):
        region = builder.region(ContextKind.FUNCTION, name)
        above = builder.add_context(above, ContextKind.FUNCTION, region, Relation.CALL)
        builder.add_values(0, above, time, cost)
    for k in range(3):  # as much as init has with all below it, so that the first of equals are kept
        region = builder.region(ContextKind.FUNCTION, f"other {k}")
        builder.add_values(0, builder.add_context(0, ContextKind.FUNCTION, region, Relation.CALL), time, 7.5)
    write(builder.build(), tmp_path / "t.dot", limit=4)
    nodes, _ = read_dot((tmp_path / "t.dot").read_text())
    assert "init" not in {node["label"].split("\n")[0] for node in nodes.values()}
    write(builder.build(), tmp_path / "all.dot", limit=None)
    assert len(read_dot((tmp_path / "all.dot").read_text())[0]) == 6


def test_call_tree(tmp_path: Path) -> None:
    write(tree_t(), tmp_path / "t.dot", dialect="tree")
    nodes, edges = read_dot((tmp_path / "t.dot").read_text())
    assert len(nodes) == 12
    assert len(edges) == 11
    kernels = [float(n["inclusive"]) for n in nodes.values() if n["label"].startswith("kernel\n")]
    assert sorted(kernels) == [16, 120]


# -- totals are those of `top` ---------------------------------------------------------------------------------------


def totals_of(path: Path) -> float:
    """What a file of any of the formats says in all, in its own unit."""
    if path.suffix == ".folded":
        return sum(read_folded(path).values())
    if path.suffix == ".json":
        return float(read_speedscope(path)["profiles"][0]["endValue"])
    if path.suffix == ".gz":
        return sum(pprof_stacks(read_pprof(path)).values())
    return sum(float(node["exclusive"]) for node in read_dot(path.read_text())[0].values())


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("database", DATABASES, ids=lambda path: path.name)
def test_totals_of_databases(database: Path, format_: str, tmp_path: Path) -> None:
    experiment = open_path(database)
    assert isinstance(experiment, Experiment)
    path = tmp_path / f"out{FORMATS[format_]}"
    write(experiment, path)
    factor = 1e9 if format_ in ("folded", "pprof") else 1.0
    assert totals_of(path) == pytest.approx(costs(experiment).total * factor, rel=1e-9)


@pytest.mark.parametrize("format_", FORMATS)
def test_totals_of_a_gpu_trace(format_: str, tmp_path: Path) -> None:
    write_experiment(gpu_example(), writer_of("rocpd-draft"), tmp_path / "train.db", WriteOptions())
    experiment = open_path(tmp_path / "train.db")
    assert isinstance(experiment, Experiment)
    path = tmp_path / f"out{FORMATS[format_]}"
    write(experiment, path)
    factor = 1e9 if format_ in ("folded", "pprof") else 1.0
    assert totals_of(path) == pytest.approx(costs(experiment).total * factor, rel=1e-9)


@pytest.mark.parametrize("format_", FORMATS)
def test_the_same_bytes_every_time(format_: str, tmp_path: Path) -> None:
    paths = [tmp_path / f"{k}{FORMATS[format_]}" for k in range(2)]
    for path in paths:
        write(example(), path)
    assert paths[0].read_bytes() == paths[1].read_bytes()


@pytest.mark.parametrize("format_", FORMATS)
@given(experiment=experiments())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_experiments_are_refused_or_complete(
    format_: str, experiment: Experiment, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("random") / f"out{FORMATS[format_]}"
    try:
        write(experiment, path)
    except UsageError:
        assert list(path.parent.iterdir()) == []
        return
    totals_of(path)


def test_lost_costs_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The books compare what the experiment has with what was written."""
    whole = stack_costs.round_costs
    for name in ("folded", "pprof"):
        module = f"callgrove.formats.stacks.{name}.round_costs"
        monkeypatch.setattr(module, lambda *given: stack_costs.WholeCosts(whole(*given).numbers // 2))
        report = write_experiment(tree_t(), writer_of(name), tmp_path / f"t{FORMATS[name]}", WriteOptions())
        assert report.unexplained == ["time: 224.0 were given, 112.0 were passed on"]


# -- lines, modules, several metrics ---------------------------------------------------------------------------------


def test_pprof_has_lines_files_and_modules(tmp_path: Path) -> None:
    write(example(ranks=1, threads=1), tmp_path / "e.pb.gz")
    profile = read_pprof(tmp_path / "e.pb.gz")
    texts = profile.string_table
    assert len(profile.sample_type) > 1
    assert any(texts[mapping.filename].endswith("libc.so.6") for mapping in profile.mapping)
    assert any(line.line > 0 for place in profile.location for line in place.line)
    assert any(texts[function.filename] for function in profile.function)
    assert sum(place.mapping_id > 0 for place in profile.location) > 3


def test_every_metric_of_pprof_has_the_total_of_top(tmp_path: Path) -> None:
    experiment = example()
    write(experiment, tmp_path / "e.pb.gz")
    profile = read_pprof(tmp_path / "e.pb.gz")
    for number, type_ in enumerate(profile.sample_type):
        name, unit = (profile.string_table[k] for k in (type_.type, type_.unit))
        factor = 1e9 if unit == "nanoseconds" else 1
        assert sum(pprof_stacks(profile, number).values()) == pytest.approx(costs(experiment, name).total * factor)


def test_many_profiles_are_added_up_and_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack_costs, "MOST_PROFILES", 3)
    for format_ in ("speedscope", "pprof"):
        report = write(tree_t(), tmp_path / f"t{FORMATS[format_]}")
        assert "which of 4 profiles: up to 3 are told apart, more are added up" in report.losses
    assert len(read_speedscope(tmp_path / "t.speedscope.json")["profiles"]) == 1
    profile = read_pprof(tmp_path / "t.pb.gz")
    assert sum(pprof_stacks(profile).values()) == 224 * 10**9
    assert not any(sample.label for sample in profile.sample)


def test_profiles_of_one_name_are_told_apart() -> None:
    """Every rank of a Score-P profile has its `Master thread`; some processes have nothing but a number."""
    ranks, processes = ExperimentBuilder("made"), ExperimentBuilder("made")
    for rank in range(2):
        where = [(DEFAULT_ID_NAMES.index("RANK"), rank, rank, 3)]
        ranks.add_profile(ProfileKind.THREAD, where, name="Master thread")
        processes.add_profile(ProfileKind.THREAD, name="thread 0")
    assert stack_costs.name_profiles(ranks.build()) == ["Master thread, rank 0", "Master thread, rank 1"]
    assert stack_costs.name_profiles(processes.build()) == ["thread 0, profile 0", "thread 0, profile 1"]


# -- what happened over time -----------------------------------------------------------------------------------------


def test_samples_become_events(tmp_path: Path) -> None:
    experiment = example(ranks=1, threads=1)
    write(experiment, tmp_path / "e.speedscope.json")
    file = read_speedscope(tmp_path / "e.speedscope.json")
    traced = [profile for profile in file["profiles"] if profile["type"] == "evented"]
    assert len(traced) == 1
    (_, _, line), *_ = experiment.traces.lines()
    shown = spans_of(file, traced[0])
    busy = int(np.diff(line.time_ns)[line.context[:-1] >= 0].sum())
    assert sum(end - begin for begin, end, depth, _ in shown if depth == 0) == busy
    assert traced[0]["endValue"] == int(line.time_ns[-1] - line.time_ns[0])


def test_spans_that_overlap_lie_in_lanes(tmp_path: Path) -> None:
    """Two that nest and one that crosses both; one that never ended; one that ends before it starts."""
    never = np.iinfo(np.int64).min
    times = [(1000, 1100), (1010, 1020), (1050, 1150), (1160, never), (1170, 1165)]
    builder = ExperimentBuilder("example", title="spans")
    builder.add_profile(ProfileKind.GPU_STREAM, name="stream 1")
    ids = np.zeros(5, np.int32)
    spans = dict.fromkeys(("profile", "category", "depth"), ids)
    spans |= {"kind": np.full(5, SpanKind.KERNEL, np.int32), "name": np.arange(5, dtype=np.int32)}
    spans |= {"correlation": np.full(5, -1, np.int64), "context": np.full(5, -1, np.int32)}
    spans |= {"start_ns": np.array([s for s, _ in times]), "end_ns": np.array([e for _, e in times])}
    builder.set_traces(spans=ArraySpans(spans, ("a", "b", "c", "d", "e")))
    report = write(builder.build(), tmp_path / "s.speedscope.json")
    file = read_speedscope(tmp_path / "s.speedscope.json")
    first, second = file["profiles"]
    assert (first["name"], second["name"]) == ("stream 1 over time", "stream 1, lane 2 over time")
    assert spans_of(file, first) == [(0, 100, 0, "a"), (10, 20, 1, "b"), (160, 170, 0, "d")]
    assert spans_of(file, second) == [(50, 150, 0, "c")]
    assert "spans with impossible times: 1 are left out" in report.losses
    assert "which spans never ended: they last as long as the trace" in report.losses


# -- whole numbers ---------------------------------------------------------------------------------------------------


def test_rounding_keeps_the_total() -> None:
    whole = round_costs(np.full(4, 0.4), Scale(1.0, "", ""))
    assert whole.numbers.tolist() == [0, 1, 0, 1]
    assert whole.rest == pytest.approx(-0.4)


@pytest.mark.parametrize(
    ("unit", "values", "factor", "said"),
    [
        ("sec", [0.5], 1e9, "nanoseconds"),
        ("us", [3.0], 1e3, "nanoseconds"),
        ("sec", [1e8], 1e6, "microseconds"),
        ("bytes", [512.0], 1.0, "bytes"),
        ("", [7.0], 1.0, ""),
        ("W", [0.25], 1e9, "1e-9 W"),
        ("W", [1e7 + 0.5], 1e6, "1e-6 W"),
    ],
)
def test_scales(unit: str, values: list[float], factor: float, said: str) -> None:
    assert choose_scale(unit, [np.array(values)]) == Scale(factor, said, unit)


def test_large_integers_stay_exact() -> None:
    whole = round_costs(np.array([2**62 + 1, 3], np.int64), Scale(1.0, "", ""))
    assert whole.numbers.tolist() == [2**62 + 1, 3]
    with pytest.raises(UsageError, match="too large for whole numbers"):
        round_costs(np.array([1e19]), Scale(1.0, "", ""))


# -- what is refused, and what is said -------------------------------------------------------------------------------


def test_differences_are_refused_where_costs_cannot_be_negative(tmp_path: Path) -> None:
    change = tree_t() - tree_t({"kernel": "other"})
    for name in ("folded", "speedscope"):
        with pytest.raises(UsageError, match="costs below zero"):
            write(change, tmp_path / f"d{FORMATS[name]}")
    assert list(tmp_path.iterdir()) == []
    write(change, tmp_path / "d.pb.gz")
    stacks = pprof_stacks(read_pprof(tmp_path / "d.pb.gz"))
    assert stacks["main", "solve", "kernel"] == -stacks["main", "solve", "other"] == 100 * 10**9
    write(change, tmp_path / "d.dot")
    nodes, _ = read_dot((tmp_path / "d.dot").read_text())
    assert sum(float(node["exclusive"]) for node in nodes.values()) == 0
    colours = {node["label"].split("\n")[0]: node["fillcolor"] for node in nodes.values()}
    assert colours["kernel"] != colours["other"]


def test_little_below_zero_is_rounding(tmp_path: Path) -> None:
    experiment = tree_t()
    builder = ExperimentBuilder("example", title="noise")
    time = builder.add_metric(Metric("time", Scope.EXCLUSIVE, "sec"))
    builder.add_profile(ProfileKind.THREAD)
    for name, cost in (("a", 10.0), ("b", -1e-4)):
        region = builder.region(ContextKind.FUNCTION, name)
        builder.add_values(0, builder.add_context(-1, ContextKind.FUNCTION, region), time, cost)
    report = write(builder.build(), tmp_path / "n.folded")
    assert read_folded(tmp_path / "n.folded") == {("a",): 10**10}
    assert "costs of time below zero: 1, -0.0001 in all, count as 0" in report.losses
    assert experiment.title == "T"


def test_metrics_that_do_not_add_up(tmp_path: Path) -> None:
    builder = ExperimentBuilder("example", title="maxima")
    most = builder.add_metric(Metric("most", Scope.EXCLUSIVE, "sec", aggregation=Aggregation.MAXIMUM))
    builder.add_profile(ProfileKind.THREAD)
    context = builder.add_context(-1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, "f"))
    builder.add_values(0, context, most, 3.0)
    experiment = builder.build()
    for ending in FORMATS.values():
        with pytest.raises(UsageError, match=r"is not a sum|no metric adds up"):
            write(experiment, tmp_path / f"m{ending}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ending", FORMATS.values())
def test_nothing_to_write(ending: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        write(ExperimentBuilder("example", title="empty").build(), tmp_path / f"e{ending}")
    assert list(tmp_path.iterdir()) == []


def test_endings_choose_the_format() -> None:
    assert formats_for_target("x.speedscope.json") == ["speedscope"]
    assert formats_for_target("x.json")[0] != "speedscope"
    assert formats_for_target("x.folded") == ["folded"]
    assert formats_for_target("x.pb.gz") == ["pprof"]
    assert formats_for_target("x.dot") == formats_for_target("x.gv") == ["dot"]


def test_nobody_gives_chunks_that_are_not_needed() -> None:
    assert StackWriter.reads_experiment


# -- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_hostile_names(name: str, format_: str, tmp_path: Path) -> None:
    """Whatever a function is called, the file is well-formed and its total is right."""
    path = tmp_path / f"h{FORMATS[format_]}"
    report = write(tree_t({"kernel": name}), path)
    assert totals_of(path) == 224 * (10**9 if format_ in ("folded", "pprof") else 1)
    if format_ == "folded":
        changed = any("names with ;" in loss for loss in report.losses)
        assert changed == (";" in name or not name.isprintable())
    if format_ == "dot" and name and name.isprintable():
        nodes, _ = read_dot(path.read_text())
        assert name in {node["label"].split("\n")[0] for node in nodes.values()}
    if format_ == "speedscope" and name and name.isprintable():
        frames = json.loads(path.read_text())["shared"]["frames"]
        assert name in {frame["name"] for frame in frames}


def test_stacks_that_read_the_same_are_one_line(tmp_path: Path) -> None:
    write(tree_t({"exp": "kernel", "init": "write"}), tmp_path / "t.folded")
    stacks = read_folded(tmp_path / "t.folded")
    assert stacks["main", "write"] == 16 * 10**9
    assert Counter(stacks).total() == 224 * 10**9


# -- damage ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("part", ["profile.db", "cct.db", "trace.db"])
@pytest.mark.parametrize("keep", [0.3, 0.7, 0.97])
def test_damaged_inputs_are_refused_or_named(part: str, keep: float, format_: str, tmp_path: Path) -> None:
    """What is broken off is an error of ours, a loss, or part of what the experiment itself says."""
    shutil.copytree(CORPUS / "hpctoolkit" / "release" / "mpi4.d", tmp_path / "in.d")
    whole = (tmp_path / "in.d" / part).read_bytes()
    (tmp_path / "in.d" / part).write_bytes(whole[: int(len(whole) * keep)])
    target = tmp_path / f"out{FORMATS[format_]}"
    try:
        experiment = open_path(tmp_path / "in.d")
        assert isinstance(experiment, Experiment)
        report = write_experiment(experiment, writer_of(format_), target, WriteOptions())
    except CallgroveError:
        assert not target.exists()
        return
    assert report.unexplained == []
    assert experiment.damage or any("damage" in loss or "summary" in loss for loss in report.losses)
    totals_of(target)
