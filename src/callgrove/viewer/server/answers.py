"""Requests by name: each makes a document of an input, which `page.encode` takes.

The other half of the contract is `Requests` in static/documents.d.ts. A new request is a function here and a line in
`ANSWERS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from callgrove.arrays import Floats
from callgrove.errors import CallgroveError, InputError, compose_text
from callgrove.model.study.series import Study
from callgrove.viewer.page import Panel
from callgrove.viewer.report import Input as ReportInput
from callgrove.viewer.report import report
from callgrove.viewer.server.comparing import COLUMNS, COMPARE, PARTS, answer_columns, answer_compare, make_report
from callgrove.viewer.server.flame import FLAME, answer_flame
from callgrove.viewer.server.inputs import Input
from callgrove.viewer.server.looks import LOOK, Look, Looks
from callgrove.viewer.server.parameters import BadRequest, Parameters
from callgrove.viewer.server.rows import NODE, answer_path, answer_rows, answer_search
from callgrove.viewer.server.span_details import answer_links, answer_span
from callgrove.viewer.server.sql import answer_sql
from callgrove.viewer.server.system import answer_grid, answer_source, answer_spread, answer_topology
from callgrove.viewer.server.tabs import (
    DETAIL,
    OVERVIEW,
    explain_look,
    make_tab,
    maker_of,
    outline_section,
    panel_document,
)
from callgrove.viewer.server.timeline_answers import (
    ROWS,
    answer_curves,
    answer_durations,
    answer_find,
    answer_legend,
    answer_stack,
    open_timeline,
)
from callgrove.viewer.server.timeline_pictures import answer_picture
from callgrove.viewer.summaries import ScalingMaker, scaling_maker

__all__ = ["ANSWERS", "answer", "outline", "save_report"]

T = TypeVar("T")
Document = dict[str, Any]
COMPARE_TAB = "Compare"
MOST_COMPARED = 16
JUDGED = ("point", "models")
BAND = ("model", "along", "point", "from", "to")
MOST_CHOSEN = 16  # models of which everything is told at once
N_SAMPLES = 33  # of a band
LARGEST = 1e300
TRIES = 3  # of a timeline that changes while it is asked


@dataclass(frozen=True)
class Answer:
    """What makes a document, and the parameters that it heeds beside those of every look."""

    make: Callable[[Looks, Look, Parameters], Document]
    parameters: tuple[str, ...] = ()
    locks_input: bool = True  # else it asks the index of a timeline, and locks the input for what it reads of it itself


def _answer_look(looks: Looks, look: Look, parameters: Parameters) -> Document:
    """Return the metrics of a look; refuse one that makes no sense."""
    return {"metrics": looks.metrics(look)}


def _answer_tab(looks: Looks, look: Look, parameters: Parameters) -> Document:
    """Return what a tab shows."""
    if parameters.text("tab") == COMPARE_TAB:
        return {"panels": [panel_document(Panel("compare", COMPARE_TAB, {"parts": PARTS}), looks.spell)]}
    panels = make_tab(looks, look, parameters.text("tab"))
    return {"panels": [panel_document(panel, looks.spell) for panel in panels]}


def _answer_explained(looks: Looks, look: Look, parameters: Parameters) -> Document:
    """Return what `explain` says of a look."""
    return {"explained": explain_look(looks, look)}


# -- models at any point -----------------------------------------------------------------------------------------------
#
# Functions are in the page, which evaluates them itself; intervals, trust and bands come of all measurements, and are
# asked for.


def _answer_judged(looks: Looks, look: Look, parameters: Parameters) -> Document:
    """Return how far to trust all models of the page at a point, with their intervals; and more about some of them."""
    maker = _maker(looks, look)
    chosen = parameters.integers("models", 0, maker.n_shown(DETAIL) - 1, MOST_CHOSEN)
    return maker.answer(_point(maker, parameters), chosen, DETAIL)


def _answer_band(looks: Looks, look: Look, parameters: Parameters) -> Document:
    """Return the interval of a model along a parameter."""
    maker = _maker(looks, look)
    point = _point(maker, parameters)
    model = parameters.integer("model", 0, maker.n_shown(DETAIL) - 1)
    along = parameters.integer("along", 0, len(point) - 1)
    first, last = parameters.real("from", -LARGEST, LARGEST), parameters.real("to", -LARGEST, LARGEST)
    x = np.geomspace(first, last, N_SAMPLES) if 0 < first < last else np.linspace(first, last, N_SAMPLES)
    points = np.tile(point, (N_SAMPLES, 1))
    points[:, along] = x
    return {"x": x, **maker.bands(model, points, DETAIL)}


def _maker(looks: Looks, look: Look) -> ScalingMaker:
    maker = maker_of(scaling_maker, looks, look)
    if not isinstance(maker, ScalingMaker):
        raise BadRequest("this input has no models")
    return maker


def _point(maker: ScalingMaker, parameters: Parameters) -> Floats:
    """Return a value for each parameter of the study."""
    names = maker.parameters
    words = parameters.text("point").split(",")
    if len(words) != len(names):
        raise BadRequest(f"point: needs {len(names)} numbers, one for each of {', '.join(names)}")
    alone = [Parameters((("point", word),)) for word in words]
    return np.array([one.real("point", -LARGEST, LARGEST) for one in alone], np.float64)


# -- all of them -------------------------------------------------------------------------------------------------------

ANSWERS: Mapping[str, Answer] = {
    "look": Answer(_answer_look),
    "tab": Answer(_answer_tab, ("tab",)),
    "explained": Answer(_answer_explained),
    "rows": Answer(answer_rows, (*NODE, "sort", "down", "first", "count", "columns")),
    "path": Answer(answer_path, ("node",)),
    "search": Answer(answer_search, ("text",)),
    "flame": Answer(answer_flame, FLAME),
    "spread": Answer(answer_spread, (*NODE, "over")),
    "grid": Answer(answer_grid, NODE),
    "sql": Answer(answer_sql, ("query",)),
    "topology": Answer(answer_topology, (*NODE, "topology")),
    "source": Answer(answer_source, NODE),
    "judged": Answer(_answer_judged, JUDGED),
    "band": Answer(_answer_band, BAND),
    "timeline": Answer(answer_picture, (*ROWS, "width", "rows"), locks_input=False),
    "timelegend": Answer(answer_legend, (*ROWS, "exact", "most"), locks_input=False),
    "timedurations": Answer(answer_durations, ROWS, locks_input=False),
    "timecurves": Answer(answer_curves, (*ROWS, "width"), locks_input=False),
    "timestack": Answer(answer_stack, (*ROWS, "row", "time"), locks_input=False),
    "timefind": Answer(answer_find, (*ROWS, "text", "time", "forward"), locks_input=False),
    "timespan": Answer(answer_span, (*ROWS, "span", "profile", "time"), locks_input=False),
    "timelinks": Answer(answer_links, ROWS, locks_input=False),
}


OF_SEVERAL: Mapping[str, tuple[Callable[[Sequence[Looks], Look, Parameters], Document], tuple[str, ...]]] = {
    "compare": (answer_compare, COMPARE),
    "columns": (answer_columns, COLUMNS),
}


def answer(inputs: Sequence[Input], name: str, parameters: Parameters) -> Document:
    """Return the answer to a request."""
    if name in OF_SEVERAL:
        return _answer_of_several(inputs, name, parameters)
    if name not in ANSWERS:
        raise BadRequest(f"{name[:80]}: there is no such request")
    parameters.refuse_unknown((*LOOK, *ANSWERS[name].parameters))
    one = inputs[parameters.integer("input", 0, len(inputs) - 1)]
    look = Look.of(parameters)
    if look.window and not ANSWERS[name].locks_input:
        raise BadRequest("window: is not a parameter of this request")
    if not ANSWERS[name].locks_input:
        return _answer_of_timeline(ANSWERS[name].make, one.demand(), look, parameters)
    with one.lock:
        looks = one.demand()
        return ANSWERS[name].make(looks.in_window(look.window), replace(look, window=""), parameters)


def _answer_of_timeline(
    make: Callable[[Looks, Look, Parameters], Document], looks: Looks, look: Look, parameters: Parameters
) -> Document:
    """Return an answer of which all parts are those of one index: while it is made, the index may be closed, as others
    were asked for since or the input is opened again, or turn out to be damaged."""
    for _ in range(TRIES):
        index = open_timeline(looks, look, parameters).index
        n_lost = index.n_lost
        try:
            document = make(looks, look, parameters)
        except Exception:
            if index.n_lost == n_lost:
                raise
        else:
            if index.n_lost == n_lost:
                return document
    raise InputError("the timeline was closed while it was read, or is made anew: ask again")


def _answer_of_several(inputs: Sequence[Input], name: str, parameters: Parameters) -> Document:
    """Return the answer to a request about more than one input."""
    make, heeded = OF_SEVERAL[name]
    parameters.refuse_unknown((*LOOK, *heeded))
    if name == "compare":
        others = [parameters.integer("with", 0, len(inputs) - 1)]
    else:
        others = parameters.integers("others", 0, len(inputs) - 1, MOST_COMPARED)
    return _of_several(inputs, parameters, others, lambda looks, look: make(looks, look, parameters))


def _of_several(
    inputs: Sequence[Input], parameters: Parameters, others: list[int], make: Callable[[Sequence[Looks], Look], T]
) -> T:
    """Return what is made of an input and some others, whose locks are taken in their order."""
    chosen = [parameters.integer("input", 0, len(inputs) - 1), *others]
    with ExitStack() as locks:
        for number in sorted(set(chosen)):
            locks.enter_context(inputs[number].lock)
        return make([inputs[number].demand() for number in chosen], Look.of(parameters))


def save_report(inputs: Sequence[Input], parameters: Parameters) -> str:
    """Return one page of what is looked at, as `callgrove report` makes it; with another input, as `diff --report`."""
    parameters.refuse_unknown((*LOOK, "with"))
    if parameters.text("with", ""):
        return _of_several(inputs, parameters, [parameters.integer("with", 0, len(inputs) - 1)], make_report)
    one = inputs[parameters.integer("input", 0, len(inputs) - 1)]
    look = Look.of(parameters)
    with one.lock:
        looks = one.demand().in_window(look.window)
        opened = looks.opened if isinstance(looks.opened, Study) else looks.experiment(look)
        given = looks.given.looked_at(look.derive, look.filter)
        return report([ReportInput(opened, looks.paths, given)], looks.choice_of(look), wording=looks.spell)


def outline(inputs: Sequence[Input], version: str) -> Document:
    """Return the page before anything of it is drawn: all inputs, those too that could not be opened."""
    sections = [_outline_input(one) for one in inputs]
    if sum(section["has_contexts"] for section in sections) > 1:
        for section in sections:
            if section["has_contexts"]:
                section["tabs"].append({"title": COMPARE_TAB, "has_metric": True})
    title = ", ".join(dict.fromkeys(section["title"] or "experiment" for section in sections))
    return {"title": title, "by": version, "sections": sections}


def _outline_input(one: Input) -> Document:
    try:
        with one.lock:
            return {**outline_section(one.demand()), **_name_input(one)}
    except CallgroveError as error:
        reason = one.spell(compose_text(error))
        return {
            "title": one.name,
            "facts": [("opened", path) for path in one.wanted.paths[:1]],
            "warnings": [("damage", reason)],
            "commands": [],
            "explained": [],
            "part": one.wanted.given.part,
            "tabs": [{"title": OVERVIEW, "has_metric": False}],
            "metrics": [],
            "first_metric": "",
            "has_contexts": False,
            **_name_input(one),
        }


def _name_input(one: Input) -> Document:
    """Return the words with which commands see the same input."""
    given = one.wanted.given
    return {"inputs": given.name_input(one.wanted.paths), **given.data}
