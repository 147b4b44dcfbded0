"""`callgrove top`: where the cost is, whoever called."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from callgrove.cli.options import CostOptions, add_all_metrics, add_input, add_selection, add_table_output
from callgrove.cli.output import emit
from callgrove.cli.parser import Command

GROUPS = ("function", "line", "loop", "context", "file", "module")


@dataclass(frozen=True, kw_only=True)
class Options(CostOptions):
    by: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_input(parser, many=True)
    add_selection(parser)
    add_all_metrics(parser)
    parser.add_argument("--by", choices=GROUPS, default="function", help="what a row stands for (default: function)")
    add_table_output(parser, limit=20)


def run(options: Options) -> int:
    from callgrove.analysis.views import top
    from callgrove.cli.opening import open_experiment, said_everything
    from callgrove.cli.viewing import all_columns, costs_of, format_table, headline

    experiment = open_experiment(options)
    costs = costs_of(experiment, options)
    columns = all_columns(experiment, options)
    table = top(costs, options.by, options.limit, columns)
    headline(costs, options)
    emit(format_table(table, costs, options), options)
    return said_everything(experiment, options, printed=bool(len(table)))


COMMAND = Command(Options, add_arguments, run)
