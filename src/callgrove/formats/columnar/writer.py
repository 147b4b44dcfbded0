"""Writes a folder: tables when they are defined, values, samples and spans as they come.

Everything that an experiment has is kept, so there is hardly ever a loss to report. Memory holds the tables, a row
group of each kind of value, one of a side table, and one attachment at a time.
"""

from __future__ import annotations

import shutil
from array import array
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from callgrove.arrays import Array, Bools, Ids
from callgrove.errors import UsageError
from callgrove.formats.columnar.experiment_tables import place_tables, program_tables
from callgrove.formats.columnar.folder import Manifest, warnings_in
from callgrove.formats.columnar.metric_tables import attribute_columns, describe_dtype, large_ids, metric_tables
from callgrove.formats.columnar.reading import ValueLayout, origin_of
from callgrove.formats.columnar.row_groups import GroupWriter, IndexRows, RowGroup, write_table
from callgrove.formats.columnar.schema import EXPERIMENT, MANIFEST, SOURCES, Cells, arrow
from callgrove.formats.columnar.stored_formulas import is_read_again
from callgrove.formats.columnar.traces import SamplesWriter
from callgrove.formats.columnar.traces_writer import (
    SidesWriter,
    SpansWriter,
    counter_columns,
    counter_table,
    device_columns,
    parts_of,
    write_beside,
)
from callgrove.formats.interface import Chunk, SampleChunk, WriteOptions
from callgrove.formats.writing.targets import FolderKind, PendingFolder
from callgrove.formats.writing.writer import TargetWriter, readable_sources
from callgrove.model.books import MEASURED, Books
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Metric, Metrics
from callgrove.model.values import Block, DenseBlock, SparseBlock, Values, has_fillers, is_set

__all__ = ["FOLDER", "FolderWriter", "Measured", "ValuesWriter"]


# -- values ------------------------------------------------------------------------------------------------------------
# Each type of value has a table, which is written as values come.
#
# Which table the next rows are in is kept as runs (`value_order`), so that they come back in the order in which they
# were given; which profiles each row group has goes to the index.


NATIVE = frozenset("biuf")


class ValuesWriter:
    """Tables in the making. `fillers`: rows say whether they are numbers that nobody measured."""

    def __init__(self, folder: Path, values: Values, index: IndexRows, fillers: bool) -> None:
        self._folder, self._values, self._index, self._fillers = folder, values, index, fillers
        self._files: dict[tuple[str, int | None], tuple[ValueLayout, GroupWriter]] = {}
        self._runs = tuple(array("q") for _ in range(3))  # file, first row, rows
        self._file(np.dtype(np.float64), None)  # the table `values` is there even if there is none

    def add(self, block: SparseBlock, filler: Bools | None = None) -> None:
        if block.value.dtype.names is None:
            self._add(block, filler, None)
            return
        for metric in np.unique(block.metric).tolist():
            rows = np.flatnonzero(block.metric == metric)
            self._add(block.take(rows), None if filler is None else filler[rows], metric)

    def _add(self, block: SparseBlock, filler: Bools | None, metric: int | None) -> None:
        if not len(block):
            return
        value = _native(block.value)
        number, layout, file = self._file(value.dtype, metric)
        rows: dict[str, Array] = {
            "profile": block.profile,
            "context": block.context,
            "metric": block.metric,
            "value": value,
        }
        if metric is not None:
            rows["scalar"] = self._values.scalar(metric, value)
        if layout.fillers:
            rows["filler"] = np.zeros(len(block), np.bool_) if filler is None else filler
        files, _, lengths = self._runs
        if files and files[-1] == number:
            lengths[-1] += len(block)
        else:
            for column, cell in zip(self._runs, (number, file.n_rows, len(block)), strict=True):
                column.append(cell)
        file.add(rows)

    def _file(self, dtype: np.dtype[Any], metric: int | None) -> tuple[int, ValueLayout, GroupWriter]:
        key = (str(describe_dtype(dtype)), metric)
        if key not in self._files:
            layout = ValueLayout(dtype, metric, self._fillers)
            written = self._index.table(layout.table)
            file = GroupWriter(self._folder, layout.table, layout.columns, layout.encode, written)
            self._files[key] = layout, file
        return list(self._files).index(key), *self._files[key]

    def close(self) -> Iterator[tuple[str, int]]:
        """Finish the tables, and yield the number of rows of each."""
        for layout, file in self._files.values():
            yield layout.table, file.close()

    def abort(self) -> None:
        for _, file in self._files.values():
            file.abort()

    @property
    def described(self) -> list[dict[str, Any]]:
        """For the manifest: every table of values and the type of what it holds."""
        return [
            {"table": layout.table, "dtype": describe_dtype(layout.dtype), "metric": layout.metric}
            for layout, _ in self._files.values()
        ]

    @property
    def order(self) -> dict[str, Array]:
        """The columns of `value_order`."""
        names = ("file", "first", "rows")
        return {name: np.array(column, np.int64) for name, column in zip(names, self._runs, strict=True)}


