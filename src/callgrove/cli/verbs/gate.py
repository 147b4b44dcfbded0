"""`callgrove diff --left ... --right ...`: did repetitions become slower, for continuous integration."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from callgrove.cli.options import TABLE_FORMATS, UNSAID, InputOptions, SelectionOptions, TableOutput
from callgrove.cli.output import amounts_of, choose_rows, emit, emit_text
from callgrove.cli.results import open_all, resolve_links
from callgrove.errors import IncompleteResult, UsageError, count_of
from callgrove.render.cost_texts import amount_of

if TYPE_CHECKING:
    from callgrove.analysis.gate.decision import Gate, GateRow
    from callgrove.model.experiment import Experiment
    from callgrove.model.table import Table

__all__ = ["FORMATS", "GROUPINGS", "MOST_ROWS", "SLOWER", "GateOptions", "add_gate", "check_sides", "run_gate"]

SLOWER = 5  # exit code
GROUPINGS = ("function", "path")
FORMATS = (*TABLE_FORMATS, "junit")
MOST_ROWS = 20  # of a printed table
SHARE = 0.005  # of reports that may be wrong, and of cost that a row has at least
MATTERS = 0.03  # the change that verdicts are about where nothing fails


@dataclass(frozen=True, kw_only=True)
class GateOptions(InputOptions, SelectionOptions, TableOutput):
    """Two sides of repetitions, and what is decided."""

    left: Sequence[str]
    right: Sequence[str]
    fail_above: float | None
    alpha: float | None
    min_share: float | None
    assume_noise: float | None
    by: str
    scope: str
    source: bool
    write: str | None

    @property
    def inputs(self) -> list[str]:
        """Every path that is read."""
        return [*self.paths, *self.left, *self.right]

    @property
    def has_sides(self) -> bool:
        """Whether sides of repetitions are compared, rather than experiments."""
        return bool(self.left or self.right)


def share(text: str) -> float:
    """Parse a share like 3% or 0.03. A number above 1 without a sign is refused: nobody knows what it means."""
    number, sign, rest = text.strip().partition("%")
    try:
        value = float(number) / 100 if sign else float(number)
    except ValueError:
        value = float("nan")
    if rest.strip() or not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a share like 3% or 0.03")
    if value > 1 and not sign:
        raise argparse.ArgumentTypeError(f"{text!r} would be {100 * value:g}%; say {text.strip()}% if that is meant")
    return value


def add_gate(parser: argparse.ArgumentParser) -> None:
    """Add the options of comparing repetitions."""
    group = parser.add_argument_group(
        "gate",
        "compare repetitions of two versions, by exclusive cost per rank: exit code 5 where a function became slower "
        "(docs/ci.md)",
    )
    for side, which in (("--left", "before"), ("--right", "after")):
        group.add_argument(
            side,
            metavar="PATH",
            nargs="+",
            action="extend",
            default=[],
            help=f"runs {which} the change, instead of PATH",
        )
    group.add_argument(
        "--fail-above",
        metavar="CHANGE",
        type=share,
        help="fail where a function is slower by that, like 3%% (without it, nothing fails)",
    )
    group.add_argument(
        "--alpha",
        metavar="SHARE",
        type=share,
        help="how many reports without any change may fail (default: 0.5%%)",
    )
    group.add_argument(
        "--min-share",
        metavar="SHARE",
        type=share,
        help="leave out functions with less of the cost of all runs (default: 0.5%%)",
    )
    group.add_argument(
        "--assume-noise",
        metavar="SHARE",
        type=share,
        help="how much the cost of a run scatters, like 1%%, where there are too few runs to measure that",
    )
    parser.set_defaults(limit=UNSAID)


def check_sides(options: GateOptions) -> None:
    """Refuse what only one of the two ways of comparing has."""
    if not options.has_sides:
        if len(options.paths) < 1:
            raise UsageError("PATH is missing, or repetitions with --left and --right; see 'callgrove diff --help'")
        if options.by in GROUPINGS:
            raise UsageError(f"--by {options.by} needs --left and --right; --flat compares functions of two inputs")
        given = (
            ("--fail-above", options.fail_above),
            ("--assume-noise", options.assume_noise),
            ("--alpha", options.alpha),
            ("--min-share", options.min_share),
        )
        if flags := [flag for flag, value in given if value is not None]:
            raise UsageError(f"{flags[0]} needs repetitions: name them with --left and --right")
        if options.format == "junit":
            raise UsageError("--format junit needs repetitions: name them with --left and --right")
        return
    if options.paths:
        raise UsageError(f"{options.paths[0]}: is on no side; name it behind --left or --right")
    if not (options.left and options.right):
        raise UsageError(f"{'--right' if options.left else '--left'} is missing: both sides need a run")
    _refuse_twice(options)
    refused = {"--write": options.write, "--source": options.source, "--by name": options.by == "name"}
    refused[f"--scope {options.scope}"] = options.scope != "exclusive"
    if flags := [flag for flag, value in refused.items() if value]:
        raise UsageError(f"{flags[0]} cannot be used with --left and --right, which compare exclusive costs")


def _refuse_twice(options: GateOptions) -> None:
    """Refuse a run that is named twice on a side: the same numbers again say nothing about noise."""
    for flag, paths in (("--left", options.left), ("--right", options.right)):
        places = [resolve_links(path) for path in paths]
        if twice := [path for path, place in zip(paths, places, strict=True) if places.count(place) > 1]:
            raise UsageError(f"{twice[0]}: is named twice behind {flag}, and is one repetition")
    if both := {*map(resolve_links, options.left)} & {*map(resolve_links, options.right)}:
        from callgrove.cli.messages import note

        paths = count_of(len(both), "path is", "paths are")
        note(f"warning: {paths} on both sides, so that these sides are not independent runs")


def run_gate(options: GateOptions) -> int:
    """Compare the sides, print the result, and return the exit code."""
    from callgrove.analysis.gate.decision import gate
    from callgrove.cli.messages import note
    from callgrove.cli.opening import say_damage_met

    left, right = (open_all(options, paths) for paths in (options.left, options.right))
    made = gate(
        left,
        right,
        options.metric,
        fail_above=MATTERS if options.fail_above is None else options.fail_above,
        alpha=SHARE if options.alpha is None else options.alpha,
        min_share=SHARE if options.min_share is None else options.min_share,
        by="path" if options.by == "path" else "function",
        assume_noise=options.assume_noise,
        ranks=options.rank,
        threads=options.thread,
    )
    _refuse_unused(made, [*left, *right], options)
    if options.fail_above is not None:
        _require_noise(made)
    _print(made, options)
    for text in (made.sentence, *made.notes):
        note(text)
    for experiment in (*left, *right):
        say_damage_met(experiment, options)
    return _exit_code(made, options)


def _refuse_unused(made: Gate, runs: Sequence[Experiment], options: GateOptions) -> None:
    """Refuse metrics of --derive that the table does not show."""
    from callgrove.model.definitions import find_defined_name

    used = {name for run in runs for name in run.metrics.with_operands([made.metric.name])}
    if unused := [name for name in map(find_defined_name, options.derive) if name not in used]:
        raise UsageError(f"--derive: {unused[0]} is not in this table, which compares {made.metric.name}; use -m")


def _require_noise(made: Gate) -> None:
    """Refuse to decide about one run of each side."""
    if made.sides.n_left == made.sides.n_right == 1 and not made.is_assumed:
        raise UsageError("--fail-above: ", made.notes[0])


def _exit_code(made: Gate, options: GateOptions) -> int:
    if options.fail_above is None:
        return 0
    if made.verdict == "slower":
        return SLOWER
    if options.strict and made.verdict == "unclear":
        raise IncompleteResult(f"these repetitions do not decide about {100 * options.fail_above:g}%")
    return 0


def _print(made: Gate, options: GateOptions) -> None:
    from callgrove.cli.messages import note, with_flags
    from callgrove.render.gate_report import junit_text, markdown_text, readable_table

    write = amount_of(made.metric.unit, made.metric.is_derived)
    table, rows = _choose_rows(made, options)
    if options.format in ("markdown", "junit"):
        compose = markdown_text if options.format == "markdown" else junit_text
        shown = rows[: None if options.limit == UNSAID else options.limit]
        emit_text([compose(made, shown, write, with_flags)], options.output)
        if len(shown) < len(rows):
            note(f"{len(rows) - len(shown):,} more rows were left out by --limit")
        return
    limit = (MOST_ROWS if options.format == "table" else None) if options.limit == UNSAID else options.limit
    emit(readable_table(rows, write) if options.format == "table" else table, replace(options, limit=limit))


def _choose_rows(made: Gate, options: GateOptions) -> tuple[Table, tuple[GateRow, ...]]:
    """Return the rows that --where leaves, as a table of numbers and as they are."""
    from callgrove.patterns.tables import take_rows

    table, rows = made.table(), made.shown
    if not options.where:
        return table, rows
    chosen = choose_rows(table, options, amounts_of(("left", "right"), made.metric.unit))
    return take_rows(table, chosen), tuple(rows[k] for k in chosen.nonzero()[0].tolist())
