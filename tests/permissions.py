"""What somebody sees who may not read everything."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from tests.requirements import need

__all__ = ["as_nobody"]

NOBODY = 65534


@contextmanager
def as_nobody() -> Iterator[None]:
    """Root may read everything, so it becomes somebody else for a while."""
    if os.geteuid() != 0:
        yield
        return
    try:
        os.seteuid(NOBODY)
    except OSError:
        need("user", "root may read everything, and cannot become another user here")
    try:
        yield
    finally:
        os.seteuid(0)
