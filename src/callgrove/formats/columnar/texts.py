"""Texts that Parquet can hold, and back.

Names in files may have bytes that are no UTF-8; in Python these are lone surrogates, which no UTF-8 has. Each becomes
two characters: U+10FFFF, which no text has, and the surrogate moved up by 0x100000. A U+10FFFF itself is doubled.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["escaped", "unescaped"]

MARK = "\U0010ffff"
UP = 0x100000
_UNFIT = re.compile("[\ud800-\udfff\U0010ffff]")
_MARKED = re.compile("\U0010ffff(.)", re.DOTALL)


def escaped(texts: Sequence[str | None]) -> Sequence[str | None]:
    """The same texts, those that need it escaped."""
    try:
        if MARK.encode() not in "".join(text for text in texts if text).encode():
            return texts
    except UnicodeEncodeError:  # a lone surrogate
        pass
    return [text if text is None else _UNFIT.sub(_moved, text) for text in texts]


def _moved(found: re.Match[str]) -> str:
    return MARK + (MARK if found[0] == MARK else chr(ord(found[0]) + UP))


def unescaped(texts: list[str | None]) -> list[str | None]:
    """The way back."""
    if MARK not in "".join(text for text in texts if text):
        return texts
    return [text if text is None else _MARKED.sub(_back, text) for text in texts]


def _back(found: re.Match[str]) -> str:
    if found[1] == MARK:
        return MARK
    low = ord(found[1]) - UP
    return chr(low) if 0xD800 <= low < 0xE000 else found[0]
