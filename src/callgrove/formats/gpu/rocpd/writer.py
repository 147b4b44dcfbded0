"""Many rocprofv3 databases as one file: every process keeps its own tables, views unite them.

Specification: gpu-traces.md 3.7. The schema is ours (tables.py), never that of an input: no SQL of a file is run.
Rows are copied as they are, some at a time. Tables of a process that schema 3 does not know are copied with the columns
that they have; of one table, all processes get the same columns. When all rows are there, they are added up: there must
be as many in each table as in the inputs, with the same times, bytes and counters. Other traces are written by
spans_writer.py.

    rocpd_region_018f...   rocpd_region_019a...      one table per process
    rocpd_region                                     a view: both
    kernels, busy, top, ...                          rocprofv3's views of these: views.py
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from callgrove.binary.sqlite.database import totals_of
from callgrove.errors import Parameter, UsageError, worded
from callgrove.formats.gpu.rocpd.reader import RocpdData
from callgrove.formats.gpu.rocpd.tables import COLUMNS, LATER, columns_of, create_table, create_view, quote_with
from callgrove.formats.gpu.rocpd.views import create_data_views
from callgrove.formats.gpu.spans import DataSetSpans, refuse_input_as
from callgrove.formats.interface import Chunk, LossReport, WriteOptions
from callgrove.formats.writing.targets import SqliteTarget
from callgrove.formats.writing.writer import TargetWriter
from callgrove.model.books import ALLOCATED, COPIED, COUNTED, Books, Ledger
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Metrics
from callgrove.model.traces.events import SpanKind

__all__ = ["RocpdWriter", "add_up"]

TIME, SIZE = ("end", '"end" - start'), ("size", "size")  # a column that must be there, and what is added up
AMOUNTS: Mapping[str, Sequence[tuple[SpanKind | str, str, str]]] = {
    "kernel_dispatch": [(SpanKind.KERNEL, *TIME)],
    "memory_copy": [(SpanKind.COPY, *TIME), (COPIED, *SIZE)],
    "memory_allocate": [(SpanKind.ALLOC, *TIME), (ALLOCATED, *SIZE)],
    "region": [("nanoseconds of regions", *TIME)],
    "sample": [("times of samples", "timestamp", "timestamp")],
    "pmc_event": [(COUNTED, "value", "value")],
}
Totals = Callable[[Sequence[str]], Sequence[float]]  # computes some expressions over all rows of a table
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
NAMES_AS_STORED = worded(
    Parameter("kernel_names"),
    ": changes nothing here, as tables are copied with every name; give it when this is read",
)


class RocpdWriter(TargetWriter[SqliteTarget, Experiment]):
    """A merged database in the making."""

    takes_spans = False  # rows are copied, so that nothing is lost on the way through spans

    def __init__(self, target: Path, options: WriteOptions) -> None:
        super().__init__(SqliteTarget(target, options.overwrite))
        self._database, self._progress = self._pending.database, options.progress

    def _begin(self, tables: Experiment) -> None:
        """Everything is copied here: the tables are in the files that the experiment was opened from."""
        refuse_input_as(self.target, tables)
        self._open = tables
        datasets = self._choose_data_sets(tables)
        if any(dataset.kernel_names for dataset in datasets.values()):
            self._report.hint(NAMES_AS_STORED)
        self._columns = columns = _columns_of_all(datasets, self._report)
        self._ledgers = Books(Metrics(), Ledger(), Ledger())
        self._database.execute("BEGIN")
        self._made: dict[str, list[str]] = {base: [] for base in columns}
        for done, (suffix, dataset) in enumerate(datasets.items()):
            self._progress("merging databases", done, len(datasets))
            with dataset.file.reading():
                self._copy_all(dataset, suffix)
        for base, united in self._made.items():
            self._database.execute(create_view(base, united))
        self._write_data_views(datasets.values(), columns)
        self._database.execute("COMMIT")

    def _write_data_views(self, datasets: Iterable[RocpdData], columns: Mapping[str, Collection[str]]) -> None:
        """rocprofv3's own views, which its users query; what else inputs have as views is named."""
        written = {f"rocpd_{base}" for base in columns}
        for name, statement in create_data_views(columns):
            self._database.execute(statement)
            written.add(name)
        for name in sorted(set().union(*(dataset.file.schema.views for dataset in datasets)) - written):
            self._report.add(f"view {name}: no view of rocprofv3 that is known here; its tables are written")

    def _choose_data_sets(self, tables: Experiment) -> dict[str, RocpdData]:
        """Data sets by the suffix that their tables get; one that comes twice is taken once."""
        backend = tables.traces.spans_backend
        datasets = backend.datasets if isinstance(backend, DataSetSpans) else []
        out: dict[str, RocpdData] = {}
        for dataset in (dataset for dataset in datasets if isinstance(dataset, RocpdData)):
            suffix = dataset.suffix or "_" + re.sub(r"\W", "_", dataset.processes[0].uid or "0")
            if suffix not in out:
                out[suffix] = dataset
                continue
            if _fingerprint(out[suffix]) != _fingerprint(dataset):
                raise UsageError(
                    f"{dataset.path}: its tables have the same suffix {suffix} as those of {out[suffix].path}, "
                    "but other rows; leave one out"
                )
            self._report.add(f"{dataset.path}: has the same rows as {out[suffix].path}, which are written once")
        return out

    def _copy_all(self, dataset: RocpdData, suffix: str) -> None:
        """Copy the tables of a data set, which get this suffix."""
        own = _tables(dataset)
        for base, names in self._columns.items():
            table = f"rocpd_{base}{suffix}"
            self._database.execute(create_table(table, base, names, dataset.processes[0].uid))
            self._made[base].append(table)
            if base in own:
                self._copy(dataset, own[base], table, names)
                known = dataset.file.tables[own[base]]
                add_up(partial(dataset.file.totals, own[base]), base, known, self._ledgers.given)

    def _copy(self, dataset: RocpdData, origin: str, table: str, columns: list[str]) -> None:
        have = [name for name in columns if dataset.file.has(origin, name)]
        named = ", ".join(map(quote_with, have))
        statement = f"INSERT INTO {quote_with(table)} ({named}) VALUES ({', '.join('?' * len(have))})"
        for rows in dataset.file.rows(origin, have):
            self._database.executemany(statement, rows)

    def _take(self, tables: Experiment, chunk: Chunk) -> None:
        """Values and samples are made again when the tables are read."""

    def _finish(self, tables: Experiment) -> None:
        """All rows are there: add them up."""
        for base, names in self._columns.items():
            for table in self._made[base]:
                add_up(partial(self._totals, table), base, names, self._ledgers.passed)
        self._report.unexplained.extend(self._ledgers.differences())

    def _totals(self, table: str, expressions: Sequence[str]) -> Sequence[float]:
        found: tuple[float, ...] = self._database.execute(totals_of(table, expressions)).fetchone()
        return found

    def _give_up(self, tables: Experiment) -> None:
        """The target disconnects itself."""


