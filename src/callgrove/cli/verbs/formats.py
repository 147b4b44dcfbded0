"""`callgrove formats`: every format, and what can be done with it here."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from typing import TYPE_CHECKING

from callgrove.cli.options import TableOutput, add_table_output
from callgrove.cli.output import emit
from callgrove.cli.parser import Command

if TYPE_CHECKING:
    from callgrove.formats.interface import Entry

NAMES = ("name", "title", "reads", "writes", "missing", "package")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_table_output(parser)


def run(options: TableOutput) -> int:
    """Plug-ins are loaded, so that a broken one is named."""
    from callgrove.formats.plugins import load_plugin
    from callgrove.formats.registry import FORMATS, plugins
    from callgrove.model.table import Table

    theirs = [entry for entry in plugins() if load_plugin(entry) is not None]
    table = Table.from_rows(NAMES, map(_row, (*FORMATS, *theirs)))
    if not theirs and options.is_for_people:  # for people, a column without a word is none
        table = Table(table.columns[:-1])
    emit(table, options)
    return 0


def _row(entry: Entry) -> tuple[str | None, ...]:
    missing = bool(entry.module_of_extra) and find_spec(entry.module_of_extra) is None
    return (
        entry.name,
        entry.title,
        "yes" if entry.reads else "no",
        "yes" if entry.writes else "no",
        f"callgrove[{entry.extra}]" if missing else None,
        entry.package or None,
    )


COMMAND = Command(TableOutput, add_arguments, run)
