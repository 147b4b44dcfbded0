"""Writes Parquet files row group by row group, and the index of the profiles in each.

Zstandard, checksums on every page, no schema of Arrow's beside Parquet's own: any reader of Parquet opens them, and the
same rows give the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from callgrove.arrays import ABSENT, Array, Bools, Ids, Ints
from callgrove.formats.columnar.folder import Folder, StoredTable
from callgrove.formats.columnar.schema import Cells, TableColumn, Words, arrow, parquet, schema_of, table_of
from callgrove.model.traces.events import Window

__all__ = ["GROUP_ROWS", "GroupWriter", "IndexRows", "TableIndex", "write_table"]


GROUP_ROWS = 1 << 17
# Numbers that grow from row to row: their differences are stored.
GROWING = ("span", "start_ns", "end_ns", "time_ns", "context", "region", "string", "file", "subtree_end")


def _sink(folder: Path, name: str) -> Any:
    """Return the file of a table; as bytes, as names of files need not be UTF-8."""
    return arrow().OSFile(bytes(folder / f"{name}.parquet"), "wb")


def _open(sink: Any, schema: Any) -> Any:
    growing = [f.name for f in schema if f.name in GROWING and str(f.type) in ("int32", "int64")]
    return parquet().ParquetWriter(
        sink,
        schema,
        compression="zstd",
        compression_level=1,
        use_dictionary=[field.name for field in schema if field.name not in growing],
        column_encoding=dict.fromkeys(growing, "DELTA_BINARY_PACKED"),
        write_page_checksum=True,
        store_schema=False,
    )


def write_table(
    folder: Path,
    name: str,
    columns: Sequence[TableColumn],
    cells: Mapping[str, Cells],
    written: Callable[[str, Any], None] | None = None,
) -> int:
    """Write a table that is there as a whole, and return the number of its rows. `written` is told the Arrow table."""
    table = table_of(columns, cells)
    with _sink(folder, name) as sink, _open(sink, table.schema) as file:
        file.write_table(table, row_group_size=GROUP_ROWS)
    if written is not None:
        written(name, table)
    return int(table.num_rows)


Encode = Callable[[Mapping[str, Array]], Any]


class GroupWriter:
    """Collects rows and writes a row group whenever there are enough. `encode` makes an Arrow table of some rows;
    `written` is told of every row group."""

    def __init__(
        self,
        folder: Path,
        name: str,
        columns: Sequence[TableColumn],
        encode: Encode | None = None,
        written: Callable[[int, Mapping[str, Array]], None] | None = None,
    ) -> None:
        self.name, self._columns = name, columns
        self._encode = encode or (lambda rows: table_of(columns, rows))
        self._written = written
        self._sink = _sink(folder, name)
        self._file = _open(self._sink, schema_of(columns))
        self._waiting: list[Mapping[str, Array]] = []
        self._n_waiting = self._n_groups = self.n_rows = 0

    def add(self, rows: Mapping[str, Array]) -> None:
        n = len(next(iter(rows.values())))
        for first in range(0, n, GROUP_ROWS):  # a large block is not copied whole
            part = {name: cells[first : first + GROUP_ROWS] for name, cells in rows.items()}
            self._waiting.append(part)
            self._n_waiting += min(GROUP_ROWS, n - first)
            while self._n_waiting >= GROUP_ROWS:
                self._write(GROUP_ROWS)
        self.n_rows += n

    def end_group(self) -> None:
        """Turn what waits into a row group, so that the rows to come are in another."""
        if self._n_waiting:
            self._write(self._n_waiting)

    def _write(self, n: int) -> None:
        names = self._waiting[0]
        rows = {name: np.concatenate([part[name] for part in self._waiting]) for name in names}
        group = {name: cells[:n] for name, cells in rows.items()}
        self._n_waiting -= n
        self._waiting = [{name: cells[n:] for name, cells in rows.items()}] if self._n_waiting else []
        self._file.write_table(self._encode(group), row_group_size=max(n, 1))
        if self._written is not None:
            self._written(self._n_groups, group)
        self._n_groups += 1

    def close(self) -> int:
        """Close the file, and return the number of rows."""
        self.end_group()
        self._file.close()
        self._sink.close()
        return self.n_rows

    def abort(self) -> None:
        for one in (self._file, self._sink):
            with suppress(Exception):  # the file goes away anyway
                one.close()


# -- index: which profiles each row group has --------------------------------------------------------------------------
# A row for each profile of each row group: how many rows of the group are its own and, for spans, from when to when
# they go. So the values or spans of one profile are read from the row groups that have any.


START, END = "start_ns", "end_ns"


RowGroup = Mapping[str, Array]


class IndexRows:
    """The index in the making. `count` is told of every row group that was written, with the name of its table."""

    def __init__(self, count: Callable[[str, RowGroup], None] | None = None) -> None:
        self._count = count
        self._tables: list[str] = []
        self._parts: list[tuple[Array, ...]] = []

    def table(self, name: str) -> Callable[[int, RowGroup], None]:
        """Return what a writer calls for each row group of a table."""
        number = len(self._tables)
        self._tables.append(name)

        def record_group(group: int, rows: RowGroup) -> None:
            self._add(number, group, rows)
            if self._count is not None:
                self._count(name, rows)

        return record_group

    def _add(self, table: int, group: int, rows: RowGroup) -> None:
        profiles, number, counts = np.unique(rows["profile"], return_inverse=True, return_counts=True)
        n = len(profiles)
        start, end = np.full(n, ABSENT, np.int64), np.full(n, ABSENT, np.int64)
        if START in rows:
            start[:], end[:] = np.iinfo(np.int64).max, np.iinfo(np.int64).min
            np.minimum.at(start, number, rows[START])
            np.maximum.at(end, number, np.maximum(rows[START], rows[END]))
        self._parts.append((np.full(n, table), np.full(n, group), profiles, counts, start, end))

    def columns(self) -> Mapping[str, Array | Words]:
        empty: tuple[Array, ...] = (np.empty(0, np.int64),) * 6
        table, group, profile, rows, start, end = (np.concatenate(c) for c in zip(empty, *self._parts, strict=True))
        return {
            "table": Words(table, self._tables),
            "row_group": group,
            "profile": profile,
            "rows": rows,
            START: start,
            END: end,
        }


class TableIndex:
    """The index of one table."""

    def __init__(self, group: Ints, profile: Ids, rows: Ints, start: Ints, end: Ints) -> None:
        self._group, self._profile, self._rows, self._start, self._end = group, profile, rows, start, end

    @classmethod
    def read_all(cls, folder: Folder) -> Callable[[StoredTable], TableIndex | None]:
        """Return the index of any table, None where it does not agree with that table."""
        rows = folder.table("index").whole()
        ids, names = rows.words("table")
        group, profile, count = (rows.numbers(name) for name in ("row_group", "profile", "rows"))
        start, end = rows.numbers(START), rows.numbers(END)

        def of(table: StoredTable) -> TableIndex | None:
            number = names.index(table.name) if table.name in names else -2
            entries = np.flatnonzero(ids == number)
            sizes = np.diff(table.first_rows)
            inside = (group[entries] >= 0) & (group[entries] < len(sizes)) & (count[entries] >= 0)
            if not inside.all() or not np.array_equal(
                np.bincount(group[entries], count[entries], len(sizes)).astype(np.int64), sizes
            ):
                folder.warn(
                    folder.table("index").damage("rows", f"the rows of {table.path.name}", "other numbers of rows")
                )
                return None
            return cls(
                group[entries],
                profile[entries],
                count[entries],
                start[entries],
                end[entries],
            )

        return of

    def only(self, profiles: Ints) -> TableIndex:
        """Return the rows of some profiles."""
        kept = np.isin(self._profile, profiles)
        ids, rows, times = (self._group[kept], self._profile[kept]), self._rows[kept], (self._start, self._end)
        return TableIndex(*ids, rows, times[0][kept], times[1][kept])

    def rows(self, n_profiles: int) -> Ints:
        """Return how many rows each profile has."""
        known = (self._profile >= 0) & (self._profile < n_profiles)
        return np.bincount(self._profile[known], self._rows[known], n_profiles).astype(np.int64)

    def groups(self, profiles: Ints | None, window: Window | None = None) -> Ints:
        """Return the row groups that have any row of these profiles that reaches into the window."""
        kept: Bools = np.ones(len(self._group), np.bool_)
        if profiles is not None:
            kept &= np.isin(self._profile, profiles)
        if window is not None:
            kept &= (self._start < window[1]) & (self._end >= window[0])
        return np.unique(self._group[kept]).astype(np.int64)
