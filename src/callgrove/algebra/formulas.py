"""What becomes of derived metrics when several experiments become one.

A formula stays where it means in the result what it means in the inputs, and all of them have the same one. What adds
up is computed otherwise, and combined as a measured metric is; the rest is lost, and said to be.

                                          merge, common    sum, collapse    mean       diff
    linear                                formula          formula          formula    formula
    of each context and profile           formula          values           values     values
    ratios and the like                   formula          formula          formula    lost

The ratio of two means is the mean of the ratios, each weighted by its denominator. The ratio of two differences is
nothing that anybody measured: the difference of two ratios is to be had from the inputs (`Experiment.diff`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain

from callgrove.model.derived import When, formula_identity, is_linear
from callgrove.model.experiment import Experiment
from callgrove.model.materialised import is_storable, materialise
from callgrove.model.metrics import Metric

__all__ = ["Meaning", "Settled", "settle_formulas"]


class Meaning(StrEnum):
    """What the cells of a result are, which decides which formulas hold for them."""

    CELLS = "cells"  # those of an input each
    SUMS = "sums"
    MEANS = "means"
    DIFFERENCES = "differences"


@dataclass
class Settled:
    """Inputs with values in place of the formulas that cannot stay. `formulas` are the quantities that stay derived,
    `computed` those that have values now, and `lost` those that are in no result, both by the reason for it."""

    experiments: tuple[Experiment, ...]
    formulas: set[str] = field(default_factory=set)
    computed: dict[str, list[str]] = field(default_factory=dict)
    lost: dict[str, list[str]] = field(default_factory=dict)


def settle_formulas(experiments: Sequence[Experiment], meaning: Meaning) -> Settled:
    """Return inputs in which every quantity is a formula in all of them, or in none."""
    settled = Settled(tuple(experiments))
    for name in dict.fromkeys(name for e in experiments for name in e.metrics.derived):
        holders = [e for e in experiments if name in e.metrics.quantities]
        _settle(settled, name, holders, meaning)
    computed = set(chain(*settled.computed.values()))
    settled.experiments = tuple(materialise(e, computed) for e in experiments)
    return settled


def _settle(settled: Settled, name: str, holders: Sequence[Experiment], meaning: Meaning) -> None:
    """Choose what becomes of one quantity that is derived in some input."""
    models = [e.metrics.first(name) for e in holders]
    why = _find_difference(models, len(settled.experiments)) or _find_obstacle(holders[0], name, meaning)
    if not why:
        settled.formulas.add(name)
    elif _are_storable(name, holders):
        settled.computed.setdefault(why, []).append(name)
    elif len({formula_identity(model) for model in models}) == 1 and meaning == Meaning.CELLS:
        settled.formulas.add(name)  # what is computed from cells of several inputs has a meaning in the result alone
    else:
        settled.lost.setdefault(why, []).append(name)


def _find_difference(models: Sequence[Metric], n_inputs: int) -> str:
    """Return why the inputs do not have the same formula; nothing where they do."""
    if not all(model.is_derived for model in models):
        return "is derived in one input and measured in another"
    if len({formula_identity(model) for model in models}) > 1 or len(models) < n_inputs:
        return "its formula is not the same in all inputs"
    return ""


def _find_obstacle(experiment: Experiment, name: str, meaning: Meaning) -> str:
    """Return why a formula does not hold for the cells of the result; nothing where it does."""
    metrics, metric = experiment.metrics, experiment.metrics.first(name)
    formula = metric.derivation
    if meaning == Meaning.CELLS or formula is None or formula.reason or is_linear(metrics, name):
        return ""
    if formula.when != When.AFTER:
        return f"what it makes of {meaning} is not what the inputs have"
    if meaning == Meaning.DIFFERENCES:
        return "what it makes of differences is not the difference of what it makes of the inputs"
    return ""


def _are_storable(name: str, holders: Sequence[Experiment]) -> bool:
    """Return whether all inputs have values that add up, of one kind."""
    models = [e.metrics.first(name) for e in holders]
    kinds = {(model.aggregation, model.composite is None) for model in models}
    derived = [e for e, model in zip(holders, models, strict=True) if model.is_derived]
    return len(kinds) == 1 and all(is_storable(e, name) for e in derived)
