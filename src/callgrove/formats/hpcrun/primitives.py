"""Byte layouts and primitives of measurement files, each with read, write and print, and the cursor that reads them.

and loadmap entries. (Nodes are arrays: measurement.py.)

    PRIMITIVE.read(cursor, ...)   from where the cursor stands
    primitive.pack(...)           its bytes
    primitive.line()              the line that `dump` prints
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from callgrove.arrays import Array
from callgrove.binary.files import FileBytes
from callgrove.errors import CorruptFile, UnsupportedVersion

__all__ = [
    "ALIGNMENT",
    "EPOCH_TAG",
    "FOOTER",
    "FOOTER_MAGIC",
    "IDENTIFIER",
    "INDEX",
    "INDEX_END",
    "KIND_BITS",
    "LOGICAL_UNWINDING",
    "MAGIC",
    "METRIC_FLAGS",
    "METRIC_TAIL",
    "NODE_04",
    "NODE_04_EARLY",
    "SECTIONS",
    "START_SIZE",
    "UNWOUND",
    "VALUE",
    "VERSIONS",
    "Cursor",
    "EpochHeader",
    "Header",
    "MetricDescription",
    "Module",
    "Pairs",
    "SectionCache",
    "Seen",
    "metrics_bytes",
    "modules_bytes",
    "node_02",
    "pair_line",
    "pairs_bytes",
    "quote",
    "read_metrics",
    "read_modules",
    "read_pairs",
    "text_bytes",
]


# -- byte layouts ------------------------------------------------------------------------------------------------------
# str   u32 length, bytes (no NUL)          nv    str name, str value          list  u32 count, items
#
# start 18 "HPCRUN-profile____", 5 version, 1 "b"
#
# 02.00, 03.00                                       04.00: sections at multiples of 1024, zeros between them
# start, list of nv                                  header          start, list of nv
# then epochs until the end of the file:             loadmap         list of {u16 id, str path, u64 flags}
#   8 "EPOCH___", u64 flags, u64 granularity         cct             u64 n, NODE_04 * n
#   u32 ra-to-callsite, list of nv                   metric table    list of metrics, each with METRIC_TAIL
#   list of metrics [each with METRIC_TAIL: B]       id dictionary   u16 n, {u16 kind, str name} * n
#   list of {u16 id, str path, u64 flags}            sparse metrics  u16 n, IDENTIFIER * n, u64 values, u32 nodes,
#   u64 n, node_02(...) * n                                          VALUE * values, INDEX * (nodes + 1)
#                                                    footer          u64 start, end of each; u64 start; magic
#
# metric: str name, str description, METRIC_FLAGS, u64 period, str formula, str format [, METRIC_TAIL]


MAGIC = b"HPCRUN-profile____"
VERSIONS = ("02.00", "03.00", "04.00")
START_SIZE = len(MAGIC) + 5 + 1

METRIC_FLAGS = np.dtype(
    [
        ("ty", "u1"),  # 1 raw, 2 final, 3 derived
        ("valTy", "u1"),  # 0 none, 1 inclusive, 2 exclusive
        ("valFmt", "u1"),  # 1 integer, 2 real
        ("move2proc", "u1"),
        ("partner", "<u2"),  # in the order of the machine that wrote it, which was little-endian
        ("show", "u1"),  # 0 hide, 1 show, 2 inclusive only, 3 exclusive only, 4 invisible
        ("showPercent", "u1"),
        ("reserved", "u1", (8,)),
    ]
)
METRIC_TAIL = np.dtype(
    [("isFrequency", ">u2"), ("isMultiplexed", ">u2"), ("thresholdMean", ">f8"), ("numSamples", ">u8")]
)

# -- 02.00 and 03.00 ---------------------------------------------------------------------------------------------------

EPOCH_TAG = b"EPOCH___"
LOGICAL_UNWINDING = 1  # bit of the epoch's flags


def node_02(logical: bool, n_metrics: int) -> np.dtype[Any]:
    """Return a node: a leaf has a negative id, parent 0 is the root's; the values of all metrics follow."""
    fields: list[Any] = [("id", ">i4"), ("parent", ">u4")]
    fields += [("association", ">u4")] if logical else []
    fields += [("lm", ">u2"), ("ip", ">u8")]
    fields += [("lip", "u1", (16,))] if logical else []
    return np.dtype([*fields, ("values", ">u8", (n_metrics,))])


