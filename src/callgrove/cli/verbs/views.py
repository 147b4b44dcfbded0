"""The verbs that show where the cost is: `callgrove top`, `tree` and `hot`."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import TYPE_CHECKING

from callgrove.cli.options import (
    ENTITIES,
    TABLE_FORMATS,
    CostOptions,
    add_all_metrics,
    add_input,
    add_remap,
    add_selection,
    add_table_output,
)
from callgrove.cli.output import emit
from callgrove.cli.parser import Command

if TYPE_CHECKING:
    from callgrove.analysis.columns import ShownColumns
    from callgrove.analysis.costs import Costs
    from callgrove.model.experiment import Experiment
    from callgrove.model.table import Table


# -- top ---------------------------------------------------------------------------------------------------------------


GROUPS = ("function", "line", "loop", "context", "file", "module")


@dataclass(frozen=True, kw_only=True)
class TopOptions(CostOptions):
    by: str
    columns: str | None


def add_top_arguments(parser: argparse.ArgumentParser) -> None:
    add_input(parser, many=True)
    add_selection(parser)
    add_remap(parser)
    add_all_metrics(parser)
    parser.add_argument(
        "--by",
        choices=(*GROUPS, *ENTITIES),
        default="function",
        help="what a row stands for (default: function); a rank, a thread, ... with all that it costs",
    )
    parser.add_argument(
        "--columns", choices=ENTITIES, help="one more column for each rank, thread, gpu (device), node or run"
    )
    add_table_output(parser, limit=20, where=True)


def run_top(options: TopOptions) -> int:
    from callgrove.analysis.views import top
    from callgrove.cli.opening import open_experiment, say_damage_met
    from callgrove.cli.output import choose_columns, costs_of, cut_table, format_table, say_headline
    from callgrove.model.metrics import Scope

    experiment = open_experiment(options)
    costs = costs_of(experiment, options, added_up="run" not in (options.by, options.columns))
    columns = choose_columns(costs, options, Scope.EXCLUSIVE)
    if options.columns or options.by in ENTITIES:
        return _print_by_entity(costs, columns, options)
    table = top(costs, options.by, options.row_limit, columns)
    table = cut_table(table, costs, options, Scope.EXCLUSIVE)
    say_headline(costs, options, table.notes)
    emit(format_table(table, costs, options), options)
    return say_damage_met(experiment, options, printed=bool(len(table)))


def _print_by_entity(costs: Costs, columns: ShownColumns | None, options: TopOptions) -> int:
    """Print ranks, threads, ... as rows, or as columns."""
    from callgrove.analysis.spread.side_by_side import top_table
    from callgrove.cli.opening import say_damage_met
    from callgrove.cli.output import cut_table, format_table, say_headline
    from callgrove.cli.spread_tables import format_side_by_side, leave_out
    from callgrove.model.metrics import Scope

    table = top_table(costs, options.by, options.columns, options.row_limit, columns)
    table = cut_table(table, costs, options, Scope.EXCLUSIVE)
    say_headline(costs, options, table.notes)
    if options.columns:
        emit(format_side_by_side(table, costs, options.columns, options), options)
    else:
        emit(leave_out(format_table(table, costs, options), "where"), options)
    return say_damage_met(costs.experiment, options, printed=bool(len(table)))


TOP = Command(TopOptions, add_top_arguments, run_top)


# -- tree --------------------------------------------------------------------------------------------------------------


PICTURE = "svg"  # a flame graph
ROWS_OF_TREE = 40


@dataclass(frozen=True, kw_only=True)
class TreeOptions(CostOptions):
    bottom_up: bool
    source: bool
    metrics: bool


def add_tree_arguments(parser: argparse.ArgumentParser) -> None:
    add_input(parser, many=True)
    add_selection(parser)
    add_remap(parser)
    add_all_metrics(parser)
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--bottom-up", action="store_true", help="from the costly functions up to their callers")
    way.add_argument(
        "--source",
        action="store_true",
        help="show source lines and call sites too, with their text where it was copied",
    )
    way.add_argument(
        "--metrics",
        action="store_true",
        help="the tree of metrics instead (time > execution > mpi > ...), of the whole run; -m shows what is below one",
    )
    add_table_output(parser, formats=(*TABLE_FORMATS, PICTURE), limit=ROWS_OF_TREE, where=True)


def run_tree(options: TreeOptions) -> int:
    from callgrove.analysis.views import bottom_up, top_down
    from callgrove.cli.opening import open_experiment, say_damage_met
    from callgrove.cli.output import choose_columns, costs_of, cut_table, format_table, say_headline
    from callgrove.errors import UsageError
    from callgrove.model.metrics import Scope

    if (options.bottom_up or options.metrics) and options.all_metrics:
        way = "--bottom-up" if options.bottom_up else "--metrics"
        raise UsageError(
            f"--all-metrics shows columns of contexts, which the rows of {way} are not; leave out one of the two"
        )
    has_columns = options.all_metrics or (options.derive and not options.metric)
    if options.format == PICTURE and (options.metrics or options.source or has_columns):
        raise UsageError(f"--format {PICTURE} draws calls by one metric (-m): no metric tree, lines or further columns")
    if options.format == PICTURE and (options.where or options.limit != ROWS_OF_TREE):
        word = "--where" if options.where else "--limit"
        raise UsageError(f"{word} chooses rows of a table, and --format {PICTURE} draws all calls; leave out one")
    experiment = open_experiment(options)
    if options.metrics:
        return _print_metric_tree(experiment, options)
    costs = costs_of(experiment, options)
    if options.format == PICTURE:
        return _draw_tree(costs, options)
    columns = choose_columns(costs, options, Scope.INCLUSIVE)
    if options.bottom_up:
        if columns is not None:
            raise UsageError(
                "--derive adds columns of contexts, which the rows of --bottom-up are not; choose the metric with -m"
            )
        table = bottom_up(costs, options.row_limit)
    else:
        table = top_down(costs, options.source, options.row_limit, columns)
    table = cut_table(table, costs, options, Scope.EXCLUSIVE if options.bottom_up else Scope.INCLUSIVE)
    say_headline(costs, options, table.notes)
    emit(format_table(table, costs, options), options)
    return say_damage_met(experiment, options, printed=bool(len(table)))


def _draw_tree(costs: Costs, options: TreeOptions) -> int:
    from callgrove.cli.messages import note
    from callgrove.cli.opening import say_damage_met
    from callgrove.cli.output import emit_text
    from callgrove.render.flame_svg import FlameOptions, draw_flame

    picture = draw_flame(costs, FlameOptions(bottom_up=options.bottom_up))
    emit_text([str(picture)], options.output)
    for text in picture.notes:
        note(text)
    return say_damage_met(costs.experiment, options)


def _print_metric_tree(experiment: Experiment, options: TreeOptions) -> int:
    from callgrove.analysis.metric_tree import metric_tree
    from callgrove.cli.messages import note
    from callgrove.cli.opening import say_added_up, say_damage_met
    from callgrove.cli.output import filter_rows, format_metric_tree
    from callgrove.model.profiles import choose_profiles

    say_added_up(experiment)
    chosen = choose_profiles(experiment, options.rank, options.thread)
    table = metric_tree(experiment, options.metric, chosen, options.row_limit)
    table = filter_rows(table, options).head(options.limit)
    if options.is_printed_table and not any(table["depth"]) and len(table) > 1 and not options.remap:
        note("these metrics have no tree; --remap makes one of time, by what contexts do")
    for text in table.notes:
        note(text)
    emit(format_metric_tree(table, options) if options.format == "table" else table, options)
    return say_damage_met(experiment, options, printed=bool(len(table)))


TREE = Command(TreeOptions, add_tree_arguments, run_tree)


# -- hot ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class HotOptions(CostOptions):
    share: float


def share(text: str) -> float:
    """Parse a share of the parent's cost, between 0 and 1."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share between 0 and 1")
    return number


