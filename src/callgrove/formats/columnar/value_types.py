"""How values of one type lie in a table: numbers in the column `value`, the fields of composite ones beside it.

A composite value has its scalar reading in `value`, and a column for each number it is made of: `field_sum`, a list
where it is an array (`field_bins`), and `field_terms_a` where it is inside of another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from callgrove.formats.columnar.arrow import LIST, arrow, list_of, schema_of, table_of
from callgrove.formats.columnar.schema import FIELD, VALUES, TableColumn, value_columns
from callgrove.formats.columnar.stored_table import Group
from callgrove.model.arrays import Array

__all__ = ["ValueLayout"]


@dataclass(frozen=True)
class ValueLayout:
    """The layout of one type of values; a composite type belongs to one metric."""

    dtype: np.dtype[Any]
    metric: int | None
    fillers: bool

    @property
    def table(self) -> str:
        if self.metric is not None:
            return f"{VALUES}-metric-{self.metric}"
        return VALUES if self.dtype == np.float64 else f"{VALUES}-{self.dtype.name}"

    @property
    def columns(self) -> tuple[TableColumn, ...]:
        """All of the table, those of fields last."""
        plain = self.dtype.names is None and self.dtype != np.float64
        return (*value_columns(self.dtype.name if plain else "double", self.fillers), *self._field_columns())

    def _leaves(self) -> list[tuple[str, tuple[str, ...], np.dtype[Any], bool]]:
        """Column, path, type and whether it is a list, of every number of a composite value."""
        pending: list[tuple[tuple[str, ...], np.dtype[Any], bool]] = [((), self.dtype, False)]
        found: list[tuple[str, tuple[str, ...], np.dtype[Any], bool]] = []
        while pending:
            path, dtype, is_list = pending.pop(0)
            if dtype.base.names is None:
                name = FIELD + "_".join(path)
                taken = {known for known, *_ in found}
                found.append((name if name not in taken else f"{name}_{len(found)}", path, dtype.base, is_list))
                continue
            inner = [(name, dtype.base[name]) for name in dtype.base.names]
            pending = [((*path, name), kind, is_list or bool(kind.shape)) for name, kind in inner] + pending
        return found if self.dtype.names is not None else []

    def _field_columns(self) -> tuple[TableColumn, ...]:
        return tuple(
            TableColumn(name, f"{LIST if is_list else ''}{_type_name(kind)}")
            for name, _, kind, is_list in self._leaves()
        )

    def encode(self, rows: Mapping[str, Array]) -> Any:
        """An Arrow table of some rows, in which composite values are structures."""
        if self.dtype.names is None:
            return table_of(self.columns, rows)
        plain = [c for c in self.columns if not c.name.startswith(FIELD)]
        table = table_of(plain, {**rows, "value": rows["scalar"]})
        arrays = {name: table.column(name) for name in table.column_names}
        for name, path, kind, is_list in self._leaves():
            values = rows["value"]
            for part in path:
                values = values[part]
            numbers = np.ascontiguousarray(values, kind.newbyteorder("="))
            arrays[name] = list_of(numbers) if is_list else arrow().array(numbers)
        schema = schema_of(self.columns)
        return arrow().Table.from_arrays([arrays[name] for name in schema.names], schema=schema)

    def decode(self, group: Group) -> Array:
        """The values of a row group."""
        if self.dtype.names is None:
            return group.numbers("value")
        out = np.zeros(len(group), self.dtype)
        for name, path, _, is_list in self._leaves():
            place = out
            for part in path[:-1]:
                place = place[part]
            numbers = group.lists(name) if is_list else group.numbers(name)
            place[path[-1]] = numbers.reshape(place[path[-1]].shape)
        return out

    @property
    def needed(self) -> list[str]:
        """The columns that values are made of."""
        fields = [c.name for c in self._field_columns()]
        return ["profile", "context", "metric", *(fields or ["value"])]


def _type_name(kind: np.dtype[Any]) -> str:
    return "double" if kind == np.float64 else kind.name
