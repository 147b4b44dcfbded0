"""An archive, read by a process of its own: the frames that the decoder sends, and definitions as plain tables.

A damaged archive may crash OTF2's library or keep it busy for ever. Then the decoder ends, what it sent before is
there, and `DecoderFailed` says why.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from callgrove.arrays import ABSENT
from callgrove.errors import InputError, MissingExtra
from callgrove.formats.timeline.otf2 import decoder
from callgrove.formats.timeline.otf2.decoder import HEAD, Frame
from callgrove.model.contexts import LAST_LINE

__all__ = [
    "ABSOLUTE_TIMES",
    "COLLECTIVES",
    "NONE",
    "OF_PROCESS",
    "OF_PROFILER",
    "PARADIGMS",
    "PLACE",
    "ROLES",
    "Communicator",
    "DecoderFailed",
    "Definitions",
    "Location",
    "LocationGroup",
    "RegionDefinition",
    "read_definitions",
    "read_frames",
    "read_raw_definitions",
]

LARGEST_FRAME = 1 << 31
HANGING = -27  # SIGPROF: the decoder set a timer
ABSOLUTE_TIMES = "CALLGROVE::ABSOLUTE_TIMES"  # a property of archives whose times count from an epoch
PLACE = "CALLGROVE::PLACE"  # a property of locations that are not threads: one of these
OF_PROCESS, OF_PROFILER = "process", "profiler"
STRING_TYPE, LARGEST_REF = 11, 2**32 - 1  # a value of this type is the number of a string
NONE = 2**32 - 1  # OTF2's word for: no such definition
NO_PARADIGM = "UNKNOWN"
PARADIGMS = (
    *(NO_PARADIGM, "USER", "COMPILER", "OPENMP", "MPI", "CUDA", "MEASUREMENT_SYSTEM", "PTHREAD", "HMPP", "OMPSS"),
    *("HARDWARE", "GASPI", "UPC", "SHMEM", "WINTHREAD", "QTTHREAD", "ACETHREAD", "TBBTHREAD", "OPENACC", "OPENCL"),
    *("MTAPI", "SAMPLING", "NONE", "HIP", "KOKKOS", "OPENMP_TARGET"),
)
ROLES = (
    *("UNKNOWN", "FUNCTION", "WRAPPER", "LOOP", "CODE", "PARALLEL", "SECTIONS", "SECTION", "WORKSHARE", "SINGLE"),
    *("SINGLE_SBLOCK", "MASTER", "CRITICAL", "CRITICAL_SBLOCK", "ATOMIC", "BARRIER", "IMPLICIT_BARRIER", "FLUSH"),
    *("ORDERED", "ORDERED_SBLOCK", "TASK", "TASK_CREATE", "TASK_WAIT", "COLL_ONE2ALL", "COLL_ALL2ONE"),
    *("COLL_ALL2ALL", "COLL_OTHER", "FILE_IO", "POINT2POINT", "RMA", "DATA_TRANSFER", "ARTIFICIAL", "THREAD_CREATE"),
    *("THREAD_WAIT", "TASK_UNTIED", "ALLOCATE", "DEALLOCATE", "REALLOCATE", "FILE_IO_METADATA", "CANCEL", "KERNEL"),
)
COLLECTIVES = (
    *("BARRIER", "BCAST", "GATHER", "GATHERV", "SCATTER", "SCATTERV", "ALLGATHER", "ALLGATHERV", "ALLTOALL"),
    *("ALLTOALLV", "ALLTOALLW", "ALLREDUCE", "REDUCE", "REDUCE_SCATTER", "SCAN", "EXSCAN", "REDUCE_SCATTER_BLOCK"),
    *("CREATE_HANDLE", "DESTROY_HANDLE", "ALLOCATE", "DEALLOCATE", "CREATE_HANDLE_AND_ALLOCATE"),
    "DESTROY_HANDLE_AND_DEALLOCATE",
)
MPI = PARADIGMS.index("MPI")
COMM_LOCATIONS, COMM_SELF = 4, 6  # types of groups
PROCESS, ACCELERATOR = 1, 2  # types of location groups
RANK = re.compile(r"\brank[ _:-]?(\d{1,9})\b", re.IGNORECASE)


class DecoderFailed(Exception):
    """What the decoder said before it ended too early."""


def read_frames(anchor: Path, what: str, locations: Sequence[int] = ()) -> Iterator[tuple[int, int, bytes]]:
    """Yield code, location and content of the frames that a decoder sends; raise `DecoderFailed` where it ends before
    all was sent."""
    _refuse_pipes(anchor, locations)
    command = [sys.executable, "-S", "-E", "-s", decoder.__file__, _library(anchor), str(anchor.absolute()), what]
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said)
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            try:
                process.stdin.write("\n".join(map(str, locations)).encode())
                process.stdin.close()
            except OSError:  # it has ended already, and says why
                pass
            try:
                yield from _receive_frames(process.stdout)
            except OSError as error:
                raise InputError(f"{anchor}: what was read of it cannot be received: {error.strerror}") from error
            process.stdout.close()
            if status := process.wait():
                said.seek(0)
                raise DecoderFailed(_explain(status, said.read().decode("utf-8", "replace")))
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            process.stdout.close()


def _receive_frames(pipe: IO[bytes]) -> Iterator[tuple[int, int, bytes]]:
    """Yield the frames that come through a pipe, up to its end or to one that is cut off."""
    while len(head := pipe.read(HEAD.size)) == HEAD.size:
        code, location, size = HEAD.unpack(head)
        content = pipe.read(size) if size <= LARGEST_FRAME else b""
        if len(content) < size:
            return
        yield code, location, content


def _refuse_pipes(anchor: Path, locations: Sequence[int]) -> None:
    """Refuse an archive with a pipe or a device in the place of a file that is read for some locations: OTF2's library
    would wait for it, and take no time that a timer could see."""
    folder = anchor.with_suffix("")
    own = (folder / f"{location}{ending}" for location in locations for ending in (".def", ".evt"))
    for path in (anchor, anchor.with_suffix(".def"), *own):
        if path.exists() and not path.is_file() and not path.is_dir():
            raise InputError(f"{path}: is a device or a pipe, and no file of an archive")


def _library(anchor: Path) -> str:
    """Return where OTF2's library lies, without loading it."""
    spec = importlib.util.find_spec("_otf2")
    places = [Path(place) for place in (spec.submodule_search_locations or ())] if spec is not None else []
    files = [file for place in places for file in sorted(place.glob("_otf2*.so"))]
    if not files:
        raise MissingExtra("otf2", f"{anchor}: reading OTF2")
    return str(files[0])


