"""`callgrove rocpd`, also `python -m callgrove.rocpd`: the command `rocpd` of ROCm, in its words.

    rocpd convert -i a.db b.db -f pftrace csv -d out -o run      callgrove rocpd convert -i a.db b.db ...

Every subcommand is translated into a verb of callgrove, which does the work; so numbers are those of that verb, not of
the views in the databases. What ROCm's command can do and this one cannot is refused by name, with what to use instead.

    convert    callgrove convert     -d PATH -o NAME: PATH/NAME_results.pftrace, PATH/NAME_kernel_trace.csv, ...
    merge      callgrove convert --to rocpd                  PATH/NAME.db
    package    callgrove merge --index                       PATH.rpdb/index.yaml
    query      callgrove sql --engine sqlite                 stdout, or PATH/NAME.csv, ...
    summary    callgrove summary                             stdout, or PATH/NAME_kernels_summary.csv, ...

Options, defaults, names of files and of columns were taken from the documentation and the sources of rocprofiler-sdk
(source/lib/python/rocpd of 2025 and 2026).
"""

from __future__ import annotations

import argparse
import glob
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from callgrove._version import __version__
from callgrove.cli.parser import Command, Parser, RefuseOption
from callgrove.errors import UsageError

if TYPE_CHECKING:
    from callgrove.cli.verbs.summary import Options as SummaryOptions
    from callgrove.model.experiment import Experiment
    from callgrove.model.table import Table
    from callgrove.model.traces.events import Window

CONVERT, MERGE, PACKAGE, QUERY, SUMMARY = SUBCOMMANDS = ("convert", "merge", "package", "query", "summary")
TRACES = {"pftrace": "perfetto", "csv": "rocprof-csv", "otf2": "otf2", "json": "chrome-json"}
TABLES = {"console": "table", "csv": "csv", "html": "html", "json": "json", "md": "markdown"}
FOLDER, NAME = "./rocpd-output-data", "out"
WINDOW = ("start", "end", "start_marker", "end_marker", "inclusive")
IGNORED = (
    "--perfetto-backend",
    "--perfetto-buffer-size",
    "--perfetto-buffer-fill-policy",
    "--perfetto-shmem-size-hint",
)
TAKES: Mapping[str, tuple[str, ...]] = {  # fields of `Options` that a subcommand has a use for
    CONVERT: (
        *("formats", "output_file", "output_path", "kernel_rename", "agent_index", "by_queue", *WINDOW),
        *("annotate_args", "annotate_pmc", "no_annotate_kfd", "ignored"),
    ),
    MERGE: ("output_file", "output_path"),
    PACKAGE: ("output_path", "consolidate", "copy"),
    QUERY: ("formats", "output_file", "output_path", "query", *WINDOW),
    SUMMARY: (
        *("formats", "output_file", "output_path", *WINDOW, "domain_summary", "summary_by_rank"),
        *("region_categories", "truncate_kernels"),
    ),
}
INSTEAD = {  # what ROCm's command has and this one has not, and what to use
    "--script": "views of a script cannot be added here; write them into the query: WITH name AS (SELECT ...) SELECT",
    "--template-path": "there are no dashboards here; `callgrove report` makes a page with pictures and tables",
    "--email-to": "no mail is sent here; write a file (--format csv) and send it with `mail -a FILE`",
    "--mangled-kernels": "kernels go by their display names; ask for kernel_name of kernel_symbols with `rocpd query`",
    **dict.fromkeys(("--email-from", "--email-subject", "--smtp-server", "--smtp-port"), "no mail is sent here"),
    **dict.fromkeys(("--smtp-user", "--smtp-password"), "no mail is sent here"),
    **dict.fromkeys(("--zip-attachments", "--inline-preview"), "no mail is sent here"),
}
NO_VALUE = ("--mangled-kernels", "--zip-attachments", "--inline-preview")
FORMATS_INSTEAD = {
    "pdf": "write html and print it from a browser, or latex with `callgrove sql --format latex`",
    "dashboard": "`callgrove report` makes a page with pictures and tables",
    "clipboard": "write csv to a file, or pipe what is printed to xclip",
    "rocpd": "`rocpd merge` writes one database",
}


