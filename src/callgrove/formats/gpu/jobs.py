"""Whose databases are they? A folder may hold those of several jobs, which are then opened as one run.

Processes belong to different jobs where the environment that was recorded says so (SLURM_JOB_ID and its step,
PBS_JOBID, ...); without one, where processes of one machine followed each other: the processes of one run are there at
the same time. Clocks of different machines cannot be compared, so the first runs of all machines are taken for one.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Sequence
from pathlib import Path

from callgrove.formats.gpu.dataset import DataSet, Process
from callgrove.model.experiment import InputWarning, Severity

__all__ = ["note_on_jobs"]

JOB_VARIABLES = (
    ("SLURM_JOB_ID", "SLURM_STEP_ID"),
    ("PBS_JOBID",),
    ("LSB_JOBID",),
    ("FLUX_JOB_ID",),
    ("COBALT_JOBID",),
)
MOST_NAMED = 8
Where = tuple[Process, Path]


def note_on_jobs(path: Path, datasets: Sequence[DataSet]) -> list[InputWarning]:
    """Return a note that names the jobs, where there are several."""
    where = [(process, dataset.path) for dataset in datasets for process in dataset.processes]
    keys = _told_jobs(where) or _one_after_another(where)
    jobs: dict[Hashable, list[Where]] = {}
    for key, own in zip(keys, where, strict=True):
        jobs.setdefault(key, []).append(own)
    if len(jobs) < 2:
        return []
    names = [_describe(key, own, path) for key, own in jobs.items()]
    listed = "; ".join(names[:MOST_NAMED]) + ("; ..." if len(names) > MOST_NAMED else "")
    text = f"{path}: holds {len(jobs)} runs, which are opened as one: {listed}; name the files of one to open it alone"
    return [InputWarning(Severity.NOTE, text)]


def _told_jobs(where: Sequence[Where]) -> list[Hashable]:
    """The job of every process by its environment; empty where not all have one."""
    for first, *more in JOB_VARIABLES:
        if all(process.environment.get(first) for process, _ in where):
            return [tuple(process.environment.get(name, "") for name in (first, *more)) for process, _ in where]
    return []


def _one_after_another(where: Sequence[Where]) -> list[Hashable]:
    """The number of the run on its machine, for every process; 0 where times are not known."""
    order = sorted(range(len(where)), key=lambda k: (where[k][0].machine, where[k][0].start_ns))
    numbers: list[Hashable] = [0] * len(where)
    machine, number, latest = "", 0, 0
    for k in order:
        process = where[k][0]
        if not process.lasted or not process.machine:
            continue
        if process.machine != machine:
            machine, number, latest = process.machine, 0, process.end_ns
        elif process.start_ns > latest:
            number += 1
        latest = max(latest, process.end_ns)
        numbers[k] = number
    return numbers


def _describe(key: Hashable, own: Sequence[Where], path: Path) -> str:
    told = f"job {'.'.join(filter(None, key))}, " if isinstance(key, tuple) else ""
    files = sorted({file for _, file in own})
    shared = Path(os.path.commonpath([file.parent for file in files]))
    inside = path if path.is_dir() else path.parent
    place = str(shared) if shared != inside and len(files) > 1 else str(files[0])
    more = f" and {len(files) - 1} more" if shared == inside and len(files) > 1 else ""
    n = "1 process" if len(own) == 1 else f"{len(own)} processes"
    return f"{told}{n} in {place}{more}"
