"""Which metrics a database stores, under which ids, what its summary holds, and what generations name or number
differently.

A metric owns consecutive ids, in steps of one statistic; inside of a step each scope has its slot. Threads use the ids
of the first step, the summary those of all:

    released       base + k * n_scopes + scope      scopes: those that the metric has
    pre-release    base + k * 3 + slot              slots: 0 point (never stored), 1 function, 2 inclusive

Ids of the source are kept where they follow this rule already. Statistics that the source's summary has are written
again, computed from the threads: count, sum, sum of squares, min, max, in this order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate

import numpy as np

from callgrove.arrays import ABSENT, Bools, Ids, Ints, distinct
from callgrove.errors import CallgroveError, count_of
from callgrove.formats.hpctoolkit.column_formulas import formula_columns, held_formulas
from callgrove.formats.hpctoolkit.database import GPU_KINDS, unit_of
from callgrove.formats.hpctoolkit.release.files import (
    COUNT,
    MAXIMUM,
    MINIMUM,
    MOST_METRIC_IDS,
    SQUARES,
    SUM,
    UNKNOWN_ENTRY,
    UNKNOWN_FUNCTION,
    storable,
)
from callgrove.formats.hpctoolkit.statistics import STATISTICS
from callgrove.formats.writing.writer import (
    losses_of_events,
    losses_of_formulas,
    losses_of_missing,
    losses_of_runs,
    some,
)
from callgrove.model.contexts import NO_ACTIVITY, ContextKind, ContextTree, Regions
from callgrove.model.definitions import read_formula
from callgrove.model.experiment import Experiment
from callgrove.model.formulas import Expression, FormulaError, parse, renumber
from callgrove.model.metrics import Aggregation, Column, Metric, Metrics, Scope
from callgrove.model.profiles import ProfileKind, Profiles
from callgrove.model.system import follows_from_identifiers

__all__ = [
    "DESCRIPTION",
    "ENTRY_OF_PLACEHOLDER",
    "NO_ACTIVITY",
    "PARTIAL_PATHS",
    "PLACEHOLDER_OF_ENTRY",
    "UNKNOWN",
    "UNKNOWN_NAMES",
    "MetricPlan",
    "Slots",
    "StoredMetric",
    "StoredScope",
    "ViewColumn",
    "find_unused_ids",
    "have_known_names",
    "is_no_activity",
    "kept_ids",
    "losses_of_both",
    "name_unknown_procedure",
    "view_columns",
]


# -- the plan ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Slots:
    """Which scopes a generation stores, in this order. `first` and `step` are fixed, or follow what a metric has."""

    scopes: tuple[Scope, ...]
    step: int | None = None

    def of(self, scopes: list[Scope]) -> tuple[dict[Scope, int], int]:
        """Return the slot of each scope of one metric, and the step from one statistic to the next."""
        if self.step is None:
            return {scope: slot for slot, scope in enumerate(scopes)}, len(scopes)
        return {scope: self.scopes.index(scope) + self.step - len(self.scopes) for scope in scopes}, self.step


@dataclass(frozen=True)
class StoredScope:
    """One scope of a metric: the row of the model that it comes from, its id in threads, and its statistics with
    their ids in the summary."""

    scope: Scope
    row: int
    id: int
    statistics: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class StoredMetric:
    """One metric of the file."""

    name: str
    first: Metric
    scopes: tuple[StoredScope, ...]


@dataclass(frozen=True)
class MetricPlan:
    """Every array has one entry per metric row of the model: an id of the file, or ABSENT.

    `stored` is the id of rows that are written as they are. Of exclusive rows `function` and `execution` are the ids of
    the scopes that are computed from them, where these are not stored themselves.
    """

    metrics: tuple[StoredMetric, ...]
    stored: Ids
    function: Ids
    execution: Ids
    keeps_ids: bool

    @classmethod
    def of(cls, metrics: Metrics, slots: Slots, knows_threads: bool = True) -> MetricPlan:
        """Return the plan for some metrics. Without values of single threads there are no statistics over them."""
        wanted = list(_choose_quantities(metrics, slots.scopes, knows_threads))
        bases, n_ids, keeps = _bases(metrics, wanted, slots)
        if n_ids > MOST_METRIC_IDS:
            raise CallgroveError(f"{n_ids} metrics and scopes are more than a database holds ({MOST_METRIC_IDS})")
        stored, function, execution = (np.full(len(metrics), ABSENT, np.int32) for _ in range(3))
        out = []
        for base, (name, rows, statistics) in zip(bases, wanted, strict=True):
            places, step = slots.of(list(rows))
            scopes = []
            for scope, row in rows.items():
                id_ = base + places[scope]
                summaries = tuple((statistic, id_ + step * k) for k, statistic in enumerate(statistics))
                scopes.append(StoredScope(scope, row, id_, summaries))
                if metrics[row].scope == scope:
                    stored[row] = id_
                else:
                    (function if scope == Scope.FUNCTION else execution)[row] = id_
            out.append(StoredMetric(storable(name), metrics[next(iter(rows.values()))], tuple(scopes)))
        return cls(tuple(out), stored, function, execution, keeps)

    @property
    def written(self) -> Bools:
        """Rows of the model that have a place in the file."""
        return (self.stored >= 0) | (self.function >= 0) | (self.execution >= 0)

    @property
    def scopes(self) -> Iterator[tuple[StoredMetric, StoredScope]]:
        """Every metric in every scope."""
        return ((metric, scope) for metric in self.metrics for scope in metric.scopes)

    @cached_property
    def statistics(self) -> dict[str, dict[int, int]]:
        """Statistic -> id in threads -> id in the summary."""
        out: dict[str, dict[int, int]] = {}
        for _, scope in self.scopes:
            for statistic, id_ in scope.statistics:
                out.setdefault(statistic, {})[scope.id] = id_
        return out

    @property
    def lexical_of_function(self) -> dict[int, int]:
        """The id of each metric's lexical scope by that of its function scope, for metrics that have both."""
        ids = [{scope.scope: scope.id for scope in metric.scopes} for metric in self.metrics]
        return {
            ids_of_metric[Scope.FUNCTION]: ids_of_metric[Scope.LEXICAL]
            for ids_of_metric in ids
            if {Scope.FUNCTION, Scope.LEXICAL} <= ids_of_metric.keys()
        }

    def renumber(self, metrics: Metrics) -> Mapping[int, int]:
        """Return the numbers in the file of the ids that the source's summary uses, which columns refer to."""
        out: dict[int, int] = {}
        for _, scope in self.scopes:
            if metrics[scope.row].scope == scope.scope:
                known = _source_statistics(metrics, scope.row)
                out.update({known[name]: id_ for name, id_ in scope.statistics if name in known})
        return out


