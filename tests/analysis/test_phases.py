"""Phases of made-up sequences: loops, noise, rotations, nested loops, nothing that repeats; against a plain search."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence as Many
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import callgrove
from callgrove.analysis.timeline.phases import Phase, Sequence, find_phases
from callgrove.examples import example
from callgrove.model.experiment import Experiment
from callgrove.model.traces.events import SpanKind
from tests.analysis.traced import NAMES, Span, sampled, spanned


def sequence_of(text: str, lengths: Many[int] | None = None) -> Sequence:
    """A letter for each name, 10 ns long unless told otherwise."""
    name = np.array([ord(letter) - ord("a") for letter in text], np.int64)
    end = np.cumsum(np.array(lengths if lengths is not None else [10] * len(text), np.int64))
    return Sequence(name, np.append(0, end[:-1])[: len(end)], end)


def patterns(text: str) -> list[tuple[str, int]]:
    return [("".join(chr(ord("a") + k) for k in p.pattern), len(p.start_ns)) for p in find_phases(sequence_of(text))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("abcabcabc", [("abc", 3)]),
        ("xabcabcabcy", [("abc", 3)]),
        ("xyabcabcabcabcz", [("abc", 4)]),
        ("aaaa", [("a", 4)]),
        ("abcabcabacabcabc", [("abc", 4)]),  # b is missing once, and between two of them
        ("abababcdcdcdcd", [("cd", 4), ("ab", 3)]),
        ("pxyxypxyxypxyxy", [("pxyxy", 3)]),  # a loop in a loop: the outer one covers more
        ("pxyxypxyxyxypxy", [("xy", 6)]),  # whose inner one differs in length
        ("abab", []),  # only twice
        ("abcdefgh", []),
        ("a", []),
        ("", []),
    ],
)
def test_patterns(text: str, expected: list[tuple[str, int]]) -> None:
    assert patterns(text) == expected


def test_durations_are_of_each_occurrence() -> None:
    lengths = [5, 10, 20, 11, 20, 9, 40, 3]
    (phase,) = find_phases(sequence_of("xabababy", lengths))
    assert phase == Phase((0, 1), phase.start_ns, phase.length_ns)
    assert phase.start_ns.tolist() == [5, 35, 66]
    assert phase.length_ns.tolist() == [30, 31, 49]
    assert phase.total_ns == 110


def plain_search(text: str) -> dict[str, int]:
    """How often each pattern occurs, from a name to before it comes next."""
    found: dict[str, int] = defaultdict(int)
    for at, letter in enumerate(text):
        after = text.find(letter, at + 1)
        if after >= 0:
            found[text[at:after]] += 1
    return found


@given(st.text("abc", max_size=40))
def test_the_first_phase_takes_more_time_than_others_between_two_of_a_name(text: str) -> None:
    covered = {p: len(p) * n for p, n in plain_search(text).items() if n >= 3}
    found = patterns(text)
    assert found or not covered
    if found:
        pattern, count = found[0]
        assert len(pattern) * count >= max(covered.values(), default=0)
        assert count == text.count(pattern)


@given(st.text("abcd", max_size=60), st.data())
def test_phases_do_not_overlap_and_are_what_they_say(text: str, data: st.DataObject) -> None:
    lengths = data.draw(st.lists(st.integers(1, 9), min_size=len(text), max_size=len(text)))
    sequence = sequence_of(text, lengths)
    taken = np.zeros(sum(lengths), np.int64)
    for phase in find_phases(sequence):
        assert len(phase.start_ns) >= 3
        for start, length in zip(phase.start_ns.tolist(), phase.length_ns.tolist(), strict=True):
            taken[start : start + length] += 1
            first = int(np.searchsorted(sequence.start_ns, start))
            assert tuple(sequence.name[first : first + len(phase.pattern)].tolist()) == phase.pattern
    assert taken.max(initial=0) <= 1


def test_equal_hashes_are_not_equal_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callgrove.analysis.timeline.phases.PRIMES", (2, 2))
    assert patterns("abcabcabc") == [("abc", 3)]
    assert patterns("abcdefgh") == []


# -- of traces ---------------------------------------------------------------------------------------------------------


def iterations(n: int, noise: Many[int] = ()) -> list[tuple[int, int]]:
    """Samples of a loop: kernel below solve, MPI_Allreduce, and in some iterations MPI_Barrier of main; idle moments
    in between."""
    line, time = [(0, 1)], 10
    for step in range(n):
        for context in (5, 5, -1, 6, *((8,) if step in noise else ())):
            line.append((time, context))
            time += 10
    return [*line, (time, 1), (time + 10, -1)]


def test_samples_of_a_loop() -> None:
    experiment = sampled(iterations(20, noise=(3, 11)))
    table = experiment.phases()
    (row,) = table
    assert (row["pattern"], row["count"], row["first_ns"]) == ("kernel -> MPI_Allreduce", 20, 10)
    assert (row["min_ns"], row["max_ns"], row["mean_ns"]) == (40, 40, 40.0)
    assert table.notes == ("phases at depth 3; the deepest is 3",)
    none = experiment.phases(depth=1)
    assert (len(none), none.notes[0]) == (0, "no pattern repeats 3 times at depth 1; try depth=2")
    assert "nothing lies deeper than 3" in sampled([(0, 5), (9, 5)]).phases(depth=3).notes[0]
    assert "at any of 3 depths" in sampled([(0, 5), (9, 5)]).phases().notes[0]


def test_only_what_lies_in_the_window_is_looked_at() -> None:
    experiment = sampled(iterations(20))
    assert [row["count"] for row in experiment.phases(window=(10, 250), depth=3)] == [6]
    assert [row["count"] for row in experiment.phases(window=(15, 255), depth=3)] == [5], "the first one is cut"


def steps(n: int) -> list[Span]:
    """Markers of steps with two calls of one name in each."""
    spans: list[Span] = []
    for step in range(n):
        at = 100 * step
        spans.append((0, SpanKind.MARKER, 3 + step % 2, at, at + 90))
        spans += [(0, SpanKind.API, 0, at + k, at + k + 9) for k in (10, 20)]
        spans.append((0, SpanKind.API, 1, at + 40, at + 80 + step))
    return spans


def test_spans_by_depth_and_names_that_follow_each_other() -> None:
    experiment = spanned(steps(4))
    (row,) = experiment.phases(depth=1, ignore_digits=True)
    assert (row["pattern"], row["count"], row["percent"]) == ("step #", 4, 100 * 360 / 390)
    (row,) = experiment.phases(depth=2)
    assert (row["pattern"], row["count"]) == ("a x2 -> b", 4)
    assert (row["min_ns"], row["max_ns"], row["slowest_ns"]) == (70, 73, 310)
    (row,) = experiment.phases(kind="marker", ignore_digits=True)
    assert row["pattern"] == "step #"
    assert NAMES[3:5] == ("step 1", "step 2")


def test_many_profiles_are_not_all_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callgrove.analysis.timeline.phases.MOST_PROFILES", 2)
    table = sampled(*[iterations(5)] * 4).phases()
    assert [(row["profile"], row["rank"], row["thread"], row["phase"]) for row in table] == [(0, 0, 0, 1), (1, 0, 1, 1)]
    assert "first 2 of 4 profiles" in table.notes[1]


def test_the_loop_of_the_example_is_found(tmp_path: Path) -> None:
    experiment = example()
    experiment.write(tmp_path / "stencil.d")
    read = callgrove.open(tmp_path / "stencil.d")
    assert isinstance(read, Experiment)
    rows = list(read.phases(threads=0))
    assert {row["pattern"] for row in rows} == {"solve -> exchange -> residual"}
    assert {row["count"] for row in rows} == {12}
