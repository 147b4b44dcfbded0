"""Memory that arrays are made in, one after the other.

Work on columns makes and drops arrays all the time. The C library of Linux hands freed memory back to the system beyond
some limit, and asks for it again: every page of it is cleared anew, which takes longer than the work itself. The limit
follows the largest block, up to 32 MiB, that was freed so far.
"""

from __future__ import annotations

import numpy as np

__all__ = ["keep_freed_memory"]

LARGEST_LEARNT = (32 << 20) - (1 << 16)  # bytes, with room for the library's own


def keep_freed_memory() -> None:
    """Have freed memory used again in this process. Costs nothing: the block is never written to."""
    np.empty(LARGEST_LEARNT, np.uint8)
