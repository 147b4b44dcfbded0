"""An experiment's own tables, streamed: what `export` prints.

    profiles contexts metrics values samples spans counters parameters     of an experiment
    series parameters                                                      of a study

Ids are the model's; `source_id` is the file's own id where it has one. Absent is an empty cell. Metrics end with the
rows that can be computed (exclusive, inclusive), which have no source_id. Where a file names a metric by one id in
every scope, as Cube does, computed values carry the row of that metric, and there is no other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from callgrove.errors import UsageError
from callgrove.model.arrays import ABSENT, NO_OFFSET, Array, Ints
from callgrove.model.contexts import LONGEST_PATH, ContextKind, ContextTree, Relation
from callgrove.model.experiment import Experiment
from callgrove.model.matrices import matrices
from callgrove.model.metrics import Metric, Scope
from callgrove.model.profiles import IDENTITY, ProfileKind
from callgrove.model.scopes import SOURCES, Recipe, recipe
from callgrove.model.study import Study
from callgrove.model.table import Column, Table
from callgrove.model.traces import Samples, SpanKind
from callgrove.model.values import SparseBlock, is_set

__all__ = ["TABLES", "Selection", "export", "metric_rows", "n_rows"]

CHUNK = 1 << 16  # rows
MOST_CELLS = 1 << 24  # of the matrices that scopes are computed in
MOST_TEXT = 1 << 25  # characters of paths in one chunk: a hundred C++ names may take 50 kB


@dataclass(frozen=True)
class Selection:
    """Which part of a table is wanted; None is everything. `quantity` and `scope` concern values."""

    profiles: Ints | None = None
    quantity: str | None = None
    scope: str = "stored"


def export(experiment: Experiment | Study, table: str, selection: Selection | None = None) -> Iterator[Table]:
    """One table in chunks; there is at least one chunk, so that an empty table has its columns."""
    if table not in TABLES:
        raise UsageError(f"there is no table {table!r}; there are {', '.join(TABLES)}")
    chosen = selection or Selection()
    if isinstance(experiment, Study):
        if table not in _STUDY:
            raise UsageError(f"{experiment.path}: is a study, which has {' and '.join(_STUDY)}, not {table}")
        return iter([_STUDY[table](experiment)])
    if table == "series":
        raise UsageError(f"{experiment.path}: is an experiment, which has no table series")
    return _EXPERIMENT[table](experiment, chosen)


def n_rows(experiment: Experiment, table: str, selection: Selection) -> int | None:
    """How many rows a table has, where that is known without making it."""
    if table == "contexts":
        return len(experiment.contexts)
    if table == "samples" and experiment.traces.samples is not None:
        lines = experiment.traces.samples
        chosen = lines.count if selection.profiles is None else lines.count[np.isin(lines.profile, selection.profiles)]
        return int(chosen.sum())
    if table == "spans" and selection.profiles is None:
        return experiment.traces.n_spans
    return None


def _points(study: Study) -> Table:
    """The parameters of each point, which stands for its runs."""
    n_points, n = study.points.shape
    return Table(
        (
            Column("run", np.repeat(np.arange(n_points), n)),
            Column("name", list(study.parameters) * n_points),
            Column("value", study.points.ravel()),
        )
    )


_STUDY: dict[str, Callable[[Study], Table]] = {"series": Study.table, "parameters": _points}


def metric_rows(experiment: Experiment) -> tuple[list[Metric], dict[tuple[str, Scope], int]]:
    """All metric rows, the stored ones first, and where each computed (quantity, scope) stands."""
    metrics = experiment.metrics
    rows, computed = list(metrics), {}
    for quantity in metrics.quantities:
        for scope in SOURCES:
            if metrics.find(quantity, scope) is None and (way := _possible(experiment, quantity, scope)) is not None:
                computed[quantity, scope] = way.stored if way.metric.id_of_quantity else len(rows)
                rows += [] if way.metric.id_of_quantity else [way.row]
    return rows, computed


def _possible(experiment: Experiment, quantity: str, scope: Scope) -> Recipe | None:
    try:
        way = recipe(experiment.metrics, quantity, scope)
    except UsageError:
        return None
    return way if way.is_possible else None


def _metrics(experiment: Experiment, selection: Selection) -> Iterator[Table]:
    rows = metric_rows(experiment)[0]
    yield Table(
        (
            Column("metric", list(range(len(rows)))),
            Column("source_id", [m.source_id for m in rows]),
            Column("name", [m.name for m in rows]),
            Column("unit", [m.unit or None for m in rows]),
            Column("scope", [m.scope.word or None for m in rows]),
            Column("dtype", [m.dtype for m in rows]),
            Column("aggregate", [m.aggregation.value for m in rows]),
            Column("parent", [m.parent for m in rows], ABSENT),
            Column("statistic", [m.statistic or None for m in rows]),
            Column("visible", [int(m.visible) for m in rows]),
            Column("description", [m.description or None for m in rows]),
            Column("formula", [m.formula or None for m in rows]),
        )
    )


def _profiles(experiment: Experiment, selection: Selection) -> Iterator[Table]:
    profiles = experiment.profiles
    chosen = np.arange(len(profiles)) if selection.profiles is None else selection.profiles
    numbers = chosen.tolist()
    identities = {column: profiles.identity_list(column) for column in IDENTITY}
    yield Table(
        (
            Column("profile", chosen),
            Column("source_id", profiles.source_id[chosen], ABSENT),
            Column("run", profiles.run[chosen]),
            Column("kind", [ProfileKind(int(profiles.kind[p])).word for p in numbers]),
            Column("name", [profiles.label(p) for p in numbers]),
            *(Column(name, [cells[p] for p in numbers]) for name, cells in identities.items()),
            Column("identifiers", [_identifiers(experiment, p) for p in numbers]),
            Column("host", [_host(experiment, p) for p in numbers]),
        )
    )


def _host(experiment: Experiment, profile: int) -> str | None:
    """The name of the host, where the system tree has it."""
    leaf = int(experiment.profiles.system[profile])
    for place in experiment.system.path(leaf) if leaf >= 0 else []:
        if host := experiment.system.attributes.get(place, {}).get("hostname"):
            return host
    return None


def _identifiers(experiment: Experiment, profile: int) -> str | None:
    """The identifier tuple in words: `NODE 8323328/0 RANK 2 THREAD 0` (physical/logical, or the only number)."""
    tuples = experiment.profiles.identifiers
    words = [
        f"{tuples.name(kind)} {logical if interpretation == 3 else f'{physical}/{logical}'}"
        for kind, physical, logical, interpretation in tuples.rows(profile)
    ]
    return " ".join(words) or None


def _contexts(experiment: Experiment, selection: Selection) -> Iterator[Table]:
    tree = experiment.contexts
    files, lines, modules, offsets = (tree.column(name) for name in ("file", "line", "module", "offset"))
    for first, paths in _path_chunks(tree):
        part = slice(first, first + len(paths))
        contexts = range(part.start, part.stop)
        file, module = files[part].tolist(), modules[part].tolist()
        yield Table(
            (
                Column("context", np.arange(part.start, part.stop)),
                Column("source_id", tree.source_id[part], ABSENT),
                Column("parent", tree.parent[part], ABSENT),
                Column("kind", [ContextKind(k).word for k in tree.kind[part].tolist()]),
                Column("name", [tree.name(c) for c in contexts]),
                Column("file", [tree.regions.files.paths[f] if f >= 0 else None for f in file]),
                Column("line", lines[part], ABSENT),
                Column("module", [tree.regions.modules[m] if m >= 0 else None for m in module]),
                Column("offset", offsets[part], int(NO_OFFSET)),
                Column("path", paths),
                Column("relation", [Relation(r).word for r in tree.relation[part].tolist()]),
                Column("call_line", tree.call_line[part], ABSENT),
            )
        )


def _path_chunks(tree: ContextTree) -> Iterator[tuple[int, list[str]]]:
    """The paths of all contexts in chunks, each with the number of its first context; there is at least one chunk."""
    first, found, size = 0, list[str](), 0
    for path in _paths(tree):
        found.append(path)
        size += len(path)
        if len(found) == CHUNK or size > MOST_TEXT:
            yield first, found
            first, found, size = first + len(found), [], 0
    if found or not first:
        yield first, found


def _paths(tree: ContextTree) -> Iterator[str]:
    """The path of every context in order, as `ContextTree.path` gives it; the open contexts are kept, so that a deep
    tree costs no more than a flat one."""
    half = LONGEST_PATH // 2
    chain: list[tuple[int, str, str]] = []  # (end of the subtree, label, path) of the open contexts
    for context, end in enumerate(tree.subtree_end.tolist()):
        while chain and chain[-1][0] <= context:
            chain.pop()
        label = tree.label(context)
        if len(chain) < LONGEST_PATH:
            path = f"{chain[-1][2]}->{label}" if chain else label
        else:
            tail = [above for _, above, _ in chain[1 - half :]]
            path = "->".join([chain[half - 1][2], "...", *tail, label])
        chain.append((end, label, path if len(chain) < LONGEST_PATH else ""))
        yield path


def _values(experiment: Experiment, selection: Selection) -> Iterator[Table]:
    composite = any(m.composite is not None for m in experiment.metrics)
    blocks = _stored(experiment, selection) if selection.scope == "stored" else _computed(experiment, selection)
    empty = True
    for block in blocks:
        for first in range(0, len(block), CHUNK):
            yield _value_table(experiment, block.take(slice(first, first + CHUNK)), composite)
            empty = False
    if empty:
        yield _value_table(experiment, SparseBlock.empty(), composite)


def _value_table(experiment: Experiment, block: SparseBlock, composite: bool) -> Table:
    value: Array = block.value
    fields: list[str | None] = [None] * len(block)
    if value.dtype.names is not None:
        metric = int(block.metric[0])
        composite_type = metric_rows(experiment)[0][metric].composite  # the row may be a computed one
        describe = None if composite_type is None else composite_type.describe
        fields = [json.dumps(_plain(row if describe is None else describe(row))) for row in value]
        value = value if composite_type is None else composite_type.scalar(value)
    columns = (
        Column("profile", block.profile),
        Column("context", block.context),
        Column("metric", block.metric),
        Column("value", value),
    )
    return Table((*columns, Column("fields", fields)) if composite else columns)


def _stored(experiment: Experiment, selection: Selection) -> Iterator[SparseBlock]:
    """Everything as stored, summaries included unless profiles were chosen."""
    profiles = np.arange(len(experiment.profiles)) if selection.profiles is None else selection.profiles
    wanted = None
    if selection.quantity is not None:
        wanted = np.array([k for k, m in enumerate(experiment.metrics) if m.name == selection.quantity])
    for block in experiment.values.blocks(profiles, wanted):
        yield block.triples()


def _computed(experiment: Experiment, selection: Selection) -> Iterator[SparseBlock]:
    """Every quantity in one scope, profile by profile: stored where it is, else computed over the tree."""
    scope = _scope(selection.scope)
    names = experiment.metrics.quantities if selection.quantity is None else (selection.quantity,)
    ways = [way for name in names if (way := _possible(experiment, name, scope)) is not None]
    if not ways:
        raise UsageError(f"{experiment.path}: no metric is stored or can be computed in scope {scope.word!r}")
    computed = metric_rows(experiment)[1]
    rows = [way.stored if way.is_stored else computed[way.metric.name, scope] for way in ways]
    profiles = experiment.profiles.measured if selection.profiles is None else selection.profiles
    room = max(1, MOST_CELLS // max(1, len(ways) * len(experiment.contexts)))
    for first in range(0, len(profiles), room):
        band = profiles[first : first + room]
        found = matrices(experiment.values, experiment.contexts, ways, band)
        for column, profile in enumerate(band.tolist()):
            for way, row in zip(ways, rows, strict=True):
                if (matrix := found.get(way.stored)) is not None:
                    yield _one(matrix[:, column], way, profile, row)


def _one(found: Array, way: Recipe, profile: int, row: int) -> SparseBlock:
    neutral = way.metric.aggregation.neutral
    there = found != neutral if found.dtype.names is None else is_set(found)
    contexts = np.flatnonzero(there).astype(np.int32)
    n = len(contexts)
    return SparseBlock(np.full(n, profile, np.int32), contexts, np.full(n, row, np.int32), found[contexts])


def _plain(value: Any) -> Any:
    """Fields of a composite value as JSON has them: no arrays, and null for what is not finite."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, np.void):
        return {name: _plain(value[name]) for name in value.dtype.names or ()}
    if isinstance(value, list | np.ndarray):
        return [_plain(one) for one in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _scope(word: str) -> Scope:
    try:
        return Scope(word)
    except ValueError:
        known = ", ".join(["stored", *(s.word for s in Scope if s.word)])
        raise UsageError(f"there is no scope {word!r}; there are {known}") from None


def _samples(experiment: Experiment, selection: Selection) -> Iterator[Table]:
    empty = True
    for profile, metric, line in experiment.traces.lines(selection.profiles):
        for first in range(0, len(line), CHUNK):
            part = Samples(line.time_ns[first : first + CHUNK], line.context[first : first + CHUNK])
            yield _sample_table(profile, metric, part)
            empty = False
    if empty:
        yield _sample_table(0, ABSENT, Samples(np.empty(0, np.int64), np.empty(0, np.int32)))


def _sample_table(profile: int, metric: int, samples: Samples) -> Table:
    n = len(samples)
    return Table(
        (
            Column("profile", np.full(n, profile)),
            Column("time_ns", samples.time_ns),
            Column("context", samples.context, ABSENT),
            Column("metric", np.full(n, metric), ABSENT),
        )
    )


def _spans(experiment: Experiment, selection: Selection) -> Iterator[Table]:
    backend = experiment.traces.spans_backend
    names = ("profile", "kind", "category", "name", "start_ns", "end_ns", "depth", "correlation")
    empty = True
    for chunk in experiment.traces.spans(names, profiles=selection.profiles):
        assert backend is not None
        yield Table(tuple(_span_column(name, chunk[name], backend.strings) for name in names))
        empty = False
    if empty:
        yield Table(tuple(Column(name, []) for name in names))


def _span_column(name: str, values: Array, strings: object) -> Column:
    if name == "kind":
        return Column(name, [SpanKind(k).word for k in values.tolist()])
    if name in ("category", "name"):
        assert hasattr(strings, "__getitem__")
        return Column(name, [strings[k] if k >= 0 else None for k in values.tolist()])
    return Column(name, values, None if name.endswith("_ns") else ABSENT)


def _counters(experiment: Experiment, selection: Selection) -> Iterator[Table]:
    counters = experiment.traces.counters
    if counters is None:
        yield Table(tuple(Column(name, []) for name in ("profile", "name", "time_ns", "value")))
        return
    kept = np.ones(len(counters), np.bool_)
    if selection.profiles is not None:
        kept = np.isin(counters.profile, selection.profiles)
    yield Table(
        (
            Column("profile", counters.profile[kept]),
            Column("name", [counters.names[k] for k in counters.name[kept].tolist()]),
            Column("time_ns", counters.time_ns[kept]),
            Column("value", counters.value[kept]),
        )
    )


def _parameters(experiment: Experiment, selection: Selection) -> Iterator[Table]:
    rows = [(k, name, value) for k, run in enumerate(experiment.runs) for name, value in run.parameters.items()]
    yield Table.from_rows(("run", "name", "value"), rows)


_EXPERIMENT: dict[str, Callable[[Experiment, Selection], Iterator[Table]]] = {
    "profiles": _profiles,
    "metrics": _metrics,
    "contexts": _contexts,
    "values": _values,
    "samples": _samples,
    "spans": _spans,
    "counters": _counters,
    "parameters": _parameters,
}
TABLES = (*_EXPERIMENT, "series")
