"""The part of YAML that metrics/default.yaml is written in.

Specification: YAML 1.2, restricted to what HPCToolkit's emitter (yaml-cpp) writes; hpctoolkit-databases.md B.8.

    version: 0                          block mappings and sequences, nested by indentation
    inputs:
      - &time-sum                       an anchor names a node, ...
        metric: REALTIME (sec)
    roots:
      - variants:
          "":                           plain, 'single' and "double\n" quoted text
            render: [number, percent]   flow collections, which may span lines
            formula: {/: [*time-sum, 2]}    ... an alias is that very node, not a copy
        children:                       an empty value is None, as are ~ and null

Every other scalar is its text: a metric may be called 12 or yes, and what is a number only the reader of a field knows.

Deviations. Refused, with the line: tags, block scalars (| and >), text over several lines, documents and directives,
complex keys, keys that repeat, an alias within its own anchor. Hostile input is bounded by the limits below.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

__all__ = [
    "ALIAS",
    "ANCHOR",
    "BLANK_LINES",
    "COLON",
    "COMMA",
    "DASH",
    "DOCUMENT_MARK",
    "FLOW_COLON",
    "FLOW_PLAIN",
    "FLOW_SPACE",
    "LINE_END",
    "MAX_FLOW_DEPTH",
    "MAX_INDENT_DEPTH",
    "MAX_NODES",
    "MAX_TEXT",
    "PLAIN",
    "QUOTED",
    "SPACE",
    "Node",
    "YamlError",
    "parse",
    "unquote",
]


# -- tokens ------------------------------------------------------------------------------------------------------------
# Specification: YAML 1.2 chapters 5 to 7, as far as they are needed here.
#
#     key: "text"  # comment        COLON, QUOTED, LINE_END
#     - &name plain text            DASH, ANCHOR, PLAIN
#     {a: [*name, b]}               FLOW_COLON, ALIAS, FLOW_PLAIN, COMMA
#
# Deviations: quoted text ends on its line; names of anchors have only ASCII letters, digits, _ and -; only LF and CR LF
# break lines.


def _plain(may_start: str, indicators: str) -> re.Pattern[str]:
    """Return text without quotes: up to a comment, a colon that ends a key, or one of the indicators."""
    first = r"(?:[^ \t\r\n\-?:,\[\]{}#&*!|>'\"%@`]|[" + may_start + r"](?=[^ \t\r\n" + indicators + r"]))"
    colon = r":(?![ \t\r\n" + indicators + r"]|\Z)"
    return re.compile(first + r"(?:[ \t]++(?=[^ \t\r\n#])|" + colon + r"|[^ \t\r\n:" + indicators + r"]++)*+")


# Quantifiers are possessive (++, *+): no input makes them backtrack. In Python before 3.11.5, a possessive group whose
# last turn fails ends where that turn got to: so the last thing tried in a group never moves before it fails.
BLANK_LINES = re.compile(r"(?:[ ]*+(?:#[^\n]*+)?+(?:\n|\r\n))*+[ ]*+(?:#[^\n]*+\Z)?")
LINE_END = re.compile(r"(?:[ \t]++#[^\n]*+|[ \t]*+\r?+)(?:\n|\Z)")
SPACE = re.compile(r"[ \t]*+")
FLOW_SPACE = re.compile(r"(?:[ \t\r\n]++(?:#[^\n]*+)?+)*+")
DASH = re.compile(r"-(?=[ \r\n]|\Z)")
COLON = re.compile(r"[ \t]*+:(?=[ \t\r\n]|\Z)")
FLOW_COLON = re.compile(r"[ \t]*+:")
COMMA = re.compile(r",(?:[ \t\r\n]++(?:#[^\n]*+)?+)*+")
ANCHOR = re.compile(r"[ \t]*+&([0-9A-Za-z_\-]++)(?=[ \t\r\n]|\Z)(?![ \t]++\*)")  # an alias has no anchor
ALIAS = re.compile(r"\*([0-9A-Za-z_\-]++)(?=[ \t\r\n,\[\]{}]|\Z)")
QUOTED = re.compile(r"""'((?:[^'\r\n]++|'')*+)'|"((?:[^"\\\r\n]++|\\[^\r\n])*+)\"""")
PLAIN = _plain(r"\-?:", "")
FLOW_PLAIN = _plain(r"\-", r",\[\]{}")
DOCUMENT_MARK = re.compile(r"(?:---|\.\.\.)(?=[ \t\r\n]|\Z)|%")

_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)")
_ESCAPED = dict(zip('0abt\tnvfre "/\\N_LP', '\0\a\b\t\t\n\v\f\r\x1b "/\\\x85\xa0\u2028\u2029', strict=True))


