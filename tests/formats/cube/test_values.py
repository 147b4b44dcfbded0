"""Values of Cube files: scopes along the call tree, the metric tree, the system tree, regions; every data type."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from callgrove.analysis.costs import costs, over_system, without_children
from callgrove.analysis.tables import Selection, export
from callgrove.analysis.views import top
from callgrove.errors import UsageError
from callgrove.formats.registry import open_path
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Scope
from tests.formats.cube import raw_cubes
from tests.formats.cube.raw_cubes import Cube, RawMetric, r1

LARGEST = float(np.finfo(np.float64).max)


def opened(path: Path) -> Experiment:
    found = open_path(path)
    assert isinstance(found, Experiment)
    return found


def cells(found: Experiment, metric: str, scope: str = "stored") -> dict[int, dict[int, Any]]:
    """{cnode id: {location id: value}} of one metric."""
    out: dict[int, dict[int, Any]] = {}
    for table in export(found, "values", Selection(quantity=metric, scope=scope)):
        for profile, context, _, value, *_ in table.rows():
            cnode, location = int(found.contexts.source_id[context]), int(found.profiles.source_id[profile])
            out.setdefault(cnode, {})[location] = value
    return out


def row(found: dict[int, dict[int, Any]], cnode: int, n: int = 4) -> list[Any]:
    return [found.get(cnode, {}).get(location, 0) for location in range(n)]


@pytest.fixture
def reference(tmp_path: Path) -> Experiment:
    return opened(r1().write(tmp_path / "r1.cubex"))


def test_stored_values_are_exported_as_stored(reference: Experiment) -> None:
    for metric, rows in (("visits", raw_cubes.R1_VISITS), ("time", raw_cubes.R1_TIME_INCLUSIVE)):
        found = cells(reference, metric)
        assert {cnode: row(found, cnode) for cnode in rows} == {k: list(v) for k, v in rows.items()}
    assert [type(v) for v in row(cells(reference, "visits"), 1)] == [int] * 4
    assert cells(reference, "bytes") == {3: {0: 100, 1: 200, 2: 300, 3: 400}}


def test_exclusive_and_inclusive_along_the_call_tree(reference: Experiment) -> None:
    exclusive, inclusive = (cells(reference, "time", scope) for scope in ("exclusive", "inclusive"))
    for cnode in range(7):
        assert row(exclusive, cnode) == list(raw_cubes.R1_TIME[cnode])
        assert row(inclusive, cnode) == list(raw_cubes.R1_TIME_INCLUSIVE[cnode])
    visits = cells(reference, "visits", "inclusive")
    assert sum(row(visits, 0)) == 160
    assert sum(row(visits, 1)) == 134
    totals = reference.totals("time", Scope.INCLUSIVE)
    assert [totals[0], totals[1]] == [128, 62]


def test_minima_and_maxima_combine_by_their_own_rule(reference: Experiment) -> None:
    assert row(cells(reference, "lo", "inclusive"), 0) == [0.5, 0.5, 1, 1]
    assert row(cells(reference, "hi", "inclusive"), 0) == [20, 14, 24, 16]
    assert reference.totals("lo", Scope.INCLUSIVE)[0] == 0.5
    assert reference.totals("hi", Scope.INCLUSIVE)[0] == 24


def test_absent_minima_are_neutral_and_not_zero(tmp_path: Path) -> None:
    cube = r1()
    cube.metrics = [
        RawMetric("lo", "EXCLUSIVE", "MINDOUBLE", {2: (3, 4, LARGEST, 5)}, 0),
        RawMetric("hi", "EXCLUSIVE", "MAXDOUBLE", {2: (-3, -4, -LARGEST, -5)}, 1),
    ]
    found = opened(cube.write(tmp_path / "x.cubex"))
    assert cells(found, "lo") == {2: {0: 3, 1: 4, 3: 5}}
    assert cells(found, "lo", "inclusive")[0] == {0: 3, 1: 4, 3: 5}
    assert cells(found, "hi", "inclusive")[0] == {0: -3, 1: -4, 3: -5}
    assert found.totals("hi", Scope.INCLUSIVE)[0] == -3


def test_what_was_never_visited_has_no_minimum(tmp_path: Path) -> None:
    """Score-P writes 0, or the timer's largest value, into such cells: stored export shows them, computed views not."""
    cube = r1()
    timer = 18446744073.709553
    cube.metrics = [
        RawMetric("visits", "EXCLUSIVE", "UINT64", {0: (1, 1, 1, 1), 1: (2, 0, 0, 0)}, 0),
        RawMetric("min_time", "EXCLUSIVE", "MINDOUBLE", {0: (9, 9, 9, 9), 1: (4, 0, timer, 5)}, 1),
        RawMetric("max_time", "EXCLUSIVE", "MAXDOUBLE", {0: (9, 9, 9, 9), 1: (6, 0, 0, 7)}, 2),
    ]
    found = opened(cube.write(tmp_path / "x.cubex"))
    assert row(cells(found, "min_time"), 1) == [4, 0, timer, 5]
    assert row(cells(found, "min_time", "inclusive"), 0) == [4, 9, 9, 5]
    assert row(cells(found, "max_time", "inclusive"), 1) == [6, 0, 0, 7]
    assert found.totals("min_time", Scope.EXCLUSIVE)[1] == 4


