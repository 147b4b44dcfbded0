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
ORDER = ("node", "rank", "gpu_device", "gpu_context", "gpu_stream", "thread")


@dataclass(frozen=True)
class Rows:
    """Row r is profile `profile[r]`, whose samples it shows, or else its spans: a profile with both has two rows."""

    profile: Ints
    sampled: tuple[bool, ...]
    group: tuple[str, ...]  # what rows have in common that stand together: node and rank
    name: tuple[str, ...]
    of_samples: Ids  # the row of each profile, -1 where it has none
    of_spans: Ids

    def __len__(self) -> int:
        return len(self.profile)


def rows_of(experiment: Experiment, with_samples: Ints, with_spans: Ints) -> Rows:
    """Rows of the profiles that have samples, and of those that have spans."""
    profiles = experiment.profiles
    keys = [(p, sampled) for group, sampled in ((with_samples, True), (with_spans, False)) for p in group.tolist()]
    identity = {name: profiles.identity_list(name) for name in ORDER}
    nodes = sorted({node for node in identity["node"] if node is not None})
    numbers = process_numbers(experiment)

    def place(key: tuple[int, bool]) -> tuple[int, ...]:
        profile, sampled = key
        numbers = [ABSENT if (n := identity[name][profile]) is None else n for name in ORDER]
        return int(profiles.run[profile]), *numbers, profile, int(not sampled)

    keys.sort(key=place)
    both = set(with_samples.tolist()) & set(with_spans.tolist())
    again = {_tuple(experiment, profile) for profile, number in enumerate(numbers) if number}
    group = [
        _group(experiment, profile, nodes, identity, numbers[profile] if _tuple(experiment, profile) in again else None)
        for profile, _ in keys
    ]
    name = [_name(experiment, profile, identity) for profile, _ in keys]
    twice = Counter(zip(group, name, [sampled for _, sampled in keys], strict=True))
    for row, (profile, sampled) in enumerate(keys):
        if twice[group[row], name[row], sampled] > 1:
            name[row] += f" #{profile}"  # several processes may say the same of themselves
    name = [
        f"{text} ({'samples' if sampled else 'spans'})" if profile in both else text
        for text, (profile, sampled) in zip(name, keys, strict=True)
    ]
    of_samples, of_spans = (np.full(len(profiles), ABSENT, np.int32) for _ in range(2))
    for row, (profile, sampled) in enumerate(keys):
        (of_samples if sampled else of_spans)[profile] = row
    found = np.array([profile for profile, _ in keys], np.int64)
    return Rows(found, tuple(sampled for _, sampled in keys), tuple(group), tuple(name), of_samples, of_spans)


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
