"""What `keep_freed_memory` saves: the time of a processor for GPU databases without it, against that with it.

Each measurement is a process of its own, because what the C library has learnt stays. Time in the system is counted:
clearing pages is what it is about.

    python -m bench.cases.freed_memory kept|given VERB PATH     prints the seconds
"""

from __future__ import annotations

import io
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from bench.conditions import ROOT, Conditions
from bench.gpu_databases import GpuShape, make_gpu_database
from bench.results import Finding
from callgrove.cli.main import main as callgrove
from callgrove.execute import workers

__all__ = ["run"]

N_FILES, N_EVENTS_OF_MANY = 100, 6000
N_EVENTS = 400_000
WAYS = ("given", "kept")


def run(conditions: Conditions) -> Iterator[Finding]:
    """Many databases as one profile and summed up, and the same for a large one."""
    scale = float(conditions.largest)
    n = max(2, round(N_FILES * scale))
    many = conditions.folder / f"gpu-{n}x{N_EVENTS_OF_MANY}"
    for shape in [GpuShape(N_EVENTS_OF_MANY, rank, n) for rank in range(n)]:
        make_gpu_database(many / shape.name, shape)
    shape = GpuShape(max(100, round(N_EVENTS * scale)))
    large = make_gpu_database(conditions.folder / shape.name, shape)
    for verb in ("top", "summary"):
        for path, note in ((many, f"{n} databases"), (large, "one database")):
            best = _best(verb, path, conditions.n_repeats)
            yield Finding("freed memory", f"{verb}, given back / kept", best["given"] / best["kept"], note=note)


def _best(verb: str, path: Path, n_repeats: int) -> dict[str, float]:
    """The least seconds of each way, taken in turn."""
    best = dict.fromkeys(WAYS, float("inf"))
    for _ in range(n_repeats):
        for way in WAYS:
            command = [sys.executable, "-m", "bench.cases.freed_memory", way, verb, str(path)]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
            best[way] = min(best[way], float(done.stdout))
    return best


def main(way: str, verb: str, path: str) -> None:
    """The measured process."""
    if way == "given":
        workers.keep_freed_memory = lambda: None
    begin = time.process_time()
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        code = callgrove([verb, path, "--jobs", "1"])
    seconds = time.process_time() - begin
    if code:
        raise AssertionError(f"callgrove {verb} {path} failed")
    print(seconds)


if __name__ == "__main__":
    main(*sys.argv[1:])
