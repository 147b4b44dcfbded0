"""anchor.xml as flat tables: metrics, regions, cnodes, places of the system, topologies.

    cube version
    |-- attr*, doc > mirrors > murl*
    |-- metrics > metric*            nested
    |-- program > region*, cnode*    cnodes nested, with parameters
    `-- system > systemtreenode* > locationgroup* > location*, topologies > cart* > dim*, coord*

A specification of metrics (`remapping.spec`) is the part of it that tells of metrics: mirrors, and metrics without ids.

Anchors of 4.0 say machine, node, process, thread instead of the last three; they become the same here. Nothing
recurses: call trees may be a hundred thousand levels deep. Ids are checked by `tables.py`, which uses them.
"""

from __future__ import annotations

import io
import re
from array import array
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path

from callgrove.binary import xml
from callgrove.errors import CorruptFile, RefusedInput, UnsupportedVersion

__all__ = [
    "Anchor",
    "Level",
    "RawCart",
    "RawMetric",
    "RawPlace",
    "RawRegion",
    "read_anchor",
    "read_specification",
    "repair_cubepl",
]


# -- repairing the XML around CubePL -----------------------------------------------------------------------------------
# Older versions leave attribute values bare (`<cubepl rowwise=false>`), and specifications hold `<` and `&` of
# expressions as they are. Start tags get quotes, texts get entities; everything else stays to the byte.


START = re.compile(rb"<(cubepl(?:init|aggr)?)((?:\s[^<>]*)?)>")
BARE = re.compile(rb"(=\s*)([^\s\"'>/]+)")
LONE_AMPERSAND = re.compile(rb"&(?!(?:amp|lt|gt|quot|apos|#[0-9]{1,7}|#x[0-9a-fA-F]{1,6});)")
CDATA = b"<![CDATA["


def repair_cubepl(xml: bytes) -> bytes:
    """Return XML whose CubePL a parser accepts. One pass, whatever the text."""
    if b"<cubepl" not in xml:
        return xml
    out: list[bytes] = []
    at = 0
    while (start := START.search(xml, at)) is not None:
        name, attributes = start[1], start[2]
        out += [xml[at : start.start()], b"<", name, BARE.sub(rb'\1"\2"', attributes), b">"]
        at = start.end()
        if attributes.endswith(b"/"):
            continue
        end = xml.find(b"</" + name, at)
        if end < 0:  # the parser will say what is wrong
            break
        text = xml[at:end]
        out.append(text if text.lstrip().startswith(CDATA) else _escape(text))
        at = end
    return b"".join([*out, xml[at:]])


def _escape(text: bytes) -> bytes:
    return LONE_AMPERSAND.sub(b"&amp;", text).replace(b"<", b"&lt;")


# -- tables of the anchor ----------------------------------------------------------------------------------------------


Attributes = dict[str, str]
Pairs = list[tuple[str, str]]
LAST_NUMBER = 2**63 - 1


class Level(IntEnum):
    """What a place of the system is."""

    NODE = 0
    GROUP = 1
    LOCATION = 2


PLACES = {
    "systemtreenode": (Level.NODE, ""),
    "locationgroup": (Level.GROUP, "process"),
    "location": (Level.LOCATION, "thread"),
    "machine": (Level.NODE, "machine"),
    "node": (Level.NODE, "node"),
    "process": (Level.GROUP, "process"),
    "thread": (Level.LOCATION, "thread"),
}
TEXTS = frozenset(
    ("disp_name", "uniq_name", "dtype", "uom", "val", "url", "descr", "cubepl", "cubeplinit", "cubeplaggr", "name")
) | {"mangled_name", "paradigm", "role", "class", "rank", "type", "murl", "coord"}
COORDINATES = {
    "locId": Level.LOCATION,
    "thrdId": Level.LOCATION,
    "lgId": Level.GROUP,
    "procId": Level.GROUP,
    "stnId": Level.NODE,
    "nodeId": Level.NODE,
    "machId": Level.NODE,
}


