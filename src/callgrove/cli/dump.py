"""`callgrove dump`: the raw structure of a file, field by field with offsets."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from callgrove.cli.options import add_from, add_table_output, emit
from callgrove.errors import CallgroveError

if TYPE_CHECKING:
    from callgrove.formats.interface import Field
    from callgrove.model.table import Table

CHUNK = 4096
NAMES = ("file", "offset", "section", "index", "field", "value")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="a file, or a folder whose files are dumped one after the other")
    add_from(parser)
    parser.add_argument("--section", metavar="TEXT", default="", help="only sections whose name contains this")
    add_table_output(parser, formats=("table", "csv", "jsonl", "json", "markdown"))


def run(args: argparse.Namespace) -> int:
    from callgrove.binary.sources import Source
    from callgrove.errors import UsageError
    from callgrove.formats.interface import Dumps
    from callgrove.formats.registry import detect, load

    source = Source.of(args.path)
    chosen = load(args.from_format) if args.from_format else detect(source)[0]
    if not isinstance(chosen, Dumps):
        raise UsageError(f"{args.path}: the format {chosen.name} has no raw structure to print")
    damage: list[CallgroveError] = []

    wanted = (f for f in _until(chosen.dump(source), damage) if args.section in f.section)
    emit(_tables(wanted), args)
    if damage:
        raise damage[0]
    return 0


def _until(fields: Iterator[Field], damage: list[CallgroveError]) -> Iterator[Field]:
    """Fields up to the first damage, which is kept: what is intact is printed first."""
    try:
        yield from fields
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
