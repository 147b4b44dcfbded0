"""The binary files of a released database: their byte layouts, their numbers in the model's words, and where each block
lies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from callgrove.arrays import Array, Bools
from callgrove.binary.files import FileBytes
from callgrove.errors import CorruptFile, RefusedInput, UnsupportedVersion
from callgrove.formats.hpctoolkit.identifiers import TupleLayout
from callgrove.formats.hpctoolkit.values import BlockLayout, SparseBlocks, TraceLines
from callgrove.model.contexts import ContextKind
from callgrove.model.metrics import Scope
from callgrove.model.profiles import Interpretation

__all__ = [
    "COLUMNS_FILE",
    "COMBINATIONS",
    "CONTEXT",
    "CONTEXT_INDEX",
    "CONTEXT_SECTION",
    "CONTEXT_VALUE",
    "COPIED_FLAG",
    "COUNT",
    "CTX_INFO",
    "CTX_INFOS",
    "CTX_TRACES",
    "ENTRY_POINT",
    "ENTRY_POINTS",
    "FILE",
    "FOOTERS",
    "FUNCTION",
    "GENERAL",
    "HAS_FUNCTION",
    "HAS_PLACE",
    "HAS_POINT",
    "HEADER",
    "ID_ELEMENT",
    "ID_NAMES",
    "LEXICAL_TYPES",
    "MAGIC",
    "MAXIMUM",
    "METRIC",
    "METRICS_SECTION",
    "METRIC_INDEX",
    "MINIMUM",
    "MODULE",
    "MOST_METRIC_IDS",
    "PHYSICAL_FLAG",
    "PROFILE_INFO",
    "PROFILE_INFOS",
    "PROFILE_VALUE",
    "SAMPLE",
    "SCOPE",
    "SCOPES",
    "SCOPE_INSTANCE",
    "SCOPE_RECORDS",
    "SECTION",
    "SECTIONS",
    "SQUARES",
    "SUM",
    "SUMMARIES",
    "SUMMARY",
    "SUMMARY_FLAG",
    "TABLE_SECTION",
    "THREAD_VALUE",
    "TRACE",
    "TUPLE_LAYOUT",
    "UNKNOWN_ENTRY",
    "UNKNOWN_FUNCTION",
    "ScopeRecord",
    "footer_missing",
    "header",
    "header_bytes",
    "read_cct",
    "read_profiles",
    "read_traces",
    "storable",
]


# -- byte layouts, in the specification's own field names --------------------------------------------------------------
#     header            "HPCTOOLKIT", fmt, version, then {size, ptr} per section
#     meta.db           General, IdNames, Metrics, Context, Strings, Modules, Files, Functions
#     profile.db        ProfileInfos, IdTuples, value blocks
#     cct.db            CtxInfos, value blocks
#     trace.db          CtxTraces, trace lines
#     footer            the last 8 bytes
#
# All numbers are little-endian; pointers are absolute file offsets, 0 is none; strings end with NUL. Arrays have a
# stored stride, so that later writers may lengthen records. Genuine cct.db files leave 16 bytes of rubbish between the
# header and the section; Function.flags is uninitialised.


MAGIC = b"HPCTOOLKIT"
FOOTERS = {"meta": b"_meta.db", "prof": b"_prof.db", "ctxt": b"__ctx.db", "trce": b"trace.db"}
SECTIONS = {
    "meta": ("General", "IdNames", "Metrics", "Context", "Strings", "Modules", "Files", "Functions"),
    "prof": ("ProfileInfos", "IdTuples"),
    "ctxt": ("CtxInfos",),
    "trce": ("CtxTraces",),
}


def _record(n_bytes: int, /, **fields: tuple[str, int]) -> np.dtype[np.void]:
    """Return a record of `n_bytes` bytes from name=(type, offset)."""
    names = list(fields)
    types = [kind for kind, _ in fields.values()]
    offsets = [offset for _, offset in fields.values()]
    return np.dtype({"names": names, "formats": types, "offsets": offsets, "itemsize": n_bytes})


HEADER = _record(16, magic=("S10", 0), fmt=("S4", 10), major=("u1", 14), minor=("u1", 15))
SECTION = _record(16, size=("<u8", 0), ptr=("<u8", 8))

GENERAL = _record(16, pTitle=("<u8", 0), pDescription=("<u8", 8))
ID_NAMES = _record(9, ppNames=("<u8", 0), nKinds=("u1", 8))
METRICS_SECTION = _record(
    0x1B,
    pMetrics=("<u8", 0),
    nMetrics=("<u4", 8),
    szMetric=("u1", 0xC),
    szScopeInst=("u1", 0xD),
    szSummary=("u1", 0xE),
    pScopes=("<u8", 0x10),
    nScopes=("<u2", 0x18),
    szScope=("u1", 0x1A),
)
METRIC = _record(
    32,
    pName=("<u8", 0),
    pScopeInsts=("<u8", 8),
    pSummaries=("<u8", 0x10),
    nScopeInsts=("<u2", 0x18),
    nSummaries=("<u2", 0x1A),
)
SCOPE_INSTANCE = _record(16, pScope=("<u8", 0), propMetricId=("<u2", 8))
SUMMARY = _record(24, pScope=("<u8", 0), pFormula=("<u8", 8), combine=("u1", 0x10), statMetricId=("<u2", 0x12))
SCOPE = _record(16, pScopeName=("<u8", 0), type=("u1", 8), propagationIndex=("u1", 9))
TABLE_SECTION = _record(14, pArray=("<u8", 0), n=("<u4", 8), stride=("<u2", 0xC))  # Modules, Files, Functions
MODULE = _record(16, flags=("<u4", 0), pPath=("<u8", 8))
FILE = _record(16, flags=("<u4", 0), pPath=("<u8", 8))
FUNCTION = _record(
    40,
    pName=("<u8", 0),
    pModule=("<u8", 8),
    offset=("<u8", 0x10),
    pFile=("<u8", 0x18),
    line=("<u4", 0x20),
    flags=("<u4", 0x24),
)
CONTEXT_SECTION = _record(11, pEntryPoints=("<u8", 0), nEntryPoints=("<u2", 8), szEntryPoint=("u1", 0xA))
ENTRY_POINT = _record(
    32,
    szChildren=("<u8", 0),
    pChildren=("<u8", 8),
    ctxId=("<u4", 0x10),
    entryPoint=("<u2", 0x14),
    pPrettyName=("<u8", 0x18),
)
CONTEXT = _record(  # followed by nFlexWords words
    32,
    szChildren=("<u8", 0),
    pChildren=("<u8", 8),
    ctxId=("<u4", 0x10),
    flags=("u1", 0x14),
    relation=("u1", 0x15),
    lexicalType=("u1", 0x16),
    nFlexWords=("u1", 0x17),
    propagation=("<u2", 0x18),
)

PROFILE_INFOS = _record(13, pProfiles=("<u8", 0), nProfiles=("<u4", 8), szProfile=("u1", 0xC))
PROFILE_INFO = _record(
    48,
    nValues=("<u8", 0),
    pValues=("<u8", 8),
    nCtxs=("<u4", 0x10),
    pCtxIndices=("<u8", 0x18),
    pIdTuple=("<u8", 0x20),
    flags=("<u4", 0x28),
)
ID_ELEMENT = _record(16, kind=("u1", 0), flags=("<u2", 2), logicalId=("<u4", 4), physicalId=("<u8", 8))
PROFILE_VALUE = np.dtype([("id", "<u2"), ("value", "<f8")])  # id: metric
CONTEXT_INDEX = np.dtype([("id", "<u4"), ("start", "<u8")])  # id: context

CTX_INFOS = _record(13, pCtxs=("<u8", 0), nCtxs=("<u4", 8), szCtx=("u1", 0xC))
CTX_INFO = _record(32, nValues=("<u8", 0), pValues=("<u8", 8), nMetrics=("<u2", 0x10), pMetricIndices=("<u8", 0x18))
CONTEXT_VALUE = np.dtype([("id", "<u4"), ("value", "<f8")])  # id: profile
METRIC_INDEX = np.dtype([("id", "<u2"), ("start", "<u8")])  # id: metric

CTX_TRACES = _record(
    32,
    pTraces=("<u8", 0),
    nTraces=("<u4", 8),
    szTrace=("u1", 0xC),
    minTimestamp=("<u8", 0x10),
    maxTimestamp=("<u8", 0x18),
)
TRACE = _record(24, profIndex=("<u4", 0), pStart=("<u8", 8), pEnd=("<u8", 0x10))
SAMPLE = np.dtype([("time", "<u8"), ("ctx", "<u4")])


# -- numbers of the files in the model's words -------------------------------------------------------------------------
# scope            type            propagation bit
# point            1 point         -                  the very context
# function         3 transitive    0                  set at contexts that are nested lexically
# lex_aware        0 custom        -
# execution        2 execution     -                  everything below


COUNT, SUM, SQUARES, MINIMUM, MAXIMUM = "count", "sum", "sum of squares", "min", "max"  # statistics of summaries
UNUSED = 255
COLUMNS_FILE = "metrics/default.yaml"
MOST_METRIC_IDS = 1 << 16


@dataclass(frozen=True)
class ScopeRecord:
    """One scope as meta.db describes it."""

    scope: Scope
    name: str
    type: int
    propagation_index: int = UNUSED


SCOPE_RECORDS = (
    ScopeRecord(Scope.POINT, "point", 1),
    ScopeRecord(Scope.FUNCTION, "function", 3, 0),
    ScopeRecord(Scope.LEXICAL, "lex_aware", 0),
    ScopeRecord(Scope.INCLUSIVE, "execution", 2),
)
SCOPES = {record.name: record.scope for record in SCOPE_RECORDS}

LEXICAL_TYPES = (ContextKind.FUNCTION, ContextKind.LOOP, ContextKind.LINE, ContextKind.INSTRUCTION)
HAS_FUNCTION, HAS_PLACE, HAS_POINT = 1, 2, 4  # flags of a context: which flex words follow
COPIED_FLAG = 1  # of a file: its path leads to a copy inside the database
SUMMARY_FLAG = 1  # of a profile
PHYSICAL_FLAG = 1  # of an identifier: its physical number means something
THREAD_VALUE = "$$"  # the formula of plain sums
COMBINATIONS = ("sum", "min", "max")  # by the number that meta.db has for them
SUMMARIES = {  # statistic -> formula of the thread's value, and how threads are combined
    COUNT: ("1", "sum"),
    SUM: (THREAD_VALUE, "sum"),
    SQUARES: ("($$^2)", "sum"),
    MINIMUM: (THREAD_VALUE, "min"),
    MAXIMUM: (THREAD_VALUE, "max"),
}

ENTRY_POINTS = {"main thread": 1, "application thread": 2}
UNKNOWN_ENTRY = "unknown entry"  # entry point 0
UNKNOWN_FUNCTION = "<unknown function>"  # how a function context without a function is called


def storable(text: str) -> str:
    """Return text as a NUL-terminated UTF-8 string can hold it: what cannot be encoded, and NUL, become escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\x00")


