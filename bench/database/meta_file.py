"""meta.db and metrics/default.yaml.

Sections stand in the order of genuine files. What a section points to follows inside of it, strings included: Hatchet
reads IdNames and Metrics as blocks of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.database.contexts import Places, context_area
from bench.database.costs import SCOPES
from bench.database.records import WORD, header, records
from bench.database.tree import Tree
from callgrove.arrays import Array, Ints
from callgrove.formats.hpctoolkit.release import files as rec

__all__ = ["ID_NAMES", "quantities", "write_columns", "write_meta"]

ID_NAMES = ("SUMMARY", "NODE", "RANK", "THREAD", "GPUDEVICE", "GPUCONTEXT", "GPUSTREAM", "CORE")
SCOPE_TYPES = {"point": 1, "function": 3, "execution": 2}
MAIN_THREAD = 1  # the format's number of that entry point
FUNCTIONS_PER_FILE, FILES_PER_MODULE = 16, 16
LINES_APART = 50  # functions of one file


def quantities(n_metrics: int) -> tuple[str, ...]:
    """Names of the metrics; the first is the time that Hatchet asks for."""
    return ("CPUTIME (sec)", *(f"EVENTS_{number}" for number in range(1, n_metrics // len(SCOPES))))


def write_meta(path: Path, tree: Tree, n_metrics: int) -> None:
    """The whole file."""
    image = Image()
    n_files = -(-tree.n_functions // FUNCTIONS_PER_FILE)
    n_modules = -(-n_files // FILES_PER_MODULE)
    image.section("General", _general(image))
    image.section("IdNames", _id_names(image))
    image.section("Metrics", _metrics(image, n_metrics))
    at = image.reserve(0)
    names = image.texts([f"compute_{number:05d}" for number in range(tree.n_functions)])
    file_names = image.texts([f"/home/user/app/part_{number:03d}.cpp" for number in range(n_files)])
    module_names = image.texts([f"/home/user/app/lib/libpart{number}.so" for number in range(n_modules)])
    image.section("Strings", at)
    modules = _table(image, "Modules", rec.MODULE, pPath=module_names)
    files = _table(image, "Files", rec.FILE, pPath=file_names)
    number = np.arange(tree.n_functions)
    file = number // FUNCTIONS_PER_FILE
    functions = _table(
        image,
        "Functions",
        rec.FUNCTION,
        pName=names,
        pModule=modules[file // FILES_PER_MODULE],
        offset=0x1000 + 0x100 * number,
        pFile=files[file],
        line=_first_line(number),
    )
    image.section("Context", _contexts(image, tree, functions, files, modules))
    path.write_bytes(image.finish())


class Image:
    """A meta.db in the making."""

    def __init__(self) -> None:
        self._sections = np.zeros(len(rec.SECTIONS["meta"]), rec.SECTION)
        self._bytes = bytearray(rec.HEADER.itemsize + self._sections.nbytes)

    def reserve(self, size: int) -> int:
        """Room for `size` bytes, aligned."""
        self._bytes.extend(bytes(-len(self._bytes) % WORD))
        at = len(self._bytes)
        self._bytes.extend(bytes(size))
        return at

    def put(self, array: Array, at: int | None = None) -> int:
        """An array, into new or into reserved room."""
        raw = array.tobytes()
        where = self.reserve(len(raw)) if at is None else at
        self._bytes[where : where + len(raw)] = raw
        return where

    def texts(self, texts: Sequence[str]) -> Ints:
        """Strings one after the other, and where each stands."""
        raw = [text.encode() + b"\0" for text in texts]
        at = self.reserve(0)
        self._bytes.extend(b"".join(raw))
        return at + np.cumsum([0, *map(len, raw)], dtype=np.int64)[:-1]

    def section(self, name: str, at: int) -> None:
        """From `at` to here is that section."""
        self._sections[rec.SECTIONS["meta"].index(name)] = (len(self._bytes) - at, at)

    def finish(self) -> bytes:
        """The file with header and footer."""
        self.reserve(0)
        self.put(header("meta"), 0)
        self.put(self._sections, rec.HEADER.itemsize)
        return bytes(self._bytes) + rec.FOOTERS["meta"]


def _general(image: Image) -> int:
    at = image.reserve(rec.GENERAL.itemsize)
    title, description = image.texts(["made-up", ""])
    image.put(records(rec.GENERAL, pTitle=title, pDescription=description), at)
    return at


def _id_names(image: Image) -> int:
    at = image.reserve(rec.ID_NAMES.itemsize)
    names_at = image.reserve(WORD * len(ID_NAMES))
    image.put(image.texts(ID_NAMES), names_at)
    image.put(records(rec.ID_NAMES, ppNames=names_at, nKinds=len(ID_NAMES)), at)
    return at


def _metrics(image: Image, n_metrics: int) -> int:
    """Every metric in every scope, and the sum over threads of each under the same id."""
    names = quantities(n_metrics)
    at = image.reserve(rec.METRICS_SECTION.itemsize)
    metrics_at = image.reserve(rec.METRIC.itemsize * len(names))
    name_at, scope_name_at = image.texts(names), image.texts(SCOPES)
    (formula_at,) = image.texts(["$$"])
    types = [SCOPE_TYPES[scope] for scope in SCOPES]
    index = [0 if scope == "function" else 255 for scope in SCOPES]
    scopes_at = image.put(records(rec.SCOPE, len(SCOPES), pScopeName=scope_name_at, type=types, propagationIndex=index))
    metrics = records(rec.METRIC, len(names), pName=name_at, nScopeInsts=len(SCOPES), nSummaries=len(SCOPES))
    pointers = scopes_at + rec.SCOPE.itemsize * np.arange(len(SCOPES))
    for number in range(len(names)):
        ids = number * len(SCOPES) + np.arange(len(SCOPES))
        instances = records(rec.SCOPE_INSTANCE, len(SCOPES), pScope=pointers, propMetricId=ids)
        summaries = records(rec.SUMMARY, len(SCOPES), pScope=pointers, pFormula=formula_at, statMetricId=ids)
        metrics[number]["pScopeInsts"] = image.put(instances)
        metrics[number]["pSummaries"] = image.put(summaries)
    image.put(metrics, metrics_at)
    section = records(rec.METRICS_SECTION, pMetrics=metrics_at, nMetrics=len(names))
    section["pScopes"], section["nScopes"], section["szScope"] = scopes_at, len(SCOPES), rec.SCOPE.itemsize
    for name, dtype in (("szMetric", rec.METRIC), ("szScopeInst", rec.SCOPE_INSTANCE), ("szSummary", rec.SUMMARY)):
        section[name] = dtype.itemsize
    image.put(section, at)
    return at


def _table(image: Image, name: str, dtype: np.dtype[Any], **columns: Ints) -> Ints:
    """One of the plain tables; where each record stands."""
    n = len(next(iter(columns.values())))
    at = image.reserve(rec.TABLE_SECTION.itemsize)
    rows_at = image.put(records(dtype, n, **columns))
    image.put(records(rec.TABLE_SECTION, pArray=rows_at, n=n, stride=dtype.itemsize), at)
    image.section(name, at)
    return rows_at + dtype.itemsize * np.arange(n, dtype=np.int64)


def _contexts(image: Image, tree: Tree, functions: Ints, files: Ints, modules: Ints) -> int:
    """The entry point and, in words of 8 bytes, the arrays of children."""
    at = image.reserve(rec.CONTEXT_SECTION.itemsize)
    (name_at,) = image.texts(["main thread"])
    file, line = tree.function // FUNCTIONS_PER_FILE, _first_line(tree.function) + tree.line
    places = Places(functions[tree.function], files[file], modules[file // FILES_PER_MODULE], line)
    area, contexts = context_area(tree, places, image.reserve(0))
    image.put(area)
    entry = records(
        rec.ENTRY_POINT,
        szChildren=contexts["szChildren"][0],
        pChildren=contexts["pChildren"][0],
        ctxId=tree.id[0],
        entryPoint=MAIN_THREAD,
        pPrettyName=name_at,
    )
    stride = rec.ENTRY_POINT.itemsize
    image.put(records(rec.CONTEXT_SECTION, pEntryPoints=image.put(entry), nEntryPoints=1, szEntryPoint=stride), at)
    return at


def _first_line(function: Ints) -> Ints:
    line: Ints = 1 + LINES_APART * (function % FUNCTIONS_PER_FILE)
    return line


def write_columns(path: Path, n_metrics: int) -> None:
    """The columns that a viewer shows: the sum of every metric, inclusive and exclusive."""
    inputs: list[str] = []
    roots: list[str] = []
    for number, name in enumerate(quantities(n_metrics)):
        inputs += [
            f"  - &m{number}-{scope}\n    metric: {name}\n    scope: {scope}\n    formula: $$\n    combine: sum"
            for scope in ("execution", "function")
        ]
        roots += [
            f"  - name: {name}\n    description: {name}\n    variants:\n      Sum:\n        render: [number, percent]\n"
            f"        formula:\n          inclusive:\n            standard: *m{number}-execution\n"
            f"          exclusive:\n            standard: *m{number}-function"
        ]
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(["version: 0", "inputs:", *inputs, "roots:", *roots]))
