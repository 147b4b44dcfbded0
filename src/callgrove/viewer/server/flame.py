"""Flame graphs, a part at a time: from the roots down, functions with their callers, or one function between its
callers and what it calls. What is too narrow to be seen is asked for when somebody zooms there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from callgrove.analysis.costs import group
from callgrove.arrays import Floats, combine_upwards
from callgrove.errors import UsageError
from callgrove.explore.views import ABOVE
from callgrove.model.experiment import Experiment
from callgrove.viewer.chains import Chains
from callgrove.viewer.page import Choice, Limits, Panel
from callgrove.viewer.profile import ProfileMaker
from callgrove.viewer.profile_tree import ShownCosts
from callgrove.viewer.server.looks import Look, Looks
from callgrove.viewer.server.parameters import Parameters
from callgrove.viewer.server.rows import find_node, make_view, read_key

__all__ = ["FLAME", "answer_flame", "make_flame", "profile_of"]

FLAME = ("node", "shape", "function", "order")  # parameters
SHAPES = ("calls", "callers", "above", "below")  # the last two are of one function
ORDERS = ("cost", "time")
NARROWEST = 1 / 8_000  # of the width of a flame graph: less than a pixel of the widest screens
MOST_SAMPLES = 100_000_000  # that are read for the order of time
LIMITS = Limits()

Document = dict[str, Any]


def profile_of(looks: Looks, look: Look) -> ProfileMaker:
    """Return the maker of panels of the metric that is looked at."""

    def make() -> ProfileMaker:
        shown = ShownCosts((looks.costs(look),), 0, 0)
        choice: Choice = replace(looks.choice, metric=look.metric)
        return ProfileMaker(looks.experiment(look), shown, choice, LIMITS)

    return looks.others.get(("profile", replace(look, metric=looks.metric(look))), make)


def make_flame(looks: Looks, look: Look) -> Iterator[Panel]:
    """Yield the flame graph of everything."""
    if reason := _say_why_not(looks, look):
        yield Panel("unavailable", "Flame graph", {"reason": reason})
    else:
        yield Panel("liveflame", "Flame graph", _describe_calls(looks, look, ABOVE, False))


def _say_why_not(looks: Looks, look: Look) -> str:
    """Return why a metric has no flame graph; empty where it has one."""
    costs = looks.costs(look)
    if costs.is_additive and not costs.has_missing:
        return ""
    why = "lacks values, so that nothing adds up" if costs.is_additive else "has no parts that add up"
    return f"{costs.metric.name} {why}; choose another metric."


def answer_flame(looks: Looks, look: Look, parameters: Parameters) -> Document:
    """Return the tree of a flame graph around a call or a chain of functions."""
    if reason := _say_why_not(looks, look):
        raise UsageError(reason)
    shape = parameters.choice("shape", SHAPES, SHAPES[0])
    key = parameters.text("node", "")
    by_time = parameters.choice("order", ORDERS, ORDERS[0]) == "time"
    if shape == "calls":
        return _describe_calls(looks, look, find_node(make_view(looks, look, "tree"), key), by_time)
    chains = looks.others.get(("chains", replace(look, metric=looks.metric(look))), lambda: Chains(looks.costs(look)))
    numbers = read_key(key) if key else []
    if shape == "callers":
        data = chains.describe_callers(numbers, NARROWEST)
    else:
        function = parameters.integer("function", 0, 2**31 - 1)
        data = chains.describe_function(function, shape == "below", numbers, NARROWEST)
    return {**data, "has_times": False}


# -- call paths --------------------------------------------------------------------------------------------------------


def _describe_calls(looks: Looks, look: Look, context: int, by_time: bool) -> Document:
    """Return the tree of a flame graph around a call, as finely as a screen can show it."""
    data, n_folded = profile_of(looks, look).flame_data(context, NARROWEST)
    experiment = looks.experiment(look)
    if by_time:
        first = looks.others.get(("first seen", replace(look, metric="")), lambda: find_first_times(experiment))
        tree = data["tree"]
        data = {**data, "tree": {**tree, "first": first[tree["context"]]}}
    of = looks.others.get(("functions", replace(look, metric="")), lambda: group(experiment.contexts, "function").of)
    function = of[data["tree"]["context"]]
    return {**data, "n_folded": n_folded, "function": function, "has_times": has_times(experiment)}


def has_times(experiment: Experiment) -> bool:
    """Return whether samples say when contexts were seen first."""
    samples = experiment.traces.samples
    return samples is not None and 0 < int(samples.count.sum()) <= MOST_SAMPLES


def find_first_times(experiment: Experiment) -> Floats:
    """Return when each context, or one below it, was first seen in any profile: ns after the first sample of that
    profile, as clocks of processes differ; infinite where it never was."""
    if not has_times(experiment):
        raise UsageError("nothing says when calls were made: there are no samples with times")
    samples, tree = experiment.traces.samples, experiment.contexts
    assert samples is not None
    first = np.full(len(tree), np.inf)
    follows_contexts = samples.metric < 0
    lines = np.flatnonzero(follows_contexts if follows_contexts.any() else ~follows_contexts)
    for number in lines.tolist():
        line = samples.line(number)
        there = line.context >= 0
        contexts, at = np.unique(line.context[there], return_index=True)  # of equal ones the first
        if len(contexts):
            since: Floats = (line.time_ns[there][at] - line.time_ns[0]).astype(np.float64)
            first[contexts] = np.minimum(first[contexts], since)
    n = tree.n_listed
    first[:n] = combine_upwards(first[:n], tree.parent[:n], tree.levels, np.minimum)
    return first
