"""`callgrove export`: one table in full."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from callgrove.cli.options import add_input, add_selection, add_table_output, emit

if TYPE_CHECKING:
    from callgrove.model.table import Table

TABLES = ("profiles", "metrics", "contexts", "values", "samples", "spans", "counters", "parameters", "series")
SCOPES = ("stored", "exclusive", "inclusive", "point", "function", "lexical")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_input(parser)
    add_selection(parser)
    parser.add_argument("--table", required=True, choices=TABLES, help="which table")
    parser.add_argument("--scope", choices=SCOPES, default="stored", help="of values (default: stored)")
    add_table_output(parser, formats=("csv", "jsonl", "json", "table", "markdown"))


def run(args: argparse.Namespace) -> int:
    from callgrove.analysis.costs import select
    from callgrove.analysis.tables import Selection, export
    from callgrove.cli.opening import open_any, said_everything
    from callgrove.model.experiment import Experiment

    opened = open_any(args)
    if not isinstance(opened, Experiment):
        emit(export(opened, args.table), args)
        return 0
    quantity = opened.metrics.resolve(args.metric) if args.metric else None
    chosen = Selection(select(opened, args.rank, args.thread), quantity, args.scope)
    counted = Counted(export(opened, args.table, chosen))
    if args.table in ("values", "samples"):
        counted.look_ahead()
        if not counted.rows:
            said_everything(opened, args, printed=False)
    emit(counted, args)
    return said_everything(opened, args)


class Counted:
    """Chunks of a table, with the number of rows that went by."""

    def __init__(self, tables: Iterator[Table]) -> None:
        self._tables = tables
        self._first: list[Table] = []
        self.rows = 0

    def look_ahead(self) -> None:
        """Take the first chunk, so that an empty table is known before anything is printed."""
        first = next(self._tables, None)
        if first is not None:
            self._first.append(first)
            self.rows = len(first)

    def __iter__(self) -> Iterator[Table]:
        yield from self._first
        yield from self._tables
