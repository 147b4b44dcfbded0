"""Lexical scope at loops: what summaries hold, what `check` says of it, and what is exported.

Expected numbers are added up here, context by context: a loop has the points of everything nested in it lexically, but
for what lies in a loop inside it. Threads hold plain function scope there, as those of genuine databases do.
"""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from callgrove.analysis.value_tables import value_tables
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind, Relation
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Metric, Scope
from callgrove.model.profiles import ProfileKind
from tests.exhaustive import try_examples
from tests.formats.written import PRERELEASE, RELEASE, damage, read, write
from tests.requirements import SHARED, each_of_shared

NAME = "CPUTIME (sec)"
SCOPES = (Scope.POINT, Scope.FUNCTION, Scope.LEXICAL, Scope.INCLUSIVE)
KINDS = (ContextKind.LOOP, ContextKind.LINE, ContextKind.FUNCTION)
HOLDS = (ContextKind.LOOP, ContextKind.FUNCTION)  # what loops and lines may be nested in


@dataclass(frozen=True)
class Nest:
    """A program: `parent` and `kind` of each context, from `main` on; `points[thread][context]` is its own cost."""

    parent: tuple[int, ...]
    kind: tuple[ContextKind, ...]
    points: tuple[tuple[int, ...], ...]

    def is_lexical(self, context: int) -> bool:
        return context > 0 and self.kind[context] != ContextKind.FUNCTION

    def total(self, scope: Scope, thread: int, context: int) -> int:
        """What a thread has at a context, by walking up from everything that has a cost."""
        return sum(cost for at, cost in enumerate(self.points[thread]) if self._counts(scope, at, context) and cost)

    def _counts(self, scope: Scope, at: int, context: int) -> bool:
        """Is the point at one context part of another one's cost?"""
        while at != context:
            outside = scope == Scope.POINT or (scope != Scope.INCLUSIVE and not self.is_lexical(at))
            between_loops = self.kind[at] == self.kind[context] == ContextKind.LOOP
            if at <= 0 or outside or (scope == Scope.LEXICAL and between_loops):
                return False
            at = self.parent[at]
        return True

    def build(self, scopes: tuple[Scope, ...], *statistics: str) -> Experiment:
        out = ExperimentBuilder("made up", title="loops")
        file = out.file("/a.c")
        entry = out.add_context(
            -1, ContextKind.ENTRY, out.region(ContextKind.ENTRY, "main thread"), Relation.CALL, source_id=1
        )
        for number, (parent, kind) in enumerate(zip(self.parent, self.kind, strict=True)):
            name = f"f{number}" if kind == ContextKind.FUNCTION else ""
            region = out.region(kind, name, file=file, line=number + 1)
            relation = Relation.LEXICAL if self.is_lexical(number) else Relation.CALL
            out.add_context(entry if number == 0 else parent + 1, kind, region, relation, source_id=number + 2)
        out.add_profile(ProfileKind.SUMMARY, source_id=0)
        for thread in range(len(self.points)):
            out.add_profile(ProfileKind.THREAD, [(3, thread, thread, 3)], source_id=thread + 1)
        order = out.order()
        for scope in scopes:
            row = out.add_metric(Metric(NAME, scope, unit="sec"))
            self._add_values(out, scope, row)
            for statistic in statistics:
                rule = {"min": Aggregation.MINIMUM, "max": Aggregation.MAXIMUM}.get(statistic, Aggregation.SUM)
                out.add_metric(Metric(NAME, scope, statistic=statistic, aggregation=rule))
        assert len(order) == len(self.kind) + 1
        return out.build()

    def _add_values(self, out: ExperimentBuilder, scope: Scope, row: int) -> None:
        stored = Scope.FUNCTION if scope == Scope.LEXICAL else scope  # as threads of genuine databases have it
        for thread in range(len(self.points)):
            for context in range(len(self.kind)):
                if value := self.total(stored, thread, context):
                    out.add_values(thread + 1, context + 1, row, [float(value)])
            if scope == Scope.INCLUSIVE and (value := self.total(scope, thread, 0)):
                out.add_values(thread + 1, 0, row, [float(value)])


