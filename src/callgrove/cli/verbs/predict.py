"""`callgrove predict`: what will cost most at a scale that was not measured."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import TYPE_CHECKING

from callgrove.cli.options import TableOutput, add_table_output
from callgrove.cli.output import emit
from callgrove.cli.parser import Command
from callgrove.cli.scaling_options import ScalingOptions, add_model_options, parse_point

if TYPE_CHECKING:
    from callgrove.model.table import Table


@dataclass(frozen=True, kw_only=True)
class Options(ScalingOptions, TableOutput):
    at: dict[str, float]
    subtrees: bool
    processes: str | None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_options(parser)
    parser.add_argument(
        "--at", type=parse_point, required=True, metavar="P=4096,N=1e6", help="the point: a value for every parameter"
    )
    parser.add_argument("--subtrees", action="store_true", help="show each call path with everything below it")
    parser.add_argument(
        "--processes", metavar="PARAMETER", help="the parameter that counts processes (default: known by its name)"
    )
    add_table_output(parser, limit=20)


def run(options: Options) -> int:
    from callgrove.cli.messages import note
    from callgrove.cli.scaling_options import fit_models, say_cautions
    from callgrove.modeling.prediction import far_from, predict, target_of

    models = fit_models(options)
    target = target_of(models.study, options.at)
    say_cautions(models)
    for text in far_from(models.study, target):
        note(f"{text}: functions that fit equally well part ways there (see model --runner-ups)")
    table = predict(models, target, options.subtrees, options.processes)
    emit(_format_table(table, options), options)
    return 0


def _format_table(table: Table, options: Options) -> Table:
    """For people: without the columns that repeat."""
    from callgrove.model.table import Column, Table
    from callgrove.render.text_formats import Whole

    if not options.is_for_people:
        return table
    names = ("prediction", "share", "growth", "speedup", "efficiency")
    columns = [
        Column("callpath", table.column("callpath").values),
        Column("metric", [name or "<default>" for name in table.column("metric").plain()]),
        *(table.column(name) for name in names if name in table.names),
        Whole("order", table.column("order").values),
    ]
    return Table(tuple(columns), table.left)


COMMAND = Command(Options, add_arguments, run)
