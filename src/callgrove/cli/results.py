"""What verbs share that write an experiment: inputs, how these are matched, and targets that are looked at before
anything is read.

add_inputs     PATH... OUT and how to read      InputOptions, of which the last path is OUT
add_target     --to, --dialect, --force         ResultOptions: the same, and how OUT is written
add_matching   --ignore, --by, --system         MatchingOptions
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from callgrove.cli.options import (
    FileOutput,
    InputOptions,
    PathOptions,
    add_execution,
    add_from,
    add_kernel_names,
    add_salvage,
    workers_for,
)
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
    "refuse_outputs",
    "refuse_result",
    "refuse_target",
    "resolve_links",
    "split_target",
    "write_result",
]


# -- inputs and results ------------------------------------------------------------------------------------------------


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


def add_inputs(parser: argparse.ArgumentParser, usage: str, what: str, *, least: int = 1) -> None:
    """Add the PATHs of several inputs; `usage` says which there are, and that OUT is the last."""
    parser.usage = f"{parser.prog} [options] {usage}"
    group = parser.add_argument_group("input")
    group.add_argument("paths", metavar="PATH", nargs="+" if least else "*", help=what)
    add_kernel_names(group)
    add_care(group)
    add_execution(parser)


def add_care(group: argparse._ActionsContainer) -> None:
    """Add the options that say how to read, and what to do about damage."""
    add_from(group)
    care = group.add_mutually_exclusive_group()
    care.add_argument("--strict", action="store_true", help="refuse what is damaged or incomplete instead of warning")
    add_salvage(care)


def parse_ignored(text: str) -> list[str]:
    """Parse a list of what may differ."""
    words = [word.strip() for word in text.split(",")]
    if unknown := [word for word in words if word not in IGNORABLE]:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} cannot be ignored; choose from {', '.join(IGNORABLE)}")
    return words


def add_matching(parser: argparse.ArgumentParser, *, systems: bool = True, groupings: Sequence[str] = ()) -> None:
    """Add the options of matching; `groupings` are what --by can mean besides, of verbs that group rows."""
    group = parser.add_argument_group("matching")
    group.add_argument(
        "--ignore",
        metavar="LIST",
        type=parse_ignored,
        default=[],
        help=f"differences to ignore: {', '.join(IGNORABLE)}",
    )
    group.add_argument(
        "--by",
        choices=("place", "name", *groupings),
        default="place",
        help="what makes two contexts the same (default: place)"
        + (f", or of --left and --right, what a row is: {', '.join(groupings)}" if groupings else ""),
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
    """Return the experiments and OUT, which is refused before they are opened if it cannot be written."""
    paths, target = split_target(options, least, most)
    refuse_result(target, paths, options)
    return open_all(options, paths), target


def split_target(options: ResultOptions, least: int, most: int | None = None) -> tuple[list[str], str]:
    """Return the paths of the inputs, and OUT, the last of all."""
    *inputs, target = options.paths
    if len(inputs) < least or (most is not None and len(inputs) > most):
        need = "one input" if most == 1 else "one input or more" if least == 1 else f"{least} inputs or more"
        raise UsageError(f"needs {need} and an OUT, found {' '.join(options.paths)}")
    return inputs, target


def refuse_result(target: str, inputs: Sequence[str], options: ResultOptions) -> None:
    """Refuse OUT if what will be made of the inputs cannot be written there."""

    refuse_target(target, inputs, _find_formats(target, inputs, options), overwrite=options.force)


def _find_formats(target: str, inputs: Sequence[str], options: ResultOptions) -> list[str]:
    """Return the format that OUT is written in, where that is known; the input is looked at only if there is anything
    that it would replace."""
    from callgrove.binary.files import Source
    from callgrove.formats.registry import settle_format

    if options.to:
        return [options.to]
    if not os.path.lexists(target) or not options.force:
        return []
    try:
        return [_choose_format(target, lambda: options.from_format or settle_format(Source.of(inputs[0]))[0].name)]
    except UsageError:  # said when it is written
        return []


def open_all(options: InputOptions, paths: Sequence[str]) -> list[Experiment]:
    """Return the experiments at these paths."""
    from callgrove.cli.opening import open_experiment

    return [open_experiment(replace(options, paths=[path])) for path in paths]


def write_result(result: Experiment, inputs: Sequence[Experiment], target: str, options: ResultOptions) -> int:
    """Write what was made of some inputs; what got lost on the way, or in the target, is said on stderr."""
    from callgrove.cli.messages import note, progress, say_losses
    from callgrove.errors import IncompleteResult
    from callgrove.formats.interface import WriteOptions
    from callgrove.formats.registry import check_dialect, writer_of
    from callgrove.formats.writing.transfer import write_experiment
    from callgrove.formats.writing.writer import group_lines

    name = options.to or _choose_format(target, lambda: inputs[0].format)
    format_, dialect = writer_of(name), check_dialect(name, options.dialect)
    sums = [f"{e.path}: {digest}" for e in inputs if (digest := _compute_sha256(e.path))]
    if sums:
        result = replace(result, attributes={**result.attributes, "sha256": ", ".join(sums)})
    with progress() as report, workers_for(options, [one.path for one in inputs]) as workers:
        how = WriteOptions(dialect, options.force, report, workers=workers)
        lost = write_experiment(result, format_, Path(target), how)
    known = {warning for experiment in inputs for warning in experiment.warnings}
    for text in group_lines(warning.text for warning in result.warnings if warning not in known):
        note(text)
    say_losses(lost, target, strict=options.strict)
    if result.values.problems and options.strict:
        raise IncompleteResult(f"{target}: was written without what is damaged in the input")
    return 0


def _compute_sha256(path: str) -> str:
    """Return the checksum of a file; a folder has none."""
    import hashlib

    if not Path(path).is_file():
        return ""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _choose_format(target: str, input_format: Callable[[], str]) -> str:
    """Return the format that the ending of the target names; else that of the first input, where it can be written."""
    from callgrove.formats.registry import find_entry, format_for_target

    try:
        return format_for_target(target)
    except UsageError:
        name = input_format()
        entry = find_entry(name)
        if entry is None or not entry.writes:
            raise
        return name


# -- targets, looked at before anything is read ------------------------------------------------------------------------
# refuse_outputs  -o FILE of every verb (tables, texts, pages) and --plot FILE, before the verb runs
# refuse_target   OUT of verbs that write an experiment
#
# FILE shows what an input holds and can be made again at any time, so it is replaced, when it is complete. OUT may be
# all that there is of an experiment, so it is replaced only with --force.


STDOUT = "-"


def refuse_outputs(options: object) -> None:
    """Refuse a FILE that is an input or a file in one, or whose folder does not exist."""
    files = options.files if isinstance(options, FileOutput) else {}
    inputs = options.inputs if isinstance(options, PathOptions) else []
    for option, file in files.items():
        if file == "":
            raise UsageError(f"{option} needs the name of a file")
        if file is not None:
            _refuse_file(Path(file), inputs)


def _refuse_file(path: Path, inputs: Sequence[str]) -> None:
    if path.is_dir():
        raise UsageError(f"{path}: is a folder, and a file is to be written; choose another name")
    where = resolve_links(path)
    if path.exists() and any(where.is_relative_to(source) for source in _resolve_existing(inputs)):
        raise UsageError(f"{path}: is an input or a part of one, which is never modified; name another FILE")
    _refuse_folder(path)


def refuse_target(target: str, inputs: Iterable[str], names: Sequence[str] = (), *, overwrite: bool) -> None:
    """Refuse an OUT that is an input, a part of one or a folder around one. An existing OUT is replaced only if that
    was asked for, and if it is of the same kind. `names` are the formats it may be written in, as far as that is known
    yet."""
    from callgrove.formats.registry import entry_of
    from callgrove.formats.writing.targets import refuse_existing

    if target == STDOUT:
        return
    path = Path(target)
    where, sources = resolve_links(path), _resolve_existing(inputs)
    fills = bool(names) and all(entry_of(name, to_write=True).adds_to_folder for name in names)
    if any(where.is_relative_to(source) for source in sources):
        raise UsageError(f"{target}: is the input itself or a part of it, which is never modified; name another OUT")
    if fills and path.is_dir():
        return
    if any(source.is_relative_to(where) for source in sources):
        raise UsageError(f"{target}: holds the input, which is never modified; name another OUT")
    if not fills:
        refuse_existing(path, overwrite)
        if path.exists():
            _refuse_kind(path, names)
    _refuse_folder(path)


def _refuse_kind(path: Path, names: Sequence[str]) -> None:
    """Refuse to replace a folder by a file, or a file by a folder."""
    from callgrove.formats.interface import ChoosesTargets
    from callgrove.formats.registry import load
    from callgrove.formats.writing.targets import refuse_folder

    for format_ in map(load, names):
        if isinstance(format_, ChoosesTargets):
            format_.refuse_target(path)
        else:
            refuse_folder(path)


def resolve_links(path: str | Path) -> Path:
    """Return the path without links. Links that lead nowhere are not an error here, but when they are opened."""
    return Path(os.path.realpath(path))


def _refuse_folder(path: Path) -> None:
    folder = resolve_links(path).parent
    if not folder.is_dir():
        raise UsageError(f"{path}: cannot be written: there is no folder {path.parent}; make it first")
    if not os.access(folder, os.W_OK | os.X_OK) and not path.exists():
        raise UsageError(f"{path}: cannot be written: no files can be created in the folder {path.parent}")


def _resolve_existing(inputs: Iterable[str]) -> list[Path]:
    """Return the inputs that exist, without links; a query is among the paths of `sql`."""
    return [resolve_links(path) for path in inputs if os.path.lexists(path)]
