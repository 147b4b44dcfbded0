"""How a comparison is told: sentences and notes on stderr, tables on stdout.

In a terminal, call paths that both sides have stand in one table, those that only one has in tables of their own, and
numbers have units. Data formats get one table, as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from math import isnan
from typing import TYPE_CHECKING

from callgrove.analysis.comparison.experiments import NEAR, Comparison
from callgrove.analysis.comparison.studies import StudyComparison
from callgrove.cli.messages import note, progress
from callgrove.cli.output import (
    amounts_of,
    caption_of,
    emit,
    emit_each,
    emit_of_study,
    filter_rows,
    grade_trust,
    mark_missing,
)
from callgrove.errors import Parameter, UsageError, compose_text
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Scope
from callgrove.model.study.from_runs import combination_for, fold
from callgrove.model.study.series import Study
from callgrove.model.table import Column, Table
from callgrove.render.cost_texts import amount_of
from callgrove.render.text_formats import Signed, Whole, align_right, reading_float
from callgrove.render.units import percent

if TYPE_CHECKING:
    from collections.abc import Callable

    from callgrove.cli.options import TableOutput
    from callgrove.modeling.comparison import ModelComparison

__all__ = [
    "MOST_TOTALS",
    "are_studies",
    "compare_study_models",
    "say_comparison",
    "show_comparison",
    "show_models",
    "show_studies",
]

LOOP_AT = "loop at "
MOST_TOTALS = 5
OF_VALUES = ("left", "right", "difference")
EMPTY_ALONE = {  # columns that say nothing of what one side has alone
    "left": ("right", "difference", "ratio", "speedup", "efficiency"),
    "right": ("left", "difference", "ratio", "speedup", "efficiency"),
}
OF_RATIOS = ("ratio", "speedup", "efficiency")


# -- experiments -------------------------------------------------------------------------------------------------------


def say_comparison(comparison: Comparison, with_totals: bool = True) -> None:
    """Say what a comparison comes to."""
    write = amount_of(comparison.metric.unit, comparison.metric.is_derived)
    for text in comparison.notes:
        note(text)
    if with_totals:
        _say_totals(comparison)
    if comparison.metric.aggregation != Aggregation.NONE:
        for text in islice(comparison.say(write), MOST_TOTALS):
            note(text)
    _say_processes(comparison)
    _say_only(comparison)


def show_comparison(comparison: Comparison, options: TableOutput) -> None:
    """Say what a comparison comes to, and print its table."""
    say_comparison(comparison, with_totals=options.is_printed_table)
    write = amount_of(comparison.metric.unit, comparison.metric.is_derived)
    none = mark_missing(comparison.metric.is_derived, options)
    if options.format != "table":
        emit(_choose_rows(comparison, options), options)
        return
    tables = [_format_table(table, lambda _: write, none) for table in _divide(comparison, options)]
    emit_each(tables, options)


def _say_totals(comparison: Comparison) -> None:
    """Say the totals of all sides, where there are any."""
    if any(isnan(total) for total in comparison.totals):  # nothing adds up
        return
    write = amount_of(comparison.metric.unit, comparison.metric.is_derived)
    left, *others = comparison.totals
    sides = list(zip(comparison.short_names[1:], comparison.metrics[1:], others, strict=True))
    for name, metric, right in sides[:MOST_TOTALS]:
        difference = left - right if abs(left - right) > NEAR * max(abs(left), abs(right)) else 0.0
        sign = "+" if difference > 0 else ""
        its = f" {metric}" if metric != comparison.metrics[0] else ""
        what = f"{write(left)} in {comparison.short_names[0]}, {write(right)}{its} in {name}"
        note(f"{comparison.metric.name}: {what}: difference {sign}{write(difference)}")
    if len(others) > MOST_TOTALS:
        note(f"{comparison.metric.name}: totals of {len(others) - MOST_TOTALS} more are not shown")


def _say_processes(comparison: Comparison) -> None:
    """Say how many processes were used for scaling, or that there is such a thing."""
    processes = comparison.processes
    if comparison.asked.scaling:
        note(processes.say(comparison.short_names))
    elif processes.differ() and comparison.is_additive:
        hint = Parameter("scaling", "weak"), " or strong shows losses, speed-up and efficiency"
        note(compose_text(f"{processes.say(comparison.short_names)}; ", *hint))


def _say_only(comparison: Comparison) -> None:
    """Say what only one of two sides has."""
    write = amount_of(comparison.metric.unit, comparison.metric.is_derived)
    what = "function" if comparison.asked.flat else "call path"
    for other in range(1, min(len(comparison.names), MOST_TOTALS + 1)):
        counts = comparison.count_only(other)
        names = {"left": comparison.short_names[0], "right": comparison.short_names[other]}
        if comparison.is_apart(other):
            note(f"{names['left']} and {names['right']} have no {what}s in common")
        parts = [
            f"only in {names[side]}: {n} {what}{'s' * (n > 1)}" + (f" with {write(cost)}" if not isnan(cost) else "")
            for side, (n, cost) in counts.items()
            if n
        ]
        if parts:
            note("; ".join(parts))


def _choose_rows(comparison: Comparison | StudyComparison, options: TableOutput) -> Table:
    """Return the rows of a comparison that --where and --limit leave."""
    unit = comparison.metric.unit if isinstance(comparison, Comparison) else ""
    table = comparison.table(options.row_limit)
    return filter_rows(table, options, amounts_of(OF_VALUES, unit)).head(options.limit)


def _divide(comparison: Comparison, options: TableOutput) -> Iterator[Table]:
    """Yield the table of what both sides have, then those of what only one has; empty ones are left out."""
    asked = comparison.asked
    words = (asked.only,) if asked.only else ("both", "left", "right")
    parts = {word: replace(comparison, asked=replace(asked, only=word)) for word in words}
    tables = {word: _choose_rows(part, options) for word, part in parts.items()}
    shown = {word: table for word, table in tables.items() if len(table) or table.left}
    for word, table in shown.items() or list(tables.items())[:1]:
        columns = [column for column in table.columns if column.name not in EMPTY_ALONE.get(word, ())]
        yield Table(tuple(columns), table.left)


# -- studies -----------------------------------------------------------------------------------------------------------
# Inputs are compared as studies where each holds series, or several runs over parameters. Runs become series without
# filling in what some points lack: two studies would be filled differently. The value of a run is the sum over its
# profiles, as in every other comparison, unless an input holds series already: then it is what these say they are.


def are_studies(opened: Sequence[Experiment | Study]) -> bool:
    """Return whether all of several inputs have series over parameters."""
    return len(opened) > 1 and all(
        isinstance(one, Study) or (len(one.runs) > 1 and all(run.parameters for run in one.runs)) for one in opened
    )


def make_studies(
    opened: Sequence[Experiment | Study], metric: str | None, scope: str, run_value: str = ""
) -> list[Study]:
    """Return all inputs as studies. `run_value` says what a value of a run is; without it, the sum, or what a study
    that is stored says."""
    stored = [one for one in opened if isinstance(one, Study)]
    if run_value and len(stored) == len(opened):
        note("all inputs hold series already, which --value does not change")
    scaling = run_value or (stored[0].scaling if stored else "sum")
    if len(stored) < len(opened):
        note("runs over parameters are compared point by point")
    texts = [part.strip() for part in (metric or "").split("=", 1)]
    return [
        one if isinstance(one, Study) else _fold_runs(one, texts[min(k, 1, len(texts) - 1)], scope, scaling)
        for k, one in enumerate(opened)
    ]


def compare_study_models(
    studies: Sequence[Study], metric: str | None, point: Mapping[str, float] | None
) -> ModelComparison:
    """Return the scaling models of two studies side by side: those that they store, or new ones."""
    from callgrove.modeling.comparison import choose_target, compare_models
    from callgrove.modeling.options import ModelOptions
    from callgrove.modeling.prediction import models_of, target_of

    if len(studies) != 2:
        raise UsageError(f"models of two studies are compared, and {len(studies)} inputs were given")
    left, _, right = (metric or "").partition("=")
    names = [left.strip() or None, right.strip() or left.strip() or None]
    models = [models_of(study, ModelOptions(), name) for study, name in zip(studies, names, strict=True)]
    at = target_of(studies[0], point).at if point else choose_target(*studies)
    where = ", ".join(f"{name} = {x:g}" for name, x in zip(studies[0].parameters, at.tolist(), strict=True))
    note(f"models are compared at {where}{'' if point else '; --at chooses another point'}")
    for side, one in zip(("left", "right"), studies, strict=True):
        if one.models:
            note(f"the models of the {side} study are those that it stores")
    return compare_models(models[0], models[1], at, [models[k].metric(0) for k in (0, 1)] if right else ())


def show_models(comparison: ModelComparison, study: Study, options: TableOutput) -> None:
    """Print models side by side, with what a value of a run is in a study; on a terminal, functions in four digits and
    judgements are never left out."""
    if options.format != "table":
        emit_of_study(comparison.table(options.limit), study, options)
        return
    table = comparison.table(options.limit, "short")
    whole = ("left_function", "right_function", "left_reason", "right_reason", "larger_beyond")
    columns: list[Column] = []
    for column in table.columns:
        if column.name.endswith("_trust"):
            columns.append(grade_trust(column.name, column.plain()))
        elif column.name != "present":
            columns.append(Whole(column.name, column.plain()) if column.name in whole else column)
    emit_each([Table(tuple(columns), table.left)], options, caption_of(study, options))


def _fold_runs(experiment: Experiment, metric: str, scope: str, scaling: str) -> Study:
    """Return the runs of an experiment as series, of one metric or of all."""
    with progress() as report:
        return fold(
            experiment, [metric] if metric else None, Scope(scope), combination_for(experiment, scaling), report
        )


def show_studies(comparison: StudyComparison, study: Study, options: TableOutput) -> None:
    """Say what a comparison of studies comes to, and print its table, with the units of a study and what a value of a
    run is there."""
    for text in (*comparison.notes, *comparison.sentences[:MOST_TOTALS]):
        note(text)
    table = _choose_rows(comparison, options)
    if options.format != "table":
        emit_of_study(table, study, options)
        return
    metrics = table.column("metric").plain()
    writers = {name: amount_of(study.units.get(name, ""), False) for name in comparison.metrics}
    shown = _format_table(table, lambda row: writers[metrics[row]], "")
    emit_each([shown], options, caption_of(study, options))


# -- tables for people -------------------------------------------------------------------------------------------------


def _format_table(table: Table, write: Callable[[int], Callable[[float], str]], none: str) -> Table:
    """Return a table with units, in which numbers stand before the path, which may be long. `write` is how the values
    of a row are written."""
    columns: list[Column] = []
    for column in table.columns:
        cells = column.plain()
        if column.name in OF_VALUES:
            texts = [none if v is None else write(row)(v) for row, v in enumerate(cells)]
            columns.append((Signed if column.name == "difference" else Whole)(column.name, align_right(texts)))
        elif column.name in OF_RATIOS:
            columns.append(Whole(column.name, align_right([none if v is None else f"{v:.3g}" for v in cells])))
        elif column.name == "loss":
            texts = [none if v is None else percent(v / 100) for v in cells]
            columns.append(Signed(column.name, align_right(texts)))
        elif column.name == "path":
            columns.append(Column(column.name, [_shorten_path(path) for path in cells]))
        elif cells and isinstance(cells[0], float):  # a parameter
            columns.append(Whole(column.name, align_right([reading_float(v) for v in cells])))
        else:
            columns.append(Whole(column.name, cells) if column.name == "present" else column)
    return Table((*columns[1:], columns[0]), table.left)


def _shorten_path(path: str) -> str:
    """Return a call path whose places are shown without the folders they lie in."""
    names = path.split("->")
    for k, name in enumerate(names):
        what = LOOP_AT if name.startswith(LOOP_AT) else ""
        if name.removeprefix(what).startswith("/"):
            names[k] = what + name.rpartition("/")[2]
    return "->".join(names)
