"""The made-up experiment obeys the rules of what it imitates."""

from __future__ import annotations

import re

import numpy as np
import pytest

from callgrove.examples import example, study_example
from callgrove.model.contexts import ContextKind, Relation
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Scope
from callgrove.modeling.fitting import model_study
from callgrove.modeling.model_tables import function_text


@pytest.fixture(scope="module")
def stencil() -> Experiment:
    return example()


def test_equal_arguments_give_equal_experiments(stencil: Experiment) -> None:
    again, other = example(), example(seed=1)
    assert again.values.columns().value.tolist() == stencil.values.columns().value.tolist()
    assert other.values.columns().value.tolist() != stencil.values.columns().value.tolist()
    assert [line.time_ns.tolist() for _, _, line in again.traces.lines()] == [
        line.time_ns.tolist() for _, _, line in stencil.traces.lines()
    ]


@pytest.mark.parametrize(("ranks", "threads"), [(1, 1), (3, 4), (8, 2)])
def test_any_number_of_ranks_and_threads(ranks: int, threads: int) -> None:
    made = example(ranks=ranks, threads=threads)
    assert len(made.profiles) == ranks * threads
    assert made.profiles.identity_list("rank") == [rank for rank in range(ranks) for _ in range(threads)]
    assert made.profiles.identity_list("thread") == list(range(threads)) * ranks


@pytest.mark.parametrize("quantity", ["CPUTIME (sec)", "cycles"])
def test_scopes_follow_from_point_values(stencil: Experiment, quantity: str) -> None:
    """Function: and all that is nested lexically; inclusive: and all below; lexical: loops without loops in them."""
    tree = stencil.contexts
    rows = {scope: stencil.metrics.find(quantity, scope) for scope in Scope if scope not in ("", "exclusive")}
    for profile in range(len(stencil.profiles)):
        got = {scope: stencil.values.dense(profile, row) for scope, row in rows.items() if row is not None}
        for context in range(len(tree)):
            children = tree.children(context)
            nested = [child for child in children if tree.relation[child] == Relation.LEXICAL]
            loops = [child for child in nested if tree.kind[child] == ContextKind.LOOP]
            point = got[Scope.POINT][context]
            function = point + got[Scope.FUNCTION][nested].sum()
            assert got[Scope.FUNCTION][context] == function
            assert got[Scope.INCLUSIVE][context] == point + got[Scope.INCLUSIVE][children].sum()
            inner = got[Scope.FUNCTION][loops].sum() if tree.kind[context] == ContextKind.LOOP else 0
            assert got[Scope.LEXICAL][context] == function - inner


def test_cpu_time_is_what_was_sampled(stencil: Experiment) -> None:
    busy = sum(int((line.context >= 0).sum()) for _, _, line in stencil.traces.lines())
    assert stencil.root_total("CPUTIME (sec)") == busy / 256
    assert stencil.traces.time_range is not None
    first, last = stencil.traces.time_range
    assert 0.9e9 < last - first < 1e9


def test_ranks_are_unequal_and_helpers_sleep(stencil: Experiment) -> None:
    tree = stencil.contexts
    [waitall] = [c for c in range(len(tree)) if tree.label(c) == "MPI_Waitall"]
    row = stencil.metrics.find("CPUTIME (sec)", Scope.INCLUSIVE)
    assert row is not None
    first_threads = [p for p, thread in enumerate(stencil.profiles.identity_list("thread")) if thread == 0]
    waits = [float(stencil.values.dense(p, row)[waitall]) for p in first_threads]
    assert waits == sorted(waits, reverse=True)
    assert waits[0] > 3 * waits[-1] > 0
    for profile, _, line in stencil.traces.lines():
        assert (np.diff(line.time_ns) > 0).all()
        assert (line.context < 0).any() == (profile not in first_threads)


def test_the_models_of_the_example_are_what_it_was_made_of() -> None:
    models = model_study(study_example())
    found = [function_text(models.functions, k) for k in range(4)]
    shapes = [re.sub(r"-?\d+\.\d+(e-\d+)?", "c", text) for text in found]
    assert shapes == ["c", "c + c * n^(2)", "c + c * log2(p)^(1) * n^(1)", "c + c * p^(1)"]
