"""An input as somebody looks at it: with metrics that were typed, filtered by a pattern, in one metric.

A request says all of that, so that a page can be opened twice, go back and forth and be linked to. What was made of the
latest looks is kept: a few experiments, views and panels, whatever was asked before.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from callgrove.algebra.selecting import ContextSelection, select_contexts
from callgrove.analysis.costs import Costs, costs
from callgrove.errors import UsageError
from callgrove.explore.measures import Measures
from callgrove.model.definitions import with_metric
from callgrove.model.experiment import Experiment
from callgrove.model.study.series import Study
from callgrove.patterns.hatchet import is_hatchet_query
from callgrove.patterns.syntax import PatternError, parse_pattern
from callgrove.viewer.page import Choice
from callgrove.viewer.server.parameters import Parameters

__all__ = ["LOOK", "Look", "Looks", "Recent"]

T = TypeVar("T")
Opened = Experiment | Study

LOOK = ("input", "metric", "derive", "filter")  # parameters of every request
MOST_DERIVED = 12
KEPT_EXPERIMENTS, KEPT_COSTS, KEPT_OTHERS = 4, 16, 24


@dataclass(frozen=True)
class Look:
    """What of an input is looked at. An empty metric is the default one."""

    metric: str = ""
    derive: tuple[str, ...] = ()
    filter: str = ""

    @classmethod
    def of(cls, parameters: Parameters) -> Look:
        """Return the look that a request names."""
        return cls(
            parameters.text("metric", ""), parameters.texts("derive", MOST_DERIVED), parameters.text("filter", "")
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


@dataclass
class Looks:
    """What was opened, and everything that is made of it. Not for several threads at once."""

    opened: Opened
    paths: Sequence[str]
    spell: Callable[[str], str] = str
    choice: Choice = field(default_factory=Choice)
    _experiments: Recent = field(default_factory=lambda: Recent(KEPT_EXPERIMENTS))
    _costs: Recent = field(default_factory=lambda: Recent(KEPT_COSTS))
    others: Recent = field(default_factory=lambda: Recent(KEPT_OTHERS))

    def metrics(self, look: Look) -> list[str]:
        """Return the metrics that can be shown: those that the profiler shows first, then the others."""
        metrics = self.experiment(look).metrics
        usable = [
            name
            for name in metrics.quantities
            if name not in metrics.missing and name not in metrics.unavailable and metrics.first(name).composite is None
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

    def experiment(self, look: Look) -> Experiment:
        """Return the experiment with the metrics that were typed, and with the call paths that the pattern matches."""
        return self._experiments.get((look.derive, look.filter), lambda: self._make_experiment(look))

    def _make_experiment(self, look: Look) -> Experiment:
        if isinstance(self.opened, Study):
            raise UsageError("a study of series has no contexts")
        experiment = with_metric(self.opened, *look.derive) if look.derive else self.opened
        if not look.filter.strip():
            return experiment
        if not is_hatchet_query(look.filter):
            parse_pattern(look.filter)
        try:
            return select_contexts(experiment, ContextSelection(query=[look.filter]))
        except UsageError as error:
            if isinstance(error.__context__, PatternError):  # which knows the character
                raise error.__context__ from None
            raise

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
