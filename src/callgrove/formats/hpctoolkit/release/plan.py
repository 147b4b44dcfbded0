"""Where each context of an experiment goes in a released database.

The tree that the file holds is the model's, but for what the generations nest or name differently:

    only entry points may stand at the top: `<program root>` and the like become entry points, everything else goes
      below an added `unknown entry`
    what a pre-release database lists beside its line, call sites and inlined functions, goes below that line; a call
      site whose instruction is not known is left out, what it calls is called by its line
    idle samples are on context 0: `<no activity>` has no place of its own
    elided contexts keep their ids and their values, but are not part of the tree

Rows 0..n-1 of a `FileTree` are the model's contexts, row n is the added entry if there is one, and row -1, the last
one, is the root above all entry points: context 0 of the file, where the samples of idle times are as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from callgrove.arrays import ABSENT, Bools, Ids, Ints, depths, nearest_above
from callgrove.errors import CallgroveError
from callgrove.formats.hpctoolkit.generations import (
    ENTRY_OF_PLACEHOLDER,
    UNKNOWN_NAMES,
    have_known_names,
    is_no_activity,
    kept_ids,
)
from callgrove.formats.hpctoolkit.release.vocabulary import LEXICAL_TYPES, SCOPE_RECORDS, UNKNOWN_ENTRY
from callgrove.formats.hpctoolkit.stored_rows import NOWHERE, container_of
from callgrove.model.contexts import ContextKind, ContextTree, Relation

__all__ = ["SCOPES_IN_ORDER", "FileTree"]

MOST_ENTRIES = (1 << 16) - 1
IDS_PER_CONTEXT, SPARE_IDS = 16, 1024  # cct.db has a record for every id, so ids with wider gaps are not kept
SCOPES_IN_ORDER = tuple(record.scope for record in SCOPE_RECORDS)
TYPES = {**{kind: number for number, kind in enumerate(LEXICAL_TYPES)}, ContextKind.CALL: 3}


@dataclass(frozen=True)
class FileTree:
    """The tree as the file holds it; see above for the rows. `parent` and `moved_to` are rows."""

    contexts: ContextTree
    id: Ints  # the file's ids, of every row and of the root
    parent: Ids
    relation: Ids
    kind: Ids  # what each row is meant as
    listed: Bools
    emptied: Bools
    moved_to: Ids  # the line that something moved below, NOWHERE for all others
    keeps_ids: bool

    @classmethod
    def of(cls, contexts: ContextTree) -> FileTree:
        n = len(contexts)
        ids, kept = kept_ids(contexts.source_id, IDS_PER_CONTEXT, SPARE_IDS)
        kind = contexts.kind.copy()
        kind[list(_entry_names(contexts))] = ContextKind.ENTRY
        emptied = _find_unplaced_calls(contexts)
        listed = contexts.listed & ~emptied & ~is_no_activity(contexts)
        parent, moved_to = _nest(contexts, emptied)
        relation = contexts.relation.copy()
        foreign = np.flatnonzero(listed & (parent < 0) & (kind != ContextKind.ENTRY))
        if len(foreign):
            parent[foreign] = n
            relation[foreign[relation[foreign] == Relation.LEXICAL]] = Relation.CALL
            parent, moved_to = np.append(parent, np.int32(ABSENT)), np.append(moved_to, np.int32(NOWHERE))
            relation, kind = np.append(relation, np.int32(Relation.CALL)), np.append(kind, np.int32(ContextKind.ENTRY))
            listed, emptied = np.append(listed, True), np.append(emptied, False)
            ids = np.append(ids, ids.max() + 1)
        tree = cls(contexts, np.append(ids, 0), parent, relation, kind, listed, emptied, moved_to, kept)
        if (n_entries := len(tree.entries)) > MOST_ENTRIES:
            raise CallgroveError(f"{n_entries} entry points are more than a released database holds ({MOST_ENTRIES})")
        return tree

    def __len__(self) -> int:
        return len(self.parent)

    @cached_property
    def n_ids(self) -> int:
        """One more than the highest id that is used."""
        return int(self.id[:-1][~self.emptied].max(initial=0)) + 1

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
    def region(self) -> Ids:
        region = self.contexts.region
        return region if self.added < 0 else np.append(region, np.int32(ABSENT))

    @cached_property
    def _entry_names(self) -> dict[int, str]:
        return _entry_names(self.contexts)

    def label(self, row: int) -> str:
        """Return the pretty name of an entry point."""
        if row in self._entry_names:
            return self._entry_names[row]
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
        has_name = np.append(regions.name >= 0, False)[self.region]
        nameless = np.append(have_known_names(regions, *UNKNOWN_NAMES), False)[self.region]
        unknown = (self.kind == ContextKind.UNKNOWN) & (~has_name | nameless)
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
    def inclusive_to(self) -> Ids:
        """The line that something moved below, and the added entry for what stands below it."""
        out = self.moved_to.copy()
        if self.added >= 0:
            out[self.parent == self.added] = self.added
        return out

    @cached_property
    def function_to(self) -> Ids:
        """Lines contain the function-scope cost of their call sites already."""
        return np.full(len(self), NOWHERE, np.int32)

    @cached_property
    def flattened(self) -> Bools:
        return np.zeros(len(self), np.bool_)

    @cached_property
    def above(self) -> Ids:
        """The parent of each row of the tree, the root (-1) above entry points; elided contexts have none."""
        return np.where(self.listed, self.parent, NOWHERE).astype(np.int32)

    @cached_property
    def around(self) -> Ids:
        lexical = (self.relation == Relation.LEXICAL) & (self.parent >= 0)
        return np.where(lexical, self.above, NOWHERE).astype(np.int32)

    @cached_property
    def loop_ids(self) -> Bools:
        """Which ids of the file are loops."""
        out = np.zeros(self.n_ids, np.bool_)
        out[self.id[:-1][self._is_loop]] = True
        return out

    @cached_property
    def loop_around_ids(self) -> Ids:
        """For each id of the file that is a loop, the id of the innermost loop around it, else ABSENT."""
        around = nearest_above(self._is_loop, self.around)
        inner = np.flatnonzero(around >= 0)
        out = np.full(self.n_ids, ABSENT, np.int32)
        out[self.id[inner]] = self.id[around[inner]]
        return out

    @cached_property
    def _is_loop(self) -> Bools:
        out: Bools = self.listed & (self.kind_as_read == ContextKind.LOOP)
        return out

    @cached_property
    def contained_in(self) -> Ids | None:
        return container_of(self.contexts, self.listed, self.around)

    @cached_property
    def sample_ids(self) -> Ints:
        """The file's id of every context that a sample may be on; -1, idle, picks the last one, context 0."""
        ids, n = self.id[: len(self.contexts)].copy(), len(self.contexts)
        left_out = np.flatnonzero(self.emptied[:n])
        ids[left_out] = self.id[self.parent[left_out]]
        ids[is_no_activity(self.contexts)] = 0
        return np.append(ids, 0)