@dataclass(frozen=True, kw_only=True)
class Options:
    subcommand: str
    paths: Sequence[str]
    formats: Sequence[str]
    output_file: str
    output_path: str
    kernel_rename: bool
    agent_index: str
    by_queue: bool
    annotate_args: bool
    annotate_pmc: bool
    no_annotate_kfd: bool
    ignored: Sequence[str]
    start: str
    end: str
    start_marker: str
    end_marker: str
    inclusive: str
    query: str
    domain_summary: bool
    summary_by_rank: bool
    region_categories: Sequence[str]
    truncate_kernels: bool
    consolidate: bool
    copy: bool


# -- arguments ---------------------------------------------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "callgrove rocpd COMMAND -i DB [DB ...] [options]"
    parser.add_argument(
        "-v", "--version", action="version", version=f"callgrove {__version__}", help="show the version"
    )
    parser.add_argument("subcommand", metavar="COMMAND", choices=SUBCOMMANDS, help="one of " + ", ".join(SUBCOMMANDS))
    parser.add_argument(
        "-i", "--input", dest="paths", metavar="DB", nargs="+", required=True, help="databases, or folders of them"
    )
    output = parser.add_argument_group("output")
    output.add_argument(
        *("-f", "--output-format", "--format"),
        dest="formats",
        metavar="FORMAT",
        nargs="+",
        default=[],
        help=f"one or more, convert: {', '.join(TRACES)}; query and summary: {', '.join(TABLES)} (default: console)",
    )
    output.add_argument(
        "-o", "--output-file", metavar="NAME", default="", help=f"how files are called (default: {NAME})"
    )
    output.add_argument(
        "-d", "--output-path", metavar="PATH", default="", help=f"the folder for them (default: {FOLDER})"
    )
    _add_traces(parser.add_argument_group("convert"))
    window = parser.add_argument_group("window of time (convert, query, summary)")
    for side in ("start", "end"):
        one = window.add_mutually_exclusive_group()
        one.add_argument(f"--{side}", metavar="TIME", default="", help="ns of the traces' clock, or a share like 30%%")
        one.add_argument(f"--{side}-marker", metavar="NAME", default="", help="the marker of that name")
    window.add_argument(
        "--inclusive",
        metavar="true|false",
        default="",
        help="true: what lies inside (default); false: what touches the window",
    )
    _add_questions(parser)
    for word, instead in INSTEAD.items():
        parser.add_argument(word, action=RefuseOption, nargs=0 if word in NO_VALUE else None, const=instead)


