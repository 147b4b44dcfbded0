"""What a page is made of."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from callgrove.model.metrics import Scope

__all__ = ["Choice", "Detail", "Panel", "PanelMaker", "Unavailable"]


@dataclass(frozen=True)
class Choice:
    """What of an input is wanted: the metric shown first, and whose values; of runs, how those of a run are combined
    and in which scope."""

    metric: str | None = None
    ranks: Container[int] | None = None
    threads: Container[int] | None = None
    scaling: str = ""
    scope: Scope = Scope.EXCLUSIVE


@dataclass(frozen=True)
class Detail:
    """How much of what there is a panel shows. A page that gets too large is made again with a smaller share."""

    share: float = 1.0

    def of(self, n: int, most: int, least: int = 1) -> int:
        """How many of `n` things to show, of which no panel shows more than `most`."""
        return min(n, max(least, int(min(n, most) * self.share)))


@dataclass(frozen=True)
class Panel:
    """One view: `kind` says who draws it (static/main.js), `data` is what `encoding` can hold. Panels of one title
    share a tab, the first of which is Overview. `notes` are sentences to show with it, such as what was left out."""

    kind: str
    title: str
    data: Mapping[str, Any]
    notes: tuple[str, ...] = ()


class PanelMaker(Protocol):
    """Has computed what it shows, and makes panels of it in any detail: cheaply, since it may be asked again."""

    def panels(self, detail: Detail) -> Iterable[Panel]:
        """The panels; none where there is nothing to show."""


@dataclass(frozen=True)
class Unavailable:
    """A maker of a view that a reader looks for, but that this input cannot give: it says why."""

    title: str
    reason: str

    def panels(self, detail: Detail) -> Iterable[Panel]:
        return (Panel("unavailable", self.title, {"reason": self.reason}),)
