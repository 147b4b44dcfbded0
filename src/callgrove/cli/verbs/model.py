"""`callgrove model`: how costs scale, as functions of the parameters."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from callgrove.cli.options import TABLE_FORMATS, TableOutput, add_table_output
from callgrove.cli.output import emit
from callgrove.cli.parser import Command
from callgrove.cli.scaling_options import ScalingOptions, add_model_options, parse_point

if TYPE_CHECKING:
    from callgrove.arrays import Floats
    from callgrove.model.table import Table
    from callgrove.modeling.fitting import Models

EXPRESSIONS = ("python", "latex")
EMPTY_PICTURE = '<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"/>'


@dataclass(frozen=True, kw_only=True)
class Options(ScalingOptions, TableOutput):
    subtrees: bool
    runner_ups: bool
    at: dict[str, float] | None
    expression: Sequence[str]
    plot: str | None
    save: str | None
    force: bool

    @property
    def files(self) -> Mapping[str, str | None]:
        """The files to write, by option."""
        return {**super().files, "--plot": self.plot}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_options(parser)
    shown = parser.add_argument_group("what is shown")
    shown.add_argument(
        "--subtrees", action="store_true", help="show each call path with everything below it: sums of the models"
    )
    shown.add_argument(
        "--runner-ups", action="store_true", help="show all functions that fit one series nearly as well"
    )
    shown.add_argument(
        "--at", type=parse_point, metavar="P=4096", help="the point up to which runner-ups and plots should reach"
    )
    shown.add_argument(
        "--expression", choices=EXPRESSIONS, action="append", default=[], help="add a column with the function as code"
    )
    shown.add_argument("--plot", metavar="FILE", help="draw one series and its model instead: .svg, .png or .pdf")
    shown.add_argument("--save", metavar="FILE", help="also write the study with its models, like study.extra-p")
    shown.add_argument("--force", action="store_true", help="replace the FILE of --save if it exists")
    add_table_output(parser, formats=(*TABLE_FORMATS, "extrap"))


def run(options: Options) -> int:
    from callgrove.cli.scaling_options import fit_models, say_cautions

    if options.save:
        _refuse_saving(options.save, options)
    if options.plot:
        _refuse_plot(options.plot)
    models = fit_models(options)
    say_cautions(models)
    if options.save:
        _save(models, options.save, options.force)
    if options.plot:
        return _plot(models, options.plot, options)
    if options.format == "extrap":
        return _report(models, options)
    if options.runner_ups or options.subtrees or options.limit is None:
        emit(_tables(models, options), options)
    else:  # thousands of functions are not written out for a few rows
        emit(_tables(_first(models, options.limit + 1), options), options, len(models))
    return 0


def _first(models: Models, n: int) -> Models:
    import numpy as np

    return models.take(np.arange(n)) if n < len(models) else models


def _tables(models: Models, options: Options) -> Table | Iterable[Table]:
    from callgrove.modeling.model_tables import model_tables, subtree_sums, subtree_table
    from callgrove.modeling.prediction import runner_ups

    if options.runner_ups:
        return _uncut(runner_ups(models, _only(models, "--runner-ups"), _at(models, options)))
    if options.subtrees:
        return _format_table(subtree_table(subtree_sums(models), _styles(options)), options)
    return (_format_table(table, options) for table in model_tables(models, _styles(options)))


def _styles(options: Options) -> list[str]:
    people = ["short"] if options.is_for_people else []
    return [*people, *dict.fromkeys(options.expression)]


def _format_table(table: Table, options: Options) -> Table:
    """For people: fewer columns, and functions with four digits. Data is given as it is, with flags in its warnings."""
    from callgrove.cli.messages import with_flags
    from callgrove.model.table import Column, Table
    from callgrove.render.text_formats import Whole

    if not options.is_for_people:
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
    if not options.expression:
        columns.append(Whole("function", table.column("short").values))
    columns += [Whole(style, table.column(style).values) for style in dict.fromkeys(options.expression)]
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


def _at(models: Models, options: Options) -> Floats | None:
    from callgrove.modeling.prediction import target_of

    return target_of(models.study, options.at).at if options.at else None


def _plot(models: Models, target: str, options: Options) -> int:
    from pathlib import Path

    from callgrove.cli.output import replacing
    from callgrove.modeling.prediction import curves_of
    from callgrove.render.plots import draw_svg, model_plot, picture_format

    text = model_plot(curves_of(models, _only(models, "--plot"), _at(models, options)))
    content = draw_svg(text, picture_format(target))
    with replacing(Path(target)) as path:
        path.write_bytes(content)
    return 0


def _report(models: Models, options: Options) -> int:
    import sys
    from pathlib import Path

    from callgrove.cli.output import replacing
    from callgrove.render.plots import extrap_report

    if options.output:
        with replacing(Path(options.output)) as path, path.open("w", encoding="utf-8") as file:
            file.writelines(extrap_report(models))
    else:
        sys.stdout.writelines(extrap_report(models))
    return 0


def _refuse_plot(target: str) -> None:
    """Before models are made: a picture of another kind, or one that needs a package that is missing."""
    from callgrove.render.plots import draw_svg, picture_format

    draw_svg(EMPTY_PICTURE, picture_format(target))


def _refuse_saving(target: str, options: Options) -> None:
    """Before models are made, which may take long."""
    from callgrove.cli.targets import refuse_target
    from callgrove.errors import UsageError
    from callgrove.formats.interface import WritesStudies
    from callgrove.formats.registry import format_for_target, writer_of

    name = format_for_target(target, series=True)
    if not isinstance(writer_of(name), WritesStudies):
        raise UsageError(f"{target}: series over parameters cannot be written as {name}; see `callgrove formats`")
    refuse_target(target, options.inputs, [name], overwrite=options.force)


def _save(models: Models, target: str, overwrite: bool) -> None:
    from pathlib import Path

    from callgrove.cli.messages import note
    from callgrove.errors import worded
    from callgrove.formats.interface import WriteOptions
    from callgrove.formats.registry import format_for_target, writer_of
    from callgrove.formats.writing.transfer import write_experiment
    from callgrove.modeling.stored import NAME, with_models

    study = with_models(models.study, models, NAME)
    format_ = writer_of(format_for_target(target, series=True))
    lost = write_experiment(study, format_, Path(target), WriteOptions(overwrite=overwrite))
    if n_lost := len(models) - sum(model.name == NAME for model in study.models):
        note(f"lost: {n_lost} series without a model, or with one in pieces over several parameters")
    for loss in lost.lines:
        note(worded("lost: ", loss))


COMMAND = Command(Options, add_arguments, run)
