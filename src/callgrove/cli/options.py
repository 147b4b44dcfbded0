"""Options that verbs share, so that one option has one name and one meaning everywhere.

A group of options is a function that adds it to a parser and a dataclass that holds what was given:

add_input          PATH, --from, --strict, --salvage, ...      InputOptions
add_study_input    the same, --point, --scaling, ...           InputOptions
add_run            --run, which whoever opens an input heeds   InputOptions
add_remap          --remap, --spec, --idle-threads             InputOptions
add_selection      -m, --derive, --rank, --thread, --run       SelectionOptions, InputOptions
add_contexts       --name, --under, --query, --fold, ...       InputOptions (contexts.py)
add_derive         --derive, which whoever opens an input heeds InputOptions
add_all_metrics    --all-metrics                               CostOptions, of verbs that show costs
add_table_output   --format, -o, --limit                       TableOutput
add_execution      -j, --mpi, --dask                           ExecutionOptions
add_jobs           -j, of verbs that wait for somebody         ExecutionOptions

The options of a verb are one dataclass that inherits its groups and adds what the verb alone has. `Parser.read` makes
it of the arguments: a field is called as the destination of its argument. A function takes the group that it needs.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from callgrove.cli.contexts import ContextOptions, add_contexts, add_places, int_set
from callgrove.cli.parser import JoinValues
from callgrove.errors import UsageError
from callgrove.model.runs import IntSet

if TYPE_CHECKING:
    from callgrove.execute import Engine, Workers
    from callgrove.model.metrics import Metrics
    from callgrove.model.traces.windows import TimeWindow

__all__ = [
    "ENTITIES",
    "FOR_PEOPLE",
    "TABLE_FORMATS",
    "UNSAID",
    "VALUES_OF_RUNS",
    "CostOptions",
    "ExecutionOptions",
    "FileOutput",
    "InputOptions",
    "MetricNames",
    "PathOptions",
    "ProfileOptions",
    "SelectionOptions",
    "TableOutput",
    "add_all_metrics",
    "add_derive",
    "add_execution",
    "add_format",
    "add_from",
    "add_input",
    "add_jobs",
    "add_kernel_names",
    "add_output",
    "add_path",
    "add_profiles",
    "add_remap",
    "add_run",
    "add_salvage",
    "add_selection",
    "add_specification",
    "add_study_input",
    "add_table_output",
    "add_window",
    "engine",
    "engine_for",
    "enter_cluster",
    "int_set",
    "measure_files",
    "row_limit",
    "workers_for",
]

ENTITIES = ("rank", "thread", "gpu", "device", "node", "run")  # a device is a GPU
TABLE_FORMATS = ("table", "csv", "json", "markdown", "latex", "html")
FOR_PEOPLE = ("table", "markdown", "latex", "html")  # to be read rather than processed
UNSAID = -1  # a number of rows that nobody gave
KERNEL_NAMES = ("short", "demangled")
ENDINGS = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "jsonl",
    ".md": "markdown",
    ".parquet": "parquet",
    ".tex": "latex",
    ".html": "html",
    ".svg": "svg",
}
SCALINGS = ("weak", "weak_threaded", "strong", "device")
VALUES_OF_RUNS = ("sum", "mean", "maximum", "process")


# What was given. A default is what holds where a verb has no such option.


@dataclass(frozen=True, kw_only=True)
class ExecutionOptions:
    """What the work runs on. The result does not depend on it. `workers` are those of MPI or Dask, which are there from
    the beginning to the end of a verb; no argument gives them."""

    jobs: int | None = None
    mpi: bool = False
    dask: str = ""
    workers: Workers | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, kw_only=True)
class PathOptions:
    """What to read, and as which format: by its content where that is empty."""

    paths: Sequence[str]
    from_format: str = ""

    @property
    def inputs(self) -> list[str]:
        """Every path that is read."""
        return list(self.paths)


@dataclass(frozen=True, kw_only=True)
class InputOptions(PathOptions, ExecutionOptions, ContextOptions):
    """What to open, how to read it, and what to do about damage: all that opening.py needs."""

    strict: bool
    salvage: bool
    run: str | None = None
    remap: bool = False
    spec: str = ""
    idle_threads: bool = False
    derive: Sequence[str] = ()
    kernel_names: str = ""
    rank_env: str = ""
    align: str = ""
    folder_pattern: str = ""
    points_file: str = ""
    points: Sequence[Sequence[str]] = ()  # pairs of a point and the path of its run, instead of paths
    scaling: str = ""
    study_scope: str = "exclusive"
    extrap_compat: bool = False

    @property
    def inputs(self) -> list[str]:
        """Every path that is read."""
        return [*self.paths, *(run for _, run in self.points)]

    @property
    def input_name(self) -> str:
        """How messages call the input."""
        first, *more = self.inputs
        return f"{first} and {len(more)} more" if more else first


@dataclass(frozen=True, kw_only=True)
class MetricNames:
    """Options that name metrics. What names one may define it as well: `ipc = instructions / cycles`."""

    @property
    def metric_texts(self) -> Sequence[str]:
        """What was given to name metrics."""
        raise NotImplementedError

    def defines(self, metrics: Metrics, text: str) -> bool:
        """Return whether a text defines a metric, rather than naming one that there is."""
        from callgrove.model.definitions import is_definition

        return is_definition(metrics, text)


@dataclass(frozen=True, kw_only=True)
class ProfileOptions:
    """Whose values."""

    rank: IntSet | None
    thread: IntSet | None


@dataclass(frozen=True, kw_only=True)
class SelectionOptions(MetricNames, ProfileOptions):
    """Which metric, and whose values, of which window of time."""

    metric: str | None
    window: TimeWindow | None = None

    @property
    def metric_texts(self) -> Sequence[str]:
        """What was given to name metrics."""
        return [] if self.metric is None else [self.metric]


@dataclass(frozen=True, kw_only=True)
class FileOutput:
    """A file that is replaced when everything is written; None is stdout."""

    output: str | None

    @property
    def files(self) -> Mapping[str, str | None]:
        """The files to write, by option."""
        return {"-o": self.output}


@dataclass(frozen=True, kw_only=True)
class TableOutput(FileOutput):
    """How a table is printed: the formats that a verb has, the first by default, and the one that was asked for, if
    any; a `limit` of None is all rows. `where` are conditions, of which rows fulfil one."""

    formats: Sequence[str]
    given_format: str
    limit: int | None = None
    where: Sequence[str] = ()
    safe_csv: bool = False

    def __post_init__(self) -> None:
        if self.format not in self.formats:
            raise UsageError(
                f"{self.output}: this verb does not write {self.format}; --format is {', '.join(self.formats)}"
            )
        if self.safe_csv and self.format != "csv":
            raise UsageError(f"--safe-csv is for CSV, and this is {self.format}; add --format csv or leave it out")

    @property
    def format(self) -> str:
        """As --format says, else by the ending of -o FILE: what is called x.json is JSON."""
        ending = Path(self.output).suffix.lower() if self.output else ""
        return self.given_format or ENDINGS.get(ending, self.formats[0])

    @property
    def row_limit(self) -> int | None:
        """How many rows a view may make; with --where, all, as it chooses among them."""
        return None if self.where else self.limit

    @property
    def is_for_people(self) -> bool:
        """Whether a table is to be read rather than processed."""
        return self.format in FOR_PEOPLE

    @property
    def is_printed_table(self) -> bool:
        """Whether somebody looks at a table on stdout, and at notes about it on stderr."""
        return self.format == "table" and not self.output


@dataclass(frozen=True, kw_only=True)
class CostOptions(InputOptions, SelectionOptions, TableOutput):
    """What verbs take that show the costs of one experiment."""

    all_metrics: bool


# How options are declared.


def row_limit(text: str) -> int | None:
    """Parse a number of rows; None stands for `all`."""
    if text == "all":
        return None
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number of rows nor 'all'")
    return int(text)


def add_input(
    parser: argparse.ArgumentParser, *, many: bool = False, optional: bool = False, waits: bool = False
) -> None:
    """Add PATH and the options of reading it. `optional`: something else may stand for PATH; opening fails where both
    are missing. `waits`: the verb goes on for as long as somebody looks at it, so it takes no processes of a
    cluster, which would wait as long."""
    group = parser.add_argument_group("input")
    if many:
        nargs = "*" if optional else "+"
        group.add_argument("paths", metavar="PATH", nargs=nargs, help="files or folders that a profiler wrote")
    else:
        add_path(group, "a file or folder that a profiler wrote", optional=optional)
    add_from(group)
    group.add_argument(
        "--rank-env",
        metavar="NAME",
        default="",
        help="the environment variable that holds the rank, of runs whose environment was recorded",
    )
    group.add_argument(
        "--align",
        metavar="HOW",
        default="",
        help="how to align clocks of several machines: none (default), start (every process begins at 0), "
        "or a file of host,ns",
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
        "--points", dest="points_file", metavar="FILE", default="", help="a CSV file: folder, one column per parameter"
    )
    care = group.add_mutually_exclusive_group()
    care.add_argument("--strict", action="store_true", help="refuse what is damaged or incomplete instead of warning")
    add_salvage(care)
    if waits:
        add_jobs(group)
    else:
        add_execution(parser)


def add_path(group: argparse._ActionsContainer, what: str, *, optional: bool = False) -> None:
    """Add one PATH, which is stored as a list, as where several are allowed."""
    nargs = "?" if optional else None
    group.add_argument("paths", metavar="PATH", type=lambda path: [path], nargs=nargs, default=[], help=what)


def add_study_input(parser: argparse.ArgumentParser, *, many: bool = False, waits: bool = False) -> None:
    """Add the input of verbs that take studies: a file of series, a folder of runs, or runs with their points."""
    add_input(parser, many=many, optional=True, waits=waits)
    group = parser.add_argument_group("studies")
    group.add_argument(
        "--point",
        dest="points",
        nargs=2,
        action="append",
        default=[],
        metavar=("P=4,N=100", "RUN"),
        help="a run and its parameters, instead of PATH; give it once for every run",
    )
    values = group.add_mutually_exclusive_group()
    values.add_argument(
        "--value",
        dest="scaling",
        choices=VALUES_OF_RUNS,
        default="",
        help="what a value of a run is, in any format: the sum over it, the mean or maximum over its processes (or "
        "GPUs), or one of every process (default where there are GPUs)",
    )
    values.add_argument(
        "--scaling",
        choices=SCALINGS,
        default="",
        help="the same as in Extra-P: weak (every profile counts; default), weak_threaded (without zeros), strong "
        "(their sum), device (--value process)",
    )
    group.add_argument(
        "--inclusive",
        dest="study_scope",
        action="store_const",
        const="inclusive",
        default="exclusive",
        help="take inclusive values of runs instead of exclusive ones",
    )
    group.add_argument(
        "--extrap-compat",
        action="store_true",
        help="make the series that Extra-P makes of a folder of Nsight exports, with its defects",
    )


def add_from(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--from",
        dest="from_format",
        metavar="FORMAT",
        default="",
        help="read as this format ('callgrove formats' lists them)",
    )


def add_kernel_names(group: argparse._ActionsContainer) -> None:
    """Add the option that says which name tells kernels apart; every verb that reads kernels takes it."""
    group.add_argument(
        "--kernel-names",
        choices=KERNEL_NAMES,
        default="",
        help="how kernels of Nsight exports and rocprofv3 databases are told apart: by names without parameters, or "
        "with all of them (default: as nsys and rocprofv3 do)",
    )


def add_salvage(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--salvage", action="store_true", help="keep the complete part of a text file that is cut short"
    )


def add_selection(
    parser: argparse.ArgumentParser,
    metric: str = "the metric (default: the first one that is a time, else the first)",
    *,
    contexts: bool = True,
) -> None:
    """Add the options that choose the metric, profiles and contexts; `metric` says what naming a metric means."""
    group = parser.add_argument_group("selection")
    group.add_argument("-m", "--metric", metavar="NAME", help=f"{metric}, or NAME=FORMULA, as in --derive")
    add_derive(group)
    add_profiles(group)
    add_run(group)
    if contexts:
        add_window(group, "costs and events of this part of traces alone")
        add_contexts(parser)


def add_profiles(group: argparse._ActionsContainer) -> None:
    """Add the options that choose profiles: by rank and thread, and by the place where they were measured."""
    for word in ("rank", "thread"):
        group.add_argument(
            f"--{word}", metavar="LIST", type=int_set, action=JoinValues, help=f"only these {word}s, like 0-3,7"
        )
    add_places(group)


def add_window(group: argparse._ActionsContainer, what: str) -> None:
    """Add the option that chooses a window of time."""
    group.add_argument(
        "--window",
        metavar="START:END",
        type=time_window,
        help=f"{what}, in time since the start, like 250ms:1.5s or 10%%:20%% (plain numbers: ns)",
    )


def time_window(text: str) -> TimeWindow:
    """Parse the text of --window; which times it means depends on the experiment."""
    from callgrove.model.traces.windows import TimeWindow

    try:
        return TimeWindow.parse(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def add_derive(group: argparse._ActionsContainer) -> None:
    """Add the option that defines metrics; `open_any` heeds it."""
    group.add_argument(
        "--derive",
        metavar="NAME=FORMULA",
        action="append",
        default=[],
        help="a metric that is computed from others, like 'ipc = instructions / cycles'; may be repeated",
    )


def add_run(group: argparse._ActionsContainer) -> None:
    """Add the option that chooses one of several runs; `open_any` heeds it."""
    group.add_argument(
        "--run",
        metavar="RUN",
        help="only these of several runs: by number (3, 0-3,7), parameters (p=4,n=100; r=1: the repetition) or name",
    )


def add_remap(parser: argparse.ArgumentParser) -> None:
    """Add the options that give metrics another tree; `open_any` heeds them."""
    group = parser.add_argument_group("metric tree")
    group.add_argument(
        "--remap",
        action="store_true",
        help="divide time by what contexts do, as Scalasca does (comp, mpi, omp_time, ...): by the specification in a "
        "Cube file, else by the names of functions and libraries",
    )
    add_specification(group)


def add_specification(group: argparse._ActionsContainer) -> None:
    """Add the options that say which metrics the tree has."""
    group.add_argument("--spec", metavar="FILE", default="", help="a specification of metrics, such as remapping.spec")
    group.add_argument(
        "--idle-threads",
        action="store_true",
        help="compute idle threads, limited parallelism and imbalance, too; the time of workers grows by that in which "
        "they are idle",
    )


def add_all_metrics(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--all-metrics",
        action="store_true",
        help="show every column that the profiler wants shown; -m still chooses and orders the rows",
    )


def add_format(group: argparse._ActionsContainer, formats: Sequence[str] = TABLE_FORMATS) -> None:
    """Add the option that says how a table is written: as told, else by the ending of a file, else as the first of
    `formats`."""
    told = f"default: by the ending of FILE, else {formats[0]}"
    group.add_argument("--format", dest="given_format", choices=formats, default="", help=told)
    if "csv" in formats:
        told = "in CSV, mark texts that a spreadsheet would take for formulas (=, +, -, @) by an apostrophe"
        group.add_argument("--safe-csv", action="store_true", help=told)
    group.set_defaults(formats=tuple(formats))


def _name_output(text: str) -> str | None:
    """Return the name of a file, or None for stdout; a file of the name `-` is `./-`."""
    return None if text == "-" else text


def add_output(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "-o", "--output", type=_name_output, metavar="FILE", help="write to this file instead of stdout (-)"
    )


def add_table_output(
    parser: argparse.ArgumentParser,
    *,
    formats: Sequence[str] = TABLE_FORMATS,
    limit: int | None = None,
    per_section: int | None = None,
    where: bool = False,
) -> None:
    """Add the options of printing a table; the first of `formats` is the default, and so is `limit` (None: all rows).
    Where a table has sections, `per_section` is how many rows of each are shown to people; `limit` is UNSAID then.
    `where`: rows can be chosen by conditions."""
    group = parser.add_argument_group("output")
    add_format(group, formats)
    add_output(group)
    if where:
        add_where(group)
    shown, rows = "all" if limit is None else str(limit), "rows"
    if per_section is not None:
        limit, shown, rows = UNSAID, f"{per_section} in tables, else all", "rows of each section"
    group.add_argument(
        "--limit", metavar="N", type=row_limit, default=limit, help=f"at most N {rows}, or 'all' (default: {shown})"
    )


def add_where(group: argparse._ActionsContainer) -> None:
    """Add the option that chooses rows of the table that is printed; numbers stay what they are."""
    group.add_argument(
        "--where",
        metavar="CONDITION",
        action="append",
        default=[],
        help="only rows that fulfil this, like 'percent > 5 and name !~ /^MPI_/' or 'time > 2ms'",
    )


def n_processes(text: str) -> int:
    """Parse a number of processes: one or more."""
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of processes")
    return int(text)


def add_execution(parser: argparse.ArgumentParser) -> None:
    """Add the options that say what the work runs on. The result does not depend on it."""
    group = parser.add_argument_group("execution").add_mutually_exclusive_group()
    add_jobs(group, "use N processes")
    group.add_argument("--mpi", action="store_true", help="use the processes of an MPI run (mpirun, srun)")
    group.add_argument(
        "--dask", metavar="ADDRESS", default="", help="use the Dask cluster whose scheduler is at this address"
    )


def add_jobs(group: argparse._ActionsContainer, what: str = "open many files on N processes") -> None:
    default = "default: one for each usable core, or just one if the input is small"
    group.add_argument("-j", "--jobs", metavar="N", type=n_processes, help=f"{what} ({default})")


MOST_LOOKED_AT = 1 << 14  # entries of a folder
WORTH_PROCESSES = 256 << 20  # bytes of input for which starting more processes pays off


def engine_for(options: ExecutionOptions, paths: Sequence[str], per_file: int = 0) -> Engine:
    """Return what to run on; unless the user says it, that is one process where the input is small. `per_file` is what
    opening a file costs, in bytes that could be read instead."""
    from callgrove.execute import Engine

    asked = engine(options)
    if asked != Engine():
        return asked
    total = 0
    for size in chain.from_iterable(measure_files(path) for path in paths):
        total += size + per_file
        if total >= WORTH_PROCESSES:
            return asked
    return Engine(jobs=1)


def measure_files(path: str) -> Iterator[int]:
    """Yield the bytes of a file, or of each file in a folder; nothing for a path that does not exist."""
    root = Path(path)
    files = islice(root.rglob("*"), MOST_LOOKED_AT) if root.is_dir() else [root]
    with suppress(OSError):
        yield from (file.stat().st_size for file in files if file.is_file())


def engine(options: ExecutionOptions) -> Engine:
    """Return what the user says to run on. Enter `execute.executor` with it before anything else is done: under MPI all
    processes come here, and only one of them may go on."""
    from callgrove.execute import Engine

    return Engine(options.jobs, options.mpi, options.dask)


Given = TypeVar("Given")


@contextmanager
def enter_cluster(options: Given) -> Iterator[Given]:
    """Yield the options of a verb, with the workers of MPI or Dask where these were asked for: every verb that has the
    options runs inside, so that under MPI one process goes on, and the others work for it until the verb ends."""
    if not (isinstance(options, ExecutionOptions) and (options.mpi or options.dask)):
        yield options
        return
    from callgrove.execute import executor

    with executor(engine(options)) as workers:
        yield replace(options, workers=workers)


@contextmanager
def workers_for(
    options: ExecutionOptions, paths: Sequence[str], preload: Sequence[str] = (), per_file: int = 0
) -> Iterator[Workers]:
    """Yield the workers of a verb: those of a cluster that it runs on, else processes as `engine_for` says. `preload`
    are modules with all that processes will need."""
    if options.workers is not None:
        yield options.workers
        return
    from callgrove.execute import executor

    with executor(engine_for(options, paths, per_file), preload) as workers:
        yield workers
