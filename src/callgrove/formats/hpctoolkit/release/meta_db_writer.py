"""meta.db of a released database: its tables, then its tree.

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
from pathlib import Path
from typing import Any

import numpy as np

from callgrove.arrays import NO_OFFSET, Array, Ints, Offsets, distinct
from callgrove.formats.hpctoolkit.metric_plan import MetricPlan
from callgrove.formats.hpctoolkit.release import records as rec
from callgrove.formats.hpctoolkit.release.files import header_bytes
from callgrove.formats.hpctoolkit.release.plan import SCOPES_IN_ORDER, FileTree
from callgrove.formats.hpctoolkit.release.vocabulary import (
    COMBINATIONS,
    COPIED_FLAG,
    ENTRY_POINTS,
    HAS_FUNCTION,
    HAS_PLACE,
    HAS_POINT,
    SCOPE_RECORDS,
    SUMMARIES,
    storable,
)
from callgrove.model.contexts import Regions, Relation

__all__ = ["write_meta_db"]

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
        section.head = _metrics(out, metrics)
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
        """Aligned records; none of them is nowhere."""
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


def _metrics(out: _MetaBytes, plan: MetricPlan) -> tuple[int, ...]:
    """Scopes, then the scopes and summaries of each metric, then the metrics; gives the head of the section."""
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
