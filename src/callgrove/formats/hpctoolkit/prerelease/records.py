"""Byte layouts of the pre-release database files, in the specification's own field names.

    header (128 bytes)        magic, version, counts, sections {size, offset}
    profile.db                ProfileInfo * n, id tuples, sparse blocks, footer
    cct.db                    ContextInfo * n, sparse blocks, footer
    trace.db                  TraceHeader * n, trace lines [, footer]

All numbers are big-endian and packed. Genuine files carry version 1.0 although the document says 4.0, and have no
footer in trace.db. A footer is a word in host order, so that x86 files hold it reversed.
"""

from __future__ import annotations

import numpy as np

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
    "VERSIONS",
]

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
