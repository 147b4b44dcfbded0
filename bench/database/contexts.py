"""The contexts of meta.db below the entry point, in words of 8 bytes.

Ctx (4 words)  flex words    Ctx  flex words ...      children of one context stand side by side
function       pFunction
line           pFile, line
loop           pFile, line, pModule, offset
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bench.database.records import WORD, records
from bench.database.tree import FUNCTION, LOOP, Tree
from callgrove.arrays import Array, Ints, Offsets
from callgrove.formats.hpctoolkit.release import files as rec
from callgrove.formats.hpctoolkit.release.files import HAS_FUNCTION, HAS_PLACE, HAS_POINT

__all__ = ["Places", "context_area"]

CALL, LEXICAL = 1, 0  # relations
N_FIXED = rec.CONTEXT.itemsize // WORD


@dataclass(frozen=True)
class Places:
    """Per context: pointers to its function, file and module, and its line."""

    function: Ints
    file: Ints
    module: Ints
    line: Ints


def context_area(tree: Tree, places: Places, area_at: int) -> tuple[Offsets, Array]:
    """The words of all contexts but the entry point, to stand at `area_at`; and the records, the entry point's too."""
    kind = tree.lexical_type
    flags = np.where(kind == FUNCTION, HAS_FUNCTION, np.where(kind == LOOP, HAS_PLACE | HAS_POINT, HAS_PLACE))
    n_flex = (flags & HAS_FUNCTION) + (flags & HAS_PLACE) + ((flags & HAS_POINT) >> 1)
    below = np.argsort(tree.parent, kind="stable")[1:]  # siblings side by side, without the entry point
    n_words = N_FIXED + n_flex
    start = np.zeros(len(tree), np.int64)
    start[below] = np.cumsum(n_words[below]) - n_words[below]
    contexts = records(
        rec.CONTEXT,
        len(tree),
        ctxId=tree.id,
        flags=flags,
        relation=np.where(tree.is_lexical, LEXICAL, CALL),
        lexicalType=kind,
        nFlexWords=n_flex,
        propagation=tree.is_lexical,
    )
    _link(contexts, tree.parent[below], start[below], n_words[below], area_at)
    area = np.zeros(int(n_words[below].sum()), np.uint64)
    area[start[below, None] + np.arange(N_FIXED)] = contexts.view(np.uint64).reshape(-1, N_FIXED)[below]
    _put_flex(area, start + N_FIXED, below, kind, places)
    return area, contexts


def _link(contexts: Array, parent: Ints, start: Ints, n_words: Ints, area_at: int) -> None:
    """Let every parent point to its children, which come in the order of the area."""
    total, first = np.zeros(len(contexts), np.int64), np.zeros(len(contexts), np.int64)
    np.add.at(total, parent, n_words)
    first[parent[::-1]] = start[::-1]  # the first child is written last, and stays
    contexts["szChildren"] = WORD * total
    contexts["pChildren"] = np.where(total > 0, area_at + WORD * first, 0)


def _put_flex(area: Offsets, flex: Ints, below: Ints, kind: Array, places: Places) -> None:
    called = below[kind[below] == FUNCTION]
    area[flex[called]] = places.function[called]
    placed = below[kind[below] != FUNCTION]
    area[flex[placed]], area[flex[placed] + 1] = places.file[placed], places.line[placed]
    loops = below[kind[below] == LOOP]
    area[flex[loops] + 2], area[flex[loops] + 3] = places.module[loops], 0x1000 + 16 * places.line[loops]
