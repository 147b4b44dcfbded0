"""Columns of event tables that no reader knows: kept as rows of (span, name, value), so that nothing a newer profiler
writes is lost.

Specification: gpu-traces.md 1.3. They are read when somebody asks for the side table `extra`. Cells that hold nothing
(NULL, '', {}) have no row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from callgrove.model.arrays import Array, Ints
from callgrove.model.traces import SideTable

__all__ = ["NOTHING", "Extra", "extra_table"]

NOTHING = ("", "{}", "[]")


class Extra(NamedTuple):
    """Cells of one column: text or None."""

    name: str
    span: Ints
    value: Array


def extra_table(found: Iterable[Extra]) -> SideTable | None:
    """All that holds something, by span."""
    kept = [extra for extra in map(_filled, found) if len(extra.span)]
    if not kept:
        return None
    span = np.concatenate([extra.span for extra in kept])
    order = np.argsort(span, kind="stable")
    names = np.repeat(np.array([extra.name for extra in kept], object), [len(extra.span) for extra in kept])
    return SideTable(span[order], {"name": names[order], "value": _joined([extra.value for extra in kept])[order]})


def _filled(extra: Extra) -> Extra:
    there = np.array([cell is not None and cell not in NOTHING for cell in extra.value.tolist()], np.bool_)
    return Extra(extra.name, extra.span[there], extra.value[there])


def _joined(columns: Sequence[Array]) -> Array:
    return np.concatenate([*columns, np.empty(0, object)])
