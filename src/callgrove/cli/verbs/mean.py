"""`callgrove mean`: the mean of several experiments."""

from __future__ import annotations

import argparse

from callgrove.cli.options import add_run
from callgrove.cli.results import add_inputs, add_matching, add_target, open_all, split_target, write_result


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


def run(args: argparse.Namespace) -> int:
    from callgrove.algebra.operations import mean

    paths, target = split_target(args, 2)
    inputs = open_all(args, paths)
    made = mean(*inputs, missing=args.missing, ignore=args.ignore, by=args.by, system=args.system)
    return write_result(made, inputs, target, args)
