"""A JSON file whose parts know where they are: `measurements["f"]["t"][3].values`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from callgrove.errors import CorruptFile
from callgrove.formats.extrap.lines import BOM, as_text
from callgrove.formats.extrap.numbers import NotANumber, as_number, shown

__all__ = ["Node", "parse_json", "wrong"]

_PLAIN = re.compile(r"[A-Za-z_][\w-]*")


def parse_json(data: bytes, path: Path, what: str = "JSON") -> Node:
    """The root of a JSON text; its errors name line and column."""
    skipped = len(BOM) if data.startswith(BOM) else 0
    text = as_text(data[skipped:], path, what, skipped)
    try:
        return Node(json.loads(text), path, "")
    except json.JSONDecodeError as error:
        near = text[error.pos : error.pos + 40].split("\n")[0]
        found = f"{error.msg} at column {error.colno}" + (f" ({near!r})" if near else " (the text ends here)")
        line = error.lineno
    except RecursionError:
        found, line = "brackets nested too deeply", None
    except ValueError as error:  # a number with thousands of digits
        found, line = str(error), None
    raise CorruptFile(path, what, line=line, expected="valid JSON", found=found)


def wrong(path: Path, place: str, expected: str, found: object, remedy: str = "") -> CorruptFile:
    """The error for a part of a JSON file."""
    return CorruptFile(path, place or "top level", expected=expected, found=shown(found), remedy=remedy)


class Node:
    """A value and its place; what is asked of it is checked."""

    __slots__ = ("path", "place", "value")

    def __init__(self, value: object, path: Path, place: str) -> None:
        self.value, self.path, self.place = value, path, place

    def __getitem__(self, key: str) -> Node:
        """A member of an object, which must be there."""
        members = self.members()
        if key not in members:
            there = ", ".join(map(repr, list(members)[:8])) or "no keys"
            where = self.place or "top level"
            raise CorruptFile(self.path, where, expected=f"the key {key!r}", found=f"only {there}")
        return Node(members[key], self.path, _member(self.place, key))

    def get(self, key: str) -> Node | None:
        """A member of an object, if it is there and not null."""
        value = self.members().get(key)
        return None if value is None else Node(value, self.path, _member(self.place, key))

    def items(self) -> Iterator[tuple[str, Node]]:
        for key, value in self.members().items():
            yield key, Node(value, self.path, _member(self.place, key, quoted=True))

    def elements(self) -> Iterator[Node]:
        for number, value in enumerate(self.entries()):
            yield Node(value, self.path, f"{self.place}[{number}]")

    def members(self) -> dict[str, object]:
        if not isinstance(self.value, dict):
            raise self.bad("an object")
        return self.value

    def entries(self) -> list[object]:
        if not isinstance(self.value, list):
            raise self.bad("a list")
        return self.value

    def text(self) -> str:
        if not isinstance(self.value, str):
            raise self.bad("a text")
        return self.value

    def number(self) -> float:
        try:
            return as_number(self.value)
        except NotANumber:
            raise self.bad("a number") from None

    def whole(self) -> int:
        """A whole number, also one that is written as text or as 3.0."""
        found = self.number()
        if found != found // 1 or abs(found) > 2**53:
            raise self.bad("a whole number")
        return int(found)

    def bad(self, expected: str, remedy: str = "") -> CorruptFile:
        return wrong(self.path, self.place, expected, self.value, remedy)


def _member(place: str, key: str, quoted: bool = False) -> str:
    if quoted or not _PLAIN.fullmatch(key):
        return f"{place}[{json.dumps(key, ensure_ascii=False)}]"
    return f"{place}.{key}" if place else key
