"""Statistics of durations against those of the standard library, however they were gathered."""

from __future__ import annotations

import math
import pickle
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.analysis import durations
from callgrove.analysis.durations import Durations

ROWS = st.lists(st.tuples(st.integers(0, 3), st.integers(-5, 30)), max_size=40)


def gathered(rows: list[tuple[int, int]], part: int) -> Durations:
    out = Durations()
    for first in range(0, len(rows), part):
        here = rows[first : first + part]
        out.add(np.array([g for g, _ in here], np.int64), np.array([d for _, d in here], np.int64))
    return out


@given(ROWS, st.integers(1, 7))
def test_every_statistic(rows: list[tuple[int, int]], part: int) -> None:
    found = gathered(rows, part).statistics()
    groups = sorted({g for g, _ in rows})
    assert found.group.tolist() == groups
    for k, group in enumerate(groups):
        own = sorted(d for g, d in rows if g == group)
        assert found.count[k] == len(own)
        assert found.total[k] == sum(own)
        assert found.mean[k] == pytest.approx(statistics.fmean(own))
        assert found.median[k] == statistics.median(own)
        assert (found.minimum[k], found.maximum[k]) == (own[0], own[-1])
        assert found.p95[k] == own[math.ceil(len(own) * 0.95) - 1]
        if len(own) > 1:
            assert found.std[k] == pytest.approx(statistics.stdev(own), abs=1e-9)
        else:
            assert np.isnan(found.std[k])


@given(ROWS, st.lists(st.integers(-3, 30), max_size=20), st.integers(0, 5))
def test_many_at_once_and_all_of_one_group(rows: list[tuple[int, int]], more: list[int], group: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("MANY", 4), ("SHORT", 16), ("MOST_BINNED", 3)):
            patch.setattr(durations, name, value)
        found = gathered(rows, 9)
        found.add(group, np.array(more, np.int64))
        both = found.statistics()
    want = gathered([*rows, *((group, d) for d in more)], 100).statistics()
    for name in ("group", "count", "total", "median", "minimum", "maximum", "p95"):
        assert getattr(both, name).tolist() == getattr(want, name).tolist()


@given(ROWS, ROWS)
def test_parts_add_up_under_other_numbers(left: list[tuple[int, int]], right: list[tuple[int, int]]) -> None:
    both, other = gathered(left, 5), gathered(right, 3)
    other.add(1, np.array([7, 2**40]))
    both.merge(pickle.loads(pickle.dumps(other)), np.array([2, 3, 0, 1]))
    want = gathered([*left, *((g ^ 2, d) for g, d in right), (3, 7), (3, 2**40)], 50).statistics()
    found = both.statistics()
    for name in ("group", "count", "total", "median", "p95"):
        assert getattr(found, name).tolist() == getattr(want, name).tolist()


def test_memory_does_not_grow_with_repetitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durations, "COMPACT_ROWS", 64)
    many = Durations()
    for _ in range(200):
        many.add(np.zeros(50, np.int64), np.arange(50))
    assert sum(len(part[1]) for part in many._list_rows()) <= 64 + 3 * 50
    assert many.statistics().count.tolist() == [10_000]


def test_durations_in_cells_are_those_that_are_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short and long ones, of groups with cells and of groups beyond them, in parts that come and go."""
    random = np.random.default_rng(5)
    group = random.integers(0, 9, 40_000)
    duration = np.where(
        random.random(40_000) < 0.9, random.integers(-3, 400, 40_000), random.integers(0, 2**40, 40_000)
    )
    found = []
    for n_cells, many in ((0, 1 << 62), (4, 1)):
        monkeypatch.setattr(durations, "MOST_BINNED", n_cells)
        monkeypatch.setattr(durations, "MANY", many)
        monkeypatch.setattr(durations, "COMPACT_ROWS", 1000)
        whole = Durations()
        for first in range(0, 40_000, 700):
            part = Durations()
            part.add(group[first : first + 700] // 2, duration[first : first + 700])
            whole.merge(part, np.array([7, 0, 3, 1, 5]))
        found.append(whole.statistics())
    for name in ("group", "count", "total", "mean", "median", "minimum", "maximum", "std", "p95"):
        assert getattr(found[0], name).tolist() == getattr(found[1], name).tolist(), name
    assert found[0].count.sum() == 40_000


@pytest.mark.parametrize("n_cells", [0, 4])
def test_groups_that_are_complete_keep_no_durations(monkeypatch: pytest.MonkeyPatch, n_cells: int) -> None:
    """Their statistics are the same to the bit; memory is that of the groups that may still grow."""
    monkeypatch.setattr(durations, "MOST_BINNED", n_cells)
    monkeypatch.setattr(durations, "COMPACT_ROWS", 500)
    random = np.random.default_rng(6)
    forgetful, whole, most = Durations(), Durations(), 0
    for part in range(60):
        group = 3 * (part // 2) + random.integers(0, 3, 200)  # two parts each have the same groups
        duration = random.integers(-5, 2**40, 200)
        for either in (forgetful, whole):
            some = Durations()
            some.add(group, duration)
            either.merge(some)
        if part % 2:
            forgetful.complete(sorted(set(group.tolist())))
        most = max(most, forgetful._n_waiting)
    assert most < 2500  # what waits before it is put together, and groups that may be counted in cells
    assert whole._n_waiting > 4 * most
    again = Durations()
    again.merge(pickle.loads(pickle.dumps(forgetful)), np.arange(90)[::-1])
    found, want, renumbered = forgetful.statistics(), whole.statistics(), again.statistics()
    assert want.group.tolist() == list(range(90))
    for name in ("group", "count", "total", "mean", "median", "minimum", "maximum", "std", "p95"):
        assert getattr(found, name).tolist() == getattr(want, name).tolist(), name
        if name != "group":
            assert getattr(renumbered, name).tolist() == getattr(want, name)[::-1].tolist(), name
