"""`callgrove diff`: what differs between experiments."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from callgrove.cli.options import (
    UNSAID,
    VALUES_OF_RUNS,
    SelectionOptions,
    TableOutput,
    add_remap,
    add_selection,
    add_table_output,
)
from callgrove.cli.parser import Command
from callgrove.cli.results import (
    MatchingOptions,
    ResultOptions,
    add_inputs,
    add_matching,
    add_target,
    refuse_result,
    write_result,
)
from callgrove.cli.verbs.gate import FORMATS, GROUPINGS, MOST_ROWS, GateOptions, add_gate, check_sides, run_gate
from callgrove.cli.verbs.report import add_page, check_page, write_comparison
from callgrove.cli.verbs.scaling.model import parse_point

if TYPE_CHECKING:
    from callgrove.analysis.comparison import Comparison
    from callgrove.model.experiment import Experiment
    from callgrove.model.metrics import Metrics
    from callgrove.model.study.series import Study

COMPUTES = re.compile(r"[*/^+`$@]| - |\w\(|^-")  # what formulas have and names of metrics have not
SCOPES = ("exclusive", "inclusive", "point", "function", "lexical")
SORTS = ("difference", "ratio", "left", "right", "loss", "path")
ONLY = ("both", "left", "right")
SCALINGS = ("weak", "strong")


@dataclass(frozen=True, kw_only=True)
class Options(GateOptions, ResultOptions, MatchingOptions, SelectionOptions, TableOutput):
    scope: str
    source: bool
    flat: bool
    sort: str
    only: str
    scales: str
    processes: Sequence[int] | None
    match: str | None
    write: str | None
    report: str | None
    title: str
    max_size: int
    models: bool
    at: dict[str, float] | None

    @property
    def files(self) -> Mapping[str, str | None]:
        """The files to write, by option."""
        return {"-o": self.output, "--report": self.report}

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
    parser.add_argument(
        "--sort",
        choices=SORTS,
        default="difference",
        help="what comes first: the largest difference (default), the ratio farthest from 1, the largest left or right "
        "value, the largest loss; or paths by name",
    )
    parser.add_argument("--only", choices=ONLY, default="", help="only what both sides have, or one of them alone")
    parser.add_argument(
        "--models",
        action="store_true",
        help="compare the scaling models of two studies: functions, predictions, where they cross",
    )
    parser.add_argument("--at", type=parse_point, metavar="P=4096", help="the point at which --models compares them")
    parser.add_argument(
        "--value",
        dest="scaling",
        choices=VALUES_OF_RUNS,
        default="",
        help="of folders of runs over parameters: what a value of a run is (default: the sum over it)",
    )
    _add_scaling(parser)
    add_table_output(parser, formats=FORMATS, limit=MOST_ROWS, where=True)
    parser.add_argument("--write", metavar="OUT", help="write an experiment of the differences instead of a table")
    add_matching(parser, groupings=GROUPINGS)
    parser.add_argument(
        "--match",
        metavar="FILE",
        help="names that mean the same: two in each line, of the first input and of the others, as CSV or with a tab",
    )
    add_target(parser)
    page = parser.add_argument_group("page")
    page.add_argument("--report", metavar="FILE", help="write a page of HTML instead of a table, like change.html")
    add_page(page)
    add_gate(parser)


def _add_scaling(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("scaling")
    group.add_argument(
        "--scaling",
        dest="scales",
        choices=SCALINGS,
        default="",
        help="also show loss, speed-up and efficiency: of a problem that grows with the processes (weak) or stays the "
        "same (strong)",
    )
    group.add_argument(
        "--processes",
        metavar="P,Q",
        type=_process_counts,
        help="how many processes each input ran on, where that cannot be read off it",
    )


def _process_counts(text: str) -> list[int]:
    """Parse one number of processes for each input."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdigit() and int(word) for word in words):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers of processes like 4,8")
    return [int(word) for word in words]


