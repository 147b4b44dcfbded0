"""What readers of text profiles share: blocks of whole lines, contexts by call path, sums of values, and a count of
what was left out.

    blocks of lines --> records --> contexts and cells (profile, context, metric, value) --> ExperimentBuilder

Memory holds one block of text, the call tree, and the values. What real writers do is a note, what contradicts itself
or breaks off is damage; both are counted, and said once each with the place where it was met first.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import ArrayLike

from callgrove.arrays import ABSENT, Array, Ints, distinct_rows
from callgrove.binary.files import HEAD_BUDGET, Source, open_regular
from callgrove.errors import CorruptFile, InputError
from callgrove.formats.interface import Problem, ReadOptions
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.experiment import Experiment, Severity

__all__ = [
    "EXACT",
    "LONGEST_NAME",
    "TENS",
    "CheckedByReading",
    "ContextsByPath",
    "LeftOut",
    "TextBlock",
    "add_up_values",
    "cut_blocks",
    "head_lines",
    "is_private",
    "parse_decimals",
    "parse_integers",
    "text_blocks",
]

BLOCK = 4 << 20  # bytes
FIRST, LOOKED_AT = 512, HEAD_BUDGET - (1 << 12)  # bytes; detection has a budget that others spend from, too
LARGEST_RECORD = 64 << 20  # bytes; a longer one is not text of a profiler
LONGEST_NAME = 64 << 10  # bytes of one line that is looked at by patterns, which are not made for longer ones
LARGEST_INTEGER = float(2**63)


# -- text --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TextBlock:
    """Whole records of a file: what they are, and at which byte they begin."""

    offset: int
    data: bytes


def after_last_line(data: bytes) -> int:
    """Return where the last complete line ends; 0 where there is none."""
    return data.rfind(b"\n") + 1


def text_blocks(path: Path, cut: Callable[[bytes], int] = after_last_line, size: int = BLOCK) -> Iterator[TextBlock]:
    """Yield a file in blocks of whole records; `cut` says where the last record of a text ends. The last block is what
    is left, also without the end of a line."""
    try:
        with open_regular(path) as file:
            yield from cut_blocks(file, path, cut, size)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error


def cut_blocks(
    file: BinaryIO, path: Path, cut: Callable[[bytes], int] = after_last_line, size: int = BLOCK
) -> Iterator[TextBlock]:
    """Yield an open file in blocks of whole records, as `text_blocks` does."""
    offset, rest = 0, b""
    while data := file.read(size):
        rest += data
        end = cut(rest)
        if end:
            yield TextBlock(offset, rest[:end])
            offset, rest = offset + end, rest[end:]
        elif len(rest) > LARGEST_RECORD:
            expected = f"at most {LARGEST_RECORD:,} bytes"
            raise CorruptFile(path, "text", offset=offset, expected=expected, found="a record that is longer")
    if rest:
        yield TextBlock(offset, rest)


def head_lines(source: Source) -> list[bytes]:
    """Return the first complete lines of a file that looks like text; none of what does not, or is a folder."""
    if source.is_folder or b"\0" in source.head(FIRST):
        return []
    head = source.head(LOOKED_AT)
    lines = head.split(b"\n")
    if len(head) >= LOOKED_AT:  # the last one may be cut
        del lines[-1]
    return [] if b"\0" in head else [line.removesuffix(b"\r") for line in lines]


# -- numbers -----------------------------------------------------------------------------------------------------------
# A decimal is its digits as an integer, divided by a power of ten. Where both are doubles, so is what a parser makes of
# the text: one division rounds as it has to.


EXACT = 2**53  # larger integers are not all doubles
TENS = 10.0 ** np.arange(23)  # larger powers of ten are not all doubles
DOT = ord(".")
FEW = 1 << 11  # bytes: of less, numbers one by one are faster


def parse_decimals(text: bytes, separator: bytes) -> Array | None:
    """Return the numbers in a text; None where one is not a plain decimal, such as -1 or 1e5."""
    if not text or text.translate(None, b"0123456789." + separator):
        return None
    if len(text) < FEW:
        try:
            return np.array([float(number) for number in text.split(separator)])
        except ValueError:
            return None
    digits = parse_integers(text.replace(b".", b""), separator)
    given = np.frombuffer(text + separator, np.uint8)
    marks = np.flatnonzero((given == DOT) | (given == separator[0]))
    is_dot = given[marks] == DOT
    if digits is None or len(digits) != len(marks) - int(is_dot.sum()) or (is_dot[1:] & is_dot[:-1]).any():
        return None
    decimals = np.zeros(len(digits), np.int64)
    decimals[np.cumsum(~is_dot)[is_dot]] = np.diff(marks)[is_dot[:-1]] - 1
    out: Array = digits / TENS[np.minimum(decimals, len(TENS) - 1)]
    unsure = np.flatnonzero((digits >= EXACT) | (decimals >= len(TENS))).tolist()  # too large, or cut to 64 bits
    if unsure:
        ends = marks[~is_dot]
        starts = np.append(0, ends[:-1] + 1)
        out[unsure] = [float(text[starts[row] : ends[row]]) for row in unsure]
    return out


def parse_integers(text: bytes, separator: bytes) -> Ints | None:
    """Return the integers in a text, the largest one instead of larger ones; None where one is none. A blank stands for
    any number of them."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return np.fromstring(text, np.int64, sep=separator.decode())
        except (ValueError, DeprecationWarning):
            return None


