"""Books: what a stream was given and what it passed on, added up at both ends, so that a loss cannot go unnoticed.

A `Ledger` adds up what passes one place: per metric row the total and the number of values; samples; spans by kind with
their time; amounts: the bytes that were copied and allocated, counters of kernels, values over time. `Books` compares
two of them. A difference that nothing accounts for is a defect of this program, and is reported as such.

Totals come in two measures. Where values keep their contexts and scopes, all of them are added up. Where a target nests
contexts otherwise or stores other scopes, totals are costs, as `top` shows them, which every tree and scope agrees on:

    exclusive, point    every context of the tree
    function            contexts that are nested in no other one
    inclusive           roots

Contexts that the tree does not list (elided ones) have no cost of their own; writers say what becomes of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np

from callgrove.arrays import Array, Bools, Floats, Ids, Ints
from callgrove.errors import count_of
from callgrove.model.contexts import ContextTree
from callgrove.model.metrics import Aggregation, Metric, Metrics, Scope
from callgrove.model.traces.events import SideTable, SpanChunk, SpanKind
from callgrove.model.values import Block, DenseBlock, is_set

__all__ = [
    "ALLOCATED",
    "COPIED",
    "COUNTED",
    "MEASURED",
    "SAMPLES",
    "SPANS",
    "VALUES",
    "Amount",
    "Books",
    "KeepsBooks",
    "Ledger",
    "Totals",
    "is_equal",
    "select_counted_contexts",
]

VALUES, SAMPLES, SPANS = "values", "samples", "spans"
COPIED, ALLOCATED, COUNTED = "bytes of copies", "bytes of allocations", "counters of spans"  # amounts
MEASURED = "values over time"  # another one: what belongs to no span
AMOUNT_OF = {"copy": (COPIED, "bytes"), "alloc": (ALLOCATED, "bytes"), "counter": (COUNTED, "value")}  # by side table
NEAR = 1e-9  # of the sum of magnitudes: sums in another order differ in the last digits
PIECE, FEW_VALUES = 1 << 16, 1 << 14  # values to add up at once: what caches hold, and what waits for more
FEW_ROWS, N_SUMS = 8, 8  # rows that are counted one by one, and sums of each
ADDED = (Scope.EXCLUSIVE, Scope.POINT, Scope.NONE, Scope.FUNCTION, Scope.INCLUSIVE)  # scopes that have a cost


def select_counted_contexts(tree: ContextTree) -> dict[Scope, Bools]:
    """Return for each scope the contexts whose values add up to the cost of the whole tree."""
    listed = tree.listed
    return {
        Scope.EXCLUSIVE: listed,
        Scope.POINT: listed,
        Scope.NONE: listed,
        Scope.FUNCTION: listed & (tree.within < 0),
        Scope.INCLUSIVE: listed & (tree.parent < 0),
    }


class Totals:
    """The total, the sum of magnitudes and the number of values of each metric row.

    `rows` are the rows of the experiment that these rows stand for: a target may store one in several scopes. Without
    `counted`, the values of all contexts are added up. Values that cannot be added up (minima, maxima, composite ones,
    the lexical scope of costs) are counted only; `n_values` counts what differs from the neutral element, unless nobody
    asks for it (`counts_values`).
    """

    def __init__(
        self,
        metrics: Sequence[Metric],
        rows: Ids | None = None,
        counted: Mapping[Scope, Bools] | None = None,
        *,
        counts_values: bool = True,
    ) -> None:
        n = len(metrics)
        self._made_of, self.counts_values = (metrics, rows, counted), counts_values
        self.rows = np.arange(n, dtype=np.int32) if rows is None else rows
        self._total, self._magnitude, self._n_values = np.zeros(n), np.zeros(n), np.zeros(n, np.int64)
        self.adds_up = np.array([_adds_up(metric, counted is not None) for metric in metrics], np.bool_)
        self._neutral = np.array([metric.aggregation.neutral for metric in metrics])
        self._has_extremes = bool(np.isinf(self._neutral).any())
        self._line, self._counts, self._width = _table(metrics, counted)
        self._offsets = np.zeros(0, np.uint8)
        self._bins: tuple[Array, ...] = ()
        self._held: tuple[Array, ...] = ()
        self._n_held = 0

    def add(self, block: Block) -> None:
        """Add the values of a block."""
        if isinstance(block, DenseBlock):
            self.add_matrix(block.metric, block.contexts, block.matrix, block.neutral)
        else:
            self.add_rows(block.metric, block.context, block.value)

    def add_rows(self, metric: Ids, context: Ids, value: Array) -> None:
        """Add values, each with its metric row and its context."""
        if value.dtype.names is not None:
            self._n_values += np.bincount(metric[is_set(value)], minlength=len(self._total))
        elif self._counts is not None:
            all_positive = self._are_positive(value)
            self._count_values(metric, value, all_positive)
            chosen = np.flatnonzero(self._counts.take(self._find_cells(metric, context)))
            self._sum_values(metric.take(chosen), value.take(chosen), all_positive)
        elif len(metric) < FEW_VALUES:
            self._hold(metric, value)
        else:
            for start in range(0, len(metric), PIECE):
                self._add_piece(metric[start : start + PIECE], value[start : start + PIECE])

    def _find_cells(self, metric: Ids, context: Ids) -> Array:
        """Return the cells of the table of what counts, which is faster than one of two dimensions."""
        if self._width:
            return metric * np.int32(self._width) + context
        return self._line.take(metric) + context

    def _are_positive(self, value: Array) -> bool:
        """Return whether all values are above 0, and thus differ from the neutral element."""
        return not self._has_extremes and len(value) > 0 and bool(value.min() > 0)

    def _hold(self, metric: Ids, value: Array) -> None:
        """Keep a copy of few values until there are more, as every operation on an array has its price."""
        if not self._held:
            self._held = np.empty(PIECE, np.uint8 if len(self._total) <= FEW_ROWS else np.int32), np.empty(PIECE)
        if self._n_held + len(metric) > PIECE:
            self._settle()
        place = slice(self._n_held, self._n_held + len(metric))
        self._held[0][place], self._held[1][place] = metric, value
        self._n_held = place.stop

    def _settle(self) -> None:
        if n := self._n_held:
            self._n_held = 0
            self._add_piece(self._held[0][:n], self._held[1][:n])

    def _add_piece(self, metric: Ids, value: Array) -> None:
        """Add values of all contexts."""
        if metric[0] == metric[len(metric) // 2] == metric[-1] and (metric == metric[0]).all():
            self._add_numbers(int(metric[0]), value, self._neutral[metric[0]])
            return
        if len(self._total) <= FEW_ROWS:
            metric = metric.astype(np.uint8, copy=False)  # what takes few bytes is compared and counted faster
        all_positive = self._are_positive(value)
        self._count_values(metric, value, all_positive)
        self._sum_values(metric, value, all_positive)

    def _sum_values(self, metric: Ids, value: Array, all_positive: bool) -> None:
        numbers = value.astype(np.float64, copy=False)
        with np.errstate(invalid="ignore", over="ignore"):  # values need not be finite
            sums = self._sum_by_metric(metric, numbers)
            self._total += sums
            has_negative = not all_positive and len(numbers) and numbers.min() < 0
            self._magnitude += np.bincount(metric, np.abs(numbers), len(sums)) if has_negative else sums

    def _count_values(self, metric: Ids, value: Array, all_set: bool) -> None:
        """Count the values of each metric row that differ from the neutral element."""
        n = len(self._total)
        if not self.counts_values:
            return
        if not all_set:
            is_there: Bools = value != (self._neutral[metric] if self._has_extremes else 0)
            metric = metric if is_there.all() else metric[is_there]
        if n <= FEW_ROWS:  # several fast passes take less than one that counts by row
            counts = [int(np.count_nonzero(metric == row)) for row in range(n - 1)]
            self._n_values += [*counts, len(metric) - sum(counts)]
        else:
            self._n_values += np.bincount(metric, minlength=n)

    def _sum_by_metric(self, metric: Ids, numbers: Floats) -> Floats:
        """Return the sum of each metric row. Neighbours are added to different sums, which are then put together:
        adding to a number that was just changed has to wait for it. Totals of costs do without: an operation has
        some for each input, and the room that this takes is a megabyte."""
        n, length = len(self._total), len(metric)
        if self._counts is not None or metric.dtype != np.uint8:
            return np.bincount(metric, numbers, n).astype(np.float64, copy=False)
        if not len(self._offsets):
            self._offsets = (np.arange(PIECE) % N_SUMS * n).astype(np.uint8)
            self._bins = np.empty(PIECE, np.uint8), np.empty(PIECE, np.intp)
        narrow, bins = (buffer[:length] for buffer in self._bins)  # adding numbers of two types takes far longer
        bins[:] = np.add(metric, self._offsets[:length], narrow)
        sums: Floats = np.bincount(bins, numbers, N_SUMS * n).reshape(N_SUMS, n).sum(axis=0)
        return sums

    def _add_numbers(self, row: int, numbers: Array, neutral: float) -> None:
        """Add numbers of one metric row, all of which count: sums are faster than counting by row."""
        n_positive = int(np.count_nonzero(numbers > 0))
        rest_is_unset = not neutral and (n_positive == numbers.size or numbers.dtype.kind == "u")
        n_set = n_positive if rest_is_unset else int(np.count_nonzero(numbers != (neutral or 0)))
        self._n_values[row] += n_set if self.counts_values else 0
        with np.errstate(invalid="ignore", over="ignore"):
            total = _sum_numbers(numbers)
            self._total[row] += total
            self._magnitude[row] += total if n_positive == n_set else np.abs(numbers, dtype=np.float64).sum()

    def add_matrix(self, metric: int, contexts: Array, matrix: Array, neutral: float = 0.0) -> None:
        """Add values of one metric row over contexts x profiles."""
        is_composite = matrix.dtype.names is not None
        counts_all = self._counts is None or bool(self._counts[self._line[metric] + contexts].all())
        if counts_all and not is_composite and self.adds_up[metric]:
            numbers = matrix.ravel(order="K")  # several passes over a piece find it in the processor's cache
            for start in range(0, len(numbers), PIECE):
                self._add_numbers(metric, numbers[start : start + PIECE], neutral)
            return
        self._n_values[metric] += int(np.count_nonzero(is_set(matrix) if is_composite else matrix != (neutral or 0)))
        if self._counts is None or is_composite or not self.adds_up[metric]:
            return
        counted = matrix[self._counts[self._line[metric] + contexts]]
        with np.errstate(invalid="ignore", over="ignore"):
            total = _sum_numbers(counted)
            has_negative = counted.size and counted.dtype.kind != "u" and counted.min() < 0
            self._total[metric] += total
            self._magnitude[metric] += np.abs(counted, dtype=np.float64).sum() if has_negative else total

    def enter(self, row: int, total: float, n_values: int, magnitude: float | None = None) -> None:
        """Add what was added up elsewhere, of values with this sum of magnitudes (None: that of the total)."""
        self._total[row] += total
        self._magnitude[row] += abs(total) if magnitude is None else magnitude
        self._n_values[row] += n_values

    @property
    def total(self) -> Floats:
        """The total of each metric row."""
        self._settle()
        return self._total

    @property
    def magnitude(self) -> Floats:
        """The sum of the magnitudes of each metric row's values."""
        self._settle()
        return self._magnitude

    @property
    def n_values(self) -> Ints:
        """How many values of each metric row differ from the neutral element."""
        self._settle()
        return self._n_values

    @property
    def are_costs(self) -> bool:
        """Tell whether these are costs, and not the sums of all values."""
        return self._counts is not None

    def like(self) -> Totals:
        """Return empty totals in the same measure."""
        return Totals(*self._made_of)

    def agrees(self, row: int, other: Totals, place: int | None = None) -> bool:
        """Tell whether a row has the total of a row, or of another one, of other totals, but for rounding."""
        there = row if place is None else place
        magnitude = float(max(self.magnitude[row], other.magnitude[there]))
        return is_equal(float(self.total[row]), float(other.total[there]), magnitude)


