"""How time grows with the number of values, and with the size of the tree."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path

from bench.cases.values import records_of
from bench.conditions import Conditions, columns_from_open, opened
from bench.results import Finding
from bench.timing import Work, best_seconds

__all__ = ["run"]

LINEAR = 1.5  # at most, between the smallest scale and the largest: noise has its part
N_PROFILES_OF_TREES = 16


def run(conditions: Conditions) -> Iterator[Finding]:
    """All scales in turn, so that they meet the same disturbances."""
    yield from _values(conditions)
    yield from _trees(conditions)


def _values(conditions: Conditions) -> Iterator[Finding]:
    """The floor grows as well: a process gets fresh memory for large columns, and used memory for small ones."""
    folders = {scale: conditions.database(conditions.sparse_rows.with_profiles(scale)) for scale in conditions.scales}
    works: dict[tuple[str, Fraction], Callable[[], Work]] = {}
    for scale, folder in folders.items():
        works["columns", scale] = partial(columns_from_open, folder)
        works["floor", scale] = partial(records_of, folder)
    best = best_seconds(works, conditions.n_repeats)
    sizes = {scale: opened(folder).values.n_stored() or 0 for scale, folder in folders.items()}
    for scale in conditions.scales[1:]:
        columns, floor = (_per_item({s: best[name, s] for s in sizes}, sizes, scale) for name in ("columns", "floor"))
        note = f"{sizes[scale]:,} values; np.fromfile {floor:.2f} x"
        yield _finding("time per value, columns", columns, conditions, scale, note)


def _trees(conditions: Conditions) -> Iterator[Finding]:
    few = replace(conditions.sparse_rows, n_profiles=min(N_PROFILES_OF_TREES, conditions.sparse_rows.n_profiles))
    folders = {scale: conditions.database(few.with_contexts(scale)) for scale in conditions.scales}
    sizes = {scale: len(opened(folder).contexts) for scale, folder in folders.items()}
    works = {scale: partial(_opening, folder) for scale, folder in folders.items()}
    best = best_seconds(works, conditions.n_repeats)
    for scale in conditions.scales[1:]:
        note = f"{sizes[scale]:,} contexts"
        yield _finding("time per context, open", _per_item(best, sizes, scale), conditions, scale, note)


def _opening(folder: Path) -> Work:
    return partial(opened, folder)


def _per_item(seconds: Mapping[Fraction, float], sizes: Mapping[Fraction, int], scale: Fraction) -> float:
    """Time per item at one scale, against that at the smallest."""
    smallest = min(sizes)
    return (seconds[scale] / sizes[scale]) / (seconds[smallest] / sizes[smallest])


def _finding(what: str, ratio: float, conditions: Conditions, scale: Fraction, note: str) -> Finding:
    return Finding("growth", f"{what}, scale {scale} / {conditions.scales[0]}", ratio, at_most=LINEAR, note=note)
