"""Metrics: one measured quantity in one scope, of plain numbers or of values with several fields.

A quantity (`CPUTIME (sec)`) has a row for each scope in which a file stores it. `-m` names the quantity.

    inclusive   this context and all below
    exclusive   this context without what it calls or contains
    point       the very instruction
    function    here and what is reached by lexical nesting only
    lexical     like function, but loops without the loops inside them

Values may be composite (a tuple, a histogram): a structured dtype with a scalar reading.

A derived metric is a formula over others: of a user, or in the language of a tool. `Metric.derivation` evaluates it
where its values are asked for; a formula that nothing evaluates is kept, listed and written again, and asking for its
values is an error (`Metrics.require_values`). Nothing shows such a metric as zero. The same holds of a metric that has
its place in a tree of metrics, and that nobody measured (`Metric.is_missing`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from callgrove.arrays import Array, Bools, Floats, Ints, absent_stays, new_numbers
from callgrove.errors import NotEvaluated, NotMeasured, UsageError

if TYPE_CHECKING:
    from callgrove.model.derived import Derivation

__all__ = [
    "COMPLEX",
    "COUNTS",
    "FORMULA",
    "MEASUREMENT",
    "MOST_MEASUREMENTS",
    "MOST_TERMS",
    "NOT_MEASURED",
    "RATE",
    "SCALE_FUNC",
    "TAU_ATOMIC",
    "TERM",
    "Aggregation",
    "Column",
    "Composite",
    "Metric",
    "Metrics",
    "Scope",
    "composite_named",
    "histogram",
    "n_doubles",
    "time_unit",
]


COMPUTED = "callgrove: computed"  # an attribute of metrics whose values nobody measured: "" or "in part"
FORMULA = "formula"  # an attribute of metrics that have values: the text of what was computed
NOT_MEASURED = "callgrove: not measured"  # an attribute; its value is the parameter of `remap` that computes it, or ""


class Scope(StrEnum):
    """What of the tree a value covers."""

    INCLUSIVE = "inclusive"
    EXCLUSIVE = "exclusive"
    POINT = "point"
    FUNCTION = "function"
    LEXICAL = "lexical"
    NONE = ""  # computed from other metrics after aggregation: it has no scope of its own

    @property
    def word(self) -> str:
        return self.value


class Aggregation(StrEnum):
    """How values of several profiles, or of a subtree, become one."""

    SUM = "sum"
    MINIMUM = "min"
    MAXIMUM = "max"
    COMPOSITE = "composite"  # field by field, by the composite's own rule
    NONE = "none"

    @property
    def ufunc(self) -> np.ufunc:
        """The combining function; composites and underived values have none."""
        function = {"sum": np.add, "min": np.minimum, "max": np.maximum}.get(self.value)
        if function is None:
            raise UsageError(f"values with aggregation {self.value!r} cannot be combined as numbers")
        return function

    @property
    def neutral(self) -> float:
        """What an absent value counts as."""
        return {"min": np.inf, "max": -np.inf}.get(self.value, 0.0)

    def combine_at(self, out: Array, places: Array, values: Array) -> None:
        """Combine values into `out`, each at its place; several may have the same one."""
        with np.errstate(invalid="ignore", over="ignore"):  # values need not be finite
            self.ufunc.at(out, places, values)

    def combine_all(self, values: Array) -> float:
        """Return all values combined into one; 0 where there is none."""
        with np.errstate(invalid="ignore", over="ignore"):
            total = float(self.ufunc.reduce(values)) if len(values) else self.neutral
        return total if total != self.neutral else 0.0


@dataclass(frozen=True)
class Composite:
    """A composite value type: its fields, its scalar reading and how two of them combine (None: they cannot).

    `combine` works on arrays of any shape; a value of zeros stands for nothing measured and changes no other.
    `describe` gives the fields of one value where not all of them mean something; without it, they are shown as they
    are.
    """

    dtype: np.dtype[Any]
    scalar: Callable[[Array], Floats]
    combine: Callable[[Array, Array], Array] | None = None
    describe: Callable[[np.void], dict[str, Any]] | None = None


@dataclass(frozen=True)
class Metric:
    """One row of the metric table.

    `statistic` is empty for what profiles measure; rows that only stored summaries carry (count, min, ...) name it.
    `derivation` is what evaluates a formula over other metrics, whose text is `formula`; None where nothing does.
    `parent` is the row of the enclosing metric where metrics nest (Cube), -1 otherwise.
    `dtype` is the file's own spelling of the value type. `summary_id` is the id by which stored summaries, and the
    formulas of columns, know this row; `source_id` is that of profiles. `id_of_quantity` says that `source_id` is the
    metric's in every scope (Cube), and not that of this scope alone (HPCToolkit).
    """

    name: str
    scope: Scope
    unit: str = ""
    dtype: str = "double"
    aggregation: Aggregation = Aggregation.SUM
    description: str = ""
    url: str = ""
    visible: bool = True
    show_percent: bool = True
    number_format: str = ""
    parent: int = -1
    formula: str = ""
    statistic: str = ""
    source_id: int | None = None
    id_of_quantity: bool = False
    composite: Composite | None = None
    attributes: tuple[tuple[str, str], ...] = ()
    summary_id: int | None = None
    derivation: Derivation | None = None

    @property
    def label(self) -> str:
        """The name with the scope, as messages give them."""
        return f"{self.name} ({self.scope.word})" if self.scope.word else self.name

    @property
    def is_time(self) -> bool:
        return time_unit(self.unit) is not None

    @property
    def may_be_time(self) -> bool:
        """True for a time, and for what is called one and has no unit."""
        return self.is_time or (not self.unit and CALLED_TIME.search(self.name) is not None)

    @property
    def is_combined(self) -> bool:
        """False where no rule makes one number of several values, as for means that a profiler stored."""
        return self.composite is None and (self.aggregation != Aggregation.NONE or self.derivation is not None)

    @property
    def is_derived(self) -> bool:
        """True for a formula over other metrics. Summaries have formulas too, but also values."""
        return bool(self.formula) and not self.statistic

    @property
    def is_missing(self) -> bool:
        """True for a metric that has its place among others, and that nobody measured."""
        return any(key == NOT_MEASURED for key, _ in self.attributes)

    def as_missing(self, computed_with: str = "") -> Metric:
        """Return this metric as one that nobody measured."""
        return replace(self, attributes=(*self.as_measured().attributes, (NOT_MEASURED, computed_with)))

    def as_measured(self) -> Metric:
        """Return this metric as one that has values."""
        return self._without(NOT_MEASURED)

    def as_computed(self, part: str = "") -> Metric:
        """Return this metric as one that has values which are stored, and which were computed: all, or "in part"."""
        return replace(self, attributes=(*self._without(NOT_MEASURED, COMPUTED).attributes, (COMPUTED, part)))

    def _without(self, *keys: str) -> Metric:
        return replace(self, attributes=tuple(pair for pair in self.attributes if pair[0] not in keys))

    @property
    def kind(self) -> str:
        """How it came about: measured, computed from single threads, or by a formula before or after sums are made; or
        that it did not."""
        if self.is_derived or self.is_missing:
            return self.when_derived if self.is_derived else "not measured"
        said = dict(self.attributes)
        part = said.get(COMPUTED, "" if FORMULA in said else None)
        return "measured" if part is None else f"computed {part}".rstrip()

    @property
    def has_values(self) -> bool:
        """False for a formula that nothing evaluates, and for what nobody measured."""
        if self.is_missing:
            return False
        return not self.is_derived if self.derivation is None else not self.derivation.reason

    @property
    def when_derived(self) -> str:
        """When a derived metric is computed: before values are added up (prederived) or afterwards."""
        if self.derivation is not None:
            return self.derivation.when.value
        return f"prederived, {self.scope.word}" if self.scope != Scope.NONE else "postderived"


@dataclass(frozen=True)
class Column:
    """A column that the profiler wants shown: a formula over metric ids of the file, per scope."""

    name: str
    scope: Scope
    formula: str
    description: str = ""
    statistic: str = ""
    visible: bool = True
    show_percent: bool = False
    number_format: str = ""
    source_id: int | None = None
    partner: int | None = None


@dataclass(frozen=True)
class Metrics:
    """All metric rows, and the columns that the file asks to show."""

    rows: tuple[Metric, ...] = ()
    columns: tuple[Column, ...] = field(default=())

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Metric:
        return self.rows[index]

    def __iter__(self) -> Iterator[Metric]:
        return iter(self.rows)

    def take(self, rows: Ints) -> Metrics:
        """Return some of the rows, in ascending order. One whose parent is not among them becomes a root."""
        new = absent_stays(new_numbers(rows, len(self)))
        kept = (self.rows[row] for row in rows.tolist())
        return replace(self, rows=tuple(replace(metric, parent=int(new[metric.parent])) for metric in kept))

    @property
    def quantities(self) -> tuple[str, ...]:
        """Names of what profiles measure, in the file's order, each once."""
        return tuple(dict.fromkeys(m.name for m in self.rows if not m.statistic))

    def find(self, quantity: str, scope: Scope) -> int | None:
        """Return the row of a quantity in a scope."""
        return next((row for row in self._rows_of.get(quantity, ()) if self.rows[row].scope == scope), None)

    @cached_property
    def _rows_of(self) -> dict[str, list[int]]:
        """The rows of each quantity: files may have very many metrics."""
        out: dict[str, list[int]] = {}
        for row, metric in enumerate(self.rows):
            if not metric.statistic:
                out.setdefault(metric.name, []).append(row)
        return out

    def scopes(self, quantity: str) -> tuple[Scope, ...]:
        """Return the scopes in which a quantity is stored."""
        return tuple(self.rows[row].scope for row in self._rows_of.get(quantity, ()))

    def first(self, quantity: str) -> Metric:
        """Return any row of a quantity: unit, description and aggregation are the same in all."""
        return self.rows[self._rows_of[quantity][0]]

    @cached_property
    def derived(self) -> tuple[str, ...]:
        """Quantities that are formulas over others, in the file's order: no value of them is stored."""
        return tuple(dict.fromkeys(m.name for m in self.rows if m.is_derived))

    def with_operands(self, quantities: Iterable[str]) -> set[str]:
        """Return some quantities and all that their formulas need, directly or through other formulas."""
        known: set[str] = set()
        waiting = list(quantities)
        while waiting:
            name = waiting.pop()
            if name not in known and name in self._rows_of:
                known.add(name)
                derivation = self.first(name).derivation
                waiting += () if derivation is None else (*derivation.operands, *derivation.companions)
        return known

    @cached_property
    def unavailable(self) -> tuple[str, ...]:
        """Derived quantities whose values are not known: nothing evaluates their formulas, or those of operands."""
        unknown: dict[str, bool] = {}
        stack = list(reversed(self.derived))
        while stack:
            name = stack[-1]
            operands = self._operands_of(name)
            todo = [operand for operand in operands if operand not in unknown]
            if name not in unknown and todo:
                unknown[name] = True  # what is computed from itself has no value
                stack += todo
                continue
            stack.pop()
            has_none = any(not self.rows[row].has_values for row in self._rows_of.get(name, ()))
            unknown[name] = has_none or any(unknown[operand] for operand in operands)
        return tuple(name for name in self.derived if unknown[name])

    def _operands_of(self, quantity: str) -> list[str]:
        """Return the quantities that a derived one is computed from, as far as there are such."""
        formulas = [self.rows[row].derivation for row in self._rows_of.get(quantity, ())]
        named = (name for formula in formulas if formula is not None for name in formula.operands)
        return [name for name in dict.fromkeys(named) if name in self._rows_of]

    def require_values(self, quantity: str) -> None:
        """Raise NotEvaluated where a quantity is a formula that nothing evaluates, or that nobody measured: its values
        are unknown, not zero."""
        for metric in (self.rows[row] for row in self._rows_of.get(quantity, ())):
            if metric.is_missing:
                raise NotMeasured(metric.name, dict(metric.attributes)[NOT_MEASURED])
            if not metric.has_values:
                reason = metric.derivation.reason if metric.derivation is not None else ""
                raise NotEvaluated(metric.name, metric.when_derived, metric.formula, reason)

    @cached_property
    def missing(self) -> tuple[str, ...]:
        """Quantities that nobody measured, in the file's order."""
        return tuple(dict.fromkeys(m.name for m in self.rows if m.is_missing and not m.statistic))

    def resolve(self, asked: str) -> str:
        """Return the quantity that a user means: its exact name, or the only one that contains the text. A text that
        defines a derived metric names that one."""
        names = self.quantities
        if asked in names:
            return asked
        if "=" in asked:
            from callgrove.model.definitions import find_defined_name  # which knows metrics

            if (name := find_defined_name(asked)) in self.derived:
                return name
        close = [name for name in names if asked.lower() in name.lower()]
        starts = [name for name in close if name.lower().startswith(asked.lower())]
        for candidates in (starts, close):
            if len(candidates) == 1:
                return candidates[0]
        if not close:
            from difflib import get_close_matches  # for errors only

            near = get_close_matches(asked.lower(), {name.lower(): name for name in names}, 3, 0.5)
            meant = [name for name in names if name.lower() in near]
            known = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
            hint = f"did you mean {' or '.join(meant)}?" if meant else f"there are {known or 'none'}"
            raise UsageError(f"there is no metric {asked!r}; {hint}")
        raise UsageError(f"{asked!r} fits several metrics: {', '.join(close[:12])}; name one of them")

    @property
    def shown(self) -> tuple[str, ...]:
        """Visible quantities with values (all, where none is), in the order of the file's columns, times first; of
        those without a unit, the ones that are called times."""
        order = {name: number for number, name in reversed(list(enumerate(c.name for c in self.columns)))}
        known = (name for name in self.quantities if name not in self.unavailable and name not in self.missing)
        names = sorted(known, key=lambda name: order.get(name, len(order)))
        visible = [name for name in names if self.first(name).visible] or names
        return tuple(sorted(visible, key=lambda name: (not self.first(name).is_time, not self.first(name).may_be_time)))

    def default(self, has_cost: Callable[[str], bool] | None = None) -> str:
        """Return the first of those shown that has any cost: a time if there is one, and a measured one if there is
        any."""
        shown = sorted(self.shown, key=lambda name: name in self.derived)
        if not shown:
            for name in self.derived[:1]:
                self.require_values(name)
            raise UsageError("the experiment has no metric")
        return next((name for name in shown if has_cost is None or has_cost(name)), shown[0])


