"""The tables that `export` prints, as relations."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from callgrove.analysis.tables import Selection, export, n_rows
from callgrove.model.arrays import Array
from callgrove.model.experiment import Experiment
from callgrove.model.study import Study
from callgrove.model.table import Column, Table
from callgrove.query.relations import NOTHING, Field, Opened, Relation, Type, Wanted, fields_of, unique_names

__all__ = ["own_relations"]

PROFILES = (
    "profile source_id run kind:t name:t node rank thread gpu_device gpu_context gpu_stream core identifiers:t host:t"
)
METRICS = (
    "metric source_id name:t unit:t scope:t dtype:t aggregate:t parent statistic:t visible description:t formula:t"
)
CONTEXTS = "context source_id parent kind:t name:t file:t line module:t offset path:t relation:t call_line"
INTEGERS = re.compile(r"u?int(eger)?\d*(_t)?")
SERIES = "callpath:t metric:t repetitions mean:r median:r minimum:r maximum:r std:r"


def own_relations(inputs: Sequence[Opened], tell: Callable[[str], None]) -> list[Relation]:
    """All of them; what columns `series` has, and whether values are integers, depends on the inputs. `tell` hears
    which metrics have no values in a table that is read."""
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
            partial(_exported, "parameters"),
            of_studies=True,
        ),
        Relation(
            "series",
            "measurements of a call path and metric over parameters",
            _series_fields(columns),
            partial(_series, columns),
            of_experiments=any(isinstance(one, Experiment) and _parameters(one) for one in inputs),
            of_studies=True,
        ),
    ]


def _table(name: str, title: str, fields: tuple[Field, ...]) -> Relation:
    return Relation(name, title, fields, partial(_exported, name), n_rows=partial(_count, name))


def _count(table: str, opened: Opened) -> int | None:
    return n_rows(opened, table, Selection()) if isinstance(opened, Experiment) else None


def _exported(table: str, opened: Opened, wanted: Wanted) -> Iterator[Table]:
    return export(opened, table)


# -- values -----------------------------------------------------------------------------------------------------------


def _values(inputs: Sequence[Opened], ids: dict[str, str], tell: Callable[[str], None]) -> list[Relation]:
    """`value` is an integer where all metrics are, else a real number, and then `integer` has what it may round."""
    dtypes = [m.dtype for one in inputs if isinstance(one, Experiment) for m in one.metrics]
    exact = bool(dtypes) and all(_is_integer(dtype) for dtype in dtypes)
    columns = "profile context metric value{} integer fields:t"
    fields, real = fields_of(columns.format("" if exact else ":r"), ids), fields_of(columns.format(":r"), ids)
    stored = Relation("stored_values", "profile, context, metric: a value", fields, partial(_valued, "stored", tell))
    return [
        Relation("values", 'the same; to be written "values"', fields, stored.read),
        stored,
        *(
            Relation(f"{scope}_values", f"values in scope {scope}", real, partial(_valued, scope, tell))
            for scope in ("exclusive", "inclusive")
        ),
    ]


def _is_integer(dtype: str) -> bool:
    """Formats spell types in their own way: int, UINT64, ..."""
    return INTEGERS.fullmatch(dtype.lower()) is not None


def _valued(scope: str, tell: Callable[[str], None], opened: Opened, wanted: Wanted) -> Iterator[Table]:
    if isinstance(opened, Experiment) and not len(opened.metrics):  # then no scope can be computed, which is no mistake
        return
    for table in export(opened, "values", Selection(scope=scope, tell=tell)):
        value = np.asarray(table.column("value").values)
        whole = value.dtype.kind in "biu"
        integer: Array = value if whole else np.full(len(value), NOTHING)
        fields = table.columns[4:] or (Column("fields", [None] * len(table)),)
        yield Table((*table.columns[:4], Column("integer", integer, None if whole else NOTHING), *fields))


# -- series -----------------------------------------------------------------------------------------------------------


def _parameters(experiment: Experiment) -> list[str]:
    return list(dict.fromkeys(name for run in experiment.runs for name in run.parameters))


def _names(opened: Opened) -> list[str]:
    return list(opened.parameters) if isinstance(opened, Study) else _parameters(opened)


def _series_columns(inputs: Sequence[Opened]) -> dict[str, str]:
    """A column for each parameter that any input has; a name that is taken gets a number."""
    fixed = [*(field.name for field in fields_of(SERIES)), "input"]
    parameters = list(dict.fromkeys(name for one in inputs for name in _names(one)))
    return dict(zip(parameters, unique_names([*fixed, *parameters])[len(fixed) :], strict=True))


def _series_fields(columns: dict[str, str]) -> tuple[Field, ...]:
    fixed = fields_of(SERIES)
    return (*fixed[:2], *(Field(name, Type.REAL) for name in columns.values()), *fixed[2:])


def _series(columns: dict[str, str], opened: Opened, wanted: Wanted) -> Iterator[Table]:
    """Parameters stand between the first two columns and the last six."""
    study = opened if isinstance(opened, Study) else opened.study()
    found = study.table()
    own = dict(zip(study.parameters, found.columns[2:-6], strict=True))
    nothing = Column("", [None] * len(found))
    points = [Column(columns[name], own.get(name, nothing).values) for name in columns]
    yield Table((*found.columns[:2], *points, *found.columns[-6:]))
