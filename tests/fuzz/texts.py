"""Damage to bytes, to lines of text, to JSON and to XML. Every mutator takes the content and a source of chance."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

__all__ = ["LIES", "Mutator", "break_bytes", "break_json", "break_lines", "break_xml", "lie_at", "pick"]

Mutator = Callable[[bytes, random.Random], bytes]

LIES = (
    0,
    1,
    2,
    7,
    127,
    128,
    255,
    256,
    2**15,
    2**16 - 1,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**53 + 1,
    2**63 - 1,
    2**63,
    2**64 - 1,
)
MOST_INSERTED = 1 << 16  # bytes; what is repeated or nested may not grow beyond it
DEEP = 3000  # levels


def pick(mutators: Sequence[Mutator], data: bytes, rng: random.Random) -> bytes:
    """Return the content after one of some mutators."""
    return rng.choice(mutators)(data, rng)


# -- bytes -------------------------------------------------------------------------------------------------------------


def lie_at(data: bytes, at: int, width: int, rng: random.Random) -> bytes:
    """Return the content with another number in `width` bytes: an extreme one, or one near to what was there."""
    order = rng.choice(("little", "big"))
    now = int.from_bytes(data[at : at + width], order)  # type: ignore[arg-type]
    lie = rng.choice((*LIES, now + 1, now - 1, now * 2, len(data), len(data) - 1)) & ((1 << 8 * width) - 1)
    return data[:at] + lie.to_bytes(width, order) + data[at + width :]  # type: ignore[arg-type]


def _flip(data: bytes, rng: random.Random) -> bytes:
    broken = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 4, 16))):
        broken[rng.randrange(len(broken))] ^= 1 << rng.randrange(8)
    return bytes(broken)


def _lie_anywhere(data: bytes, rng: random.Random) -> bytes:
    width = rng.choice((1, 2, 4, 8))
    at = rng.randrange(max(1, len(data) - width))
    return lie_at(data, at, width, rng)


def _stretch(data: bytes, rng: random.Random) -> tuple[int, int]:
    """Return the bounds of some bytes: rather few than many."""
    first = rng.randrange(len(data))
    return first, min(len(data), first + 1 + int(rng.expovariate(1 / 24)))


def _cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data))]


def _drop(data: bytes, rng: random.Random) -> bytes:
    first, last = _stretch(data, rng)
    return data[:first] + data[last:]


def _repeat(data: bytes, rng: random.Random) -> bytes:
    first, last = _stretch(data, rng)
    times = min(rng.choice((1, 2, 9, 400)), MOST_INSERTED // (last - first))
    return data[:last] + data[first:last] * times + data[last:]


def _move(data: bytes, rng: random.Random) -> bytes:
    first, last = _stretch(data, rng)
    to = rng.randrange(len(data))
    return data[:to] + data[first:last] + data[to + last - first :]


def _fill(data: bytes, rng: random.Random) -> bytes:
    first, last = _stretch(data, rng)
    return data[:first] + rng.choice((b"\0", b"\xff", b"\x80", b" ")) * (last - first) + data[last:]


def _insert(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.randbytes(rng.choice((1, 1, 3, 40))) + data[at:]


BYTES: tuple[Mutator, ...] = (_flip, _flip, _lie_anywhere, _lie_anywhere, _cut, _drop, _repeat, _move, _fill, _insert)


def break_bytes(data: bytes, rng: random.Random) -> bytes:
    """Return the content with flipped, wrong, missing, moved or further bytes."""
    return pick(BYTES, data, rng) if data else rng.randbytes(rng.choice((1, 8, 64)))


# -- lines -------------------------------------------------------------------------------------------------------------

NUMBER = re.compile(rb"-?\d+(\.\d+)?([eE][-+]?\d+)?")
WRONG_NUMBERS = (
    b"",
    b"-1",
    b"0",
    b"-0",
    b"x",
    b"1e999",
    b"-1e999",
    b"nan",
    b"inf",
    b"1e-999",
    b"0x10",
    b"1_000",
    b"1.5",
    b"4294967296",
    b"9223372036854775807",
    b"9223372036854775808",
    b"-9223372036854775809",
    b"18446744073709551616",
    b"9" * 40,
    b"9" * 5000,
    "\N{ARABIC-INDIC DIGIT THREE}".encode(),
    b"+5",
    b" 5 ",
    b"1e308",
)
WRONG_TEXTS = (
    b"",
    b"\0",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"\r",
    b"\x1b[31m",
    b'"',
    b"'",
    b"\\",
    b",",
    b";",
    b"=",
    b"->",
    b" ",
    b"../../etc/passwd",
    b"A" * 70_000,
    "\u202e".encode(),
    "\N{COMBINING ACUTE ACCENT}".encode() * 40,
    b"%s%n{0}",
    b"\xef\xbb\xbf",
)


def _wrong_number(data: bytes, rng: random.Random) -> bytes:
    places = list(NUMBER.finditer(data))
    if not places:
        return _flip(data, rng)
    place = rng.choice(places)
    return data[: place.start()] + rng.choice(WRONG_NUMBERS) + data[place.end() :]


def _wrong_word(data: bytes, rng: random.Random) -> bytes:
    places = list(re.finditer(rb"\w+", data))
    if not places:
        return _flip(data, rng)
    place, other = rng.choice(places), rng.choice(places)
    return data[: place.start()] + rng.choice((*WRONG_TEXTS, other[0])) + data[place.end() :]


def _wrong_lines(data: bytes, rng: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    what = rng.randrange(5)
    if what == 0:
        del lines[at]
    elif what == 1:
        lines[at:at] = [lines[other]] * min(rng.choice((1, 2, 500)), MOST_INSERTED // len(lines[other]) + 1)
    elif what == 2:
        lines[at], lines[other] = lines[other], lines[at]
    elif what == 3:
        lines[at] = lines[at].rstrip(b"\r\n") + lines[other]
    else:
        lines[at] = lines[at][: rng.randrange(len(lines[at]))] + b"\n"
    return b"".join(lines)


def _other_breaks(data: bytes, rng: random.Random) -> bytes:
    return data.replace(b"\n", rng.choice((b"\r\n", b"\r", b"", b"\n\n", b"\0", b"\x0b")))


LINES: tuple[Mutator, ...] = (
    _wrong_number,
    _wrong_number,
    _wrong_word,
    _wrong_word,
    _wrong_lines,
    _wrong_lines,
    _other_breaks,
)


def break_lines(data: bytes, rng: random.Random) -> bytes:
    """Return a text with wrong numbers, words, lines or ends of lines."""
    if not data.strip() or rng.random() < 0.15:
        return break_bytes(data, rng)
    return pick(LINES, data, rng)


# -- JSON --------------------------------------------------------------------------------------------------------------

WRONG_VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    0.5,
    -0.0,
    1e308,
    2**31,
    2**53 + 1,
    2**63,
    2**64,
    -(2**63) - 1,
    10**400,
    float("nan"),
    float("inf"),
    "",
    "0",
    "x",
    "1e999",
    "\0",
    "\ud800",
    "a" * 70_000,
    [],
    {},
    [[]],
    [{}],
    {"": ""},
    ["x", 1],
    {"id": -1},
)


def break_json(data: bytes, rng: random.Random) -> bytes:
    """Return JSON, or lines of JSON, in which one value, key or element is another."""
    if rng.random() < 0.2:
        return break_lines(data, rng)
    if rng.random() < 0.03:
        return _nest(data, rng, rng.choice((b"[", b'{"a":')))
    try:
        return _edit_json(data, rng)
    except (ValueError, RecursionError):
        pass
    lines = data.splitlines(keepends=True)
    at = rng.randrange(len(lines)) if lines else 0
    try:
        lines[at] = _edit_json(lines[at], rng) + b"\n"
    except (ValueError, IndexError, RecursionError):
        return break_lines(data, rng)
    return b"".join(lines)


def _nest(data: bytes, rng: random.Random, opening: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + opening * rng.choice((50, DEEP, 20_000)) + data[at:]


def _edit_json(data: bytes, rng: random.Random) -> bytes:
    root = json.loads(data)
    holder: dict[str, Any] = {"": root}
    places = list(_json_places(holder))
    container, key = rng.choice(places)
    _change(container, key, rng, places)
    return json.dumps(holder.get("")).encode("utf-8", "surrogatepass")


def _json_places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield (container, key) of every value."""
    stack = [value]
    while stack:
        now = stack.pop()
        for key in list(now) if isinstance(now, dict) else range(len(now)):
            yield now, key
            if isinstance(now[key], dict | list):
                stack.append(now[key])


