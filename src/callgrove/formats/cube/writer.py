"""Writes Cube files, by the rules that CubeLib's own readers need.

    members of each metric with values: N.data, N.index (ghost_N.* where it is hidden); attachments; anchor.xml last

Little-endian, sparse indices in ascending order, no rows in which nothing is stored. The dialect `compressed` makes
each row a zlib stream. Values may come in any order: see `spool.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from callgrove.errors import UsageError
from callgrove.formats.cube.anchor_writer import anchor_pieces
from callgrove.formats.cube.losses import losses_of
from callgrove.formats.cube.places import Places
from callgrove.formats.cube.plan import CnodePlan, MetricPlan, PlannedMetric
from callgrove.formats.cube.reading import ANCHOR
from callgrove.formats.cube.rows import DATA_MAGIC, ENDIAN, INDEX, INDEX_MAGIC, SPARSE, ZDATA_MAGIC, ZROW
from callgrove.formats.cube.spool import Cells, Rows
from callgrove.formats.cube.tar_writer import TarWriter
from callgrove.formats.cube.value_types import value_type
from callgrove.formats.interface import Chunk, WriteOptions
from callgrove.formats.targets import PendingFile
from callgrove.formats.writing import TargetWriter
from callgrove.model.arrays import Array, Ids, Ints, distinct
from callgrove.model.books import SAMPLES, SPANS, Books
from callgrove.model.experiment import Experiment
from callgrove.model.renumbering import new_numbers
from callgrove.model.values import Block, DenseBlock, SparseBlock

__all__ = ["DIALECTS", "CubeWriter"]

DIALECTS = ("plain", "compressed")
TEXT_ENDINGS = (".spec", ".txt", ".xml", ".csv", ".json")


class CubeWriter(TargetWriter[PendingFile, Experiment]):
    """One file in the making."""

    keeps_fillers = True

    def __init__(self, target: Path, options: WriteOptions) -> None:
        dialect = options.dialect or DIALECTS[0]
        if dialect not in DIALECTS:
            raise UsageError(f"{target}: Cube files have the dialects {', '.join(DIALECTS)}, not {dialect!r}")
        super().__init__(PendingFile(target, options.overwrite))
        self._compress, self._progress = dialect == "compressed", options.progress

    def _begin(self, tables: Experiment) -> None:
        self._metrics, self._cnodes = MetricPlan.of(tables.metrics), CnodePlan.of(tables.contexts)
        self._places = Places.of(tables)
        measured = tables.profiles.measured
        self._column = new_numbers(measured, len(tables.profiles))
        self._n_columns = len(measured)
        self._rows, self._cells = Rows(self._compress), Cells(len(measured))
        self._open = tables
        for loss in losses_of(tables, self._metrics, self._cnodes, self._places):
            self._report.add(loss)
        self._books = self._open_books(tables)

    def _open_books(self, tables: Experiment) -> Books:
        """Costs are compared: a metric may be stored as another type. What has no place was told."""
        books = Books.of(tables.metrics, tables.contexts)
        books.excuse(SAMPLES, SPANS)
        books.excuse_rows([*self._metrics.left_out, *(p.row for p in self._metrics.metrics if not p.has_values)])
        return books

    def _add_rows(self, planned: PlannedMetric, positions: Ids, values: Array) -> None:
        """Rows of the file; what is in them goes into the books."""
        self._rows.add(planned.row, positions, values, planned.type)
        assert self._books is not None
        context = self._cnodes.context_at(planned.kind)[positions]
        self._books.passed.totals.add_matrix(planned.row, context, values, planned.type.absent or 0)

    def _take(self, tables: Experiment, chunk: Chunk) -> None:
        if isinstance(chunk, SparseBlock | DenseBlock):  # samples and spans have no place, which was told
            self._write_values(chunk)

    def _write_values(self, block: Block) -> None:
        if isinstance(block, DenseBlock):
            planned = self._metrics.of_row.get(block.metric)
            if planned is None or not planned.has_values:
                return
            if self._is_whole(block, planned):
                self._write_matrix(block, planned)
                return
        part = block.triples()
        for metric in np.unique(part.metric).tolist():
            planned = self._metrics.of_row.get(metric)
            if planned is not None and planned.has_values:
                self._write_cells(part.take(part.metric == metric), planned)

    def _is_whole(self, block: DenseBlock, planned: PlannedMetric) -> bool:
        """Rows over all locations in order, of contexts that have a place, in the very type that is written."""
        columns = self._column[block.profiles]
        return (
            len(columns) == self._n_columns
            and bool((columns == np.arange(self._n_columns)).all())
            and block.matrix.dtype == planned.type.dtype
            and bool((self._cnodes.position(planned.kind)[block.contexts] >= 0).all())
            and len(distinct(block.contexts)) == len(block.contexts)
        )

    def _write_matrix(self, block: DenseBlock, planned: PlannedMetric) -> None:
        values, absent = block.matrix, planned.type.absent
        if block.neutral != absent and planned.type.composite is None:
            values = np.where(values == block.neutral, absent, values)
        positions = self._cnodes.position(planned.kind)[block.contexts]
        self._add_rows(planned, positions, values)

    def _write_cells(self, part: SparseBlock, planned: PlannedMetric) -> None:
        position, column = self._cnodes.position(planned.kind)[part.context], self._column[part.profile]
        value: Array = part.value
        if planned.scalar:
            value = self._defined().values.scalar(planned.row, value)
        kept = (position >= 0) & (column >= 0)
        if kept.any():
            self._cells.add(planned.row, position[kept], column[kept], value[kept])

    def _store(self, tables: Experiment) -> None:
        """What waits goes to temporary files; there is no Cube file before `close`."""
        self._cells.flush()

    def _finish(self, tables: Experiment) -> None:
        self._finish_cells()
        with self._pending.place.open("wb") as file:
            archive = TarWriter(file)
            for done, planned in enumerate(self._metrics.metrics):
                self._add_metric(archive, planned)
                self._progress("writing metrics", done + 1, len(self._metrics.metrics))
            self._add_attachments(archive, tables)
            text = anchor_pieces(tables, self._metrics, self._cnodes, self._places)
            archive.add(ANCHOR, (piece.encode("utf-8", "replace") for piece in text), b"\n")
            archive.finish()
        self._give_up(tables)

    def _finish_cells(self) -> None:
        """Cells become rows; integers that are none any more become doubles."""
        for row in self._cells.metrics():
            planned = self._metrics.of_row[row]
            whole_rows = len(self._rows.of(row)[0])
            if not self._cells.fits(row, planned.type):
                double = value_type("DOUBLE")
                assert double is not None
                if whole_rows:
                    raise UsageError(f"{self.target}: {planned.name} has values of several types")
                self._report.add(f"type of {planned.name}: {planned.type.name} becomes DOUBLE, which holds its values")
                planned.type = double
            self._cells.into_rows(
                row,
                planned.type,
                len(self._cnodes),
                partial(self._add_rows, planned),
            )

    def _add_metric(self, archive: TarWriter, planned: PlannedMetric) -> None:
        position, start, size = self._rows.of(planned.row)
        if not len(position):
            return
        archive.add(f"{planned.stem}.data", self._data(planned, start, size))
        header = np.zeros((), INDEX)
        header["magic"], header["endian"], header["format"] = INDEX_MAGIC, ENDIAN, SPARSE
        count = np.array([len(position)], "<u4").tobytes()
        archive.add(f"{planned.stem}.index", [header.tobytes(), count, position.astype("<u4").tobytes()])

    def _data(self, planned: PlannedMetric, start: Ints, size: Ints) -> Iterator[bytes]:
        if self._compress:
            table = np.zeros(len(start), ZROW)
            table["raw_start"] = np.arange(len(start)) * (self._n_columns * planned.type.item)
            table["z_start"], table["z_size"] = np.cumsum(size) - size, size
            yield ZDATA_MAGIC + np.array([len(start)], "<u8").tobytes() + table.tobytes()
        else:
            yield DATA_MAGIC
        yield from self._rows.copied(start, size)

    def _add_attachments(self, archive: TarWriter, tables: Experiment) -> None:
        for name, attachment in tables.attachments.items():
            if name == ANCHOR or len(name.encode("utf-8", "replace")) > 100:
                self._report.add(f"attachment {name}: its name cannot be used in a Cube file")
                continue
            is_text = name.endswith(TEXT_ENDINGS)
            archive.add(name, [attachment.read()], b"\n", extra_block=not is_text)

    def _give_up(self, tables: Experiment) -> None:
        self._rows.close()
        self._cells.close()
