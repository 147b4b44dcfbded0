"""A Cube file as an experiment: the archive, the anchor, and values in the model's ids, read when asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from callgrove.arrays import Array, Bools, Ids, Ints
from callgrove.binary.archives import Archive, Member, gunzip, gunzip_bytes
from callgrove.binary.files import FileBytes
from callgrove.errors import CallgroveError, CorruptFile, InputError
from callgrove.formats.cube.anchor import Anchor, RawMetric, read_anchor
from callgrove.formats.cube.rows import StoredRows, read_rows
from callgrove.formats.cube.tables import add_attributes, add_contexts, add_metrics, add_system, is_void, type_of
from callgrove.formats.cube.vocabulary import (
    DERIVED,
    GHOST,
    KNOWN_VERSIONS,
    LARGEST,
    SCOPES,
    WIDE,
    value_type,
    wide_order,
)
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.cubepl import Program, Surroundings, mark_void
from callgrove.model.experiment import Experiment, Severity
from callgrove.model.metrics import Aggregation
from callgrove.model.table import visible
from callgrove.model.values import Block, DenseBlock, SparseBlock

__all__ = ["ANCHOR", "CubeFile", "CubeValues", "MetricValues", "open_archive", "read_experiment"]


# -- values ------------------------------------------------------------------------------------------------------------
# A metric is read when it is asked for, a band of rows at a time.
#
# Score-P writes numbers where nothing was measured: 0, or the timer's largest value, into minima and maxima of cells
# that were never visited, and counters that went below zero. They are given as they are stored;
# `blocks_without_fillers`, of which computed views are made, has the neutral element in their place.


BAND = 1 << 21  # values that are decoded at once
WRAPPED = 1 << 63


@dataclass
class MetricValues:
    """The rows of one metric, the context of each, and the column of each profile. `visits` and, for a minimum, the
    maximum as `partner` are the metrics that tell whether a cell was measured; -1 where there is none."""

    rows: StoredRows
    context: Ids
    column: Ints
    aggregation: Aggregation
    partner: int = -1
    visits: int = -1

    def row_of(self, n_contexts: int) -> Ids:
        """Return for every context its row, or -1."""
        out = np.full(n_contexts, -1, np.int32)
        out[self.context] = np.arange(len(self.context))
        return out


class CubeValues:
    """The values of all metrics; None stands for a metric without values."""

    def __init__(self, metrics: Sequence[MetricValues | None], n_profiles: int, n_contexts: int) -> None:
        self.metrics = tuple(metrics)
        self._n_profiles, self._n_contexts = n_profiles, n_contexts
        self._row_of: dict[int, Ids] = {}
        self.problems: list[CallgroveError] = []

    def n_stored(self) -> int | None:
        return sum(int(np.count_nonzero(m.rows.there)) * len(m.column) for m in self.metrics if m is not None)

    def summarises(self, metric: int) -> bool:
        return False

    def profile(self, profile: int, metrics: Ints | None = None) -> SparseBlock:
        """Return the values of a profile. Every metric has to be read for it, at least those asked for."""
        return SparseBlock.concatenate([b.triples() for b in self.blocks(np.array([profile]), metrics)])

    def context(self, context: int) -> SparseBlock:
        """Return one row of every metric."""
        blocks = [
            self._block(metric, one, np.array([row]), None).triples()
            for metric, one in enumerate(self.metrics)
            if one is not None and (row := int(self._rows_of(metric)[context])) >= 0
        ]
        return SparseBlock.concatenate([block for block in blocks if len(block)])

    def blocks(self, profiles: Ints | None = None, metrics: Ints | None = None) -> Iterator[Block]:
        for metric, one in self._choose_metrics(metrics):
            for rows in self._bands(one):
                block = self._block(metric, one, rows, profiles)
                if len(block):
                    yield block

    def blocks_without_fillers(self, profiles: Ints | None = None, metrics: Ints | None = None) -> Iterator[Block]:
        """Yield blocks like `blocks`, with the neutral element where the file holds a number that nobody measured."""
        for metric, one in self._choose_metrics(metrics):
            for rows in self._bands(one):
                block = self._block(metric, one, rows, profiles)
                if len(block):
                    yield self._without_fillers(one, block, profiles)

    def _choose_metrics(self, metrics: Ints | None) -> Iterator[tuple[int, MetricValues]]:
        """Yield metrics that have values; those that were defined later, over these, have no rows in the file."""
        wanted = range(len(self.metrics)) if metrics is None else np.unique(metrics).tolist()
        for metric in wanted:
            if metric >= len(self.metrics):
                break
            if (one := self.metrics[metric]) is not None and len(one.rows):
                yield metric, one

    def _bands(self, one: MetricValues) -> Iterator[Ints]:
        step = max(1, BAND // max(1, one.rows.width * max(1, one.rows.type.item // 8)))
        for first in range(0, len(one.rows), step):
            yield np.arange(first, min(first + step, len(one.rows)))

    def _block(self, metric: int, one: MetricValues, rows: Ints, profiles: Ints | None) -> DenseBlock:
        matrix, context, ids = self._cells(one, rows, profiles)
        return DenseBlock(metric, context, ids, matrix, one.rows.type.absent)

    def _cells(self, one: MetricValues, rows: Ints, profiles: Ints | None) -> tuple[Array, Ids, Ids]:
        """Return the values of some rows, their contexts and the profiles of their columns."""
        matrix, readable = one.rows.decode(rows, self._record_problem)
        context = one.context[rows]
        if not readable.all():
            matrix, context = matrix[readable], context[readable]
        ids = np.arange(len(one.column)) if profiles is None else profiles
        columns = one.column[ids]
        if len(columns) != matrix.shape[1] or not (columns == np.arange(len(columns))).all():
            matrix = matrix[:, columns]
        return matrix, context, ids.astype(np.int32)

    def _without_fillers(self, one: MetricValues, block: DenseBlock, profiles: Ints | None) -> DenseBlock:
        if one.aggregation == Aggregation.SUM and block.matrix.dtype == np.uint64:
            wrapped: Bools = block.matrix >= WRAPPED
            if not wrapped.any():
                return block
            return replace(block, matrix=np.where(wrapped, 0, block.matrix), neutral=0.0, fillers=wrapped)
        if one.aggregation not in (Aggregation.MINIMUM, Aggregation.MAXIMUM):
            return block
        neutral = one.aggregation.neutral
        values = block.matrix.astype(np.float64)
        if one.rows.type.absent:
            filler: Bools = np.abs(values) >= LARGEST
            if one.visits >= 0:
                filler |= (values == 0) & (self._read_other_metric(one.visits, block, profiles, 0.0) == 0)
            if one.partner >= 0:
                filler |= values > self._read_other_metric(one.partner, block, profiles, np.nan)
            values[filler] = neutral
        return DenseBlock(block.metric, block.contexts, block.profiles, values, neutral)

    def _read_other_metric(self, metric: int, block: DenseBlock, profiles: Ints | None, absent: float) -> Array:
        """Return another metric in the cells of a block, `absent` in rows that it does not have."""
        one = self.metrics[metric]
        assert one is not None
        out = np.full(block.matrix.shape, absent)
        rows = self._rows_of(metric)[block.contexts]
        at = np.flatnonzero(rows >= 0)
        matrix, context, _ = self._cells(one, rows[at].astype(np.int64), profiles)
        place = np.full(self._n_contexts, -1, np.int64)
        place[block.contexts] = np.arange(len(block.contexts))
        out[place[context]] = matrix
        return out

    def _rows_of(self, metric: int) -> Ids:
        if metric not in self._row_of:
            one = self.metrics[metric]
            assert one is not None
            self._row_of[metric] = one.row_of(self._n_contexts)
        return self._row_of[metric]

    def _record_problem(self, error: CorruptFile) -> None:
        if str(error) not in {str(known) for known in self.problems}:
            self.problems.append(error)


# -- files -------------------------------------------------------------------------------------------------------------


ANCHOR = "anchor.xml"
GZIP_MAGIC = b"\x1f\x8b"
LARGEST_ARCHIVE, MOST_RATIO = 1 << 30, 64  # bytes of a gzipped archive, inflated: so many, or so many times its own
LARGEST_ANCHOR = 1 << 30
VISITS = "visits"


@dataclass(frozen=True)
class MemberBytes:
    """An attachment: a member that is none of Cube's own."""

    archive: Archive
    member: Member

    def read(self) -> bytes:
        return self.archive.bytes_of(self.member)


