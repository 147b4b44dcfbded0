"""Metric rows of measurement files, and their values in the model's ids, read when asked for.

A stored number times the metric's period is the value. Nodes that became one context add up. Integers and reals of one
file come as two blocks, so that counters stay exact.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from callgrove.arrays import Array, Bools, Ids, Ints, Offsets, distinct
from callgrove.binary.files import FileBytes
from callgrove.errors import CallgroveError, CorruptFile
from callgrove.formats.hpcrun.measurement import DensePlace, Positions, SparsePlace, SparseValues, Stored
from callgrove.formats.hpcrun.primitives import TYPES, VALUE_TYPES, MetricDescription
from callgrove.formats.hpcrun.regions import readable
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.experiment import Severity
from callgrove.model.metrics import TIME_UNITS, Aggregation, Metric, Scope
from callgrove.model.values import Block, SparseBlock

__all__ = ["MeasurementValues", "MetricRows", "MetricTable", "ValuePart", "description_of", "is_int", "unit_of"]


LARGE = 1 << 18  # values that are given at once


@dataclass(frozen=True)
class MetricRows:
    """What the metrics of one table are in the experiment."""

    row: Ids
    period: Offsets
    is_real: Bools


@dataclass(frozen=True)
class ValuePart:
    """The values of one epoch: where they lie, and the final context of every node."""

    place: SparsePlace | DensePlace
    metrics: MetricRows
    node_id: npt.NDArray[np.uint32]
    context: Ids
    n_stored: int
    is_merged: bool  # several nodes may have become one context


class MeasurementValues:
    """The values of all profiles; profile k is the file `paths[k]`, of one part per epoch."""

    def __init__(self, paths: Sequence[Path], parts: Sequence[Sequence[ValuePart]]) -> None:
        self._paths, self._parts = paths, parts
        self.problems: list[CallgroveError] = []

    def n_stored(self) -> int | None:
        return sum(part.n_stored for parts in self._parts for part in parts)

    def summarises(self, metric: int) -> bool:
        return False

    def profile(self, profile: int, metrics: Ints | None = None) -> SparseBlock:
        return SparseBlock.concatenate(self._of_profile(profile, metrics))

    def context(self, context: int) -> SparseBlock:
        """Return the values of a context, looked up in every file whose tree has it."""
        blocks: list[SparseBlock] = []
        for profile, parts in enumerate(self._parts):
            if any((part.context == context).any() for part in parts):
                blocks += [b.take(b.context == context) for b in self._whole(profile, None)]
        return SparseBlock.concatenate([block for block in blocks if len(block)])

    def blocks(self, profiles: Ints | None = None, metrics: Ints | None = None) -> Iterator[Block]:
        for profile in range(len(self._paths)) if profiles is None else profiles.tolist():
            large = self._large(profile)
            parts = self._whole(profile, metrics) if large is None else self._in_parts(profile, *large, metrics)
            yield from (block for block in parts if len(block))

    def _large(self, profile: int) -> tuple[SparseValues, Positions] | None:
        """Return the values of a profile that is to be given in parts: a large one whose values need no adding up."""
        parts = self._parts[profile]
        if len(parts) != 1 or parts[0].is_merged or parts[0].n_stored <= LARGE:
            return None
        [part] = parts
        if not isinstance(part.place, SparsePlace):
            return None
        try:
            values, positions = part.place.view(FileBytes(self._paths[profile])), Positions(part.node_id)
        except CallgroveError:
            return None  # the whole says what is wrong
        known = int(values.metric.max()) < len(part.metrics.row)
        return (values, positions) if known and not values.repeats(positions) else None

    def _in_parts(
        self, profile: int, values: SparseValues, positions: Positions, metrics: Ints | None
    ) -> Iterator[SparseBlock]:
        [part] = self._parts[profile]
        for start in range(0, part.n_stored, LARGE):
            stored = values.part(start, start + LARGE).list_stored(positions, part.context)
            yield from (block for _, block in _split_by_type(stored, part, profile, metrics))

    def _whole(self, profile: int, metrics: Ints | None) -> list[SparseBlock]:
        """Return all blocks of a profile; none of a damaged one, which is a problem."""
        try:
            return self._of_profile(profile, metrics)
        except CallgroveError as error:  # damaged, or gone since it was opened
            self._record_problem(error)
            return []

    def _record_problem(self, error: CallgroveError) -> None:
        if str(error) not in map(str, self.problems):
            self.problems.append(error)

    def _of_profile(self, profile: int, metrics: Ints | None) -> list[SparseBlock]:
        """Return the blocks of a profile: integers, reals, or both."""
        file, parts = FileBytes(self._paths[profile]), self._parts[profile]
        by_type: dict[bool, list[SparseBlock]] = {}
        add_up = len(parts) > 1
        for part in parts:
            values = part.place.read(file)
            positions = Positions(part.node_id)
            stored = values.list_stored(positions, part.context)
            _refuse_unknown(stored.metric, part, file.path)
            add_up |= part.is_merged
            if values.repeats(positions):
                add_up |= self._has_repetition(values.list_stored(positions), part, file.path)
            for is_real, block in _split_by_type(stored, part, profile, metrics):
                by_type.setdefault(is_real, []).append(block)
        blocks = [SparseBlock.concatenate(same) if len(same) > 1 else same[0] for same in by_type.values()]
        return [_add_up(block) for block in blocks] if add_up else blocks

    def _has_repetition(self, stored: Stored, part: ValuePart, path: Path) -> bool:
        """Return whether a node has two values of one metric. They are added, and said."""
        keys = stored.node.astype(np.int64) * len(part.metrics.row) + stored.metric
        again = len(keys) - len(distinct(keys))
        if again:
            found = f"{again} more, which are added"
            self._record_problem(
                CorruptFile(path, "values", expected="one value for each node and metric", found=found)
            )
        return again > 0


def _refuse_unknown(metric: Array, part: ValuePart, path: Path) -> None:
    n = len(part.metrics.row)
    if len(metric) and int(metric.max()) >= n:
        row = int(np.flatnonzero(metric >= n)[0])
        expected, found = f"values of the {n} metrics of the table", f"value {row} of metric {metric[row]}"
        raise CorruptFile(path, "sparse metrics", offset=part.place.at, expected=expected, found=found)


def _split_by_type(
    stored: Stored, part: ValuePart, profile: int, metrics: Ints | None
) -> Iterator[tuple[bool, SparseBlock]]:
    """Yield blocks of integers and of reals, in that order. Nodes are contexts already."""
    table = part.metrics
    if metrics is not None:
        wanted = np.isin(table.row, metrics)
        if not wanted.all():
            kept = wanted[stored.metric]
            stored = Stored(stored.node[kept], stored.metric[kept], stored.raw[kept])
    if not len(stored.raw):
        return
    kinds = np.unique(table.is_real).tolist()
    for is_real in kinds:
        if len(kinds) == 1:
            node, metric, raw = stored
        else:
            of_kind = table.is_real[stored.metric] == is_real
            node, metric, raw = stored.node[of_kind], stored.metric[of_kind], stored.raw[of_kind]
        if len(raw):
            value = _scale_values(raw, metric, table.period, is_real)
            owner = np.full(len(raw), profile, np.int32)
            yield is_real, SparseBlock(owner, node, _rows(metric, table.row), value)


def _rows(metric: Array, row: Ids) -> Ids:
    """Return the rows of metrics. In most files metric k is row k, and a conversion is faster than a table."""
    same = np.array_equal(row, np.arange(len(row)))
    return metric.astype(np.int32) if same else row[metric]


def _scale_values(raw: Offsets, metric: Array, periods: Offsets, is_real: bool) -> Array:
    """Return the stored numbers times the period of their metric. Products beyond 64 bits become doubles."""
    stored = raw.view(np.float64) if is_real else raw
    if (periods == 1).all():
        return stored
    period = periods[metric]
    if not is_real and not (stored > np.uint64(2**64 - 1) // period).any():
        return stored * period
    with np.errstate(over="ignore", invalid="ignore"):  # values need not be finite
        product: Array = stored.astype(np.float64) * period.astype(np.float64)
    return product


def _add_up(block: SparseBlock) -> SparseBlock:
    """Return one row per context and metric, in the order of contexts."""
    order = np.lexsort((block.metric, block.context))
    block = block.take(order)
    fresh = np.ones(len(block), np.bool_)
    fresh[1:] = (block.context[1:] != block.context[:-1]) | (block.metric[1:] != block.metric[:-1])
    if fresh.all():
        return block
    first = np.flatnonzero(fresh)
    with np.errstate(over="ignore", invalid="ignore"):
        value = np.add.reduceat(block.value, first)
    return SparseBlock(block.profile[first], block.context[first], block.metric[first], value)


# -- metric rows -------------------------------------------------------------------------------------------------------
# Metrics of several files with equal names are one.
#
# What was measured has the scope `point`; a metric with a formula has no values and no scope, and its formula names
# rows of the experiment. Fields of a description that the model has no word for are attributes, so that they can be
# written again.


REFERENCE = re.compile(r"[#$@](\d+)")
SHOWN = (1, 2, 3)
HIDDEN, SHOW = 0, 1
INTEGERS = ("int", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "integer")
# attribute of a metric row -> field of a description, and what it is where nothing is said
KEPT = {
    "period": ("period", 1),
    "show": ("show", SHOW),
    "move2proc": ("move2proc", 0),
    "partner": ("partner", 0),
    "frequency": ("is_frequency", 0),
    "multiplexed": ("is_multiplexed", 0),
    "mean": ("threshold_mean", 0.0),
    "samples": ("n_samples", 0),
}


def unit_of(name: str) -> str:
    """Return the unit that hpcrun writes behind a metric's name: `CPUTIME (usec)`."""
    match = re.search(r"\(([^()]+)\)\s*$", name)
    return match[1] if match and (match[1] in TIME_UNITS or match[1] == "B") else ""


