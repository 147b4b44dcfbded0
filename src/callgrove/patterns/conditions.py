"""Conditions over columns: `time > 5% and name !~ /^MPI_/`.

    condition = Condition.parse("percent > 5 and name != 'main'")
    condition.choose(columns)         one bool for each row

What there is to ask comes from `Columns`: those of contexts (`columns.py`), or those of a table that is shown.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from callgrove.arrays import Array, Bools, Ids
from callgrove.patterns.syntax import Test

__all__ = ["Columns", "Condition", "NumberColumn", "TextColumn"]


@dataclass(frozen=True)
class NumberColumn:
    """A number for each row. `missing` says where there is none (None: nowhere; NaN is missing, too); `unit` is that of
    the numbers, and `whole` what a percentage in a condition is of, where there is such a thing."""

    values: Array
    missing: Bools | None = None
    unit: str = ""
    whole: float | None = None


@dataclass(frozen=True)
class TextColumn:
    """A text for each row: `texts[codes[row]]`, each text once; code -1 is missing."""

    codes: Ids
    texts: Sequence[str]

    @classmethod
    def of(cls, cells: Sequence[str | None]) -> TextColumn:
        """Return a column of these cells; None is missing."""
        raise NotImplementedError


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

    def read(self, name: str, scope: str) -> NumberColumn | TextColumn:
        """Return one that `find` gave; `scope` is "excl", "incl" or, where the condition says nothing, empty."""

    def mark(self, word: str) -> Bools | None:
        """Return which rows are a `leaf` or a `root`; None where rows are nothing of the kind."""


@dataclass(frozen=True)
class Condition:
    """A condition, read from a text."""

    text: str
    test: Test

    @classmethod
    def parse(cls, text: str, names: Collection[str] | None = None) -> Condition:
        """Return the condition that a text holds; `names` are all columns and metrics, where they are known already.
        Raises PatternError, which says at which character the text is wrong."""
        raise NotImplementedError

    def choose(self, columns: Columns) -> Bools:
        """Return which rows fulfil the condition. Raises PatternError for names that are not there, units that do not
        fit, and percentages of what has no whole."""
        raise NotImplementedError
