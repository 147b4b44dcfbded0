"""Which format does a path hold? Formats judge its content; files of other tools are refused by name."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from callgrove.binary.files import Source, open_regular
from callgrove.errors import InputError, NotRecognised, Parameter
from callgrove.formats.interface import Format, Grade, Match

if TYPE_CHECKING:
    from callgrove.formats.interface import Entry

__all__ = ["Claim", "claims_on", "describe_unsupported", "formats_named_like", "is_archive", "is_sure", "strongest"]


Claim = tuple[Format, Match]
T = TypeVar("T")


def formats_named_like(source: Source, entries: Sequence[Entry]) -> list[Entry]:
    """Return the formats whose files or folders have such names. An ending does not count for names that are
    another's."""
    names = _names(source)
    whole = {name for entry in entries for name in entry.usual_names if not name.startswith(".")}

    def is_named(entry: Entry) -> bool:
        endings = tuple(name for name in entry.usual_names if name not in whole)
        return any(name in entry.usual_names if name in whole else name.endswith(endings) for name in names)

    return [entry for entry in entries if is_named(entry)]


def _names(source: Source) -> list[str]:
    """Return the name of a file, or some of those in a folder."""
    return list(source.listing or ()) if source.is_folder else [source.path.name]


def claims_on(source: Source, *groups: Sequence[Entry]) -> tuple[list[Claim], list[str]]:
    """Return the claims of formats, and which ones could not be asked. A group is asked, and its formats are loaded,
    only if nobody before is sure."""
    claims: list[Claim] = []
    missing: list[str] = []
    for entries in groups:
        if is_sure(source, claims):
            break
        for entry in entries:
            try:
                claim = _claim_of(entry, source)
            except ImportError as error:  # one format that cannot be loaded must not stop the others
                missing.append(f"{entry.name} ({error})")
                continue
            if claim is not None:
                claims.append(claim)
    return claims, missing


def is_sure(source: Source, claims: Sequence[Claim]) -> bool:
    """Return whether one of these claims is enough to ask nobody else. The parts of a folder may be of two formats."""
    enough = Grade.EXACT if source.is_folder else Grade.STRONG
    return any(match.grade >= enough for _, match in claims)


def _claim_of(entry: Entry, source: Source) -> Claim | None:
    if source.is_folder and any(source.head(len(mark), name) == mark for name, mark in entry.not_beside):
        return None
    if entry.package:
        from callgrove.formats.plugins import claim

        return claim(entry, source)
    format_ = entry.load()
    match = format_.match(source)
    return None if match is None else (format_, match)


def strongest(source: Source, ours: Sequence[Claim], missing: Sequence[str], theirs: Sequence[Claim] = ()) -> Claim:
    """Return the claim of the highest grade. A tie, or no claim, is an error that says so. `theirs` are claims of
    plug-ins, which may read what we know as unsupported."""
    claims = [*ours, *theirs]
    best = max((match.grade for _, match in claims), default=None)
    if best is None or (best < Grade.EXACT and not source.is_folder and not is_sure(source, theirs)):
        _refuse_unsupported(source, packed=best is None or best < Grade.STRONG)
    if best is None:
        unable = f"; these formats could not be tried: {', '.join(missing)}" if missing else ""
        raise NotRecognised(f"{_explain_unrecognised(source)}; see `callgrove formats`{unable}")
    winners = [(f, m) for f, m in claims if m.grade == best]
    if len(winners) > 1:
        both = " and ".join(f"{f.name} ({m.reason})" for f, m in winners)
        raise NotRecognised(f"{source.path}: recognised as {both}; choose one with ", Parameter("from_format"))
    return winners[0]


def _refuse_unsupported(source: Source, *, packed: bool) -> None:
    """Raise an error that says what an unsupported input is; `packed` ones may be read once they are unpacked."""

    if other := _readable(source.path, lambda: describe_unsupported(source, packed=packed)):
        raise NotRecognised(f"{source.path}: {other}")


def _explain_unrecognised(source: Source) -> str:
    if source.is_folder:
        names = _readable(source.path, lambda: sorted(p.name for p in source.path.iterdir())[:5])
        inside = f"it holds {', '.join(names)}" + (", ..." if len(names) == 5 else "") if names else "it is empty"
        effective = os.access in os.supports_effective_ids
        closed = [name for name in names if not os.access(source.path / name, os.R_OK, effective_ids=effective)]
        denied = f"; you may not read {', '.join(closed)}" if closed else ""
        return f"{source.path}: no performance data was recognised in this folder: {inside}{denied}"
    _readable(source.path, lambda: open_regular(source.path).close())
    head = source.head(16)
    begins = f"it begins with {repr(head).removeprefix('b')}" if head else "it is empty"
    return f"{source.path}: not recognised as performance data: {begins}"


def _readable(path: Path, look: Callable[[], T]) -> T:
    """Return what a look at a path gives. Detection passes over what may not be read; here somebody asks why."""
    try:
        return look()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error


