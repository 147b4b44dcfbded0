"""A verb for the tests of the command line: fails as it is told, prints what it is given."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass

from callgrove.cli.options import (
    InputOptions,
    SelectionOptions,
    TableOutput,
    add_input,
    add_selection,
    add_table_output,
)
from callgrove.cli.output import emit
from callgrove.cli.parser import Command
from callgrove.errors import CorruptFile, IncompleteResult, MissingExtra, UsageError
from callgrove.model.table import Table

FAILURES: dict[str, BaseException] = {
    "usage": UsageError("no metric 'tmie'"),
    "corrupt": CorruptFile("a.db", "header", expected="magic", found="nothing"),
    "incomplete": IncompleteResult("2 of 3 profiles"),
    "extra": MissingExtra("sql", "sql"),
    "hostile": UsageError("no metric '\x1b[2J\n'"),
    "memory": MemoryError(),
    "denied": PermissionError(13, "Permission denied", "a.db"),
    "disk": OSError(28, "No space left on device"),
    "pipe": BrokenPipeError(32, "Broken pipe"),
    "interrupt": KeyboardInterrupt(),
    "bug": KeyError("oops"),
}


@dataclass(frozen=True, kw_only=True)
class Options(InputOptions, SelectionOptions, TableOutput):
    fail: str | None
    rows: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_input(parser, many=True)
    add_selection(parser)
    add_table_output(parser)
    parser.add_argument("--fail", choices=FAILURES)
    parser.add_argument("--rows", type=int, default=2)


def run(options: Options) -> int:
    sys.stderr.write("running\n")
    if options.fail:
        raise FAILURES[options.fail]
    emit(
        Table.from_rows(["path", "number"], [(path, n) for path in options.paths for n in range(options.rows)]), options
    )
    return 0


COMMAND = Command(Options, add_arguments, run)
