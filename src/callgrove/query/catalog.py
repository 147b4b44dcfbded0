"""All tables of all inputs, under one name each, the tables of `export` among them.

Several inputs are asked as one: their rows follow each other, and ids (profile, context, metric, run, span) are
numbered through, so that joins need no further condition. `profiles`, `metrics` and `contexts` say in `input` whose
they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np

from callgrove.analysis.tables import Selection, export, n_rows
from callgrove.analysis.value_tables import metric_rows
from callgrove.arrays import Array
from callgrove.errors import UsageError
from callgrove.model.experiment import Experiment
from callgrove.model.study.series import Study
from callgrove.model.table import Column, Table
from callgrove.query.relations import (
    NOTHING,
    Field,
    Opened,
    Relation,
    Type,
    Wanted,
    fields_of,
    span_relations,
    unique_names,
)
from callgrove.query.rocpd_things import sum_relations, thing_relations
from callgrove.query.rocpd_views import numbers, view_relations

__all__ = ["Catalog", "make_export_relations"]


# -- tables of `export` as relations -----------------------------------------------------------------------------------


PROFILES = (
    "profile source_id run kind:t name:t node rank thread gpu_device gpu_context gpu_stream core identifiers:t host:t"
)
METRICS = (
    "metric source_id name:t unit:t scope:t dtype:t aggregate:t parent statistic:t visible description:t formula:t "
    "derived:t"
)
CONTEXTS = "context source_id parent kind:t name:t file:t line module:t offset path:t relation:t call_line"
INTEGERS = re.compile(r"u?int(eger)?\d*(_t)?")
SERIES = "callpath:t metric:t repetitions mean:r median:r minimum:r maximum:r std:r"


def make_export_relations(inputs: Sequence[Opened], tell: Callable[[str], None]) -> list[Relation]:
    """Return the tables that `export` prints as relations. Which columns `series` has, and whether values are
    integers, depends on the inputs. `tell` hears which metrics have no values in a table that is read."""
    ids = {name: name for name in ("profile", "context", "metric", "run")}
    columns = _series_columns(inputs)
    return [
        _table("profiles", "threads, streams: where things were measured", fields_of(PROFILES, ids)),
        _table("metrics", "what was measured, in which scope", fields_of(METRICS, ids | {"parent": "metric"})),
        _table("contexts", "the calling context tree", fields_of(CONTEXTS, ids | {"parent": "context"})),
        *_values(inputs, ids, tell),
        _table("samples", "what profiles executed over time", fields_of("profile time_ns context metric", ids)),
        _table("counters", "quantities over time", fields_of("profile name:t time_ns value:r", ids)),
        Relation(
            "parameters",
            "the parameters of runs, or of the points of a study",
            fields_of("run name:t value:r", ids),
            partial(_export, "parameters"),
            of_studies=True,
        ),
        Relation(
            "series",
            "measurements of a call path and metric over parameters",
            _series_fields(columns),
            partial(_read_series, columns),
            of_experiments=any(isinstance(one, Experiment) and _parameters(one) for one in inputs),
            of_studies=True,
        ),
    ]


def _table(name: str, title: str, fields: tuple[Field, ...]) -> Relation:
    return Relation(name, title, fields, partial(_export, name), n_rows=partial(_count, name))


def _count(table: str, opened: Opened) -> int | None:
    return n_rows(opened, table, Selection()) if isinstance(opened, Experiment) else None


def _export(table: str, opened: Opened, wanted: Wanted) -> Iterator[Table]:
    return export(opened, table)


# -- values ------------------------------------------------------------------------------------------------------------


def _values(inputs: Sequence[Opened], ids: dict[str, str], tell: Callable[[str], None]) -> list[Relation]:
    """Return the values; `value` is an integer where all metrics are, else a real number, and then `integer` has what
    it may round."""
    dtypes = [m.dtype for one in inputs if isinstance(one, Experiment) for m in one.metrics]
    exact = bool(dtypes) and all(_is_integer(dtype) for dtype in dtypes)
    columns = "profile context metric value{} integer fields:t"
    fields, real = fields_of(columns.format("" if exact else ":r"), ids), fields_of(columns.format(":r"), ids)
    stored = Relation(
        "stored_values", "profile, context, metric: a value", fields, partial(_export_values, "stored", tell)
    )
    return [
        Relation("values", 'the same as stored_values; SQL wants quotes: "values"', fields, stored.read),
        stored,
        *(
            Relation(
                f"{scope}_values",
                f"values in scope {scope}, those of derived metrics too",
                real,
                partial(_export_values, scope, tell),
            )
            for scope in ("exclusive", "inclusive")
        ),
    ]


def _is_integer(dtype: str) -> bool:
    """Return whether a type is one of integers. Formats spell types in their own way: int, UINT64, ..."""
    return INTEGERS.fullmatch(dtype.lower()) is not None


def _export_values(scope: str, tell: Callable[[str], None], opened: Opened, wanted: Wanted) -> Iterator[Table]:
    if isinstance(opened, Experiment) and not len(opened.metrics):  # then no scope can be computed, which is no mistake
        return
    for table in export(opened, "values", Selection(scope=scope, tell=tell)):
        value = np.asarray(table.column("value").values)
        whole = value.dtype.kind in "biu"
        integer: Array = value if whole else np.full(len(value), NOTHING)
        fields = table.columns[4:] or (Column("fields", [None] * len(table)),)
        yield Table((*table.columns[:4], Column("integer", integer, None if whole else NOTHING), *fields))


# -- series ------------------------------------------------------------------------------------------------------------


def _parameters(experiment: Experiment) -> list[str]:
    return list(dict.fromkeys(name for run in experiment.runs for name in run.parameters))


def _names(opened: Opened) -> list[str]:
    return list(opened.parameters) if isinstance(opened, Study) else _parameters(opened)


def _series_columns(inputs: Sequence[Opened]) -> dict[str, str]:
    """Return a column for each parameter that any input has; a name that is taken gets a number."""
    fixed = [*(field.name for field in fields_of(SERIES)), "input"]
    parameters = list(dict.fromkeys(name for one in inputs for name in _names(one)))
    return dict(zip(parameters, unique_names([*fixed, *parameters])[len(fixed) :], strict=True))


def _series_fields(columns: dict[str, str]) -> tuple[Field, ...]:
    fixed = fields_of(SERIES)
    return (*fixed[:2], *(Field(name, Type.REAL) for name in columns.values()), *fixed[2:])


def _read_series(columns: dict[str, str], opened: Opened, wanted: Wanted) -> Iterator[Table]:
    """Yield series, whose parameters stand between the first two columns and the last six."""
    study = opened if isinstance(opened, Study) else opened.study()
    table = study.table()
    coordinates = dict(zip(study.parameters, table.columns[2:-6], strict=True))
    nothing = Column("", [None] * len(table))
    points = [Column(columns[name], coordinates.get(name, nothing).values) for name in columns]
    yield Table((*table.columns[:2], *points, *table.columns[-6:]))


# -- all tables of all inputs ------------------------------------------------------------------------------------------


NUMBERED = ("profiles", "metrics", "contexts", "parameters", "series")  # these say which input a row is from


@dataclass(frozen=True)
class Catalog:
    """The tables of some inputs. `told` gets, while tables are read, which metrics have no values in them, and why."""

    inputs: tuple[Opened, ...]
    told: list[str] = field(default_factory=list)

    @cached_property
    def relations(self) -> Mapping[str, Relation]:
        """By name, in the order in which they are listed: ours first, then those named like rocprofv3's views."""
        ours = [self._inputs_table(), *make_export_relations(self.inputs, self._tell), *span_relations()]
        theirs = [*view_relations(), *sum_relations(), *thing_relations()]
        return {one.name: _with_input(one) if one.name in NUMBERED else one for one in (*ours, *theirs)}

    def _tell(self, text: str) -> None:
        if text not in self.told:
            self.told.append(text)

    @property
    def n_own(self) -> int:
        """How many tables are ours; the rest is named like views of rocprofv3."""
        return 1 + len(make_export_relations(self.inputs, self._tell)) + len(span_relations())

    def relation(self, name: str) -> Relation:
        """Return a relation by its name; one that none of the inputs has is an error."""
        relation = self.relations[name]
        if not any(relation.has(one) for one in self.inputs):
            first = self.inputs[0]
            what = (
                "a study, which has series and parameters" if isinstance(first, Study) else "no study over parameters"
            )
            raise UsageError(f"{first.path}: is {what}, not {name}")
        return relation

    def rows(self, name: str, wanted: Wanted) -> Iterator[Table]:
        """Yield chunks of the columns wanted, with ids numbered through."""
        relation = self.relation(name)
        for number, opened in enumerate(self.inputs):
            if relation.has(opened):
                for table in relation.read(opened, wanted - {"input"} if name in NUMBERED else wanted):
                    yield self._show(table, relation, wanted, number)

    def n_rows(self, name: str) -> int | None:
        """Return how many rows there are, where that is known without reading them."""
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
                columns.append(
                    _shift_ids(table.column(one.name), self._firsts[one.counts][number] if one.counts else 0)
                )
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
    """Return how many ids an input has of every kind. Metrics include the rows that can be computed."""
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


def _shift_ids(column: Column, first: int) -> Column:
    """Return ids of one input as ids of all."""
    if not first:
        return column
    cells = numbers(column.plain()) if not isinstance(column.values, np.ndarray) else column.values.astype(np.int64)
    absent = NOTHING if column.absent is None else column.absent
    return Column(column.name, np.where(cells == absent, NOTHING, cells + first), NOTHING)
