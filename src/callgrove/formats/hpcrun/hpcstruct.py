"""Structure files, .hpcstruct: which function, inlined functions, loops and lines the code of load modules belongs to.

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

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from pathlib import Path

import numpy as np

from callgrove.arrays import ABSENT, NO_OFFSET, Array, Bools, Ids, Ints, Offsets, depths
from callgrove.binary.files import HEAD_BUDGET, Source
from callgrove.binary.xml import new_parser, parse, pieces, readable
from callgrove.errors import (
    CallgroveError,
    CorruptFile,
    NotRecognised,
    Parameter,
    UnsupportedVersion,
    compose_text,
    count_of,
)
from callgrove.formats.interface import Field, Grade, Match, Problem, ReadOptions
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind, Relation
from callgrove.model.experiment import Experiment, Severity

__all__ = [
    "FORMAT",
    "ROOT",
    "Chains",
    "HpcstructFormat",
    "Modules",
    "ScopeKind",
    "Scopes",
    "Structure",
    "read_structure",
    "without_overlaps",
]


# -- tables for looking up addresses -----------------------------------------------------------------------------------


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
        """Return the number of the module at that path, or -1."""
        return self.modules.path.index(path) if path in self.modules.path else ABSENT

    def lookup(self, module: int, addresses: Array) -> Ids:
        """Return the statement or call that each address belongs to; -1 in a gap. Addresses are offsets in the
        module."""
        first, last = (int(b) for b in self.range_bounds[module : module + 2])
        wanted = np.asarray(addresses, np.uint64)
        lo, hi = self.range_lo[first:last], self.range_hi[first:last]
        at = np.searchsorted(lo, wanted, side="right") - 1
        inside = at >= 0
        inside[inside] = wanted[inside] < hi[at[inside]]
        scopes = np.full(len(wanted), ABSENT, np.int32)
        scopes[inside] = self.range_scope[first:last][at[inside]]
        return scopes

    def chains(self, scopes: Array) -> Chains:
        """Return the chains from the procedure down to each of `scopes`; the chain of -1 is empty."""
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
        """Return the calls of a module whose target is known: the edges of its call graph, from `procedure` to
        `target`."""
        scopes = self.scopes
        known = (scopes.kind == ScopeKind.CALL) & (scopes.target != NO_OFFSET) & (scopes.module == module)
        return np.flatnonzero(known).astype(np.int32)

    def text(self, number: int) -> str:
        """Return a string by its number; absent is empty."""
        return self.strings[number] if number >= 0 else ""


# -- overlapping address ranges ----------------------------------------------------------------------------------------
# The first one in the order of the file wins; a later one that overlaps it is left out whole.


RANGES_AT_ONCE = 4096


def without_overlaps(lo: Offsets, hi: Offsets) -> Ints:
    """Return which of the ranges [lo, hi) to keep, ascending by `lo`."""
    order = np.argsort(lo, kind="stable")
    disputed = np.sort(order[_overlapping(lo[order], hi[order])])
    kept = np.empty(0, np.int64)
    for first in range(
        0, len(disputed), RANGES_AT_ONCE
    ):  # in batches, so that inserting costs little however many are kept
        batch = disputed[first : first + RANGES_AT_ONCE]
        batch = batch[~_meet(lo[batch], hi[batch], lo[kept], hi[kept])]
        kept = np.concatenate([kept, batch[_greedy(lo[batch].tolist(), hi[batch].tolist())]])
        kept = kept[np.argsort(lo[kept], kind="stable")]
    if not len(disputed):
        return order
    chosen = np.ones(len(lo), np.bool_)
    chosen[disputed] = False
    chosen[kept] = True
    return order[chosen[order]]


def _overlapping(lo: Offsets, hi: Offsets) -> Bools:
    """Return which of the ranges, sorted by `lo`, overlap another one."""
    reach = np.maximum.accumulate(hi)
    with_earlier: Bools = np.concatenate([np.zeros(min(1, len(lo)), np.bool_), lo[1:] < reach[:-1]])
    with_later: Bools = np.concatenate([hi[:-1] > lo[1:], np.zeros(min(1, len(lo)), np.bool_)])
    return with_earlier | with_later


def _meet(lo: Offsets, hi: Offsets, kept_lo: Offsets, kept_hi: Offsets) -> Bools:
    """Return which ranges overlap one of those kept, which are sorted and disjoint."""
    if not len(kept_lo):
        return np.zeros(len(lo), np.bool_)
    after = np.searchsorted(kept_lo, lo, side="right")
    before = np.maximum(after - 1, 0)
    inside_before: Bools = (after > 0) & (kept_hi[before] > lo)
    next_ = np.minimum(after, len(kept_lo) - 1)
    reaches_next: Bools = (after < len(kept_lo)) & (kept_lo[next_] < hi)
    return inside_before | reaches_next


def _greedy(lo: list[int], hi: list[int]) -> Ints:
    kept_lo: list[int] = []
    kept_hi: list[int] = []
    kept: list[int] = []
    for number, (first, last) in enumerate(zip(lo, hi, strict=True)):
        at = bisect_left(kept_lo, first)
        if (at and kept_hi[at - 1] > first) or (at < len(kept_lo) and kept_lo[at] < last):
            continue
        kept_lo.insert(at, first)
        kept_hi.insert(at, last)
        kept.append(number)
    return np.array(kept, np.int64)


# -- from XML to tables ------------------------------------------------------------------------------------------------
#     HPCToolkitStructure(version, i, n)
#       LM(i, n=path, has-calls, v)
#         F(i, n=file)
#           P(i, n, [ln], l, [s], v={entry})          also directly below LM, and inside another P
#             A(i, [f], l) > A(i, [f], n, [ln], l)    call site > inlined function; code inside belongs to that function
#             L(i, l, [f], v)                         f holds for what is inside as well
#             S(i, l, v)  C(i, l, v, [t], [d])
#
#     v = {[0xlo-0xhi) [0xlo-0xhi) ...}               half-open
#
# An A whose parent is a call site is the inlined function; any other A is a call site. Rows go to NumPy in batches:
# there is no Python object per tag once a batch is full. Tags that we do not know are left out, what is inside them is
# kept.


ROOT = "HPCToolkitStructure"
SUPPORTED = "4."
BATCH = 1 << 15
NOWHERE = int(NO_OFFSET)
RANGE = re.compile(r"\[0x([0-9a-fA-F]{1,16})-0x([0-9a-fA-F]{1,16})\)")
SCOPE_KINDS = {
    "P": int(ScopeKind.PROCEDURE),
    "L": int(ScopeKind.LOOP),
    "S": int(ScopeKind.STATEMENT),
    "C": int(ScopeKind.CALL),
}
# As plain numbers: there are millions of tags.
STATEMENT, CALL, CALL_SITE, INLINED, PROCEDURE = (
    int(ScopeKind[name]) for name in ("STATEMENT", "CALL", "CALL_SITE", "INLINED", "PROCEDURE")
)
COLUMNS: dict[str, type[np.generic]] = {
    "parent": np.int32,
    "kind": np.int32,
    "module": np.int32,
    "procedure": np.int32,
    "name": np.int32,
    "link_name": np.int32,
    "file": np.int32,
    "line": np.int32,
    "device": np.int32,
    "address": np.uint64,
    "target": np.uint64,
    "tag_id": np.int64,
}
RANGE_COLUMNS: dict[str, type[np.generic]] = {
    "module": np.int32,
    "scope": np.int32,
    "lo": np.uint64,
    "hi": np.uint64,
}


class Rows:
    """Rows of numbers that go to NumPy whenever a batch is full."""

    def __init__(self, columns: dict[str, type[np.generic]]) -> None:
        self._columns = columns
        self.pending: list[tuple[int, ...]] = []
        self._done: list[list[Array]] = []

    def spill(self) -> None:
        columns = zip(*self.pending, strict=True) if self.pending else [()] * len(self._columns)
        self._done.append([np.array(c, kind) for c, kind in zip(columns, self._columns.values(), strict=True)])
        self.pending.clear()

    def finish(self) -> dict[str, Array]:
        self.spill()
        return {name: np.concatenate([part[k] for part in self._done]) for k, name in enumerate(self._columns)}


Open = tuple[int, int, int, bool]  # scope, file, procedure, is it a call site?


class StructureReader:
    """Handlers of a parser; `structure` is what they saw."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.parser = new_parser(path)
        self.parser.StartElementHandler = self._first
        self.parser.EndElementHandler = self._end
        self.version = ""
        self._modules: list[str] = []
        self._has_calls: list[bool] = []
        self._strings: dict[str, int] = {}
        self._scopes, self._ranges = Rows(COLUMNS), Rows(RANGE_COLUMNS)
        self._n = 0
        self._open: list[Open] = [(ABSENT, ABSENT, ABSENT, False)]
        self._problems: Counter[str] = Counter()

    def _first(self, tag: str, attributes: dict[str, str]) -> None:
        """Read the root, which says the version."""
        if tag != ROOT:
            raise NotRecognised(f"{self._path}: not an hpcstruct file: its root is <{tag}>, not <{ROOT}>")
        self.version = attributes.get("version", "")
        if not self.version.startswith(SUPPORTED):
            raise UnsupportedVersion(f"{self._path}: hpcstruct version {self.version!r}; 4.x can be read")
        self.parser.StartElementHandler = self._start
        self._open.append(self._open[-1])

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        above = self._open[-1]
        if tag in SCOPE_KINDS:
            self._open.append(self._scope(SCOPE_KINDS[tag], attributes, above))
        elif tag == "A":
            self._open.append(self._scope(INLINED if above[3] else CALL_SITE, attributes, above))
        elif tag == "F":
            self._open.append((ABSENT, self._string(attributes.get("n", "")), ABSENT, False))
        elif tag == "LM":
            self._modules.append(attributes.get("n", ""))
            self._has_calls.append(attributes.get("has-calls", "0") != "0")
            self._open.append((ABSENT, ABSENT, ABSENT, False))
        else:
            self._problems[f"tags <{tag[:40]}> are not known"] += 1
            self._open.append(above)

    def _end(self, tag: str) -> None:
        self._open.pop()

    def _string(self, text: str) -> int:
        return self._strings.setdefault(text, len(self._strings)) if text else ABSENT

    def _scope(self, kind: int, attributes: dict[str, str], above: Open) -> Open:
        if not self._modules:
            self._fail(f"<LM> around all of <{ROOT}>", "a scope outside of it")
        parent, file, procedure, _ = above
        number, get = self._n, attributes.get
        self._n += 1
        if "f" in attributes:
            file = self._string(attributes["f"])
        name = link_name = device = ABSENT
        target = NOWHERE
        if kind in (PROCEDURE, INLINED):
            name, link_name = self._string(get("n", "")), self._string(get("ln", ""))
            procedure = number if kind == PROCEDURE else procedure
        elif kind == CALL:
            device = self._string(get("d", ""))
            target = self._hex(attributes["t"]) if "t" in attributes else NOWHERE
        place, line, id_ = self._places(number, get("v", ""), kind), self._line(get("l", "0")), self._id(get("i", ""))
        module = len(self._modules) - 1
        self._scopes.pending.append(
            (parent, kind, module, procedure, name, link_name, file, line, device, place, target, id_)
        )
        if len(self._scopes.pending) >= BATCH:
            self._scopes.spill()
            self._ranges.spill()
        return number, file, procedure, kind == CALL_SITE

    def _places(self, scope: int, text: str, kind: int) -> int:
        """Return the first address; ranges of code are kept for look-up."""
        ranges = RANGE.findall(text)
        if len(ranges) != text.count("["):
            self._fail("ranges like {[0x10-0x20)}", repr(text[:60]))
        if kind in (STATEMENT, CALL):
            module, pending = len(self._modules) - 1, self._ranges.pending
            for lo, hi in ranges:
                pending.append((module, scope, int(lo, 16), int(hi, 16)))
        return int(ranges[0][0], 16) if ranges else NOWHERE

    def _line(self, text: str) -> int:
        """Return a line, or the first of `first-last`; 0 where no text is that long."""
        number = text.partition("-")[0]
        if not (number.isascii() and number.isdecimal()):
            self._fail("a line number", repr(text[:40]))
        return int(number) if len(number) < 10 else 0

    def _hex(self, text: str) -> int:
        if not re.fullmatch(r"0x[0-9a-fA-F]{1,16}", text):
            self._fail("a hexadecimal address", repr(text[:40]))
        return int(text, 16)

    def _id(self, text: str) -> int:
        return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else ABSENT

    def _fail(self, expected: str, found: str) -> None:
        line = self.parser.CurrentLineNumber
        raise CorruptFile(self._path, "structure", line=line, expected=expected, found=found)

    def structure(self, damage: str = "") -> Structure:
        """Return everything that was seen."""
        columns = self._scopes.finish()
        bounds, ranges = self._disjoint(self._ranges.finish())
        return Structure(
            self.version,
            Modules(tuple(self._modules), tuple(self._has_calls)),
            Scopes(**columns),
            bounds,
            ranges["lo"],
            ranges["hi"],
            ranges["scope"],
            tuple(self._strings),
            tuple(f"{n:,} {what}" for what, n in self._problems.items()),
            damage,
        )

    def _disjoint(self, ranges: dict[str, Array]) -> tuple[Ints, dict[str, Array]]:
        """Return the ranges sorted by module and address; where two overlap, the later one goes."""
        module, lo, hi = ranges["module"], ranges["lo"], ranges["hi"]
        kept: list[Ints] = []
        bounds = np.searchsorted(module, np.arange(len(self._modules) + 1))  # modules come one after the other
        for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            rows = first + np.flatnonzero(hi[first:last] > lo[first:last])
            if len(rows) < last - first:
                self._problems["ranges are empty or end before they begin"] += last - first - len(rows)
            chosen = rows[without_overlaps(lo[rows], hi[rows])]
            if len(chosen) < len(rows):
                self._problems["ranges overlap earlier ones and are left out"] += len(rows) - len(chosen)
            kept.append(chosen)
        order = np.concatenate([np.empty(0, np.int64), *kept])
        sizes = np.concatenate([[0], np.cumsum([len(rows) for rows in kept])]).astype(np.int64)
        return sizes, {name: column[order] for name, column in ranges.items()}


