"""`callgrove cut`: a call tree with other roots, or without some calls."""

from __future__ import annotations

import argparse

from callgrove.cli.options import add_run
from callgrove.cli.results import add_inputs, add_target, open_all, split_target, write_result

TEXTS = "a name, a call path like main->solve, or a /pattern/; may be given several times"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_inputs(parser, "PATH OUT", "the input, then the file or folder to write")
    add_run(parser)
    parser.add_argument("--root", metavar="CALLPATH", action="append", default=[], help=f"keep what is below: {TEXTS}")
    parser.add_argument("--prune", metavar="CALLPATH", action="append", default=[], help=f"remove calls of: {TEXTS}")
    add_target(parser)


def run(args: argparse.Namespace) -> int:
    from callgrove.algebra.cutting import cut

    paths, target = split_target(args, 1, most=1)
    inputs = open_all(args, paths)
    return write_result(cut(inputs[0], roots=args.root, prunes=args.prune), inputs, target, args)