def run(options: Options) -> int:
    from callgrove.cli.comparing import are_studies
    from callgrove.cli.opening import open_any
    from callgrove.errors import UsageError

    check_sides(options)
    _check_page(options)
    if options.has_sides:
        _refuse_beside_sides(options)
        return run_gate(options)
    if options.write:
        refuse_result(options.write, options.paths, options)
        _refuse_of_tables(options)
    else:
        _refuse_of_writing(options)
    options = replace(options, limit=MOST_ROWS) if options.limit == UNSAID else options
    opened = [open_any(replace(options, paths=[path])) for path in options.paths]
    if not options.write and not options.report and are_studies(opened):
        return _compare_studies(opened, options)
    if options.models or options.at or options.scaling:
        only = "--models, --at and --value are for studies: files of series, or folders of runs over parameters"
        raise UsageError(only)
    inputs = [_require_experiment(one, path, options) for one, path in zip(opened, options.paths, strict=True)]
    if options.write:
        return _write(inputs, options.write, options)
    return _compare_experiments(inputs, options)


def _refuse_beside_sides(options: Options) -> None:
    """Refuse options that a comparison of repetitions does not have, rather than to ignore them."""
    from callgrove.errors import UsageError

    given = {
        "--sort": options.sort != "difference",
        "--only": options.only,
        "--scaling": options.scales,
        "--processes": options.processes,
        "--match": options.match,
        "--models": options.models,
        "--at": options.at,
        "--value": options.scaling,
        "--flat with --by path": options.flat and options.by == "path",
        **_list_of_writing(options),
    }
    if unfit := [flag for flag, is_given in given.items() if is_given]:
        raise UsageError(f"{unfit[0]} cannot be used with --left and --right, which compare repetitions")


def _require_experiment(opened: Experiment | Study, path: str, options: Options) -> Experiment:
    """Return an input that is not a study."""
    from callgrove.errors import UsageError
    from callgrove.model.experiment import Experiment

    if isinstance(opened, Experiment):
        return opened
    if options.write:
        raise UsageError(f"{path}: holds series over parameters; differences of these are shown, and not written")
    if options.report:
        raise UsageError(f"{path}: holds series over parameters; these are compared in tables, and have no page")
    raise UsageError(f"{path}: holds series over parameters; compare it with another study, or a folder of runs")


def _compare_studies(opened: Sequence[Experiment | Study], options: Options) -> int:
    from callgrove.analysis.comparison.studies import StudyQuestion, compare_studies
    from callgrove.cli.comparing import compare_study_models, make_studies, show_models, show_studies
    from callgrove.cli.opening import say_damage_met
    from callgrove.errors import UsageError
    from callgrove.model.experiment import Experiment
    from callgrove.model.study.from_runs import describe_values

    given = {
        "--scaling": options.scales,
        "--flat": options.flat,
        "--source": options.source,
        "--match": options.match,
        "--rank": options.rank,
        "--thread": options.thread,
    }
    if unfit := [flag for flag, is_given in given.items() if is_given]:
        raise UsageError(f"{unfit[0]} is not for series over parameters; --run compares single runs of folders")
    if options.models or options.at:
        unfit = [flag for flag, given in (("--sort", options.sort != "difference"), ("--only", options.only)) if given]
        if unfit:
            raise UsageError(f"{unfit[0]} is not for models, which are sorted by their difference at the point")
    studies = make_studies(opened, options.metric, options.scope, options.scaling)
    of_runs = next((study for study in studies if describe_values(study)), studies[0])
    if options.models or options.at:
        show_models(compare_study_models(studies, options.metric, options.at), of_runs, options)
    else:
        asked = StudyQuestion(options.metric, options.sort, options.only)
        show_studies(compare_studies(studies, asked), of_runs, options)
    for one in opened:
        if isinstance(one, Experiment):
            say_damage_met(one, options)
    return 0


def _check_page(options: Options) -> None:
    """Refuse what a page of a comparison does not know; it shows both scopes of everything, in any order."""
    from callgrove.errors import UsageError

    if not options.report:
        if options.title:
            raise UsageError("--title is that of a page; --report names it")
        return
    check_page(options.report)
    given = {
        "--left and --right": options.has_sides,
        "--write": options.write,
        "--sort": options.sort != "difference",
        "--only": options.only,
        "--scope": options.scope != "exclusive",
        "--where": options.where,
        "--limit": options.limit not in (UNSAID, None),
        "--format": options.format != "table",
        "-o": options.output,
    }
    if unused := [flag for flag, is_given in given.items() if is_given]:
        raise UsageError(f"{unused[0]} is for tables, and --report writes a page; leave one of them out")


