"""Regions and the calling context tree.

A region is what is executed: a function, a loop, a source line, an instruction. A context is a region at one place
of the calling context tree.

    context      0      1      2        3      4         | 5
    kind       entry  func   line     func   line        | elided
    parent      -1     0      1        2      3          | -1
    relation     -    call  lexical   call  lexical      |
    region     main   main  main.c:7  work  work.c:3     | (none)
               <----------- the tree, in preorder -----> | values without a place

Contexts with values that the file's tree does not list stand after the tree, kind `elided`, without parent and
region: their cost is already contained in contexts of the tree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property

import numpy as np

from callgrove.arrays import (
    ABSENT,
    NO_OFFSET,
    Bools,
    Ids,
    Ints,
    Offsets,
    absent_stays,
    depths,
    freeze,
    levels,
    nearest_above,
    new_numbers,
    subtree_ends,
)

__all__ = [
    "LAST_LINE",
    "LONGEST_PATH",
    "MANGLED",
    "NO_ACTIVITY",
    "ContextKind",
    "ContextTree",
    "Names",
    "Regions",
    "Relation",
    "SourceFiles",
]

MANGLED = "mangled_name"  # among the details of a region
LAST_LINE = 2**31 - 1  # no source text is longer; what a file says beyond it is not a line
LONGEST_KEPT = 512  # characters of a label that is kept once it is made
NO_ACTIVITY = "<no activity>"  # the placeholder that idle samples are on
LONGEST_PATH = 100  # levels that a printed path shows; the middle of a longer one is cut


class ContextKind(IntEnum):
    """What a context, and its region, is."""

    ENTRY = 0
    FUNCTION = 1
    INLINED = 2
    LOOP = 3
    LINE = 4
    INSTRUCTION = 5
    CALL = 6
    PLACEHOLDER = 7
    REGION = 8
    KERNEL = 9
    COPY = 10
    MARKER = 11
    UNKNOWN = 12
    ELIDED = 13

    @property
    def word(self) -> str:
        return self.name.lower()


PLACES = (ContextKind.LOOP, ContextKind.LINE, ContextKind.INSTRUCTION, ContextKind.CALL)  # named after a path
LOOP_AT = "loop at "


class Relation(IntEnum):
    """How a context came to lie below its parent."""

    LEXICAL = 0  # nested in the source text: part of the parent's function-scope cost
    CALL = 1
    INLINED = 2

    @property
    def word(self) -> str:
        return self.name.lower()


Names = tuple[str, ...]


@dataclass(frozen=True)
class SourceFiles:
    """Source files that regions refer to. `copied` maps a file to the path of its copy inside the input."""

    paths: Names = ()
    copied: Mapping[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.paths)


@dataclass(frozen=True)
class Regions:
    """What contexts execute; one row per region.

    `name`, `role` and `paradigm` index `strings`; `file` indexes `files`; `module` indexes `modules`; -1 is absent.
    `offset` counts bytes from the start of the module, NO_OFFSET is absent. Lines, loops and instructions usually
    have no name of their own: `label` makes one from their place.
    """

    kind: Ids
    name: Ids
    file: Ids
    line: Ids
    end_line: Ids
    module: Ids
    offset: Offsets
    role: Ids
    paradigm: Ids
    strings: Names
    files: SourceFiles
    modules: Names
    details: Mapping[int, Mapping[str, str]] = field(default_factory=dict)  # mangled name, description, url

    def __len__(self) -> int:
        return len(self.kind)

    def label(self, region: int) -> str:
        """Return how a region is called when it is shown. Long names are made anew each time: thousands of lines may
        share a long path."""
        text = self._known_labels.get(region)
        if text is None:
            columns = (self.kind, self.name, self.file, self.line, self.module, self.offset)
            text = self._label(*(int(column[region]) for column in columns))
            if len(text) <= LONGEST_KEPT:
                self._known_labels[region] = text
        return text

    @cached_property
    def _known_labels(self) -> dict[int, str]:
        return {}

    def _label(self, kind: int, name: int, file: int, line: int, module: int, offset: int) -> str:
        if name >= 0:
            return self.strings[name]
        place = ""
        if file >= 0:
            place = f"{self.files.paths[file]}:{line}" if line >= 0 else self.files.paths[file]
        elif module >= 0 or offset != int(NO_OFFSET):
            place = self.modules[module] if module >= 0 else "<unknown module>"
            place += f"+{offset:#x}" if offset != int(NO_OFFSET) else ""
        if kind == ContextKind.INSTRUCTION and offset != int(NO_OFFSET):
            return f"{self.modules[module] if module >= 0 else '<unknown module>'}+{offset:#x}"
        if kind == ContextKind.LOOP:
            return LOOP_AT + (place or "<unknown place>")
        return place or f"<unknown {ContextKind(kind).word}>"

    def mangled_name(self, region: int) -> str:
        """Return the mangled name of a region; empty where none is known."""
        return self.details.get(region, {}).get(MANGLED, "")

    @cached_property
    def overloads(self) -> frozenset[int]:
        """Regions that share kind, name, file, line and module with others and differ in their mangled names."""
        groups: dict[tuple[int, ...], list[int]] = {}
        columns = (self.kind, self.name, self.file, self.line, self.module)
        for region in sorted(self.details):
            if self.mangled_name(region):
                groups.setdefault(tuple(int(column[region]) for column in columns), []).append(region)
        return frozenset(region for group in groups.values() if len(group) > 1 for region in group)

    def text(self, column: str) -> list[str]:
        """Return `role` or `paradigm` as words; absent is empty."""
        return [self.strings[k] if k >= 0 else "" for k in getattr(self, column).tolist()]


@dataclass(frozen=True)
class ContextTree:
    """All contexts, the tree first and in preorder, then the elided ones.

    `within` is the context whose function-scope cost contains this one's: the parent where the relation is lexical,
    unless a file nests differently from what it measures (the pre-release XML lists the call sites of a line as the
    line's siblings). `call_file` and `call_line` say where a context was called from, where the file says so.
    `source_id` is the file's own id, -1 where it has none.
    """

    parent: Ids
    subtree_end: Ids
    kind: Ids
    relation: Ids
    region: Ids
    within: Ids
    call_file: Ids
    call_line: Ids
    source_id: Ints
    regions: Regions
    parameters: Mapping[int, tuple[tuple[str, str | float], ...]] = field(default_factory=dict)
    attributes: Mapping[int, Mapping[str, str]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.parent)

    def take(self, contexts: Ints) -> ContextTree:
        """Return some of the contexts, in ascending order. One whose parent is not among them becomes a root."""
        if len(contexts) == len(self):
            return self
        new = absent_stays(new_numbers(contexts, len(self)))
        parent = new[self.parent[contexts]]
        is_torn = bool(((parent < 0) & (self.parent[contexts] >= 0)).any())
        return replace(
            self,
            parent=freeze(parent),
            subtree_end=freeze(subtree_ends(parent) if is_torn else self.ends_among(contexts)),
            kind=freeze(self.kind[contexts]),
            relation=freeze(self.relation[contexts]),
            region=freeze(self.region[contexts]),
            within=freeze(new[self.within[contexts]]),
            call_file=freeze(self.call_file[contexts]),
            call_line=freeze(self.call_line[contexts]),
            source_id=freeze(self.source_id[contexts]),
            parameters={int(new[c]): v for c, v in self.parameters.items() if new[c] >= 0},
            attributes={int(new[c]): v for c, v in self.attributes.items() if new[c] >= 0},
        )

    def ends_among(self, contexts: Ints) -> Ids:
        """Return where subtrees end once only some contexts are left, in ascending order, each below the nearest one
        above it that is left: after as many of them as come before its end now."""
        n_before = np.zeros(len(self) + 1, np.int32)
        n_before[contexts + 1] = 1
        return np.cumsum(n_before, dtype=np.int32)[self.subtree_end[contexts]]

    @cached_property
    def n_listed(self) -> int:
        """Contexts of the tree; those from here on are elided."""
        elided = np.flatnonzero(self.kind == ContextKind.ELIDED)
        return int(elided[0]) if len(elided) else len(self)

    @cached_property
    def depth(self) -> Ids:
        return depths(self.parent)

    @cached_property
    def levels(self) -> list[Ints]:
        """Contexts of the tree by depth, roots first."""
        return levels(self.depth[: self.n_listed])

    @property
    def roots(self) -> Ints:
        """Contexts of the tree without a parent."""
        return np.flatnonzero(self.parent[: self.n_listed] < 0)

    @cached_property
    def listed(self) -> Bools:
        """True for contexts of the tree."""
        return np.arange(len(self)) < self.n_listed

    @cached_property
    def folded(self) -> Bools:
        """Source lines, call sites and instructions that belong to the function or loop they are nested in. One that
        was called itself, since nothing is known of its function, stands for it."""
        nested = (self.relation == Relation.LEXICAL) & (self.parent >= 0)
        out: Bools = np.isin(self.kind, (ContextKind.LINE, ContextKind.INSTRUCTION, ContextKind.CALL)) & nested
        return out

    @cached_property
    def idle(self) -> Bools:
        """Contexts that stand for doing nothing: samples on them show no call stack."""
        wanted = [number for number, text in enumerate(self.regions.strings) if text == NO_ACTIVITY]
        named = np.append(np.isin(self.regions.name, wanted), False)
        out: Bools = (self.kind == ContextKind.PLACEHOLDER) & named[self.region]
        return out

    @cached_property
    def loop_around(self) -> Ids:
        """For each loop the innermost loop whose function-scope cost contains its own, -1 for all others."""
        return nearest_above(self.kind == ContextKind.LOOP, self.within)

    def children(self, context: int) -> list[int]:
        """Return the direct children in preorder."""
        out, at = [], context + 1
        while at < self.subtree_end[context]:
            out.append(at)
            at = int(self.subtree_end[at])
        return out

    def ancestors(self, context: int) -> list[int]:
        """Return the context and everything above it, the root last."""
        out = [context]
        while (above := int(self.parent[out[-1]])) >= 0:
            out.append(above)
        return out

    def column(self, name: str) -> Ids | Offsets:
        """Return a column of the regions (`file`, `line`, `module`, `offset`, ...) for every context; absent where
        there is no region."""
        values = getattr(self.regions, name)
        fill = NO_OFFSET if name == "offset" else ABSENT
        out: Ids | Offsets = np.append(values, np.array([fill], values.dtype))[self.region]
        return out

    def name(self, context: int) -> str:
        """Return the name of what a context executes."""
        region = int(self.region[context])
        if region < 0:
            return f"<{ContextKind(int(self.kind[context])).word} {int(self.source_id[context])}>"
        return self.regions.label(region)

    def label(self, context: int) -> str:
        """Return the context's name, with its parameters: `solve(level=3)`."""
        label = self.name(context)
        given = self.parameters.get(context)
        return f"{label}({','.join(f'{k}={v}' for k, v in given)})" if given else label

    def short_label(self, context: int) -> str:
        """Return a label in which a place is shown without the folders it lies in: where there is little room, its end
        tells it from others."""
        label, kind, region = self.label(context), self.kind[context], int(self.region[context])
        if kind not in PLACES or region < 0 or self.regions.name[region] >= 0 or "/" not in label:
            return label
        return (LOOP_AT if kind == ContextKind.LOOP else "") + label.rpartition("/")[2]

    def mangled_name(self, context: int) -> str:
        """Return the mangled name of what a context executes; empty where none is known."""
        region = int(self.region[context])
        return self.regions.mangled_name(region) if region >= 0 else ""

    def path(self, context: int) -> str:
        """Return names from the root, joined by `->`; the middle of very long paths is cut."""
        chain = self.ancestors(context)[::-1]
        if len(chain) > LONGEST_PATH:
            half = LONGEST_PATH // 2
            head, tail = chain[:half], chain[-half:]
            return "->".join([*map(self.label, head), "...", *map(self.label, tail)])
        return "->".join(map(self.label, chain))