def _entry_names(contexts: ContextTree) -> dict[int, str]:
    """Roots that pre-release databases have where released ones have an entry point, and what that is called."""
    kinds = (ContextKind.PLACEHOLDER, ContextKind.UNKNOWN)
    roots = contexts.roots[np.isin(contexts.kind[contexts.roots], kinds)]
    names = {context: ENTRY_OF_PLACEHOLDER.get(contexts.label(context)) for context in roots.tolist()}
    return {context: name for context, name in names.items() if name}


def _find_unplaced_calls(contexts: ContextTree) -> Bools:
    """Call sites of which nothing is known but the line that they lie beside."""
    out: Bools = (contexts.kind == ContextKind.CALL) & (contexts.column("module") < 0)
    out &= _lies_beside_its_line(contexts)
    return out


def _nest(contexts: ContextTree, emptied: Bools) -> tuple[Ids, Ids]:
    """Return the parents in the file, and the lines that something moved below."""
    parent, moved_to = contexts.parent.copy(), np.full(len(contexts), NOWHERE, np.int32)
    calls, inlined = np.flatnonzero(_lies_beside_its_line(contexts)), _find_inlined_beside_lines(contexts)
    parent[calls] = moved_to[calls] = contexts.within[calls]
    parent[inlined[0]] = moved_to[inlined[0]] = inlined[1]
    below = np.flatnonzero((contexts.parent >= 0) & emptied[contexts.parent])
    parent[below] = parent[contexts.parent[below]]  # now the line
    return parent, moved_to


def _lies_beside_its_line(contexts: ContextTree) -> Bools:
    within, parent = contexts.within, contexts.parent
    beside: Bools = (within >= 0) & (within != parent) & (parent[within] == parent) & (parent >= 0)
    is_line = contexts.kind == ContextKind.LINE
    moves: Bools = beside & is_line[within] & ~is_line & (contexts.relation == Relation.LEXICAL)
    return moves


def _find_inlined_beside_lines(contexts: ContextTree) -> tuple[Ints, Ints]:
    """Functions that were inlined at a line which stands beside them, and that line."""
    parent, n = contexts.parent, len(contexts)
    inlined = np.flatnonzero((contexts.relation == Relation.INLINED) & (contexts.call_line >= 0) & (parent >= 0))
    lines = np.flatnonzero((contexts.kind == ContextKind.LINE) & (parent >= 0))
    places = [
        np.concatenate(pair)
        for pair in (
            (parent[lines], parent[inlined]),
            (contexts.column("file")[lines], contexts.call_file[inlined]),
            (contexts.column("line")[lines], contexts.call_line[inlined]),
        )
    ]
    _, first, number = np.unique(np.stack(places, axis=1), axis=0, return_index=True, return_inverse=True)
    line = np.append(lines, np.full(len(inlined), n))[first[number.ravel()[len(lines) :]]]
    has_line = line < n
    return inlined[has_line], line[has_line]
