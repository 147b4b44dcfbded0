"""Where each context, metric and profile of an experiment goes in a released database.

The tree that the file holds is the model's, but for three things:

    only entry points may stand at the top: everything else goes below an added `unknown entry`
    a call site that the model lists beside its line (pre-release databases) goes below that line
    elided contexts keep their ids and their values, but are not part of the tree

Rows 0..n-1 of a `FileTree` are the model's contexts, row n is the added entry if there is one, and row -1, the last
one, is the root above all entry points: context 0 of the file, where the samples of idle times are as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from callgrove.errors import CallgroveError
from callgrove.formats.hpctoolkit.release_words import (
    LEXICAL_TYPES,
    MOST_METRIC_IDS,
    SCOPE_RECORDS,
    UNKNOWN_ENTRY,
    UNKNOWN_FUNCTION,
    ScopeRecord,
    storable,
)
from callgrove.model.arrays import ABSENT, Bools, Ids, Ints
from callgrove.model.contexts import ContextKind, ContextTree, Relation
from callgrove.model.metrics import Aggregation, Metric, Metrics, Scope
from callgrove.model.orders import depths

__all__ = ["NOWHERE", "FileTree", "MetricPlan", "StoredMetric"]

NOWHERE = -2  # in arrays of rows, where -1 is the file's root
MOST_ENTRIES = (1 << 16) - 1
LARGEST_ID = (1 << 31) - 1
SCOPE_NUMBERS = {record.scope: number for number, record in enumerate(SCOPE_RECORDS)}
TYPES = {**{kind: number for number, kind in enumerate(LEXICAL_TYPES)}, ContextKind.CALL: 3}


@dataclass(frozen=True)
class FileTree:
    """The tree as the file holds it; see above for the rows. `parent` and `line_of` are rows."""

    contexts: ContextTree
    id: Ints  # the file's ids, of every row and of the root
    parent: Ids
    relation: Ids
    listed: Bools
    line_of: Ids  # the line that a moved call site went below, NOWHERE for all others
    keeps_ids: bool

    @classmethod
    def of(cls, contexts: ContextTree) -> FileTree:
        n = len(contexts)
        foreign = contexts.roots[contexts.kind[contexts.roots] != ContextKind.ENTRY]
        ids, kept = _ids(contexts.source_id)
        parent, relation, line_of = contexts.parent.copy(), contexts.relation.copy(), np.full(n, NOWHERE, np.int32)
        beside = np.flatnonzero(_lies_beside_its_line(contexts))
        parent[beside] = line_of[beside] = contexts.within[beside]
        if len(foreign):
            parent[foreign] = n
            relation[foreign[relation[foreign] == Relation.LEXICAL]] = Relation.CALL
            parent, line_of = np.append(parent, np.int32(ABSENT)), np.append(line_of, np.int32(NOWHERE))
            relation = np.append(relation, np.int32(Relation.CALL))
            ids = np.append(ids, ids.max() + 1)
        listed = np.append(contexts.listed, np.ones(len(parent) - n, np.bool_))
        tree = cls(contexts, np.append(ids, 0), parent, relation, listed, line_of, kept)
        if (n_entries := len(tree.entries)) > MOST_ENTRIES:
            raise CallgroveError(f"{n_entries} entry points are more than a released database holds ({MOST_ENTRIES})")
        return tree

    def __len__(self) -> int:
        return len(self.parent)

    @property
    def n_ids(self) -> int:
        """One more than the highest id."""
        return int(self.id.max()) + 1

    @property
    def added(self) -> int:
        """The row of the added entry, or ABSENT."""
        return len(self.contexts) if len(self) > len(self.contexts) else ABSENT

    @cached_property
    def depth(self) -> Ids:
        return depths(self.parent)

    @cached_property
    def entries(self) -> Ints:
        """Rows of the entry points."""
        return np.flatnonzero(self.listed & (self.parent < 0))

    @cached_property
    def kind(self) -> Ids:
        """The kind that each row is meant as."""
        kind = self.contexts.kind
        return kind if self.added < 0 else np.append(kind, np.int32(ContextKind.ENTRY))

    @cached_property
    def region(self) -> Ids:
        region = self.contexts.region
        return region if self.added < 0 else np.append(region, np.int32(ABSENT))

    def label(self, row: int) -> str:
        """The pretty name of an entry point."""
        return self.contexts.label(row) if row != self.added and self.region[row] >= 0 else UNKNOWN_ENTRY

    @cached_property
    def lexical_type(self) -> Ids:
        types = np.array([TYPES.get(kind, 0) for kind in ContextKind], np.int32)
        out: Ids = types[self.kind]
        return out

    @cached_property
    def function(self) -> Ids:
        """The region that a row names as its function, ABSENT where it has none."""
        regions = self.contexts.regions
        named = np.append(regions.name >= 0, False)[self.region]
        nameless = np.array([text == UNKNOWN_FUNCTION for text in regions.strings] + [False])
        unknown = (self.kind == ContextKind.UNKNOWN) & (~named | nameless[np.append(regions.name, ABSENT)[self.region]])
        plain = self.listed & (self.parent >= 0) & (self.lexical_type == 0) & ~unknown
        return np.where(plain, self.region, ABSENT).astype(np.int32)

    @cached_property
    def kind_as_read(self) -> Ids:
        """The kind that a reader of the file will find."""
        regions = self.contexts.regions
        bracketed = np.array([text.startswith("<") for text in regions.strings] + [False])[regions.name]
        placeholder = np.append(bracketed & (regions.module < 0), False)
        out = np.array([int(kind) for kind in LEXICAL_TYPES], np.int32)[self.lexical_type]
        plain = self.lexical_type == 0
        out[plain & (self.relation == Relation.INLINED)] = ContextKind.INLINED
        out[plain & placeholder[self.function]] = ContextKind.PLACEHOLDER
        out[plain & (self.function < 0)] = ContextKind.UNKNOWN
        out[self.entries] = ContextKind.ENTRY
        out[~self.listed] = ContextKind.ELIDED
        return out

    @cached_property
    def carried_to(self) -> Ids:
        """Rows whose stored inclusive values must be added to another row: the line of a moved call site, and the
        added entry for what stands below it."""
        out = self.line_of.copy()
        if self.added >= 0:
            out[self.parent == self.added] = self.added
        return out

    @cached_property
    def above(self) -> Ids:
        """The parent of each row of the tree, the root (-1) above entry points; elided contexts have none."""
        return np.where(self.listed, self.parent, NOWHERE).astype(np.int32)

    @cached_property
    def around(self) -> Ids:
        """The row whose function-scope cost contains that of a row."""
        lexical = (self.relation == Relation.LEXICAL) & (self.parent >= 0)
        return np.where(lexical, self.above, NOWHERE).astype(np.int32)


def _lies_beside_its_line(contexts: ContextTree) -> Bools:
    within, parent = contexts.within, contexts.parent
    beside: Bools = (within >= 0) & (within != parent) & (parent[within] == parent) & (parent >= 0)
    is_line = contexts.kind == ContextKind.LINE
    moves: Bools = beside & is_line[within] & ~is_line & (contexts.relation == Relation.LEXICAL)
    return moves


def _ids(source_ids: Ints) -> tuple[Ints, bool]:
    """The ids of contexts in the file, and whether they are the source's own. cct.db has a record for every number up
    to the highest id, so ids with wide gaps are not kept."""
    n = len(source_ids)
    if not n:
        return np.zeros(0, np.int64), True
    usable = int(source_ids.min()) > 0 and int(source_ids.max()) < min(16 * n + 1024, LARGEST_ID)
    if usable and len(np.unique(source_ids)) == n:
        return source_ids.astype(np.int64), True
    return np.arange(1, n + 1, dtype=np.int64), False


@dataclass(frozen=True)
class StoredMetric:
    """One metric of meta.db: its scopes and the id of each."""

    name: str
    first: Metric
    instances: tuple[tuple[ScopeRecord, int], ...]


@dataclass(frozen=True)
class MetricPlan:
    """Every array has one entry per metric row of the model: an id of the file, or ABSENT.

    `stored` is the id of rows that are written as they are. Of exclusive rows `function` and `execution` are the ids of
    the scopes that are computed from them, where these are not stored themselves.
    """

    metrics: tuple[StoredMetric, ...]
    stored: Ids
    function: Ids
    execution: Ids
    keeps_ids: bool

    @classmethod
    def of(cls, metrics: Metrics) -> MetricPlan:
        wanted = list(_wanted(metrics))
        own = [metrics[row].source_id for _, rows in wanted for _, row in rows if metrics[row].scope != Scope.EXCLUSIVE]
        n = sum(len(rows) for _, rows in wanted)
        keeps = sorted(i for i in own if i is not None) == list(range(n))
        if n > MOST_METRIC_IDS:
            raise CallgroveError(f"{n} metrics and scopes are more than a released database holds ({MOST_METRIC_IDS})")
        stored, function, execution = (np.full(len(metrics), ABSENT, np.int32) for _ in range(3))
        out, following = [], 0
        for name, rows in wanted:
            instances = []
            for record, row in rows:
                id_ = metrics[row].source_id if keeps else None
                number = following if id_ is None else id_
                following += 1
                instances.append((record, number))
                if metrics[row].scope == record.scope:
                    stored[row] = number
                else:
                    (function if record.scope == Scope.FUNCTION else execution)[row] = number
            out.append(StoredMetric(storable(name), metrics[rows[0][1]], tuple(instances)))
        return cls(tuple(out), stored, function, execution, keeps)

    @property
    def written(self) -> Bools:
        """Rows of the model that have a place in the file."""
        return (self.stored >= 0) | (self.function >= 0) | (self.execution >= 0)


def _wanted(metrics: Metrics) -> Iterator[tuple[str, list[tuple[ScopeRecord, int]]]]:
    """Quantities with the scopes to write and the row that each comes from: its own, or the exclusive one."""
    groups: dict[str, list[int]] = {}
    for row, metric in enumerate(metrics):
        if not metric.statistic and metric.aggregation in (Aggregation.SUM, Aggregation.COMPOSITE):
            groups.setdefault(metric.name, []).append(row)
    for name, group in groups.items():
        own = {metrics[row].scope: row for row in group}
        rows = [(SCOPE_RECORDS[SCOPE_NUMBERS[scope]], row) for scope, row in own.items() if scope in SCOPE_NUMBERS]
        if (exclusive := own.get(Scope.EXCLUSIVE)) is not None:
            missing = [scope for scope in (Scope.FUNCTION, Scope.INCLUSIVE) if scope not in own]
            rows += [(SCOPE_RECORDS[SCOPE_NUMBERS[scope]], exclusive) for scope in missing]
        if rows:
            yield name, rows