@dataclass
class MetricTable:
    """The metric rows of an experiment while its files are being opened. `keeps_ids`: there is one table only."""

    builder: ExperimentBuilder
    keeps_ids: bool
    rows: dict[str, int] = field(default_factory=dict)

    def add(self, metrics: Sequence[MetricDescription], where: str) -> MetricRows:
        """Return the rows of one file's table; new names get new rows."""
        names = self._names(metrics, where)
        known = len(self.rows)
        for name in names:
            self.rows.setdefault(name, len(self.rows))
        row = np.array([self.rows[name] for name in names], np.int32)
        for number, (name, metric) in enumerate(zip(names, metrics, strict=True)):
            if self.rows[name] == known:
                known += 1
                self.builder.add_metric(self._metric(name, metric, number, row.tolist()))
            if metric.period == 0:
                self.builder.warn(Severity.NOTE, f"{where}: the period of {name} is 0, which is taken for 1")
        period = np.array([metric.period or 1 for metric in metrics], np.uint64)
        return MetricRows(row, period, np.array([metric.is_real for metric in metrics], np.bool_))

    def _names(self, metrics: Sequence[MetricDescription], where: str) -> list[str]:
        """Return the names of a table; the second metric of one name gets a number, as values of both are kept
        apart."""
        names: list[str] = []
        for metric in metrics:
            name = readable(metric.name)
            if name in names:
                again = next(f"{name} [{k}]" for k in range(2, len(metrics) + 2) if f"{name} [{k}]" not in names)
                self.builder.warn(Severity.NOTE, f"{where}: there are several metrics {name}; one is called {again}")
                name = again
            names.append(name)
        return names

    def _metric(self, name: str, metric: MetricDescription, number: int, rows: list[int]) -> Metric:
        kept = [(word, getattr(metric, attribute), default) for word, (attribute, default) in KEPT.items()]
        attributes = [(word, repr(value)) for word, value, default in kept if value not in (None, default)]
        attributes += [("type", TYPES[metric.ty])] if metric.ty != 1 else []
        attributes += [("value type", str(metric.val_ty))] if metric.val_ty else []
        return Metric(
            name,
            Scope.NONE if metric.formula else Scope.POINT,
            unit=unit_of(name),
            dtype="real" if metric.is_real else "int",
            aggregation=Aggregation.NONE if metric.formula else Aggregation.SUM,
            description=readable(metric.description),
            visible=metric.show in SHOWN,
            show_percent=bool(metric.show_percent),
            number_format=readable(metric.format),
            formula=renumber_formula(readable(metric.formula), rows, "#"),
            source_id=number if self.keeps_ids else None,
            attributes=tuple(attributes),
        )


