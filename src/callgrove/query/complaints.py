"""What an engine says about a query, as one sentence, with the name that was probably meant."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from callgrove.errors import UsageError
from callgrove.query.relations import Relation

__all__ = ["complaint", "meant"]

NO_TABLE = re.compile(r"no such table: (?:main\.|temp\.)?(.+)|Table with name (\S+) does not exist")
NO_COLUMN = re.compile(
    r'no such column: (.+)|Referenced column "([^"]+)" (?:was )?not found|'
    r'(?:Table|Values list) "[^"]*" does not have a column named "([^"]+)"'
)
NO_ACCESS = re.compile(r"file system operations are disabled|Permission Error|not authorized")
RESERVED = {"values": 'write "values" with its quotes, or stored_values', "end": 'write "end" with its quotes'}
NEAR = re.compile(r'near "([^"]+)"')


def complaint(text: str, relations: Mapping[str, Relation]) -> UsageError:
    """The error to raise."""
    first = next((line.strip() for line in text.splitlines() if line.strip()), "it failed")
    if found := NO_TABLE.search(first):
        name = found[1] or found[2]
        return UsageError(f"there is no table {name!r}; {meant(name, relations)}")
    if found := NO_COLUMN.search(first):
        name = (found[1] or found[2] or found[3]).rpartition(".")[2]
        columns = {column: None for relation in relations.values() for column in relation.names}
        return UsageError(f"there is no column {name!r}; {meant(name, columns)}")
    if NO_ACCESS.search(first):
        return UsageError("a query reads the tables of its inputs only: no other file can be read or written")
    return UsageError(f"the query cannot be run: {_without_class(first)}{_hint(first)}")


def meant(name: str, known: Iterable[str]) -> str:
    """The nearest name, or where to find them all."""
    near = get_close_matches(name.lower(), list(known), 1)
    return f"did you mean {near[0]!r}?" if near else "`callgrove sql PATH --tables` lists them all"


def _without_class(text: str) -> str:
    """`Parser Error: syntax error ...` without its first words."""
    return re.sub(r"^[A-Z][A-Za-z ]* Error: ", "", text).rstrip(".!")


def _hint(text: str) -> str:
    found = NEAR.search(text)
    remedy = RESERVED.get(found[1].lower()) if found else None
    return f"; {remedy}" if remedy else ""
