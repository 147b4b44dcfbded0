"""What only some spans have, as it lies in a folder: whole parts, or row group by row group."""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Sequence
from copy import copy
from typing import Any

import numpy as np

from callgrove.errors import CorruptFile
from callgrove.formats.columnar.folder import Folder
from callgrove.formats.columnar.manifest import REMEDY
from callgrove.formats.columnar.schema import MANIFEST, SIDE
from callgrove.formats.columnar.side_columns import JSON, TEXTS, columns_of
from callgrove.formats.columnar.stored_table import Group
from callgrove.formats.columnar.texts import unescaped
from callgrove.model.traces import SideTable

__all__ = ["StoredSides"]

INTEGERS = ("int8", "int16", "int32", "int64", "uint64")
NUMBERS = {"double": np.dtype(np.float64), **{name: np.dtype(name) for name in INTEGERS}}
SORTED_SINCE = 1  # the minor version


class StoredSides:
    """The side tables of all parts: where the rows of each lie."""

    def __init__(self, folder: Folder) -> None:
        described = folder.manifest.get(folder.path, "sides", dict, {})
        self._described = {name: _checked_columns(folder, columns) for name, columns in described.items()}
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
        """Those of some parts: less to send."""
        own = copy(self)
        own._places = {key: place for key, place in self._places.items() if key[1] in parts}
        return own

    def has(self, side: str, part: int) -> bool:
        """Does a part have rows of such a table?"""
        first, last = self._places.get((side, part), (0, 0))
        return first < last

    def read(self, side: str, part: int) -> SideTable | None:
        """None where the part has no such table."""
        if (side, part) not in self._places:
            return None
        first, last = self._places[side, part]
        return self._rows(side, self._tables[SIDE + side].groups_of(first, last), first, last)

    def pieces(self, side: str, part: int) -> Iterator[SideTable]:
        """The same by rising numbers of spans, a row group at a time."""
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
        """Those of some row groups that lie between two rows of the table."""
        table = self._tables[SIDE + side]
        names = [column.name for column in table.columns]
        groups = [table.group(number, names) for number in numbers]
        begin = int(table.first_rows[numbers[0]]) if groups else first
        own = slice(max(0, first - begin), max(0, last - begin))
        span = np.concatenate([np.empty(0, np.int64), *(group.numbers("span") for group in groups)])[own]
        described = self._described[SIDE + side]
        with table.reading("JSON"):
            columns = {name: self._cells(groups, name, kind, box)[own] for name, kind, box in described}
        return SideTable(span, columns)

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
