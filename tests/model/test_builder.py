"""The builder: what it interns and orders, and every invariant it checks."""

from __future__ import annotations

import pickle
import tracemalloc
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.arrays import NO_OFFSET
from callgrove.errors import InvalidExperiment
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind, Relation
from callgrove.model.experiment import Experiment, Severity
from callgrove.model.metrics import Aggregation, Composite, Metric, Scope
from callgrove.model.profiles import IdentifierTuples, ProfileKind
from callgrove.model.runs import Run
from callgrove.model.system import System, Topology
from callgrove.model.traces.events import ArraySamples, ArraySpans, Counters, Samples, SideTable
from tests.model.strategies import ATOMIC, builders, experiments, forests
from tests.timing import assert_linear

KIND = ContextKind.FUNCTION


def sound() -> ExperimentBuilder:
    """Two roots, one with a child; two threads; two metrics; some values."""
    builder = ExperimentBuilder("test", "1", "title", "path")
    region = builder.region(KIND, "f", file=builder.file("a.c"), line=3, module=builder.module("app"))
    root = builder.add_context(-1, KIND, region)
    builder.add_context(root, KIND, region, Relation.LEXICAL)
    builder.add_context(-1, KIND)
    for _ in range(2):
        builder.add_profile(ProfileKind.THREAD, [(2, 0, 0, 0)])
    for name in ("m", "n"):
        builder.add_metric(Metric(name, Scope.EXCLUSIVE))
    builder.add_values([0, 1], [0, 1], 0, [1.0, 2.0])
    return builder


