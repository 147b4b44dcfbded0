"""Trees matched by call path."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.arrays import NO_OFFSET
from callgrove.errors import UsageError
from callgrove.model import joining
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.computed_values import ChainedValues, Link
from callgrove.model.contexts import ContextKind, ContextTree, Relation
from callgrove.model.joining import PLACES, Unified, Unifier, join_runs, names, unify
from callgrove.model.metrics import Metric, Scope
from callgrove.model.profiles import ProfileKind
from callgrove.model.runs import Run
from tests.model.strategies import forests, trees
from tests.patterns.tree_t import tree_t
from tests.timing import assert_linear

OPTIONS = st.fixed_dictionaries(
    {
        "ignore": st.lists(st.sampled_from(PLACES), unique=True),
        "merge_equal": st.booleans(),
        "keep_elided": st.booleans(),
    }
)


@st.composite
def alike(draw: Any) -> ContextTree:
    """Trees with few names and places, which have much in common."""
    builder = ExperimentBuilder("test")
    builder.file(draw(st.sampled_from(["", "z.c"])))
    rows = draw(st.lists(st.tuples(*[st.integers(0, 3)] * 3, st.booleans()), max_size=9))
    parents = draw(forests(max_size=len(rows), max_roots=2))
    for parent, (what, where, how, lexical) in zip(parents, rows, strict=False):
        region = builder.region(
            ContextKind.FUNCTION,
            ("f", "g", "f", "")[what],
            file=builder.file(("a.c", "a.c", "b.c", "")[where]),
            line=(1, 1, 2, -1)[how],
            module=builder.module("app" if where == how else ""),
            offset=16 if what == 3 else None,
            role="loop" if how == 3 else "",
            details={"from": str(where)},
        )
        builder.add_context(
            parent,
            ContextKind.FUNCTION if what else ContextKind.LINE,
            -1 if what == where == how == 3 else region,
            Relation.LEXICAL if lexical and how > 1 else Relation.CALL,
            source_id=builder.n_contexts,
            call_file=builder.file("z.c" if where == 2 else ""),
            call_line=5 if how == 2 else -1,
            parameters=[("n", 1.0)] if what == how == 1 else (),
            attributes={"seen": str(how)},
        )
    for _ in range(draw(st.integers(0, 2))):
        builder.add_context(-1, ContextKind.ELIDED, source_id=77)
    return builder.build().contexts


ALIKE = alike() | trees(n_contexts=6)


def tree_of(*paths: str, **region: Any) -> ContextTree:
    """A tree from paths such as "main/f": each is one context, siblings may be equal ("main/f" twice)."""
    builder = ExperimentBuilder("test")
    latest: dict[str, int] = {}
    for path in paths:
        above, _, name = path.rpartition("/")
        known = builder.region(ContextKind.FUNCTION, name, **region)
        latest[path] = builder.add_context(latest.get(above, -1), ContextKind.FUNCTION, known, source_id=len(latest))
    return builder.build().contexts


def paths(tree: ContextTree) -> list[str]:
    return [tree.path(c).replace("->", "/") for c in range(len(tree))]


def described(tree: ContextTree) -> dict[str, Any]:
    """All that a tree is, as plain values."""
    names = ("parent", "subtree_end", "kind", "relation", "region", "within", "call_file", "call_line", "source_id")
    out: dict[str, Any] = {name: getattr(tree, name).tolist() for name in names}
    regions = tree.regions
    for name in ("kind", "name", "file", "line", "end_line", "module", "offset", "role", "paradigm"):
        out[f"regions {name}"] = getattr(regions, name).tolist()
    tables = (regions.strings, regions.files.paths, regions.modules, regions.details)
    return out | {"tables": tables, "parameters": tree.parameters, "attributes": tree.attributes}


def identity(tree: ContextTree, context: int, ignore: list[str]) -> tuple[Any, ...]:
    """What must be equal for a match, apart from the parent."""
    regions, region = tree.regions, int(tree.region[context])
    texts = {"file": regions.files.paths, "module": regions.modules}
    place: list[Any] = [region >= 0]
    if region >= 0:
        name = int(regions.name[region])
        place += [regions.strings[name] if name >= 0 else ""]
        for column in PLACES:
            value = int(getattr(regions, column)[region])
            if column not in ignore:
                place.append(texts[column][value] if column in texts and value >= 0 else value)
    site: list[Any] = []
    if "file" not in ignore:
        file = int(tree.call_file[context])
        site.append(regions.files.paths[file] if file >= 0 else "")
    if "line" not in ignore:
        site.append(int(tree.call_line[context]))
    return (int(tree.kind[context]), int(tree.relation[context]), *place, *site, tree.parameters.get(context))


def brute(inputs: list[ContextTree], ignore: list[str], merge_equal: bool, keep_elided: bool) -> list[list[Any]]:
    """For each input, each context's identity in the whole: equal ones are matched."""
    out: list[list[Any]] = []
    for number, tree in enumerate(inputs):
        found: list[Any] = []
        for context in range(len(tree)):
            if context >= tree.n_listed:
                found.append(("elided", number, context) if keep_elided else None)
                continue
            parent = int(tree.parent[context])
            own = identity(tree, context, ignore)
            twins = [c for c in range(context) if int(tree.parent[c]) == parent and identity(tree, c, ignore) == own]
            above = found[parent] if parent >= 0 else None
            found.append((above, own, 0 if merge_equal else len(twins)))
        out.append(found)
    return out


