"""Nothing is read before it is asked for, a tile holds a part only, and traces and provenance come along."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from callgrove.algebra import operands as tiles
from callgrove.algebra.cutting import common, cut, part
from callgrove.algebra.operations import diff, mean, merge
from callgrove.arrays import Ints
from callgrove.errors import CallgroveError, CorruptFile
from callgrove.examples import example
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Scope
from callgrove.model.traces.events import Traces
from callgrove.model.values import Block, DenseBlock, SparseBlock, ValueBackend
from tests.algebra.reference import (
    TIME_A,
    TIME_B,
    TREE_A,
    TREE_B,
    VISITS_A,
    VISITS_B,
    cube,
    cube_a,
    cube_b,
    is_sound,
    notes,
    stored,
)


class Watched:
    """A backend that counts what is asked of it, and may give its values metric by metric."""

    def __init__(self, inner: ValueBackend, n_metrics: int, by_metric: bool = False) -> None:
        self._inner, self._n_metrics, self._by_metric = inner, n_metrics, by_metric
        self.asked: list[tuple[int, int]] = []  # how many profiles and metrics
        self.problems: list[CallgroveError] = []

    def n_stored(self) -> int | None:
        return self._inner.n_stored()

    def summarises(self, metric: int) -> bool:
        return self._inner.summarises(metric)

    def profile(self, profile: int, metrics: Ints | None = None) -> SparseBlock:
        self.asked.append((1, 1))
        return self._inner.profile(profile, metrics)

    def context(self, context: int) -> SparseBlock:
        return self._inner.context(context)

    def blocks(self, profiles: Ints | None = None, metrics: Ints | None = None) -> Iterator[Block]:
        rows = np.arange(self._n_metrics) if metrics is None else metrics
        self.asked.append((-1 if profiles is None else len(profiles), len(rows)))
        if not self._by_metric:
            yield from self._inner.blocks(profiles, metrics)
            return
        for row in rows.tolist():
            found = SparseBlock.concatenate([b.triples() for b in self._inner.blocks(profiles, np.array([row]))])
            contexts, profiles_ = (
                np.arange(int(c.max(initial=0)) + 1, dtype=np.int32) for c in (found.context, found.profile)
            )
            matrix = np.zeros((len(contexts), len(profiles_)), found.value.dtype)
            matrix[found.context, found.profile] = found.value
            yield DenseBlock(row, contexts, profiles_, matrix)


def watched(e: Experiment, by_metric: bool = False) -> tuple[Experiment, Watched]:
    backend = Watched(e.values.backend, len(e.metrics), by_metric)
    return replace(e, values=replace(e.values, backend=backend)), backend


def test_making_a_result_reads_no_value() -> None:
    a, seen = watched(example())
    for made in (
        merge(a, a),
        mean(a, a),
        diff(a, a),
        cut(a, roots=["solve"]),
        cut(a, prunes=["kernel"]),
        part(a, ranks=[1]),
        common(a, a),
    ):
        assert seen.asked == []
        assert is_sound(made)


def test_a_tile_is_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "TILE_VALUES", 100)
    a, seen = watched(example(ranks=4, threads=2))
    got = stored(mean(a, a))
    assert max(n for n, _ in seen.asked) == 1
    assert len(seen.asked) >= 16
    monkeypatch.undo()
    assert got == stored(mean(a, a))


def test_what_is_stored_by_metric_is_read_by_metric() -> None:
    a, seen = watched(cube_a(extremes=False), by_metric=True)
    b, _ = watched(cube_b(extremes=False), by_metric=True)
    expected = stored(diff(cube_a(extremes=False), cube_b(extremes=False)))
    assert stored(diff(a, b)) == expected
    whole = [(profiles, rows) for profiles, rows in seen.asked if profiles > 0]
    assert whole == [(4, 1)] * 3  # visits, time, onlyA: each once, over all profiles
    assert stored(cut(a, prunes=["foo"])) == stored(cut(cube_a(extremes=False), prunes=["foo"]))


def test_two_profiles_are_enough_to_read_by_metric() -> None:
    a, seen = watched(
        cube("A", TREE_A, [row[:2] for row in VISITS_A], [row[:2] for row in TIME_A], ranks=[0], extremes=False),
        by_metric=True,
    )
    b, _ = watched(
        cube("B", TREE_B, [row[:2] for row in VISITS_B], [row[:2] for row in TIME_B], ranks=[0], extremes=False),
        by_metric=True,
    )
    stored(diff(a, b))
    assert [asked for asked in seen.asked if asked[0] > 0] == [(2, 1)] * 2  # visits, time: each once


def test_tiles_are_as_large_as_what_is_stored_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not as what could be stored: few contexts have a value."""
    a, seen = watched(example(ranks=4, threads=2))
    n_stored = a.values.backend.n_stored()
    assert n_stored is not None
    assert 2 * n_stored < len(a.contexts) * len(a.profiles) * len(a.metrics)
    monkeypatch.setattr(tiles, "TILE_VALUES", n_stored)
    stored(mean(a))
    assert max(n for n, _ in seen.asked) == len(a.profiles)


