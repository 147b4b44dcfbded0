"""A folder that is read: its manifest, its Parquet files row group by row group, and the damage that was met."""

from __future__ import annotations

import json
import os
import re
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from callgrove.arrays import ABSENT, Array, Ids, Ints
from callgrove.binary.files import open_regular
from callgrove.errors import CallgroveError, CorruptFile, InputError, NotRecognised, UnsupportedVersion
from callgrove.formats.columnar.schema import (
    FORMAT_MINOR,
    FORMAT_NAME,
    FORMAT_VERSION,
    MANIFEST,
    TEXT,
    WORD,
    TableColumn,
    arrow,
    arrow_type,
    numbers,
    parquet,
    texts,
)
from callgrove.model.experiment import InputWarning, Severity

__all__ = ["BEGINNING", "Folder", "Group", "Manifest", "StoredTable", "warnings_from", "warnings_in"]


# -- manifest ----------------------------------------------------------------------------------------------------------
# The file `callgrove.json` says what a folder holds, and what no table has a place for:
#
#     {"format": "callgrove", "version": 1, "minor": 2, "holds": "experiment", "title": ..., "origin": {...},
#      "tables": {"contexts": 1234, ...}, ...}
#
# `tables` gives the rows of every table, whose file is NAME.parquet. Other keys depend on what the folder holds.


LARGEST = 256 << 20  # bytes; a study with tags on every call path may need some
BEGINNING = re.compile(rb'\s*\{\s*"format":\s*"callgrove"')
TABLE_NAME = re.compile(r"[a-z][a-z0-9_-]*")
OWN_KEYS = ("format", "version", "minor", "holds", "title", "origin", "tables")
REMEDY = "write the folder again with `callgrove convert`"


@dataclass
class Manifest:
    """What a folder says of itself. `more` is what only experiments, or only studies, have."""

    holds: str
    title: str = ""
    origin: tuple[str, str] = ("", "")  # format and version of what it was made from
    tables: dict[str, int] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)
    minor: int = FORMAT_MINOR

    def write(self, folder: Path) -> None:
        text = json.dumps(
            {
                "format": FORMAT_NAME,
                "version": FORMAT_VERSION,
                "minor": self.minor,
                "holds": self.holds,
                "title": self.title,
                "origin": {"format": self.origin[0], "version": self.origin[1]},
                "tables": self.tables,
                **self.more,
            },
            indent=1,
            allow_nan=False,
        )
        (folder / MANIFEST).write_text(text + "\n", "ascii")

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        path = folder / MANIFEST
        content = _Json(path, _parse_json(path))
        if content.get("format", str) != FORMAT_NAME:
            raise NotRecognised(f"{path}: is not the manifest of a callgrove folder")
        version = content.get("version", int)
        if version != FORMAT_VERSION:
            newer = "was written by a newer callgrove" if version > FORMAT_VERSION else "has an unknown version"
            raise UnsupportedVersion(
                f"{path}: {newer}: version {version} of the format, and {FORMAT_VERSION} is read here"
                + ("; update callgrove" if version > FORMAT_VERSION else "")
            )
        origin = content.inner("origin")
        tables = content.get("tables", dict)
        for name, rows in tables.items():
            if not TABLE_NAME.fullmatch(name) or type(rows) is not int or not 0 <= rows < 2**63:
                raise content.wrong("tables", "names of tables with their numbers of rows", f"{name!r}: {rows!r}")
        holds = content.get("holds", str)
        if holds not in ("experiment", "study"):
            raise content.wrong("holds", "experiment or study", repr(holds))
        return cls(
            holds,
            content.get("title", str),
            (origin.get("format", str), origin.get("version", str)),
            tables,
            {k: v for k, v in content.content.items() if k not in OWN_KEYS},
            content.get("minor", int) if "minor" in content.content else 0,
        )

    def get(self, folder: Path, key: str, kind: type[Any], default: Any = None) -> Any:
        """Return one of `more`, which must be of that kind; without a default it must be there."""
        if default is not None and key not in self.more:
            return default
        return _Json(folder / MANIFEST, self.more).get(key, kind)