def test_the_example_of_the_module() -> None:
    a, b = tree_of("main", "main/f", "main/f"), tree_of("main", "main/f", "main/g")
    found = unify([a, b])
    assert paths(found.tree) == ["main", "main/f", "main/f", "main/g"]
    assert [m.tolist() for m in found.maps] == [[0, 1, 2], [0, 1, 3]]


def test_new_contexts_follow_in_order_of_appearance() -> None:
    a = tree_of("main", "main/f", "main/f/x", "other")
    b = tree_of("main", "main/g", "main/f", "main/f/y", "main/f/x", "third")
    found = unify([a, b])
    assert paths(found.tree) == ["main", "main/f", "main/f/x", "main/f/y", "main/g", "other", "third"]
    assert found.maps[1].tolist() == [0, 4, 1, 3, 2, 6]


def test_equal_siblings_are_matched_one_by_one() -> None:
    a, b = tree_of("main", "main/f"), tree_of("main", "main/f", "main/f", "main/f")
    assert paths(unify([a, b]).tree).count("main/f") == 3
    merged = unify([a, b], merge_equal=True)
    assert paths(merged.tree) == ["main", "main/f"]
    assert merged.maps[1].tolist() == [0, 1, 1, 1]


@pytest.mark.parametrize("place", PLACES)
def test_places_count_unless_ignored(place: str) -> None:
    def tree(text: str, number: int) -> ContextTree:
        builder = ExperimentBuilder("test")
        places: dict[str, Any] = {
            "file": builder.file(text),
            "line": number,
            "module": builder.module(text),
            "offset": number,
        }
        region = builder.region(ContextKind.FUNCTION, "f", **{place: places[place]})
        builder.add_context(-1, ContextKind.FUNCTION, region)
        return builder.build().contexts

    one, other = tree("a", 1), tree("b", 2)
    assert len(unify([one, other]).tree) == 2
    assert len(unify([one, one]).tree) == 1
    found = unify([one, other], ignore=[place]).tree
    assert len(found) == 1
    assert described(found)["tables"] == described(unify([one]).tree)["tables"], "the first tree's word stays"


def test_lines_without_name_match_by_their_place() -> None:
    def tree(*lines: int) -> ContextTree:
        builder = ExperimentBuilder("test")
        file = builder.file("a.c")
        for line in lines:
            builder.add_context(-1, ContextKind.LINE, builder.region(ContextKind.LINE, file=file, line=line))
        return builder.build().contexts

    assert unify([tree(1, 2), tree(2, 3)]).maps[1].tolist() == [1, 2]
    assert unify([tree(1, 2), tree(2, 3)], ignore=["line"]).maps[1].tolist() == [0, 1]


