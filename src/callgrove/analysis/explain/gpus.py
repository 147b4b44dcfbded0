"""What devices of a run did: computing, copying, exchanging, idle, and how much of it at once.

The time of a run is divided up for each device, so that its parts add up to it:

    compute      a kernel was running, whatever else went on
    exchange     kernels of RCCL or NCCL ran, and none that computes
    copy         nothing but copies
    idle         nothing, between the first operation and the last
    outside      before the first operation, and after the last

Copies that ran beside kernels are hidden: they take no part in this.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from callgrove.analysis.devices import CLASSES, SET_NAMES
from callgrove.analysis.summary import rows_by_section, summarise
from callgrove.analysis.summary_sections import By, DeviceSums, Summary
from callgrove.arrays import ABSENT, Floats
from callgrove.model.experiment import Experiment

__all__ = ["PARTS", "Devices", "Operation", "read_devices"]

PARTS = ("compute", "exchange", "copy", "idle", "outside")
COMPUTE, COMMUNICATION, COPY = CLASSES
READ = ("kernels", "copies", "gaps", "longest-gaps", "busy", "overlap")


@dataclass
class Operation:
    """Kernels or copies of one name: how many, for how long in all and on each device, how many bytes."""

    count: int = 0
    total_ns: int = 0
    n_bytes: int = 0
    by_place: dict[tuple[int, int], int] = field(default_factory=dict)

    @property
    def mean_ns(self) -> float:
        return self.total_ns / self.count if self.count else 0.0


@dataclass(frozen=True)
class Devices:
    """The devices of a run. `longest` is the longest gap: its place and length, and when it began."""

    experiment: Experiment
    sums: tuple[DeviceSums, ...]
    kernels: dict[str, Operation]
    copies: dict[str, Operation]
    causes_ns: dict[str, int]
    longest: tuple[str, int, int] | None

    @property
    def names(self) -> tuple[str, ...]:
        """What each device is called."""
        return tuple(_name_device(one.rank, one.agent) for one in self.sums)

    @property
    def wall_ns(self) -> int:
        """The time of the run: that of the process that took longest."""
        return max(one.process_ns for one in self.sums)

    @cached_property
    def parts(self) -> dict[str, Floats]:
        """The time of every device by what it did, in ns; all of it adds up to the time of the run."""
        span = np.array([one.span_ns for one in self.sums], np.float64)
        return {
            "compute": self._going_on(name for name in SET_NAMES if COMPUTE in name),
            "exchange": self._going_on(n for n in SET_NAMES if COMMUNICATION in n and COMPUTE not in n),
            "copy": self._going_on([f"{COPY} only"]),
            "idle": self._going_on(["idle"]),
            "outside": self.wall_ns - span,
        }

    @cached_property
    def hidden_ns(self) -> Floats:
        """For how long copies ran beside something else, on each device."""
        return self._going_on(name for name in SET_NAMES if COPY in name and name != f"{COPY} only")

    @property
    def work_ns(self) -> Floats:
        """What each device did itself: computing, and copies that nothing hid."""
        return self.parts["compute"] + self.parts["copy"]

    def _going_on(self, names: Iterable[str]) -> Floats:
        chosen = list(names)
        return np.array([sum(one.going_on_ns.get(name, 0) for name in chosen) for one in self.sums], np.float64)

    def blame(self, device: int) -> str:
        """Return the kernel of which a device has most beyond what the others have of it."""
        place, n = (self.sums[device].rank, self.sums[device].agent), len(self.sums)
        beyond = {name: one.by_place.get(place, 0) - one.total_ns / n for name, one in self.kernels.items()}
        return max(beyond, key=lambda name: (beyond[name], name), default="")


def _name_device(rank: int, agent: int) -> str:
    parts = [f"rank {rank}"] if rank >= 0 else []
    return " ".join([*parts, f"GPU {agent}" if agent >= 0 else "GPU"])


def read_devices(experiment: Experiment, summary: Summary | None = None) -> Devices | None:
    """Return what the devices of a run did; None where it has no traces of any. A summary that was made before is not
    made again; it need not be divided by rank and agent."""
    if not experiment.traces.n_spans:
        return None
    made = summary if summary is not None else summarise(experiment, (By.RANK, By.AGENT), sections=READ)
    if not made.devices:
        return None
    rows = rows_by_section(made, READ)
    causes: dict[str, int] = {}
    for row in rows.get("gaps", ()):
        causes[row["name"]] = causes.get(row["name"], 0) + row["total_ns"]
    sums = tuple(sorted(made.devices, key=lambda one: (one.run, one.rank, one.agent)))
    kernels, copies = (_add_up(rows.get(section, ())) for section in ("kernels", "copies"))
    return Devices(experiment, sums, kernels, copies, causes, _find_longest(made, experiment))


def _add_up(rows: Iterable[dict[str, Any]]) -> dict[str, Operation]:
    """Return the operations of a section by name."""
    out: dict[str, Operation] = {}
    for row in rows:
        one = out.setdefault(str(row["name"]), Operation())
        one.count += row["count"]
        one.total_ns += row["total_ns"]
        one.n_bytes += row.get("bytes") or 0
        place = _number(row.get("rank")), _number(row.get("agent"))
        one.by_place[place] = one.by_place.get(place, 0) + row["total_ns"]
    return out


def _number(value: int | None) -> int:
    return ABSENT if value is None else value


def _find_longest(summary: Summary, experiment: Experiment) -> tuple[str, int, int] | None:
    """Return where the longest gap is, how long it is, and when it began after the beginning of the trace."""
    if not (gaps := sorted(summary.longest_gaps, key=lambda gap: gap.place)):
        return None
    begin = experiment.traces.time_range[0] if experiment.traces.time_range else 0
    return _name_device(gaps[0].rank, gaps[0].agent), gaps[0].length_ns, gaps[0].start_ns - begin
