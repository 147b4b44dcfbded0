"""What opening takes, of many small rocpd databases at once: the tables that list things, and where events happened.

Whatever is not plain is left out, and each database reads it by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from callgrove.formats.gpu.cells import MISSING, Cells, Type
from callgrove.formats.gpu.joined_files import JoinedFiles
from callgrove.formats.gpu.joined_pages import JoinedTable
from callgrove.formats.gpu.pages import Unusual
from callgrove.formats.gpu.rocpd_places import ReadBefore, UsedPlaces, suffixes
from callgrove.formats.gpu.rocpd_tables import LISTED, ON_DEVICE, ON_THREADS, PLACE_COLUMNS
from callgrove.model.arrays import Array, Ints
from callgrove.model.grouping import distinct_rows

__all__ = ["read_together"]

SMALL = (*LISTED, "sample", "memory_allocate")  # as a rule


def read_together(joined: JoinedFiles) -> list[ReadBefore]:
    """For each of the files, which have one set of tables each."""
    _ = joined.pages  # reads all files at once
    known = [suffixes(file) for file in joined.files]
    if any(len(own) != 1 for own in known):
        raise Unusual("several processes in one file")

    def name_of(base: str, k: int) -> str:
        return f"rocpd_{base}{known[k][0]}"

    joined.read(SMALL, name_of)
    used = _used_places({base: joined.table(base, name_of) for base in (*ON_DEVICE, *ON_THREADS, "sample")}, len(known))
    cells: list[dict[str, Cells]] = [{} for _ in known]
    for base, columns in LISTED.items():
        try:
            for own, found in zip(cells, _cells(joined.table(base, name_of), columns), strict=True):
                own[base] = found
        except Unusual:
            continue
    return [ReadBefore(own, places) for own, places in zip(cells, used, strict=True)]


def _used_places(tables: Mapping[str, JoinedTable], n: int) -> list[UsedPlaces]:
    """Where the events of each file happened."""

    def used_rows(base: str, columns: Sequence[str]) -> list[Ints]:
        table = tables[base]
        rows, _ = distinct_rows(table.owner, *(table.integers(name, MISSING) for name in columns))
        return np.split(rows[1:], np.searchsorted(rows[0], np.arange(1, n)), axis=1)

    on_device = [used_rows(base, PLACE_COLUMNS) for base in ON_DEVICE]
    threads = [used_rows(base, ("tid",)) for base in ON_THREADS]
    tracks = used_rows("sample", ("track_id",))
    return [
        UsedPlaces([rows[k] for rows in on_device], np.concatenate([rows[k][0] for rows in threads]), tracks[k][0])
        for k in range(n)
    ]


def _cells(table: JoinedTable, columns: Mapping[str, Type]) -> list[Cells]:
    """Columns of each file's rows."""
    made = {name: _column(table, name, type_) for name, type_ in columns.items()}
    bounds = [0, *np.cumsum(table.n).tolist()]
    return [{name: column[first:end] for name, column in made.items()} for first, end in pairwise(bounds)]


def _column(table: JoinedTable, name: str, type_: Type) -> Array:
    if type_ is Type.INTEGER:
        return table.integers(name, MISSING)
    texts = np.empty(len(table), object)
    texts[:] = table.objects(name, np.arange(len(table)))
    if not all(text is None or isinstance(text, str) for text in texts.tolist()):
        raise Unusual("texts that are none")
    return texts