def test_call_sites_count() -> None:
    def tree(*lines: int) -> ContextTree:
        builder = ExperimentBuilder("test")
        region = builder.region(ContextKind.FUNCTION, "f")
        for line in lines:
            builder.add_context(-1, ContextKind.FUNCTION, region, call_file=builder.file("a.c"), call_line=line)
        return builder.build().contexts

    assert unify([tree(1, 2), tree(2)]).maps[1].tolist() == [1]
    assert unify([tree(1, 2), tree(2)], ignore=["line"]).maps[1].tolist() == [0]


def test_kinds_relations_and_parameters_count() -> None:
    builder = ExperimentBuilder("test")
    region = builder.region(ContextKind.FUNCTION, "f")
    builder.add_context(-1, ContextKind.FUNCTION, region)
    builder.add_context(-1, ContextKind.INLINED, region)
    builder.add_context(-1, ContextKind.FUNCTION, region, Relation.INLINED)
    builder.add_context(-1, ContextKind.FUNCTION, region, parameters=[("n", 1.0)])
    builder.add_context(-1, ContextKind.FUNCTION, region, parameters=[("n", 2.0)])
    builder.add_context(-1, ContextKind.FUNCTION)
    tree = builder.build().contexts
    found = unify([tree, tree], merge_equal=True)
    assert found.maps[0].tolist() == found.maps[1].tolist() == [0, 1, 2, 3, 4, 5]


def test_names_alone_may_count() -> None:
    """Formats differ in kinds and places, in what they call an instruction, and in names of roots."""
    trees_ = []
    for root, kind, name in (
        ("<program root>", ContextKind.PLACEHOLDER, "<unknown> 0x10"),
        ("main thread", ContextKind.ENTRY, ""),
    ):
        builder = ExperimentBuilder("test")
        top = builder.add_context(-1, kind, builder.region(kind, root))
        place = builder.region(ContextKind.FUNCTION, "f", file=builder.file(f"{kind}.c"))
        f = builder.add_context(top, ContextKind.FUNCTION, place, parameters=[("n", 1.0)])
        instruction = builder.region(ContextKind.INSTRUCTION, name, module=builder.module("app"), offset=16)
        builder.add_context(f, ContextKind.INSTRUCTION, instruction)
        trees_.append(builder.build().contexts)
    assert len(unify(trees_).tree) == 6
    assert names(trees_[0]) == names(trees_[1]) == ["main thread", "f(n=1.0)", "app+0x10"]
    found = unify(trees_, by_name=True)
    assert len(found.tree) == 3
    assert found.maps[0].tolist() == found.maps[1].tolist() == [0, 1, 2]


def test_elided_contexts_of_one_tree_may_be_left_out() -> None:
    builder = ExperimentBuilder("test")
    builder.add_context(-1, ContextKind.ELIDED, source_id=7)
    unifier = Unifier(whole := ExperimentBuilder("test"))
    assert unifier.add(builder.build().contexts, keep_elided=False).tolist() == [-1]
    assert unifier.add(builder.build().contexts).tolist() == [0]
    assert whole.n_contexts == 1


def test_elided_contexts_stay_apart() -> None:
    builder = ExperimentBuilder("test")
    builder.add_context(-1, ContextKind.ELIDED, source_id=7)
    builder.add_context(-1, ContextKind.FUNCTION, source_id=3)
    tree = builder.build().contexts
    kept, dropped = unify([tree, tree]), unify([tree, tree], keep_elided=False)
    assert [m.tolist() for m in kept.maps] == [[0, 1], [0, 2]]
    assert kept.tree.source_id.tolist() == [-1, 7, 7]
    assert [m.tolist() for m in dropped.maps] == [[0, -1], [0, -1]]
    assert len(dropped.tree) == 1


def test_within_is_mapped_also_to_what_comes_later() -> None:
    builder = ExperimentBuilder("test")
    builder.add_contexts(parent=[-1, 0, 0], kind=[1, 6, 4], relation=[1, 0, 0], within=[-1, 2, 0])
    tree = builder.build().contexts
    found = unify([tree_of("x"), tree]).tree
    assert found.within.tolist() == [-1, -1, 3, 1]


