"""One Parquet file of a folder, read row group by row group and checked before it is believed.

What pyarrow says of a damaged file becomes one `CorruptFile` that names the file and the row group. Objects hold a path
and a few numbers; the file itself is opened when it is needed, so that they can be sent to another process.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from callgrove.errors import CallgroveError, CorruptFile, InputError
from callgrove.formats.columnar.arrow import TEXT, WORD, arrow, arrow_type, numbers, parquet, texts
from callgrove.formats.columnar.manifest import REMEDY
from callgrove.formats.columnar.schema import TableColumn
from callgrove.model.arrays import Array, Ids, Ints

__all__ = ["Group", "StoredTable"]

MOST_ROWS = 1 << 20  # of a row group
MOST_BYTES = 1 << 31  # of a row group, without compression
PER_BYTE, FREE_ROWS = 64, 1 << 22  # rows that a table which is read whole may have for each byte of its file


MOST_OPEN = 64  # files
RECENT: deque[weakref.ref[StoredTable]] = deque()


class Group:
    """Columns of one row group, or of a whole table, turned into arrays when asked for."""

    def __init__(self, table: StoredTable, section: str, columns: Any) -> None:
        self._table, self._section, self._columns = table, section, columns

    def __len__(self) -> int:
        return int(self._columns.num_rows)

    def numbers(self, name: str) -> Array:
        with self._table.reading(self._section):
            return numbers(self._columns.column(name), self._table.column(name).type)

    def texts(self, name: str) -> list[str | None]:
        with self._table.reading(self._section):
            return texts(self._columns.column(name))

    def names(self, name: str) -> tuple[str, ...]:
        """Texts of which none is absent; what is NULL is empty."""
        return tuple(text or "" for text in self.texts(name))

    def words(self, name: str) -> tuple[Ids, list[str]]:
        """Numbers of texts, -1 where there is none, and the texts, each once."""
        with self._table.reading(self._section):
            column = self._columns.column(name)
            if not arrow().types.is_dictionary(column.type):
                column = column.dictionary_encode()
            whole = column.unify_dictionaries().combine_chunks()
            if isinstance(whole, arrow().ChunkedArray):  # of no rows
                return np.empty(0, np.int32), []
            found = texts(whole.dictionary)
            if any(text is None for text in found):
                raise ValueError(f"a dictionary with NULL in column {name}")
            return numbers(whole.indices, "int32").astype(np.int32), [text or "" for text in found]

    def lists(self, name: str) -> Array:
        """The numbers of lists of equal length, one row each."""
        with self._table.reading(self._section):
            column = self._columns.column(name).combine_chunks()
            lengths = column.value_lengths().to_numpy(zero_copy_only=False)
            flat: Array = column.flatten().to_numpy(zero_copy_only=False)
            if len(lengths) and (lengths != lengths[0]).any():
                raise ValueError(f"lists of different lengths in column {name}")
            return flat.reshape(len(lengths), -1) if len(lengths) else flat.reshape(0, 0)

    def cells(self, name: str) -> list[Any]:
        """Anything else, as Python objects."""
        with self._table.reading(self._section):
            found: list[Any] = self._columns.column(name).to_pylist()
            return found


class StoredTable:
    """A table that the manifest names; `rows` is what it says about it."""

    def __init__(self, folder: Path, name: str, columns: Sequence[TableColumn], rows: int | None) -> None:
        self.path, self.name, self.columns, self._rows = folder / f"{name}.parquet", name, tuple(columns), rows

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in ("_file", "first_rows", "_types")}

    def column(self, name: str) -> TableColumn:
        return next(column for column in self.columns if column.name == name)

    @contextmanager
    def reading(self, section: str) -> Iterator[None]:
        """Whatever pyarrow finds wrong is damage of this file."""
        try:
            yield
        except CallgroveError:
            raise
        except FileNotFoundError as error:
            raise self.damage("file", "a file that the manifest names", "none") from error
        except PermissionError as error:
            raise InputError(f"{self.path}: cannot be read: Permission denied") from error
        except UnicodeDecodeError as error:
            raise self.damage(section, "a sound Parquet file", "names that are no text") from error
        except (arrow().ArrowException, OSError, ValueError, KeyError, OverflowError, MemoryError) as error:
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            raise self.damage(section, "a sound Parquet file", reason) from error

    def damage(self, section: str, expected: str, found: str) -> CorruptFile:
        return CorruptFile(self.path, section, expected=expected, found=found, remedy=REMEDY)

    @cached_property
    def _file(self) -> Any:
        """The file, open until many others were opened: a process may have only so many."""
        RECENT.append(weakref.ref(self))
        if len(RECENT) > MOST_OPEN and (oldest := RECENT.popleft()()) is not None:
            oldest.__dict__.pop("_file", None)
        with self.reading("footer"):
            mapped = arrow().memory_map(bytes(self.path))  # as text, only names in UTF-8 are taken
            file = parquet().ParquetFile(mapped, page_checksum_verification=True)
            self._check(file)
            words = [c.name for c in self.columns if c.type == WORD and not c.shown]
            if not words:
                return file
            return parquet().ParquetFile(
                mapped, metadata=file.metadata, page_checksum_verification=True, read_dictionary=words
            )

    def _check(self, file: Any) -> None:
        schema = file.schema_arrow
        for column in self.columns:
            if schema.get_field_index(column.name) < 0:
                raise self.damage("footer", f"a column {column.name}", ", ".join(schema.names)[:100] or "no column")
            have = schema.field(column.name).type
            if column.shown or have == arrow_type(column.type):
                continue
            if arrow().types.is_dictionary(have):
                have = have.value_type
            if arrow().types.is_large_string(have) and column.type in (TEXT, WORD):
                continue
            if have != arrow_type(TEXT if column.type == WORD else column.type):
                raise self.damage(f"column {column.name}", f"the type {column.type}", str(have))
        sizes = [file.metadata.row_group(k) for k in range(file.metadata.num_row_groups)]
        for number, group in enumerate(sizes):
            if not 0 <= group.num_rows <= MOST_ROWS or not 0 <= group.total_byte_size <= MOST_BYTES:
                found = f"{group.num_rows:,} rows of {group.total_byte_size:,} bytes"
                raise self.damage(f"row group {number}", f"at most {MOST_ROWS:,} rows", found)
        total = sum(group.num_rows for group in sizes)
        for what, rows in (("rows by its footer", file.metadata.num_rows), ("rows by the manifest", self._rows)):
            if rows is not None and rows != total:
                raise self.damage("footer", f"{rows:,} {what}", f"{total:,} in row groups")

    def check(self) -> StoredTable:
        """The same table; a file that is broken or foreign is refused now, not when the first rows are asked for."""
        assert len(self.first_rows)
        return self

    @property
    def n_rows(self) -> int:
        return int(self.first_rows[-1])

    @property
    def n_groups(self) -> int:
        return len(self.first_rows) - 1

    @cached_property
    def first_rows(self) -> Ints:
        """The first row of every row group, and one past the last."""
        metadata = self._file.metadata
        return np.cumsum([0, *(metadata.row_group(k).num_rows for k in range(metadata.num_row_groups))], dtype=np.int64)

    def group(self, number: int, names: Sequence[str]) -> Group:
        """Some columns of one row group."""
        section = f"row group {number}"
        with self.reading(section):
            found = self._file.read_row_group(number, columns=list(names), use_threads=False)
            self._check_rows(section, found, int(np.diff(self.first_rows)[number]), names)
            return Group(self, section, found)

    def groups_of(self, first: int, last: int) -> range:
        """The row groups that have any of the rows from `first` up to `last`."""
        if last <= first:
            return range(0)
        begin = int(np.searchsorted(self.first_rows, first, side="right")) - 1
        return range(begin, int(np.searchsorted(self.first_rows, last, side="left")))

    def whole(self) -> Group:
        """Every column that our reader needs, all rows."""
        names = [column.name for column in self.columns if not column.shown]
        with self.reading("footer"):
            size = self.path.stat().st_size
            if self.n_rows > max(FREE_ROWS, PER_BYTE * size):
                raise self.damage("footer", f"rows that {size:,} bytes can hold", f"{self.n_rows:,}")
        with self.reading("rows"):
            found = self._file.read(columns=names, use_threads=False)
            self._check_rows("rows", found, self.n_rows, names)
            return Group(self, "rows", found)

    def _check_rows(self, section: str, found: Any, rows: int, names: Sequence[str]) -> None:
        if found.num_rows != rows:
            raise self.damage(section, f"{rows:,} rows", f"{found.num_rows:,}")
        for name in names:
            if found.column(name).null_count and not self.column(name).nullable:
                raise self.damage(section, f"a value in every row of {name}", "NULL")
