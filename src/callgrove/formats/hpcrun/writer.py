"""Writes experiments as measurement files: one profile as one file, several as a folder of them.

    define    where contexts and metrics go (write_plan.py); the target is refused or taken
    write     values and samples wait on disk
    close     profile after profile: its nodes, values and samples; then everything is renamed into place

Contexts that no profile has values or samples for are written into the first file, so that none is lost.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from callgrove.arrays import ABSENT, Array, Bools, Ids, Ints
from callgrove.errors import UsageError
from callgrove.formats.hpcrun.files import SUFFIX, TRACE_SUFFIX, file_name, measurement_bytes
from callgrove.formats.hpcrun.hpctrace import CALL_TRACE, FLAGS, MICROSECONDS, NANOSECONDS, write_trace
from callgrove.formats.hpcrun.measurement import (
    DensePlace,
    DenseValues,
    Epoch,
    Measurement,
    Nodes,
    SparsePlace,
    SparseValues,
)
from callgrove.formats.hpcrun.primitives import EpochHeader, Header, node_02
from callgrove.formats.hpcrun.write_plan import Column, MetricPlan, NodePlan
from callgrove.formats.interface import Chunk, SampleChunk, WriteOptions
from callgrove.formats.writing.targets import (
    FolderKind,
    PendingFile,
    PendingFolder,
    PendingTarget,
    PendingTogether,
    refuse_folder,
)
from callgrove.formats.writing.writer import TargetWriter, losses_of_events
from callgrove.model.books import SPANS, Books
from callgrove.model.experiment import Experiment
from callgrove.model.profiles import ProfileKind
from callgrove.model.values import Block, DenseBlock, SparseBlock

__all__ = ["DIALECTS", "MeasurementWriter", "ProfileWriter", "Samples", "Spill", "number", "refuse_other_targets"]


# -- one profile as a measurement --------------------------------------------------------------------------------------


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
    """Return whether attributes are the pairs of headers, whatever they were read from. Then names are those of
    files."""
    told = set(tables.attributes).union(*(dict(pairs) for pairs in tables.profiles.attributes))
    return not told.isdisjoint((*NAMES, FLAGS))


def number(text: str, base: int) -> int:
    """Return a number of a header; 0 where it is none."""
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
        """Return the header of a profile without its times: what was read, else what the tables say."""
        tables = self._tables
        attributes = dict(tables.profiles.attributes[profile]) if tables.profiles.attributes else {}
        known = ({**tables.attributes} if self._has_headers else {}) | attributes
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
        """Return the measurement, and the node id of every row of the plan that it has."""
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
        pairs = {"trace-min-time": str(ends[0] // unit), "trace-max-time": str(ends[1] // unit)}
        return pairs if self._is_old else pairs | {"trace-disorder": "0"}

    def _column(self, row: int, values: Sequence[tuple[np.dtype[Any], Array]], position: Ids) -> Column:
        """Return the values of one metric; those of integers and of reals may both be there."""
        parts = [(kind, records[records["metric"] == row]) for kind, records in values]
        columns = [(records["context"], records["value"].view(kind)) for kind, records in parts if len(records)]
        none = np.empty(0, np.float64 if self._metrics.is_real[row] else np.uint64)
        context = np.concatenate([c for c, _ in columns]) if columns else np.empty(0, np.int32)
        value = np.concatenate([v for _, v in columns]) if columns else none
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
        """Yield what of profiles and of the experiment as a whole is not kept."""
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
    """Return values in the order of nodes, and of metrics for each node."""
    none = [np.empty(0, np.int32)]
    node = np.concatenate([column.node for column in columns] or none)
    metric = np.repeat(np.arange(len(columns)), [len(column.node) for column in columns])
    raw = np.concatenate([column.raw for column in columns] or [np.empty(0, np.uint64)])
    order = np.lexsort((metric, node))
    node, metric, raw = node[order], metric[order], raw[order]
    starts = np.flatnonzero(np.diff(node, prepend=-1))
    return SparseValues(raw, metric.astype(np.uint16), nodes.id[node[starts]], starts.astype(np.uint64))


# -- rows that wait on disk --------------------------------------------------------------------------------------------
# Rows of many profiles go in, those of one profile come out.


class Spill:
    """Records of one layout in a file without a name, which goes with the process. `mark` tells batches apart."""

    def __init__(self, folder: Path, record: np.dtype[Any]) -> None:
        self._record = record
        self._file: IO[bytes] = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - closed by `close`
        self._batches: dict[int, list[tuple[int, int, str]]] = {}  # profile -> (offset, count, mark)
        self._end = 0

    def add(self, profile: int, records: Array, mark: str = "") -> None:
        self._file.seek(self._end)
        self._file.write(records.tobytes())
        self._batches.setdefault(profile, []).append((self._end, len(records), mark))
        self._end += records.nbytes

    def __contains__(self, profile: int) -> bool:
        return profile in self._batches

    def batches(self, profile: int) -> list[tuple[str, Array]]:
        """Return (mark, records) of everything that was added for a profile, in that order."""
        batches = []
        for offset, count, mark in self._batches.get(profile, []):
            self._file.seek(offset)
            batches.append((mark, np.frombuffer(self._file.read(count * self._record.itemsize), self._record)))
        return batches

    def close(self) -> None:
        self._file.close()


# -- the writer --------------------------------------------------------------------------------------------------------


DIALECTS = {"04.00": ("04.00", ""), "02.00-a": ("02.00", "A"), "02.00-b": ("02.00", "B")}
VALUE = np.dtype([("context", "i4"), ("metric", "i4"), ("value", "u8")])
SAMPLE = np.dtype([("time", "i8"), ("context", "i4")])
LOST_TIME = "times: 02.00 counts microseconds, so nanoseconds are rounded down"


class MeasurementWriter(TargetWriter[PendingTogether, Experiment]):
    """Measurement files in the making. There is nothing to flush: none can be read before `close`."""

    def __init__(self, target: Path, options: WriteOptions) -> None:
        if options.dialect not in ("", *DIALECTS):
            raise UsageError(f"measurement files have the dialects {', '.join(DIALECTS)}, not {options.dialect!r}")
        super().__init__(PendingTogether(target))
        self._options = options
        self.version, self.dialect = DIALECTS[options.dialect or "04.00"]

    # -- taking ------------------------------------------------------------------------------------------------

    def _begin(self, tables: Experiment) -> None:
        measured = tables.profiles.measured
        if not len(measured):
            raise UsageError(f"{self.target}: there is no profile, and each measurement file is one")
        is_old = self.version < "04"
        self._plan = NodePlan.of(tables.contexts, str(self.target))
        self._metrics = MetricPlan.of(tables.metrics, tables.contexts, is_old)
        self._order = {profile: row for row, profile in enumerate(measured.tolist())}
        has_lines = tables.traces.samples is not None and len(tables.traces.samples.profile) > 0
        self._is_folder = len(measured) != 1
        for target in self._targets(has_lines):
            self._pending.parts.append(target)
        self._values, self._samples = (Spill(self.target.parent, kind) for kind in (VALUE, SAMPLE))
        self._open = tables
        self._used = np.zeros(len(self._plan.lm), np.bool_)
        self._profile = ProfileWriter(tables, self._plan, self._metrics, self.version, self.dialect)
        for loss in (*self._plan.losses(is_old), *self._metrics.losses(), *self._profile.losses()):
            self._report.add(loss)
        self._books = self._open_books(tables)

    def _open_books(self, tables: Experiment) -> Books:
        """Return the books. Costs are compared: files hold exclusive values, whatever is stored."""
        books = Books.of(tables.metrics, tables.contexts)
        books.excuse(SPANS)
        books.excuse_rows([row for row in range(len(tables.metrics)) if row not in self._metrics.row_of])
        return books

    def _targets(self, has_lines: bool) -> Iterator[PendingTarget]:
        """Yield the targets, made one after the other: where the second is refused, the first one has to go."""
        overwrite = self._options.overwrite
        if not self._is_folder:
            trace = self.target.with_suffix(TRACE_SUFFIX)
            if self.target.suffix == TRACE_SUFFIX:
                raise UsageError(f"{self.target}: has the ending of a trace; name a file that ends with {SUFFIX}")
            if has_lines:
                yield PendingFile(trace, overwrite)
            yield PendingFile(self.target, overwrite)
            return
        if self.target.suffix == SUFFIX:
            n = len(self._order)
            raise UsageError(f"{self.target}: there are {n} profiles, each a file of its own; name a folder")
        yield PendingFolder(self.target, overwrite, FOLDER)

    def _take(self, tables: Experiment, chunk: Chunk) -> None:
        if isinstance(chunk, SampleChunk):
            self._take_samples(chunk)
        elif isinstance(chunk, SparseBlock | DenseBlock):
            self._take_values(tables, chunk)
        else:
            self._report.add("spans: they are left out")

    def _take_values(self, tables: Experiment, block: Block) -> None:
        rows = block.triples()
        if rows.value.dtype.names is not None:
            return  # named when the metrics were planned
        known = np.full(len(tables.metrics) + 1, ABSENT, np.int32)
        for stored, written in self._metrics.row_of.items():
            known[stored] = written
        metric = known[rows.metric]
        kept = (metric >= 0) & (rows.value != 0)
        rows, metric = rows.take(kept), metric[kept]
        for row in np.unique(metric).tolist():
            self._metrics.note(row, rows.value[metric == row])
        kind = np.float64 if rows.value.dtype.kind == "f" else np.uint64 if rows.value.dtype.kind == "u" else np.int64
        records = np.empty(len(rows), VALUE)
        records["context"], records["metric"] = rows.context, metric
        records["value"] = rows.value.astype(kind).view(np.uint64)
        self._used[self._plan.into[rows.context]] = True
        for profile in np.unique(rows.profile).tolist():
            self._values.add(profile, records[rows.profile == profile], np.dtype(kind).str)

    def _take_samples(self, chunk: SampleChunk) -> None:
        if chunk.metric >= 0 or chunk.profile not in self._order:
            self._report.add("samples of metrics: only samples of contexts are stored")
            if self._books is not None:
                self._books.given.n_samples -= len(chunk.samples)
            return
        records = np.empty(len(chunk.samples), SAMPLE)
        records["time"], records["context"] = chunk.samples.time_ns, chunk.samples.context
        if (records["time"] < 0).any():
            self._report.add("samples before time 0: they are moved to 0")
            records["time"] = np.maximum(records["time"], 0)
        if (records["context"] < 0).any():
            self._report.add("idle samples: they are on the context <no activity>")
            records["context"][records["context"] < 0] = self._plan.idle
        self._used[self._plan.into[records["context"]]] = True
        self._samples.add(chunk.profile, records)

    # -- finishing ---------------------------------------------------------------------------------------------

    def _finish(self, tables: Experiment) -> None:
        unused = self._plan.is_node & ~self._plan.with_ancestors(self._used)
        unused[len(self._plan.tree) :] = False  # the rows that were added
        names: set[str] = set()
        for profile, row in self._order.items():
            self._options.progress("writing profiles", row, len(self._order))
            self._write_profile(profile, unused if row == 0 else np.zeros_like(unused), names)
        assert self._books is not None
        for row, column in self._metrics.row_of.items():
            self._books.passed.totals.enter(row, self._metrics.written[column], int(self._metrics.n_written[column]))
        self._give_up(tables)

    def _write_profile(self, profile: int, more: np.ndarray[tuple[int], np.dtype[np.bool_]], names: set[str]) -> None:
        samples = self._samples_of(profile) if profile in self._samples else None
        values = [(np.dtype(mark), records) for mark, records in self._values.batches(profile)]
        made, ids = self._profile.measurement(profile, values, samples, more)
        path, trace_path = self._places(profile, names)
        path.write_bytes(measurement_bytes(made))
        if samples is None or trace_path is None:
            return
        if made.is_old and (samples.time % MICROSECONDS).any():
            self._report.add(LOST_TIME)
        scale = MICROSECONDS if made.is_old else NANOSECONDS
        kind = self._require_open().profiles.kind[profile]
        flags = CALL_TRACE if kind == ProfileKind.GPU_STREAM else 0
        write_trace(trace_path, flags, samples.time, ids[samples.row], time_scale=scale)
        if self._books is not None:
            self._books.passed.n_samples += len(samples.time)

    def _samples_of(self, profile: int) -> Samples:
        records = np.concatenate([records for _, records in self._samples.batches(profile)])
        order = np.argsort(records["time"], kind="stable")
        return Samples(records["time"][order], self._plan.into[records["context"][order]])

    def _places(self, profile: int, names: set[str]) -> tuple[Path, Path | None]:
        """Return where a profile and its trace are written."""
        if not self._is_folder:
            *trace, file = self._pending.parts
            return file.place, trace[0].place if trace else None
        pairs = self._profile.pairs(profile)
        host = number(pairs.get("host-id", ""), 16)
        fields = [number(pairs.get(word, ""), 10) for word in ("mpi-rank", "thread-id", "process-id")]
        generation = 0
        while (name := file_name(pairs["program-name"], fields[0], fields[1], host, fields[2], generation)) in names:
            generation += 1
        names.add(name)
        folder = self._pending.parts[0].place
        return folder / f"{name}{SUFFIX}", folder / f"{name}{TRACE_SUFFIX}"

    def _give_up(self, tables: Experiment) -> None:
        self._values.close()
        self._samples.close()


def _has_measurements(folder: Path) -> bool:
    return any(path.suffix == SUFFIX for path in folder.iterdir())


FOLDER = FolderKind("a folder of measurements", _has_measurements)


def refuse_other_targets(target: Path) -> None:
    """Refuse a folder where the name is that of one profile, and a folder that holds anything else. Each profile is a
    file; how many there are is not known yet, unless the name says it."""
    if target.suffix == SUFFIX:
        refuse_folder(target)
    elif target.is_dir():
        FOLDER.refuse_others(target)
