"""What is known of devices: GPUs, CPUs, and whatever else a profiler lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from callgrove.model.traces import Traces

__all__ = ["Device", "ListsAgents", "agents_of"]


@dataclass(frozen=True)
class Device:
    """A device of a process; `index` counts those of one kind (GPU, CPU, NIC). Attributes are the profiler's words."""

    process: int
    kind: str
    index: int
    name: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """As rocprofv3 says it, where it told the number that it counts agents by."""
        agent = self.attributes.get("logical_index")
        return f"{self.kind} {self.index}" if agent is None else f"Agent {agent}"


@runtime_checkable
class ListsAgents(Protocol):
    """Spans whose devices are known."""

    def agents(self, part: int) -> Sequence[Device]:
        """The devices of a part; its side tables name them by their place in this list."""


def agents_of(traces: Traces, part: int) -> Sequence[Device]:
    """The devices that the side tables of a part name by number; none where nobody lists them."""
    backend: object = traces.spans_backend
    return backend.agents(part) if isinstance(backend, ListsAgents) else ()
