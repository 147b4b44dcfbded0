"""Iterations out of clustered call trees.

Score-P may keep, instead of each iteration of a dynamic region, clusters of iterations that looked alike. The children
of the region's cnode are then clusters that hold sums, and attributes say which cluster each iteration of each process
belongs to:

    CLUSTER ROOT CNODE ID      the cnode of the dynamic region
    CLUSTER PROCESS NUM        P
    CLUSTER ITERATION COUNT    K
    CLUSTER MAPPING k          P ids of cnodes, children of the root, one for each process in the order of ranks

In iteration k a process p takes the subtree of its cluster c, divided by the number of its iterations that belong to
c; minima and maxima stay as they are. Subtrees of different clusters are merged by region.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from callgrove.arrays import Array, Ids, Ints
from callgrove.errors import UsageError
from callgrove.formats.cube.vocabulary import CLUSTERING
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind, ContextTree
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation
from callgrove.model.profiles import ProfileKind

__all__ = ["expand_clusters"]

PREFIX = "CLUSTER"


@dataclass(frozen=True)
class Clusters:
    """The root context, and for each iteration and process the context of its cluster."""

    root: int
    mapping: Ids  # iterations x processes

    @classmethod
    def of(cls, experiment: Experiment) -> Clusters:
        """Return what the attributes say; UsageError where they contradict themselves or the tree."""
        said, tree = experiment.attributes, experiment.contexts
        place = {id_: context for context, id_ in enumerate(tree.source_id.tolist())}
        try:
            root = place[int(said[f"{PREFIX} ROOT CNODE ID"])]
            n_processes, n_iterations = (int(said[f"{PREFIX} {w}"]) for w in ("PROCESS NUM", "ITERATION COUNT"))
            rows = [[place[int(id_)] for id_ in said[f"{PREFIX} MAPPING {k}"].split(",")] for k in range(n_iterations)]
        except (KeyError, ValueError) as error:
            raise UsageError(f"{experiment.path}: the description of its clusters is incomplete: {error}") from None
        mapping = np.array([row for row in rows if len(row) == n_processes], np.int32)
        if len(mapping) < n_iterations or not n_iterations or (tree.parent[mapping] != root).any():
            raise UsageError(f"{experiment.path}: its clusters contradict the call tree")
        return cls(root, mapping)


def expand_clusters(experiment: Experiment) -> Experiment:
    """Return an experiment with a context `iteration=k` for each iteration; values are held in memory.

    The stored tree stays what it is: without clusters, or where the attributes contradict themselves, it is an error.
    """
    if experiment.attributes.get(CLUSTERING, "").strip() != "ON":
        raise UsageError(f"{experiment.path}: its call tree is not clustered")
    clusters = Clusters.of(experiment)
    process = _process_of(experiment, clusters.mapping.shape[1])
    return _Expansion(experiment, clusters, process).build()


def _process_of(experiment: Experiment, n: int) -> Ints:
    """Return the number of each profile's process, in the order of ranks."""
    ranks = [-1 if rank is None else rank for rank in experiment.profiles.identity_list("rank")]
    order = {rank: number for number, rank in enumerate(sorted(set(ranks)))}
    if len(order) != n:
        raise UsageError(f"{experiment.path}: clusters of {n} processes, but there are {len(order)}")
    return np.array([order[rank] for rank in ranks])


