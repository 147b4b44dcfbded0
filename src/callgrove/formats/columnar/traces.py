"""Sample lines, spans, and the attributes that only some spans have, of a folder; read when they are asked for.

Names are texts in the file; here they become numbers of one list that only grows. A part can be had by itself, with its
profiles and spans numbered from 0, or several that follow each other, and sent to another process: only paths and small
arrays go there.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from functools import cached_property, partial
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from callgrove.arrays import ABSENT, Array, Bools, Ids, Ints, Names
from callgrove.errors import CallgroveError, CorruptFile, UsageError, count_of
from callgrove.formats.columnar.folder import REMEDY, Folder, Group, StoredTable
from callgrove.formats.columnar.row_groups import GroupWriter, TableIndex
from callgrove.formats.columnar.schema import EXPERIMENT, MANIFEST, SIDE, Cells, unescape_texts
from callgrove.formats.columnar.traces_writer import JSON, KINDS, TEXTS, StoredDevices, columns_of, counter_table
from callgrove.formats.interface import SampleChunk
from callgrove.model.traces.events import (
    LABEL,
    PARENT,
    SPAN_COLUMNS,
    Counters,
    Device,
    Samples,
    SideTable,
    SpanChunk,
    Split,
    Traces,
    Window,
    separate_flows,
    touch_window,
)

__all__ = [
    "FolderSamples",
    "FolderSpans",
    "SamplesWriter",
    "StoredSides",
    "read_counters",
    "read_samples",
    "read_spans",
    "split_of",
]


# -- spans -------------------------------------------------------------------------------------------------------------


# -- attributes of spans -----------------------------------------------------------------------------------------------
# They are had by whole parts, or row group by row group.


INTEGERS = ("int8", "int16", "int32", "int64", "uint64")
NUMBERS = {"double": np.dtype(np.float64), **{name: np.dtype(name) for name in INTEGERS}}
SORTED_SINCE = 1  # the minor version


class StoredSides:
    """The side tables of all parts: where the rows of each lie."""

    def __init__(self, folder: Folder) -> None:
        described = folder.manifest.get(folder.path, "sides", dict, {})
        self._described = {name: _check_columns(folder, columns) for name, columns in described.items()}
        self._tables = {n: folder.table(n, columns_of(columns)) for n, columns in self._described.items()}
        self._is_sorted = folder.manifest.minor >= SORTED_SINCE
        table = folder.table("span_sides")
        rows = table.whole()
        parts, firsts, lengths = (rows.numbers(name).tolist() for name in ("part", "first", "rows"))
        self._places: dict[tuple[str, int], tuple[int, int]] = {}
        for side, part, first, n in zip(rows.names("side"), parts, firsts, lengths, strict=True):
            known = self._tables.get(SIDE + side)
            if known is None or first < 0 or n < 0 or first + n > folder.manifest.tables[known.name]:
                raise table.damage("rows", "rows of side tables that there are", f"{n} of {side} from {first}")
            self._places[side, part] = first, first + n

    def only(self, parts: Container[int]) -> StoredSides:
        """Return the attributes of some parts: less to send."""
        sides = copy(self)
        sides._places = {key: place for key, place in self._places.items() if key[1] in parts}
        return sides

    def has(self, side: str, part: int) -> bool:
        """Return whether a part has rows of such a table."""
        first, last = self._places.get((side, part), (0, 0))
        return first < last

    def read(self, side: str, part: int) -> SideTable | None:
        """Return the rows of a part; None where it has no such table."""
        if (side, part) not in self._places:
            return None
        first, last = self._places[side, part]
        return self._rows(side, self._tables[SIDE + side].groups_of(first, last), first, last)

    def pieces(self, side: str, part: int) -> Iterator[SideTable]:
        """Yield attributes by rising numbers of spans, a row group at a time."""
        if (side, part) not in self._places:
            return
        first, last = self._places[side, part]
        table = self._tables[SIDE + side]
        groups = table.groups_of(first, last)
        if not self._is_sorted or len(groups) < 2:
            whole = self._rows(side, groups, first, last)
            rises = len(whole.span) < 2 or bool((np.diff(whole.span) >= 0).all())
            yield whole if rises else whole.take(np.argsort(whole.span, kind="stable"))
            return
        reached = -1
        for number in groups:
            piece = self._rows(side, range(number, number + 1), first, last)
            if len(piece.span) and (int(piece.span[0]) < reached or (np.diff(piece.span) < 0).any()):
                raise table.damage(f"row group {number}", "spans that rise", "others")
            reached = max(reached, int(piece.span[-1])) if len(piece.span) else reached
            yield piece

    def _rows(self, side: str, numbers: range, first: int, last: int) -> SideTable:
        """Return the rows of some row groups that lie between two rows of the table."""
        table = self._tables[SIDE + side]
        names = [column.name for column in table.columns]
        groups = [table.group(number, names) for number in numbers]
        begin = int(table.first_rows[numbers[0]]) if groups else first
        part = slice(max(0, first - begin), max(0, last - begin))
        span = np.concatenate([np.empty(0, np.int64), *(group.numbers("span") for group in groups)])[part]
        described = self._described[SIDE + side]
        with table.reading("JSON"):
            columns = {name: self._cells(groups, name, kind, box)[part] for name, kind, box in described}
        return SideTable(span, columns)

    def _cells(self, groups: Sequence[Group], name: str, kind: str, container: str) -> Any:
        if kind in NUMBERS:
            return np.concatenate([np.empty(0, NUMBERS[kind]), *(group.numbers(name) for group in groups)])
        cells: list[Any]
        if kind == TEXTS:
            cells = [tuple(unescape_texts(cell or [])) for group in groups for cell in group.cells(name)]
        else:
            cells = [cell for group in groups for cell in group.texts(name)]
            if kind == JSON:
                cells = [None if cell is None else json.loads(cell) for cell in cells]
        if container == "tuple":
            return tuple(cells)
        out = np.empty(len(cells), object)
        out[:] = cells
        return out


def _check_columns(folder: Folder, columns: Any) -> list[tuple[str, str, str]]:
    try:
        checked = [(str(name), str(kind), str(container)) for name, kind, container in columns]
        if all(kind in (*NUMBERS, "text", TEXTS, JSON) for _, kind, _ in checked):
            return checked
    except (TypeError, ValueError):
        pass
    path = folder.path / MANIFEST
    raise CorruptFile(path, "sides", expected="columns with types", found=repr(columns)[:80], remedy=REMEDY)


# -- spans -------------------------------------------------------------------------------------------------------------


MOST_PARTS = 1 << 24
ROW_BYTES = 64  # of a span, once it is read
TEXT_COLUMNS = ("category", "name", LABEL)


class FolderSpans:
    """All spans, or those of the parts `alone`. `profile_of` gives the number of a stored profile here, -1 where it is
    not one of these. Every span belongs to a profile."""

    def __init__(
        self,
        table: StoredTable,
        index: TableIndex | None,
        sides: StoredSides | None,
        parts: Sequence[Ints],
        profile_of: Ids,
        n_contexts: int,
        strings: StoredTable | None = None,
        devices: StoredDevices | None = None,
        alone: range | None = None,
    ) -> None:
        self._table, self._index, self._sides = table, index, sides
        self._parts, self._profile_of, self._n_contexts, self._alone = parts, profile_of, n_contexts, alone
        self._strings, self._devices = strings, devices

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

    def some(self, chosen: range) -> FolderSpans:
        """Return some parts by themselves."""
        profiles = np.concatenate([self._parts[number] for number in chosen])
        bounds = accumulate((len(self._parts[number]) for number in chosen), initial=0)
        parts = [np.arange(*ends) for ends in pairwise(bounds)]
        profile_of = np.full(len(self._profile_of), ABSENT, np.int32)
        profile_of[profiles] = np.arange(len(profiles))
        index = None if self._index is None else self._index.only(profiles)
        sides = None if self._sides is None else self._sides.only(chosen)
        devices = None if self._devices is None else self._devices.only(chosen)
        n_contexts = self._n_contexts
        return FolderSpans(self._table, index, sides, parts, profile_of, n_contexts, devices=devices, alone=chosen)

    def part_sizes(self) -> Sequence[int]:
        """Return the bytes that the spans of each part take; none where nobody knows."""
        if self._index is None:
            return ()
        rows = self._index.rows(len(self._profile_of))
        return [ROW_BYTES * int(rows[part].sum()) for part in self._parts]

    @cached_property
    def _first(self) -> int:
        """The number of the first span of the parts that this is."""
        if self._alone is None:
            return 0
        groups = self._groups(None, None)
        return int(self._table.group(groups[0], ("span",)).numbers("span")[0]) if len(groups) else 0

    def _find_stored_profiles(self, profiles: Ints) -> Ints:
        """Return the profiles of the file that these profiles stand for."""
        return np.flatnonzero(np.isin(self._profile_of, profiles) & (self._profile_of >= 0))

    def _groups(self, profiles: Ints | None, window: Window | None) -> list[int]:
        if self._index is None:
            return list(range(self._table.n_groups))
        stored = None if profiles is None and self._alone is None else self._profiles(profiles)
        return [int(number) for number in self._index.groups(stored, window)]

    def _profiles(self, profiles: Ints | None) -> Ints:
        return np.flatnonzero(self._profile_of >= 0) if profiles is None else self._find_stored_profiles(profiles)

    def count(self) -> int:
        if self._alone is None:
            return self._table.n_rows
        return sum(len(chunk["span"]) for chunk in self.chunks((), None, None))

    def chunks(self, columns: Sequence[str], window: Window | None, profiles: Ints | None) -> Iterator[SpanChunk]:
        if unknown := [name for name in columns if name not in (*SPAN_COLUMNS, LABEL, PARENT)]:
            raise UsageError(f"spans have no column {unknown[0]!r}; there are {', '.join(SPAN_COLUMNS)}")
        asked = {"span", *columns}
        if window is not None:
            asked |= {"start_ns", "end_ns"}
        if profiles is not None or self._alone is not None:
            asked.add("profile")
        if LABEL in asked:
            asked.add("name")
        for number in self._groups(profiles, window):
            rows = self._table.group(number, sorted(asked & self._stored_columns))
            stored_columns = {name: self._column(rows, number, name) for name in asked if name not in TEXT_COLUMNS}
            kept = self._choose_kept(stored_columns, window, profiles)
            if not kept.any():
                continue
            out: dict[str, Array] = {"span": stored_columns["span"][kept] - self._first}
            for name in columns:
                column = self._text_ids(rows, name) if name in TEXT_COLUMNS else stored_columns[name]
                out[name] = column[kept]
            yield out

    @cached_property
    def _stored_columns(self) -> set[str]:
        return {column.name for column in self._table.columns}

    def _column(self, rows: Group, number: int, name: str) -> Array:
        if name not in self._stored_columns:  # of a folder that was written before there was such a column
            return np.full(len(rows), ABSENT, np.int64)
        if name == "kind":
            return self._kinds(rows, number)
        values = rows.numbers(name)
        if name in ("profile", "context"):
            self._check_ids(values, number, name)
        return self._profile_of[values] if name == "profile" and self._alone is not None else values

    def _check_ids(self, ids: Array, number: int, name: str) -> None:
        lowest, limit = (0, len(self._profile_of)) if name == "profile" else (ABSENT, self._n_contexts)
        if len(ids) and (int(ids.min()) < lowest or int(ids.max()) >= limit):
            found = "spans without any" if int(ids.min()) == ABSENT < lowest else "others"
            raise self._table.damage(f"row group {number}", f"{name} ids below {limit}", found)

    def _kinds(self, rows: Group, number: int) -> Array:
        ids, words = rows.words("kind")
        if unknown := [word for word in words if word not in KINDS]:
            raise self._table.damage(f"row group {number}", f"one of {', '.join(KINDS)}", repr(unknown[0][:40]))
        return np.array([*map(KINDS.index, words), ABSENT], np.int32)[ids]

    def _text_ids(self, rows: Group, name: str) -> Ids:
        ids, words = rows.words(name)
        text_ids = np.append(self._names.numbers(words), np.int32(ABSENT))[ids]
        return np.where(text_ids < 0, self._text_ids(rows, "name"), text_ids) if name == LABEL else text_ids

    def _choose_kept(self, columns: Mapping[str, Array], window: Window | None, profiles: Ints | None) -> Bools:
        kept = np.ones(len(columns["span"]), np.bool_)
        if window is not None:
            kept &= touch_window(columns["start_ns"], columns["end_ns"], window)
        if profiles is not None:
            kept &= np.isin(columns["profile"], profiles)
        elif self._alone is not None:
            kept &= columns["profile"] >= 0
        return kept

    def side(self, name: str, part: int | None = None) -> SideTable | None:
        if self._sides is None:
            return None
        chosen = self._numbers if part is None else [self._numbers[part]]
        found = [table for number in chosen if (table := self._sides.read(name, number)) is not None]
        if not found:
            return None
        tables = separate_flows(name, found)
        columns = {column: _join_columns([table.columns[column] for table in tables]) for column in tables[0].columns}
        return SideTable(np.concatenate([table.span for table in tables]) - self._first, columns)

    def has_side(self, name: str, part: int) -> bool:
        return self._sides is not None and self._sides.has(name, self._numbers[part])

    def side_chunks(self, name: str, part: int) -> Iterator[SideTable]:
        if self._sides is not None:
            for piece in self._sides.pieces(name, self._numbers[part]):
                yield SideTable(piece.span - self._first, piece.columns)

    def devices(self, part: int) -> Sequence[Device]:
        return () if self._devices is None else list(self._devices.of(self._numbers[part]))

    @property
    def _numbers(self) -> range:
        """The stored numbers of the parts that this is."""
        return range(len(self._parts)) if self._alone is None else self._alone

    def parts(self) -> Sequence[Ints]:
        return self._parts


def _join_columns(columns: Sequence[Array | tuple[object, ...]]) -> Array | tuple[object, ...]:
    if all(isinstance(column, np.ndarray) for column in columns):
        return np.concatenate([np.asarray(column) for column in columns])
    return tuple(cell for column in columns for cell in column)


def read_spans(
    folder: Folder, part: Ids, n_contexts: int, index: Callable[[StoredTable], TableIndex | None]
) -> FolderSpans | None:
    """Return the spans; None where the folder has no spans at all."""
    if not folder.has("spans"):
        return None
    table = folder.table("spans").check()
    n_parts = folder.manifest.get(folder.path, "span_parts", int)
    if not 0 <= n_parts <= MOST_PARTS or (len(part) and int(part.max()) >= n_parts):
        path = folder.path / MANIFEST
        raise CorruptFile(path, "span_parts", expected="the parts that profiles name", found=str(n_parts))
    parts: list[Ints] = [np.flatnonzero(part == number) for number in range(n_parts)]
    sides = folder.or_warn(lambda: StoredSides(folder), None)
    profile_of = np.arange(len(part), dtype=np.int32)
    strings = folder.table("span_strings") if folder.has("span_strings") else None
    devices = folder.or_warn(lambda: StoredDevices(folder, n_parts), None) if folder.has("devices") else None
    return FolderSpans(table, index(table), sides, parts, profile_of, n_contexts, strings, devices)


def read_counters(folder: Folder, n_profiles: int) -> Counters | None:
    """Return counters over time."""
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
    """Return the traces of some parts by themselves."""
    return partial(_traces_of_parts, spans, counters)


def _traces_of_parts(
    spans: FolderSpans, counters: Callable[[], Counters | None] | None, first: int, end: int | None = None
) -> Traces:
    chosen = range(first, first + 1 if end is None else end)
    profiles = np.concatenate([spans.parts()[number] for number in chosen])
    return Traces(None, spans.some(chosen), None if counters is None else partial(_select_counters, counters, profiles))


def _select_counters(counters: Callable[[], Counters | None], profiles: Ints) -> Counters | None:
    whole = counters()
    if whole is None:
        return None
    rows, order = np.flatnonzero(np.isin(whole.profile, profiles)), np.argsort(profiles)
    profile = order[np.searchsorted(profiles, whole.profile[rows], sorter=order)].astype(np.int32)
    return Counters(profile, whole.name[rows], whole.time_ns[rows], whole.value[rows], whole.names)


# -- sample lines ------------------------------------------------------------------------------------------------------


class SamplesWriter:
    """Every chunk is a line."""

    def __init__(self, folder: Path) -> None:
        self._file = GroupWriter(folder, "samples", EXPERIMENT["samples"])
        self._lines = tuple(array("q") for _ in range(3))  # profile, metric, samples

    def add(self, chunk: SampleChunk) -> None:
        samples, line = chunk.samples, len(self._lines[0])
        n = len(samples)
        for column, cell in zip(self._lines, (chunk.profile, chunk.metric, n), strict=True):
            column.append(cell)
        if n:
            self._file.add(
                {
                    "line": np.full(n, line, np.int32),
                    "profile": np.full(n, chunk.profile, np.int32),
                    "metric": np.full(n, chunk.metric, np.int32),
                    "time_ns": samples.time_ns,
                    "context": samples.context,
                }
            )

    def close(self) -> int:
        return self._file.close()

    def abort(self) -> None:
        self._file.abort()

    def lines(self) -> Mapping[str, Cells]:
        """Return the columns of `sample_lines`."""
        names = ("profile", "metric", "samples")
        columns = {name: np.array(column, np.int64) for name, column in zip(names, self._lines, strict=True)}
        return {"line": np.arange(len(self._lines[0])), **columns}


class FolderSamples:
    """Sample lines; of `samples` the row groups that a line lies in are read."""

    def __init__(self, table: StoredTable, profile: Ids, metric: Ids, count: Ints, n_contexts: int) -> None:
        self._table, self.profile, self.metric, self.count = table, profile, metric, count
        self._bounds = np.append(0, np.cumsum(count))
        self._n_contexts = n_contexts
        self._last: tuple[int, Samples] | None = None
        self.problems: list[CallgroveError] = []

    def line(self, line: int, window: Window | None = None) -> Samples:
        """Return the samples of one line; what is damaged is left out, and kept in `problems`."""
        first, last = int(self._bounds[line]), int(self._bounds[line + 1])
        parts = [Samples(np.empty(0, np.int64), np.empty(0, np.int32))]
        for group in self._table.groups_of(first, last):
            start = int(self._table.first_rows[group])
            part = slice(max(first - start, 0), last - start)
            try:
                samples = self._group(group)
            except CorruptFile as error:
                self._record_problem(error)
                continue
            parts.append(Samples(samples.time_ns[part], samples.context[part]))
        time_ns, context = (np.concatenate([getattr(p, name) for p in parts]) for name in ("time_ns", "context"))
        return self._check(line, Samples(time_ns, context)).within(window)

    def _group(self, group: int) -> Samples:
        if self._last is None or self._last[0] != group:
            rows = self._table.group(group, ("time_ns", "context"))
            self._last = group, Samples(rows.numbers("time_ns"), rows.numbers("context"))
        return self._last[1]

    def _check(self, line: int, samples: Samples) -> Samples:
        unknown = (samples.context < ABSENT) | (samples.context >= self._n_contexts)
        if unknown.any():
            found = f"{count_of(int(unknown.sum()), 'sample')} of others, left out"
            self._record_problem(self._table.damage(f"line {line}", f"context ids below {self._n_contexts}", found))
            samples = Samples(samples.time_ns[~unknown], samples.context[~unknown])
        if (np.diff(samples.time_ns) < 0).any():
            self._record_problem(
                self._table.damage(f"line {line}", "samples in the order of time", "another order; sorted")
            )
            order = np.argsort(samples.time_ns, kind="stable")
            samples = Samples(samples.time_ns[order], samples.context[order])
        return samples

    def _record_problem(self, error: CallgroveError) -> None:
        if str(error) not in {str(known) for known in self.problems}:
            self.problems.append(error)


def read_samples(folder: Folder, n_profiles: int, n_contexts: int, n_metrics: int) -> FolderSamples | None:
    """Return the samples; None where the folder has no samples at all."""
    if not folder.has("samples"):
        return None
    table = folder.table("sample_lines")
    rows = folder.read_numbered("sample_lines", "line")
    profile = folder.ids(table, rows, "profile", n_profiles, lowest=0)
    metric, count = folder.ids(table, rows, "metric", n_metrics), rows.numbers("samples")
    samples = folder.table("samples")
    if (count < 0).any() or int(count.sum()) != samples.n_rows:
        raise table.damage("column samples", f"{samples.n_rows:,} samples in all", f"{int(count.sum()):,}")
    return FolderSamples(samples, profile, metric, count, n_contexts)
