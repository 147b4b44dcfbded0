"""Byte layouts of hpcrun measurement files, versions 02.00, 03.00 and 04.00. Numbers are big-endian.

str   u32 length, bytes (no NUL)          nv    str name, str value          list  u32 count, items

start 18 "HPCRUN-profile____", 5 version, 1 "b"

02.00, 03.00                                       04.00: sections at multiples of 1024, zeros between them
start, list of nv                                  header          start, list of nv
then epochs until the end of the file:             loadmap         list of {u16 id, str path, u64 flags}
  8 "EPOCH___", u64 flags, u64 granularity         cct             u64 n, NODE_04 * n
  u32 ra-to-callsite, list of nv                   metric table    list of metrics, each with METRIC_TAIL
  list of metrics [each with METRIC_TAIL: B]       id dictionary   u16 n, {u16 kind, str name} * n
  list of {u16 id, str path, u64 flags}            sparse metrics  u16 n, IDENTIFIER * n, u64 values, u32 nodes,
  u64 n, node_02(...) * n                                          VALUE * values, INDEX * (nodes + 1)
                                                   footer          u64 start, end of each; u64 start; magic

metric: str name, str description, METRIC_FLAGS, u64 period, str formula, str format [, METRIC_TAIL]
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = [
    "ALIGNMENT",
    "EPOCH_TAG",
    "FOOTER",
    "FOOTER_MAGIC",
    "IDENTIFIER",
    "INDEX",
    "INDEX_END",
    "KIND_BITS",
    "LOGICAL_UNWINDING",
    "MAGIC",
    "METRIC_FLAGS",
    "METRIC_TAIL",
    "NODE_04",
    "NODE_04_EARLY",
    "SECTIONS",
    "START_SIZE",
    "UNWOUND",
    "VALUE",
    "VERSIONS",
    "node_02",
]

MAGIC = b"HPCRUN-profile____"
VERSIONS = ("02.00", "03.00", "04.00")
START_SIZE = len(MAGIC) + 5 + 1

METRIC_FLAGS = np.dtype(
    [
        ("ty", "u1"),  # 1 raw, 2 final, 3 derived
        ("valTy", "u1"),  # 0 none, 1 inclusive, 2 exclusive
        ("valFmt", "u1"),  # 1 integer, 2 real
        ("move2proc", "u1"),
        ("partner", "<u2"),  # in the order of the machine that wrote it, which was little-endian
        ("show", "u1"),  # 0 hide, 1 show, 2 inclusive only, 3 exclusive only, 4 invisible
        ("showPercent", "u1"),
        ("reserved", "u1", (8,)),
    ]
)
METRIC_TAIL = np.dtype(
    [("isFrequency", ">u2"), ("isMultiplexed", ">u2"), ("thresholdMean", ">f8"), ("numSamples", ">u8")]
)

# -- 02.00 and 03.00 ---------------------------------------------------------------------------------------------------

EPOCH_TAG = b"EPOCH___"
LOGICAL_UNWINDING = 1  # bit of the epoch's flags


def node_02(logical: bool, n_metrics: int) -> np.dtype[Any]:
    """Return a node: a leaf has a negative id, parent 0 is the root's; the values of all metrics follow."""
    fields: list[Any] = [("id", ">i4"), ("parent", ">u4")]
    fields += [("association", ">u4")] if logical else []
    fields += [("lm", ">u2"), ("ip", ">u8")]
    fields += [("lip", "u1", (16,))] if logical else []
    return np.dtype([*fields, ("values", ">u8", (n_metrics,))])


# -- 04.00 -------------------------------------------------------------------------------------------------------------

ALIGNMENT = 1024
SECTIONS = ("header", "loadmap", "cct", "metric table", "id dictionary", "sparse metrics")
FOOTER = np.dtype([("sections", ">u8", (len(SECTIONS), 2)), ("footer", ">u8"), ("magic", ">u8")])
FOOTER_MAGIC = int.from_bytes(b"HPCRUNsm", "big")

NODE_04_EARLY = np.dtype([("id", ">u4"), ("parent", ">u4"), ("lm", ">u2"), ("ip", ">u8")])  # 2021 and 2022
NODE_04 = np.dtype([*NODE_04_EARLY.descr, ("flags", "u1")])
UNWOUND = 1  # bit of a node's flags

KIND_BITS = 14  # the rest of an identifier's kind is its interpretation
IDENTIFIER = np.dtype([("kind", ">u2"), ("physical", ">u8"), ("logical", ">u8")])
VALUE = np.dtype([("value", ">u8"), ("metric", ">u2")])  # eight bytes that the metric says are a u64 or an f64
INDEX = np.dtype([("node", ">u4"), ("first", ">u8")])
INDEX_END = int.from_bytes(b"end!", "big")
