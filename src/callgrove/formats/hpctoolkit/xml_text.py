"""Text as attributes of XML."""

from __future__ import annotations

import re

__all__ = ["quoted"]

ESCAPES = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    '"': "&quot;",
    "'": "&apos;",
    "\t": "&#9;",
    "\n": "&#10;",
    "\r": "&#13;",
}
SPECIAL = re.compile("[" + "".join(map(re.escape, ESCAPES)) + "]")
FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def quoted(text: str) -> str:
    """An attribute's value in quotes. Characters that XML does not know become escapes such as `\\x00`."""
    known = FORBIDDEN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
    return '"' + SPECIAL.sub(lambda found: ESCAPES[found[0]], known) + '"'
