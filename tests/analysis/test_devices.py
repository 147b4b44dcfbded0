"""Busy, overlap and idle time of devices, against a walk over every nanosecond; the specification's example."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from callgrove.analysis.devices import CAUSES, CLASSES, Activity, device_use, device_uses, latency

Operation = tuple[int, int, int, int, int]  # start, end, class, call start, call end

OPERATION = st.tuples(
    st.integers(0, 40), st.integers(0, 9), st.integers(0, 2), st.integers(-1, 30), st.integers(0, 9)
).map(lambda t: (t[0], t[0] + t[1], t[2], t[3], t[3] + t[4] if t[3] >= 0 else -1))


def activity(operations: list[Operation]) -> Activity:
    return Activity(*(np.array([op[k] for op in operations], np.int64) for k in range(5)))


def test_the_example_of_the_specification() -> None:
    use = device_use(activity([(0, 10, 0, -1, -1), (4, 14, 0, -1, -1), (20, 25, 0, -1, -1), (8, 22, 2, -1, -1)]))
    assert (use.busy_ns, use.span_ns, use.idle_ns) == (25, 25, 0)
    assert use.alone_ns == (11, 0, 6)
    assert use.together_ns["compute", "copy"] == 8
    assert use.most_at_once == 3  # from 8 to 10


@given(st.lists(OPERATION, min_size=1, max_size=10))
def test_against_every_nanosecond(operations: list[Operation]) -> None:
    use = device_use(activity(operations))
    lasting = [op for op in operations if op[1] > op[0]] or [(0, 0, 0, 0, 0)]
    first, last = min(op[0] for op in lasting), max(op[1] for op in lasting)
    at = {t: [op for op in operations if op[0] <= t < op[1]] for t in range(first, last)}
    classes = {t: frozenset(CLASSES[op[2]] for op in own) for t, own in at.items()}
    assert use.busy_ns == sum(bool(own) for own in at.values())
    assert use.span_ns == last - first
    assert use.most_at_once == max((len(own) for own in at.values()), default=0)
    for k, name in enumerate(CLASSES):
        assert use.alone_ns[k] == sum(found == {name} for found in classes.values())
    for names, length in use.together_ns.items():
        assert length == sum(found == set(names) for found in classes.values())
    assert use.gap_ns.sum() == use.idle_ns
    assert sum(use.alone_ns) + sum(use.together_ns.values()) + use.idle_ns == use.span_ns


@given(st.lists(OPERATION, min_size=1, max_size=10))
def test_causes_add_up_to_the_gap_and_follow_the_call(operations: list[Operation]) -> None:
    use = device_use(activity(operations))
    assert np.sum([use.cause_ns[cause] for cause in CAUSES], axis=0).tolist() == use.gap_ns.tolist()
    for k, (begin, length) in enumerate(zip(use.gap_start_ns.tolist(), use.gap_ns.tolist(), strict=True)):
        enders = [op for op in operations if op[0] == begin + length and op[1] > op[0]]
        splits = []
        for _, _, _, call, returned in enders:
            if call < 0:
                splits.append((0, 0, 0, length))
                continue
            times = range(begin, begin + length)
            late, launching = sum(t < call for t in times), sum(call <= t < returned for t in times)
            splits.append((late, launching, length - late - launching, 0))
        assert tuple(int(use.cause_ns[cause][k]) for cause in CAUSES) in splits


@given(st.lists(st.tuples(OPERATION, st.integers(0, 3)), max_size=30), st.sampled_from([0, 1, 2**61]))
def test_many_devices_at_once_are_each_by_itself(placed: list[tuple[Operation, int]], apart: int) -> None:
    """Also where the times of all of them together are more than a number can say."""
    moved = [((op[0], op[1] + (apart if op[1] % 5 == 4 else 0), *op[2:]), device) for op, device in placed]
    uses = device_uses(activity([op for op, _ in moved]), np.array([device for _, device in moved], np.int64), 4)
    for number, going_on in enumerate(uses.going_on()):
        found, wanted = uses[number], device_use(activity([op for op, device in moved if device == number]))
        for name in ("n_operations", "span_ns", "busy_ns", "alone_ns", "together_ns", "most_at_once"):
            assert getattr(found, name) == getattr(wanted, name), name
        for name in ("gap_ns", "gap_start_ns"):
            assert getattr(found, name).tolist() == getattr(wanted, name).tolist()
        assert all(found.cause_ns[cause].tolist() == wanted.cause_ns[cause].tolist() for cause in CAUSES)
        assert sum(going_on.values()) == wanted.span_ns
        assert going_on["idle"] == wanted.idle_ns
        assert [going_on[f"{name} only"] for name in CLASSES] == list(wanted.alone_ns)
        assert going_on["compute and copy"] == wanted.together_ns["compute", "copy"]


def test_very_many_at_once() -> None:
    operations = [(k, 1000 + k % 7, 0, -1, -1) for k in range(100)] + [(2000, 2001, 0, -1, -1)]
    assert device_use(activity(operations)).most_at_once == 100


def test_latency_is_not_clamped() -> None:
    found = latency(activity([(10, 20, 0, 2, 5), (4, 6, 0, 3, 9), (1, 2, 0, -1, -1)]))
    assert found.call_ns.tolist() == [3, 6]
    assert found.delay_ns.tolist() == [5, -5]
    assert found.total_ns.tolist() == [8, 1]
