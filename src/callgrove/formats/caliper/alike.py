r"""Records that are written alike, all at once.

    __rec=ctx,ref=155,attr=97=148=150,data=0.250000=2=7\n     a record
    __rec=ctx,ref=,attr===,data===\n                          its shape: what is left without digits and dots

Nearly all records of a file have one shape. A text of such records is a matrix of numbers: first those of nodes and
attributes, which are the same in many rows, then the values. What else is written is left to the reader of lines.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from callgrove.arrays import Array, Floats, Ints, distinct_rows
from callgrove.formats.text_profiles import EXACT, TENS, parse_integers

__all__ = ["RECORD", "AlikeRecords", "AlikeText", "part_alike"]

SHAPE = re.compile(rb"__rec=ctx,(?:ref(=+),)?attr(=+),data(=+)\n")
RECORD, NUMBER = b"__rec=ctx,", b"0123456789."
ATTRIBUTES, DATA = b",attr=", b",data="
TO_BLANKS, WORDS = bytes.maketrans(b"=,\n", b"   "), b"_reftcxad"
DOT, LINE_END = ord("."), ord("\n")
FEWEST = 1 << 14  # bytes: of less, lines are as fast
MOST_OTHERS = 16  # one line among so many may have another shape


@dataclass(frozen=True)
class AlikeRecords:
    """Records of one shape. `heads` has the nodes and then the attributes of different records, `head` numbers its
    rows."""

    n_nodes: int
    heads: Ints
    head: Ints
    values: Floats

    def texts(self) -> list[bytes]:
        """Return how the records of each head begin: `ref=155,attr=97=148`."""
        rows = [[b"%d" % cell for cell in row] for row in self.heads.tolist()]
        nodes = [b"ref=" + b"=".join(row[: self.n_nodes]) + b"," if self.n_nodes else b"" for row in rows]
        return [begin + b"attr=" + b"=".join(row[self.n_nodes :]) for begin, row in zip(nodes, rows, strict=True)]


def part_alike(lines: bytes) -> tuple[AlikeText | None, bytes]:
    """Return the records of the shape that most lines have, and the other lines; None and all where that is not worth
    it."""
    if len(lines) < FEWEST or not lines.startswith(RECORD):
        return None, lines
    shapes = lines.translate(None, NUMBER)
    if alike := AlikeText.of(lines, shapes):
        return alike, b""
    ends = np.flatnonzero(np.frombuffer(shapes, np.uint8) == LINE_END)
    length = np.diff(ends, prepend=-1)
    others = np.flatnonzero(length != np.bincount(length).argmax())
    if len(others) * MOST_OTHERS > len(length):
        return None, lines
    bounds = np.append(0, np.flatnonzero(np.frombuffer(lines, np.uint8) == LINE_END) + 1).tolist()
    odd = [lines[bounds[k] : bounds[k + 1]] for k in others.tolist()]
    firsts, lasts = [0, *(others + 1).tolist()], [*others.tolist(), len(length)]
    usual = b"".join([lines[bounds[a] : bounds[b]] for a, b in zip(firsts, lasts, strict=True)])
    alike = AlikeText.of(usual, usual.translate(None, NUMBER))
    return (alike, b"".join(odd)) if alike else (None, lines)


@dataclass(frozen=True)
class AlikeText:
    """Records of one shape, which have so many nodes and values each."""

    text: bytes
    n_records: int
    n_nodes: int
    n_values: int

    @classmethod
    def of(cls, lines: bytes, shapes: bytes) -> AlikeText | None:
        """Return lines that have these shapes; None where they differ, or are not records."""
        line = shapes[: shapes.index(b"\n") + 1]
        shape, n = SHAPE.fullmatch(line), len(shapes) // len(line)
        if shape is None or len(shape[2]) != len(shape[3]) or shapes != line * n:
            return None
        return cls(lines, n, len(shape[1] or b""), len(shape[2]))

    def parse(self) -> AlikeRecords | None:
        """Return the records; None where a number is not plain, or not exact as a double."""
        text, attributes = self._without_attributes()
        n_head = self.n_nodes + (self.n_values if attributes is None else 0)
        compact = text.translate(TO_BLANKS, WORDS)
        numbers = parse_integers(compact.replace(b".", b""), b" ")
        if numbers is None or len(numbers) != (n_head + self.n_values) * self.n_records:
            return None
        matrix = numbers.reshape(self.n_records, -1)
        digits = matrix[:, n_head:]
        decimals = _count_decimals(compact, self.n_records, self.n_values)
        if decimals is None or int(digits.max()) >= EXACT or int(decimals.max()) >= len(TENS):
            return None
        if n_head:
            different, head = distinct_rows(*matrix[:, :n_head].T)
            heads = different.T
        else:
            heads, head = np.zeros((1, 0), np.int64), np.zeros(self.n_records, np.int64)
        if attributes is not None:
            heads = np.hstack([heads, np.tile(attributes, (len(heads), 1))])
        return AlikeRecords(self.n_nodes, heads, head, digits / TENS[decimals])

    def _without_attributes(self) -> tuple[bytes, Ints | None]:
        """Return the text without the attributes, and these, where all records have the same ones; else the whole text,
        and None."""
        start, end = self.text.index(ATTRIBUTES), self.text.index(DATA)
        named = self.text[start : end + len(DATA)]
        attributes = parse_integers(self.text[start + len(ATTRIBUTES) : end], b"=")
        if attributes is None or len(attributes) != self.n_values or self.text.count(named) != self.n_records:
            return self.text, None
        return self.text.replace(named, b"="), attributes


def _count_decimals(compact: bytes, n_records: int, n_values: int) -> Array | None:
    """Return the number of digits after the dot of each value; None where another number has a dot, or one several.
    Blanks stand before and after every number."""
    text = np.frombuffer(compact, np.uint8)
    marks = np.flatnonzero(text < ord("0"))
    dots = np.flatnonzero(text[marks] == DOT)
    blanks = dots - np.arange(len(dots))  # before each dot
    n_blanks, rest = divmod(len(marks) - len(dots), n_records)  # in each record
    record, place = np.divmod(blanks, n_blanks) if n_blanks else (blanks, blanks)
    value = place - (n_blanks - n_values)
    if rest or (value < 0).any() or (np.diff(blanks) == 0).any():
        return None
    out = np.zeros((n_records, n_values), np.int64)
    out[record, value] = marks[dots + 1] - marks[dots] - 1
    return out