def ids(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.array(values, np.int32)


def samples(*contexts: int, times: tuple[int, ...] | None = None) -> Samples:
    return Samples(np.array(times or range(len(contexts)), np.int64), ids(*contexts))


def spans(**columns: object) -> ArraySpans:
    given_ = {"start_ns": np.array([0, 1]), "end_ns": np.array([2, 3]), **columns}
    return ArraySpans({name: np.asarray(column) for name, column in given_.items() if column is not None}, ("a", "b"))


def system(parents: list[int], names: int | None = None, topologies: tuple[Topology, ...] = ()) -> System:
    n = len(parents) if names is None else names
    return System(ids(*parents), ("node",) * n, ("x",) * n, np.zeros(n, np.int64), topologies=topologies)


def topology(nodes: list[int], coordinates: list[list[int]]) -> Topology:
    return Topology("mesh", (2, 2), (False, False), ("x", "y"), ids(*nodes), np.array(coordinates, np.int64))


def with_topology(builder: ExperimentBuilder, found: Topology) -> None:
    builder.set_system(system([-1, 0], topologies=(found,)), ids(1, 1))


def add_region(builder: ExperimentBuilder, **wrong: int) -> None:
    builder.region(KIND, "g", **wrong)  # type: ignore[arg-type]


def counters(profile: int = 0, name: int = 0, n: int = 1) -> Counters:
    return Counters(ids(profile), ids(name), np.zeros(n, np.int64), np.zeros(1), ("power",))


def add_late(builder: ExperimentBuilder) -> None:
    builder.order()
    builder.add_context(-1, KIND)


def composite_and_number(builder: ExperimentBuilder) -> None:
    builder.add_values(1, 2, 0, np.zeros(1, ATOMIC))


BROKEN: dict[str, tuple[Callable[[ExperimentBuilder], object], str]] = {
    "parent": (lambda b: b.add_context(99, KIND), r"contexts: parent 99 of row 3 is not one of 4"),
    "parent below -1": (lambda b: b.add_context(-2, KIND), r"contexts: parent -2 of row 3"),
    "region": (lambda b: b.add_context(-1, KIND, 7), r"contexts: region 7 of row 3 is not one of 1"),
    "kind": (lambda b: b.add_contexts(parent=[-1], kind=[14]), r"contexts: kind 14 of row 3"),
    "kind absent": (lambda b: b.add_contexts(parent=[-1]), r"contexts: kind -1 of row 3"),
    "relation": (lambda b: b.add_contexts(parent=[-1], kind=[1], relation=[3]), r"contexts: relation 3 of row 3"),
    "within": (lambda b: b.add_context(-1, KIND, within=9), r"contexts: within 9 of row 3"),
    "call_file": (lambda b: b.add_context(-1, KIND, call_file=5), r"contexts: call_file 5 of row 3 is not one of 1"),
    "cycle": (
        lambda b: b.add_contexts(parent=[4, 3, 4], kind=[1, 1, 1]),
        r"contexts: 3 lie on or below a cycle, the first is 3",
    ),
    "its own parent": (lambda b: b.add_context(3, KIND), r"contexts: 1 lie on or below a cycle, the first is 3"),
    "elided with parent": (lambda b: b.add_context(0, ContextKind.ELIDED), r"elided context 3 has a parent"),
    "below elided": (
        lambda b: b.add_contexts(parent=[-1, 3], kind=[13, 1]),
        r"contexts: context 4 lies below an elided one",
    ),
    "after order": (add_late, r"contexts: 1 were added after order\(\) had fixed them"),
    "huge source id": (lambda b: b.add_context(-1, KIND, source_id=2**63), r"a number does not fit its column"),
    "huge call line": (lambda b: b.add_context(-1, KIND, call_line=2**31), r"a number does not fit its column"),
    "region file": (lambda b: add_region(b, file=3), r"regions: file 3 of row 1 is not one of 1"),
    "region module": (lambda b: add_region(b, module=3), r"regions: module 3 of row 1"),
    "region kind": (lambda b: b.region(20), r"regions: kind 20 of row 1"),  # type: ignore[arg-type]
    "region line": (lambda b: add_region(b, line=2**31), r"a number does not fit its column"),
    "region offset": (lambda b: add_region(b, offset=2**64), r"a number does not fit its column"),
    "identifier tuples": (
        lambda b: b.add_profiles(ids(1), IdentifierTuples.empty(2)),
        r"profiles: 3 profiles, but 4 identifier tuples",
    ),
    "negative identifier": (
        lambda b: b.add_profile(ProfileKind.THREAD, [(2, -1, 0, 0)]),
        r"a number does not fit its column",
    ),
    "profile run": (lambda b: b.add_profile(ProfileKind.THREAD, run=1), r"profiles: run 1 of row 2 is not one of 1"),
    "profile kind": (lambda b: b.add_profile(9), r"profiles: kind 9 of row 2"),  # type: ignore[arg-type]
    "profile system": (lambda b: b.set_system(system([-1]), ids(0, 4)), r"profiles: system 4 of row 1 is not one of 1"),
    "leaves": (lambda b: b.set_system(system([-1]), ids(0)), r"profiles: 2 profiles, but 1 leaves of the system tree"),
    "system parent": (lambda b: b.set_system(system([-1, -2]), ids(0, 1)), r"system: parent -2 of row 1"),
    "system order": (lambda b: b.set_system(system([1, -1]), ids(0, 1)), r"system: a parent comes after its child"),
    "system columns": (
        lambda b: b.set_system(system([-1, 0], names=1), ids(0, 1)),
        r"system: columns differ in length: .*'parent': 2, 'kind': 1",
    ),
    "topology system": (
        lambda b: with_topology(b, topology([5], [[0, 0]])),
        r"topology mesh: system 5 of row 0 is not one of 2",
    ),
    "topology shape": (lambda b: with_topology(b, topology([1], [[0]])), r"topology mesh: coordinates are \(1, 1\)"),
    "topology sizes": (
        lambda b: with_topology(b, topology([1], [[0, 2]])),
        r"topology mesh: a coordinate lies outside",
    ),
    "metric parent": (
        lambda b: b.add_metric(Metric("x", Scope.EXCLUSIVE, parent=8)),
        r"metrics: parent 8 of row 2 is not one of 3",
    ),
    "metric cycle": (
        lambda b: b.add_metric(Metric("x", Scope.EXCLUSIVE, parent=2)),
        r"metrics: a metric lies above itself",
    ),
    "metric twice": (
        lambda b: b.add_metric(Metric("m", Scope.EXCLUSIVE)),
        r"metrics: row 2 repeats 'm' in scope 'exclusive'",
    ),
    "value profile": (lambda b: b.add_values(2, 0, 0, [1.0]), r"values: profile 2 of row 2 is not one of 2"),
    "value context": (lambda b: b.add_values(0, 9, 0, [1.0]), r"values: context 9 of row 2 is not one of 3"),
    "value context below 0": (lambda b: b.add_values(0, -1, 0, [1.0]), r"values: context -1 of row 2"),
    "value metric": (lambda b: b.add_values(0, 0, 5, [1.0]), r"values: metric 5 of row 2 is not one of 2"),
    "value twice": (
        lambda b: b.add_values(1, 1, 0, np.array([3], np.int64)),
        r"values: a \(profile, context, metric\) has more than one value",
    ),
    "value types": (composite_and_number, r"values: metric 0 has numbers and composite values"),
    "sample profile": (
        lambda b: b.set_traces(ArraySamples(ids(4), ids(-1), (samples(0),))),
        r"samples: profile 4 of row 0",
    ),
    "sample metric": (
        lambda b: b.set_traces(ArraySamples(ids(0), ids(2), (samples(0),))),
        r"samples: metric 2 of row 0",
    ),
    "sample lines": (
        lambda b: b.set_traces(ArraySamples(ids(0, 1), ids(-1, -1), (samples(0),))),
        r"samples: columns differ in length: .*'lines': 1",
    ),
    "sample context": (
        lambda b: b.set_traces(ArraySamples(ids(0), ids(-1), (samples(0, 3),))),
        r"sample line 0: context 3 of row 1 is not one of 3",
    ),
    "sample columns": (
        lambda b: b.set_traces(ArraySamples(ids(0), ids(-1), (samples(0, times=(1, 2)),))),
        r"sample line 0: columns differ in length",
    ),
    "sample time": (
        lambda b: b.set_traces(ArraySamples(ids(0), ids(-1), (samples(0, 0, times=(2, 1)),))),
        r"sample line 0: time runs backwards",
    ),
    "span start": (lambda b: b.set_traces(spans=spans(start_ns=None)), r"spans: there is no column start_ns"),
    "span columns": (lambda b: b.set_traces(spans=spans(profile=[0])), r"spans: columns differ in length"),
    "span profile": (lambda b: b.set_traces(spans=spans(profile=[0, 2])), r"spans: profile 2 of row 1"),
    "span without profile": (lambda b: b.set_traces(spans=spans(profile=[0, -1])), r"spans: profile -1 of row 1"),
    "span context": (lambda b: b.set_traces(spans=spans(context=[3, 0])), r"spans: context 3 of row 0"),
    "span name": (lambda b: b.set_traces(spans=spans(name=[0, 2])), r"spans: name 2 of row 1 is not one of 2"),
    "span category": (lambda b: b.set_traces(spans=spans(category=[2, -1])), r"spans: category 2 of row 0"),
    "span kind": (lambda b: b.set_traces(spans=spans(kind=[0, 9])), r"spans: kind 9 of row 1 is not one of 9"),
    "side table": (
        lambda b: b.set_traces(
            spans=ArraySpans(dict(spans().columns), sides={"copy": SideTable(np.array([2]), {"bytes": np.zeros(1)})})
        ),
        r"side table copy: span 2 of row 0 is not one of 2",
    ),
    "side table columns": (
        lambda b: b.set_traces(
            spans=ArraySpans(dict(spans().columns), sides={"copy": SideTable(np.array([1]), {"bytes": np.zeros(3)})})
        ),
        r"side table copy: columns differ in length",
    ),
    "counter profile": (lambda b: b.set_traces(counters=counters(profile=2)), r"counters: profile 2 of row 0"),
    "counter name": (lambda b: b.set_traces(counters=counters(name=1)), r"counters: name 1 of row 0 is not one of 1"),
    "counter columns": (lambda b: b.set_traces(counters=counters(n=2)), r"counters: columns differ in length"),
}


def test_a_sound_builder_has_no_problems() -> None:
    assert sound().validate() == []
    assert sound().build().format == "test"


@pytest.mark.parametrize("name", BROKEN)
def test_every_invariant_is_checked(name: str) -> None:
    damage, problem = BROKEN[name]
    builder = sound()
    damage(builder)
    problems = builder.validate()
    assert len(problems) == 1
    with pytest.raises(InvalidExperiment, match=problem) as caught:
        builder.build()
    assert caught.value.problems == problems


def test_all_broken_invariants_are_listed_at_once() -> None:
    builder = sound()
    builder.add_context(99, KIND, 98, within=97, call_file=96)
    builder.add_context(4, KIND)
    builder.add_context(0, ContextKind.ELIDED)
    builder.region(KIND, "g", file=95)
    builder.add_profile(ProfileKind.THREAD, run=94)
    builder.add_metric(Metric("m", Scope.EXCLUSIVE, parent=93))
    builder.add_values(92, 91, 90, [1.0])
    builder.set_traces(ArraySamples(ids(89), ids(88), (samples(87),)), spans(profile=[86, 0]), counters(profile=85))
    builder.set_system(system([-1, 0], topologies=(topology([1], [[0, 2]]),)), ids(1, 1, 84))
    problems = builder.validate()
    missing = [n for n in range(84, 100) if not any(str(n) in problem for problem in problems)]
    assert missing == []
    for word in ("cycle, the first is 4", "elided context 5", "repeats 'm'", "a coordinate lies outside"):
        assert any(word in problem for problem in problems)
    assert len(problems) == 20
    with pytest.raises(InvalidExperiment, match=r"the experiment contradicts itself: .* \(and 19 more\)"):
        builder.build()


def test_the_error_can_be_sent_to_another_process() -> None:
    again = pickle.loads(pickle.dumps(InvalidExperiment(["a", "b"])))
    assert (again.problems, str(again)) == (["a", "b"], "the experiment contradicts itself: a (and 1 more)")


@pytest.mark.parametrize("columns", [{"parent": [-1], "kind": [1, 1]}, {"parent": [-1], "colour": [1]}])
def test_columns_of_contexts_must_fit(columns: dict[str, list[int]]) -> None:
    with pytest.raises(InvalidExperiment, match="contexts: unfit columns"):
        sound().add_contexts(**columns)


def test_problems_of_contexts_stop_the_ordering() -> None:
    builder = sound()
    builder.add_context(99, KIND)
    with pytest.raises(InvalidExperiment, match="parent 99"):
        builder.order()


@given(builders())
def test_random_builders_are_sound(builder: ExperimentBuilder) -> None:
    assert builder.validate() == []


@given(forests(), st.data())
def test_contexts_may_be_added_in_any_order(parents: list[int], data: st.DataObject) -> None:
    elided = data.draw(st.integers(0, 3))
    builder = ExperimentBuilder("test")
    kinds = [*[int(KIND)] * len(parents), *[int(ContextKind.ELIDED)] * elided]
    builder.add_contexts(parent=[*parents, *[-1] * elided], kind=kinds, source_id=range(len(kinds)))
    final = builder.order()
    tree = builder.build().contexts
    assert tree.source_id[final].tolist() == builder.source_ids().tolist()
    for number, parent in enumerate(parents):
        assert tree.parent[final[number]] == (final[parent] if parent >= 0 else -1)
    assert final[len(parents) :].tolist() == list(range(len(parents), len(kinds)))
    assert (tree.parent < np.arange(len(tree))).all()


def test_equal_regions_are_one() -> None:
    builder = ExperimentBuilder("test")
    file = builder.file("a.c")
    numbers = [
        builder.region(KIND, "f", file=file, line=1, details={"mangled": "first"}),
        builder.region(KIND, "f", file=file, line=1, details={"mangled": "second"}),
        builder.region(KIND, "f", file=file, line=2),
        builder.region(ContextKind.LOOP, "f", file=file, line=1),
    ]
    assert numbers == [0, 0, 1, 2]
    regions = builder.build().contexts.regions
    assert (len(regions), regions.details) == (3, {0: {"mangled": "first"}})
    assert regions.strings == ("f",)


def test_absent_texts_have_no_number() -> None:
    builder = ExperimentBuilder("test")
    assert (builder.file(""), builder.module(""), builder.string("")) == (-1, -1, -1)
    assert [builder.file("b", "src/b"), builder.file("a"), builder.file("b")] == [0, 1, 0]
    experiment = builder.build()
    assert experiment.contexts.regions.files.paths == ("b", "a")
    assert experiment.contexts.regions.files.copied == experiment.sources.copies == {0: "src/b"}


def test_contexts_can_be_described_later() -> None:
    builder = sound()
    builder.describe_context(2, [("level", 1.0)], {"colour": "red"})
    assert builder.n_contexts == 3
    tree = builder.build().contexts
    assert (tree.parameters, tree.attributes) == ({2: (("level", 1.0),)}, {2: {"colour": "red"}})


def test_values_follow_their_contexts() -> None:
    builder = ExperimentBuilder("test")
    child, root = 0, 1
    builder.add_contexts(parent=[root, -1], kind=[1, 1])
    builder.add_profile(ProfileKind.THREAD)
    builder.add_metric(Metric("m", Scope.EXCLUSIVE))
    builder.add_values(0, [child, root], 0, [5.0, 7.0])
    assert builder.build().values.totals(0).tolist() == [7, 5]


def test_quantities_that_are_not_to_be_shown() -> None:
    builder = sound()
    builder.show_only({"n"})
    assert [m.visible for m in builder.build().metrics] == [False, True]
    builder.show_only({"unheard of"})
    assert [m.visible for m in builder.build().metrics] == [False, True]


def test_the_other_parts_arrive() -> None:
    builder = sound()
    builder.attributes["host"] = "x"
    builder.warn(Severity.DAMAGE, "broken")
    builder.warn(Severity.NOTE, "fine")
    assert builder.build().runs == (Run("title", source="path"),)
    builder.add_run(Run("first", {"p": 4.0}))
    experiment = builder.build()
    assert (experiment.runs[0].parameters, experiment.attributes) == ({"p": 4.0}, {"host": "x"})
    assert [w.text for w in experiment.damage] == ["broken"]


def test_composite_metrics_beside_others() -> None:
    builder = sound()
    composite = Composite(ATOMIC, lambda values: values["sum"])
    builder.add_metric(Metric("a", Scope.EXCLUSIVE, aggregation=Aggregation.COMPOSITE, composite=composite))
    builder.add_values(0, 1, 2, np.array([(1, 2, 3, 4)], ATOMIC))
    values = builder.build().values
    assert values.totals(2).tolist() == [(0, 0, 0, 0), (1, 2, 3, 4), (0, 0, 0, 0)]
    assert values.totals(0).tolist() == [1, 2, 0]


@given(experiments(deep=True, n_contexts=3, traces=False))
def test_deep_experiments_are_built(experiment: Experiment) -> None:
    assert int(experiment.contexts.depth.max()) >= 100


@pytest.mark.parametrize("turned", [False, True], ids=["in preorder", "leaf first"])
def test_a_very_deep_tree_takes_time_in_proportion(turned: bool) -> None:
    def build(n: int) -> None:
        builder = ExperimentBuilder("test")
        builder.add_contexts(parent=[*range(1, n), -1] if turned else range(-1, n - 1), kind=[1] * n)
        assert int(builder.build().contexts.depth.max()) == n - 1

    assert_linear(lambda n: partial(build, n), 25_000)


def test_rows_know_the_ids_of_stored_summaries() -> None:
    builder = ExperimentBuilder("test")
    first, second = (builder.add_metric(Metric(name, Scope.INCLUSIVE, source_id=k)) for k, name in enumerate("ab"))
    builder.name_summaries({7: first, 8: first})
    assert [metric.summary_id for metric in builder.build().metrics] == [7, None]
    builder.name_summaries({9: second})
    assert [metric.summary_id for metric in builder.build().metrics] == [7, 9]


def test_many_addresses_are_the_regions_that_single_ones_are() -> None:
    builder = ExperimentBuilder("test")
    module = builder.module("/bin/a")
    one = builder.region(ContextKind.INSTRUCTION, module=module, offset=2**64 - 2)
    found = builder.addresses(ContextKind.INSTRUCTION, [module, -1, module], np.array([5, 5, 2**64 - 2], np.uint64))
    assert found.tolist() == [one + 1, one + 2, one]
    assert builder.region(ContextKind.INSTRUCTION, offset=5) == one + 2
    assert builder.addresses(ContextKind.UNKNOWN, [], []).tolist() == []


def test_names_without_a_place_are_regions_of_their_own() -> None:
    builder = ExperimentBuilder("test")
    given = [
        (kind, name, role, line)
        for name in ("", *(f"f{number}" for number in range(40)))
        for kind, role, line in ((KIND, "", -1), (KIND, "kernel", -1), (ContextKind.KERNEL, "", -1), (KIND, "", 3))
    ]
    numbers = [builder.region(kind, name, role=role, line=line) for kind, name, role, line in given]
    assert numbers == list(range(len(given)))
    assert numbers[::-1] == [builder.region(kind, name, role=role, line=line) for kind, name, role, line in given[::-1]]
    regions = builder.build().contexts.regions
    names = [regions.strings[name] if name >= 0 else "" for name in regions.name.tolist()]
    assert list(zip(regions.kind.tolist(), names, regions.text("role"), regions.line.tolist(), strict=True)) == given
    assert set(regions.file.tolist()) == set(regions.module.tolist()) == {-1}
    assert set(regions.offset.tolist()) == {int(NO_OFFSET)}


def test_a_name_takes_few_bytes() -> None:
    builder = ExperimentBuilder("test")
    names = [f"function {number}" for number in range(20_000)]
    tracemalloc.start()
    for name in names:
        builder.region(KIND, name)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken < 130 * len(names)  # 86 of them are for the numbers of the texts


def test_profiles_keep_their_attributes() -> None:
    builder = ExperimentBuilder("test")
    builder.add_profile(ProfileKind.THREAD, attributes=[("process-id", "42")])
    builder.add_profile(ProfileKind.THREAD)
    assert builder.build().profiles.attributes == ((("process-id", "42"),), ())


def test_profiles_without_attributes_have_no_table_of_them() -> None:
    builder = ExperimentBuilder("test")
    builder.add_profile(ProfileKind.THREAD)
    assert builder.build().profiles.attributes == ()