def test_a_negative_difference_of_unsigned_counters_stays_signed(tmp_path: Path) -> None:
    cube = Cube([(0, "main", [(1, "foo", []), (2, "bar", [])])], [])
    rows = {0: (10, 10, 10, 10), 1: (12, 5, 5, 5), 2: (1, 1, 1, 1)}
    cube.metrics = [RawMetric("count", "INCLUSIVE", "UINT64", rows, 0, uom="occ")]
    found = opened(cube.write(tmp_path / "x.cubex"))
    assert row(cells(found, "count", "exclusive"), 0) == [-3, 4, 4, 4]
    assert found.totals("count", Scope.EXCLUSIVE)[0] == 9


def test_counters_that_went_below_zero_are_missing_in_computed_views(tmp_path: Path) -> None:
    cube = r1()
    wrapped = 2**64 - 5
    cube.metrics = [RawMetric("cycles", "EXCLUSIVE", "UINT64", {1: (1, 2, wrapped, 3)}, 0, uom="occ")]
    path = cube.write(tmp_path / "x.cubex")
    found = opened(path)
    assert row(cells(found, "cycles"), 1) == [1, 2, wrapped, 3]
    assert row(cells(found, "cycles", "inclusive"), 0) == [1, 2, 0, 3]
    assert found.totals("cycles", Scope.INCLUSIVE)[0] == 6


def test_integers_are_exact_and_do_not_overflow(tmp_path: Path) -> None:
    large = 2**62 + 1
    cube = r1()
    cube.metrics = [
        RawMetric("a", "EXCLUSIVE", "UINT64", {1: (large, 0, 0, 0)}, 0),
        RawMetric("b", "EXCLUSIVE", "INT64", {1: (large, large, 0, 0)}, 1),
        RawMetric("c", "EXCLUSIVE", "UINT8", {1: (200, 200, 200, 200), 2: (200,) * 4}, 2),
    ]
    found = opened(cube.write(tmp_path / "x.cubex"))
    assert int(found.totals("a", Scope.INCLUSIVE)[0]) == large
    assert float(found.totals("b", Scope.INCLUSIVE)[0]) == pytest.approx(2.0 * large)
    assert int(found.totals("c", Scope.INCLUSIVE)[0]) == 1600
    assert row(cells(found, "c", "inclusive"), 0) == [400] * 4


def test_the_flat_profile_counts_recursion_once(tmp_path: Path) -> None:
    tree: list[raw_cubes.Node] = [
        (0, "main", [
            (1, "foo", [(2, "foo", [(3, "foo", []), (4, "bar", [(5, "foo", [])])])]),
            (6, "bar", [(7, "bar", [])]),
        ])
    ]  # fmt: skip
    values = dict(enumerate([1, 10, 100, 1000, 5, 7, 3, 2]))
    rows = {cnode: (value, 0, 0, 0) for cnode, value in values.items()}
    found = opened(Cube(tree, [RawMetric("time", "EXCLUSIVE", "DOUBLE", rows)]).write(tmp_path / "x.cubex"))
    table = {name: (own, all_) for name, _, _, _, _, own, all_, _ in top(costs(found, "time")).rows()}
    assert table == {"main": (1, 1128), "foo": (1117, 1122), "bar": (10, 17)}


