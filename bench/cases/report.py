"""How large a report gets, per context and against its bound, and what making it costs against reading the values."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path

from bench.conditions import Conditions, columns_from_path, opened
from bench.results import Finding
from bench.timing import Work, best_seconds
from callgrove.analysis.costs import costs
from callgrove.analysis.trees import top_down
from callgrove.viewer.page import page
from callgrove.viewer.report import DEFAULT_SIZE, Input, report

__all__ = ["run"]

CONTEXTS = Fraction(2)  # of those of the other benches: 100,000
MOST_BYTES = 40  # of a context with a cost, everything else of its page included
LEAST = 30_000  # bytes of a folded page beyond script and style: some rows of every table always stay
MOST_TIME = 6  # of reading all values
N_REPEATS = 3  # it takes seconds


def run(conditions: Conditions) -> Iterator[Finding]:
    """On the largest number of profiles, over a tree of twice the size."""
    shape = conditions.sparse_rows.with_profiles(conditions.largest).with_contexts(CONTEXTS)
    folder = conditions.database(shape)
    n_contexts = _n_costly(folder)
    empty = len(page("", ""))
    whole = _written(folder, 10 * DEFAULT_SIZE)
    note = f"{n_contexts:,} of {shape.n_contexts:,} contexts, {shape.n_profiles:,} profiles"
    per_context = (len(whole) - empty) / n_contexts
    limit = MOST_BYTES if n_contexts > 10_000 else None  # small pages consist of other things
    yield Finding("report", "bytes per context", per_context, "bytes", at_most=limit, note=note)
    yield Finding("report", "script and style", empty, "bytes")
    for bound in (DEFAULT_SIZE, empty + max((len(whole) - empty) // 2, LEAST)):
        size = len(_written(folder, bound))
        yield Finding("report", f"page / its bound of {bound:,} bytes", size / bound, at_most=1)
    works = {"page": partial(_writing, folder), "columns": partial(columns_from_path, folder)}
    best = best_seconds(works, min(N_REPEATS, conditions.n_repeats))
    limit = MOST_TIME if n_contexts > 10_000 else None
    yield Finding("report", "time / reading all values", best["page"] / best["columns"], at_most=limit)


def _written(folder: Path, max_size: int) -> str:
    return report([Input(opened(folder), [str(folder)])], max_size=max_size)


def _writing(folder: Path) -> Work:
    return partial(_written, folder, DEFAULT_SIZE)


def _n_costly(folder: Path) -> int:
    """Contexts that a page shows: those with a cost, lines being part of their function."""
    return len(top_down(costs(opened(folder))))
