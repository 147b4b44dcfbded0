"""The numbers of the specification (12.1) under our rules (12.2)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from callgrove.algebra.cutting import common, cut, part
from callgrove.algebra.operations import diff, mean, merge
from callgrove.errors import UsageError
from callgrove.formats.registry import open_path
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Scope
from tests.algebra.reference import TREE_A, at, cube, cube_a, cube_b, is_sound, notes, paths, stored
from tests.formats.samples import CORPUS

A, B = cube_a(), cube_b()


def test_diff() -> None:
    found = diff(A, B)
    assert is_sound(found)
    expected = {
        "main": [0, -1, 0, -1],
        "main/foo": [9, 19, 29, 39],
        "main/foo/new": [-1] * 4,
        "main/MPI_Barrier": [4, 0, 4, 0],
    }
    for path, values in expected.items():
        assert at(found, path, "visits") == values
    expected = {
        "main": [-90, -99, -88, -97],
        "main/foo": [-45, -44, -43, -42],
        "main/bar": [-18] * 4,
        "main/foo/bar": [1, 2, 3, 4],
    }
    for path, values in expected.items():
        assert at(found, path, "time") == values
    row = found.metrics.first("visits")
    assert row.dtype == "INT64"
    assert all(isinstance(v, int) for (_, _, name, _), v in stored(found).items() if name == "visits")
    assert at(found, "main", "onlyA") == [1, 2, 3, 4]
    assert at(found, "main", "onlyB") == [-0.5] * 4


def test_diff_of_extremes_is_that_of_defined_values() -> None:
    found = diff(A, B)
    assert at(found, "main", "lo") == [-45, -49.5, -44, -48.5]
    assert at(found, "main/foo/new", "hi") == [-np.inf] * 4  # B has it alone: there is no difference


def test_mean() -> None:
    found = mean(A, B)
    assert is_sound(found)
    assert at(found, "main", "time") == [55, 50.5, 56, 51.5]
    assert at(found, "main/foo", "time") == [27.5, 28, 28.5, 29]
    assert at(found, "main/foo/new", "time") == [0.5] * 4  # missing counts as 0
    assert at(found, "main/foo", "visits") == [5.5, 10.5, 15.5, 20.5]  # not truncated
    assert found.metrics.first("visits").dtype == "DOUBLE"
    assert at(found, "main", "lo") == [27.5, 25.25, 28, 25.75]
    assert at(found, "main/foo/new", "lo") == [0.5] * 4  # the only one that is defined


def test_mean_of_those_that_have_a_value() -> None:
    found = mean(A, B, missing="skip")
    assert at(found, "main", "time") == [55, 50.5, 56, 51.5]
    assert at(found, "main/foo/new", "time") == [1] * 4
    assert at(found, "main/MPI_Barrier", "visits")[0] == 4
    whole = at(found, "main", "time", Scope.INCLUSIVE)
    parts = np.sum([at(found, p.replace("->", "/"), "time") for p in paths(found)], axis=0)
    assert whole == parts.tolist()


@pytest.mark.parametrize(
    ("conflict", "main", "foo"), [("first", [10, 1, 12, 3], [5, 6, 7, 8]), ("last", [100] * 4, [50] * 4)]
)
def test_merge_chooses_exclusive_values(conflict: str, main: list[int], foo: list[int]) -> None:
    """The tools overwrite inclusive values, after which main's exclusive ones are wrong."""
    found = merge(A, B, conflict=conflict)
    assert is_sound(found)
    assert at(found, "main", "time") == main
    assert at(found, "main/foo", "time") == foo
    assert at(found, "main/foo/bar", "time") == [1, 2, 3, 4]  # A alone has it
    assert at(found, "main/foo/new", "time") == [1] * 4  # and B this
    assert at(found, "main", "onlyA") == [1, 2, 3, 4]
    assert at(found, "main", "onlyB") == [0.5] * 4
    assert found.metrics.scopes("time") == (Scope.INCLUSIVE,)
    whole = np.array(at(found, "main", "time", Scope.INCLUSIVE))
    assert whole.tolist() == np.sum([at(found, p.replace("->", "/"), "time") for p in paths(found)], axis=0).tolist()


def test_merge_adds_up() -> None:
    found = merge(A, B, conflict="sum")
    assert at(found, "main", "time") == [110, 101, 112, 103]
    assert at(found, "main/foo", "visits") == [11, 21, 31, 41]
    assert at(found, "main", "lo") == [5, 0.5, 6, 1.5]
    assert at(found, "main", "hi") == [200] * 4


