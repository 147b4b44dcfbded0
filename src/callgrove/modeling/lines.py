"""Which points the model of a single parameter sees when there are several: the lines along that parameter.

Specification: modeling.md A6, step 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from callgrove.model.arrays import Floats, Ints

__all__ = ["Line", "lines_of"]


@dataclass(frozen=True, eq=False)
class Line:
    """Coordinates along one parameter, and for each the points whose values are averaged there."""

    x: Floats
    groups: tuple[Ints, ...]
    longest: int  # points on the longest line; 1: the points do not vary this parameter alone

    def values(self, y: Floats) -> Floats:
        """(series x coordinates) from (series x points)."""
        sizes = {len(group) for group in self.groups}
        if len(sizes) == 1:
            found: Floats = np.ascontiguousarray(y[:, np.stack(self.groups)]).mean(axis=2)
            return found
        return np.stack([np.ascontiguousarray(y[:, group]).mean(axis=1) for group in self.groups], axis=1)


def lines_of(points: Floats, selection: str) -> list[Line]:
    """One line per parameter."""
    rows = [tuple(row) for row in points.tolist()]
    longest = [_longest(rows, p) for p in range(points.shape[1])]
    if selection == "smallest":
        return [_smallest(rows, p, len(longest[p][0])) for p in range(points.shape[1])]
    return [_averaged(rows, p, longest[p]) for p in range(points.shape[1])]


def _others(row: Sequence[float], p: int) -> tuple[float, ...]:
    return (*row[:p], *row[p + 1 :])


def _longest(rows: list[tuple[float, ...]], p: int) -> list[list[int]]:
    """The groups of points that differ in parameter p alone, as far as they are of maximal size."""
    groups: dict[tuple[float, ...], list[int]] = {}
    for number, row in enumerate(rows):
        groups.setdefault(_others(row, p), []).append(number)
    most = max(map(len, groups.values()))
    return [group for group in groups.values() if len(group) == most]


def _averaged(rows: list[tuple[float, ...]], p: int, longest: list[list[int]]) -> Line:
    """All longest lines as one, as far as they begin at the same coordinate."""
    at: dict[float, list[int]] = {}
    for group in longest:
        for number in group:
            at.setdefault(rows[number][p], []).append(number)
    first = {_others(rows[number], p) for number in next(iter(at.values()))}
    kept = {x: [number for number in group if _others(rows[number], p) in first] for x, group in at.items()}
    kept = {x: group for x, group in kept.items() if group}
    return Line(np.array(list(kept)), tuple(np.array(group) for group in kept.values()), len(longest[0]))


def _smallest(rows: list[tuple[float, ...]], p: int, longest: int) -> Line:
    """The line with the smallest other coordinates, as the points come."""
    least = (np.inf,) * (len(rows[0]) - 1)
    chosen: list[int] = []
    for number, row in enumerate(rows):
        others = _others(row, p)
        if others == least:
            chosen.append(number)
        elif all(one <= other for one, other in zip(others, least, strict=True)):
            chosen, least = [number], others
    return Line(np.array([rows[number][p] for number in chosen]), tuple(np.array([n]) for n in chosen), longest)