@dataclass
class RawMetric:
    """A metric. `given` are its XML attributes, `texts` its text elements, `rules` its (kind, CubePL) of cubeplaggr."""

    id: int
    parent: int
    line: int
    given: Attributes
    texts: Attributes = field(default_factory=dict)
    rules: Pairs = field(default_factory=list)
    row_wise: str | None = None
    attributes: Pairs = field(default_factory=list)


@dataclass
class RawRegion:
    """A region."""

    id: int
    line: int
    mod: str
    begin: int
    end: int
    texts: Attributes = field(default_factory=dict)
    attributes: Pairs = field(default_factory=list)


@dataclass
class RawPlace:
    """A place of the system tree; `element` is the word of the file."""

    id: int
    parent: int
    line: int
    level: Level
    element: str
    texts: Attributes = field(default_factory=dict)
    attributes: Pairs = field(default_factory=list)


@dataclass
class RawCart:
    """A topology. Coordinates are (level, the element's word, id, text)."""

    name: str
    n_dims: str
    dims: list[Attributes] = field(default_factory=list)
    coordinates: list[tuple[Level, str, str, str]] = field(default_factory=list)


@dataclass
class Anchor:
    """Everything that anchor.xml says, in document order. Columns of cnodes are parallel; -1 is absent."""

    version: str = ""
    attributes: Attributes = field(default_factory=dict)
    titles: Attributes = field(default_factory=dict)
    mirrors: list[str] = field(default_factory=list)
    sections: set[str] = field(default_factory=set)
    metrics: list[RawMetric] = field(default_factory=list)
    regions: list[RawRegion] = field(default_factory=list)
    cnode_id: array[int] = field(default_factory=lambda: array("q"))
    cnode_callee: array[int] = field(default_factory=lambda: array("q"))
    cnode_parent: array[int] = field(default_factory=lambda: array("q"))
    cnode_line: array[int] = field(default_factory=lambda: array("q"))
    cnode_xml_line: array[int] = field(default_factory=lambda: array("q"))
    cnode_mod: dict[int, str] = field(default_factory=dict)
    parameters: dict[int, list[tuple[str, str, str]]] = field(default_factory=dict)  # (type, key, value)
    cnode_attributes: dict[int, Pairs] = field(default_factory=dict)
    places: list[RawPlace] = field(default_factory=list)
    carts: list[RawCart] = field(default_factory=list)


def read_anchor(path: Path, text: bytes) -> Anchor:
    """Return the tables of an anchor, plain already."""
    reader = _Reader(path, "anchor.xml")
    try:
        reader.parse(text)
    except CorruptFile:
        if not reader.has_begun:
            reader.check_root("")
        raise
    reader.finish()
    return reader.anchor


DECLARATION = re.compile(rb"\A(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*\?>)?")
SPECIFICATION_PARTS = ("metrics", "metric", "attr")


def read_specification(path: Path, name: str, text: bytes) -> Anchor:
    """Return the mirrors and metrics of a specification, which has no element around them; ids count its metrics.
    `name` is that of the member or file at `path`, for errors."""
    reader = _Reader(path, name, parts=SPECIFICATION_PARTS)
    reader.parse(b'<cube version="4.4">' + DECLARATION.sub(b"", text, count=1) + b"</cube>")
    if not reader.anchor.metrics:
        raise CorruptFile(path, name, expected="an element <metric>", found="none")
    return reader.anchor