def unquote(quoted: re.Match[str]) -> str:
    """Return the text within a QUOTED token; a ValueError names an escape that is none."""
    single, double = quoted.groups()
    if double is None:
        return str(single).replace("''", "'")
    return _ESCAPE.sub(_escape, double)


def _escape(match: re.Match[str]) -> str:
    code = match[1]
    if code in _ESCAPED:
        return _ESCAPED[code]
    number = int(code[1:], 16) if len(code) > 1 else -1
    if number < 0 or number > 0x10FFFF or 0xD800 <= number < 0xE000:
        raise ValueError(f"the escape {match[0]!r} is not a character")
    return chr(number)


# -- parser ------------------------------------------------------------------------------------------------------------


MAX_TEXT = 16 * 1024 * 1024  # characters
MAX_NODES = 1_000_000
MAX_INDENT_DEPTH = 64  # collections in collections by indentation: these recurse
MAX_FLOW_DEPTH = 400  # brackets in brackets: these do not

Node: TypeAlias = "str | list[Node] | dict[str, Node] | None"

_NULLS = frozenset(("~", "null", "Null", "NULL"))
_CLOSING = {"[": "]", "{": "}"}
_REFUSED = {
    "'": ": a quoted text that does not end on its line",
    '"': ": a quoted text that does not end on its line",
    "|": ": block scalars are not supported",
    ">": ": block scalars are not supported",
    "!": ": tags are not supported",
}