def _sum_numbers(numbers: Array) -> float:
    """Return the sum of all numbers; integers that cannot overflow are added up as such, which is faster."""
    if numbers.dtype.kind in "iu" and numbers.size and _is_summable(numbers):
        return float(numbers.sum())
    return float(numbers.sum(dtype=np.float64))


def _is_summable(integers: Array) -> bool:
    least = 0 if integers.dtype.kind == "u" else int(integers.min())
    return max(int(integers.max()), -least) * integers.size < 1 << 63


def _adds_up(metric: Metric, is_cost: bool) -> bool:
    is_sum = metric.aggregation == Aggregation.SUM and metric.composite is None and not metric.statistic
    return is_sum and (not is_cost or metric.scope in ADDED)


def _table(metrics: Sequence[Metric], counted: Mapping[Scope, Bools] | None) -> tuple[Ints, Bools | None, int]:
    """Return where the line of each metric row begins in a table, and the table: which contexts count. Its last
    line counts none. Few rows have a line each, in their order: cells are found by multiplying with its width, which is
    0 where several share a line."""
    if counted is None:
        return np.zeros(len(metrics), np.int64), None, 0
    scopes, n_contexts = list(counted), len(next(iter(counted.values())))
    lines = [*counted.values(), np.zeros(n_contexts, np.bool_)]
    chosen = [scopes.index(m.scope) if _adds_up(m, is_cost=True) else len(scopes) for m in metrics]
    if len(metrics) > FEW_ROWS or (len(metrics) + 1) * n_contexts >= 1 << 31:
        return np.array(chosen, np.int64) * n_contexts, np.concatenate(lines), 0
    own = [*(lines[number] for number in chosen), lines[-1]]
    return np.arange(len(metrics)) * n_contexts, np.concatenate(own), n_contexts


