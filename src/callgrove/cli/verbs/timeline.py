"""`callgrove timeline`: what went on in a window of time, exactly; a picture of it, and the phases that repeat."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from callgrove.cli.contexts import add_contexts
from callgrove.cli.options import (
    UNSAID,
    InputOptions,
    MetricNames,
    ProfileOptions,
    TableOutput,
    add_input,
    add_profiles,
    add_run,
    add_table_output,
    add_window,
)
from callgrove.cli.output import emit, emit_drawn, filter_rows, stdout_look
from callgrove.cli.parser import Command
from callgrove.errors import UsageError, count_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from callgrove.analysis.timeline.dominant import DominantTime
    from callgrove.analysis.timeline.statistics import Question, Timeline
    from callgrove.model.experiment import Experiment
    from callgrove.model.table import Column, Table
    from callgrove.model.traces.events import Window
    from callgrove.model.traces.windows import TimeWindow

DIVISIONS = ("name", "profile", "rank", "thread", "node", "kind", "class", "context", "depth")
FOR_PEOPLE = 20  # rows that a table shows; data for programs are whole
PICTURES = (".svg", ".png", ".pdf")
MOMENTS = {"from_ns": "from", "first_ns": "first at", "slowest_ns": "slowest at"}
LARGEST = 1 << 24  # of depths and bins
LINES_ON_TERMINAL, LINES_OF_FILE, COLUMNS_OF_FILE = 24, 64, 990


@dataclass(frozen=True, kw_only=True)
class Options(InputOptions, MetricNames, ProfileOptions, TableOutput):
    window: TimeWindow | None
    by: Sequence[str]
    kind: Sequence[str] | None
    metric: str | None
    depth: int | None
    exclusive: bool
    bins: int | None
    classes: str
    phases: bool
    ignore_digits: bool
    picture: bool
    svg: str | None

    @property
    def metric_texts(self) -> Sequence[str]:
        """What was given to name metrics."""
        return [] if self.metric is None else [self.metric]

    @property
    def files(self) -> Mapping[str, str | None]:
        """The files to write, by option."""
        return {"-o": self.output, "--svg": self.svg}

    @property
    def inputs(self) -> list[str]:
        """Every path that is read."""
        return [*super().inputs, *([self.classes] if self.classes else [])]

    @property
    def format(self) -> str:
        """That of the table, if there is one: a picture is not a format of it."""
        return self.given_format or self.formats[0] if self.draws_only else super().format

    @property
    def draws_only(self) -> bool:
        """Whether -o FILE is a picture instead of a table."""
        return self.output is not None and self.output.lower().endswith(PICTURES)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_input(parser, many=True)
    group = parser.add_argument_group("selection")
    add_window(group, "only this part of traces")
    group.add_argument("--kind", metavar="LIST", type=_words, help="only functions and spans of these kinds")
    group.add_argument("-m", "--metric", metavar="NAME", help="lines of samples that follow this metric")
    add_profiles(group)
    add_run(group)
    add_contexts(parser, kinds=False)
    rows = parser.add_argument_group("rows")
    rows.add_argument(
        "--by",
        action="append",
        default=[],
        choices=DIVISIONS,
        help="what tells rows apart; may be repeated (default: name)",
    )
    rows.add_argument(
        "--depth", metavar="N", type=_count, help="take the N-th function from the root; a shorter stack: its last"
    )
    rows.add_argument(
        "--exclusive", action="store_true", help="of spans that nest, give each moment to the innermost one only"
    )
    rows.add_argument("--bins", metavar="N", type=_count, help="divide the window into N parts, with a row for each")
    rows.add_argument(
        "--classes",
        metavar="FILE",
        default="",
        help="a pattern of names and a class on each line: 'halo_* communication'",
    )
    rows.add_argument(
        "--phases",
        action="store_true",
        help="list sequences of names that repeat, such as iterations of a loop, instead; --depth says of which depth",
    )
    rows.add_argument(
        "--ignore-digits", action="store_true", help="of --phases: names that differ only in digits are one"
    )
    add_table_output(parser, per_section=FOR_PEOPLE, where=True)
    drawing = parser.add_argument_group("picture")
    drawing.add_argument("--picture", action="store_true", help="draw the window above the table, as on a terminal")
    drawing.add_argument("--svg", metavar="FILE", help="also draw the window to this file: svg, png or pdf")


def _words(text: str) -> list[str]:
    return [word.strip().lower() for word in text.split(",")]


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= LARGEST:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {LARGEST:,}")
    return int(text)


def run(options: Options) -> int:
    from callgrove.cli.messages import note
    from callgrove.cli.opening import open_experiment, say_added_up, say_damage_met, say_new_damage
    from callgrove.model.experiment import Severity
    from callgrove.model.traces.events import FindsLater

    experiment = open_experiment(options, fold=False)
    say_added_up(experiment)
    question = _ask(experiment, options)
    show = _print_phases if options.phases else _print_timeline
    for text in show(experiment, question, options):
        note(text)
    backend = experiment.traces.spans_backend
    if isinstance(backend, FindsLater):
        say_new_damage(experiment, [w.text for w in backend.warnings if w.severity == Severity.DAMAGE])
    return say_damage_met(experiment, options)


def _ask(experiment: Experiment, options: Options) -> Question:
    from callgrove.analysis.timeline.items import read_rules
    from callgrove.analysis.timeline.statistics import Question, choose_window
    from callgrove.model.profiles import choose_profiles
    from callgrove.render.units import duration_ns

    return Question(
        choose_window(experiment, options.window, duration_ns, f"--window {options.window}"),
        tuple(dict.fromkeys(options.by)) or ("name",),
        choose_profiles(experiment, options.rank, options.thread),
        None if options.kind is None else tuple(options.kind),
        options.depth,
        options.exclusive,
        options.bins,
        read_rules(options.classes or None),
        options.metric,
    )


# -- statistics --------------------------------------------------------------------------------------------------------


def _print_timeline(experiment: Experiment, question: Question, options: Options) -> list[str]:
    """Print the table and the pictures; return what is said about them."""
    from callgrove.analysis.timeline.statistics import measure

    if options.draws_only and (options.given_format or options.svg):
        other = "--svg" if options.svg else f"--format {options.given_format}"
        raise UsageError(f"-o {options.output} draws a picture instead of a table; leave out {other}, or -o")
    if options.ignore_digits:
        raise UsageError("--ignore-digits is about names in --phases; name both, or leave it out")
    by_file = options.output if options.draws_only else options.svg
    for file in [by_file] if by_file else []:
        _refuse_picture(file)
    on_terminal = _draw_on_terminal(experiment, question, options)
    in_file = _make_grid(experiment, question, COLUMNS_OF_FILE, LINES_OF_FILE) if by_file else None
    timeline = measure(experiment, question, [one for one in (on_terminal, in_file) if one is not None])
    if on_terminal is not None:
        from callgrove.render.trace_picture import block_picture

        emit_drawn([*block_picture(on_terminal.grid(), stdout_look()), "\n"], None)
    if in_file is not None and by_file:
        _write_picture(in_file, by_file, experiment)
    if not options.draws_only:
        _emit(timeline.table(), experiment, timeline.window, options)
    return [_describe(timeline), *timeline.notes(), *_describe_efficiency(timeline, bool(options.contexts))]


def _draw_on_terminal(experiment: Experiment, question: Question, options: Options) -> DominantTime | None:
    import sys

    wanted = options.picture or (sys.stdout.isatty() and options.bins is None)
    if not wanted or options.output or options.format != "table":
        if options.picture:
            raise UsageError("--picture is drawn above a table on stdout; -o FILE.svg draws one to a file")
        return None
    from callgrove.render.trace_picture import columns_for

    return _make_grid(experiment, question, columns_for(stdout_look().width), LINES_ON_TERMINAL)


def _make_grid(experiment: Experiment, question: Question, n_columns: int, n_lines: int) -> DominantTime:
    from callgrove.analysis.timeline.dominant import DominantTime
    from callgrove.render.trace_picture import MOST_NAMES

    return DominantTime(experiment, "class" if "class" in question.by else "name", n_columns, n_lines, MOST_NAMES)


def _refuse_picture(file: str) -> None:
    from callgrove.render.plots import picture_format

    picture_format(file)


def _write_picture(grid: DominantTime, file: str, experiment: Experiment) -> None:
    from pathlib import Path

    from callgrove.cli.output import replacing
    from callgrove.render.plots import draw_svg, picture_format
    from callgrove.render.trace_picture import svg_picture

    content = draw_svg(svg_picture(grid.grid(), experiment.title or experiment.path), picture_format(file))
    with replacing(Path(file)) as path:
        path.write_bytes(content)


def _describe(timeline: Timeline) -> str:
    """Return the window, and what all profiles did in it."""
    from callgrove.render.units import duration_ns, percent

    survey = timeline.survey
    shares = ", ".join(f"{word} {percent(share)}" for word, share in timeline.describe_shares())
    n = int(survey.has_trace.sum())
    whose = count_of(n, "profile")
    return f"{duration_ns(timeline.length_ns)} from @{timeline.window[0]} on, {whose}: {shares or 'no time'}"


def _describe_efficiency(timeline: Timeline, is_part: bool) -> list[str]:
    """Return POP's communication efficiency, or why it is not known; it is that of whole programs."""
    from callgrove.render.units import percent

    share, why = timeline.communication_efficiency()
    if share is not None and is_part:
        share, why = None, "not known: what was not selected reads as idle"
    if share is None:
        return [f"communication efficiency: {why}"] if why else []
    return [f"communication efficiency {percent(share)}: the largest computation of a thread, of the window"]


