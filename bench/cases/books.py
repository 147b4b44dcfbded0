"""What it costs to add up what writers are given and what they pass on.

The processor time that goes into the books of a conversion, against that of everything else in the same run.
"""

from __future__ import annotations

import gc
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from pathlib import Path
from typing import Any
from unittest.mock import patch

from bench.cases.convert import convert
from bench.conditions import Conditions
from bench.cubes import CubeShape, make_cube
from bench.results import Finding
from callgrove.model.books import Totals

__all__ = ["run"]

MOST = 0.05
REPEATS = 3
TARGETS = ("hpctoolkit-release", "hpctoolkit-prerelease", "cube", "callgrove")
METHODS = ("add_rows", "add_matrix")


def run(conditions: Conditions) -> Iterator[Finding]:
    """A database and a Cube file, to every format that holds values."""
    cube = CubeShape(n_cnodes=500, n_locations=1024) if conditions.largest == 1 else CubeShape(100, 64)
    sources = {
        "database": conditions.database(conditions.sparse_rows.with_profiles(conditions.largest)),
        "Cube file": make_cube(conditions.folder / cube.name, cube),
    }
    for what, source in sources.items():
        for to in TARGETS:
            shares = [_share(source, to, conditions.folder / "copied") for _ in range(REPEATS)]
            yield Finding("books", f"books / all else, {what} to {to}", min(shares), at_most=MOST)


def _share(source: Path, to: str, target: Path) -> float:
    gc.collect()
    with _watched() as spent:
        start = time.process_time()
        convert(source, to, target)
        seconds = time.process_time() - start
    if target.is_dir():
        shutil.rmtree(target)
    target.unlink(missing_ok=True)
    return spent[0] / (seconds - spent[0])


@contextmanager
def _watched() -> Iterator[list[float]]:
    """Add up the time that books take."""
    spent = [0.0]

    def timed(method: Callable[..., None]) -> Callable[..., None]:
        @wraps(method)
        def run_timed(*given: Any) -> None:
            start = time.thread_time()
            method(*given)
            spent[0] += time.thread_time() - start

        return run_timed

    with ExitStack() as stack:
        for name in METHODS:
            stack.enter_context(patch.object(Totals, name, timed(getattr(Totals, name))))
        yield spent
