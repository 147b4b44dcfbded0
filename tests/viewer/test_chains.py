"""Flame graphs of functions: their rows are those of `tree --bottom-up` and of the call tree, merged."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import callgrove.viewer.chains as chains_module
from callgrove.analysis.costs import costs, functions_of, group
from callgrove.analysis.views import describe_contexts, grow_callers
from callgrove.errors import UsageError
from callgrove.examples import example
from callgrove.model.experiment import Experiment
from callgrove.viewer.chains import Chains
from tests.browser.made import large

Chain = tuple[str, ...]
EXPERIMENTS = {"example": example, "large": lambda: large(300, 8)}


@pytest.fixture(scope="module", params=list(EXPERIMENTS))
def made(request: pytest.FixtureRequest) -> Experiment:
    return EXPERIMENTS[request.param]()


def rows_of(data: dict[str, Any]) -> Iterator[tuple[Chain, float]]:
    """Every kept row as its names from the first on, with its cost."""
    tree, names = data["tree"], data["labels"]["name"].values
    chains: list[Chain] = []
    for label, parent, cost in zip(tree["label"], tree["parent"], tree["metrics"][0]["inclusive"], strict=False):
        chains.append(((*chains[parent], names[label])) if parent >= 0 else (names[label],))
        yield chains[-1], float(cost)


def add_up(rows: Iterator[tuple[Chain, float]]) -> dict[Chain, float]:
    """Rows by their names: functions of one name may be several."""
    out: dict[Chain, float] = defaultdict(float)
    for chain, cost in rows:
        out[chain] += cost
    return out


def test_callers_are_those_of_the_verb(made: Experiment) -> None:
    table = grow_callers(costs(made)).table
    expected: dict[Chain, float] = defaultdict(float)
    path: list[str] = []
    columns = (table.column(name).plain() for name in ("depth", "name", "exclusive"))
    for depth, name, exclusive in zip(*columns, strict=True):
        path[depth:] = [name]
        expected[tuple(path)] += exclusive
    shown = add_up(rows_of(Chains(costs(made)).describe_callers((), 0.0)))
    assert shown == pytest.approx(expected)


def brute_force(experiment: Experiment, function: int, calls: bool) -> dict[Chain, float]:
    """The chains of one function, context by context."""
    tree, one = experiment.contexts, costs(experiment)
    owner, of = functions_of(tree), group(tree, "function").of
    columns = describe_contexts(tree, list(range(tree.n_listed)), parameters=False)
    names = columns[0].plain()

    def above(context: int) -> list[int]:
        out = []
        while (parent := int(tree.parent[context])) >= 0:
            context = int(owner[parent])
            out.append(context)
        return out

    expected: dict[Chain, float] = defaultdict(float)
    for context in np.flatnonzero(owner == np.arange(tree.n_listed)).tolist():
        stack = [context, *above(context)]
        mine = [k for k, at in enumerate(stack) if of[at] == function]
        if calls and mine:
            expected[tuple(names[at] for at in stack[: mine[-1] + 1][::-1])] += float(one.inclusive[context])
        elif mine == [0]:
            for length in range(1, len(stack) + 1):
                expected[tuple(names[at] for at in stack[:length])] += float(one.inclusive[context])
    return {chain: cost for chain, cost in expected.items() if cost}


@pytest.mark.parametrize("calls", [False, True])
def test_one_function_between_its_callers_and_what_it_calls(calls: bool) -> None:
    experiment = large(600, 4)
    one = Chains(costs(experiment))
    for function in (0, 3, 17):
        shown = add_up(rows_of(one.describe_function(function, calls, (), 0.0)))
        there = {chain: cost for chain, cost in shown.items() if cost}
        assert there == pytest.approx(brute_force(experiment, function, calls))


def test_what_is_folded_still_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = costs(large(2_000, 8))
    monkeypatch.setattr(chains_module, "MOST_ROWS", 100)
    data = Chains(whole).describe_callers((), 1e-6)
    tree, metric = data["tree"], data["tree"]["metrics"][0]
    assert len(tree["label"]) <= 100
    assert data["n_folded"] == int(tree["more"].sum())
    roots = tree["parent"] < 0
    assert metric["inclusive"][roots].sum() == pytest.approx(whole.total)
    assert len(data["function"]) == len(tree["label"])


def keys_of(data: dict[str, Any]) -> list[tuple[int, ...]]:
    out: list[tuple[int, ...]] = []
    for group_, parent in zip(data["tree"]["context"].tolist(), data["tree"]["parent"].tolist(), strict=False):
        out.append((*out[parent], group_) if parent >= 0 else (group_,))
    return out


def test_a_zoom_brings_what_was_folded(made: Experiment) -> None:
    one = Chains(costs(made))
    coarse, fine = one.describe_callers((), 0.002), one.describe_callers((), 0.0)
    key = keys_of(coarse)[0]
    zoomed = one.describe_callers(key, 0.002)
    widths = dict(zip(keys_of(fine), fine["tree"]["metrics"][0]["weight"].tolist(), strict=False))
    least = 0.002 * widths[key]
    expected = {chain for chain, width in widths.items() if chain[: len(key)] == key and width >= least}
    assert {chain for chain in keys_of(zoomed) if chain[: len(key)] == key} == expected
    assert set(keys_of(coarse)) <= set(keys_of(zoomed))


@pytest.mark.parametrize("key", [(9_999_999,), (0, 0, 0, 0)])
def test_chains_that_are_not_there(key: Sequence[int]) -> None:
    with pytest.raises(UsageError, match="no such chain"):
        Chains(costs(example())).describe_callers(key, 0.1)


def test_functions_that_are_not_there() -> None:
    with pytest.raises(UsageError, match="no such function"):
        Chains(costs(example())).describe_function(10_000, True, (), 0.1)
