"""`callgrove merge`: several experiments as one."""

from __future__ import annotations

import argparse

from callgrove.cli.results import add_inputs, add_matching, add_target, open_all, split_target, write_result

CONFLICTS = ("error", "first", "last", "sum")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_inputs(parser, "PATH", "two or more inputs, then the file or folder to write")
    parser.add_argument(
        "--conflict",
        choices=CONFLICTS,
        default="error",
        help="whose value counts where several inputs have one in the same place (default: error, if they differ)",
    )
    add_matching(parser)
    add_target(parser)


def run(args: argparse.Namespace) -> int:
    from callgrove.algebra.operations import merge

    paths, target = split_target(args, 2)
    inputs = open_all(args, paths)
    made = merge(*inputs, conflict=args.conflict, ignore=args.ignore, by=args.by, system=args.system)
    return write_result(made, inputs, target, args)