Wanted = tuple[str, dict[Scope, int], tuple[str, ...]]  # quantity, scope -> row of the model, statistics


def _choose_quantities(metrics: Metrics, scopes: tuple[Scope, ...], knows_threads: bool) -> Iterator[Wanted]:
    """Yield the quantities with the scopes to write and the row that each comes from: its own, or the exclusive one."""
    groups: dict[str, dict[Scope, int]] = {}
    statistics: dict[str, set[str]] = {}
    for row, metric in enumerate(metrics):
        if metric.statistic:
            statistics.setdefault(metric.name, set()).update([metric.statistic] if knows_threads else [])
        elif metric.is_missing or metric.is_derived:
            continue
        elif metric.aggregation in (Aggregation.SUM, Aggregation.COMPOSITE):
            groups.setdefault(metric.name, {})[metric.scope] = row
    for name, row_of_scope in groups.items():
        if (exclusive := row_of_scope.get(Scope.EXCLUSIVE)) is not None:
            row_of_scope = {Scope.FUNCTION: exclusive, Scope.INCLUSIVE: exclusive} | row_of_scope
        rows = {scope: row_of_scope[scope] for scope in scopes if scope in row_of_scope}
        asked = statistics.get(name, set()) | {SUM}
        if rows:
            yield name, rows, tuple(statistic for statistic in STATISTICS if statistic in asked)


