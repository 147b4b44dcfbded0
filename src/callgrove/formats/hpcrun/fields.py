"""Every field of a measurement file with its offset, as it was read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from callgrove.binary.filebytes import FileBytes
from callgrove.errors import CorruptFile
from callgrove.formats.hpcrun.cursor import Seen
from callgrove.formats.hpcrun.files import read_tables
from callgrove.formats.interface import Field

__all__ = ["fields"]

CHUNK = 4096


def fields(file: FileBytes) -> Iterator[Field]:
    """Fields in the order in which they are read; damage raises after what comes before it."""
    seen: list[Seen] = []
    damage: CorruptFile | None = None
    try:
        read_tables(file, seen)
    except CorruptFile as error:
        damage = error
    for one in seen:
        if isinstance(one.value, np.ndarray):
            yield from _table(one, one.value, file.path.name)
        else:
            yield Field(file.path.name, one.section, one.index, one.offset, one.name, one.value)
    if damage is not None:
        raise damage


def _table(seen: Seen, table: Any, file: str) -> Iterator[Field]:
    """The fields of every record. A table of one record belongs to the thing that is being read."""
    layout, alone = table.dtype, len(table) == 1 and seen.name in ("records", "footer")
    places = [(name, *layout.fields[name]) for name in layout.names]
    section = seen.section if seen.name in ("records", "footer") else f"{seen.section}: {seen.name}"
    for first in range(0, len(table), CHUNK):
        for row, record in enumerate(table[first : first + CHUNK], first):
            at = seen.offset + row * layout.itemsize
            index = seen.index if alone else row
            for name, dtype, place in places:
                value = record[name]
                if dtype.subdtype is None:
                    yield Field(file, section, index, at + place, name, value.item())
                    continue
                step = dtype.base.itemsize
                for k, one in enumerate(value.reshape(-1).tolist()):
                    yield Field(file, section, index, at + place + k * step, f"{name}[{k}]", one)
