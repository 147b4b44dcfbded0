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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

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


@dataclass(frozen=True)
class Settled:
    """Inputs with values in place of the formulas that cannot stay. `formulas` are the quantities that stay derived;
    `lost` are in no result."""

    experiments: tuple[Experiment, ...]
    formulas: frozenset[str] = frozenset()
    lost: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


@dataclass
class _Choice:
    formulas: set[str] = field(default_factory=set)
    computed: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)


def settle_formulas(experiments: Sequence[Experiment], meaning: Meaning) -> Settled:
    """Return inputs in which every quantity is a formula in all of them, or in none."""
    names = dict.fromkeys(name for e in experiments for name in e.metrics.derived)
    if not names:
        return Settled(tuple(experiments))
    choice = _Choice()
    for name in names:
        holders = {k: e for k, e in enumerate(experiments) if name in e.metrics.quantities}
        _settle(choice, name, holders, len(experiments), meaning)
    return Settled(
        tuple(materialise(e, choice.computed) for e in experiments),
        frozenset(choice.formulas),
        frozenset(choice.lost),
        tuple(choice.notes),
    )


def _settle(choice: _Choice, name: str, holders: Mapping[int, Experiment], n_inputs: int, meaning: Meaning) -> None:
    """Choose what becomes of one quantity that is derived in some input."""
    models = [e.metrics.first(name) for e in holders.values()]
    why = _find_difference(models, n_inputs)
    if not why:
        why = _find_obstacle(next(iter(holders.values())), name, meaning)
    if not why:
        choice.formulas.add(name)
    elif _are_storable(name, list(holders.values())):
        choice.computed.add(name)
        choice.notes.append(f"lost: formula of {name}: {why}; its values are combined instead")
    elif len({formula_identity(model) for model in models}) == 1 and meaning == Meaning.CELLS:
        choice.formulas.add(name)  # what is computed from cells of several inputs has a meaning in the result alone
    else:
        choice.lost.add(name)
        choice.notes.append(f"lost: metric {name}: {why}")


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
