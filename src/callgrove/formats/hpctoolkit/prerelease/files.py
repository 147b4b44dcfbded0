"""The binary files of a pre-release database: where each block and each line lies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from callgrove.arrays import Array
from callgrove.binary.files import FileBytes
from callgrove.errors import CorruptFile, RefusedInput, UnsupportedVersion
from callgrove.formats.hpctoolkit.blocks import BlockLayout, SparseBlocks, TraceLines
from callgrove.formats.hpctoolkit.prerelease import records as rec
from callgrove.model.profiles import Identifier

__all__ = ["footer_missing", "header", "identifier_tuple", "read_cct", "read_profiles", "read_traces"]

KIND_BITS = 14  # the rest of an identifier's kind is its interpretation
PROFILE_LAYOUT = BlockLayout(rec.PROFILE_VALUE, rec.CONTEXT_INDEX, rec.CONTEXT_END, ends_when_empty=True)
CONTEXT_LAYOUT = BlockLayout(rec.CONTEXT_VALUE, rec.METRIC_INDEX, rec.METRIC_END)
FOOTERS = {"profile.db": rec.PROFILE_FOOTERS, "cct.db": rec.CCT_FOOTERS, "trace.db": rec.TRACE_FOOTERS}


@dataclass(frozen=True)
class Header:
    """What the first 128 bytes say."""

    version: str
    n_items: int
    sections: tuple[tuple[int, int], ...]  # (size, offset)


def header(file: FileBytes, magics: tuple[bytes, ...], n_sections: int) -> Header:
    """Return the checked header of a file."""
    if file.size < rec.HEADER.itemsize:
        raise CorruptFile(file.path, "header", expected=f"{rec.HEADER.itemsize} bytes", found=f"{file.size} bytes")
    record = file.record(rec.HEADER, 0, "header")
    magic = file.copy(0, 16, "header")
    if magic.startswith(b"HPCTOOLKIT"):
        raise RefusedInput(
            f"{file.path}: is part of a released database where one of a pre-release one belongs; separate the two"
        )
    if magic not in magics:
        raise CorruptFile(
            file.path,
            "header",
            offset=0,
            expected=f"{magics[0]!r}",
            found=f"{magic!r}",
        )
    version = f"{int(record['major'])}.{int(record['minor'])}"
    if int(record["major"]) not in rec.VERSIONS:
        raise UnsupportedVersion(f"{file.path}: version {version}; this generation of files has 1.x and 4.x")
    if int(record["nSections"]) < n_sections:
        raise CorruptFile(
            file.path, "header", offset=22, expected=f"{n_sections} sections", found=f"{int(record['nSections'])}"
        )
    table = file.array(rec.SECTION, n_sections, rec.HEADER.itemsize, "header")
    return Header(version, int(record["nItems"]), tuple((int(s["size"]), int(s["offset"])) for s in table))


def footer_missing(file: FileBytes, name: str) -> bool:
    """Is the word that a complete file ends with absent? trace.db need not have one."""
    return name != "trace.db" and file.tail(8) not in FOOTERS[name]


def _items(file: FileBytes, dtype: np.dtype[np.void], n: int, section: tuple[int, int], name: str) -> Array:
    size, offset = section
    if n * dtype.itemsize > size:
        raise CorruptFile(
            file.path,
            name,
            offset=offset,
            expected=f"{n} records of {dtype.itemsize} bytes",
            found=f"a section of {size} bytes",
        )
    return file.array(dtype, n, offset, name)


def read_profiles(file: FileBytes) -> tuple[SparseBlocks, Array]:
    """Return the blocks of profile.db and where the identifier tuple of each profile stands."""
    head = header(file, rec.PROFILE_MAGICS, 2)
    infos = _items(file, rec.PROFILE_INFO, head.n_items, head.sections[0], "ProfileInfo")
    blocks = _blocks(file, PROFILE_LAYOUT, "profile", infos, "prof_off", "num_nzctxs")
    return blocks, infos["tuplePtr"].astype(np.uint64)


def _blocks(file: FileBytes, layout: BlockLayout, name: str, infos: Array, at: str, n_index: str) -> SparseBlocks:
    """Blocks in which the index follows the values; `at` and `n_index` are the names of fields."""
    n_values, values_at = infos["num_vals"].astype(np.uint64), infos[at].astype(np.uint64)
    index_at = values_at + np.uint64(layout.value.itemsize) * n_values
    return SparseBlocks(file, layout, name, n_values, values_at, infos[n_index].astype(np.uint64), index_at)


def identifier_tuple(file: FileBytes, pointer: int) -> list[Identifier]:
    """Return one tuple as (kind, physical, logical, interpretation)."""
    length = int(file.array(">u2", 1, pointer, "IdTuple")[0])
    elements = file.array(rec.ID_ELEMENT, length, pointer + 2, "IdTuple").tolist()
    low = (1 << KIND_BITS) - 1
    return [(kind & low, physical, logical, kind >> KIND_BITS) for kind, physical, logical in elements]


def read_cct(file: FileBytes) -> tuple[SparseBlocks, Array]:
    """Return the blocks of cct.db by context id, and the ids as stored (they should count from 0)."""
    head = header(file, rec.CCT_MAGICS, 1)
    infos = _items(file, rec.CONTEXT_INFO, head.n_items, head.sections[0], "ContextInfo")
    blocks = _blocks(file, CONTEXT_LAYOUT, "context", infos, "ctx_off", "num_nzmids")
    return blocks, infos["ctx_id"].astype(np.int64)


def read_traces(file: FileBytes) -> TraceLines:
    """Return the lines of trace.db."""
    head = header(file, rec.TRACE_MAGICS, 1)
    lines = _items(file, rec.TRACE_HEADER, head.n_items, head.sections[0], "TraceHeader")
    return TraceLines(
        lines["prof_info_idx"].astype(np.int64),
        lines["type"].astype(np.int64),
        lines["start"].astype(np.uint64),
        lines["end"].astype(np.uint64),
    )
