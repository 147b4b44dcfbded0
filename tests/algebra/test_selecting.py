"""Selections of contexts: the numbers of tree T, and laws that hold for all trees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import callgrove
from callgrove.algebra.folding import FoldedValues
from callgrove.algebra.selecting import ContextSelection, select_contexts
from callgrove.analysis.costs import costs
from callgrove.cli.messages import with_flags
from callgrove.errors import Parameter, UsageError
from callgrove.examples import example
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Metric, Scope
from callgrove.model.profiles import ProfileKind
from callgrove.model.traces.events import SpanKind
from tests.algebra.consistent import SCOPES, consistent, dense, in_scope
from tests.algebra.reference import cube_a, is_sound
from tests.exhaustive import try_examples
from tests.formats.gpu.gpu_databases import Run, write_rocpd
from tests.model.strategies import experiments
from tests.patterns.tree_t import small_tree, tree_t

few = try_examples(60)
T = tree_t()


def rows(e: Experiment) -> list[tuple[str, int, float, float]]:
    """Name, depth, exclusive and inclusive time of every context."""
    exclusive, inclusive = (e.totals("time", scope) for scope in (Scope.EXCLUSIVE, Scope.INCLUSIVE))
    tree = e.contexts
    return [(tree.label(c), int(tree.depth[c]), exclusive[c], inclusive[c]) for c in range(len(tree))]


def by_name(e: Experiment) -> dict[str, float]:
    """The exclusive time of every function that has any."""
    table = e.top("time")
    return {name: cost for name, cost in zip(table["name"], table["exclusive"], strict=True) if cost}


@pytest.mark.parametrize("scope", [Scope.EXCLUSIVE, Scope.INCLUSIVE])
@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        (
            "path",
            [
                ("main", 0, 0, 132),
                ("solve", 1, 12, 132),
                ("kernel", 2, 100, 100),
                ("solve", 2, 4, 20),
                ("kernel", 3, 16, 16),
            ],
        ),
        ("drop", [("solve", 0, 12, 132), ("kernel", 1, 100, 100), ("solve", 1, 4, 20), ("kernel", 2, 16, 16)]),
        (
            "fold",
            [
                ("main", 0, 32, 224),
                ("solve", 1, 44, 192),
                ("kernel", 2, 120, 120),
                ("solve", 2, 12, 28),
                ("kernel", 3, 16, 16),
            ],
        ),
    ],
)
def test_what_becomes_of_the_rest(scope: Scope, rest: str, expected: list[Any]) -> None:
    found = tree_t(scope).query("solve -> kernel", rest=rest)
    assert is_sound(found)
    assert rows(found) == expected
    assert found.whole_total("time") == 224


@pytest.mark.parametrize("scope", [Scope.EXCLUSIVE, Scope.INCLUSIVE])
@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        ({"name": "kernel"}, {"kernel": 116}),
        ({"name": "MPI_*"}, {"MPI_Allreduce": 40, "MPI_Bcast": 8}),
        ({"name": ["init", "exp"]}, {"exp": 20, "init": 8}),
        ({"file": "app.c"}, {"solve": 16, "init": 8, "main": 4}),
        ({"module": "MPI"}, {"MPI_Allreduce": 40, "MPI_Bcast": 8}),
        ({"under": "solve -> solve"}, {"kernel": 16, "MPI_Allreduce": 8, "solve": 4}),
        ({"under": "solve", "name": "MPI_*"}, {"MPI_Allreduce": 40}),
        ({"name": "kernel", "ranks": 3}, {"kernel": 38}),
        (
            {"exclude": "MPI_*"},
            {"kernel": 116, "exp": 20, "solve": 16, "init": 8, "write": 8, "main": 4, "fwrite": 4},
        ),
        (
            {"prune": "kernel"},
            {"solve": 152, "MPI_Allreduce": 40, "init": 8, "write": 8, "MPI_Bcast": 8, "main": 4, "fwrite": 4},
        ),
        (
            {"leaf": "solve"},
            {"solve": 192, "init": 8, "write": 8, "MPI_Bcast": 8, "main": 4, "fwrite": 4},
        ),
        ({"exclude": "init", "name": "MPI_*", "rest": "drop"}, {"MPI_Allreduce": 40}),
        ({"under": "solve", "prune": "MPI_*", "rest": "drop"}, {"kernel": 116, "solve": 56, "exp": 20}),
        ({"query": "solve", "fold": "kernel", "rest": "fold"}, {"solve": 192, "main": 32}),
    ],
)
def test_selections_on_t(scope: Scope, selection: dict[str, Any], expected: dict[str, float]) -> None:
    found = tree_t(scope).select(**selection)
    assert is_sound(found)
    assert by_name(found) == expected
    assert found.root_total("time") == sum(expected.values())


def test_queries_of_hatchet_are_keywords_too() -> None:
    expected = rows(T.query("solve -> kernel"))
    assert rows(T.select(query=[{"name": "solve"}, {"name": "kernel"}])) == expected  # type: ignore[list-item]
    assert rows(T.select(query='MATCH (p)->(q) WHERE p."name" = "solve" AND q."name" = "kernel"')) == expected


def test_callers_of() -> None:
    expected = [
        ("main", 0, 0, 136),
        ("solve", 1, 0, 136),
        ("kernel", 2, 120, 120),
        ("solve", 2, 0, 16),
        ("kernel", 3, 16, 16),
    ]
    assert rows(T.select(callers_of="kernel")) == expected


def test_children_of_what_is_folded_move_up_and_become_one() -> None:
    found = T.select(fold="solve")
    assert is_sound(found)
    assert [(name, depth, cost) for name, depth, cost, _ in rows(found)] == [
        ("main", 0, 20),
        ("init", 1, 8),
        ("MPI_Bcast", 2, 8),
        ("kernel", 1, 116),
        ("exp", 2, 20),
        ("MPI_Allreduce", 1, 40),
        ("write", 1, 8),
        ("fwrite", 2, 4),
    ]
    twice = small_tree("main 1\n  f 1\n  f 2\n  g 4\n    f 8\n")
    assert rows(twice.select(fold="g"))[1:] == [("f", 1, 11, 11)]
    assert [row[:3] for row in rows(twice.select(leaf="g"))] == [("main", 0, 1), ("f", 1, 1), ("f", 1, 2), ("g", 1, 12)]


def test_lines_and_loops_belong_to_their_function() -> None:
    e = small_tree("""
        main 0
          [main.c:1] 1
            solve 0
              [loop at s.c:1] 0
                [s.c:2] 2
                  kernel 0
                    [k.c:1] 4
        """)
    assert by_name(e.select(name="solve")) == {"solve": 2}
    assert by_name(e.select(name="loop*")) == {"solve": 2}
    assert by_name(e.query("main -> solve")) == {"solve": 2, "main": 1}
    assert by_name(e.select(kind="loop")) == {"solve": 2}
    assert by_name(e.select(fold="solve")) == {"kernel": 4, "main": 3}
    assert [row[0] for row in rows(e.select(fold="solve"))] == ["main", "main.c:1", "kernel", "k.c:1"]
    assert [row[0] for row in rows(e.select(fold="loop*"))] == ["main", "main.c:1", "solve", "s.c:2", "kernel", "k.c:1"]
    alone = e.select(name="s.c:2", rest="drop")  # a line without its function stands for it
    assert by_name(alone) == {"s.c:2": 2}


def test_a_root_has_nobody_to_take_its_cost() -> None:
    for operation in ("prune", "fold"):
        found = T.select(**{operation: "main"})  # type: ignore[arg-type]
        assert rows(found) == rows(T)
        assert [warning.text for warning in found.warnings] == [
            "main is a root: it has no caller that could take its cost, and stays"
        ]


@pytest.mark.parametrize(
    ("selection", "words"),
    [
        ({"query": "kernl"}, "query=...: there is no context 'kernl'; did you mean 'kernel'?"),
        ({"name": "kernl"}, "name=...: there is no context 'kernl'; did you mean 'kernel'?"),
        ({"file": "ap.c"}, "file=...: there is no file 'ap.c'; did you mean 'app.c'?"),
        ({"module": "libn"}, "module=...: there is no module 'libn'; did you mean 'libm'?"),
        ({"kind": "lop"}, "kind=...: there is no kind 'lop'; there are entry, function"),
        ({"kind": "kernel"}, "kind=...: there is no context of kind kernel; there are function"),
        ({"exclude": "a ->"}, "exclude=...: expected a name at character 5 of 'a ->'"),
        ({"leaf": "/(/"}, "leaf=...: '/(/' at character 1 is not a regular expression: missing )"),
        ({"name": "kernel", "under": "init"}, "nothing is left"),
        ({"exclude": "main"}, "nothing is left"),
        ({"name": "main", "rest": "all"}, "there is no rest 'all'; there are path, drop, fold"),
        ({"nodes": 5}, "no profile has node 5"),
        ({"name": 5}, "name=... takes a text or a list of texts, not 5"),
        ({"under": ["f", 5]}, "under=... takes a text or a list of texts, not 5"),
    ],
)
def test_selections_that_are_refused(selection: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as refused:
        T.select(**selection)
    assert words in str(refused.value)


def test_the_command_line_spells_parameters_as_its_options() -> None:
    with pytest.raises(UsageError) as refused:
        T.select(callers_of="solve -> -> kernel")
    text = "--callers-of: expected a name at character 10 of 'solve -> -> kernel'"
    assert with_flags(refused.value.message) == text
    with pytest.raises(UsageError, match=r"^roots=...: there is no context"):
        select_contexts(T, ContextSelection(under=["x"]), {"under": Parameter("roots")})


# -- percentages are of the whole --------------------------------------------------------------------------------------


def test_percentages_stay_shares_of_the_whole() -> None:
    found = T.select(name="MPI_*")
    assert sum(found.top("time")["percent"]) == pytest.approx(100 * 48 / 224)
    assert found.tree("time")["percent"][0] == pytest.approx(100 * 48 / 224)
    assert T.cut(roots=["solve"]).top("time")["percent"][0] == pytest.approx(100 * 116 / 192)  # an experiment by itself


def test_the_whole_follows_what_is_done_later() -> None:
    found = T.select(name="MPI_*")
    assert costs(found, "time", ranks=3).whole == 57
    assert found.select(ranks=3).whole_total("time") == 57
    assert found.select(metrics=["cycles"]).whole_total("cycles") == 448
    assert found.with_metric("twice = 2 * time").whole_total("twice") == 448
    assert found.select(under="solve").whole_total("time") == 224
    assert found.query("*[?time > 10%]").root_total("time") == 32  # of 224, not of 48
    assert callgrove.merge(found).whole_total("time") == 48


def test_derived_metrics_are_computed_over_what_is_left() -> None:
    e = T.with_metric("ratio = cycles / time", "each_half = each(time / 2)", "share = time / total(time)")
    found = e.select(name="kernel")
    table = found.top("ratio")
    assert dict(zip(table["name"], table["exclusive"], strict=True))["kernel"] == 2
    assert found.root_total("each_half") == 58
    assert found.totals("share", Scope.INCLUSIVE)[0] == 1


def test_the_metric_that_views_show_stays() -> None:
    """Where the selected contexts have no time, another metric would be shown, and nobody would notice."""
    builder = ExperimentBuilder("test")
    for name, parent in (("main", -1), ("f", 0)):
        builder.add_context(parent, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, name))
    builder.add_profile(ProfileKind.THREAD)
    for number, (name, unit) in enumerate((("time", "sec"), ("calls", "occ"))):
        builder.add_metric(Metric(name, Scope.EXCLUSIVE, unit))
        builder.add_values(0, number, number, 5.0)
    e = builder.build()
    assert e.default_metric == e.select(name="f").default_metric == "time"
    assert e.select(name="f").top()["name"] == []


def test_shares_in_the_tree_of_metrics_are_of_the_whole() -> None:
    table = T.select(name="MPI_*").metric_tree()
    assert dict(zip(table["name"], table["percent"], strict=True))["time"] == pytest.approx(100 * 48 / 224)


def test_remapped_metrics_have_a_whole() -> None:
    found = cube_a().select(name="foo").remap()
    assert found.whole_total("time") == cube_a().remap().root_total("time")
    assert found.root_total("time") < found.whole_total("time")


# -- profiles, traces and spans ----------------------------------------------------------------------------------------


def sampled(e: Experiment) -> list[list[str]]:
    """The names of what samples are on, line by line; idle is empty."""
    lines = (samples.context.tolist() for _, _, samples in e.traces.lines())
    return [[e.contexts.label(context) if context >= 0 else "" for context in line] for line in lines]


def test_samples_follow_the_cost_of_their_contexts() -> None:
    e = example()
    before, mpi, folded = map(sampled, (e, e.select(name="MPI_*"), e.select(name="MPI_*", rest="fold")))
    assert any("libmpi" in name for line in before for name in line)  # instructions of MPI functions
    roots = {e.contexts.label(root) for root in e.contexts.roots.tolist()}
    for line, selected, taken in zip(before, mpi, folded, strict=True):
        assert selected == [name if "libmpi" in name or "MPI_" in name else "" for name in line]
        for name, now in zip(line, taken, strict=True):
            assert now == name if "libmpi" in name or not name else now in roots


def test_kinds_choose_spans_as_well(tmp_path: Path) -> None:
    e = callgrove.open(write_rocpd(tmp_path / "run.db", [Run.random(1).without("memset")]))
    assert isinstance(e, Experiment)
    kernels = e.select(kind="kernel")
    kinds = {int(kind) for chunk in kernels.traces.spans(("kind",)) for kind in chunk["kind"]}
    assert kinds == {int(SpanKind.KERNEL)}
    assert kernels.traces.n_spans < e.traces.n_spans
    assert kernels.root_total(e.default_metric) <= e.root_total(e.default_metric)


def test_profiles_by_place() -> None:
    builder = ExperimentBuilder("test")
    for node, gpu, stream in ((7, 0, 1), (7, 1, 2), (9, 0, 2)):
        builder.add_profile(ProfileKind.GPU_STREAM, [(1, node, 0, 3), (4, gpu, gpu, 3), (6, stream, stream, 3)])
    profiles = builder.build().profiles
    assert profiles.where(nodes=7).tolist() == [0, 1]
    assert profiles.where(gpus="0", streams="2-").tolist() == [2]
    assert profiles.where(nodes={9}, gpus=1).tolist() == []


# -- laws --------------------------------------------------------------------------------------------------------------


NAMES = st.sampled_from(["f", "g", "h"])
PATTERNS = st.one_of(NAMES, st.sampled_from(["f -> g", "f -> ** -> h", "*[?leaf]", "/./", "x.c*"]))
SELECTIONS = st.fixed_dictionaries(
    {},
    optional={
        "name": NAMES,
        "under": PATTERNS,
        "query": PATTERNS,
        "callers_of": PATTERNS,
        "exclude": NAMES,
        "prune": PATTERNS,
        "fold": PATTERNS,
        "leaf": PATTERNS,
    },
)


def try_select(e: Experiment, **selection: Any) -> Experiment:
    try:
        return e.select(**selection)
    except UsageError:
        assume(False)
        raise


def totals(e: Experiment) -> list[float]:
    return [float(total) for total in dense(e, "time", Scope.EXCLUSIVE).sum(axis=0)]


def check_books(e: Experiment) -> None:
    backend = e.values.backend
    if isinstance(backend, FoldedValues):
        backend.start_books()
        for _ in backend.blocks():
            pass  # books are complete when everything has passed
        assert list(backend.differences()) == []


@few
@given(consistent(), SELECTIONS, st.sampled_from(["path", "drop", "fold"]))
def test_all_scopes_agree(e: Experiment, selection: dict[str, str], rest: str) -> None:
    found = try_select(e, **selection, rest=rest)
    assert is_sound(found)
    exclusive = dense(found, "time", Scope.EXCLUSIVE)
    for scope in SCOPES:
        assert dense(found, "time", scope) == pytest.approx(in_scope(found.contexts, exclusive, scope), abs=1e-9)
    check_books(found)


@few
@given(consistent(), SELECTIONS)
def test_totals_of_what_becomes_of_the_rest(e: Experiment, selection: dict[str, str]) -> None:
    path, drop, fold = (try_select(e, **selection, rest=rest) for rest in ("path", "drop", "fold"))
    assert totals(path) == pytest.approx(totals(drop))
    if "exclude" not in selection:
        assert totals(fold) == pytest.approx(totals(e))
    for found in (path, drop, fold):
        assert found.whole_total("time") == pytest.approx(e.root_total("time"))


@few
@given(consistent(), NAMES)
def test_what_is_selected_and_the_others_are_the_whole(e: Experiment, name: str) -> None:
    kept = try_select(e, under=name)
    try:
        others = totals(e.select(exclude=name))
    except UsageError:  # nothing is left
        others = [0.0] * len(e.profiles)
    assert [a + b for a, b in zip(totals(kept), others, strict=True)] == pytest.approx(totals(e))


@few
@given(consistent(), NAMES, st.integers(0, 2))
def test_profiles_and_contexts_can_be_selected_in_any_order(e: Experiment, name: str, rank: int) -> None:
    assume(rank < len(e.profiles))
    at_once, one, other = (
        try_select(e, name=name, ranks=rank),
        try_select(e, name=name).select(ranks=rank),
        e.select(ranks=rank).select(name=name),
    )
    assert rows(at_once) == rows(one) == rows(other)
    assert at_once.whole_total("time") == one.whole_total("time") == other.whole_total("time")


@few
@given(consistent(), NAMES, NAMES)
def test_two_conditions_are_one_after_the_other(e: Experiment, name: str, above: str) -> None:
    """But for contexts without cost: what leads to the first selection can be found by the second one."""
    at_once, later = try_select(e, under=above, name=name), try_select(try_select(e, under=above), name=name)
    assert [row for row in rows(at_once) if row[3]] == [row for row in rows(later) if row[3]]


@few
@given(experiments(composite=True), st.integers(0, 200), st.sampled_from(["path", "drop", "fold"]))
def test_any_experiment_can_be_selected_from(e: Experiment, seed: int, rest: str) -> None:
    n = e.contexts.n_listed
    assume(n)
    names = [e.contexts.label(int(c)) for c in np.random.default_rng(seed).integers(0, n, 2)]
    found = try_select(e, name=f"*{names[0][-3:]}", fold=f"*{names[1][-3:]}", rest=rest)
    assert is_sound(found)
    check_books(found)
    assert len(found.contexts) <= len(e.contexts)