def _change(container: Any, key: Any, rng: random.Random, places: list[Any]) -> None:
    what = rng.randrange(8)
    if what == 0:
        del container[key]
    elif what == 1:
        other, where = rng.choice(places)
        container[key] = json.loads(json.dumps(other[where])) if other is not container else None
    elif what == 2 and isinstance(container, dict):
        container[rng.choice(("", "x", key.upper(), key + "s"))] = container.pop(key)
    elif what == 3 and isinstance(container, list):
        container[key:key] = [container[key]] * rng.choice((1, 2, 300))
    else:
        container[key] = rng.choice(WRONG_VALUES)


# -- XML ---------------------------------------------------------------------------------------------------------------

ATTRIBUTE = re.compile(rb"\s([\w:-]+)=(\"[^\"]*\"|'[^']*')")
ELEMENT = re.compile(rb"<(\w+)[^<>]*?/>|<(\w+)[^<>]*>[^<>]*</\2>")
TAG = re.compile(rb"</?\w+")
BOMB = (
    b'<!DOCTYPE a [<!ENTITY x "'
    + b"y" * 99
    + b'">'
    + b"".join(b'<!ENTITY x%d "%s">' % (k, b"&x;" * 9) for k in range(5))
    + b"]>"
)


def break_xml(data: bytes, rng: random.Random) -> bytes:
    """Return XML with wrong, missing or further attributes, elements, tags, depths or declarations."""
    if rng.random() < 0.1:
        return break_lines(data, rng)
    return pick(
        (_wrong_attribute, _wrong_attribute, _wrong_attribute, _wrong_element, _wrong_element, _wrong_tag, _declare),
        data,
        rng,
    )