# -- the files ---------------------------------------------------------------------------------------------------------


PROFILE_LAYOUT = BlockLayout(PROFILE_VALUE, CONTEXT_INDEX, alignment=4)
CONTEXT_LAYOUT = BlockLayout(CONTEXT_VALUE, METRIC_INDEX, alignment=4)
KINDS = {"meta.db": "meta", "profile.db": "prof", "cct.db": "ctxt", "trace.db": "trce"}


def header(file: FileBytes, kind: str) -> tuple[str, dict[str, tuple[int, int]]]:
    """Return the version and the sections as name -> (offset, size)."""
    if file.size < HEADER.itemsize:
        raise CorruptFile(file.path, "header", expected=f"{HEADER.itemsize} bytes", found=f"{file.size} bytes")
    record = file.record(HEADER, 0, "header")
    magic = file.copy(0, 14, "header")
    if magic.startswith(b"HPCPROF-"):
        raise RefusedInput(
            f"{file.path}: is part of a pre-release database where one of a released one belongs; separate the two"
        )
    if magic != MAGIC + kind.encode():
        raise CorruptFile(file.path, "header", offset=0, expected=f"{MAGIC + kind.encode()!r}", found=f"{magic!r}")
    version = f"{int(record['major'])}.{int(record['minor'])}"
    if int(record["major"]) != 4:
        raise UnsupportedVersion(f"{file.path}: version {version}; callgrove reads 4.x")
    names = SECTIONS[kind]
    table = file.array(SECTION, len(names), HEADER.itemsize, "header")
    return version, {n: (int(s["ptr"]), int(s["size"])) for n, s in zip(names, table, strict=True)}


