"""A chain of backends is what their concatenation is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from callgrove.arrays import Ids, Ints
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.computed_values import ChainedValues, Link
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Metric, Scope
from callgrove.model.profiles import ProfileKind
from callgrove.model.values import Block, NoValues, SparseBlock, Values, has_fillers
from tests.model.strategies import ATOMIC, ATOMIC_TYPE, experiments

Row = tuple[int, int, int, float]
WHOLE = (4, 5, 3)  # profiles per link, contexts and metrics of the whole


def rows_of(blocks: list[SparseBlock]) -> list[Row]:
    return sorted(
        row
        for b in blocks
        for row in zip(b.profile.tolist(), b.context.tolist(), b.metric.tolist(), b.value.tolist(), strict=True)
    )


def ids(values: list[int]) -> Ids:
    return np.array(values, np.int32)


@st.composite
def chains(draw: Any) -> tuple[list[Link], list[list[Row]], int]:
    """Links over experiments, what each holds in the ids of the whole, and how many profiles the whole has."""
    links, held, n_profiles = [], [], 0
    for _ in range(draw(st.integers(1, 3))):
        experiment: Experiment = draw(experiments(traces=False, n_contexts=6, summary=False))
        n_own = len(experiment.profiles)
        profiles = ids(list(range(n_profiles, n_profiles + n_own)))
        n_profiles += n_own
        n_contexts, n_metrics = len(experiment.contexts), len(experiment.metrics)
        contexts = ids(draw(st.lists(st.integers(-1, WHOLE[1] - 1), min_size=n_contexts, max_size=n_contexts)))
        metrics = ids(draw(st.lists(st.integers(-1, WHOLE[2] - 1), min_size=n_metrics, max_size=n_metrics)))
        links.append(Link(experiment.values.backend, profiles, contexts, metrics))
        own = rows_of([b.triples() for b in experiment.values.blocks()])
        mapped = [(int(profiles[p]), int(contexts[c]), int(metrics[m]), v) for p, c, m, v in own]
        held.append([row for row in mapped if row[1] >= 0 and row[2] >= 0])
    return links, held, n_profiles


def close(found: list[Row], expected: list[Row]) -> None:
    assert [row[:3] for row in found] == [row[:3] for row in expected]
    np.testing.assert_allclose([row[3] for row in found], [row[3] for row in expected], rtol=1e-15)


@given(chains(), st.data())
def test_a_chain_is_the_concatenation_of_its_links(
    drawn: tuple[list[Link], list[list[Row]], int], data: st.DataObject
) -> None:
    links, held, n_profiles = drawn
    chain, everything = ChainedValues(links), sorted(row for rows in held for row in rows)
    assert rows_of([b.triples() for b in chain.blocks()]) == everything
    profiles = data.draw(st.lists(st.integers(0, n_profiles - 1), unique=True))
    metrics = data.draw(st.lists(st.integers(0, WHOLE[2] - 1), unique=True))
    chosen = [row for row in everything if row[0] in profiles and row[2] in metrics]
    asked = np.array(profiles, np.int64), np.array(metrics, np.int64)
    assert rows_of([b.triples() for b in chain.blocks(*asked)]) == chosen
    for profile in range(n_profiles):
        close(rows_of([chain.profile(profile)]), [row for row in everything if row[0] == profile])
    for context in range(WHOLE[1]):
        close(rows_of([chain.context(context)]), [row for row in everything if row[1] == context])
    n_stored = chain.n_stored()
    assert n_stored is None or n_stored == len(everything)
    if all((own >= 0).all() for link in links for own in (link.contexts, link.metrics)):
        assert n_stored == len(everything)


def two_runs(*metrics: Metric) -> tuple[ExperimentBuilder, ExperimentBuilder]:
    """A run of two contexts, and a whole in which both are one."""
    run, whole = ExperimentBuilder("run"), ExperimentBuilder("whole")
    for builder, n in ((run, 2), (whole, 1)):
        for _ in range(n):
            builder.add_context(-1, ContextKind.FUNCTION)
        builder.add_profile(ProfileKind.THREAD)
        for metric in metrics:
            builder.add_metric(metric)
    return run, whole


def merged(run: ExperimentBuilder, whole: ExperimentBuilder) -> Values:
    experiment = run.build()
    metrics = np.arange(len(experiment.metrics), dtype=np.int32)
    whole.set_values(ChainedValues([Link(experiment.values.backend, ids([0]), ids([0, 0]), metrics)]))
    return whole.build().values


def test_contexts_that_become_one_are_combined() -> None:
    run, whole = two_runs(
        Metric("sum", Scope.EXCLUSIVE), Metric("max", Scope.EXCLUSIVE, aggregation=Aggregation.MAXIMUM)
    )
    for metric in (0, 1):
        run.add_values(0, [0, 1], metric, [3.0, 2.0])
    values = merged(run, whole)
    assert [values.dense(0, m).tolist() for m in (0, 1)] == [[5], [3]]
    assert [values.totals(m).tolist() for m in (0, 1)] == [[5], [3]]


def test_composite_values_of_contexts_that_become_one_are_combined() -> None:
    metric = Metric("a", Scope.EXCLUSIVE, aggregation=Aggregation.COMPOSITE, composite=ATOMIC_TYPE)
    run, whole = two_runs(metric)
    run.add_values(0, [0, 1], 0, np.array([(1, 2, 2, 2), (1, 4, 4, 4)], ATOMIC))
    values = merged(run, whole)
    assert values.dense(0, 0).tolist() == values.totals(0).tolist() == [(2, 2, 4, 6)]


def test_profiles_that_are_left_out_make_the_count_unknown() -> None:
    run, _ = two_runs(Metric("sum", Scope.EXCLUSIVE))
    run.add_values(0, 0, 0, [1.0])
    backend = run.build().values.backend
    assert ChainedValues([Link(backend, ids([0]), ids([0, 1]), ids([0]))]).n_stored() == 1
    for profile, context, metric in ((-1, 0, 0), (0, -1, 0), (0, 0, -1)):
        chain = ChainedValues([Link(backend, ids([profile]), ids([context, 1]), ids([metric]))])
        assert chain.n_stored() is None
        assert list(chain.blocks()) == []
    assert ChainedValues([]).n_stored() == 0


def test_a_chain_has_fillers_where_one_of_its_links_has() -> None:
    class Filled(NoValues):
        def blocks_without_fillers(self, profiles: Ints | None = None, metrics: Ints | None = None) -> Iterator[Block]:
            yield from ()

    none = np.empty(0, np.int32)
    plain, filled = (Link(backend, none, none, none) for backend in (NoValues(), Filled()))
    assert not has_fillers(ChainedValues([plain, plain]))
    assert has_fillers(ChainedValues([plain, filled]))
    assert (has_fillers(plain.backend), has_fillers(filled.backend)) == (False, True)
