"""`callgrove convert`: an experiment, or a part of it, in another format."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from callgrove.cli.options import add_execution, add_study_input, engine_for
from callgrove.cli.selecting import add_cutting, is_cut, select_part

if TYPE_CHECKING:
    from callgrove.execute import Progress, Workers
    from callgrove.formats.interface import WriteOptions
    from callgrove.model.experiment import Experiment
    from callgrove.model.study.series import Study

ANNOTATIONS = ("default", "none", "all")
TRACK_NAMES = ("plain", "rocpd")
IGNORED = (
    "--perfetto-backend",
    "--perfetto-buffer-size",
    "--perfetto-buffer-fill-policy",
    "--perfetto-shmem-size-hint",
)
FIELDS = {  # of WriteOptions: the option, and where it is in the arguments
    "annotations": ("--annotations", "annotations"),
    "track_names": ("--track-names", "track_names"),
    "real_pids": ("--real-pids", "real_pids"),
    "by_queue": ("--group-by-queue", "group_by_queue"),
    "kernel_rename": ("--kernel-rename", "kernel_rename"),
    "agent_index": ("--agent-index-value", "agent_index_value"),
    "keep_partial": ("--keep-partial", "keep_partial"),
}
AGENT_INDICES = ("absolute", "relative", "type-relative")  # AgentIndex


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_study_input(parser, many=True, jobs=False)
    parser.add_argument("target", metavar="OUT", help="the file or folder to write; - is stdout, for traces")
    parser.add_argument("--to", metavar="FORMAT", help="the format to write (default: by the ending of OUT)")
    parser.add_argument(
        "--dialect",
        default="",
        metavar="NAME",
        help="which variant of the format to write; of CSV files, the columns of 2025 or 2026",
    )
    parser.add_argument(
        "--extended",
        dest="dialect",
        action="store_const",
        const="extended",
        help="of CSV files, add columns at the end: rank, host, size and bandwidth (short for --dialect extended)",
    )
    parser.add_argument("--force", action="store_true", help="replace OUT if it is there already")
    add_cutting(parser)
    add_trace_options(parser)
    add_ignored(parser, argparse.SUPPRESS)
    add_execution(parser)


def add_trace_options(parser: argparse.ArgumentParser) -> None:
    """How traces for viewers are written."""
    group = parser.add_argument_group("traces for viewers")
    group.add_argument(
        "--annotations", choices=ANNOTATIONS, default=ANNOTATIONS[0], help="how much slices say about themselves"
    )
    group.add_argument(
        "--track-names",
        choices=TRACK_NAMES,
        default=TRACK_NAMES[0],
        help="how tracks are called: plainly, or as rocprofv3's own converter calls them",
    )
    group.add_argument("--group-by-queue", action="store_true", help="operations on queues instead of streams")
    group.add_argument(
        "--kernel-rename", action="store_true", help="kernels under the name of the range that they were launched in"
    )
    group.add_argument(
        "--agent-index-value",
        choices=AGENT_INDICES,
        default="",
        help="which number devices are called by: of all in the machine, of those in use, of those of their kind "
        "(default: relative where names are those of rocprofv3)",
    )
    group.add_argument("--real-pids", action="store_true", help="process ids as they were, even if two are equal")
    group.add_argument(
        "--keep-partial", action="store_true", help="keep what was written before an interruption, as OUT.part"
    )


def add_ignored(parser: argparse.ArgumentParser, shown: str) -> None:
    """Options of rocprofv3's converter that mean nothing here; `shown` is what the help says of them."""
    for word in IGNORED:
        parser.add_argument(word, metavar="X", help=shown)


def say_ignored(args: argparse.Namespace) -> None:
    """One notice for all that were given."""
    from callgrove.cli.messages import note

    given = [word for word in IGNORED if getattr(args, word.removeprefix("--").replace("-", "_")) is not None]
    if given:
        note(f"{', '.join(given)}: ignored, as nothing is kept in buffers that could run full")


def find_unused_options(args: argparse.Namespace, names: Sequence[str]) -> list[str]:
    """What was said about traces and makes no difference to any of some formats, a sentence each."""
    from callgrove.formats.interface import WriteOptions
    from callgrove.formats.registry import all_formats, entry_of

    usual, heeded = WriteOptions(), {field for name in names for field in entry_of(name).write_options}
    unused = [f for f, (_, word) in FIELDS.items() if f not in heeded and getattr(args, word) != getattr(usual, f)]
    return [
        f"{FIELDS[field][0]} makes no difference to {' or '.join(names)}; "
        f"it is for {', '.join(entry.name for entry in all_formats() if field in entry.write_options)}"
        for field in unused
    ]