def _explain(status: int, said: str) -> str:
    lines = [line for line in said.splitlines() if line.strip()]
    errors = [line.partition("error: ")[2] for line in lines if "error: " in line]
    last = (errors or lines or [""])[0][:200]
    if status == HANGING:
        return "OTF2's library does not come to an end with it"
    if status < 0:
        return f"OTF2's library crashes with it (signal {-status})" + f": {last}" * bool(errors)
    return last or f"OTF2's library ends with status {status}"


# -- definitions -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RegionDefinition:
    """What can be entered."""

    name: str
    role: str
    paradigm: str
    file: str
    line: int
    end_line: int


@dataclass(frozen=True)
class LocationGroup:
    """A process, or a device of one (`owner`)."""

    name: str
    kind: int
    host: str
    owner: int
    rank: int


@dataclass(frozen=True)
class Location:
    """A thread, a stream, or what carries metrics; `n_events` is what the definitions announce."""

    id: int
    name: str
    kind: int
    n_events: int
    group: int
    place: str = ""  # what our own archives say that it is, where it is not a thread


@dataclass(frozen=True)
class Communicator:
    """Ranks that talk to each other: numbers of processes in MPI_COMM_WORLD by rank; of an inter-communicator, those of
    the other side."""

    name: str
    members: Sequence[int]
    others: Sequence[int] = ()
    is_self: bool = False


@dataclass(frozen=True)
class Definitions:
    """What events refer to."""

    about: Mapping[str, Any]
    strings: Mapping[int, str]
    regions: Mapping[int, RegionDefinition]
    contexts: Mapping[int, tuple[int, int, int]]  # region, source code location, parent
    places: Mapping[int, tuple[str, int]]  # of source code locations: file, line
    groups: Mapping[int, LocationGroup]
    locations: Sequence[Location]
    communicators: Mapping[int, Communicator]
    attributes: Mapping[int, str]
    parameters: Mapping[int, str]
    metrics: Mapping[int, Sequence[tuple[str, str]]]  # by class or instance: name and unit of its members
    resolution: int
    offset: int
    problems: Sequence[str] = field(default_factory=list)

    def text(self, number: int) -> str:
        return self.strings.get(number, "")


def read_definitions(anchor: Path) -> Definitions:
    """Return the definitions of an archive."""
    return _Tables(*read_raw_definitions(anchor)).definitions()


def read_raw_definitions(anchor: Path) -> tuple[dict[str, Any], str]:
    """Return definitions as the library gives them, row by row, and what went wrong after that."""
    raw: dict[str, Any] | None = None
    problem = ""
    try:
        for code, _, content in read_frames(anchor, "definitions"):
            raw = json.loads(content) if code == Frame.DEFINITIONS else raw
    except DecoderFailed as failure:
        problem = str(failure)
    if raw is None:
        reason = problem or "the library says nothing about it"
        raise InputError(f"{anchor}: its definitions cannot be read: {reason}; is the archive complete?")
    return raw, problem


