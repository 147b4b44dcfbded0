"""SQL typed in a page: which tables there are, and answers to queries.

The engines are those of `callgrove sql`: they read only, open no file, and know nothing but the tables of the input.
"""

from __future__ import annotations

from itertools import islice
from math import nan
from typing import Any

import numpy as np

from callgrove.model.experiment import Experiment
from callgrove.model.study.series import Study
from callgrove.model.table import Table
from callgrove.query.sql import sql, table_list
from callgrove.render.text_formats import json_value
from callgrove.viewer.page import Panel, Texts
from callgrove.viewer.server.looks import Look, Looks
from callgrove.viewer.server.parameters import Parameters

__all__ = ["answer_sql", "make_sql"]

SECONDS = 20.0  # that a query may take: the input answers nothing else meanwhile
MOST_ROWS = 5_000  # of an answer

Document = dict[str, Any]


def _open_looked_at(looks: Looks, look: Look) -> Experiment | Study:
    """Return what is asked: with the metrics that were typed, and all call paths."""
    return looks.opened if isinstance(looks.opened, Study) else looks.experiment(Look(derive=look.derive))


def make_sql(looks: Looks, look: Look) -> list[Panel]:
    """Return the panel with the tables that can be asked, and queries to begin with."""
    listed = table_list([_open_looked_at(looks, look)])
    tables: dict[str, Document] = {}
    for name, kind, column, type_, meaning in listed.rows():
        table = tables.setdefault(name, {"name": name, "kind": kind, "meaning": meaning, "columns": []})
        table["columns"].append((column, type_))
    metric = "'" + looks.first_metric.replace("'", "''") + "'"
    examples = [query.format(metric=metric) for table, query in EXAMPLES if table in tables]
    return [Panel("sql", "SQL", {"tables": list(tables.values()), "examples": examples})]


EXAMPLES = (
    ("contexts", "SELECT kind, count(*) AS n FROM contexts GROUP BY kind ORDER BY n DESC"),
    (
        "exclusive_values",
        "SELECT c.name, m.name AS metric, sum(v.value) AS cost FROM exclusive_values v "
        "JOIN contexts c ON c.context = v.context JOIN metrics m ON m.metric = v.metric "
        "WHERE m.name = {metric} GROUP BY c.name, m.name ORDER BY cost DESC LIMIT 20",
    ),
    (
        "spans",
        "SELECT name, count(*) AS n, sum(end_ns - start_ns) AS total_ns FROM spans "
        "GROUP BY name ORDER BY total_ns DESC LIMIT 20",
    ),
    ("series", "SELECT * FROM series LIMIT 20"),
    ("profiles", "SELECT * FROM profiles LIMIT 20"),
)


def answer_sql(looks: Looks, look: Look, parameters: Parameters) -> Document:
    """Return the first rows of the answer to a query; cells as `sql --format csv` writes them, and as numbers."""
    with sql(_open_looked_at(looks, look), parameters.text("query"), seconds=SECONDS) as answer:
        rows = list(islice(answer.rows(), MOST_ROWS + 1))
        table = Table.from_rows(answer.names, rows[:MOST_ROWS])
        notes = list(answer.left_out)
        empty = [name for name, n in answer.loaded.items() if not n]
    if len(rows) > MOST_ROWS:
        notes.append(f"These are the first {MOST_ROWS:,} rows; `callgrove sql` prints all of them.")
    if empty:
        notes.append(f"This input has nothing for {' and '.join(empty)}.")
    columns = [
        {"name": name, "text": Texts([*map(_as_text, cells)]), "number": np.array([*map(_as_number, cells)], float)}
        for name, cells in ((column.name, column.plain()) for column in table.columns)
    ]
    return {"columns": columns, "n": len(table), "notes": [looks.spell(note) for note in notes]}


def _as_text(cell: object) -> str:
    """Return a cell as CSV has it, without quotes."""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, dict | list | tuple):
        return json_value(cell)
    return "" if cell is None else str(cell)


def _as_number(cell: object) -> float:
    return float(cell) if isinstance(cell, int | float) and not isinstance(cell, bool) else nan
