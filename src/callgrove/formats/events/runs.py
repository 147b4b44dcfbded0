"""Which recorded processes are of which run: a folder may hold the files of several jobs.

Files are ranks of one run unless something says otherwise. In this order, the first that divides them:

    jobs        the environment that was recorded names other jobs (SLURM_JOB_ID with its step, PBS_JOBID, ...)
    times       on one clock, one was recorded after the other had ended. Processes of one run are there at the same
                time; windows in which a profiler recorded need not be: they say nothing of files with different ranks
    ranks       the same rank comes twice, and the folders that the files lie in tell the two apart
    programs    no clock can be compared and no rank is known, and the programs are different ones

What is divided is looked at again, unless a job and its step are known. A clock is that of a machine, or UTC; files
that do not name their machine are taken to be of one. Clocks of different machines cannot be compared: where these
had several runs, the first ones of all machines are taken for one, unless folders tell better.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from callgrove.errors import Parameter, compose_text, count_of
from callgrove.formats.events.dataset import UTC_CLOCK, DataSet, Process, Recorded
from callgrove.formats.events.ranks import read_claimed_ranks, read_ranks_in_names
from callgrove.model.experiment import InputWarning, Severity
from callgrove.model.runs import Run

__all__ = ["Runs", "split_into_runs"]


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
    """Processes that were recorded at once: one process, or several that the file says belong together."""

    file: Path
    processes: tuple[Process, ...]
    numbers: tuple[int, ...]  # of the processes among all

    @cached_property
    def window(self) -> Recorded | None:
        known = [process.window for process in self.processes if process.window is not None]
        return Recorded.around(known) if known else None

    @cached_property
    def programs(self) -> frozenset[str]:
        """Return the programs of its processes; empty where one is not known."""
        words = frozenset(process.command.split(" ")[0] for process in self.processes)
        return frozenset() if words & UNKNOWN else words


Sessions = list[Session]
Turns = dict[tuple[int, ...], tuple[str, int]]
NO_TURN = "", 0  # where times are not known


@dataclass(frozen=True)
class Runs:
    """The runs of some databases: `of_process` has the number of the run of every process. `why` says how they were
    told apart. A single run has the name of the whole, and no note."""

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
        """Return some of the runs, with new numbers, for some of the processes."""
        new = {old: k for k, old in enumerate(numbers)}
        of_process = tuple(new[self.of_process[process]] for process in processes)
        return Runs(tuple(self.runs[k] for k in numbers), of_process, self.why, tuple(self.texts[k] for k in numbers))


def split_into_runs(datasets: Sequence[DataSet]) -> Runs:
    """Divide the processes of all data sets into runs."""
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
    """Group processes by session, in the order of their files."""
    groups: dict[Hashable, list[tuple[int, Process, Path]]] = {}
    every = [(process, dataset.path) for dataset in datasets for process in dataset.processes]
    for number, (process, file) in enumerate(every):
        groups.setdefault(process.session or number, []).append((number, process, file))
    return [
        Session(group[0][2], tuple(process for _, process, _ in group), tuple(number for number, _, _ in group))
        for group in groups.values()
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
    """Return, for each session, its clock and how many gaps without any recording precede it."""
    turns: Turns = {}
    latest: dict[str, tuple[int, int]] = {}  # by clock: the turn, and when what is in it has ended
    windows = [(session.window, session.numbers) for session in group if session.window is not None]
    for window, numbers in sorted(windows, key=lambda item: (item[0].start_ns, item[0].end_ns)):
        turn, until = latest.get(window.clock, (0, window.end_ns))
        later = window.start_ns > until
        latest[window.clock] = (turn + 1, window.end_ns) if later else (turn, max(until, window.end_ns))
        turns[numbers] = window.clock, latest[window.clock][0]
    return turns


def _fit(folders: list[Sessions], turns: Turns) -> bool:
    """Return whether each folder holds one turn of every clock, and no two folders share a turn."""
    seen: set[tuple[str, int]] = set()
    for folder in folders:
        folder_turns = {turns[session.numbers] for session in folder if session.numbers in turns}
        if len({clock for clock, _ in folder_turns}) < len(folder_turns) or folder_turns & seen or not folder_turns:
            return False
        seen |= folder_turns
    return len(folders) > 1


def _by_rank(group: Sessions) -> list[Sessions]:
    if _are_different(_claims(group)):
        return [group]
    folders = _by_folder(group)
    return folders if all(_are_different(_claims(folder)) for folder in folders) else [group]


def _by_program(group: Sessions) -> list[Sessions]:
    clocks = [session.window.clock for session in group if session.window is not None]
    alike = _group(group, lambda session: session.programs)
    if len(set(clocks)) < len(clocks) or not all(sessions[0].programs for sessions in alike):
        return [group]
    if len(alike) < 2 or _claims(group) or _names_ranks(group):
        return [group]
    parts: list[tuple[frozenset[str], Sessions]] = []
    for sessions in alike:  # sessions that share a program are of one run, and so are those in between
        touched = [part for part in parts if part[0] & sessions[0].programs]
        words = sessions[0].programs.union(*(part[0] for part in touched))
        parts = [part for part in parts if not part[0] & words]
        parts.append((words, [*(session for part in touched for session in part[1]), *sessions]))
    return [part for _, part in parts]


def _claims(group: Sessions) -> list[int]:
    """Return the ranks that the data itself tells; empty where a process has none."""
    return read_claimed_ranks([process for session in group for process in session.processes])


def _names_ranks(group: Sessions) -> bool:
    """Return whether the names of all files tell their ranks, and these differ."""
    return bool(read_ranks_in_names([session.file for session in group]))


def _have_different_ranks(group: Sessions) -> bool:
    claims = _claims(group)
    return _are_different(claims) if claims else _names_ranks(group)


def _are_different(claims: Sequence[int]) -> bool:
    return len(set(claims)) == len(claims)


def _by_folder(group: Sessions) -> list[Sessions]:
    """Group sessions by the folder below the one that they share."""
    shared = Path(os.path.commonpath([session.file.parent for session in group]))
    return _group(group, lambda session: session.file.relative_to(shared).parts[:-1][:1])


def _group(sessions: Sessions, key: Callable[[Session], Hashable]) -> list[Sessions]:
    groups: dict[Hashable, Sessions] = {}
    for session in sessions:
        groups.setdefault(key(session), []).append(session)
    return list(groups.values())


# -- what they are called ----------------------------------------------------------------------------------------------


def _in_order(parts: list[Sessions]) -> list[Sessions]:
    """Return runs in the order of time, where they have one clock; otherwise in the order of their files."""
    windows = [_window_of(part) for part in parts]
    starts = [window.start_ns for window in windows if window is not None]
    if len({window.clock for window in windows if window is not None}) == 1 and len(starts) == len(parts):
        return [parts[k] for k in sorted(range(len(parts)), key=lambda k: (starts[k], k))]
    return sorted(parts, key=lambda part: min(session.file for session in part))


def _window_of(part: Sessions) -> Recorded | None:
    """Return when a run was recorded, where all of it is on one clock."""
    windows = [session.window for session in part if session.window is not None]
    return Recorded.around(windows) if len({window.clock for window in windows}) == 1 else None


def _names(parts: list[Sessions]) -> list[str]:
    """Return a name for each run: its folder, job, file or first file, whichever differs between all runs."""
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
    """Return the file of a run; empty where it has several."""
    return _only({str(session.file) for session in part})


def _describe(part: Sessions, parts: list[Sessions]) -> str:
    """Describe a run by its number of files and processes, its job, and its time."""
    n_files, n_processes = len({session.file for session in part}), sum(len(session.processes) for session in part)
    told = _job_name(_job_of(part)(part[0]))
    words = [f"job {told}"] if told else []
    words += [count_of(n_files, "file")]
    words += [count_of(n_processes, "process", "processes")] if n_processes != n_files else []
    return ", ".join([*words, *_describe_time(_window_of(part), _window_of(parts[0]))])


def _describe_time(window: Recorded | None, first: Recorded | None) -> list[str]:
    """Describe how long a run took, and when it was: the date, or the time since the first run."""
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
    size, unit = next((entry for entry in UNITS if time_ns >= entry[0]), UNITS[-1])
    return f"{time_ns / size:.3g} {unit}"
