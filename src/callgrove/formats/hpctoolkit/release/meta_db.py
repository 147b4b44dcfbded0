"""The tables and the calling context tree of a released database's meta.db.

    General, IdNames        title; names of identifier kinds
    Metrics                 metrics, each with the ids of its scopes and of its summary statistics
    Modules, Files, Functions

Genuine writers store the text `TODO database description`: it is not shown.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from callgrove.arrays import ABSENT, Array, Bools, Ids, Ints, Offsets
from callgrove.binary.files import FileBytes
from callgrove.errors import CorruptFile
from callgrove.formats.hpctoolkit.release import files as rec
from callgrove.formats.hpctoolkit.release.files import (
    COPIED_FLAG,
    HAS_FUNCTION,
    HAS_PLACE,
    HAS_POINT,
    MOST_METRIC_IDS,
    header,
)
from callgrove.model.contexts import LAST_LINE

__all__ = [
    "MetaDb",
    "PointerTable",
    "RawContexts",
    "RawFunction",
    "RawMetric",
    "RawScope",
    "RawSummary",
    "TreePlaces",
    "decode",
    "entry_points",
    "walk",
]


# -- calling context tree ----------------------------------------------------------------------------------------------
#     entry point          32 bytes, with an array of children
#     context              32 bytes, then flex words [pFunction] [pFile, line] [pModule, offset];
#                          szChildren and pChildren lead to the next array
#
# Contexts have variable length and are reached by pointers, so finding them is a walk, and nothing promises that it
# ends: the number of contexts that fit into the file bounds it. What the walk finds are offsets; all fields are then
# decoded at once, as columns.


CHILDREN = struct.Struct("<QQ7xB")  # szChildren, pChildren, nFlexWords of rec.CONTEXT; a test compares the two
MOST_FLEX_WORDS = 5
FLEX_WORDS = np.dtype([("words", "<u8", (MOST_FLEX_WORDS,))])


@dataclass(frozen=True)
class PointerTable:
    """A table whose records are meant by pointers: where it begins, how far apart and how many records are."""

    name: str
    at: int
    stride: int
    n: int

    def numbers(self, pointers: Offsets, file: FileBytes) -> Ids:
        """Return the records that pointers mean; 0 is absent, a pointer to anything else is damage."""
        distance = pointers - np.uint64(self.at)  # wraps around below the table, and is too large then
        stride = np.uint64(max(self.stride, 1))
        number, rest = distance // stride, distance % stride
        wrong = (pointers != 0) & ((rest != 0) | (number >= np.uint64(self.n)))
        if wrong.any():
            pointer = int(pointers[wrong][0])
            expected = f"one of {self.n} records of {self.name} from byte {self.at}"
            raise CorruptFile(file.path, "Context", offset=pointer, expected=expected, found="none there")
        numbers: Ids = np.where(pointers != 0, number.astype(np.int32), np.int32(ABSENT))
        return numbers


@dataclass(frozen=True)
class TreePlaces:
    """Where contexts stand, in preorder; `parent` counts them. Entry points are contexts too."""

    at: Ints
    parent: Ids
    is_entry: Bools


@dataclass(frozen=True)
class RawContexts:
    """Contexts as stored, in preorder; -1 is absent. `entry` is the number of an entry point."""

    id: Ints
    parent: Ids
    entry: Ids
    relation: Ids
    lexical_type: Ids
    function: Ids
    file: Ids
    line: Ints
    module: Ids
    offset: Offsets

    def __len__(self) -> int:
        return len(self.id)


def entry_points(file: FileBytes, section_at: int) -> tuple[Array, Ints]:
    """Return the records of the entry points, and where they stand."""
    section = file.record(rec.CONTEXT_SECTION, section_at, "Context")
    n, stride, at = int(section["nEntryPoints"]), int(section["szEntryPoint"]), int(section["pEntryPoints"])
    if not n:
        return np.empty(0, rec.ENTRY_POINT), np.empty(0, np.int64)
    return file.read_strided(rec.ENTRY_POINT, stride, n, at, "Context"), at + stride * np.arange(n)


def walk(file: FileBytes, entries: Array, entries_at: Ints) -> TreePlaces:
    """Find every context: an explicit stack, no recursion, no more contexts than fit into the file."""
    places: list[int] = []
    parents: list[int] = []
    roots: list[int] = []
    for at, size, below in zip(
        entries_at.tolist(), entries["szChildren"].tolist(), entries["pChildren"].tolist(), strict=True
    ):
        roots.append(len(places))
        places.append(at)
        parents.append(ABSENT)
        if size:
            file.check(below, size, "Context")
            _below(file, below, below + size, places, parents)
    is_entry = np.zeros(len(places), np.bool_)
    is_entry[roots] = True
    return TreePlaces(np.array(places, np.int64), np.array(parents, np.int32), is_entry)


def _below(file: FileBytes, at: int, end: int, places: list[int], parents: list[int]) -> None:
    """Add the contexts of an array of children, and of all arrays below it, in preorder."""
    unpack, buffer, size_of = CHILDREN.unpack_from, file.buffer, rec.CONTEXT.itemsize
    most = file.size // size_of
    parent = len(places) - 1
    stack: list[tuple[int, int, int]] = []
    while True:
        if at >= end:
            if not stack:
                return
            at, end, parent = stack.pop()
        if at + size_of > end or len(places) > most:
            raise _tree_error(file, at, end, endless=len(places) > most)
        size, below, n_flex = unpack(buffer, at)
        following = at + size_of + 8 * n_flex
        if following > end:
            raise _tree_error(file, at, end, endless=False)
        places.append(at)
        parents.append(parent)
        if size:
            if below + size > file.size:
                file.check(below, size, "Context")
            if following < end:
                stack.append((following, end, parent))
            at, end, parent = below, below + size, len(places) - 1
        else:
            at = following


def _tree_error(file: FileBytes, at: int, end: int, *, endless: bool) -> CorruptFile:
    found = "children that contain their parents" if endless else f"one that ends at byte {end} inside a context"
    return CorruptFile(
        file.path, "Context", offset=at, expected="arrays of whole contexts, each reached once", found=found
    )


class _FlexWords:
    """The words behind the record of a context: [function] [file, line] [module, offset], of which its flags say what
    is there. Each column is 0 where there is nothing."""

    def __init__(self, file: FileBytes, at: Ints, records: Array) -> None:
        flags, n_words = records["flags"], records["nFlexWords"].astype(np.int64)
        self._words = _gather(file, at + rec.CONTEXT.itemsize, FLEX_WORDS)["words"]
        self._has = {bit: (flags & bit) != 0 for bit in (HAS_FUNCTION, HAS_PLACE, HAS_POINT)}
        self._place_at = self._has[HAS_FUNCTION].astype(np.int64)
        self._point_at = self._place_at + 2 * self._has[HAS_PLACE]
        needed = self._point_at + 2 * self._has[HAS_POINT]
        if (short := needed > n_words).any():
            wrong = int(np.flatnonzero(short)[0])
            expected, found = f"{int(needed[wrong])} flex words", str(int(n_words[wrong]))
            raise CorruptFile(file.path, "Context", offset=int(at[wrong]), expected=expected, found=found)

    def _column(self, bit: int, column: Ints) -> Offsets:
        rows, columns = np.arange(len(self._words)), np.minimum(column, MOST_FLEX_WORDS - 1)
        picked: Offsets = np.where(self._has[bit], self._words[rows, columns], 0)
        return picked.astype(np.uint64)

    @property
    def function(self) -> Offsets:
        return self._column(HAS_FUNCTION, np.zeros_like(self._place_at))

    @property
    def file(self) -> Offsets:
        return self._column(HAS_PLACE, self._place_at)

    @property
    def line(self) -> Ints:
        return (self._column(HAS_PLACE, self._place_at + 1) & np.uint64(0xFFFFFFFF)).astype(np.int64)

    @property
    def module(self) -> Offsets:
        return self._column(HAS_POINT, self._point_at)

    @property
    def offset(self) -> Offsets:
        return self._column(HAS_POINT, self._point_at + 1)


def decode(
    file: FileBytes, places: TreePlaces, functions: PointerTable, files: PointerTable, modules: PointerTable
) -> RawContexts:
    """Return all fields of all contexts, column by column."""
    n = len(places.at)
    inner = np.flatnonzero(~places.is_entry)
    records = _gather(file, places.at[inner], rec.CONTEXT)
    words = _FlexWords(file, places.at[inner], records)

    def spread(values: Array, fill: int) -> Array:
        """Return the values of inner contexts over all; entry points have none."""
        out = np.full(n, fill, values.dtype)
        out[inner] = values
        return out

    entries = np.full(n, ABSENT, np.int32)
    entries[places.is_entry] = np.arange(n - len(inner))
    ids = spread(records["ctxId"].astype(np.int64), 0)
    ids[places.is_entry] = _gather(file, places.at[places.is_entry], rec.ENTRY_POINT)["ctxId"]
    line = words.line
    return RawContexts(
        ids,
        places.parent,
        entries,
        spread(records["relation"].astype(np.int32), 1),
        spread(records["lexicalType"].astype(np.int32), 0),
        spread(functions.numbers(words.function, file), ABSENT),
        spread(files.numbers(words.file, file), ABSENT),
        spread(np.where(line <= LAST_LINE, line, ABSENT), ABSENT),
        spread(modules.numbers(words.module, file), ABSENT),
        spread(words.offset, 0),
    )


def _gather(file: FileBytes, at: Ints, record: np.dtype[np.void]) -> Array:
    """Return the record at each place; beyond the end of the file stand zeros."""
    out = np.zeros(len(at), record)
    last = file.size - record.itemsize
    inside = at <= last
    if last >= 0:
        anywhere: Array = np.ndarray((last + 1,), record, file.buffer, 0, (1,))
        out[inside] = anywhere[at[inside]]
    for k in np.flatnonzero(~inside).tolist():
        rest = bytes(file.buffer[int(at[k]) :]).ljust(record.itemsize, b"\0")
        out[k] = np.frombuffer(rest, record, 1)[0]
    return out


# -- tables ------------------------------------------------------------------------------------------------------------


MOST_SHARING = 4  # strings together, in file sizes


@dataclass(frozen=True)
class RawScope:
    """A propagation scope: type 0 custom, 1 point, 2 execution, 3 transitive."""

    name: str
    type: int


@dataclass(frozen=True)
class RawSummary:
    """A statistic of one scope: combine 0 sum, 1 min, 2 max of the formula over threads."""

    scope: RawScope
    formula: str
    combine: int
    id: int


@dataclass(frozen=True)
class RawMetric:
    """A metric with the ids under which its scopes and statistics are stored."""

    name: str
    scopes: tuple[tuple[RawScope, int], ...]
    summaries: tuple[RawSummary, ...]


@dataclass(frozen=True)
class RawFunction:
    """A function; `module` and `file` index their tables, -1 is absent."""

    name: str
    module: int
    offset: int
    file: int
    line: int


class MetaDb:
    """One meta.db, parsed table by table."""

    def __init__(self, file: FileBytes) -> None:
        self.file = file
        self.version, self._sections = header(file, "meta")
        self._strings: dict[int, str] = {0: ""}
        self._room = MOST_SHARING * file.size  # characters that strings may still have

    def _section(self, dtype: np.dtype[np.void], name: str) -> np.void:
        return self.file.record(dtype, self._sections[name][0], name)

    def _text(self, pointer: int, section: str) -> str:
        """Return a string, kept once per pointer; 0 is empty. Strings may share their ends, but not without bound: a
        small file could announce any amount of text."""
        if pointer not in self._strings:
            text = self._strings[pointer] = self.file.text(pointer, section)
            self._room -= len(text)
            if self._room < 0:
                wanted, found = "strings of their own", "strings that lie in one another"
                raise CorruptFile(self.file.path, section, offset=pointer, expected=wanted, found=found)
        return self._strings[pointer]

    @cached_property
    def title(self) -> str:
        return self._text(int(self._section(rec.GENERAL, "General")["pTitle"]), "General")

    @cached_property
    def description(self) -> str:
        text = self._text(int(self._section(rec.GENERAL, "General")["pDescription"]), "General").strip()
        return "" if text.startswith("TODO") else text

    @cached_property
    def id_names(self) -> tuple[str, ...]:
        section = self._section(rec.ID_NAMES, "IdNames")
        pointers = self.file.array("<u8", int(section["nKinds"]), int(section["ppNames"]), "IdNames")
        return tuple(self._text(p, "IdNames") for p in pointers.tolist())

    def _rows(self, dtype: np.dtype[np.void], name: str) -> tuple[int, int, Array]:
        """Return (pointer, stride, records) of one of the plain tables."""
        section = self._section(rec.TABLE_SECTION, name)
        at, stride, n = int(section["pArray"]), int(section["stride"]), int(section["n"])
        return at, stride, self.file.read_strided(dtype, stride, n, at, name) if n else np.empty(0, dtype)

    def _number(self, table: tuple[int, int, Array], pointer: int, name: str) -> int:
        """Return the row that a pointer means; 0 is absent."""
        if pointer == 0:
            return ABSENT
        at, stride, rows = table
        number, rest = divmod(pointer - at, stride) if stride else (-1, 1)
        if rest or not 0 <= number < len(rows):
            raise CorruptFile(
                self.file.path,
                name,
                offset=pointer,
                expected=f"one of {len(rows)} records from byte {at}",
                found="none there",
            )
        return number

    @cached_property
    def modules(self) -> tuple[str, ...]:
        return tuple(self._text(p, "Modules") for p in self._modules[2]["pPath"].tolist())

    @cached_property
    def files(self) -> tuple[tuple[str, bool], ...]:
        """(path, whether a copy lies in the database)."""
        rows = self._files[2]
        columns = zip(rows["pPath"].tolist(), rows["flags"].tolist(), strict=True)
        return tuple((self._text(path, "Files"), bool(flags & COPIED_FLAG)) for path, flags in columns)

    @cached_property
    def functions(self) -> tuple[RawFunction, ...]:
        fields = ("pName", "pModule", "offset", "pFile", "line")
        rows = zip(*(self._functions[2][f].tolist() for f in fields), strict=True)
        return tuple(
            RawFunction(
                self._text(name, "Functions"),
                self._number(self._modules, module, "Functions"),
                offset,
                self._number(self._files, file, "Functions"),
                line if line <= LAST_LINE else ABSENT,
            )
            for name, module, offset, file, line in rows
        )

    @cached_property
    def _modules(self) -> tuple[int, int, Array]:
        return self._rows(rec.MODULE, "Modules")

    @cached_property
    def _files(self) -> tuple[int, int, Array]:
        return self._rows(rec.FILE, "Files")

    @cached_property
    def _functions(self) -> tuple[int, int, Array]:
        return self._rows(rec.FUNCTION, "Functions")

    @cached_property
    def metrics(self) -> tuple[RawMetric, ...]:
        section = self._section(rec.METRICS_SECTION, "Metrics")
        n, stride = int(section["nMetrics"]), int(section["szMetric"])
        rows = (
            self.file.read_strided(rec.METRIC, stride, n, int(section["pMetrics"]), "Metrics")
            if n
            else np.empty(0, rec.METRIC)
        )
        for field in ("nScopeInsts", "nSummaries"):
            n_ids = int(rows[field].sum(dtype=np.int64))  # records may be shared, ids cannot be
            if n_ids > MOST_METRIC_IDS:
                wanted = f"at most {MOST_METRIC_IDS} ids of metrics"
                raise CorruptFile(self.file.path, "Metrics", expected=wanted, found=f"{field} of {n_ids} in all")
        return tuple(self._metric(row, int(section["szScopeInst"]), int(section["szSummary"])) for row in rows)

    def _metric(self, row: np.void, instance_stride: int, summary_stride: int) -> RawMetric:
        at, n = int(row["pScopeInsts"]), int(row["nScopeInsts"])
        instances = self.file.read_strided(rec.SCOPE_INSTANCE, instance_stride, n, at, "Metrics")
        at, n = int(row["pSummaries"]), int(row["nSummaries"])
        summaries = self.file.read_strided(rec.SUMMARY, summary_stride, n, at, "Metrics") if n else ()
        return RawMetric(
            self._text(int(row["pName"]), "Metrics"),
            tuple((self._scope(int(i["pScope"])), int(i["propMetricId"])) for i in instances),
            tuple(
                RawSummary(
                    self._scope(int(s["pScope"])),
                    self._text(int(s["pFormula"]), "Metrics"),
                    int(s["combine"]),
                    int(s["statMetricId"]),
                )
                for s in summaries
            ),
        )

    def _scope(self, pointer: int) -> RawScope:
        record = self.file.record(rec.SCOPE, pointer, "Metrics")
        return RawScope(self._text(int(record["pScopeName"]), "Metrics"), int(record["type"]))

    def contexts(self) -> RawContexts:
        """Return every context in preorder: entry points and what lies below them."""
        tables = (
            PointerTable(name, at, stride, len(rows))
            for name, (at, stride, rows) in (
                ("Functions", self._functions),
                ("Files", self._files),
                ("Modules", self._modules),
            )
        )
        return decode(self.file, self.places, *tables)

    @cached_property
    def places(self) -> TreePlaces:
        """Where every context stands."""
        return walk(self.file, *self._entry_points)

    @cached_property
    def entry_names(self) -> tuple[str, ...]:
        """What the entry points are called."""
        rows = self._entry_points[0]
        names = (self._text(pointer, "Context") for pointer in rows["pPrettyName"].tolist())
        return tuple(n or f"entry point {k}" for n, k in zip(names, rows["entryPoint"].tolist(), strict=True))

    @cached_property
    def _entry_points(self) -> tuple[Array, Ints]:
        return entry_points(self.file, self._sections["Context"][0])
