"""What a page is made of: panels, and how much detail they may have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Protocol, runtime_checkable

from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Scope
from callgrove.model.runs import Numbers

__all__ = ["Choice", "ComparesTotals", "Detail", "Limits", "Panel", "PanelMaker", "Unavailable", "process_numbers"]


DEFAULT_SIZE = 5_000_000  # bytes of a page
LARGEST = 20  # times as much: memory is bounded, however large a page may get


@dataclass(frozen=True)
class Choice:
    """What of an input is wanted: the metric shown first, and whose values; of runs, how those of a run are combined
    and in which scope."""

    metric: str | None = None
    ranks: Numbers | None = None
    threads: Numbers | None = None
    scaling: str = ""
    scope: Scope = Scope.EXCLUSIVE


@dataclass(frozen=True)
class Limits:
    """How much of anything a page shows one by one. Beyond, it is folded, put into bins or left out, and the page says
    so; totals and shares stay those of everything."""

    contexts: int = 250_000  # of the call tree
    rows: int = 2_000  # of a flat or bottom-up table
    metrics: int = 12
    values: int = 40_000_000  # read profile by profile; beyond that, of the first metric only
    functions: int = 10  # whose cost is shown profile by profile
    cells: int = 4_096  # of a heat map
    lanes: int = 64  # rows of a heat map
    section_rows: int = 5_000  # of a section of the summary
    devices: int = 1_024
    models: int = 2_000
    events: int = 150_000  # samples and spans that are kept one by one
    boxes: int = 500_000  # of the timeline
    bins: int = 4_096  # into which its time is divided
    sums: int = 6_000_000  # times by row, level, name and bin that memory holds
    names: int = 1_000  # of which the legend knows the share

    def for_size(self, n_bytes: int) -> Limits:
        """Return the limits of a page of so many bytes: those of larger pages than usual grow with the page."""
        times = min(max(n_bytes / DEFAULT_SIZE, 1.0), LARGEST)
        grown = {one.name: int(getattr(self, one.name) * times) for one in fields(self)}
        return Limits(**{**grown, "metrics": self.metrics, "values": self.values, "lanes": self.lanes})


@dataclass(frozen=True)
class Detail:
    """How much of what there is a panel shows. A page that gets too large is made again with a smaller share."""

    share: float = 1.0

    def of(self, n: int, most: int, least: int = 1) -> int:
        """Return how many of `n` things to show, of which no panel shows more than `most`."""
        return min(n, most, max(least, int(min(n, most) * self.share)))


@dataclass(frozen=True)
class Panel:
    """One view: `kind` says who draws it (static/main.js), `data` is what `page.encode` takes. Panels of one title
    share a tab, the first of which is Overview. `notes` are sentences to show with it, such as what was left out."""

    kind: str
    title: str
    data: Mapping[str, Any]
    notes: tuple[str, ...] = ()


class PanelMaker(Protocol):
    """Has computed what it shows, and makes panels of it in any detail: cheaply, since it may be asked again."""

    def panels(self, detail: Detail) -> Iterable[Panel]:
        """Yield the panels; none where there is nothing to show."""


@runtime_checkable
class ComparesTotals(Protocol):
    """A maker that compares what its panels show with the totals, whenever it makes them."""

    differences: tuple[str, ...]


@dataclass(frozen=True)
class Unavailable:
    """A maker of a view that a reader looks for, but that this input cannot give: it says why."""

    title: str
    reason: str

    def panels(self, detail: Detail) -> Iterable[Panel]:
        return (Panel("unavailable", self.title, {"reason": self.reason}),)


# -- numbers for processes with equal identifier tuples ----------------------------------------------------------------


def process_numbers(experiment: Experiment) -> list[int]:
    """For every profile, how many before it have its run and its identifier tuple: 0 almost always."""
    profiles = experiment.profiles
    seen: Counter[tuple[int, str]] = Counter()
    numbers = []
    for profile, run in enumerate(profiles.run.tolist()):
        key = run, profiles.describe(profile)
        numbers.append(seen[key])
        seen[key] += 1
    return numbers