class _Reader:
    """Handlers of a parser, and where in the document they are."""

    def __init__(self, path: Path, name: str, parts: Container[str] | None = None) -> None:
        self.path, self.name, self.anchor = path, name, Anchor()
        self._parts = parts  # the elements that there may be; None is all
        self.has_begun = False
        self._parser = xml.new_parser(f"{path}: {name}")
        self._open: list[str] = []
        self._cnodes: list[int] = []
        self._metrics: list[int] = []
        self._places: list[int] = []
        self._text: list[str] | None = None
        self._given: Attributes = {}

    # -- the document ------------------------------------------------------------------------------------------------

    def parse(self, text: bytes) -> None:
        self._parser.StartElementHandler = self.start
        self._parser.EndElementHandler = self.end
        self._parser.CharacterDataHandler = self.text
        self._parser.StartDoctypeDeclHandler = self.refuse
        xml.parse(f"{self.path}: {self.name}", self._parser, io.BytesIO(repair_cubepl(text)))

    def line(self) -> int:
        return self._parser.CurrentLineNumber

    def start(self, name: str, given: Attributes) -> None:
        if not self._open:
            self.has_begun = True
            self.check_root(name, given)
        self._open.append(name)
        if name in TEXTS:
            self._text, self._given = [], given
        elif (begin := STARTS.get(name)) is not None:
            if self._parts is not None and name not in self._parts:
                raise CorruptFile(self.path, self.name, line=self.line(), expected="metrics", found=f"<{name}>")
            begin(self, name, given)

    def end(self, name: str) -> None:
        self._open.pop()
        if name in TEXTS and self._text is not None:
            self._take_text(name, "".join(self._text))
            self._text = None
        elif name == "cnode":
            self._cnodes.pop()
        elif name == "metric":
            self._metrics.pop()
        elif name in PLACES:
            self._places.pop()

    def text(self, data: str) -> None:
        if self._text is not None:
            self._text.append(data)

    def refuse(self, *doctype: object) -> None:
        raise RefusedInput(f"{self.path}: {self.name}: line {self.line()}: it has a DOCTYPE, which is never read")

    def check_root(self, name: str, given: Attributes | None = None) -> None:
        if name != "cube":
            found = f"<{name}>" if name else "no element"
            raise CorruptFile(self.path, self.name, line=self.line(), expected="<cube version=...>", found=found)
        self.anchor.version = (given or {}).get("version", "")
        if self.anchor.version.partition(".")[0] != "4" and self.anchor.version != "3.0":
            text = f"its anchor has version {self.anchor.version!r}, and versions 4.x are read"
            raise UnsupportedVersion(f"{self.path}: {text}; convert it with CubeLib's tools")

    def finish(self) -> None:
        for section in ("metrics", "program", "system"):
            if section not in self.anchor.sections:
                raise CorruptFile(self.path, self.name, expected=f"an element <{section}>", found="none")

    def number(self, given: Attributes, key: str, element: str, absent: int | None = None) -> int:
        """Return a number among the attributes of an element; without one, `absent`, or an error where there must be
        one."""
        text = given.get(key, "").strip()
        digits = text.removeprefix("-")
        if digits.isascii() and digits.isdigit() and len(digits) < 20 and int(digits) <= LAST_NUMBER:
            return int(text)
        if absent is not None:
            return absent
        found = repr(text[:40]) if text else f"none in <{element}>"
        raise CorruptFile(self.path, self.name, line=self.line(), expected=f"a number {key}", found=found)

    # -- elements ----------------------------------------------------------------------------------------------------

    def section(self, name: str, given: Attributes) -> None:
        self.anchor.sections.add(name)
        if "title" in given:
            self.anchor.titles[name] = given["title"]

    def metric(self, name: str, given: Attributes) -> None:
        parent = self._metrics[-1] if self._metrics else -1
        number = len(self.anchor.metrics)
        id_ = self.number(given, "id", name) if self._parts is None else number
        self._metrics.append(number)
        self.anchor.metrics.append(RawMetric(id_, parent, self.line(), given))

    def region(self, name: str, given: Attributes) -> None:
        begin, end = self.number(given, "begin", name, -1), self.number(given, "end", name, -1)
        id_, mod = self.number(given, "id", name), given.get("mod", "")
        self.anchor.regions.append(RawRegion(id_, self.line(), mod, begin, end))

    def cnode(self, name: str, given: Attributes) -> None:
        a, number = self.anchor, len(self.anchor.cnode_id)
        a.cnode_parent.append(self._cnodes[-1] if self._cnodes else -1)
        a.cnode_id.append(self.number(given, "id", name))
        a.cnode_callee.append(self.number(given, "calleeId", name))
        a.cnode_line.append(self.number(given, "line", name, -1))
        a.cnode_xml_line.append(self.line())
        if given.get("mod"):
            a.cnode_mod[number] = given["mod"]
        self._cnodes.append(number)

    def parameter(self, name: str, given: Attributes) -> None:
        if self._cnodes:
            kind, key, value = (given.get(word, "") for word in ("partype", "parkey", "parvalue"))
            self.anchor.parameters.setdefault(self._cnodes[-1], []).append((kind, key, value))

    def place(self, name: str, given: Attributes) -> None:
        level = PLACES[name][0]
        parent = self._places[-1] if self._places else -1
        if level != Level.NODE and parent < 0:
            where = "below a node of the system"
            raise CorruptFile(self.path, self.name, line=self.line(), expected=f"<{name}> {where}", found="it alone")
        if parent >= 0 and not self._fits(self.anchor.places[parent].level, level):
            found = f"<{name}> below <{self.anchor.places[parent].element}>"
            raise CorruptFile(self.path, self.name, line=self.line(), expected="a system tree", found=found)
        self._places.append(len(self.anchor.places))
        id_ = self.number(given, "Id", name) if "Id" in given else self.number(given, "id", name)
        self.anchor.places.append(RawPlace(id_, parent, self.line(), level, name))

    @staticmethod
    def _fits(above: Level, level: Level) -> bool:
        return above == Level.GROUP if level == Level.LOCATION else above == Level.NODE

    def attr(self, name: str, given: Attributes) -> None:
        key, value, above = given.get("key", ""), given.get("value", ""), self._open[-2] if len(self._open) > 1 else ""
        if above == "cube":
            self.anchor.attributes[key] = value
        elif above == "cnode":
            self.anchor.cnode_attributes.setdefault(self._cnodes[-1], []).append((key, value))
        elif (holder := self._holder(above)) is not None:
            holder.attributes.append((key, value))

    def cart(self, name: str, given: Attributes) -> None:
        self.anchor.carts.append(RawCart(given.get("name", ""), given.get("ndims", "")))

    def dim(self, name: str, given: Attributes) -> None:
        if self.anchor.carts:
            self.anchor.carts[-1].dims.append(given)

    def _holder(self, element: str) -> RawMetric | RawRegion | RawPlace | None:
        """Return what a text or an attribute inside of an element belongs to."""
        if element == "metric" and self._metrics:
            return self.anchor.metrics[self._metrics[-1]]
        if element == "region" and self.anchor.regions:
            return self.anchor.regions[-1]
        if element in PLACES and self._places:
            return self.anchor.places[self._places[-1]]
        return None

    def _take_text(self, name: str, text: str) -> None:
        above = self._open[-1] if self._open else ""
        if name == "murl":
            self.anchor.mirrors.append(text)
        elif name == "coord" and self.anchor.carts:
            word = next((w for w in COORDINATES if w in self._given), "")
            if word:
                self.anchor.carts[-1].coordinates.append((COORDINATES[word], word, self._given[word], text))
        elif (holder := self._holder(above)) is not None:
            if name == "cubeplaggr" and isinstance(holder, RawMetric):
                holder.rules.append((self._given.get("cubeplaggrtype", ""), text))
                return
            if name == "cubepl" and isinstance(holder, RawMetric):
                holder.row_wise = self._given.get("rowwise")
            holder.texts[name] = text


STARTS: dict[str, Callable[[_Reader, str, Attributes], None]] = {
    **dict.fromkeys(("metrics", "program", "system"), _Reader.section),
    **dict.fromkeys(PLACES, _Reader.place),
    "metric": _Reader.metric,
    "region": _Reader.region,
    "cnode": _Reader.cnode,
    "parameter": _Reader.parameter,
    "attr": _Reader.attr,
    "cart": _Reader.cart,
    "dim": _Reader.dim,
}