def _format_for_people(table: Table, experiment: Experiment, window: Window) -> Table:
    """Return the table with units at times, moments since the window begins, and names of profiles."""
    from callgrove.analysis.timeline.dominant import name_profile
    from callgrove.model.table import Column
    from callgrove.render.text_formats import Amounts, Identifier
    from callgrove.render.units import percent, si

    columns: list[Column] = []
    for column in table.columns:
        cells = column.plain()
        if column.name in _said_already(table):
            continue
        if column.name in MOMENTS:
            columns.append(Amounts(MOMENTS[column.name], [si((cell - window[0]) / 1e9, "s") for cell in cells]))
        elif column.name.endswith("_ns"):
            columns.append(Amounts(column.name.removesuffix("_ns"), [si(cell / 1e9, "s") for cell in cells]))
        elif column.name == "percent":
            columns.append(Amounts("percent", ["" if cell is None else percent(cell / 100) for cell in cells]))
        elif column.name == "profile":
            columns.append(Column("profile", [f"{p} {name_profile(experiment, p)}" for p in cells]))
        elif column.name in ("rank", "thread", "node", "context", "depth"):
            columns.append(Identifier(column.name, column.values, column.absent))
        else:
            columns.append(column)
    return replace(table, columns=tuple(columns))


def _said_already(table: Table) -> set[str]:
    """Return the columns that say nothing new: classes where they are the names of rows, ranks of phases."""
    if "phase" in table.names:
        return {"rank", "thread"}
    if "class" not in table.names:
        return set()
    rows = zip(table["name"], table["class"], strict=True)
    return {"class"} if all(klass in (None, name) for name, klass in rows) else set()


