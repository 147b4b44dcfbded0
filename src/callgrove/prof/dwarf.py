"""Debugging information: which function, inlined functions and line an address belongs to.

    function -> [line of the call -> inlined function -> ...] -> line

The innermost function that covers an address has it. Copies of one function (inlined or not) are one: the smallest of
their addresses is its own. Lines come from the line table: the last row at or before the address; of several rows at
one address, the one whose file was mentioned first, then the smallest line.
"""

from __future__ import annotations

import os.path
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from callgrove.formats.hpcrun.regions import readable
from callgrove.model.arrays import ABSENT, Offsets
from callgrove.model.contexts import LAST_LINE, Relation
from callgrove.prof.demangling import demangled
from callgrove.prof.scopes import ScopeTable

__all__ = ["Units"]

Chain = tuple[tuple[int, int], ...]  # (scope, relation) of each step
Ranges = list[tuple[int, int]]
SUBPROGRAM, INLINED = "DW_TAG_subprogram", "DW_TAG_inlined_subroutine"
UNKNOWN_FILE = "???"


@dataclass
class _Function:
    """A piece of code: a function, or a place where one was inlined."""

    above: int
    depth: int
    ranges: Ranges
    origin: int  # where the function is described
    is_inlined: bool
    call_file: str
    call_line: int


@dataclass
class _Described:
    """What is said about a function."""

    name: str
    file: str
    line: int
    offset: int


@dataclass
class _Rows:
    """Rows of line tables; `rank` is that of the file. The end of a sequence has line -1."""

    address: list[int] = field(default_factory=list)
    rank: list[int] = field(default_factory=list)
    line: list[int] = field(default_factory=list)


class Units:
    """The compilation units of one binary."""

    def __init__(self, dwarf: Any, scopes: ScopeTable, module: int) -> None:
        self._dwarf, self._scopes, self._module = dwarf, scopes, module
        self._functions: list[_Function] = []
        self._described: dict[int, _Described] = {}
        self._files: dict[str, int] = {}  # in the order in which they are mentioned
        self._rows = _Rows()

    def chains(self, offsets: Offsets) -> list[Chain]:
        """The steps to each address; none where no function covers it."""
        for unit in self._dwarf.iter_CUs():
            top = unit.get_top_DIE()
            ranges = list(self._ranges(top, unit))
            if ranges and not any(_has_any(offsets, *one) for one in ranges):
                continue
            self._read(unit, top)
        owner = self._owners(offsets)
        lines = self._lines(offsets)
        known: dict[int, Chain] = {ABSENT: ()}
        out: list[Chain] = []
        for number, place in zip(owner, lines, strict=True):
            if number not in known:
                known[number] = self._chain(number)
            chain = known[number]
            if chain and place is not None:
                chain = (*chain, (self._line(*place), int(Relation.LEXICAL)))
            out.append(chain)
        return out

    # -- reading -----------------------------------------------------------------------------------------------

    def _read(self, unit: Any, top: Any) -> None:
        program = self._dwarf.line_program_for_CU(unit)
        comp_dir = _text(top, "DW_AT_comp_dir")
        paths = _paths(program, comp_dir) if program is not None else {}
        pending = [(top, ABSENT, 0)]
        while pending:
            die, above, depth = pending.pop()
            if die.tag in (SUBPROGRAM, INLINED):
                above, depth = self._add(die, unit, paths, above, depth)
            if die.has_children:
                pending += [(child, above, depth) for child in reversed(list(die.iter_children()))]
        if program is not None:
            self._add_rows(program, paths)

    def _add(self, die: Any, unit: Any, paths: dict[int, str], above: int, depth: int) -> tuple[int, int]:
        """Note a function that has code; gives what stands above its children."""
        ranges = list(self._ranges(die, unit))
        if not ranges:
            return above, depth
        origin = _origin(die)
        offset = _entry(die, ranges)
        if origin.offset in self._described:
            known = self._described[origin.offset]
            known.offset = min(known.offset, offset)
        else:
            self._described[origin.offset] = self._description(die, origin, paths, offset)
        is_inlined = die.tag == INLINED
        call_file = paths.get(_number(die, "DW_AT_call_file"), UNKNOWN_FILE) if is_inlined else ""
        if call_file and call_file != UNKNOWN_FILE:
            self._files.setdefault(call_file, len(self._files))
        call_line = max(_number(die, "DW_AT_call_line"), 0)
        self._functions.append(_Function(above, depth + 1, ranges, origin.offset, is_inlined, call_file, call_line))
        return len(self._functions) - 1, depth + 1

    def _description(self, die: Any, origin: Any, paths: dict[int, str], offset: int) -> _Described:
        """Name and declaration, from the description itself or what it completes."""
        said = [die, origin]
        if (declared := _referred(origin, "DW_AT_specification")) is not None:
            said.append(declared)
        links = [_text(one, word) for one in said for word in ("DW_AT_linkage_name", "DW_AT_MIPS_linkage_name")]
        names = [_text(one, "DW_AT_name") for one in said]
        name = next((text for text in (*links, *names) if text), "")
        file = next((paths[n] for one in said if (n := _number(one, "DW_AT_decl_file")) in paths), "")
        line = next((n for one in said if (n := _number(one, "DW_AT_decl_line")) >= 0), 0)
        if file:
            self._files.setdefault(file, len(self._files))
        return _Described(demangled(readable(name)), file, line, offset)

    def _ranges(self, die: Any, unit: Any) -> Iterator[tuple[int, int]]:
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
            yield from self._listed(listed.value, unit)

    def _listed(self, offset: int, unit: Any) -> Iterator[tuple[int, int]]:
        low = unit.get_top_DIE().attributes.get("DW_AT_low_pc")
        base = low.value if low is not None else 0
        lists = self._dwarf.range_lists()
        if lists is None:
            return
        for entry in lists.get_range_list_at_offset(offset, unit):
            if hasattr(entry, "base_address"):
                base = entry.base_address
                continue
            shift = 0 if getattr(entry, "is_absolute", False) else base
            if entry.end_offset > entry.begin_offset:
                yield shift + entry.begin_offset, shift + entry.end_offset

    def _add_rows(self, program: Any, paths: dict[int, str]) -> None:
        rows = self._rows
        for state in (entry.state for entry in program.get_entries()):
            if state is None:
                continue
            rows.address.append(state.address)
            path = paths.get(state.file, UNKNOWN_FILE)
            rows.rank.append(self._files.setdefault(path, len(self._files)))
            rows.line.append(ABSENT if state.end_sequence else min(state.line, LAST_LINE))

    # -- looking up --------------------------------------------------------------------------------------------

    def _owners(self, offsets: Offsets) -> list[int]:
        """The innermost function of each address, of several beside each other the first; -1 where there is none."""
        order = np.argsort(offsets, kind="stable")
        wanted = offsets[order]
        owner = np.full(len(offsets), ABSENT, np.int64)
        for number in sorted(range(len(self._functions)), key=lambda k: (self._functions[k].depth, -k)):
            for low, high in self._functions[number].ranges:
                first, last = np.searchsorted(wanted, np.array([low, high], np.uint64))
                owner[order[first:last]] = number
        found: list[int] = owner.tolist()
        return found

    def _lines(self, offsets: Offsets) -> list[tuple[str, int] | None]:
        """File and line of each address."""
        address, rank = np.array(self._rows.address, np.uint64), np.array(self._rows.rank, np.int64)
        line = np.array(self._rows.line, np.int64)
        # sequences that end where another begins come first, so that the last of equal addresses is the best row
        order = np.lexsort((-line, -rank, line >= 0, address))
        at = np.searchsorted(address[order], offsets, side="right") - 1
        files = list(self._files)
        out: list[tuple[str, int] | None] = []
        for row in at.tolist():
            chosen = int(order[row]) if row >= 0 else ABSENT
            out.append((files[rank[chosen]], int(line[chosen])) if chosen >= 0 and line[chosen] >= 0 else None)
        return out

    def _chain(self, number: int) -> Chain:
        """From the outermost function to this one."""
        path: list[int] = []
        while number >= 0:
            path.append(number)
            number = self._functions[number].above
        steps: list[tuple[int, int]] = []
        for one in reversed(path):
            function = self._functions[one]
            if function.is_inlined and steps:
                steps.append((self._line(function.call_file, function.call_line), int(Relation.LEXICAL)))
                steps.append((self._scope(function), int(Relation.INLINED)))
            else:
                steps.append((self._scope(function), int(Relation.LEXICAL if steps else Relation.CALL)))
        return tuple(steps)

    def _scope(self, function: _Function) -> int:
        said = self._described[function.origin]
        file = self._scopes.builder.file(said.file)
        identity = ("dwarf", self._module, function.origin)
        return self._scopes.function(identity, said.name, file, max(said.line, 0), self._module, said.offset)

    def _line(self, file: str, line: int) -> int:
        return self._scopes.line(self._scopes.builder.file(file), line)


