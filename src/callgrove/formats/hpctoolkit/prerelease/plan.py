"""Where each context of an experiment goes in a pre-release database.

The XML knows five shapes of contexts:

    FRAME    PF: functions, placeholders, and instructions that were called without a function around them
    SITE     C: call instructions
    LINE     S with a file         POINT    S without one: an instruction
    LOOP     L

A line has nothing below it there. What the model has below a line goes beside it:

    what it calls           below an added call site of that line, whose instruction is not known
    call instructions, ...  beside the line, at the same place
    inlined functions       beside the line; the tag around them names its place

So the inclusive cost of such a line is its function-scope cost. `<no activity>` is a context, which idle samples
are on; it is added where there are such samples and no such context.

Rows 0..n-1 are the model's contexts, then come the added call sites, and row -1, the last one, is the root: context 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np

from callgrove.arrays import ABSENT, Bools, Ids, Ints, depths
from callgrove.formats.hpctoolkit.metric_plan import (
    PARTIAL_PATHS,
    UNKNOWN_NAMES,
    find_unused_ids,
    have_known_names,
    is_no_activity,
    kept_ids,
)
from callgrove.formats.hpctoolkit.release.files import UNKNOWN_ENTRY
from callgrove.formats.hpctoolkit.stored_rows import NOWHERE, container_of
from callgrove.model.contexts import ContextKind, ContextTree, Relation

__all__ = ["Shape", "TagTree"]

IDS_PER_CONTEXT, SPARE_IDS = 2, 64  # every number is a context there, so ids with gaps are kept only if they are few


class Shape(IntEnum):
    """How the XML shows a context."""

    FRAME = 0
    SITE = 1
    LINE = 2
    POINT = 3
    LOOP = 4


@dataclass(frozen=True)
class TagTree:
    """The tree as the file holds it; see above for the rows. `line` is the line beside which a row was put."""

    contexts: ContextTree
    id: Ints  # the file's ids, of every row and of the root
    shape: Ids
    parent: Ids
    relation: Ids
    line: Ids
    no_activity: int  # the id of idle samples
    idle_is_added: bool
    keeps_ids: bool

    @classmethod
    def of(cls, contexts: ContextTree) -> TagTree:
        n = len(contexts)
        shape = _shapes(contexts)
        above, line = _out_of_lines(contexts, shape)
        needs_site = (line >= 0) & (shape == Shape.FRAME) & (contexts.relation != Relation.INLINED)
        callers, site = np.unique(line[needs_site], return_inverse=True)
        parent = np.append(above, above[callers])
        parent[:n][needs_site] = n + site
        ids, kept = kept_ids(contexts.source_id, IDS_PER_CONTEXT, SPARE_IDS)
        idle = np.flatnonzero(is_no_activity(contexts))
        spare = find_unused_ids(ids, len(callers) + 1)
        return cls(
            contexts,
            np.concatenate([ids, spare[1:], [0]]),
            np.append(shape, np.full(len(callers), Shape.SITE, np.int32)),
            parent.astype(np.int32),
            np.append(contexts.relation, np.full(len(callers), Relation.LEXICAL, np.int32)),
            np.append(line, callers).astype(np.int32),
            int(ids[idle[0]]) if len(idle) else int(spare[0]),
            not len(idle),
            kept,
        )

    def __len__(self) -> int:
        return len(self.parent)

    @cached_property
    def listed(self) -> Bools:
        return np.append(self.contexts.listed, np.ones(len(self) - len(self.contexts), np.bool_))

    @property
    def n_ids(self) -> int:
        """One more than the highest id; `<no activity>` may add one more."""
        return int(self.id.max()) + 1

    @cached_property
    def depth(self) -> Ids:
        return depths(self.parent)

    @cached_property
    def above(self) -> Ids:
        return np.where(self.listed, self.parent, NOWHERE).astype(np.int32)

    @cached_property
    def around(self) -> Ids:
        """Call sites belong to the line that they lie beside; others to what they are nested in. Tags other than frames
        are nested, whatever the model says of them."""
        lexical = ((self.relation == Relation.LEXICAL) | (self.shape != Shape.FRAME)) & (self.parent >= 0)
        out = np.where(self._stands_beside_line, self.line, np.where(lexical, self.parent, NOWHERE))
        return np.where((out >= 0) & self.listed, out, NOWHERE).astype(np.int32)

    @cached_property
    def contained_in(self) -> Ids | None:
        return container_of(self.contexts, self.listed, self.around)

    @property
    def _moved(self) -> Bools:
        """Rows that have another parent than in the model."""
        n = len(self.contexts)
        moved = np.ones(len(self), np.bool_)
        moved[:n] = self.parent[:n] != self.contexts.parent
        return moved

    @property
    def _stands_beside_line(self) -> Bools:
        """Call sites that were put beside their line."""
        out: Bools = (self.shape == Shape.SITE) & (self.line >= 0)
        return out

    @cached_property
    def inclusive_to(self) -> Ids:
        """What was put below an added call site is its cost."""
        return np.where(self.parent >= len(self.contexts), self.parent, NOWHERE).astype(np.int32)

    @cached_property
    def function_to(self) -> Ids:
        return np.where(self.relation == Relation.LEXICAL, self.inclusive_to, NOWHERE).astype(np.int32)

    @cached_property
    def emptied(self) -> Bools:
        return np.zeros(len(self), np.bool_)

    @cached_property
    def flattened(self) -> Bools:
        """Lines that had something below them."""
        out = np.zeros(len(self), np.bool_)
        below = np.flatnonzero(self._moved[: len(self.contexts)])
        out[self.line[below][self.line[below] >= 0]] = True
        return out

    @cached_property
    def artificial(self) -> Bools:
        """Frames that are not real functions. A placeholder in a module would read as an instruction."""
        kind = self.contexts.kind
        out = np.zeros(len(self), np.bool_)
        unknown = (kind == ContextKind.UNKNOWN) & self._reads_as_unknown
        placeholder = (kind == ContextKind.PLACEHOLDER) & (self.contexts.column("module") < 0)
        is_artificial = (
            unknown | placeholder | np.isin(kind, (ContextKind.ENTRY, ContextKind.INSTRUCTION, ContextKind.CALL))
        )
        out[: len(kind)] = is_artificial & (self.shape[: len(kind)] == Shape.FRAME)
        return out

    @cached_property
    def _reads_as_unknown(self) -> Bools:
        """Contexts without a name, or with one that readers know."""
        regions = self.contexts.regions
        known = [text.startswith((*UNKNOWN_NAMES, PARTIAL_PATHS)) for text in regions.strings]
        of_regions = np.array([*known, True], np.bool_)[regions.name]
        out: Bools = np.append(of_regions, True)[self.contexts.region]
        return out

    @cached_property
    def kind_as_read(self) -> Ids:
        """The kind that a reader of the file will find, for the model's contexts."""
        contexts, n = self.contexts, len(self.contexts)
        plain = np.array(
            [ContextKind.FUNCTION, ContextKind.CALL, ContextKind.LINE, ContextKind.INSTRUCTION, ContextKind.LOOP],
            np.int32,
        )
        out = plain[self.shape[:n]]
        kind, has_module = contexts.kind, contexts.column("module") >= 0
        is_frame, artificial = self.shape[:n] == Shape.FRAME, self.artificial[:n]
        out[is_frame & (self.relation[:n] == Relation.INLINED) & (contexts.parent >= 0)] = ContextKind.INLINED
        out[artificial] = ContextKind.PLACEHOLDER
        in_code = np.isin(kind, (ContextKind.INSTRUCTION, ContextKind.CALL)) & has_module
        out[artificial & in_code] = ContextKind.INSTRUCTION
        entries = (kind == ContextKind.ENTRY) & ~np.append(have_known_names(contexts.regions, UNKNOWN_ENTRY), True)[
            contexts.region
        ]
        unknown = self._reads_as_unknown & ~entries & (kind != ContextKind.INSTRUCTION) & (kind != ContextKind.CALL)
        out[artificial & unknown] = ContextKind.UNKNOWN
        out[~contexts.listed] = ContextKind.ELIDED
        return out


