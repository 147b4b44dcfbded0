"""Writes Cube files by the rules that CubeLib's own readers need, and tells what they cannot hold.

    members of each metric with values: N.data, N.index (ghost_N.* where it is hidden); attachments; anchor.xml last

Little-endian, sparse indices in ascending order, no rows in which nothing is stored. The dialect `compressed` makes
each row a zlib stream. Values may come in any order: see `spool.py`.
"""

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from callgrove.arrays import NO_OFFSET, Array, Bools, Ids, Ints, distinct, new_numbers
from callgrove.binary.archives import BLOCK
from callgrove.errors import CallgroveError, UsageError, count_of
from callgrove.formats.cube.anchor import Level
from callgrove.formats.cube.anchor_writer import NOT_XML, anchor_pieces
from callgrove.formats.cube.formula_writer import may_become_zero
from callgrove.formats.cube.plan import CnodePlan, MetricPlan, Places, PlannedMetric, holds_formula
from callgrove.formats.cube.reading import ANCHOR
from callgrove.formats.cube.rows import DATA_MAGIC, ENDIAN, INDEX, INDEX_MAGIC, SPARSE, ZDATA_MAGIC, ZROW
from callgrove.formats.cube.vocabulary import ValueType, value_type
from callgrove.formats.interface import Chunk, WriteOptions
from callgrove.formats.writing.targets import PendingFile
from callgrove.formats.writing.writer import TargetWriter, losses_of_events, losses_of_formulas, losses_of_runs, some
from callgrove.model.books import SAMPLES, SPANS, Books
from callgrove.model.contexts import ContextKind, ContextTree, Regions
from callgrove.model.definitions import UserFormula
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Metric, Metrics, Scope
from callgrove.model.values import Block, DenseBlock, SparseBlock, is_set

__all__ = ["DIALECTS", "Cells", "CubeWriter", "Rows", "TarWriter", "losses_of", "worth_storing"]


# -- values that come in any order, as rows ----------------------------------------------------------------------------
# matrices (contexts x all profiles)  ->  rows, encoded at once
# anything else                       ->  (position, column, value), sorted now and then, merged into rows at the end


WAITING = 1 << 20  # cells
BAND = 1 << 21  # cells of the rows that are made at once
COPY = 1 << 22  # bytes
LEVEL = 6


def worth_storing(values: Array, type_: ValueType) -> Bools:
    """Return rows in which something is not absent."""
    if type_.composite is not None:
        there = is_set(values)
    else:
        there = np.empty(values.shape, np.bool_)
        np.not_equal(values, type_.absent, out=there)
    is_worth: Bools = np.logical_or.reduce(there, axis=1)
    return is_worth


class Rows:
    """Encoded rows of many metrics in one temporary file."""

    def __init__(self, compress: bool) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the writer
        self._compress = compress
        self._places: dict[int, list[tuple[Ints, Ints, Ints]]] = {}

    def add(self, metric: int, positions: Ids, values: Array, type_: ValueType) -> None:
        """Add rows of one metric; those in which nothing is stored are left out."""
        kept = worth_storing(values, type_)
        if not kept.any():
            return
        raw = type_.encode(values[kept])
        at = self._file.tell()
        if self._compress:
            streams = [zlib.compress(row.tobytes(), LEVEL) for row in raw]
            sizes = np.array([len(s) for s in streams], np.int64)
            self._file.writelines(streams)
        else:
            sizes = np.full(len(raw), raw.shape[1], np.int64)
            self._file.write(np.ascontiguousarray(raw).data)
        starts = at + np.cumsum(sizes) - sizes
        self._places.setdefault(metric, []).append((positions[kept].astype(np.int64), starts, sizes))

    def of(self, metric: int) -> tuple[Ints, Ints, Ints]:
        """Return the positions of the rows of a metric in ascending order, where each begins and its size."""
        places = self._places.get(metric, [])
        if not places:
            none = np.empty(0, np.int64)
            return none, none, none
        position, start, size = (np.concatenate(part) for part in zip(*places, strict=True))
        order = np.argsort(position, kind="stable")
        return position[order], start[order], size[order]

    def read_bytes(self, start: Ints, size: Ints) -> Iterator[bytes]:
        """Yield the bytes of rows; rows that follow one another in the file are read at once."""
        if not len(start):
            return
        breaks = np.flatnonzero(start[1:] != (start + size)[:-1]) + 1
        for first, last in zip([0, *breaks.tolist()], [*breaks.tolist(), len(start)], strict=True):
            at, left = int(start[first]), int(size[first:last].sum())
            while left:
                self._file.seek(at)
                piece = self._file.read(min(left, COPY))
                at, left = at + len(piece), left - len(piece)
                yield piece
        self._file.seek(0, 2)

    def close(self) -> None:
        self._file.close()


