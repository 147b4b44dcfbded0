"""Which of Extra-P's formats a file is in, by its first bytes.

JSON is not parsed for it: a scanner of strings and nesting gives the keys of the first object and how their values
begin, with `;` where `,` may stand. So it does not matter where the text is cut off.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from callgrove.binary.sources import Source
from callgrove.formats.extrap.lines import BOM
from callgrove.formats.interface import Grade, Match

__all__ = ["sniff", "top_level"]

SNIFFED = 48 * 1024
FIRST = 64  # bytes that show whether more are worth reading
TAIL = 8 * 1024
ZIP = b"PK\x03\x04"
MEMBER = b"experiment.json"
BINARY3 = (b"\x01\x00\x11\x00\x00\x00EXTRAP_EXPERIMENT", b"\x00\x01\x00\x00\x00\x11EXTRAP_EXPERIMENT")
KEYWORDS = ("PARAMETER", "POINTS", "METRIC", "REGION", "DATA")

_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"?', re.DOTALL)
_INTEREST = re.compile(r'["{}\[\]:]')


def sniff(source: Source) -> tuple[str, Match] | None:
    """The format of a file and why; None where it is none of them."""
    if source.is_folder:
        return None
    first = source.head(FIRST)
    if first.startswith(ZIP):
        return _zip(source)
    if first.startswith(BINARY3):
        return "extrap-binary3", Match(Grade.EXACT, "it begins with EXTRAP_EXPERIMENT")
    text = first.removeprefix(BOM).lstrip()
    word = text.split(None, 1)[0] if text else b""
    if text[:1] in (b"{", b"#", b"") or word.upper().decode("ascii", "replace") in KEYWORDS:
        return _text(source.head(SNIFFED))
    return None


def _zip(source: Source) -> tuple[str, Match] | None:
    head = source.head(SNIFFED)
    tail = source.bytes().tail(TAIL) if MEMBER not in head else b""
    if MEMBER in head or MEMBER in tail:
        return "extrap-experiment", Match(Grade.EXACT, "a ZIP archive with experiment.json")
    return None


@lru_cache(maxsize=4)
def _text(head: bytes) -> tuple[str, Match] | None:
    text = head.removeprefix(BOM).decode("utf-8", "replace")
    lines = (line.strip() for line in re.split(r"[\r\n]+", text))
    first = next((line for line in lines if line and not line.startswith("#")), "")
    if first.startswith("{"):
        return _json(top_level(text[text.index(first) :] if "#" in text else text))
    word = first.split(None, 1)[0] if first else ""
    if word.upper() in KEYWORDS:
        return "extrap-text", Match(Grade.STRONG, f"it begins with {word}")
    return None


def _json(keys: Mapping[str, str]) -> tuple[str, Match]:
    """What the keys of the first object say; `keys` gives the first character of each value."""
    measurements, parameters = keys.get("measurements", ""), keys.get("parameters", "")
    strong = [
        ("extrap-json-old", "callpaths" in keys or measurements == "[", "an object with lists that refer to ids"),
        ("extrap-jsonl", "params" in keys, "objects with params, one per line"),
        ("extrap-json", bool(measurements) or parameters == "[", "an object with parameters and measurements"),
        ("extrap-talpas", parameters == "{", "objects with parameters, one per line"),
    ]
    for name, is_it, reason in strong:
        if is_it:
            return name, Match(Grade.STRONG, reason)
    return "extrap-json", Match(Grade.WEAK, "it begins with {, as JSON does")


def top_level(text: str) -> dict[str, str]:
    """The keys of the first object, as far as the text goes, and the first character of each value."""
    keys: dict[str, str] = {}
    at, depth, last = text.find("{"), 0, ""
    while (found := _INTEREST.search(text, at)) is not None:
        at, what = found.end(), found.group()
        if what == '"':
            string = _STRING.match(text, found.start())
            at = string.end() if string else len(text)
            last = string.group(1) if string and depth == 1 else ""
        elif what == ":":
            if depth == 1 and last:
                keys.setdefault(
                    last, text[at:].lstrip()[:1] if len(text) - at < 64 else text[at : at + 64].lstrip()[:1]
                )
            last = ""
        elif what in "{[":
            depth += 1
        else:
            depth -= 1
            if depth <= 0:
                break
    return keys
