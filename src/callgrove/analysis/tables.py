"""An experiment's tables, streamed: what `export` prints. Those of values are a chapter of their own (value_tables.py).

    profiles contexts metrics values samples spans counters parameters     of an experiment
    series parameters                                                      of a study

Ids are the model's; `source_id` is the file's own id where it has one. Absent is an empty cell. Metrics end with the
rows that can be computed (exclusive, inclusive), which have no source_id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from callgrove.analysis.value_tables import metric_rows, silent, value_tables
from callgrove.arrays import ABSENT, NO_OFFSET, Array, Ints
from callgrove.errors import UsageError
from callgrove.model.contexts import LONGEST_PATH, ContextKind, ContextTree, Relation
from callgrove.model.experiment import Experiment
from callgrove.model.profiles import IDENTITY, ProfileKind
from callgrove.model.study.series import Study
from callgrove.model.table import CHUNK, Column, Table
from callgrove.model.traces.events import Samples, SpanKind, Traces

__all__ = [
    "TABLES",
    "Selection",
    "context_paths",
    "counter_tables",
    "export",
    "n_rows",
    "sample_tables",
    "span_tables",
]


# -- samples, spans and counters ---------------------------------------------------------------------------------------


SPAN_NAMES = ("profile", "kind", "category", "name", "start_ns", "end_ns", "depth", "correlation")


def sample_tables(traces: Traces, profiles: Ints | None = None) -> Iterator[Table]:
    """Yield the samples, line after line."""
    empty = True
    for profile, metric, line in traces.lines(profiles):
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


def span_tables(traces: Traces, profiles: Ints | None = None) -> Iterator[Table]:
    """Yield the spans in the order of the file."""
    backend = traces.spans_backend
    empty = True
    for chunk in traces.spans(SPAN_NAMES, profiles=profiles):
        assert backend is not None
        yield Table(tuple(_span_column(name, chunk[name], backend.strings) for name in SPAN_NAMES))
        empty = False
    if empty:
        yield Table(tuple(Column(name, []) for name in SPAN_NAMES))


def _span_column(name: str, values: Array, strings: Sequence[str]) -> Column:
    if name == "kind":
        words = {kind: SpanKind(kind).word for kind in set(values.tolist())}
        return Column(name, [words[kind] for kind in values.tolist()])
    if name in ("category", "name"):
        return Column(name, [strings[k] if k >= 0 else None for k in values.tolist()])
    return Column(name, values, None if name.endswith("_ns") else ABSENT)


def counter_tables(traces: Traces, profiles: Ints | None = None) -> Iterator[Table]:
    """Yield the values of quantities over time, all at once."""
    counters = traces.counters
    if counters is None:
        yield Table(tuple(Column(name, []) for name in ("profile", "name", "time_ns", "value")))
        return
    kept = np.ones(len(counters), np.bool_)
    if profiles is not None:
        kept = np.isin(counters.profile, profiles)
    yield Table(
        (
            Column("profile", counters.profile[kept]),
            Column("name", [counters.names[k] for k in counters.name[kept].tolist()]),
            Column("time_ns", counters.time_ns[kept]),
            Column("value", counters.value[kept]),
        )
    )


# -- tables of an experiment -------------------------------------------------------------------------------------------


MOST_TEXT = 1 << 25  # characters of paths in one chunk: a hundred C++ names may take 50 kB


@dataclass(frozen=True)
class Selection:
    """Which part of a table is wanted; None is everything. `quantity` and `scope` concern values; `tell` hears which
    metrics have none there, and why; `complain` gets a sentence for each metric whose computed values do not add up to
    what is stored."""

    profiles: Ints | None = None
    quantity: str | None = None
    scope: str = "stored"
    tell: Callable[[str], None] = silent
    complain: Callable[[str], None] = silent


def export(experiment: Experiment | Study, table: str, selection: Selection | None = None) -> Iterator[Table]:
    """Yield one table in chunks; there is at least one chunk, so that an empty table has its columns."""
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


def n_rows(experiment: Experiment | Study, table: str, selection: Selection) -> int | None:
    """Return how many rows a table has, where that is known without making it."""
    if isinstance(experiment, Study):
        return int(experiment.present.sum()) if table == "series" else experiment.points.size
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
    """Return the parameters of each point, which stands for its runs."""
    n_points, n = study.points.shape
    return Table(
        (
            Column("run", np.repeat(np.arange(n_points), n)),
            Column("name", list(study.parameters) * n_points),
            Column("value", study.points.ravel()),
        )
    )


_STUDY: dict[str, Callable[[Study], Table]] = {"series": Study.table, "parameters": _points}


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
            Column("derived", [m.when_derived if m.is_derived else None for m in rows]),
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
    """Return the name of the host, where the system tree has it."""
    leaf = int(experiment.profiles.system[profile])
    for place in experiment.system.path(leaf) if leaf >= 0 else []:
        if host := experiment.system.attributes.get(place, {}).get("hostname"):
            return host
    return None


def _identifiers(experiment: Experiment, profile: int) -> str | None:
    """Return the identifier tuple in words: `NODE 8323328/0 RANK 2 THREAD 0` (physical/logical, or the only number)."""
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
    """Yield the paths of all contexts in chunks, each with the number of its first context; there is at least one
    chunk."""
    first, paths, size = 0, list[str](), 0
    for path in context_paths(tree):
        paths.append(path)
        size += len(path)
        if len(paths) == CHUNK or size > MOST_TEXT:
            yield first, paths
            first, paths, size = first + len(paths), [], 0
    if paths or not first:
        yield first, paths


def context_paths(tree: ContextTree) -> Iterator[str]:
    """Yield the path of every context in order, as `ContextTree.path` gives it; the open contexts are kept, so that a
    deep tree costs no more than a flat one."""
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


def _parameters(experiment: Experiment, selection: Selection) -> Iterator[Table]:
    rows = [(k, name, value) for k, run in enumerate(experiment.runs) for name, value in run.parameters.items()]
    yield Table.from_rows(("run", "name", "value"), rows)


_EXPERIMENT: dict[str, Callable[[Experiment, Selection], Iterator[Table]]] = {
    "profiles": _profiles,
    "metrics": _metrics,
    "contexts": _contexts,
    "values": lambda experiment, chosen: value_tables(
        experiment, chosen.profiles, chosen.quantity, chosen.scope, chosen.tell, chosen.complain
    ),
    "samples": lambda experiment, chosen: sample_tables(experiment.traces, chosen.profiles),
    "spans": lambda experiment, chosen: span_tables(experiment.traces, chosen.profiles),
    "counters": lambda experiment, chosen: counter_tables(experiment.traces, chosen.profiles),
    "parameters": _parameters,
}
TABLES = (*_EXPERIMENT, "series")
