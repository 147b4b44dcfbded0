"""What only some spans have, into a table for each kind of it, piece by piece: memory holds a row group.

Rows of different parts never share a row group, and those of a part rise with their spans.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from callgrove.formats.columnar.arrow import Cells, table_of
from callgrove.formats.columnar.group_writer import GroupWriter
from callgrove.formats.columnar.schema import SIDE
from callgrove.formats.columnar.side_columns import Described, columns_of, described, fitting, listed, widened
from callgrove.model.books import Books, Ledger
from callgrove.model.traces import SIDE_TABLES, ArraySpans, SideTable, Traces

__all__ = ["SidesWriter"]

Place = tuple[str, int, int, int]  # side, part, first row, rows


class SidesWriter:
    """The side tables of all parts. What is read and what is written goes into the books."""

    def __init__(self, folder: Path, traces: Traces, books: Books) -> None:
        self._folder, self._traces, self._books = folder, traces, books
        self.described: dict[str, list[list[str]]] = {}  # table -> [column, type, container]
        self._places: list[Place] = []

    def write(self) -> Iterator[tuple[str, int]]:
        """Gives every table with its rows."""
        backend = self._traces.spans_backend
        more = [] if not isinstance(backend, ArraySpans) else [n for n in backend.sides if n not in SIDE_TABLES]
        for name in (*SIDE_TABLES, *more):
            columns: Described = {}
            while True:  # once more for every piece that had something new: hardly ever
                attempt = _Attempt(self._folder, name, columns)
                if attempt.write(self._traces):
                    break
                columns = attempt.columns
            if attempt.file is not None:
                self._places += attempt.places
                self.described[SIDE + name] = described(attempt.columns)
                yield SIDE + name, attempt.file.close()
                self._books.given.merge(attempt.given)
                self._books.passed.merge(attempt.passed)

    def rows(self) -> Mapping[str, Cells]:
        """The columns of `span_sides`."""
        side, part, first, rows = zip(*self._places, strict=True) if self._places else ((), (), (), ())
        numbers = {"part": part, "first": first, "rows": rows}
        return {"side": list(side), **{name: np.array(cells, np.int64) for name, cells in numbers.items()}}


class _Attempt:
    """One side table with columns that may turn out to be too narrow for a piece; there is no file before the first."""

    def __init__(self, folder: Path, name: str, columns: Described) -> None:
        self._folder, self._name, self.columns = folder, name, columns
        self.file: GroupWriter | None = None
        self.places: list[Place] = []
        self.given, self.passed = Ledger(), Ledger()

    def write(self, traces: Traces) -> bool:
        """False where all must be written again, now that the columns are known better."""
        try:
            return all(self._part(traces, part) for part in range(len(traces.parts())))
        except BaseException:
            self._abort()
            raise

    def _part(self, traces: Traces, part: int) -> bool:
        first = None
        for piece in traces.side_chunks(self._name, part):
            wider = widened(self.columns, piece)
            if self.file is not None and described(wider) != described(self.columns):
                self.columns = wider
                self._abort()
                return False
            self.columns = wider
            self.file = self.file or self._open()
            self._count(piece, self.given)
            first = self.file.n_rows if first is None else first
            self.file.add(fitting(piece, described(self.columns)))
        if self.file is not None and first is not None:
            self.file.end_group()
            self.places.append((self._name, part, first, self.file.n_rows - first))
        return True

    def _open(self) -> GroupWriter:
        columns = columns_of(described(self.columns))
        return GroupWriter(
            self._folder,
            SIDE + self._name,
            columns,
            lambda rows: table_of(columns, listed(rows, columns)),
            lambda _, rows: self._count(SideTable(rows["span"], rows), self.passed),
        )

    def _count(self, rows: SideTable, ledger: Ledger) -> None:
        """Add up rows, and what they say of bytes or counters."""
        ledger.amount(f"rows of the side table {self._name}").enter(len(rows.span), 0, 0)
        ledger.add_side(self._name, rows)

    def _abort(self) -> None:
        if self.file is not None:
            self.file.abort()
        self.file = None
