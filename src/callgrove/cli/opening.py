"""Opening what a user names, and saying what is wrong with it.

Damage and notes (clocks that differ, a database that is still written, ...) are said on stderr before anything is
printed, whichever verb asks; damage met while printing, after it. Under --strict the first damage is refused (exit
code 3) and the second makes the result incomplete (exit code 4).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from callgrove.cli.messages import note, say_unexplained
from callgrove.cli.options import engine_for
from callgrove.cli.progress import progress
from callgrove.errors import IncompleteResult, InputError, UsageError, worded
from callgrove.execute import IN_PROCESS, Workers, executor_when_needed
from callgrove.formats.interface import ReadOptions
from callgrove.formats.registry import find_entry, format_using, open_paths
from callgrove.model.experiment import Experiment, InputWarning, Severity
from callgrove.model.runs import PARAMETERS_DIFFER

if TYPE_CHECKING:
    from callgrove.model.study.series import Study

__all__ = [
    "as_study",
    "inputs",
    "name_of_input",
    "open_any",
    "open_experiment",
    "open_study",
    "said_damage",
    "said_everything",
    "say_added_up",
]

WORK = ("callgrove.formats.gpu.formats", "callgrove.model.traces.profile_from_spans")  # what processes run
MOST_NOTES = 5  # damage of one kind tends to come in thousands


def open_any(args: argparse.Namespace, *, notes: bool = True, series: bool = False) -> Experiment | Study:
    """Open the experiment or study at PATH, or the runs of --point. `notes`: say what there is to know about it; not
    for a verb that prints all of that. `series`: refuse runs whose names disagree on parameters, as nothing but series
    of them is wanted."""
    opened = _choose_runs(_open_input(args), args)
    if series and isinstance(opened, Experiment) and (why := opened.attributes.get(PARAMETERS_DIFFER)):
        raise InputError(f"{opened.path}: {why}")
    damage = [w for w in opened.warnings if w.severity == Severity.DAMAGE]
    _say([w.text for w in damage])
    if args.strict and damage:
        raise InputError(
            f"{name_of_input(args)}: is damaged, and --strict refuses that; `callgrove check` lists every damage"
        )
    if notes:
        _say_all(_notes(opened.warnings) if isinstance(opened, Experiment) else opened.warnings)
    return opened


def _choose_runs(opened: Experiment | Study, args: argparse.Namespace) -> Experiment | Study:
    """What of an input --run chooses. One run of a folder is opened by itself, so that it is what naming it gives, with
    its traces and its own columns; whoever opens many databases as one has chosen among them already."""
    from callgrove.model.runs import choose_runs

    wanted = getattr(args, "run", None)
    if wanted is None:
        return opened
    if not isinstance(opened, Experiment):
        raise UsageError(f"{name_of_input(args)}: holds series over parameters, not runs, so there is none to choose")
    entry = find_entry(opened.format)
    if entry is not None and entry.opens_many:
        return opened
    try:
        numbers = choose_runs(opened.runs, wanted)
    except UsageError as error:
        raise UsageError(f"{name_of_input(args)}: ", error) from None
    sources = {opened.runs[number].source for number in numbers}
    if len(numbers) == 1 and entry is not None and entry.holds_inputs and (source := sources.pop()):
        alone = {"path": source, "points": None, "folder_pattern": "", "points_file": "", "run": None}
        return _open_input(argparse.Namespace(**{**vars(args), **alone}))
    if len(numbers) == len(opened.runs):
        return opened
    from callgrove.algebra.cutting import part

    return part(opened, runs=numbers)


def say_added_up(experiment: Experiment) -> None:
    """Say where costs of several runs are added up, which is rarely what somebody wants to see."""
    n_runs = experiment.profiles.n_runs
    if n_runs > 1:
        note(f"note: {n_runs} runs are added up; --run chooses one, `callgrove diff` compares them")


def _notes(warnings: Iterable[InputWarning]) -> list[InputWarning]:
    """What is to be known about every result; what is missing shows in those that need it."""
    return [warning for warning in warnings if warning.severity == Severity.NOTE]


def _open_input(args: argparse.Namespace) -> Experiment | Study:
    points, paths = _points(args), _paths(args)
    if bool(points) == bool(paths):
        wanted = "either PATH or --point, not both" if points else "a PATH"
        raise UsageError(f"name {wanted}; see --help")
    if "-" in inputs(args):
        raise UsageError("-: inputs are read here and there, which a pipe does not allow; save it to a file")
    with progress() as report, _workers(args) as workers:
        options = ReadOptions(
            args.salvage,
            report,
            args.strict,
            getattr(args, "folder_pattern", ""),
            getattr(args, "points_file", ""),
            fold=getattr(args, "fold", True),
            rank_env=getattr(args, "rank_env", ""),
            align=getattr(args, "align", ""),
            kernel_names=getattr(args, "kernel_names", ""),
            extrap_compat=getattr(args, "extrap_compat", False),
            run=getattr(args, "run", None) or "",
            workers=workers,
        )
        if options.extrap_compat:
            return _as_extra_p(paths, args, options)
        if points:
            from callgrove.formats.runs.folder import open_points

            return open_points([(point, path) for point, path in points], args.from_format or "", options)
        by_name = format_using("folder_pattern") if options.folder_pattern or options.points_file else ""
        return open_paths(paths, args.from_format or by_name, options)


def _workers(args: argparse.Namespace) -> AbstractContextManager[Workers]:
    """Those that the verb has; else processes as the user says, once there is something for them to do."""
    if "workers" in args:
        return nullcontext(args.workers)
    if "jobs" not in args:
        return nullcontext(IN_PROCESS)
    return executor_when_needed(lambda: engine_for(args, inputs(args)), WORK)


def _as_extra_p(paths: Sequence[str], args: argparse.Namespace, options: ReadOptions) -> Experiment | Study:
    """Nsight exports as Extra-P reads them: it alone has such a way of reading."""
    name = format_using("extrap_compat")
    if not paths or args.scaling or args.from_format not in (None, name):
        raise UsageError("--extrap-compat reads a PATH of Nsight exports: no --point, no --scaling, no other --from")
    return open_paths(paths, name, options)


def _points(args: argparse.Namespace) -> list[list[str]]:
    return getattr(args, "points", None) or []


def _paths(args: argparse.Namespace) -> list[str]:
    """PATH, or PATH... where a verb takes several."""
    one = getattr(args, "path", None)
    return [one] if one is not None else list(getattr(args, "paths", None) or [])


def inputs(args: argparse.Namespace) -> list[str]:
    """Every path that is read."""
    return _paths(args) + [run for _, run in _points(args)]


def name_of_input(args: argparse.Namespace) -> str:
    """How messages call the input."""
    first, *more = inputs(args)
    return f"{first} and {len(more)} more" if more else first


def open_experiment(args: argparse.Namespace) -> Experiment:
    """The experiment at PATH; a study is refused with a hint."""
    opened = open_any(args)
    if not isinstance(opened, Experiment):
        raise UsageError(
            f"{name_of_input(args)}: holds series over parameters, not an execution; "
            "use `callgrove model`, or `callgrove export --table series`"
        )
    return opened


def open_study(args: argparse.Namespace) -> Study:
    """The study at PATH: one that is stored, or the runs of an experiment folded as --scaling and --inclusive say."""
    study = as_study(open_any(args, series=True), args)
    say_unexplained(study.unexplained)
    if study.unexplained and args.strict:
        raise IncompleteResult(f"{name_of_input(args)}: the study does not hold all that the runs have")
    return study


def as_study(opened: Experiment | Study, args: argparse.Namespace) -> Study:
    """A study as it is; of an experiment, its runs over their parameters."""
    from callgrove.model.study.fill_missing_points import series_of
    from callgrove.model.study.from_runs import Combination, combination_for

    if not isinstance(opened, Experiment):
        if args.scaling:
            note(f"{name_of_input(args)}: holds series already, which --scaling does not change")
        return opened
    combination = combination_for(opened, args.scaling or "")
    if combination is Combination.DEVICE and not args.scaling:
        note(
            "note: of these GPU runs, values are added up on every device, and on the host in every process, and are "
            "means over these; --scaling strong adds up all, --scaling weak counts every thread and stream"
        )
    with progress() as report:
        study = series_of(opened, args.scaling or "", args.study_scope, report, name_of_input(args))
    whole = f"{opened.path}: "  # what is missing in single runs is not said
    known = {w for w in opened.warnings if w.severity == Severity.NOTE or not w.text.startswith(whole)}
    for warning in study.warnings:  # `check` knows nothing of them: a few, whatever they are about
        if warning not in known:
            note(worded(f"{warning.severity.value}: ", warning.text))
    return study


def said_everything(experiment: Experiment, args: argparse.Namespace, printed: bool = True) -> int:
    """The exit code after printing: damage met on the way is said; nothing printed because of damage is an error."""
    met = experiment.damage_met
    if not printed and (met or experiment.damage):
        raise met[0] if met else InputError(experiment.damage[0].text)
    if not printed:
        for warning in experiment.warnings:
            if warning.severity == Severity.MISSING:  # which may be why
                note(warning.text)
    _say(problem.message for problem in met)
    if met and args.strict:
        raise IncompleteResult(f"{name_of_input(args)}: printed without what is damaged")
    return 0


def said_damage(experiment: Experiment, met: Iterable[str]) -> None:
    """Damage that showed only when events were read."""
    known = {warning.text for warning in experiment.warnings}
    _say([text for text in dict.fromkeys(met) if text not in known])


def _say(texts: Iterable[str]) -> None:
    lines = list(texts)
    for text in lines[:MOST_NOTES]:
        note(worded("damaged: ", text))
    if len(lines) > MOST_NOTES:
        note(f"damaged: {len(lines) - MOST_NOTES} more places; `callgrove check` lists every one")


def _say_all(warnings: Sequence[InputWarning]) -> None:
    """What is to be known beyond damage."""
    others = [w for w in warnings if w.severity != Severity.DAMAGE]
    for warning in others[:MOST_NOTES]:
        note(worded(f"{warning.severity.value}: ", warning.text))
    if len(others) > MOST_NOTES:
        note(f"{len(others) - MOST_NOTES} more notes; `callgrove check` lists every one")