# -- files of other tools ----------------------------------------------------------------------------------------------
# They are not read; a message says what they are, and what to do instead.
#
# Most are traces that it writes itself. Like formats, they are known by their content; only where other programs' files
# have no mark of their own, by their names.


LOOKED_AT = 16 << 10  # bytes
CSV_HEADER = re.compile(
    rb'"(Guid|Kind|Domain|Pid|Node_Id|Correlation_Id)","'
    rb'(Kind|Domain|Node_Id|Correlation_Id|Operation|Agent_Id|Direction|Function|Logical_Node_Id|Dispatch_Id)"'
)
NSYS_REPORTS = (".nsys-rep", ".qdrep", ".qdstrm")
TAR_HEADER = 512  # bytes
GZIP = b"\x1f\x8b"
UNPACK = "open what is in it, after unpacking it"
NOT_READ = "which callgrove does not read"
ROCPD = "rocprofv3 --output-format rocpd records what it reads"
FROM_HATCHET = "callgrove.from_hatchet takes what they make of it"
OTHERS = {  # how files of other tools begin
    rb'\s*\{\s*"rocprofiler-sdk-tool"': f"is a JSON file of rocprofv3, {NOT_READ}; {ROCPD}",
    rb'"Index","KernelName"': f"is a CSV file of the first rocprof, {NOT_READ}; {ROCPD}",
    rb"(# callgrind format|version: 1\s+creator: callgrind)": f"is a profile of Callgrind, {NOT_READ}",
    rb"gmon\x01\x00\x00\x00": f"is a profile for gprof, {NOT_READ}",
    rb"#Paraver ": f"is a Paraver trace, {NOT_READ}",
    rb'\s*\{\s*"timemory"\s*:': f"is a file of timemory, {NOT_READ}",
    rb'\s*\{\s*"(graph|dataframe)"\s*:': f"is a file of Hatchet or Thicket, {NOT_READ}; {FROM_HATCHET}",
    rb'\s*\{[^\[{]*"root_frame"\s*:': f"is a profile of pyinstrument, {NOT_READ}",
    rb"\s*(strict\s+)?(di)?graph\b[^{\n]*\{": f"is a graph for Graphviz, {NOT_READ}",
    rb'\s*\{[^\[]*"\$schema":\s*"https://www\.speedscope\.app/': f"is a speedscope file, {NOT_READ}",
    rb"\xff\xfe|\xfe\xff": "is text in UTF-16; convert it with iconv -f UTF-16 -t UTF-8",
}
WRITTEN = "which callgrove writes and does not read; open what it was made of"


def is_archive(source: Source) -> bool:
    """Tell whether this is a tar archive, as it is or compressed with gzip."""
    head = source.head(TAR_HEADER)
    if head.startswith(GZIP):
        try:
            head = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16).decompress(source.head(LOOKED_AT), TAR_HEADER)
        except zlib.error:
            return False
    return head[257:262] == b"ustar"


def _begins(*marks: bytes) -> Callable[[Source], bool]:
    return lambda source: source.head(8).startswith(marks)


def _describe_by_head(source: Source) -> str:
    """Return what a file of another tool is, by how it begins; empty where that is not known."""
    head = source.head(LOOKED_AT)
    return next((text for mark, text in OTHERS.items() if re.match(mark, head)), "")


Known = tuple[tuple[Callable[[Source], bool], str], ...]

PACKED: Known = (
    (is_archive, f"is a tar archive; {UNPACK} with tar xf"),
    (_begins(b"PK\3\4"), f"is a zip archive; {UNPACK} with unzip"),
    (_begins(GZIP), f"is compressed; {UNPACK} with gunzip -k"),
    (_begins(b"\xfd7zXZ"), f"is compressed; {UNPACK} with unxz -k"),
    (_begins(b"BZh"), f"is compressed; {UNPACK} with bunzip2 -k"),
    (_begins(b"\x28\xb5\x2f\xfd"), f"is compressed; {UNPACK} with unzstd"),
)
OF_CUBE = (".cubex", ".cube.gz")  # they are packed as well, and their reader tells what is wrong with them
UNSUPPORTED: Known = (
    (lambda source: CSV_HEADER.match(source.head(64)) is not None, f"is a CSV file of rocprofv3, {WRITTEN}; {ROCPD}"),
    (_begins(b"PERFILE2"), "is a recording of Linux perf; print its samples first: perf script -i FILE > samples.txt"),
    (
        lambda source: source.path.name.endswith(NSYS_REPORTS),
        "is a report of Nsight Systems; export it first: nsys export --type sqlite",
    ),
    (
        lambda source: source.path.name.endswith(".ncu-rep"),
        f"is a report of Nsight Compute, {NOT_READ}; Nsight Systems records whole runs",
    ),
)


def describe_unsupported(source: Source, *, packed: bool = True) -> str:
    """Return what an input is that no format reads, and what to do; empty where that is not known either."""
    archives = PACKED if packed and not source.path.name.endswith(OF_CUBE) else ()
    return next((text for is_it, text in (*archives, *UNSUPPORTED) if is_it(source)), "") or _describe_by_head(source)