def test_nothing_to_unify() -> None:
    assert len(unify([]).tree) == len(unify([tree_of()]).tree) == 0
    with pytest.raises(UsageError, match="cannot ignore 'colour'; it can ignore file, line, module, offset"):
        unify([], ignore=["colour"])


def test_a_builder_may_hold_other_contexts() -> None:
    builder = ExperimentBuilder("test")
    above = builder.add_context(-1, ContextKind.ENTRY)
    unifier = Unifier(builder)
    assert unifier.add(tree_of("main", "main/f")).tolist() == [1, 2]
    assert builder.add_context(above, ContextKind.MARKER) == 3
    assert unifier.add(tree_of("main", "main/g")).tolist() == [1, 4]
    assert len(builder.build().contexts) == 5


@given(st.lists(ALIKE, max_size=3), OPTIONS)
def test_contexts_match_where_they_should(inputs: list[ContextTree], options: dict[str, Any]) -> None:
    found = unify(inputs, **options)
    expected = brute(inputs, **options)
    numbers: dict[Any, int] = {}
    for keys, mapping in zip(expected, found.maps, strict=True):
        for key, number in zip(keys, mapping.tolist(), strict=True):
            assert number == (-1 if key is None else numbers.setdefault(key, number))
    assert sorted(numbers.values()) == list(range(len(found.tree)))
    for keys, mapping, tree in zip(expected, found.maps, inputs, strict=True):
        for context, number in enumerate(mapping.tolist()):
            if keys[context] is None:
                continue
            parent = int(tree.parent[context])
            assert found.tree.parent[number] == (mapping[parent] if parent >= 0 else -1)
            if context < tree.n_listed:
                ignore = options["ignore"]
                assert identity(found.tree, number, ignore) == identity(tree, context, ignore)


@given(st.lists(ALIKE, min_size=2, max_size=4), OPTIONS, st.data())
def test_grouping_does_not_matter(inputs: list[ContextTree], options: dict[str, Any], data: st.DataObject) -> None:
    whole = unify(inputs, **options)
    cut = data.draw(st.integers(1, len(inputs)))
    first = unify(inputs[:cut], **options)
    stepwise = unify([first.tree, *inputs[cut:]], **options)
    assert described(stepwise.tree) == described(whole.tree)
    maps = [*(_through(m, stepwise) for m in first.maps), *stepwise.maps[1:]]
    assert [m.tolist() for m in maps] == [m.tolist() for m in whole.maps]
    last = unify(inputs[cut - 1 :], **options)
    pairwise = unify([*inputs[: cut - 1], last.tree], **options)
    assert described(pairwise.tree) == described(whole.tree)


@given(st.lists(ALIKE, min_size=1, max_size=4), OPTIONS, st.data())
def test_levels_and_single_contexts_match_alike(
    inputs: list[ContextTree], options: dict[str, Any], data: st.DataObject
) -> None:
    one_by_one = Unifier(ExperimentBuilder("test"), **options)
    mixed = Unifier(ExperimentBuilder("test"), **options)
    for tree in inputs:
        expected = one_by_one.add(tree)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(joining, "FEW", 0)
            patch.setattr(joining, "WIDE", 0 if data.draw(st.booleans()) else 1000)
            assert mixed.add(tree).tolist() == expected.tolist()


