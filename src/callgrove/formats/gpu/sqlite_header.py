"""What the first bytes of a file say about the database that it should be.

Specification: gpu-traces.md 1.1.
"""

from __future__ import annotations

import os
from pathlib import Path

from callgrove.errors import CorruptFile, InputError, NotRecognised

__all__ = ["HEADER_BYTES", "MAGIC", "header_problem", "is_unfinished"]

MAGIC = b"SQLite format 3\0"
HEADER_BYTES = 100


def header_problem(path: Path, head: bytes, size: int) -> InputError | None:
    """What is wrong with a file that should be a database, as far as its first 100 bytes show."""
    if not size:
        return InputError(f"{path}: the file is empty; export it again")
    if head.startswith(b"version https://git-lfs"):
        return NotRecognised(f"{path}: a Git LFS pointer, not the data; fetch the real file with `git lfs pull`")
    if head and not any(head):
        return CorruptFile(
            path,
            "SQLite header",
            offset=0,
            expected="a database",
            found="zeros: the export was interrupted",
            remedy="export it again",
        )
    if not head.startswith(MAGIC):
        return NotRecognised(f"{path}: not a SQLite database: it begins with {head[:16]!r}")
    if len(head) < HEADER_BYTES:
        return CorruptFile(path, "SQLite header", expected=f"{HEADER_BYTES} bytes", found=f"{len(head)}")
    page = int.from_bytes(head[16:18], "big")
    page = 65536 if page == 1 else page
    pages = int.from_bytes(head[28:32], "big")
    if pages * page > size and head[24:28] == head[92:96] and not is_unfinished(path):
        return CorruptFile(
            path,
            "SQLite pages",
            offset=size,
            expected=f"{pages} pages of {page} bytes",
            found=f"a file of {size} bytes: it is truncated",
            remedy="copy it again",
        )
    return None


def is_unfinished(path: Path) -> bool:
    """Is there a write-ahead log or a journal, so that the file alone is not all?"""
    really = os.path.realpath(path) if path.is_symlink() else path  # SQLite looks beside what a link leads to
    return any(Path(f"{really}{suffix}").exists() for suffix in ("-wal", "-journal"))
