"""An input as somebody looks at it: with metrics that were typed, filtered by a pattern, in one metric.

A request says all of that, so that a page can be opened twice, go back and forth and be linked to. What was made of the
latest looks is kept: a few experiments, views and panels, whatever was asked before.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from callgrove.algebra.selecting import ContextSelection, select_contexts
from callgrove.algebra.window_costs import costs_in_window
from callgrove.analysis.costs import Costs, costs
from callgrove.errors import UsageError
from callgrove.explore.measures import Measures
from callgrove.model.definitions import with_metric
from callgrove.model.experiment import Experiment
from callgrove.model.selection import choose_window
from callgrove.model.study.series import Study
from callgrove.patterns.hatchet import is_hatchet_query
from callgrove.patterns.syntax import PatternError, parse_pattern
from callgrove.render.units import duration_ns
from callgrove.viewer.commands import Given
from callgrove.viewer.page import Choice
from callgrove.viewer.server.parameters import Parameters
from callgrove.viewer.server.timelines import Timelines

__all__ = ["LOOK", "Look", "Looks", "Recent", "select_part"]

T = TypeVar("T")
Opened = Experiment | Study

LOOK = ("input", "metric", "derive", "filter", "window")  # parameters of every request
MOST_DERIVED = 12
KEPT_EXPERIMENTS, KEPT_COSTS, KEPT_WINDOWS, KEPT_OTHERS = 4, 16, 2, 24


@dataclass(frozen=True)
class Look:
    """What of an input is looked at. An empty metric is the default one. A window is a text as `--window` has it: what
    is looked at then are the costs that traces give in it."""

    metric: str = ""
    derive: tuple[str, ...] = ()
    filter: str = ""
    window: str = ""

    @classmethod
    def of(cls, parameters: Parameters) -> Look:
        """Return the look that a request names."""
        return cls(
            parameters.text("metric", ""),
            parameters.texts("derive", MOST_DERIVED),
            parameters.text("filter", ""),
            parameters.text("window", ""),
        )


class Recent:
    """What was made lately, by what it was made of; the oldest goes first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[Hashable, Any] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what is kept under a key, or make it."""
        if key not in self._kept:
            self._kept[key] = make()
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        made: T = self._kept[key]
        return made


def select_part(experiment: Experiment, pattern: str) -> Experiment:
    """Return the part of an experiment whose call paths a pattern matches; all of it where there is none."""
    if not pattern.strip():
        return experiment
    if not is_hatchet_query(pattern):
        parse_pattern(pattern)
    try:
        return select_contexts(experiment, ContextSelection(query=[pattern]))
    except UsageError as error:
        if isinstance(error.__context__, PatternError):  # which knows the character
            raise error.__context__ from None
        raise


@dataclass
class Looks:
    """What was opened, and everything that is made of it. Not for several threads at once."""

    opened: Opened
    paths: Sequence[str]
    spell: Callable[[str], str] = str
    choice: Choice = field(default_factory=Choice)
    timelines: Timelines | None = None
    given: Given = field(default_factory=Given)
    _experiments: Recent = field(default_factory=lambda: Recent(KEPT_EXPERIMENTS))
    _costs: Recent = field(default_factory=lambda: Recent(KEPT_COSTS))
    _windows: Recent = field(default_factory=lambda: Recent(KEPT_WINDOWS))
    others: Recent = field(default_factory=lambda: Recent(KEPT_OTHERS))

    def in_window(self, window: str) -> Looks:
        """Return looks at the costs that traces give in a window; those of all of the time where there is none. Few are
        kept: each is an experiment of its own."""
        if not window:
            return self
        return self._windows.get(window, lambda: self._make_window(window))

    def _make_window(self, window: str) -> Looks:
        if isinstance(self.opened, Study):
            raise UsageError("a study of series has no traces")
        times = choose_window(self.opened, window, "", "", duration_ns)
        assert times is not None
        choice = replace(self.choice, metric=None)
        return Looks(costs_in_window(self.opened, times), self.paths, self.spell, choice, given=self.given)

    def metrics(self, look: Look) -> list[str]:
        """Return the metrics that can be shown: those that the profiler shows first, then the others."""
        metrics = self.experiment(look).metrics
        usable = [
            name
            for name in metrics.quantities
            if name not in metrics.missing and name not in metrics.unavailable and metrics.first(name).is_combined
        ]
        return sorted(usable, key=lambda name: name not in metrics.shown)

    @property
    def first_metric(self) -> str:
        """The metric that is shown first; empty where there is none."""
        if isinstance(self.opened, Study):
            return ""
        try:
            metric = self.choice.metric
            return self.opened.metrics.resolve(metric) if metric else self.opened.default_metric
        except UsageError:
            return ""

    def choice_of(self, look: Look) -> Choice:
        """Return what a report of a look is asked for. The metric that is shown first need not be asked for: sentences
        are about what matters most then, as those of `explain` are."""
        metric = "" if look.metric == self.first_metric else look.metric
        return replace(self.choice, metric=metric or self.choice.metric)

    def experiment(self, look: Look) -> Experiment:
        """Return the experiment with the metrics that were typed, and with the call paths that the pattern matches."""
        return self._experiments.get((look.derive, look.filter), lambda: self._make_experiment(look))

    def _make_experiment(self, look: Look) -> Experiment:
        if isinstance(self.opened, Study):
            raise UsageError("a study of series has no contexts")
        experiment = with_metric(self.opened, *look.derive) if look.derive else self.opened
        return select_part(experiment, look.filter)

    def metric(self, look: Look) -> str:
        """Return the name of the metric that is looked at."""
        metrics = self.experiment(look).metrics
        name = look.metric or self.first_metric
        if not name:
            raise UsageError("there is no metric with values")
        return metrics.resolve(name)

    def costs(self, look: Look) -> Costs:
        """Return the costs of all contexts in the metric that is looked at."""
        key = (self.metric(look), look.derive, look.filter)
        return self._costs.get(key, lambda: costs(self.experiment(look), key[0]))

    def measures(self, look: Look) -> Measures:
        """Return the columns of views of it."""
        return Measures((self.costs(look),))
