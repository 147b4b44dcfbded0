"""Which profiles, runs, metrics and places of several inputs are the same."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from callgrove.algebra.cutting import part
from callgrove.algebra.operations import diff, mean, merge
from callgrove.errors import UsageError
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Metric, Scope
from callgrove.model.profiles import Identifier, ProfileKind
from callgrove.model.runs import Run
from callgrove.model.system import System, Topology
from tests.algebra.reference import at, cube_a, cube_b, notes, stored
from tests.model.strategies import ATOMIC, ATOMIC_TYPE

NODE, RANK, THREAD, STREAM = 1, 2, 3, 6


def tiny(
    name: str,
    profiles: list[list[Identifier]],
    metrics: list[Metric] | None = None,
    runs: list[Run] | None = None,
    values: Any = None,
) -> Experiment:
    """One context, `main`; the k-th profile costs k + 1."""
    builder = ExperimentBuilder("test", title=name, path=name)
    builder.add_context(-1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, "main"))
    for run in runs or []:
        builder.add_run(run)
    for k, identifiers in enumerate(profiles):
        builder.add_profile(ProfileKind.THREAD, identifiers, run=k % max(1, len(runs or [])))
    for metric in metrics or [Metric("time", Scope.EXCLUSIVE, "sec")]:
        given = np.arange(1.0, len(profiles) + 1) if values is None else values
        builder.add_values(np.arange(len(profiles)), 0, builder.add_metric(metric), given)
    return builder.build()


def tuple_of(rank: int | None = None, thread: int | None = None, node: int | None = None) -> list[Identifier]:
    pairs = ((NODE, node), (RANK, rank), (THREAD, thread))
    return [(kind, number, number, 3) for kind, number in pairs if number is not None]


def ranks_of(e: Experiment) -> list[int | None]:
    return e.profiles.identity_list("rank")


def test_ranks_match_wherever_they_ran() -> None:
    a = tiny("a", [tuple_of(0, 0, node=1), tuple_of(1, 0, node=1)])
    b = tiny("b", [tuple_of(1, 0, node=9), tuple_of(0, 0, node=8)])
    found = diff(a, b)
    assert ranks_of(found) == [0, 1]
    assert at(found, "main", "time") == [1 - 2, 2 - 1]


def test_union_adds_what_is_missing() -> None:
    a, b = tiny("a", [tuple_of(0, 0)]), tiny("b", [tuple_of(0, 0), tuple_of(0, 1), tuple_of(5, 0)])
    found = mean(a, b)
    assert list(zip(ranks_of(found), found.profiles.identity_list("thread"), strict=True)) == [(0, 0), (0, 1), (5, 0)]
    assert at(found, "main", "time") == [1.0, 1.0, 1.5]  # more threads than the first has are not dropped


def test_strict_demands_the_same_profiles() -> None:
    a, b = tiny("a.d", [tuple_of(0, 0)]), tiny("b.d", [tuple_of(0, 0), tuple_of(5, 0)])
    with pytest.raises(UsageError, match=r"a.d: has no profile 'rank 5 thread 0', which b.d has; system='union' takes"):
        diff(a, b, system="strict")
    with pytest.raises(UsageError, match="no way 'sideways' to match systems; there are union, strict"):
        diff(a, b, system="sideways")
    assert at(diff(a, a, system="strict"), "main", "time") == [0]


def test_side_by_side_keeps_all_runs() -> None:
    a = tiny("a", [tuple_of(0, 0)])
    found = merge(a, a, system="side-by-side")
    assert (len(found.runs), found.profiles.run.tolist(), ranks_of(found)) == (2, [0, 1], [0, 0])


def test_collapse_adds_up_all_profiles() -> None:
    a, b = tiny("a", [tuple_of(k, 0) for k in range(4)]), tiny("b", [tuple_of(k, 0) for k in range(2)])
    found = diff(a, b, system="collapse")
    assert len(found.profiles) == 1
    assert at(found, "main", "time") == [1 + 2 + 3 + 4 - 1 - 2]
    assert at(merge(a, b, system="collapse"), "main", "time") == [13]
    assert at(mean(cube_a(), cube_b(), system="collapse"), "main", "lo") == [(0.5 + 50) / 2]
    inclusive = diff(cube_a(), cube_b(time_scope=Scope.EXCLUSIVE), system="collapse")
    assert at(inclusive, "main", "time", Scope.INCLUSIVE) == [128 - 4 * 179]


def test_no_rank_is_rank_0() -> None:
    """Formats that know of one process only do not number it."""
    assert len(diff(tiny("a", [tuple_of(None, 2)]), tiny("b", [tuple_of(0, 2)])).profiles) == 1
    assert len(diff(tiny("a", [[]]), tiny("b", [tuple_of(0, 0)])).profiles) == 1
    assert len(diff(tiny("a", [[]]), tiny("b", [tuple_of(0, 1)])).profiles) == 2


def test_the_node_decides_between_equals() -> None:
    """Several processes without MPI have the same rank and thread."""
    a = tiny("a", [tuple_of(None, 0, node=1), tuple_of(None, 0, node=2)])
    b = tiny("b", [tuple_of(None, 0, node=2), tuple_of(None, 0, node=3), tuple_of(None, 0, node=3)])
    found = diff(a, b)
    assert at(found, "main", "time") == [1 - 2, 2 - 1, -3]
    same = tiny("s", [tuple_of(None, 0, node=1)] * 3)
    assert stored(merge(same, same)) == stored(same)


def test_profiles_keep_their_order() -> None:
    a = tiny("a", [tuple_of(rank, 0) for rank in (2, 0, 2, 1)])
    assert ranks_of(merge(a, a)) == [2, 0, 2, 1]


def test_streams_are_not_threads() -> None:
    stream: list[Identifier] = [*tuple_of(0, 0), (STREAM, 0, 0, 3)]
    assert len(merge(tiny("a", [tuple_of(0, 0)]), tiny("b", [stream])).profiles) == 2


def test_runs_match_by_parameters() -> None:
    points = [Run("x", {"p": 2.0}), Run("y", {"p": 4.0})]
    a = tiny("a", [tuple_of(0, 0), tuple_of(0, 0)], runs=points)
    b = tiny("b", [tuple_of(0, 0), tuple_of(0, 0)], runs=[Run("z", {"p": 4.0}), Run("w", {"p": 8.0})])
    found = mean(a, b)
    assert [run.parameters["p"] for run in found.runs] == [2.0, 4.0, 8.0]
    assert found.profiles.run.tolist() == [0, 1, 2]
    assert at(found, "main", "time") == [0.5, (2 + 1) / 2, 1.0]
    assert ranks_of(part(found, runs=[2])) == [0]
    assert [run.parameters["p"] for run in part(found, runs=[2]).runs] == [8.0]


def test_kinds_of_identifiers_are_known_by_name() -> None:
    a = tiny("a", [tuple_of(0, 0)])
    b = tiny("b", [[(0, 7, 7, 3), (1, 0, 0, 3)]])
    names = ("RANK", "THREAD")
    b = replace(b, profiles=replace(b.profiles, identifiers=replace(b.profiles.identifiers, names=names)))
    found = merge(a, b)
    assert ranks_of(found) == [0, 7]
    assert found.profiles.identity_list("thread") == [0, 0]


# -- metrics ---------------------------------------------------------------------------------------------------------


def test_units_must_be_the_same() -> None:
    one = [tuple_of(0, 0)]
    a, b = (
        tiny("a.d", one, [Metric("t", Scope.EXCLUSIVE, "sec")]),
        tiny("b.d", one, [Metric("t", Scope.EXCLUSIVE, "bytes")]),
    )
    message = "metric t: is in 'sec' in a.d, in 'bytes' in b.d; ignore=('unit',) takes the numbers as they are"
    with pytest.raises(UsageError, match=re.escape(message)):
        diff(a, b)
    assert at(diff(a, b, ignore=["unit"]), "main", "t") == [0]
    same = tiny("c.d", one, [Metric("t", Scope.EXCLUSIVE, "s")])
    assert at(diff(a, same), "main", "t") == [0]  # two spellings of seconds
    assert at(diff(a, tiny("d.d", one, [Metric("t", Scope.EXCLUSIVE)])), "main", "t") == [0]


def test_sums_and_minima_are_different_things() -> None:
    one = [tuple_of(0, 0)]
    a = tiny("a.d", one, [Metric("t", Scope.EXCLUSIVE)])
    b = tiny("b.d", one, [Metric("t", Scope.EXCLUSIVE, aggregation=Aggregation.MINIMUM)])
    with pytest.raises(UsageError, match=r"t: is combined by sum in a\.d, by min in b\.d"):
        merge(a, b)


def test_integers_and_doubles_of_one_metric() -> None:
    one = [tuple_of(0, 0)]
    a = tiny("a", one, values=np.array([2**60 + 1], np.int64))
    b = tiny("b", one, values=np.array([0.5]))
    assert at(diff(a, b), "main", "time") == [float(2**60)]
    exact = diff(a, tiny("c", one, values=np.array([1], np.uint8)))
    assert at(exact, "main", "time") == [2**60]
    assert at(merge(tiny("x", one, values=np.array([255], np.uint8)), b, conflict="sum"), "main", "time") == [255.5]


def test_composite_values() -> None:
    metric = Metric("a", Scope.EXCLUSIVE, dtype="TAU_ATOMIC", aggregation=Aggregation.COMPOSITE, composite=ATOMIC_TYPE)
    a, b = (
        tiny(n, [tuple_of(0, 0)], [metric], values=np.array([v], ATOMIC))
        for n, v in (("a", (1, 2, 2, 2)), ("b", (3, 4, 9, 12)))
    )
    assert merge(a, b, conflict="sum").values.profile(0).value.tolist() == [(4, 2, 9, 14)]
    assert merge(a, a).values.profile(0).value.tolist() == [(1, 2, 2, 2)]
    assert at(diff(b, a), "main", "a") == [2.0]  # of their scalar readings, the means 4 and 2
    assert diff(b, a).metrics[0].composite is None


def test_formulas_stay_where_all_agree() -> None:
    plain = Metric("time", Scope.EXCLUSIVE)
    derived = Metric("ratio", Scope.NONE, formula="metric::time() / 2")

    def with_formula(name: str, formula: str) -> Experiment:
        e = tiny(name, [tuple_of(0, 0)], [plain])
        rows = replace(e.metrics, rows=(*e.metrics.rows, replace(derived, formula=formula)))
        return replace(e, metrics=rows, values=replace(e.values, metrics=rows))

    a, b = with_formula("a", "x"), with_formula("b", "y")
    assert [m.formula for m in mean(a, a).metrics] == ["", "x"]
    assert len(mean(a, b).metrics) == 1
    assert "lost: metric ratio: its formula is not the same in all inputs" in notes(mean(a, b))


def test_metric_trees_stay_nested() -> None:
    one = [tuple_of(0, 0)]
    rows = [Metric("time", Scope.EXCLUSIVE), Metric("mpi", Scope.EXCLUSIVE, parent=0)]
    a, b = tiny("a", one, [Metric("extra", Scope.EXCLUSIVE)]), tiny("b", one, rows)
    found = merge(a, b)
    assert [(m.name, m.parent) for m in found.metrics] == [("extra", -1), ("time", -1), ("mpi", 1)]


def test_a_scope_that_not_all_inputs_have_is_named() -> None:
    one = [tuple_of(0, 0)]
    a = tiny("a", one, [Metric("t", Scope.POINT), Metric("t", Scope.INCLUSIVE)])
    b = tiny("b", one, [Metric("t", Scope.EXCLUSIVE)])
    found = mean(a, b)
    assert found.metrics.scopes("t") == (Scope.INCLUSIVE,)
    assert "lost: metric t: scope point, which cannot be had for all inputs" in notes(found)


# -- places ----------------------------------------------------------------------------------------------------------


def with_system(e: Experiment, machine: str) -> Experiment:
    """A machine with a node, with a process and a thread for each rank, in a row."""
    n = len(e.profiles)
    parent, kind, name, rank = [-1, 0], ["machine", "node"], [machine, "n1"], [-1, 0]
    leaves = []
    for k, number in enumerate(ranks_of(e)):
        parent += [1, len(parent)]
        kind += ["process", "thread"]
        name += [f"rank {number}", f"t{k}"]
        rank += [number or 0, 0]
        leaves.append(len(parent) - 1)
    where = np.array(leaves, np.int32)
    row = Topology("row", (9,), (False,), ("x",), where, np.arange(n)[:, None])
    system = System(np.array(parent, np.int32), tuple(kind), tuple(name), np.array(rank), {0: {"os": "x"}}, (row,))
    return replace(e, system=system, profiles=replace(e.profiles, system=where))


def names_above(e: Experiment, profile: int) -> list[str]:
    return [e.system.name[node] for node in e.system.path(int(e.profiles.system[profile]))][::-1]


def test_system_trees_are_united() -> None:
    a = with_system(tiny("a", [tuple_of(0, 0), tuple_of(1, 0)]), "M")
    b = with_system(tiny("b", [tuple_of(1, 0), tuple_of(2, 0)]), "M")
    found = merge(a, b, conflict="first")
    assert [names_above(found, p)[:3] for p in range(3)] == [["M", "n1", f"rank {k}"] for k in range(3)]
    assert found.system.name.count("n1") == 1
    assert found.system.attributes == {0: {"os": "x"}}
    apart = merge(a, b, system="side-by-side")
    assert apart.system.name.count("M") == 2
    assert [t.coordinates.ravel().tolist() for t in apart.system.topologies] == [[0, 1], [0, 1]]


def test_a_part_keeps_the_places_of_its_profiles() -> None:
    a = with_system(tiny("a", [tuple_of(0, 0), tuple_of(1, 0)]), "M")
    found = part(a, ranks=[1])
    assert found.system.name == ("M", "n1", "rank 1", "t1")
    assert found.system.topologies[0].coordinates.tolist() == [[1]]
    assert names_above(found, 0) == ["M", "n1", "rank 1", "t1"]


def test_without_a_scope_of_both_there_is_the_exclusive_one_alone() -> None:
    """What no input stores and nobody asks for is not added."""
    function = tiny("a.d", [tuple_of(0)], [Metric("time", Scope.FUNCTION, "sec")], values=[5.0])
    inclusive = tiny("b.d", [tuple_of(0)], [Metric("time", Scope.INCLUSIVE, "sec")], values=[2.0])
    found = diff(function, inclusive)
    assert [(row.name, row.scope) for row in found.metrics] == [("time", Scope.EXCLUSIVE)]
    assert at(found, "main", "time") == [3.0]
    assert notes(found) == "lost: metric time: scope function, which cannot be had for all inputs"


def test_units_that_differ_are_refused_by_merge_unless_they_are_to_be_ignored() -> None:
    seconds, bytes_ = (tiny(name, [tuple_of(0)], [Metric("cost", Scope.EXCLUSIVE, name)]) for name in ("sec", "B"))
    with pytest.raises(UsageError, match=r"metric cost: is in 'sec' in sec, in 'B' in B; ignore=.* takes the"):
        merge(seconds, bytes_)
    assert at(merge(seconds, bytes_, ignore=["unit"]), "main", "cost") == [1.0]


def test_nothing_is_lost_where_there_are_no_traces() -> None:
    a, b = tiny("a", [tuple_of(0)]), tiny("b", [tuple_of(0)])
    assert notes(mean(a, b)) == notes(diff(a, b)) == ""
