"""Which way a SQLite file is read: by decoding its pages, which is fast, or by SQLite, which can read everything.

    plan        one file or several at once, from what is known before any of it is read: headers, sizes, who writes it
    plan_table  one table of these, from what the schema says of its columns
    decode      acts on a plan. What only values show, such as a damaged record, ends here as well

Every answer is either what can be decoded or `Slow`, with the reason. Then SQLite reads the file or the rest of the
table; of several files, each is read by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from callgrove.binary.sqlite.numbers import PageError
from callgrove.binary.sqlite.pages import PageFormat
from callgrove.binary.sqlite.schema import HEADER_BYTES
from callgrove.binary.sqlite.tables import TableLayout

__all__ = ["BUNDLE_BYTES", "FileFacts", "Slow", "decode", "plan", "plan_table"]

BUNDLE_BYTES = 8 << 20  # of files that are read at once
UTF8 = 1
LEAST_PAGE, LEAST_USABLE = 512, 480
VERSIONS = (1, 2)  # with a journal, with a write-ahead log
FRACTIONS = bytes((64, 32, 32))
ALIKE = (slice(16, 24), slice(56, 60))  # of the header: sizes and versions, and how texts are encoded

Planned = TypeVar("Planned")
Read = TypeVar("Read")


@dataclass(frozen=True)
class Slow:
    """The decision that SQLite has to read, with the reason."""

    reason: str


@dataclass(frozen=True)
class FileFacts:
    """What is known of a file before it is read: its first bytes, its size, and what forbids reading its pages."""

    head: bytes = b""
    size: int = 0
    obstacle: str = ""


def plan(files: Sequence[FileFacts]) -> PageFormat | Slow:
    """Decide whether the pages of a file can be decoded, or those of several files as if these were one."""
    reason = next(filter(None, map(_obstacle, files)), "")
    if not reason and len(files) > 1:
        reason = _obstacle_to_joining(files)
    return Slow(reason) if reason else _page_format(files[0].head)


def plan_table(layouts: Sequence[TableLayout | None], unlike: tuple[str, str] | None = None) -> TableLayout | Slow:
    """Decide whether the rows of a table can be decoded, without those in which a column has a certain text. There is
    one layout for each file that has the table, None where the schema does not tell it."""
    known = [layout for layout in layouts if layout is not None]
    if len(known) < len(layouts) or not known:
        return Slow("a table whose records cannot be told")
    first = known[0]
    if any(layout.columns is not first.columns and layout.columns != first.columns for layout in known):
        return Slow("tables whose columns differ")
    if unlike is not None and (first.has_collations or any(c.isalnum() or c.isspace() for c in unlike[1])):
        return Slow("a text that may equal others")
    return first


def decode(planned: Planned | Slow, read: Callable[[Planned], Read]) -> Read | Slow:
    """Read what was planned; `Slow` where that is the plan, or where bytes turn out to be other than they should be."""
    if isinstance(planned, Slow):
        return planned
    try:
        return read(planned)
    except PageError as error:
        return Slow(str(error))


def _obstacle(file: FileFacts) -> str:
    """Return what prevents decoding the pages of a file; empty if nothing does."""
    head = file.head
    if file.obstacle or len(head) < HEADER_BYTES:
        return file.obstacle or "a file shorter than its header"
    pages = _page_format(head)
    if pages.size & (pages.size - 1) or pages.size < LEAST_PAGE or pages.usable < LEAST_USABLE:
        return f"pages of {pages.size} bytes"
    if file.size < pages.size:
        return "a file shorter than one page"
    if int.from_bytes(head[56:60], "big") != UTF8:
        return "text that is not UTF-8"
    if head[18] not in VERSIONS or head[19] not in VERSIONS or head[21:24] != FRACTIONS:
        return "a newer kind of file"
    return ""


def _obstacle_to_joining(files: Sequence[FileFacts]) -> str:
    """Return what prevents decoding the pages of several files as if these were one; empty if nothing does."""
    sizes, first = [file.size for file in files], files[0].head
    if sum(sizes) > 2 * BUNDLE_BYTES:
        return "files that are too large"
    if any(file.head[part] != first[part] for file in files for part in ALIKE):
        return "files of different kinds"
    if any(size % _page_format(first).size for size in sizes):
        return "half a page"
    return ""


def _page_format(head: bytes) -> PageFormat:
    size = int.from_bytes(head[16:18], "big")
    size = 65536 if size == 1 else size
    return PageFormat(size, size - head[20])
