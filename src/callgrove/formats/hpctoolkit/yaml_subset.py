"""The part of YAML that metrics/default.yaml is written in.

Specification: YAML 1.2, restricted to what HPCToolkit's emitter (yaml-cpp) writes; hpctoolkit-databases.md B.8.

    version: 0                          block mappings and sequences, nested by indentation
    inputs:
      - &time-sum                       an anchor names a node, ...
        metric: REALTIME (sec)
    roots:
      - variants:
          "":                           plain, 'single' and "double\\n" quoted text
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

from callgrove.formats.hpctoolkit import yaml_tokens as tokens

__all__ = ["MAX_FLOW_DEPTH", "MAX_INDENT_DEPTH", "MAX_NODES", "MAX_TEXT", "Node", "YamlError", "parse"]

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
    """The document: mappings, sequences, text, and None for what is empty. Aliases share the node they name."""
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
        if tokens.DOCUMENT_MARK.match(self.text, self.position):
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
        self._take(tokens.BLANK_LINES)
        if self._peek() == "\t":
            raise self._error("a tab in the indentation; indent with spaces")
        return self._column() if self.position < len(self.text) else -1

    def _column(self) -> int:
        return self.position - self.text.rfind("\n", 0, self.position) - 1

    def _end_line(self) -> None:
        if not self._take(tokens.LINE_END):
            found = self.text[self.position : self.position + 20].partition("\n")[0]
            raise self._error(f"expected the end of the line, found {found!r}")

    def _count(self) -> None:
        self.n_nodes += 1
        if self.n_nodes > MAX_NODES:
            raise self._error(f"more than {MAX_NODES} values")

    # Blocks, nested by indentation

    def _block_node(self) -> Node:
        """The node whose first character is here."""
        self._count()
        self.depth += 1
        if self.depth > MAX_INDENT_DEPTH:
            raise self._error(f"more than {MAX_INDENT_DEPTH} levels of indentation")
        column = self._column()
        node: Node
        if tokens.DASH.match(self.text, self.position):
            node = self._block_sequence(column)
        elif (key := self._key(tokens.PLAIN, tokens.COLON)) is not None:
            node = self._block_mapping(column, key)
        else:
            node = self._line_node()
        self.depth -= 1
        return node

    def _block_sequence(self, column: int) -> list[Node]:
        sequence: list[Node] = []
        while self._take(tokens.DASH):
            sequence.append(self._block_item(column))
            if self._next_line() != column:
                break
        return sequence

    def _block_item(self, column: int) -> Node:
        anchor = self._take(tokens.ANCHOR)
        node: Node
        if self._take(tokens.LINE_END):
            node = self._block_node() if self._next_line() > column else None
        elif anchor:
            node = self._line_node()  # not a mapping: in `- &a key: value` the anchor would name the key
        else:
            self._take(tokens.SPACE)
            node = self._block_node()
        return self._name_node(anchor, node)

    def _block_mapping(self, column: int, key: str) -> dict[str, Node]:
        mapping: dict[str, Node] = {}
        while True:
            mapping[key] = self._block_value(column)
            if self._next_line() != column:
                return mapping
            found = self._key(tokens.PLAIN, tokens.COLON)
            if found is None:
                raise self._error("expected `key:`")
            key = self._check_unused(found, mapping)

    def _block_value(self, column: int) -> Node:
        anchor = self._take(tokens.ANCHOR)
        node: Node = None
        if not self._take(tokens.LINE_END):
            node = self._line_node()
        else:
            below = self._next_line()
            # A sequence may stand right below its key, without further indentation.
            if below > column or (below == column and tokens.DASH.match(self.text, self.position)):
                node = self._block_node()
        return self._name_node(anchor, node)

    def _line_node(self) -> Node:
        """Text, an alias or a flow collection, and nothing after it on its line."""
        self._take(tokens.SPACE)
        node = self._flow() if self._peek() in _CLOSING else self._scalar(tokens.PLAIN)
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
            anchor = self._take(tokens.ANCHOR)
            self._take(tokens.FLOW_SPACE)
            if self._peek() in _CLOSING:
                opened.append(self._flow_open(anchor))
                if len(opened) > MAX_FLOW_DEPTH:
                    raise self._error(f"more than {MAX_FLOW_DEPTH} levels of brackets")
            else:
                is_empty = isinstance(top.node, dict) and self._peek() in (",", "}")
                self._flow_add(top, self._name_node(anchor, None if is_empty else self._scalar(tokens.FLOW_PLAIN)))

    def _flow_open(self, anchor: re.Match[str] | None) -> _Open:
        self._count()
        opening = self._peek()
        self.position += 1
        self._take(tokens.FLOW_SPACE)
        return _Open([] if opening == "[" else {}, _CLOSING[opening], anchor)

    def _flow_key(self, top: _Open, mapping: dict[str, Node]) -> None:
        key = self._key(tokens.FLOW_PLAIN, tokens.FLOW_COLON)
        if key is None:
            raise self._error("expected `key:` or '}'")
        top.key = self._check_unused(key, mapping)
        self._take(tokens.FLOW_SPACE)

    def _flow_add(self, top: _Open, node: Node) -> None:
        if isinstance(top.node, dict):
            top.node[top.key] = node
        else:
            top.node.append(node)
        self._take(tokens.FLOW_SPACE)
        if not self._take(tokens.COMMA) and self._peek() != top.closing:
            raise self._error(f"expected ',' or '{top.closing}'")

    # Keys and scalars

    def _key(self, plain: re.Pattern[str], colon: re.Pattern[str]) -> str | None:
        """Move past a key and its colon; None, without moving, if there is none."""
        start = self.position
        match = self._take(tokens.QUOTED) or self._take(plain)
        if match and self._take(colon):
            return self._unquote(match) if match.re is tokens.QUOTED else match[0].rstrip(" \t")
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
        if match := self._take(tokens.ALIAS):
            if match[1] not in self.anchors:
                raise self._error(f"the alias *{match[1][:80]} names no earlier anchor")
            return self.anchors[match[1]]
        if match := self._take(tokens.QUOTED):
            return self._unquote(match)
        if match := self._take(plain):
            text = match[0].rstrip(" \t")
            return None if text in _NULLS else text
        raise self._error(f"expected a value, found {self._peek()!r}" + _REFUSED.get(self._peek(), ""))

    def _unquote(self, quoted: re.Match[str]) -> str:
        try:
            return tokens.unquoted(quoted)
        except ValueError as error:
            raise self._error(str(error)) from None
