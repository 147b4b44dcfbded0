"""MetricTable and MetricDBTable of experiment.xml.

    X:PARTIAL:k (I), (E)    what the summary stores, show=4: one for each statistic, with its own id
    X:Sum (I), (E), ...     what is shown, negative ids: formulas over the stored ones
    MetricDB X (I), (E)     what threads store

Genuine files repeat the id of the first PARTIAL for all of them; here each has its own, which formulas refer to. A
quantity with one scope only has no mark behind its name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from callgrove.formats.hpctoolkit.metric_plan import MetricPlan, StoredMetric
from callgrove.formats.hpctoolkit.release_words import SUMMARIES
from callgrove.formats.hpctoolkit.view_columns import ViewColumn
from callgrove.formats.hpctoolkit.xml_text import quoted
from callgrove.model.expressions import render
from callgrove.model.metrics import Column, Scope

__all__ = ["metric_tables"]

MARKS = {Scope.INCLUSIVE: " (I)", Scope.FUNCTION: " (E)"}  # in the order of genuine files
TYPES = {Scope.INCLUSIVE: "inclusive", Scope.FUNCTION: "exclusive"}
STORED, SHOWN, HIDDEN = 4, 1, 0  # `show`


@dataclass(frozen=True)
class _Element:
    """One `Metric` element."""

    id: int
    name: str
    description: str
    scope: Scope
    partner: int
    show: int
    formula_type: str
    formula: str
    percent: bool = False
    number_format: str = ""

    def text(self) -> str:
        """The element, line by line as genuine files have it."""
        described = f" md={quoted(self.description)}" if self.description else ""
        look = f" fmt={quoted(self.number_format)}" if self.number_format else ""
        return (
            f'<Metric i="{self.id}" o="{self.id}" n={quoted(self.name)}{described} v="derived-incr" '
            f't="{TYPES.get(self.scope, "exclusive")}" partner="{self.partner}" show="{self.show}" '
            f'show-percent="{int(self.percent)}"{look}>\n'
            f'<MetricFormula t="{self.formula_type}" frm={quoted(self.formula)}/>\n'
            '<Info><NV n="units" v="events"/></Info>\n</Metric>\n'
        )


def metric_tables(plan: MetricPlan, columns: list[ViewColumn]) -> Iterator[str]:
    """Both tables, line by line."""
    yield "<MetricTable>\n"
    for metric in plan.metrics:
        yield from (element.text() for element in _partials(metric))
    yield from (element.text() for element in _shown(columns))
    yield "</MetricTable>\n<MetricDBTable>\n"
    for metric in plan.metrics:
        ids = {scope.scope: scope.id for scope in metric.scopes}
        for scope in (scope for scope in MARKS if scope in ids):
            yield f'<MetricDB i="{ids[scope]}" n={quoted(_name(metric, scope))}/>\n'
    yield "</MetricDBTable>\n"


def _name(metric: StoredMetric, scope: Scope, more: str = "") -> str:
    """A name with the mark of its scope, which is left out where there is one scope and nothing to mistake."""
    lone = len(metric.scopes) == 1 and not metric.name.endswith(tuple(MARKS.values()))
    return metric.name + more + ("" if lone else MARKS[scope])


def _partials(metric: StoredMetric) -> Iterator[_Element]:
    scopes = {scope.scope: scope for scope in metric.scopes}
    for k, (statistic, _) in enumerate(metric.scopes[0].statistics):
        for scope in (scope for scope in MARKS if scope in scopes):
            id_ = scopes[scope].statistics[k][1]
            partner = next((s.statistics[k][1] for s in metric.scopes if s.scope != scope), id_)
            formula = f"{SUMMARIES[statistic][1]}(${id_}, ${id_})"
            name, description = _name(metric, scope, f":PARTIAL:{k}"), metric.first.description or metric.name
            yield _Element(id_, name, description, scope, partner, STORED, "combine", formula)


def _shown(columns: list[ViewColumn]) -> Iterator[_Element]:
    own = [shown.column.source_id for shown in columns]
    keeps = len(set(own)) == len(own) and all(id_ is not None and id_ < 0 for id_ in own)
    ids = [id_ if keeps and id_ is not None else -1 - k for k, id_ in enumerate(own)]
    known = {(_title(s.column), s.column.scope == Scope.INCLUSIVE): id_ for s, id_ in zip(columns, ids, strict=True)}
    for shown, id_ in zip(columns, ids, strict=True):
        column = shown.column
        title, inclusive = _title(column), column.scope == Scope.INCLUSIVE
        partner = known.get((title, not inclusive), column.partner if keeps and column.partner is not None else id_)
        yield _Element(
            id_,
            title + MARKS[Scope.INCLUSIVE if inclusive else Scope.FUNCTION],
            column.description,
            Scope.INCLUSIVE if inclusive else Scope.FUNCTION,
            partner,
            SHOWN if column.visible else HIDDEN,
            "view",
            render(shown.formula),
            column.show_percent,
            column.number_format,
        )


def _title(column: Column) -> str:
    """Name and statistic. A name with a colon but without statistic gets another one, so that it is not taken apart."""
    return f"{column.name}:{column.statistic}" if column.statistic or ":" in column.name else column.name
