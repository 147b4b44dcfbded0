"""Phases: sequences of names that repeat on a profile, such as the iterations of a loop.

What a profile did at one depth is a sequence of names; of samples, those that follow each other with one name are one,
and idle ones have no name.
Spans that do are taken one by one, or as one (`forward x2`): whichever explains more of the time.
A pattern begins with a name and ends before that name comes next, so it has its first name once:

    init  a b c  a b c  a c  a b c  write          a -> b -> c     3 times

    a   [a b c] [a b c] [a c] [a b c write ...     what begins with the pattern counts as well
    b     [b c a] [b c a c a] [b ...
    c       [c a b] [c a] [c a b] [c ...

A phase is a pattern that occurs three times or more. The one that takes the most time comes first; what it covers is
taken away, and the next one is looked for in the rest. Of equal ones the first to begin counts, so of the rotations of
a loop's body (a b c, b c a, c a b) the one that begins first. Occurrences that differ in any name are not counted, and
what lies between them is in no phase: shares say how much there is.

Every event begins one pattern, so patterns are found in time that grows with the number of events: they are grouped by
a hash of their names, and those that are chosen are compared name by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from callgrove.analysis.timeline.items import Frames
from callgrove.analysis.timeline.statistics import Question, plan_of
from callgrove.analysis.timeline.stretches import Plan, Survey
from callgrove.arrays import ABSENT, Array, Bools, Ints, Names, Translation, distinct_rows, in_order
from callgrove.errors import Parameter, compose_text
from callgrove.model.experiment import Experiment
from callgrove.model.table import Column, Table
from callgrove.model.traces.events import LABEL, Samples, SpanKind, Window
from callgrove.model.traces.intervals import nesting

__all__ = ["Phase", "Sequence", "find_phases", "phases"]

LEAST_COUNT = 3
LEAST_SHARE = 0.01  # of the time of a sequence
ENOUGH = 0.5  # share of the time at which no greater depth is looked at
MOST_PHASES = 8  # of a profile
MOST_PROFILES = 16
DEEPEST = 12
PRIMES = (2_147_483_647, 2_147_483_629)
BASES = (1_103_515_245, 69_621)
DIGITS, ANY_DIGITS = re.compile(r"[0-9]+"), "#"


@dataclass(frozen=True)
class Sequence:
    """Names by number, one after the other, and from when to when each went on."""

    name: Ints
    start_ns: Ints
    end_ns: Ints

    def __len__(self) -> int:
        return len(self.name)

    def take(self, rows: Array) -> Sequence:
        return Sequence(self.name[rows], self.start_ns[rows], self.end_ns[rows])


@dataclass(frozen=True)
class Phase:
    """A pattern of names, and its occurrences in the order of time."""

    pattern: tuple[int, ...]
    start_ns: Ints
    length_ns: Ints

    @property
    def total_ns(self) -> int:
        return int(self.length_ns.sum())


# -- patterns of one sequence ------------------------------------------------------------------------------------------


def find_phases(*sequences: Sequence) -> list[Phase]:
    """Return the phases of a sequence, the one with the most time first. Of several ways to write what a profile did,
    the one whose phases take the most time counts."""
    found = [_find_phases(sequence) for sequence in sequences]
    return max(found, key=lambda phases: sum(phase.total_ns for phase in phases))


def _find_phases(sequence: Sequence) -> list[Phase]:
    if len(sequence) < LEAST_COUNT:
        return []
    rows = _Patterns(sequence)
    least = LEAST_SHARE * float(int(sequence.end_ns.max()) - int(sequence.start_ns.min()))
    phases: list[Phase] = []
    while len(phases) < MOST_PHASES:
        chosen = rows.take_best()
        if chosen is None or chosen.total_ns < least:
            break
        phases.append(chosen)
    return phases


class _Patterns:
    """The patterns that begin with each event, as rows: where they begin, how many names they have, and a number that
    is the same for equal ones."""

    def __init__(self, sequence: Sequence) -> None:
        self._sequence = sequence
        n, name = len(sequence), sequence.name
        order = np.argsort(name, kind="stable")
        after = np.full(n, n, np.int64)  # where a name comes next
        same = name[order[1:]] == name[order[:-1]]
        after[order[:-1][same]] = order[1:][same]
        begin = np.flatnonzero(after < n)
        length = after[begin] - begin
        self._taken = np.zeros(n + 1, np.int64)  # how many events before each place are in a phase
        self._hashes = hashes = _hash(name)
        _, group = distinct_rows(hashes(begin, length), length)
        first = np.full(int(group.max(initial=-1)) + 1, n)
        np.minimum.at(first, group, np.arange(len(begin)))
        last = np.full(int(name.max()) + 1, ABSENT, np.int64)
        last[name] = np.arange(n)  # the last event of each name has no pattern of its own
        tail, size = last[name[begin[first]]], length[first]
        fits = np.flatnonzero(tail + size <= n)
        fits = fits[hashes(tail[fits], size[fits]) == hashes(begin[first[fits]], size[fits])]
        self._begin = np.append(begin, tail[fits])
        self._length = np.append(length, size[fits])
        self._group = np.append(group, fits)
        ends = self._begin + self._length - 1
        self._time = sequence.end_ns[ends] - sequence.start_ns[self._begin]

    def take_best(self) -> Phase | None:
        """Return the pattern with the most time of those that occur often enough, and take away what it covers."""
        while len(self._begin):
            count, total = np.bincount(self._group), np.zeros(int(self._group.max()) + 1, np.int64)
            np.add.at(total, self._group, self._time)
            total[count < LEAST_COUNT] = ABSENT
            best = int(total.max())
            if best < 0:
                return None
            tied = np.flatnonzero(total[self._group] == best)
            row = int(tied[np.argmin(self._begin[tied])])
            begin, length = self._find_equal(int(self._begin[row]), int(self._length[row])), int(self._length[row])
            if len(begin) >= LEAST_COUNT:
                return self._take(begin, length)
            self._keep(self._group != self._group[row])
        return None

    def _find_equal(self, first: int, length: int) -> Ints:
        """Return where a pattern begins, compared name by name, of what no other phase has taken."""
        name = self._sequence.name
        begin = np.flatnonzero(name == name[first])
        begin = begin[begin + length <= len(name)]
        begin = begin[self._taken[begin + length] == self._taken[begin]]
        size = np.full(len(begin), length)
        begin = begin[self._hashes(begin, size) == self._hashes(np.array([first]), np.array([length]))]
        names = name[begin[:, None] + np.arange(length)]
        equal: Ints = begin[(names == name[first : first + length]).all(axis=1)]
        return equal

    def _take(self, begin: Ints, length: int) -> Phase:
        sequence = self._sequence
        pattern = tuple(sequence.name[begin[0] : begin[0] + length].tolist())
        phase = Phase(pattern, sequence.start_ns[begin], sequence.end_ns[begin + length - 1] - sequence.start_ns[begin])
        edges = np.zeros(len(sequence) + 1, np.int64)
        np.add.at(edges, begin, 1)
        np.add.at(edges, begin + length, -1)
        self._taken += np.append(0, np.cumsum(np.cumsum(edges)[:-1] > 0))
        self._keep(self._taken[self._begin + self._length] == self._taken[self._begin])
        return phase

    def _keep(self, kept: Bools) -> None:
        for name in ("_begin", "_length", "_group", "_time"):
            setattr(self, name, getattr(self, name)[kept])


def _hash(name: Ints) -> _Hashes:
    codes = np.random.default_rng(1).integers(1, min(PRIMES), (2, int(name.max()) + 1))
    return _Hashes([_Prefixes.of(codes[k][name], PRIMES[k], BASES[k]) for k in (0, 1)])


@dataclass(frozen=True)
class _Prefixes:
    """Sums of codes times powers, modulo a prime: those of any part of a sequence follow from two of them."""

    sums: Ints
    powers: Ints
    prime: int

    @classmethod
    def of(cls, codes: Ints, prime: int, base: int) -> _Prefixes:
        powers, step = np.ones(1, np.int64), base
        while len(powers) <= len(codes):
            powers = np.append(powers, powers * step % prime)
            step = step * step % prime
        sums = np.append(0, np.cumsum(codes * powers[: len(codes)] % prime) % prime)
        return cls(sums, powers[: len(codes) + 1], prime)

    def parts(self, begin: Ints, end: Ints) -> Ints:
        """Return the hash of each part, wherever it lies."""
        moved = (self.sums[end] - self.sums[begin]) % self.prime * self.powers[len(self.powers) - 1 - begin]
        out: Ints = moved % self.prime
        return out


@dataclass(frozen=True)
class _Hashes:
    prefixes: list[_Prefixes]

    def __call__(self, begin: Ints, length: Ints) -> Ints:
        high, low = (prefixes.parts(begin, begin + length) for prefixes in self.prefixes)
        out: Ints = (high << 31) | low
        return out


# -- sequences of profiles ---------------------------------------------------------------------------------------------


class _Sources:
    """The events of some profiles, as sequences at any depth."""

    def __init__(self, plan: Plan, survey: Survey, window: Window, ignore_digits: bool) -> None:
        self._plan, self._window, self._ignore_digits = plan, window, ignore_digits
        self.names = Names()
        self.profiles = np.flatnonzero(survey.has_trace)[:MOST_PROFILES].tolist()
        kept = Plan(plan.experiment, np.array(self.profiles), plan.kinds, None, plan.followed)
        self._lines = dict(kept.lines()) if survey.has_samples.any() else {}
        self._spans = dict(self._read_spans(kept)) if survey.has_spans.any() else {}

    @cached_property
    def _frames(self) -> Frames:
        return Frames(self._plan.experiment.contexts)

    def _read_spans(self, plan: Plan) -> Iterator[tuple[int, tuple[Sequence, Array]]]:
        """Yield the spans of each profile in the order of time, and how many others each lies in."""
        backend = plan.experiment.traces.spans_backend
        assert backend is not None
        translation = Translation(self.names)
        columns: dict[str, list[Array]] = {name: [] for name in ("profile", "name", "start_ns", "end_ns")}
        for chunk in plan.experiment.traces.spans(
            ("profile", "kind", LABEL, "start_ns", "end_ns"), None, plan.profiles
        ):
            kept = plan.keep_spans(chunk)[0]
            label = translation.numbers(np.maximum(chunk[LABEL][kept], ABSENT), backend.strings)
            words = np.array([self.names(kind.word) for kind in SpanKind])
            for column in ("profile", "start_ns", "end_ns"):
                columns[column].append(chunk[column][kept].astype(np.int64))
            columns["name"].append(np.where(label >= 0, label, words[chunk["kind"][kept]]))
        profile, name, start, end = (np.concatenate(parts) for parts in columns.values())
        order = in_order(profile, start)
        depth = nesting(start[order], end[order], profile[order]).depth
        every = Sequence(name[order], start[order], end[order])
        for number in np.unique(profile).tolist():
            rows = np.flatnonzero(profile[order] == number)
            yield number, (every.take(rows), depth[rows])

    @cached_property
    def deepest(self) -> int:
        """How many functions or spans lie in each other at the most."""
        spans = [int(depth.max(initial=-1)) + 1 for _, depth in self._spans.values()]
        used = [line.context[line.context >= 0] for line in self._lines.values()]
        samples = [int(self._frames.level[contexts].max(initial=0)) for contexts in used]
        return min(max([1, *spans, *samples]), DEEPEST)

    @property
    def longest(self) -> int:
        """The profile with the most events, the first of several."""
        n_events = {p: len(line) for p, line in self._lines.items()} | {p: len(s) for p, (s, _) in self._spans.items()}
        return max(n_events, key=lambda profile: (n_events[profile], -profile))

    def at(self, profile: int, depth: int) -> list[Sequence]:
        """Return what a profile did at a depth, as far as it lies in the window: name by name, and with names that
        follow each other as one."""
        if profile in self._lines:
            sequence = self._merge_samples(self._lines[profile], depth)
        else:
            spans, level = self._spans[profile]
            sequence = spans.take(level == depth - 1)
        if self._ignore_digits:
            known = [self.names(DIGITS.sub(ANY_DIGITS, text)) for text in list(self.names.all)]
            sequence = Sequence(np.array(known, np.int64)[sequence.name], sequence.start_ns, sequence.end_ns)
        low, high = self._window
        inside = sequence.take((sequence.start_ns >= low) & (sequence.end_ns <= high))
        return [inside, self._merge_runs(inside)]

    def _merge_runs(self, sequence: Sequence) -> Sequence:
        """Return a sequence in which equal names that follow each other are one: `forward x2`."""
        name = sequence.name
        first = np.flatnonzero(np.append(True, name[1:] != name[:-1])[: len(name)])
        count = np.diff(np.append(first, len(name)))
        rows, back = distinct_rows(name[first], count)
        texts = [
            self.names.all[number] if n == 1 else f"{self.names.all[number]} x{n}" for number, n in rows.T.tolist()
        ]
        names = np.array([self.names(text) for text in texts], np.int64)[back]
        last = first + count - 1
        return Sequence(names, sequence.start_ns[first], sequence.end_ns[last])

    def _merge_samples(self, line: Samples, depth: int) -> Sequence:
        """Return samples as a sequence, without idle ones; the last one only says when the one before ended."""
        tree = self._plan.experiment.contexts
        context = np.where((line.context >= 0) & (line.context < len(tree)), line.context, ABSENT)
        used, back = distinct_rows(context)
        names = np.full(len(used[0]), ABSENT, np.int64)
        busy = np.flatnonzero((used[0] >= 0) & ~tree.idle[used[0]])
        frames = self._frames.cut(used[0][busy], depth)
        names[busy] = [self.names(tree.name(frame)) for frame in frames.tolist()]
        name, time = names[back][:-1], line.time_ns.astype(np.int64)
        rows = np.flatnonzero(name >= 0)
        fresh = np.append(True, name[rows[1:]] != name[rows[:-1]])[: len(rows)]
        first, last = rows[fresh], rows[np.append(fresh[1:], True)[: len(rows)]]
        return Sequence(name[first], time[first], time[last + 1])


# -- the table ---------------------------------------------------------------------------------------------------------


def phases(experiment: Experiment, question: Question, ignore_digits: bool = False) -> tuple[Table, Window]:
    """Return the phases of profiles at the depth that is asked for, and the window. Without a depth it is the least one
    at which they take half of the window, or else the one at which they take the most of it."""
    plan, survey = plan_of(experiment, question)
    assert survey.whole is not None
    window = question.window or survey.whole
    sources = _Sources(plan, survey, window, ignore_digits)
    length = max(window[1] - window[0], 1)
    depth = question.depth or _choose_depth(sources, length)
    found = [(p, phase) for p in sources.profiles for phase in find_phases(*sources.at(p, depth))]
    n_there = int(survey.has_trace.sum())
    notes = (
        [f"phases at depth {depth}; the deepest is {sources.deepest}"]
        if found
        else [_explain_none(question, depth, sources.deepest)]
    )
    if n_there > len(sources.profiles):
        words = f"of the first {len(sources.profiles)} of {n_there:,} profiles; choose others with "
        notes.append(compose_text(words, Parameter("ranks")))
    return Table(tuple(_columns(experiment, found, sources.names.all, length)), notes=tuple(notes)), window


def _choose_depth(sources: _Sources, length: int) -> int:
    covered: dict[int, float] = {}
    for depth in range(1, sources.deepest + 1):
        total = sum(phase.total_ns for phase in find_phases(*sources.at(sources.longest, depth)))
        covered[depth] = total / length
        if covered[depth] >= ENOUGH:
            return depth
    return max(covered, key=lambda depth: (covered[depth], -depth))


def _explain_none(question: Question, depth: int, deepest: int) -> str:
    if question.depth is None:
        return f"no pattern repeats {LEAST_COUNT} times at any of {deepest} depths"
    if depth >= deepest:
        return f"no pattern repeats {LEAST_COUNT} times at depth {depth}, and nothing lies deeper than {deepest}"
    said = f"no pattern repeats {LEAST_COUNT} times at depth {depth}; try "
    return compose_text(said, Parameter("depth", depth + 1))


def _columns(experiment: Experiment, found: list[tuple[int, Phase]], names: list[str], length: int) -> Iterator[Column]:
    profiles = [profile for profile, _ in found]
    every = [phase for _, phase in found]
    yield Column("profile", profiles)
    for place in ("rank", "thread"):
        known = experiment.profiles.identity_list(place)
        yield Column(place, [known[profile] for profile in profiles])
    yield Column("phase", [1 + profiles[:at].count(profile) for at, profile in enumerate(profiles)])
    yield Column("pattern", [" -> ".join(names[number] for number in phase.pattern) for phase in every])
    yield Column("count", [len(phase.start_ns) for phase in every])
    yield Column("percent", [100 * phase.total_ns / length for phase in every])
    yield Column("mean_ns", [phase.total_ns / len(phase.start_ns) for phase in every])
    yield Column("min_ns", [int(phase.length_ns.min()) for phase in every])
    yield Column("max_ns", [int(phase.length_ns.max()) for phase in every])
    yield Column("first_ns", [int(phase.start_ns[0]) for phase in every])
    yield Column("slowest_ns", [int(phase.start_ns[np.argmax(phase.length_ns)]) for phase in every])
