"""`callgrove summary`: what a traced run did, and how busy its devices were."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from callgrove.cli.contexts import add_contexts
from callgrove.cli.options import (
    UNSAID,
    InputOptions,
    ProfileOptions,
    TableOutput,
    add_input,
    add_profiles,
    add_run,
    add_table_output,
    add_window,
    workers_for,
)
from callgrove.cli.output import emit, emit_each, filter_rows
from callgrove.cli.parser import Command
from callgrove.errors import count_of

if TYPE_CHECKING:
    from callgrove.analysis.summary_sections import By, Summary
    from callgrove.model.experiment import Experiment
    from callgrove.model.table import Column, Table
    from callgrove.model.traces.events import Window
    from callgrove.model.traces.windows import TimeWindow

SECTIONS = (
    *("kernels", "copies", "api", "sync", "allocations", "markers", "regions", "overhead"),
    *("counters", "busy", "overlap", "gaps", "longest-gaps", "latency", "memory", "messages", "collectives"),
)
DIVISIONS = ("rank", "agent", "stream", "domain", "marker")
OF_MESSAGES = ("communicator", "tag")  # what messages can be divided by
MODES = ("inside", "touch", "clip")
WORK = ("callgrove.analysis.summary_parts", "callgrove.formats.gpu.formats")  # what workers run, as a rule
FOR_PEOPLE = 20  # rows of each section that a table shows; data for programs are whole
MUCH_DAMAGE = 0.01  # share of spans that are flagged


@dataclass(frozen=True, kw_only=True)
class Options(InputOptions, ProfileOptions, TableOutput):
    section: Sequence[str]
    by: Sequence[str]
    columns: str | None
    ignore_digits: bool
    start: str
    start_marker: str
    end: str
    end_marker: str
    window: TimeWindow | None
    window_mode: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_input(parser, many=True)
    group = parser.add_argument_group("selection")
    group.add_argument(
        "--section", action="append", default=[], choices=SECTIONS, help="only this section; may be repeated"
    )
    group.add_argument(
        "--by",
        action="append",
        default=[],
        choices=(*DIVISIONS, *OF_MESSAGES),
        help="divide rows by this; may be repeated",
    )
    group.add_argument(
        "--columns", choices=DIVISIONS, help="total times side by side: a column for each rank, agent, ..."
    )
    add_profiles(group)
    add_run(group)
    add_contexts(parser)
    group.add_argument(
        "--ignore-digits",
        action="store_true",
        help="treat names that differ only in digits as one: step 1, step 2 -> step #",
    )
    window = parser.add_argument_group("window of time")
    for side, word in (("start", "from"), ("end", "until")):
        time = "since the start, like 250ms or 10%% (plain numbers: ns); @N: ns of the traces' own clock"
        one = window.add_mutually_exclusive_group()
        one.add_argument(f"--{side}", metavar="TIME", default="", help=f"{word} this time {time}")
        which = "first" if side == "start" else "last"
        one.add_argument(f"--{side}-marker", metavar="NAME", default="", help=f"{word} the {which} marker of that name")
    add_window(window, "both in one")
    window.add_argument(
        "--window-mode",
        choices=MODES,
        default=MODES[0],
        help="count spans that lie inside (default), that touch the window, or the parts of spans inside it (clip)",
    )
    window.add_argument(
        "--inclusive",
        dest="window_mode",
        type=_inclusive,
        metavar="true|false",
        help="the same in rocprofv3's words: true is inside, false is touch",
    )
    add_table_output(parser, per_section=FOR_PEOPLE, where=True)


def _inclusive(text: str) -> str:
    words = {"true": MODES[0], "false": MODES[1]}
    if text.lower() not in words:
        raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")
    return words[text.lower()]


def run(options: Options) -> int:
    from callgrove.algebra.selecting import choose_spans, refuse_no_spans
    from callgrove.analysis.messages import sum_up_messages
    from callgrove.analysis.summary import memory_peaks, sections_of, summarise, table, tables
    from callgrove.analysis.summary_sections import By, WindowMode
    from callgrove.cli.messages import note
    from callgrove.cli.opening import open_experiment, say_added_up, say_damage_met, say_new_damage
    from callgrove.errors import UsageError
    from callgrove.model.profiles import choose_profiles

    if options.where and options.columns:
        raise UsageError("--where chooses among rows of all sections, --columns has a table for each: leave out one")
    with workers_for(options, options.paths, WORK) as workers:
        whole = open_experiment(replace(options, contexts=()), fold=False, workers=workers)
        experiment = choose_spans(whole, options.selection) if options.contexts else whole
        if experiment.profiles.n_runs > 1 and experiment.traces.n_spans:  # counting spans takes a look at every file
            say_added_up(experiment)
        window = choose_window(experiment, options)
        by_spans, by_messages = _split_divisions(options.by)
        profiles = choose_profiles(experiment, options.rank, options.thread)
        by, mode, sections = (
            [By(word) for word in dict.fromkeys((*by_spans, *filter(None, [options.columns])))],
            WindowMode(options.window_mode),
            options.section or SECTIONS,
        )
        summary = summarise(experiment, by, window, mode, profiles, workers, sections, options.ignore_digits)
    if options.contexts and whole.traces.n_spans and not summary.n_read:
        refuse_no_spans(whole, options.selection)
    if "memory" in options.section:  # it takes all events once more
        summary.memory = memory_peaks(experiment, profiles, window)
    if not {"messages", "collectives"}.isdisjoint(sections) and not options.contexts:  # which are not spans
        summary.messages = sum_up_messages(experiment, by_messages, profiles, window)
    limit = (FOR_PEOPLE if options.is_for_people else None) if options.limit == UNSAID else options.limit
    if options.where:
        _emit_rows(table(summary, sections), options)
    elif options.columns:
        _print_side_by_side(summary, sections, By(options.columns), limit, options)
    elif options.is_for_people:
        emit_each((_format_for_people(made) for made in tables(summary, sections, limit)), options)
    else:
        emit(table(summary, sections, limit), replace(options, limit=None))  # it counts in every section
    say_new_damage(experiment, summary.damage)
    for asked, names in summary.find_undivided(sections_of(summary, sections)).items():
        if asked == options.columns:
            continue
        note(f"{' and '.join(names)} cannot be divided by {asked.value}: these rows cover all of them")
    for text in _describe_quality(summary, experiment, bool(options.contexts)):
        note(text)
    return say_damage_met(experiment, options)


def _split_divisions(by: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return what divides spans, and what divides messages."""
    return [word for word in by if word not in OF_MESSAGES], [word for word in by if word in OF_MESSAGES]