def _refuse_of_tables(options: Options) -> None:
    """Refuse options of tables where an experiment is written."""
    from callgrove.errors import UsageError

    given = {
        "--sort": options.sort != "difference",
        "--only": options.only,
        "--scaling": options.scales,
        "--processes": options.processes,
        "--flat": options.flat,
        "--match": options.match,
        "--source": options.source,
        "--scope": options.scope != "exclusive",
        "--where": options.where,
        "--limit": options.limit != UNSAID,
        "--format": options.given_format,
        "-o": options.output,
    }
    if unused := [flag for flag, is_given in given.items() if is_given]:
        raise UsageError(f"{unused[0]} is for tables, and --write writes an experiment; leave one of them out")


def _list_of_writing(options: Options) -> dict[str, object]:
    """Return options of written experiments, and whether each was given."""
    return {
        "--ignore": options.ignore,
        "--system": options.system != "union",
        "--to": options.to,
        "--dialect": options.dialect,
        "--force": options.force,
    }


def _refuse_of_writing(options: Options) -> None:
    """Refuse options of written experiments where a table is printed: it compares call paths by their names."""
    from callgrove.errors import UsageError

    given = {**_list_of_writing(options), "--by": options.by != "place"}
    if unused := [flag for flag, is_given in given.items() if is_given]:
        raise UsageError(f"{unused[0]} is for experiments that --write writes; tables compare call paths by name")


def _compare_experiments(inputs: list[Experiment], options: Options) -> int:
    from callgrove.analysis.comparison import Question, compare
    from callgrove.cli.comparing import MOST_TOTALS, say_comparison, show_comparison
    from callgrove.cli.opening import say_damage_met
    from callgrove.cli.output import say_selected_cost
    from callgrove.model.metrics import Scope

    sides = _choose_sides(inputs, options)
    comparison = compare(
        sides,
        Question(
            *(options.metric, Scope(options.scope), options.rank, options.thread, options.source, options.flat),
            *(options.sort, options.only, options.scales, options.processes, options.match),
        ),
    )
    _refuse_unused(comparison, sides, options)
    comparison.require_common()
    named = zip(sides, comparison.metrics, comparison.short_names, strict=True)
    for side, metric, name in islice(named, MOST_TOTALS + 1):
        say_selected_cost(side, metric, name)
    if options.report:
        say_comparison(comparison)
        write_comparison(comparison, options.report, options.title, options.max_size, options)
        return 0
    show_comparison(comparison, options)
    for experiment in inputs:
        say_damage_met(experiment, options)
    return 0


def _refuse_unused(comparison: Comparison, sides: list[Experiment], options: Options) -> None:
    """Refuse metrics of --derive that the table does not show: it has one metric, and those that are computed from
    others."""
    from callgrove.errors import UsageError
    from callgrove.model.definitions import find_defined_name

    used = {
        name
        for side, metric in zip(sides, comparison.metrics, strict=True)
        for name in side.metrics.with_operands([metric])
    }
    if unused := [name for name in map(find_defined_name, options.derive) if name not in used]:
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
    from callgrove.cli.output import say_selected_cost
    from callgrove.errors import UsageError

    if len(inputs) != 2:
        raise UsageError(f"--write makes an experiment of two inputs, and {len(inputs)} were given")
    inputs = [_choose_what_is_written(one, options) for one in inputs]
    for one in inputs:
        say_selected_cost(one, options.metric, one.path)
    made = diff(*inputs, ignore=options.ignore, by=options.by, system=options.system)
    return write_result(made, inputs, target, options)


def _choose_what_is_written(experiment: Experiment, options: Options) -> Experiment:
    """Return the ranks, threads and metric of an input that were asked for."""
    metrics = None if options.metric is None else [experiment.metrics.resolve(options.metric)]
    if metrics is None and options.rank is None and options.thread is None:
        return experiment
    return experiment.select(ranks=options.rank, threads=options.thread, metrics=metrics, drop_unused=False)


DIFF = Command(Options, add_arguments, run)
