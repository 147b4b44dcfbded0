"""`callgrove formats`: every format, and what can be done with it here."""

from __future__ import annotations

import argparse
from importlib.util import find_spec

from callgrove.cli.options import add_table_output, emit


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_table_output(parser)


def run(args: argparse.Namespace) -> int:
    from callgrove.formats.registry import FORMATS
    from callgrove.model.table import Table

    rows = [
        (
            entry.name,
            entry.title,
            "yes" if entry.reads else "no",
            "yes" if entry.writes else "no",
            f"callgrove[{entry.extra}]" if entry.needs and find_spec(entry.needs) is None else None,
        )
        for entry in FORMATS
    ]
    emit(Table.from_rows(("name", "title", "reads", "writes", "missing"), rows), args)
    return 0
