"""One profile of any experiment as a measurement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from callgrove.formats.hpcrun.hpctrace_writer import FLAGS
from callgrove.formats.hpcrun.measurement import DensePlace, DenseValues, Epoch, Measurement, SparsePlace, SparseValues
from callgrove.formats.hpcrun.nodes import Nodes
from callgrove.formats.hpcrun.primitives import EpochHeader, Header
from callgrove.formats.hpcrun.records import node_02
from callgrove.formats.hpcrun.write_contexts import NodePlan
from callgrove.formats.hpcrun.write_metrics import Column, MetricPlan
from callgrove.formats.losses import losses_of_events
from callgrove.model.arrays import Array, Bools, Ids, Ints
from callgrove.model.experiment import Experiment

__all__ = ["ProfileWriter", "Samples", "number"]

# The names that genuine files have, in their order; the last is new in 04.00.
NAMES = (
    "program-name",
    "program-path",
    "env-path",
    "job-id",
    "mpi-rank",
    "thread-id",
    "host-id",
    "process-id",
    "trace-min-time",
    "trace-max-time",
    "trace-disorder",
)
TIMES = NAMES[-3:]
EPOCH_PAIRS = (("TODO:epoch-name", "TODO:epoch-value"),)
RETURN_OFFSET = {"A": 1, "B": 0}  # what genuine writers of each dialect say; it means nothing


class Samples(NamedTuple):
    """Samples of a profile in time order, on rows of the plan."""

    time: Ints
    row: Ids


def has_headers(tables: Experiment) -> bool:
    """Are attributes the pairs of headers, whatever it was that they were read from? Then names are those of files."""
    told = set(tables.attributes).union(*(dict(pairs) for pairs in tables.profiles.attributes))
    return not told.isdisjoint((*NAMES, FLAGS))


def number(text: str, base: int) -> int:
    """A number of a header; 0 where it is none."""
    try:
        return max(0, int(text, base))
    except ValueError:
        return 0


class ProfileWriter:
    """Makes measurements of the profiles of one experiment."""

    def __init__(self, tables: Experiment, plan: NodePlan, metrics: MetricPlan, version: str, dialect: str) -> None:
        self._tables, self._plan, self._metrics = tables, plan, metrics
        self._version, self._dialect = version, dialect
        self._is_old = version < "04"
        self._has_headers = has_headers(tables)
        profiles = tables.profiles
        self._ranks, self._threads, self._nodes = (profiles.identity_list(c) for c in ("rank", "thread", "node"))

    def pairs(self, profile: int) -> dict[str, str]:
        """The header of a profile without its times: what was read, else what the tables say."""
        tables = self._tables
        own = dict(tables.profiles.attributes[profile]) if tables.profiles.attributes else {}
        known = ({**tables.attributes} if self._has_headers else {}) | own
        rank, thread, node = self._ranks[profile], self._threads[profile], self._nodes[profile]
        given = {
            "program-name": tables.title,
            "mpi-rank": str(rank or 0),
            "thread-id": str(thread or 0),
            "host-id": f"{node or 0:x}",
            "process-id": "0",
        }
        names = [name for name in NAMES if name not in TIMES]
        ordered = {name: known.get(name) or given.get(name, "") for name in names}
        rest = {k: v for k, v in known.items() if k not in NAMES} if self._has_headers else {}
        return ordered | rest

    def measurement(
        self,
        profile: int,
        values: Sequence[tuple[np.dtype[Any], Array]],
        samples: Samples | None,
        more: Bools,
    ) -> tuple[Measurement, Array]:
        """The measurement, and the node id of every row of the plan that it has."""
        plan = self._plan
        rows, sampled = more.copy(), np.zeros(len(more), np.bool_)
        for _, records in values:
            rows[plan.into[records["context"]]] = True
        if samples is not None:
            sampled[samples.row] = True
        nodes, position = plan.nodes(plan.with_ancestors(rows | sampled), sampled, self._is_old)
        columns = [self._column(k, values, position) for k in range(len(self._metrics.rows))]
        epoch = self._epoch(nodes, columns)
        header = Header(self._version, tuple((self.pairs(profile) | self._times(samples)).items()))
        identifiers = () if self._is_old else tuple(self._tables.profiles.identifiers.rows(profile))
        names = self._tables.profiles.identifiers.names
        kinds = () if self._is_old else tuple(enumerate(names))
        ids = np.zeros(len(position), np.uint32)
        ids[position >= 0] = nodes.id[position[position >= 0]]
        return Measurement(header, self._dialect, (epoch,), identifiers, kinds), ids

    def _times(self, samples: Samples | None) -> dict[str, str]:
        has_any = samples is not None and len(samples.time) > 0
        ends = (int(samples.time[0]), int(samples.time[-1])) if samples is not None and has_any else (0, 0)
        unit = 1000 if self._is_old else 1
        found = {"trace-min-time": str(ends[0] // unit), "trace-max-time": str(ends[1] // unit)}
        return found if self._is_old else found | {"trace-disorder": "0"}

    def _column(self, row: int, values: Sequence[tuple[np.dtype[Any], Array]], position: Ids) -> Column:
        """The values of one metric; those of integers and of reals may both be there."""
        parts = [(kind, records[records["metric"] == row]) for kind, records in values]
        found = [(records["context"], records["value"].view(kind)) for kind, records in parts if len(records)]
        none = np.empty(0, np.float64 if self._metrics.is_real[row] else np.uint64)
        context = np.concatenate([c for c, _ in found]) if found else np.empty(0, np.int32)
        value = np.concatenate([v for _, v in found]) if found else none
        where = position[self._plan.into[: len(self._plan.tree)]]
        return self._metrics.column(row, context, value, where, self._plan.tree)

    def _epoch(self, nodes: Nodes, columns: list[Column]) -> Epoch:
        metrics = tuple(column.description for column in columns)
        modules = self._plan.loadmap(nodes, self._is_old)
        if self._is_old:
            matrix = np.zeros((len(nodes), len(columns)), np.uint64)
            for k, column in enumerate(columns):
                matrix[column.node, k] = column.raw
            header = EpochHeader(0, 1, RETURN_OFFSET[self._dialect], EPOCH_PAIRS)
            place = DensePlace(0, len(nodes), node_02(False, len(columns)))
            return Epoch(header, metrics, modules, nodes, DenseValues(matrix), place)
        return Epoch(None, metrics, modules, nodes, _sparse(nodes, columns), SparsePlace(0, 0, 0))

    def losses(self) -> Iterator[str]:
        """What of profiles and of the experiment as a whole is not kept."""
        tables, profiles = self._tables, self._tables.profiles
        if self._is_old and any(self._is_lost(p) for p in profiles.measured.tolist()):
            yield "identifiers: 02.00 has node, rank and thread only"
        if len(tables.runs) > 1 or any(run.parameters for run in tables.runs):
            yield "runs and their parameters"
        if tables.attachments or (tables.attributes and not self._has_headers):
            yield "attributes and attachments"
        if not self._has_headers and any(profiles.name[p] for p in profiles.measured.tolist()):
            yield "names of profiles"
        if tables.system.topologies:
            yield "topologies"
        yield from losses_of_events(tables.traces)

    def _is_lost(self, profile: int) -> bool:
        header = Header(self._version, tuple(self.pairs(profile).items()))
        again = Measurement(header, self._dialect, ()).tuple_of_identifiers()
        return again != self._tables.profiles.identifiers.rows(profile)


def _sparse(nodes: Nodes, columns: list[Column]) -> SparseValues:
    """Values in the order of nodes, and of metrics for each node."""
    none = [np.empty(0, np.int32)]
    node = np.concatenate([column.node for column in columns] or none)
    metric = np.repeat(np.arange(len(columns)), [len(column.node) for column in columns])
    raw = np.concatenate([column.raw for column in columns] or [np.empty(0, np.uint64)])
    order = np.lexsort((metric, node))
    node, metric, raw = node[order], metric[order], raw[order]
    starts = np.flatnonzero(np.diff(node, prepend=-1))
    return SparseValues(raw, metric.astype(np.uint16), nodes.id[node[starts]], starts.astype(np.uint64))
