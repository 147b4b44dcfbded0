"""One execution each, with the parameters it was started with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Run"]


@dataclass(frozen=True)
class Run:
    """One execution: `parameters` is the point (p=64, n=1000), `repetition` counts runs of the same point."""

    name: str = ""
    parameters: Mapping[str, float] = field(default_factory=dict)
    repetition: int = 1
    source: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)
