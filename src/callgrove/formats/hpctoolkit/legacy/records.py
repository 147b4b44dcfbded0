"""Byte layouts of the files beside a legacy experiment.xml.

    *.metric-db      header, then numNodes * numMetrics doubles: row = node id - 1, column = `db-id` of the XML
    *.hpctrace       header [+ flags since 01.01], then records (time, node id) to the end of the file
    experiment.mt    header, a table of (rank, thread, offset), hpctrace files one after the other, a trailer

All numbers are big-endian. The XML says that the header of a metric-db has 24 bytes (`db-header-sz`); in genuine files
the numbers of nodes and metrics follow it, so that the values begin at byte 32.
"""

from __future__ import annotations

import numpy as np

__all__ = [
    "DATA_CENTRIC",
    "LCA_RECORDED",
    "METRIC_DB",
    "METRIC_DB_MAGIC",
    "MT_ENTRY",
    "MT_HEADER",
    "MT_TRAILER",
    "SAMPLE",
    "SAMPLE_OF_METRIC",
    "TRACE",
    "TRACE_FLAGS",
    "TRACE_MAGIC",
    "TRACE_VERSIONS",
    "VALUE",
]

METRIC_DB_MAGIC = b"HPCPROF-metricdb__"
METRIC_DB = np.dtype(
    [("magic", "S18"), ("version", "S5"), ("endian", "S1"), ("numNodes", ">u4"), ("numMetrics", ">u4")]
)
VALUE = np.dtype(">f8")

TRACE_MAGIC = b"HPCRUN-trace______"
TRACE_VERSIONS = (b"01.00", b"01.01")
TRACE = np.dtype([("magic", "S18"), ("version", "S5"), ("endian", "S1")])
TRACE_FLAGS = np.dtype([("flags", ">u8")])  # absent in 01.00
DATA_CENTRIC = 1  # flag: a metric id follows each record
LCA_RECORDED = 2  # flag: the top byte of a time is a depth
SAMPLE = np.dtype([("time", ">u8"), ("node", ">u4")])
SAMPLE_OF_METRIC = np.dtype([("time", ">u8"), ("node", ">u4"), ("metric", ">u4")])

MT_HEADER = np.dtype([("type", ">i4"), ("nFiles", ">i4")])
MT_ENTRY = np.dtype([("rank", ">i4"), ("thread", ">i4"), ("offset", ">i8")])
MT_TRAILER = 0xFFFFFFFFDEADF00D