def _refuse_unused(args: argparse.Namespace, names: Sequence[str]) -> None:
    from callgrove.errors import UsageError

    if unused := find_unused_options(args, names):
        raise UsageError(unused[0])


def write_options(args: argparse.Namespace, dialect: str, progress: Progress, workers: Workers) -> WriteOptions:
    from callgrove.formats.interface import WriteOptions

    return WriteOptions(
        dialect,
        args.force,
        progress,
        workers=workers,
        **{field: getattr(args, word) for field, (_, word) in FIELDS.items()},
    )


def run(args: argparse.Namespace) -> int:
    """What the target cannot hold is said on stderr, one line each."""
    from callgrove.cli.opening import inputs
    from callgrove.execute import executor
    from callgrove.formats.registry import formats_for_target

    say_ignored(args)
    names = [args.to] if args.to else formats_for_target(args.target)
    _refuse_unused(args, names)
    with executor(engine_for(args, inputs(args))) as workers:
        return convert(args, names, workers)


def convert(args: argparse.Namespace, names: list[str], workers: Workers) -> int:
    """Write the input of a verb in one of some formats: for series over parameters, or for executions."""
    from callgrove.cli.messages import say_losses
    from callgrove.cli.opening import as_study, inputs, name_of_input
    from callgrove.cli.progress import progress
    from callgrove.cli.targets import refuse_target
    from callgrove.errors import IncompleteResult, UsageError
    from callgrove.formats.interface import Writes
    from callgrove.formats.registry import check_dialect, entry_of, writer_of
    from callgrove.formats.writing.transfer import write_experiment
    from callgrove.model.experiment import Experiment

    for name in names:
        writer_of(name)
        check_dialect(name, args.dialect if len(names) == 1 else "")
    refuse_target(args.target, inputs(args), names, overwrite=args.force)
    if args.no_traces and all(entry_of(name).holds_only_traces for name in names):
        raise UsageError(f"--no-traces leaves nothing: {names[0]} holds what happened over time, and nothing else")
    args.workers = workers
    args.fold = not all(entry_of(name).holds_only_traces for name in names)
    opened = _open_input(args, names)
    name = _choose_format(opened, names)
    if len(names) > 1:
        _refuse_unused(args, [name])
    format_, dialect = writer_of(name), check_dialect(name, args.dialect)
    if isinstance(opened, Experiment):
        opened = select_part(opened, args)
    elif is_cut(args):
        raise UsageError(
            f"{name_of_input(args)}: holds series over parameters, which have no ranks, threads or traces to choose"
        )
    if not isinstance(format_, Writes):  # it holds series: an experiment with runs becomes them
        opened = as_study(opened, args)
    with progress() as report:
        lost = write_experiment(opened, format_, Path(args.target), write_options(args, dialect, report, workers))
    say_losses(lost, args.target, strict=args.strict)
    if isinstance(opened, Experiment) and opened.values.problems and args.strict:
        raise IncompleteResult(f"{args.target}: was written without what is damaged in {name_of_input(args)}")
    return 0


def _open_input(args: argparse.Namespace, names: list[str]) -> Experiment | Study:
    """Where a name's ending stands for traces and for series, only runs with parameters need a profile."""
    from callgrove.cli.opening import open_any
    from callgrove.formats.registry import entry_of
    from callgrove.model.experiment import Experiment

    ambiguous = len({entry_of(name).holds_series for name in names}) > 1 and any(
        entry_of(name).holds_only_traces for name in names
    )
    args.fold = args.fold and not ambiguous
    opened = open_any(args)
    if ambiguous and isinstance(opened, Experiment) and _has_points(opened):
        args.fold = True
        opened = open_any(args, notes=False)
    return opened


def _has_points(experiment: Experiment) -> bool:
    return any(run.parameters for run in experiment.runs)


def _choose_format(opened: Experiment | Study, names: list[str]) -> str:
    """Of several formats that an ending may mean, the one for series where the input has some."""
    from callgrove.formats.registry import entry_of
    from callgrove.model.study.series import Study

    series = isinstance(opened, Study) or _has_points(opened)
    return next((name for name in names if entry_of(name).holds_series == series), names[0])
