"""Spans of a folder, and what only some of them have, read when they are asked for.

Names are texts in the file; here they become numbers of one list that only grows. A part can be had by itself, with its
profiles and spans numbered from 0, and sent to another process: only paths and small arrays go there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from functools import cached_property, partial
from typing import Any

import numpy as np

from callgrove.errors import CorruptFile, UsageError
from callgrove.formats.columnar.folder import Folder
from callgrove.formats.columnar.index import TableIndex
from callgrove.formats.columnar.manifest import REMEDY
from callgrove.formats.columnar.schema import MANIFEST, SIDE
from callgrove.formats.columnar.spans_writer import JSON, KINDS, TEXTS, counter_table, side_columns
from callgrove.formats.columnar.stored_table import Group, StoredTable
from callgrove.formats.columnar.texts import unescaped
from callgrove.model.arrays import ABSENT, Array, Bools, Ids, Ints
from callgrove.model.texts import Names
from callgrove.model.traces import LABEL, SPAN_COLUMNS, Counters, SideTable, SpanChunk, Split, Traces, Window

__all__ = ["FolderSpans", "StoredSides", "read_counters", "read_spans", "split_of"]

MOST_PARTS = 1 << 24
INTEGERS = ("int8", "int16", "int32", "int64", "uint64")
NUMBERS = {"double": np.dtype(np.float64), **{name: np.dtype(name) for name in INTEGERS}}
TEXT_COLUMNS = ("category", "name", LABEL)


class StoredSides:
    """The side tables of all parts: where the rows of each lie."""

    def __init__(self, folder: Folder) -> None:
        described = folder.manifest.get(folder.path, "sides", dict, {})
        self._described = {name: _checked_columns(folder, columns) for name, columns in described.items()}
        self._tables = {n: folder.table(n, side_columns(columns)) for n, columns in self._described.items()}
        table = folder.table("span_sides")
        rows = table.whole()
        parts, firsts, lengths = (rows.numbers(name).tolist() for name in ("part", "first", "rows"))
        self._places: dict[tuple[str, int], tuple[int, int]] = {}
        for side, part, first, n in zip(rows.names("side"), parts, firsts, lengths, strict=True):
            known = self._tables.get(SIDE + side)
            if known is None or first < 0 or n < 0 or first + n > folder.manifest.tables[known.name]:
                raise table.damage("rows", "rows of side tables that there are", f"{n} of {side} from {first}")
            self._places[side, part] = first, first + n

    def only(self, part: int) -> StoredSides:
        """Those of one part: less to send."""
        own = copy(self)
        own._places = {key: place for key, place in self._places.items() if key[1] == part}
        return own

    def read(self, side: str, part: int) -> SideTable | None:
        """None where the part has no such table."""
        if (side, part) not in self._places:
            return None
        first, last = self._places[side, part]
        table = self._tables[SIDE + side]
        names = [column.name for column in table.columns]
        groups = [table.group(number, names) for number in table.groups_of(first, last)]
        skipped = first - int(table.first_rows[table.groups_of(first, last)[0]]) if groups else 0
        own = slice(skipped, skipped + last - first)
        span = np.concatenate([np.empty(0, np.int64), *(group.numbers("span") for group in groups)])[own]
        described = self._described[SIDE + side]
        return SideTable(span, {name: self._cells(groups, name, kind, box)[own] for name, kind, box in described})

    def _cells(self, groups: Sequence[Group], name: str, kind: str, container: str) -> Any:
        if kind in NUMBERS:
            return np.concatenate([np.empty(0, NUMBERS[kind]), *(group.numbers(name) for group in groups)])
        cells: list[Any]
        if kind == TEXTS:
            cells = [tuple(unescaped(cell or [])) for group in groups for cell in group.cells(name)]
        else:
            cells = [cell for group in groups for cell in group.texts(name)]
            if kind == JSON:
                cells = [None if cell is None else json.loads(cell) for cell in cells]
        if container == "tuple":
            return tuple(cells)
        out = np.empty(len(cells), object)
        out[:] = cells
        return out


def _checked_columns(folder: Folder, columns: Any) -> list[tuple[str, str, str]]:
    try:
        found = [(str(name), str(kind), str(container)) for name, kind, container in columns]
        if all(kind in (*NUMBERS, "text", TEXTS, JSON) for _, kind, _ in found):
            return found
    except (TypeError, ValueError):
        pass
    path = folder.path / MANIFEST
    raise CorruptFile(path, "sides", expected="columns with types", found=repr(columns)[:80], remedy=REMEDY)


class FolderSpans:
    """All spans, or those of one part. `profile_of` gives the number of a stored profile here, -1 where it is not one
    of these; its last entry is for spans without a profile."""

    def __init__(
        self,
        table: StoredTable,
        index: TableIndex | None,
        sides: StoredSides | None,
        parts: Sequence[Ints],
        profile_of: Ids,
        n_contexts: int,
        strings: StoredTable | None = None,
        alone: int | None = None,
    ) -> None:
        self._table, self._index, self._sides = table, index, sides
        self._parts, self._profile_of, self._n_contexts, self._alone = parts, profile_of, n_contexts, alone
        self._strings = strings

    @cached_property
    def _names(self) -> Names:
        """Texts keep the numbers that they had, so that what is written from here is what was written before. A part
        by itself does without: it needs only its own."""
        names = Names()
        if self._strings is not None:
            with suppress(CorruptFile):  # other numbers do as well
                names.numbers(self._strings.whole().names("text"))
        return names

    @property
    def strings(self) -> Sequence[str]:
        return self._names.all

    def part(self, number: int) -> FolderSpans:
        """One part by itself."""
        own = self._parts[number]
        profile_of = np.full(len(self._profile_of), ABSENT, np.int32)
        profile_of[own] = np.arange(len(own))
        index = None if self._index is None else self._index.only(own)
        sides = None if self._sides is None else self._sides.only(number)
        return FolderSpans(self._table, index, sides, [np.arange(len(own))], profile_of, self._n_contexts, alone=number)

    @cached_property
    def _first(self) -> int:
        """The number of the first span of the part that this is."""
        if self._alone is None:
            return 0
        groups = self._groups(None, None)
        return int(self._table.group(groups[0], ("span",)).numbers("span")[0]) if len(groups) else 0

    def _stored(self, profiles: Ints) -> Ints:
        """From profiles here to those of the file."""
        return np.flatnonzero(np.isin(self._profile_of, profiles) & (self._profile_of >= 0))

    def _groups(self, profiles: Ints | None, window: Window | None) -> list[int]:
        if self._index is None:
            return list(range(self._table.n_groups))
        own = None if profiles is None and self._alone is None else self._profiles(profiles)
        return [int(number) for number in self._index.groups(own, window)]

    def _profiles(self, profiles: Ints | None) -> Ints:
        return np.flatnonzero(self._profile_of >= 0) if profiles is None else self._stored(profiles)

    def count(self) -> int:
        if self._alone is None:
            return self._table.n_rows
        return sum(len(chunk["span"]) for chunk in self.chunks((), None, None))

    def chunks(self, columns: Sequence[str], window: Window | None, profiles: Ints | None) -> Iterator[SpanChunk]:
        if unknown := [name for name in columns if name not in (*SPAN_COLUMNS, LABEL)]:
            raise UsageError(f"spans have no column {unknown[0]!r}; there are {', '.join(SPAN_COLUMNS)}")
        asked = {"span", *columns}
        if window is not None:
            asked |= {"start_ns", "end_ns"}
        if profiles is not None or self._alone is not None:
            asked.add("profile")
        if LABEL in asked:
            asked.add("name")
        for number in self._groups(profiles, window):
            rows = self._table.group(number, sorted(asked))
            found = {name: self._column(rows, number, name) for name in asked if name not in TEXT_COLUMNS}
            kept = self._kept(found, window, profiles)
            if not kept.any():
                continue
            out: dict[str, Array] = {"span": found["span"][kept] - self._first}
            for name in columns:
                column = self._text_ids(rows, name) if name in TEXT_COLUMNS else found[name]
                out[name] = column[kept]
            yield out

    def _column(self, rows: Group, number: int, name: str) -> Array:
        if name == "kind":
            return self._kinds(rows, number)
        found = rows.numbers(name)
        limit = {"profile": len(self._profile_of) - 1, "context": self._n_contexts}.get(name)
        if limit is not None and len(found) and (int(found.min()) < ABSENT or int(found.max()) >= limit):
            raise self._table.damage(f"row group {number}", f"{name} ids below {limit}", "others")
        return self._profile_of[found] if name == "profile" and self._alone is not None else found

    def _kinds(self, rows: Group, number: int) -> Array:
        ids, words = rows.words("kind")
        if unknown := [word for word in words if word not in KINDS]:
            raise self._table.damage(f"row group {number}", f"one of {', '.join(KINDS)}", repr(unknown[0][:40]))
        return np.array([*map(KINDS.index, words), ABSENT], np.int32)[ids]

    def _text_ids(self, rows: Group, name: str) -> Ids:
        ids, words = rows.words(name)
        own = np.append(self._names.numbers(words), np.int32(ABSENT))[ids]
        return np.where(own < 0, self._text_ids(rows, "name"), own) if name == LABEL else own

    def _kept(self, found: Mapping[str, Array], window: Window | None, profiles: Ints | None) -> Bools:
        kept = np.ones(len(found["span"]), np.bool_)
        if window is not None:
            start, end = found["start_ns"], found["end_ns"]
            kept &= (start < window[1]) & ((end > window[0]) | (start >= window[0]))
        if profiles is not None:
            kept &= np.isin(found["profile"], profiles)
        elif self._alone is not None:
            kept &= found["profile"] >= 0
        return kept

    def side(self, name: str, part: int | None = None) -> SideTable | None:
        if self._sides is None:
            return None
        if self._alone is not None:
            found = self._sides.read(name, self._alone)
            return None if found is None else SideTable(found.span - self._first, found.columns)
        chosen = range(len(self._parts)) if part is None else [part]
        tables = [table for number in chosen if (table := self._sides.read(name, number)) is not None]
        if not tables:
            return None
        columns = {column: _joined([table.columns[column] for table in tables]) for column in tables[0].columns}
        return SideTable(np.concatenate([table.span for table in tables]), columns)

    def parts(self) -> Sequence[Ints]:
        return self._parts


def _joined(columns: Sequence[Array | tuple[object, ...]]) -> Array | tuple[object, ...]:
    if all(isinstance(column, np.ndarray) for column in columns):
        return np.concatenate([np.asarray(column) for column in columns])
    return tuple(cell for column in columns for cell in column)


def read_spans(
    folder: Folder, part: Ids, n_contexts: int, index: Callable[[StoredTable], TableIndex | None]
) -> FolderSpans | None:
    """None where the folder has no spans at all."""
    if not folder.has("spans"):
        return None
    table = folder.table("spans").checked()
    n_parts = folder.manifest.get(folder.path, "span_parts", int)
    if not 0 <= n_parts <= MOST_PARTS or (len(part) and int(part.max()) >= n_parts):
        path = folder.path / MANIFEST
        raise CorruptFile(path, "span_parts", expected="the parts that profiles name", found=str(n_parts))
    parts: list[Ints] = [np.flatnonzero(part == number) for number in range(n_parts)]
    sides = folder.or_warn(lambda: StoredSides(folder), None)
    profile_of = np.append(np.arange(len(part)), ABSENT).astype(np.int32)
    strings = folder.table("span_strings") if folder.has("span_strings") else None
    return FolderSpans(table, index(table), sides, parts, profile_of, n_contexts, strings)


def read_counters(folder: Folder, n_profiles: int) -> Counters | None:
    """Counters over time."""
    kind = str(folder.manifest.more.get("counter_type", "double"))
    table = folder.table("counters", counter_table(kind if kind in ("int64", "uint64") else "double"))
    rows = table.whole()
    ids, words = rows.words("name")
    names = Names()
    names.numbers([str(name) for name in folder.manifest.get(folder.path, "counter_names", list)])
    number = np.append(names.numbers(words), np.int32(ABSENT))[ids]
    profile = folder.ids(table, rows, "profile", n_profiles, lowest=0)
    return Counters(profile, number, rows.numbers("time_ns"), rows.numbers("value"), tuple(names.all))


def split_of(spans: FolderSpans, counters: Callable[[], Counters | None] | None) -> Split:
    """The traces of one part by themselves."""
    return partial(_alone, spans, counters)


def _alone(
    spans: FolderSpans, counters: Callable[[], Counters | None] | None, first: int, end: int | None = None
) -> Traces:
    if end not in (None, first + 1):
        raise UsageError("parts of a folder are read one by one")
    own = spans.parts()[first]
    return Traces(None, spans.part(first), None if counters is None else partial(_own_counters, counters, own))


def _own_counters(counters: Callable[[], Counters | None], own: Ints) -> Counters | None:
    found = counters()
    if found is None:
        return None
    rows = np.flatnonzero(np.isin(found.profile, own))
    profile = np.searchsorted(own, found.profile[rows]).astype(np.int32)
    return Counters(profile, found.name[rows], found.time_ns[rows], found.value[rows], found.names)