class _Expansion:
    def __init__(self, experiment: Experiment, clusters: Clusters, process: Ints) -> None:
        self.old, self.clusters, self.process = experiment, clusters, process
        self.tree = experiment.contexts
        self.builder = ExperimentBuilder(experiment.format, experiment.version, experiment.title, experiment.path)
        self.copies: list[tuple[int, int, int]] = []  # (old context, new context, iteration; -1 for all)

    def build(self) -> Experiment:
        builder, old = self.builder, self.old
        builder.attributes.update({k: v for k, v in old.attributes.items() if not k.startswith(PREFIX)})
        builder.attributes[CLUSTERING] = "OFF"
        builder.attachments.update(old.attachments)
        regions = [self._region(number) for number in range(len(self.tree.regions))]
        self._add_tree(regions)
        for metric in old.metrics:
            builder.add_metric(metric)
        for profile in range(len(old.profiles)):
            builder.add_profile(
                ProfileKind(int(old.profiles.kind[profile])),
                old.profiles.identifiers.rows(profile),
                name=old.profiles.name[profile],
                source_id=int(old.profiles.source_id[profile]),
            )
        builder.set_system(old.system, old.profiles.system)
        self._add_values()
        return builder.build()

    def _region(self, number: int) -> int:
        r, tables = self.tree.regions, self.builder
        file, module, name = int(r.file[number]), int(r.module[number]), int(r.name[number])
        role, paradigm = (r.text(column)[number] for column in ("role", "paradigm"))
        return tables.region(
            ContextKind(int(r.kind[number])),
            r.strings[name] if name >= 0 else "",
            file=tables.file(r.files.paths[file]) if file >= 0 else -1,
            line=int(r.line[number]),
            end_line=int(r.end_line[number]),
            module=tables.module(r.modules[module]) if module >= 0 else -1,
            role=role,
            paradigm=paradigm,
            details=r.details.get(number),
        )

    def _add_tree(self, regions: list[int]) -> None:
        """Add what is kept first, then the iterations, numbered in this order as CubeLib does."""
        tree, root = self.tree, self.clusters.root
        inside = np.zeros(len(tree), np.bool_)
        inside[root + 1 : tree.subtree_end[root]] = True
        new: dict[int, int] = {}
        for context in np.flatnonzero(~inside).tolist():
            new[context] = self._copy(context, new.get(int(tree.parent[context]), -1), regions, -1)
        for k, row in enumerate(self.clusters.mapping):
            region = self.builder.region(ContextKind.FUNCTION, f"iteration={k}", paradigm="user", role="unknown")
            number = self.builder.n_contexts
            self.builder.add_context(new[root], ContextKind.FUNCTION, region, source_id=number)
            self._merge(sorted(set(row.tolist())), number, regions, k)

    def _copy(self, context: int, parent: int, regions: list[int], iteration: int) -> int:
        tree: ContextTree = self.tree
        number = self.builder.n_contexts
        region = int(tree.region[context])
        self.builder.add_context(
            parent,
            ContextKind(int(tree.kind[context])),
            regions[region] if region >= 0 else -1,
            source_id=number,
            parameters=tree.parameters.get(context, ()),
            attributes=tree.attributes.get(context),
        )
        self.copies.append((context, number, iteration))
        return number

    def _merge(self, clusters: list[int], above: int, regions: list[int], iteration: int) -> None:
        """Add the subtrees of some clusters below one new context; equal children are one."""
        tree = self.tree
        self.copies += [(cluster, above, iteration) for cluster in clusters]
        waiting = [(clusters, above)]
        while waiting:
            sources, at = waiting.pop()
            children: dict[tuple[object, ...], list[int]] = {}
            for source in sources:
                seen: dict[tuple[object, ...], int] = {}
                for child in tree.children(source):
                    key = (int(tree.region[child]), tree.parameters.get(child, ()))
                    seen[key] = seen.get(key, 0) + 1  # the k-th of equal siblings is that of the others
                    children.setdefault((*key, seen[key]), []).append(child)
            groups_below = []
            for group in children.values():
                number = self._copy(group[0], at, regions, iteration)
                self.copies += [(other, number, iteration) for other in group[1:]]
                groups_below.append((group, number))
            waiting.extend(reversed(groups_below))

    def _cluster_of(self) -> Ids:
        """Return for every context inside of a cluster the cluster."""
        out = np.full(len(self.tree), -1, np.int32)
        for cluster in np.unique(self.clusters.mapping).tolist():
            out[cluster : self.tree.subtree_end[cluster]] = cluster
        return out

    def _add_values(self) -> None:
        of, mapping = self._cluster_of(), self.clusters.mapping
        n_uses = {c: (mapping == c).sum(axis=0) for c in np.unique(mapping).tolist()}  # by process
        for row, metric in enumerate(self.old.metrics):
            if metric.composite is not None or not metric.scope.word or metric.formula:
                continue
            matrix = self.old.matrix(metric.name, metric.scope)
            additive = metric.aggregation == Aggregation.SUM
            for old, new, iteration in self.copies:
                values: Array = matrix[old]
                kept = values != metric.aggregation.neutral
                if iteration >= 0:
                    cluster = int(of[old])
                    kept &= mapping[iteration][self.process] == cluster
                    share = n_uses[cluster][self.process]
                    values = (
                        np.divide(values, share, where=share > 0, out=np.zeros(len(values))) if additive else values
                    )
                profiles = np.flatnonzero(kept)
                if len(profiles):
                    self.builder.add_values(profiles, new, row, values[profiles].astype(np.float64))
