"""The sparse tensor: blocks, totals, exactness of integers, composite values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from callgrove.arrays import Array
from callgrove.errors import CallgroveError, CorruptFile, UsageError
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Composite, Metric, Scope
from callgrove.model.profiles import ProfileKind
from callgrove.model.values import DenseBlock, NoValues, SparseBlock, Values
from tests.model.strategies import ATOMIC, ATOMIC_TYPE, experiments

Rows = dict[tuple[int, int, int], Any]


def flat(n_contexts: int, n_profiles: int, *metrics: Metric, summary: bool = False) -> ExperimentBuilder:
    """A builder with that many roots and threads; the first profile may be a summary."""
    builder = ExperimentBuilder("test")
    for _ in range(n_contexts):
        builder.add_context(-1, ContextKind.FUNCTION)
    for number in range(n_profiles):
        builder.add_profile(ProfileKind.SUMMARY if summary and not number else ProfileKind.THREAD)
    for metric in metrics:
        builder.add_metric(metric)
    return builder


def exclusive(name: str, aggregation: Aggregation = Aggregation.SUM, **more: Any) -> Metric:
    return Metric(name, Scope.EXCLUSIVE, aggregation=aggregation, **more)


def rows_of(blocks: list[SparseBlock]) -> Rows:
    """Every value by its (profile, context, metric)."""
    found: Rows = {}
    for block in blocks:
        keys = zip(block.profile.tolist(), block.context.tolist(), block.metric.tolist(), strict=True)
        for key, value in zip(keys, block.value.tolist(), strict=True):
            assert key not in found
            found[key] = value
    return found


def everything(values: Values) -> Rows:
    return rows_of([b.triples() for b in values.blocks(np.arange(len(values.profiles)))])


def combined(rows: Rows, metric: int, n_contexts: int, aggregation: Aggregation, skip: set[int]) -> list[Any]:
    """Totals, slowly."""
    out = []
    ways: dict[str, Callable[..., Any]] = {"sum": sum, "min": min, "max": max}
    for context in range(n_contexts):
        own = [v for (p, c, m), v in rows.items() if c == context and m == metric and p not in skip]
        out.append(ways[aggregation.value](own) if own else aggregation.neutral)
    return out


@given(experiments(traces=False, composite=True))
def test_all_ways_of_asking_agree(experiment: Experiment) -> None:
    values = experiment.values
    rows = everything(values)
    summaries = set(experiment.profiles.summaries.tolist())
    for metric in range(len(experiment.metrics)):
        own = {k: v for k, v in rows.items() if k[2] == metric and k[0] not in summaries}
        assert rows_of([values.metric(metric)]) == own
        one = np.array([metric])
        for profile in range(len(experiment.profiles)):
            block = [b.triples() for b in values.blocks(np.array([profile]), one)]
            assert rows_of(block) == {k: v for k, v in rows.items() if k[0] == profile and k[2] == metric}
    assert values.n_stored() == len(rows)


@given(experiments(traces=False))
def test_profiles_and_contexts_have_what_the_stream_has(experiment: Experiment) -> None:
    values = experiment.values
    rows = {k: pytest.approx(v, rel=1e-15) for k, v in everything(values).items()}
    summaries = set(experiment.profiles.summaries.tolist())
    for profile in range(len(experiment.profiles)):
        assert rows_of([values.profile(profile)]) == {k: v for k, v in rows.items() if k[0] == profile}
    for context in range(len(experiment.contexts)):
        expected = {k: v for k, v in rows.items() if k[1] == context and k[0] not in summaries}
        assert rows_of([values.context(context)]) == expected
    assert rows_of([values.columns()]) == rows
    measured = experiment.profiles.measured
    assert rows_of([values.columns(measured)]) == {k: v for k, v in rows.items() if k[0] not in summaries}


@given(experiments(traces=False, summary=False))
def test_totals_are_combined_over_profiles(experiment: Experiment) -> None:
    rows = everything(experiment.values)
    n = len(experiment.contexts)
    for number, metric in enumerate(experiment.metrics):
        found = experiment.values.totals(number)
        expected = combined(rows, number, n, metric.aggregation, set())
        if found.dtype.kind in "iu":
            assert found.tolist() == expected
        else:
            np.testing.assert_allclose(found, np.array(expected, np.float64), rtol=1e-12, atol=1e-3)
        one = experiment.values.totals(number, np.array([0]))
        np.testing.assert_array_equal(one, experiment.values.dense(0, number).astype(one.dtype))


def test_counters_beyond_the_precision_of_doubles_stay_exact() -> None:
    builder = flat(2, 2, exclusive("count"), exclusive("seconds", unit="sec"))
    odd = 2**53 + 1
    builder.add_values([0, 1], [0, 0], 0, np.array([odd, odd], np.int64))
    builder.add_values([0, 1], [0, 1], 1, np.array([0.5, 1.5]))
    values = builder.build().values
    assert values.totals(0).tolist() == [2 * odd, 0]
    assert values.metric(0).value.tolist() == [odd, odd]
    assert values.totals(1).tolist() == [0.5, 1.5]
    assert [b.triples().value.dtype.kind for b in values.blocks()] == ["i", "f"]


@pytest.mark.parametrize(
    ("dtype", "total"),
    [("u1", 510), ("i1", 200), ("u2", 510), ("i4", 510), ("u8", 2**64 - 2), ("?", 2)],
)
def test_small_integers_do_not_overflow_when_added(dtype: str, total: int) -> None:
    builder = flat(1, 2, exclusive("count"))
    builder.add_values([0, 1], 0, 0, np.array([total // 2] * 2, dtype))
    assert builder.build().values.totals(0).tolist() == [total]


def test_single_floats_are_added_as_doubles() -> None:
    builder = flat(1, 2, exclusive("seconds"))
    builder.add_values([0, 1], 0, 0, np.array([2.0**24, 1.0], np.float32))
    assert builder.build().values.totals(0).tolist() == [2**24 + 1]


def test_a_metric_given_in_two_types_has_the_wider_one() -> None:
    builder = flat(2, 1, exclusive("count"))
    builder.add_values(0, 0, 0, np.array([3], np.uint8))
    builder.add_values(0, 1, 0, np.array([-70000], np.int32))
    found = builder.build().values.metric(0)
    assert (found.value.tolist(), found.value.dtype.name) == ([3, -70000], "int32")


@pytest.mark.parametrize(
    ("aggregation", "totals"),
    [(Aggregation.SUM, [4, 5, 0]), (Aggregation.MINIMUM, [1, 5, np.inf]), (Aggregation.MAXIMUM, [3, 5, -np.inf])],
)
def test_absent_values_are_neutral(aggregation: Aggregation, totals: list[float]) -> None:
    builder = flat(3, 2, exclusive("m", aggregation))
    builder.add_values([0, 1, 0], [0, 0, 1], 0, [1.0, 3.0, 5.0])
    assert builder.build().values.totals(0).tolist() == totals


class OneBlock(NoValues):
    """A backend with blocks of any kind."""

    def __init__(self, *blocks: SparseBlock | DenseBlock) -> None:
        super().__init__()
        self._blocks = blocks

    def n_stored(self) -> int | None:
        return None

    def blocks(self, profiles: Any = None, metrics: Any = None) -> Any:
        yield from self._blocks


def test_a_metric_may_have_another_type_in_each_run() -> None:
    builder = flat(1, 2, exclusive("m"))
    one = np.zeros(1, np.int32)
    for second in (np.array([0.5]), np.array([2], np.uint8)):
        blocks = SparseBlock(one, one, one, np.array([7], np.int32)), SparseBlock(one + 1, one, one, second)
        builder.set_values(OneBlock(*blocks))
        assert builder.build().values.totals(0).tolist() == [7 + second[0]]


def test_a_summary_answers_for_totals_but_not_for_selections() -> None:
    builder = flat(1, 3, exclusive("m"), exclusive("other"), summary=True)
    builder.add_values([0, 1, 2], 0, 0, [100.0, 1.0, 2.0])
    builder.add_values([1, 2], 0, 1, [3.0, 4.0])
    values = builder.build().values
    assert values.totals(0).tolist() == [100]
    assert values.totals(0, np.array([1, 2])).tolist() == [3]
    assert values.totals(1).tolist() == [7], "the summary says nothing of this metric"


def test_a_damaged_summary_is_recorded_and_the_profiles_answer() -> None:
    class Damaged(OneBlock):
        def summarises(self, metric: int) -> bool:
            return True

        def profile(self, profile: int, metrics: Any = None) -> SparseBlock:
            raise CorruptFile("profile.db", "summary", expected="values", found="none")

    builder = flat(1, 2, exclusive("m"), summary=True)
    one = np.zeros(1, np.int32)
    builder.set_values(Damaged(SparseBlock(one + 1, one, one, np.array([3.0]))))
    values = builder.build().values
    assert values.totals(0).tolist() == values.totals(0).tolist() == [3]
    assert len(values.problems) == 1


def test_dense_blocks_give_what_is_not_neutral() -> None:
    ids = np.array([4, 9], np.int32)
    block = DenseBlock(2, np.array([1, 3, 5], np.int32), ids, np.array([[1.0, 0.0], [0.0, np.nan], [2.0, 3.0]]))
    found = block.triples()
    assert found.profile.tolist() == [4, 4, 9, 9]
    assert found.context.tolist() == [1, 5, 3, 5]
    assert (found.metric.tolist(), len(block)) == ([2, 2, 2, 2], 6)
    np.testing.assert_array_equal(found.value, [1, 2, np.nan, 3])
    lowest = DenseBlock(0, ids, ids, np.array([[np.inf, 0.0], [1.0, np.inf]]), neutral=np.inf)
    assert lowest.triples().value.tolist() == [1, 0]


def test_dense_blocks_of_composite_values() -> None:
    dtype = np.dtype([("n", "u4"), ("bins", "f8", (3,)), ("inner", [("a", "i2")])])
    matrix = np.zeros((2, 2), dtype)
    matrix[0, 1]["bins"][2] = 4
    matrix[1, 0]["inner"]["a"] = 1
    ids = np.arange(2, dtype=np.int32)
    found = DenseBlock(0, ids, ids, matrix).triples()
    assert list(zip(found.profile.tolist(), found.context.tolist(), strict=True)) == [(0, 1), (1, 0)]
    empty = DenseBlock(0, ids[:0], ids, matrix[:0])
    assert len(empty.triples()) == 0


def atomic(*rows: tuple[int, float, float, float]) -> Array:
    return np.array(list(rows), ATOMIC)


def composite_metric(composite: Composite = ATOMIC_TYPE) -> Metric:
    return exclusive("atomic", Aggregation.COMPOSITE, composite=composite)


def test_composite_values_combine_field_by_field() -> None:
    builder = flat(2, 3, composite_metric(), exclusive("seconds"))
    builder.add_values([0, 1, 2], [0, 0, 1], 0, atomic((2, 1, 3, 4), (1, 0.5, 0.5, 0.5), (1, 7, 7, 7)))
    builder.add_values(0, 0, 1, [0.25])
    values = builder.build().values
    assert values.totals(0).tolist() == [(3, 0.5, 3, 4.5), (1, 7, 7, 7)]
    assert values.scalar(0, values.totals(0)).tolist() == [1.5, 7]
    assert values.totals(0, np.array([2])).tolist() == [(0, 0, 0, 0), (1, 7, 7, 7)]
    assert values.scalar(1, values.totals(1)).tolist() == [0.25, 0]


def test_composite_values_of_one_profile() -> None:
    builder = flat(2, 1, composite_metric())
    builder.add_values(0, 1, 0, atomic((2, 1, 3, 4)))
    assert builder.build().values.dense(0, 0).tolist() == [(0, 0, 0, 0), (2, 1, 3, 4)]


def test_composite_values_that_cannot_combine_say_so() -> None:
    builder = flat(1, 2, composite_metric(Composite(ATOMIC, ATOMIC_TYPE.scalar)))
    builder.add_values([0, 1], 0, 0, atomic((1, 1, 1, 1), (1, 1, 1, 1)))
    values = builder.build().values
    assert values.totals(0, np.array([0])).tolist() == [(1, 1, 1, 1)]
    with pytest.raises(UsageError, match="atomic cannot be combined"):
        values.totals(0)


def test_numbers_and_composite_values_do_not_fit_one_column() -> None:
    builder = flat(1, 1, composite_metric(), exclusive("seconds"))
    builder.add_values(0, 0, 0, atomic((1, 1, 1, 1)))
    builder.add_values(0, 0, 1, [1.0])
    values = builder.build().values
    for ask, given_ in ((values.profile, (0,)), (values.context, (0,)), (values.columns, ())):
        with pytest.raises(UsageError, match="one metric at a time"):
            ask(*given_)


def test_no_values_at_all() -> None:
    experiment = flat(2, 2, exclusive("m")).build()
    values = experiment.values
    assert (values.n_stored(), len(values.profile(0)), len(values.context(1)), len(values.columns())) == (0, 0, 0, 0)
    assert values.totals(0).tolist() == values.dense(0, 0).tolist() == [0, 0]
    assert list(values.blocks()) == []
    problems: list[CallgroveError] = values.problems
    assert problems == []


@pytest.mark.parametrize("most", [1, 3, 1 << 16])
def test_small_profiles_come_in_one_block(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Whole profiles in their order, whichever are asked for, and as many at once as are small."""
    monkeypatch.setattr("callgrove.model.values.BLOCK_ROWS", most)
    builder = flat(2, 6, exclusive("a"), exclusive("b"))
    rows = [(0, 0, 0), (0, 1, 1), (2, 0, 1), (3, 0, 0), (3, 1, 0), (3, 1, 1), (5, 1, 0)]
    profile, context, metric = (np.array(column) for column in zip(*rows, strict=True))
    builder.add_values(profile, context, metric, np.arange(1.0, 8.0))
    backend = builder.build().values.backend
    for asked in (None, [0, 1, 2, 3, 4, 5], [2, 3, 5], [5, 3, 0], [1, 4], []):
        blocks = [b.triples() for b in backend.blocks(None if asked is None else np.array(asked, np.int64))]
        found = [p for block in blocks for p in block.profile.tolist()]
        order = range(6) if asked is None else asked
        assert found == [p for wanted in order for p, _, _ in rows if p == wanted]
        if asked is None:
            assert len(blocks) == {1: 4, 3: 3, 1 << 16: 1}[most]
    (only,) = [b.triples() for b in backend.blocks(np.array([3]), np.array([1]))]
    assert only.value.tolist() == [6.0]