# -- phases ------------------------------------------------------------------------------------------------------------


def _print_phases(experiment: Experiment, question: Question, options: Options) -> list[str]:
    """Print the table of phases; return what is said about it."""
    from callgrove.analysis.timeline.phases import phases

    given = {
        "--by": options.by,
        "--bins": options.bins,
        "--picture": options.picture,
        "--svg": options.svg,
        "--exclusive": options.exclusive,
        "--classes": options.classes,
    }
    for word, value in given.items():
        if value:
            raise UsageError(f"--phases lists patterns, which {word} says nothing about; leave out one of the two")
    if options.draws_only:
        raise UsageError(f"{options.output}: --phases lists patterns and draws nothing; name a file like phases.csv")
    table, window = phases(experiment, question, options.ignore_digits)
    if len(table) or options.format != "table":
        _emit(table, experiment, window, options)
    return list(table.notes)


def _emit(table: Table, experiment: Experiment, window: Window, options: Options) -> None:
    limit = (FOR_PEOPLE if options.is_for_people else None) if options.limit == UNSAID else options.limit
    rows = filter_rows(table, options)
    shown = _format_for_people(rows, experiment, window) if options.format == "table" else rows
    emit(shown, replace(options, limit=limit))


TIMELINE = Command(Options, add_arguments, run)
