"""`callgrove dump`: the raw structure of a file, as its format's own text or field by field with offsets."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

from callgrove.cli.options import add_from, add_table_output
from callgrove.cli.output import emit, emit_text
from callgrove.errors import CallgroveError

if TYPE_CHECKING:
    from callgrove.binary.sources import Source
    from callgrove.formats.interface import Field, Format
    from callgrove.model.table import Table

CHUNK = 4096
FORMATS = ("text", "table", "csv", "jsonl", "json", "markdown")  # text: the table, where a format has no text
NAMES = ("file", "offset", "section", "index", "field", "value")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="a file, or a folder whose files are dumped one after the other")
    add_from(parser)
    parser.add_argument("--section", metavar="TEXT", default="", help="only sections whose name contains this")
    view = parser.add_mutually_exclusive_group()
    view.add_argument("--summary", action="store_true", help="counts, totals and modules instead of every field")
    view.add_argument("--tree", action="store_true", help="the call tree instead of every field")
    add_table_output(parser, formats=FORMATS)


def run(args: argparse.Namespace) -> int:
    from callgrove.binary.sources import Source
    from callgrove.errors import UsageError
    from callgrove.formats.interface import Dumps
    from callgrove.formats.registry import settle_format

    chosen, source = settle_format(Source.of(args.path), args.from_format or "")
    if not isinstance(chosen, Dumps):
        raise UsageError(f"{args.path}: the format {chosen.name} has no raw structure to print")
    damage: list[CallgroveError] = []
    pieces = None if args.section else _text(chosen, source, args)
    if pieces is not None:
        emit_text(_until(pieces, damage), args.output)
    else:
        args.format = "table" if args.format == "text" else args.format
        wanted = (f for f in _until(chosen.dump(source), damage) if args.section in f.section)
        emit(_tables(wanted), args)
    if damage:
        raise damage[0]
    return 0


def _text(chosen: Format, source: Source, args: argparse.Namespace) -> Iterator[str] | None:
    """The text form that was asked for; None where fields are to be printed as a table."""
    from callgrove.errors import UsageError
    from callgrove.formats.interface import DumpsText, DumpsViews, DumpView

    view = DumpView.SUMMARY if args.summary else DumpView.TREE if args.tree else None
    if isinstance(chosen, DumpsViews):
        view = view or {"text": DumpView.TEXT, "json": DumpView.JSON}.get(args.format)
        return None if view is None else chosen.dump_view(source, view, args.limit)
    if view is not None:
        raise UsageError(
            f"{args.path}: the format {chosen.name} has no {view.value} to print; leave out --{view.value}"
        )
    if isinstance(chosen, DumpsText) and args.format == "text":
        return _first_lines(chosen.dump_text(source), args.limit)
    return None


def _first_lines(pieces: Iterator[str], limit: int | None) -> Iterator[str]:
    """At most `limit` lines."""
    if limit is None:
        yield from pieces
        return
    left = limit
    for piece in pieces:
        lines = piece.splitlines(keepends=True)[: left + 1]
        if len(lines) > left:
            yield "".join([*lines[:left], "...\n"])
            return
        left -= len(lines)
        yield piece


T = TypeVar("T")


def _until(parts: Iterator[T], damage: list[CallgroveError]) -> Iterator[T]:
    """Fields or text up to the first damage, which is kept: what is intact is printed first."""
    try:
        yield from parts
    except CallgroveError as error:
        damage.append(error)


def _tables(fields: Iterable[Field]) -> Iterator[Table]:
    from callgrove.model.table import Table

    rows: list[tuple[object, ...]] = []
    for f in fields:
        rows.append((f.file, f.offset, f.section, f.index if f.index >= 0 else None, f.name, f.value))
        if len(rows) == CHUNK:
            yield Table.from_rows(NAMES, rows)
            rows = []
    yield Table.from_rows(NAMES, rows)
