"""Where things are kept that were worked out before: a folder of the user, with a folder in it for each kind.

$CALLGROVE_CACHE, else $XDG_CACHE_HOME/callgrove, else ~/.cache/callgrove
"""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["VARIABLE", "cache_folder"]

VARIABLE = "CALLGROVE_CACHE"


def cache_folder(kind: str) -> Path | None:
    """Return the folder for one kind of things; None where nobody's home is known. There is no other place: in a folder
    that all users share, somebody else could have put there what is found."""
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen).absolute() / kind
    base = os.environ.get("XDG_CACHE_HOME", "")
    if base.startswith("/"):  # others are to be ignored
        return Path(base) / "callgrove" / kind
    try:
        return Path.home() / ".cache" / "callgrove" / kind
    except RuntimeError:  # nobody's home
        return None
