r"""Files that differ in their numbers alone, as those of the runs of one program mostly do.

    __rec=node,id=36,attr=35,data=MPI_Send,parent=34     a step of a path: the same in all of them
    __rec=node,id=21,attr=17,data=216,parent=20          a fact about the run: each has its own
    __rec=ctx,ref=36=101,attr=86=89,data=0.25=2          a record: each has its own numbers

A text is values, which follow `,data=`, and the outline between them. The reader of lines says what an outline means
when it meets it for the second time; of further files with that outline only the values are looked at. A file of which
anything was left out has none, and a value that is not a plain number has its file read by lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from callgrove.arrays import Ints
from callgrove.formats.caliper.records import (
    Attribute,
    DifferentHeads,
    Global,
    Records,
    RecordTable,
    Signature,
    make_table,
    parse_numbers,
)

__all__ = ["NodeRow", "Outlines", "PartedText", "ReadFile"]

VALUE = re.compile(rb",data=([^,\n]*)")
DATA, RECORD, GLOBALS = b",data=", b"__rec=ctx,", b"__rec=globals,ref="
ATTRIBUTE_NAME = 8  # the attribute of nodes that are attributes
LARGEST = 256 << 10  # bytes: numbers of a larger file take longer than its nodes
MOST = 32  # outlines that are kept

NodeRow = tuple[int, int, str, int]  # number, attribute, value and parent


@dataclass(frozen=True)
class PartedText:
    """A whole file: the text around its values, and these."""

    around: tuple[bytes, ...]
    values: list[bytes]

    @classmethod
    def of(cls, data: bytes) -> PartedText | None:
        """Divide a text into parts; None where that is not worth it."""
        if len(data) > LARGEST or b"\r" in data or not data.endswith(b"\n"):
            return None
        pieces = VALUE.split(data)
        return cls(tuple(pieces[::2]), pieces[1::2])

    def lines(self) -> Iterator[tuple[bytes, list[int]]]:
        """Yield every line, and which values stand in it."""
        line, numbers = b"", list[int]()
        for number, text in enumerate(self.around):
            *ended, last = text.split(b"\n")
            for more in ended:
                yield line + more, numbers
                line, numbers = b"", []
            line += last
            if number < len(self.values):
                line += DATA + self.values[number]
                numbers.append(number)


@dataclass(frozen=True)
class ReadFile:
    """What the reader of lines knows when it has read a file. `facts` are nodes that say something to those below them,
    `beginning` tells the nodes that a record begins with, its head and its attributes."""

    records: Records
    node: Callable[[bytes], NodeRow | None]
    attributes: Mapping[int, Attribute]
    facts: Collection[int]
    beginning: Callable[[bytes], tuple[tuple[int, ...], int, Signature] | None]


class Outlines:
    """Outlines of files that were read."""

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, ...], _Outline | None] = {}
        self._met: set[int] = set()

    def fill(self, text: PartedText, records: Records) -> bool:
        """Add what a file holds to its records; return whether its outline and its values could be read so."""
        outline = self._known.get(text.around)
        return outline is not None and outline.fill(text.values, records)

    def learn(self, text: PartedText, read: ReadFile) -> None:
        """Keep the outline of a file, if it is not the first one that has it."""
        key = hash(text.around)
        if key not in self._met:
            self._met.add(key)
            return
        if len(self._known) >= MOST:
            self._known.clear()
        self._known[text.around] = _find_outline(text, read)


@dataclass(frozen=True)
class _Part:
    """The table of some records: which values are those of its records, and what they are."""

    rows: list[int]
    head: Ints
    attributes: Signature

    @cached_property
    def heads(self) -> DifferentHeads:
        return DifferentHeads.of(self.head)


@dataclass(frozen=True)
class _Outline:
    """What the lines of an outline mean. Values that are not numbers are facts, or the same in all files; `facts` has
    the attribute and the value of each fact, in the order in which they are told."""

    fixed: list[int]
    fixed_values: list[bytes]
    facts: list[tuple[Attribute, int]]
    attributes: dict[str, Attribute]
    parts: list[_Part]

    def fill(self, values: list[bytes], records: Records) -> bool:
        if [values[k] for k in self.fixed] != self.fixed_values:
            return False
        tables: list[RecordTable] = []
        for part in self.parts:
            numbers = parse_numbers([values[k] for k in part.rows], len(part.attributes))
            if numbers is None:
                return False
            tables.append(make_table(part.head, part.attributes, list(numbers.T), part.heads))
        if any(b"\\" in values[k] for _, k in self.facts):
            return False
        records.tables += tables
        records.attributes.update(self.attributes)
        records.globals |= _facts_of(self.facts, values)
        return True


def _facts_of(facts: list[tuple[Attribute, int]], values: list[bytes]) -> dict[str, Global]:
    return {known.name: Global(known, values[k].decode("utf-8", "backslashreplace")) for known, k in facts}


@dataclass
class _Lines:
    """The lines of a file: its nodes with their attribute, parent and value; records; and the nodes of its globals."""

    nodes: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    records: dict[Signature, tuple[list[int], list[int]]] = field(default_factory=dict)  # heads and values
    named: set[int] = field(default_factory=set)  # nodes of records, and attributes
    globals: list[int] = field(default_factory=list)

    def chain(self, node: int) -> Iterator[int]:
        """Yield a node and those above it."""
        while node in self.nodes:
            yield node
            node = self.nodes[node][1]


def _read_lines(text: PartedText, read: ReadFile) -> _Lines | None:
    """Return the lines of a file; None where one is neither a node, a record of numbers, nor globals that are nodes."""
    out = _Lines()
    for line, values in text.lines():
        if len(values) == 1 and (node := read.node(line)):
            id_, attribute, _, parent = node
            out.nodes[id_] = attribute, parent, values[0]
            out.named |= {id_} if attribute == ATTRIBUTE_NAME else set()
        elif len(values) == 1 and line.startswith(RECORD):
            begin, _, data = line.removeprefix(RECORD).partition(DATA)
            beginning = read.beginning(begin)
            if beginning is None or b"," in data:
                return None
            nodes, head, attributes = beginning
            out.named.update(nodes)
            heads, numbers = out.records.setdefault(attributes, ([], []))
            heads.append(head)
            numbers.append(values[0])
        elif not values and line.startswith(GLOBALS):
            ids = line.removeprefix(GLOBALS).split(b"=")
            if not all(id_.isdigit() for id_ in ids):
                return None
            out.globals += map(int, ids)
        elif line:
            return None
    return out


def _find_outline(text: PartedText, read: ReadFile) -> _Outline | None:
    """Return what the outline of a file means; None where that is not all that the file says."""
    lines = _read_lines(text, read)
    if lines is None or read.records.left_out.counts:
        return None
    same = {above for node in lines.named for above in lines.chain(node)}
    facts: dict[str, tuple[Attribute, int]] = {}
    for node in lines.globals:
        for above in lines.chain(node):
            attribute, _, value = lines.nodes[above]
            if above not in read.facts:
                break
            if known := read.attributes.get(attribute):
                facts.setdefault(known.name, (known, value))
    own = {value for known, value in facts.values() if known.is_global}
    fixed = [value for node, (_, _, value) in lines.nodes.items() if node in same or value not in own]
    parts = _match_tables(lines, read.records.tables)
    told = list(facts.values())
    if parts is None or list(_facts_of(told, text.values).items()) != list(read.records.globals.items()):
        return None
    return _Outline(fixed, [text.values[k] for k in fixed], told, dict(read.records.attributes), parts)


def _match_tables(lines: _Lines, tables: list[RecordTable]) -> list[_Part] | None:
    """Return which records each table has; None where it has others than all those with the same attributes."""
    parts = [_Part(rows, np.array(heads, np.int64), of) for of, (heads, rows) in lines.records.items()]
    if len(parts) != len(tables) or not all(known.is_number for part in parts for known in part.attributes):
        return None
    out: list[_Part] = []
    for table in tables:
        for part in parts:
            names = dict.fromkeys(known.name for known in part.attributes if not known.is_hidden)
            if list(names) == list(table.columns) and np.array_equal(part.head, table.head):
                out.append(part)
                break
    return out if len({id(part) for part in out}) == len(tables) else None
