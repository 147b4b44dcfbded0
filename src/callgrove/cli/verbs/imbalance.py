"""`callgrove imbalance`: how costs are spread over ranks, threads, GPUs, nodes or runs."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from callgrove.cli.options import ENTITIES, CostOptions, add_input, add_remap, add_selection, add_table_output
from callgrove.cli.output import emit
from callgrove.cli.parser import Command
from callgrove.cli.verbs.views import GROUPS

SCOPES = ("exclusive", "inclusive")


@dataclass(frozen=True, kw_only=True)
class Options(CostOptions):
    over: str | None
    by: str
    scope: str
    present: bool
    percentiles: bool
    all_metrics: bool = False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_input(parser, many=True)
    add_selection(parser)
    add_remap(parser)
    parser.add_argument(
        "--over",
        choices=ENTITIES,
        help="what is compared (default: the first of rank, thread, gpu, node, run of which there are several)",
    )
    parser.add_argument("--by", choices=GROUPS, default="function", help="what a row stands for (default: function)")
    parser.add_argument("--scope", choices=SCOPES, default=SCOPES[0], help="which cost (default: exclusive)")
    parser.add_argument(
        "--present", action="store_true", help="leave out where there is no value, instead of counting 0"
    )
    parser.add_argument(
        "--no-percentiles",
        dest="percentiles",
        action="store_false",
        help="leave out p25, median and p75, which need all values of a row at once",
    )
    add_table_output(parser, limit=20, where=True)


def run(options: Options) -> int:
    from callgrove.analysis.spread.imbalance import Question, choose_compared, imbalance
    from callgrove.cli.opening import open_experiment, say_added_up, say_damage_met
    from callgrove.cli.output import amounts_of, choose_rows, costs_of, say_headline
    from callgrove.cli.spread_tables import AMOUNTS, format_imbalance, say_compared
    from callgrove.errors import UsageError
    from callgrove.model.metrics import Scope

    if options.derive and options.metric is None:
        raise UsageError("--derive defines a metric; name the one to compare with -m")
    experiment = open_experiment(options)
    costs = costs_of(experiment, options, added_up=False)
    entities = choose_compared(costs, options.over)
    if entities.over != "run":
        say_added_up(experiment)
    asked = Question(
        entities.over, options.by, Scope(options.scope), options.row_limit, options.present, options.percentiles
    )
    made = imbalance(costs, asked)
    if options.where:
        amounts = amounts_of(AMOUNTS, costs.metric.unit)
        made = made.take(choose_rows(made.table, options, amounts), options.limit)
    say_headline(costs, options, (*say_compared(made.entities, options, options.over is None), *made.table.notes))
    emit(format_imbalance(made, costs, options), options)
    return say_damage_met(experiment, options, printed=bool(len(made.table)))


IMBALANCE = Command(Options, add_arguments, run)