def read_structure(path: Path, salvage: bool = False) -> Structure:
    """Return the structure in a file. With `salvage`, what comes before a place that is not well-formed is kept."""
    reader = StructureReader(path)
    with readable(path) as file:
        try:
            parse(path, reader.parser, file)
        except CallgroveError as error:
            if not (salvage and isinstance(error, CorruptFile) and reader.version):
                raise
            return reader.structure(str(error))
    return reader.structure()


# -- the format --------------------------------------------------------------------------------------------------------
# Specification: the DTD that each file carries (version 4.9); tables.py sketches it and has what address look-up
# works on. Nothing was measured, so the experiment has no profiles and no values: its contexts are the
# tree of the code, each with the file's own id, so that it can be exported and searched.
#
# Deviations of genuine files: ranges of different statements may overlap (code that functions share); the first counts.


REGION_KINDS = {
    ScopeKind.PROCEDURE: ContextKind.FUNCTION,
    ScopeKind.LOOP: ContextKind.LOOP,
    ScopeKind.CALL_SITE: ContextKind.LINE,
    ScopeKind.INLINED: ContextKind.INLINED,
    ScopeKind.STATEMENT: ContextKind.LINE,
    ScopeKind.CALL: ContextKind.CALL,
}
UNMEASURED = compose_text(
    "describes code and holds no measurements; ", Parameter('export("contexts")'), " lists what it describes"
)
HEAD = HEAD_BUDGET // 4  # the DTD is shorter than that


