"""Records of SQLite, taken apart by shape: rows whose headers are equal have their values at equal places.

    header    size | serial type | serial type | ...    0 NULL   1-6 integers of 1, 2, 3, 4, 6, 8 bytes   7 double
    body      value | value | ...                       8, 9 the integers 0 and 1   12, 14 ... blobs   13, 15 ... text

A header is parsed once, in whatever file it was first met: what its values are and where they stand follows from its
bytes alone. All rows of a batch with this header take their places from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from callgrove.arrays import ABSENT, Array, Bools, Floats, Ints
from callgrove.binary.sqlite.numbers import Bytes, check, varint
from callgrove.binary.sqlite.pages import RowBatch

__all__ = [
    "LONGEST_HEADER",
    "NULL",
    "ONE",
    "REAL",
    "SIZES",
    "ZERO",
    "Header",
    "Records",
    "Shapes",
    "alike",
    "header_of",
    "is_text",
    "shapes_of",
]


# Records of SQLite that are alike: rows with equal headers, and texts that are equal, found by comparing bytes.
#
# Most rows of a table have one of a few headers. These are looked for first; what is left is told apart by hashes.


LONGEST_HEADER = 64  # bytes that are compared; rows with more are walked through one by one
HEADER_WORDS = 4  # of 8 bytes, that are compared as a rule
MANY_ALIKE = 64  # texts that are compared before they are decoded
N_SHOWN = 16  # rows that are looked at to find a common one
MOST_COMMON = 6  # shapes that are looked for one after the other
BUCKET_BITS, TURNS = 13, 3  # of a hash; more bits are looked at where headers meet in one bucket
MIXERS = np.random.default_rng(7).integers(0, 2**63, LONGEST_HEADER // 8, np.uint64) | np.uint64(1)
# By the size of a header: 1-bits over its bytes, as numbers of 8 bytes in the machine's order.
MASKS = np.where(np.arange(LONGEST_HEADER) < np.arange(LONGEST_HEADER + 1)[:, None], np.uint8(255), np.uint8(0)).view(
    np.uint64
)


def alike(data: Bytes, begin: Ints, length: Ints) -> tuple[Ints, Ints] | None:
    """Return the places at which a value differs from the one before, and for every value which of these it equals. All
    values must be short and of one length; None where they are not, or where that saves nothing."""
    if len(begin) < MANY_ALIKE or not 0 < int(length[0]) <= LONGEST_HEADER or (length != length[0]).any():
        return None
    words = data.blocks(begin, -(-int(length[0]) // 8)) & MASKS[int(length[0])][: -(-int(length[0]) // 8)]
    new = np.append(True, (words[1:] != words[:-1]).any(axis=1))
    return (np.flatnonzero(new), np.cumsum(new) - 1) if 2 * int(new.sum()) < len(new) else None


def shapes_of(data: Bytes, rows: RowBatch) -> tuple[Ints, Ints]:
    """Return one row for each different header, and for every row which of these has its header."""
    n = len(rows)
    words = data.blocks(rows.start, HEADER_WORDS)
    size = words.view(np.uint8)[:, 0]
    longest = int(size.max(initial=0))
    if longest > LONGEST_HEADER or longest == 0:
        every = np.arange(n)
        return every, every
    if longest > 8 * HEADER_WORDS:
        words = data.blocks(rows.start, LONGEST_HEADER // 8)
    n_words = -(-longest // 8)
    masks = MASKS[longest] if (size == longest).all() else MASKS[size]
    headers = [words[:, k] & masks[..., k] for k in range(n_words)]
    models, group, rest = _common(headers, n)
    if not len(rest):
        return models, group
    others, number = _hash_headers([word[rest] for word in headers])
    group[rest] = number + len(models)
    return np.append(models, rest[others]), group


def _common(headers: Sequence[Array], n: int) -> tuple[Ints, Ints, Ints]:
    """Find headers that most rows have, from a sample: return one row of each, which of these every row has, and the
    rows with other headers."""
    group = np.zeros(n, np.int64)
    models: list[int] = []
    rest = np.arange(n)
    while len(rest) and len(models) < MOST_COMMON:
        row = _typical(headers, rest)
        if row is None:
            break
        columns = headers if len(rest) == n else [word.take(rest) for word in headers]
        same = columns[0] == headers[0][row]
        for word, header in zip(columns[1:], headers[1:], strict=True):
            same &= word == header[row]
        others = rest.compress(~same)
        if 2 * len(others) > len(rest):
            break
        if models:
            group[rest.compress(same)] = len(models)
        models.append(row)
        rest = others
    return np.array(models, np.int64), group, rest


def _typical(headers: Sequence[Array], rows: Ints) -> int | None:
    """Return a row whose header most of these rows seem to have; None if there is none."""
    some = rows[:: max(1, len(rows) // N_SHOWN)]
    shown = list(zip(*(word.take(some).tolist() for word in headers), strict=True))
    typical = max(set(shown), key=shown.count)
    return int(some[shown.index(typical)]) if 2 * shown.count(typical) >= len(shown) else None


def _hash_headers(headers: Sequence[Array], turn: int = 0) -> tuple[Ints, Ints]:
    """Return rows whose headers differ, and for every row which of these has its header. A header may still occur
    twice."""
    n = len(headers[0])
    mixed = np.zeros(n, np.uint64)
    for word, mixer in zip(headers, MIXERS, strict=False):
        mixed = (mixed ^ word) * mixer
    bucket = ((mixed >> np.uint64(64 - BUCKET_BITS * (turn + 1))) & np.uint64((1 << BUCKET_BITS) - 1)).view(np.int64)
    every = np.arange(n)
    latest = np.empty(1 << BUCKET_BITS, np.int64)
    latest[bucket] = every
    like = latest.take(bucket)
    differs = np.zeros(n, np.bool_)
    for word in headers:
        differs |= word != word.take(like)
    others = np.flatnonzero(differs)  # another header has the same bucket
    is_model = like == every
    number = (np.cumsum(is_model) - 1).take(like)
    models = np.flatnonzero(is_model)
    if not len(others):
        return models, number
    if turn + 1 < TURNS:
        more_models, more_numbers = _hash_headers([word[others] for word in headers], turn + 1)
    else:
        more_models = more_numbers = np.arange(len(others))
    number[others] = more_numbers + len(models)
    return np.append(models, others[more_models]), number


NULL, REAL, ZERO, ONE = 0, 7, 8, 9
N_NUMERIC = 10  # 10 and 11 are reserved
SIZES = np.array([0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0], np.int64)
MANY_SHAPES = 512  # which are walked through together instead of being parsed one by one
ALL = 1 << 16  # columns; no table has as many
KNOWN_HEADERS = 1 << 13


def is_text(serial: Ints) -> Bools:
    out: Bools = (serial > N_NUMERIC) & (serial % 2 == 1)
    return out


@dataclass(frozen=True)
class Header:
    """Serial types of the columns of a record, where their values begin, and where the last one ends."""

    serial: tuple[int, ...]
    place: tuple[int, ...]
    end: int


def header_of(raw: bytes, known: dict[bytes, Header]) -> Header:
    """Return the header that some bytes are, its size included; one that is read is known from then on."""
    header = known.get(raw)
    if header is None:
        if len(known) >= KNOWN_HEADERS:
            known.clear()
        header = known[raw] = _read_header(raw)
    return header


def _read_header(raw: bytes) -> Header:
    size, at = varint(raw, 0)
    check(at <= size == len(raw), "a header that leaves its page")
    serials, places, place = [], [], size
    while at < size:
        serial, at = varint(raw, at)
        check(serial not in (N_NUMERIC, N_NUMERIC + 1), "a serial type that is not used")
        serials.append(serial)
        places.append(place)
        place += int(SIZES[serial]) if serial < 12 else (serial - 12) // 2
    check(place < 2**62, "a value larger than any file")
    return Header(tuple(serials), tuple(places), place)


@dataclass(frozen=True)
class Shapes:
    """Headers that rows have, by column: serial types (-1 where records have no such column) and places of values; and
    where the last value of a record ends."""

    serial: Sequence[Ints]
    place: Sequence[Ints]
    end: Ints

    def __len__(self) -> int:
        return len(self.end)


class Records:
    """The columns of some rows; of rows with very many columns, those up to the place `last`."""

    def __init__(self, data: Bytes, rows: RowBatch, last: int) -> None:
        self._data, self.rows = data, rows
        self._models, self._group = shapes_of(data, rows)
        self._serial: list[Ints] = []  # of every column, by shape; -1 where records have no such column
        self._place: list[Ints] = []
        self._ends: Ints  # of the last known column, by shape, from the record's start
        self._is_whole: bool | None = None
        longest = int(data.data[rows.start[self._models]].max(initial=0))
        if len(self._models) <= MANY_SHAPES and longest <= LONGEST_HEADER:
            self.n_known = ALL
            self._parse(longest)
        else:
            self.n_known = last + 1
            self._walk(last + 1)

    @classmethod
    def restore(cls, data: Bytes, rows: RowBatch, shapes: Shapes, group: Ints) -> Records:
        """Return records of rows that were located before and stand in their pages: `group` has the shape of each."""
        records = cls.__new__(cls)
        records._data, records.rows, records._group, records._models = data, rows, group, np.arange(len(shapes))
        records._serial, records._place, records._ends = list(shapes.serial), list(shapes.place), shapes.end
        records._is_whole, records.n_known = True, ALL
        return records

    @property
    def shapes(self) -> Shapes:
        return Shapes(self._serial, self._place, self._ends)

    @property
    def base(self) -> int:
        """Return where in the file the places of rows are counted from."""
        return self._data.base

    @property
    def group(self) -> Ints:
        """Return the shape of every row."""
        return self._group

    @property
    def knows_all(self) -> bool:
        """Return whether all columns are known, however many there are."""
        return self.n_known == ALL

    def part(self, rows: slice) -> Records:
        """Return the records of rows that follow each other, without what only others look like."""
        used, group = np.unique(self._group[rows], return_inverse=True)
        some = self.take(rows)
        some._group, some._models = group.reshape(-1), self._models[used]
        some._serial, some._place = ([column[used] for column in every] for every in (self._serial, self._place))
        some._ends = self._ends[used]
        return some

    def take(self, rows: Array | slice) -> Records:
        """Return the records of some rows."""
        some = Records.__new__(Records)
        some.__dict__.update(self.__dict__)
        some.rows, some._is_whole = self.rows.take(rows), self._is_whole or None
        if len(self._models) > 1:
            some._group = self._group[rows]
        return some

    def _by_row(self, by_shape: Array) -> Array:
        """Return, for every row, the value of its shape; a single value where all rows have one shape."""
        return by_shape[0] if len(self._models) == 1 else by_shape.take(self._group)

    def _rows_where(self, by_shape: Bools) -> Ints:
        if not by_shape.any():
            return np.empty(0, np.int64)
        return np.arange(len(self.rows)) if by_shape.all() else np.flatnonzero(by_shape[self._group])

    def _parse(self, longest: int) -> None:
        """Set serial type and place of every column, for every shape, from headers that may be known already."""
        start, local = (column[self._models].tolist() for column in (self.rows.start, self.rows.local))
        data, headers = self._data.data, []
        for at, here in zip(start, local, strict=True):
            size = int(data[at])
            check(size <= here, "a header that leaves its page")
            headers.append(header_of(data[at : at + size].tobytes(), self._data.known_headers))
        width = max((len(header.serial) for header in headers), default=0)
        n = [width - len(header.serial) for header in headers]
        serial = np.array([h.serial + (ABSENT,) * k for h, k in zip(headers, n, strict=True)], np.int64)
        place = np.array([h.place + (h.end,) * k for h, k in zip(headers, n, strict=True)], np.int64)
        self._serial, self._place = list(serial.T), list(place.T)
        self._ends = np.array([header.end for header in headers], np.int64)

    def _walk(self, n_columns: int) -> None:
        """Find where values stand, column by column for all shapes at once."""
        rows = self.rows.take(self._models)
        header, length = self._data.varints(rows.start)
        check(((header <= rows.local) & (header >= length)).all(), "a header that leaves its page")
        at, place = rows.start + length, header.copy()
        for _ in range(n_columns):
            has_value = at < rows.start + header
            serial, length = self._data.varints(np.where(has_value, at, rows.start))
            is_unused = (serial < 0) | (serial == N_NUMERIC) | (serial == N_NUMERIC + 1)
            check(not (is_unused & has_value).any(), "a serial type that is not used")
            if not has_value.all():
                serial, length = np.where(has_value, serial, ABSENT), np.where(has_value, length, 0)
            self._serial.append(serial)
            self._place.append(place)
            place = place + np.where(serial < 12, SIZES[np.clip(serial, 0, 11)], (serial - 12) // 2)
            at = at + length
            check((place >= header).all(), "a value larger than any file")  # else beyond all numbers
        check((at <= rows.start + header).all(), "a header that ends inside of a serial type")
        self._ends = place

    def _column(self, column: int) -> tuple[Ints, Ints]:
        """Return serial types and places by shape."""
        if column < len(self._serial):
            return self._serial[column], self._place[column]
        return np.full(len(self._models), ABSENT, np.int64), self._ends

    # -- sizes -------------------------------------------------------------------------------------------------------

    @property
    def is_whole(self) -> bool:
        """Return whether every record stands in its page, and its values are as long as it says."""
        if self._is_whole is None:
            rows = self.rows
            self._is_whole = (rows.local is rows.size or bool((rows.local == rows.size).all())) and bool(
                (self._by_row(self._ends) <= rows.size).all()
            )
        return self._is_whole

    def end(self, last: int) -> Ints:
        """Return where the value of a column ends, from the record's start, by row."""
        if last + 1 < len(self._place):
            return np.broadcast_to(self._by_row(self._place[last + 1]), len(self.rows))
        return np.broadcast_to(self._by_row(self._ends), len(self.rows))

    # -- values ------------------------------------------------------------------------------------------------------

    def serial(self, column: int) -> Ints:
        """Return serial types by row; -1 where the record has no such column."""
        return np.broadcast_to(self._by_row(self._column(column)[0]), len(self.rows))

    def serials(self, column: int) -> Ints:
        """Return the serial types that occur in a column; some may be repeated."""
        return self._column(column)[0]

    def _halves(self, place: Ints, n_bytes: int) -> Ints:
        """Return the byte or 2 bytes at these places (by shape) of every record, as a signed number."""
        at = self.rows.start + self._by_row(place)
        values: Ints = self._data.bytes(at).view(np.int8).astype(np.int64)
        if n_bytes == 1:
            return values
        values <<= 8
        at += 1
        values |= self._data.bytes(at)
        return values

    def _words(self, place: Ints) -> Ints:
        """Return the 8 bytes at these places (by shape) of every record."""
        return self._data.words(self.rows.start + self._by_row(place)).view(np.int64)

    def integers(self, column: int, missing: int) -> tuple[Ints, Ints]:
        """Return values with `missing` for NULL, and the rows that hold no integer."""
        serial, place = self._column(column)
        size = np.where(serial < N_NUMERIC, SIZES.take(serial, mode="clip"), 0)
        constant = (size == 0) | (serial == REAL)
        other = (serial == REAL) | (serial > N_NUMERIC)
        if constant.all():
            values = np.broadcast_to(self._by_row(self._constants(serial, missing)), len(self.rows))
        else:
            longest = int(size[~constant].max())
            n_bytes = longest if longest <= 2 else 8
            unused = np.where(constant, 0, 8 * (n_bytes - size))
            at = np.where(constant, 0, place)  # a constant may stand past the end of the file
            values = self._words(at) if n_bytes == 8 else self._halves(at, n_bytes)
            if unused.any():
                values = values >> (unused[0] if (unused == unused[0]).all() else unused.take(self._group))
            if constant.any():  # without a branch for each row: shapes may alternate at random
                values &= np.where(constant, 0, -1).take(self._group)
                values |= np.where(constant, self._constants(serial, missing), 0).take(self._group)
        return values, self._rows_where(other)

    @staticmethod
    def _constants(serial: Ints, missing: int) -> Ints:
        return np.where(serial == ZERO, 0, np.where(serial == ONE, 1, missing))

    def reals(self, column: int) -> tuple[Floats, Ints]:
        """Return values with NaN for NULL, and the rows that hold no number."""
        values, other = self.integers(column, 0)
        serial, place = self._column(column)
        out = values.astype(np.float64)
        out[self._rows_where(serial <= NULL)] = np.nan
        if not len(other):
            return out, other
        real = self.serial(column)[other] == REAL
        doubles = other[real]
        out[doubles] = self._words(np.where(serial == REAL, place, 0))[doubles].view(np.float64)
        return out, other[~real]

    def objects(self, column: int, rows: Ints | None = None) -> list[object]:
        """Return what SQLite would give: None, int, float, str or bytes, for all rows or some of them."""
        if rows is not None:
            return self.take(rows).objects(column)
        serial = self.serial(column)
        out: Array = np.empty(len(serial), object)
        whole = (serial > NULL) & (serial < N_NUMERIC) & (serial != REAL)
        if whole.any():
            integers, _ = self.integers(column, 0)
            out[whole] = integers[whole].tolist()
        if (serial == REAL).any():
            reals, _ = self.reals(column)
            out[serial == REAL] = [None if x != x else x for x in reals[serial == REAL].tolist()]
        self._add_bytes(column, serial, out)
        values: list[object] = out.tolist()
        return values

    def _add_bytes(self, column: int, serial: Ints, out: Array) -> None:
        """Add texts and blobs to `out`; equal ones are made once."""
        long = np.flatnonzero(serial > N_NUMERIC)
        begin = (self.rows.start + self._by_row(self._column(column)[1]))[long]
        end, odds = begin + (serial[long] - 12) // 2, serial[long] % 2
        value_of: dict[tuple[bytes, int], object] = {}
        same = alike(self._data, begin, end - begin)
        model, number = same if same is not None else (slice(None), None)
        data = self._data.data.data
        texts: list[object] = []
        for start, stop, odd in zip(begin[model].tolist(), end[model].tolist(), odds[model].tolist(), strict=True):
            raw = bytes(data[start:stop])
            if (raw, odd) not in value_of:
                value_of[raw, odd] = raw.decode("utf-8", "replace") if odd else raw
            texts.append(value_of[raw, odd])
        cells = np.empty(len(texts), object)
        cells[:] = texts
        out[long] = cells if number is None else cells.take(number)

    def equals(self, column: int, text: bytes) -> Bools:
        """Return which rows hold exactly this text in a column."""
        serial, place = self._column(column)
        out = np.zeros(len(self.rows), np.bool_)
        rows = self._rows_where(serial == 13 + 2 * len(text))
        if not len(rows):
            return out
        begin = self.rows.start[rows] + (place[0] if len(self._models) == 1 else place.take(self._group[rows]))
        same = np.ones(len(rows), np.bool_)
        for k, byte in enumerate(text):
            same &= self._data.data[begin + k] == byte
        out[rows[same]] = True
        return out
