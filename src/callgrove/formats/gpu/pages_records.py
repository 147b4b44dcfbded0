"""Records of SQLite, taken apart by shape: rows whose headers are equal have their values at equal places.

    header    size | serial type | serial type | ...    0 NULL   1-6 integers of 1, 2, 3, 4, 6, 8 bytes   7 double
    body      value | value | ...                       8, 9 the integers 0 and 1   12, 14 ... blobs   13, 15 ... text

Of all rows of a batch only those with a header that no other row has had are walked through, column by column; every
other row takes its places from them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from callgrove.formats.gpu.pages import Bytes, RowBatch, Unusual
from callgrove.model.arrays import ABSENT, Array, Bools, Floats, Ints

__all__ = ["NULL", "REAL", "Records", "is_text"]

NULL, REAL, ZERO, ONE = 0, 7, 8, 9
N_NUMERIC = 10  # 10 and 11 are reserved
SIZES = np.array([0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0], np.int64)
LONGEST_HEADER = 64  # bytes that are compared; rows with more are walked through one by one
N_BUCKETS = 1 << 14
MIXERS = np.random.default_rng(7).integers(0, 2**63, LONGEST_HEADER // 8, np.uint64) | np.uint64(1)
# By the size of a header: 1-bits over its bytes, as big-endian numbers of 8 bytes.
MASKS = (
    np.where(np.arange(LONGEST_HEADER) < np.arange(LONGEST_HEADER + 1)[:, None], np.uint8(255), np.uint8(0))
    .view(">u8")
    .astype(np.uint64)
)


def is_text(serial: Ints) -> Bools:
    found: Bools = (serial > N_NUMERIC) & (serial % 2 == 1)
    return found


class Records:
    """The columns of some rows, up to the place `last` in their records."""

    def __init__(self, data: Bytes, rows: RowBatch, last: int) -> None:
        self._data, self.rows = data, rows
        self._models, self._group = _shapes(data, rows)
        self._walk(last + 1)

    def _by_row(self, by_shape: Array) -> Array:
        """What is known of every shape, for every row; a single number where all rows are alike."""
        return by_shape[0] if len(self._models) == 1 else by_shape[self._group]

    def _rows_where(self, by_shape: Bools) -> Ints:
        if not by_shape.any():
            return np.empty(0, np.int64)
        return np.arange(len(self.rows)) if by_shape.all() else np.flatnonzero(by_shape[self._group])

    def _walk(self, n_columns: int) -> None:
        """Serial type and place of every column, for one row of each shape."""
        rows = self.rows.take(self._models)
        header, length = self._data.varints(rows.start)
        if (header > rows.local).any() or (header < length).any():
            raise Unusual("a header that leaves its page")
        at, place = rows.start + length, header.copy()
        self._serial: list[Ints] = []
        self._place: list[Ints] = []
        for _ in range(n_columns):
            there = at < rows.start + header
            serial, length = self._data.varints(np.where(there, at, rows.start))
            if not there.all():
                serial, length = np.where(there, serial, ABSENT), np.where(there, length, 0)
            if ((serial < ABSENT) | (serial == N_NUMERIC) | (serial == N_NUMERIC + 1)).any():
                raise Unusual("a serial type that is not used")
            self._serial.append(serial)
            self._place.append(place)
            place = place + np.where(serial < 12, SIZES[np.clip(serial, 0, 11)], (serial - 12) // 2)
            at = at + length
            if (place < header).any():  # a size beyond all numbers
                raise Unusual("a value larger than any file")
        if (at > rows.start + header).any():
            raise Unusual("a header that ends inside of a serial type")
        self.end = np.broadcast_to(self._by_row(place), len(self.rows))  # of the last column, from the record's start

    def serial(self, column: int) -> Ints:
        """Serial types by row; -1 where the record has no such column."""
        return np.broadcast_to(self._by_row(self._serial[column]), len(self.rows))

    def serials(self, column: int) -> Ints:
        """Those that occur, in no order."""
        return np.unique(self._serial[column])

    def _ends(self, column: int, size: Ints) -> Ints:
        ends: Ints = self.rows.start + self._by_row(self._place[column] + size)
        return ends

    def integers(self, column: int, missing: int) -> tuple[Ints, Ints]:
        """Values with `missing` for NULL, and the rows that hold no integer."""
        serial = self._serial[column]
        size = np.where(serial < N_NUMERIC, SIZES[np.clip(serial, 0, 11)], 0)
        constant = (size == 0) | (serial == REAL)
        other = (serial == REAL) | (serial > N_NUMERIC)
        if constant.all():
            values = np.broadcast_to(self._by_row(self._constants(serial, missing)), len(self.rows))
        else:
            word = self._data.words(self._ends(column, size) - 8).view(np.int64)
            unused = (8 * (8 - size)) % 64
            shift = unused[0] if (unused == unused[0]).all() else unused[self._group]
            values = (word << shift) >> shift
            if constant.any():
                values = np.where(constant[self._group], self._constants(serial, missing)[self._group], values)
        return values, self._rows_where(other)

    @staticmethod
    def _constants(serial: Ints, missing: int) -> Ints:
        return np.where(serial == ZERO, 0, np.where(serial == ONE, 1, missing))

    def reals(self, column: int) -> tuple[Floats, Ints]:
        """Values with NaN for NULL, and the rows that hold no number."""
        values, other = self.integers(column, 0)
        out, serial = values.astype(np.float64), self._serial[column]
        out[self._rows_where(serial <= NULL)] = np.nan
        if not len(other):
            return out, other
        real = self.serial(column)[other] == REAL
        doubles = other[real]
        ends = self._ends(column, np.where(serial == REAL, 8, 0))
        out[doubles] = self._data.words(ends[doubles] - 8).view(np.float64)
        return out, other[~real]

    def objects(self, column: int, rows: Ints | None = None) -> list[object]:
        """What SQLite would give: None, int, float, str or bytes, for all rows or some of them."""
        chosen = np.arange(len(self.rows)) if rows is None else rows
        serial = self.serial(column)[chosen]
        out: Array = np.empty(len(chosen), object)
        integers, _ = self.integers(column, 0)
        whole = (serial > NULL) & (serial < N_NUMERIC)
        out[whole] = integers[chosen[whole]].tolist()
        if (serial == REAL).any():
            reals, _ = self.reals(column)
            out[serial == REAL] = [None if x != x else x for x in reals[chosen[serial == REAL]].tolist()]
        self._add_bytes(column, chosen, serial, out)
        made: list[object] = out.tolist()
        return made

    def _add_bytes(self, column: int, chosen: Ints, serial: Ints, out: Array) -> None:
        """Texts and blobs; equal ones are made once."""
        long = np.flatnonzero(serial > N_NUMERIC)
        begin = (self.rows.start + self._by_row(self._place[column]))[chosen[long]]
        end = begin + (serial[long] - 12) // 2
        known: dict[bytes, str] = {}
        data = self._data.data.data
        texts: list[object] = []
        for start, stop, odd in zip(begin.tolist(), end.tolist(), (serial[long] % 2).tolist(), strict=True):
            raw = bytes(data[start:stop])
            if odd and raw not in known:
                known[raw] = raw.decode("utf-8", "replace")
            texts.append(known[raw] if odd else raw)
        for k, text in zip(long.tolist(), texts, strict=True):
            out[k] = text

    def equals(self, column: int, text: bytes) -> Bools:
        """Rows in which a column holds exactly this text."""
        rows = np.flatnonzero(self.serial(column) == 13 + 2 * len(text))
        begin = (self.rows.start + self._by_row(self._place[column]))[rows]
        same = np.ones(len(rows), np.bool_)
        for k, byte in enumerate(text):
            same &= self._data.data[begin + k] == byte
        out = np.zeros(len(self.rows), np.bool_)
        out[rows[same]] = True
        return out


def _shapes(data: Bytes, rows: RowBatch) -> tuple[Ints, Ints]:
    """Rows whose headers differ, one for each header, and for every row which of these it is like."""
    n = len(rows)
    every = np.arange(n)
    size = data.data[rows.start].astype(np.int64)
    longest = int(size.max(initial=0))
    if longest > LONGEST_HEADER or longest == 0:
        return every, every
    words = _headers(data, rows.start, size, longest)
    if all((word == word[0]).all() for word in words):
        return np.zeros(1, np.int64), np.zeros(n, np.int64)
    mixed = np.zeros(n, np.uint64)
    for word, mixer in zip(words, MIXERS, strict=False):
        mixed = (mixed ^ word) * mixer
    bucket = (mixed >> np.uint64(64 - 14)).astype(np.int64)
    latest = np.empty(N_BUCKETS, np.int64)
    latest[bucket] = every
    like = latest[bucket]
    differs = np.zeros(n, np.bool_)
    for word in words:
        differs |= word != word[like]
    like[differs] = every[differs]  # two headers in one bucket
    is_model = like == every
    number = np.cumsum(is_model) - 1
    return np.flatnonzero(is_model), number[like]


def _headers(data: Bytes, start: Ints, size: Ints, longest: int) -> Sequence[Array]:
    """The headers of rows, 8 bytes at a time; what follows them is zero."""
    n_words, alike = -(-longest // 8), bool((size == longest).all())
    out = []
    for k in range(n_words):
        at = np.minimum(start + 8 * k, len(data) - 1)
        mask = MASKS[longest, k] if alike else MASKS[:, k][size]
        out.append(data.words(at) & mask)
    return out
