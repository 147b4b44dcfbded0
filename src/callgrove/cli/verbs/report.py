"""`callgrove report` and `callgrove view`: pictures of an experiment, as one page to open, to mail or to keep with a CI
run, and as a page in a browser that asks a server on this machine, whom only its user can ask."""

from __future__ import annotations

import argparse
import os
import re
import sys
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeVar

from callgrove.cli.options import FileOutput, InputOptions, add_remap, add_selection, add_study_input
from callgrove.cli.pages import PageOptions, describe_input
from callgrove.cli.parser import Command
from callgrove.errors import MissingExtra, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from callgrove.analysis.comparison import Comparison
    from callgrove.model.experiment import Experiment
    from callgrove.model.study.series import Study
    from callgrove.viewer.page import Choice
    from callgrove.viewer.report import Input
    from callgrove.viewer.server.inputs import Input as ServedInput
    from callgrove.viewer.server.inputs import Progress
    from callgrove.viewer.server.running import Viewer

InputsAsked = TypeVar("InputsAsked", bound=InputOptions)

SIZE = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)\s*([kMG]?)B?", re.ASCII)
OTHER_ENDINGS = (".pdf", ".png", ".svg", ".jpg", ".jpeg", ".gif", ".csv", ".json", ".md", ".txt", ".xml", ".ipynb")
SIZES = {"": 1, "k": 1_000, "M": 1_000_000, "G": 1_000_000_000}


@dataclass(frozen=True, kw_only=True)
class Options(PageOptions, FileOutput):
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
    """Refuse names of files that are not pages."""
    from pathlib import PurePath

    if path == "-":
        raise UsageError("-: a page is written to a file; name it like report.html")

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
    """Yield the inputs: paths of a format that takes several are one, and each other path is one by itself."""
    from callgrove.cli.opening import open_any
    from callgrove.viewer.report import Input

    for part in _split_options(options):
        yield Input(open_any(part), part.inputs, describe_input(part))


def _split_options(options: InputsAsked) -> list[InputsAsked]:
    """Return the options for each of the inputs that are shown side by side."""
    from callgrove.cli.opening import group_paths

    if len(options.paths) < 2 or options.points:
        return [options]
    return [replace(options, paths=group) for group in group_paths(options.paths, options.from_format)]


REPORT = Command(Options, add_arguments, run)


# -- a page that asks a server -----------------------------------------------------------------------------------------


DURATION = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)\s*(s|min|h|d)", re.ASCII)
SECONDS = {"s": 1, "min": 60, "h": 3_600, "d": 86_400}
HIGHEST_PORT = 65_535
HOST = re.compile(r"[A-Za-z0-9.-]{1,253}", re.ASCII)
GRACE_S = 1.0  # an input that cannot be opened mostly says so at once: then there is nothing to look at


@dataclass(frozen=True, kw_only=True)
class ViewOptions(PageOptions):
    port: int
    browser: bool
    idle: float
    hosts: list[str]


def port(text: str) -> int:
    """Parse the number of a port."""
    if not (text.isascii() and text.isdigit()) or int(text) > HIGHEST_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: a number up to {HIGHEST_PORT}, or 0 for any")
    return int(text)


