"""`callgrove check`: validate, and list every damage."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from callgrove.cli.options import PathOptions, TableOutput, add_from, add_path, add_salvage, add_table_output
from callgrove.cli.output import emit
from callgrove.cli.parser import Command

NAMES = ("severity", "file", "place", "problem")


@dataclass(frozen=True, kw_only=True)
class Options(PathOptions, TableOutput):
    salvage: bool


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_path(parser, "a file or folder that a profiler wrote")
    add_from(parser)
    add_salvage(parser)
    add_table_output(parser)


def run(options: Options) -> int:
    """Exit code 3 when there is damage; notes alone are no damage."""
    from callgrove.cli.messages import note, with_flags
    from callgrove.cli.progress import progress
    from callgrove.errors import InputError
    from callgrove.formats.interface import ReadOptions
    from callgrove.formats.registry import check_path
    from callgrove.model.experiment import Severity
    from callgrove.model.table import Table
    from callgrove.render.text_formats import Prose

    [path] = options.paths
    with progress() as report:
        chosen, found = check_path(path, options.from_format, ReadOptions(options.salvage, report))
    rows = [(p.severity.value, p.file, p.section, with_flags(p.text).removeprefix(f"{path}: ")) for p in found]
    table = Table.from_rows(NAMES, rows)
    if rows or not options.is_printed_table:  # for people, no problem is no table
        emit(Table((*table.columns[:-1], Prose("problem", table.columns[-1].values))), options)
    damage = sum(p.severity == Severity.DAMAGE for p in found)
    places = "1 damaged place" if damage == 1 else f"{damage} damaged places"
    note(f"{path}: {places}" if damage else f"{path}: sound ({chosen.title})")
    return InputError.exit_code if damage else 0


COMMAND = Command(Options, add_arguments, run)
