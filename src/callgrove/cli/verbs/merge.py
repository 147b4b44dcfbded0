"""`callgrove merge`: several experiments as one."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from callgrove.cli.options import add_run
from callgrove.cli.results import add_inputs, add_matching, add_target, open_all, split_target, write_result

if TYPE_CHECKING:
    from callgrove.model.experiment import Experiment

CONFLICTS = ("error", "first", "last", "sum")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_inputs(parser, "PATH PATH... OUT", "two or more inputs, then the file or folder to write")
    add_run(parser)
    parser.add_argument(
        "--conflict",
        choices=CONFLICTS,
        default="error",
        help="whose value counts where several inputs have one in the same place (default: error, if they differ)",
    )
    parser.add_argument(
        "--index", action="store_true", help="of databases that are one run, write a list to OUT instead of a copy"
    )
    add_matching(parser)
    add_target(parser)


def run(args: argparse.Namespace) -> int:
    from callgrove.algebra.operations import merge

    paths, target = split_target(args, 1)
    if args.index:
        return _write_index(args, paths, target)
    if (whole := _as_one(args, paths, target)) is not None:
        return write_result(whole, [whole], target, args)
    paths, target = split_target(args, 2)
    inputs = open_all(args, paths)
    made = merge(*inputs, conflict=args.conflict, ignore=args.ignore, by=args.by, system=args.system)
    return write_result(made, inputs, target, args)


def _write_index(args: argparse.Namespace, paths: list[str], target: str) -> int:
    from pathlib import Path

    from callgrove.binary.sources import Source
    from callgrove.cli.messages import note
    from callgrove.errors import UsageError
    from callgrove.formats.interface import Indexes, WriteOptions
    from callgrove.formats.registry import detect, load

    if args.kernel_names or args.run:
        raise UsageError("--index lists files as they are; give --kernel-names and --run when OUT is read")
    source = Source.of_all(paths)
    format_ = load(args.from_format) if args.from_format else detect(source)[0]
    if not isinstance(format_, Indexes):
        raise UsageError(f"{source.path}: --index is for databases of which many are one run, not for {format_.name}")
    n_files = format_.write_index(source, Path(target), WriteOptions(overwrite=args.force))
    note(f"{target}: names {n_files} databases, which open as one; keep them where they are")
    return 0


def _as_one(args: argparse.Namespace, paths: list[str], target: str) -> Experiment | None:
    """The inputs as one experiment, where they are of a format in which many files are one run: nothing is matched
    then, every file is a process of its own."""
    from callgrove.binary.sources import Source
    from callgrove.cli.opening import open_experiment
    from callgrove.formats.registry import entry_of, settle_format

    name = args.from_format or settle_format(Source.of(paths[0]))[0].name
    if not entry_of(name).opens_many:
        return None
    fold = _holds_profiles(args.to or _by_ending(target, name))
    together = {**vars(args), "paths": paths, "from_format": name, "fold": fold}
    return open_experiment(argparse.Namespace(**together))


def _by_ending(target: str, own: str) -> str:
    from callgrove.errors import UsageError
    from callgrove.formats.registry import format_for_target

    try:
        return format_for_target(target)
    except UsageError:
        return own


def _holds_profiles(name: str) -> bool:
    """Formats of events make a profile of them whenever they are opened; all others have to be given one."""
    from callgrove.formats.registry import entry_of

    entry = entry_of(name)
    return not (entry.opens_many or entry.holds_only_traces)