# -- 04.00 -------------------------------------------------------------------------------------------------------------

ALIGNMENT = 1024
SECTIONS = ("header", "loadmap", "cct", "metric table", "id dictionary", "sparse metrics")
FOOTER = np.dtype([("sections", ">u8", (len(SECTIONS), 2)), ("footer", ">u8"), ("magic", ">u8")])
FOOTER_NUMBER = np.dtype(">u8")  # it consists of these
N_FOOTER_NUMBERS = FOOTER.itemsize // FOOTER_NUMBER.itemsize
FOOTER_MAGIC = int.from_bytes(b"HPCRUNsm", "big")

NODE_04_EARLY = np.dtype([("id", ">u4"), ("parent", ">u4"), ("lm", ">u2"), ("ip", ">u8")])  # 2021 and 2022
NODE_04 = np.dtype([*NODE_04_EARLY.descr, ("flags", "u1")])
UNWOUND = 1  # bit of a node's flags

KIND_BITS = 14  # the rest of an identifier's kind is its interpretation
IDENTIFIER = np.dtype([("kind", ">u2"), ("physical", ">u8"), ("logical", ">u8")])
VALUE = np.dtype([("value", ">u8"), ("metric", ">u2")])  # eight bytes that the metric says are a u64 or an f64
INDEX = np.dtype([("node", ">u4"), ("first", ">u8")])
INDEX_END = int.from_bytes(b"end!", "big")


# -- primitives --------------------------------------------------------------------------------------------------------


# -- cursor ------------------------------------------------------------------------------------------------------------
# A place in a file that moves on with every read; every size is checked before anything is taken.
# With `seen`, everything that is read is also noted with its place, which is how `dump` lists fields.


FORMATS = {"u1": struct.Struct(">B"), "u2": struct.Struct(">H"), "u4": struct.Struct(">I"), "u8": struct.Struct(">Q")}
TEXT_START = 4  # bytes of a string's length
LONGEST_TEXT = 16 << 20  # bytes
Result = TypeVar("Result")
MOST_REMEMBERED, LARGEST_REMEMBERED = 16, 1 << 18  # sections, and bytes of one


@dataclass(frozen=True)
class Seen:
    """Something that was read: a number, a text or a table of records."""

    section: str
    index: int
    offset: int
    name: str
    value: int | str | Array


