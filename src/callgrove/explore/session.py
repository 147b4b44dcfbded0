"""What is looked at: an experiment, or two of them as one tree; a metric, a filter, a view."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace

from callgrove.algebra.operations import IGNORABLE, merge
from callgrove.algebra.selecting import ContextSelection, select_contexts
from callgrove.analysis.comparison.sides import Question, name_metrics
from callgrove.analysis.costs import Costs, costs
from callgrove.errors import UsageError
from callgrove.explore.listing import Listing
from callgrove.explore.measures import Measures
from callgrove.explore.views import FLAT, CallerView, CallTree, FlatView, View
from callgrove.model.experiment import Experiment
from callgrove.patterns.hatchet import is_hatchet_query
from callgrove.patterns.syntax import parse_pattern
from callgrove.render.cost_texts import amount_of
from callgrove.render.units import percent

__all__ = ["VIEWS", "Session"]

VIEWS = ("tree", "flat", "callers")


@dataclass
class Session:
    """An experiment as it is explored. `runs` are those of each input, of which there may be two; `metrics` what the
    metric is called in each. `query` is the filter, a pattern of call paths, of which `shown` is left."""

    whole: Experiment
    runs: tuple[range | None, ...]
    metrics: tuple[str, ...]
    names: tuple[str, ...]
    query: str = ""
    shown: Experiment = field(init=False)
    _measures: Measures | None = None
    _views: dict[tuple[str, str], View] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.shown = self.whole

    @classmethod
    def of(cls, experiments: Sequence[Experiment], metric: str | None = None) -> Session:
        """Start with one experiment, or with two to compare: call paths of the same names are one row."""
        names = tuple(one.path or one.title for one in experiments)
        if len(experiments) == 1:
            experiment = experiments[0]
            chosen = experiment.metrics.resolve(metric) if metric else experiment.default_metric
            return cls(experiment, (None,), (chosen,), names)
        metrics = tuple(name_metrics(experiments, Question(metric)))
        both = merge(*experiments, ignore=IGNORABLE, by="name", system="side-by-side")
        n_left = len(experiments[0].runs)
        return cls(both, (range(n_left), range(n_left, len(both.runs))), metrics, names)

    def copy(self) -> Session:
        """Return a session that shows the same, and can be changed without this one."""
        other = copy(self)
        other._views = dict(self._views)
        return other

    @property
    def is_difference(self) -> bool:
        return len(self.runs) > 1

    # What is chosen.

    @property
    def choices(self) -> list[str]:
        """The metrics that can be shown: what the profiler shows first, then all others that have values."""
        metrics = self.whole.metrics
        usable = [
            name
            for name in metrics.quantities
            if name not in metrics.missing and name not in metrics.unavailable and metrics.first(name).is_combined
        ]
        return sorted(usable, key=lambda name: name not in metrics.shown)

    def choose_metric(self, name: str) -> None:
        """Show another metric; nothing changes where it cannot be shown."""
        self._try(replace(self, metrics=(self.whole.metrics.resolve(name),) * len(self.runs)), self.shown)

    def filter(self, query: str) -> None:
        """Show only call paths that a pattern matches, or all where it is empty. Raises PatternError, which knows the
        character; nothing changes then."""
        if query and not is_hatchet_query(query):
            parse_pattern(query)
        selection = ContextSelection(query=[query])
        self._try(replace(self, query=query), select_contexts(self.whole, selection) if query else self.whole)

    def _try(self, other: Session, shown: Experiment) -> None:
        """Take over what another session shows, once its costs are known."""
        other.shown, other._measures, other._views = shown, None, {}
        measures = other.measures
        if not len(other.view("tree").children(-1)):
            raise UsageError(f"no context of {' and '.join(self.names)} is left with any {other.metrics[0]}")
        self.metrics, self.query, self.shown = other.metrics, other.query, shown
        self._measures, self._views = measures, other._views

    # What is made of it.

    @property
    def measures(self) -> Measures:
        if self._measures is None:
            sides = [costs(self.shown, metric, runs=runs) for metric, runs in zip(self.metrics, self.runs, strict=True)]
            self._measures = Measures(tuple(sides))
        return self._measures

    def view(self, kind: str, how: str = "") -> View:
        """Return one of the views: `tree` (how: `source`), `flat` (how: what rows stand for) or `callers`."""
        if (kind, how) not in self._views:
            self._views[kind, how] = self._make_view(kind, how)
        return self._views[kind, how]

    def _make_view(self, kind: str, how: str) -> View:
        if kind == "flat":
            return FlatView(self.measures, how or FLAT[0])
        return CallerView(self.measures) if kind == "callers" else CallTree(self.measures, source=how == "source")

    def list(self, kind: str, how: str = "") -> Listing:
        """Return the rows of a view, all folded."""
        return Listing(self.view(kind, how))

    def headline(self) -> str:
        """Return which metric is shown, what it comes to, and what is left of it by the filter."""
        totals = [_say_total(side) for side in self.measures.sides]
        if not self.is_difference:
            return f"{self.metrics[0]}: {totals[0]}"
        names = dict.fromkeys(self.metrics)
        return f"{' and '.join(names)}: left {totals[0]}, right {totals[1]}"


def _say_total(costs: Costs) -> str:
    """Return what a metric comes to; of a part, which share of the whole that is."""
    write = amount_of(costs.metric.unit, costs.metric.is_derived)
    if costs.experiment.whole is not None and costs.is_additive and costs.whole:
        return f"{write(costs.total)} of {write(costs.whole)} ({percent(costs.total / costs.whole)})"
    return costs.say_no_total() or f"{write(costs.total)} in all"
