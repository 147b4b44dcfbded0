"""Arguments that verbs share, so that one option has one name and one meaning everywhere.

add_input           PATH, --from, --strict, --salvage        args.path (or .paths), .from_format, .strict, .salvage
add_study_input     the same, --point, --scaling, ...        also .points, .scaling, .study_scope, .folder_pattern, ...
add_selection       -m, --rank, --thread, --run              args.metric, .rank, .thread, .run
add_all_metrics     --all-metrics                            args.all_metrics
add_table_output    --format, -o, --limit                    args.format, .output, .limit; printed by `emit`
add_jobs            -j                                       args.jobs; heeded by whoever opens
add_execution       -j, --mpi, --dask                        args.jobs, .mpi, .dask; `engine` makes one choice of them
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

from callgrove.cli.output import emit
from callgrove.errors import UsageError
from callgrove.model.runs import IntSet

if TYPE_CHECKING:
    from callgrove.execute import Engine

__all__ = [
    "TABLE_FORMATS",
    "UNSAID",
    "add_all_metrics",
    "add_execution",
    "add_format",
    "add_from",
    "add_input",
    "add_kernel_names",
    "add_run",
    "add_salvage",
    "add_selection",
    "add_study_input",
    "add_table_output",
    "emit",
    "engine",
    "engine_for",
    "int_set",
    "settle_format",
]

TABLE_FORMATS = ("table", "csv", "json", "markdown")
UNSAID = -1  # a number of rows that nobody gave
KERNEL_NAMES = ("short", "demangled")
ENDINGS = {".csv": "csv", ".json": "json", ".jsonl": "jsonl", ".md": "markdown", ".parquet": "parquet"}
SCALINGS = ("weak", "weak_threaded", "strong", "device")


class DefaultFormat(str):
    """A --format that nobody gave: the ending of FILE may say another one."""

    __slots__ = ()


def settle_format(args: argparse.Namespace) -> None:
    """Let the ending of -o FILE choose the format where --format does not: what is called x.json is JSON."""
    chosen, output = getattr(args, "format", None), getattr(args, "output", None)
    if not isinstance(chosen, DefaultFormat) or not output:
        return
    wanted = ENDINGS.get(Path(output).suffix.lower(), chosen)
    if wanted not in args.table_formats:
        raise UsageError(f"{output}: this verb does not write {wanted}; --format is {', '.join(args.table_formats)}")
    args.format = str(wanted)


def int_set(text: str) -> IntSet:
    """A list of numbers like `0-3,7,13-`."""
    try:
        return IntSet.parse(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def row_limit(text: str) -> int | None:
    """A number of rows, or None for `all`."""
    if text == "all":
        return None
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number of rows nor 'all'")
    return int(text)


def add_input(
    parser: argparse.ArgumentParser, *, many: bool = False, optional: bool = False, jobs: bool = True
) -> None:
    """`optional`: something else may stand for PATH; whoever opens it says so where both are missing. `jobs`: many
    files are opened on processes, for verbs without `add_execution`."""
    group = parser.add_argument_group("input")
    if many:
        nargs = "*" if optional else "+"
        group.add_argument("paths", metavar="PATH", nargs=nargs, help="files or folders that a profiler wrote")
    else:
        one = "?" if optional else None
        group.add_argument("path", metavar="PATH", nargs=one, help="a file or folder that a profiler wrote")
    add_from(group)
    group.add_argument(
        "--rank-env", metavar="NAME", default="", help="of recorded environments, the variable that holds the rank"
    )
    group.add_argument(
        "--align",
        metavar="HOW",
        default="",
        help="clocks of several machines: none (default), start (every process begins at 0), or a file of host,ns",
    )
    add_kernel_names(group)
    names = group.add_mutually_exclusive_group()
    names.add_argument(
        "--folder-pattern",
        metavar="TEXT",
        default="",
        help="how folders of runs are named, like 'run_{n}_{ranks}ranks'; {r} is the repetition",
    )
    names.add_argument(
        "--points", dest="points_file", metavar="FILE", default="", help="CSV: folder, one column per parameter"
    )
    care = group.add_mutually_exclusive_group()
    care.add_argument("--strict", action="store_true", help="refuse what is damaged or incomplete instead of warning")
    add_salvage(care)
    if jobs:
        add_jobs(group)


def add_study_input(parser: argparse.ArgumentParser, *, many: bool = False, jobs: bool = True) -> None:
    """The input of verbs that take studies: a file of series, a folder of runs, or runs with their points."""
    add_input(parser, many=many, optional=True, jobs=jobs)
    group = parser.add_argument_group("studies")
    group.add_argument(
        "--point",
        dest="points",
        nargs=2,
        action="append",
        metavar=("P=4,N=100", "RUN"),
        help="a run and its parameters, instead of PATH; once for every run",
    )
    group.add_argument(
        "--scaling",
        choices=SCALINGS,
        help="how the profiles of a run are combined: weak (each counts; default), weak_threaded (without zeros), "
        "strong (their sum), device (added up on each GPU and in each process; default where there are GPUs)",
    )
    group.add_argument(
        "--inclusive",
        dest="study_scope",
        action="store_const",
        const="inclusive",
        default="exclusive",
        help="of runs, take inclusive values instead of exclusive ones",
    )
    group.add_argument(
        "--extrap-compat",
        action="store_true",
        help="of a folder of Nsight exports, make the series that Extra-P makes, with its defects",
    )


def add_from(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--from", dest="from_format", metavar="FORMAT", help="read as this format ('callgrove formats' lists them)"
    )


def add_kernel_names(group: argparse._ActionsContainer) -> None:
    """Which name tells kernels apart; every verb that reads kernels takes it."""
    group.add_argument(
        "--kernel-names",
        choices=KERNEL_NAMES,
        default="",
        help="of Nsight exports and rocprofv3 databases, the name that tells kernels apart: without parameters, or "
        "with all of them (default: as nsys and rocprofv3 do)",
    )


def add_salvage(parser: argparse._ActionsContainer) -> None:
    parser.add_argument("--salvage", action="store_true", help="keep the complete part of a text that breaks off")


def add_selection(
    parser: argparse.ArgumentParser, metric: str = "the metric (default: the first time, else the first)"
) -> None:
    """Which metric and whose values; `metric` says what naming one means."""
    group = parser.add_argument_group("selection")
    group.add_argument("-m", "--metric", metavar="NAME", help=metric)
    group.add_argument("--rank", metavar="LIST", type=int_set, help="only these ranks, like 0-3,7")
    group.add_argument("--thread", metavar="LIST", type=int_set, help="only these threads, like 0-3,7")
    add_run(group)


def add_run(group: argparse._ActionsContainer) -> None:
    """Which of several runs; whoever opens the input heeds it."""
    group.add_argument(
        "--run",
        metavar="RUN",
        help="of several runs, only these: by number (3, 0-3,7), parameters (p=4,n=100; r=1: the repetition) or name",
    )


def add_all_metrics(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--all-metrics",
        action="store_true",
        help="show every column that the profiler wants shown; -m still chooses and orders the rows",
    )


def add_format(group: argparse._ActionsContainer, formats: Sequence[str] = TABLE_FORMATS) -> None:
    """How a table is written: as told, else by the ending of a file, else as the first of `formats`."""
    told = f"default: by the ending of FILE, else {formats[0]}"
    group.add_argument("--format", choices=formats, default=DefaultFormat(formats[0]), help=told)
    group.set_defaults(table_formats=tuple(formats))


def add_table_output(
    parser: argparse.ArgumentParser,
    *,
    formats: Sequence[str] = TABLE_FORMATS,
    limit: int | None = None,
    per_section: int | None = None,
) -> None:
    """How a table is printed; the first of `formats` is the default, and so is `limit` (None: all rows). Where a table
    has sections, `per_section` is what of each is shown to people; `args.limit` is UNSAID then."""
    group = parser.add_argument_group("output")
    add_format(group, formats)
    group.add_argument("-o", "--output", metavar="FILE", help="write to this file instead of stdout")
    shown, rows = "all" if limit is None else str(limit), "rows"
    if per_section is not None:
        limit, shown, rows = UNSAID, f"{per_section} in tables, else all", "rows of each section"
    group.add_argument(
        "--limit", metavar="N", type=row_limit, default=limit, help=f"at most N {rows}, or 'all' (default: {shown})"
    )


def n_processes(text: str) -> int:
    """A number of processes: one or more."""
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of processes")
    return int(text)


def add_execution(parser: argparse.ArgumentParser) -> None:
    """What the work runs on. The result does not depend on it."""
    group = parser.add_argument_group("execution").add_mutually_exclusive_group()
    add_jobs(group, "use N processes")
    group.add_argument("--mpi", action="store_true", help="use the processes of an MPI run (mpirun, srun)")
    group.add_argument("--dask", metavar="ADDRESS", default="", help="use the Dask cluster whose scheduler is there")


def add_jobs(group: argparse._ActionsContainer, what: str = "open many GPU databases on N processes") -> None:
    default = "default: one for each usable core, but one in all where the input is small"
    group.add_argument("-j", "--jobs", metavar="N", type=n_processes, help=f"{what} ({default})")


MOST_LOOKED_AT = 1 << 14  # entries of a folder
WORTH_PROCESSES = 256 << 20  # bytes of input for which starting more processes pays off


def engine_for(args: argparse.Namespace, paths: Sequence[str], per_file: int = 0) -> Engine:
    """What `add_execution` was told; without a word, one process where the input is small. `per_file` is what opening
    a file costs, in bytes that could be read instead."""
    from callgrove.execute import Engine

    asked = engine(args)
    if asked != Engine():
        return asked
    total = 0
    for size in chain.from_iterable(_sizes(path) for path in paths):
        total += size + per_file
        if total >= WORTH_PROCESSES:
            return asked
    return Engine(jobs=1)


def _sizes(path: str) -> Iterator[int]:
    """Bytes of a file, or of files in a folder; nothing of what is not there."""
    found = Path(path)
    files = islice(found.rglob("*"), MOST_LOOKED_AT) if found.is_dir() else [found]
    with suppress(OSError):
        yield from (file.stat().st_size for file in files if file.is_file())


def engine(args: argparse.Namespace) -> Engine:
    """What `add_execution` was told. Enter `execute.executor` with it before anything else is done: under MPI all
    processes come here, and only one of them may go on."""
    from callgrove.execute import Engine

    return Engine(args.jobs, getattr(args, "mpi", False), getattr(args, "dask", ""))
