"""`callgrove pop`: efficiencies of runs, in the table that auditors know."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from callgrove.cli.options import (
    InputOptions,
    SelectionOptions,
    TableOutput,
    add_input,
    add_selection,
    add_table_output,
)
from callgrove.cli.parser import Command

if TYPE_CHECKING:
    from callgrove.analysis.efficiency_figures import Efficiencies, Figure
    from callgrove.model.experiment import Experiment
    from callgrove.model.table import Table

SCALINGS = ("strong", "weak")
MARKS = {"good": "  ", "fair": " !", "poor": "!!"}


@dataclass(frozen=True, kw_only=True)
class Options(InputOptions, SelectionOptions, TableOutput):
    under: str | None
    exclude_init: bool


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_input(parser, many=True)
    add_selection(parser, "the time that is divided up (default: the first time of the host)", contexts=False)
    parser.add_argument(
        "--under",
        metavar="CALLPATH",
        help="only of what lies below this: a name, a call path like main->solve, or a /pattern/",
    )
    parser.add_argument(
        "--exclude-init", action="store_true", help="take the time in MPI_Init and MPI_Finalize off the runtime"
    )
    parser.add_argument(
        "--scaling",
        choices=SCALINGS,
        default="strong",
        help="compare the computation of all processes (strong; default) or of one (weak) with that of the first run",
    )
    add_table_output(parser)


def run(options: Options) -> int:
    from callgrove.analysis.efficiency import Question, pop
    from callgrove.cli.messages import note
    from callgrove.cli.opening import say_damage_met
    from callgrove.cli.output import emit

    opened = _open_runs(options)
    asked = Question(
        options.metric,
        options.rank,
        options.thread,
        under=options.under,
        exclude_init=options.exclude_init,
        scaling=options.scaling,
    )
    found = pop(opened, asked)
    emit(_format_table(found, options) if options.is_for_people else found.table(), options)
    if options.is_for_people:
        for text in (*found.notes, *found.name_missing()):
            note(text)
    for experiment in opened:
        say_damage_met(experiment, options)
    return 0


def _open_runs(options: Options) -> list[Experiment]:
    """Return the experiment at each path, whatever the others hold."""
    from callgrove.cli.opening import open_experiment

    fold = bool(options.metric) or options.under is not None  # what is made of events is not needed otherwise
    alone = [replace(options, paths=[path]) for path in options.paths]
    return [run for one in alone for run in _separate_traced_runs(open_experiment(one, fold=fold), one, fold)]


def _separate_traced_runs(experiment: Experiment, options: Options, fold: bool) -> list[Experiment]:
    """Return an experiment; but each run of a folder by itself if it is made of traces, which joined runs lack."""
    from callgrove.cli.opening import open_any
    from callgrove.model.experiment import Experiment
    from callgrove.model.traces.profile_from_spans import METRICS

    sources, names = [run.source for run in experiment.runs], experiment.metrics.quantities
    is_traced = not experiment.traces.n_spans and (not names or METRICS[0].name in names)
    if len(sources) < 2 or not is_traced or not all(sources):
        return [experiment]
    alone = replace(options, points=(), folder_pattern="", points_file="", run=None)
    opened = [open_any(replace(alone, paths=[source]), notes=False, fold=fold) for source in sources]
    return [run for run in opened if isinstance(run, Experiment)]


def _format_table(found: Efficiencies, options: Options) -> Table:
    """Return the figures that there are as text: indented, with units, and with a mark where an efficiency is low."""
    from callgrove.model.table import Column, Table
    from callgrove.render.text_formats import Graded, align_right
    from callgrove.render.text_table import INDENT

    rows = found.rows(everything=False)
    marks = options.format == "table"
    columns: list[Column] = [Column("figure", [" " * INDENT * row.depth + row.name for row in rows])]
    for one in found.runs:
        cells = [_format_cell(row, one.values.get(row.name), marks) for row in rows]
        columns.append(Graded(one.name, align_right(cells)))
    return Table(tuple(columns))


def _format_cell(figure: Figure, value: float | None, marks: bool) -> str:
    """Return a figure as text, with a mark of how good it is where `marks` are wanted."""
    from callgrove.analysis.efficiency_figures import FigureKind, grade
    from callgrove.render.units import percent, si

    padding = "   " if marks else ""
    if value is None:
        return f"-{padding}"
    if figure.kind == FigureKind.EFFICIENCY:
        return f"{value:.3f}" + (f" {MARKS[grade(value)]}" if marks else "")
    if figure.kind == FigureKind.SHARE:
        return percent(value) + padding
    return (f"{value:.0f}" if figure.kind == FigureKind.COUNT else si(value, figure.unit)) + padding


POP = Command(Options, add_arguments, run)
