"""`callgrove convert`: an experiment, or a part of it, in another format."""

from __future__ import annotations

import argparse

from callgrove.cli.options import add_study_input
from callgrove.cli.selecting import add_cutting, cut, is_cut


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_study_input(parser, many=True)
    parser.add_argument("target", metavar="OUT", help="the file or folder to write")
    parser.add_argument("--to", metavar="FORMAT", help="the format to write (default: by the ending of OUT)")
    parser.add_argument("--dialect", default="", metavar="NAME", help="which variant of the format to write")
    parser.add_argument("--force", action="store_true", help="replace OUT if it is there already")
    add_cutting(parser)


def run(args: argparse.Namespace) -> int:
    """What the target cannot hold is said on stderr, one line each."""
    from pathlib import Path

    from callgrove.cli.messages import note
    from callgrove.cli.opening import as_study, inputs, named, open_any
    from callgrove.cli.progress import progress
    from callgrove.errors import IncompleteResult, UsageError
    from callgrove.formats.interface import WriteOptions, Writes
    from callgrove.formats.registry import checked_dialect, format_for_target, writer_of
    from callgrove.formats.transfer import write
    from callgrove.model.experiment import Experiment

    name, target = args.to or format_for_target(args.target), Path(args.target)
    format_, dialect = writer_of(name), checked_dialect(name, args.dialect)
    where = target.resolve()
    for source in (Path(path).resolve() for path in inputs(args)):
        if where.is_relative_to(source) or source.is_relative_to(where):
            raise UsageError(
                f"{args.target}: is the input itself or a part of it, which is never modified; name another OUT"
            )
    opened = open_any(args)
    if isinstance(opened, Experiment):
        opened = cut(opened, args)
    elif is_cut(args):
        raise UsageError(
            f"{named(args)}: holds series over parameters, which have no ranks, threads or traces to choose"
        )
    if not isinstance(format_, Writes):  # it holds series: an experiment with runs becomes them
        opened = as_study(opened, args)
    with progress() as report:
        lost = write(opened, format_, target, WriteOptions(dialect, args.force, report))
    for loss in lost.losses:
        note(f"lost: {loss}")
    if isinstance(opened, Experiment) and opened.values.problems and args.strict:
        raise IncompleteResult(f"{args.target}: was written without what is damaged in {named(args)}")
    return 0
