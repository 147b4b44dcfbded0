r"""Text from files, made safe to print: a name may hold control characters, escape sequences or half characters.

visible("a\x1b[2Jb")   ->  'a\\x1b[2Jb'
display_width("日本")  ->  4
shorten("abcdefghij", 7)  ->  'abc…hij'
"""

from __future__ import annotations

import re
import unicodedata

from callgrove.model.table import visible

__all__ = ["INDENT", "LEAST_NAME", "display_width", "indentation", "shorten", "visible"]

INDENT = 2  # spaces for each level of a tree
LEAST_NAME = 12  # cells of a name that an indentation has to leave
_LEVEL = re.compile(r"\(\d+\) ", re.ASCII)


def display_width(text: str) -> int:
    """Return how many terminal cells a text takes."""
    return len(text) if text.isascii() else sum(map(_char_width, text))


def _char_width(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def indentation(text: str) -> int:
    """Return how many spaces a text begins with."""
    return len(text) - len(text.lstrip(" "))


def shorten(text: str, width: int, ellipsis: str = "…") -> str:
    """Return the text in at most `width` cells, its middle cut out: both ends of a long name tell it apart. An
    indentation stays as long as it leaves room for a name; a deeper level is written as a number: `(12) name`."""
    if display_width(text) <= width:
        return text
    if text.startswith(" ") and text.strip(" "):
        return _shorten_indented(indentation(text), text.lstrip(" "), width, ellipsis)
    kept = width - len(ellipsis)
    if kept < 2:
        return _fitting(text, width)
    head = _fitting(text, (kept + 1) // 2)
    tail = _fitting(text[::-1], kept // 2)[::-1]
    return head + ellipsis + tail


def _shorten_indented(indent: int, name: str, width: int, ellipsis: str) -> str:
    if width - indent >= min(LEAST_NAME, display_width(name)):
        return " " * indent + shorten(name, width - indent, ellipsis)
    level = "" if _LEVEL.match(name) else f"({indent // INDENT}) "
    kept = max(width - len(level) - LEAST_NAME, 0)
    room = width - kept - len(level)
    return " " * kept + level + shorten(name, room, ellipsis) if room >= 1 else shorten(level + name, width, ellipsis)


def _fitting(text: str, width: int) -> str:
    """Return the longest start of the text that fits."""
    used = 0
    for index, char in enumerate(text):
        used += _char_width(char)
        if used > width:
            return text[:index]
    return text
