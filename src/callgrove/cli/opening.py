"""Opening what a user names, and saying what is wrong with it.

Damage and notes (clocks that differ, a database that is still written, ...) are said on stderr before anything is
printed, whichever verb asks; damage met while printing, after it. Under --strict the first damage is refused (exit
code 3) and the second makes the result incomplete (exit code 4).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from callgrove.binary.files import Source
from callgrove.cli.contexts import select_asked
from callgrove.cli.messages import ProgressCallback, note, progress, say_unexplained
from callgrove.cli.options import CostOptions, InputOptions, MetricNames, ProfileOptions, SelectionOptions, engine_for
from callgrove.errors import CallgroveError, IncompleteResult, InputError, UsageError, compose_text
from callgrove.execute import Workers, executor_when_needed
from callgrove.formats.interface import ReadOptions
from callgrove.formats.registry import entry_of, find_entry, format_using, load, open_paths, settle_format
from callgrove.model.experiment import Experiment, InputWarning, Severity
from callgrove.model.runs import PARAMETERS_DIFFER

if TYPE_CHECKING:
    from callgrove.model.study.series import Study
    from callgrove.model.traces.windows import TimeWindow

__all__ = [
    "as_study",
    "group_paths",
    "open_any",
    "open_experiment",
    "open_study",
    "say_added_up",
    "say_damage_met",
    "say_new_damage",
    "say_run_values",
]

WORK = ("callgrove.formats.gpu.formats", "callgrove.model.traces.profile_from_spans")  # what processes run
NOT_SHOWN_AS_COSTS = ("lost: values of scope lexical", "samples of contexts")  # what selections say of other parts
MOST_NOTES = 5  # damage of one kind tends to come in thousands


def open_any(
    options: InputOptions,
    *,
    notes: bool = True,
    series: bool = False,
    fold: bool = True,
    contexts: bool = True,
    workers: Workers | None = None,
    watch: ProgressCallback | None = None,
) -> Experiment | Study:
    """Open the experiment or study at PATH, or the runs of --point. `notes`: say what there is to know about it; not
    for a verb that prints all of that. `series`: refuse runs whose names disagree on parameters, as nothing but series
    of them is wanted. `fold`: of events, make a calling-context profile as well. `contexts`: heed the options that
    choose places and contexts. `workers`: those that the verb has; else there are processes as the user says, once
    there is something for them to do. `watch`: hears of progress, beside the terminal."""
    window = options.window if contexts and isinstance(options, SelectionOptions) else None
    fold = fold and window is None  # costs of a window are made of events later
    opened = _choose_runs(_open_input(options, fold, workers, watch), options, fold, workers)
    if window is not None:
        opened = _cut_time(opened, window, options)
    opened = _derive(_remap(opened, options), options)
    if contexts:
        opened = _select(opened, options)
    if series and isinstance(opened, Experiment) and (why := opened.attributes.get(PARAMETERS_DIFFER)):
        raise InputError(f"{opened.path}: {why}")
    damage = [w for w in opened.warnings if w.severity == Severity.DAMAGE]
    _say_damage([w.text for w in damage])
    if options.strict and damage:
        raise InputError(
            f"{options.input_name}: is damaged, and --strict refuses that; `callgrove check` lists all damage"
        )
    if notes:
        _say_notes(_select_notes(opened.warnings) if isinstance(opened, Experiment) else opened.warnings)
    return opened


def group_paths(paths: Sequence[str], from_format: str) -> list[list[str]]:
    """Return paths in groups that are opened as one each: those of one format that opens many as one, and each other
    path by itself. What is not recognised goes with such a set, which says so of one of many, and goes on."""
    if from_format:
        load(from_format)
    if len(paths) == 1:
        return [[*paths]]
    groups: dict[str, list[str]] = {}
    strange: list[str] = []
    for number, path in enumerate(paths):
        name = from_format or _detect_format(path)
        key = name if name and entry_of(name).opens_many else f"#{number}"
        groups.setdefault(key, []).append(path)
        if not name:
            strange.append(key)
    known = next((key for key in groups if not key.startswith("#")), None)
    for key in strange if known else []:
        groups[known or ""] += groups.pop(key)
    return list(groups.values())


def _detect_format(path: str) -> str:
    """Return the format of a path, by content; empty where it is not recognised, which opening it will say."""
    try:
        return settle_format(Source.of(path))[0].name
    except CallgroveError:
        return ""


def _choose_runs(
    opened: Experiment | Study, options: InputOptions, fold: bool, workers: Workers | None
) -> Experiment | Study:
    """Return the part of an input that --run chooses. One run of a folder is opened by itself, so that it is what
    naming it gives, with its traces and its own columns; a format that opens many databases as one has chosen
    already."""
    from callgrove.model.runs import choose_runs

    if options.run is None:
        return opened
    if not isinstance(opened, Experiment):
        raise UsageError(f"{options.input_name}: holds series over parameters, not runs, so there is none to choose")
    entry = find_entry(opened.format)
    if entry is not None and entry.opens_many:
        return opened
    try:
        numbers = choose_runs(opened.runs, options.run)
    except UsageError as error:
        raise UsageError(f"{options.input_name}: ", error) from None
    sources = {opened.runs[number].source for number in numbers}
    if len(numbers) == 1 and entry is not None and entry.holds_inputs and (source := sources.pop()):
        alone = replace(options, paths=[source], points=(), folder_pattern="", points_file="", run=None)
        return _open_input(alone, fold, workers)
    if len(numbers) == len(opened.runs):
        return opened
    from callgrove.algebra.cutting import part

    return part(opened, runs=numbers)


def _remap(opened: Experiment | Study, options: InputOptions) -> Experiment | Study:
    """Return an input with the tree of metrics that --remap and similar options ask for."""
    if not (options.remap or options.spec or options.idle_threads):
        return opened
    if not isinstance(opened, Experiment):
        raise UsageError(f"{options.input_name}: holds series over parameters, whose metrics have no contexts to remap")
    return opened.remap(options.spec or None, idle_threads=options.idle_threads)


def _derive(opened: Experiment | Study, options: InputOptions) -> Experiment | Study:
    """Return an input with the metrics that --derive defines, and those that texts of -m define."""
    named = options.metric_texts if isinstance(options, MetricNames) else ()
    if not isinstance(opened, Experiment):
        formulas = [text for text in named if "=" in text and text not in opened.metrics]
        if options.derive or formulas:
            option = "--derive" if options.derive else "-m"
            raise UsageError(f"{options.input_name}: {option}: is a study of series; formulas need the metrics of runs")
        return opened
    if options.derive:
        opened = _define(opened, "--derive", *options.derive)
    for text in named:
        if "=" in text and isinstance(options, MetricNames) and options.defines(opened.metrics, text):
            opened = _define(opened, "-m", text)
    return opened


def _cut_time(opened: Experiment | Study, window: TimeWindow, options: InputOptions) -> Experiment:
    """Return an input with the costs and events of a window of time."""
    from callgrove.algebra.window_costs import costs_in_window
    from callgrove.model.selection import choose_window
    from callgrove.render.units import duration_ns

    if not isinstance(opened, Experiment):
        raise UsageError(f"{options.input_name}: is a study of series, which has no traces to take a window of")
    bounds = choose_window(opened, window, "", "", duration_ns, f"--window {window}")
    assert bounds is not None
    return costs_in_window(opened, bounds)


def _select(opened: Experiment | Study, options: InputOptions) -> Experiment | Study:
    """Return the places and contexts of an input that were asked for."""
    if not options.contexts and not options.asks_places and options.rest == "path":
        return opened
    if not isinstance(opened, Experiment):
        raise UsageError(f"{options.input_name}: is a study of series, which has no contexts or places to choose")
    ranks, threads = (options.rank, options.thread) if isinstance(options, ProfileOptions) else (None, None)
    part = select_asked(opened, options, ranks, threads)
    if not isinstance(options, CostOptions):
        return part
    told = tuple(w for w in part.warnings if w in opened.warnings or not w.text.startswith(NOT_SHOWN_AS_COSTS))
    return replace(part, warnings=told)


def _define(experiment: Experiment, option: str, *texts: str) -> Experiment:
    from callgrove.model.definitions import with_metric

    try:
        return with_metric(experiment, *texts)
    except UsageError as error:
        raise UsageError(f"{option}: ", error) from None


def say_added_up(experiment: Experiment) -> None:
    """Say where costs of several runs are added up, which is rarely what somebody wants to see."""
    n_runs = experiment.profiles.n_runs
    if n_runs > 1:
        note(f"note: {n_runs} runs are added up; --run chooses one, `callgrove diff` compares them")


def _select_notes(warnings: Iterable[InputWarning]) -> list[InputWarning]:
    """Return the warnings to say with every result; those about missing parts are said with the results that need
    them."""
    return [warning for warning in warnings if warning.severity == Severity.NOTE]


def _open_input(
    options: InputOptions, fold: bool, workers: Workers | None, watch: ProgressCallback | None = None
) -> Experiment | Study:
    paths, points = options.paths, options.points
    if bool(points) == bool(paths):
        wrong = "PATH and --point are both given: name one of them, not both" if points else "PATH is missing"
        raise UsageError(f"{wrong}; see 'callgrove --help'")
    if "-" in options.inputs:
        raise UsageError("-: inputs cannot be read from a pipe, as they are not read in order; save this one to a file")
    with progress() as shown, _workers(options, workers) as ready:

        def report(label: str, done: int, total: int | None) -> None:
            shown(label, done, total)
            if watch is not None:
                watch(label, done, total)

        how = _read_options(options, report, fold, ready)
        if options.extrap_compat:
            return _open_as_extra_p(options, how)
        if points:
            from callgrove.formats.runs import open_points

            return open_points([(point, path) for point, path in points], options.from_format, how)
        by_name = format_using("folder_pattern") if how.folder_pattern or how.points_file else ""
        return open_paths(paths, options.from_format or by_name, how)


def _read_options(options: InputOptions, report: ProgressCallback, fold: bool, workers: Workers) -> ReadOptions:
    return ReadOptions(
        options.salvage,
        report,
        options.strict,
        options.folder_pattern,
        options.points_file,
        fold=fold,
        rank_env=options.rank_env,
        align=options.align,
        kernel_names=options.kernel_names,
        extrap_compat=options.extrap_compat,
        run=options.run or "",
        workers=workers,
    )


def _workers(options: InputOptions, workers: Workers | None) -> AbstractContextManager[Workers]:
    if (ready := workers or options.workers) is not None:
        return nullcontext(ready)
    return executor_when_needed(lambda: engine_for(options, options.inputs), WORK)


def _open_as_extra_p(options: InputOptions, how: ReadOptions) -> Experiment | Study:
    """Open Nsight exports as Extra-P reads them; only their format can be read in this way."""
    name = format_using("extrap_compat")
    if not options.paths or options.scaling or options.from_format not in ("", name):
        raise UsageError(
            "--extrap-compat reads a PATH of Nsight exports, without --point, --value, --scaling or another --from"
        )
    return open_paths(options.paths, name, how)


def open_experiment(options: InputOptions, *, fold: bool = True, workers: Workers | None = None) -> Experiment:
    """Return the experiment at PATH; a study is refused with a hint."""
    opened = open_any(options, fold=fold, workers=workers)
    if not isinstance(opened, Experiment):
        raise UsageError(
            f"{options.input_name}: holds series over parameters, not an execution; "
            "use `callgrove model`, or `callgrove export --table series`"
        )
    return opened


def open_study(options: InputOptions) -> Study:
    """Return the study at PATH: one that is stored, or the runs of an experiment folded as --scaling and --inclusive
    say."""
    study = as_study(open_any(options, series=True), options)
    say_unexplained(study.unexplained)
    if study.unexplained and options.strict:
        raise IncompleteResult(f"{options.input_name}: the study does not hold all that the runs have")
    return study


def as_study(opened: Experiment | Study, options: InputOptions) -> Study:
    """Return a study as it is, and an experiment as a study of its runs over their parameters."""
    from callgrove.model.study.fill_missing_points import series_of

    if not isinstance(opened, Experiment):
        if options.scaling:
            note(f"{options.input_name}: holds series already, which --value and --scaling do not change")
        return opened
    named = _name_derived(opened, options)
    with progress() as report:
        study = series_of(opened, options.scaling, options.study_scope, report, options.input_name, named)
    whole = f"{opened.path}: "  # what is missing in single runs is not said
    known = {w for w in opened.warnings if w.severity == Severity.NOTE or not w.text.startswith(whole)}
    for warning in study.warnings:  # `check` knows nothing of them: a few, whatever they are about
        if warning not in known:
            note(compose_text(f"{warning.severity.value}: ", warning.text))
    return study


def say_run_values(study: Study, options: InputOptions) -> None:
    """Say what a value of a run is, where no table does."""
    from callgrove.model.study.from_runs import describe_values

    if described := describe_values(study):
        note(f"a value of a run is {described}{'' if options.scaling else '; --value chooses another'}")


def _name_derived(experiment: Experiment, options: InputOptions) -> list[str]:
    """Return the derived metrics that -m names. A text that names nothing is refused where series are chosen."""
    names = []
    for text in options.metric_texts if isinstance(options, MetricNames) else ():
        with suppress(UsageError):
            names.append(experiment.metrics.resolve(text))
    return [name for name in names if name in experiment.metrics.derived]


def say_damage_met(experiment: Experiment, options: InputOptions, printed: bool = True) -> int:
    """Say after printing which damage was met on the way, and return the exit code. Where nothing was printed because
    of damage, that is an error."""
    met = experiment.damage_met
    if not printed and (met or experiment.damage):
        raise met[0] if met else InputError(experiment.damage[0].text)
    if not printed:
        for warning in experiment.warnings:
            if warning.severity == Severity.MISSING:  # which may be why
                note(warning.text)
    _say_damage(problem.message for problem in met)
    if met and options.strict:
        raise IncompleteResult(f"{options.input_name}: printed without what is damaged")
    return 0


def say_new_damage(experiment: Experiment, met: Iterable[str]) -> None:
    """Say the damage that showed only when events were read."""
    known = {warning.text for warning in experiment.warnings}
    _say_damage([text for text in dict.fromkeys(met) if text not in known])


def _say_damage(texts: Iterable[str]) -> None:
    lines = list(texts)
    for text in lines[:MOST_NOTES]:
        note(compose_text("damaged: ", text))
    if len(lines) > MOST_NOTES:
        note(f"damaged: {len(lines) - MOST_NOTES} more places; `callgrove check` lists every one")


def _say_notes(warnings: Sequence[InputWarning]) -> None:
    """Say the first notes and missing parts, and how many more there are."""
    others = [w for w in warnings if w.severity != Severity.DAMAGE]
    for warning in others[:MOST_NOTES]:
        note(compose_text(f"{warning.severity.value}: ", warning.text))
    if len(others) > MOST_NOTES:
        note(f"{len(others) - MOST_NOTES} more notes; `callgrove check` lists every one")
