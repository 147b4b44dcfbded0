"""Contexts, regions, files, modules and strings as tables, and back.

They come back exactly as the builder had made them, with the same numbers: what is converted on from a folder is what
would have been converted from the original. The tree is checked before it is believed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from callgrove.arrays import Array, Ids, freeze
from callgrove.formats.columnar.attributes import Attributes
from callgrove.formats.columnar.folder import Folder, StoredTable
from callgrove.formats.columnar.schema import Cells, Words
from callgrove.model.contexts import ContextKind, ContextTree, Regions, Relation, SourceFiles
from callgrove.model.experiment import problems_of_contexts

__all__ = ["program_tables", "read_contexts"]

KINDS = [kind.word for kind in ContextKind]
RELATIONS = [relation.word for relation in Relation]
Parameters = dict[int, tuple[tuple[str, str | float], ...]]


def program_tables(tree: ContextTree) -> Iterator[tuple[str, Mapping[str, Cells]]]:
    """Yield every table of these with its columns."""
    regions, files = tree.regions, tree.regions.files
    n_files, n_strings, n_modules = len(files.paths), len(regions.strings), len(regions.modules)
    yield "strings", {"string": np.arange(n_strings), "text": regions.strings}
    copies = [files.copied.get(file) for file in range(n_files)]
    yield "files", {"file": np.arange(n_files), "path": files.paths, "copy": copies}
    yield "modules", {"module": np.arange(n_modules), "name": regions.modules}
    yield "regions", _region_columns(regions)
    yield "contexts", _context_columns(tree)
    yield "context_parameters", _parameter_columns(tree)


def _region_columns(regions: Regions) -> Mapping[str, Cells]:
    ids = {f"{name}_id": getattr(regions, name) for name in ("name", "file", "module", "role", "paradigm")}
    shown = {name: Words(getattr(regions, name), regions.strings) for name in ("name", "role", "paradigm")}
    return {
        "region": np.arange(len(regions)),
        "kind": Words(regions.kind, KINDS),
        "line": regions.line,
        "end_line": regions.end_line,
        "offset": regions.offset,
        "file": Words(regions.file, regions.files.paths),
        "module": Words(regions.module, regions.modules),
        **shown,
        **ids,
    }


def _context_columns(tree: ContextTree) -> Mapping[str, Cells]:
    regions, n = tree.regions, len(tree)
    plain = ("parent", "subtree_end", "region", "within", "call_line", "source_id")
    return {
        "context": np.arange(n),
        **{name: getattr(tree, name) for name in plain},
        "depth": tree.depth,
        "kind": Words(tree.kind, KINDS),
        "relation": Words(tree.relation, RELATIONS),
        "name": _names(tree),
        "file": Words(tree.column("file"), regions.files.paths),
        "line": tree.column("line"),
        "module": Words(tree.column("module"), regions.modules),
        "offset": tree.column("offset"),
        "call_file": Words(tree.call_file, regions.files.paths),
        "call_file_id": tree.call_file,
    }


def _names(tree: ContextTree) -> Words:
    """Of each region once; contexts without one have a name of their own."""
    labels = [tree.regions.label(region) for region in range(len(tree.regions))]
    ids = tree.region.astype(np.int64)
    alone = np.flatnonzero(ids < 0)
    ids[alone] = len(labels) + np.arange(len(alone))
    return Words(ids, labels + [tree.name(context) for context in alone.tolist()])


def _parameter_columns(tree: ContextTree) -> Mapping[str, Cells]:
    rows = [(c, name, value) for c, given in sorted(tree.parameters.items()) for name, value in given]
    return {
        "context": np.array([c for c, _, _ in rows], np.int32),
        "name": [name for _, name, _ in rows],
        "text": [value if isinstance(value, str) else None for _, _, value in rows],
        "number": [None if isinstance(value, str) else float(value) for _, _, value in rows],
        "integer": [value if isinstance(value, int) and abs(value) < 2**63 else None for _, _, value in rows],
    }


# -- reading -----------------------------------------------------------------------------------------------------------


def read_contexts(folder: Folder, attributes: Attributes) -> ContextTree:
    """Return the tree with its regions; these tables must be whole."""
    table = folder.table("contexts")
    rows = folder.read_numbered("contexts", "context")
    regions = _read_regions(folder, attributes)
    columns: dict[str, Any] = {
        name: rows.numbers(name) for name in ("parent", "region", "within", "call_line", "source_id")
    }
    columns["kind"] = folder.codes(table, rows, "kind", KINDS)
    columns["relation"] = folder.codes(table, rows, "relation", RELATIONS)
    columns["call_file"] = rows.numbers("call_file_id")
    if problems := problems_of_contexts(columns, len(regions), len(regions.files)):
        raise table.damage("rows", "contexts that fit together", problems[0])
    ends = rows.numbers("subtree_end")
    _check_preorder(table, columns["parent"], columns["kind"], ends)
    parameters: Parameters = {}
    return ContextTree(
        subtree_end=freeze(ends),
        **{name: freeze(column) for name, column in columns.items()},
        regions=regions,
        parameters=folder.or_warn(lambda: _read_parameters(folder, len(ends)), parameters),
        attributes=attributes.mappings("context", len(ends)),
    )


def _check_preorder(table: StoredTable, parent: Ids, kind: Ids, ends: Ids) -> None:
    """Each subtree is a slice: what follows a context is its first child, what follows its subtree its sibling."""
    n, context = len(parent), np.arange(len(parent))
    elided = np.flatnonzero(kind == ContextKind.ELIDED)
    n_listed = int(elided[0]) if len(elided) else n
    sound = bool((kind[n_listed:] == ContextKind.ELIDED).all() and (parent < context).all())
    if sound and bool(((ends > context) & (ends <= n)).all()):
        bound = np.where(parent >= 0, np.append(ends, n)[parent], np.where(context < n_listed, n_listed, n))
        after = np.append(parent, -2)
        child = (ends == context + 1) | (after[context + 1] == context)
        sibling = (ends == bound) | (after[np.minimum(ends, n)] == parent)
        roots_end = ends[n_listed:] == context[n_listed:] + 1
        if (child & sibling & (ends <= bound)).all() and roots_end.all():
            return
    raise table.damage("rows", "contexts in preorder with the ends of their subtrees", "another order")


def _read_regions(folder: Folder, attributes: Attributes) -> Regions:
    table, rows = folder.table("regions"), folder.read_numbered("regions", "region")
    strings = folder.read_numbered("strings", "string").names("text")
    files = folder.read_numbered("files", "file")
    modules = folder.read_numbered("modules", "module").names("name")
    paths = files.names("path")
    copied = {k: text for k, text in enumerate(files.texts("copy")) if text is not None}
    ids: dict[str, Array] = {}
    for name, known in (
        *((name, strings) for name in ("name", "role", "paradigm")),
        ("file", paths),
        ("module", modules),
    ):
        ids[name] = folder.ids(table, rows, f"{name}_id", len(known))
    return Regions(
        freeze(folder.codes(table, rows, "kind", KINDS)),
        freeze(ids["name"]),
        freeze(ids["file"]),
        freeze(rows.numbers("line")),
        freeze(rows.numbers("end_line")),
        freeze(ids["module"]),
        freeze(rows.numbers("offset")),
        freeze(ids["role"]),
        freeze(ids["paradigm"]),
        strings,
        SourceFiles(paths, copied),
        modules,
        attributes.mappings("region", len(rows)),
    )


def _read_parameters(folder: Folder, n_contexts: int) -> Parameters:
    table = folder.table("context_parameters")
    rows = table.whole()
    context = folder.ids(table, rows, "context", n_contexts, lowest=0)
    columns = rows.texts("text"), rows.cells("integer"), rows.numbers("number").tolist()
    values = [next((one for one in row if one is not None), np.nan) for row in zip(*columns, strict=True)]
    cells = list(zip(rows.names("name"), values, strict=True))
    starts = np.flatnonzero(np.append(True, np.diff(context) != 0)).tolist() if len(context) else []
    out: Parameters = {}
    for first, last in pairwise([*starts, len(cells)]):
        out[int(context[first])] = tuple(cells[first:last])
    return out
