"""`callgrove part`: an experiment with some of its profiles only."""

from __future__ import annotations

import argparse

from callgrove.cli.options import add_run, int_set
from callgrove.cli.results import add_inputs, add_target, open_all, split_target, write_result


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_inputs(parser, "PATH OUT", "the input, then the file or folder to write")
    group = parser.add_argument_group("selection")
    for word, plural in (("rank", "ranks"), ("thread", "threads")):
        group.add_argument(f"--{word}", metavar="LIST", type=int_set, help=f"only these {plural}, like 0-3,7,13-")
    add_run(group)
    group.add_argument("--invert", action="store_true", help="all others instead")
    add_target(parser)


def run(args: argparse.Namespace) -> int:
    from callgrove.algebra.cutting import part
    from callgrove.errors import UsageError
    from callgrove.model.runs import choose_runs

    paths, target = split_target(args, 1, most=1)
    if args.rank is None and args.thread is None and args.run is None:
        raise UsageError("nothing is selected; choose with --rank, --thread or --run")
    runs, args.run = args.run, None  # a part of all, or all others: what is opened is the whole
    inputs = open_all(args, paths)
    numbers = None if runs is None else choose_runs(inputs[0].runs, runs)
    made = part(inputs[0], ranks=args.rank, threads=args.thread, runs=numbers, invert=args.invert)
    return write_result(made, inputs, target, args)
