"""The tables of a released database's meta.db; its tree is read by `meta_tree`.

    General, IdNames        title; names of identifier kinds
    Metrics                 metrics, each with the ids of its scopes and of its summary statistics
    Modules, Files, Functions

Genuine writers store the text `TODO database description`: it is not shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from callgrove.binary.filebytes import FileBytes
from callgrove.errors import CorruptFile
from callgrove.formats.hpctoolkit import release_records as rec
from callgrove.formats.hpctoolkit.meta_tree import PointerTable, RawContexts, TreePlaces, decode, entry_points, walk
from callgrove.formats.hpctoolkit.release_files import header
from callgrove.formats.hpctoolkit.release_words import COPIED_FLAG, MOST_METRIC_IDS
from callgrove.model.arrays import ABSENT, Array, Ints
from callgrove.model.contexts import LAST_LINE

__all__ = ["MetaDb", "RawFunction", "RawMetric", "RawScope", "RawSummary"]

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
        """A string, kept once per pointer; 0 is empty. Strings may share their ends, but not without bound: a small
        file could announce any amount of text."""
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
        """(pointer, stride, records) of one of the plain tables."""
        section = self._section(rec.TABLE_SECTION, name)
        at, stride, n = int(section["pArray"]), int(section["stride"]), int(section["n"])
        return at, stride, self.file.read_strided(dtype, stride, n, at, name) if n else np.empty(0, dtype)

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
        """Every context in preorder: entry points and what lies below them."""
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
