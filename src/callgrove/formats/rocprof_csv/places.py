"""What a row says about the process, thread or stream that it is of: one text per profile."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from callgrove.model.arrays import ABSENT, Ids, Ints
from callgrove.model.devices import AgentIndex, called_by_title
from callgrove.model.experiment import Experiment
from callgrove.model.profiles import ProfileKind
from callgrove.model.traces import Traces

__all__ = ["Places", "part_of_profiles"]

STREAMS = (ProfileKind.GPU_STREAM,)
QUEUES = (ProfileKind.QUEUE,)


def part_of_profiles(traces: Traces, n_profiles: int) -> Ids:
    """The number of the part that each profile belongs to."""
    out = np.zeros(n_profiles, np.int32)
    for number, part in enumerate(traces.parts()):
        out[part] = number
    return out


class Places:
    """By profile: `process` counts processes; `queue` is -1, and texts are empty, where nothing is known."""

    def __init__(self, tables: Experiment, agents: AgentIndex = AgentIndex.RELATIVE) -> None:
        self._tables, self._agents = tables, agents
        self._called: dict[int, Mapping[str, str]] = {}  # by part: labels of devices
        profiles, n = tables.profiles, len(tables.profiles)
        self.part = part_of_profiles(tables.traces, n)
        self._above = [self._path(profile) for profile in range(n)]
        self.process = self._process_numbers()
        self.guid = [self._about(p, "process").get("guid", "") for p in range(n)]
        self.pid = [self._about(p, "process").get("pid", "") for p in range(n)]
        self.host = [self._about(p, "process").get("hostname", "") for p in range(n)]
        self.agent = [self._device(p) for p in range(n)]
        self.rank = ["" if rank is None else str(rank) for rank in profiles.identity_list("rank")]
        streams = profiles.identity_list("gpu_stream")
        self.stream = self._numbers(streams, STREAMS)
        self.queue = np.array([int(number or ABSENT) for number in self._numbers(streams, QUEUES)], np.int64)
        tids, known = profiles.identifiers.pick("THREAD", "physical")
        self.tid = [str(tid) if told else "" for tid, told in zip(tids.tolist(), known.tolist(), strict=True)]

    def _path(self, profile: int) -> Mapping[str, int]:
        """The node of every kind that a profile is below of."""
        system, leaf = self._tables.system, int(self._tables.profiles.system[profile])
        return {system.kind[place]: place for place in (system.path(leaf) if leaf >= 0 else [])}

    def _about(self, profile: int, kind: str) -> Mapping[str, str]:
        return self._tables.system.attributes.get(self._above[profile].get(kind, ABSENT), {})

    def _process_numbers(self) -> Ints:
        numbers: dict[int, int] = {}
        own = [numbers.setdefault(above.get("process", ABSENT), len(numbers)) for above in self._above]
        return np.array(own, np.int64)

    def _device(self, profile: int) -> str:
        place = self._above[profile].get("device", ABSENT)
        title = self._tables.system.name[place] if place >= 0 else ""
        if self._agents is AgentIndex.RELATIVE:
            return self._about(profile, "device").get("label") or title
        part = int(self.part[profile])
        if title and part not in self._called:
            self._called[part] = called_by_title(self._tables.traces.devices(part), self._agents)
        return self._called[part].get(title, title) if title else ""

    def _numbers(self, numbers: list[int | None], kinds: tuple[ProfileKind, ...]) -> list[str]:
        own = self._tables.profiles.kind.tolist()
        return [str(n) if n is not None and kind in kinds else "" for n, kind in zip(numbers, own, strict=True)]
