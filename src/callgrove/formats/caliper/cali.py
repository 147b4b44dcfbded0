r"""The lines of a .cali file.

    __rec=node,id=155,attr=20,data=main,parent=28          a value of an attribute, below another node
    __rec=ctx,ref=155=79,attr=97=148,data=0.25=2           a record: nodes, and attributes with their values
    __rec=globals,ref=28                                   facts about the run

Fields are separated by `,` and values by `=`; a `\` stands before each of these in a value, and before itself; `\n` is
a line end. An attribute is a node of attribute 8, its name; above it stand nodes with its type (attribute 9) and
properties (10). Nodes 0 to 11 are in no file: types, and these three attributes.

Nearly all lines have these fields in this order, and records no `\`. Nodes are taken apart by one regular expression.
Records of one shape are a matrix of numbers (alike.py). Others are split where their values begin: what stands before
is looked up, as many records begin with the same text, and the numbers of many records are parsed at once. Other lines
are parsed one by one. What was made of a line is kept for further files, of which thousands have much the same ones;
those that differ in numbers alone are not even taken apart (outlines.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, pairwise, repeat

import numpy as np

from callgrove.arrays import ABSENT, Array, Ints
from callgrove.formats.caliper.alike import RECORD, AlikeText, part_alike
from callgrove.formats.caliper.outlines import NodeRow, Outlines, PartedText, ReadFile
from callgrove.formats.caliper.records import (
    MOST_LABELS,
    Attribute,
    Global,
    Labels,
    Records,
    Signature,
    Vocabulary,
    make_table,
    parse_numbers,
)
from callgrove.formats.text_profiles import TextBlock

__all__ = ["CaliReader", "Dialect", "split_record"]

NODE = re.compile(
    rb"__rec=node,id=(\d{1,18}),attr=(\d{1,18}),data=([^,\\]*(?:\\.[^,\\]*)*)(?:,parent=(\d{1,18}))?", re.DOTALL
)
HEAD = re.compile(rb"(?:ref=(\d[\d=]*),)?attr=(\d[\d=]*)")
DATA = b",data="
TYPES = ("usr", "int", "uint", "string", "addr", "double", "bool", "type")
NAME, TYPE, PROPERTIES, POINTER = 8, 9, 10, 11  # nodes that are in no file
LONGEST_CHAIN = 64  # nodes above an attribute that are looked at
LONGEST_ID = 20  # digits
MOST_KNOWN = 1 << 16  # entries that are kept for the next file
UNKNOWN_NODE = "records that refer to nodes which the file does not define"
NO_RECORD = "lines that are not records of Caliper"
UNEVEN = "records with other numbers of attributes and values"
NO_NUMBERS = "records with values that are not finite numbers"

UNKNOWN, OTHER = -1, -2  # instead of the number of a head: it names unknown nodes; it is written in another way

Node = tuple[int, Labels]  # path, and labels
Beginning = tuple[tuple[int, ...], tuple[int, ...]]  # numbers of nodes, and of attributes


def split_record(line: bytes) -> dict[str, list[bytes]]:
    """Return the fields of a line, each with its values, without escapes."""
    fields: dict[str, list[bytes]] = {}
    for part in _split(line, b","):
        key, *values = (_unescape(value) for value in _split(part, b"="))
        fields[key.decode("utf-8", "backslashreplace")] = values
    return fields


def _split(text: bytes, separator: bytes) -> list[bytes]:
    """Return the parts between separators that no backslash stands before."""
    if b"\\" not in text:
        return text.split(separator)
    pattern = rb"([^\\%s]*(?:\\.[^\\%s]*)*)(?:%s|\\?$)" % (separator, separator, separator)
    parts = [match[1] for match in re.finditer(pattern, text, re.DOTALL)]
    return parts[:-1] if len(parts) > 1 and not text.endswith(separator) else parts


def _unescape(text: bytes) -> bytes:
    if b"\\" not in text:
        return text
    return b"\\".join(
        part.replace(b"\\n", b"\n").replace(b"\\", b"")
        for part in text.split(b"\\\\")  # a backslash is written twice
    )


def _part_lines(data: bytes) -> tuple[bytes, bytes]:
    """Return the lines that are records, and the others. The text ends with a line."""
    if data.startswith(RECORD) and data.count(b"\n" + RECORD) + 1 == data.count(b"\n"):  # as in most blocks
        return data, b""
    text = np.frombuffer(data, np.uint8)
    starts = np.append(0, np.flatnonzero(text == ord("\n")) + 1)[:-1]
    padded = np.append(text, np.zeros(len(RECORD), np.uint8))
    is_record = np.logical_and.reduce([padded[starts + k] == byte for k, byte in enumerate(RECORD)])
    firsts = np.flatnonzero(np.diff(is_record, prepend=False))  # of records and other lines in turn
    bounds = [0, *starts[firsts].tolist(), len(data)]
    pieces = [data[first:last] for first, last in pairwise(bounds)]
    return b"".join(pieces[1::2]), b"".join(pieces[::2])


def _decode(text: bytes) -> str:
    return text.decode("utf-8", "backslashreplace")


@dataclass(frozen=True, eq=False, slots=True)
class Fact:
    """What a node says of those below it: a value of an attribute, and what the node above says."""

    what: Attribute | int
    value: str
    above: Fact | None = None


@dataclass
class Dialect:
    """What was made of lines and of how records begin, for the next file: those of one program are much alike."""

    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    outlines: Outlines = field(default_factory=Outlines)
    nodes: dict[bytes, NodeRow] = field(default_factory=dict)
    beginnings: dict[bytes, Beginning | None] = field(default_factory=dict)
    attributes: dict[tuple[str, Fact | None], Attribute] = field(default_factory=dict)
    facts: dict[tuple[Attribute | int, str, Fact | None], Fact] = field(default_factory=dict)
    signatures: dict[Signature, int] = field(default_factory=dict)
    signature_list: list[Signature] = field(default_factory=list)
    resolved: dict[tuple[tuple[Node, ...], int], int] = field(default_factory=dict)

    def forget(self) -> None:
        """Drop what is only there to be found again, where it has become much."""
        for known in (self.nodes, self.beginnings, self.attributes, self.facts, self.resolved):
            if len(known) > MOST_KNOWN:
                known.clear()

    def fact(self, what: Attribute | int, value: str, above: Fact | None) -> Fact:
        """Return a fact, the same one whenever it is the same."""
        key = what, value, above
        if (known := self.facts.get(key)) is None:
            known = self.facts[key] = Fact(what, value, above)
        return known

    def node(self, line: bytes) -> NodeRow | None:
        """Return number, attribute, value and parent that a line defines a node with; None where it does not."""
        if (known := self.nodes.get(line)) is None and (match := NODE.fullmatch(line)):
            id_, attribute, value, parent = match.groups()
            known = int(id_), int(attribute), _decode(_unescape(value)), int(parent) if parent else ABSENT
            self.nodes[line] = known
        return known

    def beginning(self, text: bytes) -> Beginning | None:
        """Return the nodes and attributes that a record begins with; None where it is written in another way."""
        if text not in self.beginnings:
            match = HEAD.fullmatch(text)
            self.beginnings[text] = (_parse_ids(match[1] or b""), _parse_ids(match[2])) if match else None
        return self.beginnings[text]

    def signature(self, attributes: Signature) -> int:
        """Return the number of the attributes of records."""
        number = self.signatures.setdefault(attributes, len(self.signature_list))
        if number == len(self.signature_list):
            self.signature_list.append(attributes)
        return number


def _parse_ids(text: bytes) -> tuple[int, ...]:
    """Return the numbers of nodes; one that is too long to be one is not a node's."""
    return tuple([int(id_) if len(id_) < LONGEST_ID else ABSENT for id_ in text.split(b"=") if id_])