@st.composite
def nests(draw: st.DrawFn) -> Nest:
    parent, kind = [-1], [ContextKind.FUNCTION]
    for _ in range(draw(st.integers(1, 9))):
        wanted = draw(st.sampled_from(KINDS))
        holders = [k for k, held in enumerate(kind) if wanted == ContextKind.FUNCTION or held in HOLDS]
        parent.append(draw(st.sampled_from(holders)))
        kind.append(wanted)
    costs = st.lists(st.integers(0, 5), min_size=len(kind), max_size=len(kind)).map(tuple)
    return Nest(tuple(parent), tuple(kind), tuple(draw(st.lists(costs, min_size=1, max_size=3))))


LOOP, LINE, FUNCTION = ContextKind.LOOP, ContextKind.LINE, ContextKind.FUNCTION
THREE_DEEP = Nest(  # main: loop 1 (line 2, loop 3 (line 4, loop 5 (line 6)), loop 7 (line 8)), line 9
    (-1, 0, 1, 1, 3, 3, 5, 1, 7, 0),
    (FUNCTION, LOOP, LINE, LOOP, LINE, LOOP, LINE, LOOP, LINE, LINE),
    ((0, 0, 1, 0, 10, 0, 100, 0, 1000, 5), (0, 0, 2, 0, 20, 0, 200, 0, 0, 5)),
)


def summary(experiment: Experiment, scope: Scope, statistic: str = "") -> dict[int, float]:
    """Context number -> what the stored summary holds."""
    block = experiment.values.profile(int(experiment.profiles.summaries[0]))
    row = next(k for k, m in enumerate(experiment.metrics) if (m.scope, m.statistic) == (scope, statistic))
    part = block.take(block.metric == row)
    ids = (experiment.contexts.source_id[part.context] - 2).tolist()
    return {id_: value for id_, value in zip(ids, part.value.tolist(), strict=True) if id_ >= 0}


def wanted(nest: Nest, scope: Scope) -> dict[int, float]:
    sums = {c: sum(nest.total(scope, t, c) for t in range(len(nest.points))) for c in range(len(nest.kind))}
    return {context: float(value) for context, value in sums.items() if value}


def test_a_loop_of_the_summary_lacks_the_loops_inside_it(tmp_path: Path) -> None:
    write(THREE_DEEP.build(SCOPES), tmp_path / "a.d")
    found = summary(read(tmp_path / "a.d"), Scope.LEXICAL)
    assert {c: found[c] for c in (1, 3, 5, 7)} == {1: 3.0, 3: 30.0, 5: 300.0, 7: 1000.0}
    assert found[0] == 1343.0  # a function is its function scope
    assert damage(tmp_path / "a.d") == []


def test_a_loop_that_is_all_loops_has_nothing(tmp_path: Path) -> None:
    nest = Nest((-1, 0, 1, 2), (FUNCTION, LOOP, LOOP, LINE), ((0, 0, 0, 3), (0, 0, 0, 4)))
    write(nest.build(SCOPES), tmp_path / "a.d")
    assert summary(read(tmp_path / "a.d"), Scope.LEXICAL) == {0: 7.0, 2: 7.0, 3: 7.0}


def test_statistics_at_loops_are_those_of_what_threads_have_without_inner_loops(tmp_path: Path) -> None:
    write(THREE_DEEP.build(SCOPES, "count", "sum of squares", "min", "max"), tmp_path / "a.d")
    new = read(tmp_path / "a.d")
    found = {name: summary(new, Scope.LEXICAL, name) for name in ("count", "sum of squares", "min", "max")}
    assert {name: values[3] for name, values in found.items()} == {
        "count": 2.0,
        "sum of squares": 500.0,
        "min": 10.0,
        "max": 20.0,
    }
    assert summary(new, Scope.LEXICAL)[3] == 30.0
    assert damage(tmp_path / "a.d") == []


