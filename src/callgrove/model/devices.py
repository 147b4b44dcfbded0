"""What is known of devices: GPUs, CPUs, and whatever else a profiler lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, runtime_checkable

__all__ = ["AgentIndex", "Device", "ListsDevices", "called_by_title"]


class AgentIndex(StrEnum):
    """Which of the numbers of a device its label shows, in the words of rocprofv3."""

    ABSOLUTE = "absolute"  # among all of the machine
    RELATIVE = "relative"  # among those that the process may use
    TYPE_RELATIVE = "type-relative"  # among those of its kind


NUMBERS = {AgentIndex.ABSOLUTE: "absolute_index", AgentIndex.RELATIVE: "logical_index"}  # attributes


@dataclass(frozen=True)
class Device:
    """A device of a process; `index` counts those of one kind (GPU, CPU, NIC). Attributes are the profiler's words."""

    process: int
    kind: str
    index: int
    name: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """What people call it: `GPU 0`."""
        return f"{self.kind} {self.index}"

    @property
    def label(self) -> str:
        """As rocprofv3 says it, where it told the number that it counts agents by."""
        return self.label_by(AgentIndex.RELATIVE)

    def label_by(self, by: AgentIndex) -> str:
        """`Agent N` by a number that rocprofv3 told; what people call it where it told none."""
        agent = self.attributes.get(NUMBERS[by]) if by in NUMBERS else None
        return self.title if agent is None else f"Agent {agent}"


@runtime_checkable
class ListsDevices(Protocol):
    """Spans whose devices are known."""

    def devices(self, part: int) -> Sequence[Device]:
        """The devices of a part; its side tables name them by their place in this list."""


def called_by_title(devices: Sequence[Device], by: AgentIndex) -> dict[str, str]:
    """The labels of devices by what people call them; of several the first one counts."""
    return {device.title: device.label_by(by) for device in reversed(devices)}
