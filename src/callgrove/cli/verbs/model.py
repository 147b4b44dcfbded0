"""`callgrove model`: how costs scale, as functions of the parameters."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING

from callgrove.cli.options import TABLE_FORMATS, add_table_output
from callgrove.cli.output import emit
from callgrove.cli.scaling_options import add_model_options, parse_point

if TYPE_CHECKING:
    from callgrove.arrays import Floats
    from callgrove.model.table import Table
    from callgrove.modeling.fitting import Models

EXPRESSIONS = ("python", "latex")
EMPTY_PICTURE = '<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"/>'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_options(parser)
    shown = parser.add_argument_group("what is shown")
    shown.add_argument("--subtrees", action="store_true", help="each call path with all below it: sums of the models")
    shown.add_argument("--runner-ups", action="store_true", help="of one series, all functions that fit nearly as well")
    shown.add_argument("--at", type=parse_point, metavar="P=4096", help="where runner-ups and plots should reach")
    shown.add_argument(
        "--expression", choices=EXPRESSIONS, action="append", default=[], help="a column with the function as code"
    )
    shown.add_argument("--plot", metavar="FILE", help="draw one series and its model instead: .svg, .png or .pdf")
    shown.add_argument("--save", metavar="FILE", help="also write the study with its models, like study.extra-p")
    shown.add_argument("--force", action="store_true", help="replace the FILE of --save if it is there already")
    add_table_output(parser, formats=(*TABLE_FORMATS, "extrap"))


def run(args: argparse.Namespace) -> int:
    from callgrove.cli.scaling_options import fit_models, say_cautions

    if args.save:
        _refuse_saving(args)
    if args.plot:
        _refuse_plot(args)
    models = fit_models(args)
    say_cautions(models)
    if args.save:
        _save(models, args)
    if args.plot:
        return _plot(models, args)
    if args.format == "extrap":
        return _report(models, args)
    if args.runner_ups or args.subtrees or args.limit is None:
        emit(_tables(models, args), args)
    else:  # thousands of functions are not written out for a few rows
        emit(_tables(_first(models, args.limit + 1), args), args, len(models))
    return 0


def _first(models: Models, n: int) -> Models:
    import numpy as np

    return models.take(np.arange(n)) if n < len(models) else models


def _tables(models: Models, args: argparse.Namespace) -> Table | Iterable[Table]:
    from callgrove.modeling.model_tables import model_tables, subtree_sums, subtree_table
    from callgrove.modeling.prediction import runner_ups

    if args.runner_ups:
        return _uncut(runner_ups(models, _only(models, "--runner-ups"), _at(models, args)))
    if args.subtrees:
        return _format_table(subtree_table(subtree_sums(models), _styles(args)), args)
    return (_format_table(table, args) for table in model_tables(models, _styles(args)))


def _styles(args: argparse.Namespace) -> list[str]:
    people = ["short"] if args.format in ("table", "markdown") else []
    return [*people, *dict.fromkeys(args.expression)]


def _format_table(table: Table, args: argparse.Namespace) -> Table:
    """For people: fewer columns, and functions with four digits. Data is given as it is, with flags in its warnings."""
    from callgrove.cli.messages import with_flags
    from callgrove.model.table import Column, Table
    from callgrove.render.text_formats import Whole

    if args.format not in ("table", "markdown"):
        spelled = [
            Column("warnings", [[with_flags(text) for text in texts] for texts in column.values])
            if column.name == "warnings"
            else column
            for column in table.columns
        ]
        return Table(tuple(spelled), table.left)
    columns = [
        Column("callpath", table.column("callpath").values),
        Column("metric", [name or "<default>" for name in table.column("metric").plain()]),
    ]
    if not args.expression:
        columns.append(Whole("function", table.column("short").values))
    columns += [Whole(style, table.column(style).values) for style in dict.fromkeys(args.expression)]
    columns.append(Whole("order", table.column("order").values))
    columns += [table.column(name) for name in ("smape", "ar2", "models") if name in table.names]
    return Table(tuple(columns), table.left)


def _uncut(table: Table) -> Table:
    """Functions and their orders are never cut, however narrow a terminal."""
    from dataclasses import replace

    from callgrove.render.text_formats import Whole

    columns = (Whole(c.name, c.values) if c.name in ("function", "order") else c for c in table.columns)
    return replace(table, columns=tuple(columns))


def _only(models: Models, option: str) -> int:
    from callgrove.errors import UsageError

    if len(models) != 1:
        raise UsageError(f"{option} shows one series, and {len(models)} are chosen; choose with --callpath and -m")
    return 0


def _at(models: Models, args: argparse.Namespace) -> Floats | None:
    from callgrove.modeling.prediction import target_of

    return target_of(models.study, args.at).at if args.at else None


def _plot(models: Models, args: argparse.Namespace) -> int:
    from pathlib import Path

    from callgrove.cli.output import replacing
    from callgrove.modeling.prediction import curves_of
    from callgrove.render.plots import draw_svg, model_plot, picture_format

    text = model_plot(curves_of(models, _only(models, "--plot"), _at(models, args)))
    content = draw_svg(text, picture_format(args.plot))
    with replacing(Path(args.plot)) as path:
        path.write_bytes(content)
    return 0


def _report(models: Models, args: argparse.Namespace) -> int:
    import sys
    from pathlib import Path

    from callgrove.cli.output import replacing
    from callgrove.render.plots import extrap_report

    if args.output:
        with replacing(Path(args.output)) as path, path.open("w", encoding="utf-8") as file:
            file.writelines(extrap_report(models))
    else:
        sys.stdout.writelines(extrap_report(models))
    return 0


def _refuse_plot(args: argparse.Namespace) -> None:
    """Before models are made: a picture of another kind, or one that needs a package that is missing."""
    from callgrove.render.plots import draw_svg, picture_format

    draw_svg(EMPTY_PICTURE, picture_format(args.plot))


def _refuse_saving(args: argparse.Namespace) -> None:
    """Before models are made, which may take long."""
    from callgrove.cli.opening import inputs
    from callgrove.cli.targets import refuse_target
    from callgrove.errors import UsageError
    from callgrove.formats.interface import WritesStudies
    from callgrove.formats.registry import format_for_target, writer_of

    name = format_for_target(args.save, series=True)
    if not isinstance(writer_of(name), WritesStudies):
        raise UsageError(f"{args.save}: series over parameters cannot be written as {name}; see `callgrove formats`")
    refuse_target(args.save, inputs(args), [name], overwrite=args.force)


def _save(models: Models, args: argparse.Namespace) -> None:
    from pathlib import Path

    from callgrove.cli.messages import note
    from callgrove.errors import worded
    from callgrove.formats.interface import WriteOptions
    from callgrove.formats.registry import format_for_target, writer_of
    from callgrove.formats.writing.transfer import write_experiment
    from callgrove.modeling.stored import NAME, with_models

    study = with_models(models.study, models, NAME)
    lost = write_experiment(
        study, writer_of(format_for_target(args.save, series=True)), Path(args.save), WriteOptions("", args.force)
    )
    if n_lost := len(models) - sum(model.name == NAME for model in study.models):
        note(f"lost: {n_lost} series without a model, or with one in pieces over several parameters")
    for loss in lost.lines:
        note(worded("lost: ", loss))
