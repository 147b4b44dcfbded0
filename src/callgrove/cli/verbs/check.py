"""`callgrove check`: validate, and list every damage."""

from __future__ import annotations

import argparse

from callgrove.cli.options import add_from, add_salvage, add_table_output
from callgrove.cli.output import emit

NAMES = ("severity", "file", "place", "problem")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="a file or folder that a profiler wrote")
    add_from(parser)
    add_salvage(parser)
    add_table_output(parser)


def run(args: argparse.Namespace) -> int:
    """Exit code 3 when there is damage; notes alone are no damage."""
    from callgrove.cli.messages import note, with_flags
    from callgrove.cli.progress import progress
    from callgrove.errors import InputError
    from callgrove.formats.interface import ReadOptions
    from callgrove.formats.registry import check_path
    from callgrove.model.experiment import Severity
    from callgrove.model.table import Table
    from callgrove.render.text_formats import Prose

    with progress() as report:
        chosen, found = check_path(args.path, args.from_format or "", ReadOptions(args.salvage, report))
    rows = [(p.severity.value, p.file, p.section, with_flags(p.text).removeprefix(f"{args.path}: ")) for p in found]
    table = Table.from_rows(NAMES, rows)
    if rows or args.format != "table" or args.output:  # for people, no problem is no table
        emit(Table((*table.columns[:-1], Prose("problem", table.columns[-1].values))), args)
    damage = sum(p.severity == Severity.DAMAGE for p in found)
    places = "1 damaged place" if damage == 1 else f"{damage} damaged places"
    note(f"{args.path}: {places}" if damage else f"{args.path}: sound ({chosen.title})")
    return InputError.exit_code if damage else 0