@pytest.mark.parametrize("copies", [1, 3])
def test_large_trees_match_level_by_level_as_they_do_one_by_one(copies: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three copies below one root have siblings that look the same, which stay apart."""
    inputs = [_wide_tree(seed, copies) for seed in (1, 2, 3)]
    found = unify(inputs)
    monkeypatch.setattr(joining, "FEW", 10**9)
    expected = unify(inputs)
    assert [ids.tolist() for ids in found.maps] == [ids.tolist() for ids in expected.maps]
    assert described(found.tree) == described(expected.tree)
    assert max(map(len, inputs)) < len(found.tree) < sum(map(len, inputs))


def _wide_tree(seed: int, copies: int) -> ContextTree:
    rng = np.random.default_rng(seed)
    n = 2500
    grown = (rng.random(n) * np.arange(n)).astype(np.int64) + 1
    parents, names = [np.array([-1])], [np.array([0])]
    for copy in range(copies):
        parents.append(np.append(0, grown[1:] + n * copy))
        names.append(np.append(0, rng.integers(0, 5, n - 1)))
    builder = ExperimentBuilder("test")
    for name in "fghij":
        builder.region(ContextKind.FUNCTION, name)
    parent, region = np.concatenate(parents), np.concatenate(names)
    builder.add_contexts(parent=parent, kind=np.full(len(parent), int(ContextKind.FUNCTION)), region=region)
    return builder.build().contexts


def _through(mapping: Any, second: Unified) -> Any:
    return np.where(mapping >= 0, np.append(second.maps[0], -1)[mapping], -1)


@given(ALIKE)
def test_a_tree_with_itself_is_itself(tree: ContextTree) -> None:
    found = unify([tree, tree], keep_elided=False)
    n = tree.n_listed
    assert found.maps[0][:n].tolist() == found.maps[1][:n].tolist() == list(range(n))
    assert paths(found.tree) == paths(tree)[:n] or (tree.region[:n] < 0).any()
    assert found.tree.within.tolist() == tree.within[:n].tolist()


def test_values_of_two_runs_in_one_tree() -> None:
    runs = []
    for own in (["main", "main/f"], ["main", "main/g", "main/f"]):
        builder = ExperimentBuilder("test")
        unifier = Unifier(builder)
        numbers = unifier.add(tree_of(*own))
        builder.add_profile(ProfileKind.THREAD)
        builder.add_metric(Metric("m", Scope.EXCLUSIVE))
        builder.add_values(0, numbers, 0, np.arange(1.0, len(own) + 1))
        runs.append(builder.build())
    whole = ExperimentBuilder("both")
    unifier = Unifier(whole)
    numbers_of = [unifier.add(run.contexts) for run in runs]
    final = whole.order()
    links = []
    for number, run in enumerate(runs):
        whole.add_profile(ProfileKind.THREAD)
        contexts, one = final[numbers_of[number]], np.zeros(1, np.int32)
        links.append(Link(run.values.backend, one + number, contexts, one))
    whole.add_metric(Metric("m", Scope.EXCLUSIVE))
    whole.set_values(ChainedValues(links))
    experiment = whole.build()
    assert paths(experiment.contexts) == ["main", "main/f", "main/g"]
    assert experiment.totals("m", Scope.EXCLUSIVE).tolist() == [2, 2 + 3, 2]


def test_large_trees_take_time_in_proportion() -> None:
    found = unify(_two_trees(40_000))
    assert len(found.tree) > 40_000
    assert found.tree.regions.offset[0] == NO_OFFSET
    assert_linear(lambda n: partial(unify, _two_trees(n)), 25_000)


def _two_trees(n: int) -> list[ContextTree]:
    rng = np.random.default_rng(1)
    inputs = []
    for _ in range(2):
        builder = ExperimentBuilder("test")
        for k in range(500):
            builder.region(ContextKind.FUNCTION, f"f{k}", line=k)
        parent = np.maximum(np.arange(n) - 1 - rng.integers(0, 30, n), -1)
        builder.add_contexts(parent=parent.tolist(), kind=[1] * n, region=rng.integers(0, 500, n).tolist())
        inputs.append(builder.build().contexts)
    return inputs


def test_a_metric_that_runs_store_in_different_scopes_is_refused() -> None:
    """Views would be made of the runs that store one of the scopes."""
    parts = [(Run(str(k)), tree_t(scope)) for k, scope in enumerate((Scope.EXCLUSIVE, Scope.INCLUSIVE))]
    joined = join_runs(parts, "test", "joined", "joined")
    with pytest.raises(UsageError, match="time: runs store it in different scopes"):
        joined.root_total("time")
    same = join_runs([parts[0], parts[0]], "test", "joined", "joined")
    assert same.root_total("time") == 2 * 224