class Cursor:
    """Reads one section of a file, which ends at byte `end` (the end of the file unless given)."""

    def __init__(
        self, file: FileBytes, section: str, at: int = 0, end: int | None = None, seen: list[Seen] | None = None
    ) -> None:
        self.file, self.section, self.at = file, section, at
        self.end = file.size if end is None else end
        self.index = -1  # of the record that is being read, for `seen`
        self.seen = seen

    def fail(self, expected: str, found: str, offset: int | None = None, remedy: str = "") -> CorruptFile:
        """Return the error for what stands here, or at `offset`."""
        where = self.at if offset is None else offset
        return CorruptFile(self.file.path, self.section, offset=where, expected=expected, found=found, remedy=remedy)

    def need(self, size: int, what: str) -> int:
        """Move on by `size` bytes; gives where they begin."""
        at = self.at
        if size > self.end - at:
            left = max(0, self.end - at)
            raise self.fail(f"{what} of {size} bytes", f"{left} bytes before the end", remedy="truncated or damaged")
        self.at = at + size
        return at

    def number(self, kind: str, name: str) -> int:
        """Read an unsigned number: `u1`, `u2`, `u4` or `u8`."""
        form = FORMATS[kind]
        at = self.need(form.size, name)
        value: int = form.unpack_from(self.file.buffer, at)[0]
        if self.seen is not None:
            self.seen.append(Seen(self.section, self.index, at, name, value))
        return value

    def count(self, kind: str, name: str, smallest: int) -> int:
        """Read how many things follow, of at least `smallest` bytes each: not more than there is room for."""
        at = self.at
        n = self.number(kind, name)
        if n * smallest > self.end - self.at:
            room = f"{self.end - self.at} bytes before the end"
            raise self.fail(f"room for {n} times {smallest} bytes ({name})", room, at, "truncated or damaged")
        return n

    def text(self, name: str) -> str:
        """Read a string. Bytes that are not UTF-8 are kept as lone surrogates, so that the same bytes can be
        written."""
        at = self.at
        if self.seen is None and at + TEXT_START <= self.end:  # the usual case at once: files have many strings
            last = at + TEXT_START + FORMATS["u4"].unpack_from(self.file.buffer, at)[0]
            if last <= min(self.end, at + LONGEST_TEXT):
                self.at = last
                return bytes(self.file.buffer[at + TEXT_START : last]).decode("utf-8", "surrogateescape")
        n = self.count("u4", f"{name} size", 1)
        if n > LONGEST_TEXT:
            raise self.fail(f"{name} of at most {LONGEST_TEXT} bytes", f"a size of {n}", at, "truncated or damaged")
        start = self.need(n, name)
        value = bytes(self.file.buffer[start : start + n]).decode("utf-8", "surrogateescape")
        if self.seen is not None:
            self.seen[-1] = Seen(self.section, self.index, at, name, value)
        return value

    def texts(self, count: int) -> list[str] | None:
        """Read the next strings at once; return None, and take nothing, where they are to be noted or are not all
        there."""
        if self.seen is not None:
            return None
        buffer, at, end, size_of = self.file.buffer, self.at, self.end, FORMATS["u4"].unpack_from
        texts: list[str] = []
        for _ in range(count):
            start = at + TEXT_START
            if start > end:
                return None
            at = start + size_of(buffer, at)[0]
            if at > end or at - start > LONGEST_TEXT:
                return None
            texts.append(buffer[start:at].decode("utf-8", "surrogateescape"))
        self.at = at
        return texts

    def tag(self, expected: bytes, name: str) -> None:
        """Read bytes that must stand here."""
        at = self.need(len(expected), name)
        content = bytes(self.file.buffer[at : at + len(expected)])
        if content != expected:
            raise self.fail(repr(expected)[1:], repr(content)[1:], at)
        if self.seen is not None:
            self.seen.append(Seen(self.section, self.index, at, name, expected.decode("ascii")))

    def record(self, dtype: np.dtype[Any]) -> np.void:
        """Read one record."""
        record: np.void = self.table(dtype, 1)[0]
        return record

    def table(self, dtype: np.dtype[Any], count: int, name: str = "records") -> Array:
        """Read `count` records as they lie in the file."""
        at = self.need(count * dtype.itemsize, name)
        rows = self.file.array(dtype, count, at, self.section)
        if self.seen is not None:
            self.seen.append(Seen(self.section, self.index, at, name, rows))
        return rows

    def finish(self) -> None:
        """Check that the section ends here."""
        if self.at != self.end:
            raise self.fail(f"the end of the section at byte {self.end}", f"{self.end - self.at} more bytes")


class SectionCache:
    """Sections that were read: thousands of files of one run have equal tables, which are read once. Whoever reads
    files one after the other makes one and passes it in; a process that it is sent to has an empty one."""

    def __init__(self) -> None:
        self._known: dict[tuple[Callable[..., Any], bytes], Any] = {}

    def __reduce__(self) -> tuple[type[SectionCache], tuple[()]]:
        return SectionCache, ()

    def read(self, read: Callable[[Cursor], Result], cursor: Cursor) -> Result:
        """Return what `read` makes of a whole section."""
        size = cursor.end - cursor.at
        if cursor.seen is not None or size > LARGEST_REMEMBERED:
            return read(cursor)
        key = read, cursor.file.copy(cursor.at, size, cursor.section)
        if key not in self._known:
            value = read(cursor)
            if cursor.at != cursor.end:
                return value
            if len(self._known) >= MOST_REMEMBERED:
                self._known.clear()
            self._known[key] = value
        cursor.at = cursor.end
        result: Result = self._known[key]
        return result


def text_bytes(text: str) -> bytes:
    """Return a string as it is written."""
    data = text.encode("utf-8", "surrogateescape")
    return len(data).to_bytes(TEXT_START, "big") + data


# -- primitives --------------------------------------------------------------------------------------------------------


Pairs = tuple[tuple[str, str], ...]
SMALLEST_PAIR = 8
TYPES = {1: "raw", 2: "final", 3: "derived"}
VALUE_TYPES = {0: "none", 1: "inclusive", 2: "exclusive"}
VALUE_FORMATS = {1: "int", 2: "real"}
REAL = 2


def quote(text: str) -> str:
    """Return a text in JSON's quotes. What no encoding can hold is escaped."""
    return json.dumps(text, ensure_ascii=not text.isprintable() or any("\ud800" <= c <= "\udfff" for c in text))


