"""Conditions over columns: `time > 5% and name !~ /^MPI_/`.

    condition = Condition.parse("percent > 5 and name != 'main'")
    condition.choose(columns)         one bool for each row

What there is to ask comes from `Columns`: those of contexts (`columns.py`), or those of a table that is shown. A value
that is missing fulfils no comparison, not even `!=`; `is missing` asks for it. Times convert, so `2ms` can be compared
with seconds; a percentage is of the whole of the column beside it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Protocol

import numpy as np

from callgrove.arrays import Array, Bools, Ids
from callgrove.model.unit_algebra import Unit, factor_between
from callgrove.patterns.expressions import match_texts
from callgrove.patterns.paths import CallPaths
from callgrove.patterns.syntax import (
    ColumnValue,
    Comparison,
    Joined,
    Mark,
    Missing,
    NameMatch,
    NameTest,
    Negation,
    NumberValue,
    PatternError,
    Test,
    TextValue,
    Value,
    parse_condition,
)

__all__ = [
    "Column",
    "Columns",
    "Condition",
    "NumberColumn",
    "TextColumn",
    "columns_named",
    "find_nearest",
]


@dataclass(frozen=True)
class NumberColumn:
    """A number for each row. `missing` says where there is none (None: nowhere; NaN is missing, too); `unit` is that of
    the numbers, and `whole` what a percentage in a condition is of, where there is such a thing."""

    values: Array
    missing: Bools | None = None
    unit: str = ""
    whole: float | None = None

    @property
    def present(self) -> Bools:
        """Where there is a number."""
        there: Bools = np.ones(len(self.values), np.bool_) if self.missing is None else ~self.missing
        return there & ~np.isnan(self.values) if self.values.dtype.kind == "f" else there


@dataclass(frozen=True)
class TextColumn:
    """A text for each row: `texts[codes[row]]`, each text once; code -1 is missing."""

    codes: Ids
    texts: Sequence[str]

    @classmethod
    def of(cls, cells: Iterable[str | None]) -> TextColumn:
        """Return a column of these cells; None is missing."""
        known: dict[str, int] = {}
        codes = [-1 if cell is None else known.setdefault(cell, len(known)) for cell in cells]
        return cls(np.array(codes, np.int32), list(known))

    @property
    def present(self) -> Bools:
        """Where there is a text."""
        there: Bools = self.codes >= 0
        return there

    def where(self, holds: Callable[[Sequence[str]], Bools]) -> Bools:
        """Return the rows whose text fulfils a test, which sees every text once."""
        return np.append(holds(self.texts), np.False_)[self.codes]

    def match(self, test: NameTest, text: str) -> Bools:
        """Return the rows whose text a regular expression finds something in; `text` is what it was read from."""
        return self.where(lambda texts: match_texts(test, text, texts))

    def cells(self) -> Iterator[str | None]:
        """Yield the text of each row."""
        return ((*self.texts, None)[code] for code in self.codes.tolist())


Column = NumberColumn | TextColumn | CallPaths


class Columns(Protocol):
    """What a condition can ask."""

    @property
    def n_rows(self) -> int:
        """How many rows there are."""

    @property
    def names(self) -> Sequence[str]:
        """What there is, for messages: columns and metrics."""

    def find(self, name: str) -> Sequence[str]:
        """Return the columns or metrics that a name fits: one, none or, where it is not clear, several."""

    def read(self, name: str, scope: str) -> Column:
        """Return one that `find` gave; `scope` is "excl", "incl" or, where the condition says nothing, empty."""

    def mark(self, word: str) -> Bools | None:
        """Return which rows are a `leaf` or a `root`; None where rows are nothing of the kind."""


def find_nearest(name: str, names: Iterable[str]) -> str:
    """Return the nearest of some names as a question at the end of a sentence; nothing where none is near."""
    known = {text.lower(): text for text in names}
    near = get_close_matches(name.lower()[:80], list(known), 1, 0.5)
    return f"; did you mean {known[near[0]]!r}?" if near else ""


def columns_named(test: Test) -> list[ColumnValue]:
    """Return the columns and metrics that a condition names."""
    if isinstance(test, Joined):
        return [column for part in test.parts for column in columns_named(part)]
    if isinstance(test, Negation):
        return columns_named(test.part)
    values = (
        (test.left, test.right) if isinstance(test, Comparison) else () if isinstance(test, Mark) else (test.value,)
    )
    return [value for value in values if isinstance(value, ColumnValue)]


@dataclass(frozen=True)
class Condition:
    """A condition, read from a text."""

    text: str
    test: Test

    @classmethod
    def parse(cls, text: str, names: Collection[str] | None = None) -> Condition:
        """Return the condition that a text holds; `names` are all columns and metrics, where they are known already.
        Raises PatternError, which says at which character the text is wrong."""
        condition = cls(text, parse_condition(text))
        for column in columns_named(condition.test):
            if names is not None and column.name not in names:
                raise _say_unknown(text, column, names)
        return condition

    def choose(self, columns: Columns) -> Bools:
        """Return which rows fulfil the condition. Raises PatternError for names that are not there, units that do not
        fit, and percentages of what has no whole."""
        return _Evaluation(self.text, columns).of(self.test)


def _say_unknown(text: str, column: ColumnValue, names: Iterable[str]) -> PatternError:
    what = "metric" if column.scope else "metric or column"
    near = find_nearest(column.name, names)
    return PatternError(f"there is no {what} {column.name!r}", text, column.position, near)


# -- which rows fulfil a condition -------------------------------------------------------------------------------------


Operand = Column | NumberValue | TextValue
COMPARE: dict[str, np.ufunc] = {
    "=": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


class _Evaluation:
    """A condition over the rows of some columns, each of which is read once."""

    def __init__(self, text: str, columns: Columns) -> None:
        self.text, self.columns = text, columns
        self._known: dict[tuple[str, str], Column] = {}

    def fail(self, what: str, position: int, hint: str = "") -> PatternError:
        return PatternError(what, self.text, position, hint)

    def of(self, test: Test) -> Bools:
        if isinstance(test, Joined):
            first, *others = test.parts
            chosen = self.of(first)
            for part in others:
                chosen = chosen & self.of(part) if test.word == "and" else chosen | self.of(part)
            return chosen
        if isinstance(test, Negation):
            return ~self.of(test.part)
        if isinstance(test, Mark):
            return self._mark(test)
        if isinstance(test, Missing):
            there: Bools = self._column(test.value).present == test.negated
            return there
        return self._compare(test) if isinstance(test, Comparison) else self._match(test)

    def _mark(self, test: Mark) -> Bools:
        rows = self.columns.mark(test.word)
        if rows is None:
            raise self.fail(f"rows are not contexts, so none is a {test.word}", test.position)
        return rows

    def _column(self, value: Value) -> Column:
        """Return the column that a value must be."""
        operand = self._read(value)
        if isinstance(operand, (NumberValue, TextValue)):
            raise self.fail("expected a column or a metric", value.position)
        return operand

    def _read(self, value: Value) -> Operand:
        if not isinstance(value, ColumnValue):
            return value
        key = value.name, value.scope
        if key not in self._known:
            names = self.columns.find(value.name)
            if not names:
                raise _say_unknown(self.text, value, self.columns.names)
            if len(names) > 1:
                fitting = " and ".join(map(repr, names[:5]))
                raise self.fail(f"{value.name!r} fits {fitting}", value.position, "; name one of them")
            column = self.columns.read(names[0], value.scope)
            if value.scope and not isinstance(column, NumberColumn):
                raise self.fail(f"{value.name!r} is a text, no metric,", value.position)
            self._known[key] = column
        return self._known[key]

    def _match(self, test: NameMatch) -> Bools:
        column = self._column(test.value)
        if isinstance(column, NumberColumn):
            raise self.fail("expected a text, not a number,", test.value.position)
        chosen: Bools = (column.match(test.expression, self.text) != test.negated) & column.present
        return chosen

    def _compare(self, test: Comparison) -> Bools:
        self._require_quotes(test.left, test.right)
        self._require_quotes(test.right, test.left)
        left, right = self._read(test.left), self._read(test.right)
        if isinstance(left, (NumberValue, TextValue)):
            if isinstance(right, (NumberValue, TextValue)):
                raise self.fail("expected a column or a metric on one side", test.position)
            turned = Comparison(test.position, MIRRORED.get(test.sign, test.sign), test.right, test.left)
            return self._compare(turned)
        if not isinstance(left, NumberColumn):
            return self._compare_texts(test, left, right)
        if not isinstance(right, (NumberColumn, NumberValue)):
            raise self.fail("expected a number, not a text,", test.right.position)
        number = self._convert(test, left, right)
        with np.errstate(invalid="ignore"):
            chosen: Bools = COMPARE[test.sign](left.values, number) & left.present
        return chosen & right.present if isinstance(right, NumberColumn) else chosen

    def _require_quotes(self, known: Value, word: Value) -> None:
        """Refuse a word that nothing is called, where a text could stand."""
        if not isinstance(known, ColumnValue) or not isinstance(word, ColumnValue) or word.scope:
            return
        names = self.columns.find(word.name)
        if not names and self.columns.find(known.name) and not isinstance(self._read(known), NumberColumn):
            hint = f"; a text stands in single quotes: '{word.name}'"
            raise self.fail(f"there is no metric or column {word.name!r}", word.position, hint)

    def _compare_texts(self, test: Comparison, left: TextColumn | CallPaths, right: Operand) -> Bools:
        if isinstance(right, (NumberColumn, NumberValue)):
            raise self.fail("expected a text, not a number,", test.right.position, "; texts stand in single quotes")
        if test.sign not in ("=", "!="):
            raise self.fail(f"texts have no order, so {test.sign!r}", test.position, " cannot compare them")
        equal, present = test.sign == "=", left.present
        if isinstance(right, TextValue):
            return left.where(lambda texts: np.array([(text == right.text) == equal for text in texts], np.bool_))
        same = np.fromiter(map(operator.eq, left.cells(), right.cells()), np.bool_, len(present))
        chosen: Bools = (same == equal) & present & right.present
        return chosen

    def _convert(self, test: Comparison, left: NumberColumn, right: NumberColumn | NumberValue) -> object:
        """Return what the left column is compared with, in its unit."""
        if isinstance(right, NumberColumn):
            return right.values * self._factor(test, left.unit, right.unit) if right.unit != left.unit else right.values
        if right.unit == "%":
            if left.whole is None or np.isnan(left.whole):
                raise self.fail("there is no whole that a percentage could be of", right.position)
            return right.number / 100 * left.whole
        return right.number * self._factor(test, left.unit, right.unit) if right.unit else right.number

    def _factor(self, test: Comparison, unit: str, other: str) -> float:
        """Return how many of a unit one of the other is."""
        factor = factor_between(Unit.parse(unit), Unit.parse(other))
        if factor is None:
            pair = f"{unit or 'a number without unit'} with {other or 'a number without unit'}"
            raise self.fail(f"cannot compare {pair}", test.right.position)
        return factor
