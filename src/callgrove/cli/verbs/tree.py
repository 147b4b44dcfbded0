"""`callgrove tree`: the call tree with its cost."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from callgrove.cli.options import CostOptions, add_all_metrics, add_input, add_selection, add_table_output
from callgrove.cli.output import emit
from callgrove.cli.parser import Command


@dataclass(frozen=True, kw_only=True)
class Options(CostOptions):
    bottom_up: bool
    source: bool


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_input(parser, many=True)
    add_selection(parser)
    add_all_metrics(parser)
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--bottom-up", action="store_true", help="from the costly functions up to their callers")
    way.add_argument(
        "--source",
        action="store_true",
        help="show source lines and call sites too, with their text where it was copied",
    )
    add_table_output(parser, limit=40)


def run(options: Options) -> int:
    from callgrove.analysis.views import bottom_up, top_down
    from callgrove.cli.opening import open_experiment, said_everything
    from callgrove.cli.viewing import all_columns, costs_of, format_table, headline
    from callgrove.errors import UsageError

    if options.bottom_up and options.all_metrics:
        raise UsageError(
            "--all-metrics shows columns of contexts, which the rows of --bottom-up are not; leave out one of the two"
        )
    experiment = open_experiment(options)
    costs = costs_of(experiment, options)
    columns = all_columns(experiment, options)
    if options.bottom_up:
        table = bottom_up(costs, options.limit)
    else:
        table = top_down(costs, options.source, options.limit, columns)
    headline(costs, options)
    emit(format_table(table, costs, options), options)
    return said_everything(experiment, options, printed=bool(len(table)))


COMMAND = Command(Options, add_arguments, run)