def header_bytes(kind: str, sections: Mapping[str, tuple[int, int]]) -> bytes:
    """Return the header of a file, version 4.0, with its sections as name -> (offset, size)."""
    head, table = np.zeros(1, HEADER), np.zeros(len(sections), SECTION)
    head[0] = (MAGIC, kind.encode(), 4, 0)
    for record, name in zip(table, SECTIONS[kind], strict=True):
        record["ptr"], record["size"] = sections[name]
    return head.tobytes() + table.tobytes()


def footer_missing(file: FileBytes, name: str) -> bool:
    """Return whether the word that a complete file ends with is absent."""
    return file.tail(8) != FOOTERS[KINDS[name]]


def read_profiles(file: FileBytes) -> tuple[SparseBlocks, Array, Bools]:
    """Return the blocks of profile.db, where each identifier tuple stands, and which profiles are summaries."""
    _, sections = header(file, "prof")
    section = file.record(PROFILE_INFOS, sections["ProfileInfos"][0], "ProfileInfos")
    n, stride = int(section["nProfiles"]), int(section["szProfile"])
    infos = file.read_strided(PROFILE_INFO, stride, n, int(section["pProfiles"]), "ProfileInfos")
    blocks = _blocks(file, PROFILE_LAYOUT, "profile", infos, "nCtxs", "pCtxIndices")
    is_summary: Bools = (infos["flags"] & SUMMARY_FLAG) != 0
    return blocks, infos["pIdTuple"].astype(np.uint64), is_summary