CALLED_TIME = re.compile(r"(?<![^\W_])(time|duration|walltime)(?![^\W_])", re.IGNORECASE)
POWERS = re.compile(r"(2|10)\^(-?\d{1,2})\s*(\S.*)")
TIME_UNITS = {"sec": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "usec": 1e-6, "ns": 1e-9, "nsec": 1e-9}


def time_unit(unit: str) -> float | None:
    """Return the seconds per unit, where the unit is one of time."""
    factor, base = unit_factor(unit)
    seconds = TIME_UNITS.get(base.lower())
    return None if seconds is None else factor * seconds


def unit_factor(unit: str) -> tuple[float, str]:
    """Return a unit such as Score-P's `10^-6 s` or `2^10 Bytes` as a number and a plain unit."""
    match = POWERS.fullmatch(unit.strip())
    return (float(match[1]) ** int(match[2]), match[3]) if match else (1.0, unit.strip())


# -- composite values --------------------------------------------------------------------------------------------------
# Their names are those of profilers; for each: its fields, how two values combine, and its scalar reading.
#
# TAU_ATOMIC     n, min, max, sum, sum2      n, sum, sum2 add; min and max over those with n > 0     reads as: sum
# RATE           numerator, denominator      add                                                     the ratio
# COMPLEX        re, im                      add                                                     the modulus
# HISTOGRAM(k)   min, max, bins              bins add where the ranges are equal                     sum of the bins
# NDOUBLES(k)    values                      add                                                     their sum
# SCALE_FUNC     terms, measurements         cannot be combined                                      number of terms