class _HeadNumbers(dict[bytes, int]):
    """Numbers of heads by the text that they are written as."""

    def __init__(self, add: Callable[[bytes], int]) -> None:
        super().__init__()
        self._add = add

    def __missing__(self, text: bytes) -> int:
        number = self._add(text)
        if number >= 0:
            self[text] = number
        return number


class CaliReader:
    """Reads the lines of one file into records."""

    def __init__(self, records: Records, dialect: Dialect | None = None) -> None:
        """Take the `records` of the dialect's vocabulary, where one is given."""
        self.records = records
        self._dialect = dialect or Dialect(records.vocabulary)
        self._nodes: dict[int, Node] = dict.fromkeys(range(POINTER + 1), (ABSENT, ()))
        self._facts: dict[int, Fact] = {
            number: self._dialect.fact(TYPE, name, None) for number, name in enumerate(TYPES)
        }
        self._facts[POINTER] = self._dialect.fact(TYPE, "ptr", None)
        self._attributes: dict[int, Attribute] = {}
        self._signatures: dict[tuple[int, ...], int] = {}  # by the numbers of attributes in this file
        self._heads = _HeadNumbers(self._add_head)
        self._head: list[tuple[int, int]] = []  # of these: number of the head, number of the signature

    def read(self, blocks: Iterable[TextBlock]) -> Records:
        """Read a file. A last line without its end may be cut, and is left out."""
        rest = iter(blocks)
        first = list(islice(rest, 2))
        text = PartedText.of(first[0].data) if len(first) == 1 else None
        if text and self._dialect.outlines.fill(text, self.records):
            return self.records
        for block in chain(first, rest):
            data = block.data
            whole = data.rfind(b"\n") + 1
            if data[whole:].strip():
                self.records.left_out.damage("lines that break off at the end of the file", data[whole:])
            self._read_lines(data[:whole])
        if text:
            read = ReadFile(self.records, self._dialect.node, self._attributes, self._facts, self._look_up)
            self._dialect.outlines.learn(text, read)
        return self.records

    def _look_up(self, text: bytes) -> tuple[tuple[int, ...], int, Signature] | None:
        """Return the nodes of a record that begins so, its head and its attributes; None where that is not known."""
        beginning, row = self._dialect.beginning(text), self._heads[text]
        if beginning is None or row < 0:
            return None
        head, signature = self._head[row]
        return beginning[0], head, self._dialect.signature_list[signature]

    def _read_lines(self, data: bytes) -> None:
        """Read the lines of a block: first what defines nodes, then records."""
        if b"\r" in data:
            data = data.replace(b"\r", b"")
        alike, rest = part_alike(data)
        records, others = _part_lines(rest)
        node_of = self._dialect.node
        for line in others.split(b"\n"):
            if node := node_of(line):
                self._add_node(*node)
            elif line.strip():
                self._read_other(line)
        if alike is None and records is not rest:
            alike, records = part_alike(records)
        if alike and not self._add_alike(alike):
            self._read_records(alike.text)
        if records:
            self._read_records(records)

    def _read_records(self, records: bytes) -> None:
        parts = records[len(RECORD) : -1].replace(b"\n" + RECORD, DATA).split(DATA)
        if b"\\" in records or len(parts) != 2 * records.count(b"\n"):
            parts = self._read_unusual_records(records.splitlines())
        self._add_parts(parts)

    def _read_unusual_records(self, lines: list[bytes]) -> list[bytes]:
        """Read the records that have escapes, or not one text of data; return how the others begin and what they
        hold."""
        out: list[bytes] = []
        for line in lines:
            if b"\\" in line or line.count(DATA) != 1:
                self._read_other(line)
            else:
                out += line[len(RECORD) :].split(DATA)
        return out

    def _add_parts(self, parts: list[bytes]) -> None:
        """Add records, given as how they begin, what they hold, and so on."""
        rows = np.fromiter(map(self._heads.__getitem__, parts[::2]), np.int64, len(parts) // 2)
        for k in np.flatnonzero(rows == OTHER).tolist():
            self._read_other(RECORD + parts[2 * k] + DATA + parts[2 * k + 1])
        self._add_rows(rows, parts[1::2])

    def _add_alike(self, text: AlikeText) -> bool:
        """Add records of one shape; return whether they could be, as those can that hold nothing but numbers."""
        records = text.parse()
        if records is None:
            return False
        rows = np.array([self._heads[begin] for begin in records.texts()], np.int64)
        used = {self._head[row][1] for row in rows.tolist() if row >= 0}
        if not all(attribute.is_number for number in used for attribute in self._dialect.signature_list[number]):
            return False
        for chosen, head, attributes in self._group_rows(rows[records.head]):
            self._add_table(head, attributes, list(records.values[chosen].T))
        return True

    # -- nodes ---------------------------------------------------------------------------------------------------------

    def _add_node(self, id_: int, attribute: int, value: str, parent: int) -> None:
        """Add a node; the first of those with one number counts."""
        above = self._nodes.get(parent) if parent >= 0 else (ABSENT, ())
        known = self._attributes.get(attribute)
        if id_ < 0 or above is None or (attribute > POINTER and known is None):
            self.records.left_out.damage("nodes of unknown attributes, or below unknown nodes", f"id={id_}")
            return
        if id_ in self._nodes:
            self.records.left_out.damage("nodes that the file defines again", f"id={id_}")
            return
        if known is None:
            self._nodes[id_] = above
            self._facts[id_] = self._dialect.fact(attribute, value, self._facts.get(parent))
            if attribute == NAME:
                self._attributes[id_] = self._find_attribute(value, self._facts.get(parent))
            return
        if known.is_nested:
            path, labels = above
            self._nodes[id_] = self.records.paths.child(path, known.name, value), labels
            return
        self._facts[id_] = self._dialect.fact(known, value, self._facts.get(parent))
        self._nodes[id_] = above if known.is_hidden else _label(above, known.name, value)

    def _find_attribute(self, name: str, fact: Fact | None) -> Attribute:
        key = name, fact
        if (attribute := self._dialect.attributes.get(key)) is None:
            attribute = self._dialect.attributes[key] = _make_attribute(name, fact)
        self.records.attributes.setdefault(name, attribute)
        return attribute

    # -- records -------------------------------------------------------------------------------------------------------

    def _read_other(self, text: bytes) -> None:
        """Read a line that has escapes, other fields, or another order of them."""
        fields = split_record(text)
        kind = b"".join(fields.get("__rec", []))
        try:
            if kind == b"node":
                ids = [int((fields.get(key) or [b"-1"])[0]) for key in ("id", "attr", "parent")]
                self._add_node(ids[0], ids[1], _decode((fields.get("data") or [b""])[0]), ids[2])
            elif kind in (b"ctx", b"globals"):
                refs, attrs = ([int(id_) for id_ in fields.get(key, []) if id_] for key in ("ref", "attr"))
                self._read_record(kind, refs, attrs, fields)
            else:
                self.records.left_out.damage(NO_RECORD, text)
        except ValueError:
            self.records.left_out.damage("records with a number that is none", text)

    def _read_record(self, kind: bytes, refs: list[int], attrs: list[int], fields: dict[str, list[bytes]]) -> None:
        values = fields.get("data", [])
        if any(ref not in self._nodes for ref in refs) or any(attr not in self._attributes for attr in attrs):
            self.records.left_out.damage(UNKNOWN_NODE, f"ref={refs}, attr={attrs}")
        elif len(values) != len(attrs):
            self.records.left_out.damage(UNEVEN, f"attr={attrs}")
        elif kind == b"globals":
            self._add_globals(refs, attrs, values)
        elif attrs:
            head, signature = self._resolve(refs, tuple(attrs))
            self._add_texts(np.array([head]), [values], self._dialect.signature_list[signature])

    def _add_globals(self, refs: list[int], attrs: list[int], values: list[bytes]) -> None:
        pairs = [(self._attributes[attr], _decode(value)) for attr, value in zip(attrs, values, strict=True)]
        for ref in refs:
            fact = self._facts.get(ref)
            while fact is not None:
                if isinstance(fact.what, Attribute):
                    pairs.append((fact.what, fact.value))
                fact = fact.above
        for known, text in pairs:
            self.records.globals.setdefault(known.name, Global(known, text))

    def _add_head(self, text: bytes) -> int:
        """Return the number of how records begin, `ref=1=2,attr=3=4`; below 0 where it is not known."""
        ids = self._dialect.beginning(text)
        if ids is None:
            return OTHER
        try:
            self._head.append(self._resolve(*ids))
        except KeyError:
            return UNKNOWN
        return len(self._head) - 1

    def _resolve(self, refs: Sequence[int], attrs: tuple[int, ...]) -> tuple[int, int]:
        """Return the numbers of a head and of its attributes; raise a KeyError for nodes that the file does not
        define."""
        nodes = tuple([self._nodes[ref] for ref in refs])
        signature = self._signatures.get(attrs)
        if signature is None:
            signature = self._dialect.signature(tuple([self._attributes[attr] for attr in attrs]))
            self._signatures[attrs] = signature
        key = nodes, signature
        if (head := self._dialect.resolved.get(key)) is None:
            path, labels = ABSENT, dict[str, str]()
            for further, more in nodes:
                path = self.records.paths.join(path, further)
                labels.update(more)
            head = self._dialect.resolved[key] = self.records.head(path, tuple(labels.items())[-MOST_LABELS:])
        return head, signature

    # -- numbers -------------------------------------------------------------------------------------------------------

    def _group_rows(self, rows: Ints) -> Iterator[tuple[Ints | slice, Ints, Signature]]:
        """Yield records with the same attributes: which these are, their heads, and the attributes."""
        if n := int((rows == UNKNOWN).sum()):
            self.records.left_out.damage(UNKNOWN_NODE, n=n)
        if not (rows >= 0).any():
            return
        head, signature = np.array(self._head, np.int64).T[:, np.maximum(rows, 0)]
        signature[rows < 0] = ABSENT
        for number in np.flatnonzero(np.bincount(signature[rows >= 0])).tolist():
            chosen = np.flatnonzero(signature == number)
            attributes = self._dialect.signature_list[number]
            if len(chosen) == len(rows):
                yield slice(None), head, attributes
            else:
                yield chosen, head[chosen], attributes

    def _add_rows(self, rows: Ints, texts: list[bytes]) -> None:
        """Add records to tables, those with the same attributes at once."""
        for chosen, head, attributes in self._group_rows(rows):
            given = texts if isinstance(chosen, slice) else [texts[k] for k in chosen.tolist()]
            numbers = parse_numbers(given, len(attributes)) if all(a.is_number for a in attributes) else None
            if numbers is not None:
                self._add_table(head, attributes, list(numbers.T))
            else:
                self._add_texts(head, [text.split(b"=") for text in given], attributes)

    def _add_table(self, head: Ints, attributes: Signature, columns: list[Array]) -> None:
        self.records.tables.append(make_table(head, attributes, columns))

    def _add_texts(self, head: Ints, texts: list[list[bytes]], attributes: Signature) -> None:
        """Add records one by one: of which some values are not numbers, and become labels; or some are broken."""
        heads: list[int] = []
        rows: list[list[float]] = []
        for number, values in zip(head.tolist(), texts, strict=True):
            if len(values) != len(attributes):
                self.records.left_out.damage(UNEVEN, b"=".join(values))
                continue
            pairs = list(zip(attributes, values, strict=True))
            try:
                rows.append([_number(value) for attribute, value in pairs if attribute.is_number])
            except ValueError:
                self.records.left_out.damage(NO_NUMBERS, b"=".join(values))
                continue
            more = [(a.name, _decode(value)) for a, value in pairs if not a.is_number and not a.is_hidden]
            path, labels = self.records.heads[number]
            heads.append(self.records.head(path, (*labels, *more)[-MOST_LABELS:]) if more else number)
        numeric = tuple(attribute for attribute in attributes if attribute.is_number)
        if rows and numeric:
            columns = [
                np.array(column, np.float64 if _has_fraction(column) else np.int64)
                for column in zip(*rows, strict=True)
            ]
            self._add_table(np.array(heads, np.int64), numeric, columns)


def _label(node: Node, name: str, value: str) -> Node:
    """Return path and labels of a node with another label."""
    path, labels = node
    others = tuple([label for label in labels if label[0] != name])
    return path, (*others, (name, value))[-MOST_LABELS:]


def _make_attribute(name: str, fact: Fact | None) -> Attribute:
    """Return an attribute, of which the nodes above it tell."""
    type_, properties = "", 0
    facts: dict[str, str] = {}
    for _ in repeat(None, LONGEST_CHAIN):
        if fact is None:
            break
        value = fact.value
        if isinstance(fact.what, Attribute):
            facts.setdefault(fact.what.name, value)
        elif fact.what == TYPE:
            type_ = value
        elif fact.what == PROPERTIES:
            properties = int(value) if value.isascii() and value.isdigit() and len(value) < 10 else 0
        fact = fact.above
    return Attribute(name, type_, properties, tuple(facts.items()))


def _number(text: bytes) -> float:
    """Return a finite number, an integer where it is written as one that fits; raise a ValueError otherwise."""
    if text.isdigit() and len(text) < 20 and (whole := int(text)) < 2**63:
        return whole
    number = float(text)
    if not np.isfinite(number):
        raise ValueError(text)
    return number


def _has_fraction(column: Iterable[float]) -> bool:
    return any(not isinstance(number, int) for number in column)


def fields_of(block: TextBlock) -> Iterator[tuple[int, str, str]]:
    """Yield offset, name and text of every field in a block of lines."""
    at = block.offset
    for line in block.data.splitlines(keepends=True):
        for key, values in split_record(line.rstrip(b"\r\n")).items():
            if key:
                yield at, key, "=".join(map(_decode, values))
        at += len(line)
