"""`callgrove top`: where the cost is, whoever called."""

from __future__ import annotations

import argparse

from callgrove.cli.options import add_all_metrics, add_input, add_selection, add_table_output, emit

GROUPS = ("function", "line", "loop", "context", "file", "module")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_input(parser, many=True)
    add_selection(parser)
    add_all_metrics(parser)
    parser.add_argument("--by", choices=GROUPS, default="function", help="what a row stands for (default: function)")
    add_table_output(parser, limit=20)


def run(args: argparse.Namespace) -> int:
    from callgrove.analysis.flat import top
    from callgrove.cli.opening import open_experiment, said_everything
    from callgrove.cli.viewing import all_columns, costs_of, headline, shown

    experiment = open_experiment(args)
    found = costs_of(experiment, args)
    columns = all_columns(experiment, args)
    table = top(found, args.by, args.limit, columns)
    headline(found, args)
    emit(shown(table, found, args), args)
    return said_everything(experiment, args, printed=bool(len(table)))