def test_the_metric_tree(tmp_path: Path) -> None:
    """A parent contains its children, whatever their unit and kind; void ones count nothing."""
    cube = r1()
    cube.metrics = [
        RawMetric(
            "all", "EXCLUSIVE", "DOUBLE", {0: (2600, 0, 0, 0)}, 0,
            below=[
                RawMetric("a", "EXCLUSIVE", "DOUBLE", {0: (780, 0, 0, 0)}, 1),
                RawMetric("b", "EXCLUSIVE", "DOUBLE", {0: (182, 0, 0, 0)}, 2, uom="occ"),
                RawMetric("c", "EXCLUSIVE", "DOUBLE", {0: (78, 0, 0, 0)}, 3, more='viztype="GHOST"'),
                RawMetric("d", "EXCLUSIVE", "DOUBLE", {0: (416, 0, 0, 0)}, 4),
                RawMetric("e", "EXCLUSIVE", "DOUBLE", {0: (5, 0, 0, 0)}, 5, inside="<val>VOID</val>"),
            ],
        )
    ]  # fmt: skip
    found = opened(cube.write(tmp_path / "x.cubex"))
    assert [m.parent for m in found.metrics] == [-1, 0, 0, 0, 0, 0]
    assert without_children(found, "all", Scope.INCLUSIVE)[0] == 1144
    assert [m.name for m in found.metrics if not m.visible] == ["c", "e"]
    assert cells(found, "e") == {}
    assert cells(found, "c") == {0: {0: 78}}


def test_the_system_tree(reference: Experiment) -> None:
    found = over_system(reference, "time", Scope.INCLUSIVE, 0)
    names = {reference.system.name[k]: value for k, value in enumerate(found.tolist())}
    assert names["M"] == 128
    assert names["nA"] == names["rank 0"] == 56
    assert names["nB"] == 72
    lows = over_system(reference, "lo", Scope.INCLUSIVE, 0)
    assert {reference.system.name[k]: v for k, v in enumerate(lows.tolist())}["nB"] == 1


PLAIN = [name for name, code in raw_cubes.CODES.items() if len(code) == 1]


@pytest.mark.parametrize("big", [False, True], ids=["little", "big"])
@pytest.mark.parametrize("dtype", PLAIN)
def test_every_plain_type(dtype: str, big: bool, tmp_path: Path) -> None:
    values = (1, 2, 3, 100) if raw_cubes.CODES[dtype] in "BHIQ" else (1, -2, 3, -100)
    cube = Cube(raw_cubes.R1_TREE, [RawMetric("m", "EXCLUSIVE", dtype, {5: values, 1: values})])
    found = opened(cube.write(tmp_path / "x.cubex", big=big, zipped=big))
    assert found.metrics[0].dtype == dtype
    assert row(cells(found, "m"), 5) == list(values)
    assert row(cells(found, "m", "inclusive"), 0)[0] == (1 if "DOUBLE" in dtype and dtype != "DOUBLE" else 2)


COMPOSITE: dict[str, tuple[list[tuple[float, ...]], list[float], tuple[float, ...]]] = {
    # dtype: four values, their scalar readings, the combination of the first two
    "COMPLEX": ([(3, 4), (1, 0), (0, 0), (5, 12)], [5, 1, 0, 13], (4, 4)),
    "RATE": ([(6, 3), (1, 2), (0, 0), (1, 0)], [2, 0.5, 0, 0], (7, 5)),
    "TAU_ATOMIC": (
        [(2, 1, 3, 4, 10), (3, -1, 2, 2, 5), (0, LARGEST, 0, 0, 0), (1, 7, 7, 7, 49)], [4, 2, 0, 7], (5, -1, 3, 6, 15)
    ),
    "HISTOGRAM(3)": (
        [(0, 9, 1, 2, 3), (0, 9, 4, 5, 6), (0, 0, 0, 0, 0), (0, 9, 1, 1, 1)], [6, 15, 0, 3], (0, 9, 5, 7, 9)
    ),
    "NDOUBLES(2)": ([(1, 2), (3, 4), (0, 0), (5, 6)], [3, 7, 0, 11], (4, 6)),
}  # fmt: skip


