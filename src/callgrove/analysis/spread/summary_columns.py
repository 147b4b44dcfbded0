"""A summary of a traced run with ranks, agents, streams, ... side by side: a column for each, with its total time.

Rows stand for what a section lists: a kernel, a copy, a device; their totals add up over the columns. Sections without
a total time for each row (counters, memory) or whose rows are single events (longest-gaps) have no such form.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from callgrove.analysis.summary import rows_by_section
from callgrove.analysis.summary_sections import DIVIDES, By, Summary
from callgrove.model.table import Table

__all__ = ["find_left_out", "side_by_side", "sides_by_section"]

NOT_BESIDE = ("counters", "longest-gaps", "memory")
OF_OWN_TIME = ("busy", "overlap")  # sections whose percentages are of the time of each device: they do not add up
Row = dict[str, Any]


@dataclass(frozen=True)
class _Beside:
    """The rows of a section, and the columns that they have."""

    section: str
    rows: list[Row]
    columns: list[Any]


def side_by_side(summary: Summary, sections: Sequence[str], columns: By, limit: int | None = None) -> Table:
    """Return all sections as one table, with at most `limit` rows of each; the summary is divided by `columns` and may
    be divided by more."""
    made = list(_pivot_all(summary, sections, columns))
    every = _order({value: None for one in made for value in one.columns})
    names = ["section", "name", *_others(summary, columns), "count", "total_ns", "percent"]
    rows = [{**row, "section": one.section} for one in made for row in one.rows[:limit]]
    left = sum(len(one.rows) for one in made) - len(rows)
    return _make_table(names, rows, columns, every, left)


def sides_by_section(
    summary: Summary, sections: Sequence[str], columns: By, limit: int | None = None
) -> Iterator[tuple[str, Table]]:
    """Yield each section that has rows, with its table."""
    for one in _pivot_all(summary, sections, columns):
        names = ["name", *_others(summary, columns), "count", "total_ns", "percent"]
        rows = one.rows[:limit]
        used = [name for name in names if any(row.get(name) is not None for row in rows)]
        yield one.section, _make_table(used, rows, columns, one.columns, len(one.rows) - len(rows))


def find_left_out(summary: Summary, sections: Sequence[str], columns: By) -> list[str]:
    """Return the sections that have rows but no form with such columns."""
    return [name for name in rows_by_section(summary, sections) if not _is_divided(name, columns)]


def _is_divided(section: str, columns: By) -> bool:
    return section not in NOT_BESIDE and columns in DIVIDES.get(section, tuple(By))


def _others(summary: Summary, columns: By) -> list[str]:
    return [by.value for by in summary.by if by != columns]


def _pivot_all(summary: Summary, sections: Sequence[str], columns: By) -> Iterator[_Beside]:
    for section, rows in rows_by_section(summary, sections).items():
        if _is_divided(section, columns):
            yield _pivot(section, rows, columns.value, _others(summary, columns))


def _pivot(section: str, rows: Sequence[Row], column: str, others: Sequence[str]) -> _Beside:
    """Return rows of equal names as one, with what each had as cells; the largest total first."""
    made: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        key = row["name"], *(row.get(name) for name in others)
        one = made.setdefault(key, {"name": row["name"], **{name: row.get(name) for name in others}, "cells": {}})
        value = row.get(column)
        one["cells"][value] = one["cells"].get(value, 0) + row["total_ns"]
        one["total_ns"] = one.get("total_ns", 0) + row["total_ns"]
        one["count"] = None if row.get("count") is None else (one.get("count") or 0) + row["count"]
        adds_up = row.get("percent") is not None and section not in OF_OWN_TIME
        one["percent"] = one.get("percent", 0.0) + row["percent"] if adds_up else None
    ordered = sorted(made.values(), key=lambda row: (-row["total_ns"], row["name"]))
    return _Beside(section, ordered, _order({value: None for row in ordered for value in row["cells"]}))


def _order(values: dict[Any, None]) -> list[Any]:
    """Return values in their order; none comes last."""
    return sorted(values, key=lambda value: (value is None, value))


def _make_table(names: Sequence[str], rows: Sequence[Row], by: By, values: Sequence[Any], left: int) -> Table:
    heads = [f"(no {by.value})_ns" if value is None else f"{by.value} {value}_ns" for value in values]
    cells = [[*(row.get(name) for name in names), *(row["cells"].get(value) for value in values)] for row in rows]
    made = Table.from_rows([*names, *heads], cells)
    return Table(made.columns, left)