def _bases(metrics: Metrics, wanted: list[Wanted], slots: Slots) -> tuple[list[int], int, bool]:
    """Return the first id of each metric, one more than the last id of all, and whether these are the source's ids."""
    bases_of_metrics: list[int] = []
    spans: list[int] = []
    for _, rows, statistics in wanted:
        places, step = slots.of(list(rows))
        spans.append(step * len(statistics))
        ids = {(metrics[row].source_id, places[scope]) for scope, row in rows.items() if metrics[row].scope == scope}
        bases = {id_ - place for id_, place in ids if id_ is not None}
        bases_of_metrics.append(bases.pop() if len(bases) == 1 and len(ids) == len(rows) else ABSENT)
    following = 0
    for base, span in sorted(zip(bases_of_metrics, spans, strict=True)):  # ids are dense
        following = following + span if base == following else ABSENT
    if following == sum(spans):
        return bases_of_metrics, following, True
    return list(accumulate(spans, initial=0))[:-1], sum(spans), False


def _source_statistics(metrics: Metrics, row: int) -> dict[str, int]:
    """Return the ids of the source's own summary for one metric in one scope. The sum has no row of its own; where the
    source did not tell its id, and there are several statistics, it is the one that is missing in their sequence."""
    metric = metrics[row]
    same = [m for m in metrics if m.name == metric.name and m.scope == metric.scope and m.statistic]
    out = {m.statistic: m.source_id for m in same if m.source_id is not None}
    if metric.summary_id is not None:
        return out | {SUM: metric.summary_id}
    first = metric.source_id
    if first is None or not out:
        return {} if first is None else {SUM: first}
    steps = {3, len(metrics.scopes(metric.name))}
    for step in sorted(steps):
        left = {first + step * k for k in range(len(out) + 1)} - set(out.values())
        if len(left) == 1:
            return out | {SUM: left.pop()}
    return out


# -- columns to show ---------------------------------------------------------------------------------------------------
# An experiment's columns are kept where the file holds what they are made of. A metric without any gets the usual ones:
#
#     Sum $s    Mean $s/$n    StdDev sqrt($q/$n-($s/$n)^2)    CfVar StdDev/Mean    Min    Max
#
# as far as there are statistics for them. The pre-release generation tells statistics apart by these formulas alone, so
# that it gets them for every metric with several.


WORDS = {"sum": SUM, "count": COUNT, "squares": SQUARES, "min": MINIMUM, "max": MAXIMUM}
FORMULAS = {  # of each view, and the statistics that it is over
    "Sum": ("{sum}", (SUM,)),
    "Mean": ("{sum}/{count}", (SUM, COUNT)),
    "StdDev": ("sqrt({squares}/{count}-({sum}/{count})^2)", (SUM, COUNT, SQUARES)),
    "CfVar": ("sqrt({squares}/{count}-({sum}/{count})^2)/({sum}/{count})", (SUM, COUNT, SQUARES)),
    "Min": ("{min}", (MINIMUM,)),
    "Max": ("{max}", (MAXIMUM,)),
}


@dataclass(frozen=True)
class ViewColumn:
    """A column, and its formula over the ids of the file's summary."""

    column: Column
    formula: Expression