@pytest.mark.parametrize("big", [False, True], ids=["little", "big"])
@pytest.mark.parametrize("dtype", list(COMPOSITE))
def test_every_composite_type(dtype: str, big: bool, tmp_path: Path) -> None:
    values, scalars, both = COMPOSITE[dtype]
    rows = {0: values, 1: [values[1], values[0], *values[2:]]}
    cube = Cube(raw_cubes.R1_TREE, [RawMetric("m", "EXCLUSIVE", dtype, rows)])
    found = opened(cube.write(tmp_path / "x.cubex", big=big, zipped=not big))
    assert [
        found.values.scalar(0, found.values.profile(p).value)[0] if len(found.values.profile(p)) else 0
        for p in range(4)
    ] == scalars
    combined = found.totals("m", Scope.INCLUSIVE, np.array([0]))
    assert _flat(combined[0]) == pytest.approx(both)
    with pytest.raises(UsageError, match="composite"):
        costs(found, "m")


def _flat(value: Any) -> tuple[float, ...]:
    return tuple(float(x) for name in value.dtype.names for x in np.atleast_1d(value[name]))


def test_composite_totals_combine_over_locations(tmp_path: Path) -> None:
    tuples = [
        (2, 1.0, 3.0, 4.0, 10.0),
        (3, -1.0, 2.0, 2.0, 5.0),
        (0, LARGEST, 0.0, 0.0, 0.0),
        (3, 5.0, 7.0, 19.0, 121.0),
    ]
    cube = Cube(raw_cubes.R1_TREE, [RawMetric("m", "EXCLUSIVE", "TAU_ATOMIC", {2: tuples})])
    found = opened(cube.write(tmp_path / "x.cubex"))
    assert _flat(found.totals("m", Scope.EXCLUSIVE)[2]) == (8, -1, 7, 25, 136)  # mean 3.125
    assert _flat(found.totals("m", Scope.INCLUSIVE)[0]) == (8, -1, 7, 25, 136)
    assert found.totals("m", Scope.INCLUSIVE)[3]["n"] == 0


def test_what_composites_do_not_have_is_said(tmp_path: Path) -> None:
    inclusive = RawMetric("a", "INCLUSIVE", "RATE", {0: [(1, 2)] * 4, 1: [(1, 1)] * 4})
    ranges = {0: [(0, 9, 1, 2, 3)] * 4, 1: [(0, 8, 1, 2, 3)] * 4}
    cube = Cube(raw_cubes.R1_TREE, [inclusive, RawMetric("h", "EXCLUSIVE", "HISTOGRAM(3)", ranges)])
    found = opened(cube.write(tmp_path / "x.cubex"))
    with pytest.raises(UsageError, match="stored inclusive only"):
        found.totals("a", Scope.EXCLUSIVE)
    with pytest.raises(UsageError, match="different ranges"):
        found.totals("h", Scope.INCLUSIVE)


def test_parameters_stand_in_paths_and_not_in_names(tmp_path: Path) -> None:
    more = {
        1: '<parameter partype="numeric" parkey="n" parvalue="-3"/>'
        '<parameter partype="string" parkey="mode" parvalue="a&lt;b"/>'
    }
    cube = r1()
    cube.cnode_more = more
    found = opened(cube.write(tmp_path / "x.cubex"))
    assert found.contexts.name(1) == "foo"
    assert found.contexts.label(1) == "foo(n=-3,mode=a<b)"
    assert found.contexts.path(2) == "main->foo(n=-3,mode=a<b)->bar"
    assert found.contexts.parameters[1] == (("n", -3), ("mode", "a<b"))
    names = [name for name, *_ in top(costs(found, "time")).rows()]
    assert "foo" in names


def test_one_context_and_one_profile(reference: Experiment) -> None:
    block = reference.values.context(3)
    found = {(int(p), int(m)): float(v) for p, m, v in zip(block.profile, block.metric, block.value, strict=True)}
    assert found[2, 0] == 7
    assert found[3, 4] == 400
    assert found[0, 1] == 8
    one = reference.values.profile(1)
    assert float(one.value[(one.metric == 1) & (one.context == 0)][0]) == 25
