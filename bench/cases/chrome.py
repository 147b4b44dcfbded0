"""A Chrome trace as Kineto writes it: from text to columns of spans, against parsing the same text as JSON alone, and
against HTA."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench.conditions import ROOT, Conditions
from bench.results import Finding
from bench.timing import Work
from callgrove.analysis.summary import summarise, table
from callgrove.formats.events.columns import ColumnStore
from callgrove.formats.interface import ReadOptions
from callgrove.formats.registry import open_path
from callgrove.formats.timeline.chrome.reading import read_file
from callgrove.model.experiment import Experiment

__all__ = ["best_processor_seconds", "make_trace", "run"]

COMMUNICATES = 50  # one kernel among so many is of NCCL, on a stream of its own
N_STEPS = 60_000  # of five events: 300,000 events, about 65 MB
STATUS = Path("/proc/self/status")
LONGER = 4
PYTHON = ROOT / ".peers" / "hta" / "bin" / "python"
SCRIPT = ROOT / "bench" / "peers" / "read_with_hta.py"


def make_trace(path: Path, n_steps: int) -> Path:
    """A trace of operators, launches, kernels and flows, as Kineto spells them; one that is there already is kept."""
    if path.is_file():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as out:
        out.write('{"schemaVersion": 1, "distributedInfo": {"rank": 0}, "traceEvents": [\n')
        for k in range(n_steps):
            out.write((",\n" if k else "") + ",\n".join(json.dumps(event, indent=2) for event in _step(k)))
        out.write('\n], "baseTimeNanoseconds": 1711964646000000000}\n')
    return path


def _step(k: int) -> Iterator[dict[str, object]]:
    stream = 20 if k % COMMUNICATES == 0 else 7
    start, host, gpu = 4458676456914.077 + 50 * k, {"pid": 2910249, "tid": 2919752}, {"pid": 0, "tid": stream}
    at = {"ts": round(start, 3), "dur": 21.577}
    ids = {"External id": k, "Record function id": k, "Sequence number": k, "Fwd thread id": 1, "Ev Idx": k}
    yield {"ph": "X", "cat": "cpu_op", "name": f"aten::op_{k % 90}", **host, **at, "args": ids}
    call = {
        "External id": k,
        "cbid": 211,
        "correlation": 100_000 + k,
    }  # HTA fails if they fit into 16 bits, and events do not
    yield {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", **host, **at, "dur": 9.001, "args": call}
    flow = {"id": k, "cat": "ac2g", "name": "ac2g", "ts": at["ts"]}
    yield {"ph": "s", **flow, **host}
    sizes = {"grid": [512, 1, 1], "block": [512, 1, 1], "registers per thread": 40, "shared memory": 400}
    more = {"queued": 0, "blocks per SM": 4.740741, "warps per SM": 75.851852, "est. achieved occupancy %": 75}
    work = {**call, "device": 0, "context": 1, "stream": stream, **sizes, **more}
    name = f"void cudnn::some_kernel_with_a_long_name<float, float, {k % 70}>(float const*, float*, int)"
    name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)" if stream == 20 else name
    yield {"ph": "X", "cat": "kernel", "name": name, **gpu, "ts": round(start + 12, 3), "dur": 8.407, "args": work}
    yield {"ph": "f", **flow, **gpu, "bp": "e", "ts": round(start + 12, 3)}


def columns(path: Path) -> int:
    """All events decoded, their spans in columns."""
    return read_file(path, ColumnStore())[0].count()


def answers(path: Path) -> int:
    """What `summary` says of a trace, from its file; how many rows that are."""
    experiment = open_path(path, "", ReadOptions(fold=False))
    assert isinstance(experiment, Experiment)
    return len(table(summarise(experiment)))


def peak_of_columns(path: Path) -> int | None:
    """The bytes that a fresh process takes for that; None where the system does not tell."""
    if not STATUS.is_file():
        return None
    command = [sys.executable, "-m", "bench.cases.chrome", str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return int(done.stdout)


def run(conditions: Conditions) -> Iterator[Finding]:
    """Speed against a parser that keeps no digits beyond those of doubles, and memory as the trace grows."""
    n = max(100, int(N_STEPS * conditions.largest))
    path = make_trace(conditions.folder / f"{n}.trace.json", n)
    if columns(path) != 3 * n:
        raise AssertionError(f"{path}: not all spans were read")
    text = path.read_bytes()
    ours, floor = best_processor_seconds(partial(columns, path)), best_processor_seconds(partial(json.loads, text))
    note = f"{5 * n:,} events, {len(text) / 1e6:,.0f} MB, json.loads {floor:.2f} s"
    yield Finding("chrome", "columns / json.loads", ours / floor, at_most=2, note=note)
    yield from _against_peers(path, n, ours)
    longer = make_trace(conditions.folder / f"{LONGER * n}.trace.json", LONGER * n)
    small, large = peak_of_columns(path), peak_of_columns(longer)
    longer.unlink()
    if small and large:
        note = f"{small / 1e6:,.0f} MB, of a trace {LONGER} times as long {large / 1e6:,.0f} MB"
        yield Finding("chrome", "memory of a longer trace / of the trace", large / small, at_most=2, note=note)


def best_processor_seconds(work: Work, n_repeats: int = 3) -> float:
    """The least processor time of some work, as peers in processes of their own measure it."""
    seconds = []
    for _ in range(n_repeats):
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return min(seconds)


def _against_peers(path: Path, n_steps: int, ours: float) -> Iterator[Finding]:
    """orjson, which rounds times, and HTA, which keeps whole microseconds; both in HTA's environment."""
    what = "columns / orjson.loads", "HTA / columns", "HTA's answers / summary"
    if not PYTHON.is_file():
        note = "run `make peers` first"
        yield Finding("chrome", what[0], float("nan"), at_most=2, note=note)
        yield from (Finding("chrome", words, float("nan"), at_least=3, note=note) for words in what[1:])
        return
    done = subprocess.run([PYTHON, SCRIPT, path], check=True, capture_output=True, text=True)
    peer = json.loads(done.stdout.splitlines()[-1])
    if peer["events"] != 3 * n_steps:
        raise AssertionError(f"{path}: HTA keeps {peer['events']} events of {3 * n_steps}")
    note = f"orjson {peer['orjson']:.2f} s, ours {ours:.2f} s of processor time"
    yield Finding("chrome", what[0], ours / peer["orjson"], at_most=2, note=note)
    note = f"HTA {peer['hta']:.2f} s, which is {peer['hta'] / peer['orjson']:.1f}x of orjson; the same spans"
    yield Finding("chrome", what[1], peer["hta"] / ours, at_least=3, note=note)
    asked = best_processor_seconds(partial(answers, path), 1)
    note = f"HTA {peer['asked']:.2f} s, ours {asked:.2f} s: busy, idle, kernels and overlap, reading included"
    yield Finding("chrome", what[2], peer["asked"] / asked, at_least=3, note=note)


if __name__ == "__main__":
    columns(Path(sys.argv[1]))
    match = re.search(r"VmHWM:\s*(\d+) kB", STATUS.read_text())
    assert match is not None
    print(int(match.group(1)) * 1024)