# -- what is left out --------------------------------------------------------------------------------------------------


@dataclass
class LeftOut:
    """Counts of what was left out, by reason."""

    counts: dict[tuple[Severity, str], int] = field(default_factory=dict)
    first: dict[tuple[Severity, str], str] = field(default_factory=dict)

    def add(self, severity: Severity, reason: str, example: bytes | str = b"", n: int = 1) -> None:
        """Count something; `reason` is a noun in the plural. Of each reason the first example is shown."""
        key = severity, reason
        self.counts[key] = self.counts.get(key, 0) + n
        if key not in self.first:
            text = example.decode("utf-8", "backslashreplace") if isinstance(example, bytes) else example
            self.first[key] = text.strip()[:60]

    def damage(self, reason: str, example: bytes | str = b"", n: int = 1) -> None:
        """Count something that is broken."""
        self.add(Severity.DAMAGE, reason, example, n)

    def note(self, reason: str, example: bytes | str = b"", n: int = 1) -> None:
        """Count something that real writers do."""
        self.add(Severity.NOTE, reason, example, n)

    def report(self, builder: ExperimentBuilder, path: Path) -> None:
        """Give an experiment one warning for each reason."""
        for (severity, reason), n in self.counts.items():
            example = self.first[severity, reason]
            shown = f", the first is {example!r}" if example else ""
            builder.warn(severity, f"{path}: left out: {n:,} {reason}{shown}")


PRIVATE = re.compile(
    r"user|uid|owner|account|e-?mail|host|node|cluster|machine|home|(?<!call)path|cwd|dir|cmdline|command|executable|librar|environ"
    r"|job.?id|launch|date|day|timestamp|address",
    re.IGNORECASE,
)


def is_private(name: str) -> bool:
    """Return whether a fact about a run may name people, machines or places on their disks: it stays in the file."""
    return PRIVATE.search(name) is not None


class CheckedByReading:
    """A format that knows all that is wrong with an input once it has read it."""

    name: str

    def read(self, source: Source, options: ReadOptions) -> Experiment:
        """Return the experiment."""
        raise NotImplementedError

    def check(self, source: Source, options: ReadOptions) -> Iterator[Problem]:
        """Yield what reading has to say."""
        for warning in self.read(source, options).warnings:
            yield Problem(warning.severity, source.path.name, self.name, warning.text)


# -- contexts and values -----------------------------------------------------------------------------------------------


class ContextsByPath:
    """Contexts of a builder by the numbers of their parent and of a frame, which may be ABSENT; `add` makes one that is
    new."""

    def __init__(self, add: Callable[[int, int], int]) -> None:
        self._add = add
        self._known: dict[int, int] = {}

    def descend(self, frames: Iterable[int], context: int = ABSENT) -> int:
        """Return the context that is reached from a context, or from above the roots, through these frames."""
        known, add = self._known, self._add
        for frame in frames:
            key = (context + 1) << 32 ^ frame
            below = known.get(key)
            if below is None:
                below = known[key] = add(context, frame)
            context = below
        return context


def add_up_values(
    builder: ExperimentBuilder,
    profile: ArrayLike,
    context: ArrayLike,
    metric: ArrayLike,
    value: Array,
    combine: np.ufunc = np.add,
) -> None:
    """Add values to a builder, those of one cell as their sum, or as another combination. Integers stay such unless
    their sum is too large."""
    columns = [np.broadcast_to(np.asarray(column, np.int64), len(value)) for column in (profile, context, metric)]
    if not len(value):
        return
    if value.dtype.kind == "i" and float(np.abs(value.astype(np.float64)).sum()) >= LARGEST_INTEGER:
        value = value.astype(np.float64)
    cells, cell = distinct_rows(*columns)
    sums = np.zeros(cells.shape[1], value.dtype)
    sums[cell] = value
    if cells.shape[1] < len(value):
        _combine_cells(sums, cell, value, combine)
    builder.add_values(cells[0], cells[1], cells[2], sums)


def _combine_cells(out: Array, cell: Array, value: Array, combine: np.ufunc) -> None:
    """Combine the values of each cell, one of which is there already."""
    first = np.full(len(out), -1, np.int64)
    first[cell[::-1]] = np.arange(len(cell))[::-1]
    out[:] = value[first]
    others = np.ones(len(cell), np.bool_)
    others[first] = False
    with np.errstate(over="ignore", invalid="ignore"):
        combine.at(out, cell[others], value[others])
