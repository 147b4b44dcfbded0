"""All metrics of Cube files: against the inflater alone, against pycubexr, and in memory.

pycubexr's time for compressed files grows with the square of their size, because it puts rows together by copying all
that it has so far: it is measured on small files, and what a large one would take follows from the growth.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.conditions import ROOT, Conditions, opened
from bench.cubes import CubeShape, make_cube, values_of
from bench.memory import STATUS
from bench.results import Finding
from bench.timing import Work, best_seconds
from callgrove.binary.archives import INFLATER, inflate
from callgrove.formats.cube.reading import CubeValues
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Scope

__all__ = ["run", "same_values"]

SMALL = (1, 2, 4)  # eighths of the cnodes, for pycubexr


def run(conditions: Conditions) -> Iterator[Finding]:
    """Compressed and plain, all metrics and inclusive values."""
    shape = CubeShape(n_locations=max(8, round(4096 * conditions.largest)))
    shape = replace(shape, n_cnodes=max(16, round(2000 * min(1.0, float(conditions.largest) * 4))))
    repeats = min(conditions.n_repeats, 5)
    plain, packed = (_file(conditions, replace(shape, compressed=kind)) for kind in (False, True))
    for path in (plain, packed):
        if not same_values(opened(path), shape):
            raise AssertionError(f"{path}: the values are not those that were written")
    works = {"inflate": partial(_inflating, packed), "ours": partial(_streaming, packed)}
    best = best_seconds(works, repeats)
    n = shape.n_cnodes * shape.n_locations * shape.n_metrics
    ratio, note = best["ours"] / best["inflate"], f"{n:,} values, {INFLATER}"
    yield Finding("cube", "all metrics, compressed / inflating the rows", ratio, at_most=1.5, note=note)
    yield from _against_pycubexr(conditions, shape, best["ours"], plain, repeats)
    yield _memory(packed)


def _file(conditions: Conditions, shape: CubeShape) -> Path:
    conditions.folder.mkdir(parents=True, exist_ok=True)
    return make_cube(conditions.folder / shape.name, shape)


def same_values(experiment: Experiment, shape: CubeShape) -> bool:
    """Are first, last and some other rows of every metric what the generator says?"""
    backend = experiment.values.backend
    assert isinstance(backend, CubeValues)
    rows = np.unique(np.linspace(0, shape.n_cnodes - 1, 7).astype(np.int64))
    for metric, one in enumerate(backend.metrics):
        assert one is not None
        found, _ = one.rows.decode(rows, lambda error: None)
        wanted = np.stack([values_of(metric, k, shape.n_locations) for k in rows.tolist()])
        if not np.array_equal(found.astype(np.float64), wanted):
            return False
    return True


def _streaming(path: Path) -> Work:
    """All metrics of a file that was just opened, each value touched once."""
    experiment = opened(path)

    def work() -> float:
        return sum(float(block.matrix.sum()) for block in experiment.values.blocks() if hasattr(block, "matrix"))

    return work


def _inflating(path: Path) -> Work:
    """The same rows through the inflater, and nothing else."""
    backend = opened(path).values.backend
    assert isinstance(backend, CubeValues)
    streams: list[tuple[Any, int]] = []
    for one in backend.metrics:
        assert one is not None
        assert one.rows.z_start is not None
        assert one.rows.z_size is not None
        buffer = memoryview(one.rows.file.buffer)
        places = zip(one.rows.z_start.tolist(), one.rows.z_size.tolist(), strict=True)
        streams += [(buffer[start : start + size], one.rows.row_size) for start, size in places]
    return lambda: sum(len(inflate(stream, size)) for stream, size in streams)


def _against_pycubexr(
    conditions: Conditions, shape: CubeShape, ours: float, plain: Path, repeats: int
) -> Iterator[Finding]:
    try:
        import pycubexr  # noqa: F401
    except ImportError:
        yield Finding("cube", "pycubexr / ours", math.nan, note="needs pycubexr")
        return
    small = [replace(shape, n_cnodes=max(4, shape.n_cnodes * eighths // 8), compressed=True) for eighths in SMALL]
    seconds = [_once(_pycubexr_metric, _file(conditions, one)) for one in small]
    growth = min(2.0, math.log2(seconds[-1] / seconds[-2]))  # no more than the square, whatever a busy machine says
    whole = seconds[-1] * 2**growth * shape.n_metrics
    told = ", ".join(f"{one.n_cnodes}: {s:.2f} s" for one, s in zip(small, seconds, strict=True))
    yield Finding("cube", "growth of pycubexr, one metric of twice the cnodes", seconds[-1] / seconds[-2], note=told)
    note = f"extrapolated to {shape.n_cnodes} cnodes by growth {growth:.2f}"
    yield Finding("cube", "pycubexr / ours, all metrics, compressed", whole / ours, at_least=100, note=note)
    mine = best_seconds({"ours": partial(_streaming, plain)}, repeats)["ours"]
    theirs = _once(_pycubexr_all, plain)
    yield Finding("cube", "pycubexr / ours, all metrics, plain", theirs / mine, at_least=2)
    packed = _file(conditions, replace(shape, compressed=True))
    inclusive = best_seconds({path: partial(_inclusive, path) for path in (plain, packed)}, repeats)
    theirs = _pycubexr_inclusive(plain)
    note = f"{shape.n_cnodes} cnodes, {opened(plain).contexts.depth.mean():.0f} levels deep on average"
    yield Finding("cube", "pycubexr / ours, inclusive of all cnodes, plain", theirs / inclusive[plain], note=note)
    ratio = (theirs + whole / shape.n_metrics) / inclusive[packed]
    yield Finding(
        "cube", "pycubexr / ours, inclusive of all cnodes, compressed", ratio, at_least=30, note="extrapolated"
    )


def _once(work: Callable[[Path], object], path: Path) -> float:
    start = time.perf_counter()
    work(path)
    return time.perf_counter() - start


def _pycubexr_metric(path: Path) -> None:
    from pycubexr import CubexParser

    with CubexParser(str(path)) as cube:
        cube.get_metric_values(cube.get_metric_by_name("m1"))


def _pycubexr_all(path: Path) -> float:
    from pycubexr import CubexParser

    with CubexParser(str(path)) as cube:
        return sum(float(cube.get_metric_values(metric).values.sum()) for metric in cube.get_metrics())


def _inclusive(path: Path) -> Work:
    experiment = opened(path)
    return lambda: experiment.matrix("m0", Scope.INCLUSIVE)


def _pycubexr_inclusive(path: Path) -> float:
    """Seconds, without opening the file."""
    from pycubexr import CubexParser

    with CubexParser(str(path)) as cube:
        nodes = cube.all_cnodes()
        start = time.perf_counter()
        values = cube.get_metric_values(cube.get_metric_by_name("m0"))
        for node in nodes:
            values.cnode_values(node, convert_to_inclusive=True)
        return time.perf_counter() - start


def _memory(path: Path) -> Finding:
    """The most anonymous memory that streaming all metrics adds, against one decoded metric."""
    what = "anonymous memory of streaming / one decoded metric"
    if not STATUS.is_file():
        return Finding("cube", what, math.nan, note="needs /proc")
    done = subprocess.run(
        [sys.executable, "-m", "bench.cases.cube", str(path)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    added, metric = json.loads(done.stdout)
    return Finding("cube", what, added / metric, at_most=1.5, note=f"{metric / 2**20:.0f} MiB")


def _anonymous() -> int:
    found = re.search(r"RssAnon:\s*(\d+) kB", STATUS.read_text())
    assert found is not None
    return int(found[1]) * 1024


def main(path: str) -> None:
    """The measured process."""
    experiment = opened(Path(path))
    before = most = _anonymous()
    for block in experiment.values.blocks():
        assert len(block)
        most = max(most, _anonymous())
    cells = len(experiment.contexts) * len(experiment.profiles)
    print(json.dumps((most - before, cells * 8)))


if __name__ == "__main__":
    main(sys.argv[1])
