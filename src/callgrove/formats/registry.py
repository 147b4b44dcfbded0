"""The list of formats, detection by content, and opening a path.

A format is named here by one line and imported when it is needed, so that a broken or heavy one cannot hurt the
others. Those of other packages come from `plugins`; ours are asked first.
"""

from __future__ import annotations

import importlib
from collections.abc import Container, Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from callgrove.binary.files import Source, open_regular
from callgrove.errors import InputError, NotRecognised, Parameter, UsageError
from callgrove.formats.detection import Claim, claims_on, formats_named_like, is_archive, is_sure, strongest
from callgrove.formats.interface import Checks, Entry, Format, Grade, Problem, ReadOptions, Writes, WritesStudies
from callgrove.model.experiment import Experiment, InputWarning, Severity
from callgrove.model.table import Table

if TYPE_CHECKING:
    from callgrove.model.study.series import Study

__all__ = [
    "FORMATS",
    "Entry",
    "all_formats",
    "check",
    "check_dialect",
    "check_path",
    "detect",
    "entry_of",
    "find_entry",
    "format_for_target",
    "format_using",
    "formats_for_target",
    "formats_made_of",
    "load",
    "open_path",
    "open_paths",
    "open_source",
    "paradigm_of",
    "plugins",
    "refuse_unused",
    "settle_format",
    "writer_of",
]


COPIES = "inflated copies"  # what a source keeps of the compressed files that it was made of
HPCTOOLKIT_PARTS = ("profile.db", "cct.db", "trace.db", "meta.db")
HPCRUN_TRACES = "hpcrun records them with -t"
RELEASED = (("meta.db", b"HPCTOOLKIT"),)  # what no database of another generation has
OTF2_OPTIONS = ("annotations", "track_names", "by_queue", "kernel_rename", "agent_index")
EVENT_OPTIONS = ("align",)
GPU_OPTIONS = (*EVENT_OPTIONS, "rank_env", "kernel_names")
VIEWER_OPTIONS = (*OTF2_OPTIONS, "real_pids", "keep_partial", "in_place")


