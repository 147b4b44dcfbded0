"""`callgrove part`: an experiment with some of its profiles only."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from callgrove.cli.options import add_run, int_set
from callgrove.cli.parser import Command
from callgrove.cli.results import (
    ResultOptions,
    add_inputs,
    add_target,
    open_all,
    refuse_result,
    split_target,
    write_result,
)

if TYPE_CHECKING:
    from callgrove.model.runs import IntSet


@dataclass(frozen=True, kw_only=True)
class Options(ResultOptions):
    rank: IntSet | None
    thread: IntSet | None
    invert: bool


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_inputs(parser, "PATH OUT", "the input, then the file or folder to write")
    group = parser.add_argument_group("selection")
    for word, plural in (("rank", "ranks"), ("thread", "threads")):
        group.add_argument(f"--{word}", metavar="LIST", type=int_set, help=f"only these {plural}, like 0-3,7,13-")
    add_run(group)
    group.add_argument("--invert", action="store_true", help="all others instead")
    add_target(parser)


def run(options: Options) -> int:
    from callgrove.algebra.selecting import part
    from callgrove.errors import UsageError
    from callgrove.model.runs import choose_runs

    paths, target = split_target(options, least=1, most=1)
    refuse_result(target, paths, options)
    if options.rank is None and options.thread is None and options.run is None:
        raise UsageError("nothing is selected; choose with --rank, --thread or --run")
    inputs = open_all(replace(options, run=None), paths)  # the whole, of which a part or all others are wanted
    numbers = None if options.run is None else choose_runs(inputs[0].runs, options.run)
    made = part(inputs[0], ranks=options.rank, threads=options.thread, runs=numbers, invert=options.invert)
    return write_result(made, inputs, target, options)


COMMAND = Command(Options, add_arguments, run)