MOST_FIELDS = 1 << 20
MOST_TERMS, MOST_MEASUREMENTS = 30, 10
TERM = np.dtype([("a", "<f8"), ("b", "<i4"), ("c", "<u4"), ("d", "<i4")])
MEASUREMENT = np.dtype([("procs", "<u4"), ("mean", "<f8"), ("width", "<f8")])
COUNTS = np.dtype([("n_terms", "<u4"), ("n_measurements", "<u4")])


def _add(a: Array, b: Array) -> Array:
    out = a.copy()
    with np.errstate(invalid="ignore", over="ignore"):  # values need not be finite
        for name in a.dtype.names or ():
            out[name] = a[name] + b[name]
    return out


def _atomic(a: Array, b: Array) -> Array:
    out = _add(a, b)
    for name, better in (("min", np.minimum), ("max", np.maximum)):
        both = better(a[name], b[name])
        out[name] = np.where(a["n"] == 0, b[name], np.where(b["n"] == 0, a[name], both))
    return out


def _ratio(values: Array) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        out: Floats = values["numerator"] / values["denominator"]
    return np.where(values["denominator"] == 0, 0.0, out)


def _modulus(values: Array) -> Floats:
    out: Floats = np.hypot(values["re"], values["im"])
    return out


def _histograms(a: Array, b: Array) -> Array:
    empty_a, empty_b = (~x["bins"].any(axis=-1) & (x["min"] == 0) & (x["max"] == 0) for x in (a, b))
    differ: Bools = ((a["min"] != b["min"]) | (a["max"] != b["max"])) & ~empty_a & ~empty_b
    if differ.any():
        raise UsageError("histograms over different ranges cannot be added: choose one profile and one context")
    out = _add(a, b)
    for name in ("min", "max"):
        out[name] = np.where(empty_a, b[name], a[name])
    return out