FORMATS: tuple[Entry, ...] = (
    Entry(
        "hpctoolkit-prerelease",
        "HPCToolkit database before 4.0 was released (experiment.xml)",
        "callgrove.formats.hpctoolkit.prerelease.format:FORMAT",
        page="hpctoolkit",
        how_to_trace=HPCRUN_TRACES,
        usual_names=("experiment.xml", *HPCTOOLKIT_PARTS[:3]),
        not_beside=RELEASED,
        writes=True,
        dialects=("genuine", "document"),
    ),
    Entry(
        "hpctoolkit-release",
        "HPCToolkit database since 4.0 was released (meta.db)",
        "callgrove.formats.hpctoolkit.release.format:FORMAT",
        page="hpctoolkit",
        how_to_trace=HPCRUN_TRACES,
        usual_names=HPCTOOLKIT_PARTS,
        writes=True,
        suffixes=(".d",),
    ),
    Entry(
        "hpctoolkit-legacy",
        "HPCToolkit database of the years before (experiment.xml 2.x)",
        "callgrove.formats.hpctoolkit.legacy.format:FORMAT",
        page="hpctoolkit",
        how_to_trace=HPCRUN_TRACES,
        usual_names=("experiment.xml",),
        not_beside=RELEASED,
    ),
    Entry(
        "hpcrun",
        "HPCToolkit measurements: .hpcrun files 02.00 to 04.00, or a folder of them",
        "callgrove.formats.hpcrun.format:FORMAT",
        page="hpcrun",
        how_to_trace=HPCRUN_TRACES,
        made_into=("hpctoolkit-prerelease", "hpctoolkit-release", "hpctoolkit-legacy"),
        usual_names=(".hpcrun",),
        writes=True,
        dialects=("04.00", "02.00-b", "02.00-a"),
        suffixes=(".hpcrun",),
    ),
    Entry(
        "hpctrace",
        "HPCToolkit trace of one thread or GPU stream (.hpctrace)",
        "callgrove.formats.hpcrun.hpctrace_format:FORMAT",
        page="hpctrace",
        usual_names=(".hpctrace",),
        writes=True,
        dialects=("01.01", "01.01-us", "01.00"),
        suffixes=(".hpctrace",),
    ),
    Entry(
        "hpcstruct",
        "HPCToolkit structure of load modules (.hpcstruct)",
        "callgrove.formats.hpcrun.hpcstruct:FORMAT",
        page="hpcstruct",
        usual_names=(".hpcstruct",),
    ),
    Entry(
        "cube",
        "Cube 4 (.cubex) of Score-P, Scalasca and CubeLib",
        "callgrove.formats.cube.format:FORMAT",
        page="cube",
        how_to_trace="Score-P writes them as OTF2, with SCOREP_ENABLE_TRACING=true",
        usual_names=(".cubex", "anchor.xml"),
        writes=True,
        dialects=("plain", "compressed"),
        suffixes=(".cubex",),
    ),
    Entry(
        "extrap-text",
        "Extra-P text file (PARAMETER, POINTS, REGION, DATA)",
        "callgrove.formats.extrap.text:FORMAT",
        page="extrap",
        usual_names=(".txt",),
        writes=True,
        holds_series=True,
        suffixes=(".txt",),
    ),
    Entry(
        "extrap-talpas",
        "Extra-P TaLPas file (a line per value)",
        "callgrove.formats.extrap.json_lines:TALPAS",
        page="extrap",
        usual_names=(".talpas", ".txt"),
        writes=True,
        holds_series=True,
        suffixes=(".talpas",),
    ),
    Entry(
        "extrap-json",
        "Extra-P JSON file",
        "callgrove.formats.extrap.json:FORMAT",
        page="extrap",
        usual_names=(".json",),
        writes=True,
        holds_series=True,
        suffixes=(".json",),
    ),
    Entry(
        "extrap-json-old",
        "Extra-P JSON file of the older form (ids)",
        "callgrove.formats.extrap.json:OLD_FORMAT",
        page="extrap",
        usual_names=(".json",),
        writes=True,
        holds_series=True,
    ),
    Entry(
        "extrap-jsonl",
        "Extra-P JSON Lines file",
        "callgrove.formats.extrap.json_lines:JSON_LINES",
        page="extrap",
        usual_names=(".jsonl",),
        writes=True,
        holds_series=True,
        suffixes=(".jsonl",),
    ),
    Entry(
        "extrap-experiment",
        "Extra-P experiment with its models (.extra-p)",
        "callgrove.formats.extrap.experiment:FORMAT",
        page="extrap",
        usual_names=(".extra-p",),
        writes=True,
        holds_series=True,
        suffixes=(".extra-p",),
    ),
    Entry(
        "extrap-binary3",
        "Extra-P 3 experiment (binary)",
        "callgrove.formats.extrap.binary3:FORMAT",
        page="extrap",
    ),
    Entry(
        "runs",
        "folder of runs, one per parameter point",
        "callgrove.formats.runs:FORMAT",
        page="extrap",
        read_options=(*GPU_OPTIONS, "folder_pattern", "points_file"),
        holds_inputs=True,
    ),
    Entry(
        "rocpd",
        "rocprofv3 database (rocpd, SQLite)",
        "callgrove.formats.gpu.formats:ROCPD",
        page="gpu",
        read_options=GPU_OPTIONS,
        usual_names=(".db", "index.yaml"),
        write_options=("in_place",),
        writes=True,
        opens_many=True,
    ),
    Entry(
        "rocpd-draft",
        "draft of rocprofv3's multi-node schema (SQLite)",
        "callgrove.formats.gpu.formats:DRAFT",
        page="gpu",
        read_options=GPU_OPTIONS,
        usual_names=(".db", "index.yaml"),
        write_options=("in_place",),
        writes=True,
        opens_many=True,
    ),
    Entry(
        "rpd",
        "RPD database (rocmProfileData, SQLite)",
        "callgrove.formats.gpu.formats:RPD",
        page="gpu",
        read_options=GPU_OPTIONS,
        opens_many=True,
        usual_names=(".rpd", ".db"),
    ),
    Entry(
        "nsight",
        "Nsight Systems export (SQLite)",
        "callgrove.formats.gpu.formats:NSIGHT",
        page="nsight",
        read_options=(*GPU_OPTIONS, "extrap_compat"),
        paradigm="CUDA",
        opens_many=True,
        usual_names=(".sqlite", ".db"),
    ),
    Entry(
        "perfetto",
        "Perfetto trace (protocol buffers)",
        "callgrove.formats.timeline.perfetto.format:FORMAT",
        page="perfetto",
        read_options=EVENT_OPTIONS,
        opens_many=True,
        usual_names=(".pftrace", ".perfetto-trace", ".proto"),
        writes=True,
        holds_only_traces=True,
        write_options=VIEWER_OPTIONS,
        suffixes=(".pftrace", ".perfetto-trace", ".pftrace.gz", ".perfetto-trace.gz"),
    ),
    Entry(
        "chrome-json",
        "Chrome trace events (JSON) of PyTorch, viztracer and others",
        "callgrove.formats.timeline.chrome_json:FORMAT",
        page="chrome",
        read_options=EVENT_OPTIONS,
        usual_names=(".json", ".json.gz", ".json.zst"),
        opens_many=True,
        reads_compressed=True,
        writes=True,
        holds_only_traces=True,
        write_options=VIEWER_OPTIONS,
        suffixes=(".json", ".json.gz"),
    ),
    Entry(
        "otf2",
        "OTF2 archive (a folder) of Score-P, for Vampir and its like",
        "callgrove.formats.timeline.otf2.format:FORMAT",
        page="otf2",
        read_options=EVENT_OPTIONS,
        usual_names=(".otf2",),
        writes=True,
        holds_only_traces=True,
        write_options=OTF2_OPTIONS,
        suffixes=(".otf2",),
        extra="otf2",
        module_of_extra="otf2",
    ),
    Entry(
        "rocprof-csv",
        "CSV files as rocprofv3's converter writes them (2025 or 2026)",
        "callgrove.formats.rocprof_csv.format:FORMAT",
        page="traces",
        reads=False,
        writes=True,
        holds_only_traces=True,
        adds_to_folder=True,
        write_options=("kernel_rename", "agent_index", "keep_partial"),
        dialects=("rocprofv3", "2025", "2026", "extended"),
    ),
    Entry(
        "folded",
        "folded call stacks (a;b;c 12) of flamegraph.pl, inferno, speedscope",
        "callgrove.formats.stacks.folded:FORMAT",
        page="stacks",
        usual_names=(".folded",),
        writes=True,
        suffixes=(".folded", ".folded.gz"),
    ),
    Entry(
        "perf-script",
        "samples of Linux perf, as `perf script` prints them",
        "callgrove.formats.stacks.perf_script:FORMAT",
        page="perf",
        usual_names=(".script", ".perf"),
    ),
    Entry(
        "caliper",
        "Caliper records (.cali), or JSON-split of cali-query; also folders of them",
        "callgrove.formats.caliper.format:FORMAT",
        page="caliper",
        usual_names=(".cali",),
        opens_many=True,
    ),
    Entry(
        "tau",
        "TAU profiles (profile.N.C.T), a file or a folder of them, or folders MULTI__METRIC",
        "callgrove.formats.tau:FORMAT",
        page="tau",
    ),
    Entry(
        "extra-prof",
        "Extra-Prof profiles (.extra-prof.msgpack), a file or a folder with one for each rank",
        "callgrove.formats.extra_prof:FORMAT",
        page="extrap",
        usual_names=(".extra-prof.msgpack",),
    ),
    Entry(
        "speedscope",
        "speedscope file: profiles and traces (JSON)",
        "callgrove.formats.stacks.speedscope:FORMAT",
        page="stacks",
        reads=False,
        writes=True,
        suffixes=(".speedscope.json", ".speedscope.json.gz"),
    ),
    Entry(
        "pprof",
        "pprof profile (profile.proto, compressed) for `go tool pprof` and others",
        "callgrove.formats.stacks.pprof:FORMAT",
        page="stacks",
        reads=False,
        writes=True,
        suffixes=(".pb.gz", ".pprof"),
    ),
    Entry(
        "dot",
        "Graphviz file: the call graph of functions, or the call tree",
        "callgrove.formats.stacks.dot:FORMAT",
        page="stacks",
        reads=False,
        writes=True,
        dialects=("graph", "tree"),
        write_options=("limit",),
        suffixes=(".dot", ".gv"),
    ),
    Entry(
        "callgrove",
        "callgrove's own folder of Parquet tables",
        "callgrove.formats.columnar.format:FORMAT",
        page="callgrove-format",
        usual_names=("callgrove.json",),
        writes=True,
        suffixes=(".cgrove",),
        extra="arrow",
        module_of_extra="pyarrow",
    ),
)