def _shapes(contexts: ContextTree) -> Ids:
    kind, has_file = contexts.kind, contexts.column("file") >= 0
    is_root = contexts.parent < 0
    has_children = contexts.subtree_end > np.arange(1, len(contexts) + 1)
    in_line = (kind == ContextKind.LINE)[contexts.parent] & ~is_root
    nested = (contexts.relation == Relation.LEXICAL) & ~is_root
    out = np.full(len(contexts), Shape.FRAME, np.int32)
    instruction = (kind == ContextKind.INSTRUCTION) & nested
    out[instruction] = Shape.POINT
    out[instruction & (has_children | in_line | has_file)] = Shape.SITE
    out[(kind == ContextKind.CALL) & nested] = Shape.SITE
    line = (kind == ContextKind.LINE) & ~is_root
    out[line] = np.where(has_file, Shape.LINE, np.where(has_children, Shape.SITE, Shape.POINT))[line]
    out[(kind == ContextKind.LOOP) & ~is_root] = Shape.LOOP
    return out


def _out_of_lines(contexts: ContextTree, shape: Ids) -> tuple[Ids, Ids]:
    """Return the parents that are not lines, and the line that each context was below, or lies beside, in the model."""
    parent = contexts.parent.copy()
    is_line = np.append(shape == Shape.LINE, False)
    below = is_line[parent]
    line = np.where(below, parent, ABSENT).astype(np.int32)
    while (inside := is_line[parent]).any():  # lines in lines are rare
        parent[inside] = parent[parent[inside]]
    within = contexts.within
    beside = (within >= 0) & (within != contexts.parent) & is_line[within] & (shape == Shape.SITE) & ~below
    line[beside] = within[beside]
    return parent, line