def _emit_rows(made: Table, options: Options) -> None:
    """Print the rows of all sections that fulfil --where as one table."""
    kept = filter_rows(made, options)
    limit = None if options.limit == UNSAID else options.limit
    emit(_format_for_people(kept) if options.is_for_people else kept, replace(options, limit=limit))


def _print_side_by_side(
    summary: Summary, sections: Sequence[str], columns: By, limit: int | None, options: Options
) -> None:
    from callgrove.analysis.spread.summary_columns import find_left_out, side_by_side, sides_by_section
    from callgrove.cli.messages import note

    if options.is_for_people:
        sides = sides_by_section(summary, sections, columns, limit)
        emit_each((_format_side(section, made, columns, options) for section, made in sides), options)
    else:
        emit(side_by_side(summary, sections, columns, limit), replace(options, limit=None))
    if left_out := find_left_out(summary, sections, columns):
        note(f"left out, as there are no total times by {columns.value}: {', '.join(left_out)}")


def _format_side(section: str, made: Table, columns: By, options: Options) -> Table:
    """Return the table of a section for people: as many columns as fit, and all of them as a strip."""
    from callgrove.cli.spread_tables import fit_beside

    shown = _format_for_people(made)
    n_beside = sum(name.endswith("_ns") and name != "total_ns" for name in made.names)
    first, *rest = shown.columns
    named = [replace(first, name=section), *rest]
    at = len(named) - n_beside
    return fit_beside(named[:at], named[at:], made.columns[at:], f"{columns.value}s", made.left, options)