@dataclass
class Amount:
    """How many values of one sort there were, and what they add up to; integers as long as all of them are."""

    n: int = 0
    total: float = 0
    magnitude: float = 0

    def add(self, values: Array, times: int = 1) -> None:
        """Add values; what is not a finite number is only counted."""
        self.n += times * len(values)
        if values.dtype.kind in "iu":
            total = _sum_of(values.astype(np.int64, copy=False))
            self.enter(0, times * total, abs(total))
        else:
            finite = values[np.isfinite(values)].astype(np.float64, copy=False)
            with np.errstate(over="ignore", invalid="ignore"):
                self.enter(0, times * float(finite.sum()), float(np.abs(finite).sum()))

    def enter(self, n: int, total: float, magnitude: float) -> None:
        """Add what was added up elsewhere."""
        self.n += n
        self.total += total
        self.magnitude += magnitude

    def agrees(self, other: Amount) -> bool:
        """Tell whether another amount is the same, but for rounding."""
        if isinstance(self.total, int) and isinstance(other.total, int):
            return self.n == other.n and self.total == other.total
        magnitude = float(max(self.magnitude, other.magnitude))
        return self.n == other.n and is_equal(float(self.total), float(other.total), magnitude)


@dataclass
class Ledger:
    """What passed one place of a stream. What is added `times` -1 is taken out: a message accounts for it."""

    totals: Totals = field(default_factory=lambda: Totals(()))
    n_samples: int = 0
    n_spans: Ints = field(default_factory=lambda: np.zeros(len(SpanKind), np.int64))
    span_ns: Floats = field(default_factory=lambda: np.zeros(len(SpanKind)))
    amounts: dict[str, Amount] = field(default_factory=dict)

    def add_spans(self, chunk: SpanChunk, times: int = 1) -> None:
        """Add spans, by their kind. Those with times that no clock shows, or no end, have no time."""
        kind, n = chunk["kind"], len(SpanKind)
        start, end = chunk["start_ns"], chunk["end_ns"]
        is_time: Bools = (start >= 0) & (end >= start)
        lasting = (end - start).astype(np.float64) if is_time.all() else np.where(is_time, end - start, 0.0)
        self.n_spans += times * np.bincount(kind, minlength=n)
        self.span_ns += times * np.bincount(kind, lasting, n)

    def add_amount(self, what: str, values: Array, times: int = 1) -> None:
        """Add values of an amount."""
        self.amount(what).add(values, times)

    def amount(self, what: str) -> Amount:
        """Return an amount to add to."""
        return self.amounts.setdefault(what, Amount())

    def add_side(self, name: str, table: SideTable, rows: Ints | None = None, times: int = 1) -> None:
        """Add what rows of a side table say of bytes or counters: sizes that are known, and counters of whole spans, as
        those sampled meanwhile are values over time. Other side tables have no amounts."""
        what, column = AMOUNT_OF.get(name, ("", ""))
        if column not in table.columns:
            return
        values = np.asarray(table.columns[column])
        kept: Bools = table.is_whole if name == "counter" else values >= 0
        values, kept = (values, kept) if rows is None else (values[rows], kept[rows])
        self.add_amount(what, values if kept.all() else values[kept], times)

    def merge(self, other: Ledger) -> None:
        """Add samples, spans and amounts that passed elsewhere."""
        self.n_samples += other.n_samples
        self.n_spans += other.n_spans
        self.span_ns += other.span_ns
        for what, amount in other.amounts.items():
            self.amount(what).enter(amount.n, amount.total, amount.magnitude)


