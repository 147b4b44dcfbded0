"""Names as words of a command that can be copied from a screen into a shell."""

from __future__ import annotations

import shlex

__all__ = ["quoted"]

NAMED = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "'": "\\'", "\\": "\\\\"}
BYTES = range(0xDC80, 0xDD00)  # how Python keeps bytes of a name that are no text


def quoted(word: str) -> str:
    """One word; with what a screen would obey instead of showing it, or cannot show, as $'...' of bash and zsh."""
    if all(letter.isprintable() for letter in word):
        return shlex.quote(word)
    return f"$'{''.join(map(_escaped, word))}'"


def _escaped(letter: str) -> str:
    if letter in NAMED:
        return NAMED[letter]
    if ord(letter) in BYTES:
        return f"\\x{ord(letter) - 0xDC00:02x}"
    return letter if letter.isprintable() else "".join(f"\\x{byte:02x}" for byte in letter.encode())