class _Json:
    """An object whose members are checked when they are asked for."""

    def __init__(self, path: Path, content: Any) -> None:
        self.path = path
        if not isinstance(content, dict):
            raise self.wrong("the whole", "an object", type(content).__name__)
        self.content: dict[str, Any] = content

    def get(self, key: str, kind: type[Any]) -> Any:
        value = self.content.get(key)
        if type(value) is not kind:
            raise self.wrong(key, f"{kind.__name__} under this key", "nothing" if value is None else repr(value)[:60])
        return value

    def inner(self, key: str) -> _Json:
        return _Json(self.path, self.get(key, dict))

    def wrong(self, section: str, expected: str, found: str) -> CorruptFile:
        return CorruptFile(self.path, section, expected=expected, found=found, remedy=REMEDY)


def _parse_json(path: Path) -> Any:
    try:
        with open_regular(path) as file:
            if (size := os.fstat(file.fileno()).st_size) > LARGEST:
                raise InputError(f"{path}: is larger than any manifest ({size:,} bytes)")
            return json.loads(file.read())
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise CorruptFile(
            path, "manifest", expected="JSON", found="other bytes than text", offset=error.start, remedy=REMEDY
        ) from error
    except (ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0][:200] if str(error) else "nesting without an end"
        raise CorruptFile(path, "manifest", expected="JSON", found=reason, remedy=REMEDY) from error


def warnings_in(warnings: tuple[InputWarning, ...]) -> list[list[str]]:
    return [[warning.severity.value, warning.text] for warning in warnings]


def warnings_from(manifest: Manifest, folder: Path) -> list[InputWarning]:
    warnings = []
    for one in manifest.get(folder, "warnings", list, []):
        try:
            severity, text = one
            warnings.append(InputWarning(Severity(severity), str(text)))
        except (TypeError, ValueError) as error:
            path = folder / MANIFEST
            raise CorruptFile(path, "warnings", expected="pairs of severity and text", found=repr(one)[:60]) from error
    return warnings


# -- tables ------------------------------------------------------------------------------------------------------------
# Each is one Parquet file, read row group by row group and checked before it is believed.
#
# What pyarrow says of a damaged file becomes one `CorruptFile` that names the file and the row group. Objects hold a
# path and a few numbers; the file itself is opened when it is needed, so that they can be sent to another process.


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
        """Return texts of which none is absent; what is NULL is empty."""
        return tuple(text or "" for text in self.texts(name))

    def words(self, name: str) -> tuple[Ids, list[str]]:
        """Return numbers of texts, -1 where there is none, and the texts, each once."""
        with self._table.reading(self._section):
            column = self._columns.column(name)
            if not arrow().types.is_dictionary(column.type):
                column = column.dictionary_encode()
            whole = column.unify_dictionaries().combine_chunks()
            if isinstance(whole, arrow().ChunkedArray):  # of no rows
                return np.empty(0, np.int32), []
            words = texts(whole.dictionary)
            if any(text is None for text in words):
                raise ValueError(f"a dictionary with NULL in column {name}")
            return numbers(whole.indices, "int32").astype(np.int32), [text or "" for text in words]

    def lists(self, name: str) -> Array:
        """Return the numbers of lists of equal length, one row each."""
        with self._table.reading(self._section):
            column = self._columns.column(name).combine_chunks()
            lengths = column.value_lengths().to_numpy(zero_copy_only=False)
            flat: Array = column.flatten().to_numpy(zero_copy_only=False)
            if len(lengths) and (lengths != lengths[0]).any():
                raise ValueError(f"lists of different lengths in column {name}")
            return flat.reshape(len(lengths), -1) if len(lengths) else flat.reshape(0, 0)

    def cells(self, name: str) -> list[Any]:
        """Return anything else, as Python objects."""
        with self._table.reading(self._section):
            cells: list[Any] = self._columns.column(name).to_pylist()
            return cells


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
        """Raise whatever pyarrow finds wrong as damage of this file."""
        try:
            yield
        except CallgroveError:
            raise
        except FileNotFoundError as error:
            raise self.damage("file", "a file that the manifest names", "none") from error
        except PermissionError as error:
            raise InputError(f"{self.path}: cannot be read: Permission denied") from error
        except UnicodeDecodeError as error:
            raise self.damage(section, "a sound Parquet file", "names that are not text") from error
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
            open_regular(self.path).close()  # pyarrow would wait for the writer of a pipe, and not be interrupted
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
        """Refuse a file that is broken or foreign now, not when the first rows are asked for."""
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
        """Return some columns of one row group."""
        section = f"row group {number}"
        with self.reading(section):
            rows = self._file.read_row_group(number, columns=list(names), use_threads=False)
            self._check_rows(section, rows, int(np.diff(self.first_rows)[number]), names)
            return Group(self, section, rows)

    def groups_of(self, first: int, last: int) -> range:
        """Return the row groups that have any of the rows from `first` up to `last`."""
        if last <= first:
            return range(0)
        begin = int(np.searchsorted(self.first_rows, first, side="right")) - 1
        return range(begin, int(np.searchsorted(self.first_rows, last, side="left")))

    def whole(self) -> Group:
        """Return every column that our reader needs, all rows."""
        names = [column.name for column in self.columns if not column.shown]
        with self.reading("footer"):
            size = self.path.stat().st_size
            if self.n_rows > max(FREE_ROWS, PER_BYTE * size):
                raise self.damage("footer", f"rows that {size:,} bytes can hold", f"{self.n_rows:,}")
        with self.reading("rows"):
            rows = self._file.read(columns=names, use_threads=False)
            self._check_rows("rows", rows, self.n_rows, names)
            return Group(self, "rows", rows)

    def _check_rows(self, section: str, table: Any, rows: int, names: Sequence[str]) -> None:
        if table.num_rows != rows:
            raise self.damage(section, f"{rows:,} rows", f"{table.num_rows:,}")
        for name in names:
            if table.column(name).null_count and not self.column(name).nullable:
                raise self.damage(section, f"a value in every row of {name}", "NULL")