class YamlError(ValueError):
    """A text outside the subset, or no YAML at all."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(line, message)
        self.line = line
        self.message = message

    def __str__(self) -> str:
        return f"line {self.line}: {self.message}"


def parse(text: str) -> Node:
    """Return the document: mappings, sequences, text, and None for what is empty. Aliases share the node they name."""
    if len(text) > MAX_TEXT:
        raise YamlError(1, f"the text has {len(text)} characters, more than {MAX_TEXT}")
    return _Parser(text.removeprefix("\ufeff")).document()


@dataclass(slots=True)
class _Open:
    """A flow collection that waits for its closing bracket."""

    node: list[Node] | dict[str, Node]
    closing: str
    anchor: re.Match[str] | None
    key: str = ""  # of the entry being read


class _Parser:
    """A cursor over the text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.anchors: dict[str, Node] = {}
        self.n_nodes = 0
        self.depth = 0

    def document(self) -> Node:
        if self._next_line() < 0:
            return None
        if DOCUMENT_MARK.match(self.text, self.position):
            raise self._error("document marks and directives are not supported")
        node = self._block_node()
        if self._next_line() >= 0:
            raise self._error("the indentation fits no enclosing collection")
        return node

    # The cursor

    def _error(self, message: str) -> YamlError:
        return YamlError(self.text.count("\n", 0, self.position) + 1, message)

    def _peek(self) -> str:
        return self.text[self.position : self.position + 1]

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Move past the pattern if it is here."""
        match = pattern.match(self.text, self.position)
        if match:
            self.position = match.end()
        return match

    def _next_line(self) -> int:
        """Move to the next content; its column, or -1 at the end of the text."""
        self._take(BLANK_LINES)
        if self._peek() == "\t":
            raise self._error("a tab in the indentation; indent with spaces")
        return self._column() if self.position < len(self.text) else -1

    def _column(self) -> int:
        return self.position - self.text.rfind("\n", 0, self.position) - 1

    def _end_line(self) -> None:
        if not self._take(LINE_END):
            rest = self.text[self.position : self.position + 20].partition("\n")[0]
            raise self._error(f"expected the end of the line, found {rest!r}")

    def _count(self) -> None:
        self.n_nodes += 1
        if self.n_nodes > MAX_NODES:
            raise self._error(f"more than {MAX_NODES} values")

    # Blocks, nested by indentation

    def _block_node(self) -> Node:
        """Return the node whose first character is here."""
        self._count()
        self.depth += 1
        if self.depth > MAX_INDENT_DEPTH:
            raise self._error(f"more than {MAX_INDENT_DEPTH} levels of indentation")
        column = self._column()
        node: Node
        if DASH.match(self.text, self.position):
            node = self._block_sequence(column)
        elif (key := self._key(PLAIN, COLON)) is not None:
            node = self._block_mapping(column, key)
        else:
            node = self._line_node()
        self.depth -= 1
        return node

    def _block_sequence(self, column: int) -> list[Node]:
        sequence: list[Node] = []
        while self._take(DASH):
            sequence.append(self._block_item(column))
            if self._next_line() != column:
                break
        return sequence

    def _block_item(self, column: int) -> Node:
        anchor = self._take(ANCHOR)
        node: Node
        if self._take(LINE_END):
            node = self._block_node() if self._next_line() > column else None
        elif anchor:
            node = self._line_node()  # not a mapping: in `- &a key: value` the anchor would name the key
        else:
            self._take(SPACE)
            node = self._block_node()
        return self._name_node(anchor, node)

    def _block_mapping(self, column: int, key: str) -> dict[str, Node]:
        mapping: dict[str, Node] = {}
        while True:
            mapping[key] = self._block_value(column)
            if self._next_line() != column:
                return mapping
            read = self._key(PLAIN, COLON)
            if read is None:
                raise self._error("expected `key:`")
            key = self._check_unused(read, mapping)

    def _block_value(self, column: int) -> Node:
        anchor = self._take(ANCHOR)
        node: Node = None
        if not self._take(LINE_END):
            node = self._line_node()
        else:
            below = self._next_line()
            # A sequence may stand right below its key, without further indentation.
            if below > column or (below == column and DASH.match(self.text, self.position)):
                node = self._block_node()
        return self._name_node(anchor, node)

    def _line_node(self) -> Node:
        """Return text, an alias or a flow collection, and nothing after it on its line."""
        self._take(SPACE)
        node = self._flow() if self._peek() in _CLOSING else self._scalar(PLAIN)
        self._end_line()
        return node

    # Flow collections, nested by brackets

    def _flow(self) -> Node:
        opened = [self._flow_open(None)]
        while True:
            top = opened[-1]
            if self._peek() == top.closing:
                self.position += 1
                node = self._name_node(top.anchor, opened.pop().node)
                if not opened:
                    return node
                self._flow_add(opened[-1], node)
                continue
            if isinstance(top.node, dict):
                self._flow_key(top, top.node)
            anchor = self._take(ANCHOR)
            self._take(FLOW_SPACE)
            if self._peek() in _CLOSING:
                opened.append(self._flow_open(anchor))
                if len(opened) > MAX_FLOW_DEPTH:
                    raise self._error(f"more than {MAX_FLOW_DEPTH} levels of brackets")
            else:
                is_empty = isinstance(top.node, dict) and self._peek() in (",", "}")
                self._flow_add(top, self._name_node(anchor, None if is_empty else self._scalar(FLOW_PLAIN)))

    def _flow_open(self, anchor: re.Match[str] | None) -> _Open:
        self._count()
        opening = self._peek()
        self.position += 1
        self._take(FLOW_SPACE)
        return _Open([] if opening == "[" else {}, _CLOSING[opening], anchor)

    def _flow_key(self, top: _Open, mapping: dict[str, Node]) -> None:
        key = self._key(FLOW_PLAIN, FLOW_COLON)
        if key is None:
            raise self._error("expected `key:` or '}'")
        top.key = self._check_unused(key, mapping)
        self._take(FLOW_SPACE)

    def _flow_add(self, top: _Open, node: Node) -> None:
        if isinstance(top.node, dict):
            top.node[top.key] = node
        else:
            top.node.append(node)
        self._take(FLOW_SPACE)
        if not self._take(COMMA) and self._peek() != top.closing:
            raise self._error(f"expected ',' or '{top.closing}'")

    # Keys and scalars

    def _key(self, plain: re.Pattern[str], colon: re.Pattern[str]) -> str | None:
        """Move past a key and its colon; None, without moving, if there is none."""
        start = self.position
        match = self._take(QUOTED) or self._take(plain)
        if match and self._take(colon):
            return self._unquote(match) if match.re is QUOTED else match[0].rstrip(" \t")
        self.position = start
        return None

    def _check_unused(self, key: str, mapping: dict[str, Node]) -> str:
        if key in mapping:
            raise self._error(f"the key {key[:80]!r} repeats")
        return key

    def _name_node(self, anchor: re.Match[str] | None, node: Node) -> Node:
        if anchor:
            self.anchors[anchor[1]] = node
        return node

    def _scalar(self, plain: re.Pattern[str]) -> Node:
        self._count()
        if match := self._take(ALIAS):
            if match[1] not in self.anchors:
                raise self._error(f"the alias *{match[1][:80]} names no earlier anchor")
            return self.anchors[match[1]]
        if match := self._take(QUOTED):
            return self._unquote(match)
        if match := self._take(plain):
            text = match[0].rstrip(" \t")
            return None if text in _NULLS else text
        raise self._error(f"expected a value, found {self._peek()!r}" + _REFUSED.get(self._peek(), ""))

    def _unquote(self, quoted: re.Match[str]) -> str:
        try:
            return unquote(quoted)
        except ValueError as error:
            raise self._error(str(error)) from None
