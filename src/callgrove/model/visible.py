r"""Texts from files, made visible: a name may hold control characters, escape sequences or half characters.

visible("a\x1b[2Jb")   ->  'a\\x1b[2Jb'
"""

from __future__ import annotations

__all__ = ["visible"]


def visible(text: str) -> str:
    r"""The text with everything that is not printable (control, direction, surrogate) written as \n, \x1b, \u202e."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
