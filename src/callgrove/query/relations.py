"""What a table is to SQL: columns with types, and a way to read some of them in chunks.

Nothing is read before a query needs it, and then only the columns that it uses. Ids are dense in every input; where
several inputs are asked at once, `Field.counts` says which ids a column holds, so that they can be numbered through.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from callgrove.model.arrays import Array
from callgrove.model.experiment import Experiment
from callgrove.model.study import Study
from callgrove.model.table import Table

__all__ = ["NOTHING", "Coded", "Field", "Opened", "Relation", "Type", "Wanted", "fields_of", "unique_names"]

NOTHING = int(np.iinfo(np.int64).min)  # an absent integer, in columns made here

Opened = Experiment | Study
Wanted = frozenset[str]


class Type(Enum):
    """What SQL may expect in a column; integers have 64 bits."""

    INTEGER = "INTEGER"
    REAL = "REAL"
    TEXT = "TEXT"


@dataclass(frozen=True)
class Field:
    """A column. `counts` names what its ids count (profile, context, metric, run, span), empty where it holds none."""

    name: str
    type: Type
    counts: str = ""


@dataclass(frozen=True)
class Relation:
    """A table that queries can name. `read` gives chunks that have at least the columns wanted."""

    name: str
    title: str
    fields: tuple[Field, ...]
    read: Callable[[Opened, Wanted], Iterator[Table]]
    of_experiments: bool = True
    of_studies: bool = False
    n_rows: Callable[[Opened], int | None] = lambda opened: None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields)

    def has(self, opened: Opened) -> bool:
        """Does this input have such a table at all?"""
        return self.of_studies if isinstance(opened, Study) else self.of_experiments


class Coded(Sequence[str | None]):
    """Texts by number; -1 is none. A column of names costs four bytes a row until it is printed."""

    def __init__(self, codes: Array, strings: Sequence[str | None]) -> None:
        self.codes, self.strings = codes, strings

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, index: int | slice) -> str | Coded | None:  # type: ignore[override]
        if isinstance(index, slice):
            return Coded(self.codes[index], self.strings)
        code = int(self.codes[index])
        return self.strings[code] if code >= 0 else None

    def compact(self) -> tuple[Array, list[str | None]]:
        """Codes into a list of the texts that occur; such a list is short where the whole one may be long."""
        used, codes = np.unique(self.codes, return_inverse=True)
        return codes.reshape(-1), [self.strings[code] if code >= 0 else None for code in used.tolist()]


def fields_of(text: str, counts: dict[str, str] | None = None) -> tuple[Field, ...]:
    """Columns from words like `profile name:t value:r`: integers, texts and reals."""
    types = {"": Type.INTEGER, "t": Type.TEXT, "r": Type.REAL}
    words = [word.partition(":") for word in text.split()]
    return tuple(Field(name, types[letter], (counts or {}).get(name, "")) for name, _, letter in words)


def unique_names(names: Sequence[str]) -> tuple[str, ...]:
    """The same names, numbered where one was there before: to SQL, `n` and `N` are one."""
    taken: set[str] = set()
    out = []
    for name in names:
        new, number = name, 1
        while new.lower() in taken:
            number += 1
            new = f"{name}_{number}"
        taken.add(new.lower())
        out.append(new)
    return tuple(out)
