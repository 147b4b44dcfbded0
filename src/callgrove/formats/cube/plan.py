"""Where each metric, context and location of an experiment goes in a Cube file, and the system tree as Cube has it.

Of a quantity one row is written: the inclusive one where there is one, else the exclusive, else the point one; the
other scopes are computed from it by whoever reads the file. Ids are 0, 1, 2, ... without gaps, because CubeLib needs
that; the experiment's own ids are kept where they are such. Elided contexts have no place in a call tree.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from callgrove.arrays import ABSENT, Ids, Ints
from callgrove.formats.cube.anchor import Level
from callgrove.formats.cube.formula_writer import KINDS, write_cubepl
from callgrove.formats.cube.vocabulary import (
    DERIVED,
    GHOST,
    SCOPES,
    VOID,
    WIDE,
    CubeMetric,
    ValueType,
    value_type,
    wide_order,
)
from callgrove.model.contexts import ContextTree
from callgrove.model.definitions import UserFormula
from callgrove.model.derived import Refused, Unavailable
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Metric, Metrics, Scope
from callgrove.model.profiles import ProfileKind

__all__ = ["CnodePlan", "MetricPlan", "Place", "Places", "PlannedMetric", "dense_ids", "holds_formula", "unique_name"]


UNFIT = re.compile(r"[^A-Za-z0-9_.:+-]+")
CHOICE = (Scope.INCLUSIVE, Scope.EXCLUSIVE, Scope.POINT, Scope.NONE)
TYPES = {Scope.INCLUSIVE: "INCLUSIVE", Scope.EXCLUSIVE: "EXCLUSIVE", Scope.POINT: "EXCLUSIVE", Scope.NONE: "EXCLUSIVE"}
DOUBLES = {Aggregation.MINIMUM: "MINDOUBLE", Aggregation.MAXIMUM: "MAXDOUBLE"}


@dataclass
class PlannedMetric:
    """One metric of the file. `row` is the model's; `parent` counts among the planned ones. The type may become
    DOUBLE when values come that are not integers."""

    row: int
    id: int
    parent: int
    name: str
    kind: str
    type: ValueType
    said: CubeMetric
    scalar: bool  # composite values of which only the scalar reading is written
    visible: bool = True
    formula: str = ""  # in CubePL

    @property
    def has_values(self) -> bool:
        return self.kind not in DERIVED and self.said.texts.get("val", "").strip() != VOID

    @property
    def given(self) -> dict[str, str]:
        """The attributes of its element; metrics that are hidden elsewhere are ghosts here."""
        is_void = self.said.texts.get("val", "").strip() == VOID
        return self.said.given if self.visible or is_void else {**self.said.given, "viztype": GHOST}

    @property
    def stem(self) -> str:
        """The name of its members without the ending."""
        return f"ghost_{self.id}" if self.given.get("viztype") == GHOST else str(self.id)


@dataclass(frozen=True)
class MetricPlan:
    """The metrics of the file in the order of their rows; `left_out` are rows of the model without a place."""

    metrics: tuple[PlannedMetric, ...]
    left_out: tuple[int, ...]

    @classmethod
    def of(cls, metrics: Metrics) -> MetricPlan:
        chosen = _choose_metrics(metrics)
        ids = dense_ids([metrics[row].source_id for row in chosen])
        place = {row: number for number, row in enumerate(chosen)}
        numbers = {metrics[row].name: number for number, row in enumerate(chosen)}
        parents = {row: numbers[metric.name] for row, metric in enumerate(metrics) if metric.name in numbers}
        names: set[str] = set()
        planned = [_plan_metric(metrics, row, ids[number], parents, names) for number, row in enumerate(chosen)]
        needed = {name for row in chosen if (formula := metrics[row].derivation) for name in formula.companions}
        for metric in planned:
            if _has_become_values(metrics[metric.row], metric.said):
                metric.said = metric.said.without_formula(keeps_init=metrics[metric.row].name in needed)
        name_of = {metrics[metric.row].name: metric.name for metric in planned}
        for metric in planned:
            metric.formula = cubepl_of(metrics[metric.row], name_of) or ""
        left = [row for row, metric in enumerate(metrics) if row not in place and not metric.statistic]
        return cls(tuple(planned), tuple(left))

    @cached_property
    def of_row(self) -> dict[int, PlannedMetric]:
        return {metric.row: metric for metric in self.metrics}


def _choose_metrics(metrics: Metrics) -> list[int]:
    chosen = []
    for quantity in metrics.quantities:
        if metrics.first(quantity).is_derived and not holds_formula(metrics.first(quantity), metrics):
            continue
        rows = [row for scope in CHOICE if (row := metrics.find(quantity, scope)) is not None]
        chosen += rows[:1]
    return sorted(chosen)


def holds_formula(metric: Metric, metrics: Metrics) -> bool:
    """Return whether a Cube file can hold the formula of a derived metric: CubePL, or what can be said in it."""
    operands = () if metric.derivation is None else metric.derivation.operands
    return cubepl_of(metric, {name: clean_name(name) for name in operands if metrics.scopes(name)}) is not None


def cubepl_of(metric: Metric, names: Mapping[str, str]) -> str | None:
    """Return the formula of a derived metric in CubePL, over the names of metrics in the file; None where it has none.
    What a file says stays as it is."""
    formula = metric.derivation
    if isinstance(formula, UserFormula):
        known = all(name in names for name in formula.operands)
        return write_cubepl(formula, lambda name: names[name]) if known else None
    is_cubepl = metric.is_derived and CubeMetric.of_row(metric).kind in DERIVED
    return metric.formula if is_cubepl and not isinstance(formula, Refused) else None


def _plan_metric(metrics: Metrics, row: int, id_: int, place: dict[int, int], names: set[str]) -> PlannedMetric:
    """Return one metric; `place` is where the quantity of each row is in the file."""
    metric = metrics[row]
    above = metric.parent
    while above >= 0 and above not in place:
        above = metrics[above].parent
    said = CubeMetric.of_row(metric)
    type_ = value_type(metric.dtype)
    fits = type_ is not None and (type_.composite is None) == (metric.composite is None)
    if type_ is not None and type_.aggregation != metric.aggregation and metric.aggregation in DOUBLES:
        fits = False  # another tool's minimum or maximum
    kind = said.kind if _is_still_true(said, metric) else TYPES[metric.scope]
    if isinstance(metric.derivation, UserFormula):
        kind = KINDS[metric.derivation.when]
    if type_ is None or not fits:
        type_ = value_type(DOUBLES.get(metric.aggregation, "DOUBLE"))
        assert type_ is not None
    scalar = metric.composite is not None and type_.composite is None
    name, parent = unique_name(metric.name, names), place.get(above, ABSENT)
    is_void = isinstance(metric.derivation, Unavailable)  # as an init block says, which is written as well
    return PlannedMetric(row, id_, parent, name, kind, type_, said, scalar, metric.visible or is_void)


def _has_become_values(metric: Metric, said: CubeMetric) -> bool:
    """Return whether a metric is a formula in the file that it came from, and has values now."""
    return said.kind in DERIVED and not metric.is_derived and metric.scope != Scope.NONE


def _is_still_true(said: CubeMetric, metric: Metric) -> bool:
    """Return whether a metric is of the type that its file said: it may have values now, or another scope. Where the
    file was wrong (`said.unit`), what it said is written back."""
    if said.kind not in SCOPES or _has_become_values(metric, said):
        return False
    return metric.is_derived or said.unit is not None or SCOPES[said.kind] == metric.scope


def unique_name(name: str, taken: set[str]) -> str:
    """Return a name of the characters that CubeLib allows, and that no other metric has."""
    base = clean_name(name)
    candidate, number = base or "metric", 1
    while candidate in taken:
        number += 1
        candidate = f"{base}_{number}"
    taken.add(candidate)
    return candidate


def clean_name(name: str) -> str:
    """Return a name of the characters that CubeLib allows."""
    return UNFIT.sub("_", name).strip("_") if UNFIT.search(name) else name


def dense_ids(ids: Sequence[int | None]) -> list[int]:
    """Return the ids themselves where they are 0, 1, ... in any order, else such numbers in the given order."""
    known = [number for number in ids if number is not None]
    return known if sorted(known) == list(range(len(ids))) else list(range(len(ids)))


@dataclass(frozen=True)
class CnodePlan:
    """The listed contexts, in preorder, with their ids in the file and their places in the two traversals."""

    tree: ContextTree
    id: Ints
    keeps_ids: bool

    @classmethod
    def of(cls, tree: ContextTree) -> CnodePlan:
        ids = tree.source_id[: tree.n_listed]
        keeps = np.array_equal(np.sort(ids), np.arange(tree.n_listed))
        return cls(tree, ids.astype(np.int64) if keeps else np.arange(tree.n_listed, dtype=np.int64), keeps)

    def __len__(self) -> int:
        return self.tree.n_listed

    @cached_property
    def _wide(self) -> Ids:
        n = len(self)
        out = np.full(len(self.tree), ABSENT, np.int32)
        out[wide_order(self.tree.parent[:n])] = np.arange(n, dtype=np.int32)
        return out

    @cached_property
    def _preorder(self) -> Ids:
        out = np.full(len(self.tree), ABSENT, np.int32)
        out[: len(self)] = np.arange(len(self), dtype=np.int32)
        return out

    def position(self, kind: str) -> Ids:
        """Return the row position of every context in metrics of a type; -1 where it has none."""
        return self._wide if kind in WIDE else self._preorder

    def context_at(self, kind: str) -> Ids:
        """Return the context at every row position of metrics of a type."""
        position = self.position(kind)[: len(self)]
        out = np.empty(len(self), np.int32)
        out[position] = np.arange(len(self), dtype=np.int32)
        return out


# -- system tree -------------------------------------------------------------------------------------------------------
#     any tree of places            becomes
#     leaves with a profile         location
#     what stands right above one   locationgroup; a node is added above one that has none
#     everything else               systemtreenode
#
# Groups hold locations only: what else stands below one moves to the node above it.


GROUPS = ("process", "metrics", "accelerator")
DEVICES = ("device", "context", "queue")
LOCATIONS = ("thread", "metric", "accelerator stream", "gpu")
STREAM = "accelerator stream"
LOCATION_TYPES = {
    ProfileKind.THREAD: "thread",
    ProfileKind.METRIC: "metric",
    ProfileKind.OTHER: "thread",
    ProfileKind.AGGREGATE: "thread",
}


@dataclass
class Place:
    """One element of the file; `source` is the node of the system tree, -1 where it was added."""

    level: Level
    name: str
    kind: str
    rank: int
    source: int = -1
    id: int = -1
    attributes: dict[str, str] = field(default_factory=dict)
    below: list[Place] = field(default_factory=list)


@dataclass(frozen=True)
class Places:
    """The trees of places, and the place of every node of the system that has one."""

    roots: tuple[Place, ...]
    of_source: dict[int, Place]
    n_added: int

    @property
    def has_accelerators(self) -> bool:
        """Accelerators need a newer version of the anchor."""
        return any(p.kind in ("accelerator", STREAM) for p in self.of_source.values())

    @classmethod
    def of(cls, experiment: Experiment) -> Places:
        return _Arranger(experiment).arrange()


class _Arranger:
    """Builds the places from the outside in; parents come before children in the system tree."""

    def __init__(self, experiment: Experiment) -> None:
        self.system, self.profiles = experiment.system, experiment.profiles
        measured = self.profiles.measured
        self.profile_of = {int(self.profiles.system[p]): p for p in measured.tolist() if self.profiles.system[p] >= 0}
        self.homeless = [p for p in measured.tolist() if self.profiles.system[p] < 0]
        self.location_of: dict[int, Place] = {}
        self.of_source: dict[int, Place] = {}
        self.roots: list[Place] = []
        self.added: dict[str, Place] = {}

    def arrange(self) -> Places:
        for source, level in enumerate(self._levels()):
            if level == Level.LOCATION:
                above = self._group_of(int(self.system.parent[source]))
                self._add_location(self.profile_of[source], above, source)
            else:
                self._add(source, level)
        for profile in self.homeless:
            self._add_location(profile, self._add_group(), -1)
        self._number()
        return Places(tuple(self.roots), self.of_source, len(self.added))

    def _levels(self) -> list[Level]:
        n = len(self.system)
        parent = self.system.parent
        is_leaf = np.isin(np.arange(n), list(self.profile_of))
        has_location, has_child = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
        has_location[parent[is_leaf & (parent >= 0)]] = True
        has_child[parent[parent >= 0]] = True
        out = []
        for k, kind in enumerate(self.system.kind):
            is_group = has_location[k] or (not has_child[k] and kind in GROUPS)
            out.append(Level.LOCATION if is_leaf[k] else Level.GROUP if is_group else Level.NODE)
        return out

    def _add(self, source: int, level: Level) -> None:
        kind = self.system.kind[source]
        if level == Level.GROUP and kind not in GROUPS:
            kind = "accelerator" if kind in DEVICES else "process"
        rank = int(self.system.rank[source])
        attributes = dict(self.system.attributes.get(source, {}))
        place = Place(level, self.system.name[source], kind, rank, source, attributes=attributes)
        self.of_source[source] = place
        above = int(self.system.parent[source])
        while above >= 0 and self.of_source[above].level != Level.NODE:
            above = int(self.system.parent[above])
        if above >= 0:
            self.of_source[above].below.append(place)
        elif level == Level.GROUP:
            self._add_node().below.append(place)
        else:
            self.roots.append(place)

    def _add_node(self) -> Place:
        if "node" not in self.added:
            machine = Place(Level.NODE, "machine", "machine", -1)
            self.added["machine"], self.added["node"] = machine, Place(Level.NODE, "node", "node", -1)
            machine.below.append(self.added["node"])
            self.roots.append(machine)
        return self.added["node"]

    def _add_group(self) -> Place:
        if "group" not in self.added:
            self.added["group"] = Place(Level.GROUP, "process", "process", 0)
            self._add_node().below.append(self.added["group"])
        return self.added["group"]

    def _group_of(self, source: int) -> Place:
        return self.of_source[source] if source >= 0 else self._add_group()

    def _add_location(self, profile: int, group: Place, source: int) -> None:
        kind = self.system.kind[source] if source >= 0 else ""
        if kind not in LOCATIONS or kind == "thread":
            kind = LOCATION_TYPES.get(ProfileKind(int(self.profiles.kind[profile])), STREAM)
        rank = int(self.system.rank[source]) if source >= 0 else -1
        for column in ("thread", "gpu_stream"):
            values, present = self.profiles.identity(column)
            if rank < 0 and present[profile] and int(values[profile]) < 2**31:
                rank = int(values[profile])
        attributes = dict(self.system.attributes.get(source, {}))
        if len(self.profiles.attributes) > profile:
            attributes.update(self.profiles.attributes[profile])
        place = Place(Level.LOCATION, self.profiles.label(profile), kind, rank, source, attributes=attributes)
        self.location_of[profile] = place
        if source >= 0:
            self.of_source[source] = place
        group.below.append(place)

    def _number(self) -> None:
        """Number the places: locations are numbered as profiles are; others keep their numbers where these have no
        gaps."""
        for number, profile in enumerate(self.profiles.measured.tolist()):
            self.location_of[profile].id = number
        everything = _walk(self.roots)
        ids = self.system.source_id
        for level in (Level.NODE, Level.GROUP):
            places = [place for place in everything if place.level == level]
            known = [int(ids[p.source]) if p.source >= 0 and len(ids) else None for p in places]
            for place, id_ in zip(places, dense_ids(known), strict=True):
                place.id = id_
        for place in everything:
            for number, child in enumerate(place.below):
                if child.level != Level.NODE and child.rank < 0:
                    child.rank = number


def _walk(roots: list[Place]) -> list[Place]:
    out, stack = [], list(reversed(roots))
    while stack:
        place = stack.pop()
        out.append(place)
        stack.extend(reversed(place.below))
    return out
