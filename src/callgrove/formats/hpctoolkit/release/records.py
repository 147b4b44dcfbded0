"""Byte layouts of the released database files, in the specification's own field names.

    header            "HPCTOOLKIT", fmt, version, then {size, ptr} per section
    meta.db           General, IdNames, Metrics, Context, Strings, Modules, Files, Functions
    profile.db        ProfileInfos, IdTuples, value blocks
    cct.db            CtxInfos, value blocks
    trace.db          CtxTraces, trace lines
    footer            the last 8 bytes

All numbers are little-endian; pointers are absolute file offsets, 0 is none; strings end with NUL. Arrays have a
stored stride, so that later writers may lengthen records. Genuine cct.db files leave 16 bytes of rubbish between the
header and the section; Function.flags is uninitialised.
"""

from __future__ import annotations

import numpy as np

__all__ = [
    "CONTEXT",
    "CONTEXT_INDEX",
    "CONTEXT_SECTION",
    "CONTEXT_VALUE",
    "CTX_INFO",
    "CTX_INFOS",
    "CTX_TRACES",
    "ENTRY_POINT",
    "FILE",
    "FOOTERS",
    "FUNCTION",
    "GENERAL",
    "HEADER",
    "ID_ELEMENT",
    "ID_NAMES",
    "MAGIC",
    "METRIC",
    "METRICS_SECTION",
    "METRIC_INDEX",
    "MODULE",
    "PROFILE_INFO",
    "PROFILE_INFOS",
    "PROFILE_VALUE",
    "SAMPLE",
    "SCOPE",
    "SCOPE_INSTANCE",
    "SECTION",
    "SECTIONS",
    "SUMMARY",
    "TABLE_SECTION",
    "TRACE",
]

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
