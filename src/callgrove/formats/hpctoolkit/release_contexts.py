"""From the tables and the tree of meta.db to contexts of the model, column by column."""

from __future__ import annotations

import numpy as np

from callgrove.formats.hpctoolkit.database import copied_source
from callgrove.formats.hpctoolkit.meta_db import MetaDb
from callgrove.formats.hpctoolkit.meta_tree import RawContexts
from callgrove.formats.hpctoolkit.release_words import LEXICAL_TYPES, UNKNOWN_FUNCTION
from callgrove.model.arrays import ABSENT, Array, Bools, Ids
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind, Relation
from callgrove.model.experiment import Severity

__all__ = ["add_contexts"]


def add_contexts(builder: ExperimentBuilder, meta: MetaDb) -> None:
    """The whole tree, in the file's order."""
    raw = meta.contexts()
    kind = _kinds(raw, np.array([_is_placeholder(f.module, f.name) for f in meta.functions], np.bool_))
    known = raw.relation < len(Relation)
    builder.add_contexts(
        parent=raw.parent,
        kind=kind,
        relation=np.where(known, raw.relation, Relation.CALL),
        region=_regions(builder, meta, raw, kind),
        source_id=raw.id,
    )
    ids, count = np.unique(raw.id, return_counts=True)
    for id_ in ids[(count > 1) | (ids == 0)].tolist()[:1]:
        builder.warn(Severity.DAMAGE, f"{meta.file.path}: Context: context id {id_} is used more than once")


def _is_placeholder(module: int, name: str) -> bool:
    return module < 0 and name.startswith("<")


def _kinds(raw: RawContexts, placeholders: Bools) -> Ids:
    lexical = np.array([*LEXICAL_TYPES, ContextKind.UNKNOWN], np.int32)
    kind = lexical[np.minimum(raw.lexical_type, len(LEXICAL_TYPES))]
    is_function = kind == ContextKind.FUNCTION
    kind = np.where(is_function & (raw.relation == Relation.INLINED), ContextKind.INLINED, kind)
    kind = np.where(is_function & np.append(placeholders, np.False_)[raw.function], ContextKind.PLACEHOLDER, kind)
    kind = np.where(is_function & (raw.function < 0), ContextKind.UNKNOWN, kind)
    return np.where(raw.entry >= 0, ContextKind.ENTRY, kind).astype(np.int32)


def _regions(builder: ExperimentBuilder, meta: MetaDb, raw: RawContexts, kind: Ids) -> Ids:
    """The region of every context. Functions are regions of their own; other contexts are their place."""
    modules = [builder.module(path) for path in meta.modules]
    files = [builder.file(*(copied_source(path) if copied else (path, ""))) for path, copied in meta.files]
    functions = _functions(builder, meta, files, modules)
    plain = (raw.function >= 0) & (raw.file < 0) & (raw.module < 0)
    region = np.full(len(raw), ABSENT, np.int32)
    region[plain] = functions[raw.function[plain]]
    rest = np.flatnonzero(~plain)
    columns = [c[rest] for c in (kind, raw.entry, raw.function, raw.file, raw.line, raw.module, raw.offset)]
    first, number = _distinct(columns)
    kinds = tuple(ContextKind)
    made: list[int] = []
    for row in zip(*(c[first].tolist() for c in columns), strict=True):
        of_kind, entry, function, file, line, module, offset = row
        name = UNKNOWN_FUNCTION if of_kind == ContextKind.UNKNOWN else ""
        name = meta.entry_names[entry] if entry >= 0 else meta.functions[function].name if function >= 0 else name
        made.append(
            builder.region(
                ContextKind.FUNCTION if of_kind == ContextKind.INLINED else kinds[of_kind],
                name,
                file=files[file] if file >= 0 else ABSENT,
                line=line if file >= 0 else ABSENT,
                module=modules[module] if module >= 0 else ABSENT,
                offset=offset if module >= 0 else None,
            )
        )
    region[rest] = np.array(made, np.int32)[number] if len(made) else region[rest]
    return region


def _functions(builder: ExperimentBuilder, meta: MetaDb, files: list[int], modules: list[int]) -> Ids:
    regions = [
        builder.region(
            ContextKind.PLACEHOLDER if _is_placeholder(f.module, f.name) else ContextKind.FUNCTION,
            f.name,
            file=files[f.file] if f.file >= 0 else ABSENT,
            line=f.line if f.file >= 0 else ABSENT,
            module=modules[f.module] if f.module >= 0 else ABSENT,
            offset=f.offset if f.module >= 0 else None,
        )
        for f in meta.functions
    ]
    return np.array(regions, np.int32)


def _distinct(columns: list[Array]) -> tuple[Array, Array]:
    """The first row of each distinct combination, in order of appearance, and the combination of every row."""
    n = len(columns[0])
    order = np.lexsort(columns)
    is_new = np.ones(n, np.bool_)
    is_new[1:] = np.logical_or.reduce([np.diff(c[order]) != 0 for c in columns]) if n > 1 else is_new[1:]
    group = np.cumsum(is_new) - 1
    first = order[is_new]  # lexsort is stable: the first of equal rows comes first
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first))
    number = np.empty(n, np.int64)
    number[order] = rank[group]
    return np.sort(first), number
