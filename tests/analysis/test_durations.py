"""Statistics of durations against those of the standard library, however they were gathered."""

from __future__ import annotations

import math
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


@given(ROWS, ROWS)
def test_parts_add_up_under_other_numbers(left: list[tuple[int, int]], right: list[tuple[int, int]]) -> None:
    both = gathered(left, 5)
    both.merge(gathered(right, 3).renumbered(np.array([2, 3, 0, 1])))
    want = gathered([*left, *((g ^ 2, d) for g, d in right)], 50).statistics()
    found = both.statistics()
    for name in ("group", "count", "total", "median", "p95"):
        assert getattr(found, name).tolist() == getattr(want, name).tolist()


def test_memory_does_not_grow_with_repetitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durations, "COMPACT_ROWS", 64)
    many = Durations()
    for _ in range(200):
        many.add(np.zeros(50, np.int64), np.arange(50))
    assert sum(len(part[0]) for part in many._parts) <= 64 + 3 * 50
    assert many.statistics().count.tolist() == [10_000]
