"""The list of formats, detection by content, and opening a path.

A format is named here by one line and imported when it is needed, so that a broken or heavy one cannot hurt the
others.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NoReturn, cast

from callgrove.binary.sources import Source
from callgrove.errors import InputError, NotRecognised, Parameter, UsageError
from callgrove.formats.detection import Claim, claims_on, named_like, strongest
from callgrove.formats.interface import Checks, Format, Problem, ReadOptions, Writes, WritesStudies
from callgrove.model.experiment import Experiment, Severity
from callgrove.model.study import Study
from callgrove.model.table import Table

__all__ = [
    "BECOMES",
    "FORMATS",
    "Entry",
    "check",
    "check_path",
    "checked_dialect",
    "detect",
    "entry_of",
    "format_for_target",
    "formats_for_target",
    "load",
    "open_path",
    "open_paths",
    "open_source",
    "refuse_unused",
    "settled",
    "writer_of",
]


HPCTOOLKIT_PARTS = ("profile.db", "cct.db", "trace.db", "meta.db")
HPCRUN_TRACES = "hpcrun records them with -t"
OTF2_OPTIONS = ("annotations", "track_names", "by_queue", "kernel_rename", "agent_index")
VIEWER_OPTIONS = (*OTF2_OPTIONS, "real_pids", "keep_partial")


@dataclass(frozen=True)
class Entry:
    """One line of the registry. `place` is `module:object`; `extra` names the optional dependency it needs.

    `dialects` are the variants that can be written, the default first; `suffixes` are the endings of target names
    that choose this format for writing (content alone decides on reading). `sets`: it opens many paths as one, and
    knows the environments and clocks of processes, which `ReadOptions.rank_env` and `.align` are about.
    `series`: it holds series over parameters instead of an execution. `traces`: it holds what happened over time and
    nothing else, so that nobody needs to make a profile of it. `fills`: its files go into a folder that is there
    already, beside others. `heeds` are the fields of `WriteOptions` about traces that make a difference to it.
    `untraced`: how its profiler records traces, for those who have data without any. `becomes`: the formats of what its
    tool makes of it, which is one run with what it is made of. `usual` are names, or endings of names, that its files
    or what is in its folders usually have: it is asked first then, and whoever knows the content decides.
    """

    name: str
    title: str
    place: str
    reads: bool = True
    writes: bool = False
    sets: bool = False
    series: bool = False
    traces: bool = False
    fills: bool = False
    heeds: tuple[str, ...] = ()
    untraced: str = ""
    becomes: tuple[str, ...] = ()
    dialects: tuple[str, ...] = ()
    suffixes: tuple[str, ...] = ()
    usual: tuple[str, ...] = ()
    extra: str = ""
    needs: str = ""  # the module that the extra brings

    def load(self) -> Format:
        """The format itself, imported now."""
        return _loaded(self.place)


@cache
def _loaded(place: str) -> Format:
    module, _, name = place.partition(":")
    return cast(Format, getattr(importlib.import_module(module), name))


FORMATS: tuple[Entry, ...] = (
    Entry(
        "hpctoolkit-prerelease",
        "HPCToolkit database before 4.0 was released (experiment.xml)",
        "callgrove.formats.hpctoolkit.prerelease:FORMAT",
        untraced=HPCRUN_TRACES,
        usual=("experiment.xml", *HPCTOOLKIT_PARTS[:3]),
        writes=True,
        dialects=("genuine", "document"),
    ),
    Entry(
        "hpctoolkit-release",
        "HPCToolkit database since 4.0 was released (meta.db)",
        "callgrove.formats.hpctoolkit.release:FORMAT",
        untraced=HPCRUN_TRACES,
        usual=HPCTOOLKIT_PARTS,
        writes=True,
        suffixes=(".d",),
    ),
    Entry(
        "hpctoolkit-legacy",
        "HPCToolkit database of the years before (experiment.xml 2.x)",
        "callgrove.formats.hpctoolkit.legacy:FORMAT",
        untraced=HPCRUN_TRACES,
        usual=("experiment.xml",),
    ),
    Entry(
        "hpcrun",
        "HPCToolkit measurements: .hpcrun files 02.00 to 04.00, or a folder of them",
        "callgrove.formats.hpcrun.format:FORMAT",
        untraced=HPCRUN_TRACES,
        becomes=("hpctoolkit-prerelease", "hpctoolkit-release", "hpctoolkit-legacy"),
        usual=(".hpcrun",),
        writes=True,
        dialects=("04.00", "02.00-b", "02.00-a"),
        suffixes=(".hpcrun",),
    ),
    Entry(
        "hpctrace",
        "HPCToolkit trace of one thread or GPU stream (.hpctrace)",
        "callgrove.formats.hpcrun.hpctrace:FORMAT",
        usual=(".hpctrace",),
        writes=True,
        dialects=("01.01", "01.01-us", "01.00"),
        suffixes=(".hpctrace",),
    ),
    Entry(
        "hpcstruct",
        "HPCToolkit structure of load modules (.hpcstruct)",
        "callgrove.formats.hpcrun.hpcstruct:FORMAT",
        usual=(".hpcstruct",),
    ),
    Entry(
        "cube",
        "Cube 4 (.cubex) of Score-P, Scalasca and CubeLib",
        "callgrove.formats.cube.format:FORMAT",
        untraced="Score-P writes them as OTF2, with SCOREP_ENABLE_TRACING=true",
        usual=(".cubex", "anchor.xml"),
        writes=True,
        dialects=("plain", "compressed"),
        suffixes=(".cubex",),
    ),
    Entry(
        "extrap-text",
        "Extra-P text file (PARAMETER, POINTS, REGION, DATA)",
        "callgrove.formats.extrap.text:FORMAT",
        usual=(".txt",),
        writes=True,
        series=True,
        suffixes=(".txt",),
    ),
    Entry(
        "extrap-talpas",
        "Extra-P TaLPas file (a line per value)",
        "callgrove.formats.extrap.records:TALPAS",
        usual=(".talpas", ".txt"),
        writes=True,
        series=True,
        suffixes=(".talpas",),
    ),
    Entry(
        "extrap-json",
        "Extra-P JSON file",
        "callgrove.formats.extrap.json_new:FORMAT",
        usual=(".json",),
        writes=True,
        series=True,
        suffixes=(".json",),
    ),
    Entry(
        "extrap-json-old",
        "Extra-P JSON file of the older form (ids)",
        "callgrove.formats.extrap.json_old:FORMAT",
        usual=(".json",),
        writes=True,
        series=True,
    ),
    Entry(
        "extrap-jsonl",
        "Extra-P JSON Lines file",
        "callgrove.formats.extrap.records:JSON_LINES",
        usual=(".jsonl",),
        writes=True,
        series=True,
        suffixes=(".jsonl",),
    ),
    Entry(
        "extrap-experiment",
        "Extra-P experiment with its models (.extra-p)",
        "callgrove.formats.extrap.experiment:FORMAT",
        usual=(".extra-p",),
        writes=True,
        series=True,
        suffixes=(".extra-p",),
    ),
    Entry(
        "extrap-binary3",
        "Extra-P 3 experiment (binary)",
        "callgrove.formats.extrap.binary3:FORMAT",
    ),
    Entry(
        "runs",
        "folder of runs, one per parameter point",
        "callgrove.formats.runs.folder:FORMAT",
    ),
    Entry(
        "rocpd",
        "rocprofv3 database (rocpd, SQLite)",
        "callgrove.formats.gpu.formats:ROCPD",
        usual=(".db", "index.yaml"),
        writes=True,
        sets=True,
    ),
    Entry(
        "rocpd-draft",
        "draft of rocprofv3's multi-node schema (SQLite)",
        "callgrove.formats.gpu.formats:DRAFT",
        usual=(".db", "index.yaml"),
        writes=True,
        sets=True,
    ),
    Entry(
        "rpd",
        "RPD database (rocmProfileData, SQLite)",
        "callgrove.formats.gpu.formats:RPD",
        sets=True,
        usual=(".rpd", ".db"),
    ),
    Entry(
        "nsight",
        "Nsight Systems export (SQLite)",
        "callgrove.formats.gpu.formats:NSIGHT",
        sets=True,
        usual=(".sqlite", ".db"),
    ),
    Entry(
        "perfetto",
        "Perfetto trace (protocol buffers)",
        "callgrove.formats.timeline.perfetto.format:FORMAT",
        reads=False,
        writes=True,
        traces=True,
        heeds=VIEWER_OPTIONS,
        suffixes=(".pftrace", ".perfetto-trace", ".pftrace.gz", ".perfetto-trace.gz"),
    ),
    Entry(
        "chrome-json",
        "Chrome trace events (JSON) for chrome://tracing, Perfetto, speedscope",
        "callgrove.formats.timeline.chrome_json:FORMAT",
        reads=False,
        writes=True,
        traces=True,
        heeds=VIEWER_OPTIONS,
        suffixes=(".json", ".json.gz"),
    ),
    Entry(
        "otf2",
        "OTF2 archive (a folder) for Vampir and the tools of Score-P",
        "callgrove.formats.timeline.otf2_archive:FORMAT",
        reads=False,
        writes=True,
        traces=True,
        heeds=OTF2_OPTIONS,
        suffixes=(".otf2",),
        extra="otf2",
        needs="otf2",
    ),
    Entry(
        "rocprof-csv",
        "CSV files as rocprofv3's converter writes them (2025 or 2026)",
        "callgrove.formats.rocprof_csv.format:FORMAT",
        reads=False,
        writes=True,
        traces=True,
        fills=True,
        heeds=("kernel_rename", "agent_index", "keep_partial"),
        dialects=("rocprofv3", "2025", "2026", "extended"),
    ),
    Entry(
        "callgrove",
        "callgrove's own folder of Parquet tables",
        "callgrove.formats.columnar.format:FORMAT",
        usual=("callgrove.json",),
        writes=True,
        suffixes=(".cgrove",),
        extra="arrow",
        needs="pyarrow",
    ),
)


BECOMES = {entry.name: entry.becomes for entry in FORMATS}


def load(name: str) -> Format:
    """The format of that name."""
    return entry_of(name).load()


def writer_of(name: str) -> Writes | WritesStudies:
    """The format of that name, if it can be written."""
    format_ = load(name)
    if not isinstance(format_, Writes | WritesStudies):
        able = ", ".join(e.name for e in FORMATS if e.writes)
        raise UsageError(f"the format {name} can be read, but not written; these can: {able}")
    return format_


def formats_for_target(target: str | Path) -> list[str]:
    """The names of the formats that the ending of a target's name may mean; there may be one for executions and
    another one for series."""
    name = Path(target).name
    found = [entry.name for entry in FORMATS if entry.writes and name.endswith(entry.suffixes or ("\0",))]
    if found:
        return found
    nothing = f"{target}: its ending names no format to write; choose one with "
    raise UsageError(nothing, Parameter("to_format"), " ('callgrove formats')")


def format_for_target(target: str | Path, *, series: bool | None = None) -> str:
    """The name of the format that the ending of a target's name chooses: among those for series over parameters, among
    the others, or the first of all."""
    found = formats_for_target(target)
    return next((name for name in found if series is None or entry_of(name).series == series), found[0])


def entry_of(name: str) -> Entry:
    """The line of the registry of that name."""
    entry = next((e for e in FORMATS if e.name == name), None)
    if entry is None:
        names = [e.name for e in FORMATS]
        near = difflib.get_close_matches(name, names, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
        raise UsageError(f"there is no format {name!r}; {hint}")
    return entry


def checked_dialect(name: str, dialect: str) -> str:
    """The dialect to write a format in; the first one is the default."""
    dialects = next(e.dialects for e in FORMATS if e.name == name)
    if dialect and dialect not in dialects:
        there = f"has {', '.join(dialects)}" if dialects else "has no dialects"
        raise UsageError(f"the format {name} {there}, not {dialect!r}")
    return dialect or next(iter(dialects), "")


def detect(source: Source, without: Container[str] = ()) -> Claim:
    """The format with the strongest claim to the content. A tie, or no claim, is an error that says so. Formats named
    in `without` are not asked.

    Names only say who is asked first: where one of these is sure of the content, the others need not be loaded.
    """
    asked = [e for e in FORMATS if e.reads and e.name not in without and (e.sets or not source.more)]
    likely = named_like(source, asked)
    claims, missing = claims_on(source, likely, [entry for entry in asked if entry not in likely])
    if not claims and source.more:
        _refuse_set(source)
    return strongest(source, claims, missing)


def settled(source: Source, format_name: str = "") -> tuple[Format, Source]:
    """The format that is named, or that the content shows, and what it reads: the source, or the one input in a folder
    that is none itself, such as the profile in a results folder of Score-P."""
    if format_name:
        return load(format_name), source
    try:
        return detect(source)[0], source
    except NotRecognised:
        from callgrove.formats.folders import only_input  # which few need

        inner = None if source.more else only_input(source, _detect_inside, BECOMES)
        if inner is None:
            raise
    return detect(inner)[0], inner


def _detect_inside(source: Source) -> Claim:
    """The claim to something in a folder. Formats of sets have been asked about the folder and searched all of it."""
    return detect(source, [entry.name for entry in FORMATS if entry.sets] if source.is_folder else ())


def _refuse_set(source: Source) -> NoReturn:
    """No format opens these paths as one experiment; say what the first one is."""
    alone, _ = detect(Source(source.path))
    raise UsageError(f"{source.path}: {alone.name} opens one path at a time, and {len(source.paths)} were given")


def open_source(source: Source, format_name: str = "", options: ReadOptions | None = None) -> Experiment | Study:
    """Read a source with the format named, or with the one that its content shows."""
    chosen, source = settled(source, format_name)
    if source.more and not next(e.sets for e in FORMATS if e.name == chosen.name):
        _refuse_set(source)
    options = options or ReadOptions()
    refuse_unused(options, chosen.name, source.path)
    return chosen.read(source, options)


def refuse_unused(options: ReadOptions, format_name: str, path: Path) -> None:
    """Options that would change nothing: whoever gives them expects otherwise. A folder of runs passes them on."""
    if entry_of(format_name).sets or format_name == "runs":
        return
    given = {
        "align": options.align not in ("", "none"),
        "rank_env": bool(options.rank_env),
        "kernel_names": bool(options.kernel_names),
    }
    if unused := [Parameter(name) for name, is_given in given.items() if is_given]:
        listed = [part for parameter in unused for part in (" and ", parameter)][1:]
        raise UsageError(f"{path}: ", *listed, f" can be used with GPU databases, and this is {format_name}")


def open_path(
    path: str | Path | Sequence[str | Path],
    from_format: str = "",
    options: ReadOptions | None = None,
    *,
    points: Sequence[str] = (),
    salvage: bool = False,
    strict: bool = False,
    folder_pattern: str = "",
    points_file: str = "",
    rank_env: str = "",
    align: str = "",
    kernel_names: str = "",
    extrap_compat: bool = False,
) -> Experiment | Study:
    """Open what lies at a path: an experiment, or a study where it holds series over parameters.

    path             a file or folder. Several are opened as one where their format does that: the databases of all
                     processes of a GPU run
    from_format      the format (default: recognised by content)
    points           of several paths, the parameters of each, such as "p=4,n=100": they become runs
    salvage          keep the complete part of a text that breaks off
    strict           refuse what the tool that a format belongs to would refuse
    folder_pattern   how folders of runs are named, like "run_{n}_{ranks}ranks"; {r} is the repetition
    points_file      a CSV file with a folder and its parameters in each row, instead of names
    rank_env         of recorded environments, the variable that holds the rank
    align            clocks of several machines: "none", "start" (every process begins at 0), or a file of host, ns
    kernel_names     of GPU databases, which name tells kernels apart: "short" or "demangled"
    extrap_compat    of a folder of Nsight exports, the series that Extra-P makes, with its defects
    options          the same as `ReadOptions`, which also say how to report progress; keywords count before them

    Values and traces stay in the file until asked for. An input that cannot be used raises an `InputError`; one that is
    damaged opens with `warnings`.

        experiment = callgrove.open("lulesh.d")
        runs = callgrove.open(["small.d", "large.d"], points=["p=4", "p=8"])
    """
    paths = [path] if isinstance(path, str | Path) else list(path)
    words = {"salvage": salvage, "strict": strict, "folder_pattern": folder_pattern, "points_file": points_file}
    words |= {"rank_env": rank_env, "align": align, "kernel_names": kernel_names, "extrap_compat": extrap_compat}
    given: dict[str, Any] = {word: value for word, value in words.items() if value}
    chosen = replace(options or ReadOptions(), **given)
    if points:
        return _open_points(paths, points, from_format, chosen)
    by_name = chosen.folder_pattern or chosen.points_file  # which only a folder of runs needs
    return open_paths(paths, from_format or ("runs" if by_name else ""), chosen)


def _open_points(
    paths: Sequence[str | Path], points: Sequence[str], from_format: str, options: ReadOptions
) -> Experiment:
    if len(points) != len(paths):
        raise UsageError(f"every path needs its point: there are {len(paths)} paths and {len(points)} points")
    module = importlib.import_module("callgrove.formats.runs.points")  # by name, as all that belongs to a format
    given = [(point, str(path)) for point, path in zip(points, paths, strict=True)]
    found: Experiment = module.open_points(given, from_format, options)
    return found


def open_paths(
    paths: Sequence[str | Path], format_name: str = "", options: ReadOptions | None = None
) -> Experiment | Study:
    """Read what lies at several paths as one, such as the databases of all processes of a run."""
    return open_source(Source.of_all(paths), format_name, options)


def check_path(
    path: str | Path, from_format: str = "", options: ReadOptions | None = None
) -> tuple[Format, list[Problem]]:
    """Validate what lies at a path: the format that reads it, and every damage and note."""
    chosen, source = settled(Source.of(path), from_format)
    options = options or ReadOptions()
    try:
        if isinstance(chosen, Checks):
            return chosen, list(chosen.check(source, options))
        chosen.read(source, options)
    except InputError as error:  # so broken that it does not open: that is the finding
        return chosen, [Problem(Severity.DAMAGE, str(path), "opening", error.message)]
    return chosen, []


def check(path: str | Path, from_format: str = "", *, salvage: bool = False) -> Table:
    """Validate what lies at a path, and return every damage and note as a table: severity, file, place, problem.

    callgrove.check("lulesh.d")
    """
    _, found = check_path(path, from_format, ReadOptions(salvage))
    rows = [(p.severity.value, p.file, p.section, p.text.removeprefix(f"{path}: ")) for p in found]
    return Table.from_rows(("severity", "file", "place", "problem"), rows)
