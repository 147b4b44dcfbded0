"""A trace as columns in nanoseconds, against `np.fromfile` of the same records converted to native byte order."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from bench.conditions import Conditions, opened
from bench.results import Finding
from bench.timing import Work, best_seconds
from callgrove.arrays import Array
from callgrove.formats.hpcrun.hpctrace import TraceFile, write_trace
from callgrove.model.traces.events import Samples

__all__ = ["make_trace", "run"]

RECORD = np.dtype([("time", ">u8"), ("node", ">u4")])
HEADER = 32  # bytes
N_SAMPLES = 8_700_000  # 104 MB
N_NODES = 20_000


def make_trace(path: Path, n_samples: int) -> Path:
    """A trace of samples every 5 ms or so, of nodes with odd numbers; one that is there already is kept."""
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        chance = np.random.default_rng(1)
        time = 1_700_000_000_000_000_000 + np.cumsum(chance.integers(4_900_000, 5_100_000, n_samples))
        write_trace(path, 0, time, chance.integers(0, N_NODES, n_samples) * 2 + 1)
    return path


def floor(path: Path) -> tuple[Array, Array]:
    """The records as native columns; nothing is looked at."""
    records = np.fromfile(path, RECORD, offset=HEADER)
    return records["time"].astype(np.uint64), records["node"].astype(np.uint32)


def columns(path: Path) -> tuple[Array, Array]:
    """The same through the package."""
    time, node, _ = TraceFile.open(path).arrays()
    return time, node


def samples(path: Path) -> Samples:
    """As an experiment: with contexts for the ids that occur, found in a pass of its own."""
    experiment = opened(path)
    (_, _, line), *_ = experiment.traces.lines()
    return line


def run(conditions: Conditions) -> Iterator[Finding]:
    """Speed of both ways."""
    n = max(1, int(N_SAMPLES * conditions.largest))
    path = make_trace(conditions.folder / f"{n}.hpctrace", n)
    ours, theirs = columns(path), floor(path)
    if not all(np.array_equal(have, want) for have, want in zip(ours, theirs, strict=True)):
        raise AssertionError(f"{path}: the columns are not what the file holds")

    def later(work: Work) -> Work:
        return work

    works = {
        name: partial(later, partial(work, path))
        for name, work in (("floor", floor), ("columns", columns), ("samples", samples))
    }
    best = best_seconds(works, conditions.n_repeats)
    note = f"{path.stat().st_size / 1e6:,.0f} MB, floor {best['floor'] * 1e3:,.0f} ms"
    yield Finding("hpctrace", "columns / np.fromfile", best["columns"] / best["floor"], at_most=3, note=note)
    yield Finding("hpctrace", "open and samples / np.fromfile", best["samples"] / best["floor"], at_most=3)