# -- folders -----------------------------------------------------------------------------------------------------------


T = TypeVar("T")


class Folder:
    """What is needed to read one. Tables that the manifest does not name are not there."""

    def __init__(self, path: Path, manifest: Manifest, schema: Mapping[str, tuple[TableColumn, ...]]) -> None:
        self.path, self.manifest, self._schema = path, manifest, schema
        self.warnings: list[InputWarning] = []

    def has(self, name: str) -> bool:
        return name in self.manifest.tables

    def table(self, name: str, columns: Sequence[TableColumn] | None = None) -> StoredTable:
        if not self.has(name):
            raise CorruptFile(self.path / MANIFEST, "tables", expected=f"a table {name}", found="none")
        known = columns or [c for c in self._schema[name] if c.since <= self.manifest.minor]
        return StoredTable(self.path, name, known, self.manifest.tables[name])

    def read_numbered(self, name: str, key: str) -> Group:
        """Return a whole table whose first column counts its rows."""
        table = self.table(name)
        rows = table.whole()
        if not np.array_equal(rows.numbers(key), np.arange(len(rows))):
            raise table.damage(f"column {key}", "the numbers of the rows", "others")
        return rows

    def codes(self, table: StoredTable, rows: Group, column: str, words: Sequence[str]) -> Ids:
        """Return the numbers of words."""
        ids, texts = rows.words(column)
        known = {word: number for number, word in enumerate(words)}
        if unknown := [text for text in texts if text not in known]:
            raise table.damage(f"column {column}", f"one of {', '.join(words)}", repr(unknown[0][:40]))
        if len(ids) and int(ids.min()) < 0:
            raise table.damage(f"column {column}", "a word in every row", "NULL")
        return np.array([*(known[text] for text in texts), ABSENT], np.int32)[ids]

    def ids(self, table: StoredTable, rows: Group, column: str, n: int, lowest: int = ABSENT) -> Array:
        """Return numbers of rows of another table."""
        ids = rows.numbers(column)
        wrong = np.flatnonzero((ids < lowest) | (ids >= n))
        if len(wrong):
            expected = f"numbers below {n}"
            raise table.damage(f"column {column}", expected, f"{int(ids[wrong[0]])} in row {int(wrong[0])}")
        return ids

    def or_warn(self, read: Callable[[], T], otherwise: T) -> T:
        """Return what reading gives; where that is damaged, the rest is still worth having."""
        try:
            return read()
        except CorruptFile as error:
            self.warn(error)
            return otherwise

    def warn(self, error: CallgroveError) -> None:
        warning = InputWarning(Severity.DAMAGE, str(error))
        if warning not in self.warnings:
            self.warnings.append(warning)
