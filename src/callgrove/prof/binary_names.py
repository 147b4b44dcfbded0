"""What a binary says about some of its addresses: symbols, debugging information (DWARF), C++ names in full.

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
import os.path
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from callgrove.arrays import ABSENT, Ints, Offsets
from callgrove.formats.hpcrun.regions import readable
from callgrove.model.contexts import LAST_LINE, Relation
from callgrove.prof.contexts import ScopeChains, ScopeTable

__all__ = [
    "UNKNOWN_FILE",
    "BinaryNames",
    "Described",
    "Frame",
    "Place",
    "Symbol",
    "UnitNames",
    "chains",
    "demangle",
    "units_of",
]


# -- names of addresses ------------------------------------------------------------------------------------------------


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
        """Return the addresses that were not looked up."""
        return np.array([offset for offset in offsets.tolist() if offset not in self.known], np.uint64)

    def add(self, other: BinaryNames) -> None:
        """Add what another one knows; both are of the same binary."""
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
        """Return (scope, relation) from the outermost function to the line."""
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
    return _remove_return_type(text) if name[2:3] not in NO_FUNCTIONS else text


def _remove_return_type(text: str) -> str:
    """Return a name without its return type. Only templates have one: what stands before the last space outside of
    brackets, up to the parameters. Names of operators have spaces and brackets of their own, and are left as they
    are."""
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


# -- debugging information ---------------------------------------------------------------------------------------------
#     function -> [line of the call -> inlined function -> ...] -> line
#
# The innermost function that covers an address has it. Copies of one function (inlined or not) are one: the smallest
# of their addresses is its own. Lines come from the line table: the last row at or before the address; several rows
# may have that address, and binary_names.py chooses among them. Only units that have an address in question are read.


Ranges = list[tuple[int, int]]
SUBPROGRAM, INLINED = "DW_TAG_subprogram", "DW_TAG_inlined_subroutine"


@dataclass
class _Function:
    """A piece of code: a function, or a place where one was inlined."""

    above: int
    depth: int
    ranges: Ranges
    frame: Frame


@dataclass
class _Rows:
    """Rows of the line table; `file` is its number in the order of mention. The end of a sequence has line -1."""

    address: list[int] = field(default_factory=list)
    file: list[int] = field(default_factory=list)
    line: list[int] = field(default_factory=list)


def units_of(dwarf: Any, offsets: Offsets) -> dict[int, UnitNames]:
    """Return what the units that have some of the addresses say about these. One that does not say where its code is
    may have any of them."""
    out: dict[int, UnitNames] = {}
    for unit in dwarf.iter_CUs():
        ranges = list(_ranges(unit.get_top_DIE(), unit, dwarf))
        inside = np.full(len(offsets), not ranges, np.bool_)
        for low, high in ranges:
            inside |= (offsets >= np.uint64(low)) & (offsets < np.uint64(high))
        if inside.any():
            out[int(unit.cu_offset)] = _Unit(dwarf, unit).names(offsets[inside])
    return out


class _Unit:
    """One compilation unit."""

    def __init__(self, dwarf: Any, unit: Any) -> None:
        self._dwarf, self._unit = dwarf, unit
        self._functions: list[_Function] = []
        self._described: dict[int, Described] = {}
        self._files: dict[str, int] = {}  # in the order in which they are mentioned
        self._rows = _Rows()
        self._read()

    def names(self, offsets: Offsets) -> UnitNames:
        """Return what is said about addresses."""
        owners, lines = self._owners(offsets), self._lines(offsets)
        frames = {number: self._frames(number) for number in set(owners)}
        places = {
            address: Place(frames[owner], *line)
            for address, owner, line in zip(offsets.tolist(), owners, lines, strict=True)
        }
        used = {frame.origin for path in frames.values() for frame in path}
        begin = int(self._unit.cu_offset)
        end = begin + int(self._unit.size)
        functions = {at: said for at, said in self._described.items() if at in used or not begin <= at < end}
        return UnitNames(tuple(self._files), functions, places)

    # -- reading -----------------------------------------------------------------------------------------------

    def _read(self) -> None:
        top = self._unit.get_top_DIE()
        program = self._dwarf.line_program_for_CU(self._unit)
        paths = _paths(program, _text(top, "DW_AT_comp_dir")) if program is not None else {}
        pending = [(top, ABSENT, 0)]
        while pending:
            die, above, depth = pending.pop()
            if die.tag in (SUBPROGRAM, INLINED):
                above, depth = self._add(die, paths, above, depth)
            if die.has_children:
                pending += [(child, above, depth) for child in reversed(list(die.iter_children()))]
        if program is not None:
            self._add_rows(program, paths)

    def _add(self, die: Any, paths: dict[int, str], above: int, depth: int) -> tuple[int, int]:
        """Note a function that has code; return what stands above its children."""
        ranges = list(_ranges(die, self._unit, self._dwarf))
        if not ranges:
            return above, depth
        origin, entry = _origin(die), _entry(die, ranges)
        if (known := self._described.get(origin.offset)) is not None:
            self._described[origin.offset] = known._replace(entry=min(known.entry, entry))
        else:
            self._described[origin.offset] = self._description(die, origin, paths, entry)
        is_inlined = die.tag == INLINED
        call_file = paths.get(_number(die, "DW_AT_call_file"), UNKNOWN_FILE) if is_inlined else ""
        if call_file and call_file != UNKNOWN_FILE:
            self._files.setdefault(call_file, len(self._files))
        frame = Frame(int(origin.offset), is_inlined, call_file, max(_number(die, "DW_AT_call_line"), 0))
        self._functions.append(_Function(above, depth + 1, ranges, frame))
        return len(self._functions) - 1, depth + 1

    def _description(self, die: Any, origin: Any, paths: dict[int, str], entry: int) -> Described:
        """Name and declaration, from the description itself or what it completes."""
        said = [die, origin]
        if (declared := _follow_reference(origin, "DW_AT_specification")) is not None:
            said.append(declared)
        links = [_text(one, word) for one in said for word in ("DW_AT_linkage_name", "DW_AT_MIPS_linkage_name")]
        names = [_text(one, "DW_AT_name") for one in said]
        name = next((text for text in (*links, *names) if text), "")
        file = next((paths[n] for one in said if (n := _number(one, "DW_AT_decl_file")) in paths), "")
        line = next((n for one in said if (n := _number(one, "DW_AT_decl_line")) >= 0), 0)
        if file:
            self._files.setdefault(file, len(self._files))
        return Described(demangle(readable(name)), file, line, entry)

    def _add_rows(self, program: Any, paths: dict[int, str]) -> None:
        rows = self._rows
        for state in (entry.state for entry in program.get_entries()):
            if state is None:
                continue
            rows.address.append(state.address)
            path = paths.get(state.file, UNKNOWN_FILE)
            rows.file.append(self._files.setdefault(path, len(self._files)))
            rows.line.append(ABSENT if state.end_sequence else min(state.line, LAST_LINE))

    # -- looking up --------------------------------------------------------------------------------------------

    def _owners(self, offsets: Offsets) -> list[int]:
        """Return the innermost function of each address, of several beside each other the first; -1 where there is
        none."""
        order = np.argsort(offsets, kind="stable")
        wanted = offsets[order]
        owner = np.full(len(offsets), ABSENT, np.int64)
        for number in sorted(range(len(self._functions)), key=lambda k: (self._functions[k].depth, -k)):
            for low, high in self._functions[number].ranges:
                first, last = np.searchsorted(wanted, np.array([low, high], np.uint64))
                owner[order[first:last]] = number
        owners: list[int] = owner.tolist()
        return owners

    def _lines(self, offsets: Offsets) -> list[tuple[int, tuple[tuple[str, int], ...]]]:
        """Return where the last row at or before each address is, and the lines that rows there have."""
        address, file = np.array(self._rows.address, np.uint64), np.array(self._rows.file, np.int64)
        line: Ints = np.array(self._rows.line, np.int64)
        order = np.lexsort((line, file, address))
        starts = address[order]
        ends = np.searchsorted(starts, offsets, side="right")
        begins = np.searchsorted(starts, starts[np.maximum(ends - 1, 0)]) if len(starts) else ends
        files = list(self._files)
        out: list[tuple[int, tuple[tuple[str, int], ...]]] = []
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
            rows = order[begin:end].tolist()
            places = dict.fromkeys((files[file[row]], int(line[row])) for row in rows if line[row] >= 0)
            out.append((int(address[rows[0]]) if rows else ABSENT, tuple(places)))
        return out

    def _frames(self, number: int) -> tuple[Frame, ...]:
        """Return the frames from the outermost function to this one."""
        path: list[Frame] = []
        while number >= 0:
            path.append(self._functions[number].frame)
            number = self._functions[number].above
        return tuple(reversed(path))


def _ranges(die: Any, unit: Any, dwarf: Any) -> Iterator[tuple[int, int]]:
    """Yield the addresses of a description."""
    low = die.attributes.get("DW_AT_low_pc")
    high = die.attributes.get("DW_AT_high_pc")
    if low is not None and high is not None:
        is_address = high.form.startswith("DW_FORM_addr")
        end = high.value if is_address else low.value + high.value
        if end > low.value:
            yield low.value, end
        return
    listed = die.attributes.get("DW_AT_ranges")
    if listed is not None:
        yield from _list_ranges(listed.value, unit, dwarf)


def _list_ranges(offset: int, unit: Any, dwarf: Any) -> Iterator[tuple[int, int]]:
    low = unit.get_top_DIE().attributes.get("DW_AT_low_pc")
    base = low.value if low is not None else 0
    lists = dwarf.range_lists()
    if lists is None:
        return
    for entry in lists.get_range_list_at_offset(offset, unit):
        if hasattr(entry, "base_address"):
            base = entry.base_address
            continue
        shift = 0 if getattr(entry, "is_absolute", False) else base
        if entry.end_offset > entry.begin_offset:
            yield shift + entry.begin_offset, shift + entry.end_offset


def _follow_reference(die: Any, word: str) -> Any:
    return die.get_DIE_from_attribute(word) if word in die.attributes else None


def _origin(die: Any) -> Any:
    """Return where a function is described: the end of its chain of origins."""
    for _ in range(16):
        above = _follow_reference(die, "DW_AT_abstract_origin")
        if above is None:
            break
        die = above
    return die


def _entry(die: Any, ranges: Ranges) -> int:
    """Return where a function, or a copy of it, is entered: not always at the lowest of its addresses."""
    said = die.attributes.get("DW_AT_entry_pc")
    if said is not None and said.form.startswith("DW_FORM_addr"):
        return int(said.value)
    low = ranges[0][0]
    return low + int(said.value) if said is not None else low


def _number(die: Any, word: str) -> int:
    attribute = die.attributes.get(word)
    return int(attribute.value) if attribute is not None else ABSENT


def _text(die: Any, word: str) -> str:
    attribute = die.attributes.get(word)
    if attribute is None or not isinstance(attribute.value, bytes):
        return ""
    return readable(attribute.value.decode("utf-8", "surrogateescape"))


def _paths(program: Any, comp_dir: str) -> dict[int, str]:
    """Return the files of a line table by their numbers there, which begin at 0 since DWARF 5 and at 1 before."""
    header = program.header
    version, out = header["version"], {}
    folders = [readable(folder.decode("utf-8", "surrogateescape")) for folder in header["include_directory"]]
    if version < 5:
        folders = [comp_dir, *folders]
    for number, entry in enumerate(header["file_entry"], 0 if version >= 5 else 1):
        name = readable(entry.name.decode("utf-8", "surrogateescape"))
        folder = folders[entry.dir_index] if entry.dir_index < len(folders) else ""
        out[number] = _join_path(comp_dir, folder, name)
    return out


def _join_path(*parts: str) -> str:
    """Return a path of parts, each below those before unless it is absolute; a relative one stays as it is spelled."""
    path = ""
    for part in parts:
        path = part if part.startswith("/") or not path else f"{path}/{part}" if part else path
    return os.path.normpath(path) if path.startswith("/") else path