def test_merge_refuses_values_that_differ() -> None:
    found = merge(A, B)
    with pytest.raises(UsageError, match=r"visits .* of rank 0 thread 0 at main->foo: A.cubex has 10, B.cubex has 1;"):
        list(found.values.blocks())
    with pytest.raises(
        UsageError, match=r"at main: A.cubex has 31.0, B.cubex has 179.0; conflict='first', last or sum"
    ):
        list(found.values.blocks(metrics=np.array([1])))


def test_merge_of_what_is_the_same() -> None:
    assert stored(merge(A, A)) == stored(A)


def test_metrics_that_are_not_everywhere_are_named() -> None:
    assert "metric onlyA: is not in B.cubex" in notes(merge(A, B, conflict="last"))


def test_metrics_that_are_missing_together_are_named_together() -> None:
    less = replace(cube_a(extremes=False), path="less.cubex")
    assert notes(merge(A, less, conflict="last")) == "metrics lo, hi: are not in less.cubex"


def test_cut_prunes_into_the_caller() -> None:
    found = cut(A, prunes=["foo"])
    assert is_sound(found)
    assert paths(found) == ["main", "main->bar", "main->MPI_Barrier"]
    assert at(found, "main", "visits") == [18, 28, 40, 50]
    assert at(found, "main/bar", "visits") == [4] * 4
    assert at(found, "main", "time") == [24, 16, 28, 20]
    assert at(found, "main/bar", "time") == [3, 5, 7, 9]
    assert at(found, "main", "time", Scope.INCLUSIVE) == [31, 25, 39, 33]
    assert at(found, "main", "lo") == [0.5, 0.5, 1.5, 1.5]  # the least of main and of all that foo had: 0.5 x exclusive
    assert at(found, "main", "hi") == [20, 14, 24, 16]


def test_cut_takes_new_roots() -> None:
    found = cut(A, roots=["foo"])
    assert is_sound(found)
    assert paths(found) == ["foo", "foo->bar", "foo->MPI_Send", "foo"]
    roots = found.contexts.roots.tolist()
    assert [found.values.dense(p, 1)[roots[0]] for p in range(4)] == [14, 15, 16, 17]
    assert at(found, "foo", "time") == [5, 6, 7, 8]
    assert [found.values.dense(p, 1)[roots[1]] for p in range(4)] == [1, 3, 5, 7]


def test_cut_roots_come_first() -> None:
    found = cut(A, roots=["main->foo"], prunes=["bar"])
    assert paths(found) == ["foo", "foo->MPI_Send"]
    assert at(found, "foo", "time") == [6, 8, 10, 12]


def test_cut_by_call_path_and_pattern() -> None:
    assert paths(cut(A, roots=["bar->foo"])) == ["foo"]
    assert paths(cut(A, prunes=["/^MPI_/"])) == ["main", "main->foo", "main->foo->bar", "main->bar", "main->bar->foo"]
    with pytest.raises(UsageError, match=r"^roots=...: there is no context 'fo'; did you mean 'foo'"):
        cut(A, roots=["main->fo"])
    with pytest.raises(UsageError, match=r"'/\(/' at character 1 is not a regular expression: missing \)"):
        cut(A, roots=["/(/"])
    with pytest.raises(UsageError, match="nothing to cut"):
        cut(A)


def test_cut_with_recursion() -> None:
    tree = (("main", -1), ("f", 0), ("f", 1), ("g", 2), ("f", 0))
    e = cube("R", tree, [[1]] * 5, [[1.0], [2.0], [4.0], [8.0], [16.0]], ranks=(0,), threads=1)
    assert paths(cut(e, roots=["f"])) == ["f", "f->f", "f->f->g", "f"]
    assert at(cut(e, prunes=["f"]), "main", "time") == [31]
    inner = cut(e, roots=["main->f"], prunes=["f"])  # a root stays; what is below it goes
    assert paths(inner) == ["f", "f"]
    assert inner.values.dense(0, 1).tolist() == [14, 16]
    assert "f is a root: it has no caller" in notes(inner)


def test_pruning_the_root_changes_nothing() -> None:
    found = cut(A, prunes=["main"])
    assert stored(found) == stored(A)
    assert "main is a root" in notes(found)


def test_part() -> None:
    found = part(A, ranks=[1])
    assert is_sound(found)
    assert at(found, "main", "visits") == [1, 0]
    assert at(found, "main", "time") == [12, 3]
    assert found.profiles.identity_list("rank") == [1, 1]
    assert stored(part(A, ranks=[1], invert=True)) == stored(part(A, ranks=[0]))
    with pytest.raises(UsageError, match=r"A.cubex: no profile has rank \[7\] \(there are 0 to 1\)"):
        part(A, ranks=[7])
    with pytest.raises(UsageError, match=r"every profile has rank \[0, 1\] \(there are 0 to 1\), so nothing is left"):
        part(A, ranks=[0, 1], invert=True)