def _add_traces(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--kernel-rename", action="store_true", help="name kernels after their ROCTx range")
    group.add_argument(
        "--agent-index-value", dest="agent_index", default="", choices=("absolute", "relative", "type-relative")
    )
    group.add_argument("--group-by-queue", dest="by_queue", action="store_true", help="queues instead of streams")
    group.add_argument("--annotate-args", action="store_true", help="add arguments of calls to slices")
    group.add_argument("--annotate-pmc", action="store_true", help="accepted: slices have counters in any case")
    group.add_argument("--no-annotate-kfd", action="store_true", help="accepted: slices have no KFD data")
    for word in IGNORED:
        group.add_argument(word, dest="ignored", metavar="X", action="append", default=[], help=argparse.SUPPRESS)


def _add_questions(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("query")
    group.add_argument("--query", metavar="SQL", default="", help="one SELECT, in SQLite's words")
    group = parser.add_argument_group("summary")
    group.add_argument("--domain-summary", action="store_true", help="also by domain: KERNELS, HIP, ...")
    group.add_argument("--summary-by-rank", action="store_true", help="also for each process")
    group.add_argument(
        "--region-categories", metavar="NAME", nargs="+", default=[], help="only these, like HIP HSA MARKERS, or NONE"
    )
    group.add_argument("--truncate-kernels", action="store_true", help="names of kernels without their parameters")
    group = parser.add_argument_group("package")
    group.add_argument("-c", "--consolidate", action="store_true", help="put databases into the folder (with --copy)")
    group.add_argument("--copy", action="store_true", help="copy them; callgrove never moves an input")


# -- what they mean ----------------------------------------------------------------------------------------------------


def run(options: Options) -> int:
    _refuse_unused(options)
    options = replace(options, paths=list(_find_inputs(options.paths)))
    todo = {CONVERT: _convert, MERGE: _merge, PACKAGE: _package, QUERY: _query, SUMMARY: _summarise}
    return todo[options.subcommand](options)


def _refuse_unused(options: Options) -> None:
    """Refuse options that the subcommand does not have."""
    for field, value in asdict(options).items():
        if value and field not in ("subcommand", "paths", *TAKES[options.subcommand]):
            flags = {"formats": "--format", "agent_index": "--agent-index-value", "by_queue": "--group-by-queue"}
            flag = flags.get(field, "--" + field.replace("_", "-"))
            takers = [name for name in SUBCOMMANDS if field in TAKES[name]]
            raise UsageError(f"{flag}: says nothing to `rocpd {options.subcommand}`; it is for {' and '.join(takers)}")


def _find_inputs(paths: Sequence[str]) -> Iterator[str]:
    """Yield files and folders; patterns that the shell left alone become what they match."""
    for path in paths:
        named = str(Path(path).expanduser())
        is_pattern = not os.path.lexists(named) and glob.has_magic(named)
        matches = sorted(glob.glob(named)) if is_pattern else [named]  # noqa: PTH207 - patterns may be absolute
        if not matches:
            raise UsageError(f"{path}: matches no file")
        yield from matches


def _run_verb(name: str, words: Sequence[str]) -> int:
    """Run a verb of callgrove with these arguments."""
    from callgrove.cli.main import VERBS, load_command

    verb = next(verb for verb in VERBS if verb.name == name)
    command, parser = load_command(verb), Parser(f"callgrove {name}")
    command.add_arguments(parser)
    return command.run(parser.read(words, command.options))


def _output_folder(options: Options) -> Path:
    """Return the folder for files, which is made where it is missing."""
    named = options.output_path or os.environ.get("ROCPD_OUTPUT_PATH", FOLDER)
    if "%" in named or "%" in options.output_file:
        raise UsageError(f"{named}: names like %hostname% are not filled in here; write out the folder and the name")
    folder = Path(named).expanduser()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _output_name(options: Options, usual: str = NAME) -> str:
    return options.output_file or os.environ.get("ROCPD_OUTPUT_NAME", usual)


def _time(text: str) -> str:
    """Return a time in the words of callgrove: numbers are of the traces' own clock."""
    if not text or text.endswith("%"):
        return text
    try:
        return f"@{int(float(text))}"
    except (ValueError, OverflowError):
        raise UsageError(f"{text}: a window begins and ends at a number of ns, or at a share like 30%") from None


def _window_words(options: Options) -> list[str]:
    """Return the words of callgrove for the window."""
    words = [f"--window={_time(options.start)}:{_time(options.end)}"] if options.start or options.end else []
    for side, marker in (("start", options.start_marker), ("end", options.end_marker)):
        words += [f"--{side}-marker={marker}"] if marker else []
    return [*words, f"--window-mode={_window_mode(options)}"]


def _window_mode(options: Options) -> str:
    word = options.inclusive.lower()
    if word and word not in ("true", "t", "yes", "1", "false", "f", "no", "0"):
        raise UsageError(f"--inclusive {options.inclusive}: is neither true nor false")
    return "touch" if word in ("false", "f", "no", "0") else "inside"


# -- convert, merge, package -------------------------------------------------------------------------------------------


def _convert(options: Options) -> int:
    formats = [word.lower().replace("perfetto", "pftrace") for word in dict.fromkeys(options.formats)]
    _refuse_formats(formats, TRACES)
    if not formats:
        raise UsageError(f"--output-format: name one or more of {', '.join(TRACES)}")
    folder, name = _output_folder(options), _output_name(options)
    return max(_run_verb("convert", list(_convert_words(options, word, folder / name))) for word in formats)


def _convert_words(options: Options, word: str, stem: Path) -> Iterator[str]:
    yield from options.paths
    yield str(stem) if word == "csv" else f"{stem}_results.{word}"
    yield from ("--to", TRACES[word], "--force", *_window_words(options))
    if options.kernel_rename and word != "otf2":
        yield "--kernel-rename"
    yield from ("--agent-index-value", options.agent_index or "relative")
    if word == "csv":
        return
    yield from ("--track-names", "rocpd", *(["--group-by-queue"] if options.by_queue else []))
    if word != "otf2":
        yield from ("--annotations", "all" if options.annotate_args else "default")
        yield from (f"{flag}=0" for flag in IGNORED[: bool(options.ignored)])


def _refuse_formats(formats: Sequence[str], known: Mapping[str, str]) -> None:
    for word in formats:
        if word in FORMATS_INSTEAD:
            raise UsageError(f"{word} is not written here; {FORMATS_INSTEAD[word]}")
        if word not in known:
            raise UsageError(f"{word!r} is not a format here; there are {', '.join(known)}")


def _merge(options: Options) -> int:
    name = _output_name(options, "merged")
    target = _output_folder(options) / (name if name.endswith(".db") else f"{name}.db")
    return _run_verb("convert", [*options.paths, str(target), "--to", "rocpd", "--force"])


def _package(options: Options) -> int:
    """Write an index of databases: into this folder, or into one of its own, with copies of them if wanted."""
    from datetime import datetime

    from callgrove.binary.files import Source
    from callgrove.cli.messages import note
    from callgrove.formats.interface import Indexes, WriteOptions
    from callgrove.formats.registry import detect

    if options.consolidate and not options.copy:
        raise UsageError("--consolidate: moves databases, and callgrove changes no input; add --copy")
    source = Source.of_all(options.paths)
    format_ = detect(source)[0]
    if not isinstance(format_, Indexes):
        raise UsageError(f"{source.path}: a package holds databases of one run, and this is {format_.name}")
    here = f"rocpd-{datetime.now():%Y%m%d-%H%M%S}.rpdb" if options.consolidate else "."
    named = options.output_path and f"{options.output_path.rstrip('/').removesuffix('.rpdb')}.rpdb"
    target = Path(named or here).expanduser()
    if options.consolidate and any(Path(path).resolve() == target.resolve() for path in options.paths):
        raise UsageError(f"{target}: is an input, which is never changed; name another folder (-d)")
    target.parent.mkdir(parents=True, exist_ok=True)
    n_files = format_.write_index(source, target, WriteOptions(overwrite=True), copies=options.consolidate)
    note(f"{target}: a package of {n_files} databases, which open as one")
    return 0


# -- query and summary -------------------------------------------------------------------------------------------------


def _query(options: Options) -> int:
    if not options.query:
        raise UsageError("--query: give one SELECT in quotes")
    words = [*options.paths, options.query, "--engine=sqlite", *_window_words(options)]
    return max(_run_verb("sql", [*words, *_table_words(options, word, "")]) for word in _table_formats(options))


def _table_words(options: Options, word: str, suffix: str) -> list[str]:
    """Return how a table is printed: on the console, or to a file of the format."""
    if word == "console":
        return ["--format=table"]
    return [f"--format={TABLES[word]}", f"--output={_output_folder(options) / (_output_name(options) + suffix)}.{word}"]


def _table_formats(options: Options) -> list[str]:
    formats = list(dict.fromkeys(word.lower() for word in options.formats))
    _refuse_formats(formats, TABLES)
    return formats or ["console"]


COLUMNS = {  # of ROCm's summaries, from those of `callgrove summary`
    "Name": "name",
    "Calls": "count",
    "DURATION (nsec)": "total_ns",
    "AVERAGE (nsec)": "mean_ns",
    "PERCENT (INC)": "percent",
    "MIN (nsec)": "min_ns",
    "MAX (nsec)": "max_ns",
    "STD_DEV": "std_ns",
}
DOMAINS = {"kernels": "kernels", "copies": "memory_copies", "allocations": "memory_allocations", "markers": "markers"}
BY_LIBRARY = ("api", "regions", "sync")  # sections whose rows are told apart by the first word of their category
Row = dict[str, object]


def _summarise(options: Options) -> int:
    """Print or write the tables of ROCm's summary, each of which is a part of `callgrove summary`."""
    from callgrove.cli.opening import open_experiment, say_damage_met
    from callgrove.cli.output import emit
    from callgrove.cli.verbs.summary import SUMMARY as VERB

    parser = Parser("callgrove summary")
    VERB.add_arguments(parser)
    names = ["--kernel-names=short"] if options.truncate_kernels else []
    asked = parser.read([*options.paths, "--limit=all", *names, *_window_of_summary(options)], VERB.options)
    formats = _table_formats(options)
    experiment = open_experiment(asked, fold=False)
    for name, table in _summary_tables(experiment, asked, options):
        for word in formats:
            if word == "console":
                print(f"\n{name.upper()}:")
            how = parser.read([*options.paths, *_table_words(options, word, f"_{name}")], VERB.options)
            emit(table, replace(how, limit=None))
    return say_damage_met(experiment, asked)


def _window_of_summary(options: Options) -> list[str]:
    words = [word for word in _window_words(options) if not word.startswith("--window=")]
    times = {"--start": _time(options.start), "--end": _time(options.end)}
    return [*words, *(f"{flag}={text}" for flag, text in times.items() if text)]


def _summary_tables(experiment: Experiment, asked: SummaryOptions, options: Options) -> Iterator[tuple[str, Table]]:
    """Yield the tables with their names, those of the largest domains first."""
    from callgrove.cli.verbs.summary import choose_window

    window = choose_window(experiment, asked)
    domains = [row for row in _rows(experiment, asked, window, "domain") if _is_wanted(row, options.region_categories)]
    for ranks in (False, True)[: 1 + options.summary_by_rank]:
        suffix = "_summary_by_rank" if ranks else "_summary"
        for domain in dict.fromkeys(map(_name_domain, domains)):
            section = next(str(row["section"]) for row in domains if _name_domain(row) == domain)
            part = experiment.select(categories=[domain]) if section in BY_LIBRARY else experiment
            rows = _rows(part, asked, window, *(["rank"] if ranks else []))
            yield domain + suffix, _table_of([row for row in rows if row["section"] == section], experiment, ranks)
        if options.domain_summary:
            every = _rows(experiment, asked, window, "domain", *(["rank"] if ranks else []))
            rows = [{**row, "name": _name_domain(row).upper()} for row in every]
            yield (
                "domain" + suffix,
                _table_of([row for row in rows if _is_wanted(row, options.region_categories)], experiment, ranks),
            )


def _rows(experiment: Experiment, asked: SummaryOptions, window: Window | None, *by: str) -> list[Row]:
    """Return rows of `callgrove summary`, divided by some things."""
    from callgrove.analysis.summary import summarise, table
    from callgrove.analysis.summary_sections import By, WindowMode

    sections = (*DOMAINS, *BY_LIBRARY)
    summary = summarise(experiment, [By(word) for word in by], window, WindowMode(asked.window_mode), sections=sections)
    made = table(summary, sections)
    return [dict(zip(made.names, cells, strict=True)) for cells in made.rows()]


def _name_domain(row: Row) -> str:
    """Return what ROCm calls the domain of a row: that of the library, or what is done."""
    section = str(row["section"])
    return DOMAINS[section] if section in DOMAINS else str(row["domain"] or section).lower()


def _is_wanted(row: Row, categories: Sequence[str]) -> bool:
    """Return whether the categories name the domain of a row; NONE leaves out regions and markers."""
    if not categories:
        return True
    domain, words = _name_domain(row), [word.lower() for word in categories]
    if words == ["none"]:
        return row["section"] in ("kernels", "copies", "allocations")
    return any(domain in (word, f"{word}s") or domain.startswith(f"{word}_") for word in words)


def _table_of(rows: Sequence[Row], experiment: Experiment, ranks: bool) -> Table:
    """Return rows in the columns of ROCm's summaries; shares of ranks are of each rank's time."""
    from callgrove.model.table import Table

    if not ranks:
        return Table.from_rows(list(COLUMNS), [[row[name] for name in COLUMNS.values()] for row in rows])
    places, totals = _places_of_ranks(experiment), Counter[object]()
    for row in rows:
        totals[row["rank"]] += _number(row["total_ns"])
    cells = []
    for row in sorted(rows, key=lambda row: _number(row["rank"])):
        total, place = totals[row["rank"]], places.get(row["rank"], (None, None))
        shared = {**row, "percent": 100 * _number(row["total_ns"]) / total if total else None}
        cells.append([row["rank"], *place, *(shared[name] for name in COLUMNS.values())])
    return Table.from_rows(["Rank", "Hostname", "ProcessID", *COLUMNS], cells)


def _number(cell: object) -> int:
    return cell if isinstance(cell, int) else -1


def _places_of_ranks(experiment: Experiment) -> dict[object, tuple[object, object]]:
    """Return host and process number of each rank."""
    tables = experiment.traces.tables
    if not {"places", "processes"} <= tables.keys():
        return {}
    processes, owner = tables["processes"](), tables["places"]().column("process").plain()
    hosts, pids = (processes.column(name).plain() for name in ("hostname", "pid"))
    ranks = experiment.profiles.identity_list("rank")
    return {rank: (hosts[k], pids[k]) for rank, k in zip(ranks, owner, strict=True) if isinstance(k, int) and k >= 0}


ROCPD = Command(Options, add_arguments, run)
