"""`callgrove explore`: an experiment, or two of them, in an interactive terminal."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING

from callgrove.cli.options import InputOptions, SelectionOptions, add_input, add_remap, add_selection
from callgrove.cli.parser import Command
from callgrove.errors import MissingExtra, UsageError

if TYPE_CHECKING:
    from callgrove.model.experiment import Experiment
    from callgrove.model.metrics import Metrics

MOST_INPUTS = 2


@dataclass(frozen=True, kw_only=True)
class Options(InputOptions, SelectionOptions):
    def defines(self, metrics: Metrics, text: str) -> bool:
        """Return whether -m defines a metric; of two inputs, LEFT=RIGHT names one of each."""
        from callgrove.cli.verbs.diff import names_two_metrics

        defines = super().defines(metrics, text)
        return defines and (len(self.paths) < MOST_INPUTS or not names_two_metrics(metrics, text))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_input(parser, many=True, waits=True)
    add_selection(parser)
    add_remap(parser)


def run(options: Options) -> int:
    from callgrove.cli.opening import say_damage_met
    from callgrove.cli.output import stdout_look

    _refuse(options)
    experiments = [_open(replace(options, paths=[path])) for path in options.paths]
    from callgrove.explore.app import ExploreApp
    from callgrove.explore.session import Session

    session = Session.of(experiments, options.metric)
    session.list("tree")  # where nothing has a cost, that is said before a screen opens
    app = ExploreApp(session, unicode=stdout_look().unicode)
    app.run()
    return max(say_damage_met(experiment, options) for experiment in experiments) or app.return_code or 0


def is_terminal() -> bool:
    """Return whether somebody sees what is drawn, which textual does on stderr, and can press keys."""
    return all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))


def _refuse(options: Options) -> None:
    """Raise what stands in the way before anything is read."""
    if len(options.paths) > MOST_INPUTS:
        raise UsageError(f"explore shows one input, or two and their difference, not {len(options.paths)}")
    if not is_terminal():
        raise UsageError("explore needs a terminal; `callgrove tree` prints the call tree to a pipe or a file")
    if find_spec("textual") is None:
        raise MissingExtra("explore", "explore")


def _open(options: Options) -> Experiment:
    from callgrove.cli.opening import open_experiment, say_added_up

    experiment = open_experiment(options)
    say_added_up(experiment)
    if (options.rank or options.thread) and not (options.contexts or options.asks_places):
        return experiment.select(ranks=options.rank, threads=options.thread)
    return experiment


EXPLORE = Command(Options, add_arguments, run)