def _tables(dataset: RocpdData) -> dict[str, str]:
    """Base name -> table of a data set."""
    if not dataset.suffix:
        return {base: f"rocpd_{base}" for base in COLUMNS if f"rocpd_{base}" in dataset.file.tables}
    own = [t for t in dataset.file.tables if t.startswith("rocpd_") and t.endswith(dataset.suffix)]
    return {base: table for table in own if NAME.fullmatch(base := table[len("rocpd_") : -len(dataset.suffix)])}


def add_up(totals: Totals, base: str, columns: Collection[str], ledger: Ledger) -> None:
    """Add what a table holds, of which only some columns exist: rows, spans, bytes, and values of counters.

    Regions are of the kind that the category of their event says. To look that up would take longer than all else that
    is done here, so their time is added up by itself.
    """
    amounts = [(what, value if column in columns else "NULL") for what, column, value in AMOUNTS.get(base, ())]
    n, *sums = totals(["count(*)", *(f"total({value})" for _, value in amounts)])
    ledger.amount(f"rows of rocpd_{base}").enter(int(n), 0, 0)
    for (what, _), total in zip(amounts, sums, strict=True):
        if isinstance(what, SpanKind):
            ledger.n_spans[what] += int(n)
            ledger.span_ns[what] += total
        else:
            ledger.amount(what).enter(int(n), total, abs(total))


def _columns_of_all(datasets: dict[str, RocpdData], report: LossReport) -> dict[str, list[str]]:
    """Of every table the columns that any process needs, those of the schema first."""
    out: dict[str, list[str]] = {base: list(columns_of(base)) for base in COLUMNS}
    for dataset in datasets.values():
        for base, table in _tables(dataset).items():
            known = out.setdefault(base, [])
            later = [name for name in LATER.get(base, ()) if dataset.file.has(table, name)]
            for name in (*later, *dataset.file.tables[table]):
                if not NAME.fullmatch(name):
                    report.add(f"column {name!r} of {table} in {dataset.path}: no name that is written")
                elif name not in known:
                    known.append(name)
    return {base: names for base, names in out.items() if names}


def _fingerprint(dataset: RocpdData) -> str:
    """Of all rows of a data set."""
    found = hashlib.sha256()
    for base, table in sorted(_tables(dataset).items()):
        columns = sorted(dataset.file.tables[table])
        found.update(repr((base, columns)).encode())
        for rows in dataset.file.rows(table, columns):
            found.update(repr(rows).encode())
    return found.hexdigest()
