"""`callgrove common`: several experiments on the call tree that all of them have."""

from __future__ import annotations

import argparse

from callgrove.cli.options import add_run
from callgrove.cli.results import add_inputs, add_matching, add_target, open_all, split_target, write_result


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


def run(args: argparse.Namespace) -> int:
    from callgrove.algebra.cutting import common

    paths, target = split_target(args, 2)
    inputs = open_all(args, paths)
    made = common(*inputs, ignore=args.ignore, by=args.by, fold_visits=args.fold_visits)
    return write_result(made, inputs, target, args)