def _native(value: Array) -> Array:
    """Return values in a type that Parquet has, in this machine's order of bytes."""
    if value.dtype.names is not None:
        return value
    fits = value.dtype.kind in NATIVE and value.dtype.itemsize <= 8 and value.dtype != np.float16
    return np.ascontiguousarray(value, value.dtype.newbyteorder("=") if fits else np.float64)


# -- the writer --------------------------------------------------------------------------------------------------------


class Measured:
    """Which of the values that are given are only fillers: the same stream of blocks once more, without them.

    Blocks must come as `Values.blocks` gives them; for others, nothing is known.
    """

    def __init__(self, values: Values) -> None:
        self._blocks: Iterator[Block] | None = None
        if has_fillers(values.backend):
            self._blocks = values.blocks_without_fillers()
        self._neutral = np.array([metric.aggregation.neutral for metric in values.metrics] or [0.0])

    @property
    def knows(self) -> bool:
        return self._blocks is not None

    def triples(self, block: Block) -> tuple[SparseBlock, Bools | None]:
        """Return the values of a block, and which of them nobody measured."""
        triples = block.triples()
        other = None if self._blocks is None else next(self._blocks, None)
        if other is None:
            return triples, None
        if isinstance(block, DenseBlock) and isinstance(other, DenseBlock) and _is_like(block, other):
            kept = block.matrix.T != block.neutral if block.matrix.dtype.names is None else is_set(block.matrix.T)
            measured = other.matrix.T[kept]
            absent = measured == other.neutral if measured.dtype.names is None else ~is_set(measured)
            return triples, absent
        if isinstance(block, SparseBlock) and isinstance(other, SparseBlock) and _is_same(block, other):
            if block.value.dtype.names is not None:
                return triples, None
            neutral = self._neutral[block.metric]
            return triples, (other.value == neutral) & (block.value != neutral)
        return triples, None


def _is_same(block: SparseBlock, other: SparseBlock) -> bool:
    pairs = ((block.profile, other.profile), (block.context, other.context), (block.metric, other.metric))
    return all(np.array_equal(ours, theirs) for ours, theirs in pairs)


def _is_like(block: DenseBlock, other: DenseBlock) -> bool:
    same = block.metric == other.metric and np.array_equal(block.contexts, other.contexts)
    return same and np.array_equal(block.profiles, other.profiles)


class _Open:
    """What is there between `define` and `close`."""

    def __init__(self, place: Path, tables: Experiment, books: Books) -> None:
        self.tables, self.place, self.books, self.passed = tables, place, books, books.passed
        self.index = IndexRows(self._count)
        self.parts: Ids = parts_of(tables)
        self.measured = Measured(tables.values)
        self.values = ValuesWriter(place, tables.values, self.index, self.measured.knows)
        self.samples = SamplesWriter(place) if tables.traces.samples is not None else None
        self.spans: SpansWriter | None = None
        if tables.traces.spans_backend is not None:
            self.spans = SpansWriter(place, tables, self.parts, self.index)
        self.n_rows: dict[str, int] = {}
        self.summaries_first = _begins_with_summary(tables)

    def _count(self, table: str, rows: RowGroup) -> None:
        """Enter a row group into the books; stored summaries are not among what the writer is given."""
        if table == "spans":
            self.passed.add_spans(rows)
            return
        measured = ~self.tables.profiles.is_summary[rows["profile"]]
        kept = slice(None) if measured.all() else measured
        self.passed.totals.add_rows(*(rows[name][kept] for name in ("metric", "context", "value")))

    def write(self, name: str, cells: Mapping[str, Cells]) -> None:
        self.n_rows[name] = write_table(self.place, name, EXPERIMENT[name], cells)

    def abort(self) -> None:
        for part in (self.values, self.samples, self.spans):
            if part is not None:
                part.abort()


