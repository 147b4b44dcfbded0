"""The nodes of one file, brought to the rules that all files share (hpcrun-and-prof.md 6.1).

    ^Primary                      the root: global, no context
    |-- ^Partial                  unknown entry
    |-- | Main  , | Thread        main thread, application thread
    `-- NoActvty                  idle; released databases: global itself

Anything else that stands directly below the root goes below the unknown entry, unless the target wants it where it is;
in 02.00, which has no such fences, below the entry of the file's thread. Nodes in no known module are unknown. Nodes
about outlined ranges of GPU code (modules 65531 to 65533) are the unknown entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from callgrove.errors import CorruptFile
from callgrove.formats.hpcrun import placeholders
from callgrove.formats.hpcrun import records as rec
from callgrove.formats.hpcrun.measurement import Epoch, Measurement
from callgrove.formats.hpcrun.placeholders import code_number
from callgrove.formats.hpcrun.regions import FIRST_MODULE, OUTLINED, UNKNOWN_MODULE, places_of
from callgrove.model.arrays import ABSENT, Bools, Ids, Ints, Offsets
from callgrove.prof.raw_tree import BARE, CODE

__all__ = ["IDLE", "MAIN", "PARTIAL", "ROOT", "THREAD", "UNKNOWN", "Flavour", "normal_nodes"]

ROOT, PARTIAL, UNKNOWN, IDLE, MAIN, THREAD = (
    code_number(code)
    for code in (
        placeholders.ROOT,
        placeholders.PARTIAL,
        placeholders.UNKNOWN,
        placeholders.NO_ACTIVITY,
        placeholders.ENTRIES["main thread"],
        placeholders.ENTRIES["application thread"],
    )
)


@dataclass(frozen=True)
class Flavour:
    """What differs between targets: `demotes` puts what stands directly below the root below the unknown entry;
    `has_idle` keeps idle as a context, and every idle sample."""

    demotes: bool = True
    has_idle: bool = False


def normal_nodes(
    measurement: Measurement, epoch: Epoch, modules: Mapping[str, int], flavour: Flavour, path: Path
) -> tuple[Ids, Ints, Offsets]:
    """Parent, place and offset of every node of a file, in its order; entries that were added come last."""
    return _Nodes(measurement, epoch, modules, path).normal(flavour)


class _Nodes:
    def __init__(self, measurement: Measurement, epoch: Epoch, modules: Mapping[str, int], path: Path) -> None:
        self.path, self.measurement, self.nodes = path, measurement, epoch.nodes
        place, offset = places_of(epoch, modules, measurement.is_old)
        unknown = place == UNKNOWN_MODULE
        self.above, self.offset = epoch.nodes.above.copy(), np.where(unknown, np.uint64(UNKNOWN), offset)
        self.place: Ints = np.where(place >= FIRST_MODULE, 2 * (place - FIRST_MODULE + 1), CODE).astype(np.int64)
        self.is_code: Bools = self.place == CODE
        self.is_outlined: Bools = (epoch.nodes.lm >= min(OUTLINED)) & (epoch.nodes.lm <= max(OUTLINED)) & unknown
        self.is_idle: Bools = self._has_code(IDLE)
        self.added: list[tuple[int, int]] = []  # parent and code

    def _has_code(self, code: int) -> Bools:
        found: Bools = self.is_code & (self.offset == code)
        return found

    def normal(self, flavour: Flavour) -> tuple[Ids, Ints, Offsets]:
        root = self._root()
        self._mark_bare()
        tops = (self.above < 0) | self.is_idle
        below_root = (self.above >= 0) & tops[self.above] & ~tops & ~self.is_outlined
        misplaced = np.flatnonzero(self._has_code(PARTIAL) & ~below_root)
        if len(misplaced):
            raise self._wrong(int(misplaced[0]), "partial call paths directly below the root", "them elsewhere")
        self._put(below_root, root)
        self._put(self.is_idle, root if flavour.has_idle else ABSENT, IDLE if flavour.has_idle else ROOT)
        self._put(self.is_outlined, root, PARTIAL)
        if not self.measurement.is_old:
            self._put(below_root & self._has_code(UNKNOWN), root, PARTIAL)
        self._go_below_entry(below_root, root, flavour)
        n = len(self.added)
        if not n:
            return self.above, self.place, self.offset
        return (
            np.append(self.above, np.array([above for above, _ in self.added], np.int32)),
            np.append(self.place, np.full(n, CODE)).astype(np.int64),
            np.append(self.offset, np.array([code for _, code in self.added], np.uint64)),
        )

    def _root(self) -> int:
        """The position of the root; one is added where only outlined ranges have none above them."""
        tops = self.above < 0
        wrong = np.flatnonzero(tops & ~self._has_code(ROOT) & ~self.is_outlined)
        if len(wrong):
            row = int(wrong[0])
            found = f"module {self.nodes.lm[row]}, address {int(self.nodes.ip[row]):#x}"
            raise self._wrong(row, "the root of the tree", found, "invalid root node")
        roots = np.flatnonzero(tops & ~self.is_outlined)
        return int(roots[0]) if len(roots) else self._add(ABSENT, ROOT)

    def _mark_bare(self) -> None:
        flags = self.nodes.flags
        if flags is not None:
            bare = (flags & rec.UNWOUND == 0) & ~self.is_code
            if not bare.any():
                return
            inner = np.flatnonzero(bare & self.nodes.has_children)
            if len(inner):
                raise self._wrong(int(inner[0]), "no calls below a node that was not unwound", "some")
            self.place += BARE * bare

    def _put(self, rows: Bools, above: int, code: int | None = None) -> None:
        self.above[rows] = above
        if code is not None:
            self.offset[rows] = code

    def _go_below_entry(self, below_root: Bools, root: int, flavour: Flavour) -> None:
        """What stands directly below the root and is no entry."""
        rest = below_root & ~(self._has_code(PARTIAL) | self._has_code(MAIN) | self._has_code(THREAD))
        if not rest.any():
            return
        if self.measurement.is_old:
            is_main = self.measurement.value("thread-id") in ("", "0")
            self._put(rest, self._add(root, MAIN if is_main else THREAD))
        elif flavour.demotes:
            self._put(rest, self._add(root, PARTIAL))

    def _add(self, above: int, code: int) -> int:
        """One more node; gives its position."""
        self.added.append((above, code))
        return len(self.place) + len(self.added) - 1

    def _wrong(self, row: int, expected: str, found: str, remedy: str = "") -> CorruptFile:
        node = f"{found} (node {self.nodes.id[row]})"
        return CorruptFile(self.path, "cct", expected=expected, found=node, remedy=remedy)
