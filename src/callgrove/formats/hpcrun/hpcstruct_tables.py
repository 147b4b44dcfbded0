"""What an .hpcstruct file says about the code of load modules, as flat tables made for looking up addresses.

scopes    one row per procedure, loop, call site of an inlined function, inlined function, statement, call;
          parents first, in the order of the file. From a statement up along `parent` lie the scopes around it
ranges    [lo, hi) of instructions and the statement or call they belong to: sorted by (module, lo), none overlap

    scope    kind         parent                        module 0    [0x2e60, 0x2e70) -> 2
    0        procedure    -1      kernmain, entry 0x2e00            [0x2e70, 0x2f80) -> 3
    1        loop          0      loops.cu:21, 0x2e60               [0x2f80, 0x3610) -> 6
    2, 3     statement     1      loops.cu:20, :21
    4        call site     1      loops.cu:31
    5        inlined       4      func2
    6        statement     5      loops.cu:16
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np

from callgrove.model.arrays import ABSENT, NO_OFFSET, Array, Ids, Ints, Offsets
from callgrove.model.orders import depths

__all__ = ["Chains", "Modules", "ScopeKind", "Scopes", "Structure"]


class ScopeKind(IntEnum):
    """What a tag stands for."""

    PROCEDURE = 0  # P
    LOOP = 1  # L
    CALL_SITE = 2  # the outer of two A: the line from which a function was inlined
    INLINED = 3  # the inner A
    STATEMENT = 4  # S
    CALL = 5  # C: a statement that is one call instruction


@dataclass(frozen=True)
class Modules:
    """Load modules. `has_calls` says whether their calls are listed, so that call paths can be made from them."""

    path: tuple[str, ...]
    has_calls: tuple[bool, ...]

    def __len__(self) -> int:
        return len(self.path)


@dataclass(frozen=True)
class Scopes:
    """`name`, `link_name`, `file` and `device` index the structure's strings; -1 is absent, line 0 is unknown.

    `file` is the one that the scope's own line is in: inherited where the tag does not say. `address` is the entry of a
    procedure, the first address of any other scope that has one; `target` the entry of what is called. `procedure` is
    the innermost P around the scope, for a P itself.
    """

    parent: Ids
    kind: Ids
    module: Ids
    procedure: Ids
    name: Ids
    link_name: Ids
    file: Ids
    line: Ids
    device: Ids
    address: Offsets
    target: Offsets
    tag_id: Ints  # the file's own `i`

    def __len__(self) -> int:
        return len(self.parent)

    @cached_property
    def depth(self) -> Ids:
        """0 for scopes without a parent."""
        return depths(self.parent)


@dataclass(frozen=True)
class Chains:
    """The scopes around some scopes, outermost first: chain k is `scope[bounds[k]:bounds[k + 1]]`."""

    bounds: Ints
    scope: Ids


@dataclass(frozen=True)
class Structure:
    """One file. `problems` says what was left out, `damage` why the file could not be read to its end."""

    version: str
    modules: Modules
    scopes: Scopes
    range_bounds: Ints  # module m has the ranges [range_bounds[m], range_bounds[m + 1])
    range_lo: Offsets
    range_hi: Offsets
    range_scope: Ids
    strings: tuple[str, ...]
    problems: tuple[str, ...] = ()
    damage: str = ""

    def module(self, path: str) -> int:
        """The number of the module at that path, or -1."""
        return self.modules.path.index(path) if path in self.modules.path else ABSENT

    def lookup(self, module: int, addresses: Array) -> Ids:
        """The statement or call that each address belongs to; -1 in a gap. Addresses are offsets in the module."""
        first, last = (int(b) for b in self.range_bounds[module : module + 2])
        wanted = np.asarray(addresses, np.uint64)
        lo, hi = self.range_lo[first:last], self.range_hi[first:last]
        at = np.searchsorted(lo, wanted, side="right") - 1
        inside = at >= 0
        inside[inside] = wanted[inside] < hi[at[inside]]
        found = np.full(len(wanted), ABSENT, np.int32)
        found[inside] = self.range_scope[first:last][at[inside]]
        return found

    def chains(self, scopes: Array) -> Chains:
        """From the procedure down to each of `scopes`; the chain of -1 is empty."""
        start = np.asarray(scopes, np.int32)
        depth = np.append(self.scopes.depth, np.int32(-1))  # -1 picks the last
        bounds = np.concatenate([[0], np.cumsum(depth[start] + 1)]).astype(np.int64)
        out = np.empty(int(bounds[-1]), np.int32)
        at, rest = bounds[1:] - 1, start
        while (more := rest >= 0).any():
            at, rest = at[more], rest[more]
            out[at] = rest
            at, rest = at - 1, self.scopes.parent[rest]
        return Chains(bounds, out)

    @cached_property
    def entries(self) -> Mapping[tuple[int, int], int]:
        """(module, entry address) -> procedure. Of several procedures with one entry the first counts."""
        rows = np.flatnonzero((self.scopes.kind == ScopeKind.PROCEDURE) & (self.scopes.address != NO_OFFSET))[::-1]
        keys = zip(self.scopes.module[rows].tolist(), self.scopes.address[rows].tolist(), strict=True)
        return dict(zip(keys, rows.tolist(), strict=True))

    def calls(self, module: int) -> Ids:
        """Calls of a module whose target is known: the edges of its call graph, from `procedure` to `target`."""
        scopes = self.scopes
        known = (scopes.kind == ScopeKind.CALL) & (scopes.target != NO_OFFSET) & (scopes.module == module)
        return np.flatnonzero(known).astype(np.int32)

    def text(self, number: int) -> str:
        """A string by its number; absent is empty."""
        return self.strings[number] if number >= 0 else ""
