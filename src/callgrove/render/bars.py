"""Bars in text: a share of the whole as a row of blocks.

bar(0.55, 4)                  ██▏
bar(0.55, 4, unicode=False)   ##
signed_bar(-0.55, 4)          -██▏
"""

from __future__ import annotations

__all__ = ["bar", "signed_bar"]

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_ASCII = " -#"


def bar(share: float, width: int = 10, *, unicode: bool = True) -> str:
    """`share` of `width` cells, padded to that width. Beyond 0 to 1 it is cut; a share above 0 always shows."""
    glyphs = _EIGHTHS if unicode else _ASCII
    steps = len(glyphs) - 1
    share = min(max(share, 0.0), 1.0) if share == share else 0.0
    filled = round(share * width * steps)
    if share > 0:
        filled = max(filled, 1)
    whole, part = divmod(filled, steps)
    return (glyphs[-1] * whole + (glyphs[part] if part else "")).ljust(width)


def signed_bar(share: float, width: int = 10, *, unicode: bool = True) -> str:
    """The size of a share as a bar behind its sign; nothing has none."""
    sign = "+" if share > 0 else "-" if share < 0 else " "
    return sign + bar(abs(share), width, unicode=unicode)
