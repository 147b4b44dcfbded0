"""Which metric rows a result has, and how each input gives them.

Quantities are the same where their names are; the first input that has one says what is known of it. Its scopes stay
where all inputs that have the quantity store them, or where they can be computed (exclusive, inclusive). Scopes that
follow the nesting of the source text (function, lexical) stay where all trees nest their contexts in the same way.

Where values are chosen cell by cell, exclusive ones are: the row then comes from `base`, and the scopes of the result
are computed from that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from callgrove.algebra.profiles import MatchedProfiles
from callgrove.arrays import ABSENT, Bools
from callgrove.errors import Parameter, UsageError
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Metric, Scope, time_unit
from callgrove.model.scopes import Recipe, recipe

__all__ = ["Demands", "Plan", "plan_metrics", "some", "spell_signed_type"]

COMPUTED = (Scope.EXCLUSIVE, Scope.INCLUSIVE)
NESTED = (Scope.FUNCTION, Scope.LEXICAL)
FROM_EXCLUSIVE = (Scope.EXCLUSIVE, Scope.INCLUSIVE, Scope.FUNCTION)  # what follows from exclusive values and the tree
SHOWN = 5  # names in one sentence


@dataclass(frozen=True)
class Demands:
    """What an operation asks of metrics.

    `chooses`: it chooses among cells, so contested quantities go through their exclusive values. `reads_scalars`: it
    cannot combine composite values, and takes their scalar reading. `dtype` spells the type of the result.
    """

    word: str
    chooses: bool = False
    reads_scalars: bool = False
    dtype: str = ""  # "", "double" or "signed"
    any_unit: bool = False
    same_nesting: bool = True


@dataclass
class Plan:
    """Rows of the result. `ways[k]` says how input k gives a row; `contested` rows may have values of several inputs in
    one profile; `derived[base]` are the rows to compute from the exclusive values that come as row `base`."""

    metrics: list[Metric] = field(default_factory=list)
    ways: list[dict[int, Recipe]] = field(default_factory=list)
    contested: list[bool] = field(default_factory=list)
    derived: dict[int, dict[int, Scope]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def is_contested(self) -> Bools:
        return np.array(self.contested, np.bool_)

    def add(self, metric: Metric, contested: bool) -> int:
        self.metrics.append(metric)
        self.contested.append(contested)
        return len(self.metrics) - 1


def plan_metrics(experiments: Sequence[Experiment], profiles: MatchedProfiles, demands: Demands) -> Plan:
    """Return the rows of the result of an operation on these inputs."""
    plan = Plan(ways=[{} for _ in experiments])
    parents: dict[int, str] = {}
    lacking: dict[tuple[str, ...], list[str]] = {}
    for name in dict.fromkeys(name for e in experiments for name in e.metrics.quantities):
        holders = {k: e for k, e in enumerate(experiments) if name in e.metrics.quantities}
        if any(name in e.metrics.derived for e in holders.values()):
            added = _add_formula(plan, name, holders, len(experiments))
        else:
            _demand_one_kind(name, list(holders.values()), demands)
            if len(holders) < len(experiments):
                absent = tuple(e.path for k, e in enumerate(experiments) if k not in holders)
                lacking.setdefault(absent, []).append(name)
            added = _add_quantity(plan, name, holders, profiles, demands)
        for row in added:
            first = next(iter(holders.values())).metrics
            above = first.first(name).parent
            if above >= 0:
                parents[row] = first[above].name
    for absent, names in lacking.items():
        what = f"metric {names[0]}: is" if len(names) == 1 else f"metrics {some(names)}: are"
        plan.notes.append(f"{what} not in {some(absent)}")
    rows = {metric.name: row for row, metric in reversed(list(enumerate(plan.metrics)))}
    for row, parent in parents.items():
        plan.metrics[row] = replace(plan.metrics[row], parent=rows.get(parent, ABSENT))
    return plan


def _demand_one_kind(name: str, holders: Sequence[Experiment], demands: Demands) -> None:
    """Raise an error unless units and aggregations are the same; a unit that is not said fits all."""
    first, rest = holders[0], holders[1:]
    one = first.metrics.first(name)
    for experiment in rest:
        other = experiment.metrics.first(name)
        if not (demands.any_unit or _same_unit(one.unit, other.unit)):
            raise UsageError(
                f"metric {name}: is in {one.unit!r} in {first.path}, in {other.unit!r} in {experiment.path}; ",
                Parameter("ignore", ("unit",)),
                " takes the numbers as they are",
            )
        if (one.aggregation, one.composite is None) != (other.aggregation, other.composite is None):
            raise UsageError(
                f"metric {name}: is combined by {one.aggregation.value} in {first.path}, by {other.aggregation.value} "
                f"in {experiment.path}; these are different things under one name"
            )


def _same_unit(one: str, other: str) -> bool:
    if not one or not other or one == other:
        return True
    return time_unit(one) is not None and time_unit(one) == time_unit(other)


def _add_quantity(
    plan: Plan,
    name: str,
    holders: Mapping[int, Experiment],
    profiles: MatchedProfiles,
    demands: Demands,
) -> Iterator[int]:
    """Yield the rows of one quantity, added to the plan."""
    first = next(iter(holders.values())).metrics
    model = first.first(name)
    scopes = _common_scopes(name, holders, demands.same_nesting or len(holders) == 1)
    contested = _share_profiles(holders, profiles)
    if chosen := demands.chooses and contested and model.aggregation == Aggregation.SUM and model.composite is None:
        scopes = [s for s in scopes if s in FROM_EXCLUSIVE] or [Scope.EXCLUSIVE]
    if not scopes:
        plan.notes.append(f"lost: metric {name}: the inputs store it in scopes that cannot be converted")
        return
    if lost := [s.word for s in first.scopes(name) if s not in scopes]:
        why = "does not follow from the exclusive values chosen" if chosen else "cannot be had for all inputs"
        plan.notes.append(f"lost: metric {name}: scope {', '.join(lost)}, which {why}")
    rows = {}
    for scope in scopes:
        known = first.find(name, scope)
        row = plan.add(_result(first[known] if known is not None else replace(model, scope=scope), demands), contested)
        rows[row] = scope
        if not chosen:
            for k, experiment in holders.items():
                plan.ways[k][row] = _recipe(experiment, name, scope)
        yield row
    if chosen:
        base = next(iter(rows))
        plan.derived[base] = rows
        for k, experiment in holders.items():
            plan.ways[k][base] = recipe(experiment.metrics, name, Scope.EXCLUSIVE)


def _add_formula(plan: Plan, name: str, holders: Mapping[int, Experiment], n_inputs: int) -> Iterator[int]:
    """Add a derived metric as the formula that it is, where all inputs have the same one; yield its row."""
    models = [e.metrics.first(name) for e in holders.values()]
    if not all(model.is_derived for model in models):
        plan.notes.append(f"lost: metric {name}: is derived in one input and measured in another")
    elif len({(model.formula, model.scope) for model in models}) > 1 or len(models) < n_inputs:
        plan.notes.append(f"lost: metric {name}: its formula is not the same in all inputs")
    else:
        yield plan.add(replace(models[0], source_id=None), contested=False)


def _common_scopes(name: str, holders: Mapping[int, Experiment], same_nesting: bool) -> list[Scope]:
    """Return the scopes of the first input that all have or can compute; exclusive where there is no other."""
    first, *rest = (e.metrics for e in holders.values())
    computable = COMPUTED if all(_computes(e, name) for e in holders.values()) else ()
    stored = [s for s in first.scopes(name) if same_nesting or s not in NESTED]
    scopes = [s for s in stored if s in computable or all(s in m.scopes(name) for m in rest)]
    return scopes or list(computable[:1])


def _computes(experiment: Experiment, name: str) -> bool:
    try:
        recipe(experiment.metrics, name, Scope.INCLUSIVE)
    except UsageError:
        return False
    return experiment.metrics.first(name).composite is None


def _recipe(experiment: Experiment, name: str, scope: Scope) -> Recipe:
    stored = experiment.metrics.find(name, scope)
    return (
        recipe(experiment.metrics, name, scope) if stored is None else Recipe(stored, experiment.metrics[stored], scope)
    )


def _share_profiles(holders: Mapping[int, Experiment], profiles: MatchedProfiles) -> bool:
    seen = np.zeros(len(profiles), np.bool_)
    for number in holders:
        taken = profiles.of_input(number)
        if seen[taken].any():
            return True
        seen[taken] = True
    return False


def _result(metric: Metric, demands: Demands) -> Metric:
    dtype = metric.dtype
    if demands.dtype == "double":
        dtype = "DOUBLE" if dtype.isupper() else "double"
    elif demands.dtype == "signed":
        dtype = spell_signed_type(dtype)
    if metric.composite is not None and demands.reads_scalars:
        dtype = "DOUBLE" if metric.dtype.isupper() else "double"
        return replace(metric, dtype=dtype, source_id=None, composite=None, aggregation=Aggregation.SUM)
    return replace(metric, dtype=dtype, source_id=None)


def spell_signed_type(dtype: str) -> str:
    """Return the name of the signed type of the same size: UINT64 becomes INT64."""
    return re.sub(r"^[uU](?=[iI][nN][tT])", "", dtype)


def some(names: Sequence[str]) -> str:
    """Return the first few of some names."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
