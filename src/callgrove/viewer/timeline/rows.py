"""The rows of a timeline: one for each profile with a trace, in the order of the machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from callgrove.model.arrays import ABSENT, Ids, Ints
from callgrove.model.experiment import Experiment
from callgrove.viewer.processes import process_numbers

__all__ = ["Rows", "rows_of"]

Identity = Mapping[str, Sequence[int | None]]
WHAT = ("samples", "spans", "profiler")
ORDER = ("node", "rank", "gpu_device", "gpu_context", "gpu_stream", "thread")


@dataclass(frozen=True)
class Rows:
    """Row r is profile `profile[r]`, of which it shows `what[r]`: samples, spans, or what the profiler did there. A
    profile has a row for each of them that it has."""

    profile: Ints
    what: tuple[str, ...]
    group: tuple[str, ...]  # what rows have in common that stand together: node and rank
    name: tuple[str, ...]
    of_samples: Ids  # the row of each profile, -1 where it has none
    of_spans: Ids
    of_overhead: Ids

    def __len__(self) -> int:
        return len(self.profile)


def rows_of(experiment: Experiment, with_samples: Ints, with_spans: Ints, with_overhead: Ints) -> Rows:
    """Rows of the profiles that have samples, of those that have spans, and of those in which the profiler worked."""
    profiles = experiment.profiles
    groups = zip(WHAT, (with_samples, with_spans, with_overhead), strict=True)
    keys = [(profile, what) for what, group in groups for profile in group.tolist()]
    identity = {name: profiles.identity_list(name) for name in ORDER}
    nodes = sorted({node for node in identity["node"] if node is not None})
    numbers = process_numbers(experiment)

    def place(key: tuple[int, str]) -> tuple[int, ...]:
        profile, what = key
        numbers = [ABSENT if (n := identity[name][profile]) is None else n for name in ORDER]
        return int(profiles.run[profile]), *numbers, profile, WHAT.index(what)

    keys.sort(key=place)
    again = {_tuple(experiment, profile) for profile, number in enumerate(numbers) if number}
    group = [
        _group(experiment, profile, nodes, identity, numbers[profile] if _tuple(experiment, profile) in again else None)
        for profile, _ in keys
    ]
    name = [_name(experiment, profile, identity) for profile, _ in keys]
    twice = Counter(zip(group, name, [what for _, what in keys], strict=True))
    for row, (profile, what) in enumerate(keys):
        if twice[group[row], name[row], what] > 1:
            name[row] += f" #{profile}"  # several processes may say the same of themselves
    n_rows = Counter(profile for profile, _ in keys)
    name = [
        f"{text} ({what})" if n_rows[profile] > 1 or what == "profiler" else text
        for text, (profile, what) in zip(name, keys, strict=True)
    ]
    of = {what: np.full(len(profiles), ABSENT, np.int32) for what in WHAT}
    for row, (profile, what) in enumerate(keys):
        of[what][profile] = row
    found = np.array([profile for profile, _ in keys], np.int64)
    return Rows(found, tuple(what for _, what in keys), tuple(group), tuple(name), *of.values())


def _tuple(experiment: Experiment, profile: int) -> tuple[int, str]:
    return int(experiment.profiles.run[profile]), experiment.profiles.described(profile)


def _group(experiment: Experiment, profile: int, nodes: list[int], identity: Identity, process: int | None) -> str:
    """The run, where there are several, and the rank; the node of what has none; the process where several say the
    same of themselves."""
    node, rank = identity["node"][profile], identity["rank"][profile]
    words = [f"run {int(experiment.profiles.run[profile])}"] if len(experiment.runs) > 1 else []
    if rank is not None:
        words.append(f"rank {rank}")
    elif len(nodes) > 1 and node is not None:
        words.append(f"node {nodes.index(node)}")
    if process is not None and (process or rank is None):
        words.append(f"process {process}")
    return " ".join(words)


def _name(experiment: Experiment, profile: int, identity: Identity) -> str:
    """What tells a profile from the others of its rank."""
    rank, device = identity["rank"][profile], identity["gpu_device"][profile]
    own = experiment.profiles.name[profile]
    if own and device is not None:
        return f"gpu {device} {own}"
    return own or experiment.profiles.described(profile).removeprefix(f"rank {rank}").strip() or "process"