def renumber_formula(formula: str, rows: Sequence[int] | Mapping[int, int], sign: str) -> str:
    """Return a formula whose metrics have other numbers, and this sign before them: `#`, or `$` in 02.00."""

    def one(match: re.Match[str]) -> str:
        number = int(match[1])
        known = rows.get(number) if isinstance(rows, Mapping) else rows[number] if number < len(rows) else None
        return match[0] if known is None else f"{sign}{known}"

    return REFERENCE.sub(one, formula)


def is_int(metric: Metric) -> bool:
    """Return whether the row says that its values are integers."""
    return metric.dtype.lower() in INTEGERS


def description_of(metric: Metric, val_fmt: int, formula: str) -> MetricDescription:
    """Return what a file says of a metric row; `period` is the one that it was read with."""
    kept = dict(metric.attributes)
    numbers = {field_: _number(kept.get(word), default) for word, (field_, default) in KEPT.items()}
    if "show" not in kept:
        numbers["show"] = SHOW if metric.visible else HIDDEN
    types = {word: number for number, word in TYPES.items()}
    value_type = int(_number(kept.get("value type"), 0))
    return MetricDescription(
        metric.name,
        metric.description,
        types.get(kept.get("type", ""), 3 if formula else 1),
        value_type if value_type in VALUE_TYPES else 0,
        val_fmt,
        int(numbers["move2proc"]),
        int(numbers["partner"]),
        int(numbers["show"]),
        int(metric.show_percent),
        int(numbers["period"]),
        formula,
        metric.number_format,
        int(numbers["is_frequency"]),
        int(numbers["is_multiplexed"]),
        float(numbers["threshold_mean"]),
        int(numbers["n_samples"]),
    )


def _number(text: str | None, default: float) -> float:
    if text is None:
        return default
    try:
        return int(text) if text.isdigit() else float(text)
    except ValueError:
        return default
