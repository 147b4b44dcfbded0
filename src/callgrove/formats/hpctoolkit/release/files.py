"""The binary files of a released database: where each block and each line lies."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from callgrove.arrays import Array, Bools
from callgrove.binary.files import FileBytes
from callgrove.errors import CorruptFile, RefusedInput, UnsupportedVersion
from callgrove.formats.hpctoolkit.blocks import BlockLayout, SparseBlocks, TraceLines
from callgrove.formats.hpctoolkit.release import records as rec
from callgrove.formats.hpctoolkit.release.vocabulary import PHYSICAL_FLAG, SUMMARY_FLAG
from callgrove.model.profiles import Identifier, Interpretation

__all__ = ["footer_missing", "header", "header_bytes", "identifier_tuple", "read_cct", "read_profiles", "read_traces"]

PROFILE_LAYOUT = BlockLayout(rec.PROFILE_VALUE, rec.CONTEXT_INDEX, alignment=4)
CONTEXT_LAYOUT = BlockLayout(rec.CONTEXT_VALUE, rec.METRIC_INDEX, alignment=4)
KINDS = {"meta.db": "meta", "profile.db": "prof", "cct.db": "ctxt", "trace.db": "trce"}


def header(file: FileBytes, kind: str) -> tuple[str, dict[str, tuple[int, int]]]:
    """Return the version and the sections as name -> (offset, size)."""
    if file.size < rec.HEADER.itemsize:
        raise CorruptFile(file.path, "header", expected=f"{rec.HEADER.itemsize} bytes", found=f"{file.size} bytes")
    record = file.record(rec.HEADER, 0, "header")
    magic = file.copy(0, 14, "header")
    if magic.startswith(b"HPCPROF-"):
        raise RefusedInput(
            f"{file.path}: is part of a pre-release database where one of a released one belongs; separate the two"
        )
    if magic != rec.MAGIC + kind.encode():
        raise CorruptFile(file.path, "header", offset=0, expected=f"{rec.MAGIC + kind.encode()!r}", found=f"{magic!r}")
    version = f"{int(record['major'])}.{int(record['minor'])}"
    if int(record["major"]) != 4:
        raise UnsupportedVersion(f"{file.path}: version {version}; callgrove reads 4.x")
    names = rec.SECTIONS[kind]
    table = file.array(rec.SECTION, len(names), rec.HEADER.itemsize, "header")
    return version, {n: (int(s["ptr"]), int(s["size"])) for n, s in zip(names, table, strict=True)}


def header_bytes(kind: str, sections: Mapping[str, tuple[int, int]]) -> bytes:
    """Return the header of a file, version 4.0, with its sections as name -> (offset, size)."""
    head, table = np.zeros(1, rec.HEADER), np.zeros(len(sections), rec.SECTION)
    head[0] = (rec.MAGIC, kind.encode(), 4, 0)
    for record, name in zip(table, rec.SECTIONS[kind], strict=True):
        record["ptr"], record["size"] = sections[name]
    return head.tobytes() + table.tobytes()


def footer_missing(file: FileBytes, name: str) -> bool:
    """Is the word that a complete file ends with absent?"""
    return file.tail(8) != rec.FOOTERS[KINDS[name]]


def read_profiles(file: FileBytes) -> tuple[SparseBlocks, Array, Bools]:
    """Return the blocks of profile.db, where each identifier tuple stands, and which profiles are summaries."""
    _, sections = header(file, "prof")
    section = file.record(rec.PROFILE_INFOS, sections["ProfileInfos"][0], "ProfileInfos")
    n, stride = int(section["nProfiles"]), int(section["szProfile"])
    infos = file.read_strided(rec.PROFILE_INFO, stride, n, int(section["pProfiles"]), "ProfileInfos")
    blocks = _blocks(file, PROFILE_LAYOUT, "profile", infos, "nCtxs", "pCtxIndices")
    is_summary: Bools = (infos["flags"] & SUMMARY_FLAG) != 0
    return blocks, infos["pIdTuple"].astype(np.uint64), is_summary


def _blocks(file: FileBytes, layout: BlockLayout, name: str, infos: Array, n_index: str, index_at: str) -> SparseBlocks:
    """`n_index` and `index_at` are the names of fields."""
    columns = (infos[field].astype(np.uint64) for field in ("nValues", "pValues", n_index, index_at))
    return SparseBlocks(file, layout, name, *columns)


def identifier_tuple(file: FileBytes, pointer: int) -> list[Identifier]:
    """Return one tuple as (kind, physical, logical, interpretation); a summary has none."""
    length = int(file.array("<u2", 1, pointer, "IdTuples")[0]) if pointer else 0
    elements = file.array(rec.ID_ELEMENT, length, pointer + 8 if length else 0, "IdTuples").tolist()
    return [(kind, physical, logical, _interpretation(flags)) for kind, flags, logical, physical in elements]


def _interpretation(flags: int) -> Interpretation:
    return Interpretation.BOTH if flags & PHYSICAL_FLAG else Interpretation.SINGLE


def read_cct(file: FileBytes) -> SparseBlocks:
    """Return the blocks of cct.db by context id."""
    _, sections = header(file, "ctxt")
    section = file.record(rec.CTX_INFOS, sections["CtxInfos"][0], "CtxInfos")
    n, stride = int(section["nCtxs"]), int(section["szCtx"])
    infos = file.read_strided(rec.CTX_INFO, stride, n, int(section["pCtxs"]), "CtxInfos")
    return _blocks(file, CONTEXT_LAYOUT, "context", infos, "nMetrics", "pMetricIndices")


def read_traces(file: FileBytes) -> tuple[TraceLines, tuple[int, int]]:
    """Return the lines of trace.db and the first and last time stamp that it announces."""
    _, sections = header(file, "trce")
    section = file.record(rec.CTX_TRACES, sections["CtxTraces"][0], "CtxTraces")
    n, stride = int(section["nTraces"]), int(section["szTrace"])
    lines = file.read_strided(rec.TRACE, stride, n, int(section["pTraces"]), "CtxTraces")
    table = TraceLines(
        lines["profIndex"].astype(np.int64),
        np.zeros(n, np.int64),
        lines["pStart"].astype(np.uint64),
        lines["pEnd"].astype(np.uint64),
    )
    return table, (int(section["minTimestamp"]), int(section["maxTimestamp"]))
