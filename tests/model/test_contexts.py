"""Labels, paths and walks of context trees."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from callgrove.arrays import NO_OFFSET
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import LONGEST_PATH, ContextKind, ContextTree, Relation
from tests.model.strategies import trees

LABELS = [
    (ContextKind.FUNCTION, {"name": "f", "file": "a.c", "line": 3}, "f"),
    (ContextKind.LINE, {"file": "a.c", "line": 3}, "a.c:3"),
    (ContextKind.LINE, {"file": "a.c", "line": 0}, "a.c:0"),
    (ContextKind.LINE, {"file": "a.c"}, "a.c"),
    (ContextKind.LINE, {}, "<unknown line>"),
    (ContextKind.LOOP, {"file": "a.c", "line": 9}, "loop at a.c:9"),
    (ContextKind.LOOP, {"module": "app", "offset": 16}, "loop at app+0x10"),
    (ContextKind.LOOP, {}, "loop at <unknown place>"),
    (ContextKind.LOOP, {"name": "named loop", "file": "a.c", "line": 9}, "named loop"),
    (ContextKind.INSTRUCTION, {"module": "app", "offset": 0x1F}, "app+0x1f"),
    (ContextKind.INSTRUCTION, {"module": "app", "offset": 0x1F, "file": "a.c", "line": 1}, "app+0x1f"),
    (ContextKind.INSTRUCTION, {"module": "app", "offset": 0}, "app+0x0"),
    (ContextKind.INSTRUCTION, {"offset": 2**64 - 2}, "<unknown module>+0xfffffffffffffffe"),
    (ContextKind.INSTRUCTION, {"module": "app"}, "app"),
    (ContextKind.FUNCTION, {"module": "libm.so", "offset": 2**63}, "libm.so+0x8000000000000000"),
    (ContextKind.FUNCTION, {}, "<unknown function>"),
    (ContextKind.KERNEL, {}, "<unknown kernel>"),
]


def one_region(kind: ContextKind, given_: dict[str, object]) -> ContextTree:
    builder = ExperimentBuilder("test")
    region = builder.region(
        kind,
        str(given_.get("name", "")),
        file=builder.file(str(given_.get("file", ""))),
        line=int(str(given_.get("line", -1))),
        module=builder.module(str(given_.get("module", ""))),
        offset=given_.get("offset"),  # type: ignore[arg-type]
    )
    builder.add_context(-1, kind, region)
    return builder.build().contexts


@pytest.mark.parametrize(("kind", "place", "label"), LABELS)
def test_labels(kind: ContextKind, place: dict[str, object], label: str) -> None:
    tree = one_region(kind, place)
    assert tree.label(0) == tree.path(0) == tree.regions.label(0) == label


def chain(length: int) -> ContextTree:
    builder = ExperimentBuilder("test")
    for k in range(length):
        builder.add_context(k - 1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, f"f{k}"))
    return builder.build().contexts


def test_parameters_belong_to_the_label() -> None:
    builder = ExperimentBuilder("test")
    region = builder.region(ContextKind.REGION, "solve")
    root = builder.add_context(-1, ContextKind.REGION, region, parameters=[("level", 3.0), ("phase", "a")])
    builder.add_context(root, ContextKind.REGION, region)
    assert builder.build().contexts.path(1) == "solve(level=3.0,phase=a)->solve"


def test_contexts_without_region_are_called_after_their_kind_and_id() -> None:
    builder = ExperimentBuilder("test")
    builder.add_context(-1, ContextKind.ELIDED, source_id=17)
    builder.add_context(-1, ContextKind.PLACEHOLDER, source_id=4)
    tree = builder.build().contexts
    assert (tree.label(0), tree.label(1)) == ("<placeholder 4>", "<elided 17>")
    assert (tree.n_listed, tree.roots.tolist(), tree.listed.tolist()) == (1, [0], [True, False])


def test_paths_are_whole_up_to_a_hundred_levels() -> None:
    tree = chain(LONGEST_PATH)
    assert tree.path(LONGEST_PATH - 1) == "->".join(f"f{k}" for k in range(LONGEST_PATH))


@pytest.mark.parametrize("length", [LONGEST_PATH + 1, 1000])
def test_the_middle_of_longer_paths_is_cut(length: int) -> None:
    names = chain(length).path(length - 1).split("->")
    assert names == [*(f"f{k}" for k in range(50)), "...", *(f"f{k}" for k in range(length - 50, length))]


def test_columns_of_regions_by_context() -> None:
    builder = ExperimentBuilder("test")
    file, module = builder.file("a.c"), builder.module("app")
    placed = builder.region(ContextKind.LINE, file=file, line=7, module=module, offset=2**63)
    builder.add_context(-1, ContextKind.LINE, placed)
    builder.add_context(-1, ContextKind.UNKNOWN)
    tree = builder.build().contexts
    assert [tree.column(name).tolist() for name in ("file", "line", "module")] == [[0, -1], [7, -1], [0, -1]]
    assert tree.column("offset").tolist() == [2**63, int(NO_OFFSET)]
    assert tree.column("offset").dtype == np.uint64


def test_roles_and_paradigms_are_words() -> None:
    builder = ExperimentBuilder("test")
    builder.region(ContextKind.REGION, "f", role="barrier")
    builder.region(ContextKind.REGION, "g", paradigm="mpi")
    regions = builder.build().contexts.regions
    assert (regions.text("role"), regions.text("paradigm")) == (["barrier", ""], ["", "mpi"])


@given(trees(n_contexts=14))
def test_walks_agree_with_parents(tree: ContextTree) -> None:
    for context in range(tree.n_listed):
        chain_up = tree.ancestors(context)
        assert len(chain_up) == tree.depth[context] + 1
        assert tree.children(context) == np.flatnonzero(tree.parent == context).tolist()
        assert tree.path(context) == "->".join(tree.label(c) for c in reversed(chain_up))
    assert sorted(c for level in tree.levels for c in level.tolist()) == list(range(tree.n_listed))
    assert (tree.kind[tree.n_listed :] == ContextKind.ELIDED).all()
    assert (tree.kind[: tree.n_listed] != ContextKind.ELIDED).all()


@given(trees(n_contexts=10))
def test_lexical_contexts_lie_within_their_parents(tree: ContextTree) -> None:
    lexical = tree.relation == Relation.LEXICAL
    assert tree.within.tolist() == np.where(lexical, tree.parent, -1).tolist()


@given(trees(n_contexts=14))
def test_arrays_of_a_tree_are_read_only(tree: ContextTree) -> None:
    for name in ("parent", "subtree_end", "kind", "relation", "region", "within", "source_id"):
        assert not getattr(tree, name).flags.writeable


@given(trees(n_contexts=4, deep=True))
def test_deep_trees_are_no_problem(tree: ContextTree) -> None:
    deepest = int(np.argmax(tree.depth))
    assert tree.path(deepest).count("->...->") == 1