def _wrong_attribute(data: bytes, rng: random.Random) -> bytes:
    places = list(ATTRIBUTE.finditer(data))
    if not places:
        return break_lines(data, rng)
    place, other = rng.choice(places), rng.choice(places)
    if rng.random() < 0.15:
        return data[: place.start()] + data[place.end() :]
    if rng.random() < 0.15:
        return data[: place.end()] + place[0] + data[place.end() :]
    wrong = rng.choice((*WRONG_NUMBERS, *WRONG_NUMBERS, *WRONG_TEXTS, other[2][1:-1])).replace(b'"', b"&quot;")
    return data[: place.start(2)] + b'"' + wrong + b'"' + data[place.end(2) :]


def _wrong_element(data: bytes, rng: random.Random) -> bytes:
    places = list(ELEMENT.finditer(data))
    if not places:
        return break_lines(data, rng)
    place, other = rng.choice(places), rng.choice(places)
    times = min(rng.choice((0, 0, 1, 2, 2, 300)), MOST_INSERTED // len(place[0]) + 1)
    if rng.random() < 0.3:
        return data[: place.start()] + other[0] + data[place.end() :]
    return data[: place.start()] + place[0] * times + data[place.end() :]


def _wrong_tag(data: bytes, rng: random.Random) -> bytes:
    places = list(TAG.finditer(data))
    if not places:
        return break_lines(data, rng)
    place, other = rng.choice(places), rng.choice(places)
    if rng.random() < 0.2:
        return (
            data[: place.start()] + place[0] + b">" + (place[0] + b">") * rng.choice((9, DEEP)) + data[place.start() :]
        )
    return data[: place.start()] + other[0] + data[place.end() :]


def _declare(data: bytes, rng: random.Random) -> bytes:
    at = data.find(b"?>") + 2 if b"?>" in data[:200] else 0
    what = rng.choice(
        (
            BOMB,
            b"<!DOCTYPE a SYSTEM 'file:///etc/passwd'>",
            b"<?xml version='1.0' encoding='utf-16'?>",
            b"<!--",
            b"<![CDATA[",
        )
    )
    return data[:at] + what + data[at:]
