"""What an engine does: it knows tables by their columns, says which of these a query uses, takes them, and answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from callgrove.errors import CallgroveError, UsageError
from callgrove.model.table import Table
from callgrove.query.relations import Relation, Wanted

__all__ = ["ENGINES", "READ_ONLY", "Engine", "Failed", "Rows", "quoted"]

ENGINES = ("duckdb", "sqlite")
READ_ONLY = "only one SELECT can be asked: inputs are never modified, and no other file is read or written"
FETCHED = 1 << 14  # rows of one chunk of a result

Rows = Iterator[Sequence[tuple[Any, ...]]]


class Failed(CallgroveError):
    """What an engine says about a query, in its own words; `complaints` makes a sentence of it."""


class Engine(Protocol):
    """A database of its own, on disk where it is large, that goes away when it is closed."""

    @property
    def name(self) -> str: ...

    def declare(self, relations: Iterable[Relation]) -> None:
        """Tables that queries may name; they are empty so far."""

    def uses(self, query: str) -> Mapping[str, Wanted]:
        """The tables that a query reads, and which columns of each. What is no SELECT, or not one, is refused."""

    def load(self, relation: Relation, wanted: Wanted, tables: Iterable[Table]) -> None:
        """Fill these columns of a table; all others are NULL."""

    def ask(self, query: str) -> tuple[Sequence[str], Rows]:
        """The names of the columns, and the rows in chunks."""

    def close(self) -> None:
        """Delete everything."""


def refuse(found: str) -> UsageError:
    return UsageError(f"{found}: {READ_ONLY}")


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