def _blocks(file: FileBytes, layout: BlockLayout, name: str, infos: Array, n_index: str, index_at: str) -> SparseBlocks:
    """Return the blocks; `n_index` and `index_at` are the names of fields."""
    columns = (infos[field].astype(np.uint64) for field in ("nValues", "pValues", n_index, index_at))
    return SparseBlocks(file, layout, name, *columns)


def _decode_elements(elements: Array) -> tuple[Array, Array, Array, Array]:
    """Return kind, physical, logical and interpretation of identifiers."""
    both = (elements["flags"] & PHYSICAL_FLAG) != 0
    interpretation = np.where(both, np.int32(Interpretation.BOTH), np.int32(Interpretation.SINGLE))
    return elements["kind"], elements["physicalId"], elements["logicalId"], interpretation


TUPLE_LAYOUT = TupleLayout("IdTuples", np.dtype("<u2"), 8, ID_ELEMENT, _decode_elements, none_at_zero=True)


def read_cct(file: FileBytes) -> SparseBlocks:
    """Return the blocks of cct.db by context id."""
    _, sections = header(file, "ctxt")
    section = file.record(CTX_INFOS, sections["CtxInfos"][0], "CtxInfos")
    n, stride = int(section["nCtxs"]), int(section["szCtx"])
    infos = file.read_strided(CTX_INFO, stride, n, int(section["pCtxs"]), "CtxInfos")
    return _blocks(file, CONTEXT_LAYOUT, "context", infos, "nMetrics", "pMetricIndices")


def read_traces(file: FileBytes) -> tuple[TraceLines, tuple[int, int]]:
    """Return the lines of trace.db and the first and last time stamp that it announces."""
    _, sections = header(file, "trce")
    section = file.record(CTX_TRACES, sections["CtxTraces"][0], "CtxTraces")
    n, stride = int(section["nTraces"]), int(section["szTrace"])
    lines = file.read_strided(TRACE, stride, n, int(section["pTraces"]), "CtxTraces")
    table = TraceLines(
        lines["profIndex"].astype(np.int64),
        np.zeros(n, np.int64),
        lines["pStart"].astype(np.uint64),
        lines["pEnd"].astype(np.uint64),
    )
    return table, (int(section["minTimestamp"]), int(section["maxTimestamp"]))
