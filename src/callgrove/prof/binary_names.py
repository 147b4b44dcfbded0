"""What a binary says about some of its addresses, apart from any experiment, with C++ names demangled.

    known      addresses that were looked up, also those about which nothing is known
    symbols    address -> the symbol that covers it
    units      where a compilation unit begins in .debug_info -> what it says

A unit is read as a whole when it has one of the addresses. What is said about an address comes from such units, one by
one, and only `chains` puts it together: which of two files that a line may be in was mentioned first depends on all the
units that the addresses of a measurement lie in. So the answer is the same, whatever else was looked up before.
"""

from __future__ import annotations

import ctypes
import ctypes.util
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from callgrove.arrays import ABSENT, Offsets
from callgrove.model.contexts import Relation
from callgrove.prof.contexts import ScopeChains, ScopeTable

__all__ = ["UNKNOWN_FILE", "BinaryNames", "Described", "Frame", "Place", "Symbol", "UnitNames", "chains", "demangle"]


UNKNOWN_FILE = "???"


class Symbol(NamedTuple):
    """A row of the symbol table."""

    row: int
    name: str
    address: int


class Described(NamedTuple):
    """A function: its name, where it is declared, and the lowest address at which it, or a copy, is entered."""

    name: str
    file: str
    line: int
    entry: int


class Frame(NamedTuple):
    """A function around an address, by where it is described; of an inlined one, also where it was called."""

    origin: int
    is_inlined: bool
    call_file: str
    call_line: int


class Place(NamedTuple):
    """What a unit says about an address: the functions around it, the outermost first, and the lines that the last row
    of the line table at or before it may mean; `row_at` is where that row is, -1 where there is none."""

    frames: tuple[Frame, ...]
    row_at: int
    lines: tuple[tuple[str, int], ...]


@dataclass
class UnitNames:
    """`files` in the order in which the unit mentions them; functions by where they are described. Those which are
    described in another unit are all there, as others may describe them too."""

    files: tuple[str, ...]
    functions: dict[int, Described] = field(default_factory=dict)
    places: dict[int, Place] = field(default_factory=dict)


@dataclass
class BinaryNames:
    """What is known so far."""

    known: set[int] = field(default_factory=set)
    symbols: dict[int, Symbol] = field(default_factory=dict)
    units: dict[int, UnitNames] = field(default_factory=dict)

    def missing(self, offsets: Offsets) -> Offsets:
        """Addresses that were not looked up."""
        return np.array([offset for offset in offsets.tolist() if offset not in self.known], np.uint64)

    def add(self, other: BinaryNames) -> None:
        """Know that as well; both are of the same binary."""
        self.known |= other.known
        self.symbols |= other.symbols
        for at, unit in other.units.items():
            known = self.units.setdefault(at, unit)
            known.functions |= unit.functions
            known.places |= unit.places


def chains(names: BinaryNames, offsets: Offsets, scopes: ScopeTable, module: int) -> ScopeChains:
    """Return the scopes around addresses, all of which were looked up."""
    wanted = offsets.tolist()
    units = [unit for _, unit in sorted(names.units.items()) if not unit.places.keys().isdisjoint(wanted)]
    joined = _Joined(units, scopes, module)
    bounds, scope, relation = [0], list[int](), list[int]()
    for address in wanted:
        steps = joined.steps(address)
        if not steps and address in names.symbols:
            symbol = names.symbols[address]
            identity = ("symbol", module, symbol.row)
            number = scopes.function(identity, symbol.name, ABSENT, ABSENT, module, symbol.address)
            steps = [(number, int(Relation.CALL))]
        scope += [one for one, _ in steps]
        relation += [one for _, one in steps]
        bounds.append(len(scope))
    return ScopeChains(np.array(bounds, np.int64), np.array(scope, np.int32), np.array(relation, np.int32))


class _Joined:
    """What units say together."""

    def __init__(self, units: Iterable[UnitNames], scopes: ScopeTable, module: int) -> None:
        self._units, self._scopes, self._module = list(units), scopes, module
        files = dict.fromkeys(file for unit in self._units for file in unit.files)
        self._rank: Mapping[str, int] = {file: rank for rank, file in enumerate(files)}
        self._functions: dict[int, Described] = {}
        for unit in self._units:
            for origin, said in unit.functions.items():
                known = self._functions.setdefault(origin, said)
                self._functions[origin] = known._replace(entry=min(known.entry, said.entry))

    def steps(self, address: int) -> list[tuple[int, int]]:
        """(scope, relation) from the outermost function to the line."""
        said = [unit.places[address] for unit in self._units if address in unit.places]
        frames = max((place.frames for place in said), key=len, default=())
        if not frames:
            return []
        steps: list[tuple[int, int]] = []
        for frame in frames:
            if frame.is_inlined and steps:
                steps.append((self._line(frame.call_file, frame.call_line), int(Relation.LEXICAL)))
                steps.append((self._function(frame.origin), int(Relation.INLINED)))
            else:
                steps.append((self._function(frame.origin), int(Relation.LEXICAL if steps else Relation.CALL)))
        last = max(place.row_at for place in said)
        lines = [line for place in said if place.row_at == last for line in place.lines]
        if lines:
            file, line = min(lines, key=lambda one: (self._rank[one[0]], one[1]))
            steps.append((self._line(file, line), int(Relation.LEXICAL)))
        return steps

    def _function(self, origin: int) -> int:
        said = self._functions[origin]
        file, identity = self._scopes.builder.file(said.file), ("dwarf", self._module, origin)
        return self._scopes.function(identity, said.name, file, max(said.line, 0), self._module, said.entry)

    def _line(self, file: str, line: int) -> int:
        return self._scopes.line(self._scopes.builder.file(file), line)


# -- demangling --------------------------------------------------------------------------------------------------------
# It is done by the C++ runtime of this machine.


NO_FUNCTIONS = ("T", "G")  # after _Z: tables, thunks, guards
ANONYMOUS = "(anonymous namespace)"


@lru_cache(maxsize=1)
def _demangler() -> Any:
    """Return the demangler of the C++ runtime, where there is one."""
    for name in ("libstdc++.so.6", "libc++abi.so.1", ctypes.util.find_library("stdc++")):
        try:
            library = ctypes.CDLL(name) if name else None
        except OSError:
            continue
        if library is not None and hasattr(library, "__cxa_demangle"):
            function = library["__cxa_demangle"]
            function.restype = ctypes.c_void_p
            function.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)]
            free = ctypes.CDLL(None).free
            free.argtypes = [ctypes.c_void_p]
            return function, free
    return None


def demangle(name: str) -> str:
    """Return a C++ name as people write it, with its parameters and without its return type; any other name as it
    is."""
    if not name.startswith("_Z") or _demangler() is None:
        return name
    demangle, free = _demangler()
    status = ctypes.c_int()
    made = demangle(name.encode("utf-8", "replace"), None, None, ctypes.byref(status))
    if not made:
        return name
    text = ctypes.string_at(made).decode("utf-8", "backslashreplace")
    free(made)
    return _without_return_type(text) if name[2:3] not in NO_FUNCTIONS else text


def _without_return_type(text: str) -> str:
    """Only templates have one: what stands before the last space outside of brackets, up to the parameters. Names of
    operators have spaces and brackets of their own, and are left as they are."""
    if "operator" in text or text.startswith("decltype"):
        return text
    depth, start = 0, 0
    for at, character in enumerate(text):
        if character == "(" and depth == 0 and not text.startswith(ANONYMOUS, at):
            return text[start:]
        depth += (character in "<({[") - (character in ">)}]")
        if character == " " and depth == 0:
            start = at + 1
    return text
