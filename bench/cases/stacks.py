"""Folded stacks and samples as perf prints them: from text to an experiment, against reading the bytes line by line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bench.conditions import Conditions, opened
from bench.results import Finding
from bench.timing import processor_seconds

__all__ = ["make_folded", "make_perf", "run"]

N_LINES, N_SAMPLES, N_THREADS, DEPTH = 400_000, 60_000, 8, 12
N_REPEATS = 3


def _frames(k: int) -> list[str]:
    """The call stack of the k-th sample, the outermost first: the inner the frame, the more of them there are."""
    return [f"solver::step_{level}_{k % (level * level + 1)}(double const*)" for level in range(4 + k % DEPTH)]


def make_folded(path: Path, n_lines: int) -> Path:
    """Write folded stacks; a file that is there already is kept."""
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w") as out:
            out.writelines(f"{';'.join(_frames(k))} {1 + k % 50}\n" for k in range(n_lines))
    return path


def make_perf(path: Path, n_samples: int) -> Path:
    """Write samples as perf prints them; a file that is there already is kept."""
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w") as out:
            for k in range(n_samples):
                out.write(f"app 100/{100 + k % N_THREADS} {k // 1000}.{k % 1000:03}000: 1000 cycles:u: \n")
                for level, frame in enumerate(reversed(_frames(k))):
                    out.write(f"\t{0x4000 + 16 * level:x} {frame}+0x{level:x} (/opt/app/app)\n")
                out.write("\n")
    return path


def read_lines(path: Path) -> int:
    """The bytes of a file, cut into lines."""
    return len(path.read_bytes().split(b"\n"))


def run(conditions: Conditions) -> Iterator[Finding]:
    """Processor time of both formats."""
    n_lines, n_samples = (max(100, int(n * conditions.largest)) for n in (N_LINES, N_SAMPLES))
    for what, path, limit in (
        ("folded", make_folded(conditions.folder / f"{n_lines}.folded", n_lines), 40),
        ("perf script", make_perf(conditions.folder / f"{n_samples}.script.txt", n_samples), 40),
    ):
        floor = min(processor_seconds(lambda path=path: read_lines(path)) for _ in range(N_REPEATS))  # type: ignore[misc]
        ours = min(processor_seconds(lambda path=path: opened(path)) for _ in range(N_REPEATS))  # type: ignore[misc]
        size = path.stat().st_size / 1e6
        note = f"{size:,.0f} MB, {size / ours:,.0f} MB in a second"
        yield Finding("stacks", f"open / reading lines, {what}", ours / floor, at_most=limit, note=note)
