"""The binary files of a pre-release database: their byte layouts, and where each block and each line lies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from callgrove.arrays import Array
from callgrove.binary.files import FileBytes
from callgrove.errors import CorruptFile, RefusedInput, UnsupportedVersion
from callgrove.formats.hpctoolkit.identifiers import TupleLayout
from callgrove.formats.hpctoolkit.values import BlockLayout, SparseBlocks, TraceLines

__all__ = [
    "CCT_FOOTERS",
    "CCT_MAGICS",
    "CONTEXT_END",
    "CONTEXT_INDEX",
    "CONTEXT_INFO",
    "CONTEXT_VALUE",
    "HEADER",
    "ID_ELEMENT",
    "METRIC_END",
    "METRIC_INDEX",
    "PROFILE_FOOTERS",
    "PROFILE_INFO",
    "PROFILE_MAGICS",
    "PROFILE_VALUE",
    "SAMPLE",
    "SECTION",
    "TRACE_FOOTERS",
    "TRACE_HEADER",
    "TRACE_MAGICS",
    "TUPLE_LAYOUT",
    "VERSIONS",
    "footer_missing",
    "header",
    "read_cct",
    "read_profiles",
    "read_traces",
]


# -- byte layouts, in the specification's own field names --------------------------------------------------------------
#     header (128 bytes)        magic, version, counts, sections {size, offset}
#     profile.db                ProfileInfo * n, id tuples, sparse blocks, footer
#     cct.db                    ContextInfo * n, sparse blocks, footer
#     trace.db                  TraceHeader * n, trace lines [, footer]
#
# All numbers are big-endian and packed. Genuine files carry version 1.0 although the document says 4.0, and have no
# footer in trace.db. A footer is a word in host order, so that x86 files hold it reversed.


PROFILE_MAGICS = (b"HPCPROF-profdb__", b"HPCPROF-pmsdb___")
CCT_MAGICS = (b"HPCPROF-cctdb___", b"HPCPROF-cmsdb___")
TRACE_MAGICS = (b"HPCPROF-tracedb_",)
PROFILE_FOOTERS = (b"tfBDFORP", b"PROFDBft")
CCT_FOOTERS = (b"rtfBDTCC", b"CCTDBftr")
TRACE_FOOTERS = (b"tfBDCART", b"TRACDBft")
VERSIONS = (1, 4)  # major; 1 in every genuine file, 4 in the document

HEADER = np.dtype([("magic", "S16"), ("major", "u1"), ("minor", "u1"), ("nItems", ">u4"), ("nSections", ">u2")])
SECTION = np.dtype([("size", ">u8"), ("offset", ">u8")])

PROFILE_INFO = np.dtype(
    [
        ("tuplePtr", ">u8"),
        ("metadata", ">u8"),
        ("spare1", ">u8"),
        ("spare2", ">u8"),
        ("num_vals", ">u8"),
        ("num_nzctxs", ">u4"),
        ("prof_off", ">u8"),
    ]
)
ID_ELEMENT = np.dtype([("kind", ">u2"), ("physical", ">u8"), ("logical", ">u8")])
PROFILE_VALUE = np.dtype([("value", ">f8"), ("id", ">u2")])  # id: metric
CONTEXT_INDEX = np.dtype([("id", ">u4"), ("start", ">u8")])  # id: context
CONTEXT_END = 0x656E6421

CONTEXT_INFO = np.dtype([("ctx_id", ">u4"), ("num_vals", ">u8"), ("num_nzmids", ">u2"), ("ctx_off", ">u8")])
CONTEXT_VALUE = np.dtype([("value", ">f8"), ("id", ">u4")])  # id: prof_idx
METRIC_INDEX = np.dtype([("id", ">u2"), ("start", ">u8")])  # id: metric
METRIC_END = 0x6564

TRACE_HEADER = np.dtype([("prof_info_idx", ">u4"), ("type", ">u2"), ("start", ">u8"), ("end", ">u8")])
SAMPLE = np.dtype([("time", ">u8"), ("ctx", ">u4")])


# -- the files ---------------------------------------------------------------------------------------------------------


KIND_BITS = 14  # the rest of an identifier's kind is its interpretation
PROFILE_LAYOUT = BlockLayout(PROFILE_VALUE, CONTEXT_INDEX, CONTEXT_END, ends_when_empty=True)
CONTEXT_LAYOUT = BlockLayout(CONTEXT_VALUE, METRIC_INDEX, METRIC_END)
FOOTERS = {"profile.db": PROFILE_FOOTERS, "cct.db": CCT_FOOTERS, "trace.db": TRACE_FOOTERS}


@dataclass(frozen=True)
class Header:
    """What the first 128 bytes say."""

    version: str
    n_items: int
    sections: tuple[tuple[int, int], ...]  # (size, offset)


def header(file: FileBytes, magics: tuple[bytes, ...], n_sections: int) -> Header:
    """Return the checked header of a file."""
    if file.size < HEADER.itemsize:
        raise CorruptFile(file.path, "header", expected=f"{HEADER.itemsize} bytes", found=f"{file.size} bytes")
    record = file.record(HEADER, 0, "header")
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
    if int(record["major"]) not in VERSIONS:
        raise UnsupportedVersion(f"{file.path}: version {version}; this generation of files has 1.x and 4.x")
    if int(record["nSections"]) < n_sections:
        raise CorruptFile(
            file.path, "header", offset=22, expected=f"{n_sections} sections", found=f"{int(record['nSections'])}"
        )
    table = file.array(SECTION, n_sections, HEADER.itemsize, "header")
    return Header(version, int(record["nItems"]), tuple((int(s["size"]), int(s["offset"])) for s in table))


def footer_missing(file: FileBytes, name: str) -> bool:
    """Return whether the word that a complete file ends with is absent. trace.db need not have one."""
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
    head = header(file, PROFILE_MAGICS, 2)
    infos = _items(file, PROFILE_INFO, head.n_items, head.sections[0], "ProfileInfo")
    blocks = _blocks(file, PROFILE_LAYOUT, "profile", infos, "prof_off", "num_nzctxs")
    return blocks, infos["tuplePtr"].astype(np.uint64)


def _blocks(file: FileBytes, layout: BlockLayout, name: str, infos: Array, at: str, n_index: str) -> SparseBlocks:
    """Return blocks in which the index follows the values; `at` and `n_index` are the names of fields."""
    n_values, values_at = infos["num_vals"].astype(np.uint64), infos[at].astype(np.uint64)
    index_at = values_at + np.uint64(layout.value.itemsize) * n_values
    return SparseBlocks(file, layout, name, n_values, values_at, infos[n_index].astype(np.uint64), index_at)


def _decode_elements(elements: Array) -> tuple[Array, Array, Array, Array]:
    """Return kind, physical, logical and interpretation of identifiers."""
    kind = elements["kind"].astype(np.int32)
    return kind & ((1 << KIND_BITS) - 1), elements["physical"], elements["logical"], kind >> KIND_BITS


TUPLE_LAYOUT = TupleLayout("IdTuple", np.dtype(">u2"), 2, ID_ELEMENT, _decode_elements)


def read_cct(file: FileBytes) -> tuple[SparseBlocks, Array]:
    """Return the blocks of cct.db by context id, and the ids as stored (they should count from 0)."""
    head = header(file, CCT_MAGICS, 1)
    infos = _items(file, CONTEXT_INFO, head.n_items, head.sections[0], "ContextInfo")
    blocks = _blocks(file, CONTEXT_LAYOUT, "context", infos, "ctx_off", "num_nzmids")
    return blocks, infos["ctx_id"].astype(np.int64)


def read_traces(file: FileBytes) -> TraceLines:
    """Return the lines of trace.db."""
    head = header(file, TRACE_MAGICS, 1)
    lines = _items(file, TRACE_HEADER, head.n_items, head.sections[0], "TraceHeader")
    return TraceLines(
        lines["prof_info_idx"].astype(np.int64),
        lines["type"].astype(np.int64),
        lines["start"].astype(np.uint64),
        lines["end"].astype(np.uint64),
    )
