"""Regions are kept once and numbered as they come, one by one or many together."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from callgrove.arrays import ABSENT
from callgrove.model.builder import COLUMNS, RegionTable

Key = tuple[int, ...]
OFFSETS = st.sampled_from([0, 1, 5, 2**63, 2**64 - 2, 2**64 - 1])
ADDRESSES = st.lists(st.tuples(st.integers(-1, 2), OFFSETS), max_size=12)
KINDS = st.integers(0, 1)
SINGLE = st.tuples(KINDS, st.integers(-1, 1), st.just(-1), st.integers(-1, 0), st.just(-1), st.integers(-1, 2), OFFSETS)
STEPS = st.lists(st.one_of(SINGLE, st.tuples(KINDS, ADDRESSES)), max_size=12)


@given(STEPS)
def test_many_are_what_single_ones_are(steps: list[tuple[int, ...] | tuple[int, list[tuple[int, int]]]]) -> None:
    table, known = RegionTable(), dict[Key, int]()
    for kind, *rest in steps:
        match rest:
            case [list() as addresses]:
                keys = [(kind, *[ABSENT] * 4, module, offset, *[ABSENT] * 3) for module, offset in addresses]
                module = np.array([m for m, _ in addresses], np.int32)
                offset = np.array([at for _, at in addresses], np.uint64)
                found = table.addresses(int(kind), module, offset).tolist()
            case _:
                keys = [(kind, *rest, *[ABSENT] * 3)]
                found = [table.number(keys[0])]
        assert found == [known.setdefault(key, len(known)) for key in keys]
        assert len(table) == len(known)
    columns = table.columns()
    assert len(columns) == len(COLUMNS)
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == [key[: len(COLUMNS)] for key in known]
