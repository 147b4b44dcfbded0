"""The format `rocprof-csv`, which is written only: spans in, files out, each in order."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import IO

import numpy as np

from callgrove.arrays import ABSENT, Array, Ids
from callgrove.errors import Parameter, UsageError, compose_text
from callgrove.execute import Progress, silent
from callgrove.formats.interface import Chunk, SampleChunk, WriteOptions
from callgrove.formats.rocprof_csv.rows import (
    WIDELY_COUNTED,
    Devices,
    Places,
    Records,
    SpanRecords,
    Words,
    agent_rows,
    counter_names,
    quote,
    rows_of,
    wide_column,
)
from callgrove.formats.rocprof_csv.tables import AGENT_FILE, ALL_FILES, Columns, FileTable, Layout, layout_of
from callgrove.formats.writing.targets import PendingFiles, refuse_stdout
from callgrove.formats.writing.writer import NOTHING_RENAMED, TargetWriter, WrittenOnly, losses_of_sides
from callgrove.model.books import ALLOCATED, COPIED, COUNTED, SAMPLES, VALUES, Books, Ledger
from callgrove.model.experiment import Experiment
from callgrove.model.traces.events import LABEL, AgentIndex, SpanChunk, SpanKind, Traces
from callgrove.model.traces.pairing import RegionNames
from callgrove.model.traces.span_order import SpanOrder
from callgrove.model.values import DenseBlock, SparseBlock

__all__ = ["FORMAT", "RocprofCsvWriter"]


COLUMNS = ("profile", "kind", "category", "name", LABEL, "start_ns", "end_ns", "correlation")
NO_END = np.iinfo(np.int64).min  # as readers say it
WAITING_ROWS = 1 << 15  # of each file in memory, where a row has some twenty numbers
MOST_LOSSES = 20  # lines that are said of what was left out
NO_COLUMN = "rocprofv3's files have no column for them"
REGIONS = (SpanKind.API, SpanKind.MARKER, SpanKind.REGION)
LOOKED_AT = 4  # parts, to choose a layout
NO_FILE = "rocprofv3 has no CSV file for them"


class RocprofCsvWriter(TargetWriter[PendingFiles, Experiment]):
    """The files in the making. There is nothing to flush: rows wait for the end of their part."""

    takes_spans = True
    holds_only_traces = True

    def __init__(self, target: Path, options: WriteOptions) -> None:
        refuse_stdout(target, "rocprof-csv")
        names = [*ALL_FILES, AGENT_FILE]
        super().__init__(PendingFiles(target, options.overwrite, names, keep_partial=options.keep_partial))
        self._dialect, self._kernel_rename = options.dialect, options.kernel_rename
        self._extended = self._dialect == "extended"
        self._agents = AgentIndex(options.agent_index or "relative")
        self._files: dict[str, IO[bytes]] = {}
        self._waiting: dict[str, SpanOrder] = {}
        self._part = ABSENT
        self._left_out: Counter[str] = Counter()
        self._unshown: Counter[str] = Counter()

    def _begin(self, tables: Experiment) -> None:
        traces = self._traces = tables.traces
        if traces.spans_backend is None or not traces.n_spans:
            nothing = f"{self.target}: rocprofv3's CSV files hold events of GPU traces, and {tables.path} has none"
            other = (" (its samples can be written with ", Parameter("to_format", "perfetto"), ")")
            raise UsageError(nothing, *(other if traces.n_samples else ()))
        self._open, self._strings = tables, traces.spans_backend.strings
        self._ledgers = Books.of(tables.metrics)
        self._ledgers.excuse(VALUES, SAMPLES)
        self._books = self._ledgers
        self._layout = self._choose_layout(traces)
        self._places, self._devices = Places(tables, self._agents), Devices(traces, self._agents)
        self._counters = counter_names(traces)
        self._region_names = RegionNames(traces) if self._kernel_rename else None
        names = self._strings if self._region_names is None else self._region_names.strings
        self._words = Words(self._places, names, self._strings, self._devices.labels, self._counters)

    def _choose_layout(self, traces: Traces) -> Layout:
        """Return the layout: as asked for, or as the converter of the profiler's own version: databases with graph ids
        are of 2026."""
        first = (
            next(traces.side_chunks(side, part), None) for side in ("kernel", "copy") for part in self._some(traces)
        )
        graphs = any(table is not None and "graph_exec" in table.columns for table in first)
        year = self._dialect if self._dialect in ("2025", "2026") else "2026" if graphs else "2025"
        return layout_of(year, graphs=graphs)

    def _some(self, traces: Traces) -> range:
        """Return the parts that are looked at: those of one run are alike."""
        return range(min(len(traces.parts()), LOOKED_AT))

    def _take(self, tables: Experiment, chunk: Chunk) -> None:
        if isinstance(chunk, SampleChunk):
            self._left_out["samples"] += len(chunk.samples)
        elif not isinstance(chunk, SparseBlock | DenseBlock):
            self._write_spans(chunk)

    def write_traces(self, progress: Progress = silent) -> None:
        """Write all spans, with the columns that rows are made of. Samples have no file, so they are only counted."""
        done = 0
        traces = self._traces
        for chunk in traces.spans(COLUMNS):
            self.write(chunk)
            done += len(chunk["span"])
            progress("writing spans", done, traces.n_spans)
        self._left_out["samples"] += traces.n_samples

    def _write_spans(self, chunk: SpanChunk) -> None:
        part = int(self._places.part[int(chunk["profile"][0])]) if len(chunk["span"]) else self._part
        if part != self._part:
            self._drain()
            self._part = part
            shown = ("bytes",) if self._extended else ()
            about = (self._counters, self._devices, self._places.queue, self._unshown, self._ledgers.given, shown)
            self._records = SpanRecords(self._traces, part, self._layout, *about)
        renamed = chunk if self._region_names is None else self._region_names.of(chunk)
        for table, records in self._records.of(renamed, self._domains(renamed)):
            kept = self._usable(table, records)
            if table.name not in self._waiting:
                self._waiting[table.name] = SpanOrder(self._places.process, WAITING_ROWS)
            self._waiting[table.name].add(kept)

    def _usable(self, table: FileTable, records: Records) -> Records:
        """Return the records without spans whose times are impossible; the end of what never ended is empty, as is
        everything that is not known."""
        start, end = records["start_ns"], records["end"]
        if not len(start) or (int(start.min()) >= 0 and bool((end >= start).all())):
            return records
        is_open = end == NO_END
        outside = (start < 0) | ((end < 0) & ~is_open)
        backwards = (end < start) & ~is_open & ~outside
        bad = outside | backwards
        if table not in (self._layout.counters, self._layout.wide):
            self._left_out["events outside of the times that can be written (0 to 2^63 ns)"] += int(outside.sum())
            self._left_out["events that end before they start"] += int(backwards.sum())
        self._add_up(table, {name: column[bad] for name, column in records.items()}, self._ledgers.given, times=-1)
        kept = {name: column[~bad] for name, column in records.items()}
        return {**kept, "end": np.where(is_open, ABSENT, end)[~bad]}

    def _add_up(self, table: FileTable, records: Records, ledger: Ledger, times: int = 1) -> None:
        """Add rows of a file to a ledger: spans, the bytes that they show, or counters."""
        layout = self._layout
        if table is layout.counters:
            ledger.add_amount(COUNTED, records["value"], times)
            return
        if table is layout.wide:
            for k in range(len(self._counters)):
                values = records[wide_column(k)]
                ledger.add_amount(WIDELY_COUNTED, values[~np.isnan(values)], times)
            return
        ledger.add_spans({"kind": records["kind"], "start_ns": records["start_ns"], "end_ns": records["end"]}, times)
        shown = {what for _, what in self._columns(table)}
        if "bytes" in shown:
            sizes = records["bytes"]
            ledger.add_amount(COPIED if table is layout.copies else ALLOCATED, sizes[sizes >= 0], times)

    def _domains(self, chunk: SpanChunk) -> Ids:
        """Return for calls and markers the file that they belong to; what belongs to none is counted."""
        kind, category = chunk["kind"], chunk["category"]
        words = {number: self._category(number) for number in np.unique(category).tolist()}
        if self._layout.regions is not None:
            out = np.where(np.isin(kind, REGIONS), np.int32(0), np.int32(ABSENT))
        else:
            numbers = {word: number for number, word in enumerate(self._layout.calls)}
            known = np.full(len(self._strings) + 1, ABSENT, np.int32)
            for number, word in words.items():
                known[number] = numbers.get(word.partition("_")[0], ABSENT)
            out = np.where(kind == SpanKind.API, known[category], np.int32(ABSENT))
            out = np.where(kind == SpanKind.MARKER, np.int32(numbers["MARKER"]), out)
        written = np.isin(kind, (SpanKind.KERNEL, SpanKind.COPY, SpanKind.ALLOC)) | (out >= 0)
        if not written.all():
            self._ledgers.given.add_spans({name: column[~written] for name, column in chunk.items()}, times=-1)
        for row_kind, row_category, n in _counts(kind[~written], category[~written]):
            word = words[row_category]
            of_what = f"of kind {SpanKind(row_kind).word}" + (f" ({word})" if word else "")
            self._left_out[f"events {of_what}: {NO_FILE}"] += n
        return out

    def _category(self, number: int) -> str:
        return self._strings[number] if number >= 0 else ""

    # -- files ---------------------------------------------------------------------------------------------------------

    def _drain(self) -> None:
        """Write what waits: all rows of the part are there."""
        for table in self._layout.files:
            if (waiting := self._waiting.pop(table.name, None)) is not None:
                columns = self._columns(table)
                for records in waiting.chunks():
                    file = self._file(table)
                    for rows, text in rows_of(self._words, columns, records):
                        file.write(text)
                        self._add_up(table, rows, self._ledgers.passed)

    def _columns(self, table: FileTable) -> Columns:
        more = table.extended if self._extended else ()
        counters = (
            [(name, f"~{wide_column(k)}") for k, name in enumerate(self._counters)]
            if table is self._layout.wide
            else []
        )
        return (*table.columns, *counters, *more)

    def _file(self, table: FileTable) -> IO[bytes]:
        if table.name not in self._files:
            self._files[table.name] = file = (self._pending.place / table.file).open("wb")
            file.write(b",".join(quote(name) for name, _ in self._columns(table)) + b"\n")
        return self._files[table.name]

    def _give_up(self, tables: Experiment) -> None:
        for waiting in self._waiting.values():
            waiting.close()
        for file in self._files.values():
            file.close()
        self._waiting, self._files = {}, {}

    def _finish(self, tables: Experiment) -> None:
        self._drain()
        if rows := agent_rows(tables, self._places, self._layout):
            (self._pending.place / AGENT_FILE).write_bytes(rows)
        self._say_losses(tables)
        self._give_up(tables)

    def _say_losses(self, tables: Experiment) -> None:
        counters = tables.traces.counters
        if counters is not None and len(counters):
            self._left_out[f"values of quantities over time: {NO_FILE}"] += len(counters)
        shown = dict(self._left_out.most_common(MOST_LOSSES))
        if rest := self._left_out.total() - sum(shown.values()):
            shown[f"other events: {NO_FILE}"] = rest
        for what, n in shown.items():
            if n:
                self._report.add(f"{n:,} {what}" + ("" if ":" in what or "that" in what else f": {NO_FILE}"))
        for what, n in sorted(self._unshown.items()):
            if n:
                more = ("; ", Parameter("dialect", "extended"), " adds it") if what == "bytes of copies" else ()
                self._report.add(compose_text(f"{what}: {n:,} are left out; {NO_COLUMN}", *more))
        for text in losses_of_sides(tables.traces, ("argument", "stack", "flow", "message", "extra"), NO_COLUMN):
            self._report.add(text)
        if self._region_names is not None and not self._region_names.n_renamed:
            self._report.hint(NOTHING_RENAMED)


def _counts(kind: Array, category: Array) -> list[tuple[int, int, int]]:
    """Return how often each pair is there."""
    pairs, n = np.unique(np.stack([kind.astype(np.int64), category.astype(np.int64)]), axis=1, return_counts=True)
    return list(zip(*pairs.tolist(), n.tolist(), strict=True)) if len(n) else []


# -- entry for the registry --------------------------------------------------------------------------------------------
# The format is written only: what these files hold is read better from the database.


class RocprofCsvFormat(WrittenOnly):
    """rocprofv3's CSV files."""

    name = "rocprof-csv"
    title = "CSV files as rocprofv3's converter writes them (2025 or 2026)"

    def open_writer(self, target: Path, options: WriteOptions) -> RocprofCsvWriter:
        return RocprofCsvWriter(target, options)


FORMAT = RocprofCsvFormat()