def view_columns(plan: MetricPlan, metrics: Metrics, tells_statistics: bool) -> tuple[list[ViewColumn], list[str]]:
    """Return the columns in their order, and the names of those that could not be kept. With `tells_statistics` there
    are the usual columns for each metric with several."""
    ids = plan.renumber(metrics)
    scopes = {scope.scope for _, scope in plan.scopes}
    kept: list[ViewColumn] = []
    lost: list[str] = []
    for column in metrics.columns:
        if column.scope == Scope.LEXICAL and Scope.LEXICAL not in scopes:
            continue  # goes with its scope, which is reported
        try:
            expression = parse(column.formula)
        except FormulaError:
            expression = None
        if expression is not None and expression.variables() <= ids.keys():
            kept.append(ViewColumn(column, renumber(expression, ids)))
        else:
            lost.append(" ".join(word for word in (column.name, column.statistic, column.scope.word) if word))
    kept += _columns_of_formulas(plan, metrics, {c.column.name for c in kept}, lost)
    known = {(c.column.name, c.column.statistic, c.column.scope) for c in kept}
    names = {name for name, _, _ in known}
    for metric in plan.metrics:
        several = any(len(scope.statistics) > 1 for scope in metric.scopes)
        if metric.first.name not in names or (several and tells_statistics):
            kept += (c for c in _usual(metric) if (c.column.name, c.column.statistic, c.column.scope) not in known)
    return kept, lost


def _columns_of_formulas(plan: MetricPlan, metrics: Metrics, known: set[str], lost: list[str]) -> list[ViewColumn]:
    """Return columns for derived metrics that have none yet; those that no stored scope is enough for are lost."""
    ids = {(m.first.name, s.scope): dict(s.statistics)[SUM] for m in plan.metrics for s in m.scopes}
    columns = [ViewColumn(*column) for column in formula_columns(metrics, ids)]
    lost += sorted(held_formulas(metrics).keys() - {c.column.name for c in columns} - known)
    return [column for column in columns if column.column.name not in known]


def _usual(metric: StoredMetric) -> Iterator[ViewColumn]:
    row = metric.first
    scopes = {scope.scope: scope for scope in metric.scopes}
    if Scope.FUNCTION in scopes:
        scopes.pop(Scope.POINT, None)
    for statistic, (text, needs) in FORMULAS.items():
        for scope in (Scope.INCLUSIVE, Scope.FUNCTION, Scope.POINT, Scope.LEXICAL):
            if scope in scopes and set(needs) <= dict(scopes[scope].statistics).keys():
                column = Column(row.name, scope, "", row.description, statistic, row.visible)
                shown = replace(column, show_percent=row.show_percent, number_format=row.number_format)
                yield ViewColumn(shown, parse(_fill_in(text, scopes[scope])))


def _fill_in(text: str, scope: StoredScope) -> str:
    ids = {word: f"${dict(scope.statistics).get(statistic)}" for word, statistic in WORDS.items()}
    return text.format(**ids)


# -- what the generations name or number differently, and what none can hold -------------------------------------------


UNKNOWN, PARTIAL_PATHS = "<unknown>", "<partial call paths>"
UNKNOWN_NAMES = (UNKNOWN, UNKNOWN_FUNCTION)  # functions without a name, as either generation calls them
LARGEST_ID = (1 << 31) - 1

# Entry points of released databases, and what pre-release ones have at the same place.
PLACEHOLDER_OF_ENTRY = {
    "main thread": "<program root>",
    "application thread": "<thread root>",
    UNKNOWN_ENTRY: PARTIAL_PATHS,
}
ENTRY_OF_PLACEHOLDER = {placeholder: entry for entry, placeholder in PLACEHOLDER_OF_ENTRY.items()}


def name_unknown_procedure(module: str, offset: int) -> str:
    """Return what pre-release databases call an instruction that no function encloses."""
    return f"<unknown procedure> {offset:#x} [{module.rpartition('/')[2]}]"


def have_known_names(regions: Regions, *names: str) -> Bools:
    """Return which regions have one of these names."""
    wanted = [number for number, text in enumerate(regions.strings) if text in names]
    out: Bools = np.isin(regions.name, wanted)
    return out


def is_no_activity(contexts: ContextTree) -> Bools:
    """Return the root that idle samples of pre-release databases are on."""
    is_leaf = contexts.subtree_end == np.arange(1, len(contexts) + 1)
    out: Bools = contexts.idle & (contexts.parent < 0) & is_leaf
    return out


