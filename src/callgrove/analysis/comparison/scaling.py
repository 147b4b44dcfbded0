"""Losses, speed-up and efficiency between a run on p processes and one on q.

With C the cost of a call path over all processes, and T that of the whole run:

    column       strong: the same problem            weak: a problem that grows with the processes
    loss         100 (C_q - C_p) / T_q               100 (C_q / q - C_p / p) / (T_q / q)        percent of the right run
    speedup      (C_p / p) / (C_q / q)               the same
    efficiency   C_p / C_q                           the speed-up

Loss is excess work: 0 where scaling is perfect, below 0 where it is better than that. It is linear in costs, so that
the losses of what a context calls and its exclusive loss add up to its inclusive one. Speed-up and efficiency are of
call paths that both runs have; where one has none, there is nothing to divide.

A process is a rank. How many there are is read off the profiles that were chosen, or said. Where the only profile of a
run holds the sums over all of its processes, their number is the parameter that counts them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from callgrove.arrays import Array, Bools, Floats, Ints
from callgrove.errors import Parameter, UsageError
from callgrove.model.experiment import Experiment
from callgrove.model.profiles import ProfileKind

__all__ = ["SCALINGS", "Processes", "count_processes", "scaling_figures"]

SCALINGS = ("weak", "strong")
PROCESS_PARAMETERS = ("p", "procs", "processes", "ranks", "nprocs", "np", "tasks")


@dataclass(frozen=True)
class Processes:
    """How many processes and profiles each of several inputs has; None where nothing says it."""

    counts: tuple[int | None, ...]
    profiles: tuple[int, ...]
    runs: tuple[int, ...]  # how many of them are added up
    names: tuple[str, ...]
    is_said: bool = False

    @classmethod
    def read(
        cls, experiments: Sequence[Experiment], chosen: Sequence[Ints | None], said: Sequence[int] | None = None
    ) -> Processes:
        """Count the ranks of the profiles that were chosen (None: all), unless somebody says how many there are."""
        used = [e.profiles.measured if ids is None else ids for e, ids in zip(experiments, chosen, strict=True)]
        counts: Sequence[int | None] = said or list(map(count_processes, experiments, used))
        runs = [len(np.unique(e.profiles.run[ids])) for e, ids in zip(experiments, used, strict=True)]
        names = tuple(e.path or e.title for e in experiments)
        return cls(tuple(counts), tuple(map(len, used)), tuple(runs), names, said is not None)

    def of(self, number: int) -> int | None:
        """Return the number of processes of an input; None where it is not known, or where runs are added up."""
        return self.counts[number] if self.runs[number] == 1 or self.is_said else None

    def require(self, number: int) -> int:
        """Return the number of processes of an input; that it is not known is an error."""
        if (count := self.of(number)) is not None:
            return count
        if self.runs[number] != 1:
            several = f"{self.names[number]}: {self.runs[number]} runs are added up, and scaling is of one; choose it ("
            raise UsageError(several, Parameter("runs"), ")")
        example = Parameter("processes", ",".join(["4", "8", "16", "32"][: max(2, len(self.names))]))
        raise UsageError(
            f"{self.names[number]}: no profile has a rank, so that the number of processes is not known; "
            "give that of every input: ",
            example,
        )

    def differ(self) -> bool:
        """Return whether the numbers are known of all inputs, and not the same."""
        counts = {self.of(number) for number in range(len(self.names))}
        return None not in counts and len(counts) > 1

    def say(self, names: Sequence[str]) -> str:
        """Return how many processes each input has, as text; `names` is how they are called."""
        parts = [f"{count} in {name}" for count, name in zip(self.counts, names, strict=True)]
        return f"processes{'' if self.is_said else ' (ranks)'}: {', '.join(parts)}"


def count_processes(experiment: Experiment, profiles: Ints) -> int | None:
    """Return how many ranks some profiles are of, or how many processes one that holds all of them stands for; None
    where that is not known."""
    if not len(profiles):
        return None
    ranks, present = (column[profiles] for column in experiment.profiles.identity("rank"))
    if present.all():
        return len(np.unique(ranks))
    if len(profiles) > 1 or experiment.profiles.kind[profiles[0]] != ProfileKind.AGGREGATE:
        return None
    parameters = experiment.runs[experiment.profiles.run[profiles[0]]].parameters
    counts = [value for name, value in parameters.items() if name.lower() in PROCESS_PARAMETERS]
    return int(counts[0]) if len(counts) == 1 and counts[0] >= 1 and counts[0] % 1 == 0 else None


def scaling_figures(
    left: Array, right: Array, in_both: Bools, total: Floats, p: Floats, q: Floats, scaling: str
) -> dict[str, Floats]:
    """Return loss, speed-up and efficiency of rows with these costs on p and q processes; `total` is that of the right
    run. NaN is not a figure."""
    one, other = left.astype(np.float64), right.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        speedup = (one / p) / (other / q)
        is_strong = scaling == "strong"
        excess, whole = (other - one, total) if is_strong else (other / q - one / p, total / q)
        figures = {
            "loss": 100 * excess / whole,
            "speedup": np.where(in_both, speedup, np.nan),
            "efficiency": np.where(in_both, one / other if is_strong else speedup, np.nan),
        }
    return {name: np.where(np.isfinite(values), values, np.nan) for name, values in figures.items()}
