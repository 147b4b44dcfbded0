"""Files of Caliper, one large one and thousands of small ones, against caliper-reader."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.conditions import ROOT, Conditions, opened
from bench.results import Finding
from bench.timing import processor_seconds

__all__ = ["make_file", "make_folder", "run"]

PYTHON = ROOT / ".peers" / "caliper" / "bin" / "python"
SCRIPT = ROOT / "bench" / "peers" / "read_with_caliper.py"
STATUS = Path("/proc/self/status")
N_RANKS, N_PATHS, N_FILES = 512, 400, 10_000
PATHS_OF_SMALL = 45  # records of each of many files
N_REPEATS = 7
MOST_OPEN = 64  # files that a process which reads thousands may have open

HEAD = """\
__rec=node,id=12,attr=10,data=268,parent=3
__rec=node,id=13,attr=8,data=function,parent=12
__rec=node,id=14,attr=10,data=65,parent=5
__rec=node,id=15,attr=8,data=sum#time.duration,parent=14
__rec=node,id=16,attr=8,data=inclusive#sum#time.duration,parent=14
__rec=node,id=17,attr=10,data=65,parent=1
__rec=node,id=18,attr=8,data=count,parent=17
__rec=node,id=19,attr=8,data=mpi.rank,parent=17
__rec=node,id=20,attr=10,data=588,parent=1
__rec=node,id=21,attr=8,data=mpi.world.size,parent=20
"""


def make_file(path: Path, n_ranks: int, n_paths: int, n_processes: int = 0) -> Path:
    """Write a profile of some ranks and call paths, as Caliper's services do; one that is there already is kept."""
    if path.is_file():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as out:
        out.write(HEAD)
        for k in range(n_paths):
            parent = f",parent={100 + (k - 1) // 3}" if k else ""
            out.write(f"__rec=node,id={100 + k},attr=13,data=function_{k}{parent}\n")
        for rank in range(n_ranks):
            for k in range(n_paths):
                time = (1 + (37 * k + 11 * rank) % 1000) / 997
                numbers = f"{time:.6f}={time * 1.5:.6f}={k % 90}={rank}"
                out.write(f"__rec=ctx,ref={100 + k},attr=15=16=18=19,data={numbers}\n")
        out.write(f"__rec=node,id=99,attr=21,data={n_processes or n_ranks}\n__rec=globals,ref=99\n")
    return path


def make_folder(folder: Path, n_files: int) -> Path:
    """Write many runs of one program, of one rank each that stands for several."""
    for k in range(n_files):
        make_file(folder / f"run{k:05}.cali", 1, PATHS_OF_SMALL, 2 ** (k % 5))
    return folder


def peak_of_opening(folder: Path) -> int | None:
    """The bytes that a fresh process takes to open a folder with few files open at once; None where nobody tells."""
    if not STATUS.is_file():
        return None
    command = [sys.executable, "-m", "bench.cases.caliper", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return int(done.stdout)


def run(conditions: Conditions) -> Iterator[Finding]:
    """Processor time against caliper-reader's, and memory as the number of files grows."""
    n_ranks = max(2, int(N_RANKS * conditions.largest))
    large = make_file(conditions.folder / f"{n_ranks}.cali", n_ranks, N_PATHS)
    if len(opened(large).profiles) != n_ranks:
        raise AssertionError(f"{large}: not all ranks were read")
    ours = min(processor_seconds(lambda: opened(large)) for _ in range(N_REPEATS))
    size = large.stat().st_size / 1e6
    note = f"{n_ranks * N_PATHS:,} records, {size:,.0f} MB, {size / ours:,.0f} MB in a second"
    yield _compare("caliper-reader / open, one file", [large], ours, 10, note)
    n_files = max(10, int(N_FILES * conditions.largest))
    folder = make_folder(conditions.folder / f"{n_files} files", n_files)
    if len(opened(folder).runs) != n_files:
        raise AssertionError(f"{folder}: not all files were read")
    ours = processor_seconds(lambda: opened(folder))
    note = f"{n_files:,} files, {ours / n_files * 1e3:.2f} ms each"
    yield _compare("caliper-reader / open, many files as one experiment", sorted(folder.iterdir()), ours, 2, note)
    fewer = make_folder(conditions.folder / f"{n_files // 4} files", n_files // 4)
    small, large_peak = peak_of_opening(fewer), peak_of_opening(folder)
    if small and large_peak:
        note = f"{small / 1e6:,.0f} and {large_peak / 1e6:,.0f} MB, with {MOST_OPEN} open files at most"
        yield Finding("caliper", "memory of four times as many files / once", large_peak / small, at_most=4, note=note)


def _compare(what: str, files: Sequence[Path], ours: float, at_least: float, note: str) -> Finding:
    if not PYTHON.is_file():
        return Finding("caliper", what, float("nan"), at_least=at_least, note="run `make peers` first")
    repeats = N_REPEATS if len(files) == 1 else 1
    command = [str(PYTHON), str(SCRIPT), str(repeats), *map(str, files)]
    seconds, _ = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return Finding("caliper", what, float(seconds) / ours, at_least=at_least, note=note)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (MOST_OPEN, MOST_OPEN))
    opened(Path(sys.argv[1]))
    match = re.search(r"VmHWM:\s*(\d+) kB", STATUS.read_text())
    assert match is not None
    print(int(match.group(1)) * 1024)
