"""Opening what a user names, and saying what is wrong with it.

Damage is said on stderr before anything is printed; damage met while printing, after it. Under --strict the first
is refused (exit code 3) and the second makes the result incomplete (exit code 4).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from callgrove.cli.messages import note
from callgrove.cli.progress import progress
from callgrove.errors import CallgroveError, IncompleteResult, InputError, UsageError
from callgrove.formats.interface import ReadOptions
from callgrove.formats.registry import open_path
from callgrove.model.experiment import Experiment, Severity
from callgrove.model.study import Study

__all__ = ["open_any", "open_experiment", "said_everything"]

MOST_NOTES = 5  # damage of one kind tends to come in thousands


def open_any(args: argparse.Namespace) -> Experiment | Study:
    """The experiment or study at PATH."""
    with progress() as report:
        opened = open_path(args.path, args.from_format or "", ReadOptions(args.salvage, report))
    if isinstance(opened, Experiment):
        _say([w.text for w in opened.damage])
        if args.strict and opened.damage:
            raise InputError(
                f"{args.path}: is damaged, and --strict refuses that; `callgrove check` lists every damage"
            )
    return opened


def open_experiment(args: argparse.Namespace) -> Experiment:
    """The experiment at PATH; a study is refused with a hint."""
    opened = open_any(args)
    if isinstance(opened, Study):
        raise UsageError(
            f"{args.path}: holds series over parameters, not an execution; use `callgrove export --table series`"
        )
    return opened


def said_everything(experiment: Experiment, args: argparse.Namespace, printed: bool = True) -> int:
    """The exit code after printing: damage met on the way is said; nothing printed because of damage is an error."""
    met: list[CallgroveError] = list(experiment.values.problems)
    if experiment.traces.samples is not None:
        known = {w.text for w in experiment.damage}
        met += [p for p in experiment.traces.samples.problems if str(p) not in known]
    if not printed and (met or experiment.damage):
        raise met[0] if met else InputError(experiment.damage[0].text)
    if not printed:
        for warning in experiment.warnings:
            if warning.severity == Severity.MISSING:  # which may be why
                note(warning.text)
    _say(map(str, met))
    if met and args.strict:
        raise IncompleteResult(f"{args.path}: printed without what is damaged")
    return 0


def _say(texts: Iterable[str]) -> None:
    lines = list(texts)
    for text in lines[:MOST_NOTES]:
        note(f"damaged: {text}")
    if len(lines) > MOST_NOTES:
        note(f"damaged: {len(lines) - MOST_NOTES} more places; `callgrove check` lists every one")
