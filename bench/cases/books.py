"""What it costs to add up what writers are given and what they pass on.

The processor time that goes into the books of a conversion, against that of everything else in the same run. Whoever
reads a page of a mapped file first waits for it, with books or without: such pages are touched before the clock starts.
"""

from __future__ import annotations

import gc
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from bench.cases.convert import convert
from bench.cases.exports import convert as convert_trace
from bench.conditions import Conditions
from bench.cubes import CubeShape, make_cube
from bench.gpu_databases import GpuShape, make_gpu_database
from bench.results import Finding
from bench.series import SeriesShape, study_of
from callgrove.formats.gpu.rocpd import writer as rocpd_writer
from callgrove.formats.registry import open_path
from callgrove.formats.writing.transfer import write
from callgrove.model.books import Ledger, Totals
from callgrove.model.study.books import StudyBooks, StudyTotals
from callgrove.model.study.series import Study

__all__ = ["run"]

MOST = 0.05
REPEATS = 3
PAGE = 4096  # bytes
N_EVENTS = 1_000_000
TARGETS = ("hpctoolkit-release", "hpctoolkit-prerelease", "cube", "callgrove")
OF_SPANS = ("rocpd", "rocprof-csv", "rocpd-draft", "perfetto", "chrome-json", "callgrove")
METHODS: tuple[tuple[object, Callable[..., Any]], ...] = (
    *((Totals, method) for method in (Totals.add_rows, Totals.add_matrix)),
    *((Ledger, method) for method in (Ledger.add_spans, Ledger.add_amount, Ledger.add_side)),
    (rocpd_writer, rocpd_writer.add_up),
    *((StudyTotals, method) for method in (StudyTotals.add, StudyTotals.add_values)),
    *((StudyTotals, method) for method in (StudyTotals.add_statistics, StudyTotals.settle)),
    (StudyBooks, StudyBooks.add_up_given),
)
OF_SERIES = ("extrap-text", "extrap-json", "extrap-jsonl", "extrap-experiment", "callgrove")
N_SERIES = 6000

Convert = Callable[[Path, str, Path], None]


def run(conditions: Conditions) -> Iterator[Finding]:
    """A database and a Cube file, to every format that holds values; a trace, to every format that holds spans; a
    study, to formats of series."""
    cube = CubeShape(n_cnodes=500, n_locations=1024) if conditions.largest == 1 else CubeShape(100, 64)
    sources = {
        "database": conditions.database(conditions.sparse_rows.with_profiles(conditions.largest)),
        "Cube file": make_cube(conditions.folder / cube.name, cube),
    }
    for what, source in sources.items():
        for to in TARGETS:
            yield _finding(convert, source, what, to, conditions.folder / "copied")
    shape = GpuShape(max(1000, round(N_EVENTS * float(conditions.largest))))
    trace = make_gpu_database(conditions.folder / shape.name, shape)
    for to in OF_SPANS:
        yield _finding(convert_trace, trace, "trace", to, conditions.folder / "copied")
    study, path = study_of(SeriesShape(1, max(50, round(N_SERIES * float(conditions.largest))))), "study.jsonl"
    write(study, conditions.folder / path)
    entering = min(_time_of_entering(study) for _ in range(REPEATS))
    for to in OF_SERIES:
        one_by_one = {"callgrove": 0.0, "extrap-text": entering / study.n_points}.get(to, entering)  # text: by series
        yield _finding(_convert_study, conditions.folder / path, "study", to, conditions.folder / "copied", one_by_one)


def _time_of_entering(study: Study) -> float:
    """Return what it takes to enter every measurement, as writers of text do; each call takes less than timing it."""
    totals, values = StudyTotals(study), [1.0]
    start = time.process_time()
    for series in range(len(study)):
        for point in range(study.n_points):
            totals.enter(series, point, values)
    return time.process_time() - start


def _convert_study(source: Path, to: str, target: Path) -> None:
    write(open_path(source), target, to)


def _finding(convert: Convert, source: Path, what: str, to: str, target: Path, more: float = 0.0) -> Finding:
    shares = [_share(convert, source, to, target, more) for _ in range(REPEATS)]
    return Finding("books", f"books / all else, {what} to {to}", min(shares), at_most=MOST)


def _share(convert: Convert, source: Path, to: str, target: Path, more: float) -> float:
    """Return the time of books against that of all else; `more` seconds of it were measured apart."""
    gc.collect()
    with _watched() as spent:
        start = time.process_time()
        convert(source, to, target)
        seconds = time.process_time() - start
    if target.is_dir():
        shutil.rmtree(target)
    target.unlink(missing_ok=True)
    return (spent[0] + more) / (seconds - spent[0] - more)


def _touch_pages(given: tuple[Any, ...]) -> None:
    for array in given:
        if isinstance(array, np.ndarray) and array.flags.c_contiguous and array.size:
            array.reshape(-1).view(np.uint8)[::PAGE].max()


@contextmanager
def _watched() -> Iterator[list[float]]:
    """Add up the time that books take; methods that others call count once."""
    spent, inside = [0.0], threading.local()

    def timed(method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def run_timed(*given: Any, **words: Any) -> Any:
            if getattr(inside, "books", False):
                return method(*given, **words)
            _touch_pages(given)
            inside.books, start = True, time.thread_time()
            result = method(*given, **words)
            spent[0] += time.thread_time() - start
            inside.books = False
            return result

        return run_timed

    with ExitStack() as stack:
        for owner, method in METHODS:
            stack.enter_context(patch.object(owner, method.__name__, timed(method)))
        yield spent
