"""`callgrove common`: several experiments on the call tree that all of them have."""

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
    fold_visits: bool


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_inputs(parser, "PATH PATH... OUT", "two or more inputs, then the file or folder to write")
    add_run(parser)
    parser.add_argument(
        "--fold-visits",
        action="store_true",
        help="count visits of contexts that are left out as those of their callers",
    )
    add_matching(parser, systems=False)
    add_target(parser)


def run(options: Options) -> int:
    from callgrove.algebra.cutting import common

    inputs, target = open_inputs(options, least=2)
    made = common(*inputs, ignore=options.ignore, by=options.by, fold_visits=options.fold_visits)
    return write_result(made, inputs, target, options)


COMMAND = Command(Options, add_arguments, run)
