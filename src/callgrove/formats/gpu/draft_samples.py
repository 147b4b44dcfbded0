"""Samples of call stacks in the draft schema: one row per frame.

Specification: gpu-traces.md 2.3. Rows that share process, thread and time are the frames of one sample. The document
does not say which end of a stack is depth 0: where rows name their callers, these do. Depths that are missing in
between are frames that nobody knows. A row of ours with `{"idle": true}` is a sample in which nothing ran.
"""

from __future__ import annotations

import numpy as np

from callgrove.formats.gpu.dataset import Stacks
from callgrove.formats.gpu.sqlite_file import MISSING
from callgrove.formats.gpu.tables import or_absent
from callgrove.model.arrays import ABSENT, Array, Bools, Ids, Ints

__all__ = ["addresses", "stacks_of", "symbol_of"]

MOST_UNKNOWN = 1024  # frames that a hole in the depths may stand for


def stacks_of(rows: dict[str, Array], lane: Ints, function: Ids, file: Ids, idle: Bools) -> Stacks:
    """The samples, by lane and time; frames from the outermost to the innermost."""
    depth = np.where(rows["stack_depth"] == MISSING, 0, rows["stack_depth"])
    inwards = _grows_inwards(depth, rows["parent_sample_id"])
    depth = depth if inwards else -depth
    order = np.lexsort((depth, rows["timestamp"], lane))
    when, where, depth = rows["timestamp"][order], lane[order], depth[order]
    new = np.append(True, (np.diff(when) != 0) | (np.diff(where) != 0))
    # frame k stands behind as many unknown ones as depths are missing before it
    step = np.where(new, depth if inwards else 0, np.diff(depth, prepend=0) - 1)
    missing = np.clip(step, 0, MOST_UNKNOWN)
    present = np.cumsum(missing + 1) - 1
    n = int(present[-1]) + 1
    frames = {"function": np.full(n, ABSENT, np.int32), "file": np.full(n, ABSENT, np.int32)}
    line = np.full(n, ABSENT, np.int64)
    frames["function"][present], frames["file"][present] = function[order], file[order]
    line[present] = or_absent(rows["line_number"])[order]
    bounds = np.append((present - missing)[new], n)
    kept = np.ones(n, np.bool_)
    kept[present] = ~idle[order]
    before = np.append(0, np.cumsum(kept))
    return Stacks(
        where[new].astype(np.int32),
        when[new],
        before[bounds],
        frames["function"][kept],
        frames["file"][kept],
        line[kept],
    )


def _grows_inwards(depth: Ints, parent: Ints) -> bool:
    """Is depth 0 the outermost frame? Then no frame there has a caller."""
    return not (parent[depth == depth.min()] != MISSING).any()


def addresses(texts: Array) -> Ints:
    """Addresses in text, like 0x7f3a...; -1 for anything else."""

    def number(text: str | None) -> int:
        try:
            found = int(text, 16) if text and text.lower().startswith("0x") else ABSENT
        except ValueError:
            return ABSENT
        return found if found < 2**63 else ABSENT

    return np.array([number(text) for text in texts.tolist()], np.int64)


def symbol_of(symbols: dict[str, Array], process: Ints, address: Ints) -> Ints:
    """The symbol of the process that starts last at or before each address and ends behind it; -1 where none does."""
    order = np.lexsort((symbols["start_address"], symbols["process_id"]))
    out = np.full(len(address), ABSENT, np.int64)
    for own in np.unique(process).tolist():
        rows = np.flatnonzero(process == own)
        here = order[symbols["process_id"][order] == own]
        place = np.searchsorted(symbols["start_address"][here], address[rows], side="right") - 1
        found = np.append(here, ABSENT)[place]
        inside = (place >= 0) & (address[rows] >= 0)
        inside &= np.append(symbols["end_address"], 0)[found] > address[rows]
        out[rows] = np.where(inside, found, ABSENT)
    return out