def plugins() -> tuple[Entry, ...]:
    """Return the entries of other packages. The first call looks for them, which may take a while."""
    from callgrove.formats.plugins import find_plugins  # importlib.metadata is slow to import, and few need it

    return find_plugins(frozenset(entry.name for entry in FORMATS))


def all_formats() -> tuple[Entry, ...]:
    """Return our entries and those of other packages."""
    return (*FORMATS, *plugins())


def _all_entries() -> Iterator[Entry]:
    """Yield our entries; then those of other packages, which are looked for only when they are reached."""
    yield from FORMATS
    yield from plugins()


def find_entry(name: str) -> Entry | None:
    """Return the entry of that name, if there is one."""
    return next((entry for entry in _all_entries() if entry.name == name), None)


def entry_of(name: str, *, to_write: bool = False) -> Entry:
    """Return the entry of that name. `to_write`: where there is none, the error offers those that can be written."""
    entry = find_entry(name)
    if entry is None:
        from difflib import get_close_matches  # for errors only

        names = [one.name for one in all_formats() if one.writes or not to_write]
        near = get_close_matches(name, names, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
        raise UsageError(f"there is no format {name!r}; {hint}")
    return entry


def load(name: str, *, to_write: bool = False) -> Format:
    """Return the format of that name; errors are those of `entry_of`."""
    entry = entry_of(name, to_write=to_write)
    if entry.package:
        from callgrove.formats.plugins import require_plugin

        return require_plugin(entry)
    return entry.load()


def format_using(option: str) -> str:
    """Return the name of the first format that has a use for a field of `ReadOptions`."""
    return next(entry.name for entry in FORMATS if option in entry.read_options)


def paradigm_of(format_name: str, version: str) -> str:
    """Return the programming model of GPU calls, as the format says that they were read from; our own folders name it
    in their version. Empty where it says nothing."""
    told = f"{format_name} {version}"
    return next((entry.paradigm for entry in FORMATS if entry.paradigm and entry.name in told), "")


def formats_made_of(name: str) -> tuple[str, ...]:
    """Return the names of the formats that a tool makes of one."""
    return entry_of(name).made_into


def writer_of(name: str) -> Writes | WritesStudies:
    """Return the format of that name, if it can be written."""
    format_ = load(name, to_write=True)
    if not isinstance(format_, Writes | WritesStudies):
        able = ", ".join(e.name for e in all_formats() if e.writes)
        raise UsageError(f"the format {name} can be read, but not written; these can: {able}")
    return format_


def formats_for_target(target: str | Path) -> list[str]:
    """Return the names of the formats that the ending of a target's name may mean; there may be one for executions and
    another one for series."""
    name = Path(target).name
    if named := _formats_written_as(name, FORMATS) or _formats_written_as(name, plugins()):
        return named
    nothing = f"{target}: its ending names no format to write; choose one with "
    raise UsageError(nothing, Parameter("to_format"), " ('callgrove formats')")


def _formats_written_as(name: str, entries: Sequence[Entry]) -> list[str]:
    """Return the formats whose endings a name has; the longest one counts, as x.speedscope.json is more than x.json."""
    endings = {
        e.name: max((len(end) for end in e.suffixes if name.endswith(end)), default=0) for e in entries if e.writes
    }
    longest = max(endings.values(), default=0)
    return [entry for entry, length in endings.items() if length and length == longest]


def format_for_target(target: str | Path, *, series: bool | None = None) -> str:
    """Return the name of the format that the ending of a target's name chooses: among those for series over parameters,
    among the others, or the first of all."""
    named = formats_for_target(target)
    return next((name for name in named if series is None or entry_of(name).holds_series == series), named[0])


def check_dialect(name: str, dialect: str) -> str:
    """Return the dialect to write a format in; the first one is the default."""
    dialects = entry_of(name).dialects
    if dialect and dialect not in dialects:
        there = f"has {', '.join(dialects)}" if dialects else "has no dialects"
        raise UsageError(f"the format {name} {there}, not {dialect!r}")
    return dialect or next(iter(dialects), "")


def detect(source: Source, without: Container[str] = ()) -> Claim:
    """Return the format with the strongest claim to the content. A tie, or no claim, is an error that says so. Formats
    named in `without` are not asked.

    Names only say who is asked first: where one of these is sure of the content, the others need not be loaded. Those
    of other packages are asked where none of ours is sure.
    """

    def askable(entries: Sequence[Entry]) -> list[Entry]:
        return [e for e in entries if e.reads and e.name not in without and (e.opens_many or not source.more)]

    asked = askable(FORMATS)
    likely = formats_named_like(source, asked)
    claims, missing = claims_on(source, likely, [entry for entry in asked if entry not in likely])
    theirs: list[Claim] = []
    if not is_sure(source, claims):
        theirs, _ = claims_on(source, askable(plugins()))
    if not claims and not theirs and source.more:
        _refuse_set(source)
    return strongest(source, claims, missing, theirs)


def settle_format(source: Source, format_name: str = "") -> tuple[Format, Source]:
    """Return the format that is named, or that the content shows, and what it reads: the source, or the one input in a
    folder that is none itself, such as the profile in a results folder of Score-P."""
    if format_name:
        chosen = load(format_name)
        reads_itself = entry_of(format_name).reads_compressed
        if reads_itself or not _is_compressed(source) or _is_claimed(chosen, source):
            return chosen, source
        return chosen, inflate_source(source)
    try:
        return detect(source)[0], source
    except NotRecognised:
        inflated = inflate_source(source)
        if inflated is not source:
            return _detect_inflated(source, inflated), inflated
        from callgrove.formats.run_names import only_input  # which few need

        inner = None if source.more else only_input(source, _detect_inside, formats_made_of)
        if inner is None:
            raise
    return detect(inner)[0], inner


def _is_claimed(format_: Format, source: Source) -> bool:
    match = format_.match(source)
    return match is not None and match.grade > Grade.WEAK


def _is_compressed(source: Source) -> bool:
    """Return whether files of a source are compressed; archives are read as they are."""
    return any(map(_is_compressed_file, source.paths)) and not is_archive(source)


def _is_compressed_file(path: Path) -> bool:
    from callgrove.binary.compressed import compression_of  # which few need

    try:
        with open_regular(path, 0) as file:
            return bool(compression_of(file.read(8)))
    except OSError:  # a folder, or what may not be read
        return False


def inflate_source(source: Source) -> Source:
    """Return a source whose files are inflated copies where they are compressed; the same one where none is."""
    from callgrove.binary.compressed import inflate_copy  # which few need

    if not _is_compressed(source):
        return source
    copies = {path: inflate_copy(path) for path in source.paths if _is_compressed_file(path)}
    inflated = Source.of_all([copies[path].path if path in copies else path for path in source.paths])
    inflated.kept[COPIES] = list(copies.values())
    return inflated


def _detect_inflated(source: Source, inflated: Source) -> Format:
    try:
        return detect(inflated)[0]
    except NotRecognised as error:
        reason = _name_originals(error.message, inflated).removeprefix(f"{source.path}: ")
        text = f"{source.path}: is compressed, and what is in it was not recognised: {reason}"
        raise NotRecognised(text) from None


def _name_originals(text: str, source: Source) -> str:
    """Return a text in which inflated copies go by the names of the files that they are of."""
    for copy in source.kept.get(COPIES, ()):
        text = text.replace(str(copy.path), str(copy.original))
    return text


def _read_inflated(chosen: Format, source: Source, options: ReadOptions) -> Experiment | Study:
    """Read copies, with messages about the files that they are of. Streams that break off are damage."""
    try:
        result = chosen.read(source, options)
    except InputError as error:
        raise InputError(_name_originals(error.message, source)) from None
    if not isinstance(result, Experiment):
        return result
    cut = [InputWarning(Severity.DAMAGE, f"{c.original}: {c.problem}") for c in source.kept[COPIES] if c.problem]
    warnings = [replace(warning, text=_name_originals(warning.text, source)) for warning in result.warnings]
    title = _name_originals(result.title, source)
    return replace(result, path=_name_originals(result.path, source), title=title, warnings=(*warnings, *cut))


def _detect_inside(source: Source) -> Claim:
    """Return the claim to something in a folder. Formats of sets have been asked about the folder and searched all of
    it."""
    return detect(source, [entry.name for entry in all_formats() if entry.opens_many] if source.is_folder else ())


def _refuse_set(source: Source) -> NoReturn:
    """Refuse several paths that no format opens as one experiment; the error says what the first one is."""
    alone, _ = detect(Source(source.path))
    raise UsageError(f"{source.path}: {alone.name} opens one path at a time, and {len(source.paths)} were given")


def open_source(source: Source, format_name: str = "", options: ReadOptions | None = None) -> Experiment | Study:
    """Read a source with the format named, or with the one that its content shows."""
    chosen, source = settle_format(source, format_name)
    if source.more and not entry_of(chosen.name).opens_many:
        _refuse_set(source)
    options = options or ReadOptions()
    refuse_unused(options, chosen.name, source.path)
    return _read_inflated(chosen, source, options) if COPIES in source.kept else chosen.read(source, options)


def refuse_unused(options: ReadOptions, format_name: str, path: Path) -> None:
    """Refuse options that would change nothing: whoever gives them expects otherwise."""
    used = entry_of(format_name).read_options
    special = {option for entry in FORMATS for option in entry.read_options}
    given = [field.name for field in fields(options) if field.name in special and _is_given(options, field.name)]
    if unused := [option for option in given if option not in used]:
        listed = [part for option in unused for part in (" and ", Parameter(option))][1:]
        users = ", ".join(e.name for e in FORMATS if set(unused) <= set(e.read_options))
        raise UsageError(f"{path}: ", *listed, f" can be used with {users}, and this is {format_name}")


def _is_given(options: ReadOptions, option: str) -> bool:
    return getattr(options, option) not in (getattr(ReadOptions(), option), "none")


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
    module = importlib.import_module("callgrove.formats.runs")  # by name, as all that belongs to a format
    given = [(point, str(path)) for point, path in zip(points, paths, strict=True)]
    experiment: Experiment = module.open_points(given, from_format, options)
    return experiment


def open_paths(
    paths: Sequence[str | Path], format_name: str = "", options: ReadOptions | None = None
) -> Experiment | Study:
    """Read what lies at several paths as one, such as the databases of all processes of a run."""
    return open_source(Source.of_all(paths), format_name, options)


def check_path(
    path: str | Path, from_format: str = "", options: ReadOptions | None = None
) -> tuple[Format, list[Problem]]:
    """Validate what lies at a path: the format that reads it, and every damage and note."""
    chosen, source = settle_format(Source.of(path), from_format)
    options = options or ReadOptions()
    try:
        problems = list(chosen.check(source, options)) if isinstance(chosen, Checks) else []
        return chosen, [*problems, *_find_implausible(chosen.read(source, options), Path(path))]
    except InputError as error:  # so broken that it does not open: that is the finding
        return chosen, [Problem(Severity.DAMAGE, str(path), "opening", error.message)]


def _find_implausible(opened: Experiment | Study, path: Path) -> Iterator[Problem]:
    """Yield what is strange in an input, whatever its format; with damage, strange numbers are no news."""
    plausibility = importlib.import_module("callgrove.formats.plausibility")
    yield from plausibility.find_odd_entries(path)
    if not (isinstance(opened, Experiment) and opened.damage):
        yield from plausibility.find_implausible(opened)


def check(path: str | Path, from_format: str = "", *, salvage: bool = False) -> Table:
    """Validate what lies at a path, and return every damage and note as a table: severity, file, place, problem.

    callgrove.check("lulesh.d")
    """
    _, problems = check_path(path, from_format, ReadOptions(salvage))
    rows = [(p.severity.value, p.file, p.section, p.text.removeprefix(f"{path}: ")) for p in problems]
    return Table.from_rows(("severity", "file", "place", "problem"), rows)
