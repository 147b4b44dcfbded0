"""`callgrove diff`: what differs between experiments."""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass, replace
from math import isnan
from typing import TYPE_CHECKING

from callgrove.cli.options import UNSAID, SelectionOptions, TableOutput, add_remap, add_selection, add_table_output
from callgrove.cli.output import amount_of, emit, mark_missing
from callgrove.cli.parser import Command
from callgrove.cli.results import (
    MatchingOptions,
    ResultOptions,
    add_inputs,
    add_matching,
    add_target,
    open_all,
    refuse_result,
    write_result,
)
from callgrove.cli.verbs.gate import FORMATS, GROUPINGS, MOST_ROWS, GateOptions, add_gate, check_sides, run_gate

if TYPE_CHECKING:
    from callgrove.analysis.comparison import Comparison
    from callgrove.model.experiment import Experiment
    from callgrove.model.metrics import Metrics
    from callgrove.model.table import Table

LOOP_AT = "loop at "
MOST_TOTALS = 5
COMPUTES = re.compile(r"[*/^+`$@]| - |\w\(|^-")  # what formulas have and names of metrics have not
SCOPES = ("exclusive", "inclusive", "point", "function", "lexical")


@dataclass(frozen=True, kw_only=True)
class Options(GateOptions, ResultOptions, MatchingOptions, SelectionOptions, TableOutput):
    scope: str
    source: bool
    flat: bool
    write: str | None

    def defines(self, metrics: Metrics, text: str) -> bool:
        """Return whether -m defines a metric; LEFT=RIGHT names one of each side."""
        return super().defines(metrics, text) and not names_two_metrics(metrics, text)


def names_two_metrics(metrics: Metrics, text: str) -> bool:
    """Return whether a text with a `=` is LEFT=RIGHT: RIGHT is a metric here, or nothing in it computes; or LEFT is
    one, and RIGHT no formula over metrics that are here."""
    left, _, right = (part.strip() for part in text.partition("="))
    if right in metrics.quantities or not COMPUTES.search(right):
        return True
    return left in metrics.quantities and not _is_formula(metrics, right)


def _is_formula(metrics: Metrics, text: str) -> bool:
    from callgrove.errors import UsageError
    from callgrove.model.definitions import read_formula

    try:
        read_formula(metrics, text)
    except UsageError:
        return False
    return True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_inputs(parser, "PATH PATH...", "two inputs or more: the first is compared with each of the others", least=0)
    add_selection(parser)
    add_remap(parser)
    parser.add_argument(
        "--scope", choices=SCOPES, default="exclusive", help="the scope of the costs (default: exclusive)"
    )
    parser.add_argument("--source", action="store_true", help="show source lines and call sites")
    parser.add_argument("--flat", action="store_true", help="compare functions, whatever called them")
    add_table_output(parser, formats=FORMATS, limit=MOST_ROWS)
    parser.add_argument("--write", metavar="OUT", help="write an experiment of the differences instead of a table")
    add_matching(parser, groupings=GROUPINGS)
    add_target(parser)
    add_gate(parser)


def run(options: Options) -> int:
    check_sides(options)
    if options.has_sides:
        return run_gate(options)
    options = replace(options, limit=MOST_ROWS) if options.limit == UNSAID else options
    if options.write:
        refuse_result(options.write, options.paths, options)
    inputs = open_all(options, options.paths)
    if options.write:
        return _write(inputs, options.write, options)
    from callgrove.analysis.comparison import Question, compare
    from callgrove.cli.opening import say_damage_met
    from callgrove.model.metrics import Scope

    sides = _choose_sides(inputs, options)
    asked = Question(options.metric, Scope(options.scope), options.rank, options.thread, options.source, options.flat)
    comparison = compare(sides, asked)
    _refuse_unused(comparison, sides, options)
    table = comparison.table(options.limit)
    _say_totals(comparison, options)
    emit(_format_table(table, comparison, options), options)
    for experiment in inputs:
        say_damage_met(experiment, options)
    return 0


