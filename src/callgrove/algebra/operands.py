"""Which metric rows a result has, how each input gives them, and an input's values in the ids of the result."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from callgrove.algebra.formulas import Settled
from callgrove.algebra.profiles import MatchedProfiles
from callgrove.arrays import ABSENT, Array, Bools, Ids, Ints
from callgrove.errors import CallgroveError, Parameter, UsageError
from callgrove.model.books import KeepsBooks, Totals, select_counted_contexts
from callgrove.model.computed_values import Link, Recipe, recipe
from callgrove.model.derived import mark_orphans
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Metric, Scope, time_unit
from callgrove.model.values import Block, DenseBlock, SparseBlock, ValueBackend, blocks_without_fillers

__all__ = [
    "TILE_VALUES",
    "Demands",
    "Operand",
    "Plan",
    "TiledValues",
    "is_by_metric",
    "matrix",
    "plan_metrics",
    "some",
    "sparse",
    "spell_signed_type",
]


# -- values of an input, computed one tile at a time when they are asked for -------------------------------------------


# -- values computed tile by tile --------------------------------------------------------------------------------------
# A tile is some profiles and some metric rows, and always all contexts: scopes and folds need whole trees. Where inputs
# are stored profile by profile a tile is a few profiles with all metrics; where they are stored metric by metric, it is
# one quantity over all profiles, so that every metric is unpacked once.


TILE_VALUES = 1 << 17  # about what a tile holds: more does not fit the caches
WHOLE_METRIC = 1 << 23  # cells of a metric that is unpacked at once


class TiledValues(ABC):
    """A backend over other backends. A subclass computes one tile; no profile and metric is in two tiles."""

    def __init__(
        self, sources: Sequence[ValueBackend], metrics: Sequence[Metric], n_profiles: int, n_cells: int
    ) -> None:
        """Take the most cells that one profile can hold, `n_cells`: contexts x metric rows."""
        self._sources = tuple(sources)
        self._metrics = tuple(metrics)
        self._n_profiles = n_profiles
        self._n_cells = max(1, n_cells)

        self._made: Totals | None = None

    def start_books(self) -> None:
        """Begin to add up what is read and what is made of it; a subclass says of what."""
        for source in self._sources:
            if isinstance(source, KeepsBooks):
                source.start_books()

    def differences(self) -> Iterator[str]:
        """Yield what inputs that are results themselves have lost; a subclass says what it has."""
        for source in self._sources:
            if isinstance(source, KeepsBooks):
                yield from source.differences()

    @abstractmethod
    def tile(self, profiles: Ints, rows: Ints) -> Iterator[SparseBlock]:
        """Yield all values of these profiles and metric rows."""

    @property
    def problems(self) -> list[CallgroveError]:
        """What every input met."""
        return [problem for source in self._sources for problem in source.problems]

    def n_stored(self) -> int | None:
        return None

    def summarises(self, metric: int) -> bool:
        return False

    def profile(self, profile: int, metrics: Ints | None = None) -> SparseBlock:
        rows = np.arange(len(self._metrics)) if metrics is None else metrics
        return SparseBlock.concatenate([b for b in self.tile(np.array([profile]), rows) if len(b)])

    def context(self, context: int) -> SparseBlock:
        parts = (block.triples() for block in self.blocks())
        return SparseBlock.concatenate([b for part in parts if len(b := part.take(part.context == context))])

    def blocks(self, profiles: Ints | None = None, metrics: Ints | None = None) -> Iterator[Block]:
        chosen = np.arange(self._n_profiles) if profiles is None else profiles
        rows = np.arange(len(self._metrics)) if metrics is None else metrics
        for some_profiles, some_rows in self._tiles(chosen, rows):
            for block in self.tile(some_profiles, some_rows):
                if len(block):
                    if self._made is not None:
                        self._made.add(block)
                    yield block

    @property
    def by_metric(self) -> bool:
        """Are the inputs stored metric by metric?"""
        return any(is_by_metric(source) for source in self._sources)

    def _tiles(self, profiles: Ints, rows: Ints) -> Iterator[tuple[Ints, Ints]]:
        if not len(profiles) or not len(rows):
            return
        groups = [rows]
        if len(np.unique(rows)) > 1 and len(profiles) > 1 and self.by_metric:
            names = np.array([self._metrics[row].name for row in rows.tolist()])
            groups = [rows[names == name] for name in dict.fromkeys(names.tolist())]
        for group in groups:
            per_profile = self._n_cells * len(group) // len(self._metrics)
            known = [source.n_stored() for source in self._sources]
            if all(count is not None for count in known) and len(groups) == 1:
                stored = sum(count for count in known if count is not None)
                per_profile = min(per_profile, stored // self._n_profiles)
            step = max(1, (TILE_VALUES if len(groups) == 1 else WHOLE_METRIC) // max(1, per_profile))
            for start in range(0, len(profiles), step):
                yield profiles[start : start + step], group


def is_by_metric(backend: ValueBackend) -> bool:
    """Return whether a backend gives its values metric by metric; its first block tells."""
    if isinstance(backend, TiledValues):
        return backend.by_metric
    return isinstance(next(iter(backend.blocks()), None), DenseBlock)


def sparse(matrix: Array, profiles: Array, row: int, neutral: float = 0.0) -> SparseBlock:
    """Return what is not neutral of a matrix (contexts x profiles)."""
    return DenseBlock(row, np.arange(len(matrix), dtype=np.int32), profiles.astype(np.int32), matrix, neutral).triples()


# -- inputs in the ids of the result -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Operand:
    """One input. The maps give the result's profile and context for each of its own, or -1; `ways` say how it gives
    the rows of the result. `collapsed`: all of its profiles are one."""

    experiment: Experiment
    profiles: Ids
    contexts: Ids
    ways: Mapping[int, Recipe]
    collapsed: bool = False
    reads_scalars: bool = False

    def empty_totals(self, n_rows: int) -> Totals:
        """Return totals for what the input gives to each row of the result: costs over the input's own tree."""
        none = Metric("", Scope.NONE, aggregation=Aggregation.NONE)
        metrics = [self.ways[row].metric if row in self.ways else none for row in range(n_rows)]
        return Totals(metrics, None, select_counted_contexts(self.experiment.contexts))

    def blocks(self, profiles: Ints, rows: Ints, given: Totals | None = None) -> Iterator[SparseBlock]:
        """Yield all values that the input has in these profiles and rows of the result; what is read is added to
        `given`."""
        ways = {row: self.ways[row] for row in rows.tolist() if row in self.ways}
        if not ways:
            return
        if self.collapsed:
            yield from self._totals(ways, given)
            return
        input_profiles = np.flatnonzero(np.isin(self.profiles, profiles) & (self.profiles >= 0))
        if not len(input_profiles):
            return
        yield from self._read_stored_blocks(
            {row: way.stored for row, way in ways.items() if way.is_stored}, input_profiles, given
        )
        for row, way in ways.items():
            if not way.is_stored:
                yield from self._compute_blocks(row, way, input_profiles, given)

    @cached_property
    def _n_measured(self) -> int:
        """Rows that profiles have: to ask for all of them is to ask for everything."""
        return sum(not metric.statistic and not metric.is_derived for metric in self.experiment.metrics)

    def _read_stored_blocks(
        self, rows: Mapping[int, int], input_profiles: Ints, given: Totals | None
    ) -> Iterator[SparseBlock]:
        if not rows:
            return
        metrics = np.full(len(self.experiment.metrics), -1, np.int32)
        metrics[list(rows.values())] = list(rows)
        link = Link(self.experiment.values.backend, self.profiles, self.contexts, metrics)
        wanted = None if len(rows) == self._n_measured else np.array(sorted(rows.values()))
        for block in blocks_without_fillers(link.backend, input_profiles, wanted):
            part = block.triples()
            if self.reads_scalars and part.value.dtype.names is not None:
                part = SparseBlock(part.profile, part.context, part.metric, self._scalar(part))
            if given is not None:
                here = metrics[part.metric] >= 0
                given.add_rows(metrics[part.metric[here]], part.context[here], part.value[here])
            yield link.outward(part)

    def _scalar(self, block: SparseBlock) -> Array:
        out = np.zeros(len(block))
        for metric in np.unique(block.metric).tolist():
            rows = block.metric == metric
            out[rows] = self.experiment.values.scalar(metric, block.value[rows])
        return out

    def _compute_blocks(
        self, row: int, way: Recipe, input_profiles: Ints, given: Totals | None
    ) -> Iterator[SparseBlock]:
        """Compute a scope that is not stored, some profiles at a time."""
        tree, neutral = self.experiment.contexts, way.metric.aggregation.neutral
        step = max(1, TILE_VALUES // max(1, len(tree)))
        for start in range(0, len(input_profiles), step):
            some = input_profiles[start : start + step]
            stored = matrix(self.experiment, way.stored, some)
            if given is not None:
                given.add_matrix(row, np.arange(len(stored)), stored, neutral)
            values = way.apply(stored, tree)
            yield self._outward(sparse(values, some, row, neutral), row)

    def _totals(self, ways: Mapping[int, Recipe], given: Totals | None) -> Iterator[SparseBlock]:
        """Yield all profiles as one."""
        values = self.experiment.values
        for row, way in ways.items():
            stored = values.totals(way.stored)
            if given is not None:
                given.add_matrix(row, np.arange(len(stored)), stored[:, None], way.metric.aggregation.neutral)
            totals = way.apply(stored, self.experiment.contexts)
            neutral = 0.0 if way.metric.composite is not None else way.metric.aggregation.neutral
            if self.reads_scalars and way.metric.composite is not None:
                totals = values.scalar(way.stored, totals)
            block = sparse(totals[:, None], np.zeros(1), row, neutral)
            yield self._outward(block, row, np.zeros(1, np.int32))

    def _outward(self, block: SparseBlock, row: int, profiles: Ids | None = None) -> SparseBlock:
        metrics = np.full(row + 1, row, np.int32)
        numbers = self.profiles if profiles is None else profiles
        return Link(self.experiment.values.backend, numbers, self.contexts, metrics).outward(block)


def matrix(experiment: Experiment, row: int, profiles: Ints) -> Array:
    """Return one stored row as a matrix (contexts x profiles); absent is neutral. Integers stay integers."""
    metric = experiment.metrics[row]
    neutral = metric.aggregation.neutral
    place = np.full(len(experiment.profiles), -1)
    place[profiles] = np.arange(len(profiles))
    blocks = [b.triples() for b in experiment.values.blocks_without_fillers(profiles, np.array([row]))]
    kinds = [block.value.dtype for block in blocks]
    dtype = np.result_type(*kinds) if kinds else np.dtype(np.float64)
    if neutral:
        dtype = np.dtype(np.float64)
    elif dtype.kind in "biu":
        dtype = np.dtype(np.uint64 if dtype.kind == "u" else np.int64)
    out = np.full((len(experiment.contexts), len(profiles)), neutral, dtype)
    for block in blocks:
        metric.aggregation.combine_at(out, (block.context, place[block.profile]), block.value)  # type: ignore[arg-type]
    return out


# -- metric rows of a result -------------------------------------------------------------------------------------------
# Quantities are the same where their names are; the first input that has one says what is known of it. Its scopes stay
# where all inputs that have the quantity store them, or where they can be computed (exclusive, inclusive). Scopes that
# follow the nesting of the source text (function, lexical) stay where all trees nest their contexts in the same way.
#
# Where values are chosen cell by cell, exclusive ones are: the row then comes from `base`, and the scopes of the result
# are computed from that.


COMPUTED = (Scope.EXCLUSIVE, Scope.INCLUSIVE)
NESTED = (Scope.FUNCTION, Scope.LEXICAL)
FROM_EXCLUSIVE = (Scope.EXCLUSIVE, Scope.INCLUSIVE, Scope.FUNCTION)  # what follows from exclusive values and the tree
SHOWN = 5  # names in one sentence
UNCOMBINED = "what several profiles have of it cannot be made one value"


@dataclass(frozen=True)
class Demands:
    """What an operation asks of metrics.

    `chooses`: it chooses among cells, so contested quantities go through their exclusive values. `reads_scalars`: it
    cannot combine composite values, and takes their scalar reading. `dtype` spells the type of the result. `adds_up`:
    it makes one value of those that several inputs have in one place.
    """

    word: str
    chooses: bool = False
    reads_scalars: bool = False
    dtype: str = ""  # "", "double" or "signed"
    any_unit: bool = False
    same_nesting: bool = True
    adds_up: bool = False


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


def plan_metrics(settled: Settled, profiles: MatchedProfiles, demands: Demands) -> Plan:
    """Return the rows of the result of an operation on these inputs."""
    experiments = settled.experiments
    plan = Plan(ways=[{} for _ in experiments], notes=list(_say_settled(settled)))
    lost = {name for names in settled.lost.values() for name in names}
    parents: dict[int, str] = {}
    lacking: dict[tuple[str, ...], list[str]] = {}
    uncombined: list[str] = []
    for name in dict.fromkeys(name for e in experiments for name in e.metrics.quantities):
        holders = {k: e for k, e in enumerate(experiments) if name in e.metrics.quantities}
        measured = {k: e for k, e in holders.items() if name not in e.metrics.missing}
        holders = measured or holders
        if name in lost:
            continue
        if name in settled.formulas or not measured:
            added = iter([plan.add(replace(next(iter(holders.values())).metrics.first(name), source_id=None), False)])
        else:
            _demand_one_kind(name, list(holders.values()), demands)
            if not _can_be_combined(name, holders, profiles, demands):
                uncombined.append(name)
                continue
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
    if uncombined:
        plan.notes.append(f"lost: metric{'s' * (len(uncombined) > 1)} {some(uncombined)}: {UNCOMBINED}")
    plan.metrics = mark_orphans(plan.metrics, (name for e in experiments for name in e.metrics.quantities))
    rows = {metric.name: row for row, metric in reversed(list(enumerate(plan.metrics)))}
    for row, parent in parents.items():
        plan.metrics[row] = replace(plan.metrics[row], parent=rows.get(parent, ABSENT))
    return plan


def _say_settled(settled: Settled) -> Iterator[str]:
    """Yield what is said of formulas that do not stay."""
    for why, names in settled.computed.items():
        words = ("formula", "its") if len(names) == 1 else ("formulas", "their")
        yield f"lost: {words[0]} of {some(names)}: {why}; {words[1]} values are combined instead"
    for why, names in settled.lost.items():
        yield f"lost: metric{'s' * (len(names) > 1)} {some(names)}: {why}"


def _can_be_combined(name: str, holders: Mapping[int, Experiment], profiles: MatchedProfiles, demands: Demands) -> bool:
    """Return whether values of a quantity, such as means that a file stores, need not be combined, or can be."""
    model = next(iter(holders.values())).metrics.first(name)
    if model.aggregation != Aggregation.NONE or model.composite is not None:
        return True
    if profiles.collapsed and any(len(e.profiles.measured) > 1 for e in holders.values()):
        return False
    return not (demands.adds_up and _share_profiles(holders, profiles))


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