def kept_ids(source_ids: Ints, per_context: int, spare: int) -> tuple[Ints, bool]:
    """Return the ids of contexts in the file, and whether they are the source's own: not where these have wide gaps."""
    n = len(source_ids)
    if not n:
        return np.zeros(0, np.int64), True
    usable = int(source_ids.min()) > 0 and int(source_ids.max()) < min(per_context * n + spare, LARGEST_ID)
    if usable and len(distinct(source_ids)) == n:
        return source_ids.astype(np.int64), True
    return np.arange(1, n + 1, dtype=np.int64), False


def find_unused_ids(ids: Ints, n: int) -> Ints:
    """Return the lowest ids from 1 on that are not used."""
    free = np.ones(int(ids.max(initial=0)) + n + 1, np.bool_)
    free[ids] = free[0] = False
    return np.flatnonzero(free)[:n]


# -- what no generation can hold ---------------------------------------------------------------------------------------


DESCRIPTION = "description"  # the attribute that meta.db has a place for


def losses_of_both(
    experiment: Experiment, kind_as_read: Ids, around: Ids, keeps_ids: bool, plan: MetricPlan
) -> Iterator[str]:
    """Yield everything that neither generation holds, or that is changed alike, one sentence each."""
    yield from _contexts(experiment.contexts, kind_as_read, around, keeps_ids)
    yield from _regions(experiment.contexts)
    yield from _metrics(experiment.metrics, plan)
    yield from _profiles(experiment.profiles)
    yield from _rest(experiment)
    yield from _traces(experiment)


def _contexts(contexts: ContextTree, kind_as_read: Ids, around: Ids, keeps_ids: bool) -> Iterator[str]:
    changed = np.flatnonzero(contexts.kind != kind_as_read)
    pairs = np.unique(np.stack([contexts.kind[changed], kind_as_read[changed]], axis=1), axis=0)
    words = [f"{ContextKind(a).word} is stored as {ContextKind(b).word}" for a, b in pairs.tolist()]
    if words:
        yield f"kinds of {count_of(len(changed), 'context')}: {some(sorted(words))}"
    if not keeps_ids and (contexts.source_id >= 0).any():
        yield "ids of contexts: they are numbered anew"
    if contexts.parameters:
        yield f"parameters of {count_of(len(contexts.parameters), 'context')}"
    if contexts.attributes:
        yield f"attributes of {count_of(len(contexts.attributes), 'context')}"
    stays: Bools = contexts.listed & (kind_as_read != ContextKind.ELIDED)
    elsewhere = (contexts.within != np.where(around >= 0, around, -1)) & stays
    if elsewhere.any():
        many = count_of(int(elsewhere.sum()), "context belongs", "contexts belong")
        yield f"nesting: {many} to another one than the parent"


def _regions(contexts: ContextTree) -> Iterator[str]:
    regions = contexts.regions
    used = distinct(contexts.region[contexts.region >= 0])
    for column in ("role", "paradigm", "end_line"):
        if (getattr(regions, column)[used] >= 0).any():
            yield f"{column.replace('_', ' ')}s of regions"
    if regions.details:
        details = some(key for d in regions.details.values() for key in d)
        yield f"details of {count_of(len(regions.details), 'region')}: {details}"


