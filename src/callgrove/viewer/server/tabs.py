"""Tabs of an input: which it has is known at once, what they show is made when one is opened.

Panels are those of the report, made for one look. A maker of the report that is not named here, such as one that
somebody added, is asked right away which panels it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from callgrove.analysis.efficiency import Question, pop
from callgrove.analysis.metric_tree import metric_tree
from callgrove.errors import UsageError, compose_text
from callgrove.model.experiment import Experiment
from callgrove.model.study.series import Study
from callgrove.viewer.page import Choice, Detail, Limits, Panel, PanelMaker
from callgrove.viewer.profile import profile_maker
from callgrove.viewer.report import MAKERS, explain_input, summary_of
from callgrove.viewer.server.flame import make_flame, profile_of
from callgrove.viewer.server.looks import Look, Looks, Opened
from callgrove.viewer.server.sql import make_sql
from callgrove.viewer.server.timeline_answers import timeline_document
from callgrove.viewer.summaries import (
    FEWEST_LOCATIONS,
    FEWEST_POINTS,
    MetricTreeMaker,
    efficiency_maker,
    gpu_maker,
    metric_tree_maker,
    scaling_maker,
)
from callgrove.viewer.timeline.maker import timeline_maker

__all__ = ["DETAIL", "make_tab", "maker_of", "outline_section", "panel_document"]

LIMITS = Limits()
DETAIL = Detail()
OVERVIEW = "Overview"
KEPT = (gpu_maker, scaling_maker)  # makers that are asked again
Make = Callable[[Opened, Choice, Limits], PanelMaker | None]


@dataclass(frozen=True)
class _Tab:
    """A title, whether the metric matters, which inputs have it, and its panels."""

    title: str
    has_metric: bool
    fits: Callable[[Looks], bool]
    panels: Callable[[Looks, Look], Iterable[Panel]]


# -- which inputs have what --------------------------------------------------------------------------------------------


def has_costs(looks: Looks) -> bool:
    """Return whether contexts have any metric."""
    return isinstance(looks.opened, Experiment) and len(looks.opened.contexts) > 0 and bool(looks.first_metric)


def _has_several_profiles(looks: Looks) -> bool:
    return has_costs(looks) and isinstance(looks.opened, Experiment) and len(looks.opened.values.known) > 1


def _has_efficiencies(looks: Looks) -> bool:
    opened = looks.opened
    if isinstance(opened, Study):
        return False
    if opened.traces.n_spans:
        return _has_devices(looks)
    n_profiles = len(opened.profiles.measured)
    return has_costs(looks) and n_profiles >= FEWEST_LOCATIONS and len(opened.contexts) * n_profiles <= LIMITS.values


def has_events(looks: Looks) -> bool:
    """Return whether anything says when it happened."""
    opened = looks.opened
    return isinstance(opened, Experiment) and (opened.traces.samples is not None or bool(opened.traces.n_spans))


def _has_spans(looks: Looks) -> bool:
    return isinstance(looks.opened, Experiment) and bool(looks.opened.traces.n_spans)


def _has_devices(looks: Looks) -> bool:
    profiles = looks.opened.profiles if isinstance(looks.opened, Experiment) else None
    return (
        _has_spans(looks) and profiles is not None and any(n is not None for n in profiles.identity_list("gpu_device"))
    )


def _has_points(looks: Looks) -> bool:
    opened = looks.opened
    if isinstance(opened, Study):
        return True
    return len(opened.runs) >= FEWEST_POINTS and any(run.parameters for run in opened.runs)


# -- what they show ----------------------------------------------------------------------------------------------------


def maker_of(make: Make, looks: Looks, look: Look) -> PanelMaker | None:
    """Return a maker of the report for a look. Those of models and of summaries are kept: further requests are answered
    by them."""

    def maker() -> PanelMaker | None:
        opened = looks.experiment(look) if isinstance(looks.opened, Experiment) else looks.opened
        return make(opened, replace(looks.choice, metric=look.metric or looks.choice.metric), LIMITS)

    return looks.others.get(("maker", make, look), maker) if make in KEPT else maker()


def explain_look(looks: Looks, look: Look) -> tuple[tuple[str, str], ...]:
    """Return what `explain` says of a look, with the commands that show more, as a report has it."""
    opened = looks.experiment(look) if isinstance(looks.opened, Experiment) else looks.opened
    wanted = [(gpu_maker, _has_spans, replace(look, metric="")), (scaling_maker, _has_points, look)]
    makers = [maker_of(make, looks, part) for make, fits, part in wanted if fits(looks)]

    def sentences() -> tuple[tuple[str, str], ...]:
        known = [one for one in makers if one is not None]
        given = looks.given.looked_at(look.derive, look.filter)
        return explain_input(opened, looks.choice_of(look), known, looks.paths, given)

    return looks.others.get(("explained", look), sentences)


def _made(make: Make, looks: Looks, look: Look) -> list[Panel]:
    """Return the panels of a maker of the report, which are made once for a look."""

    def panels() -> list[Panel]:
        maker = maker_of(make, looks, look)
        return list(maker.panels(DETAIL)) if maker is not None else []

    return looks.others.get((make, look), panels)


def _overview(looks: Looks, look: Look) -> Iterator[Panel]:
    if has_costs(looks):
        yield profile_of(looks, look).overview_panel(DETAIL)
    rest = replace(look, metric="")
    for make, fits in ((gpu_maker, _has_spans), (scaling_maker, _has_points)):
        if fits(looks):
            yield from _give_titles(_made(make, looks, look if make is scaling_maker else rest), OVERVIEW)


def _spread(looks: Looks, look: Look) -> Iterator[Panel]:
    panel = profile_of(looks, look).spread_panel(DETAIL)
    if panel is not None:
        yield panel


def _of(make: Make, *titles: str, has_metric: bool = False) -> Callable[[Looks, Look], Iterable[Panel]]:
    def panels(looks: Looks, look: Look) -> Iterable[Panel]:
        return _give_titles(_made(make, looks, look if has_metric else replace(look, metric="")), *titles)

    return panels


def _efficiency(looks: Looks, look: Look) -> Iterable[Panel]:
    make = gpu_maker if _has_spans(looks) else efficiency_maker
    panels = list(_give_titles(_made(make, looks, replace(look, metric="")), "Efficiency"))
    return panels or _say_why_none(looks, look)


def _say_why_none(looks: Looks, look: Look) -> list[Panel]:
    """Return a panel that says why there are no efficiencies, as `pop` does; of a trace it would be summed up again."""
    if _has_spans(looks):
        return []
    try:
        pop([looks.experiment(look)], Question())
    except UsageError as error:
        return [Panel("unavailable", "Efficiency", {"reason": compose_text(error)})]
    return []


def _give_titles(panels: Iterable[Panel], *titles: str) -> Iterator[Panel]:
    return (panel for panel in panels if panel.title in titles)


def _explore(looks: Looks, look: Look) -> Iterator[Panel]:
    """Yield what the coupled panes begin with: the tree of metrics. Everything else is asked for."""
    experiment = looks.experiment(look)
    key = ("metrics", look.derive, look.filter)
    table = looks.others.get(key, lambda: metric_tree(experiment, limit=LIMITS.rows))
    (panel,) = MetricTreeMaker(table).panels(DETAIL)
    has_callers = looks.costs(look).is_additive
    topologies = [topology.name or "topology" for topology in experiment.system.topologies]
    data = {"metric_tree": panel.data, "has_callers": has_callers, "topologies": topologies}
    yield Panel("explore", "Explore", data, panel.notes)


def _timeline(looks: Looks, look: Look) -> Iterator[Panel]:
    """Yield what the pane of the timeline begins with; pictures and sums are asked for."""
    yield Panel("livetimeline", "Timeline", timeline_document(looks, replace(look, metric="")))


TABS = (
    _Tab(OVERVIEW, True, lambda looks: True, _overview),
    _Tab("Explore", True, has_costs, _explore),
    _Tab("Flame graph", True, has_costs, make_flame),
    _Tab("Spread", True, _has_several_profiles, _spread),
    _Tab("Efficiency", False, _has_efficiencies, _efficiency),
    _Tab("Timeline", False, has_events, _timeline),
    _Tab("GPU", False, _has_devices, _of(gpu_maker, "GPU", "Calls")),
    _Tab("Calls", False, lambda looks: _has_spans(looks) and not _has_devices(looks), _of(gpu_maker, "GPU", "Calls")),
    _Tab("Scaling", True, _has_points, _of(scaling_maker, "Scaling", has_metric=True)),
    _Tab("SQL", False, lambda looks: True, make_sql),
)
NAMED = {profile_maker, metric_tree_maker, efficiency_maker, timeline_maker, gpu_maker, scaling_maker}


def _tabs(looks: Looks) -> Iterator[_Tab]:
    """Yield the tabs of an input, those of further makers last."""
    yield from (tab for tab in TABS if tab.fits(looks))
    for make in MAKERS:
        if make not in NAMED:
            titles = dict.fromkeys(panel.title for panel in _made(make, looks, Look()))
            yield from (_Tab(title, False, lambda looks: True, _of(make, title)) for title in titles)


def outline_section(looks: Looks) -> dict[str, Any]:
    """Return the words about an input, and the names of its tabs."""
    summary = summary_of(looks.opened, looks.paths, looks.given)
    tabs = list(_tabs(looks))
    if isinstance(looks.opened, Study):
        metrics, first = list(looks.opened.metrics), looks.opened.metrics[0] if looks.opened.metrics else ""
    else:
        metrics, first = looks.metrics(Look()), looks.first_metric
    return {
        "title": summary.title,
        **summary.data,
        "warnings": tuple((word, looks.spell(text)) for word, text in summary.warnings),
        "tabs": [{"title": tab.title, "has_metric": tab.has_metric and bool(metrics)} for tab in tabs],
        "metrics": metrics,
        "first_metric": first,
        "has_contexts": has_costs(looks),
    }


def make_tab(looks: Looks, look: Look, title: str) -> list[Panel]:
    """Return what a tab shows; a view that the input cannot give says so."""
    for tab in _tabs(looks):
        if tab.title == title:
            panels = list(tab.panels(looks, look))
            missing = Panel("unavailable", title, {"reason": f"This input has nothing to show as {title.lower()}."})
            return panels or ([] if title == OVERVIEW else [missing])
    return [Panel("unavailable", title, {"reason": "This input has no such view."})]


def panel_document(panel: Panel, spell: Callable[[str], str]) -> dict[str, Any]:
    """Return a panel as a page takes it."""
    data = panel.data
    if panel.kind == "unavailable":
        data = {**data, "reason": spell(data["reason"])}
    return {"kind": panel.kind, "title": panel.title, "data": data, "notes": [*map(spell, panel.notes)]}
