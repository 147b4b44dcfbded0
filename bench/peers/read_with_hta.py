"""Reads a trace of Kineto with HTA, and parses the same text with orjson. Runs in HTA's own environment:

    .peers/hta/bin/python bench/peers/read_with_hta.py TRACE.json

It prints a JSON object: processor seconds of each, how many events HTA kept, and the processor seconds that HTA takes
to read the trace and to say what `callgrove summary` says: how long devices were busy and idle and why, which kernels
took how long, and how much of the communication was hidden by computation.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import orjson
from hta.common.trace import Trace
from hta.trace_analysis import TraceAnalysis


def main(path: str) -> None:
    """The calls are those of peers.md."""
    text = Path(path).read_bytes()
    parsing = []
    for _ in range(3):
        start = time.process_time()
        orjson.loads(text)
        parsing.append(time.process_time() - start)
    start = time.process_time()
    trace = Trace(trace_files={0: path}, trace_dir="")
    trace.parse_traces(use_multiprocessing=False)
    seconds = time.process_time() - start
    answers = ask(path)
    print(json.dumps({"orjson": min(parsing), "hta": seconds, "events": len(trace.get_trace(0)), "asked": answers}))


def ask(path: str) -> float:
    """Return the processor seconds of HTA's answers, reading included."""
    start = time.process_time()
    analysis = TraceAnalysis(trace_files={0: path}, trace_dir="")
    analysis.get_temporal_breakdown(visualize=False)
    analysis.get_idle_time_breakdown(visualize=False)
    analysis.get_gpu_kernel_breakdown(visualize=False)
    analysis.get_comm_comp_overlap(visualize=False)
    return time.process_time() - start


if __name__ == "__main__":
    main(*sys.argv[1:])