def _metrics(metrics: Metrics, plan: MetricPlan) -> Iterator[str]:
    rows = list(zip(metrics, plan.written.tolist(), plan.stored.tolist(), strict=True))
    kept = {
        metric.first.name: {name for scope in metric.scopes for name, _ in scope.statistics} for metric in plan.metrics
    }
    if lost := {m.statistic for m in metrics if m.statistic and m.statistic not in kept.get(m.name, ())}:
        yield f"statistics of the stored summary: {some(sorted(lost))}"
    measured = [(metric, written, stored) for metric, written, stored in rows if not metric.statistic]
    held = held_formulas(metrics)
    yield from losses_of_formulas((metric for metric in metrics if metric.name not in held), "no equal there")
    yield from losses_of_missing(metrics.missing)
    if labels := [f"{name} ({metrics.first(name).unit})" for name in held if not _keeps_unit(metrics, name)]:
        yield f"units of {some(labels)}"
    measured = [row for row in measured if not (row[0].is_derived or row[0].is_missing)]
    extremes = (Aggregation.MINIMUM, Aggregation.MAXIMUM)
    left_out = [(m, f"{m.name} ({m.scope.word or 'no scope'})") for m, written, _ in measured if not written]
    if labels := [label for metric, label in left_out if metric.aggregation in extremes]:
        yield f"metrics {some(labels)}: left out, minima and maxima cannot be added up over threads"
    if labels := [label for metric, label in left_out if metric.aggregation not in extremes]:
        yield f"metrics {some(labels)}: left out"
    if computed := [m.name for m, written, stored in measured if written and stored < 0]:
        yield f"exclusive values of {some(computed)}: stored as function and execution, their sums"
    yield from _of_metrics([metric for metric, written, _ in measured if written])
    if not plan.keeps_ids and any(metric.source_id is not None for metric, _, _ in rows):
        yield "ids of metrics: they are numbered anew"


def _keeps_unit(metrics: Metrics, name: str) -> bool:
    """Return whether the unit of a derived metric follows from what it is computed from, as the file names that."""
    formula = metrics.first(name).derivation
    rows = (metrics.first(operand) for operand in metrics.with_operands([name]))
    same = all(row.is_derived or row.unit == unit_of(storable(row.name)) for row in rows)
    return same and formula is not None and read_formula(metrics, formula.text).unit == metrics.first(name).unit


def _of_metrics(metrics: list[Metric]) -> Iterator[str]:
    if labels := [m.name for m in metrics if m.composite is not None]:
        yield f"composite values of {some(labels)}: their scalar reading is stored"
    if labels := [f"{m.name} ({m.unit})" for m in metrics if m.unit != unit_of(storable(m.name))]:
        yield f"units of {some(labels)}"
    if labels := [m.name for m in metrics if m.parent >= 0]:
        yield f"nesting of metrics: {some(labels)}"
    if labels := [m.name for m in metrics if m.formula or m.url or m.attributes]:
        yield f"formulas, addresses and attributes of {some(labels)}"


def _profiles(profiles: Profiles) -> Iterator[str]:
    identifiers, measured = profiles.identifiers, profiles.measured
    named = [p for p in profiles.named.tolist() if profiles.name[p] != profiles.describe(p)]
    if named:
        yield f"names of {count_of(len(named), 'profile')}"
    streams = np.zeros(len(profiles), np.bool_)
    for name in GPU_KINDS:
        streams |= identifiers.pick(name, "logical")[1]
    read = np.where(streams, ProfileKind.GPU_STREAM, ProfileKind.THREAD)
    read[identifiers.pick("SUMMARY", "logical")[1]] = ProfileKind.AGGREGATE
    kind = profiles.kind[measured]
    changed = kind != read[measured]
    if changed.any():
        yield f"kinds of profiles: {some(ProfileKind(k).word for k in kind[changed].tolist())}"
    if any(profiles.attributes):
        yield "attributes of profiles"


def _rest(experiment: Experiment) -> Iterator[str]:
    yield from losses_of_runs(experiment.runs, experiment.metrics.quantities)
    system = experiment.system
    if not follows_from_identifiers(replace(system, topologies=()), experiment.profiles):
        yield "the system tree: only identifiers of profiles are stored"
    if system.topologies:
        yield f"topologies: {some(t.name or 'without a name' for t in system.topologies)}"
    if others := [name for name in experiment.attributes if name != DESCRIPTION]:
        yield f"attributes: {some(others)}"
    if experiment.attachments:
        yield f"attachments: {some(experiment.attachments)}"


def _traces(experiment: Experiment) -> Iterator[str]:
    traces = experiment.traces
    yield from losses_of_events(traces)
    if traces.samples is not None and (traces.samples.metric >= 0).any():
        yield "samples of metrics: only samples of contexts are stored"
