"""Requests by name: each makes a document of an input, which `page.encode` takes.

The other half of the contract is `Requests` in static/documents.d.ts. A new request is a function here and a line in
`ANSWERS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from callgrove.errors import CallgroveError, compose_text
from callgrove.model.study.series import Study
from callgrove.viewer.report import Input as ReportInput
from callgrove.viewer.report import report
from callgrove.viewer.server.inputs import Input
from callgrove.viewer.server.looks import LOOK, Look, Looks
from callgrove.viewer.server.parameters import BadRequest, Parameters
from callgrove.viewer.server.rows import NODE, answer_path, answer_rows, answer_search, find_node, make_view
from callgrove.viewer.server.system import answer_grid, answer_source, answer_spread
from callgrove.viewer.server.tabs import OVERVIEW, flame_document, make_tab, outline_section, panel_document

__all__ = ["ANSWERS", "answer", "outline", "save_report"]

Document = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """What makes a document, and the parameters that it heeds beside those of every look."""

    make: Callable[[Looks, Look, Parameters], Document]
    parameters: tuple[str, ...] = ()


def _answer_look(looks: Looks, look: Look, parameters: Parameters) -> Document:
    """Return the metrics of a look; refuse one that makes no sense."""
    return {"metrics": looks.metrics(look)}


def _answer_tab(looks: Looks, look: Look, parameters: Parameters) -> Document:
    """Return what a tab shows."""
    panels = make_tab(looks, look, parameters.text("tab"))
    return {"panels": [panel_document(panel, looks.spell) for panel in panels]}


def _answer_flame(looks: Looks, look: Look, parameters: Parameters) -> Document:
    """Return the tree of the flame graph around a call."""
    view = make_view(looks, look, "tree")
    return flame_document(looks, look, find_node(view, parameters.text("node", "")))


ANSWERS: Mapping[str, Answer] = {
    "look": Answer(_answer_look),
    "tab": Answer(_answer_tab, ("tab",)),
    "rows": Answer(answer_rows, (*NODE, "sort", "down", "first", "count", "columns")),
    "path": Answer(answer_path, ("node",)),
    "search": Answer(answer_search, ("text",)),
    "flame": Answer(_answer_flame, ("node",)),
    "spread": Answer(answer_spread, (*NODE, "over")),
    "grid": Answer(answer_grid, NODE),
    "source": Answer(answer_source, NODE),
}


def answer(inputs: Sequence[Input], name: str, parameters: Parameters) -> Document:
    """Return the answer to a request."""
    if name not in ANSWERS:
        raise BadRequest(f"{name[:80]}: there is no such request")
    parameters.refuse_unknown((*LOOK, *ANSWERS[name].parameters))
    one = inputs[parameters.integer("input", 0, len(inputs) - 1)]
    look = Look.of(parameters)
    with one.lock:
        return ANSWERS[name].make(one.demand(), look, parameters)


def save_report(inputs: Sequence[Input], parameters: Parameters) -> str:
    """Return one page of what is looked at, as `callgrove report` makes it."""
    parameters.refuse_unknown(LOOK)
    one = inputs[parameters.integer("input", 0, len(inputs) - 1)]
    look = Look.of(parameters)
    with one.lock:
        looks = one.demand()
        opened = looks.opened if isinstance(looks.opened, Study) else looks.experiment(look)
        choice = replace(looks.choice, metric=look.metric or looks.choice.metric)
        return report([ReportInput(opened, looks.paths)], choice, wording=looks.spell)


def outline(inputs: Sequence[Input], version: str) -> Document:
    """Return the page before anything of it is drawn: all inputs, those too that could not be opened."""
    sections = [_outline_input(one) for one in inputs]
    title = ", ".join(dict.fromkeys(section["title"] or "experiment" for section in sections))
    return {"title": title, "by": version, "sections": sections}


def _outline_input(one: Input) -> Document:
    try:
        with one.lock:
            return outline_section(one.demand())
    except CallgroveError as error:
        reason = one.spell(compose_text(error))
        return {
            "title": one.name,
            "facts": [("opened", path) for path in one.wanted.paths[:1]],
            "warnings": [("damage", reason)],
            "commands": [],
            "tabs": [{"title": OVERVIEW, "has_metric": False}],
            "metrics": [],
            "first_metric": "",
            "has_contexts": False,
        }
