"""A Chrome trace as Kineto writes it: from text to columns of spans, against parsing the same text as JSON alone."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from bench.conditions import ROOT, Conditions
from bench.results import Finding
from bench.timing import Work, best_seconds
from callgrove.formats.events.columns import ColumnStore
from callgrove.formats.timeline.chrome.reading import read_file

__all__ = ["make_trace", "run"]

N_STEPS = 60_000  # of five events: 300,000 events, about 65 MB
STATUS = Path("/proc/self/status")
LONGER = 4


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
    start, host, gpu = 4458676456914.077 + 50 * k, {"pid": 2910249, "tid": 2919752}, {"pid": 0, "tid": 7}
    at = {"ts": round(start, 3), "dur": 21.577}
    ids = {"External id": k, "Record function id": k, "Sequence number": k, "Fwd thread id": 1, "Ev Idx": k}
    yield {"ph": "X", "cat": "cpu_op", "name": f"aten::op_{k % 90}", **host, **at, "args": ids}
    call = {"External id": k, "cbid": 211, "correlation": k}
    yield {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", **host, **at, "dur": 9.001, "args": call}
    flow = {"id": k, "cat": "ac2g", "name": "ac2g", "ts": at["ts"]}
    yield {"ph": "s", **flow, **host}
    sizes = {"grid": [512, 1, 1], "block": [512, 1, 1], "registers per thread": 40, "shared memory": 400}
    more = {"queued": 0, "blocks per SM": 4.740741, "warps per SM": 75.851852, "est. achieved occupancy %": 75}
    work = {**call, "device": 0, "context": 1, "stream": 7, **sizes, **more}
    name = f"void cudnn::some_kernel_with_a_long_name<float, float, {k % 70}>(float const*, float*, int)"
    yield {"ph": "X", "cat": "kernel", "name": name, **gpu, "ts": round(start + 12, 3), "dur": 8.407, "args": work}
    yield {"ph": "f", **flow, **gpu, "bp": "e", "ts": round(start + 12, 3)}


def columns(path: Path) -> int:
    """All events decoded, their spans in columns."""
    return read_file(path, ColumnStore())[0].count()


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
    loads, parser = _parser()

    def later(work: Work) -> Work:
        return work

    works = {"floor": partial(later, partial(loads, text)), "columns": partial(later, partial(columns, path))}
    best = best_seconds(works, min(conditions.n_repeats, 3))
    note = f"{5 * n:,} events, {len(text) / 1e6:,.0f} MB, {parser} {best['floor']:.2f} s"
    yield Finding("chrome", f"columns / {parser}", best["columns"] / best["floor"], at_most=3, note=note)
    longer = make_trace(conditions.folder / f"{LONGER * n}.trace.json", LONGER * n)
    small, large = peak_of_columns(path), peak_of_columns(longer)
    longer.unlink()
    if small and large:
        note = f"{small / 1e6:,.0f} MB, of a trace {LONGER} times as long {large / 1e6:,.0f} MB"
        yield Finding("chrome", "memory of a longer trace / of the trace", large / small, at_most=2, note=note)


def _parser() -> tuple[Callable[[bytes], object], str]:
    try:
        loads: Callable[[bytes], object] = importlib.import_module("orjson").loads
    except ImportError:
        return json.loads, "json.loads"
    return loads, "orjson.loads"


if __name__ == "__main__":
    columns(Path(sys.argv[1]))
    match = re.search(r"VmHWM:\s*(\d+) kB", STATUS.read_text())
    assert match is not None
    print(int(match.group(1)) * 1024)
