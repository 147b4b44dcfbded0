"""`callgrove convert`: an experiment in another format."""

from __future__ import annotations

import argparse

from callgrove.cli.options import add_input


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_input(parser)
    parser.add_argument("target", metavar="OUT", help="the file or folder to write")
    parser.add_argument(
        "--to", required=True, metavar="FORMAT", help="the format to write ('callgrove formats' lists them)"
    )
    parser.add_argument("--force", action="store_true", help="replace OUT if it is there already")


def run(args: argparse.Namespace) -> int:
    """What the target cannot hold is said on stderr, one line each."""
    from pathlib import Path

    from callgrove.cli.messages import note
    from callgrove.cli.opening import open_experiment
    from callgrove.cli.progress import progress
    from callgrove.errors import IncompleteResult, UsageError
    from callgrove.formats.interface import WriteOptions
    from callgrove.formats.registry import writer_of
    from callgrove.formats.transfer import transfer

    target = writer_of(args.to)
    if Path(args.target).resolve() == Path(args.path).resolve():
        raise UsageError(f"{args.target}: is the input itself, which is never modified; name another OUT")
    experiment = open_experiment(args)
    with progress() as report:
        options = WriteOptions(overwrite=args.force, progress=report)
        lost = transfer(experiment, target.open_writer(Path(args.target), options), report)
    for loss in lost.losses:
        note(f"lost: {loss}")
    if experiment.values.problems and args.strict:
        raise IncompleteResult(f"{args.target}: was written without what is damaged in {args.path}")
    return 0