@dataclass
class Books:
    """What a stream was given, what it passed on, and which differences a message to the user accounts for.

    `one_to_one`: as many values are passed on as were given, zeros aside. Where a target computes what it stores, and
    numbers of values say nothing, `n_taken` counts the values of each row that this is computed from.
    """

    metrics: Metrics
    given: Ledger
    passed: Ledger
    one_to_one: bool = False
    n_taken: Ints | None = None
    has_elided: bool = False
    excused: set[str] = field(default_factory=set)
    excused_rows: set[int] = field(default_factory=set)

    @classmethod
    def of(cls, metrics: Metrics, tree: ContextTree | None = None, *, one_to_one: bool = False) -> Books:
        """Return empty books: of all values, or of their costs over a tree."""
        counted = None if tree is None else select_counted_contexts(tree)
        given, passed = (Ledger(Totals(tuple(metrics), None, counted)) for _ in range(2))
        has_elided = tree is not None and tree.n_listed < len(tree)
        return cls(metrics, given, passed, one_to_one, has_elided=has_elided)

    def excuse(self, *items: str) -> None:
        """Do not compare VALUES, SAMPLES, SPANS or an amount: a `lost:` line says what becomes of them."""
        self.excused.update(items)

    def excuse_rows(self, rows: Iterator[int] | Sequence[int]) -> None:
        """Do not compare these metric rows: a `lost:` line names them."""
        self.excused_rows.update(int(row) for row in rows)

    def differences(self) -> Iterator[str]:
        """Yield a sentence for each difference that nothing accounts for."""
        if VALUES not in self.excused:
            yield from self._of_values()
        if SAMPLES not in self.excused and self.given.n_samples != self.passed.n_samples:
            yield f"{SAMPLES}: {self.given.n_samples:,} were given, {self.passed.n_samples:,} were passed on"
        if SPANS not in self.excused:
            yield from self._of_spans()
        yield from self._of_amounts()

    def _of_values(self) -> Iterator[str]:
        given, passed = self.given.totals, self.passed.totals
        for row in np.flatnonzero(given.n_values).tolist():
            if row in self.excused_rows:
                continue
            places = np.flatnonzero(passed.rows == row).tolist()
            if not places or (passed.counts_values and not passed.n_values[places].any()):
                if given.total[row] if given.adds_up[row] else not self.has_elided:  # which have no place in a tree
                    yield f"{self.metrics[row].label}: none of {given.n_values[row]:,} values was passed on"
                continue
            n_taken = None if self.metrics[row].composite is not None else self.n_taken  # readings may be zero
            if n_taken is not None and (m := int(n_taken[row])) != given.n_values[row]:
                many = count_of(given.n_values[row], "value was", "values were")
                yield f"{self.metrics[row].label}: {many} given, {m:,} were passed on"
                continue
            for place in places:
                yield from self._of_row(row, place)

    def _of_row(self, row: int, place: int) -> Iterator[str]:
        given, passed = self.given.totals, self.passed.totals
        if given.adds_up[row] and passed.adds_up[place] and not given.agrees(row, passed, place):
            before, after = given.total[row], passed.total[place]
            yield f"{self.metrics[row].label}: {before:g} was given, {after:g} was passed on"
            return
        if self.one_to_one and (n := given.n_values[row]) != (m := passed.n_values[place]):
            yield f"{self.metrics[row].label}: {count_of(n, 'value was', 'values were')} given, {m:,} were passed on"

    def _of_spans(self) -> Iterator[str]:
        given, passed = self.given, self.passed
        for kind in SpanKind:
            if given.n_spans[kind] != passed.n_spans[kind]:
                n, m = int(given.n_spans[kind]), int(passed.n_spans[kind])
                yield f"{SPANS} of kind {kind.word}: {n:,} were given, {m:,} were passed on"
            elif not is_equal(float(given.span_ns[kind]), float(passed.span_ns[kind]), float(given.span_ns[kind])):
                before, after = given.span_ns[kind], passed.span_ns[kind]
                yield f"{SPANS} of kind {kind.word}: {before:,.0f} ns were given, {after:,.0f} ns were passed on"

    def _of_amounts(self) -> Iterator[str]:
        given, passed = self.given.amounts, self.passed.amounts
        for what in sorted({*given, *passed} - self.excused):
            before, after = given.get(what, Amount()), passed.get(what, Amount())
            if before.agrees(after):
                continue
            unit = "" if before.n == after.n else " values"
            n, m = (before.total, after.total) if before.n == after.n else (before.n, after.n)
            yield f"{what}: {n:,}{unit} were given, {m:,}{unit} were passed on"


def _sum_of(integers: Array) -> int:
    """Return an exact sum, also where it does not fit into 64 bits."""
    halves = integers >> 32, integers & 0xFFFFFFFF
    return (int(halves[0].sum()) << 32) + int(halves[1].sum())


def is_equal(before: float, after: float, magnitude: float) -> bool:
    """Tell whether two sums of values with this sum of magnitudes are equal, but for rounding."""
    if not (np.isfinite(before) and np.isfinite(after)):
        return bool(np.isfinite(before) == np.isfinite(after))
    return abs(before - after) <= NEAR * max(abs(before), abs(after), magnitude)


@runtime_checkable
class KeepsBooks(Protocol):
    """Values that are computed from other experiments, and can tell what became of these."""

    def start_books(self) -> None:
        """Begin to add up what is read and what is made of it; everything must be streamed once from now on."""

    def differences(self) -> Iterator[str]:
        """Yield a sentence for each difference that nothing accounts for."""