def test_common_keeps_what_both_have() -> None:
    """Whatever the order of siblings; the cost of the rest goes up, its visits do not."""
    found = common(A, B)
    assert is_sound(found)
    assert paths(found) == ["main", "main->foo", "main->foo->MPI_Send", "main->bar"]
    assert len(found.runs) == 2
    assert at(found, "main", "time")[:4] == [14, 5, 16, 7]  # with MPI_Barrier
    assert at(found, "main/foo", "time")[:4] == [6, 8, 10, 12]  # with bar
    assert at(found, "main/foo", "time")[4:] == [51] * 4  # with new
    assert at(found, "main/foo", "visits")[:4] == [10, 20, 30, 40]
    assert at(common(A, B, fold_visits=True), "main/foo", "visits")[:4] == [12, 22, 32, 42]
    assert at(found, "main", "time", Scope.INCLUSIVE)[:4] == [31, 25, 39, 33]


def test_common_of_nothing() -> None:
    other = cube("O", (("other", -1),), [[1] * 4], [[1.0] * 4])
    with pytest.raises(UsageError, match="no context in common"):
        common(A, other)


@pytest.mark.parametrize("flip", [False, True])
def test_scopes_are_converted(flip: bool) -> None:
    """One input stores time inclusive, the other exclusive: the first says what the result has."""
    left, right = cube_a(), cube_b(time_scope=Scope.EXCLUSIVE)
    if flip:
        left, right = cube_a(time_scope=Scope.EXCLUSIVE), cube_b()
    found = diff(left, right)
    assert found.metrics.scopes("time") == ((Scope.EXCLUSIVE,) if flip else (Scope.INCLUSIVE,))
    assert at(found, "main", "time") == [-90, -99, -88, -97]
    assert at(found, "main/foo/bar", "time") == [1, 2, 3, 4]


def test_identical_siblings_match_in_their_order() -> None:
    tree = (("main", -1), ("f", 0), ("f", 0))
    e = cube("S", tree, [[1], [2], [3]], [[1.0], [2.0], [4.0]], ranks=(0,), threads=1)
    assert stored(diff(e, e)) == {(0, c, name, "exclusive"): 0 for c in range(3) for name in ("lo", "hi")}
    assert stored(merge(e, e)) == stored(e)


def test_unsigned_counters_do_not_wrap() -> None:
    found = diff(B, A)
    assert at(found, "main/foo", "visits") == [-9, -19, -29, -39]


def shifted() -> Experiment:
    """A after an edit: other lines."""
    builder_tree = [(name, parent) for name, parent in TREE_A]
    e = cube("A", builder_tree, [[1] * 4] * 7, [[1.0] * 4] * 7)
    regions = e.contexts.regions
    moved = np.where(regions.line >= 0, regions.line + 3, -1).astype(np.int32)
    return replace(e, contexts=replace(e.contexts, regions=replace(regions, line=moved)))


def test_relaxed_matching_of_rebuilt_code() -> None:
    moved = shifted()
    assert len(diff(A, moved).contexts) > len(A.contexts)
    assert len(diff(A, moved, ignore=["line"]).contexts) == len(A.contexts)
    assert len(diff(A, moved, by="name").contexts) == len(A.contexts)
    with pytest.raises(UsageError, match="matching cannot ignore 'colour'"):
        diff(A, moved, ignore=["colour"])
    with pytest.raises(UsageError, match="not by 'sound'"):
        diff(A, moved, by="sound")


@pytest.mark.parametrize("name", ["mpi4.d", "pth4.d"])
def test_one_run_in_two_formats(name: str) -> None:
    """They nest lines and call sites differently: costs are those of each, in spite of that."""
    both = [open_path(CORPUS / "hpctoolkit" / generation / name) for generation in ("prerelease", "release")]
    old, new = (e for e in both if isinstance(e, Experiment))
    found = merge(old, new, by="name", system="side-by-side")
    metric = new.default_metric
    total = new.root_total(metric)
    for run in (0, 1):
        profiles = np.flatnonzero(found.profiles.run == run)
        assert found.root_total(metric, profiles) == pytest.approx(total)
        assert found.totals(metric, Scope.EXCLUSIVE, profiles).sum() == pytest.approx(total)
    change = diff(old, new, by="name", system="strict")
    assert change.root_total(metric) == pytest.approx(0, abs=1e-12)