def _refuse_unused(comparison: Comparison, sides: list[Experiment], options: Options) -> None:
    """Refuse metrics of --derive that the table does not show: it has one metric, and those that are computed from
    others."""
    from callgrove.errors import UsageError
    from callgrove.model.definitions import defined_name

    used = {
        name
        for side, metric in zip(sides, comparison.metrics, strict=True)
        for name in side.metrics.with_operands([metric])
    }
    if unused := [name for name in map(defined_name, options.derive) if name not in used]:
        shown = comparison.metrics[0]
        raise UsageError(f"--derive: {unused[0]} is not in this table, which compares {shown}; choose it with -m")


def _choose_sides(inputs: list[Experiment], options: Options) -> list[Experiment]:
    """Return what is compared: the inputs, or the runs of a single one."""
    from callgrove.algebra.cutting import part
    from callgrove.cli.opening import say_added_up
    from callgrove.errors import UsageError

    if len(inputs) > 1:
        for experiment in inputs:
            say_added_up(experiment)
        return inputs
    runs = inputs[0].runs
    if len(runs) < 2:
        raise UsageError(f"{options.paths[0]}: holds one run; name another input to compare it with")
    names = [run.name or f"run {number}" for number, run in enumerate(runs)]
    return [replace(part(inputs[0], runs=[k]), path=name) for k, name in enumerate(names)]


def _write(inputs: list[Experiment], target: str, options: Options) -> int:
    from callgrove.algebra.operations import diff
    from callgrove.errors import UsageError

    if len(inputs) != 2:
        raise UsageError(f"--write makes an experiment of two inputs, and {len(inputs)} were given")
    made = diff(*inputs, ignore=options.ignore, by=options.by, system=options.system)
    return write_result(made, inputs, target, options)


def _say_totals(comparison: Comparison, options: Options) -> None:
    """Say the totals on stderr: stdout is data."""
    from callgrove.analysis.comparison import NEAR
    from callgrove.cli.messages import note
    from callgrove.render.units import percent

    if not options.is_printed_table or any(isnan(total) for total in comparison.totals):  # nothing adds up
        return
    write = amount_of(comparison.metric.unit, comparison.metric.is_derived)
    left, *others = comparison.totals
    for name, metric, right in list(zip(comparison.names[1:], comparison.metrics[1:], others, strict=True))[
        :MOST_TOTALS
    ]:
        difference = left - right if abs(left - right) > NEAR * max(abs(left), abs(right)) else 0.0
        change = f" ({percent(difference / right)})" if right else ""
        sign = "+" if difference > 0 else ""
        its = f" {metric}" if metric != comparison.metrics[0] else ""
        what = f"{write(left)} in {comparison.names[0]}, {write(right)}{its} in {name}"
        note(f"{comparison.metric.name}: {what}: difference {sign}{write(difference)}{change}")
    if len(others) > MOST_TOTALS:
        note(f"{comparison.metric.name}: totals of {len(others) - MOST_TOTALS} more are not shown")


def _format_table(table: Table, comparison: Comparison, options: Options) -> Table:
    """Return the table as --format wants it. In a terminal, numbers have units and stand before the path, which may be
    long."""
    from callgrove.model.table import Column, Table
    from callgrove.render.text_formats import Signed, Whole, align_right

    if options.format != "table":
        return table
    write, none = (
        amount_of(comparison.metric.unit, comparison.metric.is_derived),
        mark_missing(comparison.metric.is_derived, options),
    )
    columns: list[Column] = []
    for column in table.columns:
        cells = column.plain()
        if column.name in ("left", "right", "difference"):
            kind = Signed if column.name == "difference" else Whole
            columns.append(kind(column.name, align_right([none if v is None else write(v) for v in cells])))
        elif column.name == "ratio":
            columns.append(Whole(column.name, align_right([none if v is None else f"{v:.3g}" for v in cells])))
        elif column.name == "path":
            columns.append(Column(column.name, [_shorten_path(path) for path in cells]))
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


DIFF = Command(Options, add_arguments, run)