def duration(text: str) -> float:
    """Parse a time in seconds: 90s, 30min, 8h, 2d."""
    number_and_unit = DURATION.fullmatch(text.strip())
    if number_and_unit is None or not float(number_and_unit[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is not a time like 30min or 8h")
    return float(number_and_unit[1]) * SECONDS[number_and_unit[2]]


def host(text: str) -> str:
    """Parse the name of a host."""
    if not HOST.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a name of a host like hub.example.org")
    return text.lower()


def add_view_arguments(parser: argparse.ArgumentParser) -> None:
    add_study_input(parser, many=True, waits=True)
    add_selection(parser, "the metric to show first (default: the first one that is a time, else the first)")
    add_remap(parser)
    parser.add_argument("--port", metavar="N", type=port, default=0, help="the port to use (default: any that is free)")
    parser.add_argument(
        "--no-browser", dest="browser", action="store_false", help="print the address and start no browser"
    )
    parser.add_argument(
        "--idle", metavar="TIME", type=duration, default="8h", help="end when nobody asked for so long (default: 8h)"
    )
    parser.add_argument(
        "--allow-host",
        dest="hosts",
        metavar="NAME",
        type=host,
        action="append",
        default=[],
        help="a proxy through which the page is reached, such as the host of JupyterHub",
    )


def run_view(options: ViewOptions) -> int:
    from callgrove.cli.messages import note, with_flags

    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        raise MissingExtra("viewer", "view")
    from callgrove.viewer.server.running import Viewer

    inputs = list(_list_view_inputs(options))
    title = ", ".join(dict.fromkeys(one.name for one in inputs))
    viewer = Viewer(
        inputs, title, options.port, tuple(options.hosts), options.idle, lambda text: note(with_flags(text))
    )
    for one in inputs:
        one.start()
    for one in inputs:
        one.settled.wait(GRACE_S)
    _demand_any(inputs)
    try:
        viewer.run(lambda: _announce(viewer, options.browser))
    except KeyboardInterrupt as error:
        if type(error) is not KeyboardInterrupt:  # a signal that is no Ctrl-C
            raise
    _demand_any(inputs)
    note("the viewer has ended")
    return 0


def _demand_any(inputs: list[ServedInput]) -> None:
    """Raise the first error where no input could be opened."""
    errors = [one.error for one in inputs if one.has_failed and one.error is not None]
    if len(errors) == len(inputs):
        raise errors[0]


def _list_view_inputs(options: ViewOptions) -> Iterator[ServedInput]:
    """Yield the inputs: paths of a format that takes several are one, and each other path is one by itself."""
    from callgrove.cli.messages import with_flags
    from callgrove.viewer.server.inputs import Input, Wanted

    if not options.inputs:
        raise UsageError("PATH is missing; see 'callgrove view --help'")
    for part in _split_options(options):
        how = replace(part, port=0, browser=False, idle=0.0, hosts=[], metric=None)
        given = describe_input(part)
        yield Input(Wanted(tuple(part.inputs), _opener(part), _choice(part), repr(how), given), with_flags)


def _choice(options: ViewOptions) -> Choice:
    from callgrove.model.metrics import Scope
    from callgrove.viewer.page import Choice

    return Choice(options.metric, scaling=options.scaling, scope=Scope(options.study_scope))


def _opener(options: ViewOptions) -> Callable[[Progress], Experiment | Study]:
    """Return what opens an input, and takes the profiles of it that were asked for."""
    from callgrove.cli.opening import open_any
    from callgrove.model.experiment import Experiment as Opened

    def open_input(progress: Progress) -> Experiment | Study:
        opened = open_any(options, watch=progress)
        chosen = (options.rank or options.thread) and not (options.contexts or options.asks_places)
        if chosen and isinstance(opened, Opened):
            return opened.select(ranks=options.rank, threads=options.thread)
        return opened

    return open_input


def _announce(viewer: Viewer, browser: bool) -> None:
    """Print where the page is, and how to get there from elsewhere; open it where there is a screen."""
    import getpass
    import socket
    import webbrowser

    from callgrove.cli.messages import note
    from callgrove.viewer.server.running import find_proxy

    address = viewer.address
    print(address.url, flush=True)
    note("open this address in a browser on this machine; Ctrl-C ends the viewer")
    note(f"from another machine, first: {address.forwarding(getpass.getuser(), socket.gethostname())}")
    proxy = find_proxy(os.environ, address)
    if proxy is not None:
        note(f"through the proxy of this server: {proxy[1]}")
    if browser and _has_screen():
        webbrowser.open(address.url)


def _has_screen() -> bool:
    """Return whether a browser that is started here is seen by the user: not over ssh, nor without a display."""
    if os.environ.get("SSH_CONNECTION"):
        return False
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


VIEW = Command(ViewOptions, add_view_arguments, run_view)
