"""`callgrove cut`: a call tree with other roots, or without some calls."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from callgrove.cli.options import add_run
from callgrove.cli.parser import Command
from callgrove.cli.results import ResultOptions, add_inputs, add_target, open_inputs, write_result

TEXTS = "a name, a call path like main->solve, or a /pattern/; may be given several times"


@dataclass(frozen=True, kw_only=True)
class Options(ResultOptions):
    root: Sequence[str]
    prune: Sequence[str]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_inputs(parser, "PATH OUT", "the input, then the file or folder to write")
    add_run(parser)
    parser.add_argument("--root", metavar="CALLPATH", action="append", default=[], help=f"keep what is below: {TEXTS}")
    parser.add_argument("--prune", metavar="CALLPATH", action="append", default=[], help=f"remove calls of: {TEXTS}")
    add_target(parser)


def run(options: Options) -> int:
    from callgrove.algebra.cutting import cut

    inputs, target = open_inputs(options, least=1, most=1)
    return write_result(cut(inputs[0], roots=options.root, prunes=options.prune), inputs, target, options)


COMMAND = Command(Options, add_arguments, run)
