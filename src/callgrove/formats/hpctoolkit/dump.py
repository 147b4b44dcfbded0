"""Every field of a database's files, for `dump`: in the order of the structure, with its offset.

The record tables drive it: a field that a layout names is printed, and nothing else knows offsets.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from callgrove.binary import xml
from callgrove.binary.files import FileBytes
from callgrove.errors import CorruptFile
from callgrove.formats.hpctoolkit.prerelease import files as old
from callgrove.formats.hpctoolkit.prerelease import files as prerelease_files
from callgrove.formats.hpctoolkit.release import files as new
from callgrove.formats.hpctoolkit.release import files as release_files
from callgrove.formats.hpctoolkit.release.meta_db import MetaDb
from callgrove.formats.hpctoolkit.values import SparseBlocks
from callgrove.formats.interface import Field

__all__ = ["prerelease_fields", "release_fields", "xml_fields"]


@dataclass(frozen=True)
class Dumper:
    """Gives fields of one file."""

    file: FileBytes
    name: str

    def record(self, section: str, dtype: np.dtype[Any], offset: int, index: int = -1) -> Iterator[Field]:
        """Yield the fields of one record."""
        record = self.file.record(dtype, offset, section)
        assert dtype.fields is not None
        for name in dtype.names or ():
            yield Field(self.name, section, index, offset + dtype.fields[name][1], name, plain(record[name]))

    def table(self, section: str, dtype: np.dtype[Any], n: int, offset: int, stride: int = 0) -> Iterator[Field]:
        """Yield the fields of `n` records."""
        for index, at in enumerate(self.places(section, dtype, n, offset, stride or dtype.itemsize)):
            yield from self.record(section, dtype, at, index)

    def places(self, section: str, dtype: np.dtype[Any], n: int, offset: int, stride: int) -> Iterator[int]:
        """Yield where `n` records begin. They do not lie in one another: their number would mean nothing then."""
        if n > 1 and stride < dtype.itemsize:
            expected = f"records of at least {dtype.itemsize} bytes"
            raise CorruptFile(self.file.path, section, offset=offset, expected=expected, found=str(stride))
        yield from range(offset, offset + n * stride, stride) if n > 1 else [offset] * n

    def text(self, section: str, pointer: int, name: str, index: int = -1) -> Iterator[Field]:
        """Yield the string that a pointer means."""
        if pointer:
            yield Field(self.name, section, index, pointer, f"*{name}", self.file.text(pointer, section))

    def texts(
        self, section: str, dtype: np.dtype[Any], n: int, offset: int, stride: int, *pointers: str
    ) -> Iterator[Field]:
        """Yield records, each followed by the strings that it points to."""
        for index, at in enumerate(self.places(section, dtype, n, offset, stride)):
            yield from self.record(section, dtype, at, index)
            record = self.file.record(dtype, at, section)
            for pointer in pointers:
                yield from self.text(section, int(record[pointer]), pointer, index)

    def blocks(self, blocks: SparseBlocks) -> Iterator[Field]:
        """Yield the values and the index of every block."""
        extra = blocks.layout.end_marker is not None
        for number in range(len(blocks)):
            if blocks.shared[number]:
                raise blocks.describe_broken(number)
            section, n_index = blocks.section(number), int(blocks.n_index[number])
            n_values, at = int(blocks.n_values[number]), int(blocks.values_at[number])
            yield from self.table(f"{section} values", blocks.layout.value, n_values, at)
            if n_index or (extra and blocks.what == "profile"):
                yield from self.table(
                    f"{section} index", blocks.layout.index, n_index + extra, int(blocks.index_at[number])
                )

    def footer(self) -> Iterator[Field]:
        """Yield the last eight bytes."""
        yield Field(self.name, "footer", -1, max(0, self.file.size - 8), "magic", plain(self.file.tail(8)))


def plain(value: Any) -> int | float | str:
    """Return a number or a printable text."""
    if isinstance(value, bytes):
        return value.decode("ascii", "backslashreplace")
    return value.item() if isinstance(value, np.generic) else value  # type: ignore[no-any-return]


def prerelease_fields(file: FileBytes, name: str) -> Iterator[Field]:
    """Yield the fields of profile.db, cct.db or trace.db of the pre-release generation."""
    dumper = Dumper(file, name)
    magics = {"profile.db": old.PROFILE_MAGICS, "cct.db": old.CCT_MAGICS, "trace.db": old.TRACE_MAGICS}[name]
    head = prerelease_files.header(file, magics, 2 if name == "profile.db" else 1)
    yield from dumper.record("header", old.HEADER, 0)
    yield from dumper.table("section", old.SECTION, len(head.sections), old.HEADER.itemsize)
    at = head.sections[0][1]
    if name == "profile.db":
        yield from dumper.table("ProfileInfo", old.PROFILE_INFO, head.n_items, at)
        blocks, pointers = prerelease_files.read_profiles(file)
        for index, pointer in enumerate(pointers.tolist()):
            length = int(file.array(">u2", 1, pointer, "IdTuple")[0])
            yield Field(name, f"IdTuple {index}", -1, pointer, "len", length)
            yield from dumper.table(f"IdTuple {index}", old.ID_ELEMENT, length, pointer + 2)
        yield from dumper.blocks(blocks)
    elif name == "cct.db":
        yield from dumper.table("ContextInfo", old.CONTEXT_INFO, head.n_items, at)
        yield from dumper.blocks(prerelease_files.read_cct(file)[0])
    else:
        yield from dumper.table("TraceHeader", old.TRACE_HEADER, head.n_items, at)
        lines = prerelease_files.read_traces(file)
        yield from _lines(dumper, lines.start.tolist(), lines.end.tolist(), old.SAMPLE)
    if file.tail(8) in prerelease_files.FOOTERS[name] or name != "trace.db":
        yield from dumper.footer()


def release_fields(file: FileBytes, name: str) -> Iterator[Field]:
    """Yield the fields of meta.db, profile.db, cct.db or trace.db of the released generation."""
    dumper = Dumper(file, name)
    kind = release_files.KINDS[name]
    _, sections = release_files.header(file, kind)
    yield from dumper.record("header", new.HEADER, 0)
    for index, section in enumerate(sections):
        at = new.HEADER.itemsize + index * new.SECTION.itemsize
        yield from dumper.record(f"section {section}", new.SECTION, at)
    parts = {"meta": _meta, "prof": _profiles, "ctxt": _contexts, "trce": _traces}
    yield from parts[kind](dumper, {section: at for section, (at, _) in sections.items()})
    yield from dumper.footer()


def _profiles(dumper: Dumper, sections: dict[str, int]) -> Iterator[Field]:
    yield from dumper.record("ProfileInfos", new.PROFILE_INFOS, sections["ProfileInfos"])
    head = dumper.file.record(new.PROFILE_INFOS, sections["ProfileInfos"], "ProfileInfos")
    n, stride = int(head["nProfiles"]), int(head["szProfile"])
    yield from dumper.table("Profile", new.PROFILE_INFO, n, int(head["pProfiles"]), stride)
    blocks, pointers, _ = release_files.read_profiles(dumper.file)
    for index, pointer in enumerate(pointers.tolist()):
        if pointer:
            length = int(dumper.file.array("<u2", 1, pointer, "IdTuples")[0])
            yield Field(dumper.name, f"IdTuple {index}", -1, pointer, "nIds", length)
            yield from dumper.table(f"IdTuple {index}", new.ID_ELEMENT, length, pointer + 8)
    yield from dumper.blocks(blocks)


def _contexts(dumper: Dumper, sections: dict[str, int]) -> Iterator[Field]:
    yield from dumper.record("CtxInfos", new.CTX_INFOS, sections["CtxInfos"])
    head = dumper.file.record(new.CTX_INFOS, sections["CtxInfos"], "CtxInfos")
    yield from dumper.table("Ctx", new.CTX_INFO, int(head["nCtxs"]), int(head["pCtxs"]), int(head["szCtx"]))
    yield from dumper.blocks(release_files.read_cct(dumper.file))


def _traces(dumper: Dumper, sections: dict[str, int]) -> Iterator[Field]:
    yield from dumper.record("CtxTraces", new.CTX_TRACES, sections["CtxTraces"])
    head = dumper.file.record(new.CTX_TRACES, sections["CtxTraces"], "CtxTraces")
    yield from dumper.table("Trace", new.TRACE, int(head["nTraces"]), int(head["pTraces"]), int(head["szTrace"]))
    lines, _ = release_files.read_traces(dumper.file)
    yield from _lines(dumper, lines.start.tolist(), lines.end.tolist(), new.SAMPLE)


def _lines(dumper: Dumper, starts: list[int], ends: list[int], sample: np.dtype[Any]) -> Iterator[Field]:
    first, last = (
        np.minimum(np.array(places, np.uint64), dumper.file.size).astype(np.int64) for places in (starts, ends)
    )
    shared = dumper.file.find_overlaps(first, np.maximum(last - first, 0))
    for index, (start, end) in enumerate(zip(starts, ends, strict=True)):
        n = max(0, end - start) // sample.itemsize
        if shared[index]:
            expected, found = f"{n} samples of its own", "samples of another line"
            raise CorruptFile(dumper.file.path, f"trace line {index}", offset=start, expected=expected, found=found)
        yield from dumper.table(f"trace line {index}", sample, n, start)


def _meta(dumper: Dumper, sections: dict[str, int]) -> Iterator[Field]:
    yield from dumper.texts("General", new.GENERAL, 1, sections["General"], 0, "pTitle", "pDescription")
    yield from dumper.record("IdNames", new.ID_NAMES, sections["IdNames"])
    names = dumper.file.record(new.ID_NAMES, sections["IdNames"], "IdNames")
    pointers = dumper.file.array("<u8", int(names["nKinds"]), int(names["ppNames"]), "IdNames")
    for index, pointer in enumerate(pointers.tolist()):
        yield from dumper.text("IdNames", pointer, "ppNames", index)
    yield from _meta_metrics(dumper, sections["Metrics"])
    for section, dtype, texts in (
        ("Modules", new.MODULE, ("pPath",)),
        ("Files", new.FILE, ("pPath",)),
        ("Functions", new.FUNCTION, ("pName",)),
    ):
        yield from dumper.record(section, new.TABLE_SECTION, sections[section])
        head = dumper.file.record(new.TABLE_SECTION, sections[section], section)
        yield from dumper.texts(section, dtype, int(head["n"]), int(head["pArray"]), int(head["stride"]), *texts)
    yield from _meta_tree(dumper, sections["Context"])


def _meta_metrics(dumper: Dumper, at: int) -> Iterator[Field]:
    yield from dumper.record("Metrics", new.METRICS_SECTION, at)
    head = dumper.file.record(new.METRICS_SECTION, at, "Metrics")
    n, first, stride = int(head["nScopes"]), int(head["pScopes"]), int(head["szScope"])
    yield from dumper.texts("Scope", new.SCOPE, n, first, stride, "pScopeName")
    n, first, stride = int(head["nMetrics"]), int(head["pMetrics"]), int(head["szMetric"])
    _ = MetaDb(dumper.file).metrics  # raises where they have more scopes than there are ids
    for index, where in enumerate(dumper.places("Metric", new.METRIC, n, first, stride)):
        yield from dumper.record("Metric", new.METRIC, where, index)
        metric = dumper.file.record(new.METRIC, where, "Metrics")
        yield from dumper.text("Metric", int(metric["pName"]), "pName", index)
        n, first = int(metric["nScopeInsts"]), int(metric["pScopeInsts"])
        yield from dumper.table(f"Metric {index} scope", new.SCOPE_INSTANCE, n, first, int(head["szScopeInst"]))
        n, first = int(metric["nSummaries"]), int(metric["pSummaries"])
        yield from dumper.texts(f"Metric {index} summary", new.SUMMARY, n, first, int(head["szSummary"]), "pFormula")


def _meta_tree(dumper: Dumper, at: int) -> Iterator[Field]:
    yield from dumper.record("Context", new.CONTEXT_SECTION, at)
    head = dumper.file.record(new.CONTEXT_SECTION, at, "Context")
    n, first, stride = int(head["nEntryPoints"]), int(head["pEntryPoints"]), int(head["szEntryPoint"])
    yield from dumper.texts("EntryPoint", new.ENTRY_POINT, n, first, stride, "pPrettyName")
    places = MetaDb(dumper.file).places
    for index, where in enumerate(places.at[~places.is_entry].tolist()):
        yield from dumper.record("Ctx", new.CONTEXT, where, index)
        n_flex = int(dumper.file.record(new.CONTEXT, where, "Context")["nFlexWords"])
        words = dumper.file.array("<u8", n_flex, where + new.CONTEXT.itemsize, "Context").tolist()
        for k, word in enumerate(words):
            yield Field(dumper.name, "Ctx", index, where + new.CONTEXT.itemsize + 8 * k, f"flex[{k}]", word)


def xml_fields(path: Path) -> Iterator[Field]:
    """Yield every attribute of every element of an XML file, with the byte where the element begins."""
    parser = xml.new_parser(path)
    pending: list[Field] = []
    seen: dict[str, int] = {}

    def start(tag: str, attributes: dict[str, str]) -> None:
        index = seen[tag] = seen.get(tag, -1) + 1
        at = parser.CurrentByteIndex
        pending.extend(Field(path.name, tag, index, at, name, value) for name, value in attributes.items())

    parser.StartElementHandler = start
    with xml.readable(path) as file:
        try:
            for _ in xml.pieces(path, parser, file):
                yield from pending
                pending.clear()
        except CorruptFile:
            yield from pending
            raise
