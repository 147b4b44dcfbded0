"""`callgrove view`: a page in a browser, fed by a server on this machine that only its user can ask."""

from __future__ import annotations

import argparse
import os
import re
import sys
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING

from callgrove.cli.options import InputOptions, SelectionOptions, add_remap, add_selection, add_study_input
from callgrove.cli.parser import Command
from callgrove.errors import MissingExtra, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from callgrove.model.experiment import Experiment
    from callgrove.model.study.series import Study
    from callgrove.viewer.page import Choice
    from callgrove.viewer.server.inputs import Input, Progress
    from callgrove.viewer.server.running import Viewer

DURATION = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)\s*(s|min|h|d)", re.ASCII)
SECONDS = {"s": 1, "min": 60, "h": 3_600, "d": 86_400}
HIGHEST_PORT = 65_535
HOST = re.compile(r"[A-Za-z0-9.-]{1,253}", re.ASCII)
GRACE_S = 1.0  # an input that cannot be opened mostly says so at once: then there is nothing to look at


@dataclass(frozen=True, kw_only=True)
class Options(InputOptions, SelectionOptions):
    port: int
    browser: bool
    idle: float
    hosts: list[str]


def port(text: str) -> int:
    """Parse the number of a port."""
    if not (text.isascii() and text.isdigit()) or int(text) > HIGHEST_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: a number up to {HIGHEST_PORT}, or 0 for any")
    return int(text)


def duration(text: str) -> float:
    """Parse a time in seconds: 90s, 30min, 8h, 2d."""
    number_and_unit = DURATION.fullmatch(text.strip())
    if number_and_unit is None or not float(number_and_unit[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is no time like 30min or 8h")
    return float(number_and_unit[1]) * SECONDS[number_and_unit[2]]


def host(text: str) -> str:
    """Parse the name of a host."""
    if not HOST.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no name of a host like hub.example.org")
    return text.lower()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_study_input(parser, many=True)
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


def run(options: Options) -> int:
    from callgrove.cli.messages import note, with_flags

    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        raise MissingExtra("viewer", "view")
    from callgrove.viewer.server.running import Viewer

    inputs = list(_list_inputs(options))
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


def _demand_any(inputs: list[Input]) -> None:
    """Raise the first error where no input could be opened."""
    errors = [one.error for one in inputs if one.settled.is_set() and one.error is not None]
    if len(errors) == len(inputs):
        raise errors[0]


def _list_inputs(options: Options) -> Iterator[Input]:
    """Yield all paths as one input where their format takes several, else each by itself."""
    from callgrove.binary.files import Source
    from callgrove.cli.messages import with_flags
    from callgrove.formats.registry import settle_format
    from callgrove.viewer.server.inputs import Input, Wanted

    parts = [options]
    if len(options.paths) > 1:
        try:
            settle_format(Source.of_all(options.paths), options.from_format)
        except UsageError:
            parts = [replace(options, paths=[path]) for path in options.paths]
    if not options.inputs:
        raise UsageError("name a PATH; see --help")
    for part in parts:
        yield Input(Wanted(tuple(part.inputs), _opener(part), _choice(part)), with_flags)


def _choice(options: Options) -> Choice:
    from callgrove.model.metrics import Scope
    from callgrove.viewer.page import Choice

    return Choice(options.metric, scaling=options.scaling, scope=Scope(options.study_scope))


def _opener(options: Options) -> Callable[[Progress], Experiment | Study]:
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


VIEW = Command(Options, add_arguments, run)
