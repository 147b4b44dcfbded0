"""meta.db of a released database: where each context of an experiment goes, its tables, then its tree.

    General, IdNames, Metrics     each with its own strings
    Strings                       those of all that follows
    Modules, Files, Functions
    Context                       children arrays, the deepest first, then the entry points
    footer

Every record and array begins at a multiple of 8, strings anywhere. What a record points to was written before it, so
that all pointers are known; only the heads of sections are filled in last. Contexts, which may be millions, are laid
out and written as arrays of 64-bit words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from callgrove.arrays import ABSENT, NO_OFFSET, Array, Bools, Ids, Ints, Offsets, depths, distinct, nearest_above
from callgrove.errors import CallgroveError
from callgrove.formats.hpctoolkit.metric_plan import (
    ENTRY_OF_PLACEHOLDER,
    UNKNOWN_NAMES,
    MetricPlan,
    have_known_names,
    is_no_activity,
    kept_ids,
)
from callgrove.formats.hpctoolkit.release import files as rec
from callgrove.formats.hpctoolkit.release.files import (
    COMBINATIONS,
    COPIED_FLAG,
    ENTRY_POINTS,
    HAS_FUNCTION,
    HAS_PLACE,
    HAS_POINT,
    LEXICAL_TYPES,
    SCOPE_RECORDS,
    SUMMARIES,
    UNKNOWN_ENTRY,
    header_bytes,
    storable,
)
from callgrove.formats.hpctoolkit.stored_rows import NOWHERE, container_of
from callgrove.model.contexts import ContextKind, ContextTree, Regions, Relation

__all__ = ["SCOPES_IN_ORDER", "FileTree", "write_meta_db"]


# -- where each context goes -------------------------------------------------------------------------------------------
# The tree that the file holds is the model's, but for what the generations nest or name differently:
#
#     only entry points may stand at the top: `<program root>` and the like become entry points, everything else goes
#       below an added `unknown entry`
#     what a pre-release database lists beside its line, call sites and inlined functions, goes below that line; a call
#       site whose instruction is not known is left out, what it calls is called by its line
#     idle samples are on context 0: `<no activity>` has no place of its own
#     elided contexts keep their ids and their values, but are not part of the tree
#
# Rows 0..n-1 of a `FileTree` are the model's contexts, row n is the added entry if there is one, and row -1, the last
# one, is the root above all entry points: context 0 of the file, where the samples of idle times are as well.


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
    """Return the roots that pre-release databases have where released ones have an entry point, and what that is
    called."""
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
    """Return the functions that were inlined at a line which stands beside them, and that line."""
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


# -- the file ----------------------------------------------------------------------------------------------------------


ALIGNMENT = 8
N_SECTIONS = len(rec.SECTIONS["meta"])
FIRST_SECTION_AT = rec.HEADER.itemsize + N_SECTIONS * rec.SECTION.itemsize


def write_meta_db(
    path: Path,
    title: str,
    description: str,
    id_names: Sequence[str],
    metrics: MetricPlan,
    tree: FileTree,
    copies: dict[int, str],
) -> None:
    """Write the whole file. `copies` maps files to where their copies lie in the database."""
    regions = tree.contexts.regions
    out = _MetaBytes()
    with out.section("General", rec.GENERAL) as section:
        section.head = (out.string(title), out.string(description))
    with out.section("IdNames", rec.ID_NAMES) as section:
        names = [out.string(name) for name in id_names]
        section.head = (out.array(np.array(names, "<u8")), len(names))
    with out.section("Metrics", rec.METRICS_SECTION) as section:
        section.head = _write_metrics(out, metrics)
    with out.section("Strings"):
        strings = _Strings(out, tree, copies)
    with out.section("Modules", rec.TABLE_SECTION) as section:
        modules = _records(rec.MODULE, pPath=strings.modules)
        modules_at = section.table(modules)
    with out.section("Files", rec.TABLE_SECTION) as section:
        flags = [COPIED_FLAG if file in copies else 0 for file in range(len(regions.files))]
        files = _records(rec.FILE, flags=flags, pPath=strings.files)
        files_at = section.table(files)
    places = _Places(regions, modules_at, files_at)
    with out.section("Functions", rec.TABLE_SECTION) as section:
        functions_at = section.table(_functions(places, strings))
    with out.section("Context", rec.CONTEXT_SECTION) as section:
        section.head = _contexts(out, tree, places, strings, functions_at)
    path.write_bytes(out.finish())


class _MetaBytes:
    """The file as it grows; strings are kept once per section."""

    def __init__(self) -> None:
        self._bytes = bytearray(FIRST_SECTION_AT)
        self._sections: dict[str, tuple[int, int]] = {}
        self._strings: dict[str, int] = {}

    def section(self, name: str, head: np.dtype[Any] | None = None) -> _Section:
        self.align()
        self._strings = {}
        return _Section(self, name, head)

    def align(self) -> int:
        """Go to the next multiple of 8."""
        self._bytes += bytes(-len(self._bytes) % ALIGNMENT)
        return len(self._bytes)

    def append(self, content: bytes) -> int:
        at = len(self._bytes)
        self._bytes += content
        return at

    def string(self, text: str) -> int:
        if text not in self._strings:
            self._strings[text] = self.append(storable(text).encode() + b"\0")
        return self._strings[text]

    def array(self, records: Array) -> int:
        """Append records, aligned, and return where they lie; none of them is nowhere."""
        if not len(records):
            return 0
        self.align()
        return self.append(records.tobytes())

    def patch(self, at: int, content: bytes) -> None:
        self._bytes[at : at + len(content)] = content

    def end_section(self, name: str, at: int) -> None:
        self._sections[name] = at, len(self._bytes) - at

    def finish(self) -> bytearray:
        self.align()
        self.append(rec.FOOTERS["meta"])
        self.patch(0, header_bytes("meta", self._sections))
        return self._bytes


class _Section:
    """One section while it is open. `head` is filled in when it is closed."""

    def __init__(self, out: _MetaBytes, name: str, dtype: np.dtype[Any] | None) -> None:
        self._out, self._name, self._dtype = out, name, dtype
        self._at = out.append(bytes(dtype.itemsize if dtype is not None else 0))
        self.head: tuple[int, ...] = ()

    def table(self, records: Array) -> Ints:
        """Write a whole plain table, and return the place of each record."""
        at = self._out.array(records)
        self.head = (at, len(records), records.dtype.itemsize)
        return at + np.arange(len(records)) * records.dtype.itemsize

    def __enter__(self) -> _Section:
        return self

    def __exit__(self, *error: object) -> None:
        if self._dtype is not None:
            record = np.zeros(1, self._dtype)
            record[0] = self.head
            self._out.patch(self._at, record.tobytes())
        self._out.end_section(self._name, self._at)


def _records(dtype: np.dtype[Any], **columns: Sequence[int] | Array) -> Array:
    n = len(next(iter(columns.values())))
    out = np.zeros(n, dtype)
    for name, column in columns.items():
        out[name] = column
    return out


def _write_metrics(out: _MetaBytes, plan: MetricPlan) -> tuple[int, ...]:
    """Write scopes, then the scopes and summaries of each metric, then the metrics; return the head of the section."""
    names = [out.string(record.name) for record in SCOPE_RECORDS]
    scopes = _records(
        rec.SCOPE,
        pScopeName=names,
        type=[record.type for record in SCOPE_RECORDS],
        propagationIndex=[record.propagation_index for record in SCOPE_RECORDS],
    )
    scopes_at = out.array(scopes)
    rows = np.zeros(len(plan.metrics), rec.METRIC)
    for row, metric in zip(rows, plan.metrics, strict=True):
        pointers = [scopes_at + SCOPES_IN_ORDER.index(s.scope) * rec.SCOPE.itemsize for s in metric.scopes]
        instances = _records(rec.SCOPE_INSTANCE, pScope=pointers, propMetricId=[s.id for s in metric.scopes])
        statistics_of_scopes = [
            (at, *one) for at, s in zip(pointers, metric.scopes, strict=True) for one in s.statistics
        ]
        summaries = _records(
            rec.SUMMARY,
            pScope=[at for at, _, _ in statistics_of_scopes],
            pFormula=[out.string(SUMMARIES[statistic][0]) for _, statistic, _ in statistics_of_scopes],
            combine=[COMBINATIONS.index(SUMMARIES[statistic][1]) for _, statistic, _ in statistics_of_scopes],
            statMetricId=[id_ for _, _, id_ in statistics_of_scopes],
        )
        row["pName"], row["pScopeInsts"] = out.string(metric.name), out.array(instances)
        row["nScopeInsts"], row["nSummaries"] = len(instances), len(summaries)
        row["pSummaries"] = out.array(summaries)
    sizes = (rec.METRIC.itemsize, rec.SCOPE_INSTANCE.itemsize, rec.SUMMARY.itemsize)
    return out.array(rows), len(rows), *sizes, scopes_at, len(scopes), rec.SCOPE.itemsize


class _Strings:
    """Where the strings of modules, files, functions and entry points lie. `functions` are the regions in use."""

    def __init__(self, out: _MetaBytes, tree: FileTree, copies: dict[int, str]) -> None:
        regions = tree.contexts.regions
        self.entries = [out.string(tree.label(row)) for row in tree.entries.tolist()]
        self.modules = [out.string(path) for path in regions.modules]
        self.files = [out.string(copies.get(file, path)) for file, path in enumerate(regions.files.paths)]
        self.functions = distinct(tree.function[tree.function >= 0])
        names = regions.name[self.functions].tolist()
        given = [regions.strings[name] if name >= 0 else "" for name in names]
        self.names = [
            out.string(name or regions.label(region))
            for region, name in zip(self.functions.tolist(), given, strict=True)
        ]


class _Places:
    """File and module of regions as pointers, 0 where there is none."""

    def __init__(self, regions: Regions, modules_at: Ints, files_at: Ints) -> None:
        nowhere = np.zeros(1, np.uint64)
        self.has_file, self.has_module = regions.file >= 0, regions.module >= 0
        self.file = np.append(files_at.astype(np.uint64), nowhere)[regions.file]
        self.module = np.append(modules_at.astype(np.uint64), nowhere)[regions.module]
        self.line = np.where(self.has_file, np.maximum(regions.line, 0), 0).astype(np.uint64)
        known = self.has_module & (regions.offset != NO_OFFSET)
        self.offset: Offsets = np.where(known, regions.offset, np.uint64(0))


def _functions(places: _Places, strings: _Strings) -> Array:
    used = strings.functions
    return _records(
        rec.FUNCTION,
        pName=strings.names,
        pModule=places.module[used],
        offset=places.offset[used],
        pFile=places.file[used],
        line=places.line[used],
    )


def _contexts(
    out: _MetaBytes, tree: FileTree, places: _Places, strings: _Strings, functions_at: Ints
) -> tuple[int, int, int]:
    """Write all children arrays and the entry points, and return the head of the section."""
    inner = np.flatnonzero(tree.listed & (tree.parent >= 0))
    order = inner[np.lexsort((inner, tree.parent[inner], -tree.depth[inner]))]  # the children of each parent together
    records, flex = _records_of(tree, order, places, strings, functions_at)
    size = rec.CONTEXT.itemsize + 8 * records["nFlexWords"].astype(np.int64)
    at = out.align() + np.cumsum(size) - size

    children_size, children_at = np.zeros(len(tree), np.int64), np.zeros(len(tree), np.int64)
    np.add.at(children_size, tree.parent[order], size)
    children_at[tree.parent[order][::-1]] = at[::-1]  # the first child is written last and stays
    records["szChildren"], records["pChildren"] = children_size[order], children_at[order]

    words = np.zeros(int(size.sum()) // 8, "<u8")
    word_at = (at - at[0]) // 8 if len(at) else at
    head_words = rec.CONTEXT.itemsize // 8
    words[word_at[:, None] + np.arange(head_words)] = records.view("<u8").reshape(len(records), head_words)
    filled = np.zeros(len(records), np.int64)
    for present, word in flex:
        words[(word_at + head_words + filled)[present]] = word[present]
        filled += present
    out.append(words.tobytes())
    rows = tree.entries
    entries = _records(
        rec.ENTRY_POINT,
        szChildren=children_size[rows],
        pChildren=children_at[rows],
        ctxId=tree.id[rows],
        entryPoint=[ENTRY_POINTS.get(tree.label(row), 0) for row in rows.tolist()],
        pPrettyName=strings.entries,
    )
    return out.array(entries), len(entries), rec.ENTRY_POINT.itemsize


def _records_of(
    tree: FileTree, rows: Ints, places: _Places, strings: _Strings, functions_at: Ints
) -> tuple[Array, list[tuple[Array, Array]]]:
    """Return the fixed part of each context, and the columns of its flex words with where they are present."""
    function, region = tree.function[rows], tree.region[rows]
    named = function >= 0
    pointer = np.zeros(len(rows), np.uint64)
    pointer[named] = functions_at[np.searchsorted(strings.functions, function[named])]

    def of_region(column: Array) -> Array:
        return np.append(column, np.zeros(1, column.dtype))[region]

    placed, pointed = of_region(places.has_file) & ~named, of_region(places.has_module) & ~named
    records = np.zeros(len(rows), rec.CONTEXT)
    records["ctxId"] = tree.id[rows]
    records["flags"] = named * HAS_FUNCTION + placed * HAS_PLACE + pointed * HAS_POINT
    records["relation"] = tree.relation[rows]
    records["lexicalType"] = tree.lexical_type[rows]
    records["nFlexWords"] = named * 1 + placed * 2 + pointed * 2
    records["propagation"] = tree.relation[rows] == Relation.LEXICAL
    flex = [
        (named, pointer),
        (placed, of_region(places.file)),
        (placed, of_region(places.line)),
        (pointed, of_region(places.module)),
        (pointed, of_region(places.offset)),
    ]
    return records, flex