def add_hot_arguments(parser: argparse.ArgumentParser) -> None:
    add_input(parser, many=True)
    add_selection(parser)
    add_remap(parser)
    add_all_metrics(parser)
    parser.add_argument(
        "--share",
        type=share,
        default=0.5,
        metavar="S",
        help="continue while one call has at least this share of its caller's cost (default: 0.5)",
    )
    add_table_output(parser, where=True)


def run_hot(options: HotOptions) -> int:
    from callgrove.analysis.views import hot_path
    from callgrove.cli.opening import open_experiment, say_damage_met
    from callgrove.cli.output import choose_columns, costs_of, cut_table, format_table, say_headline
    from callgrove.model.metrics import Scope

    experiment = open_experiment(options)
    costs = costs_of(experiment, options)
    columns = choose_columns(costs, options, Scope.INCLUSIVE)
    table = cut_table(hot_path(costs, options.share, columns), costs, options, Scope.INCLUSIVE)
    say_headline(costs, options, table.notes)
    emit(format_table(table, costs, options), options)
    if options.is_printed_table and not options.where:
        _say_why_it_ends(table, hot_path(costs, share=0.0), costs, options.share)
    return say_damage_met(experiment, options, printed=bool(len(table)))


def _say_why_it_ends(path: Table, to_the_leaf: Table, costs: Costs, share: float) -> None:
    """Say how to go on where a path ends above a leaf because of --share."""
    from math import floor

    from callgrove.cli.messages import note
    from callgrove.render.cost_texts import shorten_place

    n = len(path)
    if not 0 < n < len(to_the_leaf):
        return
    contexts, names, kinds = (to_the_leaf.column(name).plain() for name in ("context", "name", "kind"))
    part = float(costs.weights[contexts[n]] / costs.weights[contexts[n - 1]])
    if 0.005 <= part < share:
        further = floor(100 * part) / 100
        last, callee = (shorten_place(names[k], kinds[k]) for k in (n - 1, n))
        ends = f"no call of {last} has {share:.0%} of its {'changes' if costs.is_signed else 'cost'}"
        note(f"{ends}; {callee} has {part:.0%}: --share {further:g} goes on")


HOT = Command(HotOptions, add_hot_arguments, run_hot)