@dataclass
class CubeFile:
    """One opened file: its archive and its anchor."""

    archive: Archive
    anchor: Anchor

    @classmethod
    def open(cls, path: Path) -> CubeFile:
        archive = open_archive(FileBytes(path))
        return cls(archive, read_anchor(path, anchor_text(archive)))

    def pair(self, metric: RawMetric) -> tuple[Member | None, Member | None]:
        """Return the index and data of a metric; those of hidden metrics have names of their own."""
        names = [f"ghost_{metric.id}"] if metric.given.get("viztype") == GHOST else []
        for stem in (*names, str(metric.id)):
            index, data = (self.archive.members.get(f"{stem}.{kind}") for kind in ("index", "data"))
            if index is not None or data is not None:
                return index, data
        return None, None

    def member_names(self) -> set[str]:
        """Return the names of the members that belong to metrics, and of the anchor."""
        stems = {stem for metric in self.anchor.metrics for stem in (str(metric.id), f"ghost_{metric.id}")}
        return {ANCHOR, *(f"{stem}.{kind}" for stem in stems for kind in ("index", "data"))}


def open_archive(file: FileBytes) -> Archive:
    """Return the archive, inflated first if it is gzipped."""
    if not file.size:
        raise CorruptFile(file.path, "archive", offset=0, expected="a tar archive", found="an empty file")
    if file.copy(0, min(2, file.size), "archive") == GZIP_MAGIC:
        file = gunzip(file, "archive", max(LARGEST_ARCHIVE, MOST_RATIO * file.size))
    return Archive.of(file)