def _has_any(offsets: Offsets, low: int, high: int) -> bool:
    return bool(((offsets >= np.uint64(low)) & (offsets < np.uint64(high))).any())


def _referred(die: Any, word: str) -> Any:
    return die.get_DIE_from_attribute(word) if word in die.attributes else None


def _origin(die: Any) -> Any:
    """Where a function is described: the end of its chain of origins."""
    for _ in range(16):
        above = _referred(die, "DW_AT_abstract_origin")
        if above is None:
            break
        die = above
    return die


def _entry(die: Any, ranges: Ranges) -> int:
    """Where a function, or a copy of it, is entered: not always at the lowest of its addresses."""
    said = die.attributes.get("DW_AT_entry_pc")
    if said is not None and said.form.startswith("DW_FORM_addr"):
        return int(said.value)
    low = ranges[0][0]
    return low + int(said.value) if said is not None else low


def _number(die: Any, word: str) -> int:
    found = die.attributes.get(word)
    return int(found.value) if found is not None else ABSENT


def _text(die: Any, word: str) -> str:
    found = die.attributes.get(word)
    if found is None or not isinstance(found.value, bytes):
        return ""
    return readable(found.value.decode("utf-8", "surrogateescape"))


def _paths(program: Any, comp_dir: str) -> dict[int, str]:
    """The files of a line table by their numbers there, which begin at 0 since DWARF 5 and at 1 before."""
    header = program.header
    version, out = header["version"], {}
    folders = [readable(folder.decode("utf-8", "surrogateescape")) for folder in header["include_directory"]]
    if version < 5:
        folders = [comp_dir, *folders]
    for number, entry in enumerate(header["file_entry"], 0 if version >= 5 else 1):
        name = readable(entry.name.decode("utf-8", "surrogateescape"))
        folder = folders[entry.dir_index] if entry.dir_index < len(folders) else ""
        out[number] = _joined(comp_dir, folder, name)
    return out


def _joined(*parts: str) -> str:
    """A path of parts, each below those before unless it is absolute; a relative one stays as it is spelled."""
    path = ""
    for part in parts:
        path = part if part.startswith("/") or not path else f"{path}/{part}" if part else path
    return os.path.normpath(path) if path.startswith("/") else path
