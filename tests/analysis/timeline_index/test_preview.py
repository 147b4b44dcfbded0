"""What is shown before an index is there: moments of what was read, against looking at every span."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from callgrove.analysis.timeline_index.answers import LineKind
from callgrove.analysis.timeline_index.preview import MOMENTS, MOST_PROFILES, Moments, Preview
from callgrove.analysis.timeline_index.sources import KIND_OF_TRACK, NameNumbers
from callgrove.analysis.timeline_index.spool import TrackSpans

Given = tuple[int, int, int, int]  # track, start, end, name


def names_of(n: int) -> NameNumbers:
    names = NameNumbers()
    for number in range(n):
        names.number(f"name {number}", "region")
    return names


def columns(spans: list[Given]) -> TrackSpans:
    track, start, end, name = np.array(spans, np.int64).reshape(-1, 4).T
    return TrackSpans(track, start, end, name, np.arange(len(spans)))


def innermost(spans: list[Given], track: int, time: int) -> set[int]:
    """The names of what started last, and of that ends first, among what is open at a time; -1 for nothing."""
    opened = [(start, -end, name) for one, start, end, name in spans if one == track and start <= time < end]
    return {name for start, end, name in opened if (start, end) == max(opened)[:2]} or {-1}


def check(moments: Moments, spans: list[Given]) -> None:
    """Every moment of every track is right."""
    low, high = min(start for _, start, _, _ in spans), max(end for _, _, end, _ in spans)
    times = (moments.first + np.arange(MOMENTS)) << moments.shift
    assert times[0] <= low
    assert times[-1] + (1 << moments.shift) >= high, "all that was read is in it"
    assert moments.shift == 0 or (high - low) >> (moments.shift - 1) >= MOMENTS - 1, "as fine as there is room for"
    seen = moments.at(np.arange(len(moments.profile)), times)
    for k, (profile, kind) in enumerate(zip(moments.profile.tolist(), moments.kind.tolist(), strict=True)):
        track = 3 * profile + KIND_OF_TRACK.index(LineKind(kind))
        assert all(name in innermost(spans, track, time) for name, time in zip(seen[k], times.tolist(), strict=True))


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_moments_are_what_was_innermost_of_what_was_read(data: st.DataObject) -> None:
    scale = data.draw(st.sampled_from([1, 7, 1_000]))
    time = st.integers(0, 900)
    span = st.tuples(st.integers(0, 4), time, time, st.integers(0, 5))
    spans = [(track, scale * min(a, b), scale * max(a, b), name) for track, a, b, name in data.draw(st.lists(span))]
    spans = [(0, 3, 4, 1), *spans]
    preview, names = Preview(2), names_of(6)
    bounds = [0, *sorted(data.draw(st.lists(st.integers(0, len(spans)), max_size=3))), len(spans)]
    for first, last in pairwise(bounds):
        preview.add_spans(columns(spans[first:last]))
        if last:
            check(preview.moments(names), spans[:last])
    assert preview.moments(names).window == (min(s for _, s, _, _ in spans), max(e for _, _, e, _ in spans))


def test_what_takes_no_time_adds_none_to_what_was_read() -> None:
    preview, names = Preview(2), names_of(1)
    for span in ((0, 7, 7, 0), (0, 3, 4, 0), (0, 9, 9, 0)):
        preview.add_spans(columns([span]))
    assert preview.moments(names).window == (3, 9)
    preview = Preview(2)
    preview.add_spans(columns([(0, 7, 7, 0)]))
    assert preview.moments(names).window == (7, 8)


def test_moments_of_samples() -> None:
    preview = Preview(1)
    start, end, names = (np.array(column) for column in ((100, 400, 1_000), (400, 1_000, 1_000), (4, 5)))
    preview.add_samples(0, start, end, lambda rows: names[rows])
    moments = preview.moments(names_of(6))
    assert (moments.profile.tolist(), moments.kind.tolist()) == ([0], [LineKind.SAMPLES])
    assert moments.at(np.array([0]), np.array([50, 104, 399, 404, 999, 5_000])).tolist() == [[-1, 4, 4, 5, 5, -1]]


def test_nothing_read() -> None:
    moments = Preview(0).moments(names_of(0))
    assert len(moments.profile) == 0
    assert moments.window == (0, 1)


def test_of_many_profiles_some_are_shown() -> None:
    n = 10 * MOST_PROFILES
    preview = Preview(n)
    preview.add_spans(columns([(3 * profile, 0, 100, 0) for profile in range(n)]))
    moments = preview.moments(names_of(1))
    assert moments.profile.tolist() == list(range(0, n, 10))
    assert (moments.at(np.arange(MOST_PROFILES), np.array([0, 50, 99])) == 0).all()
