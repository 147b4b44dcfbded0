"""The tables and the tree of a released database's meta.db.

    General, IdNames        title; names of identifier kinds
    Metrics                 metrics, each with the ids of its scopes and of its summary statistics
    Modules, Files, Functions
    Context                 entry points, each with an array of children; contexts have variable length:
                            32 bytes, then flex words [pFunction] [pFile, line] [pModule, offset]

Children are reached by pointers, so nothing promises that they end: the number of contexts that fit into the file
bounds the walk. Genuine writers store the text `TODO database description`: it is not shown.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from callgrove.binary.filebytes import FileBytes
from callgrove.errors import CorruptFile
from callgrove.formats.hpctoolkit import release_records as rec
from callgrove.formats.hpctoolkit.release_files import header
from callgrove.formats.hpctoolkit.release_words import COPIED_FLAG, HAS_FUNCTION, HAS_PLACE, HAS_POINT
from callgrove.model.arrays import ABSENT, Array

__all__ = ["MetaDb", "RawContext", "RawFunction", "RawMetric", "RawScope", "RawSummary"]

CONTEXT = struct.Struct("<QQIBBBBH")  # rec.CONTEXT, unpacked faster than a record; a test compares the two


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


@dataclass(frozen=True)
class RawContext:
    """One context as stored; -1 is absent. `parent` counts contexts in the order in which they are given."""

    id: int
    parent: int
    entry: str  # the name, for entry points
    relation: int
    lexical_type: int
    function: int
    file: int
    line: int
    module: int
    offset: int


class MetaDb:
    """One meta.db, parsed table by table."""

    def __init__(self, file: FileBytes) -> None:
        self.file = file
        self.version, self._sections = header(file, "meta")
        self._strings: dict[int, str] = {0: ""}
        self._visited = 0  # contexts walked over; bounded by what fits into the file

    def _section(self, dtype: np.dtype[np.void], name: str) -> np.void:
        return self.file.record(dtype, self._sections[name][0], name)

    def _text(self, pointer: int, section: str) -> str:
        """A string, kept once per pointer; 0 is empty."""
        if pointer not in self._strings:
            self._strings[pointer] = self.file.text(pointer, section)
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
        """(pointer, stride, records) of one of the plain tables."""
        section = self._section(rec.TABLE_SECTION, name)
        at, stride, n = int(section["pArray"]), int(section["stride"]), int(section["n"])
        return at, stride, self.file.strided(dtype, stride, n, at, name) if n else np.empty(0, dtype)

    def _number(self, table: tuple[int, int, Array], pointer: int, name: str) -> int:
        """The row that a pointer means; 0 is absent."""
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
                line,
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
        rows = self.file.strided(rec.METRIC, stride, n, int(section["pMetrics"]), "Metrics") if n else ()
        return tuple(self._metric(row, int(section["szScopeInst"]), int(section["szSummary"])) for row in rows)

    def _metric(self, row: np.void, instance_stride: int, summary_stride: int) -> RawMetric:
        at, n = int(row["pScopeInsts"]), int(row["nScopeInsts"])
        instances = self.file.strided(rec.SCOPE_INSTANCE, instance_stride, n, at, "Metrics")
        at, n = int(row["pSummaries"]), int(row["nSummaries"])
        summaries = self.file.strided(rec.SUMMARY, summary_stride, n, at, "Metrics") if n else ()
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

    def contexts(self) -> Iterator[RawContext]:
        """Every context in preorder: entry points and what lies below them."""
        buffer, flex_of = self.file.buffer, self._flex
        given = 0
        for entry in self._entry_points():
            name = self._text(int(entry["pPrettyName"]), "Context") or f"entry point {int(entry['entryPoint'])}"
            yield RawContext(int(entry["ctxId"]), ABSENT, name, 1, 0, ABSENT, ABSENT, ABSENT, ABSENT, ABSENT)
            numbers = {0: given}  # where a context stands -> how many came before it
            given += 1
            for at, parent in self._below(int(entry["pChildren"]), int(entry["szChildren"])):
                _, _, id_, flags, relation, lexical_type, n_flex, _ = CONTEXT.unpack_from(buffer, at)
                place = flex_of(at + rec.CONTEXT.itemsize, flags, n_flex)
                yield RawContext(id_, numbers[parent], "", relation, lexical_type, *place)
                numbers[at] = given
                given += 1

    def context_offsets(self) -> Iterator[int]:
        """Where every context below an entry point stands, in preorder."""
        for entry in self._entry_points():
            for at, _ in self._below(int(entry["pChildren"]), int(entry["szChildren"])):
                yield at

    def _entry_points(self) -> Array:
        section = self._section(rec.CONTEXT_SECTION, "Context")
        n, stride = int(section["nEntryPoints"]), int(section["szEntryPoint"])
        if not n:
            return np.empty(0, rec.ENTRY_POINT)
        return self.file.strided(rec.ENTRY_POINT, stride, n, int(section["pEntryPoints"]), "Context")

    def _below(self, first: int, size: int) -> Iterator[tuple[int, int]]:
        """(offset, offset of the parent) of the contexts in an array of children and in all arrays below; the parent
        of the array itself is 0. An explicit stack: trees are deep."""
        buffer, most = self.file.buffer, self.file.size // rec.CONTEXT.itemsize
        stack: list[tuple[int, int, int]] = []
        if size:
            self.file.check(first, size, "Context")
            stack.append((first, first + size, 0))
        while stack:
            at, end, parent = stack.pop()
            if at + rec.CONTEXT.itemsize > end or self._visited > most:
                self._refuse_tree(at, end)
            self._visited += 1
            below_size, below, _, _, _, _, n_flex, _ = CONTEXT.unpack_from(buffer, at)
            following = at + rec.CONTEXT.itemsize + 8 * n_flex
            if following > end:
                self._refuse_tree(at, end)
            if following < end:
                stack.append((following, end, parent))
            if below_size:
                self.file.check(below, below_size, "Context")
                stack.append((below, below + below_size, at))
            yield at, parent

    @cached_property
    def _flex(self) -> Callable[[int, int, int], tuple[int, int, int, int, int]]:
        """Decoder of flex words: (function, file, line, module, offset)."""
        buffer, words = self.file.buffer, [struct.Struct(f"<{n}Q") for n in range(256)]

        def decode(at: int, flags: int, n: int) -> tuple[int, int, int, int, int]:
            function = file = line = module = offset = ABSENT
            values = words[n].unpack_from(buffer, at)
            needed = (flags & HAS_FUNCTION) + (flags & HAS_PLACE) + ((flags & HAS_POINT) >> 1)
            if needed > n:
                raise CorruptFile(self.file.path, "Context", offset=at, expected=f"{needed} flex words", found=str(n))
            k = 0
            if flags & HAS_FUNCTION:
                function, k = self._number(self._functions, values[0], "Context"), 1
            if flags & HAS_PLACE:
                file, line, k = self._number(self._files, values[k], "Context"), values[k + 1] & 0xFFFFFFFF, k + 2
            if flags & HAS_POINT:
                module, offset = self._number(self._modules, values[k], "Context"), values[k + 1]
            return function, file, line, module, offset

        return decode

    def _refuse_tree(self, at: int, end: int) -> None:
        endless = self._visited > self.file.size // rec.CONTEXT.itemsize
        found = "children that contain their parents" if endless else f"one that ends at byte {end} inside a context"
        raise CorruptFile(
            self.file.path, "Context", offset=at, expected="arrays of whole contexts, each reached once", found=found
        )