def read_pairs(cursor: Cursor) -> Pairs:
    """Read a list of name-value pairs."""
    n, pairs = cursor.count("u4", "number of pairs", SMALLEST_PAIR), []
    if (texts := cursor.texts(2 * n)) is not None:
        return tuple(zip(texts[::2], texts[1::2], strict=True))
    for cursor.index in range(n):
        pairs.append((cursor.text("name"), cursor.text("value")))
    cursor.index = -1
    return tuple(pairs)


def pairs_bytes(pairs: Sequence[tuple[str, str]]) -> bytes:
    return len(pairs).to_bytes(4, "big") + b"".join(text_bytes(name) + text_bytes(value) for name, value in pairs)


def pair_line(pair: tuple[str, str]) -> str:
    return f"{quote(pair[0])} = {quote(pair[1])}"


@dataclass(frozen=True)
class Header:
    """What every file begins with."""

    version: str
    pairs: Pairs

    @classmethod
    def read(cls, cursor: Cursor) -> Header:
        version = read_version(cursor)
        return cls(version, read_pairs(cursor))

    def pack(self) -> bytes:
        return MAGIC + self.version.encode("ascii") + b"b" + pairs_bytes(self.pairs)

    def line(self) -> str:
        return f"hpcrun {self.version} big-endian"

    def value(self, name: str) -> str:
        """Return what a pair says; empty where there is none of that name."""
        return next((value for known, value in self.pairs if known == name), "")


def read_version(cursor: Cursor) -> str:
    """Read the version, after magic and byte order were found right."""
    file = cursor.file
    start = file.copy(0, min(START_SIZE, file.size), "header")
    magic, version, order = start[: len(MAGIC)], start[len(MAGIC) : -1], start[-1:]
    if magic != MAGIC or len(start) < START_SIZE:
        remedy, found = "not an hpcrun profile", repr(start) if start else "an empty file"
        raise CorruptFile(file.path, "header", offset=0, expected=repr(MAGIC), found=found, remedy=remedy)
    if version.decode("ascii", "replace") not in VERSIONS:
        known = ", ".join(VERSIONS)
        raise UnsupportedVersion(
            f"{file.path}: hpcrun version {version.decode('ascii', 'backslashreplace')!r} at byte {len(MAGIC)}; "
            f"{known} can be read"
        )
    if order != b"b":
        raise CorruptFile(
            file.path,
            "header",
            offset=START_SIZE - 1,
            expected="'b', for big-endian numbers",
            found=repr(order)[1:],
        )
    cursor.tag(start, "start")
    return version.decode("ascii")


@dataclass(frozen=True)
class EpochHeader:
    """What an epoch of 02.00 begins with. `ra_to_callsite` is dead: return addresses stand in interior nodes whatever
    it says."""

    flags: int
    granularity: int
    ra_to_callsite: int
    pairs: Pairs

    @classmethod
    def read(cls, cursor: Cursor) -> EpochHeader:
        cursor.tag(EPOCH_TAG, "epoch-tag")
        flags, granularity = cursor.number("u8", "flags"), cursor.number("u8", "granularity")
        return cls(flags, granularity, cursor.number("u4", "ra-to-callsite"), read_pairs(cursor))

    def pack(self) -> bytes:
        numbers = self.flags.to_bytes(8, "big") + self.granularity.to_bytes(8, "big")
        return EPOCH_TAG + numbers + self.ra_to_callsite.to_bytes(4, "big") + pairs_bytes(self.pairs)

    def line(self) -> str:
        return f"flags={self.flags:#x} granularity={self.granularity} ra={self.ra_to_callsite}"

    @property
    def is_logical(self) -> bool:
        """Do nodes have the fields of logical unwinding?"""
        return bool(self.flags & LOGICAL_UNWINDING)