def anchor_text(archive: Archive) -> bytes:
    """Return the XML, inflated if it is gzipped; an archive without one cannot be read."""
    path, member = archive.file.path, archive.members.get(ANCHOR)
    if member is None:
        if archive.damage:
            raise archive.damage[0].with_remedy("there is no anchor.xml before this place, so nothing can be read")
        found = ", ".join(f"{visible(name):.80}" for name in list(archive.members)[:5]) or "no member at all"
        raise CorruptFile(path, "archive", expected="a member anchor.xml", found=found)
    if member.missing:
        raise archive.damage[0].with_remedy("without the whole anchor.xml nothing can be read")
    text = archive.bytes_of(member)
    return gunzip_bytes(path, ANCHOR, text, LARGEST_ANCHOR) if text.startswith(GZIP_MAGIC) else text


def read_experiment(path: Path, format_name: str) -> Experiment:
    """Return the whole experiment; values stay in the file."""
    cube = CubeFile.open(path)
    anchor, archive = cube.anchor, cube.archive
    builder = ExperimentBuilder(format_name, anchor.version, title=path.name, path=str(path))
    if anchor.version not in KNOWN_VERSIONS:
        builder.warn(Severity.NOTE, f"{path}: version {anchor.version} of the anchor is not known; read as 4.7")
    for note in archive.notes:
        builder.warn(Severity.NOTE, note)
    for error in archive.damage:
        builder.warn(Severity.DAMAGE, str(error))
    add_attributes(builder, anchor)
    system, leaves, location_ids = add_system(path, builder, anchor)
    around = Surroundings(path.name, len(anchor.mirrors), system, tuple(leaves.tolist()))
    program = add_metrics(path, builder, anchor.metrics, around)
    add_contexts(path, builder, anchor)
    if anchor.attributes.get("CLUSTERING", "").strip() == "ON":
        text = "iterations are clustered: the call tree is shown as stored, with sums over the iterations of a cluster"
        builder.warn(Severity.NOTE, f"{path}: {text}")
    builder.set_values(_values(cube, builder, location_ids))
    known = cube.member_names()
    builder.attachments.update(
        {name: MemberBytes(archive, member) for name, member in archive.members.items() if name not in known}
    )
    return _without_void(builder.build(), program)