TAU_ATOMIC = Composite(
    np.dtype([("n", "<u4"), ("min", "<f8"), ("max", "<f8"), ("sum", "<f8"), ("sum2", "<f8")]),
    lambda values: values["sum"].astype(np.float64),
    _atomic,
)
RATE = Composite(np.dtype([("numerator", "<f8"), ("denominator", "<f8")]), _ratio, _add)
COMPLEX = Composite(np.dtype([("re", "<f8"), ("im", "<f8")]), _modulus, _add)
SCALE_FUNC = Composite(
    np.dtype([*COUNTS.descr, ("terms", TERM, MOST_TERMS), ("measurements", MEASUREMENT, MOST_MEASUREMENTS)]),
    lambda values: values["n_terms"].astype(np.float64),
    None,
    lambda value: _scale_function(value),
)


def histogram(n_bins: int) -> Composite:
    """Return a histogram of so many bins."""
    layout = np.dtype([("min", "<f8"), ("max", "<f8"), ("bins", "<f8", (n_bins,))])
    return Composite(layout, lambda values: values["bins"].sum(axis=-1), _histograms)


def n_doubles(count: int) -> Composite:
    """Return a type of so many doubles."""
    return Composite(np.dtype([("values", "<f8", (count,))]), lambda values: values["values"].sum(axis=-1), _add)


def _scale_function(value: np.void) -> dict[str, Any]:
    """Return the terms and measurements that are there, without the empty places after them."""
    return {
        "terms": [dict(zip("abcd", term, strict=True)) for term in value["terms"][: value["n_terms"]].tolist()],
        "measurements": [
            dict(zip(("procs", "mean", "width"), one, strict=True))
            for one in value["measurements"][: value["n_measurements"]].tolist()
        ],
    }


TUPLES = {"COMPLEX": COMPLEX, "RATE": RATE, "TAU_ATOMIC": TAU_ATOMIC, "SCALE_FUNC": SCALE_FUNC}
SIZED = {"HISTOGRAM": histogram, "NDOUBLES": n_doubles}


def composite_named(name: str) -> Composite | None:
    """Return the type of that name, such as `TAU_ATOMIC` or `HISTOGRAM(16)`; None where it is not known."""
    word = " ".join(name.split()).upper()
    sized = re.fullmatch(r"(HISTOGRAM|NDOUBLES) ?\( ?([0-9]{1,7}) ?\)", word)
    if sized and 0 < int(sized[2]) <= MOST_FIELDS:
        return SIZED[sized[1]](int(sized[2]))
    return TUPLES.get(word)
