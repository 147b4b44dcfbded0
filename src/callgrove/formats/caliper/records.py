"""What a Caliper file holds, whichever way it is written.

A record has a call path (the values of nested attributes), labels (other attributes that refer to nodes) and numbers.
Path and labels of a record together are its *head*; many records share one.

    path      main -> solve -> mpi.function=MPI_Send     a trie: parent, attribute, value
    labels    cupti.kernel.name=axpy                     what tells rows of one path apart
    numbers   sum#time.duration=1.5, mpi.rank=3          a column each, in tables of records that have the same ones
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntFlag
from functools import cached_property
from itertools import repeat

import numpy as np

from callgrove.arrays import ABSENT, Array, Ints, distinct_rows
from callgrove.formats.text_profiles import EXACT, LeftOut, parse_decimals

__all__ = [
    "MOST_LABELS",
    "Attribute",
    "DifferentHeads",
    "Global",
    "Head",
    "Labels",
    "PathTrie",
    "Properties",
    "RecordTable",
    "Records",
    "Signature",
    "Vocabulary",
    "make_table",
    "parse_numbers",
]

MOST_LABELS = 32  # of one record
NUMERIC = ("int", "uint", "double")
Labels = tuple[tuple[str, str], ...]  # attribute and value
Head = tuple[int, Labels]  # path and labels


class Properties(IntFlag):
    """What Caliper says of an attribute; bits that are not named here do not matter to a reader."""

    AS_VALUE = 1
    HIDDEN = 128
    NESTED = 256
    GLOBAL = 512


@dataclass(frozen=True, eq=False)
class Attribute:
    """A key of records. `facts` are what the file says about it: unit, alias, and what Adiak knows."""

    name: str
    type: str = ""
    properties: int = 0
    facts: tuple[tuple[str, str], ...] = ()

    @cached_property
    def is_number(self) -> bool:
        return self.type in NUMERIC

    @cached_property
    def is_nested(self) -> bool:
        return bool(self.properties & Properties.NESTED)

    @cached_property
    def is_hidden(self) -> bool:
        return bool(self.properties & Properties.HIDDEN)

    @cached_property
    def is_global(self) -> bool:
        return bool(self.properties & Properties.GLOBAL)

    def fact(self, name: str) -> str:
        """Return what the file says about it, empty where it says nothing."""
        return dict(self.facts).get(name, "")


@dataclass(frozen=True)
class Global:
    """A fact about the whole run."""

    attribute: Attribute
    value: str


@dataclass
class PathTrie:
    """Call paths, parents first: path k is `value[k]` of `attribute[k]` below path `parent[k]`."""

    parent: list[int] = field(default_factory=list)
    attribute: list[str] = field(default_factory=list)
    value: list[str] = field(default_factory=list)
    _known: dict[tuple[int, str, str], int] = field(default_factory=dict)

    def child(self, parent: int, attribute: str, value: str) -> int:
        """Return the path that goes one step further; -1 is the empty one."""
        key = parent, attribute, value
        number = self._known.setdefault(key, len(self.parent))
        if number == len(self.parent):
            self.parent.append(parent)
            self.attribute.append(attribute)
            self.value.append(value)
        return number

    def join(self, first: int, second: int) -> int:
        """Return the path that goes through one and then through another."""
        if ABSENT in (first, second):
            return max(first, second)
        steps = []
        while second >= 0:
            steps.append((self.attribute[second], self.value[second]))
            second = self.parent[second]
        for attribute, value in reversed(steps):
            first = self.child(first, attribute, value)
        return first


@dataclass(frozen=True)
class RecordTable:
    """Records that have the same numbers: the head of each, and a column for each attribute. `known_heads` are its
    different heads where they are known already, as for tables of files that are alike."""

    head: Ints
    columns: dict[str, Array]
    known_heads: DifferentHeads | None = None


@dataclass(frozen=True, eq=False)
class DifferentHeads:
    """The different heads of records, in order, and the number of each record's among these."""

    heads: tuple[int, ...]
    number: Ints

    @classmethod
    def of(cls, head: Ints) -> DifferentHeads:
        """Return those of the records with these heads."""
        (heads,), number = distinct_rows(head)
        return cls(tuple(heads.tolist()), number)


Signature = tuple[Attribute, ...]


def make_table(
    head: Ints, attributes: Signature, columns: Sequence[Array], known_heads: DifferentHeads | None = None
) -> RecordTable:
    """Return the table of records with these heads, attributes and values."""
    named: dict[str, Array] = {}
    for attribute, column in zip(attributes, columns, strict=True):
        if attribute.name not in named and not attribute.is_hidden:  # the first of several values of one attribute
            named[attribute.name] = _as_integers(column) if attribute.type != "double" else column
    return RecordTable(head, named, known_heads)


def parse_numbers(texts: list[bytes], n_columns: int) -> Array | None:
    """Return the numbers of records as a matrix; None where a record has others, one is not a number, or too large to
    be exact."""
    if set(map(bytes.count, texts, repeat(b"="))) - {n_columns - 1}:
        return None
    text = b"=".join(texts)
    numbers = parse_decimals(text, b"=")
    if numbers is None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                numbers = np.fromstring(text, np.float64, sep="=")
            except (ValueError, DeprecationWarning):
                return None
    if len(numbers) != len(texts) * n_columns or not bool((np.abs(numbers) < EXACT).all()):
        return None
    return numbers.reshape(len(texts), n_columns)


def _as_integers(column: Array) -> Array:
    """Return a column of integers as such; numbers with a fraction stay what they are."""
    if column.dtype.kind == "i":
        return column
    with np.errstate(invalid="ignore"):  # what is not an integer of 64 bits differs from what becomes of it
        whole = column.astype(np.int64)
    return whole if bool((whole == column).all()) else column


@dataclass
class Vocabulary:
    """What files of one program share: call paths, and heads of records."""

    paths: PathTrie = field(default_factory=PathTrie)
    heads: list[Head] = field(default_factory=list)
    _number_of: dict[Head, int] = field(default_factory=dict)

    def head(self, path: int, labels: Labels) -> int:
        """Return the number of a head."""
        number = self._number_of.setdefault((path, labels), len(self.heads))
        if number == len(self.heads):
            self.heads.append((path, labels))
        return number


@dataclass
class Records:
    """All that one file holds."""

    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    tables: list[RecordTable] = field(default_factory=list)
    attributes: dict[str, Attribute] = field(default_factory=dict)
    globals: dict[str, Global] = field(default_factory=dict)
    left_out: LeftOut = field(default_factory=LeftOut)

    @property
    def paths(self) -> PathTrie:
        return self.vocabulary.paths

    @property
    def heads(self) -> list[Head]:
        return self.vocabulary.heads

    def head(self, path: int, labels: Labels) -> int:
        """Return the number of a head."""
        return self.vocabulary.head(path, labels)
