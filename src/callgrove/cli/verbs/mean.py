"""`callgrove mean`: the mean of several experiments."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from callgrove.cli.options import add_run
from callgrove.cli.parser import Command
from callgrove.cli.results import (
    MatchingOptions,
    ResultOptions,
    add_inputs,
    add_matching,
    add_target,
    open_inputs,
    write_result,
)


@dataclass(frozen=True, kw_only=True)
class Options(ResultOptions, MatchingOptions):
    missing: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_inputs(parser, "PATH PATH... OUT", "two or more inputs, then the file or folder to write")
    add_run(parser)
    parser.add_argument(
        "--missing",
        choices=("zero", "skip"),
        default="zero",
        help="divide by the number of inputs, or of those that have a value there (default: zero)",
    )
    add_matching(parser)
    add_target(parser)


def run(options: Options) -> int:
    from callgrove.algebra.operations import mean

    inputs, target = open_inputs(options, least=2)
    made = mean(*inputs, missing=options.missing, ignore=options.ignore, by=options.by, system=options.system)
    return write_result(made, inputs, target, options)


COMMAND = Command(Options, add_arguments, run)