class FolderWriter(TargetWriter[PendingFolder, _Open]):
    """A folder in the making. Row groups are written when they are full, so there is nothing to flush."""

    takes_spans = True
    keeps_summaries = True
    keeps_fillers = True

    def keeps_formula(self, metric: Metric, metrics: Metrics) -> bool:
        """Return whether the formula can be read again: the folder has a place for those of any language."""
        return is_read_again(metric)

    def __init__(self, target: Path, options: WriteOptions) -> None:
        arrow()
        super().__init__(PendingFolder(target, options.overwrite, FOLDER))

    def _begin(self, tables: Experiment) -> None:
        self._books = books = Books.of(tables.metrics, one_to_one=True)
        self._open = opened = _Open(self._pending.place, tables, books)
        for name, cells in (
            *program_tables(tables.contexts),
            *place_tables(tables, opened.parts),
            *metric_tables(tables.metrics),
            ("attributes", attribute_columns(tables)),
        ):
            opened.write(name, cells)
        self._copy_sources(tables)
        if opened.summaries_first:
            self._write_summaries(opened)

    def _write_summaries(self, opened: _Open) -> None:
        """Write stored summaries, which are not among the chunks that a writer is given."""
        summaries = opened.tables.profiles.summaries
        if len(summaries):
            for block in opened.tables.values.blocks(summaries):
                opened.values.add(block.triples())

    def _copy_sources(self, tables: Experiment) -> None:
        """Copy source files, under the names by which the tables know them."""
        for file, copy in readable_sources(tables, self._report):
            inside = PurePosixPath(tables.sources.copies[file])
            if inside.is_absolute() or ".." in inside.parts:
                continue
            place = self._pending.place / SOURCES / inside
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(copy, place)

    def _take(self, opened: _Open, chunk: Chunk) -> None:
        if isinstance(chunk, SampleChunk):
            self._write_samples(opened, chunk)
        elif isinstance(chunk, SparseBlock | DenseBlock):
            self._write_values(opened, chunk)
        elif opened.spans is not None:
            opened.spans.add(chunk)
        else:
            raise UsageError(f"{self.target}: spans were given, and the experiment that was defined has none")

    def _write_samples(self, opened: _Open, chunk: SampleChunk) -> None:
        if opened.samples is None:
            opened.samples = SamplesWriter(opened.place)
        opened.samples.add(chunk)

    def _write_values(self, opened: _Open, block: Block) -> None:
        opened.values.add(*opened.measured.triples(block))

    def _finish(self, opened: _Open) -> None:
        self._close_values(opened)
        more = self._close_traces(opened)
        self._write_attachments(opened)
        opened.write("index", opened.index.columns())
        self._manifest(opened, more).write(opened.place)

    def _close_values(self, opened: _Open) -> None:
        if not opened.summaries_first:
            self._write_summaries(opened)
        opened.n_rows.update(opened.values.close())
        opened.write("value_order", opened.values.order)

    def _close_traces(self, opened: _Open) -> dict[str, object]:
        """Return what the manifest says of traces."""
        traces = opened.tables.traces
        more: dict[str, object] = {"time_range": None if traces.time_range is None else list(traces.time_range)}
        if opened.samples is not None:
            opened.n_rows["samples"] = opened.passed.n_samples = opened.samples.close()
            opened.write("sample_lines", opened.samples.lines())
        if opened.spans is not None:
            opened.n_rows["spans"] = opened.spans.close()
            opened.write("span_strings", opened.spans.strings())
            sides = SidesWriter(opened.place, traces, opened.books)
            opened.n_rows.update(sides.write())
            opened.write("span_sides", sides.rows())
            opened.write("devices", device_columns(traces))
            more |= {"span_parts": len(traces.parts()), "splits": traces.split is not None, "sides": sides.described}
        if traces.tables:
            more["beside"] = write_beside(opened.place, traces, opened.n_rows)
        if (counters := traces.counters) is not None:
            kind, cells = counter_columns(counters)
            opened.n_rows["counters"] = n = write_table(opened.place, "counters", counter_table(kind), cells)
            opened.books.given.add_amount(MEASURED, counters.value)
            opened.passed.add_amount(MEASURED, np.asarray(cells["value"])[:n])
            more |= {"counter_names": list(counters.names), "counter_type": kind}
        return more

    def _write_attachments(self, opened: _Open) -> None:
        """Write attachments, each in a row group of its own, so that one is read without the others."""
        file = GroupWriter(opened.place, "attachments", EXPERIMENT["attachments"])
        for name, attachment in opened.tables.attachments.items():
            data = attachment.read()
            cells = {"name": _cell(name), "size": np.array([len(data)], np.int64), "data": _cell(data)}
            file.add(cells)
            file.end_group()
        opened.n_rows["attachments"] = file.close()

    def _manifest(self, opened: _Open, more: dict[str, object]) -> Manifest:
        tables, values = opened.tables, opened.tables.values
        summarised = [m for m in range(len(tables.metrics)) if values.backend.summarises(m)]
        return Manifest(
            "experiment",
            tables.title,
            origin_of(tables.format, tables.version),
            opened.n_rows,
            {
                "warnings": warnings_in(tables.warnings),
                "identifier_kinds": list(tables.profiles.identifiers.names),
                "large_metric_ids": large_ids(tables.metrics),
                "values": opened.values.described,
                "fillers": opened.measured.knows,
                "summarised": summarised if len(tables.profiles.summaries) else [],
                **more,
            },
        )

    def _give_up(self, opened: _Open) -> None:
        opened.abort()


def _begins_with_summary(tables: Experiment) -> bool:
    """Return whether stored summaries stand before all other values, rather than after them."""
    if not len(tables.profiles.summaries):
        return False
    first = next(iter(tables.values.blocks(np.arange(len(tables.profiles)))), None)
    return first is not None and bool(tables.profiles.is_summary[first.triples().profile[:1]].any())


def _cell(value: object) -> np.typing.NDArray[np.object_]:
    out = np.empty(1, object)
    out[0] = value
    return out


FOLDER = FolderKind("a callgrove folder", lambda folder: (folder / MANIFEST).is_file())
