"""What somebody sees who may not read everything, and copies that everybody may change."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copytree

from tests.requirements import need

__all__ = ["as_nobody", "writable_copy"]

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


def writable_copy(source: Path, target: Path) -> Path:
    """A copy of a folder of samples that may be changed, also by those for whom the samples are read-only."""
    copytree(source, target)
    for path in (target, *target.rglob("*")):
        path.chmod(path.stat().st_mode | stat.S_IWUSR)
    return target
