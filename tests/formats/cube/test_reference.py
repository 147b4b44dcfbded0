"""Every Cube sample equals what the reference tools print of it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from callgrove.analysis.costs import costs
from callgrove.analysis.views import top
from callgrove.formats.cube.clusters import expand_clusters
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Scope
from tests.formats.cube import cube_oracles
from tests.formats.cube.test_values import opened
from tests.requirements import SHARED

DATA = SHARED / "data"
SAMPLES = {  # file -> beginning of the names of its oracles
    "own/cube/mpi4/profile.cubex": "dump.{}.csv",
    "own/cube/mpi4/remapped.cubex": "remapped.dump.{}.csv",
    "own/cube/mpi8/profile.cubex": "dump.{}.csv",
    "own/cube/fmt_CUBE_TUPLE/profile.cubex": "dump.{}.csv",
    "own/cube/fmt_KEY_THREADS/profile.cubex": "dump.{}.csv",
    "own/cube/fmt_THREAD_SUM/profile.cubex": "dump.{}.csv",
    "own/cube/wide4x2/profile.cubex": "dump.{}.csv",
    "public/pycubexr/blast.p64.r1/profile.cubex": "{}.csv",
    "public/pycubexr/call_tree_test/call_tree_test.cubex": "{}.csv",
}
WITH_TEXTS = [name for name in SAMPLES if name.startswith("own/") and "remapped" not in name]
SIX_DIGITS = 1e-5  # what the tools print of doubles


def by_ids(found: Experiment, metric: str, scope: Scope) -> tuple[Any, dict[tuple[int, int], tuple[int, int]]]:
    """The matrix of a metric, and the place in it of each (cnode, location)."""
    cnodes, locations = found.contexts.source_id.tolist(), found.profiles.source_id.tolist()
    place = {(c, p): (k, j) for k, c in enumerate(cnodes) for j, p in enumerate(locations)}
    return found.matrix(metric, scope), place


def same(ours: Any, theirs: float | tuple[float, ...], slack: float) -> bool:
    if isinstance(theirs, tuple):
        n = int(ours["n"])
        if not n:
            return theirs[0] == 0
        mean = ours["sum"] / n
        spread = math.sqrt(max(0.0, ours["sum2"] / n - mean * mean))
        mine = (n, ours["min"], ours["max"], mean, spread)
        pairs = zip(mine, theirs, strict=True)
        return all(math.isclose(a, b, rel_tol=SIX_DIGITS, abs_tol=1e-5 * abs(mean)) for a, b in pairs)
    if isinstance(theirs, int) and isinstance(ours, int | np.integer):
        return int(ours) == theirs
    return math.isclose(float(ours), theirs, rel_tol=SIX_DIGITS, abs_tol=slack)


@pytest.mark.parametrize("scope", [Scope.EXCLUSIVE, Scope.INCLUSIVE])
@pytest.mark.parametrize("name", list(SAMPLES))
def test_cube_dump(name: str, scope: Scope, shared: Path) -> None:
    path = DATA / name
    oracle = cube_oracles.dump(path.parent / SAMPLES[name].format("excl" if scope == Scope.EXCLUSIVE else "incl"))
    assert oracle is not None
    compare(opened(path), oracle, scope)


def compare(found: Experiment, oracle: dict[str, dict[tuple[int, int], Any]], scope: Scope) -> None:
    compared = 0
    for metric, cells in oracle.items():
        row = found.metrics.first(metric)
        if row.aggregation == Aggregation.MINIMUM and scope == Scope.INCLUSIVE:
            continue  # the tools take fillers for minima
        matrix, place = by_ids(found, metric, scope)
        wrong = []
        slack = 0.0 if matrix.dtype.names else 1e-12 * float(np.abs(np.nan_to_num(matrix, posinf=0, neginf=0)).max())
        for key, theirs in cells.items():
            ours = matrix[place[key]]
            if matrix.dtype.names is None and not np.isfinite(ours):
                ours = 0  # absent
                if row.aggregation == Aggregation.MINIMUM and theirs > 1e9:
                    continue  # the timer's largest value, where nothing was measured
            if not same(ours, theirs, slack):
                wrong.append((metric, key, ours, theirs))
        assert not wrong, (len(wrong), wrong[:3])
        compared += len(cells)
    assert compared >= len(found.contexts) * len(found.profiles)


@pytest.mark.parametrize("name", WITH_TEXTS)
def test_cube_stat(name: str, shared: Path) -> None:
    """The flat profile: visits, exclusive and inclusive time of each region, recursion counted once."""
    found = opened(DATA / name)
    oracle = cube_oracles.stat((DATA / name).parent / "stat.txt")
    assert len(oracle) > 10
    columns: dict[str, dict[str, tuple[float, float]]] = {}
    for metric in ("visits", "time"):
        table = top(costs(found, metric))
        names, own, whole = (table.column(c).plain() for c in ("name", "exclusive", "inclusive"))
        columns[metric] = {n: (e, i) for n, e, i in zip(names, own, whole, strict=True)}
    for region, (visits, exclusive, inclusive) in oracle.items():
        assert columns["visits"][region][0] == visits
        assert columns["time"][region] == pytest.approx((exclusive, inclusive), abs=1e-6)


@pytest.mark.parametrize("name", WITH_TEXTS)
def test_cube_calltree(name: str, shared: Path) -> None:
    found = opened(DATA / name)
    oracle = cube_oracles.calltree((DATA / name).parent / "calltree.txt")
    tree, totals = found.contexts, found.totals("time", Scope.INCLUSIVE)
    ours = [(float(totals[c]), int(tree.depth[c]), tree.name(c)) for c in range(len(tree))]
    assert [row[1:] for row in ours] == [row[1:] for row in oracle]
    for mine, theirs in zip(ours, oracle, strict=True):
        assert mine[0] == pytest.approx(theirs[0], rel=SIX_DIGITS)


def test_every_type_of_the_example(shared: Path) -> None:
    found = opened(DATA / "public/pycubexr/test_only_files/cube-values_example.cubex")
    assert not found.warnings
    for row, metric in enumerate(found.metrics):
        block = found.values.metric(row)
        assert len(block), metric.name
        assert np.isfinite(found.values.scalar(row, block.value)).all()


def test_iterations_of_a_clustered_profile(shared: Path) -> None:
    """cube_dump shows the expanded tree; it numbers the kept cnodes first, then the new ones in tree order."""
    path = DATA / "own/cube-clustered/profile.cubex"
    stored = opened(path)
    assert any("clustered" in w.text for w in stored.warnings)
    expanded = expand_clusters(stored)
    for scope in (Scope.EXCLUSIVE, Scope.INCLUSIVE):
        oracle = cube_oracles.dump(path.parent / f"dump.{'excl' if scope == Scope.EXCLUSIVE else 'incl'}.csv")
        assert oracle is not None
        integers = [m for m in oracle if expanded.metrics.first(m).dtype in ("UINT64", "INT64")]
        for metric in integers:  # the tools cut the fractions off when they print
            del oracle[metric]
        compare(expanded, oracle, scope)
    assert expanded.totals("visits", Scope.INCLUSIVE)[0] == pytest.approx(stored.totals("visits", Scope.INCLUSIVE)[0])
