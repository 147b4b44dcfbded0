"""`callgrove merge`: several experiments as one."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from callgrove.cli.options import add_run
from callgrove.cli.parser import Command
from callgrove.cli.results import (
    MatchingOptions,
    ResultOptions,
    add_inputs,
    add_matching,
    add_target,
    open_all,
    refuse_result,
    split_target,
    write_result,
)

if TYPE_CHECKING:
    from callgrove.model.experiment import Experiment

CONFLICTS = ("error", "first", "last", "sum")


@dataclass(frozen=True, kw_only=True)
class Options(ResultOptions, MatchingOptions):
    conflict: str
    index: bool


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


def run(options: Options) -> int:
    from callgrove.algebra.operations import merge

    paths, target = split_target(options, least=1)
    if options.index:
        return _write_index(options, paths, target)
    refuse_result(target, paths, options)
    if (whole := _as_one(options, paths, target)) is not None:
        return write_result(whole, [whole], target, options)
    split_target(options, least=2)
    inputs = open_all(options, paths)
    made = merge(*inputs, conflict=options.conflict, ignore=options.ignore, by=options.by, system=options.system)
    return write_result(made, inputs, target, options)


def _write_index(options: Options, paths: list[str], target: str) -> int:
    from pathlib import Path

    from callgrove.binary.sources import Source
    from callgrove.cli.messages import note
    from callgrove.cli.targets import refuse_target
    from callgrove.errors import UsageError
    from callgrove.formats.interface import Indexes, WriteOptions
    from callgrove.formats.registry import detect, load

    refuse_target(target, paths, overwrite=options.force)
    if options.kernel_names or options.run:
        raise UsageError("--index lists files as they are; give --kernel-names and --run when OUT is read")
    source = Source.of_all(paths)
    format_ = load(options.from_format) if options.from_format else detect(source)[0]
    if not isinstance(format_, Indexes):
        raise UsageError(f"{source.path}: --index is for databases of which many are one run, not for {format_.name}")
    n_files = format_.write_index(source, Path(target), WriteOptions(overwrite=options.force))
    note(f"{target}: names {n_files} databases, which open as one; keep them where they are")
    return 0


def _as_one(options: Options, paths: list[str], target: str) -> Experiment | None:
    """The inputs as one experiment, where they are of a format in which many files are one run: nothing is matched
    then, every file is a process of its own."""
    from callgrove.binary.sources import Source
    from callgrove.cli.opening import open_experiment
    from callgrove.formats.registry import entry_of, settle_format

    name = options.from_format or settle_format(Source.of(paths[0]))[0].name
    if not entry_of(name).opens_many:
        return None
    fold = _holds_profiles(options.to or _by_ending(target, name))
    return open_experiment(replace(options, paths=paths, from_format=name), fold=fold)


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


COMMAND = Command(Options, add_arguments, run)