def test_one_profile_needs_one_profile() -> None:
    a, seen = watched(example())
    found = diff(a, a)
    found.values.profile(3)
    assert set(seen.asked) == {(1, 8)}


def test_damage_of_inputs_is_known_to_the_result() -> None:
    a, backend = watched(example())
    damage = CorruptFile("a.d", "block 3", expected="more", found="less")
    backend.problems.append(damage)
    assert merge(a, a).values.problems == [damage, damage]
    assert cut(a, prunes=["kernel"]).values.problems == [damage]


# -- traces ----------------------------------------------------------------------------------------------------------


def lines(e: Experiment) -> dict[int, list[tuple[int, str]]]:
    out = {}
    for profile, _, samples in e.traces.lines():
        at = [e.contexts.path(c) if c >= 0 else "" for c in samples.context.tolist()]
        out[profile] = list(zip(samples.time_ns.tolist(), at, strict=True))
    return out


def test_merge_keeps_traces() -> None:
    a = example()
    halves = part(a, ranks=[0, 1]), part(a, ranks=[2, 3])
    whole = merge(*halves)
    assert lines(whole) == lines(a)
    assert whole.traces.time_range == a.traces.time_range
    assert lines(merge(a, a)) == lines(a)  # those of the first
    assert merge(a, a, system="side-by-side").traces.n_samples == 2 * a.traces.n_samples


def test_merge_says_which_traces_it_leaves_out() -> None:
    """A thread has one line of samples: the first input's."""
    a = example()
    n = a.traces.n_samples
    assert f"lost: samples: {n} of {len(a.profiles)} profiles of which an earlier input has samples" in notes(
        merge(a, a)
    )
    assert "lost: samples" not in notes(merge(a, a, system="side-by-side"))
    assert "lost: samples" not in notes(merge(a, replace(a, traces=Traces())))
    half = part(a, ranks={0, 1})
    assert f"lost: samples: {half.traces.n_samples} of {len(half.profiles)} profiles" in notes(merge(a, half))


def test_means_and_differences_have_no_traces() -> None:
    a = example()
    for made in (mean(a, a), diff(a, a)):
        assert made.traces.n_lines == 0
        assert "lost: traces of" in notes(made)


def test_samples_on_pruned_calls_were_taken_in_the_caller() -> None:
    a = example()
    found = cut(a, prunes=["kernel"])
    for profile, line in lines(a).items():
        expected = []
        for time, path in line:
            names = path.split("->")
            expected.append((time, "->".join(names[: names.index("kernel")] if "kernel" in names else names)))
        assert lines(found)[profile] == expected


def test_samples_outside_of_new_roots_are_idle() -> None:
    found = cut(example(), roots=["solve"])
    inside = {path for line in lines(found).values() for _, path in line}
    assert "" in inside
    assert all(path == "" or path.startswith("solve") for path in inside)
    assert "samples of contexts that were not selected read as idle" in notes(found)


# -- what is known of the result ---------------------------------------------------------------------------------------


def test_provenance() -> None:
    found = mean(cube_a(), cube_b())
    assert (found.attributes["operation"], found.attributes["inputs"]) == ("mean", "A.cubex, B.cubex")
    assert cut(cube_a(), roots=["foo"]).attributes["inputs"] == "A.cubex"


def test_scopes_of_a_sampling_profiler_survive_cuts() -> None:
    """Point, function and inclusive of the example, all along; lexical ones are given up by name."""
    a = example()
    total = a.root_total("cycles")
    found = cut(a, prunes=["kernel", "/^MPI_/"])
    assert found.root_total("cycles") == total
    assert found.totals("cycles", Scope.EXCLUSIVE).sum() == pytest.approx(total)
    assert found.totals("cycles", Scope.POINT).sum() == pytest.approx(total)
    assert "lost: values of scope lexical" in notes(found)
    rerooted = cut(a, roots=["solve"])
    assert rerooted.metrics.scopes("cycles") == a.metrics.scopes("cycles")
