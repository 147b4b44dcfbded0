"""`callgrove prof`: measurement directories as a database."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from callgrove.cli.options import ExecutionOptions, add_execution, workers_for
from callgrove.cli.parser import Command
from callgrove.errors import compose_text, count_of

if TYPE_CHECKING:
    from pathlib import Path

    from callgrove.execute import Workers
    from callgrove.prof.conversion import Request
    from callgrove.prof.experiment import Prepared
    from callgrove.prof.survey import Survey

TARGET = "hpctoolkit-release"
VIEWS = ("none", "sum", "normal", "extrema", "stats")
MOST_NOTES = 10
PER_FILE = 1 << 18  # bytes that could be read in the time that a small file takes


@dataclass(frozen=True, kw_only=True)
class Options(ExecutionOptions):
    paths: Sequence[str]
    to: str
    force: bool
    strict: bool
    title: str
    only_exe: Sequence[str]
    no_traces: bool
    no_source: bool
    source_dirs: Sequence[str]
    views: Sequence[str]
    structs: Sequence[str]
    ignore_structs: bool
    rules: Sequence[str]
    foreign: bool
    no_cache: bool


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = f"{parser.prog} [options] PATH... [OUT]"
    parser.add_argument(
        "paths",
        metavar="PATH",
        nargs="+",
        help="measurement directories or files, then the database to write (OUT); without OUT, a directory"
        " goes to NAME-database in the current folder",
    )
    parser.add_argument(
        "--to", metavar="FORMAT", default="", help=f"the format to write (default: by the ending of OUT, else {TARGET})"
    )
    parser.add_argument("--force", action="store_true", help="replace OUT if it exists")
    parser.add_argument(
        "--strict", action="store_true", help="exit with code 4 if a file had to be left out or is damaged"
    )
    parser.add_argument("--title", metavar="TEXT", default="", help="the title (default: the name of the program)")
    parser.add_argument(
        "--only-exe",
        metavar="NAME",
        action="append",
        default=[],
        help="only measurements of the program NAME; may be repeated",
    )
    parser.add_argument("--no-traces", action="store_true", help="leave out traces")
    parser.add_argument("--no-source", action="store_true", help="do not copy source files")
    parser.add_argument(
        "--source-dir",
        dest="source_dirs",
        metavar="DIR",
        action="append",
        default=[],
        help="copy source files below this folder as well; may be repeated (default: those in the folders of the"
        " measurements, of the program and of -R)",
    )
    parser.add_argument(
        "-M",
        "--metric-statistics",
        dest="views",
        metavar="LIST",
        type=views,
        action="extend",
        default=[],
        help=f"which statistics of a metric are shown: {', '.join(VIEWS)}; commas separate several (default: sum)",
    )
    _add_names(parser.add_argument_group("names"))
    add_execution(parser)


def _add_names(group: argparse._ArgumentGroup) -> None:
    """Add the options that say where names of code come from."""
    group.add_argument(
        "-S",
        "--struct",
        dest="structs",
        metavar="FILE",
        action="append",
        default=[],
        help="use this structure file as well; may be repeated",
    )
    group.add_argument("--ignore-structs", action="store_true", help="do not use the structure files in structs/")
    group.add_argument(
        "-R",
        "--replace-path",
        dest="rules",
        metavar="FROM=TO",
        action="append",
        default=[],
        help="where paths begin with FROM, look under TO; '*' is one component; may be repeated",
    )
    group.add_argument("--foreign", action="store_true", help="open nothing outside the measurement directories")
    group.add_argument(
        "--no-cache", action="store_true", help="neither use nor fill the cache of names found in binaries"
    )


def views(text: str) -> tuple[str, ...]:
    """Parse a list of words for what is shown."""
    words = tuple(text.split(","))
    if unknown := [word for word in words if word not in VIEWS]:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(VIEWS)}")
    return words


def run(options: Options) -> int:
    """Make a database of measurements; what was left out, and why, is said on stderr."""
    sources = options.paths[:-1] or options.paths
    with workers_for(options, sources, ["callgrove.prof.conversion"], PER_FILE) as workers:
        return _convert(options, workers)


def _convert(options: Options, workers: Workers) -> int:
    from callgrove.cli.messages import note, progress, say_losses
    from callgrove.errors import IncompleteResult, UsageError
    from callgrove.formats.interface import WriteOptions, Writes
    from callgrove.formats.registry import writer_of
    from callgrove.prof.conversion import run_conversion

    name = options.to or _choose_format(options.paths)
    request, target = _make_request(options, name)
    format_ = writer_of(name)
    if not isinstance(format_, Writes):
        raise UsageError(f"{target}: {name} holds series over parameters, not an execution")
    with progress() as report:
        writer = format_.open_writer(target, WriteOptions("", options.force, report))
        survey, ready, done = run_conversion(request, writer, workers, target, report)
    _say_missing(ready, survey)
    if len(options.paths) == 1:
        note(f"note: the database is {target}")
    if done.n_samples:
        note(f"left out: {count_of(done.n_samples, 'sample')} of traces, on nodes that their profiles do not have")
    if done.n_values:
        note(f"left out: {count_of(done.n_values, 'value')} at the root, which belongs to no call path")
    say_losses(done.losses, str(target), strict=options.strict)
    if options.strict and ready.experiment.damage:
        raise IncompleteResult(f"{target}: was written without what is damaged in the measurements")
    return 0


def _choose_format(paths: Sequence[str]) -> str:
    """Return the format that the ending of OUT names, if it holds executions; else the default."""
    from callgrove.errors import UsageError
    from callgrove.formats.registry import entry_of, format_for_target

    if len(paths) < 2:
        return TARGET
    try:
        name = format_for_target(paths[-1], series=False)
    except UsageError:  # it says nothing
        return TARGET
    return TARGET if entry_of(name).holds_series else name


def _make_request(options: Options, format_name: str) -> tuple[Request, Path]:
    from pathlib import Path

    from callgrove.cli.results import resolve_links
    from callgrove.errors import InputError, UsageError
    from callgrove.prof.conversion import Request
    from callgrove.prof.experiment import Attribution
    from callgrove.prof.nodes import Flavour
    from callgrove.prof.survey import Inputs, PathRule, default_target
    from callgrove.user_cache import cache_folder

    *paths, last = (Path(path) for path in options.paths)
    target = last if paths else default_target(last)
    paths = paths or [last]
    if resolve_links(target) in map(resolve_links, paths):
        raise UsageError(f"{target}: is the input itself, which is never modified; name another OUT")
    for path in map(Path, options.structs):
        if not path.is_file():
            problem = "this is a folder, not a structure file" if path.is_dir() else "there is no such structure file"
            raise InputError(f"{path}: {problem} (-S)")
    for folder in options.source_dirs:
        if not Path(folder).is_dir():
            raise InputError(f"{folder}: there is no such folder (--source-dir)")
    attribution = Attribution(
        tuple(Path(path).resolve() for path in options.structs),
        not options.ignore_structs,
        not options.no_source,
        options.title,
        tuple(dict.fromkeys(options.views or ("sum",))),
        None if options.no_cache or options.foreign else cache_folder("names"),
        tuple(Path(folder).absolute() for folder in options.source_dirs),
    )
    is_early = format_name == "hpctoolkit-prerelease"
    inputs = Inputs(tuple(paths), tuple(map(PathRule.parse, options.rules)), options.foreign)
    flavour = Flavour(demotes=not is_early, has_idle=is_early)
    return Request(inputs, attribution, flavour, tuple(options.only_exe), not options.no_traces), target


def _say_missing(ready: Prepared, survey: Survey) -> None:
    """Say what is missing in the result, and other things worth knowing."""
    from callgrove.cli.messages import note

    skipped = [text for _, text in survey.skipped]
    others = [(w.severity, w.text) for w in ready.experiment.warnings if w.text not in skipped]
    _say_each("skipped", skipped)
    if skipped:
        n_files = len(skipped) + len(survey.files) + len(survey.others)
        note(f"skipped: {len(skipped)} of {n_files} measurement files in all")
    for severity, word in (("damage", "damaged"), ("missing", "missing"), ("note", "note")):
        _say_each(word, [text for severity_, text in others if severity_ == severity])


def _say_each(word: str, texts: list[str]) -> None:
    from callgrove.cli.messages import note

    for text in texts[:MOST_NOTES]:
        note(compose_text(f"{word}: ", text))
    if len(texts) > MOST_NOTES:
        note(f"{word}: {len(texts) - MOST_NOTES} more")


PROF = Command(Options, add_arguments, run)
