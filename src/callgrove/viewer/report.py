"""Inputs to sections, sections to one page that keeps to a size.

What is too much for the size is left out from the least of it on: subtrees with the smallest share are folded, long
tables end sooner, profiles are grouped. Each panel says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from callgrove._version import __version__
from callgrove.errors import UsageError, worded
from callgrove.model.experiment import Experiment
from callgrove.model.study import Study
from callgrove.viewer.encoding import encode
from callgrove.viewer.gpu.maker import gpu_maker
from callgrove.viewer.page import page
from callgrove.viewer.panels import DEFAULT_SIZE, Choice, ComparesTotals, Detail, Limits, PanelMaker, Unavailable
from callgrove.viewer.profile.maker import profile_maker
from callgrove.viewer.scaling.maker import scaling_maker
from callgrove.viewer.section import Summary, summary_of
from callgrove.viewer.timeline.maker import timeline_maker

__all__ = ["DEFAULT_SIZE", "MAKERS", "Input", "report"]

LEAST_SHARE = 1e-6
TRIES = 12

Opened = Experiment | Study
Progress = Callable[[str, int, int | None], None]

# What makes panels of an input: each gives None where it has nothing to say. They appear in this order.
MAKERS: tuple[Callable[[Opened, Choice, Limits], PanelMaker | None], ...] = (
    profile_maker,
    timeline_maker,
    gpu_maker,
    scaling_maker,
)


@dataclass(frozen=True)
class Input:
    """Something opened, and the paths that it was opened from."""

    opened: Opened
    paths: Sequence[str]


@dataclass(frozen=True)
class _Section:
    summary: Summary
    makers: tuple[PanelMaker, ...]

    def data(self, detail: Detail) -> dict[str, Any]:
        panels = [panel for maker in self.makers for panel in maker.panels(detail)]
        return {
            "title": self.summary.title,
            **self.summary.data,
            "panels": [{"kind": p.kind, "title": p.title, "data": p.data, "notes": p.notes} for p in panels],
        }

    @property
    def differences(self) -> Iterator[str]:
        """What panels made last show otherwise than the totals."""
        for maker in self.makers:
            yield from maker.differences if isinstance(maker, ComparesTotals) else ()


def _silent(*said: object) -> None:
    """Nobody watches."""


def report(
    inputs: Iterable[Input],
    choice: Choice | None = None,
    title: str = "",
    max_size: int = DEFAULT_SIZE,
    progress: Progress = _silent,
    tell: Callable[[str], None] = _silent,
    limits: Limits | None = None,
    complain: Callable[[str], None] = _silent,
) -> str:
    """The page of some inputs, each with a section of its own, in at most `max_size` bytes. `tell` hears which views
    are not there, and why; `complain` which of them do not add up to their total. `limits` are those that fit the size,
    unless given."""
    sections = []
    limits = limits or Limits().for_size(max_size)
    for number, one in enumerate(inputs):
        progress("reading what is shown", number, None)
        makers = [maker for make in MAKERS if (maker := make(one.opened, choice or Choice(), limits)) is not None]
        sections.append(_Section(summary_of(one.opened, one.paths), tuple(makers)))
        for maker in makers:
            if isinstance(maker, Unavailable):
                first = ", ".join(one.paths[:1])
                tell(worded(f"{first}: there is no {maker.title.lower()} view: ", maker.reason))
    name = title or ", ".join(dict.fromkeys(s.summary.title or "experiment" for s in sections))
    detail, smallest = Detail(), 0
    empty = len(page(name, ""))
    for attempt in range(TRIES):
        progress("writing", attempt, None)
        text = page(name, encode({"title": name, "by": __version__, "sections": [s.data(detail) for s in sections]}))
        size = len(text.encode())
        if size <= max_size:
            for difference in (text for section in sections for text in section.differences):
                complain(difference)
            return text
        smallest = size
        room = max(max_size - empty, 0) / max(size - empty, 1)
        if detail.share <= LEAST_SHARE:
            break
        detail = Detail(max(LEAST_SHARE, detail.share * 0.9 * room))
    raise UsageError(f"a page of {max_size:,} bytes shows nothing of this: the smallest that does has {smallest:,}")
