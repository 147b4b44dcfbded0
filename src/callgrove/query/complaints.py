"""What an engine says about a query, as one sentence, with the name that was probably meant."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

from callgrove.errors import Parameter, UsageError, worded
from callgrove.query.relations import Relation

__all__ = ["complaint", "meant"]

NO_TABLE = re.compile(r"no such table: (?:main\.|temp\.)?(.+)|Table with name (\S+) does not exist")
NO_COLUMN = re.compile(
    r'no such column: (.+)|Referenced column "([^"]+)" (?:was )?not found|'
    r'(?:Table|Values list) "[^"]*" does not have a column named "([^"]+)"'
)
AMBIGUOUS = re.compile(r'ambiguous column name: (.+)|Ambiguous reference to column name "([^"]+)"')
NO_ACCESS = re.compile(r"file system operations are disabled|Permission Error|not authorized")
RESERVED = {  # words of SQL that are names here: as a bare word an engine may take them for something else
    "values": 'write "values" with its quotes, or stored_values',
    "end": 'write "end" with its quotes',
    "offset": 'write "offset" with its quotes',
}
SYNTAX = re.compile(r"syntax error")
TABLES = worded(Parameter("sql_tables()"), " lists them all")
MOST_OWNERS = 4  # tables that are named where many have a column


def complaint(text: str, relations: Mapping[str, Relation], query: str) -> UsageError:
    """Return the error to raise for what an engine said about a query."""
    first = next((line.strip() for line in text.splitlines() if line.strip()), "it failed")
    if found := NO_TABLE.search(first):
        name = found[1] or found[2]
        return UsageError(f"there is no table {name!r}; ", meant(name, relations))
    if hint := _missing_quotes(relations, query):
        return UsageError(f"the query cannot be run: {_without_class(first)}; {hint}")
    if found := NO_COLUMN.search(first):
        name = (found[1] or found[2] or found[3]).rpartition(".")[2].strip('"')
        return UsageError(_no_column(name, relations, query))
    if found := AMBIGUOUS.search(first):
        name = (found[1] or found[2]).rpartition(".")[2]
        return UsageError(f"several tables of the query have a column {name!r}; write which one, like t.{name}")
    if NO_ACCESS.search(first):
        return UsageError("a query reads the tables of its inputs only: no other file can be read or written")
    remedy = f"; {hint}" if SYNTAX.search(first) and (hint := _reserved_word(query)) else ""
    return UsageError(f"the query cannot be run: {_without_class(first)}{remedy}")


def meant(name: str, known: Iterable[str]) -> str:
    """Return a question after the nearest other name, or where to find them all."""
    near = _nearest(name, known)
    return f"did you mean {near!r}?" if near else TABLES


def _nearest(name: str, known: Iterable[str]) -> str:
    """Return the nearest name that is not the same one; empty where none is near."""
    others = {other.lower(): other for other in known if other.lower() != name.lower()}
    near = get_close_matches(name.lower(), list(others), 1)
    return others[near[0]] if near else ""


def _no_column(name: str, relations: Mapping[str, Relation], query: str) -> str:
    """Say where a column is missing, and what is near: one of the same tables, else a table that has it."""
    words = _words(query)
    used = [relation for relation in relations.values() if relation.name in words]
    where = f" in {_listed([one.name for one in used], ' or ')}" if used else ""
    owners = [one.name for one in relations.values() if name.lower() in map(str.lower, one.names)]
    near = _nearest(name, {column: None for one in used or relations.values() for column in one.names})
    said = f"there is no column {name!r}{where}"
    if any(one.name in owners for one in used):  # another table of the query has it
        own = [one.name for one in used if one.name in owners]
        return f"there is no column {name!r} where it is asked for; it is one of {_listed(own)}"
    if near:
        return f"{said}; did you mean {near!r}?"
    if f'"{name}"' in query:
        return f"{said}; a text is written in single quotes: '{name}'"
    return worded(f"{said}; ", f"it is one of {_listed(owners)}" if owners else TABLES)


def _listed(names: Sequence[str], last: str = " and ") -> str:
    """Return names as a list in words, shortened where there are many."""
    if len(names) > MOST_OWNERS:
        names = [*names[:MOST_OWNERS], f"{len(names) - MOST_OWNERS} more"]
    return last.join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _words(query: str) -> set[str]:
    return set(re.findall(r"\w+", query.lower()))


def _without_class(text: str) -> str:
    """Return `Parser Error: syntax error ...` without its first words."""
    return re.sub(r"^[A-Z][A-Za-z ]* Error: ", "", text).rstrip(".!")


def _missing_quotes(relations: Mapping[str, Relation], query: str) -> str:
    """Say that a name of several words, like `AVERAGE (nsec)`, needs quotes, where a query has it without."""
    bare = _unquoted(query)
    names = {name for relation in relations.values() for name in relation.names if not name.isidentifier()}
    return next((f'write "{name}" with its quotes' for name in sorted(names) if name.lower() in bare), "")


def _reserved_word(query: str) -> str:
    """Say that a word of SQL which is a name here needs quotes, where a query has it without."""
    return next((RESERVED[word] for word in re.findall(r"\w+", _unquoted(query)) if word in RESERVED), "")


def _unquoted(query: str) -> str:
    """Return a query in small letters without its quoted names and texts."""
    return re.sub(r"""\"[^\"]*\"|'[^']*'""", "", query.lower())
