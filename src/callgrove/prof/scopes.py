"""What contexts execute: functions, loops, lines, instructions, placeholders, each with a number of its own.

Two contexts below one parent are one where their scopes and relations are equal. What makes scopes equal is not always
what makes regions equal: two inlined copies of a function are two scopes of one region.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable
from typing import NamedTuple

import numpy as np

from callgrove.formats.hpcrun import placeholders
from callgrove.formats.hpcrun.regions import readable
from callgrove.model.arrays import ABSENT, Array, Ids, Ints, Offsets
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import LAST_LINE, ContextKind
from callgrove.prof.nodes import IDLE, MAIN, PARTIAL, THREAD, UNKNOWN

__all__ = ["ENTRY_NAMES", "ScopeChains", "ScopeTable"]

ENTRY_NAMES = {PARTIAL: "unknown entry", MAIN: "main thread", THREAD: "application thread"}
UNKNOWN_FUNCTION = "<unknown function>"


class ScopeChains(NamedTuple):
    """Scopes around some addresses, outermost first: those of address k are `scope[bounds[k]:bounds[k + 1]]`."""

    bounds: Ints
    scope: Ids
    relation: Ids

    @classmethod
    def none(cls, n: int) -> ScopeChains:
        """Nothing is known about n addresses."""
        empty = np.empty(0, np.int32)
        return cls(np.zeros(n + 1, np.int64), empty, empty)


class ScopeTable:
    """All scopes that occur, with the kind and the region of each; there is always a number 0, for what is above all
    entries."""

    def __init__(self, builder: ExperimentBuilder) -> None:
        self.builder = builder
        self._known: dict[Hashable, int] = {}
        self._kind, self._region = array("i"), array("i")

    @property
    def kind(self) -> Ids:
        return np.array(self._kind or [ContextKind.UNKNOWN], np.int32)

    @property
    def region(self) -> Ids:
        return np.array(self._region or [ABSENT], np.int32)

    def add(self, identity: Hashable, kind: ContextKind, region: int) -> int:
        """The scope with that identity; what is said first about it stays."""
        number = self._known.setdefault(identity, len(self._kind))
        if number == len(self._kind):
            self._kind.append(kind)
            self._region.append(region)
        return number

    def function(self, identity: Hashable, name: str, file: int, line: int, module: int, offset: int | None) -> int:
        """A function, or an inlined one: `identity` tells copies of it apart."""
        return self.add(
            identity, ContextKind.FUNCTION, self._place(ContextKind.FUNCTION, name, file, line, module, offset)
        )

    def line(self, file: int, line: int) -> int:
        return self.add(("line", file, line), ContextKind.LINE, self._place(ContextKind.LINE, "", file, line))

    def loop(self, file: int, line: int, module: int, offset: int | None) -> int:
        region = self._place(ContextKind.LOOP, "", file, line, module, offset)
        return self.add(("loop", file, line, module, offset), ContextKind.LOOP, region)

    def _place(
        self, kind: ContextKind, name: str, file: int, line: int, module: int = ABSENT, offset: int | None = None
    ) -> int:
        known = line if file >= 0 and line <= LAST_LINE else ABSENT
        return self.builder.region(kind, name, file=file, line=known, module=module, offset=offset)

    def entry(self, code: int) -> int:
        """An entry point."""
        name = ENTRY_NAMES[code]
        return self.add(("entry", code), ContextKind.ENTRY, self.builder.region(ContextKind.ENTRY, name))

    def placeholder(self, code: int) -> int:
        """What a node of module 0 stands for."""
        if code == UNKNOWN:
            region = self.builder.region(ContextKind.UNKNOWN, UNKNOWN_FUNCTION)
            return self.add("unknown", ContextKind.UNKNOWN, region)
        name = "<no activity>" if code == IDLE else placeholders.described(code)[1]
        region = self.builder.region(ContextKind.PLACEHOLDER, readable(name))
        return self.add(("placeholder", code), ContextKind.PLACEHOLDER, region)

    def instructions(self, module: int, offset: Offsets) -> Ids:
        """Instructions of a module, which must not have been asked for before."""
        first = len(self._kind)
        regions = self.builder.addresses(ContextKind.INSTRUCTION, np.full(len(offset), module), offset)
        self._kind.frombytes(np.full(len(offset), ContextKind.INSTRUCTION, np.int32).tobytes())
        self._region.frombytes(np.asarray(regions, np.int32).tobytes())
        return np.arange(first, first + len(offset), dtype=np.int32)


def concatenated(parts: list[ScopeChains], last: Array, relation: Array) -> ScopeChains:
    """The chains of all parts, one after the other, each with one more scope at its end."""
    lengths = np.concatenate([np.diff(part.bounds) for part in parts]) if parts else np.empty(0, np.int64)
    bounds = np.append(0, np.cumsum(lengths + 1))
    ends = bounds[1:] - 1
    inner = np.ones(int(bounds[-1]), np.bool_)
    inner[ends] = False
    out = [np.empty(len(inner), np.int32) for _ in range(2)]
    for column, (one, final) in zip(out, (("scope", last), ("relation", relation)), strict=True):
        column[inner] = np.concatenate([getattr(part, one) for part in parts]) if parts else []
        column[ends] = final
    return ScopeChains(bounds, *out)
