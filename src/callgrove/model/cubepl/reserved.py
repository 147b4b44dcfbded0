"""Names that mean something in every formula of CubePL: what a file says of its metrics, call tree and system.

    ${cube::#callpaths}                     how many there are
    ${cube::region::name}[r]                a property of the element with an id
    ${calculation::callpath::id}            what is evaluated now (`derivation.py`)

Ids of call paths are the file's own where these tell contexts apart, else the numbers of contexts; so they stay what
they were when a part of an experiment is taken. Ids between them that no context has are call paths without a region.
Ids of regions are the numbers of the model's regions, those of metrics the order of the file.

Every other name is a variable, undefined at first. One of them is famous: Score-P asks for `cube::region::mangled_name`
where the language has `mangled::name`, so that it always gets an empty text and takes the plain name instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from callgrove.arrays import Ids, Ints
from callgrove.model.contexts import ContextTree
from callgrove.model.cubepl.values import Column, Elements, TextTable
from callgrove.model.metrics import Metric
from callgrove.model.system import System

__all__ = ["UNSUPPORTED", "Surroundings", "TreeNames"]

FREE_IDS = 1024  # ids without a context that are no reason to number contexts anew
VOID_MARK = "VOID"
UNSUPPORTED = frozenset(  # lists of lists, which one index cannot tell apart
    (
        "cube::metric::children",
        "cube::callpath::children",
        "cube::stn::children",
        "cube::stn::locationgroups",
        "cube::locationgroup::locations",
        "cube::stn::parent::sysid",
        "cube::locationgroup::parent::sysid",
        "cube::location::parent::sysid",
    )
)


@dataclass(frozen=True)
class Surroundings:
    """What a file says beside its call tree. `leaves` are the places of the system that are locations."""

    filename: str = ""
    n_mirrors: int = 0
    system: System | None = None
    leaves: tuple[int, ...] = ()


class TreeNames:
    """The reserved names of one call tree."""

    def __init__(self, tree: ContextTree, metrics: Sequence[Metric], around: Surroundings, table: TextTable) -> None:
        self.tree, self.metrics, self.around, self.table = tree, metrics, around, table
        self._known: dict[str, Elements | None] = {}

    def find(self, name: str) -> Elements | None:
        """Return what a name stands for; None where it is not reserved."""
        if name not in self._known:
            make = NAMES.get(name)
            self._known[name] = None if make is None else self._elements(make(self))
        return self._known[name]

    def _elements(self, found: float | str | Sequence[str] | Ints | Ids) -> Elements:
        elements = Elements(self.table)
        if isinstance(found, float | int | str):
            elements.write(0, found if isinstance(found, str) else float(found), True)
            return elements
        if isinstance(found, np.ndarray):
            return Elements(self.table, Column(found.astype(np.float64)))
        codes = self.table.codes(found)
        return Elements(self.table, Column(self.table.numbers(codes), codes))

    # -- call paths --------------------------------------------------------------------------------------------------

    @cached_property
    def ids(self) -> Ints:
        """The id of every context; those outside of the tree have one that no call path has."""
        tree, n = self.tree, self.tree.n_listed
        ids = tree.source_id[:n]
        fits = n > 0 and int(ids.min()) >= 0 and int(ids.max()) < 4 * n + FREE_IDS
        if not fits or len(np.unique(ids)) < n:
            ids = np.arange(n)
        return np.append(ids, np.full(len(tree) - n, int(ids.max(initial=-1)) + 1)).astype(np.int64)

    @cached_property
    def n_ids(self) -> int:
        """One more than the highest id."""
        return int(self.ids[: self.tree.n_listed].max(initial=-1)) + 1

    @cached_property
    def context_of_id(self) -> Ints:
        """The context of every id; -1 where there is none."""
        out = np.full(self.n_ids, -1, np.int64)
        out[self.ids[: self.tree.n_listed]] = np.arange(self.tree.n_listed)
        return out

    def of_ids(self, of_contexts: Ints | Ids, absent: int) -> Ints:
        """Return a column of contexts as one of ids."""
        return np.append(of_contexts, absent).astype(np.int64)[self.context_of_id]

    @cached_property
    def region(self) -> Ints:
        """The region of every context; where there is none, one past the last."""
        return np.where(self.tree.region < 0, len(self.tree.regions), self.tree.region).astype(np.int64)

    def callees(self) -> Ints:
        return self.of_ids(self.region, len(self.tree.regions))

    def parents(self) -> Ints:
        parent = self.tree.parent
        return self.of_ids(np.where(parent < 0, -1, self.ids[parent]), -1)

    def child_counts(self) -> Ints:
        parent = self.tree.parent[: self.tree.n_listed]
        return self.of_ids(np.bincount(parent[parent >= 0], minlength=len(self.tree)), 0)

    def call_files(self) -> list[str]:
        paths = (*self.tree.regions.files.paths, "")
        return [paths[file] for file in self.of_ids(self.tree.call_file, -1).tolist()]

    # -- regions -----------------------------------------------------------------------------------------------------

    def region_names(self) -> list[str]:
        regions = self.tree.regions
        return [regions.label(region) for region in range(len(regions))]

    def details(self, word: str) -> list[str]:
        regions = self.tree.regions
        return [regions.details.get(region, {}).get(word, "") for region in range(len(regions))]

    def region_files(self) -> list[str]:
        regions = self.tree.regions
        paths, modules = (*regions.files.paths, ""), (*regions.modules, "")
        pairs = zip(regions.file.tolist(), regions.module.tolist(), strict=True)
        return [paths[file] if file >= 0 else modules[module] for file, module in pairs]

    # -- metrics -----------------------------------------------------------------------------------------------------

    def of_metrics(self, read: Callable[[Metric], str]) -> list[str]:
        return [read(metric) for metric in self.metrics]

    def said(self, word: str) -> list[str]:
        return [dict(metric.attributes).get(f"cube: {word}", "") for metric in self.metrics]

    def metric_parents(self) -> Ints:
        return np.array([metric.parent for metric in self.metrics], np.int64)

    def metric_child_counts(self) -> Ints:
        parent = self.metric_parents()
        return np.bincount(parent[parent >= 0], minlength=len(parent))

    def list_shown_names(self) -> list[str]:
        return [said or metric.name for said, metric in zip(self.said("disp_name"), self.metrics, strict=True)]

    # -- the system --------------------------------------------------------------------------------------------------

    @cached_property
    def places(self) -> tuple[list[int], list[int], list[int]]:
        """The places of the system that are nodes, groups and locations, in their order."""
        system = self.around.system
        if system is None:
            return [], [], []
        locations = list(self.around.leaves)
        groups = sorted({above for place in locations if (above := int(system.parent[place])) >= 0})
        others = set(range(len(system))) - set(groups) - set(locations)
        return sorted(others), groups, locations

    def of_places(self, level: int, read: Callable[[System, int], str]) -> list[str]:
        system = self.around.system
        return [] if system is None else [read(system, place) for place in self.places[level]]

    def place_names(self, level: int) -> list[str]:
        return self.of_places(level, lambda system, place: system.name[place])

    def place_kinds(self, level: int) -> list[str]:
        return self.of_places(level, lambda system, place: system.kind[place])

    def place_descriptions(self) -> list[str]:
        return self.of_places(NODES, lambda system, place: system.attributes.get(place, {}).get("description", ""))

    def place_ranks(self, level: int) -> Ints:
        ranks = self.of_places(level, lambda system, place: str(int(system.rank[place])))
        return np.array(list(map(int, ranks)), np.int64)

    def voids(self, level: int) -> Ints:
        """Return which places stand for nothing that was measured: the algebra of Cube marks them so."""
        above = self.of_places(level, lambda system, place: "".join(system.name[p] for p in system.path(place)[:2]))
        return np.array([VOID_MARK in name for name in above], np.int64)

    def parents_of_places(self, level: int) -> Ints:
        """Return the place above each one, as its number among those of its level."""
        number = {place: k for places in self.places for k, place in enumerate(places)}
        above = self.of_places(level, lambda system, place: str(number.get(int(system.parent[place]), -1)))
        return np.array(list(map(int, above)), np.int64)

    def children_of_places(self, level: int, below: int) -> Ints:
        """Return how many places of a level lie right below each one of another level."""
        system = self.around.system
        if system is None:
            return np.empty(0, np.int64)
        counts = np.bincount(
            [parent for place in self.places[below] if (parent := int(system.parent[place])) >= 0],
            minlength=len(system),
        )
        return np.array([counts[place] for place in self.places[level]], np.int64)

    def n_roots_of_system(self) -> int:
        system = self.around.system
        return 0 if system is None else int((system.parent < 0).sum())


NODES, GROUPS, LOCATIONS = 0, 1, 2
Maker = Callable[[TreeNames], "float | str | Sequence[str] | Ints | Ids"]


def _of_places(word: str, level: int) -> dict[str, Maker]:
    """Return the names of one level of the system."""
    return {
        f"cube::#{word}s": lambda names: len(names.places[level]),
        f"cube::#{word}s::void": lambda names: int(names.voids(level).sum()),
        f"cube::#{word}s::nonvoid": lambda names: int((1 - names.voids(level)).sum()),
        f"cube::{word}::name": lambda names: names.place_names(level),
        f"cube::{word}::rank": lambda names: names.place_ranks(level),
        f"cube::{word}::type": lambda names: names.place_kinds(level),
        f"cube::{word}::class": lambda names: names.place_kinds(level),
        f"cube::{word}::void": lambda names: names.voids(level),
        f"cube::{word}::parent::id": lambda names: names.parents_of_places(level),
    }


NAMES: dict[str, Maker] = {
    "cube::filename": lambda names: names.around.filename,
    "cube::#mirrors": lambda names: names.around.n_mirrors,
    "cube::#metrics": lambda names: len(names.metrics),
    "cube::#root::metrics": lambda names: int((names.metric_parents() < 0).sum()),
    "cube::#regions": lambda names: len(names.tree.regions),
    "cube::#callpaths": lambda names: names.n_ids,
    "cube::#root::callpaths": lambda names: len(names.tree.roots),
    "cube::#rootstns": lambda names: names.n_roots_of_system(),
    "cube::metric::uniq::name": lambda names: names.of_metrics(lambda metric: metric.name),
    "cube::metric::disp::name": lambda names: names.list_shown_names(),
    "cube::metric::url": lambda names: names.of_metrics(lambda metric: metric.url),
    "cube::metric::description": lambda names: names.of_metrics(lambda metric: metric.description),
    "cube::metric::dtype": lambda names: names.of_metrics(lambda metric: metric.dtype),
    "cube::metric::uom": lambda names: names.of_metrics(lambda metric: metric.unit),
    "cube::metric::expression": lambda names: names.of_metrics(lambda metric: metric.formula),
    "cube::metric::initexpression": lambda names: names.said("cubeplinit"),
    "cube::metric::#children": lambda names: names.metric_child_counts(),
    "cube::metric::parent::id": lambda names: names.metric_parents(),
    "cube::metric::enumeration": lambda names: np.arange(len(names.metrics)),
    "cube::callpath::mod": lambda names: names.call_files(),
    "cube::callpath::line": lambda names: names.of_ids(names.tree.call_line, -1),
    "cube::callpath::calleeid": lambda names: names.callees(),
    "cube::callpath::parent::id": lambda names: names.parents(),
    "cube::callpath::#children": lambda names: names.child_counts(),
    "cube::callpath::enumeration": lambda names: names.ids[: names.tree.n_listed],
    "cube::region::name": lambda names: names.region_names(),
    "cube::region::mangled::name": lambda names: names.details("mangled_name"),
    "cube::region::paradigm": lambda names: names.tree.regions.text("paradigm"),
    "cube::region::role": lambda names: names.tree.regions.text("role"),
    "cube::region::url": lambda names: names.details("url"),
    "cube::region::description": lambda names: names.details("description"),
    "cube::region::mod": lambda names: names.region_files(),
    "cube::region::begin::line": lambda names: names.tree.regions.line,
    "cube::region::end::line": lambda names: names.tree.regions.end_line,
    "cube::stn::description": lambda names: names.place_descriptions(),
    "cube::stn::#children": lambda names: names.children_of_places(NODES, NODES),
    "cube::stn::#locationgroups": lambda names: names.children_of_places(NODES, GROUPS),
    "cube::locationgroup::#locations": lambda names: names.children_of_places(GROUPS, LOCATIONS),
    **_of_places("stn", NODES),
    **_of_places("locationgroup", GROUPS),
    **_of_places("location", LOCATIONS),
}
