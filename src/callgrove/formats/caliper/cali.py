r"""The lines of a .cali file.

    __rec=node,id=155,attr=20,data=main,parent=28          a value of an attribute, below another node
    __rec=ctx,ref=155=79,attr=97=148,data=0.25=2           a record: nodes, and attributes with their values
    __rec=globals,ref=28                                   facts about the run

Fields are separated by `,` and values by `=`; a `\` stands before each of these in a value, and before itself; `\n` is
a line end. An attribute is a node of attribute 8, its name; above it stand nodes with its type (attribute 9) and
properties (10). Nodes 0 to 11 are in no file: types, and these three attributes.

Nearly all lines have these fields in this order and no `\`. Nodes are taken apart by one regular expression. Records
are split where their values begin: what stands before is looked up, as many records begin with the same text, and the
numbers of many records are parsed at once. Other lines are parsed one by one.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat

import numpy as np

from callgrove.arrays import ABSENT, Array, Ints
from callgrove.formats.caliper.records import MOST_LABELS, Attribute, Global, Labels, Records, RecordTable
from callgrove.formats.text_profiles import TextBlock

__all__ = ["CaliReader", "split_record"]

NODE = re.compile(rb"__rec=node,id=(\d{1,18}),attr=(\d{1,18}),data=([^,\\]*)(?:,parent=(\d{1,18}))?")
HEAD = re.compile(rb"(?:ref=(\d[\d=]*),)?attr=(\d[\d=]*)")
RECORD, DATA = b"__rec=ctx,", b",data="
TYPES = ("usr", "int", "uint", "string", "addr", "double", "bool", "type")
NAME, TYPE, PROPERTIES, POINTER = 8, 9, 10, 11  # nodes that are in no file
LONGEST_CHAIN = 64  # nodes above an attribute that are looked at
EXACT = float(2**53)  # larger integers are not all doubles
UNKNOWN_NODE = "records that refer to nodes which the file does not define"
NO_RECORD = "lines that are no records of Caliper"
UNEVEN = "records with other numbers of attributes and values"

UNKNOWN, OTHER = -1, -2  # instead of the number of a head: it names unknown nodes; it is written in another way

Node = tuple[int, Labels]  # path, and labels
Signature = tuple[Attribute, ...]


def split_record(line: bytes) -> dict[str, list[bytes]]:
    """Return the fields of a line, each with its values, without escapes."""
    fields: dict[str, list[bytes]] = {}
    for field in _split(line, b","):
        key, *values = (_unescape(value) for value in _split(field, b"="))
        fields[key.decode("utf-8", "backslashreplace")] = values
    return fields


def _split(text: bytes, separator: bytes) -> list[bytes]:
    """Return the parts between separators that no backslash stands before."""
    if b"\\" not in text:
        return text.split(separator)
    pattern = rb"((?:[^\\%s]|\\.)*)(?:%s|\\?$)" % (separator, separator)
    parts = [match[1] for match in re.finditer(pattern, text, re.DOTALL)]
    return parts[:-1] if len(parts) > 1 and not text.endswith(separator) else parts


def _unescape(text: bytes) -> bytes:
    if b"\\" not in text:
        return text
    return re.sub(rb"\\(.)", lambda match: b"\n" if match[1] == b"n" else match[1], text, flags=re.DOTALL)


def _halves(line: bytes) -> tuple[bytes, bytes]:
    """Return how a record begins, and what it holds."""
    head, _, text = line[len(RECORD) :].partition(DATA)
    return head, text


def _decode(text: bytes) -> str:
    return text.decode("utf-8", "backslashreplace")


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

    def __init__(self, records: Records) -> None:
        self.records = records
        self._nodes: dict[int, Node] = dict.fromkeys(range(POINTER + 1), (ABSENT, ()))
        self._above: dict[int, tuple[int, str, int]] = {
            number: (TYPE, name, ABSENT) for number, name in enumerate(TYPES)
        }  # what nodes say about attributes: attribute, value and parent
        self._above[POINTER] = TYPE, "ptr", ABSENT
        self._attributes: dict[int, Attribute] = {}
        self._heads = _HeadNumbers(self._add_head)
        self._head: list[tuple[int, int]] = []  # of these: number of the head, number of the signature
        self._signatures: dict[Signature, int] = {}

    def read(self, blocks: Iterable[TextBlock]) -> Records:
        """Read a file. A last line without its end may be cut, and is left out."""
        for block in blocks:
            data = block.data
            whole = data.rfind(b"\n") + 1
            if data[whole:].strip():
                self.records.left_out.damage("lines that break off at the end of the file", data[whole:])
            self._read_lines(data[:whole])
        return self.records

    def _read_lines(self, data: bytes) -> None:
        """Read the lines of a block: first what defines nodes, then records."""
        if data.startswith(RECORD) and data.count(b"\n" + RECORD) + 1 == data.count(b"\n") and b"\\" not in data:
            parts = data[len(RECORD) : -1].replace(b"\n" + RECORD, DATA).split(DATA)  # records only, as in most blocks
            if len(parts) == 2 * data.count(b"\n") and b"\r" not in data:
                self._add_parts(parts)
                return
        lines = (data.replace(b"\r", b"") if b"\r" in data else data).split(b"\n")
        rest = [line for line in lines if not line.startswith(RECORD)]
        records = [line for line in lines if line.startswith(RECORD)] if len(rest) < len(lines) else []
        for line in rest:
            if node := NODE.fullmatch(line):
                id_, attribute, value, parent = node.groups()
                self._add_node(int(id_), int(attribute), value, int(parent) if parent else ABSENT)
            elif line.strip():
                self._read_other(line)
        if b"\\" in data:
            for line in records:
                if b"\\" in line:
                    self._read_other(line)
            records = [line for line in records if b"\\" not in line]
        self._read_records(records)

    def _read_records(self, lines: list[bytes]) -> None:
        """Read lines that begin like records and have no escapes."""
        is_whole = [line.count(DATA) == 1 for line in lines]
        for line, whole in zip(lines, is_whole, strict=True):
            if not whole:
                self._read_other(line)
        self._add_parts([part for line, whole in zip(lines, is_whole, strict=True) if whole for part in _halves(line)])

    def _add_parts(self, parts: list[bytes]) -> None:
        """Add records, given as how they begin, what they hold, and so on."""
        rows = np.fromiter(map(self._heads.__getitem__, parts[::2]), np.int64, len(parts) // 2)
        for k in np.flatnonzero(rows == OTHER).tolist():
            self._read_other(RECORD + parts[2 * k] + DATA + parts[2 * k + 1])
        self._add_rows(rows, parts[1::2])

    # -- nodes ---------------------------------------------------------------------------------------------------------

    def _add_node(self, id_: int, attribute: int, data: bytes, parent: int) -> None:
        """Add a node; the first of those with one number counts."""
        above = self._nodes.get(parent) if parent >= 0 else (ABSENT, ())
        if id_ < 0 or above is None or (attribute > POINTER and attribute not in self._attributes):
            self.records.left_out.damage("nodes of unknown attributes, or below unknown nodes", f"id={id_}")
            return
        if id_ in self._nodes:
            self.records.left_out.damage("nodes that the file defines again", f"id={id_}")
            return
        value = _decode(data)
        if attribute <= POINTER:
            self._nodes[id_] = above
            self._above[id_] = attribute, value, parent
            if attribute == NAME:
                self._attributes[id_] = self._make_attribute(value, parent)
            return
        known = self._attributes[attribute]
        if not known.is_nested:
            self._above[id_] = attribute, value, parent
        self._nodes[id_] = self._step(above, known, value)

    def _step(self, above: Node, attribute: Attribute, value: str) -> Node:
        """Return path and labels of a node: those of the one above, and its own value."""
        path, labels = above
        if attribute.is_nested:
            return self.records.paths.child(path, attribute.name, value), labels
        if attribute.is_hidden:
            return above
        others = tuple(label for label in labels if label[0] != attribute.name)
        return path, (*others, (attribute.name, value))[-MOST_LABELS:]

    def _make_attribute(self, name: str, parent: int) -> Attribute:
        type_, properties = "", 0
        facts: dict[str, str] = {}
        for _ in repeat(None, LONGEST_CHAIN):
            if parent not in self._above:
                break
            what, value, parent = self._above[parent]
            if what == TYPE:
                type_ = value
            elif what == PROPERTIES:
                properties = int(value) if value.isascii() and value.isdigit() and len(value) < 10 else 0
            elif what in self._attributes:
                facts.setdefault(self._attributes[what].name, value)
        attribute = Attribute(name, type_, properties, tuple(facts.items()))
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
                self._add_node(ids[0], ids[1], (fields.get("data") or [b""])[0], ids[2])
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
            head, signature = self._resolve(refs, attrs)
            self._add_texts(np.array([head]), [values], self._list_signatures()[signature])

    def _add_globals(self, refs: list[int], attrs: list[int], values: list[bytes]) -> None:
        pairs = [(self._attributes[attr], _decode(value)) for attr, value in zip(attrs, values, strict=True)]
        for ref in refs:
            while ref in self._above:
                attribute, value, ref = self._above[ref]
                if attribute in self._attributes:
                    pairs.append((self._attributes[attribute], value))
        for known, text in pairs:
            self.records.globals.setdefault(known.name, Global(known, text))

    def _add_head(self, text: bytes) -> int:
        """Return the number of how records begin, `ref=1=2,attr=3=4`; below 0 where it is not known."""
        match = HEAD.fullmatch(text)
        if match is None:
            return OTHER
        try:
            refs, attrs = ([int(id_) for id_ in (field or b"").split(b"=") if id_] for field in match.groups())
        except ValueError:  # a number of thousands of digits
            return UNKNOWN
        if any(ref not in self._nodes for ref in refs) or any(attr not in self._attributes for attr in attrs):
            return UNKNOWN
        self._head.append(self._resolve(refs, attrs))
        return len(self._head) - 1

    def _resolve(self, refs: list[int], attrs: list[int]) -> tuple[int, int]:
        path, labels = ABSENT, dict[str, str]()
        for ref in refs:
            further, more = self._nodes[ref]
            path = self.records.paths.join(path, further)
            labels.update(more)
        signature = tuple(self._attributes[attr] for attr in attrs)
        number = self._signatures.setdefault(signature, len(self._signatures))
        return self.records.head(path, tuple(labels.items())[-MOST_LABELS:]), number

    def _list_signatures(self) -> list[Signature]:
        return list(self._signatures)

    # -- numbers -------------------------------------------------------------------------------------------------------

    def _add_rows(self, rows: Ints, texts: list[bytes]) -> None:
        """Add records to tables, those with the same attributes at once."""
        if n := int((rows == UNKNOWN).sum()):
            self.records.left_out.damage(UNKNOWN_NODE, n=n)
        if not (rows >= 0).any():
            return
        head, signature = np.where(rows >= 0, np.array(self._head, np.int64).T[:, rows], ABSENT)
        for number in np.unique(signature[rows >= 0]).tolist():
            chosen = np.flatnonzero(signature == number)
            given = texts if len(chosen) == len(texts) else [texts[k] for k in chosen.tolist()]
            attributes = self._list_signatures()[number]
            numbers = _parse_numbers(given, len(attributes)) if all(a.is_number for a in attributes) else None
            if numbers is not None:
                self._add_table(head[chosen], attributes, list(numbers.T))
            else:
                self._add_texts(head[chosen], [text.split(b"=") for text in given], attributes)

    def _add_table(self, head: Ints, attributes: Signature, columns: list[Array]) -> None:
        named: dict[str, Array] = {}
        for attribute, column in zip(attributes, columns, strict=True):
            if attribute.name not in named and not attribute.is_hidden:  # the first of several values of one attribute
                named[attribute.name] = _as_integers(column) if attribute.type != "double" else column
        self.records.tables.append(RecordTable(head, named))

    def _add_texts(self, head: Ints, texts: list[list[bytes]], attributes: Signature) -> None:
        """Add records one by one: of which some values are no numbers, and become labels; or some are broken."""
        heads: list[int] = []
        rows: list[list[float]] = []
        for number, values in zip(head.tolist(), texts, strict=True):
            try:
                if len(values) != len(attributes):
                    raise ValueError(UNEVEN)
                pairs = list(zip(attributes, values, strict=True))
                rows.append([_number(value) for attribute, value in pairs if attribute.is_number])
            except ValueError:
                self.records.left_out.damage(UNEVEN, b"=".join(values))
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


def _parse_numbers(texts: list[bytes], n_columns: int) -> Array | None:
    """Return the numbers of records as a matrix; None where one is no number, or too large to be exact."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            numbers = np.fromstring(b"=".join(texts), np.float64, sep="=")
        except (ValueError, DeprecationWarning):
            return None
    if len(numbers) != len(texts) * n_columns or not bool((np.abs(numbers) < EXACT).all()):
        return None
    return numbers.reshape(len(texts), n_columns)


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


def _as_integers(column: Array) -> Array:
    """Return a column of integers as such; numbers with a fraction stay what they are."""
    if column.dtype.kind == "i":
        return column
    whole = column.astype(np.int64)
    return whole if bool((whole == column).all()) else column


def fields_of(block: TextBlock) -> Iterator[tuple[int, str, str]]:
    """Yield offset, name and text of every field in a block of lines."""
    at = block.offset
    for line in block.data.splitlines(keepends=True):
        for key, values in split_record(line.rstrip(b"\r\n")).items():
            if key:
                yield at, key, "=".join(map(_decode, values))
        at += len(line)