class _Tables:
    """Definitions in the making."""

    def __init__(self, raw: Mapping[str, Any], problem: str) -> None:
        self._raw = raw
        self._strings: dict[int, str] = dict(raw["String"])
        self._problems = [problem] if problem else []
        if raw["about"]["code"]:
            self._problems.append(f"the library stops in the definitions (error {raw['about']['code']})")

    def _text(self, number: int) -> str:
        return self._strings.get(number, "")

    def definitions(self) -> Definitions:
        raw = self._raw
        resolution, offset, *_ = raw["Clock"][0] if raw["Clock"] else (1_000_000_000, 0)
        told = {row[0]: self._text(row[3] & LARGEST_REF) for row in raw["LocationProperty"] if self._tells_place(row)}
        locations = [
            Location(number, self._text(name), kind, n, group, told.get(number, ""))
            for number, name, kind, n, group in raw["Location"]
        ]
        return Definitions(
            raw["about"],
            self._strings,
            {row[0]: self._region(row) for row in raw["Region"]},
            {row[0]: (row[1], row[2], row[3]) for row in raw["CallingContext"]},
            {row[0]: (self._text(row[1]), _line(row[2])) for row in raw["SourceCodeLocation"]},
            self._groups(locations),
            locations,
            self._communicators(),
            {row[0]: self._text(row[1]) for row in raw["Attribute"]},
            {row[0]: self._text(row[1]) for row in raw["Parameter"]},
            self._metrics(),
            resolution or 1_000_000_000,
            offset,
            self._problems,
        )

    def _tells_place(self, row: Sequence[int]) -> bool:
        return self._text(row[1]) == PLACE and row[2] == STRING_TYPE

    def _region(self, row: Sequence[int]) -> RegionDefinition:
        _, name, _, _, role, paradigm, _, file, line, end_line = row
        words = _word(ROLES, role), _word(PARADIGMS, paradigm)
        return RegionDefinition(self._text(name), *words, self._text(file), _line(line), _line(end_line))

    def _groups(self, locations: Sequence[Location]) -> dict[int, LocationGroup]:
        """Return processes and devices. Ranks are places in the group of all locations of MPI, or told by names."""
        nodes = {row[0]: row for row in self._raw["SystemTreeNode"]}
        group_of = {location.id: location.group for location in locations}
        world = self._world()
        ranks = {group_of.get(location, ABSENT): rank for rank, location in reversed(list(enumerate(world)))}
        out = {}
        for number, name, kind, node, creator in self._raw["LocationGroup"]:
            match = RANK.search(self._text(name))
            told = int(match[1]) if match is not None and kind == PROCESS else ABSENT
            host = self._text(nodes[node][1]) if node in nodes else ""
            owner = creator if kind == ACCELERATOR and creator != NONE else ABSENT
            out[number] = LocationGroup(self._text(name), kind, host, owner, ranks.get(number, told))
        return out

    def _world(self) -> list[int]:
        """Return the locations that take part in MPI, by rank."""
        every = [row for row in self._raw["Group"] if row[2] == COMM_LOCATIONS and row[3] == MPI]
        return list(every[0][5]) if every else []

    def _communicators(self) -> dict[int, Communicator]:
        members = {
            row[0]: range(len(row[5])) if row[2] == COMM_LOCATIONS else row[5]  # the others number its members
            for row in self._raw["Group"]
        }
        selves = {row[0] for row in self._raw["Group"] if row[2] == COMM_SELF}
        out = {
            number: Communicator(
                self._text(name) or f"communicator {number}", members.get(group, ()), (), group in selves
            )
            for number, name, group, _, _ in self._raw["Comm"]
        }
        for number, name, left, right, _, _ in self._raw["InterComm"]:
            title = self._text(name) or f"communicator {number}"
            out[number] = Communicator(title, members.get(left, ()), members.get(right, ()))
        return out

    def _metrics(self) -> dict[int, list[tuple[str, str]]]:
        members = {row[0]: (self._text(row[1]), self._text(row[8])) for row in self._raw["MetricMember"]}
        unknown = ("", "")
        out = {row[0]: [members.get(member, unknown) for member in row[1]] for row in self._raw["MetricClass"]}
        for number, of_class, *_ in self._raw["MetricInstance"]:
            out[number] = out.get(of_class, [])
        return out


def _line(number: int) -> int:
    """Return the number of a line; 0, which stands for an unknown one, where it cannot be one."""
    return number if number <= LAST_LINE else 0


def _word(words: Sequence[str], number: int) -> str:
    return words[number] if number < len(words) else f"{number}"
