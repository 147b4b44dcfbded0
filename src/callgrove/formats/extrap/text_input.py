"""Text by lines, JSON by paths and numbers, all of which know their place in the file."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from callgrove.errors import CorruptFile, InputError

__all__ = [
    "Node",
    "NotANumber",
    "as_number",
    "as_repetitions",
    "as_text",
    "as_words",
    "line_blocks",
    "number_lines",
    "parse_json",
    "quote_value",
    "wrong",
]


# -- text by lines -----------------------------------------------------------------------------------------------------
# UTF-8; a byte order mark is dropped; lines end with LF, CRLF or CR. They come in blocks, so that a million of them
# cost little; a block is what is in memory.


BOM = b"\xef\xbb\xbf"
BLOCK = 1 << 20  # bytes
LONGEST_LINE = 256 << 20  # bytes
NO_TEXT = "the file is damaged, or no text"


def as_text(data: bytes, path: Path, section: str, offset: int = 0, line: int | None = None) -> str:
    """Bytes as text; what is no UTF-8 is an error that says where. `line` is the number of the first line."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CorruptFile(
            path,
            section,
            offset=offset + error.start,
            line=None if line is None else line + len(_lines(data[: error.start])) - 1,
            expected="UTF-8",
            found=f"the byte 0x{data[error.start]:02x}",
            remedy="convert the file to UTF-8",
        ) from None


def _lines(data: bytes) -> list[bytes]:
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")


def line_blocks(path: Path, size: int = BLOCK) -> Iterator[tuple[int, list[str]]]:
    """(number of the first line, from 1; lines without their ends) of block after block."""
    number, offset, rest = 1, 0, bytearray()
    try:
        with path.open("rb") as file:
            while data := file.read(size):
                cut = data.rfind(b"\n") + 1
                if cut == 0:  # a line that is longer than a block
                    rest += data
                    _refuse_endless(rest, path, number)
                    continue
                lines = _split(bytes(rest) + data[:cut], path, number, offset)
                del lines[-1]  # after the last end there is nothing yet
                yield number, lines
                number, offset, rest = number + len(lines), offset + len(rest) + cut, bytearray(data[cut:])
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    if rest:
        yield number, _split(bytes(rest), path, number, offset)


def _refuse_endless(line: bytearray, path: Path, number: int) -> None:
    if len(line) > LONGEST_LINE:
        wanted = f"at most {LONGEST_LINE:,} bytes"
        raise CorruptFile(path, "text", line=number, expected=wanted, found="a line that is longer", remedy=NO_TEXT)


def _split(data: bytes, path: Path, number: int, offset: int) -> list[str]:
    skipped = len(BOM) if number == 1 and data.startswith(BOM) else 0
    text = as_text(data[skipped:] if skipped else data, path, "text", offset + skipped, number)
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.split("\n")


def number_lines(path: Path) -> Iterator[tuple[int, str]]:
    """(number from 1, text without its end) of every line."""
    for first, lines in line_blocks(path):
        yield from enumerate(lines, first)


# -- numbers -----------------------------------------------------------------------------------------------------------
# JSON numbers, numeric strings and lists of them. The caller says where they stand.


LONGEST = 80  # characters of a value in a message


class NotANumber(Exception):
    """What was found instead; the reader makes an error of it that names the place."""

    def __init__(self, value: object) -> None:
        self.value = value
        super().__init__(quote_value(value))


def quote_value(value: object) -> str:
    """Return a value in a message, not longer than a line can bear."""
    text = (
        {True: "true", False: "false"}[value] if isinstance(value, bool) else "null" if value is None else repr(value)
    )
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def as_number(value: object) -> float:
    """Return a number, or a string that is one."""
    if isinstance(value, float):
        return value
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise NotANumber(value)
    try:
        return float(value)
    except (ValueError, OverflowError):
        raise NotANumber(value) from None


def as_repetitions(value: object) -> Sequence[object]:
    """Return the repetitions that a value holds: itself, or those of a list. A list in the list is one repetition with
    several values."""
    if not isinstance(value, list):
        return [as_number(value)]
    repetitions: list[object] = [one if type(one) is float else _flatten_numbers(one) for one in value]
    if not repetitions or [] in repetitions:
        raise NotANumber(value)
    return repetitions


def _flatten_numbers(value: object) -> object:
    """Return the numbers of a repetition, however deep they lie."""
    if not isinstance(value, list):
        return as_number(value)
    flat: list[float] = []
    pending = [value]
    while pending:
        one = pending.pop()
        if isinstance(one, list):
            pending.extend(reversed(one))
        else:
            flat.append(as_number(one))
    return flat


def as_words(value: float) -> str:
    """Return the shortest text that is read back as the same number; whole numbers without a point."""
    if math.isfinite(value) and value == int(value) and abs(value) < 1e16:
        return str(int(value)) if value or math.copysign(1, value) > 0 else "-0.0"
    return repr(float(value))


# -- JSON by paths -----------------------------------------------------------------------------------------------------


_PLAIN = re.compile(r"[A-Za-z_][\w-]*")


def parse_json(data: bytes, path: Path, what: str = "JSON") -> Node:
    """Return the root of a JSON text; its errors name line and column."""
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
    """Return the error for a part of a JSON file."""
    return CorruptFile(path, place or "top level", expected=expected, found=quote_value(found), remedy=remedy)


class Node:
    """A value and its place; what is asked of it is checked."""

    __slots__ = ("path", "place", "value")

    def __init__(self, value: object, path: Path, place: str) -> None:
        self.value, self.path, self.place = value, path, place

    def __getitem__(self, key: str) -> Node:
        """Return a member of an object, which must be there."""
        members = self.members()
        if key not in members:
            there = ", ".join(map(repr, list(members)[:8])) or "no keys"
            where = self.place or "top level"
            raise CorruptFile(self.path, where, expected=f"the key {key!r}", found=f"only {there}")
        return Node(members[key], self.path, _member(self.place, key))

    def get(self, key: str) -> Node | None:
        """Return a member of an object, if it is there and not null."""
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
        """Return a whole number, also one that is written as text or as 3.0."""
        number = self.number()
        if number != number // 1 or abs(number) > 2**53:
            raise self.bad("a whole number")
        return int(number)

    def bad(self, expected: str, remedy: str = "") -> CorruptFile:
        return wrong(self.path, self.place, expected, self.value, remedy)


def _member(place: str, key: str, quoted: bool = False) -> str:
    if quoted or not _PLAIN.fullmatch(key):
        return f"{place}[{json.dumps(key, ensure_ascii=False)}]"
    return f"{place}.{key}" if place else key