@dataclass
class _Segment:
    """Cells of one metric, sorted by position, in the temporary file."""

    dtype: np.dtype[Any]
    count: int
    offset: int


@dataclass
class Cells:
    """Cells of many metrics that do not come as whole rows."""

    n_columns: int
    _file: Any = field(default_factory=tempfile.TemporaryFile)
    _waiting: dict[int, list[tuple[Ids, Ids, Array]]] = field(default_factory=dict)
    _n_waiting: int = 0
    _segments: dict[int, list[_Segment]] = field(default_factory=dict)

    def add(self, metric: int, position: Ids, column: Ids, value: Array) -> None:
        self._waiting.setdefault(metric, []).append((position, column, value))
        self._n_waiting += len(value)
        if self._n_waiting >= WAITING:
            self.flush()

    def flush(self) -> None:
        """Write what waits to the file, metric by metric and type by type."""
        for metric, parts in self._waiting.items():
            for dtype in dict.fromkeys(value.dtype for _, _, value in parts):
                same = [part for part in parts if part[2].dtype == dtype]
                position, column, value = (np.concatenate(part) for part in zip(*same, strict=True))
                order = np.argsort(position, kind="stable")
                self._segments.setdefault(metric, []).append(_Segment(dtype, len(order), self._file.tell()))
                for array in (position[order].astype(np.int32), column[order].astype(np.int32), value[order]):
                    self._file.write(array.tobytes())
        self._waiting, self._n_waiting = {}, 0

    def metrics(self) -> list[int]:
        self.flush()
        return sorted(self._segments)

    def fits(self, metric: int, type_: ValueType) -> bool:
        """Return whether all values of a metric are such that its type holds them exactly."""
        self.flush()
        if type_.composite is not None or type_.dtype.kind == "f":
            return True
        lowest, highest = np.iinfo(type_.dtype).min, np.iinfo(type_.dtype).max
        for segment in self._segments.get(metric, []):
            values = self._column(segment, 2)
            whole = segment.dtype.kind != "f" or bool((values == np.floor(values)).all())
            if not whole or (len(values) and not (lowest <= int(values.min()) and int(values.max()) <= highest)):
                return False
        return True

    def into_rows(self, metric: int, type_: ValueType, n_positions: int, add: Callable[[Ids, Array], None]) -> None:
        """Turn the cells of a metric into rows, band by band."""
        step = max(1, BAND // max(1, self.n_columns))
        segments = [(s, self._column(s, 0)) for s in self._segments.get(metric, [])]
        for first in range(0, n_positions, step):
            band = np.full((min(step, n_positions - first), self.n_columns), type_.absent or 0, type_.dtype)
            touched = False
            for segment, position in segments:
                part = slice(*np.searchsorted(position, [first, first + len(band)]).tolist())
                if part.start < part.stop:
                    band[position[part] - first, self._column(segment, 1, part)] = self._column(segment, 2, part)
                    touched = True
            if touched:
                add(np.arange(first, first + len(band), dtype=np.int32), band)

    def _column(self, segment: _Segment, number: int, part: slice = slice(None)) -> Array:
        """Return the positions, columns or values of a segment, or some of them."""
        dtype = segment.dtype if number == 2 else np.dtype(np.int32)
        first, last, _ = part.indices(segment.count)
        self._file.seek(segment.offset + number * 4 * segment.count + first * dtype.itemsize)
        column = np.frombuffer(self._file.read((last - first) * dtype.itemsize), dtype)
        self._file.seek(0, 2)
        return column

    def close(self) -> None:
        self._file.close()


# -- the writer --------------------------------------------------------------------------------------------------------


# -- losses ------------------------------------------------------------------------------------------------------------


KEPT_KINDS = (ContextKind.FUNCTION, ContextKind.LOOP, ContextKind.ELIDED)
OWN_IDENTIFIERS = ("NODE", "RANK", "THREAD", "GPUDEVICE", "GPUSTREAM")


def losses_of(experiment: Experiment, metrics: MetricPlan, cnodes: CnodePlan, places: Places) -> Iterator[str]:
    """Yield everything that is left out or changed, one sentence each."""
    yield from _metrics(experiment.metrics, metrics)
    yield from _contexts(experiment.contexts)
    yield from _regions(experiment.contexts.regions)
    yield from _system(experiment, places)
    yield from _rest(experiment)


def _metrics(metrics: Metrics, plan: MetricPlan) -> Iterator[str]:
    yield from losses_of_formulas((metrics[row] for row in plan.left_out), "no equal in CubePL")
    yield from _formulas([metrics[p.row] for p in plan.metrics], metrics)
    if rows := [row for row in plan.left_out if not metrics[row].is_derived]:
        yield f"scopes that can be computed, or not be stored: {some(_label(metrics, row) for row in rows)}"
    written = [(metrics[p.row], p) for p in plan.metrics]
    if labels := [m.name for m, _ in written if m.scope == Scope.POINT]:
        yield f"costs of instructions of {some(labels)}: stored as exclusive costs of their contexts"
    if labels := [f"{m.name} as {p.name}" for m, p in written if m.name != p.name]:
        yield f"names of metrics: {some(labels)}"
    if labels := [m.name for m, p in written if p.scalar]:
        yield f"composite values of {some(labels)}: their scalar reading is stored"
    if labels := [m.name for m, _ in written if m.number_format]:
        yield f"number formats of {some(labels)}"
    if any(m.statistic for m in metrics):
        yield "stored summaries: they are left out, as readers compute them"
    if metrics.columns:
        yield f"columns that the input wants shown: {len(metrics.columns)}"


def _formulas(written: Sequence[Metric], metrics: Metrics) -> Iterator[str]:
    """Yield what formulas of users lose where they have no value, their own or that of another that they name."""
    users = {m.name: m.derivation for m in written if isinstance(m.derivation, UserFormula)}
    become_zero = {name for name, formula in users.items() if may_become_zero(formula)}
    if labels := [name for name in users if become_zero & {*metrics.with_operands([name])}]:
        yield f"where {some(labels)} have no value: CubePL takes 0/0, roots and logarithms of negative numbers as 0"


def _label(metrics: Metrics, row: int) -> str:
    return f"{metrics[row].name} ({metrics[row].scope.word or 'no scope'})"


def _contexts(tree: ContextTree) -> Iterator[str]:
    if elided := len(tree) - tree.n_listed:
        yield f"elided contexts: {elided}, whose cost is contained in others"
    kinds = [ContextKind(k) for k in np.unique(tree.kind).tolist()]
    if words := [kind.word for kind in kinds if kind not in KEPT_KINDS]:
        yield f"kinds of contexts: {some(words)} are stored as functions"
    if (tree.region[: tree.n_listed] < 0).any():
        yield "contexts without a region: they get one without a name"
    if (tree.within[: tree.n_listed] >= 0).any():
        yield "lexical nesting: every context is stored as called"


def _regions(regions: Regions) -> Iterator[str]:
    if ((regions.file >= 0) & (regions.module >= 0)).any():
        yield "load modules of regions that have a source file"
    if (regions.offset != NO_OFFSET).any():
        yield "offsets of instructions, but for names that contain them"


def _system(experiment: Experiment, places: Places) -> Iterator[str]:
    profiles = experiment.profiles
    if len(profiles.aggregates):
        label = profiles.label(int(profiles.aggregates[0]))
        yield f"that values of single profiles are not known: those of all are in the location {label!r}"
    if len(profiles.summaries):
        yield "stored summaries: they are left out, as readers compute them"
    if places.n_added:
        added = count_of(places.n_added, "place")
        yield f"system: {added} added, as profiles need a machine, a node and a process"
    odd = {
        profiles.identifiers.name(kind)
        for kind in np.unique(profiles.identifiers.kind).tolist()
        if profiles.identifiers.name(kind) not in OWN_IDENTIFIERS
    }
    if odd - {"SUMMARY"}:
        yield f"identifiers of profiles: {some(sorted(odd - {'SUMMARY'}))}"
    numbers = profiles.identifiers
    if (numbers.physical != numbers.logical).any():
        yield "identifiers of profiles: physical numbers that differ from the logical ones"
    dropped = sum(
        int(sum(places.of_source[s].level == Level.NODE for s in t.system.tolist() if s in places.of_source))
        for t in experiment.system.topologies
    )
    if dropped:
        yield f"{dropped} coordinates of nodes in topologies: CubeLib has none but of processes and threads"


def _rest(experiment: Experiment) -> Iterator[str]:
    yield from losses_of_runs(experiment.runs, experiment.metrics.quantities)
    if experiment.damage:
        yield f"damaged parts of the input: {len(experiment.damage)}, the first is {experiment.damage[0].text}"
    traces = experiment.traces
    if traces.n_samples:
        yield f"samples: {traces.n_samples:,} are left out"
    yield from losses_of_events(traces)
    if experiment.sources.n_present:
        yield f"copies of {experiment.sources.n_present} source files"
    texts = [*experiment.contexts.regions.strings, *experiment.attributes.values()]
    if any(NOT_XML.search(text) for text in texts):
        yield "characters that XML has no place for: they become U+FFFD"


# -- tar archive -------------------------------------------------------------------------------------------------------
# CubeLib needs plain ustar, and no member whose size is a multiple of 512: it expects one more block of zeros after
# such a member, and everything else stops there. What we make is filled up by one byte instead; attachments are kept
# to the byte, with CubeLib's block where they have such a size.


LARGEST = (1 << 33) - 1  # bytes of a member; more needs extensions that CubeLib was never seen to read
MAGIC, MODE = b"ustar\x0000", b"0000600\0"


class TarWriter:
    """Members one after the other; the size of each is written when it is known."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def add(self, name: str, pieces: Iterable[bytes], filling: bytes = b"\0", extra_block: bool = False) -> None:
        """Add a member. One byte of `filling` is added where its size would be a multiple of 512, or, if it must stay
        as it is, the block that CubeLib expects."""
        header = self._file.tell()
        self._file.write(bytes(BLOCK))
        size = sum(self._file.write(piece) for piece in pieces)
        if size % BLOCK == 0 and not extra_block and size:
            size += self._file.write(filling)
        if size > LARGEST:
            raise CallgroveError(f"{name}: {size} bytes are more than a member of a Cube archive holds ({LARGEST})")
        self._file.write(bytes(-size % BLOCK + (BLOCK if extra_block and size % BLOCK == 0 and size else 0)))
        end = self._file.tell()
        self._file.seek(header)
        self._file.write(_header(name, size))
        self._file.seek(end)

    def finish(self) -> None:
        self._file.write(bytes(2 * BLOCK))


def _header(name: str, size: int) -> bytes:
    encoded = name.encode("utf-8", "surrogateescape")
    if len(encoded) > 100:
        raise CallgroveError(f"{name}: the name of the attachment is longer than 100 bytes")
    out = bytearray(BLOCK)
    for at, text in (
        (0, encoded),
        (100, MODE),
        (108, b"0000000\0"),
        (116, b"0000000\0"),
        (124, b"%011o\0" % size),
        (136, b"00000000000\0"),
        (148, b" " * 8),
        (156, b"0"),
        (257, MAGIC),
    ):
        out[at : at + len(text)] = text
    out[148:156] = b"%06o\0 " % sum(out)
    return bytes(out)


# -- the writer --------------------------------------------------------------------------------------------------------


DIALECTS = ("plain", "compressed")
TEXT_ENDINGS = (".spec", ".txt", ".xml", ".csv", ".json")


class CubeWriter(TargetWriter[PendingFile, Experiment]):
    """One file in the making."""

    keeps_fillers = True

    def keeps_formula(self, metric: Metric, metrics: Metrics) -> bool:
        """Return whether the formula is CubePL, or can be said in it."""
        return holds_formula(metric, metrics)

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
        """Return the books. Costs are compared: a metric may be stored as another type. What has no place was told."""
        books = Books.of(tables.metrics, tables.contexts)
        books.excuse(SAMPLES, SPANS)
        books.excuse_rows([*self._metrics.left_out, *(p.row for p in self._metrics.metrics if not p.has_values)])
        return books

    def _add_rows(self, planned: PlannedMetric, positions: Ids, values: Array) -> None:
        """Add rows of the file; what is in them goes into the books."""
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
        """Return whether these are rows over all locations in order, of contexts that have a place, in the very type
        that is written."""
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
            value = self._require_open().values.scalar(planned.row, value)
        kept = (position >= 0) & (column >= 0)
        if kept.any():
            self._cells.add(planned.row, position[kept], column[kept], value[kept])

    def _store(self, tables: Experiment) -> None:
        """Write what waits to temporary files; there is no Cube file before `close`."""
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
        """Turn cells into rows; integers that are none any more become doubles."""
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
        yield from self._rows.read_bytes(start, size)

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