class HpcstructFormat:
    """Reads, prints and checks structure files."""

    name = "hpcstruct"
    title = "HPCToolkit structure of load modules (.hpcstruct)"

    def match(self, source: Source) -> Match | None:
        """Recognise a file by the root of the XML."""
        head = source.head(HEAD)
        if not head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
            return None
        if f"<{ROOT}".encode() in head or f"<!DOCTYPE {ROOT}".encode() in head:
            return Match(Grade.EXACT, f"it is XML of {ROOT}")
        return None

    def read(self, source: Source, options: ReadOptions) -> Experiment:
        options.progress("reading the structure", 0, 1)
        structure = read_structure(source.path, options.salvage)
        title = ", ".join(structure.modules.path[:3]) or source.path.name
        builder = ExperimentBuilder(self.name, structure.version, title, str(source.path))
        builder.warn(Severity.NOTE, compose_text(f"{source.path}: ", UNMEASURED))
        if structure.damage:
            builder.warn(Severity.DAMAGE, structure.damage)
        _add_contexts(builder, structure)
        return builder.build()

    def check(self, source: Source, options: ReadOptions) -> Iterator[Problem]:
        """Yield what of the ranges, entries and targets contradicts itself: a note each, for genuine files have
        such."""
        structure = read_structure(source.path, options.salvage)
        name = source.path.name
        if structure.damage:
            yield Problem(Severity.DAMAGE, name, "XML", structure.damage)
        for text in (*structure.problems, *_doubts(structure)):
            yield Problem(Severity.NOTE, name, "structure", text)

    def dump(self, source: Source) -> Iterator[Field]:
        """Yield every attribute of every tag. The section is the tag, the index counts tags of that name, the offset is
        that of the tag."""
        fields: list[Field] = []
        counts: dict[str, int] = {}
        parser, name = new_parser(source.path), source.path.name

        def start(tag: str, attributes: dict[str, str]) -> None:
            index, at = counts.get(tag, 0), parser.CurrentByteIndex
            counts[tag] = index + 1
            fields.extend(Field(name, tag, index, at, key, value) for key, value in attributes.items())

        parser.StartElementHandler = start
        with readable(source.path) as file:
            for _ in pieces(source.path, parser, file):
                yield from fields
                fields.clear()


