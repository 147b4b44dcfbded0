"""Comparisons of hand-made programs: order, scaling, sentences, names. Numbers are those of analysis.md 5.1, 5.2."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.algebra.cutting import part
from callgrove.analysis.comparison import Comparison, Question, compare
from callgrove.analysis.comparison.call_paths import NameMatching, match_plain_names, plain_name
from callgrove.analysis.comparison.sentences import short_names
from callgrove.analysis.explain.two_runs import why
from callgrove.errors import UsageError
from callgrove.examples import example
from callgrove.formats.registry import open_path
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind, Relation
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Metric, Scope
from callgrove.model.profiles import ProfileKind
from callgrove.model.runs import Run
from tests.algebra.consistent import consistent
from tests.analysis.gates import make_sums
from tests.analysis.programs import S, T, program, renamed
from tests.exhaustive import try_examples

INCLUSIVE = Scope.INCLUSIVE


def rows_of(found: Comparison) -> dict[str, dict[str, Any]]:
    return {row["path"]: row for row in found.table()}


def paths_of(found: Comparison) -> list[str]:
    return found.table()["path"]


# -- scaling -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scaling", "path", "loss", "speedup", "efficiency"),
    [
        ("strong", "main", 100 * 50 / 224, 87 / 56, 174 / 224),
        ("strong", "main->solve->MPI_Allreduce", 100 * 24 / 224, 0.5, 0.25),
        ("weak", "main", 100 * (56 - 87) / 56, 87 / 56, 87 / 56),
        ("weak", "main->solve->MPI_Allreduce", 100 * (8 - 4) / 56, 0.5, 0.5),
    ],
)
def test_losses_of_the_specification(scaling: str, path: str, loss: float, speedup: float, efficiency: float) -> None:
    found = compare([program(S, "s"), program(T, "t")], Question("time", INCLUSIVE, scaling=scaling, sort="loss"))
    row = rows_of(found)[path]
    assert (row["loss"], row["speedup"], row["efficiency"]) == pytest.approx((loss, speedup, efficiency))
    losses = found.table()["loss"]
    assert losses == sorted(losses, reverse=True)
    assert found.processes.counts == (2, 4)


@try_examples(25)
@given(consistent(), consistent(), st.sampled_from(["weak", "strong"]))
def test_losses_add_up_as_costs_do(a: Experiment, b: Experiment, scaling: str) -> None:
    """The exclusive loss of a context and the inclusive losses of what it calls make its inclusive one."""
    exclusive, inclusive = (
        rows_of(compare([a, b], Question("time", scope, scaling=scaling, processes=(2, 3))))
        for scope in (Scope.EXCLUSIVE, INCLUSIVE)
    )
    if compare([a, b], Question("time")).totals[1] == 0:
        assert all(row["loss"] is None for row in inclusive.values())
        return
    for path, row in inclusive.items():
        below = [r["loss"] for p, r in inclusive.items() if p.rpartition("->")[0] == path]
        alone = exclusive[path]["loss"] if path in exclusive else 0
        assert row["loss"] == pytest.approx(alone + sum(below), abs=1e-9)


def test_figures_of_what_one_side_has_alone_are_missing() -> None:
    fewer = [row for row in S if row[1] not in ("write", "fwrite")]
    row = rows_of(compare([program(fewer, "s"), program(T, "t")], Question(scaling="strong")))["main->write"]
    assert (row["speedup"], row["efficiency"]) == (None, None)
    assert row["loss"] == pytest.approx(100 * 8 / 224)


def test_numbers_of_processes_that_nobody_knows_are_asked_for() -> None:
    pair = [program(S, "s", has_ranks=False), program(T, "t")]
    with pytest.raises(UsageError, match=r"s: no profile has a rank.*processes='4,8'"):
        compare(pair, Question(scaling="strong")).table()
    found = compare(pair, Question("time", INCLUSIVE, scaling="weak", processes=(2, 4)))
    assert rows_of(found)["main"]["loss"] == pytest.approx(100 * (56 - 87) / 56)
    assert not compare(pair).processes.differ()  # one of them is unknown


def test_sums_over_more_processes_are_not_slower() -> None:
    """27 processes with 10 s each and 343 with 11 s each: 270 s and 3,773 s in all, and nothing took 14 times as
    long."""
    few, many = make_sums({"a": 270}, 27, "few"), make_sums({"a": 343 * 11}, 343, "many")
    found = compare([few, many], Question(scaling="weak"))
    assert found.processes.counts == (27, 343)
    assert found.sentence.startswith("many has 1,297% more time in all, with 343 processes instead of 27")
    assert rows_of(found)["a"]["speedup"] == pytest.approx(10 / 11)
    said = why(few, many).table()["sentence"]
    assert said[0].startswith("many costs 1,297% more than few: ")
    assert said[0].endswith(", with 343 processes instead of 27.")
    assert "longer over all processes: " in said[1]


def test_parameters_that_count_no_processes_are_not_asked() -> None:
    few, many = make_sums({"a": 270}, 1, "few"), make_sums({"a": 3773}, 1, "many")
    other = [replace(one, runs=(Run("r", {"n": n}),)) for one, n in ((few, 27), (many, 343))]
    assert compare(other).processes.counts == (None, None)


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"sort": "loss"}, "sorting by them needs scaling='strong'"),
        ({"sort": "size"}, "there is no sort 'size'; there are difference, ratio, left, right, loss, path"),
        ({"only": "neither"}, "there is no only 'neither'; there are both, left, right"),
        ({"scaling": "stark"}, "there is no scaling 'stark'; there are weak, strong"),
        ({"processes": (2, 4)}, "are used by scaling alone"),
        ({"scaling": "weak", "processes": (2,)}, "1 numbers of processes were given for 2 inputs"),
        ({"scaling": "weak", "processes": (2, 0)}, "one process at least, not on 0"),
    ],
)
def test_words_that_mean_nothing_are_refused(how: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        compare([program(S), program(T)], Question(**how))


def test_only_sums_have_losses() -> None:
    ratio = program(T).with_metric("half = time / 2 / 1").with_metric("one = time / half")
    with pytest.raises(UsageError, match="one is not a sum over processes"):
        compare([ratio, ratio], Question("one", scaling="weak"))


# -- order and choice --------------------------------------------------------------------------------------------------


CHANGED = {"kernel": 1.5, "MPI_Allreduce": 0.25, "init": 3.0}


def test_rows_are_sorted_as_asked() -> None:
    pair = [program(T, "a"), program(T, "b", CHANGED)]
    tables = {sort: compare(pair, Question(sort=sort)).table() for sort in ("difference", "ratio", "left", "right")}
    for sort in ("left", "right"):
        assert tables[sort][sort] == sorted(tables[sort][sort], reverse=True)
    sizes = [abs(value) for value in tables["difference"]["difference"]]
    assert sizes == sorted(sizes, reverse=True)
    far = [abs(math.log(value)) for value in tables["ratio"]["ratio"]]
    assert far == sorted(far, reverse=True)
    assert far[0] == pytest.approx(math.log(4))
    by_name = paths_of(compare(pair, Question(sort="path")))
    assert by_name == sorted(by_name, key=lambda path: path.split("->"))
    assert {frozenset(table["path"]) for table in tables.values()} == {frozenset(by_name)}


def test_ratios_of_one_side_come_last() -> None:
    fewer = [row for row in T if row[1] != "fwrite"]
    found = compare([program(fewer, "a"), program(T, "b", CHANGED)], Question(sort="ratio"))
    assert found.table()["present"] == ["both"] * 11 + ["right"]


@pytest.mark.parametrize("only", ["both", "left", "right"])
def test_only_what_is_asked_for_is_shown(only: str) -> None:
    left, right = ([row for row in T if row[1] != name] for name in ("fwrite", "exp"))
    found = compare([program(left, "a"), program(right, "b")], Question(only=only))
    expected = {"both": 10, "left": 1, "right": 1}
    assert found.table()["present"] == [only] * expected[only]
    assert found.count_only(1) == {"left": (1, 20.0), "right": (1, 4.0)}


def test_nothing_in_common_is_refused_with_a_remedy() -> None:
    other = program([(depth + 1, name, cost) for depth, name, cost in T], "b")
    below = program([(0, "start", (0, 0, 0, 0)), *((d + 1, name, cost) for d, name, cost in T)], "b")
    assert len(other.contexts) == len(T)
    found = compare([program(T, "a"), below])
    with pytest.raises(
        UsageError, match=r"a and b have no call paths in common: .* is main, of the right start; flat=T"
    ):
        found.require_common()
    flat = compare([program(T, "a"), below], Question(flat=True))
    flat.require_common()
    assert flat.totals == (224, 224)
    compare([program(T, "a"), below, program(S, "c")]).require_common()  # one of two has
    unlike = program(renamed(T, {name: name + "2" for _, name, _ in T}), "c")
    with pytest.raises(UsageError, match=r"no functions in common.*match=\.\.\. says which names mean the same"):
        compare([program(T, "a"), unlike], Question(flat=True)).require_common()


@try_examples(25)
@given(consistent(), consistent())
def test_sums_of_differences_are_differences_of_sums(a: Experiment, b: Experiment) -> None:
    for flat in (False, True):
        found = compare([a, b], Question("time", flat=flat))
        assert sum(found.table()["difference"]) == pytest.approx(found.totals[0] - found.totals[1])
        parts = [compare([a, b], Question("time", flat=flat, only=only)) for only in ("both", "left", "right")]
        assert sum(len(part.table()) for part in parts) == len(found.table())
        change = found.change(1)
        assert change.by_path is not None
        assert change.by_path.sum() == pytest.approx(found.totals[1] - found.totals[0])


@try_examples(25)
@given(consistent())
def test_nothing_differs_from_itself_in_words_either(e: Experiment) -> None:
    found = compare([e, e], Question("time", scaling="strong", processes=(2, 2)))
    assert all(row["loss"] == 0 for row in found.table() if row["loss"] is not None)
    assert "at every call path" in found.sentence or found.sentence.startswith("neither")


# -- sentences ---------------------------------------------------------------------------------------------------------


def say(a: Experiment, b: Experiment, **how: Any) -> str:
    return compare([a, b], Question(**how)).sentence


def test_the_sentence_names_where_the_change_is() -> None:
    """16% of 224 s: kernel grows by 30 s and by 4.8 s below the inner solve."""
    slow = program(T, "slow", {"kernel": 1.3})
    assert say(program(T, "t"), slow) == "slow is 16% slower: 86% of it in solve/kernel"
    assert say(slow, program(T, "t")) == "t is 13% faster: 86% of it in solve/kernel"
    assert say(program(T, "t"), slow, scope=INCLUSIVE) == say(program(T, "t"), slow)
    assert say(program(T, "t"), slow, flat=True) == "slow is 16% slower: 100% of it in kernel"
    three = compare([program(T, "t"), slow, program(T, "u")])
    assert three.sentences[1] == "u has the same time as t, at every call path"


def test_loops_are_part_of_their_function_in_sentences() -> None:
    run = example()
    told = compare([part(run, ranks=[0]), part(run, ranks=[3])]).sentence
    assert "solve/kernel " in told
    assert "stencil.c" not in told
    assert "only in" not in told


def test_a_function_that_two_loops_call_is_one_in_sentences() -> None:
    """Its call paths have the same functions, so nothing could tell them apart."""
    builder = ExperimentBuilder("made", path="x")
    main = builder.add_context(-1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, "main"))
    for line in (1, 2):
        place = builder.region(ContextKind.LOOP, file=builder.file("x.c"), line=line)
        loop = builder.add_context(main, ContextKind.LOOP, place, Relation.LEXICAL)
        builder.add_context(loop, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, "f"), Relation.CALL)
    builder.add_metric(Metric("time", Scope.EXCLUSIVE, unit="sec"))
    builder.add_profile(ProfileKind.THREAD)
    builder.add_values(0, np.arange(5), 0, np.array([1.0, 1, 2, 1, 3]))
    run = builder.build()
    twice = replace(run + run, path="y")
    assert say(run, twice) == "y is 100% slower: 62% of it in main/f, 38% in main"
    rows = rows_of(compare([run, twice]))
    assert rows["main->loop at x.c:1->f"]["right"] == 4


def test_changes_that_cancel_out_are_amounts() -> None:
    """Paths that end alike are told apart."""
    mixed = program(T, "mixed", {"kernel": 1.3, "MPI_Allreduce": 0.5})
    where = "main/solve/kernel 30 sec more, solve/MPI_Allreduce 16 sec less, solve/solve/kernel 4.8 sec more"
    assert say(program(T, "t"), mixed) == f"mixed is 6.6% slower: {where}"
    moved = program([row for row in T if row[1] != "fwrite"], "moved", {"write": 1.5})
    where = "main/write 4 sec more, write/fwrite (only in t) 4 sec less"
    assert say(program(T, "t"), moved) == f"moved has the same time as t, but not in the same places: {where}"


def test_runs_of_another_size_are_not_slower() -> None:
    said = say(program(S, "s"), program(T, "t"))
    assert said.startswith(
        "t has 29% more time in all, with 4 processes instead of 2: 48% of it in solve/MPI_Allreduce"
    )
    cycles = program(T, "b", {"kernel": 2.0}, metric="cycles", unit="occ")
    assert say(program(T, "a", metric="cycles", unit="occ"), cycles).startswith("b has 52% more cycles in all: 86% of")
    clock = program(T, "b", {"kernel": 2.0}, metric="CPUTIME")
    assert say(program(T, "a"), clock, metric="time=CPUTIME").startswith("b has 52% more time in all: 86%")
    for metric in ("time", "tim"):  # each side has its own name for it
        assert say(clock, program(T, "a"), metric=metric).startswith("a has 34% less CPUTIME in all: 86%")
        assert say(program(T, "a"), clock, metric=metric).startswith("b has 52% more time in all: 86%")


def test_a_side_without_costs_is_said_to_have_none() -> None:
    nothing = program(T, "empty", dict.fromkeys((name for _, name, _ in T), 0.0))
    assert say(program(T, "t"), nothing) == "empty has no time"
    assert say(nothing, program(T, "t")) == "empty has no time"
    assert say(nothing, nothing) == "neither empty nor empty has any time"
    less = program(T, "t") - program(T, "slow", {"kernel": 1.3})
    assert say(less, program(T, "t"), flat=True).startswith("t has 258.8 sec more time: 58% of it in kernel, ")


@pytest.mark.parametrize(
    ("names", "short"),
    [
        (("/x/old/run.d", "/x/new/run.d"), ("old/run.d", "new/run.d")),
        (("/x/old/a.d", "/y/b.d"), ("a.d", "b.d")),
        (("a.d", "x/a.d", "a.d"), ("a.d", "x/a.d", "a.d")),
        (("/x/runs/", "/x/runs/"), ("runs", "runs")),
        (("/", ""), ("/", "")),
    ],
)
def test_names_in_sentences(names: tuple[str, ...], short: tuple[str, ...]) -> None:
    assert short_names(names) == short


def test_ratios_have_no_total() -> None:
    pair = [program(T, name).with_metric("per = time / time") for name in ("a", "b")]
    assert compare(pair, Question("per")).sentence == "per is computed for each call path and has no total to compare"


# -- names and units ---------------------------------------------------------------------------------------------------


DECORATED = {
    "kernel": "void kernel(double*, long)",
    "solve": "solve.constprop.0",
    "init": "__mesh_MOD_init",
    "exp": "exp@plt",
}


def test_names_of_two_tools_match_without_decoration() -> None:
    other = program(renamed(T, DECORATED), "b.d", format="another")
    found = compare([program(T, "a"), other])
    assert set(found.table()["present"]) == {"both"}
    assert "main->solve->kernel->exp" in paths_of(found)
    assert found.notes[0].startswith("b.d: 4 names that differ in parameters or decoration are taken as the same: ")
    same_tool = compare([program(T, "a"), program(renamed(T, DECORATED), "b.d")])
    assert {"left", "right"} <= set(same_tool.table()["present"])
    assert same_tool.notes == ()


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("void mesh::step<double>(double*, int) const", "mesh::step<double>"),
        ("std::vector<int> f(std::pair<int, int>)", "f"),
        ("kernel.constprop.0.isra.3", "kernel"),
        ("kernel [clone .cold]", "kernel"),
        ("memcpy@@GLIBC_2.14", "memcpy"),
        ("__mesh_MOD_step", "step"),
        ("mesh_mp_step_", "step"),
        ("step_", "step"),
        ("operator()(int)", "operator()(int)"),
        ("ns::(anonymous namespace)::f(int)", "ns::(anonymous namespace)::f(int)"),
        ("loop at solver.c:12", "loop at solver.c:12"),
        ("!$omp parallel @mpiomp.c:17", "!$omp parallel @mpiomp.c:17"),
        ("(int)", "(int)"),
        ("main thread", "main thread"),
        ("", ""),
    ],
)
def test_plain_names(name: str, plain: str) -> None:
    assert plain_name(name) == plain


@given(st.text("ab()<>:, *_.@[]", max_size=30))
def test_any_text_has_a_plain_name(text: str) -> None:
    assert len(plain_name(text)) <= len(text)


def test_overloads_are_never_taken_for_each_other() -> None:
    several = frozenset({"f(int)", "f(double)", "g(int)"})
    assert match_plain_names(several, frozenset({"f", "g"})) == {"g": "g(int)"}
    assert match_plain_names(frozenset({"f", "f(int)"}), frozenset({"f", "f(long)"})) == {}


def test_names_that_somebody_says_are_the_same(tmp_path: Path) -> None:
    other = program(renamed(T, {"kernel": "stencil, fused", "exp": "fast_exp"}), "b")
    file = tmp_path / "names.csv"
    file.write_text('left,right\n# what was renamed\nkernel,"stencil, fused"\nexp\tfast_exp\n\nnone,nothing\n')
    found = compare([program(T, "a"), other], Question(match=file))
    assert set(found.table()["present"]) == {"both"}
    assert found.notes == ("match=...: none, nothing is in no input that it is given for",)
    again = compare([program(T, "a"), other], Question(match={"kernel": "stencil, fused", "exp": "fast_exp"}))
    assert list(again.table()) == list(found.table())
    assert again.notes == ()


def test_several_names_may_be_one() -> None:
    """A function that was split: what both parts cost adds up."""
    split = program([*renamed(T, {"exp": "exp_low"}), (4, "exp_high", (1, 1, 1, 1))], "b")
    found = compare([program(T, "a"), split], Question(match=[("exp", "exp_low"), ("exp", "exp_high")], flat=True))
    assert rows_of(found)["exp"]["right"] == 24
    joined = NameMatching((("f", "x"), ("g", "y"), ("g", "x")))
    assert (joined.left, joined.right) == ({"g": "f"}, {"x": "f", "y": "f"})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a,b,c\n", "line 1: expected two names, separated by a comma or a tab, found 'a,b,c'; a name with a comma"),
        ("a,b\nalone\n", "line 2: expected two names"),
        ("a,\n", "line 1: expected two names"),
    ],
)
def test_files_of_names_that_cannot_be_read(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "names").write_text(text)
    with pytest.raises(UsageError, match=says):
        NameMatching.read(tmp_path / "names")
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        NameMatching.read(tmp_path / "none")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="is not text in UTF-8"):
        NameMatching.read(tmp_path / "bytes")


def test_units_of_time_are_converted_and_said() -> None:
    micro = program(T, "b", dict.fromkeys((name for _, name, _ in T), 1e6), unit="usec")
    found = compare([program(T, "a"), micro])
    assert found.totals == pytest.approx((224, 224))
    assert found.notes == ("time of b is converted from usec to sec",)
    assert set(found.table()["difference"]) == {0}
    with pytest.raises(UsageError, match="is measured in sec and occ"):
        compare([program(T), program(T, unit="occ")])


# -- the library and real files ----------------------------------------------------------------------------------------


def test_methods_of_the_library() -> None:
    small, large = program(S, "s"), program(T, "t")
    comparison = small.compare(large, scope="inclusive", scaling="strong", sort="loss")
    assert comparison.totals == (174, 224)
    assert comparison.table(1)["path"] == ["main"]
    assert repr(comparison) == f"<Comparison of 2 experiments, 12 call paths: {comparison.sentence}>"
    assert "<table>" in comparison._repr_html_()
    table = small.diff(large, limit=2, sort="right")
    assert table.notes[0] == comparison.sentence
    assert table["path"] == ["main->solve->kernel", "main->solve->MPI_Allreduce"]
    with pytest.raises(UsageError, match="there is no scope 'all'"):
        small.compare(large, scope="all")
    below = program([(0, "start", (0, 0)), *((d + 1, name, cost) for d, name, cost in S)], "b")
    with pytest.raises(UsageError, match="no call paths in common"):
        small.diff(below)


def test_one_program_measured_by_two_profilers(shared: Path) -> None:
    """Score-P and HPCToolkit: functions match by name where both tools met them."""
    own = shared / "data" / "own"
    cube, database = (open_path(own / name) for name in ("cube/mpi4/profile.cubex", "hpctoolkit-release/mpi4.d"))
    assert isinstance(cube, Experiment)
    assert isinstance(database, Experiment)
    with pytest.raises(UsageError, match=r"no call paths in common.*flat=True"):
        cube.compare(database)
    found = cube.compare(database, flat=True)
    both = {row["path"] for row in found.table() if row["present"] == "both"}
    assert both == {"main", "solve", "smooth", "kernel_axpy", "kernel_trig"}
    assert "has 6.6% less time in all, with 16 profiles instead of 8: MPI_Init (only in" in found.sentence
    matched = cube.compare(
        database, flat=True, match={"!$omp parallel @mpiomp.c:17": "main._omp_fn.0"}, scope="inclusive"
    )
    row = rows_of(matched)["!$omp parallel @mpiomp.c:17"]
    assert row["present"] == "both"


def test_many_contexts_match_as_one_by_one() -> None:
    """Call paths of two random trees, against the sets of their names from the root."""
    dice = np.random.default_rng(3)
    trees = []
    for side in ("a", "b"):
        depths, rows = [0], [(0, "r", (1.0,))]
        for _ in range(400):
            depths.append(int(dice.integers(1, depths[-1] + 2)))
            rows.append((depths[-1], "fgh"[dice.integers(3)], (float(dice.integers(1, 9)),)))
        trees.append((side, rows))
    expected = []
    for _, rows in trees:
        chain: list[str] = []
        known: dict[str, float] = {}
        for depth, name, cost in rows:
            del chain[depth:]
            chain.append(name)
            path = "->".join(chain)
            known[path] = known.get(path, 0) + cost[0]
        expected.append(known)
    found = rows_of(compare([program(rows, side) for side, rows in trees]))
    assert found.keys() == expected[0].keys() | expected[1].keys()
    for path, row in found.items():
        assert (row["left"], row["right"]) == (expected[0].get(path, 0), expected[1].get(path, 0))
