r"""Text from files, made safe to print: a name may hold control characters, escape sequences or half characters.

visible("a\x1b[2Jb")   ->  'a\\x1b[2Jb'
display_width("日本")  ->  4
shorten("abcdefghij", 7)  ->  'abc…hij'
"""

from __future__ import annotations

import unicodedata

from callgrove.model.visible import visible

__all__ = ["display_width", "shorten", "visible"]


def display_width(text: str) -> int:
    """How many terminal cells a text takes."""
    return len(text) if text.isascii() else sum(map(_char_width, text))


def _char_width(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def shorten(text: str, width: int, ellipsis: str = "…") -> str:
    """The text in at most `width` cells, its middle cut out: both ends of a long name tell it apart. An indentation
    stays, up to half of the width."""
    if display_width(text) <= width:
        return text
    if text.startswith(" "):
        indent = min(len(text) - len(text.lstrip(" ")), width // 2)
        return " " * indent + shorten(text.lstrip(" "), width - indent, ellipsis)
    kept = width - len(ellipsis)
    if kept < 2:
        return _fitting(text, width)
    head = _fitting(text, (kept + 1) // 2)
    tail = _fitting(text[::-1], kept // 2)[::-1]
    return head + ellipsis + tail


def _fitting(text: str, width: int) -> str:
    """The longest start of the text that fits."""
    used = 0
    for index, char in enumerate(text):
        used += _char_width(char)
        if used > width:
            return text[:index]
    return text