def choose_window(experiment: Experiment, options: Options) -> Window | None:
    """Return the window of time that was asked for, in ns; None where none was."""
    from callgrove.errors import UsageError
    from callgrove.model.selection import time_span
    from callgrove.model.traces.windows import TimeWindow, marker_window

    times = options.start or options.end
    if not (times or options.start_marker or options.end_marker or options.window):
        return None
    if times and options.window:
        raise UsageError("--window gives both ends; leave out --start and --end")
    span = time_span(experiment.traces)
    if span is None:
        raise UsageError(f"{experiment.path}: has no traces, so there is no window of time to choose")
    try:
        asked = options.window or TimeWindow.parse(f"{options.start}:{options.end}")
    except UsageError:
        raise UsageError(
            f"--start {options.start} --end {options.end}: times are like 250ms, 10%, 1000 (ns) or @1000"
        ) from None
    window = asked.of(span)
    if options.start_marker or options.end_marker:
        window = marker_window(experiment, options.start_marker, options.end_marker, window)
    if window[0] >= window[1]:
        raise UsageError(f"{experiment.path}: the window from {window[0]} to {window[1]} ns is empty")
    return window


def _format_for_people(made: Table) -> Table:
    """Return the table with units at times, sizes and shares."""
    from dataclasses import replace

    from callgrove.render.text_formats import Amounts, Identifier
    from callgrove.render.units import percent, si

    def write_number(name: str, value: float) -> str:
        if name == "start_ns":
            return f"@{value}"  # as --start takes it
        if name.endswith("_ns"):
            return si(value / 1e9, "s")
        if name.endswith("percent"):
            return percent(value / 100)
        return si(value, "bytes") + ("/s" if name.endswith("per_second") else "")

    columns: list[Column] = []
    for column in made.columns:
        if column.name.endswith(("_ns", "percent")) or column.name.endswith(("bytes", "bytes_per_second")):
            cells = [None if cell is None else write_number(column.name, cell) for cell in column.plain()]
            columns.append(Amounts(column.name.removesuffix("_ns"), cells))
        elif column.name in (*DIVISIONS, *OF_MESSAGES, "sender", "receiver"):
            columns.append(Identifier(column.name, column.values, column.absent))
        else:
            columns.append(column)
    return replace(made, columns=tuple(columns))


def _describe_quality(summary: Summary, experiment: Experiment, is_part: bool) -> list[str]:
    """Return what a reader of the table should know about the data."""
    from callgrove.model.runs import describe_runs

    if not summary.n_read and not experiment.traces.n_spans:
        if experiment.runs[0].parameters or len(experiment.runs) > 1:
            which = f"--run chooses one of {len(experiment.runs)}: {describe_runs(experiment.runs)}"
            return [f"{experiment.path}: holds several runs, and a summary shows the events of one; {which}"]
        nothing = "has no events with a start and an end, which a summary is made of; `callgrove info` says what it has"
        return [f"{experiment.path}: {nothing}"]
    counts = f"{count_of(summary.n_read, 'span')} read, {summary.n_shown:,} shown, {summary.n_flagged:,} flagged"
    calls = "calls that launched operations only where they were chosen"
    notes = [f"{counts}, {calls if is_part else f'{summary.n_unlinked:,} operations without a launching call'}"]
    if summary.n_flagged > MUCH_DAMAGE * summary.n_read:
        share = 100 * summary.n_flagged / summary.n_read
        notes.append(
            f"data quality: {share:.1f}% of the spans end before they start, or have times that no clock shows; "
            "they are in no sum"
        )
    return notes


SUMMARY = Command(Options, add_arguments, run)
