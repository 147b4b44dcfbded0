"""A folder that is read: its manifest, its tables, and the damage that was met and stepped over."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

from callgrove.errors import CallgroveError, CorruptFile
from callgrove.formats.columnar.manifest import Manifest
from callgrove.formats.columnar.schema import MANIFEST, TableColumn
from callgrove.formats.columnar.stored_table import Group, StoredTable
from callgrove.model.arrays import ABSENT, Array, Ids
from callgrove.model.experiment import InputWarning, Severity

__all__ = ["Folder"]

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
        """A whole table whose first column counts its rows."""
        table = self.table(name)
        rows = table.whole()
        if not np.array_equal(rows.numbers(key), np.arange(len(rows))):
            raise table.damage(f"column {key}", "the numbers of the rows", "others")
        return rows

    def codes(self, table: StoredTable, rows: Group, column: str, words: Sequence[str]) -> Ids:
        """The numbers of words."""
        ids, texts = rows.words(column)
        known = {word: number for number, word in enumerate(words)}
        if unknown := [text for text in texts if text not in known]:
            raise table.damage(f"column {column}", f"one of {', '.join(words)}", repr(unknown[0][:40]))
        if len(ids) and int(ids.min()) < 0:
            raise table.damage(f"column {column}", "a word in every row", "NULL")
        return np.array([*(known[text] for text in texts), ABSENT], np.int32)[ids]

    def ids(self, table: StoredTable, rows: Group, column: str, n: int, lowest: int = ABSENT) -> Array:
        """Numbers of rows of another table."""
        found = rows.numbers(column)
        wrong = np.flatnonzero((found < lowest) | (found >= n))
        if len(wrong):
            expected = f"numbers below {n}"
            raise table.damage(f"column {column}", expected, f"{int(found[wrong[0]])} in row {int(wrong[0])}")
        return found

    def or_warn(self, read: Callable[[], T], otherwise: T) -> T:
        """What reading gives; where that is damaged, the rest is still worth having."""
        try:
            return read()
        except CorruptFile as error:
            self.warn(error)
            return otherwise

    def warn(self, error: CallgroveError) -> None:
        warning = InputWarning(Severity.DAMAGE, str(error))
        if warning not in self.warnings:
            self.warnings.append(warning)
