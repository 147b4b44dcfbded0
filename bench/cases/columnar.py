"""Our own folders: written and opened, against the bytes of the original and of the folder.

Of values a database of 100,000 contexts and 256 profiles, of spans a GPU database of two million events. The floor of
writing is reading every byte of the original and writing as many as the folder has; that of reading is reading the
folder's bytes. Memory is what a process of its own takes for the conversion, at two sizes: it must not grow.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from bench.cases.convert import convert, memory_of
from bench.conditions import Conditions, opened
from bench.generate import Shape
from bench.gpu_databases import GpuShape, make_gpu_database
from bench.results import Finding
from bench.timing import Work, best_seconds
from callgrove.model.experiment import Experiment
from callgrove.model.traces.events import SPAN_COLUMNS

__all__ = ["run"]

CALLGROVE = "callgrove"
VALUES = Shape(n_profiles=256, n_contexts=100_000)
N_EVENTS = 2_000_000
REPEATS = 3


def run(conditions: Conditions) -> Iterator[Finding]:
    """Values, then spans."""
    scale = conditions.largest
    values = replace(VALUES.with_profiles(scale), n_contexts=max(64, round(VALUES.n_contexts * scale)))
    small = values.with_profiles(scale / 4) if scale < 1 else replace(values, n_profiles=64)
    sources = [conditions.database(shape) for shape in (small, values)]
    yield from _one(conditions, "values", sources, _profile_of_values, _all_values)
    shapes = [GpuShape(max(100, round(N_EVENTS * scale) // part)) for part in (4, 1)]
    conditions.folder.mkdir(parents=True, exist_ok=True)
    databases = [make_gpu_database(conditions.folder / shape.name, shape) for shape in shapes]
    yield from _one(conditions, "spans", databases, _profile_of_spans, _all_spans)


def _one(
    conditions: Conditions,
    what: str,
    sources: list[Path],
    one: Callable[[Experiment], object],
    every: Callable[[Experiment], object],
) -> Iterator[Finding]:
    source, target = sources[-1], conditions.folder / f"{what}.cgrove"
    convert(source, CALLGROVE, target)
    repeats = min(REPEATS, conditions.n_repeats)
    best = best_seconds(
        {
            "copy": partial(_copying, source, target),
            "write": lambda: partial(convert, source, CALLGROVE, target),
            "read original": lambda: partial(_read, source),
        },
        repeats,
    )
    size, own = _size(source), _size(target)
    note = f"{size / 1e6:.0f} MB become {own / 1e6:.1f} MB"
    yield Finding("columnar", f"{what}: size / original", own / size, note=note)
    yield Finding("columnar", f"{what}: write / reading and writing the bytes", best["write"] / best["copy"], note=note)
    works: dict[str, Callable[[], Work]] = {"bytes": lambda: partial(_read, target)}
    works["open"] = lambda: partial(opened, target)
    for name, path in (("ours", target), ("original", source)):
        works[f"{name} one"] = partial(_asking, path, one)
        works[f"{name} all"] = partial(_asking, path, every)
    best |= best_seconds(works, repeats)
    yield Finding("columnar", f"{what}: open", 1000 * best["open"], unit="ms")
    yield Finding("columnar", f"{what}: open / reading the bytes", best["open"] / best["bytes"])
    yield Finding("columnar", f"{what}: one profile", 1000 * best["ours one"], unit="ms")
    yield Finding("columnar", f"{what}: one profile / all", best["ours one"] / best["ours all"])
    yield Finding("columnar", f"{what}: all / reading the bytes", best["ours all"] / best["bytes"])
    yield Finding("columnar", f"{what}: all / all of the original", best["ours all"] / best["original all"])
    yield _memory(what, sources, target)
    shutil.rmtree(target)


def _memory(what: str, sources: list[Path], target: Path) -> Finding:
    found = [memory_of(source, CALLGROVE, target.with_suffix(".small")) for source in sources]
    shutil.rmtree(target.with_suffix(".small"), ignore_errors=True)
    title = f"{what}: memory of writing, four times the data"
    taken = [m.peak - m.before for m in found if m is not None]
    if len(taken) < 2:
        return Finding("columnar", title, math.nan, note="needs /proc")
    note = " and ".join(f"{n / 2**20:.0f} MiB" for n in taken)
    return Finding("columnar", title, taken[1] / taken[0], note=note)


def _size(path: Path) -> int:
    return sum(file.stat().st_size for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file())


def _read(path: Path) -> int:
    return sum(len(file.read_bytes()) for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file())


def _copying(source: Path, target: Path) -> Work:
    """Reads the original, and writes as many bytes as the folder has."""
    size, scratch = _size(target), target.with_suffix(".bytes")

    def work() -> None:
        _read(source)
        scratch.write_bytes(bytes(size))
        scratch.unlink()

    return work


def _asking(path: Path, ask: Callable[[Experiment], object]) -> Work:
    return partial(ask, opened(path))


def _profile_of_values(experiment: Experiment) -> int:
    return len(experiment.values.profile(len(experiment.profiles) // 2))


def _all_values(experiment: Experiment) -> int:
    return sum(len(block) for block in experiment.values.blocks())


def _profile_of_spans(experiment: Experiment) -> int:
    chosen = np.array([len(experiment.profiles) // 2])
    return sum(len(chunk["span"]) for chunk in experiment.traces.spans(SPAN_COLUMNS, profiles=chosen))


def _all_spans(experiment: Experiment) -> int:
    return sum(len(chunk["span"]) for chunk in experiment.traces.spans(SPAN_COLUMNS))
