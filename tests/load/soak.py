"""Random verbs over all samples in one process, for a long time: does anything grow?

Before and after every round there are counted: resident memory, memory that Python has allocated, open descriptors,
threads, and files in the folders for temporary things, caches and outputs. A round is some verbs, each of a sample
chosen by chance; the seed is always the same.
"""

from __future__ import annotations

import contextlib
import gc
import io
import os
import random
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from callgrove.cli.main import main
from tests.fuzz.asking import VERBS
from tests.fuzz.seeds import make_seeds

__all__ = ["Level", "find_growth", "judge_growth", "run_soak"]

VERBS_OF_ROUND = 50


@dataclass(frozen=True)
class Level:
    """What a process has after some verbs."""

    n_verbs: int
    seconds: float
    resident_mb: float
    descriptors: int
    threads: int
    temporary_files: int
    cached_files: int
    cached_mb: float

    def row(self) -> str:
        """Return it as a row of a table."""
        cells = (self.n_verbs, f"{self.seconds:.0f}", f"{self.resident_mb:.0f}", self.descriptors, self.threads)
        return f"| {' | '.join(map(str, (*cells, self.temporary_files, self.cached_files, f'{self.cached_mb:.1f}')))} |"


def run_soak(seconds: float, folder: Path) -> Iterator[Level]:
    """Yield a level after every round, until the time is over."""
    (folder / "seeds").mkdir()
    seeds = [seed for some in make_seeds(folder / "seeds").values() for seed in some]
    rng, begin, n_verbs = random.Random("soak"), time.monotonic(), 0
    with _own_folders(folder):
        while time.monotonic() - begin < seconds:
            for _ in range(VERBS_OF_ROUND):
                _ask(rng.choice(VERBS), rng.choice(seeds).path, folder / "out")
                n_verbs += 1
            yield _measure(n_verbs, time.monotonic() - begin, folder)


@contextlib.contextmanager
def _own_folders(folder: Path) -> Iterator[None]:
    """Let caches and temporary files go below a folder."""
    for name in ("cache", "temporary"):
        (folder / name).mkdir()
    places = {"CALLGROVE_CACHE": str(folder / "cache"), "TMPDIR": str(folder / "temporary")}
    with patch.dict(os.environ, places), patch.object(tempfile, "tempdir", str(folder / "temporary")):
        yield


def _ask(verb: tuple[str, ...], path: Path, out: Path) -> None:
    out.mkdir()
    name, *options = verb
    words = [name, str(path), *(str(out / word) if word.startswith("OUT") else word for word in options)]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
        code = main(words)
    if code not in (0, 2, 3) or "this is a bug" in said.getvalue():  # not every verb is for every sample
        raise AssertionError(f"{' '.join(words)}: {code}: {said.getvalue()}")
    shutil.rmtree(out)


def _measure(n_verbs: int, seconds: float, folder: Path) -> Level:
    gc.collect()
    status = Path("/proc/self/status").read_text()
    resident = int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024  # type: ignore[index]
    cached = [path.stat().st_size for path in (folder / "cache").rglob("*") if path.is_file()]
    temporary = sum(1 for _ in (folder / "temporary").rglob("*"))
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    return Level(
        n_verbs, seconds, resident, descriptors, threading.active_count(), temporary, len(cached), sum(cached) / 1e6
    )


def judge_growth(levels: list[Level], of: Callable[[Level], float]) -> tuple[float, float]:
    """Return the mean over the second quarter of a run and over the last one: the first quarter fills caches."""
    quarter = max(1, len(levels) // 4)
    early, late = levels[quarter : 2 * quarter] or levels, levels[-quarter:]
    return sum(map(of, early)) / len(early), sum(map(of, late)) / len(late)


def find_growth(levels: list[Level]) -> list[str]:
    """Return what has grown that must not grow at all. Memory depends on what was asked last, and is for the reader."""
    later = levels[len(levels) // 4 :]
    found = [
        f"{name}: {min(counts)} to {max(counts)}"
        for name in ("descriptors", "threads")
        if len(counts := {getattr(level, name) for level in later}) > 1
    ]
    left = levels[-1].temporary_files
    return [*found, *([f"temporary files: {left} at the end"] if left else [])]