FORMAT = HpcstructFormat()


def _add_contexts(builder: ExperimentBuilder, structure: Structure) -> None:
    scopes = structure.scopes
    modules = [builder.module(path) for path in structure.modules.path]
    files = [builder.file(text) for text in structure.strings]
    names = (scopes.kind, scopes.name, scopes.link_name, scopes.file, scopes.line, scopes.module)
    rows = zip(*(c.tolist() for c in (*names, scopes.address, scopes.target, scopes.device)), strict=True)
    regions = []
    for kind, name, link_name, file, line, module, address, target, device in rows:
        details = {
            "mangled name": structure.text(link_name),
            "target": f"{target:#x}" if target != NOWHERE else "",
            "device": structure.text(device),
        }
        regions.append(
            builder.region(
                REGION_KINDS[ScopeKind(kind)],
                structure.text(name),
                file=files[file] if file >= 0 else ABSENT,
                line=line or ABSENT,
                module=modules[module],
                offset=address if kind in (ScopeKind.PROCEDURE, ScopeKind.LOOP, ScopeKind.CALL) else None,
                details={key: text for key, text in details.items() if text},
            )
        )
    kinds = np.array([REGION_KINDS[kind] for kind in ScopeKind], np.int64)[scopes.kind]
    relation = np.where(scopes.kind == ScopeKind.INLINED, Relation.INLINED, Relation.LEXICAL)
    relation[scopes.parent < 0] = Relation.CALL
    ids = _keep_unique(scopes.tag_id)
    builder.add_contexts(parent=scopes.parent, kind=kinds, relation=relation, region=regions, source_id=ids)


def _keep_unique(ids: Ints) -> Ints:
    """Return the ids that occur once; the others are absent."""
    _, inverse, counts = np.unique(ids, return_inverse=True, return_counts=True)
    return np.where(counts[inverse] == 1, ids, ABSENT)


def _doubts(structure: Structure) -> Iterator[str]:
    scopes = structure.scopes
    has_entry = (scopes.kind == ScopeKind.PROCEDURE) & (scopes.address != NO_OFFSET)
    if shared := int(has_entry.sum()) - len(structure.entries):
        yield f"{shared:,} procedures begin at the address of an earlier one"
    if without := int(((scopes.kind == ScopeKind.PROCEDURE) & (scopes.address == NO_OFFSET)).sum()):
        yield f"{without:,} procedures have no address"
    calls = (scopes.kind == ScopeKind.CALL) & (scopes.target != NO_OFFSET)
    targets = zip(scopes.module[calls].tolist(), scopes.target[calls].tolist(), strict=True)
    if lost := sum(target not in structure.entries for target in targets):
        yield f"{count_of(lost, 'call leads', 'calls lead')} to addresses where no procedure begins"
