"""What a user names -> the databases in it, each once; the jobs that they are of; index files.

A file, several files, a folder (searched in depth for `*.db`, `*.rpd`, `*.sqlite`), or a folder with an `index.yaml`
that lists its files (`.rpdb`). Files that are no databases of ours are passed over in folders.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from itertools import islice
from pathlib import Path

from callgrove.errors import InputError, Parameter, UsageError, compose_text
from callgrove.formats.gpu.dataset import UTC_CLOCK, DataSet, Process, Recorded
from callgrove.formats.gpu.places import claimed_ranks, named_ranks
from callgrove.formats.writing.targets import FolderKind, PendingFolder
from callgrove.model.experiment import InputWarning, Severity
from callgrove.model.runs import Run

__all__ = [
    "ENDINGS",
    "FOLDER",
    "INDEX",
    "Runs",
    "candidates",
    "databases",
    "names_of_files",
    "read_ahead",
    "size_of",
    "split_into_runs",
    "write_index",
]


ENDINGS = (".db", ".rpd", ".sqlite", ".sqlite3")
INDEX = "index.yaml"
OTHERS = ("meta.db", "profile.db", "cct.db", "trace.db")  # what HPCToolkit calls its own, which may lie nearby
OTHERS_MAGIC = b"HPCTOOLKIT"
MOST_LOOKED_AT = 4096  # entries of a folder that detection goes through
_FOLDER = re.compile(r"""^\s*path:\s*["']?([^"'#]+?)["']?\s*$""", re.MULTILINE)
_NAME = re.compile(r"""["']?([^"'#\[\],]+?\.(?:db|rpd|sqlite3?))["']?\s*(?=[,\]#]|$)""")


def databases(paths: Iterable[Path]) -> list[Path]:
    """The files behind paths, in order, none twice."""
    return [names[0] for names in names_of_files(paths)]


def names_of_files(paths: Iterable[Path]) -> list[list[Path]]:
    """The files behind paths, in order, each with all the names that lead to it."""
    found: dict[Path, list[Path]] = {}
    for path in paths:
        inside = _files_in_index(path) if path.name == INDEX else _inside(path) if path.is_dir() else [path]
        for file in sorted(inside):
            found.setdefault(Path(os.path.realpath(file)), []).append(file)  # links may go round in circles
    return list(found.values())


def size_of(path: Path) -> int:
    """Bytes of a file; none of one that is gone."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def read_ahead(paths: Iterable[Path]) -> None:
    """Have the system fetch files that are wanted soon, while something else is done. Only a hint: whoever reads them
    says what is wrong with them."""
    if not hasattr(os, "posix_fadvise"):
        return
    for path in paths:
        with suppress(OSError):
            file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            try:
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_WILLNEED)
            finally:
                os.close(file)


def candidates(folder: Path, most: int) -> list[Path]:
    """Some files in a folder that could be databases, for detection: the search ends soon in large folders."""
    return sorted(islice(_inside(folder, MOST_LOOKED_AT), most))


def _inside(folder: Path, most: int | None = None) -> Iterator[Path]:
    index = folder / INDEX
    if index.is_file():
        yield from _files_in_index(index)
        return
    for file in islice(folder.rglob("*"), most):
        hidden = any(p.startswith(".") for p in file.parts[-2:])
        if file.suffix in ENDINGS and file.is_file() and not hidden and not _is_of_hpctoolkit(file):
            yield file


def _is_of_hpctoolkit(file: Path) -> bool:
    if file.name not in OTHERS:
        return False
    try:
        with file.open("rb") as opened:
            return opened.read(len(OTHERS_MAGIC)) == OTHERS_MAGIC
    except OSError:  # whoever opens it says why
        return False


def _files_in_index(index: Path) -> Iterator[Path]:
    """The files that an index names: whatever ends like a database, in lists of either style.

    They lie in the folder that its `path` names, if that is one, else beside the index.
    """
    try:
        text = index.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError(f"{index}: cannot be read: {error.strerror or error}") from error
    told = _FOLDER.search(text)
    folder = index.parent / told[1] if told and not told[1].endswith(ENDINGS) else index.parent
    for line in text.splitlines():
        item = re.sub(r"^\s*(?:-\s*)?(?:\w+:\s*)?", "", line)
        for name in _NAME.finditer(item):
            yield folder / name[1].strip()


# Which databases are of which run? A folder may hold those of several jobs.
#
# Files are ranks of one run unless something says otherwise. In this order, the first that divides them:
#
#     jobs        the environment that was recorded names other jobs (SLURM_JOB_ID with its step, PBS_JOBID, ...)
#     times       on one clock, one was recorded after the other had ended. Processes of one run are there at the same
#                 time; windows in which a profiler recorded need not be: they say nothing of files with different ranks
#     ranks       the same rank comes twice, and the folders that the files lie in tell the two apart
#     programs    no clock can be compared and no rank is known, and the programs are different ones
#
# What is divided is looked at again, unless a job and its step are known. A clock is that of a machine, or UTC; files
# that do not name their machine are taken to be of one. Clocks of different machines cannot be compared: where these
# had several runs, the first ones of all machines are taken for one, unless folders tell better.


JOB_VARIABLES = (
    ("SLURM_JOB_ID", "SLURM_STEP_ID"),
    ("PBS_JOBID",),
    ("LSB_JOBID",),
    ("FLUX_JOB_ID",),
    ("COBALT_JOBID",),
)
MOST_NAMED = 8
UNKNOWN = frozenset(("", "pid"))  # programs of which no more is told than the number of the process
UNITS = ((10**9, "s"), (10**6, "ms"), (10**3, "us"), (1, "ns"))


@dataclass(frozen=True)
class Session:
    """What was recorded at once: one process, or all that the file says so of."""

    file: Path
    processes: tuple[Process, ...]
    numbers: tuple[int, ...]  # of the processes among all

    @cached_property
    def window(self) -> Recorded | None:
        known = [process.window for process in self.processes if process.window is not None]
        return Recorded.around(known) if known else None

    @cached_property
    def programs(self) -> frozenset[str]:
        """The programs of its processes; empty where one is not known."""
        words = frozenset(process.command.split(" ")[0] for process in self.processes)
        return frozenset() if words & UNKNOWN else words


Sessions = list[Session]
Turns = dict[tuple[int, ...], tuple[str, int]]
NO_TURN = "", 0  # where times are not known


@dataclass(frozen=True)
class Runs:
    """The runs of some databases: `of_process` has the number of the run of every process. `why` says what told them
    apart. Of a single run nothing is said: it has the name of the whole."""

    runs: tuple[Run, ...]
    of_process: tuple[int, ...]
    why: tuple[str, ...] = ()
    texts: tuple[str, ...] = field(default=(), repr=False)  # of each run, what there is to say of it

    def note(self, named: str) -> list[InputWarning]:
        """Return a note that lists the runs, where there are several."""
        if len(self.runs) < 2:
            return []
        told = [f"{k} {run.name} ({text})" for k, (run, text) in enumerate(zip(self.runs, self.texts, strict=True))]
        listed = "; ".join(told[:MOST_NAMED]) + ("; ..." if len(told) > MOST_NAMED else "")
        text = f"{named}: {len(self.runs)} runs, told apart by {' and '.join(self.why)}: {listed}"
        remedy = Parameter("runs"), " chooses one by its name or number"
        return [InputWarning(Severity.NOTE, compose_text(f"{text}; ", *remedy))]

    def take(self, numbers: Sequence[int], processes: Iterable[int]) -> Runs:
        """Some of the runs, numbered anew, of some of the processes."""
        new = {old: k for k, old in enumerate(numbers)}
        own = tuple(new[self.of_process[process]] for process in processes)
        return Runs(tuple(self.runs[k] for k in numbers), own, self.why, tuple(self.texts[k] for k in numbers))


def split_into_runs(datasets: Sequence[DataSet]) -> Runs:
    """Say which process of all data sets is of which run."""
    sessions = _sessions(datasets)
    n_processes = sum(len(dataset.processes) for dataset in datasets)
    why: dict[str, None] = {}
    parts = _in_order([part for group in _by_job(sessions, why) for part in _divide(group, why)])
    if len(parts) < 2:
        return Runs((Run(),), (0,) * n_processes)
    of_process = [0] * n_processes
    for number, part in enumerate(parts):
        for process in (process for session in part for process in session.numbers):
            of_process[process] = number
    runs = [Run(name, source=_place_of(part)) for name, part in zip(_names(parts), parts, strict=True)]
    return Runs(tuple(runs), tuple(of_process), tuple(why), tuple(_describe(part, parts) for part in parts))


def _sessions(datasets: Sequence[DataSet]) -> Sessions:
    """Processes by session, in the order of their files."""
    found: dict[Hashable, list[tuple[int, Process, Path]]] = {}
    every = [(process, dataset.path) for dataset in datasets for process in dataset.processes]
    for number, (process, file) in enumerate(every):
        found.setdefault(process.session or number, []).append((number, process, file))
    return [
        Session(own[0][2], tuple(process for _, process, _ in own), tuple(number for number, _, _ in own))
        for own in found.values()
    ]


# -- what divides them -------------------------------------------------------------------------------------------------


def _by_job(sessions: Sessions, why: dict[str, None]) -> list[Sessions]:
    parts = _group(sessions, _job_of(sessions))
    if len(parts) > 1:
        why["their jobs"] = None
    return parts


def _job_of(sessions: Sessions) -> Callable[[Session], tuple[str, ...]]:
    """Return what gives the job of a session, with its step: the first variable that all processes have. Where there is
    none, all are of one job without a name."""
    environments = [process.environment for session in sessions for process in session.processes]
    for names in JOB_VARIABLES:
        if environments and all(environment.get(names[0]) for environment in environments):
            return lambda session: tuple(session.processes[0].environment.get(name, "") for name in names)
    return lambda _: ()


def _divide(group: Sessions, why: dict[str, None]) -> list[Sessions]:
    """Divide sessions by the first rule that tells them apart, and the parts again."""
    job = _job_of(group)(group[0])
    if len(job) > 1 and all(job):
        return [group]
    for rule, word in ((_by_time, "times that do not overlap"), (_by_rank, "their ranks"), (_by_program, "programs")):
        parts = rule(group)
        if len(parts) > 1:
            why[word] = None
            return [inner for part in parts for inner in _divide(part, why)]
    return [group]


def _by_time(group: Sessions) -> list[Sessions]:
    only_lives = all(session.window.is_life for session in group if session.window is not None)
    if not only_lives and _have_different_ranks(group):
        return [group]
    turns = _turns(group)
    parts = _group(group, lambda session: turns.get(session.numbers, NO_TURN)[1])
    if len(parts) < 2:
        return parts
    folders = _by_folder(group)
    return folders if _fit(folders, turns) else parts


def _turns(group: Sessions) -> Turns:
    """By the numbers of a session: its clock, and how many gaps there are before it, in which nothing was recorded."""
    turns: Turns = {}
    latest: dict[str, tuple[int, int]] = {}  # by clock: the turn, and when what is in it has ended
    windows = [(session.window, session.numbers) for session in group if session.window is not None]
    for window, numbers in sorted(windows, key=lambda one: (one[0].start_ns, one[0].end_ns)):
        turn, until = latest.get(window.clock, (0, window.end_ns))
        later = window.start_ns > until
        latest[window.clock] = (turn + 1, window.end_ns) if later else (turn, max(until, window.end_ns))
        turns[numbers] = window.clock, latest[window.clock][0]
    return turns


def _fit(folders: list[Sessions], turns: Turns) -> bool:
    """Is what lies in each folder of one turn of every clock, and of others than what lies in other folders?"""
    seen: set[tuple[str, int]] = set()
    for folder in folders:
        own = {turns[session.numbers] for session in folder if session.numbers in turns}
        if len({clock for clock, _ in own}) < len(own) or own & seen or not own:
            return False
        seen |= own
    return len(folders) > 1


def _by_rank(group: Sessions) -> list[Sessions]:
    if _are_different(_claims(group)):
        return [group]
    folders = _by_folder(group)
    return folders if all(_are_different(_claims(folder)) for folder in folders) else [group]


def _by_program(group: Sessions) -> list[Sessions]:
    clocks = [session.window.clock for session in group if session.window is not None]
    alike = _group(group, lambda session: session.programs)
    if len(set(clocks)) < len(clocks) or not all(own[0].programs for own in alike):
        return [group]
    if len(alike) < 2 or _claims(group) or _names_ranks(group):
        return [group]
    parts: list[tuple[frozenset[str], Sessions]] = []
    for own in alike:  # sessions that share a program are of one run, and so are those in between
        touched = [part for part in parts if part[0] & own[0].programs]
        words = own[0].programs.union(*(part[0] for part in touched))
        parts = [part for part in parts if not part[0] & words]
        parts.append((words, [*(session for part in touched for session in part[1]), *own]))
    return [part for _, part in parts]


def _claims(group: Sessions) -> list[int]:
    """The ranks that the data itself tells; empty where not all processes have one."""
    return claimed_ranks([process for session in group for process in session.processes])


def _names_ranks(group: Sessions) -> bool:
    """Do the names of all files tell their rank, and are these different ones?"""
    return bool(named_ranks([session.file for session in group]))


def _have_different_ranks(group: Sessions) -> bool:
    claims = _claims(group)
    return _are_different(claims) if claims else _names_ranks(group)


def _are_different(claims: Sequence[int]) -> bool:
    return len(set(claims)) == len(claims)


def _by_folder(group: Sessions) -> list[Sessions]:
    """Sessions by the folder below the one that they share."""
    shared = Path(os.path.commonpath([session.file.parent for session in group]))
    return _group(group, lambda session: session.file.relative_to(shared).parts[:-1][:1])


def _group(sessions: Sessions, key: Callable[[Session], Hashable]) -> list[Sessions]:
    found: dict[Hashable, Sessions] = {}
    for session in sessions:
        found.setdefault(key(session), []).append(session)
    return list(found.values())


# -- what they are called ----------------------------------------------------------------------------------------------


def _in_order(parts: list[Sessions]) -> list[Sessions]:
    """As they followed each other, where one clock tells; else by their files."""
    windows = [_window_of(part) for part in parts]
    starts = [window.start_ns for window in windows if window is not None]
    if len({window.clock for window in windows if window is not None}) == 1 and len(starts) == len(parts):
        return [parts[k] for k in sorted(range(len(parts)), key=lambda k: (starts[k], k))]
    return sorted(parts, key=lambda part: min(session.file for session in part))


def _window_of(part: Sessions) -> Recorded | None:
    """When a run was recorded, where all of it is on one clock."""
    windows = [session.window for session in part if session.window is not None]
    return Recorded.around(windows) if len({window.clock for window in windows}) == 1 else None


def _names(parts: list[Sessions]) -> list[str]:
    """A name for each run: its folder, its job, its file or first file, whatever is different for all of them."""
    every = [session for part in parts for session in part]
    shared = Path(os.path.commonpath([session.file.parent for session in every]))
    job = _job_of(every)
    ways = (
        [_only({"/".join(session.file.relative_to(shared).parts[:-1][:1]) for session in part}) for part in parts],
        [_only({_job_name(job(session)) for session in part}) for part in parts],
        [str(min(session.file for session in part).relative_to(shared)) for part in parts],
    )
    usual = [f"run{number}" for number in range(len(parts))]
    return next((names for names in ways if all(names) and len(set(names)) == len(names)), usual)


def _job_name(job: tuple[str, ...]) -> str:
    return ".".join(filter(None, job))


def _only(names: set[str]) -> str:
    return names.pop() if len(names) == 1 else ""


def _place_of(part: Sessions) -> str:
    """The file of a run; empty where it has several."""
    return _only({str(session.file) for session in part})


def _describe(part: Sessions, parts: list[Sessions]) -> str:
    """How many files and processes, which job, and when."""
    n_files, n_processes = len({session.file for session in part}), sum(len(session.processes) for session in part)
    told = _job_name(_job_of(part)(part[0]))
    words = [f"job {told}"] if told else []
    words += [_count(n_files, "file", "files")]
    words += [_count(n_processes, "process", "processes")] if n_processes != n_files else []
    return ", ".join([*words, *_when(_window_of(part), _window_of(parts[0]))])


def _when(window: Recorded | None, first: Recorded | None) -> list[str]:
    """How long a run took, and when: the date, or how long after the first one."""
    if window is None:
        return []
    lasted = f"{_seconds(window.end_ns - window.start_ns)} long"
    if window.clock == UTC_CLOCK:
        return [lasted, datetime.fromtimestamp(window.start_ns // 10**9, UTC).strftime("on %Y-%m-%d at %H:%M:%S UTC")]
    if first is None or first.clock != window.clock or window.start_ns <= first.start_ns:
        return [lasted]
    return [lasted, f"{_seconds(window.start_ns - first.start_ns)} after the first"]


def _seconds(time_ns: int) -> str:
    if time_ns >= 10**12:
        return f"{time_ns // 10**9:,} s"
    size, unit = next((one for one in UNITS if time_ns >= one[0]), UNITS[-1])
    return f"{time_ns / size:.3g} {unit}"


def _count(n: int, one: str, many: str) -> str:
    return f"1 {one}" if n == 1 else f"{n:,} {many}"


# Writes an index: a folder (`.rpdb`) whose `index.yaml` names the databases of a run, so that they open as one.
#
#     rocprofiler-sdk:
#       rocpd:
#         path: ..                the folder that the names start from, relative to the index
#         files:
#           - node1/1000.db
#
# Nothing is copied. The folder and the databases can be moved together.


FOLDER = FolderKind("an index of databases", lambda folder: (folder / INDEX).is_file())
_SAFE = re.compile(r"""[^"'#\[\],:\s][^"'#\[\],\n\r]*""")


def write_index(files: Sequence[Path], target: Path, overwrite: bool = False) -> None:
    """An index of these databases; what is there already goes only if it is such an index."""
    below = Path(os.path.commonpath([file.resolve().parent for file in files]))
    names = [str(file.resolve().relative_to(below)) for file in files]
    for file, name in zip(files, names, strict=True):
        if not _SAFE.fullmatch(name) or not name.endswith(ENDINGS):
            raise UsageError(f"{file}: an index cannot hold this name; names in it end in {', '.join(ENDINGS)}")
    pending = PendingFolder(target, overwrite, FOLDER)
    with pending.or_nothing():
        start = os.path.relpath(below, target.resolve())
        lines = ["rocprofiler-sdk:", "  rocpd:", f"    path: {start}", "    files:", *(f"      - {n}" for n in names)]
        (pending.place / INDEX).write_text("\n".join(lines) + "\n", encoding="utf-8")
        pending.complete()
