"""All tables of all inputs, under one name each.

Several inputs are asked as one: their rows follow each other, and ids (profile, context, metric, run, span) are
numbered through, so that joins need no further condition. `profiles`, `metrics` and `contexts` say in `input` whose
they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from callgrove.analysis.tables import metric_rows
from callgrove.errors import UsageError
from callgrove.model.study import Study
from callgrove.model.table import Column, Table
from callgrove.query.lanes import numbers
from callgrove.query.own_tables import own_relations
from callgrove.query.relations import NOTHING, Field, Opened, Relation, Type, Wanted, fields_of
from callgrove.query.rocpd_sums import sum_relations
from callgrove.query.rocpd_things import thing_relations
from callgrove.query.rocpd_views import view_relations
from callgrove.query.span_tables import span_relations

__all__ = ["Catalog"]

NUMBERED = ("profiles", "metrics", "contexts", "parameters", "series")  # these say which input a row is from


@dataclass(frozen=True)
class Catalog:
    """The tables of some inputs. `told` gets, while tables are read, which metrics have no values in them, and why."""

    inputs: tuple[Opened, ...]
    told: list[str] = field(default_factory=list)

    @cached_property
    def relations(self) -> Mapping[str, Relation]:
        """By name, in the order in which they are listed: ours first, then those named like rocprofv3's views."""
        ours = [self._inputs_table(), *own_relations(self.inputs, self._tell), *span_relations()]
        theirs = [*view_relations(), *sum_relations(), *thing_relations()]
        return {one.name: _with_input(one) if one.name in NUMBERED else one for one in (*ours, *theirs)}

    def _tell(self, text: str) -> None:
        if text not in self.told:
            self.told.append(text)

    @property
    def n_own(self) -> int:
        """How many tables are ours; the rest is named like views of rocprofv3."""
        return 1 + len(own_relations(self.inputs, self._tell)) + len(span_relations())

    def relation(self, name: str) -> Relation:
        """By its name; one that none of the inputs has is an error."""
        found = self.relations[name]
        if not any(found.has(one) for one in self.inputs):
            first = self.inputs[0]
            what = (
                "a study, which has series and parameters" if isinstance(first, Study) else "no study over parameters"
            )
            raise UsageError(f"{first.path}: is {what}, not {name}")
        return found

    def rows(self, name: str, wanted: Wanted) -> Iterator[Table]:
        """Chunks of the columns wanted, with ids numbered through."""
        relation = self.relation(name)
        for number, opened in enumerate(self.inputs):
            if relation.has(opened):
                for table in relation.read(opened, wanted - {"input"} if name in NUMBERED else wanted):
                    yield self._show(table, relation, wanted, number)

    def n_rows(self, name: str) -> int | None:
        """How many rows there are, where that is known without reading them."""
        relation = self.relations[name]
        counts = [relation.n_rows(one) for one in self.inputs if relation.has(one)]
        return None if None in counts else sum(count for count in counts if count is not None)

    def _show(self, table: Table, relation: Relation, wanted: Wanted, number: int) -> Table:
        columns = []
        for one in relation.fields:
            if one.name not in wanted:
                continue
            if one.name == "input" and relation.name in NUMBERED:
                columns.append(Column("input", np.full(len(table), number)))
            else:
                columns.append(_shifted(table.column(one.name), self._firsts[one.counts][number] if one.counts else 0))
        return Table(tuple(columns))

    @cached_property
    def _firsts(self) -> dict[str, list[int]]:
        """Of every kind of ids, the first number of each input."""
        counts: dict[str, list[int]] = {"profile": [], "context": [], "metric": [], "run": [], "span": []}
        for one in self.inputs:
            for kind, n in _counts(one, many=len(self.inputs) > 1).items():
                counts[kind].append(n)
        return {kind: [0, *np.cumsum(n).tolist()] for kind, n in counts.items()}

    def _inputs_table(self) -> Relation:
        names = "input path:t format:t version:t title:t kind:t"

        def read(opened: Opened, wanted: Wanted) -> Iterator[Table]:
            number = next(k for k, one in enumerate(self.inputs) if one is opened)
            kind = "study" if isinstance(opened, Study) else "experiment"
            row = (number, *(str(getattr(opened, word, "")) or None for word in ("path", "format", "version", "title")))
            yield Table.from_rows([field.name for field in fields_of(names)], [(*row, kind)])

        return Relation("inputs", "what was opened", fields_of(names), read, of_studies=True)


def _with_input(relation: Relation) -> Relation:
    return replace(relation, fields=(*relation.fields, Field("input", Type.INTEGER)))


def _counts(opened: Opened, many: bool) -> dict[str, int]:
    """How many ids an input has of every kind. Metrics include the rows that can be computed."""
    if not many:
        return {}
    if isinstance(opened, Study):
        return {"profile": 0, "context": 0, "metric": 0, "run": opened.n_points, "span": 0}
    return {
        "profile": len(opened.profiles),
        "context": len(opened.contexts),
        "metric": len(metric_rows(opened)[0]),
        "run": len(opened.runs),
        "span": opened.traces.n_spans,
    }


def _shifted(column: Column, first: int) -> Column:
    """Ids of one input as ids of all."""
    if not first:
        return column
    cells = numbers(column.plain()) if not isinstance(column.values, np.ndarray) else column.values.astype(np.int64)
    absent = NOTHING if column.absent is None else column.absent
    return Column(column.name, np.where(cells == absent, NOTHING, cells + first), NOTHING)