@try_examples(60, HealthCheck.function_scoped_fixture)
@given(nest=nests())
def test_whatever_is_written_holds_what_was_given(nest: Nest, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("loops")
    for to, scopes in ((RELEASE, SCOPES), (PRERELEASE, (Scope.FUNCTION, Scope.INCLUSIVE))):
        old = nest.build(scopes)
        lost = write(old, folder / to, to).losses
        new = read(folder / to)
        assert damage(folder / to) == []
        for scope in scopes:
            found, right = summary(new, scope), wanted(nest, scope)
            if to == PRERELEASE and scope == Scope.INCLUSIVE:  # lines there have what they are, not what they call
                flat = [c for c, kind in enumerate(nest.kind) if kind == LINE]
                assert any(" line" in text for text in lost) or all(found.get(c) == right.get(c) for c in flat)
                found, right = ({c: v for c, v in own.items() if c not in flat} for own in (found, right))
            added = {c: v for c, v in found.items() if c < len(nest.kind)}
            assert added == pytest.approx(right), (to, scope)
        everything = sum(map(sum, nest.points))
        assert new.root_total(NAME) == pytest.approx(everything)
        assert new.totals(NAME, Scope.EXCLUSIVE).sum() == pytest.approx(everything)


@try_examples(30, HealthCheck.function_scoped_fixture)
@given(nest=nests())
def test_exported_lexical_scope_subtracts_inner_loops_of_threads_too(nest: Nest) -> None:
    """As stored, threads have plain function scope at loops; `--scope lexical` is what its name says everywhere."""
    experiment = nest.build(SCOPES)
    found: Counter[tuple[int, int]] = Counter()
    for table in value_tables(experiment, scope="lexical"):
        cells = zip(*(table.column(name).plain() for name in ("profile", "context", "metric", "value")), strict=True)
        for profile, context, metric, value in cells:
            assert experiment.metrics[metric].scope == Scope.LEXICAL
            found[profile - 1, int(experiment.contexts.source_id[context]) - 2] += value
    threads = range(len(nest.points))
    right = {(t, c): nest.total(Scope.LEXICAL, t, c) for t in threads for c in range(len(nest.kind))}
    assert {key: value for key, value in found.items() if key[1] >= 0} == {k: v for k, v in right.items() if v}


@pytest.mark.parametrize(("stored", "found"), [(330.0, 1), (30.0 * (1 + 1e-7), 1), (30.0 * (1 + 1e-11), 0)])
def test_check_compares_loops_of_the_summary(stored: float, found: int, tmp_path: Path) -> None:
    """A summary that added up the threads' own values is not what its scope says; rounding is not a difference."""
    write(THREE_DEEP.build(SCOPES), tmp_path / "a.d")
    new = read(tmp_path / "a.d")
    lexical = new.metrics.find(NAME, Scope.LEXICAL)
    assert lexical is not None
    id_, path = new.metrics[lexical].summary_id, tmp_path / "a.d" / "profile.db"
    data = path.read_bytes()
    at = data.index(struct.pack("<Hd", id_, 30.0))  # at the loop: threads have 110 and 220 there
    path.write_bytes(data[:at] + struct.pack("<Hd", id_, stored) + data[at + 10 :])
    problems = damage(tmp_path / "a.d")
    assert len(problems) == found
    assert all(f"{NAME} (lexical): 1 context differs" in text and "context 5" in text for text in problems)
    if stored == 330.0:
        assert problems[0].endswith("330 is stored, 30 is right")


@each_of_shared("path", sorted(SHARED.glob("data/public/hpctoolkit/dbase/loops-*.d")), ids=lambda p: p.name)
def test_loops_of_genuine_summaries_survive(shared: Path, path: Path, tmp_path: Path) -> None:
    old = read(path)
    write(old, tmp_path / "a.d")
    new = read(tmp_path / "a.d")
    is_loop = old.contexts.kind == ContextKind.LOOP
    for row, metric in enumerate(old.metrics):
        if metric.scope == Scope.LEXICAL and not metric.statistic:
            ours = new.metrics.find(metric.name, Scope.LEXICAL)
            assert ours is not None
            before, after = (
                old.values.dense(0, row)[is_loop],
                new.values.dense(0, ours)[new.contexts.kind == ContextKind.LOOP],
            )
            np.testing.assert_allclose(np.sort(after), np.sort(before), rtol=1e-9, atol=1e-12)
