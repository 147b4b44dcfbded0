"""`callgrove top`: where the cost is, whoever called."""

from __future__ import annotations

import argparse

from callgrove.cli.options import add_all_metrics, add_input, add_selection, add_table_output
from callgrove.cli.output import emit

GROUPS = ("function", "line", "loop", "context", "file", "module")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_input(parser, many=True)
    add_selection(parser)
    add_all_metrics(parser)
    parser.add_argument("--by", choices=GROUPS, default="function", help="what a row stands for (default: function)")
    add_table_output(parser, limit=20)


def run(args: argparse.Namespace) -> int:
    from callgrove.analysis.views import top
    from callgrove.cli.opening import open_experiment, said_everything
    from callgrove.cli.viewing import all_columns, costs_of, format_table, headline

    experiment = open_experiment(args)
    found = costs_of(experiment, args)
    columns = all_columns(experiment, args)
    table = top(found, args.by, args.limit, columns)
    headline(found, args)
    emit(format_table(table, found, args), args)
    return said_everything(experiment, args, printed=bool(len(table)))
