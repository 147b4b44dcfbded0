"""The columns that tables of contexts share: name, kind, file, line, module."""

from __future__ import annotations

from collections.abc import Sequence

from callgrove.model.arrays import ABSENT
from callgrove.model.contexts import ContextKind, ContextTree
from callgrove.model.table import Column

__all__ = ["described"]


def described(tree: ContextTree, contexts: Sequence[int], parameters: bool = True) -> tuple[Column, ...]:
    """One row per context; absent cells are empty. A row that stands for a group is named without parameters. Functions
    that nothing but their mangled names tells apart have these in brackets: `f [_Z1fi]`."""
    chosen = list(contexts)
    regions = tree.regions
    names = [tree.label(c) if parameters else tree.name(c) for c in chosen]
    if regions.overloads:
        told_apart = [int(tree.region[c]) in regions.overloads for c in chosen]
        names = [
            f"{name} [{tree.mangled_name(c)}]" if apart else name
            for name, c, apart in zip(names, chosen, told_apart, strict=True)
        ]
    kinds = [ContextKind(int(tree.kind[c])).word for c in chosen]
    owner = [int(tree.region[c]) for c in chosen]
    files = [int(regions.file[r]) if r >= 0 else ABSENT for r in owner]
    lines = [int(regions.line[r]) if r >= 0 else ABSENT for r in owner]
    modules = [int(regions.module[r]) if r >= 0 else ABSENT for r in owner]
    return (
        Column("name", names),
        Column("kind", kinds),
        Column("file", [regions.files.paths[f] if f >= 0 else None for f in files]),
        Column("line", lines, ABSENT),
        Column("module", [regions.modules[m] if m >= 0 else None for m in modules]),
    )
