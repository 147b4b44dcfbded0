"""Writes Parquet files: small tables at once, large ones row group by row group as rows come.

Zstandard, checksums on every page, no schema of Arrow's beside Parquet's own: any reader of Parquet opens them, and the
same rows give the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from callgrove.formats.columnar.arrow import Cells, arrow, parquet, schema_of, table_of
from callgrove.formats.columnar.schema import TableColumn
from callgrove.model.arrays import Array

__all__ = ["GROUP_ROWS", "GroupWriter", "write_table"]

GROUP_ROWS = 1 << 17
# Numbers that grow from row to row: their differences are stored.
GROWING = ("span", "start_ns", "end_ns", "time_ns", "context", "region", "string", "file", "subtree_end")


def _sink(folder: Path, name: str) -> Any:
    """The file of a table; as bytes, as names of files need not be UTF-8."""
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
    """A table that is there as a whole; gives the number of its rows. `written` is told the Arrow table."""
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
        """What waits becomes a row group, so that the rows to come are in another."""
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
        """Gives the number of rows."""
        self.end_group()
        self._file.close()
        self._sink.close()
        return self.n_rows

    def abort(self) -> None:
        for one in (self._file, self._sink):
            with suppress(Exception):  # the file goes away anyway
                one.close()
