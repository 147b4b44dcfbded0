"""What is known of devices: GPUs, CPUs, and whatever else a profiler lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

__all__ = ["Device", "ListsDevices"]


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
        agent = self.attributes.get("logical_index")
        return self.title if agent is None else f"Agent {agent}"


@runtime_checkable
class ListsDevices(Protocol):
    """Spans whose devices are known."""

    def devices(self, part: int) -> Sequence[Device]:
        """The devices of a part; its side tables name them by their place in this list."""
