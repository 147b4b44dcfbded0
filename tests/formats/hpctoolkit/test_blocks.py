"""Blocks of a database: however they are sorted, put together and merged, the bytes and the rows are the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.formats.hpctoolkit import value_writers
from callgrove.formats.hpctoolkit.prerelease import files as prerelease
from callgrove.formats.hpctoolkit.release import files as release
from callgrove.formats.hpctoolkit.stored_rows import _merge_rows, combine_rows
from callgrove.formats.hpctoolkit.value_writers import PackedBlocks, _order_of_pairs, pack
from callgrove.formats.hpctoolkit.values import BlockLayout
from callgrove.model.values import SparseBlock

LAYOUTS = (release.PROFILE_LAYOUT, release.CONTEXT_LAYOUT, prerelease.PROFILE_LAYOUT, prerelease.CONTEXT_LAYOUT)
ROW = st.tuples(st.integers(0, 5), st.integers(0, 9), st.integers(0, 3), st.integers(1, 99))


def rows_of(cells: list[tuple[int, int, int, int]]) -> SparseBlock:
    """Return rows of profile, context, metric and a value that adds up without rounding."""
    profile, context, metric, value = np.array(cells, np.int32).reshape(-1, 4).T
    return SparseBlock(profile, context, metric, value.astype(np.float64))


def cells_of(rows: SparseBlock) -> list[tuple[int, int, int, float]]:
    """Return rows as tuples."""
    return list(
        zip(rows.profile.tolist(), rows.context.tolist(), rows.metric.tolist(), rows.value.tolist(), strict=True)
    )


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("numbers", [range(6), range(2, 40, 3)])
def test_long_blocks_are_packed_like_short_ones(
    layout: BlockLayout, numbers: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks without values lie first, last and in between."""
    rng = np.random.default_rng(3)
    chosen = sorted({(int(b), int(c), int(m)) for b, c, m in rng.integers(0, (len(numbers), 30, 4), (200, 3)) if b % 3})
    rows = rows_of([(numbers[b], c, m, 1 + k) for k, (b, c, m) in enumerate(chosen)])

    def packed(long: int) -> PackedBlocks:
        monkeypatch.setattr(value_writers, "LONG_BLOCK", long)
        return pack(layout, np.array(numbers), rows.profile, rows.context, rows.metric, rows.value, 96)

    by_part, by_word = packed(0), packed(1 << 30)
    assert by_part.words.tobytes() == by_word.words.tobytes()


@pytest.mark.parametrize(("n_offsets", "n_metrics"), [(1, 1), (7, 9), (1 << 8, 255), (1 << 8, 1 << 8), (1, 1 << 16)])
def test_pairs_are_sorted_alike_whether_they_fit_into_16_bits_or_not(n_offsets: int, n_metrics: int) -> None:
    rng = np.random.default_rng(5)
    offset = rng.integers(0, n_offsets, 3000).astype(np.uint16)
    metric = rng.integers(0, n_metrics, 3000).astype(np.uint16)
    metric[7] = n_metrics - 1
    assert _order_of_pairs(offset, metric, n_offsets).tolist() == np.lexsort((metric, offset)).tolist()
    assert len(_order_of_pairs(offset[:0], metric[:0], n_offsets)) == 0


@given(st.lists(ROW), st.lists(ROW))
def test_few_rows_are_merged_as_all_are_combined(many: list[tuple[int, ...]], few: list[tuple[int, ...]]) -> None:
    rows, more = combine_rows(rows_of(many)), rows_of(few)  # type: ignore[arg-type]
    want: dict[tuple[int, ...], int] = {}
    for *place, value in (*many, *few):
        want[tuple(place)] = want.get(tuple(place), 0) + value
    assert cells_of(_merge_rows(rows, more)) == [(*place, value) for place, value in sorted(want.items())]


@given(st.lists(ROW, min_size=1), st.data())
def test_rows_are_taken_by_mask_by_number_and_by_slice(
    cells: list[tuple[int, int, int, int]], data: st.DataObject
) -> None:
    n = len(cells)
    rows = rows_of(cells)
    rows = SparseBlock(rows.profile, rows.context, rows.metric, rows.value, rows.value > 50)
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    first = data.draw(st.integers(0, n))
    for chosen, places in (
        (mask, np.flatnonzero(mask).tolist()),
        (np.flatnonzero(mask)[::-1], np.flatnonzero(mask)[::-1].tolist()),
        (slice(first, n), list(range(first, n))),
    ):
        part = rows.take(chosen)
        assert cells_of(part) == [cells[k] for k in places]
        assert part.fillers is not None
        assert part.fillers.tolist() == [cells[k][3] > 50 for k in places]
