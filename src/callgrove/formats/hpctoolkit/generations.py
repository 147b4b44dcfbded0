"""What the two generations of databases name or number differently, in one place."""

from __future__ import annotations

import numpy as np

from callgrove.formats.hpctoolkit.release_words import UNKNOWN_ENTRY, UNKNOWN_FUNCTION
from callgrove.model.arrays import Bools, Ints, distinct
from callgrove.model.contexts import NO_ACTIVITY, ContextTree, Regions

__all__ = [
    "ENTRY_OF_PLACEHOLDER",
    "NO_ACTIVITY",
    "PARTIAL_PATHS",
    "PLACEHOLDER_OF_ENTRY",
    "UNKNOWN",
    "UNKNOWN_NAMES",
    "is_no_activity",
    "kept_ids",
    "named",
    "unknown_procedure",
    "unused_ids",
]

UNKNOWN, PARTIAL_PATHS = "<unknown>", "<partial call paths>"
UNKNOWN_NAMES = (UNKNOWN, UNKNOWN_FUNCTION)  # functions without a name, as either generation calls them
LARGEST_ID = (1 << 31) - 1

# Entry points of released databases, and what pre-release ones have at the same place.
PLACEHOLDER_OF_ENTRY = {
    "main thread": "<program root>",
    "application thread": "<thread root>",
    UNKNOWN_ENTRY: PARTIAL_PATHS,
}
ENTRY_OF_PLACEHOLDER = {placeholder: entry for entry, placeholder in PLACEHOLDER_OF_ENTRY.items()}


def unknown_procedure(module: str, offset: int) -> str:
    """What pre-release databases call an instruction that no function encloses."""
    return f"<unknown procedure> {offset:#x} [{module.rpartition('/')[2]}]"


def named(regions: Regions, *names: str) -> Bools:
    """Which regions have one of these names."""
    wanted = [number for number, text in enumerate(regions.strings) if text in names]
    out: Bools = np.isin(regions.name, wanted)
    return out


def is_no_activity(contexts: ContextTree) -> Bools:
    """The root that idle samples of pre-release databases are on."""
    is_leaf = contexts.subtree_end == np.arange(1, len(contexts) + 1)
    out: Bools = contexts.idle & (contexts.parent < 0) & is_leaf
    return out


def kept_ids(source_ids: Ints, per_context: int, spare: int) -> tuple[Ints, bool]:
    """The ids of contexts in the file, and whether they are the source's own: not where these have wide gaps."""
    n = len(source_ids)
    if not n:
        return np.zeros(0, np.int64), True
    usable = int(source_ids.min()) > 0 and int(source_ids.max()) < min(per_context * n + spare, LARGEST_ID)
    if usable and len(distinct(source_ids)) == n:
        return source_ids.astype(np.int64), True
    return np.arange(1, n + 1, dtype=np.int64), False


def unused_ids(ids: Ints, n: int) -> Ints:
    """The lowest ids from 1 on that are not used."""
    free = np.ones(int(ids.max(initial=0)) + n + 1, np.bool_)
    free[ids] = free[0] = False
    return np.flatnonzero(free)[:n]
