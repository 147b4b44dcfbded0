"""Memory in use, against a walk through the operations in plain Python."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from callgrove.analysis.summary import memory_peaks
from callgrove.arrays import Array
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.experiment import Experiment
from callgrove.model.profiles import DEFAULT_ID_NAMES, Interpretation, ProfileKind
from callgrove.model.traces.events import ArraySpans, SideTable, SpanKind

Operation = tuple[str, int, int, int]  # what, address, bytes, device
WORDS = ("ALLOC", "FREE", "REALLOC", "kernel")
LEVELS = ("REAL", "SCRATCH")
operations = st.lists(
    st.tuples(st.sampled_from(WORDS[:3]), st.integers(0, 4), st.integers(0, 1000), st.integers(0, 1)), max_size=30
)


def experiment_of(found: Sequence[Operation]) -> Experiment:
    """Operation k lasts from 10 k to 10 k + 5; a kernel comes before all of them."""
    builder = ExperimentBuilder("made", "1")
    rank = (DEFAULT_ID_NAMES.index("RANK"), 3, 3, Interpretation.SINGLE)
    builder.add_profile(ProfileKind.THREAD, [rank])
    n = len(found)
    start: Array = 10 * np.arange(n + 1) - 10
    columns: dict[str, Array] = {
        "profile": np.zeros(n + 1, np.int32),
        "kind": np.array([SpanKind.KERNEL, *[SpanKind.ALLOC] * n], np.int8),
        "name": np.array([3, *(WORDS.index(word) for word, *_ in found)], np.int32),
        "category": np.full(n + 1, -1, np.int32),
        "start_ns": start,
        "end_ns": start + 5,
        "correlation": np.full(n + 1, -1),
    }
    sizes = [-1 if word == "FREE" else size for word, _, size, _ in found]
    devices = [-1 if word == "FREE" else device for word, _, _, device in found]
    side = {
        "bytes": np.array(sizes, np.int64),
        "device": np.array(devices, np.int64),
        "address": np.array([address for _, address, _, _ in found], np.int64),
        "level": np.array([LEVELS[device] for *_, device in found], object),
    }
    builder.set_traces(spans=ArraySpans(columns, WORDS, {"alloc": SideTable(np.arange(1, n + 1), side)}))
    return builder.build()


def walked(found: Sequence[Operation]) -> tuple[dict[tuple[int, str], tuple[int, int, int]], int]:
    """(device, level) -> most bytes, when first, and how many were left; frees of what nobody allocated."""
    live: dict[int, tuple[int, int, str]] = {}
    in_use: dict[tuple[int, str], int] = {}
    most: dict[tuple[int, str], tuple[int, int]] = {}
    unknown = 0
    for k, (word, address, size, device) in enumerate(found):
        changes = []
        if word != "ALLOC":
            if address in live:
                old, where, level = live.pop(address)
                changes.append(((where, level), -old))
            else:
                unknown += 1
        if word != "FREE":
            live[address] = size, device, LEVELS[device]
            changes.append(((device, LEVELS[device]), size))
        for place, change in changes:
            in_use[place] = in_use.get(place, 0) + change
            if place not in most or in_use[place] > most[place][0]:
                most[place] = in_use[place], 10 * k + 5
    return {place: (*most[place], in_use[place]) for place in most}, unknown


@given(operations)
def test_peaks_are_those_of_a_walk(found: list[Operation]) -> None:
    want, unknown = walked(found)
    peaks = memory_peaks(experiment_of(found))
    have = {(int(p.device.removeprefix("device ")), p.level): (p.peak_bytes, p.peak_ns, p.left_bytes) for p in peaks}
    assert have == want
    assert all(peak.rank == 3 and peak.n_unknown == unknown for peak in peaks)


def test_a_window_begins_with_what_is_in_use() -> None:
    found = [("ALLOC", 1, 100, 0), ("ALLOC", 2, 10, 0), ("FREE", 1, 0, 0), ("ALLOC", 3, 20, 0)]
    (peak,) = memory_peaks(experiment_of(found), window=(12, 40))
    assert (peak.peak_bytes, peak.peak_ns, peak.left_bytes) == (110, 15, 30)
    (peak,) = memory_peaks(experiment_of(found), window=(7, 14))
    assert (peak.peak_bytes, peak.peak_ns, peak.left_bytes) == (100, 7, 100)
    assert memory_peaks(experiment_of(found), window=(0, 4)) == []


def test_no_allocations_no_rows() -> None:
    assert memory_peaks(experiment_of([])) == []