@dataclass(frozen=True)
class MetricDescription:
    """One row of a metric table. The last four fields are absent (None) in dialect A of 02.00."""

    name: str
    description: str
    ty: int
    val_ty: int
    val_fmt: int
    move2proc: int
    partner: int
    show: int
    show_percent: int
    period: int
    formula: str
    format: str
    is_frequency: int | None = None
    is_multiplexed: int | None = None
    threshold_mean: float | None = None
    n_samples: int | None = None

    SMALLEST = 4 + 4 + METRIC_FLAGS.itemsize + 8 + 4 + 4

    @classmethod
    def read(cls, cursor: Cursor, has_tail: bool) -> MetricDescription:
        name, description = cursor.text("name"), cursor.text("description")
        at = cursor.at
        flags = cursor.record(METRIC_FLAGS)
        ty, val_ty, val_fmt, move2proc, partner, show, percent, _ = flags.tolist()
        if ty not in TYPES or val_fmt not in VALUE_FORMATS or flags["reserved"].any():
            found = flags.tobytes().hex(" ")
            raise cursor.fail("metric flags of one byte each", found, at, "unsupported metric flags")
        period, formula, format_ = cursor.number("u8", "period"), cursor.text("formula"), cursor.text("format")
        numbers = (ty, val_ty, val_fmt, move2proc, partner, show, percent, period)
        tail = cursor.record(METRIC_TAIL).tolist() if has_tail else ()
        return cls(*(name, description, *numbers, formula, format_, *tail))

    def pack(self, has_tail: bool) -> bytes:
        numbers = (self.ty, self.val_ty, self.val_fmt, self.move2proc, self.partner, self.show, self.show_percent)
        flags = np.array([(*numbers, [0] * 8)], METRIC_FLAGS).tobytes()
        tail = b""
        if has_tail:
            mean = 0.0 if self.threshold_mean is None else self.threshold_mean
            rest = (self.is_frequency or 0, self.is_multiplexed or 0, mean, self.n_samples or 0)
            tail = np.array([rest], METRIC_TAIL).tobytes()
        texts = text_bytes(self.name) + text_bytes(self.description)
        ends = text_bytes(self.formula) + text_bytes(self.format)
        return texts + flags + self.period.to_bytes(8, "big") + ends + tail

    @property
    def is_real(self) -> bool:
        return self.val_fmt == REAL

    def words(self) -> dict[str, int | float | str]:
        """Return every field by the name that `dump` prints, in its order."""
        words: dict[str, int | float | str] = {
            "desc": self.description,
            "ty": TYPES[self.ty],
            "valty": VALUE_TYPES.get(self.val_ty, str(self.val_ty)),
            "fmt": VALUE_FORMATS[self.val_fmt],
            "move2proc": self.move2proc,
            "partner": self.partner,
            "show": self.show,
            "percent": self.show_percent,
            "period": self.period,
            "formula": self.formula,
            "format": self.format,
        }
        if self.is_frequency is not None:
            words |= {"freq": self.is_frequency, "mux": self.is_multiplexed or 0}
            words |= {"mean": self.threshold_mean or 0.0, "samples": self.n_samples or 0}
        return words | {"reserved": "0000000000000000"}

    def line(self) -> str:
        texts = ("desc", "formula", "format")
        words = (f"{k}={quote(str(v)) if k in texts else v}" for k, v in self.words().items())
        return f"{quote(self.name)} {' '.join(words)}"


@dataclass(frozen=True)
class Module:
    """An entry of the loadmap. In 04.00, bit 0 of the flags says that samples fell into the module."""

    id: int
    path: str
    flags: int

    SMALLEST = 2 + 4 + 8

    @classmethod
    def read(cls, cursor: Cursor) -> Module:
        return cls(cursor.number("u2", "id"), cursor.text("path"), cursor.number("u8", "flags"))

    def pack(self) -> bytes:
        return self.id.to_bytes(2, "big") + text_bytes(self.path) + self.flags.to_bytes(8, "big")

    def line(self) -> str:
        return f"{self.id} flags={self.flags:#x} {quote(self.path)}"


def read_metrics(cursor: Cursor, has_tail: bool) -> tuple[MetricDescription, ...]:
    """Read a metric table."""
    n, metrics = cursor.count("u4", "number of metrics", MetricDescription.SMALLEST), []
    for cursor.index in range(n):
        metrics.append(MetricDescription.read(cursor, has_tail))
    cursor.index = -1
    return tuple(metrics)


def metrics_bytes(metrics: Sequence[MetricDescription], has_tail: bool) -> bytes:
    return len(metrics).to_bytes(4, "big") + b"".join(metric.pack(has_tail) for metric in metrics)


def read_modules(cursor: Cursor) -> tuple[Module, ...]:
    """Read a loadmap."""
    n, modules = cursor.count("u4", "number of modules", Module.SMALLEST), []
    for cursor.index in range(n):
        modules.append(Module.read(cursor))
    cursor.index = -1
    return tuple(modules)


def modules_bytes(modules: Sequence[Module]) -> bytes:
    return len(modules).to_bytes(4, "big") + b"".join(module.pack() for module in modules)