def _without_void(experiment: Experiment, program: Program) -> Experiment:
    """Return an experiment whose metrics that statements of the file mark as VOID are so. The statements run only where
    they name metrics that are there."""
    if not program.sets_metrics:
        return experiment
    void = program.voids(experiment.contexts)
    metrics = replace(experiment.metrics, rows=tuple(mark_void(m) if m.name in void else m for m in experiment.metrics))
    return replace(experiment, metrics=metrics, values=replace(experiment.values, metrics=metrics))


def _values(cube: CubeFile, builder: ExperimentBuilder, location_ids: Ints) -> CubeValues:
    order = builder.order()
    contexts = {False: order, True: order[wide_order(np.array(cube.anchor.cnode_parent, np.int32))]}
    n, top = len(location_ids), int(location_ids.max()) + 1 if len(location_ids) else 0
    widths = (n,) if n == top else (n, top)
    values: list[MetricValues | None] = []
    for raw in cube.anchor.metrics:
        rows = _rows(cube, builder, raw, len(order), widths)
        if rows is None:
            values.append(None)
            continue
        columns = location_ids if rows.width == top else np.arange(n)
        contexts_of_rows = contexts[type_of(raw) in WIDE][rows.position]
        values.append(MetricValues(rows, contexts_of_rows, columns, rows.type.aggregation))
    _find_partners(cube.anchor.metrics, values)
    return CubeValues(values, n, len(order))


def _find_partners(metrics: list[RawMetric], values: list[MetricValues | None]) -> None:
    """Find, for minima and maxima, the metrics that tell which of their cells were measured."""
    names = {raw.texts.get("uniq_name", "").strip(): k for k, raw in enumerate(metrics) if values[k] is not None}
    for name, k in names.items():
        one = values[k]
        assert one is not None
        if one.rows.type.absent and name.startswith(("min", "max")):
            one.visits = names.get(VISITS, -1)
            partner = names.get("max" + name.removeprefix("min"), -1) if name.startswith("min") else -1
            other = values[partner] if partner >= 0 else None
            if other is not None and other.aggregation == Aggregation.MAXIMUM != one.aggregation:
                one.partner = partner


def _rows(
    cube: CubeFile, builder: ExperimentBuilder, raw: RawMetric, n_cnodes: int, widths: tuple[int, ...]
) -> StoredRows | None:
    """Return where a metric's rows lie; None, and a record of why, where it has none or they cannot be read."""
    name, path = raw.texts.get("uniq_name", "").strip() or str(raw.id), cube.archive.file.path
    if is_void(raw) or type_of(raw) in DERIVED:
        return None
    type_ = value_type(raw.texts.get("dtype", ""))
    if type_of(raw) not in SCOPES or type_ is None:
        word = type_of(raw) if type_of(raw) not in SCOPES else raw.texts.get("dtype", "").strip()
        builder.warn(Severity.DAMAGE, f"{path}: metric {name} has the unknown type {word!r}; it has no values here")
        return None
    index, data = cube.pair(raw)
    if index is None and data is None:
        return None  # Score-P leaves out what has no value
    try:
        if index is None or data is None:
            there, missing = ("data", "index") if index is None else ("index", "data")
            raise InputError(f"{path}: metric {name} has {there} and no {missing}; it has no values here")
        rows = read_rows(cube.archive.file, index, data, type_, n_cnodes, widths)
    except CallgroveError as error:
        builder.warn(Severity.DAMAGE, str(error))
        return None
    for note in rows.notes:
        builder.warn(Severity.NOTE, note)
    for damage in rows.damage:
        builder.warn(Severity.DAMAGE, str(damage))
    return rows
