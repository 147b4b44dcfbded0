"""`callgrove report`: pictures of an experiment, as one page to open, to mail or to keep with a CI run."""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from callgrove.cli.options import FileOutput, InputOptions, SelectionOptions, add_remap, add_selection, add_study_input
from callgrove.cli.parser import Command

if TYPE_CHECKING:
    from collections.abc import Iterator

    from callgrove.analysis.comparison import Comparison
    from callgrove.viewer.report import Input

SIZE = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)\s*([kMG]?)B?", re.ASCII)
OTHER_ENDINGS = (".pdf", ".png", ".svg", ".jpg", ".jpeg", ".gif", ".csv", ".json", ".md", ".txt", ".xml", ".ipynb")
SIZES = {"": 1, "k": 1_000, "M": 1_000_000, "G": 1_000_000_000}


@dataclass(frozen=True, kw_only=True)
class Options(InputOptions, SelectionOptions, FileOutput):
    output: str
    title: str
    max_size: int
    compares: bool
    force: bool


def size(text: str) -> int:
    """Parse a number of bytes: 800kB, 5MB, 1.5M."""
    number_and_unit = SIZE.fullmatch(text.strip())
    if number_and_unit is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size like 800kB or 5MB")
    return int(float(number_and_unit[1]) * SIZES[number_and_unit[2]])


def add_page(parser: argparse._ActionsContainer) -> None:
    """Add what every page has."""
    parser.add_argument("--title", metavar="TEXT", default="", help="the title of the page (default: from the input)")
    parser.add_argument(
        "--max-size",
        metavar="SIZE",
        type=size,
        default="5MB",
        help="fold the smallest parts until the page is no larger than this (default: 5MB)",
    )


def check_page(path: str) -> None:
    """Refuse names of files that are no pages."""
    from pathlib import PurePath

    from callgrove.errors import UsageError

    target = PurePath(path)
    if target.suffix.lower() in OTHER_ENDINGS:
        raise UsageError(f"{path}: a report is a page of HTML; name it like {target.stem}.html")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_study_input(parser, many=True)
    add_selection(parser, "the metric to show first (default: the first one that is a time, else the first)")
    add_remap(parser)
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help="the page to write, like report.html")
    add_page(parser)
    parser.add_argument(
        "--compare",
        dest="compares",
        action="store_true",
        help="compare the first input with each of the others, as 'callgrove diff --report' does",
    )
    parser.add_argument("--force", action="store_true", help=argparse.SUPPRESS)  # scripts say it


def run(options: Options) -> int:
    from callgrove.cli.messages import note, progress, with_flags
    from callgrove.cli.opening import say_added_up, say_damage_met
    from callgrove.cli.output import say_selected_cost
    from callgrove.model.experiment import Experiment
    from callgrove.model.metrics import Scope
    from callgrove.viewer.page import Choice
    from callgrove.viewer.report import report

    check_page(options.output)
    if options.compares:
        return _compare(options)
    notes: list[str] = []  # said when no bar of progress stands on the terminal any more
    unexplained: list[str] = []
    opened = list(_open_inputs(options))
    for one in opened:
        if isinstance(one.opened, Experiment):
            say_added_up(one.opened)
            say_selected_cost(one.opened, options.metric)
    choice = Choice(options.metric, options.rank, options.thread, options.scaling, Scope(options.study_scope))
    with progress() as report_progress:
        text = report(
            opened,
            choice,
            options.title,
            options.max_size,
            report_progress,
            notes.append,
            complain=unexplained.append,
            wording=with_flags,
        )
    for sentence in notes:
        note(sentence)
    _write_page(text, options.output)
    for one in opened:
        if isinstance(one.opened, Experiment):
            say_damage_met(one.opened, options)
    _say_unexplained(unexplained, options.output, options.strict)
    return 0


def _write_page(text: str, target: str) -> None:
    from pathlib import Path

    from callgrove.cli.messages import note
    from callgrove.cli.output import replacing

    with replacing(Path(target)) as place:
        place.write_text(text, encoding="utf-8", newline="")
    note(f"{target}: {len(text.encode()):,} bytes; open it in a browser")


def _say_unexplained(unexplained: list[str], target: str, strict: bool) -> None:
    """Say what does not add up; that is an error where it is asked to be one."""
    from callgrove.cli.messages import say_unexplained
    from callgrove.errors import IncompleteResult

    say_unexplained(unexplained)
    if unexplained and strict:
        raise IncompleteResult(f"{target}: was written, but what it shows does not add up to the totals")


# -- a comparison ------------------------------------------------------------------------------------------------------


def write_comparison(comparison: Comparison, target: str, title: str, max_size: int, options: InputOptions) -> None:
    """Write the page of a comparison, and say what was met on the way."""
    from callgrove.cli.messages import progress, with_flags
    from callgrove.cli.opening import say_damage_met
    from callgrove.viewer.report import report_comparison

    unexplained: list[str] = []
    with progress() as told:
        text = report_comparison(comparison, title, max_size, told, complain=unexplained.append, wording=with_flags)
    _write_page(text, target)
    for experiment in comparison.experiments:
        say_damage_met(experiment, options)
    _say_unexplained(unexplained, target, options.strict)


def _compare(options: Options) -> int:
    """Write the page of the first input compared with each of the others."""
    from callgrove.analysis.comparison import Question, compare
    from callgrove.cli.comparing import say_comparison
    from callgrove.cli.opening import open_experiment, say_added_up
    from callgrove.errors import UsageError

    given = {"--scaling": options.scaling, "--inclusive": options.study_scope == "inclusive"}
    if unfit := [flag for flag, is_given in given.items() if is_given]:
        raise UsageError(
            f"{unfit[0]} is for studies; `callgrove diff A B --report FILE` has the options of comparisons"
        )
    if options.points or len(options.paths) < 2:
        raise UsageError("--compare needs two inputs or more: name the first, and those it is compared with")
    inputs = [open_experiment(replace(options, paths=[path])) for path in options.paths]
    for experiment in inputs:
        say_added_up(experiment)
    comparison = compare(inputs, Question(options.metric, ranks=options.rank, threads=options.thread))
    comparison.require_common()
    say_comparison(comparison)
    write_comparison(comparison, options.output, options.title, options.max_size, options)
    return 0


def _open_inputs(options: Options) -> Iterator[Input]:
    """Yield all paths as one experiment where their format takes several, else each by itself."""
    from callgrove.cli.opening import open_any
    from callgrove.errors import UsageError
    from callgrove.viewer.report import Input

    paths = options.inputs
    if len(options.paths) > 1:
        try:
            yield Input(open_any(options), paths)
        except UsageError:
            for path in paths:
                yield Input(open_any(replace(options, paths=[path])), [path])
        return
    yield Input(open_any(options), paths)


REPORT = Command(Options, add_arguments, run)
