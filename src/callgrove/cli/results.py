"""What verbs share that make an experiment of experiments: their inputs, how these are matched, and the target.

add_inputs     PATH... OUT and how to read      InputOptions, of which the last path is OUT
add_target     --to, --dialect, --force         ResultOptions: the same, and how OUT is written
add_matching   --ignore, --by, --system         MatchingOptions
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from callgrove.cli.options import InputOptions, add_from, add_jobs, add_kernel_names, add_salvage
from callgrove.errors import UsageError

if TYPE_CHECKING:
    from callgrove.model.experiment import Experiment

__all__ = [
    "MatchingOptions",
    "ResultOptions",
    "add_inputs",
    "add_matching",
    "add_target",
    "open_all",
    "open_inputs",
    "refuse_result",
    "split_target",
    "write_result",
]

SYSTEMS = ("union", "strict", "side-by-side", "collapse")
IGNORABLE = ("file", "line", "module", "offset", "unit")


@dataclass(frozen=True, kw_only=True)
class ResultOptions(InputOptions):
    """The inputs, and how what is made of them is written."""

    to: str
    dialect: str
    force: bool


@dataclass(frozen=True, kw_only=True)
class MatchingOptions:
    """Which contexts and profiles of several experiments are the same."""

    ignore: Sequence[str]
    by: str
    system: str = "union"


def add_inputs(parser: argparse.ArgumentParser, usage: str, what: str) -> None:
    """`usage` says which PATHs there are, and that OUT is the last."""
    parser.usage = f"{parser.prog} [options] {usage}"
    group = parser.add_argument_group("input")
    group.add_argument("paths", metavar="PATH", nargs="+", help=what)
    add_kernel_names(group)
    add_care(group)
    add_jobs(group)


def add_care(group: argparse._ActionsContainer) -> None:
    """How to read, and what to do about damage."""
    add_from(group)
    care = group.add_mutually_exclusive_group()
    care.add_argument("--strict", action="store_true", help="refuse what is damaged or incomplete instead of warning")
    add_salvage(care)


def parse_ignored(text: str) -> list[str]:
    """A list of what may differ."""
    words = [word.strip() for word in text.split(",")]
    if unknown := [word for word in words if word not in IGNORABLE]:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} cannot be ignored; choose from {', '.join(IGNORABLE)}")
    return words


def add_matching(parser: argparse.ArgumentParser, *, systems: bool = True) -> None:
    group = parser.add_argument_group("matching")
    group.add_argument(
        "--ignore",
        metavar="LIST",
        type=parse_ignored,
        default=[],
        help=f"differences to ignore: {', '.join(IGNORABLE)}",
    )
    group.add_argument(
        "--by", choices=("place", "name"), default="place", help="what makes two contexts the same (default: place)"
    )
    if systems:
        group.add_argument(
            "--system", choices=SYSTEMS, default="union", help="how profiles are combined (default: union)"
        )


def add_target(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("target")
    group.add_argument(
        "--to",
        metavar="FORMAT",
        default="",
        help="the format to write (default: by OUT's ending, else the input's)",
    )
    group.add_argument("--dialect", default="", metavar="NAME", help="which variant of the format to write")
    group.add_argument("--force", action="store_true", help="replace OUT if it exists")


def open_inputs(options: ResultOptions, least: int, most: int | None = None) -> tuple[list[Experiment], str]:
    """The experiments and OUT, which is refused before they are opened if it cannot be written."""
    paths, target = split_target(options, least, most)
    refuse_result(target, paths, options)
    return open_all(options, paths), target


def split_target(options: ResultOptions, least: int, most: int | None = None) -> tuple[list[str], str]:
    """The paths of the inputs, and OUT, the last of all."""
    *inputs, target = options.paths
    if len(inputs) < least or (most is not None and len(inputs) > most):
        need = "one input" if most == 1 else "one input or more" if least == 1 else f"{least} inputs or more"
        raise UsageError(f"needs {need} and an OUT, found {' '.join(options.paths)}")
    return inputs, target


def refuse_result(target: str, inputs: Sequence[str], options: ResultOptions) -> None:
    """OUT is refused if what will be made of the inputs cannot be written there."""
    from callgrove.cli.targets import refuse_target

    refuse_target(target, inputs, _names(target, inputs, options), overwrite=options.force)


def _names(target: str, inputs: Sequence[str], options: ResultOptions) -> list[str]:
    """The format that OUT is written in, where that is known; the input is looked at only if there is anything that it
    would replace."""
    from callgrove.binary.sources import Source
    from callgrove.formats.registry import settle_format

    if options.to:
        return [options.to]
    if not os.path.lexists(target) or not options.force:
        return []
    try:
        return [_format_of(target, lambda: options.from_format or settle_format(Source.of(inputs[0]))[0].name)]
    except UsageError:  # said when it is written
        return []


def open_all(options: InputOptions, paths: Sequence[str]) -> list[Experiment]:
    """The experiments at these paths."""
    from callgrove.cli.opening import open_experiment

    return [open_experiment(replace(options, paths=[path])) for path in paths]


def write_result(result: Experiment, inputs: Sequence[Experiment], target: str, options: ResultOptions) -> int:
    """Write what was made of some inputs; what got lost on the way, or in the target, is said on stderr."""
    from callgrove.cli.messages import note, say_losses
    from callgrove.cli.progress import progress
    from callgrove.errors import IncompleteResult
    from callgrove.formats.interface import WriteOptions
    from callgrove.formats.registry import check_dialect, writer_of
    from callgrove.formats.writing.losses import group_lines
    from callgrove.formats.writing.transfer import write_experiment

    name = options.to or _format_of(target, lambda: inputs[0].format)
    format_, dialect = writer_of(name), check_dialect(name, options.dialect)
    sums = [f"{e.path}: {digest}" for e in inputs if (digest := _sha256(e.path))]
    if sums:
        result = replace(result, attributes={**result.attributes, "sha256": ", ".join(sums)})
    with progress() as report:
        lost = write_experiment(result, format_, Path(target), WriteOptions(dialect, options.force, report))
    known = {warning for experiment in inputs for warning in experiment.warnings}
    for text in group_lines(warning.text for warning in result.warnings if warning not in known):
        note(text)
    say_losses(lost, target, strict=options.strict)
    if result.values.problems and options.strict:
        raise IncompleteResult(f"{target}: was written without what is damaged in the input")
    return 0


def _sha256(path: str) -> str:
    """What tells one file from another; a folder has no such thing."""
    import hashlib

    if not Path(path).is_file():
        return ""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _format_of(target: str, own: Callable[[], str]) -> str:
    """By the ending of the target; else the first input's own format, where that can be written."""
    from callgrove.formats.registry import find_entry, format_for_target

    try:
        return format_for_target(target)
    except UsageError:
        name = own()
        entry = find_entry(name)
        if entry is None or not entry.writes:
            raise
        return name
