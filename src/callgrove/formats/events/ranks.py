"""Which rank a process is.

Specification: gpu-traces.md 2.4. The first rule that answers for all processes wins:

    1. the user names an environment variable (`ReadOptions.rank_env`)
    2. the data says so (MPI_RANKS, metadata)
    3. a launcher's variable in the environment that was recorded
    4. a number in the path (rank3, .r3., _3.db), the last one if there are several, if all have one and all differ
    5. the order of (host, start, pid, uid)

Two processes that claim one rank make the claim worthless for all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from callgrove.arrays import ABSENT
from callgrove.errors import Parameter, UsageError
from callgrove.formats.events.dataset import Process

__all__ = ["RANK_VARIABLES", "ranks_of", "read_claimed_ranks", "read_ranks_in_names"]


# Most specific first. MPI_LOCALRANKID counts within a node and is not a rank.
RANK_VARIABLES = (
    "PMIX_RANK",
    "OMPI_COMM_WORLD_RANK",
    "PMI_RANK",
    "MV2_COMM_WORLD_RANK",
    "MPT_MPI_RANK",
    "PALS_RANKID",
    "FLUX_TASK_RANK",
    "SLURM_PROCID",
    "JSM_NAMESPACE_RANK",
    "ALPS_APP_PE",
    "PMI_ID",
)
FILE_NUMBERS = tuple(
    map(re.compile, (r"rank[_-]?(\d+)", r"\.r(\d+)\.", r"[_-](\d+)\.(?:db|proto|pftrace|perfetto-trace)$"))
)

Claims = list[int]


def ranks_of(processes: Sequence[Process], paths: Sequence[Path], variable: str = "") -> tuple[list[int], list[str]]:
    """Return the rank of every process, and what a user should know about how it was found."""
    if variable:
        claims = [_parse_number(p.environment.get(variable)) for p in processes]
        if ABSENT in claims:
            unset = processes[claims.index(ABSENT)]
            raise UsageError(
                Parameter("rank_env", variable),
                f": the recorded environment of process {unset.pid} on {unset.host or 'its node'}"
                " does not have it as a number",
            )
        return claims, _twice(claims, variable)
    notes: list[str] = []
    for claim in (_told, _from_environment, lambda p: read_ranks_in_names(paths)):
        claims = claim(processes)
        if not claims or ABSENT in claims:
            continue
        if len(set(claims)) == len(claims):
            return claims, notes
        notes = ["two processes claim the same rank: ranks follow the order of host, start and process number"]
        break
    return _by_order(processes), notes


def read_claimed_ranks(processes: Sequence[Process]) -> Claims:
    """Return the ranks that the data itself tells, which may come twice; empty where not all processes have one."""
    return next((claims for claims in (_told(processes), _from_environment(processes)) if ABSENT not in claims), [])


def _twice(claims: Claims, variable: str) -> list[str]:
    if len(set(claims)) == len(claims):
        return []
    return [f"{variable} gives several processes the same rank"]


def _told(processes: Sequence[Process]) -> Claims:
    return [p.rank for p in processes]


def _from_environment(processes: Sequence[Process]) -> Claims:
    for variable in RANK_VARIABLES:
        claims = [_parse_number(p.environment.get(variable)) for p in processes]
        if ABSENT in claims:
            continue
        if variable == "SLURM_PROCID" and len(set(claims)) < len(claims) and not any(map(_many_tasks, processes)):
            continue  # every job step without tasks says 0
        return claims
    return []


def _many_tasks(process: Process) -> bool:
    return _parse_number(process.environment.get("SLURM_NTASKS")) > 1


def read_ranks_in_names(paths: Sequence[Path]) -> Claims:
    """Return the ranks that the names of files tell; empty where not all have one, or two have the same."""
    for pattern in FILE_NUMBERS:
        matches = [pattern.findall(path.as_posix()) for path in paths]
        claims = [int(numbers[-1]) for numbers in matches if numbers]
        if len(claims) == len(paths) and len(set(claims)) == len(claims):
            return claims
    return []


def _by_order(processes: Sequence[Process]) -> Claims:
    key: Callable[[int], tuple[str, int, int, str]] = lambda k: (  # noqa: E731
        processes[k].host,
        processes[k].start_ns,
        processes[k].pid,
        processes[k].uid,
    )
    ranks = [0] * len(processes)
    for rank, k in enumerate(sorted(range(len(processes)), key=key)):
        ranks[k] = rank
    return ranks


def _parse_number(text: str | None) -> int:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 10 else ABSENT
